/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

_Static_assert((STATE_SLOTS & (STATE_SLOTS - 1)) == 0, "slots are found by masking a hash");
_Static_assert(sizeof(struct state_slot) == 256, "no padding");
_Static_assert(sizeof(struct state_header) == 272, "no padding");

/* Orders stores as the next process sees them. The kernel keeps the mapped pages of a killed process, so it
 * is the compiler that must not move a store across this line. */
#define BARRIER() atomic_signal_fence(memory_order_seq_cst)

void state_open(struct state_table *table, const char *boot_id)
{
	struct state_header begin = {.magic = STATE_MAGIC,
				     .version = STATE_VERSION,
				     .slots = STATE_SLOTS,
				     .slot_size = sizeof(struct state_slot),
				     .published = UINT32_MAX}; /* not known: the first PUBLISH looks */

	(void)str_copy(begin.boot_id, sizeof(begin.boot_id), boot_id);
	if (memcmp(&table->header, &begin, offsetof(struct state_header, staged)) != 0) {
		table->header.magic = 0;
		BARRIER();
		memset(table->slot, 0, sizeof(table->slot));
		begin.magic = 0;
		table->header = begin;
		BARRIER();
		table->header.magic = STATE_MAGIC;
	}
	table->header.staged = 0;
	table->header.tmpfs_bytes = 0;
	for (size_t i = 0; i < STATE_SLOTS; i++) {
		table->header.staged += table->slot[i].stage != STATE_UNSTAGED;
		table->header.tmpfs_bytes += table->slot[i].tmpfs_bytes;
	}
}

/* @n within @us, all of them at once if need be. */
static void set_rate(struct rate *rate, uint64_t us, uint32_t n)
{
	rate->cost_us = us / n;
	rate->most_us = rate->cost_us * n;
}

void state_set_rates(struct state_table *table, const struct agent_policy *limits)
{
	struct rate *rate = table->header.rate;

	assert(limits->starts_per_minute > 0 && limits->ops_per_second > 0 && limits->burst > 0);
	set_rate(&rate[RATE_STARTS], 60 * USEC_PER_SEC, limits->starts_per_minute);
	set_rate(&rate[RATE_OPS], USEC_PER_SEC * limits->burst / limits->ops_per_second, limits->burst);
	set_rate(&rate[RATE_RECORDED], REFUSALS_PERIOD * USEC_PER_SEC, REFUSALS_RECORDED);
	set_rate(&rate[RATE_TOLERATED], REFUSALS_PERIOD * USEC_PER_SEC, REFUSALS_TOLERATED);
	set_rate(&rate[RATE_LISTS], USEC_PER_SEC * LISTS_AT_ONCE / LISTS_PER_SECOND, LISTS_AT_ONCE);
}

static bool is_reusable(const struct state_slot *slot, int64_t now_ms)
{
	return slot->volume[0] == '\0' ||
	       (slot->stage == STATE_UNSTAGED && slot->not_after_ms < (uint64_t)now_ms);
}

/* Takes the slot for @volume. The first byte of the name comes last: a slot with an empty name is free, and
 * `valid` stays, because the search for other volumes continues past it. */
static struct state_slot *occupy(struct state_slot *slot, const char *volume)
{
	char name[MH_LABEL_SIZE] = "";

	(void)str_copy(name, sizeof(name), volume);
	slot->volume[0] = '\0';
	BARRIER();
	slot->generation = 0;
	slot->not_after_ms = 0;
	memset(slot->plugin, 0, sizeof(slot->plugin));
	memcpy(slot->volume + 1, name + 1, sizeof(name) - 1);
	BARRIER();
	slot->volume[0] = name[0];
	BARRIER();
	slot->valid = 1;
	return slot;
}

/* The slot of @volume; else, with @now_ms, the first one on its way that is free then, taken for it; or NULL.
 */
static struct state_slot *state_slot_of(struct state_table *table, const char *volume, const int64_t *now_ms)
{
	uint64_t first = str_hash(0, volume);
	struct state_slot *unused = NULL;

