/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that do not wait for the disk: what they outlive, and who waits for it in their place. And those
 * that share a wait. */

#include "disk_sync.h"
#include "fixture.h"

#include "base/clock.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define LOG "test.db-wal"

enum { MOMENT_MS = 50, SLOW_MS = 5, LATE_MS = 20000 };

static void put_relaxed(struct fixture *f, const char *key, struct answer *answer)
{
	const struct kv_op op = {.key = key, .value = "v", .len = 1};
	const struct kv_txn txn = {.ops = &op, .n_ops = 1, .is_relaxed = true};

	assert_int_equal(kv_submit(f->kv, &txn, answer_fill, answer, NULL), STATUS_OK);
}

static void relaxed(struct fixture *f, const char *key)
{
	struct answer answer = {0};

	put_relaxed(f, key, &answer);
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_OK);
}

static struct answer barrier(struct fixture *f)
{
	struct answer answer = {0};

	assert_int_equal(kv_barrier(f->kv, answer_fill, &answer, NULL), STATUS_OK);
	await(f, &answer);
	return answer;
}

/* Turn the loop for a moment in which @answer must not come. */
static void expect_none(struct fixture *f, const struct answer *answer)
{
	uint64_t end_us = clock_monotonic_us() + MOMENT_MS * USEC_PER_MSEC;

	while (clock_monotonic_us() < end_us)
		(void)sd_event_run(f->event, MOMENT_MS * USEC_PER_MSEC / 10);
	assert_int_equal(answer->count, 0);
}

static int setup(void **state)
{
	int r = fixture_setup(state);

	(void)put(*state, "0", "v"); /* the head of a new log is waited for */
	disk_sync_watch(LOG);
	return r;
}

static int teardown(void **state)
{
	disk_sync_release();
	disk_sync_watch(NULL);
	return fixture_teardown(state);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_relaxed_write_is_answered_while_the_disk_hangs)
{
	struct answer durable = {0};

	disk_sync_hold();
	relaxed(f, "a");
	relaxed(f, "b");
	put_async(f, "c", "v", &durable);
	expect_none(f, &durable);
	disk_sync_release();
	await(f, &durable);
	assert_string_equal(range_text(f, ""), "0=v@1,1 a=v@2,2 b=v@3,3 c=v@4,4 ");
}

CASE(a_relaxed_write_outlives_its_process)
{
	int status;
	pid_t pid;

	fixture_close(f);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fixture_after_fork(f);
		fixture_open(f);
		(void)put(f, "0", "v");
		disk_sync_watch(LOG);
		relaxed(f, "a");
		relaxed(f, "b");
		(void)kill(getpid(), disk_sync_waits() == 0 ? SIGKILL : SIGABRT);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	fixture_open(f);
	assert_string_equal(range_text(f, ""), "0=v@1,2 a=v@3,3 b=v@4,4 ");
	/* and the disk may not have it yet, whoever has written it */
	disk_sync_watch(LOG);
	(void)barrier(f);
	assert_int_equal(disk_sync_waits(), 1);
}

CASE(a_barrier_waits_once_for_relaxed_writes)
{
	relaxed(f, "a");
	relaxed(f, "b");
	assert_int_equal(disk_sync_waits(), 0);
	(void)barrier(f);
	assert_int_equal(disk_sync_waits(), 1);
	(void)barrier(f);
	assert_int_equal(disk_sync_waits(), 1);
	relaxed(f, "c");
	(void)put(f, "d", "v"); /* which brings c along */
	assert_int_equal(disk_sync_waits(), 2);
	(void)barrier(f);
	assert_int_equal(disk_sync_waits(), 2);
}

CASE(a_relaxed_write_after_a_barrier_is_answered_after_it)
{
	struct answer after = {0};

	relaxed(f, "a");
	disk_sync_hold();
	assert_int_equal(kv_barrier(f->kv, NULL, NULL, NULL), STATUS_OK);
	put_relaxed(f, "b", &after);
	expect_none(f, &after);
	disk_sync_release();
	await(f, &after);
	assert_int_equal(after.err.status, STATUS_OK);
}

CASE(relaxed_writes_reach_the_disk_soon)
{
	uint64_t end_us = clock_monotonic_us() + LATE_MS * USEC_PER_MSEC;

	relaxed(f, "a");
	while (disk_sync_waits() == 0 && clock_monotonic_us() < end_us)
		(void)poll(NULL, 0, MOMENT_MS);
	assert_int_equal(disk_sync_waits(), 1);
}

CASE(a_store_whose_log_does_not_get_to_the_disk_is_broken)
{
	struct answer answer = {0};

	relaxed(f, "a");
	disk_sync_fail(EIO);
	assert_int_not_equal(barrier(f).err.status, STATUS_OK);
	disk_sync_release();
	put_relaxed(f, "b", &answer);
	await(f, &answer);
	assert_int_not_equal(answer.err.status, STATUS_OK);
}

CASE(a_late_wait_that_fails_is_reported_to_the_next_caller)
{
	uint64_t end_us = clock_monotonic_us() + LATE_MS * USEC_PER_MSEC;
	struct answer answer = {0};

	disk_sync_fail(EIO);
	relaxed(f, "a");
	while (disk_sync_waits() == 0 && clock_monotonic_us() < end_us)
		(void)poll(NULL, 0, MOMENT_MS);
	disk_sync_release();
	put_relaxed(f, "b", &answer);
	await(f, &answer);
	assert_int_not_equal(answer.err.status, STATUS_OK);
}

CASE(txns_of_one_turn_share_the_wait_for_a_slow_disk)
{
	struct answer first = {0};
	struct answer second = {0};

	disk_sync_delay(SLOW_MS);
	(void)put(f, "a", "v");
	disk_sync_watch(LOG);
	(void)poll(NULL, 0, MOMENT_MS); /* the writer sleeps */
	put_async(f, "b", "v", &first);
	(void)poll(NULL, 0, MOMENT_MS); /* the turn continues */
	put_async(f, "c", "v", &second);
	await(f, &second);
	assert_int_equal(first.count, 1);
	assert_int_equal(disk_sync_waits(), 1);
}
