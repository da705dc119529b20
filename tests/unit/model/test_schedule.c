/* SPDX-License-Identifier: Apache-2.0 */
/* What a schedule does next. */

#include "fixture.h"

#include "model/schedule.h"

enum { EVERY = 1000, KEEP = 2, MOST = 4, ROUNDS = 20000 };

#define ASKED(slot)                           \
	{                                     \
		slot, SCHEDULE_SNAPSHOT_ASKED \
	}
#define NOT_READY(slot)                           \
	{                                         \
		slot, SCHEDULE_SNAPSHOT_NOT_READY \
	}
#define DELETING(slot)                           \
	{                                        \
		slot, SCHEDULE_SNAPSHOT_DELETING \
	}
#define READY(slot)                           \
	{                                     \
		slot, SCHEDULE_SNAPSHOT_READY \
	}

static const struct schedule_policy policy = {.every_ms = EVERY, .keep = KEEP};

TEST(each_set_of_snapshots_has_one_next_step)
{
	static const struct {
		const char *name;
		int64_t now;
		struct schedule_snapshot existing[MOST];
		size_t n;
		struct schedule_step step;
	} cases[] = {
		{"the first one is due at once", 5300, {{0}}, 0, {SCHEDULE_MAKE, 0, 5300}},
		{"the next one is a period later", 6299, {READY(5300)}, 1, {SCHEDULE_WAIT, 0, 6300}},
		{"it keeps the row when it is late", 6950, {READY(5300)}, 1, {SCHEDULE_MAKE, 0, 6300}},
		{"those that passed are skipped", 9400, {READY(5300)}, 1, {SCHEDULE_MAKE, 0, 9300}},
		{"an unfinished one is continued", 5400, {ASKED(5300)}, 1, {SCHEDULE_RESUME, 0, 5300}},
		{"and takes the newest time of the row",
		 7400,
		 {READY(4300), ASKED(5300)},
		 2,
		 {SCHEDULE_RESUME, 1, 7300}},
		{"one that is not ready keeps its time",
		 7400,
		 {NOT_READY(5300)},
		 1,
		 {SCHEDULE_RESUME, 0, 5300}},
		{"as many as are kept stay", 5400, {READY(4300), READY(5300)}, 2, {SCHEDULE_WAIT, 1, 6300}},
		{"of more the oldest goes",
		 5400,
		 {READY(3300), READY(4300), READY(5300)},
		 3,
		 {SCHEDULE_REMOVE, 0, 6300}},
		{"none goes for one that failed",
		 5400,
		 {READY(3300), READY(4300), ASKED(5300)},
		 3,
		 {SCHEDULE_RESUME, 2, 5300}},
		{"none goes for one that is not ready",
		 5400,
		 {READY(3300), READY(4300), NOT_READY(5300)},
		 3,
		 {SCHEDULE_RESUME, 2, 5300}},
		{"the oldest goes before the next one is made",
		 6300,
		 {READY(3300), READY(4300), READY(5300)},
		 3,
		 {SCHEDULE_REMOVE, 0, 6300}},
		{"a removal that began is finished, also within the kept ones",
		 5400,
		 {READY(3300), DELETING(4300), READY(5300)},
		 3,
		 {SCHEDULE_REMOVE, 1, 6300}},
		{"one that is being removed is no ready one",
		 6300,
		 {READY(3300), READY(4300), READY(5300), DELETING(6300)},
		 4,
		 {SCHEDULE_REMOVE, 3, 7300}},
		{"a clock that is a little behind makes no second one",
		 5000,
		 {READY(5300)},
		 1,
		 {SCHEDULE_WAIT, 0, 6300}},
		{"one from the far future is not looked at",
		 5000,
		 {READY(3300), READY(900000)},
		 2,
		 {SCHEDULE_MAKE, 0, 4300}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct schedule_step step =
			schedule_next(&policy, cases[i].existing, cases[i].n, cases[i].now);
		bool has_index = step.action == SCHEDULE_RESUME || step.action == SCHEDULE_REMOVE;

		if (step.action != cases[i].step.action || step.time_ms != cases[i].step.time_ms ||
		    (has_index && step.i != cases[i].step.i))
			fail_msg("%s: %d of %zu at %lld", cases[i].name, (int)step.action, step.i,
				 (long long)step.time_ms);
	}
}

/* A provider that fails at random: no step removes one of the last ready snapshots, two have never one time,
 * and between two looks at most one is made for each period. */
TEST(a_schedule_keeps_the_last_good_ones_whatever_fails)
{
	struct schedule_snapshot existing[MOST] = {{0}};
	int64_t now = 7000, newest_ready = 0;
	uint64_t seed = 17;
	size_t n = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct schedule_step step = schedule_next(&policy, existing, n, now);
		unsigned int dice;

		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		dice = (unsigned int)(seed >> 33);
		if (step.action == SCHEDULE_MAKE) {
			assert_true(n == 0 || step.time_ms >= existing[n - 1].slot_ms + EVERY);
			assert_true(n <= KEEP);
			existing[n++] = (struct schedule_snapshot){step.time_ms, SCHEDULE_SNAPSHOT_ASKED};
		} else if (step.action == SCHEDULE_RESUME) {
			assert_int_equal(step.i, n - 1);
			existing[step.i] = (struct schedule_snapshot){
				step.time_ms, (enum schedule_snapshot_state)(dice % 3)};
			if (existing[step.i].state == SCHEDULE_SNAPSHOT_READY)
				newest_ready = step.time_ms;
		} else if (step.action == SCHEDULE_REMOVE) {
			assert_true(n > KEEP || existing[step.i].state == SCHEDULE_SNAPSHOT_DELETING);
			assert_true(existing[step.i].slot_ms < newest_ready);
			existing[step.i].state = SCHEDULE_SNAPSHOT_DELETING;
			now += dice % 900;
			if (dice % 4 == 0)
				continue;
			for (size_t k = step.i; k + 1 < n; k++)
				existing[k] = existing[k + 1];
			n--;
		} else {
			assert_true(step.time_ms > now);
		}
		now += dice % 900;
	}
	assert_true(n >= KEEP);
}

TEST(a_failed_removal_waits_while_a_snapshot_is_due)
{
	static const struct schedule_policy fails = {.every_ms = EVERY, .keep = KEEP, .cannot_remove = true};
	static const struct schedule_snapshot existing[] = {READY(3300), READY(4300), READY(5300)};

	assert_int_equal(schedule_next(&fails, existing, ARRAY_SIZE(existing), 6299).action, SCHEDULE_REMOVE);
	assert_int_equal(schedule_next(&fails, existing, ARRAY_SIZE(existing), 6300).action, SCHEDULE_MAKE);
}

TEST(a_snapshot_that_cannot_be_removed_does_not_keep_the_others)
{
	static const struct schedule_policy fails = {.every_ms = EVERY, .keep = KEEP, .cannot_remove = true};
	static const struct schedule_snapshot many[] = {DELETING(2300), READY(3300), READY(4300),
							READY(5300)};
	static const struct schedule_snapshot few[] = {DELETING(3300), READY(4300), READY(5300)};

	assert_int_equal(schedule_next(&policy, many, ARRAY_SIZE(many), 5400).i, 0);
	assert_int_equal(schedule_next(&fails, many, ARRAY_SIZE(many), 5400).i, 1);
	assert_int_equal(schedule_next(&fails, few, ARRAY_SIZE(few), 5400).i, 0);
}
