/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/fingerprint.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "model/alloc_event.h"
#include "model/pb.h"
#include "model/reference.h"
#include "plugin/fence_clients.h"
#include "recovery/epoch.h"

#include <stdlib.h>
#include <string.h>

/* Drops a reported controller that the node may not run: it is not even stored, so calls cannot reach it.
 * Whether the plugin's volumes need one is decided by the listed nodes, see plugins.h. */
static void drop_unlisted_controller(struct server *server, const char *node_id, struct node_plugin *plugin)
{
	if (!plugin->has_controller ||
	    controller_nodes_allow(&server->config.controller_nodes, plugin->plugin_id, node_id))
		return;
	plugin->has_controller = false;
	plugin->controller = (struct controller_half){0};
	log_ctx(LOG_NOTICE,
		&(struct log_ctx){.node = node_id, .plugin = plugin->plugin_id, .op = "fingerprint"},
		"node %s is not among the nodes of controller \"%s\" in %s: its report of a controller is "
		"ignored",
		node_id, plugin->plugin_id, server->config.path);
}

/* Returns another node that reported the same provider id before, or NULL. */
static const char *owner_of_node_id(struct server *server, const char *node_id,
				    const struct node_plugin *plugin)
{
	const struct instance_entry *known =
		state_instance(&server->state, node_id, plugin->plugin_id, plugin->profile);
	struct plugin_entry *of = state_plugin(&server->state, plugin->plugin_id);
	const struct instance_entry *other;

	if (!of ||
	    (known && str_eq(known->instance.plugin.node.provider_node_id, plugin->node.provider_node_id)))
		return NULL;
	other = state_other_of_provider_id(of, plugin->node.provider_node_id, node_id);
	return other ? other->instance.node_id : NULL;
}

/* The provider attaches and detaches by this id. A hostile node with the id of another one could have the
 * provider detach what that node uses. The first node that reported an id keeps it. */
static void drop_foreign_node_id(struct server *server, const char *node_id, struct node_plugin *plugin)
{
	const char *owner = plugin->has_node && plugin->node.provider_node_id[0] != '\0'
				    ? owner_of_node_id(server, node_id, plugin)
				    : NULL;

	if (!owner)
		return;
	if (plugin->controller_required)
		log_ctx(LOG_ERR,
			&(struct log_ctx){.node = node_id, .plugin = plugin->plugin_id, .op = "fingerprint"},
			"node %s reports provider id %s, which node %s has reported before, and it is "
			"ignored: "
			"nothing is attached to node %s. If node %s is gone: holdfast node purge %s",
			node_id, plugin->node.provider_node_id, owner, node_id, owner, owner);
	plugin->node.provider_node_id[0] = '\0';
}

/* The helper is the plugin: it has no provider, which would have an id of the node, and no controller. */
static void make_native(struct node_plugin *plugin)
{
	plugin->has_node = true;
	plugin->has_controller = plugin->controller_required = false;
	plugin->controller = (struct controller_half){0};
	plugin->node.provider_node_id[0] = '\0';
}

