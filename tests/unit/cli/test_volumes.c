/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about volumes and snapshots against a model of the server. */

#include "run.h"
#include "unit.h"

#include <jansson.h>

TEST_FIXTURE(lists_come_whole_in_pages, run_setup, NULL)
{
	cleanup(json_decrefp) json_t *json = NULL;

	will_answer(0, "Volumes.List",
		    "{\"volumes\": [{\"id\": \"a\"}, {\"id\": \"b\"}], \"next_token\": \"c\", \"index\": 7}");
	will_answer(1, "Volumes.List", "{\"volumes\": [{\"id\": \"c\"}]}");
	expect_ok("volume status --json --namespace *");
	json = json_loads(ending.output, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(json, "volumes")), 3);
	assert_string_equal(json_string_value(json_object_get(json, "next_token")), "");
	assert_string_equal(json_string_value(json_object_get(json, "index")), "7");
	expect_request("Volumes.List {\"namespace\":\"*\",\"per_page\":1000}\n"
		       "Volumes.List {\"namespace\":\"*\",\"next_token\":\"c\",\"per_page\":1000}\n");
}

TEST_FIXTURE(a_list_is_printed_in_each_output, run_setup, NULL)
{
	will_answer(0, "Volumes.List",
		    "{\"volumes\": [{\"id\": \"db\", \"name\": \"no\", \"capacity\": \"5\", \"context\": "
		    "{\"a b\": \"x: y\"}}, {\"id\": \"logs\"}]}");
	expect_ok("volume status -o name");
	assert_string_equal(ending.output, "db\nlogs\n");
	expect_ok("volume status --output wide");
	expect_output("EXTERNAL ID");
	expect_ok("volume status -o json");
	assert_int_equal(ending.output[0], '{');
	expect_ok("volume status -o yaml");
	assert_true(str_starts_with(ending.output,
				    "volumes:\n  - id: db\n    namespace: \"\"\n    name: \"no\"\n"));
	expect_output("\n    capacity: \"5\"\n");
	expect_output("\n    context:\n      \"a b\": \"x: y\"\n");
	expect_output("\n    claims: []\n");
	expect_output("\n    schedulable: false\n");
	expect_output("\n  - id: logs\n");
	assert_null(strstr(ending.output, "---"));
	expect_ok("version -o yaml");
	assert_true(str_starts_with(ending.output, "version: \""));
}

TEST_FIXTURE(an_output_that_a_command_lacks_is_refused_before_its_call, run_setup, NULL)
{
	expect_usage_error("volume delete db --yes -o name", "--output name is for lists");
	expect_usage_error("volume status db -o name", "--output name is for lists");
	expect_usage_error("version -o wide", "--output wide is for tables");
	expect_usage_error("volume status -o xml", "--output is json, yaml, wide or name, not 'xml'");
}

TEST_FIXTURE(a_plugin_comes_whole_in_pages, run_setup, NULL)
{
	json_t *json, *plugin;

	will_answer(0, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs\"}]}");
	will_answer(1, "Plugins.Get",
		    "{\"plugin\": {\"id\": \"ebs\", \"nodes_expected\": 3, \"instances\": [{\"node_id\": "
		    "\"a\"}, {\"node_id\": \"b\"}]}, \"index\": 7, \"next_token\": \"node/c\"}");
	will_answer(2, "Plugins.Get",
		    "{\"plugin\": {\"id\": \"ebs\", \"instances\": [{\"node_id\": \"c\"}], \"allocations\": "
		    "[{\"id\": \"x\"}, {\"id\": \"y\"}]}}");
	expect_ok("plugin status ebs --json");
	json = json_loads(ending.output, 0, NULL);
	plugin = json_object_get(json, "plugin");
	assert_int_equal(json_array_size(json_object_get(plugin, "instances")), 3);
	assert_int_equal(json_array_size(json_object_get(plugin, "allocations")), 2);
	assert_int_equal(json_integer_value(json_object_get(plugin, "nodes_expected")), 3);
	json_decref(json);
	expect_request("Plugins.Get {\"id\":\"ebs\",\"per_page\":1000}\n"
		       "Plugins.Get {\"id\":\"ebs\",\"next_token\":\"node/c\",\"per_page\":1000}\n");
	memset(fake.given, 0, sizeof(fake.given));
	fake.answers[2].json = "{}";
	expect_failure("plugin status ebs", STATUS_INTERNAL, "lacks what was asked for");
}

