/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

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

/* Civil date of a day number, days since 1970-01-01. Years begin in March here, so that the leap day is the
 * last one. Not gmtime_r(), which reads the time-zone file of the machine: the mount helper must not open
 * files. Source: Howard Hinnant, chrono-compatible low-level date algorithms. */
static void civil_from_days(int64_t days, int *ret_year, unsigned int *ret_month, unsigned int *ret_day)
{
	int64_t shifted = days + 719468; /* 0000-03-01 is day 0 */
	int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
	int64_t day_of_era = shifted - era * 146097;
	int64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64_t month = (5 * day_of_year + 2) / 153; /* 0 is March */

	*ret_day = (unsigned int)(day_of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (unsigned int)(month < 10 ? month + 3 : month - 9);
	*ret_year = (int)(year_of_era + era * 400 + (*ret_month <= 2));
}

/* @n digits of @value, and what follows them. Not by printf: every record of the mount helper has a time. */
static char *put(char *at, unsigned int value, int n, char after)
{
	for (int i = n - 1; i >= 0; i--, value /= 10)
		at[i] = (char)('0' + value % 10);
	at[n] = after;
	return at + n + 1;
}

char *clock_format(int64_t realtime_ms, char text[static CLOCK_TEXT_SIZE])
{
	static const int64_t ms_per_day = INT64_C(86400000);
	int64_t days = realtime_ms / ms_per_day;
	int64_t rest = realtime_ms % ms_per_day;
	unsigned int ms; /* of the day */
	char *at = text;
	int year;
	unsigned int month;
	unsigned int day;

	if (rest < 0) {
		days--;
		rest += ms_per_day;
	}
	ms = (unsigned int)rest;
	civil_from_days(days, &year, &month, &day); /* 64 bits of milliseconds are 292 million years */
	at = put(at, (unsigned int)year, 4, '-');
	at = put(at, month, 2, '-');
	at = put(at, day, 2, 'T');
	at = put(at, ms / 3600000, 2, ':');
	at = put(at, ms / 60000 % 60, 2, ':');
	at = put(at, ms / 1000 % 60, 2, '.');
	at = put(at, ms % 1000, 3, 'Z');
	*at = '\0';
	return text;
}
