/* SPDX-License-Identifier: Apache-2.0 */
#include "raw.h"

#include "rpc/request_head.h"
#include "rpc/server_internal.h"

#include <sys/socket.h>

static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

static void check_alive(struct world *world)
{
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
}

/* Send bytes, half-close, wait for the server to be done with the connection. */
static void throw_at(struct world *world, const void *bytes, size_t n, bool with_preface)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	if (with_preface)
		(void)raw_send(&raw, preface, sizeof(preface) - 1);
	(void)raw_send(&raw, bytes, n);
	(void)shutdown(raw.fd, SHUT_WR);
	world_run_until(world, &raw.closed);
}

WORLD_TEST(random_bytes_end_the_connection_and_nothing_else)
{
	unsigned int seed = 1;

	for (int round = 0; round < 300; round++) {
		uint8_t bytes[512];
		size_t n = (size_t)rand_r(&seed) % sizeof(bytes) + 1;

		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)rand_r(&seed);
		throw_at(world, bytes, n, round % 2 == 0);
	}
	check_alive(world);
}

static size_t random_frame(unsigned int *seed, uint8_t *frame)
{
	size_t n = (size_t)rand_r(seed) % 64;
	uint32_t stream = (uint32_t)rand_r(seed) % 4;

	frame[0] = frame[1] = 0;
	frame[2] = (uint8_t)n;
	frame[3] = (uint8_t)(rand_r(seed) % 12);
	frame[4] = (uint8_t)rand_r(seed);
	frame[5] = frame[6] = frame[7] = 0;
	frame[8] = (uint8_t)stream;
	for (size_t i = 0; i < n; i++)
		frame[9 + i] = (uint8_t)rand_r(seed);
	return 9 + n;
}

WORLD_TEST(random_frames_end_the_connection_and_nothing_else)
{
	unsigned int seed = 2;

	for (int round = 0; round < 500; round++) {
		uint8_t bytes[16 * 73];
		size_t n = 0;

		for (int i = 0; i < 16; i++)
			n += random_frame(&seed, bytes + n);
		throw_at(world, bytes, n, true);
	}
	check_alive(world);
}

#define GRPC_HEAD {":method", "POST"}, {":scheme", "http"}, ROW(":path", "/holdfast.v1.Volumes/Get")

