/* SPDX-License-Identifier: Apache-2.0 */
/* What is handed on through two servers, as far as it may grow: a server that follows, one that leads, and
 * who calls, on one event loop. Who leads is said by a model. */

#include "dev.h"
#include "unit_loop.h"

#include "../folder.h"
#include "base/clock.h"
#include "forward/forward.h"
#include "lead/lead.h"
#include "rpc/client.h"
#include "rpc/server.h"

#include <ftw.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <limits.h>

enum {
	PIECE = 64 << 10,
	PIECES = 1024, /* 64 MiB in all */
	HELD_MAX = 6 << 20,
	STREAMS_MAX = FORWARD_CONNS_MAX * FORWARD_STREAMS_MAX,
	PER_CLIENT = 250, /* calls of a connection */
	CLIENTS = STREAMS_MAX / PER_CLIENT + 1,
	CALLS_MAX = 3 * PER_CLIENT,
	PATIENCE_S = 60,
};

struct world {
	char dir[FOLDER_SIZE];
	struct config config;
	sd_event *event;
	struct rpc_tls *server_tls, *client_tls;
	struct rpc_server *leader, *follower;
	struct forward *forward;
	uint16_t port; /* of the one that follows */
	char address[LEAD_ADDRESS_SIZE];
	struct rpc_client *clients[CLIENTS];
	size_t n_open;	    /* streams at the leader */
	size_t n_to_refuse; /* streams */
	struct rpc_call *held[CALLS_MAX];
	size_t n_held; /* calls at the leader */
	size_t n_gone; /* of those, calls whose caller has gone */
	struct rpc_call *flooding;
	size_t n_sent;
	const struct error *end; /* of what floods; NULL: well */
	size_t n_beats;		 /* messages of sessions that others leave room to */
	bool is_waiting;	 /* for its reader */
	bool is_unknown;	 /* who leads */
	bool changes;		 /* each method does */
	bool is_deaf;		 /* the leader takes one message of each stream */
	bool is_own;		 /* the one that follows leads itself */
	bool is_doubted;	 /* etcd does not say it */
	enum trouble_kind trouble;
	int n_forgotten;
	uint64_t skew_us; /* its clock is ahead by that */
	lead_change_fn *changed;
	int64_t renewed_ms; /* the end of the certificate that each answer brings; 0: none */
	int64_t caller_ms;  /* of the caller's, as the leader heard it last */
	char caller_serial[RPC_SERIAL_SIZE];
	char caller_renewed[RPC_SERIAL_SIZE];
};

static struct world *world;

/* --- who leads --- */

WRAPPED(void, lead_view, const struct lead *lead, struct lead_view *ret)
{
	*ret = (struct lead_view){.is_known = !world->is_unknown,
				  .is_own = world->is_own,
				  .is_doubted = world->is_doubted,
				  .name = "s1"};
	memcpy(ret->address, world->address, sizeof(ret->address));
}

WRAPPED(enum trouble_kind, lead_trouble, const struct lead *lead)
{
	return world->trouble;
}

uint64_t __real_clock_monotonic_us(void);

WRAPPED(uint64_t, clock_monotonic_us, void)
{
	return __real_clock_monotonic_us() + (world ? world->skew_us : 0);
}

WRAPPED(void, lead_watch, struct lead *lead, lead_change_fn *changed, void *userdata)
{
	world->changed = changed;
}

/* Something else is so, and told. */
static void tell(void)
{
	struct lead_view view;

	__wrap_lead_view(NULL, &view);
	world->changed(&view, world->forward);
}

WRAPPED(void, lead_forget, struct lead *lead)
{
	world->n_forgotten++;
	world->is_unknown = true;
	world->is_doubted = false;
	tell();
}

/* --- the service --- */

/* As long as it is taken. */
static void flood(struct rpc_call *call)
{
	char *text = malloc(PIECE);
	Holdfast__V1__ForgetAlloc forget = V1(forget_alloc, .alloc_id = text);
	Holdfast__V1__SessionDown down = V1(
		session_down, .message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET, .forget = &forget);

	assert_non_null(text);
	memset(text, 'x', PIECE - 1);
	text[PIECE - 1] = '\0';
	while (world->n_sent < PIECES && !rpc_call_is_full(call)) {
		char number[16];

		(void)str_format(number, sizeof(number), "%08zu", world->n_sent);
		memcpy(text, number, 8);
		assert_int_equal(rpc_call_send(call, &down.base, NULL), STATUS_OK);
		world->n_sent++;
	}
	free(text);
	world->is_waiting = world->n_sent < PIECES;
	if (!world->is_waiting && world->end)
		rpc_call_fail(call, world->end);
	else if (!world->is_waiting)
		rpc_call_finish(call);
}

static void on_open(struct rpc_call *call, void *userdata)
{
	static const struct error refused = {.status = STATUS_PERMISSION_DENIED, .msg = "no right"};

	world->n_open++;
	if (world->n_to_refuse > 0) {
		world->n_to_refuse--;
		rpc_call_fail(call, &refused);
	}
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	world->flooding = call;
	if (world->is_deaf)
		rpc_call_pause(call, true);
	else
		flood(call);
}

static void on_half_close(struct rpc_call *call, void *userdata)
{
}

static void on_beat(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	world->n_beats++;
}

static void on_drained(struct rpc_call *call, void *userdata)
{
	flood(call);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	world->n_open--;
}

static const struct rpc_stream_handlers handlers = {.on_open = on_open,
						    .on_message = on_message,
						    .on_half_close = on_half_close,
						    .on_drained = on_drained,
						    .on_closed = on_closed};

enum { WAIT_LARGE = 7, LARGE = 5 << 20 };

