/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* gRPC client: one HTTP/2 connection to a unix socket or a TLS server, driven by sd-event.
 *
 * The first call makes the connection, and the next call makes it again after it was lost; back-off is the
 * owner's. If several servers act as one, each is tried once for a connection, beginning with the one that
 * took the last, or behind the one that was lost. No call is sent twice. Callbacks never run inside a
 * function of this header, and `done` runs exactly once per started call. Every error carries the peer's gRPC
 * code, or UNAVAILABLE for transport trouble with the endpoint's name in the message. */

#include "base/error.h"
#include "rpc/address.h"
#include "rpc/peer.h"
#include "rpc/tls.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct rpc_client;
struct rpc_pending; /* one unary call in flight */
struct rpc_stream;  /* one bidirectional stream */

struct rpc_endpoint {
	const char *unix_path; /* set: a unix socket, the rest is ignored */
	bool is_own_socket;    /* at unix_path itself: a link there leads to no other one */
	const char *host;      /* numeric address, or a name resolved when connecting */
	uint16_t port;
	const struct rpc_address *servers; /* set: one of these, instead of host and port; copied */
	size_t n_servers;
	struct rpc_tls *tls; /* borrowed, must outlive the client */
	/* URI expected in the server's certificate, or with a slash at its end how it begins; NULL: any that
	 * the CA signed */
	const char *server_uri;
	size_t message_bytes; /* largest answer; 0: 4 MiB */
	const char *token;    /* sent with every call; NULL without a token. Never in a message or a log */
	/* An established connection is about to end, and not by rpc_client_free(): only note it, call nothing
	 * of this header inside. May be NULL. */
	void (*on_lost)(void *userdata);
	void *userdata;
};

/** @endpoint is copied (not tls). STATUS_INVALID_ARGUMENT when the token could not be sent. */
enum status rpc_client_new(sd_event *event, const struct rpc_endpoint *endpoint, struct rpc_client **ret,
			   struct error *err);

/** Close the connection. Calls in flight end with CANCELLED before this returns: the one exception to
 * "callbacks never run inside". NULL is allowed. */
void rpc_client_free(struct rpc_client *client);

/** The next call goes to the next server, if there are several; those in flight continue where they are. */
void rpc_client_move_on(struct rpc_client *client);

/** The next call makes a new connection, with the certificate that is loaded then; those in flight continue
 * where they are. */
void rpc_client_reconnect(struct rpc_client *client);

/** "HOST:PORT" of the server that takes new calls; NULL: there is no connection. Valid until the next call of
 * this function. */
const char *rpc_client_server(struct rpc_client *client);

/** While a stream is open and the server silent for @us, it is asked for a sign, and given twice as long to
 * answer; from the next look on. Never less than the default of 10 s. */
void rpc_client_set_keepalive(struct rpc_client *client, uint64_t us);

/* For whom a call is made, see rpc/caller.h: what that peer showed here. */
struct rpc_behalf {
	const struct rpc_peer *peer;
	const char *token; /* may be NULL */
};

/** @response is borrowed for the duration of the call and NULL unless @status is OK; @err is NULL when OK. */
typedef void rpc_done_fn(enum status status, const ProtobufCMessage *response, const struct error *err,
			 void *userdata);

/** Start a unary call.
 * @method     name as in the .proto file
 * @timeout_us relative; 0 is STATUS_INVALID_ARGUMENT. Sent as grpc-timeout and kept here.
 * @ret        may be NULL; valid until done ran, for rpc_pending_cancel() */
enum status rpc_client_call(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
			    const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
			    rpc_done_fn *done, void *userdata, struct rpc_pending **ret, struct error *err);

/** The same on behalf of another caller. @behalf is borrowed for the duration of the call; may be NULL.
 * STATUS_INVALID_ARGUMENT if it cannot be encoded. */
enum status rpc_client_call_for(struct rpc_client *client, const struct rpc_behalf *behalf,
				const ProtobufCServiceDescriptor *service, const char *method,
				const ProtobufCMessage *request, uint64_t timeout_us, rpc_done_fn *done,
				void *userdata, struct rpc_pending **ret, struct error *err);