static enum status read_plugin(struct server *server, const char *node_id,
			       const Holdfast__V1__NodePlugin *from, struct plugin_instance *ret,
			       struct error *err)
{
	*ret = (struct plugin_instance){0};
	TRY(node_plugin_from_pb(from, &ret->plugin, err));
	if (!id_is_plugin(ret->plugin.plugin_id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "node %s: plugin_id '%.64s' is no plugin id", node_id,
				 ret->plugin.plugin_id);
	if (str_eq(ret->plugin.plugin_id, PLUGIN_NATIVE))
		make_native(&ret->plugin);
	else if (ret->plugin.profile[0] != '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "node %s: plugin %s has a profile, which only the native plugin has",
				 node_id, ret->plugin.plugin_id);
	drop_unlisted_controller(server, node_id, &ret->plugin);
	drop_foreign_node_id(server, node_id, &ret->plugin);
	(void)str_copy(ret->node_id, sizeof(ret->node_id), node_id);
	ret->plugin.update_time_ms = clock_realtime_ms();
	return STATUS_OK;
}

static bool same_key(const struct plugin_instance *a, const struct plugin_instance *b)
{
	return str_eq(a->plugin.plugin_id, b->plugin.plugin_id) &&
	       str_eq(a->plugin.profile, b->plugin.profile);
}

/* Both were made by node_plugin_from_pb(), which zeroes what it does not fill. */
static bool differs(const struct plugin_instance *known, const struct plugin_instance *reported)
{
	struct node_plugin plugin = reported->plugin;

	plugin.update_time_ms = known->plugin.update_time_ms;
	/* NOLINTNEXTLINE(bugprone-*,cert-*): a difference in padding only costs a write */
	return memcmp(&known->plugin, &plugin, sizeof(plugin)) != 0;
}

/* Is it an unhealthy instance of a plugin that no node has reported yet? It is ignored: a plugin that is
 * shutting down would otherwise reappear for a moment. Profiles of the native plugin come from the policy
 * and are taken in any state. */
static bool is_out_of_nothing(struct server *server, const struct plugin_instance *reported)
{
	const struct plugin_entry *plugin = state_plugin(&server->state, reported->plugin.plugin_id);
	bool is_healthy = node_plugin_is_healthy(&reported->plugin) ||
			  (reported->plugin.has_controller && reported->plugin.controller.healthy);

	return !is_healthy && !str_eq(reported->plugin.plugin_id, PLUGIN_NATIVE) &&
	       (!plugin || RB_EMPTY(&plugin->instances));
}

/* The service that is at fault, if the other one is well. */
static const char *sick_service(const struct node_plugin *plugin)
{
	if (!plugin->has_node || !plugin->has_controller ||
	    node_plugin_is_healthy(plugin) == plugin->controller.healthy)
		return "";
	return plugin->controller.healthy ? "the node service of " : "the controller of ";
}

/* Profiles of the native plugin come with the policy: the first report of one is no event, nor is that of a
 * new node. */
static void audit_health(struct server *server, struct change *change, const struct plugin_instance *known,
			 const struct plugin_instance *reported)
{
	const struct plugin_instance *one = reported ? reported : known;
	bool is_whole = reported && node_plugin_is_whole(&reported->plugin);
	bool is_sick = reported && !is_whole;
	char why[AUDIT_WHY_SIZE];

	if (!known && (is_sick || str_eq(one->plugin.plugin_id, PLUGIN_NATIVE) ||
		       !state_node(&server->state, one->node_id)))
		return;
	if (known && reported && is_whole == node_plugin_is_whole(&known->plugin))
		return;
	(void)str_format(why, sizeof(why), "%splugin %s%s%s %s%.*s",
			 is_sick ? sick_service(&reported->plugin) : "", one->plugin.plugin_id,
			 one->plugin.profile[0] != '\0' ? "/" : "", one->plugin.profile,
			 !reported ? "has left"
			 : is_sick ? "is unhealthy: "
				   : "is healthy",
			 PLUGIN_EVENT_TEXT_MAX, is_sick ? node_plugin_health_text(&reported->plugin) : "");
	audit_node_event(server, change, NODE_EVENT_PLUGIN, one->node_id, why);
}

/* Adds an event to the allocation that runs the plugin, too. */
static void stage_event(struct server *server, struct change *change, const struct plugin_instance *known,
			const struct plugin_instance *reported)
{
	const struct node_plugin *plugin = reported ? &reported->plugin : &known->plugin;
	const struct alloc_entry *entry = state_alloc(&server->state, plugin->allocation_id);
	bool is_whole = reported && node_plugin_is_whole(plugin);
	bool is_same = known && reported && node_plugin_is_whole(&known->plugin) == is_whole;
	Holdfast__V1__AllocationEventType type =
		!reported  ? HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_PLUGIN_GONE
		: is_whole ? HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_PLUGIN_HEALTHY
			   : HOLDFAST__V1__ALLOCATION_EVENT_TYPE__ALLOCATION_EVENT_TYPE_PLUGIN_UNHEALTHY;
	cleanup(alloc_release) struct alloc alloc = {0};
	char text[ALLOC_EVENT_TEXT_MAX + 1];

	audit_health(server, change, known, reported);
	if (is_same || !entry || !alloc_find_plugin(&entry->alloc, plugin->plugin_id) ||
	    !str_eq(entry->alloc.node_id, (reported ? reported : known)->node_id) ||
	    alloc_is_client_terminal(&entry->alloc) || !epoch_may_grow(entry) ||
	    change->n >= CHANGE_OBJECTS_MAX / 2)
		return;
	alloc = entry->alloc;
	if (!alloc_own(&alloc))
		return; /* it is shown with the plugin anyway */
	(void)str_format(text, sizeof(text), "%s%s%s", plugin->plugin_id, is_whole || !reported ? "" : ": ",
			 is_whole || !reported ? "" : node_plugin_health_text(plugin));
	if (alloc_add_event(&alloc, type, "", text, clock_realtime_ms()))
		change_put_alloc(change, &alloc);
}

static void stage_put(struct server *server, struct change *change, const struct plugin_instance *reported)
{
	const struct instance_entry *known = state_instance(
		&server->state, reported->node_id, reported->plugin.plugin_id, reported->plugin.profile);

	if (is_out_of_nothing(server, reported)) {
		log_ctx(LOG_INFO,
			&(struct log_ctx){.node = reported->node_id,
					  .plugin = reported->plugin.plugin_id,
					  .op = "fingerprint"},
			"not taken before it is healthy: %s", reported->plugin.health_description);
		return;
	}
	if (known && !differs(&known->instance, reported))
		return;
	change_put(change, OBJECT_NODE_PLUGIN, reported);
	stage_event(server, change, known ? &known->instance : NULL, reported);
}

static void stage_deletions(struct server *server, struct change *change, const char *node_id,
			    const struct plugin_instance *reported, size_t n_reported)
{
	const struct node_entry *node = state_node(&server->state, node_id);
	const struct instance_entry *known;

	if (!node)
		return;
	LIST_FOREACH (known, &node->instances, of_node) {
		size_t i = 0;

		while (i < n_reported && !same_key(&reported[i], &known->instance))
			i++;
		if (i < n_reported)
			continue;
		change_delete(change, OBJECT_NODE_PLUGIN, &known->instance);
		stage_event(server, change, &known->instance, NULL);
	}
}

enum status fingerprint_stage(struct server *server, struct change *change, const char *node_id,
			      const char *boot_id, const char *machine,
			      const Holdfast__V1__Fingerprint *fingerprint, struct error *err)
{
	const size_t n_plugins = fingerprint->n_plugins;
	cleanup_free struct plugin_instance *reported = NULL;

	if (n_plugins > NODE_PLUGINS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "node %s: more than %d plugins", node_id,
				 NODE_PLUGINS_MAX);
	reported = calloc(n_plugins + 1, sizeof(*reported));
	if (!reported)
		return error_no_memory(err, "a plugin");
	for (size_t i = 0; i < n_plugins; i++) {
		TRY(read_plugin(server, node_id, fingerprint->plugins[i], &reported[i], err));
		for (size_t k = 0; k < i; k++)
			if (same_key(&reported[k], &reported[i]))
				return error_set(err, STATUS_INVALID_ARGUMENT, 0,
						 "node %s: plugin %s is named twice", node_id,
						 reported[i].plugin.plugin_id);
	}
	fence_clients_begin(server, change, node_id, boot_id);
	for (size_t i = 0; i < n_plugins; i++) {
		stage_put(server, change, &reported[i]);
		fence_clients_take(server, change, node_id, boot_id, machine, &reported[i].plugin);
	}
	stage_deletions(server, change, node_id, reported, n_plugins);
	return STATUS_OK;
}

/* "8a88e3dd, 12345678" */
static void put_keys(const ProtobufCBinaryData *keys, char ret[static NODE_KEYS_TEXT_SIZE])
{
	size_t at = 0;

	ret[0] = '\0';
	for (size_t i = 0; i + TICKET_KEY_ID_SIZE <= keys->len; i += TICKET_KEY_ID_SIZE) {
		char text[2 * TICKET_KEY_ID_SIZE + 1];
		int n;

		hex_encode(text, keys->data + i, TICKET_KEY_ID_SIZE);
		n = str_format(ret + at, NODE_KEYS_TEXT_SIZE - at, "%s%s", at > 0 ? ", " : "", text);
		at += n > 0 ? (size_t)n : 0; /* keys beyond two are cut */
	}
}

void fingerprint_compare_keys(const struct server *server, struct node *node)
{
	uint8_t own[TICKET_KEY_SIZE];
	char text[2 * TICKET_KEY_ID_SIZE + 1];
	char before[NODE_KEYS_TEXT_SIZE];

	ticket_issuer_public_key(server->issuer, own);
	hex_encode(text, own, TICKET_KEY_ID_SIZE);
	(void)str_copy(before, sizeof(before), node->other_ticket_keys);
	(void)str_copy(node->other_ticket_keys, sizeof(node->other_ticket_keys),
		       strstr(node->ticket_keys, text) ? "" : node->ticket_keys);
	if (node->other_ticket_keys[0] != '\0' && !str_eq(before, node->other_ticket_keys))
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .op = "session"},
			"node %s has another ticket key (%s...): its mount helper refuses every mount. "
			"Compare with "
			"holdfast operator status, and put the right key into its policy (ticket_key =), or "
			"give this "
			"server its old key back",
			node->id, node->other_ticket_keys);
}

