/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "state/state_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare_volumes(const struct volume_entry *a, const struct volume_entry *b)
{
	int c = strcmp(a->namespace, b->namespace);

	return c != 0 ? c : strcmp(a->id, b->id);
}

TREE_GENERATE(volume_tree, volume_entry, by_key, compare_volumes)
TREE_GENERATE(plugin_volume_tree, volume_entry, of_plugin, compare_volumes)

struct volume_entry *state_volume(struct state *state, const char *namespace, const char *id)
{
	struct volume_entry *found = state->last_volume;
	struct volume_entry key;

	if (found && str_eq(found->id, id) && str_eq(found->namespace, namespace))
		return found;
	key.namespace = namespace;
	key.id = id;
	found = RB_FIND(volume_tree, &state->volumes, &key);
	if (found)
		state->last_volume = found;
	return found;
}

struct volume_entry *state_volume_from(struct state *state, const char *namespace, const char *id)
{
	struct volume_entry key;

	key.namespace = namespace;
	key.id = id;
	return RB_NFIND(volume_tree, &state->volumes, &key);
}

struct volume_entry *state_volume_next(struct volume_entry *entry)
{
	return RB_NEXT(volume_tree, NULL, entry);
}

struct volume_entry *state_plugin_volume_from(struct plugin_entry *plugin, const char *namespace,
					      const char *id)
{
	struct volume_entry key;

	key.namespace = namespace;
	key.id = id;
	return RB_NFIND(plugin_volume_tree, &plugin->volumes, &key);
}

void volume_raise_generation(struct volume *volume, uint64_t generation)
{
	if (volume->generation < generation)
		volume->generation = generation;
}

static enum status insert_volume(struct state *state, const struct volume *volume, struct error *err)
{
	struct volume_entry *entry = calloc(1, sizeof(*entry));
	struct plugin_entry *plugin = entry ? plugin_or_new(state, volume->plugin_id) : NULL;

	if (!plugin) {
		free(entry);
		return state_no_memory(err, "volume");
	}
	entry->volume = *volume;
	entry->stored_generation = volume->generation;
	entry->namespace = entry->volume.namespace;
	entry->id = entry->volume.id;
	entry->plugin = plugin;
	LIST_INIT(&entry->claims);
	RB_INSERT(plugin_volume_tree, &plugin->volumes, entry);
	plugin->n_volumes++;
	RB_INSERT(volume_tree, &state->volumes, entry);
	state->n_volumes++;
	return STATUS_OK;
}

enum status state_put_volume(struct state *state, const struct volume *volume, struct error *err)
{
	struct volume_entry *entry = state_volume(state, volume->namespace, volume->id);
	uint64_t generation;

	if (!entry)
		return insert_volume(state, volume, err);
	assert(str_eq(entry->volume.plugin_id, volume->plugin_id)); /* a volume never changes its plugin */
	generation = entry->volume.generation;
	entry->volume = *volume;
	entry->stored_generation = volume->generation;
	volume_raise_generation(&entry->volume, generation);
	return STATUS_OK;
}

void state_delete_volume(struct state *state, struct volume_entry *entry)
{
	struct claim_entry *claim;

	while ((claim = LIST_FIRST(&entry->claims)))
		state_delete_claim(state, claim);
	if (state->last_volume == entry)
		state->last_volume = NULL;
	RB_REMOVE(volume_tree, &state->volumes, entry);
	state->n_volumes--;
	RB_REMOVE(plugin_volume_tree, &entry->plugin->volumes, entry);
	entry->plugin->n_volumes--;
	plugin_drop_unnamed(state, entry->plugin);
	free(entry);
}
