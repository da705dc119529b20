/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that were a node in the time that the store has forgotten: no other node gets a volume that one of
 * them may hold. */

#include "asks.h"
#include "restored.h"
#include "unit.h"

#include "node/lookup.h"
#include "node/machine_code.h"
#include "node/session.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "recovery/replaced.h"

const bool fake_nodes_have_machines = true;

#define MACHINE_1 "11111111111111111111111111111111"
#define MACHINE_2 "22222222222222222222222222222222"
#define HARDWARE "+33333333333333333333333333333333"
#define CODE(f, node, machine) machine_code((f)->server, node, machine, (char[NODE_MACHINE_MAX + 1]){""})
#define CODE_2(f) CODE(f, "n1", MACHINE_2)

static void come(struct fake_node *node, const char *id, const char *machine, const char *boot)
{
	node->machine = machine;
	fake_node_connect(node, id, boot, NULL, 0);
}

static void report_nothing(struct fixture *f, struct fake_node *node, uint64_t epoch)
{
	report(f, node, epoch, NULL, NULL, false);
	UNTIL(f, has_reported(f, node->id));
}

static void join(struct fixture *f, struct fake_node *node, const char *id, uint64_t epoch)
{
	connect_node(node, id);
	report_nothing(f, node, epoch);
}

static void expect_waiting(struct fixture *f, uint64_t missing, uint64_t replaced, const char *words)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct error err;

	assert_int_equal(history_missing_nodes(f->server), missing);
	assert_int_equal(replaced_count(f->server), replaced);
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err, words);
}

static void expect_granted(struct fixture *f)
{
	struct claim claim;

	assert_int_equal(history_missing_nodes(f->server) + replaced_count(f->server), 0);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	UNTIL(f, f->n2.runs == 1);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &claim, NULL), STATUS_OK);
}

static void take(struct fixture *f, struct fake_node *node, const char *id, struct claim *ret)
{
	assert_int_equal(run_alloc(f, ALLOC_1, id, NULL), STATUS_OK);
	UNTIL(f, node->runs == 1);
	assert_int_equal(claim_for(node, ALLOC_1, ret, NULL), STATUS_OK);
}

/* n1 was the first machine in the backup, and the second one took the volume since. */
struct lost {
	struct fixture *f;
	struct backup backup;
	struct claim held; /* by the second one */
	struct alloc alloc;
	Holdfast__V1__Mark *mark; /* owned; of the second one */
};

UNIT_SETUP(lose_machine, struct lost, w)
{
	struct fixture *f;
	void *fixture = NULL;

	assert_int_equal(setup_hundred(&fixture), 0);
	w->f = f = fixture;
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	come(&f->n1, "n1", MACHINE_1, BOOT_1);
	connect_node(&f->n2, "n2");
	take_backup(f, &w->backup);
	connect_node(&f->n2, "n2");
	pass_grace(f); /* the first one is away */
	settle(f);
	come(&f->n1, "n1", MACHINE_2, BOOT_2);
	assert_int_equal(identify(f, "n1", MACHINE_2, NULL), STATUS_OK);
	come(&f->n1, "n1", MACHINE_2, BOOT_2);
	take(f, &f->n1, "n1", &w->held);
	w->mark = mark_copy(f->n1.mark);
	w->alloc = alloc_of(f, ALLOC_1);
}

static int teardown_lost(void **state)
{
	struct lost *w = *state;
	void *fixture = w->f;

	holdfast__v1__mark__free_unpacked(w->mark, NULL);
	free(w);
	return teardown(&fixture);
}

/* The second machine comes to a server that has another one as n1. */
static void come_refused(struct lost *w, const char *machine)
{
	w->f->n1.shows = w->mark;
	come(&w->f->n1, "n1", machine, BOOT_2);
	assert_false(w->f->n1.welcomed);
	w->f->n1.shows = NULL;
}

static void first_reports(struct lost *w, uint64_t epoch)
{
	come(&w->f->n1, "n1", MACHINE_1, BOOT_1);
	assert_true(w->f->n1.welcomed);
	report_nothing(w->f, &w->f->n1, epoch);
	lose(w->f, &w->f->n1);
}

