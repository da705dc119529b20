/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "controller/kind.h"
#include "model/message.h"

#include <assert.h>
#include <string.h>

/* Maps of one message stand in another one as they are: their entries are alike, in memory and on the wire.
 */
MESSAGE_ASSERT_TEXT_ENTRY(Holdfast__V1__ControllerAttachRequest__SecretsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__ControllerPublishVolumeRequest__SecretsEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__CreateVolumeRequest__ParametersEntry);
MESSAGE_ASSERT_TEXT_ENTRY(Csi__V1__Topology__SegmentsEntry);

#define LEND_MAP(to, to_name, from, from_name)             \
	do {                                               \
		(to)->to_name = (void *)(from)->from_name; \
		(to)->n_##to_name = (from)->n_##from_name; \
	} while (0)

#define ABILITY(half, member) offsetof(struct node_plugin, half.member)

static enum status need(const char *what, const char *value, struct error *err)
{
	return value[0] != '\0' ? STATUS_OK
				: error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave no %s", what);
}

static enum status need_volume(const char *external_id, struct error *err)
{
	return need("external_id of the volume", external_id, err);
}

void controller_borrow_capability(const Holdfast__V1__Capability *from,
				  const Holdfast__V1__MountOptions *options, const struct node_plugin *facts,
				  struct csi_capability *ret)
{
	csi_borrow_capability((enum access_mode)from->access_mode,
			      (enum attachment_mode)from->attachment_mode, options, ret);
	if (!facts->controller.single_node_multi_writer)
		csi_capability_coarsen(ret);
}

static enum status fill_publish(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerAttachRequest *from = call->attach;
	Csi__V1__ControllerPublishVolumeRequest *to = &ret->publish;
	enum status st = need_volume(from->external_id, err);

	if (st == STATUS_OK)
		st = need("node id of the provider", from->external_node_id, err);
	if (st != STATUS_OK)
		return st;
	if (!from->capability)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave no capability");
	to->volume_id = from->external_id;
	to->node_id = from->external_node_id;
	controller_borrow_capability(from->capability, from->mount_options, facts, &ret->capabilities[0]);
	to->volume_capability = &ret->capabilities[0].pb;
	to->readonly = from->read_only && facts->controller.readonly_attach;
	LEND_MAP(to, secrets, from, secrets);
	LEND_MAP(to, volume_context, from, context);
	return STATUS_OK;
}

static enum status fill_unpublish(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				  struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerDetachRequest *from = call->detach;
	Csi__V1__ControllerUnpublishVolumeRequest *to = &ret->unpublish;
	enum status st = need_volume(from->external_id, err);

	(void)facts;
	if (st == STATUS_OK) /* without one it would be taken from every node */
		st = need("node id of the provider", from->external_node_id, err);
	if (st != STATUS_OK)
		return st;
	to->volume_id = from->external_id;
	to->node_id = from->external_node_id;
	LEND_MAP(to, secrets, from, secrets);
	return STATUS_OK;
}

static enum status fill_capabilities(Holdfast__V1__Capability *const *from, size_t n,
				     const Holdfast__V1__MountOptions *options,
				     const struct node_plugin *facts, struct controller_request *ret,
				     struct error *err)
{
	if (n == 0 || n > VOLUME_CAPABILITIES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server gave %zu capabilities; 1 to %d are possible", n,
				 VOLUME_CAPABILITIES_MAX);
	for (size_t i = 0; i < n; i++) {
		controller_borrow_capability(from[i], options, facts, &ret->capabilities[i]);
		ret->capability_list[i] = &ret->capabilities[i].pb;
	}
	return STATUS_OK;
}

static enum status fill_validate(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				 struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerValidateRequest *from = call->validate;
	Csi__V1__ValidateVolumeCapabilitiesRequest *to = &ret->validate;
	enum status st = need_volume(from->external_id, err);

	if (st == STATUS_OK)
		st = fill_capabilities(from->capabilities, from->n_capabilities, from->mount_options, facts,
				       ret, err);
	if (st != STATUS_OK)
		return st;
	to->volume_id = from->external_id;
	to->volume_capabilities = ret->capability_list;
	to->n_volume_capabilities = from->n_capabilities;
	LEND_MAP(to, volume_context, from, context);
	LEND_MAP(to, parameters, from, parameters);
	LEND_MAP(to, secrets, from, secrets);
	return STATUS_OK;
}

static enum status check_range(uint64_t min, uint64_t max, struct error *err)
{
	if (min > INT64_MAX || max > INT64_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server asked for %llu bytes; CSI counts up to %lld",
				 (unsigned long long)(min > INT64_MAX ? min : max), (long long)INT64_MAX);
	if (max > 0 && max < min)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the server asked for at least %llu and at most %llu bytes",
				 (unsigned long long)min, (unsigned long long)max);
	return STATUS_OK;
}

