/* SPDX-License-Identifier: Apache-2.0 */
#include "service/dir.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/id.h"
#include "base/str.h"
#include "log/log.h"
#include "model/volume.h"
#include "rpc/timer.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/un.h>

#define SUFFIX ".sock"

enum { SUN_PATH_SIZE = sizeof(((struct sockaddr_un *)0)->sun_path) };

/* Returns whether a fault is new and must be reported. Remembers it. */
static bool scan_is_new_fault(struct scan_reported *reported, enum scan_fault fault, const char *name)
{
	uint64_t hash = str_hash(1, name);

	if (reported->hashes[fault] == hash)
		return false;
	reported->hashes[fault] = hash;
	return true;
}

static int open_folder(int at, const char *path, int flags, DIR **ret)
{
	cleanup_close int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);

	if (fd < 0)
		return -errno;
	*ret = fdopendir(fd);
	if (!*ret)
		return -errno;
	(void)TAKE_FD(fd);
	return 0;
}

/* Finds the next name that does not begin with a dot. Names with a dot count as well: reading them takes as
 * long. Returns 1; 0: the last one was read, or there are too many; or a negative errno. */
static int next_name(DIR *dir, size_t *n, bool *ret_too_many, const char **ret)
{
	const struct dirent *entry;
	int r;

	while ((r = folder_next(dir, &entry)) > 0) {
		if (++*n > SERVICE_DIR_ENTRIES_MAX) {
			*ret_too_many = true;
			return 0;
		}
		*ret = entry->d_name;
		if (entry->d_name[0] != '.')
			return 1;
	}
	return r;
}

/* @id NULL: of all of them */
static void log_too_many(struct scan_reported *reported, const char *id, const char *what, unsigned int max)
{
	const struct log_ctx ctx = service_log_ctx(reported->kind, id);

	if (scan_is_new_fault(reported, SCAN_TOO_MANY, what))
		log_ctx(LOG_WARNING, &ctx, "more than %u %s of %s%s%s, ignoring the others", max, what,
			id ? "the " : "", reported->kind->noun, id ? "" : "s");
}