static size_t large_size = LARGE;

static void reply_large(struct rpc_call *call)
{
	Holdfast__V1__Node node = HOLDFAST__V1__NODE__INIT;
	Holdfast__V1__GetNodeResponse response = HOLDFAST__V1__GET_NODE_RESPONSE__INIT;
	char *text = NON_NULL(malloc(large_size));

	memset(text, 'x', large_size - 1);
	text[large_size - 1] = '\0';
	node.id = text;
	response.node = &node;
	rpc_call_reply(call, &response.base);
	free(text);
}

/* Answered at once, or by answer_held(). */
static void on_get(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__V1__GetNodeRequest *get = (const void *)request;
	const Holdfast__V1__GetNodeResponse response = HOLDFAST__V1__GET_NODE_RESPONSE__INIT;

	world->caller_ms = rpc_call_peer(call)->expires_ms;
	memcpy(world->caller_serial, rpc_call_peer(call)->serial, sizeof(world->caller_serial));
	memcpy(world->caller_renewed, rpc_call_peer(call)->renewed_serial, sizeof(world->caller_renewed));
	if (get->wait_ms == WAIT_LARGE)
		reply_large(call);
	else if (get->wait_ms == 0)
		rpc_call_reply(call, &response.base);
	else
		world->held[world->n_held++] = call;
}

static void on_get_gone(struct rpc_call *call, void *userdata)
{
	world->n_gone++;
}

static void answer_held(void)
{
	const Holdfast__V1__GetNodeResponse response = HOLDFAST__V1__GET_NODE_RESPONSE__INIT;

	while (world->n_held > 0)
		rpc_call_reply(world->held[--world->n_held], &response.base);
}

static const struct rpc_stream_handlers prompt_handlers = {.on_open = on_open,
							   .on_message = on_beat,
							   .on_half_close = on_half_close,
							   .on_closed = on_closed,
							   .is_prompt = true};

static const struct rpc_method methods[] = {{.name = "Session", .stream = &handlers, .is_background = true},
					    {.name = "TaskStream", .stream = &prompt_handlers},
					    {.name = "Get", .unary = on_get, .on_gone = on_get_gone}};
static const struct rpc_service services[] = {
	{&holdfast__v1__nodes__descriptor, methods, ARRAY_SIZE(methods)}};

static enum status vouching(const struct rpc_peer *peer, void *userdata, struct error *err)
{
	return STATUS_OK;
}

static enum status gate(struct rpc_call *call, const char *service, const struct rpc_method *method,
			const ProtobufCMessage *request, void *userdata, struct error *err)
{
	return world->is_unknown ? error_set(err, STATUS_UNAVAILABLE, 0, "no server leads") : STATUS_OK;
}

static bool changes(const struct rpc_method *method)
{
	return world->changes;
}

static void renewed(struct rpc_call *call, const ProtobufCMessage *response)
{
	rpc_call_renew_peer(call, world->renewed_ms, "B2");
}

/* --- the world --- */

/* At @ret_port; 0: any. */
static struct rpc_server *listen_here(uint16_t *ret_port)
{
	struct rpc_server *server = NULL;

	assert_ok(rpc_server_new(world->event, services, ARRAY_SIZE(services), NULL, NULL, &server, NULL));
	rpc_server_set_vouching(server, vouching);
	rpc_server_set_gate(server, gate);
	assert_ok(rpc_server_listen_tls(server, "127.0.0.1", *ret_port, world->server_tls, ret_port, NULL));
	return server;
}

static struct rpc_tls *load(const char *name)
{
	char cert[PATH_MAX], key[PATH_MAX];
	const struct rpc_tls_files files = {.ca = world->config.ca, .cert = cert, .key = key};
	struct rpc_tls *tls = NULL;

	(void)str_format(cert, sizeof(cert), "%s/tls/%s.pem", world->dir, name);
	(void)str_format(key, sizeof(key), "%s/tls/%s.key", world->dir, name);
	assert_int_equal(rpc_tls_new(&files, &tls, NULL), STATUS_OK);
	return tls;
}

