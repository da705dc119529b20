/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Fits numbers of bytes, too: the kernel moves at most INT_MAX of them at once. */
static int result(long r)
{
	return r < 0 ? -errno : (int)r;
}

int sys_openat(int dir_fd, const char *name, int flags)
{
	return result(openat(dir_fd, name, flags));
}

int sys_mkdirat(int dir_fd, const char *name, mode_t mode)
{
	return result(mkdirat(dir_fd, name, mode));
}

int sys_rmdirat(int dir_fd, const char *name)
{
	return result(unlinkat(dir_fd, name, AT_REMOVEDIR));
}

int sys_readlinkat(int dir_fd, const char *name, char *buf, size_t size)
{
	return result(readlinkat(dir_fd, name, buf, size));
}

int sys_fstatfs(int fd, struct statfs *ret)
{
	return result(fstatfs(fd, ret));
}

int sys_statx(int dir_fd, const char *name, int flags, unsigned int mask, struct statx *ret)
{
	return result(statx(dir_fd, name, flags, mask, ret));
}

int sys_fchdir(int fd)
{
	return result(fchdir(fd));
}

int sys_fsopen(const char *type, unsigned int flags)
{
	return result(syscall(SYS_fsopen, type, flags));
}

int sys_fsconfig(int fs_fd, unsigned int cmd, const char *key, const void *value, int aux)
{
	return result(syscall(SYS_fsconfig, fs_fd, cmd, key, value, aux));
}

int sys_fsmount(int fs_fd, unsigned int flags, unsigned int attributes)
{
	return result(syscall(SYS_fsmount, fs_fd, flags, attributes));
}

int sys_open_tree(int dir_fd, const char *path, unsigned int flags)
{
	return result(syscall(SYS_open_tree, dir_fd, path, flags));
}

int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
	return result(syscall(SYS_move_mount, from_fd, from, to_fd, to, flags));
}

int sys_mount_setattr(int dir_fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr)
{
	return result(syscall(SYS_mount_setattr, dir_fd, path, flags, attr, sizeof(*attr)));
}

int sys_umount2(const char *name, int flags)
{
	return result(umount2(name, flags));
}

/* struct mnt_id_req of linux/mount.h, version 0. */
struct mount_request {
	uint32_t size;
	uint32_t spare;
	uint64_t mount_id;
	uint64_t param;
};

int sys_statmount(uint64_t mount_id, uint64_t mask, struct sys_statmount *ret)
{
	const struct mount_request req = {.size = sizeof(req), .mount_id = mount_id, .param = mask};

	return (int)result(syscall(SYS_NR_STATMOUNT, &req, ret, sizeof(*ret), 0));
}

ssize_t sys_listmount(uint64_t mount_id, uint64_t after_id, uint64_t *ret_ids, size_t n)
{
	const struct mount_request req = {.size = sizeof(req), .mount_id = mount_id, .param = after_id};

	return result(syscall(SYS_NR_LISTMOUNT, &req, ret_ids, n, 0));
}

ssize_t sys_write(int fd, const void *bytes, size_t n)
{
	return result(write(fd, bytes, n));
}

ssize_t sys_pread(int fd, void *buf, size_t n, off_t offset)
{
	return result(pread(fd, buf, n, offset));
}

int sys_fdatasync(int fd)
{
	return result(fdatasync(fd));
}

int sys_set_timer(unsigned int seconds)
{
	const struct itimerval timer = {.it_value = {.tv_sec = seconds}};

	return result(setitimer(ITIMER_REAL, &timer, NULL));
}

int sys_fallocate(int fd, int mode, off_t offset, off_t n)
{
	return result(fallocate(fd, mode, offset, n));
}

int sys_ofd_lock(int fd, int cmd, struct flock *lock)
{
	return result(fcntl(fd, cmd, lock));
}

ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return result(recvmsg(fd, msg, flags));
}

ssize_t sys_recvfrom(int fd, void *buf, size_t n, int flags)
{
	return result(recvfrom(fd, buf, n, flags, NULL, NULL));
}

ssize_t sys_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to,
		   unsigned int to_len)
{
	return result(sendto(fd, bytes, n, flags, to, to_len));
}
