/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the database: checks the type of the file, its lock, its application id and its integrity. Nothing is
 * written before all checks have passed. A new database is built under a temporary name and linked when
 * complete, so an existing file is whole or damaged, never unfinished. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/ofd_lock.h"
#include "base/str.h"
#include "store/kv_sqlite.h"
#include "store/kv_sqlite_tables.h"
#include "store/sqlite_error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum {
	LOCK_TRIES = 20,
	LOCK_PAUSE_NS = 10000000,
	INDEX_REGION = 32768, /* of the index of the log (-shm): sqlite grows it by so much */
	INDEX_EMPTY = 3,      /* bytes: sqlite truncates the index to these, and no other file */
};

/* sqlite's own locks last for a transaction, so people can read while the store is in use; the lock file
 * keeps a second store away. A user of the shell may hold the write lock: the store waits for it up to the
 * timeout, and then it is broken. */
static const char pragmas_first[] = "PRAGMA busy_timeout=10000;"
				    "PRAGMA cell_size_check=ON;"
				    "PRAGMA temp_store=MEMORY;";

static const char pragmas[] = "PRAGMA journal_mode=WAL;"
			      "PRAGMA synchronous=FULL;"
			      "PRAGMA wal_autocheckpoint=4000;"; /* KV_SQLITE_CHECKPOINT_PAGES */

/* How much of the log stays after a reader has held it up. */
static const char pragma_log_limit[] = "PRAGMA journal_size_limit=67108864;";

static void statement_finalizep(sqlite3_stmt **statement)
{
	(void)sqlite3_finalize(*statement);
}

static void sqlite_closep(sqlite3 **db)
{
	(void)sqlite3_close(*db);
}

static int run_sql(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int query_number(sqlite3 *db, const char *sql, sqlite3_int64 *ret)
{
	cleanup(statement_finalizep) sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	if (rc != SQLITE_OK)
		return rc;
	rc = sqlite3_step(statement);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? SQLITE_CORRUPT : rc;
	*ret = sqlite3_column_int64(statement, 0);
	return SQLITE_OK;
}

static enum status refuse(const char *path, enum status status, const char *why, struct error *err)
{
	return error_set(err, status, 0, "store %s: %s", path, why);
}

enum presence { PRESENCE_MISSING, PRESENCE_FILE };

/* What is at @path? Looks only at names and sizes: opening and closing a database that this process has open
 * already would drop its locks. */
static enum status presence_look(const char *path, enum presence *ret, struct error *err)
{
	char wal[PATH_MAX];
	struct stat st;
	bool has_wal;

	if (str_format(wal, sizeof(wal), "%s-wal", path) < 0)
		return refuse(path, STATUS_INVALID_ARGUMENT, "the path is too long", err);
	has_wal = stat(wal, &st) == 0 && st.st_size > 0;
	if (stat(path, &st) < 0) {
		if (errno != ENOENT)
			return error_set(err, status_from_errno(errno), errno,
					 "store %s: cannot be looked at; check the folder and its owner",
					 path);
		if (has_wal)
			return refuse(path, STATUS_DATA_LOSS,
				      "the file is gone but its log (-wal) is still there; of a server: "
				      "restore a backup (holdfast-server --restore FILE). An empty start "
				      "forgets which node holds which volume, while nodes write",
				      err);
		*ret = PRESENCE_MISSING;
		return STATUS_OK;
	}
	if (!S_ISREG(st.st_mode))
		return refuse(path, STATUS_FAILED_PRECONDITION, "not a regular file; name a file", err);
	if (st.st_size == 0)
		return refuse(path, STATUS_DATA_LOSS,
			      "the file is empty, not a database; of a server: restore a backup "
			      "(holdfast-server --restore FILE). An empty start forgets which node holds "
			      "which volume, while nodes write",
			      err);
	*ret = PRESENCE_FILE;
	return STATUS_OK;
}

/* A child that is being executed has our descriptors for a moment longer than vfork(2) takes: the lock of a
 * store that has just been closed may still be held by it. */
static int lock_soon(int fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	int r = ofd_lock(fd, 0, 0, false);

	for (int tries = 1; r == -EAGAIN && tries < LOCK_TRIES; tries++) {
		(void)nanosleep(&pause, NULL);
		r = ofd_lock(fd, 0, 0, false);
	}
	return r;
}

/* One store on a database at a time. The file of the lock stays: removing it would let two in. */
enum status kv_lock_sqlite(const char *path, int *ret_fd, struct error *err)
{
	cleanup_close int fd = -EBADF;
	char name[PATH_MAX];
	int r;

	if (str_format(name, sizeof(name), "%s-lock", path) < 0)
		return refuse(path, STATUS_INVALID_ARGUMENT, "the path is too long", err);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(
			err, status_from_errno(errno), errno,
			"store %s: cannot be locked; make its folder exist and belong to this service", path);
	r = lock_soon(fd);
	if (r == -EAGAIN)
		return error_set(err, STATUS_FAILED_PRECONDITION, EBUSY,
				 "store %s: another process holds this file; stop the other one first (fuser "
				 "names it)",
				 path);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "store %s: cannot be locked", path);
	*ret_fd = TAKE_FD(fd);
	return STATUS_OK;
}

