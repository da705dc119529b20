/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between kv_sqlite.c, which writes, and kv_sqlite_read.c. */

#include "base/cleanup.h"
#include "store/kv_sqlite.h"
#include "store/sqlite_error.h"

static inline void finalizep(sqlite3_stmt **statement)
{
	(void)sqlite3_finalize(*statement);
}

#define cleanup_statement cleanup(finalizep)

static inline enum status fail(struct kv_sqlite *db, int rc, const char *doing, struct error *err)
{
	return sqlite_error(rc, db->sys_errno, db->path, doing, err);
}

static inline int bind_key(sqlite3_stmt *statement, int index, const char *key)
{
	return sqlite3_bind_text(statement, index, key, -1, SQLITE_STATIC);
}

static inline int bind_revision(sqlite3_stmt *statement, int index, uint64_t revision)
{
	return sqlite3_bind_int64(statement, index, (sqlite3_int64)revision);
}

static inline enum status kv_sqlite_damaged(const struct kv_sqlite *db, const char *what, struct error *err)
{
	return error_set(
		err, STATUS_DATA_LOSS, 0,
		"store %s: damaged: %s; keep a copy and restore a backup (holdfast-server --restore FILE)",
		db->path, what);
}

/** What is stored beside the record: over its key, its revisions and its value. */
uint64_t kv_sqlite_sum(const struct kv_item *item);

/** sqlite3_step() that keeps the errno behind a failure in @db: sqlite3_system_errno() does not know that of
 * a COMMIT. */
int kv_sqlite_step(struct kv_sqlite *db, sqlite3_stmt *statement);
