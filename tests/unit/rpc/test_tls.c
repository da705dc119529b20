#include "tls_world.h"

#include "base/fd.h"
#include "base/str.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_call_is_answered_over_tls_and_carries_the_identity(void **state)
{
	struct tls_world *tw = *state;
	struct answer answer;

	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
	assert_string_equal(answer.id, "db");
	assert_int_equal(tw->world->peer.kind, RPC_PEER_TLS);
	assert_string_equal(tw->world->peer.uri, NODE_URI);
	assert_memory_equal(tw->world->peer.address, "127.0.0.1:", strlen("127.0.0.1:"));
}

static void a_client_without_a_certificate_has_no_identity(void **state)
{
	struct tls_world *tw = *state;
	struct rpc_tls *tls = tls_world_load(tw, "ca", NULL);
	struct rpc_client *client = tls_world_client(tw, tls, NULL);
	struct answer answer;

	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_OK);
	assert_int_equal(tw->world->peer.kind, RPC_PEER_TLS);
	assert_string_equal(tw->world->peer.uri, "");
	rpc_client_free(client);
	rpc_tls_free(tls);
}

static void a_server_of_another_ca_is_not_spoken_to(void **state)
{
	struct tls_world *tw = *state;
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct answer answer;

	tls_world_make_ca(tw, "foreign");
	tls = tls_world_load(tw, "foreign", NULL);
	client = tls_world_client(tw, tls, NULL);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_non_null(strstr(answer.err.msg, "certificate"));
	assert_non_null(strstr(answer.err.msg, "127.0.0.1:"));
	assert_int_equal(tw->world->n_calls, 0);
	rpc_client_free(client);
	rpc_tls_free(tls);
}

static void a_client_certificate_of_another_ca_is_refused(void **state)
{
	struct tls_world *tw = *state;
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct answer answer;
	struct error err;

	tls_world_make_ca(tw, "foreign");
	tls_world_issue(tw, "foreign", "intruder", NODE_URI);
	tls = NULL;
	assert_int_equal(rpc_tls_new(&(struct rpc_tls_files){.ca = world_path(tw->world, "ca.crt"),
							     .cert = world_path(tw->world, "intruder.crt"),
							     .key = world_path(tw->world, "intruder.key")},
				     &tls, &err),
			 STATUS_OK);
	client = tls_world_client(tw, tls, SERVER_URI);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_int_equal(tw->world->n_calls, 0);
	rpc_client_free(client);
	rpc_tls_free(tls);
}

static void a_server_with_another_identity_is_not_spoken_to(void **state)
{
	struct tls_world *tw = *state;
	struct rpc_client *client = tls_world_client(tw, tw->node_tls, "holdfast://lab/server/s2");
	struct answer answer;

	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_non_null(strstr(answer.err.msg, SERVER_URI));
	assert_non_null(strstr(answer.err.msg, "holdfast://lab/server/s2"));
	assert_int_equal(tw->world->n_calls, 0);
	rpc_client_free(client);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, tls_world_setup, tls_world_teardown)

static const struct CMUnitTest tests[] = {
	TLS_TEST(a_call_is_answered_over_tls_and_carries_the_identity),
	TLS_TEST(a_client_without_a_certificate_has_no_identity),
	TLS_TEST(a_server_of_another_ca_is_not_spoken_to),
	TLS_TEST(a_client_certificate_of_another_ca_is_refused),
	TLS_TEST(a_server_with_another_identity_is_not_spoken_to),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
