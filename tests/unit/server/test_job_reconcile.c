/* SPDX-License-Identifier: Apache-2.0 */
/* What test_job_model.c does not come to: large jobs, limits of the lists, sentences. */

#include "unit.h"

#include "job/job_reconcile.h"

enum { LARGE = 1000, ID_SIZE = 16 };

static struct job_group group = {.name = "db", .reschedule = {.attempts = 1, .interval_ms = 60000}};
static struct job_spec job = {.id = "db", .type = JOB_SERVICE, .version = 2, .groups = &group, .n_groups = 1};
static struct job_node node = {.id = "n1", .is_connected = true, .is_eligible = true};
static struct job_decisions decisions;

static const struct job_decisions *decide(struct job_alloc *allocs, size_t n, struct job_holder *holder)
{
	struct job_world world =
		ROW(.job = &job, .allocs = allocs, .n_allocs = n, .nodes = &node, .n_nodes = 1,
		    .holders = holder, .n_holders = holder != NULL, .now_ms = 100000);

	job_reconcile(&world, &decisions);
	return &decisions;
}

static struct job_alloc alloc_of(const char *id, uint32_t index)
{
	return (struct job_alloc)ROW(.id = id, .node_id = node.id, .index = index, .version = job.version,
				     .content = group.content, .desired = DESIRED_RUN,
				     .client = CLIENT_PENDING, .create_ms = 90000);
}

static int reset(void **state)
{
	group.count = 1;
	group.volumes = NULL;
	group.n_volumes = 0;
	group.update = (struct job_update){.max_parallel = 1};
	job.type = JOB_SERVICE;
	job.stop = false;
	job.update = JOB_UPDATE_RUNNING;
	return 0;
}

#define JOB_TEST(name) TEST_FIXTURE(name, reset, NULL)

JOB_TEST(a_large_job_is_placed_call_by_call_in_the_order_of_its_indexes)
{
	cleanup_free struct job_alloc *allocs = NON_NULL(calloc(LARGE, sizeof(*allocs)));
	static char ids[LARGE][ID_SIZE];
	size_t n = 0, n_calls = 0;

	group.count = LARGE;
	while (decide(allocs, n, NULL)->n_actions > 0) {
		assert_int_equal(decisions.is_cut, n + JOB_ACTIONS_MAX < LARGE);
		for (size_t i = 0; i < decisions.n_actions; i++, n++) {
			assert_int_equal(decisions.actions[i].type, JOB_PLACE);
			assert_int_equal(decisions.actions[i].index, n);
			(void)str_format(ids[n], ID_SIZE, "a%04zu", n);
		}
		for (size_t i = 0; i < n; i++)
			allocs[i] = alloc_of(ids[i], (uint32_t)i);
		n_calls++;
	}
	assert_int_equal(n_calls, (LARGE + JOB_ACTIONS_MAX - 1) / JOB_ACTIONS_MAX);
	assert_int_equal(decisions.n_waits, JOB_WAITS_MAX);
	assert_int_equal(decisions.groups[0].waiting, LARGE);
	assert_int_equal(decisions.groups[0].placed, LARGE);
}

/* The caller wakes the job by them. */
JOB_TEST(a_wait_behind_those_that_are_listed_counts)
{
	cleanup_free struct job_alloc *allocs = NON_NULL(calloc(LARGE, sizeof(*allocs)));
	static char ids[LARGE][ID_SIZE];

	group.count = JOB_WAITS_MAX + 1;
	for (uint32_t i = 0; i < JOB_WAITS_MAX; i++) {
		(void)str_format(ids[i], ID_SIZE, "a%04u", i);
		allocs[i] = alloc_of(ids[i], i);
	}
	node.is_eligible = false;
	decide(allocs, JOB_WAITS_MAX, NULL);
	node.is_eligible = true;
	assert_int_equal(decisions.n_waits, JOB_WAITS_MAX);
	assert_int_equal(decisions.waits[JOB_WAITS_MAX - 1].what, JOB_WAIT_HEALTH);
	assert_int_equal(decisions.waits_for, JOB_WAITS_FOR(HEALTH) | JOB_WAITS_FOR(NODE));
}

