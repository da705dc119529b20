/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"
#include "raw.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "rpc/client_internal.h"
#include "rpc/server_internal.h"

static void open_session(struct session *session, struct world *world, struct rpc_client *client)
{
	session_open(session, world, client);
	world_run_until(world, &session->opened);
}

WORLD_TEST(messages_go_both_ways_in_their_order)
{
	enum { N = 500 };
	struct session session;
	char text[32];

	open_session(&session, world, world->client);
	assert_int_equal(world->n_opened, 1);
	for (int i = 0; i < N; i++) {
		(void)str_format(text, sizeof(text), "m%d", i);
		session_say(&session, text);
	}
	world_run_until_count(world, &session.n_messages, N);
	assert_string_equal(session.last, text);
	assert_int_equal(world->n_messages, N);
	rpc_stream_cancel(session.stream);
	world_run_until_count(world, &world->n_closed, 1);
	assert_false(session.closed);
}

WORLD_TEST(a_stream_is_open_when_the_server_has_accepted_it_without_a_message)
{
	struct session session;

	open_session(&session, world, world->client);
	assert_int_equal(session.n_messages, 0);
	assert_false(session.closed);
	rpc_stream_cancel(session.stream);
	rpc_stream_cancel(NULL);
}

WORLD_TEST(messages_sent_before_the_stream_is_open_arrive)
{
	struct session session;

	session_open(&session, world, world->client);
	session_say(&session, "early");
	world_run_until_count(world, &session.n_messages, 1);
	assert_string_equal(session.last, "early");
	rpc_stream_cancel(session.stream);
}

WORLD_TEST(the_server_ends_a_stream_well)
{
	struct session session;

	open_session(&session, world, world->client);
	session_say(&session, "finish");
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_OK);
	assert_int_equal(world->n_closed, 1);
}

WORLD_TEST(the_server_ends_a_stream_with_an_error)
{
	struct session session;

	open_session(&session, world, world->client);
	session_say(&session, "before");
	session_say(&session, "fail");
	session_say(&session, "after");
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_ABORTED);
	assert_string_equal(session.err.msg, "as you wish");
	assert_int_equal(session.n_messages, 1);
	assert_int_equal(world->n_messages, 2);
	assert_int_equal(world->n_closed, 1);
}

WORLD_TEST(the_server_may_end_a_stream_at_any_time)
{
	struct session session;
	struct error err;

	open_session(&session, world, world->client);
	(void)error_set(&err, STATUS_UNAUTHENTICATED, 0, "go away");
	rpc_call_fail(world->stream, &err);
	assert_int_equal(world->n_closed, 0);
	rpc_call_fail(world->stream, &err);
	rpc_call_finish(world->stream);
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_UNAUTHENTICATED);
	assert_int_equal(world->n_closed, 1);
}

WORLD_TEST(a_stream_that_is_cancelled_closes_at_the_server_and_is_silent_here)
{
	struct session session;
	struct answer answer;

	open_session(&session, world, world->client);
	rpc_stream_cancel(session.stream);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	world_run_until_count(world, &world->n_closed, 1);
	assert_false(session.closed);
}

WORLD_TEST(freeing_the_server_closes_its_streams_on_both_sides)
{
	struct session session;

	open_session(&session, world, world->client);
	rpc_server_free(world->server);
	world->server = NULL;
	assert_int_equal(world->n_closed, 1);
	world_run_until(world, &session.closed);
	assert_error(session.status, STATUS_UNAVAILABLE, session.err, world->socket);
}

WORLD_TEST(freeing_the_client_closes_its_streams_on_both_sides)
{
	struct rpc_client *client = world_client(world);
	struct session session;

	open_session(&session, world, client);
	rpc_client_free(client);
	assert_true(session.closed);
	assert_int_equal(session.status, STATUS_CANCELLED);
	world_run_until_count(world, &world->n_closed, 1);
}

WORLD_TEST(the_client_may_be_freed_by_a_message_with_more_to_come)
{
	struct rpc_client *client = world_client(world);
	struct session session;

	open_session(&session, world, client);
	for (int i = 0; i < 3; i++)
		session_say(&session, "m");
	session.free_on_message = client;
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_CANCELLED);
	assert_int_equal(session.n_messages, 1);
	world_run_until_count(world, &world->n_closed, 1);
}

