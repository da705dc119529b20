/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/step.h"

#include "base/grid.h"
#include "base/names.h"

/* clang-format off */
/* The next state, and what to do. P: by the plugin. */
#define NO {GRID_NO, VOLUME_OP_REFUSE}
#define CELL(state, action) {GRID_TO(VOLUME_OP_##state), VOLUME_OP_##action}

#define STAGE CELL(STAGING, STAGE)
#define WAIT CELL(WAITING, WAIT_PLUGIN)
#define P_STAGE CELL(PLUGIN_STAGING, PLUGIN_STAGE)
#define P_PUBLISH CELL(PLUGIN_PUBLISHING, PLUGIN_PUBLISH)
#define CONFIRM CELL(CONFIRMING, STAGE)
#define PUBLISH CELL(PUBLISHING, PUBLISH)
#define VERIFY CELL(VERIFYING, VERIFY)
#define UNPUBLISH CELL(UNPUBLISHING, UNPUBLISH)
#define LOOK CELL(LOOKING, LOOK)
#define CHECK CELL(CHECKING, CHECK)
#define P_UNPUBL CELL(PLUGIN_UNPUBLISHING, PLUGIN_UNPUBLISH)
#define RECHECK CELL(RECHECKING, RECHECK)
#define P_UNSTAGE CELL(PLUGIN_UNSTAGING, PLUGIN_UNSTAGE)
#define UNSTAGE CELL(UNSTAGING, UNSTAGE)
#define EXPAND CELL(EXPANDING, PLUGIN_EXPAND)
#define PAUSE {GRID_STAY, VOLUME_OP_PAUSE} /* the same once more, while its outcome is unknown */
#define RETRY CELL(IDLE, RETRY)		   /* the unmount, from its beginning */
#define SUCCEED CELL(ENDED, SUCCEED)
#define FAIL CELL(ENDED, FAIL)
#define EMPTY CELL(ENDED, FAIL_EMPTY)

struct cell {
	uint8_t to;
	enum volume_op_action action;
};

static const struct cell mount_steps[VOLUME_OP_EVENT_N][VOLUME_OP_UNPUBLISHING] = {
	/*                       IDLE       STAGING  WAITING  P_STAGE    P_PUBLISH  CONFIRMING PUBLISHING VERIFYING */
	[VOLUME_OP_MOUNT] =     {STAGE,     NO,      NO,      NO,        NO,        NO,        NO,        NO},
	[VOLUME_OP_UNMOUNT] =   {UNPUBLISH, NO,      NO,      NO,        NO,        NO,        NO,        NO},
	[VOLUME_OP_RELEASE] =   {LOOK,      NO,      NO,      NO,        NO,        NO,        NO,        NO},
	[VOLUME_OP_EXPAND] =    {EXPAND,    NO,      NO,      NO,        NO,        NO,        NO,        NO},
	[VOLUME_OP_OK] =        {NO,        PUBLISH, P_STAGE, P_PUBLISH, CONFIRM,   PUBLISH,   VERIFY,    SUCCEED},
	[VOLUME_OP_PREPARED] =  {NO,        WAIT,    NO,      NO,        NO,        EMPTY,     NO,        NO},
	[VOLUME_OP_DEVICE] =    {NO,        VERIFY,  NO,      NO,        NO,        VERIFY,    NO,        NO},
	[VOLUME_OP_FAILED] =    {NO,        FAIL,    FAIL,    FAIL,      FAIL,      FAIL,      FAIL,      FAIL},
	[VOLUME_OP_PENDING] =   {NO,        PAUSE,   NO,      PAUSE,     PAUSE,     PAUSE,     PAUSE,     PAUSE},
	[VOLUME_OP_AGAIN] =     {NO,        STAGE,   NO,      P_STAGE,   P_PUBLISH, CONFIRM,   PUBLISH,   VERIFY},
	[VOLUME_OP_UNSTAGED] =  {NO,        NO,      NO,      NO,        P_STAGE,   NO,        NO,        NO},
	[VOLUME_OP_CANCELLED] = {FAIL,      FAIL,    FAIL,    FAIL,      FAIL,      FAIL,      FAIL,      FAIL},
};

