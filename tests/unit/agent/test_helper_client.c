/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_helper_client.h"
#include "mounthelper_words.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "helper/client.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <systemd/sd-event.h>

#define ALLOC "0190a5a0-0000-7000-8000-000000000001"

enum { RESULTS_MAX = HELPER_QUEUE_MAX + 8 };

struct fixture {
	struct fake_helper fake;
	sd_event *event;
	struct helper_client *client;
	unsigned int ready, down, stale;
	struct error last_down;
	unsigned int n_results;
	struct result {
		bool is_answered;
		uint16_t op, status;
		struct error err;
	} results[RESULTS_MAX];
};

static void on_ready(pid_t pid, void *userdata)
{
	assert_true(pid > 0);
	((struct fixture *)userdata)->ready++;
}

static void on_stale(void *userdata)
{
	((struct fixture *)userdata)->stale++;
}

static void on_down(const struct error *err, void *userdata)
{
	struct fixture *f = userdata;

	f->down++;
	f->last_down = *err;
}

static const struct helper_client_events events = {
	.on_ready = on_ready, .on_down = on_down, .on_stale = on_stale};

static void on_done(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct fixture *f = userdata;
	struct result *result = &f->results[f->n_results++];

	assert_true((reply == NULL) != (err == NULL));
	*result = (struct result){.is_answered = reply != NULL};
	if (err)
		result->err = *err;
	if (!reply)
		return;
	result->op = reply->header.op;
	result->status = reply->header.op == MH_OP_LIST ? reply->list.status : reply->reply.status;
}

static void make_client(struct fixture *f, uint64_t request_timeout_ms)
{
	const struct helper_client_options options = {
		.launch = {.path = f->fake.path},
		.instances = 1,
		.start_timeout_us = 2 * USEC_PER_SEC,
		.request_timeout_us = request_timeout_ms * USEC_PER_MSEC,
	};
	struct error err;

	assert_int_equal(helper_client_new(f->event, &options, &events, f, &f->client, &err), STATUS_OK);
	assert_int_equal(helper_client_start(f->client, &err), STATUS_OK);
}

UNIT_SETUP(setup, struct fixture, f)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	fake_helper_init(&f->fake);
	assert_true(sd_event_new(&f->event) >= 0);
}

UNIT_TEARDOWN(teardown, struct fixture, f)
{
	assert_string_equal(f->fake.state->violation, "");
	helper_client_free(f->client);
	sd_event_unref(f->event);
	fake_helper_release(&f->fake);
}

static void run_until(struct fixture *f, const unsigned int *counter, unsigned int n)
{
	RUN_UNTIL(f->event, *counter >= n);
}

