/* SPDX-License-Identifier: Apache-2.0 */
/* `NOUN wait --for STATE` against a model of the server. */

#include "run.h"
#include "unit.h"

#include <jansson.h>

#define ALLOC_ID "01890000-0000-7000-8000-000000000001"

/* Expects that the object is waited for while it is @before, until it is @after. */
static void expect_reached(const char *line, const char *method, const char *before, const char *after,
			   const char *text)
{
	memset(fake.answers, 0, sizeof(fake.answers));
	memset(fake.given, 0, sizeof(fake.given));
	fake.requests[0] = '\0';
	will_answer(0, "Jobs.List", "{\"jobs\": [{\"id\": \"web\", \"namespace\": \"default\"}]}");
	will_answer(1, method, before);
	will_answer(2, method, after);
	expect_ok(line);
	assert_string_equal(ending.output, text);
	assert_int_equal(fake.given[2], 1);
	expect_request("\"index\":\"7\""); /* it asks for what is newer than the answer */
	expect_request("\"wait_ms\":");
}

#define VOLUME(fields) "{\"index\": 7, \"volume\": {\"id\": \"db\"" fields "}}"
#define NODE(fields) "{\"index\": 7, \"node\": {\"id\": \"node-1\"" fields "}}"
#define DRAINED ", \"drain\": {\"started_ms\": 1, \"done_ms\": 2}"
#define ALLOC(status) \
	"{\"index\": 7, \"allocation\": {\"id\": \"" ALLOC_ID "\", \"client_status\": \"" status "\"}}"
#define JOB(state, fields) "{\"index\": 7, \"state\": \"" state "\", \"job\": {\"id\": \"web\"" fields "}}"
#define FREED ", \"claims\": [{\"id\": \"c1\", \"state\": \"FREED\"}]" /* the history */
#define HELD ", \"writers\": 1, \"claims\": [{\"id\": \"c1\"}]"

TEST_FIXTURE(a_volume_is_waited_for, run_setup, NULL)
{
	expect_reached("volume wait web --for free", "Volumes.Get", VOLUME(HELD), VOLUME(),
		       "volume web is free\n");
	expect_reached("volume wait web --for free --timeout 2s", "Volumes.Get",
		       VOLUME(", \"readers\": 1, \"claims\": [{\"id\": \"c1\"}]"), VOLUME(FREED),
		       "volume web is free\n");
	expect_reached("volume wait web --for free", "Volumes.Get", VOLUME(", \"held_by_others\": 1"),
		       VOLUME(), "volume web is free\n");
	expect_reached("volume wait web --for free", "Volumes.Get", VOLUME(", \"may_be_held\": true"),
		       VOLUME(), "volume web is free\n");
	expect_reached("volume wait web --for in-use", "Volumes.Get", VOLUME(), VOLUME(HELD),
		       "volume web is in-use\n");
	expect_reached("volume wait web --for schedulable", "Volumes.Get", VOLUME(),
		       VOLUME(", \"schedulable\": true"), "volume web is schedulable\n");
}

TEST_FIXTURE(a_node_is_waited_for, run_setup, NULL)
{
	expect_reached("node wait node-1 --for ready", "Nodes.Get", NODE(", \"status\": \"DOWN\""),
		       NODE(", \"status\": \"READY\""), "node node-1 is ready\n");
	expect_reached("node wait node-1 --for condition=Ready", "Nodes.Get",
		       NODE(", \"status\": \"DISCONNECTED\""), NODE(", \"status\": \"READY\""),
		       "node node-1 is ready\n");
	expect_reached("node wait node-1 --for disconnected", "Nodes.Get", NODE(", \"status\": \"READY\""),
		       NODE(", \"status\": \"DOWN\""), "node node-1 is disconnected\n");
	expect_reached("node wait node-1 --for down", "Nodes.Get", NODE(", \"status\": \"DISCONNECTED\""),
		       NODE(", \"status\": \"DOWN\""), "node node-1 is down\n");
	expect_reached("node wait node-1 --for eligible", "Nodes.Get", NODE(", \"ineligible\": true"), NODE(),
		       "node node-1 is eligible\n");
	expect_reached("node wait node-1 --for drained", "Nodes.Get",
		       NODE(", \"drain\": {\"started_ms\": 1}"), NODE(DRAINED), "node node-1 is drained\n");
	expect_reached("node wait node-1 --for free", "Nodes.Get",
		       "{\"index\": 7, \"node\": {\"id\": \"node-1\"}, \"claims\": [{\"id\": \"c1\"}]}",
		       NODE(), "node node-1 is free\n");
	expect_reached("node wait node-1 --for free", "Nodes.Get", NODE(", \"live_claims\": 2"), NODE(),
		       "node node-1 is free\n"); /* claims that the caller may not see */
	expect_reached("node wait node-1 --for free", "Nodes.Get", NODE(", \"unreported\": true"), NODE(),
		       "node node-1 is free\n"); /* it may hold what the server has forgotten */
	expect_reached("node wait node-1 --for drained", "Nodes.Get", NODE(DRAINED ", \"unreported\": true"),
		       NODE(DRAINED), "node node-1 is drained\n");
	expect_reached("node wait node-1 --for drained", "Nodes.Get", NODE(DRAINED ", \"live_claims\": 1"),
		       NODE(DRAINED), "node node-1 is drained\n");
}

