/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The types of a store's calls, and its limits; see kv.h.
 *
 * Keys: printable ASCII, 1 to KV_KEY_MAX bytes, ordered bytewise. Values: 1 byte to KV_VALUE_MAX. */

#include "base/error.h"
#include "store/mark.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KV_KEY_MAX = 512,
	KV_VALUE_MAX = 1 << 20,
	KV_TXN_OPS_MAX = 127,	     /* etcd takes 128, one of them is its backend's own */
	KV_TXN_CONDITIONS_MAX = 125, /* likewise, three */
	/* Keys with their NUL and values of one transaction: the room that etcd's 1.5 MiB for a request
	   leaves. */
	KV_TXN_BYTES_MAX = 11 << 17,
	KV_TEXT_MAX = 1 << 20,		 /* of all values of one transaction */
	KV_PENDING_MAX = 1 << 16,	 /* submissions that are not answered yet */
	KV_PENDING_BYTES_MAX = 64 << 20, /* memory they hold */
	KV_MARKS_MAX = 2,
	KV_HISTORY_WHY_SIZE = 256,
};

struct kv;

struct kv_condition {
	const char *key;
	uint64_t mod_revision; /* of the last change of the key; 0: must not exist */
};

struct kv_op {
	const char *key;
	const void *value; /* NULL: delete */
	size_t len;
	const char *text; /* the value for people who look into the database, as JSON; NULL: no text */
};

struct kv_txn {
	const struct kv_condition *conditions;
	size_t n_conditions;
	const struct kv_op *ops;
	size_t n_ops;
	/* Answered once the kernel has it: a death of the process loses nothing of it, one of the machine at
	 * most the last second's. For what ends with the machine's boot anyway. */
	bool is_relaxed;
};

struct kv_item {
	const char *key;
	const void *value;
	size_t len;
	uint64_t create_revision;
	uint64_t mod_revision;
};

struct kv_rewrite;

/** From the event loop, in order of submission. @revision of the transaction when @err is NULL; else @err
 * has the cause: STATUS_ABORTED when a condition did not hold (nothing was written),
 * STATUS_RESOURCE_EXHAUSTED for a full disk, STATUS_INTERNAL or STATUS_DATA_LOSS for a store that is broken
 * from here on. */
typedef void kv_done_fn(uint64_t revision, const struct error *err, void *userdata);

/** Return false to stop. @item is borrowed for the duration of the call. */
typedef bool kv_each_fn(const struct kv_item *item, void *userdata);

/* A view of one sort of key for the sqlite3 shell: a row per key and a column per member of the text; the key
 * without its prefix comes first, create_index and modify_index come last. */
enum kv_column_kind {
	KV_COLUMN_WORD,	  /* as it is in the text */
	KV_COLUMN_NUMBER, /* absent: 0 */
	KV_COLUMN_FLAG,	  /* "yes" or "no" */
	KV_COLUMN_TIME,	  /* ms since 1970; shown as 2026-01-31T12:00:00.000Z, absent and 0 as NULL */
};

struct kv_column {
	const char *name;
	const char *path; /* in the text, of letters, digits and . _ [ ]: "source.by_id" */
	enum kv_column_kind kind;
	const char *absent; /* KV_COLUMN_WORD: shown when it is not in the text; NULL: NULL */
	const char *beside; /* member of the text under this prefix and the same rest of the key; NULL: own */
};

struct kv_view {
	const char *name;
	const char *prefix;
	const struct kv_column *columns;
	size_t n_columns;
};

/* The files that record how far the store has come, its id and its epoch; see mark.h. */
struct kv_marks {
	const char *paths[KV_MARKS_MAX]; /* the first one is in the folder of the store; NULL: unused */
	const char *store_id;		 /* "": no id */
	uint64_t epoch;
	uint64_t nodes; /* that the store knows of; continues with kv_note_nodes() */
};

/* The store as it was opened, compared with its marks. */
struct kv_history {
	bool is_behind;
	uint64_t epoch;	   /* the highest that they know, with its revision; 0: they know nothing */
	uint64_t revision; /* likewise */
	uint64_t nodes;	   /* likewise */
	char store_id[MARK_STORE_ID_SIZE]; /* likewise */
	char why[KV_HISTORY_WHY_SIZE];	   /* it is behind, for people */
};

struct kv_stats {
	uint64_t commits;
	uint64_t transactions;
	uint64_t largest_batch;
	uint64_t pending;
	uint64_t pending_us; /* how long the oldest one waits; 0: nothing is pending */
	bool is_full;	     /* pending transactions wait for room: etcd's alarm NOSPACE */
	uint64_t read;	     /* records that were read, in all */
	int mark_errno;	     /* why a mark could not be written last, 0 if all could */
};

/** STATUS_OK keeps its changes; any other result discards them. */
typedef enum status kv_rewrite_fn(struct kv_rewrite *rewrite, void *userdata, struct error *err);
