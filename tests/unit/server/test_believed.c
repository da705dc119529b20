/* SPDX-License-Identifier: Apache-2.0 */
/* What a node gets by claims without a ticket, after it has made the server doubt its tickets: a claim that
 * is only believed holds its volume, and does nothing else. */

#include "asks.h"
#include "restored.h"
#include "unit.h"

#include "base/cleanup.h"
#include "model/pb.h"
#include "node/session.h"
#include "plugin/controller.h"
#include "state/change.h"

#define LIE "0189dead-0000-7000-8000-00000000000f"
#define INVENTED "0189dead-0000-7000-8000-000000000001"
#define ATTACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH
#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH

static int n_paid; /* without those of session.c itself */

void __real_session_pay_search(struct session *session, uint64_t start_us);
void __wrap_session_pay_search(struct session *session, uint64_t start_us);
void __wrap_session_pay_search(struct session *session, uint64_t start_us)
{
	n_paid++;
	__real_session_pay_search(session, start_us);
}

/* n1 holds db by a claim for @alloc, which is another node's or unknown. */
static struct claim lie_for(const char *alloc, const char *plugin, enum access_mode access)
{
	struct claim lie = {.mode = CLAIM_WRITE,
			    .access_mode = access,
			    .attachment_mode = ATTACHMENT_FILE_SYSTEM,
			    .generation = 1,
			    .state = CLAIM_TAKEN,
			    .namespace = "default",
			    .volume_id = "db",
			    .id = LIE,
			    .node_id = "n1",
			    .boot_id = BOOT_1};

	(void)str_copy(lie.plugin_id, sizeof(lie.plugin_id), plugin);
	(void)str_copy(lie.allocation_id, sizeof(lie.allocation_id), alloc);
	return lie;
}

/* In a new epoch, n1 names an unknown ticket key. */
static void restore_with_an_unknown_key(struct fixture *f, struct backup *backup)
{
	static uint8_t no_such_key[TICKET_KEY_ID_SIZE] = {1, 2, 3, 4};

	restore(f, backup, 1);
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = sizeof(no_such_key), .data = no_such_key};
}

static void report_the_lie(struct fixture *f, const struct alloc *alloc, const struct claim *lie)
{
	report_with(&f->n1, 1, alloc, lie, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_non_null(state_claim(&f->server->state, lie->id));
}

/* n2 runs ALLOC_2 with db; n1 reports a claim for that allocation. */
static void lie_about_work_of_n2(struct fixture *f, enum access_mode access, struct claim *ret_own)
{
	struct backup backup = {0};
	struct claim lie = lie_for(ALLOC_2, PLUGIN_NATIVE, access);
	struct alloc alloc;

	f->access_mode = (Holdfast__V1__AccessMode)access;
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	take_claim(f, &f->n2, "db", ALLOC_2);
	*ret_own = claim_of(f, ALLOC_2);
	take_backup(f, &backup);
	restore_with_an_unknown_key(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	alloc = alloc_of(f, ALLOC_2);
	alloc.task_status = NULL;
	report(f, &f->n2, 1, &alloc, ret_own, false);
	report_the_lie(f, NULL, &lie);
}

CLUSTER_TEST(a_claim_for_an_allocation_of_another_node_is_released)
{
	const struct alloc_entry *alloc;
	struct claim own, granted;

	lie_about_work_of_n2(f, MULTI_NODE_MULTI_WRITER, &own);
	assert_int_equal(state_claim(&f->server->state, LIE)->claim.state, CLAIM_UNPUBLISHING);
	alloc = state_alloc(&f->server->state, ALLOC_2);
	assert_string_equal(LIST_FIRST(&alloc->claims)->id, own.id);
	assert_null(LIST_NEXT(LIST_FIRST(&alloc->claims), of_alloc));
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &granted, NULL), STATUS_OK);
	assert_string_equal(granted.id, own.id);
}

/* To stop it would end the work of n2. */
CLUSTER_TEST(the_work_that_another_node_lies_about_is_not_to_be_stopped)
{
	char command[] = "holdfast alloc stop " ALLOC_2 ", or holdfast node status n1";
	struct claim own, granted;
	struct error err;

	lie_about_work_of_n2(f, SINGLE_NODE_WRITER, &own);
	assert_error(claim_for(&f->n2, ALLOC_2, &granted, &err), STATUS_UNAVAILABLE, err, command);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "it was stolen", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &granted, &err), STATUS_OK);
}

