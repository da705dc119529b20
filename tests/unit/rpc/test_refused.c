/* SPDX-License-Identifier: Apache-2.0 */
/* Who is not let in, what is told about it on both sides, and what is counted. */

#include "tls_world.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "rpc/server_internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

/* What the server was told about refusals; the callback has no userdata of its own. */
static struct {
	size_t n;
	struct rpc_peer peer;
	struct error why;
} told;

static void on_refused(const struct rpc_peer *peer, const struct error *why, void *userdata)
{
	told.n++;
	told.peer = *peer;
	told.why = *why;
}

static int setup(void **state)
{
	struct tls_world *tw;

	if (tls_world_setup(state) != 0)
		return -1;
	tw = *state;
	told.n = 0;
	rpc_server_on_refused(tw->world->server, on_refused);
	return 0;
}

static X509 *read_cert(const char *path)
{
	FILE *file = fopen(path, "re");
	X509 *cert = NON_NULL(file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL);

	(void)fclose(file);
	return cert;
}

/* Sign the certificate @name again as one that ended a minute ago. */
static void expire(struct tls_world *tw, const char *name)
{
	char path[WORLD_PATH_SIZE + 8];
	FILE *file = fopen(world_path(tw->world, "ca.key"), "re");
	EVP_PKEY *key = NON_NULL(file ? PEM_read_PrivateKey(file, NULL, NULL, NULL) : NULL);
	X509 *cert;

	(void)fclose(file);
	(void)str_format(path, sizeof(path), "%s.crt", world_path(tw->world, name));
	cert = read_cert(path);
	assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), -3600));
	assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), -60));
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	file = NON_NULL(fopen(path, "we"));
	assert_int_equal(PEM_write_X509(file, cert), 1);
	assert_int_equal(fclose(file), 0);
	X509_free(cert);
	EVP_PKEY_free(key);
}

/* Load the identity @name of another CA than the server's, which it nevertheless trusts. */
static struct rpc_tls *load_intruder(struct tls_world *tw, const char *name)
{
	struct rpc_tls *tls = NULL;
	char cert[WORLD_PATH_SIZE + 8], key[WORLD_PATH_SIZE + 8];

	(void)str_format(cert, sizeof(cert), "%s.crt", world_path(tw->world, name));
	(void)str_format(key, sizeof(key), "%s.key", world_path(tw->world, name));
	assert_ok(rpc_tls_new(
		&(struct rpc_tls_files){.ca = world_path(tw->world, "ca.crt"), .cert = cert, .key = key},
		&tls, NULL));
	return tls;
}

#define CASE(name) TEST_ON(name, struct tls_world, tw, setup, tls_world_teardown)

CASE(a_refused_certificate_is_reported_to_both_sides)
{
	static const struct row {
		const char *ca;
		bool expired;
		const char *client; /* says */
		const char *server;
	} rows[] = {
		{"foreign", false, "another CA than theirs", "certificate"},
		{"ca", true, "our certificate has expired", "expired"},
	};

	tls_world_make_ca(tw, "foreign");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char name[16];
		struct rpc_client *client;
		struct rpc_tls *tls;
		struct answer answer;

		(void)str_format(name, sizeof(name), "refused%zu", i);
		tls_world_issue(tw, rows[i].ca, name, NODE_URI);
		if (rows[i].expired)
			expire(tw, name);
		tls = load_intruder(tw, name);
		client = tls_world_client(tw, tls, SERVER_URI);
		assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
		assert_msg(strstr(answer.err.msg, rows[i].client), "row %zu: %s", i, answer.err.msg);
		world_run_until_count(tw->world, &told.n, i + 1);
		assert_error(told.why.status, STATUS_UNAUTHENTICATED, told.why, rows[i].server);
		assert_memory_equal(told.peer.address, "127.0.0.1:", strlen("127.0.0.1:"));
		rpc_client_free(client);
		rpc_tls_free(tls);
	}
	assert_int_equal(tw->world->n_calls, 0);
	assert_int_equal(rpc_server_stats(tw->world->server).refused, ARRAY_SIZE(rows));
	assert_int_equal(rpc_server_stats(tw->world->server).accepted, ARRAY_SIZE(rows));
}

