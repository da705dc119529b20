/* SPDX-License-Identifier: Apache-2.0 */
#include "store/sqlite_error.h"

#include "base/cleanup.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>

struct meaning {
	int code;
	enum status status;
	const char *why; /* and what to do */
};

static const struct meaning meanings[] = {
	{SQLITE_BUSY, STATUS_FAILED_PRECONDITION,
	 "another process holds this file; stop the other one first (fuser names it)"},
	{SQLITE_LOCKED, STATUS_FAILED_PRECONDITION,
	 "another process holds this file; stop the other one first"},
	{SQLITE_NOTADB, STATUS_DATA_LOSS,
	 "the file is not a database; of a server: restore a backup, which keeps the file under another name "
	 "(holdfast-server --restore FILE)"},
	{SQLITE_CORRUPT, STATUS_DATA_LOSS,
	 "the file is damaged; keep a copy and restore a backup (holdfast-server --restore FILE)"},
	{SQLITE_TOOBIG, STATUS_DATA_LOSS,
	 "a record is larger than any that Holdfast writes; keep a copy and restore a backup "
	 "(holdfast-server --restore FILE)"},
	{SQLITE_FULL, STATUS_RESOURCE_EXHAUSTED,
	 "the disk is full; free space on its file system, then start again"},
	{SQLITE_NOMEM, STATUS_RESOURCE_EXHAUSTED, "out of memory; start again"},
	{SQLITE_READONLY, STATUS_PERMISSION_DENIED,
	 "the file cannot be written; check owner and mode of it and its folder"},
	{SQLITE_PERM, STATUS_PERMISSION_DENIED,
	 "access denied; check owner and mode of the file and its folder"},
};

static const struct meaning *find_meaning(int rc)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].code == (rc & 0xff))
			return &meanings[i];
	return NULL;
}

/* sqlite reports a full disk only for ENOSPC; a quota or a file size limit arrives as an I/O error. */
static bool is_full(int sys_errno)
{
	return sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == EFBIG;
}

enum status sqlite_error(int rc, int sys_errno, const char *path, const char *doing, struct error *err)
{
	const struct meaning *meaning = find_meaning(rc);
	int code = rc & 0xff;

	if (code == SQLITE_IOERR && is_full(sys_errno))
		meaning = find_meaning(SQLITE_FULL);
	if (meaning)
		return error_set(err, meaning->status, 0, "store %s: %s: %s", path, doing, meaning->why);
	if (code == SQLITE_CANTOPEN)
		return error_set(
			err, sys_errno ? status_from_errno(sys_errno) : STATUS_INTERNAL, sys_errno,
			"store %s: %s: cannot open the file or its log; check that its folder exists "
			"and belongs to this service",
			path, doing);
	if (code == SQLITE_IOERR)
		return error_set(
			err, STATUS_INTERNAL, sys_errno,
			"store %s: %s: input/output error %d; check the disk and the kernel log, then "
			"start again",
			path, doing, rc);
	return error_set(err, STATUS_INTERNAL, 0, "store %s: %s: sqlite error %d (%s)", path, doing, rc,
			 sqlite3_errstr(rc));
}
