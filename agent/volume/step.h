/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The steps of one operation on a volume, as a table. Pure.
 *
 *   mount:    idle -> staging -> publishing -> verifying -> ended
 *   unmount:  idle -> unpublishing -> [looking] -> checking -> [unstaging] -> ended
 *   release:  idle -> looking -> checking -> [unstaging] -> ended
 *
 * For a csi volume, the plugin has its part between the helper's steps:
 *
 *   mount:    idle -> staging -> waiting -> plugin-staging -> plugin-publishing -> confirming -> publishing
 *             -> verifying -> ended; an existing mount goes from staging to publishing; a device, which the
 *             helper does not clone, to verifying
 *   unmount:  idle -> unpublishing -> checking -> [plugin-unpublishing -> rechecking -> [plugin-unstaging
 *             -> unstaging]] -> ended; release comes from looking to checking
 *   expand:   idle -> expanding -> ended
 *
 * A plugin that will never do its part is bypassed in an unmount when an operator forces it: back to
 * checking, and from there only to the helper, which unmounts what it can and refuses the rest.
 *
 * A plugin that refuses to publish for a precondition is asked to stage once more before it is asked again.
 *
 * A mount that fails ends, undoing is an unmount of its own; an unmount that fails goes back to idle and is
 * tried again from its beginning, every step of it being idempotent. A call to a plugin that may have been
 * carried out is made again unchanged, before anything else of the volume. So is a mount's step of the helper
 * while another instance of it, which an earlier agent had asked, works on the volume. */

#include <stdbool.h>

enum volume_op_state {
	VOLUME_OP_IDLE,
	VOLUME_OP_STAGING,
	VOLUME_OP_WAITING, /* for the plugin */
	VOLUME_OP_PLUGIN_STAGING,
	VOLUME_OP_PLUGIN_PUBLISHING,
	VOLUME_OP_CONFIRMING, /* by the helper: what has the plugin mounted? */
	VOLUME_OP_PUBLISHING,
	VOLUME_OP_VERIFYING,
	VOLUME_OP_UNPUBLISHING,
	VOLUME_OP_LOOKING,  /* is there anything of it that a plugin may hold, or that is new to us? */
	VOLUME_OP_CHECKING, /* does the volume, or for csi its target, have another user on this node? */
	VOLUME_OP_PLUGIN_UNPUBLISHING,
	VOLUME_OP_RECHECKING, /* does the volume have another user? */
	VOLUME_OP_PLUGIN_UNSTAGING,
	VOLUME_OP_UNSTAGING,
	VOLUME_OP_EXPANDING,
	VOLUME_OP_ENDED,
	VOLUME_OP_STATE_N,
};

enum volume_op_event {
	VOLUME_OP_MOUNT,   /* begin */
	VOLUME_OP_UNMOUNT, /* begin */
	VOLUME_OP_RELEASE, /* begin: an unmount of a volume that is no longer published */
	VOLUME_OP_EXPAND,  /* begin */
	VOLUME_OP_OK,
	VOLUME_OP_PREPARED, /* the helper's folders are there, nothing is mounted */
	VOLUME_OP_DEVICE,   /* the plugin's target is a device */
	VOLUME_OP_UNSURE,   /* done; what else there is of the volume another process may have changed */
	VOLUME_OP_FAILED,
	VOLUME_OP_PENDING,   /* failed, and the same call must be made again before anything else */
	VOLUME_OP_AGAIN,     /* the pause before that is over */
	VOLUME_OP_UNSTAGED,  /* failed, as the plugin wants to stage it first */
	VOLUME_OP_CANCELLED, /* the step was done, the operation is no longer wanted */
	VOLUME_OP_IN_USE,
	VOLUME_OP_PLUGINS_TURN, /* it has no user, and the plugin may do its part */
	VOLUME_OP_FORCED,	/* the plugin's part is no longer waited for, as an operator wants */
	VOLUME_OP_EVENT_N,
};

enum volume_op_action {
	VOLUME_OP_REFUSE, /* the event cannot happen in this state */
	VOLUME_OP_STAGE,
	VOLUME_OP_WAIT_PLUGIN,
	VOLUME_OP_PLUGIN_STAGE,
	VOLUME_OP_PLUGIN_PUBLISH,
	VOLUME_OP_PUBLISH,
	VOLUME_OP_VERIFY,
	VOLUME_OP_UNPUBLISH,
	VOLUME_OP_LOOK,
	VOLUME_OP_CHECK,
	VOLUME_OP_PLUGIN_UNPUBLISH,
	VOLUME_OP_RECHECK,
	VOLUME_OP_PLUGIN_UNSTAGE,
	VOLUME_OP_UNSTAGE,
	VOLUME_OP_PLUGIN_EXPAND,
	VOLUME_OP_SUCCEED,
	VOLUME_OP_FAIL,
	VOLUME_OP_FAIL_EMPTY, /* as FAIL: the plugin reported that it had mounted something */
	VOLUME_OP_RETRY,      /* others are scheduled meanwhile */
	VOLUME_OP_PAUSE,      /* no others are */
	VOLUME_OP_ACTION_N,
};

struct volume_op_step {
	enum volume_op_state next;
	enum volume_op_action action;
};

/** Returns the next step; action VOLUME_OP_REFUSE for an event that the table does not have. */
struct volume_op_step volume_op_step(enum volume_op_state state, enum volume_op_event event);

/** Is the step a call to a plugin, or the wait for one? */
bool volume_op_is_plugins(enum volume_op_state state);

/** "stage", "wait for plugin", "plugin stage", "publish", ...; "queued" while idle. */
const char *volume_op_state_name(enum volume_op_state state);
