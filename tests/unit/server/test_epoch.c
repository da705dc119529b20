/* SPDX-License-Identifier: Apache-2.0 */
/* A server that was put back to an older store, and nodes that hold what it has forgotten: in no order of
 * reconnects may there be a second writer. */

#include "asks.h"
#include "restored.h"
#include "sample.h"
#include "submission.h"
#include "unit.h"
#include "unit_clock.h"

#include "access/audit_read.h"
#include "base/fd.h"
#include "claim/held_twice.h"
#include "model/pb.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "node/session.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "recovery/new_epoch.h"
#include "recovery/replaced.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>

static uint32_t nodes_to_report(struct fixture *f)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	cleanup_pb Holdfast__V1__GetStatusResponse *response = NULL;
	uint32_t n;

	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Status", &request.base,
		       (ProtobufCMessage **)(void *)&response, NULL));
	n = response->nodes_to_report;
	return n;
}

CLUSTER_TEST(grants_wait_for_the_report_of_every_node)
{
	struct alloc alloc;
	struct claim held, claim;
	struct error err;

	forget_that_n1_has_it(f, &alloc, &held);
	assert_int_equal(nodes_to_report(f), 2);
	connect_node(&f->n2, "n2");
	UNTIL(f, f->n2.reports_wanted == 1);
	assert_int_equal(f->n2.report_epoch, 1);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE);
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(nodes_to_report(f), 1);
	assert_error(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE, err, "node n1");
	assert_null(strstr(err.msg, "n2"));
	assert_non_null(strstr(err.msg, "holdfast node attest n1 default/db --reason TEXT"));
	assert_non_null(strstr(err.msg, "holdfast node purge n1"));
	assert_int_equal(deregister_volume(f, &err), STATUS_UNAVAILABLE); /* nor forgotten */
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted == 1);
	report(f, &f->n1, 1, &alloc, NULL, true);
	settle(f);
	assert_false(has_reported(f, "n1")); /* more is to follow */
	report(f, &f->n1, 1, NULL, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(nodes_to_report(f), 0);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_TAKEN);
	assert_true(claim.adopted);
	assert_error(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	restart(f); /* all of it is durable; a report is given once */
	assert_true(claim_of(f, ALLOC_1).adopted);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	settle(f);
	assert_int_equal(f->n1.reports_wanted, 0);
	fake_node_send_released(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
	assert_true(claim.generation > held.generation);
}

static const struct node *drain_n1(struct fixture *f)
{
	cleanup_pb Holdfast__V1__DrainNodeResponse *response = NON_NULL(drain_node(f, "n1", false, NULL));
	const struct node_entry *node = state_node(&f->server->state, "n1");

	assert_int_equal(response->node->unreported, node->is_unreported);
	return &node->node;
}

CLUSTER_TEST(a_drain_is_not_done_before_its_node_has_reported)
{
	const struct node *n1;
	struct alloc alloc;
	struct claim held;

	forget_that_n1_has_it(f, &alloc, &held);
	n1 = drain_n1(f);
	assert_true(node_is_draining(n1));
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted == 1);
	settle(f);
	assert_true(node_is_draining(n1));
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, ALLOC_1);
	assert_true(node_is_draining(n1));
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, n1->drain.done_ms != 0);
	assert_true(drain_n1(f)->drain.done_ms != 0);
}

CLUSTER_TEST(a_drain_of_the_backup_waits_for_the_report_that_ends_it)
{
	struct backup backup = {0};
	const struct node *n1;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	(void)drain_n1(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted == 1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_node(&f->server->state, "n1")->n_live_allocs == 0);
	settle(f);
	n1 = &state_node(&f->server->state, "n1")->node;
	assert_true(node_is_draining(n1));
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, n1->drain.done_ms != 0);
}

CLUSTER_TEST(a_drain_that_was_done_before_a_restore_begins_again)
{
	struct backup backup = {0};

	connect_node(&f->n1, "n1");
	assert_true(drain_n1(f)->drain.done_ms != 0);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	assert_true(state_node(&f->server->state, "n1")->node.drain.done_ms != 0);
	assert_true(node_is_draining(drain_n1(f)));
}

/* The volumes that the server has forgotten need it. */
CLUSTER_TEST(a_drain_stops_no_plugin_before_its_node_has_reported)
{
	Holdfast__V1__CsiPlugin runs = V1(csi_plugin, .id = "ebs", .socket = "ebs.sock",
					  .type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE);
	Holdfast__V1__CsiPlugin *plugins[] = {&runs};
	Holdfast__V1__Allocation plugin = V1(allocation, .id = ALLOC_2, .name = "plugin", .node_id = "n1",
					     .driver = "none", .csi_plugins = plugins, .n_csi_plugins = 1);
	Holdfast__V1__RunAllocationRequest request = V1(run_allocation_request, .allocation = &plugin);
	struct backup backup = {0};

	connect_node(&f->n1, "n1");
	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL,
		       NULL));
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted == 1);
	(void)drain_n1(f);
	settle(f);
	assert_int_equal(f->n1.stops, 0);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, f->n1.stops == 1);
}

CLUSTER_TEST(a_node_in_a_new_boot_has_to_report_too)
{
	struct alloc alloc;
	struct claim held, claim;
	struct error err;

	forget_that_n1_has_it(f, &alloc, &held);
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* the claim may be of this boot */
	assert_true(f->n1.welcomed);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
}

/* It is an alarm wherever people and programs look, also after a restart, until one of them has gone. */
static void expect_two_writers(struct fixture *f)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	const Holdfast__V1__GetStatusResponse *status;
	cleanup_pb ProtobufCMessage *response = NULL;
	const struct volume_entry *db;
	struct error err;

	restart(f);
	assert_int_equal(metric_of(f, "volumes_held_twice"), 1);
	expect_warning_events(f, "held-twice", 1, 0);
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Status", &request.base, &response,
		       NULL));
	status = (const Holdfast__V1__GetStatusResponse *)response;
	assert_contains(status->warnings[0], "Two may be writing to it: holdfast volume status db --why");
	db = state_volume(&f->server->state, "default", "db");
	assert_error(held_twice_check_rivals(db, &err), STATUS_UNAVAILABLE, err, "n1");
	assert_non_null(strstr(err.msg, "n2"));
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	pass_grace(f);
	settle(f);
	assert_int_equal(attest(f, "n2", NULL, "it is off", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, metric_of(f, "volumes_held_twice") == 0);
}

/* Nothing else changes. */
TEST_FIXTURE(a_job_that_waits_for_a_report_is_placed_after_the_attestation, setup, teardown)
{
	struct fixture *f = *state;
	struct backup backup = {0};
	struct submission s;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	make_job(f, &s);
	(void)run(f, &s, NULL);
	settle(f);
	assert_int_equal(f->n2.runs, 0);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, f->n2.runs == 1);
}

