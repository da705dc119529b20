/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/runner_internal.h"
#include "base/clock.h"
#include "base/str.h"
#include "unit/task.h"

#include <assert.h>

static void drop(struct alloc_runner *runner)
{
	task_free(runner->unit);
	runner->unit = NULL;
}

static void end_unit_op(struct alloc_runner *runner)
{
	if (runner->op == RUNNER_START_UNIT || runner->op == RUNNER_STOP_UNIT)
		runner_end_op(runner);
}

static void on_start(const char *before, void *userdata)
{
	runner_apply(userdata, &(struct alloc_event){.type = ALLOC_EVENT_TASK_START, .invocation = before});
}

static void on_runs(const char *invocation, void *userdata)
{
	struct alloc_runner *runner = userdata;

	if (runner->op == RUNNER_START_UNIT)
		runner_end_op(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_TASK_RUNS, .invocation = invocation});
}

static void on_over(const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	struct error why = err ? *err : (struct error){0};

	end_unit_op(runner);
	drop(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_TASK_ENDED, .err = err ? &why : NULL});
}

static void on_stopped(void *userdata)
{
	struct alloc_runner *runner = userdata;

	end_unit_op(runner);
	drop(runner);
	runner_apply(runner, &(struct alloc_event){.type = ALLOC_EVENT_TASK_ENDED});
}

/* The volumes wait for the unit: whoever waits for their claims must hear why. */
static void tell_claims(struct alloc_runner *runner, const struct error *err)
{
	const struct alloc_record *record = runner->record;

	for (uint32_t i = 0; i < record->alloc.n_volumes; i++) {
		if (volume_record_is_live(&record->volumes[i]))
			runner->env->on_release_error(record->volumes[i].claim_id,
						      record->volumes[i].generation, err,
						      runner->env->userdata);
	}
}

static void on_trouble(const struct error *err, void *userdata)
{
	struct alloc_runner *runner = userdata;
	struct alloc_record *record = runner->record;

	if (record->phase == ALLOC_STOPPING) {
		tell_claims(runner, err);
	} else if (runner->op == RUNNER_START_UNIT) {
		/* for whoever asks what it waits for; not worth a write */
		(void)str_format(record->description, sizeof(record->description),
				 "waiting for unit %s: %.600s", record->alloc.unit, err->msg);
		runner->env->on_status(&record->alloc, runner->env->userdata);
	}
}

static const struct task_events unit_events = {
	.on_start = on_start,
	.on_runs = on_runs,
	.on_over = on_over,
	.on_stopped = on_stopped,
	.on_trouble = on_trouble,
};

static enum status make(struct alloc_runner *runner, enum task_state state, struct error *err)
{
	const struct alloc_record *record = runner->record;
	const struct task_request request = {
		.unit = record->alloc.unit,
		.alloc_id = record->alloc.id,
		.stop_timeout_ms = record->alloc.stop_timeout_ms,
		.state = state,
		.invocation = record->task.invocation,
		.events = &unit_events,
		.userdata = runner,
	};

	return task_new(runner->env->tasks, &request, &runner->unit, err);
}

void runner_begin_unit(struct alloc_runner *runner)
{
	struct alloc_record *record = runner->record;
	bool is_new = record->task.state == TASK_RECORD_NONE;
	struct error err;

	assert(!runner->unit);
	runner_begin_op(runner, RUNNER_START_UNIT, record->alloc.n_volumes);
	if (make(runner, is_new ? TASK_FIRST : TASK_RESUMED, &err) != STATUS_OK) {
		runner_end_op(runner);
		if (is_new)
			runner_fail(runner, &err);
		else
			runner->env->on_broken(&err, runner->env->userdata);
		return;
	}
	(void)str_format(record->description, sizeof(record->description), "starting unit %s",
			 record->alloc.unit);
	runner->env->on_status(&record->alloc, runner->env->userdata);
}

void runner_unit_written(struct alloc_runner *runner)
{
	if (runner->op == RUNNER_START_UNIT && runner->unit &&
	    runner->record->task.state == TASK_RECORD_STARTING)
		task_go(runner->unit);
}

void runner_watch_unit(struct alloc_runner *runner)
{
	struct error err;

	if (runner->record->phase != ALLOC_RUNNING || runner->record->task.state != TASK_RECORD_RUNNING)
		return;
	if (make(runner, TASK_RUNNING, &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}

void runner_begin_unit_stop(struct alloc_runner *runner)
{
	struct error err;

	runner_begin_op(runner, RUNNER_STOP_UNIT, runner->record->alloc.n_volumes);
	if (runner->unit)
		task_stop(runner->unit);
	else if (make(runner, TASK_STOPPING, &err) != STATUS_OK)
		runner->env->on_broken(&err, runner->env->userdata);
}

void runner_forget_unit(struct alloc_runner *runner)
{
	if (!task_record_is_live(&runner->record->task))
		drop(runner);
}

void runner_unit_info(const struct alloc_runner *runner, struct alloc_runner_info *info)
{
	const struct task_info task = task_info(runner->unit);

	info->step = task.step;
	info->volume_id = "";
	info->since_ms = task.since_ms;
	info->deadline_ms = task.deadline_ms;
	info->attempts = task.attempts;
	info->last_error = task.last_error;
}
