/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reads the folders of plugins, within limits. Names come from whoever may write there: what is not taken is
 * told in one log line, until something else is not taken. */

#include "plugins/registry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scan_fault {
	SCAN_BAD_NAME,	 /* a folder that is no plugin id, or a socket whose path is too long */
	SCAN_TOO_MANY,	 /* entries, folders or sockets */
	SCAN_UNREADABLE, /* refused by the system */
	SCAN_FAULT_N,
};

/* What was told already. */
struct scan_told {
	uint64_t hashes[SCAN_FAULT_N]; /* of the name that the fault was told of */
};

/** Is it to be told? Remembers that it was. */
bool scan_tell(struct scan_told *told, enum scan_fault fault, const char *name);

/** Call @see for each folder in @path whose name is a plugin id, at most PLUGIN_DIR_FOLDERS_MAX times.
 * Returns 0 or a negative errno. */
int scan_folders(const char *path, struct scan_told *told, void (*see)(const char *id, void *userdata),
		 void *userdata);

/** The sockets in @path/@id called *.sock, oldest first; of more than REGISTRY_MAX the newest.
 * Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP when it is no folder (any more). */
int scan_sockets(const char *path, const char *id, struct scan_told *told,
		 struct plugin_socket ret[static REGISTRY_MAX], size_t *ret_n);
