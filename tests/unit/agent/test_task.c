/* SPDX-License-Identifier: Apache-2.0 */
/* Units between the agent and a model of systemd, over real sd-bus. */

#include "fake_systemd.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "log/log.h"
#include "model/claim.h"
#include "unit/task.h"

#define ALLOC "0190a5a0-0000-7000-8000-0000000000a1"
#define OTHER "0190a5a0-0000-7000-8000-0000000000b2"
#define INVOCATION_1 "01010101010101010101010101010101"
#define INVOCATION_2 "02020202020202020202020202020202"

enum { LIMIT_MS = 10000 };

static const task_unit_name listed[TASK_UNITS_MAX] = {"db.service", "a@b\\x2d.service"};

struct stand {
	sd_event *event;
	struct fake_systemd *systemd;
	struct fake_unit *db;
	struct tasks *tasks;
	struct task *task;
	bool is_held; /* on_start() is not answered */
	bool is_start_unsure;
	unsigned int starts, runs, troubles;
	bool is_over, is_stopped, was_refused;
	unsigned int tellings;
	char before[TASK_INVOCATION_SIZE], invocation[TASK_INVOCATION_SIZE];
	struct error over, trouble;
};

/* What the journal was told. */
static struct {
	unsigned int n;
	int priority;
	enum log_event event;
	char alloc[UUID_TEXT_SIZE], unit[ID_UNIT_MAX + 1], text[256], why[ERROR_MSG_MAX];
} told;

void __wrap_log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Lines of no event are about the connection. */
void __wrap_log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
{
	va_list args;

	if (ctx->event == LOG_EVENT_NONE)
		return;
	told.n++;
	told.priority = priority;
	told.event = ctx->event;
	(void)str_copy(told.alloc, sizeof(told.alloc), ctx->alloc);
	(void)str_copy(told.unit, sizeof(told.unit), ctx->unit);
	(void)str_copy(told.why, sizeof(told.why), ctx->err ? ctx->err->msg : "");
	va_start(args, fmt);
	assert_in_range(vsnprintf(told.text, sizeof(told.text), fmt, args), 1, sizeof(told.text) - 1);
	va_end(args);
}

/* Each callback comes with one line, before it. */
static void expect_logged(struct stand *s, int priority, enum log_event event, const struct error *err)
{
	s->tellings++;
	assert_int_equal(told.n, s->tellings);
	assert_int_equal(told.priority, priority);
	assert_int_equal(told.event, event);
	assert_string_equal(told.alloc, ALLOC);
	assert_string_equal(told.unit, "db.service");
	assert_string_equal(told.why, err ? err->msg : "");
	assert_true(str_starts_with(told.text, "unit db.service "));
}

static void on_start(const char *before, void *userdata)
{
	struct stand *s = userdata;

	s->starts++;
	(void)str_copy(s->before, sizeof(s->before), before);
	if (!s->is_held)
		task_go(s->task);
}

static void on_runs(const char *invocation, void *userdata)
{
	struct stand *s = userdata;

	expect_logged(s, LOG_NOTICE, LOG_EVENT_UNIT_RUNS, NULL);
	assert_non_null(strstr(told.text, invocation));
	s->runs++;
	(void)str_copy(s->invocation, sizeof(s->invocation), invocation);
}

static void drop(struct stand *s)
{
	task_free(s->task);
	s->task = NULL;
}

static void on_over(const struct error *err, void *userdata)
{
	struct stand *s = userdata;

	assert_false(s->is_over || s->is_stopped);
	s->was_refused = told.event == LOG_EVENT_UNIT_REFUSED;
	if (!err)
		expect_logged(s, LOG_NOTICE, LOG_EVENT_UNIT_ENDED, NULL);
	else
		expect_logged(s, LOG_ERR, s->was_refused ? LOG_EVENT_UNIT_REFUSED : LOG_EVENT_UNIT_FAILED,
			      err);
	s->is_over = true;
	s->over = err ? *err : (struct error){0};
	drop(s);
}

static void on_stopped(void *userdata)
{
	struct stand *s = userdata;

	assert_false(s->is_over || s->is_stopped);
	expect_logged(s, LOG_NOTICE, LOG_EVENT_UNIT_STOPPED, NULL);
	s->is_stopped = true;
	drop(s);
}

static void on_trouble(const struct error *err, void *userdata)
{
	struct stand *s = userdata;

	expect_logged(s, LOG_WARNING, LOG_EVENT_UNIT_WAITS, err);
	s->troubles++;
	s->trouble = *err;
}

static const struct task_events events = {on_start, on_runs, on_over, on_stopped, on_trouble};

