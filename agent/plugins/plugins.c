/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/plugins.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "model/alloc.h"
#include "plugins/entry.h"
#include "rpc/timer.h"
#include "service/dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	PLUGIN_WAITS_MAX = 1024,
	PLUGIN_EXPECTATIONS_MAX = 64,
};

struct expectation {
	TAILQ_ENTRY(expectation) entry;
	struct plugins *plugins;
	struct plugin_expectation is; /* socket filled in */
	sd_event_source *timer;
	bool is_over; /* its end was reported */
	/* before the allocation it was the host's, which gets it back even if another process has bound it */
	bool is_lent;
};

struct plugins {
	sd_event *event; /* borrowed */
	struct plugins_options options;
	const struct plugins_handlers *handlers;
	void *userdata;
	struct service_dir *dir;
	bool is_scanned;  /* the sockets in the folder are known */
	bool is_full;	  /* and this was reported */
	bool has_changes; /* an entry was dropped */
	struct plugin_entry *entries[PLUGINS_MAX];
	size_t n_entries;
	TAILQ_HEAD(, plugin_wait) waits;
	size_t n_waits;
	TAILQ_HEAD(, expectation) expectations;
	size_t n_expectations;
	sd_event_source *settle; /* from the event loop, after something has changed */
	sd_event_source *later;	 /* the same, for changes that had to wait */
};

static void plugins_settle_soon(struct plugins *plugins);

DEFINE_CLEANUP(struct plugins, plugins_free)

static struct plugin_entry *plugins_entry(const struct plugins *plugins, const char *plugin_id)
{
	for (size_t i = 0; i < plugins->n_entries; i++) {
		if (str_eq(plugins->entries[i]->id, plugin_id))
			return plugins->entries[i];
	}
	return NULL;
}

static enum status plugins_add(struct plugins *plugins, const char *plugin_id, struct plugin_entry **ret,
			       struct error *err)
{
	struct plugin_entry *entry = plugins_entry(plugins, plugin_id);

	if (entry) {
		*ret = entry;
		return STATUS_OK;
	}
	if (!id_is_plugin(plugin_id) || str_eq(plugin_id, PLUGIN_NATIVE))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "'%.64s' is no plugin id: that is [a-z0-9.-], 1 to 63 characters, with "
				 "dots between letters and digits, and not "
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
	rate_init(&entry->change_rate, INSTANCE_CHANGES_PER_SECOND, INSTANCE_CHANGES_BURST,
		  clock_monotonic_us());
	plugins->entries[plugins->n_entries++] = entry;
	*ret = entry;
	return STATUS_OK;
}

struct plugin_wait {
	TAILQ_ENTRY(plugin_wait) entry;
	struct plugins *plugins;
	char plugin_id[PLUGIN_ID_MAX + 1];
	enum plugin_half half;
	uint64_t timeout_us;
	uint64_t deadline_us;
	plugin_ready_fn *done;
	void *userdata;
	sd_event_source *timer;
};

static void wait_free(struct plugin_wait *wait)
{
	TAILQ_REMOVE(&wait->plugins->waits, wait, entry);
	wait->plugins->n_waits--;
	sd_event_source_disable_unref(wait->timer);
	free(wait);
}

static void wait_end(struct plugin_wait *wait, const struct error *err)
{
	plugin_ready_fn *done = wait->done;
	void *userdata = wait->userdata;

	wait_free(wait);
	done(err, userdata);
}

static enum status wait_ask(const struct plugin_wait *wait, struct error *err)
{
	struct service_client *client;

	return plugins_client(wait->plugins, wait->plugin_id, wait->half, &client, err);
}

static int on_wait_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin_wait *wait = userdata;
	uint64_t now_us = clock_monotonic_us();
	char text[CLOCK_TEXT_SIZE];
	struct error err;
	int r;

	if (wait_ask(wait, &err) == STATUS_OK) {
		wait_end(wait, NULL);
		return 0;
	}
	/* no longer healthy, or the timer was early */
	if (now_us < wait->deadline_us) {
		r = timer_arm(wait->plugins->event, &wait->timer, wait->deadline_us - now_us, on_wait_due,
			      wait);
		if (r >= 0)
			return 0;
	}
	/* a missing plugin may come: callers treat it like an unhealthy one */
	err.status = STATUS_UNAVAILABLE;
	(void)error_prefix(&err, "waited %s (plugin_wait)", clock_format_duration(wait->timeout_us, text));
	wait_end(wait, &err);
	return 0;
}

