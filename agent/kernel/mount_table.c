/* SPDX-License-Identifier: Apache-2.0 */
/* The mount table of this process's namespace: which mounts there are by their ids where the kernel has calls
 * for one mount (Linux 6.8), by /proc/self/mountinfo where it has not. */
#include "kernel/mount_table.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mountinfo.h"
#include "base/str.h"
#include "base/sys.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libmount/libmount.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/sysmacros.h>

#define MOUNTINFO_PATH "/proc/self/mountinfo"

/* One mount. */
struct point {
	char *path;
	uint64_t id;		 /* never given again, and the kernel is asked about it; */
	struct mount_view *view; /* or what mountinfo showed */
};

enum {
	IDS_AT_ONCE = 512,
	LONG_SIZE = sizeof(((struct sys_statmount *)0)->strings) + 64,
	LONG_MAX_DEPTH = 64, /* mounts with long paths, each on the one before */
	READ_AGAIN_S = 60,   /* a mount that was moved here has an id that was seen elsewhere */
};

struct mount_table {
	int change_fd;	      /* has an exception when a mount has changed since the last look */
	bool is_changed;      /* since it was brought up to date */
	bool is_by_id;	      /* points have ids */
	struct point *points; /* by path, then by id or as they came */
	size_t n_points;
	uint64_t floor; /* every mount with an id up to it is known; */
	uint64_t *ids;	/* those above it, in order */
	size_t n_ids;
	uint64_t read_us; /* monotonic: when it was read whole */
};

DEFINE_CLEANUP(struct libmnt_table, mnt_unref_table)
DEFINE_CLEANUP(struct libmnt_iter, mnt_free_iter)

static void forget_points(struct mount_table *table)
{
	for (size_t i = 0; i < table->n_points; i++) {
		free(table->points[i].path);
		free(table->points[i].view);
	}
	table->n_points = 0;
}

void mount_table_free(struct mount_table *table)
{
	if (!table)
		return;
	forget_points(table);
	close_fdp(&table->change_fd);
	free(table->points);
	free(table->ids);
	free(table);
}

