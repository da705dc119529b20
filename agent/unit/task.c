/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/claim.h"
#include "rpc/wakeup.h"
#include "unit/task_view.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/queue.h>

/* Calls to systemd about one unit. All have TASK_CALL_TIMEOUT_S. */

#define SYSTEMD_ERROR "org.freedesktop.systemd1."

/* Answers that would be the same again, by the name of the error. */
static const struct {
	const char *name;
	enum status status;
} finals[] = {
	{SD_BUS_ERROR_ACCESS_DENIED, STATUS_PERMISSION_DENIED},
	{SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, STATUS_PERMISSION_DENIED},
	{SD_BUS_ERROR_INVALID_ARGS, STATUS_INVALID_ARGUMENT},
	{SYSTEMD_ERROR "NoSuchUnit", STATUS_NOT_FOUND},
	{SYSTEMD_ERROR "LoadFailed", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "BadUnitSetting", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "UnitMasked", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "OnlyByDependency", STATUS_FAILED_PRECONDITION},
	{SYSTEMD_ERROR "JobTypeNotApplicable", STATUS_FAILED_PRECONDITION},
};

static int send_call(sd_bus *bus, sd_bus_message *message, sd_bus_message_handler_t handler, void *userdata,
		     sd_bus_slot **ret_slot)
{
	return sd_bus_call_async(bus, ret_slot, message, handler, userdata,
				 TASK_CALL_TIMEOUT_S * USEC_PER_SEC);
}

/* Asks systemd for all properties of the unit at @path. @ret_slot owned by the caller */
static int task_call_look(sd_bus *bus, const char *path, sd_bus_message_handler_t handler, void *userdata,
			  sd_bus_slot **ret_slot)
{
	sd_bus_message *message = NULL;
	int r = sd_bus_message_new_method_call(bus, &message, SYSTEMD_NAME, path,
					       "org.freedesktop.DBus.Properties", "GetAll");

	if (r >= 0)
		r = sd_bus_message_append(message, "s", ""); /* of all interfaces, at one moment */
	if (r >= 0)
		r = send_call(bus, message, handler, userdata, ret_slot);
	sd_bus_message_unref(message);
	return r;
}

/* StartUnit or StopUnit of @unit. @mode of the job, see org.freedesktop.systemd1(5)
 * @ret_slot owned by the caller */
static int task_call_unit(sd_bus *bus, const char *method, const char *unit, const char *mode,
			  sd_bus_message_handler_t handler, void *userdata, sd_bus_slot **ret_slot)
{
	sd_bus_message *message = NULL;
	int r = sd_bus_message_new_method_call(bus, &message, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
					       method);

	if (r >= 0)
		r = sd_bus_message_append(message, "ss", unit, mode);
	if (r >= 0)
		r = send_call(bus, message, handler, userdata, ret_slot);
	sd_bus_message_unref(message);
	return r;
}

/* An error of systemd, or of the bus in its place. */
static enum status read_error(const sd_bus_error *error, const char *unit, bool *ret_is_final,
			      struct error *err)
{
	enum status status = STATUS_UNAVAILABLE;
	const char *text = error->message ? error->message : error->name;

	*ret_is_final = false;
	for (size_t i = 0; i < sizeof(finals) / sizeof(*finals); i++) {
		if (!sd_bus_error_has_name(error, finals[i].name))
			continue;
		*ret_is_final = true;
		status = finals[i].status;
	}
	if (status == STATUS_PERMISSION_DENIED)
		return error_set(err, status, 0,
				 "systemd does not let the agent start and stop unit %s (%.200s): add it to "
				 "the list in " POLKIT_RULES "; with SELinux, setsebool -P "
				 "holdfast_agent_units on as well",
				 unit, text);
	return error_set(err, status, 0, "systemd does not do it for unit %s: %.200s (%.100s)", unit, text,
			 error->name);
}

