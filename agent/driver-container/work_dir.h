/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The folder in which a container begins, as podman makes it. Before each start podman makes the folder, and
 * gives it to the task's user, by a path that follows links of the image (GHSA-q6r4-3wmg-fwcq): so it made
 * and gave away paths of the host. The driver asks for each folder on the way first. podman takes the
 * path of that request for a pattern, so the folder has the alphabet of a task's work_dir. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	WORK_DIR_SIZE = 256,
	WORK_DIR_QUERY_SIZE = 3 * WORK_DIR_SIZE, /* percent-encoded */
	WORK_DIR_DEPTH_MAX = 16,
};

/** Reads the path, "" if podman makes nothing: for "/", and for a mount or a folder below one.
 * @inspected podman's own description of the container
 * @return false for a path that is relative, too long or too deep, or has ".." or other characters */
bool work_dir_read(const json_t *inspected, char ret[static WORK_DIR_SIZE]);

/** Writes the next folder on the way, from the root, for a query. False: there is no further one.
 * @at how much of @work_dir was passed, 0 at first */
bool work_dir_next(const char *work_dir, size_t *at, char ret[static WORK_DIR_QUERY_SIZE]);

/** Is the path of the description a folder, and no link to one?
 * @stat as the engine answers to HEAD /containers/ID/archive */
bool work_dir_is_folder(const json_t *stat);