CLUSTER_TEST(evidence_for_a_claim_of_another_nodes_allocation_ends_no_work)
{
	struct claim own;

	lie_about_work_of_n2(f, MULTI_NODE_MULTI_WRITER, &own);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "switched off", 0, false, NULL, NULL), STATUS_OK);
	settle(f);
	assert_null(state_claim(&f->server->state, LIE));
	assert_false(alloc_is_client_terminal(&state_alloc(&f->server->state, ALLOC_2)->alloc));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* The allocation waits for its first claim: the lie is the only one that names it. */
CLUSTER_TEST(an_allocation_is_not_answered_with_the_claim_of_another_node)
{
	const struct claim lie = lie_for(ALLOC_2, CSI_PLUGIN, SINGLE_NODE_WRITER);
	struct backup backup = {0};
	struct claim granted;
	struct error err;

	register_csi(f, "db");
	connect_csi(f);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	take_backup(f, &backup);
	restore_with_an_unknown_key(f, &backup);
	connect_csi(f);
	report(f, &f->n2, 1, NULL, NULL, false);
	report_the_lie(f, NULL, &lie);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &granted, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "not free"));
	assert_int_equal(f->plugin.calls[ATTACH], 0);
}

/* Also a native volume, which no controller attaches. */
CLUSTER_TEST(a_claim_without_proof_gets_no_ticket)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	const struct alloc alloc = ROW(.id = INVENTED, .namespace = "default", .name = "x", .driver = "none",
				       .node_id = "n1", .volumes = &request, .n_volumes = 1,
				       .desired_status = DESIRED_RUN, .client_status = CLIENT_RUNNING);
	const struct claim lie = lie_for(INVENTED, PLUGIN_NATIVE, SINGLE_NODE_WRITER);
	struct backup backup = {0};
	struct claim granted;
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	take_backup(f, &backup);
	restore_with_an_unknown_key(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	report_the_lie(f, &alloc, &lie);
	assert_int_equal(claim_for(&f->n1, INVENTED, &granted, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "only its node knows it"));
	assert_int_equal(LIST_FIRST(&state_volume(&f->server->state, "default", "db")->claims)->claim.slot,
			 CLAIM_SLOT_UNKNOWN);
}

static void offer_device(struct fixture *f, bool is_offered)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume db = state_volume(&f->server->state, "default", "db")->volume;

	db.capabilities[1] = (struct capability){MULTI_NODE_MULTI_WRITER, ATTACHMENT_BLOCK_DEVICE};
	db.n_capabilities = is_offered ? 2 : 1;
	change_put_volume(&change, &db);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* n1's allocation wants the device of db, which has a file system, too, and has not claimed it. */
static void wait_for_the_device(struct fixture *f)
{
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	register_csi(f, "db");
	connect_csi(f);
	offer_device(f, true);
	f->is_device = true;
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	f->is_device = false;
}

/* A later report: n1 was believed before. */
static void report_later(struct fixture *f, const struct claim *lie)
{
	Holdfast__V1__AllocStatus unknown = V1(alloc_status, .alloc_id = TEXT(INVENTED),
					       .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&unknown};

	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1);
	UNTIL(f, f->n1.reports_wanted == 1);
	report_with(&f->n1, f->n1.report_epoch, NULL, lie, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
}

CLUSTER_TEST(a_claim_without_a_ticket_does_not_stand_beside_another_attachment)
{
	const struct claim lie = lie_for(ALLOC_1, CSI_PLUGIN, MULTI_NODE_MULTI_WRITER);
	struct claim granted;

	wait_for_the_device(f);
	take_claim(f, &f->n2, "db", ALLOC_2);
	report_later(f, &lie);
	assert_null(state_claim(&f->server->state, LIE));
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &granted, NULL), STATUS_OK);
}

/* With it no update of the volume would be accepted. */
CLUSTER_TEST(a_claim_without_a_ticket_has_modes_that_its_volume_offers)
{
	const struct claim lie = lie_for(ALLOC_1, CSI_PLUGIN, MULTI_NODE_MULTI_WRITER);

	wait_for_the_device(f);
	offer_device(f, false);
	report_later(f, &lie);
	assert_null(state_claim(&f->server->state, LIE));
	offer_device(f, true);
	report_later(f, &lie);
	assert_non_null(state_claim(&f->server->state, LIE));
}

