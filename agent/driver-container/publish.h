/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The host directories of a task, compared with the kernel's mount table. */

#include "base/error.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Open the mount helper's tree at @publish_dir. STATUS_PERMISSION_DENIED unless the folders above it are
 * root's, and it is neither @agent_uid's nor writable by others than its owner. */
enum status publish_open(const char *publish_dir, uid_t agent_uid, int *ret, struct error *err);

/** Is each volume of @task mounted at its slot below @publish_dir, marked there as this volume, and with the
 * propagation of the order?
 * @mountinfo_path /proc/1/mountinfo: the mounts that the engine sees
 * @fd             of publish_open()
 * STATUS_FAILED_PRECONDITION names a missing mount, STATUS_PERMISSION_DENIED another volume or a smaller
 * grant; @ret_reason is the reason for the record */
enum status publish_check(const char *mountinfo_path, int fd, const char *publish_dir,
			  const Holdfast__Driver__V1__TaskConfig *task, const char **ret_reason,
			  struct error *err);

/** Checks that only root can have made @path of the host, or a link in its place. Walks the folders above it
 * as path_open_trusted() does. */
enum status publish_walk_host_path(const char *path, struct error *err);

/** Checks that nothing is mounted below @path of the host: root's file did not allow it, but some engines
 * include it: podman 4.3 lacks NonRecursive. STATUS_FAILED_PRECONDITION names the mount.
 *
 * Checks too that no volume in @publish_dir or @stage_dir shows a folder above @path: a task as uid 0 could
 * put a link in its place before the engine looks it up. The volume's folder itself is allowed. The error
 * (STATUS_PERMISSION_DENIED) does not name the volume: another tenant may read it. */
enum status publish_check_host_path(const char *mountinfo_path, const char *publish_dir,
				    const char *stage_dir, const char *path, struct error *err);

/** Checks that the mount at @path of the host is read-only. The runtime crun makes the folders of mounts and
 * the working folder before it makes a bind read-only, so a task would have it make folders in there. */
enum status publish_check_read_only(const char *mountinfo_path, const char *path, struct error *err);

/** Where a volume is; @ret of PATH_MAX bytes. False when that is too long. */
bool publish_path(const char *publish_dir, const char *alloc_id, uint32_t slot, char *ret);
