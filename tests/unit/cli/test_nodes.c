/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about nodes, plugins and placement against a model of the server. */

#include "run.h"
#include "unit.h"

#include <holdfast/v1/explain.pb-c.h>

#define NODE                                                                                          \
	"{\"node\": {\"id\": \"node-1\", \"status\": \"DRAINING\", \"ineligible\": true, \"drain\": " \
	"{\"started_ms\": 1"
#define CLAIM(state)                                                                                     \
	"{\"id\": \"c1\", \"namespace\": \"default\", \"volume_id\": \"db\", \"allocation_id\": \"a1\"," \
	"\"node_id\": \"node-1\", \"state\": \"" state "\"}"

static void drain(const char *end)
{
	will_answer(0, "Nodes.Drain",
		    "{\"node\": {\"id\": \"node-1\"}, \"volumes\": [{\"volume_id\": \"db\", \"namespace\": "
		    "\"default\",\"allocation_id\": \"a1\", \"text\": \"waits for the stop of a1\"}]}");
	will_answer(1, "Nodes.Get", NODE "}}, \"index\": 5, \"claims\": [" CLAIM("TAKEN") "]}");
	will_answer(2, "Nodes.Get", NODE "}}, \"index\": 6, \"claims\": [" CLAIM("UNPUBLISHING") "]}");
	will_answer(3, "Nodes.Get", end);
}

TEST_FIXTURE(a_drain_is_watched_until_its_end, run_setup, NULL)
{
	drain(NODE ", \"done_ms\": 9}}, \"index\": 7}");
	expect_ok("node drain node-1 --reason kernel --deadline 30m --yes");
	expect_request("Nodes.Drain {\"deadline_ms\":\"1800000\",\"id\":\"node-1\",\"reason\":\"kernel\"}\n"
		       "Nodes.Get {\"id\":\"node-1\"}\n"
		       "Nodes.Get {\"id\":\"node-1\",\"index\":\"5\",\"wait_ms\":2000}\n"
		       "Nodes.Get {\"id\":\"node-1\",\"index\":\"6\",\"wait_ms\":2000}\n");
	expect_output("volume default/db of allocation a1: waits for the stop of a1\n"
		      "volume default/db of allocation a1: unpublishing\n"
		      "volume default/db of allocation a1: released\n"
		      "node node-1 is drained");
	drain(NODE ", \"done_ms\": 9}}, \"index\": 7}");
	memset(fake.given, 0, sizeof(fake.given));
	expect_ok("node drain node-1 --json --yes");
	assert_true(ending.output[0] == '{');
	expect_output("\"done_ms\": \"9\"");
}

TEST_FIXTURE(a_drain_that_lasts_continues_without_the_command, run_setup, NULL)
{
	drain(NODE "}}, \"index\": 7, \"claims\": [" CLAIM("UNPUBLISHING") "]}");
	expect_failure("node drain node-1 --timeout 1ms --yes", STATUS_DEADLINE_EXCEEDED,
		       "node node-1 still holds 1 claims; its drain continues without us");
	fake.requests[0] = '\0';
	expect_ok("node drain node-1 --detach --yes");
	expect_output("is draining, 1 volume is not released yet");
	assert_null(strstr(fake.requests, "Nodes.Get"));
	expect_ok("node drain node-1 --no-wait --json --yes");
	expect_output("\"volumes\": [");
}

TEST_FIXTURE(a_drain_names_the_report_that_it_waits_for, run_setup, NULL)
{
	will_answer(0, "Nodes.Drain", NODE "}, \"unreported\": true}}");
	will_answer(1, "Nodes.Get", NODE "}, \"unreported\": true}}");
	expect_failure(
		"node drain node-1 --timeout 1ms --yes", STATUS_DEADLINE_EXCEEDED,
		"node node-1 still holds 0 claims, and has not reported what it holds since the restore; "
		"its drain continues");
	expect_output(
		"is draining, 0 volumes are not released yet; it has not reported what it holds since the "
		"restore");
	expect_ok("node status node-1");
	expect_output("it has not reported what it holds since the restore; if it is gone for good: holdfast "
		      "node purge node-1 --reason TEXT");
}

