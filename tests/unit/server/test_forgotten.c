/* SPDX-License-Identifier: Apache-2.0 */
/* A node has a volume mounted that the restored store lacks, or has with other storage. */

#include "asks.h"
#include "forgotten.h"
#include "lines.h"
#include "restored.h"
#include "submission.h"
#include "unit.h"

#include "base/clock.h"
#include "state/keys.h"
#include "state/storage_index.h"
#include "ticket/ticket.h"
#include "volume/store.h"
#include "volume/work.h"

/* --- the storage of a claim whose volume the store does not know --- */

CLUSTER_TEST(the_mount_of_a_forgotten_volume_holds_its_storage_under_each_name)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	assert_null(state_volume(&f->server->state, "default", "db"));
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
	assert_error(register_other(f, "vol-db", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db in namespace default");
	register_csi(f, "db"); /* registered again, the claim is on it */
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "db")), 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* Changed in place after the backup, with the share that another volume had until then. */
static void forget_zone(struct fixture *f, struct alloc *alloc, struct claim *held, struct ticket *ticket)
{
	store_zone(f, "also", "z1", false);
	store_zone(f, "db", "z0", false);
	forget_csi(f, alloc, held, ticket);
	assert_int_equal(strlen(held->context_digest), CONTEXT_DIGEST_SIZE - 1);
}

CLUSTER_TEST(the_mount_of_another_context_holds_each_volume_of_its_id)
{
	const struct volume *db;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_zone(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	db = &state_volume(&f->server->state, "default", "db")->volume;
	assert_true(volume_is_placeholder(db));
	assert_string_equal(db->external_id, "vol-db");
	assert_string_equal(claim_of(f, ALLOC_1).context_digest, held.context_digest);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 1);
}

CLUSTER_TEST(a_report_moves_no_name_from_a_context_that_was_granted_since)
{
	const struct volume_entry *db;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held, claim;

	forget_zone(f, &alloc, &held, &ticket);
	grant_since(f);
	report_n1(f, &alloc, &held, &ticket);
	db = state_volume(&f->server->state, "default", "db");
	assert_false(volume_is_placeholder(&db->volume));
	claim = claim_of(f, ALLOC_1);
	assert_false(claim_is_on_storage(&claim, &db->volume));
	claim = claim_of(f, ALLOC_2);
	assert_true(claim_is_on_storage(&claim, &db->volume));
}

CLUSTER_TEST(a_forgotten_volume_is_registered_with_the_context_of_its_mount)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_error(register_zone(f, "db", "vol-db", "z2", &err), STATUS_FAILED_PRECONDITION, err,
		     "context: volume db is held by allocation");
	assert_error(ask_csi(f, "Volumes.Register", "db", "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "with another context"); /* its further claims would get no ticket */
	assert_error(register_zone(f, "more", "vol-db", "z1", &err), STATUS_ALREADY_EXISTS, err, "volume db");
	assert_succeeds(register_zone(f, "more", "vol-db", "z2", &err), err); /* another share, surely */
	assert_ok(register_zone(f, "db", "vol-db", "z1", &err));
	held = claim_of(f, ALLOC_1);
	assert_true(claim_is_on_storage(&held, &state_volume(&f->server->state, "default", "db")->volume));
	assert_string_equal(held.external_id, "vol-db");
}

CLUSTER_TEST(a_hidden_id_without_context_keeps_its_shares_from_other_names)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	held.context_digest[0] = '\0';
	ticket = ticket_of(f, &held);
	(void)str_copy(held.external_id, sizeof(held.external_id), "junk");
	report_forgotten(f, &alloc, &held, &ticket);
	assert_error(register_zone(f, "more", "vol-db", "z1", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_ok(register_zone(f, "more", "vol-more", "z1", &err));
}

CLUSTER_TEST(a_ticket_names_the_context_too)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	held.context_digest[0] = '\0';
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "");
	held = claim_of(f, ALLOC_1);
	assert_true(held.storage_digest);
	register_csi(f, "db"); /* as the ticket names it */
	assert_true(claim_is_on_storage(&held, &state_volume(&f->server->state, "default", "db")->volume));
}

