/* SPDX-License-Identifier: Apache-2.0 */
#include "stranger.h"

#include "base/clock.h"
#include "rpc/client_internal.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static const struct stranger_field grpc_headers[] = {{":status", "200"},
						     {"content-type", "application/grpc+proto"},
						     {"grpc-encoding", "identity"},
						     {NULL, NULL}};
static const struct stranger_field ok_trailers[] = {
	{"grpc-status", "0"}, {"grpc-message", "OK"}, {NULL, NULL}};

/* GetVolumeResponse{volume{id: "db"}} as a frame. */
static const char db_frame[] = "\0\0\0\0\6\x0a\4\x0a\2db";
enum { DB_FRAME_LEN = sizeof(db_frame) - 1 };

static enum status call(struct world *world, struct stranger *stranger, const struct stranger_script *script,
			struct answer *answer)
{
	stranger->script = *script;
	return world_get_now(world, stranger->client, "db", answer);
}

WORLD_TEST(requests_look_as_every_server_wants_them)
{
	static const char *const lines[] = {
		":method: POST\n",	     ":scheme: http\n", ":path: /holdfast.v1.Volumes/Get\n",
		":authority: localhost\n",   "te: trailers\n",	"content-type: application/grpc\n",
		"grpc-timeout: 15000000u\n",
	};
	struct answer answer;
	cleanup(stranger_close) struct stranger stranger;

	stranger_open(&stranger, world);
	assert_ok(call(world, &stranger,
		       &(struct stranger_script)ROW(.headers = grpc_headers, .body = db_frame,
						    .body_len = DB_FRAME_LEN, .trailers = ok_trailers),
		       &answer));
	assert_string_equal(answer.id, "db");
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!strstr(stranger.headers, lines[i]))
			fail_msg("%s is missing: %s", lines[i], stranger.headers);
	assert_null(strstr(stranger.headers, "grpc-encoding"));
}

