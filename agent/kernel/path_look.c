/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/path_look.h"

#include "base/cleanup.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/statvfs.h>

static enum path_state state_of(int sys_errno)
{
	switch (sys_errno) {
	case ENOENT:
	case ENOTDIR:
		return PATH_NOT_MOUNTED;
	case ENOTCONN:
	case ECONNABORTED: /* to a question that was in flight when the server died */
		return PATH_DISCONNECTED;
	case ESTALE:
		return PATH_STALE;
	default:
		return PATH_FAILED;
	}
}

static struct path_space space_of(const struct statvfs *fs)
{
	return (struct path_space){
		.total_bytes = fs->f_blocks * fs->f_frsize,
		.used_bytes = (fs->f_blocks - fs->f_bfree) * fs->f_frsize,
		.free_bytes = fs->f_bavail * fs->f_frsize,
		.total_inodes = fs->f_files,
		.used_inodes = fs->f_files - fs->f_ffree,
		.free_inodes = fs->f_favail,
	};
}

/* Returns 0, or a negative errno; -ENOENT when this is not the root of a mount. */
static int mount_view_look(const char *path, struct mount_view *ret, struct path_space *ret_space)
{
	cleanup_close int fd = sys_openat(AT_FDCWD, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct statvfs fs;
	struct statx st;
	int r;

	if (fd < 0)
		return fd;
	/* Nothing of the file, only of the mount: a user-space file system that is not for us refuses the
	 * former. */
	r = sys_statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0, &st);
	if (r < 0)
		return r;
	if ((st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0)
		return -EOPNOTSUPP;
	if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0)
		return -ENOENT;
	if (fstatvfs(fd, &fs) < 0)
		return -errno;
	*ret_space = space_of(&fs);
	*ret = (struct mount_view){
		.dev_major = st.stx_dev_major,
		.dev_minor = st.stx_dev_minor,
		.is_read_only = (fs.f_flag & ST_RDONLY) != 0,
		.is_nosuid = (fs.f_flag & ST_NOSUID) != 0,
		.is_nodev = (fs.f_flag & ST_NODEV) != 0,
		.is_noexec = (fs.f_flag & ST_NOEXEC) != 0,
	};
	return 0;
}

void path_look(const char *path, struct path_seen *ret)
{
	struct path_seen seen = {.state = PATH_MOUNTED};
	int r = mount_view_look(path, &seen.view, &seen.space);

	if (r < 0) {
		seen.sys_errno = -r;
		seen.state = state_of(-r);
	}
	*ret = seen;
}
