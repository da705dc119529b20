/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots that the server makes and removes by itself. */

#include "metrics.h"
#include "provider_world.h"
#include "unit.h"

#include "base/strbuf.h"
#include "volume/schedules.h"
#include "volume/snapshots.h"
#include "volume/store.h"

#include <holdfast/v1/operator.pb-c.h>
#include <time.h>

enum { EVERY_MS = 3600 * 1000, KEEP = 2 };

#define SCHEDULED "{\"volume\":{" DB_HEAD ",\"snapshots\":{\"everyMs\":\"3600000\",\"keep\":2}}}"

/* That each step of a schedule takes. */
static uint64_t step_us;

const Holdfast__V1__VolumeDetail *__real_volume_detail_of(struct server *server, const struct volume *volume);
const Holdfast__V1__VolumeDetail *__wrap_volume_detail_of(struct server *server, const struct volume *volume);
const Holdfast__V1__VolumeDetail *__wrap_volume_detail_of(struct server *server, const struct volume *volume)
{
	unit_clock_advance(step_us);
	return __real_volume_detail_of(server, volume);
}

/* Lets a look pass, and what it begins. */
static void look(struct fixture *f)
{
	run_for(f->event, 2 * SCHEDULE_LOOK_MIN_MS);
}

static void let_pass(struct fixture *f, unsigned int ms)
{
	unit_clock_advance(ms * USEC_PER_MSEC);
	look(f);
}

static void create(struct fixture *f, const char *namespace, const char *id, unsigned int every_ms,
		   unsigned int keep)
{
	char json[512];

	assert_true(
		str_format(json, sizeof(json),
			   "{\"volume\":{\"id\":\"%s\",\"namespace\":\"%s\",\"type\":\"CSI\",\"pluginId\":"
			   "\"nfs\"," CAPABILITIES ",\"snapshots\":{\"everyMs\":\"%u\",\"keep\":%u}}}",
			   id, namespace, every_ms, keep) > 0);
	must(f, "Create", json, NULL);
}

static void create_many(struct fixture *f, int n, unsigned int every_ms)
{
	char id[16];

	for (int i = 0; i < n; i++) {
		assert_true(str_format(id, sizeof(id), "a%02d", i) > 0);
		create(f, "default", id, every_ms, 256);
	}
}

/* Snapshots whose names contain @part. */
static size_t n_named(const char *part)
{
	size_t n = 0;

	for (size_t i = 0; i < provider.n_snapshots; i++)
		n += strstr(provider.snapshots[i].name, part) != NULL;
	return n;
}

/* Records of snapshots that a schedule made, or a person. */
static size_t n_records(struct fixture *f, bool is_scheduled)
{
	struct record_entry *entry = snapshots_first(&f->server->state, "nfs");
	size_t n = 0;

	for (; entry; entry = snapshots_next(entry, "nfs"))
		n += (snapshots_of(entry)->scheduled_ms != 0) == is_scheduled;
	return n;
}

static bool has_metric(struct fixture *f, const char *line)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);

	metrics_print(f->server, &sb);
	return strstr(sb.data, line) != NULL;
}

PROVIDER_TEST(a_schedule_makes_snapshots_and_keeps_the_newest)
{
	must(f, "Create", SCHEDULED, NULL);
	look(f);
	assert_int_equal(provider_snapshots(), 1);
	must(f, "Get", ID, "\"snapshotsState\":{\"lastMs\":");
	must(f, "Get", ID, "\"kept\":1");
	look(f);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 1);
	for (size_t i = 2; i < 6; i++) {
		let_pass(f, EVERY_MS);
		assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], i);
		assert_int_equal(provider_snapshots(), i < KEEP ? i : KEEP);
	}
	assert_int_equal(provider.snapshots[0].id[0], '\0');
	assert_string_equal(provider.snapshots[4].id, "snap-5");
	assert_int_equal(n_records(f, true), KEEP);
	assert_true(has_metric(f, "\nholdfast_scheduled_snapshots_removed_total 3\n"));
}

