/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_world.h"

#include "base/clock.h"
#include "base/fd.h"
#include "rpc/client_internal.h"
#include "rpc/server_internal.h"
#include "rpc/tls_session.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

TLS_TEST(a_call_is_answered_over_tls_and_carries_the_identity)
{
	struct answer answer;

	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
	assert_string_equal(answer.id, "db");
	assert_int_equal(tw->world->peer.kind, RPC_PEER_TLS);
	assert_string_equal(tw->world->peer.uri, NODE_URI);
	assert_memory_equal(tw->world->peer.address, "127.0.0.1:", strlen("127.0.0.1:"));
}

TLS_TEST(a_client_without_a_certificate_has_no_identity)
{
	struct rpc_tls *tls = tls_world_load(tw, "ca", NULL);
	struct rpc_client *client = tls_world_client(tw, tls, NULL);
	struct answer answer;

	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_OK);
	assert_int_equal(tw->world->peer.kind, RPC_PEER_TLS);
	assert_string_equal(tw->world->peer.uri, "");
	rpc_client_free(client);
	rpc_tls_free(tls);
}

TLS_TEST(a_server_of_another_ca_is_not_spoken_to)
{
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

TLS_TEST(a_client_certificate_of_another_ca_is_refused)
{
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct answer answer;
	struct error err;

	tls_world_make_ca(tw, "foreign");
	tls_world_issue(tw, "foreign", "intruder", NODE_URI);
	tls = NULL;
	assert_ok(rpc_tls_new(&(struct rpc_tls_files){.ca = world_path(tw->world, "ca.crt"),
						      .cert = world_path(tw->world, "intruder.crt"),
						      .key = world_path(tw->world, "intruder.key")},
			      &tls, &err));
	client = tls_world_client(tw, tls, SERVER_URI);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_int_equal(tw->world->n_calls, 0);
	rpc_client_free(client);
	rpc_tls_free(tls);
}

TLS_TEST(a_server_with_another_identity_is_not_spoken_to)
{
	struct rpc_client *client = tls_world_client(tw, tw->node_tls, "holdfast://lab/server/s2");
	struct answer answer;

	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_non_null(strstr(answer.err.msg, SERVER_URI));
	assert_non_null(strstr(answer.err.msg, "holdfast://lab/server/s2"));
	assert_int_equal(tw->world->n_calls, 0);
	rpc_client_free(client);
}

TLS_TEST(calls_and_streams_of_any_size_pass_through_tls)
{
	struct session session;
	struct answer answer;

	tw->world->answer_bytes = 3000000;
	assert_int_equal(world_get_now(tw->world, tw->client, "huge", &answer), STATUS_OK);
	assert_int_equal(answer.why_len, 3000000);
	session_open(&session, tw->world, tw->client);
	for (int i = 0; i < 300; i++)
		session_say(&session, "echo");
	world_run_until_count(tw->world, &session.n_messages, 300);
	rpc_stream_cancel(session.stream);
	world_run_until_count(tw->world, &tw->world->n_closed, 1);
}

static void work_on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const uint64_t end = clock_monotonic_us() + 100;
	struct world *world = userdata;

	world->n_messages++;
	while (clock_monotonic_us() < end)
		;
}

/* A record of 16 KiB leaves the socket at once; who stops reading after 1 ms comes back for the rest. */
TLS_TEST(messages_that_openssl_has_taken_from_the_socket_are_read_in_later_turns)
{
	enum { MESSAGES = 2200 }; /* of 7 bytes: one record */
	struct session session;

	tw->world->handlers.on_message = work_on_message;
	tw->client->timing.keepalive_us = WORLD_CALL_US * 100; /* no PING brings the server back to it */
	session_open(&session, tw->world, tw->client);
	world_run_until(tw->world, &session.opened);
	for (int i = 0; i < MESSAGES; i++)
		session_say(&session, "");
	world_run_until_count(tw->world, &tw->world->n_messages, MESSAGES);
	rpc_stream_cancel(session.stream);
}

TLS_TEST(a_name_is_resolved_when_connecting)
{
	const struct rpc_endpoint good = {.host = "localhost", .port = tw->port, .tls = tw->node_tls};
	const struct rpc_endpoint bad = {
		.host = "no.such.host.invalid", .port = tw->port, .tls = tw->node_tls};
	struct rpc_client *client = NULL;
	struct answer answer;
	struct error err;

	assert_int_equal(rpc_client_new(tw->world->event, &good, &client, &err), STATUS_OK);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_OK);
	rpc_client_free(client);
	assert_int_equal(rpc_client_new(tw->world->event, &bad, &client, &err), STATUS_OK);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_non_null(strstr(answer.err.msg, "no.such.host.invalid"));
	/* and nobody waits for the thread that is still asking */
	(void)world_get(tw->world, client, "db", WORLD_CALL_US, &answer);
	rpc_client_free(client);
	assert_int_equal(answer.status, STATUS_CANCELLED);
}

TLS_TEST(a_port_without_a_listener_is_named)
{
	struct rpc_client *client;
	struct answer answer;

	rpc_server_free(TAKE_PTR(tw->world->server));
	client = tls_world_client(tw, tw->node_tls, NULL);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_non_null(strstr(answer.err.msg, "127.0.0.1:"));
	assert_non_null(strstr(answer.err.msg, "refused"));
	rpc_client_free(client);
}

/* A connection to the TLS port without TLS on it. */
static int connect_plain(const struct tls_world *tw)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(tw->port),
		.sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int on_plain_end(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	char bytes[256];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n > 0)
		return 0;
	*(bool *)userdata = true;
	return sd_event_source_set_enabled(source, SD_EVENT_OFF);
}

