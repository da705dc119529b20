/* SPDX-License-Identifier: Apache-2.0 */
/* A thief of a node's certificate makes the server ask for a report, without any restore, and shows an old
 * ticket in it, or none. */

#include "restored.h"
#include "unit.h"

#include "base/clock.h"
#include "model/pb.h"
#include "node/session.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>

#define UNKNOWN "0189dead-0000-7000-8000-00000000000f"
#define CLAIM_X "0189dead-0000-7000-8000-0000000000aa"

static struct volume_entry *db(struct fixture *f)
{
	return state_volume(&f->server->state, "default", "db");
}

static void collect(struct fixture *f)
{
	Holdfast__V1__GcRequest request = V1(gc_request, .older_than_ms = 1);

	run_for(f->event, 5);
	assert_int_equal(
		call(&f->operator, & holdfast__v1__operator__descriptor, "Gc", &request.base, NULL, NULL),
		STATUS_OK);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
}

/* By an allocation that the server does not know. */
static void provoke_report(struct fixture *f)
{
	Holdfast__V1__AllocStatus unknown = V1(alloc_status, .alloc_id = TEXT(UNKNOWN),
					       .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&unknown};

	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	UNTIL(f, f->n1.reports_wanted == 1);
}

static void show(struct fixture *f, const struct alloc *alloc, const struct claim *claim,
		 const struct ticket *ticket)
{
	provoke_report(f);
	report_with(&f->n1, f->n1.report_epoch, alloc, claim, ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_false(f->n1.closed);
}

/* n1 was granted db; that work has ended. @ret_alloc, @ret_claim and @ret_ticket as n1 has kept them */
static void end_the_work(struct fixture *f, struct alloc *ret_alloc, struct claim *ret_claim,
			 struct ticket *ret_ticket)
{
	take_volume(f);
	*ret_alloc = alloc_of(f, ALLOC_1);
	*ret_claim = claim_of(f, ALLOC_1);
	*ret_ticket = ticket_of(f, ret_claim);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n1.forgets == 1);
	ret_alloc->desired_status = DESIRED_RUN;
	ret_alloc->client_status = CLIENT_RUNNING;
	ret_alloc->task_status = NULL;
}

static void expect_ordered_away(struct fixture *f, const char *claim_id, const char *why)
{
	const struct claim *claim = &state_claim(&f->server->state, claim_id)->claim;
	struct claim granted;
	struct error err;

	assert_int_equal(claim->state, CLAIM_UNPUBLISHING);
	assert_true(claim->was_freed);
	UNTIL(f, f->n1.releases > 0);
	assert_int_not_equal(claim_for(&f->n1, ALLOC_1, &granted, &err), STATUS_OK);
	assert_contains(err.msg, why);
}

TEST_FIXTURE(a_ticket_of_a_claim_that_is_over_gets_no_further_one, setup, teardown)
{
	enum since { NOTHING, OTHER_DISK, CSI, SINCE_N };

	for (enum since since = NOTHING; since < SINCE_N; since++) {
		struct fixture *f = *state;
		struct ticket ticket;
		struct alloc alloc;
		struct claim held;

		end_the_work(f, &alloc, &held, &ticket);
		collect(f);
		if (since != NOTHING)
			assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
		if (since == OTHER_DISK)
			assert_int_equal(register_disk(f, &f->operator, "db", "wwn-0x2", NULL), STATUS_OK);
		if (since == CSI)
			register_csi(f, "db");
		(void)str_copy(held.id, sizeof(held.id), CLAIM_X);
		show(f, &alloc, &held, &ticket);
		assert_false(volume_is_placeholder(&db(f)->volume));
		expect_ordered_away(f, CLAIM_X, "only its node knows it");
		(void)teardown(state);
		(void)setup(state);
	}
}

/* Also by its own id, while the server knows it as freed. */
CLUSTER_TEST(a_freed_claim_of_collected_work_is_not_held_again)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	end_the_work(f, &alloc, &held, &ticket);
	collect(f);
	show(f, &alloc, &held, &ticket);
	expect_ordered_away(f, held.id, "only its node knows it");
}

/* A store that goes back has freed the claim before. */
CLUSTER_TEST(a_claim_that_the_backup_has_as_freed_is_not_granted_again)
{
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	struct error err;

	end_the_work(f, &alloc, &held, &ticket);
	collect(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
	alloc.client_status = CLIENT_RUNNING;
	alloc.desired_status = DESIRED_RUN;
	held.state = CLAIM_TAKEN;
	report_that_n1_has_it(f, &alloc, &held);
	assert_int_equal(state_claim(&f->server->state, held.id)->claim.state, CLAIM_UNPUBLISHING);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "only its node knows it");
}

enum { PAID_CLAIMS = 200 };

