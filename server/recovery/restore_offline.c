/* SPDX-License-Identifier: Apache-2.0 */
/* Starting again from a copy of the store, by a process of its own, while there is no server. */

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "kit/copy_look.h"
#include "recovery/copy_file.h"
#include "recovery/etcd_copy.h"
#include "recovery/marks.h"
#include "recovery/restore.h"
#include "recovery/store_swap.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 16 };

/* --- whose files they are --- */

enum status restore_check_user(const char *data_dir, const char *option, struct error *err)
{
	struct stat st;

	if (stat(data_dir, &st) < 0)
		return error_set(err, status_from_errno(errno), errno, "data_dir %s", data_dir);
	if (st.st_uid == geteuid())
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"data_dir %s belongs to uid %u and this runs as uid %u: run it as root, or as the server's "
		"user (runuser -u USER -- holdfast-server %s), who must be able to read what it names",
		data_dir, (unsigned int)st.st_uid, (unsigned int)geteuid(), option);
}

static enum status find_account(struct restore_owner *ret, struct error *err)
{
	const struct passwd *account = getpwnam(HOLDFAST_SERVER_USER);

	if (!account)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "there is no account " HOLDFAST_SERVER_USER
				 " to whom the server's files would "
				 "belong: install the package holdfast-server, or make it (systemd-sysusers "
				 "holdfast-server.conf)");
	*ret = (struct restore_owner){.uid = account->pw_uid, .gid = account->pw_gid};
	return STATUS_OK;
}

/* Makes the folders above @path, owned by the present user and passable for all. */
static enum status make_parents(const char *path, struct error *err)
{
	char folder[PATH_MAX];

	(void)str_copy(folder, sizeof(folder), path); /* of the settings: it fits */
	for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(folder, 0755) < 0 && errno != EEXIST)
			return error_set(err, status_from_errno(errno), errno, "make %s", folder);
		*slash = '/';
	}
	return STATUS_OK;
}

/* One that is there stays whose it is. */
static enum status make_folder(const char *path, const struct restore_owner *owner, struct error *err)
{
	cleanup_close int fd = -EBADF;

	TRY(make_parents(path, err));
	if (mkdir(path, 0700) < 0)
		return errno == EEXIST ? STATUS_OK
				       : error_set(err, status_from_errno(errno), errno, "make %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchown(fd, owner->uid, owner->gid) < 0 || fchmod(fd, 0700) < 0)
		return error_set(err, status_from_errno(errno), errno, "make %s", path);
	return STATUS_OK;
}

static enum status make_folders(const struct config *config, const struct restore_owner *owner,
				struct error *err)
{
	char folder[PATH_MAX];

	TRY(make_folder(config->data_dir, owner, err));
	if (config->mark_file[0] == '\0')
		return STATUS_OK;
	(void)str_copy(folder, sizeof(folder), config->mark_file); /* a path: it fits and has a slash */
	*strrchr(folder, '/') = '\0';
	return folder[0] != '\0' ? make_folder(folder, owner, err) : STATUS_OK;
}

static enum status become(const struct restore_owner *owner, struct error *err)
{
	if (owner->uid == geteuid())
		return STATUS_OK;
	if (setgroups(0, NULL) < 0 || setresgid(owner->gid, owner->gid, owner->gid) < 0 ||
	    setresuid(owner->uid, owner->uid, owner->uid) < 0)
		return error_set(err, status_from_errno(errno), errno,
				 "become uid %u, to whom data_dir belongs", (unsigned int)owner->uid);
	return STATUS_OK;
}

enum status restore_find_owner(const struct config *config, struct restore_owner *ret, struct error *err)
{
	struct stat st;

	*ret = (struct restore_owner){.uid = geteuid(), .gid = getegid()};
	if (ret->uid != 0)
		return STATUS_OK;
	if (stat(config->data_dir, &st) == 0) {
		*ret = (struct restore_owner){.uid = st.st_uid, .gid = st.st_gid};
		return STATUS_OK;
	}
	return errno == ENOENT
		       ? find_account(ret, err)
		       : error_set(err, status_from_errno(errno), errno, "data_dir %s", config->data_dir);
}

enum status restore_become_owner(const struct config *config, bool dry_run, struct error *err)
{
	struct restore_owner owner;

	TRY(restore_find_owner(config, &owner, err));
	if (!dry_run)
		TRY(make_folders(config, &owner, err));
	return become(&owner, err);
}

/* --- where it comes from --- */

void restore_source_close(struct restore_source *source)
{
	close_fdp(&source->fd);
	close_fdp(&source->log_fd);
	kit_release(&source->kit);
}

enum status restore_source_open(const char *path, const struct kit_key *key, struct restore_source *ret,
				struct error *err)
{
	struct restore_source source = {.path = path, .log_fd = -EBADF};
	char log[PATH_MAX];
	enum status status = STATUS_OK;

