/* SPDX-License-Identifier: Apache-2.0 */
/* Grants of volumes that their controller has to attach: two durable steps, with the plugin between them. */

#include "cluster.h"
#include "unit.h"

#include "claim/grant.h"
#include "claim/release.h"
#include "model/volume_detail.h"
#include "plugin/controller.h"
#include "plugin/plugins.h"
#include "state/change.h"
#include "state/keys.h"
#include "volume/call.h"

#include <ticket.h>

typedef Holdfast__V1__ClaimVolumeResponse claim_response;

#define ATTACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH
#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH
#define NODE_EXPAND HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND

/* Calls are asked for in the namespace of their claim, whose turn they take. */
enum status __real_controller_call(struct server *server, const struct controller_call *call,
				   struct error *err);
enum status __wrap_controller_call(struct server *server, const struct controller_call *call,
				   struct error *err);
enum status __wrap_controller_call(struct server *server, const struct controller_call *call,
				   struct error *err)
{
	assert_string_equal(call->namespace, "default");
	return __real_controller_call(server, call, err);
}

static int setup_csi(void **state)
{
	struct fixture *f;

	assert_int_equal(setup_db(state), 0);
	f = *state;
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	return 0;
}

static claim_response *claim_ok(struct fixture *f, struct fake_node *node, const char *alloc)
{
	claim_response *response = NULL;
	struct error err;

	assert_succeeds(fake_node_claim(node, "db", alloc, &response, &err), err);
	return response;
}

static void claim_and_forget(struct fixture *f, struct fake_node *node, const char *alloc)
{
	holdfast__v1__claim_volume_response__free_unpacked(claim_ok(f, node, alloc), NULL);
}

static void end_work(struct fixture *f)
{
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__FAILED);
}

static void expect_freed_unsent(struct fixture *f)
{
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEVER_SENT);
	assert_int_equal(f->plugin.n_attachments, 0);
	assert_int_equal(f->n1.releases, 0); /* the node never heard of it */
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_csi, teardown_db)

CASE(the_volume_is_attached_before_its_node_has_the_claim)
{
	cleanup_pb claim_response *response = claim_ok(f, &f->n1, ALLOC_1);
	struct claim claim = claim_of(f, ALLOC_1);
	struct volume volume = state_volume(&f->server->state, "default", "db")->volume;
	uint8_t digest[TICKET_DIGEST_SIZE];
	struct ticket ticket;

	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	assert_string_equal(f->plugin.last_secret, "hunter2");
	assert_string_equal(f->plugin.last_context, "z1");
	assert_string_equal(f->plugin.last_fs_type, "ext4");
	assert_false(f->plugin.attachments[0].is_read_only);
	assert_int_equal(response->n_publish_context, 1);
	assert_string_equal(response->publish_context[0]->key, "device");
	assert_string_equal(response->publish_context[0]->value, "vol-db");
	assert_string_equal(response->volume->context[0]->value, "z1");
	assert_string_equal(response->volume->secrets[0]->value, "hunter2");
	assert_string_equal(response->volume->mount_options->fs_type, "ext4");
	assert_int_equal(response->ticket.len, sizeof(ticket));
	memcpy(&ticket, response->ticket.data, sizeof(ticket));
	/* as its agent and the mount helper will have it */
	storage_context_digest(VOLUME_MAP(response->volume->context), response->volume->n_context,
			       volume.context_digest);
	assert_string_equal(claim.context_digest, volume.context_digest);
	assert_ok(volume_source_digest(&volume, digest, NULL));
	assert_memory_equal(ticket.source_digest, digest, sizeof(digest));
	assert_true(response->claim->sent_to_node);
	/* the record is complete, times included, and without secrets */
	assert_string_equal(claim.external_id, "vol-db");
	assert_string_equal(claim.external_node_id, "i-n1");
	assert_int_equal(claim.attach, ATTACH_DONE);
	assert_true(claim.sent_to_node);
	assert_true(claim.create_time_ms > 0 && claim.modify_time_ms >= claim.create_time_ms);
	assert_true(claim.state_time_ms > 0);
	assert_int_equal(claim.generation, 1);
}

