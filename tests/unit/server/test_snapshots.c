/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and what providers have: recorded before they are asked, joined with what they say. */

#include "provider_world.h"
#include "unit.h"

#include "volume/snapshots.h"

#define COPY                                                                                        \
	"{\"volume\":{\"id\":\"copy\",\"type\":\"CSI\",\"pluginId\":\"nfs\",\"snapshotId\":\"snap-" \
	"1\"," CAPABILITIES "}}"
#define SNAP "{\"volumeId\":\"db\",\"name\":\"s1\"}"

static const Holdfast__V1__Snapshot *record(struct fixture *f, const char *name)
{
	char key[OBJECT_KEY_SIZE];

	snapshots_key("nfs", "default", name, key);
	return records_get(&f->server->state.records, key);
}

PROVIDER_TEST(a_snapshot_is_recorded_before_its_provider_is_asked)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "CreateSnapshot", SNAP, &pending);
	UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 1);
	assert_non_null(record(f, "s1"));
	assert_string_equal(record(f, "s1")->snapshot_id, "");
	assert_string_equal(record(f, "s1")->external_source_id, "vol-1");
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
	assert_string_equal(record(f, "s1")->snapshot_id, "snap-1");
	assert_int_equal(record(f, "s1")->size_bytes, 77);
	assert_true(record(f, "s1")->create_time_ms > 0); /* the provider did not say */
	must(f, "CreateSnapshot", SNAP, "snap-1");
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 1); /* made is made */
	restart(f);
	assert_string_equal(record(f, "s1")->snapshot_id, "snap-1");
}

PROVIDER_TEST(a_full_namespace_gets_no_volume_and_no_snapshot)
{
	static const char db2[] =
		"{\"volume\":{\"id\":\"db2\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES "}}";
	uint64_t limit = f->server->config.namespace_memory;

	must(f, "Create", DB, NULL);
	f->server->config.namespace_memory = 1;
	must(f, "Create", DB, NULL); /* unchanged */
	refuses(f, "Create", db2, STATUS_RESOURCE_EXHAUSTED, "namespace default has no room");
	refuses(f, "CreateSnapshot", SNAP, STATUS_RESOURCE_EXHAUSTED, "namespace default has no room");
	assert_int_equal(provider.calls[CALL_CREATE], 1);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 0);
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"namespace\":\"other\"}}", NULL);
	f->server->config.namespace_memory = limit;
	must(f, "CreateSnapshot", SNAP, "snap-1");
}

PROVIDER_TEST(one_that_is_not_ready_is_asked_about_again_and_is_no_source_until_then)
{
	must(f, "Create", DB, NULL);
	provider.is_slow_snapshot = true;
	must(f, "CreateSnapshot", SNAP, "snap-1");
	assert_false(record(f, "s1")->ready);
	refuses(f, "Create", COPY, STATUS_FAILED_PRECONDITION, "holdfast volume snapshot create db s1");
	provider.is_slow_snapshot = false;
	must(f, "CreateSnapshot", SNAP, "\"ready\":true");
	assert_int_equal(provider_snapshots(), 1);
	must(f, "Create", COPY, NULL);
}

TEST_ON(a_server_that_dies_while_a_snapshot_is_made_finds_it_by_its_name, struct fixture, f, provider_setup,
	provider_teardown)
{
	static const enum provider_outcome steps[] = {PROVIDER_HOLD, PROVIDER_HOLD_DONE};

	must(f, "Create", DB, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct pending pending;

		provider.calls[CALL_CREATE_SNAPSHOT] = 0;
		provider_order(CALL_CREATE_SNAPSHOT, steps[i], 1, STATUS_OK);
		start_asking(f, "CreateSnapshot", SNAP, &pending);
		UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 1);
		settle(f);
		provider_crash(f);
		assert_non_null(record(f, "s1")); /* nothing is leaked unseen */
		must(f, "CreateSnapshot", SNAP, "snap-");
		assert_int_equal(provider_snapshots(), 1);
		must(f, "DeleteSnapshot",
		     i == 0 ? "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}"
			    : "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-2\"}",
		     NULL);
		assert_null(record(f, "s1"));
	}
}