TEST_FIXTURE(a_limit_ends_the_pages_and_reports_it, run_setup, NULL)
{
	cleanup(json_decrefp) json_t *json = NULL;

	will_answer(
		0, "Volumes.List",
		"{\"volumes\": [{\"id\": \"a\"}, {\"id\": \"b\"}, {\"id\": \"c\"}], \"next_token\": \"d\"}");
	expect_ok("volume status --json --limit 2"); /* the server gives more than it was asked for */
	expect_request("\"per_page\":2}\n");
	json = json_loads(ending.output, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(json, "volumes")), 2);
	assert_string_equal(json_string_value(json_object_get(json, "next_token")), "d");
	fake.requests[0] = '\0';
	memset(fake.given, 0, sizeof(fake.given));
	fake.answers[0].json = "{\"volumes\": [{\"id\": \"a\"}, {\"id\": \"b\"}], \"next_token\": \"c\"}";
	will_answer(1, "Volumes.List", "{\"volumes\": [{\"id\": \"c\"}], \"next_token\": \"d\"}");
	expect_ok("volume status --limit 3");
	expect_request("{\"per_page\":3}\nVolumes.List {\"next_token\":\"c\",\"per_page\":1}\n");
	expect_usage_error("volume status --limit 0", "--limit: '0' is not a number from 1 to 10000000");
	expect_usage_error("volume status --limit 10000001", "is not a number");
}

#define FULL_USAGE                                                                                   \
	"{\"volume_id\": \"db\", \"node_id\": \"n1\", \"total_bytes\": \"10737418240\", "            \
	"\"used_bytes\": \"9985798963\", \"free_bytes\": \"751619277\", \"percent\": 93, \"full\": " \
	"true, \"condition\": \"its plugin reports: slow\", \"total_inodes\": \"100\", "             \
	"\"used_inodes\": \"7\"}"
#define LOST_USAGE                                                                               \
	"{\"volume_id\": \"db\", \"node_id\": \"n2\", \"unknown_since_ms\": \"1700000000000\", " \
	"\"condition\": \"its file server does not answer\"}"

TEST_FIXTURE(how_full_a_volume_is_is_a_column_and_a_table, run_setup, NULL)
{
	will_answer(0, "Volumes.List",
		    "{\"volumes\": [{\"id\": \"db\", \"usages\": [" FULL_USAGE "]}, {\"id\": \"logs\"}]}");
	expect_ok("volume status");
	expect_output("FULL");
	expect_output("  93%");
	will_answer(1, "Volumes.Get",
		    "{\"volume\": {\"id\": \"db\", \"warn_at\": 80, \"usages\": [" FULL_USAGE ", " LOST_USAGE
		    "]}}");
	expect_ok("volume status db");
	expect_output("warn at");
	expect_output("usage");
	expect_output("db     n1       93% 9.2GiB 716.7MiB 10GiB full; its plugin reports: slow");
	expect_output("db     n2   unknown      -        -     - unknown since 2023-11-14");
	expect_output("its file server does not answer");
	expect_ok("volume status db --verbose");
	expect_output("7 of 100");
}

#define TWO_CLAIMS                                                                                \
	"\"claims\": [{\"allocation_id\": \"a-old\", \"state\": \"FREED\"}, {\"allocation_id\": " \
	"\"a-live\", \"state\": \"TAKEN\"}]"

TEST_FIXTURE(freed_claims_are_apart_from_those_that_hold_the_volume, run_setup, NULL)
{
	const char *freed;

	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\", " TWO_CLAIMS "}}");
	expect_ok("volume status db");
	expect_output("a-live");
	expect_output("freed claims: 1; --verbose lists them\n");
	assert_null(strstr(ending.output, "a-old"));
	expect_ok("volume status db --verbose");
	freed = NON_NULL(strstr(ending.output, "\nfreed claims\n"));
	assert_true(strstr(ending.output, "a-live") < freed);
	assert_true(strstr(ending.output, "a-old") > freed);
	assert_null(strstr(ending.output, "--verbose"));
	expect_ok("volume status db --json");
	expect_output("a-old");
	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\"}}");
	expect_ok("volume status db");
	assert_null(strstr(ending.output, "freed"));
}

TEST_FIXTURE(a_page_that_comes_twice_is_an_error, run_setup, NULL)
{
	will_answer(0, "Volumes.List", "{\"volumes\": [{\"id\": \"a\"}], \"next_token\": \"b\"}");
	expect_failure("volume status", STATUS_INTERNAL, "repeats a page");
}