enum status plugins_wait(struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			 uint64_t timeout_us, plugin_ready_fn *done, void *userdata, struct plugin_wait **ret,
			 struct error *err)
{
	struct plugin_wait *wait;
	int r;

	if (plugins->n_waits == PLUGIN_WAITS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "plugin %s: %d operations wait for plugins already", plugin_id,
				 PLUGIN_WAITS_MAX);
	wait = calloc(1, sizeof(*wait));
	if (!wait)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot wait for plugin %s",
				 plugin_id);
	*wait = (struct plugin_wait){
		.plugins = plugins,
		.half = half,
		.timeout_us = timeout_us,
		.deadline_us = clock_monotonic_us() + timeout_us,
		.done = done,
		.userdata = userdata,
	};
	if (str_copy(wait->plugin_id, sizeof(wait->plugin_id), plugin_id) < 0) {
		free(wait);
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%.64s' is no plugin id", plugin_id);
	}
	r = timer_arm(plugins->event, &wait->timer, wait_ask(wait, NULL) == STATUS_OK ? 0 : timeout_us,
		      on_wait_due, wait);
	if (r < 0) {
		free(wait);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot wait for plugin %s", plugin_id);
	}
	TAILQ_INSERT_TAIL(&plugins->waits, wait, entry);
	plugins->n_waits++;
	if (ret)
		*ret = wait;
	return STATUS_OK;
}

void plugin_wait_cancel(struct plugin_wait *wait)
{
	if (wait)
		wait_free(wait);
}

static void plugins_wake(struct plugins *plugins)
{
	struct plugin_wait *wait;

	TAILQ_FOREACH (wait, &plugins->waits, entry) {
		if (wait_ask(wait, NULL) == STATUS_OK)
			/* else at its deadline */
			(void)timer_arm(plugins->event, &wait->timer, 0, on_wait_due, wait);
	}
}

static void plugins_drop_waits(struct plugins *plugins)
{
	struct plugin_wait *wait;
	struct error err;

	(void)error_set(&err, STATUS_CANCELLED, 0, "the agent ends");
	while ((wait = TAILQ_FIRST(&plugins->waits)))
		wait_end(wait, &err);
}

#define SOCKET_SUFFIX ".sock"

static void expectation_free(struct expectation *expectation)
{
	TAILQ_REMOVE(&expectation->plugins->expectations, expectation, entry);
	expectation->plugins->n_expectations--;
	sd_event_source_disable_unref(expectation->timer);
	free(expectation);
}

static struct expectation *expectation_find(const struct plugins *plugins, const char *plugin_id,
					    const char *socket)
{
	struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		if (str_eq(one->is.plugin_id, plugin_id) && str_eq(one->is.socket, socket))
			return one;
	}
	return NULL;
}

static const struct plugin_expectation *plugins_owner(const struct plugins *plugins, const char *plugin_id,
						      const char *name)
{
	const struct expectation *one = expectation_find(plugins, plugin_id, name);

	return one ? &one->is : NULL;
}

static bool plugins_is_expected(const struct plugins *plugins, const char *plugin_id)
{
	const struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		if (str_eq(one->is.plugin_id, plugin_id))
			return true;
	}
	return false;
}

static bool plugins_is_lent(const struct plugins *plugins, const char *plugin_id)
{
	const struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		if (str_eq(one->is.plugin_id, plugin_id) && one->is_lent)
			return true;
	}
	return false;
}

static struct instance *expectation_instance(const struct expectation *one)
{
	const struct plugin_entry *entry = plugins_entry(one->plugins, one->is.plugin_id);

	return entry ? registry_find(&entry->registry, one->is.socket) : NULL;
}

/* The handler may take expectations away. */
static void expectation_end(struct expectation *one, const struct error *err)
{
	const struct plugins *plugins = one->plugins;
	struct plugin_expectation is = one->is;

	one->is_over = true;
	timer_disarm(one->timer);
	plugins->handlers->on_expected(is.alloc_id, is.plugin_id, err, plugins->userdata);
}

static struct expectation *expectation_find_met(const struct plugins *plugins)
{
	struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		const struct instance *instance = expectation_instance(one);

		if (!one->is_over && instance && service_instance_is_settled(&instance->base))
			return one;
	}
	return NULL;
}

static void plugins_meet(struct plugins *plugins)
{
	struct expectation *one;

	while ((one = expectation_find_met(plugins)))
		expectation_end(one, NULL);
}

