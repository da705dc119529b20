/* SPDX-License-Identifier: Apache-2.0 */
/* After a restore, a node with a valid certificate that lies about what it holds. */

#include "restored.h"
#include "unit.h"

#include "base/clock.h"
#include "model/pb.h"
#include "node/session.h"
#include "recovery/restore_proof.h"
#include "state/change.h"
#include "state/keys.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <ticket.h>

#define CLAIM_X "01890000-0000-7000-8000-00000000c0fe"
#define CLAIM_Y "01890000-0000-7000-8000-00000000c0ff"
#define ALLOC_4 "01890004-0000-7000-" ID_MARK

static struct volume_entry *db(struct fixture *f)
{
	return state_volume(&f->server->state, "default", "db");
}

TEST_FIXTURE(a_claim_is_adopted_only_with_the_ticket_that_was_made_for_it, setup, teardown)
{
	enum lie { NO_TICKET, SHORT_OF_A_BIT, OF_NODE, OF_BOOT, OF_ALLOC, OF_VOLUME, OF_GENERATION, LIES };

	for (enum lie lie = NO_TICKET; lie <= LIES; lie++) { /* LIES: the truth */
		struct fixture *f = *state;
		struct claim held, other;
		struct ticket ticket;
		struct alloc alloc;
		uint64_t n_records;

		forget_that_n1_has_it(f, &alloc, &held);
		connect_node(&f->n1, "n1");
		n_records = audit_head(f->server).sequence;
		other = held;
		if (lie == OF_NODE)
			(void)str_copy(other.node_id, sizeof(other.node_id), "n2");
		if (lie == OF_BOOT)
			(void)str_copy(other.boot_id, sizeof(other.boot_id), BOOT_2);
		if (lie == OF_ALLOC)
			(void)str_copy(other.allocation_id, sizeof(other.allocation_id), ALLOC_2);
		if (lie == OF_VOLUME)
			(void)str_copy(other.volume_id, sizeof(other.volume_id), "other");
		if (lie == OF_GENERATION)
			held.generation++;
		ticket = ticket_of(f, &other);
		if (lie == SHORT_OF_A_BIT)
			ticket.not_after_ms ^= 1;
		report_with(&f->n1, 1, &alloc, &held, lie == NO_TICKET ? NULL : &ticket, false);
		UNTIL(f, has_reported(f, "n1")); /* the lie does not keep others waiting */
		assert_false(f->n1.closed);
		assert_int_equal(db(f)->n_live, lie == LIES);
		/* the allocation, the claim or that it was refused, and that the node has reported */
		assert_int_equal(audit_head(f->server).sequence, n_records + 3);
		(void)teardown(state);
		(void)setup(state);
	}
}

