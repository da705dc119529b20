/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The link to a held volume that services are given, /run/holdfast-volumes/NAME/mnt.
 *
 * Systemd follows it as root for BindPaths=, so it is root's, in folders that only root can write to. What
 * the holder of the volume says about where it is published is only where to look: the kernel's mount table
 * says whether the volume is there. Paths of helper's trees and the names in them: mounthelper/trees.h. */

#include "base/error.h"
#include "base/mountinfo.h"

#include <limits.h>
#include <stdbool.h>

/** Is the volume @wire published at @path, which nobody but root and the mount helper could have made?
 *
 * @table     the mount table of this process
 * @root_fd   of "/"
 * @path      anything
 * @is_device it is a block device, of a csi volume: no mount of the helper's, but what the plugin has bound
 * STATUS_FAILED_PRECONDITION when it is not, or when the table cannot be read. */
enum status hold_link_check(struct mountinfo *table, int root_fd, const char *path, const char *wire,
			    bool is_device, struct error *err);

/** Make @folder/@name/mnt a link to @path, in one step whatever was there. @folder is root's; what another
 * account has left at @folder/@name is removed when it is empty, and refused otherwise. */
enum status hold_link_give(const char *folder, const char *name, const char *path, struct error *err);

/** Nobody shall begin to use the volume. Without a link this does nothing. */
enum status hold_link_take(const char *folder, const char *name, struct error *err);
