/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The details of a refusal for programs, in addition to its message: the blocking claims, the unsuitable
 * nodes. Bounded: details that do not fit into an answer are counted. */

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
	const struct rpc_call *call; /* borrowed; whose claims of other namespaces are shown to it; NULL */
};

void refusal_release(struct refusal *refusal);

void refusal_add_node(struct refusal *refusal, const char *node_id, const char *reason);

/** That so many more nodes cannot. */
void refusal_count_nodes(struct refusal *refusal, size_t n);

/** Adds the live claims that keep @alloc from @volume_name (NULL: from any of its volumes) on @node_id
 * (empty: on a node without claims of them). */
void refusal_add_blockers(struct refusal *refusal, struct server *server, const struct alloc *alloc,
			  const char *volume_name, const char *node_id);

/** Answers @call with @err and as many of the added details as fit. @what is the refused write
 * ("Allocations.Run"), which is audited; NULL: it is not a write. */
void refusal_reply(struct refusal *refusal, struct server *server, struct rpc_call *call, const char *what,
		   const struct error *err);

/** refusal_add_blockers() when @err is STATUS_FAILED_PRECONDITION, and refusal_reply(). @alloc NULL: as
 * refusal_reply() of nothing. @about as in struct refusal. */
void refusal_reply_claim(struct server *server, struct rpc_call *call, const char *what,
			 const struct log_ctx *about, const struct alloc *alloc, const char *volume_name,
			 const char *node_id, const struct error *err);
