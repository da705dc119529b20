/* SPDX-License-Identifier: Apache-2.0 */
/* Turns in the order of names. */

#include "unit.h"

#include "base/turn.h"

TEST(turns_go_round_and_end_at_the_last_one)
{
	static const char *const names[] = {"", "a", "b", "c"};

	for (size_t last = 0; last < ARRAY_SIZE(names); last++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
				size_t first = (i + 3 - last) % 4, second = (k + 3 - last) % 4;
				int c = turn_compare(names[last], names[i], names[k]);

				assert_int_equal((c > 0) - (c < 0), (first > second) - (first < second));
			}
}

TEST(one_that_had_a_turn_and_is_gone_is_passed_over)
{
	assert_true(turn_compare("b", "c", "a") < 0);
	assert_true(turn_compare("d", "a", "c") < 0);
}