TEST_FIXTURE(an_allocation_is_waited_for, run_setup, NULL)
{
	expect_reached("alloc wait 0189 --for running", "Allocations.Get", ALLOC("PENDING"), ALLOC("RUNNING"),
		       "allocation " ALLOC_ID " is running\n");
	expect_reached("alloc wait 0189 --for complete", "Allocations.Get", ALLOC("RUNNING"),
		       ALLOC("COMPLETE"), "allocation " ALLOC_ID " is complete\n");
	expect_reached("alloc wait 0189 --for failed", "Allocations.Get", ALLOC("RUNNING"), ALLOC("FAILED"),
		       "allocation " ALLOC_ID " is failed\n");
	expect_reached("alloc wait 0189 --for ended", "Allocations.Get", ALLOC("RUNNING"), ALLOC("LOST"),
		       "allocation " ALLOC_ID " is ended\n");
}

TEST_FIXTURE(a_job_is_waited_for, run_setup, NULL)
{
	expect_reached("job wait web --for healthy", "Jobs.Get", JOB("running", ),
		       JOB("running", ", \"update_status\": \"JOB_UPDATE_STATUS_DONE\""),
		       "job web is healthy\n");
	expect_reached("job wait web --for running", "Jobs.Get", JOB("pending", ), JOB("running", ),
		       "job web is running\n");
	expect_reached("job wait web --for complete", "Jobs.Get", JOB("running", ), JOB("complete", ),
		       "job web is complete\n");
	expect_reached("job wait web --for stopped", "Jobs.Get", JOB("stopping", ), JOB("stopped", ),
		       "job web is stopped\n");
}

TEST_FIXTURE(an_object_that_is_gone_has_reached_it, run_setup, NULL)
{
	will_refuse(0, "Volumes.Get", STATUS_NOT_FOUND);
	expect_ok("volume wait nothing --for gone");
	assert_string_equal(ending.output, "volume nothing is gone\n");
	expect_ok("volume wait nothing --for delete --json");
	assert_string_equal(ending.output, "{}\n");
	memset(fake.given, 0, sizeof(fake.given));
	will_answer(0, "Volumes.Get", VOLUME());
	will_refuse(1, "Volumes.Get", STATUS_NOT_FOUND);
	expect_ok("volume wait db --for gone");
	assert_string_equal(ending.output, "volume db is gone\n");
	assert_int_equal(fake.given[1], 1);
	expect_failure("volume wait nothing --for free", STATUS_NOT_FOUND, "no volume of namespace default");
}

TEST_FIXTURE(an_object_is_gone_if_another_one_begins_with_its_id, run_setup, NULL)
{
	fake.node_ids[1] = NULL;
	fake.volume_ids[0] = "db2";
	fake.volume_ids[1] = "db3";
	will_answer(0, "Jobs.List", "{\"jobs\": [{\"id\": \"web2\", \"namespace\": \"default\"}]}");
	will_refuse(1, "Volumes.Get", STATUS_NOT_FOUND);
	will_refuse(2, "Nodes.Get", STATUS_NOT_FOUND);
	will_refuse(3, "Jobs.Get", STATUS_NOT_FOUND);
	expect_ok("volume wait db --for gone");
	assert_string_equal(ending.output, "volume db is gone\n");
	expect_request("Volumes.Get {\"id\":\"db\"}");
	expect_ok("node wait node --for gone");
	assert_string_equal(ending.output, "node node is gone\n");
	expect_ok("job wait web --for gone --namespace shop");
	assert_string_equal(ending.output, "job web is gone\n");
	expect_request("Jobs.Get {\"id\":\"web\",\"namespace\":\"shop\"}");
	expect_ok("volume wait nothing --for gone --namespace *");
	expect_failure("alloc wait 0189 --for gone", STATUS_INVALID_ARGUMENT,
		       "wait needs whole ids: '0189' is only the beginning of " ALLOC_ID);
}

