/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/client_internal.h"
#include "rpc/h2_io.h"
#include "rpc/timer.h"
#include "rpc/tls_session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

const struct client_timing client_timing_default = {
	.connect_us = 10 * USEC_PER_SEC,
	.keepalive_us = 10 * USEC_PER_SEC,
	/* one that was suspended or waited for its disk for so long comes back with all its streams */
	.silence_us = 20 * USEC_PER_SEC,
};

/* Bytes of requests and answers that wait in memory, where two answers of the largest size are not more. */
enum { HELD_MAX = 32 * 1024 * 1024 };

static void conn_ref(struct client_conn *conn)
{
	conn->refs++;
}

static void conn_unref(struct client_conn *conn)
{
	if (--conn->refs == 0)
		free(conn);
}

/* The server's goodbye explains the end better than the end does. */
static void add_farewell(struct client_conn *conn)
{
	size_t n = strlen(conn->why.msg);

	if (h2_farewell(conn->h2)[0] != '\0')
		(void)snprintf(conn->why.msg + n, sizeof(conn->why.msg) - n, ": %s", h2_farewell(conn->h2));
}

void client_conn_close(struct client_conn *conn, const struct error *why)
{
	if (!conn->is_open)
		return;
	conn->is_open = false;
	conn->why = *why;
	add_farewell(conn);
	LIST_REMOVE(conn, all);
	if (conn->client->current == conn)
		conn->client->current = NULL;
	dial_cancel(TAKE_PTR(conn->dial));
	conn->connect_timer = sd_event_source_disable_unref(conn->connect_timer);
	conn->keepalive_timer = sd_event_source_disable_unref(conn->keepalive_timer);
	if (conn->up)
		h2_goodbye(conn->h2);
	transport_free(conn->transport);
	conn->transport = NULL;
	h2_abort(conn->h2);
	h2_dispatch(conn->h2);
	h2_free(TAKE_PTR(conn->h2));
	conn_unref(conn);
}

static void lose(struct client_conn *conn, const struct error *why)
{
	const struct rpc_client *client = conn->client;

	if (conn->is_open && conn->up && client->on_lost)
		client->on_lost(client->userdata);
	conn_ref(conn);
	client_conn_close(conn, why);
	conn_unref(conn);
}

static int on_connect_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct client_conn *conn = userdata;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)source;
	(void)usec;
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "no connection within %s",
			clock_format_duration(conn->client->timing.connect_us, text));
	lose(conn, &err);
	return 0;
}

static int on_keepalive(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct client_conn *conn = userdata;
	const struct client_timing *timing = &conn->client->timing;
	uint64_t last_rx_us = transport_last_rx_us(conn->transport);
	uint64_t silent_us = clock_monotonic_us() - last_rx_us;
	uint64_t next_us = timing->keepalive_us;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)source;
	(void)usec;
	if (last_rx_us >= conn->pinged_us)
		conn->pinged_us = 0; /* the answer, or anything else: how long ago does not matter */
	if (conn->pinged_us != 0) {
		(void)error_set(&err, STATUS_UNAVAILABLE, 0, "the server has been silent for %s",
				clock_format_duration(silent_us, text));
		transport_fail(conn->transport, &err);
		return 0;
	}
	if (silent_us < timing->keepalive_us) {
		next_us -= silent_us;
	} else if (h2_ping(conn->h2, &err) == STATUS_OK) {
		conn->pinged_us = clock_monotonic_us();
		next_us = timing->silence_us;
	}
	(void)timer_arm(conn->client->event, &conn->keepalive_timer, next_us, on_keepalive, conn);
	return 0;
}

static void keepalive(struct client_conn *conn)
{
	struct rpc_client *client = conn->client;

	if (!conn->up || conn->n_streams == 0) {
		timer_disarm(conn->keepalive_timer);
		return;
	}
	conn->pinged_us = 0;
	/* memory short: TCP's own keepalive is left */
	if (timer_arm(client->event, &conn->keepalive_timer, client->timing.keepalive_us, on_keepalive,
		      conn) >= 0)
		/* a sign that has arrived counts, even if this process slept too long to see it in time */
		(void)sd_event_source_set_priority(conn->keepalive_timer, SD_EVENT_PRIORITY_IDLE);
}

void client_conn_count_stream(struct client_conn *conn, int change)
{
	conn->n_streams += (size_t)change;
	if (conn->is_open && (conn->n_streams == 0 || (change > 0 && conn->n_streams == 1)))
		keepalive(conn);
}

static void on_wake(void *userdata)
{
	struct client_conn *conn = userdata;

	if (conn->transport)
		transport_wake(conn->transport);
}

static void on_goaway(void *userdata)
{
	struct client_conn *conn = userdata;

	if (conn->client->current == conn)
		conn->client->current = NULL;
}

