/* SPDX-License-Identifier: Apache-2.0 */
/* Another version of a job: which of its members are replaced, and which stay. */

#include "asks.h"
#include "cluster.h"
#include "submission.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "state/change.h"

#include <string.h>

/* A service of two members, which share volume db, on both nodes. */
static void run_two(struct fixture *f, struct submission *s)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	make_job(f, s);
	s->group.count = 2;
	s->update.max_parallel = 9;
	assert_int_equal(run(f, s, NULL), 1);
	UNTIL(f, n_allocs(f) == 2);
	UNTIL(f, f->n1.runs == 1 && f->n2.runs == 1);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	fake_node_send_alloc(&f->n2, f->n2.last_run, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, is_in(f, "running", 0));
}

static int n_stops(const struct fixture *f)
{
	return f->n1.stops + f->n2.stops;
}

/* Does a response say that nothing was changed, for version @version? */
static void expect_unchanged(struct fixture *f, const struct submission *s, bool is_unchanged,
			     uint64_t version)
{
	Holdfast__V1__PlanJobRequest request = V1(plan_job_request, .job = s->request.job);
	ProtobufCMessage *message = NULL;
	const Holdfast__V1__PlanJobResponse *plan;
	const Holdfast__V1__RunJobResponse *answer;

	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	plan = (const void *)message;
	assert_int_equal(plan->unchanged, is_unchanged);
	assert_int_equal(plan->version, version);
	protobuf_c_message_free_unpacked(message, NULL);
	assert_int_equal(call(&f->operator, JOBS, "Run", &s->request.base, &message, NULL), STATUS_OK);
	answer = (const void *)message;
	assert_int_equal(answer->unchanged, is_unchanged);
	assert_int_equal(answer->job->version, version);
	protobuf_c_message_free_unpacked(message, NULL);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

/* Node @liar holds db by a claim for the other node's allocation: a node may report that. */
static void lie_about(struct fixture *f, const char *alloc_id, const char *liar)
{
	struct claim lie = claim_of(f, alloc_id);
	struct claim_entry *own = state_claim(&f->server->state, lie.id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;

	(void)str_copy(lie.id, sizeof(lie.id), "0189dead-0000-7000-8000-00000000000f");
	(void)str_copy(lie.node_id, sizeof(lie.node_id), liar);
	lie.state = CLAIM_UNPUBLISHING;
	change_put_claim(&change, &lie);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, &err), STATUS_OK);
	settle(f);
	LIST_REMOVE(own, of_volume); /* as if the lie were older */
	LIST_INSERT_HEAD(&own->volume->claims, own, of_volume);
}

/* It does not end with the member whose allocation it names. */
CASE(a_claim_of_another_node_is_explained_as_that_nodes)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	struct submission s;
	struct fake_node *node;
	const char *liar;

	connect_both(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
	node = f->n1.runs > 0 ? &f->n1 : &f->n2;
	start_last(f, node);
	liar = node == &f->n1 ? "node n2 for" : "node n1 for";
	lie_about(f, node->last_run, node == &f->n1 ? "n2" : "n1");
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, NULL), 2);
	settle(f);
	assert_int_equal(n_stops(f), 0);
	response = get(f);
	assert_int_equal(response->n_waits, 1);
	assert_contains(response->waits[0]->text, liar);
}

