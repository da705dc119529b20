/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The object at a name, and facts about it that only the kernel's mount table has.
 *
 * Linux 6.8 answers for one mount (statmount(2), listmount(2)); before that the whole table must be read.
 * The ids that statx(2) returns show which of the two it is: unique ones come with the new calls. */

#include "base/cleanup.h"
#include "base/mountinfo.h"
#include "base/sys.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/* The object at one name of a directory at this moment, pinned. */
struct place {
	int fd; /* O_PATH, owned */
	uint64_t mount_id;
	bool id_is_unique; /* never used again, and known to statmount(2) */
	uint64_t ino;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t rdev_major; /* of a file that is a device */
	uint32_t rdev_minor;
	uint32_t uid;
	uint16_t mode;
	bool is_mount_root;
	uint64_t idmap; /* MOUNT_ATTR_IDMAP if mount_facts() found its mount to show other owners */
};

#define PLACE_INIT           \
	{                    \
		.fd = -EBADF \
	}
#define cleanup_place cleanup(place_release)

/** Closes the descriptor; the rest stays to be read. */
void place_release(struct place *place);

/** Pins the directory @name in @dir_fd. Returns 0 or a negative errno; @ret untouched then. */
int place_open(int dir_fd, const char *name, struct place *ret);

/** The same as place_open(), without pinning it: ret->fd stays -EBADF. -ENOTDIR fills @ret, too. */
int place_look(int dir_fd, const char *name, struct place *ret);

/** The same for an open descriptor, without taking it over: ret->fd stays -EBADF. */
int place_of_fd(int fd, struct place *ret);

/** mkdirat, then place_open; a directory that exists is fine. */
int place_make(int dir_fd, const char *name, struct place *ret);

/** Do both show the same directory of the same file system, both by an idmapped mount or neither? */
bool place_is_same(const struct place *a, const struct place *b);

/* The attributes that restrict what can be done with a mount. */
enum {
	MOUNT_RESTRICTIONS = SYS_MOUNT_ATTR_RDONLY | SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV |
			     SYS_MOUNT_ATTR_NOEXEC | SYS_MOUNT_ATTR_NOSYMFOLLOW,
	MOUNT_ATTRIBUTES = MOUNT_RESTRICTIONS | SYS_MOUNT_ATTR_IDMAP,
};

/* Had without a question to the file system, whose server or daemon may never answer. */
struct mount_facts {
	uint64_t peer_group; /* 0: not shared */
	uint64_t master;     /* peer group it is a slave of, or 0 */
	uint64_t parent;     /* the mount that it is mounted on, an id as in struct place */
	bool root_is_whole;  /* the root of its file system, not a subtree */
	uint64_t attributes; /* of MOUNT_ATTRIBUTES; read-only also if only the file system is */
	char type[16];	     /* of the file system, empty for a longer name */
	char root[1024]; /* its root: device of the file system and path in it, as /8:1 or /8:1/a/b; empty if
			  * longer. Files of a btrfs show other devices. */
};

/** Facts of the mount @place is the root of. Returns 0 or a negative errno. */
int mount_facts(struct mountinfo *table, struct place *place, struct mount_facts *ret);

/** The same without names: root_is_whole, root and type may be unset. For names the kernel allocates 12 KiB
 * and formats a path. */
int mount_flags(struct mountinfo *table, const struct place *place, struct mount_facts *ret);

/** Is the mount @place is the root of writable, but not its file system: an error stopped writes, or it was
 * remounted? False also before Linux 6.8, where mount_facts() show such a mount as read-only. */
bool mount_has_stopped(const struct place *place);

/** Is anything mounted below the mount @place is the root of? 1, 0 or a negative errno. The kernel goes
 * through all mounts of the namespace. */
int mount_has_submounts(struct mountinfo *table, const struct place *place);

/** Does the mount have of MOUNT_RESTRICTIONS exactly those of @attributes, MOUNT_ATTR_*? */
bool mount_shows(const struct mount_facts *facts, uint64_t attributes);