CLUSTER_TEST(a_claim_that_the_store_knows_needs_no_ticket)
{
	struct backup backup = {0};
	struct alloc alloc;
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	alloc = alloc_of(f, ALLOC_1);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* It could have had it by asking. */
TEST_FIXTURE(a_claim_for_work_that_the_store_knows_needs_no_ticket, setup, teardown)
{
	for (int is_writer = 0; is_writer < 2; is_writer++) {
		struct fixture *f = *state;
		struct backup backup = {0};
		struct claim held;

		f->read_only = !is_writer;
		f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_SINGLE_WRITER;
		assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
		connect_node(&f->n1, "n1");
		assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
		take_backup(f, &backup);
		connect_node(&f->n1, "n1");
		assert_int_equal(claim_for(&f->n1, ALLOC_1, &held, NULL), STATUS_OK);
		restore(f, &backup, 1);
		connect_node(&f->n1, "n1");
		held.mode = CLAIM_WRITE; /* more than was asked for, the first time */
		report_with(&f->n1, 1, NULL, &held, NULL, false);
		UNTIL(f, has_reported(f, "n1"));
		assert_int_equal(db(f)->n_live, is_writer);
		(void)teardown(state);
		(void)setup(state);
	}
}

CLUSTER_TEST(work_that_a_node_invents_gets_no_volume)
{
	struct alloc invented;
	struct claim held, claim;
	struct error err;

	forget_that_n1_has_it(f, &invented, &held);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	(void)str_copy(invented.id, sizeof(invented.id), ALLOC_3);
	invented.adopted = false;
	report(f, &f->n1, 1, &invented, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_true(alloc_of(f, ALLOC_3).adopted);
	assert_int_equal(claim_for(&f->n1, ALLOC_3, &claim, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "holdfast alloc stop " ALLOC_3));
	restart(f); /* it is not forgotten either */
	connect_node(&f->n1, "n1");
	assert_int_equal(claim_for(&f->n1, ALLOC_3, &claim, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(db(f)->n_live, 0);
}

CLUSTER_TEST(forgotten_work_gets_fresh_tickets_for_its_claims)
{
	struct alloc alloc;
	struct claim held, claim;

	forget_that_n1_has_it(f, &alloc, &held);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_int_equal(claim_for(&f->n1, ALLOC_1, &claim, NULL), STATUS_OK);
	assert_string_equal(claim.id, held.id);
}

static void run_first_and_db(struct fixture *f)
{
	Holdfast__V1__VolumeRequest first =
		V1(volume_request, .name = "first", .source = "first", .access_mode = f->access_mode);
	Holdfast__V1__VolumeRequest second =
		V1(volume_request, .name = "data", .source = "db", .access_mode = f->access_mode);
	Holdfast__V1__VolumeRequest *volumes[] = {&first, &second};
	Holdfast__V1__Allocation alloc = V1(allocation, .id = ALLOC_1, .name = "app", .node_id = "n1",
					    .volumes = volumes, .n_volumes = ARRAY_SIZE(volumes));
	Holdfast__V1__RunAllocationRequest run = V1(run_allocation_request, .allocation = &alloc);

	assert_int_equal(
		call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &run.base, NULL, NULL),
		STATUS_OK);
}

/* Work with the volumes "first" and "db" got the latter after the backup. n1 reports it with the given ones.
 * n = 0: the backup has the work, and n1 has lost the ticket. */
static void expect_slot_after_report(struct fixture *f, size_t n, const char *const sources[])
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *granted = NULL, *fresh = NULL;
	struct volume_request volumes[2];
	struct backup backup = {0};
	struct alloc alloc;
	struct ticket ticket;
	struct claim held;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(register_disk(f, &f->operator, "first", "wwn-0x2", NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	if (n == 0)
		run_first_and_db(f);
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	if (n > 0)
		run_first_and_db(f);
	assert_succeeds(fake_node_claim(&f->n1, "db", ALLOC_1, &granted, &err), err);
	memcpy(&ticket, granted->ticket.data, sizeof(ticket));
	assert_int_equal(ticket.slot, 1);
	assert_succeeds(claim_from_pb(granted->claim, &held, &err), err);
	held.state = CLAIM_TAKEN;
	alloc = alloc_of(f, ALLOC_1);
	restore(f, &backup, 1);
	for (size_t i = 0; i < n; i++)
		volumes[i] = alloc.volumes[str_eq(sources[i], "db")];
	if (n > 0) {
		alloc.volumes = volumes;
		alloc.n_volumes = (uint32_t)n;
	}
	alloc.client_status = CLIENT_RUNNING;
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	report_with(&f->n1, 1, &alloc, &held, n > 0 ? &ticket : NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_int_equal(db(f)->n_live, 1);
	assert_succeeds(fake_node_claim(&f->n1, "db", ALLOC_1, &fresh, &err), err);
	memcpy(&ticket, fresh->ticket.data, sizeof(ticket));
	assert_int_equal(ticket.slot, 1);
}

CLUSTER_TEST(forgotten_work_with_several_volumes_gets_tickets_for_their_slots)
{
	static const char *const sources[] = {"first", "db"};

	expect_slot_after_report(f, 2, sources);
}

CLUSTER_TEST(forgotten_work_whose_node_swaps_its_volumes_gets_no_other_slot)
{
	static const char *const sources[] = {"db", "first"};

	expect_slot_after_report(f, 2, sources);
}

CLUSTER_TEST(forgotten_work_whose_node_leaves_a_volume_out_gets_no_other_slot)
{
	static const char *const sources[] = {"db"};

	expect_slot_after_report(f, 1, sources);
}

CLUSTER_TEST(known_work_whose_ticket_is_lost_gets_a_ticket_for_its_slot)
{
	expect_slot_after_report(f, 0, NULL);
}

/* The node can show that ticket in a report. */
CLUSTER_TEST(the_ticket_of_an_order_to_release_has_the_slot_of_the_grant)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(register_disk(f, &f->operator, "first", "wwn-0x2", NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	run_first_and_db(f);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.releases >= 1);
	assert_true(f->n1.last_release_has_ticket);
	assert_int_equal(f->n1.last_release_ticket.slot, 1);
}

CLUSTER_TEST(one_ticket_proves_one_claim)
{
	struct alloc alloc;
	struct claim held;

	forget_that_n1_has_it(f, &alloc, &held);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, &held, true);
	(void)str_copy(held.id, sizeof(held.id), CLAIM_X);
	report(f, &f->n1, 1, NULL, &held, true);
	(void)str_copy(held.id, sizeof(held.id), CLAIM_Y);
	report(f, &f->n1, 1, NULL, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(db(f)->n_live, 1);
}

/* A hello with an allocation that the server does not know makes it ask for a report. */
static void connect_with_unknown_work(struct fixture *f)
{
	Holdfast__V1__AllocStatus status = V1(alloc_status, .alloc_id = ALLOC_4,
					      .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING),
				  *list[] = {&status};

	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	UNTIL(f, f->n1.reports_wanted == 1);
}

TEST_FIXTURE(one_ticket_proves_no_more_claims_in_many_reports, setup, teardown)
{
	for (int is_collected = 0; is_collected < 2; is_collected++) {
		struct fixture *f = *state;
		struct alloc alloc;
		struct claim held;

		forget_that_n1_has_it(f, &alloc, &held);
		connect_node(&f->n1, "n1");
		report(f, &f->n1, 1, is_collected ? NULL : &alloc, &held, false);
		UNTIL(f, has_reported(f, "n1"));
		for (int i = 0; i < 12; i++) {
			connect_with_unknown_work(f);
			(void)str_format(held.id, sizeof(held.id), "01890000-0000-7000-8000-0000000000%02d",
					 10 + i);
			report(f, &f->n1, 1, NULL, &held, false);
			UNTIL(f, !state_node(&f->server->state, "n1")->node.report_wanted);
		}
		assert_int_equal(db(f)->n_live, 8);
		(void)teardown(state);
		(void)setup(state);
	}
}

CLUSTER_TEST(claims_of_many_collected_allocations_on_one_volume_are_adopted)
{
	struct alloc alloc;
	struct claim held;

	forget_that_n1_has_it(f, &alloc, &held);
	connect_node(&f->n1, "n1");
	for (int i = 0; i < 10; i++) {
		(void)str_format(held.id, sizeof(held.id), "01890000-0000-7000-8000-0000000000%02d", 10 + i);
		(void)str_format(held.allocation_id, sizeof(held.allocation_id),
				 "01890000-0000-7000-8000-0000000001%02d", i);
		report(f, &f->n1, 1, NULL, &held, i < 9);
	}
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(db(f)->n_live, 10);
}

CLUSTER_TEST(allocations_that_only_their_node_knows_have_a_limit_in_bytes)
{
	struct node_entry *node;
	struct alloc alloc;
	struct claim held;

	forget_that_n1_has_it(f, &alloc, &held);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, &held, true);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_1));
	node = state_node(&f->server->state, "n1");
	assert_in_range(node->adopted_bytes, sizeof(struct alloc_entry), 16384);
	assert_int_equal(node->adopted_bytes, state_alloc(&f->server->state, ALLOC_1)->bytes);
	fake_node_disconnect(&f->n1);
	restart(f);
	node = state_node(&f->server->state, "n1");
	assert_in_range(node->adopted_bytes, sizeof(struct alloc_entry), 16384);
	connect_node(&f->n1, "n1");
	node->adopted_bytes = SESSION_ADOPTED_BYTES_MAX; /* by earlier reports */
	(void)str_copy(alloc.id, sizeof(alloc.id), ALLOC_3);
	report(f, &f->n1, 1, &alloc, NULL, false);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	assert_null(state_alloc(&f->server->state, ALLOC_3));
}

CLUSTER_TEST(adoptions_of_a_node_have_a_rate_after_one_whole_report)
{
	struct node_entry *node;
	struct alloc alloc;
	struct claim held;
	char more[RATE_MORE_SIZE];

	forget_that_n1_has_it(f, &alloc, &held);
	connect_node(&f->n1, "n1");
	node = state_node(&f->server->state, "n1");
	for (int i = 1; i < SESSION_REPORT_OBJECTS_MAX; i++)
		assert_true(rate_take_counted(&node->adoptions, SESSION_ADOPTION_COST_US,
					      SESSION_REPORT_OBJECTS_MAX, clock_monotonic_us(), more));
	report(f, &f->n1, 1, &alloc, NULL, true);
	UNTIL(f, state_alloc(&f->server->state, ALLOC_1));
	report(f, &f->n1, 1, NULL, &held, false);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(db(f)->n_live, 0);
	run_for(f->event, 1100);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, NULL, &held, false); /* continued */
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(db(f)->n_live, 1);
}

CLUSTER_TEST(the_mode_is_the_tickets)
{
	struct alloc alloc;
	struct claim held;
	struct ticket ticket;

	forget_that_n1_has_it(f, &alloc, &held);
	ticket = ticket_of(f, &held);
	held.mode = CLAIM_READ;
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(claim_of(f, ALLOC_1).mode, CLAIM_WRITE);
}

CLUSTER_TEST(the_propagation_is_the_tickets)
{
	struct alloc alloc;
	struct claim held;
	struct ticket ticket;

	forget_that_n1_has_it(f, &alloc, &held);
	ticket = ticket_of(f, &held);
	held.propagation = PROPAGATION_BIDIRECTIONAL;
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(claim_of(f, ALLOC_1).propagation, PROPAGATION_PRIVATE);
}

CLUSTER_TEST(volume_fields_come_from_the_store_not_the_node)
{
	struct alloc alloc;
	struct claim held, claim;

	forget_that_n1_has_it(f, &alloc, &held);
	assert_string_equal(held.profile, db(f)->volume.profile);
	(void)str_copy(held.profile, sizeof(held.profile), "other");
	(void)str_copy(held.external_id, sizeof(held.external_id), "elsewhere");
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	claim = claim_of(f, ALLOC_1);
	assert_true(claim.adopted);
	assert_string_equal(claim.profile, db(f)->volume.profile);
	assert_true(claim_is_on_storage(&claim, &db(f)->volume));
	assert_string_not_equal(claim.external_id, "elsewhere");
}

TEST_FIXTURE(a_report_has_one_ticket_per_claim_or_no_ticket, setup, teardown)
{
	for (size_t n = 0; n < 3; n++) {
		struct fixture *f = *state;
		ProtobufCBinaryData tickets[3] = {{0}};
		Holdfast__V1__NodeReport pb = V1(node_report, .epoch = 1, .tickets = tickets, .n_tickets = n);
		struct alloc alloc;
		struct claim held;

		forget_that_n1_has_it(f, &alloc, &held);
		connect_node(&f->n1, "n1");
		fake_node_send_report(&f->n1, &pb);
		if (n == 0)
			UNTIL(f, has_reported(f, "n1"));
		else
			UNTIL(f, f->n1.closed);
		assert_int_equal(has_reported(f, "n1"), n == 0);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* An honest node's ticket is of the key that was used then. */
static void a_new_key(struct fixture *f)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/ticket.key", f->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
}

CLUSTER_TEST(after_a_change_of_the_key_nodes_are_believed_until_the_next_epoch)
{
	struct backup backup = {0};
	struct backup second = {0};
	struct alloc alloc;
	struct claim held;
	struct ticket ticket;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	take_volume(f);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	restart_with(f, a_new_key);
	take_backup(f, &second);
	restore(f, &backup, 1);
	restart(f); /* nor does a start settle it */
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(db(f)->n_live, 1);
	restore(f, &second, 2); /* knows the new key, and that it is used */
	connect_node(&f->n1, "n1");
	(void)str_copy(held.id, sizeof(held.id), CLAIM_X);
	(void)str_copy(held.allocation_id, sizeof(held.allocation_id), ALLOC_2);
	report_with(&f->n1, 2, NULL, &held, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_null(state_claim(&f->server->state, CLAIM_X));
}

/* The store is of a version with another form of tickets, which this server cannot read. */
CLUSTER_TEST(after_a_change_of_the_tickets_form_nodes_are_believed_until_the_next_epoch)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__TicketKey earlier = HOLDFAST__V1__TICKET_KEY__INIT;
	uint8_t key[TICKET_KEY_SIZE];
	struct backup backup = {0};
	struct alloc alloc;
	struct claim held;
	struct error err;

	ticket_issuer_public_key(f->server->issuer, key);
	earlier.public_key = (ProtobufCBinaryData){.len = sizeof(key), .data = key};
	earlier.version = TICKET_VERSION + 1;
	change_put_record(&change, KEY_TICKET_KEY, &earlier.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	forget_that_n1_has_it(f, &alloc, &held);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report_with(&f->n1, 1, &alloc, &held, NULL, false);
	report_with(&f->n2, 1, NULL, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_int_equal(db(f)->n_live, 1);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION);
	take_backup(f, &backup); /* today's form is on record */
	restore(f, &backup, 2);
	connect_node(&f->n1, "n1");
	(void)str_copy(held.id, sizeof(held.id), CLAIM_X);
	(void)str_copy(held.allocation_id, sizeof(held.allocation_id), CLAIM_Y);
	report_with(&f->n1, 2, NULL, &held, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_null(state_claim(&f->server->state, CLAIM_X));
}
