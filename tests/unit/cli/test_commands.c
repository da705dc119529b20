/* SPDX-License-Identifier: Apache-2.0 */
/* Every command against a model of the server: what it asks, what it prints, how it ends. */

#include "run.h"
#include "unit.h"

#include "base/clock.h"
#include "model/alloc_id.h"

#include <holdfast/v1/types.pb-c.h>
#include <jansson.h>

#define ALLOC_ID "01890000-0000-7000-8000-000000000001"

TEST_FIXTURE(volumes_are_listed_in_a_table_or_json, run_setup, NULL)
{
	cleanup(json_decrefp) json_t *json = NULL;

	expect_ok("volume status");
	assert_string_equal(fake.calls, "Volumes.List() ");
	expect_output("ID");
	expect_output("db2");
	expect_output("web");
	assert_null(strchr(ending.output, '\033')); /* no terminal, no colours */
	expect_ok("volume status --json");
	json = json_loads(ending.output, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(json, "volumes")), 3);
	assert_string_equal(json_string_value(json_object_get(json, "index")), "0");
}

TEST_FIXTURE(one_volume_is_found_by_its_beginning, run_setup, NULL)
{
	expect_ok("volume status w");
	assert_string_equal(fake.calls, "Volumes.List(w) Volumes.Get(web) ");
	assert_false(fake.why);
	fake.calls[0] = '\0';
	expect_ok("volume status db --why");
	assert_string_equal(fake.calls, "Volumes.List(db) Volumes.Get(db) ");
	assert_true(fake.why);
	expect_output("\nwhy\nheld by nobody\nnext: nothing\n");
	expect_failure("volume status d", STATUS_FAILED_PRECONDITION,
		       "more than one volume begins with 'd', give more of it: db, db2");
	expect_failure("volume status x", STATUS_NOT_FOUND, "no volume of namespace default is called 'x'");
}

TEST_FIXTURE(why_needs_a_volume, run_setup, NULL)
{
	expect_usage_error("volume status --why", "give its ID");
}

TEST_FIXTURE(a_volume_is_registered_from_its_file, run_setup, NULL)
{
	write_spec("id = \"db\"\ntype = \"native\"\n");
	expect_ok(with_spec("volume register @"));
	assert_string_equal(fake.spec_id, "db");
	expect_output("volume db is registered\nit cannot be used yet: no node has it\n");
	write_spec("id = \"db\"\nnamespace = \"a\"\n");
	fake.calls[0] = '\0';
	expect_usage_error(with_spec("volume register --namespace b @"), "contradicts the file");
	write_spec("idd = \"db\"\n");
	expect_failure(with_spec("volume register @"), STATUS_INVALID_ARGUMENT, ":1: unknown key 'idd'");
	assert_false(ending.is_usage_error);
	assert_string_equal(fake.calls, "");
}

TEST_FIXTURE(a_volume_is_deregistered_by_its_whole_id_and_detached_by_prefix, run_setup, NULL)
{
	expect_failure("volume deregister w", STATUS_INVALID_ARGUMENT,
		       "deregister needs whole ids: 'w' is only the beginning of web");
	assert_string_equal(fake.calls, "Volumes.List(w) ");
	fake.calls[0] = '\0';
	expect_ok("volume deregister web --yes");
	assert_string_equal(fake.calls, "Volumes.List(web) Volumes.Deregister(web) ");
	fake.calls[0] = '\0';
	expect_ok("volume detach web node-1");
	assert_string_equal(fake.calls, "Volumes.List(web) Nodes.List(node-1) Volumes.Detach(web) ");
	assert_string_equal(fake.node_id, "node-1");
	assert_string_equal(fake.attest_reason, "");
	fake.node_id[0] = '\0';
	expect_failure("volume detach web gone --yes --attest pulled-the-plug", STATUS_FAILED_PRECONDITION,
		       "nothing was changed");
	assert_string_equal(fake.node_id, "gone"); /* its claims may outlive the node */
	assert_string_equal(fake.attest_reason, "pulled-the-plug");
	expect_failure("volume detach web node", STATUS_FAILED_PRECONDITION,
		       "give more of it: node-1, node-2");
}

TEST_FIXTURE(an_attestation_names_volume_and_node_in_full, run_setup, NULL)
{
	fake.node_ids[1] = NULL;
	fake.calls[0] = '\0';
	expect_failure("volume detach web node --attest off", STATUS_INVALID_ARGUMENT,
		       "--attest needs whole ids: 'node' is only the beginning of node-1");
	assert_true(ending.is_usage_error);
	expect_failure("volume detach w node-1 --attest off", STATUS_INVALID_ARGUMENT,
		       "--attest needs whole ids: 'w' is only the beginning of web");
	assert_null(strstr(fake.calls, "Detach"));
	expect_ok("volume detach w node");
}

TEST_FIXTURE(an_empty_attestation_is_refused, run_setup, NULL)
{
	expect_usage_error("volume detach web node-1 --attest=", "give a reason with --attest");
}

