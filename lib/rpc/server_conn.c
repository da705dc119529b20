/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/caller.h"
#include "rpc/h2_io.h"
#include "rpc/server.h"
#include "rpc/server_internal.h"
#include "rpc/timer.h"
#include "rpc/tls_session.h"

#include <assert.h>
#include <string.h>

const struct server_timing server_timing_default = {
	.handshake_us = 10 * USEC_PER_SEC,
	.crowded_us = 2 * USEC_PER_SEC,
	.first_request_us = 30 * USEC_PER_SEC,
	.request_us = 60 * USEC_PER_SEC,
};

/* A connection that is lost has no later turn. */
static const uint64_t LAST_MESSAGES_US = 1 * USEC_PER_MSEC;

void server_conn_ref(struct server_conn *conn)
{
	conn->refs++;
}

void server_conn_unref(struct server_conn *conn)
{
	if (--conn->refs > 0)
		return;
	assert(!conn->transport && !conn->h2 && !conn->h1);
	if (conn->server)
		server_conn_orphan(conn);
	free(conn);
}

static void end_start(struct server_conn *conn)
{
	if (conn->is_starting)
		TAILQ_REMOVE(&conn->server->starting, conn, starting);
	conn->is_starting = false;
}

/* Neither a certificate nor an account names the peer. A named one has a limit of its own. */
static bool is_anonymous(const struct server_conn *conn)
{
	return conn->peer.kind == RPC_PEER_TLS && conn->peer.uri[0] == '\0';
}

static void update_idle(struct server_conn *conn)
{
	bool is_idle = conn->is_open && conn->up && conn->n_held == 0 && is_anonymous(conn);

	if (is_idle && !conn->is_idle) {
		TAILQ_INSERT_TAIL(&conn->server->idle, conn, idle);
		TAILQ_INSERT_TAIL(peer_count_idle(conn->count), conn, idle_of_peer);
	} else if (!is_idle && conn->is_idle) {
		TAILQ_REMOVE(&conn->server->idle, conn, idle);
		TAILQ_REMOVE(peer_count_idle(conn->count), conn, idle_of_peer);
	}
	conn->is_idle = is_idle;
}

void server_conn_set_calls(struct server_conn *conn, size_t n)
{
	conn->n_held = n;
	update_idle(conn);
}

void server_conn_orphan(struct server_conn *conn)
{
	LIST_REMOVE(conn, all);
	conn->server->n_conns--;
	if (conn->count)
		peer_count_leave(&conn->server->peers, TAKE_PTR(conn->count));
	conn->server = NULL;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server_conn *conn = userdata;
	struct error err;

	if (conn->up) { /* with a GOAWAY */
		server_conn_close(conn);
		return 0;
	}
	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "the client did not shake hands in time");
	transport_fail(conn->transport, &err);
	return 0;
}

void server_conn_move(struct server_conn *conn, enum poll_class class)
{
	if (conn->transport)
		transport_move(conn->transport, conn->server->pollers[class]);
}

void server_conn_wake(struct server_conn *conn)
{
	if (conn->transport)
		transport_wake(conn->transport);
}

void server_conn_fail(struct server_conn *conn, const struct error *why)
{
	if (conn->transport)
		transport_fail(conn->transport, why);
}

static void expect_request(struct server_conn *conn)
{
	/* setting an existing timer does not fail */
	(void)timer_arm(conn->server->event, &conn->timer, conn->server->timing.first_request_us, on_timer,
			conn);
}

void server_conn_begin_request(struct server_conn *conn)
{
	conn->n_requests++;
	timer_disarm(conn->timer);
}

void server_conn_end_request(struct server_conn *conn)
{
	conn->n_requests--;
	if (conn->n_requests == 0 && conn->is_open && (conn->h1 || is_anonymous(conn)))
		expect_request(conn);
}

