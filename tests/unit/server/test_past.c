/* SPDX-License-Identifier: Apache-2.0 */
/* What a node has released and a restored server has never heard of: its attachment is taken away. */

#include "restored.h"
#include "unit.h"

#include "claim/release.h"
#include "model/pb.h"
#include "recovery/epoch.h"
#include "state/change.h"

#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH

static void connect_as(struct fixture *f, struct fake_node *node, const char *id, const char *boot)
{
	node->plugin = &f->plugin;
	node->csi = (struct fake_csi){.has_node = true, .has_controller = str_eq(id, "n2")};
	fake_node_connect(node, id, boot, NULL, 0);
	assert_true(node->welcomed);
}

/* The backup knows both nodes and the CSI volume; afterwards n1 took it, and released it or not. */
static void forget_attachment(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim)
{
	struct backup backup = {0};

	register_csi(f, "db");
	connect_as(f, &f->n1, "n1", BOOT_1);
	connect_as(f, &f->n2, "n2", BOOT_1);
	take_backup(f, &backup);
	connect_as(f, &f->n1, "n1", BOOT_1);
	connect_as(f, &f->n2, "n2", BOOT_1);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	*ret_alloc = alloc_of(f, ALLOC_1);
	ret_alloc->client_status = CLIENT_LOST;
	*ret_claim = claim_of(f, ALLOC_1);
	ret_claim->state = CLAIM_NODE_DETACHED;
	restore(f, &backup, 1);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
	assert_int_equal(f->plugin.n_attachments, 1); /* and the server knows nothing of it */
}

CLUSTER_TEST(volumes_held_in_an_earlier_boot_are_detached)
{
	struct alloc alloc;
	struct claim past, claim;

	forget_attachment(f, &alloc, &past);
	/* whatever the node says: only it itself is cut off */
	(void)str_copy(past.external_node_id, sizeof(past.external_node_id), "i-n2");
	pass_grace(f);
	connect_as(f, &f->n1, "n1", BOOT_2);
	report(f, &f->n1, 1, &alloc, NULL, true);
	report(f, &f->n1, 1, NULL, &past, false);
	UNTIL(f, has_reported(f, "n1"));
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
	assert_int_equal(claim.evidence, EVIDENCE_NEW_BOOT);
	assert_string_equal(claim.evidence_detail, BOOT_2);
	assert_string_equal(claim.boot_id, BOOT_1);
	assert_true(claim.adopted);
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0); /* not before all nodes have told what they hold */
	connect_as(f, &f->n2, "n2", BOOT_1);
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
	assert_string_equal(f->plugin.violation, "");
	assert_int_equal(claim_of(f, ALLOC_1).access_mode, SINGLE_NODE_WRITER);
	/* it cannot be granted under its old generation */
	assert_true(state_volume(&f->server->state, "default", "db")->volume.generation >= past.generation);
}

CLUSTER_TEST(volumes_released_in_this_boot_are_detached_too)
{
	struct alloc alloc;
	struct claim past;

	forget_attachment(f, &alloc, &past);
	connect_as(f, &f->n2, "n2", BOOT_1);
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_as(f, &f->n1, "n1", BOOT_1);
	report(f, &f->n1, 1, &alloc, NULL, true);
	report(f, &f->n1, 1, NULL, &past, false);
	UNTIL(f, has_reported(f, "n1"));
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
	assert_int_equal(f->plugin.n_attachments, 0);
}

CLUSTER_TEST(a_claim_of_an_earlier_boot_is_not_held_now_and_needs_proof_like_any)
{
	struct alloc alloc;
	struct claim past, held;

	forget_attachment(f, &alloc, &past);
	pass_grace(f);
	connect_as(f, &f->n1, "n1", BOOT_2);
	report(f, &f->n1, 1, &alloc, NULL, true);
	report_with(&f->n1, 1, NULL, &past, NULL, true);
	settle(f);
	assert_false(f->n1.closed);
	assert_int_equal(f->server->state.n_claims, 0);
	held = past;
	held.state = CLAIM_TAKEN;
	report(f, &f->n1, 1, NULL, &held, false);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	assert_int_equal(f->server->state.n_claims, 0);
	assert_false(has_reported(f, "n1"));
}

