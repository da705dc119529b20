/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of jobs: their pages, filters and waits. */

#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "base/str.h"
#include "job/job_reconcile.h"
#include "job/jobs.h"
#include "state/keys.h"
#include "state/records.h"

#include <string.h>

static Holdfast__V1__ListJobsResponse *list(struct fixture *f, const char *filter, uint32_t per_page,
					    const char *next_token, struct error *err)
{
	Holdfast__V1__ListJobsRequest request = V1(list_jobs_request, .filter = text(filter),
						   .per_page = per_page, .next_token = text(next_token));
	ProtobufCMessage *message = NULL;

	if (call(&f->operator, JOBS, "List", &request.base, &message, err) != STATUS_OK)
		return NULL;
	return (void *)message;
}

static void run_named(struct fixture *f, struct submission *s, const char *id, uint32_t max_parallel)
{
	s->job.id = text(id);
	s->update.max_parallel = max_parallel;
	assert_true(run(f, s, NULL) > 0);
}

/* The ids that a list with @filter has, each with a blank, by pages of one. */
static void expect_ids(struct fixture *f, const char *filter, const char *wanted)
{
	char ids[256] = "", token[64] = "";

	do {
		cleanup_pb Holdfast__V1__ListJobsResponse *page = NON_NULL(list(f, filter, 1, token, NULL));
		size_t n = strlen(ids);

		assert_in_range(page->n_jobs, 0, 1);
		if (page->n_jobs == 1)
			(void)str_format(ids + n, sizeof(ids) - n, "%s ", page->jobs[0]->id);
		(void)str_copy(token, sizeof(token), page->next_token);
	} while (token[0] != '\0');
	assert_string_equal(ids, wanted);
}

CLUSTER_TEST(a_list_of_jobs_has_those_that_match_its_filter)
{
	struct submission s;
	struct error err;

	make_job(f, &s);
	run_named(f, &s, "a", 1);
	run_named(f, &s, "b", 2);
	run_named(f, &s, "c", 1);
	run_named(f, &s, "c", 2);
	expect_ids(f, "", "a b c ");
	expect_ids(f, "version == 2", "c ");
	expect_ids(f, "groups.update.max_parallel == 2 and type == service", "b c ");
	expect_ids(f, "modify_index != 0 and not (id == b)", "a c ");
	assert_null(list(f, "nothing == 1", 0, "", &err));
	assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
}

CLUSTER_TEST(a_page_of_jobs_ends_when_its_filter_has_looked_at_so_much)
{
	enum { N = 12, VALUE = 30000 };
	static char value[VALUE + 1];
	Holdfast__Driver__V1__KeyValue variable = PB(holdfast__driver__v1__key_value, .value = value);
	Holdfast__Driver__V1__KeyValue *env[] = {&variable};
	Holdfast__Driver__V1__TaskConfig task = PB(holdfast__driver__v1__task_config, .env = env, .n_env = 1);
	Holdfast__Driver__V1__TaskConfig *tasks[] = {&task};
	char filter[2048] = "", token[64] = "", id[8];
	struct submission s;
	size_t n_pages = 0;

	memset(value, 'x', VALUE);
	variable.key = text("V");
	task.task = text("main");
	task.driver = text("container");
	make_job(f, &s);
	s.alloc.tasks = tasks;
	s.alloc.n_tasks = 1;
	for (int i = 0; i < N; i++) {
		(void)str_format(id, sizeof(id), "job-%02d", i);
		run_named(f, &s, id, 1);
	}
	for (int i = 0; i < 40; i++)
		(void)strcat(strcat(filter, i > 0 ? " or " : ""),
			     "groups.allocation.tasks.env.value contains y");
	do {
		cleanup_pb Holdfast__V1__ListJobsResponse *page = NON_NULL(list(f, filter, 0, token, NULL));

		assert_int_equal(page->n_jobs, 0);
		(void)str_copy(token, sizeof(token), page->next_token);
		n_pages++;
	} while (token[0] != '\0');
	assert_int_equal(n_pages, 2);
}

static int woken;

static void on_woken(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	assert_int_equal(status, STATUS_OK);
	woken++;
}

