/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One plugin id of this node: its instances, and its facts, which outlive them. */

#include "base/error.h"
#include "base/rate.h"
#include "plugins/facts.h"
#include "plugins/instance.h"
#include "plugins/plugin_info.h"
#include "service/registry.h"

#include <stdbool.h>
#include <stddef.h>

_Static_assert((int)REGISTRY_MAX == (int)PLUGIN_INSTANCES_MAX, "one limit with two names");

struct plugin_entry {
	char id[PLUGIN_ID_MAX + 1];
	struct registry registry;
	bool is_known;	/* part of the node; else only what it has disowned is remembered */
	bool has_facts; /* ever */
	struct node_plugin facts;
	bool is_stored;
	struct node_plugin stored; /* as last given to on_store */
	struct rate change_rate;
	bool is_behind; /* there are more changes than may be reported now */
	/* names of the sockets that last served each half; empty: not since the agent started */
	char served_by[2][SERVICE_SOCKET_NAME_SIZE];
	/* sockets of allocations that are over */
	struct service_socket disowned[REGISTRY_MAX];
	size_t n_disowned;
};

/** Returns the instance for calls to @half; NULL: no instance can be called. */
struct instance *entry_current(const struct plugin_entry *entry, enum plugin_half half);

/** Returns why no instance can be called, or @otherwise if no instance has a reason. */
const char *entry_reason(const struct plugin_entry *entry, const char *otherwise);

/** Updates the facts. Returns whether they changed. Above the limit of changes they stay unchanged, and
 * is_behind is set; calls still go to the instance that serves now. */
bool entry_update(struct plugin_entry *entry, const char *otherwise);

/** As plugins_client(). */
enum status entry_client(const struct plugin_entry *entry, enum plugin_half half, const char *otherwise,
			 struct service_client **ret, struct error *err);

/** Disowns a socket: it belongs to no owner from now on. */
void entry_disown(struct plugin_entry *entry, const char *name);
bool entry_is_disowned(const struct plugin_entry *entry, const struct service_socket *socket);

/** Forgets the disowned sockets that no longer exist. */
void entry_trim_disowned(struct plugin_entry *entry, const struct service_socket *sockets, size_t n);

/** Accepts any process that binds @name from now on. */
void entry_welcome(struct plugin_entry *entry, const char *name);

/** Forgets its facts. There must be no instances. */
void entry_forget(struct plugin_entry *entry);

/** No callbacks. NULL is allowed. */
void entry_free(struct plugin_entry *entry);
