#pragma once
/* After a restart: what the journal says of an allocation beside what the kernel shows, and what follows.
 * Pure. */

#include "alloc_record.h"
#include "mount_table.h"
#include "picture.h"

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum adopt_action {
	ADOPT_NOTHING,	/* finished before */
	ADOPT_KEEP,	/* runs as journalled: nothing is claimed or mounted again */
	ADOPT_GO_ON,	/* claiming, mounting or stopping goes on from the journalled step */
	ADOPT_FAIL,	/* a mount is missing, or another one stands there */
	ADOPT_REBOOTED, /* its mounts ended with the last boot */
	ADOPT_ACTION_N,
};

/** @picture of this boot
 * @table  where a device that a csi plugin has bound shows; NULL: it cannot be read, what is journalled
 * counts
 * @ret_why filled for ADOPT_FAIL; may be NULL */
enum adopt_action adopt_decide(const struct alloc_record *record, const struct picture *picture,
			       const struct mount_table *table, const char *boot_id, struct error *ret_why);
