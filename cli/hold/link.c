/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/link.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "command/settings.h"
#include "model/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <mounthelper_wire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_NAME "mnt"
#define FRESH_NAME LINK_NAME ".new"

/* The first volume of the allocation at @path. */
struct search {
	const char *base; /* the helper's tree that it is in */
	const char *path;
	const char *wire;

	/* the latest mount there; had is false: there is no mount */
	bool had;
	bool is_covered;   /* something is mounted on a folder between the tree and the mount */
	bool is_read_only; /* its file system: no mount of it can be written through */
	bool is_dev;	   /* its file system is that of /dev, which only the kernel and root change */
	char root[PATH_MAX];
};

/* Take the last component off @path, in place. Returns it, NULL when nothing would be left. */
static char *split_last(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return NULL;
	*slash = '\0';
	return slash + 1;
}

/* "PUBLISH_DIR/ALLOC/SLOT"? Then writes the name in PUBLISH_DIR of the helper's mark for @wire there. */
static bool is_published_path(const char *publish_dir, const char *path, const char *wire,
			      char ret_mark[static PATH_MAX])
{
	const char *slot, *alloc;
	char dir[PATH_MAX];
	uint32_t number;

	if (!path_is_normal(path) || str_copy(dir, PATH_MAX, path) < 0)
		return false;
	slot = split_last(dir);
	alloc = slot ? split_last(dir) : NULL;
	return alloc && id_is_uuid(alloc) && parse_u32(slot, 0, MH_SLOT_MAX, &number) == 0 &&
	       str_eq(dir, publish_dir) && str_format(ret_mark, PATH_MAX, "%s/.%s/%s", alloc, slot, wire) > 0;
}

/* At which a plugin binds the device for this use. */
static const char *target_name(const Holdfast__V1__VolumeRequest *volume)
{
	return volume->read_only ? MH_CSI_PUBLISH_RO : MH_CSI_PUBLISH_RW;
}

bool hold_device_path(const char *stage_dir, const char *plugin, const Holdfast__V1__Allocation *alloc,
		      char ret[static PATH_MAX])
{
	const Holdfast__V1__VolumeRequest *volume = alloc->volumes[0];
	char wire[WIRE_VOLUME_SIZE];

	volume_wire_name(namespace_or_default(alloc->namespace_), volume->source, wire);
	return id_is_plugin(plugin) && str_format(ret, PATH_MAX, "%s/" MH_CSI_FOLDER "/%s/%s/%s", stage_dir,
						  plugin, wire, target_name(volume)) > 0;
}

/* "STAGE_DIR/.csi/PLUGIN/WIRE/@use"? The holder names PLUGIN. */
static bool is_device_path(const char *stage_dir, const char *path, const char *wire, const char *use)
{
	const char *last, *folder, *plugin, *csi;
	char dir[PATH_MAX];

	if (!path_is_normal(path) || str_copy(dir, PATH_MAX, path) < 0)
		return false;
	last = split_last(dir);
	folder = last ? split_last(dir) : NULL;
	plugin = folder ? split_last(dir) : NULL;
	csi = plugin ? split_last(dir) : NULL;
	return csi && str_eq(last, use) && str_eq(folder, wire) && id_is_plugin(plugin) &&
	       str_eq(csi, MH_CSI_FOLDER) && str_eq(dir, stage_dir);
}

/* Who owns fd, and may others write to it? */
static int look_at_owner(int fd, uid_t *ret_owner, bool *ret_is_open_to_others)
{
	struct statx st;
	int r = sys_statx(fd, "", AT_EMPTY_PATH, STATX_MODE | STATX_UID, &st);

	if (r < 0)
		return r;
	*ret_owner = st.stx_uid;
	*ret_is_open_to_others = (st.stx_mode & (S_IWGRP | S_IWOTH)) != 0;
	return 0;
}

static int visit_path(const struct mount_entry *entry, void *userdata)
{
	struct search *search = userdata;

	if (!str_eq(entry->point, search->path)) {
		/* above the tree only root mounts */
		if (path_is_normal(entry->point) && path_is_within(search->path, entry->point) &&
		    strlen(entry->point) > strlen(search->base))
			search->is_covered = true;
		return 0;
	}
	search->had = str_copy(search->root, sizeof(search->root), entry->root) == 0;
	search->is_read_only = mount_option_is_set(entry->super_options, "ro");
	search->is_dev = str_eq(entry->type, "devtmpfs");
	return 0;
}

static enum status refuse(const struct search *search, const char *why, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"cannot confirm volume %s at '%.300s': %s. The unit gives out no path. Next: holdfast agent "
		"status; compare HOLDFAST_PUBLISH_DIR and HOLDFAST_STAGE_DIR with mounthelper.policy",
		search->wire, search->path, why);
}

