/* SPDX-License-Identifier: Apache-2.0 */
/* Detaching what a controller attached: when it is asked, for whom, and what holds it up. */

#include "cluster.h"
#include "unit.h"

#include "claim/release.h"
#include "state/keys.h"

#define ATTACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH
#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH

/* A second volume that the provider calls as db, under another context. */
static void name_twice(struct fixture *f, const char *id)
{
	Holdfast__V1__VolumeDetail__ContextEntry context = HOLDFAST__V1__VOLUME_DETAIL__CONTEXT_ENTRY__INIT;
	Holdfast__V1__VolumeDetail__ContextEntry *contexts[] = {&context};
	Holdfast__V1__VolumeDetail detail = V1(volume_detail, .context = contexts, .n_context = 1);
	struct volume volume = state_volume(&f->server->state, "default", "db")->volume;
	cleanup(change_release) struct change change = CHANGE_INIT;
	char key[OBJECT_KEY_SIZE];

	context.key = "zone";
	context.value = "z2";
	(void)str_copy(volume.id, sizeof(volume.id), id);
	(void)str_format(key, sizeof(key), PREFIX_VOLUME_DETAIL "default/%s", id);
	change_put_record(&change, key, &detail.base);
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

static struct claim_entry *entry_of(struct fixture *f, const char *alloc)
{
	return LIST_FIRST(&state_alloc(&f->server->state, alloc)->claims);
}

static void forget_delay(struct fixture *f, const char *alloc)
{
	struct claim_entry *entry = entry_of(f, alloc);

	assert_non_null(entry->work.timer); /* it would be tried again by itself */
	(void)sd_event_source_set_time_relative(entry->work.timer, 0);
}

/* By itself it would not be tried again in this test. */
static void postpone(struct fixture *f, const char *alloc)
{
	struct claim_entry *entry = entry_of(f, alloc);

	assert_non_null(entry->work.timer);
	(void)sd_event_source_set_time_relative(entry->work.timer, 3600 * USEC_PER_SEC);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_db, teardown_db)

CASE(the_volume_is_detached_after_the_receipt_and_then_free)
{
	struct claim claim;

	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	f->plugin.last_secret[0] = '\0';
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n2.n_held == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_string_equal(f->plugin.last_secret, "hunter2");
	fake_node_answer(&f->n2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.evidence, EVIDENCE_RECEIPT);
	assert_string_equal(claim.external_node_id, "i-n1");
	assert_int_equal(claim.access_mode, SINGLE_NODE_WRITER);
	assert_int_equal(claim.attachment_mode, ATTACHMENT_FILE_SYSTEM);
	assert_int_equal(f->plugin.n_attachments, 0);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

CASE(a_node_that_cannot_release_is_never_passed_over)
{
	struct claim claim;

	take_claim(f, &f->n1, "db", ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.releases >= 1);
	for (unsigned int i = 1; i <= 3; i++) {
		fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, "the mount is busy");
		UNTIL(f, claim_of(f, ALLOC_1).attempts == i);
		restart(f);
		connect_csi(f);
		UNTIL(f, f->n1.releases >= 1);
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
		assert_int_equal(claim_of(f, ALLOC_1).access_mode, SINGLE_NODE_WRITER);
		assert_string_equal(claim_of(f, ALLOC_1).last_error, "the mount is busy");
	}
	fake_node_disconnect(&f->n1);
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	assert_int_equal(f->plugin.n_attachments, 1);
}

/* Nomad's D2: modes and the provider's node id were lost on the way, and the controller passed over the node.
 */
CASE(without_its_plugin_a_node_is_waited_for_and_only_then_the_controller)
{
	static const char why[] = "plugin nfs is not here, so its mount cannot be taken away";
	struct claim claim;

	take_claim(f, &f->n1, "db", ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	f->n1.csi = (struct fake_csi){.has_node = false}; /* its plugin went first */
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.releases >= 1);
	for (unsigned int i = 1; i <= 3; i++) {
		int asked = f->n1.releases;

		fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, why);
		UNTIL(f, claim_of(f, ALLOC_1).attempts == i);
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
		assert_string_equal(claim_of(f, ALLOC_1).last_error, why);
		forget_delay(f, ALLOC_1); /* it is asked again by itself */
		UNTIL(f, f->n1.releases > asked);
	}
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.access_mode, SINGLE_NODE_WRITER);
	assert_int_equal(claim.attachment_mode, ATTACHMENT_FILE_SYSTEM);
	assert_string_equal(claim.external_node_id, "i-n1");
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	assert_int_equal(f->plugin.n_attachments, 0); /* from this node, as its provider calls it */
}