static int on_expectation_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct expectation *one = userdata;
	const struct instance *instance = expectation_instance(one);
	const struct error *why = instance ? &instance->base.last_error : NULL;
	char path[ERROR_MSG_MAX / 2], text[CLOCK_TEXT_SIZE];
	struct error err;

	if (instance && service_instance_is_settled(&instance->base)) {
		expectation_end(one, NULL);
		return 0;
	}
	(void)str_format(path, sizeof(path), "its socket %s/%s/%s did not appear",
			 one->plugins->options.plugin_dir, one->is.plugin_id, one->is.socket);
	(void)error_set(
		&err, why && why->status != STATUS_OK ? why->status : STATUS_UNAVAILABLE, 0,
		"plugin %s was not healthy within %s (health_timeout): %s; see: holdfast agent status",
		one->is.plugin_id, clock_format_duration(one->is.health_timeout_us, text),
		why && why->status != STATUS_OK ? why->msg
		: instance			? "it has not answered yet"
						: path);
	expectation_end(one, &err);
	return 0;
}

static enum status expectation_check(const struct plugin_expectation *is, struct error *err)
{
	size_t n = strlen(is->socket), suffix = strlen(SOCKET_SUFFIX);

	if (!id_is_uuid(is->alloc_id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%s' is no allocation", is->alloc_id);
	if (n <= suffix || !str_eq(is->socket + n - suffix, SOCKET_SUFFIX) || is->socket[0] == '.' ||
	    strchr(is->socket, '/') || !str_is_text(is->socket))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "plugin %s: '%s' is no name of a socket: that is a file name that ends in "
				 "" SOCKET_SUFFIX " and does not begin with a dot",
				 is->plugin_id, is->socket);
	if (!is->has_controller && !is->has_node)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "plugin %s is expected to be neither a controller nor a node plugin",
				 is->plugin_id);
	return STATUS_OK;
}

/* Returns whether the plugin was the host's before. After a restart of the agent the stored facts decide,
 * until the folder was scanned. */
static bool expectation_is_hosts(const struct expectation *one, const struct plugin_entry *entry)
{
	const struct instance *instance = expectation_instance(one);

	if (instance)
		return instance->alloc_id[0] == '\0';
	return !one->plugins->is_scanned && entry->has_facts && entry->facts.allocation_id[0] == '\0';
}

/* Gives the instance to the allocation from now on. */
static void expectation_apply(const struct expectation *one)
{
	const struct facts_wanted wanted = {
		.is_stated = true,
		.has_controller = one->is.has_controller,
		.has_node = one->is.has_node,
	};
	struct instance *instance = expectation_instance(one);

	if (instance)
		instance_own(instance, one->is.alloc_id, &wanted);
}

static enum status expectation_admit(const struct plugins *plugins, const struct plugin_expectation *is,
				     struct error *err)
{
	const struct expectation *other = expectation_find(plugins, is->plugin_id, is->socket);

	if (other && !str_eq(other->is.alloc_id, is->alloc_id))
		return error_set(err, STATUS_ALREADY_EXISTS, 0,
				 "plugin %s: allocation %s runs it with the socket %s already: stop that one "
				 "first, or name another socket in the csi_plugin block",
				 is->plugin_id, other->is.alloc_id, is->socket);
	if (plugins->n_expectations == PLUGIN_EXPECTATIONS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "plugin %s: %d allocations of this node run plugins already", is->plugin_id,
				 PLUGIN_EXPECTATIONS_MAX);
	return STATUS_OK;
}

enum status plugins_expect(struct plugins *plugins, const struct plugin_expectation *expectation,
			   struct error *err)
{
	struct plugin_expectation is = *expectation;
	struct plugin_entry *entry;
	struct expectation *one;
	int r;

	if (is.socket[0] == '\0')
		(void)str_copy(is.socket, sizeof(is.socket), CSI_PLUGIN_SOCKET);
	if (is.health_timeout_us == 0)
		is.health_timeout_us = PLUGIN_HEALTH_TIMEOUT_DEFAULT_MS * USEC_PER_MSEC;
	TRY(expectation_check(&is, err));
	TRY(expectation_admit(plugins, &is, err));
	TRY(plugins_add(plugins, is.plugin_id, &entry, err));
	one = expectation_find(plugins, is.plugin_id, is.socket);
	if (one) {
		one->is_over = false;
		plugins_settle_soon(plugins);
		return timer_arm(plugins->event, &one->timer, is.health_timeout_us, on_expectation_overdue,
				 one) < 0
			       ? error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM,
					   "cannot wait for plugin %s", is.plugin_id)
			       : STATUS_OK;
	}
	one = calloc(1, sizeof(*one));
	r = one ? timer_arm(plugins->event, &one->timer, is.health_timeout_us, on_expectation_overdue, one)
		: -ENOMEM;
	if (r < 0) {
		free(one);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot wait for plugin %s",
				 is.plugin_id);
	}
	one->plugins = plugins;
	one->is = is;
	TAILQ_INSERT_TAIL(&plugins->expectations, one, entry);
	plugins->n_expectations++;
	one->is_lent = expectation_is_hosts(one, entry);
	entry->is_known = true;
	entry_welcome(entry, is.socket);
	expectation_apply(one);
	service_dir_look(plugins->dir, is.plugin_id);
	plugins_settle_soon(plugins);
	return STATUS_OK;
}