TEST_ON(a_machine_that_became_the_node_in_the_lost_time_is_missing, struct lost, w, lose_machine,
	teardown_lost)
{
	restore_knowing(w->f, &w->backup, 1);
	join(w->f, &w->f->n2, "n2", 1);
	first_reports(w, 1);
	expect_waiting(w->f, 1, 0, "purge --unknown");
	assert_int_equal(purge_unknown(w->f, NULL), STATUS_OK);
	expect_granted(w->f);
}

TEST_ON(a_refused_machine_of_the_lost_time_is_waited_for_until_it_reports, struct lost, w, lose_machine,
	teardown_lost)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct fixture *f = w->f;
	struct error err;
	uint64_t nodes;

	restore_knowing(f, &w->backup, 1);
	nodes = history_nodes(f->server);
	come_refused(w, MACHINE_2);
	join(f, &f->n2, "n2", 1);
	first_reports(w, 1);
	come_refused(w, MACHINE_2);
	expect_waiting(f, 0, 1, "holdfast node identify n1 ");
	expect_waiting(f, 0, 1, CODE_2(f));
	assert_int_equal(history_nodes(f->server), nodes);
	assert_error(epoch_check_all(f->server, &db, &err), STATUS_UNAVAILABLE, err, CODE_2(f));
	assert_error(epoch_check_purge(f->server, "web", &err), STATUS_FAILED_PRECONDITION, err, "--unknown");
	assert_int_equal(n_events(f, "node n1", "Nodes.Doubt", CODE_2(f)), 1);
	assert_int_equal(identify(f, "n1", MACHINE_2, NULL), STATUS_OK);
	nodes_note_kept_out(f->server, "n1");
	come(&f->n1, "n1", MACHINE_2, BOOT_2); /* the boot of the first one does not come back */
	assert_true(f->n1.welcomed);
	report(f, &f->n1, 1, &w->alloc, &w->held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(history_missing_nodes(f->server) + replaced_count(f->server), 0);
	assert_ok(epoch_check_purge(f->server, "web", NULL));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(history_nodes(f->server), nodes);
}

TEST_ON(a_word_about_a_refused_machine_lasts_though_it_comes_again, struct lost, w, lose_machine,
	teardown_lost)
{
	restore_knowing(w->f, &w->backup, 1);
	join(w->f, &w->f->n2, "n2", 1);
	first_reports(w, 1);
	come_refused(w, MACHINE_2);
	expect_waiting(w->f, 0, 1, CODE_2(w->f));
	assert_int_equal(purge_unknown(w->f, NULL), STATUS_OK);
	come_refused(w, MACHINE_2);
	expect_granted(w->f);
}

/* After the attestation too: only a machine that was not seen was meant. */
TEST_ON(a_machine_that_was_given_up_unseen_is_waited_for_when_it_comes, struct lost, w, lose_machine,
	teardown_lost)
{
	uint64_t nodes;

	restore_knowing(w->f, &w->backup, 1);
	join(w->f, &w->f->n2, "n2", 1);
	first_reports(w, 1);
	nodes = history_nodes(w->f->server);
	assert_int_equal(purge_unknown(w->f, NULL), STATUS_OK);
	come_refused(w, MACHINE_2);
	expect_waiting(w->f, 0, 1, CODE_2(w->f));
	assert_int_equal(history_nodes(w->f->server), nodes);
}

