/* SPDX-License-Identifier: Apache-2.0 */
#include "service/instance_step.h"

#include "base/cleanup.h"
#include "base/grid.h"
#include "base/names.h"

#include <assert.h>

/* clang-format off */
/* The next state, and what to do. */
#define CELL(state, actions) {GRID_TO(INSTANCE_##state), (actions)}

#define STAY {GRID_STAY, 0}
#define PROBE {GRID_STAY, INSTANCE_DO_PROBE}
#define FACTS {GRID_STAY, INSTANCE_DO_FACTS}
#define SETTLE {GRID_STAY, INSTANCE_DO_SETTLE | INSTANCE_DO_INTERVAL}
#define AGAIN {GRID_STAY, INSTANCE_DO_CANCEL | INSTANCE_DO_SOON}
#define FAILS {GRID_STAY, INSTANCE_DO_REASON | INSTANCE_DO_BACKOFF}
#define REDIAL CELL(DIALLING, INSTANCE_DO_CANCEL | INSTANCE_DO_SOON)
#define READ CELL(FINGERPRINTING, INSTANCE_DO_FACTS)
#define RECHECK CELL(RECHECKING, INSTANCE_DO_CANCEL | INSTANCE_DO_SOON)
#define HEALTHY CELL(HEALTHY, INSTANCE_DO_TELL | INSTANCE_DO_INTERVAL)
#define SAME CELL(HEALTHY, INSTANCE_DO_REASON | INSTANCE_DO_INTERVAL)
#define FAILED CELL(UNHEALTHY, INSTANCE_DO_TELL | INSTANCE_DO_BACKOFF)
#define UNSEEN CELL(GONE, INSTANCE_DO_CANCEL)
#define GONE CELL(GONE, INSTANCE_DO_CANCEL | INSTANCE_DO_TELL)

static const struct cell {
	uint8_t to;
	unsigned int actions;
} steps[INSTANCE_EVENT_N][INSTANCE_STATE_N] = {
	/*                         DIALLING FINGERPRINTING HEALTHY  RECHECKING UNHEALTHY GONE */
	[INSTANCE_DUE] =          {PROBE,   STAY,          PROBE,   PROBE,     PROBE,    STAY},
	[INSTANCE_PROBE_OK] =     {READ,    STAY,          SETTLE,  FACTS,     FACTS,    STAY},
	[INSTANCE_PROBE_FAILED] = {FAILED,  STAY,          FAILED,  FAILED,    FAILS,    STAY},
	[INSTANCE_FACTS_OK] =     {STAY,    HEALTHY,       STAY,    SAME,      HEALTHY,  STAY},
	[INSTANCE_FACTS_FAILED] = {STAY,    FAILED,        STAY,    FAILED,    FAILS,    STAY},
	/* except for a healthy one, the call in flight or the next probe reports it; back-off holds */
	[INSTANCE_LOST] =         {STAY,    STAY,          RECHECK, STAY,      STAY,     STAY},
	[INSTANCE_RECREATED] =    {AGAIN,   REDIAL,        RECHECK, AGAIN,     AGAIN,    STAY},
	[INSTANCE_REMOVED] =      {UNSEEN,  UNSEEN,        GONE,    GONE,      GONE,     STAY},
};
/* clang-format on */

static const char *const names[INSTANCE_STATE_N] = {
	[INSTANCE_DIALLING] = "dialling",   [INSTANCE_FINGERPRINTING] = "fingerprinting",
	[INSTANCE_HEALTHY] = "healthy",	    [INSTANCE_RECHECKING] = "healthy",
	[INSTANCE_UNHEALTHY] = "unhealthy", [INSTANCE_GONE] = "gone",
};

struct instance_step instance_step(enum instance_state state, enum instance_event event)
{
	const struct cell *cell;

	assert(state < INSTANCE_STATE_N && event < INSTANCE_EVENT_N);
	cell = &steps[event][state];
	return (struct instance_step){(enum instance_state)grid_next(cell->to, state), cell->actions};
}

bool instance_state_is_healthy(enum instance_state state)
{
	return state == INSTANCE_HEALTHY || state == INSTANCE_RECHECKING;
}

const char *instance_state_name(enum instance_state state)
{
	return names_get(names, ARRAY_SIZE(names), (int)state);
}
