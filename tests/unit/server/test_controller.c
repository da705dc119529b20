/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to controllers over real sessions: who is asked, in which order, and what becomes of a call whose
 * answer does not come, or comes wrong. */

#include "cluster.h"
#include "unit.h"

#include "plugin/controller.h"

typedef Holdfast__V1__PluginCall plugin_call;
typedef Holdfast__V1__PluginReply plugin_reply;

enum { CALLS_MAX = 32, FAST_TIMEOUT_US = 30000 };

#define ATTACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH
#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH
#define VALIDATE HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE
#define EXPAND HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND
#define VOLUME "disk" /* whose calls go to n1 while both nodes have a controller */

struct outcome {
	unsigned int times; /* done was called */
	unsigned int order; /* of all ends */
	bool has_reply;
	struct error error;
	bool unwanted;
};

struct fixture_controller {
	struct fixture *f;
	struct model_plugin plugin;
	struct outcome outcomes[CALLS_MAX];
	unsigned int ends;
	const char *reporter;
	const char *volume; /* NULL: VOLUME */
	const char *namespace;
};

static struct fixture_controller world;

static void on_done(struct server *server, const plugin_reply *reply, const struct error *err, void *userdata)
{
	struct outcome *outcome = userdata;

	assert_true((reply != NULL) == (err == NULL));
	outcome->times++;
	outcome->order = ++world.ends;
	outcome->has_reply = reply != NULL;
	if (err)
		outcome->error = *err;
}

static bool is_wanted(struct server *server, void *userdata)
{
	const struct outcome *outcome = userdata;

	return !outcome->unwanted;
}

static enum status start_on(int n, int kind, const char *node_id, struct error *err)
{
	Holdfast__V1__ControllerDetachRequest detach_request = HOLDFAST__V1__CONTROLLER_DETACH_REQUEST__INIT;
	Holdfast__V1__ControllerValidateRequest validate = HOLDFAST__V1__CONTROLLER_VALIDATE_REQUEST__INIT;
	Holdfast__V1__NodeExpandRequest expand = HOLDFAST__V1__NODE_EXPAND_REQUEST__INIT;
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__ControllerAttachRequest attach =
		V1(controller_attach_request, .capability = &capability);
	plugin_call pb = HOLDFAST__V1__PLUGIN_CALL__INIT;
	const struct controller_call controller =
		ROW(.plugin_id = CSI_PLUGIN, .namespace = world.namespace, .call = &pb, .node_id = node_id,
		    .wanted = is_wanted, .done = on_done, .userdata = &world.outcomes[n]);
	char volume[64] = VOLUME;
	enum status status;

	if (world.volume)
		(void)str_copy(volume, sizeof(volume), world.volume);
	attach.external_id = detach_request.external_id = validate.external_id = volume;
	attach.external_node_id = detach_request.external_node_id = "i-n1";
	pb.request_case = (Holdfast__V1__PluginCall__RequestCase)kind;
	switch (kind) {
	case ATTACH:
		pb.attach = &attach;
		break;
	case DETACH:
		pb.detach = &detach_request;
		break;
	case VALIDATE:
		pb.validate = &validate;
		break;
	default:
		pb.node_expand = &expand;
		break;
	}
	status = controller_call(world.f->server, &controller, err);
	assert_int_equal(world.outcomes[n].times, 0); /* never inside */
	return status;
}

static void start_call(int n, int kind)
{
	assert_int_equal(start_on(n, kind, NULL, NULL), STATUS_OK);
}

static struct outcome *end_of(int n)
{
	UNTIL(world.f, world.outcomes[n].times == 1);
	return &world.outcomes[n];
}

static void expect_ok(int n)
{
	const struct outcome *outcome = end_of(n);

	assert_true(outcome->has_reply);
}

static void expect_failed(int n, enum status status, const char *text)
{
	const struct outcome *outcome = end_of(n);

	assert_false(outcome->has_reply);
	assert_int_equal(outcome->error.status, status);
	assert_msg(strstr(outcome->error.msg, text), "'%s' does not say '%s'", outcome->error.msg, text);
}