CASE(a_node_that_is_gone_does_not_keep_its_volumes_attached)
{
	struct error err;

	take_claim(f, &f->n1, "db", ALLOC_1);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0); /* no evidence yet */
	assert_succeeds(detach(f, "n1", "burnt down", &err), err);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_OPERATOR);
	assert_int_equal(f->plugin.n_attachments, 0);
}

CASE(a_new_boot_is_evidence_and_the_controller_detaches)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	assert_int_equal(f->plugin.n_attachments, 0);
}

CASE(detach_not_found_counts_once_the_node_has_released)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	f->plugin.n_attachments = 0; /* as it says */
}

CASE(a_failed_detach_is_explained_and_tried_again)
{
	struct release_stats stats;
	struct claim claim;

	take_claim(f, &f->n1, "db", ALLOC_1);
	/* that the plugin does not know it does not mean that it is detached */
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 2, STATUS_NOT_FOUND);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	forget_delay(f, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 2);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
	assert_string_equal(claim.last_error,
			    "plugin ebs on node n2: ControllerUnpublishVolume: the model says no");
	release_stats(f->server, &stats);
	assert_int_equal(stats.stuck, 1);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_FAILED_PRECONDITION);
	forget_delay(f, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	release_stats(f->server, &stats);
	assert_int_equal(stats.stuck, 0);
	assert_int_equal(stats.detaches, 3);
	assert_int_equal(stats.freed, 1);
	assert_int_equal(stats.swept_up, 0);
}

CASE(a_controller_that_comes_back_is_asked_at_once)
{
	for (int way = 0; way < 2; way++) {
		const char *alloc = way == 0 ? ALLOC_1 : ALLOC_2;

		take_claim(f, &f->n1, "db", alloc);
		if (way == 0) {
			f->n2.csi.controller_sick = true;
			fake_node_send_fingerprint(&f->n2);
		} else {
			fake_node_disconnect(&f->n2);
		}
		settle(f);
		release_claim(f, &f->n1, alloc);
		UNTIL(f, claim_of(f, alloc).attempts == 1);
		assert_non_null(strstr(claim_of(f, alloc).last_error, "plugin ebs"));
		forget_delay(f, alloc); /* trying in vain again is not worth a write */
		settle(f);
		assert_int_equal(claim_of(f, alloc).attempts, 1);
		postpone(f, alloc);
		f->n2.csi.controller_sick = false;
		if (way == 0)
			fake_node_send_fingerprint(&f->n2);
		else /* it says what it said before */
			fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
		UNTIL(f, state_of(f, alloc) == CLAIM_FREED);
	}
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

CASE(releases_continue_after_a_restart)
{
	struct release_stats stats;

	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n2.n_held == 1);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_string_equal(claim_of(f, ALLOC_1).last_error, ""); /* the end of the server is no failure */
	f->n2.plugin = &f->plugin;
	f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true};
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0); /* n1 is not needed */
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 2); /* a repeat is harmless */
	release_stats(f->server, &stats);
	assert_int_equal(stats.swept_up, 0);
}

/* --- several claims --- */

TEST_ON(the_last_claim_on_a_node_takes_the_attachment_with_it, struct fixture, f, setup_shared_db,
	teardown_db)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "db", ALLOC_2);
	take_claim(f, &f->n2, "db", ALLOC_3); /* the other node's has nothing to do with it */
	assert_int_equal(f->plugin.n_attachments, 2);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	release_claim(f, &f->n1, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
}