static enum status start_h2(struct server_conn *conn, struct error *err)
{
	const bool is_shared = conn->server->vouching && conn->peer.uri[0] != '\0' &&
			       conn->server->vouching(&conn->peer, conn->server->userdata, NULL) == STATUS_OK;
	const size_t own_bytes = conn->server->limits.connection_bytes;
	const struct h2_config config = {
		.server = true,
		.lax = conn->peer.kind == RPC_PEER_UNIX,
		.is_shared = is_shared,
		/* with answers to many callers on the way; as much as a client holds */
		.held_max = is_shared ? 4 * own_bytes : own_bytes,
		.streams = (uint32_t)conn->server->limits.calls,
		.header_max = REQUEST_HEADERS_MAX,
	};

	return h2_new(&config, &conn->server->protocols->h2, conn, &conn->h2, err);
}

void server_conn_refused(struct rpc_server *server, const struct rpc_peer *peer, const struct error *why)
{
	server->n_refused++;
	if (server->refused)
		server->refused(peer, why, server->userdata);
}

/* Bytes that the connections of a server hold for peers that have not read or finished them: one budget for
 * each peer and one for all. An idle connection is free. */

/* Bytes of a connection that are not counted: HTTP/2's own tables, an open session. */
enum { IDLE_BYTES = 32 * 1024 };

static enum status held_begin(struct server_conn *conn, struct error *err)
{
	char uid[32];
	const char *name = conn->peer.uri[0] != '\0' ? conn->peer.uri : "clients without a certificate";
	bool full;

	if (conn->peer.kind == RPC_PEER_UNIX) {
		(void)str_format(uid, sizeof(uid), "uid %u", (unsigned int)conn->peer.uid);
		name = uid;
	}
	conn->holder = peer_count_enter(&conn->server->holders, name, SIZE_MAX, &full);
	return conn->holder ? STATUS_OK
			    : error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "count a connection");
}

static size_t held_by(const struct server_conn *conn)
{
	size_t n = (conn->refs - 1) * sizeof(struct rpc_call);

	n += conn->h2 ? h2_held(conn->h2) : 0;
	n += conn->h1 ? h1_held(conn->h1) : 0;
	n += conn->transport ? transport_queued(conn->transport) : 0;
	return n;
}

static size_t counted(size_t n)
{
	return n > IDLE_BYTES ? n - IDLE_BYTES : 0;
}

static void set_held(struct server_conn *conn, size_t n)
{
	*peer_count_bytes(conn->holder) += n - conn->held_bytes;
	conn->server->held_bytes += n - conn->held_bytes;
	conn->held_bytes = n;
}

/* The connection that holds most, of the peer that holds most or of @holder. */
static struct server_conn *find_largest(const struct rpc_server *server, const struct peer_count *holder)
{
	struct server_conn *largest = NULL;
	struct server_conn *conn;

	LIST_FOREACH (conn, &server->conns, all) {
		size_t mine = conn->holder ? *peer_count_bytes(conn->holder) : 0;
		size_t most = largest ? *peer_count_bytes(largest->holder) : 0;

		if (conn->held_bytes == 0 || (holder && conn->holder != holder) || mine < most)
			continue;
		if (!largest || mine > most || conn->held_bytes > largest->held_bytes)
			largest = conn;
	}
	return largest;
}

/* One at a time: what it holds is there until the loop has come to it. @holder NULL: of any peer */
static void cut_largest(struct rpc_server *server, const struct peer_count *holder)
{
	struct server_conn *conn = server->cut ? NULL : find_largest(server, holder);
	struct error why;

	if (!conn)
		return;
	(void)error_set(&why, STATUS_RESOURCE_EXHAUSTED, 0,
			"%zu bytes are held of requests not finished and answers not read by %s, %zu of them "
			"for this "
			"connection, which holds most and is closed",
			*peer_count_bytes(conn->holder), peer_count_name(conn->holder), conn->held_bytes);
	server->cut = conn;
	server_conn_refused(server, &conn->peer, &why);
	server_conn_fail(conn, &why);
}

/* Bytes that may be added for a peer with @mine. No peer has more than is left for all others, so that those
 * who have little still get on when many have much. */
