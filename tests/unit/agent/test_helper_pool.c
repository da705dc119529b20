/* SPDX-License-Identifier: Apache-2.0 */
/* Several instances of the mount helper: who does what, and in which order. */

#include "mounthelper_words.h"
#include "pool.h"

#include "base/clock.h"
#include "helper/mount_snapshot.h"

#include <signal.h>

static bool one_is_in_flight(struct pool *f)
{
	return f->fake.state->in_flight == 1;
}

static bool two_are_in_flight(struct pool *f)
{
	return f->fake.state->in_flight == 2;
}

static bool nothing_hangs(struct pool *f)
{
	return helper_client_info(f->client)->abandoned == 0;
}

#define CASE(name) TEST_ON(name, struct pool, f, pool_setup, pool_teardown)

CASE(two_volumes_are_served_at_the_same_time)
{
	pool_inject(f, FAKE_WAIT, "", 2);
	pool_make(f, 2, 5000);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_until(f, two_are_in_flight);
	assert_int_equal(f->n_results, 0);
	f->fake.state->go = 1;
	pool_count(f, &f->n_results, 2);
	assert_true(f->results[0].is_answered && f->results[1].is_answered);
	assert_int_equal(f->fake.state->starts, 2);
	assert_int_equal(f->stale, 1);
}

CASE(one_volume_never_has_two_requests_in_flight)
{
	pool_inject(f, FAKE_WAIT, "a", 1);
	pool_make(f, 2, 5000);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_PUBLISH, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_UNPUBLISH, "a", HELPER_NFS); /* not even in another lane */
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_count(f, &f->n_results, 1);
	assert_string_equal(f->results[0].name, "b");
	f->fake.state->go = 1;
	pool_count(f, &f->n_results, 4);
	assert_int_equal(f->results[1].op, MH_OP_STAGE);
	assert_int_equal(f->results[2].op, MH_OP_PUBLISH);
	assert_int_equal(f->results[3].op, MH_OP_UNPUBLISH);
}

static const char *const volumes[] = {"a", "b", "c"};
static const enum mh_op life[] = {MH_OP_STAGE, MH_OP_PUBLISH, MH_OP_UNPUBLISH, MH_OP_UNSTAGE};

/* Whoever dies at whichever request: each volume's life is lived in order, once, and told in order. */
TEST(order_within_a_volume_survives_every_death)
{
	static const enum fake_fault deaths[] = {FAKE_DIE_BEFORE, FAKE_DIE_AFTER, FAKE_WRONG_SEQ};

	for (uint32_t at = 1; at <= 12; at++) {
		unsigned int told[3] = {0};
		void *fixture = NULL;
		struct pool *f;

		(void)pool_setup(&fixture);
		f = fixture;
		pool_inject(f, deaths[at % 3], "", 1);
		f->fake.state->fault_call = at;
		pool_make(f, 1 + at % 4, 5000);
		for (size_t op = 0; op < 4; op++) {
			for (size_t v = 0; v < 3; v++)
				pool_ask(f, life[op], volumes[v], HELPER_NORMAL);
		}
		pool_count(f, &f->n_results, 12);
		for (size_t i = 0; i < 12; i++) {
			size_t v = (size_t)(f->results[i].name[0] - 'a');

			assert_true(f->results[i].is_answered);
			assert_int_equal(f->results[i].op, life[told[v]++]);
		}
		for (size_t v = 0; v < 3; v++) {
			assert_int_equal(fake_helper_count(&f->fake, MH_OP_STAGE, MH_OK, volumes[v], NULL),
					 1);
			assert_int_equal(fake_helper_count(&f->fake, MH_OP_PUBLISH, MH_OK, volumes[v], NULL),
					 1);
			assert_null(fake_helper_mount(&f->fake, volumes[v], "", 0));
		}
		assert_int_equal(helper_client_info(f->client)->queued, 0);
		(void)pool_teardown(&fixture);
	}
}

