/* SPDX-License-Identifier: Apache-2.0 */
/* When a timer is due. */

#include "unit_clock.h"

#include "base/clock.h"
#include "rpc/timer.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { DELAY_US = 1000 * 1000, SLEPT_US = 2000 };

static int on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	return 0;
}

/* The loop has its own idea of now, of when it last woke. */
TEST(a_delay_counts_from_when_it_is_asked_for)
{
	sd_event_source *source = NULL;
	sd_event *event = NULL;
	uint64_t now_us, due_us;

	assert_int_equal(sd_event_new(&event), 0);
	for (int i = 0; i < 2; i++) { /* made, and armed anew */
		assert_true(sd_event_run(event, 0) >= 0);
		unit_clock_advance(SLEPT_US);
		now_us = clock_monotonic_us();
		assert_true(timer_arm(event, &source, DELAY_US, on_due, NULL) >= 0);
		assert_true(sd_event_source_get_time(source, &due_us) >= 0);
		assert_true(due_us >= now_us + DELAY_US);
	}
	(void)sd_event_source_disable_unref(source);
	sd_event_unref(event);
}

TEST(an_infinite_delay_does_not_wrap_to_zero)
{
	sd_event_source *source = NULL;
	sd_event *event = NULL;
	uint64_t due_us;

	assert_int_equal(sd_event_new(&event), 0);
	assert_true(timer_arm(event, &source, UINT64_MAX, on_due, NULL) >= 0);
	assert_true(sd_event_source_get_time(source, &due_us) >= 0);
	assert_true(due_us > clock_monotonic_us() + DELAY_US);
	(void)sd_event_source_disable_unref(source);
	sd_event_unref(event);
}

enum { TURNS = 20 };

struct turns {
	sd_event_source *again;
	int n, n_ready;
};

static int on_turn(sd_event_source *source, void *userdata)
{
	struct turns *turns = userdata;

	if (++turns->n < TURNS) {
		timer_again(&turns->again, on_turn);
		timer_again(&turns->again, on_turn); /* once */
	}
	return 0;
}

static int on_ready(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct turns *turns = userdata;

	turns->n_ready++;
	return 0;
}

TEST(a_source_that_goes_on_leaves_others_their_turns)
{
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* always ready */
	sd_event_source *ready = NULL;
	struct turns turns = {.n = 0};
	sd_event *event = NULL;

	assert_int_equal(sd_event_new(&event), 0);
	assert_true(sd_event_add_io(event, &ready, fd, EPOLLIN, on_ready, &turns) >= 0);
	assert_true(sd_event_add_defer(event, &turns.again, on_turn, &turns) >= 0);
	while (turns.n < TURNS)
		assert_true(sd_event_run(event, 0) > 0);
	assert_in_range(turns.n_ready, TURNS - 2, TURNS + 1);
	for (int i = 0; i < 3; i++)
		assert_true(sd_event_run(event, 0) > 0);
	assert_int_equal(turns.n, TURNS); /* it is not asked again */
	(void)sd_event_source_disable_unref(turns.again);
	(void)sd_event_source_disable_unref(ready);
	sd_event_unref(event);
	(void)close(fd);
}