/* Its answer. */
static enum status task_call_view(sd_bus_message *answer, const char *unit, struct task_view *ret,
				  struct error *err)
{
	const sd_bus_error *error = sd_bus_message_get_error(answer);
	enum status status;
	bool is_final;

	if (error)
		return read_error(error, unit, &is_final, err);
	status = task_view_read(answer, ret, err);
	return status == STATUS_OK ? status : error_prefix(err, "unit %s", unit);
}

/* Reads the job's path in the answer. @ret_is_final on failure: it was refused, and would be again. */
static enum status task_call_job(sd_bus_message *answer, const char *unit, char *job, size_t size,
				 bool *ret_is_final, struct error *err)
{
	const sd_bus_error *error = sd_bus_message_get_error(answer);
	const char *path;

	if (error)
		return read_error(error, unit, ret_is_final, err);
	*ret_is_final = false;
	if (sd_bus_message_read_basic(answer, 'o', &path) < 0 || str_copy(job, size, path) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "systemd's answer about unit %s names no job",
				 unit);
	return STATUS_OK;
}

struct task_log_entry {
	enum log_event event; /* LOG_EVENT_UNIT_* */
	const char *unit;
	const char *alloc_id;
	const char *invocation;	 /* only for LOG_EVENT_UNIT_RUNS */
	const struct error *err; /* why; NULL: nothing went wrong */
};

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
	char invocation[TASK_INVOCATION_SIZE]; /* before the start; once it runs, as last reported */
	char job[JOB_PATH_SIZE];	       /* of the start */
	char job_result[TASK_WORD_SIZE];       /* empty: not done, or not heard */
	bool has_run;			       /* since it was started, as was heard */
	bool is_stop_wanted;
	bool is_stop_taken;
	bool is_start_unsure; /* one that was not answered may still be on its way */
	bool is_journalling;
	bool is_look_failed; /* last_error is about that */
	uint32_t stop_timeout_ms;
	enum task_call call; /* in flight */
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

/* Why comes behind it. */
static const struct {
	enum log_event event;
	int priority;
	const char *what;
} rows[] = {
	{LOG_EVENT_UNIT_RUNS, LOG_NOTICE, "is active, invocation "},
	{LOG_EVENT_UNIT_ENDED, LOG_NOTICE, "has ended by itself, with success"},
	{LOG_EVENT_UNIT_STOPPED, LOG_NOTICE, "has stopped"},
	{LOG_EVENT_UNIT_FAILED, LOG_ERR, "could not be started, or failed"},
	{LOG_EVENT_UNIT_REFUSED, LOG_ERR, "is refused"},
	{LOG_EVENT_UNIT_WAITS, LOG_WARNING, "is tried again"},
};

static void task_log(const struct task_log_entry *entry)
{
	const struct log_ctx ctx = {
		.alloc = entry->alloc_id,
		.unit = entry->unit,
		.op = "unit",
		.event = entry->event,
		.err = entry->err,
	};
	size_t i = 0;

	while (i < ARRAY_SIZE(rows) && rows[i].event != entry->event)
		i++;
	assert(i < ARRAY_SIZE(rows));
	log_ctx(rows[i].priority, &ctx, "unit %s %s%s", entry->unit, rows[i].what,
		entry->invocation ? entry->invocation : "");
}

static enum status task_text_failed(const char *unit, const struct task_view *view, const char *job_result,
				    struct error *err)
{
	if (!view->is_loaded && task_view_is_down(view))
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"unit %s cannot be started on this node, systemd reports %s; see systemctl status",
			unit, view->load);
	if (view->active == TASK_ACTIVE_FAILED)
		return error_set(err, STATUS_ABORTED, 0,
				 "unit %s failed with result %s, exit status %" PRId32
				 "; see journalctl --unit",
				 unit, view->result, view->exit_status);
	return error_set(err, STATUS_ABORTED, 0,
			 "unit %s was not started: its job ended as %s%s; see systemctl status", unit,
			 job_result[0] ? job_result : "unknown",
			 str_eq(job_result, "done") ? ", as a condition in the unit is not met" : "");
}

