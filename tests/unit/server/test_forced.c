/* SPDX-License-Identifier: Apache-2.0 */
/* A node whose plugin will never release it: an operator may have it bypassed, for work that has ended, and
 * the record says so. */

#include "asks.h"
#include "cluster.h"
#include "unit.h"

#include "claim/forced.h"
#include "claim/release.h"

#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH
#define REASON "driver lost its state"
#define BY "operator/dev: " REASON
#define STUCK "plugin plug: NodeUnstageVolume: UNKNOWN"

/* Before the time of the next try. */
static void fail_at_once(struct fixture *f, const char *alloc)
{
	struct claim claim = claim_of(f, alloc);

	fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, STUCK);
	run_idle(f->event);
}

static void fail_release(struct fixture *f, struct fake_node *node, const char *alloc)
{
	struct claim claim = claim_of(f, alloc);

	fake_node_send_failed(node, &claim, STATUS_INTERNAL, STUCK);
	settle(f);
}

/* Ordered to stop; the node cannot get further than its plugin, and says nothing of the allocation's end. */
static void stick(struct fixture *f, const char *alloc)
{
	take_claim(f, &f->n1, "db", alloc);
	assert_int_equal(stop_alloc(f, alloc, NULL), STATUS_OK);
	fail_release(f, &f->n1, alloc);
	assert_int_equal(claim_of(f, alloc).attempts, 1);
}

struct args {
	const char *id, *node, *reason, *attest, *fence;
	bool dry_run;
};

static enum status force(struct fixture *f, const struct args *args, Holdfast__V1__DetachVolumeResponse **ret,
			 struct error *err)
{
	Holdfast__V1__DetachVolumeRequest request =
		V1(detach_volume_request, .id = TEXT(args->id ? args->id : "db"),
		   .node_id = TEXT(args->node ? args->node : "n1"),
		   .without_plugin_reason = TEXT(args->reason ? args->reason : REASON),
		   .attest_reason = TEXT(args->attest ? args->attest : ""),
		   .fence_reason = TEXT(args->fence ? args->fence : ""));

	request.dry_run = args->dry_run;
	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base,
		    (ProtobufCMessage **)ret, err);
}

static void expect_forced(struct fixture *f)
{
	struct error err;

	assert_succeeds(force(f, &(struct args){0}, NULL, &err), err);
	settle(f);
}

static void expect_refused(struct fixture *f, const struct args *args, enum status status, const char *part)
{
	int releases = f->n1.releases;
	struct error err;

	assert_int_equal(force(f, args, NULL, &err), status);
	assert_msg(strstr(err.msg, part), "'%s' lacks '%s'", err.msg, part);
	settle(f);
	assert_int_equal(f->n1.releases, releases);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_shared_db, teardown_db)

/* By no plugin's fault: leaving it out would not help, and is not offered. */
CASE(an_in_use_error_shows_how_to_find_users_and_keeps_the_plugin)
{
	struct claim claim;
	uint32_t attempts;

	stick(f, ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	attempts = claim.attempts;
	fake_node_send_failed(&f->n1, &claim, STATUS_FAILED_PRECONDITION, "in use");
	UNTIL(f, claim_of(f, ALLOC_1).attempts > attempts);
	assert_null(strstr(why(f), "--without-plugin"));
	assert_contains(why(f), "Next: see the cause, on node n1: fuser -vm PATH or lsof +f -- PATH "
				"name who holds a file open, the paths are in holdfast agent status");
	claim = claim_of(f, ALLOC_1);
	attempts = claim.attempts;
	fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, STUCK);
	UNTIL(f, claim_of(f, ALLOC_1).attempts > attempts);
	assert_non_null(strstr(why(f), "--without-plugin"));
	assert_null(strstr(why(f), "fuser"));
}

CASE(a_stuck_plugin_is_bypassed_by_an_operator_and_audited)
{
	struct claim claim;

	stick(f, ALLOC_1);
	assert_contains(why(f),
			"if plugin " CSI_PLUGIN " will never release it: holdfast volume detach db n1 "
			"--without-plugin REASON");
	expect_forced(f);
	/* the node is notified, nothing is freed */
	assert_string_equal(f->n1.last_release, claim_of(f, ALLOC_1).id);
	assert_string_equal(f->n1.last_forced, BY);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	assert_non_null(strstr(why(f), "continues without plugin " CSI_PLUGIN ", as an operator wants (" BY));
	assert_null(strstr(why(f), "--without-plugin"));
	claim = claim_of(f, ALLOC_1);
	fake_node_send_without_plugin(&f->n1, &claim, "unstaged by the helper");
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	/* the controller's part follows as always */
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.evidence, EVIDENCE_OPERATOR);
	assert_string_equal(claim.evidence_detail, BY "; kernel: unstaged by the helper");
	assert_int_equal(f->plugin.calls[DETACH], 1);
	assert_int_equal(f->n1.last_ack_released, true);
	assert_non_null(strstr(why(f), "operator, weaker than any other"));
}

/* The plugin came back in time. */
CASE(a_receipt_with_the_plugins_word_stays_the_stronger_evidence)
{
	struct claim claim;

	stick(f, ALLOC_1);
	expect_forced(f);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
}

CASE(of_a_connected_node_the_work_is_not_given_up_with_its_claim)
{
	struct claim claim;

	stick(f, ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_without_plugin(&f->n1, &claim, "nothing");
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_RUNNING);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_1)->alloc.client_status == CLIENT_COMPLETE);
}