static int setup(void **state)
{
	struct dev_options options = {.cluster = "c1"};
	uint16_t port = 0;

	world = NON_NULL(calloc(1, sizeof(*world)));
	folder_make(world->dir);
	options.dir = world->dir;
	assert_int_equal(sd_event_new(&world->event), 0);
	assert_int_equal(dev_prepare(&options, &world->config, NULL), STATUS_OK);
	world->server_tls = load("server");
	world->client_tls = load("operator");
	world->leader = listen_here(&port);
	(void)str_format(world->address, sizeof(world->address), "127.0.0.1:%u", (unsigned int)port);
	world->follower = listen_here(&world->port);
	assert_ok(forward_new(world->event, world->follower, world->server_tls, "c1", changes, renewed,
			      &world->forward, NULL));
	rpc_server_set_relay(world->follower, forward_relay, world->forward);
	forward_follow(world->forward, (struct lead *)world); /* not looked into */
	tell();
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int teardown(void **state)
{
	for (size_t i = 0; i < CLIENTS; i++)
		rpc_client_free(world->clients[i]);
	rpc_server_free(world->follower);
	forward_free(world->forward);
	rpc_server_free(world->leader);
	rpc_tls_free(world->client_tls);
	rpc_tls_free(world->server_tls);
	sd_event_unref(world->event);
	assert_int_equal(nftw(world->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	free(world);
	return 0;
}

#define WAIT_FOR(condition) RUN_UNTIL(world->event, condition)

static struct rpc_client *client_as(size_t i, const char *token)
{
	const struct rpc_endpoint endpoint = {
		.host = "127.0.0.1", .port = world->port, .tls = world->client_tls, .token = token};

	if (!world->clients[i])
		assert_ok(rpc_client_new(world->event, &endpoint, &world->clients[i], NULL));
	return world->clients[i];
}

/* Each is a caller of its own. */
static struct rpc_client *client_at(size_t i)
{
	char token[32];

	(void)str_format(token, sizeof(token), "hf_%zu", i);
	return client_as(i, token);
}

/* --- who calls --- */

struct reader {
	struct rpc_stream *stream; /* NULL: it has ended */
	bool is_open;
	size_t n;
	enum status status;
	char message[ERROR_MSG_MAX];
};

static void reader_on_open(struct rpc_stream *stream, void *userdata)
{
	struct reader *reader = userdata;

	reader->is_open = true;
}

static void reader_on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct reader *reader = userdata;
	char number[16];

	(void)str_format(number, sizeof(number), "%08zu", reader->n);
	assert_memory_equal(down->forget->alloc_id, number, 8);
	reader->n++;
}

static void reader_on_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			     void *userdata)
{
	struct reader *reader = userdata;

	reader->stream = NULL;
	reader->status = status;
	if (err)
		(void)str_copy(reader->message, sizeof(reader->message), err->msg);
}

static void open_stream(struct reader *reader, struct rpc_client *client, const char *method)
{
	static const struct rpc_stream_events events = {
		.on_open = reader_on_open, .on_message = reader_on_message, .on_closed = reader_on_closed};

	assert_ok(rpc_stream_open(client, &holdfast__v1__nodes__descriptor, method, PATIENCE_S * USEC_PER_SEC,
				  &events, reader, &reader->stream, NULL));
}

static void open_reader(struct reader *reader, struct rpc_client *client)
{
	open_stream(reader, client, "Session");
}

/* What it does not take stays with who sends: at the one that follows there is a window and a little. */
TEST_FIXTURE(a_slow_reader_holds_its_stream_back_through_two_servers, setup, teardown)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	struct reader slow = {.n = 0};
	struct reader other = {.n = 0};

	open_reader(&slow, client_at(0));
	WAIT_FOR(slow.is_open && world->n_open == 1);
	rpc_stream_pause(slow.stream, true);
	assert_int_equal(rpc_stream_send(slow.stream, &up.base, NULL), STATUS_OK);
	WAIT_FOR(world->is_waiting);
	run_idle(world->event);
	assert_int_equal(slow.n, 0);
	assert_true(world->is_waiting);
	assert_in_range(world->n_sent * PIECE, 1, HELD_MAX);
	open_reader(&other, client_at(0)); /* by the same connections */
	WAIT_FOR(other.is_open && world->n_open == 2);
	rpc_stream_pause(slow.stream, false);
	WAIT_FOR(!slow.stream);
	assert_int_equal(slow.status, STATUS_OK);
	assert_int_equal(slow.n, PIECES); /* all, in order, and then the end */
	rpc_stream_cancel(other.stream);
	WAIT_FOR(world->n_open == 0);
}

/* More than the follower holds for the leader. */
/* As the node's side of a command does that reads no input, when the command's caller goes. */
TEST_FIXTURE(a_stream_that_the_leader_aborts_ends_though_its_reader_takes_nothing, setup, teardown)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	struct reader slow = {.n = 0};

	open_reader(&slow, client_at(0));
	WAIT_FOR(slow.is_open && world->n_open == 1);
	rpc_stream_pause(slow.stream, true);
	assert_int_equal(rpc_stream_send(slow.stream, &up.base, NULL), STATUS_OK);
	WAIT_FOR(world->is_waiting);
	run_idle(world->event);
	assert_true(rpc_call_abort(world->flooding));
	WAIT_FOR(!slow.stream && world->n_open == 0);
	assert_int_equal(slow.status, STATUS_CANCELLED);
	assert_int_equal(slow.n, 0);
}

/* Its last output and the cause come first, whatever part of it waits at the follower. */
TEST_FIXTURE(a_stream_that_the_leader_ends_as_cancelled_loses_nothing, setup, teardown)
{
	static const struct error cancelled = {.status = STATUS_CANCELLED, .msg = "the task was stopped"};
	const Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;

	world->end = &cancelled;
	for (size_t n = 1; n < HELD_MAX / PIECE / 2; n++) {
		struct reader slow = {.n = PIECES - n};

		world->n_sent = PIECES - n;
		open_reader(&slow, client_at(0));
		WAIT_FOR(slow.is_open && world->n_open == 1);
		rpc_stream_pause(slow.stream, true);
		assert_int_equal(rpc_stream_send(slow.stream, &up.base, NULL), STATUS_OK);
		WAIT_FOR(world->n_sent > PIECES - n);
		run_idle(world->event);
		rpc_stream_pause(slow.stream, false);
		WAIT_FOR(!slow.stream && world->n_open == 0);
		assert_int_equal(slow.n, PIECES);
		assert_non_null(strstr(slow.message, "the task was stopped"));
	}
}

