/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_step.h"

#include "base/grid.h"
#include "base/str.h"

#include <assert.h>

/* clang-format off */
/* The next state, and what to do. */
#define CELL(to, action) {to, TASK_DO_##action}
#define TO(state) GRID_TO(TASK_##state)

#define STAY CELL(GRID_STAY, NOTHING)
#define STOP CELL(GRID_STAY, STOP) /* or Restart= would begin again */
#define JOURNAL CELL(GRID_STAY, JOURNAL)
#define START CELL(TO(STARTING), START)
#define STARTS CELL(TO(STARTING), NOTHING) /* by itself, or by a start of before */
#define RUNS CELL(TO(RUNNING), RUNS)	   /* perhaps another invocation */
#define UNSURE CELL(TO(RESUMED), NOTHING)
#define STOPPING CELL(TO(STOPPING), NOTHING)
#define REFUSE CELL(TO(OVER), REFUSE)
#define FAILED CELL(TO(OVER), FAILED)
#define ENDED CELL(TO(OVER), ENDED) /* even if systemd has forgotten how */
#define STOPPED CELL(TO(OVER), STOPPED)

static const struct cell {
	uint8_t to;
	enum task_action action;
} steps[TASK_EVENT_N][TASK_STATE_N] = {
	/*                            FIRST    RESUMED   STARTING  RUNNING   STOPPING OVER */
	[TASK_SEES_UNKNOWN] =        {STAY,    STAY,     STAY,     STAY,     STAY,    STAY},
	[TASK_SEES_ABSENT] =         {FAILED,  FAILED,   FAILED,   ENDED,    STOPPED, STAY},
	[TASK_SEES_IDLE] =           {JOURNAL, START,    FAILED,   ENDED,    STOPPED, STAY},
	[TASK_SEES_QUEUED] =         {STAY,    STARTS,   STAY,     STAY,     STOP,    STAY},
	[TASK_SEES_ENDED] =          {JOURNAL, ENDED,    ENDED,    ENDED,    STOPPED, STAY},
	[TASK_SEES_FAILED] =         {JOURNAL, FAILED,   FAILED,   FAILED,   STOPPED, STAY},
	[TASK_SEES_COMING] =         {REFUSE,  STARTS,   STAY,     STAY,     STOP,    STAY},
	[TASK_SEES_RESTARTING] =     {REFUSE,  STARTS,   STAY,     STAY,     STOP,    STAY},
	[TASK_SEES_ACTIVE] =         {REFUSE,  RUNS,     RUNS,     RUNS,     STOP,    STAY},
	[TASK_SEES_GOING] =          {STAY,    STARTS,   STAY,     STAY,     STOP,    STAY},
	[TASK_EVENT_JOURNALLED] =    {START,   STAY,     STAY,     STAY,     STAY,    STAY},
	[TASK_EVENT_START_REFUSED] = {FAILED,  FAILED,   FAILED,   STAY,     STAY,    STAY},
	[TASK_EVENT_START_UNSURE] =  {STAY,    STAY,     UNSURE,   STAY,     STAY,    STAY},
	[TASK_EVENT_STOP] =          {STOPPED, STOPPING, STOPPING, STOPPING, STAY,    STAY},
};
/* clang-format on */

struct task_step task_step(enum task_state state, enum task_event event)
{
	const struct cell *cell;

	assert(state < TASK_STATE_N && event < TASK_EVENT_N);
	cell = &steps[event][state];
	return (struct task_step){(enum task_state)grid_next(cell->to, state), cell->action};
}

static enum task_event see_down(const struct task_view *view, const char *before, bool has_run)
{
	if (view->has_job)
		return TASK_SEES_QUEUED;
	if (!view->is_loaded)
		return TASK_SEES_ABSENT;
	if (!has_run && (view->invocation[0] == '\0' || str_eq(view->invocation, before)))
		return TASK_SEES_IDLE;
	return view->active == TASK_ACTIVE_FAILED ? TASK_SEES_FAILED : TASK_SEES_ENDED;
}

enum task_event task_see(const struct task_view *view, const char *before, bool has_run)
{
	switch (view->active) {
	case TASK_ACTIVE_INACTIVE:
	case TASK_ACTIVE_FAILED:
		return see_down(view, before, has_run);
	case TASK_ACTIVE_ACTIVATING:
		return TASK_SEES_COMING;
	case TASK_ACTIVE_RESTARTING:
		return TASK_SEES_RESTARTING;
	case TASK_ACTIVE_ACTIVE:
		return TASK_SEES_ACTIVE;
	case TASK_ACTIVE_DEACTIVATING:
		return TASK_SEES_GOING;
	case TASK_ACTIVE_UNKNOWN:
	case TASK_ACTIVE_N:
		break;
	}
	return TASK_SEES_UNKNOWN;
}