/* Both nodes run controller and node service of the plugin. */
static int setup_both(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	world = (struct fixture_controller){.f = f};
	f->n1.plugin = f->n2.plugin = &world.plugin;
	f->n1.csi = f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true};
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	return 0;
}

static int teardown_both(void **state)
{
	int r = teardown(state);

	assert_string_equal(world.plugin.violation, "");
	for (int i = 0; i < CALLS_MAX; i++)
		assert_true(world.outcomes[i].times <= 1);
	return r;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_both, teardown_both)

CASE(calls_are_spread_over_the_controllers_by_volume)
{
	char name[] = "vol-00";

	world.volume = name;
	for (int i = 0; i < 100; i++) {
		int before = f->n1.calls;

		name[4] = (char)('0' + i / 10);
		name[5] = (char)('0' + i % 10);
		memset(world.outcomes, 0, sizeof(world.outcomes));
		start_call(0, VALIDATE);
		expect_ok(0);
		start_call(1, VALIDATE);
		expect_ok(1);
		assert_true(f->n1.calls == before || f->n1.calls == before + 2); /* both to one */
	}
	assert_in_range(f->n1.calls, 60, 140);
	assert_int_equal(f->n1.calls + f->n2.calls, 200);
}

CASE(the_controller_of_a_volume_is_asked_as_long_as_it_is_healthy)
{
	for (int i = 0; i < 2; i++) {
		start_call(i, ATTACH);
		expect_ok(i);
	}
	assert_int_equal(f->n1.calls, 2);
	f->n1.csi.controller_sick = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	start_call(2, ATTACH);
	expect_ok(2);
	assert_int_equal(f->n2.calls, 1);
	f->n1.csi.controller_sick = false;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	start_call(3, DETACH);
	expect_ok(3);
	assert_int_equal(f->n1.calls, 3);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	start_call(4, DETACH);
	expect_ok(4);
	assert_int_equal(f->n2.calls, 2);
}

CASE(without_a_controller_nothing_is_begun)
{
	struct plugin_entry *plugin = state_plugin(&f->server->state, CSI_PLUGIN);
	struct error err;

	assert_true(controller_capabilities(plugin)->attach_detach);
	f->n1.csi.controller_sick = true;
	f->n2.csi.has_controller = false;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_null(controller_capabilities(plugin));
	assert_error(start_on(0, ATTACH, NULL, &err), STATUS_UNAVAILABLE, err, "holdfast plugin status ebs");
	f->n1.csi = f->n2.csi = (struct fake_csi){0};
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_int_equal(start_on(0, ATTACH, NULL, &err), STATUS_NOT_FOUND);
	assert_int_equal(world.outcomes[0].times, 0);
}

CASE(only_not_here_leads_to_the_next_node)
{
	model_plugin_order(&world.plugin, ATTACH, MODEL_NOT_HERE, 1, 0);
	start_call(0, ATTACH);
	expect_ok(0);
	assert_int_equal(f->n1.calls, 1);
	assert_int_equal(f->n2.calls, 1);
	model_plugin_order(&world.plugin, ATTACH, MODEL_NOT_HERE, 2, 0);
	start_call(1, ATTACH);
	expect_failed(1, STATUS_UNAVAILABLE, "node n2 reports");
	assert_int_equal(f->n1.calls, 2);
	assert_int_equal(f->n2.calls, 2);
	assert_int_equal(world.plugin.calls[ATTACH], 1);
}

CASE(the_plugins_error_is_returned_and_no_other_controller_asked)
{
	for (int code = 1; code < STATUS_N; code++) {
		world.outcomes[0] = (struct outcome){0};
		model_plugin_order(&world.plugin, ATTACH, MODEL_FAIL, 1, (enum status)code);
		start_call(0, ATTACH);
		expect_failed(0, (enum status)code,
			      "plugin ebs on node n1: ControllerPublishVolume: the model says no");
	}
	world.outcomes[0] = (struct outcome){0};
	model_plugin_order(&world.plugin, ATTACH, MODEL_FAIL, 1, (enum status)4711);
	start_call(0, ATTACH);
	expect_failed(0, STATUS_UNKNOWN, "the model says no");
	assert_int_equal(f->n2.calls, 0);
}

