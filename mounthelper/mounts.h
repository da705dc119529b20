#pragma once
/* What stands at a name, and what only the kernel's mount table tells about it.
 *
 * Linux 6.8 answers for one mount (statmount(2), listmount(2)); before that the whole table has to be read.
 * Which of the two it is shows in the ids that statx(2) gives: unique ones come with the new calls. */

#include "helper.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

/* What one name is at this moment, pinned. */
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

/** Is @place a plain directory of ours in @tree: no mount, no foreign owner, not writable by others? */
bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place);

/** Do both show the same directory of the same file system? */
bool place_is_same(const struct place *a, const struct place *b);

/** umount2(@name, NOFOLLOW) with @dir_fd as working directory, so that nothing but one name is resolved. */
int place_unmount(const struct helper *h, int dir_fd, const char *name, bool detach);

/* In f_flags; libc does not name it. */
enum { ST_NOSYMFOLLOW_ = 0x2000 };

struct mount_facts {
	uint64_t peer_group; /* 0: not shared */
	uint64_t master;     /* peer group it is a slave of, or 0 */
	uint64_t key;	     /* of its device and its root there: see mount_key() */
	bool root_is_whole;  /* the root of its file system, not a subtree */
	bool has_submounts;  /* anything is mounted below */
};

/** The same for all mounts of one directory of one file system, as the table names them: mounts of one device
 * differ by their root. */
uint64_t mount_key(uint32_t dev_major, uint32_t dev_minor, const char *root);

/** statfs(2) of @place, which is pinned, as far as it can be had without a question that may get no answer:
 * of a file system that is none of fs_types, a daemon's perhaps, only f_type and f_flags as the mount table
 * has them. Returns 0 or a negative errno. */
int mount_statfs(struct helper *h, const struct place *place, struct statfs *ret);

/** Facts of the mount @place is the root of. Returns 0 or a negative errno. */
int mount_facts(struct helper *h, const struct place *place, struct mount_facts *ret);
