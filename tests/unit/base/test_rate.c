/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "base/rate.h"

TEST(a_burst_then_the_steady_rate)
{
	struct rate rate;
	uint64_t now = 1000000;

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

TEST(rest_fills_the_bucket_no_further_than_the_burst)
{
	struct rate rate;

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