static size_t room_for(const struct rpc_server *server, size_t mine, bool *ret_alone)
{
	size_t all = server->held_bytes;
	size_t left = all < server->limits.total_bytes ? server->limits.total_bytes - all : 0;
	size_t own = mine < server->limits.identity_bytes ? server->limits.identity_bytes - mine : 0;

	left = mine < left ? left - mine : 0;
	*ret_alone = own <= left;
	return own <= left ? own : left;
}

static void held_count(struct server_conn *conn)
{
	const struct rpc_server *server = conn->server;

	if (!conn->holder)
		return;
	set_held(conn, counted(held_by(conn)));
	/* headers and the frames of the protocol itself are not asked for */
	if (*peer_count_bytes(conn->holder) > server->limits.identity_bytes)
		cut_largest(conn->server, conn->holder);
	else if (server->held_bytes > server->limits.total_bytes)
		cut_largest(conn->server, NULL);
}

enum status server_conn_hold(struct server_conn *conn, size_t n, struct error *err)
{
	struct rpc_server *server = conn->server;
	bool alone;

	if (!conn->holder)
		return STATUS_OK;
	held_count(conn);
	/* small messages pass where nothing else waits, independent of the peer's other connections */
	if (counted(held_by(conn) + n) - conn->held_bytes <=
	    room_for(server, *peer_count_bytes(conn->holder), &alone))
		return STATUS_OK;
	cut_largest(server, alone ? conn->holder : NULL);
	return error_set(
		err, STATUS_RESOURCE_EXHAUSTED, 0,
		"%zu bytes are held of requests not finished and answers not read by %s, %zu by all clients, "
		"and %zu more are too many: read the answers first",
		*peer_count_bytes(conn->holder), peer_count_name(conn->holder), server->held_bytes, n);
}

static void held_end(struct server_conn *conn)
{
	if (!conn->holder)
		return;
	set_held(conn, 0);
	if (conn->server->cut == conn)
		conn->server->cut = NULL;
	peer_count_leave(&conn->server->holders, TAKE_PTR(conn->holder));
}

/* Count the connection among those of @name, and end the count under its earlier name. */
static enum status count_as(struct server_conn *conn, const char *name, size_t max, struct error *err)
{
	struct peer_count_tree *peers = &conn->server->peers;
	bool full = false;
	struct peer_count *count = peer_count_enter(peers, name, max, &full);

	if (full)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%zu connections of %s are open already",
				 max, name);
	if (!count)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "count a connection");
	peer_count_leave(peers, conn->count);
	conn->count = count;
	return STATUS_OK;
}

/* The oldest that has sent nothing, or has had its time; NULL: a look at more costs too much. */
static struct server_conn *find_starting(const struct rpc_server *server, const struct peer_count *count)
{
	enum { LOOKS_MAX = 64 }; /* each may be a system call */
	const uint64_t now_us = clock_monotonic_us();
	struct server_conn *conn;
	int looks = 0;

	TAILQ_FOREACH (conn, &server->starting, starting) {
		if (count && conn->count != count)
			continue;
		if (++looks > LOOKS_MAX)
			return NULL;
		if (now_us - conn->since_us >= server->timing.crowded_us ||
		    !transport_has_heard(conn->transport))
			return conn;
	}
	return NULL;
}

bool server_conn_make_room(struct rpc_server *server, struct peer_count *count)
{
	struct server_conn *conn = TAILQ_FIRST(count ? peer_count_idle(count) : &server->idle);
	struct error why;

	if (!conn)
		conn = find_starting(server, count);
	if (!conn)
		return false;
	(void)error_set(&why, STATUS_RESOURCE_EXHAUSTED, 0, "it %s, and others want its place",
			conn->is_idle ? "is idle without an identity" : "did not shake hands");
	server_conn_refused(server, &conn->peer, &why);
	server_conn_close(conn);
	return true;
}

/* Before a certificate identifies the peer, a connection counts for its address, with any port. */
static enum status count_address(struct server_conn *conn, struct error *err)
{
	struct rpc_server *server = conn->server;
	char origin[RPC_ADDRESS_SIZE];
	struct peer_count *count;
	enum status status;

