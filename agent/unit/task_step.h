/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Decides the next action on the unit of an allocation: (state, view of it) -> (state, action). Pure.
 *
 *   first ── idle: journal ── journalled: start ──> starting ── active ──> running ──> over
 *   resumed ── idle: start ──────────────────────────^  │                    │
 *   any ── stop wanted ──> stopping ── down ──> over <──┴── failed, ended ───┘
 *
 * An unknown view changes nothing. */

#include "unit/task_view.h"

enum task_state {
	TASK_FIRST,    /* nothing was requested of the unit: no other process may have started it */
	TASK_RESUMED,  /* a start was journalled; it may have been asked for, or not */
	TASK_STARTING, /* it was asked for */
	TASK_RUNNING,
	TASK_STOPPING, /* until it has no process */
	TASK_OVER,
	TASK_STATE_N,
};

enum task_event {
	TASK_SEES_UNKNOWN,
	TASK_SEES_ABSENT, /* there is no such unit, or it cannot be started */
	TASK_SEES_IDLE,	  /* down, and as it was before */
	TASK_SEES_QUEUED, /* down, with a job that waits */
	TASK_SEES_ENDED,  /* down, and it has run since */
	TASK_SEES_FAILED, /* likewise */
	TASK_SEES_COMING,
	TASK_SEES_RESTARTING,
	TASK_SEES_ACTIVE,
	TASK_SEES_GOING,
	TASK_EVENT_JOURNALLED,	  /* that it will be started */
	TASK_EVENT_START_REFUSED, /* it was not, and will not be */
	TASK_EVENT_START_UNSURE,  /* no answer, or one that asks to try again */
	TASK_EVENT_STOP,	  /* wanted */
	TASK_EVENT_N,
};

enum task_action {
	TASK_DO_NOTHING,
	TASK_DO_JOURNAL, /* that it will be started, with the previous invocation */
	TASK_DO_START,
	TASK_DO_STOP,	 /* unless that was asked for already */
	TASK_DO_RUNS,	 /* report: it is active */
	TASK_DO_REFUSE,	 /* report: another process has started it */
	TASK_DO_FAILED,	 /* report: with the failure in the view */
	TASK_DO_ENDED,	 /* report: by itself, with success */
	TASK_DO_STOPPED, /* report: its last process has ended */
	TASK_ACTION_N,
};

struct task_step {
	enum task_state state;
	enum task_action action;
};

struct task_step task_step(enum task_state state, enum task_event event);

/** @view as an event of a task that was started when @before was the unit's invocation, or is running
 * (@before empty). @has_run it is known to have run since, although systemd may have forgotten that. */
enum task_event task_see(const struct task_view *view, const char *before, bool has_run);
