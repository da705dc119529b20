/* SPDX-License-Identifier: Apache-2.0 */
/* What is collected and what never is; and that a claim needs nothing of what can go. */

#include "cluster.h"
#include "gc.h"
#include "sample.h"
#include "unit.h"

#include "access/audit.h"
#include "state/change.h"
#include "state/keys.h"
#include "volume/why.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>

#define ALLOC_OF_N "018%05d-0000-7000-" ID_MARK
#define CLAIM_OF_N "01890000-0000-7000-9000-%012d"

static enum status gc(struct fixture *f, struct fake_node *as, bool dry_run, Holdfast__V1__GcResponse **ret,
		      struct error *err)
{
	Holdfast__V1__GcRequest request = V1(gc_request, .older_than_ms = 1, .dry_run = dry_run);
	ProtobufCMessage *message = NULL;
	enum status status;

	status = call(as, &holdfast__v1__operator__descriptor, "Gc", &request.base, &message, err);
	*ret = (void *)message;
	return status;
}

static void expect(struct fixture *f, bool dry_run, uint32_t allocs, uint32_t claims)
{
	cleanup_pb Holdfast__V1__GcResponse *response = NULL;

	for (int64_t now = clock_realtime_ms(); clock_realtime_ms() < now + 3;)
		; /* what has just ended is older than a millisecond */
	assert_int_equal(gc(f, &f->operator, dry_run, &response, NULL), STATUS_OK);
	assert_int_equal(response->allocations, allocs);
	assert_int_equal(response->claims, claims);
}

static void end_alloc(struct fixture *f)
{
	struct claim claim = claim_of(f, ALLOC_1);

	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_released(&f->n1, &claim);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.forgets == 1);
}

static size_t n_listed(struct fixture *f)
{
	Holdfast__V1__ListAllocationsRequest request = V1(
		list_allocations_request, .filter = "client_status == pending or client_status == running");
	cleanup_pb ProtobufCMessage *response = NULL;

	assert_int_equal(call(&f->operator, & holdfast__v1__allocations__descriptor, "List", &request.base,
			      &response, NULL),
			 STATUS_OK);
	return ((Holdfast__V1__ListAllocationsResponse *)response)->n_allocations;
}

/* The filter of 'holdfast alloc status'. */
CLUSTER_TEST(an_ended_allocation_is_kept_and_left_out_by_the_filter_of_the_command)
{
	take_volume(f);
	assert_int_equal(n_listed(f), 1);
	end_alloc(f);
	assert_int_equal(n_listed(f), 0);
	assert_non_null(state_alloc(&f->server->state, ALLOC_1));
}

CLUSTER_TEST(gc_removes_ended_objects_and_keeps_the_last_claim_of_a_volume)
{
	struct volume_entry *volume;
	cleanup_free char *why = NULL;

	take_volume(f);
	expect(f, false, 0, 0); /* it runs */
	end_alloc(f);
	expect(f, true, 1, 0);
	assert_non_null(state_alloc(&f->server->state, ALLOC_1));
	expect(f, false, 1, 0);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
	volume = state_volume(&f->server->state, NAMESPACE_DEFAULT, "db");
	why = volume_why(f->server, volume);
	assert_non_null(strstr(why, "last: was held for write by allocation " ALLOC_1 " on node n1"));
	assert_non_null(strstr(why, "evidence: receipt"));
	expect(f, false, 0, 0);
	restart(f);
	assert_null(state_alloc(&f->server->state, ALLOC_1));
}

CLUSTER_TEST(an_allocation_with_a_live_claim_stays)
{
	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.releases == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	expect(f, false, 0, 0);
	assert_non_null(state_alloc(&f->server->state, ALLOC_1));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
}

