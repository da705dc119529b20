/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/backoff.h"

TEST(delays_grow_to_the_cap_and_stay_within_their_half)
{
	static const uint32_t randoms[] = {0, 1, UINT32_MAX / 2, UINT32_MAX - 1, UINT32_MAX};

	for (size_t i = 0; i < sizeof(randoms) / sizeof(*randoms); i++) {
		struct backoff backoff = BACKOFF_INIT(200000, 15000000);
		uint64_t whole = 200000;

		for (int n = 0; n < 100; n++) {
			uint64_t delay = backoff_next(&backoff, randoms[i]);

			assert_in_range(delay, whole / 2, whole);
			whole = whole * 2 > 15000000 ? 15000000 : whole * 2;
		}
	}
}

TEST(jitter_reaches_both_ends)
{
	struct backoff low = BACKOFF_INIT(1000, 8000);
	struct backoff high = BACKOFF_INIT(1000, 8000);

	assert_int_equal(backoff_next(&low, 0), 500);
	assert_int_equal(backoff_next(&high, UINT32_MAX), 1000);
}

TEST(a_success_starts_from_the_shortest_delay)
{
	struct backoff backoff = BACKOFF_INIT(1000, 8000);

	for (int n = 0; n < 5; n++)
		(void)backoff_next(&backoff, 0);
	assert_int_equal(backoff.attempts, 5);
	backoff_reset(&backoff);
	assert_int_equal(backoff_next(&backoff, UINT32_MAX), 1000);
}

TEST(the_largest_values_do_not_overflow)
{
	struct backoff backoff = BACKOFF_INIT(UINT64_C(1) << 31, UINT64_C(1) << 32);

	backoff.attempts = UINT32_MAX;
	assert_int_equal(backoff_next(&backoff, UINT32_MAX), UINT64_C(1) << 32);
	assert_int_equal(backoff.attempts, UINT32_MAX);
}

TEST(chances_differ)
{
	uint32_t all = 0;

	for (int i = 0; i < 64; i++)
		all |= backoff_random();
	assert_int_not_equal(all, 0);
}