TEST_FIXTURE(lists_are_chosen_by_node_plugin_and_filter, run_setup, NULL)
{
	will_answer(0, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs\"}]}");
	expect_ok("volume status --node node-1 --plugin eb --filter x==1 --verbose");
	expect_request(
		"Volumes.List "
		"{\"filter\":\"x==1\",\"node_id\":\"node-1\",\"per_page\":1000,\"plugin_id\":\"ebs\"}");
	expect_output("EXTERNAL ID");
	expect_ok("volume status --node gone"); /* what was used on it may outlive it */
	expect_request("\"node_id\":\"gone\"");
	expect_usage_error("volume status db --filter x", "is for the list");
}

TEST_FIXTURE(one_volume_is_looked_up_in_the_namespace_that_is_given, run_setup, NULL)
{
	will_answer(0, "Volumes.List", "{\"volumes\": [{\"id\": \"db\", \"namespace\": \"shop\"}]}");
	will_answer(1, "Volumes.Get", "{\"volume\": {\"id\": \"db\", \"namespace\": \"shop\"}}");
	expect_ok("volume status db --namespace shop");
	expect_request("Volumes.Get {\"id\":\"db\",\"namespace\":\"shop\"}");
}

TEST_FIXTURE(a_volume_is_shown_with_its_provider_details, run_setup, NULL)
{
	will_answer(0, "Volumes.Get",
		    "{\"volume\": {\"id\": \"db\", \"type\": \"CSI\", \"plugin_id\": \"ebs\", \"provider\": "
		    "\"aws\", \"description\": \"orders of 2026\",\"controller_required\": true, "
		    "\"controllers_healthy\": 1, \"controllers_expected\": 2,\"nodes_healthy\": 3, "
		    "\"nodes_expected\": 4, \"capacity\": 1610612736,\"phase\": \"VOLUME_EXPANDING\", "
		    "\"phase_error\": \"quota\", \"source\": {},\"node_capacities\": [{\"node_id\": \"n1\"}, "
		    "{\"node_id\": \"n2\", \"bytes\": 1024}],\"mount_options\": {\"mount_flags\": "
		    "[\"[redacted]\"]},\"topologies\": [{\"segments\": {\"rack\": \"R1\", \"zone\": "
		    "\"a\"}}]},\"why\": \"held by x\\nnext: y\",\"explanations\": [{\"text\": \"held by "
		    "x\"}, {\"text\": \"and by z\"}]}");
	expect_ok("volume status db --why");
	expect_output("description          orders of 2026\n");
	expect_output("controllers healthy  1/2\n");
	expect_output("nodes healthy        3/4\n");
	expect_output("capacity             1.5GiB\n");
	expect_output("phase                volume-expanding\n");
	expect_output("last try             quota\n");
	expect_output("file system          not grown yet on node n1\n"
		      "                     1KiB on node n2, as its plugin reports\n");
	assert_null(strstr(ending.output, "has not grown"));
	assert_null(strstr(ending.output, "source"));
	expect_output("mount flags          [redacted]\n");
	expect_output("rack=R1,zone=a\n");
	expect_output("\nwhy\nheld by x\nnext: y\nand by z\n");
	expect_ok("volume status db --why --json");
	expect_output("\"explanations\": [");
}

TEST_FIXTURE(a_file_system_that_no_node_has_grown_yet_names_the_next_mount, run_setup, NULL)
{
	will_answer(0, "Volumes.Get", "{\"volume\": {\"id\": \"db\", \"node_expansion_due\": true}}");
	expect_ok("volume status db");
	expect_output(
		"file system          not grown yet: the next node that mounts it for write grows it\n");
	fake.answers[0].json = "{\"volume\": {\"id\": \"db\", \"node_expansion_due\": true, \"phase\": "
			       "\"VOLUME_EXPANDING\"}}";
	expect_ok("volume status db");
	assert_null(strstr(ending.output, "the next node"));
	will_answer(0, "Volumes.Expand",
		    "{\"volume\": {\"id\": \"db\", \"capacity\": 1024, \"node_expansion_due\": true}}");
	expect_ok("volume expand db 1KiB");
	assert_string_equal(
		ending.output,
		"volume db: its plugin reports 1KiB\n"
		"its file system has not grown yet: the next node that mounts it for write grows it\n");
}

