/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by task.c, which runs one unit, and tasks.c, which keeps them and the connection. */

#include "base/backoff.h"
#include "model/claim.h"
#include "unit/task.h"

#include <sys/queue.h>

enum { JOB_PATH_SIZE = 64, STEP_SIZE = ID_UNIT_MAX + 16 };

struct tasks {
	sd_event *event; /* borrowed */
	struct tasks_options options;
	struct task_bus *bus;
	LIST_HEAD(, task) all;
};

enum task_call { CALL_NONE, CALL_LOOK, CALL_START, CALL_STOP };

struct task {
	LIST_ENTRY(task) entry;
	struct tasks *tasks;
	const struct task_events *events;
	void *userdata;
	char unit[ID_UNIT_MAX + 1];
	char alloc_id[UUID_TEXT_SIZE];
	char *path; /* of the unit, on the bus */
	enum task_state state;
	struct task_view view;
	char invocation[TASK_INVOCATION_SIZE]; /* before the start; once it runs, as told last */
	char job[JOB_PATH_SIZE];	       /* of the start */
	char job_result[TASK_WORD_SIZE];       /* empty: not done, or not heard */
	bool has_run;			       /* since it was started, as was heard */
	bool is_stop_wanted;
	bool is_stop_taken;
	bool is_start_unsure; /* one that was not answered may still be on its way */
	bool is_journalling;
	bool is_look_failed; /* last_error is about that */
	uint32_t stop_timeout_ms;
	enum task_call call; /* under way */
	bool is_dirty;	     /* something was heard meanwhile */
	bool is_soon;	     /* the timer is for the next look that was asked for */
	sd_bus_slot *call_slot;
	sd_bus_slot *job_match, *change_match;
	sd_event_source *timer;
	struct backoff backoff;
	int64_t since_ms;
	char step[STEP_SIZE];
	struct error last_error;
};

/** May it be started, and by this allocation? The journal is told of a refusal. */
enum status tasks_check(const struct tasks *tasks, const struct task_request *request, struct error *err);

/** There is a connection: hear of the unit, and look at it. */
void task_attach(struct task *task);

/** The connection is about to go. */
void task_detach(struct task *task);