TEST_ON(claims_released_together_are_detached_together, struct fixture, f, setup_shared_db, teardown_db)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "db", ALLOC_2);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, f->n2.n_held == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_NODE_DETACHED);
	fake_node_answer(&f->n2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

TEST_ON(a_detach_frees_nothing_of_another_node, struct fixture, f, setup_shared_db, teardown_db)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_3);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 2, 0);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n2.n_held == 1);
	release_claim(f, &f->n2, ALLOC_3);
	assert_int_equal(state_of(f, ALLOC_3), CLAIM_NODE_DETACHED);
	fake_node_answer(&f->n2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	UNTIL(f, f->n2.n_held == 1); /* the other's own */
	assert_int_equal(state_of(f, ALLOC_3), CLAIM_NODE_DETACHED);
	fake_node_answer(&f->n2);
	UNTIL(f, state_of(f, ALLOC_3) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

TEST_ON(a_shared_attachment_is_detached_after_its_last_user, struct fixture, f, setup_shared_db, teardown_db)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	f->n2.csi.cannot_attach = true; /* as after another version of the plugin */
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	take_claim(f, &f->n1, "db", ALLOC_2);
	assert_int_equal(claim_of(f, ALLOC_2).attach, ATTACH_NONE);
	release_claim(f, &f->n1, ALLOC_1);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	release_claim(f, &f->n1, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

CASE(a_volume_is_never_detached_from_all_nodes)
{
	struct claim claim;
	cleanup(change_release) struct change change = CHANGE_INIT;

	take_claim(f, &f->n1, "db", ALLOC_1);
	f->n1.csi.hides_node_id = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	claim = claim_of(f, ALLOC_1); /* as one that was adopted from a node that does not know it */
	claim.external_node_id[0] = '\0';
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	assert_non_null(strstr(claim_of(f, ALLOC_1).last_error, "how the provider calls node n1"));
	assert_int_equal(f->plugin.calls[DETACH], 0);
	f->n1.csi.hides_node_id = false;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
}

static Holdfast__V1__Epoch new_epoch(uint64_t number)
{
	Holdfast__V1__Epoch epoch = V1(epoch, .number = number);

	return epoch;
}

CASE(after_a_restore_detaches_wait_for_the_nodes_reports)
{
	Holdfast__V1__Epoch epoch = new_epoch(1);
	cleanup(change_release) struct change change = CHANGE_INIT;

	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1, STATUS_INTERNAL);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	change_put_record(&change, KEY_EPOCH, &epoch.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	restart(f);
	connect_csi(f); /* without a report */
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_true(f->n1.reports_wanted > 0);
}

/* Somebody else's call has the turn of the plugin. */
static void block_turn(struct fixture *f)
{
	const char *source = f->source;

	register_csi(f, "other");
	f->source = "other";
	assert_int_equal(run_alloc(f, ALLOC_3, "n2", NULL), STATUS_OK);
	f->source = source;
	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
}

TEST_ON(a_queued_detach_is_dropped_when_the_volume_is_in_use_again, struct fixture, f, setup_shared_db,
	teardown_db)
{
	static struct asked other, again;

	other = again = (struct asked){0};
	take_claim(f, &f->n1, "db", ALLOC_1);
	block_turn(f);
	fake_node_start_claim(&f->n2, "other", ALLOC_3, asked_take, &other);
	UNTIL(f, f->n2.n_held == 1);
	release_claim(f, &f->n1, ALLOC_1); /* its detach waits */
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	fake_node_start_claim(&f->n1, "db", ALLOC_2, asked_take, &again);
	UNTIL(f, state_volume(&f->server->state, "default", "db")->n_live == 2);
	settle(f);
	fake_node_answer(&f->n2);
	UNTIL(f, again.answers == 1 && state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(again.status, STATUS_OK);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* The node must report again, as one that forgot what it had. */
static void doubt(struct fixture *f, const char *node_id, bool is_doubted)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct node node = state_node(&f->server->state, node_id)->node;

	node.report_wanted = is_doubted;
	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	assert_int_equal(state_node(&f->server->state, node_id)->is_unreported, is_doubted);
}

/* Its report may bring another claim of the volume. */
CASE(a_queued_detach_waits_for_a_node_that_must_report_again)
{
	static struct asked other;

	other = (struct asked){0};
	take_claim(f, &f->n1, "db", ALLOC_1);
	block_turn(f);
	fake_node_start_claim(&f->n2, "other", ALLOC_3, asked_take, &other);
	UNTIL(f, f->n2.n_held == 1);
	release_claim(f, &f->n1, ALLOC_1); /* its detach waits */
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_NODE_DETACHED);
	settle(f);
	doubt(f, "n1", true);
	fake_node_answer(&f->n2);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	assert_non_null(strstr(claim_of(f, ALLOC_1).last_error, "node n1 may hold it"));
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	doubt(f, "n1", false);
	forget_delay(f, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

TEST_ON(no_attach_is_sent_while_a_detach_may_be_running, struct fixture, f, setup_shared_db, teardown_db)
{
	struct error err;

	f->server->config.controller_timeout_us = 30 * USEC_PER_MSEC;
	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD, 1, 0);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n2.n_held == 1);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_2, NULL, &err), STATUS_ABORTED, err,
		     "being detached from node n1");
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1); /* no answer: it may still come */
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_2, NULL, &err), STATUS_ABORTED);
	restart(f); /* which knows still less */
	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true};
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_2, NULL, &err), STATUS_ABORTED);
	connect_csi(f);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_2, NULL, NULL), STATUS_OK);
}

CASE(a_stuck_volume_delays_no_other)
{
	register_csi(f, "wal");
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "wal", ALLOC_2);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1, STATUS_INTERNAL);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	release_claim(f, &f->n1, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(claim_of(f, ALLOC_1).attempts, 1);
}

