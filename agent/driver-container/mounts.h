/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where a path is mounted from. */

#include "base/mountinfo.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mount_flag { READ_ONLY = 1, NO_SUID = 2, NO_DEV = 4, NO_EXEC = 8 };

/* A folder in its file system. */
struct place {
	uint32_t dev_major, dev_minor;
	char root[PATH_MAX];
	unsigned int flags; /* of the mount that shows it there */
	size_t n_point;	    /* length of that mount's point */
	bool is_point;	    /* that mount's point is the path itself */
	bool is_shared, is_slave;
	bool is_known; /* otherwise it equals no place */
};

/** Calls @visit for each mount of the table at @path, as mountinfo_each() does. Returns a negative errno,
 * also of open(2). */
int mounts_read(const char *path, mount_visit_fn *visit, void *userdata);

/** Finds the place of @path by the table @table, from the root on: a mount whose point another one hides does
 * not count. It looks only at points of up to @n_max characters. @ret is not known if no mount shows the
 * path, or its place is too long. Returns 0 or a negative errno: -E2BIG if more than 64 mounts are on the
 * way. */
int mounts_find(const char *table, const char *path, size_t n_max, struct place *ret);

/** The flags among the per-mount options of an entry. */
unsigned int mounts_flags(const char *options);
