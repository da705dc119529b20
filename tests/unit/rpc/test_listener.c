/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_world.h"
#include "unit_loop.h"

#include "rpc/dial.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static unsigned int mode_of(const char *p)
{
	struct stat st;

	assert_int_equal(lstat(p, &st), 0);
	return st.st_mode & 07777U;
}

TLS_TEST(the_socket_has_the_mode_asked_for_whatever_the_umask)
{
	static const mode_t masks[] = {0, 022, 077, 0777};
	static const mode_t modes[] = {0600, 0660, 0666};
	struct error err;

	for (size_t m = 0; m < ARRAY_SIZE(masks); m++)
		for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
			const char *path = world_path(tw->world, "other");
			mode_t before = umask(masks[m]);
			enum status status = rpc_server_listen_unix(tw->world->server, path, modes[i], &err);

			(void)umask(before);
			assert_int_equal(status, STATUS_OK);
			assert_int_equal(mode_of(path), modes[i]);
			assert_int_equal(unlink(path), 0);
		}
}

/* What a process that died leaves behind. */
static void leave_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), path), 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	(void)close(fd);
}

TLS_TEST(a_stale_socket_is_replaced)
{
	const char *path = world_path(tw->world, "stale");
	const struct rpc_endpoint endpoint = {.unix_path = path};
	struct rpc_client *client = NULL;
	struct answer answer;
	struct error err;

	leave_socket(path);
	assert_int_equal(rpc_server_listen_unix(tw->world->server, path, 0600, &err), STATUS_OK);
	assert_int_equal(rpc_client_new(tw->world->event, &endpoint, &client, &err), STATUS_OK);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_OK);
	rpc_client_free(client);
}

TLS_TEST(a_link_is_followed_unless_the_socket_has_to_be_at_its_own_path)
{
	const char *link = world_path(tw->world, "link");

	assert_int_equal(symlink(tw->world->socket, link), 0);
	for (int is_own = 0; is_own < 2; is_own++)
		for (int is_link = 0; is_link < 2; is_link++) {
			const struct rpc_endpoint endpoint = {.unix_path = is_link ? link : tw->world->socket,
							      .is_own_socket = is_own};
			struct rpc_client *client = NULL;
			struct answer answer;

			assert_ok(rpc_client_new(tw->world->event, &endpoint, &client, NULL));
			assert_int_equal(world_get_now(tw->world, client, "db", &answer),
					 is_own && is_link ? STATUS_UNAVAILABLE : STATUS_OK);
			rpc_client_free(client);
		}
}

struct dialled {
	bool is_done;
	int fd;
};

static void on_dialled(int fd, const struct error *err, void *userdata)
{
	*(struct dialled *)userdata = (struct dialled){.is_done = true, .fd = fd};
}

