/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/server.h"

#include "base/cleanup.h"
#include "rpc/listener.h"
#include "rpc/server_internal.h"
#include "rpc/tls_session.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const struct rpc_server_limits default_limits = {
	.message_bytes = (size_t)1024 * 1024,
	.connection_bytes = (size_t)8 * 1024 * 1024,
	.identity_bytes = (size_t)64 * 1024 * 1024,
	.total_bytes = (size_t)256 * 1024 * 1024,
	.connections = 4096,
	.calls = 256,
	.per_identity = 128,
	/* many nodes may connect from behind one address at once, and are distinguished a moment later */
	.per_address = 256,
	.per_user = 256,
};

/* One listener of a server. */
struct rpc_listener {
	struct rpc_server *server;
	struct listener *listener;
	struct rpc_tls *tls; /* borrowed; NULL: unix */
	LIST_ENTRY(rpc_listener) all;
};

static size_t limit_or(size_t limit, size_t otherwise)
{
	return limit ? limit : otherwise;
}

static struct rpc_server_limits complete_limits(const struct rpc_server_limits *given)
{
	if (!given)
		return default_limits;
	return (struct rpc_server_limits){
		.message_bytes = limit_or(given->message_bytes, default_limits.message_bytes),
		.connection_bytes = limit_or(given->connection_bytes, default_limits.connection_bytes),
		.identity_bytes = limit_or(given->identity_bytes, default_limits.identity_bytes),
		.total_bytes = limit_or(given->total_bytes, default_limits.total_bytes),
		.connections = limit_or(given->connections, default_limits.connections),
		.calls = limit_or(given->calls, default_limits.calls),
		.per_identity = limit_or(given->per_identity, default_limits.per_identity),
		.per_address = limit_or(given->per_address, default_limits.per_address),
		.per_user = limit_or(given->per_user, default_limits.per_user),
	};
}

/* A row that names no method of its service is a mistake in a program, as is one with both kinds of handler.
 */
static void check_services(const struct rpc_service *services, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < services[i].n_methods; k++) {
			const struct rpc_method *method = &services[i].methods[k];

			assert(protobuf_c_service_descriptor_get_method_by_name(services[i].descriptor,
										method->name));
			assert(!method->unary != !method->stream);
		}
}

static struct call_counts *make_counts(const struct rpc_service *services, size_t n, size_t *ret_n)
{
	struct call_counts *counts;
	size_t total = 0;
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		total += services[i].n_methods;
	counts = calloc(total + 1, sizeof(*counts)); /* never of size 0 */
	if (!counts)
		return NULL;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < services[i].n_methods; k++)
			counts[at++] = (struct call_counts){.service = &services[i],
							    .method = &services[i].methods[k]};
	*ret_n = total;
	return counts;
}

static int make_pollers(struct rpc_server *server)
{
	int r = 0;

	for (int i = 0; i < POLL_CLASS_N && r == 0; i++)
		r = poller_new(server->event, &server->pollers[i]);
	return r;
}

static void server_release(struct rpc_server *server)
{
	for (int i = 0; i < POLL_CLASS_N; i++)
		poller_free(server->pollers[i]);
	free(server->counts);
	free(server);
}

enum status rpc_server_new(sd_event *event, const struct rpc_service *services, size_t n_services,
			   const struct rpc_server_limits *limits, void *userdata, struct rpc_server **ret,
			   struct error *err)
{
	struct rpc_server *server = malloc(sizeof(*server));
	int r;

	check_services(services, n_services);
	if (!server)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a server");
	*server = (struct rpc_server){
		.event = event,
		.services = services,
		.n_services = n_services,
		.limits = complete_limits(limits),
		.timing = server_timing_default,
		.protocols = &server_call_protocols,
		.userdata = userdata,
		.conns = LIST_HEAD_INITIALIZER(server->conns),
		.starting = TAILQ_HEAD_INITIALIZER(server->starting),
		.idle = TAILQ_HEAD_INITIALIZER(server->idle),
		.waiting = TAILQ_HEAD_INITIALIZER(server->waiting),
		.listeners = LIST_HEAD_INITIALIZER(server->listeners),
	};
	server->counts = make_counts(services, n_services, &server->n_counts);
	r = server->counts ? make_pollers(server) : -ENOMEM;
	if (r < 0) {
		server_release(server);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "make a server");
	}
	*ret = server;
	return STATUS_OK;
}

void rpc_server_set_routes(struct rpc_server *server, const struct rpc_route *routes, size_t n)
{
	server->routes = routes;
	server->n_routes = n;
}

void rpc_server_set_gate(struct rpc_server *server, rpc_gate_fn *gate)
{
	server->gate = gate;
}

void rpc_server_set_vouching(struct rpc_server *server, rpc_vouching_fn *vouching)
{
	server->vouching = vouching;
}

void rpc_server_set_relay(struct rpc_server *server, rpc_relay_fn *relay, void *userdata)
{
	server->relay = relay;
	server->relay_userdata = userdata;
}