PROVIDER_TEST(a_name_is_of_one_volume_of_a_namespace)
{
	must(f, "Create", DB, NULL);
	must(f, "Create",
	     "{\"volume\":{\"id\":\"db2\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES "}}", NULL);
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"namespace\":\"other\"}}", NULL);
	must(f, "CreateSnapshot", SNAP, "snap-1");
	refuses(f, "CreateSnapshot", "{\"volumeId\":\"db2\",\"name\":\"s1\"}", STATUS_ALREADY_EXISTS,
		"another volume");
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 1);
	/* at the provider, too, the name is another one */
	must(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"namespace\":\"other\",\"name\":\"s1\"}", "snap-2");
	assert_int_equal(provider_snapshots(), 2);
	assert_string_equal(record(f, "s1")->snapshot_id, "snap-1");
	assert_string_not_equal(provider.snapshots[0].name, provider.snapshots[1].name);
	must(f, "DeleteSnapshot", "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-2\"}", NULL);
	assert_string_equal(record(f, "s1")->snapshot_id, "snap-1");
	must(f, "CreateSnapshot", SNAP, "snap-1");
}

/* No request could delete it, or make a volume of it. */
PROVIDER_TEST(a_snapshots_id_that_is_no_text_is_not_taken)
{
	must(f, "Create", DB, NULL);
	provider.names_made = "snap\n1";
	refuses(f, "CreateSnapshot", SNAP, STATUS_INTERNAL, "one that is no text");
	assert_string_equal(record(f, "s1")->snapshot_id, "");
	provider.names_made = "snap-1";
	must(f, "CreateSnapshot", SNAP, "snap-1");
	provider.names_made = NULL;
}

PROVIDER_TEST(a_refused_snapshot_leaves_no_record_and_an_uncertain_one_does)
{
	must(f, "Create", DB, NULL);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_INVALID_ARGUMENT);
	refuses(f, "CreateSnapshot", SNAP, STATUS_INVALID_ARGUMENT, "the provider's words");
	assert_null(record(f, "s1"));
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_REFUSE, 1, STATUS_UNAVAILABLE);
	refuses(f, "CreateSnapshot", SNAP, STATUS_UNAVAILABLE, "no controller");
	assert_null(record(f, "s1"));
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL_DONE, 1, STATUS_DEADLINE_EXCEEDED);
	refuses(f, "CreateSnapshot", SNAP, STATUS_DEADLINE_EXCEEDED, "the provider's words");
	assert_non_null(strstr(record(f, "s1")->last_error, "the provider's words"));
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_INVALID_ARGUMENT);
	refuses(f, "CreateSnapshot", SNAP, STATUS_INVALID_ARGUMENT, "the provider's words");
	assert_non_null(record(f, "s1")); /* the first may have made it */
	must(f, "CreateSnapshot", SNAP, "snap-1");
	assert_string_equal(record(f, "s1")->last_error, "");
	provider.can.create_delete_snapshot = false;
	refuses(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"s2\"}", STATUS_FAILED_PRECONDITION,
		"cannot create and delete snapshots");
}

