/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Placement of an allocation: the check of one node, and the choice among all that could.
 *
 * Candidates are the nodes that report the plugin of one of the volumes: the plugin that the fewest nodes
 * report. Among those that can, the one with the fewest live allocations is taken, then the first by id:
 * the same state gives the same answer. A node to avoid comes after all others. Nothing is reserved: claims
 * are granted or refused when the node asks for them. */

#include "base/error.h"
#include "claim/refusal.h"
#include "model/feasibility.h"
#include "model/reference.h"
#include "state/state.h"

#include <stddef.h>
#include <stdint.h>

struct server;

/* A volume of the request, with what does not depend on the node. */
struct placement_volume {
	struct volume_entry *entry;
	const struct volume_request *request;
	Holdfast__V1__Topology *const *topologies; /* borrowed */
	size_t n_topologies;
	bool controller_healthy;
	bool controller_decided; /* for all nodes, by listed ones: whether one is required */
	bool controller_required;
	const struct claim **claims; /* owned array; the live ones */
	size_t n_claims;
	const struct claim *in_the_way; /* for a node without claims of them; NULL: no obstacle */
};

/* Assumptions in addition to the state. */
struct placement_assumed {
	const char *without; /* id of an allocation that will have ended; NULL: no such one */
	const char *avoid;   /* id of a node that is chosen only if no other node can; NULL: no such one */
	const struct alloc *placed; /* that will have been placed, with their nodes */
	size_t n_placed;
	bool is_dry; /* nothing is placed: neither those that wait */
};

struct placement {
	struct server *server;
	const struct alloc *alloc;
	struct placement_assumed assumed;
	struct placement_volume volumes[ALLOC_VOLUMES_MAX];
	size_t n_volumes;
	struct reference_wants wants; /* of its tasks */
};

/** Looks up the volumes of @alloc; it and @assumed (NULL: no assumption) are borrowed. STATUS_NOT_FOUND
 * names a missing volume, STATUS_FAILED_PRECONDITION one that is being made or deleted at its provider.
 * Call placement_release() in any case. Valid until the event loop turns. */
enum status placement_init(struct placement *placement, struct server *server, const struct alloc *alloc,
			   const struct placement_assumed *assumed, struct error *err);
void placement_release(struct placement *placement);

/** Can it go to @node (NULL: there is no node @node_id)? @may_wait: it may be away now. */
enum obstacle placement_check(const struct placement *placement, const struct node_entry *node,
			      const char *node_id, bool may_wait,
			      char ret_reason[static FEASIBILITY_REASON_SIZE]);

/** Chooses the best node; for an allocation without volumes, one without the plugin that it must run. Costs
 * the plugin's nodes; nodes that are not better than the best one so far are skipped early.
 * STATUS_FAILED_PRECONDITION when no node can, STATUS_RESOURCE_EXHAUSTED when all that report the plugin
 * are full: the message counts nodes by obstacle, @refusal has one line per node. */
enum status placement_choose(const struct placement *placement, const struct node_entry **ret,
			     struct refusal *refusal, struct error *err);

/** Checks the node that @alloc names, or chooses one and puts it into @alloc, which has its times. Sets a
 * description if that node is not connected. @assumed: as placement_init(). @refusal gets the obstacles. */
enum status placement_choose_node(struct server *server, struct alloc *alloc,
				  const struct placement_assumed *assumed, struct refusal *refusal,
				  struct error *err);

/** May a change of the record with this key let something be placed? */
bool placement_depends_on(const char *key);