WORLD_TEST(a_stream_may_be_cancelled_by_a_message_with_more_to_come)
{
	struct session session;

	open_session(&session, world, world->client);
	session.cancel_on_message = true;
	for (int i = 0; i < 3; i++)
		session_say(&session, "m");
	world_run_until_count(world, &world->n_closed, 1);
	assert_int_equal(session.n_messages, 1);
	assert_false(session.closed);
}

GATE_TEST(an_unaccepted_stream_ends_in_time)
{
	struct session session = {.world = world};
	struct error err;

	gate->shut = true;
	session_open_within(&session, world, client, 30 * USEC_PER_MSEC);
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_DEADLINE_EXCEEDED);
	assert_false(session.opened);
	assert_int_equal(rpc_stream_open(client, &holdfast__v1__nodes__descriptor, "Session", 0, NULL, NULL,
					 NULL, &err),
			 STATUS_INVALID_ARGUMENT);
	rpc_client_free(client);
}

/* A command in a task that prints nothing: the server's headers come with its first message. */
GATE_TEST(a_stream_whose_headers_may_wait_needs_a_server_that_lives)
{
	const struct rpc_stream_events *usual = session_events;
	struct rpc_stream_events events = *usual;
	struct session session;
	struct answer answer;

	events.headers_may_wait = true;
	session_events = &events;
	client->timing.keepalive_us = client->timing.silence_us = 50 * USEC_PER_MSEC;
	assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
	gate->shut = true;
	session_open_within(&session, world, client, 30 * USEC_PER_MSEC);
	run_for(world->event, 60);
	assert_false(session.opened);
	assert_false(session.closed);
	world_run_until(world, &session.closed); /* the server answers no PING */
	assert_int_equal(session.status, STATUS_UNAVAILABLE);
	session_events = usual;
	rpc_client_free(client);
}

WORLD_TEST(opening_in_time_is_all_that_the_time_limit_is_about)
{
	struct session session;
	struct answer answer;

	session_open_within(&session, world, world->client, 50 * USEC_PER_MSEC);
	world_run_until(world, &session.opened);
	(void)world_get(world, world->client, "hold", 100 * USEC_PER_MSEC, &answer);
	world_run_until(world, &answer.done);
	assert_false(session.closed);
	rpc_stream_cancel(session.stream);
}

WORLD_TEST(a_refused_stream_is_never_open)
{
	struct session session;

	session_open_method(&session, world, world->client, "List");
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_UNIMPLEMENTED);
	assert_false(session.opened);
}

RAW_TEST(half_closing_is_reported_or_ends_the_stream)
{
	static const struct raw_field fields[] = RAW_POST("/holdfast.v1.Nodes/Session", "application/grpc");
	struct raw_answer answer;

	raw_call(raw, &(struct raw_request){.fields = fields}, &answer);
	assert_int_equal(world->n_half_closed, 1);
	assert_int_equal(world->n_closed, 1);
	assert_non_null(strstr(answer.headers, "grpc-status: 0\n"));
	world->handlers.on_half_close = NULL;
	raw_call(raw, &(struct raw_request){.fields = fields}, &answer);
	assert_int_equal(world->n_half_closed, 1);
	assert_int_equal(world->n_closed, 2);
	assert_non_null(strstr(answer.headers, "grpc-status: 0\n"));
}

/* grpc-js cancels so: END_STREAM and RST_STREAM in the same breath. */
RAW_TEST(a_stream_that_is_half_closed_and_given_up_at_once_has_not_ended)
{
	static const struct raw_field fields[] = RAW_POST("/holdfast.v1.Nodes/Session", "application/grpc");
	struct raw_answer answer;

	raw_start(raw, &(struct raw_request){.fields = fields, .open = true}, &answer);
	world_run_until_count(world, &world->n_opened, 1);
	raw_continue(raw, &(struct raw_request){.body_len = 0}, &answer);
	raw_reset(raw, &answer);
	world_run_until_count(world, &world->n_closed, 1);
	assert_int_equal(world->n_opened, 1);
	assert_int_equal(world->n_half_closed, 0);
	assert_int_equal(world->n_closed, 1);
	assert_int_equal(rpc_server_stats(world->server).streams, 0);
}

