/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Releasing claims, step by step. The rules are claim_step() of lib/model; granting is in grant.h. */

#include "model/claim.h"
#include "state/change.h"
#include "state/state.h"

struct server;

/** Applies one event to a claim and stages the outcome in @change, together with the steps that follow by
 * themselves (a volume without a controller is freed as soon as its node has released it). @ret the claim as
 * it will be. */
enum status claims_step(struct change *change, const struct claim_entry *entry,
			const struct claim_event *event, struct claim *ret, struct error *err);

/** Stages that the node has released it by @evidence, which is not the node's own receipt: its work is
 * over. Unless the node is connected, the allocation is lost, with the reason @why. Stages nothing for a
 * claim that needs no further evidence. */
enum status claims_take_from_node(struct change *change, const struct claim_entry *entry,
				  const struct claim_event *evidence, const char *why, struct error *err);

/** May the claim's allocation continue? It must be known, not ended, and not ordered to stop. */
bool claims_may_run(struct server *server, const struct claim *claim);

/** Returns a volume of the storage that a detach of @entry takes away: that of its name, unless the claim is
 * on other storage. If no volume has that, @unknown, which is made one that only storage_next_attached() and
 * epoch_check() can be asked about; it has the name of the claim's volume. */
struct volume_entry *claims_storage(const struct claim_entry *entry, struct volume_entry *unknown);

/** Returns the claim of another node that a detach of @entry takes the device from, or may: the provider
 * knows that node by the same id, or its id is not known. NULL: no such claim. */
const struct claim *claims_find_other_holder(const struct claim_entry *entry);

/** The allocation has ended: stages the release of each of its live claims. */
enum status claims_end_work(struct change *change, struct alloc_entry *alloc, int64_t now_ms,
			    struct error *err);

/** Stages in @change that the allocation is lost, with the reason, and starts the release of all its
 * claims. */
enum status claims_lose_alloc(struct change *change, struct alloc_entry *entry, const char *reason,
			      struct error *err);

/** Empties the boots in claims that @call's answer shows, unless the caller may read nodes: a hello in the
 * boot of a node takes its session over. */
void claims_hide_boots(struct server *server, const struct rpc_call *call, Holdfast__V1__Claim **claims,
		       size_t n);

/** Frees what the node held in an earlier boot. One transaction per claim. */
enum status claims_new_boot(struct server *server, struct node_entry *node, const char *boot_id,
			    struct error *err);
