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

static int setup_csi(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	register_csi(f, "db");
	connect_csi(f);
	return 0;
}

static int teardown_csi(void **state)
{
	struct fixture *f = *state;

	assert_string_equal(f->plugin.violation, "");
	return teardown(state);
}

static void take(struct fixture *f, struct fake_node *node, const char *alloc)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct claim claim;
	struct error err;

	assert_int_equal(run_alloc(f, alloc, node->id, NULL), STATUS_OK);
	if (fake_node_claim(node, "db", alloc, &response, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	holdfast__v1__claim_volume_response__free_unpacked(response, NULL);
	claim = claim_of(f, alloc);
	fake_node_send_mounted(node, &claim);
	fake_node_send_alloc(node, alloc, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, state_of(f, alloc) == CLAIM_TAKEN);
}

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
	take(f, &f->n1, alloc);
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
	Holdfast__V1__DetachVolumeRequest request = HOLDFAST__V1__DETACH_VOLUME_REQUEST__INIT;
	char id[32], node_id[NODE_ID_MAX + 1], reason[512], attest[512], fence[512];

	(void)str_copy(id, sizeof(id), args->id ? args->id : "db");
	(void)str_copy(node_id, sizeof(node_id), args->node ? args->node : "n1");
	(void)str_copy(reason, sizeof(reason), args->reason ? args->reason : REASON);
	(void)str_copy(attest, sizeof(attest), args->attest ? args->attest : "");
	(void)str_copy(fence, sizeof(fence), args->fence ? args->fence : "");
	request.id = id;
	request.node_id = node_id;
	request.without_plugin_reason = reason;
	request.attest_reason = attest;
	request.fence_reason = fence;
	request.dry_run = args->dry_run;
	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base,
		    (ProtobufCMessage **)ret, err);
}

static void expect_forced(struct fixture *f)
{
	struct error err;

	if (force(f, &(struct args){0}, NULL, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	settle(f);
}

static void expect_refused(struct fixture *f, const struct args *args, enum status status, const char *part)
{
	int releases = f->n1.releases;
	struct error err;

	assert_int_equal(force(f, args, NULL, &err), status);
	if (!strstr(err.msg, part))
		fail_msg("'%s' lacks '%s'", err.msg, part);
	settle(f);
	assert_int_equal(f->n1.releases, releases);
}

static char *why(struct fixture *f)
{
	static char text[4096];
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	char id[] = "db";

	request.id = id;
	request.why = true;
	assert_int_equal(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base,
			      &response, NULL),
			 STATUS_OK);
	str_copy_text(text, sizeof(text), ((Holdfast__V1__GetVolumeResponse *)response)->why);
	protobuf_c_message_free_unpacked(response, NULL);
	return text;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_csi, teardown_csi)

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
	assert_non_null(strstr(why(f),
			       "Next: see what is in the way, on node n1: fuser -vm PATH or lsof +f -- PATH "
			       "name who holds a file open, the paths are in holdfast agent status"));
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
	assert_non_null(strstr(why(f),
			       "if plugin " CSI_PLUGIN " will never release it: holdfast volume detach db n1 "
			       "--without-plugin REASON"));
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
	assert_non_null(strstr(claim.evidence_detail, "by nobody on record; kernel: xxx"));
}

TEST_FIXTURE(a_plugin_is_bypassed_only_after_its_node_has_failed_to_release, setup_csi, teardown_csi)
{
	static const struct args any = {0};
	struct fixture *f = *state;
	char reason[PLUGIN_WAIVER_MAX + 2];
	size_t room = PLUGIN_WAIVER_MAX - strlen("operator/dev: ");

	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "holds no claim");
	take(f, &f->n1, ALLOC_1);
	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "holdfast alloc stop " ALLOC_1);
	/* an error while it works is no end of the work */
	fail_release(f, &f->n1, ALLOC_1);
	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "may continue with volume db");
	take(f, &f->n1, ALLOC_2);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	/* beside one that may continue */
	expect_refused(f, &any, STATUS_FAILED_PRECONDITION, "holdfast alloc stop " ALLOC_2);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	expect_refused(f, &(struct args){.node = "n2"}, STATUS_FAILED_PRECONDITION, "holds no claim");
	expect_refused(f, &(struct args){.attest = "b"}, STATUS_INVALID_ARGUMENT, "not both");
	expect_refused(f, &(struct args){.fence = "b"}, STATUS_INVALID_ARGUMENT, "not both");
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
	take(f, &f->n1, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_refused(f, &(struct args){0}, STATUS_FAILED_PRECONDITION, "is given its time first");
}

CLUSTER_TEST(a_native_volume_has_no_plugin_to_bypass)
{
	take_volume(f);
	expect_refused(f, &(struct args){0}, STATUS_FAILED_PRECONDITION, "is native");
}

TEST_FIXTURE(a_dry_forced_detach_lists_bypassed_steps_and_changes_nothing, setup_csi, teardown_csi)
{
	static const struct args args = {.dry_run = true};
	struct fixture *f = *state;
	Holdfast__V1__DetachVolumeResponse *response = NULL;
	int releases;

	stick(f, ALLOC_1);
	releases = f->n1.releases;
	assert_int_equal(force(f, &args, &response, NULL), STATUS_OK);
	assert_int_equal(response->n_claims, 1);
	assert_non_null(strstr(response->bypassed, "allocation " ALLOC_1));
	assert_non_null(strstr(response->bypassed, "NodeUnstageVolume"));
	assert_non_null(strstr(response->bypassed, "the last error: " STUCK));
	holdfast__v1__detach_volume_response__free_unpacked(response, NULL);
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
	Holdfast__V1__DetachVolumeRequest request = HOLDFAST__V1__DETACH_VOLUME_REQUEST__INIT;
	char id[] = "db", node[] = "n1", reason[] = "off";
	struct claim claim;
	int releases;

	stick(f, ALLOC_1);
	lose(f, &f->n1);
	request.id = id;
	request.node_id = node;
	request.attest_reason = reason;
	assert_int_equal(
		call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, NULL),
		STATUS_OK);
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

	take(f, &f->n1, ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	releases = f->n1.releases;
	fail_release(f, &f->n1, ALLOC_1);
	assert_int_equal(f->n1.releases, releases);
}