static void wait_for_end(struct tls_world *tw, int fd)
{
	sd_event_source *io = NULL;
	bool ended = false;

	assert_true(sd_event_add_io(tw->world->event, &io, fd, EPOLLIN, on_plain_end, &ended) >= 0);
	world_run_until(tw->world, &ended);
	(void)sd_event_source_disable_unref(io);
}

TLS_TEST(broken_tls_ends_only_its_connection)
{
	static const uint8_t hello[] = {0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3};
	struct answer answer;

	for (size_t n = 0; n <= sizeof(hello); n++) {
		int fd = connect_plain(tw);

		assert_int_equal(send(fd, hello, n, MSG_NOSIGNAL), n);
		(void)shutdown(fd, SHUT_WR);
		wait_for_end(tw, fd);
		(void)close(fd);
	}
	for (unsigned int seed = 0; seed < 50; seed++) {
		unsigned int state_of_seed = seed;
		uint8_t bytes[300];
		int fd = connect_plain(tw);

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)rand_r(&state_of_seed);
		(void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
		(void)shutdown(fd, SHUT_WR);
		wait_for_end(tw, fd);
		(void)close(fd);
	}
	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
	assert_int_equal(tw->world->server->n_conns, 1);
}

TLS_TEST(a_handshake_that_does_not_end_is_ended)
{
	int fd;

	tw->world->server->timing.handshake_us = 30 * USEC_PER_MSEC;
	fd = connect_plain(tw);
	wait_for_end(tw, fd);
	(void)close(fd);
	assert_int_equal(tw->world->server->n_conns, 0);
}

TLS_TEST(a_server_that_accepts_and_reports_nothing_is_given_up)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct rpc_client *client;
	struct answer answer;

	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	tw->port = ntohs(address.sin_port);
	client = tls_world_client(tw, tw->node_tls, NULL);
	client->timing.connect_us = 30 * USEC_PER_MSEC;
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_non_null(strstr(answer.err.msg, "no connection within"));
	assert_int_equal(answer.err.sys_errno, ETIMEDOUT); /* the CLI advises by it */
	rpc_client_free(client);
	(void)close(fd);
}

TLS_TEST(reloading_counts_for_new_connections_and_a_broken_file_changes_nothing)
{
	struct rpc_client *later;
	struct answer answer;
	struct error err;

	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
	assert_int_equal(file_write_atomic(world_path(tw->world, "server.crt"), 0644, "rubbish", 7), 0);
	assert_error(rpc_tls_reload(tw->server_tls, &err), STATUS_INVALID_ARGUMENT, err, "server.crt");
	later = tls_world_client(tw, tw->node_tls, SERVER_URI);
	assert_int_equal(world_get_now(tw->world, later, "db", &answer), STATUS_OK);
	rpc_client_free(later);
	assert_int_equal(unlink(world_path(tw->world, "server.crt")), 0);
	assert_int_equal(unlink(world_path(tw->world, "server.key")), 0);
	tls_world_issue(tw, "ca", "server", "holdfast://lab/server/renewed");
	assert_int_equal(rpc_tls_reload(tw->server_tls, &err), STATUS_OK);
	later = tls_world_client(tw, tw->node_tls, "holdfast://lab/server/renewed");
	assert_int_equal(world_get_now(tw->world, later, "db", &answer), STATUS_OK);
	rpc_client_free(later);
	/* the old connection continues under the old identity */
	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
}

/* How a peer that is not us shakes hands. */
struct stranger {
	int max_version;
	const unsigned char *alpn; /* NULL: none */
	unsigned int alpn_len;
	bool accepted;
};

TLS_TEST(tls_below_13_and_other_protocols_are_refused)
{
	static const unsigned char h2[] = "\x02h2", old[] = "\x06spdy/3";
	static const struct stranger strangers[] = {
		{TLS1_3_VERSION, h2, sizeof(h2) - 1, true},
		{TLS1_2_VERSION, h2, sizeof(h2) - 1, false},
		{TLS1_3_VERSION, old, sizeof(old) - 1, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++) {
		SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
		SSL *ssl;
		int fd = connect_plain(tw);
		int r = -1;

		assert_int_equal(SSL_CTX_set_max_proto_version(ctx, strangers[i].max_version), 1);
		assert_int_equal(SSL_CTX_set_alpn_protos(ctx, strangers[i].alpn, strangers[i].alpn_len), 0);
		ssl = SSL_new(ctx);
		assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(SSL_set_fd(ssl, fd), 1);
		for (int turn = 0; turn < 100000; turn++) {
			int error;

			r = SSL_connect(ssl);
			error = SSL_get_error(ssl, r);
			if (r == 1 || (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE))
				break;
			assert_true(sd_event_run(tw->world->event, 1000) >= 0);
		}
		assert_int_equal(r == 1, strangers[i].accepted);
		SSL_free(ssl);
		SSL_CTX_free(ctx);
		(void)close(fd);
		world_settle(tw->world);
	}
}

TLS_TEST(a_server_without_a_certificate_cannot_listen_to_anybody)
{
	struct rpc_tls *tls = tls_world_load(tw, "ca", NULL);
	SSL *ssl = NULL;
	struct error err;

	assert_error(tls_session_accept(tls, 0, &ssl, &err), STATUS_FAILED_PRECONDITION, err, "ca.crt");
	assert_int_equal(rpc_server_listen_tls(tw->world->server, "127.0.0.1", 0, tls, NULL, &err),
			 STATUS_FAILED_PRECONDITION);
	rpc_tls_free(tls);
}
