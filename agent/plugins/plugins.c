/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/plugins.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "plugins/plugins_internal.h"
#include "rpc/timer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(struct plugins, plugins_free)

struct plugin_entry *plugins_entry(const struct plugins *plugins, const char *plugin_id)
{
	for (size_t i = 0; i < plugins->n_entries; i++) {
		if (str_eq(plugins->entries[i]->id, plugin_id))
			return plugins->entries[i];
	}
	return NULL;
}

enum status plugins_add(struct plugins *plugins, const char *plugin_id, struct plugin_entry **ret,
			struct error *err)
{
	struct plugin_entry *entry = plugins_entry(plugins, plugin_id);

	if (entry) {
		*ret = entry;
		return STATUS_OK;
	}
	if (!id_is_label(plugin_id) || str_eq(plugin_id, PLUGIN_NATIVE))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "'%.64s' is no plugin id: that is [a-z0-9-], 1 to 63 characters, and not "
				 "'" PLUGIN_NATIVE "'",
				 plugin_id);
	if (plugins->n_entries == PLUGINS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "plugin %s is not taken, this node has %d plugins already: remove the "
				 "folders in %s of those that are no longer used",
				 plugin_id, PLUGINS_MAX, plugins->options.plugin_dir);
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "plugin %s is not taken", plugin_id);
	(void)str_copy(entry->id, sizeof(entry->id), plugin_id);
	memcpy(entry->facts.plugin_id, entry->id, sizeof(entry->id));
	rate_init(&entry->news, PLUGIN_NEWS_PER_SECOND, PLUGIN_NEWS_BURST, clock_monotonic_us());
	plugins->entries[plugins->n_entries++] = entry;
	*ret = entry;
	return STATUS_OK;
}

const char *plugins_reason(const struct plugins *plugins)
{
	if (!plugin_dir_is_open(plugins->dir))
		return "the folder of the plugins' sockets (plugin_dir) is not there or cannot be read";
	return plugins->is_scanned ? "no socket stands in its folder" : "it has not been looked for yet";
}

bool plugins_lack_folder(const struct plugins *plugins)
{
	return plugin_dir_is_missing(plugins->dir);
}

/* Is there any reason to know the plugin still? */
static bool is_wanted(const struct plugins *plugins, const struct plugin_entry *entry)
{
	bool is_hosts = entry->facts.allocation_id[0] == '\0';

	if (entry->registry.n > 0 || plugins_is_expected(plugins, entry->id))
		return true;
	if (!entry->has_facts)
		return false;
	if (!plugins->is_scanned || !plugin_dir_is_open(plugins->dir))
		return true; /* unknown means keep */
	return is_hosts && plugin_dir_has(plugins->dir, entry->id);
}

static void drop_facts(struct plugins *plugins, struct plugin_entry *entry)
{
	if (entry->has_facts)
		log_ctx(LOG_NOTICE,
			&(struct log_ctx){
				.plugin = entry->id, .op = "plugin", .event = LOG_EVENT_PLUGIN_GONE},
			"plugin %s is no longer part of this node", entry->id);
	if (entry->is_stored)
		plugins->handlers->on_store(entry->id, NULL, plugins->userdata);
	plugins->has_news = plugins->has_news || entry->is_known;
	entry_forget(entry);
}

static void drop_unwanted(struct plugins *plugins)
{
	size_t kept = 0;

	for (size_t i = 0; i < plugins->n_entries; i++) {
		struct plugin_entry *entry = plugins->entries[i];
		bool is_known = is_wanted(plugins, entry);

		if (!is_known)
			drop_facts(plugins, entry);
		entry->is_known = is_known;
		/* what stands in its folder may still be what is to be passed over */
		if (is_known || entry->n_disowned > 0)
			plugins->entries[kept++] = entry;
		else
			entry_free(entry);
	}
	if (kept < plugins->n_entries)
		plugins->is_full = false;
	plugins->n_entries = kept;
}

static void store(struct plugins *plugins, struct plugin_entry *entry)
{
	struct node_plugin facts = entry->facts;

	/* for whoever stops the allocation after a restart */
	if (plugins_is_lent(plugins, entry->id))
		memset(facts.allocation_id, 0, sizeof(facts.allocation_id));
	if (!entry->has_facts || (entry->is_stored && facts_eq_lasting(&entry->stored, &facts)))
		return;
	entry->is_stored = true;
	entry->stored = facts;
	plugins->handlers->on_store(entry->id, &facts, plugins->userdata);
}

