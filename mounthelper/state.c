#include "state.h"

#include "base/str.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

_Static_assert((STATE_SLOTS & (STATE_SLOTS - 1)) == 0, "slots are found by masking a hash");
_Static_assert(sizeof(struct state_slot) == 200, "no padding");
_Static_assert(sizeof(struct state_header) == 152, "no padding");

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

static void begin_new(struct state_table *table, const char *boot_id)
{
	table->header.magic = 0;
	BARRIER();
	memset(table->slot, 0, sizeof(table->slot));
	memset(&table->header, 0, sizeof(table->header));
	table->header.version = STATE_VERSION;
	table->header.slots = STATE_SLOTS;
	table->header.slot_size = sizeof(struct state_slot);
	(void)str_copy(table->header.boot_id, sizeof(table->header.boot_id), boot_id);
	BARRIER();
	table->header.magic = STATE_MAGIC;
}

void state_open(struct state_table *table, const char *boot_id)
{
	struct state_header *header = &table->header;

	if (!is_current(header, boot_id))
		begin_new(table, boot_id);
	header->staged = 0;
	header->published = 0;
	header->tmpfs_bytes = 0;
	for (size_t i = 0; i < STATE_SLOTS; i++) {
		header->staged += table->slot[i].stage != STATE_UNSTAGED;
		header->published += table->slot[i].published;
		header->tmpfs_bytes += table->slot[i].tmpfs_bytes;
	}
}

bool state_admit_start(struct state_table *table, uint32_t per_minute, uint64_t now_us)
{
	const uint64_t minute_us = UINT64_C(60) * 1000 * 1000;
	uint64_t cost_us = minute_us / per_minute;
	uint64_t paid_us = table->header.starts_us > now_us ? table->header.starts_us : now_us;

	if (paid_us + cost_us - now_us > minute_us)
		return false;
	table->header.starts_us = paid_us + cost_us;
	return true;
}

/* FNV-1a: only spreads; the search is bounded by the table whatever the names are. */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261U;

	for (; *s != '\0'; s++)
		h = (h ^ (uint8_t)*s) * 16777619U;
	return h;
}

static bool is_reusable(const struct state_slot *slot, int64_t now_ms)
{
	return slot->volume[0] == '\0' || (slot->stage == STATE_UNSTAGED && slot->published == 0 &&
					   now_ms >= 0 && slot->not_after_ms < (uint64_t)now_ms);
}

/* The slot of @volume, or NULL; @ret_free is where it could be put, or NULL. */
static struct state_slot *search(struct state_table *table, const char *volume, int64_t now_ms,
				 struct state_slot **ret_free)
{
	uint32_t first = hash(volume);

	*ret_free = NULL;
	for (uint32_t i = 0; i < STATE_SLOTS; i++) {
		struct state_slot *slot = &table->slot[(first + i) & (STATE_SLOTS - 1)];

		if (slot->valid && str_eq(slot->volume, volume))
			return slot;
		if (!*ret_free && (!slot->valid || is_reusable(slot, now_ms)))
			*ret_free = slot;
		if (!slot->valid)
			return NULL;
	}
	return NULL;
}

static struct state_slot *find(struct state_table *table, const char *volume)
{
	struct state_slot *unused;

	return search(table, volume, -1, &unused);
}

/* The first byte of the name comes last: a slot whose name is empty is nobody's, and `valid` stays, because
 * the search for other volumes goes on past it. */
static struct state_slot *find_or_add(struct state_table *table, const char *volume, int64_t now_ms)
{
	struct state_slot *unused;
	struct state_slot *slot = search(table, volume, now_ms, &unused);
	char name[MH_LABEL_SIZE] = "";

	if (slot || !unused)
		return slot;
	slot = unused;
	(void)str_copy(name, sizeof(name), volume);
	slot->volume[0] = '\0';
	BARRIER();
	slot->generation = 0;
	slot->not_after_ms = 0;
	memcpy(slot->volume + 1, name + 1, sizeof(name) - 1);
	BARRIER();
	slot->volume[0] = name[0];
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

static void count_stage(struct state_table *table, struct state_slot *slot, uint64_t tmpfs_bytes)
{
	table->header.staged += slot->stage == STATE_UNSTAGED;
	table->header.tmpfs_bytes += tmpfs_bytes - slot->tmpfs_bytes;
	slot->tmpfs_bytes = tmpfs_bytes;
	slot->stage = STATE_STAGING;
	BARRIER();
}

int state_begin_stage(struct state_table *table, const char *volume, uint64_t tmpfs_bytes,
		      const struct state_limits *limits, int64_t now_ms)
{
	struct state_slot *slot = find_or_add(table, volume, now_ms);
	uint64_t others;

	if (!slot)
		return -ENOSPC;
	others = table->header.tmpfs_bytes - slot->tmpfs_bytes;
	if (slot->stage == STATE_UNSTAGED && table->header.staged >= limits->max_staged)
		return -EMFILE;
	if (tmpfs_bytes > 0 &&
	    (others > limits->max_tmpfs_total || tmpfs_bytes > limits->max_tmpfs_total - others))
		return -EDQUOT;
	count_stage(table, slot, tmpfs_bytes);
	return 0;
}

void state_set_staged(struct state_table *table, const char *volume, const char *profile,
		      const uint8_t digest[static TICKET_DIGEST_SIZE])
{
	struct state_slot *slot = find(table, volume);

	if (!slot)
		return;
	slot->stage = STATE_STAGING;
	BARRIER();
	memcpy(slot->source_digest, digest, TICKET_DIGEST_SIZE);
	memset(slot->profile, 0, sizeof(slot->profile));
	(void)str_copy(slot->profile, sizeof(slot->profile), profile);
	BARRIER();
	slot->stage = STATE_STAGED;
}

void state_clear_staged(struct state_table *table, const char *volume)
{
	struct state_slot *slot = find(table, volume);

	if (!slot || slot->stage == STATE_UNSTAGED)
		return;
	table->header.staged--;
	table->header.tmpfs_bytes -= slot->tmpfs_bytes;
	slot->tmpfs_bytes = 0;
	slot->stage = STATE_UNSTAGED;
}

const struct state_slot *state_find(const struct state_table *table, const char *volume)
{
	return find((struct state_table *)(uintptr_t)table, volume); /* nothing is written */
}

int state_begin_publish(struct state_table *table, const char *volume, uint32_t max)
{
	struct state_slot *slot = find(table, volume);

	if (!slot)
		return -ENOENT;
	if (table->header.published >= max)
		return -EMFILE;
	slot->published++;
	table->header.published++;
	BARRIER();
	return 0;
}

void state_end_publish(struct state_table *table, const char *volume)
{
	struct state_slot *slot = find(table, volume);

	if (!slot || slot->published == 0)
		return;
	slot->published--;
	table->header.published--;
}

void state_set_published(struct state_table *table, const char *volume, uint32_t published)
{
	struct state_slot *slot = find(table, volume);

	if (!slot)
		return;
	table->header.published += published - slot->published;
	slot->published = published;
}
