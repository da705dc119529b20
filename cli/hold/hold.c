/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/hold.h"

#include "base/grid.h"
#include "base/names.h"

#include <assert.h>

static const enum hold_request requests[HOLD_STATE_N] = {
	[HOLD_LOOKING] = HOLD_GET,    [HOLD_CLEARING] = HOLD_STOP, [HOLD_EMPTYING] = HOLD_GET,
	[HOLD_SUBMITTING] = HOLD_RUN, [HOLD_STANDBY] = HOLD_GET,   [HOLD_WAITING] = HOLD_GET,
	[HOLD_HELD] = HOLD_GET,	      [HOLD_STOPPING] = HOLD_STOP, [HOLD_RELEASING] = HOLD_GET,
};

/* clang-format off */
/* The next state, what to do, and how the whole ends: HOLD_DONE leaves that as it is. */
#define CELL(to, action, outcome) {to, HOLD_##action, HOLD_##outcome}
#define TO(state) GRID_TO(HOLD_##state)

#define STAY CELL(GRID_STAY, NOTHING, DONE)
#define WATCH CELL(GRID_STAY, WATCH, DONE)
#define RETRY CELL(GRID_STAY, RETRY, DONE) /* also after an answer that the request cannot have */
#define CLEAR CELL(TO(CLEARING), ASK, DONE)
#define RECLEAR CELL(TO(CLEARING), RETRY, DONE)
#define EMPTY CELL(TO(EMPTYING), WATCH, DONE)
#define SUBMIT CELL(TO(SUBMITTING), ASK, DONE)
#define RESUBMIT CELL(TO(SUBMITTING), RETRY, DONE)
#define ANEW CELL(TO(SUBMITTING), ANEW, DONE)
#define QUEUE CELL(TO(STANDBY), SUSPEND, DONE)
#define PLACED CELL(TO(WAITING), BEGIN, DONE)
#define WAIT CELL(TO(WAITING), WATCH, DONE)
#define HOLD CELL(TO(HELD), READY, DONE)
#define RELEASE CELL(TO(STOPPING), RELEASE, DONE)
#define LATE CELL(TO(STOPPING), RELEASE, TIMED_OUT)
#define DENIED CELL(TO(STOPPING), RELEASE, NOT_ALLOWED)
#define RESTOP CELL(TO(STOPPING), RETRY, DONE)
#define FREEING CELL(TO(RELEASING), WATCH, DONE)
#define FAILING CELL(TO(RELEASING), WATCH, FAILED)
#define LEAVING CELL(TO(RELEASING), BEGIN, FAILED)
/* ended: X has forgotten the allocation, L leaves it to the next process */
#define X_DONE CELL(TO(ENDED), FORGET, DONE)
#define X_FAILED CELL(TO(ENDED), FORGET, FAILED)
#define X_IN_USE CELL(TO(ENDED), FORGET, NOT_AVAILABLE)
#define X_WRONG CELL(TO(ENDED), FORGET, WRONG_SPEC)
#define X_TAKEN CELL(TO(ENDED), FORGET, TAKEN_AWAY)
#define L_DONE CELL(TO(ENDED), LEAVE, DONE)
#define L_FAILED CELL(TO(ENDED), LEAVE, FAILED)
#define L_LATE CELL(TO(ENDED), LEAVE, TIMED_OUT)
#define L_DENIED CELL(TO(ENDED), LEAVE, NOT_ALLOWED)
#define L_TAKEN CELL(TO(ENDED), LEAVE, TAKEN_AWAY)

