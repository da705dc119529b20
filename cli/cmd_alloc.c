/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pages.h"
#include "pick.h"
#include "show.h"
#include "spec.h"
#include "values.h"
#include "wait.h"

#include "base/id.h"
#include "base/str.h"
#include "conf/conf.h"

#include <assert.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <string.h>

#define WAIT_DEFAULT_US (UINT64_C(300) * USEC_PER_SEC)

static const ProtobufCServiceDescriptor *const allocations = &holdfast__v1__allocations__descriptor;

static enum status load_alloc(struct invocation *inv, Holdfast__V1__Allocation **ret, struct error *err)
{
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	struct conf *conf = NULL;
	enum status status;

	if (inv->options[OPT_ID] && !id_is_uuid(inv->options[OPT_ID]))
		return usage_error(inv, err, "--id must be a UUID in lower case, not '%s'",
				   inv->options[OPT_ID]);
	status = conf_load(inv->args[0], &conf, err);
	if (status == STATUS_OK)
		status = spec_alloc(conf, &alloc, err);
	conf_free(conf);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NAMESPACE, &alloc->namespace_, err);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_NODE, &alloc->node_id, err);
	if (status == STATUS_OK)
		status = option_apply(inv, OPT_ID, &alloc->id, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(alloc);
	return status;
}

/* Complete the node's id. One that the server does not know stays: the refusal is the server's. */
static enum status complete_node(struct connection *connection, Holdfast__V1__Allocation *alloc,
				 struct error *err)
{
	char node[PICK_ID_SIZE];
	enum status status;
	char *copy;

	assert(alloc);
	if (!alloc->node_id[0])
		return STATUS_OK;
	status = pick_node(connection, alloc->node_id, node, err);
	if (status == STATUS_NOT_FOUND)
		return STATUS_OK;
	if (status != STATUS_OK || str_eq(node, alloc->node_id))
		return status;
	copy = strdup(node);
	if (!copy)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "node %s", node);
	free(alloc->node_id);
	alloc->node_id = copy;
	return STATUS_OK;
}

/* Wait for @goal and print how it ended. */
static enum status finish(struct invocation *inv, struct connection *connection,
			  const Holdfast__V1__Allocation *known, enum wait_goal goal, struct error *err)
{
	cleanup_message Holdfast__V1__GetAllocationResponse *answer = NULL;
	uint64_t timeout_us;
	enum status status = value_timeout(inv, WAIT_DEFAULT_US, &timeout_us, err);
	enum status printed = STATUS_OK;

	if (status == STATUS_OK)
		status = wait_alloc(connection, known, goal, timeout_us, &answer, err);
	if (answer && inv->options[OPT_JSON])
		printed = print_answer(&answer->base, status == STATUS_OK ? err : NULL);
	if (status != STATUS_OK || inv->options[OPT_JSON])
		return status != STATUS_OK ? status : printed;
	assert(answer);
	return show_alloc(answer->allocation, answer->node_disconnected_ms, err);
}

/* Why not elsewhere is in the details of a refusal, which main() prints. */
static enum status print_placement(struct invocation *inv, const Holdfast__V1__RunAllocationResponse *answer,
				   struct error *err)
{
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("it would run on node %s; nothing was changed", answer->allocation->node_id);
	return STATUS_OK;
}

enum status cmd_alloc_run(struct invocation *inv, struct error *err)
{
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	cleanup_message Holdfast__V1__RunAllocationResponse *answer = NULL;
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	cleanup_connection struct connection *connection = NULL;
	uint64_t timeout_us;
	enum status status = value_timeout(inv, WAIT_DEFAULT_US, &timeout_us, err);