CASE(the_death_of_one_leaves_the_other_alone)
{
	struct helper_instance_info infos[HELPER_INSTANCES_MAX];
	pid_t victim = 0;

	pool_inject(f, FAKE_WAIT, "", 2);
	pool_make(f, 2, 5000);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_until(f, two_are_in_flight);
	for (size_t i = helper_client_instances(f->client, infos); i-- > 0;) {
		if (strcmp(infos[i].volume, "a") == 0) {
			assert_string_equal(infos[i].op, "STAGE");
			assert_true(infos[i].since_ms > 0);
			victim = infos[i].pid;
		}
	}
	assert_true(victim > 0);
	assert_int_equal(kill(victim, SIGKILL), 0);
	pool_count(f, &f->n_results, 1); /* repeated elsewhere, where it does not wait */
	assert_string_equal(f->results[0].name, "a");
	assert_true(f->results[0].is_answered);
	assert_int_equal(f->down, 1);
	assert_false(f->was_down);
	f->fake.state->go = 1;
	pool_count(f, &f->n_results, 2);
	assert_true(f->results[1].is_answered);
	pool_count(f, &f->ready, 3);
	assert_int_equal(f->stale, 2); /* something may have been done unseen */
}

CASE(when_all_hang_all_are_replaced)
{
	pool_inject(f, FAKE_HANG, "", 2);
	pool_make(f, 2, 400);
	pool_count(f, &f->ready, 2);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_count(f, &f->n_results, 2);
	assert_int_equal(f->results[0].err.status, STATUS_DEADLINE_EXCEEDED);
	assert_int_equal(f->results[1].err.status, STATUS_DEADLINE_EXCEEDED);
	pool_count(f, &f->ready, 4);
	assert_int_equal(helper_client_info(f->client)->abandoned, 2);
	pool_ask(f, MH_OP_STAGE, "c", HELPER_NORMAL);
	pool_count(f, &f->n_results, 3);
	assert_true(f->results[2].is_answered);
	/* the end of one that hung may have changed something */
	f->stale = 0;
	assert_int_equal(kill(f->fake.state->pids[0], SIGKILL), 0);
	assert_int_equal(kill(f->fake.state->pids[1], SIGKILL), 0);
	pool_until(f, nothing_hangs);
	assert_int_equal(f->stale, 2);
}

CASE(there_are_never_more_instances_than_the_helper_allows)
{
	struct helper_instance_info infos[HELPER_INSTANCES_MAX];
	unsigned int hanging = 0;

	pool_inject(f, FAKE_HANG, "", 1000);
	pool_make(f, 4, 100);
	for (unsigned int i = 0; i < 12; i++)
		pool_ask(f, MH_OP_STAGE, (const char *[]){"a", "b", "c", "d", "e", "f"}[i % 6],
			 HELPER_NORMAL);
	pool_count(f, &f->n_results, 12);
	while (strstr(f->last_down.msg, "8 instances of the mount helper hang") == NULL) {
		pool_ask(f, MH_OP_STAGE, "x", HELPER_NORMAL);
		pool_count(f, &f->n_results, f->n_results + 1);
	}
	assert_int_equal(f->fake.state->starts, HELPER_INSTANCES_MAX);
	assert_int_equal(helper_client_instances(f->client, infos), HELPER_INSTANCES_MAX);
	for (size_t i = 0; i < HELPER_INSTANCES_MAX; i++)
		hanging += strcmp(infos[i].state, "hangs") == 0 && strcmp(infos[i].op, "STAGE") == 0;
	assert_true(hanging > 0);
	assert_int_equal(helper_client_info(f->client)->abandoned, HELPER_INSTANCES_MAX);
	f->fake.state->fault = FAKE_FAULT_NONE;
	assert_int_equal(kill(f->fake.state->pids[0], SIGKILL), 0);
	f->ready = 0;
	pool_count(f, &f->ready, 1);
}