WORLD_TEST(malformed_answers_become_precise_errors)
{
	static const struct stranger_field early[] = {{":status", "103"}, {"grpc-status", "7"}, {NULL, NULL}};
	static const struct stranger_field not_found[] = {{":status", "200"},
							  {"content-type", "application/grpc"},
							  {"grpc-status", "5"},
							  {"grpc-message", "gone%21"},
							  {NULL, NULL}};
	static const struct stranger_field ok_only[] = {
		{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}, {NULL, NULL}};
	static const struct stranger_field html[] = {
		{":status", "200"}, {"content-type", "text/html"}, {NULL, NULL}};
	static const struct stranger_field unsupported[] = {{":status", "415"}, {NULL, NULL}};
	static const struct stranger_field overloaded[] = {
		{":status", "503"}, {"content-type", "text/html"}, {NULL, NULL}};
	static const struct stranger_field grpc_503[] = {
		{":status", "503"}, {"content-type", "application/grpc"}, {NULL, NULL}};
	static const struct stranger_field no_status[] = {{"x", "y"}, {NULL, NULL}};
	static const struct stranger_field odd_status[] = {{"grpc-status", "99"}, {NULL, NULL}};
	static const struct row {
		const char *name;
		struct stranger_script script;
		enum status status;
		const char *text;
	} rows[] = {
		ROW("informational headers first",
		    ROW(.early = early, .headers = grpc_headers, .body = db_frame, .body_len = DB_FRAME_LEN,
			.trailers = ok_trailers),
		    STATUS_OK, ""),
		{"trailers only", {.headers = not_found}, STATUS_NOT_FOUND, "gone!"},
		ROW("trailers only, then a reset",
		    {.headers = not_found, .reset = true, .reset_code = NGHTTP2_NO_ERROR}, STATUS_NOT_FOUND,
		    "gone!"),
		{"OK without a message", {.headers = ok_only}, STATUS_INTERNAL, "without a message"},
		ROW("two messages",
		    ROW(.headers = grpc_headers, .body = "\0\0\0\0\0\0\0\0\0\0", .body_len = 10,
			.trailers = ok_trailers),
		    STATUS_INTERNAL, "more than one"),
		ROW("a message with an error",
		    ROW(.headers = grpc_headers, .body = db_frame, .body_len = DB_FRAME_LEN,
			.trailers = odd_status),
		    STATUS_UNKNOWN, "UNKNOWN"),
		ROW("no status in the trailers",
		    ROW(.headers = grpc_headers, .body = db_frame, .body_len = DB_FRAME_LEN,
			.trailers = no_status),
		    STATUS_UNKNOWN, "without a status"),
		ROW("no trailers", {.headers = grpc_headers, .body = db_frame, .body_len = DB_FRAME_LEN},
		    STATUS_UNKNOWN, "without a status"),
		ROW("half a message",
		    {.headers = grpc_headers, .body = db_frame, .body_len = 7, .trailers = ok_trailers},
		    STATUS_INTERNAL, "without a message"),
		ROW("a compressed message",
		    {.headers = grpc_headers, .body = "\1\0\0\0\0", .body_len = 5, .trailers = ok_trailers},
		    STATUS_INTERNAL, "compressed"),
		ROW("no protobuf",
		    ROW(.headers = grpc_headers, .body = "\0\0\0\0\1\xff", .body_len = 6,
			.trailers = ok_trailers),
		    STATUS_INTERNAL, "GetVolumeResponse"),
		ROW("a page", {.headers = html, .body = "<html>", .body_len = 6}, STATUS_UNKNOWN,
		    "without a status"),
		{"415", {.headers = unsupported}, STATUS_UNKNOWN, "415"},
		ROW("503 with a page", {.headers = overloaded, .body = "<html>", .body_len = 6},
		    STATUS_UNAVAILABLE, "503"),
		ROW("503 that calls itself gRPC", {.headers = grpc_503, .body = "\1\1\1\1\1", .body_len = 5},
		    STATUS_UNAVAILABLE, "503"),
		ROW("refused", {.reset = true, .reset_code = NGHTTP2_REFUSED_STREAM}, STATUS_UNAVAILABLE,
		    "no further calls"),
		{"cancelled", {.reset = true, .reset_code = NGHTTP2_CANCEL}, STATUS_CANCELLED, "CANCEL"},
		ROW("calm", {.reset = true, .reset_code = NGHTTP2_ENHANCE_YOUR_CALM},
		    STATUS_RESOURCE_EXHAUSTED, "ENHANCE_YOUR_CALM"),
		{"reset without an error", {.reset = true}, STATUS_INTERNAL, "NO_ERROR"},
		{"GOAWAY", {.goaway = true}, STATUS_UNAVAILABLE, "no further calls"},
		ROW("GOAWAY with a reason", {.goaway = true, .goaway_reason = "too many\nhere\x1b[2J"},
		    STATUS_UNAVAILABLE, "on this connection: too many here?[2J"),
		{"hung up", {.hang_up = true}, STATUS_UNAVAILABLE, "connection lost"},
	};
	cleanup(stranger_close) struct stranger stranger;

	stranger_open(&stranger, world);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct answer answer;
		enum status st = call(world, &stranger, &rows[i].script, &answer);

		assert_msg(st == rows[i].status && strstr(answer.err.msg, rows[i].text), "%s: %s %s",
			   rows[i].name, status_name(st), answer.err.msg);
		if (st != STATUS_OK && st != STATUS_NOT_FOUND)
			assert_non_null(strstr(answer.err.msg, "holdfast.v1.Volumes/Get at unix:"));
	}
}

WORLD_TEST(a_cancel_after_the_deadline_is_the_deadline)
{
	struct answer answer;
	cleanup(stranger_close) struct stranger stranger;

	stranger_open(&stranger, world);
	stranger.script = (struct stranger_script){.reset = true, .reset_code = NGHTTP2_CANCEL};
	(void)world_get(world, stranger.client, "db", WORLD_CALL_US, &answer);
	/* as if it had passed in the meantime, but its timer had not been looked at */
	LIST_FIRST(&stranger.client->calls)->deadline_us = 0;
	world_run_until(world, &answer.done);
	assert_int_equal(answer.status, STATUS_DEADLINE_EXCEEDED);
}

