/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/mount_table.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <libmount/libmount.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#define MOUNTINFO_PATH "/proc/self/mountinfo"

/* One mount point; of several mounts there, the topmost. */
struct point {
	const char *path; /* of the mount */
	struct libmnt_fs *fs;
	size_t order;
};

/* A mount of the namespace. */
struct listed {
	uint64_t id; /* never given again */
	int old_id;  /* as mountinfo has it, of one of the points; 0: it is none */
};

enum { IDS_AT_ONCE = 4096 };

struct mount_table {
	struct libmnt_monitor *monitor; /* tells whether the kernel's has changed */
	struct libmnt_table *mounts;
	struct point *points; /* by path, then as they came */
	size_t n_points;
	struct listed *listed; /* all mounts, by id; NULL: not known, as before Linux 6.8 */
	size_t n_listed;
};

DEFINE_CLEANUP(struct mount_table, mount_table_free)
DEFINE_CLEANUP(struct libmnt_iter, mnt_free_iter)

static int compare_points(const void *a, const void *b)
{
	const struct point *left = a, *right = b;
	int order = strcmp(left->path, right->path);

	return order ? order : (left->order > right->order) - (left->order < right->order);
}

/* By the string alone: resolving links would look at paths that tasks may have changed. */
static int make_index(struct mount_table *table)
{
	cleanup(mnt_free_iterp) struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	int n = mnt_table_get_nents(table->mounts);
	struct libmnt_fs *fs;

	table->points = calloc((size_t)n + 1, sizeof(*table->points));
	if (!iter || !table->points)
		return -ENOMEM;
	while (mnt_table_next_fs(table->mounts, iter, &fs) == 0) {
		const char *path = mnt_fs_get_target(fs);

		if (!path)
			continue;
		table->points[table->n_points] = (struct point){path, fs, table->n_points};
		table->n_points++;
	}
	qsort(table->points, table->n_points, sizeof(*table->points), compare_points);
	return 0;
}

/* Does the mount point of a line, its fifth word, begin with @base? Both with the kernel's escapes. */
static bool is_below(const char *line, const char *base)
{
	for (int word = 1; word < 5; word++) {
		line = strchr(line, ' ');
		if (!line)
			return false;
		line++;
	}
	return str_starts_with(line, base);
}

/* Lines of the few of thousands of mounts that are asked about, before more is made of them. */
static int filter_lines(FILE *in, FILE *out, const char *base)
{
	cleanup_free char *line = NULL;
	size_t size = 0;
	ssize_t n;

	while ((n = getline(&line, &size, in)) > 0) {
		if (is_below(line, base) && fwrite(line, (size_t)n, 1, out) != 1)
			return -ENOMEM;
	}
	return ferror(in) ? -EIO : 0;
}

static int read_below(struct mount_table *table, const char *base)
{
	cleanup_free char *escaped = mnt_mangle(base), *text = NULL;
	cleanup_fclose FILE *in = fopen(MOUNTINFO_PATH, "re");
	size_t n = 0;
	FILE *out = in ? open_memstream(&text, &n) : NULL;
	int r;

	if (!out || !escaped) {
		r = -errno;
		fclosep(&out);
		/* cppcheck-suppress resourceLeak ; in is closed by its attribute */
		return r;
	}
	r = filter_lines(in, out, escaped);
	if (fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r < 0 || n == 0)
		return r;
	(void)fclose(in);
	in = fmemopen(text, n, "r");
	if (!in)
		return -errno;
	return mnt_table_parse_stream(table->mounts, in, MOUNTINFO_PATH) == 0 ? 0 : -EBADMSG;
}

/* @base NULL: all */
static int read_mounts(struct mount_table *table, const char *base)
{
	int r;

	table->mounts = base ? mnt_new_table() : mnt_new_table_from_file(MOUNTINFO_PATH);
	if (!table->mounts)
		return -errno;
	r = base ? read_below(table, base) : 0;
	return r < 0 ? r : make_index(table);
}

static int watch_mounts(struct mount_table *table)
{
	int r;

	table->monitor = mnt_new_monitor();
	if (!table->monitor)
		return -ENOMEM;
	r = mnt_monitor_enable_kernel(table->monitor, 1);
	if (r < 0)
		return r;
	return mnt_monitor_get_fd(table->monitor) < 0 ? -EIO : 0;
}

/* --- which mounts there are --- */