CLUSTER_TEST(known_claims_take_the_normal_path)
{
	struct backup backup = {0};
	struct claim past;

	register_csi(f, "db");
	connect_as(f, &f->n1, "n1", BOOT_1);
	connect_as(f, &f->n2, "n2", BOOT_1);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	past = claim_of(f, ALLOC_1);
	past.state = CLAIM_NODE_DETACHED;
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_as(f, &f->n2, "n2", BOOT_1);
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_as(f, &f->n1, "n1", BOOT_1);
	report(f, &f->n1, 1, NULL, &past, false); /* it says that it has released it */
	UNTIL(f, has_reported(f, "n1"));
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
	assert_false(claim_of(f, ALLOC_1).adopted);
	assert_int_equal(f->plugin.n_attachments, 0);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_report_that_contradicts_a_known_claim_is_refused)
{
	enum { GENERATION, VOLUME, BOOT, N_LIES };
	struct backup backup = {0};
	struct claim known;

	take_volume(f);
	known = claim_of(f, ALLOC_1);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	for (int lie = 0; lie < N_LIES; lie++) {
		struct claim said = known;

		said.generation += lie == GENERATION;
		if (lie == VOLUME)
			(void)str_copy(said.volume_id, sizeof(said.volume_id), "other");
		if (lie == BOOT) { /* of which it may only say that it has ended */
			(void)str_copy(said.boot_id, sizeof(said.boot_id), BOOT_2);
			said.state = CLAIM_NODE_DETACHED;
		}
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		report(f, &f->n1, 1, NULL, &said, false);
		UNTIL(f, f->n1.closed);
		assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
		assert_non_null(strstr(f->n1.closed_message, "another volume, boot or generation"));
		assert_false(has_reported(f, "n1"));
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
		fake_node_disconnect(&f->n1);
	}
	assert_int_equal(claim_of(f, ALLOC_1).generation, known.generation);
}

CLUSTER_TEST(a_past_claim_on_a_native_volume_is_not_stored)
{
	struct alloc alloc;
	struct claim past;

	forget_that_n1_has_it(f, &alloc, &past);
	past.state = CLAIM_NODE_DETACHED;
	past.generation = 5;
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	report(f, &f->n1, 1, NULL, &past, true);
	(void)str_copy(past.volume_id, sizeof(past.volume_id),
		       "other"); /* deregistered since, or never there */
	(void)str_copy(past.id, sizeof(past.id), ALLOC_2);
	past.generation = 7;
	report(f, &f->n1, 1, NULL, &past, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(f->server->state.n_claims, 0);
	assert_int_equal(f->server->state.n_volumes, 1);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation, UINT64_C(1)
												      << 32);
	assert_int_equal(state_generation_floor(&f->server->state), UINT64_C(1) << 32);
}

CLUSTER_TEST(an_epoch_grants_no_generation_of_an_earlier_one)
{
	struct claim past, next;
	struct alloc alloc;

	forget_that_n1_has_it(f, &alloc, &past);
	past.state = CLAIM_NODE_DETACHED;
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	report(f, &f->n1, 1, NULL, &past, false);
	UNTIL(f, has_reported(f, "n1"));
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &next, NULL), STATUS_OK);
	assert_int_equal(next.generation, (UINT64_C(1) << 32) + 1);
}

/* The copy has n1's release as waiting for its detach; since then n1 may have been granted the volume anew.
 */
