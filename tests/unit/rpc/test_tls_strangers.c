/* SPDX-License-Identifier: Apache-2.0 */
/* Peers without an identity, by OpenSSL alone: TLS messages without data, a handshake in pieces of one byte,
 * requests that do not end. */
#include "tls_world.h"
#include "unit_loop.h"

#include "rpc/server_internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

enum { MESSAGES_MAX = 32, READS_MAX = 32 };

#define REQUEST                                                                                   \
	"POST /holdfast.v1.Volumes/Get HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" \
	"Content-Length: 12\r\n\r\n{\"id\": \"db\"}"

static size_t n_reads;

ssize_t __real_recv(int fd, void *bytes, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);

/* A slow machine. */
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags)
{
	n_reads++;
	unit_clock_advance(100);
	return __real_recv(fd, bytes, n, flags);
}

/* A peer by OpenSSL alone. What it sends waits in a buffer for flush(). */
struct peer {
	struct tls_world *tw;
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
};

static void peer_close(struct peer *peer)
{
	SSL_free(peer->ssl);
	SSL_CTX_free(peer->ctx);
	(void)close(peer->fd);
}

static void peer_start(struct peer *peer, struct tls_world *tw, const SSL_METHOD *method, int fd)
{
	*peer = (struct peer){.tw = tw, .ctx = SSL_CTX_new(method), .fd = fd};
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(const int){1}, sizeof(int)), 0);
	if (method == TLS_server_method()) {
		assert_int_equal(SSL_CTX_use_certificate_file(peer->ctx, world_path(tw->world, "server.crt"),
							      SSL_FILETYPE_PEM),
				 1);
		assert_int_equal(SSL_CTX_use_PrivateKey_file(peer->ctx, world_path(tw->world, "server.key"),
							     SSL_FILETYPE_PEM),
				 1);
	}
	peer->ssl = NON_NULL(SSL_new(peer->ctx));
	SSL_set_bio(peer->ssl, BIO_new_socket(fd, BIO_NOCLOSE), BIO_new(BIO_s_mem()));
}

static void send_all(const struct peer *peer, const char *bytes, size_t n)
{
	assert_int_equal(send(peer->fd, bytes, n, MSG_NOSIGNAL), n);
}

static void flush(const struct peer *peer)
{
	BIO *out = SSL_get_wbio(peer->ssl);
	char *bytes;
	long n = BIO_get_mem_data(out, &bytes);

	if (n > 0)
		send_all(peer, bytes, (size_t)n);
	(void)BIO_reset(out);
}

static void shake_hands(const struct peer *peer)
{
	int r;

	while ((r = SSL_do_handshake(peer->ssl)) != 1) {
		assert_int_equal(SSL_get_error(peer->ssl, r), SSL_ERROR_WANT_READ);
		flush(peer);
		assert_true(sd_event_run(peer->tw->world->event, 1000) >= 0);
	}
	flush(peer);
	run_idle(peer->tw->world->event);
}

static int connect_to(const struct tls_world *tw)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons(tw->port),
					    .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void open_stranger(struct peer *peer, struct tls_world *tw)
{
	peer_start(peer, tw, TLS_client_method(), connect_to(tw));
	SSL_set_connect_state(peer->ssl);
}

static void put_key_updates(const struct peer *peer, int type, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(SSL_key_update(peer->ssl, type), 1);
		assert_int_equal(SSL_do_handshake(peer->ssl), 1);
	}
}

static void put_text(const struct peer *peer, const char *text, size_t n)
{
	assert_int_equal(SSL_write(peer->ssl, text, (int)n), n);
}

static void expect_answer(const struct peer *peer)
{
	char answer[4096] = "";

	run_idle(peer->tw->world->event);
	assert_true(SSL_read(peer->ssl, answer, sizeof(answer) - 1) > 0);
	assert_memory_equal(answer, "HTTP/1.1 200 OK", 15);
}

TLS_TEST(key_updates_without_data_end_their_connection)
{
	static const struct {
		int type;
		size_t n;
	} rows[] = {
		{SSL_KEY_UPDATE_NOT_REQUESTED, MESSAGES_MAX},
		{SSL_KEY_UPDATE_REQUESTED, MESSAGES_MAX / 2}, /* an answer counts */
	};
	struct answer answer;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct peer peer;

		open_stranger(&peer, tw);
		shake_hands(&peer);
		put_key_updates(&peer, rows[i].type, rows[i].n);
		put_text(&peer, REQUEST, strlen(REQUEST));
		flush(&peer);
		expect_answer(&peer);
		/* one at a time, too */
		for (size_t k = 0; k <= rows[i].n; k++) {
			assert_int_equal(tw->world->server->n_conns, 1);
			put_key_updates(&peer, rows[i].type, 1);
			flush(&peer);
			run_idle(tw->world->event);
		}
		assert_int_equal(tw->world->server->n_conns, 0);
		peer_close(&peer);
	}
	assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), STATUS_OK);
}