TEST_FIXTURE(a_plugin_is_bypassed_with_a_reason_and_for_whole_ids, run_setup, NULL)
{
	fake.node_ids[1] = NULL;
	expect_usage_error("volume detach web node-1 --without-plugin=",
			   "give a reason with --without-plugin");
	expect_usage_error("volume detach web node-1 --without-plugin gone --attest off", "not both");
	expect_usage_error("volume detach web node-1 --without-plugin gone --fence off", "not both");
	expect_failure("volume detach web node --without-plugin gone", STATUS_INVALID_ARGUMENT,
		       "--without-plugin needs whole ids: 'node' is only the beginning of node-1");
	expect_failure("volume detach web node-1 --yes --without-plugin gone", STATUS_FAILED_PRECONDITION,
		       "nothing was changed");
	assert_string_equal(fake.without_plugin_reason, "gone");
	assert_string_equal(fake.attest_reason, "");
}

TEST_FIXTURE(the_servers_refusal_is_passed_on, run_setup, NULL)
{
	fake.failing = "Deregister";
	fake.failure = STATUS_FAILED_PRECONDITION;
	expect_failure("volume deregister web --yes", STATUS_FAILED_PRECONDITION, "the server says no");
	assert_false(ending.is_usage_error);
}

TEST_FIXTURE(running_waits_until_the_allocation_runs, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	fake.steps[1] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__PENDING, "staging"};
	fake.steps[2] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__RUNNING, ""};
	expect_ok(with_spec("alloc run @ --node node-1 --id " ALLOC_ID));
	assert_string_equal(fake.spec_id, ALLOC_ID);
	assert_string_equal(fake.node_id, "node-1");
	assert_int_equal(fake.gets, 2);
	assert_int_equal(fake.last_index, 2); /* of the answer before: wait for the next change */
	assert_in_range(fake.longest_wait_ms, 1, 30000);
	expect_output("running");
}

TEST_FIXTURE(an_id_that_ended_is_refused_and_starts_nothing, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	fake.steps[0] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__COMPLETE, ""};
	fake.steps[1] = fake.steps[0];
	expect_failure(with_spec("alloc run @ --node node-1 --id " ALLOC_ID), STATUS_FAILED_PRECONDITION,
		       "ran before and is complete. An id runs only once");
	expect_ok(with_spec("alloc run @ --node node-1 --namespace shop")); /* it ended at once */
	assert_true(alloc_id_is_of(fake.spec_id, "shop"));
}

TEST_FIXTURE(a_running_allocation_is_not_waited_for, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	fake.steps[0] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__RUNNING, ""};
	fake.steps[1] = fake.steps[0];
	expect_ok(with_spec("alloc run @ --node node-1 --id " ALLOC_ID));
	assert_int_equal(fake.gets, 1);
	assert_int_equal(fake.longest_wait_ms, 0); /* nothing may ever change again */
	expect_output("running");
}

TEST_FIXTURE(an_unknown_node_is_the_servers_to_refuse, run_setup, NULL)
{
	write_spec("name = \"app\"\nnode = \"node-9\"\n");
	expect_ok(with_spec("alloc run @ --no-wait"));
	assert_string_equal(fake.node_id, "node-9");
	write_spec("name = \"app\"\nnode = \"node-\"\n");
	expect_failure(with_spec("alloc run @ --no-wait"), STATUS_FAILED_PRECONDITION,
		       "give more of it: node-1, node-2");
	fake.node_ids[1] = NULL;
	expect_ok(with_spec("alloc run @ --no-wait"));
	assert_string_equal(fake.node_id, "node-1");
}

TEST_FIXTURE(a_failed_allocation_fails_the_command_with_the_nodes_words, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	fake.steps[1] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__FAILED, "volume db is held"};
	expect_failure(with_spec("alloc run @ --node node-1 --id " ALLOC_ID), STATUS_FAILED_PRECONDITION,
		       "allocation " ALLOC_ID " is failed: volume db is held");
	assert_string_equal(ending.output, "");
	fake.gets = 0;
	expect_failure(with_spec("alloc run @ --json --node node-1 --id " ALLOC_ID),
		       STATUS_FAILED_PRECONDITION, "volume db is held");
	expect_output("\"client_description\": \"volume db is held\"");
}

TEST_FIXTURE(waiting_ends_at_its_timeout, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	fake.steps[0].description = "waiting for the node";
	expect_failure(with_spec("alloc run @ --timeout 1ms --node node-1 --id " ALLOC_ID),
		       STATUS_DEADLINE_EXCEEDED,
		       "allocation " ALLOC_ID " on node node-1 is still pending: waiting for the node; the "
		       "node continues with it. Next: holdfast alloc status " ALLOC_ID
		       ", holdfast node status node-1");
	fake.calls[0] = '\0';
	expect_usage_error(with_spec("alloc run @ --timeout soon"), "'soon' is not a duration");
	expect_usage_error(with_spec("alloc run @ --timeout 0s"), "'0s' is not a duration");
	expect_usage_error(with_spec("alloc run @ --timeout 25h"), "'25h' is not a duration");
}

