/* SPDX-License-Identifier: Apache-2.0 */
/* Claims that are freed are in the store alone: what the server has in memory and reads at its start does not
 * grow with them, and who asks about one is answered as if it had never left. */

#include "asks.h"
#include "cluster.h"
#include "load.h"
#include "unit.h"

#include "base/clock.h"
#include "base/join.h"
#include "node/session.h"
#include "state/change.h"
#include "state/keys.h"
#include "volume/why.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

/* The volume was n1's, by an allocation that is said to run on, and is free. */
static struct claim hold_and_release(struct fixture *f)
{
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, f->n1.acks == 2);
	settle(f);
	return claim_of(f, ALLOC_1);
}

static void expect_none_in_memory(struct fixture *f)
{
	assert_null(state_claim_from(&f->server->state, ""));
	assert_true(LIST_EMPTY(&f->server->state.recalled));
	assert_int_equal(f->server->state.n_claims_by[CLAIM_FREED], 0);
}

static void expect_shown(struct fixture *f, const struct claim *claim)
{
	Holdfast__V1__GetAllocationRequest of_alloc = V1(get_allocation_request, .id = ALLOC_1);
	Holdfast__V1__GetVolumeRequest of_volume = V1(get_volume_request, .id = "db");
	Holdfast__V1__GetVolumeResponse *volume;
	Holdfast__V1__GetAllocationResponse *allocation;
	cleanup_free char *why = volume_why(f->server, state_volume(&f->server->state, "default", "db"));
	ProtobufCMessage *message = NULL;

	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &of_volume.base, &message,
		       NULL));
	volume = (void *)message;
	assert_int_equal(volume->volume->n_claims, 1);
	assert_string_equal(volume->volume->claims[0]->id, claim->id);
	assert_int_equal(volume->volume->claims[0]->state, HOLDFAST__V1__CLAIM_STATE__FREED);
	assert_int_equal(volume->volume->claims[0]->create_index, claim->create_index);
	assert_int_equal(volume->volume->claims[0]->modify_index, claim->modify_index);
	protobuf_c_message_free_unpacked(message, NULL);
	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Get", &of_alloc.base, &message,
		       NULL));
	allocation = (void *)message;
	assert_int_equal(allocation->n_claims, 1);
	assert_string_equal(allocation->claims[0]->id, claim->id);
	assert_true(allocation->index >= claim->modify_index);
	protobuf_c_message_free_unpacked(message, NULL);
	assert_non_null(strstr(why, "last: was held for write by allocation " ALLOC_1 " on node n1"));
	assert_non_null(strstr(why, "evidence: receipt"));
}

CLUSTER_TEST(a_freed_claim_is_in_no_memory_and_is_shown_as_before)
{
	struct claim freed = hold_and_release(f);

	assert_true(freed.create_index > 0 && freed.modify_index > freed.create_index);
	expect_none_in_memory(f);
	expect_shown(f, &freed);
	restart(f);
	expect_none_in_memory(f);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation, 1);
	freed.modify_index = claim_of(f, ALLOC_1).modify_index;
	assert_int_equal(claim_of(f, ALLOC_1).create_index, freed.create_index);
}

static uint64_t read_volume(struct fixture *f, uint64_t after)
{
	Holdfast__V1__GetVolumeRequest request =
		V1(get_volume_request, .id = "db", .index = after, .wait_ms = 300 * 1000);
	cleanup_pb ProtobufCMessage *message = NULL;

	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, &message,
		       NULL));
	return ((Holdfast__V1__GetVolumeResponse *)message)->index;
}

static uint64_t read_alloc(struct fixture *f, uint64_t after)
{
	Holdfast__V1__GetAllocationRequest request =
		V1(get_allocation_request, .id = ALLOC_1, .index = after, .wait_ms = 300 * 1000);
	cleanup_pb ProtobufCMessage *message = NULL;

	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Get", &request.base, &message,
		       NULL));
	return ((Holdfast__V1__GetAllocationResponse *)message)->index;
}

