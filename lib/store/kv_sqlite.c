/* SPDX-License-Identifier: Apache-2.0 */
#include "store/kv_sqlite.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "store/checksum.h"
#include "store/sqlite_error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* No real store reaches this revision; a forged one might, to make the next revision overflow. */
#define REVISION_MAX (INT64_MAX / 2)
#define UPSERT                                                                      \
	"INSERT INTO kv(key, value, create_revision, mod_revision, sum, text) "     \
	"VALUES (?1, ?2, ?3, ?3, record_sum(?1, ?2, ?3, ?3), ?4) "                  \
	"ON CONFLICT(key) DO UPDATE SET value = ?2, mod_revision = ?3, text = ?4, " \
	"sum = record_sum(?1, ?2, create_revision, ?3)"

static const char *const queries[QUERY_N] = {
	[QUERY_BEGIN] = "BEGIN IMMEDIATE",
	[QUERY_COMMIT] = "COMMIT",
	[QUERY_ROLLBACK] = "ROLLBACK",
	[QUERY_MOD_REVISION] = "SELECT mod_revision FROM kv WHERE key = ?1",
	[QUERY_PUT] = (UPSERT),
	[QUERY_DELETE] = "DELETE FROM kv WHERE key = ?1",
	[QUERY_SAVE_POSITION] = ("UPDATE position SET revision = ?1, "
				 "sum = record_sum('position', x'', ?1, ?1)"),
};

static const char query_position[] = "SELECT revision, sum = record_sum('position', x'', revision, revision) "
				     "FROM position";

/* --- helpers --- */

static void finalizep(sqlite3_stmt **statement)
{
	(void)sqlite3_finalize(*statement);
}

#define cleanup_statement cleanup(finalizep)

static enum status fail(struct kv_sqlite *db, int rc, const char *doing, struct error *err)
{
	return sqlite_error(rc, db->sys_errno, db->path, doing, err);
}

static int bind_key(sqlite3_stmt *statement, int index, const char *key)
{
	return sqlite3_bind_text(statement, index, key, -1, SQLITE_STATIC);
}

static int bind_revision(sqlite3_stmt *statement, int index, uint64_t revision)
{
	return sqlite3_bind_int64(statement, index, (sqlite3_int64)revision);
}

static enum status damaged(const struct kv_sqlite *db, const char *what, struct error *err)
{
	return error_set(
		err, STATUS_DATA_LOSS, 0,
		"store %s: damaged: %s; keep a copy and restore a backup (holdfast-server --restore FILE)",
		db->path, what);
}

/* Bindings point into the transaction, so they must not outlive the call. */
static void rewind_statement(sqlite3_stmt *statement)
{
	(void)sqlite3_reset(statement); /* repeats the error of the last step, which was looked at */
	(void)sqlite3_clear_bindings(statement);
}

/* Keeps the errno behind a failure: sqlite3_system_errno() does not know that of a COMMIT. */
static int step(struct kv_sqlite *db, sqlite3_stmt *statement)
{
	int rc;

	errno = 0;
	rc = sqlite3_step(statement);
	db->sys_errno = errno;
	return rc;
}