TEST_FIXTURE(sessions_have_room_beside_streams_that_the_leader_does_not_read, setup, teardown)
{
	enum { SLOW = 36, SIZE = 1000 * 1000 };
	static struct reader slow[SLOW];
	static char text[SIZE];
	Holdfast__V1__Heartbeat heartbeat = V1(heartbeat, .boot_id = text);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT,
		   .heartbeat = &heartbeat);
	Holdfast__V1__TaskStreamEnd end = V1(task_stream_end, .message = text);
	Holdfast__V1__TaskStreamUp beat =
		V1(task_stream_up, .message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_END, .end = &end);
	struct reader session = {.n = 0};
	size_t n_refused = 0;

	memset(text, 'x', sizeof(text) - 1);
	world->is_deaf = true;
	open_stream(&session, client_at(1), "TaskStream");
	WAIT_FOR(session.is_open);
	for (size_t i = 0; i < SLOW; i++) {
		slow[i] = (struct reader){.n = 0};
		open_reader(&slow[i], client_at(0));
		WAIT_FOR(slow[i].is_open);
		for (int k = 0; k < 2 && slow[i].stream; k++) {
			(void)rpc_stream_send(slow[i].stream, &up.base, NULL);
			run_idle(world->event);
		}
		n_refused += !slow[i].stream;
	}
	assert_in_range(n_refused, 1, SLOW - 20);
	assert_int_equal(rpc_stream_send(session.stream, &beat.base, NULL), STATUS_OK);
	WAIT_FOR(world->n_beats == 1 || !session.stream);
	assert_msg(session.stream, "%s", session.message);
	rpc_stream_cancel(session.stream);
	for (size_t i = 0; i < SLOW; i++)
		if (slow[i].stream)
			rpc_stream_cancel(slow[i].stream);
	WAIT_FOR(world->n_open == 0);
}

/* Opens a stream of a method that @changes something, sends @n_messages, and loses the leader. */
static bool lose_leader(struct reader *ret, bool changes_something, size_t n_messages)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	uint16_t port = 0;

	world->changes = changes_something;
	world->n_sent = 0;
	*ret = (struct reader){.n = 0};
	open_reader(ret, client_at(0));
	WAIT_FOR(ret->is_open);
	for (size_t i = 0; i < n_messages; i++)
		assert_int_equal(rpc_stream_send(ret->stream, &up.base, NULL), STATUS_OK);
	WAIT_FOR(n_messages == 0 || world->n_sent > 0);
	rpc_server_free(world->leader);
	WAIT_FOR(!ret->stream);
	world->leader = listen_here(&port);
	(void)str_format(world->address, sizeof(world->address), "127.0.0.1:%u", (unsigned int)port);
	tell();
	return rpc_client_may_have_begun(world->clients[0]);
}

/* Who obeys "ask again" runs a command twice. */
TEST_FIXTURE(a_command_that_was_given_may_have_run_when_the_leader_is_lost, setup, teardown)
{
	struct reader reader;

	assert_true(lose_leader(&reader, true, 1));
	assert_int_equal(reader.status, STATUS_UNKNOWN);
	assert_false(lose_leader(&reader, true, 0)); /* the stream alone was opened */
	assert_int_equal(reader.status, STATUS_UNAVAILABLE);
	assert_false(lose_leader(&reader, false, 1)); /* it reads */
	assert_int_equal(reader.status, STATUS_UNAVAILABLE);
}

/* Nodes have their sessions as soon as somebody leads, without coming back for them. */
TEST_FIXTURE(streams_wait_while_no_server_leads, setup, teardown)
{
	struct reader readers[3] = {{.n = 0}, {.n = 0}, {.n = 0}};

	world->is_unknown = true;
	tell();
	for (size_t i = 0; i < 3; i++)
		open_reader(&readers[i], client_at(i));
	run_idle(world->event);
	assert_int_equal(world->n_open, 0);
	rpc_stream_cancel(readers[1].stream); /* it is not waited for */
	run_idle(world->event);
	world->is_unknown = false;
	tell();
	WAIT_FOR(readers[0].is_open && readers[2].is_open && world->n_open == 2);
	assert_false(readers[1].is_open);
	rpc_stream_cancel(readers[0].stream);
	rpc_stream_cancel(readers[2].stream);
	WAIT_FOR(world->n_open == 0);
}

TEST_FIXTURE(a_new_leader_takes_the_waiting_streams, setup, teardown)
{
	struct reader reader = {.n = 0};

	world->is_unknown = true;
	tell();
	open_reader(&reader, client_at(0));
	run_idle(world->event);
	assert_false(reader.is_open);
	world->is_unknown = false;
	world->is_own = true;
	rpc_server_free(TAKE_PTR(world->leader)); /* nothing is handed on */
	tell();
	WAIT_FOR(reader.is_open && world->n_open == 1);
	rpc_stream_cancel(reader.stream);
	WAIT_FOR(world->n_open == 0);
}

/* A leader is asked as often as it is doubted, and kept while it answers, with all its streams. */
TEST_FIXTURE(a_leader_that_answers_is_kept_while_etcd_says_nothing, setup, teardown)
{
	enum { PROBES_MS = 3000 }; /* a doubted leader is asked once a second */
	struct reader reader = {.n = 0};

	open_reader(&reader, client_at(0));
	WAIT_FOR(reader.is_open && world->n_open == 1);
	for (int i = 0; i < 2; i++) {
		world->is_doubted = true;
		tell();
		run_for(world->event, PROBES_MS);
		assert_int_equal(world->n_forgotten, 0);
		assert_non_null(reader.stream);
		world->is_doubted = false;
		tell();
		run_idle(world->event);
	}
	world->is_doubted = true;
	tell();
	run_idle(world->event);
	rpc_server_free(TAKE_PTR(world->leader));
	WAIT_FOR(world->n_forgotten == 1 && !reader.stream);
	assert_int_equal(reader.status, STATUS_UNAVAILABLE);
	run_for(world->event, PROBES_MS);
	assert_int_equal(world->n_forgotten, 1);
}