static int on_settle(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugins *plugins = userdata;
	bool is_behind = false;
	bool has_news;

	drop_unwanted(plugins);
	has_news = plugins->has_news;
	plugins->has_news = false;
	for (size_t i = 0; i < plugins->n_entries; i++) {
		if (!plugins->entries[i]->is_known)
			continue;
		has_news = entry_update(plugins->entries[i], plugins_reason(plugins)) || has_news;
		is_behind = is_behind || plugins->entries[i]->is_behind;
		store(plugins, plugins->entries[i]);
	}
	if (is_behind) /* else told upon the next change */
		(void)timer_arm(plugins->event, &plugins->later, USEC_PER_SEC / PLUGIN_NEWS_PER_SECOND,
				on_settle, plugins);
	if (has_news)
		plugins->handlers->on_change(plugins->userdata);
	plugins_wake(plugins);
	plugins_meet(plugins);
	return 0;
}

void plugins_settle_soon(struct plugins *plugins)
{
	struct error err;
	int r = timer_arm(plugins->event, &plugins->settle, 0, on_settle, plugins);

	if (r >= 0)
		return;
	(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, r, "cannot arm a timer");
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "plugins", .err = &err},
		"what has changed is told upon the next change");
}

static void on_instance_changed(struct instance *instance, void *userdata)
{
	plugins_settle_soon(userdata);
}

/* Whose the instance is, and what it has to be. */
static void own(const struct plugins *plugins, const struct plugin_entry *entry, const char *name,
		struct instance *instance)
{
	const struct plugin_expectation *owner = plugins_owner(plugins, entry->id, name);
	const struct facts_wanted wanted = {
		.is_stated = owner != NULL,
		.has_controller = owner && owner->has_controller,
		.has_node = owner && owner->has_node,
	};

	instance_own(instance, owner ? owner->alloc_id : "", &wanted);
}

static void add_instance(struct plugins *plugins, struct plugin_entry *entry,
			 const struct plugin_socket *socket)
{
	char path[sizeof(((struct plugin_instance_info *)0)->socket)];
	const struct instance_options options = {
		.plugin_id = entry->id,
		.path = path,
		.probe_interval_us = plugins->options.probe_interval_us,
		.message_bytes = plugins->options.message_bytes,
		.call_timeout_us = plugins->options.call_timeout_us,
	};
	struct instance *instance;
	struct error err;
	int r;

	/* plugin_dir takes no longer ones */
	r = str_format(path, sizeof(path), "%s/%s/%s", plugins->options.plugin_dir, entry->id, socket->name);
	if (r < 0 || instance_new(plugins->event, &options, on_instance_changed, plugins, &instance, &err) !=
			     STATUS_OK) {
		(void)registry_remove(&entry->registry, socket);
		if (r >= 0)
			log_ctx(LOG_ERR, &(struct log_ctx){.plugin = entry->id, .op = "plugin", .err = &err},
				"plugin is looked at again later");
		return;
	}
	entry->registry.slots[0].instance = instance;
	own(plugins, entry, socket->name, instance);
}

/* Instances whose sockets stand no more. */
static void remove_missing(struct plugin_entry *entry, const struct plugin_socket *sockets, size_t n)
{
	for (size_t i = entry->registry.n; i-- > 0;) {
		struct plugin_socket known = entry->registry.slots[i].socket;
		bool stands = false;

		for (size_t k = 0; k < n; k++)
			stands = stands || str_eq(sockets[k].name, known.name);
		if (!stands)
			instance_end(registry_remove(&entry->registry, &known));
	}
}

static void add_sockets(struct plugins *plugins, struct plugin_entry *entry,
			const struct plugin_socket *sockets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (entry_is_disowned(entry, &sockets[i]))
			continue;
		switch (registry_add(&entry->registry, &sockets[i])) {
		case REGISTRY_NEW:
			add_instance(plugins, entry, &sockets[i]);
			break;
		case REGISTRY_RECREATED:
			instance_recreate(entry->registry.slots[0].instance);
			break;
		case REGISTRY_TOUCHED:
			instance_retry(registry_find(&entry->registry, sockets[i].name));
			break;
		case REGISTRY_SAME:
		case REGISTRY_FULL: /* plugin_dir names no more than there is room for */
			break;
		}
	}
}

static void on_folder(const char *plugin_id, const struct plugin_socket *sockets, size_t n, void *userdata)
{
	struct plugins *plugins = userdata;
	struct plugin_entry *entry = plugins_entry(plugins, plugin_id);
	struct error err;

	if (!entry && n == 0)
		return;
	if (!entry && plugins->n_entries == PLUGINS_MAX)
		drop_unwanted(plugins);
	if (plugins_add(plugins, plugin_id, &entry, &err) != STATUS_OK) {
		if (!plugins->is_full)
			log_ctx(LOG_ERR, &(struct log_ctx){.plugin = plugin_id, .op = "plugins", .err = &err},
				"a plugin is passed over");
		plugins->is_full = true;
		return;
	}
	entry_trim_disowned(entry, sockets, n);
	remove_missing(entry, sockets, n);
	add_sockets(plugins, entry, sockets, n);
	plugins_settle_soon(plugins);
}

