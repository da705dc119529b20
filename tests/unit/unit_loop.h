/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* How unit programs wait on an event loop: for what comes, RUN_UNTIL; before asserting that nothing came,
 * run_idle(), or run_for() if only time could bring it. */

#include "unit.h"
#include "unit_clock.h"

#include "base/clock.h"

#include <systemd/sd-event.h>

#define RUN_UNTIL(event, condition)                                                  \
	do {                                                                         \
		const uint64_t run_limit_ = clock_monotonic_us() + UNIT_LIMIT_US;    \
		while (!(condition)) {                                               \
			if (clock_monotonic_us() >= run_limit_)                      \
				fail_msg("not within two minutes: %s", #condition);  \
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

/* Of the program's clock. */
static inline void run_for(sd_event *event, unsigned int ms)
{
	const uint64_t end_us = clock_monotonic_us() + ms * USEC_PER_MSEC;

	for (uint64_t now_us; (now_us = clock_monotonic_us()) < end_us;)
		assert_true(sd_event_run(event, end_us - now_us) >= 0);
}