/* Its key outlives it: until another one leads it is tried now and then. */
TEST_FIXTURE(streams_wait_while_the_one_that_leads_cannot_be_reached, setup, teardown)
{
	struct reader first = {.n = 0}, second = {.n = 0}, third = {.n = 0};
	uint16_t port = 0;

	open_reader(&first, client_at(0));
	WAIT_FOR(first.is_open && world->n_open == 1);
	rpc_server_free(TAKE_PTR(world->leader));
	WAIT_FOR(!first.stream);
	assert_int_equal(first.status, STATUS_UNAVAILABLE);
	open_reader(&second, client_at(0));
	open_reader(&third, client_at(1));
	run_idle(world->event);
	assert_true(second.stream && third.stream && !second.is_open && !third.is_open);
	WAIT_FOR(!second.stream); /* it was the one that tried */
	assert_int_equal(second.status, STATUS_UNAVAILABLE);
	assert_true(third.stream && !third.is_open);
	world->leader = listen_here(&port);
	(void)str_format(world->address, sizeof(world->address), "127.0.0.1:%u", (unsigned int)port);
	tell();
	WAIT_FOR(third.is_open && world->n_open == 1);
	rpc_stream_cancel(third.stream);
	WAIT_FOR(world->n_open == 0);
}

TEST_FIXTURE(a_leader_that_is_there_again_is_found_by_the_one_that_tries, setup, teardown)
{
	struct reader first = {.n = 0}, second = {.n = 0}, third = {.n = 0};
	struct rpc_address address;

	assert_int_equal(rpc_address_parse(world->address, &address), 0);
	open_reader(&first, client_at(0));
	WAIT_FOR(first.is_open && world->n_open == 1);
	rpc_server_free(TAKE_PTR(world->leader));
	WAIT_FOR(!first.stream);
	open_reader(&second, client_at(0));
	open_reader(&third, client_at(1));
	run_idle(world->event);
	world->leader = listen_here(&address.port); /* where it was, and nobody tells */
	WAIT_FOR(second.is_open && third.is_open && world->n_open == 2);
	rpc_stream_cancel(second.stream);
	rpc_stream_cancel(third.stream);
	WAIT_FOR(world->n_open == 0);
}

/* Callers without a right wait before a node. */
TEST_FIXTURE(a_leader_that_refuses_a_stream_is_found, setup, teardown)
{
	struct reader first = {.n = 0}, refused[20], node = {.n = 0};
	struct rpc_address address;

	memset(refused, 0, sizeof(refused));
	assert_int_equal(rpc_address_parse(world->address, &address), 0);
	open_reader(&first, client_at(0));
	WAIT_FOR(first.is_open && world->n_open == 1);
	rpc_server_free(TAKE_PTR(world->leader));
	WAIT_FOR(!first.stream);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		open_reader(&refused[i], client_at(0));
	run_idle(world->event);
	open_reader(&node, client_at(1));
	run_idle(world->event);
	world->leader = listen_here(&address.port);
	world->n_to_refuse = ARRAY_SIZE(refused);
	WAIT_FOR(!refused[0].stream);
	run_idle(world->event); /* no time passes */
	assert_true(node.is_open);
	rpc_stream_cancel(node.stream);
	WAIT_FOR(world->n_open == 0);
}

TEST_FIXTURE(streams_wait_no_longer_than_they_may, setup, teardown)
{
	struct reader waited = {.n = 0}, late = {.n = 0};

	world->is_unknown = true;
	tell();
	open_reader(&waited, client_at(0));
	run_idle(world->event);
	assert_true(waited.stream && !waited.is_open);
	world->skew_us = FORWARD_HOLD_S * USEC_PER_SEC; /* and so little of the test's time */
	WAIT_FOR(!waited.stream);
	open_reader(&late, client_at(1));
	WAIT_FOR(!late.stream);
	assert_int_equal(waited.status, STATUS_UNAVAILABLE);
	assert_int_equal(late.status, STATUS_UNAVAILABLE);
	assert_int_equal(world->n_open, 0);
}

/* Another server may serve those that this one makes wait. */
TEST_FIXTURE(streams_do_not_wait_at_a_server_that_is_to_be_mended, setup, teardown)
{
	struct reader reader = {.n = 0};

	world->is_unknown = true;
	world->trouble = TROUBLE_SAME_NAME;
	tell();
	open_reader(&reader, client_at(0));
	run_idle(world->event);
	assert_null(reader.stream);
	assert_int_equal(reader.status, STATUS_UNAVAILABLE);
	assert_int_equal(world->n_open, 0);
}

/* A node that is turned away goes to another server. */
TEST_FIXTURE(a_server_at_its_forwarding_limit_names_another_server, setup, teardown)
{
	struct reader *readers = NON_NULL(calloc(STREAMS_MAX, sizeof(*readers)));
	struct reader refused = {.n = 0};
	struct reader next = {.n = 0};

	for (size_t i = 0; i < STREAMS_MAX; i++)
		open_reader(&readers[i], client_at(i / PER_CLIENT));
	WAIT_FOR(world->n_open == STREAMS_MAX);
	open_reader(&refused, client_at(CLIENTS - 1));
	WAIT_FOR(!refused.stream);
	assert_int_equal(refused.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(refused.message, "ask another one"));
	assert_int_equal(world->n_open, STREAMS_MAX); /* nobody lost its own for that */
	rpc_stream_cancel(readers[7].stream);
	WAIT_FOR(world->n_open == STREAMS_MAX - 1);
	open_reader(&next, client_at(CLIENTS - 1)); /* there is room again */
	WAIT_FOR(next.is_open && world->n_open == STREAMS_MAX);
	for (size_t i = 0; i < STREAMS_MAX; i++)
		if (i != 7)
			rpc_stream_cancel(readers[i].stream);
	rpc_stream_cancel(next.stream);
	WAIT_FOR(world->n_open == 0);
	free(readers);
}

