/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "show.h"

enum status cmd_agent_status(struct invocation *inv, struct error *err)
{
	Holdfast__V1__GetAgentStatusRequest request = HOLDFAST__V1__GET_AGENT_STATUS_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetAgentStatusResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	enum status status = connect_agent(inv, &connection, err);

	if (status == STATUS_OK)
		status =
			connection_call(connection, &holdfast__v1__agent__descriptor, "Status", &request.base,
					CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	return inv->options[OPT_JSON] ? print_answer(&answer->base, err)
				      : show_agent(answer, inv->options[OPT_VERBOSE] != NULL, err);
}
