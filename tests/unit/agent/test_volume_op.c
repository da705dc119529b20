#include "cmocka_all.h"
#include "volume_op.h"

/* Every step that exists; all others are refused. */
static const struct row {
	enum volume_op_state state;
	enum volume_op_event event;
	enum volume_op_state next;
	enum volume_op_action action;
} rows[] = {
	{VOLUME_OP_IDLE, VOLUME_OP_MOUNT, VOLUME_OP_STAGING, VOLUME_OP_STAGE},
	{VOLUME_OP_IDLE, VOLUME_OP_UNMOUNT, VOLUME_OP_UNPUBLISHING, VOLUME_OP_UNPUBLISH},
	{VOLUME_OP_IDLE, VOLUME_OP_RELEASE, VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
	{VOLUME_OP_IDLE, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_STAGING, VOLUME_OP_OK, VOLUME_OP_PUBLISHING, VOLUME_OP_PUBLISH},
	{VOLUME_OP_STAGING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_STAGING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_OK, VOLUME_OP_VERIFYING, VOLUME_OP_VERIFY},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_PUBLISHING, VOLUME_OP_CANCELLED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_VERIFYING, VOLUME_OP_OK, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_VERIFYING, VOLUME_OP_FAILED, VOLUME_OP_ENDED, VOLUME_OP_FAIL},
	{VOLUME_OP_UNPUBLISHING, VOLUME_OP_OK, VOLUME_OP_CHECKING, VOLUME_OP_CHECK},
	{VOLUME_OP_UNPUBLISHING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
	{VOLUME_OP_CHECKING, VOLUME_OP_OK, VOLUME_OP_UNSTAGING, VOLUME_OP_UNSTAGE},
	{VOLUME_OP_CHECKING, VOLUME_OP_IN_USE, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_UNSTAGING, VOLUME_OP_OK, VOLUME_OP_ENDED, VOLUME_OP_SUCCEED},
	{VOLUME_OP_UNSTAGING, VOLUME_OP_FAILED, VOLUME_OP_IDLE, VOLUME_OP_RETRY},
};

static const struct row *find(enum volume_op_state state, enum volume_op_event event)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rows[i].state == state && rows[i].event == event)
			return &rows[i];
	}
	return NULL;
}

static void every_pair_of_state_and_event_is_as_listed(void **state)
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

static void nothing_is_unstaged_without_a_check(void **state)
{
	for (enum volume_op_state s = 0; s < VOLUME_OP_STATE_N; s++) {
		for (enum volume_op_event e = 0; e < VOLUME_OP_EVENT_N; e++) {
			if (volume_op_step(s, e).action == VOLUME_OP_UNSTAGE)
				assert_int_equal(s, VOLUME_OP_CHECKING);
		}
	}
}

static void every_state_has_a_name(void **state)
{
	for (enum volume_op_state s = 0; s < VOLUME_OP_STATE_N; s++)
		assert_string_not_equal(volume_op_state_name(s), "invalid");
	assert_string_equal(volume_op_state_name(VOLUME_OP_STATE_N), "invalid");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_of_state_and_event_is_as_listed),
		cmocka_unit_test(nothing_is_unstaged_without_a_check),
		cmocka_unit_test(every_state_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
