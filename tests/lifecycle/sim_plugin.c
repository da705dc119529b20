/* SPDX-License-Identifier: Apache-2.0 */
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

/* Not what the provider refuses. */
static bool is_mounted(const struct sim *sim, int volume, int node)
{
	for (int i = 0; i < SIM_ENTRIES && sim->nodes[node].powered && !sim_is_refused(sim, node, volume);
	     i++)
		if (sim->nodes[node].entries[i].phase == SIM_MOUNTED &&
		    sim->nodes[node].entries[i].volume == volume)
			return true;
	return false;
}

static bool is_attached(const struct sim_volume *volume)
{
	for (int i = 0; i < SIM_NODES; i++)
		if (volume->attached[i])
			return true;
	return false;
}

/* The volume's name in the simulation travels as a parameter; the provider takes it as its own id. */
static struct sim_volume *volume_to_make(struct sim *sim,
					 const Holdfast__V1__ControllerCreateRequest *request)
{
	for (size_t i = 0; i < request->n_parameters; i++)
		if (str_eq(request->parameters[i]->key, "id"))
			return &sim->volumes[sim_volume_of(sim, request->parameters[i]->value)];
	sim_fail(sim, "the provider is asked for volume %s without its parameters", request->name);
}

static void take_create(struct sim *sim, const Holdfast__V1__ControllerCreateRequest *request,
			Holdfast__V1__PluginReply *reply, Holdfast__V1__ControllerCreateResponse *response)
{
	struct sim_volume *volume = volume_to_make(sim, request);

	if (!volume->exists)
		volume->capacity = request->capacity_min;
	volume->exists = true;
	response->external_id = volume->id;
	response->capacity = volume->capacity;
	reply->create = response;
}

static void take_delete(struct sim *sim, const Holdfast__V1__ControllerDeleteRequest *request,
			Holdfast__V1__PluginReply *reply)
{
	int number = sim_volume_of(sim, request->external_id);
	struct sim_volume *volume = &sim->volumes[number];

	if (is_attached(volume) && oracle_excuses(sim, number)) {
		refuse(reply, STATUS_FAILED_PRECONDITION); /* as a provider does */
		return;
	}
	for (int i = 0; i < SIM_NODES; i++)
		if (is_mounted(sim, number, i) && !oracle_is_of_past(&sim->nodes[i], number))
			sim_fail(sim, "volume %s is deleted while it is mounted on %s", volume->id,
				 sim->nodes[i].id);
	if (is_attached(volume))
		sim_fail(sim, "volume %s is deleted while it is attached", volume->id);
	volume->exists = false;
}

static void take_expand(struct sim *sim, const Holdfast__V1__ControllerExpandRequest *request,
			Holdfast__V1__PluginReply *reply, Holdfast__V1__ControllerExpandResponse *response)
{
	struct sim_volume *volume = &sim->volumes[sim_volume_of(sim, request->external_id)];

	if (!volume->exists) {
		refuse(reply, STATUS_NOT_FOUND);
		return;
	}
	if (volume->capacity < request->capacity_min)
		volume->capacity = request->capacity_min;
	response->capacity = volume->capacity;
	response->node_expansion_required = true;
	reply->expand = response;
}

static void take_node_expand(struct sim_node *node, const Holdfast__V1__NodeExpandRequest *request,
			     Holdfast__V1__PluginReply *reply, Holdfast__V1__NodeExpandResponse *response)
{
	int number = sim_volume_of(node->sim, request->external_id);

	response->bytes = node->sim->volumes[number].capacity;
	reply->node_expand = response;
	if (!is_mounted(node->sim, number, node->number))
		refuse(reply, STATUS_NOT_FOUND);
}

