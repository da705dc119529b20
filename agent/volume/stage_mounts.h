/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is mounted below the mount helper's stage base, as the mount table has it. For the volume manager's
 * files only. */

#include "volume/csi_volume.h"
#include "volume/op_state.h"

/** What is mounted at @path, which is below the helper's stage base. The folders above it are not for us to
 * look into: the mount table is the witness. STATUS_NOT_FOUND: nothing. */
enum status volume_stage_find(struct volume_manager *manager, const char *path, struct mount_view *ret,
			      struct error *err);

/** What is mounted below the helper's stage base. Borrowed until the next such look. */
enum status volume_stage_table(struct volume_manager *manager, const struct mount_table **ret,
			       struct error *err);

/** Look at all mounts of the node at the next look. */
void volume_stage_forget(struct volume_manager *manager);

/** What the plugin has mounted or bound at its target of this use.
 * @ret_paths set also when nothing is there */
enum status volume_target_find(struct volume_manager *manager, const struct volume_target *target,
			       struct csi_volume_paths *ret_paths, struct mount_view *ret_view,
			       struct error *err);
