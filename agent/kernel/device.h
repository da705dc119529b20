/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Block devices as the kernel shows them to everybody: looked at, never opened. */

#include "mounthelper_wire.h"

#include "base/error.h"
#include "kernel/mount_table.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stdint.h>

/** Fills in the source of a volume for the helper; of a block volume with the numbers of the device that
 * /dev/disk/by-id names now. STATUS_NOT_FOUND when the device is not there. */
enum status device_source(const struct source *source, struct mh_source *ret, struct error *err);

/** Returns whether the kernel has a file system of this block device open, in any mount namespace; true also
 * if it cannot be asked. */
bool device_has_superblock(uint32_t dev_major, uint32_t dev_minor);

enum {
	DEVICE_POINT_SIZE = 256,
	DEVICE_NAME_SIZE = 64,
};

/** As sysfs calls it; -ENOENT: there is no such block device. */
int device_name(uint32_t dev_major, uint32_t dev_minor, char ret[static DEVICE_NAME_SIZE]);

/** @return false: stop */
typedef bool device_named_fn(const char *name, void *userdata);

/** Call @named for each block device of which the kernel has a file system open, by its name in sysfs; and
 * perhaps for other names, which are no device's. Costs what there are of them. Returns whether these were
 * all.
 */
bool device_each_superblock(device_named_fn *named, void *userdata);

/* The mounts of a device that this process sees, except those below two folders. */
struct device_mounts {
	bool is_elsewhere;
	bool is_whole;		       /* its file system's root is mounted within the folders */
	char point[DEVICE_POINT_SIZE]; /* the first of elsewhere; cut at the end; empty: not elsewhere */
};

/** Count in one mount of the device: the root of @root, within its file system, is mounted at @point. */
void device_mounts_note(struct device_mounts *mounts, const char *root, const char *point,
			const char *const within[static 2]);

/** Finds the mounts in one pass over the whole mount table. Finds nothing when it cannot be read.
 * @within two folders, whose mounts are not elsewhere; empty: no folder */
void device_find_mounts(uint32_t dev_major, uint32_t dev_minor, const char *const within[static 2],
			struct device_mounts *ret);

/** Returns whether the root of a mount of the device is at @point, and neither @point nor the mount is of
 * @within. Asks only the kernel, no file system, at a cost that does not depend on the number of mounts.
 * Returns false also when it would have to ask, or may not look: then use device_find_mounts(). Source:
 * openat2(2) RESOLVE_CACHED (Linux 5.12), statx(2) STATX_ATTR_MOUNT_ROOT. */
bool device_is_mounted_at(uint32_t dev_major, uint32_t dev_minor, const char *point,
			  const char *const within[static 2]);

/** Which device is bound at a mount, as the kernel's own table of devices has it; STATUS_FAILED_PRECONDITION
 * when it is no block device of this node. */
enum status device_of_mount(const struct mount_view *view, uint32_t *ret_major, uint32_t *ret_minor,
			    struct error *err);
