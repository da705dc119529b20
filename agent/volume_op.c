#include "volume_op.h"

#include "base/names.h"

#include <stddef.h>

static const struct volume_op_step steps[VOLUME_OP_STATE_N][VOLUME_OP_EVENT_N] = {
	[VOLUME_OP_IDLE] =
		{
			[VOLUME_OP_MOUNT] = {VOLUME_OP_STAGING, VOLUME_OP_STAGE},
			[VOLUME_OP_UNMOUNT] = {VOLUME_OP_UNPUBLISHING, VOLUME_OP_UNPUBLISH},
			[VOLUME_OP_RELEASE] = {VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
			[VOLUME_OP_CANCELLED] = {VOLUME_OP_ENDED, VOLUME_OP_FAIL},
		},
	[VOLUME_OP_STAGING] =
		{
			[VOLUME_OP_OK] = {VOLUME_OP_PUBLISHING, VOLUME_OP_PUBLISH},
			[VOLUME_OP_FAILED] = {VOLUME_OP_ENDED, VOLUME_OP_FAIL},
			[VOLUME_OP_CANCELLED] = {VOLUME_OP_ENDED, VOLUME_OP_FAIL},
		},
	[VOLUME_OP_PUBLISHING] =
		{
			[VOLUME_OP_OK] = {VOLUME_OP_VERIFYING, VOLUME_OP_VERIFY},
			[VOLUME_OP_FAILED] = {VOLUME_OP_ENDED, VOLUME_OP_FAIL},
			[VOLUME_OP_CANCELLED] = {VOLUME_OP_ENDED, VOLUME_OP_FAIL},
		},
	[VOLUME_OP_VERIFYING] =
		{
			[VOLUME_OP_OK] = {VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
			[VOLUME_OP_FAILED] = {VOLUME_OP_ENDED, VOLUME_OP_FAIL},
		},
	[VOLUME_OP_UNPUBLISHING] =
		{
			[VOLUME_OP_OK] = {VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
			[VOLUME_OP_FAILED] = {VOLUME_OP_IDLE, VOLUME_OP_RETRY},
		},
	[VOLUME_OP_CHECKING] =
		{
			[VOLUME_OP_OK] = {VOLUME_OP_UNSTAGING, VOLUME_OP_UNSTAGE},
			[VOLUME_OP_IN_USE] = {VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
		},
	[VOLUME_OP_UNSTAGING] =
		{
			[VOLUME_OP_OK] = {VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
			[VOLUME_OP_FAILED] = {VOLUME_OP_IDLE, VOLUME_OP_RETRY},
		},
};

struct volume_op_step volume_op_step(enum volume_op_state state, enum volume_op_event event)
{
	if ((unsigned int)state >= VOLUME_OP_STATE_N || (unsigned int)event >= VOLUME_OP_EVENT_N)
		return (struct volume_op_step){state, VOLUME_OP_REFUSE};
	if (steps[state][event].action == VOLUME_OP_REFUSE)
		return (struct volume_op_step){state, VOLUME_OP_REFUSE};
	return steps[state][event];
}

static const char *const state_names[VOLUME_OP_STATE_N] = {
	[VOLUME_OP_IDLE] = "queued",
	[VOLUME_OP_STAGING] = "stage",
	[VOLUME_OP_PUBLISHING] = "publish",
	[VOLUME_OP_VERIFYING] = "verify",
	[VOLUME_OP_UNPUBLISHING] = "unpublish",
	[VOLUME_OP_CHECKING] = "check",
	[VOLUME_OP_UNSTAGING] = "unstage",
	[VOLUME_OP_ENDED] = "ended",
};

const char *volume_op_state_name(enum volume_op_state state)
{
	const char *name = names_get(state_names, VOLUME_OP_STATE_N, (int)state);

	return name ? name : "invalid";
}