TEST_FIXTURE(claims_that_the_caller_may_not_see_are_counted, run_setup, NULL)
{
	will_answer(0, "Nodes.Drain", NODE "}, \"live_claims\": 2}}");
	will_answer(1, "Nodes.Get", NODE "}, \"live_claims\": 2}}");
	expect_failure("node drain node-1 --timeout 1ms --yes", STATUS_DEADLINE_EXCEEDED,
		       "node node-1 still holds 2 claims");
	expect_output("is draining, 2 volumes are not released yet");
	fake.requests[0] = '\0';
	expect_failure("node purge node-1 --reason old --yes", STATUS_FAILED_PRECONDITION,
		       "node node-1 holds 2 claims");
	assert_null(strstr(fake.requests, "Nodes.Purge"));
}

TEST_FIXTURE(a_drain_that_another_command_ends_is_a_failure, run_setup, NULL)
{
	drain("{\"node\": {\"id\": \"node-1\", \"ineligible\": true, \"eligibility_reason\": \"a drain was "
	      "cancelled by operator/bob\", \"drain\": {}}, \"index\": 7, \"claims\": [" CLAIM("TAKEN") "]}");
	expect_failure("node drain node-1 --yes", STATUS_FAILED_PRECONDITION,
		       "the drain of node node-1 was ended by another command (a drain was cancelled by "
		       "operator/bob); the node holds 1 claims. Next: holdfast node status node-1");
	assert_null(strstr(ending.output, "is drained"));
	drain("{\"node\": {\"id\": \"node-1\"}, \"index\": 7}");
	memset(fake.given, 0, sizeof(fake.given));
	expect_failure("node drain node-1 --json --yes", STATUS_FAILED_PRECONDITION,
		       "(the node is eligible)");
	assert_string_equal(ending.output, "");
}

TEST_FIXTURE(a_drain_without_a_question_needs_the_whole_id, run_setup, NULL)
{
	fake.node_ids[1] = NULL;
	will_answer(0, "Nodes.Get", NODE "}}}"); /* it drains already: nothing is asked */
	will_answer(1, "Nodes.Drain", "{\"node\": {\"id\": \"node-1\"}}");
	expect_failure("node drain node --detach --yes", STATUS_INVALID_ARGUMENT,
		       "--yes needs whole ids: 'node' is only the beginning of node-1");
	assert_null(strstr(fake.requests, "Nodes.Drain"));
	expect_ok("node drain node --detach");
	expect_request("Nodes.Drain {\"id\":\"node-1\"}");
}

TEST_FIXTURE(a_decision_of_another_person_is_undone_only_by_the_whole_id, run_setup, NULL)
{
	fake.node_ids[1] = NULL;
	will_answer(0, "Nodes.SetEligibility", "{\"node\": {\"id\": \"node-1\"}}");
	will_answer(1, "Nodes.Drain", "{\"node\": {\"id\": \"node-1\", \"ineligible\": true}}");
	expect_failure("node eligibility node --enable", STATUS_INVALID_ARGUMENT,
		       "eligibility needs whole ids: 'node' is only the beginning of node-1");
	assert_null(strstr(fake.requests, "Nodes.SetEligibility"));
	expect_failure("node drain node --cancel", STATUS_INVALID_ARGUMENT, "--cancel needs whole ids");
	assert_null(strstr(fake.requests, "Nodes.Drain"));
}

TEST_FIXTURE(a_fence_at_a_storage_needs_the_whole_id_of_its_plugin, run_setup, NULL)
{
	will_answer(0, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs2\"}]}");
	expect_failure("node fence node-1 --network ebs --reason old --yes", STATUS_INVALID_ARGUMENT,
		       "fence needs whole ids: 'ebs' is only the beginning of ebs2");
	assert_null(strstr(fake.requests, "Fences.Fence"));
}

