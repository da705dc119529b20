/* SPDX-License-Identifier: Apache-2.0 */
/* The whole server over its real port and store: what operators and nodes see, and that a restart changes
 * nothing. */

#include "cluster.h"
#include "unit.h"

#include "base/fd.h"
#include "base/parse.h"
#include "state/change.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <limits.h>
#include <ticket.h>

CLUSTER_TEST(a_volume_is_granted_taken_released_and_handed_on)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct ticket ticket;
	struct claim claim;
	struct error err;

	take_volume(f);
	assert_error(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	assert_non_null(strstr(err.msg, "node n1"));
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN); /* ordered to stop is not stopped */
	claim = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &claim);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.forgets == 1);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_FREED);
	assert_int_equal(claim.evidence, EVIDENCE_RECEIPT);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n2, "db", ALLOC_2, &response, &err), STATUS_OK);
	assert_int_equal(response->ticket.len, sizeof(ticket));
	memcpy(&ticket, response->ticket.data, sizeof(ticket));
	assert_string_equal(ticket.node, "n2");
	assert_int_equal(ticket.generation, 2); /* the second writer */
	assert_int_equal(response->claim->generation, 2);
}

/* Nowhere else can its node publish the volume: the order for a task names the same place. */
CLUSTER_TEST(a_ticket_names_the_place_of_the_volume_in_its_allocation)
{
	static char *const sources[] = {TEXT("other"), TEXT("db"), TEXT("third")};
	static char *const names[] = {TEXT("other"), TEXT("data"), TEXT("third")};
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = V1(allocation, .id = TEXT(ALLOC_1), .name = "app", .node_id = "n1");
	Holdfast__V1__VolumeRequest volumes[ARRAY_SIZE(sources)], *list[ARRAY_SIZE(sources)];
	struct ticket ticket;

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		volumes[i] =
			(Holdfast__V1__VolumeRequest)V1(volume_request, .name = names[i],
							.source = sources[i], .access_mode = f->access_mode);
		list[i] = &volumes[i];
		if (i != 1)
			assert_int_equal(register_disk(f, &f->operator, sources[i], sources[i], NULL),
					 STATUS_OK);
	}
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	alloc.volumes = list;
	alloc.n_volumes = ARRAY_SIZE(list);
	request.allocation = &alloc;
	assert_int_equal(
		call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL, NULL),
		STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	for (int i = 0; i < 2; i++) { /* the second time from the store */
		cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;

		assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL), STATUS_OK);
		memcpy(&ticket, response->ticket.data, sizeof(ticket));
		assert_int_equal(ticket.slot, 1);
		restart(f);
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	}
}

CLUSTER_TEST(a_repeated_claim_is_the_same_claim_with_a_fresh_ticket)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct claim before;

	take_volume(f);
	before = claim_of(f, ALLOC_1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL), STATUS_OK);
		assert_string_equal(response->claim->id, before.id);
		assert_int_equal(response->claim->generation, before.generation);
		holdfast__v1__claim_volume_response__free_unpacked(response, NULL);
	}
	assert_int_equal(f->server->state.n_claims, 1);
}

CLUSTER_TEST(a_restart_of_the_server_at_any_step_changes_nothing)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct claim claim;

	take_volume(f);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_RUNNING);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.runs == 1); /* told again: it is idempotent */
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL), STATUS_OK);
	assert_int_equal(response->claim->generation, 1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	restart(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.stops == 1);
	assert_int_equal(f->n1.runs, 0);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED); /* without a receipt */
	UNTIL(f, f->n1.releases >= 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.releases >= 1);
	assert_string_equal(f->n1.last_release, claim.id);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, f->n1.acks == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
}

CLUSTER_TEST(a_lost_node_keeps_its_claim_until_a_new_boot)
{
	struct error err;

	take_volume(f);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION);
	assert_null(strstr(err.msg, "its work has not ended")); /* who is refused learns what is known */
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);	/* the same boot proves nothing */
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	assert_string_equal(claim_of(f, ALLOC_1).evidence_detail, BOOT_2);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
}

