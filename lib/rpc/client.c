/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/client.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/bearer.h"
#include "rpc/caller.h"
#include "rpc/client_internal.h"
#include "rpc/grpc_timeout.h"
#include "rpc/h2_io.h"
#include "rpc/request_head.h"
#include "rpc/timer.h"
#include "rpc/tls_session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The connection that takes new calls. */
static enum status client_conn_get(struct rpc_client *client, struct client_conn **ret, struct error *err);

char *client_call_name(const struct client_call *call, char name[static CALL_NAME_SIZE])
{
	const struct rpc_client *client = call->client;
	const struct client_conn *conn = call->conn;
	char server[RPC_SERVER_NAME_SIZE];
	bool is_one_of_several = client->n_servers > 1 && conn && conn->up;

	(void)snprintf(name, CALL_NAME_SIZE, "%s/%s at %s", call->service->name, call->method->name,
		       is_one_of_several ? rpc_address_text(&client->servers[conn->at], server)
					 : client->name);
	return name;
}

/* A secret stays out of the tables of HPACK. */
static nghttp2_nv authorization_header(const char *value)
{
	nghttp2_nv header = h2_header("authorization", value);

	header.flags = NGHTTP2_NV_FLAG_NO_INDEX;
	return header;
}

/* The texts of the headers of a call that is made for another caller. */
struct behalf_headers {
	char caller[REQUEST_CALLER_MAX + 1];
	char authorization[sizeof("Bearer ") + BEARER_MAX];
};

static enum status add_behalf(const struct rpc_behalf *behalf, struct behalf_headers *texts,
			      nghttp2_nv *headers, size_t *n, struct error *err)
{
	if (!behalf)
		return STATUS_OK;
	TRY(caller_format(behalf->peer, texts->caller, err));
	headers[(*n)++] = h2_header(RPC_CALLER_HEADER, texts->caller);
	if (!behalf->token)
		return STATUS_OK;
	(void)str_format(texts->authorization, sizeof(texts->authorization), "Bearer %s", behalf->token);
	headers[(*n)++] = authorization_header(texts->authorization);
	return STATUS_OK;
}

static enum status submit(struct client_call *call, uint64_t timeout_us, struct error *err)
{
	char timeout[GRPC_TIMEOUT_SIZE];
	char path[REQUEST_PATH_MAX + 1];
	struct behalf_headers behalf;
	nghttp2_nv headers[12];
	enum status status;
	size_t n = 0;

	if (str_format(path, sizeof(path), "/%s/%s", call->service->name, call->method->name) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the method's name is too long");
	headers[n++] = h2_header(":method", "POST");
	headers[n++] = h2_header(":scheme", call->client->unix_path ? "http" : "https");
	headers[n++] = h2_header(":path", path);
	/* servers refuse the path of a socket and an empty name here, and take this one everywhere */
	headers[n++] = h2_header(":authority", "localhost");
	headers[n++] = h2_header("te", "trailers");
	headers[n++] = h2_header("content-type", "application/grpc");
	headers[n++] = h2_header("grpc-accept-encoding", "identity");
	headers[n++] = h2_header("user-agent", "holdfast");
	if (timeout_us > 0)
		headers[n++] = h2_header("grpc-timeout", grpc_timeout_format(timeout_us, timeout));
	if (call->client->authorization)
		headers[n++] = authorization_header(call->client->authorization);
	status = add_behalf(call->behalf, &behalf, headers, &n, err);
	if (status == STATUS_OK)
		status = h2_stream_request(call->conn->h2, &call->stream, headers, n, err);
	explicit_bzero(behalf.authorization, sizeof(behalf.authorization));
	return status;
}

enum status client_call_arm(struct client_call *call, uint64_t delay_us, sd_event_time_handler_t handler,
			    struct error *err)
{
	int r = timer_arm(call->client->event, &call->timer, delay_us, handler, call);

	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a deadline") : STATUS_OK;
}

enum status client_call_start(struct client_call *call, uint64_t timeout_us, struct error *err)
{
	struct rpc_client *client = call->client;
	uint64_t now_us = clock_monotonic_us();
	enum status status;