/* sqlite writes to the index of its log (-shm) through a mapping, and allocates one byte of each 4 KiB. On a
 * file system of smaller blocks, a full one, a write to the rest would be SIGBUS. */
static void *map_allocated(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	if ((protection & PROT_WRITE) && fallocate(fd, 0, offset, (off_t)size) < 0 && errno != EOPNOTSUPP)
		return MAP_FAILED;
	return mmap(address, size, protection, flags, fd, offset);
}

/* Zeros from offset 0 to the end of the file, in its own blocks. */
static int write_zeros(int fd)
{
	static const char zeros[INDEX_REGION];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	for (off_t at = 0; at < st.st_size; at += n) {
		n = pwrite(fd, zeros, sizeof(zeros), at);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return st.st_size >= INDEX_REGION ? 0 : -ENODATA;
}

/* After a crash sqlite empties the index, and allocates it again. On a full disk another program may take the
 * blocks between the two: the index keeps them. */
static int truncate_allocated(int fd, off_t size)
{
	if (size == INDEX_EMPTY && write_zeros(fd) == 0)
		return 0;
	return ftruncate(fd, size);
}

static void replace_calls(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find("unix");

	if (!vfs)
		return;
	(void)vfs->xSetSystemCall(vfs, "mmap", (sqlite3_syscall_ptr)map_allocated);
	(void)vfs->xSetSystemCall(vfs, "ftruncate", (sqlite3_syscall_ptr)truncate_allocated);
}

/* A database that is refused keeps its log as it is: closing must not fold it into the file. */
static int set_fold_at_close(sqlite3 *db, bool enable)
{
	return sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, enable ? 0 : 1, NULL);
}

static enum status open_connection(const char *path, sqlite3 **ret, struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	cleanup(sqlite_closep) sqlite3 *db = NULL;
	int rc;

	(void)pthread_once(&once, replace_calls);
	/* Counting allocations takes a lock each time. Refused, without harm, once sqlite is in use. */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
			     NULL);

	if (rc == SQLITE_OK)
		rc = set_fold_at_close(db, false);
	if (rc == SQLITE_OK)
		rc = kv_sqlite_harden(db);
	if (rc == SQLITE_OK)
		rc = kv_sqlite_add_sum(db);
	if (rc == SQLITE_OK)
		rc = run_sql(db, pragmas_first);
	if (rc != SQLITE_OK)
		return sqlite_error(rc, sqlite3_system_errno(db), path, "open", err);
	if (sqlite3_db_readonly(db, "main") == 1)
		return sqlite_error(SQLITE_READONLY, 0, path, "open", err);
	*ret = TAKE_PTR(db);
	return STATUS_OK;
}

/* --- a new database --- */

static int write_schema(sqlite3 *db)
{
	static const char tables[] = "BEGIN IMMEDIATE;" KV_SQLITE_TABLE_KV ";" KV_SQLITE_TABLE_POSITION ";"
				     "INSERT INTO position(id, revision, sum)"
				     " VALUES (1, 0, record_sum('position', x'', 0, 0));";
	char versions[128];
	int rc = run_sql(db, pragmas);

	(void)str_format(versions, sizeof(versions),
			 "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT;",
			 KV_SQLITE_APPLICATION_ID, KV_SQLITE_SCHEMA);
	if (rc == SQLITE_OK)
		rc = run_sql(db, tables);
	return rc == SQLITE_OK ? run_sql(db, versions) : rc;
}