JOB_TEST(a_member_on_a_node_that_the_next_version_excludes_is_stopped)
{
	struct job_alloc alloc = alloc_of("a", 0);

	job.type = JOB_SYSTEM;
	group.count = 0;
	node.excluded_groups = 1;
	assert_int_equal(decide(NULL, 0, NULL)->groups[0].desired, 0);
	assert_int_equal(decisions.n_actions, 1); /* the update is done */
	assert_int_equal(decisions.actions[0].type, JOB_END_UPDATE);
	decide(&alloc, 1, NULL); /* of this version: the node's attributes have changed */
	assert_int_equal(decisions.n_actions, 0);
	assert_int_equal(decisions.groups[0].desired, 1);
	alloc.content = group.content + 1;
	decide(&alloc, 1, NULL);
	node.excluded_groups = 0;
	assert_int_equal(decisions.n_actions, 1);
	assert_int_equal(decisions.actions[0].type, JOB_STOP);
	assert_int_equal(decisions.actions[0].reason, JOB_STOP_NODE);
}

/* The one that works badly is on a node that takes nothing. */
JOB_TEST(a_node_that_takes_nothing_does_not_stop_the_update_of_the_others)
{
	static const char *const ids[] = {"a", "b", "c"};
	struct job_node nodes[] = {{.id = "n1", .is_connected = true, .is_eligible = true},
				   {.id = "n2", .is_connected = true},
				   {.id = "n3", .is_connected = true, .is_eligible = true}};
	struct job_alloc allocs[ARRAY_SIZE(ids)];
	struct job_world world = ROW(.job = &job, .allocs = allocs, .n_allocs = ARRAY_SIZE(allocs),
				     .nodes = nodes, .n_nodes = ARRAY_SIZE(nodes), .now_ms = 100000);

	job.type = JOB_SYSTEM;
	group.count = 0;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		allocs[i] = alloc_of(ids[i], 0);
		allocs[i].node_id = nodes[i].id;
		allocs[i].content = group.content + 1;
		allocs[i].client = CLIENT_RUNNING;
		allocs[i].healthy_ms = 1;
	}
	allocs[1].unhealthy_ms = 2;
	job_reconcile(&world, &decisions);
	assert_int_equal(decisions.n_actions, 1);
	assert_string_equal(decisions.actions[0].alloc_id, "a");
	assert_int_equal(decisions.n_waits, 2);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_NODE);
	assert_string_equal(decisions.waits[0].node_id, "n2");
	assert_int_equal(decisions.waits[1].what, JOB_WAIT_TURN);
	nodes[1].is_eligible = true; /* now it comes first */
	job_reconcile(&world, &decisions);
	assert_int_equal(decisions.n_actions, 1);
	assert_string_equal(decisions.actions[0].alloc_id, "b");
	nodes[1].is_eligible = false;
	nodes[1].excluded_groups = 1; /* nothing replaces it */
	job_reconcile(&world, &decisions);
	assert_int_equal(decisions.n_actions, 1);
	assert_string_equal(decisions.actions[0].alloc_id, "b");
	assert_int_equal(decisions.actions[0].reason, JOB_STOP_NODE);
}

JOB_TEST(a_member_is_not_replaced_while_another_one_has_its_volume)
{
	struct job_volume volume = {
		.source = "db", .per_alloc = true, .access_mode = SINGLE_NODE_WRITER, .mode = CLAIM_WRITE};
	struct job_holder holder = ROW(.volume_id = "db[1]", .alloc_id = "other", .node_id = "n9",
				       .access_mode = SINGLE_NODE_WRITER, .mode = CLAIM_WRITE);
	struct job_alloc allocs[2] = {alloc_of("a", 0), alloc_of("b", 1)};
	char text[JOB_WAIT_TEXT_SIZE];

	group.count = 2;
	group.update.max_parallel = 2;
	group.volumes = &volume;
	group.n_volumes = 1;
	allocs[0].content = allocs[1].content = 1;
	assert_int_equal(decide(allocs, 2, &holder)->n_actions, 1);
	assert_string_equal(decisions.actions[0].alloc_id, "a");
	assert_int_equal(decisions.n_waits, 1);
	assert_string_equal(job_wait_text(&decisions.waits[0], NAMESPACE_DEFAULT, text),
			    "waits for volume db[1], which allocation other on node n9 holds; holdfast "
			    "volume status db[1] --why");
	holder.alloc_id = NULL; /* another namespace's */
	assert_int_equal(decide(allocs, 2, &holder)->n_actions, 1);
	assert_string_equal(job_wait_text(&decisions.waits[0], NAMESPACE_DEFAULT, text),
			    "waits for volume db[1], whose storage a volume of another namespace holds; "
			    "holdfast volume status db[1] --why");
	holder.alloc_id = "b";
	holder.node_id = node.id; /* what is replaced releases it */
	assert_int_equal(decide(allocs, 2, &holder)->n_actions, 2);
	holder.node_id = "n9"; /* another node reports it for the same allocation */
	assert_int_equal(decide(allocs, 2, &holder)->n_actions, 1);
}