	caller_origin(&conn->peer, origin);
	status = count_as(conn, origin, server->limits.per_address, err);
	count = status == STATUS_OK ? NULL : peer_count_find(&server->peers, origin);
	if (count && server_conn_make_room(server, count))
		status = count_as(conn, origin, server->limits.per_address, err);
	return status;
}

static enum status count_user(struct server_conn *conn, struct error *err)
{
	char name[32];

	(void)str_format(name, sizeof(name), "uid %u", (unsigned int)conn->peer.uid);
	return count_as(conn, name, conn->server->limits.per_user, err);
}

/* Refuse a client that would not understand a mere end of the connection: one that speaks HTTP/2 gets the
 * reason, and may close by itself in the time of a handshake. */
static enum status refuse(struct server_conn *conn, const struct error *why, struct error *err)
{
	const unsigned char *alpn = NULL;
	unsigned int n = 0;

	SSL_get0_alpn_selected(transport_ssl(conn->transport), &alpn, &n);
	if (n != 2 || memcmp(alpn, "h2", 2) != 0) {
		*err = *why;
		return why->status;
	}
	TRY(start_h2(conn, err));
	conn->up = conn->refused = true;
	h2_refuse(conn->h2, why->msg);
	server_conn_refused(conn->server, &conn->peer, why);
	return STATUS_OK;
}

static enum status on_up(void *userdata, struct error *err)
{
	struct server_conn *conn = userdata;
	struct error why;

	end_start(conn);
	if (transport_ssl(conn->transport)) {
		tls_session_peer_uri(transport_ssl(conn->transport), conn->peer.uri);
		conn->peer.expires_ms = tls_session_peer_expires_ms(transport_ssl(conn->transport));
		tls_session_peer_issue(transport_ssl(conn->transport), &conn->peer);
	}
	if (conn->peer.uri[0] != '\0' &&
	    count_as(conn, conn->peer.uri, conn->server->limits.per_identity, &why) != STATUS_OK)
		return refuse(conn, &why, err);
	if (held_begin(conn, err) != STATUS_OK)
		return err->status;
	conn->up = true;
	update_idle(conn);
	server_conn_move(conn, POLL_CALLS);
	expect_request(conn);
	return STATUS_OK;
}

static enum status receive(struct server_conn *conn, const uint8_t *bytes, size_t n, struct error *err)
{
	return conn->h2 ? h2_recv(conn->h2, bytes, n, err) : h1_recv(conn->h1, bytes, n, err);
}

/* What does the client speak? Decided by its first four bytes; with fewer they are kept. */
static enum status listen_to_first(struct server_conn *conn, const uint8_t *bytes, size_t n,
				   struct error *err)
{
	static const char h2_begin[SERVER_FIRST_MAX + 1] = {'P', 'R', 'I', ' '};
	size_t known = conn->n_first;
	char begin[sizeof(h2_begin)];
	enum status status;

	memcpy(begin, conn->first, known);
	while (known < sizeof(begin) && known - conn->n_first < n) {
		begin[known] = (char)bytes[known - conn->n_first];
		known++;
	}
	if (memcmp(begin, h2_begin, known) != 0) {
		status = h1_new(&conn->server->protocols->h1, conn->server->limits.message_bytes, conn,
				&conn->h1, err);
	} else if (known == sizeof(begin)) {
		status = start_h2(conn, err);
	} else {
		memcpy(conn->first, begin, known);
		conn->n_first = known;
		return STATUS_OK;
	}
	if (status == STATUS_OK && conn->n_first > 0)
		status = receive(conn, conn->first, conn->n_first, err);
	return status == STATUS_OK ? receive(conn, bytes, n, err) : status;
}

static enum status on_bytes(void *userdata, const uint8_t *bytes, size_t n, struct error *err)
{
	struct server_conn *conn = userdata;

	return conn->h2 || conn->h1 ? receive(conn, bytes, n, err) : listen_to_first(conn, bytes, n, err);
}

