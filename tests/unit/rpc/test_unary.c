/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"
#include "raw.h"

#include "base/clock.h"
#include "rpc/client_internal.h"

WORLD_TEST(a_call_is_answered_over_a_unix_socket)
{
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	assert_string_equal(answer.id, "db");
	assert_int_equal(world->n_calls, 1);
}

WORLD_TEST(the_server_knows_its_caller)
{
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	assert_int_equal(world->peer.kind, RPC_PEER_UNIX);
	assert_int_equal(world->peer.uid, getuid());
	assert_int_equal(world->peer.gid, getgid());
	assert_int_equal(world->peer.pid, getpid());
	assert_string_equal(world->peer.uri, "");
	assert_string_equal(world->peer.address, world->socket);
}

static enum status name_peer(struct rpc_peer *peer, void *userdata, struct error *err)
{
	(void)str_format(peer->uri, sizeof(peer->uri), "holdfast://lab/operator/uid%u",
			 (unsigned int)peer->uid);
	return STATUS_OK;
}

static enum status refuse_peer(struct rpc_peer *peer, void *userdata, struct error *err)
{
	return error_set(err, STATUS_PERMISSION_DENIED, 0, "uid %u", (unsigned int)peer->uid);
}

WORLD_TEST(a_connection_to_a_socket_has_the_name_that_the_server_gives_it)
{
	struct answer answer;
	char wanted[RPC_URI_SIZE];

	rpc_server_set_name(world->server, name_peer);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	(void)str_format(wanted, sizeof(wanted), "holdfast://lab/operator/uid%u", (unsigned int)getuid());
	assert_string_equal(world->peer.uri, wanted);
}

WORLD_TEST(a_connection_to_a_socket_that_gets_no_name_ends_before_its_first_call)
{
	struct answer answer;

	rpc_server_set_name(world->server, refuse_peer);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_UNAVAILABLE);
	assert_int_equal(world->n_calls, 0);
	assert_int_equal(rpc_server_stats(world->server).refused, 1);
}

WORLD_TEST(many_calls_at_once_are_all_answered)
{
	enum { N = 600 }; /* more than may be in flight at a time */
	struct answer *answers = NON_NULL(calloc(N, sizeof(*answers)));
	size_t n_ok = 0;

	for (size_t i = 0; i < N; i++) {
		char id[16];

		(void)str_format(id, sizeof(id), "v%zu", i);
		(void)world_get(world, world->client, id, WORLD_CALL_US, &answers[i]);
	}
	for (size_t i = 0; i < N; i++) {
		char id[16];

		(void)str_format(id, sizeof(id), "v%zu", i);
		world_run_until(world, &answers[i].done);
		n_ok += answers[i].status == STATUS_OK && str_eq(answers[i].id, id);
	}
	assert_int_equal(n_ok, N);
	free(answers);
}

WORLD_TEST(an_error_arrives_with_its_code_and_its_exact_text)
{
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "missing", &answer), STATUS_NOT_FOUND);
	assert_string_equal(answer.err.msg, "volume \"missing\" is 100% away\nna\xc3\xafve");
}

WORLD_TEST(the_longest_error_message_arrives_whole)
{
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "long", &answer), STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(strlen(answer.err.msg), ERROR_MSG_MAX - 1);
	assert_int_equal(strspn(answer.err.msg, "%"), ERROR_MSG_MAX - 1);
}

WORLD_TEST(an_unknown_method_is_unimplemented_by_name)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	struct answer answer = {.done = false};
	struct error err;

	assert_ok(rpc_client_call(world->client, &holdfast__v1__volumes__descriptor, "List", &request.base,
				  WORLD_CALL_US, world_on_done, &answer, NULL, &err));
	world_run_until(world, &answer.done);
	assert_error(answer.status, STATUS_UNIMPLEMENTED, answer.err, "/holdfast.v1.Volumes/List");
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
}

WORLD_TEST(a_call_without_a_deadline_is_not_started)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	struct answer answer = {.done = false};
	struct error err;

	assert_error(rpc_client_call(world->client, &holdfast__v1__volumes__descriptor, "Get", &request.base,
				     0, world_on_done, &answer, NULL, &err),
		     STATUS_INVALID_ARGUMENT, err, "holdfast.v1.Volumes/Get");
	assert_false(answer.done);
}