/* The status of the one allocation, with its volume as a device or not. */
static void send_published(struct fixture *f, bool is_device)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);
	Holdfast__V1__AllocVolume volume =
		V1(alloc_volume, .name = "data", .path = "/stage/db/rw-publish", .is_device = is_device);
	Holdfast__V1__AllocVolume *volumes[] = {&volume};

	status.alloc_id = ALLOC_1;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	status.published = volumes;
	status.n_published = 1;
	fake_node_send(&f->n1, &up);
}

TEST_FIXTURE(a_block_device_is_granted_as_one_and_shown_as_one, NULL, teardown_db)
{
	struct fixture *f;
	const struct alloc_entry *alloc;
	cleanup_pb claim_response *response = NULL;
	struct error err;

	assert_int_equal(setup(state), 0);
	f = *state;
	f->is_device = true;
	register_csi(f, "db");
	connect_csi(f);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, f->n1.runs == 1);
	f->server->config.acl = true; /* and root has taken back what the registration needed */
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, &err), STATUS_UNAVAILABLE);
	assert_contains(err.msg, "block-device: who writes to a raw device of plugin " CSI_PLUGIN);
	name_fs_type(f, "ext4");
	response = claim_ok(f, &f->n1, ALLOC_1);
	assert_int_equal(response->claim->attachment_mode, HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE);
	assert_int_equal(f->plugin.last_attachment_mode, HOLDFAST__V1__ATTACHMENT_MODE__BLOCK_DEVICE);
	alloc = state_alloc(&f->server->state, ALLOC_1);
	send_published(f, false);
	UNTIL(f, alloc->alloc.n_published == 1);
	assert_false(alloc->alloc.published[0].is_device);
	send_published(f, true); /* that alone is a change */
	UNTIL(f, alloc->alloc.published[0].is_device);
	f->is_device = false; /* to mount what has no such capability */
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_FAILED_PRECONDITION);
	assert_msg(strstr(err.msg, "capability single-node-writer/file-system"), "%s", err.msg);
}

/* Registrations refuse such an id by now; a store may have one. */
CASE(reader_only_volumes_are_attached_read_only)
{
	cleanup_pb claim_response *response = NULL;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
	f->source = "ro";
	register_csi(f, "ro");
	f->read_only = true;
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	UNTIL(f, f->n2.runs == 1);
	assert_int_equal(fake_node_claim(&f->n2, "ro", ALLOC_2, &response, NULL), STATUS_OK);
	assert_true(f->plugin.attachments[0].is_read_only);
}

CASE(the_reservation_is_durable_before_the_controller_is_asked)
{
	struct asked asked = {0};
	struct claim claim;

	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD, 1, 0);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked);
	UNTIL(f, f->n2.n_held == 1);
	restart(f);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.state, CLAIM_RESERVED);
	assert_int_equal(claim.attach, ATTACH_ASKED);
	assert_false(claim.sent_to_node);
	assert_string_equal(claim.external_node_id, "i-n1");
	assert_string_equal(claim.last_error, "");
}

static void while_nothing_gets_to_the_disk(struct fixture *f)
{
	static struct asked asked;

	fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked);
	settle(f);
}

CASE(no_attach_is_sent_before_its_claim_is_durable)
{
	unsigned int calls;

	while_the_disk_stalls(f, while_nothing_gets_to_the_disk);
	calls = f->plugin.calls[ATTACH];
	assert_int_equal(calls, 0);
	UNTIL(f, f->plugin.calls[ATTACH] == 1);
	UNTIL(f, claim_of(f, ALLOC_1).sent_to_node);
}

