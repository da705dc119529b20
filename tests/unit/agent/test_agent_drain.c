/* SPDX-License-Identifier: Apache-2.0 */
/* A host that is to be shut down releases its volumes while the server can still hear of it. */

#include "scenario.h"

#include "alloc/drain.h"
#include "base/fd.h"

#define ALLOC_C "0190a5a0-0000-7000-8000-0000000000c3"

typedef Holdfast__V1__AgentDrain drain_pb;

enum { LONG_MS = 20000, SHORT_MS = 200, ENOUGH_MS = 2000 };

TEST(how_a_drain_stands_follows_from_five_facts)
{
	static const struct {
		size_t n_busy, n_receipts;
		bool is_connected, is_server_given, is_time_over;
		enum drain_state stands;
	} rows[] = {
		{0, 0, true, false, false, DRAIN_DONE},
		{0, 0, false, true, true, DRAIN_DONE},
		{1, 0, true, false, false, DRAIN_DRAINING},
		{1, 1, false, true, false, DRAIN_DRAINING},
		{0, 1, true, false, false, DRAIN_DRAINING},
		{0, 1, true, true, false, DRAIN_DRAINING},
		{0, 1, false, false, false, DRAIN_DRAINING},
		{0, 1, false, true, false, DRAIN_UNACKNOWLEDGED},
		{0, 1, true, false, true, DRAIN_UNACKNOWLEDGED},
		{1, 0, true, true, true, DRAIN_INCOMPLETE},
		{1, 1, false, true, true, DRAIN_INCOMPLETE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct drain_facts facts = {
			.n_busy = rows[i].n_busy,
			.n_receipts = rows[i].n_receipts,
			.is_connected = rows[i].is_connected,
			.is_server_given = rows[i].is_server_given,
			.is_time_over = rows[i].is_time_over,
		};

		assert_msg(drain_classify(&facts) == rows[i].stands, "row %zu: %d instead of %d", i,
			   drain_classify(&facts), rows[i].stands);
	}
}

/* What the test looks at now; one at a time. */
static drain_pb *take(struct drain_answer answer)
{
	static Holdfast__V1__DrainAgentResponse *kept;

	assert_msg(answer.err.status == STATUS_OK, "%s", answer.err.msg);
	protobuf_c_message_free_unpacked((ProtobufCMessage *)kept, NULL);
	kept = answer.response;
	return kept ? kept->drain : NULL;
}

static void forget_answers(void)
{
	(void)take((struct drain_answer){0});
}

static drain_pb *begin(struct world *w, uint32_t timeout_ms)
{
	drain_pb *drain = NON_NULL(take(ask_drain(w, timeout_ms, false, 0)));

	return drain;
}

static drain_pb *until_ended(struct world *w, drain_pb *drain)
{
	uint64_t end = world_deadline();

	while (drain->ended_ms == 0) {
		world_turn(w, end, "the drain to end");
		drain = take(ask_drain(w, LONG_MS, false, drain->started_ms));
	}
	return drain;
}

/* Begun, and left to its own time. */
static drain_pb *until_time_is_over(struct world *w, uint32_t time_ms)
{
	drain_pb *drain = begin(w, time_ms);
	uint64_t end = world_deadline();

	while (drain->ended_ms == 0) {
		world_turn(w, end, "the time of the drain to be over");
		drain = take(ask_drain(w, 1, false, drain->started_ms));
	}
	return drain;
}

static void expect_words(const char *text, const char *words)
{
	assert_msg(strstr(text, words), "'%s' lacks '%s'", text, words);
}

static int teardown(void **state)
{
	forget_answers();
	return world_teardown(state);
}

static char *read_file(struct world *w)
{
	char path[PATH_MAX], *text = NULL;

	(void)str_format(path, sizeof(path), "%s/" DRAIN_FILE, w->config.data_dir);
	return file_read(path, DRAIN_FILE_MAX, &text, NULL) < 0 ? NULL : text;
}

#define CASE(name) TEST_ON(name, struct world, w, world_setup, teardown)

CASE(all_is_released_reported_and_written_down)
{
	const struct model_alloc *a;
	drain_pb *drain;
	cleanup_free char *text = NULL;

	start_with_a(w, 2);
	assert_null(read_file(w));
	drain = begin(w, LONG_MS);
	assert_string_equal(drain->state, "draining");
	assert_false(drain->accepting);
	assert_int_equal(drain->n_volumes, 2);
	assert_string_equal(drain->volumes[0]->volume_id, "vol0");
	assert_string_equal(drain->volumes[0]->alloc_id, ALLOC_A);
	assert_string_equal(drain->volumes[1]->state, "in use");
	drain = until_ended(w, drain);
	assert_true(drain->done);
	assert_string_equal(drain->state, "done");
	assert_string_equal(drain->volumes[0]->state, "released");
	assert_string_equal(drain->boot_id, world_boot_id());
	assert_int_equal(drain->receipts_pending, 0);
	/* as after a reboot, but that the server knows at once */
	a = model_server_alloc(&w->server, ALLOC_A);
	assert_int_equal(a->alloc.client_status, CLIENT_LOST);
	assert_string_equal(alloc_description(&a->alloc), "node was shut down");
	assert_int_equal(model_server_unreleased(&w->server), 0);
	for (unsigned int i = 0; i < w->server.n_claims; i++)
		assert_true(w->server.claims[i].released_clock < a->clock);
	expect_nothing_mounted(w);
	text = NON_NULL(read_file(w));
	expect_words(text, "\"state\": \"done\"");
	expect_words(text, "\"vol1\"");
}

CASE(a_node_with_nothing_on_it_is_drained_at_once)
{
	drain_pb *drain;

	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	drain = begin(w, LONG_MS);
	assert_true(drain->done);
	assert_int_equal(drain->n_volumes, 0);
	assert_true(drain->ended_ms >= drain->started_ms);
}

static bool b_is_refused(struct world *w)
{
	return status_of(w, ALLOC_B) == CLIENT_FAILED;
}

static bool c_runs(struct world *w)
{
	return status_of(w, ALLOC_C) == CLIENT_RUNNING;
}

static void expect_b_refused(struct world *w)
{
	const struct alloc b = records_alloc(ALLOC_B, 1);
	const struct model_alloc *entry;

	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, b_is_refused);
	entry = model_server_alloc(&w->server, ALLOC_B);
	assert_int_equal(entry->alloc.client_code, STATUS_UNAVAILABLE);
	expect_words(alloc_description(&entry->alloc), "node is shutting down");
	expect_words(alloc_description(&entry->alloc), "holdfast agent drain --cancel");
}

