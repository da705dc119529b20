/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The configuration of a server: tables of methods with the functions that answer them, limits, and the
 * functions that are asked about each call. See rpc/server.h. */

#include "base/error.h"
#include "rpc/peer.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

struct rpc_call;

/** @request is borrowed for the duration of the function. */
typedef void rpc_unary_fn(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);

struct rpc_stream_handlers {
	void (*on_open)(struct rpc_call *call, void *userdata); /* may be NULL */
	void (*on_message)(struct rpc_call *call, const ProtobufCMessage *message, void *userdata);
	void (*on_closed)(struct rpc_call *call, void *userdata);
	/* The client has finished sending but still reads. NULL: the stream then ends with OK by itself. */
	void (*on_half_close)(struct rpc_call *call, void *userdata);
	/* The bytes that wait to be sent were more than RPC_UNSENT_HIGH, and are less than half of it. May be
	 * NULL. */
	void (*on_drained)(struct rpc_call *call, void *userdata);
	/* Its readers never wait for long: others of its connection that have on_drained leave room to it. */
	bool is_prompt;
};

struct rpc_rule; /* what the owner's gate asks of a method's callers; its own */

/* One of unary and stream is set. Methods of the service that no row names answer UNIMPLEMENTED, by name. */
struct rpc_method {
	const char *name; /* as in the .proto file, "Register" */
	rpc_unary_fn *unary;
	/* The client of a unary call has gone before its answer, which is still to be given. May be NULL. */
	void (*on_gone)(struct rpc_call *call, void *userdata);
	const struct rpc_stream_handlers *stream;
	const struct rpc_rule *rule; /* for the gate; may be NULL */
	/* A connection that it was called on comes after those that it was not called on: for streams that
	 * thousands of clients keep open. */
	bool is_background;
};

struct rpc_service {
	const ProtobufCServiceDescriptor *descriptor;
	const struct rpc_method *methods;
	size_t n_methods;
};

struct rpc_server_limits {
	size_t message_bytes;	 /* largest message; 0: 1 MiB */
	size_t connection_bytes; /* bytes of requests and unsent answers held per connection; 0: 8 MiB */
	/* The same for all connections of one identity, or uid, and for all without a certificate; 0: 64 MiB.
	 * For all together; 0: 256 MiB. An idle connection takes little in addition */
	size_t identity_bytes;
	size_t total_bytes;
	size_t connections;  /* 0: 4096 */
	size_t calls;	     /* concurrent calls per connection; 0: 256 */
	size_t per_identity; /* TLS connections of one certificate's identity; 0: 128 */
	size_t per_address;  /* TLS connections of one address without a certificate (yet); 0: 256 */
	size_t per_user;     /* connections of one uid to unix sockets; 0: 256. Those of root and of our own
			      * uid are taken above `connections` as well */
};

/** May the call continue to @method? A returned error is the answer.
 * @service its short name, "Volumes"
 * @request NULL for a stream: asked before its first message */
typedef enum status rpc_gate_fn(struct rpc_call *call, const char *service, const struct rpc_method *method,
				const ProtobufCMessage *request, void *userdata, struct error *err);

/** May @peer make calls for others (rpc/caller.h)? A returned error is the answer, and counted as a refused
 * peer. */
typedef enum status rpc_vouching_fn(const struct rpc_peer *peer, void *userdata, struct error *err);

/** The row whose functions take the call instead of @method's, without asking the gate; NULL: it continues to
 * @method. For a stream also &rpc_relay_later: it waits, not accepted, and is asked about again. */
typedef const struct rpc_method *rpc_relay_fn(const struct rpc_call *call, const struct rpc_method *method,
					      void *userdata);

/** Name the other end of a connection to a unix socket: fill @peer->uri by its uid, as a certificate would.
 * Any status but STATUS_OK refuses the connection with @err.
 * @userdata the server's */
typedef enum status rpc_name_fn(struct rpc_peer *peer, void *userdata, struct error *err);

/** A connection was refused before its first request: its certificate, or TLS as such, or too many of them.
 * Or it was closed, because more is held for its peer than may be, or another one took its place.
 * @why of a refused certificate is STATUS_UNAUTHENTICATED */
typedef void rpc_refused_fn(const struct rpc_peer *peer, const struct error *why, void *userdata);

/** A unary call is late: add the reason to the message of @err. False: no reason is known.
 * @userdata the server's */
typedef bool rpc_late_fn(void *userdata, struct error *err);