CASE(no_detach_precedes_the_nodes_report)
{
	struct backup backup = {0};
	struct claim claim;

	register_csi(f, "db");
	connect_as(f, &f->n1, "n1", BOOT_1);
	connect_as(f, &f->n2, "n2", BOOT_1);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	claim = claim_of(f, ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1, STATUS_INTERNAL);
	fake_node_send_released(&f->n1, &claim);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_as(f, &f->n2, "n2", BOOT_1);
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	release_node_back(f->server,
			  state_node(&f->server->state, "n2")); /* as upon any change of the plugin */
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	assert_int_equal(f->plugin.n_attachments, 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	connect_as(f, &f->n1, "n1", BOOT_1);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

CLUSTER_TEST(a_plugin_that_attaches_nothing_is_not_asked)
{
	struct alloc alloc;
	struct claim past;

	forget_attachment(f, &alloc, &past);
	f->n1.csi = (struct fake_csi){.has_node = true, .needs_no_controller = true};
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	report(f, &f->n1, 1, &alloc, NULL, true);
	report(f, &f->n1, 1, NULL, &past, false);
	UNTIL(f, has_reported(f, "n1"));
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 0);
}

CLUSTER_TEST(a_node_that_is_not_listed_cannot_leave_the_detach_out)
{
	struct controller_nodes *lists;
	struct alloc alloc;
	struct claim past;

	forget_attachment(f, &alloc, &past);
	lists = &f->server->config.controller_nodes;
	lists->lists[0] = (struct controller_list){.plugin_id = CONTROLLER_ANY_PLUGIN, .nodes = {"n2"}};
	lists->n_lists = 1;
	f->n2.plugin = &f->plugin;
	f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true, .controller_sick = true};
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	report(f, &f->n2, 1, NULL, NULL, false);
	f->n1.csi = (struct fake_csi){.has_node = true, .needs_no_controller = true};
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	report(f, &f->n1, 1, &alloc, NULL, true);
	report(f, &f->n1, 1, NULL, &past, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	f->n2.csi.controller_sick = false;
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* A volume that was registered after the backup, held by n1. */
CLUSTER_TEST(a_volume_known_from_a_report_is_registered_again_while_it_is_held)
{
	struct alloc alloc;
	struct claim held;
	const struct volume *volume;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	(void)str_copy(held.external_id, sizeof(held.external_id), ""); /* agents do not know it */
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, NULL, true);
	report(f, &f->n1, 1, NULL, &held, false);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	volume = &state_volume(&f->server->state, "default", "db")->volume;
	assert_true(volume_is_placeholder(volume));
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", &err), STATUS_FAILED_PRECONDITION);
	/* in use as it is */
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
	assert_int_equal(register_volume(f, &f->operator, & err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "is in use as single-node-writer/file-system"));
	assert_true(volume_is_placeholder(volume));
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	assert_succeeds(register_volume(f, &f->operator, & err), err);
	volume = &state_volume(&f->server->state, "default", "db")->volume;
	assert_int_equal(volume->n_capabilities, 1);
	assert_string_equal(volume->name, "db");
	assert_string_equal(volume->external_id, "db");
	assert_int_not_equal(volume->source.class, SOURCE_UNSPECIFIED);
	assert_int_equal(volume->generation, UINT64_C(1) << 32);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_ok(register_volume(f, &f->operator, & err)); /* and again, which is no change */
	fake_node_send_released(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
}

/* What was granted after the backup and ended before anybody told is not known: the numbers of the new epoch
 * are above it. */
CASE(a_volume_of_which_only_a_node_knows_is_granted_with_the_numbers_of_the_epoch)
{
	const uint64_t floor = UINT64_C(1) << 32;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim held, next;
	struct alloc alloc;

	forget_what_n1_has(f, &alloc, &held);
	change_put_floor(&change, floor);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	report_that_n1_has_it(f, &alloc, &held);
	assert_int_equal(claim_of(f, ALLOC_1).generation, held.generation);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_send_released(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &next, NULL), STATUS_OK);
	assert_int_equal(next.generation, floor + 1);
}

static void list_n2(struct fixture *f)
{
	struct controller_nodes *lists = &f->server->config.controller_nodes;

	lists->lists[0] = (struct controller_list){.plugin_id = CSI_PLUGIN, .nodes = {"n2"}};
	lists->n_lists = 1;
}

/* n2 is listed as the controller's node. */
static void take_csi(struct fixture *f, struct claim *ret_claim, struct ticket *ret_ticket,
		     struct alloc *ret_alloc)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;

	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL), STATUS_OK);
	assert_int_equal(claim_from_pb(response->claim, ret_claim, NULL), STATUS_OK);
	memcpy(ret_ticket, response->ticket.data, sizeof(*ret_ticket));
	fake_node_send_mounted(&f->n1, ret_claim);
	settle(f);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	*ret_alloc = alloc_of(f, ALLOC_1);
	ret_claim->state = CLAIM_TAKEN;
}

