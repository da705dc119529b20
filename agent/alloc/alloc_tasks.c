/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/alloc_tasks.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/task.h"

#include <assert.h>
#include <stdlib.h>

/* For the callbacks of a task. */
struct place {
	struct alloc_tasks *tasks;
	struct driver_task *task; /* owned; NULL: nothing is done with it */
};

struct alloc_tasks {
	struct alloc_tasks_options options;
	struct driver_task *network; /* owned; NULL: nothing is done with it */
	size_t n;
	struct place places[];
};

static uint32_t index_of(const struct place *place)
{
	return (uint32_t)(place - place->tasks->places);
}

static const struct driver_task_record *record_of(const struct place *place)
{
	return &place->tasks->options.record->tasks[index_of(place)];
}

static void emit(const struct place *place, struct alloc_event event)
{
	event.task = index_of(place);
	event.now_ms = clock_realtime_ms();
	place->tasks->options.events->on_event(&event, place->tasks->options.userdata);
}

static void log_task(const struct place *place, const char *what, const struct error *err)
{
	const struct alloc *alloc = &place->tasks->options.record->alloc;
	const Holdfast__Driver__V1__TaskConfig *task = alloc_task(alloc, index_of(place));
	const struct log_ctx ctx = {.alloc = alloc->id, .driver = task->driver, .op = "task", .err = err};

	log_ctx(err ? LOG_WARNING : LOG_NOTICE, &ctx, "task %s %s", task->task, what);
}

static void on_start(void *userdata)
{
	struct place *place = userdata;

	if (record_of(place)->state == TASK_RECORD_STARTING)
		driver_task_go(place->task);
	else
		emit(place, (struct alloc_event){.type = ALLOC_EVENT_TASK_START});
}

static void on_runs(const Holdfast__Driver__V1__TaskHandle *handle,
		    const Holdfast__Driver__V1__StartTaskRequest *start, void *userdata)
{
	const struct place *place = userdata;

	log_task(place, start ? "runs" : "runs again", NULL);
	emit(place, (struct alloc_event){.type = ALLOC_EVENT_TASK_RUNS, .handle = handle, .start = start});
}

static void on_health(const char *health, void *userdata)
{
	const struct place *place = userdata;

	log_task(place, health, NULL);
	emit(place, (struct alloc_event){.type = ALLOC_EVENT_TASK_HEALTH, .health = health});
}

/* Why it has not succeeded; NULL: it has. */
static const struct error *explain(const char *name, const Holdfast__Driver__V1__ExitResult *result,
				   const struct error *err, struct error *ret)
{
	if (err) {
		*ret = *err;
		(void)error_prefix(ret, "task %s", name);
	} else if (result->error[0] != '\0') {
		(void)error_set(ret, STATUS_ABORTED, 0, "task %s: %.512s", name, result->error);
		str_make_one_reason(ret->msg);
	} else if (result->oom_killed) {
		(void)error_set(ret, STATUS_ABORTED, 0, "task %s was killed: it was out of memory", name);
	} else if (result->signal != 0) {
		(void)error_set(ret, STATUS_ABORTED, 0, "task %s was killed by signal %u", name,
				result->signal);
	} else if (result->exit_code != 0) {
		(void)error_set(ret, STATUS_ABORTED, 0, "task %s has ended with exit status %d", name,
				result->exit_code);
	} else {
		return NULL;
	}
	return ret;
}

/* Some driver may lack restarts: then the default of a job is no restart. */
static bool may_restart(const struct place *place, const struct driver_task_record *record)
{
	const struct alloc_tasks_options *options = &place->tasks->options;
	const Holdfast__Driver__V1__TaskConfig *config = alloc_task(&options->record->alloc, index_of(place));
	const Holdfast__Driver__V1__CapabilitiesResponse *offer =
		drivers_offer(options->drivers, config->driver);

	if (options->record->phase >= ALLOC_STOPPING)
		return false;
	if (!restart_is_wanted(config->restart) || !record->start || record->state != TASK_RECORD_RUNNING)
		return false;
	return !config->restart->by_default || !offer || offer->restart_tasks;
}