/* Runs a statement whose rows, if any, are ignored. Returns SQLITE_OK or an error code. */
static int run(struct kv_sqlite *db, enum kv_sqlite_query query)
{
	sqlite3_stmt *statement = db->statements[query];
	int rc = step(db, statement);

	rewind_statement(statement);
	return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* Run a statement that yields at most one number; *ret stays when there is no row. */
static int run_for_number(struct kv_sqlite *db, enum kv_sqlite_query query, uint64_t *ret)
{
	sqlite3_stmt *statement = db->statements[query];
	int rc = step(db, statement);

	if (rc == SQLITE_ROW) {
		*ret = (uint64_t)sqlite3_column_int64(statement, 0);
		rc = step(db, statement);
	}
	rewind_statement(statement);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static enum status read_position(struct kv_sqlite *db, struct error *err)
{
	cleanup_statement sqlite3_stmt *statement = NULL;
	sqlite3_int64 revision;
	int rc = sqlite3_prepare_v2(db->db, query_position, -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = step(db, statement);
	if (rc == SQLITE_DONE || rc == SQLITE_ERROR)
		return damaged(db, "its position is missing", err);
	if (rc != SQLITE_ROW)
		return fail(db, rc, "read the position", err);
	revision = sqlite3_column_int64(statement, 0);
	if (revision < 0 || revision > REVISION_MAX)
		return damaged(db, "its position is out of range", err);
	if (sqlite3_column_int(statement, 1) != 1)
		return damaged(db, "its position is not the one that was written", err);
	db->revision = (uint64_t)revision;
	db->committed_revision = (uint64_t)revision;
	db->opened_revision = (uint64_t)revision;
	return STATUS_OK;
}

enum status kv_sqlite_prepare(struct kv_sqlite *db, struct error *err)
{
	for (size_t i = 0; i < QUERY_N; i++) {
		int rc = sqlite3_prepare_v3(db->db, queries[i], -1, SQLITE_PREPARE_PERSISTENT,
					    &db->statements[i], NULL);

		if (rc == SQLITE_ERROR)
			return damaged(db, sqlite3_errmsg(db->db), err);
		if (rc != SQLITE_OK)
			return fail(db, rc, "open", err);
	}
	return read_position(db, err);
}

/* Without the wait sqlite still has the log on the disk before it folds it into the file. */
enum status kv_sqlite_relax(struct kv_sqlite *db, bool is_relaxed, struct error *err)
{
	int rc = SQLITE_OK;

	if (db->is_relaxed == is_relaxed)
		return STATUS_OK;
	(void)pthread_mutex_lock(&db->lock);
	rc = sqlite3_exec(db->db, is_relaxed ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL", NULL,
			  NULL, NULL);
	(void)pthread_mutex_unlock(&db->lock);
	if (rc != SQLITE_OK)
		return fail(db, rc, "begin", err);
	db->is_relaxed = is_relaxed;
	return STATUS_OK;
}

enum status kv_sqlite_begin(struct kv_sqlite *db, struct error *err)
{
	enum status status;
	int rc;

	(void)pthread_mutex_lock(&db->lock); /* cannot fail for a valid recursive mutex */
	rc = run(db, QUERY_BEGIN);
	if (rc == SQLITE_OK)
		return STATUS_OK;
	status = fail(db, rc, "begin", err);
	(void)pthread_mutex_unlock(&db->lock);
	return status;
}

static enum status check_conditions(struct kv_sqlite *db, const struct kv_txn *txn,
				    struct kv_conflict *ret_conflict, struct error *err)
{
	sqlite3_stmt *statement = db->statements[QUERY_MOD_REVISION];

	for (size_t i = 0; i < txn->n_conditions; i++) {
		const struct kv_condition *condition = &txn->conditions[i];
		uint64_t found = 0;
		int rc = bind_key(statement, 1, condition->key);

		if (rc == SQLITE_OK)
			rc = run_for_number(db, QUERY_MOD_REVISION, &found);
		if (rc != SQLITE_OK)
			return fail(db, rc, "check a condition", err);
		if (found != condition->mod_revision) {
			*ret_conflict = (struct kv_conflict){.condition = condition, .found_revision = found};
			return STATUS_ABORTED;
		}
	}
	return STATUS_OK;
}

static int put(struct kv_sqlite *db, const struct kv_op *op, uint64_t revision)
{
	sqlite3_stmt *statement = db->statements[QUERY_PUT];
	int rc = bind_key(statement, 1, op->key);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob64(statement, 2, op->value, op->len, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = bind_revision(statement, 3, revision);
	if (rc == SQLITE_OK && op->text)
		rc = bind_key(statement, 4, op->text);
	return rc == SQLITE_OK ? run(db, QUERY_PUT) : rc;
}

static int remove_key(struct kv_sqlite *db, const struct kv_op *op, bool *ret_existed)
{
	sqlite3_stmt *statement = db->statements[QUERY_DELETE];
	int rc = bind_key(statement, 1, op->key);

	if (rc == SQLITE_OK)
		rc = run(db, QUERY_DELETE);
	if (rc == SQLITE_OK)
		*ret_existed = sqlite3_changes(db->db) > 0;
	return rc;
}

enum status kv_sqlite_apply(struct kv_sqlite *db, const struct kv_txn *txn, uint64_t *ret_revision,
			    struct kv_conflict *ret_conflict, struct error *err)
{
	uint64_t revision = db->revision + 1;
	bool is_changed = false;
	/* All conditions are read before the first write, so an aborted transaction has nothing to undo. */
	TRY(check_conditions(db, txn, ret_conflict, err));
	for (size_t i = 0; i < txn->n_ops; i++) {
		const struct kv_op *op = &txn->ops[i];
		bool is_change = true;
		int rc = op->value ? put(db, op, revision) : remove_key(db, op, &is_change);

		if (rc != SQLITE_OK)
			return fail(db, rc, "write", err);
		is_changed = is_changed || is_change;
	}
	if (is_changed)
		db->revision = revision;
	*ret_revision = db->revision;
	return STATUS_OK;
}

static int save_position(struct kv_sqlite *db)
{
	sqlite3_stmt *statement = db->statements[QUERY_SAVE_POSITION];
	int rc;

	if (db->revision == db->committed_revision)
		return SQLITE_OK;
	rc = bind_revision(statement, 1, db->revision);
	return rc == SQLITE_OK ? run(db, QUERY_SAVE_POSITION) : rc;
}

/* Syncs the log by the descriptor with which sqlite writes it. */
static int sync_log(struct kv_sqlite *db)
{
	sqlite3_file *log = NULL;
	int rc = sqlite3_file_control(db->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);

	errno = 0;
	if (rc == SQLITE_OK && log && log->pMethods)
		rc = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
	db->sys_errno = errno;
	if (rc == SQLITE_OK)
		db->log_dirty_us = 0;
	return rc;
}

/* After a commit. One that has raised the revision, and is not relaxed, had sqlite wait for all of the log.
 */
static int settle(struct kv_sqlite *db, bool is_raised)
{
	if (db->is_relaxed) {
		if (db->log_dirty_us == 0)
			db->log_dirty_us = clock_monotonic_us();
		return SQLITE_OK;
	}
	if (is_raised)
		db->log_dirty_us = 0;
	return db->log_dirty_us != 0 ? sync_log(db) : SQLITE_OK;
}

enum status kv_sqlite_commit(struct kv_sqlite *db, struct error *err)
{
	bool is_raised = db->revision != db->committed_revision;
	int rc = save_position(db);

	if (rc == SQLITE_OK)
		rc = run(db, QUERY_COMMIT);
	if (rc == SQLITE_OK)
		rc = settle(db, is_raised);
	if (rc != SQLITE_OK) {
		enum status status = fail(db, rc, "commit", err);

		kv_sqlite_rollback(db);
		return status;
	}
	db->committed_revision = db->revision;
	kv_marks_write(&db->marks, db->committed_revision, atomic_load(&db->nodes));
	(void)pthread_mutex_unlock(&db->lock);
	return STATUS_OK;
}

enum status kv_sqlite_sync_log(struct kv_sqlite *db, uint64_t *ret_due_us, struct error *err)
{
	uint64_t due_us = db->log_dirty_us + KV_SQLITE_SYNC_US;
	int rc;

	*ret_due_us = db->log_dirty_us == 0 ? 0 : due_us;
	if (db->log_dirty_us == 0 || clock_monotonic_us() < due_us)
		return STATUS_OK;
	*ret_due_us = 0;
	(void)pthread_mutex_lock(&db->lock);
	rc = sync_log(db);
	(void)pthread_mutex_unlock(&db->lock);
	return rc == SQLITE_OK ? STATUS_OK : fail(db, rc, "bring the log to the disk", err);
}

void kv_sqlite_rollback(struct kv_sqlite *db)
{
	/* After some errors sqlite has rolled back by itself. */
	if (!sqlite3_get_autocommit(db->db))
		(void)run(db, QUERY_ROLLBACK); /* the error that led here is the one to report */
	db->revision = db->committed_revision;
	(void)pthread_mutex_unlock(&db->lock);
}

/* Writes zeroes, which are no frames: sqlite stops at them when it reads the log after a crash. */
static void write_zeroes(int fd, off_t from)
{
	static const char zeroes[1 << 16];

	while (from < KV_SQLITE_LOG_BYTES) {
		ssize_t n = pwrite(fd, zeroes, sizeof(zeroes), from);

		if (n <= 0)
			return;
		from += n;
	}
	(void)fdatasync(fd);
}

/* Is there room for the log's full size without filling the disk for other programs? */
static bool has_room(int fd)
{
	struct statvfs fs;

	return fstatvfs(fd, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= KV_SQLITE_LOG_ROOM;
}

void kv_sqlite_extend_log(struct kv_sqlite *db)
{
	char name[PATH_MAX];
	cleanup_close int fd = -EBADF;
	struct stat st;

	if (str_format(name, sizeof(name), "%s-wal", db->path) < 0)
		return;
	/* in a transaction, so that no other process appends */
	if (kv_sqlite_begin(db, NULL) != STATUS_OK)
		return;
	fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size < KV_SQLITE_LOG_BYTES && has_room(fd))
		write_zeroes(fd, st.st_size);
	kv_sqlite_rollback(db);
}

void kv_sqlite_freeze(struct kv_sqlite *db)
{
	(void)pthread_mutex_lock(&db->lock);
	(void)sqlite3_db_config(db->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	(void)pthread_mutex_unlock(&db->lock);
}

/* --- the checksum of a record: a changed record is an error, never another state --- */

enum { NUMBER_BYTES = 8 };

static uint64_t add_number(uint64_t sum, uint64_t number)
{
	uint8_t bytes[NUMBER_BYTES];

	for (size_t i = 0; i < NUMBER_BYTES; i++)
		bytes[i] = (uint8_t)(number >> (8 * i));
	return checksum_add(sum, bytes, sizeof(bytes));
}

/* The key with its NUL, which no key contains: where it ends is part of the sum. */
static uint64_t record_sum(const struct kv_item *item)
{
	uint64_t sum = checksum_add(CHECKSUM_INIT, item->key, strlen(item->key) + 1);

	sum = add_number(sum, item->create_revision);
	sum = add_number(sum, item->mod_revision);
	return checksum_add(sum, item->value, item->len);
}

static void run_sum(sqlite3_context *context, int n, sqlite3_value **values)
{
	struct kv_item item;

	item = (struct kv_item){
		.key = (const char *)sqlite3_value_text(values[0]),
		.value = sqlite3_value_blob(values[1]),
		.len = (size_t)sqlite3_value_bytes(values[1]),
		.create_revision = (uint64_t)sqlite3_value_int64(values[2]),
		.mod_revision = (uint64_t)sqlite3_value_int64(values[3]),
	};
	if (item.key)
		sqlite3_result_int64(context, (sqlite3_int64)record_sum(&item));
	else
		sqlite3_result_error_nomem(context); /* or NULL, which the tables do not hold */
}

int kv_sqlite_add_sum(sqlite3 *db)
{
	return sqlite3_create_function_v2(db, "record_sum", 4,
					  SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, NULL,
					  run_sum, NULL, NULL, NULL);
}

/* --- reading --- */

static const char query_range[] = "SELECT key, value, create_revision, mod_revision, sum FROM kv "
				  "WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
static const char query_next[] = "SELECT key, value, create_revision, mod_revision, sum FROM kv "
				 "WHERE key >= ?1 AND key < ?2 AND key <> ?3 ORDER BY key LIMIT 1";

/* Reads the current row of @statement: key, value, create revision, mod revision, sum. */
static enum status read_record(struct kv_sqlite *db, sqlite3_stmt *statement, struct kv_item *ret,
			       struct error *err)
{
	char what[KV_KEY_MAX + 64];
	char key[KV_KEY_MAX + 1];

	*ret = (struct kv_item){
		.key = (const char *)sqlite3_column_text(statement, 0),
		.value = sqlite3_column_blob(statement, 1),
		.len = (size_t)sqlite3_column_bytes(statement, 1),
		.create_revision = (uint64_t)sqlite3_column_int64(statement, 2),
		.mod_revision = (uint64_t)sqlite3_column_int64(statement, 3),
	};
	if (!ret->key || (!ret->value && sqlite3_column_type(statement, 1) != SQLITE_NULL))
		return sqlite_error(SQLITE_NOMEM, 0, db->path, "read", err);
	if ((uint64_t)sqlite3_column_int64(statement, 4) == record_sum(ret))
		return STATUS_OK;
	str_copy_text(key, sizeof(key), ret->key); /* damaged, possibly */
	(void)str_format(what, sizeof(what), "its record %.200s is not as written", key);
	return damaged(db, what, err);
}

/* Hand every row to @each. Not by step(), which is the writer's. */
static enum status each_row(struct kv_sqlite *db, sqlite3_stmt *statement, kv_each_fn *each, void *userdata,
			    struct error *err)
{
	for (;;) {
		struct kv_item item;
		int rc;

		errno = 0;
		rc = sqlite3_step(statement);
		if (rc == SQLITE_DONE)
			return STATUS_OK;
		if (rc != SQLITE_ROW)
			return sqlite_error(rc, errno, db->path, "read", err);
		TRY(read_record(db, statement, &item, err));
		db->n_read++;
		if (!each(&item, userdata))
			return STATUS_OK;
	}
}

/* The first key behind all that begin with @prefix. Keys are printable ASCII, so 0x7f is above every byte of
 * one, and the last byte never overflows. */
static void end_of(const char *prefix, char ret[static KV_KEY_MAX + 2])
{
	size_t n = strlen(prefix);

	(void)str_copy(ret, KV_KEY_MAX + 2, n > 0 ? prefix : "\x7f");
	if (n > 0)
		ret[n - 1]++;
}

enum status kv_sqlite_range(struct kv_sqlite *db, const char *prefix, const char *from, size_t limit,
			    kv_each_fn *each, void *userdata, struct error *err)
{
	char end[KV_KEY_MAX + 2];
	sqlite3_stmt *statement = NULL;
	enum status status;
	int rc;

	end_of(prefix, end);
	rc = sqlite3_prepare_v2(db->reader, query_range, -1, &statement, NULL);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 1, strcmp(from, prefix) > 0 ? from : prefix);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 2, end);
	if (rc == SQLITE_OK) /* negative: no limit */
		rc = sqlite3_bind_int64(statement, 3, limit > INT64_MAX ? -1 : (sqlite3_int64)limit);
	status = rc == SQLITE_OK ? each_row(db, statement, each, userdata, err)
				 : sqlite_error(rc, sqlite3_system_errno(db->reader), db->path, "read", err);
	(void)sqlite3_finalize(statement); /* at once: a reading statement keeps the log from being folded */
	return status;
}

enum status kv_sqlite_range_writing(struct kv_sqlite *db, const char *prefix, kv_each_fn *each,
				    void *userdata, struct error *err)
{
	char end[KV_KEY_MAX + 2];
	char from[KV_KEY_MAX + 1];
	char last[KV_KEY_MAX + 1] = "";
	cleanup_statement sqlite3_stmt *statement = NULL;
	enum status status = STATUS_OK;
	bool goes_on = true;
	int rc = sqlite3_prepare_v2(db->db, query_next, -1, &statement, NULL);

	end_of(prefix, end);
	(void)str_copy(from, sizeof(from), prefix);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 2, end);
	while (rc == SQLITE_OK && status == STATUS_OK && goes_on) {
		struct kv_item item;

		rc = bind_key(statement, 1, from);
		if (rc == SQLITE_OK)
			rc = bind_key(statement, 3, last);
		if (rc == SQLITE_OK)
			rc = step(db, statement);
		if (rc == SQLITE_DONE)
			return STATUS_OK;
		if (rc != SQLITE_ROW)
			break;
		status = read_record(db, statement, &item, err);
		goes_on = status == STATUS_OK && each(&item, userdata);
		if (status == STATUS_OK) {
			(void)str_copy(last, sizeof(last), item.key);
			(void)str_copy(from, sizeof(from), last);
		}
		rc = sqlite3_reset(statement);
	}
	return rc == SQLITE_OK ? status : fail(db, rc, "read", err);
}
