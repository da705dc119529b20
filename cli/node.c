/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/output.h"
#include "show/show.h"

#include <errno.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define VALID_MAX_MS (UINT64_C(7) * 86400 * 1000)

enum { NAMED_SIZE = 2 * PICK_ID_SIZE, QUESTION_SIZE = 2 * PICK_ID_SIZE + 64 };

/* --- status, eligibility --- */

enum status node_list_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__ListNodesRequest *request = message;

	(void)err;
	call_set(call, &request->filter, call->inv->options[OPT_FILTER]);
	return STATUS_OK;
}

enum status node_list_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListNodesResponse *answer = message;

	return show_nodes(answer->nodes, answer->n_nodes, call_has(call, OPT_VERBOSE), err);
}

enum status node_get_load(struct call *call, void *message, struct error *err)
{
	(void)message;
	if (call_has(call, OPT_FILTER))
		return usage_error(call->inv, err, "--filter is for the list: give it without an ID");
	return STATUS_OK;
}

enum status node_get_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetNodeRequest *request = message;

	return call_pick(call, pick_node, call->inv->args[0], &request->id, err);
}

enum status node_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetNodeResponse *answer = message;
	bool verbose = call_has(call, OPT_VERBOSE);
	enum status status = show_node(answer->node, verbose, err);

	if (status == STATUS_OK)
		status = show_allocs(answer->allocations, answer->n_allocations, "allocations", verbose, err);
	if (status == STATUS_OK)
		status = show_claims(answer->claims, answer->n_claims, "claims", verbose, err);
	if (status == STATUS_OK)
		show_claim_errors(answer->claims, answer->n_claims);
	return status;
}

enum status node_eligibility_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__SetEligibilityRequest *request = message;

	if (call_has(call, OPT_ENABLE) == call_has(call, OPT_DISABLE))
		return usage_error(call->inv, err, "give either --enable or --disable");
	request->eligible = call_has(call, OPT_ENABLE);
	call_set(call, &request->reason, call->inv->options[OPT_REASON]);
	return STATUS_OK;
}

enum status node_eligibility_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__SetEligibilityRequest *request = message;

	return call_pick(call, pick_node, call->inv->args[0], &request->id, err);
}

enum status node_eligibility_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__SetEligibilityRequest *request = call->request;

	(void)message;
	(void)err;
	print_line("node %s %s", request->id,
		   request->eligible ? "is eligible: new allocations may be placed there"
				     : "is ineligible: nothing new is placed there, what runs goes on");
	return STATUS_OK;
}

/* --- purge, identify: for a node that cannot speak for itself --- */

static enum status get_node(struct connection *connection, char *id, Holdfast__V1__GetNodeResponse **ret,
			    struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;

	request.id = id;
	return connection_call(connection, &holdfast__v1__nodes__descriptor, "Get", &request.base,
			       CALL_TIMEOUT_US, ret, err);
}

static size_t count_held(const Holdfast__V1__GetNodeResponse *answer)
{
	size_t n = 0;

	for (size_t i = 0; i < answer->n_claims; i++)
		n += answer->claims[i]->state != HOLDFAST__V1__CLAIM_STATE__FREED;
	return n;
}

/* Say what the node still has: the server would refuse, and says the same. */
static enum status check_purge(struct invocation *inv, const Holdfast__V1__GetNodeResponse *answer,
			       struct error *err)
{
	size_t held = count_held(answer);
	enum status status = STATUS_OK;

	if (!inv->options[OPT_JSON]) {
		status = show_node(answer->node, inv->options[OPT_VERBOSE] != NULL, err);
		if (status == STATUS_OK)
			status = show_claims(answer->claims, answer->n_claims, "claims", true, err);
	}
	if (status != STATUS_OK || held == 0)
		return status;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "node %s holds %zu claims that a purge would strand; nothing was changed. Next: "
			 "holdfast node "
			 "drain %s if it lives, else holdfast node attest %s VOLUME...",
			 answer->node->id, held, answer->node->id, answer->node->id);
}

static enum status print_dry_purge(struct invocation *inv, const Holdfast__V1__GetNodeResponse *answer,
				   struct error *err)
{
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("node %s would be forgotten", answer->node->id);
	return STATUS_OK;
}