/* A task that failed: does its restart block let it be started again? Then that is on the way. */
static bool restart(struct place *place, const Holdfast__Driver__V1__ExitResult *result,
		    const struct error *failure)
{
	const struct alloc_record *record = place->tasks->options.record;
	const struct driver_task_record *task = record_of(place);
	struct restart_count count = task->count;
	int64_t now_ms = clock_realtime_ms();
	int64_t delay_ms;

	if (!may_restart(place, task))
		return false;
	delay_ms = restart_next(alloc_task(&record->alloc, index_of(place))->restart, &count, now_ms);
	if (delay_ms < 0)
		return false;
	delay_ms += (int64_t)backoff_random() % (delay_ms / 4 + 1); /* tasks that failed together spread */
	log_task(place, "has failed and is restarted", failure);
	driver_task_restart(place->task, (uint64_t)delay_ms * USEC_PER_MSEC);
	emit(place, (struct alloc_event){.type = ALLOC_EVENT_TASK_FAILED,
					 .result = result,
					 .err = failure,
					 .count = count,
					 .restart_ms = now_ms + delay_ms});
	return true;
}

/* The driver refuses a task whose volumes are not mounted, as after their plugin died: they are mounted
 * again. A stop ends the wait when it is the task's turn. */
static bool on_may_restart(void *userdata)
{
	const struct place *place = userdata;

	return alloc_may_restart(place->tasks->options.record);
}

static void on_exited(const Holdfast__Driver__V1__ExitResult *result, const struct error *err, void *userdata)
{
	struct place *place = userdata;
	const struct alloc_tasks_options *options = &place->tasks->options;
	uint32_t i = index_of(place);
	bool was_asked = record_of(place)->state != TASK_RECORD_NONE;
	struct error why;
	const struct error *failure =
		explain(alloc_task(&options->record->alloc, i)->task, result, err, &why);

	if (result && failure && restart(place, result, failure))
		return;
	log_task(place, was_asked ? "has ended" : "is not started", failure);
	if (was_asked) {
		emit(place, (struct alloc_event){.type = alloc_task_end(options->record, i, failure),
						 .result = result,
						 .err = failure});
		return;
	}
	driver_task_free(place->task);
	place->task = NULL;
	options->events->on_refused(i, failure, options->userdata);
}

static void on_gone(void *userdata)
{
	struct place *place = userdata;

	log_task(place, "is gone", NULL);
	driver_task_free(place->task);
	place->task = NULL;
	emit(place, (struct alloc_event){.type = ALLOC_EVENT_TASK_GONE});
}

static void on_trouble(const struct error *err, void *userdata)
{
	const struct place *place = userdata;

	place->tasks->options.events->on_trouble(index_of(place), err, place->tasks->options.userdata);
}

static const struct network_record *network_of(const struct alloc_tasks *tasks)
{
	return &tasks->options.record->network;
}

static void emit_network(const struct alloc_tasks *tasks, struct alloc_event event)
{
	event.task = ALLOC_NETWORK;
	tasks->options.events->on_event(&event, tasks->options.userdata);
}

static void log_network(const struct alloc_tasks *tasks, const char *what, const struct error *err)
{
	const struct log_ctx ctx = {.alloc = tasks->options.record->alloc.id,
				    .driver = network_of(tasks)->driver,
				    .op = "network",
				    .err = err};

	log_ctx(err ? LOG_WARNING : LOG_NOTICE, &ctx, "the network of the tasks %s", what);
}

static void on_network_start(void *userdata)
{
	const struct alloc_tasks *tasks = userdata;

	emit_network(tasks, (struct alloc_event){.type = ALLOC_EVENT_NETWORK_START,
						 .driver = driver_task_driver(tasks->network)});
}

