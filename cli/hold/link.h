/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The link to a held volume that services are given, /run/holdfast-volumes/NAME/mnt.
 *
 * Systemd follows it as root for BindPaths=, so it is root's, in folders that only root can write to. What
 * the holder of the volume says about where it is published is only where to look: the kernel's mount table
 * says whether the volume is there. Paths of helper's trees and the names in them: mounthelper/trees.h. */

#include "base/error.h"
#include "base/mountinfo.h"

#include <holdfast/v1/types.pb-c.h>
#include <limits.h>
#include <stdbool.h>

struct hold_link_view {
	struct mountinfo *table; /* of this process */
	int root_fd;		 /* of "/" */
	const char *publish_dir; /* the mount helper's publish_base, as root's file says it */
};

/** Is the volume @wire published at @path, which nobody but root and the mount helper could have made?
 *
 * @path             anything
 * @target           of a block device of a csi volume, which is no mount of the helper's: the name at which
 * the plugin binds it for this use, MH_CSI_PUBLISH_RO or _RW; else NULL
 * @ret_is_read_only is its file system? No other mount of it can be written through either
 * STATUS_FAILED_PRECONDITION when it is not, or when the table cannot be read. */
enum status hold_link_check(const struct hold_link_view *view, const char *path, const char *wire,
			    const char *target, bool *ret_is_read_only, struct error *err);

/** Where the mount helper publishes the first volume of allocation @alloc_id: made from root's setting and
 * the id, never from what a node reports. False for what is no id, or too long. */
bool hold_publish_path(const char *publish_dir, const char *alloc_id, char ret[static PATH_MAX]);

/** hold_link_check() of the first volume of @alloc, as this process sees the machine. */
enum status hold_publish_check(const char *publish_dir, const char *path,
			       const Holdfast__V1__Allocation *alloc, bool *ret_is_read_only,
			       struct error *err);

/** Make @folder/@name/mnt a link to @path, in one step whatever was there. @folder is root's; what another
 * account has left at @folder/@name is removed when it is empty, and refused otherwise. */
enum status hold_link_give(const char *folder, const char *name, const char *path, struct error *err);

/** Nobody shall begin to use the volume. Without a link this does nothing. */
enum status hold_link_take(const char *folder, const char *name, struct error *err);
