/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The state that outlives one helper process within a boot, for all instances of one agent's block: for each
 * volume the newest generation seen and the staged source, and counts, so that no request has to walk the
 * mount table. Publishes are not here: a lost table would lack them, and the publish tree and the mount table
 * have them (trees.h). A mapped file; every function but state_open() is called with lock_table() held.
 *
 * Written so that SIGKILL between any two stores leaves a valid table: a slot counts only while its `valid`
 * is set, and that is stored last. A count is raised before the mount is attached and lowered after it is
 * gone: a death in between leaves it too high, never too low. Contents of another boot are void: its mounts
 * are gone and its tickets name another boot id. */

#include "policy.h"

#include "base/rate.h"
#include "privileged/chain_log.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	STATE_MAGIC = 0x53484d48, /* "HMHS" */
	STATE_VERSION = 8,
	STATE_SLOTS = 4096, /* a power of two: slots are found by hash, and never become unused again */
};

enum state_stage {
	STATE_UNSTAGED,
	STATE_STAGING, /* counted; what exists there is not known: PUBLISH is refused, STAGE repairs it */
	STATE_STAGED,  /* profile and digest name its source */
};

struct state_slot {
	uint32_t valid;
	uint32_t stage; /* enum state_stage */
	uint64_t generation;
	uint64_t not_after_ms; /* of the newest ticket; afterwards an unstaged slot may be reused */
	uint64_t tmpfs_bytes;  /* counted for this volume */
	char volume[MH_LABEL_SIZE];
	char plugin[MH_LABEL_SIZE]; /* the folder that it is in: a profile of class csi; native: empty */
	char profile[MH_LABEL_SIZE];
	uint8_t source_digest[TICKET_DIGEST_SIZE]; /* csi: since it is counted, for both of its uses */
};

/* Budgets of all instances together, those that have ended included: a new one begins with the remainder. */
enum state_rate {
	RATE_STARTS,
	RATE_OPS,	/* requests that change something */
	RATE_RECORDED,	/* refusals that get a record of their own, */
	RATE_TOLERATED, /* and all: one more ends the helper */
	RATE_LISTS,	/* pages of LIST */
	STATE_RATE_N,
};

enum {
	REFUSALS_RECORDED = 20,	  /* within 10 s */
	REFUSALS_TOLERATED = 199, /* the same */
	REFUSALS_PERIOD = 10,
	LISTS_PER_SECOND = 200,
	LISTS_AT_ONCE = 4096, /* an agent that starts reads each mount, eight on a page */
};

struct state_header {
	uint32_t magic; /* written last */
	uint32_t version;
	uint32_t slots;
	uint32_t slot_size;
	char boot_id[MH_UUID_SIZE];
	uint32_t staged;		/* slots that are not STATE_UNSTAGED */
	uint32_t published;		/* existing publishes, or more: only a census lowers it */
	uint64_t tmpfs_bytes;		/* sum over the slots */
	struct rate rate[STATE_RATE_N]; /* by enum state_rate */
	struct chain_log_head trail;	/* stored under the lock of the log, not of the table */
};

struct state_table {
	struct state_header header;
	struct state_slot slot[STATE_SLOTS];
};

/** Keeps the table if it is of this format and boot, else begins a new one; recomputes the sums of the header
 * from the slots, which a death may have left behind. */
void state_open(struct state_table *table, const char *boot_id);

/** Makes the rates those of @limits; used budget stays used. */
void state_set_rates(struct state_table *table, const struct agent_policy *limits);

/** Admits a ticket of @generation for @volume and remembers it.
 * Returns 0; -ESTALE when a newer one has been seen; -ENOSPC when every slot is taken. */
int state_admit(struct state_table *table, const char *volume, uint64_t generation, uint64_t not_after_ms,
		int64_t now_ms);

/** Call it before the mount is made: counts @volume in the folder of @plugin, as one of the source @digest if
 * it is not counted yet, and forgets the source that was staged under its name. Without @limits it counts
 * beyond the limits of the policy, too. A volume that is counted has state_is_at() this folder. Returns 0,
 * -EMFILE for max_staged, -EDQUOT for max_tmpfs_total, -ENOSPC when every slot is taken. */
int state_begin_stage(struct state_table *table, const char *volume, const char *plugin, uint64_t tmpfs_bytes,
		      const uint8_t digest[static TICKET_DIGEST_SIZE], const struct agent_policy *limits,
		      int64_t now_ms);

/** Can the volume of @slot be in the folder of @plugin? No if it is counted in another one: a volume is at
 * one place, and its count is for that one. */
bool state_is_at(const struct state_slot *slot, const char *plugin);

/** Call it when the mount exists: remembers its source. @volume has been through state_begin_stage(). */
void state_set_staged(struct state_table *table, const char *volume, const char *profile,
		      const uint8_t digest[static TICKET_DIGEST_SIZE]);

/** The mount is gone, or did not come about; the generation stays. */
void state_clear_staged(struct state_table *table, const char *volume);

/** The slot of @volume, or NULL. */
const struct state_slot *state_find(const struct state_table *table, const char *volume);

/* Locks between the instances of one agent's block: byte ranges of the state file. No other program can open
 * that file: a shared lock of a reader would stop all instances. The locks belong to the open file, so the
 * kernel drops them with the process. Order: volume, allocation, table, and the log's last. */

/* The byte of the trail's lock, which is chain_log.h's. */
#define LOCK_TRAIL (INT64_C(1) << 39)

/** Takes one of HELPER_INSTANCES places until this process ends. Returns its number, or -EAGAIN. */
int lock_instance(int fd);

/** Locks @volume until lock_release(); -EAGAIN when another instance works on it. */
int lock_volume(int fd, const char *volume);

/** Takes one of PLUGIN_INSTANCES places in the folder of @plugin ("/": in the paths of all host volumes,
 * which may have one server), and one of PLUGINS_INSTANCES, until lock_release(); -EAGAIN when all are taken:
 * a mount there may hold a process for ever, and the other places are for other volumes. */
int lock_plugin(int fd, const char *plugin);

/** Waits for the lock of @alloc's directory, held only while one publish is made or removed. */
int lock_alloc(int fd, const char *alloc);

/** Waits for the lock of the state table. Never held while a file system is asked: its server may not answer.
 */
int lock_table(int fd);

/** Gives the table's lock back before lock_release() does. */
void unlock_table(int fd);

/** Releases every lock but the instance's. */
void lock_release(int fd);
