/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "state/state_internal.h"

#include <stdlib.h>
#include <string.h>

static int compare_plugins(const struct plugin_entry *a, const struct plugin_entry *b)
{
	return strcmp(a->id, b->id);
}

static int compare_offers(const struct plugin_offer *a, const struct plugin_offer *b)
{
	return strcmp(a->profile, b->profile);
}

static int compare_instances(const struct instance_entry *a, const struct instance_entry *b)
{
	int c = strcmp(a->node->id, b->node->id);

	return c != 0 ? c : strcmp(a->instance.plugin.profile, b->instance.plugin.profile);
}

static int compare_runners(const struct alloc_entry *a, const struct alloc_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(plugin_tree, plugin_entry, by_id, compare_plugins)
TREE_GENERATE(offer_tree, plugin_offer, by_profile, compare_offers)
TREE_GENERATE(controller_tree, instance_entry, by_node, compare_instances)
TREE_GENERATE(instance_tree, instance_entry, of_plugin, compare_instances)
TREE_GENERATE(runner_tree, alloc_entry, of_plugin, compare_runners)

struct plugin_entry *state_plugin(struct state *state, const char *id)
{
	struct plugin_entry key;

	key.id = id;
	return RB_FIND(plugin_tree, &state->plugins, &key);
}

struct plugin_entry *state_plugin_from(struct state *state, const char *id)
{
	struct plugin_entry key;

	key.id = id;
	return RB_NFIND(plugin_tree, &state->plugins, &key);
}

struct plugin_entry *state_plugin_next(struct plugin_entry *entry)
{
	return RB_NEXT(plugin_tree, NULL, entry);
}

struct instance_entry *state_plugin_instance_from(struct plugin_entry *plugin, const char *node_id)
{
	struct instance_entry *entry = RB_ROOT(&plugin->instances);
	struct instance_entry *found = NULL;

	while (entry) {
		if (strcmp(entry->node->id, node_id) >= 0) {
			found = entry;
			entry = RB_LEFT(entry, of_plugin);
		} else {
			entry = RB_RIGHT(entry, of_plugin);
		}
	}
	return found;
}

struct instance_entry *state_plugin_instance_next(struct instance_entry *entry)
{
	return RB_NEXT(instance_tree, NULL, entry);
}

struct alloc_entry *state_plugin_runner_from(struct plugin_entry *plugin, const char *id)
{
	struct alloc_entry key;

	key.id = id;
	return RB_NFIND(runner_tree, &plugin->runners, &key);
}

struct alloc_entry *state_plugin_runner_next(struct alloc_entry *entry)
{
	return RB_NEXT(runner_tree, NULL, entry);
}

struct plugin_offer *plugin_find_offer(struct plugin_entry *plugin, const char *profile)
{
	struct plugin_offer key;

	key.profile = profile;
	return RB_FIND(offer_tree, &plugin->offers, &key);
}

struct instance_entry *state_instance(struct state *state, const char *node_id, const char *plugin_id,
				      const char *profile)
{
	struct node_entry *node = state_node(state, node_id);
	struct instance_entry *entry;

	if (!node)
		return NULL;
	LIST_FOREACH (entry, &node->instances, of_node)
		if (str_eq(entry->instance.plugin.plugin_id, plugin_id) &&
		    str_eq(entry->instance.plugin.profile, profile))
			return entry;
	return NULL;
}

const struct node_plugin *node_entry_plugin(const struct node_entry *node, const struct volume *volume)
{
	const struct instance_entry *entry;

	LIST_FOREACH (entry, &node->instances, of_node)
		if (node_plugin_serves(&entry->instance.plugin, volume))
			return &entry->instance.plugin;
	return NULL;
}

struct instance_entry *state_controller_after(struct plugin_entry *plugin, const char *after)
{
	struct instance_entry *entry = RB_ROOT(&plugin->controllers);
	struct instance_entry *found = NULL;

	while (entry) {
		if (strcmp(entry->node->id, after) > 0) {
			found = entry;
			entry = RB_LEFT(entry, by_node);
		} else {
			entry = RB_RIGHT(entry, by_node);
		}
	}
	return found;
}

struct instance_entry *state_controller_next(struct instance_entry *entry)
{
	return RB_NEXT(controller_tree, NULL, entry);
}

struct plugin_entry *plugin_or_new(struct state *state, const char *id)
{
	struct plugin_entry *entry = state_plugin(state, id);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	(void)str_copy(entry->plugin_id, sizeof(entry->plugin_id), id);
	entry->id = entry->plugin_id;
	RB_INIT(&entry->instances);
	RB_INIT(&entry->runners);
	RB_INIT(&entry->controllers);
	RB_INIT(&entry->volumes);
	RB_INIT(&entry->offers);
	RB_INSERT(plugin_tree, &state->plugins, entry);
	return entry;
}

void plugin_drop_unnamed(struct state *state, struct plugin_entry *entry)
{
	if (!RB_EMPTY(&entry->instances) || !RB_EMPTY(&entry->volumes) || !RB_EMPTY(&entry->runners))
		return;
	RB_REMOVE(plugin_tree, &state->plugins, entry);
	free(entry);
}

static struct plugin_offer *offer_or_new(struct plugin_entry *plugin, const char *profile)
{
	struct plugin_offer *offer = plugin_find_offer(plugin, profile);

	if (offer)
		return offer;
	offer = calloc(1, sizeof(*offer));
	if (!offer)
		return NULL;
	(void)str_copy(offer->name, sizeof(offer->name), profile);
	offer->profile = offer->name;
	LIST_INIT(&offer->instances);
	RB_INSERT(offer_tree, &plugin->offers, offer);
	return offer;
}

void instance_changed(struct instance_entry *entry)
{
	entry->offer->is_fresh = entry->plugin->is_fresh = false;
}

void plugin_runner_changed(struct plugin_entry *plugin)
{
	struct plugin_offer *offer = plugin_find_offer(plugin, "");

	plugin->is_fresh = false;
	if (offer)
		offer->is_fresh = false;
}

void plugin_add_runner(struct plugin_entry *plugin, struct alloc_entry *entry)
{
	RB_INSERT(runner_tree, &plugin->runners, entry);
	plugin->n_runners++;
	plugin_runner_changed(plugin);
}

void plugin_remove_runner(struct plugin_entry *plugin, struct alloc_entry *entry)
{
	RB_REMOVE(runner_tree, &plugin->runners, entry);
	plugin->n_runners--;
	plugin_runner_changed(plugin);
}

static struct instance_entry *insert_instance(struct state *state, struct node_entry *node,
					      const struct node_plugin *about)
{
	struct instance_entry *entry = calloc(1, sizeof(*entry));
	struct plugin_entry *plugin = entry ? plugin_or_new(state, about->plugin_id) : NULL;
	struct plugin_offer *offer = plugin ? offer_or_new(plugin, about->profile) : NULL;

	if (!offer) {
		if (plugin)
			plugin_drop_unnamed(state, plugin);
		free(entry);
		return NULL;
	}
	entry->node = node;
	entry->plugin = plugin;
	entry->offer = offer;
	LIST_INSERT_HEAD(&node->instances, entry, of_node);
	LIST_INSERT_HEAD(&offer->instances, entry, of_offer);
	plugin->n_instances++;
	return entry;
}

static void list_controller(struct instance_entry *entry, bool is_controller)
{
	if (entry->is_controller == is_controller)
		return;
	entry->is_controller = is_controller;
	if (is_controller)
		RB_INSERT(controller_tree, &entry->plugin->controllers, entry);
	else
		RB_REMOVE(controller_tree, &entry->plugin->controllers, entry);
}

enum status state_put_instance(struct state *state, const struct plugin_instance *instance, struct error *err)
{
	struct instance_entry *entry = state_instance(state, instance->node_id, instance->plugin.plugin_id,
						      instance->plugin.profile);
	struct node_entry *node = node_or_new(state, instance->node_id);
	bool is_new = !entry;

	if (!entry && node)
		entry = insert_instance(state, node, &instance->plugin);
	if (!entry) {
		if (node)
			node_drop_unnamed(state, node);
		return state_no_memory(err, "plugin");
	}
	entry->instance = *instance;
	if (is_new)
		RB_INSERT(instance_tree, &entry->plugin->instances, entry);
	list_controller(entry, instance->plugin.has_controller);
	instance_changed(entry);
	if (entry->plugin->modify_index < instance->modify_index)
		entry->plugin->modify_index = instance->modify_index;
	return STATUS_OK;
}

void state_delete_instance(struct state *state, struct instance_entry *entry)
{
	struct plugin_entry *plugin = entry->plugin;
	struct plugin_offer *offer = entry->offer;

	list_controller(entry, false);
	instance_changed(entry);
	LIST_REMOVE(entry, of_node);
	RB_REMOVE(instance_tree, &plugin->instances, entry);
	LIST_REMOVE(entry, of_offer);
	plugin->n_instances--;
	free(entry);
	if (LIST_EMPTY(&offer->instances)) {
		RB_REMOVE(offer_tree, &plugin->offers, offer);
		free(offer);
	}
	plugin_drop_unnamed(state, plugin);
}