/* A complete database in the one file @tmp, which is empty and ours. */
static enum status build(const char *tmp, struct error *err)
{
	cleanup(sqlite_closep) sqlite3 *db = NULL;
	enum status status = open_connection(tmp, &db, err);
	int rc;

	if (status != STATUS_OK)
		return status;
	rc = write_schema(db);
	if (rc == SQLITE_OK)
		rc = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	if (rc != SQLITE_OK)
		return sqlite_error(rc, sqlite3_system_errno(db), tmp, "create", err);
	return STATUS_OK;
}

static enum status reserve_name(const char *tmp, const char *path, struct error *err)
{
	cleanup_close int fd = -EBADF;

	(void)unlink(tmp); /* left behind by a process of the same id that died */
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0)
		return STATUS_OK;
	return error_set(err, status_from_errno(errno), errno,
			 "store %s: cannot be created; make its folder exist and belong to this service",
			 path);
}

static enum status put_in_place(const char *tmp, const char *path, struct error *err)
{
	int r = 0;

	/* Another process may have created it meanwhile: then that file is used, and its lock decides. */
	if (link(tmp, path) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0)
		r = file_sync_folder(path);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "store %s: cannot be created", path);
	return STATUS_OK;
}

static void remove_all(const char *tmp)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
	char name[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (str_format(name, sizeof(name), "%s%s", tmp, suffixes[i]) >= 0)
			(void)unlink(name); /* most of them do not exist */
}

static enum status create(const char *path, struct error *err)
{
	char tmp[PATH_MAX];
	enum status status;

	if (str_format(tmp, sizeof(tmp), "%s.%d.new", path, getpid()) < 0)
		return refuse(path, STATUS_INVALID_ARGUMENT, "the path is too long", err);
	TRY(reserve_name(tmp, path, err));
	status = build(tmp, err);
	if (status == STATUS_OK)
		status = put_in_place(tmp, path, err);
	remove_all(tmp);
	return status;
}

/* --- an existing database --- */

static enum status check_identity(const struct kv_sqlite *db, struct error *err)
{
	sqlite3_int64 application = 0;
	sqlite3_int64 version = 0;
	int rc = query_number(db->db, "PRAGMA application_id", &application);

	if (rc == SQLITE_OK)
		rc = query_number(db->db, "PRAGMA user_version", &version);
	if (rc != SQLITE_OK)
		return sqlite_error(rc, sqlite3_system_errno(db->db), db->path, "open", err);
	if (application != KV_SQLITE_APPLICATION_ID)
		return refuse(db->path, STATUS_DATA_LOSS,
			      "a sqlite database, but not one of Holdfast; name another file, or, of a "
			      "server, restore a backup, which keeps the file under another name "
			      "(holdfast-server --restore FILE)",
			      err);
	if (version > KV_SQLITE_SCHEMA)
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "store %s: written by a newer version (schema %" PRId64
				 ", this one knows %d); "
				 "install that version or restore a backup (holdfast-server --restore FILE)",
				 db->path, (int64_t)version, KV_SQLITE_SCHEMA);
	if (version < KV_SQLITE_SCHEMA)
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "store %s: damaged: schema %" PRId64
				 " does not exist; keep a copy and restore a backup (holdfast-server "
				 "--restore FILE)",
				 db->path, (int64_t)version);
	return STATUS_OK;
}

/* Checks that each record has its key in the tree of keys: a record that is missing there would be invisible.
 * The records themselves are checked by their sums when they are read. */
enum status kv_sqlite_check_whole(sqlite3 *db, const char *path, struct error *err)
{
	cleanup(statement_finalizep) sqlite3_stmt *statement = NULL;
	const char *verdict = NULL;
	int rc = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW)
		verdict = (const char *)sqlite3_column_text(statement, 0);
	if (!verdict)
		return sqlite_error(rc == SQLITE_ROW ? SQLITE_NOMEM : rc, sqlite3_system_errno(db), path,
				    "check", err);
	if (str_eq(verdict, "ok"))
		return STATUS_OK;
	return error_set(err, STATUS_DATA_LOSS, 0,
			 "store %s: damaged: %.200s; keep a copy and restore a backup (holdfast-server "
			 "--restore FILE)",
			 path, verdict);
}