TEST_FIXTURE(a_submission_may_be_pending_for_its_volume, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	will_answer(0, "Allocations.Run",
		    "{\"allocation\": {\"id\": \"a\", \"client_status\": \"PENDING\", "
		    "\"client_description\": \"waits for volume db\"}}");
	expect_ok(with_spec("alloc run @ --no-wait --wait 10m"));
	assert_non_null(strstr(fake.requests, "\"wait_ms\":600000"));
	expect_output("it is pending: waits for volume db\n");
	expect_usage_error(with_spec("alloc run @ --wait 31d"),
			   "--wait: '31d' is not a duration up to 30 days");
}

TEST_FIXTURE(no_wait_returns_at_once, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	expect_ok(with_spec("alloc run @ --no-wait --node node-1 --id " ALLOC_ID));
	assert_int_equal(fake.gets, 0);
	expect_output("allocation " ALLOC_ID " is accepted\n");
	expect_ok("alloc stop --no-wait 01");
	assert_int_equal(fake.gets, 0);
	expect_output("allocation " ALLOC_ID " is being stopped\n");
}

TEST_FIXTURE(an_id_must_be_a_uuid, run_setup, NULL)
{
	write_spec("name = \"app\"\n");
	expect_usage_error(with_spec("alloc run @ --id app-1"), "--id must be a UUID");
}

TEST_FIXTURE(stopping_waits_for_the_end_of_the_allocation, run_setup, NULL)
{
	fake.steps[0].client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	fake.steps[1] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__RUNNING, "unpublishing"};
	fake.steps[2] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__COMPLETE, ""};
	expect_ok("alloc stop 01");
	assert_string_equal(fake.calls, "Allocations.List(01) Allocations.Stop(" ALLOC_ID
					") Allocations.Get(" ALLOC_ID ") Allocations.Get(" ALLOC_ID ") ");
	expect_output("complete");
}

/* A provider detaches after the work has ended on its node. */
TEST_FIXTURE(stopping_names_a_volume_that_is_not_free_yet, run_setup, NULL)
{
	fake.steps[0].client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	fake.steps[1].client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	fake.held_volume = "db";
	expect_ok("alloc stop 01");
	expect_output("volume db is not free yet: holdfast alloc run --wait 5m waits for it");
}

/* Sessions move when another server leads. */
TEST_FIXTURE(of_a_node_that_is_away_for_a_moment_nothing_is_reported, run_setup, NULL)
{
	fake.node_disconnected_ms = clock_realtime_ms() - 1000;
	fake.steps[0].client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	fake.steps[1].client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	expect_ok("alloc stop 01");
	assert_null(strstr(ending.output, "may run on there"));
}

/* Before any waiting, and what is known of it is called old. */
TEST_FIXTURE(of_a_node_that_is_away_it_is_reported_at_once, run_setup, NULL)
{
	fake.node_disconnected_ms = clock_realtime_ms() - 7200 * 1000;
	for (size_t i = 0; i < 8; i++)
		fake.steps[i].client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	expect_failure("alloc stop 01 --timeout 1s", STATUS_DEADLINE_EXCEEDED,
		       "its node is not connected, and nothing happens before it is back");
	expect_output("node node-1 has not been connected for 2h00m: allocation " ALLOC_ID
		      " may run on there");
	expect_output("make sure that it is off; then holdfast node attest node-1 VOLUME... frees them; a "
		      "claim that a controller attached waits in node-detached for its detach\n");
	expect_ok("alloc status 01");
	expect_output("its node has not been connected for 2h00m: the status is of that time");
}

/* Else every retry of its release would answer at once, again and again. */
TEST_FIXTURE(waiting_continues_from_the_last_change_of_a_claim, run_setup, NULL)
{
	fake.alloc_ids[0] = ALLOC_ID;
	fake.claims_ahead = 40;
	for (size_t i = 0; i < 3; i++)
		fake.steps[i].client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	fake.steps[3].client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	expect_ok("alloc stop 01");
	assert_int_equal(fake.gets, 3);
	assert_int_equal(fake.last_index, 3 + 40);
}

TEST_FIXTURE(stopping_an_ended_allocation_succeeds_at_once, run_setup, NULL)
{
	fake.steps[0] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__FAILED, "long ago"};
	expect_ok("alloc stop 01");
	assert_int_equal(fake.gets, 0);
	expect_output("has ended");
}

TEST_FIXTURE(stopping_fails_when_the_allocation_does, run_setup, NULL)
{
	fake.steps[1] = (struct fake_alloc_step){HOLDFAST__V1__CLIENT_STATUS__LOST, ""};
	expect_failure("alloc stop 01", STATUS_FAILED_PRECONDITION, "is lost: the node gave no reason");
}

TEST_FIXTURE(a_whole_id_needs_no_right_to_list, run_setup, NULL)
{
	will_refuse(0, "Allocations.List", STATUS_PERMISSION_DENIED);
	will_refuse(1, "Volumes.List", STATUS_PERMISSION_DENIED);
	fake.alloc_ids[0] = ALLOC_ID;
	expect_ok("alloc status " ALLOC_ID);
	assert_null(strstr(fake.requests, "Allocations.List"));
	expect_failure("alloc status 01", STATUS_PERMISSION_DENIED, "");
	expect_ok("volume status db");
	expect_request("Volumes.Get {\"id\":\"db\"");
	expect_failure("volume status db --namespace *", STATUS_PERMISSION_DENIED, "");
}