CASE(a_failed_attach_is_reported_with_its_code_and_can_be_tried_again)
{
	claim_response *response = NULL;
	struct claim first = {0};
	struct error err;

	for (int code = 1; code < STATUS_N; code++) {
		struct claim claim;

		model_plugin_order(&f->plugin, ATTACH, code % 2 ? MODEL_FAIL : MODEL_FAIL_DONE, 1,
				   (enum status)code);
		assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, &err), code);
		assert_non_null(strstr(err.msg, "plugin ebs on node n2: ControllerPublishVolume: the model"));
		claim = claim_of(f, ALLOC_1);
		assert_int_equal(claim.state, CLAIM_RESERVED);
		assert_false(claim.sent_to_node);
		assert_int_equal(claim.attach, ATTACH_ASKED);
		assert_int_equal(claim.attempts, code);
		assert_string_equal(claim.last_error, err.msg);
		if (code == 1)
			first = claim;
		assert_string_equal(claim.id, first.id);
		assert_int_equal(claim.generation, 1);
	}
	claim_and_forget(f, &f->n1, ALLOC_1);
	assert_string_equal(claim_of(f, ALLOC_1).id, first.id);
	assert_string_equal(claim_of(f, ALLOC_1).last_error, "");
	assert_int_equal(f->server->state.n_claims, 1);
}

CASE(an_unsent_claim_is_detached_and_freed_when_the_work_ends)
{
	static const enum model_outcome outcomes[] = {MODEL_FAIL, MODEL_FAIL_DONE, MODEL_LOSE_BEFORE,
						      MODEL_LOSE_AFTER};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		if (!f->n2.stream)
			fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
		model_plugin_order(&f->plugin, ATTACH, outcomes[i], 1, STATUS_INTERNAL);
		assert_int_not_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_OK);
	}
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(f->plugin.n_attachments, 1);
	end_work(f);
	expect_freed_unsent(f);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

CASE(an_abandoned_reservation_expires)
{
	struct release_stats stats;

	f->server->config.reservation_ttl_us = 50 * USEC_PER_MSEC;
	model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL_DONE, 1, STATUS_INTERNAL);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_INTERNAL);
	expect_freed_unsent(f);
	release_stats(f->server, &stats);
	assert_int_equal(stats.expired, 1);
	assert_int_equal(stats.swept_up, 0);
	claim_and_forget(f, &f->n1, ALLOC_1); /* it may come back all the same */
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED); /* this one was sent: no time frees it */
}

/* Its node asks again, as after a restart of the server, before the detach has ended. */
CASE(a_claim_whose_reservation_expired_is_asked_for_again)
{
	struct error err;

	f->server->config.reservation_ttl_us = 50 * USEC_PER_MSEC;
	model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL_DONE, 1, STATUS_INTERNAL);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD, 1, 0);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_INTERNAL);
	UNTIL(f, f->n2.n_held == 1);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE, err,
		     "expired before node n1 had it");
	fake_node_answer(&f->n2);
	expect_freed_unsent(f);
	claim_and_forget(f, &f->n1, ALLOC_1);
}

CASE(a_reservation_of_an_earlier_run_is_taken_back_as_well)
{
	model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL_DONE, 1, STATUS_INTERNAL);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_INTERNAL);
	f->reservation_ttl_us = 50 * USEC_PER_MSEC;
	restart(f);
	connect_csi(f);
	expect_freed_unsent(f);
}

CASE(a_reservation_does_not_expire_while_its_controller_is_asked)
{
	struct asked asked = {0};

	f->server->config.reservation_ttl_us = USEC_PER_MSEC;
	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked);
	UNTIL(f, f->n2.n_held == 1);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED);
	fake_node_answer(&f->n2);
	UNTIL(f, asked.answers == 1);
	assert_int_equal(asked.status, STATUS_OK);
}

CASE(a_receipt_for_a_claim_that_was_not_sent_is_refused)
{
	struct asked asked = {0};
	struct claim claim;

	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked);
	UNTIL(f, f->n2.n_held == 1);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_mounted(&f->n1, &claim);
	UNTIL(f, f->n1.closed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED);
	fake_node_answer(&f->n2);
	UNTIL(f, asked.answers == 1);
}

CASE(without_the_providers_name_of_the_node_nothing_is_stored)
{
	struct error err;

	f->n1.csi.hides_node_id = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE, err,
		     "plugin ebs");
	assert_non_null(strstr(err.msg, "node n1"));
	assert_int_equal(f->server->state.n_claims, 0);
	assert_int_equal(state_volume(&f->server->state, "default", "db")->volume.generation, 0);
	assert_error(run_alloc(f, ALLOC_2, "n1", &err), STATUS_UNAVAILABLE, err,
		     "reports no provider's id of node n1");
}