TEST_FIXTURE(a_node_that_is_gone_is_attested_per_volume_or_purged, setup, teardown)
{
	for (int purged = 0; purged < 2; purged++) {
		struct fixture *f = *state;
		struct alloc alloc;
		struct claim held, claim;
		struct volume other = {.namespace = "default", .id = "other"};
		struct error err;

		forget_that_n1_has_it(f, &alloc, &held);
		connect_node(&f->n2, "n2");
		report(f, &f->n2, 1, NULL, NULL, false);
		assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
		if (purged)
			assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
		else
			assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
		UNTIL(f, has_reported(f, "n2"));
		assert_int_equal(epoch_check(f->server, &other, &err),
				 purged ? STATUS_OK : STATUS_UNAVAILABLE);
		assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
		if (purged)
			return;
		/* the operator was wrong: both are kept, and a third gets nothing */
		connect_node(&f->n1, "n1");
		report(f, &f->n1, 1, &alloc, NULL, true);
		report(f, &f->n1, 1, NULL, &held, false);
		UNTIL(f, has_reported(f, "n1"));
		assert_int_equal(state_volume(&f->server->state, "default", "db")->n_live, 2);
		assert_true(claim_of(f, ALLOC_1).adopted);
		assert_int_equal(state_of(f, ALLOC_2), CLAIM_RESERVED);
		expect_two_writers(f);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* Nodes may be many: the first ones are named. */
TEST_FIXTURE(a_refusal_looks_at_few_of_the_nodes_that_did_not_report, setup, teardown)
{
	struct fixture *f = *state;
	struct volume other = {.namespace = "default", .id = "other"};
	struct error err;
	struct node node;

	connect_node(&f->n1, "n1");
	node = state_node(&f->server->state, "n1")->node;
	node.report_wanted = true;
	for (int i = 0; i < 9; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		(void)str_format(node.id, sizeof(node.id), "w%d", i);
		change_put_node(&change, &node);
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	}
	run_idle(f->event);
	assert_int_equal(f->server->state.n_unreported, 9);
	assert_error(epoch_check(f->server, &other, &err), STATUS_UNAVAILABLE, err, " and up to 6 more may");
}

#define MACHINE_1 "11111111111111111111111111111111"
#define MACHINE_2 "22222222222222222222222222222222"
#define HARDWARE "+33333333333333333333333333333333"
#define BOOT_3 "b0010000-0000-4000-8000-000000000003"

static void come_as(struct fixture *f, const char *machine, const char *boot)
{
	f->n1.machine = machine;
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", boot, NULL, 0);
	settle(f);
}

/* n1 is the second machine; the first one has the volume. */
static void replace_machine(struct fixture *f)
{
	f->n1.machine = MACHINE_1;
	take_volume(f);
	lose(f, &f->n1);
	come_as(f, MACHINE_2, BOOT_2); /* it is refused */
	assert_int_equal(identify(f, "n1", MACHINE_2, NULL), STATUS_OK);
	come_as(f, MACHINE_2, BOOT_2);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
}

CLUSTER_TEST(the_report_of_another_machine_frees_nothing_of_the_first_one)
{
	struct backup backup = {0};
	struct claim claim;
	struct error err;

	replace_machine(f);
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	come_as(f, MACHINE_2, BOOT_2);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	assert_error(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "the old one is scrapped", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
}

CLUSTER_TEST(a_word_about_a_former_machine_stands_for_no_report_of_the_present_one)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct error err;

	replace_machine(f);
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	come_as(f, MACHINE_2, BOOT_2);
	assert_int_equal(attest(f, "n1", NULL, "the old one is scrapped", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err, "node n1 may hold it");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_OK);
}

/* More of them than are forgotten at once. */
CLUSTER_TEST(words_about_a_node_that_was_purged_stand_for_no_report_of_it)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	for (int i = 0; i < 40; i++)
		assert_int_equal(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_true(f->n1.welcomed && !has_reported(f, "n1"));
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err, "node n1 may hold it");
}

/* Its claim has left the history, so its mount is a reason to ask it. Nothing was ever restored. */
CLUSTER_TEST(a_word_stands_for_no_report_that_is_asked_for_later)
{
	char id[UUID_TEXT_SIZE];
	struct claim held, claim;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
	for (int i = 0; i < 2 * CLAIM_HISTORY_MAX; i++) {
		(void)str_format(id, sizeof(id), "018901%02d-0000-7000-" ID_MARK, i);
		take_claim(f, &f->n2, "db", id);
		release_claim(f, &f->n2, id);
	}
	settle(f);
	f->n1.has = &held;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_true(f->n1.welcomed && !has_reported(f, "n1"));
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_error(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE, err,
		     "node n1 may hold it");
}

/* n1 became the second machine before the first one has reported. n2 has reported, and is to have db. */
static void replace_unreported(struct fixture *f, struct backup *backup)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	come_as(f, MACHINE_1, BOOT_1);
	connect_node(&f->n2, "n2");
	take_backup(f, backup);
	f->n1.machine = MACHINE_1;
	take_volume(f); /* the store will not know it */
	restore(f, backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	come_as(f, MACHINE_2, BOOT_2); /* it is refused */
	assert_int_equal(identify(f, "n1", MACHINE_1, NULL), STATUS_OK);
	assert_int_equal(replaced_count(f->server), 0);
	come_as(f, MACHINE_2, BOOT_2);
	assert_int_equal(identify(f, "n1", MACHINE_2, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
}

static void report_as(struct fixture *f, const char *machine, const char *boot)
{
	come_as(f, machine, boot);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
}

CLUSTER_TEST(a_machine_that_did_not_report_is_missing_after_another_one_became_the_node)
{
	struct backup backup = {0};
	struct claim claim;
	struct error err;

	replace_unreported(f, &backup);
	report_as(f, MACHINE_2, BOOT_2);
	assert_int_equal(metric_of(f, "nodes_missing"), 1);
	assert_error(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE, err,
		     "holdfast node purge --unknown");
	assert_int_equal(purge_unknown(f, NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
	assert_int_equal(purge_unknown(f, NULL), STATUS_NOT_FOUND);
}

CLUSTER_TEST(a_replaced_machine_is_attested_by_volume)
{
	struct volume other = {.namespace = "default", .id = "other"};
	char code[NODE_MACHINE_MAX + 1];
	struct backup backup = {0};
	struct claim claim;
	struct error err;

	replace_unreported(f, &backup);
	report_as(f, MACHINE_2, BOOT_2);
	assert_error(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE, err,
		     "holdfast node attest n1 default/db");
	assert_int_equal(attest(f, "n1", "db", "the old one is scrapped", 0, false, NULL, NULL), STATUS_OK);
	restart(f);
	connect_node(&f->n2, "n2");
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
	assert_error(epoch_check(f->server, &other, &err), STATUS_UNAVAILABLE, err,
		     machine_code(f->server, "n1", MACHINE_1, code));
}

CLUSTER_TEST(a_machine_in_the_place_of_another_gets_no_claim_before_it_has_reported)
{
	struct backup backup = {0};
	struct claim claim;
	struct error err;

	replace_unreported(f, &backup);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", "db", "the old one is scrapped", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	come_as(f, MACHINE_2, BOOT_2);
	assert_error(claim_for(&f->n1, ALLOC_1, &claim, &err), STATUS_UNAVAILABLE, err,
		     "node n1 may hold it");
}

CLUSTER_TEST(a_replaced_machine_reports_also_with_a_longer_digest)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct error err;

	replace_unreported(f, &backup);
	report_as(f, MACHINE_2, BOOT_2);
	lose(f, &f->n1);
	come_as(f, MACHINE_1 HARDWARE, BOOT_1);
	assert_succeeds(identify(f, "n1", f->n1.machine, &err), err);
	come_as(f, f->n1.machine, BOOT_3);
	UNTIL(f, f->n1.reports_wanted == 1);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
	assert_succeeds(epoch_check(f->server, &db, &err), err);
	assert_int_equal(replaced_count(f->server), 0);
}

CLUSTER_TEST(a_replaced_machine_has_not_reported_if_one_that_shows_less_has)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct error err;

	f->n1.machine = MACHINE_1 HARDWARE;
	take_volume(f);
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	come_as(f, MACHINE_1, BOOT_2);
	assert_succeeds(identify(f, "n1", MACHINE_1, &err), err);
	report_as(f, MACHINE_1, BOOT_2);
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err, "which was node n1");
	assert_int_equal(replaced_count(f->server), 1);
}

/* The second one has reported as n1 already. */
CLUSTER_TEST(a_replaced_machine_that_is_the_node_again_is_missing_until_it_reports)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct error err;
	uint64_t nodes;

	replace_unreported(f, &backup);
	nodes = history_nodes(f->server);
	report_as(f, MACHINE_2, BOOT_2);
	lose(f, &f->n1);
	come_as(f, MACHINE_1, BOOT_1);
	assert_succeeds(identify(f, "n1", MACHINE_1, &err), err);
	come_as(f, MACHINE_1, BOOT_3);
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err, "node n1 may hold it");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
	assert_succeeds(epoch_check(f->server, &db, &err), err);
	assert_int_equal(metric_of(f, "nodes_missing"), 0);
	assert_int_equal(history_nodes(f->server), nodes); /* each machine counts once */
}