static bool is_folder(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* PLUGIN_NATIVE is the mount helper's. */
static bool is_id(const struct scan_reported *reported, const char *name)
{
	return (reported->kind->is_driver ? id_is_label(name) : id_is_plugin(name)) &&
	       !str_eq(name, PLUGIN_NATIVE);
}

static void log_bad_name(struct scan_reported *reported, const char *path, const char *name)
{
	const struct log_ctx ctx = service_log_ctx(reported->kind, NULL);

	if (scan_is_new_fault(reported, SCAN_BAD_NAME, name))
		log_ctx(LOG_WARNING, &ctx,
			"'%.64s' in %s is no %s id, ignoring it: an id is 1 to 63 of a-z, 0-9%s, and not "
			"'" PLUGIN_NATIVE "'",
			name, path, reported->kind->noun,
			reported->kind->is_driver ? " and -" : ", - and, between letters and digits, dots");
}

/* Call @see for each folder in @path whose name is an id, at most SERVICE_DIR_FOLDERS_MAX times.
 * Returns 0 or a negative errno. */
static int scan_folders(const char *path, struct scan_reported *reported,
			void (*see)(const char *id, void *userdata), void *userdata)
{
	cleanup_closedir DIR *dir = NULL;
	bool too_many = false;
	size_t n = 0, n_folders = 0;
	const char *name;
	int r;

	r = open_folder(AT_FDCWD, path, 0, &dir);
	if (r < 0)
		return r;
	assert(dir);
	while ((r = next_name(dir, &n, &too_many, &name)) > 0) {
		if (!is_folder(dirfd(dir), name))
			continue;
		if (!is_id(reported, name)) {
			log_bad_name(reported, path, name);
			continue;
		}
		if (++n_folders > SERVICE_DIR_FOLDERS_MAX)
			break;
		see(name, userdata);
	}
	if (n_folders > SERVICE_DIR_FOLDERS_MAX)
		log_too_many(reported, NULL, "folders", SERVICE_DIR_FOLDERS_MAX);
	if (too_many)
		log_too_many(reported, NULL, "entries in the folder", SERVICE_DIR_ENTRIES_MAX);
	return MIN(r, 0); /* 1: above the limit of folders */
}

static bool has_suffix(const char *name)
{
	size_t n = strlen(name), suffix = strlen(SUFFIX);

	return n > suffix && str_eq(name + n - suffix, SUFFIX);
}

static int64_t nanoseconds(const struct timespec *time)
{
	return time->tv_sec * (int64_t)(USEC_PER_SEC * 1000) + time->tv_nsec;
}

/* Fills in the socket's current state; false: not a socket, or one that cannot be dialled. */
static bool read_socket(int dir_fd, const char *path, const char *id, const char *name,
			struct scan_reported *reported, struct service_socket *ret)
{
	const struct log_ctx ctx = service_log_ctx(reported->kind, id);
	struct stat st;

	if (!has_suffix(name) || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	if (strlen(path) + strlen(id) + strlen(name) + 2 >= SUN_PATH_SIZE || !str_is_text(name) ||
	    str_copy(ret->name, sizeof(ret->name), name) < 0) {
		if (scan_is_new_fault(reported, SCAN_BAD_NAME, name))
			log_ctx(LOG_WARNING, &ctx,
				"the path of socket '%.255s' is above %d bytes or its name above %d, "
				"ignoring it",
				name, SUN_PATH_SIZE - 1, SERVICE_SOCKET_NAME_SIZE - 1);
		return false;
	}
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	ret->born_ns = nanoseconds(&st.st_mtim);
	ret->changed_ns = nanoseconds(&st.st_ctim);
	return true;
}

static bool is_older(const struct service_socket *a, const struct service_socket *b)
{
	return a->born_ns != b->born_ns ? a->born_ns < b->born_ns : strcmp(a->name, b->name) < 0;
}

/* Keep @list sorted; a full one loses its oldest. */
static void insert(struct service_socket list[static REGISTRY_MAX], size_t *n,
		   const struct service_socket *one)
{
	size_t at = 0;

	while (at < *n && is_older(&list[at], one))
		at++;
	if (*n == REGISTRY_MAX) {
		if (at == 0)
			return;
		at--;
		memmove(&list[0], &list[1], at * sizeof(list[0]));
	} else {
		memmove(&list[at + 1], &list[at], (*n - at) * sizeof(list[0]));
		++*n;
	}
	list[at] = *one;
}

static void log_unreadable(struct scan_reported *reported, const char *id, int r)
{
	const struct log_ctx ctx = service_log_ctx(reported->kind, id);

	if (r != -ENOENT && scan_is_new_fault(reported, SCAN_UNREADABLE, id))
		log_ctx(LOG_WARNING, &ctx,
			"the %s's folder cannot be read (%s): the agent needs r-x on it, see "
			"holdfast-agent(8)",
			reported->kind->noun, strerror(-r));
}

int scan_sockets(const char *path, const char *id, struct scan_reported *reported,
		 struct service_socket ret[static REGISTRY_MAX], size_t *ret_n)
{
	cleanup_closedir DIR *root = NULL;
	cleanup_closedir DIR *dir = NULL;
	struct service_socket one = {0};
	bool too_many = false;
	size_t n = 0, n_sockets = 0;
	const char *name;
	int r;

	r = open_folder(AT_FDCWD, path, 0, &root);
	if (r >= 0) {
		assert(root);
		r = open_folder(dirfd(root), id, O_NOFOLLOW, &dir);
	}
	if (r < 0) {
		log_unreadable(reported, id, r);
		return r;
	}
	assert(dir);
	*ret_n = 0;
	while ((r = next_name(dir, &n, &too_many, &name)) > 0) {
		if (!read_socket(dirfd(dir), path, id, name, reported, &one))
			continue;
		n_sockets++;
		insert(ret, ret_n, &one);
	}
	if (n_sockets > REGISTRY_MAX)
		log_too_many(reported, id, "sockets (the newest are used)", REGISTRY_MAX);
	if (too_many)
		log_too_many(reported, id, "entries in the folder", SERVICE_DIR_ENTRIES_MAX);
	return r;
}

#define WATCHED                                                                                            \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | \
	 IN_ONLYDIR | IN_DONT_FOLLOW)

struct folder {
	char id[SERVICE_SOCKET_NAME_SIZE];
	sd_event_source *watch; /* NULL: the slot is free */
	struct service_dir *dir;
	bool is_due;  /* to be looked at */
	bool is_seen; /* in the scan that runs */
	bool is_dead; /* the watch is of a folder that is no longer there; another one may be */
	struct scan_reported reported;
};

struct service_dir {
	sd_event *event; /* borrowed */
	const char *path;
	const struct service_dir_events *events;
	void *userdata;
	sd_event_source *watch; /* NULL: not open */
	sd_event_source *timer; /* the next look */
	sd_event_source *sweep;
	bool is_due;  /* the folder of folders itself */
	int reported; /* errno of why it is not open, once logged */
	struct scan_reported scan_reported;
	struct folder folders[SERVICE_DIR_FOLDERS_MAX];
};

/* The timer is what makes anything continue: without it the next event tries again. */
static void look_within(struct service_dir *dir, uint64_t delay_us);

static void look_soon(struct service_dir *dir)
{
	look_within(dir, SERVICE_DIR_SETTLE_MS * USEC_PER_MSEC);
}

static void look_everywhere(struct service_dir *dir)
{
	dir->is_due = true;
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++)
		dir->folders[i].is_due = dir->folders[i].watch != NULL;
	look_soon(dir);
}

