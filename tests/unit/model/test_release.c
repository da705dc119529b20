/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "model/release.h"

enum { NOW = 100000, TTL = 5000 };

#define OLDER "01890000-0000-7000-8000-00000000c000"
#define ITSELF "01890000-0000-7000-8000-00000000c001"
#define NEWER "01890000-0000-7000-8000-00000000c002"

static const struct release_facts here = {
	.node_is_connected = true, .now_ms = NOW, .reservation_ttl_ms = TTL};
static const struct release_facts away = {
	.node_is_connected = false, .now_ms = NOW, .reservation_ttl_ms = TTL};

static struct claim attached(enum claim_state state, const char *id)
{
	struct claim claim = a_claim(state);

	claim.attach = ATTACH_DONE;
	(void)str_copy(claim.external_node_id, sizeof(claim.external_node_id), "i-1");
	(void)str_copy(claim.id, sizeof(claim.id), id);
	return claim;
}

static enum release_action alone(const struct claim *claim, const struct release_facts *facts)
{
	return release_decide(claim, NULL, 0, facts);
}

static enum release_action beside(const struct claim *claim, const struct claim *sibling)
{
	return release_decide(claim, &sibling, 1, &away);
}

TEST(claims_in_use_or_freed_need_no_release)
{
	struct claim sent = a_claim(CLAIM_RESERVED);
	struct claim taken = a_claim(CLAIM_TAKEN);
	struct claim freed = a_claim(CLAIM_FREED);

	sent.modify_time_ms = 0; /* however old: the node may have mounted it */
	assert_int_equal(alone(&sent, &away), RELEASE_NOTHING);
	assert_int_equal(alone(&taken, &away), RELEASE_NOTHING);
	assert_int_equal(alone(&freed, &here), RELEASE_NOTHING);
}

TEST(only_unsent_reservations_without_a_caller_expire)
{
	struct claim claim = a_claim(CLAIM_RESERVED);
	struct release_facts facts = away;

	claim.sent_to_node = false;
	claim.attach = ATTACH_ASKED;
	claim.modify_time_ms = NOW - TTL + 1;
	assert_int_equal(alone(&claim, &facts), RELEASE_WAIT_EXPIRY);
	assert_int_equal(release_expiry_ms(&claim, TTL), NOW + 1);
	claim.modify_time_ms = NOW - TTL;
	assert_int_equal(alone(&claim, &facts), RELEASE_EXPIRE);
	claim.modify_time_ms = NOW + TTL;
	assert_int_equal(alone(&claim, &facts), RELEASE_WAIT_EXPIRY);
	claim.modify_time_ms++; /* the clock was set back */
	assert_int_equal(alone(&claim, &facts), RELEASE_EXPIRE);
	facts.is_being_granted = true;
	assert_int_equal(alone(&claim, &facts), RELEASE_NOTHING);
	facts.is_being_granted = false;
	claim.sent_to_node = true;
	assert_int_equal(alone(&claim, &facts), RELEASE_NOTHING);
}

TEST(a_node_that_has_to_release_is_asked_and_never_passed_over)
{
	struct claim claim = attached(CLAIM_UNPUBLISHING, OLDER);

	(void)str_copy(claim.last_error, sizeof(claim.last_error), "the mount is busy");
	claim.attempts = 1000;
	assert_int_equal(alone(&claim, &here), RELEASE_ASK_NODE);
	assert_int_equal(alone(&claim, &away), RELEASE_WAIT_NODE);
}

TEST(the_controller_is_asked_whether_or_not_the_node_is_there)
{
	struct claim claim = attached(CLAIM_NODE_DETACHED, OLDER);
	struct claim asked = claim, never = claim;
	struct claim detached = attached(CLAIM_CONTROLLER_DETACHED, OLDER);

	asked.attach = ATTACH_ASKED;
	never.attach = ATTACH_NONE;
	assert_int_equal(alone(&claim, &here), RELEASE_DETACH);
	assert_int_equal(alone(&claim, &away), RELEASE_DETACH);
	assert_int_equal(alone(&asked, &away), RELEASE_DETACH);
	assert_int_equal(alone(&never, &away), RELEASE_FREE);
	assert_int_equal(alone(&detached, &away), RELEASE_FREE);
}

TEST(an_adopted_claim_is_freed_if_its_plugin_attaches_nothing)
{
	struct claim claim = attached(CLAIM_NODE_DETACHED, OLDER);
	struct release_facts facts = away;

	facts.attaches_nothing = true;
	assert_int_equal(alone(&claim, &facts), RELEASE_DETACH); /* it is known to be attached */
	claim.adopted = true;
	assert_int_equal(alone(&claim, &facts), RELEASE_FREE);
	facts.attaches_nothing = false;
	assert_int_equal(alone(&claim, &facts), RELEASE_DETACH);
}

