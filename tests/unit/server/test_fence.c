/* SPDX-License-Identifier: Apache-2.0 */
/* What is done when the node or the provider cannot say that it has released it: the provider cuts the node
 * off, or a person takes responsibility for the provider's part. */

#include "asks.h"
#include "cluster.h"
#include "unit.h"

#include "claim/release.h"
#include "volume/volumes.h"

#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH

/* Some leave an attachment behind that a person answers for. */
static int teardown_csi(void **state)
{
	struct fixture *f = *state;

	assert_string_equal(f->plugin.violation, "");
	return teardown(state);
}

/* Several writers of one node. */
static int setup_local(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_MULTI_WRITER;
	register_csi(f, "db");
	connect_csi(f);
	return 0;
}

/* Work of @alloc that was ordered to end, on n1, which is away. */
static void strand(struct fixture *f, const char *alloc)
{
	take_claim(f, &f->n1, "db", alloc);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, alloc, NULL), STATUS_OK);
}

struct detach_args {
	const char *attest, *fence;
	bool dry_run;
};

static enum status ask_detach(struct fixture *f, const char *node, const struct detach_args *args,
			      Holdfast__V1__DetachVolumeResponse **ret, struct error *err)
{
	char attest[512] = "", fence[512] = "";
	Holdfast__V1__DetachVolumeRequest request =
		V1(detach_volume_request, .id = "db", .node_id = TEXT(node), .attest_reason = attest,
		   .fence_reason = fence);

	(void)str_copy(attest, sizeof(attest), args->attest ? args->attest : "");
	(void)str_copy(fence, sizeof(fence), args->fence ? args->fence : "");
	request.dry_run = args->dry_run;
	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base,
		    (ProtobufCMessage **)ret, err);
}

static enum status fence(struct fixture *f, const char *node, struct error *err)
{
	return ask_detach(f, node, &(struct detach_args){.fence = "it does not answer"}, NULL, err);
}

static void expect_refused(struct fixture *f, const struct detach_args *args, enum status status,
			   const char *part)
{
	struct error err;
	unsigned int calls = f->plugin.calls[DETACH];

	assert_int_equal(ask_detach(f, "n1", args, NULL, &err), status);
	assert_msg(strstr(err.msg, part), "%s", err.msg);
	assert_int_equal(f->plugin.calls[DETACH], calls);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_db, teardown_csi)

/* --- fence --- */

CASE(the_provider_cuts_off_a_node_that_is_away_and_that_frees_the_volume)
{
	static const struct detach_args args = {.fence = "it does not answer"};
	cleanup_pb Holdfast__V1__DetachVolumeResponse *response = NULL;
	struct claim claim;
	struct error err;

	strand(f, ALLOC_1);
	assert_non_null(strstr(why(f), "holdfast volume detach db n1 --fence REASON"));
	assert_succeeds(ask_detach(f, "n1", &args, &response, &err), err);
	assert_int_equal(response->n_claims, 1);
	assert_int_equal(response->claims[0]->state, HOLDFAST__V1__CLAIM_STATE__FREED);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_FREED);
	assert_int_equal(claim.evidence, EVIDENCE_STORAGE_FENCE);
	assert_string_equal(claim.evidence_detail, "operator/dev: it does not answer");
	assert_int_equal(claim.access_mode, SINGLE_NODE_WRITER);
	assert_int_equal(f->plugin.n_attachments, 0);
	assert_int_equal(f->plugin.calls[DETACH], 1); /* that detach was the fence */
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
	take_claim(f, &f->n2, "db", ALLOC_2);
	/* the node that comes back is ordered to end what it still has */
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

#define MACHINE_1 "11111111111111111111111111111111"
#define MACHINE_2 "22222222222222222222222222222222"

CASE(the_provider_cuts_off_a_former_machine_while_the_next_one_is_connected)
{
	struct error err;

	lose(f, &f->n1);
	f->n1.machine = MACHINE_1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	strand(f, ALLOC_1);
	f->n1.machine = MACHINE_2;
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* it is refused */
	assert_succeeds(identify(f, "n1", MACHINE_2, &err), err);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	assert_non_null(strstr(why(f), "holdfast volume detach db n1 --fence REASON"));
	assert_null(strstr(why(f), "the node is not connected"));
	assert_succeeds(fence(f, "n1", &err), err);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_STORAGE_FENCE);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