static enum status task_text_foreign(const char *unit, const struct task_view *view, struct error *err)
{
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"unit %s is %s already, and was not started for this allocation: it may use files that are "
		"not on the volume; stop and disable it (systemctl disable --now), and run the allocation "
		"again",
		unit, view->state);
}

static enum status task_text_overdue(const char *unit, const struct task_view *view, struct error *err)
{
	return error_set(
		err, STATUS_DEADLINE_EXCEEDED, 0,
		"unit %s is %s (%s) after its stop_timeout; its volumes stay until it has ended: see "
		"systemctl status, or end it with systemctl kill",
		unit, view->state, view->sub);
}

static enum status task_text_unlisted(const char *unit, const char *file, struct error *err)
{
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "the agent may not start unit %s: add it in %s (task { systemd_units = [ ] }) and "
			 "in " POLKIT_RULES ", and restart the agent",
			 unit, file);
}

static bool is_listed(const struct tasks *tasks, const char *unit)
{
	for (size_t i = 0; i < TASK_UNITS_MAX && tasks->options.units[i][0] != '\0'; i++) {
		if (str_eq(tasks->options.units[i], unit))
			return true;
	}
	return false;
}

static enum status tasks_find_refusal(const struct tasks *tasks, const struct task_request *request,
				      struct error *err)
{
	const struct task *other;

	if (!is_listed(tasks, request->unit))
		return task_text_unlisted(request->unit, tasks->options.file, err);
	LIST_FOREACH (other, &tasks->all, entry) {
		if (str_eq(other->unit, request->unit))
			return error_set(err, STATUS_ALREADY_EXISTS, 0,
					 "unit %s is that of allocation %s on this node; stop that one first "
					 "(holdfast alloc stop %s)",
					 request->unit, other->alloc_id, other->alloc_id);
	}
	return STATUS_OK;
}

static enum status tasks_check(const struct tasks *tasks, const struct task_request *request,
			       struct error *err)
{
	struct error refusal;
	enum status status = tasks_find_refusal(tasks, request, &refusal);

	if (status == STATUS_OK)
		return status;
	task_log(&(struct task_log_entry){.event = LOG_EVENT_UNIT_REFUSED,
					  .unit = request->unit,
					  .alloc_id = request->alloc_id,
					  .err = &refusal});
	if (err)
		*err = refusal;
	return status;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata);

static void look_in(struct task *task, uint64_t delay_us)
{
	struct error failure;
	const struct log_ctx ctx = {
		.alloc = task->alloc_id, .unit = task->unit, .op = "unit", .err = &failure};

	/* what a look or a call leads to delays no stop */
	if (task->is_stop_wanted && task->state != TASK_STOPPING && task->state != TASK_OVER)
		delay_us = 0;
	if (wakeup_arm(task->tasks->event, &task->timer, delay_us, on_due, task, &failure) != STATUS_OK)
		log_ctx(LOG_ERR, &ctx, "unit %s is no longer checked at intervals", task->unit);
}

static void look_soon(struct task *task)
{
	if (task->call != CALL_NONE)
		task->is_dirty = true;
	else if (!task->is_soon) {
		task->is_soon = true;
		look_in(task, TASK_LOOK_SPACING_MS * USEC_PER_MSEC);
	}
}

static int64_t stop_deadline_ms(const struct task *task)
{
	uint64_t timeout_ms = task->stop_timeout_ms;

	if (task->state != TASK_STOPPING)
		return 0;
	if (timeout_ms == 0)
		timeout_ms = task->view.stop_timeout_us / USEC_PER_MSEC;
	if (timeout_ms == 0 || timeout_ms >= UINT64_MAX / USEC_PER_MSEC)
		return 0;
	return task->since_ms + (int64_t)MIN(timeout_ms, (uint64_t)INT32_MAX);
}