/* Neither the volume nor the allocation was stored with it. */
CLUSTER_TEST(a_read_that_waits_from_before_a_restart_sees_a_claim_freed)
{
	uint64_t volume, alloc;
	struct claim claim;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	take_volume(f);
	take_claim(f, &f->n2, "db", ALLOC_2);
	volume = read_volume(f, 0);
	alloc = read_alloc(f, 0);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, f->n1.acks == 2);
	restart(f);
	assert_true(read_volume(f, volume) > volume);
	assert_true(read_alloc(f, alloc) > alloc);
}

static void free_it(struct fixture *f)
{
	struct claim held = claim_of(f, ALLOC_1);

	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_claim(&f->server->state, held.id)->claim.state == CLAIM_FREED);
	settle(f);
	assert_int_equal(state_claim(&f->server->state, held.id)->claim.state, CLAIM_FREED);
	assert_int_equal(stored_history_of_db(f), 0);
}

CLUSTER_TEST(it_stays_in_memory_until_its_freeing_is_durable)
{
	take_volume(f);
	while_the_disk_stalls(f, free_it);
	UNTIL(f, f->n1.acks == 2);
	expect_none_in_memory(f);
	assert_int_equal(stored_history_of_db(f), 1);
}

/* --- what it costs --- */

#define CLAIM_OF "01890000-0000-7000-9000-%012d"

/* @n freed claims of n1, in @boot, of a volume of their own for every seven. */
static void put_history(struct fixture *f, const char *boot, int n)
{
	struct volume volume = state_volume(&f->server->state, NAMESPACE_DEFAULT, "db")->volume;

	for (int i = 0; i < n; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;
		struct claim claim =
			ROW(.namespace = NAMESPACE_DEFAULT, .plugin_id = PLUGIN_NATIVE, .profile = "disk",
			    .node_id = "n1", .allocation_id = ALLOC_3, .mode = CLAIM_WRITE,
			    .access_mode = SINGLE_NODE_WRITER, .attachment_mode = ATTACHMENT_FILE_SYSTEM,
			    .state = CLAIM_FREED, .evidence = EVIDENCE_RECEIPT, .modify_time_ms = 1,
			    .volume_create_time_ms = volume.create_time_ms);

		(void)str_format(volume.id, sizeof(volume.id), "v-%d", i / 7);
		volume.create_index = 0;
		if (i % 7 == 0)
			change_put_volume(&change, &volume);
		(void)str_copy(claim.volume_id, sizeof(claim.volume_id), volume.id);
		(void)str_copy(claim.boot_id, sizeof(claim.boot_id), boot);
		(void)str_format(claim.id, sizeof(claim.id), CLAIM_OF, i);
		change_put_claim(&change, &claim);
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	}
	settle(f);
}

/* Records that the server reads for a hello of n1 in @boot. */
static uint64_t read_by_hello(struct fixture *f, const char *boot)
{
	uint64_t before;

	lose(f, &f->n1);
	before = kv_stats(f->server->kv).read;
	fake_node_connect(&f->n1, "n1", boot, NULL, 0);
	assert_true(f->n1.welcomed);
	settle(f);
	return kv_stats(f->server->kv).read - before;
}

TEST_ON(a_hello_costs_the_same_whatever_the_history_length, struct fixture, f, setup, teardown)
{
	enum { MANY = 700 };
	uint64_t without, with;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	without = read_by_hello(f, BOOT_1);
	put_history(f, BOOT_1, MANY);
	with = read_by_hello(f, BOOT_1);
	assert_int_equal(with, without);
	with = read_by_hello(f, BOOT_2); /* a new boot, of which it is asked what it held */
	assert_true(with <= without + 1);
	assert_true(LIST_EMPTY(&state_node(&f->server->state, "n1")->claims));
}

static bool count_record(const struct kv_item *item, void *userdata)
{
	++*(size_t *)userdata;
	return true;
}

