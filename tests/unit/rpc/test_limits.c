/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"
#include "raw.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "rpc/client_internal.h"
#include "rpc/server_internal.h"

#include <sys/resource.h>
#include <sys/socket.h>

/* Limits small enough to reach. */
enum { CALLS = 3, CONNECTIONS = 3, MESSAGE = 20000, HELD = 30000 };

static int setup_small(void **state)
{
	return world_setup_with(state, &(struct rpc_server_limits){.message_bytes = MESSAGE,
								   .connection_bytes = HELD,
								   .connections = CONNECTIONS,
								   .per_user = CONNECTIONS,
								   .calls = CALLS});
}

static int setup_large(void **state)
{
	static const struct rpc_server_limits limits = {.connection_bytes = (size_t)80 << 20};

	return world_setup_with(state, &limits);
}

static int setup_wide_messages(void **state)
{
	return world_setup_with(state, &(struct rpc_server_limits){.message_bytes = 10 * (size_t)MESSAGE,
								   .connection_bytes = HELD,
								   .connections = CONNECTIONS,
								   .per_user = CONNECTIONS,
								   .calls = CALLS});
}

/* An id that makes a GetVolumeRequest of @size bytes. */
static char *id_for_message(size_t size)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	char *id = NON_NULL(malloc(size + 1));

	for (size_t n = size; n > 0; n--) {
		memset(id, 'i', n);
		id[n] = '\0';
		request.id = id;
		if (protobuf_c_message_get_packed_size(&request.base) == size)
			return id;
	}
	fail();
	return NULL;
}

static enum status send_message_of(struct world *world, struct rpc_client *client, size_t size,
				   struct answer *answer)
{
	char *id = id_for_message(size);
	enum status status = world_get_now(world, client, id, answer);

	free(id);
	return status;
}

WORLD_TEST(a_request_of_one_mebibyte_is_taken_and_one_byte_more_is_not)
{
	const size_t mebibyte = (size_t)1024 * 1024;
	struct answer answer;

	assert_int_equal(send_message_of(world, world->client, mebibyte, &answer), STATUS_OK);
	assert_int_equal(world->n_calls, 1);
	assert_error(send_message_of(world, world->client, mebibyte + 1, &answer), STATUS_RESOURCE_EXHAUSTED,
		     answer.err, "1048577");
	assert_non_null(strstr(answer.err.msg, "1048576"));
	assert_int_equal(world->n_calls, 1);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
}

#define CASE(name) TEST_ON(name, struct world, world, setup_small, world_teardown)

CASE(the_limit_of_a_message_is_the_one_that_was_set)
{
	struct answer answer;

	assert_int_equal(send_message_of(world, world->client, MESSAGE, &answer), STATUS_OK);
	assert_int_equal(send_message_of(world, world->client, MESSAGE + 1, &answer),
			 STATUS_RESOURCE_EXHAUSTED);
}

CASE(the_limit_holds_for_messages_of_streams)
{
	struct session session;
	char text[MESSAGE + 2];

	session_open(&session, world, world->client);
	memset(text, 't', sizeof(text));
	text[MESSAGE - 8] = '\0'; /* two fields with a tag and three bytes of length at most */
	session_say(&session, text);
	world_run_until_count(world, &session.n_messages, 1);
	text[MESSAGE - 8] = 't';
	text[MESSAGE + 1] = '\0';
	session_say(&session, text);
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(world->n_closed, 1);
}

WORLD_TEST(an_answer_may_be_as_large_as_the_client_takes)
{
	const size_t limit = 100000;
	const struct rpc_endpoint endpoint = {.unix_path = world->socket, .message_bytes = limit};
	struct rpc_client *client = NULL;
	struct answer answer;
	struct error err;

	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, &err), STATUS_OK);
	world->answer_bytes = limit - 4; /* tag and length */
	assert_int_equal(world_get_now(world, client, "huge", &answer), STATUS_OK);
	assert_int_equal(answer.why_len, limit - 4);
	world->answer_bytes++;
	assert_error(world_get_now(world, client, "huge", &answer), STATUS_RESOURCE_EXHAUSTED, answer.err,
		     "100001");
	assert_non_null(strstr(answer.err.msg, "holdfast.v1.Volumes/Get"));
	assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
	rpc_client_free(client);
}

WORLD_TEST(answers_of_four_mebibytes_are_taken_by_default)
{
	struct answer answer;

	world->answer_bytes = 4 * 1024 * 1024 - 5;
	assert_int_equal(world_get_now(world, world->client, "huge", &answer), STATUS_OK);
	world->answer_bytes++;
	assert_int_equal(world_get_now(world, world->client, "huge", &answer), STATUS_RESOURCE_EXHAUSTED);
}

