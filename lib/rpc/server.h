/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gRPC and JSON server: HTTP/2 on unix sockets and on one TLS port, driven by sd-event.
 *
 * A unary method answers each call exactly once, now or later, by rpc_call_reply() or rpc_call_fail(); the
 * call stays valid until then even when the client has gone (the answer is then dropped). A stream method
 * gets on_closed exactly once and must not use the call afterwards. Callbacks never run inside a function of
 * this header. The same unary methods answer `POST /pkg.Service/Method` with `application/json` (Connect's
 * unary form: errors are {"code": "not_found", "message": "..."} with the matching HTTP status).
 *
 * Source: gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), connectrpc.com/docs/protocol. */

#include "base/error.h"
#include "rpc/peer.h"
#include "rpc/route.h"
#include "rpc/service.h"
#include "rpc/tls.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct rpc_server;

/** Create a server without listeners.
 * @event    borrowed, must outlive the server
 * @services borrowed, must outlive the server
 * @limits   copied; NULL: defaults
 * @userdata handed to every handler */
enum status rpc_server_new(sd_event *event, const struct rpc_service *services, size_t n_services,
			   const struct rpc_server_limits *limits, void *userdata, struct rpc_server **ret,
			   struct error *err);

/** Serve @routes too, over HTTP/1.1 and HTTP/2; @routes is borrowed and must outlive the server. Once, before
 * it listens. Calls of services that the server does not have answer UNIMPLEMENTED. */
void rpc_server_set_routes(struct rpc_server *server, const struct rpc_route *routes, size_t n);

/** Have @gate asked before every call of a method, by gRPC, JSON or an address, with the server's userdata;
 * a route with text has no method. Once, before it listens. */
void rpc_server_set_gate(struct rpc_server *server, rpc_gate_fn *gate);

/** Ask the gate again, for a call that was kept waiting: what its caller may do can have changed. */
enum status rpc_call_ask_gate(struct rpc_call *call, const ProtobufCMessage *request, struct error *err);

/** Ask @vouching for every call on behalf of another caller, with the server's userdata; without it such
 * calls are refused. From then on rpc_call_peer() of such a call is that caller. Once, before it listens. */
void rpc_server_set_vouching(struct rpc_server *server, rpc_vouching_fn *vouching);

/** Have @relay asked of every call of a method that is not made for another caller, with @userdata,
 * which the functions of its rows get as well. Once, before it listens. */
void rpc_server_set_relay(struct rpc_server *server, rpc_relay_fn *relay, void *userdata);

extern const struct rpc_method rpc_relay_later;

/** May the caller of @call make it still? Not STATUS_OK ends it with @err. Runs inside rpc_server_review().
 */
typedef enum status rpc_review_fn(const struct rpc_call *call, void *userdata, struct error *err);

/** Ask @may of every call and stream in progress, with the server's userdata. From the event loop, not inside
 * a handler. Costs the number of connections and of their calls. */
void rpc_server_review(struct rpc_server *server, rpc_review_fn *may);

/** Ask about streams that wait again, from the event loop; at most @max of them, those that have waited
 * longest. */
void rpc_server_retry(struct rpc_server *server, size_t max);

/** Have @refused called, from the event loop, with the server's userdata. */
void rpc_server_on_refused(struct rpc_server *server, rpc_refused_fn *refused);

/** Have @name asked about every connection to a unix socket, before its first byte is read. Without it such a
 * connection has no URI. Once, before it listens. */
void rpc_server_set_name(struct rpc_server *server, rpc_name_fn *name);

/** Have @late asked, with the server's userdata, why a unary call has no answer at its deadline; of a call
 * without one every @after_us, and it is answered with the reason as soon as there is one. Once, before it
 * listens. */
void rpc_server_on_late(struct rpc_server *server, rpc_late_fn *late, uint64_t after_us);

struct rpc_server_stats {
	size_t connections; /* open */
	size_t streams;	    /* open */
	uint64_t accepted;  /* connections, since the start */
	uint64_t refused;   /* of these */
};

struct rpc_server_stats rpc_server_stats(const struct rpc_server *server);

/** Calls of a method that ended with @status, by gRPC, JSON or an address. */
typedef void rpc_count_fn(const char *service, const char *method, enum status status, uint64_t n,
			  void *userdata);

/** Report every count that is not zero. Costs the number of methods. */
void rpc_server_each_count(const struct rpc_server *server, rpc_count_fn *each, void *userdata);

/** Close listeners and connections; every open stream gets on_closed before this returns, the one exception
 * to "callbacks never run inside". Calls still to be answered stay valid and must still be answered. Not from
 * inside a handler: end the event loop there. NULL is allowed. */
void rpc_server_free(struct rpc_server *server);