CASE(one_serial_call_is_in_flight_and_the_others_keep_their_order)
{
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	start_call(0, ATTACH);
	start_call(1, DETACH);
	start_call(2, ATTACH);
	start_call(3, VALIDATE);
	expect_ok(3); /* which does not wait */
	settle(f);
	assert_int_equal(world.plugin.calls[DETACH], 0);
	fake_node_answer(&f->n1);
	for (int i = 0; i < 3; i++)
		expect_ok(i);
	assert_true(world.outcomes[0].order < world.outcomes[1].order);
	assert_true(world.outcomes[1].order < world.outcomes[2].order);
	assert_true(model_plugin_is_attached(&world.plugin, VOLUME, "i-n1")); /* attach, detach, attach */
}

/* A tenant asks for as many snapshots as it likes. */
CASE(attach_and_detach_do_not_wait_behind_snapshots)
{
	static struct outcome many;
	plugin_call pb = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__ControllerDeleteSnapshotRequest delete =
		HOLDFAST__V1__CONTROLLER_DELETE_SNAPSHOT_REQUEST__INIT;
	const struct controller_call controller = {
		.plugin_id = CSI_PLUGIN, .call = &pb, .done = on_done, .userdata = &many};

	many = (struct outcome){0};
	pb.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE_SNAPSHOT;
	pb.delete_snapshot = &delete;
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	start_call(0, ATTACH);
	for (int i = 0; i < CONTROLLER_QUEUE_MAX; i++)
		assert_int_equal(controller_call(f->server, &controller, NULL), STATUS_OK);
	assert_int_equal(controller_call(f->server, &controller, NULL), STATUS_RESOURCE_EXHAUSTED);
	start_call(1, DETACH); /* has room of its own */
	start_call(2, ATTACH);
	UNTIL(f, f->n1.n_held == 1);
	fake_node_answer(&f->n1);
	for (int i = 0; i < 3; i++)
		expect_ok(i);
	assert_true(world.outcomes[0].order < world.outcomes[1].order);
	assert_true(world.outcomes[1].order < world.outcomes[2].order);
	assert_true(many.times == 0 || many.order > world.outcomes[2].order); /* of the last one */
	UNTIL(f, many.times == CONTROLLER_QUEUE_MAX);
}

static struct outcome asked;

static enum status ask_in(struct fixture *f, plugin_call *pb, const char *namespace)
{
	const struct controller_call controller = {.plugin_id = CSI_PLUGIN,
						   .namespace = namespace,
						   .reporter = world.reporter,
						   .call = pb,
						   .done = on_done,
						   .userdata = &asked};

	return controller_call(f->server, &controller, NULL);
}

/* As many as one namespace gets. */
static int fill_as(struct fixture *f, plugin_call *pb, const char *namespace)
{
	int n = 0;

	while (ask_in(f, pb, namespace) == STATUS_OK)
		n++;
	return n;
}

CASE(calls_of_one_namespace_leave_room_for_another_and_for_the_server)
{
	enum { SHARED = CONTROLLER_QUEUE_MAX - CONTROLLER_QUEUE_KEPT_FREE };
	plugin_call serial = HOLDFAST__V1__PLUGIN_CALL__INIT, side = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__ControllerDeleteSnapshotRequest delete =
		HOLDFAST__V1__CONTROLLER_DELETE_SNAPSHOT_REQUEST__INIT;
	Holdfast__V1__ControllerValidateRequest validate = HOLDFAST__V1__CONTROLLER_VALIDATE_REQUEST__INIT;
	char volume[] = VOLUME;

	asked = (struct outcome){0};
	serial.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE_SNAPSHOT;
	serial.delete_snapshot = &delete;
	side.request_case = VALIDATE;
	side.validate = &validate;
	validate.external_id = volume;
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	model_plugin_order(&world.plugin, VALIDATE, MODEL_HOLD, CONTROLLER_SIDE_MAX, 0);
	start_call(0, ATTACH);
	assert_int_equal(fill_as(f, &serial, "a"), SHARED);
	assert_int_equal(fill_as(f, &serial, "b"), CONTROLLER_QUEUE_KEPT_FREE);
	assert_int_equal(fill_as(f, &side, "a"), SHARED);
	assert_int_equal(fill_as(f, &side, NULL), CONTROLLER_QUEUE_KEPT_FREE);
	/* what is not of tenants, as a fence, has room of its own */
	assert_int_equal(start_on(1, EXPAND, "n2", NULL), STATUS_OK);
	start_call(2, DETACH);
	expect_ok(1);
	UNTIL(f, f->n1.n_held == CONTROLLER_SIDE_MAX + 1);
	fake_node_answer(&f->n1);
	expect_ok(0);
	expect_ok(2);
	UNTIL(f, asked.times == 2 * CONTROLLER_QUEUE_MAX);
}