static int connect_to(struct tls_world *tw)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons(tw->port),
					    .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

/* A client of another CA, up to where it thinks that it has been let in. */
static SSL *shake_hands(struct tls_world *tw, SSL_CTX *ctx, int fd)
{
	SSL *ssl = SSL_new(ctx);
	int r = 0;

	assert_int_equal(SSL_set_fd(ssl, fd), 1);
	while (r != 1) {
		r = SSL_connect(ssl);
		assert_true(r == 1 || SSL_get_error(ssl, r) == SSL_ERROR_WANT_READ);
		if (r != 1)
			assert_true(sd_event_run(tw->world->event, 1000) >= 0);
	}
	return ssl;
}

static SSL_CTX *context_of(struct tls_world *tw, const char *cert, const char *key)
{
	static const unsigned char h2[] = "\x02h2";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	assert_int_equal(SSL_CTX_use_certificate_file(ctx, world_path(tw->world, cert), SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, world_path(tw->world, key), SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_set_alpn_protos(ctx, h2, sizeof(h2) - 1), 0);
	return ctx;
}

static SSL_CTX *intruder_context(struct tls_world *tw)
{
	tls_world_make_ca(tw, "foreign");
	tls_world_issue(tw, "foreign", "intruder", NODE_URI);
	return context_of(tw, "intruder.crt", "intruder.key");
}

CASE(a_client_that_continues_talking_still_gets_to_see_the_refusal)
{
	SSL_CTX *ctx = intruder_context(tw);
	int fd = connect_to(tw);
	SSL *ssl = shake_hands(tw, ctx, fd);
	char bytes[1000] = {0};

	/* with an ordinary close, what comes after it would be answered with a reset */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(SSL_write(ssl, bytes, sizeof(bytes)), sizeof(bytes));
		world_settle(tw->world);
	}
	assert_int_equal(told.n, 0); /* not yet at its end */
	assert_true(SSL_read(ssl, bytes, sizeof(bytes)) <= 0);
	assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_UNKNOWN_CA);
	SSL_free(ssl);
	(void)close(fd);
	world_run_until_count(tw->world, &told.n, 1);
	assert_int_equal(told.why.status, STATUS_UNAUTHENTICATED);
	SSL_CTX_free(ctx);
	world_settle(tw->world);
	assert_int_equal(tw->world->server->n_conns, 0);
}

CASE(a_refused_client_that_never_stops_talking_is_cut_off)
{
	SSL_CTX *ctx = intruder_context(tw);
	int fd = connect_to(tw);
	SSL *ssl = shake_hands(tw, ctx, fd);
	static char bytes[16000];

	for (int i = 0; i < 1000 && told.n == 0; i++) {
		(void)SSL_write(ssl, bytes, sizeof(bytes));
		world_settle(tw->world);
	}
	assert_int_equal(told.n, 1);
	assert_int_equal(told.why.status, STATUS_UNAUTHENTICATED);
	SSL_free(ssl);
	(void)close(fd);
	SSL_CTX_free(ctx);
}

CASE(a_refused_client_that_stays_silent_goes_when_its_time_is_up)
{
	SSL_CTX *ctx = intruder_context(tw);
	SSL *ssl;
	int fd;

	tw->world->server->timing.handshake_us = 1000 * USEC_PER_MSEC;
	fd = connect_to(tw);
	ssl = shake_hands(tw, ctx, fd);
	world_run_until_count(tw->world, &told.n, 1);
	assert_int_equal(told.why.status, STATUS_UNAUTHENTICATED);
	SSL_free(ssl);
	(void)close(fd);
	SSL_CTX_free(ctx);
}

