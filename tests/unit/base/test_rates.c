/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rates.h"
#include "base/str.h"

#include <malloc.h>

enum { BURST = 3 };

static bool take(struct rates *rates, const char *name, uint64_t now_us)
{
	return rates_take(rates, name, USEC_PER_SEC, BURST, now_us);
}

TEST(each_name_has_a_rate_of_its_own)
{
	struct rates *rates = NON_NULL(rates_new());

	for (int i = 0; i < BURST; i++)
		assert_true(take(rates, "a", 1));
	assert_false(take(rates, "a", 1));
	assert_true(take(rates, "b", 1));
	assert_false(take(rates, "a", USEC_PER_SEC)); /* also after others have asked */
	assert_true(take(rates, "a", USEC_PER_SEC + 1));
	assert_false(take(rates, "a", USEC_PER_SEC + 1));
	rates_free(rates);
	rates_free(NULL);
}

TEST(a_name_pays_more_later_and_others_do_not)
{
	struct rates *rates = NON_NULL(rates_new());

	assert_true(take(rates, "a", 1));
	assert_true(take(rates, "b", 1));
	rates_add(rates, "a", 5 * USEC_PER_SEC);
	assert_true(take(rates, "b", 1));
	assert_false(take(rates, "a", 3 * USEC_PER_SEC));
	assert_true(take(rates, "a", 4 * USEC_PER_SEC + 1));
	rates_free(rates);
}

TEST(a_name_that_owes_nothing_takes_no_memory)
{
	struct rates *rates = NON_NULL(rates_new());
	size_t before;

	assert_true(take(rates, "first", 1));
	before = mallinfo2().uordblks;
	for (uint64_t i = 1; i <= 1000; i++) {
		char name[32];

		(void)str_format(name, sizeof(name), "name-%llu", (unsigned long long)i);
		assert_true(take(rates, name, i * 10 * USEC_PER_SEC));
	}
	assert_in_range(mallinfo2().uordblks, 0, before + 1024);
	for (int i = 1; i < BURST; i++)
		assert_true(take(rates, "name-1000", 10000 * USEC_PER_SEC));
	assert_false(take(rates, "name-1000", 10000 * USEC_PER_SEC)); /* it owes, and is kept */
	rates_free(rates);
}
