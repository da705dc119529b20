/* SPDX-License-Identifier: Apache-2.0 */
#include "publish.h"

#include "mounts.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct search {
	const char *path;
	char below[PATH_MAX]; /* the first that is mounted below it */
};

/* The place of a path of the host, and whether a volume shows a folder above it. */
struct host_place {
	struct place place;
	bool is_in_volume;
	const char *publish_dir, *stage_dir;
};

bool publish_path(const char *publish_dir, const char *alloc_id, uint32_t slot, char *ret)
{
	return str_format(ret, PATH_MAX, "%s/%s/%u", publish_dir, alloc_id, slot) > 0;
}

enum status publish_open(const char *publish_dir, uid_t agent_uid, int *ret, struct error *err)
{
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int fd = path_open_trusted(root_fd, publish_dir);
	struct stat st;

	if (fd < 0 && fd != -EPERM)
		return error_set(err, STATUS_FAILED_PRECONDITION, fd,
				 "open %s (publish_dir), where the mount helper publishes volumes",
				 publish_dir);
	if (fd >= 0 && fstat(fd, &st) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "look at %s", publish_dir);
	if (fd < 0 || st.st_uid == agent_uid || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return error_set(
			err, STATUS_PERMISSION_DENIED, 0,
			"the agent or others can change %s (publish_dir), which decides which volumes are "
			"published. Only the mount helper may own and write it, in folders of root",
			publish_dir);
	*ret = TAKE_FD(fd);
	return STATUS_OK;
}

static bool is_granted(const struct place *found, Holdfast__Driver__V1__MountPropagation asked)
{
	switch (asked) {
	case HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE:
		return true;
	case HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK:
		return found->is_shared || found->is_slave;
	case HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL:
		return found->is_shared;
	case _HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION_IS_INT_SIZE:
		break;
	}
	return false;
}

/* The mount helper's mark, ALLOC/.SLOT/VOLUME: an empty folder that lasts as long as the mount. The helper
 * owns all of its tree, so a folder of another account is no mark. */
static enum status check_mark(int fd, const char *alloc_id, const Holdfast__Driver__V1__VolumeMount *volume,
			      const char **ret_reason, struct error *err)
{
	char mark[PATH_MAX];
	struct stat tree, st;

	if (str_format(mark, sizeof(mark), "%s/.%u/%s", alloc_id, volume->slot, volume->volume) > 0 &&
	    fstatat(fd, mark, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	    fstat(fd, &tree) == 0 && st.st_uid == tree.st_uid)
		return STATUS_OK;
	*ret_reason = "volume";
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"the mount at slot %u of allocation %s is not volume %.64s, which the task needs at %.128s",
		volume->slot, alloc_id, volume->volume, volume->destination);
}

static enum status read_failed(const char *mountinfo_path, int r, struct error *err)
{
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "read %s", mountinfo_path) : STATUS_OK;
}

static enum status read_table(const char *mountinfo_path, mount_visit_fn *visit_one, void *userdata,
			      struct error *err)
{
	return read_failed(mountinfo_path, mounts_read(mountinfo_path, visit_one, userdata), err);
}

enum status publish_walk_host_path(const char *path, struct error *err)
{
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];
	cleanup_close int fd = path_open_trusted_parent(root_fd, path, name);
	struct stat st;

	if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, errno, "look at %.128s (host_paths)", path);
	if (fd >= 0 && !S_ISLNK(st.st_mode))
		return STATUS_OK;
	if (fd >= 0 || fd == -EPERM || fd == -ELOOP || fd == -ENOTDIR)
		return error_set(
			err, STATUS_PERMISSION_DENIED, 0,
			"%.128s (host_paths) is a link or behind one, or in a folder that others than "
			"root can change: name the path itself, in folders of root",
			path);
	return error_set(err, STATUS_FAILED_PRECONDITION, fd, "look at %.128s (host_paths)", path);
}

static int visit_below(const struct mount_entry *entry, void *userdata)
{
	struct search *search = userdata;

	if (search->below[0] == '\0' && path_is_normal(entry->point) &&
	    path_is_within(entry->point, search->path) && !str_eq(entry->point, search->path))
		(void)str_copy(search->below, sizeof(search->below), entry->point);
	return 0;
}

/* Finds a volume strictly above the folder: its task can rename each name below its own root, but not that
 * root. The device is that of the superblock: bind mounts and subvolumes of btrfs are compared. The layers of
 * an overlay, and a share that is mounted twice, have other devices: holdfast-driver-container.hcl(5). */