UNIT_SETUP(setup, struct stand, s)
{
	const struct tasks_options options = {.units = listed, .file = "/etc/holdfast/agent.hcl"};

	told.n = 0;
	assert_true(sd_event_new(&s->event) >= 0);
	s->systemd = fake_systemd_init(s->event);
	s->db = fake_systemd_add("db.service");
	assert_int_equal(tasks_new(s->event, &options, &s->tasks, NULL), STATUS_OK);
}

static int teardown(void **state)
{
	struct stand *s = *state;

	unsigned int tellings = s->tellings;

	drop(s);
	tasks_free(s->tasks);
	fake_systemd_release();
	sd_event_unref(s->event);
	free(s);
	assert_int_equal(told.n, tellings); /* and nothing else */
	return 0;
}

static enum status begin(struct stand *s, enum task_state state, const char *invocation, struct error *err)
{
	const struct task_request request = {
		.unit = "db.service",
		.alloc_id = ALLOC,
		.state = state,
		.invocation = invocation,
		.is_start_unsure = s->is_start_unsure,
		.events = &events,
		.userdata = s,
	};

	return task_new(s->tasks, &request, &s->task, err);
}

typedef bool condition(const struct stand *s);

#define UNTIL(s, condition) RUN_UNTIL((s)->event, (condition)(s))

static bool runs(const struct stand *s)
{
	return s->runs > 0;
}
static bool runs_twice(const struct stand *s)
{
	return s->runs > 1;
}
static bool is_over(const struct stand *s)
{
	return s->is_over;
}
static bool is_stopped(const struct stand *s)
{
	return s->is_stopped;
}
static bool is_asked_to_stop(const struct stand *s)
{
	return s->db->stops > 0;
}
static bool is_asked_to_start(const struct stand *s)
{
	return s->db->starts > 0;
}
static bool is_troubled(const struct stand *s)
{
	return s->troubles > 0;
}
static bool is_looked_at(const struct stand *s)
{
	return s->systemd->looks > 0;
}
static bool is_to_be_journalled(const struct stand *s)
{
	return s->starts > 0;
}

static void run(struct stand *s)
{
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, runs);
}

#define CASE(name) TEST_ON(name, struct stand, s, setup, teardown)

CASE(a_unit_is_started_once_and_stopped)
{
	run(s);
	assert_int_equal(s->starts, 1);
	assert_string_equal(s->before, "");
	assert_string_equal(s->invocation, INVOCATION_1);
	run_for(s->event, 100);
	assert_int_equal(s->db->starts, 1);
	assert_int_equal(s->runs, 1);
	task_stop(s->task);
	UNTIL(s, is_stopped);
	assert_int_equal(s->db->stops, 1);
	assert_false(s->is_over);
}

/* The answer comes in the turn in which the stop begins, which it must not delay to the next look. */
CASE(a_stop_that_meets_the_answer_to_a_look_begins_at_once)
{
	unsigned int looks;
	uint64_t began_us;

	run(s);
	run_for(s->event, 100);
	looks = s->systemd->looks;
	fake_systemd_changed(s->db);
	while (s->systemd->looks == looks)
		assert_true(sd_event_run(s->event, 100 * USEC_PER_MSEC) >= 0);
	began_us = clock_monotonic_us();
	task_stop(s->task);
	UNTIL(s, is_stopped);
	assert_true(clock_monotonic_us() - began_us < 10 * USEC_PER_SEC); /* a look is 30 s away */
}

CASE(nothing_is_asked_before_it_is_journalled)
{
	s->is_held = true;
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_to_be_journalled);
	fake_systemd_changed(s->db);
	run_for(s->event, 100);
	assert_int_equal(s->db->starts, 0);
	assert_int_equal(s->starts, 1);
	task_go(s->task);
	UNTIL(s, runs);
	/* or it is stopped meanwhile */
}

CASE(one_that_was_not_started_is_not_stopped)
{
	s->is_held = true;
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_to_be_journalled);
	task_stop(s->task);
	task_go(s->task);
	UNTIL(s, is_stopped);
	assert_int_equal(s->db->starts + s->db->stops, 0);
}

CASE(one_that_runs_for_somebody_else_is_left_alone)
{
	static const char *const states[] = {"active", "activating", "reloading"};

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		s->is_over = false;
		s->db->active = states[i];
		assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
		UNTIL(s, is_over);
		assert_int_equal(s->over.status, STATUS_FAILED_PRECONDITION);
		assert_true(s->was_refused);
		assert_non_null(strstr(s->over.msg, "systemctl disable --now"));
	}
	assert_int_equal(s->db->starts + s->db->stops + s->starts, 0);
}

