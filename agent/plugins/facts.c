/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/facts.h"

#include "base/cleanup.h"
#include "base/ends.h"
#include "base/str.h"
#include "csi/csi_map.h"

#include <stdint.h>
#include <string.h>

#define CONTROLLER_RPC(name) CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__##name
#define NODE_RPC(name) CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__##name

/* A number of the wire and the member that it sets. */
struct flag {
	int number;
	size_t offset;
};

#define CONTROLLER_FLAG(name, member)                                          \
	{                                                                      \
		CONTROLLER_RPC(name), offsetof(struct controller_half, member) \
	}
#define NODE_FLAG(name, member)                                    \
	{                                                          \
		NODE_RPC(name), offsetof(struct node_half, member) \
	}

static const struct flag controller_flags[] = {
	CONTROLLER_FLAG(CREATE_DELETE_VOLUME, create_delete),
	CONTROLLER_FLAG(PUBLISH_UNPUBLISH_VOLUME, attach_detach),
	CONTROLLER_FLAG(LIST_VOLUMES, list_volumes),
	CONTROLLER_FLAG(GET_CAPACITY, get_capacity),
	CONTROLLER_FLAG(CREATE_DELETE_SNAPSHOT, create_delete_snapshot),
	CONTROLLER_FLAG(LIST_SNAPSHOTS, list_snapshots),
	CONTROLLER_FLAG(CLONE_VOLUME, clone),
	CONTROLLER_FLAG(PUBLISH_READONLY, readonly_attach),
	CONTROLLER_FLAG(EXPAND_VOLUME, expand),
	CONTROLLER_FLAG(VOLUME_CONDITION, condition),
	CONTROLLER_FLAG(GET_VOLUME, get_volume),
	CONTROLLER_FLAG(SINGLE_NODE_MULTI_WRITER, single_node_multi_writer),
};

static const struct flag node_flags[] = {
	NODE_FLAG(STAGE_UNSTAGE_VOLUME, stage),
	NODE_FLAG(GET_VOLUME_STATS, stats),
	NODE_FLAG(EXPAND_VOLUME, expand),
	NODE_FLAG(VOLUME_CONDITION, condition),
	NODE_FLAG(SINGLE_NODE_MULTI_WRITER, single_node_multi_writer),
};

static void set_flag(void *half, const struct flag *flags, size_t n, int number)
{
	for (size_t i = 0; i < n; i++) {
		if (flags[i].number == number)
			*(bool *)((uint8_t *)half + flags[i].offset) = true;
	}
}

/* Copies a name that is used unchanged; refuses one that would need a change. */
static enum status parse_name(char *ret, size_t size, const struct node_plugin *facts, const char *what,
			      const char *name, struct error *err)
{
	if (name[0] == '\0')
		return error_set(err, STATUS_INTERNAL, 0, "plugin %s: %s is empty", facts->plugin_id, what);
	if (strlen(name) >= size)
		return error_set(err, STATUS_INTERNAL, 0,
				 "plugin %s: %s has %zu bytes, more than %zu are not taken", facts->plugin_id,
				 what, strlen(name), size - 1);
	if (!str_is_text(name))
		return error_set(err, STATUS_INTERNAL, 0,
				 "plugin %s: %s has control characters or is not UTF-8", facts->plugin_id,
				 what);
	return str_copy(ret, size, name) < 0 ? STATUS_INTERNAL : STATUS_OK;
}

enum status facts_take_info(struct node_plugin *facts, const Csi__V1__GetPluginInfoResponse *pb,
			    struct error *err)
{
	enum status status = parse_name(facts->provider, sizeof(facts->provider), facts,
					"GetPluginInfo: the name", pb->name, err);

	if (status == STATUS_OK) /* only shown to people */
		str_copy_text(facts->provider_version, sizeof(facts->provider_version), pb->vendor_version);
	return status;
}

bool facts_take_services(struct node_plugin *facts, const Csi__V1__GetPluginCapabilitiesResponse *pb)
{
	for (size_t i = 0; i < pb->n_capabilities; i++) {
		const Csi__V1__PluginCapability *row = pb->capabilities[i];

		if (row->type_case != CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE)
			continue;
		if (row->service->type == CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE)
			facts->controller_required = true;
		if (row->service->type ==
		    CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__VOLUME_ACCESSIBILITY_CONSTRAINTS)
			facts->topology_required = true;
	}
	return facts->controller_required;
}