CASE(an_identity_may_have_as_many_connections_as_its_limit_and_no_more)
{
	struct rpc_client *clients[4];
	struct answer answer;

	tw->world->server->limits.per_identity = 3;
	tw->world->server->limits.per_address = 1; /* it does not count once they are known */
	for (size_t i = 0; i < 4; i++) {
		clients[i] = tls_world_client(tw, tw->node_tls, SERVER_URI);
		assert_int_equal(world_get_now(tw->world, clients[i], "db", &answer),
				 i < 3 ? STATUS_OK : STATUS_UNAVAILABLE);
	}
	assert_non_null(strstr(answer.err.msg, "3 connections of " NODE_URI " are open already"));
	world_run_until_count(tw->world, &told.n, 1);
	world_settle(tw->world);
	assert_int_equal(tw->world->server->n_conns, 3); /* the refused one has closed */
	assert_error(told.why.status, STATUS_RESOURCE_EXHAUSTED, told.why, NODE_URI);
	assert_non_null(strstr(told.why.msg, "3"));
	/* one that goes makes room for another */
	rpc_client_free(clients[0]);
	world_settle(tw->world);
	assert_int_equal(world_get_now(tw->world, clients[3], "db", &answer), STATUS_OK);
	assert_int_equal(told.n, 1);
	for (size_t i = 1; i < 4; i++)
		rpc_client_free(clients[i]);
}

CASE(one_too_many_that_stays_all_the_same_goes_when_its_time_is_up)
{
	static const char begin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
	struct answer answer;
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;

	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
	tw->world->server->limits.per_identity = 1;
	tw->world->server->timing.handshake_us = 1000 * USEC_PER_MSEC;
	tls_world_issue(tw, "ca", "again", NODE_URI);
	ctx = context_of(tw, "again.crt", "again.key");
	fd = connect_to(tw);
	ssl = shake_hands(tw, ctx, fd);
	assert_int_equal(SSL_write(ssl, begin, sizeof(begin)), sizeof(begin));
	world_run_until_count(tw->world, &told.n, 1);
	assert_int_equal(tw->world->server->n_conns, 2);
	while (tw->world->server->n_conns == 2)
		assert_true(sd_event_run(tw->world->event, 1000000) >= 0);
	assert_int_equal(told.n, 1);
	SSL_free(ssl);
	(void)close(fd);
	SSL_CTX_free(ctx);
}

CASE(an_address_may_have_as_many_strangers_as_its_limit_and_no_more)
{
	struct rpc_tls *nobody = tls_world_load(tw, "ca", NULL);
	struct rpc_client *clients[4];
	struct answer answer, held[3];

	tw->world->server->limits.per_address = 3;
	for (size_t i = 0; i < 4; i++)
		clients[i] = tls_world_client(tw, nobody, SERVER_URI);
	for (size_t i = 0; i < 3; i++) {
		(void)world_get(tw->world, clients[i], "hold", WORLD_CALL_US, &held[i]);
		world_run_until_count(tw->world, &tw->world->n_held, i + 1);
	}
	assert_int_equal(world_get_now(tw->world, clients[3], "db", &answer), STATUS_UNAVAILABLE);
	assert_int_equal(told.n, 1);
	assert_error(told.why.status, STATUS_RESOURCE_EXHAUSTED, told.why, "127.0.0.1");
	for (size_t i = 0; i < 4; i++)
		rpc_client_free(clients[i]);
	for (size_t i = 0; i < 3; i++)
		world_answer(TAKE_PTR(tw->world->held[i]), "late");
	world_settle(tw->world);
	assert_true(RB_EMPTY(&tw->world->server->peers));
	rpc_tls_free(nobody);
}

CASE(strangers_of_an_ipv6_network_count_together)
{
	struct rpc_endpoint endpoint = {.host = "::1", .tls = tw->node_tls, .server_uri = SERVER_URI};
	struct rpc_server *server = tw->world->server;
	struct rpc_client *client;
	struct answer answer;
	struct error err;

	if (rpc_server_listen_tls(server, "::1", 0, tw->server_tls, &endpoint.port, &err) != STATUS_OK)
		skip(); /* this machine has no IPv6 */
	server->limits.per_address = 0;
	assert_int_equal(rpc_client_new(tw->world->event, &endpoint, &client, &err), STATUS_OK);
	assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_UNAVAILABLE);
	assert_error(told.why.status, STATUS_RESOURCE_EXHAUSTED, told.why, "of ::/64 are open");
	rpc_client_free(client);
}

