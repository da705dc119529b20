/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The store contract: an ordered key space with revisions and compare-and-set transactions; what etcd v3
 * offers, and what the sqlite backend gives on one machine.
 *
 * Writes are submitted from the event loop and answered from it once they are durable: everything submitted
 * while the last commit was on its way to the disk goes into the next commit (group commit), and so does,
 * where the disk is slow, everything that one turn of the loop submits. Transactions take effect in the order
 * in which they were submitted. After a failed commit the store is broken: every later transaction fails,
 * because state in memory may be ahead of the disk; the owner should end and start again from the store.
 * Each kind of store is a row of kv_backend.h: kv_open_sqlite(), and kv_open_etcd() of etcd/etcd.h.
 *
 * Keys: printable ASCII, 1 to KV_KEY_MAX bytes, ordered bytewise. Values: 1 byte to KV_VALUE_MAX. */

#include "base/error.h"
#include "store/mark.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	KV_KEY_MAX = 512,
	KV_VALUE_MAX = 1 << 20,
	KV_TXN_OPS_MAX = 127,	     /* etcd takes 128, one of them is its backend's own */
	KV_TXN_CONDITIONS_MAX = 126, /* likewise, two */
	/* Keys with their NUL and values of one transaction: what is left of etcd's 1.5 MiB for a request. */
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
	const char *text; /* the value for people who look into the database, as JSON; NULL: none */
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

/** From the event loop, in order of submission. @revision of the transaction when @err is NULL; else @err
 * says why: STATUS_ABORTED when a condition did not hold (nothing was written), STATUS_RESOURCE_EXHAUSTED for
 * a full disk, STATUS_INTERNAL or STATUS_DATA_LOSS for a store that is broken from here on. */
typedef void kv_done_fn(uint64_t revision, const struct error *err, void *userdata);

/** Return false to stop. @item is borrowed for the duration of the call. */
typedef bool kv_each_fn(const struct kv_item *item, void *userdata);

/* What people see of one sort of key with the sqlite3 shell: a view with a row per key and a column per
 * member of the text, before them the key without its prefix, after them create_index and modify_index. */
enum kv_column_kind {
	KV_COLUMN_WORD,	  /* as it stands in the text */
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

/* Where is said how far the store has come, and of what store and epoch; see mark.h. */
struct kv_marks {
	const char *paths[KV_MARKS_MAX]; /* the first one lies beside the store; NULL: none */
	const char *store_id;		 /* "": it has none */
	uint64_t epoch;
	uint64_t nodes; /* that the store knows of; goes on with kv_note_nodes() */
};

/* What the marks say of the store as it was opened. */
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
	uint64_t read;	/* records that were read, in all */
	int mark_errno; /* why a mark could not be written last, 0 if all could */
};

/** Open or create a sqlite database (WAL, synchronous=FULL, one writer thread). One store at a time, kept so
 * by a lock on @path-lock; others may read: sqlite3 -readonly @path. A reader sees one state for as long as
 * its transaction lasts, and holds up the log's reuse, not the store.
 *
 * @event borrowed, must outlive the store
 * @path  a file; created with mode 0600
 * Errors name the file: STATUS_FAILED_PRECONDITION when another process holds it, STATUS_DATA_LOSS when it is
 * not a database, is damaged (integrity_check) or has a newer schema, else as the system call failed. */
enum status kv_open_sqlite(sd_event *event, const char *path, struct kv **ret, struct error *err);

/** What the loop does by itself, when it has ended: wait for up to @timeout_ms and run done functions of what
 * was submitted. */
void kv_wait(struct kv *kv, int timeout_ms);

/** Waits for what was submitted; its done functions do not run any more. NULL is allowed, and so is a call
 * from inside a done function. */
void kv_close(struct kv *kv);

/** Submit a transaction; keys and values are copied. @done may be NULL; it never runs inside this call.
 *
 * Operations apply in their order. A transaction that changes nothing (no operation, or only deletions of
 * keys that do not exist) succeeds with the revision of the last one. STATUS_INVALID_ARGUMENT for what breaks
 * the limits above, STATUS_RESOURCE_EXHAUSTED when too much is pending or memory is short; then nothing was
 * submitted. */
enum status kv_submit(struct kv *kv, const struct kv_txn *txn, kv_done_fn *done, void *userdata,
		      struct error *err);

/** Run @done, which may be NULL, once everything submitted so far is durable, also what is relaxed; from the
 * event loop, also when nothing is pending. What is submitted later is answered later, and fails if this
 * does. */
enum status kv_barrier(struct kv *kv, kv_done_fn *done, void *userdata, struct error *err);

