/* SPDX-License-Identifier: Apache-2.0 */
/* Smoke test of the seam: each wrapper reaches its system call and turns failure into a negative errno. */

#include "temp_dir.h"
#include "unit.h"

#include "base/sys.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/vfs.h>

struct fixture {
	char dir[TEMP_DIR_SIZE];
	int dir_fd;
};

static int setup(void **state)
{
	static struct fixture f;

	temp_dir_make(f.dir);
	f.dir_fd = sys_openat(AT_FDCWD, f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f.dir_fd >= 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close_fdp(&f->dir_fd);
	temp_dir_remove(f->dir);
	return 0;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(folders_are_made_looked_at_and_removed)
{
	struct statfs fs;
	struct statx stx;
	struct stat st;
	char link[16];

	assert_int_equal(sys_mkdirat(f->dir_fd, "d", 0700), 0);
	assert_int_equal(sys_mkdirat(f->dir_fd, "d", 0700), -EEXIST);
	assert_int_equal(sys_fstatat(f->dir_fd, "d", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(sys_statx(f->dir_fd, "d", AT_SYMLINK_NOFOLLOW, STATX_INO, &stx), 0);
	assert_int_equal(stx.stx_ino, st.st_ino);
	assert_int_equal(sys_fstatfs(f->dir_fd, &fs), 0);
	assert_true(fs.f_bsize > 0);
	assert_int_equal(sys_rmdirat(f->dir_fd, "d"), 0);
	assert_int_equal(sys_rmdirat(f->dir_fd, "d"), -ENOENT);
	assert_int_equal(sys_fstatat(f->dir_fd, "d", &st, 0), -ENOENT);
	assert_int_equal(sys_statx(f->dir_fd, "d", 0, STATX_INO, &stx), -ENOENT);
	assert_int_equal(symlinkat("target", f->dir_fd, "l"), 0);
	assert_int_equal(sys_readlinkat(f->dir_fd, "l", link, sizeof(link)), 6);
	assert_memory_equal(link, "target", 6);
	assert_int_equal(sys_readlinkat(f->dir_fd, "none", link, sizeof(link)), -ENOENT);
	assert_int_equal(sys_openat(f->dir_fd, "none", O_RDONLY), -ENOENT);
	assert_int_equal(sys_statx(-1, "", AT_EMPTY_PATH, STATX_INO, &stx), -EBADF);
	assert_int_equal(sys_fstatfs(-1, &fs), -EBADF);
}

CASE(changing_the_folder_needs_a_folder)
{
	cleanup_close int here = sys_openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char cwd[TEMP_DIR_SIZE + 1];

	assert_int_equal(sys_fchdir(f->dir_fd), 0);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_string_equal(cwd, f->dir);
	assert_int_equal(sys_fchdir(here), 0);
	assert_int_equal(sys_fchdir(-1), -EBADF);
}

CASE(bytes_are_written_synced_locked_and_read)
{
	cleanup_close int fd = openat(f->dir_fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cleanup_close int other = openat(f->dir_fd, "file", O_RDWR | O_CLOEXEC);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char buf[8];

	assert_int_equal(sys_write(fd, "hello", 5), 5);
	assert_int_equal(sys_fdatasync(fd), 0);
	assert_int_equal(sys_pread(fd, buf, sizeof(buf), 1), 4);
	assert_memory_equal(buf, "ello", 4);
	assert_int_equal(sys_ofd_lock(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(sys_ofd_lock(other, F_OFD_SETLK, &lock), -EAGAIN);
	assert_int_equal(sys_write(-1, "x", 1), -EBADF);
	assert_int_equal(sys_pread(-1, buf, 1, 0), -EBADF);
	assert_int_equal(sys_fdatasync(-1), -EBADF);
	assert_int_equal(sys_ofd_lock(-1, F_OFD_SETLK, &lock), -EBADF);
}

TEST_FIXTURE(messages_are_sent_and_received, setup, teardown)
{
	char buf[8];
	struct iovec part = {.iov_base = buf, .iov_len = sizeof(buf)};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(sys_recvmsg(ends[1], &msg, MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(sys_sendto(ends[0], "hello", 5, MSG_NOSIGNAL, NULL, 0), 5);
	assert_int_equal(sys_recvmsg(ends[1], &msg, 0), 5);
	assert_memory_equal(buf, "hello", 5);
	close_fdp(&ends[1]);
	assert_int_equal(sys_sendto(ends[0], "x", 1, MSG_NOSIGNAL, NULL, 0), -EPIPE);
	close_fdp(&ends[0]);
	assert_int_equal(sys_recvmsg(-1, &msg, 0), -EBADF);
}

/* Refused by an old kernel, for want of privilege, or for the nonsense asked: an errno in every case. */
TEST(mount_calls_fail_with_an_errno)
{
	struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_RDONLY};

	assert_in_range(-sys_fsopen("no-such-file-system", SYS_FSOPEN_CLOEXEC), 1, 4095);
	assert_in_range(-sys_fsconfig(-1, SYS_FSCONFIG_SET_FLAG, "ro", NULL, 0), 1, 4095);
	assert_in_range(-sys_fsmount(-1, SYS_FSMOUNT_CLOEXEC, 0), 1, 4095);
	assert_in_range(-sys_open_tree(-1, "x", 0), 1, 4095);
	assert_in_range(-sys_move_mount(-1, "", -1, "", SYS_MOVE_MOUNT_F_EMPTY_PATH), 1, 4095);
	assert_in_range(-sys_mount_setattr(-1, "x", 0, &attr), 1, 4095);
	assert_in_range(-sys_umount2("/nowhere/at/all", SYS_UMOUNT_NOFOLLOW), 1, 4095);
}

TEST(our_constants_are_the_kernels)
{
	assert_int_equal(SYS_OPEN_TREE_CLONE, OPEN_TREE_CLONE);
	assert_int_equal(SYS_FSOPEN_CLOEXEC, FSOPEN_CLOEXEC);
	assert_int_equal(SYS_FSMOUNT_CLOEXEC, FSMOUNT_CLOEXEC);
	assert_int_equal(SYS_FSCONFIG_SET_FLAG, FSCONFIG_SET_FLAG);
	assert_int_equal(SYS_FSCONFIG_SET_STRING, FSCONFIG_SET_STRING);
	assert_int_equal(SYS_FSCONFIG_CMD_CREATE, FSCONFIG_CMD_CREATE);
	assert_int_equal(SYS_MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_F_EMPTY_PATH);
	assert_int_equal(SYS_MOVE_MOUNT_T_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH);
	assert_int_equal(SYS_MOUNT_ATTR_RDONLY, MOUNT_ATTR_RDONLY);
	assert_int_equal(SYS_MOUNT_ATTR_NOSUID, MOUNT_ATTR_NOSUID);
	assert_int_equal(SYS_MOUNT_ATTR_NODEV, MOUNT_ATTR_NODEV);
	assert_int_equal(SYS_MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOEXEC);
	assert_int_equal(SYS_MOUNT_ATTR_NOSYMFOLLOW, MOUNT_ATTR_NOSYMFOLLOW);
	assert_int_equal(sizeof(struct sys_mount_attr), sizeof(struct mount_attr));
}

TEST(an_alarm_is_set_once_and_taken_back)
{
	struct itimerval timer;

	assert_int_equal(sys_set_timer(1000), 0);
	assert_int_equal(getitimer(ITIMER_REAL, &timer), 0);
	assert_in_range(timer.it_value.tv_sec, 998, 1000);
	assert_int_equal(timer.it_interval.tv_sec, 0);
	assert_int_equal(sys_set_timer(0), 0);
	assert_int_equal(getitimer(ITIMER_REAL, &timer), 0);
	assert_int_equal(timer.it_value.tv_sec, 0);
	assert_int_equal(timer.it_value.tv_usec, 0);
}