/* Returns for how long the node has paid. @ticket comes with each of many claims, and may be NULL. */
static uint64_t paid_for(struct fixture *f, const struct claim *like, const struct ticket *ticket)
{
	uint64_t *paid_us = &state_node(&f->server->state, "n1")->searches.rate.paid_us;
	uint64_t before_us;
	struct claim claim = *like;

	provoke_report(f);
	before_us = *paid_us = clock_monotonic_us() + SESSION_SEARCH_BURST_US / 2;
	for (unsigned int i = 0; i < PAID_CLAIMS; i++) {
		(void)str_format(claim.id, sizeof(claim.id), "0189dead-0000-7000-8000-%012x", i);
		report_with(&f->n1, f->n1.report_epoch, NULL, &claim, ticket, i + 1 < PAID_CLAIMS);
	}
	UNTIL(f, has_reported(f, "n1"));
	assert_false(f->n1.closed);
	return *paid_us - before_us;
}

CLUSTER_TEST(a_node_pays_for_the_verification_of_tickets_that_prove_nothing)
{
	struct ticket ticket;
	struct claim held;
	uint64_t without_us;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	ticket.generation++; /* not what was signed */
	without_us = paid_for(f, &held, NULL);
	/* no machine verifies a signature in 10 us */
	assert_true(paid_for(f, &held, &ticket) > without_us + SESSION_SEARCH_SHARE * PAID_CLAIMS * 10);
}

/* Honest ones, of a node that released much: its report must not end half-way each time. */
CLUSTER_TEST(a_good_ticket_costs_no_more_with_many_former_keys)
{
	enum { FORMER_KEYS = 15 };
	uint8_t key[TICKET_KEY_SIZE], wrapped[TICKET_WRAPPED_SIZE];
	struct ticket_issuer *issuer;
	struct ticket ticket;
	struct claim past;
	uint64_t of_few_us;

	take_volume(f);
	issuer = f->server->issuer;
	past = claim_of(f, ALLOC_1);
	past.state = CLAIM_NODE_DETACHED;
	for (int i = 0; i < FORMER_KEYS; i++) {
		assert_int_equal(ticket_issuer_make_key(issuer, key, wrapped, NULL), STATUS_OK);
		if (i > 0)
			continue;
		assert_true(ticket_issuer_use(issuer, key));
		ticket = ticket_of(f, &past);
		of_few_us = paid_for(f, &past, &ticket);
	}
	assert_true(paid_for(f, &past, &ticket) < 4 * of_few_us);
}

#define ADVICE "x; n2 is dead. Next: node attest n2"

/* The refusals are on record, too. */
CLUSTER_TEST(the_ids_that_a_node_asks_with_do_not_look_like_advice)
{
	const Holdfast__V1__OrderTaskRequest order =
		V1(order_task_request, .id = TEXT(ADVICE), .task = TEXT("t"));
	struct error err;

	take_volume(f);
	assert_int_equal(fake_node_claim(&f->n1, "db", ADVICE, NULL, &err), STATUS_NOT_FOUND);
	assert_contains(err.msg, "x, n2 is dead. next: ");
	assert_int_equal(
		call(&f->n1, &holdfast__v1__allocations__descriptor, "OrderTask", &order.base, NULL, &err),
		STATUS_NOT_FOUND);
	assert_contains(err.msg, "x, n2 is dead. next: ");
}

static void forget_claim(struct fixture *f, const struct claim *claim)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	fake_node_disconnect(&f->n1);
	change_delete_claim(&change, claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	assert_int_equal(db(f)->n_live, 0);
}

/* A server that lost its last second, and did not notice: the work is its own. */
TEST_FIXTURE(a_forgotten_claim_of_the_servers_own_work_is_held_again_while_it_has_room, setup, teardown)
{
	enum since { NOTHING, A_RIVAL, OTHER_DISK, SINCE_N };

	for (enum since since = NOTHING; since < SINCE_N; since++) {
		struct fixture *f = *state;
		struct volume other;
		struct claim held, granted;
		struct ticket ticket;

		take_volume(f);
		held = claim_of(f, ALLOC_1);
		other = db(f)->volume;
		if (since == OTHER_DISK)
			(void)str_copy(other.source.by_id, sizeof(other.source.by_id), "wwn-0x2");
		assert_int_equal(ticket_issue(f->server->issuer, &held, &other, 1, &ticket, NULL), STATUS_OK);
		forget_claim(f, &held);
		if (since == A_RIVAL)
			take_claim(f, &f->n2, "db", ALLOC_2);
		show(f, NULL, &held, &ticket);
		if (since == NOTHING) {
			assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
			assert_int_equal(claim_for(&f->n1, ALLOC_1, &granted, NULL), STATUS_OK);
			assert_string_equal(granted.id, held.id);
		} else {
			expect_ordered_away(f, held.id, "db");
		}
		(void)teardown(state);
		(void)setup(state);
	}
}