/* @ret_range stays NULL when neither is given: an empty range is not the same to every plugin. */
static enum status fill_range(uint64_t min, uint64_t max, struct controller_request *request,
			      Csi__V1__CapacityRange **ret_range, struct error *err)
{
	enum status st = check_range(min, max, err);

	if (st != STATUS_OK || (min == 0 && max == 0))
		return st;
	csi__v1__capacity_range__init(&request->range);
	request->range.required_bytes = (int64_t)min;
	request->range.limit_bytes = (int64_t)max;
	*ret_range = &request->range;
	return STATUS_OK;
}

static enum status not_announced(const struct node_plugin *facts, const char *call, const char *what,
				 struct error *err)
{
	return error_set(err, STATUS_UNIMPLEMENTED, 0,
			 "plugin %s does not announce %s, so %s was not called; holdfast plugin status -v %s "
			 "shows what it can do",
			 facts->plugin_id, what, call, facts->plugin_id);
}

/* What the new volume is a copy of. */
static void fill_content(const Holdfast__V1__ControllerCreateRequest *from, struct controller_request *ret)
{
	Csi__V1__VolumeContentSource *content = &ret->content;

	if (from->clone_id[0] == '\0' && from->snapshot_id[0] == '\0')
		return;
	csi__v1__volume_content_source__init(content);
	if (from->snapshot_id[0] != '\0') {
		csi__v1__volume_content_source__snapshot_source__init(&ret->snapshot);
		ret->snapshot.snapshot_id = from->snapshot_id;
		content->type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT;
		content->snapshot = &ret->snapshot;
	} else {
		csi__v1__volume_content_source__volume_source__init(&ret->volume);
		ret->volume.volume_id = from->clone_id;
		content->type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME;
		content->volume = &ret->volume;
	}
	ret->create.volume_content_source = content;
}

static Csi__V1__Topology **fill_topologies(Holdfast__V1__Topology *const *from, size_t n,
					   Csi__V1__Topology *topologies, Csi__V1__Topology **list)
{
	for (size_t i = 0; i < n; i++) {
		csi__v1__topology__init(&topologies[i]);
		LEND_MAP(&topologies[i], segments, from[i], segments);
		list[i] = &topologies[i];
	}
	return n > 0 ? list : NULL;
}

static enum status fill_topology(const Holdfast__V1__TopologyRequest *from, struct controller_request *ret,
				 struct error *err)
{
	Csi__V1__TopologyRequirement *to = &ret->topology;

	if (from->n_required > VOLUME_TOPOLOGIES_MAX || from->n_preferred > VOLUME_TOPOLOGIES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave more than %d topologies",
				 VOLUME_TOPOLOGIES_MAX);
	csi__v1__topology_requirement__init(to);
	to->requisite =
		fill_topologies(from->required, from->n_required, ret->topologies[0], ret->topology_lists[0]);
	to->n_requisite = from->n_required;
	to->preferred = fill_topologies(from->preferred, from->n_preferred, ret->topologies[1],
					ret->topology_lists[1]);
	to->n_preferred = from->n_preferred;
	ret->create.accessibility_requirements = to;
	return STATUS_OK;
}

static bool wants_topology(const Holdfast__V1__ControllerCreateRequest *create)
{
	const Holdfast__V1__TopologyRequest *request = create->topology_request;

	return request && (request->n_required > 0 || request->n_preferred > 0);
}

static enum status fill_create(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerCreateRequest *from = call->create;
	Csi__V1__CreateVolumeRequest *to = &ret->create;
	enum status st = need("name for the volume", from->name, err);

	if (st == STATUS_OK)
		st = fill_range(from->capacity_min, from->capacity_max, ret, &to->capacity_range, err);
	if (st == STATUS_OK)
		st = fill_capabilities(from->capabilities, from->n_capabilities, from->mount_options, facts,
				       ret, err);
	if (st == STATUS_OK && wants_topology(from))
		st = fill_topology(from->topology_request, ret, err);
	if (st == STATUS_OK && from->clone_id[0] != '\0' && from->snapshot_id[0] != '\0')
		st = error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the server gave a clone_id and a snapshot_id; a volume is a copy of one thing");
	if (st != STATUS_OK)
		return st;
	to->name = from->name;
	to->volume_capabilities = ret->capability_list;
	to->n_volume_capabilities = from->n_capabilities;
	fill_content(from, ret);
	LEND_MAP(to, parameters, from, parameters);
	LEND_MAP(to, secrets, from, secrets);
	return STATUS_OK;
}

static enum status fill_delete(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerDeleteRequest *from = call->delete_;

	(void)facts;
	ret->delete.volume_id = from->external_id;
	LEND_MAP(&ret->delete, secrets, from, secrets);
	return need_volume(from->external_id, err);
}

