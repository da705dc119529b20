/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/link.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
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

struct search {
	const char *path;
	const char *wire;
	int root_fd;
	uid_t owner; /* of the helper's trees */

	/* the latest mount there; had is false: there is no mount */
	bool had;
	uint32_t dev_major;
	uint32_t dev_minor;
	bool is_read_only; /* its file system: no mount of it can be written through */
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

/* "PUBLISH_DIR/ALLOC/SLOT"? */
static bool is_published_path(const char *publish_dir, const char *path)
{
	const char *slot, *alloc;
	char dir[PATH_MAX];
	uint32_t number;

	if (!path_is_normal(path) || str_copy(dir, PATH_MAX, path) < 0)
		return false;
	slot = split_last(dir);
	alloc = slot ? split_last(dir) : NULL;
	return alloc && id_is_uuid(alloc) && parse_u32(slot, 0, MH_SLOT_MAX, &number) == 0 &&
	       str_eq(dir, publish_dir);
}

/* Writes BASE of "BASE/WIRE", or "BASE/.csi/PLUGIN/WIRE/ro-publish" or rw-publish, to @ret. For a device only
 * the last component @target is valid: a node that reports the target of writers does not make a reader a
 * writer. */
static bool staged_base(const char *path, const char *wire, const char *target, char ret[static PATH_MAX])
{
	const char *last, *plugin, *folder;

	if (!path_is_normal(path) || str_copy(ret, PATH_MAX, path) < 0)
		return false;
	last = split_last(ret);
	if (!last || (target && !str_eq(last, target)))
		return false;
	if (!str_eq(last, MH_CSI_PUBLISH_RO) && !str_eq(last, MH_CSI_PUBLISH_RW))
		return str_eq(last, wire);
	last = split_last(ret);
	plugin = split_last(ret);
	folder = split_last(ret);
	return last && plugin && folder && str_eq(last, wire) && id_is_plugin(plugin) &&
	       str_eq(folder, MH_CSI_FOLDER);
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

/* Returns whether @base is a tree of the helper: only root can replace it, and only its owner write to it. */
static bool is_tree(int root_fd, const char *base, uid_t *ret_owner)
{
	cleanup_close int fd = path_open_trusted(root_fd, base);
	bool is_open_to_others;

	return fd >= 0 && look_at_owner(fd, ret_owner, &is_open_to_others) == 0 && !is_open_to_others;
}

static int visit_path(const struct mount_entry *entry, void *userdata)
{
	struct search *search = userdata;

	if (!str_eq(entry->point, search->path))
		return 0;
	search->had = str_copy(search->root, sizeof(search->root), entry->root) == 0;
	search->dev_major = entry->dev_major;
	search->dev_minor = entry->dev_minor;
	search->is_read_only = mount_option_is_set(entry->super_options, "ro");
	return 0;
}

/* A staged mount of the volume that shows what the published one shows. */
static int visit_staged(const struct mount_entry *entry, void *userdata)
{
	const struct search *search = userdata;
	char base[PATH_MAX];
	uid_t owner;

	return entry->dev_major == search->dev_major && entry->dev_minor == search->dev_minor &&
	       str_eq(entry->root, search->root) && staged_base(entry->point, search->wire, NULL, base) &&
	       is_tree(search->root_fd, base, &owner) && owner == search->owner;
}

static enum status refuse(const char *path, const char *wire, const char *why, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"cannot confirm volume %s at '%.300s': %s. The unit gives out no path. Next: holdfast agent "
		"status; compare HOLDFAST_PUBLISH_DIR with publish_base in mounthelper.policy",
		wire, path, why);
}

static enum status table_error(int r, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, r,
			 "cannot read the mount table, /proc/self/mountinfo");
}

/* @publish_dir is from root's file, so its owner is the helper; @base may be from the node. */
static enum status check_trees(struct search *search, const char *publish_dir, const char *base,
			       struct error *err)
{
	uid_t owner;

	if (is_tree(search->root_fd, publish_dir, &search->owner) && is_tree(search->root_fd, base, &owner) &&
	    owner == search->owner)
		return STATUS_OK;
	return refuse(search->path, search->wire, "others than root and the mount helper can write there",
		      err);
}

static enum status find_mount(struct mountinfo *table, struct search *search, struct error *err)
{
	int r = mountinfo_each(table, visit_path, search);

	if (r < 0)
		return table_error(r, err);
	return search->had ? STATUS_OK : refuse(search->path, search->wire, "nothing is mounted there", err);
}

static enum status check_staged(struct mountinfo *table, struct search *search, struct error *err)
{
	int r = mountinfo_each(table, visit_staged, search);

	if (r < 0)
		return table_error(r, err);
	return r > 0 ? STATUS_OK : refuse(search->path, search->wire, "another volume is mounted there", err);
}

enum status hold_link_check(const struct hold_link_view *view, const char *path, const char *wire,
			    const char *target, bool *ret_is_read_only, struct error *err)
{
	struct search search = {.path = path, .wire = wire, .root_fd = view->root_fd};
	char base[PATH_MAX];
	enum status status;

	if (target ? !staged_base(path, wire, target, base) : !is_published_path(view->publish_dir, path))
		return refuse(path, wire, "that is no path that the mount helper makes", err);
	status = check_trees(&search, view->publish_dir, target ? base : view->publish_dir, err);
	if (status == STATUS_OK)
		status = find_mount(view->table, &search, err);
	if (status == STATUS_OK && !target)
		status = check_staged(view->table, &search, err);
	if (status == STATUS_OK)
		*ret_is_read_only = search.is_read_only;
	return status;
}

bool hold_publish_path(const char *publish_dir, const char *alloc_id, char ret[static PATH_MAX])
{
	return id_is_uuid(alloc_id) && str_format(ret, PATH_MAX, "%s/%s/0", publish_dir, alloc_id) > 0;
}

enum status hold_publish_check(const char *publish_dir, const char *path,
			       const Holdfast__V1__Allocation *alloc, bool *ret_is_read_only,
			       struct error *err)
{
	const Holdfast__V1__VolumeRequest *volume = alloc->volumes[0];
	const char *use = volume->read_only ? MH_CSI_PUBLISH_RO : MH_CSI_PUBLISH_RW;
	const char *target =
		volume->attachment_mode == HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE ? use : NULL;
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int table_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	cleanup_free struct mountinfo *table = malloc(sizeof(*table));
	const struct hold_link_view view = {.table = table, .root_fd = root_fd, .publish_dir = publish_dir};
	char wire[WIRE_VOLUME_SIZE];

	if (!table || root_fd < 0 || table_fd < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, table ? errno : ENOMEM,
				 "cannot open / and /proc/self/mountinfo");
	table->fd = table_fd;
	volume_wire_name(namespace_or_default(alloc->namespace_), volume->source, wire);
	return hold_link_check(&view, path, wire, target, ret_is_read_only, err);
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
