/* SPDX-License-Identifier: Apache-2.0 */
/* What must not happen: a second writer, a claim that nobody can free, a word before it is durable, a server
 * that one node or one text brings down. */

#include "cluster.h"
#include "unit.h"

#include "model/pb.h"
#include "rpc/pbjson.h"
#include "state/change.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <ticket.h>

static void lose_node(struct fixture *f, struct fake_node *node)
{
	char id[NODE_ID_MAX + 1];

	(void)str_copy(id, sizeof(id), node->id);
	fake_node_disconnect(node);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, id)));
}

/* Allocation @alloc on @node gets its claim on db; a copy of the ticket. */
static struct ticket get_ticket(struct fake_node *node, const char *alloc)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct ticket ticket;

	assert_int_equal(fake_node_claim(node, "db", alloc, &response, NULL), STATUS_OK);
	assert_int_equal(response->ticket.len, sizeof(ticket));
	memcpy(&ticket, response->ticket.data, sizeof(ticket));
	return ticket;
}

CLUSTER_TEST(a_node_that_comes_back_with_abandoned_work_is_ordered_to_stop_it)
{
	Holdfast__V1__AllocStatus status = V1(alloc_status, .alloc_id = ALLOC_1);
	Holdfast__V1__AllocStatus *list[] = {&status};

	take_volume(f);
	lose_node(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(detach(f, "n1", "it burnt", NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING; /* the operator was wrong */
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, ALLOC_1);
	settle(f);
	assert_int_equal(f->n1.forgets, 0); /* not before it has ended there */
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.forgets == 1);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
}

CLUSTER_TEST(a_new_boot_frees_claims_although_its_first_hello_broke_off)
{
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = ALLOC_1, .client_status = (Holdfast__V1__ClientStatus)99);
	Holdfast__V1__AllocStatus *list[] = {&status};

	take_volume(f);
	lose_node(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, list, 1);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status, CLIENT_LOST);
}

/* Whatever a crash leaves out, the next hello of that boot does again. */
CLUSTER_TEST(a_new_boot_is_stored_after_its_consequences)
{
	take_volume(f);
	lose_node(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK); /* all of it is durable */
	assert_string_equal(state_node(&f->server->state, "n1")->node.boot_id, BOOT_2);
	assert_true(state_node(&f->server->state, "n1")->node.modify_index >
		    claim_of(f, ALLOC_1).modify_index);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_boot_id_is_a_lower_case_uuid)
{
	static const char *const refused[] = {
		"B0010000-0000-4000-8000-000000000001", "b0010000-0000-4000-8000-00000000000",	"",
		"b0010000-0000-4000-8000-00000000000g", "b00100000000-4000-8000-000000000001-",
	};

	take_volume(f);
	lose_node(f, &f->n1);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		fake_node_connect(&f->n1, "n1", refused[i], NULL, 0);
		assert_true(f->n1.closed);
		assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	}
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

static int forgets_at_the_time;

static void finish_twice(struct fixture *f)
{
	struct node_entry *node = state_node(&f->server->state, "n1");

	node->node.last_seen_ms = 0;
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	fake_node_send_heartbeat(&f->n1);
	UNTIL(f, node->node.last_seen_ms != 0); /* all three have been read */
	settle(f);
	forgets_at_the_time = f->n1.forgets;
}

CLUSTER_TEST(a_node_forgets_an_allocation_only_when_its_end_is_durable)
{
	take_volume(f);
	while_the_disk_stalls(f, finish_twice);
	assert_int_equal(forgets_at_the_time, 0);
	UNTIL(f, f->n1.forgets == 2);
}

static void on_run(enum status status, const ProtobufCMessage *response, const struct error *err,
		   void *userdata)
{
	*(enum status *)userdata = status;
}

static enum status run_answer;
static int runs_at_the_time;

