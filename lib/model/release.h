/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The next step of the release of a claim. Pure; server/claim/release.c carries it out. */

#include "model/claim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum release_action {
	RELEASE_NOTHING,      /* its work continues, or it is freed */
	RELEASE_WAIT_EXPIRY,  /* a reservation that never reached its node, and is not too old */
	RELEASE_EXPIRE,	      /* one that is: take it back */
	RELEASE_ASK_NODE,     /* to release it */
	RELEASE_WAIT_NODE,    /* evidence is missing, and cannot be requested before the node is back */
	RELEASE_DETACH,	      /* ask the controller */
	RELEASE_WAIT_SIBLING, /* another claim of the attachment asks the controller, or must be gone before
			       */
	RELEASE_FREE,	      /* nothing is left to do */
	RELEASE_ACTION_N,
};

struct release_facts {
	bool node_is_connected;
	bool is_being_granted; /* a call of the node for it is in flight: it does not expire */
	bool attaches_nothing; /* its plugin does not attach, by its present report: for an adopted claim that
				  is all that is known */
	int64_t now_ms;
	int64_t reservation_ttl_ms;
};

/** The next action for @claim.
 *
 * A volume is attached to a node for all its claims there together, so the last one of them to go is
 * detached: as long as another one exists (up to unpublishing), there is no detach. One of another node that
 * the provider knows by the same id makes it wait. If several wait for the detach, the oldest one requests it
 * for all.
 * @siblings the other claims with the same attachment of the volume, in any order; freed ones do not count */
enum release_action release_decide(const struct claim *claim, const struct claim *const *siblings,
				   size_t n_siblings, const struct release_facts *facts);

/** May the attachment of @claim be on its way out at the provider? Then the volume must not be attached to
 * the claim's node again: the detach could come after the attach.
 * @is_unsent no call to detach it has gone out, for certain */
bool release_may_be_detaching(const struct claim *claim, bool is_unsent);

/* Why the provider is not asked to cut a node off from a volume: the first that holds. */
enum fence_verdict {
	FENCE_POSSIBLE,
	FENCE_NOTHING_HELD, /* the node has released it already, as far as is known */
	FENCE_NODE_ANSWERS, /* the node is connected: it gives its own receipt, except for a former machine's
			       claims */
	FENCE_WORK_CONTINUES, /* an allocation there was not ordered to end, or is being granted its claim */
	FENCE_NOT_ATTACHED,   /* no controller attached it, so no controller can detach it (native volumes) */
	FENCE_NOBODY_TO_ASK,  /* no healthy controller that attaches and detaches */
	FENCE_VERDICT_N,
};

struct fence_facts {
	bool node_is_connected;
	bool can_detach; /* a healthy controller attaches and detaches */
};

/* A live claim of the volume on the node. */
struct fence_claim {
	const struct claim *claim;
	bool may_run; /* its allocation was not ordered to end */
};

/** May the provider be asked to cut the node off from the volume, for all of @claims at once? Pure, and never
 * decided by a timer: a person asks.
 * @ret_index of the claim that the verdict is about, when it is about one */
enum fence_verdict release_may_fence(const struct fence_claim *claims, size_t n,
				     const struct fence_facts *facts, size_t *ret_index);

/** When a reservation that never reached its node expires, in wall-clock milliseconds. */
int64_t release_expiry_ms(const struct claim *claim, int64_t reservation_ttl_ms);

const char *release_action_name(enum release_action action);
