/* SPDX-License-Identifier: Apache-2.0 */
/* How often a task is restarted, by rows and by a model of the rule. */
#include "fixture.h"

#include "model/restart.h"

typedef Holdfast__Driver__V1__RestartPolicy policy_t;

#define NEVER HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_NEVER
#define ON_FAILURE HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_ON_FAILURE
#define FAIL HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL
#define DELAY HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_DELAY

static policy_t policy(Holdfast__Driver__V1__RestartMode mode, uint32_t attempts, uint32_t interval_ms,
		       uint32_t delay_ms)
{
	policy_t one = PB(holdfast__driver__v1__restart_policy, .mode = mode, .attempts = attempts,
			  .interval_ms = interval_ms, .delay_ms = delay_ms);

	return one;
}

TEST(a_failure_is_followed_by_a_restart_as_its_row_says)
{
	static const struct {
		Holdfast__Driver__V1__RestartMode mode;
		uint32_t attempts, interval_ms, delay_ms;
		struct {
			int64_t at_ms, delay_ms;
		} failures[5];
	} rows[] = {
		{NEVER, 2, 1000, 10, {{5, -1}}},
		{FAIL, 0, 1000, 10, {{5, -1}}},
		{ON_FAILURE, 1, 1000, 10, {{5, 10}, {20, -1}}},
		{FAIL, 2, 1000, 10, {{5, 10}, {20, 10}, {40, -1}}},
		{FAIL,
		 2,
		 1000,
		 10,
		 {{5, 10}, {20, 10}, {1004, -1}, {1005, 10}, {1006, 10}}}, /* another interval */
		{DELAY,
		 1,
		 1000,
		 10,
		 {{5, 10}, {20, 985}, {1006, 999}}},	     /* the wait counts for the next one */
		{DELAY, 1, 1000, 10, {{5, 10}, {1000, 10}}}, /* no less than the delay */
		{FAIL, 1, 1000, 10, {{500, 10}, {400, 10}}}, /* the clock went back */
		{FAIL, 1, 0, 10, {{5, 10}, {1799999, -1}, {1800005, 10}}}, /* 30 min */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		policy_t one = policy(rows[i].mode, rows[i].attempts, rows[i].interval_ms, rows[i].delay_ms);
		struct restart_count count = {0};

		for (size_t k = 0; k < ARRAY_SIZE(rows[i].failures) && rows[i].failures[k].at_ms != 0; k++) {
			int64_t delay_ms = restart_next(&one, &count, rows[i].failures[k].at_ms);

			if (delay_ms != rows[i].failures[k].delay_ms)
				fail_msg("row %zu, failure %zu: %lld", i, k, (long long)delay_ms);
		}
	}
	assert_false(restart_is_wanted(NULL));
	assert_true(restart_next(NULL, &(struct restart_count){0}, 1) < 0);
}

enum { STEPS = 20000, ATTEMPTS = 3, INTERVAL_MS = 500, DELAY_MS = 20 };

/* Whatever the times are, no interval has more restarts than attempts, and mode fail ends for good only after
 * that many. */
TEST(no_interval_has_more_restarts_than_attempts)
{
	for (int mode = FAIL; mode <= DELAY; mode++) {
		policy_t one =
			policy((Holdfast__Driver__V1__RestartMode)mode, ATTEMPTS, INTERVAL_MS, DELAY_MS);
		struct restart_count count = {0};
		int64_t now_ms = 1, since_ms = 0;
		uint32_t seed = 7, n = 0;

		for (size_t i = 0; i < STEPS; i++) {
			int64_t delay_ms = restart_next(&one, &count, now_ms);

			if (since_ms == 0 || count.since_ms != since_ms)
				n = 0;
			since_ms = count.since_ms;
			if (delay_ms >= 0)
				assert_true(++n <= ATTEMPTS && delay_ms >= DELAY_MS);
			else
				assert_true(mode == FAIL && n == ATTEMPTS);
			seed = seed * 1664525 + 1013904223;
			now_ms += (delay_ms < 0 ? 0 : delay_ms) + (seed >> 24);
		}
	}
}
