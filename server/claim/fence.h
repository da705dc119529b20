/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Cutting a node off from a volume at its storage provider, when the node cannot say that it has released it:
 * the controller is asked to detach the volume although the node has not answered, and its word is the
 * evidence storage_fence. Only upon a person's request, never by the server itself; who may be fenced is
 * release_may_fence() of lib/model.
 *
 * That it was asked is stored before it is: from then on the volume is not attached to that node anew before
 * the claim is released, one way or the other, for the detach may be on its way. A node that comes back is
 * told to release as any. */

#include "base/error.h"
#include "state/state.h"

struct rpc_call;
struct server;

/* A volume has no more claims on one node that are fenced at once. */
enum { FENCE_CLAIMS_MAX = 1024 };

/** May the provider be asked to cut @node off from @volume for @reason? STATUS_FAILED_PRECONDITION says why
 * not and what to do; STATUS_INVALID_ARGUMENT: the reason; STATUS_RESOURCE_EXHAUSTED: FENCE_CLAIMS_MAX. */
enum status fence_check(struct server *server, const struct rpc_call *call, struct node_entry *node,
			struct volume_entry *volume, const char *reason, struct error *err);

/** Do it; to be checked before. @call is answered with a DetachVolumeResponse when it is done, or with the
 * controller's error, unless this fails. */
enum status fence_volume(struct server *server, struct rpc_call *call, struct node_entry *node,
			 struct volume_entry *volume, const char *reason, struct error *err);

/** Could the provider cut the claim's node off, if an operator asked? For explanations. */
bool fence_is_possible(struct server *server, const struct claim_entry *entry);
