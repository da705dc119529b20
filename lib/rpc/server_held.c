/* SPDX-License-Identifier: Apache-2.0 */
/* What the connections of a server hold for peers that have not read or finished it: one budget for each peer
 * and one for all. A connection that is idle is free. */

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/server_internal.h"

#include <errno.h>

/* What a connection may take and is not counted: HTTP/2's own tables, a session that is open. */
enum { IDLE_BYTES = 32 * 1024 };

enum status server_held_begin(struct server_conn *conn, struct error *err)
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

/* Of the peer that holds most, or of @holder: its connection that does. */
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

enum status server_held_check(struct server_conn *conn, size_t n, struct error *err)
{
	struct rpc_server *server = conn->server;
	bool alone;

	if (!conn->holder)
		return STATUS_OK;
	server_held_count(conn);
	/* what is small gets on where nothing else waits, whatever the peer's other connections hold */
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

void server_held_count(struct server_conn *conn)
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

void server_held_end(struct server_conn *conn)
{
	if (!conn->holder)
		return;
	set_held(conn, 0);
	if (conn->server->cut == conn)
		conn->server->cut = NULL;
	peer_count_leave(&conn->server->holders, TAKE_PTR(conn->holder));
}
