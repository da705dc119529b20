/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "plugins/plugins_internal.h"
#include "rpc/timer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOCKET_DEFAULT "csi.sock"
#define SOCKET_SUFFIX ".sock"

static void expectation_free(struct expectation *expectation)
{
	TAILQ_REMOVE(&expectation->plugins->expectations, expectation, entry);
	expectation->plugins->n_expectations--;
	sd_event_source_disable_unref(expectation->timer);
	free(expectation);
}

static struct expectation *find(const struct plugins *plugins, const char *plugin_id, const char *socket)
{
	struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		if (str_eq(one->is.plugin_id, plugin_id) && str_eq(one->is.socket, socket))
			return one;
	}
	return NULL;
}

const struct plugin_expectation *plugins_owner(const struct plugins *plugins, const char *plugin_id,
					       const char *name)
{
	const struct expectation *one = find(plugins, plugin_id, name);

	return one ? &one->is : NULL;
}

bool plugins_is_expected(const struct plugins *plugins, const char *plugin_id)
{
	const struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		if (str_eq(one->is.plugin_id, plugin_id))
			return true;
	}
	return false;
}

bool plugins_is_lent(const struct plugins *plugins, const char *plugin_id)
{
	const struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		if (str_eq(one->is.plugin_id, plugin_id) && one->is_lent)
			return true;
	}
	return false;
}

static struct instance *instance_of(const struct expectation *one)
{
	const struct plugin_entry *entry = plugins_entry(one->plugins, one->is.plugin_id);

	return entry ? registry_find(&entry->registry, one->is.socket) : NULL;
}

/* The handler may take expectations away. */
static void tell(struct expectation *one, const struct error *err)
{
	const struct plugins *plugins = one->plugins;
	char alloc_id[UUID_TEXT_SIZE];

	one->is_over = true;
	timer_disarm(one->timer);
	memcpy(alloc_id, one->is.alloc_id, sizeof(alloc_id));
	plugins->handlers->on_expected(alloc_id, err, plugins->userdata);
}

static struct expectation *find_met(const struct plugins *plugins)
{
	struct expectation *one;

	TAILQ_FOREACH (one, &plugins->expectations, entry) {
		const struct instance *instance = instance_of(one);

		if (!one->is_over && instance && instance_is_settled(instance))
			return one;
	}
	return NULL;
}

void plugins_meet(struct plugins *plugins)
{
	struct expectation *one;

	while ((one = find_met(plugins)))
		tell(one, NULL);
}

static int on_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct expectation *one = userdata;
	const struct instance *instance = instance_of(one);
	const struct error *why = instance ? instance_error(instance) : NULL;
	char path[ERROR_MSG_MAX / 2], text[CLOCK_TEXT_SIZE];
	struct error err;

	if (instance && instance_is_settled(instance)) {
		tell(one, NULL);
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
	tell(one, &err);
	return 0;
}

static enum status check(const struct plugin_expectation *is, struct error *err)
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

/* Did it stand there before? After a restart of the agent what was stored says so, until sockets were looked
 * for. */
static bool is_hosts(const struct expectation *one, const struct plugin_entry *entry)
{
	const struct instance *instance = instance_of(one);

	if (instance)
		return instance_alloc(instance)[0] == '\0';
	return !one->plugins->is_scanned && entry->has_facts && entry->facts.allocation_id[0] == '\0';
}

/* What is expected there belongs to the allocation from now on. */
static void take_over(const struct expectation *one)
{
	const struct facts_wanted wanted = {
		.is_stated = true,
		.has_controller = one->is.has_controller,
		.has_node = one->is.has_node,
	};
	struct instance *instance = instance_of(one);

	if (instance)
		instance_own(instance, one->is.alloc_id, &wanted);
}

static enum status admit(const struct plugins *plugins, const struct plugin_expectation *is,
			 struct error *err)
{
	const struct expectation *other = find(plugins, is->plugin_id, is->socket);

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
	enum status status;
	int r;

	if (is.socket[0] == '\0')
		(void)str_copy(is.socket, sizeof(is.socket), SOCKET_DEFAULT);
	if (is.health_timeout_us == 0)
		is.health_timeout_us = PLUGIN_HEALTH_TIMEOUT_DEFAULT_MS * USEC_PER_MSEC;
	status = check(&is, err);
	if (status == STATUS_OK)
		status = admit(plugins, &is, err);
	if (status == STATUS_OK)
		status = plugins_add(plugins, is.plugin_id, &entry, err);
	if (status != STATUS_OK)
		return status;
	one = find(plugins, is.plugin_id, is.socket);
	if (one) {
		one->is_over = false;
		plugins_settle_soon(plugins);
		return timer_arm(plugins->event, &one->timer, is.health_timeout_us, on_overdue, one) < 0
			       ? error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM,
					   "cannot wait for plugin %s", is.plugin_id)
			       : STATUS_OK;
	}
	one = calloc(1, sizeof(*one));
	r = one ? timer_arm(plugins->event, &one->timer, is.health_timeout_us, on_overdue, one) : -ENOMEM;
	if (r < 0) {
		free(one);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot wait for plugin %s",
				 is.plugin_id);
	}
	one->plugins = plugins;
	one->is = is;
	TAILQ_INSERT_TAIL(&plugins->expectations, one, entry);
	plugins->n_expectations++;
	one->is_lent = is_hosts(one, entry);
	entry->is_known = true;
	entry_welcome(entry, is.socket);
	take_over(one);
	plugin_dir_look(plugins->dir, is.plugin_id);
	plugins_settle_soon(plugins);
	return STATUS_OK;
}

/* The host's own goes on to serve. */
static void give_back(struct instance *instance)
{
	const struct facts_wanted wanted = {0};

	if (instance)
		instance_own(instance, "", &wanted);
}

void plugins_forget(struct plugins *plugins, const char *alloc_id)
{
	struct expectation *one, *next;

	for (one = TAILQ_FIRST(&plugins->expectations); one; one = next) {
		struct plugin_entry *entry = plugins_entry(plugins, one->is.plugin_id);

		next = TAILQ_NEXT(one, entry);
		if (!str_eq(one->is.alloc_id, alloc_id))
			continue;
		if (one->is_lent)
			give_back(instance_of(one));
		else if (entry)
			entry_disown(entry, one->is.socket);
		expectation_free(one);
		plugins_settle_soon(plugins);
	}
}

void plugins_drop_expectations(struct plugins *plugins)
{
	struct expectation *one;

	while ((one = TAILQ_FIRST(&plugins->expectations)))
		expectation_free(one);
}
