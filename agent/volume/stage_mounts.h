/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds the mounts below the mount helper's stage base in the mount table. For the volume manager's files
 * only. */

#include "volume/csi_volume.h"
#include "volume/op_state.h"

/** Finds the mount at @path, which is below the helper's stage base, in the mount table: the agent may not
 * look into the folders above it. STATUS_NOT_FOUND: there is no mount. */
enum status volume_stage_find(struct volume_manager *manager, const char *path, struct mount_view *ret,
			      struct error *err);

/** Returns the mounts below the helper's stage base. Borrowed until the next such look. */
enum status volume_stage_table(struct volume_manager *manager, const struct mount_table **ret,
			       struct error *err);

/** Look at all mounts of the node at the next look. */
void volume_stage_forget(struct volume_manager *manager);

/** Finds the plugin's mount or bind at its target of this use.
 * @ret_paths set also if nothing is there */
enum status volume_target_find(struct volume_manager *manager, const struct volume_target *target,
			       struct csi_volume_paths *ret_paths, struct mount_view *ret_view,
			       struct error *err);
