/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls that a server which follows hands on to the one that leads, where several share a store in etcd.
 *
 * No method is named here: whatever the server has is handed on, calls and streams, with the caller's token
 * and with what the caller showed in its own handshake with this server (rpc/caller.h). That is taken from a
 * server's certificate and from nobody else's, and not handed on again. Deadlines, errors with their details
 * and the end of a stream go through as they are; a reader that is slow holds its own stream back.
 *
 * Sessions of nodes are such streams. They spread over connections of which each has FORWARD_STREAMS_MAX.
 *
 * When the leader cannot be reached the answer is UNAVAILABLE: nothing was begun. When it is lost during a
 * call that changes something the answer is UNKNOWN: look, then ask again.
 *
 * While etcd does not say who leads, the leader that is known is asked now and then whether it leads still:
 * calls and sessions go on as long as it does, whatever etcd does.
 *
 * New streams wait while nobody leads that can be reached, FORWARD_HOLD_S at most after the leader was lost:
 * nodes have their sessions as soon as the next one leads, and need not come back with growing delays. They
 * do not wait at a server whose trouble is its own (trouble_is_of_one_server()). */

#include "rpc/server.h"
#include "rpc/tls.h"

struct forward;
struct lead;

enum {
	FORWARD_STREAMS_MAX = 200, /* of a connection; below the leader's limit of calls */
	FORWARD_CONNS_MAX = 24,	   /* of them; below the leader's limit of connections of one identity */
	FORWARD_HOLD_S = 30,
};

/** Does the method change something? Then it is not known whether a lost leader has carried it out. */
typedef bool forward_changes_fn(const struct rpc_method *method);

/** @server  borrowed: whose calls are handed on; forward_relay() is its relay
 * @tls      borrowed: what this server shows to the leader
 * @ret owned by the caller, forward_free() */
enum status forward_new(sd_event *event, struct rpc_server *server, struct rpc_tls *tls, const char *cluster,
			forward_changes_fn *changes, struct forward **ret, struct error *err);

/** Begin to hand on what @lead, borrowed, says is another's; lead_watch() is this one's from now on. */
void forward_follow(struct forward *forward, struct lead *lead);

/** After rpc_server_free(): calls in flight are answered. NULL is allowed. */
void forward_free(struct forward *forward);

/** For rpc_server_set_relay(), with the struct forward. */
rpc_relay_fn forward_relay;
