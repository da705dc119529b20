/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Describes the current step of a slow mount or release, which the server reports to its callers. Pure. */

#include "model/alloc.h"
#include "volume/manager.h"

/* From the beginning of a mount or release to the first report of progress, and the longest between two;
 * doubled in between. */
enum {
	MOUNT_CHANGES_FIRST_MS = 2000,
	MOUNT_CHANGES_MAX_MS = 30000,
};

/** Write plugin, call, since when, how often and the last error of a mount of @volume, or of its release;
 * returns @dst. */
char *mount_changes_text(const struct volume_op_info *info, bool is_release, const char *volume,
			 char dst[static ALLOC_DESCRIPTION_MAX + 1]);