TEST_FIXTURE(a_fence_that_another_command_has_changed_is_a_failure, run_setup, NULL)
{
	static const struct {
		const char *option, *state, *error; /* NULL: success */
	} rows[] = {
		{"", "LIFTED", "no proof that the storage of plugin ebs refuses node node-1"},
		{"", "RECORDED", NULL},
		{"", "OVERTAKEN", NULL},
		{" --lift", "RECORDED", "the storage of plugin ebs may still refuse node node-1"},
		{" --lift", "UNKNOWN", "the storage of plugin ebs may still refuse node node-1"},
		{" --lift", "LIFTED", NULL},
		{" --lift", "OVERTAKEN", NULL},
	};
	char typed[128], end[160];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)str_format(typed, sizeof(typed), "node fence node-1 --network ebs%s --reason old --yes",
				 rows[i].option);
		(void)str_format(end, sizeof(end),
				 "{\"fence\": {\"node_id\": \"node-1\", \"plugin_id\": \"ebs\", \"state\": "
				 "\"FENCE_STATE_%s\"}}",
				 rows[i].state);
		memset(fake.given, 0, sizeof(fake.given));
		will_answer(0, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs\"}]}");
		will_answer(1, "Fences.Fence", end);
		will_answer(2, "Fences.Get", end);
		if (rows[i].error)
			expect_failure(typed, STATUS_FAILED_PRECONDITION, rows[i].error);
		else
			expect_ok(typed);
	}
}

TEST_FIXTURE(a_drain_is_cancelled, run_setup, NULL)
{
	will_answer(0, "Nodes.Drain", "{\"node\": {\"id\": \"node-1\", \"ineligible\": true}}");
	expect_ok("node drain node-1 --cancel");
	expect_request("Nodes.Drain {\"cancel\":true,\"id\":\"node-1\"}");
	expect_output("is cancelled; it stays ineligible");
	will_answer(0, "Nodes.Drain", NODE ", \"done_ms\": 2}}}");
	expect_ok("node drain node-1 --cancel");
	expect_output("is done; it stays ineligible");
	will_answer(0, "Nodes.Drain", "{\"node\": {\"id\": \"node-1\"}}");
	expect_ok("node drain node-1 --cancel");
	expect_output("node node-1 has no drain: nothing was changed");
	assert_null(strstr(fake.requests, "Nodes.Get"));
	expect_usage_error("node drain node-1 --cancel --deadline 5m", "has no --deadline");
	expect_usage_error("node drain node-1 --deadline 31d", "is not a duration up to 30 days");
}

TEST_FIXTURE(eligibility_is_reported_one_way_or_the_other, run_setup, NULL)
{
	will_answer(0, "Nodes.SetEligibility", "{\"node\": {\"id\": \"node-1\"}}");
	expect_ok("node eligibility node-1 --enable");
	expect_request("Nodes.SetEligibility {\"eligible\":true,\"id\":\"node-1\"}");
	expect_ok("node eligibility node-1 --disable --reason disk");
	expect_request("Nodes.SetEligibility {\"id\":\"node-1\",\"reason\":\"disk\"}");
	expect_usage_error("node eligibility node-1", "either --enable or --disable");
	expect_usage_error("node eligibility node-1 --enable --disable", "either --enable or --disable");
}

TEST_FIXTURE(a_purge_strands_no_claim_and_is_asked_for_twice, run_setup, NULL)
{
	will_answer(0, "Nodes.Get", "{\"node\": {\"id\": \"node-1\"}, \"claims\": [" CLAIM("TAKEN") "]}");
	will_answer(1, "Nodes.Purge", "{}");
	expect_usage_error("node purge node-1", "give a reason with --reason");
	expect_failure("node purge node-1 --reason old --yes", STATUS_FAILED_PRECONDITION,
		       "node node-1 holds 1 claims that a purge would not free");
	fake.answers[0].json = "{\"node\": {\"id\": \"node-1\"}, \"claims\": [" CLAIM("FREED") "]}";
	expect_ok("node purge node-1 --reason old --dry-run");
	expect_output("would be forgotten");
	expect_failure("node purge node-1 --reason old", STATUS_INVALID_ARGUMENT, "give --yes");
	assert_null(strstr(fake.requests, "Purge"));
	expect_ok("node purge node-1 --reason old --yes");
	expect_request("Nodes.Purge {\"id\":\"node-1\",\"reason\":\"old\"}");
	expect_output("it is a new node: holdfast operator node enroll node-1, or without a block ca { } in "
		      "the server's settings: holdfast operator cert node node-1");
	fake.node_ids[1] = NULL;
	expect_failure("node purge node --reason old --yes", STATUS_INVALID_ARGUMENT,
		       "purge needs whole ids");
}