CASE(without_a_controller_nothing_is_stored)
{
	struct error err;

	f->n2.csi.controller_sick = true;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE, err,
		     "plugin ebs");
	assert_int_equal(f->server->state.n_claims, 0);
}

/* Else a node pushes everything else out of the audit. */
CASE(an_allocation_that_claims_and_releases_again_and_again_is_slowed_down)
{
	struct error err;
	unsigned int calls;
	int n = 0;

	while (n < 100 && fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err) == STATUS_OK) {
		struct claim claim = claim_of(f, ALLOC_1);

		fake_node_send_released(&f->n1, &claim);
		UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
		n++;
	}
	assert_in_range(n, 8 + 16, 8 + 17);
	assert_int_equal(err.status, STATUS_UNAVAILABLE);
	assert_msg(strstr(err.msg, "only every ten seconds"), "%s", err.msg);
	calls = f->plugin.calls[ATTACH];
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_UNAVAILABLE);
	assert_int_equal(f->plugin.calls[ATTACH], calls);
	run_for(f->event, 10000);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
}

CASE(failed_attaches_that_expire_use_up_no_claims)
{
	f->server->config.reservation_ttl_us = 50 * USEC_PER_MSEC;
	for (int i = 0; i < 8 + 16 + 8; i++) {
		model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL_DONE, 1, STATUS_INTERNAL);
		assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_INTERNAL);
		expect_freed_unsent(f);
	}
	claim_and_forget(f, &f->n1, ALLOC_1);
}

/* Its claims do not use the rate up either. */
CASE(a_claim_that_no_controller_can_attach_costs_nothing)
{
	f->n1.csi.hides_node_id = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	state_alloc(&f->server->state, ALLOC_1)->n_granted = 8;
	for (int i = 0; i < 16 + 8; i++)
		assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_UNAVAILABLE);
	f->n1.csi.hides_node_id = false;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	claim_and_forget(f, &f->n1, ALLOC_1);
}

/* Whoever has a node's certificate can say that a controller is there. */
CASE(a_node_that_is_not_listed_as_a_controllers_is_asked_nothing)
{
	struct controller_nodes *lists = &f->server->config.controller_nodes;
	struct error err;

	lists->lists[0] = (struct controller_list){.plugin_id = "ebs", .nodes = {"n3"}};
	lists->n_lists = 1;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE, err,
		     "plugin ebs");
	assert_int_equal(f->plugin.calls[ATTACH], 0);
	assert_int_equal(f->server->state.n_claims, 0);
	(void)str_copy(lists->lists[0].nodes[0], sizeof(lists->lists[0].nodes[0]), "n2");
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	claim_and_forget(f, &f->n1, ALLOC_1);
	assert_int_equal(f->plugin.calls[ATTACH], 1);
}

static void list_nodes(struct fixture *f, const char *plugin, const char *node)
{
	struct controller_nodes *lists = &f->server->config.controller_nodes;

	lists->lists[0] = (struct controller_list){.plugin_id = ""};
	(void)str_copy(lists->lists[0].plugin_id, sizeof(lists->lists[0].plugin_id), plugin);
	(void)str_copy(lists->lists[0].nodes[0], sizeof(lists->lists[0].nodes[0]), node);
	lists->n_lists = 1;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
}

/* Else its claims are freed without a detach. */
CASE(a_node_that_is_not_listed_cannot_leave_the_attach_out)
{
	f->n1.csi.needs_no_controller = true;
	list_nodes(f, CONTROLLER_ANY_PLUGIN, "n2");
	claim_and_forget(f, &f->n1, ALLOC_1);
	assert_int_not_equal(claim_of(f, ALLOC_1).attach, ATTACH_NONE);
	assert_int_equal(f->plugin.calls[ATTACH], 1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.n_attachments, 0);
	assert_int_equal(f->plugin.calls[DETACH], 1);
}

