/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The clock of a unit program. A deadline cannot pass because the machine is busy, and waiting takes no time:
 * - The clock goes on with the processor time that the program itself uses.
 * - When every thread waits and every child sleeps, it jumps to the next timer or time limit.
 * unit_clock.c defines clock_gettime(), timerfd_settime(), epoll_wait(), poll(), usleep() and their like. The
 * definitions of an executable take the place of libc's, in shared libraries (libsystemd) as well.
 *
 * Real, whatever the clock says: other programs, SO_RCVTIMEO, alarm(), timer_create(), times of files. A
 * child of fork() that runs no other program has a clock of its own, which begins at the time of the fork
 * and does not jump while the test's own process runs.
 * Programs that need real time are listed in cmake/AddCmockaTest.cmake (UNIT_REAL_TIME), with the reason. */

#include "unit.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* Defined only by unit_real_time.c. */
extern const bool unit_is_real_time __attribute__((weak));

/* True if the program is in the list of those that have real time. */
bool unit_time_is_real(void);

/* Waits until @fd, of an epoll, is readable or until nothing can make it so but the passing of time: every
 * other thread and every child sleeps, and nothing is on its way. Returns true for the latter; no time
 * passes. */
bool unit_clock_is_idle(int fd);

/* Moves the clock on, as if the machine had stopped: no loop has run meanwhile. In virtual time only. */
void unit_clock_advance(uint64_t us);

/* Sets CLOCK_REALTIME forward, or back if @ms is negative. In virtual time only. */
void unit_clock_step(int64_t ms);

/* The limit of every wait, by the program's clock: for what hangs. */
#define UNIT_LIMIT_US (120 * USEC_PER_SEC)

/* For what no event loop reports, as the end of another program: looks again and again. */
#define WAIT_UNTIL(condition)                                                       \
	do {                                                                        \
		const uint64_t wait_limit_ = clock_monotonic_us() + UNIT_LIMIT_US;  \
		while (!(condition)) {                                              \
			if (clock_monotonic_us() >= wait_limit_)                    \
				fail_msg("not within two minutes: %s", #condition); \
			(void)usleep(10000);                                        \
		}                                                                   \
	} while (0)

/* Events that epoll has handed over to this program, the libraries in it included. */
extern _Atomic size_t unit_clock_events;