void fingerprint_take_keys(const struct server *server, const ProtobufCBinaryData *keys, struct node *node)
{
	put_keys(keys, node->ticket_keys);
	fingerprint_compare_keys(server, node);
}

void fingerprint_take_issuer(const Holdfast__V1__Fingerprint *fingerprint, struct node *node)
{
	const char *issuer = fingerprint->certificate_issuer;

	if (issuer[0] != '\0' && issuer[strspn(issuer, "0123456789ABCDEFabcdef")] == '\0' &&
	    strlen(issuer) < sizeof(node->certificate_issuer))
		(void)str_copy(node->certificate_issuer, sizeof(node->certificate_issuer), issuer);
}

/* A path as operators make them; what else a node reports as one is not shown. */
static bool is_plain_path(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";

	return path[0] == '/' && path[strspn(path, plain)] == '\0' && strlen(path) <= NODE_DISK_PATH_MAX;
}

void fingerprint_take_disk(const Holdfast__V1__Fingerprint *fingerprint, struct node *node)
{
	enum node_disk before = node_disk_of(node);
	enum node_disk now = node_disk_of_word(fingerprint->disk_trouble);
	const char *path = is_plain_path(fingerprint->disk_path) ? fingerprint->disk_path : "";
	char text[NODE_DISK_TEXT_SIZE];

	(void)str_copy(node->disk_trouble, sizeof(node->disk_trouble), node_disk_word(now));
	(void)str_copy(node->disk_path, sizeof(node->disk_path), now == NODE_DISK_ROOM ? "" : path);
	if (now == before)
		return;
	if (now == NODE_DISK_ROOM)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.node = node->id, .op = "session"},
			"the disk of node %s has room again", node->id);
	else
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .op = "session"},
			"node %s takes no new allocation: %s. Next: holdfast node status %s", node->id,
			node_disk_text(now, path, text), node->id);
}

