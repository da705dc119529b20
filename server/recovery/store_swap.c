/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/store_swap.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "log/log.h"
#include "store/kv.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTE_MAX = 2 * PATH_MAX };

#define TO_ETCD "to-etcd " /* and the prefix there, in the place of the two paths */

struct exchange {
	char note[PATH_MAX];
	char store[PATH_MAX];
	char staged[PATH_MAX];
	char aside[PATH_MAX];
};

static void name_files(const char *data_dir, struct exchange *x)
{
	*x = (struct exchange){.note = ""};
	(void)str_format(x->note, sizeof(x->note), "%s/restore.pending", data_dir);
	(void)str_format(x->store, sizeof(x->store), "%s/" SERVER_STORE, data_dir);
}

static enum status write_note(const struct exchange *x, const char *text, struct error *err)
{
	int r = file_write_atomic(x->note, 0600, text, strlen(text));

	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", x->note) : STATUS_OK;
}

enum status store_swap_decide(const char *data_dir, const char *staged, int64_t now_ms, struct error *err)
{
	char when[CLOCK_TEXT_SIZE];
	char text[NOTE_MAX];
	struct exchange x;

	name_files(data_dir, &x);
	(void)str_format(text, sizeof(text), "%s\n%s.before-restore-%s\n", staged, x.store,
			 clock_format(now_ms, when));
	return write_note(&x, text, err);
}

enum status store_swap_leave(const char *data_dir, const char *prefix, struct error *err)
{
	char text[NOTE_MAX];
	struct exchange x;

	name_files(data_dir, &x);
	(void)str_format(text, sizeof(text), TO_ETCD "%s\n", prefix);
	return write_note(&x, text, err);
}

bool store_swap_is_leaving(const char *data_dir, const char *prefix)
{
	cleanup_free char *text = NULL;
	char to_prefix[NOTE_MAX];
	struct exchange x;

	name_files(data_dir, &x);
	(void)str_format(to_prefix, sizeof(to_prefix), TO_ETCD "%s\n", prefix ? prefix : "");
	return file_read(x.note, NOTE_MAX, &text, NULL) == 0 &&
	       (prefix ? str_eq(text, to_prefix) : str_starts_with(text, TO_ETCD)) &&
	       (access(x.store, F_OK) == 0 || errno != ENOENT);
}

/* Two paths, each with its newline, and nothing else: the note was written as a whole. */
static bool parse_note(char *text, struct exchange *x)
{
	char *second = strchr(text, '\n');
	char *end = second ? strchr(second + 1, '\n') : NULL;

	if (!end || end[1] != '\0')
		return false;
	*second++ = '\0';
	*end = '\0';
	return path_is_normal(text) && path_is_normal(second) &&
	       str_copy(x->staged, sizeof(x->staged), text) >= 0 &&
	       str_copy(x->aside, sizeof(x->aside), second) >= 0;
}

static enum status rename_file(const char *from, const char *to, struct error *err)
{
	if (rename(from, to) == 0 || errno == ENOENT)
		return STATUS_OK;
	return error_set(err, status_from_errno(errno), errno, "move %s to %s", from, to);
}

/* The file first: a log without its file is refused at start, a file without its log would be taken for an
 * older state of itself. */
static enum status move_aside(const struct exchange *x, struct error *err)
{
	char from[PATH_MAX + 8];
	char to[PATH_MAX + 8];
	enum status status;

	(void)str_format(from, sizeof(from), "%s-wal", x->store);
	(void)str_format(to, sizeof(to), "%s-wal", x->aside);
	status = rename_file(x->store, x->aside, err);
	if (status == STATUS_OK)
		status = rename_file(from, to, err);
	(void)str_format(from, sizeof(from), "%s-shm", x->store);
	(void)unlink(from); /* sqlite makes it again from the log */
	return status;
}

static enum status sync_folder(const char *path, struct error *err)
{
	int r = file_sync_folder(path);

	return r < 0 ? error_set(err, status_from_errno(r), r, "sync the folder of %s", path) : STATUS_OK;
}

static enum status remove_note(const struct exchange *x, struct error *err)
{
	if (unlink(x->note) < 0 && errno != ENOENT)
		return error_set(err, status_from_errno(errno), errno, "remove %s", x->note);
	return sync_folder(x->note, err);
}

static enum status exchange(const struct exchange *x, struct error *err)
{
	struct stat staged;

	/* while the new store is where it was made, its final path has the old store, or nothing */
	if (lstat(x->staged, &staged) == 0) {
		TRY(move_aside(x, err));
		TRY(sync_folder(x->store, err));
		TRY(rename_file(x->staged, x->store, err));
		TRY(sync_folder(x->store, err));
	}
	return remove_note(x, err);
}

enum status store_swap_finish(const char *data_dir, bool *ret_done, struct error *err)
{
	cleanup_close int lock_fd = -EBADF;
	cleanup_free char *text = NULL;
	struct exchange x;
	int r;

	name_files(data_dir, &x);
	*ret_done = false;
	r = file_read(x.note, NOTE_MAX, &text, NULL);
	if (r == -ENOENT)
		return STATUS_OK;
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read %s", x.note);
	if (store_swap_is_leaving(data_dir, NULL))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the store %s may be in etcd already, as a move to it was interrupted (%s: %.*s): "
			"nothing was changed. Next, with the settings of the move: holdfast-server "
			"--migrate to-etcd",
			x.store, x.note, (int)strcspn(text, "\n"), text);
	if (str_starts_with(text, TO_ETCD))
		return remove_note(&x, err); /* the store has left */
	if (!parse_note(text, &x))
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "%s: a restore does not write this, so the store to use is not known; "
				 "restore a backup (holdfast-server --restore FILE)",
				 x.note);
	TRY(kv_lock_sqlite(x.store, &lock_fd, err));
	TRY(exchange(&x, err));
	*ret_done = true;
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "restore", .event = LOG_EVENT_STORE_RESTORED},
		"restored%s%s", access(x.aside, F_OK) == 0 ? ": the store that was there is kept as " : "",
		access(x.aside, F_OK) == 0 ? x.aside : "");
	return STATUS_OK;
}
