/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Beginning a new epoch: in a copy of a store, which is checked to the last record and is then one that a
 * server can start from; or in the server's own store, at its start, when that has lost history.
 *
 * The copy lacks grants that were made after it. So that tickets of those grants are rejected, each epoch
 * has generations of its own: (epoch << 32) + the generation of the volume's record. 2^32 grants of one
 * volume in one epoch would take a century at a grant a second, so no grant since the copy reaches the new
 * ones. */

#include "base/error.h"
#include "base/uuid.h"
#include "state/schema.h"
#include "store/kv.h"

#include <stdbool.h>
#include <stdint.h>

enum { EPOCH_LOST_TIMES_MAX = 16 };
enum { KNOWN_STORES_MAX = SCHEMA_FORMER_STORES_MAX + KV_MARKS_MAX + 2 };

/* The count of nodes of a store that is replaced: nodes that the new store does not know may hold volumes,
 * too. All 0: unknown. */
struct known_nodes {
	uint64_t n; /* registered ever, and missing */
	size_t n_stores;
	char stores[KNOWN_STORES_MAX][UUID_SIZE]; /* ids by which they know the cluster */
};

/** Take @store_id into @known, unless it is there or "". */
void known_nodes_add_store(struct known_nodes *known, const char *store_id);

struct new_epoch {
	const char *path;     /* of the copy, which is not used elsewhere */
	const char *cluster;  /* expected */
	bool other_cluster;   /* it may have been another's */
	uint64_t known_epoch; /* highest that is known anywhere; EPOCH_UNKNOWN: the last store cannot be read
			       */
	uint64_t known_index; /* likewise; indexes continue above it */
	int64_t now_ms;
	const char *restored_from; /* for people; or why the server's own store begins one */
	struct known_nodes known;  /* in addition to those of the store that is changed */
	/* of the server's own store, see history.h; all 0 and NULL: nothing of that */
	const char *former_store_id; /* by which nodes know the cluster */
	uint64_t missing_nodes;	     /* more than those that are missing already */
	bool by_unproven_mark;
	bool proves_nothing; /* tickets, so far */
};

#define EPOCH_UNKNOWN UINT64_MAX
#define EPOCH_MAX (UINT64_C(1) << 31) /* shifted it is still a generation */

/** Reads the store's epoch; 0: no epoch has begun. STATUS_DATA_LOSS: its record cannot be read. Blocks. */
enum status new_epoch_read(struct kv *kv, uint64_t *ret, struct error *err);

/** Begin above @epoch and @index, too. */
void new_epoch_raise(struct new_epoch *wanted, uint64_t epoch, uint64_t index);

/** Above every epoch that was counted in steps of one, and above itself later. */
uint64_t new_epoch_of_time(int64_t realtime_ms);
/** In which it was granted first. */
uint64_t new_epoch_of_generation(uint64_t generation);

/** The highest one that a node may name without a ticket. The other half is left for grants: a node must not
 * use up the generations of the epoch. */
uint64_t new_epoch_generation_max(uint64_t epoch);

struct new_epoch_result {
	uint64_t epoch;
	uint64_t index;		/* of the copy */
	uint32_t nodes;		/* that it knows by name */
	uint64_t missing_nodes; /* that it does not */
	char store_id[UUID_SIZE];
};

/** Blocks; for a thread of its own. On failure the copy is unusable.
 * STATUS_DATA_LOSS when it is damaged, STATUS_FAILED_PRECONDITION when it is of a newer version or of another
 * cluster. */
enum status new_epoch_begin(const struct new_epoch *wanted, struct new_epoch_result *ret, struct error *err);

/** Begin one in the server's own store, at start, before its state is loaded: the store lacks acknowledged
 * changes (@wanted->restored_from has the evidence; path and other_cluster are ignored). Then nothing is
 * granted before every node has reported. Blocks, and logs it as an error. */
enum status new_epoch_begin_here(struct kv *kv, const struct new_epoch *wanted, struct error *err);

enum { NEW_EPOCH_DECISION_MAX = 1024 };

/** The decision as its record KEY_DECISION has it, for a server that may not write to the store otherwise. */
enum status new_epoch_pack_decision(const struct new_epoch *wanted,
				    uint8_t ret[static NEW_EPOCH_DECISION_MAX], size_t *ret_n,
				    struct error *err);

/** Decide durably that the next start begins one; from then on nothing may be granted or acknowledged.
 * Blocks for one write of a small file. */
enum status new_epoch_decide(const char *data_dir, const struct new_epoch *wanted, struct error *err);

/** The same on etcd, where another server may be the next to start: in the store itself. @done when it is
 * durable. */
enum status new_epoch_decide_in(struct kv *kv, const struct new_epoch *wanted, kv_done_fn *done,
				void *userdata, struct error *err);

/** At start, as new_epoch_begin_here(): begin the one that was decided, if one was. */
enum status new_epoch_begin_decided(struct kv *kv, const char *data_dir, const char *cluster,
				    struct error *err);

/** Take into @wanted epoch, index and nodes of the store at @path, which must not be in use. On failure
 * the epoch is unchanged, and @wanted has what could be read. */
enum status new_epoch_look(const char *path, struct new_epoch *wanted, struct error *err);

/** Take into @wanted an epoch that was decided (new_epoch_decide()) and has not begun. An unreadable file is
 * ignored. */
void new_epoch_look_at_decision(const char *data_dir, struct new_epoch *wanted);

/** The decision is contained in the epoch of the store that was put in place. */
enum status new_epoch_forget_decision(const char *data_dir, struct error *err);