#define NOT_ENDED "\"filter\":\"client_status == pending or client_status == running\","

TEST_FIXTURE(ended_allocations_are_listed_only_on_demand, run_setup, NULL)
{
	static const char *const with_ended[] = {"--all", "-a", "--json", "-o json", "-o yaml"};

	expect_ok("alloc status");
	expect_request("Allocations.List {" NOT_ENDED "\"per_page\":1000}");
	fake.requests[0] = '\0';
	expect_ok("alloc status -o name");
	expect_request("Allocations.List {" NOT_ENDED "\"per_page\":1000}");
	for (size_t i = 0; i < ARRAY_SIZE(with_ended); i++) {
		char line[32];

		(void)str_format(line, sizeof(line), "alloc status %s", with_ended[i]);
		fake.requests[0] = '\0';
		expect_ok(line);
		expect_request("Allocations.List {\"per_page\":1000}");
	}
	fake.requests[0] = '\0';
	expect_ok("alloc status --filter client_status==failed");
	expect_request("Allocations.List {\"filter\":\"client_status==failed\",\"per_page\":1000}");
}

TEST_FIXTURE(allocations_are_listed_by_node_and_shown, run_setup, NULL)
{
	expect_ok("alloc status --node node-2");
	assert_string_equal(fake.node_id, "node-2");
	expect_output(ALLOC_ID);
	fake.calls[0] = '\0';
	expect_usage_error("alloc status 01 --node node-2", "--node is for the list");
	expect_ok("alloc status 01 --namespace shop");
	expect_output("status               pending");
}

TEST_FIXTURE(events_are_shown_with_their_subject, run_setup, NULL)
{
	will_answer(0, "Allocations.Get",
		    "{\"allocation\": {\"id\": \"" ALLOC_ID
		    "\", \"name\": \"app\", \"job_id\": \"web\", \"job_group\": \"db\", \"job_index\": 2, "
		    "\"job_version\": 3, \"events\": [{\"type\": \"received\", \"text\": \"job web, version "
		    "3\"}, {\"type\": \"task-ended\", \"task\": \"main\", \"text\": \"exit status 3\"}]}}");
	expect_ok("alloc status 01");
	expect_output("web, group db[2], version 3");
	expect_output("EVENT");
	expect_output("received");
	expect_output("job web, version 3");
	expect_output("task-ended");
	expect_output("exit status 3");
	will_answer(0, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs\"}]}");
	will_answer(1, "Plugins.Get",
		    "{\"plugin\": {\"id\": \"ebs\", \"events\": [{\"type\": \"plugin-unhealthy\", "
		    "\"node_id\": \"node-7\", \"text\": \"the socket is refused\"}]}}");
	expect_ok("plugin status ebs");
	expect_output("plugin-unhealthy");
	expect_output("node-7");
	expect_output("the socket is refused");
}

TEST_FIXTURE(a_job_is_shown_with_its_groups_and_waits, run_setup, NULL)
{
	will_answer(0, "Jobs.List", "{\"jobs\": [{\"id\": \"web\", \"namespace\": \"default\"}]}");
	will_answer(1, "Jobs.Get",
		    "{\"job\": {\"id\": \"web\", \"namespace\": \"default\", \"type\": 1, \"version\": 3}, "
		    "\"state\": \"pending\", \"groups\": [{\"name\": \"app\", \"desired\": 2, \"placed\": 1, "
		    "\"waiting\": 1}], \"waits\": [{\"group\": \"app\", \"index\": 1, \"node_id\": "
		    "\"node-7\", \"text\": \"volume db[1] is taken\"}], \"placed\": [{\"group\": \"app\", "
		    "\"node_id\": \"node-8\", \"allocation_id\": \"" ALLOC_ID
		    "\", \"text\": \"running, of version 3\"}]}");
	expect_ok("job status web");
	expect_output("namespace            default\n");
	expect_output("type                 service\n");
	expect_output("state                pending\n");
	expect_output("version              3\n");
	expect_output("update               in progress\n");
	expect_output("app         2      1       0       0    0       1\n");
	expect_output("app[0] node-8 " ALLOC_ID " running, of version 3\n");
	expect_output("app[1] node-7 -          volume db[1] is taken\n");
}

#define WEB(more) "{\"job\": {\"id\": \"web\", \"namespace\": \"default\", \"version\": 3" more "}"
#define GROUP(current) ", \"groups\": [{\"name\": \"app\", \"desired\": 2, \"current\": " current "}]"
#define IN_SHOP "\"job\": {\"id\": \"web\", \"namespace\": \"shop\", \"version\": 3"
#define WAITS(index, text) ", \"waits\": [{\"group\": \"app\", \"index\": " index ", \"text\": \"" text "\"}]"
#define ON_NODE_8 "\"group\": \"app\", \"node_id\": \"node-8\", \"allocation_id\": \"01\", \"text\": "
#define A_JOB                                                                                    \
	"job \"web\" {\n  group \"app\" {\n    count = 2\n    csi_plugin {\n      id = \"e\"\n " \
	"type = \"node\"\n    }\n  }\n}\n"

