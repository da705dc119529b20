/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_csi.h"
#include "json_message.h"

#include "controller/calls.h"
#include "controller/map.h"
#include "volume/manager.h"

#include <systemd/sd-event.h>

#define SOCKET "/run/fake/ebs.sock"

/* The node: which plugins it has, and what its volume manager does. */
static struct world {
	sd_event *event;
	struct controller_calls *calls;
	struct fake_csi_plugin *plugin;
	struct service_client *client;
	struct node_plugin facts;
	enum status plugin_status; /* what plugins_client() says */
	enum plugin_half wanted_half;
	volume_expanded_fn *expanded;
	void *expanding;
	char expanded_external_id[64];
	uint64_t expand_timeout_us;
	bool is_taking;
	unsigned int replies;
	uint64_t last_call_id;
	int last_code;
	bool last_not_here;
	Holdfast__V1__PluginReply__ResponseCase last_case;
	char last_message[ERROR_MSG_MAX];
	char last_objection[ERROR_MSG_MAX];
	uint64_t last_bytes;
} world;

WRAPPED(enum status, plugins_client, const struct plugins *plugins, const char *plugin_id,
	enum plugin_half half, struct service_client **ret, struct error *err)
{
	assert_string_equal(plugin_id, "ebs");
	world.wanted_half = half;
	if (world.plugin_status != STATUS_OK)
		return error_set(err, world.plugin_status, 0, "plugin ebs: not now");
	*ret = world.client;
	return STATUS_OK;
}

WRAPPED(const struct node_plugin *, plugins_facts, const struct plugins *plugins, const char *plugin_id)
{
	return &world.facts;
}

WRAPPED(enum status, volume_manager_expand, struct volume_manager *manager, const char *plugin_id,
	const Holdfast__V1__NodeExpandRequest *request, uint64_t timeout_us, volume_expanded_fn *done,
	void *userdata, struct volume_op **ret, struct error *err)
{
	assert_null(world.expanded);
	assert_string_equal(plugin_id, "ebs");
	assert_string_equal(request->secrets[0]->value, "top-secret");
	(void)str_copy(world.expanded_external_id, sizeof(world.expanded_external_id), request->external_id);
	world.expand_timeout_us = timeout_us;
	world.expanded = done;
	world.expanding = userdata;
	return STATUS_OK;
}

static void on_reply(const Holdfast__V1__PluginReply *reply, void *userdata)
{
	assert_ptr_equal(userdata, &world);
	assert_false(world.is_taking);
	world.replies++;
	world.last_call_id = reply->call_id;
	world.last_code = reply->code;
	world.last_not_here = reply->not_here;
	world.last_case = reply->response_case;
	(void)str_copy(world.last_message, sizeof(world.last_message), reply->message);
	if (reply->response_case == HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_NODE_EXPAND)
		world.last_bytes = reply->node_expand->bytes;
	if (reply->response_case == HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_VALIDATE)
		(void)str_copy(world.last_objection, sizeof(world.last_objection), reply->validate->message);
}

static int setup(void **state)
{
	struct service_client_options options = {.name = "ebs", .socket = SOCKET};

	world = (struct world){.plugin_status = STATUS_OK};
	fake_csi_init();
	world.plugin = fake_csi_add(SOCKET);
	world.facts = (struct node_plugin){
		.plugin_id = "ebs",
		.has_controller = true,
		.controller = {.attach_detach = true, .create_delete = true, .list_volumes = true},
		.node = {.expand = true}};
	assert_true(sd_event_new(&world.event) >= 0);
	assert_ok(service_client_new(world.event, &csi_kind, &options, &world.client, NULL));
	assert_ok(controller_calls_new(world.event, NULL, NULL, on_reply, &world, &world.calls, NULL));
	return 0;
}

static int teardown(void **state)
{
	controller_calls_free(world.calls);
	service_client_free(world.client);
	sd_event_unref(world.event);
	fake_csi_release();
	return 0;
}

/* Run the loop until nothing is due any more. */
static void settle(void)
{
	while (sd_event_run(world.event, 0) > 0)
		;
}

/* A call to plugin ebs: in @format, JSON, what is asked of it. */
__attribute__((format(printf, 2, 3))) static void take(uint64_t call_id, const char *format, ...)
{
	char asked[256], text[512];
	Holdfast__V1__PluginCall *call;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(asked, sizeof(asked), format, args);
	va_end(args);
	(void)str_format(text, sizeof(text), "{'call_id': %u, 'plugin_id': 'ebs', %s}", (unsigned int)call_id,
			 asked);
	call = message_of(&holdfast__v1__plugin_call__descriptor, text);
	world.is_taking = true;
	controller_calls_take(world.calls, call);
	world.is_taking = false;
	protobuf_c_message_free_unpacked(&call->base, NULL);
}

