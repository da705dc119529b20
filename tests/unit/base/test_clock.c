/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"

#include <time.h>

TEST(times_are_written_as_rfc_3339_utc)
{
	static const struct {
		int64_t ms;
		const char *expected;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{999, "1970-01-01T00:00:00.999Z"},
		{1000, "1970-01-01T00:00:01.000Z"},
		{-1, "1969-12-31T23:59:59.999Z"},
		{-1000, "1969-12-31T23:59:59.000Z"},
		{-1001, "1969-12-31T23:59:58.999Z"},
		{1709210096789, "2024-02-29T12:34:56.789Z"},
		{253402300799999, "9999-12-31T23:59:59.999Z"},
		{253402300800000, "0000-01-01T00:00:00.000Z"}, /* the next year has no RFC 3339 */
	};
	char text[CLOCK_TEXT_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(clock_format(cases[i].ms, text), cases[i].expected);
}

TEST(times_out_of_this_world_still_fit)
{
	char text[CLOCK_TEXT_SIZE];

	assert_true(strlen(clock_format(INT64_MAX, text)) < CLOCK_TEXT_SIZE);
	assert_int_equal(text[strlen(text) - 1], 'Z');
	assert_true(strlen(clock_format(INT64_MIN, text)) < CLOCK_TEXT_SIZE);
	assert_int_equal(text[strlen(text) - 1], 'Z');
}

TEST(durations_are_written_for_people)
{
	static const struct {
		uint64_t us;
		const char *expected;
	} cases[] = {
		{0, "0ms"},
		{999, "0ms"},
		{1000, "1ms"},
		{999999, "999ms"},
		{1000000, "1s"},
		{59999999, "59s"},
		{60000000, "1m00s"},
		{250000000, "4m10s"},
		{3599999999, "59m59s"},
		{3600000000, "1h00m"},
		{11100000000, "3h05m"},
		{86399999999, "23h59m"},
		{86400000000, "1d0h"},
		{187200000000, "2d4h"},
		{UINT64_MAX, "213503982d8h"},
	};
	char text[CLOCK_TEXT_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(clock_format_duration(cases[i].us, text), cases[i].expected);
}

TEST(clocks_agree_with_the_system)
{
	uint64_t first = clock_monotonic_us();
	struct timespec monotonic;

	(void)clock_gettime(CLOCK_MONOTONIC, &monotonic);
	assert_in_range((uint64_t)monotonic.tv_sec * USEC_PER_SEC + (uint64_t)monotonic.tv_nsec / 1000, first,
			clock_monotonic_us());
	assert_in_range(clock_realtime_ms() / 1000, time(NULL) - 1, time(NULL) + 1);
}
