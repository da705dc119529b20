/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "state/state_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int compare_allocs(const struct alloc_entry *a, const struct alloc_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(alloc_tree, alloc_entry, by_id, compare_allocs)

struct alloc_entry *state_alloc(struct state *state, const char *id)
{
	struct alloc_entry *found = state->last_alloc;
	struct alloc_entry key;

	if (found && str_eq(found->id, id))
		return found;
	key.id = id;
	found = RB_FIND(alloc_tree, &state->allocs, &key);
	if (found)
		state->last_alloc = found;
	return found;
}

struct alloc_entry *state_alloc_from(struct state *state, const char *id)
{
	struct alloc_entry key;

	key.id = id;
	return RB_NFIND(alloc_tree, &state->allocs, &key);
}

struct alloc_entry *state_alloc_next(struct alloc_entry *entry)
{
	return RB_NEXT(alloc_tree, NULL, entry);
}

static void count_alloc(struct state *state, const struct alloc *alloc, int change)
{
	state->n_allocs_by[alloc->client_status] += (size_t)change;
}

/* False when memory is short. */
static bool list_runner(struct state *state, struct alloc_entry *entry, const struct csi_plugin *runs)
{
	if (runs->type == CSI_PLUGIN_NONE)
		return true;
	entry->plugin = plugin_or_new(state, runs->id);
	if (!entry->plugin)
		return false;
	plugin_add_runner(entry->plugin, entry);
	return true;
}

/* Takes over the lists of @alloc. */
static void replace_alloc(struct state *state, struct alloc_entry *entry, const struct alloc *alloc)
{
	struct claim_entry *claim;

	assert(str_eq(entry->alloc.node_id, alloc->node_id)); /* an allocation never moves */
	assert(csi_plugin_eq(&entry->alloc.csi_plugin, &alloc->csi_plugin));
	entry->node->n_live_allocs -= !alloc_is_client_terminal(&entry->alloc);
	entry->node->n_live_allocs += !alloc_is_client_terminal(alloc);
	count_alloc(state, &entry->alloc, -1);
	count_alloc(state, alloc, 1);
	alloc_release(&entry->alloc);
	entry->alloc = *alloc;
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		state_count_release(state, claim, alloc);
	if (entry->plugin)
		plugin_runner_changed(entry->plugin);
}

/* Takes over the lists of @alloc. False when memory is short: it has taken nothing then. */
static bool insert_alloc(struct state *state, const struct alloc *alloc)
{
	struct node_entry *node = node_or_new(state, alloc->node_id);
	struct alloc_entry *entry = node ? calloc(1, sizeof(*entry)) : NULL;

	if (entry) {
		entry->alloc = *alloc;
		entry->id = entry->alloc.id;
	}
	if (!entry || !list_runner(state, entry, &alloc->csi_plugin)) {
		free(entry);
		if (node)
			node_drop_unnamed(state, node);
		return false;
	}
	entry->node = node;
	node->n_live_allocs += !alloc_is_client_terminal(alloc);
	LIST_INIT(&entry->claims);
	RB_INSERT(alloc_tree, &state->allocs, entry);
	LIST_INSERT_HEAD(&node->allocs, entry, of_node);
	state->n_allocs++;
	count_alloc(state, alloc, 1);
	return true;
}

enum status state_put_alloc(struct state *state, const struct alloc *alloc, struct error *err)
{
	struct alloc_entry *entry = state_alloc(state, alloc->id);
	struct alloc copy = *alloc; /* @alloc may share the lists of what it replaces */

	if (!alloc_own(&copy))
		return state_no_memory(err, "allocation");
	if (entry) {
		replace_alloc(state, entry, &copy);
		return STATUS_OK;
	}
	if (insert_alloc(state, &copy))
		return STATUS_OK;
	alloc_release(&copy);
	return state_no_memory(err, "allocation");
}

void state_delete_alloc(struct state *state, struct alloc_entry *entry)
{
	struct node_entry *node = state_node(state, entry->alloc.node_id);
	struct claim_entry *claim;

	while ((claim = LIST_FIRST(&entry->claims))) {
		LIST_REMOVE(claim, of_alloc);
		claim->of_alloc.le_prev = NULL; /* as of one whose allocation is not known */
		state_count_release(state, claim, NULL);
	}
	if (state->last_alloc == entry)
		state->last_alloc = NULL;
	RB_REMOVE(alloc_tree, &state->allocs, entry);
	LIST_REMOVE(entry, of_node);
	if (entry->plugin) {
		plugin_remove_runner(entry->plugin, entry);
		plugin_drop_unnamed(state, entry->plugin);
	}
	entry->node->n_live_allocs -= !alloc_is_client_terminal(&entry->alloc);
	state->n_allocs--;
	count_alloc(state, &entry->alloc, -1);
	alloc_release(&entry->alloc);
	free(entry);
	node_drop_unnamed(state, node);
}