/* The first point whose path is not before @path. */
static size_t lower_bound(const struct mount_table *table, const char *path)
{
	size_t low = 0, high = table->n_points;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(table->points[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Adds a point. @view NULL: it is requested by @id. Compares only the string: resolving links would look at
 * paths that tasks may have changed. */
static int add_point(struct mount_table *table, const char *path, uint64_t id, const struct mount_view *view)
{
	struct point *points = reallocarray(table->points, table->n_points + 1, sizeof(*points));
	struct point point = {.path = strdup(path), .id = id, .view = view ? malloc(sizeof(*view)) : NULL};
	size_t at;

	if (points)
		table->points = points;
	if (!points || !point.path || (view && !point.view)) {
		free(point.path);
		free(point.view);
		return -ENOMEM;
	}
	if (view)
		*point.view = *view;
	at = lower_bound(table, path);
	while (at < table->n_points && str_eq(points[at].path, path) && points[at].id <= id)
		at++;
	memmove(&points[at + 1], &points[at], (table->n_points - at) * sizeof(*points));
	points[at] = point;
	table->n_points++;
	return 0;
}

/* --- by mountinfo --- */

static void view_of_fs(struct libmnt_fs *fs, struct mount_view *ret)
{
	const char *vfs = mnt_fs_get_vfs_options(fs), *own = mnt_fs_get_fs_options(fs);
	const char *options = vfs ? vfs : "", *super = own ? own : "";
	const char *root = mnt_fs_get_root(fs), *type = mnt_fs_get_fstype(fs);

	*ret = (struct mount_view){
		.dev_major = major(mnt_fs_get_devno(fs)),
		.dev_minor = minor(mnt_fs_get_devno(fs)),
		.is_read_only = mount_option_is_set(options, "ro") || mount_option_is_set(super, "ro"),
		.is_nosuid = mount_option_is_set(options, "nosuid"),
		.is_nodev = mount_option_is_set(options, "nodev"),
		.is_noexec = mount_option_is_set(options, "noexec"),
		.is_stopped = mount_option_is_set(super, "ro") || mount_options_show_stop(super),
		.is_unshared = mount_option_is_set(super, "nosharecache"),
	};
	str_copy_text(ret->options, sizeof(ret->options), options);
	/* empty if it does not fit: a part of it would name something else */
	(void)str_copy(ret->root, sizeof(ret->root), root ? root : "");
	(void)str_copy(ret->fs_type, sizeof(ret->fs_type), type ? type : "");
}

static int read_mountinfo(struct mount_table *table, const char *base)
{
	cleanup(mnt_unref_tablep) struct libmnt_table *mounts = mnt_new_table_from_file(MOUNTINFO_PATH);
	cleanup(mnt_free_iterp) struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	struct mount_view view;
	int r;

	if (!mounts || !iter)
		return -ENOMEM;
	while ((r = mnt_table_next_fs(mounts, iter, &fs)) == 0) {
		const char *path = mnt_fs_get_target(fs);

		if (!path || !str_starts_with(path, base))
			continue;
		view_of_fs(fs, &view);
		r = add_point(table, path, 0, &view);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

/* --- by ids --- */

/* Ids of all mounts above @after, in order. */
static int list_ids(uint64_t after, uint64_t **ret, size_t *ret_n)
{
	cleanup_free uint64_t *ids = NULL;
	size_t n = 0;
	ssize_t more;

	do {
		uint64_t *grown = reallocarray(ids, n + IDS_AT_ONCE, sizeof(*ids));

		if (!grown)
			return -ENOMEM;
		ids = grown;
		more = sys_listmount(SYS_LSMT_ROOT, n > 0 ? ids[n - 1] : after, ids + n, IDS_AT_ONCE);
		if (more < 0)
			return (int)more;
		n += (size_t)more;
	} while (more == IDS_AT_ONCE);
	*ret = TAKE_PTR(ids);
	*ret_n = n;
	return 0;
}

/* Where the mount @id is. Returns 0, -ENOENT when it is gone, or another negative errno. */
static int point_of(uint64_t id, struct sys_statmount *st, const char **ret)
{
	int r = sys_statmount(id, SYS_STATMOUNT_MNT_POINT, st);

	if (r < 0)
		return r;
	if ((st->mask & SYS_STATMOUNT_MNT_POINT) == 0 || st->mnt_point >= sizeof(st->strings))
		return -EOPNOTSUPP;
	*ret = st->strings + st->mnt_point;
	return 0;
}

/* The kernel does not print a path of more than 4 KiB. A user gives one to a mount, as of FUSE, by renaming
 * folders above it; nothing of ours has one. So it counts as below the mount that it is on: @ret. Another
 * mount on 64 such mounts is left out, -ENOENT: where it is, those are. */
static int long_point_of(uint64_t id, struct sys_statmount *st, char ret[static LONG_SIZE])
{
	uint64_t at = id;
	const char *path = NULL;
	int r = -EOVERFLOW;

	for (int i = 0; r == -EOVERFLOW && i < LONG_MAX_DEPTH; i++) {
		r = sys_statmount(at, SYS_STATMOUNT_MNT_BASIC, st);
		at = st->mnt_parent_id;
		if (r == 0)
			r = point_of(at, st, &path);
	}
	if (r < 0)
		return r == -EOVERFLOW ? -ENOENT : r;
	return str_format(ret, LONG_SIZE, "%s/(mount %" PRIu64 ")", path, id) < 0 ? -EOVERFLOW : 0;
}

static int add_if_below(struct mount_table *table, uint64_t id, const char *base)
{
	char long_path[LONG_SIZE];
	struct sys_statmount st;
	const char *path;
	int r = point_of(id, &st, &path);

	if (r == -EOVERFLOW) {
		r = long_point_of(id, &st, long_path);
		path = long_path;
	}
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return str_starts_with(path, base) ? add_point(table, path, id, NULL) : 0;
}

/* Adds the new mounts below @base. */
static int read_new(struct mount_table *table, const char *base)
{
	uint64_t *ids = NULL;
	size_t n = 0, known = 0;
	int r = list_ids(table->floor, &ids, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		while (known < table->n_ids && table->ids[known] < ids[i])
			known++;
		if (known == table->n_ids || table->ids[known] != ids[i])
			r = add_if_below(table, ids[i], base);
	}
	free(table->ids);
	table->ids = ids;
	table->n_ids = n;
	return r;
}

/* A mount has its id before it is attached. So those of calls that have not ended are looked for again. */
static void raise_floor(struct mount_table *table, uint64_t settled)
{
	size_t n = 0;

	table->floor = MAX(table->floor, MIN(settled, mount_table_last(table)));
	while (n < table->n_ids && table->ids[n] <= table->floor)
		n++;
	table->n_ids -= n;
	memmove(table->ids, table->ids + n, table->n_ids * sizeof(*table->ids));
}

uint64_t mount_table_last(const struct mount_table *table)
{
	return !table ? 0 : table->n_ids > 0 ? table->ids[table->n_ids - 1] : table->floor;
}

static int read_whole(struct mount_table *table, const char *base)
{
	int r;

	forget_points(table);
	table->floor = table->n_ids = 0;
	table->read_us = clock_monotonic_us();
	r = read_new(table, base);
	table->is_by_id = r == 0;
	if (table->is_by_id)
		return 0;
	forget_points(table);
	table->floor = table->n_ids = 0;
	return read_mountinfo(table, base);
}

static struct mount_table *table_new(void)
{
	struct mount_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->change_fd = open(MOUNTINFO_PATH, O_RDONLY | O_CLOEXEC);
	table->is_changed = true;
	return table;
}

static bool has_changed(struct mount_table *table)
{
	struct pollfd change = {.fd = table->change_fd, .events = POLLPRI};

	/* a change after this look is an exception of the next one */
	if (poll(&change, 1, 0) != 0)
		table->is_changed = true;
	return table->is_changed;
}

enum status mount_table_refresh(struct mount_table **table, const char *base, uint64_t settled,
				struct error *err)
{
	cleanup(mount_table_freep) struct mount_table *made = *table ? NULL : table_new();
	struct mount_table *now = *table ? *table : made;
	int r = !now ? -ENOMEM : now->change_fd < 0 ? -EBADF : 0;

	if (r == 0 && has_changed(now)) {
		bool is_known =
			now->is_by_id && clock_monotonic_us() < now->read_us + READ_AGAIN_S * USEC_PER_SEC;

		r = is_known ? read_new(now, base) : -ESTALE;
		if (r < 0)
			r = read_whole(now, base);
		now->is_changed = r < 0;
		if (r == 0 && now->is_by_id)
			raise_floor(now, settled);
	}
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot read the mount table %s", MOUNTINFO_PATH);
	*table = now;
	made = NULL;
	return STATUS_OK;
}

enum status mount_table_read(struct mount_table **ret, struct error *err)
{
	*ret = NULL;
	return mount_table_refresh(ret, "/", 0, err);
}

/* --- looks at the table --- */

/* Unknown counts as there. */
static bool is_there(const struct point *point)
{
	struct sys_statmount st;
	const char *path;
	int r = point->view ? 0 : point_of(point->id, &st, &path);

	return r != -ENOENT && (point->view || r < 0 || str_eq(path, point->path));
}

/* As mountinfo prints them. */
static void print_options(uint64_t attributes, char ret[static MOUNT_OPTIONS_SIZE])
{
	static const struct {
		uint64_t mask, attribute;
		const char *word;
	} words[] = {
		{SYS_MOUNT_ATTR_RDONLY, 0, "rw"},
		{SYS_MOUNT_ATTR_RDONLY, SYS_MOUNT_ATTR_RDONLY, "ro"},
		{SYS_MOUNT_ATTR_NOSUID, SYS_MOUNT_ATTR_NOSUID, ",nosuid"},
		{SYS_MOUNT_ATTR_NODEV, SYS_MOUNT_ATTR_NODEV, ",nodev"},
		{SYS_MOUNT_ATTR_NOEXEC, SYS_MOUNT_ATTR_NOEXEC, ",noexec"},
		{SYS_MOUNT_ATTR_ATIME, SYS_MOUNT_ATTR_NOATIME, ",noatime"},
		{SYS_MOUNT_ATTR_NODIRATIME, SYS_MOUNT_ATTR_NODIRATIME, ",nodiratime"},
		{SYS_MOUNT_ATTR_ATIME, 0, ",relatime"},
		{SYS_MOUNT_ATTR_NOSYMFOLLOW, SYS_MOUNT_ATTR_NOSYMFOLLOW, ",nosymfollow"},
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if ((attributes & words[i].mask) == words[i].attribute)
			n += (size_t)str_format(ret + n, MOUNT_OPTIONS_SIZE - n, "%s", words[i].word);
	}
}

/* Since Linux 6.11 statmount() has the options of the file system; "" before. */
static const char *options_of(uint64_t id, struct sys_statmount *st)
{
	bool has_options = sys_statmount(id, SYS_STATMOUNT_MNT_OPTS, st) == 0 &&
			   (st->mask & SYS_STATMOUNT_MNT_OPTS) != 0 && st->mnt_opts < sizeof(st->strings);

	return has_options ? st->strings + st->mnt_opts : "";
}

static bool ask(uint64_t id, struct mount_view *ret)
{
	const uint64_t mask = SYS_STATMOUNT_SB_BASIC | SYS_STATMOUNT_MNT_BASIC | SYS_STATMOUNT_FS_TYPE;
	struct sys_statmount st;
	const char *own;

	if (sys_statmount(id, mask, &st) < 0 || (st.mask & mask) != mask || st.fs_type >= sizeof(st.strings))
		return false;
	*ret = (struct mount_view){
		.dev_major = st.sb_dev_major,
		.dev_minor = st.sb_dev_minor,
		.is_read_only = ((st.mnt_attr | st.sb_flags) & SYS_MOUNT_ATTR_RDONLY) != 0,
		.is_nosuid = (st.mnt_attr & SYS_MOUNT_ATTR_NOSUID) != 0,
		.is_nodev = (st.mnt_attr & SYS_MOUNT_ATTR_NODEV) != 0,
		.is_noexec = (st.mnt_attr & SYS_MOUNT_ATTR_NOEXEC) != 0,
	};
	print_options(st.mnt_attr, ret->options);
	(void)str_copy(ret->fs_type, sizeof(ret->fs_type), st.strings + st.fs_type);
	ret->is_stopped = (st.sb_flags & SYS_MOUNT_ATTR_RDONLY) != 0;
	own = options_of(id, &st);
	ret->is_stopped = ret->is_stopped || mount_options_show_stop(own);
	ret->is_unshared = mount_option_is_set(own, "nosharecache");
	if (sys_statmount(id, SYS_STATMOUNT_MNT_ROOT, &st) == 0 && (st.mask & SYS_STATMOUNT_MNT_ROOT) != 0 &&
	    st.mnt_root < sizeof(st.strings))
		(void)str_copy(ret->root, sizeof(ret->root), st.strings + st.mnt_root);
	return true;
}

enum status mount_table_find(const struct mount_table *table, const char *path, struct mount_view *ret,
			     struct error *err)
{
	bool is_found = false;

	for (size_t i = lower_bound(table, path); i < table->n_points; i++) {
		const struct point *point = &table->points[i];

		if (!str_eq(point->path, path))
			break;
		if (point->view)
			*ret = *point->view;
		is_found = (is_there(point) && (point->view || ask(point->id, ret))) || is_found;
	}
	return is_found ? STATUS_OK : error_set(err, STATUS_NOT_FOUND, 0, "nothing is mounted at %s", path);
}

void mount_table_count(const struct mount_table *table, const char *path, struct mount_count *ret)
{
	char below[PATH_MAX];
	const char *before = "";

	*ret = (struct mount_count){0};
	for (size_t i = lower_bound(table, path); i < table->n_points; i++) {
		if (!str_eq(table->points[i].path, path))
			break;
		ret->here += is_there(&table->points[i]);
	}
	if (str_format(below, sizeof(below), "%s/", path) < 0)
		return; /* longer than any mount point */
	for (size_t i = lower_bound(table, below); i < table->n_points; i++) {
		const char *point = table->points[i].path;

		if (!str_starts_with(point, below))
			break;
		if (!is_there(&table->points[i]))
			continue;
		if (str_eq(point, before))
			str_copy_text(ret->stacked, sizeof(ret->stacked), point);
		before = point;
		ret->below++;
	}
}
