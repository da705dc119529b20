/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The mounts that this process's namespace shows. Read only. */

#include "base/cleanup.h"
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
	bool is_stopped;		  /* its file system is read-only, or an error stopped writes to it */
	bool is_unshared;		  /* of an NFS file system: nosharecache is shown */
	char options[MOUNT_OPTIONS_SIZE]; /* of the mount, for people; cut at the end */
	char root[MOUNT_ROOT_SIZE];	  /* within its file system; empty: too long */
	char fs_type[MOUNT_TYPE_SIZE];
};

struct mount_table;

/** Read the whole table. @ret owned by the caller, mount_table_free() */
enum status mount_table_read(struct mount_table **ret, struct error *err);

/** Reads the mounts below @base, or brings *@table up to date, which was read for the same @base. Costs
 * nothing if no mount has changed. *@table owned by the caller; NULL at the first time; untouched on failure.
 *
 * Since Linux 6.8 the ids of mounts are never given again and identify new mounts: only ids above the highest
 * known one are listed. So foreign mounts cost once. A mount gets its id before it is attached, and keeps it
 * when it is moved. Therefore ids above @settled are listed each time, and after a minute everything is read
 * again. Before Linux 6.8 each change makes it read everything.
 *
 * @settled the mount_table_last() from before the oldest call began that may attach a mount below @base and
 * has not ended; UINT64_MAX: there is no such call; 0: unknown, all ids are listed */
enum status mount_table_refresh(struct mount_table **table, const char *base, uint64_t settled,
				struct error *err);

/** The highest id that @table knows. A mount that is made from now on has a higher one. @table NULL: 0 */
uint64_t mount_table_last(const struct mount_table *table);

/** NULL is allowed. */
void mount_table_free(struct mount_table *table);
DEFINE_CLEANUP(struct mount_table, mount_table_free)

/** STATUS_NOT_FOUND when nothing is mounted exactly at @path. Costs the logarithm of the number of mounts.
 * The kernel is asked about the mount, so a mount that is gone since is not found. */
enum status mount_table_find(const struct mount_table *table, const char *path, struct mount_view *ret,
			     struct error *err);

/* How many mounts there are, hidden ones too. */
struct mount_count {
	size_t here;		       /* exactly at the path */
	size_t below;		       /* at paths below it */
	char stacked[MOUNT_ROOT_SIZE]; /* below it: a path with more than one, cut at its end; or empty */
};

/** Counts the mounts at and below @path. Costs the logarithm of the number of mounts, plus the mounts
 * below. */
void mount_table_count(const struct mount_table *table, const char *path, struct mount_count *ret);