#define GROWN_TO(measured)                                                                             \
	"{\"volume\": {\"id\": \"db\", \"node_capacities\": [{\"node_id\": \"n1\", \"bytes\": 1024}]," \
	"\"usages\": [{\"node_id\": \"n1\", \"total_bytes\": " measured "}, {\"node_id\": \"n2\", "    \
	"\"total_bytes\": 1}]}}"

/* A file system has less room than its device. */
TEST_FIXTURE(a_file_system_that_is_measured_smaller_than_reported_has_not_grown, run_setup, NULL)
{
	will_answer(0, "Volumes.Get", GROWN_TO("767"));
	expect_ok("volume status db");
	expect_output("its file system on node n1 has not grown: it has 767 bytes, measured ");
	fake.answers[0].json = GROWN_TO("768");
	expect_ok("volume status db");
	assert_null(strstr(ending.output, "has not grown"));
	fake.answers[0].json = GROWN_TO("0"); /* unknown */
	expect_ok("volume status db");
	assert_null(strstr(ending.output, "has not grown"));
}

TEST_FIXTURE(a_volume_is_created_and_a_lost_answer_can_be_fetched, run_setup, NULL)
{
	write_spec("id = \"db\"\ntype = \"csi\"\nplugin_id = \"ebs\"\ncapacity_min = \"1GiB\"\nsecrets { k = "
		   "\"v\" }\n");
	will_answer(0, "Volumes.Create",
		    "{\"volume\": {\"id\": \"db\", \"external_id\": \"vol-1\", \"schedulable\": true}, "
		    "\"created\": true}");
	expect_ok(with_spec("volume create @"));
	expect_request("\"capacity_min\":\"1073741824\"");
	expect_request("\"secrets\":{\"k\":\"v\"}");
	assert_string_equal(ending.output, "external ID vol-1\nvolume db is created\n");
	will_refuse(0, "Volumes.Create", STATUS_DEADLINE_EXCEEDED);
	expect_failure(with_spec("volume create @"), STATUS_DEADLINE_EXCEEDED, "again resumes it");
	fake.answers[0].status = STATUS_INVALID_ARGUMENT;
	expect_failure(with_spec("volume create @"), STATUS_INVALID_ARGUMENT, "the server refuses");
	assert_null(strstr(ending.err.msg, "resumes"));
	expect_usage_error(with_spec("volume create @ --timeout x"), "'x' is not a duration");
}

TEST_FIXTURE(replaced_secrets_are_reported, run_setup, NULL)
{
	static const char answer[] =
		"{\"volume\": {\"id\": \"db\", \"schedulable\": true}, \"secrets_replaced\": true}";

	write_spec("id = \"db\"\ntype = \"csi\"\nplugin_id = \"ebs\"\nsecrets { k = \"v\" }\n");
	will_answer(0, "Volumes.Register", answer);
	expect_ok(with_spec("volume register @"));
	expect_output(
		"volume db was registered already, and now matches its file; its secrets were replaced\n");
	will_answer(0, "Volumes.Create", answer);
	expect_ok(with_spec("volume create @"));
	expect_output("volume db was created already, and now matches its file; its secrets were replaced\n");
}

TEST_FIXTURE(a_volume_is_expanded_to_a_size, run_setup, NULL)
{
	will_answer(0, "Volumes.Expand", "{\"volume\": {\"id\": \"web\", \"capacity\": \"21474836480\"}}");
	expect_ok("volume expand web 20GiB --capacity-max 30GiB");
	expect_request("Volumes.Expand "
		       "{\"capacity_max\":\"32212254720\",\"capacity_min\":\"21474836480\",\"id\":\"web\","
		       "\"namespace\":\"default\"}");
	assert_string_equal(ending.output, "volume web: its plugin reports 20GiB\n");
	fake.answers[0].json = "{\"volume\": {\"capacity\": 5, \"phase\": \"VOLUME_EXPANDING\"}}";
	expect_ok("volume expand web 20GiB");
	expect_output("5 bytes\nits nodes have not grown it yet: holdfast volume status web shows it\n");
	fake.requests[0] = '\0';
	expect_failure("volume expand we 20GiB", STATUS_INVALID_ARGUMENT,
		       "expand needs whole ids: 'we' is only the beginning of web");
	assert_null(strstr(fake.requests, "Volumes.Expand"));
	expect_usage_error("volume expand web 20GiB --capacity-max 10GiB", "is less than SIZE");
	expect_usage_error("volume expand web large", "SIZE: 'large' is not a size");
	expect_usage_error("volume expand web 0", "is not a size");
	expect_usage_error("volume expand web 9223372036854775808", "is not a size");
}

