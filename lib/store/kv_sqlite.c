#include "store/kv_sqlite.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "store/sqlite_error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUT                                                                                            \
	"INSERT INTO kv(key, value, create_revision, mod_revision, text) VALUES (?1, ?2, ?3, ?3, ?4) " \
	"ON CONFLICT(key) DO UPDATE SET value = ?2, mod_revision = ?3, text = ?4"

static const char *const queries[QUERY_N] = {
	[QUERY_BEGIN] = "BEGIN IMMEDIATE",
	[QUERY_COMMIT] = "COMMIT",
	[QUERY_ROLLBACK] = "ROLLBACK",
	[QUERY_MOD_REVISION] = "SELECT mod_revision FROM kv WHERE key = ?1",
	[QUERY_PUT] = PUT,
	[QUERY_PUT_FED] = PUT " RETURNING create_revision",
	[QUERY_DELETE] = "DELETE FROM kv WHERE key = ?1",
	[QUERY_CHANGE] = ("INSERT INTO changes(revision, seq, key, value, create_revision) "
			  "VALUES (?1, ?2, ?3, ?4, ?5)"),
	[QUERY_TRIM] = "DELETE FROM changes WHERE revision <= ?1",
	[QUERY_SAVE_POSITION] = "UPDATE position SET revision = ?1, compacted = ?2",
};

static const char query_position[] = "SELECT revision, compacted, (SELECT min(revision) FROM changes), "
				     "(SELECT max(revision) FROM changes) FROM position";
static const char query_range[] = "SELECT key, value, create_revision, mod_revision FROM kv "
				  "WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
static const char query_next[] = "SELECT key, value, create_revision, mod_revision FROM kv "
				 "WHERE key >= ?1 AND key < ?2 AND key <> ?3 ORDER BY key LIMIT 1";
static const char query_changes[] = "SELECT key, value, create_revision, revision FROM changes "
				    "WHERE revision > ?1 ORDER BY revision, seq";

static void finalizep(sqlite3_stmt **statement)
{
	(void)sqlite3_finalize(*statement);
}

#define cleanup_statement cleanup(finalizep)

static enum status fail(struct kv_sqlite *db, int rc, const char *doing, struct error *err)
{
	return sqlite_error(rc, db->sys_errno, db->path, doing, err);
}

static enum status damaged(struct kv_sqlite *db, const char *what, struct error *err)
{
	return error_set(
		err, STATUS_DATA_LOSS, 0,
		"store %s: damaged: %s; keep a copy and restore a backup (holdfast operator restore)",
		db->path, what);
}

static int bind_key(sqlite3_stmt *statement, int index, const char *key)
{
	return sqlite3_bind_text(statement, index, key, -1, SQLITE_STATIC);
}

static int bind_revision(sqlite3_stmt *statement, int index, uint64_t revision)
{
	return sqlite3_bind_int64(statement, index, (sqlite3_int64)revision);
}

/* Bindings point into the transaction, so they must not outlive the call. */
static void rewind_statement(sqlite3_stmt *statement)
{
	(void)sqlite3_reset(statement); /* repeats the error of the last step, which was looked at */
	(void)sqlite3_clear_bindings(statement);
}

/* sqlite3_step() that keeps the errno behind a failure: sqlite3_system_errno() does not know that of a
 * COMMIT. */
static int step(struct kv_sqlite *db, sqlite3_stmt *statement)
{
	int rc;

	errno = 0;
	rc = sqlite3_step(statement);
	db->sys_errno = errno;
	return rc;
}