enum { DAY_MS = 24 * 3600 * 1000 };

PROVIDER_TEST(a_clock_that_is_set_back_skips_no_snapshot)
{
	must(f, "Create", SCHEDULED, NULL);
	look(f);
	unit_clock_step(DAY_MS);
	let_pass(f, SCHEDULE_LOOK_MAX_MS);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 2);
	unit_clock_step(-DAY_MS);
	let_pass(f, SCHEDULE_LOOK_MAX_MS);
	for (size_t i = 3; i < 6; i++) {
		let_pass(f, EVERY_MS);
		assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], i);
	}
}

PROVIDER_TEST(a_volume_with_a_time_to_come_gets_one_snapshot_a_period)
{
	unit_clock_step(DAY_MS);
	must(f, "Create", SCHEDULED, NULL);
	unit_clock_step(-DAY_MS);
	for (int i = 0; i < 8; i++)
		let_pass(f, SCHEDULE_LOOK_MAX_MS);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 1);
}

PROVIDER_TEST(a_volume_that_is_created_again_removes_no_snapshot_of_the_deleted_one)
{
	provider.names_made = "handle"; /* as plugins do whose id is made of the name */
	must(f, "Create", SCHEDULED, NULL);
	provider.names_made = NULL;
	look(f);
	let_pass(f, EVERY_MS);
	assert_string_equal(provider.snapshots[1].id, "snap-2");
	must(f, "Delete", ID, NULL);
	unit_clock_advance(USEC_PER_SEC);
	provider.names_made = "handle";
	must(f, "Create", SCHEDULED, NULL);
	provider.names_made = NULL;
	look(f);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 3); /* at once */
	for (size_t i = 0; i < 4; i++)
		let_pass(f, EVERY_MS);
	assert_int_equal(n_records(f, true), 2 + KEEP);
	assert_string_equal(provider.snapshots[0].id, "snap-1");
	assert_string_equal(provider.snapshots[1].id, "snap-2");
}

PROVIDER_TEST(snapshots_of_persons_stay)
{
	must(f, "Create", SCHEDULED, NULL);
	must(f, "CreateSnapshot",
	     "{\"volumeId\":\"db\",\"name\":\"auto-c1-db-e8853f44e6e3518b-20000101T000000Z\"}", NULL);
	must(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"name\":\"before-upgrade\"}", NULL);
	for (size_t i = 0; i < 4; i++)
		let_pass(f, EVERY_MS);
	assert_int_equal(n_records(f, false), 2);
	assert_int_equal(n_records(f, true), KEEP);
	must(f, "Register", DB, NULL); /* without a schedule what it made stays */
	for (size_t i = 0; i < 4; i++)
		let_pass(f, EVERY_MS);
	assert_int_equal(n_records(f, true), KEEP);
	assert_true(has_metric(f, "\nholdfast_snapshot_schedules 0\n"));
}

PROVIDER_TEST(a_snapshot_of_a_person_with_the_name_of_the_next_one_is_not_taken_over)
{
	char name[SNAPSHOT_NAME_MAX + 1], json[SNAPSHOT_NAME_MAX + 64];
	const Holdfast__V1__Snapshot *first;
	time_t next;
	struct tm tm;

	must(f, "Create", SCHEDULED, NULL);
	look(f);
	first = snapshots_of(snapshots_first(&f->server->state, "nfs"));
	next = (time_t)((first->scheduled_ms + EVERY_MS) / 1000);
	assert_int_equal(str_copy(name, sizeof(name), first->name), 0);
	assert_non_null(gmtime_r(&next, &tm));
	assert_true(strftime(strrchr(name, '-') + 1, sizeof("20000101T000000Z"), "%Y%m%dT%H%M%SZ", &tm) > 0);
	assert_true(str_format(json, sizeof(json), "{\"volumeId\":\"db\",\"name\":\"%s\"}", name) > 0);
	must(f, "CreateSnapshot", json, NULL);
	let_pass(f, EVERY_MS);
	must(f, "Get", ID, "that its schedule did not make");
	assert_int_equal(n_records(f, false), 1);
	let_pass(f, EVERY_MS);
	assert_int_equal(n_records(f, true), KEEP);
	assert_int_equal(n_records(f, false), 1);
}