static int on_folder_event(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct folder *folder = userdata;

	(void)source; /* an overflow of events reaches every watch, that of the folder of folders too */
	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT))
		folder->is_dead = folder->dir->is_due = true;
	folder->is_due = true;
	look_soon(folder->dir);
	return 0;
}

static void close_folder(struct folder *folder)
{
	char id[SERVICE_SOCKET_NAME_SIZE];
	struct service_dir *dir = folder->dir;

	memcpy(id, folder->id, sizeof(id));
	folder->watch = sd_event_source_disable_unref(folder->watch);
	*folder = (struct folder){0};
	dir->events->on_gone(id, dir->userdata);
}

static struct folder *find_folder(struct service_dir *dir, const char *id)
{
	struct folder *free_slot = NULL;

	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++) {
		if (!dir->folders[i].watch)
			free_slot = free_slot ? free_slot : &dir->folders[i];
		else if (str_eq(dir->folders[i].id, id))
			return &dir->folders[i];
	}
	return free_slot;
}

static void log_unwatched(struct service_dir *dir, const char *id, const char *path, int r)
{
	struct log_ctx ctx = service_log_ctx(dir->scan_reported.kind, id);
	struct error err;

	(void)error_set(&err, status_from_errno(r), r, "cannot watch %s", path);
	ctx.err = &err;
	if (scan_is_new_fault(&dir->scan_reported, SCAN_UNREADABLE, id))
		log_ctx(LOG_WARNING, &ctx, "the folder of a %s is not watched, ignoring it until it can be",
			dir->scan_reported.kind->noun);
}

/* A folder of the scan: watch it unless it is. Watched first, looked at afterwards: nothing is missed. */
static void see_folder(const char *id, void *userdata)
{
	struct service_dir *dir = userdata;
	struct folder *folder = find_folder(dir, id);
	char path[PATH_MAX];
	sd_event_source *watch = NULL;
	int r;

	if (folder && folder->watch) {
		folder->is_seen = true;
		return;
	}
	if (!folder || str_format(path, sizeof(path), "%s/%s", dir->path, id) < 0)
		return;
	r = sd_event_add_inotify(dir->event, &watch, path, WATCHED, on_folder_event, folder);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
		return; /* gone meanwhile, or no folder at all */
	if (r < 0) {
		log_unwatched(dir, id, path, r);
		return;
	}
	*folder = (struct folder){.watch = watch,
				  .dir = dir,
				  .is_due = true,
				  .is_seen = true,
				  .reported.kind = dir->scan_reported.kind};
	(void)str_copy(folder->id, sizeof(folder->id), id);
}

static void scan_root(struct service_dir *dir)
{
	int r;

	dir->is_due = false;
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++)
		dir->folders[i].is_seen = false;
	r = scan_folders(dir->path, &dir->scan_reported, see_folder, dir);
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++) {
		struct folder *folder = &dir->folders[i];

		/* one that cannot be read now is no reason to take its plugins for gone */
		if (folder->watch && !folder->is_seen && r >= 0)
			close_folder(folder);
	}
	if (r >= 0)
		dir->events->on_scanned(dir->userdata);
}

static void scan_one(struct folder *folder)
{
	struct service_socket sockets[REGISTRY_MAX];
	struct service_dir *dir = folder->dir;
	size_t n = 0;
	int r;

	folder->is_due = false;
	r = scan_sockets(dir->path, folder->id, &folder->reported, sockets, &n);
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
		close_folder(folder);
		return;
	}
	if (r >= 0)
		dir->events->on_folder(folder->id, sockets, n, dir->userdata);
}

static int on_root_event(sd_event_source *source, const struct inotify_event *event, void *userdata)
{
	struct service_dir *dir = userdata;

	if (event->mask & IN_Q_OVERFLOW) {
		look_everywhere(dir);
		return 0;
	}
	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT))
		/* another one may be in its place */
		dir->watch = sd_event_source_disable_unref(dir->watch);
	dir->is_due = true;
	look_soon(dir);
	return 0;
}

/* Closes the watched folders: they are gone with the root. */
static void close_root(struct service_dir *dir)
{
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++) {
		if (dir->folders[i].watch)
			close_folder(&dir->folders[i]);
	}
}