static void expect_only(struct fixture *f, const struct detach_args *args, const char *alloc)
{
	cleanup_pb Holdfast__V1__DetachVolumeResponse *response = NULL;
	struct error err;

	assert_succeeds(ask_detach(f, "n1", args, &response, &err), err);
	assert_int_equal(response->n_claims, 1);
	assert_string_equal(response->claims[0]->allocation_id, alloc);
}

CASE(a_detach_lists_no_claims_that_were_freed_before)
{
	take_claim(f, &f->n1, "db", ALLOC_3);
	release_claim(f, &f->n1, ALLOC_3);
	UNTIL(f, state_of(f, ALLOC_3) == CLAIM_FREED);
	strand(f, ALLOC_1);
	expect_only(f, &(struct detach_args){.fence = "off", .dry_run = true}, ALLOC_1);
	expect_only(f, &(struct detach_args){.fence = "off"}, ALLOC_1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	strand(f, ALLOC_2);
	expect_only(f, &(struct detach_args){.attest = "off"}, ALLOC_2);
}

CASE(a_fence_that_endangers_work_or_detaches_nothing_is_refused)
{
	static const struct detach_args args = {.fence = "it does not answer"};
	char long_reason[400];

	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "holds no claim");
	take_claim(f, &f->n1, "db", ALLOC_1);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "is connected");
	lose(f, &f->n1);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "holdfast alloc stop " ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_refused(f, &(struct detach_args){.fence = "a", .attest = "b"}, STATUS_INVALID_ARGUMENT,
		       "give only one");
	memset(long_reason, 'x', sizeof(long_reason) - 1);
	long_reason[sizeof(long_reason) - 1] = '\0';
	expect_refused(f, &(struct detach_args){.fence = long_reason}, STATUS_INVALID_ARGUMENT,
		       "fence_reason: not text, or longer than");
	f->n2.csi.controller_sick = true;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "no healthy controller that detaches");
	assert_false(claim_of(f, ALLOC_1).fence_asked);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

TEST_ON(a_volume_that_no_controller_attached_cannot_be_fenced, struct fixture, f, setup, teardown)
{
	static const struct detach_args args = {.fence = "it does not answer"};

	take_volume(f); /* native */
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "was not attached");
	assert_null(strstr(why(f), "--fence"));
}