/* The client says its last and the server continues. */
static void note_half_close(struct rpc_call *call, void *userdata)
{
	struct world *world = userdata;

	world->n_half_closed++;
}

RAW_TEST(half_closing_is_reported_once_and_the_server_may_continue)
{
	static const struct raw_field fields[] = RAW_POST("/holdfast.v1.Nodes/Session", "application/grpc");
	Holdfast__V1__SessionDown down;
	struct raw_answer answer;
	struct error err;

	holdfast__v1__session_down__init(&down);
	world->handlers.on_half_close = note_half_close;
	raw_start(raw, &(struct raw_request){.fields = fields}, &answer);
	world_run_until_count(world, &world->n_half_closed, 1);
	h2_stream_wake(&world->stream->stream);
	world_settle(world);
	assert_int_equal(world->n_half_closed, 1);
	assert_int_equal(rpc_call_send(world->stream, &down.base, &err), STATUS_OK);
	rpc_call_finish(world->stream);
	world_run_until(world, &answer.done);
	assert_int_equal(answer.body_len, 5);
	assert_non_null(strstr(answer.headers, "grpc-status: 0\n"));
}

RAW_TEST(nothing_is_reported_of_a_stream_that_its_handler_has_ended)
{
	static const struct raw_field fields[] = RAW_POST("/holdfast.v1.Nodes/Session", "application/grpc");
	/* SessionUp{heartbeat{boot_id: "finish"}}, and half-closed with it */
	static const char finish[] = "\0\0\0\0\x0a\x12\x08\x0a\6finish";
	struct raw_answer answer;

	raw_call(raw, &(struct raw_request){.fields = fields, .body = finish, .body_len = sizeof(finish) - 1},
		 &answer);
	assert_int_equal(world->n_messages, 1);
	assert_int_equal(world->n_half_closed, 0);
	assert_int_equal(world->n_closed, 1);
}

RAW_TEST(the_deadline_of_a_stream_ends_it)
{
	static const struct raw_field fields[] =
		RAW_POST("/holdfast.v1.Nodes/Session", "application/grpc", {"grpc-timeout", "30m"});
	struct raw_answer answer;

	raw_ask(raw, &(struct raw_request){.fields = fields, .open = true}, &answer);
	assert_int_equal(world->n_opened, 1);
	assert_int_equal(world->n_closed, 1);
	assert_non_null(strstr(answer.headers, "grpc-status: 4\n"));
}

GATE_TEST(a_reader_that_does_not_read_costs_no_more_than_the_limit)
{
	struct session session;

	open_session(&session, world, client);
	session_say(&session, "flood");
	while (world->n_messages == 0)
		assert_true(sd_event_run(world->event, WORLD_CALL_US) > 0);
	assert_int_equal(world->flood_status, STATUS_RESOURCE_EXHAUSTED);
	/* 8 MiB in messages of 4 KiB and a few bytes each */
	assert_in_range(world->n_flood, 2000, 2048);
	world_run_until_count(world, &session.n_messages, world->n_flood);
	/* what has been read makes room again */
	session_say(&session, "ping");
	world_run_until_count(world, &session.n_messages, world->n_flood + 1);
	assert_string_equal(session.last, "ping");
	rpc_client_free(client);
}

GATE_TEST(a_server_that_does_not_read_costs_the_client_no_more_than_its_limit)
{
	struct session session;
	char text[32768];
	struct error err;
	enum status status;
	size_t n = 0;

	open_session(&session, world, client);
	gate->shut = true;
	memset(text, 't', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	do
		status = session_send(&session, text, &err);
	while (status == STATUS_OK && ++n < 10000);
	assert_error(status, STATUS_RESOURCE_EXHAUSTED, err, "holdfast.v1.Nodes/Session");
	assert_in_range(n, 1000, 1024); /* 32 MiB */
	rpc_client_free(client);
}

WORLD_TEST(messages_after_the_end_are_dropped)
{
	struct session session;

	open_session(&session, world, world->client);
	rpc_call_finish(world->stream);
	session_say(&session, "late");
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_OK);
	assert_int_equal(world->n_messages, 0);
}