CASE(a_release_forced_by_no_operator_is_weak_evidence_too)
{
	struct claim claim;
	char words[600];

	stick(f, ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	memset(words, 'x', sizeof(words) - 1);
	words[sizeof(words) - 1] = '\0';
	fake_node_send_without_plugin(&f->n1, &claim, words);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.evidence, EVIDENCE_OPERATOR);
	assert_non_null(strstr(claim.evidence_detail, "not ordered by anyone on record; kernel: xxx"));
}

CASE(a_plugin_is_bypassed_only_after_its_node_has_failed_to_release)
{
	static const struct args any = {0};
	char reason[PLUGIN_WAIVER_MAX + 2];
	size_t room = PLUGIN_WAIVER_MAX - strlen("operator/dev: ");

	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "holds no claim");
	take_claim(f, &f->n1, "db", ALLOC_1);
	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "holdfast alloc stop " ALLOC_1);
	/* an error while it works is no end of the work */
	fail_release(f, &f->n1, ALLOC_1);
	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "may continue with volume db");
	take_claim(f, &f->n1, "db", ALLOC_2);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	/* beside one that may continue */
	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "holdfast alloc stop " ALLOC_2);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	expect_refused(f, &(struct args){.node = "n2"}, STATUS_FAILED_PRECONDITION, "holds no claim");
	expect_refused(f, &(struct args){.attest = "b"}, STATUS_INVALID_ARGUMENT, "give only one");
	expect_refused(f, &(struct args){.fence = "b"}, STATUS_INVALID_ARGUMENT, "give only one");
	memset(reason, 'x', sizeof(reason));
	reason[room + 1] = '\0';
	expect_refused(f, &(struct args){.reason = reason}, STATUS_INVALID_ARGUMENT,
		       "without_plugin_reason: longer than 136 bytes");
	expect_refused(f, &(struct args){.reason = "\x01"}, STATUS_INVALID_ARGUMENT,
		       "without_plugin_reason: not text");
	reason[room] = '\0';
	assert_int_equal(force(f, &(struct args){.reason = reason, .dry_run = true}, NULL, NULL), STATUS_OK);
	assert_string_equal(claim_of(f, ALLOC_1).plugin_waiver, "");
	lose(f, &f->n1);
	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "is not connected");
}

CASE(before_the_node_has_failed_no_plugin_is_bypassed)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_refused(f, &(struct args){0}, STATUS_FAILED_PRECONDITION, "is given its time first");
}

CLUSTER_TEST(a_native_volume_has_no_plugin_to_bypass)
{
	take_volume(f);
	expect_refused(f, &(struct args){0}, STATUS_FAILED_PRECONDITION, "is native");
}

CASE(a_dry_forced_detach_lists_bypassed_steps_and_changes_nothing)
{
	static const struct args args = {.dry_run = true};
	cleanup_pb Holdfast__V1__DetachVolumeResponse *response = NULL;
	int releases;

	stick(f, ALLOC_1);
	releases = f->n1.releases;
	assert_int_equal(force(f, &args, &response, NULL), STATUS_OK);
	assert_int_equal(response->n_claims, 1);
	assert_non_null(strstr(response->bypassed, "allocation " ALLOC_1));
	assert_non_null(strstr(response->bypassed, "NodeUnstageVolume"));
	assert_non_null(strstr(response->bypassed, "the last error: " STUCK));
	settle(f);
	assert_int_equal(f->n1.releases, releases);
	assert_string_equal(claim_of(f, ALLOC_1).plugin_waiver, "");
}

/* The agent's memory of it is gone: it asks its plugin again, and is reported again. */
CASE(the_word_outlives_the_server_and_the_agent)
{
	int releases;

	stick(f, ALLOC_1);
	expect_forced(f);
	restart(f);
	connect_csi(f);
	settle(f);
	assert_string_equal(claim_of(f, ALLOC_1).plugin_waiver, BY);
	releases = f->n1.releases;
	fail_at_once(f, ALLOC_1);
	assert_int_equal(f->n1.releases, releases + 1);
	assert_string_equal(f->n1.last_forced, BY);
	/* not with every error: an answer that is an error again is no dialogue for ever */
	fail_at_once(f, ALLOC_1);
	assert_int_equal(f->n1.releases, releases + 1);
	assert_int_equal(claim_of(f, ALLOC_1).attempts, 3);
}

/* An operator's word freed it while the node was away. */
CASE(a_node_that_comes_back_learns_that_its_claim_was_freed)
{
	Holdfast__V1__DetachVolumeRequest request =
		V1(detach_volume_request, .id = "db", .node_id = "n1", .attest_reason = "off");
	struct claim claim;
	int releases;

	stick(f, ALLOC_1);
	lose(f, &f->n1);
	assert_ok(
		call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, NULL));
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	releases = f->n1.releases;
	fail_release(f, &f->n1, ALLOC_1);
	assert_int_equal(f->n1.releases, releases + 1);
	assert_int_equal(f->n1.last_release_state, CLAIM_FREED);
	/* what it did is acknowledged and changes no record */
	claim = claim_of(f, ALLOC_1);
	fake_node_send_without_plugin(&f->n1, &claim, "unstaged by the helper");
	settle(f);
	assert_string_equal(f->n1.last_ack, claim.id);
	assert_true(f->n1.last_ack_released);
	assert_string_equal(claim_of(f, ALLOC_1).evidence_detail, "operator/dev: off");
}

/* The node's own word was enough: an error that comes late is no order. */
CASE(a_node_that_released_by_itself_gets_no_order)
{
	struct claim claim;
	int releases;

	take_claim(f, &f->n1, "db", ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	releases = f->n1.releases;
	fail_release(f, &f->n1, ALLOC_1);
	assert_int_equal(f->n1.releases, releases);
}
