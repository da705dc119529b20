/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The calls of network fences: a plugin's controller is asked to have its storage refuse a node, or accept it
 * again, and then for the list of refused addresses. The second answer is the proof. */

#include "base/error.h"
#include "model/fence.h"

#include <holdfast/v1/fences.pb-c.h>
#include <stdbool.h>
#include <stddef.h>

struct network;
struct server;

enum {
	NETWORK_CALL_MAX_MS = 15 * 1000, /* of one call, or controller_timeout; then another is asked */
	NETWORK_TEXT_SIZE = 320,
};

/* How the two calls ended. Borrowed. */
struct network_end {
	const char *node_id, *plugin_id, *boot_id;
	const char *controller; /* node that was asked */
	bool is_lift;
	/* off: the first call; status: FENCE_OUTCOME_IS_OFF if the storage lists each address, IS_ON if no
	 * address is listed, FAILED if it lists some or does not answer. Times are of this server. */
	struct fence_answer outcome;
	const char *error;
};

/** From the event loop, once for each network_begin() that succeeded, unless the server ends. */
typedef void network_end_fn(struct server *server, const struct network_end *end);

enum status network_new(struct server *server, network_end_fn *on_end, struct network **ret,
			struct error *err);
/** After controllers_stop(). NULL is allowed. */
void network_free(struct network *network);

/** Have the node @controller make the calls for @fence, once all changes so far are durable. */
enum status network_begin(struct network *network, const Holdfast__V1__Fence *fence, const char *controller,
			  bool is_lift, struct error *err);

/** Are calls about the node at the plugin under way? */
bool network_is_busy(const struct network *network, const Holdfast__V1__Fence *fence);

/** The first connected node after @after in the order of ids, "" for the first of all, whose controller of
 * the plugin is healthy and can fence. NULL: no node. */
const char *network_controller_after(struct server *server, const char *plugin_id, const char *after);

/** Is the node connected, with a healthy controller of the plugin that can fence? */
bool network_can_ask(struct server *server, const char *plugin_id, const char *node_id);