/* The word is true, and about the first one: nobody knew of another. */
TEST_ON(a_word_of_before_a_machine_was_seen_stands_for_no_report_of_it, struct lost, w, lose_machine,
	teardown_lost)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct fixture *f = w->f;

	restore_knowing(f, &w->backup, 1);
	join(f, &f->n2, "n2", 1);
	assert_int_equal(attest(f, "n1", NULL, "the first one is scrap", 0, false, NULL, NULL), STATUS_OK);
	expect_waiting(f, 1, 0, "purge --unknown");
	come_refused(w, MACHINE_2);
	expect_waiting(f, 0, 1, CODE_2(f));
	assert_int_equal(identify(f, "n1", MACHINE_2, NULL), STATUS_OK);
	pass_grace(f);
	come(&f->n1, "n1", MACHINE_2, BOOT_2);
	assert_true(f->n1.welcomed);
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_UNAVAILABLE);
	report(f, &f->n1, 1, &w->alloc, &w->held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(epoch_check(f->server, &db, NULL), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

TEST_ON(a_word_about_both_machines_of_a_node_covers_both, struct lost, w, lose_machine, teardown_lost)
{
	struct fixture *f = w->f;
	struct error err;

	restore_knowing(f, &w->backup, 1);
	join(f, &f->n2, "n2", 1);
	come_refused(w, MACHINE_2);
	assert_int_equal(attest(f, "n1", "db", "both are scrap", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_succeeds(claim_for(&f->n2, ALLOC_2, &w->held, &err), err);
	come_refused(w, MACHINE_2); /* it is not */
	expect_waiting(f, 0, 1, CODE_2(f));
}

/* What it shows without a proof is believed as of any node that the lost time may have had. */
TEST_ON(a_refused_machine_of_the_lost_time_is_no_stranger_after_a_purge, struct lost, w, lose_machine,
	teardown_lost)
{
	struct fixture *f = w->f;

	restore_knowing(f, &w->backup, 1);
	join(f, &f->n2, "n2", 1);
	first_reports(w, 1);
	come_refused(w, MACHINE_2);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	expect_waiting(f, 0, 1, "purge --unknown");
	f->n1.shows = w->mark;
	come(&f->n1, "n1", MACHINE_2, BOOT_2);
	assert_true(f->n1.welcomed);
	assert_int_equal(state_node(&f->server->state, "n1")->node.stranger_epoch, 0);
	report_nothing(f, &f->n1, 1);
	expect_granted(f);
}

TEST_ON(a_machine_with_the_mark_of_another_one_is_not_counted, struct lost, w, lose_machine, teardown_lost)
{
	struct fixture *f = w->f;

	restore_knowing(f, &w->backup, 1);
	join(f, &f->n2, "n2", 1);
	first_reports(w, 1);
	come_refused(w, "44444444444444444444444444444444");
	come_refused(w, w->mark->machine);
	expect_waiting(f, 1, 0, "purge --unknown");
	w->mark->machine[0] = '\0'; /* as of an older version: then nothing proves it */
	come_refused(w, MACHINE_2);
	expect_waiting(f, 1, 0, "purge --unknown");
}

TEST_ON(a_refused_machine_shows_that_the_store_went_back, struct lost, w, lose_machine, teardown_lost)
{
	struct fixture *f = w->f;

	go_back(f, &w->backup);
	come_refused(w, MACHINE_2);
	UNTIL(f, f->server->restarting);
	restart(f);
	assert_int_equal(state_epoch(&f->server->state), 1);
	join(f, &f->n2, "n2", 1);
	first_reports(w, 1);
	expect_waiting(f, 1, 0, "purge --unknown");
	come_refused(w, MACHINE_2);
	expect_waiting(f, 0, 1, CODE_2(f));
}

TEST_ON(a_hello_without_a_machine_shows_that_the_store_went_back, struct lost, w, lose_machine, teardown_lost)
{
	go_back(w->f, &w->backup);
	come_refused(w, "");
	UNTIL(w->f, w->f->server->restarting);
	restart(w->f);
	assert_int_equal(state_epoch(&w->f->server->state), 1);
}

/* A machine that was the node already is counted once. */
TEST_ON(a_machine_that_is_the_node_again_is_not_counted_again, struct lost, w, lose_machine, teardown_lost)
{
	struct fixture *f = w->f;
	uint64_t nodes = history_nodes(f->server);

	assert_int_equal(nodes, 3);
	lose(f, &f->n1);
	for (int i = 0; i < 3; i++) { /* as many refusals are noted at once */
		come(&f->n1, "n1", i % 2 == 0 ? MACHINE_1 HARDWARE : MACHINE_2,
		     "b0010000-0000-4000-8000-000000000009");
		assert_int_equal(identify(f, "n1", f->n1.machine, NULL), STATUS_OK);
	}
	assert_int_equal(history_nodes(f->server), nodes);
	free(w->backup.bytes);
}

/* --- a node that is new since the backup --- */

/* The server has another port after a restart. */
static void renew(struct fixture *f, struct fake_node *n3)
{
	fake_node_release(n3);
	*n3 = (struct fake_node){0};
	fake_node_init(n3, f->event, f->dir, "node-n3", f->port);
}

/* n3 is new since, and its first machine took the volume. */
static void take_as_n3(struct fixture *f, struct backup *backup, struct fake_node *n3, struct claim *held)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, backup);
	fake_node_init(n3, f->event, f->dir, "node-n3", f->port);
	come(n3, "n3", MACHINE_1, BOOT_1);
	take(f, n3, "n3", held);
}

static void restore_and_report(struct fixture *f, struct backup *backup, uint64_t epoch)
{
	restore_knowing(f, backup, epoch);
	join(f, &f->n1, "n1", epoch);
	join(f, &f->n2, "n2", epoch);
}

TEST_ON(both_machines_of_a_node_that_is_new_since_the_backup_are_waited_for, struct fixture, f, setup_three,
	teardown)
{
	cleanup_pb Holdfast__V1__Mark *first = NULL, *second = NULL;
	struct backup backup = {0};
	struct fake_node n3 = {0};
	struct claim held;

	take_as_n3(f, &backup, &n3, &held);
	first = mark_copy(n3.mark);
	lose(f, &n3);
	come(&n3, "n3", MACHINE_2, BOOT_2);
	assert_int_equal(identify(f, "n3", MACHINE_2, NULL), STATUS_OK);
	come(&n3, "n3", MACHINE_2, BOOT_2);
	second = mark_copy(n3.mark);
	lose(f, &n3);
	restore_and_report(f, &backup, 1);
	renew(f, &n3);
	n3.shows = second;
	come(&n3, "n3", MACHINE_2, BOOT_2);
	report_nothing(f, &n3, 1);
	lose(f, &n3);
	expect_waiting(f, 1, 0, "purge --unknown");
	n3.shows = first;
	come(&n3, "n3", MACHINE_1, BOOT_1);
	assert_false(n3.welcomed);
	expect_waiting(f, 0, 1, CODE(f, "n3", MACHINE_1));
	assert_int_equal(identify(f, "n3", MACHINE_1, NULL), STATUS_OK);
	come(&n3, "n3", MACHINE_1, BOOT_1);
	report_nothing(f, &n3, 1);
	expect_granted(f);
	fake_node_release(&n3);
}

/* It has key and journal of n3, and connects first. */
TEST_ON(a_thief_does_not_stand_for_the_machine_of_its_mark, struct fixture, f, setup_three, teardown)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct backup backup = {0};
	struct fake_node n3 = {0};
	struct claim held;

	take_as_n3(f, &backup, &n3, &held);
	mark = mark_copy(n3.mark);
	assert_null(strstr(mark->machine, MACHINE_1));
	lose(f, &n3);
	restore_and_report(f, &backup, 1);
	renew(f, &n3);
	n3.shows = mark;
	come(&n3, "n3", mark->machine, BOOT_2);
	assert_true(n3.welcomed);
	report_nothing(f, &n3, 1);
	lose(f, &n3);
	expect_waiting(f, 1, 0, "purge --unknown");
	come(&n3, "n3", MACHINE_1, BOOT_1); /* the honest one */
	assert_false(n3.welcomed);
	expect_waiting(f, 0, 1, CODE(f, "n3", MACHINE_1));
	fake_node_release(&n3);
}

/* Its machine-id is in each record of the journal; its hardware's UUID is not. */
TEST_ON(a_thief_without_the_hardware_does_not_stand_for_the_machine_of_its_mark, struct fixture, f,
	setup_three, teardown)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct backup backup = {0};
	struct fake_node n3 = {0};
	struct claim held;

	take_as_n3(f, &backup, &n3, &held);
	lose(f, &n3);
	come(&n3, "n3", MACHINE_1 HARDWARE, BOOT_1);
	mark = mark_copy(n3.mark);
	lose(f, &n3);
	restore_and_report(f, &backup, 1);
	renew(f, &n3);
	n3.shows = mark;
	come(&n3, "n3", MACHINE_1, BOOT_2);
	report_nothing(f, &n3, 1);
	expect_waiting(f, 1, 0, "purge --unknown");
	lose(f, &n3);
	come(&n3, "n3", MACHINE_1 HARDWARE, BOOT_1); /* the honest one */
	assert_true(n3.welcomed);
	expect_waiting(f, 1, 0, "purge --unknown");
	fake_node_release(&n3);
}