WORLD_TEST(two_messages_that_come_one_after_the_other_are_two_messages)
{
	enum { WHY = 60000, FRAME = 5 + 4 + WHY };
	static const uint8_t head[9] = {0,
					0,
					0,
					(4 + WHY) >> 8,
					(4 + WHY) & 0xff,
					0x12,
					0x80 | (WHY & 0x7f),
					0x80 | (WHY >> 7 & 0x7f),
					WHY >> 14};
	static uint8_t body[2 * FRAME];
	cleanup(stranger_close) struct stranger stranger;
	struct answer answer;

	memset(body, 'w', sizeof(body));
	memcpy(body, head, sizeof(head));
	memcpy(body + FRAME, head, sizeof(head));
	stranger_open(&stranger, world);
	assert_ok(call(
		world, &stranger,
		&(struct stranger_script){
			.headers = grpc_headers, .body = body, .body_len = FRAME, .trailers = ok_trailers},
		&answer));
	assert_int_equal(answer.why_len, WHY);
	stranger.script =
		(struct stranger_script)ROW(.headers = grpc_headers, .body = body, .body_len = sizeof(body),
					    .pause_at = FRAME, .trailers = ok_trailers);
	(void)world_get(world, stranger.client, "db", WORLD_CALL_US, &answer);
	world_settle(world);
	assert_false(answer.done);
	stranger_resume(&stranger);
	world_run_until(world, &answer.done);
	assert_error(answer.status, STATUS_INTERNAL, answer.err, "more than one");
	assert_int_equal(call(world, &stranger,
			      &(struct stranger_script)ROW(.headers = grpc_headers, .body = body,
							   .body_len = sizeof(body), .trailers = ok_trailers),
			      &answer),
			 STATUS_INTERNAL);
}

WORLD_TEST(an_answer_to_half_a_request_ends_the_call)
{
	static const struct stranger_field denied[] = {{":status", "200"},
						       {"content-type", "application/grpc"},
						       {"grpc-status", "7"},
						       {"grpc-message", "no"},
						       {NULL, NULL}};
	struct answer answer;
	cleanup(stranger_close) struct stranger stranger;
	char id[200000];

	memset(id, 'i', sizeof(id) - 1);
	id[sizeof(id) - 1] = '\0';
	stranger_open(&stranger, world);
	stranger.script = (struct stranger_script){.headers = denied, .at_once = true};
	assert_int_equal(world_get_now(world, stranger.client, id, &answer), STATUS_PERMISSION_DENIED);
	assert_string_equal(answer.err.msg, "no");
}

WORLD_TEST(a_stream_ends_with_the_servers_last_word)
{
	struct session session;
	cleanup(stranger_close) struct stranger stranger;

	stranger_open(&stranger, world);
	stranger.script = (struct stranger_script){
		.headers = grpc_headers, .body = "", .body_len = 0, .trailers = ok_trailers, .at_once = true};
	session_open(&session, world, stranger.client);
	world_run_until(world, &session.closed);
	assert_true(session.opened);
	assert_int_equal(session.status, STATUS_OK);
}

WORLD_TEST(a_stream_that_is_answered_with_a_status_alone_is_never_open)
{
	static const struct stranger_field denied[] = {
		{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "7"}, {NULL, NULL}};
	struct session session;
	cleanup(stranger_close) struct stranger stranger;

	stranger_open(&stranger, world);
	stranger.script = (struct stranger_script){.headers = denied, .at_once = true};
	session_open(&session, world, stranger.client);
	world_run_until(world, &session.closed);
	assert_false(session.opened);
	assert_int_equal(session.status, STATUS_PERMISSION_DENIED);
}

WORLD_TEST(trailers_of_kilobytes_are_cut_and_more_than_the_limit_is_refused)
{
	static char message[RESPONSE_HEADERS_MAX / 4];
	struct stranger_field trailers[] = {{"grpc-status", "13"}, {"grpc-message", message}, {"x1", message},
					    {"x2", message},	   {"x3", message},	      {NULL, NULL}};
	struct answer answer;
	cleanup(stranger_close) struct stranger stranger;

	stranger_open(&stranger, world);
	memset(message, 'm', 10000);
	assert_int_equal(
		call(world, &stranger,
		     &(struct stranger_script){
			     .headers = grpc_headers, .body = "", .body_len = 0, .trailers = trailers},
		     &answer),
		STATUS_INTERNAL);
	assert_int_equal(strspn(answer.err.msg, "m"), ERROR_MSG_MAX - 1);
	memset(message, 'm', sizeof(message) - 1);
	assert_int_equal(
		call(world, &stranger,
		     &(struct stranger_script){
			     .headers = grpc_headers, .body = "", .body_len = 0, .trailers = trailers},
		     &answer),
		STATUS_RESOURCE_EXHAUSTED);
}

/* Says one thing to everybody who comes. */
struct chatty {
	int fd;
	sd_event_source *io;
	const char *words;
};

static int on_guest(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	const struct chatty *chatty = userdata;
	int guest = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	(void)send(guest, chatty->words, strlen(chatty->words), MSG_NOSIGNAL);
	(void)close(guest);
	return 0;
}