static void run_and_connect(struct fixture *f)
{
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	struct alloc alloc = state_alloc(&f->server->state, ALLOC_1)->alloc;

	(void)str_copy(alloc.id, sizeof(alloc.id), ALLOC_2);
	(void)str_copy(alloc.node_id, sizeof(alloc.node_id), "n2");
	request.allocation = alloc_to_pb(&alloc);
	run_answer = STATUS_UNKNOWN;
	if (rpc_client_call(f->operator.client, &holdfast__v1__allocations__descriptor, "Run", &request.base,
			    TIMEOUT_US, on_run, &run_answer, NULL, NULL) == STATUS_OK)
		UNTIL(f, state_alloc(&f->server->state, ALLOC_2));
	holdfast__v1__allocation__free_unpacked(request.allocation, NULL);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	settle(f);
	runs_at_the_time = f->n2.runs;
}

static int releases_at_the_time;

CLUSTER_TEST(a_node_that_connects_is_given_only_work_that_is_durable)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	take_volume(f);
	lose_node(f, &f->n2);
	while_the_disk_stalls(f, run_and_connect);
	assert_int_equal(runs_at_the_time, 0);
	UNTIL(f, f->n2.runs == 1);
	UNTIL(f, run_answer == STATUS_OK);
}

static void ignore_answer(enum status status, const ProtobufCMessage *response, const struct error *err,
			  void *userdata)
{
}

CLUSTER_TEST(a_server_with_waiting_calls_can_end)
{
	Holdfast__V1__GetAllocationRequest request =
		V1(get_allocation_request, .id = ALLOC_1, .index = UINT64_MAX, .wait_ms = UINT32_MAX);

	take_volume(f);
	for (int i = 0; i < 3; i++)
		assert_ok(rpc_client_call(f->operator.client, &holdfast__v1__allocations__descriptor, "Get",
					  &request.base, TIMEOUT_US, ignore_answer, NULL, NULL, NULL));
	UNTIL(f, f->server->n_watches == 3);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(a_receipt_that_denies_the_release_is_no_evidence)
{
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_not_released(&f->n1, &claim);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* An error takes back whatever else the receipt says. */
CASE(a_receipt_with_an_error_is_no_evidence_whatever_else_it_says)
{
	static const struct {
		bool is_release, without_plugin;
	} cases[] = {{true, false}, {true, true}, {false, false}, {false, true}};
	unsigned int n = 0;
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
		Holdfast__V1__ClaimReceipt receipt =
			V1(claim_receipt, .claim_id = claim.id, .boot_id = claim.boot_id,
			   .generation = claim.generation, .error = "the mount is busy",
			   .what_case = cases[i].is_release ? HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED
							    : HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED);
		int acks = f->n1.acks;

		receipt.released = true; /* both share their place */
		receipt.without_plugin = cases[i].without_plugin;
		up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT;
		up.receipt = &receipt;
		fake_node_send(&f->n1, &up);
		n++;
		UNTIL(f, claim_of(f, ALLOC_1).attempts == n || f->n1.closed);
		assert_false(f->n1.closed);
		assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
		assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NONE);
		assert_int_equal(f->n1.acks, acks); /* or it would forget that it has it */
	}
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

/* A grant in the boot that was known last would be freed by the next hello, as of a boot that is over. */
CASE(a_node_without_a_session_is_granted_nothing_in_its_last_boot)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct error err;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	take_volume(f);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	lose_node(f, &f->n1);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_2, &response, &err), STATUS_UNAVAILABLE, err,
		     "no session");
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL),
			 STATUS_UNAVAILABLE); /* not even what it has */
	assert_int_equal(f->server->state.n_claims, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_2, &response, NULL), STATUS_OK);
}

CASE(a_volume_has_as_many_claims_as_there_may_be_and_no_more)
{
	Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct volume_entry *volume;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	take_volume(f);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_3, "n1", NULL), STATUS_OK);
	volume = state_volume(&f->server->state, "default", "db");
	volume->n_live += CLAIMS_PER_VOLUME_MAX - 2; /* of which there is one */
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_2, &response, NULL), STATUS_OK);
	holdfast__v1__claim_volume_response__free_unpacked(response, NULL);
	assert_int_equal(volume->n_live, CLAIMS_PER_VOLUME_MAX);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_3, &response, NULL), STATUS_RESOURCE_EXHAUSTED);
	volume->n_live -= CLAIMS_PER_VOLUME_MAX - 2;
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_3, &response, NULL), STATUS_OK);
	holdfast__v1__claim_volume_response__free_unpacked(response, NULL);
}