/* The host's own continues to serve. */
static void instance_return_to_host(struct instance *instance)
{
	const struct facts_wanted wanted = {0};

	if (instance)
		instance_own(instance, "", &wanted);
}

static struct expectation *expectation_of(const struct plugins *plugins, const char *alloc_id)
{
	struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		if (str_eq(one->is.alloc_id, alloc_id))
			return one;
	}
	return NULL;
}

/* Takes each off the list first: the end of a call to the plugin may take other expectations away. */
void plugins_forget(struct plugins *plugins, const char *alloc_id)
{
	struct expectation *one;

	while ((one = expectation_of(plugins, alloc_id))) {
		const struct plugin_expectation is = one->is;
		struct plugin_entry *entry = plugins_entry(plugins, is.plugin_id);
		bool is_lent = one->is_lent;

		expectation_free(one);
		plugins_settle_soon(plugins);
		if (entry && is_lent)
			instance_return_to_host(registry_find(&entry->registry, is.socket));
		else if (entry)
			entry_disown(entry, is.socket);
	}
}

static void plugins_drop_expectations(struct plugins *plugins)
{
	struct expectation *one;

	while ((one = TAILQ_FIRST(&plugins->expectations)))
		expectation_free(one);
}

static const char *plugins_reason(const struct plugins *plugins)
{
	if (!service_dir_is_open(plugins->dir))
		return "the folder of the plugins' sockets (plugin_dir) is not there or cannot be read";
	return plugins->is_scanned ? "there is no socket in its folder" : "it has not been looked for yet";
}

bool plugins_lack_folder(const struct plugins *plugins)
{
	return service_dir_is_missing(plugins->dir);
}

/* Is there any reason to know the plugin still? */
static bool is_wanted(const struct plugins *plugins, const struct plugin_entry *entry)
{
	bool is_hosts = entry->facts.allocation_id[0] == '\0';

	if (entry->registry.n > 0 || plugins_is_expected(plugins, entry->id))
		return true;
	if (!entry->has_facts)
		return false;
	if (!plugins->is_scanned || !service_dir_is_open(plugins->dir))
		return true; /* unknown means keep */
	return is_hosts && service_dir_has(plugins->dir, entry->id);
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
	plugins->has_changes = plugins->has_changes || entry->is_known;
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
		/* its folder may still hold disowned sockets, which must be ignored */
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

	/* an allocation may be stopped after a restart, and then gives the plugin back */
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
	bool has_changes;

	drop_unwanted(plugins);
	has_changes = plugins->has_changes;
	plugins->has_changes = false;
	for (size_t i = 0; i < plugins->n_entries; i++) {
		if (!plugins->entries[i]->is_known)
			continue;
		has_changes = entry_update(plugins->entries[i], plugins_reason(plugins)) || has_changes;
		is_behind = is_behind || plugins->entries[i]->is_behind;
		store(plugins, plugins->entries[i]);
	}
	if (is_behind) /* else reported with the next change */
		(void)timer_arm(plugins->event, &plugins->later, USEC_PER_SEC / INSTANCE_CHANGES_PER_SECOND,
				on_settle, plugins);
	if (has_changes)
		plugins->handlers->on_change(plugins->userdata);
	plugins_wake(plugins);
	plugins_meet(plugins);
	return 0;
}

static void plugins_settle_soon(struct plugins *plugins)
{
	struct error err;
	int r = timer_arm(plugins->event, &plugins->settle, 0, on_settle, plugins);

	if (r >= 0)
		return;
	(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, r, "cannot arm a timer");
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "plugins", .err = &err},
		"the server learns of it with the next change");
}

static void on_instance_changed(void *userdata)
{
	plugins_settle_soon(userdata);
}

/* Sets the owner of the instance and the services that it must have. */
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