GATE_TEST(a_silent_server_is_noticed_while_a_stream_is_open)
{
	struct session session;
	uint64_t start_us;

	client->timing.keepalive_us = 40 * USEC_PER_MSEC;
	client->timing.silence_us = 40 * USEC_PER_MSEC;
	open_session(&session, world, client);
	gate->shut = true;
	start_us = clock_monotonic_us();
	world_run_until(world, &session.closed);
	assert_error(session.status, STATUS_UNAVAILABLE, session.err, "silent");
	assert_true(clock_monotonic_us() - start_us >= 70 * USEC_PER_MSEC);
	rpc_client_free(client);
}

WORLD_TEST(a_quiet_stream_to_a_living_server_stays_open)
{
	struct session session;

	/* equal times: the answer to one question is as old as the next question, and must not count as
	 * silence */
	world->client->timing.keepalive_us = 20 * USEC_PER_MSEC;
	world->client->timing.silence_us = 20 * USEC_PER_MSEC;
	open_session(&session, world, world->client);
	run_for(world->event, 300);
	assert_false(session.closed);
	rpc_stream_cancel(session.stream);
}

GATE_TEST(an_idle_connection_without_streams_is_not_asked)
{
	struct session session;
	struct answer answer;
	size_t up;

	client->timing.keepalive_us = 10 * USEC_PER_MSEC;
	client->timing.silence_us = 10 * USEC_PER_MSEC;
	assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
	/* nor one that had a stream */
	open_session(&session, world, client);
	rpc_stream_cancel(session.stream);
	world_run_until_count(world, &world->n_closed, 1);
	up = gate->pairs[0].up;
	run_for(world->event, 60);
	assert_int_equal(gate->pairs[0].up, up);
	assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
	assert_int_equal(gate->n_pairs, 1);
	rpc_client_free(client);
}

GATE_TEST(after_goaway_new_calls_take_a_new_connection_and_old_streams_continue)
{
	struct session session;
	struct server_conn *conn;
	struct answer answer;

	open_session(&session, world, client);
	assert_int_equal(gate->n_pairs, 1);
	conn = LIST_FIRST(&world->server->conns);
	assert_int_equal(nghttp2_submit_goaway(h2_session(conn->h2), NGHTTP2_FLAG_NONE,
					       nghttp2_session_get_last_proc_stream_id(h2_session(conn->h2)),
					       NGHTTP2_NO_ERROR, NULL, 0),
			 0);
	transport_wake(conn->transport);
	world_settle(world);
	assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
	assert_int_equal(gate->n_pairs, 2);
	session_say(&session, "still here");
	world_run_until_count(world, &session.n_messages, 1);
	assert_string_equal(session.last, "still here");
	session_say(&session, "finish");
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_OK);
	world_settle(world);
	assert_int_equal(world->server->n_conns, 1);
	rpc_client_free(client);
}

WORLD_TEST(a_call_that_meets_goaway_on_its_way_is_unavailable_or_answered)
{
	struct answer answer;
	struct server_conn *conn;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	conn = LIST_FIRST(&world->server->conns);
	(void)world_get(world, world->client, "db", WORLD_CALL_US, &answer);
	h2_goaway(conn->h2);
	world_run_until(world, &answer.done);
	assert_true(answer.status == STATUS_OK || answer.status == STATUS_UNAVAILABLE);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
}

/* --- half closing, pausing --- */

WORLD_TEST(a_client_that_half_closes_still_receives)
{
	Holdfast__V1__SessionWelcome welcome = HOLDFAST__V1__SESSION_WELCOME__INIT;
	Holdfast__V1__SessionDown down =
		V1(session_down, .message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME,
		   .welcome = &welcome);
	struct session session;
	struct error err;

	world->handlers.on_half_close = note_half_close;
	open_session(&session, world, world->client);
	session_say(&session, "last");
	rpc_stream_half_close(session.stream);
	rpc_stream_half_close(session.stream);
	assert_int_equal(session_send(&session, "later", &err), STATUS_UNAVAILABLE);
	world_run_until_count(world, &world->n_half_closed, 1);
	assert_int_equal(world->n_messages, 1);
	assert_int_equal(rpc_call_send(world->stream, &down.base, &err), STATUS_OK);
	rpc_call_finish(world->stream);
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_OK);
	assert_int_equal(session.n_messages, 2);
}

enum { WINDOW = 1024 * 1024 };

