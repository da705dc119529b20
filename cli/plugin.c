/* SPDX-License-Identifier: Apache-2.0 */
#include "call/call.h"
#include "command/commands.h"
#include "show/show.h"

#include <holdfast/v1/plugins.pb-c.h>

enum status plugin_list_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__ListPluginsResponse *answer = message;

	return show_plugins(answer->plugins, answer->n_plugins, call_has(call, OPT_VERBOSE), err);
}

enum status plugin_get_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__GetPluginRequest *request = message;

	return call_pick(call, pick_plugin, call->inv->args[0], &request->id, err);
}

enum status plugin_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetPluginResponse *answer = message;

	return show_plugin(answer->plugin, call_has(call, OPT_VERBOSE), err);
}
