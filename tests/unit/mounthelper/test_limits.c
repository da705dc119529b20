#include "limits.h"
#include "unit.h"

#include "base/clock.h"

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
		assert_true(rate_take(&rate, UINT64_MAX));
	assert_false(rate_take(&rate, UINT64_MAX));
	assert_false(rate_take(&rate, 5)); /* a clock that goes back gives nothing */
}

static void the_first_20_refusals_are_recorded_and_the_200th_ends(void **state)
{
	struct refusals refusals = {0};
	const uint64_t now = 500;

	(void)state;
	for (int i = 1; i <= 200; i++) {
		enum refusal_action action = refusals_add(&refusals, now + (uint64_t)i);

		assert_int_equal(action, i <= REFUSALS_RECORDED ? REFUSAL_RECORD
					 : i < REFUSALS_MAX	? REFUSAL_COUNT
								: REFUSAL_END);
	}
	assert_int_equal(refusals_take_summary(&refusals, now + 300, false), 0);
	assert_int_equal(refusals_take_summary(&refusals, now + 300, true), 180);
	assert_int_equal(refusals_take_summary(&refusals, now + 300, true), 0);
}

static void a_window_lasts_ten_seconds_and_then_starts_afresh(void **state)
{
	struct refusals refusals = {0};

	(void)state;
	for (int i = 0; i < 199; i++)
		(void)refusals_add(&refusals, 100);
	assert_int_equal(refusals_take_summary(&refusals, 100 + REFUSAL_WINDOW_US - 1, false), 0);
	assert_int_equal(refusals_take_summary(&refusals, 100 + REFUSAL_WINDOW_US, false), 179);
	assert_int_equal(refusals_add(&refusals, 100 + REFUSAL_WINDOW_US), REFUSAL_RECORD);
	for (int i = 0; i < 19; i++)
		assert_int_equal(refusals_add(&refusals, 100 + REFUSAL_WINDOW_US), REFUSAL_RECORD);
	assert_int_equal(refusals_add(&refusals, 100 + REFUSAL_WINDOW_US), REFUSAL_COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_then_the_steady_rate),
		cmocka_unit_test(rest_fills_the_bucket_no_further_than_the_burst),
		cmocka_unit_test(the_first_20_refusals_are_recorded_and_the_200th_ends),
		cmocka_unit_test(a_window_lasts_ten_seconds_and_then_starts_afresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