static void expect_refusal(struct stand *s, const struct task_request *request, enum status status,
			   struct error *err)
{
	struct task *second = NULL;

	assert_int_equal(task_new(s->tasks, request, &second, err), status);
	assert_null(second);
	assert_int_equal(told.n, ++s->tellings);
	assert_int_equal(told.event, LOG_EVENT_UNIT_REFUSED);
	assert_int_equal(told.priority, LOG_ERR);
	assert_string_equal(told.unit, request->unit);
	assert_string_equal(told.alloc, OTHER);
	assert_string_equal(told.why, err->msg);
}

CASE(only_units_of_the_list_are_started_and_each_by_one)
{
	struct task_request request = {
		.unit = "other.service", .alloc_id = OTHER, .invocation = "", .events = &events};
	struct error err;

	expect_refusal(s, &request, STATUS_PERMISSION_DENIED, &err);
	assert_non_null(strstr(err.msg, "/etc/holdfast/agent.hcl"));
	assert_non_null(strstr(err.msg, "systemd_units"));
	assert_non_null(strstr(err.msg, POLKIT_RULES));
	request.unit = "db.servic";
	expect_refusal(s, &request, STATUS_PERMISSION_DENIED, &err);
	request.unit = "";
	expect_refusal(s, &request, STATUS_PERMISSION_DENIED, &err);
	run(s);
	request.unit = "db.service";
	expect_refusal(s, &request, STATUS_ALREADY_EXISTS, &err);
	assert_non_null(strstr(err.msg, "holdfast alloc stop " ALLOC));
	assert_int_equal(s->systemd->connections, 1);
}

CASE(a_failure_reports_how)
{
	run(s);
	s->db->result = "oom-kill";
	fake_systemd_set(s->db, "failed", "failed");
	UNTIL(s, is_over);
	assert_int_equal(s->over.status, STATUS_ABORTED);
	assert_false(s->was_refused);
	assert_non_null(strstr(s->over.msg, "oom-kill"));
	assert_non_null(strstr(s->over.msg, "exit status 3"));
	assert_int_equal(s->db->stops, 0);
}

CASE(an_end_with_success_is_no_failure)
{
	run(s);
	fake_systemd_set(s->db, "inactive", "dead");
	UNTIL(s, is_over);
	assert_int_equal(s->over.status, STATUS_OK);
}

CASE(one_that_comes_and_goes_is_seen_by_its_job)
{
	s->db->is_slow = true;
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_asked_to_start);
	run_for(s->event, 60);
	assert_false(s->is_over || s->runs);
	s->db->invocation = 0; /* systemd has forgotten it already */
	s->db->active = "inactive";
	fake_systemd_job_done(s->db, "done");
	UNTIL(s, is_over);
	assert_int_equal(s->over.status, STATUS_OK);
}

CASE(a_start_that_comes_to_nothing_is_a_failure)
{
	s->db->is_condition_unmet = true;
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_over);
	assert_int_equal(s->over.status, STATUS_ABORTED);
	assert_false(s->was_refused);
	assert_non_null(strstr(s->over.msg, "condition"));
}

CASE(a_refused_start_is_final_and_names_its_reason)
{
	static const struct {
		const char *name;
		enum status status;
		const char *words;
	} rows[] = {
		{"org.freedesktop.DBus.Error.AccessDenied", STATUS_PERMISSION_DENIED, POLKIT_RULES},
		{"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", STATUS_PERMISSION_DENIED,
		 POLKIT_RULES},
		{"org.freedesktop.systemd1.NoSuchUnit", STATUS_NOT_FOUND, "NoSuchUnit"},
		{"org.freedesktop.systemd1.UnitMasked", STATUS_FAILED_PRECONDITION, "UnitMasked"},
		{"org.freedesktop.systemd1.OnlyByDependency", STATUS_FAILED_PRECONDITION, "it is so"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		s->is_over = false;
		s->db->refuse_start = rows[i].name;
		assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
		UNTIL(s, is_over);
		assert_true(s->was_refused);
		assert_error(s->over.status, rows[i].status, s->over, rows[i].words);
		assert_non_null(strstr(s->over.msg, "db.service"));
	}
	assert_int_equal(s->db->starts, ARRAY_SIZE(rows));
	assert_int_equal(s->db->stops, 0);
}

CASE(other_refusals_are_tried_again)
{
	s->db->refuse_start = "org.freedesktop.systemd1.TransactionIsDestructive";
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_troubled);
	assert_non_null(strstr(s->trouble.msg, "TransactionIsDestructive"));
	assert_string_equal(task_info(s->task).step, "start unit db.service");
	assert_non_null(strstr(task_info(s->task).last_error, "TransactionIsDestructive"));
	s->db->refuse_start = NULL;
	UNTIL(s, runs);
	assert_int_equal(s->starts, 1);
}

