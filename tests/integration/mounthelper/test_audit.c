/* What test_audit.py puts under the kernel's audit: one volume from stage to unstage, a refusal, and a helper
 * that is sent text which would forge a record. Prints the helper's log, for comparison. */

#include "agent.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct agent agent;

static void a_volume_comes_and_goes(void **state)
{
	struct mh_stage refused = stage_disk();

	(void)state;
	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	refused.ticket.generation++; /* no longer what was signed */
	expect_stage(&agent, refused, MH_REFUSED);
	assert_int_equal(agent_stop_code(&agent), 0);
}

static void text_that_would_forge_a_record_ends_the_helper(void **state)
{
	static const char *const names[] = {"x'\ntype=TRUSTED_APP msg='op=stage res=success",
					    "x op=stage res=success", "x\" res=success"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct mh_stage req = stage_disk();
		struct mh_reply reply;

		agent_up(&agent);
		memset(req.volume, 0, sizeof(req.volume));
		(void)str_copy(req.volume, sizeof(req.volume), names[i]);
		sign_ticket(&req.ticket);
		assert_false(agent_call(&agent, &req, sizeof(req), &reply));
		(void)agent_stop(&agent);
		assert_last_record(" op=violation ");
		assert_last_record(" reason=field res=failed ");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_volume_comes_and_goes),
		cmocka_unit_test(text_that_would_forge_a_record_ends_the_helper),
	};
	int failed;
	char *log;

	failed = world_up(NULL) == 0 ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
	log = world_log();
	(void)fputs(log, stdout);
	free(log);
	return world_down(NULL) + failed;
}