static int list_mounts(struct mount_table *table)
{
	cleanup_free uint64_t *ids = malloc(IDS_AT_ONCE * sizeof(*ids));
	uint64_t after = 0;
	ssize_t n;

	if (!ids)
		return -ENOMEM;
	do {
		struct listed *listed;

		n = sys_listmount(SYS_LSMT_ROOT, after, ids, IDS_AT_ONCE);
		if (n < 0)
			return (int)n;
		listed = reallocarray(table->listed, table->n_listed + (size_t)n + 1, sizeof(*listed));
		if (!listed)
			return -ENOMEM;
		table->listed = listed;
		for (ssize_t i = 0; i < n; i++)
			listed[table->n_listed++] = (struct listed){.id = ids[i]};
		after = n > 0 ? ids[n - 1] : after;
	} while (n == IDS_AT_ONCE);
	return 0;
}

static void forget_mounts(struct mount_table *table)
{
	free(table->listed);
	table->listed = NULL;
	table->n_listed = 0;
}

static int compare_ids(const void *a, const void *b)
{
	const int *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Which of those that are listed the points are. What is gone meanwhile is none. */
static int match_points(struct mount_table *table)
{
	cleanup_free int *ids = calloc(table->n_points + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < table->n_points; i++)
		ids[i] = mnt_fs_get_id(table->points[i].fs);
	qsort(ids, table->n_points, sizeof(*ids), compare_ids);
	for (size_t i = 0; table->n_points > 0 && i < table->n_listed; i++) {
		struct sys_statmount st;
		int r = sys_statmount(table->listed[i].id, SYS_STATMOUNT_MNT_BASIC, &st);
		int id = r == 0 ? (int)st.mnt_id_old : 0;

		if (r < 0 && r != -ENOENT)
			return r;
		if (r == 0 && bsearch(&id, ids, table->n_points, sizeof(*ids), compare_ids))
			table->listed[i].old_id = id;
	}
	return 0;
}

/* What cannot be told is below. */
static bool is_mounted_below(uint64_t id, const char *base)
{
	struct sys_statmount st;
	int r = sys_statmount(id, SYS_STATMOUNT_MNT_POINT, &st);

	if (r == -ENOENT)
		return false;
	if (r < 0 || (st.mask & SYS_STATMOUNT_MNT_POINT) == 0 || st.mnt_point >= sizeof(st.strings))
		return true;
	return str_starts_with(st.strings + st.mnt_point, base);
}

static void remove_point(struct mount_table *table, int old_id)
{
	size_t n = 0;

	for (size_t i = 0; i < table->n_points; i++)
		if (mnt_fs_get_id(table->points[i].fs) != old_id)
			table->points[n++] = table->points[i];
	table->n_points = n;
}

/* Make @now, which was listed after it, what @table knows; false, with nothing done, when there is a mount
 * below
 * @base that @table does not have. */
static bool follow(struct mount_table *table, struct mount_table *now, const char *base)
{
	size_t old = 0;

	for (size_t i = 0; i < now->n_listed; i++) {
		while (old < table->n_listed && table->listed[old].id < now->listed[i].id)
			old++;
		if (old < table->n_listed && table->listed[old].id == now->listed[i].id)
			now->listed[i].old_id = table->listed[old].old_id;
		else if (is_mounted_below(now->listed[i].id, base))
			return false;
	}
	old = 0;
	for (size_t i = 0; i < table->n_listed; i++) {
		while (old < now->n_listed && now->listed[old].id < table->listed[i].id)
			old++;
		if (table->listed[i].old_id != 0 &&
		    (old == now->n_listed || now->listed[old].id != table->listed[i].id))
			remove_point(table, table->listed[i].old_id);
	}
	return true;
}

/* Only unmounted, or mounted elsewhere? Then @table is as the kernel's. */
static bool apply_changes(struct mount_table *table, const char *base)
{
	struct mount_table now = {.n_listed = 0};
	bool is_done = table->listed && watch_mounts(&now) == 0 && list_mounts(&now) == 0 &&
		       follow(table, &now, base);

	if (is_done) {
		struct mount_table before = *table;

		table->monitor = now.monitor;
		table->listed = now.listed;
		table->n_listed = now.n_listed;
		now.monitor = before.monitor;
		now.listed = before.listed;
	}
	mnt_unref_monitor(now.monitor);
	free(now.listed);
	return is_done;
}

static enum status table_new(const char *base, bool is_kept, struct mount_table **ret, struct error *err)
{
	cleanup(mount_table_freep) struct mount_table *table = calloc(1, sizeof(*table));
	int r = table ? 0 : -ENOMEM;

	if (r == 0 && is_kept) /* before it is read: what changes meanwhile shows */
		r = watch_mounts(table);
	if (r == 0 && is_kept && list_mounts(table) < 0) /* likewise */
		forget_mounts(table);
	if (r == 0)
		r = read_mounts(table, base);
	if (r == 0 && table->listed && match_points(table) < 0)
		forget_mounts(table);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot read the mount table %s", MOUNTINFO_PATH);
	*ret = TAKE_PTR(table);
	return STATUS_OK;
}

enum status mount_table_read(struct mount_table **ret, struct error *err)
{
	return table_new(NULL, false, ret, err);
}

enum status mount_table_refresh(struct mount_table **table, const char *base, struct error *err)
{
	struct mount_table *now;

	/* 0: a wait of no time has seen no change */
	if (*table && mnt_monitor_wait((*table)->monitor, 0) == 0)
		return STATUS_OK;
	if (*table && apply_changes(*table, base))
		return STATUS_OK;
	TRY(table_new(base, true, &now, err));
	mount_table_free(*table);
	*table = now;
	return STATUS_OK;
}

void mount_table_free(struct mount_table *table)
{
	if (!table)
		return;
	mnt_unref_monitor(table->monitor);
	mnt_unref_table(table->mounts);
	free(table->points);
	free(table->listed);
	free(table);
}

/* The topmost at @path, or NULL. */
static struct libmnt_fs *find_point(const struct mount_table *table, const char *path)
{
	size_t low = 0, high = table->n_points;

	/* the end of those that are not after the path */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(table->points[middle].path, path) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && str_eq(table->points[low - 1].path, path) ? table->points[low - 1].fs : NULL;
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

void mount_table_count(const struct mount_table *table, const char *path, struct mount_count *ret)
{
	char below[PATH_MAX];

	*ret = (struct mount_count){0};
	for (size_t i = lower_bound(table, path); i < table->n_points; i++) {
		if (!str_eq(table->points[i].path, path))
			break;
		ret->here++;
	}
	if (str_format(below, sizeof(below), "%s/", path) < 0)
		return; /* longer than any mount point */
	for (size_t i = lower_bound(table, below); i < table->n_points; i++) {
		const char *point = table->points[i].path;

		if (!str_starts_with(point, below))
			break;
		if (ret->below++ > 0 && str_eq(point, table->points[i - 1].path))
			str_copy_text(ret->stacked, sizeof(ret->stacked), point);
	}
}

static bool has_option(const char *options, const char *name)
{
	return options && mnt_optstr_get_option(options, name, NULL, NULL) == 0;
}

/* Empty for what does not fit: a part of it would name something else. */
static void copy_text(char *dst, size_t size, const char *text)
{
	(void)str_copy(dst, size, text ? text : "");
}

enum status mount_table_find(const struct mount_table *table, const char *path, struct mount_view *ret,
			     struct error *err)
{
	struct mount_view view = {0};
	struct libmnt_fs *fs = find_point(table, path);
	const char *options;

	if (!fs)
		return error_set(err, STATUS_NOT_FOUND, 0, "nothing is mounted at %s", path);
	view.dev_major = major(mnt_fs_get_devno(fs));
	view.dev_minor = minor(mnt_fs_get_devno(fs));
	options = mnt_fs_get_vfs_options(fs);
	view.is_nosuid = has_option(options, "nosuid");
	view.is_nodev = has_option(options, "nodev");
	view.is_noexec = has_option(options, "noexec");
	view.is_read_only = has_option(options, "ro") || has_option(mnt_fs_get_fs_options(fs), "ro");
	view.is_unshared = has_option(mnt_fs_get_fs_options(fs), "nosharecache");
	if (options) {
		size_t n = strnlen(options, sizeof(view.options) - 1);

		memcpy(view.options, options, n);
	}
	copy_text(view.root, sizeof(view.root), mnt_fs_get_root(fs));
	copy_text(view.fs_type, sizeof(view.fs_type), mnt_fs_get_fstype(fs));
	*ret = view;
	return STATUS_OK;
}
