/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Mounts and unmounts volumes through the helper: operations of one volume one after another over its whole
 * stage..unstage life, different volumes side by side.
 *
 * Nothing is sent before there is a mount snapshot. An unmount is repeated with a capped, jittered back-off
 * until it succeeds and is never forced; while it waits, others are scheduled. A volume is unstaged only if
 * it has no other user, asked at that moment. */

#include "base/error.h"
#include "helper/client.h"
#include "helper/mount_snapshot.h"
#include "model/claim.h"
#include "plugins/plugins.h"
#include "volume/op_done.h"
#include "volume/target.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct volume_manager;
struct volume_op;

/** @event and @helper borrowed. */
enum status volume_manager_new(sd_event *event, struct helper_client *helper, volume_in_use_fn *in_use,
			       void *userdata, struct volume_manager **ret, struct error *err);

/** Csi volumes are mounted through these plugins; before the first operation.
 * @plugins borrowed, to be freed after the manager
 * @wait_us for which a mount waits for its plugin */
void volume_manager_set_plugins(struct volume_manager *manager, struct plugins *plugins, uint64_t wait_us);

/** A plugin may hold something of this volume since before this run: it is asked to release it. */
void volume_manager_note_plugin(struct volume_manager *manager, const char *wire_volume);

/** A csi volume has been published, and so staged, since before this run; @is_host_device as classified then.
 */
void volume_manager_note_published(struct volume_manager *manager, const char *wire_volume,
				   bool is_host_device);

/** No callbacks; @helper must be freed before. NULL is allowed. */
void volume_manager_free(struct volume_manager *manager);

/** Takes over the mount snapshot just read; the queued operations continue. */
void volume_manager_set_observed(struct volume_manager *manager, struct mount_snapshot *observed);

/** The mount snapshot, kept up to date; NULL before the first. */
const struct mount_snapshot *volume_manager_observed(const struct volume_manager *manager);

/** Stage (if needed), publish and verify. @target copied. @done runs once, from the event loop.
 * @ret for volume_op_cancel() and volume_op_info(), until @done ran */
enum status volume_manager_mount(struct volume_manager *manager, const struct volume_target *target,
				 volume_done_fn *done, void *userdata, struct volume_op **ret,
				 struct error *err);

/** Unpublishes, and unstages without other users; repeated until done. A missing mount is no error.
 * @retry is called for each failure; may be NULL
 * @keep may be NULL */
enum status volume_manager_unmount(struct volume_manager *manager, const struct volume_target *target,
				   volume_done_fn *done, volume_retry_fn *retry, volume_keep_fn *keep,
				   void *userdata, struct volume_op **ret, struct error *err);

/** Does the last part of an unmount: unstages if the volume has no user at all. The target's allocation and
 * slot do not count; the rest is as above. */
enum status volume_manager_release(struct volume_manager *manager, const struct volume_target *target,
				   volume_done_fn *done, volume_retry_fn *retry, volume_keep_fn *keep,
				   void *userdata, struct volume_op **ret, struct error *err);

/** Lets the plugin grow its mounts on this node after a csi volume has grown: NodeExpandVolume, scheduled
 * among the operations of the volume. One try: the server asks again.
 * @request    copied, with its secrets, which are wiped afterwards
 * @timeout_us from now on, time in the queue included
 * @ret        as above; may be NULL
 * @done's errors: STATUS_NOT_FOUND the volume is not on this node, for the agent or for the plugin;
 * STATUS_UNIMPLEMENTED the plugin does not announce it; STATUS_UNAVAILABLE the plugin cannot be called;
 * STATUS_DEADLINE_EXCEEDED; else the plugin's. */
enum status volume_manager_expand(struct volume_manager *manager, const char *plugin_id,
				  const Holdfast__V1__NodeExpandRequest *request, uint64_t timeout_us,
				  volume_expanded_fn *done, void *userdata, struct volume_op **ret,
				  struct error *err);

/** Is an operation of the volume in flight or waiting? */
bool volume_manager_is_busy(const struct volume_manager *manager, const char *wire_volume);

/** Cancels a mount: it ends with STATUS_CANCELLED, at once when it is queued or waits for a plugin, else
 * after the current step, or succeeds if that was the last. Undoes nothing. */
void volume_op_cancel(struct volume_op *op);

/** Continues an unmount or release of a csi volume without the plugin, from the next step or try on. A call
 * in flight is still waited for until its deadline. Mounts in use stay, and the helper refuses as before.
 * @is_freed the server waits for it no longer: a failure is shown as left over */
void volume_op_force(struct volume_op *op, bool is_freed);

struct volume_op_info {
	const char *step;
	int64_t step_since_ms; /* wall clock; of the first attempt */
	const char *plugin_id; /* borrowed; whom the step is waiting for or calling; NULL: no plugin */
	const char *call;      /* of that plugin; NULL: no call */
	bool is_calling;       /* the call is in flight */
	int64_t since_ms;      /* wall clock, when the operation was queued */
	int64_t next_try_ms;   /* wall clock, 0: not waiting for another attempt */
	int64_t gives_up_ms;   /* wall clock, of a mount that meets errors; 0: it does not */
	uint32_t attempts;
	const char *last_error; /* borrowed; of a wait; empty: no error */
};

struct volume_op_info volume_op_info(const struct volume_op *op);
