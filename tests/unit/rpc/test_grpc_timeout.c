/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/grpc_timeout.h"

TEST(timeouts_are_read_with_every_unit)
{
	static const struct row {
		const char *text;
		uint64_t us;
	} rows[] = {
		{"0u", 0},
		{"1u", 1},
		{"0n", 0},
		{"1n", 1},
		{"1000n", 1},
		{"1001n", 2},
		{"4991m", 4991000},
		{"5S", 5000000},
		{"2M", 120000000},
		{"1H", UINT64_C(3600000000)},
		{"99999999H", UINT64_C(359999996400000000)},
		{"00000001S", 1000000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t us = 77;

		assert_int_equal(grpc_timeout_parse(rows[i].text, strlen(rows[i].text), &us), 0);
		assert_int_equal(us, rows[i].us);
	}
}

TEST(malformed_timeouts_are_refused_and_nothing_is_written)
{
	static const char *const texts[] = {"",		 "S",	 "5",	"5s",	    "5 S", " 5S",
					    "5S ",	 "-5S",	 "+5S", "5SS",	    "x5S", "123456789S",
					    "123456789", "0x5S", "5h",	"\xff\xffS"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		uint64_t us = 77;

		assert_int_equal(grpc_timeout_parse(texts[i], strlen(texts[i]), &us), -EINVAL);
		assert_int_equal(us, 77);
	}
}

TEST(the_text_is_never_read_past_its_length)
{
	uint64_t us = 0;

	assert_int_equal(grpc_timeout_parse("12S34", 3, &us), 0);
	assert_int_equal(us, 12000000);
	assert_int_equal(grpc_timeout_parse("12S", 2, &us), -EINVAL);
}

TEST(formatted_timeouts_read_back_equal_or_rounded_up)
{
	static const uint64_t values[] = {0,
					  1,
					  99999998,
					  99999999,
					  100000000,
					  100000001,
					  5000000,
					  99999999000,
					  99999999001,
					  UINT64_C(1) << 40,
					  UINT64_C(1) << 50,
					  UINT64_C(359999996400000000)};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		char text[GRPC_TIMEOUT_SIZE];
		uint64_t us = 0;

		(void)grpc_timeout_format(values[i], text);
		assert_true(strlen(text) <= 9);
		assert_int_equal(grpc_timeout_parse(text, strlen(text), &us), 0);
		assert_true(us >= values[i]);
		assert_true(us - values[i] <= values[i] / 10000);
	}
}

TEST(an_oversized_timeout_becomes_the_longest)
{
	char text[GRPC_TIMEOUT_SIZE];

	assert_string_equal(grpc_timeout_format(UINT64_MAX, text), "99999999H");
	assert_string_equal(grpc_timeout_format(100000000, text), "100000m");
	assert_string_equal(grpc_timeout_format(99999999, text), "99999999u");
}
