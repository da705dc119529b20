/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plugin_owned.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

static int compare(const struct plugin_owned *a, const struct plugin_owned *b)
{
	return strcmp(a->wire_volume, b->wire_volume);
}

TREE_GENERATE(plugin_owned_tree, plugin_owned, entry, compare)

static struct plugin_owned *find(const struct plugin_owned_set *owned, const char *wire_volume)
{
	struct plugin_owned_tree root = owned->tree; /* a lookup changes nothing, the macro does not know */
	struct plugin_owned key = {0};

	(void)str_copy(key.wire_volume, sizeof(key.wire_volume), wire_volume);
	return RB_FIND(plugin_owned_tree, &root, &key);
}

void plugin_owned_init(struct plugin_owned_set *owned)
{
	RB_INIT(&owned->tree);
	owned->are_all = false;
}

void plugin_owned_add(struct plugin_owned_set *owned, const char *wire_volume)
{
	struct plugin_owned *found;

	if (find(owned, wire_volume))
		return;
	found = calloc(1, sizeof(*found));
	if (!found) {
		owned->are_all = true;
		return;
	}
	(void)str_copy(found->wire_volume, sizeof(found->wire_volume), wire_volume);
	RB_INSERT(plugin_owned_tree, &owned->tree, found);
}

void plugin_owned_remove(struct plugin_owned_set *owned, const char *wire_volume)
{
	struct plugin_owned *found = find(owned, wire_volume);

	if (!found)
		return;
	RB_REMOVE(plugin_owned_tree, &owned->tree, found);
	free(found);
}

enum volume_device plugin_owned_device(const struct plugin_owned_set *owned, const char *wire_volume)
{
	const struct plugin_owned *found = find(owned, wire_volume);

	return found ? found->device : VOLUME_DEVICE_UNCLASSIFIED;
}

void plugin_owned_classify(struct plugin_owned_set *owned, const char *wire_volume, enum volume_device device)
{
	struct plugin_owned *found;

	plugin_owned_add(owned, wire_volume);
	found = find(owned, wire_volume);
	if (found && (found->device == VOLUME_DEVICE_UNCLASSIFIED || device == VOLUME_DEVICE_OURS))
		found->device = device;
}

void plugin_owned_mark_staged(struct plugin_owned_set *owned, const char *wire_volume, bool is_staged)
{
	struct plugin_owned *found = find(owned, wire_volume);

	if (found)
		found->is_staged = is_staged;
}

bool plugin_owned_is_staged(const struct plugin_owned_set *owned, const char *wire_volume)
{
	const struct plugin_owned *found = find(owned, wire_volume);

	return found && found->is_staged;
}

bool plugin_owned_has(const struct plugin_owned_set *owned, const char *wire_volume)
{
	return owned->are_all || find(owned, wire_volume);
}

struct lost_call *plugin_owned_lost(const struct plugin_owned_set *owned, const char *wire_volume)
{
	struct plugin_owned *found = find(owned, wire_volume);

	return found ? &found->lost : NULL;
}

void plugin_owned_clear(struct plugin_owned_set *owned)
{
	struct plugin_owned *found, *next;

	RB_FOREACH_SAFE (found, plugin_owned_tree, &owned->tree, next) {
		RB_REMOVE(plugin_owned_tree, &owned->tree, found);
		free(found);
	}
}
