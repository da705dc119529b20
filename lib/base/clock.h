/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Time: monotonic microseconds for intervals, wall-clock milliseconds for records. Never mix them. */

#include <stddef.h>
#include <stdint.h>

#define USEC_PER_SEC UINT64_C(1000000)
#define USEC_PER_MSEC UINT64_C(1000)

/** Microseconds of CLOCK_MONOTONIC: for deadlines and durations within one boot. */
uint64_t clock_monotonic_us(void);

/** Milliseconds since the epoch of CLOCK_REALTIME: for records people read, and for not-after times. */
int64_t clock_realtime_ms(void);

enum { CLOCK_TEXT_SIZE = 32 };

/** Write @realtime_ms as RFC 3339 UTC with milliseconds into @text of at least CLOCK_TEXT_SIZE, of years
 * beyond four digits only those; returns @text. */
char *clock_format(int64_t realtime_ms, char text[static CLOCK_TEXT_SIZE]);

/** Write a duration for people: "850ms", "12s", "4m10s", "3h05m", "2d4h"; returns @text. */
char *clock_format_duration(uint64_t duration_us, char text[static CLOCK_TEXT_SIZE]);
