#pragma once
/* What stands at a name, and what only the kernel's mount table tells about it.
 *
 * Linux 6.8 answers for one mount (statmount(2), listmount(2)); before that the whole table has to be read.
 * Which of the two it is shows in the ids that statx(2) gives: unique ones come with the new calls. */

#include "base/cleanup.h"
#include "base/mountinfo.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

/* What one name of a directory is at this moment, pinned. */
struct place {
	int fd; /* O_PATH, owned */
	uint64_t mount_id;
	bool id_is_unique; /* never used again, and known to statmount(2) */
	uint64_t ino;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t uid;
	uint16_t mode;
	bool is_mount_root;
};

#define PLACE_INIT           \
	{                    \
		.fd = -EBADF \
	}
#define cleanup_place cleanup(place_release)

/** Close the descriptor; the rest stays to be read. */
void place_release(struct place *place);

/** Pin the directory @name in @dir_fd. Returns 0 or a negative errno; @ret untouched then. */
int place_open(int dir_fd, const char *name, struct place *ret);

/** What an open descriptor is, without taking it over: ret->fd stays -EBADF. */
int place_of_fd(int fd, struct place *ret);

/** mkdirat, then place_open; a directory that exists is fine. */
int place_make(int dir_fd, const char *name, struct place *ret);

/** Do both show the same directory of the same file system? */
bool place_is_same(const struct place *a, const struct place *b);

/* In f_flags; libc does not name it. */
enum { ST_NOSYMFOLLOW_ = 0x2000 };

struct mount_facts {
	uint64_t peer_group; /* 0: not shared */
	uint64_t master;     /* peer group it is a slave of, or 0 */
	uint64_t key;	     /* of its device and its root there: see mount_key() */
	bool root_is_whole;  /* the root of its file system, not a subtree */
};

/** The same for all mounts of one directory of one file system, as the table names them: mounts of one device
 * differ by their root. */
uint64_t mount_key(uint32_t dev_major, uint32_t dev_minor, const char *root);

/** Facts of the mount @place is the root of. Returns 0 or a negative errno. */
int mount_facts(struct mountinfo *table, const struct place *place, struct mount_facts *ret);

/** Is anything mounted below the mount @place is the root of? 1, 0 or a negative errno. */
int mount_has_submounts(struct mountinfo *table, const struct place *place);

/** Does @fs show of the attributes that restrict a mount (read-only, nosuid, nodev, noexec, nosymfollow)
 * exactly those of @attributes, MOUNT_ATTR_*? A read-only superblock shows like a read-only mount. */
bool mount_shows(const struct statfs *fs, uint64_t attributes);