	TRY(copy_open(path, &source.fd, err));
	if (str_format(log, sizeof(log), "%s-wal", path) >= 0)
		source.log_fd = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW); /* most have no log */
	if (kit_is_one(source.fd) && !key)
		status = error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"%s is a kit: give the secret that opens it, with --passphrase-file or --key-file",
			path);
	else if (kit_is_one(source.fd))
		status = kit_read(source.fd, path, key, &source.kit, err);
	if (status == STATUS_OK)
		*ret = source;
	else
		restore_source_close(&source);
	return status;
}

static enum status copy_bytes(int from, int to, struct error *err, const char *path)
{
	cleanup_free uint8_t *chunk = malloc(CHUNK);
	off_t at = 0;
	ssize_t n = 1;
	int r = 0;

	if (!chunk)
		return error_no_memory(err, "the restore");
	while (r == 0 && (n = pread(from, chunk, CHUNK, at)) > 0) {
		r = fd_write_all(to, chunk, (size_t)n);
		at += n;
	}
	if (n < 0)
		r = -errno;
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

static enum status create(const char *path, int *ret_fd, struct error *err)
{
	*ret_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return *ret_fd >= 0 ? STATUS_OK : error_set(err, status_from_errno(errno), errno, "create %s", path);
}

static enum status copy_file(int from, const char *to, struct error *err)
{
	cleanup_close int fd = -EBADF;

	TRY(create(to, &fd, err));
	return copy_bytes(from, fd, err, to);
}

static enum status write_file(const struct kit_file *file, const char *to, struct error *err)
{
	cleanup_close int fd = -EBADF;
	int r;

	TRY(create(to, &fd, err));
	r = fd_write_all(fd, file->data, file->len);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", to) : STATUS_OK;
}

/* Makes a database at @to that this process can read; the source may belong to another user. */
static enum status bring(const struct restore_source *source, const char *to, struct error *err)
{
	char log[PATH_MAX];

	if (source->kit.n > 0)
		return write_file(kit_find(&source->kit, KIT_STORE), to, err);
	TRY(copy_file(source->fd, to, err));
	(void)str_format(log, sizeof(log), "%s-wal", to);
	return source->log_fd >= 0 ? copy_file(source->log_fd, log, err) : STATUS_OK;
}

/* --- the exchange --- */

struct places {
	char store[PATH_MAX];
	char folder[PATH_MAX]; /* where the copy is made ready */
	char brought[PATH_MAX];
	char last[PATH_MAX]; /* of a dry run: what the store is copied to */
	char staged[PATH_MAX];
};

/* A dry run does not change data_dir. */
static enum status name_places(const char *data_dir, bool dry_run, struct places *ret, struct error *err)
{
	static const char scratch[] = "/var/tmp/holdfast-dry-run-XXXXXX";

	(void)str_format(ret->folder, sizeof(ret->folder), "%s/restore", data_dir);
	if (dry_run) {
		(void)str_copy(ret->folder, sizeof(ret->folder), scratch);
		if (!mkdtemp(ret->folder))
			return error_set(err, status_from_errno(errno), errno, "make %s", scratch);
	}
	(void)str_format(ret->brought, sizeof(ret->brought), "%s/brought.db", ret->folder);
	(void)str_format(ret->last, sizeof(ret->last), "%s/last.db", ret->folder);
	(void)str_format(ret->staged, sizeof(ret->staged), "%s/offline.db", ret->folder);
	return dry_run ? STATUS_OK : copy_folder_make(ret->folder, err);
}

static enum status refuse_running(const char *store, bool dry_run, struct error *err)
{
	cleanup_close int lock_fd = -EBADF;
	char lock[PATH_MAX];

	/* the check would make the lock file; a running server has made it */
	if (dry_run && (str_format(lock, sizeof(lock), "%s-lock", store) < 0 || access(lock, F_OK) < 0))
		return STATUS_OK;
	return kv_lock_sqlite(store, &lock_fd, err);
}

/* Where looking leaves no trace, by a copy. */
static bool look_at_store(const struct places *places, bool dry_run, struct new_epoch *wanted)
{
	struct restore_source store;
	struct error err;
	enum status status;

	if (access(places->store, F_OK) < 0) /* one that is missing would be made to be looked at */
		return false;
	if (!dry_run)
		return new_epoch_look(places->store, wanted, &err) == STATUS_OK;
	status = restore_source_open(places->store, NULL, &store, &err);
	if (status == STATUS_OK) {
		status = bring(&store, places->last, &err);
		restore_source_close(&store);
	}
	return status == STATUS_OK && new_epoch_look(places->last, wanted, &err) == STATUS_OK;
}

static enum status stage(const struct restore_source *source, const struct places *places,
			 struct new_epoch *wanted, struct new_epoch_result *ret, struct error *err)
{
	const char *from = places->brought;
	uint64_t index;
	enum status status = STATUS_OK;

