/* SPDX-License-Identifier: Apache-2.0 */
/* Health checks and restarts of tasks in jobs: refused where no driver offers them, and a rolling update that
 * waits for health. */

#include "asks.h"
#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "job/job_spec.h"
#include "model/task.h"

#include <string.h>

/* A service of one task, with a driver on both nodes. */
struct tasks {
	Holdfast__V1__NodeDriver driver, *drivers[1];
	Holdfast__Driver__V1__CapabilitiesResponse offer;
	Holdfast__Driver__V1__TaskConfig task, *list[1];
	Holdfast__Driver__V1__HealthCheck check;
	Holdfast__Driver__V1__RestartPolicy restart;
	char *argv[1];
	struct submission s;
};

static void connect(struct fixture *f, struct tasks *t)
{
	memset(t, 0, sizeof(*t));
	holdfast__v1__node_driver__init(&t->driver);
	holdfast__driver__v1__capabilities_response__init(&t->offer);
	holdfast__driver__v1__task_config__init(&t->task);
	holdfast__driver__v1__health_check__init(&t->check);
	holdfast__driver__v1__restart_policy__init(&t->restart);
	t->offer.name = text("container");
	t->driver.name = text("container");
	t->driver.healthy = true;
	t->driver.capabilities = &t->offer;
	t->drivers[0] = &t->driver;
	f->n1.drivers = f->n2.drivers = t->drivers;
	f->n1.n_drivers = f->n2.n_drivers = 1;
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	make_job(f, &t->s);
	t->argv[0] = text("/bin/check");
	t->check.argv = t->argv;
	t->check.n_argv = 1;
	t->restart.attempts = 2;
	t->restart.mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL;
	t->task.task = text("main");
	t->task.driver = text("container");
	t->task.health = &t->check;
	t->task.restart = &t->restart;
	t->list[0] = &t->task;
	t->s.alloc.tasks = t->list;
	t->s.alloc.n_tasks = 1;
	t->s.group.count = 2;
}

static void offer_all(struct fixture *f, struct tasks *t)
{
	t->offer.restart_tasks = t->offer.health_checks = true;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
}

/* Its node reports it as running, and its task with this health. */
static void report(struct fixture *f, const struct alloc_entry *entry, const char *health)
{
	Holdfast__V1__AllocStatus status = V1(alloc_status, .alloc_id = text(entry->id),
					      .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__Driver__V1__TaskStatus task = PB(
						 holdfast__driver__v1__task_status,
						 .alloc_id = status.alloc_id, .task = text("main"),
						 .state =
							 HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING,
						 .started_ms = 5, .health = text(health)),
					 *tasks[] = {&task};
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);

	status.tasks = tasks;
	status.n_tasks = 1;
	fake_node_send(str_eq(entry->alloc.node_id, "n1") ? &f->n1 : &f->n2, &up);
}

/* The live allocation of a version of the job; NULL: it has none. */
static const struct alloc_entry *of_version(struct fixture *f, uint64_t version)
{
	const struct job_entry *job = state_job(&f->server->state, "default", "web");
	const struct alloc_entry *at;

	if (job)
		LIST_FOREACH (at, &job->allocs, of_job)
			if (at->alloc.job_version == version && at->alloc.desired_status == DESIRED_RUN &&
			    !alloc_is_client_terminal(&at->alloc))
				return at;
	return NULL;
}

static void report_all(struct fixture *f, const char *health)
{
	const struct job_entry *job = state_job(&f->server->state, "default", "web");
	const struct alloc_entry *at;

	LIST_FOREACH (at, &job->allocs, of_job)
		report(f, at, health);
}

static bool wait_is(struct fixture *f, const char *part)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = get(f);
	bool is = false;

	for (size_t i = 0; i < response->n_waits; i++)
		is = is || strstr(response->waits[i]->text, part);
	return is;
}

static bool has_failed(struct fixture *f)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = get(f);
	bool is = response->job->update_status == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_FAILED;

	return is;
}

static bool knows_offers(struct fixture *f)
{
	const Holdfast__V1__NodeDriver *one = node_driver(state_node(&f->server->state, "n1"), "container");
	const Holdfast__V1__NodeDriver *two = node_driver(state_node(&f->server->state, "n2"), "container");

	return one && two && one->capabilities->health_checks && two->capabilities->health_checks;
}

