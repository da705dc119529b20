/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of trails: kept with what they come with, bounded, and never taken back. */

#include "cluster.h"
#include "unit.h"

#include "access/audit_read.h"
#include "base/join.h"
#include "node/trails.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/operator.pb-c.h>
#include <openssl/sha.h>

static uint8_t digest[SHA256_DIGEST_LENGTH];
static Holdfast__V1__TrailHead head;

/* The head at @record of the chain @chain. */
static Holdfast__V1__TrailHead *head_of(uint64_t record, char chain)
{
	memset(digest, chain, sizeof(digest));
	digest[0] = (uint8_t)record;
	head = (Holdfast__V1__TrailHead)HOLDFAST__V1__TRAIL_HEAD__INIT;
	head.record = record;
	head.sha256 = (ProtobufCBinaryData){.len = sizeof(digest), .data = digest};
	return &head;
}

static const Holdfast__V1__NodeTrail *trail_of(struct fixture *f, const char *node)
{
	char key[64];

	(void)str_join(key, sizeof(key), PREFIX_TRAIL, node);
	return records_get(&f->server->state.records, key);
}

static uint64_t last_of(struct fixture *f)
{
	const Holdfast__V1__NodeTrail *trail = trail_of(f, "n1");

	return trail && trail->n_heads > 0 ? trail->heads[trail->n_heads - 1]->record : 0;
}

/* In a transaction of its own. */
static void show(struct fixture *f, Holdfast__V1__TrailHead *shown, bool must_grow)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	trails_take(f->server, &change, "n1", shown, must_grow);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
}

static size_t records_of(struct fixture *f)
{
	cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;
	Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .object = "node n1");
	size_t n = 0;

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_int_equal(audit_list(f->server, &request, &page, NULL), STATUS_OK);
	for (size_t i = 0; i < page->n_records; i++)
		n += str_eq(page->records[i]->what, "Nodes.Trail");
	return n;
}

CLUSTER_TEST(receipts_and_hello_leave_the_head_for_good)
{
	static uint8_t value;
	ProtobufCMessageUnknownField unknown = {15, PROTOBUF_C_WIRE_TYPE_VARINT, 1, &value};

	f->n1.trail = head_of(7, 'a');
	take_volume(f);
	assert_int_equal(last_of(f), 7);
	assert_true(trail_of(f, "n1")->heads[0]->time_ms > 0);
	assert_null(trail_of(f, "n2"));
	restart(f);
	assert_int_equal(last_of(f), 7);
	f->n1.trail = head_of(9, 'a');
	head.base.unknown_fields = &unknown;
	head.base.n_unknown_fields = 1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(last_of(f), 9);
	assert_int_equal(trail_of(f, "n1")->heads[1]->base.n_unknown_fields, 0);
	assert_int_equal(trail_of(f, "n1")->n_heads, 2);
	assert_int_equal(trail_of(f, "n1")->n_breaks, 0);
	assert_int_equal(records_of(f), 1); /* not with each head */
}

static enum status accept_trail(struct fixture *f, const Holdfast__V1__AcceptTrailRequest *request)
{
	return call(&f->operator, & holdfast__v1__operator__descriptor, "AcceptTrail", &request->base, NULL,
		    NULL);
}

/* Of the receipt for a fresh claim, with @shown. */
static uint64_t transactions_of_mounted(struct fixture *f, const char *volume, const char *alloc,
					Holdfast__V1__TrailHead *shown)
{
	struct claim claim;
	uint64_t before;

	f->source = volume;
	assert_int_equal(run_alloc(f, alloc, "n1", NULL), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, volume, alloc, NULL, NULL), STATUS_OK);
	settle(f);
	claim = claim_of(f, alloc);
	before = kv_stats(f->server->kv).transactions;
	f->n1.trail = shown;
	fake_node_send_mounted(&f->n1, &claim);
	UNTIL(f, state_of(f, alloc) == CLAIM_TAKEN);
	settle(f);
	return kv_stats(f->server->kv).transactions - before;
}

CLUSTER_TEST(a_head_takes_no_transaction_of_its_own)
{
	uint64_t without;

	take_volume(f);
	assert_int_equal(register_disk(f, &f->operator, "d2", "wwn-0x2", NULL), STATUS_OK);
	assert_int_equal(register_disk(f, &f->operator, "d3", "wwn-0x3", NULL), STATUS_OK);
	without = transactions_of_mounted(f, "d2", ALLOC_2, NULL);
	assert_int_equal(transactions_of_mounted(f, "d3", ALLOC_3, head_of(7, 'a')), without);
	assert_int_equal(last_of(f), 7);
}

CLUSTER_TEST(a_malformed_trail_head_is_ignored)
{
	show(f, head_of(0, 'a'), false);
	(void)head_of(3, 'a');
	head.sha256.len--;
	show(f, &head, false);
	assert_null(trail_of(f, "n1"));
}