/* No repeat can end it: the volume is gone, and there is no id to delete it by. */
PROVIDER_TEST(an_uncertain_snapshot_is_forgotten_with_its_volume)
{
	struct pending late, again;

	provider.is_slow_snapshot = true;
	for (int is_deleted = 0; is_deleted < 2; is_deleted++) {
		must(f, "Create", DB, NULL);
		must(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"made\"}", NULL);
		provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL_DONE, 1, STATUS_DEADLINE_EXCEEDED);
		refuses(f, "CreateSnapshot", SNAP, STATUS_DEADLINE_EXCEEDED, "the provider's words");
		assert_non_null(record(f, "s1"));
		provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 2, STATUS_OK);
		start_asking(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"late\"}", &late);
		start_asking(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"made\"}", &again);
		UNTIL(f, record(f, "late") != NULL);
		must(f, is_deleted ? "Delete" : "Deregister", ID, NULL);
		assert_null(record(f, "s1"));
		assert_non_null(record(f, "made"));
		provider_fail(STATUS_UNAVAILABLE);
		UNTIL(f, late.ended && again.ended);
		assert_null(record(f, "late"));
		assert_non_null(record(f, "made"));
		must(f, "DeleteSnapshot", "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}", NULL);
	}
}

PROVIDER_TEST(deleting_forgets_the_record_when_the_provider_has)
{
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"secrets\":{\"a\":\"1\",\"b\":\"2\"}}}", NULL);
	refuses(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"s1\",\"secrets\":{\"b\":\"3\"}}",
		STATUS_INVALID_ARGUMENT, "'a' is stored");
	must(f, "CreateSnapshot",
	     "{\"volumeId\":\"db\",\"name\":\"s1\",\"secrets\":{\"a\":\"1\",\"b\":\"3\"}}", NULL);
	assert_string_equal(provider.last_secrets, "a=1,b=3,");
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_FAILED_PRECONDITION);
	refuses(f, "DeleteSnapshot",
		"{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\",\"secrets\":{\"a\":\"9\"}}",
		STATUS_INVALID_ARGUMENT, "'b' is stored");
	refuses(f, "DeleteSnapshot",
		"{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\",\"secrets\":{\"a\":\"9\",\"b\":\"2\"}}",
		STATUS_FAILED_PRECONDITION, "the provider's words");
	assert_string_equal(provider.last_secrets, "a=9,b=2,");
	assert_non_null(record(f, "s1"));
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_NOT_FOUND);
	must(f, "DeleteSnapshot", "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}", NULL);
	assert_null(record(f, "s1"));
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_NOT_FOUND);
	refuses(f, "DeleteSnapshot", "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}", STATUS_NOT_FOUND,
		"the provider's words"); /* nobody knows it */
}

#define DELETE_SNAP "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}"

PROVIDER_TEST(a_repeat_while_a_snapshot_is_made_is_refused_and_takes_no_id_away)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"namespace\":\"other\"}}", NULL);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "CreateSnapshot", SNAP, &pending);
	UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 1);
	refuses(f, "CreateSnapshot", SNAP, STATUS_ABORTED, "another call");
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 1);
	must(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"s2\"}", NULL);
	must(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"namespace\":\"other\",\"name\":\"s1\"}", NULL);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
	assert_string_equal(record(f, "s1")->snapshot_id, "snap-3");
	must(f, "CreateSnapshot", SNAP, "snap-3");
}

PROVIDER_TEST(a_snapshot_whose_deletion_is_in_flight_is_not_made)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	must(f, "CreateSnapshot", SNAP, "snap-1");
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "DeleteSnapshot", DELETE_SNAP, &pending);
	UNTIL(f, provider.calls[CALL_DELETE_SNAPSHOT] == 1);
	refuses(f, "CreateSnapshot", SNAP, STATUS_ABORTED, "another call");
	refuses(f, "DeleteSnapshot", DELETE_SNAP, STATUS_ABORTED, "another call");
	assert_int_equal(provider.calls[CALL_DELETE_SNAPSHOT], 1);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
	assert_null(record(f, "s1"));
	must(f, "CreateSnapshot", SNAP, "snap-2");
}

PROVIDER_TEST(a_snapshot_that_is_asked_about_again_is_not_deleted_meanwhile)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider.is_slow_snapshot = true;
	must(f, "CreateSnapshot", SNAP, "snap-1");
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "CreateSnapshot", SNAP, &pending);
	UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 2);
	refuses(f, "DeleteSnapshot", DELETE_SNAP, STATUS_ABORTED, "another call");
	provider_answer();
	UNTIL(f, pending.ended);
	must(f, "DeleteSnapshot", DELETE_SNAP, NULL);
	assert_null(record(f, "s1"));
}