TEST_ON(a_client_that_allows_large_answers_has_the_room_for_one, struct world, world, setup_large,
	world_teardown)
{
	const struct rpc_endpoint endpoint = {.unix_path = world->socket, .message_bytes = (size_t)40 << 20};
	struct rpc_client *client = NULL;
	struct answer answer;

	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, NULL), STATUS_OK);
	world->answer_bytes = endpoint.message_bytes - 5; /* tag and length */
	assert_int_equal(world_get_now(world, client, "huge", &answer), STATUS_OK);
	rpc_client_free(client);
}

CASE(an_answer_above_the_connections_limit_becomes_an_error)
{
	struct answer answer;

	world->answer_bytes = HELD - 4 - 5;
	assert_int_equal(world_get_now(world, world->client, "huge", &answer), STATUS_OK);
	world->answer_bytes++;
	assert_error(world_get_now(world, world->client, "huge", &answer), STATUS_RESOURCE_EXHAUSTED,
		     answer.err, "/holdfast.v1.Volumes/Get");
}

TEST_ON(requests_that_come_in_together_share_the_connections_limit, struct world, world, setup_wide_messages,
	world_teardown)
{
	for (size_t over = 0; over <= 1; over++) {
		/* two halves: the one is not complete, the other one uses up what is left */
		static const uint8_t prefix[5] = {0, 0, 0, 0xff, 0xff};
		size_t first = 12000, second = HELD - first + over;
		uint8_t *body = NON_NULL(calloc(1, HELD));
		struct raw_answer a, b;
		struct raw raw;

		memcpy(body, prefix, sizeof(prefix));
		raw_open(&raw, world, true);
		world_settle(world);
		raw_start(&raw, &(struct raw_request){.body = body, .body_len = first, .open = true}, &a);
		raw_start(&raw, &(struct raw_request){.body = body, .body_len = second, .open = true}, &b);
		world_settle(world);
		assert_false(a.done);
		assert_int_equal(b.ended, over);
		if (over)
			assert_non_null(strstr(b.headers, "grpc-status: 8\n"));
		raw_close(&raw);
		world_settle(world);
		free(body);
	}
}

TEST_ON(abandoned_requests_no_longer_count, struct world, world, setup_wide_messages, world_teardown)
{
	uint8_t *body = calloc(1, HELD);
	static const uint8_t head[9] = {0,
					0,
					0,
					(HELD - 5) >> 8,
					(HELD - 5) & 0xff,
					0x0a,
					0x80 | ((HELD - 9) & 0x7f),
					0x80 | ((HELD - 9) >> 7 & 0x7f),
					(HELD - 9) >> 14};
	struct raw_answer answers[20], last;
	cleanup(raw_close) struct raw raw;

	assert_non_null(body);
	body[3] = 0xff;
	raw_open(&raw, world, true);
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		raw_start(&raw, &(struct raw_request){.body = body, .body_len = 20000, .open = true},
			  &answers[i]);
		world_settle(world);
		raw_reset(&raw, &answers[i]);
		world_settle(world);
	}
	/* all of the limit is there again: GetVolumeRequest{id} of HELD bytes with its frame */
	memset(body, 'i', HELD);
	memcpy(body, head, sizeof(head));
	raw_call(&raw, &(struct raw_request){.body = body, .body_len = HELD}, &last);
	assert_non_null(strstr(last.headers, "grpc-status: 0\n"));
	free(body);
}

CASE(calls_above_the_limit_are_queued)
{
	struct answer answers[CALLS + 1], first;

	/* so that the client knows the server's limit */
	assert_int_equal(world_get_now(world, world->client, "db", &first), STATUS_OK);
	for (size_t i = 0; i < CALLS + 1; i++)
		(void)world_get(world, world->client, "hold", WORLD_CALL_US, &answers[i]);
	world_run_until_count(world, &world->n_held, CALLS);
	world_settle(world);
	assert_int_equal(world->n_held, CALLS);
	world_answer(TAKE_PTR(world->held[0]), "first");
	world_run_until_count(world, &world->n_held, CALLS + 1);
	rpc_client_free(TAKE_PTR(world->client));
}

CASE(queued_calls_end_when_the_server_sends_goaway)
{
	struct answer answers[CALLS + 1];
	struct server_conn *conn;

	assert_int_equal(world_get_now(world, world->client, "db", &answers[0]), STATUS_OK);
	for (size_t i = 0; i < CALLS + 1; i++)
		(void)world_get(world, world->client, "hold", WORLD_CALL_US, &answers[i]);
	world_run_until_count(world, &world->n_held, CALLS);
	conn = LIST_FIRST(&world->server->conns);
	/* the first of two, as servers that end gracefully send it: it names no stream */
	assert_int_equal(nghttp2_submit_shutdown_notice(h2_session(conn->h2)), 0);
	transport_wake(conn->transport);
	world_run_until(world, &answers[CALLS].done);
	assert_int_equal(answers[CALLS].status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(answers[CALLS].err.msg, "no further calls"));
	for (size_t i = 0; i < CALLS; i++) {
		world_answer(TAKE_PTR(world->held[i]), "db");
		world_run_until(world, &answers[i].done);
		assert_int_equal(answers[i].status, STATUS_OK);
	}
}