/* From VOLUME_OP_UNPUBLISHING on; nothing leaves VOLUME_OP_ENDED. */
static const struct cell unmount_steps[VOLUME_OP_EVENT_N][VOLUME_OP_STATE_N - VOLUME_OP_UNPUBLISHING] = {
	/*                          UNPUBLISH LOOKING CHECKING  P_UNPUBL  RECHECKING P_UNSTAGE  UNSTAGING EXPANDING */
	[VOLUME_OP_OK] =           {CHECK,    CHECK,  UNSTAGE,  RECHECK,  NO,        UNSTAGE,   SUCCEED,  SUCCEED},
	[VOLUME_OP_UNSURE] =       {LOOK,     NO,     NO,       NO,       NO,        NO,        NO,       NO},
	[VOLUME_OP_FAILED] =       {RETRY,    RETRY,  RETRY,    RETRY,    NO,        RETRY,     RETRY,    FAIL},
	[VOLUME_OP_PENDING] =      {NO,       NO,     NO,       PAUSE,    NO,        PAUSE,     NO,       NO},
	[VOLUME_OP_AGAIN] =        {NO,       NO,     NO,       P_UNPUBL, NO,        P_UNSTAGE, NO,       NO},
	[VOLUME_OP_IN_USE] =       {NO,       NO,     SUCCEED,  NO,       SUCCEED,   NO,        NO,       NO},
	[VOLUME_OP_PLUGINS_TURN] = {NO,       NO,     P_UNPUBL, NO,       P_UNSTAGE, NO,        NO,       NO},
	[VOLUME_OP_FORCED] =       {NO,       NO,     NO,       CHECK,    NO,        CHECK,     NO,       NO},
};
/* clang-format on */

struct volume_op_step volume_op_step(enum volume_op_state state, enum volume_op_event event)
{
	const struct cell *cell;

	if ((unsigned int)state >= VOLUME_OP_STATE_N || (unsigned int)event >= VOLUME_OP_EVENT_N)
		return (struct volume_op_step){state, VOLUME_OP_REFUSE};
	cell = state < VOLUME_OP_UNPUBLISHING ? &mount_steps[event][state]
					      : &unmount_steps[event][state - VOLUME_OP_UNPUBLISHING];
	if (cell->to == GRID_NO)
		return (struct volume_op_step){state, VOLUME_OP_REFUSE};
	return (struct volume_op_step){(enum volume_op_state)grid_next(cell->to, state), cell->action};
}

bool volume_op_is_plugins(enum volume_op_state state)
{
	switch (state) {
	case VOLUME_OP_WAITING:
	case VOLUME_OP_PLUGIN_STAGING:
	case VOLUME_OP_PLUGIN_PUBLISHING:
	case VOLUME_OP_PLUGIN_UNPUBLISHING:
	case VOLUME_OP_PLUGIN_UNSTAGING:
	case VOLUME_OP_EXPANDING:
		return true;
	case VOLUME_OP_IDLE:
	case VOLUME_OP_STAGING:
	case VOLUME_OP_CONFIRMING:
	case VOLUME_OP_PUBLISHING:
	case VOLUME_OP_VERIFYING:
	case VOLUME_OP_UNPUBLISHING:
	case VOLUME_OP_LOOKING:
	case VOLUME_OP_CHECKING:
	case VOLUME_OP_RECHECKING:
	case VOLUME_OP_UNSTAGING:
	case VOLUME_OP_ENDED:
	case VOLUME_OP_STATE_N:
		break;
	}
	return false;
}

static const char *const state_names[VOLUME_OP_STATE_N] = {
	[VOLUME_OP_IDLE] = "queued",
	[VOLUME_OP_STAGING] = "stage",
	[VOLUME_OP_WAITING] = "wait for plugin",
	[VOLUME_OP_PLUGIN_STAGING] = "plugin stage",
	[VOLUME_OP_PLUGIN_PUBLISHING] = "plugin publish",
	[VOLUME_OP_CONFIRMING] = "stage again",
	[VOLUME_OP_PUBLISHING] = "publish",
	[VOLUME_OP_VERIFYING] = "verify",
	[VOLUME_OP_UNPUBLISHING] = "unpublish",
	[VOLUME_OP_LOOKING] = "look",
	[VOLUME_OP_CHECKING] = "check",
	[VOLUME_OP_PLUGIN_UNPUBLISHING] = "plugin unpublish",
	[VOLUME_OP_RECHECKING] = "check again",
	[VOLUME_OP_PLUGIN_UNSTAGING] = "plugin unstage",
	[VOLUME_OP_UNSTAGING] = "unstage",
	[VOLUME_OP_EXPANDING] = "plugin expand",
	[VOLUME_OP_ENDED] = "ended",
};

const char *volume_op_state_name(enum volume_op_state state)
{
	const char *name = names_get(state_names, VOLUME_OP_STATE_N, (int)state);

	return name ? name : "invalid";
}
