/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_model.h"
#include "fixture.h"

#include "base/clock.h"

#include <sys/socket.h>

static struct {
	enum fake_fault fault;
	const char *name; /* of the calls that count, NULL: all */
	int at, err, calls;
	bool fired;
} f;

jmp_buf fake_killed;

void fake_fault(enum fake_fault fault, int at_call, int sys_errno)
{
	f.fault = fault;
	f.name = NULL;
	f.at = at_call;
	f.err = sys_errno;
	f.calls = 0;
	f.fired = false;
}

void fake_fault_in(enum fake_fault fault, const char *name, int at_call)
{
	fake_fault(fault, at_call, EIO);
	f.name = name;
}

int fake_calls(void)
{
	return f.calls;
}

bool fake_fault_fired(void)
{
	return f.fired;
}

static bool counts(const char *function)
{
	return !f.name || str_eq(function + strlen("__wrap_sys_"), f.name);
}

/* A server may never answer: who is asked about a file system, or has to release one, must not keep the
 * other instances from the table. statx(2), which the log is asked with, too, has this in its wrapper. */
static void assert_table_is_free(const char *function)
{
	static const char *const asking[] = {"openat",	 "mkdirat",   "readlinkat",   "fstatfs",
					     "fsconfig", "fsmount",   "open_tree",    "move_mount",
					     "umount2",	 "listmount", "mount_setattr"};

	for (size_t i = 0; i < ARRAY_SIZE(asking) && model_table_is_locked(); i++)
		if (str_eq(function + strlen("__wrap_sys_"), asking[i]))
			fail_msg("%s with the table locked", asking[i]);
}

/* 0 to continue, else what the call returns. */
static int enter(const char *function)
{
	assert_table_is_free(function);
	if (!counts(function))
		return 0;
	f.calls++;
	if (f.fault == FAKE_NO_FAULT || f.calls != f.at)
		return 0;
	f.fired = true;
	if (f.fault == FAKE_KILL_BEFORE)
		longjmp(fake_killed, 1);
	return f.fault == FAKE_FAIL ? -f.err : 0;
}

static long leave(const char *function, long r)
{
	if (f.fault == FAKE_KILL_AFTER && f.calls == f.at && counts(function))
		longjmp(fake_killed, 1);
	return r;
}

#define CALL(type, expression)                                    \
	do {                                                      \
		int failed_ = enter(__func__);                    \
		if (failed_ < 0)                                  \
			return (type)failed_;                     \
		return (type)leave(__func__, (long)(expression)); \
	} while (0)

/* Seam. The linker sends the calls of the code under test here. */

int __real_close(int fd);

WRAPPED(int, sys_openat, int dir_fd, const char *name, int flags)
{
	CALL(int, model_openat(dir_fd, name, flags));
}

WRAPPED(int, sys_statx, int fd, const char *name, int flags, unsigned int mask, struct statx *ret)
{
	assert_true(fd == FAKE_LOG_READ_FD || !model_table_is_locked());
	CALL(int, model_statx(fd, name, flags, mask, ret));
}

WRAPPED(int, sys_mkdirat, int dir_fd, const char *name, mode_t mode)
{
	CALL(int, model_mkdirat(dir_fd, name, mode));
}

WRAPPED(int, sys_rmdirat, int dir_fd, const char *name)
{
	CALL(int, model_rmdirat(dir_fd, name));
}

WRAPPED(int, sys_readlinkat, int dir_fd, const char *name, char *buf, size_t size)
{
	CALL(int, model_readlinkat(dir_fd, name, buf, size));
}

WRAPPED(int, sys_fstatfs, int fd, struct statfs *ret)
{
	CALL(int, model_fstatfs(fd, ret));
}

WRAPPED(int, sys_fchdir, int fd)
{
	CALL(int, model_fchdir(fd));
}

WRAPPED(int, sys_fsopen, const char *type, unsigned int flags)
{
	CALL(int, model_fsopen(type, flags));
}

WRAPPED(int, sys_fsconfig, int fd, unsigned int cmd, const char *key, const void *value, int aux)
{
	CALL(int, model_fsconfig(fd, cmd, key, value, aux));
}

WRAPPED(int, sys_fsmount, int fd, unsigned int flags, unsigned int attributes)
{
	CALL(int, model_fsmount(fd, flags, attributes));
}

WRAPPED(int, sys_open_tree, int fd, const char *path, unsigned int flags)
{
	CALL(int, model_open_tree(fd, path, flags));
}

WRAPPED(int, sys_move_mount, int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
	CALL(int, model_move_mount(from_fd, from, to_fd, to, flags));
}

WRAPPED(int, sys_mount_setattr, int fd, const char *path, unsigned int flags,
	const struct sys_mount_attr *attr)
{
	CALL(int, model_mount_setattr(fd, path, flags, attr));
}

WRAPPED(int, sys_umount2, const char *name, int flags)
{
	CALL(int, model_umount2(name, flags));
}

WRAPPED(int, sys_statmount, uint64_t mount_id, uint64_t mask, struct sys_statmount *ret)
{
	CALL(int, model_statmount(mount_id, mask, ret));
}

WRAPPED(ssize_t, sys_listmount, uint64_t mount_id, uint64_t after_id, uint64_t *ret_ids, size_t n)
{
	CALL(ssize_t, model_listmount(mount_id, after_id, ret_ids, n));
}

WRAPPED(ssize_t, sys_write, int fd, const void *bytes, size_t n)
{
	CALL(ssize_t, model_write(fd, bytes, n));
}

WRAPPED(ssize_t, sys_pread, int fd, void *buf, size_t n, off_t offset)
{
	CALL(ssize_t, model_pread(fd, buf, n, offset));
}

WRAPPED(int, sys_set_timer, unsigned int seconds)
{
	k.timer_s = 0; /* taking it back never fails */
	if (seconds == 0)
		return 0;
	CALL(int, (k.timer_s = seconds, 0));
}

WRAPPED(int, sys_fdatasync, int fd)
{
	assert_int_equal(fd, FAKE_LOG_FD);
	CALL(int, 0);
}

WRAPPED(int, sys_fallocate, int fd, int mode, off_t offset, off_t n)
{
	CALL(int, model_fallocate(fd, mode, offset, n));
}

WRAPPED(ssize_t, sys_sendto, int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to,
	unsigned int to_len)
{
	CALL(ssize_t, model_sendto(fd, bytes, n, flags));
}

WRAPPED(ssize_t, sys_recvfrom, int fd, void *buf, size_t n, int flags)
{
	CALL(ssize_t, model_recvfrom(fd, buf, n, flags));
}

WRAPPED(int, sys_ofd_lock, int fd, int cmd, struct flock *lock)
{
	if (lock->l_type == F_UNLCK) {
		model_ofd_unlock(fd, lock);
		return 0;
	}
	CALL(int, model_ofd_lock(fd, cmd, lock));
}

WRAPPED(int, close, int fd)
{
	if (fd < FAKE_ROOT_FD)
		return __real_close(fd);
	model_close(fd);
	return 0;
}

WRAPPED(int64_t, clock_realtime_ms, void)
{
	return FIXTURE_NOW_MS;
}

static uint64_t clock_step_us = USEC_PER_SEC;

void fake_clock_step(uint64_t us)
{
	clock_step_us = us;
}

WRAPPED(uint64_t, clock_monotonic_us, void)
{
	static uint64_t now;

	return now += clock_step_us;
}