CLUSTER_TEST(a_word_of_an_earlier_epoch_proves_nothing)
{
	struct backup backup = {0};
	struct alloc alloc;
	struct claim held;
	struct volume db = {.namespace = "default", .id = "db"};

	forget_that_n1_has_it(f, &alloc, &held);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_OK);
	take_backup(f, &backup);
	restore(f, &backup, 2);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 2, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_UNAVAILABLE);
}

/* Others need not wait for it, but it would name nothing of a claim that it gets before it has reported. */
CLUSTER_TEST(a_node_that_was_attested_gets_no_claim_before_it_has_reported)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct claim claim;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_OK);
	connect_node(&f->n1, "n1"); /* its report is on its way, and it was not off */
	settle(f);
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_UNAVAILABLE);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_error(claim_for(&f->n1, ALLOC_1, &claim, &err), STATUS_UNAVAILABLE, err, "n1 may hold it");
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* of which the backup does not know */
	settle(f);
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_UNAVAILABLE);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_PENDING);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &claim, NULL), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED);
}

CLUSTER_TEST(a_claim_that_the_older_store_has_as_freed_is_held_again)
{
	struct backup backup = {0};
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
	take_backup(f, &backup);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	restore(f, &backup, 3);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 3, NULL, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_of(f, ALLOC_1),
			 CLAIM_UNPUBLISHING); /* its work is over: it is to release it */
	assert_true(claim_of(f, ALLOC_1).adopted);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NONE);
	UNTIL(f, f->n1.releases >= 1);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
}

CLUSTER_TEST(a_volume_that_was_forgotten_is_kept_from_everybody_else)
{
	struct alloc alloc;
	struct claim held;
	struct error err;

	forget_what_n1_has(f, &alloc, &held);
	report_that_n1_has_it(f, &alloc, &held);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_true(state_volume(&f->server->state, "default", "db")->volume.generation > held.generation);
	assert_int_not_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	assert_int_equal(deregister_volume(f, &err), STATUS_FAILED_PRECONDITION);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* What a node may say that is not so. */
enum lie {
	OTHER_EPOCH,
	OTHERS_CLAIM,
	OTHERS_ALLOC,
	OTHER_BOOT,
	NO_MODE,
	BAD_ID,
	BAD_VOLUME,
	BAD_PROFILE,
	BAD_STORAGE,
	NOT_ASKED,
	LIES,
};

static void send_lie(enum lie lie, struct claim *claim, struct alloc *alloc)
{
	(void)str_copy(claim->node_id, sizeof(claim->node_id), lie == OTHERS_CLAIM ? "n1" : "n2");
	(void)str_copy(alloc->node_id, sizeof(alloc->node_id), lie == OTHERS_ALLOC ? "n1" : "n2");
	(void)str_copy(claim->id, sizeof(claim->id), lie == BAD_ID ? "x" : ALLOC_2);
	(void)str_copy(alloc->id, sizeof(alloc->id), ALLOC_2);
	if (lie == OTHER_BOOT)
		(void)str_copy(claim->boot_id, sizeof(claim->boot_id), BOOT_2);
	if (lie == NO_MODE)
		claim->mode = CLAIM_MODE_UNSPECIFIED;
	if (lie == BAD_VOLUME)
		(void)str_copy(claim->volume_id, sizeof(claim->volume_id),
			       "db$(id)"); /* a shell completes ids */
	if (lie == BAD_PROFILE)
		(void)str_copy(claim->profile, sizeof(claim->profile), "a b");
	if (lie == BAD_STORAGE)
		(void)str_copy(claim->external_id, sizeof(claim->external_id), "\033[2J");
}

TEST_ON(a_report_is_taken_only_as_asked_and_only_about_the_node_itself, struct fixture, f, setup, teardown)
{
	static const enum status wanted[LIES] =
		ROW([OTHER_EPOCH] = STATUS_INVALID_ARGUMENT, [OTHERS_CLAIM] = STATUS_PERMISSION_DENIED,
		    [OTHERS_ALLOC] = STATUS_PERMISSION_DENIED, [OTHER_BOOT] = STATUS_INVALID_ARGUMENT,
		    [NO_MODE] = STATUS_INVALID_ARGUMENT, [BAD_ID] = STATUS_INVALID_ARGUMENT,
		    [BAD_VOLUME] = STATUS_INVALID_ARGUMENT, [BAD_PROFILE] = STATUS_INVALID_ARGUMENT,
		    [BAD_STORAGE] = STATUS_INVALID_ARGUMENT, [NOT_ASKED] = STATUS_INVALID_ARGUMENT);
	struct backup backup = {0};
	struct claim truth;
	struct alloc true_alloc;

	take_volume(f); /* n1 has it, and the store knows */
	true_alloc = alloc_of(f, ALLOC_1);
	truth = claim_of(f, ALLOC_1);
	take_backup(f, &backup);
	restore(f, &backup, 2);
	for (enum lie lie = 0; lie < LIES; lie++) {
		struct claim claim = truth;
		struct alloc alloc = true_alloc;
		bool about_alloc = lie == OTHERS_ALLOC;

		send_lie(lie, &claim, &alloc);
		connect_node(&f->n2, "n2");
		if (lie == NOT_ASKED) {
			report(f, &f->n2, 2, NULL, NULL, false);
			UNTIL(f, has_reported(f, "n2"));
		}
		report(f, &f->n2, lie == OTHER_EPOCH ? 1 : 2, about_alloc ? &alloc : NULL,
		       about_alloc ? NULL : &claim, false);
		UNTIL(f, f->n2.closed);
		assert_int_equal(f->n2.closed_status, wanted[lie]);
		UNTIL(f, !node_is_connected(state_node(&f->server->state, "n2")));
		assert_int_equal(has_reported(f, "n2"), lie == NOT_ASKED);
		assert_int_equal(f->server->state.n_claims, 1);
		assert_null(state_alloc(&f->server->state, ALLOC_2));
		assert_int_equal(f->server->state.n_volumes, 1);
		assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation,
				 UINT64_C(2) << 32);
	}
}

CLUSTER_TEST(renumbered_records_put_no_epoch_into_the_audit_again)
{
	struct backup backup = {0};
	uint64_t sequence;

	take_backup(f, &backup);
	sequence = audit_head(f->server).sequence;
	restore(f, &backup, 2);
	settle(f);
	assert_int_equal(audit_head(f->server).sequence, sequence + 1);
	restart_renumbered(f);
	settle(f);
	assert_int_equal(audit_head(f->server).sequence, sequence + 1);
}