CASE(a_hanging_nfs_server_delays_no_other_volume)
{
	pool_inject(f, FAKE_HANG, "n", 1000);
	pool_make(f, 1, 600);
	pool_count(f, &f->ready, 1);
	assert_int_equal(f->fake.state->starts, 1); /* that of NFS is not needed yet */
	pool_ask(f, MH_OP_STAGE, "n", HELPER_NFS);
	pool_ask(f, MH_OP_STAGE, "m", HELPER_NFS);
	pool_until(f, one_is_in_flight);
	assert_int_equal(f->fake.state->starts, 2);
	for (size_t op = 0; op < 4; op++)
		pool_ask(f, life[op], "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(f->results[i].name, "a");
	pool_count(f, &f->n_results, 6);
	assert_false(f->results[4].is_answered);
	/* replaced for the next one, but not for ever */
	do {
		pool_ask(f, MH_OP_STAGE, "m", HELPER_NFS);
		pool_count(f, &f->n_results, f->n_results + 1);
	} while (!f->results[f->n_results - 1].is_answered);
	for (unsigned int i = 0; i < 8; i++) {
		pool_ask(f, MH_OP_STAGE, "n", HELPER_NFS);
		pool_count(f, &f->n_results, f->n_results + 1);
	}
	assert_int_equal(f->fake.state->starts, 1 + HELPER_NFS_ABANDONED_MAX);
	assert_non_null(strstr(f->results[f->n_results - 1].err.msg, "NFS"));
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, f->n_results + 1);
	assert_true(f->results[f->n_results - 1].is_answered);
}

static const char *const hanging[] = {"p1", "p2", "p3", "p4"};

static bool is_in_flight(struct pool *f, const char *volume)
{
	struct helper_instance_info infos[HELPER_INSTANCES_MAX];

	for (size_t i = helper_client_instances(f->client, infos); i-- > 0;) {
		if (strcmp(infos[i].volume, volume) == 0)
			return true;
	}
	return false;
}

CASE(a_hanging_plugin_leaves_an_instance_to_others)
{
	pool_inject(f, FAKE_HANG, "p", 1000);
	pool_make(f, 2, 30000);
	for (size_t i = 0; i < ARRAY_SIZE(hanging); i++)
		pool_ask_of(f, MH_OP_STAGE, hanging[i], "plug");
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 2);
	assert_string_equal(f->results[1].name, "a");
	/* a list does not wait for it, either */
	pool_until(f, one_is_in_flight);
	assert_true(is_in_flight(f, "p1"));
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_ask_of(f, MH_OP_STAGE, "b", "other");
	pool_count(f, &f->n_results, 4);
	assert_string_equal(f->results[2].name, "list");
	assert_true(f->results[3].is_answered);
}

CASE(the_share_of_a_plugin_is_half_of_the_pool_but_at_least_one)
{
	for (unsigned int instances = 1; instances <= HELPER_POOL_MAX; instances++) {
		void *fixture = NULL;
		struct pool *g;

		(void)pool_setup(&fixture);
		g = fixture;
		pool_inject(g, FAKE_WAIT, "p", 1000);
		pool_make(g, instances, 30000);
		pool_count(g, &g->ready, instances);
		for (size_t i = 0; i < ARRAY_SIZE(hanging); i++)
			pool_ask_of(g, MH_OP_STAGE, hanging[i], "plug");
		pool_idle(g);
		assert_int_equal(g->fake.state->in_flight_max, instances < 4 ? 1 : 2);
		g->fake.state->go = 1;
		pool_count(g, &g->n_results, ARRAY_SIZE(hanging));
		(void)pool_teardown(&fixture);
	}
}

