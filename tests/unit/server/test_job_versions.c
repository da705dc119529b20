/* SPDX-License-Identifier: Apache-2.0 */
/* Versions that the server makes of a job: revert, scale and restart. */

#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "base/str.h"

#include <string.h>

/* Owned by the caller; NULL with @err when it was refused. */
static Holdfast__V1__RunJobResponse *change_job(struct fixture *f, const char *method,
						const ProtobufCMessage *request, struct error *err)
{
	ProtobufCMessage *message = NULL;

	return call(&f->operator, JOBS, method, request, &message, err) == STATUS_OK ? (void *)message : NULL;
}

/* The version that it is; 0 when it was refused. */
static uint64_t version_of(Holdfast__V1__RunJobResponse *response, uint64_t *ret_reverted_to)
{
	uint64_t version = response ? response->job->version : 0;

	if (ret_reverted_to)
		*ret_reverted_to = response ? response->reverted_to : 0;
	if (response)
		holdfast__v1__run_job_response__free_unpacked(response, NULL);
	return version;
}

static uint64_t revert(struct fixture *f, uint64_t version, uint64_t *ret_reverted_to, struct error *err)
{
	Holdfast__V1__RevertJobRequest request =
		V1(revert_job_request, .id = text("web"), .version = version);

	return version_of(change_job(f, "Revert", &request.base, err), ret_reverted_to);
}

static uint64_t scale(struct fixture *f, const char *group, uint32_t count, struct error *err)
{
	Holdfast__V1__ScaleJobRequest request =
		V1(scale_job_request, .id = text("web"), .group = text(group), .count = count);

	return version_of(change_job(f, "Scale", &request.base, err), NULL);
}

static uint64_t restart_job(struct fixture *f, const char *group, struct error *err)
{
	Holdfast__V1__RestartJobRequest request =
		V1(restart_job_request, .id = text("web"), .group = text(group));

	return version_of(change_job(f, "Restart", &request.base, err), NULL);
}

static int n_stops(const struct fixture *f)
{
	return f->n1.stops + f->n2.stops;
}

static int n_runs(const struct fixture *f)
{
	return f->n1.runs + f->n2.runs;
}

/* Its node starts each allocation of the job that it has not started. */
static void start_all(struct fixture *f)
{
	const struct job_entry *job = state_job(&f->server->state, "default", "web");
	const struct alloc_entry *at;

	LIST_FOREACH (at, &job->allocs, of_job)
		if (at->alloc.client_status == CLIENT_PENDING && at->alloc.node_id[0] != '\0')
			fake_node_send_alloc(str_eq(at->alloc.node_id, "n1") ? &f->n1 : &f->n2, at->id,
					     HOLDFAST__V1__CLIENT_STATUS__RUNNING);
}

/* Its node ends each allocation of the job that is to stop. */
static void end_stopped(struct fixture *f)
{
	const struct job_entry *job = state_job(&f->server->state, "default", "web");
	const struct alloc_entry *at;

	LIST_FOREACH (at, &job->allocs, of_job)
		if (at->alloc.desired_status == DESIRED_STOP && !alloc_is_client_terminal(&at->alloc))
			fake_node_send_alloc(str_eq(at->alloc.node_id, "n1") ? &f->n1 : &f->n2, at->id,
					     HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
}

/* A service of two members, which share volume db, both healthy. */
static void run_two(struct fixture *f, struct submission *s)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	make_job(f, s);
	s->group.count = 2;
	assert_int_equal(run(f, s, NULL), 1);
	UNTIL(f, n_runs(f) == 2);
	start_all(f);
	UNTIL(f, is_in(f, "running", 0));
}

static Holdfast__V1__JobUpdateStatus update_of(struct fixture *f)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = get(f);
	Holdfast__V1__JobUpdateStatus status = response->job->update_status;

	return status;
}

TEST_ON(a_revert_brings_the_last_good_version_back_and_keeps_members_that_run_it, struct fixture, f, setup,
	teardown)
{
	struct submission s;
	struct error err;
	uint64_t to = 0;

	run_two(f, &s);
	assert_int_equal(revert(f, 0, NULL, &err), 0);
	assert_error(err.status, STATUS_FAILED_PRECONDITION, err,
		     "no earlier version of job web that was healthy");
	s.alloc.mount_timeout_ms = 5000;
	s.update.healthy_deadline_ms = 1000;
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, n_stops(f) == 1);
	end_stopped(f);
	UNTIL(f, n_runs(f) == 3); /* and the new member does not run */
	UNTIL(f, update_of(f) == HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_FAILED);
	settle(f);
	assert_int_equal(n_stops(f), 1);
	assert_int_equal(revert(f, 0, &to, NULL), 3);
	assert_int_equal(to, 1);
	UNTIL(f, n_stops(f) == 2); /* the member of version 2 */
	end_stopped(f);
	UNTIL(f, n_runs(f) == 4);
	start_all(f);
	UNTIL(f, is_in(f, "running", 0));
	assert_int_equal(n_stops(f), 2);
	assert_int_equal(revert(f, 0, &to, NULL), 3); /* it is that of version 1 already */
	assert_int_equal(to, 1);
}

