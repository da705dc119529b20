/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Manages the link to a held volume for services, /run/holdfast-volumes/NAME/mnt.
 *
 * Systemd follows it as root for BindPaths=, so it is root's, in folders that only root can write to. The
 * holder's path of the volume is only a hint where to look: the kernel's mount table and the mount helper's
 * mark decide whether the volume is there. A device is bound in folders that its plugin writes to, so the
 * link leads to the device itself. Paths of helper's trees and the names in them: mounthelper/trees.h. */

#include "base/error.h"
#include "base/mountinfo.h"

#include <holdfast/v1/types.pb-c.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct hold_link_view {
	struct mountinfo *table; /* of this process */
	int root_fd;		 /* of "/" */
	const char *publish_dir; /* the mount helper's publish_base, from root's file */
	const char *stage_dir;	 /* its stage_base, likewise */
};

/** Checks that @path is a publish of the volume @wire that only root or the mount helper can have made.
 *
 * @path             anything
 * @ret_is_read_only is its file system? No other mount of it can be written through either
 * STATUS_FAILED_PRECONDITION when it is not, or when the table cannot be read. */
enum status hold_link_check(const struct hold_link_view *view, const char *path, const char *wire,
			    bool *ret_is_read_only, struct error *err);

/** The same for a device of a csi volume, which is no mount of the helper's: at @path its plugin has bound a
 * block device of /dev.
 *
 * @use        the name for this use, MH_CSI_PUBLISH_RO or _RW
 * @ret_device "/dev/NAME": a later change of @path changes nothing */
enum status hold_device_check(const struct hold_link_view *view, const char *path, const char *wire,
			      const char *use, char ret_device[static PATH_MAX], struct error *err);

/* A device as a holder knows it. */
struct hold_device {
	char name[PATH_MAX]; /* "/NAME" below /dev; "": not seen yet */
	uint64_t number;     /* of the disk: another one may get its name, not this; 0: not known */
};

/** Returns whether the kernel shows at @path no device, or another one than @known, whose unknown fields it
 * sets. False if the table cannot be read. */
bool hold_device_is_other(const struct hold_link_view *view, const char *path, struct hold_device *known);

/** hold_device_is_other(), as this process sees the machine. */
bool hold_device_is_gone(const char *stage_dir, const char *path, struct hold_device *known);

/** Reads to which device the link @folder/@name/mnt leads, which services follow. */
void hold_link_device(const char *folder, const char *name, struct hold_device *ret);

/** Makes the path at which the mount helper publishes the first volume of allocation @alloc_id, from root's
 * setting and the id, never from a node's report. False for an invalid id, or a path that is too long. */
bool hold_publish_path(const char *publish_dir, const char *alloc_id, char ret[static PATH_MAX]);

/** Makes the path at which @plugin binds the device of the first volume of @alloc. False for an invalid id,
 * or a path that is too long. */
bool hold_device_path(const char *stage_dir, const char *plugin, const Holdfast__V1__Allocation *alloc,
		      char ret[static PATH_MAX]);

struct hold_published {
	bool is_read_only;
	char path[PATH_MAX]; /* where a link has to lead */
};

/** hold_link_check() or hold_device_check() of the first volume of @alloc, as this process sees the machine.
 */
enum status hold_publish_check(const char *publish_dir, const char *path,
			       const Holdfast__V1__Allocation *alloc, struct hold_published *ret,
			       struct error *err);

/** Makes @folder/@name/mnt a link to @path, and replaces an existing link in one step. @folder is root's. If
 * another account has left an object at @folder/@name, it is removed when empty, and refused otherwise. */
enum status hold_link_give(const char *folder, const char *name, const char *path, struct error *err);

/** Removes the link, so that no service begins to use the volume. Without a link this does nothing. */
enum status hold_link_take(const char *folder, const char *name, struct error *err);
