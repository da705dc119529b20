/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Draining a node: nothing new is placed there, its allocations are told to stop, and it is done when the
 * last of its claims is freed by evidence. Nothing is forced: the deadline only says from when on it is late.
 * Allocations that run plugins stop last, when nothing that needs them is left. */

#include "state/objects.h"
#include "state/state.h"

#include <protobuf-c/protobuf-c.h>

struct rpc_call;
struct server;

/** Nodes.Drain. Repeated calls show how far it is. */
void drain_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** Do what can be done now for the drain of @node, if there is one under way. */
void drain_go_on(struct server *server, struct node_entry *node);

/** An object has become durable: a drain may go on because of it. */
void drain_noticed(struct server *server, enum object_kind kind, const void *value);
