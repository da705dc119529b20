/* SPDX-License-Identifier: Apache-2.0 */
#include "cmocka_all.h"

#include "base/backoff.h"

static void delays_grow_to_the_cap_and_stay_within_their_half(void **state)
{
	static const uint32_t randoms[] = {0, 1, UINT32_MAX / 2, UINT32_MAX - 1, UINT32_MAX};

	(void)state;
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

static void jitter_reaches_both_ends(void **state)
{
	struct backoff low = BACKOFF_INIT(1000, 8000);
	struct backoff high = BACKOFF_INIT(1000, 8000);

	(void)state;
	assert_int_equal(backoff_next(&low, 0), 500);
	assert_int_equal(backoff_next(&high, UINT32_MAX), 1000);
}

static void a_success_starts_from_the_shortest_delay(void **state)
{
	struct backoff backoff = BACKOFF_INIT(1000, 8000);

	(void)state;
	for (int n = 0; n < 5; n++)
		(void)backoff_next(&backoff, 0);
	assert_int_equal(backoff.attempts, 5);
	backoff_reset(&backoff);
	assert_int_equal(backoff_next(&backoff, UINT32_MAX), 1000);
}

static void the_largest_values_do_not_overflow(void **state)
{
	struct backoff backoff = BACKOFF_INIT(UINT64_C(1) << 31, UINT64_C(1) << 32);

	(void)state;
	backoff.attempts = UINT32_MAX;
	assert_int_equal(backoff_next(&backoff, UINT32_MAX), UINT64_C(1) << 32);
	assert_int_equal(backoff.attempts, UINT32_MAX);
}

static void chances_differ(void **state)
{
	uint32_t all = 0;

	(void)state;
	for (int i = 0; i < 64; i++)
		all |= backoff_random();
	assert_int_not_equal(all, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_grow_to_the_cap_and_stay_within_their_half),
		cmocka_unit_test(jitter_reaches_both_ends),
		cmocka_unit_test(a_success_starts_from_the_shortest_delay),
		cmocka_unit_test(the_largest_values_do_not_overflow),
		cmocka_unit_test(chances_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