static size_t count_stored(struct fixture *f, const char *prefix)
{
	size_t n = 0;

	assert_int_equal(kv_range(f->server->kv, prefix, count_record, &n, NULL), STATUS_OK);
	return n;
}

TEST_FIXTURE(a_start_reads_no_history_and_a_collection_ends_it, setup, teardown)
{
	enum { MANY = 70, VOLUMES = MANY / 7 };
	struct fixture *f = *state;
	Holdfast__V1__GcRequest request = V1(gc_request, .older_than_ms = 1);
	struct state again;
	uint64_t before, none, many;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	put_history(f, BOOT_1, MANY);
	expect_none_in_memory(f);
	assert_int_equal(count_stored(f, PREFIX_FREED), MANY);
	before = kv_stats(f->server->kv).read;
	state_init(&again);
	assert_int_equal(load_state(f->server->kv, &again, NULL), STATUS_OK);
	many = kv_stats(f->server->kv).read - before;
	assert_null(state_claim_from(&again, ""));
	state_release(&again);
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Gc", &request.base, NULL, NULL));
	assert_int_equal(count_stored(f, PREFIX_FREED), VOLUMES); /* how each was last released */
	assert_int_equal(count_stored(f, PREFIX_FREED_ID), VOLUMES);
	assert_int_equal(count_stored(f, PREFIX_FREED_BOOT), VOLUMES);
	before = kv_stats(f->server->kv).read;
	state_init(&again);
	assert_int_equal(load_state(f->server->kv, &again, NULL), STATUS_OK);
	none = kv_stats(f->server->kv).read - before;
	state_release(&again);
	assert_int_equal(many, none);
}

/* --- who asks about one --- */

CLUSTER_TEST(a_receipt_of_a_freed_claim_is_checked_and_acknowledged_as_before)
{
	struct claim freed = hold_and_release(f);
	struct claim bad = freed;
	int acks = f->n1.acks;

	expect_none_in_memory(f);
	fake_node_send_released(&f->n1, &freed);
	UNTIL(f, f->n1.acks == acks + 1);
	assert_string_equal(f->n1.last_ack, freed.id);
	settle(f);
	expect_none_in_memory(f);
	assert_int_equal(claim_of(f, ALLOC_1).modify_index, freed.modify_index);
	bad.generation++;
	fake_node_send_released(&f->n1, &bad);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	fake_node_send_released(&f->n2, &freed); /* another node's: as if it did not exist */
	settle(f);
	assert_false(f->n2.closed);
	assert_int_equal(claim_of(f, ALLOC_1).modify_index, freed.modify_index);
}

CLUSTER_TEST(a_freed_claim_that_is_mounted_still_is_live_again_and_its_history_gone)
{
	struct claim freed = hold_and_release(f);

	expect_none_in_memory(f);
	lose(f, &f->n1);
	f->n1.has = &freed;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	settle(f);
	assert_true(claim_of(f, ALLOC_1).was_freed);
	assert_int_equal(count_stored(f, PREFIX_FREED), 0);
	assert_int_equal(count_stored(f, PREFIX_FREED_ID), 0);
	assert_int_equal(count_stored(f, PREFIX_FREED_BOOT), 0);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	f->n1.has = NULL;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_send_released(&f->n1, &freed);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	expect_none_in_memory(f);
	assert_int_equal(count_stored(f, PREFIX_CLAIM), 0);
	assert_int_equal(count_stored(f, PREFIX_FREED), 1);
}

CLUSTER_TEST(a_freed_claim_that_is_attested_and_not_released_is_asked_for_once_a_second)
{
	struct claim claim;

	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	lose(f, &f->n1);
	assert_int_equal(detach(f, "n1", "it burnt", NULL), STATUS_OK);
	settle(f);
	expect_none_in_memory(f);
	claim = claim_of(f, ALLOC_1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	f->n1.releases = 0;
	for (int i = 0; i < 5; i++) {
		fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, "the plugin does not answer");
		run_idle(f->event); /* no second passes */
	}
	assert_int_equal(f->n1.releases, 1);
	assert_int_equal(f->n1.last_release_state, CLAIM_FREED);
}