/* The listed nodes are not there yet, so no report is a reason to leave the attach out. */
CASE(as_long_as_no_listed_node_reports_any_node_can_require_a_controller)
{
	struct error err;

	f->n1.csi.needs_no_controller = true;
	list_nodes(f, "ebs", "n3");
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_UNAVAILABLE, err,
		     "plugin ebs");
	assert_int_equal(f->server->state.n_claims, 0);
}

/* As with NFS: no listed node runs the plugin, and n2 reports that it requires a controller. */
CASE(a_plugin_without_controller_is_granted_though_another_node_requires_one)
{
	static const char *const listed[][2] = {{"ebs", ""}, {CONTROLLER_ANY_PLUGIN, "n3"}};
	static const char *const allocs[] = {ALLOC_1, ALLOC_3};
	struct error err = {.msg = ""};

	f->n2.csi = (struct fake_csi){.has_node = true};
	for (size_t i = 0; i < ARRAY_SIZE(listed); i++) {
		f->n1.csi = (struct fake_csi){.has_node = true, .needs_no_controller = true};
		list_nodes(f, listed[i][0], listed[i][1]);
		if (i > 0)
			assert_succeeds(run_alloc(f, allocs[i], "n1", &err), err);
		f->n1.csi.needs_no_controller = false; /* its own report decides */
		fake_node_send_fingerprint(&f->n1);
		settle(f);
		assert_int_equal(fake_node_claim(&f->n1, "db", allocs[i], NULL, NULL), STATUS_UNAVAILABLE);
		f->n1.csi.needs_no_controller = true;
		fake_node_send_fingerprint(&f->n1);
		settle(f);
		assert_succeeds(fake_node_claim(&f->n1, "db", allocs[i], NULL, &err), err);
		assert_int_equal(claim_of(f, allocs[i]).attach, ATTACH_NONE);
		release_claim(f, &f->n1, allocs[i]);
		UNTIL(f, state_of(f, allocs[i]) == CLAIM_FREED);
	}
}

CASE(a_node_that_is_not_listed_keeps_no_volume_from_others)
{
	struct plugin_summary summary;
	struct error err = {.msg = ""};
	bool has_controller;

	f->n2.csi = (struct fake_csi){.has_node = true, .needs_no_controller = true};
	list_nodes(f, CONTROLLER_ANY_PLUGIN, "n2"); /* n1 reports that a controller is required */
	assert_ok(volume_check_plugin(f->server, &state_volume(&f->server->state, "default", "db")->volume,
				      &has_controller, &err));
	plugin_summarize_all(state_plugin(&f->server->state, "ebs"), &summary);
	assert_false(summary.controller_required);
	register_csi(f, "wal");
	f->source = "wal";
	assert_succeeds(run_alloc(f, ALLOC_3, "n1", &err), err);
	assert_succeeds(fake_node_claim(&f->n1, "wal", ALLOC_3, NULL, &err), err);
	assert_int_equal(f->plugin.calls[ATTACH], 0);
}

CASE(a_plugin_that_attaches_nothing_is_not_asked)
{
	struct claim claim;

	f->n2.csi.cannot_attach = true;
	f->n1.csi.hides_node_id = true;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	claim_and_forget(f, &f->n1, ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(claim.attach, ATTACH_NONE);
	assert_true(claim.sent_to_node);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(f->plugin.calls[ATTACH] + f->plugin.calls[DETACH], 0);
}

CASE(a_repeated_claim_gets_the_publish_context_again)
{
	struct claim before;

	claim_and_forget(f, &f->n1, ALLOC_1);
	before = claim_of(f, ALLOC_1);
	fake_node_send_mounted(&f->n1, &before);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_TAKEN);
	for (int i = 0; i < 2; i++) {
		cleanup_pb claim_response *response = claim_ok(f, &f->n1, ALLOC_1);

		assert_string_equal(response->claim->id, before.id);
		assert_int_equal(response->n_publish_context, 1);
	}
	/* a repeat that fails takes nothing from who holds it */
	model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL, 1, STATUS_INTERNAL);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_INTERNAL);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_string_equal(claim_of(f, ALLOC_1).last_error, "");
}