enum status node_purge_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest *request = message;
	bool has_node = call->inv->n_args > 0;
	enum status status = call_reason(call, OPT_REASON, &request->reason, err);

	request->unknown = call_has(call, OPT_UNKNOWN);
	if (status != STATUS_OK || (has_node && !request->unknown))
		return status;
	if (!request->unknown)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "say which node: its ID, or --unknown");
	if (has_node)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "name a node, or say --unknown, not both");
	if (call_has(call, OPT_DRY_RUN))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "--dry-run: there is nothing to show of nodes that are not known; holdfast "
				 "operator status says how many there are");
	return STATUS_OK;
}

/* One that the server knows: what it has is shown first. */
static enum status fill_known(struct call *call, Holdfast__V1__PurgeNodeRequest *request, struct error *err)
{
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	char question[QUESTION_SIZE];
	enum status status = call_pick(call, pick_node, call->inv->args[0], &request->id, err);

	if (status == STATUS_OK)
		status = value_check_whole(call->inv, "purge", call->inv->args[0], request->id, err);
	if (status == STATUS_OK)
		status = get_node(call->connection, request->id, &answer, err);
	if (status == STATUS_OK)
		status = check_purge(call->inv, answer, err);
	if (status != STATUS_OK)
		return status;
	call->is_over = call_has(call, OPT_DRY_RUN);
	if (call->is_over)
		return print_dry_purge(call->inv, answer, err);
	(void)str_format(question, sizeof(question), "Forget node %s?", request->id);
	return value_confirm(call->inv, question, err);
}

enum status node_purge_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest *request = message;

	if (request->unknown)
		return value_confirm(call->inv,
				     "Is every node off, or without mounts, that the server does not know "
				     "since it lost history?",
				     err);
	return fill_known(call, request, err);
}

enum status node_purge_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__PurgeNodeRequest *request = call->request;

	(void)message;
	(void)err;
	if (request->unknown)
		print_line("no node is missing any more; one that comes back is a new one");
	else
		print_line("node %s is forgotten; it is a new one if it comes back", request->id);
	return STATUS_OK;
}

enum status node_identify_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__IdentifyNodeRequest *request = message;

	return call_reason(call, OPT_REASON, &request->reason, err);
}

/* Without a machine, the one that was refused is meant. */
static enum status choose_machine(struct call *call, const Holdfast__V1__Node *node, char **machine,
				  struct error *err)
{
	call_set(call, machine, call->inv->n_args > 1 ? call->inv->args[1] : node->other_machine);
	if ((*machine)[0] != '\0')
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "no other machine was refused as node %s; nothing was changed", node->id);
}

enum status node_identify_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__IdentifyNodeRequest *request = message;
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	char question[QUESTION_SIZE];
	enum status status = call_pick(call, pick_node, call->inv->args[0], &request->id, err);

	if (status == STATUS_OK)
		status = value_check_whole(call->inv, "identify", call->inv->args[0], request->id, err);
	if (status == STATUS_OK)
		status = get_node(call->connection, request->id, &answer, err);
	if (status == STATUS_OK)
		status = choose_machine(call, answer->node, &request->machine, err);
	if (status == STATUS_OK && !call_has(call, OPT_JSON))
		status = show_node(answer->node, call_has(call, OPT_VERBOSE), err);
	if (status != STATUS_OK)
		return status;
	(void)str_format(question, sizeof(question), "Is node %s machine %.80s from now on?", request->id,
			 request->machine);
	return value_confirm(call->inv, question, err);
}

enum status node_identify_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__IdentifyNodeRequest *request = call->request;
	const Holdfast__V1__IdentifyNodeResponse *answer = message;

	print_line("node %s is machine %s from now on", request->id, request->machine);
	if (answer->n_claims == 0)
		return STATUS_OK;
	print_line("its former machine may still have these mounted; they stay until that is ruled out: make "
		   "sure "
		   "that it is off, then holdfast node attest %s VOLUME...",
		   request->id);
	return show_claims(answer->claims, answer->n_claims, "kept", true, err);
}

/* --- attest --- */

