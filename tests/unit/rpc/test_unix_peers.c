/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of several accounts to one unix socket; who is at the other end is said by a model of the
 * kernel. */

#include "world.h"

#include "rpc/server_internal.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { OTHER = 4000, ANOTHER = 4001, EACH = 3, ALL = 5 };

static uid_t peer_uid; /* of who connects now */
static struct error told;
static size_t n_reported;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

WRAPPED(int, getsockopt, int fd, int level, int name, void *value, socklen_t *len)
{
	int r = __real_getsockopt(fd, level, name, value, len);

	if (r == 0 && level == SOL_SOCKET && name == SO_PEERCRED)
		((struct ucred *)value)->uid = peer_uid;
	return r;
}

static void on_refused(const struct rpc_peer *peer, const struct error *why, void *userdata)
{
	told = *why;
	n_reported++;
}

static int setup(void **state)
{
	static const struct rpc_server_limits limits = {.connections = ALL, .per_user = EACH};

	if (world_setup_with(state, &limits) != 0)
		return -1;
	n_reported = 0;
	rpc_server_on_refused(((struct world *)*state)->server, on_refused);
	return 0;
}

/* Connect as @uid and say nothing. */
static int occupy(struct world *world, uid_t uid)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), world->socket), 0);
	peer_uid = uid;
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	world_settle(world);
	return fd;
}

TEST_ON(one_account_has_as_many_connections_as_its_limit_and_no_more, struct world, world, setup,
	world_teardown)
{
	int fds[EACH + 1], other;

	for (size_t i = 0; i <= EACH; i++) {
		fds[i] = occupy(world, OTHER);
		assert_int_equal(n_reported, i == EACH);
	}
	assert_int_equal(world->server->n_conns, EACH);
	assert_int_equal(told.status, STATUS_RESOURCE_EXHAUSTED);
	assert_string_equal(told.msg, "3 connections of uid 4000 are open already");
	/* there is room for others, and for the same one when one of its own has gone */
	other = occupy(world, ANOTHER);
	(void)close(fds[0]);
	world_settle(world);
	fds[0] = occupy(world, OTHER);
	assert_int_equal(n_reported, 1);
	assert_int_equal(world->server->n_conns, EACH + 1);
	for (size_t i = 0; i <= EACH; i++)
		(void)close(fds[i]);
	(void)close(other);
	world_settle(world);
	assert_true(RB_EMPTY(&world->server->peers));
}

TEST_ON(all_accounts_together_leave_room_for_root_and_for_the_daemons_own, struct world, world, setup,
	world_teardown)
{
	const uid_t privileged[] = {0, geteuid()};
	int fds[ALL + 1];

	for (size_t i = 0; i <= ALL; i++) {
		fds[i] = occupy(world, OTHER + (uid_t)i);
		assert_int_equal(n_reported, i == ALL);
	}
	assert_string_equal(told.msg, "5 connections are open");
	for (size_t i = 0; i < ARRAY_SIZE(privileged); i++) {
		struct rpc_client *client = world_client(world);
		struct answer answer;

		peer_uid = privileged[i];
		assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
		rpc_client_free(client);
		world_settle(world);
	}
	assert_int_equal(n_reported, 1);
	for (size_t i = 0; i <= ALL; i++)
		(void)close(fds[i]);
}

TEST_ON(root_has_its_limit_too, struct world, world, setup, world_teardown)
{
	int others[ALL], own[EACH + 1];

	for (size_t i = 0; i < ALL; i++)
		others[i] = occupy(world, OTHER + (uid_t)i);
	for (size_t i = 0; i <= EACH; i++) {
		own[i] = occupy(world, 0);
		assert_int_equal(n_reported, i == EACH);
	}
	assert_int_equal(world->server->n_conns, ALL + EACH);
	assert_string_equal(told.msg, "3 connections of uid 0 are open already");
	for (size_t i = 0; i < ALL; i++)
		(void)close(others[i]);
	for (size_t i = 0; i <= EACH; i++)
		(void)close(own[i]);
}