/* It has been the node since, and knows the code of its own machine. */
TEST_ON(a_mark_with_the_code_of_another_machine_is_not_proven, struct fixture, f, setup_three, teardown)
{
	cleanup_pb Holdfast__V1__Mark *forged = NULL, *own = NULL;
	struct backup backup = {0}, again = {0};
	struct fake_node n3 = {0};
	struct claim held;
	char *code;

	take_as_n3(f, &backup, &n3, &held);
	again = (struct backup){.bytes = NON_NULL(malloc(backup.n)), .n = backup.n};
	memcpy(again.bytes, backup.bytes, backup.n);
	forged = mark_copy(n3.mark);
	restore_knowing(f, &backup, 1);
	renew(f, &n3);
	come(&n3, "n3", MACHINE_2, BOOT_2);
	own = mark_copy(n3.mark);
	restore_knowing(f, &again, 2);
	assert_int_equal(history_missing_nodes(f->server), 2);
	code = forged->machine;
	forged->machine = own->machine;
	own->machine = code;
	renew(f, &n3);
	n3.shows = forged;
	come(&n3, "n3", MACHINE_2, BOOT_2);
	assert_true(n3.welcomed);
	assert_int_equal(history_missing_nodes(f->server), 2);
	fake_node_release(&n3);
}

