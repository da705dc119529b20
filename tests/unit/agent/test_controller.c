/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of a plugin for each call of the server, and what the server is answered: controller.cases
 * has pairs of messages in JSON.
 *
 *   call JSON          a PluginCall, for a plugin that announces everything
 *   without ABILITY    which it does not announce
 *   allowed            the call may be made
 *   asks JSON          the CSI request that is made of it
 *   refused STATUS: WORDS
 *   answer JSON        the response of the plugin
 *   reply JSON         the PluginReply that is made of it
 *   lie STATUS: WORDS  or the error */

#include "../cases.h"
#include "controller/map.h"
#include "rpc/pbjson.h"

#define CALL(kind) HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind

static struct {
	struct node_plugin facts;
	Holdfast__V1__PluginCall *call;
	ProtobufCMessage *response;
} now;

static const struct {
	const char *name;
	size_t at;
} abilities[] = {
#define ABILITY(name)                                     \
	{                                                 \
#name, offsetof(struct node_plugin, name) \
	}
	ABILITY(topology_required),
	ABILITY(controller.create_delete),
	ABILITY(controller.attach_detach),
	ABILITY(controller.list_volumes),
	ABILITY(controller.create_delete_snapshot),
	ABILITY(controller.list_snapshots),
	ABILITY(controller.clone),
	ABILITY(controller.readonly_attach),
	ABILITY(controller.expand),
	ABILITY(controller.single_node_multi_writer),
	ABILITY(controller.network_fence),
	ABILITY(node.expand),
};

/* @name "all": each of them. */
static void set_ability(const char *name, bool value)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(abilities); i++)
		if (str_eq(name, "all") || str_eq(name, abilities[i].name)) {
			*(bool *)((char *)&now.facts + abilities[i].at) = value;
			n++;
		}
	assert_msg(n != 0, "%s is no ability", name);
}

static ProtobufCMessage *read_message(const ProtobufCMessageDescriptor *descriptor,
				      const struct case_step *step)
{
	struct error err = {.msg = ""};
	json_t *json = json_loads(step->text, JSON_REJECT_DUPLICATES, NULL);
	ProtobufCMessage *message = NULL;

	if (!json || pbjson_decode(descriptor, json, 0, &message, &err) != STATUS_OK)
		fail_msg("line %d: %s: %.200s", step->line, err.msg, step->text);
	json_decref(json);
	return message;
}

/* Is @message what the step has? */
static size_t compare(const struct case_step *step, const ProtobufCMessage *message)
{
	json_t *wanted = json_loads(step->text, JSON_REJECT_DUPLICATES, NULL), *json = NULL;
	cleanup_free char *text = NULL;
	size_t n;

	assert_int_equal(pbjson_encode(message, PBJSON_PROTO_NAMES, &json, NULL), STATUS_OK);
	n = !json_equal(wanted, json);
	text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	if (n > 0)
		print_message("line %d: %s %.2000s\n", step->line, step->key, text);
	json_decref(wanted);
	json_decref(json);
	return n;
}

/* Is @err what the step has, "STATUS: WORDS", and does it name plugin and call? */
static size_t compare_error(const struct case_step *step, enum status status, const struct error *err)
{
	const char *words = strstr(step->text, ": ");
	enum csi_method method = controller_method(now.call);

	if (words && strncmp(step->text, status_name(status), (size_t)(words - step->text)) == 0 &&
	    status_name(status)[words - step->text] == '\0' && strstr(err->msg, words + 2) &&
	    (strstr(err->msg, "plugin ebs") || method == CSI_NODE_EXPAND_VOLUME) &&
	    (status == STATUS_INVALID_ARGUMENT || strstr(err->msg, csi_methods[method].name)))
		return 0;
	print_message("line %d: %s %s: %s\n", step->line, step->key, status_name(status), err->msg);
	return 1;
}

static int release(void **state)
{
	protobuf_c_message_free_unpacked((ProtobufCMessage *)TAKE_PTR(now.call), NULL);
	protobuf_c_message_free_unpacked(TAKE_PTR(now.response), NULL);
	return 0;
}

TEST_GROUP(NULL, release)

static void set_call(const struct case_step *step)
{
	(void)release(NULL);
	now.call = (Holdfast__V1__PluginCall *)read_message(&holdfast__v1__plugin_call__descriptor, step);
	now.call->call_id = 9;
	now.facts = (struct node_plugin){
		.plugin_id = "ebs", .healthy = true, .has_controller = true, .has_node = true};
	set_ability("all", true);
}

static size_t see_request(const struct case_step *step)
{
	static struct controller_request request;
	struct error err = {.msg = ""};
	enum status status = controller_check(now.call, &now.facts, &err);

	if (str_eq(step->key, "allowed"))
		return status == STATUS_OK ? 0 : compare_error(step, status, &err);
	memset(&request, 0xa5, sizeof(request)); /* nothing may count on zeroes */
	if (status == STATUS_OK)
		status = controller_request_make(now.call, &now.facts, &request, &err);
	if (status == STATUS_OK)
		return compare(step, &request.base);
	return compare_error(step, status, &err);
}

static size_t see_reply(const struct case_step *step)
{
	cleanup(controller_reply_release) struct controller_reply reply;
	struct error err = {.msg = ""};
	enum status status;
	size_t n;

	memset(&reply, 0xa5, sizeof(reply));
	status = controller_reply_make(now.call, &now.facts, now.response, &reply, &err);
	if (status == STATUS_OK) {
		assert_int_equal(reply.pb.call_id, 9);
		reply.pb.call_id = 0;
		n = compare(step, &reply.pb.base);
	} else {
		assert_int_equal(status, err.status);
		n = compare_error(step, status, &err);
	}
	return n;
}