TEST(another_claim_on_the_node_decides_the_next_action)
{
	static const struct {
		enum claim_state state;
		enum controller_attach attach;
		const char *id;
		enum release_action action;
	} rows[] = {
		{CLAIM_RESERVED, ATTACH_ASKED, NEWER, RELEASE_FREE},
		{CLAIM_RESERVED, ATTACH_DONE, NEWER, RELEASE_FREE},
		{CLAIM_TAKEN, ATTACH_DONE, OLDER, RELEASE_FREE},
		{CLAIM_UNPUBLISHING, ATTACH_DONE, NEWER, RELEASE_FREE},
		/* it would not be detached by those: they do not know of the attachment */
		{CLAIM_TAKEN, ATTACH_NONE, OLDER, RELEASE_WAIT_SIBLING},
		{CLAIM_UNPUBLISHING, ATTACH_NONE, NEWER, RELEASE_WAIT_SIBLING},
		/* of several that wait for the detach the oldest asks */
		{CLAIM_NODE_DETACHED, ATTACH_DONE, OLDER, RELEASE_WAIT_SIBLING},
		{CLAIM_NODE_DETACHED, ATTACH_ASKED, OLDER, RELEASE_WAIT_SIBLING},
		{CLAIM_NODE_DETACHED, ATTACH_DONE, NEWER, RELEASE_DETACH},
		{CLAIM_NODE_DETACHED, ATTACH_DONE, ITSELF, RELEASE_DETACH},
		{CLAIM_NODE_DETACHED, ATTACH_NONE, OLDER, RELEASE_DETACH},
		{CLAIM_CONTROLLER_DETACHED, ATTACH_DONE, OLDER, RELEASE_DETACH},
		{CLAIM_FREED, ATTACH_DONE, OLDER, RELEASE_DETACH},
	};
	struct claim claim = attached(CLAIM_NODE_DETACHED, ITSELF);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct claim sibling = attached(rows[i].state, rows[i].id);

		sibling.attach = rows[i].attach;
		if (beside(&claim, &sibling) != rows[i].action)
			fail_msg("row %zu: %s", i, release_action_name(beside(&claim, &sibling)));
	}
}

/* The provider knows both nodes by one id. */
TEST(a_claim_of_another_node_frees_no_claim_without_a_detach)
{
	struct claim claim = attached(CLAIM_NODE_DETACHED, ITSELF);
	struct claim sibling = attached(CLAIM_TAKEN, OLDER);

	(void)str_copy(sibling.node_id, sizeof(sibling.node_id), "another");
	assert_int_equal(beside(&claim, &sibling), RELEASE_WAIT_SIBLING);
	sibling.state = CLAIM_FREED;
	assert_int_equal(beside(&claim, &sibling), RELEASE_DETACH);
}

TEST(a_claim_of_an_unknown_or_other_provider_id_frees_no_claim_without_a_detach)
{
	struct claim claim = attached(CLAIM_NODE_DETACHED, ITSELF);
	struct claim sibling = attached(CLAIM_TAKEN, OLDER);

	(void)str_copy(sibling.external_node_id, sizeof(sibling.external_node_id), "i-2");
	assert_int_equal(beside(&claim, &sibling), RELEASE_WAIT_SIBLING);
	sibling.external_node_id[0] = claim.external_node_id[0] = '\0';
	assert_int_equal(beside(&claim, &sibling), RELEASE_WAIT_SIBLING);
}

/* Whatever stands on one node: nobody is detached from under a claim that stands, and as soon as nobody
 * stands, exactly one asks, so that nothing stays attached. */
TEST(of_any_three_claims_on_a_node_one_detaches_once_all_have_released_it)
{
	enum { WAYS = CLAIM_STATE_N * ATTACH_N };
	static const char *const ids[] = {OLDER, ITSELF, NEWER};

	for (int way = 0; way < WAYS * WAYS * WAYS; way++) {
		int rest = way;
		struct claim claims[3];
		bool stands = false, is_left = false, valid = true;
		int n_detach = 0;

		for (int i = 0; i < 3; i++, rest /= WAYS) {
			claims[i] = attached((enum claim_state)(rest % WAYS / ATTACH_N), ids[i]);
			claims[i].attach = (enum controller_attach)(rest % ATTACH_N);
			valid = valid && claims[i].state != CLAIM_STATE_UNSPECIFIED;
			stands = stands || claims[i].state <= CLAIM_UNPUBLISHING;
			is_left = is_left ||
				  (claims[i].state == CLAIM_NODE_DETACHED && claims[i].attach != ATTACH_NONE);
		}
		for (int i = 0; valid && i < 3; i++) {
			const struct claim *siblings[] = {&claims[(i + 1) % 3], &claims[(i + 2) % 3]};

			n_detach += release_decide(&claims[i], siblings, 2, &here) == RELEASE_DETACH;
		}
		if (valid && n_detach != (is_left && !stands))
			fail_msg("way %d: %d detaches", way, n_detach);
	}
}