	if (source->kit.n == 0 && access(source->path, R_OK) == 0)
		from = source->path; /* as of one moment, even while it is in use */
	else
		status = bring(source, places->brought, err);
	if (status == STATUS_OK)
		status = kv_copy_sqlite(from, places->staged, &index, err);
	copy_remove(places->brought);
	if (status == STATUS_OK) {
		status = kv_check_copy(places->staged, err);
		if (status != STATUS_OK)
			copy_remove(places->staged);
	}
	if (status != STATUS_OK)
		return status;
	wanted->path = places->staged;
	status = new_epoch_begin(wanted, ret, err);
	if (status != STATUS_OK)
		copy_remove(places->staged);
	return status;
}

/* A copy of the store in etcd, which is replaced, is kept in data_dir. */
static enum status look_at_etcd(const struct config *config, const struct places *places,
				struct new_epoch *wanted, bool *ret_known, struct error *err)
{
	struct etcd_copy_result last;
	char when[CLOCK_TEXT_SIZE];
	char aside[PATH_MAX];
	enum status status =
		etcd_copy_out(&config->etcd, config->cluster, places->last, ETCD_COPY_ALONE, &last, err);

	*ret_known = false;
	if (status != STATUS_OK)
		return status == STATUS_NOT_FOUND || status == STATUS_DATA_LOSS ? STATUS_OK : status;
	(void)str_format(aside, sizeof(aside), "%s.before-restore-%s", places->store,
			 clock_format(wanted->now_ms, when));
	*ret_known = new_epoch_look(places->last, wanted, err) == STATUS_OK;
	if (rename(places->last, aside) < 0)
		return error_set(err, status_from_errno(errno), errno, "move %s to %s", places->last, aside);
	return STATUS_OK;
}

static enum status exchange_in_etcd(const struct config *config, const struct places *places, uint64_t epoch,
				    struct error *err)
{
	struct etcd_copy_result copied;
	enum status status =
		etcd_copy_in(&config->etcd, config->cluster, places->staged, true, NULL, &copied, err);

	copy_remove(places->staged);
	if (status == STATUS_OK)
		status = new_epoch_forget_decision(config->data_dir, err);
	return status == STATUS_OK ? marks_note_restore(config, epoch, err) : status;
}

static enum status exchange(const struct config *config, const struct places *places,
			    const struct new_epoch *wanted, uint64_t epoch, struct error *err)
{
	bool is_done;

	TRY(store_swap_decide(config->data_dir, places->staged, wanted->now_ms, err));
	TRY(store_swap_finish(config->data_dir, &is_done, err));
	TRY(new_epoch_forget_decision(config->data_dir, err));
	return marks_note_restore(config, epoch, err);
}

static enum status check_place(const struct config *config, const char *store, bool dry_run,
			       struct error *err)
{
	bool is_done;
	enum status status;

	if (dry_run && access(config->data_dir, F_OK) < 0)
		return STATUS_OK;
	status = restore_check_user(config->data_dir, "--restore FILE", err);
	if (status == STATUS_OK)
		status = refuse_running(store, dry_run, err);
	if (status == STATUS_OK && !dry_run)
		status = store_swap_finish(config->data_dir, &is_done, err); /* an earlier one goes first */
	return status == STATUS_DATA_LOSS ? STATUS_OK
					  : status; /* or cannot be read, and this one takes its place */
}

enum status restore_offline(const struct config *config, const struct restore_source *source,
			    bool other_cluster, bool dry_run, struct new_epoch_result *ret, struct error *err)
{
	struct new_epoch wanted = {
		.cluster = config->cluster,
		.other_cluster = other_cluster,
		.now_ms = clock_realtime_ms(),
		.restored_from = "with holdfast-server --restore",
	};
	struct new_epoch_result result;
	struct places places = {.store = ""};
	bool is_known = false;
	enum status status = STATUS_OK;

	(void)str_format(places.store, sizeof(places.store), "%s/" SERVER_STORE, config->data_dir);
	TRY(check_place(config, places.store, dry_run, err));
	TRY(name_places(config->data_dir, dry_run, &places, err));
	if (config_is_on_etcd(config) && !dry_run)
		status = look_at_etcd(config, &places, &wanted, &is_known, err);
	else
		is_known = look_at_store(&places, dry_run, &wanted);
	if (status != STATUS_OK)
		return status;
	if (!is_known)
		wanted.known_epoch = EPOCH_UNKNOWN; /* that is why there is a restore */
	marks_raise(config, &wanted);
	new_epoch_look_at_decision(config->data_dir, &wanted);
	status = stage(source, &places, &wanted, &result, err);
	if (status != STATUS_OK && err)
		(void)error_prefix(err, "the copy %s", source->path);
	if (status == STATUS_OK && !dry_run)
		status = config_is_on_etcd(config) ? exchange_in_etcd(config, &places, result.epoch, err)
						   : exchange(config, &places, &wanted, result.epoch, err);
	if (dry_run) {
		copy_remove(places.last);
		copy_remove(places.staged);
		(void)rmdir(places.folder);
	}
	if (status == STATUS_OK)
		*ret = result;
	return status;
}