static enum status on_fill(void *userdata, struct error *err)
{
	struct server_conn *conn = userdata;
	enum status status = STATUS_OK;

	if (conn->h2)
		status = h2_fill(conn->h2, conn->transport, err);
	else if (conn->h1)
		status = h1_fill(conn->h1, conn->transport, err);
	held_count(conn);
	return status;
}

static bool on_edge(void *userdata, uint64_t end_us)
{
	struct server_conn *conn = userdata;
	bool is_behind = false;

	server_conn_ref(conn);
	conn->server->in_handler = true;
	if (conn->h2)
		is_behind = h2_dispatch(conn->h2, end_us);
	else if (conn->h1)
		is_behind = h1_dispatch(conn->h1, end_us);
	if (conn->server)
		conn->server->in_handler = false;
	held_count(conn);
	server_conn_unref(conn);
	return is_behind;
}

static void on_down(void *userdata, const struct error *why)
{
	struct server_conn *conn = userdata;

	/* afterwards the peer is responsible, and its own side reports it */
	if (!conn->up)
		server_conn_refused(conn->server, &conn->peer, why);
	server_conn_close(conn);
}

static const struct transport_ops transport_ops = {
	.on_up = on_up,
	.on_bytes = on_bytes,
	.on_fill = on_fill,
	.on_edge = on_edge,
	.on_down = on_down,
};

static enum status server_conn_start(struct server_conn *conn, int fd, struct rpc_tls *tls, struct error *err)
{
	cleanup_close int owned_fd = fd;
	SSL *ssl = NULL;
	enum status status = STATUS_OK;
	int r;

	TRY(tls ? count_address(conn, err) : count_user(conn, err));
	r = timer_arm(conn->server->event, &conn->timer, conn->server->timing.handshake_us, on_timer, conn);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a timer");
	if (tls)
		TRY(tls_session_accept(tls, fd, &ssl, err));
	status = transport_new(conn->server->pollers[POLL_HANDSHAKES], TAKE_FD(owned_fd), ssl, &transport_ops,
			       conn, &conn->transport, err);
	if (status == STATUS_OK && tls) {
		conn->is_starting = true;
		TAILQ_INSERT_TAIL(&conn->server->starting, conn, starting);
	}
	return status;
}

enum status server_conn_new(struct rpc_server *server, int fd, struct rpc_tls *tls,
			    const struct rpc_peer *peer, struct error *err)
{
	struct server_conn *conn = malloc(sizeof(*conn));
	enum status status;

	if (!conn) {
		close_fdp(&fd);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "serve a connection");
	}
	*conn = (struct server_conn){
		.server = server,
		.is_open = true,
		.since_us = clock_monotonic_us(),
		.peer = *peer,
		.refs = 1,
	};
	server->n_conns++;
	LIST_INSERT_HEAD(&server->conns, conn, all);
	status = server_conn_start(conn, fd, tls, err);
	if (status != STATUS_OK)
		server_conn_close(conn);
	return status;
}

void server_conn_close(struct server_conn *conn)
{
	if (!conn->is_open)
		return;
	conn->is_open = false;
	end_start(conn);
	update_idle(conn);
	/* an account counts as long as its calls hold something, as it is the only limit that root has */
	if (conn->count && conn->peer.kind != RPC_PEER_UNIX)
		peer_count_leave(&conn->server->peers, TAKE_PTR(conn->count));
	conn->timer = sd_event_source_disable_unref(conn->timer);
	if (conn->h2)
		h2_goaway(conn->h2);
	transport_free(conn->transport);
	conn->transport = NULL;
	if (conn->h2) {
		h2_abort(conn->h2);
		(void)h2_dispatch(conn->h2, clock_monotonic_us() + LAST_MESSAGES_US);
		h2_free(TAKE_PTR(conn->h2));
	}
	if (conn->h1) {
		h1_abort(conn->h1);
		h1_free(TAKE_PTR(conn->h1));
	}
	held_end(conn);
	server_conn_unref(conn);
}