/* A node can report any number of claims under ids that the provider does not know. */
CASE(detaches_known_from_one_node_leave_room_for_others)
{
	plugin_call detach = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__ControllerDetachRequest request = HOLDFAST__V1__CONTROLLER_DETACH_REQUEST__INIT;
	char volume[] = VOLUME, node_id[] = "i-n1";
	int n_proven;

	asked = (struct outcome){0};
	request.external_id = volume;
	request.external_node_id = node_id;
	detach.request_case = DETACH;
	detach.detach = &request;
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	start_call(0, ATTACH);
	world.reporter = "n1";
	assert_int_equal(fill_as(f, &detach, "a"), CONTROLLER_REPORTED_MAX);
	assert_int_equal(fill_as(f, &detach, "b"), 0);
	world.reporter = "n2";
	assert_int_equal(fill_as(f, &detach, "a"), CONTROLLER_REPORTED_MAX);
	world.reporter = NULL;
	n_proven = fill_as(f, &detach, NULL);
	assert_int_equal(n_proven, CONTROLLER_QUEUE_MAX - 2 * CONTROLLER_REPORTED_MAX);
	UNTIL(f, f->n1.n_held == 1);
	fake_node_answer(&f->n1);
	expect_ok(0);
	UNTIL(f, asked.times == CONTROLLER_QUEUE_MAX);
	world.reporter = "n1"; /* those that have ended keep no place */
	assert_int_equal(ask_in(f, &detach, "a"), STATUS_OK);
	UNTIL(f, asked.times == CONTROLLER_QUEUE_MAX + 1);
}

/* A token has a share of the lists, and its namespace one of the other calls. */
CASE(lists_leave_the_room_of_other_calls)
{
	enum { SHARED = CONTROLLER_QUEUE_MAX - CONTROLLER_QUEUE_KEPT_FREE };
	plugin_call list = HOLDFAST__V1__PLUGIN_CALL__INIT, create = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__ControllerListVolumesRequest volumes =
		HOLDFAST__V1__CONTROLLER_LIST_VOLUMES_REQUEST__INIT;
	Holdfast__V1__ControllerValidateRequest validate = HOLDFAST__V1__CONTROLLER_VALIDATE_REQUEST__INIT;
	char volume[] = VOLUME;

	asked = (struct outcome){0};
	list.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_VOLUMES;
	list.list_volumes = &volumes;
	create.request_case = VALIDATE;
	create.validate = &validate;
	validate.external_id = volume;
	assert_int_equal(fill_as(f, &create, "a"), SHARED);
	assert_int_equal(fill_as(f, &list, "token of a"), SHARED);
	assert_int_equal(fill_as(f, &create, "b"), CONTROLLER_QUEUE_KEPT_FREE);
	assert_int_equal(fill_as(f, &list, "token of b"), CONTROLLER_QUEUE_KEPT_FREE);
	UNTIL(f, asked.times == 2 * CONTROLLER_QUEUE_MAX);
}

/* Tenants have as many volumes as they like, on a node that never answers. */
CASE(expansions_on_nodes_leave_room_for_fences)
{
	plugin_call expand = HOLDFAST__V1__PLUGIN_CALL__INIT, fence = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__NodeExpandRequest on_node = HOLDFAST__V1__NODE_EXPAND_REQUEST__INIT;
	Holdfast__V1__FenceNetworkRequest network = HOLDFAST__V1__FENCE_NETWORK_REQUEST__INIT;

	asked = (struct outcome){0};
	expand.request_case = EXPAND;
	expand.node_expand = &on_node;
	fence.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_FENCE_NETWORK;
	fence.fence_network = &network;
	assert_int_equal(fill_as(f, &expand, "a"), CONTROLLER_QUEUE_MAX - CONTROLLER_QUEUE_KEPT_FREE);
	assert_int_equal(fill_as(f, &fence, NULL), CONTROLLER_QUEUE_KEPT_FREE);
	UNTIL(f, asked.times == CONTROLLER_QUEUE_MAX);
}

