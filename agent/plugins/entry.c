/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/entry.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool has_half(const struct node_plugin *facts, enum plugin_half half)
{
	return half == PLUGIN_NODE ? facts->has_node : facts->has_controller;
}

static bool serves(const void *slot, const void *arg)
{
	const struct instance *instance = slot;
	const struct node_plugin *facts = instance_facts(instance);

	return service_instance_is_healthy(&instance->base) && facts &&
	       has_half(facts, *(const enum plugin_half *)arg);
}

struct instance *entry_current(const struct plugin_entry *entry, enum plugin_half half)
{
	return registry_current(&entry->registry, serves, &half);
}

static bool has_error(const void *slot, const void *arg)
{
	const struct service_instance *base = slot;

	return !service_instance_is_healthy(base) && base->last_error.status != STATUS_OK;
}

const char *entry_reason(const struct plugin_entry *entry, const char *otherwise)
{
	const struct instance *instance = registry_current(&entry->registry, has_error, NULL);

	if (instance)
		return instance->base.last_error.msg;
	return entry->registry.n > 0 ? "it has not been probed yet" : otherwise;
}

/* Returns whether the half stays in the facts while no instance serves it: false if all instances there are
 * known to be without it, and the one that served it is among them. */
static bool keeps(const struct plugin_entry *entry, enum plugin_half half)
{
	const char *name = entry->served_by[half];

	for (size_t i = 0; i < entry->registry.n; i++) {
		const struct node_plugin *facts = instance_facts(entry->registry.slots[i].instance);

		if (!facts || has_half(facts, half))
			return true;
	}
	return entry->registry.n == 0 || (name[0] != '\0' && !registry_find(&entry->registry, name));
}

static void note_server(struct plugin_entry *entry, enum plugin_half half, const struct instance *instance)
{
	for (size_t i = 0; instance && i < entry->registry.n; i++) {
		if (entry->registry.slots[i].instance == instance)
			memcpy(entry->served_by[half], entry->registry.slots[i].socket.name,
			       sizeof(entry->served_by[half]));
	}
}

/* A plugin that calls itself or the node otherwise than before is another one, perhaps by mistake. */
static void log_other(const struct plugin_entry *entry, const char *what, const char *before, const char *now)
{
	if (before[0] != '\0' && now[0] != '\0' && !str_eq(before, now))
		log_ctx(LOG_WARNING, &(struct log_ctx){.plugin = entry->id, .op = "plugin"},
			"%s was '%s', now it is '%s': what the server knows of it changes", what, before,
			now);
}

static const char *allocation_of(const struct plugin_entry *entry)
{
	const struct instance *newest = entry->registry.n > 0 ? entry->registry.slots[0].instance : NULL;

	return newest ? newest->alloc_id : entry->facts.allocation_id;
}

bool entry_update(struct plugin_entry *entry, const char *otherwise)
{
	const struct instance *node = entry_current(entry, PLUGIN_NODE);
	const struct instance *controller = entry_current(entry, PLUGIN_CONTROLLER);
	const struct facts_halves halves = {
		.node = node ? instance_facts(node) : NULL,
		.controller = controller ? instance_facts(controller) : NULL,
		.keeps_node = keeps(entry, PLUGIN_NODE),
		.keeps_controller = keeps(entry, PLUGIN_CONTROLLER),
		.reason = entry_reason(entry, otherwise),
	};
	struct node_plugin merged;
	bool is_change;

	facts_merge(&entry->facts, &halves, &merged);
	memset(merged.plugin_id, 0, sizeof(merged.plugin_id));
	memcpy(merged.plugin_id, entry->id, sizeof(merged.plugin_id));
	if (!node && !controller)
		(void)str_copy(merged.allocation_id, sizeof(merged.allocation_id), allocation_of(entry));
	note_server(entry, PLUGIN_NODE, node);
	note_server(entry, PLUGIN_CONTROLLER, controller);
	is_change = !facts_eq(&merged, &entry->facts);
	entry->is_behind = is_change && !rate_take(&entry->change_rate, clock_monotonic_us());
	if (entry->is_behind)
		return false;
	entry->has_facts = entry->has_facts || node || controller;
	if (!is_change)
		return false;
	log_other(entry, "the plugin's name", entry->facts.provider, merged.provider);
	log_other(entry, "the node id that the plugin gives", entry->facts.node.provider_node_id,
		  merged.node.provider_node_id);
	entry->facts = merged;
	return true;
}

static const char *const half_names[] = {
	[PLUGIN_CONTROLLER] = "controller",
	[PLUGIN_NODE] = "node",
};

enum status entry_client(const struct plugin_entry *entry, enum plugin_half half, const char *otherwise,
			 struct service_client **ret, struct error *err)
{
	struct instance *instance = entry_current(entry, half);

	if (instance) {
		*ret = instance->base.client;
		return STATUS_OK;
	}
	if (entry->has_facts && !has_half(&entry->facts, half))
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "plugin %s reports that it has no %s service on this node; see: holdfast "
				 "agent status",
				 entry->id, half_names[half]);
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "plugin %s is not healthy on this node: %s; see: holdfast agent status", entry->id,
			 entry_reason(entry, otherwise));
}

void entry_disown(struct plugin_entry *entry, const char *name)
{
	for (size_t i = 0; i < entry->registry.n; i++) {
		const struct service_socket socket = entry->registry.slots[i].socket;

		if (!str_eq(socket.name, name))
			continue;
		entry_welcome(entry, name);
		if (entry->n_disowned < REGISTRY_MAX)
			entry->disowned[entry->n_disowned++] = socket;
		instance_end(registry_remove(&entry->registry, &socket));
		return;
	}
}

bool entry_is_disowned(const struct plugin_entry *entry, const struct service_socket *socket)
{
	for (size_t i = 0; i < entry->n_disowned; i++) {
		if (service_socket_eq(&entry->disowned[i], socket))
			return true;
	}
	return false;
}

void entry_trim_disowned(struct plugin_entry *entry, const struct service_socket *sockets, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < entry->n_disowned; i++) {
		bool stands = false;

		for (size_t k = 0; k < n; k++)
			stands = stands || service_socket_eq(&entry->disowned[i], &sockets[k]);
		if (stands)
			entry->disowned[kept++] = entry->disowned[i];
	}
	entry->n_disowned = kept;
}

void entry_welcome(struct plugin_entry *entry, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < entry->n_disowned; i++) {
		if (!str_eq(entry->disowned[i].name, name))
			entry->disowned[kept++] = entry->disowned[i];
	}
	entry->n_disowned = kept;
}

void entry_forget(struct plugin_entry *entry)
{
	assert(entry->registry.n == 0);
	entry->has_facts = entry->is_stored = false;
	entry->facts = (struct node_plugin){0};
	memcpy(entry->facts.plugin_id, entry->id, sizeof(entry->id));
	memset(entry->served_by, 0, sizeof(entry->served_by));
}

void entry_free(struct plugin_entry *entry)
{
	if (!entry)
		return;
	for (size_t i = 0; i < entry->registry.n; i++)
		instance_free(entry->registry.slots[i].instance);
	free(entry);
}
