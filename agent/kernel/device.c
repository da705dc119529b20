/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/device.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/mountinfo.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/sys.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define BY_ID_FOLDER "/dev/disk/by-id"

/* Which device the entry names now. */
static enum status find_device(struct mh_source *source, struct error *err)
{
	char path[sizeof(BY_ID_FOLDER) + 1 + MH_BY_ID_SIZE];
	struct stat st;
	int r;

	(void)str_format(path, sizeof(path), BY_ID_FOLDER "/%s", source->u.block.by_id);
	r = sys_fstatat(AT_FDCWD, path, &st, 0);
	if (r == -ENOENT)
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"device %s is not on this node (source.by_id of the volume; see: ls " BY_ID_FOLDER
			")",
			path);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot look at device %s", path);
	if (!S_ISBLK(st.st_mode))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "%s is not a block device", path);
	source->u.block.major = major(st.st_rdev);
	source->u.block.minor = minor(st.st_rdev);
	return STATUS_OK;
}

enum status device_source(const struct source *source, struct mh_source *ret, struct error *err)
{
	struct mh_source made;
	enum status status = source_to_wire(source, &made, err);

	if (status == STATUS_OK && source->class == SOURCE_BLOCK)
		status = find_device(&made, err);
	if (status == STATUS_OK)
		*ret = made;
	return status;
}

#define LISTINGS_FOLDER "/sys/fs"

/* File systems that list their superblocks in /sys/fs/TYPE/DEVICE. */
static const char *const listing_types[] = {"ext4", "xfs", "erofs", "f2fs"};

int device_name(uint32_t dev_major, uint32_t dev_minor, char ret[static DEVICE_NAME_SIZE])
{
	char path[64], link[PATH_MAX]; /* links of sysfs are shorter */
	const char *name;
	int n;

	(void)str_format(path, sizeof(path), "/sys/dev/block/%u:%u", dev_major, dev_minor);
	n = sys_readlinkat(AT_FDCWD, path, link, sizeof(link) - 1);
	if (n < 0)
		return n;
	link[n] = '\0';
	name = strrchr(link, '/');
	return str_copy(ret, DEVICE_NAME_SIZE, name ? name + 1 : link);
}

bool device_has_superblock(uint32_t dev_major, uint32_t dev_minor)
{
	char name[DEVICE_NAME_SIZE], listed[sizeof(LISTINGS_FOLDER) + DEVICE_NAME_SIZE + 16];
	struct stat st;
	int r = device_name(dev_major, dev_minor, name);

	if (r < 0)
		return r != -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(listing_types); i++) {
		(void)str_format(listed, sizeof(listed), LISTINGS_FOLDER "/%s/%s", listing_types[i], name);
		if (sys_fstatat(AT_FDCWD, listed, &st, 0) != -ENOENT)
			return true;
	}
	return false;
}

/* Calls @named for each entry of @folder. No folder: the kernel does not know the file system type. */
static bool each_listed(const char *folder, device_named_fn *named, void *userdata)
{
	cleanup_closedir DIR *dir = opendir(folder);
	const struct dirent *entry;
	int r;

	if (!dir)
		return errno == ENOENT;
	while ((r = folder_next(dir, &entry)) > 0)
		if (!named(entry->d_name, userdata))
			return false;
	return r == 0;
}

bool device_each_superblock(device_named_fn *named, void *userdata)
{
	char folder[sizeof(LISTINGS_FOLDER) + 16];

	for (size_t i = 0; i < ARRAY_SIZE(listing_types); i++) {
		(void)str_format(folder, sizeof(folder), LISTINGS_FOLDER "/%s", listing_types[i]);
		if (!each_listed(folder, named, userdata))
			return false;
	}
	return true;
}

struct search {
	uint32_t dev_major;
	uint32_t dev_minor;
	const char *const *within;
	struct device_mounts found;
};

static bool is_below(const char *point, const char *folder)
{
	size_t n = strlen(folder);

	return n > 0 && strncmp(point, folder, n) == 0 && (point[n] == '/' || point[n] == '\0');
}