static void on_network_up(const Holdfast__Driver__V1__NetworkSpec *spec, void *userdata)
{
	log_network(userdata, "is there", NULL);
	emit_network(userdata, (struct alloc_event){.type = ALLOC_EVENT_NETWORK_UP, .network = spec});
}

/* Handles a failed creation of the network. Its remains are destroyed when the allocation stops. */
static void on_network_failed(const Holdfast__Driver__V1__ExitResult *result, const struct error *err,
			      void *userdata)
{
	struct alloc_tasks *tasks = userdata;
	struct error why = *err;

	(void)error_prefix(&why, "network isolated");
	log_network(tasks, "is not made", err);
	if (network_of(tasks)->state == TASK_RECORD_NONE) {
		driver_task_free(tasks->network);
		tasks->network = NULL;
	}
	tasks->options.events->on_refused(ALLOC_NETWORK, &why, tasks->options.userdata);
}

static void on_network_gone(void *userdata)
{
	struct alloc_tasks *tasks = userdata;

	log_network(tasks, "is gone", NULL);
	driver_task_free(tasks->network);
	tasks->network = NULL;
	emit_network(tasks, (struct alloc_event){.type = ALLOC_EVENT_NETWORK_GONE});
}

static void on_network_trouble(const struct error *err, void *userdata)
{
	const struct alloc_tasks *tasks = userdata;

	tasks->options.events->on_trouble(ALLOC_NETWORK, err, tasks->options.userdata);
}

static const struct driver_task_events network_events = {
	.on_start = on_network_start,
	.on_up = on_network_up,
	.on_exited = on_network_failed,
	.on_gone = on_network_gone,
	.on_trouble = on_network_trouble,
};

static enum status make_network(struct alloc_tasks *tasks, enum driver_task_state state, struct error *err)
{
	assert(!tasks->network);

	const struct alloc_tasks_options *options = &tasks->options;
	const struct driver_task_request request = {
		.event = options->event,
		.drivers = options->drivers,
		.server = options->server,
		.namespace = options->record->alloc.namespace,
		.alloc_id = options->record->alloc.id,
		.driver = network_of(tasks)->driver,
		.state = state,
		.events = &network_events,
		.userdata = tasks,
	};

	return driver_task_new(&request, &tasks->network, err);
}

static const struct driver_task_events events = {
	.on_start = on_start,
	.on_runs = on_runs,
	.on_health = on_health,
	.may_restart = on_may_restart,
	.on_exited = on_exited,
	.on_gone = on_gone,
	.on_trouble = on_trouble,
};

static enum status make(struct place *place, enum driver_task_state state, struct error *err)
{
	assert(!place->task);

	const struct alloc_tasks_options *options = &place->tasks->options;
	const struct driver_task_record *record = record_of(place);
	int64_t delay_ms = state == DRIVER_TASK_RESTART ? record->restart_ms - clock_realtime_ms() : 0;
	const struct message_list *network = options->record->network.spec;
	const struct driver_task_request request = {
		.event = options->event,
		.drivers = options->drivers,
		.server = options->server,
		.namespace = options->record->alloc.namespace,
		.alloc_id = options->record->alloc.id,
		.config = alloc_task(&options->record->alloc, index_of(place)),
		.state = state,
		.handle = record->handle ? (const void *)record->handle->messages[0] : NULL,
		.start = record->start ? (const void *)record->start->messages[0] : NULL,
		.delay_us = delay_ms > 0 ? (uint64_t)delay_ms * USEC_PER_MSEC : 0,
		.network = network ? (const void *)network->messages[0] : NULL,
		.events = &events,
		.userdata = place,
	};

	return driver_task_new(&request, &place->task, err);
}

enum status alloc_tasks_new(const struct alloc_tasks_options *options, struct alloc_tasks **ret,
			    struct error *err)
{
	size_t n = message_list_n(options->record->alloc.tasks);
	struct alloc_tasks *tasks;