CASE(a_unit_that_is_not_there_is_not_started)
{
	s->db->load = "masked";
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_over);
	assert_int_equal(s->over.status, STATUS_NOT_FOUND);
	assert_false(s->was_refused);
	assert_non_null(strstr(s->over.msg, "masked"));
	assert_int_equal(s->db->starts, 0);
}

CASE(restarts_by_systemd_are_reported_as_another_invocation)
{
	run(s);
	fake_systemd_set(s->db, "activating", "auto-restart");
	run_for(s->event, 60);
	assert_false(s->is_over);
	s->db->invocation = 2;
	fake_systemd_set(s->db, "active", "running");
	UNTIL(s, runs_twice);
	assert_string_equal(s->invocation, INVOCATION_2);
	assert_int_equal(s->db->starts, 1);
}

/* --- an agent that comes back --- */

CASE(one_that_ran_is_watched_not_started)
{
	s->db->active = "active";
	s->db->invocation = 1;
	assert_int_equal(begin(s, TASK_RUNNING, INVOCATION_1, NULL), STATUS_OK);
	UNTIL(s, is_looked_at);
	run_for(s->event, 60);
	assert_int_equal(s->runs, 0); /* nothing new */
	assert_int_equal(s->db->starts, 0);
	fake_systemd_set(s->db, "inactive", "dead");
	UNTIL(s, is_over);
}

CASE(a_journalled_start_is_asked_for_only_if_it_has_not_happened)
{
	static const struct {
		const char *active;
		uint8_t invocation;
		unsigned int starts;
		bool is_over;
		enum status status;
	} rows[] = {
		{"inactive", 0, 1, false, STATUS_OK}, {"inactive", 1, 1, false, STATUS_OK},
		{"failed", 1, 1, false, STATUS_OK},   {"active", 2, 0, false, STATUS_OK},
		{"inactive", 2, 0, true, STATUS_OK},  {"failed", 2, 0, true, STATUS_ABORTED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		drop(s);
		s->is_over = false;
		s->runs = 0;
		s->db->starts = 0;
		s->db->active = rows[i].active;
		s->db->invocation = rows[i].invocation;
		assert_int_equal(begin(s, TASK_RESUMED, INVOCATION_1, NULL), STATUS_OK);
		if (rows[i].is_over)
			UNTIL(s, is_over);
		else
			UNTIL(s, runs);
		assert_int_equal(s->db->starts, rows[i].starts);
		assert_int_equal(s->over.status, rows[i].status);
	}
	assert_int_equal(s->starts, 0); /* it is in the journal */
}

CASE(a_stop_continues)
{
	s->db->active = "active";
	assert_int_equal(begin(s, TASK_STOPPING, INVOCATION_1, NULL), STATUS_OK);
	UNTIL(s, is_stopped);
	assert_int_equal(s->db->stops, 1);
}

CASE(a_stop_counts_on_a_start_of_the_last_run)
{
	assert_int_equal(begin(s, TASK_STOPPING, "", NULL), STATUS_OK);
	UNTIL(s, is_stopped);
	assert_int_equal(s->db->stops, 0);
	s->is_start_unsure = true;
	s->is_stopped = false;
	assert_int_equal(begin(s, TASK_STOPPING, "", NULL), STATUS_OK);
	UNTIL(s, is_stopped);
	assert_int_equal(s->db->stops, 1);
	s->is_stopped = false;
	assert_int_equal(begin(s, TASK_RESUMED, "", NULL), STATUS_OK);
	task_stop(s->task); /* before it is looked at */
	UNTIL(s, is_stopped);
	assert_int_equal(s->db->stops, 2);
	assert_int_equal(s->db->starts, 0);
}

/* --- what is slow, lost or pretended --- */

static bool is_late(const struct stand *s)
{
	return s->task && strstr(task_info(s->task).last_error, "stop_timeout") != NULL;
}

CASE(a_stubborn_unit_is_waited_for_and_reported_of)
{
	struct task_info info;

	s->db->is_stubborn = true;
	s->db->stop_timeout_us = 200000;
	run(s);
	task_stop(s->task);
	UNTIL(s, is_asked_to_stop);
	UNTIL(s, is_late);
	info = task_info(s->task);
	assert_string_equal(info.step, "stop unit db.service");
	assert_int_equal(info.deadline_ms - info.since_ms, 200);
	assert_non_null(strstr(info.last_error, "systemctl kill"));
	run_for(s->event, 100);
	assert_false(s->is_stopped);
	assert_int_equal(s->db->stops, 1);
	s->db->has_job = false;
	s->db->result = "timeout";
	fake_systemd_set(s->db, "failed", "failed");
	UNTIL(s, is_stopped);
}

static bool is_asked_to_stop_twice(const struct stand *s)
{
	return s->db->stops > 1;
}

CASE(one_that_comes_back_is_stopped_again)
{
	s->db->is_stubborn = true;
	run(s);
	task_stop(s->task);
	UNTIL(s, is_asked_to_stop);
	s->db->has_job = false;
	s->db->is_stubborn = false;
	fake_systemd_set(s->db, "activating", "auto-restart");
	UNTIL(s, is_asked_to_stop_twice);
	UNTIL(s, is_stopped);
}

CASE(a_refused_stop_is_reported_and_tried_again)
{
	run(s);
	s->db->refuse_stop = "org.freedesktop.DBus.Error.AccessDenied";
	task_stop(s->task);
	UNTIL(s, is_troubled);
	assert_error(s->trouble.status, STATUS_PERMISSION_DENIED, s->trouble, POLKIT_RULES);
	s->db->refuse_stop = NULL;
	UNTIL(s, is_stopped);
}

static bool is_connected_again(const struct stand *s)
{
	return s->systemd->connections > 1;
}

CASE(a_lost_bus_is_found_again_and_changes_nothing)
{
	run(s);
	fake_systemd_drop();
	UNTIL(s, is_connected_again);
	run_for(s->event, 100);
	assert_false(s->is_over);
	assert_int_equal(s->db->starts, 1);
	/* what happened meanwhile is seen, what happens now as well */
	fake_systemd_set(s->db, "inactive", "dead");
	UNTIL(s, is_over);
}

CASE(changes_during_a_bus_outage_are_seen)
{
	run(s);
	fake_systemd_drop();
	s->db->active = "failed";
	s->db->result = "signal";
	UNTIL(s, is_over);
	assert_false(s->was_refused);
	assert_non_null(strstr(s->over.msg, "signal"));
}

CASE(without_a_bus_it_waits_and_reports_it)
{
	s->systemd->is_refusing = true;
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_troubled);
	assert_error(s->trouble.status, STATUS_UNAVAILABLE, s->trouble, "dbus.service");
	assert_false(s->is_over);
	s->systemd->is_refusing = false;
	UNTIL(s, runs);
}