CASE(a_dry_run_of_a_fence_changes_nothing)
{
	static const struct detach_args args = {.fence = "it does not answer", .dry_run = true};
	cleanup_pb Holdfast__V1__DetachVolumeResponse *response = NULL;

	strand(f, ALLOC_1);
	assert_int_equal(ask_detach(f, "n1", &args, &response, NULL), STATUS_OK);
	assert_int_equal(response->n_claims, 1);
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	assert_false(claim_of(f, ALLOC_1).fence_asked);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CASE(a_fence_that_fails_releases_nothing_and_is_never_repeated_by_itself)
{
	struct error err;

	strand(f, ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1, STATUS_INTERNAL);
	assert_error(fence(f, "n1", &err), STATUS_INTERNAL, err, "the model says no");
	assert_non_null(strstr(err.msg, "nothing was released"));
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_true(claim_of(f, ALLOC_1).fence_asked);
	/* what the provider may be doing still is not undone by a grant to that node, also after a crash */
	restart(f);
	connect_csi(f);
	settle(f);
	assert_true(claim_of(f, ALLOC_1).fence_asked);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	/* the node is back: its own word counts as ever */
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* "Not assumed to be ControllerUnpublished", says the specification of it. */
CASE(a_fence_answered_not_found_proves_nothing)
{
	struct error err;

	strand(f, ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	assert_error(fence(f, "n1", &err), STATUS_FAILED_PRECONDITION, err, "the model knows no such node");
	assert_non_null(strstr(err.msg, "nothing was released"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CASE(a_fence_that_was_done_before_a_crash_can_be_repeated)
{
	struct error err;

	strand(f, ALLOC_1);
	/* done, and the answer is lost with the session */
	model_plugin_order(&f->plugin, DETACH, MODEL_LOSE_AFTER, 1, 0);
	assert_int_not_equal(fence(f, "n1", &err), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN); /* not confirmed */
	restart(f);
	f->n2.plugin = &f->plugin;
	f->n2.csi.has_node = f->n2.csi.has_controller = true;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_succeeds(fence(f, "n1", &err), err);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_STORAGE_FENCE);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

/* n1 reports @name as the id that its provider has given it. */
static void call_itself(struct fixture *f, const char *name)
{
	f->n1.csi.node_id = name;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
}

/* Else a node that holds a volume twice could have the provider detach it from a machine that does not exist.
 */
TEST_ON(a_fence_detaches_each_provider_id_that_the_node_had, struct fixture, f, setup_local, teardown_csi)
{
	struct error err;

	take_claim(f, &f->n1, "db", ALLOC_1);
	call_itself(f, "ghost");
	take_claim(f, &f->n1, "db", ALLOC_2);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	assert_succeeds(fence(f, "n1", &err), err);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_STORAGE_FENCE);
	assert_int_equal(claim_of(f, ALLOC_2).evidence, EVIDENCE_STORAGE_FENCE);
	assert_int_equal(f->plugin.n_attachments, 0);
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

/* A failure of the second detach leaves the claims of that one. */
TEST_ON(a_fence_that_proves_nothing_keeps_both_provider_ids, struct fixture, f, setup_local, teardown_csi)
{
	enum claim_state first, second;

	take_claim(f, &f->n1, "db", ALLOC_1);
	call_itself(f, "ghost");
	take_claim(f, &f->n1, "db", ALLOC_2);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	assert_int_equal(fence(f, "n1", NULL), STATUS_FAILED_PRECONDITION);
	assert_int_equal(f->plugin.n_attachments, 2);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	assert_int_equal(fence(f, "n1", NULL), STATUS_OK);
	first = state_of(f, ALLOC_1);
	second = state_of(f, ALLOC_2);
	assert_int_equal(first, CLAIM_FREED);
	assert_int_equal(second, CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* One detach takes away one attachment: each has to be asked for. */
TEST_ON(each_provider_id_of_a_node_is_detached_when_its_claim_ends, struct fixture, f, setup_local,
	teardown_csi)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	call_itself(f, "ghost");
	take_claim(f, &f->n1, "db", ALLOC_2);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "ghost"));
	release_claim(f, &f->n1, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* n1 has a claim of the same volume, by right; with the id of n2 the end of it would detach n2. */
TEST_ON(the_provider_id_of_another_node_attaches_and_detaches_nothing, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	struct error err;

	take_claim(f, &f->n2, "db", ALLOC_2);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	f->n1.csi.node_id = "i-n2";
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE, err,
		     "provider id of another node");
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
	f->n1.csi.node_id = NULL; /* its own again */
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	take_claim(f, &f->n1, "db", ALLOC_3);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* Providers read some ids as numbers, others in any case. */
TEST_ON(the_provider_id_of_another_node_is_known_in_each_spelling, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	static const char *const spellings[] = {"I-N2", "+i-n2", "00i-n2", " i-n2", "i-N2 "};

	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
		call_itself(f, spellings[i]);
		assert_string_equal(state_instance(&f->server->state, "n1", "ebs", "")
					    ->instance.plugin.node.provider_node_id,
				    "");
	}
	call_itself(f, "i-n20");
	assert_string_equal(
		state_instance(&f->server->state, "n1", "ebs", "")->instance.plugin.node.provider_node_id,
		"i-n20");
}

/* The node that had it first keeps it, also over a session and a restart of the server. */
TEST_ON(a_provider_id_stays_with_the_node_that_reported_it_first, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	fake_node_disconnect(&f->n2);
	f->n1.csi.node_id = "i-n2";
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	restart(f);
	f->n1.csi.node_id = "i-n2";
	connect_csi(f);
	f->n1.csi.node_id = "i-n2";
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	take_claim(f, &f->n2, "db", ALLOC_2);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_UNAVAILABLE);
}

/* A hostile node that came first does not keep the id for ever. */
TEST_ON(a_purge_of_a_node_frees_its_provider_id, struct fixture, f, setup_shared_db, teardown_csi)
{
	lose(f, &f->n2);
	assert_int_equal(purge(f, "n2", NULL), STATUS_OK);
	call_itself(f, "i-n2");
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_UNAVAILABLE);
	lose(f, &f->n1);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	take_claim(f, &f->n2, "db", ALLOC_3);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
}

static void report_plugin_again(struct fake_node *node)
{
	node->csi.has_node = true;
	fake_node_send_fingerprint(node);
}

/* n1 takes db under the provider id of n2, so spelled, which n2 does not report yet; then each node reports
 * its own id. */
static void take_under_id(struct fixture *f, const char *id_of_n2, const char *alloc)
{
	f->n2.csi.has_node = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	call_itself(f, id_of_n2);
	take_claim(f, &f->n1, "db", alloc);
	call_itself(f, NULL);
	report_plugin_again(&f->n2);
	settle(f);
}

static void take_under_id_of_n2(struct fixture *f, const char *alloc)
{
	take_under_id(f, "i-n2", alloc);
}

static void expect_attached(struct fixture *f, const char *alloc)
{
	assert_int_equal(state_of(f, alloc), CLAIM_TAKEN);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
	assert_int_equal(f->plugin.calls[DETACH], 0);
}

TEST_ON(a_claim_under_the_id_of_another_node_leaves_its_device, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	take_under_id_of_n2(f, ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	release_claim(f, &f->n1, ALLOC_1);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	expect_attached(f, ALLOC_2);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* The provider is asked with each id as it was reported. */
TEST_ON(a_claim_under_another_spelling_of_a_nodes_id_leaves_its_device, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	take_under_id(f, "I-N2", ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "I-N2"));
	release_claim(f, &f->n1, ALLOC_1);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	expect_attached(f, ALLOC_2);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 2);
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* After the restart it is unknown whether the detach of n1's claim was sent. It waits for those of n2. */
TEST_ON(a_claim_under_the_id_of_another_node_delays_no_grant_there, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	take_under_id_of_n2(f, ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	release_claim(f, &f->n1, ALLOC_1);
	settle(f);
	restart(f);
	connect_csi(f);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	take_claim(f, &f->n2, "db", ALLOC_3);
	expect_attached(f, ALLOC_2);
	release_claim(f, &f->n2, ALLOC_2);
	release_claim(f, &f->n2, ALLOC_3);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && state_of(f, ALLOC_3) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
}

CASE(a_freed_claim_that_its_node_names_again_leaves_the_writers_device)
{
	struct claim old;
	unsigned int calls;

	take_under_id_of_n2(f, ALLOC_1);
	old = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_claim(f, &f->n2, "db", ALLOC_2);
	calls = f->plugin.calls[DETACH];
	fake_node_disconnect(&f->n1);
	f->n1.has = &old;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	f->n1.has = NULL;
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	fake_node_send_released(&f->n1, &old);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(f->plugin.calls[DETACH], calls);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
}

TEST_ON(a_fence_never_takes_the_device_of_another_node, struct fixture, f, setup_shared_db, teardown_csi)
{
	static const struct detach_args args = {.fence = "it does not answer"};

	take_under_id_of_n2(f, ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_null(strstr(why(f), "holdfast volume detach db n1 --fence"));
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "holdfast alloc stop " ALLOC_2);
	assert_false(claim_of(f, ALLOC_1).fence_asked);
	assert_int_equal(ask_detach(f, "n1", &(struct detach_args){.attest = "it is off"}, NULL, NULL),
			 STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_NODE_DETACHED);
	settle(f);
	expect_attached(f, ALLOC_2);
}

TEST_ON(no_attach_is_sent_while_another_nodes_claim_of_that_id_is_detached, struct fixture, f,
	setup_shared_db, teardown_csi)
{
	struct error err;

	take_under_id_of_n2(f, ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n2.n_held == 1);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_error(fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err), STATUS_ABORTED, err,
		     "is just being detached");
	fake_node_answer(&f->n2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(fake_node_claim(&f->n2, "db", ALLOC_2, NULL, NULL), STATUS_OK);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
}

TEST_ON(an_attachment_is_detached_after_its_last_user_on_any_node, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	struct release_stats stats;

	take_under_id_of_n2(f, ALLOC_1);
	f->n2.csi.cannot_attach = true;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	take_claim(f, &f->n2, "db", ALLOC_2); /* uses what is attached already */
	release_claim(f, &f->n1, ALLOC_1);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	expect_attached(f, ALLOC_2);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
	release_stats(f->server, &stats);
	assert_int_equal(stats.swept_up, 0);
}

TEST_ON(claims_that_wait_together_for_another_node_are_released_after_it, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	struct release_stats stats;

	f->n2.csi.has_node = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	call_itself(f, "i-n2");
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "db", ALLOC_3);
	call_itself(f, NULL);
	f->n2.csi.cannot_attach = true;
	report_plugin_again(&f->n2);
	settle(f);
	take_claim(f, &f->n2, "db", ALLOC_2);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(state_of(f, ALLOC_3), CLAIM_NODE_DETACHED);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && state_of(f, ALLOC_3) == CLAIM_FREED);
	release_stats(f->server, &stats);
	assert_int_equal(stats.swept_up, 0);
}

/* The claim was adopted, and its node does not report the plugin. */
static void forget_node_id(struct fixture *f, struct fake_node *node, const char *alloc)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim = claim_of(f, alloc);

	claim.adopted = true;
	claim.external_node_id[0] = '\0';
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	node->csi.has_node = false;
	fake_node_send_fingerprint(node);
	settle(f);
}

TEST_ON(a_detach_waits_for_the_unknown_id_of_another_holder, struct fixture, f, setup_shared_db, teardown_csi)
{
	static const struct detach_args args = {.fence = "it does not answer"};

	take_under_id_of_n2(f, ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	forget_node_id(f, &f->n2, ALLOC_2);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "holdfast alloc stop " ALLOC_2);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_non_null(strstr(claim_of(f, ALLOC_1).last_error, "as soon as node n2 reports the plugin"));
	expect_attached(f, ALLOC_2);
	report_plugin_again(&f->n2);
	settle(f);
	expect_attached(f, ALLOC_2);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && state_of(f, ALLOC_2) == CLAIM_FREED);
}

TEST_ON(a_queued_detach_is_dropped_when_the_id_of_another_holder_becomes_unknown, struct fixture, f,
	setup_shared_db, teardown_csi)
{
	register_csi(f, "wal");
	take_under_id_of_n2(f, ALLOC_1);
	f->n2.csi.node_id = "other";
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	take_claim(f, &f->n2, "db", ALLOC_2);
	forget_node_id(f, &f->n2, ALLOC_2);
	report_plugin_again(&f->n2);
	take_claim(f, &f->n1, "wal", ALLOC_3);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	release_claim(f, &f->n1, ALLOC_3);
	UNTIL(f, f->n2.n_held == 1);
	release_claim(f, &f->n1, ALLOC_1);
	f->n2.csi.has_node = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	fake_node_answer(&f->n2);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

TEST_ON(claims_of_two_nodes_of_unknown_ids_have_two_attachments, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	forget_node_id(f, &f->n1, ALLOC_1);
	forget_node_id(f, &f->n2, ALLOC_2);
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_non_null(strstr(claim_of(f, ALLOC_1).last_error, "node n1")); /* it waits for no other */
	report_plugin_again(&f->n1);
	settle(f);
	expect_attached(f, ALLOC_2);
	report_plugin_again(&f->n2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
}

static void on_ended(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	*(int *)userdata = (int)status + 1;
}

/* Asked and not waited for. */
static void start_fence(struct fixture *f, int *ended)
{
	Holdfast__V1__DetachVolumeRequest request =
		V1(detach_volume_request, .id = "db", .node_id = "n1", .fence_reason = "it does not answer");

	assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__volumes__descriptor, "Detach",
				  &request.base, TIMEOUT_US, on_ended, ended, NULL, NULL));
}

TEST_ON(a_fence_whose_second_detach_fails_keeps_that_claim, struct fixture, f, setup_local, teardown_csi)
{
	int ended = 0;

	take_claim(f, &f->n1, "db", ALLOC_1);
	call_itself(f, "ghost");
	take_claim(f, &f->n1, "db", ALLOC_2);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	start_fence(f, &ended);
	UNTIL(f, f->n2.n_held == 1);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	fake_node_answer(&f->n2);
	UNTIL(f, ended == (int)STATUS_FAILED_PRECONDITION + 1);
	assert_int_equal(f->plugin.n_attachments, 1);
	assert_int_equal((state_of(f, ALLOC_1) == CLAIM_FREED) + (state_of(f, ALLOC_2) == CLAIM_FREED), 1);
	assert_int_equal(fence(f, "n1", NULL), STATUS_OK);
	assert_int_equal(f->plugin.n_attachments, 0);
}

TEST_ON(while_a_fence_is_in_flight_its_node_gets_no_new_claim, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	struct error err;
	int ended = 0;

	strand(f, ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	start_fence(f, &ended);
	UNTIL(f, f->n2.n_held == 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_2, NULL, &err), STATUS_ABORTED, err,
		     "is just being detached");
	fake_node_answer(&f->n2);
	UNTIL(f, ended == (int)STATUS_OK + 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_2, NULL, &err), STATUS_OK);
	assert_int_equal(f->plugin.n_attachments, 1);
}

TEST_ON(all_claims_on_the_node_are_cut_off_together_and_others_stay, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	struct error err;

	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "db", ALLOC_2);
	take_claim(f, &f->n2, "db", ALLOC_3);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(fence(f, "n1", &err), STATUS_FAILED_PRECONDITION); /* the other one may continue */
	assert_non_null(strstr(err.msg, ALLOC_2));
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	assert_succeeds(fence(f, "n1", &err), err);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_FREED);
	assert_int_equal(state_of(f, ALLOC_3), CLAIM_TAKEN);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	assert_int_equal(f->plugin.n_attachments, 1);
}