RAW_TEST(calls_that_are_wrong_get_the_answer_that_reports_it)
{
	static const struct row {
		struct raw_field fields[7];
		const char *body;
		size_t body_len;
		const char *expected[3]; /* lines of the headers */
	} rows[] = {
		/* the compressed flag */
		{{GRPC_HEAD, {"content-type", "application/grpc"}}, "\1\0\0\0\0", 5, {"grpc-status: 12\n"}},
		ROW({GRPC_HEAD, {"content-type", "application/grpc"}, {"grpc-encoding", "gzip"}},
		    "\1\0\0\0\0", 5, {"grpc-status: 12\n", "grpc-accept-encoding: identity\n"}),
		{{GRPC_HEAD, {"content-type", "application/grpc"}}, "\2\0\0\0\0", 5, {"grpc-status: 13\n"}},
		/* no protobuf, no whole message, no message, two messages */
		ROW({GRPC_HEAD, {"content-type", "application/grpc"}}, "\0\0\0\0\2\xff\xff", 7,
		    {"grpc-status: 13\n"}),
		ROW({GRPC_HEAD, {"content-type", "application/grpc"}}, "\0\0\0\0\3\x0a\1\xff", 8,
		    {"grpc-status: 13\n", "id is not UTF-8"}),
		ROW({GRPC_HEAD, {"content-type", "application/grpc"}}, "\0\0\0\0\2\x0a", 6,
		    {"grpc-status: 3\n"}),
		{{GRPC_HEAD, {"content-type", "application/grpc"}}, "", 0, {"grpc-status: 3\n"}},
		ROW({GRPC_HEAD, {"content-type", "application/grpc"}}, "\0\0\0\0\0\0\0\0\0\0", 10,
		    {"grpc-status: 12\n", "one message"}),
		ROW({GRPC_HEAD, {"content-type", "application/grpc"}}, "\0\xff\xff\xff\xff", 5,
		    {"grpc-status: 8\n"}),
		/* nothing of that name */
		ROW({{":method", "POST"},
		     {":scheme", "http"},
		     {":path", "/a.B/C"},
		     {"content-type", "application/grpc"}},
		    "", 0, {":status: 200\n", "grpc-status: 12\n", "/a.B/C"}),
		ROW({{":method", "POST"},
		     {":scheme", "http"},
		     {":path", ""},
		     {"content-type", "application/grpc"}},
		    "", 0, {"grpc-status: 12\n"}),
		ROW({{":method", "POST"},
		     {":scheme", "http"},
		     {":path", "/holdfast.v1.Volumes/Get/"},
		     {"content-type", "application/grpc"}},
		    "", 0, {"grpc-status: 12\n"}),
		ROW({{":method", "POST"},
		     {":scheme", "http"},
		     {":path", "holdfast.v1.Volumes/Get"},
		     {"content-type", "application/grpc"}},
		    "", 0, {"grpc-status: 12\n"}),
		/* no call at all */
		{{GRPC_HEAD, {"content-type", "text/plain"}}, "", 0, {":status: 415\n"}},
		{{GRPC_HEAD}, "", 0, {":status: 415\n"}},
		ROW({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}}, "", 0,
		    {":status: 405\n", "allow: POST\n"}),
		ROW({GRPC_HEAD, {"content-type", "application/grpc"}, {"grpc-timeout", "soon"}}, "", 0,
		    {"grpc-status: 3\n"}),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct raw_answer answer;

		raw_call(raw,
			 &(struct raw_request)ROW(.fields = rows[i].fields, .body = rows[i].body,
						  .body_len = rows[i].body_len),
			 &answer);
		for (size_t k = 0; k < ARRAY_SIZE(rows[i].expected) && rows[i].expected[k]; k++)
			if (!strstr(answer.headers, rows[i].expected[k]))
				fail_msg("row %zu lacks %s: %s", i, rows[i].expected[k], answer.headers);
	}
	assert_false(raw->closed);
	assert_int_equal(world->n_calls, 0);
}

RAW_TEST(refusals_do_not_wait_for_the_rest_of_the_request)
{
	static const struct raw_field unknown[] = RAW_POST("/a.B/C", "application/grpc");
	struct raw_answer answer, second;

	raw_ask(raw, &(struct raw_request){.fields = unknown, .open = true}, &answer);
	assert_non_null(strstr(answer.headers, "grpc-status: 12\n"));
	raw_ask(raw, &(struct raw_request){.body = "\0\xff\xff\xff\xff", .body_len = 5, .open = true},
		&second);
	assert_non_null(strstr(second.headers, "grpc-status: 8\n"));
}

static const struct raw_field no_method[] = RAW_POST("/a.B/C", "application/json");

WORLD_TEST(the_answer_to_head_has_no_body)
{
	static const struct raw_field head[] = {{":method", "HEAD"},
						{":scheme", "http"},
						{":path", "/a.B/C"},
						{"content-type", "application/json"},
						{NULL, NULL}};
	struct raw_answer answer;
	struct raw raw;

	raw_open(&raw, world, true);
	raw_call(&raw, &(struct raw_request){.fields = head}, &answer);
	assert_non_null(strstr(answer.headers, ":status: 4"));
	assert_non_null(strstr(answer.headers, "content-length: "));
	assert_int_equal(answer.body_len, 0);
	assert_false(answer.was_reset);
	raw_close(&raw);
	check_alive(world);
}

