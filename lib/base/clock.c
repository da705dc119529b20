#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

uint64_t clock_monotonic_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
	return (uint64_t)now.tv_sec * USEC_PER_SEC + (uint64_t)now.tv_nsec / 1000;
}

int64_t clock_realtime_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

char *clock_format(int64_t realtime_ms, char text[static CLOCK_TEXT_SIZE])
{
	/* rounded down, also before 1970 */
	int64_t ms = (realtime_ms % 1000 + 1000) % 1000;
	time_t seconds = (time_t)(realtime_ms / 1000 - (realtime_ms % 1000 < 0));
	struct tm utc;
	size_t n;

	if (!gmtime_r(&seconds, &utc)) {
		(void)snprintf(text, CLOCK_TEXT_SIZE, "@%" PRId64, realtime_ms);
		return text;
	}
	n = strftime(text, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
	(void)snprintf(text + n, CLOCK_TEXT_SIZE - n, ".%03dZ", (int)ms);
	return text;
}

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