/* What is in flight at the end of a server is unknown to the next one. */
TEST_ON(a_deletion_that_may_have_happened_is_finished_before_the_name_is_used_again, struct fixture, f,
	provider_setup, provider_teardown)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	must(f, "CreateSnapshot", SNAP, "snap-1");
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_HOLD_DONE, 1, STATUS_OK);
	start_asking(f, "DeleteSnapshot", DELETE_SNAP, &pending);
	UNTIL(f, provider.calls[CALL_DELETE_SNAPSHOT] == 1);
	settle(f);
	provider_crash(f);
	assert_int_equal(provider_snapshots(), 0);
	refuses(f, "CreateSnapshot", SNAP, STATUS_FAILED_PRECONDITION, "snapshot delete");
	refuses(f, "Create", COPY, STATUS_FAILED_PRECONDITION, "the deletion of snapshot s1 began");
	must(f, "ListSnapshots", "{}", "\"deleting\":true");
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_FAILED_PRECONDITION);
	refuses(f, "DeleteSnapshot", DELETE_SNAP, STATUS_FAILED_PRECONDITION, "the provider's words");
	refuses(f, "CreateSnapshot", SNAP, STATUS_FAILED_PRECONDITION, "snapshot delete");
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_NOT_FOUND);
	must(f, "DeleteSnapshot", DELETE_SNAP, NULL);
	must(f, "CreateSnapshot", SNAP, "snap-2");
}

PROVIDER_TEST(a_deletion_that_failed_leaves_the_snapshot_only_if_the_provider_refused_it)
{
	static const struct {
		enum provider_outcome outcome;
		enum status status;
		bool stays;
	} cases[] = {
		{PROVIDER_FAIL, STATUS_FAILED_PRECONDITION, true}, /* it is in use */
		{PROVIDER_REFUSE, STATUS_UNAVAILABLE, true},	   /* nothing was called */
		{PROVIDER_FAIL, STATUS_DEADLINE_EXCEEDED, false},
	};

	must(f, "Create", DB, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		must(f, "CreateSnapshot", SNAP, "snap-1");
		provider_order(CALL_DELETE_SNAPSHOT, cases[i].outcome, 1, cases[i].status);
		refuses(f, "DeleteSnapshot", DELETE_SNAP, cases[i].status, "");
		assert_int_equal(!record(f, "s1")->deleting, cases[i].stays);
	}
	refuses(f, "CreateSnapshot", SNAP, STATUS_FAILED_PRECONDITION, "snapshot delete");
	must(f, "DeleteSnapshot", DELETE_SNAP, NULL);
}

PROVIDER_TEST(a_deletion_in_the_line_of_its_plugin_spares_a_snapshot_recorded_since)
{
	struct pending pending;

	must(f, "Create", DB, NULL);
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_QUEUE, 1, STATUS_OK);
	start_asking(f, "DeleteSnapshot", DELETE_SNAP, &pending); /* by an id that no record has */
	UNTIL(f, provider.calls[CALL_DELETE_SNAPSHOT] == 1);
	must(f, "CreateSnapshot", SNAP, "snap-1");
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_ABORTED);
	assert_non_null(strstr(pending.message, "was recorded by another call"));
	settle(f);
	assert_int_equal(provider_snapshots(), 1);
	assert_false(record(f, "s1")->deleting);
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_QUEUE, 1, STATUS_OK);
	start_asking(f, "DeleteSnapshot", DELETE_SNAP, &pending); /* of the record */
	UNTIL(f, provider.calls[CALL_DELETE_SNAPSHOT] == 2);
	settle(f);
	provider_answer();
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
	assert_int_equal(provider_snapshots(), 0);
	assert_null(record(f, "s1"));
}

