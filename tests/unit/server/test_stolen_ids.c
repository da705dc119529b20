/* SPDX-License-Identifier: Apache-2.0 */
/* After a restore the thief of a node's certificate names the id of a claim that another node has from the
 * forgotten time: refusals of the server have such ids. */

#include "asks.h"
#include "restored.h"
#include "unit.h"

#include "base/cleanup.h"
#include "node/session.h"

/* The forgotten claim of n2, on db for ALLOC_2, with its work and its ticket. */
struct forgotten {
	struct claim claim;
	struct alloc alloc;
	struct ticket ticket;
};

static void keep_forgotten(struct fixture *f, struct forgotten *ret)
{
	ret->claim = claim_of(f, ALLOC_2);
	ret->alloc = alloc_of(f, ALLOC_2);
	ret->alloc.task_status = NULL;
	ret->ticket = ticket_of(f, &ret->claim);
	settle(f);
}

/* n1 reports it as its own, for ALLOC_1, which waits for db. */
static void steal(struct fixture *f, struct forgotten *ret)
{
	struct backup backup = {0};
	struct alloc waiting;
	struct claim lie;

	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	settle(f);
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_claim(f, &f->n2, "db", ALLOC_2);
	keep_forgotten(f, ret);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	lie = ret->claim;
	(void)str_copy(lie.node_id, sizeof(lie.node_id), "n1");
	(void)str_copy(lie.allocation_id, sizeof(lie.allocation_id), ALLOC_1);
	waiting = alloc_of(f, ALLOC_1);
	waiting.task_status = NULL;
	report_with(&f->n1, 1, &waiting, &lie, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_string_equal(state_claim(&f->server->state, lie.id)->claim.node_id, "n1");
}

/* n2 connects as its agent does, and reports what it has. @ticket may be NULL */
static void report_what_n2_has(struct fixture *f, uint64_t epoch, const struct forgotten *has,
			       const struct ticket *ticket)
{
	f->n2.has = &has->claim;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_false(f->n2.closed);
	report_with(&f->n2, epoch, &has->alloc, &has->claim, ticket, false);
	UNTIL(f, has_reported(f, "n2"));
	settle(f);
	assert_false(f->n2.closed);
}

/* The claim that n2 has now. */
static struct claim_entry *claim_of_n2(struct fixture *f)
{
	struct claim_entry *entry = LIST_FIRST(&state_node(&f->server->state, "n2")->claims);

	assert_non_null(entry);
	assert_null(LIST_NEXT(entry, of_node));
	return entry;
}

CLUSTER_TEST(the_claim_of_the_node_that_has_the_id_too_is_held_under_another)
{
	struct claim_entry *held;
	struct forgotten has;
	struct claim granted;

	steal(f, &has);
	report_what_n2_has(f, 1, &has, &has.ticket);
	held = claim_of_n2(f);
	assert_string_not_equal(held->id, has.claim.id);
	assert_string_equal(held->claim.allocation_id, ALLOC_2);
	assert_int_equal(held->claim.state, CLAIM_TAKEN);
	assert_int_equal(n_events(f, "node n2", "Claims.Adopt", "which node n1 has: one of them lies"), 1);
	assert_int_equal(state_claim(&f->server->state, has.claim.id)->claim.state, CLAIM_TAKEN);
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &granted, NULL), STATUS_UNAVAILABLE); /* held twice */
}

CLUSTER_TEST(it_is_found_again_in_each_report)
{
	struct backup backup = {0};
	char id[UUID_TEXT_SIZE];
	struct forgotten has;

	steal(f, &has);
	report_what_n2_has(f, 1, &has, &has.ticket);
	memcpy(id, claim_of_n2(f)->id, sizeof(id));
	fake_node_disconnect(&f->n2);
	report_what_n2_has(f, 1, &has, &has.ticket);
	assert_string_equal(claim_of_n2(f)->id, id);
	take_backup(f, &backup);
	restore(f, &backup, 2);
	report_what_n2_has(f, 2, &has, NULL); /* what the store has needs no proof */
	assert_string_equal(claim_of_n2(f)->id, id);
	assert_int_equal(claim_of_n2(f)->claim.state, CLAIM_TAKEN);
}

CLUSTER_TEST(it_is_found_again_when_it_was_taken_back)
{
	char id[UUID_TEXT_SIZE];
	struct forgotten has;

	steal(f, &has);
	report_what_n2_has(f, 1, &has, &has.ticket);
	memcpy(id, claim_of_n2(f)->id, sizeof(id));
	claim_of_n2(f)->claim.state = CLAIM_NODE_DETACHED;
	for (int i = 0; i < 2; i++) {
		fake_node_disconnect(&f->n2);
		report_what_n2_has(f, 1, &has, &has.ticket);
		assert_string_equal(claim_of_n2(f)->id, id);
		claim_of_n2(f)->claim.state = CLAIM_NODE_DETACHED;
	}
}

CLUSTER_TEST(it_is_released_when_its_work_ends)
{
	struct forgotten has;
	struct claim held;

	steal(f, &has);
	report_what_n2_has(f, 1, &has, &has.ticket);
	held = claim_of_n2(f)->claim;
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	fake_node_send_released(&f->n2, &has.claim); /* by the id that it knows, which is not its own */
	UNTIL(f, str_eq(f->n2.last_ack, has.claim.id));
	assert_int_equal(claim_of_n2(f)->claim.state, CLAIM_TAKEN);
	fake_node_send_alloc(&f->n2, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, str_eq(f->n2.last_release, held.id));
	fake_node_send_released(&f->n2, &held);
	UNTIL(f, LIST_EMPTY(&state_node(&f->server->state, "n2")->claims));
	assert_int_equal(state_claim(&f->server->state, has.claim.id)->claim.state, CLAIM_TAKEN);
}

/* The thief's claim was freed, by the evidence that its node is gone. */
CLUSTER_TEST(it_is_held_also_when_the_id_is_a_freed_claims)
{
	struct forgotten has;

	steal(f, &has);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "it was stolen", 0, false, NULL, NULL), STATUS_OK);
	settle(f);
	report_what_n2_has(f, 1, &has, &has.ticket);
	assert_string_not_equal(claim_of_n2(f)->id, has.claim.id);
	assert_int_equal(claim_of_n2(f)->claim.state, CLAIM_TAKEN);
	assert_int_equal(stored_history_of_db(f), 1);
}

/* n1 reports the allocation of n2 as its own: the ticket of n2 shows whose work it is. */
CLUSTER_TEST(work_whose_id_another_node_took_goes_on)
{
	struct backup backup = {0};
	struct forgotten has;
	struct alloc stolen;

	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_claim(f, &f->n2, "db", ALLOC_2);
	keep_forgotten(f, &has);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	stolen = has.alloc;
	(void)str_copy(stolen.node_id, sizeof(stolen.node_id), "n1");
	report_with(&f->n1, 1, &stolen, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	report_what_n2_has(f, 1, &has, &has.ticket);
	assert_int_equal(claim_of_n2(f)->claim.state, CLAIM_TAKEN);
	fake_node_send_alloc(&f->n2, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	settle(f);
	assert_int_equal(f->n2.stops + f->n2.releases, 0);
	fake_node_send_released(&f->n2, &has.claim); /* its work ends by itself */
	UNTIL(f, LIST_EMPTY(&state_node(&f->server->state, "n2")->claims));
}