JOB_TEST(queued_members_and_race_losers_have_not_failed)
{
	struct job_alloc alloc = alloc_of("a", 0);
	char text[JOB_WAIT_TEXT_SIZE];

	alloc.is_queued = true;
	alloc.node_id = "";		      /* it is not placed yet */
	group.update.healthy_deadline_ms = 1; /* long over */
	assert_int_equal(decide(&alloc, 1, NULL)->n_actions, 0);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_QUEUE);
	assert_string_equal(job_wait_text(&decisions.waits[0], NAMESPACE_DEFAULT, text),
			    "is pending as allocation a");
	assert_int_equal(decisions.groups[0].placed, 0);
	alloc.content = 1; /* of another version: nothing is lost */
	group.update.max_parallel = 1;
	assert_int_equal(decide(&alloc, 1, NULL)->n_actions, 1);
	assert_int_equal(decisions.actions[0].reason, JOB_STOP_VERSION);
	alloc = alloc_of("a", 0);
	alloc.client = CLIENT_FAILED;
	alloc.end_ms = 99999;
	group.reschedule.delay_ms = 60000;
	assert_int_equal(decide(&alloc, 1, NULL)->n_actions, 1); /* its deadline */
	group.update.healthy_deadline_ms = 0;
	assert_int_equal(decide(&alloc, 1, NULL)->n_actions, 0);
	alloc.lost_race = true;
	assert_int_equal(decide(&alloc, 1, NULL)->n_actions, 1);
	assert_int_equal(decisions.actions[0].type, JOB_PLACE);
	group.reschedule.delay_ms = 0;
}

JOB_TEST(an_overdue_update_keeps_healthy_members)
{
	struct job_alloc allocs[2] = {alloc_of("old", 0), alloc_of("new", 1)};
	struct job_alloc again[2];

	group.count = 2;
	group.update.healthy_deadline_ms = 10000;
	allocs[0].content = 1;
	allocs[0].client = CLIENT_RUNNING;
	allocs[0].healthy_ms = 1;
	memcpy(again, allocs, sizeof(again));
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 1);
	assert_int_equal(decisions.actions[0].type, JOB_FAIL_UPDATE);
	assert_string_equal(decisions.actions[0].alloc_id, "new");
	job.update = JOB_UPDATE_FAILED;
	assert_int_equal(decide(again, 2, NULL)->n_actions, 0);
	assert_int_equal(decisions.groups[0].healthy, 1);
	assert_int_equal(decisions.groups[0].current, 0);
	assert_int_equal(decisions.state, JOB_STATE_PENDING);
}

JOB_TEST(an_allocation_that_failed_too_often_waits_until_its_failures_are_old)
{
	struct job_alloc allocs[2] = {alloc_of("a", 0), alloc_of("b", 0)};

	for (int i = 0; i < 2; i++) {
		allocs[i].client = CLIENT_FAILED;
		allocs[i].end_ms = 95000 + i;
	}
	assert_int_equal(decide(allocs, 1, NULL)->n_actions, 1);
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 0);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_ATTEMPTS);
	assert_int_equal(decisions.waits[0].until_ms, 95000 + 60000);
	assert_int_equal(decisions.wake_ms, 95000 + 60000);
}