static void request(struct fixture *f, enum mh_op op, unsigned int slot)
{
	static const struct mh_source source = {.class = MH_CLASS_TMPFS, .u.tmpfs = {1, 1}};
	const struct helper_mount mount = {
		.volume = "v", .profile = "p", .alloc = ALLOC, .slot = (uint8_t)slot, .source = &source};
	union helper_request req;
	struct error err;

	switch (op) {
	case MH_OP_STAGE:
		assert_int_equal(helper_request_stage(&mount, &req, &err), STATUS_OK);
		break;
	case MH_OP_PUBLISH:
		assert_int_equal(helper_request_publish(&mount, &req, &err), STATUS_OK);
		break;
	case MH_OP_UNPUBLISH:
		assert_int_equal(helper_request_unpublish("v", ALLOC, (uint8_t)slot, &req, &err), STATUS_OK);
		break;
	case MH_OP_UNSTAGE:
		assert_int_equal(helper_request_unstage("v", "", &req, &err), STATUS_OK);
		break;
	case MH_OP_LIST:
		helper_request_list(MH_LIST_STAGED, 0, &req);
		break;
	case MH_OP_HELLO:
	case MH_OP_ACK:
	case MH_OP_FAILURE:
	case MH_OP_N:
		fail();
	}
	assert_ok(helper_client_request(f->client, &req, op == MH_OP_LIST ? HELPER_URGENT : HELPER_NORMAL, "",
					on_done, f, &err));
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(requests_are_answered_in_order_and_lists_first)
{
	static const uint16_t order[] = {MH_OP_LIST, MH_OP_STAGE, MH_OP_PUBLISH, MH_OP_UNPUBLISH,
					 MH_OP_UNSTAGE};

	make_client(f, 30000);
	request(f, MH_OP_STAGE, 0);
	request(f, MH_OP_PUBLISH, 0);
	request(f, MH_OP_LIST, 0);
	request(f, MH_OP_UNPUBLISH, 0);
	request(f, MH_OP_UNSTAGE, 0);
	assert_int_equal(f->n_results, 0);
	run_until(f, &f->n_results, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_true(f->results[i].is_answered);
		assert_int_equal(f->results[i].op, order[i]);
		assert_int_equal(f->results[i].status, MH_OK);
	}
	assert_int_equal(f->ready, 1);
	assert_int_equal(f->fake.state->starts, 1);
	assert_true(helper_client_info(f->client)->is_running);
	assert_string_equal(helper_client_info(f->client)->publish_base, FAKE_PUBLISH_BASE);
	assert_int_equal(helper_client_info(f->client)->queued, 0);
}

static uint64_t head_after(struct fixture *f, enum mh_op op)
{
	const struct trail_head *head = &helper_client_info(f->client)->head;

	request(f, op, 0);
	run_until(f, &f->n_results, f->n_results + 1);
	for (size_t i = 0; i < sizeof(head->sha256); i++)
		assert_int_equal(head->sha256[i], head->record);
	return head->record;
}

CASE(the_head_of_the_trail_follows_the_replies_also_back)
{
	make_client(f, 30000);
	assert_int_equal(head_after(f, MH_OP_LIST), 0);
	assert_int_equal(head_after(f, MH_OP_STAGE), 1);
	assert_int_equal(head_after(f, MH_OP_LIST), 1);
	assert_int_equal(head_after(f, MH_OP_PUBLISH), 2);
	assert_int_equal(head_after(f, MH_OP_UNPUBLISH), 3);
	f->fake.state->records_lost = 2;
	assert_int_equal(head_after(f, MH_OP_UNSTAGE), 2);
}

CASE(a_trail_that_takes_no_record_is_known_until_it_takes_one)
{
	const struct helper_info *info;

	make_client(f, 30000);
	info = helper_client_info(f->client);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->n_results, 1);
	assert_false(info->is_without_trail);
	f->fake.state->no_trail = 1;
	request(f, MH_OP_PUBLISH, 0);
	run_until(f, &f->n_results, 2);
	assert_int_equal(f->results[1].status, MH_UNAVAILABLE);
	request(f, MH_OP_LIST, 0);
	request(f, MH_OP_UNPUBLISH, 0);
	run_until(f, &f->n_results, 4);
	assert_true(info->is_without_trail);
	request(f, MH_OP_PUBLISH, 0);
	run_until(f, &f->n_results, 5);
	assert_int_equal(f->results[4].status, MH_OK);
	assert_false(info->is_without_trail);
}

CASE(a_start_without_record_is_known_with_its_reason_until_a_mount_is_recorded)
{
	const struct helper_info *info;

	f->fake.state->hello_trail = TRAIL_AUDIT;
	f->fake.state->no_trail = 1;
	make_client(f, 30000);
	info = helper_client_info(f->client);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->n_results, 1);
	assert_non_null(strstr(info->trail_fault, "audit: the kernel's audit takes no records"));
	assert_true(info->is_without_trail);
	request(f, MH_OP_UNPUBLISH, 0);
	run_until(f, &f->n_results, 2);
	assert_int_equal(f->results[1].status, MH_OK);
	assert_non_null(info->trail_fault);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->n_results, 3);
	assert_null(info->trail_fault);
	assert_false(info->is_without_trail);
}

/* At every request, each way of dying: the request is done once, told once, and everything after it follows.
 */