/* curl drops an answer that a reset follows before its body has left. */
RAW_TEST(an_answer_before_the_end_of_the_request_is_not_taken_back_by_a_reset)
{
	struct raw_answer answer;

	raw_ask(raw, &(struct raw_request){.fields = no_method, .body = "{", .body_len = 1, .open = true},
		&answer);
	assert_non_null(strstr(answer.headers, ":status: 501\n"));
	assert_non_null(strstr(answer.body, "this server has no method /a.B/C"));
	assert_false(answer.done);
	raw_continue(raw, &(struct raw_request){.body = "}", .body_len = 1}, &answer);
	world_run_until(world, &answer.done);
	assert_false(answer.was_reset);
}

WORLD_TEST(an_answered_request_that_never_ends_is_reset)
{
	enum { DRAIN_BYTES_MAX = 1 << 20 };
	struct raw_answer answer;
	struct raw raw;
	char *body = NON_NULL(calloc(1, DRAIN_BYTES_MAX));

	raw_open(&raw, world, true);
	raw_ask(&raw, &(struct raw_request){.fields = no_method, .open = true}, &answer);
	for (int i = 0; i < 16; i++) {
		raw_continue(
			&raw,
			&(struct raw_request){.body = body, .body_len = DRAIN_BYTES_MAX / 16, .open = true},
			&answer);
		for (int turn = 0; turn < 8; turn++)
			(void)sd_event_run(world->event, 1000);
	}
	assert_false(answer.was_reset);
	raw_continue(&raw, &(struct raw_request){.body = body, .body_len = 1, .open = true}, &answer);
	world_run_until(world, &answer.done);
	assert_true(answer.was_reset);
	assert_int_equal(answer.reset_code, NGHTTP2_NO_ERROR);
	raw_close(&raw);
	free(body);
	check_alive(world);
}

WORLD_TEST(answered_requests_that_stay_open_are_bounded)
{
	enum { DRAIN_STREAMS_MAX = 16 };
	static struct raw_answer answers[DRAIN_STREAMS_MAX + 2];
	struct raw raw;

	raw_open(&raw, world, true);
	for (int i = 0; i <= DRAIN_STREAMS_MAX; i++)
		raw_ask(&raw, &(struct raw_request){.fields = no_method, .open = true}, &answers[i]);
	world_run_until(world, &answers[DRAIN_STREAMS_MAX].done);
	assert_true(answers[DRAIN_STREAMS_MAX].was_reset);
	for (int i = 0; i < DRAIN_STREAMS_MAX; i++)
		assert_false(answers[i].done);
	raw_reset(&raw, &answers[0]); /* there is room again */
	raw_ask(&raw, &(struct raw_request){.fields = no_method, .open = true},
		&answers[DRAIN_STREAMS_MAX + 1]);
	(void)sd_event_run(world->event, 10000);
	assert_false(answers[DRAIN_STREAMS_MAX + 1].was_reset);
	raw_close(&raw);
	check_alive(world);
}

RAW_TEST(malformed_pseudo_headers_reset_the_stream_alone)
{
	static const struct raw_field blocks[][6] = {
		{{":method", "POST"}, {":scheme", "http"}, {"content-type", "application/grpc"}},
		{GRPC_HEAD, {":path", "/again"}, {"content-type", "application/grpc"}},
		{{"content-type", "application/grpc"}, GRPC_HEAD},
		{GRPC_HEAD, {":status", "200"}, {"content-type", "application/grpc"}},
	};
	struct raw_answer answer;

	for (size_t i = 0; i < ARRAY_SIZE(blocks); i++) {
		raw_call(raw, &(struct raw_request){.fields = blocks[i]}, &answer);
		assert_int_equal(answer.reset_code, NGHTTP2_PROTOCOL_ERROR);
		assert_string_equal(answer.headers, "");
	}
	assert_false(raw->closed);
}

