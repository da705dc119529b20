/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/call.h"

#include "server.h"

#include "base/str.h"
#include "plugin/args.h"
#include "plugin/plugins.h"

#include <string.h>

/* A volume was registered only while a node had its plugin. */
static enum status no_such_plugin(struct server *server, const char *plugin_id, struct error *err)
{
	const struct plugin_entry *entry = state_plugin(&server->state, plugin_id);

	if (entry && entry->n_volumes > 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "plugin_id: no node has plugin %.128s, which %zu volumes name; start it "
				 "again, or see which nodes are away: holdfast node status",
				 plugin_id, entry->n_volumes);
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"plugin_id: no node has reported a plugin %.128s; run it first, or correct the name: "
		"holdfast plugin status lists those that are known",
		plugin_id);
}

static enum status no_controller(const char *plugin_id, struct error *err)
{
	return error_set(
		err, STATUS_UNAVAILABLE, 0,
		"no connected node runs a healthy controller of plugin %.128s, so its provider cannot "
		"be asked; see holdfast plugin status %.128s",
		plugin_id, plugin_id);
}

static struct plugin_entry *reported_plugin(struct server *server, const char *plugin_id)
{
	struct plugin_entry *plugin = state_plugin(&server->state, plugin_id);

	return plugin && plugin->n_instances > 0 ? plugin : NULL;
}

enum status volume_check_plugin(struct server *server, const struct volume *volume, bool *ret_has_controller,
				struct error *err)
{
	struct plugin_entry *plugin = reported_plugin(server, volume->plugin_id);
	struct plugin_summary summary;

	*ret_has_controller = false;
	if (volume->type != VOLUME_CSI)
		return STATUS_OK;
	if (!plugin)
		return no_such_plugin(server, volume->plugin_id, err);
	plugin_summarize(plugin, volume, &summary);
	if (summary.controller_required && !controller_capabilities(plugin))
		return no_controller(volume->plugin_id, err);
	*ret_has_controller = summary.controller_required;
	return STATUS_OK;
}

#define ABILITY(member, words_)                                                     \
	{                                                                           \
		.offset = offsetof(struct controller_half, member), .words = words_ \
	}

const struct volume_ability VOLUME_CAN_CREATE = ABILITY(create_delete, "create and delete volumes");
const struct volume_ability VOLUME_CAN_EXPAND = ABILITY(expand, "expand volumes");
const struct volume_ability VOLUME_CAN_LIST = ABILITY(list_volumes, "list volumes");
const struct volume_ability VOLUME_CAN_SNAPSHOT =
	ABILITY(create_delete_snapshot, "create and delete snapshots");
const struct volume_ability VOLUME_CAN_LIST_SNAPSHOTS = ABILITY(list_snapshots, "list snapshots");

enum status volume_check_ability(struct server *server, const char *plugin_id,
				 const struct volume_ability *ability, struct error *err)
{
	struct plugin_entry *plugin = reported_plugin(server, plugin_id);
	const struct controller_half *can = plugin ? controller_capabilities(plugin) : NULL;

	if (!plugin)
		return no_such_plugin(server, plugin_id, err);
	if (can && *(const bool *)((const char *)can + ability->offset))
		return STATUS_OK;
	if (!can && !RB_EMPTY(&plugin->controllers))
		return no_controller(plugin_id, err);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "plugin %.128s cannot %s: %s; holdfast plugin status -v %.128s shows what it can do",
			 plugin_id, ability->words,
			 can ? "its controller does not offer it" : "it has no controller", plugin_id);
}

static void fill_capability(const struct capability *from, Holdfast__V1__Capability *ret)
{
	holdfast__v1__capability__init(ret);
	ret->access_mode = (Holdfast__V1__AccessMode)from->access_mode;
	ret->attachment_mode = (Holdfast__V1__AttachmentMode)from->attachment_mode;
}

static void volume_capabilities_fill(const struct volume *volume, struct volume_capabilities *ret)
{
	for (uint32_t i = 0; i < volume->n_capabilities; i++) {
		fill_capability(&volume->capabilities[i], &ret->values[i]);
		ret->list[i] = &ret->values[i];
	}
}

/* Lends maps of one message to another one: their entries are the same on the wire, and the call is copied
 * through it. */
#define LEND_MAP(to, name, from, count)     \
	do {                                \
		(to).name = (void *)(from); \
		(to).n_##name = (count);    \
	} while (0)

static enum status make_call(struct server *server, const struct volume *volume, const char *node_id,
			     const Holdfast__V1__PluginCall *call, controller_wanted_fn *wanted,
			     controller_done_fn *done, void *userdata, struct error *err)
{
	const struct controller_call controller = {
		.plugin_id = volume->plugin_id,
		.namespace = volume->namespace,
		.call = call,
		.node_id = node_id,
		.wanted = wanted,
		.done = done,
		.userdata = userdata,
	};

	return controller_call(server, &controller, err);
}