TEST_FIXTURE(a_submitted_job_is_followed_until_its_update_is_done, run_setup, NULL)
{
	write_spec(A_JOB);
	will_answer(0, "Jobs.Run", WEB("") "}");
	will_answer(1, "Jobs.Get",
		    WEB("") GROUP("0") ", \"index\": 7, \"is_stuck\": true, \"placed\": [{" ON_NODE_8
				       "\"pending, of version 3\"}], \"waits\": [{" ON_NODE_8
				       "\"waits for health\"}]}");
	expect_failure(with_spec("job run @"), STATUS_DEADLINE_EXCEEDED, "is stuck: 0 of 2");
	assert_string_equal(ending.output, "job web is accepted as version 3\napp[0]: waits for health\n");
	expect_request(
		"Jobs.Get {\"id\":\"web\",\"index\":\"7\",\"namespace\":\"default\",\"wait_ms\":30000}");
	will_answer(1, "Jobs.Get",
		    WEB(", \"update_status\": 1") GROUP("2") ", \"placed\": [{" ON_NODE_8
							     "\"running, of version 3\"}]}");
	expect_ok(with_spec("job run @"));
	assert_string_equal(ending.output, "job web is accepted as version 3\n"
					   "app[0] on node node-8: running, of version 3\n"
					   "version 3 of job web is done: 2 of 2 members are healthy\n");
	fake.requests[0] = '\0';
	expect_ok(with_spec("job run @ --detach"));
	assert_string_equal(ending.output, "job web is accepted as version 3\n");
	assert_null(strstr(fake.requests, "Jobs.Get"));
	expect_ok(with_spec("job run @ --json"));
	expect_output("\"update_status\": \"JOB_UPDATE_STATUS_DONE\"");
	expect_usage_error(with_spec("job run @ --timeout soon"), "is not a duration");
}

TEST_FIXTURE(a_job_is_reverted_scaled_and_restarted, run_setup, NULL)
{
	will_answer(0, "Jobs.List", "{\"jobs\": [{\"id\": \"web\", \"namespace\": \"default\"}]}");
	will_answer(1, "Jobs.Revert", WEB("") ", \"reverted_to\": 1}");
	will_answer(2, "Jobs.Scale", WEB("") "}");
	will_answer(3, "Jobs.Restart", WEB("") "}");
	will_answer(4, "Jobs.History", "{\"versions\": []}");
	expect_ok("job revert web --detach");
	expect_request("Jobs.Revert {\"id\":\"web\",\"namespace\":\"default\"}");
	assert_string_equal(ending.output, "job web is reverted to version 1\n"
					   "job web is accepted as version 3\n");
	expect_ok("job revert web 2 --detach");
	expect_request("Jobs.Revert {\"id\":\"web\",\"namespace\":\"default\",\"version\":\"2\"}");
	expect_ok("job scale web 5 --detach");
	expect_request("Jobs.Scale {\"count\":5,\"id\":\"web\",\"namespace\":\"default\"}");
	expect_ok("job scale w app 0 --detach --yes");
	expect_request("Jobs.Scale {\"group\":\"app\",\"id\":\"web\",\"namespace\":\"default\"}");
	expect_ok("job restart web app --detach");
	expect_request("Jobs.Restart {\"group\":\"app\",\"id\":\"web\",\"namespace\":\"default\"}");
	expect_ok("job history web 2");
	expect_request("Jobs.History {\"id\":\"web\",\"namespace\":\"default\",\"version\":\"2\"}");
	expect_usage_error("job scale web many", "COUNT is a number from 0 to 4294967295, not 'many'");
	expect_usage_error("job revert web v1", "VERSION is a number");
	expect_usage_error("job restart web --timeout soon", "is not a duration");
	expect_failure("job restart w", STATUS_INVALID_ARGUMENT, "give --yes");
}

TEST_FIXTURE(a_submission_that_changes_nothing_says_so, run_setup, NULL)
{
	write_spec(A_JOB);
	will_answer(0, "Jobs.Run", WEB(", \"update_status\": 1") ", \"unchanged\": true}");
	will_answer(1, "Jobs.Plan", "{\"unchanged\": true, \"version\": 3}");
	expect_ok(with_spec("job run @"));
	assert_string_equal(ending.output, "nothing changed: job web stays at version 3\n");
	expect_ok(with_spec("job plan @"));
	assert_string_equal(ending.output, "nothing changed: this is version 3\n");
	will_answer(1, "Jobs.Plan", "{\"version\": 4}");
	expect_ok(with_spec("job plan @"));
	assert_string_equal(ending.output, "no allocation would change\n");
}