/* The other node is free, but has as much to do: the first one is chosen again. */
CASE(a_member_that_its_node_reports_as_lost_at_once_is_placed_elsewhere)
{
	struct submission s;
	char first[UUID_TEXT_SIZE];

	connect_both(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	(void)str_copy(first, sizeof(first), f->n1.last_run);
	fake_node_send_alloc(&f->n1, first, HOLDFAST__V1__CLIENT_STATUS__LOST);
	UNTIL(f, state_alloc(&f->server->state, first)->alloc.client_status == CLIENT_FAILED);
	settle(f);
	assert_int_equal(f->n1.runs, 1); /* after the delay of its failure */
	UNTIL(f, f->n2.runs == 1);
	start_last(f, &f->n2);
	run_for(f->event, 61000);
	(void)str_copy(first, sizeof(first), f->n2.last_run);
	fake_node_send_alloc(&f->n2, first, HOLDFAST__V1__CLIENT_STATUS__LOST);
	UNTIL(f, state_alloc(&f->server->state, first)->alloc.client_status == CLIENT_LOST);
}

CASE(a_submission_that_changes_nothing_is_reported_as_such)
{
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	expect_unchanged(f, &s, false, 1);
	expect_unchanged(f, &s, true, 1);
	s.update.max_parallel = 2;
	expect_unchanged(f, &s, false, 2);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	expect_unchanged(f, &s, false, 3); /* it starts again */
}

static void expect_stuck(struct fixture *f, bool is_stuck)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;

	settle(f);
	response = get(f);
	assert_int_equal(response->is_stuck, is_stuck);
}

CASE(an_update_is_stuck_while_only_others_can_bring_it_on)
{
	struct submission s;

	run_two(f, &s);
	expect_stuck(f, false);
	s.volume.source = text("nothing");
	assert_int_equal(run(f, &s, NULL), 2);
	expect_stuck(f, true); /* no node takes it */
	s.volume.source = text("db");
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, NULL), 3);
	UNTIL(f, n_stops(f) == 2);
	expect_stuck(f, false); /* it waits for its own allocations */
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	expect_stuck(f, false);
}

typedef void change_fn(struct submission *s);

static void more_at_once(struct submission *s)
{
	s->update.max_parallel = 1;
}

static void fewer_attempts(struct submission *s)
{
	s->reschedule.unlimited = false;
	s->reschedule.attempts = 1;
}

static void another_group(struct submission *s)
{
	static Holdfast__V1__JobGroup other, *groups[2];

	other = s->group;
	other.name = text("two");
	other.count = 0;
	groups[0] = &s->group;
	groups[1] = &other;
	s->job.groups = groups;
	s->job.n_groups = 2;
}

CASE(settings_unused_by_members_restart_no_member)
{
	static change_fn *const changes[] = {more_at_once, fewer_attempts, another_group};
	struct submission s;
	uint64_t version = 1;

	run_two(f, &s);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;

		changes[i](&s);
		assert_int_equal(run(f, &s, NULL), ++version);
		UNTIL(f, is_in(f, "running", 0));
		settle(f);
		assert_int_equal(n_stops(f), 0);
		response = get(f);
		assert_int_equal(response->groups[0]->in_place, 2);
		assert_string_equal(response->placed[1]->text, "running, updated in place from version 1");
		assert_int_equal(response->job->update_status,
				 HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_DONE);
	}
	assert_int_equal(n_allocs(f), 2);
}

CASE(a_count_is_raised_lowered_and_paused_without_a_restart)
{
	struct submission s;

	run_two(f, &s);
	s.group.count = 3;
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, n_allocs(f) == 3);
	settle(f);
	assert_int_equal(n_stops(f), 0);
	s.group.count = 2;
	assert_int_equal(run(f, &s, NULL), 3);
	UNTIL(f, n_stops(f) == 1);
	settle(f);
	assert_int_equal(n_stops(f), 1);
	s.group.count = 0;
	assert_int_equal(run(f, &s, NULL), 4);
	UNTIL(f, n_stops(f) == 3);
	assert_int_equal(n_allocs(f), 3);
}

CASE(content_that_comes_back_is_that_of_members_that_are_left)
{
	struct submission s;

	run_two(f, &s);
	s.update.max_parallel = 1;
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, n_stops(f) == 1); /* the other one waits for its turn */
	s.alloc.mount_timeout_ms = 0;
	assert_int_equal(run(f, &s, NULL), 3);
	settle(f);
	assert_int_equal(n_stops(f), 1);
}