/* Lists jobs again when one has changed. */
static void begin_list(struct fixture *f)
{
	Holdfast__V1__ListJobsRequest request = HOLDFAST__V1__LIST_JOBS_REQUEST__INIT;
	cleanup_pb Holdfast__V1__ListJobsResponse *now = NULL;

	settle(f);
	now = NON_NULL(list(f, "", 0, "", NULL));
	request.index = now->index;
	request.wait_ms = 300 * 1000;
	woken = 0;
	assert_ok(rpc_client_call(f->operator.client, JOBS, "List", &request.base, TIMEOUT_US * 20, on_woken,
				  NULL, NULL, NULL));
	settle(f);
	assert_int_equal(woken, 0);
}

CLUSTER_TEST(a_list_of_jobs_that_waits_wakes_for_jobs_and_not_for_their_allocations)
{
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	begin_list(f);
	run_named(f, &s, "web", 1);
	UNTIL(f, woken == 1);
	UNTIL(f, f->n1.runs == 1);
	begin_list(f);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, state_alloc(&f->server->state, f->n1.last_run)->alloc.client_status == CLIENT_RUNNING);
	UNTIL(f, woken == 1); /* the update is done, which is the job's */
	begin_list(f);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	settle(f);
	assert_int_equal(woken, 0);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, woken == 1);
}

static void fill_jobs(struct fixture *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		Holdfast__V1__Job job = V1(job, .namespace_ = text("default"));
		char key[OBJECT_KEY_SIZE];
		const struct record record = {.key = key, .message = &job.base};

		(void)str_format(key, sizeof(key), PREFIX_JOB "default/many-%05zu", i);
		assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	}
}

CLUSTER_TEST(no_namespace_takes_the_last_places_for_jobs)
{
	struct submission s;
	struct error err;

	make_job(f, &s);
	fill_jobs(f, JOBS_MAX - JOBS_KEPT_FREE - 1);
	assert_true(run(f, &s, NULL) > 0);
	s.job.id = text("more");
	assert_int_equal(run(f, &s, &err), 0);
	assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "9000 of them in namespace default"));
	s.job.namespace_ = text("team");
	assert_true(run(f, &s, NULL) > 0);
}

static void put_large(struct fixture *f, const char *id, bool is_stopped)
{
	Holdfast__V1__JobGroup group = V1(job_group, .count = JOB_COUNT_MAX), *groups[] = {&group};
	Holdfast__V1__Job job =
		V1(job, .namespace_ = text("default"), .stop = is_stopped, .groups = groups, .n_groups = 1);
	char key[OBJECT_KEY_SIZE];
	const struct record record = {.key = key, .message = &job.base};

	(void)str_format(key, sizeof(key), PREFIX_JOB "default/%s", id);
	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
}

static void run_counted(struct fixture *f, struct submission *s, const char *id, uint32_t count)
{
	s->job.id = text(id);
	s->group.count = count;
	assert_true(run(f, s, NULL) > 0);
}

static void refuse_counted(struct fixture *f, struct submission *s, const char *id, uint32_t count)
{
	struct error err;

	s->job.id = text(id);
	s->group.count = count;
	assert_int_equal(run(f, s, &err), 0);
	assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "all may ask for 100000; lower a count"));
}

CLUSTER_TEST(all_jobs_of_a_namespace_together_have_a_limit_of_members)
{
	struct submission s;

	make_job(f, &s);
	s.group.per_alloc = s.per_alloc;
	s.group.n_per_alloc = 1;
	for (int i = 0; i < JOB_MEMBERS_PER_NAMESPACE_MAX / JOB_COUNT_MAX - 1; i++) {
		char id[16];

		(void)str_format(id, sizeof(id), "large-%d", i);
		put_large(f, id, false);
	}
	put_large(f, "stopped", true);
	run_counted(f, &s, "web", JOB_COUNT_MAX);
	refuse_counted(f, &s, "more", 1);
	run_counted(f, &s, "web", JOB_COUNT_MAX - 1);
	run_counted(f, &s, "more", 1);
	refuse_counted(f, &s, "web", JOB_COUNT_MAX);
	refuse_counted(f, &s, "stopped", JOB_COUNT_MAX);
	put_large(f, "beyond", false);
	run_counted(f, &s, "web", JOB_COUNT_MAX - 2); /* fewer members are never too many */
	s.job.namespace_ = text("team");
	run_counted(f, &s, "more", 1);
}

TEST_GROUP(NULL, NULL)
