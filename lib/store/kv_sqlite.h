/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The sqlite database below the store: schema, statements, transactions. SQL lives in kv_sqlite*.c only.
 *
 * Two threads. The writer uses its connection between kv_sqlite_begin() and kv_sqlite_commit() or
 * _rollback(); other users of that connection wait for the lock that the writer holds meanwhile. Ranges have
 * a connection of their own: they see the last commit, and neither wait for the commit in flight nor delay
 * it. */

#include "store/kv.h"
#include "store/kv_marks.h"
#include "store/submission.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
	KV_SQLITE_APPLICATION_ID = 0x486f6c64, /* "Hold" */
	KV_SQLITE_SCHEMA = 1,
	KV_SQLITE_CHECKPOINT_PAGES = 4000, /* in the log, when it is folded into the file */
	KV_SQLITE_LOG_BYTES = 17 << 20,	   /* that many pages and their heads, and a last batch's */
	KV_SQLITE_LOG_ROOM = 16 * KV_SQLITE_LOG_BYTES, /* free on the disk, or it is not made longer */
	KV_SQLITE_SYNC_US = 1000000,		       /* limit for relaxed commits to reach the disk */
};

enum kv_sqlite_query {
	QUERY_BEGIN,
	QUERY_COMMIT,
	QUERY_ROLLBACK,
	QUERY_MOD_REVISION,
	QUERY_PUT,
	QUERY_DELETE,
	QUERY_SAVE_POSITION,
	QUERY_N,
};

struct kv_sqlite {
	char *path;
	int lock_fd; /* of the lock file next to the database, which keeps other stores away */
	sqlite3 *db;
	sqlite3 *reader; /* of kv_sqlite_range(); used only by the thread of the event loop */
	uint64_t n_read; /* rows that it was given; likewise */
	sqlite3_stmt *statements[QUERY_N];
	/* Recursive, because the callback of a read may read. Held from begin to commit or rollback. Not for
	 * the reader. */
	pthread_mutex_t lock;
	int sys_errno;		     /* behind the last step */
	uint64_t revision;	     /* of the last transaction, inside the open batch too */
	uint64_t committed_revision; /* on disk */
	uint64_t opened_revision;    /* as it was found */
	bool is_new;		     /* created by this process */
	/* of the thread that writes */
	struct kv_mark_files marks;
	atomic_uint_least64_t nodes; /* for the next mark */
	bool is_relaxed;	     /* a commit does not wait for the disk */
	uint64_t log_dirty_us;	     /* monotonic, since when the log may not be on the disk; 0: it is */
};

/** Open or create; see kv_open_sqlite(). */
enum status kv_sqlite_open(const char *path, struct kv_sqlite **ret, struct error *err);

/** NULL is allowed. */
void kv_sqlite_close(struct kv_sqlite *db);

/** Nothing that a file brings along is run on this connection, and no other file can be attached. Returns
 * SQLITE_OK or an error code. */
int kv_sqlite_harden(sqlite3 *db);

/** Let statements of this connection use record_sum(key, value, create revision, mod revision). Returns
 * SQLITE_OK or an error code. */
int kv_sqlite_add_sum(sqlite3 *db);

/** STATUS_DATA_LOSS when there is anything in the file but the tables and views of Holdfast. */
enum status kv_sqlite_check_schema(sqlite3 *db, const char *path, struct error *err);

/** Is the file whole, and each record in the tree of keys? */
enum status kv_sqlite_check_whole(sqlite3 *db, const char *path, struct error *err);

/** See kv_define_views(). */
enum status kv_sqlite_define_views(struct kv_sqlite *db, const struct kv_view *views, size_t n,
				   struct error *err);

/** Prepare the statements and read the position; the last step of opening. */
enum status kv_sqlite_prepare(struct kv_sqlite *db, struct error *err);

/** Let the commits from here on wait for the disk, or not; not inside a batch. */
enum status kv_sqlite_relax(struct kv_sqlite *db, bool is_relaxed, struct error *err);

/** Start a batch; followed by exactly one kv_sqlite_commit() or kv_sqlite_rollback() if it succeeds. */
enum status kv_sqlite_begin(struct kv_sqlite *db, struct error *err);

/** One transaction of the batch.
 *
 * @ret_revision its revision, or the last one when it changed nothing
 * @ret_conflict filled for STATUS_ABORTED only. Then the batch is unchanged and @err is untouched. After
 * any other error the batch must be rolled back. */
enum status kv_sqlite_apply(struct kv_sqlite *db, const struct kv_txn *txn, uint64_t *ret_revision,
			    struct kv_conflict *ret_conflict, struct error *err);

/** Make the batch durable, with earlier relaxed commits; a relaxed batch is only handed to the kernel. A
 * failure rolls it back. */
enum status kv_sqlite_commit(struct kv_sqlite *db, struct error *err);

void kv_sqlite_rollback(struct kv_sqlite *db);

/** Give the log the size that it will reach anyway, so that commits need not make it longer: that costs the
 * file system a transaction of its own each time. From the thread that writes, not inside a batch. On
 * failure only speed is lost. */
void kv_sqlite_extend_log(struct kv_sqlite *db);

/** Sync relaxed commits that have waited for a second. @ret_due_us when to call again, by the monotonic
 * clock; 0: after the next commit. From the thread that writes, outside of a batch. */
enum status kv_sqlite_sync_log(struct kv_sqlite *db, uint64_t *ret_due_us, struct error *err);

/** Leave the files as they are from here on: no checkpoint at close after a failed commit. */
void kv_sqlite_freeze(struct kv_sqlite *db);

/** See kv_range_from(); @prefix and @from are checked. */
enum status kv_sqlite_range(struct kv_sqlite *db, const char *prefix, const char *from, size_t limit,
			    kv_each_fn *each, void *userdata, struct error *err);

/** kv_sqlite_range() that seeks again after every item, so that @each may write. */
enum status kv_sqlite_range_writing(struct kv_sqlite *db, const char *prefix, kv_each_fn *each,
				    void *userdata, struct error *err);
