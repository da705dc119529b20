/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/mount_table.h"

#include "base/cleanup.h"
#include "base/names.h"
#include "base/str.h"

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

struct mount_table {
	struct libmnt_monitor *monitor; /* tells whether the kernel's has changed */
	struct libmnt_table *mounts;
	struct point *points; /* by path, then as they came */
	size_t n_points;
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

static enum status table_new(const char *base, bool is_kept, struct mount_table **ret, struct error *err)
{
	cleanup(mount_table_freep) struct mount_table *table = calloc(1, sizeof(*table));
	int r = table ? 0 : -ENOMEM;

	if (r == 0 && is_kept) /* before it is read: what changes meanwhile shows */
		r = watch_mounts(table);
	if (r == 0)
		r = read_mounts(table, base);
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
	enum status status;

	/* 0: a wait of no time has seen no change */
	if (*table && mnt_monitor_wait((*table)->monitor, 0) == 0)
		return STATUS_OK;
	status = table_new(base, true, &now, err);
	if (status != STATUS_OK)
		return status;
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
