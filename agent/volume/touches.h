/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Of which volumes a plugin may hold something: those that it was ever called to stage or publish, until they
 * are unstaged. What no plugin was called for is undone without one. */

#include "base/tree.h"
#include "model/volume.h"
#include "volume/plugin_process.h"

#include <stdbool.h>

/* Whose is the block device that a volume's file system is on? */
enum volume_device {
	VOLUME_DEVICE_UNJUDGED,
	VOLUME_DEVICE_OURS,  /* the volume's alone */
	VOLUME_DEVICE_HOSTS, /* a file system that the host has mounted for itself */
};

/* A call of which nobody knows what became of it, until nothing can be left of it. */
struct lost_call {
	bool is_open;
	bool is_from_before; /* this run of the agent: only who names the volume's folder is known */
	struct plugin_process plugin;
	uint64_t from, to;   /* when children of it began, as of plugin_process_now(); to 0: now */
	uint64_t since_us;   /* monotonic */
	uint64_t changed_us; /* when the number of mounts below the volume's folder last did */
	size_t n_mounts;
};

struct volume_touch {
	RB_ENTRY(volume_touch) entry;
	char wire_volume[WIRE_VOLUME_SIZE];
	enum volume_device device;
	struct lost_call lost;
	bool is_staged; /* the plugin has said so, and was not asked to unstage it since */
};

RB_HEAD(volume_touch_tree, volume_touch);

struct volume_touches {
	struct volume_touch_tree tree;
	bool are_all; /* one could not be noted: every volume may be among them */
};

void volume_touches_init(struct volume_touches *touches);
void volume_touches_release(struct volume_touches *touches);

void volume_touches_add(struct volume_touches *touches, const char *wire_volume);
void volume_touches_remove(struct volume_touches *touches, const char *wire_volume);
/** VOLUME_DEVICE_UNJUDGED for a volume that is not among them. */
enum volume_device volume_touches_device(const struct volume_touches *touches, const char *wire_volume);

/** Adds the volume. The first judgement stands, unless a later one is that the device is ours. */
void volume_touches_judge(struct volume_touches *touches, const char *wire_volume, enum volume_device device);

/** Adds no volume. */
void volume_touches_note_staged(struct volume_touches *touches, const char *wire_volume, bool is_staged);
bool volume_touches_is_staged(const struct volume_touches *touches, const char *wire_volume);
bool volume_touches_has(const struct volume_touches *touches, const char *wire_volume);
/** NULL: it is not among them. Borrowed until it is removed. */
struct lost_call *volume_touches_lost(const struct volume_touches *touches, const char *wire_volume);