static void take_snapshot(struct sim *sim, const Holdfast__V1__ControllerCreateSnapshotRequest *request,
			  Holdfast__V1__PluginReply *reply,
			  Holdfast__V1__ControllerCreateSnapshotResponse *response)
{
	struct sim_snapshot *slot = NULL;

	for (int i = SIM_SNAPSHOTS - 1; i >= 0; i--)
		if (sim->snapshots[i].name[0] == '\0')
			slot = &sim->snapshots[i];
	for (int i = 0; i < SIM_SNAPSHOTS; i++)
		if (str_eq(sim->snapshots[i].name, request->name))
			slot = &sim->snapshots[i];
	if (!slot) {
		refuse(reply, STATUS_RESOURCE_EXHAUSTED);
		return;
	}
	(void)str_copy(slot->name, sizeof(slot->name), request->name);
	slot->volume = sim_volume_of(sim, request->external_id);
	response->snapshot->snapshot_id = slot->name;
	response->snapshot->external_source_id = request->external_id;
	response->snapshot->ready = true;
	reply->create_snapshot = response;
}

static void take_snapshot_delete(struct sim *sim,
				 const Holdfast__V1__ControllerDeleteSnapshotRequest *request)
{
	for (int i = 0; i < SIM_SNAPSHOTS; i++)
		if (str_eq(sim->snapshots[i].name, request->snapshot_id))
			sim->snapshots[i].name[0] = '\0';
}

static void take_attach(struct sim *sim, const Holdfast__V1__ControllerAttachRequest *request,
			Holdfast__V1__PluginReply *reply)
{
	struct sim_volume *volume = &sim->volumes[sim_volume_of(sim, request->external_id)];

	if (!volume->exists) {
		refuse(reply, STATUS_NOT_FOUND);
		return;
	}
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

	if (is_mounted(sim, number, target) && !oracle_is_of_past(&sim->nodes[target], number))
		sim_fail(sim, "volume %s is detached from %s, where it is mounted", volume->id,
			 sim->nodes[target].id);
	if (volume->detach_fails) {
		refuse(reply, STATUS_UNAVAILABLE);
		return;
	}
	volume->attached[target] = false;
	sim->counts[COUNT_DETACHED]++;
}

/* Of "192.0.2.N/32". */
static bool *refusal_of(struct sim *sim, const char *cidr)
{
	char text[24];

	for (int i = 0; i < SIM_NODES; i++) {
		(void)str_format(text, sizeof(text), "192.0.2.%d/32", i);
		if (str_eq(text, cidr))
			return &sim->refused[i];
	}
	sim_fail(sim, "the provider is asked to refuse %s, which is no node", cidr);
}

/* One in six calls fails, half of them after it was carried out. */
static void take_refusals(struct sim *sim, char *const *cidrs, size_t n, bool refused,
			  Holdfast__V1__PluginReply *reply)
{
	uint64_t pick = sim_random(sim, 12);

	for (size_t i = 0; i < n && pick > 0; i++)
		*refusal_of(sim, cidrs[i]) = refused;
	if (pick < 2)
		refuse(reply, STATUS_INTERNAL);
	else
		sim->counts[refused ? COUNT_NETWORK_FENCED : COUNT_LIFTED]++;
}

/* One list in six is empty, which proves no fence; the next lift reads it again. */
static void take_list(struct sim *sim, char (*texts)[24], char **list,
		      Holdfast__V1__ListFencedResponse *response)
{
	bool is_empty = sim_random(sim, 6) == 0;

	response->cidrs = list;
	for (int i = 0; i < SIM_NODES && !is_empty; i++) {
		if (!sim->refused[i])
			continue;
		(void)str_format(texts[i], sizeof(texts[i]), "192.0.2.%d/32", i);
		list[response->n_cidrs++] = texts[i];
	}
}

/* Memory of whatever is answered. */
struct answers {
	Holdfast__V1__FenceNetworkResponse fence_network;
	Holdfast__V1__UnfenceNetworkResponse unfence_network;
	Holdfast__V1__ListFencedResponse list_fenced;
	char cidrs[SIM_NODES][24], *cidr_list[SIM_NODES];
	Holdfast__V1__ControllerAttachResponse attach;
	Holdfast__V1__ControllerDetachResponse detach;
	Holdfast__V1__ControllerValidateResponse validate;
	Holdfast__V1__ControllerCreateResponse create;
	Holdfast__V1__ControllerDeleteResponse delete;
	Holdfast__V1__ControllerExpandResponse expand;
	Holdfast__V1__NodeExpandResponse node_expand;
	Holdfast__V1__ControllerCreateSnapshotResponse create_snapshot;
	Holdfast__V1__ControllerDeleteSnapshotResponse delete_snapshot;
	Holdfast__V1__ExternalSnapshot snapshot;
};

