/* SPDX-License-Identifier: Apache-2.0 */
#include "state/state.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/admission.h"
#include "model/volume_detail.h"
#include "state/keys.h"

#include <assert.h>
#include <holdfast/v1/types.pb-c.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* Sizes that jemalloc has: one byte more costs 512 for each claim, or 256 for each allocation. */
_Static_assert(sizeof(struct claim_entry) <= 2560, "a claim takes no larger size");
_Static_assert(sizeof(struct alloc_entry) <= 1024, "an allocation takes no larger size");

static int compare_nodes(const struct node_entry *a, const struct node_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(node_tree, node_entry, by_id, compare_nodes)

struct node_entry *state_node(struct state *state, const char *id)
{
	struct node_entry key;

	key.id = id;
	return RB_FIND(node_tree, &state->nodes, &key);
}

struct node_entry *state_node_from(struct state *state, const char *id)
{
	struct node_entry key;

	key.id = id;
	return RB_NFIND(node_tree, &state->nodes, &key);
}

struct node_entry *state_node_next(struct node_entry *entry)
{
	return RB_NEXT(node_tree, NULL, entry);
}

const Holdfast__V1__NodeDriver *node_driver(const struct node_entry *node, const char *name)
{
	for (size_t i = 0; i < message_list_n(node->drivers); i++) {
		const Holdfast__V1__NodeDriver *driver = (const void *)node->drivers->messages[i];

		if (str_eq(driver->name, name))
			return driver;
	}
	return NULL;
}

bool node_is_registered(const struct node_entry *node)
{
	return node->node.boot_id[0] != '\0';
}

bool node_is_connected(const struct node_entry *node)
{
	return node->session != NULL;
}

void node_note_heard(struct node_entry *node)
{
	node->node.last_seen_ms = clock_realtime_ms();
	node->heard_us = clock_monotonic_us();
}

/* The entry of a node that may not have been seen yet; NULL when memory is short. */
static struct node_entry *node_or_new(struct state *state, const char *id)
{
	struct node_entry *entry = state_node(state, id);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	(void)str_copy(entry->node.id, sizeof(entry->node.id), id);
	entry->id = entry->node.id;
	LIST_INIT(&entry->allocs);
	RB_INIT(&entry->allocs_by_key);
	LIST_INIT(&entry->claims);
	LIST_INIT(&entry->instances);
	RB_INSERT(node_tree, &state->nodes, entry);
	return entry;
}

/* An entry without a record goes with the last thing that names it; call it after each that may have been.
 */
static void node_drop_unnamed(struct state *state, struct node_entry *entry)
{
	if (node_is_registered(entry) || entry->n_allocs > 0 || !LIST_EMPTY(&entry->claims) ||
	    !LIST_EMPTY(&entry->instances))
		return;
	assert(!entry->session);
	RB_REMOVE(node_tree, &state->nodes, entry);
	message_list_unref(entry->drivers);
	message_list_unref(entry->attributes);
	free(entry);
}

static void count_node(struct state *state, const struct node *node, int change)
{
	if (node->boot_id[0] != '\0')
		state->n_nodes += (size_t)change;
	if (node->ineligible)
		state->n_nodes_ineligible += (size_t)change;
	if (node->drain.started_ms != 0 && node->drain.done_ms == 0)
		state->n_nodes_draining += (size_t)change;
	if (node->status == NODE_DOWN)
		state->n_nodes_down += (size_t)change;
	if (node->other_ticket_keys[0] != '\0')
		state->n_nodes_other_key += (size_t)change;
	if (node_disk_of(node) != NODE_DISK_ROOM)
		state->n_nodes_disk[node_disk_of(node)] += (size_t)change;
	if (node_clock_is_off(node->clock_skew_ms))
		state->n_nodes_clock_off += (size_t)change;
}

void state_list_absent(struct state *state, struct node_entry *node)
{
	if (node->is_absent)
		return;
	node->is_absent = true;
	node->gone_us = clock_monotonic_us();
	TAILQ_INSERT_TAIL(&state->absent, node, of_absent);
}

void state_unlist_absent(struct state *state, struct node_entry *node)
{
	if (!node->is_absent)
		return;
	node->is_absent = false;
	TAILQ_REMOVE(&state->absent, node, of_absent);
}

static void list_unreported(struct state *state, struct node_entry *entry, bool is_unreported)
{
	if (entry->is_unreported == is_unreported)
		return;
	entry->is_unreported = is_unreported;
	if (is_unreported) {
		LIST_INSERT_HEAD(&state->unreported, entry, of_unreported);
		state->n_unreported++;
	} else {
		LIST_REMOVE(entry, of_unreported);
		state->n_unreported--;
	}
}

enum status state_put_node(struct state *state, const struct node *node, struct error *err)
{
	struct node_entry *entry = node_or_new(state, node->id);

	if (!entry)
		return error_no_memory(err, "a node");
	count_node(state, &entry->node, -1);
	entry->node = *node;
	count_node(state, &entry->node, 1);
	list_unreported(state, entry,
			node_is_registered(entry) &&
				(node->report_wanted || node->reported_epoch < state_epoch(state)));
	return STATUS_OK;
}

/* Marks the plugin's counts as stale. */
static void instance_changed(struct instance_entry *entry)
{
	entry->offer->is_fresh = entry->plugin->is_fresh = false;
}

void state_set_session(struct state *state, struct node_entry *node, struct session *session)
{
	struct instance_entry *instance;

	state->n_connected -= node->session != NULL;
	state->n_connected += session != NULL;
	node->session = session;
	node->is_awaited = false;
	if (session)
		state_unlist_absent(state, node);
	else if (node_is_registered(node))
		state_list_absent(state, node);
	LIST_FOREACH (instance, &node->instances, of_node)
		instance_changed(instance);
}

void state_delete_node(struct state *state, struct node_entry *entry)
{
	struct instance_entry *instance;
	struct node name = {0};

	while ((instance = LIST_FIRST(&entry->instances)))
		state_delete_instance(state, instance);
	list_unreported(state, entry, false);
	if (entry->session)
		state_set_session(state, entry, NULL);
	state_unlist_absent(state, entry);
	count_node(state, &entry->node, -1);
	(void)str_copy(name.id, sizeof(name.id), entry->id);
	entry->node = name; /* only its name remains */
	node_drop_unnamed(state, entry);
}

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

static const char *provider_id_of(const struct instance_entry *entry)
{
	return entry->instance.plugin.node.provider_node_id;
}

static int compare_provider_ids(const struct instance_entry *a, const struct instance_entry *b)
{
	int c = node_provider_id_compare(provider_id_of(a), provider_id_of(b));

	return c != 0 ? c : compare_instances(a, b);
}

static int compare_alloc_keys(const struct alloc_entry *a, const struct alloc_entry *b)
{
	int c = strcmp(a->alloc.namespace, b->alloc.namespace);

	return c != 0 ? c : strcmp(a->id, b->id);
}

static int compare_runners(const struct plugin_runner *a, const struct plugin_runner *b)
{
	return compare_alloc_keys(a->alloc, b->alloc);
}

TREE_GENERATE(plugin_tree, plugin_entry, by_id, compare_plugins)
TREE_GENERATE(offer_tree, plugin_offer, by_profile, compare_offers)
TREE_GENERATE(controller_tree, instance_entry, by_node, compare_instances)
TREE_GENERATE(provider_id_tree, instance_entry, by_provider_id, compare_provider_ids)
TREE_GENERATE(instance_tree, instance_entry, of_plugin, compare_instances)
TREE_GENERATE(runner_tree, plugin_runner, of_plugin, compare_runners)

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
	return TREE_FIRST(&plugin->instances, of_plugin, at, strcmp(at->node->id, node_id) >= 0);
}