WORLD_TEST(a_paused_stream_holds_a_window_and_others_continue)
{
	struct rpc_call *flooding;
	struct session paused, other;

	open_session(&paused, world, world->client);
	flooding = world->stream;
	rpc_stream_pause(paused.stream, true);
	session_say(&paused, "flood");
	world_run_until_count(world, &world->n_flood, 1);
	world_settle(world);
	assert_int_equal(world->flood_status, STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(paused.n_messages, 0);
	assert_true(byteq_len(&flooding->stream.out) + WINDOW >= world->n_flood * 4096);

	open_session(&other, world, world->client);
	for (size_t i = 1; i <= 2 * WINDOW / 4096; i++) { /* more than is left of the connection's window */
		char text[4096];

		memset(text, 'o', sizeof(text) - 1);
		text[sizeof(text) - 1] = '\0';
		session_say(&other, text);
		world_run_until_count(world, &other.n_messages, i);
	}
	assert_int_equal(paused.n_messages, 0);

	rpc_stream_pause(paused.stream, false);
	world_run_until_count(world, &paused.n_messages, world->n_flood);
	rpc_stream_cancel(paused.stream);
	rpc_stream_cancel(other.stream);
}

WORLD_TEST(the_end_of_a_paused_stream_waits_behind_its_messages)
{
	struct session session;

	open_session(&session, world, world->client);
	rpc_stream_pause(session.stream, true);
	session_say(&session, "one");
	session_say(&session, "finish");
	world_run_until_count(world, &world->n_closed, 1);
	world_settle(world);
	assert_false(session.closed);
	rpc_stream_pause(session.stream, false);
	world_run_until(world, &session.closed);
	assert_int_equal(session.n_messages, 1);
	assert_int_equal(session.status, STATUS_OK);
}

WORLD_TEST(a_paused_stream_ends_when_its_server_goes_away)
{
	struct session session;

	open_session(&session, world, world->client);
	rpc_stream_pause(session.stream, true);
	session_say(&session, "one");
	world_run_until_count(world, &world->n_messages, 1);
	rpc_server_free(world->server);
	world->server = NULL;
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_UNAVAILABLE);
}

/* Who sends much, and when it may continue. */
struct pump {
	struct world *world;
	struct rpc_stream *stream;
	bool opened;
	size_t n_drained, n_sent, n_come;
};

static void on_pump_open(struct rpc_stream *stream, void *userdata)
{
	struct pump *pump = userdata;

	pump->opened = true;
}

static void on_pump_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	struct pump *pump = userdata;

	pump->n_come++;
}

static void on_pump_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			   void *userdata)
{
	fail_msg("the stream ended: %s", err ? err->msg : "well");
}

static void on_pump_drained(struct rpc_stream *stream, void *userdata)
{
	struct pump *pump = userdata;

	pump->n_drained++;
}

static void pump_open(struct pump *pump, struct world *world)
{
	static const struct rpc_stream_events events = {.on_open = on_pump_open,
							.on_message = on_pump_message,
							.on_closed = on_pump_closed,
							.on_drained = on_pump_drained};
	struct error err;

	*pump = (struct pump){.world = world};
	assert_ok(rpc_stream_open(world->client, &holdfast__v1__nodes__descriptor, "Session", WORLD_CALL_US,
				  &events, pump, &pump->stream, &err));
	world_run_until(world, &pump->opened);
}

/* Send until it is full, or @n times. */
static void pump_some(struct pump *pump, const char *text, size_t n)
{
	Holdfast__V1__Heartbeat heartbeat = V1(heartbeat, .boot_id = TEXT(text));
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT,
		   .heartbeat = &heartbeat);
	struct error err;

	for (; n > 0 && !rpc_stream_is_full(pump->stream); n--) {
		assert_int_equal(rpc_stream_send(pump->stream, &up.base, &err), STATUS_OK);
		pump->n_sent++;
	}
}

static void count_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct world *world = userdata;

	world->n_messages++;
}

/* 32 MiB through a reader that stops again and again: neither side ever holds more than a window and what is
 * full. */