static void log_not_open(const struct service_dir *dir, int r)
{
	const char *noun = dir->scan_reported.kind->noun;
	struct log_ctx ctx = service_log_ctx(dir->scan_reported.kind, NULL);
	struct error err;

	if (r == dir->reported)
		return;
	(void)error_set(&err, status_from_errno(r), r, "cannot watch %s (%s_dir)", dir->path, noun);
	ctx.err = &err;
	log_ctx(r == -ENOENT ? LOG_INFO : LOG_WARNING, &ctx,
		"no %s is found until the folder is there and can be read; to make it: "
		"systemd-tmpfiles --create holdfast-agent.conf",
		noun);
}

static void log_open(const struct service_dir *dir)
{
	const struct log_ctx ctx = service_log_ctx(dir->scan_reported.kind, NULL);

	if (dir->reported != 0)
		log_ctx(LOG_NOTICE, &ctx, "the folder of %ss, %s, is watched now",
			dir->scan_reported.kind->noun, dir->path);
}

static bool open_root(struct service_dir *dir)
{
	int r;

	if (dir->watch)
		return true;
	r = sd_event_add_inotify(dir->event, &dir->watch, dir->path, WATCHED & ~(uint32_t)IN_DONT_FOLLOW,
				 on_root_event, dir);
	if (r >= 0) {
		log_open(dir);
		dir->reported = 0;
		dir->is_due = true;
		return true;
	}
	dir->watch = NULL;
	log_not_open(dir, r);
	dir->reported = r;
	close_root(dir);
	return false;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_dir *dir = userdata;

	if (!open_root(dir)) {
		look_within(dir, SERVICE_DIR_RETRY_MS * USEC_PER_MSEC);
		return 0;
	}
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++) {
		if (dir->folders[i].watch && dir->folders[i].is_dead)
			close_folder(&dir->folders[i]);
	}
	if (dir->is_due)
		scan_root(dir);
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++) {
		if (dir->folders[i].watch && dir->folders[i].is_due)
			scan_one(&dir->folders[i]);
	}
	return 0;
}

static void look_within(struct service_dir *dir, uint64_t delay_us)
{
	int enabled = SD_EVENT_OFF;

	/* the first event of many begins the delay */
	if (dir->timer && sd_event_source_get_enabled(dir->timer, &enabled) >= 0 && enabled != SD_EVENT_OFF)
		return;
	(void)timer_arm(dir->event, &dir->timer, delay_us, on_look, dir); /* else upon the next event */
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_dir *dir = userdata;

	look_everywhere(dir);
	(void)timer_arm(dir->event, &dir->sweep, SERVICE_DIR_SWEEP_MS * USEC_PER_MSEC, on_sweep, dir);
	return 0;
}

enum status service_dir_new(sd_event *event, const struct service_kind *kind, const char *path,
			    const struct service_dir_events *events, void *userdata, struct service_dir **ret,
			    struct error *err)
{
	struct service_dir *dir = calloc(1, sizeof(*dir));

	if (!dir)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot watch %s", path);
	dir->event = event;
	dir->scan_reported.kind = kind;
	dir->path = path;
	dir->events = events;
	dir->userdata = userdata;
	*ret = dir;
	return STATUS_OK;
}

bool service_dir_is_missing(const struct service_dir *dir)
{
	return !dir->watch && dir->reported != 0;
}

enum status service_dir_start(struct service_dir *dir, struct error *err)
{
	int r = timer_arm(dir->event, &dir->timer, 0, on_look, dir);

	if (r >= 0)
		r = timer_arm(dir->event, &dir->sweep, SERVICE_DIR_SWEEP_MS * USEC_PER_MSEC, on_sweep, dir);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot watch %s", dir->path);
	return STATUS_OK;
}

void service_dir_free(struct service_dir *dir)
{
	if (!dir)
		return;
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++)
		sd_event_source_disable_unref(dir->folders[i].watch);
	sd_event_source_disable_unref(dir->watch);
	sd_event_source_disable_unref(dir->timer);
	sd_event_source_disable_unref(dir->sweep);
	free(dir);
}

bool service_dir_is_open(const struct service_dir *dir)
{
	return dir->watch != NULL;
}

void service_dir_look(struct service_dir *dir, const char *plugin_id)
{
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++) {
		struct folder *folder = &dir->folders[i];

		if (folder->watch && str_eq(folder->id, plugin_id)) {
			folder->is_due = true;
			look_soon(dir);
		}
	}
}

bool service_dir_has(const struct service_dir *dir, const char *plugin_id)
{
	for (size_t i = 0; i < SERVICE_DIR_FOLDERS_MAX; i++) {
		if (dir->folders[i].watch && str_eq(dir->folders[i].id, plugin_id))
			return true;
	}
	return false;
}