void facts_take_controller(struct node_plugin *facts, const Csi__V1__ControllerGetCapabilitiesResponse *pb)
{
	facts->has_controller = true;
	facts->controller = (struct controller_half){.healthy = true};
	for (size_t i = 0; i < pb->n_capabilities; i++) {
		if (pb->capabilities[i]->type_case == CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC)
			set_flag(&facts->controller, controller_flags, ARRAY_SIZE(controller_flags),
				 (int)pb->capabilities[i]->rpc->type);
	}
}

void facts_take_node(struct node_plugin *facts, const Csi__V1__NodeGetCapabilitiesResponse *pb)
{
	facts->has_node = true;
	facts->healthy = true;
	facts->node = (struct node_half){0};
	for (size_t i = 0; i < pb->n_capabilities; i++) {
		if (pb->capabilities[i]->type_case == CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC)
			set_flag(&facts->node, node_flags, ARRAY_SIZE(node_flags),
				 (int)pb->capabilities[i]->rpc->type);
	}
}

enum status facts_take_node_info(struct node_plugin *facts, const Csi__V1__NodeGetInfoResponse *pb,
				 struct error *err)
{
	TRY(parse_name(facts->node.provider_node_id, sizeof(facts->node.provider_node_id), facts,
		       "NodeGetInfo: the node id", pb->node_id, err));
	if (!csi_topology_from(pb->accessible_topology, &facts->node.topology))
		return error_set(err, STATUS_INTERNAL, 0,
				 "plugin %s: NodeGetInfo: more than %d topology segments, or one above %d "
				 "bytes or that is no text of one line, are not taken",
				 facts->plugin_id, TOPOLOGY_SEGMENTS_MAX, TOPOLOGY_TEXT_MAX);
	/* absent and nonsense are no limit */
	facts->node.max_volumes = pb->max_volumes_per_node > 0 ? pb->max_volumes_per_node : 0;
	return STATUS_OK;
}

bool facts_take_addons(struct node_plugin *facts, const Identity__GetCapabilitiesResponse *pb)
{
	bool has_clients = false;

	for (size_t i = 0; i < pb->n_capabilities; i++) {
		const Identity__Capability *row = pb->capabilities[i];

		if (row->type_case != IDENTITY__CAPABILITY__TYPE_NETWORK_FENCE)
			continue;
		if (row->network_fence->type == IDENTITY__CAPABILITY__NETWORK_FENCE__TYPE__NETWORK_FENCE)
			facts->controller.network_fence = facts->has_controller;
		if (row->network_fence->type ==
		    IDENTITY__CAPABILITY__NETWORK_FENCE__TYPE__GET_CLIENTS_TO_FENCE)
			has_clients = true;
	}
	return has_clients;
}

static bool add_client(struct node_half *node, const char *cidr)
{
	struct fence_net net;
	char text[FENCE_NET_TEXT_SIZE];

	if (fence_net_read(cidr, &net, NULL) != STATUS_OK)
		return false;
	fence_net_text(&net, text);
	for (uint32_t i = 0; i < node->n_fence_clients; i++)
		if (str_eq(node->fence_clients[i].cidr, text))
			return true;
	if (node->n_fence_clients == FENCE_CLIENTS_MAX)
		return false;
	(void)str_copy(node->fence_clients[node->n_fence_clients++].cidr, FENCE_NET_TEXT_SIZE, text);
	return true;
}

void facts_take_fence_clients(struct node_plugin *facts, const Fence__GetFenceClientsResponse *pb)
{
	struct node_half *node = &facts->node;
	bool is_whole = true;

	node->n_fence_clients = 0;
	memset(node->fence_clients, 0, sizeof(node->fence_clients));
	for (size_t i = 0; i < pb->n_clients; i++)
		for (size_t k = 0; k < pb->clients[i]->n_addresses; k++)
			is_whole = is_whole && add_client(node, pb->clients[i]->addresses[k]->cidr);
	if (is_whole)
		return;
	memset(node->fence_clients, 0, sizeof(node->fence_clients));
	(void)str_copy(node->fence_clients[0].cidr, FENCE_NET_TEXT_SIZE, FENCE_NET_UNREADABLE);
	node->n_fence_clients = 1;
}