	if (client->closing)
		return error_set(err, STATUS_CANCELLED, 0, "the client of %s is being closed", client->name);
	call->deadline_us =
		timeout_us == 0 || timeout_us > UINT64_MAX - now_us ? UINT64_MAX : now_us + timeout_us;
	status = client_conn_get(client, &call->conn, err);
	if (status == STATUS_OK)
		status = submit(call, timeout_us, err);
	call->behalf = NULL;
	if (status != STATUS_OK)
		return status;
	LIST_INSERT_HEAD(&client->calls, call, all);
	return STATUS_OK;
}

static void reap_soon(struct rpc_client *client)
{
	(void)sd_event_source_set_enabled(client->reaper, SD_EVENT_ONESHOT); /* cannot fail */
}

void client_call_unlink(struct client_call *call)
{
	if (call->conn != call->client->current)
		reap_soon(call->client);
	LIST_REMOVE(call, all);
	call->timer = sd_event_source_disable_unref(call->timer);
	h2_stream_detach(&call->stream);
	response_head_release(&call->head);
}

/* Not on a connection that was never established, and not if the server reports that it has not read the
 * call. */
static bool may_have_begun(const struct client_call *call)
{
	return call->conn->up && !call->head.has_changed_nothing &&
	       !(call->stream.closed && call->stream.close_code == NGHTTP2_REFUSED_STREAM);
}

void client_call_end(struct client_call *call, enum status status, const struct error *err)
{
	details_release(&call->client->details);
	call->client->details = call->head.details;
	call->head.details = (struct details){.bytes = NULL};
	call->client->has_message = call->is_servers_error;
	call->client->may_have_begun = may_have_begun(call);
	call->client->was_refused = call->conn->is_open && call->stream.closed &&
				    call->stream.close_code == NGHTTP2_REFUSED_STREAM;
	if (call->is_servers_error)
		(void)memcpy(call->client->server_message, call->head.message,
			     sizeof(call->client->server_message));
	client_call_unlink(call);
	call->ops->on_end(call, status, status == STATUS_OK ? NULL : err);
}

static void client_call_on_header(struct h2_stream *stream, const uint8_t *name, size_t name_len,
				  const uint8_t *value, size_t value_len)
{
	struct client_call *call = stream->owner;

	response_head_add(&call->head, name, name_len, value, value_len);
}

static bool client_call_on_headers(struct h2_stream *stream)
{
	struct client_call *call = stream->owner;

	if (stream->headers_in)
		return false;
	if (call->head.http_status >= 100 && call->head.http_status < 200) {
		response_head_release(&call->head);
		call->head = (struct response_head){0};
		return false;
	}
	call->accepted = call->head.http_status == 200 && call->head.is_grpc && !call->head.has_status;
	return true;
}

enum message_result client_call_read(struct client_call *call, ProtobufCMessage **ret, struct error *err)
{
	enum message_result result =
		message_read(&call->stream, call->method->output, call->client->message_bytes, ret, err);

	/* a server would report this of a request; here it must not look as if nothing had been done */
	if (result == MESSAGE_REFUSED && err->status == STATUS_UNIMPLEMENTED)
		(void)error_set(err, STATUS_INTERNAL, 0,
				"the answer is compressed, though identity was asked for");
	return result;
}

/* Has the server sent the end of its answer? */
static bool is_over(const struct client_call *call)
{
	return call->stream.in_end && call->stream.headers_in;
}

/* ... and is it an error of its own? */
static bool is_servers_error(const struct client_call *call)
{
	return is_over(call) && response_head_is_error(&call->head);
}

/* How a call whose stream is closed went. */
static enum status result(const struct client_call *call, struct error *err)
{
	const struct client_conn *conn = call->conn;
	char name[CALL_NAME_SIZE];