/* A volume is named as "ID" or "NAMESPACE/ID". */
static enum status name_volume(struct call *call, const char *given, Holdfast__V1__VolumeRef *ref,
			       struct error *err)
{
	const char *namespace = call->inv->options[OPT_NAMESPACE];
	char text[NAMED_SIZE];
	char *slash;

	if (str_copy(text, sizeof(text), given) < 0)
		return usage_error(call->inv, err, "'%.40s...' is too long for a volume", given);
	slash = strchr(text, '/');
	if (!slash && namespace && str_eq(namespace, "*"))
		return usage_error(call->inv, err,
				   "with --namespace '*' volumes are named as NAMESPACE/ID, not '%s'", given);
	if (slash)
		*slash = '\0';
	call_set(call, &ref->namespace_, slash ? text : namespace ? namespace : "default");
	call_set(call, &ref->id, slash ? slash + 1 : text);
	return STATUS_OK;
}

static enum status name_volumes(struct call *call, Holdfast__V1__AttestNodeRequest *request,
				struct error *err)
{
	size_t n = (size_t)call->inv->n_args - 1;
	enum status status = STATUS_OK;

	request->volumes = calloc(n, sizeof(Holdfast__V1__VolumeRef *));
	for (size_t i = 0; request->volumes && i < n && status == STATUS_OK; i++) {
		request->volumes[i] = message_new(&holdfast__v1__volume_ref__descriptor);
		if (!request->volumes[i])
			break;
		request->n_volumes++;
		status = name_volume(call, call->inv->args[i + 1], request->volumes[i], err);
	}
	if (status == STATUS_OK && request->n_volumes < n)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "name %zu volumes", n);
	return status;
}

enum status node_attest_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__AttestNodeRequest *request = message;
	enum status status = call_reason(call, OPT_REASON, &request->reason, err);

	if (status == STATUS_OK)
		status = value_duration(call->inv, OPT_VALID, 0, VALID_MAX_MS, &request->valid_ms, err);
	return status == STATUS_OK ? name_volumes(call, request, err) : status;
}

static enum status show_attest(const Holdfast__V1__AttestNodeRequest *request,
			       const Holdfast__V1__AttestNodeResponse *answer, const char *title,
			       struct error *err)
{
	if (answer->bypassed[0])
		print_text(stdout, answer->bypassed);
	if (answer->n_claims == 0) {
		print_line("no claim of node %s is freed by it now; it counts %s", request->id,
			   request->valid_ms > 0 ? "for those that are released while it is valid"
						 : "as proof that the node holds none of these volumes "
						   "since the restore");
		return STATUS_OK;
	}
	return show_claims(answer->claims, answer->n_claims, title, true, err);
}

/* Show what it would free, and ask. The server refuses an attestation that changes nothing. */
static enum status confirm_attest(struct call *call, Holdfast__V1__AttestNodeRequest *request,
				  struct error *err)
{
	cleanup_message Holdfast__V1__AttestNodeResponse *answer = NULL;
	enum status status;

	request->dry_run = true;
	status = call_method(call, &answer, err);
	request->dry_run = false;
	if (status == STATUS_OK && !call_has(call, OPT_JSON))
		status = show_attest(request, answer, "will be freed", err);
	if (status != STATUS_OK)
		return status;
	return value_confirm(call->inv,
			     "If the node still writes, data is lost. Is it certain that it does not?", err);
}

enum status node_attest_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__AttestNodeRequest *request = message;
	enum status status = call_pick(call, pick_known_node, call->inv->args[0], &request->id, err);

	request->dry_run = call_has(call, OPT_DRY_RUN);
	if (status == STATUS_OK)
		status = value_check_whole(call->inv, "attest", call->inv->args[0], request->id, err);
	if (status == STATUS_OK && !request->dry_run)
		status = confirm_attest(call, request, err);
	return status;
}

enum status node_attest_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__AttestNodeRequest *request = call->request;
	const Holdfast__V1__AttestNodeResponse *answer = message;

	if (request->dry_run)
		return show_attest(request, answer, "would be freed", err);
	print_line("freed on your word: %zu of the claims of node %s", answer->n_claims, request->id);
	return STATUS_OK;
}