TEST_ON(a_revert_takes_a_version_by_its_number_and_starts_a_stopped_job, struct fixture, f, setup, teardown)
{
	struct submission s;
	struct error err;
	uint64_t to = 0;

	run_two(f, &s);
	for (uint32_t i = 1; i <= 7; i++) {
		s.update.min_healthy_ms = i;
		assert_int_equal(run(f, &s, NULL), i + 1);
	}
	assert_int_equal(revert(f, 2, NULL, &err), 0);
	assert_error(err.status, STATUS_NOT_FOUND, err,
		     "version 2 of job web is not kept; holdfast job history web");
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	assert_int_equal(revert(f, 3, &to, NULL), 9);
	assert_int_equal(to, 3);
	assert_false(
		((const Holdfast__V1__Job *)records_get(&f->server->state.records, "job/default/web"))->stop);
}

TEST_ON(a_scale_changes_a_count_and_restarts_no_member, struct fixture, f, setup, teardown)
{
	struct submission s;
	struct error err;
	uint64_t to = 0;

	run_two(f, &s);
	assert_int_equal(scale(f, "", 3, NULL), 2);
	UNTIL(f, n_runs(f) == 3);
	start_all(f);
	UNTIL(f, is_in(f, "running", 0));
	assert_int_equal(scale(f, "one", 3, NULL), 2); /* it has that */
	settle(f);
	assert_int_equal(n_stops(f), 0);
	assert_int_equal(scale(f, "one", 1, NULL), 3);
	UNTIL(f, n_stops(f) == 2);
	assert_int_equal(scale(f, "one", 0, NULL), 4);
	UNTIL(f, n_stops(f) == 3);
	assert_int_equal(scale(f, "two", 1, &err), 0);
	assert_error(err.status, STATUS_NOT_FOUND, err, "job web has no group two; its groups: one");
	assert_int_equal(scale(f, "one", 10001, &err), 0);
	assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	assert_int_equal(scale(f, "one", 1, &err), 0);
	assert_error(err.status, STATUS_FAILED_PRECONDITION, err,
		     "job web is stopped; holdfast job run, or holdfast job revert web 4, starts it again");
	assert_int_equal(revert(f, 4, &to, NULL), 5); /* without a number: version 3 */
	assert_int_equal(to, 4);
	assert_int_equal(scale(f, "one", 1, NULL), 6);
}

TEST_ON(a_scale_needs_a_group_of_several_and_no_system_job, struct fixture, f, setup, teardown)
{
	struct submission s;
	Holdfast__V1__JobGroup other;
	Holdfast__V1__JobGroup *groups[] = {&s.group, &other};
	struct error err;

	make_job(f, &s);
	other = s.group;
	other.name = text("two");
	s.job.groups = groups;
	s.job.n_groups = 2;
	assert_int_equal(run(f, &s, NULL), 1);
	assert_error(scale(f, "", 0, &err), 0, err, "group: job web has several: one, two");
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	s.job.n_groups = 1;
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM;
	s.alloc.n_volumes = 0;
	s.plugin.id = text("nfs");
	s.plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE;
	s.alloc.csi_plugins = s.plugins;
	s.alloc.n_csi_plugins = 1;
	assert_true(run(f, &s, NULL) > 0);
	assert_int_equal(scale(f, "", 2, &err), 0);
	assert_error(err.status, STATUS_INVALID_ARGUMENT, err,
		     "job web of type system has a member on each node");
}

TEST_ON(a_restart_replaces_members_one_after_the_other_and_once, struct fixture, f, setup, teardown)
{
	struct submission s;
	struct error err;

	run_two(f, &s);
	assert_int_equal(restart_job(f, "two", &err), 0);
	assert_int_equal(err.status, STATUS_NOT_FOUND);
	assert_int_equal(restart_job(f, "", NULL), 2);
	UNTIL(f, n_stops(f) == 1);
	settle(f);
	assert_int_equal(n_stops(f), 1); /* max_parallel is 1 */
	end_stopped(f);
	UNTIL(f, n_runs(f) == 3);
	start_all(f);
	UNTIL(f, n_stops(f) == 2);
	end_stopped(f);
	UNTIL(f, n_runs(f) == 4);
	start_all(f);
	UNTIL(f, is_in(f, "running", 0));
	s.update.max_parallel = 2; /* the restart lasts */
	assert_int_equal(run(f, &s, NULL), 3);
	UNTIL(f, is_in(f, "running", 0));
	assert_int_equal(scale(f, "one", 1, NULL), 4);
	UNTIL(f, n_stops(f) == 3);
	settle(f);
	assert_int_equal(n_stops(f), 3);
	s.group.restart_version = 9; /* which is the server's */
	s.group.count = 1;
	assert_int_equal(run(f, &s, NULL), 4);
	assert_int_equal(restart_job(f, "one", NULL), 5);
	UNTIL(f, n_stops(f) == 4);
}

TEST_ON(a_restart_of_a_group_leaves_the_others, struct fixture, f, setup, teardown)
{
	struct submission s;
	Holdfast__V1__JobGroup other;
	Holdfast__V1__JobGroup *groups[] = {&s.group, &other};
	const struct alloc_entry *at;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	make_job(f, &s);
	other = s.group;
	other.name = text("two");
	s.job.groups = groups;
	s.job.n_groups = 2;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, n_runs(f) == 2);
	start_all(f);
	UNTIL(f, is_in(f, "running", 0));
	assert_int_equal(restart_job(f, "two", NULL), 2);
	UNTIL(f, n_stops(f) == 1);
	settle(f);
	assert_int_equal(n_stops(f), 1);
	LIST_FOREACH (at, &state_job(&f->server->state, "default", "web")->allocs, of_job)
		assert_int_equal(at->alloc.desired_status == DESIRED_STOP,
				 str_eq(at->alloc.job_group, "two"));
}
