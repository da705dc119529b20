#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pick.h"
#include "show.h"

#include <holdfast/v1/nodes.pb-c.h>

static const ProtobufCServiceDescriptor *const nodes = &holdfast__v1__nodes__descriptor;

static enum status list_nodes(struct invocation *inv, struct connection *connection, struct error *err)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListNodesResponse *answer = NULL;
	enum status status = connection_call(connection, nodes, "List", &request.base, CALL_TIMEOUT_US,
					     (ProtobufCMessage **)(void *)&answer, err);

	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	return show_nodes(answer->nodes, answer->n_nodes, err);
}

enum status cmd_node_status(struct invocation *inv, struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	enum status status = connect_server(inv, &connection, err);

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
	status = show_node(answer->node, err);
	if (status == STATUS_OK)
		status = show_allocs(answer->allocations, answer->n_allocations, "allocations", err);
	if (status == STATUS_OK)
		status = show_claims(answer->claims, answer->n_claims, "claims", err);
	return status;
}