static enum status check_driver(Holdfast__V1__NodeDriver *const *drivers, size_t i, struct error *err)
{
	if (!id_is_label(drivers[i]->name))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the name of a task driver is 1 to 63 of a-z 0-9 and -, not '%.64s'",
				 drivers[i]->name);
	for (size_t k = 0; k < i; k++)
		if (str_eq(drivers[k]->name, drivers[i]->name))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0, "task driver %s is named twice",
					 drivers[i]->name);
	if (protobuf_c_message_get_packed_size(&drivers[i]->base) > NODE_DRIVER_BYTES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "task driver %s reports more than %d bytes",
				 drivers[i]->name, NODE_DRIVER_BYTES_MAX);
	return STATUS_OK;
}

enum status fingerprint_take_drivers(struct node_entry *node, const Holdfast__V1__Fingerprint *fingerprint,
				     struct error *err)
{
	Holdfast__V1__NodeDriver *const *drivers = fingerprint->drivers;
	size_t n_drivers = fingerprint->n_drivers;
	enum status status = STATUS_OK;
	struct message_list *list;

	if (n_drivers > NODE_DRIVERS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%zu task drivers, at most %d are taken",
				 n_drivers, NODE_DRIVERS_MAX);
	for (size_t i = 0; i < n_drivers && status == STATUS_OK; i++)
		status = check_driver(drivers, i, err);
	if (status != STATUS_OK)
		return status;
	if (!message_list_new((ProtobufCMessage *const *)(const void *)drivers, n_drivers, &list))
		return error_no_memory(err, "the task drivers of a node");
	if (message_list_bytes(list) > NODE_DRIVERS_MEMORY_MAX) {
		message_list_unref(list);
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%zu task drivers take more than %d bytes of memory", n_drivers,
				 NODE_DRIVERS_MEMORY_MAX);
	}
	message_list_unref(node->drivers);
	node->drivers = list;
	return STATUS_OK;
}

static enum status check_attribute(Holdfast__Driver__V1__KeyValue *const *attributes, size_t i,
				   struct error *err)
{
	if (!node_attribute_name_is_valid(attributes[i]->key) ||
	    !node_attribute_value_is_valid(attributes[i]->value))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "attribute '%.64s' of the node is not valid", attributes[i]->key);
	for (size_t k = 0; k < i; k++)
		if (str_eq(attributes[k]->key, attributes[i]->key))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "attribute %s of the node is named twice", attributes[i]->key);
	return STATUS_OK;
}

enum status fingerprint_take_attributes(struct node_entry *node,
					Holdfast__Driver__V1__KeyValue *const *attributes, size_t n,
					struct error *err)
{
	struct message_list *list;

	if (n > NODE_ATTRIBUTES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%zu attributes of the node, at most %d are taken", n, NODE_ATTRIBUTES_MAX);
	for (size_t i = 0; i < n; i++)
		TRY(check_attribute(attributes, i, err));
	if (!message_list_new((ProtobufCMessage *const *)(const void *)attributes, n, &list))
		return error_no_memory(err, "the attributes of a node");
	message_list_unref(node->attributes);
	node->attributes = list;
	return STATUS_OK;
}
