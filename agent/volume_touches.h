#pragma once
/* Of which volumes a plugin may hold something: those that it was ever called to stage or publish, until they
 * are unstaged. What no plugin was called for is undone without one. */

#include "base/tree.h"
#include "model/volume.h"

#include <stdbool.h>

/* Whose is the block device that a volume's file system is on? */
enum volume_device {
	VOLUME_DEVICE_UNJUDGED,
	VOLUME_DEVICE_OURS,  /* the volume's alone */
	VOLUME_DEVICE_HOSTS, /* a file system that the host has mounted for itself */
};

struct volume_touch {
	RB_ENTRY(volume_touch) entry;
	char wire_volume[WIRE_VOLUME_SIZE];
	enum volume_device device;
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