/* Finds the mount at the path, in a tree of the helper: only root can replace it, and only its owner write to
 * it. */
static enum status find_mount(const struct hold_link_view *view, struct search *search, int *ret_tree,
			      struct error *err)
{
	cleanup_close int tree = path_open_trusted(view->root_fd, search->base);
	bool is_open_to_others;
	uid_t owner;
	int r;

	if (tree < 0 || look_at_owner(tree, &owner, &is_open_to_others) < 0 || is_open_to_others)
		return refuse(search, "others than root and the mount helper can write there", err);
	r = mountinfo_each(view->table, visit_path, search);
	if (r < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, r,
				 "cannot read the mount table, /proc/self/mountinfo");
	if (!search->had || search->is_covered)
		return refuse(search, search->had ? "a mount covers it" : "nothing is mounted there", err);
	*ret_tree = TAKE_FD(tree);
	return STATUS_OK;
}

enum status hold_link_check(const struct hold_link_view *view, const char *path, const char *wire,
			    bool *ret_is_read_only, struct error *err)
{
	struct search search = {.base = view->publish_dir, .path = path, .wire = wire};
	cleanup_close int tree = -EBADF;
	char mark[PATH_MAX];
	struct statx st;

	if (!is_published_path(view->publish_dir, path, wire, mark))
		return refuse(&search, "that is no path that the mount helper makes", err);
	TRY(find_mount(view, &search, &tree, err));
	if (sys_statx(tree, mark, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) < 0 || !S_ISDIR(st.stx_mode))
		return refuse(&search, "another volume is mounted there", err);
	*ret_is_read_only = search.is_read_only;
	return STATUS_OK;
}