static void half_open(struct tls_world *tw, const char *bytes, int fds[static 3])
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(tw->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};

	for (size_t i = 0; i < 3; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fds[i], (const struct sockaddr *)&address, sizeof(address)), 0);
		assert_int_equal(send(fds[i], bytes, strlen(bytes), 0), strlen(bytes));
	}
	while (tw->world->server->n_conns < 3)
		assert_true(sd_event_run(tw->world->event, WORLD_CALL_US) > 0);
	world_settle(tw->world);
}

enum { STRANGERS = 3 };

/* Clients without a certificate, connected and idle, the first one for longest. */
static struct rpc_tls *open_strangers(struct tls_world *tw, struct rpc_client *ret[static STRANGERS])
{
	struct rpc_tls *nobody = tls_world_load(tw, "ca", NULL);
	struct answer answer;

	for (size_t i = 0; i < STRANGERS; i++) {
		ret[i] = tls_world_client(tw, nobody, SERVER_URI);
		assert_int_equal(world_get_now(tw->world, ret[i], "db", &answer), STATUS_OK);
	}
	world_settle(tw->world);
	return nobody;
}

static void close_strangers(struct rpc_tls *nobody, struct rpc_client *clients[static STRANGERS])
{
	for (size_t i = 0; i < STRANGERS; i++)
		rpc_client_free(clients[i]);
	rpc_tls_free(nobody);
}

CASE(a_stranger_without_a_call_is_disconnected)
{
	struct rpc_server *server = tw->world->server;
	struct rpc_client *strangers[STRANGERS];
	struct answer answer, held;
	struct rpc_tls *nobody;

	server->timing.first_request_us = 1000 * USEC_PER_MSEC;
	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
	nobody = open_strangers(tw, strangers);
	(void)world_get(tw->world, strangers[0], "hold", WORLD_CALL_US, &held);
	world_run_until_count(tw->world, &tw->world->n_held, 1);
	/* a call in between does not count */
	assert_int_equal(world_get_now(tw->world, strangers[0], "db", &answer), STATUS_OK);
	assert_int_equal(server->n_conns, 1 + STRANGERS);
	run_for(tw->world->event, 2000);
	assert_int_equal(server->n_conns, 2); /* with an identity, and with a call */
	world_answer(TAKE_PTR(tw->world->held[0]), "late");
	world_run_until(tw->world, &held.done);
	assert_int_equal(held.status, STATUS_OK);
	run_for(tw->world->event, 2000);
	assert_int_equal(server->n_conns, 1);
	assert_int_equal(told.n, 0);
	/* and may come again */
	assert_int_equal(world_get_now(tw->world, strangers[1], "db", &answer), STATUS_OK);
	close_strangers(nobody, strangers);
}

CASE(idle_strangers_give_their_place_to_others_before_silent_ones)
{
	struct rpc_server *server = tw->world->server;
	struct answer answer;
	uint64_t n_accepted;

	/* of their address, then of all together */
	for (size_t i = 0; i < 2; i++) {
		struct rpc_client *client = tls_world_client(tw, tw->node_tls, SERVER_URI);
		struct rpc_client *strangers[STRANGERS];
		struct rpc_tls *nobody;
		int fds[3];

		told.n = 0;
		half_open(tw, "", fds);
		nobody = open_strangers(tw, strangers);
		server->limits.per_address = i == 0 ? 3 + STRANGERS : 100;
		server->limits.connections = i == 0 ? 100 : 3 + STRANGERS;
		(void)world_get_now(tw->world, strangers[0], "db",
				    &answer); /* the second is idle for longest */
		assert_int_equal(world_get_now(tw->world, client, "db", &answer), STATUS_OK);
		assert_int_equal(told.n, 1);
		assert_error(told.why.status, STATUS_RESOURCE_EXHAUSTED, told.why,
			     "idle without an identity");
		assert_int_equal(server->n_conns, 3 + STRANGERS);
		n_accepted = rpc_server_stats(server).accepted;
		assert_int_equal(world_get_now(tw->world, strangers[0], "db", &answer), STATUS_OK);
		assert_int_equal(world_get_now(tw->world, strangers[2], "db", &answer), STATUS_OK);
		assert_int_equal(rpc_server_stats(server).accepted, n_accepted);
		close_strangers(nobody, strangers);
		rpc_client_free(client);
		for (size_t k = 0; k < 3; k++)
			(void)close(fds[k]);
		while (server->n_conns > 0)
			assert_true(sd_event_run(tw->world->event, WORLD_CALL_US) > 0);
		assert_true(TAILQ_EMPTY(&server->idle));
	}
	assert_true(RB_EMPTY(&server->peers));
}