TEST_FIXTURE(purging_unknown_nodes_needs_a_reason_and_yes, run_setup, NULL)
{
	will_answer(0, "Nodes.Purge", "{}");
	expect_usage_error("node purge --unknown", "give a reason with --reason");
	expect_failure("node purge --unknown node-1 --reason off --yes", STATUS_INVALID_ARGUMENT, "not both");
	expect_failure("node purge --unknown --reason off --dry-run", STATUS_INVALID_ARGUMENT,
		       "cannot list unknown nodes. Next, for their number: holdfast operator status");
	expect_failure("node purge --unknown --reason off", STATUS_INVALID_ARGUMENT, "give --yes");
	expect_failure("node purge --reason off --yes", STATUS_INVALID_ARGUMENT,
		       "by its ID, or give --unknown");
	assert_null(strstr(fake.requests, "Purge"));
	expect_ok("node purge --unknown --reason off --yes");
	expect_request("Nodes.Purge {\"reason\":\"off\",\"unknown\":true}");
	expect_output("no node is missing now");
}

TEST_FIXTURE(identify_means_the_machine_that_was_refused, run_setup, NULL)
{
	will_answer(0, "Nodes.Get", "{\"node\": {\"id\": \"node-1\"}}");
	will_answer(1, "Nodes.Identify", "{\"claims\": [" CLAIM("UNPUBLISHING") "]}");
	expect_usage_error("node identify node-1", "give a reason with --reason");
	expect_failure("node identify node-1 --reason new --yes", STATUS_FAILED_PRECONDITION,
		       "no other machine was refused as node node-1");
	fake.answers[0].json = "{\"node\": {\"id\": \"node-1\", \"other_machine\": \"22\"}}";
	expect_failure("node identify node-1 --reason new", STATUS_INVALID_ARGUMENT, "give --yes");
	assert_null(strstr(fake.requests, "Identify"));
	expect_ok("node identify node-1 --reason new --yes");
	expect_request("Nodes.Identify {\"id\":\"node-1\",\"machine\":\"22\",\"reason\":\"new\"}");
	expect_output("they stay until that is ruled out");
	expect_ok("node identify node-1 11 --reason new --yes");
	expect_request("Nodes.Identify {\"id\":\"node-1\",\"machine\":\"11\",\"reason\":\"new\"}");
}

TEST_FIXTURE(identify_requires_the_machine_if_several_were_refused, run_setup, NULL)
{
	will_answer(0, "Nodes.Get",
		    "{\"node\": {\"id\": \"node-1\", \"other_machine\": \"22 11\", \"other_machines\": 2}}");
	will_answer(1, "Nodes.Identify", "{}");
	expect_failure("node identify node-1 --reason new --yes", STATUS_FAILED_PRECONDITION,
		       "more than one machine was refused as node node-1, lately 22 11;");
	assert_null(strstr(fake.requests, "Identify"));
	expect_ok("node identify node-1 22 --reason new --yes");
	expect_request("Nodes.Identify {\"id\":\"node-1\",\"machine\":\"22\",\"reason\":\"new\"}");
}

TEST_FIXTURE(an_attestation_lists_volumes_and_bypassed_evidence, run_setup, NULL)
{
	will_answer(0, "Nodes.Attest",
		    "{\"bypassed\": \"no receipt\\nno new boot\", \"claims\": [" CLAIM("UNPUBLISHING") "]}");
	expect_usage_error("node attest node-1 db", "give a reason with --reason");
	expect_ok("node attest node-1 db shop/web --reason off --dry-run");
	expect_request("Nodes.Attest "
		       "{\"dry_run\":true,\"id\":\"node-1\",\"reason\":\"off\",\"volumes\":[{\"id\":\"db\","
		       "\"namespace\":\"default\"},{\"id\":\"web\",\"namespace\":\"shop\"}]}");
	expect_output("no receipt\nno new boot\n");
	expect_output("would be freed");
	expect_failure("node attest node-1 db --reason off", STATUS_INVALID_ARGUMENT, "give --yes");
	assert_null(strstr(fake.requests, "Attest {\"id\""));
	expect_ok("node attest node-1 db --reason off --yes --namespace shop");
	expect_request("Nodes.Attest "
		       "{\"id\":\"node-1\",\"reason\":\"off\",\"volumes\":[{\"id\":\"db\",\"namespace\":"
		       "\"shop\"}]}");
	expect_output("freed by your attestation: 1 of the claims of node node-1");
	fake.answers[0].json =
		"{\"bypassed\": \"no receipt\"}"; /* after a restore: there is nothing to free */
	expect_ok("node attest node-1 db --reason off --dry-run");
	expect_output("it counts as proof that the node holds none of these volumes since the restore\n");
	expect_ok("node attest node-1 db --reason off --yes");
	expect_output("freed by your attestation: 0 of the claims");
	will_refuse(0, "Nodes.Attest", STATUS_FAILED_PRECONDITION);
	expect_failure("node attest node-1 db --reason off --yes", STATUS_FAILED_PRECONDITION,
		       "the server refuses");
	will_answer(0, "Nodes.Attest", "{\"bypassed\": \"no receipt\"}");
	expect_ok("node attest node-1 db --reason off --yes --valid 1h");
	expect_request("\"valid_ms\":\"3600000\"");
	expect_usage_error("node attest node-1 db --reason off --valid 8d", "up to 7 days");
	expect_usage_error("node attest node-1 db --reason off --namespace *", "are named as NAMESPACE/ID");
}