CASE(the_sweep_resumes_missed_releases_and_counts_them)
{
	struct release_stats stats;
	struct claim_entry *entry;

	f->release_sweep_us = 20 * USEC_PER_MSEC;
	restart(f);
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1, STATUS_INTERNAL);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	run_for(f->event, 100); /* several sweeps find nothing */
	release_stats(f->server, &stats);
	assert_true(stats.sweeps > 1);
	assert_int_equal(stats.swept_up, 0);
	entry = entry_of(f, ALLOC_1); /* as if its timer had been lost, long ago */
	entry->work.timer = sd_event_source_disable_unref(entry->work.timer);
	entry->claim.modify_time_ms -= 2 * RELEASE_SWEEP_GRACE_MS;
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	release_stats(f->server, &stats);
	assert_int_equal(stats.swept_up, 1);
	assert_int_equal(metric_of(f, "release_swept_up_total"), 1);
}

static void count_durable(struct server *server, void *userdata)
{
	int *n = userdata;

	++*n;
}

CASE(every_claim_is_looked_at_by_a_sweep_however_many_there_are)
{
	enum { CLAIMS = 2 * RELEASE_SWEEP_SLICE + 1 };
	struct release_stats stats;
	int n_durable = 0;

	for (int i = 0; i < CLAIMS; i++) {
		struct claim claim = ROW(.namespace = "default", .volume_id = "db", .plugin_id = CSI_PLUGIN,
					 .node_id = "n1", .state = CLAIM_NODE_DETACHED, .modify_time_ms = 1);
		cleanup(change_release) struct change change = CHANGE_INIT;

		(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-8000-%012d", i);
		(void)str_format(claim.allocation_id, sizeof(claim.allocation_id),
				 "01890000-0000-7000-9000-%012d", i);
		change_put_claim(&change, &claim);
		assert_ok(change_commit(f->server, &change, count_durable, &n_durable, NULL));
	}
	assert_int_equal(f->server->state.n_claims, CLAIMS);
	UNTIL(f, n_durable == CLAIMS); /* what is on its way to the disk would be lost with its memory */
	restart(f);
	UNTIL(f, f->server->state.n_claims == 0);
	release_stats(f->server, &stats);
	assert_int_equal(stats.swept_up, 0); /* resumed */
}

CASE(a_detach_waits_for_the_last_claim_under_any_name_of_the_providers_volume)
{
	name_twice(f, "db2");
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "db2", ALLOC_2);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED); /* the other one takes care of the attachment */
	settle(f);
	assert_int_equal(f->plugin.calls[DETACH], 0);
	release_claim(f, &f->n1, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

/* The claim of n2, whose detach the provider refuses from now on. n1 runs no controller; the next try by
 * itself is not in this test. */
static void get_stuck(struct fixture *f)
{
	f->n1.csi.has_controller = false;
	take_claim(f, &f->n2, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 1000, STATUS_UNAVAILABLE);
	release_claim(f, &f->n2, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	run_idle(f->event);
	postpone(f, ALLOC_1);
}

/* Any node can report any number of changes. */
CASE(a_report_without_a_controller_repeats_no_detach_that_failed)
{
	get_stuck(f);
	for (int i = 0; i < 20; i++) {
		f->n1.csi.node_sick = i % 2 == 0;
		f->n1.csi.has_node = i % 5 != 0;
		fake_node_send_fingerprint(&f->n1);
		run_idle(f->event);
	}
	assert_int_equal(f->plugin.calls[DETACH], 1);
	f->n2.csi.node_sick = true; /* it has the controller */
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 2);
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

CASE(a_node_that_connects_again_without_a_controller_repeats_no_detach_that_failed)
{
	get_stuck(f);
	f->n1.csi.has_controller = true;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 2);
	run_idle(f->event);
	postpone(f, ALLOC_1);
	f->n2.csi.has_controller = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	for (int i = 0; i < 20; i++) {
		fake_node_disconnect(&f->n2);
		run_idle(f->event);
		fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
		run_idle(f->event);
	}
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

/* The report may be of what was missing, such as the provider's id of a node. */
CASE(a_detach_that_was_not_called_is_tried_at_any_report_of_the_plugin)
{
	struct release_stats before, after;

	f->n1.csi.has_controller = f->n2.csi.has_controller = false;
	take_claim(f, &f->n2, "db", ALLOC_1);
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	release_claim(f, &f->n2, ALLOC_1);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	run_idle(f->event);
	postpone(f, ALLOC_1);
	release_stats(f->server, &before);
	f->n1.csi.node_sick = true;
	fake_node_send_fingerprint(&f->n1);
	run_idle(f->event);
	release_stats(f->server, &after);
	assert_int_equal(after.detach_errors, before.detach_errors + 1);
	assert_int_equal(f->plugin.calls[DETACH], 0);
}
