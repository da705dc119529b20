#include "sim.h"

#include "base/str.h"

#include <string.h>

static int node_of(const struct sim *sim, const char *provider_node_id)
{
	char id[NODE_ID_MAX + 16];

	for (int i = 0; i < SIM_NODES; i++) {
		(void)str_format(id, sizeof(id), "provider-%s", sim->nodes[i].id);
		if (str_eq(id, provider_node_id))
			return i;
	}
	sim_fail(sim, "the provider is asked about node '%s', which is no id of its own", provider_node_id);
}

static void answer(struct sim_node *node, Holdfast__V1__PluginReply *reply)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;

	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY;
	up.reply = reply;
	if (node->stream)
		(void)rpc_stream_send(node->stream, &up.base, NULL);
}

static void refuse(Holdfast__V1__PluginReply *reply, enum status status)
{
	static char message[] = "the provider is not reachable";

	reply->code = (int32_t)status;
	reply->message = message;
}

static bool is_mounted(const struct sim *sim, int volume, int node)
{
	for (int i = 0; i < SIM_ENTRIES && sim->nodes[node].powered; i++)
		if (sim->nodes[node].entries[i].phase == SIM_MOUNTED &&
		    sim->nodes[node].entries[i].volume == volume)
			return true;
	return false;
}

static void take_attach(struct sim *sim, const Holdfast__V1__ControllerAttachRequest *request,
			Holdfast__V1__PluginReply *reply)
{
	struct sim_volume *volume = &sim->volumes[sim_volume_of(sim, request->external_id)];

	volume->attached[node_of(sim, request->external_node_id)] =
		true; /* also when it says that it failed */
	sim->counts[COUNT_ATTACHED]++;
	if (volume->attach_fails)
		refuse(reply, STATUS_INTERNAL);
}

static void take_detach(struct sim *sim, const Holdfast__V1__ControllerDetachRequest *request,
			Holdfast__V1__PluginReply *reply)
{
	int number = sim_volume_of(sim, request->external_id);
	int target = node_of(sim, request->external_node_id);
	struct sim_volume *volume = &sim->volumes[number];

	if (is_mounted(sim, number, target))
		sim_fail(sim, "volume %s is detached from %s, where it is mounted", volume->id,
			 sim->nodes[target].id);
	if (volume->detach_fails) {
		refuse(reply, STATUS_UNAVAILABLE);
		return;
	}
	volume->attached[target] = false;
	sim->counts[COUNT_DETACHED]++;
}

void sim_plugin_call(struct sim_node *node, const Holdfast__V1__PluginCall *call)
{
	Holdfast__V1__PluginReply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;
	Holdfast__V1__ControllerAttachResponse attached = HOLDFAST__V1__CONTROLLER_ATTACH_RESPONSE__INIT;
	Holdfast__V1__ControllerDetachResponse detached = HOLDFAST__V1__CONTROLLER_DETACH_RESPONSE__INIT;
	Holdfast__V1__ControllerValidateResponse validated = HOLDFAST__V1__CONTROLLER_VALIDATE_RESPONSE__INIT;

	reply.call_id = call->call_id;
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH) {
		take_attach(node->sim, call->attach, &reply);
		reply.response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_ATTACH;
		reply.attach = &attached;
	} else if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH) {
		take_detach(node->sim, call->detach, &reply);
		reply.response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_DETACH;
		reply.detach = &detached;
	} else if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE) {
		validated.confirmed = true;
		reply.response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_VALIDATE;
		reply.validate = &validated;
	} else {
		sim_fail(node->sim, "the plugin is asked for call %d", (int)call->request_case);
	}
	if (reply.code != 0)
		reply.response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE__NOT_SET;
	answer(node, &reply);
}
