#pragma once
/* Block devices as the kernel shows them to everybody: looked at, never opened. */

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