	*ret = NULL;
	if (n == 0)
		return STATUS_OK;
	tasks = calloc(1, sizeof(*tasks) + n * sizeof(tasks->places[0]));
	if (!tasks)
		return error_no_memory(err, "the tasks of an allocation");
	tasks->options = *options;
	tasks->n = n;
	for (size_t i = 0; i < n; i++)
		tasks->places[i].tasks = tasks;
	*ret = tasks;
	return STATUS_OK;
}

void alloc_tasks_free(struct alloc_tasks *tasks)
{
	for (size_t i = 0; tasks && i < tasks->n; i++)
		driver_task_free(tasks->places[i].task);
	if (tasks)
		driver_task_free(tasks->network);
	free(tasks);
}

enum status alloc_tasks_start(struct alloc_tasks *tasks, uint32_t i, struct error *err)
{
	bool is_network = i == ALLOC_NETWORK;
	enum task_record_state state =
		is_network ? network_of(tasks)->state : record_of(&tasks->places[i])->state;
	enum driver_task_state from = state == TASK_RECORD_NONE ? DRIVER_TASK_NEW : DRIVER_TASK_ORDER;

	return is_network ? make_network(tasks, from, err) : make(&tasks->places[i], from, err);
}

void alloc_tasks_written(struct alloc_tasks *tasks, uint32_t i)
{
	const struct place *place = tasks && i != ALLOC_NETWORK ? &tasks->places[i] : NULL;

	if (tasks && i == ALLOC_NETWORK && tasks->network && network_of(tasks)->state == TASK_RECORD_STARTING)
		driver_task_go(tasks->network);
	if (place && place->task && record_of(place)->state == TASK_RECORD_STARTING)
		driver_task_go(place->task);
}

enum status alloc_tasks_watch(struct alloc_tasks *tasks, struct error *err)
{
	enum status status = STATUS_OK;

	for (size_t i = 0; tasks && i < tasks->n && status == STATUS_OK; i++)
		if (record_of(&tasks->places[i])->state == TASK_RECORD_RUNNING)
			status = make(&tasks->places[i], DRIVER_TASK_RECOVER, err);
		else if (record_of(&tasks->places[i])->state == TASK_RECORD_BACKOFF)
			status = make(&tasks->places[i], DRIVER_TASK_RESTART, err);
	return status;
}

static enum status stop_network(struct alloc_tasks *tasks, struct error *err)
{
	if (!tasks->network)
		TRY(make_network(tasks, DRIVER_TASK_EXITED, err));
	driver_task_stop(tasks->network);
	return STATUS_OK;
}

static enum status stop_task(struct alloc_tasks *tasks, uint32_t i, struct error *err)
{
	struct place *place = &tasks->places[i];
	bool has_exited = record_of(place)->state == TASK_RECORD_EXITED;

	if (!place->task)
		TRY(make(place, has_exited ? DRIVER_TASK_EXITED : DRIVER_TASK_STOP, err));
	driver_task_stop(place->task);
	return STATUS_OK;
}

enum status alloc_tasks_stop(struct alloc_tasks *tasks, uint32_t i, struct error *err)
{
	return i == ALLOC_NETWORK ? stop_network(tasks, err) : stop_task(tasks, i, err);
}

void alloc_tasks_prune(struct alloc_tasks *tasks)
{
	for (size_t i = 0; tasks && i < tasks->n; i++) {
		struct place *place = &tasks->places[i];

		if (driver_task_record_is_live(record_of(place)))
			continue;
		driver_task_free(place->task);
		place->task = NULL;
	}
	if (tasks && !network_record_is_live(network_of(tasks))) {
		driver_task_free(tasks->network);
		tasks->network = NULL;
	}
}

struct driver_task_info alloc_tasks_info(const struct alloc_tasks *tasks, uint32_t i)
{
	const struct driver_task *task = NULL;

	if (tasks)
		task = i == ALLOC_NETWORK ? tasks->network : tasks->places[i].task;
	return task ? driver_task_info(task) : (struct driver_task_info){.step = NULL};
}