static enum status fill_expand(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerExpandRequest *from = call->expand;
	Csi__V1__ControllerExpandVolumeRequest *to = &ret->expand;
	enum status st = need_volume(from->external_id, err);

	if (st == STATUS_OK)
		st = fill_range(from->capacity_min, from->capacity_max, ret, &to->capacity_range, err);
	if (st == STATUS_OK && !to->capacity_range)
		st = error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server gave no size to expand to");
	if (st != STATUS_OK)
		return st;
	to->volume_id = from->external_id;
	LEND_MAP(to, secrets, from, secrets);
	if (from->capability) {
		controller_borrow_capability(from->capability, NULL, facts, &ret->capabilities[0]);
		to->volume_capability = &ret->capabilities[0].pb;
	}
	return STATUS_OK;
}

static enum status check_page(uint32_t max_entries, const char *token, struct error *err)
{
	if (max_entries > INT32_MAX || strlen(token) > CONTROLLER_TOKEN_MAX)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the server asked for a page of %u entries from a token of %zu bytes; up to %d "
			"and %d are possible",
			max_entries, strlen(token), INT32_MAX, CONTROLLER_TOKEN_MAX);
	return STATUS_OK;
}

static enum status fill_list_volumes(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				     struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerListVolumesRequest *from = call->list_volumes;

	(void)facts;
	ret->list_volumes.max_entries = (int32_t)from->max_entries;
	ret->list_volumes.starting_token = from->starting_token;
	return check_page(from->max_entries, from->starting_token, err);
}

static enum status fill_create_snapshot(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
					struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerCreateSnapshotRequest *from = call->create_snapshot;
	Csi__V1__CreateSnapshotRequest *to = &ret->create_snapshot;
	enum status st = need_volume(from->external_id, err);

	(void)facts;
	to->source_volume_id = from->external_id;
	to->name = from->name;
	LEND_MAP(to, secrets, from, secrets);
	LEND_MAP(to, parameters, from, parameters);
	return st == STATUS_OK ? need("name for the snapshot", from->name, err) : st;
}

static enum status fill_delete_snapshot(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
					struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerDeleteSnapshotRequest *from = call->delete_snapshot;

	(void)facts;
	ret->delete_snapshot.snapshot_id = from->snapshot_id;
	LEND_MAP(&ret->delete_snapshot, secrets, from, secrets);
	return need("snapshot_id", from->snapshot_id, err);
}

static enum status fill_list_snapshots(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				       struct controller_request *ret, struct error *err)
{
	const Holdfast__V1__ControllerListSnapshotsRequest *from = call->list_snapshots;

	(void)facts;
	ret->list_snapshots.max_entries = (int32_t)from->max_entries;
	ret->list_snapshots.starting_token = from->starting_token;
	LEND_MAP(&ret->list_snapshots, secrets, from, secrets);
	return check_page(from->max_entries, from->starting_token, err);
}

/* What a new volume may be asked for beyond CREATE_DELETE_VOLUME. */
static enum status check_create(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				struct error *err)
{
	const Holdfast__V1__ControllerCreateRequest *create = call->create;

	if (create->clone_id[0] != '\0' && !facts->controller.clone)
		return not_announced(facts, "CreateVolume with a clone_id", "CLONE_VOLUME", err);
	if (create->snapshot_id[0] != '\0' && !facts->controller.create_delete_snapshot)
		return not_announced(facts, "CreateVolume with a snapshot_id", "CREATE_DELETE_SNAPSHOT", err);
	if (wants_topology(create) && !facts->topology_required)
		return not_announced(facts, "CreateVolume with a topology_request",
				     "VOLUME_ACCESSIBILITY_CONSTRAINTS", err);
	return STATUS_OK;
}

/* The request itself is made by the volume manager, which knows the paths. */
static enum status check_node_expand(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				     struct error *err)
{
	(void)facts;
	return check_range(call->node_expand->capacity_min, call->node_expand->capacity_max, err);
}

#define KIND(kind, descriptor)                                \
	.request = HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind, \
	.response = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_##kind, .response_descriptor = &(descriptor)
#define NEEDS(member, words) .ability = ABILITY(controller, member), .announces = (words)