/* A start whose answer was lost may yet happen: it is overtaken before the volumes go. */
CASE(an_unanswered_start_is_stopped_although_the_unit_is_down)
{
	s->db->is_mute = true;
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_asked_to_start);
	task_stop(s->task);
	fake_systemd_drop();
	UNTIL(s, is_stopped);
	assert_int_equal(s->db->stops, 1);
}

CASE(a_lost_start_is_asked_for_again_if_it_has_not_happened)
{
	s->db->is_mute = true;
	assert_int_equal(begin(s, TASK_FIRST, "", NULL), STATUS_OK);
	UNTIL(s, is_asked_to_start);
	s->db->is_mute = false;
	fake_systemd_drop();
	UNTIL(s, runs);
	assert_int_equal(s->db->starts, 2);
	assert_int_equal(s->starts, 1);
}

CASE(signals_of_others_are_not_even_looked_at)
{
	unsigned int looks;

	run(s);
	run_for(s->event, 100);
	looks = s->systemd->looks;
	s->systemd->sender = ":1.66";
	for (int i = 0; i < 10; i++)
		fake_systemd_changed(s->db);
	run_for(s->event, 100);
	assert_int_equal(s->systemd->looks, looks);
}

CASE(a_unit_that_changes_all_the_time_is_looked_at_in_turns)
{
	enum { MS = 200 };
	unsigned int looks;
	uint64_t begin_us, took_ms;

	run(s);
	run_for(s->event, 100);
	looks = s->systemd->looks;
	begin_us = clock_monotonic_us();
	while (clock_monotonic_us() < begin_us + MS * USEC_PER_MSEC) {
		fake_systemd_changed(s->db);
		assert_true(sd_event_run(s->event, USEC_PER_MSEC) >= 0);
	}
	took_ms = (clock_monotonic_us() - begin_us) / USEC_PER_MSEC;
	assert_true(s->systemd->looks > looks);
	assert_true(s->systemd->looks - looks <= took_ms / TASK_LOOK_SPACING_MS + 1);
}