/** May the server have begun to carry out the call or stream that ended last with an error? Not if it reports
 * that it has changed nothing. */
bool rpc_client_may_have_begun(const struct rpc_client *client);

/** Did the server refuse that call or stream because the connection is closed to new ones? It answers, and
 * the next call makes another connection. */
bool rpc_client_was_refused(const struct rpc_client *client);

/** The details that the server sent for programs with the error of the call that ended last: a message of
 * @descriptor, owned by the caller, protobuf_c_message_free_unpacked(). NULL without readable details. */
ProtobufCMessage *rpc_client_details(const struct rpc_client *client,
				     const ProtobufCMessageDescriptor *descriptor);

/** The server's own text with the error of the call that ended last, "" without a text. NULL if the error is
 * ours, about the server or the connection. Valid until another call ends. */
const char *rpc_client_message(const struct rpc_client *client);

/** The process that listens at the unix socket of the connection that takes new calls, as this process's pid
 * namespace numbers it. 0: there is no such connection, or no such number. Source: unix(7), SO_PEERCRED. */
pid_t rpc_client_peer(const struct rpc_client *client);

/** Forget a call: done never runs. */
void rpc_pending_cancel(struct rpc_pending *pending);

/** For programs that do one thing at a time: run the event loop until the answer is there.
 * @ret_response owned by the caller, protobuf_c_message_free_unpacked() */
enum status rpc_client_call_sync(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
				 const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
				 ProtobufCMessage **ret_response, struct error *err);

struct rpc_stream_events {
	/* the server has accepted the stream: its headers arrived. May be NULL. */
	void (*on_open)(struct rpc_stream *stream, void *userdata);
	void (*on_message)(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata);
	/* the end, exactly once, by either side; the stream is gone afterwards. @err is NULL when OK. */
	void (*on_closed)(struct rpc_stream *stream, enum status status, const struct error *err,
			  void *userdata);
	/* The bytes that wait to be sent were more than RPC_UNSENT_HIGH, and are less than half of it. May be
	 * NULL. */
	void (*on_drained)(struct rpc_stream *stream, void *userdata);
	/* The server may send its headers with its first message, as servers of grpcio, grpc-go and C++ do.
	 * The time limit then bounds only the connection; keep-alive finds a silent server. */
	bool headers_may_wait;
};

/** Open a bidirectional stream. @connect_timeout_us bounds the time until on_open, see headers_may_wait. */
enum status rpc_stream_open(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
			    const char *method, uint64_t connect_timeout_us,
			    const struct rpc_stream_events *events, void *userdata, struct rpc_stream **ret,
			    struct error *err);

/** The same on behalf of another caller, as rpc_client_call_for(). */
enum status rpc_stream_open_for(struct rpc_client *client, const struct rpc_behalf *behalf,
				const ProtobufCServiceDescriptor *service, const char *method,
				uint64_t connect_timeout_us, const struct rpc_stream_events *events,
				void *userdata, struct rpc_stream **ret, struct error *err);

/** Send one message; copied. STATUS_RESOURCE_EXHAUSTED when too much is unsent, STATUS_UNAVAILABLE when
 * closing. */
enum status rpc_stream_send(struct rpc_stream *stream, const ProtobufCMessage *message, struct error *err);

/** Nothing more is sent; what the server sends still comes. */
void rpc_stream_half_close(struct rpc_stream *stream);

/** Have messages wait, at most 1 MiB of them here and the rest at the server; or continue. The end that the
 * server has made waits behind them, any other does not. */
void rpc_stream_pause(struct rpc_stream *stream, bool is_paused);

/** Is more than RPC_UNSENT_HIGH (server.h) waiting to be sent, or anything while the streams of its
 * connection together have an eighth of what may wait? Then on_drained follows. */
bool rpc_stream_is_full(struct rpc_stream *stream);

/** Cancel the stream; on_closed never runs. NULL is allowed. */
void rpc_stream_cancel(struct rpc_stream *stream);