TEST_FIXTURE(an_update_that_does_not_end_well_has_its_own_exit_status, run_setup, NULL)
{
	write_spec(A_JOB);
	will_answer(0, "Jobs.Run", WEB("") "}");
	will_answer(1, "Jobs.Get",
		    WEB("") GROUP("1") ", \"is_stuck\": true, \"index\": 7" WAITS(
			    "1", "there is no volume db") "}");
	expect_failure(with_spec("job run @"), STATUS_DEADLINE_EXCEEDED,
		       "version 3 of job web is stuck: 1 of 2 members are healthy in it");
	assert_error(ending.exit_code, 3, ending.err, "\napp[1]: there is no volume db");
	will_answer(1, "Jobs.Get", WEB(", \"update_status\": 2") GROUP("1") "}");
	expect_failure(with_spec("job run @"), STATUS_FAILED_PRECONDITION, "version 3 of job web failed");
	assert_int_equal(ending.exit_code, 0);
	will_answer(1, "Jobs.Get", "{\"job\": {\"id\": \"web\", \"version\": 4}}");
	expect_failure(with_spec("job run @"), STATUS_ABORTED, "was replaced by version 4");
	will_answer(1, "Jobs.Get", WEB(", \"stop\": true") "}");
	expect_failure(with_spec("job run @"), STATUS_ABORTED, "job web was stopped");
	will_answer(0, "Jobs.Run", "{" IN_SHOP "}}");
	will_answer(1, "Jobs.Get", "{" IN_SHOP ", \"update_status\": 2}}");
	expect_failure(with_spec("job run @"), STATUS_FAILED_PRECONDITION,
		       "holdfast job status web --namespace shop, holdfast job revert web --namespace shop");
}

TEST_FIXTURE(a_job_is_found_by_its_beginning_and_changed_by_it_only_with_consent, run_setup, NULL)
{
	will_answer(0, "Jobs.List", "{\"jobs\": [{\"id\": \"web\", \"namespace\": \"shop\"}]}");
	will_answer(1, "Jobs.History", "{\"versions\": []}");
	will_answer(2, "Jobs.Stop", "{\"job\": {\"id\": \"web\"}}");
	expect_ok("job history w");
	expect_request("Jobs.History {\"id\":\"web\",\"namespace\":\"shop\"}");
	expect_failure("job stop w", STATUS_INVALID_ARGUMENT, "there is no terminal to ask on: give --yes");
	assert_null(strstr(fake.requests, "Jobs.Stop"));
	expect_ok("job stop w --yes --detach");
	expect_request("Jobs.Stop {\"id\":\"web\",\"namespace\":\"shop\"}");
	expect_output("job web is being stopped\n");
	will_answer(2, "Jobs.Stop", "{\"job\": {\"id\": \"web\", \"version\": 3, \"stop\": true}}");
	will_answer(3, "Jobs.Get", WEB(", \"stop\": true") ", \"state\": \"stopped\"}");
	expect_ok("job stop web");
	assert_string_equal(ending.output, "job web is being stopped\njob web is stopped\n");
	will_answer(3, "Jobs.Get",
		    WEB(", \"stop\": true") ", \"state\": \"stopping\", \"placed\": [{" ON_NODE_8
					    "\"running and to stop, of version 3\"}]}");
	expect_failure("job stop web --timeout 1ms", STATUS_DEADLINE_EXCEEDED,
		       "job web has 1 allocations that have not ended");
	assert_int_equal(ending.exit_code, 3);
	fake.requests[0] = '\0';
	will_answer(3, "Jobs.Get", WEB(", \"stop\": true") ", \"state\": \"stopped\"}");
	expect_ok("job stop web --purge");
	assert_string_equal(ending.output,
			    "job web is being stopped\njob web is stopped\njob web is forgotten\n");
	expect_request("Jobs.Stop {\"id\":\"web\",\"namespace\":\"shop\",\"purge\":true}");
	expect_usage_error("job stop web --purge --detach", "leave out --detach");
	fake.requests[0] = '\0';
	expect_failure("job stop w --purge --yes", STATUS_INVALID_ARGUMENT,
		       "--purge needs whole ids: 'w' is only the beginning of web");
	assert_null(strstr(fake.requests, "Jobs.Stop"));
	expect_failure("job status x --namespace shop", STATUS_NOT_FOUND,
		       "no job of namespace shop is called 'x' or begins with it");
	expect_ok("job status --filter version==2 --limit 3");
	expect_request("Jobs.List {\"filter\":\"version==2\",\"per_page\":3}");
	expect_usage_error("job status web --filter a", "--filter is for the list");
}

TEST_FIXTURE(the_driver_of_an_allocation_with_tasks_is_that_of_each, run_setup, NULL)
{
	will_answer(
		0, "Allocations.Get",
		"{\"allocation\": {\"id\": \"" ALLOC_ID
		"\", \"driver\": \"none\", \"tasks\": [{\"task\": \"main\", \"driver\": \"container\"}]}}");
	expect_ok("alloc status 01");
	expect_output("main container");
	assert_null(strstr(ending.output, "driver               none"));
	fake.answers[0].json = "{\"allocation\": {\"id\": \"" ALLOC_ID "\", \"driver\": \"none\"}}";
	expect_ok("alloc status 01");
	expect_output("driver               none");
}

