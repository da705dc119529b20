/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls that a follower hands on to the leader, where several servers share a store in etcd.
 *
 * No method is named here: all calls and streams are handed on, with the caller's token and the facts of the
 * caller's own handshake with this server (rpc/caller.h). The leader accepts those only with a server's
 * certificate, and they are not handed on again. Deadlines, errors with their details and the end of a stream
 * pass unchanged; a slow reader holds its own stream back.
 *
 * Sessions of nodes and fencers are such streams. They spread over connections of which each has
 * FORWARD_STREAMS_MAX, other streams and calls over others: a call that waits for minutes, or many, delay no
 * other one, and what slow readers leave unread takes no room from sessions.
 *
 * If the leader is unreachable, the answer is UNAVAILABLE: nothing was begun. If it is lost during a call
 * that changes something, the answer is UNKNOWN: the caller must look, then ask again.
 *
 * A leader is asked once when it is known, and sees the certificate of this server then; see issuers.h.
 * While etcd does not report a leader, the known one is asked now and then whether it still leads: calls and
 * sessions go on as long as it does, in any state of etcd.
 *
 * While no leader is reachable, new streams wait, at most FORWARD_HOLD_S after the leader was lost. So
 * nodes have their sessions as soon as the next one leads, and need not come back with growing delays.
 * They do not wait at a server whose trouble is its own (trouble_is_of_one_server()). */

#include "rpc/server.h"
#include "rpc/tls.h"

struct forward;
struct lead;

enum {
	FORWARD_STREAMS_MAX = 200, /* of a connection; below the leader's limit of calls */
	FORWARD_CONNS_MAX = 24,	   /* for sessions, other streams and calls each; together below the leader's
				    * limit of connections of one identity */
	FORWARD_PER_CALLER_MAX = 400, /* calls and streams; a node has one session, 64 streams, 256 calls */
	FORWARD_HOLD_S = 30,
};

/** Does the method change something? Then it is not known whether a lost leader has carried it out. */
typedef bool forward_changes_fn(const struct rpc_method *method);

/** Calls rpc_call_renew_peer() if @response brings a certificate to its caller. */
typedef void forward_renewed_fn(struct rpc_call *call, const ProtobufCMessage *response);

/** @server  borrowed: whose calls are handed on; forward_relay() is its relay
 * @tls      borrowed: what this server shows to the leader
 * @ret owned by the caller, forward_free() */
enum status forward_new(sd_event *event, struct rpc_server *server, struct rpc_tls *tls, const char *cluster,
			forward_changes_fn *changes, forward_renewed_fn *renewed, struct forward **ret,
			struct error *err);

/** Begins to hand on calls while @lead, borrowed, names another server. Takes over lead_watch(). */
void forward_follow(struct forward *forward, struct lead *lead);

/** This server shows another certificate from now on: later calls and streams go over new connections to the
 * leader, and the leader is shown it at once. NULL is allowed. */
void forward_reconnect(struct forward *forward);

/** After rpc_server_free(): calls in flight are answered. NULL is allowed. */
void forward_free(struct forward *forward);

/** For rpc_server_set_relay(), with the struct forward. */
rpc_relay_fn forward_relay;