/* Each costs what a claim costs that the server grants, which has a rate, too. */
CLUSTER_TEST(claims_without_a_ticket_have_a_rate)
{
	struct claim lie = lie_for(ALLOC_1, CSI_PLUGIN, MULTI_NODE_MULTI_WRITER);
	int n = -1;

	wait_for_the_device(f);
	do {
		(void)str_format(lie.id, sizeof(lie.id), "0189dead-0000-7000-8000-%012d", 100 + ++n);
		lie.state = CLAIM_NODE_DETACHED;
		report_later(f, &lie);
	} while (state_claim(&f->server->state, lie.id) && n < 100);
	assert_in_range(n, 8 + 8, 8 + 10);
}

/* The claim number @i of the node, each for another invented allocation. */
static struct claim lie_number(int i)
{
	struct claim lie = lie_for(INVENTED, PLUGIN_NATIVE, MULTI_NODE_MULTI_WRITER);

	(void)str_format(lie.id, sizeof(lie.id), "0189dead-0000-7000-8000-%012d", i);
	(void)str_format(lie.allocation_id, sizeof(lie.allocation_id), "0189dead-0000-7000-9000-%012d", i);
	return lie;
}

/* All claims of a volume are compared with each. */
CLUSTER_TEST(a_node_has_no_more_claims_on_a_volume_than_are_granted)
{
	static const struct {
		const char *volume, *id; /* NULL: that of twin */
		bool is_adopted;
	} rows[] = {
		{"db", NULL, true},
		{"db", NULL, false},
		{"elsewhere", NULL, false}, /* a name that only the node knows */
		{"elsewhere", "wwn-0x9", true},
		{"twin", "", false}, /* the server knows the id */
	};
	struct backup backup = {0};
	struct volume_entry *db;
	const char *id;
	struct claim lie;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(register_disk(f, &f->operator, "twin", "wwn-0x8", NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	restore_with_an_unknown_key(f, &backup);
	connect_node(&f->n1, "n1");
	id = state_volume(&f->server->state, "default", "twin")->volume.external_id;
	for (int i = 2; i <= CLAIMS_PER_VOLUME_MAX; i++) {
		lie = lie_number(i);
		(void)str_copy(lie.external_id, sizeof(lie.external_id), id);
		assert_ok(state_put_claim(&f->server->state, &lie, NULL));
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		lie = lie_number(i < 2 ? (int)i : CLAIMS_PER_VOLUME_MAX + (int)i);
		(void)str_copy(lie.volume_id, sizeof(lie.volume_id), rows[i].volume);
		(void)str_copy(lie.external_id, sizeof(lie.external_id), rows[i].id ? rows[i].id : id);
		report_with(&f->n1, 1, NULL, &lie, NULL, true);
		settle(f);
		if ((state_claim(&f->server->state, lie.id) != NULL) != rows[i].is_adopted)
			fail_msg("row %zu", i);
	}
	db = state_volume(&f->server->state, "default", "db");
	assert_int_equal(db->n_live, CLAIMS_PER_VOLUME_MAX);
}

/* The rate of adoption lets a report adopt tens of thousands. */
CLUSTER_TEST(each_reported_claim_that_is_compared_with_all_of_its_node_is_charged)
{
	struct backup backup = {0};
	struct claim lie = lie_number(0);

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	restore_with_an_unknown_key(f, &backup);
	connect_node(&f->n1, "n1");
	n_paid = 0;
	report_with(&f->n1, 1, NULL, &lie, NULL, true);
	settle(f);
	assert_non_null(state_claim(&f->server->state, lie.id));
	assert_int_equal(n_paid, 1);
	report_with(&f->n1, 1, NULL, &lie, NULL, true); /* it is known */
	settle(f);
	assert_int_equal(n_paid, 1);
}

/* Such a claim costs no search in the store, and a message can name it again and again. */
CLUSTER_TEST(a_freed_claim_in_memory_is_not_compared_by_a_node_that_has_used_up_its_searches)
{
	struct backup backup = {0};
	struct claim lie = lie_number(0);

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	restore_with_an_unknown_key(f, &backup);
	connect_node(&f->n1, "n1");
	lie.state = CLAIM_FREED;
	assert_ok(state_put_claim(&f->server->state, &lie, NULL));
	lie.state = CLAIM_TAKEN;
	state_node(&f->server->state, "n1")->searches.rate.paid_us =
		clock_monotonic_us() + 3600 * USEC_PER_SEC;
	report_with(&f->n1, 1, NULL, &lie, NULL, true);
	UNTIL(f, !f->n1.stream);
	assert_non_null(strstr(f->n1.closed_message, "names too many claims"));
	assert_int_equal(state_claim(&f->server->state, lie.id)->claim.state, CLAIM_FREED);
}

enum { N_PAST = CONTROLLER_REPORTED_MAX + 24 };

/* Returns the claim number @i of work that has ended on n1, as the server has it. */
static const struct claim *past_claim(struct fixture *f, int i)
{
	const struct claim_entry *entry = state_claim(&f->server->state, lie_number(i).id);

	return entry ? &entry->claim : NULL;
}

/* In a new epoch n1 reports past claims: all of db, each under another id at the provider, or of a volume
 * each. The provider handles each detach as @outcome. */
static void report_past_claims(struct fixture *f, bool is_of_db, enum model_outcome outcome)
{
	struct backup backup = {0};
	char node_id[64];

	for (int i = 0; i < N_PAST && !is_of_db; i++) {
		(void)str_format(node_id, sizeof(node_id), "v%d", i);
		register_csi(f, node_id);
	}
	register_csi(f, "db");
	register_csi(f, "other");
	connect_csi(f);
	f->source = "other";
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	take_backup(f, &backup);
	restore_with_an_unknown_key(f, &backup);
	connect_csi(f);
	model_plugin_order(&f->plugin, DETACH, outcome, UINT_MAX, 0);
	report(f, &f->n2, 1, NULL, NULL, false);
	for (int i = 0; i < N_PAST; i++) {
		struct claim lie = lie_number(i);

		lie.state = CLAIM_NODE_DETACHED;
		lie.access_mode = SINGLE_NODE_WRITER;
		(void)str_copy(lie.plugin_id, sizeof(lie.plugin_id), CSI_PLUGIN);
		if (!is_of_db)
			(void)str_format(lie.volume_id, sizeof(lie.volume_id), "v%d", i);
		(void)str_format(node_id, sizeof(node_id), "i-lie-%d", i);
		f->n1.csi.node_id = node_id;
		if (is_of_db)
			fake_node_send_fingerprint(&f->n1);
		report_with(&f->n1, 1, NULL, &lie, NULL, i + 1 < N_PAST);
		settle(f);
	}
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	settle(f);
}

static size_t count_errors(struct fixture *f, const char *words)
{
	size_t n = 0;

	for (int i = 0; i < N_PAST; i++)
		n += past_claim(f, i) && strstr(past_claim(f, i)->last_error, words);
	return n;
}

/* They are kept, and each is tried without end. */
CLUSTER_TEST(detaches_of_claims_that_a_node_invents_leave_the_queue_to_others)
{
	struct controller_stats stats;

	f->controller_timeout_us = 3600 * USEC_PER_SEC;
	report_past_claims(f, true, MODEL_HOLD);
	assert_int_equal(state_node(&f->server->state, "n1")->n_live, N_PAST);
	controller_stats(f->server, &stats);
	assert_int_equal(stats.waiting, CONTROLLER_REPORTED_MAX);
	assert_int_equal(stats.in_flight, 1);
	assert_int_equal(
		count_errors(f, "16 detaches of claims that are known only from the report of node n1"),
		N_PAST - CONTROLLER_REPORTED_MAX - 1);
	/* each has its turn */
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, UINT_MAX, 0);
	fake_node_answer(&f->n2);
	UNTIL(f, count_errors(f, "which proves nothing") == N_PAST);
	assert_int_equal(state_node(&f->server->state, "n1")->n_live, N_PAST);
}

CLUSTER_TEST(past_claims_of_more_volumes_than_may_wait_are_detached)
{
	report_past_claims(f, false, MODEL_OK);
	UNTIL(f, state_node(&f->server->state, "n1")->n_live == 0);
	assert_int_equal(f->plugin.calls[DETACH], N_PAST);
}