TEST_FIXTURE(one_caller_does_not_take_all_streams_of_a_follower, setup, teardown)
{
	enum { N = FORWARD_PER_CALLER_MAX };
	struct reader *readers = calloc(N, sizeof(*readers));
	struct reader refused = {.n = 0}, other = {.n = 0};

	assert_non_null(readers);
	for (size_t i = 0; i < N; i++)
		open_reader(&readers[i], client_as(i / (N / 2), "hf_a"));
	WAIT_FOR(world->n_open == N);
	open_reader(&refused, client_as(2, "hf_a"));
	WAIT_FOR(!refused.stream);
	assert_int_equal(refused.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(refused.message, "this caller has 400 forwarded calls and streams already"));
	open_reader(&other, client_as(3, "hf_b"));
	WAIT_FOR(other.is_open && world->n_open == N + 1);
	rpc_stream_cancel(readers[0].stream);
	WAIT_FOR(world->n_open == N);
	open_reader(&refused, client_as(2, "hf_a")); /* there is room again */
	WAIT_FOR(world->n_open == N + 1);
	for (size_t i = 1; i < N; i++)
		rpc_stream_cancel(readers[i].stream);
	rpc_stream_cancel(other.stream);
	rpc_stream_cancel(refused.stream);
	WAIT_FOR(world->n_open == 0);
	free(readers);
}

static void on_got(enum status status, const ProtobufCMessage *response, const struct error *err,
		   void *userdata)
{
	size_t *n = userdata;

	*n += status == STATUS_OK;
}

static void get(struct rpc_client *client, uint32_t wait_ms, size_t *n_answers)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;

	request.wait_ms = wait_ms;
	assert_int_equal(rpc_client_call(client, &holdfast__v1__nodes__descriptor, "Get", &request.base,
					 PATIENCE_S * USEC_PER_SEC, on_got, n_answers, NULL, NULL),
			 STATUS_OK);
}

/* More than one connection to the leader takes. */
TEST_FIXTURE(calls_that_wait_keep_no_call_of_others_waiting, setup, teardown)
{
	size_t n_waiting = 0, n_others = 0;

	for (size_t i = 0; i < CALLS_MAX; i++)
		get(client_at(i / PER_CLIENT), 1000, &n_waiting);
	WAIT_FOR(world->n_held == CALLS_MAX);
	get(client_at(CALLS_MAX / PER_CLIENT), 0, &n_others);
	WAIT_FOR(n_others == 1);
	assert_int_equal(n_waiting, 0);
	answer_held();
	WAIT_FOR(n_waiting == CALLS_MAX);
	get(client_at(0), 0, &n_others); /* what was answered does not count */
	WAIT_FOR(n_others == 2);
}

/* For many resets of one caller nghttp2 would end the connection that others use, too. */
TEST_FIXTURE(streams_that_are_cancelled_keep_no_stream_of_others_waiting, setup, teardown)
{
	enum { N = FORWARD_STREAMS_MAX - 1 }; /* on one connection to the leader */
	struct reader readers[N];
	size_t n_refused = 0;

	for (size_t i = 0; i < CLIENTS - 1 && n_refused == 0; i++) {
		struct reader other = {.n = 0}, next = {.n = 0};

		memset(readers, 0, sizeof(readers));
		for (size_t k = 0; k < N; k++)
			open_reader(&readers[k], client_at(i));
		WAIT_FOR(world->n_open == N);
		for (size_t k = 0; k < N; k++)
			rpc_stream_cancel(readers[k].stream);
		open_reader(&other, client_at(i)); /* behind the resets */
		WAIT_FOR(other.is_open || !other.stream);
		open_reader(&next, client_at(CLIENTS - 1));
		run_idle(world->event); /* no time passes */
		assert_true(next.is_open);
		n_refused += !other.stream;
		rpc_stream_cancel(next.stream);
		if (other.stream)
			rpc_stream_cancel(other.stream);
		WAIT_FOR(world->n_open == 0);
	}
	assert_int_equal(n_refused, 0);
}

/* @rounds times a stream stays, and as many are cancelled as nghttp2 takes on one connection. */
static void wear_out(size_t rounds, struct reader *kept)
{
	enum { N = 150, CANCELLED = 1100 };
	struct reader readers[N];

	for (size_t i = 0; i < rounds; i++) {
		open_reader(&kept[i], client_at(0));
		WAIT_FOR(kept[i].is_open || !kept[i].stream);
		for (size_t n = 0; n < CANCELLED; n += N) {
			memset(readers, 0, sizeof(readers));
			for (size_t k = 0; k < N; k++)
				open_reader(&readers[k], client_at(1));
			WAIT_FOR(readers[N - 1].is_open || !readers[N - 1].stream);
			for (size_t k = 0; k < N; k++)
				if (readers[k].stream)
					rpc_stream_cancel(readers[k].stream);
			run_idle(world->event);
		}
	}
}

struct ended {
	bool is_done;
	enum status status;
	char message[ERROR_MSG_MAX];
};

static void on_ended(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	struct ended *ended = userdata;

	ended->is_done = true;
	ended->status = status;
	if (err)
		(void)str_copy(ended->message, sizeof(ended->message), err->msg);
}

static void ask(struct rpc_client *client, struct ended *ended)
{
	const Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;

	assert_ok(rpc_client_call(client, &holdfast__v1__nodes__descriptor, "Get", &request.base,
				  PATIENCE_S * USEC_PER_SEC, on_ended, ended, NULL, NULL));
}