	(void)client_call_name(call, name);
	if (is_over(call))
		return response_head_status(&call->head, name, err);
	if (clock_monotonic_us() >= call->deadline_us) /* the server's clock may have been quicker */
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
				 "%s: no answer in time; it may still be carried out", name);
	if (!conn->is_open) {
		(void)error_set(err, STATUS_UNAVAILABLE, 0, "%s: %s%s", name,
				conn->up ? "connection lost: " : "cannot connect: ", conn->why.msg);
		err->sys_errno = conn->why.sys_errno; /* its text is in the message already */
		return STATUS_UNAVAILABLE;
	}
	if (call->stream.close_code == NGHTTP2_REFUSED_STREAM)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "%s: the server takes no further calls on this connection%s%s", name,
				 h2_goaway_reason(conn->h2)[0] != '\0' ? ": " : "",
				 h2_goaway_reason(conn->h2));
	return error_set(err, status_from_h2(call->stream.close_code), 0, "%s: %s: %s", name,
			 call->stream.was_reset ? "the server reset the call"
						: "the answer breaks the rules of HTTP/2",
			 nghttp2_http2_strerror(call->stream.close_code));
}

static void client_call_on_ready(struct h2_stream *stream)
{
	struct client_call *call = stream->owner;
	struct error err;
	enum status status;

	if (!call->accepted)
		h2_stream_take(stream, byteq_len(&stream->in)); /* some page for people */
	else if (!call->ops->on_progress(call))
		return;
	/* a server may end its answer without closing our half */
	if (!stream->closed && !is_over(call))
		return;
	/* messages before the end wait to be taken */
	if (stream->is_paused && is_over(call) && call->conn->is_open)
		return;
	call->is_servers_error = is_servers_error(call);
	status = result(call, &err);
	client_call_end(call, status, &err);
}

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

/* The server's GOAWAY explains the end better than the end does. */
static void add_goaway_reason(struct client_conn *conn)
{
	size_t n = strlen(conn->why.msg);

	if (h2_goaway_reason(conn->h2)[0] != '\0')
		(void)snprintf(conn->why.msg + n, sizeof(conn->why.msg) - n, ": %s",
			       h2_goaway_reason(conn->h2));
}

/* Close it; calls on it end with @why from client_call_on_ready(). */
static void client_conn_close(struct client_conn *conn, const struct error *why)
{
	struct rpc_client *client = conn->client;

	if (!conn->is_open)
		return;
	conn->is_open = false;
	conn->why = *why;
	add_goaway_reason(conn);
	LIST_REMOVE(conn, all);
	if (client->current == conn)
		client->current = NULL;
	if (conn->up && client->on_lost && !client->closing)
		client->on_lost(client->userdata);
	dial_cancel(TAKE_PTR(conn->dial));
	conn->connect_timer = sd_event_source_disable_unref(conn->connect_timer);
	conn->keepalive_timer = sd_event_source_disable_unref(conn->keepalive_timer);
	if (conn->up)
		h2_goaway(conn->h2);
	transport_free(conn->transport);
	conn->transport = NULL;
	h2_abort(conn->h2);
	(void)h2_dispatch(conn->h2, UINT64_MAX);
	h2_free(TAKE_PTR(conn->h2));
	conn_unref(conn);
}

static enum status dial_server(struct client_conn *conn, struct error *err);

/* The server of @conn failed with @why: append that to the causes of the servers before. */
static void add_failure(struct client_conn *conn, const struct error *why)
{
	const struct rpc_client *client = conn->client;
	const struct error before = conn->why;
	char server[RPC_SERVER_NAME_SIZE];

	conn->n_failed++;
	if (client->n_servers < 2) {
		conn->why = *why;
		return;
	}
	(void)error_set(&conn->why, why->status, 0, "%s%s%s: %s", before.msg,
			before.msg[0] != '\0' ? "; " : "",
			rpc_address_text(&client->servers[conn->at], server), why->msg);
	conn->why.sys_errno = why->sys_errno; /* its text is in the message already */
}

/* Try a connection that failed at one server at the next; false if no server is left. */
static bool try_next(struct client_conn *conn, const struct error *why)
{
	const struct rpc_client *client = conn->client;
	struct error err;

	add_failure(conn, why);
	while (conn->n_failed < client->n_servers) {
		dial_cancel(TAKE_PTR(conn->dial));
		transport_free(conn->transport);
		conn->transport = NULL;
		conn->at = (conn->at + 1) % client->n_servers;
		if (dial_server(conn, &err) == STATUS_OK)
			return true;
		add_failure(conn, &err);
	}
	return false;
}

/* The next connection must go to another server. */
static void leave_server(const struct client_conn *conn)
{
	struct rpc_client *client = conn->client;

	if (client->n_servers > 1)
		client->first = (conn->at + 1) % client->n_servers;
}

