#include "fixture.h"
#include "state.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct state_limits plenty = {.max_staged = UINT32_MAX, .max_tmpfs_total = UINT64_MAX};
static struct state_table *table;
static uint8_t digest[TICKET_DIGEST_SIZE] = {1, 2, 3};

static int setup(void **state)
{
	(void)state;
	table = calloc(1, sizeof(*table));
	state_open(table, FIXTURE_BOOT_ID);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(table);
	return 0;
}

static int admit(const char *volume, uint64_t generation)
{
	return state_admit(table, volume, generation, FIXTURE_NOW_MS + 1000, FIXTURE_NOW_MS);
}

static int begin_stage(const char *volume, uint64_t tmpfs_bytes, const struct state_limits *limits)
{
	return state_begin_stage(table, volume, tmpfs_bytes, limits, FIXTURE_NOW_MS);
}

static void a_lower_generation_is_stale_an_equal_one_is_not(void **state)
{
	(void)state;
	assert_int_equal(admit("a", 5), 0);
	assert_int_equal(admit("a", 5), 0);
	assert_int_equal(admit("a", 4), -ESTALE);
	assert_int_equal(admit("a", 6), 0);
	assert_int_equal(admit("a", 5), -ESTALE);
	assert_int_equal(admit("b", 1), 0);
	assert_int_equal(admit("a", UINT64_MAX), 0);
	assert_int_equal(admit("a", 0), -ESTALE);
}

static void an_empty_table_admits_generation_zero(void **state)
{
	(void)state;
	assert_int_equal(admit("a", 0), 0);
}

static void the_same_boot_keeps_the_table_and_another_empties_it(void **state)
{
	(void)state;
	assert_int_equal(admit("a", 5), 0);
	state_open(table, FIXTURE_BOOT_ID);
	assert_int_equal(admit("a", 4), -ESTALE);
	state_open(table, "1d3b9a4c-1111-4222-8333-444455556666");
	assert_int_equal(admit("a", 4), 0);
}

static void another_format_empties_the_table(void **state)
{
	uint32_t *const fields[] = {&table->header.magic, &table->header.version, &table->header.slots,
				    &table->header.slot_size};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		assert_int_equal(admit("a", 5), 0);
		*fields[i] ^= 1;
		state_open(table, FIXTURE_BOOT_ID);
		assert_int_equal(admit("a", 4), 0);
	}
	memset(table->header.boot_id, 'a', sizeof(table->header.boot_id));
	state_open(table, FIXTURE_BOOT_ID);
	assert_int_equal(admit("a", 1), 0);
}

static void fill(uint64_t not_after_ms)
{
	char name[16];

	for (int i = 0; i < STATE_SLOTS; i++) {
		(void)str_format(name, sizeof(name), "v%d", i);
		assert_int_equal(state_admit(table, name, 9, not_after_ms, FIXTURE_NOW_MS), 0);
	}
}

static void a_full_table_takes_no_new_volume_but_serves_the_old_ones(void **state)
{
	(void)state;
	fill(FIXTURE_NOW_MS);
	assert_int_equal(admit("new", 1), -ENOSPC);
	assert_int_equal(begin_stage("new", 0, &plenty), -ENOSPC);
	assert_null(state_find(table, "new"));
	assert_int_equal(admit("v17", 10), 0);
	assert_int_equal(admit("v17", 9), -ESTALE);
}

static void a_slot_is_reused_only_when_its_newest_ticket_is_over(void **state)
{
	(void)state;
	fill(FIXTURE_NOW_MS);
	assert_int_equal(state_admit(table, "v7", 10, FIXTURE_NOW_MS + 5000, FIXTURE_NOW_MS), 0);
	/* an older ticket with an earlier end does not shorten it */
	assert_int_equal(state_admit(table, "v7", 10, FIXTURE_NOW_MS + 1, FIXTURE_NOW_MS), 0);
	for (int i = 0; i < STATE_SLOTS - 1; i++) {
		char name[16];

		(void)str_format(name, sizeof(name), "w%d", i);
		assert_int_equal(state_admit(table, name, 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 1), 0);
	}
	assert_int_equal(state_admit(table, "x", 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5000), -ENOSPC);
	assert_int_equal(state_admit(table, "v7", 9, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5000), -ESTALE);
	assert_int_equal(state_admit(table, "x", 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5001), 0);
	assert_int_equal(state_admit(table, "v7", 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5001), -ENOSPC);
}

static void staged_sources_are_remembered_and_forgotten(void **state)
{
	const struct state_slot *slot;

	(void)state;
	assert_null(state_find(table, "a"));
	assert_int_equal(admit("a", 5), 0);
	assert_int_equal(state_find(table, "a")->stage, STATE_UNSTAGED);
	assert_int_equal(begin_stage("a", 0, &plenty), 0);
	assert_int_equal(state_find(table, "a")->stage, STATE_STAGING);
	state_set_staged(table, "a", "db", digest);
	slot = state_find(table, "a");
	assert_int_equal(slot->stage, STATE_STAGED);
	assert_string_equal(slot->profile, "db");
	assert_memory_equal(slot->source_digest, digest, sizeof(digest));
	state_clear_staged(table, "a");
	assert_int_equal(state_find(table, "a")->stage, STATE_UNSTAGED);
	assert_int_equal(admit("a", 4), -ESTALE);
	state_clear_staged(table, "never-seen");
}

static void a_staged_or_published_volume_keeps_its_slot(void **state)
{
	(void)state;
	fill(FIXTURE_NOW_MS);
	for (int i = 0; i < STATE_SLOTS; i++) {
		if (i == 100)
			continue;
		if (i % 2 == 0)
			assert_int_equal(begin_stage(table->slot[i].volume, 0, &plenty), 0);
		else
			assert_int_equal(state_begin_publish(table, table->slot[i].volume, 1, UINT32_MAX), 0);
	}
	assert_int_equal(state_admit(table, "new", 1, FIXTURE_NOW_MS + 9, FIXTURE_NOW_MS + 1), 0);
	assert_string_equal(table->slot[100].volume, "new");
	assert_int_equal(state_find(table, "new")->stage, STATE_UNSTAGED);
	assert_int_equal(state_admit(table, "newer", 1, FIXTURE_NOW_MS + 9, FIXTURE_NOW_MS + 1), -ENOSPC);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_lower_generation_is_stale_an_equal_one_is_not),
		TEST(an_empty_table_admits_generation_zero),
		TEST(the_same_boot_keeps_the_table_and_another_empties_it),
		TEST(another_format_empties_the_table),
		TEST(a_full_table_takes_no_new_volume_but_serves_the_old_ones),
		TEST(a_slot_is_reused_only_when_its_newest_ticket_is_over),
		TEST(staged_sources_are_remembered_and_forgotten),
		TEST(a_staged_or_published_volume_keeps_its_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