static void look_later(struct task *task)
{
	int64_t deadline_ms = stop_deadline_ms(task), now_ms = clock_realtime_ms();
	uint64_t delay_us = TASK_LOOK_INTERVAL_S * USEC_PER_SEC;

	if (deadline_ms > now_ms)
		delay_us = MIN(delay_us, (uint64_t)(deadline_ms + 1 - now_ms) * USEC_PER_MSEC);
	look_in(task, delay_us);
}

static void log_unit_event(const struct task *task, enum log_event event, const struct error *err)
{
	task_log(&(struct task_log_entry){
		.event = event,
		.unit = task->unit,
		.alloc_id = task->alloc_id,
		.invocation = event == LOG_EVENT_UNIT_RUNS ? task->invocation : NULL,
		.err = err,
	});
}

static void trouble(struct task *task, const struct error *err)
{
	bool is_change = !str_eq(task->last_error.msg, err->msg);

	task->last_error = *err;
	if (!is_change)
		return;
	log_unit_event(task, LOG_EVENT_UNIT_WAITS, err);
	task->events->on_trouble(err, task->userdata);
}

static void enter(struct task *task, enum task_state state)
{
	bool is_same_work = (task->state == TASK_STOPPING) == (state == TASK_STOPPING) &&
			    (task->state >= TASK_RUNNING) == (state >= TASK_RUNNING);

	if (task->state == state)
		return;
	task->state = state;
	if (is_same_work)
		return;
	task->since_ms = clock_realtime_ms();
	task->last_error = (struct error){0};
	backoff_reset(&task->backoff);
	(void)str_format(task->step, sizeof(task->step), "%s unit %s",
			 state == TASK_STOPPING ? "stop" : "start", task->unit);
}

/* --- reports --- */

static void notify_failed(struct task *task, const struct error *refused)
{
	struct error err;

	if (refused)
		err = *refused;
	else
		task_text_failed(task->unit, &task->view, task->job_result, &err);
	log_unit_event(task, refused ? LOG_EVENT_UNIT_REFUSED : LOG_EVENT_UNIT_FAILED, &err);
	task->events->on_over(&err, task->userdata);
}

static void notify_refused(struct task *task)
{
	struct error err;

	task_text_foreign(task->unit, &task->view, &err);
	log_unit_event(task, LOG_EVENT_UNIT_REFUSED, &err);
	task->events->on_over(&err, task->userdata);
}

static void notify_runs(struct task *task, bool is_first)
{
	if (!is_first && str_eq(task->invocation, task->view.invocation))
		return;
	(void)str_copy(task->invocation, sizeof(task->invocation), task->view.invocation);
	log_unit_event(task, LOG_EVENT_UNIT_RUNS, NULL);
	task->events->on_runs(task->invocation, task->userdata);
}

/* --- calls --- */

static void begin_start(struct task *task);
static void begin_stop(struct task *task);

static void ask_stop(struct task *task)
{
	bool is_going = task->view.active == TASK_ACTIVE_DEACTIVATING || task->view.has_job;

	if (task->is_stop_taken && is_going)
		return;
	if (task->is_stop_taken) {
		task->is_stop_taken = false; /* it came back */
		look_in(task, backoff_next(&task->backoff, backoff_random()));
		return;
	}
	begin_stop(task);
}