static void lose(struct client_conn *conn, const struct error *why)
{
	struct error all;

	if (conn->is_open && !conn->up) {
		if (try_next(conn, why))
			return;
		all = conn->why;
		why = &all;
	}
	if (conn->up)
		leave_server(conn);
	conn_ref(conn);
	client_conn_close(conn, why);
	conn_unref(conn);
}

/* The time for each server, and for each address of a name. */
static uint64_t patience_us(const struct rpc_client *client)
{
	return client->timing.connect_us / (client->n_servers > 1 ? client->n_servers : 1);
}

static int on_connect_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct client_conn *conn = userdata;
	char text[CLOCK_TEXT_SIZE];
	const char *before;
	struct error err;

	if (conn->dial && dial_skip(conn->dial)) {
		(void)timer_arm(conn->client->event, &conn->connect_timer, patience_us(conn->client),
				on_connect_timeout, conn);
		return 0;
	}
	before = conn->dial ? dial_failures(conn->dial) : "";
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "%s%sno connection within %s", before,
			before[0] != '\0' ? "; " : "",
			clock_format_duration(patience_us(conn->client), text));
	err.sys_errno = ETIMEDOUT; /* its text is in the message already */
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

	leave_server(conn);
	conn->was_left = true;
	if (conn->client->current == conn)
		conn->client->current = NULL;
	/* the connection of a server that does not read does not end by itself */
	reap_soon(conn->client);
}

static void on_trailers(struct h2_stream *stream)
{
	(void)stream; /* a client never sends this */
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

/* The CA confirms that this is the intended server. */
static enum status check_identity(const struct client_conn *conn, struct error *err)
{
	const struct rpc_client *client = conn->client;
	char uri[RPC_URI_SIZE];
	size_t n;

	if (!client->server_uri || !transport_ssl(conn->transport))
		return STATUS_OK;
	tls_session_peer_uri(transport_ssl(conn->transport), uri);
	n = strlen(client->server_uri);
	if (str_eq(uri, client->server_uri) ||
	    (n > 0 && client->server_uri[n - 1] == '/' && str_starts_with(uri, client->server_uri)))
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0, "the server is %s by its certificate, and not %s",
			 uri[0] ? uri : "nobody", client->server_uri);
}

static enum status on_up(void *userdata, struct error *err)
{
	struct client_conn *conn = userdata;

	TRY(check_identity(conn, err));
	timer_disarm(conn->connect_timer);
	conn->up = true;
	conn->client->first = conn->at;
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

static bool on_edge(void *userdata, uint64_t end_us)
{
	struct client_conn *conn = userdata;
	bool is_behind;

	conn_ref(conn);
	is_behind = h2_dispatch(conn->h2, end_us);
	conn_unref(conn);
	return is_behind;
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
	enum status status = STATUS_OK;

	conn->dial = NULL;
	if (fd < 0) {
		lose(conn, err);
		return;
	}
	if (client->unix_path)
		conn->peer = listener_of(fd);
	else
		status = tls_session_connect(client->tls, fd, &ssl, &failure);
	if (status == STATUS_OK)
		status = transport_new(client->poller, TAKE_FD(owned_fd), ssl, &transport_ops, conn,
				       &conn->transport, &failure);
	if (status != STATUS_OK)
		lose(conn, &failure);
}

/* Begin to connect to the server of conn->at, or to the socket. */
static enum status dial_server(struct client_conn *conn, struct error *err)
{
	struct rpc_client *client = conn->client;
	int r = timer_arm(client->event, &conn->connect_timer, patience_us(client), on_connect_timeout, conn);
	const struct rpc_address *server;

	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a timer");
	if (client->unix_path)
		return dial_unix(client->event, client->unix_path, client->is_own_socket, on_dialled, conn,
				 &conn->dial, err);
	server = &client->servers[conn->at];
	return dial_tcp(client->event, server->host, server->port, on_dialled, conn, &conn->dial, err);
}

static enum status client_conn_start(struct client_conn *conn, struct error *err)
{
	struct rpc_client *client = conn->client;
	const struct h2_config config = {
		.held_max = client->message_bytes > HELD_MAX / 2 ? 2 * client->message_bytes : HELD_MAX,
		.header_max = RESPONSE_HEADERS_MAX,
	};