CASE(calls_that_were_abandoned_but_not_answered_still_count)
{
	struct raw_answer answers[CALLS + 2];
	uint8_t frame[64];
	struct raw_request request = {.body = frame, .body_len = raw_get_frame(frame, "hold")};
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, true);
	for (size_t i = 0; i < CALLS; i++) {
		raw_start(&raw, &request, &answers[i]);
		world_run_until_count(world, &world->n_held, i + 1);
		raw_reset(&raw, &answers[i]);
		world_settle(world);
	}
	raw_call(&raw, &request, &answers[CALLS]);
	assert_non_null(strstr(answers[CALLS].headers, "grpc-status: 8\n"));
	assert_int_equal(world->n_held, CALLS);
	world_answer(TAKE_PTR(world->held[0]), "late");
	raw_start(&raw, &request, &answers[CALLS + 1]);
	world_run_until_count(world, &world->n_held, CALLS + 1);
}

CASE(connections_above_the_limit_are_closed_at_once)
{
	struct raw raws[CONNECTIONS];
	struct answer answer;

	for (size_t i = 0; i < CONNECTIONS; i++)
		raw_open(&raws[i], world, true);
	world_settle(world);
	assert_int_equal(world->server->n_conns, CONNECTIONS);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_UNAVAILABLE);
	raw_close(&raws[0]);
	world_settle(world);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	for (size_t i = 1; i < CONNECTIONS; i++) {
		assert_false(raws[i].closed);
		raw_close(&raws[i]);
	}
}

CASE(connections_that_left_unanswered_calls_behind_still_count)
{
	struct answer answer;

	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct rpc_client *client = world_client(world);

		(void)world_get(world, client, "hold", WORLD_CALL_US, &answer);
		world_run_until_count(world, &world->n_held, i + 1);
		rpc_client_free(client);
	}
	world_settle(world);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_UNAVAILABLE);
	world_answer(TAKE_PTR(world->held[1]), "late");
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
}

WORLD_TEST(an_idle_client_is_disconnected)
{
	struct raw raw;

	world->server->timing.handshake_us = 20 * USEC_PER_MSEC;
	world->server->timing.first_request_us = 20 * USEC_PER_MSEC;
	raw_open(&raw, world, false);
	world_run_until(world, &raw.closed);
	raw_close(&raw);
	raw_open(&raw, world, true);
	world_run_until(world, &raw.closed);
	raw_close(&raw);
	assert_int_equal(world->server->n_conns, 0);
}

RAW_TEST(a_client_that_has_called_once_may_stay)
{
	struct raw_answer answer;
	uint8_t frame[64];

	world->server->timing.first_request_us = 20 * USEC_PER_MSEC;
	raw_call(raw, &(struct raw_request){.body = frame, .body_len = raw_get_frame(frame, "db")}, &answer);
	run_for(world->event, 60);
	assert_false(raw->closed);
}

RAW_TEST(a_request_must_come_to_its_end_in_time_whatever_its_deadline)
{
	static const struct raw_field patient[] =
		RAW_POST("/holdfast.v1.Volumes/Get", "application/grpc", {"grpc-timeout", "99999999H"});
	struct raw_answer answer;
	uint8_t frame[64];

	world->server->timing.request_us = 20 * USEC_PER_MSEC;
	raw_ask(raw, &(struct raw_request){.body = "\0", .body_len = 1, .open = true}, &answer);
	assert_non_null(strstr(answer.headers, "grpc-status: 4\n"));
	raw_ask(raw, &(struct raw_request){.fields = patient, .body = "\0", .body_len = 1, .open = true},
		&answer);
	assert_non_null(strstr(answer.headers, "grpc-status: 4\n"));
	/* its handler may take longer */
	raw_start(raw, &(struct raw_request){.body = frame, .body_len = raw_get_frame(frame, "hold")},
		  &answer);
	run_for(world->event, 60);
	assert_false(answer.done);
	world_answer(TAKE_PTR(world->held[0]), "db");
	world_run_until(world, &answer.done);
	assert_non_null(strstr(answer.headers, "grpc-status: 0\n"));
}

