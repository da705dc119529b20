/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The life of one instance of a plugin as a pure function.
 *
 *   dialling -> fingerprinting -> healthy <-> unhealthy -> gone
 *
 * rechecking is healthy, while a probe and new facts are requested because the connection was lost or the
 * socket was bound again: calls continue meanwhile, since a restarted plugin is usually back at once. */

#include <stdbool.h>

enum instance_state {
	INSTANCE_DIALLING,	 /* until the first probe ended */
	INSTANCE_FINGERPRINTING, /* it answers, its facts are read */
	INSTANCE_HEALTHY,
	INSTANCE_RECHECKING,
	INSTANCE_UNHEALTHY,
	INSTANCE_GONE,
	INSTANCE_STATE_N,
};

enum instance_event {
	INSTANCE_DUE, /* the timer */
	INSTANCE_PROBE_OK,
	INSTANCE_PROBE_FAILED,
	INSTANCE_FACTS_OK,
	INSTANCE_FACTS_FAILED,
	INSTANCE_LOST,	    /* the connection ended */
	INSTANCE_RECREATED, /* the socket was bound again, or other facts are wanted */
	INSTANCE_REMOVED,   /* the socket is gone */
	INSTANCE_EVENT_N,
};

enum {
	INSTANCE_DO_PROBE = 1U << 0,
	INSTANCE_DO_FACTS = 1U << 1,
	INSTANCE_DO_BACKOFF = 1U << 2,	/* probe after a growing delay */
	INSTANCE_DO_INTERVAL = 1U << 3, /* probe after the interval */
	INSTANCE_DO_SOON = 1U << 4,	/* probe at once, unless that was done often of late */
	INSTANCE_DO_SETTLE = 1U << 5,	/* it has been healthy for a while: recent probes no longer count */
	INSTANCE_DO_TELL = 1U << 6,	/* its health has changed */
	INSTANCE_DO_REASON = 1U << 7,	/* unhealthy as before, perhaps for another reason */
	INSTANCE_DO_CANCEL = 1U << 8,	/* cancel the calls in flight */
};

struct instance_step {
	enum instance_state state;
	unsigned int actions;
};

struct instance_step instance_step(enum instance_state state, enum instance_event event);

/** Do calls go to it? */
bool instance_state_is_healthy(enum instance_state state);

/** "dialling", "fingerprinting", "healthy", "unhealthy", "gone" */
const char *instance_state_name(enum instance_state state);