CASE(after_a_death_a_request_goes_behind_those_of_other_volumes)
{
	pool_inject(f, FAKE_DIE_BEFORE, "p1", 1);
	pool_make(f, 1, 30000);
	pool_ask(f, MH_OP_STAGE, "p1", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_count(f, &f->n_results, 3);
	assert_string_equal(f->results[0].name, "a");
	assert_string_equal(f->results[1].name, "b");
	assert_string_equal(f->results[2].name, "p1");
}

CASE(a_request_that_only_waited_may_be_repeated)
{
	pool_inject(f, FAKE_HANG, "p", 1);
	pool_make(f, 1, 1000);
	pool_ask(f, MH_OP_STAGE, "p1", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 2);
	assert_string_equal(f->results[0].name, "a");
	assert_int_equal(f->results[0].err.status, STATUS_ABORTED);
	assert_int_equal(f->results[1].err.status, STATUS_DEADLINE_EXCEEDED);
}

/* While its helper is started again, after its end in a call. */
CASE(a_request_that_waited_for_a_helper_that_comes_back_may_be_repeated)
{
	pool_inject(f, FAKE_DIE_BEFORE, "p", 1);
	pool_make(f, 1, 1000);
	pool_count(f, &f->ready, 1);
	f->fake.state->start = FAKE_START_MUTE;
	f->fake.state->start_times = 1;
	pool_ask(f, MH_OP_STAGE, "p1", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 2);
	assert_string_equal(f->results[0].name, "a");
	assert_int_equal(f->results[0].err.status, STATUS_ABORTED);
	assert_int_equal(f->results[1].err.status, STATUS_DEADLINE_EXCEEDED);
}

/* Eight helpers, each a tenth of a second after the one before. */
CASE(a_helper_that_ended_in_a_call_is_started_again_soon)
{
	pool_inject(f, FAKE_DIE_BEFORE, "p", 1000);
	pool_make(f, 1, 2500);
	for (size_t i = 0; i < ARRAY_SIZE(hanging); i++)
		pool_ask(f, MH_OP_STAGE, hanging[i], HELPER_NORMAL);
	pool_count(f, &f->n_results, ARRAY_SIZE(hanging));
	for (size_t i = 0; i < ARRAY_SIZE(hanging); i++)
		assert_int_equal(f->results[i].err.status, STATUS_UNAVAILABLE);
}

/* Until one of its calls is answered. */
CASE(an_nfs_server_that_does_not_answer_delays_others_by_one_call)
{
	pool_inject(f, FAKE_DIE_BEFORE, "p", 1000);
	pool_make(f, 1, 5000);
	pool_count(f, &f->ready, 1);
	for (size_t i = 0; i < ARRAY_SIZE(hanging); i++)
		pool_ask_nfs(f, MH_OP_STAGE, hanging[i], "192.0.2.1");
	pool_ask_nfs(f, MH_OP_STAGE, "a", "192.0.2.2");
	pool_count(f, &f->n_results, 1);
	assert_string_equal(f->results[0].name, "a");
	assert_int_equal(f->fake.state->starts, 3);
	pool_count(f, &f->n_results, 5);
	pool_ask_nfs(f, MH_OP_STAGE, "p1", "192.0.2.1");
	pool_ask_nfs(f, MH_OP_STAGE, "b", "192.0.2.2");
	f->fake.state->fault = FAKE_FAULT_NONE;
	pool_count(f, &f->n_results, 7);
	assert_string_equal(f->results[5].name, "b");
	pool_ask_nfs(f, MH_OP_STAGE, "p2", "192.0.2.1");
	pool_ask_nfs(f, MH_OP_STAGE, "c", "192.0.2.2");
	pool_count(f, &f->n_results, 9);
	assert_string_equal(f->results[7].name, "p2");
}

CASE(plugins_that_do_not_answer_have_half_of_the_pool_together)
{
	pool_inject(f, FAKE_DIE_BEFORE, "p", 1000);
	pool_make(f, 2, 30000);
	pool_ask_of(f, MH_OP_STAGE, "p1", "plug");
	pool_ask_of(f, MH_OP_STAGE, "p2", "other");
	pool_count(f, &f->n_results, 2);
	f->fake.state->fault = FAKE_HANG;
	pool_ask_of(f, MH_OP_STAGE, "p3", "plug");
	pool_ask_of(f, MH_OP_STAGE, "p4", "other");
	pool_until(f, one_is_in_flight);
	pool_count(f, &f->ready, 2 + 4);
	pool_idle(f);
	assert_true(is_in_flight(f, "p3"));
	assert_false(is_in_flight(f, "p4"));
	pool_ask_of(f, MH_OP_STAGE, "a", "third");
	pool_count(f, &f->n_results, 3);
	assert_string_equal(f->results[2].name, "a");
	assert_true(f->results[2].is_answered);
}

CASE(after_a_time_out_others_come_before_its_plugin)
{
	pool_inject(f, FAKE_HANG, "p", 1);
	pool_make(f, 1, 3000);
	pool_ask_of(f, MH_OP_STAGE, "p1", "plug");
	pool_count(f, &f->n_results, 1);
	pool_ask_of(f, MH_OP_STAGE, "p2", "plug");
	pool_ask_of(f, MH_OP_STAGE, "a", "other");
	pool_count(f, &f->n_results, 3);
	assert_string_equal(f->results[1].name, "a");
	assert_true(f->results[2].is_answered);
}

static bool nfs_is_idle(struct pool *f)
{
	struct helper_instance_info infos[HELPER_INSTANCES_MAX];

	return strcmp(infos[helper_client_instances(f->client, infos) - 1].state, "idle") == 0;
}

CASE(the_nfs_instance_comes_back_when_it_is_needed)
{
	pool_make(f, 1, 5000);
	pool_count(f, &f->ready, 1);
	assert_true(nfs_is_idle(f));
	for (unsigned int i = 1; i <= 2; i++) {
		pool_ask(f, MH_OP_STAGE, "n", HELPER_NFS);
		pool_count(f, &f->n_results, i);
		pool_count(f, &f->ready, 1 + i);
		assert_int_equal(f->fake.state->starts, 1 + i);
		assert_int_equal(kill(f->fake.state->pids[f->fake.state->starts - 1], SIGKILL), 0);
		pool_until(f, nfs_is_idle);
	}
	assert_int_equal(f->down, 2);
	assert_true(helper_client_info(f->client)->is_running);
}

CASE(a_list_is_read_without_changes_beside_it)
{
	pool_inject(f, FAKE_WAIT, "a", 1);
	pool_make(f, 2, 5000);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_until(f, one_is_in_flight);
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "n", HELPER_NFS);
	pool_count(f, &f->ready, 3);
	pool_idle(f);
	assert_int_equal(f->n_results, 0);
	f->fake.state->go = 1;
	pool_count(f, &f->n_results, 4);
	assert_string_equal(f->results[0].name, "a");
	assert_string_equal(f->results[1].name, "list");
	assert_int_equal(f->fake.state->lists_beside, 0);
}

