/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_csi_model.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <assert.h>
#include <csi_addons/fence.pb-c.h>
#include <csi_addons/identity.pb-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENTS_MAX = 8 };

#define METHOD_OF(package_, name_, lower_)                                              \
	{                                                                               \
		.name = #name_, .request = &package_##__##lower_##_request__descriptor, \
		.response = &package_##__##lower_##_response__descriptor                \
	}
#define METHOD(name_, lower_) METHOD_OF(csi__v1, name_, lower_)

const struct fake_csi_method fake_csi_methods[CSI_METHOD_N] = {
	[CSI_GET_PLUGIN_INFO] = METHOD(GetPluginInfo, get_plugin_info),
	[CSI_GET_PLUGIN_CAPABILITIES] = METHOD(GetPluginCapabilities, get_plugin_capabilities),
	[CSI_PROBE] = METHOD(Probe, probe),
	[CSI_CREATE_VOLUME] = METHOD(CreateVolume, create_volume),
	[CSI_DELETE_VOLUME] = METHOD(DeleteVolume, delete_volume),
	[CSI_CONTROLLER_PUBLISH_VOLUME] = METHOD(ControllerPublishVolume, controller_publish_volume),
	[CSI_CONTROLLER_UNPUBLISH_VOLUME] = METHOD(ControllerUnpublishVolume, controller_unpublish_volume),
	[CSI_VALIDATE_VOLUME_CAPABILITIES] = METHOD(ValidateVolumeCapabilities, validate_volume_capabilities),
	[CSI_LIST_VOLUMES] = METHOD(ListVolumes, list_volumes),
	[CSI_CONTROLLER_GET_CAPABILITIES] = METHOD(ControllerGetCapabilities, controller_get_capabilities),
	[CSI_CREATE_SNAPSHOT] = METHOD(CreateSnapshot, create_snapshot),
	[CSI_DELETE_SNAPSHOT] = METHOD(DeleteSnapshot, delete_snapshot),
	[CSI_LIST_SNAPSHOTS] = METHOD(ListSnapshots, list_snapshots),
	[CSI_CONTROLLER_EXPAND_VOLUME] = METHOD(ControllerExpandVolume, controller_expand_volume),
	[CSI_NODE_STAGE_VOLUME] = METHOD(NodeStageVolume, node_stage_volume),
	[CSI_NODE_UNSTAGE_VOLUME] = METHOD(NodeUnstageVolume, node_unstage_volume),
	[CSI_NODE_PUBLISH_VOLUME] = METHOD(NodePublishVolume, node_publish_volume),
	[CSI_NODE_UNPUBLISH_VOLUME] = METHOD(NodeUnpublishVolume, node_unpublish_volume),
	[CSI_NODE_EXPAND_VOLUME] = METHOD(NodeExpandVolume, node_expand_volume),
	[CSI_NODE_GET_CAPABILITIES] = METHOD(NodeGetCapabilities, node_get_capabilities),
	[CSI_NODE_GET_INFO] = METHOD(NodeGetInfo, node_get_info),
	[CSI_NODE_GET_VOLUME_STATS] = METHOD(NodeGetVolumeStats, node_get_volume_stats),
	[CSI_ADDONS_GET_CAPABILITIES] = METHOD_OF(identity, GetCapabilities, get_capabilities),
	[CSI_GET_FENCE_CLIENTS] = METHOD_OF(fence, GetFenceClients, get_fence_clients),
	[CSI_FENCE_CLUSTER_NETWORK] = METHOD_OF(fence, FenceClusterNetwork, fence_cluster_network),
	[CSI_UNFENCE_CLUSTER_NETWORK] = METHOD_OF(fence, UnfenceClusterNetwork, unfence_cluster_network),
	[CSI_LIST_CLUSTER_FENCE] = METHOD_OF(fence, ListClusterFence, list_cluster_fence),
};

/* The request as its own type. */
#define AS(type_, request_) ((const Csi__V1__##type_##Request *)(const void *)(request_))

struct answer {
	uint8_t *bytes;
	size_t len;
};

static void put(struct answer *answer, const ProtobufCMessage *message)
{
	answer->bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);
	if (!answer->bytes)
		abort();
	answer->len = protobuf_c_message_pack(message, answer->bytes);
}

static char *text(const char *s)
{
	return (char *)(uintptr_t)s; /* only read */
}

void fake_csi_violate(const char *fmt, ...)
{
	va_list ap;

	if (fake_csi.violation[0] != '\0')
		return;
	va_start(ap, fmt);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is started in the line before */
	(void)vsnprintf(fake_csi.violation, sizeof(fake_csi.violation), fmt, ap);
	va_end(ap);
}