CASE(two_claims_of_one_allocation_at_once_are_one_claim)
{
	struct asked asked[2] = {0};
	int refused;

	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	for (int i = 0; i < 2; i++)
		fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked[i]);
	UNTIL(f, f->n2.n_held == 1 && asked[0].answers + asked[1].answers == 1);
	refused = asked[1].answers;
	assert_int_equal(asked[refused].status, STATUS_ABORTED);
	fake_node_answer(&f->n2);
	UNTIL(f, asked[!refused].answers == 1);
	assert_int_equal(asked[!refused].status, STATUS_OK);
	assert_int_equal(f->plugin.calls[ATTACH], 1);
	claim_and_forget(f, &f->n1, ALLOC_1);
	assert_int_equal(f->server->state.n_claims, 1);
}

/* The queue of a plugin's controller is that of all nodes. */
CASE(a_node_that_repeats_its_claim_takes_one_place_in_the_queue)
{
	enum { REPEATS = 100 };
	static struct asked asked[REPEATS];
	struct controller_stats stats;
	int answers = 0;

	claim_and_forget(f, &f->n1, ALLOC_1);
	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD, 1, 0);
	for (int i = 0; i < REPEATS; i++)
		fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked[i]);
	UNTIL(f, f->n2.n_held == 1);
	settle(f);
	controller_stats(f->server, &stats);
	assert_int_equal(stats.waiting, 0);
	fake_node_answer(&f->n2);
	settle(f);
	for (int i = 0; i < REPEATS; i++)
		answers += asked[i].answers;
	assert_int_equal(answers, REPEATS);
	assert_int_equal(f->plugin.calls[ATTACH], 2);
	/* repeats that call no controller do not use up the rate of those that do */
	claim_and_forget(f, &f->n1, ALLOC_1);
}

TEST_FIXTURE(work_that_ends_while_the_controller_is_asked_is_undone_behind_it, setup_csi, teardown_db)
{
	static const enum model_outcome outcomes[] = {MODEL_HOLD, MODEL_HOLD_DONE};

	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		struct fixture *f = *state;
		struct asked asked = {0};

		model_plugin_order(&f->plugin, ATTACH, outcomes[i], 1, 0);
		fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked);
		UNTIL(f, f->n2.n_held == 1);
		end_work(f);
		UNTIL(f, state_of(f, ALLOC_1) == CLAIM_NODE_DETACHED);
		settle(f);
		assert_int_equal(f->plugin.calls[DETACH], 0);
		fake_node_answer(&f->n2);
		UNTIL(f, asked.answers == 1);
		assert_int_equal(asked.status, STATUS_ABORTED);
		expect_freed_unsent(f);
		assert_int_equal(f->plugin.calls[DETACH], 1);
		if (i == 0) {
			assert_int_equal(teardown_db(state), 0);
			assert_int_equal(setup_csi(state), 0);
		}
	}
}

/* n1 was reverted to when it had the volume, while the controller attaches it to n2. */
CASE(a_volume_that_is_held_twice_when_its_controller_answers_is_not_granted)
{
	struct asked asked = {0};
	struct claim held;

	claim_and_forget(f, &f->n1, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &held);
	end_work(f);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_start_claim(&f->n2, "db", ALLOC_2, asked_take, &asked);
	UNTIL(f, f->n2.n_held == 1);
	fake_node_disconnect(&f->n1);
	f->n1.has = &held;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.releases > 0);
	fake_node_answer(&f->n2);
	UNTIL(f, asked.answers == 1);
	assert_int_equal(asked.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(asked.message, "held twice"));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_RESERVED);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	claim_and_forget(f, &f->n2, ALLOC_2);
}

static void doubt(struct fixture *f, const char *node_id, bool is_doubted)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct node node = state_node(&f->server->state, node_id)->node;

	node.report_wanted = is_doubted;
	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* The device could move away from a node whose claim is not known. */
