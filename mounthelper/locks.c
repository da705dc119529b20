#include "locks.h"

#include "helper.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>

/* Bytes of the file, far beyond its contents: one each for what there is one of, and two ranges of hashed
 * names. Two names that meet in 60 bits of SHA-256 only wait for each other. */
#define LOCK_TABLE (INT64_C(1) << 40)
#define LOCK_TMPFS (LOCK_TABLE + 1)
#define LOCK_INSTANCE (LOCK_TABLE + 16)
#define LOCK_VOLUME (INT64_C(1) << 61)
#define LOCK_ALLOC (INT64_C(1) << 60)
#define LOCK_NAME_MASK (LOCK_ALLOC - 1)
#define LOCK_FIRST_NAME LOCK_ALLOC

static int lock(int fd, int cmd, short type, int64_t start, int64_t len)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
	int r;

	do {
		r = sys_ofd_lock(fd, cmd, &fl);
	} while (r == -EINTR);
	return r == -EACCES ? -EAGAIN : r;
}

static int64_t name_byte(int64_t base, const char *name)
{
	uint8_t digest[crypto_hash_sha256_BYTES];
	int64_t hash;

	(void)crypto_hash_sha256(digest, (const unsigned char *)name, strlen(name));
	memcpy(&hash, digest, sizeof(hash));
	return base + (hash & LOCK_NAME_MASK);
}

int lock_instance(int fd)
{
	for (int i = 0; i < HELPER_INSTANCES; i++) {
		int r = lock(fd, F_OFD_SETLK, F_WRLCK, LOCK_INSTANCE + i, 1);

		if (r != -EAGAIN)
			return r < 0 ? r : i;
	}
	return -EAGAIN;
}

int lock_volume(int fd, const char *volume)
{
	return lock(fd, F_OFD_SETLK, F_WRLCK, name_byte(LOCK_VOLUME, volume), 1);
}

int lock_alloc(int fd, const char *alloc)
{
	return lock(fd, F_OFD_SETLKW, F_WRLCK, name_byte(LOCK_ALLOC, alloc), 1);
}

int lock_tmpfs(int fd)
{
	return lock(fd, F_OFD_SETLKW, F_WRLCK, LOCK_TMPFS, 1);
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
	(void)lock(fd, F_OFD_SETLKW, F_UNLCK, LOCK_TMPFS, 1);
	(void)lock(fd, F_OFD_SETLKW, F_UNLCK, LOCK_FIRST_NAME, 0); /* to the end: both ranges of names */
}