static void send_csi(struct fixture *f, struct fake_node *node, struct fake_csi csi)
{
	node->csi = csi;
	fake_node_send_fingerprint(node);
	settle(f);
}

static void expect_detached_when_n2_is_back(struct fixture *f)
{
	settle(f);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_int_not_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	send_csi(f, &f->n2, (struct fake_csi){.has_node = true, .has_controller = true});
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_node(&f->server->state, "n1")->n_live == 0);
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* n1 lies: it has a second claim, and says that the plugin needs no controller. */
CASE(a_node_that_is_not_listed_leaves_no_detach_out_while_the_listed_one_has_no_plugin)
{
	struct claim first, second;
	struct ticket ticket;
	struct alloc alloc;

	list_n2(f);
	register_csi(f, "db");
	connect_csi(f);
	take_csi(f, &first, &ticket, &alloc);
	fake_node_send_alloc(&f->n1, ALLOC_3,
			     HOLDFAST__V1__CLIENT_STATUS__RUNNING); /* so it is asked for a report */
	UNTIL(f, f->n1.closed);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.reports_wanted == 1);
	second = first;
	(void)str_copy(second.id, sizeof(second.id), "c1890000-0000-4000-8000-000000000002");
	report_with(&f->n1, f->n1.report_epoch, &alloc, &second, &ticket, false);
	settle(f);
	assert_non_null(state_claim(&f->server->state, second.id));
	send_csi(f, &f->n2, (struct fake_csi){.has_node = false});
	send_csi(f, &f->n1, (struct fake_csi){.has_node = true, .needs_no_controller = true});
	fake_node_send_released(&f->n1, &first);
	settle(f);
	fake_node_send_released(&f->n1, &second);
	expect_detached_when_n2_is_back(f);
}

/* After a restore the one claim is adopted. n2 comes with @csi, and n1 says that no controller is needed. */
static void adopt_csi(struct fixture *f, struct fake_csi csi, struct claim *ret_claim)
{
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;

	list_n2(f);
	register_csi(f, "db");
	connect_csi(f);
	take_backup(f, &backup);
	list_n2(f);
	connect_csi(f);
	take_csi(f, ret_claim, &ticket, &alloc);
	restore(f, &backup, 1);
	list_n2(f);
	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true, .needs_no_controller = true};
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	f->n2.csi = csi;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	report(f, &f->n2, 1, NULL, NULL, false);
	report_with(&f->n1, 1, &alloc, ret_claim, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	settle(f);
	fake_node_send_released(&f->n1, ret_claim);
}

CASE(an_adopted_claim_waits_for_its_detach_while_no_listed_node_has_the_plugin)
{
	struct claim claim;

	adopt_csi(f, (struct fake_csi){.has_node = false}, &claim); /* the plugin starts after its agent */
	expect_detached_when_n2_is_back(f);
}

CASE(an_adopted_claim_needs_no_detach_if_the_listed_node_says_so)
{
	struct claim claim;

	adopt_csi(f, (struct fake_csi){.has_node = true, .needs_no_controller = true}, &claim);
	UNTIL(f, state_claim(&f->server->state, claim.id)->claim.state == CLAIM_FREED);
}
