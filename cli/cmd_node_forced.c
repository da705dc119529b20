/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does about a node that cannot speak for itself. */

#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pick.h"
#include "show.h"
#include "values.h"

#include "base/str.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <inttypes.h>
#include <string.h>

#define VALID_MAX_MS (UINT64_C(7) * 86400 * 1000)

static const ProtobufCServiceDescriptor *const nodes = &holdfast__v1__nodes__descriptor;

static enum status get_node(struct connection *connection, char *id, Holdfast__V1__GetNodeResponse **ret,
			    struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;

	request.id = id;
	return connection_call(connection, nodes, "Get", &request.base, CALL_TIMEOUT_US,
			       (ProtobufCMessage **)(void *)ret, err);
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

static enum status purge(struct invocation *inv, struct connection *connection, char *id, char *reason,
			 struct error *err)
{
	Holdfast__V1__PurgeNodeRequest request = HOLDFAST__V1__PURGE_NODE_REQUEST__INIT;
	cleanup_message Holdfast__V1__PurgeNodeResponse *answer = NULL;
	enum status status;

	if (id)
		request.id = id;
	request.unknown = id == NULL;
	request.reason = reason;
	status = connection_call(connection, nodes, "Purge", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	if (id)
		print_line("node %s is forgotten; it is a new one if it comes back", id);
	else
		print_line("no node is missing any more; one that comes back is a new one");
	return STATUS_OK;
}

static enum status print_dry_purge(struct invocation *inv, const Holdfast__V1__GetNodeResponse *answer,
				   struct error *err)
{
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("node %s would be forgotten", answer->node->id);
	return STATUS_OK;
}

/* Nodes that not even the server knows: there is nothing to show. */
static enum status purge_unknown(struct invocation *inv, char *reason, struct error *err)
{
	static const char question[] =
		"Is every node off, or without mounts, that the server does not know since it lost history?";
	cleanup_connection struct connection *connection = NULL;
	enum status status;

	if (inv->n_args > 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "name a node, or say --unknown, not both");
	if (inv->options[OPT_DRY_RUN])
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "--dry-run: there is nothing to show of nodes that are not known; holdfast "
				 "operator status says how many there are");
	status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = value_confirm(inv, question, err);
	return status == STATUS_OK ? purge(inv, connection, NULL, reason, err) : status;
}

enum status cmd_node_purge(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], question[PICK_ID_SIZE + 64];
	char *reason = NULL;
	enum status status = value_reason(inv, OPT_REASON, &reason, err);

	if (status == STATUS_OK && inv->options[OPT_UNKNOWN])
		return purge_unknown(inv, reason, err);
	if (status == STATUS_OK && inv->n_args == 0)
		status = error_set(err, STATUS_INVALID_ARGUMENT, 0, "say which node: its ID, or --unknown");
	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_node(connection, inv->args[0], id, err);
	if (status == STATUS_OK)
		status = value_check_whole(inv, "purge", inv->args[0], id, err);
	if (status == STATUS_OK)
		status = get_node(connection, id, &answer, err);
	if (status == STATUS_OK)
		status = check_purge(inv, answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_DRY_RUN])
		return print_dry_purge(inv, answer, err);
	(void)str_format(question, sizeof(question), "Forget node %s?", id);
	status = value_confirm(inv, question, err);
	return status == STATUS_OK ? purge(inv, connection, id, reason, err) : status;
}

static enum status identify(struct invocation *inv, struct connection *connection,
			    const Holdfast__V1__IdentifyNodeRequest *request, struct error *err)
{
	cleanup_message Holdfast__V1__IdentifyNodeResponse *answer = NULL;
	enum status status = connection_call(connection, nodes, "Identify", &request->base, CALL_TIMEOUT_US,
					     (ProtobufCMessage **)(void *)&answer, err);

	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("node %s is machine %s from now on", request->id, request->machine);
	if (answer->n_claims == 0)
		return STATUS_OK;
	print_line("its former machine may still have these mounted; they stay until that is ruled out: make "
		   "sure "
		   "that it is off, then holdfast node attest %s VOLUME...",
		   request->id);
	return show_claims(answer->claims, answer->n_claims, "kept", true, err);
}

/* Without a machine, the one that was refused is meant. */
static enum status choose_machine(struct invocation *inv, const Holdfast__V1__Node *node, char **ret,
				  struct error *err)
{
	*ret = inv->n_args > 1 ? (char *)(uintptr_t)inv->args[1] : node->other_machine;
	if ((*ret)[0] != '\0')
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "no other machine was refused as node %s; nothing was changed", node->id);
}

enum status cmd_node_identify(struct invocation *inv, struct error *err)
{
	Holdfast__V1__IdentifyNodeRequest request = HOLDFAST__V1__IDENTIFY_NODE_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE], question[2 * PICK_ID_SIZE + 64];
	enum status status = value_reason(inv, OPT_REASON, &request.reason, err);

	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_node(connection, inv->args[0], id, err);
	if (status == STATUS_OK)
		status = value_check_whole(inv, "identify", inv->args[0], id, err);
	if (status == STATUS_OK)
		status = get_node(connection, id, &answer, err);
	if (status == STATUS_OK)
		status = choose_machine(inv, answer->node, &request.machine, err);
	if (status == STATUS_OK && !inv->options[OPT_JSON])
		status = show_node(answer->node, inv->options[OPT_VERBOSE] != NULL, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	(void)str_format(question, sizeof(question), "Is node %s machine %.80s from now on?", id,
			 request.machine);
	status = value_confirm(inv, question, err);
	return status == STATUS_OK ? identify(inv, connection, &request, err) : status;
}