WORLD_TEST(much_goes_through_a_reader_that_pauses_in_bounded_memory)
{
	enum { SIZE = 64 * 1024, N = 512, SPARE = 4 * SIZE };
	struct pump pump;
	static char text[SIZE];
	struct rpc_call *call;

	memset(text, 'p', sizeof(text) - 1);
	world->handlers.on_message = count_message;
	pump_open(&pump, world);
	call = world->stream;
	while (pump.n_sent < N) {
		size_t drained = pump.n_drained, before;

		rpc_call_pause(call, true);
		before = world->n_messages;
		pump_some(&pump, text, N - pump.n_sent);
		world_settle(world);
		pump_some(&pump, text, N - pump.n_sent);
		world_settle(world);
		assert_int_equal(world->n_messages, before);
		assert_true(byteq_len(&call->stream.in) <= WINDOW);
		assert_true(byteq_len(&call->stream.in) + RPC_UNSENT_HIGH + SPARE >=
			    (pump.n_sent - before) * SIZE);
		rpc_call_pause(call, false);
		world_run_until_count(world, &world->n_messages, pump.n_sent);
		assert_true(pump.n_sent == N || pump.n_drained > drained);
	}
	assert_int_equal(world->n_messages, N);
	rpc_stream_cancel(pump.stream);
}

static void ignore_drained(struct rpc_call *call, void *userdata)
{
}

static void take_one_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	count_message(call, message, userdata);
	rpc_call_pause(call, true);
}

/* What waits to be taken keeps its part of the window, also when the reader continues for a moment. */
WORLD_TEST(a_reader_of_one_message_at_a_time_is_sent_a_window_ahead_and_no_more)
{
	enum { SIZE = 8 * 1024, N = 512 };
	struct pump pump;
	static char text[SIZE], large[6 * SIZE];
	struct rpc_call *call;

	memset(text, 'p', sizeof(text) - 1);
	memset(large, 'p', sizeof(large) - 1);
	world->handlers.on_message = take_one_message;
	world->handlers.on_drained = ignore_drained;
	pump_open(&pump, world);
	call = world->stream;
	pump_some(&pump, large, 1); /* for which another stream would get the wide window */
	while (world->n_messages < N) {
		size_t before = world->n_messages;

		pump_some(&pump, text, N - pump.n_sent);
		world_settle(world);
		assert_true(byteq_len(&call->stream.in) <= WINDOW / 4);
		rpc_call_pause(call, false);
		world_run_until_count(world, &world->n_messages, before + 1);
	}
	assert_int_equal(world->n_messages, N);
	rpc_stream_cancel(pump.stream);
}

/* Answers until it is full, and how many. */
static size_t answer_some(struct rpc_call *call, const char *text)
{
	Holdfast__V1__SessionWelcome welcome = V1(session_welcome, .server_version = TEXT(text));
	Holdfast__V1__SessionDown down =
		V1(session_down, .message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME,
		   .welcome = &welcome);
	struct error err;
	size_t n = 0;

	for (; !rpc_call_is_full(call); n++)
		assert_int_equal(rpc_call_send(call, &down.base, &err), STATUS_OK);
	return n;
}

/* All of them wait while both sides send as much as they may, then all of them read. Returns how many got the
 * window of several messages. */
static size_t fill_and_read(struct world *world, struct pump *pumps, struct rpc_call *const *calls, size_t n,
			    const char *text)
{
	size_t before = world->n_messages, n_sent = 0, n_wide = 0;
	size_t *n_answered = calloc(n, sizeof(*n_answered));

	assert_non_null(n_answered);
	for (size_t i = 0; i < n; i++) {
		rpc_call_pause(calls[i], true);
		rpc_stream_pause(pumps[i].stream, true);
		pumps[i].n_sent = pumps[i].n_come = 0;
	}
	for (int round = 0; round < 4; round++) {
		for (size_t i = 0; i < n; i++) { /* none is refused, none ends */
			pump_some(&pumps[i], text, SIZE_MAX);
			n_answered[i] += answer_some(calls[i], text);
		}
		world_settle(world);
	}
	assert_int_equal(world->n_messages, before);
	for (size_t i = 0; i < n; i++) {
		n_wide += byteq_len(&calls[i]->stream.in) > 64 * 1024;
		assert_true(byteq_len(&calls[i]->stream.in) <= 256 * 1024);
		rpc_call_pause(calls[i], false);
		rpc_stream_pause(pumps[i].stream, false);
		n_sent += pumps[i].n_sent;
	}
	world_run_until_count(world, &world->n_messages, before + n_sent);
	for (size_t i = 0; i < n; i++)
		world_run_until_count(world, &pumps[i].n_come, n_answered[i]);
	free(n_answered);
	return n_wide;
}

