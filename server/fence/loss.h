/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nodes that are lost: not connected, while they hold a volume whose on_node_loss, or that of its holder,
 * wants a fence (node_loss_choose()). The server that leads begins the fence by itself, within the limits of
 * fence_auto() of lib/model. Time starts a fence; the evidence is the fencer's proof. */

#include "base/error.h"
#include "rpc/server.h"
#include "state/change.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

struct losses;
struct server;

enum {
	LOSS_RETRY_MS = 60 * 1000, /* after a fence that proved nothing */
	LOSS_LOOK_MS = 1000,
	LOSS_PLANS_MAX = 1000, /* that are shown */
};

/** After fences_new(). @ret owned by the caller, losses_free(). */
enum status losses_new(struct server *server, struct losses **ret, struct error *err);
/** NULL is allowed. */
void losses_free(struct losses *losses);

/** A node or the policy of a volume has changed. See struct change_observer. */
void losses_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);

/* Methods of Fences. */
void losses_handle_set(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void losses_handle_plan(struct rpc_call *call, const ProtobufCMessage *request, void *server);
