/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds where the unit files of this host set an option, for messages that name the line and file to change.
 * Reads them as systemd does: the first fragment of the search path, then drop-ins by their names, the last
 * assignment wins. Source: systemd.unit(5). */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	UNIT_FILE_MAX = 64 << 10, /* bytes of one that is looked at */
	UNIT_DROPINS_MAX = 64,
	UNIT_NAME_SIZE = 256,
	UNIT_VALUE_SIZE = 256,
};

struct unit_line {
	char path[PATH_MAX];
	unsigned int number;
	const char *option; /* of those asked for */
	char value[UNIT_VALUE_SIZE];
};

/** Finds the first of @options, up to a NULL, that is in force for @unit: set, and not to nothing or to "no".
 *
 * @root  "" for this host
 * @unit  "x.service"; of a template "x@.service"
 * @alias another name of it, or NULL
 * Returns whether there is one; @ret untouched otherwise. Files that cannot be read are ignored. */
bool unit_lines_find(const char *root, const char *unit, const char *alias, const char *const *options,
		     struct unit_line *ret);

/** Returns the unit that this process is part of, from its cgroup. False: not in a unit. */
bool unit_of_self(char ret[static UNIT_NAME_SIZE]);
