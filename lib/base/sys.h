/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The system-call seam: thin wrappers that return a negative errno, one per call that tests replace by a
 * model
 * (--wrap) or that libc does not name. Nothing else in the mount helper enters the kernel after its start-up.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct statfs;
struct statx;
struct flock;
struct msghdr;
struct sockaddr;

/* struct mount_attr of mount_setattr(2), version 0 (32 bytes). */
struct sys_mount_attr {
	uint64_t attr_set;
	uint64_t attr_clr;
	uint64_t propagation;
	uint64_t userns_fd;
};

/* struct statmount of statmount(2), as far as it is used; strings begin at `strings`. Source: linux/mount.h.
 */
struct sys_statmount {
	uint32_t size;
	uint32_t mnt_opts;
	uint64_t mask;
	uint32_t sb_dev_major;
	uint32_t sb_dev_minor;
	uint64_t sb_magic;
	uint32_t sb_flags;
	uint32_t fs_type;
	uint64_t mnt_id;
	uint64_t mnt_parent_id;
	uint32_t mnt_id_old;
	uint32_t mnt_parent_id_old;
	uint64_t mnt_attr;
	uint64_t mnt_propagation;
	uint64_t mnt_peer_group;
	uint64_t mnt_master;
	uint64_t propagate_from;
	uint32_t mnt_root; /* offset into strings */
	uint32_t mnt_point;
	uint64_t spare[50];
	char strings[4096 + 64]; /* room for a path */
};

_Static_assert(offsetof(struct sys_statmount, strings) == 512, "as the kernel has it");

/* Constants of the new mount API, own copies so that old headers do not matter. Source: linux/mount.h. */
enum {
	SYS_OPEN_TREE_CLONE = 1,
	SYS_FSOPEN_CLOEXEC = 1,
	SYS_FSMOUNT_CLOEXEC = 1,
	SYS_FSCONFIG_SET_FLAG = 0,
	SYS_FSCONFIG_SET_STRING = 1,
	SYS_FSCONFIG_CMD_CREATE = 6,
	SYS_FSCONFIG_CMD_CREATE_EXCL = 8,
	SYS_MOVE_MOUNT_F_EMPTY_PATH = 0x04,
	SYS_MOVE_MOUNT_T_EMPTY_PATH = 0x40,
	SYS_MOUNT_ATTR_RDONLY = 0x01,
	SYS_MOUNT_ATTR_NOSUID = 0x02,
	SYS_MOUNT_ATTR_NODEV = 0x04,
	SYS_MOUNT_ATTR_NOEXEC = 0x08,
	SYS_MOUNT_ATTR_ATIME = 0x70, /* a field, 0: relatime */
	SYS_MOUNT_ATTR_NOATIME = 0x10,
	SYS_MOUNT_ATTR_NODIRATIME = 0x80,
	SYS_MOUNT_ATTR_IDMAP = 0x00100000,
	SYS_MOUNT_ATTR_NOSYMFOLLOW = 0x00200000,
	SYS_STATMOUNT_SB_BASIC = 0x01,
	SYS_STATMOUNT_MNT_BASIC = 0x02,
	SYS_STATMOUNT_MNT_ROOT = 0x08,
	SYS_STATMOUNT_MNT_POINT = 0x10,
	SYS_STATMOUNT_FS_TYPE = 0x20,
	SYS_STATMOUNT_MNT_OPTS = 0x80, /* since Linux 6.11 */
	SYS_STATX_MNT_ID_UNIQUE = 0x4000,
	SYS_NR_STATMOUNT = 457, /* the same on every architecture */
	SYS_NR_LISTMOUNT = 458,
	SYS_UMOUNT_DETACH = 2,
	SYS_UMOUNT_EXPIRE = 4,
	SYS_UMOUNT_NOFOLLOW = 8,
};

#define SYS_LSMT_ROOT UINT64_MAX /* for sys_listmount(): below this process's root */

int sys_openat(int dir_fd, const char *name, int flags);
int sys_mkdirat(int dir_fd, const char *name, mode_t mode);
int sys_rmdirat(int dir_fd, const char *name);
int sys_readlinkat(int dir_fd, const char *name, char *buf, size_t size);
int sys_fstatat(int dir_fd, const char *name, struct stat *ret, int flags);
int sys_fstatfs(int fd, struct statfs *ret);
int sys_statx(int dir_fd, const char *name, int flags, unsigned int mask, struct statx *ret);
int sys_fchdir(int fd);

int sys_fsopen(const char *type, unsigned int flags);
int sys_fsconfig(int fs_fd, unsigned int cmd, const char *key, const void *value, int aux);
int sys_fsmount(int fs_fd, unsigned int flags, unsigned int attributes);
int sys_open_tree(int dir_fd, const char *path, unsigned int flags);
int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags);
int sys_mount_setattr(int dir_fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr);
int sys_umount2(const char *name, int flags);
/* Since Linux 6.8; @mount_id as statx(2) gives it for SYS_STATX_MNT_ID_UNIQUE. sys_listmount() returns how
 * many of the mounts below were written to @ret_ids. */
int sys_statmount(uint64_t mount_id, uint64_t mask, struct sys_statmount *ret);
ssize_t sys_listmount(uint64_t mount_id, uint64_t after_id, uint64_t *ret_ids, size_t n);

ssize_t sys_write(int fd, const void *bytes, size_t n);
ssize_t sys_pread(int fd, void *buf, size_t n, off_t offset);
int sys_fdatasync(int fd);
/* SIGALRM in so many seconds; 0: cancelled. */
int sys_set_timer(unsigned int seconds);
int sys_fallocate(int fd, int mode, off_t offset, off_t n);
int sys_ofd_lock(int fd, int cmd, struct flock *lock);
ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t sys_recvfrom(int fd, void *buf, size_t n, int flags); /* the sender is not checked */
ssize_t sys_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to,
		   unsigned int to_len);
