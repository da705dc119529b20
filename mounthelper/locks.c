#include "locks.h"

#include "helper.h"

#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>

/* Bytes of the file, far beyond its contents: the table's, the instances', and two ranges of hashed names to
 * the end. Two names that meet in 60 bits only wait for each other. */
#define LOCK_TABLE (INT64_C(1) << 40)
#define LOCK_INSTANCE (LOCK_TABLE + 16)
#define LOCK_ALLOC (INT64_C(1) << 60)
#define LOCK_VOLUME (INT64_C(1) << 61)

static int lock(int fd, int cmd, short type, int64_t start, int64_t len)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
	int r;

	do {
		r = sys_ofd_lock(fd, cmd, &fl);
	} while (r == -EINTR);
	return r == -EACCES ? -EAGAIN : r;
}

static int lock_name(int fd, int cmd, int64_t base, const char *name)
{
	return lock(fd, cmd, F_WRLCK, base + (int64_t)(str_hash(0, name) & (LOCK_ALLOC - 1)), 1);
}

int lock_instance(int fd)
{
	int r = -EAGAIN;

	for (int i = 0; i < HELPER_INSTANCES && r == -EAGAIN; i++) {
		r = lock(fd, F_OFD_SETLK, F_WRLCK, LOCK_INSTANCE + i, 1);
		if (r == 0)
			return i;
	}
	return r;
}

int lock_volume(int fd, const char *volume)
{
	return lock_name(fd, F_OFD_SETLK, LOCK_VOLUME, volume);
}

int lock_alloc(int fd, const char *alloc)
{
	return lock_name(fd, F_OFD_SETLKW, LOCK_ALLOC, alloc);
}

int lock_table(int fd)
{
	return lock(fd, F_OFD_SETLKW, F_WRLCK, LOCK_TABLE, 1);
}

void unlock_table(int fd)
{
	(void)lock(fd, F_OFD_SETLKW, F_UNLCK, LOCK_TABLE, 1); /* cannot fail for a lock that is held */
}

void lock_release(int fd)
{
	(void)lock(fd, F_OFD_SETLKW, F_UNLCK, LOCK_ALLOC, 0); /* to the end: both ranges of names */
}