static void read_a_list_beside_a_change(struct pool *f, unsigned int instances)
{
	unsigned int stale;

	pool_until(f, one_is_in_flight);
	pool_count(f, &f->ready, instances);
	stale = f->stale;
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_count(f, &f->n_results, 1);
	assert_string_equal(f->results[0].name, "list");
	assert_int_equal(f->fake.state->lists_beside, 1);
	assert_int_equal(f->stale, stale);
	f->fake.state->go = 1;
	pool_count(f, &f->n_results, 2);
	assert_int_equal(f->stale, stale + 1);
}

CASE(a_list_beside_an_nfs_change_is_read_again_after_it)
{
	pool_inject(f, FAKE_WAIT, "n", 1);
	pool_make(f, 2, 5000);
	pool_ask(f, MH_OP_STAGE, "n", HELPER_NFS);
	read_a_list_beside_a_change(f, 3);
}

CASE(a_list_beside_a_change_of_a_plugin_is_read_again_after_it)
{
	pool_inject(f, FAKE_WAIT, "p", 1);
	pool_make(f, 2, 5000);
	pool_ask_of(f, MH_OP_STAGE, "p", "plug");
	read_a_list_beside_a_change(f, 2);
}

TEST_ON(freeing_with_work_in_flight_runs_no_callback, struct pool, f, pool_setup, pool_teardown)
{
	pool_inject(f, FAKE_WAIT, "", 3);
	pool_make(f, 2, 5000);
	for (size_t v = 0; v < 3; v++)
		pool_ask(f, MH_OP_STAGE, volumes[v], HELPER_NORMAL);
	pool_until(f, two_are_in_flight);
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_ask(f, MH_OP_STAGE, "n", HELPER_NFS);
	pool_idle(f);
	helper_client_free(f->client);
	f->client = NULL;
	pool_idle(f);
	assert_int_equal(f->n_results, 0);
}