RAW_TEST(trailers_of_a_request_change_nothing)
{
	static const nghttp2_nv trailer =
		ROW(.name = (uint8_t *)(uintptr_t) "content-type",
		    .value = (uint8_t *)(uintptr_t) "application/json", .namelen = 12, .valuelen = 16);
	struct raw_answer answer;
	uint8_t frame[64];

	raw_start(raw,
		  &(struct raw_request){
			  .body = frame, .body_len = raw_get_frame(frame, "missing"), .open = true},
		  &answer);
	world_settle(world);
	assert_int_equal(nghttp2_submit_headers(raw->session, NGHTTP2_FLAG_END_STREAM, raw->ids[0], NULL,
						&trailer, 1, NULL),
			 0);
	raw_flush(raw);
	world_run_until(world, &answer.done);
	assert_non_null(strstr(answer.headers, "grpc-status: 5\n"));
}

RAW_TEST(the_path_of_the_socket_is_taken_as_authority)
{
	static const struct raw_field fields[] = {GRPC_HEAD,
						  {":authority", "/run/holdfast/agent.sock"},
						  {"content-type", "application/grpc"},
						  {NULL, NULL}};
	struct raw_answer answer;
	uint8_t frame[64];

	raw_call(raw,
		 &(struct raw_request){
			 .fields = fields, .body = frame, .body_len = raw_get_frame(frame, "db")},
		 &answer);
	assert_non_null(strstr(answer.headers, "grpc-status: 0\n"));
}

RAW_TEST(header_lists_above_the_limit_are_refused_in_words)
{
	static char value[REQUEST_HEADERS_MAX];
	struct raw_field fields[] = {
		GRPC_HEAD, {"content-type", "application/grpc"}, {"x", value}, {NULL, NULL}};
	struct request_head head = {0};
	struct raw_answer answer;
	uint8_t frame[64];
	size_t rest;

	for (size_t i = 0; i < 4; i++)
		request_head_add(&head, (const uint8_t *)fields[i].name, strlen(fields[i].name),
				 (const uint8_t *)fields[i].value, strlen(fields[i].value));
	rest = REQUEST_HEADERS_MAX - head.bytes - 1 - 32;
	for (size_t over = 0; over <= 1; over++) {
		memset(value, 0, sizeof(value));
		memset(value, 'v', rest + over);
		raw_call(raw,
			 &(struct raw_request){
				 .fields = fields, .body = frame, .body_len = raw_get_frame(frame, "db")},
			 &answer);
		assert_non_null(strstr(answer.headers, over ? "grpc-status: 8\n" : "grpc-status: 0\n"));
	}
}

RAW_TEST(a_flood_of_resets_is_tolerated_or_ended)
{
	struct raw_answer answers[60];

	for (size_t i = 0; i < ARRAY_SIZE(answers) && !raw->closed; i++) {
		raw_start(raw, &(struct raw_request){.open = true}, &answers[i]);
		raw_reset(raw, &answers[i]);
	}
	world_settle(world);
	check_alive(world);
}

/* HEADERS without END_HEADERS, then CONTINUATION for ever. */
WORLD_TEST(endless_headers_end_the_connection)
{
	static const uint8_t headers[9] = {0, 0, 0, 1, 0, 0, 0, 0, 1};
	static const uint8_t field[4] = {0, 1, 'a', 0};
	uint8_t continuation[9 + 256] = {0, 1, 0, 9, 0, 0, 0, 0, 1};
	cleanup(raw_close) struct raw raw;

	/* literal fields without indexing, name "a", empty value, again and again */
	for (size_t i = 9; i + sizeof(field) <= sizeof(continuation); i += sizeof(field))
		memcpy(continuation + i, field, sizeof(field));
	raw_open(&raw, world, false);
	(void)raw_send(&raw, preface, sizeof(preface) - 1);
	(void)raw_send(&raw, headers, sizeof(headers));
	for (int i = 0; i < 2000 && !raw.closed; i++) {
		(void)raw_send(&raw, continuation, sizeof(continuation));
		world_settle(world);
	}
	assert_true(raw.closed);
	check_alive(world);
}

