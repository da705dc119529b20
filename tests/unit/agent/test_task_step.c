/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for the steps of a unit. Each step is in tests/golden/steps.txt. */

#include "unit.h"

#include "unit/task_step.h"

/* The promise: volumes go only when the unit is down. */
TEST(a_stopping_unit_has_stopped_only_when_down)
{
	for (int event = 0; event < TASK_EVENT_N; event++) {
		struct task_step step = task_step(TASK_STOPPING, (enum task_event)event);
		bool is_down = event == TASK_SEES_ABSENT || event == TASK_SEES_IDLE ||
			       event == TASK_SEES_ENDED || event == TASK_SEES_FAILED;

		assert_int_equal(step.action == TASK_DO_STOPPED, is_down);
		assert_int_equal(step.state, is_down ? TASK_OVER : TASK_STOPPING);
		if (event >= TASK_SEES_QUEUED && event <= TASK_SEES_GOING && !is_down)
			assert_int_equal(step.action, TASK_DO_STOP);
	}
}

TEST(an_unknown_unit_state_changes_nothing)
{
	for (int from = 0; from < TASK_STATE_N; from++) {
		struct task_step step = task_step((enum task_state)from, TASK_SEES_UNKNOWN);

		assert_int_equal(step.state, from);
		assert_int_equal(step.action, TASK_DO_NOTHING);
	}
}

/* Only journalled starts are asked for, only from two places; what is over stays so. */
TEST(a_start_follows_the_journal_alone)
{
	for (int from = 0; from < TASK_STATE_N; from++)
		for (int event = 0; event < TASK_EVENT_N; event++) {
			struct task_step step = task_step((enum task_state)from, (enum task_event)event);
			bool may = (from == TASK_FIRST && event == TASK_EVENT_JOURNALLED) ||
				   (from == TASK_RESUMED && event == TASK_SEES_IDLE);

			assert_int_equal(step.action == TASK_DO_START, may);
			if (step.action == TASK_DO_STOP)
				assert_int_equal(from, TASK_STOPPING);
			if (from == TASK_OVER)
				assert_true(step.state == TASK_OVER && step.action == TASK_DO_NOTHING);
			/* who is over is told so, once */
			if (from != TASK_OVER && step.state == TASK_OVER)
				assert_true(step.action >= TASK_DO_REFUSE);
		}
}

TEST(a_view_is_an_event)
{
	static const struct {
		struct task_view view;
		const char *before;
		bool has_run;
		enum task_event event;
	} rows[] = {
		{{.active = TASK_ACTIVE_UNKNOWN, .is_loaded = true}, "", false, TASK_SEES_UNKNOWN},
		{{.active = TASK_ACTIVE_INACTIVE, .is_loaded = true}, "", false, TASK_SEES_IDLE},
		{{.active = TASK_ACTIVE_INACTIVE}, "", false, TASK_SEES_ABSENT},
		{{.active = TASK_ACTIVE_FAILED}, "", false, TASK_SEES_ABSENT},
		{{.active = TASK_ACTIVE_ACTIVE}, "", false, TASK_SEES_ACTIVE}, /* its file is gone, it runs */
		ROW({.active = TASK_ACTIVE_INACTIVE, .is_loaded = true, .has_job = true}, "", true,
		    TASK_SEES_QUEUED),
		ROW({.active = TASK_ACTIVE_FAILED, .is_loaded = true, .has_job = true, .invocation = "b"},
		    "a", true, TASK_SEES_QUEUED),
		ROW({.active = TASK_ACTIVE_INACTIVE, .is_loaded = true, .invocation = "a"}, "a", false,
		    TASK_SEES_IDLE),
		ROW({.active = TASK_ACTIVE_INACTIVE, .is_loaded = true, .invocation = "b"}, "a", false,
		    TASK_SEES_ENDED),
		{{.active = TASK_ACTIVE_INACTIVE, .is_loaded = true}, "a", false, TASK_SEES_IDLE},
		{{.active = TASK_ACTIVE_INACTIVE, .is_loaded = true}, "", true, TASK_SEES_ENDED},
		ROW({.active = TASK_ACTIVE_FAILED, .is_loaded = true, .invocation = "a"}, "a", false,
		    TASK_SEES_IDLE),
		ROW({.active = TASK_ACTIVE_FAILED, .is_loaded = true, .invocation = "b"}, "a", false,
		    TASK_SEES_FAILED),
		{{.active = TASK_ACTIVE_ACTIVATING, .is_loaded = true}, "", false, TASK_SEES_COMING},
		{{.active = TASK_ACTIVE_RESTARTING, .is_loaded = true}, "", false, TASK_SEES_RESTARTING},
		{{.active = TASK_ACTIVE_DEACTIVATING, .is_loaded = true}, "", false, TASK_SEES_GOING},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (task_see(&rows[i].view, rows[i].before, rows[i].has_run) != rows[i].event)
			fail_msg("row %zu", i);
}
