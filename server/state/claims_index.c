/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "state/state_internal.h"

#include <stdlib.h>
#include <string.h>

static int compare_claims(const struct claim_entry *a, const struct claim_entry *b)
{
	return strcmp(a->id, b->id);
}

TREE_GENERATE(claim_tree, claim_entry, by_id, compare_claims)

struct claim_entry *state_claim(struct state *state, const char *id)
{
	struct claim_entry *found = state->last_claim;
	struct claim_entry key;

	if (found && str_eq(found->id, id))
		return found;
	key.id = id;
	found = RB_FIND(claim_tree, &state->claims, &key);
	if (found)
		state->last_claim = found;
	return found;
}

struct claim_entry *state_claim_from(struct state *state, const char *id)
{
	struct claim_entry key;

	key.id = id;
	return RB_NFIND(claim_tree, &state->claims, &key);
}

struct claim_entry *state_claim_next(struct claim_entry *entry)
{
	return RB_NEXT(claim_tree, NULL, entry);
}

static void count_claim(struct state *state, const struct claim *claim, int change)
{
	state->n_claims_by[claim->state] += (size_t)change;
	if (claim_is_live(claim) && claim->attempts >= CLAIM_FAILING_ATTEMPTS)
		state->n_claims_failing += (size_t)change;
}

static void count_live(struct state *state, struct claim_entry *entry, bool was_live, bool is_live)
{
	if (was_live == is_live)
		return;
	if (is_live) {
		entry->volume->n_live++;
		entry->node->n_live++;
		state->n_claims++;
	} else {
		entry->volume->n_live--;
		entry->node->n_live--;
		state->n_claims--;
	}
}

static void count_was_freed(struct state *state, struct volume_entry *volume, const struct claim *claim,
			    int change)
{
	bool was_held_twice = volume->n_was_freed > 0;

	if (!claim->was_freed || !claim_is_live(claim))
		return;
	volume->n_was_freed += (size_t)change;
	state->n_volumes_held_twice += (size_t)(volume->n_was_freed > 0) - (size_t)was_held_twice;
}

void state_count_release(struct state *state, struct claim_entry *entry, const struct alloc *alloc)
{
	const struct claim *claim = &entry->claim;
	bool is_told = alloc && alloc->desired_status == DESIRED_STOP;
	bool is_releasing = claim_is_live(claim) && (is_told || claim->state >= CLAIM_UNPUBLISHING);
	bool is_failing = is_releasing && claim->state <= CLAIM_UNPUBLISHING && claim->attempts > 0;

	state->n_releasing += (size_t)is_releasing - (size_t)entry->is_releasing;
	state->n_node_failing += (size_t)is_failing - (size_t)entry->is_node_failing;
	entry->is_releasing = is_releasing;
	entry->is_node_failing = is_failing;
}

static enum status insert_claim(struct state *state, const struct claim *claim, struct error *err)
{
	struct volume_entry *volume = state_volume(state, claim->namespace, claim->volume_id);
	struct alloc_entry *alloc = state_alloc(state, claim->allocation_id);
	struct node_entry *node;
	struct claim_entry *entry;

	if (!volume)
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "claim %s is of volume %s/%s, which does not exist", claim->id,
				 claim->namespace, claim->volume_id);
	node = node_or_new(state, claim->node_id);
	entry = node ? calloc(1, sizeof(*entry)) : NULL;
	if (!entry)
		return state_no_memory(err, "claim");
	entry->claim = *claim;
	entry->id = entry->claim.id;
	entry->server = state->server;
	entry->volume = volume;
	entry->node = node;
	RB_INSERT(claim_tree, &state->claims, entry);
	state->last_claim = entry;
	LIST_INSERT_HEAD(&volume->claims, entry, of_volume);
	LIST_INSERT_HEAD(&node->claims, entry, of_node);
	if (alloc) /* an allocation may be collected before its claim is; the claim does not need it */
		LIST_INSERT_HEAD(&alloc->claims, entry, of_alloc);
	volume_raise_generation(&volume->volume, claim->generation);
	count_live(state, entry, false, claim_is_live(claim));
	count_claim(state, claim, 1);
	count_was_freed(state, volume, claim, 1);
	state_count_release(state, entry, alloc ? &alloc->alloc : NULL);
	return STATUS_OK;
}

enum status state_put_claim(struct state *state, const struct claim *claim, struct error *err)
{
	struct claim_entry *entry = state_claim(state, claim->id);
	struct alloc_entry *alloc;

	if (!entry)
		return insert_claim(state, claim, err);
	count_live(state, entry, claim_is_live(&entry->claim), claim_is_live(claim));
	count_claim(state, &entry->claim, -1);
	count_claim(state, claim, 1);
	count_was_freed(state, entry->volume, &entry->claim, -1);
	count_was_freed(state, entry->volume, claim, 1);
	entry->claim = *claim;
	alloc = state_alloc(state, claim->allocation_id);
	state_count_release(state, entry, alloc ? &alloc->alloc : NULL);
	return STATUS_OK;
}

void state_list_recalled(struct state *state, struct claim_entry *entry)
{
	if (entry->is_recalled)
		return;
	entry->is_recalled = true;
	LIST_INSERT_HEAD(&state->recalled, entry, of_recalled);
}

void state_unlist_recalled(struct claim_entry *entry)
{
	if (!entry->is_recalled)
		return;
	entry->is_recalled = false;
	LIST_REMOVE(entry, of_recalled);
}

void state_delete_claim(struct state *state, struct claim_entry *entry)
{
	struct node_entry *node = entry->node;

	count_live(state, entry, claim_is_live(&entry->claim), false);
	count_claim(state, &entry->claim, -1);
	count_was_freed(state, entry->volume, &entry->claim, -1);
	state->n_releasing -= entry->is_releasing;
	state->n_node_failing -= entry->is_node_failing;
	if (state->last_claim == entry)
		state->last_claim = NULL;
	RB_REMOVE(claim_tree, &state->claims, entry);
	LIST_REMOVE(entry, of_volume);
	LIST_REMOVE(entry, of_node);
	if (entry->of_alloc.le_prev) /* its allocation was known when it was inserted */
		LIST_REMOVE(entry, of_alloc);
	(void)sd_event_source_disable_unref(entry->work.timer);
	ticket_ahead_free(entry->work.ticket);
	if (entry->work.is_stuck)
		LIST_REMOVE(entry, work.stuck);
	state_unlist_recalled(entry);
	free(entry);
	node_drop_unnamed(state, node);
}
