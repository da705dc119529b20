#include "state.h"

#include "base/str.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

/* Orders stores as the next process sees them. The kernel keeps the mapped pages of a killed process, so it
 * is the compiler that must not move a store across this line. */
#define BARRIER() atomic_signal_fence(memory_order_seq_cst)

static bool is_current(const struct state_header *header, const char *boot_id)
{
	return header->magic == STATE_MAGIC && header->version == STATE_VERSION &&
	       header->slots == STATE_SLOTS && header->slot_size == sizeof(struct state_slot) &&
	       strnlen(header->boot_id, sizeof(header->boot_id)) < sizeof(header->boot_id) &&
	       str_eq(header->boot_id, boot_id);
}

void state_open(struct state_table *table, const char *boot_id)
{
	if (is_current(&table->header, boot_id))
		return;
	table->header.magic = 0;
	BARRIER();
	memset(table->slot, 0, sizeof(table->slot));
	table->header.version = STATE_VERSION;
	table->header.slots = STATE_SLOTS;
	table->header.slot_size = sizeof(struct state_slot);
	memset(table->header.boot_id, 0, sizeof(table->header.boot_id));
	(void)str_copy(table->header.boot_id, sizeof(table->header.boot_id), boot_id);
	BARRIER();
	table->header.magic = STATE_MAGIC;
}

static struct state_slot *find(struct state_table *table, const char *volume)
{
	for (size_t i = 0; i < STATE_SLOTS; i++)
		if (table->slot[i].valid && str_eq(table->slot[i].volume, volume))
			return &table->slot[i];
	return NULL;
}

/* A slot that was never used, else the one whose tickets expired longest ago. A volume that is staged keeps
 * its slot before one that is not, because its source would be forgotten. */
static struct state_slot *find_reusable(struct state_table *table, int64_t now_ms)
{
	struct state_slot *best = NULL;

	for (size_t i = 0; i < STATE_SLOTS; i++) {
		struct state_slot *slot = &table->slot[i];

		if (!slot->valid)
			return slot;
		if (now_ms < 0 || slot->not_after_ms >= (uint64_t)now_ms)
			continue;
		if (!best || slot->staged < best->staged ||
		    (slot->staged == best->staged && slot->not_after_ms < best->not_after_ms))
			best = slot;
	}
	return best;
}

static struct state_slot *find_or_add(struct state_table *table, const char *volume, int64_t now_ms)
{
	struct state_slot *slot = find(table, volume);

	if (slot)
		return slot;
	slot = find_reusable(table, now_ms);
	if (!slot)
		return NULL;
	slot->valid = 0;
	BARRIER();
	slot->staged = 0;
	slot->generation = 0;
	slot->not_after_ms = 0;
	memset(slot->volume, 0, sizeof(slot->volume));
	(void)str_copy(slot->volume, sizeof(slot->volume), volume);
	BARRIER();
	slot->valid = 1;
	return slot;
}

int state_admit(struct state_table *table, const char *volume, uint64_t generation, uint64_t not_after_ms,
		int64_t now_ms)
{
	struct state_slot *slot = find_or_add(table, volume, now_ms);

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

int state_set_staged(struct state_table *table, const char *volume, const char *profile,
		     const uint8_t digest[static TICKET_DIGEST_SIZE], int64_t now_ms)
{
	struct state_slot *slot = find_or_add(table, volume, now_ms);

	if (!slot)
		return -ENOSPC;
	slot->staged = 0;
	BARRIER();
	memcpy(slot->source_digest, digest, TICKET_DIGEST_SIZE);
	memset(slot->profile, 0, sizeof(slot->profile));
	(void)str_copy(slot->profile, sizeof(slot->profile), profile);
	BARRIER();
	slot->staged = 1;
	return 0;
}

void state_clear_staged(struct state_table *table, const char *volume)
{
	struct state_slot *slot = find(table, volume);

	if (slot)
		slot->staged = 0;
}

const struct state_slot *state_staged(const struct state_table *table, const char *volume)
{
	for (size_t i = 0; i < STATE_SLOTS; i++)
		if (table->slot[i].valid && table->slot[i].staged && str_eq(table->slot[i].volume, volume))
			return &table->slot[i];
	return NULL;
}
