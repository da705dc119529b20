/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds out whether a file system of an NFS server still has users after it was unmounted here. For the
 * volume manager's files only. */

#include "volume/op_state.h"

/** Prepares the check of a staged volume before it is unstaged: records the data that is gone with its mount.
 * Also recognises a volume of NFS by it if its profile is gone.
 * @staged of the operation's volume; its number is not yet the operation's */
void volume_nfs_note(struct volume_op *op, const struct mount_snapshot_entry *staged);

/** The kernel lists the file system that was just published: only then will its absence mean anything. */
bool volume_nfs_is_listed(const struct volume_op *op, uint32_t dev_major, uint32_t dev_minor);

/** Checks an unstaged volume: STATUS_OK proves that no process on this node can write to it, in any mount
 * namespace. STATUS_FAILED_PRECONDITION names the possible writer, or why that is not known. */
enum status volume_nfs_check(struct volume_op *op, struct error *err);