CASE(calls_of_one_namespace_delay_one_of_another_by_a_turn)
{
	static const struct {
		int kind;
		unsigned int at_once;
	} rows[] = {{ATTACH, 1}, {VALIDATE, CONTROLLER_SIDE_MAX / 2}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(world.outcomes, 0, sizeof(world.outcomes));
		world.ends = 0;
		world.namespace = "b";
		for (int n = 1; n < CALLS_MAX; n++)
			start_call(n, rows[i].kind);
		world.namespace = "a";
		start_call(0, rows[i].kind);
		for (int n = 0; n < CALLS_MAX; n++)
			expect_ok(n);
		assert_int_equal(world.outcomes[0].order, rows[i].at_once + 1);
		for (int n = 2; n < CALLS_MAX; n++)
			assert_true(world.outcomes[n - 1].order < world.outcomes[n].order);
	}
}

/* An agent has few calls in flight to one plugin. */
CASE(calls_side_by_side_leave_room_for_others)
{
	enum { N = CONTROLLER_SIDE_MAX };
	static struct outcome many;
	plugin_call pb = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__ControllerValidateRequest validate = HOLDFAST__V1__CONTROLLER_VALIDATE_REQUEST__INIT;
	const struct controller_call controller = {
		.plugin_id = CSI_PLUGIN, .call = &pb, .done = on_done, .userdata = &many};
	char volume[] = VOLUME;

	many = (struct outcome){0};
	validate.external_id = volume;
	pb.request_case = VALIDATE;
	pb.validate = &validate;
	model_plugin_order(&world.plugin, VALIDATE, MODEL_HOLD, N, 0);
	for (int i = 0; i < N + 3; i++)
		assert_int_equal(controller_call(f->server, &controller, NULL), STATUS_OK);
	UNTIL(f, f->n1.n_held == N);
	start_call(0, ATTACH);
	assert_int_equal(start_on(1, EXPAND, "n2", NULL), STATUS_OK);
	expect_ok(0);
	expect_ok(1); /* is of a node, and waits for no other */
	settle(f);
	assert_int_equal(world.plugin.calls[VALIDATE], N);
	fake_node_answer(&f->n1);
	UNTIL(f, many.times == N + 3);
	assert_int_equal(world.plugin.calls[VALIDATE], N + 3);
}

CASE(a_queued_call_no_longer_wanted_is_not_sent)
{
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD, 1, 0);
	start_call(0, ATTACH);
	start_call(1, DETACH);
	start_call(2, ATTACH);
	UNTIL(f, f->n1.n_held == 1);
	world.outcomes[1].unwanted = true;
	fake_node_answer(&f->n1);
	expect_failed(1, STATUS_ABORTED, "no longer wanted");
	expect_ok(2);
	assert_int_equal(world.plugin.calls[DETACH], 0);
}

CASE(a_call_without_an_answer_in_time_frees_its_slot_and_a_late_answer_is_ignored)
{
	struct controller_stats stats;

	f->server->config.controller_timeout_us = FAST_TIMEOUT_US;
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	start_call(0, ATTACH);
	start_call(1, DETACH);
	expect_failed(0, STATUS_DEADLINE_EXCEEDED, "may or may not");
	expect_ok(1);
	fake_node_answer(&f->n1);
	settle(f);
	controller_stats(f->server, &stats);
	assert_int_equal(stats.strays, 1);
	assert_int_equal(stats.in_flight, 0);
	assert_false(f->n1.closed);
}