WORLD_TEST(a_peer_that_vanishes_in_the_middle_of_anything_leaves_nothing_behind)
{
	uint8_t frame[64];
	struct raw_request request = {.body = frame, .body_len = raw_get_frame(frame, "hold"), .open = true};

	for (int step = 0; step < 4; step++) {
		struct raw_answer answer;
		struct raw raw;

		raw_open(&raw, world, step > 0);
		request.open = step == 1;
		if (step > 0)
			raw_start(&raw, &request, &answer);
		if (step > 2)
			world_settle(world);
		raw_close(&raw);
		world_settle(world);
		/* what a handler holds is all that may be left */
		assert_int_equal(world->server->n_conns, world->n_held);
	}
	check_alive(world);
}

static size_t n_fields; /* that the server was told of */

void __real_request_head_add(struct request_head *head, const uint8_t *name, size_t name_len,
			     const uint8_t *value, size_t value_len);

WRAPPED(void, request_head_add, struct request_head *head, const uint8_t *name, size_t name_len,
	const uint8_t *value, size_t value_len)
{
	n_fields++;
	__real_request_head_add(head, name, name_len, value, value_len);
}

enum { VALUE = 3900, REFERENCES = 8000, HPACK_FRAME = 9 + 3 + 5 + VALUE + REFERENCES };

/* A request whose header block names one large field over and over, with one byte each time; the first one of
 * a connection brings the field. */
static size_t reference_bomb(uint8_t frame[static HPACK_FRAME], uint8_t stream)
{
	static const uint8_t pseudo[] = {0x83, 0x86, 0x84}; /* POST, http, / */
	/* a new field to be indexed: the name x and a value of VALUE bytes */
	static const uint8_t literal[] = {
		0x40, 1, 'x', 0x7f, 0x80 | ((VALUE - 127) & 0x7f), (VALUE - 127) >> 7};
	size_t n = 9;

	memcpy(frame + n, pseudo, sizeof(pseudo));
	n += sizeof(pseudo);
	if (stream == 1) {
		memcpy(frame + n, literal, sizeof(literal));
		n += sizeof(literal);
		memset(frame + n, 'v', VALUE);
		n += VALUE;
	}
	memset(frame + n, 0x80 | 62, HPACK_FRAME - 1 - n);
	n = HPACK_FRAME - 1;
	memcpy(frame, (uint8_t[]){0, (uint8_t)((n - 9) >> 8), (uint8_t)(n - 9), 1, 5, 0, 0, 0, stream}, 9);
	return n;
}

WORLD_TEST(references_to_a_large_field_are_not_read_on_and_the_connection_ends_soon)
{
	enum { REQUESTS = 8, MOST = 2 * REQUEST_HEADERS_MAX / VALUE + 3 };
	static uint8_t frame[HPACK_FRAME];
	size_t n = reference_bomb(frame, 1);
	cleanup(raw_close) struct raw raw;
	uint8_t i;

	raw_open(&raw, world, false);
	(void)raw_send(&raw, preface, sizeof(preface) - 1);
	n_fields = 0;
	assert_int_equal(raw_send(&raw, frame, n), n);
	world_settle(world);
	if (n_fields > MOST)
		fail_msg("%zu fields of one request were read, and not at most %d", n_fields, MOST);
	assert_false(raw.closed);
	for (i = 1; i < REQUESTS && !raw.closed; i++) {
		n = reference_bomb(frame, (uint8_t)(2 * i + 1));
		(void)raw_send(&raw, frame, n);
		world_settle(world);
	}
	assert_true(raw.closed);
	assert_int_equal(i, 4);
	assert_true(n_fields <= (size_t)4 * MOST);
	check_alive(world);
}
