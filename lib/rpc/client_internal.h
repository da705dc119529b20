/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The part of the client that unary calls and streams see: its connections and the calls on them. */

#include "rpc/address.h"
#include "rpc/dial.h"
#include "rpc/h2.h"
#include "rpc/message.h"
#include "rpc/response_head.h"
#include "rpc/transport.h"

#include <protobuf-c/protobuf-c.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct rpc_behalf;
struct rpc_tls;

enum {
	CLIENT_NAME_SIZE = 320,
	CALL_NAME_SIZE = 640,
	CONNS_LEFT_MAX = 8, /* that take no new calls and have calls */
};

struct client_timing {
	uint64_t connect_us;   /* name resolution, connection and TLS */
	uint64_t keepalive_us; /* silence, while a stream is open, before the server is asked for a sign */
	uint64_t silence_us;   /* how long it may then take */
};

extern const struct client_timing client_timing_default;

struct rpc_client {
	sd_event *event; /* borrowed */
	struct poller *poller;
	char *unix_path; /* NULL: servers */
	bool is_own_socket;
	struct rpc_address *servers;
	size_t n_servers;
	size_t first;	     /* of servers, to be tried for the next connection */
	struct rpc_tls *tls; /* borrowed */
	char *server_uri;
	char *authorization;	/* value of that header, or NULL */
	struct details details; /* of the call that ended last */
	bool may_have_begun;	/* it may have been carried out */
	bool was_refused;	/* likewise: the connection is closed to new ones */
	bool has_message;	/* its error comes from the server */
	char server_message[ERROR_MSG_MAX];
	size_t message_bytes;
	void (*on_lost)(void *userdata); /* may be NULL */
	void *userdata;
	struct client_timing timing;
	char name[CLIENT_NAME_SIZE];   /* of the endpoint, for people */
	char at[RPC_SERVER_NAME_SIZE]; /* for rpc_client_server() */
	sd_event_source *reaper; /* deferred: for connections that take no new calls and have no calls */
	bool closing;
	struct client_conn *current; /* takes new calls; NULL: the next call makes one */
	LIST_HEAD(, client_conn) conns;
	LIST_HEAD(, client_call) calls;
};

struct client_conn {
	struct rpc_client *client;
	bool is_open;
	unsigned int refs;
	size_t at;		     /* of the client's servers */
	size_t n_failed;	     /* of them, so far */
	struct dial *dial;	     /* while connecting */
	struct transport *transport; /* afterwards */
	struct h2 *h2;
	sd_event_source *connect_timer;
	sd_event_source *keepalive_timer;
	pid_t peer;	    /* the listener at a unix socket; 0: not known */
	bool up;	    /* requests can be sent */
	bool was_left;	    /* by the server's GOAWAY */
	uint64_t pinged_us; /* when the server was asked for a sign that it still owes us; 0: it was not */
	size_t n_streams;   /* bidirectional ones: they want to know when the server is gone */
	struct error why;   /* it was lost; valid when not open; before, what failed of those tried */
	LIST_ENTRY(client_conn) all;
};

/** A stream is opened or gone: keepalive runs while there is one. */
void client_conn_count_stream(struct client_conn *conn, int change);

struct client_call;

struct client_call_ops {
	/* Messages or headers have arrived. Returns false when the call is gone. */
	bool (*on_progress)(struct client_call *call);
	/* The end: unlink the call, notify the owner and free the call. @err is NULL when @status is OK. */
	void (*on_end)(struct client_call *call, enum status status, const struct error *err);
};

/* The part that unary calls and streams have in common. */
struct client_call {
	struct h2_stream stream;
	void *owner; /* struct rpc_pending or struct rpc_stream, as its ops know */
	struct rpc_client *client;
	struct client_conn *conn;
	const struct client_call_ops *ops;
	const struct rpc_behalf *behalf; /* may be NULL; until it has started */
	const ProtobufCServiceDescriptor *service;
	const ProtobufCMethodDescriptor *method;
	struct response_head head;
	bool accepted;	       /* the answer is gRPC and more than a status */
	bool is_servers_error; /* it ended with an error that the server sent */
	sd_event_source *timer;
	uint64_t deadline_us; /* monotonic; UINT64_MAX without a deadline */
	LIST_ENTRY(client_call) all;
};

/* The call begins as nothing but its parts. */
#define CLIENT_CALL_INIT(call_, owner_, ops_, client_, service_, method_)                               \
	{                                                                                               \
		.stream = H2_STREAM_INIT(call_), .owner = (owner_), .ops = (ops_), .client = (client_), \
		.service = (service_), .method = (method_)                                              \
	}

/** Start an initialised @call.
 * @timeout_us reported to the server and the call's deadline, which the owner enforces; 0 without one
 * On failure only its memory is left. */
enum status client_call_start(struct client_call *call, uint64_t timeout_us, struct error *err);

/** Fire the owner's handler; for the deadline and for the time until a stream is accepted. */
enum status client_call_arm(struct client_call *call, uint64_t delay_us, sd_event_time_handler_t handler,
			    struct error *err);

/** Forget the call without notifying its owner; a server that has it is notified. The memory stays the
 * owner's. */
void client_call_unlink(struct client_call *call);

/** Unlink the call and notify the owner. */
void client_call_end(struct client_call *call, enum status status, const struct error *err);

/** Name for messages: "holdfast.v1.Volumes/Get at unix:/run/x". Returns @name. */
char *client_call_name(const struct client_call *call, char name[static CALL_NAME_SIZE]);

/** message_read() of an answer. */
enum message_result client_call_read(struct client_call *call, ProtobufCMessage **ret, struct error *err);
