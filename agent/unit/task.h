/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The units that allocations start: each is started once, watched, and stopped. Only systemd restarts them,
 * as set by their Restart=. */

#include "base/error.h"
#include "base/id.h"
#include "unit/task_bus.h"
#include "unit/task_step.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TASK_UNITS_MAX = 64,	   /* that the agent may start */
	TASK_LOOK_SPACING_MS = 20, /* between two looks at a unit that changes all the time */
	TASK_LOOK_INTERVAL_S = 30, /* a look even if nothing was heard */
	TASK_RETRY_MIN_MS = 500,
	TASK_RETRY_MAX_MS = 30000,
};

#define POLKIT_RULES "/etc/polkit-1/rules.d/50-holdfast.rules"

typedef char task_unit_name[ID_UNIT_MAX + 1];

struct tasks_options {
	const task_unit_name *units; /* that may be started, the list ends with an empty one; borrowed */
	const char *file;	     /* where the list is, for people; borrowed */
};

struct tasks;

/** @ret owned by the caller, tasks_free() when all of its tasks are freed */
enum status tasks_new(sd_event *event, const struct tasks_options *options, struct tasks **ret,
		      struct error *err);

/** NULL is allowed. */
void tasks_free(struct tasks *tasks);

/* Called from the event loop. The task may be freed in on_over() and on_stopped(), which are the last. */
struct task_events {
	/* it is about to be started: task_go() when that is on the disk, with the unit's invocation before */
	void (*on_start)(const char *before, void *userdata);
	/* it is active; again when it is under another invocation */
	void (*on_runs)(const char *invocation, void *userdata);
	/* it has not been started, or ended by itself; @err NULL: with success */
	void (*on_over)(const struct error *err, void *userdata);
	/* as was wanted */
	void (*on_stopped)(void *userdata);
	/* it cannot continue for now and is tried again */
	void (*on_trouble)(const struct error *err, void *userdata);
};

struct task_request {
	const char *unit;
	const char *alloc_id;
	uint32_t stop_timeout_ms;	  /* 0: that of the unit */
	enum task_state state;		  /* FIRST, RESUMED, RUNNING or STOPPING */
	const char *invocation;		  /* RESUMED: of before the start; RUNNING: that ran */
	bool is_start_unsure;		  /* a start of the agent's last run may still be on its way */
	const struct task_events *events; /* static */
	void *userdata;
};

struct task;

/** STATUS_PERMISSION_DENIED for a unit that is not in the list, STATUS_ALREADY_EXISTS when another allocation
 * has it; both only for TASK_FIRST. @ret owned by the caller, task_free() */
enum status task_new(struct tasks *tasks, const struct task_request *request, struct task **ret,
		     struct error *err);

/** Continues after the state that on_start() reported is on the disk. */
void task_go(struct task *task);

/** Stops the unit in any state; on_stopped() reports the end. */
void task_stop(struct task *task);

/* The operation in progress, for people. */
struct task_info {
	const char *step; /* "start unit db.service" */
	int64_t since_ms;
	int64_t deadline_ms; /* 0: no deadline */
	uint32_t attempts;
	const char *last_error; /* empty: no error */
};

struct task_info task_info(const struct task *task);

/** The unit stays as it is. NULL is allowed. */
void task_free(struct task *task);