TEST_FIXTURE(a_state_is_that_of_the_object_whose_whole_id_was_given, run_setup, NULL)
{
	fake.node_ids[1] = NULL;
	will_answer(0, "Jobs.List", "{\"jobs\": [{\"id\": \"web2\", \"namespace\": \"default\"}]}");
	expect_failure("volume wait we --for free", STATUS_INVALID_ARGUMENT,
		       "wait needs whole ids: 'we' is only the beginning of web");
	expect_failure("node wait node --for ready", STATUS_INVALID_ARGUMENT,
		       "wait needs whole ids: 'node' is only the beginning of node-1");
	expect_failure("job wait web --for stopped", STATUS_INVALID_ARGUMENT,
		       "wait needs whole ids: 'web' is only the beginning of web2");
	assert_null(strstr(fake.requests, ".Get"));
}

TEST_FIXTURE(a_state_that_can_no_longer_come_ends_the_wait, run_setup, NULL)
{
	will_answer(0, "Allocations.Get",
		    "{\"index\": 7, \"allocation\": {\"id\": \"" ALLOC_ID
		    "\", \"client_status\": \"FAILED\", \"client_description\": \"no image\"}}");
	expect_failure("alloc wait 0189 --for running", STATUS_FAILED_PRECONDITION,
		       "allocation " ALLOC_ID
		       " will not be running: it is failed: no image. Next: holdfast alloc "
		       "status " ALLOC_ID);
	assert_int_equal(ending.exit_code, 0); /* main() makes it 1 */
	will_answer(1, "Jobs.List", "{\"jobs\": [{\"id\": \"web\", \"namespace\": \"shop\"}]}");
	will_answer(2, "Jobs.Get", JOB("running", ", \"update_status\": \"JOB_UPDATE_STATUS_FAILED\""));
	expect_failure("job wait web --for healthy", STATUS_FAILED_PRECONDITION,
		       "job web will not be healthy: it is running, its update is failed. Next: holdfast job "
		       "status web --namespace shop");
}

TEST_FIXTURE(a_wait_that_is_over_in_vain_has_an_exit_status_of_its_own, run_setup, NULL)
{
	will_answer(0, "Volumes.Get",
		    VOLUME(", \"schedulable\": true, \"readers\": 2, \"writers\": 1" FREED));
	expect_failure("volume wait db --for free --timeout 5ms", STATUS_DEADLINE_EXCEEDED,
		       "volume db is not free in time: it is schedulable, in use by readers: 2, writers: 1. "
		       "Next: holdfast volume status db --why");
	assert_int_equal(ending.exit_code, 3);
	will_answer(0, "Volumes.Get", VOLUME(", \"held_by_others\": 1"));
	expect_failure("volume wait db --for free --timeout 5ms", STATUS_DEADLINE_EXCEEDED,
		       ", in use by another name of its storage. Next: ");
	will_answer(0, "Volumes.Get", VOLUME(", \"may_be_held\": true"));
	expect_failure("volume wait db --for free --timeout 5ms", STATUS_DEADLINE_EXCEEDED,
		       ", may be held by a node that has not reported. Next: ");
}

TEST_FIXTURE(a_page_shows_other_holders_of_the_storage, run_setup, NULL)
{
	will_answer(0, "Volumes.Get", VOLUME(""));
	expect_ok("volume status db");
	assert_contains(ending.output, "in use by            nobody\n");
	will_answer(0, "Volumes.Get", VOLUME(", \"held_by_others\": 2"));
	expect_ok("volume status db");
	assert_contains(ending.output, "in use by            other names of its storage: 2\n");
	assert_null(strstr(ending.output, "nobody"));
	will_answer(0, "Volumes.Get", VOLUME(", \"may_be_held\": true"));
	expect_ok("volume status db");
	assert_contains(ending.output,
			"in use by            perhaps a node that has not reported, see --why\n");
	assert_null(strstr(ending.output, "nobody"));
}

TEST_FIXTURE(a_state_is_checked_before_the_server_is_asked, run_setup, NULL)
{
	expect_usage_error("volume wait db",
			   "give --for STATE, which is one of: schedulable, free, in-use, gone");
	expect_usage_error("node wait n1 --for happy",
			   "node has no state 'happy' to wait for, it is one of: ready, disconnected, down, "
			   "eligible, drained, free, gone");
	expect_usage_error("volume wait db --for free --timeout soon", "'soon' is not a duration");
}

TEST_FIXTURE(a_wait_prints_the_answer_as_json, run_setup, NULL)
{
	cleanup(json_decrefp) json_t *json = NULL;

	will_answer(0, "Volumes.Get", VOLUME());
	expect_ok("volume wait db --for free --json");
	json = json_loads(ending.output, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(json_object_get(json, "volume"), "id")), "db");
}