/* A folder that was looked at. */
struct look {
	struct plugins *plugins;
	struct plugin_entry *entry;
};

static struct service_instance *add_instance(const struct service_socket *socket, void *userdata)
{
	const struct look *look = userdata;
	const char *id = look->entry->id;
	struct instance *instance;
	struct error err;

	if (instance_new(look->plugins->event, &look->plugins->options, id, socket->name, on_instance_changed,
			 look->plugins, &instance, &err) != STATUS_OK) {
		log_ctx(LOG_ERR, &(struct log_ctx){.plugin = id, .op = "plugin", .err = &err},
			"plugin is looked at again later");
		return NULL;
	}
	own(look->plugins, look->entry, socket->name, instance);
	return &instance->base;
}

static void remove_instance(struct service_instance *base)
{
	instance_end((struct instance *)base);
}

/* Updates the instances. Ignores disowned sockets. */
static void update_instances(struct plugins *plugins, struct plugin_entry *entry,
			     const struct service_socket *sockets, size_t n)
{
	static const struct service_folder_events events = {add_instance, remove_instance};
	struct look look = {plugins, entry};
	struct service_socket owned[REGISTRY_MAX];
	size_t n_owned = 0;

	for (size_t i = 0; i < n; i++)
		if (!entry_is_disowned(entry, &sockets[i]))
			owned[n_owned++] = sockets[i];
	service_instances_update(&entry->registry, owned, n_owned, &events, &look);
}

static void on_folder(const char *plugin_id, const struct service_socket *sockets, size_t n, void *userdata)
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
	update_instances(plugins, entry, sockets, n);
	plugins_settle_soon(plugins);
}

static void on_gone(const char *plugin_id, void *userdata)
{
	struct plugins *plugins = userdata;
	struct plugin_entry *entry = plugins_entry(plugins, plugin_id);

	if (entry) {
		entry->n_disowned = 0;
		update_instances(plugins, entry, NULL, 0);
	}
	plugins_settle_soon(plugins);
}

static void on_scanned(void *userdata)
{
	struct plugins *plugins = userdata;

	plugins->is_scanned = true;
	plugins_settle_soon(plugins);
}

static const struct service_dir_events dir_events = {
	.on_folder = on_folder,
	.on_gone = on_gone,
	.on_scanned = on_scanned,
};

enum status plugins_new(sd_event *event, const struct plugins_options *options,
			const struct plugins_handlers *handlers, void *userdata, struct plugins **ret,
			struct error *err)
{
	cleanup(plugins_freep) struct plugins *plugins = calloc(1, sizeof(*plugins));

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
	TRY(service_dir_new(event, &csi_kind, options->plugin_dir, &dir_events, plugins, &plugins->dir, err));
	*ret = TAKE_PTR(plugins);
	return STATUS_OK;
}

enum status plugins_restore(struct plugins *plugins, const struct node_plugin *facts, struct error *err)
{
	struct plugin_entry *entry;

	if (plugins_entry(plugins, facts->plugin_id))
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "plugin %s is known already",
				 facts->plugin_id);
	TRY(plugins_add(plugins, facts->plugin_id, &entry, err));
	entry->is_known = entry->has_facts = entry->is_stored = true;
	entry->facts = *facts;
	/* The machine may have other addresses since, or another one has these: only an answer in this boot
	 * counts. The server keeps the earlier answers of the boot. */
	entry->facts.node.n_fence_clients = 0;
	memset(entry->facts.node.fence_clients, 0, sizeof(entry->facts.node.fence_clients));
	entry->stored = entry->facts;
	(void)entry_update(entry, plugins_reason(plugins));
	return STATUS_OK;
}

enum status plugins_start(struct plugins *plugins, struct error *err)
{
	return service_dir_start(plugins->dir, err);
}

void plugins_free(struct plugins *plugins)
{
	if (!plugins)
		return;
	plugins_drop_waits(plugins);
	plugins_drop_expectations(plugins);
	service_dir_free(plugins->dir);
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

const struct fence_args *plugins_fence_args(const struct plugins *plugins, const char *plugin_id)
{
	return fence_args_find(plugins->options.fences, plugins->options.n_fences, plugin_id);
}

const struct node_plugin *plugins_facts(const struct plugins *plugins, const char *plugin_id)
{
	const struct plugin_entry *entry = plugins_entry(plugins, plugin_id);

	return entry && entry->has_facts ? &entry->facts : NULL;
}

enum status plugins_client(const struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			   struct service_client **ret, struct error *err)
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
