/* SPDX-License-Identifier: Apache-2.0 */
/* A client of several servers that are one: here two addresses of one server, and addresses of nobody. */

#include "tls_world.h"

#include "base/clock.h"
#include "rpc/client_internal.h"
#include "rpc/server_internal.h"

#include <arpa/inet.h>

struct list {
	struct tls_world *tw;
	struct rpc_address servers[3];
	size_t n;
	struct rpc_client *client;
};

static void add(struct list *list, uint16_t port)
{
	struct rpc_address *address = &list->servers[list->n++];

	*address = (struct rpc_address){.host = "127.0.0.1", .port = port};
}

/* A port where somebody listens, and takes no connection, until the descriptor is closed. */
static uint16_t take_port(int *ret_fd)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t n = sizeof(address);

	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(*ret_fd, (const struct sockaddr *)&address, n), 0);
	assert_int_equal(listen(*ret_fd, 4), 0);
	assert_int_equal(getsockname(*ret_fd, (struct sockaddr *)&address, &n), 0);
	return ntohs(address.sin_port);
}

static uint16_t nobodys_port(void)
{
	int fd = -1;
	uint16_t port = take_port(&fd);

	(void)close(fd);
	return port;
}

static uint16_t second_port(struct list *list)
{
	uint16_t port = 0;

	assert_ok(rpc_server_listen_tls(list->tw->world->server, "127.0.0.1", 0, list->tw->server_tls, &port,
					NULL));
	return port;
}

static void connect_list(struct list *list, const char *uri)
{
	const struct rpc_endpoint endpoint = {
		.servers = list->servers, .n_servers = list->n, .tls = list->tw->node_tls, .server_uri = uri};

	assert_int_equal(rpc_client_new(list->tw->world->event, &endpoint, &list->client, NULL), STATUS_OK);
}

static enum status get(struct list *list, struct answer *answer)
{
	return world_get_now(list->tw->world, list->client, "db", answer);
}

static int setup(void **state)
{
	struct list *list = NON_NULL(calloc(1, sizeof(*list)));

	*state = list;
	return tls_world_setup((void **)&list->tw);
}

static int teardown(void **state)
{
	struct list *list = *state;
	int r;

	rpc_client_free(list->client);
	r = tls_world_teardown((void **)&list->tw);
	free(list);
	return r;
}

#define CASE(name) TEST_ON(name, struct list, list, setup, teardown)

CASE(a_server_that_is_gone_is_passed_by)
{
	struct answer answer;
	char name[RPC_SERVER_NAME_SIZE];

	add(list, nobodys_port());
	add(list, list->tw->port);
	connect_list(list, SERVER_URI);
	assert_null(rpc_client_server(list->client));
	assert_int_equal(get(list, &answer), STATUS_OK);
	assert_string_equal(rpc_client_server(list->client), rpc_address_text(&list->servers[1], name));
	/* and the one that answered is tried first from then on */
	assert_int_equal(list->client->first, 1);
}

CASE(when_no_server_answers_the_error_gives_the_reason_of_each)
{
	struct answer answer;
	char name[RPC_SERVER_NAME_SIZE];

	for (int i = 0; i < 3; i++)
		add(list, nobodys_port());
	connect_list(list, NULL);
	assert_int_equal(get(list, &answer), STATUS_UNAVAILABLE);
	for (size_t i = 0; i < 3; i++) {
		const char *at = strstr(answer.err.msg, rpc_address_text(&list->servers[i], name));

		assert_msg(at && str_starts_with(at + strlen(name), ": connect: Connection refused"), "%s",
			   answer.err.msg);
	}
	assert_non_null(strstr(answer.err.msg, "any of 3 servers"));
	assert_int_equal(answer.err.sys_errno, ECONNREFUSED);
	assert_false(rpc_client_may_have_begun(list->client));
	/* each call goes round once */
	assert_int_equal(get(list, &answer), STATUS_UNAVAILABLE);
}

CASE(a_server_that_is_another_is_passed_by)
{
	struct rpc_tls *other;
	struct answer answer;
	uint16_t port = 0;

	tls_world_issue(list->tw, "ca", "other", "holdfast://other/server/s9");
	other = tls_world_load(list->tw, "ca", "other");
	assert_ok(rpc_server_listen_tls(list->tw->world->server, "127.0.0.1", 0, other, &port, NULL));
	add(list, port);
	add(list, list->tw->port);
	connect_list(list, "holdfast://lab/server/");
	assert_int_equal(get(list, &answer), STATUS_OK);
	assert_int_equal(list->client->first, 1);
	assert_int_equal(list->tw->world->n_calls, 1);
	rpc_client_free(TAKE_PTR(list->client));
	list->n = 1;
	connect_list(list, "holdfast://lab/server/");
	assert_error(get(list, &answer), STATUS_UNAVAILABLE, answer.err, "holdfast://other/server/s9");
	rpc_client_free(TAKE_PTR(list->client));
	rpc_server_free(TAKE_PTR(list->tw->world->server));
	rpc_tls_free(other);
}