struct fake_csi_plugin *fake_csi_add(const char *socket)
{
	struct fake_csi_plugin *plugin;

	assert(fake_csi.n_plugins < FAKE_CSI_PLUGINS_MAX);
	plugin = &fake_csi.plugins[fake_csi.n_plugins++];
	*plugin = (struct fake_csi_plugin){
		.is_up = true,
		.pid = getpid(),
		.name = "fake.csi.test",
		.version = "1.0",
		.node_id = "fake-node",
		.services = {CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE},
		.n_services = 1,
		.controller_rpcs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		.n_controller_rpcs = 15,
		.node_rpcs = {1, 2, 3, 4, 5},
		.n_node_rpcs = 5,
	};
	if (str_copy(plugin->socket, sizeof(plugin->socket), socket) < 0)
		abort();
	return plugin;
}

struct fake_csi_volume *fake_csi_volume(const char *id)
{
	for (size_t i = 0; i < fake_csi.n_volumes; i++)
		if (fake_csi.volumes[i].id[0] != '\0' && str_eq(fake_csi.volumes[i].id, id))
			return &fake_csi.volumes[i];
	return NULL;
}

static struct fake_csi_volume *volume_add(const char *id)
{
	struct fake_csi_volume *volume;

	assert(fake_csi.n_volumes < FAKE_CSI_VOLUMES_MAX);
	volume = &fake_csi.volumes[fake_csi.n_volumes++];
	if (str_copy(volume->id, sizeof(volume->id), id) < 0)
		fake_csi_violate("volume id of %zu bytes", strlen(id));
	return volume;
}

bool fake_csi_is_attached(const char *id, const char *node)
{
	const struct fake_csi_volume *volume = fake_csi_volume(id);

	for (size_t i = 0; volume && i < FAKE_CSI_NODES_MAX; i++)
		if (str_eq(volume->nodes[i], node))
			return true;
	return false;
}

static struct fake_csi_target *find_target(struct fake_csi_volume *volume, const char *path)
{
	for (size_t i = 0; i < FAKE_CSI_TARGETS_MAX; i++)
		if (str_eq(volume->targets[i].path, path))
			return &volume->targets[i];
	return NULL;
}

bool fake_csi_is_published(const char *id, const char *path)
{
	struct fake_csi_volume *volume = fake_csi_volume(id);

	return volume && path[0] != '\0' && find_target(volume, path);
}

static void report_mount(const char *path, const struct fake_csi_target *target)
{
	if (fake_csi.on_mount)
		fake_csi.on_mount(path, target, fake_csi.userdata);
}

static void report_unmount(const char *path)
{
	if (fake_csi.on_unmount)
		fake_csi.on_unmount(path, fake_csi.userdata);
}

static bool announces(const int *rpcs, size_t n, int wanted)
{
	for (size_t i = 0; i < n; i++)
		if (rpcs[i] == wanted)
			return true;
	return false;
}

typedef enum status perform_fn(struct fake_csi_plugin *plugin, const ProtobufCMessage *request,
			       struct fake_csi_volume *volume, struct answer *ret, struct error *err);

#define PERFORM(name_)                                                                    \
	static enum status name_(struct fake_csi_plugin *plugin __attribute__((unused)),  \
				 const ProtobufCMessage *request __attribute__((unused)), \
				 struct fake_csi_volume *volume __attribute__((unused)),  \
				 struct answer *ret __attribute__((unused)),              \
				 struct error *err __attribute__((unused)))

enum half { HALF_IDENTITY, HALF_CONTROLLER, HALF_NODE };

static perform_fn get_plugin_info, get_plugin_capabilities, probe, create_volume, delete_volume,
	controller_publish, controller_unpublish, validate, list_volumes, controller_get_capabilities,
	create_snapshot, delete_snapshot, list_snapshots, controller_expand, node_stage, node_unstage,
	node_publish, node_unpublish, node_expand, node_get_capabilities, node_get_info, node_stats,
	addons_get_capabilities, get_fence_clients, fence_unserved;

/* Each method: the function that performs it, the capability that it needs (0: only the service), and whether
 * it needs the volume. */