static size_t run_step(const struct case_step *step)
{
	if (str_eq(step->key, "call"))
		set_call(step);
	else if (str_eq(step->key, "without"))
		set_ability(step->text, false);
	else if (str_eq(step->key, "allowed") || str_eq(step->key, "asks") || str_eq(step->key, "refused"))
		return see_request(step);
	else if (str_eq(step->key, "reply") || str_eq(step->key, "lie"))
		return see_reply(step);
	else if (str_eq(step->key, "answer")) {
		protobuf_c_message_free_unpacked(TAKE_PTR(now.response), NULL);
		now.response = read_message(csi_methods[controller_method(now.call)].response, step);
	} else {
		fail_msg("line %d: %s", step->line, step->key);
	}
	return 0;
}

TEST_CASES(CASES, run_step)

TEST(a_request_of_a_later_server_is_not_known)
{
	Holdfast__V1__PluginCall call = V1(plugin_call, .plugin_id = "ebs");
	struct error err = {.msg = ""};

	assert_int_equal(controller_method(&call), CSI_METHOD_N);
	assert_error(controller_check(&call, NULL, &err), STATUS_UNIMPLEMENTED, err, "upgrade");
}

static const Holdfast__V1__PluginCall__RequestCase kinds[] = {
	CALL(ATTACH),	       CALL(DETACH),	     CALL(VALIDATE),	 CALL(CREATE),
	CALL(DELETE),	       CALL(EXPAND),	     CALL(LIST_VOLUMES), CALL(CREATE_SNAPSHOT),
	CALL(DELETE_SNAPSHOT), CALL(LIST_SNAPSHOTS), CALL(NODE_EXPAND),
};

TEST(only_the_expansion_on_a_node_is_for_the_node_service)
{
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		call.request_case = kinds[i];
		assert_int_equal(controller_half_of(&call),
				 kinds[i] == CALL(NODE_EXPAND) ? PLUGIN_NODE : PLUGIN_CONTROLLER);
		assert_true(controller_method(&call) < CSI_METHOD_N);
	}
}

TEST(only_a_detach_accepts_not_found)
{
	const struct error gone = {.status = STATUS_NOT_FOUND, .msg = "no such volume"};
	const struct error busy = {.status = STATUS_FAILED_PRECONDITION, .msg = "busy"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		Holdfast__V1__PluginCall call = V1(plugin_call, .call_id = 9, .request_case = kinds[i]);
		bool is_detach = kinds[i] == CALL(DETACH);
		cleanup(controller_reply_release) struct controller_reply reply;

		assert_int_equal(controller_reply_fail(&call, &gone, &reply), is_detach);
		assert_int_equal(reply.pb.code, is_detach ? 0 : STATUS_NOT_FOUND);
		assert_int_equal(reply.pb.call_id, 9);
		if (is_detach) {
			assert_true(reply.pb.detach->not_found);
			assert_string_equal(reply.pb.detach->message, "no such volume");
		}
		controller_reply_release(&reply);
		assert_false(controller_reply_fail(&call, &busy, &reply));
		assert_int_equal(reply.pb.code, STATUS_FAILED_PRECONDITION);
		assert_string_equal(reply.pb.message, "busy");
		assert_int_equal(reply.pb.response_case, HOLDFAST__V1__PLUGIN_REPLY__RESPONSE__NOT_SET);
	}
}

TEST(the_node_answers_before_the_server_gives_up)
{
	static const struct {
		uint32_t timeout_ms;
		uint64_t us;
	} cases[] = {
		{0, 0},
		{1, 1000},
		{2, 1000},
		{1000, 500000},
		{2 * CONTROLLER_MARGIN_MS, 1000 * CONTROLLER_MARGIN_MS},
		{60000, UINT64_C(59000000)},
		{UINT32_MAX, (UINT64_C(4294967295) - CONTROLLER_MARGIN_MS) * 1000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(controller_timeout_us(cases[i].timeout_ms), cases[i].us);
}

/* Timestamps have no JSON form here. */
TEST(the_time_of_a_snapshot_is_kept_if_it_is_one)
{
	static const struct {
		int64_t seconds;
		int32_t nanos;
		int64_t ms;
	} times[] = {
		{0, 0, 0},
		{1, 999999999, 1999},
		{-1, 0, 0},
		{1, -1, 0},
		{1, 1000000000, 0},
		{INT64_MAX, 0, 0},
		{INT64_MAX / 1000 - 1, 0, (INT64_MAX / 1000 - 1) * 1000},
	};
	Csi__V1__Snapshot snapshot = CSI__V1__SNAPSHOT__INIT;
	Csi__V1__CreateSnapshotResponse response =
		PB(csi__v1__create_snapshot_response, .snapshot = &snapshot);
	Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
	Holdfast__V1__PluginCall call = V1(plugin_call, .request_case = CALL(CREATE_SNAPSHOT));
	const struct node_plugin facts = {.plugin_id = "ebs", .has_controller = true};
	struct controller_reply reply;

	snapshot.snapshot_id = "s";
	snapshot.creation_time = &time;
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		time.seconds = times[i].seconds;
		time.nanos = times[i].nanos;
		assert_ok(controller_reply_make(&call, &facts, &response.base, &reply, NULL));
		assert_int_equal(reply.pb.create_snapshot->snapshot->create_time_ms, times[i].ms);
		controller_reply_release(&reply);
	}
}