TEST(a_claim_that_may_be_detaching_is_not_attached)
{
	for (int s = CLAIM_RESERVED; s < CLAIM_STATE_N; s++)
		for (int bits = 0; bits < 8; bits++) {
			struct claim claim = attached((enum claim_state)s, OLDER);
			bool is_unsent = bits & 1, expected;

			claim.fence_asked = bits & 2;
			claim.attach = bits & 4 ? ATTACH_ASKED : ATTACH_NONE;
			expected = s == CLAIM_NODE_DETACHED ? !is_unsent
							    : s < CLAIM_NODE_DETACHED && claim.fence_asked;
			assert_int_equal(release_may_be_detaching(&claim, is_unsent),
					 expected && claim.attach != ATTACH_NONE);
		}
}

/* Any two claims on a node, in every state and condition: the provider is asked exactly when the node is
 * away, something is held, all of what is held has ended, was sent and was attached, and somebody can do it.
 */
TEST(a_node_is_cut_off_only_when_nothing_there_may_continue)
{
	enum { CONDITIONS = CLAIM_STATE_N * 8 };

	for (int way = 0; way < CONDITIONS * CONDITIONS * 4; way++) {
		const struct fence_facts facts = {.node_is_connected = way & 1, .can_detach = way & 2};
		struct claim claims[2];
		struct fence_claim of[2];
		bool possible = !facts.node_is_connected && facts.can_detach, held = false, valid = true;
		size_t index = 2;
		int rest = way / 4;

		for (int i = 0; i < 2; i++, rest /= CONDITIONS) {
			int bits = rest % 8;

			claims[i] = attached((enum claim_state)(rest % CONDITIONS / 8), i ? NEWER : OLDER);
			valid = valid && claims[i].state != CLAIM_STATE_UNSPECIFIED;
			claims[i].attach = bits & 1 ? ATTACH_DONE : ATTACH_NONE;
			claims[i].sent_to_node = bits & 2;
			of[i] = (struct fence_claim){.claim = &claims[i], .may_run = bits & 4};
			if (claims[i].state > CLAIM_UNPUBLISHING)
				continue;
			held = true;
			possible = possible && claims[i].attach == ATTACH_DONE &&
				   (claims[i].state == CLAIM_UNPUBLISHING ||
				    (claims[i].sent_to_node && !of[i].may_run));
		}
		if (valid &&
		    (release_may_fence(of, 2, &facts, &index) == FENCE_POSSIBLE) != (held && possible))
			fail_msg("way %d", way);
	}
}

TEST(a_connected_node_answers_for_no_claim_of_a_former_machine)
{
	static const struct fence_facts facts = {.node_is_connected = true, .can_detach = true};
	struct claim claims[] = {attached(CLAIM_UNPUBLISHING, OLDER), attached(CLAIM_UNPUBLISHING, NEWER)};
	const struct fence_claim of[] = {{.claim = &claims[0]}, {.claim = &claims[1]}, {.claim = &claims[0]}};
	size_t index = 0;

	claims[0].attach = claims[1].attach = ATTACH_DONE;
	claims[0].other_machine = true;
	assert_int_equal(release_may_fence(of, 1, &facts, &index), FENCE_POSSIBLE);
	assert_int_equal(release_may_fence(of, 3, &facts, &index), FENCE_NODE_ANSWERS);
}

TEST(obstacles_to_a_fence_are_named_in_order)
{
	static const struct {
		enum claim_state state;
		bool may_run, is_connected, can_detach;
		enum controller_attach attach;
		enum fence_verdict verdict;
	} rows[] = {
		{CLAIM_NODE_DETACHED, false, true, true, ATTACH_DONE, FENCE_NOTHING_HELD},
		{CLAIM_TAKEN, true, true, false, ATTACH_NONE, FENCE_NODE_ANSWERS},
		{CLAIM_TAKEN, true, false, false, ATTACH_NONE, FENCE_WORK_CONTINUES},
		{CLAIM_TAKEN, false, false, false, ATTACH_NONE, FENCE_NOT_ATTACHED},
		{CLAIM_UNPUBLISHING, true, false, false, ATTACH_DONE, FENCE_NOBODY_TO_ASK},
		{CLAIM_UNPUBLISHING, true, false, true, ATTACH_ASKED, FENCE_POSSIBLE},
		{CLAIM_RESERVED, false, false, true, ATTACH_DONE, FENCE_POSSIBLE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct claim claim = attached(rows[i].state, OLDER);
		const struct fence_claim of = {.claim = &claim, .may_run = rows[i].may_run};
		const struct fence_facts facts = {.node_is_connected = rows[i].is_connected,
						  .can_detach = rows[i].can_detach};
		size_t index = 1;

		claim.attach = rows[i].attach;
		assert_int_equal(release_may_fence(&of, 1, &facts, &index), rows[i].verdict);
		if (rows[i].verdict == FENCE_WORK_CONTINUES || rows[i].verdict == FENCE_NOT_ATTACHED)
			assert_int_equal(index, 0);
	}
}