static void expect_c_runs(struct world *w)
{
	const struct alloc c = records_alloc(ALLOC_C, 1);

	model_server_run(&w->server, &c);
	WORLD_UNTIL(w, c_runs);
}

CASE(nothing_new_is_taken_until_the_drain_is_cancelled)
{
	drain_pb *drain;

	start_with_a(w, 1);
	until_ended(w, begin(w, LONG_MS));
	expect_b_refused(w);
	drain = take(ask_drain(w, 0, true, 0));
	assert_string_equal(drain->state, "done"); /* that is how it ended */
	assert_true(drain->accepting);
	expect_c_runs(w);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_LOST);
}

CASE(a_cancelled_drain_restarts_no_stopped_allocation)
{
	drain_pb *drain;

	start_with_a(w, 1);
	w->fake.state->busy_unpublish = UINT32_MAX;
	begin(w, LONG_MS);
	drain = take(ask_drain(w, 0, true, 0));
	assert_string_equal(drain->state, "cancelled");
	assert_false(drain->done);
	assert_true(drain->accepting);
	expect_c_runs(w);
	w->fake.state->busy_unpublish = 0;
	WORLD_UNTIL(w, a_ended);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_LOST);
}

CASE(cancelling_without_a_drain_changes_nothing)
{
	start_with_a(w, 1);
	assert_null(take(ask_drain(w, 0, true, 0)));
	expect_c_runs(w);
	assert_true(a_runs(w));
}

CASE(a_restarted_agent_accepts_again_and_still_knows_the_result)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	start_with_a(w, 1);
	until_ended(w, begin(w, LONG_MS));
	world_kill_agent(w);
	world_start_agent(w);
	WORLD_UNTIL(w, is_connected);
	report = world_report(w);
	assert_non_null(report->drain);
	assert_string_equal(report->drain->state, "done");
	assert_true(report->drain->accepting);
	assert_int_equal(report->drain->n_volumes, 1);
	protobuf_c_message_free_unpacked(&report->base, NULL);
	expect_c_runs(w);
}

CASE(asking_twice_is_one_drain)
{
	int64_t started_ms;
	drain_pb *drain;

	start_with_a(w, 1);
	w->server.hold_acks = true;
	drain = begin(w, LONG_MS);
	started_ms = drain->started_ms;
	drain = begin(w, 2 * LONG_MS); /* somebody else, with more time */
	assert_int_equal(drain->started_ms, started_ms);
	assert_true(drain->deadline_ms > started_ms + LONG_MS);
	drain = begin(w, SHORT_MS); /* and with less */
	assert_true(drain->deadline_ms > started_ms + LONG_MS);
	w->server.hold_acks = false;
	model_server_hang_up(&w->server); /* the receipts are sent again */
	drain = until_ended(w, drain);
	assert_true(drain->done);
	assert_int_equal(drain->started_ms, started_ms);
	/* one that follows it is told the same for ever, and another one begins anew */
	drain = take(ask_drain(w, LONG_MS, false, started_ms));
	assert_int_equal(drain->n_volumes, 1);
	drain = begin(w, LONG_MS);
	assert_true(drain->started_ms > started_ms);
	assert_true(drain->done);
	assert_int_equal(drain->n_volumes, 0);
}