#define DELETE_FIRST "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}"

PROVIDER_TEST(a_callers_deletion_in_flight_is_no_failure_of_the_schedule_and_delays_no_snapshot)
{
	struct pending pending;

	must(f, "Create", SCHEDULED, NULL);
	look(f);
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_HOLD, 1, STATUS_OK);
	start_asking(f, "DeleteSnapshot", DELETE_FIRST, &pending);
	UNTIL(f, provider.calls[CALL_DELETE_SNAPSHOT] == 1);
	for (int i = 0; i < 2; i++) {
		let_pass(f, EVERY_MS);
		let_pass(f, SCHEDULE_RETRY_MIN_MS);
	}
	assert_int_equal(provider.calls[CALL_DELETE_SNAPSHOT], 1);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 3);
	assert_true(has_metric(f, "\nholdfast_scheduled_snapshots_failed_total 0\n"));
	assert_true(pending.ended); /* its client waits no longer */
	provider_answer();
	look(f);
	assert_int_equal(n_records(f, true), KEEP);
}

TEST_ON(a_schedule_finishes_a_deletion_that_a_dead_server_began, struct fixture, f, provider_setup,
	provider_teardown)
{
	struct pending pending;

	must(f, "Create", SCHEDULED, NULL);
	look(f);
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_HOLD_DONE, 1, STATUS_OK);
	start_asking(f, "DeleteSnapshot", DELETE_FIRST, &pending);
	UNTIL(f, provider.calls[CALL_DELETE_SNAPSHOT] == 1);
	settle(f);
	provider_crash(f);
	assert_int_equal(n_records(f, true), 1);
	let_pass(f, SCHEDULE_GRACE_MS);
	look(f);
	assert_int_equal(provider.calls[CALL_DELETE_SNAPSHOT], 2);
	assert_string_equal(snapshots_of(snapshots_first(&f->server->state, "nfs"))->snapshot_id, "snap-2");
}

PROVIDER_TEST(a_failed_snapshot_is_counted_and_tried_again_and_removes_no_other)
{
	must(f, "Create", SCHEDULED, NULL);
	look(f);
	let_pass(f, EVERY_MS);
	assert_int_equal(provider_snapshots(), KEEP);
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL_DONE, 3, STATUS_DEADLINE_EXCEEDED);
	let_pass(f, EVERY_MS);
	assert_int_equal(provider.calls[CALL_DELETE_SNAPSHOT], 0);
	assert_true(has_metric(f, "\nholdfast_snapshot_schedules_failing 1\n"));
	assert_int_equal(n_events(f, "volume default/db", "Snapshots.Failed", "the provider's words"), 1);
	must(f, "Get", ID, "\"error\":\"plugin nfs: the provider's words\"");
	for (int i = 0; i < 3; i++)
		let_pass(f, 4 * SCHEDULE_RETRY_MIN_MS);
	assert_true(has_metric(f, "\nholdfast_snapshot_schedules_failing 0\n"));
	assert_true(has_metric(f, "\nholdfast_scheduled_snapshots_failed_total 3\n"));
	assert_int_equal(provider.n_snapshots, 3); /* the same one, by its name */
	UNTIL(f, n_records(f, true) == KEEP);
	assert_string_equal(provider.snapshots[0].id, "");
}

