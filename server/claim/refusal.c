/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/refusal.h"

#include "server.h"

#include "access/answer.h"
#include "access/audit.h"
#include "access/foreign.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/release.h"
#include "model/admission.h"
#include "state/storage_index.h"

#include <stdlib.h>
#include <string.h>

void refusal_release(struct refusal *refusal)
{
	if (refusal->details)
		holdfast__v1__error_details__free_unpacked(refusal->details, NULL);
	refusal->details = NULL;
}

static Holdfast__V1__ErrorDetails *details_of(struct refusal *refusal)
{
	Holdfast__V1__ErrorDetails *details;

	if (refusal->details)
		return refusal->details;
	details = calloc(1, sizeof(*details));
	if (!details)
		return NULL;
	holdfast__v1__error_details__init(details);
	details->claims = calloc(REFUSAL_CLAIMS_MAX, sizeof(Holdfast__V1__ClaimExplanation *));
	details->nodes = calloc(REFUSAL_NODES_MAX, sizeof(Holdfast__V1__NodeExplanation *));
	refusal->details = details;
	if (!details->claims || !details->nodes)
		refusal_release(refusal);
	return refusal->details;
}

/* Without memory, or beyond the limits, nothing is added. */
static void refusal_add_claim(struct refusal *refusal, struct server *server, const struct claim *claim)
{
	Holdfast__V1__ErrorDetails *details = details_of(refusal);
	struct holder holder = claim_holder(server, claim);
	struct explanation explanation;

	if (!details || details->n_claims == REFUSAL_CLAIMS_MAX)
		return;
	explain(claim, &holder, clock_realtime_ms(), &explanation);
	details->claims[details->n_claims] = explanation_to_pb(&explanation);
	details->n_claims += details->claims[details->n_claims] != NULL;
}

static Holdfast__V1__NodeExplanation *node_explanation(const char *node_id, const char *reason)
{
	Holdfast__V1__NodeExplanation *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	holdfast__v1__node_explanation__init(node);
	node->node_id = strdup(node_id);
	node->reason = strdup(reason);
	if (node->node_id && node->reason)
		return node;
	holdfast__v1__node_explanation__free_unpacked(node, NULL);
	return NULL;
}

void refusal_add_node(struct refusal *refusal, const char *node_id, const char *reason)
{
	Holdfast__V1__ErrorDetails *details = details_of(refusal);

	if (!details)
		return;
	if (details->n_nodes == REFUSAL_NODES_MAX) {
		details->more_nodes++;
		return;
	}
	details->nodes[details->n_nodes] = node_explanation(node_id, reason);
	details->n_nodes += details->nodes[details->n_nodes] != NULL;
}

void refusal_count_nodes(struct refusal *refusal, size_t n)
{
	Holdfast__V1__ErrorDetails *details = n > 0 ? details_of(refusal) : NULL;

	if (details)
		details->more_nodes += (uint32_t)n;
}

static void add_blockers_of(struct refusal *refusal, struct server *server, const struct alloc *alloc,
			    const struct volume_request *request, const char *node_id)
{
	struct volume_entry *volume = state_volume(&server->state, alloc->namespace, request->source);
	struct claim_entry *entry;

	if (!volume)
		return;
	STORAGE_FOREACH_CLAIM (entry, volume) {
		const struct claim *claim = &entry->claim;
		const struct claim *blocker;

		if (refusal->details && refusal->details->n_claims == REFUSAL_CLAIMS_MAX)
			return;
		if (!claim_is_live(claim) ||
		    !foreign_shows_claims(server, refusal->call, alloc->namespace, claim->namespace))
			continue;
		/* one that the allocation had is in its own way once its release has begun */
		if ((str_eq(claim->allocation_id, alloc->id) && claim->state >= CLAIM_UNPUBLISHING) ||
		    !admission_has_room(volume_request_capability(request), volume_request_mode(request),
					node_id, &claim, 1, &blocker))
			refusal_add_claim(refusal, server, claim);
	}
}

void refusal_add_blockers(struct refusal *refusal, struct server *server, const struct alloc *alloc,
			  const char *volume_name, const char *node_id)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		if (!volume_name || str_eq(alloc->volumes[i].name, volume_name))
			add_blockers_of(refusal, server, alloc, &alloc->volumes[i], node_id);
}

/* Leave out what does not fit, nodes first: their number stays. */
static void shrink(Holdfast__V1__ErrorDetails *details)
{
	while (protobuf_c_message_get_packed_size(&details->base) > RPC_DETAILS_MAX) {
		if (details->n_nodes > 0) {
			holdfast__v1__node_explanation__free_unpacked(details->nodes[--details->n_nodes],
								      NULL);
			details->more_nodes++;
		} else {
			holdfast__v1__claim_explanation__free_unpacked(details->claims[--details->n_claims],
								       NULL);
		}
	}
}

void refusal_reply(struct refusal *refusal, struct server *server, struct rpc_call *call, const char *what,
		   const struct error *err)
{
	if (what)
		audit_refused(server, call, what, refusal->about, err);
	if (refusal->details)
		shrink(refusal->details);
	else
		refusal->details = answer_details(err);
	rpc_call_fail_details(call, err, refusal->details ? &refusal->details->base : NULL);
}

void refusal_reply_claim(struct server *server, struct rpc_call *call, const char *what,
			 const struct log_ctx *about, const struct alloc *alloc, const char *volume_name,
			 const char *node_id, const struct error *err)
{
	cleanup(refusal_release) struct refusal refusal = {.about = about, .call = call};

	if (alloc && err->status == STATUS_FAILED_PRECONDITION)
		refusal_add_blockers(&refusal, server, alloc, volume_name, node_id);
	refusal_reply(&refusal, server, call, what, err);
}
