/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and details of errors, from one end of a connection to the other. */

#include "raw.h"

#include "holdfast/v1/explain.pb-c.h"

/* Details that are packed into exactly @size bytes, 4 at least; free() the text. */
static char *fill(Holdfast__V1__ErrorDetails *details, Holdfast__V1__NodeExplanation *node,
		  Holdfast__V1__NodeExplanation **nodes, size_t size)
{
	char *text = NON_NULL(calloc(1, size + 1));

	holdfast__v1__error_details__init(details);
	holdfast__v1__node_explanation__init(node);
	nodes[0] = node;
	details->n_nodes = 1;
	details->nodes = nodes;
	node->reason = text;
	for (size_t n = size; n > 0; n--) {
		memset(text, 'd', n);
		text[n] = '\0';
		if (protobuf_c_message_get_packed_size(&details->base) == size)
			return text;
	}
	fail_msg("no details of %zu bytes", size);
	return NULL;
}

/* Have a held call fail with details of @size bytes and a message of @message bytes; what the client gets. */
static Holdfast__V1__ErrorDetails *exchange(struct world *world, size_t size, size_t message,
					    struct answer *answer)
{
	Holdfast__V1__NodeExplanation *nodes[1], node;
	Holdfast__V1__ErrorDetails details;
	char *text = fill(&details, &node, nodes, size);
	struct error err = {.status = STATUS_FAILED_PRECONDITION};

	memset(err.msg, '%', message);
	(void)world_get(world, world->client, "hold", WORLD_CALL_US, answer);
	world_run_until_count(world, &world->n_held, 1);
	world->n_held = 0;
	rpc_call_fail_details(TAKE_PTR(world->held[0]), &err, &details.base);
	world_run_until(world, &answer->done);
	assert_int_equal(answer->status, STATUS_FAILED_PRECONDITION);
	assert_int_equal(strlen(answer->err.msg), message);
	free(text);
	return (Holdfast__V1__ErrorDetails *)rpc_client_details(world->client,
								&holdfast__v1__error_details__descriptor);
}

WORLD_TEST(details_of_an_error_reach_the_client_up_to_their_limit)
{
	for (size_t over = 0; over <= 1; over++) {
		struct answer answer;
		Holdfast__V1__ErrorDetails *details = exchange(world, RPC_DETAILS_MAX + over, 10, &answer);

		assert_int_equal(details == NULL, over);
		if (!details)
			continue;
		assert_int_equal(details->n_nodes, 1);
		assert_int_equal(details->nodes[0]->reason[0], 'd');
		holdfast__v1__error_details__free_unpacked(details, NULL);
	}
}

WORLD_TEST(details_give_way_to_a_long_message)
{
	struct answer answer;

	assert_null(exchange(world, RPC_DETAILS_MAX, ERROR_MSG_MAX - 1, &answer));
}

WORLD_TEST(details_are_those_of_the_last_call_alone)
{
	struct answer answer;
	Holdfast__V1__ErrorDetails *details = NON_NULL(exchange(world, 100, 10, &answer));

	holdfast__v1__error_details__free_unpacked(details, NULL);
	assert_int_equal(world_get_now(world, world->client, "missing", &answer), STATUS_NOT_FOUND);
	assert_null(rpc_client_details(world->client, &holdfast__v1__error_details__descriptor));
}

WORLD_TEST(a_stream_ends_with_details_too)
{
	Holdfast__V1__NodeExplanation *nodes[1], node;
	Holdfast__V1__ErrorDetails details, *got;
	char *text = fill(&details, &node, nodes, 50);
	struct session session;
	struct error err;

	session_open(&session, world, world->client);
	session_say(&session, "echo");
	world_run_until_count(world, &session.n_messages, 1);
	(void)error_set(&err, STATUS_ABORTED, 0, "enough");
	rpc_call_fail_details(world->stream, &err, &details.base);
	world_run_until(world, &session.closed);
	assert_int_equal(session.status, STATUS_ABORTED);
	got = NON_NULL((Holdfast__V1__ErrorDetails *)rpc_client_details(
		world->client, &holdfast__v1__error_details__descriptor));
	assert_string_equal(got->nodes[0]->reason, text);
	holdfast__v1__error_details__free_unpacked(got, NULL);
	free(text);
}

WORLD_TEST(json_errors_show_their_details)
{
	static const struct raw_field fields[] = RAW_POST("/holdfast.v1.Volumes/Get", "application/json");
	static const char hold[] = "{\"id\": \"hold\"}";
	Holdfast__V1__NodeExplanation *nodes[1], node;
	Holdfast__V1__ErrorDetails details;
	char *text = fill(&details, &node, nodes, 20);
	struct raw_answer answer = {.done = false};
	struct error err;
	cleanup(raw_close) struct raw raw;

	raw_open(&raw, world, true);
	raw_start(&raw, &(struct raw_request){.fields = fields, .body = hold, .body_len = strlen(hold)},
		  &answer);
	world_run_until_count(world, &world->n_held, 1);
	(void)error_set(&err, STATUS_ABORTED, 0, "held");
	rpc_call_fail_details(TAKE_PTR(world->held[0]), &err, &details.base);
	world_run_until(world, &answer.done);
	assert_contains(answer.body, "\"message\":\"held\",\"details\":{\"nodes\":[{\"reason\":\"dddd");
	free(text);
}

WORLD_TEST(the_token_of_a_client_comes_with_every_call)
{
	const struct rpc_endpoint endpoint = {.unix_path = world->socket, .token = "s3cret-0189=="};
	struct rpc_client *client = NULL;
	struct session session;
	struct answer answer;
	struct error err;

	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, &err), STATUS_OK);
	for (size_t i = 0; i < 2; i++) {
		(void)world_get(world, client, "hold", WORLD_CALL_US, &answer);
		world_run_until_count(world, &world->n_held, i + 1);
		assert_string_equal(rpc_call_token(world->held[i]), "s3cret-0189==");
		world_answer(TAKE_PTR(world->held[i]), "db");
		world_run_until(world, &answer.done);
	}
	session_open(&session, world, client);
	session_say(&session, "echo");
	world_run_until_count(world, &session.n_messages, 1);
	assert_string_equal(rpc_call_token(world->stream), "s3cret-0189==");
	rpc_stream_cancel(session.stream);
	rpc_client_free(client);
	world_run_until_count(world, &world->n_closed, 1);
}

WORLD_TEST(a_client_without_a_token_sends_no_token)
{
	struct answer answer;

	(void)world_get(world, world->client, "hold", WORLD_CALL_US, &answer);
	world_run_until_count(world, &world->n_held, 1);
	assert_null(rpc_call_token(world->held[0]));
	world_answer(TAKE_PTR(world->held[0]), "db");
	world_run_until(world, &answer.done);
}

WORLD_TEST(a_token_that_could_not_be_sent_is_refused_without_being_shown)
{
	const struct rpc_endpoint endpoint = {.unix_path = world->socket, .token = "s3cret\r\nx: y"};
	struct rpc_client *client = NULL;
	struct error err;

	assert_int_equal(rpc_client_new(world->event, &endpoint, &client, &err), STATUS_INVALID_ARGUMENT);
	assert_null(client);
	assert_null(strstr(err.msg, "s3cret"));
}