static const struct {
	perform_fn *perform;
	enum half half;
	int rpc;
	bool needs_volume;
} actions[CSI_METHOD_N] = {
	[CSI_GET_PLUGIN_INFO] = {get_plugin_info, HALF_IDENTITY, 0, false},
	[CSI_GET_PLUGIN_CAPABILITIES] = {get_plugin_capabilities, HALF_IDENTITY, 0, false},
	[CSI_PROBE] = {probe, HALF_IDENTITY, 0, false},
	[CSI_CREATE_VOLUME] = {create_volume, HALF_CONTROLLER, 1, false},
	[CSI_DELETE_VOLUME] = {delete_volume, HALF_CONTROLLER, 1, false},
	[CSI_CONTROLLER_PUBLISH_VOLUME] = {controller_publish, HALF_CONTROLLER, 2, true},
	[CSI_CONTROLLER_UNPUBLISH_VOLUME] = {controller_unpublish, HALF_CONTROLLER, 2, false},
	[CSI_VALIDATE_VOLUME_CAPABILITIES] = {validate, HALF_CONTROLLER, 0, true},
	[CSI_LIST_VOLUMES] = {list_volumes, HALF_CONTROLLER, 3, false},
	[CSI_CONTROLLER_GET_CAPABILITIES] = {controller_get_capabilities, HALF_CONTROLLER, 0, false},
	[CSI_CREATE_SNAPSHOT] = {create_snapshot, HALF_CONTROLLER, 5, false},
	[CSI_DELETE_SNAPSHOT] = {delete_snapshot, HALF_CONTROLLER, 5, false},
	[CSI_LIST_SNAPSHOTS] = {list_snapshots, HALF_CONTROLLER, 6, false},
	[CSI_CONTROLLER_EXPAND_VOLUME] = {controller_expand, HALF_CONTROLLER, 9, true},
	[CSI_NODE_STAGE_VOLUME] = {node_stage, HALF_NODE, 1, true},
	[CSI_NODE_UNSTAGE_VOLUME] = {node_unstage, HALF_NODE, 1, false},
	[CSI_NODE_PUBLISH_VOLUME] = {node_publish, HALF_NODE, 0, true},
	[CSI_NODE_UNPUBLISH_VOLUME] = {node_unpublish, HALF_NODE, 0, false},
	[CSI_NODE_EXPAND_VOLUME] = {node_expand, HALF_NODE, 3, true},
	[CSI_NODE_GET_CAPABILITIES] = {node_get_capabilities, HALF_NODE, 0, false},
	[CSI_NODE_GET_INFO] = {node_get_info, HALF_NODE, 0, false},
	[CSI_NODE_GET_VOLUME_STATS] = {node_stats, HALF_NODE, 2, true},
	[CSI_ADDONS_GET_CAPABILITIES] = {addons_get_capabilities, HALF_IDENTITY, 0, false},
	[CSI_GET_FENCE_CLIENTS] = {get_fence_clients, HALF_NODE, 0, false},
	[CSI_FENCE_CLUSTER_NETWORK] = {fence_unserved, HALF_CONTROLLER, 0, false},
	[CSI_UNFENCE_CLUSTER_NETWORK] = {fence_unserved, HALF_CONTROLLER, 0, false},
	[CSI_LIST_CLUSTER_FENCE] = {fence_unserved, HALF_CONTROLLER, 0, false},
};

/* What it has staged it may be asked to unstage, whatever it announces by now. */
static bool is_announced(const struct fake_csi_plugin *plugin, enum csi_method method, const char *id)
{
	const struct fake_csi_volume *volume = id ? fake_csi_volume(id) : NULL;
	int rpc = actions[method].rpc;

	if (method == CSI_NODE_UNSTAGE_VOLUME && volume && volume->staged[0] != '\0')
		return true;
	switch (actions[method].half) {
	case HALF_CONTROLLER:
		if (!announces(plugin->services, plugin->n_services,
			       CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE))
			return false;
		return rpc == 0 || announces(plugin->controller_rpcs, plugin->n_controller_rpcs, rpc);
	case HALF_NODE:
		return rpc == 0 || announces(plugin->node_rpcs, plugin->n_node_rpcs, rpc);
	case HALF_IDENTITY:
		break;
	}
	return true;
}

/* A field of the request by its name; NULL: it has none, or it is not of this type. */
static const void *member(const ProtobufCMessage *request, const char *name, ProtobufCType type)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);

	if (!field || field->type != type)
		return NULL;
	return (const uint8_t *)request + field->offset;
}

static const char *text_of(const ProtobufCMessage *request, const char *name)
{
	const char *const *at = member(request, name, PROTOBUF_C_TYPE_STRING);

	return at ? *at : NULL;
}

/* Of the volume that the call is about; NULL: about none. */
static const char *volume_id(const ProtobufCMessage *request)
{
	return text_of(request, "volume_id");
}

static void check_path(enum csi_method method, const ProtobufCMessage *request, const char *name)
{
	const char *path = text_of(request, name);

	if (path && path[0] != '/' && !(method == CSI_NODE_PUBLISH_VOLUME && path[0] == '\0') &&
	    method != CSI_NODE_EXPAND_VOLUME)
		fake_csi_violate("%s: %s '%s' is no absolute path", fake_csi_methods[method].name, name,
				 path);
}