static void on_gone(const char *plugin_id, void *userdata)
{
	struct plugins *plugins = userdata;
	struct plugin_entry *entry = plugins_entry(plugins, plugin_id);

	if (entry) {
		entry->n_disowned = 0;
		remove_missing(entry, NULL, 0);
	}
	plugins_settle_soon(plugins);
}

static void on_scanned(void *userdata)
{
	struct plugins *plugins = userdata;

	plugins->is_scanned = true;
	plugins_settle_soon(plugins);
}

static const struct plugin_dir_events dir_events = {
	.on_folder = on_folder,
	.on_gone = on_gone,
	.on_scanned = on_scanned,
};

enum status plugins_new(sd_event *event, const struct plugins_options *options,
			const struct plugins_handlers *handlers, void *userdata, struct plugins **ret,
			struct error *err)
{
	cleanup(plugins_freep) struct plugins *plugins = calloc(1, sizeof(*plugins));
	enum status status;

	if (!plugins)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot look for plugins");
	plugins->event = event;
	plugins->options = *options;
	plugins->handlers = handlers;
	plugins->userdata = userdata;
	TAILQ_INIT(&plugins->waits);
	TAILQ_INIT(&plugins->expectations);
	if (plugins->options.probe_interval_us == 0)
		plugins->options.probe_interval_us = PLUGIN_PROBE_INTERVAL_DEFAULT_MS * UINT64_C(1000);
	status = plugin_dir_new(event, options->plugin_dir, &dir_events, plugins, &plugins->dir, err);
	if (status != STATUS_OK)
		return status;
	*ret = TAKE_PTR(plugins);
	return STATUS_OK;
}

enum status plugins_restore(struct plugins *plugins, const struct node_plugin *facts, struct error *err)
{
	struct plugin_entry *entry;
	enum status status;

	if (plugins_entry(plugins, facts->plugin_id))
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "plugin %s is known already",
				 facts->plugin_id);
	status = plugins_add(plugins, facts->plugin_id, &entry, err);
	if (status != STATUS_OK)
		return status;
	entry->is_known = entry->has_facts = entry->is_stored = true;
	entry->facts = entry->stored = *facts;
	(void)entry_update(entry, plugins_reason(plugins));
	return STATUS_OK;
}

enum status plugins_start(struct plugins *plugins, struct error *err)
{
	return plugin_dir_start(plugins->dir, err);
}

void plugins_free(struct plugins *plugins)
{
	if (!plugins)
		return;
	plugins_drop_waits(plugins);
	plugins_drop_expectations(plugins);
	plugin_dir_free(plugins->dir);
	for (size_t i = 0; i < plugins->n_entries; i++)
		entry_free(plugins->entries[i]);
	sd_event_source_disable_unref(plugins->settle);
	sd_event_source_disable_unref(plugins->later);
	free(plugins);
}

size_t plugins_fingerprint(const struct plugins *plugins, struct node_plugin *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < plugins->n_entries && n < max; i++) {
		if (plugins->entries[i]->is_known)
			ret[n++] = plugins->entries[i]->facts;
	}
	return n;
}

const struct node_plugin *plugins_facts(const struct plugins *plugins, const char *plugin_id)
{
	const struct plugin_entry *entry = plugins_entry(plugins, plugin_id);

	return entry && entry->has_facts ? &entry->facts : NULL;
}

enum status plugins_client(const struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			   struct csi_client **ret, struct error *err)
{
	const struct plugin_entry *entry = plugins_entry(plugins, plugin_id);

	if (!entry || !entry->is_known)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "plugin %s is not on this node: no socket in %s/%s, and no allocation that "
				 "runs it; see: holdfast agent status",
				 plugin_id, plugins->options.plugin_dir, plugin_id);
	return entry_client(entry, half, plugins_reason(plugins), ret, err);
}

size_t plugins_instances(const struct plugins *plugins, struct plugin_instance_info *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < plugins->n_entries; i++) {
		const struct plugin_entry *entry = plugins->entries[i];

		for (size_t k = 0; k < entry->registry.n && n < max; k++, n++) {
			const struct instance *instance = entry->registry.slots[k].instance;

			instance_info(instance, &ret[n]);
			ret[n].is_used = instance == entry_current(entry, PLUGIN_NODE) ||
					 instance == entry_current(entry, PLUGIN_CONTROLLER);
		}
	}
	return n;
}