TLS_TEST(key_updates_between_data_are_taken)
{
	struct peer peer;

	open_stranger(&peer, tw);
	shake_hands(&peer);
	for (const char *c = REQUEST; *c != '\0'; c++) {
		put_key_updates(&peer, SSL_KEY_UPDATE_NOT_REQUESTED, 1);
		put_text(&peer, c, 1);
	}
	flush(&peer);
	expect_answer(&peer);
	peer_close(&peer);
}

/* Runs until nothing is due, and fails if one turn takes more records than it may. */
static void check_turns(const struct tls_world *tw)
{
	size_t before;

	do {
		before = n_reads;
		assert_true(sd_event_run(tw->world->event, 0) >= 0);
		assert_in_range(n_reads - before, 0, 2 * READS_MAX); /* its poller may serve it twice */
	} while (n_reads > before || !unit_clock_is_idle(sd_event_get_fd(tw->world->event)));
}

TLS_TEST(many_key_updates_are_left_to_later_turns)
{
	struct peer peer;

	open_stranger(&peer, tw);
	shake_hands(&peer);
	put_key_updates(&peer, SSL_KEY_UPDATE_NOT_REQUESTED, MESSAGES_MAX);
	put_text(&peer, REQUEST, strlen(REQUEST));
	flush(&peer);
	check_turns(tw);
	expect_answer(&peer);
	peer_close(&peer);
}

TLS_TEST(a_handshake_in_many_records_is_left_to_later_turns)
{
	struct peer peer;
	const char *hello;
	long n;

	open_stranger(&peer, tw);
	assert_int_equal(SSL_do_handshake(peer.ssl), -1);
	n = BIO_get_mem_data(SSL_get_wbio(peer.ssl), (char **)(uintptr_t)&hello);
	assert_true(n > 5 + 4 * READS_MAX);
	for (long i = 5; i < n; i++)
		send_all(&peer, (const char[]){hello[0], hello[1], hello[2], 0, 1, hello[i]}, 6);
	(void)BIO_reset(SSL_get_wbio(peer.ssl));
	check_turns(tw);
	shake_hands(&peer);
	put_text(&peer, REQUEST, strlen(REQUEST));
	flush(&peer);
	expect_answer(&peer);
	peer_close(&peer);
}

/* A literal field without indexing; returns its length. */
static size_t put_field(char *at, const char *name, const char *value)
{
	return (size_t)sprintf(at, "%c%c%s%c%s", 0, (char)strlen(name), name, (char)strlen(value), value);
}

TLS_TEST(headers_that_do_not_end_keep_no_connection_behind_a_call)
{
	char bytes[256] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	char *request = bytes + 24 + 9;
	struct peer peer;
	size_t n = 9;

	tw->world->server->timing.first_request_us = 1000 * USEC_PER_MSEC;
	n += put_field(request + n, ":method", "POST");
	n += put_field(request + n, ":scheme", "https");
	n += put_field(request + n, ":path", "/no.Such/Method");
	n += put_field(request + n, "content-type", "application/grpc");
	memcpy(request, (const char[]){0, 0, (char)(n - 9), 1, 5, 0, 0, 0, 1}, 9);
	memcpy(request + n, (const char[]){0, 0, 1, 1, 0, 0, 0, 0, 3, (char)0x83}, 10);
	open_stranger(&peer, tw);
	shake_hands(&peer);
	put_text(&peer, bytes, 24 + 9 + n + 10);
	flush(&peer);
	run_idle(tw->world->event);
	assert_int_equal(tw->world->server->n_conns, 1);
	run_for(tw->world->event, 1100);
	assert_int_equal(tw->world->server->n_conns, 0);
	peer_close(&peer);
}

static int select_h2(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		     const unsigned char *offered, unsigned int n, void *userdata)
{
	*out = (const unsigned char *)"h2";
	*out_len = 2;
	return SSL_TLSEXT_ERR_OK;
}

TLS_TEST(tickets_without_data_end_the_connection_of_a_client)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct rpc_client *client;
	struct answer answer;
	struct peer peer;

	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	tw->port = ntohs(address.sin_port);
	client = tls_world_client(tw, tw->node_tls, SERVER_URI);
	(void)world_get(tw->world, client, "db", WORLD_CALL_US, &answer);
	peer_start(&peer, tw, TLS_server_method(), accept4(fd, NULL, NULL, SOCK_CLOEXEC));
	SSL_CTX_set_alpn_select_cb(peer.ctx, select_h2, NULL);
	assert_int_equal(SSL_set_num_tickets(peer.ssl, 2), 1);
	SSL_set_accept_state(peer.ssl);
	shake_hands(&peer);
	assert_false(answer.done);
	for (size_t i = 2; i <= MESSAGES_MAX; i++) {
		assert_int_equal(SSL_new_session_ticket(peer.ssl), 1);
		assert_int_equal(SSL_do_handshake(peer.ssl), 1);
	}
	flush(&peer);
	world_run_until(tw->world, &answer.done);
	assert_error(answer.status, STATUS_UNAVAILABLE, answer.err, "TLS messages without data");
	peer_close(&peer);
	rpc_client_free(client);
	(void)close(fd);
}