static int visit_volume(const struct mount_entry *entry, void *userdata)
{
	struct host_place *at = userdata;

	if (!path_is_within(entry->point, at->publish_dir) && !path_is_within(entry->point, at->stage_dir))
		return 0;
	if (entry->dev_major != at->place.dev_major || entry->dev_minor != at->place.dev_minor ||
	    entry->root[0] != '/' || !path_is_within(at->place.root, entry->root) ||
	    str_eq(at->place.root, entry->root))
		return 0;
	at->is_in_volume = true;
	return 0;
}

/* Compares the path, then each mount point above it: a task with a private volume can rename that, too. */
static enum status check_volumes(const char *mountinfo_path, const char *path, struct host_place *at,
				 struct error *err)
{
	char point[PATH_MAX];

	(void)str_copy(point, sizeof(point), path);
	for (size_t n_max = strlen(path); n_max > 0; n_max = at->place.n_point - 1) {
		TRY(read_failed(mountinfo_path, mounts_find(mountinfo_path, point, n_max, &at->place), err));
		if (!at->place.is_known)
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "cannot find the mount of host path %.128s in %s", path,
					 mountinfo_path);
		TRY(read_table(mountinfo_path, visit_volume, at, err));
		if (at->is_in_volume)
			return error_set(
				err, STATUS_PERMISSION_DENIED, 0,
				"a task cannot have host path %.128s: it is below the folder of a volume "
				"of this node, whose tasks can put a link in its place",
				path);
		point[at->place.n_point] = '\0';
	}
	return STATUS_OK;
}

enum status publish_check_host_path(const char *mountinfo_path, const char *publish_dir,
				    const char *stage_dir, const char *path, struct error *err)
{
	struct search search = {.path = path};
	struct host_place at = {.publish_dir = publish_dir, .stage_dir = stage_dir};

	TRY(read_table(mountinfo_path, visit_below, &search, err));
	if (search.below[0] == '\0')
		return check_volumes(mountinfo_path, path, &at, err);
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"a task cannot have host path %.128s: %.128s is mounted below, and would come with it", path,
		search.below);
}

enum status publish_check_read_only(const char *mountinfo_path, const char *path, struct error *err)
{
	struct place place;

	TRY(read_failed(mountinfo_path, mounts_find(mountinfo_path, path, SIZE_MAX, &place), err));
	if (place.is_known && (place.flags & READ_ONLY))
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"podman gives no task host path %.128s, which is not mounted read-only: a task could have it "
		"make folders in there. Next: mount --bind -o ro %.128s %.128s, and see host_paths in "
		"holdfast-driver-container.hcl(5)",
		path, path, path);
}

static enum status check_one(const char *mountinfo_path, const char *path,
			     const Holdfast__Driver__V1__VolumeMount *volume, const char **ret_reason,
			     struct error *err)
{
	struct place place;

	TRY(read_failed(mountinfo_path, mounts_find(mountinfo_path, path, SIZE_MAX, &place), err));
	if (!place.is_point) {
		*ret_reason = "publish";
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the volume for %.128s is not mounted at %s: it has to be published before its "
			"task starts; see holdfast alloc status",
			volume->destination, path);
	}
	if ((place.flags & READ_ONLY) && !volume->read_only) {
		*ret_reason = "read_only";
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the volume for %.128s was granted for reading, and its task asks to write: "
				 "%s is read-only",
				 volume->destination, path);
	}
	if (is_granted(&place, volume->propagation))
		return STATUS_OK;
	*ret_reason = "propagation";
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"the volume for %.128s was granted less propagation than its task asks for: %s is %s",
		volume->destination, path, place.is_slave ? "a slave" : "private");
}

enum status publish_check(const char *mountinfo_path, int fd, const char *publish_dir,
			  const Holdfast__Driver__V1__TaskConfig *task, const char **ret_reason,
			  struct error *err)
{
	char path[PATH_MAX];
	enum status status = STATUS_OK;

	for (size_t i = 0; status == STATUS_OK && i < task->n_volumes; i++) {
		if (!publish_path(publish_dir, task->alloc_id, task->volumes[i]->slot, path))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0, "publish_dir is too long");
		status = check_one(mountinfo_path, path, task->volumes[i], ret_reason, err);
		if (status == STATUS_OK)
			status = check_mark(fd, task->alloc_id, task->volumes[i], ret_reason, err);
	}
	return status;
}
