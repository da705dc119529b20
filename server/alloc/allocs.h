/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Allocations: their submission, orders and results. */

#include "base/error.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct change;
struct change_object;
struct placement_assumed;
struct refusal;
struct server;
struct rpc_call;

/* Handlers of the service Allocations: submit.c, read.c and orders.c. */
void allocs_handle_run(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_stop(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server);
void allocs_handle_order_task(struct rpc_call *call, const ProtobufCMessage *request, void *server);

/** May the caller run @alloc (NULL: an empty one) in @namespace? */
enum status allocs_may_run(struct server *server, const struct rpc_call *call, const char *namespace,
			   const Holdfast__V1__Allocation *alloc, struct error *err);

/** May the caller have the server begin a fence for a claim in @namespace by itself? @loss
 * may be NULL. */
enum status allocs_may_want_fence(struct server *server, const struct rpc_call *call, const char *namespace,
				  const Holdfast__V1__OnNodeLoss *loss, struct error *err);

/** Completes @alloc, which is defaulted and valid and has lists of its own, so that it can run: its id, if
 * it has no id, its times, and its node, which is checked if it is named and else chosen. The caller
 * stores it. @refusal gets the obstacles. */
enum status allocs_place(struct server *server, struct alloc *alloc, struct refusal *refusal,
			 struct error *err);

/** The same, where something is taken for granted, see placement.h. */
enum status allocs_try_place(struct server *server, struct alloc *alloc,
			     const struct placement_assumed *assumed, struct refusal *refusal,
			     struct error *err);

/** As it is shown: a pending one with what it waits for. Owned by the caller; NULL when memory is short. */
Holdfast__V1__Allocation *allocs_view(struct server *server, const struct alloc *alloc);

/** Since when its node has no session; 0: it has one, or the allocation has no node. */
int64_t allocs_disconnected_ms(const struct server *server, const struct alloc_entry *entry);

/** Its orders are durable: passes them on to its node, if that is connected. */
void allocs_send(const struct alloc_entry *entry);

/** Commits @change with an allocation; when it is durable, its orders go to its node, if that is connected.
 */
enum status allocs_commit(struct server *server, struct change *change, const struct alloc *alloc,
			  struct error *err);

enum { ALLOC_OBJECT_SIZE = 16 + NAMESPACE_MAX + UUID_TEXT_SIZE }; /* "allocation default/ID" */

/** Returns @ret: the allocation as an object of the audit. */
const char *alloc_object(const struct alloc *alloc, char ret[static ALLOC_OBJECT_SIZE]);

/** The node is back in another boot: what ran there is lost. One transaction per allocation. */
enum status allocs_node_rebooted(struct server *server, struct node_entry *node, struct error *err);

/** The node is not connected, and is down, attested or purged (@for_good): its allocations without a claim
 * are lost, with the reason. They can write nothing twice, and each is ordered to stop if the node returns.
 * Unless the node is gone for good, those that were submitted by themselves and have not run yet wait for
 * it. One transaction per allocation. */
enum status allocs_node_gone(struct server *server, struct node_entry *node, bool for_good,
			     const char *reason, struct error *err);

bool alloc_has_live_claims(const struct alloc_entry *entry);

/** Its place among those that wait for a volume: one that came before is below. */
uint64_t alloc_arrival(const struct alloc *alloc);

/** Its claim was refused: note if another one has the volume, which is no failure of its work. */
void allocs_note_lost_race(struct server *server, const struct alloc_entry *entry);

/** Stages in @change that the allocation must stop. One that has not run on @node, which is not connected,
 * has ended by that, unless the node must report. A repeat stages nothing. */
void allocs_stage_stop(struct change *change, const struct alloc_entry *entry, const struct node_entry *node);

/* --- pending.c --- */

/* Allocations that wait for a volume: of jobs, and those that were submitted with a time to wait. They are
 * pending, without a node, until the volume is free by evidence or their time is over.
 *
 * A pending allocation is stored like every other one, so the queue survives a restart. Its order is
 * alloc_arrival(). A replacement of another version keeps the place of its predecessor: until it is
 * submitted, the predecessor keeps others from the volume. After each change that may have freed
 * something, all are tried in that order, those that are related one behind the other; there is no polling.
 * One that waits for a volume keeps later ones from that volume, if they would be in its way. One that waits
 * only for a node keeps no other from its volume. */

enum {
	PENDING_PER_VOLUME_MAX = 64,
	PENDING_PER_NAMESPACE_MAX = 4096,
	PENDING_RELATED_MAX = 128, /* that wait for one volume, for another volume of these, and so on */
};

/** May @alloc, which is not stored, be placed now? Considers allocations that wait before it, and those
 * that were placed, or are @assumed to be (NULL: no assumption), and have not claimed their volumes yet.
 * If it is not @is_to_wait it may race the latter, except those of jobs and those that have waited.
 * STATUS_FAILED_PRECONDITION names the allocation and the volume. */
enum status pending_check(struct server *server, const struct alloc *alloc,
			  const struct placement_assumed *assumed, bool is_to_wait, struct error *err);

/** @alloc could not be placed, for @err. If one of its volumes is taken it is made pending for @wait_ms (0:
 * without a limit), to be stored by the caller: STATUS_OK. Else, or beyond one of the limits, it is
 * refused. */
enum status pending_enter(struct server *server, struct alloc *alloc, uint32_t wait_ms, struct error *err);

enum { PENDING_COST_MAX = 10000 };

/** Returns the cost of pending_text(), compared with a look at one node. A response that has cost more than
 * the limit has no further text. */
size_t pending_text_cost(const struct server *server);

/** Describes the wait of a pending one: the volume, its holder, and the missing evidence. Returns @ret. */
const char *pending_text(struct server *server, const struct alloc *alloc,
			 char ret[static ALLOC_DESCRIPTION_MAX + 1]);

/** Those that wait for the volume, in their order; owned by the caller, free(). NULL when memory is short. */
struct alloc_entry **pending_of_volume(struct server *server, const char *namespace, const char *id,
				       size_t *ret_n);

/** See struct change_observer. */
void pending_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision);

/** After a start: look at all of them once. */
void pending_resume(struct server *server);

void pending_release(struct server *server);
