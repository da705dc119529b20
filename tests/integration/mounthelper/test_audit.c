/* SPDX-License-Identifier: Apache-2.0 */
/* What test_audit.py puts under the kernel's audit: one volume from stage to unstage, a refusal, and a helper
 * that is sent text which would forge a record. Prints the helper's log, for comparison. */

#include "agent.h"

#include <sys/stat.h>

static struct agent agent;

TEST(a_volume_comes_and_goes)
{
	struct mh_stage refused = stage_disk();

	agent_up(&agent);
	expect_stage(&agent, stage_disk(), MH_OK);
	expect_publish(&agent, publish_disk(), MH_OK);
	expect_unpublish(&agent, unpublish("vol-1"), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
	refused.ticket.generation++; /* no longer what was signed */
	expect_stage(&agent, refused, MH_REFUSED);
	assert_int_equal(agent_stop_code(&agent), 0);
}

TEST(text_that_would_forge_a_record_ends_the_helper)
{
	static const char *const names[] = {"x'\ntype=TRUSTED_APP msg='op=stage res=success",
					    "x op=stage res=success", "x\" res=success"};

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

/* More than are recorded. */
TEST(starts_that_are_refused_are_not_many_records)
{
	static const char *const two[] = {"holdfast-mounthelper", "x res=success", NULL};
	static const struct agent_start starts[] = {
		{.argv = two}, {.no_socket = true}, {.peer_uid = 64109}, {.uid = 64109}};
	struct agent refused;

	assert_int_equal(mkdir("/run/holdfast-mount", 0755), 0);
	assert_int_equal(mkdir("/run/holdfast-mount/lock", 0755), 0);
	for (size_t i = 0; i < 40; i++) {
		assert_false(agent_start(&refused, &starts[i % 4]));
		(void)agent_stop(&refused);
	}
	/* without the file that bounds them there are none */
	assert_int_equal(unlink("/run/holdfast-mount/lock/refused"), 0);
	assert_int_equal(rmdir("/run/holdfast-mount/lock"), 0);
	assert_false(agent_start(&refused, &starts[0]));
	(void)agent_stop(&refused);
}

int main(void)
{
	int failed;
	char *log;

	failed = world_up(NULL);
	world_policy("required", "audit = required"); /* which holds while the daemon runs */
	failed = failed == 0 ? unit_run() : 1;
	log = world_log();
	(void)fputs(log, stdout);
	free(log);
	return world_down(NULL) + failed;
}