WORLD_TEST(a_server_that_is_no_http2_server_is_reported)
{
	const char *path = world_path(world, "chatty");
	const struct rpc_endpoint endpoint = {.unix_path = path};
	struct rpc_client *client = NULL;
	struct answer answer;
	struct error err;
	struct chatty chatty = {.words = "SSH-2.0-OpenSSH_9.2\r\nanything that is long enough\r\n"};
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	chatty.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), path), 0);
	assert_int_equal(bind(chatty.fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(chatty.fd, 4), 0);
	assert_true(sd_event_add_io(world->event, &chatty.io, chatty.fd, EPOLLIN, on_guest, &chatty) >= 0);
	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, &err), STATUS_OK);
	assert_error(world_get_now(world, client, "db", &answer), STATUS_UNAVAILABLE, answer.err, path);
	rpc_client_free(client);
	(void)sd_event_source_disable_unref(chatty.io);
	(void)close(chatty.fd);
}

WORLD_TEST(a_silent_server_is_given_longer_the_rarer_heartbeats_are)
{
	static const uint64_t rows[][3] = {{1, 10, 20}, {5, 10, 20}, {10, 10, 20}, {20, 20, 40}, {5, 10, 20}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		rpc_client_set_keepalive(world->client, rows[i][0] * USEC_PER_SEC);
		assert_int_equal(world->client->timing.keepalive_us, rows[i][1] * USEC_PER_SEC);
		assert_int_equal(world->client->timing.silence_us, rows[i][2] * USEC_PER_SEC);
	}
}

WORLD_TEST(a_long_goaway_reason_is_cut)
{
	static char goaway_reason[10000];
	cleanup(stranger_close) struct stranger stranger;
	struct answer answer;
	const char *at;

	memset(goaway_reason, 'f', sizeof(goaway_reason) - 1);
	stranger_open(&stranger, world);
	assert_int_equal(call(world, &stranger,
			      &(struct stranger_script){.goaway = true, .goaway_reason = goaway_reason},
			      &answer),
			 STATUS_UNAVAILABLE);
	at = NON_NULL(strstr(answer.err.msg, "connection: "));
	assert_int_equal(strlen(at + strlen("connection: ")), 255);
}

/* A server that says GOAWAY on each connection. The last stream that counts is the largest possible one. */
struct leaver {
	struct world *world;
	struct rpc_client *client;
	int listen_fd, fds[16];
	size_t n, n_lost;
};

static void on_leaver_lost(void *userdata)
{
	struct leaver *leaver = userdata;

	leaver->n_lost++;
}

static void leaver_open(struct leaver *leaver, struct world *world)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct rpc_endpoint endpoint = {
		.unix_path = address.sun_path, .on_lost = on_leaver_lost, .userdata = leaver};
	struct error err;

	*leaver = (struct leaver){
		.world = world,
		.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
	};
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), world_path(world, "leaver")),
			 0);
	assert_int_equal(bind(leaver->listen_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(leaver->listen_fd, (int)ARRAY_SIZE(leaver->fds)), 0);
	assert_int_equal(rpc_client_new(world->event, &endpoint, &leaver->client, &err), STATUS_OK);
}

static void leaver_close(struct leaver *leaver)
{
	rpc_client_free(leaver->client);
	for (size_t i = 0; i < leaver->n; i++)
		(void)close(leaver->fds[i]);
	(void)close(leaver->listen_fd);
}

static size_t n_connections(const struct leaver *leaver)
{
	const struct client_conn *conn;
	size_t n = 0;

	LIST_FOREACH (conn, &leaver->client->conns, all)
		n++;
	return n;
}

static void leaver_run(const struct leaver *leaver)
{
	for (int i = 0; i < 50 && sd_event_run(leaver->world->event, 0) > 0; i++)
		;
}

static void leaver_send(const struct leaver *leaver, const void *bytes, size_t n)
{
	assert_int_equal(send(leaver->fds[leaver->n - 1], bytes, n, MSG_NOSIGNAL), n);
	leaver_run(leaver);
}