static enum status claim_answer;

static void on_claim(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	claim_answer = status;
}

static void claim_and_fail(struct fixture *f)
{
	claim_answer = STATUS_UNKNOWN;
	fake_node_start_claim(&f->n1, "db", ALLOC_1, on_claim, NULL);
	UNTIL(f, f->server->state.n_claims == 1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
}

CLUSTER_TEST(there_is_no_ticket_for_a_claim_that_is_being_released)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	while_the_disk_stalls(f, claim_and_fail);
	UNTIL(f, claim_answer != STATUS_UNKNOWN);
	assert_int_equal(claim_answer, STATUS_ABORTED);
	UNTIL(f, f->n1.releases >= 1);
}

static void claim_fail_and_connect(struct fixture *f)
{
	claim_and_fail(f);
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	releases_at_the_time = f->n1.releases;
}

/* It would have a ticket of a grant that the server may lose. */
CLUSTER_TEST(a_node_that_connects_gets_no_order_about_a_claim_that_is_not_durable)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	while_the_disk_stalls(f, claim_fail_and_connect);
	assert_int_equal(releases_at_the_time, 0);
	UNTIL(f, f->n1.releases >= 1);
}

/* A helper that has seen the second one's ticket refuses lower ones, and both stand on the volume. */
CLUSTER_TEST(a_fresh_ticket_of_a_shared_volume_is_of_its_newest_generation)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_MULTI_WRITER;
	take_volume(f);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	assert_int_equal(get_ticket(&f->n1, ALLOC_2).generation, 2);
	assert_int_equal(get_ticket(&f->n1, ALLOC_1).generation, 2);
	assert_int_equal(claim_of(f, ALLOC_1).generation, 1); /* receipts name the grant's own */
}

/* A helper refuses tickets of a lower generation than it has seen for a volume in this boot. */
CLUSTER_TEST(the_generation_of_a_volume_never_goes_back)
{
	struct claim claim;

	take_volume(f);
	for (int i = 0; i < 2; i++) {
		claim = claim_of(f, i == 0 ? ALLOC_1 : ALLOC_2);
		fake_node_send_released(&f->n1, &claim);
		UNTIL(f, claim_of(f, i == 0 ? ALLOC_1 : ALLOC_2).state == CLAIM_FREED);
		assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
		if (i == 1)
			break;
		restart(f);
		assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
		assert_true(get_ticket(&f->n1, ALLOC_2).generation > claim.generation);
	}
}

CASE(an_operators_word_frees_any_number_of_claims_of_a_lost_node)
{
	enum { CLAIMS = 70 };
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (int i = 0; i < CLAIMS; i++) {
		char id[UUID_TEXT_SIZE];

		(void)str_format(id, sizeof(id), "018%05d-0000-7a00-" ID_MARK, i);
		assert_int_equal(run_alloc(f, id, "n1", NULL), STATUS_OK);
		(void)get_ticket(&f->n1, id);
		assert_int_equal(stop_alloc(f, id, NULL), STATUS_OK);
	}
	lose_node(f, &f->n1);
	assert_int_equal(detach(f, "n1", "it burnt", NULL), STATUS_OK);
	assert_int_equal(f->server->state.n_claims, 0);
	freed = history_of_db(f);
	assert_int_equal(freed.n, CLAIM_HISTORY_MAX);
	for (size_t i = 0; i < freed.n; i++)
		assert_int_equal(freed.claims[i].evidence, EVIDENCE_OPERATOR);
	assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
}

CLUSTER_TEST(an_operators_word_frees_nothing_when_one_claim_is_still_to_work)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	take_volume(f);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	(void)get_ticket(&f->n1, ALLOC_2);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	lose_node(f, &f->n1);
	assert_int_equal(detach(f, "n1", "it burnt", NULL), STATUS_FAILED_PRECONDITION);
	assert_int_equal(f->server->state.n_claims, 2);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_RESERVED);
}

static void can_be_shown(const ProtobufCMessage *message)
{
	cleanup(json_decrefp) json_t *json = NULL;

	assert_int_equal(pbjson_encode(message, PBJSON_DEFAULTS, &json, NULL), STATUS_OK);
}