CASE(an_attach_in_the_line_of_its_plugin_is_not_sent_while_a_node_must_report_again)
{
	static struct asked other, asked;

	other = asked = (struct asked){0};
	register_csi(f, "other");
	f->source = "other";
	assert_int_equal(run_alloc(f, ALLOC_3, "n2", NULL), STATUS_OK);
	f->source = "db";
	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_start_claim(&f->n2, "other", ALLOC_3, asked_take, &other);
	UNTIL(f, f->n2.n_held == 1);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked);
	UNTIL(f, state_volume(&f->server->state, "default", "db")->n_live == 1);
	settle(f);
	doubt(f, "n2", true);
	fake_node_answer(&f->n2);
	UNTIL(f, asked.answers == 1);
	assert_int_equal(asked.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(asked.message, "node n2 may hold it"));
	assert_int_equal(f->plugin.calls[ATTACH], 1); /* the other volume's */
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED);
	doubt(f, "n2", false);
	claim_and_forget(f, &f->n1, ALLOC_1);
	assert_int_equal(f->plugin.calls[ATTACH], 2);
}

CASE(an_answer_without_a_waiting_caller_counts_as_sent)
{
	static struct asked asked;

	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, &asked);
	UNTIL(f, f->n2.n_held == 1);
	rpc_stream_cancel(f->n1.stream);
	f->n1.stream = NULL;
	rpc_client_free(f->n1.client); /* the caller is gone, with its connection */
	f->n1.client = NULL;
	settle(f);
	fake_node_answer(&f->n2);
	UNTIL(f, claim_of(f, ALLOC_1).sent_to_node);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_RESERVED);
	assert_int_equal(claim_of(f, ALLOC_1).attach, ATTACH_DONE);
}

CASE(a_publish_context_that_is_too_large_is_not_passed_on)
{
	cleanup_pb claim_response *response = NULL;
	struct error err;

	f->plugin.context_bytes = PUBLISH_CONTEXT_MAX + 1;
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err), STATUS_INTERNAL, err,
		     "publish context");
	assert_false(claim_of(f, ALLOC_1).sent_to_node);
	f->plugin.context_bytes = PUBLISH_CONTEXT_MAX - 32;
	response = claim_ok(f, &f->n1, ALLOC_1);
	assert_int_equal(strlen(response->publish_context[0]->value), PUBLISH_CONTEXT_MAX - 32);
}

/* The steps of a grant after which the server may be killed. */
enum step { RESERVED, ATTACHED, NOTED, STEP_N };

static void go_to(struct fixture *f, enum step step, struct asked *asked)
{
	if (step != NOTED)
		model_plugin_order(&f->plugin, ATTACH, step == RESERVED ? MODEL_HOLD : MODEL_HOLD_DONE, 1, 0);
	fake_node_start_claim(&f->n1, "db", ALLOC_1, asked_take, asked);
	if (step == NOTED)
		UNTIL(f, asked->answers == 1);
	else
		UNTIL(f, f->n2.n_held == 1);
}

TEST_FIXTURE(a_server_killed_at_any_step_continues_with_the_grant_or_takes_it_back, setup_csi, teardown_db)
{
	for (int way = 0; way < 2 * STEP_N; way++) {
		struct fixture *f = *state;
		enum step step = (enum step)(way / 2);
		bool goes_on = way % 2 == 0;
		struct asked asked = {0};
		struct claim claim;

		go_to(f, step, &asked);
		claim = claim_of(f, ALLOC_1);
		restart(f);
		assert_string_equal(claim_of(f, ALLOC_1).id, claim.id);
		assert_int_equal(claim_of(f, ALLOC_1).sent_to_node, step == NOTED);
		connect_csi(f);
		if (goes_on) {
			claim_and_forget(f, &f->n1, ALLOC_1);
			assert_string_equal(claim_of(f, ALLOC_1).id, claim.id);
			assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
			assert_int_equal(f->plugin.n_attachments, 1);
		} else {
			end_work(f);
			if (step == NOTED) {
				UNTIL(f, f->n1.releases >= 1);
				fake_node_send_released(&f->n1, &claim);
				UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
				assert_int_equal(f->plugin.n_attachments, 0);
			} else {
				expect_freed_unsent(f);
			}
		}
		assert_int_equal(teardown_db(state), 0);
		assert_int_equal(setup_csi(state), 0);
	}
}

