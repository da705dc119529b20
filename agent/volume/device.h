/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whose is the device that is mounted for a volume, and is its file system still in use when it is unmounted
 * here? For the volume manager's files only. */

#include "volume/op_state.h"

/** A plugin may bind a directory of a file system that the host uses itself: its superblock outlives the
 * volume. That is classified as soon as the plugin's mount is seen, when no workload had a part in it yet,
 * and stands until the volume is unstaged: who mounts the device of a volume later makes it nobody else's.
 * What was there already and never classified is the host's only if no more than a part of the file system is
 * bound.
 * @is_fresh the plugin has mounted it just now */
void volume_device_classify(struct volume_op *op, uint32_t dev_major, uint32_t dev_minor, bool is_fresh);

/** Of a volume that is unstaged: a file system that lives on is still being written to, which is no release,
 * whatever was unmounted here. STATUS_FAILED_PRECONDITION says who may have it, and how to find out.
 * @reply the helper's to UNSTAGE */
enum status volume_device_check(struct volume_op *op, const struct mh_reply *reply, struct error *err);

/** For the record, when the plugin was bypassed: into op->mounted.kernel, what is behind the helper's word.
 * @reply the helper's to UNSTAGE */
void volume_device_note(struct volume_op *op, const struct mh_reply *reply);
