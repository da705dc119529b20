#include "fixture.h"

#include "model/release.h"

#include <string.h>

enum { NOW = 100000, TTL = 5000 };

#define OLDER "01890000-0000-7000-8000-00000000c000"
#define NEWER "01890000-0000-7000-8000-00000000c002"

static const struct release_facts here = {
	.node_is_connected = true, .now_ms = NOW, .reservation_ttl_ms = TTL};
static const struct release_facts away = {
	.node_is_connected = false, .now_ms = NOW, .reservation_ttl_ms = TTL};

static struct claim attached(enum claim_state state, const char *id)
{
	struct claim claim = a_claim(state);

	claim.attach = ATTACH_DONE;
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

static void what_is_in_use_or_free_is_left_alone(void **state)
{
	struct claim sent = a_claim(CLAIM_RESERVED);
	struct claim taken = a_claim(CLAIM_TAKEN);
	struct claim freed = a_claim(CLAIM_FREED);

	(void)state;
	sent.modify_time_ms = 0; /* however old: the node may have mounted it */
	assert_int_equal(alone(&sent, &away), RELEASE_NOTHING);
	assert_int_equal(alone(&taken, &away), RELEASE_NOTHING);
	assert_int_equal(alone(&freed, &here), RELEASE_NOTHING);
}

static void only_what_never_left_the_server_expires_and_not_while_it_is_asked_for(void **state)
{
	struct claim claim = a_claim(CLAIM_RESERVED);
	struct release_facts facts = away;

	(void)state;
	claim.sent_to_node = false;
	claim.attach = ATTACH_ASKED;
	claim.modify_time_ms = NOW - TTL + 1;
	assert_int_equal(alone(&claim, &facts), RELEASE_WAIT_EXPIRY);
	assert_int_equal(release_expiry_ms(&claim, TTL), NOW + 1);
	claim.modify_time_ms = NOW - TTL;
	assert_int_equal(alone(&claim, &facts), RELEASE_EXPIRE);
	facts.is_being_granted = true;
	assert_int_equal(alone(&claim, &facts), RELEASE_NOTHING);
	facts.is_being_granted = false;
	claim.sent_to_node = true;
	assert_int_equal(alone(&claim, &facts), RELEASE_NOTHING);
}

static void a_node_that_has_to_let_go_is_asked_and_never_passed_over(void **state)
{
	struct claim claim = attached(CLAIM_UNPUBLISHING, OLDER);

	(void)state;
	(void)str_copy(claim.last_error, sizeof(claim.last_error), "the mount is busy");
	claim.attempts = 1000;
	assert_int_equal(alone(&claim, &here), RELEASE_ASK_NODE);
	assert_int_equal(alone(&claim, &away), RELEASE_WAIT_NODE);
}

static void the_controller_is_asked_whether_or_not_the_node_is_there(void **state)
{
	struct claim claim = attached(CLAIM_NODE_DETACHED, OLDER);
	struct claim asked = claim;
	struct claim never = claim;
	struct claim detached = attached(CLAIM_CONTROLLER_DETACHED, OLDER);

	(void)state;
	asked.attach = ATTACH_ASKED;
	never.attach = ATTACH_NONE;
	assert_int_equal(alone(&claim, &here), RELEASE_DETACH);
	assert_int_equal(alone(&claim, &away), RELEASE_DETACH);
	assert_int_equal(alone(&asked, &away), RELEASE_DETACH);
	assert_int_equal(alone(&never, &away), RELEASE_FREE);
	assert_int_equal(alone(&detached, &away), RELEASE_FREE);
}

static void another_claim_on_the_node_decides_what_is_left_to_do(void **state)
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
		{CLAIM_NODE_DETACHED, ATTACH_NONE, OLDER, RELEASE_DETACH},
		{CLAIM_CONTROLLER_DETACHED, ATTACH_DONE, OLDER, RELEASE_DETACH},
		{CLAIM_FREED, ATTACH_DONE, OLDER, RELEASE_DETACH},
	};
	struct claim claim = attached(CLAIM_NODE_DETACHED, "01890000-0000-7000-8000-00000000c001");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct claim sibling = attached(rows[i].state, rows[i].id);

		sibling.attach = rows[i].attach;
		if (beside(&claim, &sibling) != rows[i].action)
			fail_msg("row %zu: %s", i, release_action_name(beside(&claim, &sibling)));
	}
}

/* Whatever stands on one node: nobody is detached from under a claim that stands, and as soon as nobody
 * stands, exactly one asks, so that nothing stays attached. */
static void of_any_three_claims_on_a_node_one_detaches_once_all_have_let_go(void **st)
{
	enum { WAYS = CLAIM_STATE_N * ATTACH_N };
	static const char *const ids[] = {OLDER, "01890000-0000-7000-8000-00000000c001", NEWER};

	(void)st;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_use_or_free_is_left_alone),
		cmocka_unit_test(only_what_never_left_the_server_expires_and_not_while_it_is_asked_for),
		cmocka_unit_test(a_node_that_has_to_let_go_is_asked_and_never_passed_over),
		cmocka_unit_test(the_controller_is_asked_whether_or_not_the_node_is_there),
		cmocka_unit_test(another_claim_on_the_node_decides_what_is_left_to_do),
		cmocka_unit_test(of_any_three_claims_on_a_node_one_detaches_once_all_have_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