/* Run a statement that yields no rows, or none of interest. Returns SQLITE_OK or an error code. */
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
		/* an INSERT with RETURNING takes effect in its first step, but ends in the next */
		rc = step(db, statement);
	}
	rewind_statement(statement);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static enum status read_position(struct kv_sqlite *db, struct error *err)
{
	cleanup_statement sqlite3_stmt *statement = NULL;
	sqlite3_int64 revision;
	sqlite3_int64 compacted;
	struct kv_position position;
	int rc = sqlite3_prepare_v2(db->db, query_position, -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = step(db, statement);
	if (rc == SQLITE_DONE || rc == SQLITE_ERROR)
		return damaged(db, "its position is missing", err);
	if (rc != SQLITE_ROW)
		return fail(db, rc, "read the position", err);
	revision = sqlite3_column_int64(statement, 0);
	compacted = sqlite3_column_int64(statement, 1);
	if (revision < 0 || compacted < 0 || compacted > revision ||
	    sqlite3_column_int64(statement, 3) > revision)
		return damaged(db, "its position contradicts its changes", err);
	position = (struct kv_position){
		.revision = (uint64_t)revision,
		.compacted = (uint64_t)compacted,
		.oldest = (uint64_t)revision + 1,
	};
	if (sqlite3_column_type(statement, 2) != SQLITE_NULL)
		position.oldest = (uint64_t)sqlite3_column_int64(statement, 2);
	db->now = position;
	db->committed = position;
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

enum status kv_sqlite_begin(struct kv_sqlite *db, struct error *err)
{
	enum status st;
	int rc;

	(void)pthread_mutex_lock(&db->lock); /* cannot fail for a valid recursive mutex */
	rc = run(db, QUERY_BEGIN);
	if (rc == SQLITE_OK)
		return STATUS_OK;
	st = fail(db, rc, "begin", err);
	(void)pthread_mutex_unlock(&db->lock);
	return st;
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

static int put(struct kv_sqlite *db, const struct kv_op *op, uint64_t revision, uint64_t *ret_create_revision)
{
	enum kv_sqlite_query query = db->has_no_feed ? QUERY_PUT : QUERY_PUT_FED;
	sqlite3_stmt *statement = db->statements[query];
	int rc = bind_key(statement, 1, op->key);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob64(statement, 2, op->value, op->len, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = bind_revision(statement, 3, revision);
	if (rc == SQLITE_OK && op->text)
		rc = bind_key(statement, 4, op->text);
	return rc == SQLITE_OK ? run_for_number(db, query, ret_create_revision) : rc;
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

static int record_change(struct kv_sqlite *db, const struct kv_op *op, uint64_t revision, size_t seq,
			 uint64_t create_revision)
{
	sqlite3_stmt *statement = db->statements[QUERY_CHANGE];
	int rc = bind_revision(statement, 1, revision);

	if (rc == SQLITE_OK)
		rc = bind_revision(statement, 2, seq);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 3, op->key);
	if (rc == SQLITE_OK && op->value)
		rc = sqlite3_bind_blob64(statement, 4, op->value, op->len, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = bind_revision(statement, 5, create_revision);
	return rc == SQLITE_OK ? run(db, QUERY_CHANGE) : rc;
}

/* What the feed held before it ended is trimmed in steps as ever. */
static void forget_all(struct kv_sqlite *db)
{
	if (!kv_sqlite_has_trim(db))
		db->now.oldest = db->now.revision + 1;
	db->now.compacted = db->now.revision;
}

enum status kv_sqlite_apply(struct kv_sqlite *db, const struct kv_txn *txn, uint64_t *ret_revision,
			    struct kv_conflict *ret_conflict, struct error *err)
{
	uint64_t revision = db->now.revision + 1;
	bool is_changed = false;
	/* All conditions are read before the first write, so an aborted transaction has nothing to undo. */
	enum status st = check_conditions(db, txn, ret_conflict, err);

	if (st != STATUS_OK)
		return st;
	for (size_t i = 0; i < txn->n_ops; i++) {
		const struct kv_op *op = &txn->ops[i];
		uint64_t create_revision = 0;
		bool is_change = true;
		int rc = op->value ? put(db, op, revision, &create_revision) : remove_key(db, op, &is_change);

		if (rc == SQLITE_OK && is_change && !db->has_no_feed)
			rc = record_change(db, op, revision, i, create_revision);
		if (rc != SQLITE_OK)
			return fail(db, rc, "write", err);
		is_changed = is_changed || is_change;
	}
	if (is_changed)
		db->now.revision = revision;
	if (db->has_no_feed)
		forget_all(db);
	*ret_revision = db->now.revision;
	return STATUS_OK;
}

void kv_sqlite_compact(struct kv_sqlite *db, uint64_t revision)
{
	if (revision > db->now.revision)
		revision = db->now.revision;
	if (revision > db->now.compacted)
		db->now.compacted = revision;
}

void kv_sqlite_end_feed(struct kv_sqlite *db)
{
	db->has_no_feed = true;
	kv_sqlite_compact(db, UINT64_MAX);
}

bool kv_sqlite_has_trim(const struct kv_sqlite *db)
{
	return db->now.oldest <= db->now.compacted;
}

enum status kv_sqlite_trim(struct kv_sqlite *db, struct error *err)
{
	sqlite3_stmt *statement = db->statements[QUERY_TRIM];
	uint64_t last = db->now.oldest + KV_SQLITE_TRIM_STEP - 1;
	int rc;

	if (!kv_sqlite_has_trim(db))
		return STATUS_OK;
	if (last > db->now.compacted)
		last = db->now.compacted;
	rc = bind_revision(statement, 1, last);
	if (rc == SQLITE_OK)
		rc = run(db, QUERY_TRIM);
	if (rc != SQLITE_OK)
		return fail(db, rc, "forget old changes", err);
	db->now.oldest = last + 1;
	return STATUS_OK;
}

static int save_position(struct kv_sqlite *db)
{
	sqlite3_stmt *statement = db->statements[QUERY_SAVE_POSITION];
	int rc;

	if (db->now.revision == db->committed.revision && db->now.compacted == db->committed.compacted)
		return SQLITE_OK;
	rc = bind_revision(statement, 1, db->now.revision);
	if (rc == SQLITE_OK)
		rc = bind_revision(statement, 2, db->now.compacted);
	return rc == SQLITE_OK ? run(db, QUERY_SAVE_POSITION) : rc;
}

enum status kv_sqlite_commit(struct kv_sqlite *db, struct error *err)
{
	int rc = save_position(db);

	if (rc == SQLITE_OK)
		rc = run(db, QUERY_COMMIT);
	if (rc != SQLITE_OK) {
		enum status st = fail(db, rc, "commit", err);

		kv_sqlite_rollback(db);
		return st;
	}
	db->committed = db->now;
	(void)pthread_mutex_unlock(&db->lock);
	return STATUS_OK;
}

void kv_sqlite_rollback(struct kv_sqlite *db)
{
	/* After some errors sqlite has rolled back by itself. */
	if (!sqlite3_get_autocommit(db->db))
		(void)run(db, QUERY_ROLLBACK); /* the error that led here is the one to report */
	db->now = db->committed;
	(void)pthread_mutex_unlock(&db->lock);
}

/* Zeroes are no frames: whoever reads the log after a crash stops at them. */
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

void kv_sqlite_extend_log(struct kv_sqlite *db)
{
	char name[PATH_MAX];
	cleanup_close int fd = -EBADF;
	struct stat st;

	if (str_format(name, sizeof(name), "%s-wal", db->path) < 0)
		return;
	/* in a transaction, so that nobody else is appending */
	if (kv_sqlite_begin(db, NULL) != STATUS_OK)
		return;
	fd = open(name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size < KV_SQLITE_LOG_BYTES)
		write_zeroes(fd, st.st_size);
	kv_sqlite_rollback(db);
}

void kv_sqlite_freeze(struct kv_sqlite *db)
{
	(void)pthread_mutex_lock(&db->lock);
	(void)sqlite3_db_config(db->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	(void)pthread_mutex_unlock(&db->lock);
}

/* The row of (key, value, create revision, revision) that @statement stands on. */
static enum status read_row(struct kv_sqlite *db, sqlite3_stmt *statement, struct kv_item *ret,
			    struct error *err)
{
	*ret = (struct kv_item){
		.key = (const char *)sqlite3_column_text(statement, 0),
		.value = sqlite3_column_blob(statement, 1),
		.len = (size_t)sqlite3_column_bytes(statement, 1),
		.create_revision = (uint64_t)sqlite3_column_int64(statement, 2),
		.mod_revision = (uint64_t)sqlite3_column_int64(statement, 3),
	};
	if (!ret->key || (!ret->value && sqlite3_column_type(statement, 1) != SQLITE_NULL))
		return fail(db, SQLITE_NOMEM, "read", err);
	return STATUS_OK;
}

/* Hand every such row to @each. */
static enum status each_row(struct kv_sqlite *db, sqlite3_stmt *statement, kv_each_fn *each, void *userdata,
			    struct error *err)
{
	for (;;) {
		int rc = step(db, statement);
		struct kv_item item;
		enum status st;

		if (rc == SQLITE_DONE)
			return STATUS_OK;
		if (rc != SQLITE_ROW)
			return fail(db, rc, "read", err);
		st = read_row(db, statement, &item, err);
		if (st != STATUS_OK)
			return st;
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
	enum status st;
	int rc;

	end_of(prefix, end);
	(void)pthread_mutex_lock(&db->lock);
	rc = sqlite3_prepare_v2(db->db, query_range, -1, &statement, NULL);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 1, strcmp(from, prefix) > 0 ? from : prefix);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 2, end);
	if (rc == SQLITE_OK) /* negative: no limit */
		rc = sqlite3_bind_int64(statement, 3, limit > INT64_MAX ? -1 : (sqlite3_int64)limit);
	st = rc == SQLITE_OK ? each_row(db, statement, each, userdata, err) : fail(db, rc, "read", err);
	(void)sqlite3_finalize(statement); /* inside the lock: a reading statement is a transaction */
	(void)pthread_mutex_unlock(&db->lock);
	return st;
}

enum status kv_sqlite_range_writing(struct kv_sqlite *db, const char *prefix, kv_each_fn *each,
				    void *userdata, struct error *err)
{
	char end[KV_KEY_MAX + 2];
	char from[KV_KEY_MAX + 1];
	char last[KV_KEY_MAX + 1] = "";
	cleanup_statement sqlite3_stmt *statement = NULL;
	enum status st = STATUS_OK;
	bool goes_on = true;
	int rc = sqlite3_prepare_v2(db->db, query_next, -1, &statement, NULL);

	end_of(prefix, end);
	(void)str_copy(from, sizeof(from), prefix);
	if (rc == SQLITE_OK)
		rc = bind_key(statement, 2, end);
	while (rc == SQLITE_OK && st == STATUS_OK && goes_on) {
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
		st = read_row(db, statement, &item, err);
		goes_on = st == STATUS_OK && each(&item, userdata);
		if (st == STATUS_OK) {
			(void)str_copy(last, sizeof(last), item.key);
			(void)str_copy(from, sizeof(from), last);
		}
		rc = sqlite3_reset(statement);
	}
	return rc == SQLITE_OK ? st : fail(db, rc, "read", err);
}

static enum status check_revision(const struct kv_sqlite *db, uint64_t revision, struct error *err)
{
	if (revision < db->committed.compacted)
		return error_set(err, STATUS_OUT_OF_RANGE, 0,
				 "store %s: changes after revision %" PRIu64
				 " were compacted away up to %" PRIu64 "; read the whole state again",
				 db->path, revision, db->committed.compacted);
	if (revision > db->committed.revision)
		return error_set(err, STATUS_OUT_OF_RANGE, 0,
				 "store %s: revision %" PRIu64 " is not reached yet, the last one is %" PRIu64
				 "; read the whole state again",
				 db->path, revision, db->committed.revision);
	return STATUS_OK;
}

enum status kv_sqlite_changes(struct kv_sqlite *db, uint64_t revision, kv_each_fn *each, void *userdata,
			      struct error *err)
{
	sqlite3_stmt *statement = NULL;
	enum status st;

	(void)pthread_mutex_lock(&db->lock);
	st = check_revision(db, revision, err);
	if (st == STATUS_OK) {
		int rc = sqlite3_prepare_v2(db->db, query_changes, -1, &statement, NULL);

		if (rc == SQLITE_OK)
			rc = bind_revision(statement, 1, revision);
		st = rc == SQLITE_OK ? each_row(db, statement, each, userdata, err)
				     : fail(db, rc, "read", err);
	}
	(void)sqlite3_finalize(statement); /* inside the lock: a reading statement is a transaction */
	(void)pthread_mutex_unlock(&db->lock);
	return st;
}