CASE(a_server_that_is_silent_has_its_share_of_the_time)
{
	struct answer answer;
	int fd = -1;

	add(list, take_port(&fd));
	add(list, list->tw->port);
	connect_list(list, SERVER_URI);
	list->client->timing.connect_us = 10 * USEC_PER_SEC; /* of which the second one needs next to none */
	assert_int_equal(get(list, &answer), STATUS_OK);
	rpc_client_free(TAKE_PTR(list->client));
	list->n = 0;
	add(list, list->servers[0].port);
	add(list, nobodys_port());
	connect_list(list, SERVER_URI);
	list->client->timing.connect_us = 100 * USEC_PER_MSEC;
	assert_error(get(list, &answer), STATUS_UNAVAILABLE, answer.err, "no connection within 50ms; ");
	assert_non_null(strstr(answer.err.msg, "Connection refused"));
	(void)close(fd);
}

/* Whether it was carried out is not known: nobody but its caller may ask again. */
CASE(a_call_that_was_sent_is_not_sent_to_another_server)
{
	struct world *world = list->tw->world;
	struct answer answer;
	struct rpc_server *second = NULL;
	uint16_t port = 0;

	assert_ok(rpc_server_new(world->event, world->services, ARRAY_SIZE(world->services), NULL, world,
				 &second, NULL));
	assert_ok(rpc_server_listen_tls(second, "127.0.0.1", 0, list->tw->server_tls, &port, NULL));
	add(list, list->tw->port);
	add(list, port);
	connect_list(list, SERVER_URI);
	(void)world_get(world, list->client, "hold", WORLD_CALL_US, &answer);
	world_run_until_count(world, &world->n_held, 1);
	rpc_server_free(TAKE_PTR(world->server));
	world_run_until(world, &answer.done);
	assert_int_not_equal(answer.status, STATUS_OK);
	assert_int_equal(world->n_calls, 1);
	assert_int_equal(get(list, &answer), STATUS_OK); /* the next one is */
	assert_int_equal(list->client->first, 1);
	rpc_client_free(TAKE_PTR(list->client));
	rpc_server_free(second);
}

CASE(a_client_that_moves_on_finishes_its_calls_and_closes)
{
	struct world *world = list->tw->world;
	struct answer held, answer;
	uint64_t limit = clock_monotonic_us() + WORLD_CALL_US;

	add(list, list->tw->port);
	add(list, second_port(list));
	connect_list(list, SERVER_URI);
	(void)world_get(world, list->client, "hold", WORLD_CALL_US, &held);
	world_run_until_count(world, &world->n_held, 1);
	rpc_client_move_on(list->client);
	assert_int_equal(get(list, &answer), STATUS_OK);
	assert_int_equal(list->client->first, 1);
	assert_int_equal(world->server->n_conns, 2);
	assert_false(held.done);
	world_answer(TAKE_PTR(world->held[0]), "held");
	world_run_until(world, &held.done);
	assert_int_equal(held.status, STATUS_OK);
	while (world->server->n_conns > 1) {
		assert_true(clock_monotonic_us() < limit);
		assert_true(sd_event_run(world->event, USEC_PER_SEC) >= 0);
	}
	rpc_client_move_on(list->client); /* and round again; one without calls goes at once */
	assert_int_equal(get(list, &answer), STATUS_OK);
	assert_int_equal(list->client->first, 0);
	/* where there is one server it is nothing */
	assert_int_equal(world_get_now(world, list->tw->client, "db", &answer), STATUS_OK);
	rpc_client_move_on(list->tw->client);
	assert_non_null(list->tw->client->current);
}

static enum status gate_status;

static enum status closed_gate(struct rpc_call *call, const char *service, const struct rpc_method *method,
			       const ProtobufCMessage *request, void *userdata, struct error *err)
{
	return error_set(err, gate_status, 0, "not now");
}

CASE(a_client_refused_for_now_knows_that_nothing_changed)
{
	struct world *world = list->tw->world;
	struct answer answer;

	add(list, list->tw->port);
	connect_list(list, SERVER_URI);
	assert_int_equal(world_get_now(world, list->client, "missing", &answer), STATUS_NOT_FOUND);
	assert_true(rpc_client_may_have_begun(list->client)); /* as far as its handler says */
	rpc_server_set_gate(world->server, closed_gate);
	gate_status = STATUS_UNAVAILABLE;
	assert_int_equal(get(list, &answer), STATUS_UNAVAILABLE);
	assert_string_equal(answer.err.msg, "not now");
	assert_false(rpc_client_may_have_begun(list->client));
}
