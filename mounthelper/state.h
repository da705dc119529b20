#pragma once
/* What must outlive one helper process within a boot: the newest generation seen of each volume, and what was
 * staged under its name. Shared by all instances of one agent's block through a mapped file.
 *
 * Everything is written so that SIGKILL between any two stores leaves a valid table: a slot counts only while
 * its `valid` is set, and that is stored last. Contents of another boot are void: its mounts are gone and its
 * tickets name another boot id. */

#include "mounthelper_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STATE_MAGIC = 0x53484d48, /* "HMHS" */
	STATE_VERSION = 1,
	STATE_SLOTS = 4096,
};

struct state_slot {
	uint32_t valid;
	uint32_t staged; /* digest and profile are meaningful */
	uint64_t generation;
	uint64_t not_after_ms; /* of the newest ticket; afterwards the slot may be reused */
	char volume[MH_LABEL_SIZE];
	char profile[MH_LABEL_SIZE];
	uint8_t source_digest[TICKET_DIGEST_SIZE];
};

struct state_header {
	uint32_t magic; /* written last */
	uint32_t version;
	uint32_t slots;
	uint32_t slot_size;
	char boot_id[TICKET_UUID_SIZE];
	uint8_t reserved[8];
};

struct state_table {
	struct state_header header;
	struct state_slot slot[STATE_SLOTS];
};

_Static_assert(sizeof(struct state_slot) == 184, "no padding");
_Static_assert(sizeof(struct state_header) == 64, "no padding");

/** Keep the table if it is of this format and boot, else begin a new one. The caller holds the table's lock.
 */
void state_open(struct state_table *table, const char *boot_id);

/** Admit a ticket of @generation for @volume and remember it.
 * Returns 0; -ESTALE when a newer one has been seen; -ENOSPC when every slot is taken by an unexpired volume.
 */
int state_admit(struct state_table *table, const char *volume, uint64_t generation, uint64_t not_after_ms,
		int64_t now_ms);

/** Remember that @volume is staged from the source with @digest. Errors as state_admit(). */
int state_set_staged(struct state_table *table, const char *volume, const char *profile,
		     const uint8_t digest[static TICKET_DIGEST_SIZE], int64_t now_ms);

/** Forget what was staged as @volume; its generation stays. */
void state_clear_staged(struct state_table *table, const char *volume);

/** What is staged as @volume, or NULL when that is not known. */
const struct state_slot *state_staged(const struct state_table *table, const char *volume);
