/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nodes without a session, in the order in which they disconnected, and when each of them counts as down.
 *
 * The node's record stores that it is down, so that callers that wait or watch are notified, and such
 * nodes are counted without a walk. Its allocations without a claim are lost then, so that jobs replace
 * them: they cannot write anything twice. Claims and their allocations stay: no timer frees them. */

#include "base/error.h"
#include "state/state.h"

struct server;

enum { NODE_DOWN_SLICE = 64 }; /* nodes that become down in one turn of the event loop */

/** After the state was loaded: no node is connected yet. Costs a walk over all nodes, once. */
enum status node_down_start(struct server *server, struct error *err);

/** A node has gone, or node_down_after was changed: look when the next one is due. */
void node_down_rearm(struct server *server);