static void store_secret_of_db(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeSecrets__SecretsEntry secret = HOLDFAST__V1__VOLUME_SECRETS__SECRETS_ENTRY__INIT;
	Holdfast__V1__VolumeSecrets__SecretsEntry *entries[] = {&secret};
	const Holdfast__V1__VolumeSecrets secrets = V1(volume_secrets, .secrets = entries, .n_secrets = 1);

	secret.key = TEXT("key");
	secret.value = TEXT("hunter2");
	change_put_record(&change, PREFIX_VOLUME_SECRETS "default/db", &secrets.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

/* The backup has db with another storage, in that phase. */
static void forget_that_db_is_new_in(struct fixture *f, Holdfast__V1__VolumePhase phase, struct alloc *alloc,
				     struct claim *held, struct ticket *ticket)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__V1__VolumeDetail detail = V1(volume_detail, .phase = phase);

	store_old_db(f);
	store_secret_of_db(f);
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	forget_csi(f, alloc, held, ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
}

/* It was about to be deleted. */
static void forget_that_db_is_new(struct fixture *f, struct alloc *alloc, struct claim *held,
				  struct ticket *ticket)
{
	forget_that_db_is_new_in(f, HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING, alloc, held, ticket);
}

CLUSTER_TEST(the_mount_of_a_volume_that_was_registered_again_holds_the_new_storage)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
	assert_null(records_get(&f->server->state.records, PREFIX_VOLUME_DETAIL "default/db"));
	assert_null(records_get(&f->server->state.records, PREFIX_VOLUME_SECRETS "default/db"));
	assert_error(register_other(f, "vol-db", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db in namespace default");
	assert_int_not_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* The backup has db as a disk. */
CLUSTER_TEST(a_mount_of_another_plugin_replaces_the_registration)
{
	const struct volume_entry *volume;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	int64_t create_time_ms;

	assert_ok(register_volume(f, &f->operator, NULL));
	create_time_ms = state_volume(&f->server->state, "default", "db")->volume.create_time_ms;
	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	volume = state_volume(&f->server->state, "default", "db");
	assert_int_equal(volume->volume.type, VOLUME_CSI);
	assert_string_equal(volume->plugin->id, CSI_PLUGIN);
	assert_string_equal(volume->volume.external_id, "vol-db");
	assert_int_equal(volume->volume.create_time_ms, create_time_ms); /* its history stays its own */
	register_csi(f, "db");
	assert_int_equal(deregister_volume(f, NULL), STATUS_FAILED_PRECONDITION);
}

CLUSTER_TEST(an_adopted_claim_that_is_freed_is_history_of_its_volume)
{
	cleanup(freed_list_release) struct freed_list shown = {NULL, 0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, stored_history_of_db(f) == 1);
	settle(f);
	shown = history_of_db(f);
	assert_int_equal(shown.n, 1);
}

/* n1 does not connect between the two restores. */
CLUSTER_TEST(a_mount_names_its_storage_also_after_a_second_restore)
{
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	take_backup(f, &backup);
	restore(f, &backup, 2);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
}

/* n1 has released it, and its device may still be attached. */
CLUSTER_TEST(the_device_of_a_volume_that_was_registered_again_is_detached)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	held.state = CLAIM_NODE_DETACHED;
	report_forgotten(f, &alloc, &held, &ticket);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* The backup has a claim on the storage that db had before. */
static void forget_second_db(struct fixture *f, struct alloc *alloc, struct claim *held,
			     struct ticket *ticket)
{
	struct backup backup = {0};

	store_old_db(f);
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_backup(f, &backup);
	connect_csi(f);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	register_csi(f, "db");
	take_claim(f, &f->n1, "db", ALLOC_2);
	*alloc = alloc_of(f, ALLOC_2);
	*held = claim_of(f, ALLOC_2);
	*ticket = ticket_of(f, held);
	restore(f, &backup, 1);
	run_csi(f);
}

CLUSTER_TEST(a_claim_on_the_storage_that_a_volume_had_before_is_detached_by_itself)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;
	unsigned int n;

	forget_second_db(f, &alloc, &held, &ticket);
	n = f->plugin.calls[DETACH];
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, true);
	UNTIL(f, state_claim(&f->server->state, held.id) != NULL);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_error(register_other(f, "vol-old", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	register_csi(f, "db");
	assert_error(register_other(f, "vol-old", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], n + 1);
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* Its node still has both. */
CLUSTER_TEST(a_claim_on_the_storage_that_a_volume_has_now_is_detached_by_itself)
{
	struct claim held, before;
	struct ticket ticket;
	struct alloc alloc, other;

	forget_second_db(f, &alloc, &held, &ticket);
	before = claim_of(f, ALLOC_1);
	other = alloc_of(f, ALLOC_1);
	report_nothing(f);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, true);
	report(f, &f->n1, 1, &other, &before, false);
	UNTIL(f, has_reported(f, "n1"));
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* A second name of the storage that db has in the backup. */
static void store_second_name(struct fixture *f)
{
	struct volume second = state_volume(&f->server->state, "default", "db")->volume;

	(void)str_copy(second.id, sizeof(second.id), "second");
	store_volume(f, &second);
}

CLUSTER_TEST(a_claim_on_a_storage_of_two_names_counts_for_both_after_a_younger_ticket)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_second_db(f, &alloc, &held, &ticket);
	store_second_name(f);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, true);
	UNTIL(f, state_claim(&f->server->state, held.id) != NULL);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_true(storage_n_live(state_volume(&f->server->state, "default", "second")) > 0);
}

static void report_forgotten_after_a_grant(struct fixture *f, bool is_back_in_another_boot)
{
	const struct volume *volume;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	store_old_db(f);
	store_secret_of_db(f);
	forget_csi(f, &alloc, &held, &ticket);
	grant_since(f);
	held.state = is_back_in_another_boot ? CLAIM_NODE_DETACHED : held.state;
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", is_back_in_another_boot ? BOOT_2 : BOOT_1, NULL, 0);
	report_with(&f->n1, 1, is_back_in_another_boot ? NULL : &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	volume = &state_volume(&f->server->state, "default", "db")->volume;
	assert_string_equal(volume->external_id, "vol-old");
	assert_false(volume_is_placeholder(volume));
	assert_non_null(records_get(&f->server->state.records, PREFIX_VOLUME_SECRETS "default/db"));
	assert_error(register_other(f, "vol-old", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db in namespace default");
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	if (is_back_in_another_boot)
		UNTIL(f, !model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	else
		assert_string_equal(claim_of(f, ALLOC_1).external_id, "vol-db");
}

CLUSTER_TEST(a_report_moves_no_name_from_a_claim_that_was_granted_since)
{
	report_forgotten_after_a_grant(f, false);
}

CLUSTER_TEST(a_report_of_a_past_claim_moves_no_name_from_a_claim_that_was_granted_since)
{
	report_forgotten_after_a_grant(f, true);
}

/* It may be of a storage that the volume had before. */
CLUSTER_TEST(an_old_ticket_changes_no_registration)
{
	struct volume old;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	old = state_volume(&f->server->state, "default", "db")->volume;
	old.newer_from = held.generation + 1;
	store_volume(f, &old);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_false(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* n1 may have what the provider made by this name, also by another one. */
CLUSTER_TEST(a_creation_waits_for_the_reports_of_all_nodes)
{
	uint64_t since_us;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new_in(f, HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING, &alloc, &held, &ticket);
	f->n2.csi.can_create_delete = true;
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_HOLD, 1, 0);
	report_nothing(f);
	unit_clock_advance(600 * USEC_PER_SEC);
	settle(f);
	assert_int_equal(f->n2.n_held, 0);
	assert_int_equal(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL), STATUS_OK);
	unit_clock_advance(600 * USEC_PER_SEC);
	settle(f);
	assert_int_equal(f->n2.n_held, 0);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	since_us = clock_monotonic_us();
	UNTIL(f, f->n2.n_held == 1);
	assert_in_range(clock_monotonic_us() - since_us, 0, USEC_PER_SEC); /* not at its next try */
	fake_node_answer(&f->n2);
	settle(f);
}

CLUSTER_TEST(a_stored_node_wakes_no_creation_that_waits_for_a_missing_one)
{
	const Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	Holdfast__V1__NodeCount count = HOLDFAST__V1__NODE_COUNT__INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	static struct lines lines;
	size_t n;

	count.registered = 2;
	count.missing = 1;
	connect_csi(f);
	store_old_db(f);
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	change_put_record(&change, KEY_NODE_COUNT, &count.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	settle(f);
	lines_begin(&lines);
	volume_work_start(f->server, "default", "db", NULL, NULL);
	settle(f);
	for (int i = 0; i < 20; i++) {
		cleanup(change_release) struct change again = CHANGE_INIT;

		change_put_node(&again, &state_node(&f->server->state, "n2")->node);
		assert_ok(change_commit(f->server, &again, NULL, NULL, NULL));
		settle(f);
	}
	lines_end(&lines);
	n = lines_with(&lines, "not done, to be tried again");
	assert_in_range(n, 1, 10); /* those of its timer */
}

CLUSTER_TEST(a_creation_goes_on_when_the_missing_ones_are_purged)
{
	const Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	Holdfast__V1__NodeCount count = HOLDFAST__V1__NODE_COUNT__INIT;
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__V1__PurgeNodeRequest request =
		V1(purge_node_request, .unknown = true, .reason = TEXT("gone"));
	struct error err = {.msg = ""};
	uint64_t since_us;

	count.registered = 2;
	count.missing = 1;
	connect_csi(f);
	f->n2.csi.can_create_delete = true;
	connect_node(&f->n2, "n2");
	store_old_db(f);
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	change_put_record(&change, KEY_NODE_COUNT, &count.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_HOLD, 1, 0);
	volume_work_start(f->server, "default", "db", NULL, NULL);
	for (int i = 0; i < 12; i++) {
		unit_clock_advance(600 * USEC_PER_SEC);
		settle(f);
	}
	connect_node(&f->n2, "n2");
	settle(f);
	assert_int_equal(f->n2.n_held, 0);
	assert_succeeds(
		call(&f->operator, & holdfast__v1__nodes__descriptor, "Purge", &request.base, NULL, &err),
		err);
	since_us = clock_monotonic_us();
	UNTIL(f, f->n2.n_held == 1);
	assert_in_range(clock_monotonic_us() - since_us, 0, 2 * USEC_PER_SEC);
}

/* Its answer would be stored with the placeholder. */
CLUSTER_TEST(a_report_replaces_no_volume_that_its_provider_works_on)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	state_volume(&f->server->state, "default", "db")->is_asked = true;
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAVAILABLE);
	assert_false(has_reported(f, "n1"));
	state_volume(&f->server->state, "default", "db")->is_asked = false;
	report_n1(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
}

/* n1 has reported that it holds nothing. */
CLUSTER_TEST(a_ticket_that_is_shown_later_changes_no_registration)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	provoke_report(f, &f->n1);
	report_with(&f->n1, 1, NULL, &held, &ticket, false);
	UNTIL(f, state_claim(&f->server->state, held.id) != NULL);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_string_equal(state_claim(&f->server->state, held.id)->claim.external_id, "vol-db");
}

/* A native volume is released without a detach, and its name cannot be a csi volume's. */
CLUSTER_TEST(the_ticket_of_a_csi_volume_proves_no_native_claim)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	(void)str_copy(held.plugin_id, sizeof(held.plugin_id), PLUGIN_NATIVE);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.type, VOLUME_CSI);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-db");
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* Its plugin has not connected since the restore, and n1 names another id. */
CLUSTER_TEST(the_ticket_of_a_csi_volume_proves_no_native_claim_of_an_unknown_plugin)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_csi(f, &alloc, &held, &ticket);
	f->n1.csi = f->n2.csi = (struct fake_csi){0};
	(void)str_copy(held.plugin_id, sizeof(held.plugin_id), PLUGIN_NATIVE);
	(void)str_copy(held.external_id, sizeof(held.external_id), "junk");
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.plugin_id, CSI_PLUGIN);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "");
	run_csi(f);
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_error(register_other(f, "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	/* without a context it may be as well */
	assert_error(register_other(f, "vol-more", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_error(register_zone(f, "more", "vol-db", "z1", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_ok(register_zone(f, "more", "vol-more", "z1", &err));
	fake_node_send_released(&f->n1, &held);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	register_csi(f, "db");
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* n1 names another id than its ticket, and the backup has db with another one, too. */
CLUSTER_TEST(a_device_whose_id_its_node_hides_is_not_taken_as_detached)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;
	unsigned int n;

	forget_that_db_is_new(f, &alloc, &held, &ticket);
	n = f->plugin.calls[DETACH];
	(void)str_copy(held.external_id, sizeof(held.external_id), "junk");
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-old");
	assert_error(register_other(f, "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	fake_node_send_released(&f->n1, &held);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_int_equal(f->plugin.calls[DETACH], n);
}

/* db is registered with another plugin, and n1 has an older ticket. */
CLUSTER_TEST(a_plugin_gets_no_secrets_of_another_plugins_volume)
{
	struct volume db = ROW(.namespace = "default", .id = "db", .type = VOLUME_CSI, .plugin_id = "xyz",
			       .external_id = "vol-xyz", .newer_from = 100,
			       .capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
			       .n_capabilities = 1, .create_time_ms = 1, .modify_time_ms = 1);
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	store_volume(f, &db);
	store_secret_of_db(f);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_string_equal(f->plugin.last_secret, "hunter2"); /* of the attach, before the restore */
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_string_equal(f->plugin.last_secret, "");
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

/* --- two tickets of one volume --- */

/* Makes a claim of n2 on db, from that of n1. */
static void make_rival(const struct claim *held, uint64_t generation, struct claim *ret)
{
	*ret = *held;
	ret->generation = generation;
	(void)str_copy(ret->id, sizeof(ret->id), INVENTED);
	(void)str_copy(ret->allocation_id, sizeof(ret->allocation_id), ALLOC_2);
	(void)str_copy(ret->node_id, sizeof(ret->node_id), "n2");
}

static void report_both(struct fixture *f, bool n1_first, const struct claim *held,
			const struct ticket *ticket, const struct claim *rival, const struct ticket *rivals)
{
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	if (n1_first)
		report_with(&f->n1, 1, NULL, held, ticket, false);
	UNTIL(f, has_reported(f, "n1") == n1_first);
	report_with(&f->n2, 1, NULL, rival, rivals, false);
	UNTIL(f, has_reported(f, "n2"));
	if (!n1_first)
		report_with(&f->n1, 1, NULL, held, ticket, false);
	UNTIL(f, has_reported(f, "n1"));
}

static void prove_disks(struct fixture *f, bool n1_first)
{
	struct volume volume = {.type = VOLUME_NATIVE,
				.id = "db",
				.namespace = "default",
				.generation = 1,
				.source = {.class = SOURCE_BLOCK, .by_id = "wwn-0x9"}};
	struct ticket ticket, rivals;
	struct claim held, rival;
	struct alloc alloc;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	make_rival(&held, 1, &rival);
	memcpy(volume.profile, held.profile, sizeof(volume.profile));
	assert_ok(ticket_issue(f->server->issuer, &rival, &volume, 1, &rivals, NULL));
	held.generation = 5;
	ticket = ticket_of(f, &held);
	report_both(f, n1_first, &held, &ticket, &rival, &rivals);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x9", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_error(register_disk(f, &f->operator, "db", "wwn-0x9", &err), STATUS_FAILED_PRECONDITION, err,
		     "source: volume db is registered with another one");
	assert_ok(register_volume(f, &f->operator, & err)); /* on wwn-0x1 */
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x9", &err), STATUS_FAILED_PRECONDITION,
		     err, "with a claim from a node's report");
	assert_ok(register_disk(f, &f->operator, "other", "wwn-0x2", &err));
}

CLUSTER_TEST(the_youngest_ticket_names_the_storage_if_it_comes_first)
{
	prove_disks(f, true);
}

CLUSTER_TEST(the_youngest_ticket_names_the_storage_if_it_comes_last)
{
	prove_disks(f, false);
}

/* n2 has a younger ticket for another storage. */
CLUSTER_TEST(a_claim_is_detached_from_the_storage_of_its_own_ticket)
{
	struct ticket ticket, rivals;
	struct claim held, rival;
	struct alloc alloc;

	forget_csi(f, &alloc, &held, &ticket);
	make_rival(&held, 5, &rival);
	(void)str_copy(rival.external_id, sizeof(rival.external_id), "vol-new");
	rivals = ticket_of(f, &rival);
	report_both(f, false, &held, &ticket, &rival, &rivals);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "vol-new");
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

static void on_created(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	enum status *ret = userdata;

	*ret = status;
}

/* Somebody makes the volume again that the restored store lacks, and its provider refuses that. */
CLUSTER_TEST(a_claim_that_a_node_reports_outlives_a_creation_that_its_provider_refuses)
{
	Holdfast__V1__Capability capability =
		V1(capability, .access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER,
		   .attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM);
	Holdfast__V1__Capability *capabilities[] = {&capability};
	Holdfast__V1__Volume spec =
		V1(volume, .id = "db", .type = HOLDFAST__V1__VOLUME_TYPE__CSI, .plugin_id = TEXT(CSI_PLUGIN),
		   .requested_capabilities = capabilities, .n_requested_capabilities = 1);
	Holdfast__V1__CreateVolumeRequest request = V1(create_volume_request, .volume = &spec);
	enum status status = STATUS_N;
	const struct volume_entry *db;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	f->n2.csi.can_create_delete = true;
	report_nothing(f);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_HOLD, 1, 0);
	assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__volumes__descriptor, "Create",
				  &request.base, 60 * USEC_PER_SEC, on_created, &status, NULL, NULL));
	UNTIL(f, f->n2.n_held == 1);
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE, MODEL_FAIL, 9,
			   STATUS_ALREADY_EXISTS);
	report_n1(f, &alloc, &held, &ticket);
	f->n2.held[0]->code = STATUS_ALREADY_EXISTS;
	fake_node_answer(&f->n2);
	UNTIL(f, status != STATUS_N);
	assert_int_equal(status, STATUS_ALREADY_EXISTS);
	settle(f);
	db = state_volume(&f->server->state, "default", "db");
	assert_int_equal(db->n_live, 1);
	assert_contains(volume_detail_of(f->server, &db->volume)->phase_error, "CreateVolume");
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_FAILED_PRECONDITION);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	UNTIL(f, !state_volume(&f->server->state, "default", "db")); /* now it is forgotten */
}

/* Tickets prove nothing: the node's word keeps others from registering the same, and names nothing. */
CLUSTER_TEST(a_believed_mount_delays_a_registration_of_its_storage)
{
	struct alloc alloc;
	struct claim held;
	struct error err;

	believe_csi(f, &alloc, &held);
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "");
	assert_error(register_other(f, "vol-db", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
}

CLUSTER_TEST(a_believed_mount_holds_its_storage_under_each_name)
{
	struct alloc alloc;
	struct claim held;

	store_zone(f, "also", "z1", false);
	deregister(f, "db");
	believe_csi(f, &alloc, &held);
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "default", "also")), 1);
}

/* As a_believed_mount_holds_its_storage_under_each_name, but the backup has db as another storage. */
CLUSTER_TEST(a_believed_mount_holds_its_storage_also_if_its_name_had_another)
{
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};

	store_zone(f, "also", "z1", false); /* and db as vol-old */
	believe_csi(f, &alloc, &held);
	f->source = "also";
	assert_true(run_alloc(f, ALLOC_2, "n2", &err) != STATUS_OK ||
		    fake_node_claim(&f->n2, "also", ALLOC_2, NULL, &err) != STATUS_OK);
}

/* The same with disks, which only tickets name. */
CLUSTER_TEST(a_believed_mount_of_a_disk_holds_the_volumes_of_its_profile)
{
	struct backup backup = {0};
	struct ticket ticket;
	struct volume volume;
	struct alloc alloc;
	struct claim held;
	struct error err = {.msg = ""};

	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", NULL));
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	deregister(f, "more");
	assert_succeeds(register_disk(f, &f->operator, "db", "wwn-0x2", &err), err);
	take_claim(f, &f->n1, "db", ALLOC_1);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	assert_ok(ticket_issue(f->server->issuer, &held, &volume, 1, &ticket, NULL));
	restore(f, &backup, 1);
	restart_with(f, make_another_key);
	report_forgotten(f, &alloc, &held, &ticket);
	f->source = "more";
	assert_true(run_alloc(f, ALLOC_2, "n2", &err) != STATUS_OK ||
		    fake_node_claim(&f->n2, "more", ALLOC_2, NULL, &err) != STATUS_OK);
}

/* --- native storage --- */

/* n1 has db, on disk wwn-0x1, which was registered after the backup. */
CLUSTER_TEST(the_mount_of_a_forgotten_disk_holds_that_disk)
{
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	report_that_n1_has_it(f, &alloc, &held);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", &err));
	assert_error(register_disk(f, &f->operator, "db", "wwn-0x3", &err), STATUS_FAILED_PRECONDITION, err,
		     "source: volume db is registered with another one");
	assert_ok(register_volume(f, &f->operator, & err));
	assert_string_equal(state_volume(&f->server->state, "default", "db")->volume.external_id, "db");
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* The backup has db on disk wwn-0x1; afterwards it was wwn-0x2, by @ret_ticket, and n1 had that. */
static void forget_second_disk(struct fixture *f, bool is_in_use, struct alloc *alloc, struct claim *held,
			       struct ticket *ret_ticket)
{
	struct backup backup = {0};
	struct volume volume;

	assert_ok(register_volume(f, &f->operator, NULL));
	connect_both(f);
	if (is_in_use)
		take_claim(f, &f->n2, "db", ALLOC_2);
	take_backup(f, &backup);
	connect_both(f);
	if (is_in_use) {
		release_claim(f, &f->n2, ALLOC_2);
		UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	}
	deregister(f, "db");
	if (state_volume(&f->server->state, "default", "more"))
		deregister(f, "more");
	assert_ok(register_disk(f, &f->operator, "db", "wwn-0x2", NULL));
	take_claim(f, &f->n1, "db", ALLOC_1);
	*alloc = alloc_of(f, ALLOC_1);
	*held = claim_of(f, ALLOC_1);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	restore(f, &backup, 1);
	assert_ok(ticket_issue(f->server->issuer, held, &volume, 1, ret_ticket, NULL));
}

/* The backup has that disk as volume more. */
CLUSTER_TEST(the_mount_of_a_disk_by_a_new_name_holds_it_by_its_former_one)
{
	struct volume_entry *more;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", NULL));
	forget_second_disk(f, false, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_true(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	more = state_volume(&f->server->state, "default", "more");
	assert_int_equal(storage_n_live(more), 1);
	f->source = "more";
	assert_error(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION, err, "volume more");
	assert_non_null(strstr(err.msg, "node n1"));
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED && storage_n_live(more) == 0);
	take_claim(f, &f->n2, "more", ALLOC_2);
}

/* The backup has as volume more the storage that db had afterwards, and db on vol-old, or not at all. */
static void report_storage_of_more(struct fixture *f, const char *zone, bool has_db, bool is_hidden)
{
	struct volume_entry *more;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	store_zone(f, "more", zone, !str_eq(zone, "z1"));
	if (!has_db)
		deregister(f, "db");
	forget_csi(f, &alloc, &held, &ticket);
	if (has_db) {
		grant_since(f);
	} else {
		connect_node(&f->n2, "n2");
		report(f, &f->n2, 1, NULL, NULL, false);
	}
	if (is_hidden)
		held.external_id[0] = '\0';
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	more = state_volume(&f->server->state, "default", "more");
	assert_int_equal(storage_n_live(more), 1);
	f->source = "more";
	assert_error(run_alloc(f, ALLOC_3, "n2", &err), STATUS_FAILED_PRECONDITION, err, "node n1");
}

CLUSTER_TEST(the_mount_of_a_csi_volume_by_a_new_name_holds_it_by_its_former_one)
{
	report_storage_of_more(f, "z1", false, true);
}

CLUSTER_TEST(a_claim_on_another_storage_than_its_volumes_holds_it_by_its_name)
{
	report_storage_of_more(f, "z1", true, false);
}

CLUSTER_TEST(a_claim_of_a_hidden_id_on_another_storage_than_its_volumes_holds_it_by_its_name)
{
	report_storage_of_more(f, "z1", true, true);
}

CLUSTER_TEST(a_claim_by_another_context_holds_a_volume_that_its_provider_made)
{
	report_storage_of_more(f, "z0", true, false);
}

CLUSTER_TEST(a_report_moves_no_name_from_a_disk_that_was_granted_since)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_second_disk(f, false, &alloc, &held, &ticket);
	grant_since(f);
	report_n1(f, &alloc, &held, &ticket);
	assert_false(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_ALREADY_EXISTS, err,
		     "volume db");
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x2", &err), STATUS_FAILED_PRECONDITION,
		     err, "with a claim from a node's report");
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* n2 has not denied it yet. */
CLUSTER_TEST(a_claim_of_the_backup_names_the_disk_that_its_volume_had)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_second_disk(f, true, &alloc, &held, &ticket);
	report_n1(f, &alloc, &held, &ticket);
	assert_true(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_ok(register_disk(f, &f->operator, "db", "wwn-0x2", &err));
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	assert_ok(register_disk(f, &f->operator, "other", "wwn-0x3", &err));
}

/* Earlier versions did so. */
CLUSTER_TEST(a_claim_that_names_no_disk_keeps_its_volumes_name)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held, old;

	forget_second_disk(f, true, &alloc, &held, &ticket);
	old = claim_of(f, ALLOC_2);
	(void)str_copy(old.external_id, sizeof(old.external_id), "db");
	store_claim(f, &old);
	report_n1(f, &alloc, &held, &ticket);
	assert_false(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
}

/* n2 reports a csi plugin whose name is the profile of the disk. */
CLUSTER_TEST(the_ticket_of_a_disk_proves_no_csi_claim)
{
	Holdfast__V1__NodeHalf half = V1(node_half, .provider_node_id = TEXT("x"));
	Holdfast__V1__NodePlugin plugin =
		V1(node_plugin, .plugin_id = TEXT("disk"), .healthy = true, .node = &half);
	Holdfast__V1__NodePlugin *plugins[] = {&plugin};
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	f->n2.plugins = plugins;
	f->n2.n_plugins = 1;
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	assert_non_null(state_plugin(&f->server->state, held.profile));
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.type, VOLUME_NATIVE);
	assert_error(register_disk(f, &f->operator, "other", "wwn-0x1", &err), STATUS_FAILED_PRECONDITION,
		     err, "may be this storage");
	f->n2.n_plugins = 0;
}

CLUSTER_TEST(a_believed_mount_delays_registrations_of_its_profile)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	ticket = ticket_of(f, &held);
	restart_with(f, make_another_key);
	report_forgotten(f, &alloc, &held, &ticket);
	assert_error(register_disk(f, &f->operator, "more", "wwn-0x2", &err), STATUS_FAILED_PRECONDITION, err,
		     "may be this storage");
	assert_ok(register_volume(f, &f->operator, & err));
	assert_ok(register_disk(f, &f->operator, "more", "wwn-0x2", &err));
}