/* --- a person's word about the provider --- */

static void stick(struct fixture *f)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1000, STATUS_INTERNAL);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
}

CASE(a_detach_that_fails_for_ever_is_ended_by_a_persons_word)
{
	static const struct detach_args dry = {.attest = "console says so", .dry_run = true};
	static const struct detach_args args = {.attest = "console says so"};
	cleanup_pb Holdfast__V1__DetachVolumeResponse *response = NULL;
	struct release_stats stats;
	struct claim claim;
	struct error err;

	stick(f);
	assert_contains(why(f), "if it is certain that the provider has released it: "
				"holdfast volume detach db n1 --attest REASON");
	assert_int_equal(ask_detach(f, "n1", &dry, &response, NULL), STATUS_OK);
	assert_int_equal(response->n_claims, 1);
	assert_int_equal(response->claims[0]->state, HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	if (ask_detach(f, "n1", &args, NULL, &err) !=
	    STATUS_OK) /* the node is connected, which is no matter */
		fail_msg("%s", err.msg);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_FREED);
	assert_int_equal(claim.evidence, EVIDENCE_RECEIPT);
	assert_int_equal(claim.detach_evidence, EVIDENCE_OPERATOR);
	assert_string_equal(claim.detach_detail, "operator/dev: console says so");
	assert_non_null(
		strstr(why(f), "weaker than its controller's answer, (operator/dev: console says so)"));
	release_stats(f->server, &stats);
	assert_int_equal(stats.stuck, 0);
	restart(f);
	assert_int_equal(claim_of(f, ALLOC_1).detach_evidence, EVIDENCE_OPERATOR);
}