RAW_TEST(a_deadline_counts_from_the_headers_of_its_request)
{
	static const struct raw_field fields[] =
		RAW_POST("/holdfast.v1.Volumes/Get", "application/grpc", {"grpc-timeout", "5S"});
	struct raw_answer answer;
	uint64_t begun_us, took_us;
	uint8_t frame[64];

	world->server->timing.request_us = 2 * USEC_PER_SEC;
	begun_us = clock_monotonic_us();
	raw_start(raw, &(struct raw_request){.fields = fields, .open = true}, &answer);
	run_for(world->event, 1000);
	raw_continue(raw, &(struct raw_request){.body = frame, .body_len = raw_get_frame(frame, "hold")},
		     &answer);
	world_run_until(world, &answer.done);
	took_us = clock_monotonic_us() - begun_us;
	assert_non_null(strstr(answer.headers, "grpc-status: 4\n"));
	assert_in_range(took_us, 5000 * USEC_PER_MSEC, 5900 * USEC_PER_MSEC);
	assert_int_equal(world->n_held, 1);
	world_answer(TAKE_PTR(world->held[0]), "late");
}

WORLD_TEST(headers_that_do_not_end_are_no_request)
{
	static const uint8_t begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
				       "\0\0\1\1\0\0\0\0\1\x82"; /* :method: GET */
	cleanup(raw_close) struct raw raw;

	world->server->timing.first_request_us = 20 * USEC_PER_MSEC;
	raw_open(&raw, world, false);
	assert_int_equal(raw_send(&raw, begin, sizeof(begin) - 1), sizeof(begin) - 1);
	world_run_until(world, &raw.closed);
}

WORLD_TEST(a_peer_that_sends_without_reading_is_cut_off)
{
	static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	static const uint8_t ping[17] = {0, 0, 8, 6, 0, 0, 0, 0, 0, 1};
	cleanup(raw_close) struct raw raw;
	size_t sent = 0;

	raw_open(&raw, world, false);
	raw_read(&raw, false);
	(void)raw_send(&raw, preface, sizeof(preface) - 1);
	while (!raw.closed && sent < 100000000) {
		size_t n = raw_send(&raw, ping, sizeof(ping));

		sent += n;
		if (n < sizeof(ping))
			world_settle(world);
		if (world->server->n_conns == 0 && sent > 100000)
			break;
	}
	assert_true(sent < 10000000);
	assert_int_equal(world->server->n_conns, 0);
}

/* A literal field without indexing; returns its length. */
static size_t put_field(uint8_t *at, const char *name, const char *value)
{
	size_t n = strlen(name);
	size_t v = strlen(value);

	at[0] = 0;
	at[1] = (uint8_t)n;
	memcpy(at + 2, name, n);
	at[2 + n] = (uint8_t)v;
	memcpy(at + 3 + n, value, v);
	return 3 + n + v;
}

WORLD_TEST(a_peer_that_calls_without_reading_the_answers_is_cut_off)
{
	static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	uint8_t request[256] = {0, 0, 0, 1, 5};
	size_t n = 9, sent = 0;
	cleanup(raw_close) struct raw raw;

	n += put_field(request + n, ":method", "POST");
	n += put_field(request + n, ":scheme", "http");
	n += put_field(request + n, ":path", "/no.Such/Method");
	n += put_field(request + n, "content-type", "application/grpc");
	request[2] = (uint8_t)(n - 9);
	raw_open(&raw, world, false);
	raw_read(&raw, false);
	(void)raw_send(&raw, preface, sizeof(preface) - 1);
	for (uint32_t id = 1; !raw.closed && sent < 20000000; id += 2) {
		request[6] = (uint8_t)(id >> 16);
		request[7] = (uint8_t)(id >> 8);
		request[8] = (uint8_t)id;
		while (!raw.closed && raw_send(&raw, request, n) == 0) {
			world_settle(world);
			if (world->server->n_conns == 0)
				break;
		}
		sent += n;
		if (sent > 1000000 && world->server->n_conns == 0)
			break;
	}
	assert_true(sent < 5000000);
	assert_int_equal(world->server->n_conns, 0);
}

RAW_TEST(running_out_of_descriptors_does_not_spin_and_passes)
{
	struct rlimit before, few;
	struct answer answer;
	size_t turns = 0;
	uint64_t until_us;
	int next;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	next = dup(0);
	(void)close(next);
	few = before;
	few.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	until_us = clock_monotonic_us() + 50 * USEC_PER_MSEC;
	while (clock_monotonic_us() < until_us) {
		assert_true(sd_event_run(world->event, 10 * USEC_PER_MSEC) >= 0);
		turns++;
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(turns < 20);
	assert_int_equal(world->server->n_conns, 0);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	assert_int_equal(world->server->n_conns, 2);
}