enum status volume_call_validate(struct server *server, struct volume_parts *parts, controller_done_fn *done,
				 void *userdata, struct error *err)
{
	Holdfast__V1__ControllerValidateRequest validate = HOLDFAST__V1__CONTROLLER_VALIDATE_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__VolumeDetail *detail = parts->detail;
	struct volume_capabilities capabilities;

	volume_capabilities_fill(&parts->volume, &capabilities);
	validate.external_id = parts->volume.external_id;
	validate.capabilities = capabilities.list;
	validate.n_capabilities = parts->volume.n_capabilities;
	validate.mount_options = detail->mount_options;
	LEND_MAP(validate, context, detail->context, detail->n_context);
	LEND_MAP(validate, parameters, detail->parameters, detail->n_parameters);
	LEND_MAP(validate, secrets, parts->secrets->secrets, parts->secrets->n_secrets);
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE;
	call.validate = &validate;
	return make_call(server, &parts->volume, NULL, &call, NULL, done, userdata, err);
}

enum status volume_call_create(struct server *server, struct volume_parts *parts, char *name,
			       controller_wanted_fn *wanted, controller_done_fn *done, void *userdata,
			       struct error *err)
{
	Holdfast__V1__ControllerCreateRequest create = HOLDFAST__V1__CONTROLLER_CREATE_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__VolumeDetail *detail = parts->detail;
	struct volume_capabilities capabilities;

	volume_capabilities_fill(&parts->volume, &capabilities);
	create.name = name;
	create.capacity_min = detail->capacity_min; /* both 0: the agent leaves the range out */
	create.capacity_max = detail->capacity_max;
	create.capabilities = capabilities.list;
	create.n_capabilities = parts->volume.n_capabilities;
	create.mount_options = detail->mount_options;
	create.clone_id = detail->clone_id;
	create.snapshot_id = detail->snapshot_id;
	create.topology_request = detail->topology_request;
	LEND_MAP(create, parameters, detail->parameters, detail->n_parameters);
	LEND_MAP(create, secrets, parts->secrets->secrets, parts->secrets->n_secrets);
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE;
	call.create = &create;
	return make_call(server, &parts->volume, NULL, &call, wanted, done, userdata, err);
}

enum status volume_call_delete(struct server *server, struct volume_parts *parts,
			       controller_wanted_fn *wanted, controller_done_fn *done, void *userdata,
			       struct error *err)
{
	Holdfast__V1__ControllerDeleteRequest delete = HOLDFAST__V1__CONTROLLER_DELETE_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;

	delete.external_id = parts->volume.external_id;
	LEND_MAP(delete, secrets, parts->secrets->secrets, parts->secrets->n_secrets);
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE;
	call.delete_ = &delete;
	return make_call(server, &parts->volume, NULL, &call, wanted, done, userdata, err);
}

enum status volume_call_expand(struct server *server, struct volume_parts *parts,
			       const struct capability *capability, controller_done_fn *done, void *userdata,
			       struct error *err)
{
	Holdfast__V1__ControllerExpandRequest expand = HOLDFAST__V1__CONTROLLER_EXPAND_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__Capability used;

	if (capability) {
		fill_capability(capability, &used);
		expand.capability = &used;
	}
	expand.external_id = parts->volume.external_id;
	expand.capacity_min = parts->detail->capacity_min;
	expand.capacity_max = parts->detail->capacity_max;
	LEND_MAP(expand, secrets, parts->secrets->secrets, parts->secrets->n_secrets);
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_EXPAND;
	call.expand = &expand;
	return make_call(server, &parts->volume, NULL, &call, NULL, done, userdata, err);
}

enum status volume_call_node_expand(struct server *server, struct volume_parts *parts,
				    const struct claim *claim, controller_done_fn *done, void *userdata,
				    struct error *err)
{
	const struct capability used = claim_capability(claim);
	const Holdfast__V1__VolumeSecrets *secrets = plugin_args_node_secrets(&server->state, claim);
	Holdfast__V1__NodeExpandRequest expand = HOLDFAST__V1__NODE_EXPAND_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__Capability capability;
	char claim_id[UUID_TEXT_SIZE];

	fill_capability(&used, &capability);
	memcpy(claim_id, claim->id, sizeof(claim_id));
	expand.volume_id = parts->volume.id;
	expand.namespace_ = parts->volume.namespace;
	expand.external_id = parts->volume.external_id;
	expand.claim_id = claim_id;
	expand.capacity_min = parts->detail->capacity;
	expand.capacity_max = parts->detail->capacity_max;
	expand.capability = &capability;
	if (secrets)
		LEND_MAP(expand, secrets, secrets->secrets, secrets->n_secrets);
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND;
	call.node_expand = &expand;
	return make_call(server, &parts->volume, claim->node_id, &call, NULL, done, userdata, err);
}
