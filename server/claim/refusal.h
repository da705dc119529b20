/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What goes with a refusal beside its message, for programs: the claims that are in the way, the nodes that
 * cannot. Bounded: what does not fit into an answer is counted. */

#include "base/error.h"
#include "model/alloc.h"

#include <holdfast/v1/explain.pb-c.h>
#include <stdint.h>

struct server;
struct rpc_call;
struct log_ctx;

enum {
	REFUSAL_CLAIMS_MAX = 8,
	REFUSAL_NODES_MAX = 20,
};

struct refusal {
	Holdfast__V1__ErrorDetails *details; /* owned; NULL: nothing was added */
	const struct log_ctx *about;	     /* borrowed; of its line of the log, NULL: nothing more */
};

void refusal_release(struct refusal *refusal);

void refusal_add_node(struct refusal *refusal, const char *node_id, const char *reason);

/** That so many more nodes cannot. */
void refusal_count_nodes(struct refusal *refusal, size_t n);

/** Add the live claims that keep @alloc from @volume_name (NULL: from any of its volumes) on @node_id (empty:
 * on a node that holds none of them). */
void refusal_add_blockers(struct refusal *refusal, struct server *server, const struct alloc *alloc,
			  const char *volume_name, const char *node_id);

/** Answer @call with @err and what was added; of that what fits. @what is the write that is refused
 * ("Allocations.Run") and recorded; NULL: it is not one. */
void refusal_reply(struct refusal *refusal, struct server *server, struct rpc_call *call, const char *what,
		   const struct error *err);

/** refusal_add_blockers() when @err is STATUS_FAILED_PRECONDITION, and refusal_reply(). @alloc NULL: as
 * refusal_reply() of nothing. @about as in struct refusal. */
void refusal_reply_claim(struct server *server, struct rpc_call *call, const char *what,
			 const struct log_ctx *about, const struct alloc *alloc, const char *volume_name,
			 const char *node_id, const struct error *err);