static const struct controller_kind kinds[] = {
	{KIND(ATTACH, holdfast__v1__controller_attach_response__descriptor),
	 .method = CSI_CONTROLLER_PUBLISH_VOLUME, NEEDS(attach_detach, "PUBLISH_UNPUBLISH_VOLUME"),
	 .fill = fill_publish, .take = controller_take_attach},
	{KIND(DETACH, holdfast__v1__controller_detach_response__descriptor),
	 .method = CSI_CONTROLLER_UNPUBLISH_VOLUME, NEEDS(attach_detach, "PUBLISH_UNPUBLISH_VOLUME"),
	 .wants_gone = true, .fill = fill_unpublish},
	{KIND(VALIDATE, holdfast__v1__controller_validate_response__descriptor),
	 .method = CSI_VALIDATE_VOLUME_CAPABILITIES, .fill = fill_validate, .take = controller_take_validate},
	{KIND(CREATE, holdfast__v1__controller_create_response__descriptor), .method = CSI_CREATE_VOLUME,
	 NEEDS(create_delete, "CREATE_DELETE_VOLUME"), .check = check_create, .fill = fill_create,
	 .take = controller_take_create},
	{KIND(DELETE, holdfast__v1__controller_delete_response__descriptor), .method = CSI_DELETE_VOLUME,
	 NEEDS(create_delete, "CREATE_DELETE_VOLUME"), .fill = fill_delete},
	{KIND(EXPAND, holdfast__v1__controller_expand_response__descriptor),
	 .method = CSI_CONTROLLER_EXPAND_VOLUME, NEEDS(expand, "EXPAND_VOLUME"), .fill = fill_expand,
	 .take = controller_take_expand},
	{KIND(LIST_VOLUMES, holdfast__v1__controller_list_volumes_response__descriptor),
	 .method = CSI_LIST_VOLUMES, NEEDS(list_volumes, "LIST_VOLUMES"), .fill = fill_list_volumes,
	 .take = controller_take_volumes},
	{KIND(CREATE_SNAPSHOT, holdfast__v1__controller_create_snapshot_response__descriptor),
	 .method = CSI_CREATE_SNAPSHOT, NEEDS(create_delete_snapshot, "CREATE_DELETE_SNAPSHOT"),
	 .fill = fill_create_snapshot, .take = controller_take_snapshot},
	{KIND(DELETE_SNAPSHOT, holdfast__v1__controller_delete_snapshot_response__descriptor),
	 .method = CSI_DELETE_SNAPSHOT, NEEDS(create_delete_snapshot, "CREATE_DELETE_SNAPSHOT"),
	 .fill = fill_delete_snapshot},
	{KIND(LIST_SNAPSHOTS, holdfast__v1__controller_list_snapshots_response__descriptor),
	 .method = CSI_LIST_SNAPSHOTS, NEEDS(list_snapshots, "LIST_SNAPSHOTS"), .fill = fill_list_snapshots,
	 .take = controller_take_snapshots},
	{KIND(NODE_EXPAND, holdfast__v1__node_expand_response__descriptor), .method = CSI_NODE_EXPAND_VOLUME,
	 .half = PLUGIN_NODE, .ability = ABILITY(node, expand),
	 .announces = "EXPAND_VOLUME of its node service", .check = check_node_expand},
};

const struct controller_kind *controller_kind(const Holdfast__V1__PluginCall *call)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].request == call->request_case)
			return &kinds[i];
	return NULL;
}

enum csi_method controller_method(const Holdfast__V1__PluginCall *call)
{
	const struct controller_kind *kind = controller_kind(call);

	return kind ? kind->method : CSI_METHOD_N;
}

enum plugin_half controller_half_of(const Holdfast__V1__PluginCall *call)
{
	const struct controller_kind *kind = controller_kind(call);

	return kind ? kind->half : PLUGIN_CONTROLLER;
}

uint64_t controller_timeout_us(uint32_t timeout_ms)
{
	uint32_t margin_ms = timeout_ms / 2 < CONTROLLER_MARGIN_MS ? timeout_ms / 2 : CONTROLLER_MARGIN_MS;

	return (uint64_t)(timeout_ms - margin_ms) * USEC_PER_MSEC;
}

enum status controller_check(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			     struct error *err)
{
	const struct controller_kind *kind = controller_kind(call);
	const char *name;

	if (!kind)
		return error_set(
			err, STATUS_UNIMPLEMENTED, 0,
			"this agent does not know call %d of the server to plugin %.128s; upgrade it",
			(int)call->request_case, call->plugin_id);
	name = csi_method_info(kind->method)->name;
	if (kind->ability != 0 && !*(const bool *)((const char *)facts + kind->ability))
		return not_announced(facts, name, kind->announces, err);
	return kind->check ? kind->check(call, facts, err) : STATUS_OK;
}

enum status controller_request_make(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				    struct controller_request *ret, struct error *err)
{
	const struct controller_kind *kind = controller_kind(call);
	const struct csi_method_info *info;
	struct error why = {.msg = ""};

	assert(kind && kind->fill);
	info = csi_method_info(kind->method);
	protobuf_c_message_init(info->request, &ret->base);
	if (kind->fill(call, facts, ret, &why) == STATUS_OK)
		return STATUS_OK;
	return error_set(err, why.status, 0, "plugin %s: %s was not called: %s", facts->plugin_id, info->name,
			 why.msg);
}