TEST_FIXTURE(an_allocation_is_shown_with_its_plugin_devices_and_options, run_setup, NULL)
{
	will_answer(0, "Allocations.Get",
		    "{\"allocation\": {\"id\": \"" ALLOC_ID
		    "\", \"name\": \"app\", \"csi_plugins\": [{\"id\": \"ebs\", \"type\": \"monolith\", "
		    "\"socket\": \"x.sock\"}], \"volumes\": [{\"name\": \"raw\", \"source\": \"db\", "
		    "\"mount_options\": {\"fs_type\": \"xfs\", \"mount_flags\": [\"[redacted]\"]}}, "
		    "{\"name\": \"plain\", \"source\": \"logs\", \"mount_options\": {\"mount_flags\": "
		    "[\"[redacted]\"]}}], \"published\": [{\"name\": \"raw\", \"path\": "
		    "\"/stage/db/rw-publish\", \"is_device\": true}]}}");
	expect_ok("alloc status 01");
	expect_output("runs CSI plugin      ebs\n");
	expect_output("plugin type          monolith\n");
	expect_output("plugin socket        x.sock\n");
	expect_output("/stage/db/rw-publish");
	expect_output("block device");
	expect_output("xfs, flags");
	expect_ok("alloc status 01 --json");
	expect_output("\"csi_plugins\"");
	expect_output("\"is_device\"");
}

TEST_FIXTURE(nodes_and_the_server_are_shown, run_setup, NULL)
{
	expect_ok("node status");
	expect_output("node-2");
	fake.calls[0] = '\0';
	expect_ok("node status node-1");
	assert_string_equal(fake.calls, "Nodes.List(node-1) Nodes.Get(node-1) ");
	expect_ok("operator status");
	expect_output("cluster              demo\n");
	expect_output(
		"ticket key           abababababababababababababababababababababababababababababababab\n");
}

TEST_FIXTURE(the_agents_words_cannot_move_the_cursor, run_setup, NULL)
{
	expect_ok("agent status");
	expect_output("bad \\x1b[2J bytes\\xc2\\x9b and \\xe2\\x80\\xae reversed");
	expect_output("/run/holdfast/pub/1");
	assert_null(strchr(ending.output, '\033'));
}

TEST_FIXTURE(json_of_the_agent_reports_whether_the_policy_was_edited, run_setup, NULL)
{
	expect_ok("agent status --json");
	expect_output("\"last_error\": \"its policy is damaged\",");
	expect_output("\"policy_edited\": false"); /* no helper has said the digest of its own */
}

TEST_FIXTURE(a_stale_mount_is_shown_with_its_repair, run_setup, NULL)
{
	expect_ok("agent status");
	expect_output(
		"stale mount of volume models at /run/holdfast/pub/1: the file server behind it has died; "
		"holdfast alloc stop a1\n");
}

TEST_FIXTURE(a_mounts_usage_and_condition_are_shown, run_setup, NULL)
{
	expect_ok("agent status");
	expect_output("42%");
	expect_output("volume models at /run/holdfast/pub/1: read-only: the kernel stopped writes\n");
}

TEST_FIXTURE(the_agents_plugins_are_shown_with_their_calls, run_setup, NULL)
{
	expect_ok("agent status --verbose");
	expect_output("ebs.csi.aws.com 1.30");
	expect_output("unhealthy");
	expect_output("/run/holdfast/plugins/ebs/csi.sock");
	expect_output("NodeStageVolume for ");
	expect_output(" and 2 more");
	expect_output("4 of 9");
	expect_output("plugin ebs is unhealthy at /run/holdfast/plugins/ebs/csi.sock: plugin ebs: Probe: no "
		      "\\x1b[2Jcredentials\n");
	expect_ok("agent status --json");
	expect_output("\"plugin_id\":");
}

TEST_FIXTURE(the_agents_drivers_are_shown_with_why_one_is_not_healthy, run_setup, NULL)
{
	expect_ok("agent status");
	expect_output("4.3.1");
	expect_output("driver container is unhealthy: the engine \\x1b[2Jis away\n");
	expect_ok("agent status --json");
	expect_output("\"drivers\":");
	expect_output("\"reason\": \"the engine ");
}

TEST_FIXTURE(agent_operations_are_shown_with_their_error, run_setup, NULL)
{
	expect_ok("agent status");
	expect_output("orders a1         plugin unpublish");
	expect_output("59s");
	expect_output("plugin unpublish of orders: plugin ebs, volume v-1: NodeUnpublishVolume: no answer in "
		      "time\n");
}

TEST_FIXTURE(empty_lists_report_it, run_setup, NULL)
{
	fake = (struct fake_server){.failing = NULL};
	expect_ok("volume status");
	assert_string_equal(ending.output, "no volumes\n");
	expect_ok("node status");
	assert_string_equal(ending.output, "no nodes\n");
	expect_ok("alloc status");
	assert_string_equal(ending.output, "no allocations; --all lists ended ones, too\n");
}

/* Two records as the helper writes them; the hash of the first is the prev of the second. */
#define DB_HASH "e8853f44e6e3518b"
#define RECORD_1                                                                          \
	"ts=2025-01-31T12:00:00.000Z rec=1 cluster=c node=n1 op=start phase=event seq=0 " \
	"prev=0000000000000000000000000000000000000000000000000000000000000000\n"

