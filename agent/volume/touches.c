/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/touches.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

static int compare(const struct volume_touch *a, const struct volume_touch *b)
{
	return strcmp(a->wire_volume, b->wire_volume);
}

TREE_GENERATE(volume_touch_tree, volume_touch, entry, compare)

static struct volume_touch *find(const struct volume_touches *touches, const char *wire_volume)
{
	struct volume_touch_tree root = touches->tree; /* a lookup changes nothing, the macro does not know */
	struct volume_touch key = {0};

	(void)str_copy(key.wire_volume, sizeof(key.wire_volume), wire_volume);
	return RB_FIND(volume_touch_tree, &root, &key);
}

void volume_touches_init(struct volume_touches *touches)
{
	RB_INIT(&touches->tree);
	touches->are_all = false;
}

void volume_touches_add(struct volume_touches *touches, const char *wire_volume)
{
	struct volume_touch *touch;

	if (find(touches, wire_volume))
		return;
	touch = calloc(1, sizeof(*touch));
	if (!touch) {
		touches->are_all = true;
		return;
	}
	(void)str_copy(touch->wire_volume, sizeof(touch->wire_volume), wire_volume);
	RB_INSERT(volume_touch_tree, &touches->tree, touch);
}

void volume_touches_remove(struct volume_touches *touches, const char *wire_volume)
{
	struct volume_touch *touch = find(touches, wire_volume);

	if (!touch)
		return;
	RB_REMOVE(volume_touch_tree, &touches->tree, touch);
	free(touch);
}

enum volume_device volume_touches_device(const struct volume_touches *touches, const char *wire_volume)
{
	const struct volume_touch *touch = find(touches, wire_volume);

	return touch ? touch->device : VOLUME_DEVICE_UNJUDGED;
}

void volume_touches_judge(struct volume_touches *touches, const char *wire_volume, enum volume_device device)
{
	struct volume_touch *touch;

	volume_touches_add(touches, wire_volume);
	touch = find(touches, wire_volume);
	if (touch && (touch->device == VOLUME_DEVICE_UNJUDGED || device == VOLUME_DEVICE_OURS))
		touch->device = device;
}

void volume_touches_note_staged(struct volume_touches *touches, const char *wire_volume, bool is_staged)
{
	struct volume_touch *touch = find(touches, wire_volume);

	if (touch)
		touch->is_staged = is_staged;
}

bool volume_touches_is_staged(const struct volume_touches *touches, const char *wire_volume)
{
	const struct volume_touch *touch = find(touches, wire_volume);

	return touch && touch->is_staged;
}

bool volume_touches_has(const struct volume_touches *touches, const char *wire_volume)
{
	return touches->are_all || find(touches, wire_volume);
}

struct lost_call *volume_touches_lost(const struct volume_touches *touches, const char *wire_volume)
{
	struct volume_touch *touch = find(touches, wire_volume);

	return touch ? &touch->lost : NULL;
}

void volume_touches_release(struct volume_touches *touches)
{
	struct volume_touch *touch, *next;

	RB_FOREACH_SAFE (touch, volume_touch_tree, &touches->tree, next) {
		RB_REMOVE(volume_touch_tree, &touches->tree, touch);
		free(touch);
	}
}