CLUSTER_TEST(whatever_a_node_reports_can_be_shown)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	Holdfast__V1__ListNodesRequest list = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	char text[603] = "";
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa4", 2); /* its cut falls into a character */
	fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, text);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	request.id = "db";
	request.why = true;
	for (int i = 0; i < 2; i++) {
		assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base,
			       &response, NULL));
		can_be_shown(response);
		protobuf_c_message_free_unpacked(response, NULL);
		if (i == 0) {
			fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, "\x1b[2J busy\n");
			UNTIL(f, claim_of(f, ALLOC_1).attempts == 2);
		}
	}
	assert_string_equal(claim_of(f, ALLOC_1).last_error, "?[2J busy ");
	lose_node(f, &f->n1);
	f->n1.agent_version = "1\x1b[31m";
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	assert_ok(call(&f->operator, & holdfast__v1__nodes__descriptor, "List", &list.base, &response, NULL));
	can_be_shown(response);
	protobuf_c_message_free_unpacked(response, NULL);
	assert_string_equal(state_node(&f->server->state, "n1")->node.agent_version, "1?[31m");
}

/* What a node reports is about itself, or changes nothing. */
CLUSTER_TEST(no_node_message_changes_another_nodes_objects)
{
	struct claim before;
	struct node node;

	take_volume(f);
	lose_node(f, &f->n2);
	before = claim_of(f, ALLOC_1);
	node = state_node(&f->server->state, "n1")->node;
	for (int i = 0; i < 5; i++) {
		Holdfast__V1__NodePlugin *none[1];
		Holdfast__V1__NodeReport report = V1(node_report, .epoch = 9); /* another was asked for */
		struct claim after;

		fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
		switch (i) {
		case 0:
			fake_node_send_mounted(&f->n2, &before);
			break;
		case 1:
			fake_node_send_failed(&f->n2, &before, STATUS_INTERNAL, "busy");
			settle(f); /* since the first one the server waits for a report */
			fake_node_disconnect(&f->n2);
			break;
		case 2: /* refused alone */
			fake_node_send_alloc(&f->n2, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
			settle(f);
			assert_false(f->n2.closed);
			fake_node_disconnect(&f->n2);
			break;
		case 3:
			fake_node_send_report(&f->n2, &report);
			break;
		case 4: /* that it may: its own */
			f->n2.plugins = none;
			f->n2.n_plugins = 0;
			fake_node_send_fingerprint(&f->n2);
			settle(f);
			f->n2.plugins = NULL;
			assert_false(f->n2.closed);
			assert_null(state_instance(&f->server->state, "n2", "native", "disk"));
			fake_node_disconnect(&f->n2);
			break;
		}
		if (i == 0 || i == 3)
			UNTIL(f, f->n2.closed);
		UNTIL(f, !node_is_connected(state_node(&f->server->state, "n2")));
		after = claim_of(f, ALLOC_1);
		assert_memory_equal(&after, &before, sizeof(after));
		assert_memory_equal(&state_node(&f->server->state, "n1")->node, &node, sizeof(node));
		assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.client_status,
				 CLIENT_RUNNING);
		assert_non_null(state_instance(&f->server->state, "n1", "native", "disk"));
		assert_true(node_is_connected(state_node(&f->server->state, "n1")));
	}
}

static bool count_record(const struct kv_item *item, void *userdata)
{
	(*(size_t *)userdata)++;
	return true;
}

static size_t count_records(struct fixture *f)
{
	size_t n = 0;

	assert_int_equal(kv_range(f->server->kv, "", count_record, &n, NULL), STATUS_OK);
	return n;
}

CASE(the_store_does_not_grow_with_every_change)
{
	enum { STATUSES = 100 };
	uint64_t before;
	size_t n;

	take_volume(f);
	before = kv_revision(f->server->kv);
	n = count_records(f);
	for (int i = 0; i < STATUSES; i++)
		fake_node_send_alloc(&f->n1, ALLOC_1,
				     i % 2 == 0 ? HOLDFAST__V1__CLIENT_STATUS__PENDING
						: HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, kv_revision(f->server->kv) >= before + STATUSES);
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_in_range(count_records(f), n, n + STATUSES / 10);
}