CLUSTER_TEST(a_block_that_no_driver_offers_is_refused_with_a_line_for_each_node)
{
	struct tasks t;
	struct error err;

	connect(f, &t);
	assert_int_equal(run(f, &t.s, &err), 0);
	assert_error(err.status, STATUS_INVALID_ARGUMENT, err,
		     "group one.task main: task main asks for restart, which driver container of "
		     "node n1 does not offer");
	assert_contains(err.msg, "\ngroup one.task main: task main asks for restart, which driver "
				 "container of node n2 does not offer");
	t.restart.attempts = 0; /* it is never restarted */
	t.task.health = NULL;
	assert_int_equal(run(f, &t.s, &err), 1);
	t.task.health = &t.check;
	assert_error(run(f, &t.s, &err), 0, err, "task main asks for health, which ");
	t.restart.attempts = 2;
	offer_all(f, &t);
	UNTIL(f, knows_offers(f));
	assert_int_equal(run(f, &t.s, &err), 2);
}

CLUSTER_TEST(a_task_without_a_restart_block_has_the_default_of_its_jobs_type)
{
	static const struct {
		Holdfast__V1__JobType type;
		uint32_t attempts, interval_ms;
	} rows[] = {{HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE, 2, 1800000},
		    {HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM, 2, 1800000},
		    {HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH, 3, 86400000}};
	struct tasks t;

	connect(f, &t);
	t.task.health = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(alloc_release) struct alloc given = {0}, made = {0};
		const Holdfast__Driver__V1__RestartPolicy *policy;

		t.s.job.type = rows[i].type;
		t.task.restart = &t.restart; /* its own stays */
		assert_int_equal(job_make_alloc(&t.s.job, 0, 0, &given, NULL), STATUS_OK);
		assert_false(alloc_task(&given, 0)->restart->by_default);
		t.task.restart = NULL;
		assert_int_equal(job_make_alloc(&t.s.job, 0, 0, &made, NULL), STATUS_OK);
		policy = alloc_task(&made, 0)->restart;
		assert_int_equal(policy->attempts, rows[i].attempts);
		assert_int_equal(policy->interval_ms, rows[i].interval_ms);
		assert_int_equal(policy->delay_ms, 15000);
		assert_true(policy->by_default);
	}
	t.s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE;
	assert_int_equal(run(f, &t.s, NULL), 1); /* though the driver has no restarts */
	UNTIL(f, n_allocs(f) == 2);
}

CLUSTER_TEST(an_update_over_unhealthy_members_stops_at_its_limit_and_says_so)
{
	struct tasks t;

	connect(f, &t);
	offer_all(f, &t);
	UNTIL(f, knows_offers(f));
	assert_int_equal(run(f, &t.s, NULL), 1);
	UNTIL(f, n_allocs(f) == 2);
	report_all(f, "starting");
	UNTIL(f, wait_is(f, "a health check has not passed yet"));
	report_all(f, "healthy");
	UNTIL(f, is_in(f, "running", 0));

	t.s.alloc.mount_timeout_ms = 5000; /* another content */
	t.s.update.healthy_deadline_ms = 400;
	assert_int_equal(run(f, &t.s, NULL), 2);
	UNTIL(f, f->n1.stops + f->n2.stops == 1);
	fake_node_send_alloc(f->n1.stops ? &f->n1 : &f->n2, f->n1.stops ? f->n1.last_stop : f->n2.last_stop,
			     HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, of_version(f, 2));
	report(f, of_version(f, 2), "unhealthy");
	UNTIL(f, wait_is(f, "a health check fails"));
	UNTIL(f, has_failed(f));
	settle(f);
	assert_non_null(of_version(f, 1)); /* the other one works, and stays */
	assert_int_equal(f->n1.stops + f->n2.stops, 1);
	report(f, of_version(f, 2), "healthy"); /* too late for this version */
	settle(f);
	assert_true(has_failed(f));
}

CLUSTER_TEST(a_member_that_falls_ill_is_shown_and_stays)
{
	struct tasks t;
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;

	connect(f, &t);
	offer_all(f, &t);
	UNTIL(f, knows_offers(f));
	assert_int_equal(run(f, &t.s, NULL), 1);
	UNTIL(f, n_allocs(f) == 2);
	report_all(f, "healthy");
	UNTIL(f, is_in(f, "running", 0));
	report(f, of_version(f, 1), "unhealthy");
	UNTIL(f, wait_is(f, "a health check fails"));
	response = get(f);
	assert_int_equal(response->groups[0]->placed, 2);
	assert_int_equal(response->groups[0]->healthy, 1);
	assert_int_equal(response->job->update_status,
			 HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_DONE);
	settle(f);
	assert_int_equal(f->n1.stops + f->n2.stops, 0);
	assert_int_equal(n_allocs(f), 2);
}
