#pragma once
/* The steps of one operation on a volume, as a table. Pure.
 *
 *   mount:    idle -> staging -> publishing -> verifying -> ended
 *   unmount:  idle -> unpublishing -> checking -> [unstaging] -> ended
 *   release:  idle -> checking -> [unstaging] -> ended
 *
 * A mount that fails ends, undoing is an unmount of its own; an unmount that fails goes back to idle and is
 * tried again from its beginning, every step of it being idempotent. */

#include <stdbool.h>

enum volume_op_state {
	VOLUME_OP_IDLE,
	VOLUME_OP_STAGING,
	VOLUME_OP_PUBLISHING,
	VOLUME_OP_VERIFYING,
	VOLUME_OP_UNPUBLISHING,
	VOLUME_OP_CHECKING, /* does anybody else on this node use the volume? */
	VOLUME_OP_UNSTAGING,
	VOLUME_OP_ENDED,
	VOLUME_OP_STATE_N,
};

enum volume_op_event {
	VOLUME_OP_MOUNT,   /* begin */
	VOLUME_OP_UNMOUNT, /* begin */
	VOLUME_OP_RELEASE, /* begin: an unmount of which nothing is published any more */
	VOLUME_OP_OK,
	VOLUME_OP_FAILED,
	VOLUME_OP_CANCELLED, /* the step was done, the mount is not wanted any more */
	VOLUME_OP_IN_USE,
	VOLUME_OP_EVENT_N,
};

enum volume_op_action {
	VOLUME_OP_REFUSE, /* the event cannot happen in this state */
	VOLUME_OP_STAGE,
	VOLUME_OP_PUBLISH,
	VOLUME_OP_VERIFY,
	VOLUME_OP_UNPUBLISH,
	VOLUME_OP_CHECK,
	VOLUME_OP_UNSTAGE,
	VOLUME_OP_SUCCEED,
	VOLUME_OP_FAIL,
	VOLUME_OP_RETRY,
	VOLUME_OP_ACTION_N,
};

struct volume_op_step {
	enum volume_op_state next;
	enum volume_op_action action;
};

/** What follows; action VOLUME_OP_REFUSE for what the table does not have. */
struct volume_op_step volume_op_step(enum volume_op_state state, enum volume_op_event event);

/** "stage", "publish", "verify", "unpublish", "check", "unstage"; "queued" while idle. */
const char *volume_op_state_name(enum volume_op_state state);
