/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whose is the device that is mounted for a volume, and is its file system still in use when it is unmounted
 * here? For the volume manager's files only. */

#include "volume/op_state.h"

/** Classifies the device as the volume's or the host's. A plugin may bind a directory of a file system that
 * the host uses itself: its superblock outlives the volume. This is decided as soon as the plugin's mount is
 * seen, before any workload uses it, and stays until the volume is unstaged: a later mount of the volume's
 * device by another process changes nothing. An existing mount that was never classified counts as the host's
 * if only a part of the file system is bound.
 * @is_fresh the plugin has mounted it just now */
void volume_device_classify(struct volume_op *op, uint32_t dev_major, uint32_t dev_minor, bool is_fresh);

/** Checks an unstaged volume: if its file system lives on, it may be written to, and is not released.
 * STATUS_FAILED_PRECONDITION names the possible users, and how to find them.
 * @reply the helper's to UNSTAGE */
enum status volume_device_check(struct volume_op *op, const struct mh_reply *reply, struct error *err);

/** The same of the number by which a native volume was mounted before, if it is now mounted as another one: a
 * plugin may mount in its own folder under the name of such a volume. */
enum status volume_device_check_former(struct volume_op *op, uint32_t dev_major, uint32_t dev_minor,
				       struct error *err);

/** Writes the kernel's evidence for the reply into op->mounted.kernel, to record a bypassed plugin.
 * @reply the helper's to UNSTAGE */
void volume_device_note(struct volume_op *op, const struct mh_reply *reply);