CLUSTER_TEST(a_second_machine_with_the_same_certificate_frees_nothing)
{
	cleanup(fake_node_release) struct fake_node clone;
	uint16_t port = 0;
	cleanup_free char *address = NULL;
	char path[PATH_MAX];
	uint32_t number;

	take_volume(f);
	(void)str_format(path, sizeof(path), "%s/address", f->dir);
	assert_int_equal(file_read(path, 100, &address, NULL), 0);
	address[strcspn(address, "\n")] = '\0';
	assert_int_equal(parse_u32(strrchr(address, ':') + 1, 1, 65535, &number), 0);
	port = (uint16_t)number;
	fake_node_init(&clone, f->event, f->dir, "node-n1", port);
	fake_node_connect(&clone, "n1", BOOT_2, NULL, 0);
	assert_true(clone.closed);
	assert_int_equal(clone.closed_status, STATUS_ALREADY_EXISTS);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_true(node_is_connected(state_node(&f->server->state, "n1")));
}

CLUSTER_TEST(an_attestation_frees_only_stopped_work_of_absent_nodes)
{
	struct error err;

	take_volume(f);
	assert_int_equal(detach(f, "n1", "it burnt", &err), STATUS_FAILED_PRECONDITION); /* it is connected */
	assert_int_equal(detach(f, "n1", "", &err), STATUS_FAILED_PRECONDITION); /* its work continues */
	assert_int_equal(detach(f, "n2", "", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(detach(f, "n3", "", &err), STATUS_NOT_FOUND);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_int_equal(detach(f, "n1", "it burnt", &err), STATUS_FAILED_PRECONDITION); /* not stopped */
	assert_non_null(strstr(err.msg, "holdfast alloc stop " ALLOC_1));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(detach(f, "n1", "", &err), STATUS_FAILED_PRECONDITION); /* nobody's word */
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(detach(f, "n1", "it burnt", &err), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_OPERATOR);
	assert_string_equal(claim_of(f, ALLOC_1).evidence_detail, "operator/dev: it burnt");
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
}

CLUSTER_TEST(a_node_reaches_only_its_own_objects)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct claim claim;
	struct error err;
	uint64_t records;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(fake_node_claim(&f->n2, "db", ALLOC_1, &response, &err), STATUS_PERMISSION_DENIED);
	assert_int_equal(register_volume(f, &f->n2, &err), STATUS_PERMISSION_DENIED);
	settle(f);
	records = audit_head(f->server).sequence;
	fake_node_send_released(&f->n2, &claim);
	settle(f); /* it is refused alone, and on record */
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(audit_head(f->server).sequence, records + 1);
	fake_node_send_alloc(&f->n2, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	settle(f); /* refused alone */
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_RUNNING);
	fake_node_disconnect(&f->n2);
	fake_node_connect(&f->n2, "n1", BOOT_2, NULL, 0); /* calls itself n1 */
	assert_true(f->n2.closed);
	assert_int_equal(f->n2.closed_status, STATUS_PERMISSION_DENIED);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(receipts_of_another_boot_or_generation_are_refused)
{
	struct claim good, bad;

	take_volume(f);
	good = claim_of(f, ALLOC_1);
	bad = good;
	bad.generation++;
	fake_node_send_released(&f->n1, &bad);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	bad = good;
	(void)str_copy(bad.boot_id, sizeof(bad.boot_id), BOOT_2);
	fake_node_send_released(&f->n1, &bad);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(a_repeated_receipt_is_acknowledged_again)
{
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &claim);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, f->n1.acks == 3);
	assert_true(f->n1.last_ack_released);
	assert_string_equal(f->n1.last_ack, claim.id);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

CLUSTER_TEST(a_failed_release_stays_is_counted_and_is_asked_for_again)
{
	struct claim claim;

	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.releases == 1);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_failed(&f->n1, &claim, STATUS_FAILED_PRECONDITION, "target is busy");
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	assert_string_equal(claim_of(f, ALLOC_1).last_error, "target is busy");
	assert_int_equal(claim_of(f, ALLOC_1).last_error_code, STATUS_FAILED_PRECONDITION);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	UNTIL(f, f->n1.releases == 2);
}

CLUSTER_TEST(a_volume_unknown_to_the_server_is_kept)
{
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = ALLOC_2, .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&status};

	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	assert_true(f->n1.welcomed);
	fake_node_send_alloc(&f->n1, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK); /* a round trip */
	assert_int_equal(f->n1.stops, 0);
	assert_int_equal(f->n1.forgets, 0);
	assert_false(f->n1.closed);
}

