#pragma once
/* Find the block device behind an entry of /dev/disk/by-id. */

#include "helper.h"
#include "outcome.h"

enum { DEVICE_NAME_SIZE = 64 };

struct block_source {
	char path[DEVICE_NAME_SIZE + 8]; /* "/dev/NAME", what the mount table will show */
	uint32_t dev_major;
	uint32_t dev_minor;
};

/** Read the link @by_id, pin the node it names in /dev and compare its number with what the request expects.
 * Returns MH_OK, MH_REFUSED when the link or the node is not what it should be, or MH_KERNEL. */
struct outcome block_source_find(const struct helper *h, const struct mh_source *source,
				 struct block_source *ret);

/** Name of the device that the link text @target of @n bytes points to: "../../" and one `[a-z0-9-]+`.
 * Returns 0 or -EINVAL. Pure. */
int by_id_target(const char *target, size_t n, char ret[static DEVICE_NAME_SIZE]);
