/* SPDX-License-Identifier: Apache-2.0 */
#include "state/keys.h"
#include "state/state_internal.h"

#include <assert.h>
#include <holdfast/v1/types.pb-c.h>

void state_init(struct state *state)
{
	*state = (struct state){0};
	RB_INIT(&state->volumes);
	RB_INIT(&state->allocs);
	RB_INIT(&state->claims);
	RB_INIT(&state->nodes);
	RB_INIT(&state->plugins);
	RB_INIT(&state->records);
	token_index_init(&state->tokens);
	LIST_INIT(&state->unreported);
	LIST_INIT(&state->recalled);
	TAILQ_INIT(&state->absent);
}

void state_release(struct state *state)
{
	struct claim_entry *claim;
	struct volume_entry *volume;
	struct alloc_entry *alloc;
	struct node_entry *node;

	while ((claim = RB_ROOT(&state->claims)))
		state_delete_claim(state, claim);
	while ((volume = RB_ROOT(&state->volumes)))
		state_delete_volume(state, volume);
	while ((alloc = RB_ROOT(&state->allocs)))
		state_delete_alloc(state, alloc);
	while ((node = RB_ROOT(&state->nodes)))
		state_delete_node(state, node);
	assert(RB_EMPTY(&state->plugins)); /* nobody names one any more */
	state_release_records(state);
	token_index_release(&state->tokens);
}

enum status state_no_memory(struct error *err, const char *what)
{
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory for a %s", what);
}

uint64_t state_generation_floor(struct state *state)
{
	const Holdfast__V1__GenerationFloor *floor = state_record(state, KEY_GENERATION_FLOOR);

	return floor ? floor->generation : 0;
}

uint64_t state_epoch(struct state *state)
{
	const Holdfast__V1__Epoch *epoch = state_record(state, KEY_EPOCH);

	return epoch ? epoch->number : 0;
}
