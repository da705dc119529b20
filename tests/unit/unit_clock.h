/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The clock of a unit program. A deadline cannot pass because the machine is busy, and waiting takes no time:
 * - The clock goes on with the processor time that the program itself uses.
 * - When every thread waits and every child sleeps, it jumps to the next timer or time limit.
 * unit_clock.c defines clock_gettime(), timerfd_settime(), epoll_wait(), poll(), usleep() and their like. The
 * definitions of an executable take the place of libc's, in shared libraries (libsystemd, libcurl) as well.
 *
 * Real, whatever the clock says: other programs, SO_RCVTIMEO, alarm(), timer_create(), times of files. A
 * child of fork() that runs no other program has a clock of its own, which begins at the time of the fork.
 * Programs that need real time are listed in cmake/AddCmockaTest.cmake (UNIT_REAL_TIME), with the reason. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Defined only by unit_real_time.c. */
extern const bool unit_is_real_time __attribute__((weak));

/* True if the program is in the list of those that have real time. */
bool unit_time_is_real(void);

/* Waits until @fd, of an epoll, is readable or until nothing can make it so but the passing of time: every
 * other thread and every child sleeps, and nothing is on its way. Returns true for the latter; no time
 * passes. */
bool unit_clock_is_idle(int fd);

/* Events that epoll has handed over to this program, the libraries in it included. */
extern _Atomic size_t unit_clock_events;