TEST_ON(a_mark_without_a_machine_counts_nothing, struct fixture, f, setup_three, teardown)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct backup backup = {0};
	struct fake_node n3 = {0};

	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	fake_node_init(&n3, f->event, f->dir, "node-n3", f->port);
	come(&n3, "n3", "", BOOT_1);
	mark = mark_copy(n3.mark);
	assert_string_equal(mark->machine, "");
	restore_knowing(f, &backup, 1);
	renew(f, &n3);
	n3.shows = mark;
	for (int i = 0; i < 2; i++) {
		come(&n3, "n3", i == 0 ? "" : MACHINE_1, BOOT_1);
		assert_true(n3.welcomed);
		assert_int_equal(history_missing_nodes(f->server), 1);
	}
	fake_node_release(&n3);
}

/* The digest of a machine becomes longer, or shorter. */
TEST_ON(a_mark_of_the_same_machine_with_another_digest_counts, struct fixture, f, setup_three, teardown)
{
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	struct backup backup = {0};
	struct fake_node n3 = {0};

	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	fake_node_init(&n3, f->event, f->dir, "node-n3", f->port);
	come(&n3, "n3", MACHINE_1 HARDWARE, BOOT_1);
	mark = mark_copy(n3.mark);
	restore_knowing(f, &backup, 1);
	renew(f, &n3);
	n3.shows = mark;
	come(&n3, "n3", MACHINE_1 "+44444444444444444444444444444444", BOOT_1);
	assert_int_equal(history_missing_nodes(f->server), 1);
	lose(f, &n3);
	assert_int_equal(purge(f, "n3", NULL), STATUS_OK);
	come(&n3, "n3", MACHINE_1, BOOT_1);
	assert_int_equal(history_missing_nodes(f->server),
			 1); /* its long digest may be that of the purged one */
	fake_node_release(&n3);
}

/* --- restored twice --- */

static void visit(struct fixture *f, const char *id, uint64_t epoch, struct claim *ret)
{
	struct fake_node node = {0};
	char certificate[32];

	(void)str_format(certificate, sizeof(certificate), "node-%s", id);
	fake_node_init(&node, f->event, f->dir, certificate, f->port);
	connect_node(&node, id);
	if (epoch > 0)
		report_nothing(f, &node, epoch);
	if (ret)
		take(f, &node, id, ret);
	lose(f, &node);
	fake_node_release(&node);
}

TEST_ON(a_node_that_is_new_after_purge_unknown_is_missed_by_the_next_restore, struct fixture, f,
	setup_hundred, teardown)
{
	struct backup sunday = {0}, monday = {0};
	struct claim held;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &sunday);
	visit(f, "n3", 0, NULL);
	take_backup(f, &monday);
	restore_and_report(f, &sunday, 1);
	assert_int_equal(purge_unknown(f, NULL), STATUS_OK); /* n3 was scrapped */
	assert_int_equal(history_nodes(f->server), 3);
	visit(f, "n4", 1, &held);
	restore_and_report(f, &monday, 2);
	assert_int_equal(purge(f, "n3", NULL), STATUS_OK);
	expect_waiting(f, 1, 0, "purge --unknown");
}

