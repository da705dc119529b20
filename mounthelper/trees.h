#pragma once
/* Names below the two trees: pin one, see what stands there, and what the whole mount table says about them.
 *
 *	stage base/VOLUME		one staged file system
 *	publish base/ALLOC/SLOT		one publish of a volume for an allocation
 *
 * Every name is one component that the helper formed itself; links are never followed. */

#include "helper.h"

#include "base/cleanup.h"

#include <sys/types.h>

struct statfs;

enum { SLOT_NAME_SIZE = 4 };

/* What one name is at this moment, pinned. */
struct place {
	int fd; /* O_PATH, owned */
	uint64_t mount_id;
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

void place_release(struct place *place);

/** Pin the directory @name in @dir_fd. Returns 0 or a negative errno; @ret untouched then. */
int place_open(int dir_fd, const char *name, struct place *ret);

/** What an open descriptor is, without taking it over: ret->fd stays -EBADF. */
int place_of_fd(int fd, struct place *ret);

/** Is @place a plain directory of ours in @tree: no mount, no foreign owner, not writable by others? */
bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place);

/** Do both show the root of the same file system? */
bool place_is_same(const struct place *a, const struct place *b);

/** mkdirat, then place_open; a directory that exists is fine. */
int place_make(int dir_fd, const char *name, struct place *ret);

/** umount2(@name, NOFOLLOW) with @dir_fd as working directory, so that nothing but one name is resolved. */
int place_unmount(const struct helper *h, int dir_fd, const char *name, bool detach);

/** Name of the directory of @slot; returns @ret. */
char *slot_name(uint8_t slot, char ret[static SLOT_NAME_SIZE]);

enum tree_kind {
	TREE_NONE,
	TREE_STAGED,
	TREE_PUBLISHED,
};

struct tree_name {
	char volume[MH_LABEL_SIZE];
	char alloc[MH_UUID_SIZE];
	uint8_t slot;
};

/** Which of our names the mount point @point is. Pure. */
enum tree_kind tree_classify(const struct agent_policy *agent, const char *point, struct tree_name *ret);

/* A question to the whole mount table, and its answers. */
struct census {
	/* asked for */
	const char *alloc;  /* or NULL */
	uint32_t dev_major; /* of the device, 0:0 for none */
	uint32_t dev_minor;
	uint64_t parent; /* mount id, 0 for none */
	/* found */
	uint32_t staged;
	uint32_t published;
	uint32_t in_alloc;
	uint32_t on_device;	      /* mounts of the device anywhere */
	uint32_t staged_on_device;    /* of them, staged by us */
	uint32_t published_on_device; /* of them, publishes of ours */
	uint32_t children;	      /* mounts directly on the parent */
	uint64_t tmpfs_bytes;	      /* staged; UINT64_MAX when one hides its size */
};

/** Fill the answers in @census by one pass. Returns 0 or a negative errno. */
int census_take(struct helper *h, struct census *census);
