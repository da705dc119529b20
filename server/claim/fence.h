/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Cutting a node off from a volume at its storage provider, when the node cannot report the release: the
 * controller must detach the volume although the node has not answered. Its confirmation is the evidence
 * storage_fence. Only upon a person's request, never by the server itself; release_may_fence() of lib/model
 * decides which claims may be fenced.
 *
 * The request is stored before the call. From then on the volume is not attached to that node again before
 * the claim is released in any way, for the detach may be in flight. A node that comes back gets the usual
 * order to release. */

#include "base/error.h"
#include "state/state.h"

struct rpc_call;
struct server;

/* More fenced claims of one volume on one node are refused. */
enum { FENCE_CLAIMS_MAX = 1024 };

/** May the provider be asked to cut @node off from @volume for @reason? STATUS_FAILED_PRECONDITION has
 * cause and next command; STATUS_INVALID_ARGUMENT: the reason; STATUS_RESOURCE_EXHAUSTED:
 * FENCE_CLAIMS_MAX. */
enum status fence_check(struct server *server, const struct rpc_call *call, struct node_entry *node,
			struct volume_entry *volume, const char *reason, struct error *err);

/** Do it; to be checked before. @call is answered with a DetachVolumeResponse when it is done, or with the
 * controller's error, unless this fails. */
enum status fence_volume(struct server *server, struct rpc_call *call, struct node_entry *node,
			 struct volume_entry *volume, const char *reason, struct error *err);

/** Could the provider cut the claim's node off, if an operator asked? For explanations. */
bool fence_is_possible(struct server *server, const struct claim_entry *entry);