/* Other users of the machine can fill the queue of a socket that they may not use. */
TLS_TEST(a_queue_that_is_full_is_tried_again)
{
	for (int is_freed = 0; is_freed < 2; is_freed++) {
		const char *path = world_path(tw->world, is_freed ? "freed" : "full");
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		struct dialled dialled = {.fd = -1};
		struct dial *dial = NULL;
		int fds[2];

		for (int i = 0; i < 2; i++)
			fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), path), 0);
		assert_int_equal(bind(fds[0], (const struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(listen(fds[0], 0), 0);
		assert_int_equal(connect(fds[1], (const struct sockaddr *)&address, sizeof(address)), 0);
		assert_ok(dial_unix(tw->world->event, path, is_freed, on_dialled, &dialled, &dial, NULL));
		run_for(tw->world->event, 200);
		assert_false(dialled.is_done);
		if (is_freed)
			(void)close(accept4(fds[0], NULL, NULL, SOCK_CLOEXEC));
		RUN_UNTIL(tw->world->event, dialled.is_done);
		assert_int_equal(dialled.fd >= 0, is_freed);
		(void)close(dialled.fd);
		(void)close(fds[0]);
		(void)close(fds[1]);
	}
}

TLS_TEST(a_live_socket_is_refused_and_stays)
{
	struct answer answer;
	struct error err;

	assert_error(rpc_server_listen_unix(tw->world->server, tw->world->socket, 0600, &err),
		     STATUS_FAILED_PRECONDITION, err, tw->world->socket);
	assert_non_null(strstr(err.msg, "listens there already"));
	assert_int_equal(world_get_now(tw->world, tw->world->client, "db", &answer), STATUS_OK);
}

TLS_TEST(a_file_that_is_no_socket_is_not_touched)
{
	struct error err;

	assert_error(rpc_server_listen_unix(tw->world->server, world_path(tw->world, "ca.crt"), 0600, &err),
		     STATUS_FAILED_PRECONDITION, err, "ca.crt");
	assert_int_equal(access(world_path(tw->world, "ca.crt"), F_OK), 0);
	/* nor what a link points to */
	leave_socket(world_path(tw->world, "victim"));
	assert_int_equal(symlink("victim", world_path(tw->world, "link")), 0);
	assert_int_equal(rpc_server_listen_unix(tw->world->server, world_path(tw->world, "link"), 0600, &err),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(access(world_path(tw->world, "victim"), F_OK), 0);
}

TLS_TEST(paths_that_cannot_be_are_refused)
{
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
	struct error err;

	assert_int_equal(rpc_server_listen_unix(tw->world->server, "", 0600, &err), STATUS_INVALID_ARGUMENT);
	assert_error(rpc_server_listen_unix(tw->world->server, "/no/such/folder/s", 0600, &err),
		     STATUS_NOT_FOUND, err, "/no/such/folder/s");
	memset(path, 'p', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(rpc_server_listen_unix(tw->world->server, path, 0600, &err),
			 STATUS_INVALID_ARGUMENT);
	path[sizeof(path) - 2] = '\0';
	assert_int_not_equal(rpc_server_listen_unix(tw->world->server, path, 0600, &err),
			     STATUS_INVALID_ARGUMENT);
	(void)unlink(path);
}

TLS_TEST(freeing_the_server_removes_its_socket_but_not_that_of_a_successor)
{
	const char *path = world_path(tw->world, "successor");
	struct rpc_server *other = NULL;
	struct error err;

	assert_int_equal(rpc_server_new(tw->world->event, NULL, 0, NULL, NULL, &other, &err), STATUS_OK);
	assert_int_equal(rpc_server_listen_unix(other, path, 0600, &err), STATUS_OK);
	rpc_server_free(other);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(rpc_server_new(tw->world->event, NULL, 0, NULL, NULL, &other, &err), STATUS_OK);
	assert_int_equal(rpc_server_listen_unix(other, path, 0600, &err), STATUS_OK);
	assert_int_equal(unlink(path), 0);
	leave_socket(path);
	rpc_server_free(other);
	assert_int_equal(access(path, F_OK), 0);
}

TLS_TEST(a_port_in_use_is_named_with_the_next_step)
{
	char port[16];
	struct error err;

	(void)str_format(port, sizeof(port), "port %u", tw->port);
	assert_error(
		rpc_server_listen_tls(tw->world->server, "127.0.0.1", tw->port, tw->server_tls, NULL, &err),
		STATUS_FAILED_PRECONDITION, err, "127.0.0.1");
	assert_non_null(strstr(err.msg, port));
	assert_non_null(strstr(err.msg, "ss -tlnp"));
}

TLS_TEST(addresses_of_other_machines_are_refused)
{
	static const char *const no_address[] = {"", "localhost", "1.2.3.4.5", "::g", "127.0.0.1:80"};
	uint16_t port = 7;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(no_address); i++)
		assert_int_equal(rpc_server_listen_tls(tw->world->server, no_address[i], 0, tw->server_tls,
						       &port, &err),
				 STATUS_INVALID_ARGUMENT);
	assert_error(rpc_server_listen_tls(tw->world->server, "192.0.2.1", 0, tw->server_tls, &port, &err),
		     STATUS_FAILED_PRECONDITION, err, "192.0.2.1");
	assert_int_equal(port, 7);
}

TLS_TEST(ipv6_is_served_too_and_shown_in_brackets)
{
	struct rpc_client *client = NULL;
	struct rpc_endpoint endpoint = {.host = "::1", .tls = tw->node_tls, .server_uri = SERVER_URI};
	struct answer answer;
	struct error err;

	if (rpc_server_listen_tls(tw->world->server, "::1", 0, tw->server_tls, &endpoint.port, &err) !=
	    STATUS_OK) {
		print_message("this machine has no IPv6: %s\n", err.msg);
		skip();
	}
	assert_int_equal(rpc_client_new(tw->world->event, &endpoint, &client, &err), STATUS_OK);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_OK);
	assert_memory_equal(tw->world->peer.address, "[::1]:", 6);
	rpc_client_free(client);
}