/* An operator deletes by an id that no record has yet; the provider gives that id to a call before it. */
PROVIDER_TEST(a_record_that_comes_while_its_id_is_deleted_goes_with_it)
{
	struct pending making, deleting;

	must(f, "Create", DB, NULL);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "CreateSnapshot", SNAP, &making);
	UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] == 1);
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "DeleteSnapshot", DELETE_SNAP, &deleting);
	UNTIL(f, provider.calls[CALL_DELETE_SNAPSHOT] == 1);
	settle(f);
	provider_answer();
	UNTIL(f, making.ended && deleting.ended);
	assert_int_equal(deleting.status, STATUS_OK);
	assert_null(record(f, "s1"));
	assert_int_equal(provider_snapshots(), 0);
}

PROVIDER_TEST(lists_join_records_with_provider_snapshots)
{
	must(f, "Create", DB, NULL);
	must(f, "CreateSnapshot", SNAP, NULL);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 1, STATUS_DEADLINE_EXCEEDED);
	refuses(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"s2\"}", STATUS_DEADLINE_EXCEEDED,
		"words");
	provider.snapshots[provider.n_snapshots++] =
		(struct provider_thing){.name = "theirs", .id = "foreign", .source = "vol-9"};
	must(f, "ListSnapshots", "{\"pluginId\":\"nfs\",\"secrets\":{\"k\":\"v=w\"}}",
	     "\"name\":\"s1\",\"snapshotId\":\"snap-1\",\"sourceVolumeId\":\"db\"");
	assert_string_equal(provider.last_secrets, "k=v=w,");
	must(f, "ListSnapshots", "{\"pluginId\":\"nfs\"}",
	     "\"snapshotId\":\"foreign\",\"externalSourceId\":\"vol-9\"");
	must(f, "ListSnapshots", "{\"pluginId\":\"nfs\"}",
	     "\"name\":\"s2\""); /* asked for, not known to be made */
	provider.calls[CALL_LIST_SNAPSHOTS] = 0;
	provider.has_no_controller = true;
	must(f, "ListSnapshots", "{}", "\"name\":\"s1\""); /* our own need nobody */
	must(f, "ListSnapshots", "{\"perPage\":1}", "\"nextToken\":\"nfs/default/s2\"");
	must(f, "ListSnapshots", "{\"perPage\":1,\"nextToken\":\"nfs/default/s2\"}", "\"name\":\"s2\"");
	assert_int_equal(provider.calls[CALL_LIST_SNAPSHOTS], 0);
	refuses(f, "ListSnapshots", "{\"pluginId\":\"nfs\"}", STATUS_UNAVAILABLE, "controller of plugin nfs");
}

PROVIDER_TEST(external_volumes_are_the_providers_page_by_page)
{
	must(f, "Create", DB, NULL);
	must(f, "Create", "{\"volume\":{" DB_HEAD ",\"namespace\":\"other\"}}", NULL);
	must(f, "ListExternal", "{\"pluginId\":\"nfs\"}", "\"externalId\":\"vol-2\"");
	must(f, "ListExternal", "{\"pluginId\":\"nfs\"}", "\"nextToken\":\"more\"");
	must(f, "ListExternal", "{\"pluginId\":\"nfs\",\"perPage\":1,\"nextToken\":\"more\"}",
	     "{\"volumes\":[{\"externalId\":\"vol-1\"}]}"); /* no more than was asked for */
	provider_order(CALL_LIST_VOLUMES, PROVIDER_FAIL, 1, STATUS_ABORTED);
	refuses(f, "ListExternal", "{\"pluginId\":\"nfs\"}", STATUS_ABORTED, "next_token:");
	provider.can.list_volumes = false;
	refuses(f, "ListExternal", "{\"pluginId\":\"nfs\"}", STATUS_FAILED_PRECONDITION,
		"cannot list volumes");
}
