/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "volume/step.h"

/* Every step that exists; all others are refused. */
static const struct row {
	enum volume_op_state state;
	enum volume_op_event event;
	enum volume_op_state next;
	enum volume_op_action action;
} rows[] = {
	{VOLUME_OP_IDLE, VOLUME_OP_MOUNT, VOLUME_OP_STAGING, VOLUME_OP_STAGE},
	{VOLUME_OP_IDLE, VOLUME_OP_UNMOUNT, VOLUME_OP_UNPUBLISHING, VOLUME_OP_UNPUBLISH},
	{VOLUME_OP_IDLE, VOLUME_OP_RELEASE, VOLUME_OP_LOOKING, VOLUME_OP_LOOK},
	{VOLUME_OP_IDLE, VOLUME_OP_EXPAND, VOLUME_OP_EXPANDING, VOLUME_OP_PLUGIN_EXPAND},
	{VOLUME_OP_IDLE, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_STAGING, VOLUME_OP_OK, VOLUME_OP_PUBLISHING, VOLUME_OP_PUBLISH},
	{VOLUME_OP_STAGING, VOLUME_OP_PREPARED, VOLUME_OP_WAITING, VOLUME_OP_WAIT_PLUGIN},
	{VOLUME_OP_STAGING, VOLUME_OP_DEVICE, VOLUME_OP_VERIFYING, VOLUME_OP_VERIFY},
	{VOLUME_OP_STAGING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_STAGING, VOLUME_OP_PENDING, VOLUME_OP_STAGING, VOLUME_OP_PAUSE},
	{VOLUME_OP_STAGING, VOLUME_OP_AGAIN, VOLUME_OP_STAGING, VOLUME_OP_STAGE},
	{VOLUME_OP_STAGING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_WAITING, VOLUME_OP_OK, VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_PLUGIN_STAGE},
	{VOLUME_OP_WAITING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_WAITING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_OK, VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_PLUGIN_PUBLISH},
	{VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_PENDING, VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_PAUSE},
	{VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_AGAIN, VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_PLUGIN_STAGE},
	{VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_OK, VOLUME_OP_CONFIRMING, VOLUME_OP_STAGE},
	{VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_UNSTAGED, VOLUME_OP_PLUGIN_STAGING, VOLUME_OP_PLUGIN_STAGE},
	{VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_PENDING, VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_PAUSE},
	{VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_AGAIN, VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_PLUGIN_PUBLISH},
	{VOLUME_OP_PLUGIN_PUBLISHING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_CONFIRMING, VOLUME_OP_OK, VOLUME_OP_PUBLISHING, VOLUME_OP_PUBLISH},
	{VOLUME_OP_CONFIRMING, VOLUME_OP_PREPARED, VOLUME_OP_ENDED, VOLUME_OP_FAIL_EMPTY},
	{VOLUME_OP_CONFIRMING, VOLUME_OP_DEVICE, VOLUME_OP_VERIFYING, VOLUME_OP_VERIFY},
	{VOLUME_OP_CONFIRMING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_CONFIRMING, VOLUME_OP_PENDING, VOLUME_OP_CONFIRMING, VOLUME_OP_PAUSE},
	{VOLUME_OP_CONFIRMING, VOLUME_OP_AGAIN, VOLUME_OP_CONFIRMING, VOLUME_OP_STAGE},
	{VOLUME_OP_CONFIRMING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_OK, VOLUME_OP_VERIFYING, VOLUME_OP_VERIFY},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_PENDING, VOLUME_OP_PUBLISHING, VOLUME_OP_PAUSE},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_AGAIN, VOLUME_OP_PUBLISHING, VOLUME_OP_PUBLISH},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_VERIFYING, VOLUME_OP_OK, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_VERIFYING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_UNPUBLISHING, VOLUME_OP_OK, VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
	{VOLUME_OP_UNPUBLISHING, VOLUME_OP_UNSURE, VOLUME_OP_LOOKING, VOLUME_OP_LOOK},
	{VOLUME_OP_UNPUBLISHING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
	{VOLUME_OP_LOOKING, VOLUME_OP_OK, VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
	{VOLUME_OP_LOOKING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
	{VOLUME_OP_CHECKING, VOLUME_OP_OK, VOLUME_OP_UNSTAGING, VOLUME_OP_UNSTAGE},
	{VOLUME_OP_CHECKING, VOLUME_OP_PLUGINS_TURN, VOLUME_OP_PLUGIN_UNPUBLISHING,
	 VOLUME_OP_PLUGIN_UNPUBLISH},
	{VOLUME_OP_CHECKING, VOLUME_OP_IN_USE, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_CHECKING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
	{VOLUME_OP_PLUGIN_UNPUBLISHING, VOLUME_OP_FORCED, VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
	{VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_FORCED, VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
	{VOLUME_OP_PLUGIN_UNPUBLISHING, VOLUME_OP_OK, VOLUME_OP_RECHECKING, VOLUME_OP_RECHECK},
	{VOLUME_OP_PLUGIN_UNPUBLISHING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
	{VOLUME_OP_PLUGIN_UNPUBLISHING, VOLUME_OP_PENDING, VOLUME_OP_PLUGIN_UNPUBLISHING, VOLUME_OP_PAUSE},
	{VOLUME_OP_PLUGIN_UNPUBLISHING, VOLUME_OP_AGAIN, VOLUME_OP_PLUGIN_UNPUBLISHING,
	 VOLUME_OP_PLUGIN_UNPUBLISH},
	{VOLUME_OP_RECHECKING, VOLUME_OP_PLUGINS_TURN, VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_PLUGIN_UNSTAGE},
	{VOLUME_OP_RECHECKING, VOLUME_OP_IN_USE, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_OK, VOLUME_OP_UNSTAGING, VOLUME_OP_UNSTAGE},
	{VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
	{VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_PENDING, VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_PAUSE},
	{VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_AGAIN, VOLUME_OP_PLUGIN_UNSTAGING, VOLUME_OP_PLUGIN_UNSTAGE},
	{VOLUME_OP_UNSTAGING, VOLUME_OP_OK, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_UNSTAGING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
	{VOLUME_OP_EXPANDING, VOLUME_OP_OK, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_EXPANDING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
};

static const struct row *find(enum volume_op_state state, enum volume_op_event event)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].state == state && rows[i].event == event)
			return &rows[i];
	}
	return NULL;
}

TEST(every_pair_of_state_and_event_is_as_listed)
{
	for (enum volume_op_state s = 0; s <= VOLUME_OP_STATE_N; s++) {
		for (enum volume_op_event e = 0; e <= VOLUME_OP_EVENT_N; e++) {
			struct volume_op_step step = volume_op_step(s, e);
			const struct row *row = find(s, e);

			assert_int_equal(step.next, row ? row->next : s);
			assert_int_equal(step.action, row ? row->action : VOLUME_OP_REFUSE);
		}
	}
}

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
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(*rows); row++) {
		struct volume_op_step again;

		if (row->action != VOLUME_OP_PAUSE)
			continue;
		assert_int_equal(row->next, row->state);
		again = volume_op_step(row->state, VOLUME_OP_AGAIN);
		assert_int_equal(again.next, row->state);
		/* as the step before it began */
		for (const struct row *first = rows; first < rows + sizeof(rows) / sizeof(*rows); first++) {
			if (first->next == row->state && first->state != row->state)
				assert_int_equal(first->action, again.action);
		}
	}
}

TEST(steps_of_plugins_are_known_as_such)
{
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(*rows); row++) {
		bool is_plugins =
			row->action == VOLUME_OP_WAIT_PLUGIN ||
			(row->action >= VOLUME_OP_PLUGIN_STAGE && row->action <= VOLUME_OP_PLUGIN_PUBLISH) ||
			row->action == VOLUME_OP_PLUGIN_UNPUBLISH ||
			row->action == VOLUME_OP_PLUGIN_UNSTAGE || row->action == VOLUME_OP_PLUGIN_EXPAND;

		/* whose, the step tells that it comes again */
		if (row->action == VOLUME_OP_PAUSE)
			continue;
		assert_int_equal(volume_op_is_plugins(row->next), is_plugins);
	}
}

TEST(every_state_has_a_name)
{
	for (enum volume_op_state s = 0; s < VOLUME_OP_STATE_N; s++)
		assert_string_not_equal(volume_op_state_name(s), "invalid");
	assert_string_equal(volume_op_state_name(VOLUME_OP_STATE_N), "invalid");
}