WORLD_TEST(the_client_gives_up_at_its_deadline_and_the_late_answer_is_dropped)
{
	struct answer answer;

	(void)world_get(world, world->client, "hold", 30 * USEC_PER_MSEC, &answer);
	world_run_until(world, &answer.done);
	assert_error(answer.status, STATUS_DEADLINE_EXCEEDED, answer.err, "holdfast.v1.Volumes/Get");
	assert_non_null(strstr(answer.err.msg, world->socket));
	world_settle(world);
	assert_int_equal(world->n_held, 1);
	world_answer(TAKE_PTR(world->held[0]), "late");
	world_settle(world);
	assert_int_equal(answer.n_done, 1);
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
}

RAW_TEST(the_server_answers_deadline_exceeded_while_the_handler_still_holds_the_call)
{
	static const struct raw_field fields[] =
		RAW_POST("/holdfast.v1.Volumes/Get", "application/grpc", {"grpc-timeout", "30m"});
	struct raw_answer answer;
	uint8_t frame[64];

	raw_call(raw,
		 &(struct raw_request){
			 .fields = fields, .body = frame, .body_len = raw_get_frame(frame, "hold")},
		 &answer);
	assert_non_null(strstr(answer.headers, "grpc-status: 4\n"));
	assert_non_null(strstr(answer.headers, "/holdfast.v1.Volumes/Get"));
	assert_int_equal(world->n_held, 1);
	world_answer(TAKE_PTR(world->held[0]), "late");
	world_settle(world);
	assert_false(raw->closed);
}

RAW_TEST(a_request_that_does_not_come_to_its_end_meets_its_deadline)
{
	static const struct raw_field fields[] =
		RAW_POST("/holdfast.v1.Volumes/Get", "application/grpc", {"grpc-timeout", "30m"});
	struct raw_answer answer;

	raw_ask(raw, &(struct raw_request){.fields = fields, .body = "\0\0", .body_len = 2, .open = true},
		&answer);
	assert_non_null(strstr(answer.headers, "grpc-status: 4\n"));
	assert_int_equal(world->n_calls, 0);
}

RAW_TEST(a_deadline_of_zero_has_passed)
{
	static const struct raw_field fields[] =
		RAW_POST("/holdfast.v1.Volumes/Get", "application/grpc", {"grpc-timeout", "0m"});
	struct raw_answer answer;

	raw_ask(raw, &(struct raw_request){.fields = fields, .open = true}, &answer);
	assert_non_null(strstr(answer.headers, "grpc-status: 4\n"));
}

WORLD_TEST(a_cancelled_call_is_not_heard_of_again)
{
	struct answer cancelled, answer;
	struct rpc_pending *pending = world_get(world, world->client, "hold", WORLD_CALL_US, &cancelled);

	world_run_until_count(world, &world->n_held, 1);
	rpc_pending_cancel(pending);
	world_settle(world);
	world_answer(TAKE_PTR(world->held[0]), "late");
	world_settle(world);
	assert_false(cancelled.done);
	/* before it was even sent */
	rpc_pending_cancel(world_get(world, world->client, "hold", WORLD_CALL_US, &cancelled));
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	assert_false(cancelled.done);
	assert_int_equal(world->n_held, 1);
}

WORLD_TEST(calls_end_unavailable_when_the_server_dies_and_handlers_may_still_answer)
{
	struct answer answer;

	(void)world_get(world, world->client, "hold", WORLD_CALL_US, &answer);
	world_run_until_count(world, &world->n_held, 1);
	rpc_server_free(world->server);
	world->server = NULL;
	world_run_until(world, &answer.done);
	assert_error(answer.status, STATUS_UNAVAILABLE, answer.err, world->socket);
	assert_non_null(strstr(answer.err.msg, "connection lost"));
	assert_int_equal(rpc_call_peer(world->held[0])->pid, getpid());
	world_answer(TAKE_PTR(world->held[0]), "for nobody");
}

WORLD_TEST(a_client_that_dies_leaves_the_call_to_its_handler)
{
	struct rpc_client *client = world_client(world);
	struct answer answer;

	(void)world_get(world, client, "hold", WORLD_CALL_US, &answer);
	world_run_until_count(world, &world->n_held, 1);
	rpc_client_free(client);
	assert_int_equal(answer.status, STATUS_CANCELLED);
	assert_int_equal(answer.n_done, 1);
	world_settle(world);
	assert_int_equal(world->n_gone, 1);
	assert_int_equal(rpc_call_peer(world->held[0])->pid, getpid());
	world_answer(TAKE_PTR(world->held[0]), "for nobody");
	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
}