bool facts_is_ready(const Csi__V1__ProbeResponse *pb)
{
	return !pb->ready || pb->ready->value;
}

enum status facts_check(const struct node_plugin *facts, const struct facts_wanted *wanted, struct error *err)
{
	if (wanted->is_stated && wanted->has_controller && !facts->has_controller)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"plugin %s: its allocation requires a controller service, which it does not serve: "
			"set the type of its csi_plugin block to node, or start the plugin as a controller",
			facts->plugin_id);
	if (wanted->is_stated && wanted->has_node && !facts->has_node)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"plugin %s: its allocation requires a node service, which it does not serve: set the "
			"type of its csi_plugin block to controller, or start the plugin as a node plugin",
			facts->plugin_id);
	if (!facts->has_node && !facts->has_controller)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "plugin %s: it serves neither CSI's Node service nor its Controller service",
				 facts->plugin_id);
	return STATUS_OK;
}

/* Copies the fields of the plugin as a whole. */
static void copy_head(struct node_plugin *ret, const struct node_plugin *from)
{
	memcpy(ret->provider, from->provider, sizeof(ret->provider));
	memcpy(ret->provider_version, from->provider_version, sizeof(ret->provider_version));
	memcpy(ret->allocation_id, from->allocation_id, sizeof(ret->allocation_id));
}

/* A driver in two processes may announce its controller, and its topology, only in the one that serves it. A
 * half that is kept without its process keeps its announcement. */
static void merge_needs(struct node_plugin *ret, const struct node_plugin *before,
			const struct facts_halves *halves)
{
	const bool is_whole = ret->has_node == !!halves->node && ret->has_controller == !!halves->controller;
	const struct node_plugin *sources[3] = {halves->node, halves->controller, is_whole ? NULL : before};

	ret->controller_required = ret->topology_required = false;
	for (size_t i = 0; i < 3; i++) {
		ret->controller_required |= sources[i] && sources[i]->controller_required;
		ret->topology_required |= sources[i] && sources[i]->topology_required;
	}
}

void facts_merge(const struct node_plugin *before, const struct facts_halves *halves, struct node_plugin *ret)
{
	const struct node_plugin *head = halves->node ? halves->node : halves->controller;
	struct node_plugin merged = *before;

	if (head)
		copy_head(&merged, head);
	if (halves->node)
		merged.node = halves->node->node;
	else if (!halves->keeps_node)
		merged.node = (struct node_half){0};
	merged.has_node = halves->node || (before->has_node && halves->keeps_node);
	if (halves->controller)
		merged.controller = halves->controller->controller;
	else if (!halves->keeps_controller)
		merged.controller = (struct controller_half){0};
	merged.has_controller = halves->controller || (before->has_controller && halves->keeps_controller);
	merge_needs(&merged, before, halves);
	merged.controller.healthy = halves->controller != NULL;
	merged.controller.health_description[0] = '\0';
	merged.healthy = halves->node || (halves->controller && !merged.has_node);
	merged.health_description[0] = '\0';
	if (merged.has_controller && !halves->controller)
		str_copy_ends(merged.controller.health_description,
			      sizeof(merged.controller.health_description), halves->reason);
	if (!merged.healthy)
		str_copy_ends(merged.health_description, sizeof(merged.health_description), halves->reason);
	*ret = merged;
}

bool facts_eq(const struct node_plugin *a, const struct node_plugin *b)
{
	return facts_eq_lasting(a, b) && a->healthy == b->healthy &&
	       str_eq(a->health_description, b->health_description) &&
	       a->controller.healthy == b->controller.healthy &&
	       str_eq(a->controller.health_description, b->controller.health_description);
}

static void drop_health(struct node_plugin *facts)
{
	facts->healthy = facts->controller.healthy = false;
	memset(facts->health_description, 0, sizeof(facts->health_description));
	memset(facts->controller.health_description, 0, sizeof(facts->controller.health_description));
	facts->update_time_ms = 0;
}

bool facts_eq_lasting(const struct node_plugin *a, const struct node_plugin *b)
{
	struct node_plugin left = *a, right = *b;

	drop_health(&left);
	drop_health(&right);
	/* NOLINTNEXTLINE(bugprone-*,cert-*): a difference in padding only costs a message */
	return memcmp(&left, &right, sizeof(left)) == 0;
}