	TRY(h2_new(&config, &h2_ops, conn, &conn->h2, err));
	return dial_server(conn, err);
}

static enum status client_conn_get(struct rpc_client *client, struct client_conn **ret, struct error *err)
{
	struct client_conn *conn = client->current;
	enum status status;

	if (conn && conn->up &&
	    h2_is_used_up(conn->h2)) { /* the reaper ends it once nothing is in flight on it */
		rpc_client_reconnect(client);
		conn = NULL;
	}
	if (conn) {
		*ret = conn;
		return STATUS_OK;
	}
	conn = malloc(sizeof(*conn));
	if (!conn)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "connect to %s", client->name);
	*conn = (struct client_conn){.client = client, .at = client->first, .refs = 1};
	status = client_conn_start(conn, err);
	if (status != STATUS_OK) {
		dial_cancel(conn->dial);
		(void)sd_event_source_disable_unref(conn->connect_timer);
		h2_free(conn->h2);
		free(conn);
		return status;
	}
	conn->is_open = true;
	LIST_INSERT_HEAD(&client->conns, conn, all);
	client->current = conn;
	*ret = conn;
	return STATUS_OK;
}

enum { MESSAGE_BYTES = 4 * 1024 * 1024 };

static void client_release(struct rpc_client *client)
{
	(void)sd_event_source_disable_unref(client->reaper);
	poller_free(client->poller);
	free(client->unix_path);
	free(client->servers);
	free(client->server_uri);
	if (client->authorization)
		explicit_bzero(client->authorization, strlen(client->authorization));
	free(client->authorization);
	details_release(&client->details);
	free(client);
}

DEFINE_CLEANUP(struct rpc_client, client_release)

static bool copy_text(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return !text || *ret;
}

static enum status set_token(struct rpc_client *client, const char *token, struct error *err)
{
	if (!token)
		return STATUS_OK;
	if (!bearer_is_token((const uint8_t *)token, strlen(token)))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the token is invalid: it has 1 to %d letters, digits and characters of -._~+/=",
			BEARER_MAX);
	return asprintf(&client->authorization, "Bearer %s", token) < 0
		       ? error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a client")
		       : STATUS_OK;
}

static void set_name(struct rpc_client *client)
{
	if (client->unix_path)
		(void)snprintf(client->name, sizeof(client->name), "unix:%s", client->unix_path);
	else if (client->n_servers > 1)
		(void)snprintf(client->name, sizeof(client->name), "any of %zu servers", client->n_servers);
	else
		(void)rpc_address_text(&client->servers[0], client->name);
}

static bool has_calls(const struct client_conn *conn)
{
	const struct client_call *call;

	LIST_FOREACH (call, &conn->client->calls, all)
		if (call->conn == conn)
			return true;
	return false;
}

/* Closes connections that take no new calls: those without calls, and the oldest if too many have calls. */
static int on_reap(sd_event_source *source, void *userdata)
{
	struct rpc_client *client = userdata;
	struct client_conn *conn, *next, *oldest = NULL;
	struct error why;
	size_t n = 0;

	(void)error_set(&why, STATUS_CANCELLED, 0, "no longer needed");
	for (conn = LIST_FIRST(&client->conns); conn; conn = next) {
		next = LIST_NEXT(conn, all);
		if (conn == client->current || !conn->up)
			continue;
		if (!has_calls(conn)) {
			client_conn_close(conn, &why);
		} else if (conn->was_left) {
			oldest = conn;
			n++;
		}
	}
	if (n <= CONNS_LEFT_MAX)
		return 0;
	reap_soon(client);
	(void)error_set(&why, STATUS_UNAVAILABLE, 0,
			"it was the oldest of %zu connections that take no new calls", n);
	client_conn_close(oldest, &why); /* last: the end of a call may free the client */
	return 0;
}

static enum status set_servers(struct rpc_client *client, const struct rpc_endpoint *endpoint,
			       struct error *err)
{
	size_t n = endpoint->n_servers > 0 ? endpoint->n_servers : 1;

