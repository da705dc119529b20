/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of unit programs: when it jumps, and when it must not. */

#include "unit.h"
#include "unit_clock.h"
#include "unit_loop.h"

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { HOUR_S = 3600, BUSY_MS = 700 };
#define HOUR_US (HOUR_S * USEC_PER_SEC)

static uint64_t kernel_us(void)
{
	struct timespec now;

	(void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * USEC_PER_SEC + (uint64_t)now.tv_nsec / 1000;
}

static int on_due(sd_event_source *source, uint64_t us, void *userdata)
{
	*(bool *)userdata = true;
	return 0;
}

static void add_timer(sd_event *event, clockid_t clock, uint64_t us, bool *ret_is_due)
{
	*ret_is_due = false;
	assert_true(sd_event_add_time_relative(event, NULL, clock, us, 1, on_due, ret_is_due) >= 0);
}

/* libsystemd asks for the time and waits: with these functions, or an hour passes. */
TEST(a_loop_that_only_waits_jumps_to_its_next_timer)
{
	cleanup(sd_event_unrefp) sd_event *event = NULL;
	uint64_t start_us = clock_monotonic_us();
	bool first, second;

	assert_true(sd_event_new(&event) >= 0);
	add_timer(event, CLOCK_BOOTTIME, 2 * HOUR_US, &second);
	add_timer(event, CLOCK_MONOTONIC, HOUR_US, &first);
	while (!first)
		assert_true(sd_event_run(event, UINT64_MAX) >= 0);
	assert_in_range(clock_monotonic_us() - start_us, HOUR_US, HOUR_US + HOUR_US / 2);
	assert_false(second);
	while (!second)
		assert_true(sd_event_run(event, UINT64_MAX) >= 0);
}

/* The timer becomes due while the clock looks whether it may jump: there is no later one to jump to. */
TEST(a_timer_that_becomes_due_before_a_jump_is_not_jumped_over)
{
	for (uint64_t us = 0; us < 200; us++) {
		cleanup(sd_event_unrefp) sd_event *event = NULL;
		uint64_t start_us = clock_monotonic_us();
		bool is_due;

		assert_true(sd_event_new(&event) >= 0);
		add_timer(event, CLOCK_MONOTONIC, us, &is_due);
		assert_true(sd_event_run(event, HOUR_US) > 0);
		assert_true(clock_monotonic_us() - start_us < HOUR_US / 2);
	}
}

TEST(a_wait_with_a_limit_ends_at_the_limit)
{
	const struct timespec hour = {.tv_sec = HOUR_S};
	uint64_t start_us = clock_monotonic_us();
	time_t start = time(NULL);

	assert_int_equal(poll(NULL, 0, HOUR_S * 1000), 0);
	assert_int_equal(nanosleep(&hour, NULL), 0);
	assert_in_range(clock_monotonic_us() - start_us, 2 * HOUR_US, 3 * HOUR_US);
	assert_in_range(time(NULL) - start, 2 * HOUR_S, 3 * HOUR_S);
}

TEST(an_idle_loop_is_left_without_that_time_passes)
{
	cleanup(sd_event_unrefp) sd_event *event = NULL;
	bool is_due;

	assert_true(sd_event_new(&event) >= 0);
	add_timer(event, CLOCK_MONOTONIC, HOUR_US, &is_due);
	run_idle(event);
	assert_false(is_due);
	run_for(event, (HOUR_S - 1) * 1000);
	assert_false(is_due);
	RUN_UNTIL(event, is_due);
}

/* Computes for a while of the kernel's time, then writes to a pipe. */
static void *compute(void *pipe_end)
{
	uint64_t end_us = kernel_us() + BUSY_MS * USEC_PER_MSEC;

	while (kernel_us() < end_us)
		;
	assert_int_equal(write(*(int *)pipe_end, "", 1), 1);
	return NULL;
}

static void expect_written(int fd)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&end, 1, HOUR_S * 1000), 1);
}

TEST(the_clock_does_not_jump_while_a_thread_runs)
{
	pthread_t thread;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, compute, &ends[1]), 0);
	expect_written(ends[0]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* The child's own child: a shell and what it runs. */
TEST(the_clock_does_not_jump_while_a_grandchild_runs)
{
	int ends[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			(void)compute(&ends[1]);
		else
			(void)waitpid(pid, NULL, 0);
		_exit(0);
	}
	expect_written(ends[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* A child that serves its parent would end a connection on which the parent is about to ask. */
TEST(the_clock_of_a_child_does_not_jump_while_its_parent_runs)
{
	int ends[2];
	pid_t pid;
	int status = -1;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct pollfd end = {.fd = ends[0], .events = POLLIN};

		_exit(poll(&end, 1, HOUR_S * 1000) != 1);
	}
	(void)compute(&ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
} never = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER};

static void *wait_an_hour(void *ret)
{
	struct timespec until;
	int r = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += HOUR_S;
	(void)pthread_mutex_lock(&never.lock);
	while (r == 0)
		r = pthread_cond_clockwait(&never.cond, &never.lock, CLOCK_MONOTONIC, &until);
	(void)pthread_mutex_unlock(&never.lock);
	*(int *)ret = r;
	return NULL;
}

TEST(a_thread_that_waits_for_a_time_is_woken_by_the_jump_of_another)
{
	pthread_t thread;
	int r = 0;

	assert_int_equal(pthread_create(&thread, NULL, wait_an_hour, &r), 0);
	assert_int_equal(poll(NULL, 0, 2 * HOUR_S * 1000), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(r, ETIMEDOUT);
}

TEST(a_child_begins_with_the_time_of_its_parent)
{
	uint64_t before_us = clock_monotonic_us();
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(clock_monotonic_us() < before_us || clock_monotonic_us() > before_us + HOUR_US);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}