CLUSTER_TEST(a_trail_that_goes_back_is_a_break_on_record_that_stays)
{
	const Holdfast__V1__NodeTrail *trail;

	show(f, head_of(50, 'a'), false);
	show(f, head_of(31, 'b'), false);
	trail = trail_of(f, "n1");
	assert_int_equal(trail->n_breaks, 1);
	assert_int_equal(trail->breaks[0]->kept->record, 50);
	assert_int_equal(trail->breaks[0]->shown->record, 31);
	assert_int_equal(records_of(f), 2);
	show(f, head_of(90, 'b'), false); /* it grows beyond the one that was kept */
	assert_int_equal(last_of(f), 90);
	assert_int_equal(trail_of(f, "n1")->n_breaks, 1);
	assert_int_equal(metric_of(f, "trails_broken"), 1);
	restart(f);
	assert_int_equal(metric_of(f, "trails_broken"), 1);
}

CLUSTER_TEST(a_break_that_a_person_answers_for_is_gone_and_stays_on_record)
{
	char reason[] = "reinstalled";
	Holdfast__V1__AcceptTrailRequest request =
		V1(accept_trail_request, .node_id = "n9", .reason = reason);
	size_t n_records;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	show(f, head_of(50, 'a'), false);
	show(f, head_of(31, 'b'), false);
	n_records = records_of(f);
	assert_int_equal(accept_trail(f, &request), STATUS_NOT_FOUND);
	request.node_id = "n1";
	request.reason = TEXT(protobuf_c_empty_string);
	assert_int_equal(accept_trail(f, &request), STATUS_INVALID_ARGUMENT);
	assert_int_equal(metric_of(f, "trails_broken"), 1);
	request.reason = reason;
	assert_int_equal(accept_trail(f, &request), STATUS_OK);
	assert_int_equal(metric_of(f, "trails_broken"), 0);
	assert_int_equal(last_of(f), 31); /* what was shown is kept */
	assert_int_equal(accept_trail(f, &request), STATUS_OK);
	restart(f);
	assert_int_equal(metric_of(f, "trails_broken"), 0);
	assert_int_equal(records_of(f), n_records);
	show(f, head_of(12, 'c'), false);
	assert_int_equal(metric_of(f, "trails_broken"), 1);
}

CLUSTER_TEST(another_hash_of_the_same_record_is_a_break)
{
	show(f, head_of(50, 'a'), false);
	show(f, head_of(50, 'a'), false);
	assert_int_equal(trail_of(f, "n1")->n_breaks, 0);
	show(f, head_of(50, 'b'), false);
	assert_int_equal(trail_of(f, "n1")->n_breaks, 1);
}

CLUSTER_TEST(trail_breaks_and_their_records_are_bounded)
{
	const Holdfast__V1__NodeTrail *trail;

	for (uint64_t i = 0; i < 40; i++)
		show(f, head_of(100 - i, 'a'), false);
	trail = trail_of(f, "n1");
	assert_int_equal(trail->n_breaks, TRAIL_BREAKS_MAX);
	assert_int_equal(trail->breaks[0]->kept->record, 100); /* the honest one is not pushed out */
	assert_int_equal(trail->breaks[TRAIL_BREAKS_MAX - 1]->shown->record, 61);
	assert_int_equal(records_of(f), 1 + TRAIL_BREAKS_MAX);
}

CLUSTER_TEST(old_heads_are_kept_ever_more_sparsely)
{
	const Holdfast__V1__NodeTrail *trail;

	for (uint64_t i = 1; i <= 300; i++)
		show(f, head_of(10 * i, 'a'), false);
	trail = trail_of(f, "n1");
	assert_int_equal(trail->n_heads, TRAIL_HEADS_MAX);
	assert_int_equal(trail->heads[0]->record, 10);
	for (size_t i = 1; i < trail->n_heads; i++)
		assert_true(trail->heads[i]->record > trail->heads[i - 1]->record);
	/* of the last hundredth, of the last tenth and of the rest there are some */
	assert_int_equal(trail->heads[TRAIL_HEADS_MAX - 1]->record, 3000);
	assert_true(trail->heads[TRAIL_HEADS_MAX - 2]->record >= 2970);
	assert_true(trail->heads[TRAIL_HEADS_MAX / 2]->record >= 2000);
	assert_true(trail->heads[2]->record <= 2000);
}

CLUSTER_TEST(a_mount_without_a_new_head_makes_the_age_grow_until_there_is_one)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__NodeTrail old = V1(node_trail, .node_id = "n1");

	take_volume(f); /* its receipt has no head */
	assert_int_equal(metric_of(f, "trails_behind"), 1);
	old.behind_since_ms = clock_realtime_ms() - 3600 * 1000;
	change_put_record(&change, PREFIX_TRAIL "n1", &old.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	show(f, NULL, true); /* it counts from the first one */
	assert_in_range(metric_of(f, "trail_head_age_seconds_max"), 3600, 3700);
	show(f, head_of(4, 'a'), true);
	assert_int_equal(metric_of(f, "trail_head_age_seconds_max"), 0);
	show(f, head_of(4, 'a'), true); /* the same one again is no change */
	assert_int_equal(metric_of(f, "trails_behind"), 1);
	show(f, head_of(5, 'a'), false);
	assert_int_equal(metric_of(f, "trails_behind"), 0);
}

CLUSTER_TEST(a_purge_leaves_the_last_head_in_the_audit_alone)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	show(f, head_of(50, 'a'), false);
	trails_forget(f->server, &change, "n1");
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
	assert_null(trail_of(f, "n1"));
	assert_int_equal(records_of(f), 2);
}