/* @refused why a start was refused, or NULL. The task may be gone afterwards. */
static void feed(struct task *task, enum task_event event, const struct error *refused)
{
	struct task_step step = task_step(task->state, event);
	bool was_running = task->state == TASK_RUNNING;

	enter(task, step.state);
	switch (step.action) {
	case TASK_DO_JOURNAL:
		task->is_journalling = true;
		(void)str_copy(task->invocation, sizeof(task->invocation), task->view.invocation);
		task->events->on_start(task->invocation, task->userdata);
		return;
	case TASK_DO_START:
		begin_start(task);
		return;
	case TASK_DO_STOP:
		ask_stop(task);
		return;
	case TASK_DO_RUNS:
		notify_runs(task, !was_running);
		return;
	case TASK_DO_REFUSE:
		notify_refused(task);
		return;
	case TASK_DO_FAILED:
		notify_failed(task, refused);
		return;
	case TASK_DO_ENDED:
		log_unit_event(task, LOG_EVENT_UNIT_ENDED, NULL);
		task->events->on_over(NULL, task->userdata);
		return;
	case TASK_DO_STOPPED:
		log_unit_event(task, LOG_EVENT_UNIT_STOPPED, NULL);
		task->events->on_stopped(task->userdata);
		return;
	case TASK_DO_NOTHING:
	case TASK_ACTION_N:
		return;
	}
}

static void end_call(struct task *task)
{
	task->call = CALL_NONE;
	task->call_slot = sd_bus_slot_unref(task->call_slot);
}

static void try_again(struct task *task, const struct error *err)
{
	trouble(task, err);
	look_in(task, backoff_next(&task->backoff, backoff_random()));
}

static int on_started(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct task *task = userdata;
	struct error err;
	bool is_final;

	end_call(task);
	if (task_call_job(message, task->unit, task->job, sizeof(task->job), &is_final, &err) == STATUS_OK) {
		task->last_error = (struct error){0};
		look_soon(task);
	} else if (is_final) {
		look_soon(task);
		feed(task, TASK_EVENT_START_REFUSED, &err);
	} else {
		task->is_start_unsure = true;
		try_again(task, &err);
		feed(task, TASK_EVENT_START_UNSURE, NULL);
	}
	return 0;
}

static int on_stopped(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct task *task = userdata;
	char job[JOB_PATH_SIZE];
	struct error err;
	bool is_final;

	end_call(task);
	if (task_call_job(message, task->unit, job, sizeof(job), &is_final, &err) != STATUS_OK) {
		if (is_final)
			task->is_start_unsure = false;
		try_again(task, &err);
		return 0;
	}
	task->is_stop_taken = true;
	task->is_start_unsure = false; /* the start was asked for before */
	look_soon(task);
	return 0;
}

static void begin_job(struct task *task, enum task_call call)
{
	sd_bus *bus = task_bus_get(task->tasks->bus);
	const char *verb = call == CALL_START ? "StartUnit" : "StopUnit";
	/* a start must not undo what an operator or a shutdown has asked for; a stop must undo any start */
	const char *mode = call == CALL_START ? "fail" : "replace";
	struct error err;
	int r = -ENOTCONN;

	if (bus)
		r = task_call_unit(bus, verb, task->unit, mode, call == CALL_START ? on_started : on_stopped,
				   task, &task->call_slot);
	if (r >= 0) {
		task->call = call;
		return;
	}
	(void)error_set(&err, STATUS_UNAVAILABLE, r, "cannot ask systemd to %s", task->step);
	try_again(task, &err);
	if (call == CALL_START)
		feed(task, TASK_EVENT_START_UNSURE, NULL);
}

static void begin_start(struct task *task)
{
	task->job[0] = task->job_result[0] = '\0';
	begin_job(task, CALL_START);
}

static void begin_stop(struct task *task)
{
	begin_job(task, CALL_STOP);
}

/* --- looks --- */

static void note_overdue(struct task *task)
{
	int64_t deadline_ms = stop_deadline_ms(task);
	struct error err;

	if (task->state != TASK_STOPPING || deadline_ms == 0 || clock_realtime_ms() < deadline_ms)
		return;
	task_text_overdue(task->unit, &task->view, &err);
	trouble(task, &err);
}

static enum task_event see(const struct task *task)
{
	const char *before = task->state == TASK_RUNNING ? "" : task->invocation;
	enum task_event event = task_see(&task->view, before, task->has_run);

	/* what may yet come is stopped before it comes */
	if (task->state == TASK_STOPPING && task->is_start_unsure && task_view_is_down(&task->view))
		return TASK_SEES_QUEUED;
	return event;
}

