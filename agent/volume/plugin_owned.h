/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The volumes in which a plugin may own something: from its first call to stage or publish, until they are
 * unstaged. A volume without such a call is undone without a plugin. */

#include "base/tree.h"
#include "model/volume.h"
#include "volume/plugin_process.h"

#include <stdbool.h>

/* Whose is the block device that a volume's file system is on? */
enum volume_device {
	VOLUME_DEVICE_UNCLASSIFIED,
	VOLUME_DEVICE_OURS,  /* only the volume's */
	VOLUME_DEVICE_HOSTS, /* a file system that the host has mounted for itself */
};

/* A call with unknown result, until nothing can be left of it. */
struct lost_call {
	bool is_open;
	bool is_from_before; /* this run of the agent: only who names the volume's folder is known */
	struct plugin_process plugin;
	uint64_t from, to;   /* when children of it began, as of plugin_process_now(); to 0: now */
	uint64_t since_us;   /* monotonic */
	uint64_t changed_us; /* when the number of mounts below the volume's folder last did */
	size_t n_mounts;
};

struct plugin_owned {
	RB_ENTRY(plugin_owned) entry;
	char wire_volume[WIRE_VOLUME_SIZE];
	enum volume_device device;
	struct lost_call lost;
	bool is_staged; /* the plugin confirmed it, and was not asked to unstage it since */
};

RB_HEAD(plugin_owned_tree, plugin_owned);

struct plugin_owned_set {
	struct plugin_owned_tree tree;
	bool are_all; /* one could not be noted: every volume may be among them */
};

void plugin_owned_init(struct plugin_owned_set *owned);
void plugin_owned_clear(struct plugin_owned_set *owned);

void plugin_owned_add(struct plugin_owned_set *owned, const char *wire_volume);
void plugin_owned_remove(struct plugin_owned_set *owned, const char *wire_volume);
/** VOLUME_DEVICE_UNCLASSIFIED for a volume that is not among them. */
enum volume_device plugin_owned_device(const struct plugin_owned_set *owned, const char *wire_volume);

/** Adds the volume. The first classification stays, unless a later one is that the device is ours. */
void plugin_owned_classify(struct plugin_owned_set *owned, const char *wire_volume,
			   enum volume_device device);

/** Adds no volume. */
void plugin_owned_mark_staged(struct plugin_owned_set *owned, const char *wire_volume, bool is_staged);
bool plugin_owned_is_staged(const struct plugin_owned_set *owned, const char *wire_volume);
bool plugin_owned_has(const struct plugin_owned_set *owned, const char *wire_volume);
/** NULL: it is not among them. Borrowed until it is removed. */
struct lost_call *plugin_owned_lost(const struct plugin_owned_set *owned, const char *wire_volume);