CASE(no_word_is_taken_before_the_detach_has_failed_or_while_it_is_asked_for)
{
	static const struct detach_args args = {.attest = "console says so"};

	take_claim(f, &f->n1, "db", ALLOC_1);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "is connected and gives its own receipt");
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD, 1, 0);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n2.n_held == 1);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "is being asked at this moment");
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	fake_node_answer(&f->n2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	expect_refused(f, &args, STATUS_FAILED_PRECONDITION, "holds no claim");
	assert_int_equal(claim_of(f, ALLOC_1).detach_evidence, EVIDENCE_NONE);
}

CASE(a_plugin_that_is_gone_is_no_dead_end)
{
	static const struct alloc plain = {
		.id = ALLOC_2, .namespace = "default", .node_id = "n1", .client_status = CLIENT_RUNNING};
	cleanup_pb Holdfast__V1__AttestNodeResponse *response = NULL;
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_put_alloc(&change, &plain);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	take_claim(f, &f->n1, "db", ALLOC_1);
	f->n2.csi.has_controller = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts >= 1);
	assert_int_equal(attest(f, "n1", NULL, "provider closed", 0, true, &response, NULL), STATUS_OK);
	assert_int_equal(response->n_claims, 1);
	assert_non_null(strstr(response->bypassed, "no controller of plugin ebs has confirmed"));
	assert_null(strstr(response->bypassed, "has not confirmed that it unmounted"));
	assert_int_equal(attest(f, "n1", NULL, "provider closed", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).detach_evidence, EVIDENCE_OPERATOR);
	settle(f); /* n1 is connected: its other work goes on */
	assert_int_equal(state_alloc(&f->server->state, ALLOC_2)->alloc.client_status, CLIENT_RUNNING);
}

TEST_ON(all_claims_that_wait_for_one_detach_are_freed_by_one_word, struct fixture, f, setup_shared_db,
	teardown_csi)
{
	static const struct detach_args args = {.attest = "console says so"};
	struct error err;

	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "db", ALLOC_2);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1000, STATUS_INTERNAL);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED); /* the other one exists there still */
	release_claim(f, &f->n1, ALLOC_2);
	UNTIL(f, claim_of(f, ALLOC_2).attempts == 1);
	assert_succeeds(ask_detach(f, "n1", &args, NULL, &err), err);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_FREED);
}