/** Listen on a unix socket. A stale socket file (without a listener) is replaced, a live one is
 * STATUS_FAILED_PRECONDITION. @mode of the socket file, e.g. 0660. */
enum status rpc_server_listen_unix(struct rpc_server *server, const char *path, mode_t mode,
				   struct error *err);

/** Listen on a TCP address with TLS 1.3.
 * @host numeric IPv4 or IPv6 address
 * @port 0: chosen by the kernel
 * @tls  borrowed; rpc_tls_reload() takes effect for new connections
 * @ret_port the port in use; may be NULL
 * A port in use is STATUS_FAILED_PRECONDITION and names address and port. */
enum status rpc_server_listen_tls(struct rpc_server *server, const char *host, uint16_t port,
				  struct rpc_tls *tls, uint16_t *ret_port, struct error *err);

/** The caller: the other end of the connection, or the one on whose behalf it calls. */
const struct rpc_peer *rpc_call_peer(const struct rpc_call *call);

/** The server that makes the call for rpc_call_peer(), and vouches for that; NULL: it is the caller's own. */
const struct rpc_peer *rpc_call_vouching_peer(const struct rpc_call *call);

/** The caller has got a certificate that expires at @expires_ms: all calls of its connection count as made
 * with that, too. If another server makes the call for it, only this call does. */
void rpc_call_renew_peer(struct rpc_call *call, int64_t expires_ms, const char *serial);

/** Are both calls of one connection of their caller? If other servers vouch for it, their machines and
 * the caller's identity, address and port decide. */
bool rpc_call_is_of_connection(const struct rpc_call *a, const struct rpc_call *b);

/** The token of the request, from "authorization: Bearer TOKEN" or "x-nomad-token: TOKEN", or NULL. A secret:
 * it belongs in no message and no log. Valid as long as the call. */
const char *rpc_call_token(const struct rpc_call *call);

/** The called method; for a function that takes calls of many methods. */
const ProtobufCServiceDescriptor *rpc_call_service(const struct rpc_call *call);
const char *rpc_call_method(const struct rpc_call *call);

/** The row of the called method; NULL: the call is not of a method. */
const struct rpc_method *rpc_call_row(const struct rpc_call *call);

/** Until the caller's deadline, at least 1; UINT64_MAX without a deadline. */
uint64_t rpc_call_left_us(const struct rpc_call *call);

/** A pointer of the handler's own, NULL at first. */
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);

/** Answer a unary call; @message is copied. The call is gone afterwards. */
void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *message);

/** Answer a unary call with an error, or end a stream with it. @err must be filled. */
void rpc_call_fail(struct rpc_call *call, const struct error *err);

/** Answer the call of a route with text; @text is copied. The call is gone afterwards. */
void rpc_call_reply_text(struct rpc_call *call, const char *content_type, const char *text);

/* Largest packed message that travels with an error: grpc-core refuses trailers above 8 KiB in all. */
enum { RPC_DETAILS_MAX = 4608 };

/** The same with @details (may be NULL) for programs: base64 in the trailer "holdfast-error-details-bin" of
 * gRPC, "details" of the JSON error. Omitted if it is packed larger than RPC_DETAILS_MAX, or has no room next
 * to the message. */
void rpc_call_fail_details(struct rpc_call *call, const struct error *err, const ProtobufCMessage *details);

/** The same, and that the call has changed nothing: it may be made again, at any server. @details may be
 * NULL.
 */
void rpc_call_fail_unchanged(struct rpc_call *call, const struct error *err, const ProtobufCMessage *details);

/** Send one message on a stream; copied. STATUS_RESOURCE_EXHAUSTED when the peer does not read: end the
 * stream. */
enum status rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err);

/* Number of bytes that wait for a slow reader from which on a forwarder of messages pauses their source. */
enum { RPC_UNSENT_HIGH = 256 * 1024 };

/** Have the messages of a stream wait, at most 1 MiB of them here and the rest at the client; or continue.
 * The end of what the client sends waits behind them, on_closed does not. */
void rpc_call_pause(struct rpc_call *call, bool is_paused);

/** Is more than RPC_UNSENT_HIGH waiting to be sent, or anything while the streams of its connection together
 * have an eighth of what may wait? Then on_drained follows. */
bool rpc_call_is_full(struct rpc_call *call);

/** Has the server ended the call with an error? The on_closed of a stream may ask, too. */
bool rpc_call_was_refused(const struct rpc_call *call);

/** End a stream with status OK; on_closed follows from the event loop. The end comes to the client behind
 * what waits for it to read. */
void rpc_call_finish(struct rpc_call *call);

/** End a stream by a reset, CANCELLED, and drop what waits for the client to read: it may have paused, and
 * would never hear of an end behind that. Returns false, and does nothing, if nothing waits. */
bool rpc_call_abort(struct rpc_call *call);
