/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by the files of the server: the server, its connections and the calls on them. */

#include "rpc/h1.h"
#include "rpc/h2.h"
#include "rpc/message.h"
#include "rpc/peer_count.h"
#include "rpc/request_head.h"
#include "rpc/route.h"
#include "rpc/service.h"
#include "rpc/transport.h"

struct rpc_tls;

struct server_timing {
	uint64_t handshake_us;	   /* TLS, from accept */
	uint64_t crowded_us;	   /* the same, when others want its place */
	uint64_t first_request_us; /* from then on to the first request */
	uint64_t request_us;	   /* the body of a unary request without a deadline of its own */
};

extern const struct server_timing server_timing_default;

enum { SERVER_FIRST_MAX = 3 }; /* one less than "PRI ", how HTTP/2 begins */

/* The connections that a turn of the event loop serves; each kind has turns of its own, so no kind delays the
 * others. */
enum poll_class {
	POLL_HANDSHAKES, /* connections that have not come about yet */
	POLL_CALLS,
	POLL_BACKGROUND, /* of methods that are in the background: thousands of nodes at once */
	POLL_CLASS_N,
};

/* The handlers of a connection's requests, by the protocol of its client. */
struct server_protocols {
	struct h2_ops h2;
	struct h1_ops h1;
};

/* Ended calls of one method. */
struct call_counts {
	const struct rpc_service *service;
	const struct rpc_method *method;
	uint64_t n[STATUS_N];
};

struct rpc_server {
	sd_event *event; /* borrowed */
	struct poller *pollers[POLL_CLASS_N];
	const struct rpc_service *services;
	size_t n_services;
	const struct rpc_route *routes;
	size_t n_routes;
	struct rpc_server_limits limits; /* an unset one is 0 */
	struct server_timing timing;
	const struct server_protocols *protocols;
	void *userdata;
	size_t n_conns; /* including those that only wait for a handler's answer */
	size_t n_streams;
	uint64_t n_accepted;
	uint64_t n_refused;
	struct call_counts *counts; /* of every method, in the order of the tables */
	size_t n_counts;
	struct peer_count_tree peers;	/* of TLS connections: identities, and addresses of those without */
	struct peer_count_tree holders; /* for whom requests and answers are held */
	size_t held_bytes;		/* of all of them */
	struct server_conn *cut;	/* it is being closed because of them; may be NULL */
	rpc_gate_fn *gate;		/* NULL: every call continues */
	rpc_vouching_fn *vouching;	/* NULL: no peer may make calls for others */
	rpc_relay_fn *relay;		/* NULL: no call goes elsewhere */
	void *relay_userdata;
	TAILQ_HEAD(, rpc_call) waiting; /* streams that the relay has postponed, oldest first */
	rpc_refused_fn *refused;	/* may be NULL */
	rpc_name_fn *name;		/* NULL: connections to unix sockets have no URI */
	rpc_late_fn *late;		/* NULL: no reason is known */
	uint64_t late_us;
	bool in_handler;
	LIST_HEAD(, server_conn) conns;
	TAILQ_HEAD(, server_conn) starting; /* those of TLS that have not shaken hands, oldest first */
	struct peer_conns idle; /* those of TLS without an identity and without a handled call, likewise */
	LIST_HEAD(, rpc_listener) listeners;
};

/* Lives while it is connected or a handler holds a call of it. */
struct server_conn {
	struct rpc_server *server; /* NULL once the server is gone */
	bool is_open;
	struct transport *transport; /* NULL once disconnected */
	struct h2 *h2;		     /* the client's protocol: one of both, or still unknown */
	struct h1 *h1;
	size_t n_first;			 /* bytes in first */
	uint8_t first[SERVER_FIRST_MAX]; /* too few to recognize the protocol */
	sd_event_source *timer;
	uint64_t since_us; /* monotonic */
	bool is_starting;  /* in the server's list of those */
	struct rpc_peer peer;
	struct peer_count *count;  /* NULL: not counted */
	struct peer_count *holder; /* NULL: it has not come about, or has ended */
	size_t held_bytes;	   /* of what the holder has */
	bool up;		   /* TLS is established, or not used */
	bool refused;		   /* it got the reason, and may close now */
	bool is_idle;		   /* in the lists of those, of the server and of count */
	unsigned int refs;
	size_t n_requests; /* whose headers have come, and that are not over */
	size_t n_held;	   /* calls that handlers hold */
	LIST_HEAD(, rpc_call) calls;
	LIST_ENTRY(server_conn) all;
	TAILQ_ENTRY(server_conn) starting;
	TAILQ_ENTRY(server_conn) idle;
	TAILQ_ENTRY(server_conn) idle_of_peer;
};

/** Serve @fd, a connected non-blocking socket; taken over, also on failure.
 * @tls may be NULL */
enum status server_conn_new(struct rpc_server *server, int fd, struct rpc_tls *tls,
			    const struct rpc_peer *peer, struct error *err);

