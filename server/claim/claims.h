/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Releasing claims, step by step. The rules are claim_step() of lib/model; granting is in grant.h. */

#include "model/claim.h"
#include "state/change.h"
#include "state/state.h"

struct server;

/** Apply one event to a claim and stage the outcome in @change, together with the steps that follow by
 * themselves (a volume without a controller is freed as soon as its node has released it). @ret the claim as
 * it will be. */
enum status claims_step(struct change *change, const struct claim_entry *entry,
			const struct claim_event *event, struct claim *ret, struct error *err);

/** Stage that the node has released it by @evidence, which is not the node's own word: what is left of the
 * work is over, and unless the node is connected its allocation is lost, with the reason @why. Nothing is
 * staged for a claim that needs no evidence any more. */
enum status claims_take_from_node(struct change *change, const struct claim_entry *entry,
				  const struct claim_event *evidence, const char *why, struct error *err);

/** May the claim's allocation continue: it is known, has not ended and was not told to? */
bool claims_may_run(struct server *server, const struct claim *claim);

/** The allocation has ended: every live claim of it is to be released. */
enum status claims_end_work(struct change *change, struct alloc_entry *alloc, int64_t now_ms,
			    struct error *err);

/** Stage in @change that the allocation is lost, with the reason; with its work all its claims are to be
 * released. */
enum status claims_lose_alloc(struct change *change, struct alloc_entry *entry, const char *reason,
			      struct error *err);

/** Free what the node held in an earlier boot. One transaction per claim. */
enum status claims_new_boot(struct server *server, struct node_entry *node, const char *boot_id,
			    struct error *err);