WORLD_TEST(streams_whose_readers_wait_leave_room_to_one_that_is_not_paced)
{
	enum { SIZE = 1000 * 1000, STREAMS = 10 };
	Holdfast__V1__SessionWelcome welcome = HOLDFAST__V1__SESSION_WELCOME__INIT;
	Holdfast__V1__SessionDown down =
		V1(session_down, .message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME,
		   .welcome = &welcome);
	struct pump pumps[STREAMS], other;
	static char text[SIZE];
	size_t n_sent = 0;

	memset(text, 'p', sizeof(text) - 1);
	welcome.server_version = text;
	for (int round = 0; round < 2; round++) {
		world->handlers.on_drained = ignore_drained;
		for (size_t i = 0; i < STREAMS; i++) {
			pump_open(&pumps[i], world);
			rpc_stream_pause(pumps[i].stream, true);
			n_sent += rpc_call_send(world->stream, &down.base, NULL) == STATUS_OK;
		}
		assert_true(n_sent > 0 && n_sent < STREAMS);
		world->handlers.on_drained = NULL;
		pump_open(&other, world);
		assert_int_equal(rpc_call_send(world->stream, &down.base, NULL), STATUS_OK);
		world_run_until_count(world, &other.n_come, 1);
		rpc_stream_cancel(other.stream);
		for (size_t i = 0; i < STREAMS; i++)
			rpc_stream_cancel(pumps[i].stream);
		world_settle(world); /* what they held is free again */
		n_sent = 0;
	}
}

WORLD_TEST(received_bytes_of_paused_streams_leave_room_to_one_that_is_not_paced)
{
	enum { PIECE = 60 * 1024, STREAMS = 100, LARGE = 1000 * 1000 };
	static char piece[PIECE], large[LARGE];
	static struct pump pumps[STREAMS];
	Holdfast__V1__SessionWelcome welcome = V1(session_welcome, .server_version = large);
	Holdfast__V1__SessionDown down =
		V1(session_down, .message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME,
		   .welcome = &welcome);
	struct pump other;
	size_t n_sent = 0;

	memset(piece, 'p', sizeof(piece) - 1);
	memset(large, 'p', sizeof(large) - 1);
	world->handlers.on_message = count_message;
	world->handlers.on_drained = ignore_drained;
	for (size_t i = 0; i < STREAMS; i++) {
		pump_open(&pumps[i], world);
		rpc_stream_pause(pumps[i].stream, true);
		rpc_call_pause(world->stream, true);
		pump_some(&pumps[i], piece, 1);
		world_settle(world);
		if (i + 5 >= STREAMS)
			n_sent += rpc_call_send(world->stream, &down.base, NULL) == STATUS_OK;
	}
	assert_int_equal(n_sent, 0);
	world->handlers.on_drained = NULL;
	pump_open(&other, world);
	assert_int_equal(rpc_call_send(world->stream, &down.base, NULL), STATUS_OK);
	world_run_until_count(world, &other.n_come, 1);
	rpc_stream_cancel(other.stream);
	for (size_t i = 0; i < STREAMS; i++)
		rpc_stream_cancel(pumps[i].stream);
}

WORLD_TEST(streams_whose_readers_all_wait_fit_into_their_connection_and_lose_nothing)
{
	enum { SIZE = 32 * 1024, STREAMS = 64 };
	static struct pump pumps[STREAMS];
	struct rpc_call *calls[STREAMS];
	static char text[SIZE];

	memset(text, 'p', sizeof(text) - 1);
	world->handlers.on_message = count_message;
	world->handlers.on_drained = ignore_drained;
	for (size_t i = 0; i < STREAMS; i++) {
		pump_open(&pumps[i], world);
		calls[i] = world->stream;
	}
	assert_int_equal(fill_and_read(world, pumps, calls, STREAMS, text), 0);
	assert_int_equal(fill_and_read(world, pumps, calls, STREAMS, text), 4); /* those that read much */
	for (size_t i = 0; i < STREAMS; i++)
		rpc_stream_cancel(pumps[i].stream);
}
