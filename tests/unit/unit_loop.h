/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How unit programs wait on an event loop: for what comes, RUN_UNTIL; before asserting that nothing came,
 * run_idle(), or run_for() if only time could bring it. */

#include "unit.h"
#include "unit_clock.h"

#include "base/clock.h"

#include <systemd/sd-event.h>

/* Of the program's clock: for what hangs. Nothing waits for it. */
#define RUN_LIMIT_US (60 * USEC_PER_SEC)

#define RUN_UNTIL(event, condition)                                                  \
	do {                                                                         \
		const uint64_t run_limit_ = clock_monotonic_us() + RUN_LIMIT_US;     \
		while (!(condition)) {                                               \
			if (clock_monotonic_us() >= run_limit_)                      \
				fail_msg("not within a minute: %s", #condition);     \
			assert_true(sd_event_run((event), 10 * USEC_PER_MSEC) >= 0); \
		}                                                                    \
	} while (0)

/* Runs the loop until only the passing of time can bring another event. No time passes. */
static inline void run_idle(sd_event *event)
{
	int r;

	do {
		r = sd_event_run(event, 0);
		assert_true(r >= 0);
	} while (r > 0 || !unit_clock_is_idle(sd_event_get_fd(event)));
}

static inline void run_for(sd_event *event, uint64_t us)
{
	const uint64_t end_us = clock_monotonic_us() + us;

	for (uint64_t now_us; (now_us = clock_monotonic_us()) < end_us;)
		assert_true(sd_event_run(event, end_us - now_us) >= 0);
}