/* Each connection to the leader that is worn out stays as long as one stream of it does. */
TEST_FIXTURE(streams_that_are_cancelled_and_kept_take_no_connection_from_others, setup, teardown)
{
	enum { ROUNDS = 140 };
	struct reader *kept = NON_NULL(calloc(ROUNDS, sizeof(*kept)));
	struct reader other = {.n = 0}, session = {.n = 0};
	struct ended ended = {.is_done = false};
	size_t n_kept;

	wear_out(ROUNDS, kept);
	n_kept = world->n_open;
	open_stream(&session, client_at(3),
		    "TaskStream"); /* here as a node's session: of a pool of its own */
	WAIT_FOR(world->n_open > n_kept || !session.stream);
	open_reader(&other, client_at(4));
	WAIT_FOR(world->n_open > n_kept + 1 || !other.stream);
	ask(client_at(5), &ended);
	WAIT_FOR(ended.is_done);
	print_message("at the leader: %zu connections, %zu streams\nsession: %s\nstream: %s\ncall: %d %s\n",
		      rpc_server_stats(world->leader).connections, n_kept,
		      session.stream ? "" : session.message, other.stream ? "" : other.message, ended.status,
		      ended.message);
	assert_non_null(session.stream);
	assert_non_null(other.stream);
	assert_int_equal(ended.status, STATUS_OK);
	for (size_t i = 0; i < ROUNDS; i++)
		if (kept[i].stream)
			rpc_stream_cancel(kept[i].stream);
	rpc_stream_cancel(session.stream);
	rpc_stream_cancel(other.stream);
	WAIT_FOR(world->n_open == 0);
	free(kept);
}

/* With the certificate of the one that follows. */
TEST_FIXTURE(a_leader_that_takes_no_more_connections_is_not_lost, setup, teardown)
{
	enum { N = 129 }; /* one more than it takes */
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct ended *others = NON_NULL(calloc(N, sizeof(*others)));
	struct reader first = {.n = 0}, second = {.n = 0}, third = {.n = 0};
	struct rpc_client *clients[N] = {NULL};
	struct rpc_address address;
	const struct rpc_endpoint endpoint = {.servers = &address, .n_servers = 1, .tls = world->server_tls};

	request.wait_ms = 60000;
	assert_int_equal(rpc_address_parse(world->address, &address), 0);
	for (size_t i = 0; i < N && world->n_held == i; i++) {
		assert_ok(rpc_client_new(world->event, &endpoint, &clients[i], NULL));
		assert_ok(rpc_client_call(clients[i], &holdfast__v1__nodes__descriptor, "Get", &request.base,
					  PATIENCE_S * USEC_PER_SEC, on_ended, &others[i], NULL, NULL));
		WAIT_FOR(world->n_held == i + 1 || others[i].is_done);
	}
	open_reader(&first, client_at(0));
	WAIT_FOR(!first.stream);
	assert_contains(first.message, "takes no further calls on this connection");
	open_reader(&second, client_at(0));
	open_reader(&third, client_at(0));
	WAIT_FOR(!second.stream);
	run_idle(world->event); /* no time passes */
	assert_null(third.stream);
	answer_held();
	for (size_t i = 0; i < N; i++)
		rpc_client_free(clients[i]);
	free(others);
}

/* At the leader a gRPC caller has RESOURCE_EXHAUSTED, and one with JSON the answer. */
TEST_FIXTURE(an_answer_that_is_too_large_has_the_code_that_it_has_at_the_leader, setup, teardown)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct ended ended = {.is_done = false};

	request.wait_ms = WAIT_LARGE;
	assert_ok(rpc_client_call(client_at(0), &holdfast__v1__nodes__descriptor, "Get", &request.base,
				  PATIENCE_S * USEC_PER_SEC, on_ended, &ended, NULL, NULL));
	WAIT_FOR(ended.is_done);
	if (ended.status != STATUS_RESOURCE_EXHAUSTED)
		fail_msg("%d: %s", ended.status, ended.message);
}

/* Each answer is below what one message may have; together they are above what a connection holds. */
TEST_FIXTURE(answers_to_others_on_the_way_fail_no_call, setup, teardown)
{
	enum { N = 5 };
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct ended *ended = NON_NULL(calloc(N, sizeof(*ended)));
	size_t n[STATUS_N] = {0};

	large_size = (2 << 20) + 4096; /* a full page */
	request.wait_ms = WAIT_LARGE;
	for (size_t i = 0; i < N; i++)
		assert_ok(rpc_client_call(client_at(i % 5), &holdfast__v1__nodes__descriptor, "Get",
					  &request.base, PATIENCE_S * USEC_PER_SEC, on_ended, &ended[i], NULL,
					  NULL));
	for (size_t i = 0; i < N; i++) {
		WAIT_FOR(ended[i].is_done);
		n[ended[i].status]++;
	}
	large_size = LARGE;
	assert_int_equal(n[STATUS_RESOURCE_EXHAUSTED], 0);
	free(ended);
}

/* The leader may hold a call, such as a claim, until it is answered; the one that follows forgets it at the
 * end of its deadline. As many as one caller may have waiting at the leader (WATCHES_PER_CALLER_MAX). */
TEST_FIXTURE(calls_whose_deadline_has_passed_keep_no_call_of_others_out, setup, teardown)
{
	enum { ROUNDS = 2, N = 128 };
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct ended *given_up = NON_NULL(calloc(ROUNDS * N, sizeof(*given_up)));
	struct ended other = {.is_done = false};

	request.wait_ms = 60000;
	for (size_t i = 0; i < ROUNDS * N; i++) {
		assert_ok(rpc_client_call(client_at(0), &holdfast__v1__nodes__descriptor, "Get",
					  &request.base, 2 * USEC_PER_SEC, on_ended, &given_up[i], NULL,
					  NULL));
		for (size_t k = 0; (i + 1) % N == 0 && k <= i; k++)
			WAIT_FOR(given_up[k].is_done);
	}
	assert_int_equal(world->n_held, ROUNDS * N);
	ask(client_at(5), &other);
	WAIT_FOR(other.is_done);
	answer_held();
	free(given_up);
	if (other.status != STATUS_OK)
		fail_msg("%d: %s", other.status, other.message);
}