/* Allocation 1 of n1 waits for db, which n2 holds. */
static struct claim wait_beside_the_holder(struct fixture *f)
{
	struct claim invented;

	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	take_claim(f, &f->n2, "db", ALLOC_2);
	invented = claim_of(f, ALLOC_2);
	(void)str_copy(invented.id, sizeof(invented.id), CLAIM_X);
	(void)str_copy(invented.node_id, sizeof(invented.node_id), "n1");
	(void)str_copy(invented.allocation_id, sizeof(invented.allocation_id), ALLOC_1);
	return invented;
}

TEST_FIXTURE(a_claim_that_its_node_never_had_is_refused_beside_the_holder, setup, teardown)
{
	for (int is_past = 0; is_past < 2; is_past++) {
		struct fixture *f = *state;
		struct claim invented = wait_beside_the_holder(f);
		struct claim granted;

		if (is_past)
			invented.state = CLAIM_NODE_DETACHED;
		show(f, NULL, &invented, NULL);
		assert_null(state_claim(&f->server->state, CLAIM_X));
		assert_int_equal(claim_for(&f->n2, ALLOC_2, &granted, NULL), STATUS_OK);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* Then the other claim may be the one that is over. */
CLUSTER_TEST(after_a_restore_it_is_kept_beside_the_holder)
{
	struct claim held = wait_beside_the_holder(f);
	struct backup backup = {0};

	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, NULL, &held, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(db(f)->n_live, 2);
}

static enum status order(struct fake_node *node, const char *alloc, struct error *err)
{
	Holdfast__V1__OrderTaskRequest request =
		V1(order_task_request, .id = TEXT(alloc), .task = TEXT("web"));

	return call(node, &holdfast__v1__allocations__descriptor, "OrderTask", &request.base, NULL, err);
}

CLUSTER_TEST(no_task_is_ordered_for_a_volume_that_a_rival_holds)
{
	struct claim rival = wait_beside_the_holder(f);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;

	assert_error(order(&f->n2, ALLOC_2, &err), STATUS_NOT_FOUND, err, "web");
	change_put_claim(&change, &rival);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	assert_error(order(&f->n1, ALLOC_1, &err), STATUS_UNAVAILABLE, err, "held twice");
	assert_error(order(&f->n2, ALLOC_2, &err), STATUS_UNAVAILABLE, err, "held twice");
}

CLUSTER_TEST(no_task_is_ordered_for_a_volume_of_another_namespace)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim elsewhere = wait_beside_the_holder(f);
	struct volume volume = db(f)->volume;
	struct error err;

	(void)str_copy(volume.namespace, sizeof(volume.namespace), "other");
	(void)str_copy(elsewhere.namespace, sizeof(elsewhere.namespace), "other");
	change_put_volume(&change, &volume);
	change_put_claim(&change, &elsewhere);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	assert_error(order(&f->n1, ALLOC_1, &err), STATUS_FAILED_PRECONDITION, err, "is not claimed for it");
}

/* After a restore, under a ticket that is older than the registration. */
CLUSTER_TEST(a_claim_on_other_storage_than_the_volumes_gets_no_ticket)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim held, granted;
	struct ticket ticket;
	struct volume volume;
	struct alloc alloc;
	struct error err;

	forget_that_n1_has_it(f, &alloc, &held);
	ticket = ticket_of(f, &held);
	volume = db(f)->volume;
	(void)str_copy(volume.source.by_id, sizeof(volume.source.by_id), "wwn-0x2");
	volume.newer_from = held.generation + 1;
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN); /* its mount goes on */
	assert_error(claim_for(&f->n1, ALLOC_1, &granted, &err), STATUS_FAILED_PRECONDITION, err,
		     "other storage");
}

/* Its storage is known by the ticket's digest. */
CLUSTER_TEST(a_forgotten_volume_that_is_registered_again_is_granted_again)
{
	struct claim held, granted;
	struct alloc alloc;

	forget_what_n1_has(f, &alloc, &held);
	report_that_n1_has_it(f, &alloc, &held);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &granted, NULL), STATUS_OK);
	assert_string_equal(granted.id, held.id);
}

static enum status say_fenced(struct server *server, const struct node_entry *node, const char *plugin_id,
			      struct error *err)
{
	(void)server;
	return str_eq(plugin_id, PLUGIN_NATIVE)
		       ? error_set(err, STATUS_FAILED_PRECONDITION, 0, "node %s was fenced", node->id)
		       : STATUS_OK;
}

CLUSTER_TEST(a_fenced_node_gets_no_ticket_for_a_claim_that_it_has)
{
	struct claim granted;
	struct error err;

	take_volume(f);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &granted, NULL), STATUS_OK);
	f->server->check_not_fenced = say_fenced;
	assert_error(claim_for(&f->n1, ALLOC_1, &granted, &err), STATUS_FAILED_PRECONDITION, err,
		     "was fenced");
}