TEST(no_request_is_lost_or_reported_twice_when_the_helper_dies)
{
	static const enum fake_fault deaths[] = {FAKE_DIE_BEFORE, FAKE_DIE_AFTER, FAKE_WRONG_SEQ,
						 FAKE_OVERSIZE,	  FAKE_SHORT,	  FAKE_TWICE};

	for (size_t d = 0; d < sizeof(deaths) / sizeof(*deaths); d++) {
		for (uint32_t at = 1; at <= 4; at++) {
			struct fixture *f;
			void *fixture = NULL;

			(void)setup(&fixture);
			f = fixture;
			f->fake.state->fault = deaths[d];
			f->fake.state->fault_call = at;
			f->fake.state->fault_calls = 1;
			make_client(f, 30000);
			request(f, MH_OP_STAGE, 0);
			request(f, MH_OP_PUBLISH, 0);
			request(f, MH_OP_UNPUBLISH, 0);
			request(f, MH_OP_UNSTAGE, 0);
			run_until(f, &f->n_results, 4);
			for (size_t i = 0; i < 4; i++)
				assert_true(f->results[i].is_answered);
			/* what was done stays done once */
			assert_int_equal(fake_helper_count(&f->fake, MH_OP_STAGE, MH_OK, NULL, NULL), 1);
			assert_int_equal(fake_helper_count(&f->fake, MH_OP_PUBLISH, MH_OK, NULL, NULL), 1);
			assert_null(fake_helper_mount(&f->fake, "v", "", 0));
			if (deaths[d] != FAKE_TWICE || at < 4)
				assert_int_equal(f->fake.state->starts, 2);
			(void)teardown(&fixture);
		}
	}
}

CASE(a_request_that_ends_two_helpers_fails_and_the_next_continues)
{
	f->fake.state->fault = FAKE_DIE_BEFORE;
	f->fake.state->fault_call = 1;
	f->fake.state->fault_calls = 2;
	make_client(f, 30000);
	request(f, MH_OP_STAGE, 0);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->n_results, 2);
	assert_false(f->results[0].is_answered);
	assert_int_equal(f->results[0].err.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(f->results[0].err.msg, "signal 9"));
	assert_true(f->results[1].is_answered);
	assert_int_equal(f->fake.state->starts, 3);
	assert_int_equal(f->down, 2);
}

CASE(a_hanging_helper_is_given_up_and_replaced)
{
	f->fake.state->fault = FAKE_HANG;
	f->fake.state->fault_call = 1;
	f->fake.state->fault_calls = 1;
	make_client(f, 150);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->n_results, 1);
	assert_int_equal(f->results[0].err.status, STATUS_DEADLINE_EXCEEDED);
	assert_non_null(strstr(f->results[0].err.msg, "did not answer STAGE within 150ms"));
	run_until(f, &f->ready, 2);
	assert_int_equal(helper_client_info(f->client)->abandoned, 1);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->n_results, 2);
	assert_true(f->results[1].is_answered);
}

CASE(the_end_of_an_abandoned_helper_is_noticed)
{
	uint64_t end = clock_monotonic_us() + 30 * USEC_PER_SEC;

	f->fake.state->fault = FAKE_HANG;
	f->fake.state->fault_call = 1;
	f->fake.state->fault_calls = 1;
	make_client(f, 100);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->ready, 2);
	assert_int_equal(helper_client_info(f->client)->abandoned, 1);
	assert_int_equal(kill(f->fake.state->pids[0], SIGKILL), 0);
	while (helper_client_info(f->client)->abandoned > 0) {
		assert_true(clock_monotonic_us() < end);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
	}
	assert_true(helper_client_info(f->client)->is_running);
}

/* A tracer of the helper, as strace is, which holds back its end for some time; negative: not allowed here.
 */
static pid_t trace(pid_t helper)
{
	int ready[2];
	char ok = 'n';
	pid_t tracer;

	assert_int_equal(pipe(ready), 0);
	tracer = fork();
	assert_true(tracer >= 0);
	if (tracer == 0) {
		ok = ptrace(PTRACE_SEIZE, helper, NULL, NULL) == 0 ? 'y' : 'n';
		(void)!write(ready[1], &ok, 1);
		(void)pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &ok, 1), 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
	if (ok == 'y')
		return tracer;
	(void)kill(tracer, SIGKILL);
	(void)waitpid(tracer, NULL, 0);
	return -1;
}

