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
 * Each kind of store is a row of kv_backend.h: kv_open_sqlite(), and kv_open_etcd() of etcd/etcd.h. */

#include "base/error.h"
#include "store/kv_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

/** Open or create a sqlite database (WAL, synchronous=FULL, one writer thread). One store at a time, kept so
 * by a lock on @path-lock; others may read: sqlite3 -readonly @path. A reader sees one state for as long as
 * its transaction lasts, and holds up the log's reuse, not the store.
 *
 * @event borrowed, must outlive the store
 * @path  a file; created with mode 0600
 * Errors name the file: STATUS_FAILED_PRECONDITION when another process holds it, STATUS_DATA_LOSS when it is
 * not a database, is damaged (integrity_check) or has a newer schema, else as the system call failed. */
enum status kv_open_sqlite(sd_event *event, const char *path, struct kv **ret, struct error *err);

/** Waits for up to @timeout_ms and runs done functions of submissions, as the event loop does. For use after
 * the loop has ended. */
void kv_wait(struct kv *kv, int timeout_ms);

/** Waits for pending submissions; their done functions will not run. NULL is allowed, and so is a call from
 * inside a done function. */
void kv_close(struct kv *kv);

/** Submit a transaction; keys and values are copied. @done may be NULL; it never runs inside this call.
 *
 * Operations apply in their order. A transaction that changes nothing (no operation, or only deletions of
 * keys that do not exist) succeeds with the revision of the last one. STATUS_INVALID_ARGUMENT for what breaks
 * the limits above, STATUS_RESOURCE_EXHAUSTED when too much is pending or memory is short; then nothing was
 * submitted. */
enum status kv_submit(struct kv *kv, const struct kv_txn *txn, kv_done_fn *done, void *userdata,
		      struct error *err);

/** Runs @done, which may be NULL, once all earlier submissions are durable, relaxed ones included; from the
 * event loop, also when nothing is pending. Later submissions are answered later, and fail if this fails. */
enum status kv_barrier(struct kv *kv, kv_done_fn *done, void *userdata, struct error *err);

/** Every committed key that begins with @prefix, in order. It blocks. */
enum status kv_range(struct kv *kv, const char *prefix, kv_each_fn *each, void *userdata, struct error *err);

/** At most @limit of the committed keys that begin with @prefix and are not below @from, in order: a slice,
 * for reading while the server runs. It has the state of the moment in which it began. It waits for
 * no commit, and no commit waits for it; a range inside @each has the same state. */
enum status kv_range_from(struct kv *kv, const char *prefix, const char *from, size_t limit, kv_each_fn *each,
			  void *userdata, struct error *err);

/** Bounds every later read: STATUS_UNAVAILABLE when the store does not answer at once. For the end of
 * start-up: from then on others wait while the event loop reads. */
void kv_bound_reads(struct kv *kv);

/** Revision of the last committed transaction. */
uint64_t kv_revision(const struct kv *kv);

struct kv_stats kv_stats(const struct kv *kv);

/** Memory of the submissions that are not durable, at most KV_PENDING_BYTES_MAX. */
size_t kv_pending_bytes(const struct kv *kv);

/* --- rewriting --- */

/** Run @fn in one transaction of any size: all of it becomes durable or nothing. For start-up, when nothing
 * is pending: it blocks. In sqlite every put is a revision of its own. After a failure @kv can only be
 * closed. */
enum status kv_rewrite(struct kv *kv, kv_rewrite_fn *fn, void *userdata, struct error *err);

/** kv_range() that sees earlier puts of the rewrite and allows puts while it reads. */
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

/** Has the store, since its last use, lost changes that may have been acknowledged?
 *
 * It is behind if a mark has a later epoch, a later revision of the same epoch, or another store whose epoch
 * is not earlier. A store in sqlite is also behind if it was kept with a mark and no mark is readable; a
 * store in etcd of another server has no mark here. If the store's epoch is later than that of the marks, it
 * was restored. @marks has the store's own values. For start-up, before kv_keep_marks(). A mark that exists
 * but cannot be read, for another reason than its contents, is an error. */
enum status kv_history(struct kv *kv, const struct kv_marks *marks, struct kv_history *ret,
		       struct error *err);

/** From here on each commit is written to @marks before it is answered. The marks are on the disk when the
 * store is closed and, in sqlite, within a second. If a mark cannot be written, no commit fails; kv_stats()
 * reports it. This call makes the marks, or brings them to the last revision. For start-up: it blocks. */
enum status kv_keep_marks(struct kv *kv, const struct kv_marks *marks, struct error *err);

/** Sets the number of nodes in the marks from the next commit on. Call it before the submission that changes
 * the number, so the marks never have less than is acknowledged. */
void kv_note_nodes(struct kv *kv, uint64_t nodes);

/* --- only for a store in sqlite --- */

/** Keep every store off the database at @path, which need not exist, while its files are exchanged.
 * @ret_fd owned by the caller; closing it releases the lock. STATUS_FAILED_PRECONDITION when a store is open
 * on it. */
enum status kv_lock_sqlite(const char *path, int *ret_fd, struct error *err);

/** Copy the database at @from, which may be in use, into the new file @to (mode 0600), durably and as of one
 * moment. Blocks for as long as that takes and is meant for a thread of its own; holds up no writer.
 * @ret_revision of that moment. An unfinished @to is removed on failure. */
enum status kv_copy_sqlite(const char *from, const char *to, uint64_t *ret_revision, struct error *err);

/** Turn the database at @path, which is open nowhere, into a single file without a log, as kv_copy_sqlite()
 * makes it: only such a file can be read from memory. Durable. */
enum status kv_seal_copy(const char *path, struct error *err);

/** Are all records of the copy at @path intact? It must not be open elsewhere. STATUS_DATA_LOSS names the
 * first damaged one. Blocks likewise. */
enum status kv_check_copy(const char *path, struct error *err);

/* A copy that is not open elsewhere: the file at @path, or (@image) the contents of such a file; then @path
 * is only for messages. */
struct kv_copy {
	const char *path;
	const void *image;
	size_t len;
	bool is_checked; /* by an earlier walk: its tree of keys is intact */
};

/** kv_check_copy() that hands every record to @each, in the order of their keys; one that returns false ends
 * it early. Nothing is written. @ret_revision of the copy. STATUS_DATA_LOSS also if it is not a store. */
enum status kv_walk_copy(const struct kv_copy *copy, kv_each_fn *each, void *userdata, uint64_t *ret_revision,
			 struct error *err);