JOB_TEST(a_member_is_kept_from_the_node_of_its_last_failure)
{
	struct job_alloc allocs[4] = {alloc_of("a", 0), alloc_of("b", 0), alloc_of("c", 0), alloc_of("d", 0)};
	static const char *const nodes[] = {"n5", "n4", "n3", "n2"};

	for (int i = 0; i < 4; i++) {
		allocs[i].node_id = nodes[i];
		allocs[i].client = i == 3 ? CLIENT_LOST : CLIENT_FAILED;
		allocs[i].end_ms = 95000 + i;
	}
	allocs[1].content++; /* failures of each version count */
	allocs[2].desired = DESIRED_STOP;
	assert_int_equal(decide(allocs, 4, NULL)->n_actions, 1);
	assert_int_equal(decisions.actions[0].type, JOB_PLACE);
	assert_string_equal(decisions.actions[0].avoid_node_id, "n4");
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 1); /* they are in order: those of n2 and n3 */
	assert_null(decisions.actions[0].avoid_node_id);

	allocs[1] = alloc_of("e", 0); /* waits for a volume */
	allocs[1].is_queued = true;
	allocs[1].node_id = "";
	allocs[1].client = CLIENT_PENDING;
	assert_int_equal(decide(allocs, 4, NULL)->n_actions, 0);
	assert_string_equal(allocs[0].avoid_node_id, "n4");
	allocs[0].is_queued = false;
	(void)decide(allocs, 4, NULL);
	assert_null(allocs[0].avoid_node_id);
}

/* The clock was ahead when the job was submitted and failed, and was set back since. */
JOB_TEST(a_failure_of_a_time_to_come_delays_nothing_and_later_ones_count)
{
	struct job_alloc allocs[3] = {alloc_of("a", 0), alloc_of("b", 0), alloc_of("c", 0)};
	const int64_t now_ms = 100000, submit_ms = job.submit_ms;

	for (int i = 0; i < 3; i++) {
		allocs[i].client = CLIENT_FAILED;
		allocs[i].end_ms = now_ms - 1000 + i;
	}
	allocs[0].end_ms = 100 * now_ms;
	job.submit_ms = 100 * now_ms;
	assert_int_equal(decide(allocs, 1, NULL)->n_actions, 1);
	group.reschedule.delay_ms = 5000;
	assert_int_equal(decide(allocs, 1, NULL)->n_actions, 1);
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 0);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_DELAY);
	assert_int_equal(decisions.waits[0].until_ms, now_ms - 1000 + 1 + 5000);
	assert_int_equal(decide(allocs, 3, NULL)->n_actions, 0);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_ATTEMPTS);
	group.reschedule = (struct job_reschedule){.attempts = 1, .interval_ms = 60000};
	job.submit_ms = submit_ms;
}

/* Of another version, which was stopped while the clock was ahead. */
JOB_TEST(an_end_of_a_time_to_come_hides_no_later_failure)
{
	struct job_alloc allocs[2] = {alloc_of("a", 0), alloc_of("b", 0)};

	allocs[0].content = allocs[0].version = 1;
	allocs[0].desired = DESIRED_STOP;
	allocs[0].client = CLIENT_COMPLETE;
	allocs[0].end_ms = INT64_MAX / 2;
	allocs[1].client = CLIENT_FAILED;
	allocs[1].end_ms = 99000;
	group.reschedule.delay_ms = 5000;
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 0);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_DELAY);
	group.reschedule = (struct job_reschedule){.attempts = 1, .interval_ms = 60000};
}

JOB_TEST(a_step_of_the_clock_by_less_than_a_second_makes_no_member_healthy)
{
	struct job_alloc allocs[1] = {alloc_of("a", 0)};

	group.update.min_healthy_ms = 10000;
	allocs[0].client = CLIENT_RUNNING;
	allocs[0].healthy_ms = 100200;
	(void)decide(allocs, 1, NULL);
	assert_int_equal(decisions.groups[0].healthy, 0);
	group.update.min_healthy_ms = 0;
}

JOB_TEST(a_member_that_was_healthy_while_the_clock_was_ahead_is_healthy)
{
	struct job_alloc allocs[1] = {alloc_of("a", 0)};

	group.update.min_healthy_ms = 10000;
	allocs[0].client = CLIENT_RUNNING;
	allocs[0].healthy_ms = INT64_MAX / 2;
	(void)decide(allocs, 1, NULL);
	assert_int_equal(decisions.groups[0].healthy, 1);
	group.update.min_healthy_ms = 0;
}