	if (client->unix_path)
		return STATUS_OK;
	client->servers = calloc(n, sizeof(*client->servers));
	if (!client->servers)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a client");
	client->n_servers = n;
	if (endpoint->n_servers > 0)
		memcpy(client->servers, endpoint->servers, n * sizeof(*client->servers));
	else if (str_copy(client->servers[0].host, RPC_HOST_SIZE, endpoint->host) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the server's name is too long");
	else
		client->servers[0].port = endpoint->port;
	return STATUS_OK;
}

enum status rpc_client_new(sd_event *event, const struct rpc_endpoint *endpoint, struct rpc_client **ret,
			   struct error *err)
{
	assert(endpoint->unix_path || ((endpoint->host || endpoint->n_servers > 0) && endpoint->tls));

	cleanup(client_releasep) struct rpc_client *client = malloc(sizeof(*client));
	int r;

	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a client");
	*client = (struct rpc_client){
		.event = event,
		.tls = endpoint->tls,
		.message_bytes = endpoint->message_bytes ? endpoint->message_bytes : MESSAGE_BYTES,
		.on_lost = endpoint->on_lost,
		.userdata = endpoint->userdata,
		.is_own_socket = endpoint->is_own_socket,
		.timing = client_timing_default,
		.conns = LIST_HEAD_INITIALIZER(client->conns),
		.calls = LIST_HEAD_INITIALIZER(client->calls),
	};
	r = poller_new(event, &client->poller);
	if (r >= 0)
		r = sd_event_add_defer(event, &client->reaper, on_reap, client);
	if (r >= 0)
		r = sd_event_source_set_enabled(client->reaper, SD_EVENT_OFF);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "make a client");
	if (!copy_text(&client->unix_path, endpoint->unix_path) ||
	    !copy_text(&client->server_uri, endpoint->server_uri))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a client");
	TRY(set_servers(client, endpoint, err));
	TRY(set_token(client, endpoint->token, err));
	set_name(client);
	*ret = TAKE_PTR(client);
	return STATUS_OK;
}

void rpc_client_free(struct rpc_client *client)
{
	struct error err;

	if (!client || client->closing)
		return;
	client->closing = true;
	(void)error_set(&err, STATUS_CANCELLED, 0, "the client of %s is closed", client->name);
	while (!LIST_EMPTY(&client->calls))
		client_call_end(LIST_FIRST(&client->calls), STATUS_CANCELLED, &err);
	while (!LIST_EMPTY(&client->conns))
		client_conn_close(LIST_FIRST(&client->conns), &err);
	client_release(client);
}

void rpc_client_move_on(struct rpc_client *client)
{
	if (client->n_servers < 2 || !client->current || !client->current->up)
		return;
	leave_server(client->current);
	client->current = NULL;
	reap_soon(client);
}

void rpc_client_reconnect(struct rpc_client *client)
{
	if (!client->current || !client->current->up)
		return;
	client->current = NULL; /* the reaper ends it once nothing is in flight on it */
	reap_soon(client);
}

const char *rpc_client_server(struct rpc_client *client)
{
	if (client->unix_path || !client->current || !client->current->up)
		return NULL;
	return rpc_address_text(&client->servers[client->current->at], client->at);
}

void rpc_client_set_keepalive(struct rpc_client *client, uint64_t us)
{
	const struct client_timing *least = &client_timing_default;

	client->timing.keepalive_us = us > least->keepalive_us ? us : least->keepalive_us;
	client->timing.silence_us = 2 * us > least->silence_us ? 2 * us : least->silence_us;
}

ProtobufCMessage *rpc_client_details(const struct rpc_client *client,
				     const ProtobufCMessageDescriptor *descriptor)
{
	const struct details *details = &client->details;

	return details->bytes ? protobuf_c_message_unpack(descriptor, NULL, details->n, details->bytes)
			      : NULL;
}

pid_t rpc_client_peer(const struct rpc_client *client)
{
	return client->current && client->current->up ? client->current->peer : 0;
}

bool rpc_client_may_have_begun(const struct rpc_client *client)
{
	return client->may_have_begun;
}

bool rpc_client_was_refused(const struct rpc_client *client)
{
	return client->was_refused;
}

const char *rpc_client_message(const struct rpc_client *client)
{
	return client->has_message ? client->server_message : NULL;
}