void device_mounts_note(struct device_mounts *mounts, const char *root, const char *point,
			const char *const within[static 2])
{
	if (is_below(point, within[0]) || is_below(point, within[1])) {
		mounts->is_whole = mounts->is_whole || str_eq(root, "/");
	} else if (!mounts->is_elsewhere) {
		mounts->is_elsewhere = true;
		(void)snprintf(mounts->point, sizeof(mounts->point), "%s", point);
	}
}

static int look_at_mount(const struct mount_entry *entry, void *userdata)
{
	struct search *search = userdata;

	if (entry->dev_major == search->dev_major && entry->dev_minor == search->dev_minor)
		device_mounts_note(&search->found, entry->root, entry->point, search->within);
	return 0;
}

void device_find_mounts(uint32_t dev_major, uint32_t dev_minor, const char *const within[static 2],
			struct device_mounts *ret)
{
	struct search search = {.dev_major = dev_major, .dev_minor = dev_minor, .within = within};
	cleanup_close int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	cleanup_free struct mountinfo *mountinfo = fd < 0 ? NULL : malloc(sizeof(*mountinfo));

	*ret = (struct device_mounts){0};
	if (!mountinfo)
		return;
	mountinfo->fd = fd;
	if (mountinfo_each(mountinfo, look_at_mount, &search) == 0)
		*ret = search.found;
}

/* Defined only here: the mount helper, which shares base/sys.h, does not use it. */
static int open_cached(const char *path)
{
	/* a link would lead to what the mount table calls otherwise */
	const struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				     .resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS};
	long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

bool device_is_mounted_at(uint32_t dev_major, uint32_t dev_minor, const char *point,
			  const char *const within[static 2])
{
	cleanup_close int fd = -EBADF;
	struct statx st;

	if (point[0] != '/' || is_below(point, within[0]) || is_below(point, within[1]))
		return false;
	fd = open_cached(point);
	if (fd < 0 || sys_statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0, &st) < 0)
		return false;
	return (st.stx_attributes & st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
	       st.stx_dev_major == dev_major && st.stx_dev_minor == dev_minor;
}

#define BLOCK_FOLDER "/sys/class/block"

enum { DEVICE_NUMBER_TEXT_MAX = 32 };

/* "8:16\n" */
static bool parse_number(char *text, uint32_t *ret_major, uint32_t *ret_minor)
{
	char *colon = strchr(text, ':');

	text[strcspn(text, "\n")] = '\0';
	if (!colon)
		return false;
	*colon = '\0';
	return parse_u32(text, 0, UINT32_MAX, ret_major) == 0 &&
	       parse_u32(colon + 1, 0, UINT32_MAX, ret_minor) == 0;
}

enum status device_of_mount(const struct mount_view *view, uint32_t *ret_major, uint32_t *ret_minor,
			    struct error *err)
{
	cleanup_free char *text = NULL;
	char path[sizeof(BLOCK_FOLDER "//dev") + MOUNT_ROOT_SIZE];
	char name[MOUNT_ROOT_SIZE];
	uint32_t dev_major, dev_minor;
	int r;

	if (!str_eq(view->fs_type, "devtmpfs") || view->root[0] != '/' || view->root[1] == '\0')
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "a file system of type %s is mounted there, no file of /dev", view->fs_type);
	(void)str_copy(name, sizeof(name), view->root + 1);
	for (char *c = name; *c; c++) {
		if (*c == '/')
			*c = '!'; /* as sysfs writes it */
	}
	(void)str_format(path, sizeof(path), BLOCK_FOLDER "/%s/dev", name);
	r = file_read(path, DEVICE_NUMBER_TEXT_MAX, &text, NULL);
	if (r < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, r,
				 "/dev%s is bound there, which is no block device of this node (%s)",
				 view->root, path);
	if (!parse_number(text, &dev_major, &dev_minor))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "%s is malformed", path);
	*ret_major = dev_major;
	*ret_minor = dev_minor;
	return STATUS_OK;
}