CASE(connections_that_do_not_shake_hands_give_their_place_to_others)
{
	static const struct {
		const char *bytes;
		uint64_t crowded_us;
		enum status status;
	} rows[] = {
		{"", WORLD_CALL_US, STATUS_OK},		     /* silent */
		{"\x16", WORLD_CALL_US, STATUS_UNAVAILABLE}, /* they have begun, a moment ago */
		{"\x16", 0, STATUS_OK},			     /* that is some time ago */
	};
	struct rpc_server *server = tw->world->server;
	struct answer answer;
	int fds[3];

	/* of its address, then of all together */
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		struct rpc_client *client = tls_world_client(tw, tw->node_tls, SERVER_URI);

		server->limits.per_address = i % 2 ? 100 : 3;
		server->limits.connections = i % 2 ? 3 : 100;
		server->timing.crowded_us = rows[i / 2].crowded_us;
		half_open(tw, rows[i / 2].bytes, fds);
		assert_int_equal(world_get_now(tw->world, client, "db", &answer), rows[i / 2].status);
		rpc_client_free(client);
		for (size_t k = 0; k < 3; k++)
			(void)close(fds[k]);
		while (server->n_conns > 0)
			assert_true(sd_event_run(tw->world->event, WORLD_CALL_US) > 0);
		assert_true(TAILQ_EMPTY(&server->starting));
	}
	assert_true(RB_EMPTY(&server->peers));
}

struct tally {
	uint64_t n[STATUS_N], streams[STATUS_N];
};

static void add(const char *service, const char *method, enum status status, uint64_t n, void *userdata)
{
	struct tally *tally = userdata;

	if (str_eq(service, "holdfast.v1.Volumes") && str_eq(method, "Get"))
		tally->n[status] += n;
	else if (str_eq(service, "holdfast.v1.Nodes") && str_eq(method, "Session"))
		tally->streams[status] += n;
	else
		fail_msg("%s/%s", service, method);
}

CASE(calls_are_counted_by_method_and_how_they_ended)
{
	struct world *world = tw->world;
	struct tally tally = {.n = {0}};
	struct session session;
	struct answer answer;

	for (int i = 0; i < 3; i++)
		assert_int_equal(world_get_now(world, tw->client, "db", &answer), STATUS_OK);
	assert_int_equal(world_get_now(world, tw->client, "missing", &answer), STATUS_NOT_FOUND);
	(void)world_get(world, tw->client, "hold", 20 * USEC_PER_MSEC, &answer);
	world_run_until(world, &answer.done); /* the deadline of the server or of the client */
	world_run_until_count(world, &world->n_held, 1);
	world_answer(TAKE_PTR(world->held[0]), "late");
	session_open(&session, world, tw->client);
	session_say(&session, "finish");
	world_run_until(world, &session.closed);
	session_open(&session, world, tw->client);
	session_say(&session, "echo");
	world_run_until_count(world, &session.n_messages, 1);
	assert_int_equal(rpc_server_stats(world->server).streams, 1);
	rpc_stream_cancel(session.stream);
	world_run_until_count(world, &world->n_closed, 2);
	assert_int_equal(rpc_server_stats(world->server).streams, 0);
	assert_int_equal(rpc_server_stats(world->server).connections, 1);
	rpc_server_each_count(world->server, add, &tally);
	assert_int_equal(tally.n[STATUS_OK] + tally.n[STATUS_DEADLINE_EXCEEDED], 4);
	assert_true(tally.n[STATUS_OK] >= 3);
	assert_int_equal(tally.n[STATUS_NOT_FOUND], 1);
	assert_int_equal(tally.streams[STATUS_OK], 1);
	assert_int_equal(tally.streams[STATUS_CANCELLED], 1);
}
