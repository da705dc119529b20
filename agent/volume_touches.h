#pragma once
/* Of which volumes a plugin may hold something: those that it was ever called to stage or publish, until they
 * are unstaged. What no plugin was called for is undone without one. */

#include "base/tree.h"
#include "model/volume.h"

#include <stdbool.h>

struct volume_touch {
	RB_ENTRY(volume_touch) entry;
	char wire_volume[WIRE_VOLUME_SIZE];
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
bool volume_touches_has(const struct volume_touches *touches, const char *wire_volume);