TEST_FIXTURE(a_trail_is_verified_and_shown, run_setup, NULL)
{
	write_spec(RECORD_1);
	expect_ok(with_spec("audit verify @"));
	expect_output(": 1 records, the chain is intact\nhead ");
	expect_ok(with_spec("audit verify --json @"));
	expect_output("\"intact\": true");
	expect_failure(with_spec("audit verify @ --head "
				 "1111111111111111111111111111111111111111111111111111111111111111"),
		       STATUS_DATA_LOSS, ":1: no record has the expected hash");
	expect_output("NOT INTACT");
	expect_ok(with_spec("audit show @"));
	expect_output("start");
	expect_ok(with_spec("audit show @ --volume db"));
	assert_string_equal(ending.output, "no records\n");
	expect_ok(with_spec("audit show @ --json --since 2025-01-31T12"));
	expect_output("{\"ts\":\"2025-01-31T12:00:00.000Z\",\"rec\":\"1\"");
	expect_ok(with_spec("audit show @ --json --since 1h"));
	assert_string_equal(ending.output, "");
	expect_ok(with_spec("audit show @ --operation start --until 2025-01-31"));
	expect_output("start");
	expect_ok(with_spec("audit show @ --operation stage"));
	assert_string_equal(ending.output, "no records\n");
	expect_usage_error(with_spec("audit show @ --until tomorrow"), "'tomorrow' is neither");
	expect_usage_error(with_spec("audit show @ --since yesterday"), "'yesterday' is neither");
	expect_usage_error(with_spec("audit show @ --result refused"),
			   "'refused' is no result: success, failed");
	expect_usage_error(with_spec("audit verify @ --head 12"), "64 hex digits");
	expect_failure("audit show /nonexistent --json", STATUS_NOT_FOUND, "open /nonexistent");
	assert_string_equal(ending.output, "");
	expect_failure("audit show /nonexistent", STATUS_NOT_FOUND, "open /nonexistent");
	expect_failure("audit verify /tmp", STATUS_INVALID_ARGUMENT, "read /tmp: Is a directory");
}

TEST_FIXTURE(a_trail_of_several_files_is_verified_in_order, run_setup, NULL)
{
	write_spec(RECORD_1);
	expect_failure(with_spec("audit verify @ @"), STATUS_DATA_LOSS,
		       ":1: it does not continue the file before it");
	expect_output(" to ");
	expect_failure(with_spec("audit verify --json @ @"), STATUS_DATA_LOSS, "it does not continue");
	expect_output("\"files\": [");
	expect_output("\"first_fault_line\": 1");
}

TEST_FIXTURE(a_long_trail_is_shown_in_pieces, run_setup, NULL)
{
	static char text[2100 * 64];
	size_t n = 0;
	int headings = 0;

	for (int i = 1; i <= 2001; i++)
		n += (size_t)str_format(text + n, sizeof(text) - n, "ts=1 rec=%d op=stop vol=v%d prev=0\n", i,
					i);
	write_spec(text);
	expect_ok(with_spec("audit show @"));
	for (const char *at = ending.output; (at = strstr(at, "OPERATION")); at++)
		headings++;
	assert_int_equal(headings, 3);
	expect_output("v2001");
}

TEST_FIXTURE(intents_without_a_result_are_shown_alone, run_setup, NULL)
{
	write_spec("ts=1 rec=1 op=stage phase=intent seq=2 vol=done prev=0\n"
		   "ts=1 rec=2 op=stage phase=intent seq=3 vol=lost prev=0\n"
		   "ts=1 rec=3 op=stage phase=result seq=2 vol=done res=success prev=0\n"
		   "ts=1 rec=4 op=stage phase=intent seq=4 vol=alone prev=0\n");
	expect_ok(with_spec("audit show @ --unfinished"));
	expect_output("lost");
	expect_output("alone");
	assert_null(strstr(ending.output, "done"));
	expect_ok(with_spec("audit show @ --unfinished --volume lost --json"));
	expect_output("\"vol\":\"lost\"");
	assert_null(strstr(ending.output, "alone"));
	expect_ok(with_spec("audit show @ --unfinished --volume done"));
	assert_string_equal(ending.output, "no records\n");
}

TEST_FIXTURE(a_volume_is_found_in_the_trail_under_its_name_towards_the_helper, run_setup, NULL)
{
	/* 16 hex digits of SHA-256("default/db") */
	write_spec("ts=2025-01-31T12:00:00.000Z rec=1 vol=db-" DB_HASH " prev=0\n"
		   "ts=2025-01-31T12:00:01.000Z rec=2 vol=db-0000000000000000 prev=0\n");
	expect_ok(with_spec("audit show @ --volume db"));
	expect_output("db-" DB_HASH);
	assert_null(strstr(ending.output, "db-0000000000000000"));
	expect_ok(with_spec("audit show @ --volume db-0000000000000000"));
	expect_output("db-0000000000000000");
}

TEST_GROUP(run_begin, run_end)