#define ATTACHED(state) "{\"volume_id\": \"db\", \"attach\": \"ATTACH_DONE\", \"state\": \"" state "\"}"

TEST_FIXTURE(an_attested_claim_that_is_attached_waits_for_its_controller, run_setup, NULL)
{
	static const char waits[] =
		"\n1 of them only after a detach by a controller of their plugin; node-detached until then\n";

	will_answer(0, "Nodes.Attest",
		    "{\"bypassed\": \"no receipt\", \"claims\": [" ATTACHED(
			    "TAKEN") ", {\"state\": \"TAKEN\"}]}");
	expect_ok("node attest node-1 db --reason off --dry-run");
	expect_output(waits);
	will_answer(0, "Nodes.Attest",
		    "{\"claims\": [" ATTACHED("NODE_DETACHED") ", " ATTACHED("FREED") "]}");
	expect_ok("node attest node-1 db --reason off --yes");
	expect_output(waits);
	will_answer(0, "Nodes.Attest", "{\"claims\": [" ATTACHED("FREED") "]}");
	expect_ok("node attest node-1 db --reason off --yes");
	assert_null(strstr(ending.output, "only after"));
}

TEST_FIXTURE(plugins_are_listed_and_shown_with_their_halves, run_setup, NULL)
{
	will_answer(0, "Plugins.List",
		    "{\"plugins\": [{\"id\": \"ebs\", \"provider\": \"aws\", \"controllers_healthy\": "
		    "1,\"controllers_expected\": 2, \"nodes_healthy\": 3, \"nodes_expected\": 3, "
		    "\"volumes\": 9}]}");
	will_answer(
		1, "Plugins.Get",
		"{\"plugin\": {\"id\": \"ebs\", \"unschedulable_reason\": \"no controller\", \"instances\": "
		"[{\"node_id\": \"node-2\", \"plugin\": {\"node\": {}, \"health_description\": "
		"\"gone\",\"controller\": {\"health_description\": \"gone\"}}},{\"node_id\": \"node-3\", "
		"\"plugin\": {\"controller\": {\"health_description\": \"mad\"}}},{\"node_id\": \"node-1\", "
		"\"connected\": true, \"plugin\": {\"healthy\": true,\"controller\": {\"healthy\": true, "
		"\"attach_detach\": true, \"clone\": true},\"node\": {\"max_volumes\": 16, \"stage\": true, "
		"\"topology\": {\"segments\": {\"rack\": \"R1\"}}}}}]}}");
	expect_ok("plugin status");
	expect_output("1/2");
	expect_output("aws");
	expect_ok("plugin status e --verbose");
	expect_output("NODE   PROFILE HALF");
	expect_request("Plugins.Get {\"id\":\"ebs\",\"per_page\":1000}");
	expect_output("because              no controller\n");
	expect_output("attach-detach clone");
	expect_output("\nnode node-2: gone\nnode node-3, controller: mad\n");
	assert_true(strstr(ending.output, "\nnode-1 ") < strstr(ending.output, "\nnode-2 "));
	expect_output("stage rack=R1");
	assert_null(strstr(ending.output, "expand")); /* what is not said is not there */
	assert_null(strstr(ending.output, "condition"));
	expect_output("16");
}

