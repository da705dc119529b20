/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Draining a node: nothing new is placed there, its allocations are ordered to stop, and it is done when
 * the last of its claims is freed by evidence, and it has reported what it holds (recovery/epoch.h). Nothing
 * is forced: after the deadline it is only shown as overdue. Allocations that run plugins stop last, when no
 * other allocation has a volume of theirs; those that need each other stop together. */

#include "state/objects.h"
#include "state/state.h"

#include <protobuf-c/protobuf-c.h>

struct change_object;
struct rpc_call;
struct server;

/** Nodes.Drain. Repeated calls show how far it is. */
void drain_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** Does what can be done now for the drain of @node, if there is one in flight. */
void drain_continue(struct server *server, struct node_entry *node);

/** Objects have become durable: a drain may continue because of them. See struct change_observer. */
void drain_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);
