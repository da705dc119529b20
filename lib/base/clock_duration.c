/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>

char *clock_format_duration(uint64_t duration_us, char text[static CLOCK_TEXT_SIZE])
{
	uint64_t s = duration_us / USEC_PER_SEC;

	if (s == 0)
		(void)snprintf(text, CLOCK_TEXT_SIZE, "%" PRIu64 "ms", duration_us / USEC_PER_MSEC);
	else if (s < 60)
		(void)snprintf(text, CLOCK_TEXT_SIZE, "%" PRIu64 "s", s);
	else if (s < 3600)
		(void)snprintf(text, CLOCK_TEXT_SIZE, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
	else if (s < 86400)
		(void)snprintf(text, CLOCK_TEXT_SIZE, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
	else
		(void)snprintf(text, CLOCK_TEXT_SIZE, "%" PRIu64 "d%" PRIu64 "h", s / 86400, s / 3600 % 24);
	return text;
}
