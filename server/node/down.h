/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nodes that have no session, in the order in which they went, and when each of them counts as down.
 *
 * That it is down is stored with the node, so that who waits for it or watches is told, and the number of
 * such nodes is known without a walk. Its allocations without a claim are lost then, so that jobs replace
 * them: they can write nothing twice. Claims stay, and their allocations, whatever a timer says. */

#include "base/error.h"
#include "state/state.h"

struct server;

enum { NODE_DOWN_SLICE = 64 }; /* nodes that become down in one turn of the event loop */

/** After the state was loaded: nobody is connected yet. Costs a walk over all nodes, once. */
enum status node_down_start(struct server *server, struct error *err);

/** A node has gone, or node_down_after was changed: look when the next one is due. */
void node_down_rearm(struct server *server);