CASE(a_job_that_was_stopped_runs_its_work_again)
{
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	start_last(f, &f->n1);
	end(f, &f->n1, f->n1.last_run);
	UNTIL(f, is_in(f, "complete", 0));
	s.reschedule.attempts = 3; /* its work is done all the same */
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, is_in(f, "complete", 0));
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	assert_int_equal(run(f, &s, NULL), 3);
	UNTIL(f, n_allocs(f) == 2);
}

CASE(a_plan_lists_placed_replaced_and_kept_members)
{
	Holdfast__V1__PlanJobRequest request = HOLDFAST__V1__PLAN_JOB_REQUEST__INIT;
	const Holdfast__V1__PlanJobResponse *plan;
	ProtobufCMessage *message = NULL;
	struct submission s;

	run_two(f, &s);
	request.job = &s.job;
	s.group.count = 3;
	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	plan = (const void *)message;
	assert_int_equal(plan->n_groups, 1);
	assert_int_equal(plan->groups[0]->missing, 1);
	assert_int_equal(plan->groups[0]->in_place, 2);
	assert_int_equal(plan->groups[0]->replaced, 0);
	protobuf_c_message_free_unpacked(message, NULL);
	s.group.count = 1;
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	plan = (const void *)message;
	assert_int_equal(plan->groups[0]->missing, 0);
	assert_int_equal(plan->groups[0]->in_place, 0);
	assert_int_equal(plan->groups[0]->replaced, 1);
	assert_int_equal(plan->groups[0]->surplus, 1);
	protobuf_c_message_free_unpacked(message, NULL);
	s.group.name = text("other");
	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	assert_int_equal(((const Holdfast__V1__PlanJobResponse *)(const void *)message)->surplus, 2);
	protobuf_c_message_free_unpacked(message, NULL);
}

/* Job web of @count members with volumes of their own. */
static void make_indexed(struct fixture *f, struct submission *s, uint32_t count)
{
	make_job(f, s);
	s->group.count = count;
	s->group.per_alloc = s->per_alloc;
	s->group.n_per_alloc = 1;
}

static const Holdfast__V1__JobMember *wait_of(const Holdfast__V1__GetJobResponse *response, uint32_t index)
{
	for (size_t i = 0; i < response->n_waits; i++)
		if (response->waits[i]->index == index)
			return response->waits[i];
	fail_msg("member %u waits for nothing", index);
	return NULL;
}

static void expect_wait(struct fixture *f, uint32_t index, const char *words)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = get(f);
	const Holdfast__V1__JobMember *wait = wait_of(response, index);

	assert_msg(strstr(wait->text, words), "'%s' is not in: %s", words, wait->text);
}