TEST_FIXTURE(deleting_needs_the_whole_id_and_a_yes, run_setup, NULL)
{
	will_answer(0, "Volumes.Delete", "{}");
	expect_failure("volume delete web", STATUS_INVALID_ARGUMENT, "give --yes");
	expect_failure("volume delete we --yes", STATUS_INVALID_ARGUMENT, "delete needs whole ids");
	assert_null(strstr(fake.requests, "Delete"));
	write_spec("user = \"a=b\"\n");
	expect_ok(with_spec("volume delete web -y --secrets-file @"));
	expect_request(
		"Volumes.Delete {\"id\":\"web\",\"namespace\":\"default\",\"secrets\":{\"user\":\"a=b\"}}");
	expect_output("volume web is deleted");
}

#define CLAIMS                                                                                       \
	"{\"claims\": [{\"id\": \"c\", \"volume_id\": \"web\", \"node_id\": \"node-1\", \"state\": " \
	"\"TAKEN\","                                                                                 \
	"\"allocation_id\": \"a-1\"}]}"

TEST_FIXTURE(a_fence_is_tried_first_and_asked_about, run_setup, NULL)
{
	will_answer(0, "Volumes.Detach", CLAIMS);
	expect_usage_error("volume detach web node-1 --fence dead --attest dead", "not both");
	expect_usage_error("volume detach web node-1 --fence=", "give a reason with --fence");
	expect_failure("volume detach we node-1 --fence dead", STATUS_INVALID_ARGUMENT,
		       "--fence needs whole ids");
	expect_ok("volume detach web node-1 --fence dead --dry-run");
	expect_request("\"dry_run\":true,\"fence_reason\":\"dead\"");
	expect_failure("volume detach web node-1 --fence dead", STATUS_INVALID_ARGUMENT, "give --yes");
	assert_null(strstr(fake.requests, "Detach {\"fence_reason\":\"dead\""));
	expect_ok("volume detach web node-1 --fence dead --yes");
	expect_request("Detach {\"fence_reason\":\"dead\",\"id\":\"web\"");
}

TEST_FIXTURE(an_attestation_runs_dry_first_and_lists_bypassed_evidence, run_setup, NULL)
{
	will_answer(0, "Volumes.Detach", CLAIMS);
	expect_ok("volume detach web node-1 --attest dead --dry-run");
	expect_request("\"attest_reason\":\"dead\",\"dry_run\":true");
	expect_output("BYPASSED EVIDENCE");
	expect_output("the node's receipt, a new boot of the node");
	assert_null(strstr(fake.requests, "Detach {\"attest_reason\":\"dead\",\"id\""));
	expect_failure("volume detach web node-1 --attest dead", STATUS_INVALID_ARGUMENT, "give --yes");
	assert_null(strstr(fake.requests, "Detach {\"attest_reason\":\"dead\",\"id\""));
	expect_ok("volume detach web node-1 --attest dead --yes");
	expect_request("Detach {\"attest_reason\":\"dead\",\"id\":\"web\"");
	fake.answers[0].json = "{}";
	expect_failure("volume detach web node-1 --attest dead --yes", STATUS_FAILED_PRECONDITION, "nothing");
	expect_failure("volume detach web node-1 --dry-run", STATUS_FAILED_PRECONDITION,
		       "nothing would change");
	expect_ok("volume detach web node-1"); /* without force, nothing to do is success */
	expect_output("holds no claim");
	fake.answers[0].json = "{\"claims\": [{\"id\": \"c\", \"volume_id\": \"web\", \"node_id\": "
			       "\"node-1\", \"state\": \"NODE_DETACHED\", \"allocation_id\": \"a-1\"}]}";
	expect_ok("volume detach web node-1 --attest dead --dry-run");
	expect_output("the provider's confirmation of the detach");
}

TEST_FIXTURE(external_volumes_are_listed, run_setup, NULL)
{
	will_answer(0, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs\"}]}");
	will_answer(
		1, "Volumes.ListExternal",
		"{\"volumes\": [{\"external_id\": \"vol-1\", \"capacity\": 1024, \"abnormal\": "
		"true,\"condition\": \"bad \\u001b[2J disk\", \"published_node_ids\": [\"i-1\", \"i-2\"]}]}");
	expect_ok("volume external e");
	expect_request("Volumes.ListExternal {\"per_page\":1000,\"plugin_id\":\"ebs\"}");
	expect_output("vol-1");
	expect_output("i-1,i-2");
	assert_null(strchr(ending.output, '\033'));
	expect_failure("volume external x", STATUS_NOT_FOUND,
		       "no plugin is called 'x' or begins with it: the server knows a plugin once it was "
		       "healthy on a node. On the node: holdfast agent status");
}