PROVIDER_TEST(words_of_a_provider_that_are_cut_within_a_character_leave_the_status_readable)
{
	enum { BYTES = 600 };
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	Holdfast__V1__GetStatusResponse *status;
	ProtobufCMessage *response = NULL;
	char words[BYTES + 3 + 1];
	unsigned int n_calls;
	struct error err;

	provider.words = words;
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 1000, STATUS_UNAVAILABLE);
	for (size_t shift = 0; shift < 3; shift++) {
		memset(words, 'x', shift);
		for (size_t n = shift; n < BYTES; n += 3)
			memcpy(words + n, "\xe5\xad\x98", 4);
		if (shift == 0)
			must(f, "Create", SCHEDULED, NULL);
		n_calls = provider.calls[CALL_CREATE_SNAPSHOT];
		unit_clock_advance(EVERY_MS * USEC_PER_MSEC);
		UNTIL(f, provider.calls[CALL_CREATE_SNAPSHOT] > n_calls);
		look(f);
		if (call(&f->operator, & holdfast__v1__operator__descriptor, "Status", &request.base,
			 &response, &err) != STATUS_OK)
			fail_msg("%s", err.msg);
		status = (Holdfast__V1__GetStatusResponse *)response;
		assert_int_equal(status->n_warnings, 1);
		assert_non_null(strstr(status->warnings[0], "\xe5\xad\x98"));
		assert_non_null(strstr(status->warnings[0], "The last good snapshots are kept"));
		protobuf_c_message_free_unpacked(response, NULL);
	}
	provider.words = NULL;
}

PROVIDER_TEST(a_provider_that_refuses_is_asked_less_and_less_often)
{
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_FAIL, 1000, STATUS_INVALID_ARGUMENT);
	must(f, "Create", SCHEDULED, NULL);
	for (size_t i = 0; i < 60; i++)
		let_pass(f, SCHEDULE_RETRY_MIN_MS);
	assert_in_range(provider.calls[CALL_CREATE_SNAPSHOT], 5, 7);
	assert_int_equal(n_records(f, true), 0);
}

PROVIDER_TEST(a_new_server_makes_neither_a_second_one_nor_skips_more_than_one)
{
	static const enum provider_outcome steps[] = {PROVIDER_HOLD, PROVIDER_HOLD_DONE, PROVIDER_OK};

	must(f, "Create", SCHEDULED, NULL);
	look(f);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		provider_order(CALL_CREATE_SNAPSHOT, steps[i], 1, STATUS_OK);
		let_pass(f, EVERY_MS);
		provider_crash(f);
		let_pass(f, SCHEDULE_GRACE_MS + SCHEDULE_RETRY_MIN_MS);
		assert_int_equal(provider.n_snapshots, i + 2);
		assert_int_equal(n_records(f, true), KEEP);
	}
	let_pass(f, EVERY_MS / 2);
	provider_crash(f);
	let_pass(f, SCHEDULE_GRACE_MS + SCHEDULE_RETRY_MIN_MS);
	assert_int_equal(provider.n_snapshots, 1 + ARRAY_SIZE(steps));
}

PROVIDER_TEST(one_that_never_gets_ready_is_reported_and_stops_the_row)
{
	provider.is_slow_snapshot = true;
	must(f, "Create", SCHEDULED, NULL);
	look(f);
	assert_true(has_metric(f, "\nholdfast_snapshot_schedules_failing 0\n"));
	let_pass(f, EVERY_MS);
	let_pass(f, SCHEDULE_RETRY_MIN_MS);
	assert_true(has_metric(f, "\nholdfast_snapshot_schedules_failing 1\n"));
	must(f, "Get", ID, "holdfast volume snapshot delete -- nfs snap-1");
	assert_int_equal(provider.n_snapshots, 1);
	provider.is_slow_snapshot = false;
	must(f, "DeleteSnapshot", "{\"pluginId\":\"nfs\",\"snapshotId\":\"snap-1\"}", NULL);
	let_pass(f, 4 * SCHEDULE_RETRY_MIN_MS);
	assert_int_equal(provider_snapshots(), 1);
}