/* Its claim gets another id. The second unknown claim of a message is looked for only among those of its
 * node. */
CLUSTER_TEST(a_report_takes_over_no_freed_claim_of_another_node)
{
	Holdfast__V1__Claim *list[2];
	struct ticket tickets[2];
	ProtobufCBinaryData shown[2];
	Holdfast__V1__NodeReport pb =
		V1(node_report, .epoch = 2, .claims = list, .n_claims = 2, .tickets = shown, .n_tickets = 2);
	struct backup backup = {0};
	char freed[UUID_TEXT_SIZE];
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	memcpy(freed, claim.id, sizeof(freed));
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, f->n1.acks == 2);
	settle(f);
	take_backup(f, &backup);
	restore(f, &backup, 2);
	connect_node(&f->n2, "n2");
	(void)str_copy(claim.node_id, sizeof(claim.node_id), "n2");
	for (int i = 1; i >= 0; i--) {
		(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), i > 0 ? ALLOC_3 : ALLOC_2);
		tickets[i] = ticket_of(f, &claim);
		shown[i] = (ProtobufCBinaryData){.len = sizeof(tickets[i]), .data = (uint8_t *)&tickets[i]};
		list[i] = claim_to_pb(&claim);
		(void)str_copy(claim.id, sizeof(claim.id), ALLOC_2);
	}
	fake_node_send_report(&f->n2, &pb);
	UNTIL(f, has_reported(f, "n2"));
	settle(f);
	assert_int_equal(stored_history_of_db(f), 1);
	assert_int_equal(f->server->state.n_claims, 2);
	assert_null(state_claim(&f->server->state, freed));
	for (int i = 0; i < 2; i++)
		holdfast__v1__claim__free_unpacked(list[i], NULL);
}

CLUSTER_TEST(a_report_is_bounded)
{
	struct backup backup = {0};

	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	state_node(&f->server->state, "n1")->session->n_reported = SESSION_REPORT_OBJECTS_MAX;
	report(f, &f->n1, 1, NULL, NULL, true);
	settle(f);
	assert_false(f->n1.closed);
	report(f, &f->n1, 1, NULL, &(struct claim){.boot_id = BOOT_1, .allocation_id = ALLOC_1}, true);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
}

/* Or a node could fill the store and the audit by reports about allocations that never were. */
CLUSTER_TEST(no_allocation_is_adopted_from_a_node_that_has_as_many_as_one_report_may_name)
{
	struct backup backup = {0};
	struct node_entry *node;
	struct alloc alloc;

	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	take_volume(f);
	alloc = alloc_of(f, ALLOC_1);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	node = state_node(&f->server->state, "n1");
	node->n_allocs += SESSION_REPORT_OBJECTS_MAX - 1;
	report(f, &f->n1, 1, &alloc, NULL, true);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_1));
	(void)str_copy(alloc.id, sizeof(alloc.id), ALLOC_2);
	report(f, &f->n1, 1, &alloc, NULL, true);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	assert_null(state_alloc(&f->server->state, ALLOC_2));
	node->n_allocs -= SESSION_REPORT_OBJECTS_MAX - 1;
}

/* The store says that n1 runs the allocation and has the claim. Both ended after the backup, and n2 has it
 * now. */
TEST_FIXTURE(work_that_ended_after_the_backup_does_not_get_its_claim_again, setup, teardown)
{
	for (int first = 0; first < 2; first++) {
		struct fixture *f = *state;
		struct backup backup = {0};
		struct alloc alloc;
		struct claim old, held, claim;

		take_volume(f);
		take_backup(f, &backup);
		connect_node(&f->n1, "n1");
		connect_node(&f->n2, "n2");
		old = claim_of(f, ALLOC_1);
		fake_node_send_released(&f->n1, &old);
		fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
		UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
		assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
		assert_int_equal(claim_for(&f->n2, ALLOC_2, &held, NULL), STATUS_OK);
		alloc = alloc_of(f, ALLOC_2);
		restore(f, &backup, 1);
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
		connect_node(&f->n1, "n1");
		settle(f);
		assert_int_equal(f->n1.runs, 0); /* not before it has told */
		assert_int_not_equal(claim_for(&f->n1, ALLOC_1, &claim, NULL), STATUS_OK);
		if (first == 0)
			report(f, &f->n1, 1, NULL, NULL, false);
		connect_node(&f->n2, "n2");
		report(f, &f->n2, 1, &alloc, &held, false);
		if (first == 1)
			report(f, &f->n1, 1, NULL, NULL, false);
		UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
		settle(f);
		assert_int_not_equal(claim_for(&f->n1, ALLOC_1, &claim, NULL), STATUS_OK);
		assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_LOST);
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
		assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
		assert_int_equal(state_volume(&f->server->state, "default", "db")->n_live, 1);
		assert_int_equal(f->n1.runs, 0);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* A store that went back without a restore: what a node names in its hello shows it. */

enum shows {
	BY_ALLOC,	  /* the allocation is not known */
	BY_CLAIM,	  /* it is, the published claim is not */
	BY_SHORT_HELLO,	  /* it is, and runs; what is published is left out */
	BY_LATER_STATUS,  /* the hello says nothing, a status during the session does */
	BY_LATER_RECEIPT, /* likewise */
	SHOWS,
};

static void connect_naming(struct fixture *f, enum shows shows, const struct claim *held)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__AllocVolume volume = HOLDFAST__V1__ALLOC_VOLUME__INIT;
	Holdfast__V1__AllocStatus *list[] = {&status};
	Holdfast__V1__AllocVolume *volumes[] = {&volume};
	struct claim copy = *held;

	status.alloc_id = copy.allocation_id;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	volume.claim_id = copy.id;
	status.published = volumes;
	status.n_published = shows != BY_SHORT_HELLO;
	fake_node_connect(&f->n1, "n1", BOOT_1, list, shows < BY_LATER_STATUS);
	assert_true(f->n1.welcomed);
	if (shows == BY_LATER_STATUS)
		fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	if (shows == BY_LATER_RECEIPT)
		fake_node_send_mounted(&f->n1, held);
	if (shows < BY_LATER_STATUS)
		return;
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAVAILABLE);
	assert_int_equal(f->n1.acks, 0);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
}

/* The store as it was before n1 got its claim; for some before its allocation, too. */
static void lose_what_n1_has(struct fixture *f, enum shows shows, struct alloc *alloc, struct claim *held)
{
	bool knows_alloc = shows == BY_CLAIM || shows == BY_SHORT_HELLO;
	struct backup backup = {0};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	if (knows_alloc)
		assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	if (!knows_alloc)
		assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, held, NULL), STATUS_OK);
	*alloc = alloc_of(f, ALLOC_1);
	go_back(f, &backup);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1) != NULL, knows_alloc);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->n_live, 0);
}