	for (uint64_t i = 0; i < STATE_SLOTS; i++) {
		struct state_slot *slot = &table->slot[(first + i) & (STATE_SLOTS - 1)];

		if (slot->valid && str_eq(slot->volume, volume))
			return slot;
		if (now_ms && !unused && (!slot->valid || is_reusable(slot, *now_ms)))
			unused = slot;
		if (!slot->valid)
			break;
	}
	return unused ? occupy(unused, volume) : NULL;
}

int state_admit(struct state_table *table, const char *volume, uint64_t generation, uint64_t not_after_ms,
		int64_t now_ms)
{
	assert(volume[0] != '\0');

	struct state_slot *slot = state_slot_of(table, volume, &now_ms);

	if (!slot)
		return -ENOSPC;
	if (generation < slot->generation)
		return -ESTALE;
	/* in this order: the slot may live too long, never too short */
	if (not_after_ms > slot->not_after_ms)
		slot->not_after_ms = not_after_ms;
	BARRIER();
	slot->generation = generation;
	return 0;
}

/* A sum is raised before its slot and lowered after it: too high after a death, until the next state_open().
 */
static void set_stage(struct state_table *table, struct state_slot *slot, enum state_stage stage,
		      uint64_t tmpfs_bytes)
{
	bool was_counted = slot->stage != STATE_UNSTAGED;
	uint64_t old_bytes = slot->tmpfs_bytes;

	table->header.staged += stage != STATE_UNSTAGED;
	table->header.tmpfs_bytes += tmpfs_bytes;
	BARRIER();
	slot->tmpfs_bytes = tmpfs_bytes;
	slot->stage = (uint32_t)stage;
	BARRIER();
	table->header.staged -= was_counted;
	table->header.tmpfs_bytes -= old_bytes;
}

bool state_is_at(const struct state_slot *slot, const char *plugin)
{
	return slot->stage == STATE_UNSTAGED || str_eq(slot->plugin, plugin);
}

int state_begin_stage(struct state_table *table, const char *volume, const char *plugin, uint64_t tmpfs_bytes,
		      const uint8_t digest[static TICKET_DIGEST_SIZE], const struct agent_policy *limits,
		      int64_t now_ms)
{
	assert(volume[0] != '\0');

	struct state_slot *slot = state_slot_of(table, volume, &now_ms);
	uint64_t others;

	if (!slot)
		return -ENOSPC;
	others = table->header.tmpfs_bytes - slot->tmpfs_bytes;
	if (limits && slot->stage == STATE_UNSTAGED && table->header.staged >= limits->max_staged)
		return -EMFILE;
	if (limits && tmpfs_bytes > 0 &&
	    (others > limits->max_tmpfs_total || tmpfs_bytes > limits->max_tmpfs_total - others))
		return -EDQUOT;
	assert(state_is_at(slot, plugin));
	if (slot->stage == STATE_UNSTAGED) {
		memset(slot->plugin, 0, sizeof(slot->plugin));
		(void)str_copy(slot->plugin, sizeof(slot->plugin), plugin);
		memcpy(slot->source_digest, digest, TICKET_DIGEST_SIZE);
		BARRIER();
	}
	set_stage(table, slot, STATE_STAGING, tmpfs_bytes);
	return 0;
}

void state_set_staged(struct state_table *table, const char *volume, const char *profile,
		      const uint8_t digest[static TICKET_DIGEST_SIZE])
{
	struct state_slot *slot = state_slot_of(table, volume, NULL);

	if (!slot)
		return;
	set_stage(table, slot, STATE_STAGING, slot->tmpfs_bytes);
	memcpy(slot->source_digest, digest, TICKET_DIGEST_SIZE);
	memset(slot->profile, 0, sizeof(slot->profile));
	(void)str_copy(slot->profile, sizeof(slot->profile), profile);
	BARRIER();
	slot->stage = STATE_STAGED;
}

void state_clear_staged(struct state_table *table, const char *volume)
{
	struct state_slot *slot = state_slot_of(table, volume, NULL);

	if (slot)
		set_stage(table, slot, STATE_UNSTAGED, 0);
}

const struct state_slot *state_find(const struct state_table *table, const char *volume)
{
	return state_slot_of((struct state_table *)(uintptr_t)table, volume, NULL); /* nothing is written */
}
