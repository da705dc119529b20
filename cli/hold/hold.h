/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The state machine of `holdfast volume hold`: an allocation is found or run, held, and released. Pure.
 *
 *                                              ┌──── QUEUED ──> STANDBY ── PENDING ──┐
 *   LOOKING ──────── FREED, ABSENT ───────> SUBMITTING ─── PENDING ───> WAITING <────┘
 *      │ │                                   ^     │ OTHER                 │
 *      │ └ ENDING ─> EMPTYING ─── FREED ─────┘     v                       │
 *      │                ^────── ENDING ──────── CLEARING                   │
 *      └────────────────────── RUNNING ─────────> HELD <───── RUNNING ─────┘
 *
 *   each of them ── SIGTERM, or DEADLINE unless held ──> STOPPING ── ENDING ──> RELEASING ── FREED ──> ENDED
 *
 * STANDBY has no deadline: the server ends a wait that is too long. Each way out of it begins one.
 * HELD is left only by SIGTERM and by facts: the allocation is being stopped or has ended, or nothing is
 * mounted there. If the server does not know, report or show the state, nothing changes. */

#include <stdbool.h>

enum hold_state {
	HOLD_LOOKING,	 /* the state of an earlier process's allocation */
	HOLD_CLEARING,	 /* until the server has noted that that one shall end */
	HOLD_EMPTYING,	 /* until its claim is free */
	HOLD_SUBMITTING, /* run one */
	HOLD_STANDBY,	 /* until its turn in the queue of the volume */
	HOLD_WAITING,	 /* until it is published */
	HOLD_HELD,	 /* published */
	HOLD_STOPPING,	 /* until the server has noted that it shall end */
	HOLD_RELEASING,	 /* until its claim is free */
	HOLD_ENDED,
	HOLD_STATE_N,
};

enum hold_event {
	HOLD_PENDING,	/* it shall run, and is not published yet */
	HOLD_QUEUED,	/* the same, and it waits for its volume in the server's queue */
	HOLD_RUNNING,	/* it is published */
	HOLD_ENDING,	/* it shall not run or has ended, and its claim may not be free */
	HOLD_FREED,	/* it has ended and has no claim */
	HOLD_ABSENT,	/* the server has no such allocation, and it is not seen mounted */
	HOLD_LOST,	/* no answer, or one that can be another one later */
	HOLD_REFUSED,	/* another holder has the volume */
	HOLD_DENIED,	/* we may not ask that */
	HOLD_INVALID,	/* what we ask makes no sense to the server */
	HOLD_OTHER,	/* our id has another content: the file was changed in between */
	HOLD_UNMOUNTED, /* the server reports RUNNING, but nothing is mounted */
	HOLD_DEADLINE,
	HOLD_SIGTERM,
	HOLD_EVENT_N,
};

enum hold_request {
	HOLD_GET,
	HOLD_RUN,
	HOLD_STOP,
	HOLD_REQUEST_N,
};

enum hold_action {
	HOLD_NOTHING, /* the request in flight continues */
	HOLD_ASK,     /* the state's request, now */
	HOLD_WATCH,   /* the state's request, answered when something has changed */
	HOLD_RETRY,   /* the state's request, after a pause */
	HOLD_SUSPEND, /* turn the deadline off, then watch */
	HOLD_BEGIN,   /* begin the deadline again, then watch */
	HOLD_ANEW,    /* note a new id or, of a device, an absent one; begin the deadline if it is off, ask */
	HOLD_READY,   /* make the link, report it, then watch */
	HOLD_RELEASE, /* note that the allocation must end, begin another deadline, then ask */
	HOLD_FORGET,  /* end; nothing is left of the allocation */
	HOLD_LEAVE,   /* end; note that the allocation must end: the next process does that first */
	HOLD_ACTION_N,
};

/* How it ends, as exit code. Those from 64 on are sysexits(3)' where one fits: systemctl shows their names.
 */
enum hold_outcome {
	HOLD_DONE = 0,
	HOLD_FAILED = 1,	 /* the allocation failed on the node */
	HOLD_NOT_AVAILABLE = 69, /* another holder has the volume */
	HOLD_TIMED_OUT = 75,
	HOLD_NOT_ALLOWED = 77,
	HOLD_WRONG_SPEC = 78,
	HOLD_TAKEN_AWAY = 80,
};

struct hold {
	enum hold_state state;
	bool was_held;
	enum hold_outcome outcome; /* the first one that is not HOLD_DONE stays */
};

/** Returns the request to the server in @state. Not for HOLD_ENDED. */
enum hold_request hold_request(enum hold_state state);

/** Take @event: the next state, and what to do. */
enum hold_action hold_step(struct hold *hold, enum hold_event event);

/** "looking", "held" */
const char *hold_state_name(enum hold_state state);
