/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast agent drain against a model of the agent. */

#include "run.h"
#include "unit.h"

#define DRAIN(state, more, volumes)                                                                   \
	"{\"drain\": {\"state\": \"" state "\", \"summary\": \"so it goes\", \"started_ms\": \"7\", " \
	"\"accepting\": false" more ", \"volumes\": [" volumes "]}}"
#define VOLUME(state, more)                                                                             \
	"{\"volume_id\": \"db\", \"namespace\": \"default\", \"alloc_id\": \"a1\", \"state\": \"" state \
	"\"" more "}"
#define IN_USE                                                                                       \
	VOLUME("in use", ", \"step\": \"unpublish\", \"reason\": \"it \\u001b is busy\", \"next\": " \
			 "\"look\"")

static void answer(unsigned int i, const char *json)
{
	will_answer(i, "Agent.Drain", json);
}

static void refuse(unsigned int i, enum status status)
{
	will_refuse(i, "Agent.Drain", status);
}

TEST_FIXTURE(it_is_followed_until_it_has_ended, run_setup, NULL)
{
	answer(0, DRAIN("draining", "", IN_USE));
	answer(1, DRAIN("draining", "", IN_USE)); /* no change */
	answer(2, DRAIN("draining", "", VOLUME("unmounted", "")));
	answer(3, DRAIN("done", ", \"ended_ms\": \"9\", \"done\": true", VOLUME("released", "")));
	expect_ok("agent drain --timeout 5s");
	expect_output("volume default/db of allocation a1: in use, unpublish: it \\x1b is busy. Next: look\n"
		      "volume default/db of allocation a1: unmounted\n"
		      "volume default/db of allocation a1: released\n"
		      "this machine is drained: so it goes\n");
	expect_request("\"follows_ms\":\"7\"");
	assert_int_equal(fake.given[3], 1);
}

TEST_FIXTURE(an_unfinished_drain_fails_and_names_the_remainder, run_setup, NULL)
{
	static const char *const states[] = {"unacknowledged", "incomplete", "cancelled"};
	static const char *const answers[] = {
		DRAIN("unacknowledged", ", \"ended_ms\": \"9\"", IN_USE),
		DRAIN("incomplete", ", \"ended_ms\": \"9\"", IN_USE),
		DRAIN("cancelled", ", \"ended_ms\": \"9\"", IN_USE),
	};

	for (unsigned int i = 0; i < 3; i++) {
		memset(fake.given, 0, sizeof(fake.given));
		answer(0, answers[i]);
		expect_failure("agent drain", STATUS_FAILED_PRECONDITION, states[i]);
		expect_output("it \\x1b is busy");
		expect_failure("agent drain --json", STATUS_FAILED_PRECONDITION, "so it goes");
		assert_true(ending.output[0] == '{');
	}
}

TEST_FIXTURE(an_agent_that_is_restarted_is_asked_again, run_setup, NULL)
{
	answer(0, DRAIN("draining", "", IN_USE));
	refuse(1, STATUS_UNAVAILABLE);
	refuse(2, STATUS_UNAVAILABLE);
	answer(3, DRAIN("done", ", \"ended_ms\": \"9\", \"done\": true", ""));
	expect_ok("agent drain --timeout 5s");
}

TEST_FIXTURE(a_permanent_error_ends_the_wait_at_once, run_setup, NULL)
{
	refuse(0, STATUS_PERMISSION_DENIED);
	expect_failure("agent drain", STATUS_PERMISSION_DENIED, "");
	assert_int_equal(fake.given[0], 1);
	answer(0, "{}");
	expect_failure("agent drain", STATUS_INTERNAL, "has no drain");
}

TEST_FIXTURE(it_can_be_taken_back, run_setup, NULL)
{
	answer(0, "{}");
	expect_ok("agent drain --cancel");
	expect_request("Agent.Drain {\"cancel\":true}");
	expect_output("takes new allocations");
	expect_usage_error("agent drain --cancel --timeout 5s", "has no --timeout");
}

TEST_FIXTURE(the_last_one_is_part_of_the_agents_status, run_setup, NULL)
{
	will_answer(0, "Agent.Status",
		    "{\"drain\": {\"state\": \"incomplete\", \"summary\": \"1 of 2\", \"ended_ms\": "
		    "\"9\", \"volumes\": [" IN_USE ", " VOLUME("released", "") "]}}");
	expect_ok("agent status");
	expect_output("drain ended ");
	expect_output(": incomplete: 1 of 2\nvolume default/db of allocation a1: in use");
	assert_null(strstr(ending.output, "released"));
	expect_output("holdfast agent drain --cancel");
}