WORLD_TEST(the_next_call_connects_again)
{
	cleanup(gate_close) struct gate gate;
	struct rpc_client *client;
	struct answer answer;

	gate_open(&gate, world);
	client = gate_client(&gate);
	assert_int_equal(world_get_now(world, client, "a", &answer), STATUS_OK);
	gate_close(&gate);
	world_settle(world);
	assert_int_equal(unlink(gate.path), 0);
	assert_error(world_get_now(world, client, "b", &answer), STATUS_UNAVAILABLE, answer.err,
		     "cannot connect");
	gate_open(&gate, world);
	assert_int_equal(world_get_now(world, client, "c", &answer), STATUS_OK);
	assert_string_equal(answer.id, "c");
	rpc_client_free(client);
}

GATE_TEST(a_connection_outlives_the_time_for_making_it)
{
	struct answer answer;

	client->timing.connect_us = 30 * USEC_PER_MSEC;
	assert_int_equal(world_get_now(world, client, "a", &answer), STATUS_OK);
	(void)world_get(world, client, "hold", 60 * USEC_PER_MSEC, &answer);
	world_run_until(world, &answer.done);
	assert_int_equal(answer.status, STATUS_DEADLINE_EXCEEDED);
	assert_int_equal(world_get_now(world, client, "b", &answer), STATUS_OK);
	assert_int_equal(gate->n_pairs, 1);
	rpc_client_free(client);
}

WORLD_TEST(a_server_that_is_not_there_is_named)
{
	const struct rpc_endpoint endpoint = {.unix_path = "/nonexistent/holdfast.sock"};
	struct rpc_client *client = NULL;
	struct answer answer;
	struct error err;

	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, &err), STATUS_OK);
	assert_error(world_get_now(world, client, "db", &answer), STATUS_UNAVAILABLE, answer.err,
		     "/nonexistent/holdfast.sock");
	assert_non_null(strstr(answer.err.msg, "is its service running?"));
	rpc_client_free(client);
}

GATE_TEST(a_call_on_a_dead_connection_cannot_hang)
{
	struct answer answer;

	gate->shut = true;
	(void)world_get(world, client, "db", 30 * USEC_PER_MSEC, &answer);
	world_run_until(world, &answer.done);
	assert_int_equal(answer.status, STATUS_DEADLINE_EXCEEDED);
	rpc_client_free(client);
}

WORLD_TEST(every_way_of_cutting_the_bytes_gives_the_same_answer)
{
	for (size_t piece = 1; piece <= 40; piece++) {
		struct gate gate;
		struct rpc_client *client;
		struct answer answer;

		gate_open(&gate, world);
		gate.piece = piece;
		client = gate_client(&gate);
		assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
		assert_string_equal(answer.id, "db");
		assert_int_equal(world_get_now(world, client, "missing", &answer), STATUS_NOT_FOUND);
		rpc_client_free(client);
		gate_close(&gate);
		assert_int_equal(unlink(gate.path), 0);
	}
}

WORLD_TEST(a_request_cut_off_after_any_byte_ends_only_its_call)
{
	bool whole = false;

	for (size_t n = 1; !whole; n++) {
		struct gate gate;
		struct rpc_client *client;
		struct answer answer;

		gate_open(&gate, world);
		gate.cut_up_after = n;
		client = gate_client(&gate);
		whole = world_get_now(world, client, "db", &answer) == STATUS_OK;
		if (!whole)
			assert_int_equal(answer.status, STATUS_UNAVAILABLE);
		assert_true(n < 2000);
		rpc_client_free(client);
		gate_close(&gate);
		assert_int_equal(unlink(gate.path), 0);
	}
	assert_int_equal(world->n_held, 0);
}