CASE(the_end_of_a_traced_helper_is_noticed_in_the_end)
{
	uint64_t end = clock_monotonic_us() + 30 * USEC_PER_SEC;
	pid_t tracer;

	make_client(f, 30000);
	run_until(f, &f->ready, 1);
	tracer = trace(f->fake.state->pids[0]);
	if (tracer < 0) {
		print_message("tracing is not allowed here\n");
		skip();
	}
	assert_int_equal(kill(f->fake.state->pids[0], SIGKILL), 0);
	run_until(f, &f->ready, 2);
	assert_int_equal(helper_client_info(f->client)->abandoned, 1);
	assert_int_equal(kill(tracer, SIGKILL), 0);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
	while (helper_client_info(f->client)->abandoned > 0) {
		assert_true(clock_monotonic_us() < end);
		assert_true(sd_event_run(f->event, 100 * USEC_PER_MSEC) >= 0);
	}
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->n_results, 1);
}

CASE(a_missing_setuid_bit_is_explained)
{
	f->fake.state->start = FAKE_START_EXIT;
	f->fake.state->start_code = 71;
	f->fake.state->start_silently = true;
	f->fake.state->start_times = 2;
	make_client(f, 30000);
	request(f, MH_OP_STAGE, 0);
	run_until(f, &f->down, 1);
	assert_error(f->last_down.status, STATUS_UNAVAILABLE, f->last_down, "exit code 71");
	assert_non_null(strstr(f->last_down.msg, "mode 4750"));
	assert_false(helper_client_info(f->client)->is_running);
	run_until(f, &f->n_results, 1);
	assert_true(f->results[0].is_answered);
	assert_int_equal(f->fake.state->starts, 3);
	assert_int_equal(helper_client_info(f->client)->failures, 0);
	assert_int_equal(helper_client_info(f->client)->last_error.status, STATUS_OK);
}

CASE(the_first_line_of_its_stderr_is_the_reason)
{
	f->fake.state->start = FAKE_START_EXIT;
	f->fake.state->start_code = 71;
	f->fake.state->start_times = 1;
	make_client(f, 30000);
	run_until(f, &f->down, 1);
	assert_non_null(strstr(f->last_down.msg, "exit code 71: refused to start"));
	assert_null(strstr(f->last_down.msg, "second line"));
}

CASE(a_mute_start_ends_with_its_timeout)
{
	f->fake.state->start = FAKE_START_MUTE;
	f->fake.state->start_times = 1;
	make_client(f, 30000);
	run_until(f, &f->ready, 1);
	assert_error(f->down, 1, f->last_down, "did not send HELLO within 2s");
}

CASE(another_version_of_the_helper_is_refused)
{
	f->fake.state->start = FAKE_START_VERSION;
	f->fake.state->start_times = 1;
	make_client(f, 30000);
	run_until(f, &f->down, 1);
	assert_int_equal(f->last_down.status, STATUS_UNIMPLEMENTED);
	run_until(f, &f->ready, 1);
}

CASE(a_request_does_not_wait_for_ever_without_a_helper)
{
	f->fake.state->start = FAKE_START_EXIT;
	f->fake.state->start_code = 78;
	f->fake.state->start_times = UINT32_MAX;
	make_client(f, 2000);
	request(f, MH_OP_STAGE, 0);
	request(f, MH_OP_LIST, 0);
	run_until(f, &f->n_results, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(f->results[i].err.status, STATUS_DEADLINE_EXCEEDED);
		assert_non_null(strstr(f->results[i].err.msg, "refused to start"));
	}
}

TEST_ON(a_program_that_does_not_exist_is_an_error_with_its_path, struct fixture, f, setup, teardown)
{
	assert_int_equal(unlink(f->fake.path), 0);
	make_client(f, 30000);
	run_until(f, &f->down, 1);
	assert_error(f->last_down.status, STATUS_UNAVAILABLE, f->last_down, f->fake.path);
}

TEST_ON(the_queue_is_bounded, struct fixture, f, setup, teardown)
{
	union helper_request req;
	struct error err;

	make_client(f, 30000);
	for (unsigned int i = 0; i < HELPER_QUEUE_MAX; i++)
		request(f, MH_OP_UNPUBLISH, i % 32);
	helper_request_list(MH_LIST_STAGED, 0, &req);
	assert_int_equal(helper_client_request(f->client, &req, HELPER_URGENT, "", on_done, f, &err),
			 STATUS_RESOURCE_EXHAUSTED);
	run_until(f, &f->n_results, HELPER_QUEUE_MAX);
	request(f, MH_OP_LIST, 0);
	run_until(f, &f->n_results, HELPER_QUEUE_MAX + 1);
}
