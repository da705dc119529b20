/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The mount at one path: one look at the kernel, at constant cost. */

#include "kernel/mount_table.h"

enum path_state {
	PATH_MOUNTED,
	PATH_NOT_MOUNTED,  /* no such path, or no mount has its root there */
	PATH_DISCONNECTED, /* the user-space file server behind the mount has died */
	PATH_STALE,	   /* the server no longer knows the mounted directory */
	PATH_SILENT,	   /* the file system did not answer in time */
	PATH_FAILED,	   /* any other error */
	PATH_STATE_N,
};

/* Space of a file system; a total of 0 is unknown. */
struct path_space {
	uint64_t total_bytes, used_bytes;
	uint64_t free_bytes; /* for others than root */
	uint64_t total_inodes, used_inodes, free_inodes;
};

struct path_seen {
	enum path_state state;
	int sys_errno;		 /* of PATH_DISCONNECTED, _STALE and _FAILED, positive */
	struct mount_view view;	 /* of PATH_MOUNTED; without options */
	struct path_space space; /* likewise */
};

/** Look at @path, the last part of which is no link. May take as long as the file system there takes: its
 * server is asked one question (statfs), by which a dead one shows. */
void path_look(const char *path, struct path_seen *ret);
