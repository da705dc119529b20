/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a database while others use it. */

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "store/kv.h"
#include "store/kv_sqlite.h"
#include "store/sqlite_error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READER_PATIENCE_MS = 10000 };

static void sqlite_closep(sqlite3 **db)
{
	(void)sqlite3_close(*db);
}

static enum status open_file(const char *path, int flags, sqlite3 **ret, struct error *err)
{
	int rc = sqlite3_open_v2(path, ret, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

	if (rc == SQLITE_OK)
		rc = kv_sqlite_harden(*ret);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(*ret, READER_PATIENCE_MS);
	return rc == SQLITE_OK ? STATUS_OK : sqlite_error(rc, sqlite3_system_errno(*ret), path, "open", err);
}

/* Copies all pages in one step, so in one reading transaction: the copy has one state, despite writers. */
static int copy_pages(sqlite3 *from, sqlite3 *to)
{
	sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
	int rc;

	if (!backup)
		return sqlite3_extended_errcode(to);
	(void)sqlite3_backup_step(backup, -1);
	rc = sqlite3_backup_finish(backup); /* repeats the error of the step */
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(to, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
	return rc;
}

static enum status read_revision(sqlite3 *db, const char *path, uint64_t *ret, struct error *err)
{
	sqlite3_stmt *statement = NULL;
	int rc = sqlite3_prepare_v2(db, "SELECT revision FROM position", -1, &statement, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(statement);
	if (rc == SQLITE_ROW)
		*ret = (uint64_t)sqlite3_column_int64(statement, 0);
	(void)sqlite3_finalize(statement);
	return rc == SQLITE_ROW ? STATUS_OK : sqlite_error(rc, 0, path, "read the copy's position", err);
}

static enum status make_private(const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd >= 0 ? STATUS_OK
		       : error_set(err, status_from_errno(errno), errno, "%s: cannot be created", path);
}

static enum status sync_copy(const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int r = fd < 0 || fsync(fd) < 0 ? -errno : file_sync_folder(path);

	return r == 0 ? STATUS_OK : error_set(err, status_from_errno(r), r, "%s: cannot be written", path);
}

static enum status copy_all(const char *from, const char *to, uint64_t *ret_revision, struct error *err)
{
	cleanup(sqlite_closep) sqlite3 *source = NULL;
	cleanup(sqlite_closep) sqlite3 *target = NULL;
	uint64_t revision = 0;
	enum status status = open_file(from, SQLITE_OPEN_READONLY, &source, err);
	int rc;

	if (status == STATUS_OK)
		status = open_file(to, SQLITE_OPEN_READWRITE, &target, err);
	if (status != STATUS_OK)
		return status;
	rc = sqlite3_exec(target, "PRAGMA synchronous=OFF", NULL, NULL, NULL); /* synced once, at the end */
	if (rc == SQLITE_OK)
		rc = copy_pages(source, target);
	if (rc != SQLITE_OK)
		return sqlite_error(rc, sqlite3_system_errno(target), to, "copy", err);
	status = kv_sqlite_check_schema(target, to, err);
	if (status == STATUS_OK)
		status = read_revision(target, to, &revision, err);
	if (status == STATUS_OK)
		*ret_revision = revision;
	return status;
}

enum status kv_copy_sqlite(const char *from, const char *to, uint64_t *ret_revision, struct error *err)
{
	TRY(make_private(to, err));
	enum status status = copy_all(from, to, ret_revision, err);
	if (status == STATUS_OK)
		status = sync_copy(to, err);
	if (status != STATUS_OK)
		(void)unlink(to);
	return status;
}

enum status kv_seal_copy(const char *path, struct error *err)
{
	cleanup(sqlite_closep) sqlite3 *db = NULL;
	int rc;

	TRY(open_file(path, SQLITE_OPEN_READWRITE, &db, err));
	rc = sqlite3_exec(db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		return sqlite_error(rc, sqlite3_system_errno(db), path, "remove its log", err);
	return sync_copy(path, err);
}

static bool go_on(const struct kv_item *item, void *userdata)
{
	return true;
}

static enum status open_image(const struct kv_copy *copy, sqlite3 **ret, struct error *err)
{
	enum status status = open_file(":memory:", SQLITE_OPEN_READWRITE, ret, err);
	int rc;

	if (status != STATUS_OK)
		return status;
	rc = sqlite3_deserialize(*ret, "main", (unsigned char *)(uintptr_t)copy->image, /* only read */
				 (sqlite3_int64)copy->len, (sqlite3_int64)copy->len,
				 SQLITE_DESERIALIZE_READONLY);
	return rc == SQLITE_OK ? STATUS_OK : sqlite_error(rc, 0, copy->path, "open", err);
}

/* Opens a file for reading only and leaves the folder as it is: if there is no log file, sqlite makes no log.
 */
static enum status open_still(const char *path, sqlite3 **ret, struct error *err)
{
	char uri[3 * PATH_MAX + 32] = "file:";
	char log[PATH_MAX];
	size_t n = strlen(uri);

	if (str_format(log, sizeof(log), "%s-wal", path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%.100s...: the path is too long", path);
	if (access(log, F_OK) == 0)
		return open_file(path, SQLITE_OPEN_READONLY, ret, err);
	for (const char *c = path; *c != '\0'; c++)
		n += (size_t)snprintf(uri + n, sizeof(uri) - n, strchr("%?#", *c) ? "%%%02x" : "%c",
				      (unsigned int)(unsigned char)*c);
	(void)snprintf(uri + n, sizeof(uri) - n, "?immutable=1");
	return open_file(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, ret, err);
}

enum status kv_walk_copy(const struct kv_copy *copy, kv_each_fn *each, void *userdata, uint64_t *ret_revision,
			 struct error *err)
{
	cleanup(sqlite_closep) sqlite3 *reader = NULL;
	cleanup_free char *name = strdup(copy->path);
	struct kv_sqlite db = {.path = name};
	uint64_t revision = 0;
	enum status status;

	if (!name)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	status = copy->image ? open_image(copy, &reader, err) : open_still(copy->path, &reader, err);
	if (status == STATUS_OK)
		status = kv_sqlite_check_schema(reader, copy->path, err);
	if (status == STATUS_OK && !copy->is_checked)
		status = kv_sqlite_check_whole(reader, copy->path, err);
	if (status == STATUS_OK)
		status = read_revision(reader, copy->path, &revision, err);
	db.reader = reader;
	if (status == STATUS_OK)
		status = kv_sqlite_range(&db, "", "", UINT64_MAX, each, userdata, err);
	if (status == STATUS_OK)
		*ret_revision = revision;
	return status;
}

enum status kv_check_copy(const char *path, struct error *err)
{
	uint64_t revision;

	return kv_walk_copy(&(struct kv_copy){.path = path}, go_on, NULL, &revision, err);
}