void rpc_server_on_late(struct rpc_server *server, rpc_late_fn *late, uint64_t after_us)
{
	server->late = late;
	server->late_us = after_us;
}

void rpc_server_set_name(struct rpc_server *server, rpc_name_fn *name)
{
	server->name = name;
}

void rpc_server_on_refused(struct rpc_server *server, rpc_refused_fn *refused)
{
	server->refused = refused;
}

struct rpc_server_stats rpc_server_stats(const struct rpc_server *server)
{
	return (struct rpc_server_stats){
		.connections = server->n_conns,
		.streams = server->n_streams,
		.accepted = server->n_accepted,
		.refused = server->n_refused,
	};
}

void rpc_server_each_count(const struct rpc_server *server, rpc_count_fn *each, void *userdata)
{
	for (size_t i = 0; i < server->n_counts; i++) {
		const struct call_counts *counts = &server->counts[i];

		for (int status = 0; status < STATUS_N; status++)
			if (counts->n[status] > 0)
				each(counts->service->descriptor->name, counts->method->name,
				     (enum status)status, counts->n[status], userdata);
	}
}

static void rpc_listener_free(struct rpc_listener *listening)
{
	listener_free(listening->listener);
	free(listening);
}

void rpc_server_free(struct rpc_server *server)
{
	struct server_conn *conn;
	struct server_conn *next;

	if (!server)
		return;
	assert(!server->in_handler);
	while (!LIST_EMPTY(&server->listeners)) {
		struct rpc_listener *listening = LIST_FIRST(&server->listeners);

		LIST_REMOVE(listening, all);
		rpc_listener_free(listening);
	}
	for (conn = LIST_FIRST(&server->conns); conn; conn = next) {
		/* its neighbour may go as well, when a handler answers for another connection */
		server_conn_ref(conn);
		server_conn_close(conn);
		next = LIST_NEXT(conn, all);
		server_conn_unref(conn);
	}
	while (!LIST_EMPTY(&server->conns))
		server_conn_orphan(LIST_FIRST(&server->conns));
	server_release(server);
}

/* Others, as many accounts as they have, keep neither root nor ourselves out. */
static bool has_room(const struct rpc_server *server, const struct rpc_peer *peer)
{
	return server->n_conns < server->limits.connections ||
	       (peer->kind == RPC_PEER_UNIX && (peer->uid == 0 || peer->uid == geteuid()));
}

/* May it come in? Fills the URI of @peer. */
static enum status check_peer(struct rpc_server *server, struct rpc_peer *peer, struct error *err)
{
	if (peer->kind == RPC_PEER_UNIX && server->name)
		TRY(server->name(peer, server->userdata, err));
	if (!has_room(server, peer) && !server_conn_make_room(server, NULL))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%zu connections are open",
				 server->n_conns);
	return STATUS_OK;
}

static void on_accept(int fd, const struct rpc_peer *accepted, void *userdata)
{
	const struct rpc_listener *listening = userdata;
	struct rpc_server *server = listening->server;
	struct rpc_peer peer = *accepted;
	struct error err;
	enum status status;

	server->n_accepted++;
	status = check_peer(server, &peer, &err);
	if (status == STATUS_OK)
		status = server_conn_new(server, fd, listening->tls, &peer, &err);
	else
		close_fdp(&fd);
	if (status != STATUS_OK) /* the client sees the connection end */
		server_conn_refused(server, &peer, &err);
}

DEFINE_CLEANUP(struct rpc_listener, rpc_listener_free)

static struct rpc_listener *rpc_listener_new(struct rpc_server *server, struct rpc_tls *tls)
{
	struct rpc_listener *listening = malloc(sizeof(*listening));

	if (listening)
		*listening = (struct rpc_listener){.server = server, .tls = tls};
	return listening;
}

enum status rpc_server_listen_unix(struct rpc_server *server, const char *path, mode_t mode,
				   struct error *err)
{
	cleanup(rpc_listener_freep) struct rpc_listener *listening = rpc_listener_new(server, NULL);

	if (!listening)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "listen on %s", path);
	TRY(listener_new_unix(server->event, path, mode, on_accept, listening, &listening->listener, err));
	LIST_INSERT_HEAD(&server->listeners, listening, all);
	(void)TAKE_PTR(listening);
	return STATUS_OK;
}

enum status rpc_server_listen_tls(struct rpc_server *server, const char *host, uint16_t port,
				  struct rpc_tls *tls, uint16_t *ret_port, struct error *err)
{
	assert(tls != NULL);

	cleanup(rpc_listener_freep) struct rpc_listener *listening = rpc_listener_new(server, tls);
	uint16_t bound = 0;

	TRY(tls_session_check_server(tls, err));
	if (!listening)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "listen on %s port %u", host, port);
	TRY(listener_new_tcp(server->event, host, port, on_accept, listening, &listening->listener, &bound,
			     err));
	LIST_INSERT_HEAD(&server->listeners, listening, all);
	(void)TAKE_PTR(listening);
	if (ret_port)
		*ret_port = bound;
	return STATUS_OK;
}