/** Close a connection, so that another gets its place: the one that has been idle for longest without an
 * identity, or the oldest that has not shaken hands and has sent nothing, or has had its time. @count of the
 * peer; NULL: of any peer. Returns whether one was closed. */
bool server_conn_make_room(struct rpc_server *server, struct peer_count *count);

/** The connection is refused: report and count it. */
void server_conn_refused(struct rpc_server *server, const struct rpc_peer *peer, const struct error *why);

/** Close it now: open streams get on_closed, what handlers hold stays valid. */
void server_conn_close(struct server_conn *conn);

/** The server is going away; handlers still hold calls of this closed connection. */
void server_conn_orphan(struct server_conn *conn);

/** Have it served among those of @class. */
void server_conn_move(struct server_conn *conn, enum poll_class class);

/** There is something to send or to dispatch. */
void server_conn_wake(struct server_conn *conn);

/** End it from the event loop. */
void server_conn_fail(struct server_conn *conn, const struct error *why);

/** The headers of a request have come. */
void server_conn_begin_request(struct server_conn *conn);

/** The request is over. After the last one the next one must come in time, by HTTP/2 only without an
 * identity. */
void server_conn_end_request(struct server_conn *conn);

/** So many calls are with handlers. */
void server_conn_set_calls(struct server_conn *conn, size_t n);

void server_conn_ref(struct server_conn *conn);
void server_conn_unref(struct server_conn *conn);

/** May @n bytes more be held for the peer? When not, the connection that holds most is on its way out. */
enum status server_conn_hold(struct server_conn *conn, size_t n, struct error *err);

enum call_state {
	CALL_HEAD,	/* its headers have not been looked at */
	CALL_REQUEST,	/* unary: the request is coming in */
	CALL_HANDLED,	/* unary: with its handler, who will answer */
	CALL_STREAMING, /* a stream that its handlers know of */
	CALL_CLOSING,	/* a stream that has ended and whose on_closed is due */
	CALL_ENDED,	/* no handler knows of it; the answer may still be on its way */
};

struct rpc_call {
	struct h2_stream stream;  /* with HTTP/1.1 only its received bytes and flags are used */
	struct h1 *h1;		  /* NULL: HTTP/2, or disconnected */
	struct server_conn *conn; /* a reference */
	struct request_head head;
	struct rpc_peer *caller; /* for whom it is made; NULL: the connection's peer */
	const struct rpc_method *method;
	const struct rpc_service *service; /* of the method; NULL before it is known, or for a text */
	struct call_counts *counts;	   /* NULL: no method that is counted, or counted already */
	const struct rpc_route *route;	   /* NULL: called by its method's own path */
	const ProtobufCMethodDescriptor *descriptor;
	enum call_state state;
	unsigned int allow; /* methods that would do, for a 405 */
	bool pretty;	    /* JSON for people */
	bool headers_sent;
	bool half_closed; /* a stream: its handlers know that the client has finished sending */
	bool is_relayed;  /* the method is another row than the one that was called */
	bool is_begun;	  /* a request of its connection */
	bool is_waiting;  /* in the server's list of those; in CALL_HEAD */
	TAILQ_ENTRY(rpc_call) waiting;
	LIST_ENTRY(rpc_call) of_conn;
	bool answered;		  /* the handler's answer is dropped: the deadline has passed */
	enum status end_status;	  /* for the trailers */
	char *end_message;	  /* percent-encoded; may be NULL */
	bool has_changed_nothing; /* sent with the error */
	bool is_in_flight;	  /* counted in conn->n_held: its client waits for it */
	char *end_details;	  /* base64; may be NULL */
	sd_event_source *deadline;
	void *data;
};

extern const struct server_protocols server_call_protocols;

/* The gRPC form. */

/** The one message of a unary call and nothing after it. @ret owned by the caller, message_freep() */
enum message_result grpc_call_request(struct rpc_call *call, ProtobufCMessage **ret, struct error *err);
void grpc_call_reply(struct rpc_call *call, const ProtobufCMessage *message);
void grpc_call_end(struct rpc_call *call, enum status status, const char *message);
/** @details may be NULL */
void grpc_call_end_details(struct rpc_call *call, const struct error *err, const ProtobufCMessage *details);
void grpc_call_trailers(struct rpc_call *call);
void grpc_call_open(struct rpc_call *call);
enum status grpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err);

/* The JSON form. */

/** The request of a unary call, once all of it is there. @ret owned by the caller, message_freep(); @ret_http
 * of a refusal */
enum message_result json_call_request(struct rpc_call *call, ProtobufCMessage **ret, int *ret_http,
				      struct error *err);
void json_call_reply_text(struct rpc_call *call, const char *content_type, const char *text);
void json_call_reply(struct rpc_call *call, const ProtobufCMessage *message);
/** @details may be NULL */
void json_call_fail(struct rpc_call *call, int http_status, const struct error *err,
		    const ProtobufCMessage *details);