static const struct answers no_answers = {
	.fence_network = HOLDFAST__V1__FENCE_NETWORK_RESPONSE__INIT,
	.unfence_network = HOLDFAST__V1__UNFENCE_NETWORK_RESPONSE__INIT,
	.list_fenced = HOLDFAST__V1__LIST_FENCED_RESPONSE__INIT,
	.attach = HOLDFAST__V1__CONTROLLER_ATTACH_RESPONSE__INIT,
	.detach = HOLDFAST__V1__CONTROLLER_DETACH_RESPONSE__INIT,
	.validate = HOLDFAST__V1__CONTROLLER_VALIDATE_RESPONSE__INIT,
	.create = HOLDFAST__V1__CONTROLLER_CREATE_RESPONSE__INIT,
	.delete = HOLDFAST__V1__CONTROLLER_DELETE_RESPONSE__INIT,
	.expand = HOLDFAST__V1__CONTROLLER_EXPAND_RESPONSE__INIT,
	.node_expand = HOLDFAST__V1__NODE_EXPAND_RESPONSE__INIT,
	.create_snapshot = HOLDFAST__V1__CONTROLLER_CREATE_SNAPSHOT_RESPONSE__INIT,
	.delete_snapshot = HOLDFAST__V1__CONTROLLER_DELETE_SNAPSHOT_RESPONSE__INIT,
	.snapshot = HOLDFAST__V1__EXTERNAL_SNAPSHOT__INIT,
};

/* Calls that make, change and unmake volumes and snapshots. */
static void take_other(struct sim_node *node, const Holdfast__V1__PluginCall *call, struct answers *answers,
		       Holdfast__V1__PluginReply *reply)
{
	struct sim *sim = node->sim;

	switch ((int)call->request_case) {
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE:
		take_create(sim, call->create, reply, &answers->create);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE:
		reply->delete_ = &answers->delete;
		take_delete(sim, call->delete_, reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_EXPAND:
		take_expand(sim, call->expand, reply, &answers->expand);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND:
		take_node_expand(node, call->node_expand, reply, &answers->node_expand);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE_SNAPSHOT:
		answers->create_snapshot.snapshot = &answers->snapshot;
		take_snapshot(sim, call->create_snapshot, reply, &answers->create_snapshot);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE_SNAPSHOT:
		reply->delete_snapshot = &answers->delete_snapshot;
		take_snapshot_delete(sim, call->delete_snapshot);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_FENCE_NETWORK:
		reply->fence_network = &answers->fence_network;
		take_refusals(sim, call->fence_network->cidrs, call->fence_network->n_cidrs, true, reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_UNFENCE_NETWORK:
		reply->unfence_network = &answers->unfence_network;
		take_refusals(sim, call->unfence_network->cidrs, call->unfence_network->n_cidrs, false,
			      reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_FENCED:
		reply->list_fenced = &answers->list_fenced;
		take_list(sim, answers->cidrs, answers->cidr_list, &answers->list_fenced);
		break;
	default:
		sim_fail(sim, "the plugin is asked for call %d", (int)call->request_case);
	}
}

void sim_plugin_call(struct sim_node *node, const Holdfast__V1__PluginCall *call)
{
	Holdfast__V1__PluginReply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;
	struct answers answers = no_answers;
	struct sim *sim = node->sim;

	reply.call_id = call->call_id;
	reply.response_case = (Holdfast__V1__PluginReply__ResponseCase)call->request_case; /* same numbers */
	switch ((int)call->request_case) {
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH:
		reply.attach = &answers.attach;
		take_attach(sim, call->attach, &reply);
		if (sim->volumes[sim_volume_of(sim, call->attach->external_id)].attach_hangs) {
			sim->hanging++;
			return;
		}
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH:
		reply.detach = &answers.detach;
		take_detach(sim, call->detach, &reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE:
		answers.validate.confirmed = true;
		reply.validate = &answers.validate;
		break;
	default:
		take_other(node, call, &answers, &reply);
		break;
	}
	if (reply.code != 0)
		reply.response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE__NOT_SET;
	answer(node, &reply);
}