static void check_capability(enum csi_method method, const ProtobufCMessage *request)
{
	const Csi__V1__VolumeCapability *const *at =
		member(request, "volume_capability", PROTOBUF_C_TYPE_MESSAGE);

	if (!at || method == CSI_CONTROLLER_EXPAND_VOLUME || method == CSI_NODE_EXPAND_VOLUME)
		return;
	if (!*at || !(*at)->access_mode || (*at)->access_mode->mode == 0 || (*at)->access_type_case == 0)
		fake_csi_violate("%s: no whole volume_capability", fake_csi_methods[method].name);
}

void fake_csi_begin(struct fake_csi_plugin *plugin, enum csi_method method, const ProtobufCMessage *request)
{
	const char *id = volume_id(request);
	struct fake_csi_volume *volume;

	plugin->calls[method]++;
	if (!is_announced(plugin, method, id))
		fake_csi_violate("%s was not announced", fake_csi_methods[method].name);
	check_path(method, request, "staging_target_path");
	check_path(method, request, "target_path");
	check_path(method, request, "volume_path");
	check_capability(method, request);
	if (!id)
		return;
	if (id[0] == '\0')
		fake_csi_violate("%s: no volume_id", fake_csi_methods[method].name);
	volume = fake_csi_volume(id);
	if (!volume && !plugin->checks_volumes)
		volume = volume_add(id);
	if (method == CSI_NODE_GET_VOLUME_STATS) /* changes nothing; the kubelet makes it beside others too */
		return;
	if (volume && ++volume->in_flight > 1)
		fake_csi_violate("%s: another call of volume %s is in flight", fake_csi_methods[method].name,
				 id);
}

void fake_csi_end(enum csi_method method, const ProtobufCMessage *request)
{
	const char *id = volume_id(request);
	struct fake_csi_volume *volume = id ? fake_csi_volume(id) : NULL;

	if (method != CSI_NODE_GET_VOLUME_STATS && volume && volume->in_flight > 0)
		volume->in_flight--;
}

PERFORM(get_plugin_info)
{
	Csi__V1__GetPluginInfoResponse pb = CSI__V1__GET_PLUGIN_INFO_RESPONSE__INIT;

	pb.name = text(plugin->name);
	pb.vendor_version = text(plugin->version);
	put(ret, &pb.base);
	return STATUS_OK;
}

/* {service: {type}} or {rpc: {type}} for each: the three kinds of capabilities have the same bytes. */
static enum status put_capabilities(struct answer *ret, const int *types, size_t n)
{
	ret->bytes = malloc(6 * n + 1);
	if (!ret->bytes)
		abort();
	for (size_t i = 0; i < n; i++)
		memcpy(ret->bytes + 6 * i, (const uint8_t[]){10, 4, 10, 2, 8, (uint8_t)types[i]}, 6);
	ret->len = 6 * n;
	return STATUS_OK;
}

PERFORM(get_plugin_capabilities)
{
	return put_capabilities(ret, plugin->services, plugin->n_services);
}

PERFORM(controller_get_capabilities)
{
	return put_capabilities(ret, plugin->controller_rpcs, plugin->n_controller_rpcs);
}

PERFORM(node_get_capabilities)
{
	return put_capabilities(ret, plugin->node_rpcs, plugin->n_node_rpcs);
}