/* Ask to detach a volume, which is short and has secrets. */
static void take_detach(uint64_t call_id, const char *external_id)
{
	take(call_id,
	     "'timeout_ms': 60000, 'detach': {'external_id': '%s', 'external_node_id': 'node-1', 'secrets': "
	     "{'key': "
	     "'top-secret'}}",
	     external_id);
}

static void take_list(uint64_t call_id)
{
	take(call_id, "'list_volumes': {}");
}

static void take_expand(uint64_t call_id)
{
	take(call_id, "'timeout_ms': 60000, 'node_expand': {'external_id': 'vol-1', 'secrets': {'key': "
		      "'top-secret'}}");
}

TEST_FIXTURE(a_call_of_the_server_is_one_call_of_the_plugin_and_one_reply, setup, teardown)
{
	take_detach(7, "vol-1");
	assert_int_equal(world.replies, 0);
	settle();
	assert_int_equal(world.wanted_half, PLUGIN_CONTROLLER);
	assert_int_equal(world.plugin->calls[CSI_CONTROLLER_UNPUBLISH_VOLUME], 1);
	assert_string_equal(fake_csi_volume("vol-1")->last_secret, "top-secret");
	assert_int_equal(world.plugin->last_timeout_us[CSI_CONTROLLER_UNPUBLISH_VOLUME],
			 controller_timeout_us(60000));
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_call_id, 7);
	assert_int_equal(world.last_code, STATUS_OK);
	assert_int_equal(world.last_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_DETACH);
}

TEST_FIXTURE(a_failure_is_the_plugins_code_and_words_and_is_not_tried_again, setup, teardown)
{
	fake_csi_order(world.plugin, CSI_CONTROLLER_UNPUBLISH_VOLUME, FAKE_CSI_FAIL, 1, STATUS_UNAVAILABLE);
	world.plugin->orders[CSI_CONTROLLER_UNPUBLISH_VOLUME].text = "the storage is away";
	take_detach(7, "vol-1");
	settle();
	assert_int_equal(world.plugin->calls[CSI_CONTROLLER_UNPUBLISH_VOLUME], 1);
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_code, STATUS_UNAVAILABLE);
	assert_false(world.last_not_here);
	assert_non_null(strstr(world.last_message, "the storage is away"));
	assert_int_equal(world.last_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE__NOT_SET);
}

TEST_FIXTURE(a_volume_that_is_not_confirmed_is_answered_without_its_secrets, setup, teardown)
{
	world.plugin->objection = "login as app:hunter2-long-secret failed";
	take(7, "'validate': {'external_id': 'vol-1', 'capabilities': [{'access_mode': 'SINGLE_NODE_WRITER', "
		"'attachment_mode': 'FILE_SYSTEM'}], 'secrets': {'key': 'hunter2-long-secret'}}");
	settle();
	assert_string_equal(fake_csi_volume("vol-1")->last_secret, "hunter2-long-secret");
	assert_int_equal(world.last_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_VALIDATE);
	assert_string_equal(world.last_objection, "login as app:[redacted] failed");
}

TEST_FIXTURE(not_found_counts_as_detached, setup, teardown)
{
	fake_csi_order(world.plugin, CSI_CONTROLLER_UNPUBLISH_VOLUME, FAKE_CSI_FAIL, 1, STATUS_NOT_FOUND);
	take_detach(7, "vol-1");
	settle();
	assert_int_equal(world.last_code, STATUS_OK);
	assert_int_equal(world.last_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_DETACH);
}

TEST_FIXTURE(a_half_that_is_not_here_is_reported_not_here, setup, teardown)
{
	world.plugin_status = STATUS_NOT_FOUND;
	take_detach(7, "vol-1");
	assert_int_equal(world.replies, 0);
	settle();
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_call_id, 7);
	assert_true(world.last_not_here);
	assert_int_not_equal(world.last_code, STATUS_OK); /* and not a detach that is done */
	assert_int_equal(world.last_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE__NOT_SET);
}

TEST_FIXTURE(a_plugin_that_is_not_healthy_is_here, setup, teardown)
{
	world.plugin_status = STATUS_UNAVAILABLE;
	take_detach(7, "vol-1");
	settle();
	assert_false(world.last_not_here);
	assert_int_equal(world.last_code, STATUS_UNAVAILABLE);
	assert_non_null(strstr(world.last_message, "not now"));
}

TEST_FIXTURE(an_unannounced_capability_is_refused_without_a_call, setup, teardown)
{
	world.facts.controller.attach_detach = false;
	take_detach(7, "vol-1");
	settle();
	assert_int_equal(world.last_code, STATUS_UNIMPLEMENTED);
	assert_non_null(strstr(world.last_message, "PUBLISH_UNPUBLISH_VOLUME"));
	assert_int_equal(world.plugin->calls[CSI_CONTROLLER_UNPUBLISH_VOLUME], 0);
}

TEST_FIXTURE(a_request_that_must_not_be_made_is_answered_without_a_call, setup, teardown)
{
	take_detach(7, "");
	settle();
	assert_int_equal(world.last_code, STATUS_INVALID_ARGUMENT);
	assert_int_equal(world.plugin->calls[CSI_CONTROLLER_UNPUBLISH_VOLUME], 0);
}