CASE(each_member_waits_for_its_own_reason_and_blocks_no_other)
{
	struct submission s;

	assert_int_equal(register_disk(f, &f->operator, "db[2]", "disk-2", NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_indexed(f, &s, 4);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	settle(f);
	assert_int_equal(n_allocs(f), 1);
	expect_wait(f, 0, "there is no volume db[0]");
	expect_wait(f, 1, "there is no volume db[1]");
	expect_wait(f, 3, "there is no volume db[3]");
	assert_int_equal(register_disk(f, &f->operator, "db[3]", "disk-3", NULL), STATUS_OK);
	UNTIL(f, n_allocs(f) == 2);
}

CASE(a_member_stays_while_another_allocation_holds_the_volume_of_its_next_version)
{
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	struct submission s;

	connect_both(f);
	assert_int_equal(register_disk(f, &f->operator, "db2", "wwn-0x2", NULL), STATUS_OK);
	take_claim(f, &f->n2, "db2", ALLOC_1);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
	start_last(f, &f->n1);
	s.volume.source = text("db2");
	assert_int_equal(run(f, &s, NULL), 2);
	settle(f);
	response = get(f);
	assert_int_equal(response->n_waits, 1);
	assert_contains(response->waits[0]->text, "waits for volume db2, which allocation " ALLOC_1);
	assert_int_equal(n_stops(f), 0);
}

CASE(members_behind_a_full_list_of_refused_ones_are_placed)
{
	struct submission s;

	assert_int_equal(register_disk(f, &f->operator, "db[99]", "disk-99", NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	make_indexed(f, &s, 100);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 1);
}

CASE(a_plan_matches_the_run)
{
	Holdfast__V1__PlanJobRequest request = HOLDFAST__V1__PLAN_JOB_REQUEST__INIT;
	const Holdfast__V1__PlanJobResponse *plan;
	cleanup_pb Holdfast__V1__GetJobResponse *response = NULL;
	cleanup_pb ProtobufCMessage *message = NULL;
	struct submission s;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	make_job(f, &s);
	s.group.count = 4;
	request.job = &s.job;
	assert_int_equal(call(&f->operator, JOBS, "Plan", &request.base, &message, NULL), STATUS_OK);
	plan = (const void *)message;
	assert_int_equal(plan->n_actions, 4);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, n_allocs(f) == 4);
	response = get(f);
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 4; k++)
			if (response->placed[i]->index == plan->actions[k]->index)
				assert_string_equal(response->placed[i]->node_id, plan->actions[k]->node_id);
}

CASE(a_member_whose_next_version_no_node_takes_keeps_running)
{
	struct submission s;

	run_two(f, &s);
	s.volume.source = text("nothing");
	assert_int_equal(run(f, &s, NULL), 2);
	settle(f);
	assert_int_equal(n_stops(f), 0);
	expect_wait(f, 0, "of an earlier version: no node can take the next one: there is no volume nothing");
	expect_wait(f, 1, "there is no volume nothing");
}

struct read {
	bool is_done;
};

static void on_read(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct read *read = userdata;

	assert_int_equal(status, STATUS_OK);
	read->is_done = true;
}

/* Reads job web when it changes. */
static void begin_read(struct fixture *f, struct read *read)
{
	Holdfast__V1__GetJobRequest request = HOLDFAST__V1__GET_JOB_REQUEST__INIT;
	cleanup_pb Holdfast__V1__GetJobResponse *now = NULL;
	struct rpc_pending *pending;

	settle(f);
	now = get(f);
	request.id = text("web");
	request.index = now->index;
	request.wait_ms = 300 * 1000;
	read->is_done = false;
	assert_ok(rpc_client_call(f->operator.client, JOBS, "Get", &request.base, TIMEOUT_US * 20, on_read,
				  read, &pending, NULL));
	UNTIL(f, f->server->n_watches > 0);
}

CASE(a_read_that_waits_wakes_when_the_job_or_a_member_changes)
{
	struct read read;
	struct submission s;

	run_two(f, &s);
	begin_read(f, &read);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, read.is_done);
	begin_read(f, &read);
	s.update.max_parallel = 1;
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, read.is_done);
}

static void forget_all(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc_entry *entry;

	LIST_FOREACH (entry, &state_job(&f->server->state, "default", "web")->allocs, of_job)
		change_delete(&change, OBJECT_ALLOC, &entry->alloc);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

CASE(a_read_that_waits_wakes_when_the_last_member_is_collected_also_across_a_restart)
{
	Holdfast__V1__GetJobRequest request = V1(get_job_request, .id = text("web"), .wait_ms = 300 * 1000);
	cleanup_pb Holdfast__V1__GetJobResponse *before = NULL;
	cleanup_pb ProtobufCMessage *message = NULL;
	struct submission s;
	struct read read;

	run_two(f, &s);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, n_stops(f) == 2);
	fake_node_send_alloc(&f->n1, f->n1.last_run, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	fake_node_send_alloc(&f->n2, f->n2.last_run, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	begin_read(f, &read);
	before = get(f);
	request.index = before->index;
	forget_all(f);
	UNTIL(f, read.is_done);
	restart(f);
	assert_ok(call(&f->operator, JOBS, "Get", &request.base, &message, NULL));
	assert_true(((Holdfast__V1__GetJobResponse *)message)->index > request.index);
}