/* It may have it still, and would never be told that it is over. */
CLUSTER_TEST(an_allocation_of_a_node_that_is_away_stays_until_it_is_back)
{
	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_int_equal(detach(f, "n1", "it burnt", NULL), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	expect(f, false, 0, 0);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	expect(f, false, 1, 0);
}

CLUSTER_TEST(gc_keeps_young_objects)
{
	Holdfast__V1__GcRequest request = HOLDFAST__V1__GC_REQUEST__INIT;
	ProtobufCMessage *message = NULL;

	take_volume(f);
	end_alloc(f);
	for (int i = 0; i < 2; i++) {
		request.older_than_ms =
			i == 0 ? 0 : UINT64_MAX; /* as configured; longer than there is time */
		assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Gc", &request.base,
			       &message, NULL));
		assert_int_equal(((Holdfast__V1__GcResponse *)(void *)message)->allocations, 0);
		protobuf_c_message_free_unpacked(message, NULL);
	}
	assert_non_null(state_alloc(&f->server->state, ALLOC_1));
}

static void put_alloc(struct fixture *f, int number)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct alloc alloc =
		ROW(.namespace = NAMESPACE_DEFAULT, .name = "app", .node_id = "n1", .driver = "none",
		    .desired_status = DESIRED_STOP, .client_status = CLIENT_COMPLETE);

	(void)str_format(alloc.id, sizeof(alloc.id), ALLOC_OF_N, number);
	change_put_alloc(&change, &alloc);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* Of a volume of its own for each few: too many would be cut to what is kept. */
enum { FREED_EACH = CLAIM_HISTORY_MAX - 1 };

static const char *put_volume_for(struct fixture *f, int number)
{
	static char id[VOLUME_ID_MAX + 1];
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = state_volume(&f->server->state, NAMESPACE_DEFAULT, "db")->volume;

	(void)str_format(id, sizeof(id), "db-%d", number / FREED_EACH);
	if (state_volume(&f->server->state, NAMESPACE_DEFAULT, id))
		return id;
	(void)str_copy(volume.id, sizeof(volume.id), id);
	volume.create_index = 0;
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	return id;
}

static void put_freed_claim(struct fixture *f, int number, int64_t freed_ms)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim =
		ROW(.namespace = NAMESPACE_DEFAULT, .external_id = "db", .plugin_id = PLUGIN_NATIVE,
		    .profile = "disk", .node_id = "n1", .boot_id = BOOT_1, .mode = CLAIM_WRITE,
		    .access_mode = SINGLE_NODE_WRITER, .attachment_mode = ATTACHMENT_FILE_SYSTEM,
		    .state = CLAIM_FREED, .evidence = EVIDENCE_RECEIPT, .modify_time_ms = freed_ms);

	(void)str_copy(claim.volume_id, sizeof(claim.volume_id), put_volume_for(f, number));
	claim.volume_create_time_ms =
		state_volume(&f->server->state, NAMESPACE_DEFAULT, claim.volume_id)->volume.create_time_ms;
	(void)str_format(claim.id, sizeof(claim.id), CLAIM_OF_N, number);
	(void)str_format(claim.allocation_id, sizeof(claim.allocation_id), ALLOC_OF_N, number);
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

/* More than one slice of everything, at +-1. */
CASE(however_much_there_is_all_of_it_goes_and_once)
{
	static const int amounts[] = {GC_SLICE_MAX - 1,	    GC_SLICE_MAX,	GC_SLICE_MAX + 1,
				      3 * GC_SLICE_MAX + 7, FREED_SCAN_MAX - 1, FREED_SCAN_MAX,
				      FREED_SCAN_MAX + 1};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(amounts); i++) {
		uint32_t n = (uint32_t)amounts[i];
		uint32_t n_kept = (n + FREED_EACH - 1) / FREED_EACH; /* the newest of each volume */

		for (int k = 0; k < amounts[i]; k++) {
			put_alloc(f, k);
			put_freed_claim(f, (int)i * 1000 * FREED_EACH + k, 1);
		}
		settle(f);
		expect(f, true, n, n - n_kept);
		expect(f, false, n, n - n_kept);
		assert_int_equal(f->server->state.n_allocs, 0);
		expect(f, false, 0, 0);
	}
	restart(f);
	assert_int_equal(f->server->state.n_allocs, 0);
}

