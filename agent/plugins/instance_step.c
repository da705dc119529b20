/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/instance_step.h"

#include "base/cleanup.h"
#include "base/names.h"

#include <assert.h>

#define STAY(state)                          \
	{                                    \
		(state), INSTANCE_DO_NOTHING \
	}
#define FAILED                                                             \
	{                                                                  \
		INSTANCE_UNHEALTHY, INSTANCE_DO_TELL | INSTANCE_DO_BACKOFF \
	}
#define STILL_FAILED                                                         \
	{                                                                    \
		INSTANCE_UNHEALTHY, INSTANCE_DO_REASON | INSTANCE_DO_BACKOFF \
	}
#define AGAIN(state)                                           \
	{                                                      \
		(state), INSTANCE_DO_CANCEL | INSTANCE_DO_SOON \
	}
#define REMOVED(tell)                                      \
	{                                                  \
		INSTANCE_GONE, INSTANCE_DO_CANCEL | (tell) \
	}

/* clang-format off */
static const struct instance_step steps[INSTANCE_STATE_N][INSTANCE_EVENT_N] = {
	[INSTANCE_DIALLING] = {
		[INSTANCE_DUE] =          {INSTANCE_DIALLING, INSTANCE_DO_PROBE},
		[INSTANCE_PROBE_OK] =     {INSTANCE_FINGERPRINTING, INSTANCE_DO_FACTS},
		[INSTANCE_PROBE_FAILED] = FAILED,
		[INSTANCE_FACTS_OK] =     STAY(INSTANCE_DIALLING),
		[INSTANCE_FACTS_FAILED] = STAY(INSTANCE_DIALLING),
		[INSTANCE_LOST] =         STAY(INSTANCE_DIALLING), /* the probe says so */
		[INSTANCE_RECREATED] =    AGAIN(INSTANCE_DIALLING),
		[INSTANCE_REMOVED] =      REMOVED(0),
	},
	[INSTANCE_FINGERPRINTING] = {
		[INSTANCE_DUE] =          STAY(INSTANCE_FINGERPRINTING),
		[INSTANCE_PROBE_OK] =     STAY(INSTANCE_FINGERPRINTING),
		[INSTANCE_PROBE_FAILED] = STAY(INSTANCE_FINGERPRINTING),
		[INSTANCE_FACTS_OK] =     {INSTANCE_HEALTHY, INSTANCE_DO_TELL | INSTANCE_DO_INTERVAL},
		[INSTANCE_FACTS_FAILED] = FAILED,
		[INSTANCE_LOST] =         STAY(INSTANCE_FINGERPRINTING), /* the call in flight says so */
		[INSTANCE_RECREATED] =    AGAIN(INSTANCE_DIALLING),
		[INSTANCE_REMOVED] =      REMOVED(0),
	},
	[INSTANCE_HEALTHY] = {
		[INSTANCE_DUE] =          {INSTANCE_HEALTHY, INSTANCE_DO_PROBE},
		[INSTANCE_PROBE_OK] =     {INSTANCE_HEALTHY, INSTANCE_DO_SETTLE | INSTANCE_DO_INTERVAL},
		[INSTANCE_PROBE_FAILED] = FAILED,
		[INSTANCE_FACTS_OK] =     STAY(INSTANCE_HEALTHY),
		[INSTANCE_FACTS_FAILED] = STAY(INSTANCE_HEALTHY),
		[INSTANCE_LOST] =         AGAIN(INSTANCE_RECHECKING),
		[INSTANCE_RECREATED] =    AGAIN(INSTANCE_RECHECKING),
		[INSTANCE_REMOVED] =      REMOVED(INSTANCE_DO_TELL),
	},
	[INSTANCE_RECHECKING] = {
		[INSTANCE_DUE] =          {INSTANCE_RECHECKING, INSTANCE_DO_PROBE},
		[INSTANCE_PROBE_OK] =     {INSTANCE_RECHECKING, INSTANCE_DO_FACTS},
		[INSTANCE_PROBE_FAILED] = FAILED,
		[INSTANCE_FACTS_OK] =     {INSTANCE_HEALTHY, INSTANCE_DO_REASON | INSTANCE_DO_INTERVAL},
		[INSTANCE_FACTS_FAILED] = FAILED,
		[INSTANCE_LOST] =         STAY(INSTANCE_RECHECKING), /* it is asked anyway */
		[INSTANCE_RECREATED] =    AGAIN(INSTANCE_RECHECKING),
		[INSTANCE_REMOVED] =      REMOVED(INSTANCE_DO_TELL),
	},
	[INSTANCE_UNHEALTHY] = {
		[INSTANCE_DUE] =          {INSTANCE_UNHEALTHY, INSTANCE_DO_PROBE},
		[INSTANCE_PROBE_OK] =     {INSTANCE_UNHEALTHY, INSTANCE_DO_FACTS},
		[INSTANCE_PROBE_FAILED] = STILL_FAILED,
		[INSTANCE_FACTS_OK] =     {INSTANCE_HEALTHY, INSTANCE_DO_TELL | INSTANCE_DO_INTERVAL},
		[INSTANCE_FACTS_FAILED] = STILL_FAILED,
		[INSTANCE_LOST] =         STAY(INSTANCE_UNHEALTHY), /* its back-off holds: it may close each one */
		[INSTANCE_RECREATED] =    AGAIN(INSTANCE_UNHEALTHY),
		[INSTANCE_REMOVED] =      REMOVED(INSTANCE_DO_TELL),
	},
	[INSTANCE_GONE] = {
		[INSTANCE_DUE] =          STAY(INSTANCE_GONE),
		[INSTANCE_PROBE_OK] =     STAY(INSTANCE_GONE),
		[INSTANCE_PROBE_FAILED] = STAY(INSTANCE_GONE),
		[INSTANCE_FACTS_OK] =     STAY(INSTANCE_GONE),
		[INSTANCE_FACTS_FAILED] = STAY(INSTANCE_GONE),
		[INSTANCE_LOST] =         STAY(INSTANCE_GONE),
		[INSTANCE_RECREATED] =    STAY(INSTANCE_GONE),
		[INSTANCE_REMOVED] =      STAY(INSTANCE_GONE),
	},
};
/* clang-format on */

static const char *const names[INSTANCE_STATE_N] = {
	[INSTANCE_DIALLING] = "dialling",   [INSTANCE_FINGERPRINTING] = "fingerprinting",
	[INSTANCE_HEALTHY] = "healthy",	    [INSTANCE_RECHECKING] = "healthy",
	[INSTANCE_UNHEALTHY] = "unhealthy", [INSTANCE_GONE] = "gone",
};

struct instance_step instance_step(enum instance_state state, enum instance_event event)
{
	assert(state < INSTANCE_STATE_N && event < INSTANCE_EVENT_N);
	assert(steps[state][event].actions != 0);
	return steps[state][event];
}

bool instance_state_is_healthy(enum instance_state state)
{
	return state == INSTANCE_HEALTHY || state == INSTANCE_RECHECKING;
}

const char *instance_state_name(enum instance_state state)
{
	return names_get(names, ARRAY_SIZE(names), (int)state);
}
