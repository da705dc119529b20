/* SPDX-License-Identifier: Apache-2.0 */
/* The share of one connection in a turn of the event loop: small requests that share a read, slow handlers.
 */
#include "raw.h"
#include "unit_clock.h"

#include "rpc/server_internal.h"

enum { CALLS = 20 };

#define H1_GET                                                                                    \
	"POST /holdfast.v1.Volumes/Get HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" \
	"Content-Length: 12\r\n\r\n{\"id\": \"db\"}"

/* Takes longer than the share of a connection in a turn. */
static enum status be_slow(struct rpc_call *call, const char *service, const struct rpc_method *method,
			   const ProtobufCMessage *request, void *userdata, struct error *err)
{
	unit_clock_advance(2 * USEC_PER_MSEC);
	return STATUS_OK;
}

/* Runs turns until *@count is @n, and fails if one raises it by more than two: the poller serves one
 * connection that is ready and one that was woken, and it may be the same. */
static void check_turns(struct world *world, const size_t *count, size_t n)
{
	while (*count < n) {
		size_t before = *count;

		assert_true(sd_event_run(world->event, WORLD_WAIT_S * USEC_PER_SEC) > 0);
		assert_msg(*count - before <= 2, "one turn has run %zu of %zu", *count - before, n);
	}
}

WORLD_TEST(a_slow_call_leaves_the_others_of_its_connection_to_later_turns)
{
	struct answer answers[CALLS];
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	rpc_server_set_gate(world->server, be_slow);
	for (int i = 0; i < CALLS; i++)
		(void)world_get(world, world->client, "db", WORLD_CALL_US, &answers[i]);
	check_turns(world, &world->n_calls, 1 + CALLS);
	for (int i = 0; i < CALLS; i++) {
		world_run_until(world, &answers[i].done);
		assert_int_equal(answers[i].status, STATUS_OK);
	}
}

WORLD_TEST(a_slow_http1_request_leaves_those_sent_ahead_to_later_turns)
{
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, false);
	rpc_server_set_gate(world->server, be_slow);
	for (int i = 0; i < CALLS; i++)
		assert_int_equal(raw_send(&raw, H1_GET, strlen(H1_GET)), strlen(H1_GET));
	check_turns(world, &world->n_calls, CALLS);
}

static void handle_slowly(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct world *world = userdata;

	unit_clock_advance(2 * USEC_PER_MSEC);
	world->n_messages++;
}

static void open_slow_session(struct world *world, struct session *session)
{
	world->handlers.on_message = handle_slowly;
	session_open(session, world, world->client);
	world_run_until(world, &session->opened);
	for (int i = 0; i < CALLS; i++)
		session_say(session, "b");
}

WORLD_TEST(a_slow_message_leaves_the_others_of_its_stream_to_later_turns)
{
	struct session session;

	open_slow_session(world, &session);
	rpc_stream_half_close(session.stream);
	check_turns(world, &world->n_messages, CALLS);
	world_run_until_count(world, &world->n_half_closed, 1);
	assert_int_equal(world->n_messages, CALLS);
	world_run_until(world, &session.closed);
}

WORLD_TEST(messages_of_a_lost_connection_do_not_prolong_its_last_turn)
{
	struct session session;
	struct session other;

	session_open(&other, world, world->client);
	open_slow_session(world, &session);
	check_turns(world, &world->n_messages, 2);
	rpc_server_free(TAKE_PTR(world->server));
	assert_int_equal(world->n_closed, 2);
	assert_in_range(world->n_messages, 3, 4);
	rpc_stream_cancel(session.stream);
	rpc_stream_cancel(other.stream);
}

RAW_TEST(a_request_whose_client_has_given_it_up_is_not_begun)
{
	static const struct raw_field fields[] = RAW_POST("/holdfast.v1.Nodes/Session", "application/grpc");
	struct raw_answer answers[2];
	uint8_t frame[64];

	raw_start(raw, &(struct raw_request){.fields = fields}, &answers[0]);
	raw_reset(raw, &answers[0]);
	raw_start(raw, &(struct raw_request){.body = frame, .body_len = raw_get_frame(frame, "db")},
		  &answers[1]);
	raw_reset(raw, &answers[1]);
	world_settle(world);
	assert_int_equal(world->n_opened, 0);
	assert_int_equal(world->n_calls, 0);
}

static size_t collected(const struct world *world)
{
	const struct server_conn *conn = LIST_FIRST(&world->server->conns);

	return conn ? conn->refs - 1 : 0;
}

/* Requests that were given up would otherwise fill the memory while others wait. */
RAW_TEST(nothing_more_is_read_while_requests_wait_for_their_turn)
{
	static struct raw_answer answers[3 * CALLS];
	uint8_t message[5 + 1024 + 3] = {0, 0, 0, 4, 3, 0x0a, 0x80, 0x08};

	memset(message + 8, 'i', 1024);
	rpc_server_set_gate(world->server, be_slow);
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		raw_start(raw, &(struct raw_request){.body = message, .body_len = sizeof(message)},
			  &answers[i]);
	while (world->n_calls < ARRAY_SIZE(answers)) {
		assert_true(sd_event_run(world->event, WORLD_WAIT_S * USEC_PER_SEC) > 0);
		assert_in_range(collected(world), 0, 8);
	}
}