CASE(a_lost_session_leaves_sent_calls_unknown_and_moves_the_rest)
{
	static const enum model_outcome losses[] = {MODEL_LOSE_BEFORE, MODEL_LOSE_AFTER};

	for (size_t i = 0; i < ARRAY_SIZE(losses); i++) {
		memset(world.outcomes, 0, sizeof(world.outcomes));
		world.plugin.n_attachments = 0;
		model_plugin_order(&world.plugin, ATTACH, losses[i], 1, 0);
		start_call(0, ATTACH);
		start_call(1, VALIDATE);
		start_call(2, DETACH);
		expect_failed(0, STATUS_UNKNOWN, "session ended");
		expect_ok(2); /* by n2 */
		assert_int_equal(world.outcomes[1].times, 1);
		assert_int_equal(f->n2.calls, (int)i + 1);
		UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	}
	fake_node_disconnect(&f->n2);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n2")));
	memset(world.outcomes, 0, sizeof(world.outcomes));
	model_plugin_order(&world.plugin, ATTACH, MODEL_LOSE_BEFORE, 1, 0);
	start_call(0, ATTACH);
	start_call(1, DETACH);
	expect_failed(0, STATUS_UNKNOWN, "session ended");
	expect_failed(1, STATUS_UNAVAILABLE, "no connected node runs a healthy controller");
}

CASE(a_call_for_a_node_goes_there_and_nowhere_else)
{
	struct error err;

	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD, 1, 0);
	start_call(0, ATTACH);
	assert_int_equal(start_on(1, EXPAND, "n2", NULL), STATUS_OK);
	expect_ok(1); /* beside the attach */
	assert_int_equal(f->n2.calls, 1);
	model_plugin_order(&world.plugin, EXPAND, MODEL_NOT_HERE, 1, 0);
	assert_int_equal(start_on(2, EXPAND, "n2", NULL), STATUS_OK);
	expect_failed(2, STATUS_UNAVAILABLE, "node n2");
	f->n2.csi.has_node = false;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	assert_error(start_on(3, EXPAND, "n2", &err), STATUS_UNAVAILABLE, err, "node n2");
	assert_int_equal(start_on(3, EXPAND, "n3", &err), STATUS_UNAVAILABLE);
	fake_node_answer(&f->n1);
	expect_failed(0, STATUS_INTERNAL, "took its time");
}

CASE(unexpected_replies_change_nothing)
{
	uint64_t ids[] = {0, 1, 0, 77, UINT64_MAX};
	struct controller_stats stats;
	plugin_reply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;

	model_plugin_order(&world.plugin, ATTACH, MODEL_TWICE, 1, 0);
	start_call(0, ATTACH);
	expect_ok(0);
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD_DONE, 1, 0);
	start_call(1, ATTACH);
	UNTIL(f, f->n1.n_held == 1);
	ids[2] = f->n1.last_call_id;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		reply.call_id = ids[i];
		fake_node_send_reply(&f->n2, &reply); /* another session's ids */
		if (i != 2)
			fake_node_send_reply(&f->n1, &reply);
	}
	settle(f);
	assert_int_equal(world.outcomes[1].times, 0);
	fake_node_answer(&f->n1);
	expect_ok(1);
	controller_stats(f->server, &stats);
	assert_int_equal(stats.strays, 1 + 5 + 4);
	assert_false(f->n1.closed || f->n2.closed);
}

CASE(an_answer_of_a_former_session_is_of_no_call)
{
	plugin_reply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;
	Holdfast__V1__ControllerAttachResponse attach = HOLDFAST__V1__CONTROLLER_ATTACH_RESPONSE__INIT;
	uint64_t former;

	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD, 2, 0);
	start_call(0, ATTACH);
	UNTIL(f, f->n1.n_held == 1);
	former = f->n1.last_call_id;
	fake_node_disconnect(&f->n1);
	expect_failed(0, STATUS_UNKNOWN, "session ended");
	fake_node_disconnect(&f->n2);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	start_call(1, ATTACH); /* the first one of this session, too */
	UNTIL(f, f->n1.last_call_id != 0);
	assert_int_not_equal(f->n1.last_call_id, former);
	reply.call_id = former;
	reply.response_case = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_ATTACH;
	reply.attach = &attach;
	fake_node_send_reply(&f->n1, &reply);
	settle(f);
	assert_int_equal(world.outcomes[1].times, 0);
	fake_node_answer(&f->n1);
}