TEST_FIXTURE(a_store_that_went_back_grants_nothing_that_a_node_reports_it_holds, setup, teardown)
{
	for (enum shows shows = 0; shows < SHOWS; shows++) {
		struct fixture *f = *state;
		struct alloc alloc;
		struct claim held, claim;
		struct error err;

		lose_what_n1_has(f, shows, &alloc, &held);
		connect_naming(f, shows, &held);
		UNTIL(f, f->n1.reports_wanted == 1);
		restart(f); /* the doubt is durable */
		connect_node(&f->n2, "n2");
		assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
		assert_error(claim_for(&f->n2, ALLOC_2, &claim, &err), STATUS_UNAVAILABLE, err, "node n1");
		connect_node(&f->n1, "n1");
		UNTIL(f, f->n1.reports_wanted == 1);
		report(f, &f->n1, f->n1.report_epoch, &alloc, &held, false);
		UNTIL(f, f->server->restarting); /* its ticket proves what was forgotten */
		restart(f);
		connect_node(&f->n2, "n2");
		report(f, &f->n2, 1, NULL, NULL, false);
		connect_node(&f->n1, "n1");
		report(f, &f->n1, 1, &alloc, &held, false);
		UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
		assert_true(claim_of(f, ALLOC_1).adopted);
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
		assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_FAILED_PRECONDITION);
		restart(f);
		connect_naming(f, BY_CLAIM, &held); /* all of it is known */
		settle(f);
		assert_int_equal(f->n1.reports_wanted, 0);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* The server's own order may cross the end of what it is about. */
CLUSTER_TEST(the_end_of_an_allocation_that_is_gone_is_no_reason_to_report)
{
	connect_node(&f->n1, "n1");
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	settle(f);
	assert_false(f->n1.closed);
	assert_true(has_reported(f, "n1"));
}

/* A decision outlives whatever comes between it and the next start, and is carried out once. */
CLUSTER_TEST(a_decided_epoch_begins_once_at_the_next_start_above_all_that_was_shown)
{
	const struct new_epoch decided = {
		.known_epoch = 7, .known_index = 5000, .now_ms = 12, .restored_from = "a node knows more"};
	char path[PATH_MAX], aside[PATH_MAX];

	take_volume(f);
	assert_int_equal(claim_of(f, ALLOC_1).generation, 1);
	assert_int_equal(new_epoch_decide(f->server->config.data_dir, &decided, NULL), STATUS_OK);
	(void)str_format(path, sizeof(path), "%s/epoch.pending", f->dir);
	(void)str_format(aside, sizeof(aside), "%s/epoch.aside", f->dir);
	assert_int_equal(link(path, aside), 0);
	for (int i = 0; i < 3; i++) {
		restart(f);
		assert_int_equal(state_epoch(&f->server->state), 8);
		assert_true(kv_revision(f->server->kv) > 5000);
		assert_int_equal(nodes_to_report(f), 2);
		assert_int_equal(access(path, F_OK), -1);
		if (i == 0) /* as if the server had been killed before it took the decision away */
			assert_int_equal(rename(aside, path), 0);
	}
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation, UINT64_C(8)
												      << 32);
}

CLUSTER_TEST(a_decision_that_cannot_be_read_is_a_reason_not_to_start)
{
	char path[PATH_MAX];
	struct server *server;
	struct config config;
	struct error err;

	(void)str_format(path, sizeof(path), "%s/epoch.pending", f->dir);
	config = f->server->config;
	cluster_stop(f);
	assert_int_equal(file_write_atomic(path, 0600, "\x0a", 1), 0);
	assert_error(server_new(&config, &server, &err), STATUS_DATA_LOSS, err,
		     "holdfast-server --restore FILE");
	assert_int_equal(unlink(path), 0);
	cluster_start(f);
}

/* The model: what each node really has mounted, whatever the server thinks. */

enum { MODEL_NODES = 2, MODEL_STEPS = 60, MODEL_SEEDS = 40 };

struct model_node {
	struct fake_node *node;
	const char *id;
	char alloc[UUID_TEXT_SIZE]; /* the one that it is to run now; empty: none */
	bool holds;
	struct claim claim; /* that it holds */
	struct alloc held_alloc;
	struct volume_request held_request; /* of it, the only one */
};

struct model {
	struct fixture *f;
	struct model_node nodes[MODEL_NODES];
	unsigned int seed, serial;
	uint64_t epoch;
};

/* What was said is heard, and durable. */
static void quiet(struct fixture *f)
{
	run_idle(f->event);
	assert_int_equal(kv_stats(f->server->kv).pending, 0);
}

static unsigned int pick(struct model *model, unsigned int n)
{
	model->seed = model->seed * 1103515245U + 12345U;
	return (model->seed >> 16) % n;
}

static void assert_one_writer(const struct model *model)
{
	assert_true(!(model->nodes[0].holds && model->nodes[1].holds));
}

static void model_report(struct model *model, struct model_node *node)
{
	if (!node->node->stream || has_reported(model->f, node->id))
		return;
	if (node->holds)
		report(model->f, node->node, node->node->report_epoch, &node->held_alloc, &node->claim,
		       false);
	else
		report(model->f, node->node, node->node->report_epoch, NULL, NULL, false);
	UNTIL(model->f, has_reported(model->f, node->id));
	quiet(model->f);
}

static void model_connect(struct model *model, struct model_node *node)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__AllocStatus *list[] = {&status};

	if (node->node->stream)
		return;
	status.alloc_id = node->claim.allocation_id;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	fake_node_connect(node->node, node->id, BOOT_1, list, node->holds ? 1 : 0);
	assert_true(node->node->welcomed);
	quiet(model->f);
	if (node->node->reports_wanted > 0 && pick(model, 3) > 0)
		model_report(model, node);
	/* it runs what it is told to, although that may have ended here before */
	if (!node->holds && node->node->runs > 0)
		memcpy(node->alloc, node->node->last_run, sizeof(node->alloc));
}

static void model_run(struct model *model, struct model_node *node)
{
	char id[UUID_TEXT_SIZE];

	(void)str_format(id, sizeof(id), "018%05u-0000-7000-" ID_MARK, ++model->serial);
	if (run_alloc(model->f, id, node->id, NULL) == STATUS_OK)
		memcpy(node->alloc, id, sizeof(id));
}