CASE(replacing_helpers_never_interrupts_service)
{
	pid_t first, second;

	pool_inject(f, FAKE_WAIT, "a", 1);
	pool_make(f, 2, 5000);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_until(f, one_is_in_flight);
	pool_count(f, &f->ready, 2);
	first = f->fake.state->pids[0];
	second = f->fake.state->pids[1];
	f->fake.state->policy = 7;
	helper_client_restart(f->client);
	pool_count(f, &f->ready, 3); /* the idle one */
	assert_int_equal(f->stale, 2);
	assert_int_equal(strncmp(helper_client_info(f->client)->policy_digest, "0700", 4), 0);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_count(f, &f->n_results, 1);
	assert_int_equal(f->fake.state->starts, 3);
	f->fake.state->go = 1;
	pool_count(f, &f->ready, 4);
	assert_int_equal(f->n_results, 2);
	assert_true(f->results[1].is_answered);
	assert_int_equal(f->stale, 2);
	assert_int_equal(f->down, 0);
	assert_false(f->was_down);
	/* lists go to who knows the policy best */
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_count(f, &f->n_results, 3);
	assert_int_equal(f->fake.state->list_pid, f->fake.state->pids[3]);
	assert_true(first != second);
}

CASE(a_replacement_that_does_not_start_stops_the_replacing)
{
	pool_make(f, 2, 5000);
	pool_count(f, &f->ready, 2);
	f->fake.state->start = FAKE_START_FAILURE;
	f->fake.state->start_word = START_POLICY_AGENT;
	f->fake.state->start_code = 78;
	f->fake.state->start_times = 3;
	helper_client_restart(f->client);
	pool_count(f, &f->down, 3);
	assert_false(f->was_down);
	assert_int_equal(f->fake.state->starts, 5);
	assert_contains(f->last_down.msg, "policy-agent: nofile: the policy has no block for agent uid 1024");
	pool_count(f, &f->ready, 4);
	assert_int_equal(f->fake.state->starts, 7);
}

CASE(asking_for_new_ones_does_not_wait_for_the_next_attempt)
{
	struct helper_instance_info infos[HELPER_INSTANCES_MAX];

	f->fake.state->start = FAKE_START_FAILURE;
	f->fake.state->start_word = START_STATE;
	f->fake.state->start_code = 76;
	f->fake.state->start_times = 5; /* the next attempt is most of a second away */
	pool_make(f, 1, 5000);
	pool_count(f, &f->down, 5);
	(void)helper_client_instances(f->client, infos);
	assert_string_equal(infos[0].state, "down");
	assert_non_null(strstr(infos[0].last_error, "state: nofile: "));
	helper_client_restart(f->client);
	pool_idle(f);
	(void)helper_client_instances(f->client, infos);
	assert_string_not_equal(infos[0].state, "down");
	pool_count(f, &f->ready, 1);
	assert_int_equal(f->fake.state->starts, 6);
}

/* 40 changes at 12 a second, 10 at once, take longer than a request may wait for a helper. */
CASE(more_than_the_rate_allows_is_done_at_its_pace)
{
	static const char names[] = "abcdefghijklmnopqrst";
	char volumes_of_rate[20][2] = {{0}};

	rate_init(&f->fake.state->rate, 12, 10, clock_monotonic_us());
	pool_make(f, 2, 1500);
	pool_count(f, &f->ready, 2);
	for (size_t i = 0; i < 20; i++) {
		volumes_of_rate[i][0] = names[i];
		pool_ask(f, MH_OP_STAGE, volumes_of_rate[i], HELPER_NORMAL);
		pool_ask(f, MH_OP_PUBLISH, volumes_of_rate[i], HELPER_NORMAL);
	}
	pool_count(f, &f->n_results, 40);
	for (size_t i = 0; i < 40; i++)
		assert_int_equal(f->results[i].status, MH_OK);
	assert_in_range(f->fake.state->over_rate, 1, 14); /* two instances, a pause of half a second */
	assert_int_equal(f->fake.state->starts, 2);
	assert_int_equal(helper_client_info(f->client)->queued, 0);
}

