#pragma once
/* What is to be done next to give a claim back. Pure; server/release.c does it. */

#include "model/claim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum release_action {
	RELEASE_NOTHING,      /* its work goes on, or it is freed */
	RELEASE_WAIT_EXPIRY,  /* a reservation that never reached its node, and is not too old */
	RELEASE_EXPIRE,	      /* one that is: take it back */
	RELEASE_ASK_NODE,     /* to let go */
	RELEASE_WAIT_NODE,    /* evidence is missing, and nobody can be asked before the node is back */
	RELEASE_DETACH,	      /* ask the controller */
	RELEASE_WAIT_SIBLING, /* another claim on the node asks the controller, or must be gone before */
	RELEASE_FREE,	      /* nothing is left to do */
	RELEASE_ACTION_N,
};

struct release_facts {
	bool node_is_connected;
	bool is_being_granted; /* a call of the node for it is under way: it does not expire */
	int64_t now_ms;
	int64_t reservation_ttl_ms;
};

/** The next action for @claim.
 *
 * A volume is attached to a node for all its claims there together, so the last one of them to go is
 * detached: as long as another one stands (up to unpublishing), there is no detach. Of several that wait for
 * the detach, the oldest one asks for it, for all.
 * @siblings the other claims of the same volume on the same node, in any order; freed ones do not count */
enum release_action release_decide(const struct claim *claim, const struct claim *const *siblings,
				   size_t n_siblings, const struct release_facts *facts);

/** When a reservation that never reached its node expires, in wall-clock milliseconds. */
int64_t release_expiry_ms(const struct claim *claim, int64_t reservation_ttl_ms);

const char *release_action_name(enum release_action action);