static int on_looked(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct task *task = userdata;
	struct error err;
	enum status status = task_call_view(message, task->unit, &task->view, &err);

	end_call(task);
	if (status != STATUS_OK) {
		task->is_look_failed = true;
		try_again(task, &err);
		return 0;
	}
	if (task->is_look_failed) {
		task->is_look_failed = false;
		task->last_error = (struct error){0};
		backoff_reset(&task->backoff);
	}
	look_later(task);
	if (task->is_dirty)
		look_soon(task);
	note_overdue(task);
	feed(task, see(task), NULL);
	return 0;
}

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct task *task = userdata;
	sd_bus *bus = task_bus_get(task->tasks->bus);
	struct error err;
	int r;

	wakeup_disarm(&task->timer);
	task->is_soon = false;
	if (task->is_stop_wanted && task->state != TASK_STOPPING) {
		look_soon(task);
		feed(task, TASK_EVENT_STOP, NULL);
		return 0;
	}
	if (!bus) { /* on_up() looks */
		if (task_bus_error(task->tasks->bus)->status != STATUS_OK)
			trouble(task, task_bus_error(task->tasks->bus));
		return 0;
	}
	if (task->call != CALL_NONE || task->is_journalling)
		return 0;
	task->is_dirty = false;
	r = task_call_look(bus, task->path, on_looked, task, &task->call_slot);
	if (r >= 0) {
		task->call = CALL_LOOK;
		return 0;
	}
	(void)error_set(&err, STATUS_UNAVAILABLE, r, "cannot ask systemd about unit %s", task->unit);
	try_again(task, &err);
	return 0;
}

static int on_job_removed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct task *task = userdata;
	const char *job, *unit, *result;
	uint32_t id;

	if (task->job[0] == '\0' || !task_bus_is_from_systemd(task->tasks->bus, message) ||
	    sd_bus_message_read(message, "uoss", &id, &job, &unit, &result) < 0 || !str_eq(job, task->job))
		return 0;
	str_copy_text(task->job_result, sizeof(task->job_result), result);
	look_soon(task);
	return 0;
}

static int on_changed(sd_bus_message *message, void *userdata, sd_bus_error *error)
{
	struct task *task = userdata;

	char invocation[TASK_INVOCATION_SIZE];

	if (!task_bus_is_from_systemd(task->tasks->bus, message))
		return 0;
	task_view_read_invocation(message, invocation);
	if (task->state == TASK_STARTING && invocation[0] != '\0' && !str_eq(invocation, task->invocation))
		task->has_run = true;
	look_soon(task);
	return 0;
}

/* --- the connection --- */

static void task_attach(struct task *task)
{
	sd_bus *bus = task_bus_get(task->tasks->bus);
	int r = 0;

	if (!bus)
		return;
	if (!task->job_match)
		r = sd_bus_match_signal_async(bus, &task->job_match, SYSTEMD_NAME, SYSTEMD_PATH,
					      SYSTEMD_MANAGER, "JobRemoved", on_job_removed, NULL, task);
	if (r >= 0 && !task->change_match)
		r = sd_bus_match_signal_async(bus, &task->change_match, SYSTEMD_NAME, task->path,
					      "org.freedesktop.DBus.Properties", "PropertiesChanged",
					      on_changed, NULL, task);
	if (r < 0)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = task->alloc_id, .unit = task->unit, .op = "unit"},
			"unit %s is only looked at by the clock", task->unit);
	look_soon(task);
}

static void task_detach(struct task *task)
{
	bool was_start = task->call == CALL_START;

	end_call(task);
	task->job_match = sd_bus_slot_unref(task->job_match);
	task->change_match = sd_bus_slot_unref(task->change_match);
	task->is_stop_taken = false;
	if (!was_start)
		return;
	task->is_start_unsure = true;
	feed(task, TASK_EVENT_START_UNSURE, NULL);
}

