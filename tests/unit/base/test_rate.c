/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "base/rate.h"

static void a_burst_then_the_steady_rate(void **state)
{
	struct rate rate;
	uint64_t now = 1000000;

	(void)state;
	rate_init(&rate, 20, 5, now);
	for (int i = 0; i < 5; i++)
		assert_true(rate_take(&rate, now));
	assert_false(rate_take(&rate, now));
	now += USEC_PER_SEC / 20 - 1;
	assert_false(rate_take(&rate, now));
	now += 1;
	assert_true(rate_take(&rate, now));
	assert_false(rate_take(&rate, now));
}

static void rest_fills_the_bucket_no_further_than_the_burst(void **state)
{
	struct rate rate;

	(void)state;
	rate_init(&rate, 1000, 3, 0);
	for (uint64_t now = 0; now < 100; now += 100 * USEC_PER_SEC) {
		for (int i = 0; i < 3; i++)
			assert_true(rate_take(&rate, now));
		assert_false(rate_take(&rate, now));
	}
	for (int i = 0; i < 3; i++)
		assert_true(rate_take(&rate, UINT64_MAX / 2));
	assert_false(rate_take(&rate, UINT64_MAX / 2));
	assert_false(rate_take(&rate, 5)); /* a clock that goes back gives nothing */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_then_the_steady_rate),
		cmocka_unit_test(rest_fills_the_bucket_no_further_than_the_burst),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