/* A person copies the command, and the id is a text of the plugin. */
PROVIDER_TEST(an_id_of_a_snapshot_is_one_word_of_a_command)
{
	provider.is_slow_snapshot = true;
	provider.names_made = "a'$(id);b";
	must(f, "Create", SCHEDULED, NULL);
	look(f);
	let_pass(f, EVERY_MS);
	let_pass(f, SCHEDULE_RETRY_MIN_MS);
	must(f, "Get", ID, "snapshot delete -- nfs 'a'\\\\''$(id);b'");
}

PROVIDER_TEST(a_slow_provider_gets_few_calls_side_by_side)
{
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1000, STATUS_OK);
	create_many(f, 2 * SCHEDULE_CALLS_MAX, EVERY_MS);
	look(f);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], SCHEDULE_CALLS_MAX);
	for (int i = 0; i < 2; i++) {
		provider_answer();
		look(f);
	}
	provider_answer();
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], 2 * SCHEDULE_CALLS_MAX);
}

PROVIDER_TEST(a_snapshot_that_cannot_be_removed_stops_no_other)
{
	must(f, "Create", SCHEDULED, NULL);
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_FAIL, 1000, STATUS_FAILED_PRECONDITION);
	look(f);
	for (size_t i = 0; i < 5; i++)
		let_pass(f, EVERY_MS);
	assert_int_equal(provider_snapshots(), 6);
	assert_true(has_metric(f, "\nholdfast_snapshot_schedules_failing 1\n"));
	provider_order(CALL_DELETE_SNAPSHOT, PROVIDER_OK, 1, STATUS_OK);
	for (size_t i = 0; i < 5; i++)
		let_pass(f, EVERY_MS);
	assert_int_equal(provider_snapshots(), KEEP);
	assert_true(has_metric(f, "\nholdfast_snapshot_schedules_failing 0\n"));
}

/* The names are known: the volume's id, and the time. */
PROVIDER_TEST(no_other_volume_takes_the_name_of_a_scheduled_snapshot)
{
	static const char *const names[] = {"auto-c1-db-e8853f44e6e3518b-20991126T000000Z", "auto-c1-",
					    "auto-c1-x"};

	must(f, "Create", SCHEDULED, NULL);
	must(f, "Create",
	     "{\"volume\":{\"id\":\"db\",\"namespace\":\"team\",\"type\":\"CSI\",\"pluginId\":"
	     "\"nfs\"," CAPABILITIES "}}",
	     NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char json[SNAPSHOT_NAME_MAX + 128];

		assert_true(str_format(json, sizeof(json),
				       "{\"volumeId\":\"db\",\"namespace\":\"team\",\"name\":\"%s\"}",
				       names[i]) > 0);
		refuses(f, "CreateSnapshot", json, STATUS_INVALID_ARGUMENT,
			"names that begin with 'auto-c1-' are of the schedules");
	}
	must(f, "CreateSnapshot", "{\"volumeId\":\"db\",\"namespace\":\"team\",\"name\":\"auto-c2-db\"}",
	     NULL);
}

/* The names of those that are always due come first. */
PROVIDER_TEST(a_schedule_is_not_overtaken_for_ever)
{
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1000, STATUS_OK);
	create_many(f, 3 * SCHEDULE_CALLS_MAX, 60000);
	create(f, "default", "z", 60000, 2);
	look(f);
	for (int i = 0; i < 8; i++) { /* each call takes half a period */
		unit_clock_advance(30 * USEC_PER_SEC);
		provider_answer();
		look(f);
	}
	assert_true(n_named("-z-") > 0);
}

PROVIDER_TEST(many_schedules_of_a_namespace_delay_one_of_another_by_a_look)
{
	create_many(f, 8 * SCHEDULE_CALLS_MAX, EVERY_MS);
	create(f, "team", "z", EVERY_MS, 2);
	create(f, "abc", "b", EVERY_MS, 2);
	look(f);
	look(f);
	assert_int_equal(n_named("-z-"), 1);
	assert_int_equal(n_named("-b-"), 1);
	assert_in_range(provider.n_snapshots, 2 * SCHEDULE_CALLS_MAX, 5 * SCHEDULE_CALLS_MAX);
}