static void model_claim(struct model *model, struct model_node *node)
{
	struct claim claim;

	if (node->alloc[0] == '\0' || node->holds || !node->node->stream ||
	    claim_for(node->node, node->alloc, &claim, NULL) != STATUS_OK)
		return;
	node->claim = claim;
	node->held_alloc = alloc_of(model->f, node->alloc);
	assert_int_equal(node->held_alloc.n_volumes, 1);
	node->held_request = node->held_alloc.volumes[0];
	node->held_alloc.volumes = &node->held_request;
	node->holds = true;
	fake_node_send_mounted(node->node, &claim);
	fake_node_send_alloc(node->node, node->alloc, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	quiet(model->f);
}

static void model_finish(struct model *model, struct model_node *node)
{
	if (!node->holds || !node->node->stream)
		return;
	fake_node_send_released(node->node, &node->claim);
	fake_node_send_alloc(node->node, node->claim.allocation_id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	quiet(model->f);
	node->holds = false;
	node->alloc[0] = '\0';
}

static void model_step(struct model *model)
{
	struct model_node *node = &model->nodes[pick(model, MODEL_NODES)];

	switch (pick(model, 6)) {
	case 0:
		model_connect(model, node);
		break;
	case 5:
		model_report(model, node);
		break;
	case 1:
		model_run(model, node);
		break;
	case 2:
	case 3:
		model_claim(model, node);
		break;
	case 4:
		model_finish(model, node);
		break;
	}
	assert_one_writer(model);
}

/* Everything ends: what the server believes to be held is released, and then anybody can have it. */
static void model_end(struct model *model)
{
	struct claim claim;

	for (int i = 0; i < MODEL_NODES; i++) {
		struct node_entry *entry = state_node(&model->f->server->state, model->nodes[i].id);
		struct claim_entry *held;
		struct alloc_entry *alloc;

		model_connect(model, &model->nodes[i]);
		model_report(model, &model->nodes[i]);
		model_finish(model, &model->nodes[i]);
		LIST_FOREACH (alloc, &entry->allocs, of_node)
			if (!alloc_is_client_terminal(&alloc->alloc))
				fake_node_send_alloc(model->nodes[i].node, alloc->id,
						     HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
		quiet(model->f);
		LIST_FOREACH (held, &entry->claims, of_node)
			if (claim_is_live(&held->claim))
				fake_node_send_released(model->nodes[i].node, &held->claim);
		quiet(model->f);
		assert_int_equal(entry->n_live, 0);
	}
	model_run(model, &model->nodes[0]);
	assert_int_equal(claim_for(&model->f->n1, model->nodes[0].alloc, &claim, NULL), STATUS_OK);
}

static void run_model(struct fixture *f, unsigned int seed)
{
	struct model model = {.f = f, .seed = seed, .nodes = {{&f->n1, "n1"}, {&f->n2, "n2"}}};
	struct backup backup = {0};
	int backup_at = (int)pick(&model, MODEL_STEPS / 3);

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	for (int i = 0; i < MODEL_NODES; i++)
		model_connect(&model, &model.nodes[i]);
	for (int i = 0; i < MODEL_STEPS; i++) {
		if (i == backup_at)
			take_backup(f, &backup);
		if (i == MODEL_STEPS / 2) {
			restore(f, &backup, ++model.epoch);
			for (int k = 0; k < MODEL_NODES; k++)
				if (!model.nodes[k].holds) /* whatever it was, it is over */
					model.nodes[k].alloc[0] = '\0';
		}
		model_step(&model);
	}
	model_end(&model);
}

TEST_FIXTURE(no_order_of_reconnects_makes_a_second_writer, setup, teardown)
{
	const struct sample sample = sample_of_environment();

	for (unsigned int seed = 1; seed <= MODEL_SEEDS; seed++) {
		if (!sample_has(&sample, seed))
			continue;
		print_message("seed %u\n", seed);
		run_model(*state, seed);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* --- work that waited in the backup, and was placed since --- */

static void run_waiting(struct fixture *f, const char *id, const char *node)
{
	Holdfast__V1__Allocation alloc =
		V1(allocation, .id = TEXT(id), .name = TEXT("app"), .node_id = TEXT(node));
	Holdfast__V1__RunAllocationRequest request =
		V1(run_allocation_request, .allocation = &alloc, .wait_ms = 3600 * 1000);
	Holdfast__V1__VolumeRequest volume =
		V1(volume_request, .name = TEXT("data"), .source = TEXT("db"), .access_mode = f->access_mode);
	Holdfast__V1__VolumeRequest *volumes[] = {&volume};

	alloc.volumes = volumes;
	alloc.n_volumes = 1;
	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL,
		       NULL));
}

/* ALLOC_3 waits for n1 in the backup, and has db on n2 since: @ret_alloc and @ret_claim. n1 has come back,
 * and has nothing. */
static void forget_that_n2_got_it(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim)
{
	struct backup backup = {0};

	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_ok(register_volume(f, &f->operator, NULL));
	take_claim(f, &f->n1, "db", ALLOC_1);
	run_waiting(f, ALLOC_3, "");
	settle(f);
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_ok(set_eligible(f, "n1", false, NULL));
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, str_eq(state_alloc(&f->server->state, ALLOC_3)->alloc.node_id, "n2"));
	assert_ok(claim_for(&f->n2, ALLOC_3, ret_claim, NULL));
	fake_node_send_mounted(&f->n2, ret_claim);
	settle(f);
	*ret_claim = claim_of(f, ALLOC_3);
	*ret_alloc = alloc_of(f, ALLOC_3);
	ret_alloc->task_status = NULL;
	ret_alloc->client_status = CLIENT_RUNNING;
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, NULL, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
}

static void come_back_running(struct fixture *f, const struct claim *claim)
{
	Holdfast__V1__AllocStatus status = V1(alloc_status, .alloc_id = TEXT(ALLOC_3),
					      .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&status};

	f->n2.has = claim;
	fake_node_connect(&f->n2, "n2", BOOT_1, list, 1);
	f->n2.has = NULL;
	settle(f);
	assert_false(f->n2.closed);
}

CLUSTER_TEST(work_that_waited_in_the_backup_stays_with_the_node_that_has_its_ticket)
{
	struct claim held, claim;
	struct alloc alloc;

	forget_that_n2_got_it(f, &alloc, &held);
	assert_string_equal(alloc_of(f, ALLOC_3).node_id, ""); /* n2 may run it */
	come_back_running(f, &held);
	report(f, &f->n2, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_string_equal(alloc_of(f, ALLOC_3).node_id, "n2");
	assert_false(alloc_of(f, ALLOC_3).adopted);
	assert_int_equal(state_of(f, ALLOC_3), CLAIM_TAKEN);
	assert_ok(claim_for(&f->n2, ALLOC_3, &claim, NULL));
	assert_string_equal(claim.id, held.id);
	UNTIL(f, str_eq(f->n2.last_run, ALLOC_3)); /* the node answers that with its status */
}

/* A node takes no queued work of others by a report. */
CLUSTER_TEST(work_that_waits_goes_to_no_node_without_its_ticket)
{
	struct claim held;
	struct alloc alloc;

	forget_that_n2_got_it(f, &alloc, &held);
	come_back_running(f, &held);
	report_with(&f->n2, 1, &alloc, &held, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_null(state_claim(&f->server->state, held.id));
	UNTIL(f, str_eq(alloc_of(f, ALLOC_3).node_id, "n1") || str_eq(alloc_of(f, ALLOC_3).node_id, "n2"));
	assert_false(f->n2.closed);
}

/* Ids of allocations are given again: n2 had db for an earlier ALLOC_3, and shows the ticket of that. */
TEST_FIXTURE(work_that_waits_goes_to_no_node_by_the_ticket_of_earlier_work, setup, teardown)
{
	static const struct {
		bool is_earlier;  /* the ticket expired before the work was submitted */
		const char *node; /* for which the work waits */
		bool is_later;	  /* it is shown in a second report */
		const char *expected;
	} rows[] = {
		{false, "", false, "n2"}, /* it may be of this work */
		{false, "n2", false, "n2"}, {true, "", false, ""},
		{false, "n1", false, ""},   {false, "", true, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *f = *state;
		struct backup backup = {0};
		struct ticket ticket;
		struct claim old;

		connect_node(&f->n1, "n1");
		connect_node(&f->n2, "n2");
		assert_ok(register_volume(f, &f->operator, NULL));
		take_claim(f, &f->n1, "db", ALLOC_1);
		old = claim_of(f, ALLOC_1);
		(void)str_copy(old.id, sizeof(old.id), ALLOC_2); /* a ticket names no claim */
		(void)str_copy(old.allocation_id, sizeof(old.allocation_id), ALLOC_3);
		(void)str_copy(old.node_id, sizeof(old.node_id), "n2");
		ticket = ticket_of(f, &old);
		if (rows[i].is_earlier)
			unit_clock_step(180000);
		run_waiting(f, ALLOC_3, rows[i].node);
		settle(f);
		take_backup(f, &backup);
		restore(f, &backup, 1);
		connect_node(&f->n2, "n2");
		if (rows[i].is_later) {
			report_with(&f->n2, 1, NULL, NULL, NULL, false);
			UNTIL(f, has_reported(f, "n2"));
			fake_node_disconnect(&f->n2);
			settle(f);
			come_back_running(f, &old);
			UNTIL(f, f->n2.reports_wanted == 1);
		}
		report_with(&f->n2, 1, NULL, &old, &ticket, false);
		UNTIL(f, has_reported(f, "n2") && state_claim(&f->server->state, old.id));
		settle(f);
		assert_string_equal(alloc_of(f, ALLOC_3).node_id, rows[i].expected);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* The claim of ALLOC_3 is believed, but under a key that nobody has. */
static void come_back_believed(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim)
{
	static uint8_t no_such_key[TICKET_KEY_ID_SIZE] = {1, 2, 3, 4};

	forget_that_n2_got_it(f, ret_alloc, ret_claim);
	f->n2.ticket_keys = (ProtobufCBinaryData){.len = sizeof(no_such_key), .data = no_such_key};
	come_back_running(f, ret_claim);
}

CLUSTER_TEST(work_that_waits_is_stopped_where_it_runs_without_its_ticket)
{
	struct claim held;
	struct alloc alloc;

	come_back_believed(f, &alloc, &held);
	assert_int_equal(f->n2.stops, 0); /* before its report */
	report_with(&f->n2, 1, &alloc, &held, NULL, false);
	UNTIL(f, f->n2.stops == 1);
	assert_string_equal(f->n2.last_stop, ALLOC_3);
	assert_int_equal(state_claim(&f->server->state, held.id)->claim.state, CLAIM_UNPUBLISHING);
	fake_node_disconnect(&f->n2);
	settle(f);
	come_back_running(f, &held);
	UNTIL(f, f->n2.stops == 1);
	assert_string_equal(alloc_of(f, ALLOC_3).node_id, "");
	fake_node_send_alloc(&f->n2, ALLOC_3, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n2.forgets == 1); /* the next time it runs there anew */
	fake_node_send_released(&f->n2, &held);
	UNTIL(f, alloc_of(f, ALLOC_3).node_id[0] != '\0');
}

CLUSTER_TEST(work_that_was_stopped_while_it_waited_is_stopped_where_it_runs)
{
	struct claim held;
	struct alloc alloc;

	come_back_believed(f, &alloc, &held);
	assert_ok(stop_alloc(f, ALLOC_3, NULL));
	assert_int_equal(alloc_of(f, ALLOC_3).client_status, CLIENT_COMPLETE);
	report_with(&f->n2, 1, &alloc, &held, NULL, false);
	UNTIL(f, f->n2.stops == 1);
	assert_string_equal(f->n2.last_stop, ALLOC_3);
}

/* ALLOC_1 is pending on n1, which is away. */
static void back_up_pending_work(struct fixture *f, struct backup *backup)
{
	assert_ok(register_volume(f, &f->operator, NULL));
	connect_node(&f->n1, "n1");
	fake_node_disconnect(&f->n1);
	settle(f);
	assert_ok(run_alloc(f, ALLOC_1, "n1", NULL));
	take_backup(f, backup);
}

CLUSTER_TEST(work_that_its_node_has_begun_since_the_backup_is_stopped_after_the_report)
{
	Holdfast__V1__AllocStatus status = V1(alloc_status, .alloc_id = TEXT(ALLOC_1),
					      .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&status};
	struct backup backup = {0};
	struct claim held;
	struct alloc alloc;

	back_up_pending_work(f, &backup);
	connect_node(&f->n1, "n1");
	assert_ok(claim_for(&f->n1, ALLOC_1, &held, NULL));
	alloc = alloc_of(f, ALLOC_1);
	restore(f, &backup, 1);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_PENDING);
	f->n1.has = &held;
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	f->n1.has = NULL;
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, f->n1.stops > 0);
	assert_string_equal(f->n1.last_stop, ALLOC_1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, alloc_of(f, ALLOC_1).client_status == CLIENT_COMPLETE);
}

CLUSTER_TEST(work_that_its_node_never_had_is_stopped_after_the_report)
{
	struct backup backup = {0};

	back_up_pending_work(f, &backup);
	restore(f, &backup, 1);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_PENDING);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, f->n1.stops > 0); /* an agent answers that with its end */
	assert_string_equal(f->n1.last_stop, ALLOC_1);
}

CLUSTER_TEST(a_node_that_runs_the_allocation_of_another_one_is_told_to_stop_it)
{
	Holdfast__V1__AllocStatus status = V1(alloc_status, .alloc_id = TEXT(ALLOC_1),
					      .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&status};

	take_volume(f);
	fake_node_disconnect(&f->n2);
	fake_node_connect(&f->n2, "n2", BOOT_1, list, 1);
	UNTIL(f, f->n2.stops == 1);
	assert_msg(!f->n2.closed, "%s", f->n2.closed_message);
	assert_string_equal(alloc_of(f, ALLOC_1).node_id, "n1");
}

CLUSTER_TEST(a_ticket_moves_no_allocation_from_its_node)
{
	struct backup backup = {0};
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	(void)str_copy(claim.id, sizeof(claim.id), ALLOC_2);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), "n2");
	report(f, &f->n2, 1, NULL, &claim, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_string_equal(alloc_of(f, ALLOC_1).node_id, "n1");
	assert_int_equal(state_claim(&f->server->state, ALLOC_2)->claim.state, CLAIM_UNPUBLISHING);
}

static size_t count_audit(struct fixture *f, const char *what, const char *words)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	Holdfast__V1__ListAuditResponse *response = NULL;
	size_t n = 0;

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_int_equal(audit_list(f->server, &request, &response, NULL), STATUS_OK);
	for (size_t i = 0; i < response->n_records; i++)
		n += str_eq(response->records[i]->what, what) &&
		     (strstr(response->records[i]->message, words) ||
		      strstr(response->records[i]->why, words));
	holdfast__v1__list_audit_response__free_unpacked(response, NULL);
	return n;
}

/* A thief of n1's certificate does not know its machine. */
CLUSTER_TEST(a_hello_without_the_nodes_machine_ends_no_attestation)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct claim claim;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	f->n1.machine = MACHINE_1;
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 60 * 1000, false, NULL, NULL), STATUS_OK);
	come_as(f, MACHINE_2, BOOT_3);
	assert_false(f->n1.welcomed);
	come_as(f, "no digest", BOOT_1);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	assert_int_equal(count_audit(f, "Nodes.Session: hello", "does not now"), 0);
	come_as(f, "", BOOT_1);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	assert_int_equal(count_audit(f, "Nodes.Session: hello", "does not now"), 1);
	assert_succeeds(epoch_check(f->server, &db, &err), err);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_succeeds(claim_for(&f->n2, ALLOC_2, &claim, &err), err);
	assert_int_equal(count_audit(f, "Nodes.Attest", "over for the machine that has connected: that of "),
			 0);
	come_as(f, MACHINE_1, BOOT_3); /* it did not */
	assert_int_equal(count_audit(f, "Nodes.Attest", "over for the machine that has connected: that of "),
			 1);
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err, "node n1 may hold it");
}

