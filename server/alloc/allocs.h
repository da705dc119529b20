/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Allocations: what is asked of them, and what becomes of them. */

#include "base/error.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct change;
struct refusal;
struct server;
struct rpc_call;

/* Handlers of the service Allocations: submit.c, read.c and orders.c. */
void allocs_handle_run(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_stop(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_order_task(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** May the caller run @alloc (NULL: one that says nothing) in @namespace? */
enum status allocs_may_run(struct server *server, const struct rpc_call *call, const char *namespace,
			   const Holdfast__V1__Allocation *alloc, struct error *err);

/** Make an allocation that is to run of @alloc, which is defaulted and valid and has lists of its own: its
 * id, if it has none, its times, and its node, which is checked if it is named and else chosen. To be stored
 * by the caller. @refusal gets what is in the way. */
enum status allocs_place(struct server *server, struct alloc *alloc, struct refusal *refusal,
			 struct error *err);

/** What it is to do is durable: pass it on to its node, if that is connected. */
void allocs_send(const struct alloc_entry *entry);

/** The node is back in another boot: what ran there is lost. One transaction per allocation. */
enum status allocs_node_rebooted(struct server *server, struct node_entry *node, struct error *err);

/** Stage in @change that the allocation is to stop; one that has not run on @node, which is not connected,
 * has ended by that. A repeat stages nothing. */
void allocs_stage_stop(struct change *change, const struct alloc_entry *entry, const struct node_entry *node);

/** Stage in @change that the allocation is lost, with the reason; its work has ended. */
enum status allocs_lose(struct change *change, struct alloc_entry *entry, const char *reason,
			struct error *err);
