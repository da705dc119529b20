/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pages.h"
#include "pick.h"
#include "show.h"

#include <holdfast/v1/nodes.pb-c.h>

static const ProtobufCServiceDescriptor *const nodes = &holdfast__v1__nodes__descriptor;

static enum status list_nodes(struct invocation *inv, struct connection *connection, struct error *err)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListNodesResponse *answer = NULL;
	enum status status;

	request.filter = option_text(inv, OPT_FILTER);
	status = pages_call(connection, inv, nodes, "List", &request.base, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_nodes(answer->nodes, answer->n_nodes, inv->options[OPT_VERBOSE] != NULL, err);
	pages_tell_rest(&answer->base);
	return status;
}

enum status cmd_node_status(struct invocation *inv, struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	bool verbose = inv->options[OPT_VERBOSE] != NULL;
	enum status status;

	if (inv->n_args > 0 && inv->options[OPT_FILTER])
		return usage_error(inv, err, "--filter is for the list: give it without an ID");
	status = connect_server(inv, &connection, err);
	if (status == STATUS_OK && inv->n_args == 0)
		return list_nodes(inv, connection, err);
	if (status == STATUS_OK)
		status = pick_node(connection, inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	status = connection_call(connection, nodes, "Get", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_node(answer->node, verbose, err);
	if (status == STATUS_OK)
		status = show_allocs(answer->allocations, answer->n_allocations, "allocations", verbose, err);
	if (status == STATUS_OK)
		status = show_claims(answer->claims, answer->n_claims, "claims", verbose, err);
	if (status == STATUS_OK)
		show_claim_errors(answer->claims, answer->n_claims);
	return status;
}

enum status cmd_node_eligibility(struct invocation *inv, struct error *err)
{
	Holdfast__V1__SetEligibilityRequest request = HOLDFAST__V1__SET_ELIGIBILITY_REQUEST__INIT;
	cleanup_message Holdfast__V1__SetEligibilityResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	enum status status;

	if (!inv->options[OPT_ENABLE] == !inv->options[OPT_DISABLE])
		return usage_error(inv, err, "give either --enable or --disable");
	status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = pick_node(connection, inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	request.eligible = inv->options[OPT_ENABLE] != NULL;
	request.reason = option_text(inv, OPT_REASON);
	status = connection_call(connection, nodes, "SetEligibility", &request.base, CALL_TIMEOUT_US,
				 (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("node %s %s", id,
		   request.eligible ? "is eligible: new allocations may be placed there"
				    : "is ineligible: nothing new is placed there, what runs goes on");
	return STATUS_OK;
}