static void on_trailers(struct h2_stream *stream)
{
	(void)stream; /* a client sends none */
}

static const struct h2_ops h2_ops = {
	.on_begin = NULL,
	.on_header = client_call_on_header,
	.on_headers = client_call_on_headers,
	.on_trailers = on_trailers,
	.on_ready = client_call_on_ready,
	.on_wake = on_wake,
	.on_goaway = on_goaway,
};

/* The CA's word that this is the server we mean. */
static enum status check_identity(const struct client_conn *conn, struct error *err)
{
	const struct rpc_client *client = conn->client;
	char uri[RPC_URI_SIZE];

	if (!client->server_uri || !transport_ssl(conn->transport))
		return STATUS_OK;
	tls_session_peer_uri(transport_ssl(conn->transport), uri);
	if (str_eq(uri, client->server_uri))
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0, "the server is %s by its certificate, and not %s",
			 uri[0] ? uri : "nobody", client->server_uri);
}

static enum status on_up(void *userdata, struct error *err)
{
	struct client_conn *conn = userdata;
	enum status st = check_identity(conn, err);

	if (st != STATUS_OK)
		return st;
	timer_disarm(conn->connect_timer);
	conn->up = true;
	keepalive(conn);
	return STATUS_OK;
}

static enum status on_bytes(void *userdata, const uint8_t *bytes, size_t n, struct error *err)
{
	struct client_conn *conn = userdata;

	return h2_recv(conn->h2, bytes, n, err);
}

static enum status on_fill(void *userdata, struct error *err)
{
	struct client_conn *conn = userdata;

	return h2_fill(conn->h2, conn->transport, err);
}

static void on_edge(void *userdata)
{
	struct client_conn *conn = userdata;

	conn_ref(conn);
	h2_dispatch(conn->h2);
	conn_unref(conn);
}

static void on_down(void *userdata, const struct error *why)
{
	lose(userdata, why);
}

static const struct transport_ops transport_ops = {
	.on_up = on_up,
	.on_bytes = on_bytes,
	.on_fill = on_fill,
	.on_edge = on_edge,
	.on_down = on_down,
};

static pid_t listener_of(int fd)
{
	struct ucred peer = {0};
	socklen_t n = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid > 0 ? peer.pid : 0;
}

static void on_dialled(int fd, const struct error *err, void *userdata)
{
	struct client_conn *conn = userdata;
	struct rpc_client *client = conn->client;
	cleanup_close int owned_fd = fd;
	struct error failure;
	SSL *ssl = NULL;
	enum status st = STATUS_OK;

	conn->dial = NULL;
	if (fd < 0) {
		lose(conn, err);
		return;
	}
	if (client->unix_path)
		conn->peer = listener_of(fd);
	else
		st = tls_session_connect(client->tls, fd, &ssl, &failure);
	if (st == STATUS_OK)
		st = transport_new(client->poller, TAKE_FD(owned_fd), ssl, &transport_ops, conn,
				   &conn->transport, &failure);
	if (st != STATUS_OK)
		lose(conn, &failure);
}

static enum status start(struct client_conn *conn, struct error *err)
{
	struct rpc_client *client = conn->client;
	const struct h2_config config = {
		.held_max = client->message_bytes > HELD_MAX / 2 ? 2 * client->message_bytes : HELD_MAX,
		.header_max = RESPONSE_HEADERS_MAX,
	};
	enum status st;
	int r;

	st = h2_new(&config, &h2_ops, conn, &conn->h2, err);
	if (st != STATUS_OK)
		return st;
	r = timer_arm(client->event, &conn->connect_timer, client->timing.connect_us, on_connect_timeout,
		      conn);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a timer");
	if (client->unix_path)
		return dial_unix(client->event, client->unix_path, on_dialled, conn, &conn->dial, err);
	return dial_tcp(client->event, client->host, client->port, on_dialled, conn, &conn->dial, err);
}

enum status client_conn_get(struct rpc_client *client, struct client_conn **ret, struct error *err)
{
	struct client_conn *conn = client->current;
	enum status st;

	if (conn) {
		*ret = conn;
		return STATUS_OK;
	}
	conn = malloc(sizeof(*conn));
	if (!conn)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "connect to %s", client->name);
	*conn = (struct client_conn){.client = client, .refs = 1};
	st = start(conn, err);
	if (st != STATUS_OK) {
		dial_cancel(conn->dial);
		(void)sd_event_source_disable_unref(conn->connect_timer);
		h2_free(conn->h2);
		free(conn);
		return st;
	}
	conn->is_open = true;
	LIST_INSERT_HEAD(&client->conns, conn, all);
	client->current = conn;
	*ret = conn;
	return STATUS_OK;
}
