/* SPDX-License-Identifier: Apache-2.0 */
#include "model/release.h"

#include "base/names.h"

#include <assert.h>
#include <string.h>

static const char *const action_names[RELEASE_ACTION_N] = {
	[RELEASE_NOTHING] = "nothing",
	[RELEASE_WAIT_EXPIRY] = "wait for its expiry",
	[RELEASE_EXPIRE] = "expire",
	[RELEASE_ASK_NODE] = "ask the node",
	[RELEASE_WAIT_NODE] = "wait for the node",
	[RELEASE_DETACH] = "ask the controller",
	[RELEASE_WAIT_SIBLING] = "wait for another claim on the node",
	[RELEASE_FREE] = "free",
};

const char *release_action_name(enum release_action action)
{
	const char *name = names_get(action_names, RELEASE_ACTION_N, (int)action);

	return name ? name : "invalid";
}

int64_t release_expiry_ms(const struct claim *claim, int64_t reservation_ttl_ms)
{
	return claim->modify_time_ms + reservation_ttl_ms; /* each try of the node counts */
}

static enum release_action decide_reserved(const struct claim *claim, const struct release_facts *facts)
{
	assert(claim->state == CLAIM_RESERVED);
	if (claim->sent_to_node || facts->is_being_granted)
		return RELEASE_NOTHING;
	if (claim->modify_time_ms > facts->now_ms + facts->reservation_ttl_ms)
		return RELEASE_EXPIRE; /* the clock was set back: since when it is reserved is unknown */
	return facts->now_ms >= release_expiry_ms(claim, facts->reservation_ttl_ms) ? RELEASE_EXPIRE
										    : RELEASE_WAIT_EXPIRY;
}

static bool stands(const struct claim *claim)
{
	return claim->state <= CLAIM_UNPUBLISHING;
}

/* Does @sibling ask the controller for @claim as well? */
static bool leads(const struct claim *sibling, const struct claim *claim)
{
	return sibling->state == CLAIM_NODE_DETACHED && sibling->attach != ATTACH_NONE &&
	       strcmp(sibling->id, claim->id) < 0;
}

/* Does the later release of @sibling end the attachment of @claim, too? Another node must not leave a device
 * attached, nor a node whose next report decides which attachment that is. */
static bool takes_care(const struct claim *sibling, const struct claim *claim)
{
	return stands(sibling) && sibling->attach != ATTACH_NONE &&
	       strcmp(sibling->node_id, claim->node_id) == 0 && sibling->external_node_id[0] != '\0' &&
	       strcmp(sibling->external_node_id, claim->external_node_id) == 0;
}

static enum release_action decide_detach(const struct claim *claim, const struct claim *const *siblings,
					 size_t n_siblings, const struct release_facts *facts)
{
	bool is_led = false, is_needed = false;

	assert(claim->state == CLAIM_NODE_DETACHED);
	if (claim->attach == ATTACH_NONE || (claim->adopted && facts->attaches_nothing))
		return RELEASE_FREE;
	for (size_t i = 0; i < n_siblings; i++) {
		if (takes_care(siblings[i], claim))
			return RELEASE_FREE;
		is_needed = is_needed || stands(siblings[i]);
		is_led = is_led || leads(siblings[i], claim);
	}
	/* one that the controller was never asked for may use the attachment, but will not end it */
	return is_needed || is_led ? RELEASE_WAIT_SIBLING : RELEASE_DETACH;
}

bool release_may_be_detaching(const struct claim *claim, bool is_unsent)
{
	if (claim->attach == ATTACH_NONE)
		return false;
	return claim->state == CLAIM_NODE_DETACHED ? !is_unsent : stands(claim) && claim->fence_asked;
}

static enum fence_verdict classify_claim(const struct fence_claim *of)
{
	const struct claim *claim = of->claim;

	if (claim->state < CLAIM_UNPUBLISHING && (of->may_run || !claim->sent_to_node))
		return FENCE_WORK_CONTINUES;
	return claim->attach == ATTACH_NONE ? FENCE_NOT_ATTACHED : FENCE_POSSIBLE;
}

enum fence_verdict release_may_fence(const struct fence_claim *claims, size_t n,
				     const struct fence_facts *facts, size_t *ret_index)
{
	enum fence_verdict worst = FENCE_POSSIBLE;
	size_t n_held = 0;
	bool can_answer = false;

	assert(ret_index && (claims || n == 0));
	for (size_t i = 0; i < n; i++) {
		enum fence_verdict verdict;

		if (!stands(claims[i].claim))
			continue;
		n_held++;
		can_answer |= facts->node_is_connected && !claims[i].claim->other_machine;
		verdict = classify_claim(&claims[i]);
		if (verdict != FENCE_POSSIBLE && (worst == FENCE_POSSIBLE || verdict < worst)) {
			worst = verdict;
			*ret_index = i;
		}
	}
	if (n_held == 0)
		return FENCE_NOTHING_HELD;
	if (can_answer)
		return FENCE_NODE_ANSWERS;
	if (worst != FENCE_POSSIBLE)
		return worst;
	return facts->can_detach ? FENCE_POSSIBLE : FENCE_NOBODY_TO_ASK;
}

enum release_action release_decide(const struct claim *claim, const struct claim *const *siblings,
				   size_t n_siblings, const struct release_facts *facts)
{
	switch (claim->state) {
	case CLAIM_RESERVED:
		return decide_reserved(claim, facts);
	case CLAIM_TAKEN:
	case CLAIM_FREED:
		return RELEASE_NOTHING;
	case CLAIM_UNPUBLISHING:
		return facts->node_is_connected ? RELEASE_ASK_NODE : RELEASE_WAIT_NODE;
	case CLAIM_NODE_DETACHED:
		return decide_detach(claim, siblings, n_siblings, facts);
	case CLAIM_CONTROLLER_DETACHED:
		return RELEASE_FREE;
	case CLAIM_STATE_UNSPECIFIED:
	case CLAIM_STATE_N:
		break;
	}
	assert(false);
	return RELEASE_NOTHING;
}
