#include "world.h"

#include "base/str.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_call_is_answered_over_a_unix_socket(void **state)
{
	struct world *world = *state;
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	assert_string_equal(answer.id, "db");
	assert_int_equal(world->n_calls, 1);
}

static void the_server_knows_who_called(void **state)
{
	struct world *world = *state;
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "db", &answer), STATUS_OK);
	assert_int_equal(world->peer.kind, RPC_PEER_UNIX);
	assert_int_equal(world->peer.uid, getuid());
	assert_int_equal(world->peer.gid, getgid());
	assert_int_equal(world->peer.pid, getpid());
	assert_string_equal(world->peer.uri, "");
	assert_string_equal(world->peer.address, world->socket);
}

static void an_error_arrives_with_its_code_and_its_exact_text(void **state)
{
	struct world *world = *state;
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "missing", &answer), STATUS_NOT_FOUND);
	assert_string_equal(answer.err.msg, "volume \"missing\" is 100% away\nna\xc3\xafve");
}

static void the_longest_error_message_arrives_whole(void **state)
{
	struct world *world = *state;
	struct answer answer;

	assert_int_equal(world_get_now(world, world->client, "long", &answer), STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(strlen(answer.err.msg), ERROR_MSG_MAX - 1);
	assert_int_equal(strspn(answer.err.msg, "%"), ERROR_MSG_MAX - 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(a_call_is_answered_over_a_unix_socket, world_setup, world_teardown),
	cmocka_unit_test_setup_teardown(the_server_knows_who_called, world_setup, world_teardown),
	cmocka_unit_test_setup_teardown(an_error_arrives_with_its_code_and_its_exact_text, world_setup,
					world_teardown),
	cmocka_unit_test_setup_teardown(the_longest_error_message_arrives_whole, world_setup, world_teardown),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
