/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Does anybody still use what was staged of an NFS server, when it is unmounted here? For the volume
 * manager's files only. */

#include "volume/op_state.h"

/** Of a volume that is staged and about to be unstaged: what will be asked afterwards, when its mount is gone
 * here. Also tells that a volume is one of NFS if its profile, which would, is gone.
 * @staged of the operation's volume; its number is not yet the operation's */
void volume_nfs_note(struct volume_op *op, const struct mount_snapshot_entry *staged);

/** The kernel lists the file system that was just published: only then will its absence mean anything. */
bool volume_nfs_is_listed(const struct volume_op *op, uint32_t dev_major, uint32_t dev_minor);

/** Of a volume that is unstaged: STATUS_OK is the evidence that nobody on this node can write to it any more,
 * in whatever mount namespace. STATUS_FAILED_PRECONDITION says who may, or why that is not known. */
enum status volume_nfs_check(struct volume_op *op, struct error *err);