/* Submits ALLOC_1 again, with one task. */
static enum status submit_again(struct fixture *f, const char *namespace, const char *task)
{
	Holdfast__Driver__V1__TaskConfig config = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	Holdfast__Driver__V1__TaskConfig *tasks[] = {&config};
	Holdfast__V1__Allocation alloc =
		V1(allocation, .id = TEXT(ALLOC_1), .namespace_ = TEXT(namespace), .name = TEXT("again"),
		   .node_id = TEXT("n1"), .tasks = tasks, .n_tasks = 1);
	Holdfast__V1__RunAllocationRequest request = V1(run_allocation_request, .allocation = &alloc);

	config.driver = TEXT("container");
	config.task = TEXT(task);
	return call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, NULL);
}

/* As the server stored it before ids had a mark of their namespace. */
static void put_in_b(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__Driver__V1__TaskConfig web = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	Holdfast__Driver__V1__TaskConfig *tasks[] = {&web};
	Holdfast__V1__Allocation pb =
		V1(allocation, .id = TEXT(ALLOC_1), .namespace_ = TEXT("b"), .name = TEXT("again"),
		   .node_id = TEXT("n1"), .driver = TEXT("none"), .tasks = tasks, .n_tasks = 1);
	struct alloc alloc = {0};

	web.driver = TEXT("container");
	web.task = TEXT("web");
	assert_ok(alloc_from_pb(&pb, &alloc, NULL));
	alloc.desired_status = DESIRED_RUN;
	alloc.client_status = CLIENT_PENDING;
	change_put_alloc(&change, &alloc);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	alloc_release(&alloc);
}

