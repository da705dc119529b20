/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What this process's mount namespace shows: read only, by libmount. */

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MOUNT_OPTIONS_SIZE = 256,
	MOUNT_ROOT_SIZE = 256,
	MOUNT_TYPE_SIZE = 32,
};

/* The topmost mount at a path. */
struct mount_view {
	uint32_t dev_major;
	uint32_t dev_minor;
	bool is_read_only; /* of the mount or of its file system */
	bool is_nosuid;
	bool is_nodev;
	bool is_noexec;
	bool is_unshared;		  /* of an NFS file system: nosharecache */
	char options[MOUNT_OPTIONS_SIZE]; /* of the mount, for people; cut at the end */
	char root[MOUNT_ROOT_SIZE];	  /* within its file system; empty: too long */
	char fs_type[MOUNT_TYPE_SIZE];
};

struct mount_table;

/** Read the table. @ret owned by the caller, mount_table_free() */
enum status mount_table_read(struct mount_table **ret, struct error *err);

/** The same, into a table that is kept: read at the first time, when *@table is NULL, and then only if the
 * kernel's has changed since. It has only what is mounted below @base, so that it stays small among thousands
 * of mounts; the same @base each time. *@table owned by the caller; untouched on failure.
 *
 * Since Linux 6.8 it is read anew only when something was mounted below @base: what was unmounted is taken
 * out, by the ids of all mounts, which cost 8 bytes each. A mount keeps its id when it is moved: one that is
 * moved there by move_mount(2) from elsewhere in this namespace is seen with the next one that is made there.
 */
enum status mount_table_refresh(struct mount_table **table, const char *base, struct error *err);

/** NULL is allowed. */
void mount_table_free(struct mount_table *table);

/** STATUS_NOT_FOUND when nothing is mounted exactly at @path. Costs the logarithm of the number of mounts. */
enum status mount_table_find(const struct mount_table *table, const char *path, struct mount_view *ret,
			     struct error *err);

/* How many mounts there are, hidden ones too. */
struct mount_count {
	size_t here;		       /* exactly at the path */
	size_t below;		       /* at paths below it */
	char stacked[MOUNT_ROOT_SIZE]; /* below it: a path with more than one, cut at its end; empty: none */
};

/** Count what is mounted at and below @path. Costs the logarithm of the number of mounts, and what is below.
 */
void mount_table_count(const struct mount_table *table, const char *path, struct mount_count *ret);
