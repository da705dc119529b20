/* SPDX-License-Identifier: Apache-2.0 */
/* A thief of a node's certificate makes the server ask for a report, without any restore, and shows an old
 * ticket in it, or none. */

#include "restored.h"
#include "unit.h"

#include <holdfast/v1/allocations.pb-c.h>

#define CLAIM_X "0189dead-0000-7000-8000-0000000000aa"

static struct volume_entry *db(struct fixture *f)
{
	return state_volume(&f->server->state, "default", "db");
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