/* Finds the block device "/NAME" of devtmpfs, from the root. The kernel writes '!' for each '/' in NAME. */
static bool find_block_device(int root_fd, const char *name, char ret[static PATH_MAX])
{
	static const char folder[] = "sys/class/block";
	struct statx st;

	if (!path_is_normal(name) || str_format(ret, PATH_MAX, "%s%s", folder, name) < 0)
		return false;
	for (char *p = ret + sizeof(folder); (p = strchr(p, '/'));)
		*p = '!';
	return ret[sizeof(folder)] && sys_statx(root_fd, ret, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0;
}

/* Reads the number of the disk of "/NAME", which no other disk gets in this boot. 0: not known. */
static uint64_t disk_number(int root_fd, const char *name)
{
	static const char *const places[] = {"", "/.."}; /* a partition's disk is the folder above */
	cleanup_close int fd = -EBADF;
	char device[PATH_MAX], path[PATH_MAX], text[24];
	uint64_t number = 0;
	ssize_t n;

	for (size_t i = 0; fd < 0 && i < ARRAY_SIZE(places); i++)
		if (find_block_device(root_fd, name, device) &&
		    str_format(path, sizeof(path), "%s%s/diskseq", device, places[i]) > 0)
			fd = sys_openat(root_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : sys_pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, 1, UINT64_MAX, &number) == 0 ? number : 0;
}

enum status hold_device_check(const struct hold_link_view *view, const char *path, const char *wire,
			      const char *use, char ret_device[static PATH_MAX], struct error *err)
{
	struct search search = {.base = view->stage_dir, .path = path, .wire = wire};
	cleanup_close int tree = -EBADF;
	char entry[PATH_MAX];

	if (!is_device_path(view->stage_dir, path, wire, use))
		return refuse(&search, "that is no path that the mount helper makes", err);
	TRY(find_mount(view, &search, &tree, err));
	if (!search.is_dev || !find_block_device(view->root_fd, search.root, entry) ||
	    str_format(ret_device, PATH_MAX, "/dev%s", search.root) < 0)
		return refuse(&search, "no block device of /dev is mounted there", err);
	return STATUS_OK;
}

bool hold_device_is_other(const struct hold_link_view *view, const char *path, struct hold_device *known)
{
	struct search search = {.base = view->stage_dir, .path = path};
	uint64_t number;

	if (mountinfo_each(view->table, visit_path, &search) < 0)
		return false;
	if (!search.had || search.is_covered)
		return true;
	number = disk_number(view->root_fd, search.root);
	if (known->name[0] && (!search.is_dev || !str_eq(known->name, search.root) ||
			       (known->number != 0 && number != 0 && known->number != number)))
		return true;
	/* if it is no device, `volume link` reports that */
	(void)str_copy(known->name, sizeof(known->name), search.root);
	known->number = number != 0 ? number : known->number;
	return false;
}

void hold_link_device(const char *folder, const char *name, struct hold_device *ret)
{
	char link[PATH_MAX], path[PATH_MAX];
	int n = str_format(link, sizeof(link), "%s/%s/" LINK_NAME, folder, name);

	*ret = (struct hold_device){.number = 0};
	if (n > 0)
		n = sys_readlinkat(AT_FDCWD, link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (str_starts_with(path, "/dev/"))
		(void)str_copy(ret->name, sizeof(ret->name), path + strlen("/dev"));
}

bool hold_publish_path(const char *publish_dir, const char *alloc_id, char ret[static PATH_MAX])
{
	return id_is_uuid(alloc_id) && str_format(ret, PATH_MAX, "%s/%s/0", publish_dir, alloc_id) > 0;
}

static struct mountinfo *open_table(void)
{
	int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	struct mountinfo *table = fd < 0 ? NULL : malloc(sizeof(*table));

	if (table)
		table->fd = fd;
	else
		close_fdp(&fd);
	return table;
}

static void close_tablep(struct mountinfo **table)
{
	if (*table)
		close_fdp(&(*table)->fd);
	free(*table);
}

bool hold_device_is_gone(const char *stage_dir, const char *path, struct hold_device *known)
{
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup(close_tablep) struct mountinfo *table = open_table();
	const struct hold_link_view view = {.table = table, .root_fd = root_fd, .stage_dir = stage_dir};

	return table && hold_device_is_other(&view, path, known);
}

enum status hold_publish_check(const char *publish_dir, const char *path,
			       const Holdfast__V1__Allocation *alloc, struct hold_published *ret,
			       struct error *err)
{
	const Holdfast__V1__VolumeRequest *volume = alloc->volumes[0];
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup(close_tablep) struct mountinfo *table = open_table();
	const struct hold_link_view view = {
		.table = table, .root_fd = root_fd, .publish_dir = publish_dir, .stage_dir = stage_dir()};
	char wire[WIRE_VOLUME_SIZE];

	if (!table || root_fd < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, errno,
				 "cannot open / and /proc/self/mountinfo");
	volume_wire_name(namespace_or_default(alloc->namespace_), volume->source, wire);
	ret->is_read_only = false;
	if (volume->attachment_mode == HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE)
		return hold_device_check(&view, path, wire, target_name(volume), ret->path, err);
	(void)str_copy(ret->path, sizeof(ret->path), path);
	return hold_link_check(&view, path, wire, &ret->is_read_only, err);
}

/* Opens the folder @name, which must be root's own; makes it if it is missing. */
static int open_own(int folder_fd, const char *name)
{
	cleanup_close int fd = -EBADF;
	bool is_open_to_others;
	uid_t owner;

	if (mkdirat(folder_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = sys_openat(folder_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return TAKE_FD(fd);
	if (look_at_owner(fd, &owner, &is_open_to_others) == 0 && owner == 0 && !is_open_to_others)
		return TAKE_FD(fd);
	return -EPERM;
}

static int give(int folder_fd, const char *name, const char *path)
{
	cleanup_close int fd = open_own(folder_fd, name);

	if (fd < 0)
		return fd;
	(void)unlinkat(fd, FRESH_NAME, 0); /* of a process that was killed in between */
	if (symlinkat(path, fd, FRESH_NAME) < 0 || renameat(fd, FRESH_NAME, fd, LINK_NAME) < 0)
		return -errno;
	return 0;
}

static int open_folder(const char *folder)
{
	return sys_openat(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

enum status hold_link_give(const char *folder, const char *name, const char *path, struct error *err)
{
	cleanup_close int fd = open_folder(folder);
	mode_t mask = umask(022);
	int r = fd < 0 ? fd : give(fd, name, path);

	(void)umask(mask);
	if (fd < 0)
		return error_set(err, status_from_errno(r), r,
				 "cannot open %s (run systemd-tmpfiles --create holdfast-cli.conf)", folder);
	if (r < 0)
		return error_set(err, status_from_errno(r), r,
				 "cannot make the link %s/%s/" LINK_NAME
				 " (if that folder has anything else, remove that and start the unit again)",
				 folder, name);
	return STATUS_OK;
}

static int remove_link(int folder_fd, const char *name)
{
	cleanup_close int fd = sys_openat(folder_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return TAKE_FD(fd);
	(void)unlinkat(fd, FRESH_NAME, 0);
	if (unlinkat(fd, LINK_NAME, 0) < 0 && errno != ENOENT)
		return -errno;
	return unlinkat(folder_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

enum status hold_link_take(const char *folder, const char *name, struct error *err)
{
	cleanup_close int fd = open_folder(folder);
	int r = fd < 0 ? fd : remove_link(fd, name);

	if (r < 0 && r != -ENOENT)
		return error_set(err, status_from_errno(r), r, "cannot remove %s/%s/" LINK_NAME, folder,
				 name);
	return STATUS_OK;
}
