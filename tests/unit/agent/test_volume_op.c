/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "volume/step.h"

TEST(an_unknown_state_or_event_is_refused)
{
	for (enum volume_op_event e = 0; e <= VOLUME_OP_EVENT_N; e++)
		assert_int_equal(volume_op_step(VOLUME_OP_STATE_N, e).action, VOLUME_OP_REFUSE);
	for (enum volume_op_state s = 0; s <= VOLUME_OP_STATE_N; s++)
		assert_int_equal(volume_op_step(s, VOLUME_OP_EVENT_N).action, VOLUME_OP_REFUSE);
}

/* Every step that is not refused. */
#define FOREACH_STEP(s, e, step)                                                \
	for (enum volume_op_state s = 0; s < VOLUME_OP_STATE_N; s++)            \
		for (enum volume_op_event e = 0; e < VOLUME_OP_EVENT_N; e++)    \
			for (struct volume_op_step step = volume_op_step(s, e); \
			     step.action != VOLUME_OP_REFUSE; step.action = VOLUME_OP_REFUSE)

/* From where an action can follow. */
static void only_after(enum volume_op_action action, const enum volume_op_state *states, size_t n)
{
	for (enum volume_op_state s = 0; s < VOLUME_OP_STATE_N; s++) {
		for (enum volume_op_event e = 0; e < VOLUME_OP_EVENT_N; e++) {
			bool may = false;

			if (volume_op_step(s, e).action != action)
				continue;
			for (size_t i = 0; i < n; i++)
				may = may || states[i] == s;
			assert_true(may);
		}
	}
}

#define ONLY_AFTER(action, ...)                                           \
	only_after((action), (const enum volume_op_state[]){__VA_ARGS__}, \
		   sizeof((const enum volume_op_state[]){__VA_ARGS__}) / sizeof(enum volume_op_state))

TEST(nothing_is_unstaged_without_a_check)
{
	/* by the helper of a native volume, or after the plugin of a csi one */
	ONLY_AFTER(VOLUME_OP_UNSTAGE, VOLUME_OP_CHECKING, VOLUME_OP_PLUGIN_UNSTAGING);
	ONLY_AFTER(VOLUME_OP_PLUGIN_UNSTAGE, VOLUME_OP_RECHECKING, VOLUME_OP_PLUGIN_UNSTAGING);
	ONLY_AFTER(VOLUME_OP_PLUGIN_UNPUBLISH, VOLUME_OP_CHECKING, VOLUME_OP_PLUGIN_UNPUBLISHING);
}

TEST(nothing_is_published_that_the_helper_has_not_seen)
{
	/* and again after a pause */
	ONLY_AFTER(VOLUME_OP_PUBLISH, VOLUME_OP_STAGING, VOLUME_OP_CONFIRMING, VOLUME_OP_PUBLISHING);
	assert_int_equal(volume_op_step(VOLUME_OP_PUBLISHING, VOLUME_OP_OK).action, VOLUME_OP_VERIFY);
}

/* An unmount ends by success alone, and a failed step of it never leads on. */
TEST(a_failed_unmount_never_falls_through)
{
	static const enum volume_op_state undoing[] = {VOLUME_OP_UNPUBLISHING, VOLUME_OP_LOOKING,
						       VOLUME_OP_CHECKING,     VOLUME_OP_PLUGIN_UNPUBLISHING,
						       VOLUME_OP_RECHECKING,   VOLUME_OP_PLUGIN_UNSTAGING,
						       VOLUME_OP_UNSTAGING};

	for (size_t i = 0; i < sizeof(undoing) / sizeof(*undoing); i++) {
		struct volume_op_step failed = volume_op_step(undoing[i], VOLUME_OP_FAILED);
		struct volume_op_step pending = volume_op_step(undoing[i], VOLUME_OP_PENDING);

		assert_true(failed.action == VOLUME_OP_REFUSE || failed.action == VOLUME_OP_RETRY);
		assert_true(pending.action == VOLUME_OP_REFUSE || pending.action == VOLUME_OP_PAUSE);
		assert_int_equal(pending.next, undoing[i]);
		assert_int_equal(volume_op_step(undoing[i], VOLUME_OP_CANCELLED).action, VOLUME_OP_REFUSE);
	}
}

/* What may have been carried out, or was not begun, is made again as it is. */
TEST(the_call_after_a_pause_is_the_same)
{
	FOREACH_STEP(s, e, pause)
	{
		struct volume_op_step again = volume_op_step(s, VOLUME_OP_AGAIN);

		if (pause.action != VOLUME_OP_PAUSE)
			continue;
		assert_int_equal(pause.next, s);
		assert_int_equal(again.next, s);
		/* as the step before it began */
		FOREACH_STEP(from, event, first)
		{
			if (first.next == s && from != s)
				assert_int_equal(first.action, again.action);
		}
	}
}

TEST(steps_of_plugins_are_known_as_such)
{
	FOREACH_STEP(s, e, step)
	{
		bool is_plugins =
			step.action == VOLUME_OP_WAIT_PLUGIN ||
			(step.action >= VOLUME_OP_PLUGIN_STAGE && step.action <= VOLUME_OP_PLUGIN_PUBLISH) ||
			step.action == VOLUME_OP_PLUGIN_UNPUBLISH ||
			step.action == VOLUME_OP_PLUGIN_UNSTAGE || step.action == VOLUME_OP_PLUGIN_EXPAND;

		/* whose, the step tells that it comes again */
		if (step.action != VOLUME_OP_PAUSE)
			assert_int_equal(volume_op_is_plugins(step.next), is_plugins);
	}
}

TEST(every_state_has_a_name)
{
	for (enum volume_op_state s = 0; s < VOLUME_OP_STATE_N; s++)
		assert_string_not_equal(volume_op_state_name(s), "invalid");
	assert_string_equal(volume_op_state_name(VOLUME_OP_STATE_N), "invalid");
}