CASE(it_lasts_until_the_server_has_acknowledged)
{
	drain_pb *drain;

	start_with_a(w, 1);
	WORLD_UNTIL(w, all_is_acknowledged);
	w->server.hold_acks = true;
	drain = begin(w, LONG_MS);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	world_idle(w, 50);
	drain = take(ask_drain(w, LONG_MS, false, drain->started_ms));
	assert_int_equal(drain->ended_ms, 0);
	assert_string_equal(drain->volumes[0]->state, "unmounted");
	assert_int_equal(drain->receipts_pending, 1);
	w->server.hold_acks = false;
	model_server_hang_up(&w->server);
	assert_true(until_ended(w, drain)->done);
}

/* The server is away: unmounted all the same, and told after the next boot. */
CASE(pending_receipts_reach_the_server_after_the_next_boot)
{
	Holdfast__V1__GetAgentStatusResponse *report;
	drain_pb *drain;

	start_with_a(w, 2);
	world_idle(w, 50);
	model_server_stop(&w->server);
	drain = until_time_is_over(w, ENOUGH_MS); /* for the helper to unmount both */
	assert_string_equal(drain->state, "unacknowledged");
	assert_false(drain->done);
	assert_int_equal(drain->receipts_pending, 2);
	assert_string_equal(drain->volumes[1]->state, "unmounted");
	expect_words(drain->volumes[1]->next, "journal");
	expect_words(drain->summary, "after the next boot");
	expect_nothing_mounted(w);
	assert_int_equal(model_server_unreleased(&w->server), 2);
	world_kill_agent(w);
	age_journal(w);
	world_start_server(w);
	world_start_agent(w);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_LOST);
	assert_string_equal(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			    "node was shut down");
	report = world_report(w);
	assert_string_equal(report->drain->state, "unacknowledged");
	protobuf_c_message_free_unpacked(&report->base, NULL);
}

CASE(an_obstacle_is_named_with_the_next_step)
{
	uint64_t end;
	drain_pb *drain;

	start_with_a(w, 2);
	w->fake.state->busy_unpublish = UINT32_MAX;
	end = world_deadline();
	do { /* until the helper has answered once */
		world_turn(w, end, "the helper's first answer");
		drain = until_time_is_over(w, SHORT_MS);
	} while (str_eq(drain->volumes[1]->reason, "in progress"));
	assert_string_equal(drain->state, "incomplete");
	expect_words(drain->summary, "2 of 2 volumes");
	expect_words(drain->volumes[0]->reason, "after the other volumes");
	assert_string_equal(drain->volumes[1]->state, "in use");
	expect_words(drain->volumes[1]->reason, "in use");
	assert_true(drain->volumes[1]->step[0] != '\0');
	expect_words(drain->volumes[1]->next, "holdfast agent status");
	/* it continues, for whoever drains again */
	w->fake.state->busy_unpublish = 0;
	assert_true(until_ended(w, begin(w, LONG_MS))->done);
	expect_nothing_mounted(w);
}

CASE(the_time_has_limits)
{
	static const struct {
		uint32_t timeout_ms;
		enum status status;
	} rows[] = {
		{0, STATUS_INVALID_ARGUMENT},
		{DRAIN_TIMEOUT_MAX_MS + 1, STATUS_INVALID_ARGUMENT},
		{UINT32_MAX, STATUS_INVALID_ARGUMENT},
		{DRAIN_TIMEOUT_MAX_MS, STATUS_OK},
		{1, STATUS_OK},
	};

	start_with_a(w, 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct drain_answer answer = ask_drain(w, rows[i].timeout_ms, false, 0);

		assert_int_equal(answer.err.status, rows[i].status);
		if (rows[i].status != STATUS_OK)
			assert_true(a_runs(w));
		protobuf_c_message_free_unpacked((ProtobufCMessage *)answer.response, NULL);
	}
}

CASE(a_result_that_cannot_be_read_is_no_reason_not_to_start)
{
	static const char *const texts[] = {"", "{", "[]", "{\"state\": 7}", "{\"nonsense\": true}"};
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/" DRAIN_FILE, w->config.data_dir);
	world_start_agent(w); /* makes the folder */
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		Holdfast__V1__GetAgentStatusResponse *report;

		world_kill_agent(w);
		assert_int_equal(file_write_atomic(path, 0600, texts[i], strlen(texts[i])), 0);
		world_start_agent(w);
		report = world_report(w);
		assert_null(report->drain);
		protobuf_c_message_free_unpacked(&report->base, NULL);
	}
}

TEST_GROUP(world_group_setup, world_group_teardown)
