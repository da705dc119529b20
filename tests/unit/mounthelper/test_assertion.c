/* SPDX-License-Identifier: Apache-2.0 */
/* What an assertion that fails leaves: a record in log and audit, an exit code, and what a death leaves. */
#include "assertion.h"
#include "workbench.h"

#include <setjmp.h>

static jmp_buf ended;
static int exit_code;

_Noreturn void __wrap__exit(int code);

_Noreturn void __wrap__exit(int code)
{
	exit_code = code;
	longjmp(ended, 1);
}

/* A request that the frame never lets through: the slot is beyond what any name is made for. */
static void ask_for_a_slot_that_does_not_exist(void)
{
	union mh_request req = {.publish = fixture_publish()};
	struct admission admission = {.profile = helper.agent->profiles};

	req.publish.slot = MH_SLOT_MAX + 1;
	(void)op_publish(&helper, &req, &admission);
}

TEST_FIXTURE(a_failed_assertion_ends_it_with_a_record, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	assertion_arm(&helper);
	if (setjmp(ended) == 0) {
		ask_for_a_slot_that_does_not_exist();
		fail();
	}
	assert_int_equal(exit_code, MH_EXIT_ASSERTION);
	ASSERT_RECORDED(" op=stop phase=event seq=0 file=");
	ASSERT_RECORDED("op_publish.c line=");
	ASSERT_RECORDED(" reason=assertion res=failed ");
	assert_string_equal(fake_audit(), fake_log());
	assert_true(fake_is_mount(STAGED));
	assert_false(fake_is_mount(PUBLISHED));
	/* the record itself fails the next time: no second attempt, no abort */
	if (setjmp(ended) == 0) {
		ask_for_a_slot_that_does_not_exist();
		fail();
	}
	assert_int_equal(exit_code, MH_EXIT_ASSERTION);
	assert_string_equal(fake_audit(), fake_log());
}