JOB_TEST(a_member_whose_end_seems_earlier_than_its_health_was_healthy)
{
	struct job_alloc allocs[1] = {alloc_of("a", 0)};

	group.update.min_healthy_ms = 10000;
	allocs[0].client = CLIENT_FAILED;
	allocs[0].healthy_ms = INT64_MAX / 2; /* the clock was set back after that */
	allocs[0].end_ms = 99999;
	job.update = JOB_UPDATE_FAILED;
	(void)decide(allocs, 1, NULL);
	assert_int_not_equal(decisions.waits[0].what, JOB_WAIT_NEXT_VERSION);
	allocs[0].healthy_ms = 95000;
	(void)decide(allocs, 1, NULL);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_NEXT_VERSION);
	job.update = JOB_UPDATE_RUNNING;
	group.update.min_healthy_ms = 0;
}

JOB_TEST(a_member_without_attempts_is_not_placed_after_a_failure)
{
	struct job_alloc allocs[1] = {alloc_of("a", 0)};
	char text[JOB_WAIT_TEXT_SIZE];

	group.reschedule.attempts = 0;
	allocs[0].client = CLIENT_FAILED;
	allocs[0].end_ms = 1; /* the interval is long over */
	assert_int_equal(decide(allocs, 1, NULL)->n_actions, 0);
	assert_int_equal(decisions.waits[0].what, JOB_WAIT_ATTEMPTS);
	assert_contains(job_wait_text(&decisions.waits[0], NAMESPACE_DEFAULT, text), "has no attempts");
	assert_int_equal(decisions.wake_ms, 0);
	assert_true(allocs[0].needed_until_ms == JOB_NEEDS_ALWAYS);
	allocs[0].client = CLIENT_LOST; /* it has not failed */
	assert_int_equal(decide(allocs, 1, NULL)->n_actions, 1);
	allocs[0].client = CLIENT_FAILED;
	group.reschedule.unlimited = true;
	assert_int_equal(decide(allocs, 1, NULL)->n_actions, 1);
	group.reschedule = (struct job_reschedule){.attempts = 1, .interval_ms = 60000};
}

JOB_TEST(a_second_allocation_of_a_member_is_stopped)
{
	struct job_alloc allocs[2] = {alloc_of("young", 0), alloc_of("aged", 0)};

	allocs[1].create_ms = 1;
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 1);
	assert_int_equal(decisions.actions[0].reason, JOB_STOP_DUPLICATE);
	assert_string_equal(decisions.actions[0].alloc_id, "young");
}

JOB_TEST(an_adopted_allocation_counts_after_every_other_one)
{
	struct job_alloc allocs[2] = {alloc_of("a", 0), alloc_of("b", 0)};

	allocs[1].is_adopted = true;
	allocs[1].version = job.version + 1;
	allocs[1].create_ms = 1;
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 1);
	assert_int_equal(decisions.actions[0].type, JOB_STOP);
	assert_string_equal(decisions.actions[0].alloc_id, "b");
}

JOB_TEST(of_adopted_allocations_the_one_with_the_youngest_claim_counts)
{
	struct job_alloc allocs[2] = {alloc_of("a", 0), alloc_of("b", 0)};

	for (int i = 0; i < 2; i++) {
		allocs[i].is_adopted = true;
		allocs[i].proven = 1 + (uint64_t)i;
	}
	allocs[0].version = job.version + 1;
	assert_int_equal(decide(allocs, 2, NULL)->n_actions, 1);
	assert_string_equal(decisions.actions[0].alloc_id, "a");
}

JOB_TEST(of_ended_allocations_the_last_one_is_needed_also_if_it_is_adopted)
{
	struct job_alloc allocs[2] = {alloc_of("a", 0), alloc_of("b", 0)};

	for (int i = 0; i < 2; i++) {
		allocs[i].client = CLIENT_COMPLETE;
		allocs[i].desired = DESIRED_STOP;
		allocs[i].end_ms = 1 + i;
	}
	allocs[1].is_adopted = true;
	(void)decide(allocs, 2, NULL);
	assert_string_equal(allocs[0].id, "b");
	assert_true(allocs[0].needed_until_ms == JOB_NEEDS_ALWAYS);
}