enum status task_new(struct tasks *tasks, const struct task_request *request, struct task **ret,
		     struct error *err)
{
	enum status status = request->state == TASK_FIRST ? tasks_check(tasks, request, err) : STATUS_OK;
	struct task *task;

	if (status != STATUS_OK)
		return status;
	task = calloc(1, sizeof(*task));
	if (!task || sd_bus_path_encode(SYSTEMD_PATH "/unit", request->unit, &task->path) < 0) {
		free(task);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot run unit %s", request->unit);
	}
	task->tasks = tasks;
	task->events = request->events;
	task->userdata = request->userdata;
	task->stop_timeout_ms = request->stop_timeout_ms;
	task->state = TASK_OVER; /* so that it enters */
	task->view.stop_timeout_us = UINT64_MAX;
	task->backoff = (struct backoff)BACKOFF_INIT(TASK_RETRY_MIN_MS * USEC_PER_MSEC,
						     TASK_RETRY_MAX_MS * USEC_PER_MSEC);
	(void)str_copy(task->unit, sizeof(task->unit), request->unit);
	(void)str_copy(task->alloc_id, sizeof(task->alloc_id), request->alloc_id);
	(void)str_copy(task->invocation, sizeof(task->invocation), request->invocation);
	enter(task, request->state);
	task->is_stop_wanted = request->state == TASK_STOPPING;
	task->is_start_unsure = request->is_start_unsure;
	LIST_INSERT_HEAD(&tasks->all, task, entry);
	task_bus_want(tasks->bus);
	task_attach(task);
	look_soon(task);
	*ret = task;
	return STATUS_OK;
}

void task_go(struct task *task)
{
	task->is_journalling = false;
	if (task->state == TASK_FIRST && !task->is_stop_wanted)
		feed(task, TASK_EVENT_JOURNALLED, NULL);
}

void task_stop(struct task *task)
{
	if (task->is_stop_wanted)
		return;
	task->is_stop_wanted = true;
	task->is_soon = true;
	look_in(task, 0);
}

struct task_info task_info(const struct task *task)
{
	return (struct task_info){
		.step = task->step,
		.since_ms = task->since_ms,
		.deadline_ms = stop_deadline_ms(task),
		.attempts = task->backoff.attempts,
		.last_error = task->last_error.status == STATUS_OK ? "" : task->last_error.msg,
	};
}

void task_free(struct task *task)
{
	if (!task)
		return;
	LIST_REMOVE(task, entry);
	end_call(task);
	sd_bus_slot_unref(task->job_match);
	sd_bus_slot_unref(task->change_match);
	wakeup_disarm(&task->timer);
	free(task->path);
	free(task);
}

static void on_up(void *userdata)
{
	struct tasks *tasks = userdata;
	struct task *task;

	LIST_FOREACH (task, &tasks->all, entry)
		task_attach(task);
}

static void on_down(void *userdata)
{
	struct tasks *tasks = userdata;
	struct task *task;

	LIST_FOREACH (task, &tasks->all, entry)
		task_detach(task);
}

static const struct task_bus_events bus_events = {.on_up = on_up, .on_down = on_down};

enum status tasks_new(sd_event *event, const struct tasks_options *options, struct tasks **ret,
		      struct error *err)
{
	struct tasks *tasks = calloc(1, sizeof(*tasks));
	enum status status;

	if (!tasks)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot keep units");
	tasks->event = event;
	tasks->options = *options;
	LIST_INIT(&tasks->all);
	status = task_bus_new(event, &bus_events, tasks, &tasks->bus, err);
	if (status != STATUS_OK) {
		free(tasks);
		return status;
	}
	*ret = tasks;
	return STATUS_OK;
}

void tasks_free(struct tasks *tasks)
{
	if (!tasks)
		return;
	assert(LIST_EMPTY(&tasks->all));
	task_bus_free(tasks->bus);
	free(tasks);
}