PROVIDER_TEST(one_look_advances_no_more_schedules_than_there_is_time_for)
{
	enum { N = 40 };

	create_many(f, N, EVERY_MS);
	provider.can.create_delete_snapshot = false;
	step_us = USEC_PER_MSEC;
	look(f);
	assert_in_range(schedules_count(f->server).failed, 1, 20);
	for (int i = 0; i < N; i++)
		look(f);
	assert_int_equal(schedules_count(f->server).failing, N);
	step_us = 0;
}

/* A plugin that is away: each call to it fails at once. */
static void add_away(struct fixture *f)
{
	struct plugin_instance away = {
		.node_id = "n1", .plugin = {.plugin_id = "away", .healthy = true, .has_controller = true}};

	assert_int_equal(state_put_instance(&f->server->state, &away, NULL), STATUS_OK);
}

static void remove_away(struct fixture *f)
{
	state_delete_instance(&f->server->state, state_instance(&f->server->state, "n1", "away", ""));
}

static void register_at(struct fixture *f, const char *plugin, const char *namespace, const char *id)
{
	char json[512];

	assert_true(
		str_format(json, sizeof(json),
			   "{\"volume\":{\"id\":\"%s\",\"namespace\":\"%s\",\"type\":\"CSI\",\"pluginId\":"
			   "\"%s\",\"externalId\":\"%s\"," CAPABILITIES
			   ",\"snapshots\":{\"everyMs\":\"60000\",\"keep\":2}}}",
			   id, namespace, plugin, id) > 0);
	must(f, "Register", json, NULL);
}

PROVIDER_TEST(schedules_that_fail_at_one_plugin_delay_those_of_another_by_a_look)
{
	char id[16];

	add_away(f);
	for (int i = 0; i < 100; i++) {
		assert_true(str_format(id, sizeof(id), "a%02d", i) > 0);
		register_at(f, "away", "default", id);
	}
	remove_away(f);
	create(f, "default", "z", EVERY_MS, 2);
	step_us = USEC_PER_MSEC;
	look(f);
	look(f);
	step_us = 0;
	assert_int_equal(n_named("-z-"), 1);
	assert_in_range(schedules_count(f->server).failed, 1, 60);
}

PROVIDER_TEST(schedules_of_a_plugin_without_room_use_up_no_look)
{
	provider_order(CALL_CREATE_SNAPSHOT, PROVIDER_HOLD, 1000, STATUS_OK);
	create_many(f, 50, EVERY_MS);
	look(f);
	assert_int_equal(provider.calls[CALL_CREATE_SNAPSHOT], SCHEDULE_CALLS_MAX);
	add_away(f);
	register_at(f, "away", "default", "y"); /* after this one it is the turn of those that have no room */
	register_at(f, "away", "default", "z");
	remove_away(f);
	step_us = 10 * USEC_PER_MSEC; /* one of them is a look */
	look(f);
	look(f);
	step_us = 0;
	assert_int_equal(schedules_count(f->server).failed, 2);
}

PROVIDER_TEST(schedules_of_volumes_that_are_not_made_delay_those_of_another_namespace_by_a_look)
{
	char json[512];

	provider_order(CALL_CREATE, PROVIDER_FAIL, 1000, STATUS_UNAVAILABLE);
	for (int i = 0; i < 40; i++) {
		assert_true(str_format(json, sizeof(json),
				       "{\"volume\":{\"id\":\"a%02d\",\"namespace\":\"abc\",\"type\":\"CSI\","
				       "\"pluginId\":\"nfs\"," CAPABILITIES
				       ",\"snapshots\":{\"everyMs\":\"60000\",\"keep\":2}}}",
				       i) > 0);
		refuses(f, "Create", json, STATUS_UNAVAILABLE, "the provider's words");
	}
	register_at(f, "nfs", "team", "z");
	step_us = 10 * USEC_PER_MSEC;
	look(f);
	look(f);
	step_us = 0;
	assert_int_equal(n_named("-z-"), 1);
}