TEST_FIXTURE(snapshots_are_made_listed_and_deleted, run_setup, NULL)
{
	will_answer(0, "Volumes.CreateSnapshot",
		    "{\"snapshot\": {\"snapshot_id\": \"snap-1\", \"name\": \"s\", \"size_bytes\": 2048, "
		    "\"ready\": true}}");
	will_answer(1, "Volumes.DeleteSnapshot", "{}");
	will_answer(2, "Volumes.ListSnapshots", "{}");
	will_answer(3, "Plugins.List", "{\"plugins\": [{\"id\": \"ebs\"}]}");
	expect_ok("volume snapshot create we s --parameter a=b=c --parameter d=");
	expect_request("Volumes.CreateSnapshot "
		       "{\"name\":\"s\",\"namespace\":\"default\",\"parameters\":{\"a\":\"b=c\",\"d\":\"\"},"
		       "\"volume_id\":\"web\"}");
	expect_output("snap-1");
	expect_output("2KiB");
	expect_failure("volume snapshot create web s --parameter a", STATUS_INVALID_ARGUMENT,
		       "'a' is not KEY=VALUE");
	expect_failure("volume snapshot create web s --parameter a=1 --parameter a=2",
		       STATUS_INVALID_ARGUMENT, "'a' is given twice");
	expect_failure("volume snapshot delete eb snap-1 --yes", STATUS_INVALID_ARGUMENT,
		       "snapshot delete needs whole ids: 'eb' is only the beginning of ebs");
	assert_null(strstr(fake.requests, "Volumes.DeleteSnapshot"));
	expect_ok("volume snapshot delete ebs snap-1 --yes");
	expect_request("Volumes.DeleteSnapshot {\"plugin_id\":\"ebs\",\"snapshot_id\":\"snap-1\"}");
	expect_failure("volume snapshot delete ebs snap-1", STATUS_INVALID_ARGUMENT, "give --yes");
	expect_ok("volume snapshot list");
	assert_string_equal(ending.output, "no snapshots\n");
	expect_request("Volumes.ListSnapshots {\"per_page\":1000}");
	expect_ok("volume snapshot list --plugin ebs --limit 5");
	expect_request("Volumes.ListSnapshots {\"per_page\":5,\"plugin_id\":\"ebs\"}");
	expect_usage_error("volume snapshot list --secrets-file x", "give --plugin too");
	will_answer(2, "Volumes.ListSnapshots",
		    "{\"snapshots\": [{\"snapshot_id\": \"snap-1\", \"ready\": true, \"deleting\": true}]}");
	expect_ok("volume snapshot list");
	expect_output("deleting"); /* ready is no longer what counts */
}

TEST_FIXTURE(an_example_is_written_once, run_setup, NULL)
{
	char line[128];

	(void)unlink(spec_path);
	(void)str_format(line, sizeof(line), "volume init %s --type native", spec_path);
	expect_ok(line);
	expect_output("holdfast volume register");
	expect_failure(line, STATUS_ALREADY_EXISTS, "is not overwritten");
	expect_ok(with_spec("volume register @"));
	(void)unlink(spec_path);
	expect_ok(with_spec("volume init @ --json"));
	expect_output("\"file\"");
	expect_usage_error("volume init --type nfs", "--type is csi or native");
}

TEST_FIXTURE(holding_is_for_units_with_a_name, run_setup, NULL)
{
	(void)unsetenv("STATE_DIRECTORY");
	(void)unsetenv("RUNTIME_DIRECTORY");
	expect_usage_error("volume hold pgdata", "systemctl start holdfast-volume@pgdata.service");
	expect_usage_error("volume hold ../x", "NAME '../x' is 1 to 64 of A-Z a-z 0-9 _ and -");
	expect_usage_error("volume hold aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			   "is 1 to 64 of");
	expect_usage_error("volume hold aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			   "this is for a unit");
	expect_usage_error("volume hold pgdata --timeout soon", "'soon' is not a duration");
}

TEST_GROUP(run_begin, run_end)
