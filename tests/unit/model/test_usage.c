/* SPDX-License-Identifier: Apache-2.0 */
/* How full a volume counts as, by rows. */
#include "fixture.h"

#include "model/usage.h"

#include <stdint.h>

typedef Holdfast__V1__VolumeUsage usage_t;

static usage_t usage_of(uint64_t total, uint64_t used, uint64_t free)
{
	usage_t usage = V1(volume_usage, .total_bytes = total, .used_bytes = used, .free_bytes = free);

	return usage;
}

TEST(the_percentage_is_rounded_up_and_takes_the_fuller_of_bytes_and_inodes)
{
	static const struct {
		uint64_t total, used, free, inodes, used_inodes, free_inodes;
		uint32_t percent;
	} rows[] = {
		{0, 0, 0, 0, 0, 0, 0},
		{0, 5, 5, 0, 0, 0, 0}, /* unknown */
		{1000, 0, 1000, 0, 0, 0, 0},
		{1000, 1, 999, 0, 0, 0, 1},
		{1000, 900, 100, 0, 0, 0, 90},
		{1000, 901, 99, 0, 0, 0, 91},
		{1000, 900, 0, 0, 0, 0, 100}, /* the rest is reserved for root */
		{1000, 100, 900, 10, 9, 1, 90},
		{1000, 950, 50, 10, 9, 1, 95},
		{1000, 100, 900, 0, 9, 1, 10}, /* no limit of inodes */
		{UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 0, 0, 50},
		{UINT64_MAX, UINT64_MAX, 0, 0, 0, 0, 100},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		usage_t usage = usage_of(rows[i].total, rows[i].used, rows[i].free);

		usage.total_inodes = rows[i].inodes;
		usage.used_inodes = rows[i].used_inodes;
		usage.free_inodes = rows[i].free_inodes;
		if (usage_percent(&usage) != rows[i].percent)
			fail_msg("row %zu: %u %%", i, usage_percent(&usage));
	}
}

TEST(a_volume_is_full_from_its_level_on_and_until_it_is_five_percent_below)
{
	static const struct {
		uint32_t percent, warn_at;
		bool was_full, is_full;
	} rows[] = {
		{89, 0, false, false}, {90, 0, false, true},	{86, 0, true, true},	 {85, 0, true, true},
		{84, 0, true, false},  {49, 50, false, false},	{50, 50, false, true},	 {45, 50, true, true},
		{44, 50, true, false}, {99, 100, false, false}, {100, 100, false, true}, {0, 3, true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		usage_t usage = usage_of(100, rows[i].percent, 100 - rows[i].percent);

		if (usage_is_full(&usage, rows[i].warn_at, rows[i].was_full) != rows[i].is_full)
			fail_msg("row %zu", i);
	}
}

TEST(a_volume_is_full_also_where_the_totals_of_a_node_overflow_together)
{
	usage_t usage = usage_of(1, 1, 0);

	usage.total_inodes = UINT64_MAX;
	usage.free_inodes = UINT64_MAX;
	assert_true(usage_is_full(&usage, 90, false));
}

TEST(a_volume_of_unknown_usage_is_not_full)
{
	usage_t unknown = HOLDFAST__V1__VOLUME_USAGE__INIT;

	assert_false(usage_is_full(&unknown, 1, false));
	assert_false(usage_is_full(&unknown, 1, true));
}

TEST(only_changes_of_more_than_one_percent_or_of_the_condition_count)
{
	usage_t a = usage_of(1000, 500, 500), b = a;

	assert_false(usage_differs(&a, &b));
	b.used_bytes = 510;
	assert_false(usage_differs(&a, &b));
	b.used_bytes = 511;
	assert_true(usage_differs(&a, &b));
	assert_true(usage_differs(&b, &a));
	b = a;
	b.free_bytes = 480;
	assert_true(usage_differs(&a, &b));
	b = a;
	b.total_bytes = 1001;
	assert_true(usage_differs(&a, &b));
	b = a;
	b.used_inodes = 1; /* there is no limit of them: each counts */
	assert_true(usage_differs(&a, &b));
	b = a;
	b.read_only = true;
	assert_true(usage_differs(&a, &b));
	b = a;
	b.condition = "read-only";
	assert_true(usage_differs(&a, &b));
	b = a;
	b.unknown_since_ms = 5;
	assert_true(usage_differs(&a, &b));
	a.unknown_since_ms = 9; /* since when is no change */
	assert_false(usage_differs(&a, &b));
}