	if (status == STATUS_OK)
		status = load_alloc(inv, &alloc, err);
	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = complete_node(connection, alloc, err);
	if (status != STATUS_OK)
		return status;
	request.allocation = alloc;
	request.dry_run = inv->options[OPT_DRY_RUN] != NULL;
	status = connection_call(connection, allocations, "Run", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return spec_blame(inv, status, err);
	if (!answer->allocation)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no allocation");
	if (request.dry_run)
		return print_placement(inv, answer, err);
	if (!inv->options[OPT_NO_WAIT])
		return finish(inv, connection, answer->allocation, WAIT_RUNNING, err);
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("allocation %s is accepted", answer->allocation->id);
	if (!alloc->node_id[0])
		print_line("it is placed on node %s", answer->allocation->node_id);
	return STATUS_OK;
}

/* Nobody can stop anything there meanwhile; what may be done about it is said before any waiting. */
static void warn_of_node(const Holdfast__V1__Allocation *alloc, int64_t disconnected_ms)
{
	char age[AGE_SIZE];

	print_line("node %s has not been connected for %s: allocation %s may run on there, and keeps its "
		   "volumes "
		   "until the node is back and has stopped it.",
		   alloc->node_id, age_text(disconnected_ms, clock_realtime_ms(), age), alloc->id);
	print_line(
		"Next: holdfast node status %s. If it cannot be brought back, make sure that it is off; then "
		"holdfast node attest %s VOLUME... frees them",
		alloc->node_id, alloc->node_id);
}

enum status cmd_alloc_stop(struct invocation *inv, struct error *err)
{
	Holdfast__V1__StopAllocationRequest request = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;
	cleanup_message Holdfast__V1__StopAllocationResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	uint64_t timeout_us;
	enum status status = value_timeout(inv, WAIT_DEFAULT_US, &timeout_us, err);

	if (status == STATUS_OK)
		status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_alloc(connection, inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	status = connection_call(connection, allocations, "Stop", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (!answer->allocation)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no allocation");
	if (answer->node_disconnected_ms && !alloc_is_terminal(answer->allocation) && !inv->options[OPT_JSON])
		warn_of_node(answer->allocation, answer->node_disconnected_ms);
	/* what had ended before is stopped, however it ended */
	if (!inv->options[OPT_NO_WAIT] && !alloc_is_terminal(answer->allocation))
		return finish(inv, connection, answer->allocation, WAIT_TERMINAL, err);
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("allocation %s %s", id,
		   alloc_is_terminal(answer->allocation) ? "has ended" : "is being stopped");
	return STATUS_OK;
}

static enum status list_allocs(struct invocation *inv, struct connection *connection, struct error *err)
{
	Holdfast__V1__ListAllocationsRequest request = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListAllocationsResponse *answer = NULL;
	char node[PICK_ID_SIZE];
	enum status status = STATUS_OK;

	if (inv->options[OPT_NODE]) {
		status = pick_known_node(connection, inv->options[OPT_NODE], node, err);
		request.node_id = node;
	}
	request.namespace_ = option_text(inv, OPT_NAMESPACE);
	request.filter = option_text(inv, OPT_FILTER);
	if (status == STATUS_OK)
		status = pages_call(connection, inv, allocations, "List", &request.base, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_allocs(answer->allocations, answer->n_allocations, NULL,
			     inv->options[OPT_VERBOSE] != NULL, err);
	pages_tell_rest(&answer->base);
	return status;
}

enum status cmd_alloc_status(struct invocation *inv, struct error *err)
{
	Holdfast__V1__GetAllocationRequest request = HOLDFAST__V1__GET_ALLOCATION_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetAllocationResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	enum status status;

	if ((inv->options[OPT_NODE] || inv->options[OPT_FILTER]) && inv->n_args > 0)
		return usage_error(inv, err, "--%s is for the list: give it without an ID",
				   inv->options[OPT_NODE] ? "node" : "filter");
	status = connect_server(inv, &connection, err);
	if (status == STATUS_OK && inv->n_args == 0)
		return list_allocs(inv, connection, err);
	if (status == STATUS_OK)
		status = pick_alloc(connection, inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	status = connection_call(connection, allocations, "Get", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_alloc(answer->allocation, answer->node_disconnected_ms, err);
	if (status == STATUS_OK)
		status = show_claims(answer->claims, answer->n_claims, "claims",
				     inv->options[OPT_VERBOSE] != NULL, err);
	if (status == STATUS_OK)
		show_claim_errors(answer->claims, answer->n_claims);
	return status;
}