enum { NAMED_SIZE = 2 * PICK_ID_SIZE };

/* The volumes that are named, "ID" or "NAMESPACE/ID". */
struct named_volumes {
	size_t n;
	Holdfast__V1__VolumeRef *refs;
	Holdfast__V1__VolumeRef **list;
	char (*texts)[NAMED_SIZE];
};

static void named_volumes_release(struct named_volumes *volumes)
{
	free(volumes->refs);
	free(volumes->list);
	free(volumes->texts);
}

static enum status name_volume(struct invocation *inv, const char *given, char text[static NAMED_SIZE],
			       Holdfast__V1__VolumeRef *ref, struct error *err)
{
	const char *namespace = inv->options[OPT_NAMESPACE];
	char *slash;

	if (str_copy(text, NAMED_SIZE, given) < 0)
		return usage_error(inv, err, "'%.40s...' is too long for a volume", given);
	slash = strchr(text, '/');
	if (!slash && namespace && str_eq(namespace, "*"))
		return usage_error(inv, err,
				   "with --namespace '*' volumes are named as NAMESPACE/ID, not '%s'", given);
	holdfast__v1__volume_ref__init(ref);
	ref->namespace_ = namespace ? (char *)(uintptr_t) namespace : (char *)(uintptr_t) "default";
	ref->id = text;
	if (!slash)
		return STATUS_OK;
	*slash = '\0';
	ref->namespace_ = text;
	ref->id = slash + 1;
	return STATUS_OK;
}

static enum status name_volumes(struct invocation *inv, struct named_volumes *ret, struct error *err)
{
	size_t n = (size_t)inv->n_args - 1;
	enum status status = STATUS_OK;

	ret->refs = calloc(n, sizeof(*ret->refs));
	ret->list = calloc(n, sizeof(Holdfast__V1__VolumeRef *));
	ret->texts = calloc(n, sizeof(*ret->texts));
	if (!ret->refs || !ret->list || !ret->texts)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "name %zu volumes", n);
	for (; ret->n < n && status == STATUS_OK; ret->n++) {
		status = name_volume(inv, inv->args[ret->n + 1], ret->texts[ret->n], &ret->refs[ret->n], err);
		ret->list[ret->n] = &ret->refs[ret->n];
	}
	return status;
}

/* The server refuses a word that changes nothing. */
static enum status call_attest(struct connection *connection, const Holdfast__V1__AttestNodeRequest *request,
			       Holdfast__V1__AttestNodeResponse **ret, struct error *err)
{
	return connection_call(connection, nodes, "Attest", &request->base, CALL_TIMEOUT_US,
			       (ProtobufCMessage **)(void *)ret, err);
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

static enum status attest(struct invocation *inv, struct connection *connection,
			  Holdfast__V1__AttestNodeRequest *request, struct error *err)
{
	cleanup_message Holdfast__V1__AttestNodeResponse *before = NULL;
	cleanup_message Holdfast__V1__AttestNodeResponse *answer = NULL;
	enum status status;

	request->dry_run = true;
	status = call_attest(connection, request, &before, err);
	if (status == STATUS_OK && inv->options[OPT_DRY_RUN])
		return inv->options[OPT_JSON] ? print_answer(&before->base, err)
					      : show_attest(request, before, "would be freed", err);
	if (status == STATUS_OK && !inv->options[OPT_JSON])
		status = show_attest(request, before, "will be freed", err);
	if (status == STATUS_OK)
		status = value_confirm(
			inv, "If the node still writes, data is lost. Is it certain that it does not?", err);
	if (status != STATUS_OK)
		return status;
	request->dry_run = false;
	status = call_attest(connection, request, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("freed on your word: %zu of the claims of node %s", answer->n_claims, request->id);
	return STATUS_OK;
}

enum status cmd_node_attest(struct invocation *inv, struct error *err)
{
	Holdfast__V1__AttestNodeRequest request = HOLDFAST__V1__ATTEST_NODE_REQUEST__INIT;
	cleanup_connection struct connection *connection = NULL;
	cleanup(named_volumes_release) struct named_volumes volumes = {.n = 0};
	char id[PICK_ID_SIZE];
	enum status status = value_reason(inv, OPT_REASON, &request.reason, err);

	if (status == STATUS_OK)
		status = value_duration(inv, OPT_VALID, 0, VALID_MAX_MS, &request.valid_ms, err);
	if (status == STATUS_OK)
		status = name_volumes(inv, &volumes, err);
	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_known_node(connection, inv->args[0], id, err);
	if (status == STATUS_OK)
		status = value_check_whole(inv, "attest", inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	request.volumes = volumes.list;
	request.n_volumes = volumes.n;
	return attest(inv, connection, &request, err);
}