CLUSTER_TEST(a_finished_allocation_that_the_node_still_has_is_forgotten_after_welcome)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__AllocStatus *list[] = {&status};

	take_volume(f);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.forgets == 1);
	fake_node_disconnect(&f->n1); /* as if forget had been lost */
	status.alloc_id = ALLOC_1;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	assert_true(f->n1.welcomed);
	UNTIL(f, f->n1.forgets == 1);
}

CLUSTER_TEST(an_allocation_for_an_absent_node_names_its_wait)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_contains(alloc_description(&state_alloc(&f->server->state, ALLOC_1)->alloc), "node n1");
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.runs == 1);
}

CLUSTER_TEST(submissions_are_idempotent_by_id_and_content)
{
	struct error err;

	take_volume(f);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", &err), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_1, "n2", &err), STATUS_ALREADY_EXISTS);
	assert_int_equal(stop_alloc(f, ALLOC_1, &err), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_1, &err), STATUS_OK);
	assert_int_equal(stop_alloc(f, ALLOC_2, &err), STATUS_NOT_FOUND);
	assert_int_equal(register_volume(f, &f->operator, & err), STATUS_OK);
}

/* The @i-th holder of the volume on n1 comes and goes. */
static void hold_for_a_while(struct fixture *f, int i)
{
	char id[UUID_TEXT_SIZE];
	struct claim held;

	(void)str_format(id, sizeof(id), "018%05d-0000-7a00-" ID_MARK, i);
	assert_int_equal(run_alloc(f, id, "n1", NULL), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, "db", id, NULL, NULL), STATUS_OK);
	held = claim_of(f, id);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, f->n1.acks == i + 1);
}

TEST_ON(history_is_bounded, struct fixture, f, setup, teardown)
{
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (int i = 0; i < 3 * CLAIM_HISTORY_MAX; i++)
		hold_for_a_while(f, i);
	freed = history_of_db(f);
	assert_int_equal(freed.n, CLAIM_HISTORY_MAX);
	for (size_t i = 0; i < freed.n / 2;
	     i++) /* ids of one millisecond are in no order: the last may differ */
		assert_int_equal(freed.claims[i].generation, 3 * CLAIM_HISTORY_MAX - i);
	settle(f);
	assert_in_range(stored_history_of_db(f), CLAIM_HISTORY_MAX, 2 * CLAIM_HISTORY_MAX);
	assert_int_equal(f->server->state.n_claims, 0);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation,
			 3 * CLAIM_HISTORY_MAX);
	restart(f);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation,
			 3 * CLAIM_HISTORY_MAX);
}

/* It is in the store with the claim alone, a grant writes one thing less; until the claim is freed and is not
 * loaded any more. */
CLUSTER_TEST(the_generation_of_a_grant_outlives_the_claim)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume_entry *volume;
	uint64_t stored;
	struct claim claim;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	stored = state_volume(&f->server->state, "default", "db")->volume.modify_index;
	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	volume = state_volume(&f->server->state, "default", "db");
	assert_int_equal(volume->volume.generation, 1);
	assert_int_equal(volume->volume.modify_index, stored);
	restart(f);
	volume = state_volume(&f->server->state, "default", "db");
	assert_int_equal(volume->volume.generation, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	assert_null(state_claim(&f->server->state, claim.id));
	restart(f);
	assert_null(state_claim(&f->server->state, claim.id));
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation, 1);
	freed_stage_deletion(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	restart(f);
	assert_int_equal(stored_history_of_db(f), 0);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation, 1);
}

/* A reader has its volume's generation, which the store has already. */
CLUSTER_TEST(old_reader_claims_are_pruned_without_a_volume_change)
{
	uint64_t stored;

	f->read_only = true;
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	stored = state_volume(&f->server->state, "default", "db")->volume.modify_index;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (int i = 0; i < 2 * CLAIM_HISTORY_MAX; i++)
		hold_for_a_while(f, i);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.modify_index, stored);
}