/* Take the lock and keep it; WAL is a property of the file, the rest of the connection. */
static enum status lock_and_fold(const struct kv_sqlite *db, struct error *err)
{
	int rc = run_sql(db->db, pragmas);

	if (rc == SQLITE_OK)
		rc = run_sql(db->db, pragma_log_limit);
	if (rc == SQLITE_OK)
		rc = run_sql(db->db, "BEGIN IMMEDIATE; COMMIT;");
	if (rc == SQLITE_OK)
		rc = set_fold_at_close(db->db, true);
	if (rc != SQLITE_OK)
		return sqlite_error(rc, sqlite3_system_errno(db->db), db->path, "open", err);
	return STATUS_OK;
}

/* Call it last: databases that must not be touched have been refused before. */
static enum status open_reader(struct kv_sqlite *db, struct error *err)
{
	enum status status = open_connection(db->path, &db->reader, err);
	int rc;

	if (status != STATUS_OK)
		return status;
	rc = run_sql(db->reader, "PRAGMA query_only=ON;");
	return rc == SQLITE_OK ? STATUS_OK
			       : sqlite_error(rc, sqlite3_system_errno(db->reader), db->path, "open", err);
}

static enum status open_existing(struct kv_sqlite *db, struct error *err)
{
	TRY(open_connection(db->path, &db->db, err));
	TRY(check_identity(db, err));
	TRY(kv_sqlite_check_schema(db->db, db->path, err));
	TRY(kv_sqlite_check_whole(db->db, db->path, err));
	TRY(kv_sqlite_prepare(db, err));
	TRY(lock_and_fold(db, err));
	return open_reader(db, err);
}

static struct kv_sqlite *new_closed(const char *path)
{
	struct kv_sqlite *db = malloc(sizeof(*db));
	pthread_mutexattr_t recursive;

	if (!db)
		return NULL;
	*db = (struct kv_sqlite){.path = strdup(path), .lock_fd = -EBADF};
	if (!db->path) {
		free(db);
		return NULL;
	}
	(void)pthread_mutexattr_init(&recursive); /* these cannot fail on Linux */
	(void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	(void)pthread_mutex_init(&db->lock, &recursive);
	(void)pthread_mutexattr_destroy(&recursive);
	return db;
}

DEFINE_CLEANUP(struct kv_sqlite, kv_sqlite_close)

enum status kv_sqlite_open(const char *path, struct kv_sqlite **ret, struct error *err)
{
	cleanup(kv_sqlite_closep) struct kv_sqlite *db = NULL;
	cleanup_close int lock_fd = -EBADF;
	enum presence presence = PRESENCE_FILE;

	TRY(presence_look(path, &presence, err));
	TRY(kv_lock_sqlite(path, &lock_fd, err));
	if (presence == PRESENCE_MISSING)
		TRY(create(path, err));
	db = new_closed(path);
	if (!db)
		return refuse(path, STATUS_RESOURCE_EXHAUSTED, "out of memory", err);
	db->lock_fd = TAKE_FD(lock_fd);
	db->is_new = presence == PRESENCE_MISSING;
	db->log_dirty_us = clock_monotonic_us(); /* an earlier process may have died without a wait */
	TRY(open_existing(db, err));
	*ret = TAKE_PTR(db);
	return STATUS_OK;
}

void kv_sqlite_close(struct kv_sqlite *db)
{
	if (!db)
		return;
	kv_marks_close(&db->marks);
	for (size_t i = 0; i < QUERY_N; i++)
		(void)sqlite3_finalize(db->statements[i]);
	(void)sqlite3_close(db->reader); /* first: the last one that closes folds */
	(void)sqlite3_close(db->db); /* folds the log into the file; if that fails, the next open does it */
	close_fdp(&db->lock_fd);     /* last: until here no other process may open it */
	(void)pthread_mutex_destroy(&db->lock);
	free(db->path);
	free(db);
}