static const struct cell {
	uint8_t to;
	enum hold_action action;
	enum hold_outcome outcome;
} steps[HOLD_EVENT_N][HOLD_ENDED] = {
	/*                   LOOKING   CLEARING  EMPTYING  SUBMITTING STANDBY   WAITING   HELD     STOPPING  RELEASING */
	[HOLD_PENDING] =   {WATCH,    EMPTY,    RECLEAR,  WAIT,      PLACED,   WATCH,    WATCH,   FREEING,  RESTOP},
	[HOLD_QUEUED] =    {QUEUE,    EMPTY,    RECLEAR,  QUEUE,     WATCH,    QUEUE,    WATCH,   FREEING,  RESTOP},
	[HOLD_RUNNING] =   {HOLD,     EMPTY,    RECLEAR,  WAIT,      HOLD,     HOLD,     WATCH,   FREEING,  RESTOP},
	[HOLD_ENDING] =    {EMPTY,    EMPTY,    WATCH,    EMPTY,     LEAVING,  FAILING,  L_TAKEN, FREEING,  WATCH},
	[HOLD_FREED] =     {ANEW,     EMPTY,    ANEW,     ANEW,      X_IN_USE, X_FAILED, X_TAKEN, FREEING,  X_DONE},
	[HOLD_ABSENT] =    {SUBMIT,   ANEW,     ANEW,     X_WRONG,   ANEW,     L_FAILED, RETRY,   L_DONE,   L_DONE},
	[HOLD_LOST] =      {RETRY,    RETRY,    RETRY,    RETRY,     RETRY,    RETRY,    RETRY,   RETRY,    RETRY},
	[HOLD_REFUSED] =   {RETRY,    RETRY,    RETRY,    X_IN_USE,  RETRY,    RETRY,    RETRY,   RETRY,    RETRY},
	[HOLD_DENIED] =    {RESUBMIT, RESUBMIT, RESUBMIT, L_DENIED,  DENIED,   DENIED,   RETRY,   L_DENIED, L_DENIED},
	[HOLD_INVALID] =   {RETRY,    RETRY,    RETRY,    X_WRONG,   RETRY,    RETRY,    RETRY,   RETRY,    RETRY},
	[HOLD_OTHER] =     {RETRY,    RETRY,    RETRY,    CLEAR,     RETRY,    RETRY,    RETRY,   RETRY,    RETRY},
	[HOLD_UNMOUNTED] = {WATCH,    EMPTY,    RECLEAR,  WAIT,      PLACED,   WATCH,    L_TAKEN, FREEING,  RESTOP},
	[HOLD_DEADLINE] =  {LATE,     L_LATE,   L_LATE,   LATE,      LATE,     LATE,     STAY,    L_LATE,   L_LATE},
	[HOLD_SIGTERM] =   {RELEASE,  RELEASE,  RELEASE,  RELEASE,   RELEASE,  RELEASE,  RELEASE, STAY,     STAY},
};
/* clang-format on */

static const char *const state_names[HOLD_STATE_N] = {
	[HOLD_LOOKING] = "looking",	[HOLD_CLEARING] = "clearing",
	[HOLD_EMPTYING] = "emptying",	[HOLD_SUBMITTING] = "submitting",
	[HOLD_STANDBY] = "standing by", [HOLD_WAITING] = "waiting",
	[HOLD_HELD] = "held",		[HOLD_STOPPING] = "stopping",
	[HOLD_RELEASING] = "releasing", [HOLD_ENDED] = "ended",
};

enum hold_request hold_request(enum hold_state state)
{
	assert(state < HOLD_ENDED);
	return requests[state];
}

enum hold_action hold_step(struct hold *hold, enum hold_event event)
{
	const struct cell *cell;

	assert(hold->state < HOLD_ENDED && event < HOLD_EVENT_N);
	cell = &steps[event][hold->state];
	hold->state = (enum hold_state)grid_next(cell->to, hold->state);
	hold->was_held = hold->was_held || hold->state == HOLD_HELD;
	if (hold->outcome == HOLD_DONE)
		hold->outcome = cell->outcome;
	return cell->action;
}

const char *hold_state_name(enum hold_state state)
{
	const char *name = names_get(state_names, HOLD_STATE_N, (int)state);

	return name ? name : "unknown";
}
