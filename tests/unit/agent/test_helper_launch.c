/* SPDX-License-Identifier: Apache-2.0 */
/* The mount helper behind a listening socket, as a service manager runs it. */

#include "mounthelper_words.h"
#include "pool.h"

#include <signal.h>

static const enum mh_op life[] = {MH_OP_STAGE, MH_OP_PUBLISH, MH_OP_UNPUBLISH, MH_OP_UNSTAGE};

static bool nothing_hangs(struct pool *f)
{
	return helper_client_info(f->client)->abandoned == 0;
}

#define CASE(name) TEST_ON(name, struct pool, f, pool_setup, pool_teardown)

CASE(launch_mode_socket_serves_as_setuid_does)
{
	struct helper_instance_info infos[HELPER_INSTANCES_MAX];

	f->fake.state->launch_mode = 2;
	fake_helper_listen(&f->fake);
	pool_inject(f, FAKE_DIE_AFTER, "", 1);
	pool_make(f, 2, 5000);
	for (size_t op = 0; op < 4; op++)
		pool_ask(f, life[op], "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 4);
	pool_count(f, &f->ready, 3);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(f->results[i].op, life[i]);
	assert_int_equal(fake_helper_count(&f->fake, MH_OP_STAGE, MH_OK, NULL, NULL), 1);
	assert_error(f->down, 1, f->last_down, "closed the connection");
	assert_int_equal(helper_client_info(f->client)->launch_mode, 2);
	assert_int_equal(helper_client_instances(f->client, infos), 3);
	assert_int_equal(infos[1].launch_mode, 2);
	assert_true(infos[1].pid > 0 && infos[1].pid != infos[0].pid);
	assert_string_equal(infos[2].state, "idle");
}

CASE(a_hanging_helper_of_launch_mode_socket_stays_listed)
{
	f->fake.state->launch_mode = 2;
	fake_helper_listen(&f->fake);
	pool_inject(f, FAKE_HANG, "", 1);
	pool_make(f, 1, 400);
	pool_count(f, &f->ready, 1);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 1);
	assert_int_equal(f->results[0].err.status, STATUS_DEADLINE_EXCEEDED);
	pool_count(f, &f->ready, 2);
	assert_int_equal(helper_client_info(f->client)->abandoned, 1);
	assert_int_equal(kill(f->fake.state->pids[0], SIGKILL), 0);
	pool_until(f, nothing_hangs);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 2);
	assert_true(f->results[1].is_answered);
}

/* Its connection is still looked at, and the place in the pool is somebody else's by then. */
CASE(a_late_reply_of_an_abandoned_helper_is_ignored)
{
	f->fake.state->launch_mode = 2;
	fake_helper_listen(&f->fake);
	pool_inject(f, FAKE_LATE, "", 1);
	pool_make(f, 1, 400);
	pool_count(f, &f->ready, 1);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->ready, 2);
	assert_int_equal(helper_client_info(f->client)->abandoned, 1);
	f->fake.state->go = 1;
	pool_until(f, nothing_hangs);
	assert_int_equal(f->down, 1);
	pool_ask(f, MH_OP_STAGE, "a", HELPER_NORMAL);
	pool_count(f, &f->n_results, 2);
	assert_true(f->results[1].is_answered);
	assert_int_equal(f->fake.state->starts, 2);
}

CASE(a_failed_connection_to_the_helper_socket_is_reported)
{
	(void)snprintf(f->fake.socket, sizeof(f->fake.socket), "%s/nobody.sock", f->fake.folder);
	pool_make(f, 1, 5000);
	pool_count(f, &f->down, 1);
	assert_non_null(strstr(f->last_down.msg, "nobody.sock (helper.socket"));
	helper_client_free(f->client);
	f->fake.state->start = FAKE_START_FAILURE;
	f->fake.state->start_word = START_HELPER_UID;
	f->fake.state->start_times = 1;
	fake_helper_listen(&f->fake);
	pool_make(f, 1, 5000);
	pool_count(f, &f->down, 2);
	assert_non_null(strstr(f->last_down.msg, "helper-uid: nofile: the policy's helper_uid"));
	pool_count(f, &f->ready, 1);
}