/* The status of ALLOC_1 with its task "web". */
struct web_status {
	Holdfast__Driver__V1__TaskStatus web;
	Holdfast__Driver__V1__TaskStatus *tasks[1];
	Holdfast__V1__AllocStatus status, *list[1];
};

static Holdfast__V1__AllocStatus **web_status(struct web_status *ret, const char *namespace,
					      Holdfast__V1__ClientStatus status)
{
	*ret = (struct web_status){
		.web = HOLDFAST__DRIVER__V1__TASK_STATUS__INIT,
		.status = V1(alloc_status, .alloc_id = TEXT(ALLOC_1), .namespace_ = TEXT(namespace),
			     .client_status = status, .n_tasks = 1),
	};
	ret->web.task = TEXT("web");
	ret->tasks[0] = &ret->web;
	ret->status.tasks = ret->tasks;
	ret->list[0] = &ret->status;
	return ret->list;
}

static void send_web(struct fake_node *node, const char *namespace, Holdfast__V1__ClientStatus status)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	struct web_status web;

	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC;
	up.alloc = web_status(&web, namespace, status)[0];
	fake_node_send(node, &up);
}

static void come_with_web(struct fixture *f)
{
	struct web_status web;

	fake_node_connect(&f->n1, "n1", BOOT_1,
			  web_status(&web, "default", HOLDFAST__V1__CLIENT_STATUS__RUNNING), 1);
	settle(f);
	assert_msg(f->n1.welcomed && !f->n1.closed, "%s", f->n1.closed_message);
}

static void forget_and_hear_n2(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_held)
{
	forget_that_n1_has_it(f, ret_alloc, ret_held);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
}

/* An id of before the backup may be submitted again: by a script that fixes its ids, or to keep a node out.
 */
CLUSTER_TEST(a_status_of_other_tasks_is_refused_and_ends_no_session)
{
	const struct volume db = {.namespace = "default", .id = "db"};
	struct alloc alloc;
	struct claim held;

	forget_and_hear_n2(f, &alloc, &held);
	assert_ok(submit_again(f, "default", "other"));
	come_with_web(f);
	assert_int_equal(n_events(f, "", "Nodes.Session: status", "task 'web'"), 1);
	assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_PENDING);
	report(f, &f->n1, 1, &alloc, NULL, true);
	report(f, &f->n1, 1, NULL, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_ok(epoch_check(f->server, &db, NULL));
	assert_int_equal(claim_of(f, ALLOC_1).state, CLAIM_TAKEN);
	UNTIL(f, f->n1.runs == 1); /* which the agent answers with the same status */
	send_web(&f->n1, "default", HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, n_events(f, "", "Nodes.Session: status", "task 'web'") == 2);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	UNTIL(f, f->n1.stops == 1);
	assert_false(alloc_is_client_terminal(&state_alloc(&f->server->state, ALLOC_1)->alloc));
	send_web(&f->n1, "default", HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.forgets == 1);
	assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_COMPLETE);
	assert_int_equal(message_list_n(alloc_of(f, ALLOC_1).task_status), 0);
	send_web(&f->n1, "default", HOLDFAST__V1__CLIENT_STATUS__RUNNING); /* it has ended here */
	UNTIL(f, f->n1.stops == 2);
	assert_false(f->n1.closed);
}

static void expect_db_is_held(struct fixture *f, const struct claim *held)
{
	struct error err;

	assert_int_equal(state_claim(&f->server->state, held->id)->claim.state, CLAIM_UNPUBLISHING);
	assert_error(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
}

/* The node holds the one of namespace default, and its id is of work of namespace b here. */
CLUSTER_TEST(an_id_of_another_namespace_takes_no_work_over)
{
	struct alloc alloc;
	struct claim held;

	forget_and_hear_n2(f, &alloc, &held);
	assert_int_equal(submit_again(f, "b", "web"), STATUS_INVALID_ARGUMENT);
	put_in_b(f);
	come_with_web(f);
	assert_int_equal(n_events(f, "", "Nodes.Session: status", "namespace b: node n1 has another"), 1);
	report(f, &f->n1, 1, &alloc, NULL, true);
	report(f, &f->n1, 1, NULL, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(n_events(f, "", "Nodes.Session: report", "of the node is not adopted"), 1);
	assert_string_equal(alloc_of(f, ALLOC_1).namespace, "b");
	assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_PENDING);
	assert_false(alloc_of(f, ALLOC_1).adopted);
	assert_true(LIST_EMPTY(&state_alloc(&f->server->state, ALLOC_1)->claims));
	expect_db_is_held(f, &held);
	UNTIL(f, str_eq(f->n1.last_run, ALLOC_1)); /* which its agent refuses */
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop_namespace, "b");
	send_web(&f->n1, "b", HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.forgets == 1);
	assert_string_equal(f->n1.last_forget_namespace, "b");
	assert_int_equal(alloc_of(f, ALLOC_1).client_status, CLIENT_FAILED);
	expect_db_is_held(f, &held);
	send_web(&f->n1, "default", HOLDFAST__V1__CLIENT_STATUS__RUNNING); /* that of b has ended */
	settle(f);
	fake_node_disconnect(&f->n1);
	come_with_web(f);
	assert_int_equal(f->n1.stops, 0);
	assert_int_equal(f->n1.reports_wanted, 0); /* its claims are known */
	expect_db_is_held(f, &held);
	send_web(&f->n1, "default", HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_claim(&f->server->state, held.id)->claim.state == CLAIM_FREED);
	assert_int_equal(f->n1.forgets, 0);
}

CLUSTER_TEST(an_id_of_another_namespace_that_waits_stops_nothing)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc, waiting;
	struct claim held;

	forget_and_hear_n2(f, &alloc, &held);
	waiting = alloc;
	(void)str_copy(waiting.namespace, sizeof(waiting.namespace), "b");
	waiting.node_id[0] = '\0';
	waiting.client_status = CLIENT_PENDING;
	waiting.wait_until_ms = INT64_MAX;
	change_put_alloc(&change, &waiting);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	come_with_web(f);
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	settle(f);
	assert_string_equal(alloc_of(f, ALLOC_1).node_id, "");
	assert_int_equal(state_claim(&f->server->state, held.id)->claim.state, CLAIM_UNPUBLISHING);
	assert_int_equal(f->n1.stops, 0);
}

CLUSTER_TEST(an_id_of_another_namespace_with_volumes_asks_for_no_second_report)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc, other;
	struct claim held;

	forget_and_hear_n2(f, &alloc, &held);
	other = alloc;
	(void)str_copy(other.namespace, sizeof(other.namespace), "b");
	other.client_status = CLIENT_PENDING;
	assert_int_equal(other.n_volumes, 1);
	change_put_alloc(&change, &other);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	come_with_web(f);
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	fake_node_disconnect(&f->n1);
	settle(f);
	come_with_web(f);
	assert_int_equal(f->n1.reports_wanted, 0);
}