/* The store went back, and went on: n2's mark is below its index when that is noticed. */
TEST_ON(a_node_is_back_by_a_mark_below_the_index_at_which_the_loss_was_noticed, struct fixture, f,
	setup_three, teardown)
{
	cleanup_pb Holdfast__V1__Mark *early = NULL, *late = NULL;
	struct backup backup = {0};
	struct fake_node n3 = {0};

	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	connect_node(&f->n2, "n2");
	early = mark_copy(f->n2.mark);
	fake_node_init(&n3, f->event, f->dir, "node-n3", f->port);
	for (int i = 0; i < 100; i++)
		assert_int_equal(set_eligible(f, "n2", i % 2 == 1, NULL), STATUS_OK);
	connect_node(&n3, "n3");
	late = mark_copy(n3.mark);
	go_back(f, &backup);
	for (int i = 0; i < 50; i++)
		assert_int_equal(set_eligible(f, "n1", i % 2 == 1, NULL), STATUS_OK);
	assert_in_range(kv_revision(f->server->kv), early->index + 1, late->index - 1);
	renew(f, &n3);
	n3.shows = late;
	fake_node_connect(&n3, "n3", BOOT_1, NULL, 0);
	UNTIL(f, f->server->restarting);
	restart(f);
	assert_int_equal(history_missing_nodes(f->server), 2);
	renew(f, &n3);
	n3.shows = late;
	connect_node(&n3, "n3");
	assert_int_equal(history_missing_nodes(f->server), 1);
	f->n2.shows = early;
	connect_node(&f->n2, "n2");
	assert_int_equal(history_missing_nodes(f->server), 0);
	fake_node_release(&n3);
}

/* --- what a purge says --- */

CLUSTER_TEST(an_unreported_node_is_purged_only_with_a_reason)
{
	struct volume db = {.namespace = "default", .id = "db"};
	struct backup backup = {0};
	struct error err;

	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore(f, &backup, 1);
	join(f, &f->n2, "n2", 1);
	assert_error(purge_for(f, "n1", "", &err), STATUS_FAILED_PRECONDITION, err, "--reason TEXT");
	assert_error(epoch_check(f->server, &db, &err), STATUS_UNAVAILABLE, err, "purge n1 --reason TEXT");
	assert_int_equal(purge_for(f, "n1", "it is scrapped", &err), STATUS_OK);
	assert_int_equal(epoch_check(f->server, &db, &err), STATUS_OK);
	lose(f, &f->n2);
	assert_int_equal(purge_for(f, "n2", "", &err), STATUS_OK); /* it has reported */
}

#define BOOT_3 "b0010000-0000-4000-8000-000000000003"

/* The machine took the volume after the backup. The stored boot is of the machine before. */
TEST_ON(another_boot_of_an_identified_machine_waits_after_a_restore, struct fixture, f, setup_hundred,
	teardown)
{
	struct backup backup = {0};
	struct fake_node thief = {0};
	struct claim held, claim;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	come(&f->n1, "n1", MACHINE_1, BOOT_1);
	connect_node(&f->n2, "n2");
	lose(f, &f->n1);
	come(&f->n1, "n1", MACHINE_2, BOOT_2);
	assert_int_equal(identify(f, "n1", MACHINE_2, NULL), STATUS_OK);
	take_backup(f, &backup);
	connect_node(&f->n2, "n2");
	come(&f->n1, "n1", MACHINE_2, BOOT_2);
	assert_true(f->n1.welcomed);
	take(f, &f->n1, "n1", &held);
	restore_knowing(f, &backup, 1);
	join(f, &f->n2, "n2", 1);
	fake_node_init(&thief, f->event, f->dir, "node-n1", f->port);
	come(&thief, "n1", MACHINE_2, BOOT_3);
	assert_int_equal(thief.closed_status, STATUS_FAILED_PRECONDITION);
	assert_true(run_alloc(f, ALLOC_2, "n2", NULL) != STATUS_OK ||
		    claim_for(&f->n2, ALLOC_2, &claim, NULL) != STATUS_OK);
	fake_node_release(&thief);
}