/* The backup was made while the controller attached db for n1, which got the volume then.
 * @ttl_us: of reservations since the restore. */
static void forget_that_it_was_sent(struct fixture *f, uint64_t ttl_us, struct alloc *alloc,
				    struct claim *held, struct ticket *ticket)
{
	struct backup backup = {0};
	struct claim sent;

	register_csi(f, "db");
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	*alloc = alloc_of(f, ALLOC_1);
	*held = claim_of(f, ALLOC_1);
	*ticket = ticket_of(f, held);
	sent = *held;
	sent.state = CLAIM_RESERVED; /* as the_reservation_is_durable_before_the_controller_is_asked */
	sent.sent_to_node = false;
	sent.attach = ATTACH_ASKED;
	store_claim(f, &sent);
	take_backup(f, &backup);
	f->reservation_ttl_us = ttl_us;
	restore(f, &backup, 1);
	run_csi(f);
	settle(f);
}

CLUSTER_TEST(a_claim_that_was_sent_after_the_backup_waits_for_its_nodes_report)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_it_was_sent(f, USEC_PER_MSEC, &alloc, &held, &ticket);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED);
	report_n1(f, &alloc, &held, &ticket);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_false(claim_of(f, ALLOC_1).was_freed);
	assert_int_equal(f->n1.releases, 0);
	report_nothing(f);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

CLUSTER_TEST(the_end_of_its_work_does_not_free_a_claim_that_was_sent_after_the_backup)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_it_was_sent(f, f->reservation_ttl_us, &alloc, &held, &ticket);
	connect_node(&f->n1, "n1");
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, state_of(f, ALLOC_1) != CLAIM_RESERVED);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NONE);
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_false(claim_of(f, ALLOC_1).was_freed);
}

CLUSTER_TEST(a_claim_of_the_backup_that_its_node_does_not_report_ends)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_it_was_sent(f, USEC_PER_MSEC, &alloc, &held, &ticket);
	report_nothing(f);
	report_n1(f, NULL, NULL, NULL);
	UNTIL(f, is_freed(f, held.id));
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
}

CLUSTER_TEST(a_receipt_of_a_claim_that_was_sent_after_the_backup_is_taken)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_that_it_was_sent(f, f->reservation_ttl_us, &alloc, &held, &ticket);
	f->n1.released = &held;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	held.state = CLAIM_NODE_DETACHED;
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	UNTIL(f, !f->n1.released);
	report_nothing(f);
	UNTIL(f, is_freed(f, held.id));
}