/* The pause of half a second bounds how often it is asked again. */
CASE(a_list_over_its_rate_is_asked_again_after_a_pause)
{
	pool_make(f, 2, 5000);
	pool_count(f, &f->ready, 2);
	f->fake.state->lists_over_rate = 3;
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 2);
	assert_int_equal(f->fake.state->lists, 4);
	assert_int_equal(f->fake.state->over_rate, 3);
	assert_int_equal(f->results[0].status, MH_OK);
	assert_int_equal(f->results[1].status, MH_OK);
}

/* Each instance of before refuses one request at most. */
CASE(requests_are_repeated_after_the_policy_was_replaced)
{
	pool_make(f, 3, 5000);
	pool_count(f, &f->ready, 3);
	f->fake.state->policy++;
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_count(f, &f->n_results, 3);
	pool_count(f, &f->ready, 3 + 3);
	assert_in_range(f->fake.state->replaced, 1, 3);
	assert_int_equal(f->fake.state->starts, 3 + 3);
	assert_string_equal(helper_client_info(f->client)->policy_digest,
			    "0100000000000000000000000000000000000000000000000000000000000000");
	pool_ask_nfs(f, MH_OP_STAGE, "c", "server");
	pool_count(f, &f->n_results, 4);
	f->fake.state->policy++;
	pool_ask_nfs(f, MH_OP_STAGE, "d", "server");
	pool_count(f, &f->n_results, 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(f->results[i].status, MH_OK);
	assert_int_equal(f->down, 0);
}

/* A machine on which it changes faster than a helper starts: the request ends, with a reason. */
CASE(a_policy_that_is_replaced_without_end_fails_the_request)
{
	f->fake.state->policy_never_stays = true;
	pool_make(f, 1, 5000);
	pool_count(f, &f->ready, 1);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 1);
	assert_int_equal(f->results[0].status, MH_REPLACED);
	assert_int_equal(f->fake.state->replaced, 3);
}

static void on_loaded(struct mount_snapshot *observed, const struct error *err, void *userdata)
{
	assert_null(err);
	*(struct mount_snapshot **)userdata = observed;
}

/* Of an instance that did not give the page before, or was asked for something else since. */
CASE(a_list_that_cannot_continue_begins_again)
{
	static const char names[] = "abcdefgh";
	struct mount_snapshot *observed = NULL;
	struct mount_snapshot_load load;
	char staged[8][2] = {{0}};
	uint32_t lists;

	pool_make(f, 1, 5000);
	pool_count(f, &f->ready, 1);
	for (size_t i = 0; i < 8; i++) {
		staged[i][0] = names[i];
		pool_ask(f, MH_OP_STAGE, staged[i], HELPER_NORMAL);
	}
	pool_count(f, &f->n_results, 8);
	mount_snapshot_load_init(&load, f->client, on_loaded, &observed);
	f->fake.state->pages_lost = 2;
	lists = f->fake.state->lists;
	assert_int_equal(mount_snapshot_load_start(&load, NULL), STATUS_OK);
	while (!observed)
		pool_idle(f);
	assert_int_equal(observed->n_staged, 8);
	assert_int_equal(f->fake.state->pages_lost, 0);
	assert_true(f->fake.state->lists > lists + 8 / 2 + 2 * 2);
	mount_snapshot_free(observed);
}

CASE(a_list_does_not_wait_for_the_rate)
{
	rate_init(&f->fake.state->rate, 1, 1, clock_monotonic_us());
	pool_make(f, 1, 5000);
	pool_count(f, &f->ready, 1);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_ask(f, MH_OP_STAGE, "b", HELPER_NORMAL);
	while (f->fake.state->over_rate == 0)
		pool_idle(f);
	pool_ask(f, MH_OP_LIST, "list", HELPER_URGENT);
	pool_count(f, &f->n_results, 3);
	assert_string_equal(f->results[1].name, "list");
	assert_string_equal(f->results[2].name, "b");
}