/* It is known here, though nothing of it is live: the server has forgotten nothing. */
CLUSTER_TEST(an_allocation_whose_claims_are_all_freed_is_no_reason_for_a_report)
{
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = ALLOC_1, .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&status};

	(void)hold_and_release(f);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	assert_true(f->n1.welcomed);
	settle(f);
	assert_false(state_node(&f->server->state, "n1")->node.report_wanted);
}

/* Each is a read of the store, in each of its hellos. */
CLUSTER_TEST(a_node_pays_once_for_an_allocation_whose_claims_are_all_freed)
{
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = ALLOC_1, .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&status};
	uint64_t *paid_us;

	(void)hold_and_release(f);
	restart(f);
	paid_us = &state_node(&f->server->state, "n1")->searches.rate.paid_us;
	*paid_us = clock_monotonic_us() + 2 * (uint64_t)SESSION_SEARCH_BURST_US;
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	*paid_us = 0;
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	assert_true(f->n1.welcomed);
	assert_true(*paid_us > 0);
	lose(f, &f->n1);
	*paid_us = 0;
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	assert_true(f->n1.welcomed);
	assert_int_equal(*paid_us, 0);
	assert_false(state_node(&f->server->state, "n1")->node.report_wanted);
}

CLUSTER_TEST(the_history_of_a_deregistered_volume_is_not_that_of_its_successor)
{
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};
	Holdfast__V1__GcRequest request = HOLDFAST__V1__GC_REQUEST__INIT;
	struct claim claim = hold_and_release(f);
	struct claim_entry *entry;

	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
	assert_int_equal(freed_find(f->server, claim.id, &entry, NULL), STATUS_OK);
	assert_null(entry);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	freed = history_of_db(f);
	assert_int_equal(freed.n, 0);
	assert_int_equal(freed_find(f->server, claim.id, &entry, NULL), STATUS_OK);
	assert_null(entry);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation, 1);
	request.older_than_ms = UINT64_MAX; /* however young */
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Gc", &request.base, NULL, NULL));
	assert_int_equal(count_stored(f, PREFIX_FREED), 0);
	assert_int_equal(count_stored(f, PREFIX_FREED_BOOT), 0);
}

CLUSTER_TEST(renumbered_records_keep_the_history_and_a_mounted_claim_is_held_twice)
{
	cleanup(freed_list_release) struct freed_list shown = {NULL, 0};
	Holdfast__V1__GcRequest request = V1(gc_request, .older_than_ms = UINT64_MAX);
	struct claim freed = hold_and_release(f);

	restart_renumbered(f);
	shown = history_of_db(f);
	assert_int_equal(shown.n, 1);
	assert_true(state_volume(&f->server->state, "default", "db")->volume.create_index >
		    shown.claims[0].modify_index);
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Gc", &request.base, NULL, NULL));
	assert_int_equal(count_stored(f, PREFIX_FREED), 1);
	f->n1.has = &freed;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	assert_true(claim_of(f, ALLOC_1).was_freed);
}

static void lose_the_record(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__Claim none = HOLDFAST__V1__CLAIM__INIT;
	struct claim claim = claim_of(f, ALLOC_1);
	char key[OBJECT_KEY_SIZE];

	(void)str_join(key, sizeof(key), PREFIX_FREED "default/db/", claim.id);
	none.id = claim.id;
	change_put_record(&change, key, &none.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
}

/* It may be one that the node still has. */
CLUSTER_TEST(a_claim_that_cannot_be_read_is_never_taken_as_unknown)
{
	struct claim freed = hold_and_release(f);
	struct claim_entry *entry;
	struct error err;
	int acks = f->n1.acks;

	lose_the_record(f);
	assert_error(freed_find(f->server, freed.id, &entry, &err), STATUS_DATA_LOSS, err, freed.id);
	fake_node_send_released(&f->n1, &freed);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_DATA_LOSS);
	assert_int_equal(f->n1.acks, acks);
}