static void claim_and_take(struct fixture *f)
{
	struct claim claim;

	claim_and_forget(f, &f->n1, ALLOC_1);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_mounted(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_TAKEN);
}

CASE(a_claim_that_is_repeated_without_end_is_attached_every_ten_seconds)
{
	struct error err;
	unsigned int calls;
	int n = 0;

	claim_and_take(f);
	calls = f->plugin.calls[ATTACH];
	for (int i = 0; i < 500; i++)
		n += fake_node_claim(&f->n1, "db", ALLOC_1, NULL, &err) == STATUS_OK;
	assert_int_equal(f->plugin.calls[ATTACH] - calls, n);
	assert_in_range(n, 16 + 8, 16 + 9);
	assert_int_equal(err.status, STATUS_UNAVAILABLE);
	assert_msg(strstr(err.msg, "only every ten seconds"), "%s", err.msg);
	/* a refusal changes nothing */
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_string_equal(claim_of(f, ALLOC_1).last_error, "");
	run_for(f->event, 10000);
	calls = f->plugin.calls[ATTACH];
	claim_and_forget(f, &f->n1, ALLOC_1);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_UNAVAILABLE);
	assert_int_equal(f->plugin.calls[ATTACH], calls + 1);
}

/* Its first claim does not attach it either. */
CASE(a_claim_whose_attach_fails_is_repeated_at_the_same_rate)
{
	unsigned int calls;
	uint32_t attempts;

	model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL, 1000000, STATUS_UNAVAILABLE);
	for (int i = 0; i < 100; i++)
		assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_UNAVAILABLE);
	assert_in_range(f->plugin.calls[ATTACH], 1 + 16 + 8, 1 + 16 + 9);
	/* a refusal is no attempt of the controller */
	calls = f->plugin.calls[ATTACH];
	attempts = claim_of(f, ALLOC_1).attempts;
	assert_int_equal(attempts, calls);
	model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL, 0, STATUS_UNAVAILABLE);
	run_for(f->event, 10000);
	claim_and_forget(f, &f->n1, ALLOC_1);
}

/* With the shortest delays that its back-off can have, from the start in each of its runs. */
CASE(an_agent_that_restarts_is_refused_no_repeat)
{
	static const unsigned int delays_ms[] = {250, 500, 1000, 2000, 4000, 8000, 15000, 15000};
	unsigned int calls = 0;

	model_plugin_order(&f->plugin, ATTACH, MODEL_FAIL, 1000000, STATUS_UNAVAILABLE);
	for (int run = 0; run < 4; run++) {
		for (size_t i = 0; i < ARRAY_SIZE(delays_ms); i++) {
			assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL),
					 STATUS_UNAVAILABLE);
			assert_int_equal(f->plugin.calls[ATTACH], ++calls);
			run_for(f->event, delays_ms[i]);
		}
	}
}

CASE(failures_that_a_node_reports_of_a_mounted_volume_begin_no_expansion)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const char *key = PREFIX_VOLUME_DETAIL "default/db";
	Holdfast__V1__VolumeDetail detail;
	struct claim claim;
	size_t n_before;

	detail = *(const Holdfast__V1__VolumeDetail *)records_get(&f->server->state.records, key);
	detail.node_expansion_due = true;
	change_put_record(&change, key, &detail.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	f->n1.csi.can_expand = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	/* it is unmounted already: the expansion stays due */
	model_plugin_order(&f->plugin, NODE_EXPAND, MODEL_FAIL, 1000000, STATUS_NOT_FOUND);
	claim_and_take(f);
	UNTIL(f, f->plugin.calls[NODE_EXPAND] == 1);
	settle(f);
	claim = claim_of(f, ALLOC_1);
	n_before = n_events(f, "volume default/db", "Volumes.Expand", "");
	for (unsigned int i = 1; i <= 20; i++) {
		fake_node_send_failed(&f->n1, &claim, STATUS_INTERNAL, "x");
		UNTIL(f, claim_of(f, ALLOC_1).attempts == i);
		settle(f);
	}
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 1);
	assert_int_equal(n_events(f, "volume default/db", "Volumes.Expand", ""), n_before);
}