TEST_FIXTURE(claim_errors_are_shown_untruncated, run_setup, NULL)
{
#define CLAIMS                                                                                             \
	"\"claims\": [{\"volume_id\": \"db\", \"node_id\": \"n1\", \"attempts\": 3, \"last_error\": \"no " \
	"plugin\"},"                                                                                       \
	"{\"volume_id\": \"web\", \"node_id\": \"n1\"}]}"
	will_answer(0, "Nodes.Get", "{\"node\": {\"id\": \"node-1\"}, " CLAIMS);
	will_answer(1, "Allocations.Get", "{\"allocation\": {\"id\": \"01\"}, " CLAIMS);
	expect_ok("node status node-1");
	expect_output("\nvolume db on node n1: no plugin\n");
	assert_null(strstr(ending.output, "volume web"));
	expect_ok("alloc status 01");
	expect_output("\nvolume db on node n1: no plugin\n");
#undef CLAIMS
}

TEST_FIXTURE(volumes_in_use_on_a_node_are_shown_with_it, run_setup, NULL)
{
	will_answer(0, "Nodes.Get",
		    "{\"node\": {\"id\": \"node-1\"}, \"claims\": [{\"volume_id\": \"db\"}]}");
	will_answer(
		1, "Volumes.List",
		"{\"volumes\": [{\"id\": \"db\", \"name\": \"orders\", \"provider\": \"ebs.example\", "
		"\"plugin_id\": \"ebs\", \"schedulable\": true, \"access_mode\": \"SINGLE_NODE_WRITER\"}]}");
	expect_ok("node status node-1");
	expect_output("\nvolumes\n");
	expect_output("orders");
	expect_output("ebs.example");
	expect_output("single-node-writer");
	assert_non_null(strstr(fake.requests, "\"node_id\":\"node-1\""));
	will_refuse(1, "Volumes.List", STATUS_PERMISSION_DENIED);
	expect_ok("node status node-1");
	expect_output("its volumes are not shown: ");
	assert_null(strstr(ending.output, "\nvolumes\n"));
}

TEST_FIXTURE(the_usage_of_volumes_is_shown_with_their_node, run_setup, NULL)
{
	will_answer(0, "Nodes.Get",
		    "{\"node\": {\"id\": \"node-1\"}, \"usages\": [{\"volume_id\": \"db\", \"node_id\": "
		    "\"node-1\", "
		    "\"total_bytes\": \"1048576\", \"used_bytes\": \"524288\", \"free_bytes\": \"524288\", "
		    "\"percent\": 50}]}");
	expect_ok("node status node-1");
	expect_output("\nusage\n");
	expect_output("50%");
	expect_output("512KiB");
}

TEST_FIXTURE(a_node_without_a_drain_reports_nothing_of_one, run_setup, NULL)
{
	will_answer(0, "Nodes.Get", "{\"node\": {\"id\": \"node-1\", \"drain\": {}}}");
	expect_ok("node status node-1");
	assert_null(strstr(ending.output, "drain"));
	will_answer(0, "Nodes.Get",
		    "{\"node\": {\"id\": \"node-1\", \"drain\": {\"started_ms\": 1000, \"by\": "
		    "\"operator/ann\"}}}");
	expect_ok("node status node-1");
	expect_output("drained by           operator/ann\n");
}

TEST_FIXTURE(a_placement_is_tried_and_its_refusal_names_every_node, run_setup, NULL)
{
	const Holdfast__V1__ErrorDetails *details;

	write_spec("name = \"app\"\n");
	will_answer(0, "Allocations.Run", "{\"allocation\": {\"id\": \"a\", \"node_id\": \"node-2\"}}");
	expect_ok(with_spec("alloc run @ --dry-run"));
	expect_request("Allocations.Run {\"allocation\":{\"name\":\"app\"},\"dry_run\":true}");
	assert_string_equal(ending.output, "it would run on node node-2; nothing was changed\n");
	fake.answers[0] = (struct fake_answer){.method = "Allocations.Run",
					       .status = STATUS_FAILED_PRECONDITION,
					       .details = "{\"nodes\": [{\"node_id\": \"node-1\", "
							  "\"reason\": \"no plugin\"}], \"more_nodes\": 4}"};
	expect_failure(with_spec("alloc run @"), STATUS_FAILED_PRECONDITION, "the server refuses");
	assert_non_null(ending.details);
	details = (const void *)ending.details;
	assert_string_equal(details->nodes[0]->reason, "no plugin");
	assert_int_equal(details->more_nodes, 4);
}

TEST_GROUP(run_begin, run_end)