CASE(an_answer_to_something_else_leaves_the_call_unknown)
{
	plugin_reply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;

	model_plugin_order(&world.plugin, ATTACH, MODEL_OTHER_ANSWER, 1, 0);
	start_call(0, ATTACH);
	expect_failed(0, STATUS_UNKNOWN, "something else");
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD, 1, 0);
	start_call(1, ATTACH);
	UNTIL(f, f->n1.n_held == 1);
	reply.call_id = f->n1.last_call_id; /* OK, with nothing in it */
	fake_node_send_reply(&f->n1, &reply);
	expect_failed(1, STATUS_UNKNOWN, "something else");
}

CASE(an_answer_that_is_too_large_ends_the_session)
{
	enum { TOO_LARGE = 2 * 1024 * 1024 };
	plugin_reply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;
	cleanup_free char *text = NON_NULL(malloc(TOO_LARGE + 1));

	memset(text, 'x', TOO_LARGE);
	text[TOO_LARGE] = '\0';
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD, 1, 0);
	start_call(0, ATTACH);
	UNTIL(f, f->n1.n_held == 1);
	reply.call_id = f->n1.last_call_id;
	reply.code = STATUS_INTERNAL;
	text[256 * 1024] = '\0'; /* large, and only cut */
	reply.message = text;
	fake_node_send_reply(&f->n1, &reply);
	expect_failed(0, STATUS_INTERNAL, "xxxx");
	text[256 * 1024] = 'x';
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD, 1, 0);
	start_call(1, ATTACH);
	UNTIL(f, f->n1.n_held == 2);
	reply.call_id = f->n1.last_call_id;
	fake_node_send_reply(&f->n1, &reply);
	expect_failed(1, STATUS_UNKNOWN, "session ended");
	start_call(2, ATTACH);
	expect_ok(2); /* by n2 */
}

CASE(as_many_wait_as_there_is_room_for)
{
	static struct outcome many;
	plugin_call pb = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__ControllerDetachRequest detach_request = HOLDFAST__V1__CONTROLLER_DETACH_REQUEST__INIT;
	const struct controller_call controller = {
		.plugin_id = CSI_PLUGIN, .call = &pb, .done = on_done, .userdata = &many};
	struct error err;

	many = (struct outcome){0};
	pb.request_case = DETACH;
	pb.detach = &detach_request;
	model_plugin_order(&world.plugin, ATTACH, MODEL_HOLD, 1, 0);
	start_call(0, ATTACH);
	for (int i = 0; i < CONTROLLER_QUEUE_MAX; i++)
		assert_int_equal(controller_call(f->server, &controller, NULL), STATUS_OK);
	assert_error(controller_call(f->server, &controller, &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "plugin ebs");
	assert_int_equal(start_on(1, VALIDATE, NULL, NULL), STATUS_OK); /* which has room of its own */
	expect_ok(1);
	assert_int_equal(many.times, 0);
	/* the end of the server ends them all, once */
	restart(f);
	assert_int_equal(many.times, CONTROLLER_QUEUE_MAX);
	assert_int_equal(many.error.status, STATUS_CANCELLED);
	assert_int_equal(world.outcomes[0].error.status, STATUS_CANCELLED);
}

CASE(a_call_that_is_too_large_is_refused_before_it_is_sent)
{
	Holdfast__V1__ControllerDeleteRequest del = HOLDFAST__V1__CONTROLLER_DELETE_REQUEST__INIT;
	plugin_call pb =
		V1(plugin_call, .request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE, .delete_ = &del);
	const struct controller_call controller = {
		.plugin_id = CSI_PLUGIN, .call = &pb, .done = on_done, .userdata = &world.outcomes[0]};
	cleanup_free char *id = NON_NULL(calloc(1, CONTROLLER_CALL_BYTES_MAX + 1));
	size_t overhead;

	memset(id, 'x', CONTROLLER_CALL_BYTES_MAX - 64);
	del.external_id = id;
	overhead = protobuf_c_message_get_packed_size(&pb.base) - strlen(id);
	memset(id, 'x', CONTROLLER_CALL_BYTES_MAX - overhead + 1);
	assert_int_equal(controller_call(f->server, &controller, NULL), STATUS_INVALID_ARGUMENT);
	id[CONTROLLER_CALL_BYTES_MAX - overhead] = '\0';
	assert_int_equal(controller_call(f->server, &controller, NULL), STATUS_OK);
	expect_ok(0);
}
