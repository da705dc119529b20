/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "pages.h"
#include "pick.h"
#include "show.h"

#include <holdfast/v1/plugins.pb-c.h>

static const ProtobufCServiceDescriptor *const plugins = &holdfast__v1__plugins__descriptor;

static enum status list_plugins(struct invocation *inv, struct connection *connection, struct error *err)
{
	Holdfast__V1__ListPluginsRequest request = HOLDFAST__V1__LIST_PLUGINS_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListPluginsResponse *answer = NULL;
	enum status status = pages_call(connection, inv, plugins, "List", &request.base, &answer, err);

	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	status = show_plugins(answer->plugins, answer->n_plugins, inv->options[OPT_VERBOSE] != NULL, err);
	pages_tell_rest(&answer->base);
	return status;
}

enum status cmd_plugin_status(struct invocation *inv, struct error *err)
{
	Holdfast__V1__GetPluginRequest request = HOLDFAST__V1__GET_PLUGIN_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetPluginResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	char id[PICK_ID_SIZE];
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK && inv->n_args == 0)
		return list_plugins(inv, connection, err);
	if (status == STATUS_OK)
		status = pick_plugin(connection, inv->args[0], id, err);
	if (status != STATUS_OK)
		return status;
	request.id = id;
	status = pages_fetch(connection, plugins, "Get", &request.base, 0, &answer, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	return show_plugin(answer->plugin, inv->options[OPT_VERBOSE] != NULL, err);
}