TEST_FIXTURE(a_call_of_a_later_server_is_answered, setup, teardown)
{
	take(3, "'timeout_ms': 0");
	settle();
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_call_id, 3);
	assert_int_equal(world.last_code, STATUS_UNIMPLEMENTED);
}

TEST_FIXTURE(a_lie_of_the_plugin_is_an_error_that_leaves_the_outcome_open, setup, teardown)
{
	static const char create[] = "'create': {'name': 'db', 'capabilities': [{'access_mode': "
				     "'SINGLE_NODE_WRITER', 'attachment_mode': 'FILE_SYSTEM'}]}";

	fake_csi_order(world.plugin, CSI_CREATE_VOLUME, FAKE_CSI_LIE, 1, STATUS_OK);
	take(0, "%s", create);
	settle();
	assert_int_equal(world.last_code, STATUS_INTERNAL);
	assert_non_null(strstr(world.last_message, "CreateVolume"));
	take(0, "%s", create); /* as the server does */
	settle();
	assert_int_equal(world.last_code, STATUS_OK);
	assert_int_equal(world.last_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_CREATE);
}

TEST_FIXTURE(a_node_expansion_goes_through_the_volume_manager, setup, teardown)
{
	const struct error gone = {.status = STATUS_NOT_FOUND, .msg = "not on this node"};

	take_expand(7);
	settle();
	assert_int_equal(world.wanted_half, PLUGIN_NODE);
	assert_string_equal(world.expanded_external_id, "vol-1");
	assert_int_equal(world.expand_timeout_us, controller_timeout_us(60000));
	assert_int_equal(world.replies, 0);
	world.expanded(42, NULL, world.expanding);
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_code, STATUS_OK);
	assert_int_equal(world.last_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_NODE_EXPAND);
	assert_int_equal(world.last_bytes, 42);
	world.expanded = NULL;
	take_expand(8);
	world.expanded(0, &gone, world.expanding);
	assert_int_equal(world.last_code, STATUS_NOT_FOUND);
	assert_false(world.last_not_here);
	assert_string_equal(world.last_message, "not on this node");
	world.expanded = NULL;
	world.facts.node.expand = false;
	take_expand(9);
	settle();
	assert_null(world.expanded);
	assert_int_equal(world.last_code, STATUS_UNIMPLEMENTED);
}

TEST_FIXTURE(calls_in_flight_are_bounded, setup, teardown)
{
	fake_csi_order(world.plugin, CSI_LIST_VOLUMES, FAKE_CSI_HOLD, CONTROLLER_CALLS_MAX, STATUS_OK);
	for (unsigned int i = 0; i < CONTROLLER_CALLS_MAX; i++)
		take_list(i);
	settle();
	assert_int_equal(world.replies, 0);
	take_list(1000);
	settle();
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_call_id, 1000);
	assert_int_equal(world.last_code, STATUS_RESOURCE_EXHAUSTED);
	while (fake_csi_answer() > 0)
		settle();
	assert_int_equal(world.replies, 1 + CONTROLLER_CALLS_MAX);
	take_list(1001);
	settle();
	assert_int_equal(world.last_call_id, 1001);
	assert_int_equal(world.last_code, STATUS_OK);
}

TEST_FIXTURE(calls_of_an_ended_session_get_no_reply, setup, teardown)
{
	fake_csi_order(world.plugin, CSI_CONTROLLER_UNPUBLISH_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	take_detach(7, "vol-1");
	settle();
	take_detach(8, ""); /* refused, and not said yet */
	controller_calls_drop(world.calls);
	settle();
	assert_int_equal(fake_csi_answer(), 1); /* it continues */
	settle();
	assert_int_equal(world.replies, 0);
	take_detach(9, "vol-1"); /* of the next session */
	settle();
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_call_id, 9);
}

TEST_FIXTURE(freed_calls_send_no_reply, setup, teardown)
{
	fake_csi_order(world.plugin, CSI_CONTROLLER_UNPUBLISH_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	take_detach(7, "vol-1");
	settle();
	take_detach(8, "");
	take_expand(9);
	controller_calls_free(world.calls);
	world.calls = NULL;
	(void)fake_csi_answer();
	settle();
	assert_int_equal(world.replies, 0);
}

TEST_FIXTURE(a_plugin_that_vanishes_ends_its_calls, setup, teardown)
{
	fake_csi_order(world.plugin, CSI_CONTROLLER_UNPUBLISH_VOLUME, FAKE_CSI_HANG, 1, STATUS_OK);
	take_detach(7, "vol-1");
	settle();
	fake_csi_set_up(world.plugin, false);
	settle();
	assert_int_equal(world.replies, 1);
	assert_int_equal(world.last_code, STATUS_UNAVAILABLE);
	assert_false(world.last_not_here); /* it may have been done */
}