static void leaver_accept(struct leaver *leaver)
{
	static const char settings[] = "\0\0\0\4\0\0\0\0\0";
	int fd = -1;

	for (int i = 0; i < 1000 && fd < 0; i++) {
		leaver_run(leaver);
		fd = accept4(leaver->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	assert_true(fd >= 0);
	leaver->fds[leaver->n++] = fd;
	leaver_send(leaver, settings, sizeof(settings) - 1);
}

/* Fills the client's socket with answers to PINGs: its later frames never leave. */
static void leaver_stuff(const struct leaver *leaver)
{
	enum { PING = 17, PER_STEP = 100, STEPS = 32 };
	int before = -1, now = 0, full = 0;
	char pings[PER_STEP * PING];

	for (size_t i = 0; i < PER_STEP; i++)
		memcpy(pings + i * PING, "\0\0\x08\6\0\0\0\0\0abcdefgh", PING);
	while (full < STEPS) {
		leaver_send(leaver, pings, sizeof(pings));
		assert_int_equal(ioctl(leaver->fds[leaver->n - 1], FIONREAD, &now), 0);
		full += now == before;
		before = now;
	}
}

static void leaver_leave(const struct leaver *leaver)
{
	static const char goaway[] = "\0\0\x08\7\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";

	leaver_send(leaver, goaway, sizeof(goaway) - 1);
}

WORLD_TEST(connections_of_a_server_that_leaves_and_does_not_read_are_closed)
{
	enum { CALLS = 8 };
	cleanup(leaver_close) struct leaver leaver;

	leaver_open(&leaver, world);
	for (size_t i = 0; i < CALLS; i++) {
		struct answer answer = {0};

		world_get(world, leaver.client, "db", 300 * USEC_PER_MSEC, &answer);
		leaver_accept(&leaver);
		if (i % 2 > 0) /* its GOAWAY comes after the end of its last call */
			world_run_until(world, &answer.done);
		leaver_stuff(&leaver);
		leaver_leave(&leaver);
		world_run_until(world, &answer.done);
	}
	world_settle(world);
	assert_int_equal(leaver.n, CALLS);
	assert_int_equal(n_connections(&leaver), 0);
	assert_int_equal(leaver.n_lost, CALLS);
}

WORLD_TEST(a_server_that_leaves_and_does_not_answer_has_few_connections)
{
	enum { CALLS = CONNS_LEFT_MAX + 3 };
	struct answer answers[CALLS] = {{0}};
	cleanup(leaver_close) struct leaver leaver;

	leaver_open(&leaver, world);
	for (size_t i = 0; i < CALLS; i++) {
		world_get(world, leaver.client, "db", 60 * USEC_PER_SEC, &answers[i]);
		leaver_accept(&leaver);
		leaver_leave(&leaver);
	}
	world_settle(world);
	assert_int_equal(n_connections(&leaver), CONNS_LEFT_MAX);
	for (size_t i = 0; i < CALLS; i++)
		assert_int_equal(answers[i].done, i < CALLS - CONNS_LEFT_MAX);
	assert_int_equal(answers[0].err.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(answers[0].err.msg, "connections that take no new calls"));
}

WORLD_TEST(calls_in_flight_continue_however_often_the_owner_reconnects)
{
	enum { CALLS = CONNS_LEFT_MAX + 2 };
	struct answer answers[CALLS] = {{0}};
	cleanup(leaver_close) struct leaver leaver;

	leaver_open(&leaver, world);
	for (size_t i = 0; i < CALLS; i++) {
		world_get(world, leaver.client, "db", 60 * USEC_PER_SEC, &answers[i]);
		leaver_accept(&leaver);
		rpc_client_reconnect(leaver.client);
	}
	world_settle(world);
	for (size_t i = 0; i < CALLS; i++)
		assert_msg(!answers[i].done, "call %zu: %s", i, answers[i].err.msg);
}

struct freer {
	struct rpc_client **client;
	size_t n;
};

static void free_client(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	struct freer *freer = userdata;

	freer->n++;
	rpc_client_free(*freer->client);
	*freer->client = NULL;
}

WORLD_TEST(the_end_of_a_call_on_the_oldest_connection_may_free_the_client)
{
	enum { CALLS = CONNS_LEFT_MAX + 3 };
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	struct leaver leaver;
	struct freer freer = {.client = &leaver.client};
	struct error err;
	size_t n = 0;

	request.id = (char *)(uintptr_t) "db";
	leaver_open(&leaver, world);
	for (size_t i = 0; i < CALLS && leaver.client; i++, n += 2) {
		for (size_t k = 0; k < 2; k++)
			assert_int_equal(rpc_client_call(leaver.client, &holdfast__v1__volumes__descriptor,
							 "Get", &request.base, 60 * USEC_PER_SEC, free_client,
							 &freer, NULL, &err),
					 STATUS_OK);
		leaver_accept(&leaver);
		leaver_leave(&leaver);
	}
	assert_null(leaver.client);
	assert_int_equal(freer.n, n);
	leaver_close(&leaver);
}
