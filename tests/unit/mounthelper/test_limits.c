#include "limits.h"
#include "unit.h"

static void the_first_20_refusals_are_recorded_and_the_others_summed_up(void **state)
{
	struct refusals refusals = {0};
	const uint64_t now = 500;

	(void)state;
	for (uint32_t i = 1; i <= REFUSALS_MAX; i++) {
		assert_int_equal(refusals_add(&refusals, now + (uint64_t)i), i <= REFUSALS_RECORDED);
		assert_int_equal(refusals.count, i);
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
	assert_true(refusals_add(&refusals, 100 + REFUSAL_WINDOW_US));
	for (int i = 0; i < 19; i++)
		assert_true(refusals_add(&refusals, 100 + REFUSAL_WINDOW_US));
	assert_false(refusals_add(&refusals, 100 + REFUSAL_WINDOW_US));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_20_refusals_are_recorded_and_the_others_summed_up),
		cmocka_unit_test(a_window_lasts_ten_seconds_and_then_starts_afresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
