#pragma once
/* Block devices as the kernel shows them to everybody: looked at, never opened. */

#include "mount_table.h"
#include "mounthelper_wire.h"

#include "base/error.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stdint.h>

/** What to stage for a volume: its source in the helper's words; of a block volume with the numbers of the
 * device that /dev/disk/by-id names now. STATUS_NOT_FOUND when the device is not there. */
enum status device_source(const struct source *source, struct mh_source *ret, struct error *err);

/** Has the kernel still a file system of this block device open, in whatever mount namespace? */
bool device_has_superblock(uint32_t dev_major, uint32_t dev_minor);

enum { DEVICE_POINT_SIZE = 256 };

/* What this process sees mounted of a device, apart from what is below two folders. */
struct device_mounts {
	bool is_elsewhere;
	bool is_whole;		       /* its file system's root is mounted within the folders */
	char point[DEVICE_POINT_SIZE]; /* the first of elsewhere; cut at the end; empty: none */
};

/** One pass over the whole mount table. Nothing is found when it cannot be read.
 * @within two folders, whose mounts are not elsewhere; empty: none */
void device_find_mounts(uint32_t dev_major, uint32_t dev_minor, const char *const within[static 2],
			struct device_mounts *ret);

/** Which device is bound at a mount, as the kernel's own table of devices has it; STATUS_FAILED_PRECONDITION
 * when it is no block device of this node. */
enum status device_of_mount(const struct mount_view *view, uint32_t *ret_major, uint32_t *ret_minor,
			    struct error *err);
