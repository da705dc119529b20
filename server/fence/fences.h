/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Fences: the server that leads has a fencer switch a node off, or the controller of a plugin have its
 * storage refuse the node, and frees what the node held in that boot by the proof. The steps are fence_step()
 * of lib/model; each is durable before the next is taken, so a server that starts again, or the next leader,
 * continues where this one was.
 *
 * A node that has a session in the boot that is fenced is not freed before the session has fallen silent: a
 * node that is heard after its proof shows that the switch is another machine's. A proof counts for the
 * machine and the boot for which its fence was begun, and as long as the server knows that nothing was heard
 * of that machine since. */

#include "base/error.h"
#include "rpc/server.h"
#include "state/change.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fences;
struct server;

enum {
	FENCE_ANSWER_MAX_MS = 5 * 60 * 1000,  /* from the end of an order to that of its fence, as unknown */
	FENCE_FENCER_WAIT_MS = 60 * 1000,     /* until a fencer is here, before the fence ends as refused */
	FENCE_TEST_MAX_MS = 390 * 1000,	      /* three actions of a fencer's longest timeout, and more */
	FENCE_NETWORK_MAX_MS = 2 * 60 * 1000, /* of all calls of a network fence */
	FENCE_TRIES_MAX = 3,		      /* fencers or controllers of one fence */
};

/** After the state was loaded: fences that are open continue. @ret owned by the caller, fences_free(). */
enum status fences_new(struct server *server, struct fences **ret, struct error *err);

/** Ends tests that are in flight. NULL is allowed. */
void fences_free(struct fences *fences);

/* Methods of Fences. */
void fences_handle_fence(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void fences_handle_test(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void fences_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void fences_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** A fence or its node is durable as it is now: take the next step. See struct change_observer. */
void fences_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);

/** The last fence of the node at the plugin ("": its power fence), borrowed until the next change of it;
 * NULL: it was never fenced so. */
const struct Holdfast__V1__Fence *fences_find(struct server *server, const char *node_id,
					      const char *plugin_id);

struct node;
struct node_entry;

/** Was the node heard after the moment for which a power fence has proved it off? */
bool fences_heard_after(const struct server *server, const struct node_entry *node,
			const struct Holdfast__V1__Fence *fence);

/** Counts the fences that the server has begun by itself within @within_ms; the clock may have been set
 * since. */
size_t fences_count_automatic(struct server *server, int64_t within_ms);

/** Can the storage of the plugin refuse @node in its boot? STATUS_FAILED_PRECONDITION has the cause. */
enum status fences_check_network(struct server *server, const struct node_entry *node, const char *plugin_id,
				 struct error *err);

/** Begin a fence of @node, which is not connected, by the server itself. @plugin_id "": a power fence. */
enum status fences_begin(struct server *server, const struct node_entry *node, const char *plugin_id,
			 const char *reason, struct error *err);

struct fences_count {
	size_t open;	 /* wait for something */
	size_t in_force; /* network fences that the storage may carry out */
	size_t unproved; /* last fences of nodes that were refused, have failed, or whose outcome is unknown
			  */
};

struct fences_count fences_count(struct server *server);