static void put_running(struct fixture *f, int n)
{
	for (int first = 0; first < n; first += GC_SLICE_MAX) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		for (int i = first; i < n && i < first + GC_SLICE_MAX; i++) {
			struct alloc alloc =
				ROW(.namespace = NAMESPACE_DEFAULT, .name = "app", .node_id = "n1",
				    .driver = "none", .desired_status = DESIRED_RUN,
				    .client_status = CLIENT_RUNNING);

			(void)str_format(alloc.id, sizeof(alloc.id), ALLOC_OF_N, i);
			change_put_alloc(&change, &alloc);
		}
		assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	}
}

/* What stays is looked at once, too: the next slice begins behind it. */
CLUSTER_TEST(gc_removes_records_behind_a_full_slice)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	put_running(f, GC_SCAN_MAX + 1);
	put_alloc(f, GC_SCAN_MAX + 2);
	expect(f, true, 1, 0);
	expect(f, false, 1, 0);
	assert_int_equal(f->server->state.n_allocs, GC_SCAN_MAX + 1);
}

static void put_attestation(struct fixture *f, char *id, int64_t created_ms, int64_t expires_ms)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__Attestation attestation =
		V1(attestation, .id = id, .create_time_ms = created_ms, .expires_at_ms = expires_ms);
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_ATTESTATION "%s", id);
	change_put_record(&change, key, &attestation.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

CASE(attestations_go_when_they_have_expired)
{
	static char over[] = "a", valid[] = "b", at_once[] = "c", young[] = "d";
	int64_t now_ms = clock_realtime_ms();

	put_attestation(f, over, 1000, 2000);
	put_attestation(f, valid, 1000, now_ms + 1000000);
	put_attestation(f, at_once, 1000, 0); /* counted only when it was given */
	put_attestation(f, young, now_ms + 1000000, 0);
	expect(f, true, 0, 0);
	assert_non_null(records_get(&f->server->state.records, PREFIX_ATTESTATION "a"));
	expect(f, false, 0, 0);
	assert_null(records_get(&f->server->state.records, PREFIX_ATTESTATION "a"));
	assert_non_null(records_get(&f->server->state.records, PREFIX_ATTESTATION "b"));
	assert_null(records_get(&f->server->state.records, PREFIX_ATTESTATION "c"));
	assert_non_null(records_get(&f->server->state.records, PREFIX_ATTESTATION "d"));
}

static void put_token(struct fixture *f, char *accessor, int64_t expires_ms)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__Token token = V1(token, .accessor = accessor, .expires_at_ms = expires_ms);
	Holdfast__V1__StoredToken stored = V1(stored_token, .token = &token);
	uint8_t hash[TOKEN_HASH_SIZE] = {0};
	char key[OBJECT_KEY_SIZE];

	hash[0] = (uint8_t)accessor[0];
	stored.secret_sha256 = (ProtobufCBinaryData){.len = sizeof(hash), .data = hash};
	(void)str_format(key, sizeof(key), PREFIX_TOKEN "%s", accessor);
	change_put_record(&change, key, &stored.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

CASE(tokens_go_when_they_have_expired)
{
	static char over[] = "a", valid[] = "b", for_ever[] = "c";

	put_token(f, over, 1000);
	put_token(f, valid, clock_realtime_ms() + 1000000);
	put_token(f, for_ever, 0);
	expect(f, true, 0, 0);
	assert_non_null(records_get(&f->server->state.records, PREFIX_TOKEN "a"));
	expect(f, false, 0, 0);
	assert_null(records_get(&f->server->state.records, PREFIX_TOKEN "a"));
	assert_non_null(records_get(&f->server->state.records, PREFIX_TOKEN "b"));
	assert_non_null(records_get(&f->server->state.records, PREFIX_TOKEN "c"));
	assert_int_equal(f->server->state.records.tokens.n, 2);
}

static void delete_object(struct fixture *f, enum object_kind kind, const void *value)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_delete(&change, kind, value);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

static void lose_alloc(struct fixture *f)
{
	struct alloc_entry *entry = state_alloc(&f->server->state, ALLOC_1);

	if (entry)
		delete_object(f, OBJECT_ALLOC, &entry->alloc);
}

static void lose_plugin(struct fixture *f)
{
	struct instance_entry *entry = state_instance(&f->server->state, "n1", PLUGIN_NATIVE, "disk");

	if (entry)
		delete_object(f, OBJECT_NODE_PLUGIN, &entry->instance);
}

static void collect(struct fixture *f)
{
	cleanup_pb Holdfast__V1__GcResponse *response = NULL;

	assert_int_equal(gc(f, &f->operator, false, &response, NULL), STATUS_OK);
}

static void reload(struct fixture *f)
{
	restart(f);
}

static struct claim only_claim(struct fixture *f)
{
	const struct claim_entry *entry =
		LIST_FIRST(&state_volume(&f->server->state, NAMESPACE_DEFAULT, "db")->claims);
	cleanup(freed_list_release) struct freed_list freed = history_of_db(f);

	assert_true(entry || freed.n == 1);
	return entry ? entry->claim : freed.claims[0];
}

/* In all orders, with and without the end of the work being known first. */
TEST(whatever_is_lost_in_whatever_order_the_claim_is_explained_and_finished)
{
	static void (*const losses[])(struct fixture *) = {lose_alloc, lose_plugin, collect, reload};
	enum { N = ARRAY_SIZE(losses) };
	const struct sample sample = sample_of_environment();

	for (int order = 0; order < N * N * N; order++) {
		void *fixture = NULL;
		struct fixture *f;
		cleanup_free char *why = NULL;
		struct claim claim;

		/* each part has all losses in each place, and both boots */
		if (!sample_has(&sample,
				(uint64_t)order + (uint64_t)(order / N) + (uint64_t)(order / (N * N))))
			continue;
		assert_int_equal(setup(&fixture), 0);
		f = fixture;
		take_volume(f);
		assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
		fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
		UNTIL(f, f->n1.releases == 1);
		claim = only_claim(f);
		fake_node_disconnect(&f->n1);
		UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
		lose_alloc(f); /* the workload first */
		for (int k = order, i = 0; i < 3; i++, k /= N)
			losses[k % N](f);
		assert_int_equal(only_claim(f).state, CLAIM_UNPUBLISHING);
		why = volume_why(f->server, state_volume(&f->server->state, NAMESPACE_DEFAULT, "db"));
		assert_non_null(strstr(why, "held for write by allocation " ALLOC_1 " on node n1"));
		assert_non_null(strstr(why, "holdfast volume detach db n1 --attest REASON"));
		fake_node_connect(&f->n1, "n1", order % 2 == 0 ? BOOT_1 : BOOT_2, NULL, 0);
		if (order % 2 == 0) {
			UNTIL(f, f->n1.releases >= 1);
			fake_node_send_released(&f->n1, &claim);
			UNTIL(f, f->n1.acks >= 1);
		}
		assert_int_equal(only_claim(f).state, CLAIM_FREED);
		assert_int_equal(only_claim(f).evidence,
				 order % 2 == 0 ? EVIDENCE_RECEIPT : EVIDENCE_NEW_BOOT);
		assert_int_equal(teardown(&fixture), 0);
	}
}

CLUSTER_TEST(it_is_collected_unasked_and_recorded_once)
{
	struct gc *gc_own = NULL;
	uint64_t before;

	take_volume(f);
	end_alloc(f);
	settle(f);
	before = audit_head(f->server).sequence;
	f->server->config.gc_interval_us = 20 * USEC_PER_MSEC;
	f->server->config.gc_after_us = USEC_PER_MSEC;
	assert_int_equal(gc_new(f->server, &gc_own, NULL), STATUS_OK);
	UNTIL(f, !state_alloc(&f->server->state, ALLOC_1));
	UNTIL(f, audit_head(f->server).sequence > before);
	run_for(f->event, 100); /* runs that find nothing */
	assert_int_equal(audit_head(f->server).sequence, before + 1);
	gc_free(gc_own);
}

static void put_enrollment(struct fixture *f, const char *key, int64_t expires_ms)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	uint8_t hash[TOKEN_HASH_SIZE] = {1};
	Holdfast__V1__StoredEnrollment stored =
		V1(stored_enrollment, .node = TEXT("n1"), .token_sha256 = {.len = sizeof(hash), .data = hash},
		   .expires_at_ms = expires_ms);

	change_put_record(&change, key, &stored.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* Until the clock is right again: a person's run counts by it. */
static void expect_kept(struct fixture *f, const char *const keys[static 3], uint32_t freed)
{
	run_for(f->event, 100);
	for (size_t i = 0; i < 3; i++)
		assert_non_null(records_get(&f->server->state.records, keys[i]));
	expect(f, true, 0, freed);
}

/* For instance the machine's clock at its start, which is set minutes later. */
CLUSTER_TEST(a_clock_that_is_ahead_for_a_while_deletes_nothing)
{
	static const char *const keys[] = {PREFIX_REVOCATION "serial/01", PREFIX_TOKEN "a",
					   PREFIX_ENROLLMENT "n1"};
	enum { DAY_MS = 24 * 3600 * 1000 };
	char *key = TEXT(PREFIX_REVOCATION "serial/01");
	Holdfast__V1__Revocation revocation =
		V1(revocation, .serial = TEXT("01"), .who = TEXT("operator/ann"),
		   .revoked_at_ms = clock_realtime_ms(), .ends_at_ms = clock_realtime_ms() + DAY_MS);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct gc *gc_own = NULL;

	change_put_record(&change, key, &revocation.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	put_token(f, TEXT("a"), clock_realtime_ms() + DAY_MS);
	put_enrollment(f, keys[2], clock_realtime_ms() + DAY_MS);
	put_freed_claim(f, 0, clock_realtime_ms() + DAY_MS);
	put_freed_claim(f, 1, clock_realtime_ms() + DAY_MS);
	settle(f);
	f->server->config.gc_interval_us = 20 * USEC_PER_MSEC;
	f->server->config.gc_after_us = USEC_PER_MSEC;
	assert_int_equal(gc_new(f->server, &gc_own, NULL), STATUS_OK);
	unit_clock_step(2 * DAY_MS);
	expect_kept(f, keys, 1);
	unit_clock_advance(2 * 3600 * USEC_PER_SEC);
	expect_kept(f, keys, 1);
	unit_clock_step(-2 * DAY_MS);
	unit_clock_advance(DAY_MS * USEC_PER_MSEC);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		UNTIL(f, !records_get(&f->server->state.records, keys[i]));
	expect(f, true, 0, 0);
	gc_free(gc_own);
}

CLUSTER_TEST(nodes_collect_nothing)
{
	Holdfast__V1__GcResponse *response;

	assert_int_equal(gc(f, &f->n1, false, &response, NULL), STATUS_PERMISSION_DENIED);
}

static void on_gc(enum status status, const ProtobufCMessage *response, const struct error *err,
		  void *userdata)
{
	int *counts = userdata;

	counts[status == STATUS_OK ? 0 : 1]++;
	assert_true(status == STATUS_OK || status == STATUS_RESOURCE_EXHAUSTED);
}

CASE(runs_wait_for_each_other_and_their_number_is_bounded)
{
	enum { MORE = 3 };

	int counts[2] = {0, 0};

	for (int i = 0; i < GC_RUNS_MAX + MORE; i++) {
		Holdfast__V1__GcRequest request = HOLDFAST__V1__GC_REQUEST__INIT;

		assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__operator__descriptor, "Gc",
					  &request.base, TIMEOUT_US, on_gc, counts, NULL, NULL));
	}
	UNTIL(f, counts[0] + counts[1] == GC_RUNS_MAX + MORE);
	assert_int_equal(counts[0], GC_RUNS_MAX);
	assert_int_equal(counts[1], MORE);
}
