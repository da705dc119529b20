/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Heads of the trails of the nodes' mount helpers. Agents send them with hello and with each receipt: a
 * trail that was cut, rewound or replaced does not match them. The server cannot find out whether the node
 * or the agent lies, and forgets no head by request: a head stays until newer ones thin it out. A break
 * stays until an operator acknowledges it. */

#include "rpc/server.h"
#include "state/change.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRAIL_HEADS_MAX = 16,		      /* of a node that are kept */
	TRAIL_BREAKS_MAX = 8,		      /* likewise; of more the last one is the newest */
	TRAIL_AUDIT_MS = 24 * 60 * 60 * 1000, /* so often a head goes into the server's audit */
};

/** Stages in @change, with the node's other reports, that it has shown @head; NULL or an invalid one: no
 * head. @must_grow: it also reports that its helper has just mounted something, which takes new records. */
void trails_take(struct server *server, struct change *change, const char *node_id,
		 const Holdfast__V1__TrailHead *head, bool must_grow);

/** Stages that the node's heads are forgotten; the last one goes into the audit. */
void trails_forget(struct server *server, struct change *change, const char *node_id);

struct trails_count {
	size_t n_broken;  /* nodes with a break */
	size_t n_behind;  /* nodes that have mounted something since their last head */
	int64_t since_ms; /* the first of these moments; 0: no such node */
};

/** Walks the nodes. */
struct trails_count trails_count(struct server *server);

rpc_unary_fn trails_handle_list, trails_handle_accept;