/* A write counts for its caller until the leader has carried it out. */
TEST_FIXTURE(a_read_that_waits_at_the_leader_ends_with_its_caller, setup, teardown)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct ended ended[2] = {{.is_done = false}};
	struct rpc_pending *pending[2];

	request.wait_ms = 60000;
	for (size_t i = 0; i < 2; i++) {
		world->changes = i == 0;
		assert_ok(rpc_client_call(client_at(0), &holdfast__v1__nodes__descriptor, "Get",
					  &request.base, PATIENCE_S * USEC_PER_SEC, on_ended, &ended[i],
					  &pending[i], NULL));
		WAIT_FOR(world->n_held == i + 1);
	}
	for (size_t i = 0; i < 2; i++)
		rpc_pending_cancel(pending[i]);
	WAIT_FOR(world->n_gone > 0);
	run_idle(world->event);
	assert_int_equal(world->n_gone, 1);
	answer_held();
}

TEST_FIXTURE(reads_whose_callers_have_gone_leave_their_places_at_the_leader, setup, teardown)
{
	enum { N = 50, ROUNDS = FORWARD_STREAMS_MAX / N + 1 };
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct ended ended[N];
	struct rpc_pending *pending[N];
	size_t n_connections = 0;

	request.wait_ms = 60000;
	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < N; i++)
			assert_ok(rpc_client_call(client_at(0), &holdfast__v1__nodes__descriptor, "Get",
						  &request.base, PATIENCE_S * USEC_PER_SEC, on_ended,
						  &ended[i], &pending[i], NULL));
		WAIT_FOR(world->n_held == N);
		if (round == 0)
			n_connections = rpc_server_stats(world->leader).connections;
		for (size_t i = 0; i < N; i++)
			rpc_pending_cancel(pending[i]);
		WAIT_FOR(world->n_gone == (round + 1) * N);
		answer_held();
	}
	assert_int_equal(rpc_server_stats(world->leader).connections, n_connections);
}

TEST_FIXTURE(a_caller_without_an_identity_opens_no_stream_at_a_follower, setup, teardown)
{
	const struct rpc_tls_files files = {.ca = world->config.ca};
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = world->port};
	struct reader reader = {.n = 0};
	struct rpc_client *client = NULL;

	assert_int_equal(rpc_tls_new(&files, &endpoint.tls, NULL), STATUS_OK);
	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, NULL), STATUS_OK);
	open_reader(&reader, client);
	WAIT_FOR(!reader.stream);
	assert_int_equal(reader.status, STATUS_UNAUTHENTICATED);
	assert_int_equal(world->n_open, 0);
	world->is_unknown = true;
	tell();
	open_reader(&reader, client);
	run_idle(world->event); /* no time passes: nor does it wait for a leader */
	assert_null(reader.stream);
	rpc_client_free(client);
	rpc_tls_free(endpoint.tls);
}

static void on_answered(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	assert_int_equal(status, STATUS_OK);
	*(bool *)userdata = true;
}

/* A call of a client that shows a certificate, without a token. */
static void ask_as_node(void)
{
	const Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	bool is_done = false;

	assert_ok(rpc_client_call(client_as(0, NULL), &holdfast__v1__nodes__descriptor, "Get", &request.base,
				  PATIENCE_S * USEC_PER_SEC, on_answered, &is_done, NULL, NULL));
	WAIT_FOR(is_done);
}

/* Later calls and streams of that connection are made for a caller with the new certificate. The leader sees
 * the first one as well: each may be revoked. */
TEST_FIXTURE(a_renewal_by_a_follower_counts_for_the_connection_that_it_came_from, setup, teardown)
{
	char first[RPC_SERIAL_SIZE];
	int64_t first_ms;

	ask_as_node();
	first_ms = world->caller_ms;
	memcpy(first, world->caller_serial, sizeof(first));
	assert_true(first_ms > 0);
	world->renewed_ms = first_ms + 1000;
	ask_as_node();
	assert_true(world->caller_ms == first_ms);
	assert_string_equal(world->caller_renewed, "");
	ask_as_node();
	assert_true(world->caller_ms == first_ms + 1000);
	assert_string_equal(world->caller_serial, first);
	assert_string_equal(world->caller_renewed, "B2");
	world->renewed_ms = first_ms; /* an end that is earlier changes nothing */
	ask_as_node();
	ask_as_node();
	assert_true(world->caller_ms == first_ms + 1000);
}

/* A stream stays on the connection that it has, and a new call shows the new certificate. */
TEST_FIXTURE(a_follower_with_another_certificate_calls_over_new_connections, setup, teardown)
{
	struct reader reader = {.n = 0};
	uint64_t before;

	open_reader(&reader, client_as(0, NULL));
	WAIT_FOR(reader.is_open && world->n_open == 1);
	ask_as_node();
	before = rpc_server_stats(world->leader).accepted;
	ask_as_node();
	assert_int_equal(rpc_server_stats(world->leader).accepted, before);
	forward_reconnect(world->forward);
	WAIT_FOR(rpc_server_stats(world->leader).accepted == before + 1); /* which the leader sees at once */
	ask_as_node();
	assert_int_equal(rpc_server_stats(world->leader).accepted, before + 2);
	assert_int_equal(world->n_open, 1);
	rpc_stream_cancel(reader.stream);
	WAIT_FOR(world->n_open == 0);
}