/** Every committed key that begins with @prefix, in order. For start-up: it blocks. */
enum status kv_range(struct kv *kv, const char *prefix, kv_each_fn *each, void *userdata, struct error *err);

/** At most @limit of the committed keys that begin with @prefix and are not below @from, in order: a slice,
 * for reading while the server runs. It is of the moment in which it began, waits for no commit, and none
 * waits for it; a range inside @each is of the same moment. */
enum status kv_range_from(struct kv *kv, const char *prefix, const char *from, size_t limit, kv_each_fn *each,
			  void *userdata, struct error *err);

/** Revision of the last committed transaction. */
uint64_t kv_revision(const struct kv *kv);

struct kv_stats kv_stats(const struct kv *kv);

/* --- rewriting --- */

struct kv_rewrite;

/** What it returns decides whether what it wrote stays. */
typedef enum status kv_rewrite_fn(struct kv_rewrite *rewrite, void *userdata, struct error *err);

/** Run @fn in one transaction of any size: all of it becomes durable or nothing. For start-up, when nothing
 * is pending: it blocks. In sqlite every put is a revision of its own. After a failure @kv can only be
 * closed. */
enum status kv_rewrite(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err);

/** kv_range() that sees what was put so far and, unlike it, allows puts while it reads. */
enum status kv_rewrite_range(struct kv_rewrite *rewrite, const char *prefix, kv_each_fn *each, void *userdata,
			     struct error *err);

/** Let the next operation be a revision above @revision, if it would not be. */
void kv_rewrite_advance(struct kv_rewrite *rewrite, uint64_t revision);

/** One operation. */
enum status kv_rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err);

/* --- marks and views --- */

/** Make the database's views these, and no others; does nothing when they are, and where there is no
 * database. It blocks: for start-up. */
enum status kv_define_views(struct kv *kv, const struct kv_view *views, size_t n, struct error *err);

/** Has the store, since it was last in use, lost what may have been acknowledged? It is behind when a mark is
 * of a later epoch, of a later revision in the same one, or of another store that is not of an earlier epoch;
 * and, in sqlite, when it was kept with a mark and none can be read: another server's store in etcd has none
 * here. A store of a later epoch than the marks was put in
 * the place by a restore. @marks is what the store says of itself. For start-up, before kv_keep_marks(). A
 * mark that is there and cannot be read for another reason than what is in it is an error. */
enum status kv_history(struct kv *kv, const struct kv_marks *marks, struct kv_history *ret,
		       struct error *err);

/** From here on each commit stands in @marks before anybody is answered; as far as the disk when the store is
 * closed and, in sqlite, within a second. A mark that cannot be written then fails nothing and is told by
 * kv_stats(). They are made, or brought to the last revision, at once. For start-up: it blocks. */
enum status kv_keep_marks(struct kv *kv, const struct kv_marks *marks, struct error *err);

/** From the next commit on the marks say that the store knows of @nodes: to be said before what makes it so
 * is submitted, so that they never say less than is acknowledged. */
void kv_note_nodes(struct kv *kv, uint64_t nodes);

/* --- what only a store in sqlite has; the others are not given to these functions --- */

/** Keep every store off the database at @path, which need not exist, while its files are exchanged.
 * @ret_fd owned by the caller; closing it lets go. STATUS_FAILED_PRECONDITION when a store is open on it. */
enum status kv_lock_sqlite(const char *path, int *ret_fd, struct error *err);

/** Copy the database at @from, which may be in use, into the new file @to (mode 0600), durably and as of one
 * moment. Blocks for as long as that takes and is meant for a thread of its own; holds up no writer.
 * @ret_revision of that moment. What was copied of @to is removed on failure. */
enum status kv_copy_sqlite(const char *from, const char *to, uint64_t *ret_revision, struct error *err);

/** Is every record of the copy at @path, which nobody has open, what was written? STATUS_DATA_LOSS names the
 * first that is not. Blocks likewise. */
enum status kv_check_copy(const char *path, struct error *err);

/* A copy that nobody has open: the file at @path, or (@image) what such a file has in it, and @path is for
 * messages. */
struct kv_copy {
	const char *path;
	const void *image;
	size_t len;
};

/** kv_check_copy() that hands every record to @each, in the order of their keys; one that returns false ends
 * it early. Nothing is written. @ret_revision of the copy. STATUS_DATA_LOSS also for what is no store. */
enum status kv_walk_copy(const struct kv_copy *copy, kv_each_fn *each, void *userdata, uint64_t *ret_revision,
			 struct error *err);