struct instance_entry *state_plugin_instance_next(struct instance_entry *entry)
{
	return RB_NEXT(instance_tree, NULL, entry);
}

struct plugin_runner *state_plugin_runner_from(struct plugin_entry *plugin, const char *namespace,
					       const char *id)
{
	struct alloc_entry alloc = {.id = id};
	struct plugin_runner key;

	(void)str_copy(alloc.alloc.namespace, sizeof(alloc.alloc.namespace), namespace);
	key.alloc = &alloc;
	return RB_NFIND(runner_tree, &plugin->runners, &key);
}

struct plugin_runner *state_plugin_runner_next(struct plugin_runner *runner)
{
	return RB_NEXT(runner_tree, NULL, runner);
}

const struct csi_plugin *plugin_runner_plugin(const struct plugin_runner *runner)
{
	return &runner->alloc->alloc.plugins[runner - runner->alloc->runs];
}

bool alloc_entry_runs(const struct alloc_entry *entry, const struct plugin_entry *plugin)
{
	for (uint32_t i = 0; i < entry->n_runs; i++)
		if (entry->runs[i].plugin == plugin)
			return true;
	return false;
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

const struct instance_entry *state_other_of_provider_id(struct plugin_entry *plugin,
							const char *provider_node_id, const char *node_id)
{
	struct instance_entry *found =
		TREE_FIRST(&plugin->provider_ids, by_provider_id, at,
			   node_provider_id_compare(provider_id_of(at), provider_node_id) >= 0);

	while (found && str_eq(found->node->id, node_id))
		found = RB_NEXT(provider_id_tree, NULL, found);
	return found && node_provider_id_compare(provider_id_of(found), provider_node_id) == 0 ? found : NULL;
}

struct instance_entry *state_controller_after(struct plugin_entry *plugin, const char *after)
{
	return TREE_FIRST(&plugin->controllers, by_node, at, strcmp(at->node->id, after) > 0);
}

struct instance_entry *state_controller_next(struct instance_entry *entry)
{
	return RB_NEXT(controller_tree, NULL, entry);
}

static struct plugin_entry *plugin_or_new(struct state *state, const char *id)
{
	struct plugin_entry *entry = state_plugin(state, id);

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	(void)str_copy(entry->plugin_id, sizeof(entry->plugin_id), id);
	entry->id = entry->plugin_id;
	entry->state = state;
	RB_INIT(&entry->instances);
	RB_INIT(&entry->runners);
	RB_INIT(&entry->controllers);
	RB_INIT(&entry->provider_ids);
	RB_INIT(&entry->volumes);
	RB_INIT(&entry->offers);
	RB_INSERT(plugin_tree, &state->plugins, entry);
	return entry;
}

static void plugin_drop_unnamed(struct state *state, struct plugin_entry *entry)
{
	if (!RB_EMPTY(&entry->instances) || !RB_EMPTY(&entry->volumes) || !RB_EMPTY(&entry->runners) ||
	    entry->nodes_wanted + entry->controllers_wanted > 0)
		return;
	RB_REMOVE(plugin_tree, &state->plugins, entry);
	free(entry->events);
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

/* Marks the plugin's counts as stale: one of its allocations has changed. */
static void plugin_runner_changed(struct plugin_entry *plugin)
{
	struct plugin_offer *offer = plugin_find_offer(plugin, "");

	plugin->is_fresh = false;
	if (offer)
		offer->is_fresh = false;
}

bool state_want_plugin(struct state *state, const char *plugin_id, int64_t nodes, int64_t controllers)
{
	struct plugin_entry *plugin;

	if (nodes == 0 && controllers == 0)
		return true;
	plugin = plugin_or_new(state, plugin_id);
	if (!plugin)
		return false;
	assert(plugin->nodes_wanted + nodes >= 0 && plugin->controllers_wanted + controllers >= 0);
	plugin->nodes_wanted += (uint32_t)nodes;
	plugin->controllers_wanted += (uint32_t)controllers;
	plugin_runner_changed(plugin);
	plugin_drop_unnamed(state, plugin);
	return true;
}

static void list_runner(struct plugin_runner *runner)
{
	RB_INSERT(runner_tree, &runner->plugin->runners, runner);
	runner->plugin->n_runners++;
	plugin_runner_changed(runner->plugin);
}

static void unlist_runner(struct state *state, struct plugin_runner *runner)
{
	RB_REMOVE(runner_tree, &runner->plugin->runners, runner);
	runner->plugin->n_runners--;
	plugin_runner_changed(runner->plugin);
	plugin_drop_unnamed(state, runner->plugin);
}

static void unlist_runners(struct state *state, struct alloc_entry *entry)
{
	for (uint32_t i = 0; i < entry->n_runs; i++)
		unlist_runner(state, &entry->runs[i]);
	free(entry->runs);
	entry->runs = NULL;
	entry->n_runs = 0;
}

/* False when memory is short: it is listed nowhere then. */
static bool list_runners(struct state *state, struct alloc_entry *entry)
{
	uint32_t n = entry->alloc.n_plugins;

	entry->runs = n > 0 ? calloc(n, sizeof(*entry->runs)) : NULL;
	if (n > 0 && !entry->runs)
		return false;
	for (; entry->n_runs < n; entry->n_runs++) {
		struct plugin_runner *runner = &entry->runs[entry->n_runs];

		runner->alloc = entry;
		runner->plugin = plugin_or_new(state, entry->alloc.plugins[entry->n_runs].id);
		if (!runner->plugin) {
			unlist_runners(state, entry);
			return false;
		}
		list_runner(runner);
	}
	return true;
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

static void unlist_provider_id(struct instance_entry *entry)
{
	if (provider_id_of(entry)[0] != '\0')
		RB_REMOVE(provider_id_tree, &entry->plugin->provider_ids, entry);
}

static void list_provider_id(struct instance_entry *entry)
{
	if (provider_id_of(entry)[0] != '\0')
		RB_INSERT(provider_id_tree, &entry->plugin->provider_ids, entry);
}

static void note_event(struct plugin_entry *plugin, const struct plugin_instance *instance, bool is_gone)
{
	struct plugin_event *event;

	if (!plugin->events)
		plugin->events = calloc(PLUGIN_EVENTS_MAX, sizeof(*plugin->events));
	if (!plugin->events)
		return; /* it is shown nowhere then */
	event = &plugin->events[plugin->n_events++ % PLUGIN_EVENTS_MAX];
	*event = (struct plugin_event){.time_ms = is_gone ? clock_realtime_ms()
							  : instance->plugin.update_time_ms,
				       .is_gone = is_gone,
				       .is_healthy = !is_gone && node_plugin_is_whole(&instance->plugin)};
	(void)str_copy(event->node_id, sizeof(event->node_id), instance->node_id);
	(void)str_copy(event->profile, sizeof(event->profile), instance->plugin.profile);
	(void)str_copy(event->allocation_id, sizeof(event->allocation_id), instance->plugin.allocation_id);
	if (!event->is_healthy && !is_gone)
		str_copy_text(event->text, sizeof(event->text), node_plugin_health_text(&instance->plugin));
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
		return error_no_memory(err, "a plugin");
	}
	if (is_new ||
	    node_plugin_is_whole(&entry->instance.plugin) != node_plugin_is_whole(&instance->plugin))
		note_event(entry->plugin, instance, false);
	unlist_provider_id(entry); /* a new entry has no id */
	entry->instance = *instance;
	list_provider_id(entry);
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

	note_event(plugin, &entry->instance, true);
	list_controller(entry, false);
	unlist_provider_id(entry);
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

static int compare_volumes(const struct volume_entry *a, const struct volume_entry *b)
{
	int c = strcmp(a->namespace, b->namespace);

	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(volume_tree, volume_entry, by_key, compare_volumes)
TREE_GENERATE(plugin_volume_tree, volume_entry, of_plugin, compare_volumes)

struct volume_entry *state_volume(struct state *state, const char *namespace, const char *id)
{
	struct volume_entry *found = state->last_volume;
	struct volume_entry key;

	if (found && str_eq(found->id, id) && str_eq(found->namespace, namespace))
		return found;
	key.namespace = namespace;
	key.id = id;
	found = RB_FIND(volume_tree, &state->volumes, &key);
	if (found)
		state->last_volume = found;
	return found;
}

struct volume_entry *state_volume_from(struct state *state, const char *namespace, const char *id)
{
	struct volume_entry key;

	key.namespace = namespace;
	key.id = id;
	return RB_NFIND(volume_tree, &state->volumes, &key);
}

struct volume_entry *state_volume_next(struct volume_entry *entry)
{
	return RB_NEXT(volume_tree, NULL, entry);
}

struct volume_entry *state_plugin_volume_from(struct plugin_entry *plugin, const char *namespace,
					      const char *id)
{
	struct volume_entry key;

	key.namespace = namespace;
	key.id = id;
	return RB_NFIND(plugin_volume_tree, &plugin->volumes, &key);
}

static int compare_storages(const struct volume_entry *a, const struct volume_entry *b)
{
	int c = storage_compare(&a->storage, &b->storage);

	if (c == 0)
		c = strcmp(a->namespace, b->namespace);
	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(storage_tree, volume_entry, by_storage, compare_storages)

/* Uses the value and the stored detail: a change puts the volume after its detail. */
static void identify(struct volume_entry *entry, struct storage_id *ret)
{
	char key[sizeof(PREFIX_VOLUME_DETAIL) + NAMESPACE_MAX + VOLUME_ID_MAX + 1];
	const Holdfast__V1__VolumeDetail *detail;

	(void)str_format(key, sizeof(key), PREFIX_VOLUME_DETAIL "%s/%s", entry->namespace, entry->id);
	detail = records_get(&entry->state->records, key);
	storage_context_digest(detail ? VOLUME_MAP(detail->context) : NULL, detail ? detail->n_context : 0,
			       entry->volume.context_digest);
	storage_identify(&entry->volume, detail, ret);
}

static void forget_storage(struct volume_entry *entry)
{
	if (entry->storage.is_known)
		RB_REMOVE(storage_tree, &entry->state->storages, entry);
	entry->storage.is_known = false;
}

static void index_storage(struct volume_entry *entry)
{
	struct storage_id id;

	identify(entry, &id);
	if (storage_id_eq(&id, &entry->storage))
		return;
	forget_storage(entry);
	entry->storage = id;
	if (id.is_known)
		RB_INSERT(storage_tree, &entry->state->storages, entry);
}

static struct volume_entry *storage_from(struct state *state, const struct storage_id *id)
{
	struct volume_entry key;

	key.storage = *id;
	key.namespace = key.id = "";
	return RB_NFIND(storage_tree, &state->storages, &key);
}

/* @entry or the next one behind it that is the same storage: first those without a context, then those with
 * that of @id. */
static struct volume_entry *settle(struct state *state, const struct storage_id *id,
				   struct volume_entry *entry)
{
	if (!entry || storage_is_same(id, &entry->storage))
		return entry;
	if (storage_compare(&entry->storage, id) > 0)
		return NULL;
	entry = storage_from(state, id);
	return entry && storage_is_same(id, &entry->storage) ? entry : NULL;
}

struct volume_entry *storage_first(struct state *state, const struct storage_id *id)
{
	const struct storage_id all = storage_of_provider(id);

	return id->is_known ? settle(state, id, storage_from(state, &all)) : NULL;
}

struct volume_entry *storage_next(struct state *state, const struct storage_id *id, struct volume_entry *at)
{
	return settle(state, id, RB_NEXT(storage_tree, NULL, at));
}

static bool is_neighbour(const struct storage_id *id, const struct volume_entry *entry)
{
	return entry && memcmp(entry->storage.provider, id->provider, sizeof(id->provider)) == 0;
}

bool storage_is_alone(const struct volume_entry *volume)
{
	struct volume_entry *at = (struct volume_entry *)(uintptr_t)volume;

	return !volume->storage.is_known ||
	       (!is_neighbour(&volume->storage, RB_PREV(storage_tree, NULL, at)) &&
		!is_neighbour(&volume->storage, RB_NEXT(storage_tree, NULL, at)));
}

/* Raises the volume's generation to @generation, unless it is that far. */
static void volume_raise_generation(struct volume *volume, uint64_t generation)
{
	if (volume->generation < generation)
		volume->generation = generation;
}

/* Puts the volume to the plugin that its record names. */
static enum status index_plugin(struct volume_entry *entry, const char *plugin_id, struct error *err)
{
	struct plugin_entry *former = entry->plugin;
	struct plugin_entry *plugin = plugin_or_new(entry->state, plugin_id);

	if (!plugin)
		return error_no_memory(err, "a volume");
	if (plugin == former)
		return STATUS_OK;
	RB_REMOVE(plugin_volume_tree, &former->volumes, entry);
	former->n_volumes--;
	entry->plugin = plugin;
	RB_INSERT(plugin_volume_tree, &plugin->volumes, entry);
	plugin->n_volumes++;
	plugin_drop_unnamed(entry->state, former);
	return STATUS_OK;
}

/* The charge of one: with an entry for its plugin, which may have no other volume. */
#define VOLUME_BYTES (sizeof(struct volume_entry) + sizeof(struct plugin_entry))

static enum status insert_volume(struct state *state, const struct volume *volume, struct error *err)
{
	struct volume_entry *entry = calloc(1, sizeof(*entry));
	struct plugin_entry *plugin = entry ? plugin_or_new(state, volume->plugin_id) : NULL;

	if (!plugin || !namespaces_charge(&state->namespaces, volume->namespace, VOLUME_BYTES, 0)) {
		free(entry);
		return error_no_memory(err, "a volume");
	}
	entry->volume = *volume;
	entry->stored_generation = volume->generation;
	entry->durable_generation = volume->create_index != 0 ? volume->generation : 0;
	entry->namespace = entry->volume.namespace;
	entry->id = entry->volume.id;
	entry->plugin = plugin;
	entry->state = state;
	LIST_INIT(&entry->claims);
	index_storage(entry);
	RB_INSERT(plugin_volume_tree, &plugin->volumes, entry);
	plugin->n_volumes++;
	RB_INSERT(volume_tree, &state->volumes, entry);
	state->n_volumes++;
	return STATUS_OK;
}

/* Earlier builds noted neither the disk nor the context of what they granted: that is on its volume's, whose
 * storage stays while a claim is live. */
static bool names_no_part(const struct claim *claim, const struct volume *volume)
{
	if (claim->adopted || claim->was_freed || !str_eq(claim->plugin_id, volume->plugin_id))
		return false;
	return volume->type == VOLUME_NATIVE
		       ? str_eq(claim->external_id, claim->volume_id)
		       : claim->context_digest[0] == '\0' && str_eq(claim->external_id, volume->external_id);
}

/* A placeholder may lack what its claims name. */
static bool is_matched(const struct claim *claim, const struct volume *volume)
{
	return !volume_is_placeholder(volume) &&
	       (claim_is_on_storage(claim, volume) || names_no_part(claim, volume));
}

static int compare_unmatched(const struct claim_entry *a, const struct claim_entry *b)
{
	int c = strcmp(a->claim.plugin_id, b->claim.plugin_id);

	if (c == 0)
		c = strcmp(a->claim.external_id, b->claim.external_id);
	if (c == 0) /* those that write first: no number of readers hides them */
		c = (int)b->claim.mode - (int)a->claim.mode;
	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(unmatched_tree, claim_entry, of_unmatched, compare_unmatched)

struct claim_entry *state_unmatched_from(struct state *state, const char *plugin_id, const char *external_id)
{
	struct claim_entry key;

	key.id = "";
	key.claim.mode = CLAIM_WRITE;
	(void)str_copy(key.claim.plugin_id, sizeof(key.claim.plugin_id), plugin_id);
	(void)str_copy(key.claim.external_id, sizeof(key.claim.external_id), external_id);
	return RB_NFIND(unmatched_tree, &state->unmatched, &key);
}

struct claim_entry *state_unmatched_next(const struct claim_entry *entry)
{
	return RB_NEXT(unmatched_tree, NULL, (struct claim_entry *)(uintptr_t)entry);
}

static void unlist_unmatched(struct state *state, struct claim_entry *entry)
{
	if (entry->is_unmatched)
		RB_REMOVE(unmatched_tree, &state->unmatched, entry);
	entry->is_unmatched = false;
}

/* To be called when the claim has changed, too, by whose ids the tree is. */
static void list_unmatched(struct state *state, struct claim_entry *entry)
{
	unlist_unmatched(state, entry);
	entry->is_unmatched =
		claim_is_live(&entry->claim) && !is_matched(&entry->claim, &entry->volume->volume);
	if (entry->is_unmatched)
		RB_INSERT(unmatched_tree, &state->unmatched, entry);
}

/* Compares what claim_is_on_storage() does: most changes of a volume are others. */
static bool is_other_storage(const struct volume *a, const struct volume *b)
{
	return a->type != b->type || volume_is_placeholder(a) != volume_is_placeholder(b) ||
	       !str_eq(a->plugin_id, b->plugin_id) || !str_eq(a->profile, b->profile) ||
	       !str_eq(a->external_id, b->external_id) || !str_eq(a->context_digest, b->context_digest) ||
	       !source_eq(&a->source, &b->source);
}

enum status state_put_volume(struct state *state, const struct volume *volume, struct error *err)
{
	struct volume_entry *entry = state_volume(state, volume->namespace, volume->id);
	struct claim_entry *claim;
	struct volume before;
	uint64_t generation;

	if (!entry)
		return insert_volume(state, volume, err);
	TRY(index_plugin(entry, volume->plugin_id, err));
	before = entry->volume;
	generation = entry->volume.generation;
	entry->volume = *volume;
	entry->stored_generation = volume->generation;
	volume_raise_generation(&entry->volume, generation);
	index_storage(entry);
	if (!is_other_storage(&before, &entry->volume))
		return STATUS_OK;
	LIST_FOREACH (claim, &entry->claims, of_volume)
		list_unmatched(state, claim);
	return STATUS_OK;
}

void state_delete_volume(struct state *state, struct volume_entry *entry)
{
	struct claim_entry *claim;

	while ((claim = LIST_FIRST(&entry->claims)))
		state_delete_claim(state, claim);
	if (state->last_volume == entry)
		state->last_volume = NULL;
	forget_storage(entry);
	RB_REMOVE(volume_tree, &state->volumes, entry);
	state->n_volumes--;
	RB_REMOVE(plugin_volume_tree, &entry->plugin->volumes, entry);
	entry->plugin->n_volumes--;
	plugin_drop_unnamed(state, entry->plugin);
	(void)namespaces_charge(&state->namespaces, entry->namespace, -VOLUME_BYTES, 0);
	free(entry);
}

static int compare_claims(const struct claim_entry *a, const struct claim_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(claim_tree, claim_entry, by_id, compare_claims)

struct claim_entry *state_claim(struct state *state, const char *id)
{
	struct claim_entry *found = state->last_claim;
	struct claim_entry key;

	if (found && str_eq(found->id, id))
		return found;
	key.id = id;
	found = RB_FIND(claim_tree, &state->claims, &key);
	if (found)
		state->last_claim = found;
	return found;
}

struct claim_entry *state_claim_from(struct state *state, const char *id)
{
	struct claim_entry key;

	key.id = id;
	return RB_NFIND(claim_tree, &state->claims, &key);
}

struct claim_entry *state_claim_next(struct claim_entry *entry)
{
	return RB_NEXT(claim_tree, NULL, entry);
}

static void count_claim(struct state *state, const struct claim *claim, int change)
{
	state->n_claims_by[claim->state] += (size_t)change;
	if (claim_is_live(claim) && claim->attempts >= CLAIM_FAILING_ATTEMPTS)
		state->n_claims_failing += (size_t)change;
	if (claim_is_live(claim) && claim->adopted)
		state->n_claims_adopted += (size_t)change;
}

static void count_live(struct state *state, struct claim_entry *entry, bool was_live, bool is_live)
{
	if (was_live == is_live)
		return;
	if (is_live) {
		entry->volume->n_live++;
		entry->node->n_live++;
		entry->node->n_renamed += entry->claim.renamed; /* it stays so */
		state->n_claims++;
	} else {
		entry->volume->n_live--;
		entry->node->n_live--;
		entry->node->n_renamed -= entry->claim.renamed;
		state->n_claims--;
	}
}

/* Returns the claim's crowd: any number of claims of one crowd are compatible. 0: no crowd. */
static int crowd_of(const struct claim *claim)
{
	int first = 1 + 2 * (int)claim->attachment_mode;

	if (claim->access_mode == MULTI_NODE_MULTI_WRITER)
		return first;
	return claim->access_mode == MULTI_NODE_READER_ONLY && claim->mode == CLAIM_READ ? first + 1 : 0;
}

static size_t count_others(const struct volume_entry *volume, int crowd)
{
	size_t n = 0;

	for (int i = 0; i < CLAIM_CROWDS; i++)
		n += i == crowd ? 0 : volume->n_crowd[i];
	return n;
}

/* Counts @own as @claim among the claims that exclude it, and these with it. It is in no crowd yet; claims
 * are not walked if all are of its crowd, or it had no rival. */
static void count_rivals(struct claim_entry *own, const struct claim *claim, int change)
{
	struct claim_entry *entry;
	int crowd = crowd_of(claim);

	if (!claim_is_live(claim) || (crowd > 0 && count_others(own->volume, crowd) == 0) ||
	    (change < 0 && own->n_rivals == 0))
		return;
	LIST_FOREACH (entry, &own->volume->claims, of_volume) {
		if (entry == own || !claim_is_live(&entry->claim) ||
		    !admission_are_rivals(&entry->claim, claim))
			continue;
		entry->n_rivals += (uint32_t)change;
		own->n_rivals += (uint32_t)change;
		own->volume->n_rivals += (size_t)change;
	}
}

/* @change 1: the entry becomes @claim, -1: it ceases to be */
static void count_held_twice(struct state *state, struct claim_entry *entry, const struct claim *claim,
			     int change)
{
	struct volume_entry *volume = entry->volume;
	bool was_held_twice = volume_is_held_twice(volume);

	if (claim->was_freed && claim_is_live(claim))
		volume->n_was_freed += (size_t)change;
	if (change < 0)
		volume->n_crowd[crowd_of(claim)] -= claim_is_live(claim);
	count_rivals(entry, claim, change);
	if (change > 0)
		volume->n_crowd[crowd_of(claim)] += claim_is_live(claim);
	state->n_volumes_held_twice += (size_t)volume_is_held_twice(volume) - (size_t)was_held_twice;
}

static void count_rival(struct state *state, struct claim_entry *entry, int change)
{
	bool was_held_twice = volume_is_held_twice(entry->volume);

	entry->n_rivals += (uint32_t)change;
	entry->volume->n_rivals += (size_t)change;
	state->n_volumes_held_twice += (size_t)volume_is_held_twice(entry->volume) - (size_t)was_held_twice;
}

static void link_rival(struct state *state, struct claim_entry *entry, struct rival_link *link,
		       struct claim_entry *other, struct rival_link *back)
{
	*link = (struct rival_link){.other = other, .back = back};
	LIST_INSERT_HEAD(&entry->rivals, link, of_claim);
	count_rival(state, entry, 1);
}

bool state_pair_rivals(struct state *state, struct claim_entry *one, struct claim_entry *other)
{
	struct rival_link *link = malloc(sizeof(*link));
	struct rival_link *back = link ? malloc(sizeof(*back)) : NULL;

	if (!back) {
		free(link);
		return false;
	}
	link_rival(state, one, link, other, back);
	link_rival(state, other, back, one, link);
	return true;
}

static void drop_rival(struct state *state, struct claim_entry *entry, struct rival_link *link)
{
	LIST_REMOVE(link, of_claim);
	free(link);
	count_rival(state, entry, -1);
	if (!LIST_EMPTY(&entry->rivals) || entry->is_unpaired)
		return;
	entry->is_unpaired = true;
	LIST_INSERT_HEAD(&state->unpaired, entry, of_unpaired);
}

void state_drop_pair(struct state *state, struct claim_entry *entry, struct rival_link *link)
{
	drop_rival(state, link->other, link->back);
	drop_rival(state, entry, link);
}

void state_unlist_unpaired(struct claim_entry *entry)
{
	if (!entry->is_unpaired)
		return;
	entry->is_unpaired = false;
	LIST_REMOVE(entry, of_unpaired);
}

/* Ends the pairs of a claim that ends. Costs their number. */
static void end_pairs(struct state *state, struct claim_entry *entry)
{
	struct rival_link *link;

	while ((link = LIST_FIRST(&entry->rivals)))
		state_drop_pair(state, entry, link);
	state_unlist_unpaired(entry);
}

/* Updates the counts of claims that are being released.
 * @alloc its allocation; NULL: unknown */
static void state_count_release(struct state *state, struct claim_entry *entry, const struct alloc *alloc)
{
	const struct claim *claim = &entry->claim;
	bool is_stop_ordered = alloc && alloc->desired_status == DESIRED_STOP;
	bool is_releasing = claim_is_live(claim) && (is_stop_ordered || claim->state >= CLAIM_UNPUBLISHING);
	bool is_failing = is_releasing && claim->state <= CLAIM_UNPUBLISHING && claim->attempts > 0;

	state->n_releasing += (size_t)is_releasing - (size_t)entry->is_releasing;
	state->n_node_failing += (size_t)is_failing - (size_t)entry->is_node_failing;
	entry->is_releasing = is_releasing;
	entry->is_node_failing = is_failing;
}

static enum status insert_claim(struct state *state, const struct claim *claim, struct error *err)
{
	struct volume_entry *volume = state_volume(state, claim->namespace, claim->volume_id);
	struct alloc_entry *alloc = state_alloc_of(state, claim);
	struct node_entry *node;
	struct claim_entry *entry;

	if (!volume)
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "claim %s is of volume %s/%s, which does not exist", claim->id,
				 claim->namespace, claim->volume_id);
	node = node_or_new(state, claim->node_id);
	entry = node ? calloc(1, sizeof(*entry)) : NULL;
	if (!entry)
		return error_no_memory(err, "a claim");
	(void)namespaces_charge(&state->namespaces, volume->namespace, sizeof(*entry), 0);
	entry->claim = *claim;
	entry->id = entry->claim.id;
	entry->server = state->server;
	LIST_INIT(&entry->rivals);
	entry->volume = volume;
	entry->node = node;
	RB_INSERT(claim_tree, &state->claims, entry);
	state->last_claim = entry;
	LIST_INSERT_HEAD(&volume->claims, entry, of_volume);
	LIST_INSERT_HEAD(&node->claims, entry, of_node);
	if (alloc) /* an allocation may be collected before its claim is; the claim does not need it */
		LIST_INSERT_HEAD(&alloc->claims, entry, of_alloc);
	volume_raise_generation(&volume->volume, claim->generation);
	if (claim->create_index != 0)
		volume->durable_generation = MAX(volume->durable_generation, claim->generation);
	count_live(state, entry, false, claim_is_live(claim));
	count_claim(state, claim, 1);
	count_held_twice(state, entry, claim, 1);
	list_unmatched(state, entry);
	state_count_release(state, entry, alloc ? &alloc->alloc : NULL);
	return STATUS_OK;
}

/* One that expired was never granted: its attach failed. */
static void uncount_expired(struct alloc_entry *alloc, const struct claim *before, const struct claim *claim)
{
	if (alloc && alloc->n_granted > 0 && claim->evidence == EVIDENCE_NEVER_SENT &&
	    before->evidence != EVIDENCE_NEVER_SENT)
		alloc->n_granted--;
}

enum status state_put_claim(struct state *state, const struct claim *claim, struct error *err)
{
	struct claim_entry *entry = state_claim(state, claim->id);
	struct alloc_entry *alloc;
	bool was_live;

	if (!entry)
		return insert_claim(state, claim, err);
	was_live = claim_is_live(&entry->claim);
	count_live(state, entry, was_live, claim_is_live(claim));
	count_claim(state, &entry->claim, -1);
	count_claim(state, claim, 1);
	if (claim_is_live(claim)) /* the two lists have one link */
		state_unlist_recalled(entry);
	else
		end_pairs(state, entry);
	count_held_twice(state, entry, &entry->claim, -1);
	count_held_twice(state, entry, claim, 1);
	alloc = state_alloc_of(state, claim);
	uncount_expired(alloc, &entry->claim, claim);
	entry->claim = *claim;
	if (entry->is_unmatched || !was_live || claim->adopted) /* else its storage is the same */
		list_unmatched(state, entry);
	state_count_release(state, entry, alloc ? &alloc->alloc : NULL);
	if (claim->state >= CLAIM_NODE_DETACHED)
		usages_drop(&state->usages, &entry->usage);
	return STATUS_OK;
}

void state_list_recalled(struct state *state, struct claim_entry *entry)
{
	if (entry->is_recalled)
		return;
	entry->is_recalled = true;
	LIST_INSERT_HEAD(&state->recalled, entry, of_recalled);
}

void state_unlist_recalled(struct claim_entry *entry)
{
	if (!entry->is_recalled)
		return;
	entry->is_recalled = false;
	LIST_REMOVE(entry, of_recalled);
}

void state_delete_claim(struct state *state, struct claim_entry *entry)
{
	struct node_entry *node = entry->node;

	count_live(state, entry, claim_is_live(&entry->claim), false);
	count_claim(state, &entry->claim, -1);
	end_pairs(state, entry);
	count_held_twice(state, entry, &entry->claim, -1);
	state->n_releasing -= entry->is_releasing;
	state->n_node_failing -= entry->is_node_failing;
	if (state->last_claim == entry)
		state->last_claim = NULL;
	RB_REMOVE(claim_tree, &state->claims, entry);
	unlist_unmatched(state, entry);
	LIST_REMOVE(entry, of_volume);
	LIST_REMOVE(entry, of_node);
	if (entry->of_alloc.le_prev) /* its allocation was known when it was inserted */
		LIST_REMOVE(entry, of_alloc);
	(void)sd_event_source_disable_unref(entry->work.timer);
	ticket_ahead_free(entry->work.ticket);
	if (entry->work.is_stuck)
		TAILQ_REMOVE(&state->stuck, entry, work.stuck);
	usages_drop(&state->usages, &entry->usage);
	state_unlist_recalled(entry);
	(void)namespaces_charge(&state->namespaces, entry->volume->namespace, -sizeof(*entry), 0);
	free(entry);
	node_drop_unnamed(state, node);
}

static int compare_allocs(const struct alloc_entry *a, const struct alloc_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(alloc_tree, alloc_entry, by_id, compare_allocs)
TREE_GENERATE(alloc_key_tree, alloc_entry, by_key, compare_alloc_keys)
TREE_GENERATE(node_alloc_tree, alloc_entry, of_node_by_key, compare_alloc_keys)

static int compare_ended(const struct alloc_entry *a, const struct alloc_entry *b)
{
	int c = strcmp(a->alloc.namespace, b->alloc.namespace);

	if (c == 0)
		c = (a->alloc.end_time_ms > b->alloc.end_time_ms) -
		    (a->alloc.end_time_ms < b->alloc.end_time_ms);
	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(ended_tree, alloc_entry, of_ended, compare_ended)

struct alloc_entry *state_alloc(struct state *state, const char *id)
{
	struct alloc_entry *found = state->last_alloc;
	struct alloc_entry key;

	if (found && str_eq(found->id, id))
		return found;
	key.id = id;
	found = RB_FIND(alloc_tree, &state->allocs, &key);
	if (found)
		state->last_alloc = found;
	return found;
}

bool state_claim_is_proven(const struct claim_entry *entry)
{
	const struct claim *claim = &entry->claim;

	return !entry->is_unmatched && (!claim->adopted || claim->storage_proven || claim->storage_digest);
}

struct alloc_entry *state_alloc_of(struct state *state, const struct claim *claim)
{
	struct alloc_entry *entry = state_alloc(state, claim->allocation_id);

	return entry && str_eq(entry->alloc.node_id, claim->node_id) &&
			       str_eq(entry->alloc.namespace, claim->namespace)
		       ? entry
		       : NULL;
}

struct alloc_entry *state_alloc_from(struct state *state, const char *id)
{
	struct alloc_entry key;

	key.id = id;
	return RB_NFIND(alloc_tree, &state->allocs, &key);
}

struct alloc_entry *state_alloc_next(struct alloc_entry *entry)
{
	return RB_NEXT(alloc_tree, NULL, entry);
}

struct alloc_entry *state_alloc_key_from(struct state *state, struct node_entry *node, const char *namespace,
					 const char *id)
{
	struct alloc_entry key = {.id = id};

	(void)str_copy(key.alloc.namespace, sizeof(key.alloc.namespace), namespace);
	return node ? RB_NFIND(node_alloc_tree, &node->allocs_by_key, &key)
		    : RB_NFIND(alloc_key_tree, &state->allocs_by_key, &key);
}

struct alloc_entry *state_alloc_key_next(const struct node_entry *node, struct alloc_entry *entry)
{
	return node ? RB_NEXT(node_alloc_tree, NULL, entry) : RB_NEXT(alloc_key_tree, NULL, entry);
}

struct alloc_entry *state_ended_from(struct state *state, const char *namespace, int64_t end_ms,
				     const char *id)
{
	struct alloc_entry key = {.id = id, .alloc = {.end_time_ms = end_ms}};

	(void)str_copy(key.alloc.namespace, sizeof(key.alloc.namespace), namespace);
	return RB_NFIND(ended_tree, &state->ended, &key);
}

struct alloc_entry *state_ended_next(struct alloc_entry *entry)
{
	return RB_NEXT(ended_tree, NULL, entry);
}

static void count_alloc(struct state *state, const struct alloc *alloc, int change)
{
	state->n_allocs_by[alloc->client_status] += (size_t)change;
}

static int compare_jobs(const struct job_entry *a, const struct job_entry *b)
{
	int c = strcmp(a->namespace, b->namespace);

	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(job_tree, job_entry, by_key, compare_jobs)

struct job_entry *state_job(struct state *state, const char *namespace, const char *id)
{
	struct job_entry key;

	key.namespace = namespace;
	key.id = id;
	return RB_FIND(job_tree, &state->jobs, &key);
}

/* Lists the allocation under its job, if it is of one. False when memory is short. */
static bool list_of_job(struct state *state, struct alloc_entry *entry)
{
	const struct alloc *alloc = &entry->alloc;

	if (alloc->job_id[0] == '\0')
		return true;
	entry->job = state_job(state, alloc->namespace, alloc->job_id);
	if (!entry->job) {
		entry->job = calloc(1, sizeof(*entry->job));
		if (!entry->job)
			return false;
		(void)str_copy(entry->job->namespace_name, sizeof(entry->job->namespace_name),
			       alloc->namespace);
		(void)str_copy(entry->job->job_id, sizeof(entry->job->job_id), alloc->job_id);
		entry->job->namespace = entry->job->namespace_name;
		entry->job->id = entry->job->job_id;
		LIST_INIT(&entry->job->allocs);
		RB_INSERT(job_tree, &state->jobs, entry->job);
	}
	LIST_INSERT_HEAD(&entry->job->allocs, entry, of_job);
	entry->job->n_allocs++;
	entry->job->n_heritable += alloc_is_heritable(alloc);
	if (entry->job->modify_index < alloc->modify_index)
		entry->job->modify_index = alloc->modify_index;
	return true;
}

static void unlist_of_job(struct state *state, struct alloc_entry *entry)
{
	struct job_entry *job = entry->job;

	if (!job)
		return;
	LIST_REMOVE(entry, of_job);
	job->n_allocs--;
	job->n_heritable -= alloc_is_heritable(&entry->alloc);
	if (job->n_allocs > 0)
		return;
	RB_REMOVE(job_tree, &state->jobs, job);
	free(job);
}

/* The memory that it takes with its options. */
static size_t size_of(struct state *state, struct alloc_entry *entry)
{
	const struct alloc *alloc = &entry->alloc;
	void *blocks[] = {entry,
			  alloc->volumes,
			  alloc->published,
			  alloc->plugins,
			  alloc->client_description,
			  alloc->unit,
			  entry->wishes.list,
			  entry->runs,
			  alloc->wait_node_id};
	size_t n = message_list_bytes(alloc->tasks) + message_list_bytes(alloc->task_status) +
		   message_list_bytes(alloc->events) + message_list_bytes(alloc->constraints);
	char key[sizeof(PREFIX_ALLOC_OPTIONS) + UUID_TEXT_SIZE];
	const struct record_entry *options;

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++)
		n += malloc_usable_size(blocks[i]);
	(void)str_format(key, sizeof(key), PREFIX_ALLOC_OPTIONS "%s", entry->id);
	options = records_entry(&state->records, key);
	return n + entry->n_runs * sizeof(struct plugin_entry) + (options ? options->bytes : 0);
}

/* Charges its namespace with @bytes in place of those before; 0: it is about to be forgotten. An adopted one
 * has the namespace that its node named, so it counts for the node. */
static bool charge(struct state *state, struct node_entry *node, struct alloc_entry *entry, size_t bytes)
{
	bool is_ended = alloc_is_client_terminal(&entry->alloc);
	size_t ended = (is_ended ? bytes : 0) - (entry->is_ended ? entry->bytes : 0);
	bool is_charged = true;

	if (entry->alloc.adopted)
		node->adopted_bytes += bytes - entry->bytes;
	else
		is_charged = namespaces_charge(&state->namespaces, entry->alloc.namespace,
					       bytes - entry->bytes, ended);
	entry->bytes = (uint32_t)bytes;
	entry->is_ended = is_ended;
	return is_charged;
}

static void list_ended(struct state *state, struct alloc_entry *entry)
{
	if (entry->is_ended)
		RB_INSERT(ended_tree, &state->ended, entry);
}

static void unlist_ended(struct state *state, struct alloc_entry *entry)
{
	if (entry->is_ended)
		RB_REMOVE(ended_tree, &state->ended, entry);
}

static void list_pending(struct state *state, struct alloc_entry *entry, bool is_pending)
{
	if (is_pending && !entry->is_pending)
		LIST_INSERT_HEAD(&state->pending, entry, of_pending);
	else if (!is_pending && entry->is_pending)
		LIST_REMOVE(entry, of_pending);
	entry->is_pending = is_pending;
}

static void list_of_node(struct alloc_entry *entry, struct node_entry *node)
{
	if (!alloc_is_client_terminal(&entry->alloc)) {
		LIST_INSERT_HEAD(&node->allocs, entry, of_node);
		node->n_live_allocs++;
	}
	RB_INSERT(node_alloc_tree, &node->allocs_by_key, entry);
	node->n_allocs++;
	entry->node = node;
}

static void unlist_of_node(struct alloc_entry *entry)
{
	if (!alloc_is_client_terminal(&entry->alloc)) {
		LIST_REMOVE(entry, of_node);
		entry->node->n_live_allocs--;
	}
	RB_REMOVE(node_alloc_tree, &entry->node->allocs_by_key, entry);
	entry->node->n_allocs--;
}

static void replace_alloc(struct state *state, struct alloc_entry *entry, const struct alloc *alloc)
{
	struct claim_entry *claim;
	bool is_moving;

	assert(str_eq(entry->node->id, alloc->node_id)); /* an allocation that has a node never moves */
	assert(str_eq(entry->alloc.namespace, alloc->namespace));
	assert(entry->alloc.adopted == alloc->adopted);
	assert(alloc_plugins_eq(&entry->alloc, alloc));
	assert(str_eq(entry->alloc.job_id, alloc->job_id));
	is_moving = alloc_is_client_terminal(&entry->alloc) != alloc_is_client_terminal(alloc);
	if (is_moving)
		unlist_of_node(entry);
	count_alloc(state, &entry->alloc, -1);
	count_alloc(state, alloc, 1);
	if (entry->job) {
		entry->job->n_heritable -= alloc_is_heritable(&entry->alloc);
		entry->job->n_heritable += alloc_is_heritable(alloc);
	}
	wish_unlist(&state->wishes, &entry->wishes);
	unlist_ended(state, entry);
	alloc_release(&entry->alloc);
	entry->alloc = *alloc;
	if (is_moving)
		list_of_node(entry, entry->node);
	entry->decided_version = 0;
	wish_list(&state->wishes, &entry->wishes, &entry->alloc, entry);
	list_pending(state, entry, alloc_is_pending(alloc));
	(void)charge(state, entry->node, entry, size_of(state, entry));
	list_ended(state, entry);
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		state_count_release(state, claim, alloc);
	for (uint32_t i = 0; i < entry->n_runs; i++)
		plugin_runner_changed(entry->runs[i].plugin);
}

/* A pending one is given its node. False when memory is short. */
static bool place_alloc(struct state *state, struct alloc_entry *entry, const char *node_id)
{
	struct node_entry *from = entry->node;
	struct node_entry *to;

	if (from->id[0] != '\0' || node_id[0] == '\0')
		return true;
	to = node_or_new(state, node_id);
	if (!to)
		return false;
	unlist_of_node(entry);
	list_of_node(entry, to);
	node_drop_unnamed(state, from);
	return true;
}

/* Takes over the lists of @alloc. False when memory is short: it has taken nothing then. */
static bool insert_alloc(struct state *state, const struct alloc *alloc)
{
	struct node_entry *node = node_or_new(state, alloc->node_id);
	struct alloc_entry *entry = node ? calloc(1, sizeof(*entry)) : NULL;

	if (entry) {
		entry->alloc = *alloc;
		entry->id = entry->alloc.id;
	}
	if (!entry || !wish_prepare(&entry->wishes, alloc) || !list_of_job(state, entry) ||
	    !list_runners(state, entry) || !charge(state, node, entry, size_of(state, entry))) {
		if (entry) {
			unlist_runners(state, entry);
			unlist_of_job(state, entry);
			free(entry->wishes.list);
		}
		free(entry);
		if (node)
			node_drop_unnamed(state, node);
		return false;
	}
	LIST_INIT(&entry->claims);
	RB_INSERT(alloc_tree, &state->allocs, entry);
	RB_INSERT(alloc_key_tree, &state->allocs_by_key, entry);
	list_ended(state, entry);
	list_of_node(entry, node);
	state->n_allocs++;
	count_alloc(state, alloc, 1);
	wish_list(&state->wishes, &entry->wishes, &entry->alloc, entry);
	list_pending(state, entry, alloc_is_pending(alloc));
	return true;
}

enum status state_put_alloc(struct state *state, const struct alloc *alloc, struct error *err)
{
	struct alloc_entry *entry = state_alloc(state, alloc->id);
	struct alloc copy = *alloc; /* @alloc may share the lists of what it replaces */

	if (!alloc_own(&copy))
		return error_no_memory(err, "an allocation");
	if (entry && wish_prepare(&entry->wishes, &copy) && place_alloc(state, entry, copy.node_id)) {
		replace_alloc(state, entry, &copy);
		return STATUS_OK;
	}
	if (!entry && insert_alloc(state, &copy))
		return STATUS_OK;
	alloc_release(&copy);
	return error_no_memory(err, "an allocation");
}

void state_delete_alloc(struct state *state, struct alloc_entry *entry)
{
	struct node_entry *node = entry->node;
	struct claim_entry *claim;

	while ((claim = LIST_FIRST(&entry->claims))) {
		LIST_REMOVE(claim, of_alloc);
		claim->of_alloc.le_prev = NULL; /* as of one whose allocation is not known */
		state_count_release(state, claim, NULL);
	}
	if (state->last_alloc == entry)
		state->last_alloc = NULL;
	RB_REMOVE(alloc_tree, &state->allocs, entry);
	RB_REMOVE(alloc_key_tree, &state->allocs_by_key, entry);
	unlist_ended(state, entry);
	unlist_of_node(entry);
	wish_unlist(&state->wishes, &entry->wishes);
	free(entry->wishes.list);
	list_pending(state, entry, false);
	unlist_of_job(state, entry);
	unlist_runners(state, entry);
	state->n_allocs--;
	count_alloc(state, &entry->alloc, -1);
	(void)charge(state, node, entry, 0);
	alloc_release(&entry->alloc);
	free(entry->avoid_node_id);
	free(entry);
	node_drop_unnamed(state, node);
}

void state_init(struct state *state)
{
	*state = (struct state){0};
	RB_INIT(&state->volumes);
	RB_INIT(&state->allocs);
	RB_INIT(&state->allocs_by_key);
	RB_INIT(&state->ended);
	RB_INIT(&state->claims);
	RB_INIT(&state->nodes);
	RB_INIT(&state->plugins);
	RB_INIT(&state->jobs);
	RB_INIT(&state->wishes);
	LIST_INIT(&state->pending);
	RB_INIT(&state->namespaces.by_name);
	records_init(&state->records, &state->namespaces);
	LIST_INIT(&state->unreported);
	LIST_INIT(&state->recalled);
	TAILQ_INIT(&state->stuck);
	LIST_INIT(&state->unpaired);
	RB_INIT(&state->unmatched);
	TAILQ_INIT(&state->absent);
}

void state_release(struct state *state)
{
	struct claim_entry *claim;
	struct volume_entry *volume;
	struct alloc_entry *alloc;
	struct node_entry *node;

	while ((claim = RB_ROOT(&state->claims)))
		state_delete_claim(state, claim);
	while ((volume = RB_ROOT(&state->volumes)))
		state_delete_volume(state, volume);
	while ((alloc = RB_ROOT(&state->allocs)))
		state_delete_alloc(state, alloc);
	while ((node = RB_ROOT(&state->nodes)))
		state_delete_node(state, node);
	assert(RB_EMPTY(&state->plugins)); /* no entry names one */
	records_release(&state->records);
	assert(RB_EMPTY(&state->namespaces.by_name));
}

uint64_t state_generation_floor(struct state *state)
{
	const Holdfast__V1__GenerationFloor *floor = records_get(&state->records, KEY_GENERATION_FLOOR);

	return floor ? floor->generation : 0;
}

uint64_t state_epoch(struct state *state)
{
	const Holdfast__V1__Epoch *epoch = records_get(&state->records, KEY_EPOCH);

	return epoch ? epoch->number : 0;
}