PERFORM(addons_get_capabilities)
{
	Identity__GetCapabilitiesResponse pb = IDENTITY__GET_CAPABILITIES_RESPONSE__INIT;
	Identity__Capability rows[2] = {IDENTITY__CAPABILITY__INIT, IDENTITY__CAPABILITY__INIT};
	Identity__Capability__NetworkFence types[2] = {IDENTITY__CAPABILITY__NETWORK_FENCE__INIT,
						       IDENTITY__CAPABILITY__NETWORK_FENCE__INIT};
	Identity__Capability *list[2];

	if (!plugin->has_addons)
		return error_set(err, STATUS_UNIMPLEMENTED, 0, "%s", "");
	for (int i = 0; i < 2; i++) {
		types[i].type = (Identity__Capability__NetworkFence__Type)(i + 1);
		rows[i].type_case = IDENTITY__CAPABILITY__TYPE_NETWORK_FENCE;
		rows[i].network_fence = &types[i];
		list[i] = &rows[i];
	}
	pb.capabilities = list;
	pb.n_capabilities = 2;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(get_fence_clients)
{
	Fence__GetFenceClientsResponse pb = FENCE__GET_FENCE_CLIENTS_RESPONSE__INIT;
	Fence__ClientDetails client = FENCE__CLIENT_DETAILS__INIT, *one = &client;
	Fence__CIDR rows[ARRAY_SIZE(plugin->clients)], *list[ARRAY_SIZE(plugin->clients)];

	for (size_t n = 0; n < ARRAY_SIZE(rows) && plugin->clients[n]; n++) {
		fence__cidr__init(&rows[n]);
		rows[n].cidr = text(plugin->clients[n]);
		list[n] = &rows[n];
		client.n_addresses = n + 1;
	}
	client.addresses = list;
	pb.clients = &one;
	pb.n_clients = 1;
	put(ret, &pb.base);
	return STATUS_OK;
}

/* The three calls of the controller: nothing makes them through this model. */
PERFORM(fence_unserved)
{
	return error_set(err, STATUS_UNIMPLEMENTED, 0, "%s",
			 fake_csi_methods[CSI_FENCE_CLUSTER_NETWORK].name);
}

PERFORM(probe)
{
	Csi__V1__ProbeResponse pb = CSI__V1__PROBE_RESPONSE__INIT;
	Google__Protobuf__BoolValue ready = GOOGLE__PROTOBUF__BOOL_VALUE__INIT;

	ready.value = plugin->ready == FAKE_CSI_READY;
	if (plugin->ready != FAKE_CSI_READY_ABSENT)
		pb.ready = &ready;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(node_get_info)
{
	Csi__V1__NodeGetInfoResponse pb = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
	Csi__V1__Topology topology = CSI__V1__TOPOLOGY__INIT;
	Csi__V1__Topology__SegmentsEntry rows[SEGMENTS_MAX], *list[SEGMENTS_MAX];

	for (size_t i = 0; i < plugin->topology.n_segments; i++) {
		csi__v1__topology__segments_entry__init(&rows[i]);
		rows[i].key = plugin->topology.segments[i].key;
		rows[i].value = plugin->topology.segments[i].value;
		list[i] = &rows[i];
	}
	topology.segments = list;
	topology.n_segments = plugin->topology.n_segments;
	if (topology.n_segments > 0)
		pb.accessible_topology = &topology;
	pb.node_id = text(plugin->node_id);
	pb.max_volumes_per_node = plugin->max_volumes;
	put(ret, &pb.base);
	return STATUS_OK;
}

static void put_volume(struct answer *ret, struct fake_csi_volume *volume)
{
	Csi__V1__CreateVolumeResponse pb = CSI__V1__CREATE_VOLUME_RESPONSE__INIT;
	Csi__V1__Volume row = CSI__V1__VOLUME__INIT;

	row.volume_id = volume->id;
	row.capacity_bytes = volume->capacity;
	pb.volume = &row;
	put(ret, &pb.base);
}

PERFORM(create_volume)
{
	const Csi__V1__CreateVolumeRequest *create = AS(CreateVolume, request);
	int64_t capacity = create->capacity_range ? create->capacity_range->required_bytes : 0;
	char id[FAKE_CSI_TEXT];

	if (create->name[0] == '\0' || create->n_volume_capabilities == 0)
		fake_csi_violate("CreateVolume: no name or no capability");
	(void)snprintf(id, sizeof(id), "id-of/%.200s", create->name);
	volume = fake_csi_volume(id);
	if (volume && volume->is_created && volume->capacity != capacity)
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "another size");
	if (!volume)
		volume = volume_add(id);
	(void)str_copy(volume->name, sizeof(volume->name), create->name);
	volume->is_created = true;
	volume->capacity = capacity;
	put_volume(ret, volume);
	return STATUS_OK;
}

PERFORM(delete_volume)
{
	if (!volume)
		return STATUS_OK;
	for (size_t i = 0; i < FAKE_CSI_NODES_MAX; i++)
		if (volume->nodes[i][0] != '\0')
			return error_set(err, STATUS_FAILED_PRECONDITION, 0, "it is attached");
	volume->id[0] = '\0';
	return STATUS_OK;
}

PERFORM(controller_publish)
{
	const Csi__V1__ControllerPublishVolumeRequest *publish = AS(ControllerPublishVolume, request);
	Csi__V1__ControllerPublishVolumeResponse pb = CSI__V1__CONTROLLER_PUBLISH_VOLUME_RESPONSE__INIT;
	Csi__V1__ControllerPublishVolumeResponse__PublishContextEntry entry =
		CSI__V1__CONTROLLER_PUBLISH_VOLUME_RESPONSE__PUBLISH_CONTEXT_ENTRY__INIT;
	Csi__V1__ControllerPublishVolumeResponse__PublishContextEntry *list[1] = {&entry};
	size_t free_slot = FAKE_CSI_NODES_MAX;

	if (publish->node_id[0] == '\0')
		fake_csi_violate("ControllerPublishVolume: no node_id");
	for (size_t i = 0; i < FAKE_CSI_NODES_MAX; i++) {
		if (volume->nodes[i][0] == '\0')
			free_slot = i;
		else if (str_eq(volume->nodes[i], publish->node_id))
			break;
	}
	if (!fake_csi_is_attached(volume->id, publish->node_id)) {
		if (free_slot == FAKE_CSI_NODES_MAX)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "too many nodes");
		(void)str_copy(volume->nodes[free_slot], FAKE_CSI_TEXT, publish->node_id);
	}
	entry.key = text("attached");
	entry.value = volume->id;
	pb.publish_context = list;
	pb.n_publish_context = 1;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(controller_unpublish)
{
	const Csi__V1__ControllerUnpublishVolumeRequest *unpublish = AS(ControllerUnpublishVolume, request);

	if (unpublish->node_id[0] == '\0')
		fake_csi_violate("ControllerUnpublishVolume: no node_id");
	for (size_t i = 0; volume && i < FAKE_CSI_NODES_MAX; i++)
		if (str_eq(volume->nodes[i], unpublish->node_id))
			volume->nodes[i][0] = '\0';
	return STATUS_OK;
}

PERFORM(validate)
{
	const Csi__V1__ValidateVolumeCapabilitiesRequest *asked = AS(ValidateVolumeCapabilities, request);
	Csi__V1__ValidateVolumeCapabilitiesResponse pb = CSI__V1__VALIDATE_VOLUME_CAPABILITIES_RESPONSE__INIT;
	Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed confirmed =
		CSI__V1__VALIDATE_VOLUME_CAPABILITIES_RESPONSE__CONFIRMED__INIT;

	confirmed.volume_capabilities = asked->volume_capabilities;
	confirmed.n_volume_capabilities = asked->n_volume_capabilities;
	pb.confirmed = plugin->objection ? NULL : &confirmed;
	pb.message = text(plugin->objection ? plugin->objection : "");
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(list_volumes)
{
	const Csi__V1__ListVolumesRequest *list_request = AS(ListVolumes, request);
	Csi__V1__ListVolumesResponse pb = CSI__V1__LIST_VOLUMES_RESPONSE__INIT;
	Csi__V1__ListVolumesResponse__Entry rows[FAKE_CSI_VOLUMES_MAX], *list[FAKE_CSI_VOLUMES_MAX];
	Csi__V1__Volume volumes[FAKE_CSI_VOLUMES_MAX];
	size_t max = list_request->max_entries > 0 ? (size_t)list_request->max_entries : FAKE_CSI_VOLUMES_MAX;
	size_t i = strtoul(list_request->starting_token, NULL, 10);
	char next[24] = "";

	for (; i < fake_csi.n_volumes && pb.n_entries < max; i++) {
		size_t at = pb.n_entries;

		if (!fake_csi.volumes[i].is_created || fake_csi.volumes[i].id[0] == '\0')
			continue;
		csi__v1__list_volumes_response__entry__init(&rows[at]);
		csi__v1__volume__init(&volumes[at]);
		volumes[at].volume_id = fake_csi.volumes[i].id;
		volumes[at].capacity_bytes = fake_csi.volumes[i].capacity;
		rows[at].volume = &volumes[at];
		list[pb.n_entries++] = &rows[at];
	}
	if (i < fake_csi.n_volumes)
		(void)snprintf(next, sizeof(next), "%zu", i);
	pb.entries = list;
	pb.next_token = next;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(create_snapshot)
{
	const Csi__V1__CreateSnapshotRequest *create = AS(CreateSnapshot, request);
	Csi__V1__CreateSnapshotResponse pb = CSI__V1__CREATE_SNAPSHOT_RESPONSE__INIT;
	Csi__V1__Snapshot row = CSI__V1__SNAPSHOT__INIT;
	char id[FAKE_CSI_TEXT];
	size_t i = 0;

	if (create->name[0] == '\0' || create->source_volume_id[0] == '\0')
		fake_csi_violate("CreateSnapshot: no name or no source_volume_id");
	(void)snprintf(id, sizeof(id), "snapshot-of&%.200s", create->name);
	while (i < fake_csi.n_snapshots && !str_eq(fake_csi.snapshots[i], id))
		i++;
	assert(i < FAKE_CSI_VOLUMES_MAX);
	if (i == fake_csi.n_snapshots)
		fake_csi.n_snapshots++;
	(void)str_copy(fake_csi.snapshots[i], FAKE_CSI_TEXT, id);
	row.snapshot_id = id;
	row.source_volume_id = create->source_volume_id;
	row.ready_to_use = true;
	pb.snapshot = &row;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(delete_snapshot)
{
	const Csi__V1__DeleteSnapshotRequest *delete_request = AS(DeleteSnapshot, request);

	for (size_t i = 0; i < fake_csi.n_snapshots; i++)
		if (str_eq(fake_csi.snapshots[i], delete_request->snapshot_id))
			fake_csi.snapshots[i][0] = '\0';
	return STATUS_OK;
}

PERFORM(list_snapshots)
{
	Csi__V1__ListSnapshotsResponse pb = CSI__V1__LIST_SNAPSHOTS_RESPONSE__INIT;
	Csi__V1__ListSnapshotsResponse__Entry rows[FAKE_CSI_VOLUMES_MAX], *list[FAKE_CSI_VOLUMES_MAX];
	Csi__V1__Snapshot snapshots[FAKE_CSI_VOLUMES_MAX];

	for (size_t i = 0; i < fake_csi.n_snapshots; i++) {
		size_t at = pb.n_entries;

		if (fake_csi.snapshots[i][0] == '\0')
			continue;
		csi__v1__list_snapshots_response__entry__init(&rows[at]);
		csi__v1__snapshot__init(&snapshots[at]);
		snapshots[at].snapshot_id = fake_csi.snapshots[i];
		snapshots[at].ready_to_use = true;
		rows[at].snapshot = &snapshots[at];
		list[pb.n_entries++] = &rows[at];
	}
	pb.entries = list;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(controller_expand)
{
	const Csi__V1__ControllerExpandVolumeRequest *expand = AS(ControllerExpandVolume, request);
	Csi__V1__ControllerExpandVolumeResponse pb = CSI__V1__CONTROLLER_EXPAND_VOLUME_RESPONSE__INIT;

	if (!expand->capacity_range)
		fake_csi_violate("ControllerExpandVolume: no capacity_range");
	else if (expand->capacity_range->required_bytes > volume->capacity)
		volume->capacity = expand->capacity_range->required_bytes;
	pb.capacity_bytes = volume->capacity;
	pb.node_expansion_required = plugin->needs_node_expansion;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(node_stage)
{
	const Csi__V1__NodeStageVolumeRequest *stage = AS(NodeStageVolume, request);
	bool is_device = stage->volume_capability && stage->volume_capability->access_type_case ==
							     CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;

	if (str_eq(volume->staged, stage->staging_target_path))
		return STATUS_OK;
	if (volume->staged[0] != '\0')
		fake_csi_violate("NodeStageVolume: volume %s at a second path", volume->id);
	if (str_copy(volume->staged, sizeof(volume->staged), stage->staging_target_path) < 0)
		abort();
	if (!is_device)
		report_mount(volume->staged, NULL);
	return STATUS_OK;
}

PERFORM(node_unstage)
{
	if (!volume)
		return error_set(err, STATUS_NOT_FOUND, 0, "no such volume");
	for (size_t i = 0; i < FAKE_CSI_TARGETS_MAX; i++)
		if (volume->targets[i].path[0] != '\0')
			fake_csi_violate("NodeUnstageVolume: volume %s is published", volume->id);
	if (volume->staged[0] != '\0')
		report_unmount(volume->staged);
	volume->staged[0] = '\0';
	return STATUS_OK;
}

PERFORM(node_publish)
{
	const Csi__V1__NodePublishVolumeRequest *publish = AS(NodePublishVolume, request);
	struct fake_csi_target *target = find_target(volume, publish->target_path);
	bool is_device = publish->volume_capability && publish->volume_capability->access_type_case ==
							       CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;

	if (announces(plugin->node_rpcs, plugin->n_node_rpcs, 1) &&
	    (volume->staged[0] == '\0' || !str_eq(volume->staged, publish->staging_target_path))) {
		fake_csi_violate("NodePublishVolume: volume %s is not staged there", volume->id);
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "it is not staged");
	}
	if (target && (target->read_only != publish->readonly || target->is_device != is_device))
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "published otherwise");
	if (target)
		return STATUS_OK;
	target = find_target(volume, "");
	if (!target)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "too many targets");
	if (str_copy(target->path, sizeof(target->path), publish->target_path) < 0)
		abort();
	target->read_only = publish->readonly;
	target->is_device = is_device;
	report_mount(target->path, target);
	return STATUS_OK;
}

PERFORM(node_unpublish)
{
	const Csi__V1__NodeUnpublishVolumeRequest *unpublish = AS(NodeUnpublishVolume, request);
	struct fake_csi_target *target;

	if (!volume)
		return error_set(err, STATUS_NOT_FOUND, 0, "no such volume");
	target = find_target(volume, unpublish->target_path);
	if (!target)
		return STATUS_OK;
	report_unmount(target->path);
	*target = (struct fake_csi_target){0};
	return STATUS_OK;
}

PERFORM(node_expand)
{
	const Csi__V1__NodeExpandVolumeRequest *expand = AS(NodeExpandVolume, request);
	Csi__V1__NodeExpandVolumeResponse pb = CSI__V1__NODE_EXPAND_VOLUME_RESPONSE__INIT;

	if (!fake_csi_is_published(volume->id, expand->volume_path))
		return STATUS_NOT_FOUND;
	if (strcmp(expand->staging_target_path, volume->staged) != 0)
		fake_csi_violate("NodeExpandVolume: another staging path");
	pb.capacity_bytes = volume->capacity;
	put(ret, &pb.base);
	return STATUS_OK;
}

PERFORM(node_stats)
{
	const Csi__V1__NodeGetVolumeStatsRequest *stats = AS(NodeGetVolumeStats, request);
	Csi__V1__NodeGetVolumeStatsResponse pb = CSI__V1__NODE_GET_VOLUME_STATS_RESPONSE__INIT;
	Csi__V1__VolumeUsage bytes = CSI__V1__VOLUME_USAGE__INIT, *usage = &bytes;
	Csi__V1__VolumeCondition condition = CSI__V1__VOLUME_CONDITION__INIT;

	if (!fake_csi_is_published(volume->id, stats->volume_path))
		return error_set(err, STATUS_NOT_FOUND, 0, "it is not published there");
	if (strcmp(stats->staging_target_path, volume->staged) != 0)
		fake_csi_violate("NodeGetVolumeStats: another staging path");
	bytes.unit = CSI__V1__VOLUME_USAGE__UNIT__BYTES;
	bytes.total = plugin->total;
	bytes.used = plugin->used;
	bytes.available = plugin->total - plugin->used;
	pb.usage = &usage;
	pb.n_usage = 1;
	condition.abnormal = plugin->condition != NULL;
	condition.message = text(plugin->condition ? plugin->condition : "in order");
	pb.volume_condition = &condition;
	put(ret, &pb.base);
	return STATUS_OK;
}

struct map_entry { /* the layout that protoc-c gives each map<string, string> */
	ProtobufCMessage base;
	char *key;
	char *value;
};

static void note_map(const ProtobufCMessage *request, const char *name, const char *key, char ret[64])
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(request->descriptor, name);
	const struct map_entry *const *list;
	size_t n;

	if (!field || field->label != PROTOBUF_C_LABEL_REPEATED)
		return;
	n = *(const size_t *)(const void *)((const uint8_t *)request + field->quantifier_offset);
	list = *(const struct map_entry *const *const *)(const void *)((const uint8_t *)request +
								       field->offset);
	ret[0] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!key || str_eq(list[i]->key, key))
			(void)snprintf(ret, 64, "%s", list[i]->value);
}

/* What tests ask for of the last call. */
static void note(struct fake_csi_volume *volume, const ProtobufCMessage *request)
{
	const Csi__V1__VolumeCapability *const *at =
		member(request, "volume_capability", PROTOBUF_C_TYPE_MESSAGE);

	note_map(request, "secrets", "key", volume->last_secret);
	note_map(request, "volume_context", NULL, volume->last_context);
	note_map(request, "publish_context", NULL, volume->last_publish_context);
	if (at && *at && (*at)->access_mode)
		volume->last_access_mode = (int)(*at)->access_mode->mode;
	if (at && *at && (*at)->access_type_case == CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT)
		(void)snprintf(volume->last_fs_type, sizeof(volume->last_fs_type), "%s",
			       (*at)->mount->fs_type);
}

enum status fake_csi_perform(struct fake_csi_plugin *plugin, enum csi_method method,
			     const ProtobufCMessage *request, uint8_t **ret, size_t *ret_len,
			     struct error *err)
{
	const char *id = volume_id(request);
	struct fake_csi_volume *volume = id ? fake_csi_volume(id) : NULL;
	struct answer answer = {0};

	if (!is_announced(plugin, method, id) || (plugin->has_no_node && actions[method].half == HALF_NODE))
		return error_set(err, STATUS_UNIMPLEMENTED, 0, "%s", "");
	if (actions[method].needs_volume && !volume)
		return error_set(err, STATUS_NOT_FOUND, 0, "no such volume");
	if (volume)
		note(volume, request);
	TRY(actions[method].perform(plugin, request, volume, &answer, err));
	*ret = answer.bytes;
	*ret_len = answer.len;
	return STATUS_OK;
}