WORLD_TEST(freeing_the_client_ends_its_calls_at_once)
{
	struct rpc_client *client = world_client(world);
	struct answer connecting, a, b;

	(void)world_get(world, client, "hold", WORLD_CALL_US, &connecting);
	rpc_client_free(client);
	assert_int_equal(connecting.status, STATUS_CANCELLED);
	client = world_client(world);
	(void)world_get(world, client, "hold", WORLD_CALL_US, &a);
	(void)world_get(world, client, "hold", WORLD_CALL_US, &b);
	world_run_until_count(world, &world->n_held, 2);
	rpc_client_free(client);
	assert_int_equal(a.status, STATUS_CANCELLED);
	assert_int_equal(b.status, STATUS_CANCELLED);
	assert_int_equal(a.n_done, 1);
	assert_int_equal(b.n_done, 1);
}

/* The owner of a client that is freed by the first of two answers. */
struct suicide {
	struct rpc_client *client;
	size_t n_done;
	enum status last;
	enum status nested; /* of a call started while closing */
};

static void free_client(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	struct suicide *suicide = userdata;
	struct error ignored;

	suicide->n_done++;
	suicide->last = status;
	if (suicide->n_done == 2)
		suicide->nested =
			rpc_client_call(suicide->client, &holdfast__v1__volumes__descriptor, "Get",
					&request.base, WORLD_CALL_US, free_client, suicide, NULL, &ignored);
	rpc_client_free(suicide->client);
}

WORLD_TEST(a_client_may_be_freed_by_an_answer_while_others_wait)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = (char *)(uintptr_t) "db");
	struct suicide suicide = {.client = world_client(world)};
	struct error err;

	for (int i = 0; i < 2; i++)
		assert_ok(rpc_client_call(suicide.client, &holdfast__v1__volumes__descriptor, "Get",
					  &request.base, WORLD_CALL_US, free_client, &suicide, NULL, &err));
	world_run_until_count(world, &suicide.n_done, 2);
	assert_int_equal(suicide.last, STATUS_CANCELLED);
	assert_int_equal(suicide.nested, STATUS_CANCELLED);
	world_settle(world);
}

WORLD_TEST(a_synchronous_call_returns_its_answer_or_its_error)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = (char *)(uintptr_t) "db");
	ProtobufCMessage *response = NULL;
	struct error err;

	assert_ok(rpc_client_call_sync(world->client, &holdfast__v1__volumes__descriptor, "Get",
				       &request.base, WORLD_CALL_US, &response, &err));
	assert_string_equal(((Holdfast__V1__GetVolumeResponse *)response)->volume->id, "db");
	protobuf_c_message_free_unpacked(response, NULL);
	response = NULL;
	request.id = (char *)(uintptr_t) "missing";
	assert_int_equal(rpc_client_call_sync(world->client, &holdfast__v1__volumes__descriptor, "Get",
					      &request.base, WORLD_CALL_US, &response, &err),
			 STATUS_NOT_FOUND);
	assert_null(response);
	assert_non_null(strstr(err.msg, "100% away"));
	assert_int_equal(rpc_client_call_sync(world->client, &holdfast__v1__volumes__descriptor, "Get",
					      &request.base, 0, &response, &err),
			 STATUS_INVALID_ARGUMENT);
}

static int end_loop(sd_event_source *source, uint64_t usec, void *userdata)
{
	return sd_event_exit(sd_event_source_get_event(source), 0);
}

WORLD_TEST(a_synchronous_call_ends_with_the_event_loop)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = (char *)(uintptr_t) "hold");
	sd_event_source *timer = NULL;
	ProtobufCMessage *response = NULL;
	struct error err;

	assert_true(sd_event_add_time_relative(world->event, &timer, CLOCK_MONOTONIC, 20000, 1000, end_loop,
					       NULL) >= 0);
	assert_int_equal(rpc_client_call_sync(world->client, &holdfast__v1__volumes__descriptor, "Get",
					      &request.base, WORLD_CALL_US, &response, &err),
			 STATUS_CANCELLED);
	assert_null(response);
	(void)sd_event_source_disable_unref(timer);
}

/* As after 2^30 calls: four hundred a second for a month. */
WORLD_TEST(a_connection_whose_stream_ids_are_used_up_gives_way_to_another)
{
	struct answer answer;

	assert_ok(world_get_now(world, world->client, "db", &answer));
	assert_int_equal(
		nghttp2_session_set_next_stream_id(h2_session(world->client->current->h2), INT32_MAX - 2), 0);
	for (int i = 0; i < 4; i++) {
		answer.err.msg[0] = '\0';
		if (world_get_now(world, world->client, "db", &answer) != STATUS_OK)
			fail_msg("call %d: %s", i, answer.err.msg);
	}
}