JOB_TEST(every_wait_has_a_sentence)
{
	char text[JOB_WAIT_TEXT_SIZE];

	for (int what = 0; what < JOB_WAIT_N; what++) {
		struct job_wait wait = {.what = (enum job_wait_for)what, .volume_id = "v"};

		assert_true(strlen(job_wait_text(&wait, NAMESPACE_DEFAULT, text)) > 20);
		wait.alloc_id = "a1";
		wait.node_id = "n1";
		assert_true(strlen(job_wait_text(&wait, NAMESPACE_DEFAULT, text)) > 20);
		if (what != JOB_WAIT_DELAY && what != JOB_WAIT_ATTEMPTS)
			assert_non_null(strstr(text, "n1"));
	}
	assert_string_equal(job_type_name(JOB_SYSTEM), "system");
	assert_string_equal(job_type_name(JOB_TYPE_N), "invalid");
	assert_string_equal(job_state_name(JOB_STATE_STOPPED), "stopped");
	assert_string_equal(job_stop_reason_text(JOB_STOP_COUNT), "count was lowered");
	assert_non_null(strstr(job_stop_reason_text(JOB_STOP_STRANGER), "nothing proves"));
}
JOB_TEST(the_allocation_that_did_the_work_of_a_batch_job_is_needed_behind_others)
{
	struct job_alloc allocs[] = {alloc_of("a", 0), alloc_of("b", 0), alloc_of("c", 0)};

	job.type = JOB_BATCH;
	allocs[1].client = allocs[2].client = CLIENT_COMPLETE;
	allocs[1].desired = DESIRED_STOP;
	allocs[1].end_ms = 99990;
	allocs[2].end_ms = 99980;
	decide(allocs, 3, NULL);
	assert_string_equal(allocs[2].id, "c");
	assert_true(allocs[2].needed_until_ms == JOB_NEEDS_ALWAYS);
}

/* Of attempts and one more the times decide when the member is placed again. */
JOB_TEST(of_ended_allocations_those_are_needed_by_which_members_are_placed)
{
	struct job_alloc allocs[5];
	char ids[5][ID_SIZE];

	group.reschedule.attempts = 1;
	for (int i = 0; i < 5; i++) {
		(void)str_format(ids[i], ID_SIZE, "a%d", i);
		allocs[i] = alloc_of(ids[i], 0);
		allocs[i].client = CLIENT_FAILED;
		allocs[i].create_ms -= i;
		allocs[i].end_ms = 99990 - i;
	}
	allocs[4].client = CLIENT_LOST;
	decide(allocs, 5, NULL);
	assert_true(allocs[0].needed_until_ms == JOB_NEEDS_ALWAYS); /* it is the last */
	assert_int_equal(allocs[1].needed_until_ms, 99989 + group.reschedule.interval_ms);
	assert_int_equal(allocs[2].needed_until_ms, 0);
	assert_true(allocs[3].needed_until_ms == JOB_NEEDS_ALWAYS); /* the first try of an update */
	assert_int_equal(allocs[4].needed_until_ms, 0);
	job.update = JOB_UPDATE_DONE;
	decide(allocs, 5, NULL);
	assert_int_equal(allocs[3].needed_until_ms, 0);
	group.reschedule.unlimited = true;
	decide(allocs, 5, NULL);
	assert_int_equal(allocs[1].needed_until_ms, 0);
	group.reschedule.unlimited = false;
	allocs[4].client = CLIENT_RUNNING;
	allocs[3].client = CLIENT_LOST;
	decide(allocs, 5, NULL);
	assert_string_equal(allocs[0].id, "a4");
	assert_int_equal(allocs[1].needed_until_ms, 99990 + group.reschedule.interval_ms);
	assert_int_equal(allocs[2].needed_until_ms, 99989 + group.reschedule.interval_ms);
	assert_int_equal(allocs[3].needed_until_ms, 0);
	assert_int_equal(allocs[4].needed_until_ms, 0); /* another one runs in its place */
}
