/* SPDX-License-Identifier: Apache-2.0 */
/* Rights are those in a volume's own namespace, whatever a request says; and a volume's life over a real
 * session with a real controller queue. */

#include "callers.h"
#include "unit.h"

#include "state/change.h"
#include "state/keys.h"
#include "volume/store.h"

#include <holdfast/v1/fences.pb-c.h>

#define MINE_1 "01890001-0000-7000-83fd-30542fe3f61b"	/* an id of namespace mine */
#define THEIRS_2 "01890002-0000-7000-84c5-5a8552a2c726" /* of theirs */
#define PARTS                                                                                             \
	"\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN                                                     \
	"\",\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_" \
	"SYSTEM\"}]"

static enum status try(struct caller_client *caller, const char *method, const char *json, char *ret_text,
		       size_t size)
{
	cleanup(json_decrefp) json_t *answer = NULL;
	struct error err = {0};
	enum status status = caller_call(caller, method, json, &answer, &err);
	cleanup_free char *text = status == STATUS_OK ? json_dumps(answer, JSON_COMPACT) : NULL;

	if (ret_text)
		str_copy_text(ret_text, size, text ? text : err.msg);
	return status;
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_acl, teardown)

CASE(rights_are_those_in_the_volumes_own_namespace)
{
	static const struct {
		const char *method, *mine, *theirs;
		enum status status; /* of mine: past the rights */
	} cases[] = {
		{"Volumes.Register", "{\"volume\":{\"id\":\"v\",\"namespace\":\"mine\"}}",
		 "{\"volume\":{\"id\":\"v\",\"namespace\":\"theirs\"}}", STATUS_INVALID_ARGUMENT},
		{"Volumes.Create", "{\"volume\":{\"id\":\"v\",\"namespace\":\"mine\"}}",
		 "{\"volume\":{\"id\":\"v\",\"namespace\":\"theirs\"}}", STATUS_INVALID_ARGUMENT},
		{"Volumes.Get", "{\"id\":\"v\",\"namespace\":\"mine\"}",
		 "{\"id\":\"v\",\"namespace\":\"theirs\"}", STATUS_NOT_FOUND},
		{"Volumes.List", "{\"namespace\":\"mine\"}", "{\"namespace\":\"theirs\"}", STATUS_OK},
		{"Volumes.Deregister", "{\"id\":\"v\",\"namespace\":\"mine\"}",
		 "{\"id\":\"v\",\"namespace\":\"theirs\"}", STATUS_NOT_FOUND},
		{"Volumes.Delete", "{\"id\":\"v\",\"namespace\":\"mine\"}",
		 "{\"id\":\"v\",\"namespace\":\"theirs\"}", STATUS_NOT_FOUND},
		{"Volumes.Expand", "{\"id\":\"v\",\"namespace\":\"mine\"}",
		 "{\"id\":\"v\",\"namespace\":\"theirs\"}", STATUS_NOT_FOUND},
		{"Volumes.Detach", "{\"id\":\"v\",\"namespace\":\"mine\"}",
		 "{\"id\":\"v\",\"namespace\":\"theirs\"}", STATUS_NOT_FOUND},
		{"Volumes.CreateSnapshot", "{\"volumeId\":\"v\",\"namespace\":\"mine\"}",
		 "{\"volumeId\":\"v\",\"namespace\":\"theirs\"}", STATUS_NOT_FOUND},
	};
	cleanup(caller_release) struct caller_client caller;
	cleanup_free char *secret = NULL;

	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\":{\"name\":\"mine\",\"namespaces\":[{\"namespace\":\"mine\",\"policy\":"
		      "\"write\"}],\"plugin\":\"read\"}}");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"mine\"]}");
	caller_init(&caller, f, NULL, secret);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[ERROR_MSG_MAX];

		if (try(&caller, cases[i].method, cases[i].mine, text, sizeof(text)) != cases[i].status)
			fail_msg("%s: %s", cases[i].method, text);
		if (try(&caller, cases[i].method, cases[i].theirs, text, sizeof(text)) !=
		    STATUS_PERMISSION_DENIED)
			fail_msg("%s: %s", cases[i].method, text);
	}
}

CASE(a_list_of_all_namespaces_shows_those_that_the_caller_may_list)
{
	cleanup(caller_release) struct caller_client caller;
	char text[4096], *secret;

	connect_csi(f);
	operator_does(f, "Volumes.Register", "{\"volume\":{\"id\":\"a\",\"namespace\":\"mine\"," PARTS "}}");
	operator_does(f, "Volumes.Register",
		      "{\"volume\":{\"id\":\"b\",\"namespace\":\"between\"," PARTS "}}");
	operator_does(f, "Volumes.Register",
		      "{\"volume\":{\"id\":\"c\",\"namespace\":\"theirs\"," PARTS "}}");
	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\":{\"name\":\"mine\",\"namespaces\":[{\"namespace\":\"mine\",\"policy\":"
		      "\"read\"}],\"plugin\":\"read\"}}");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"mine\"]}");
	caller_init(&caller, f, NULL, secret);
	assert_ok(try(&caller, "Volumes.List", "{\"namespace\":\"*\"}", text, sizeof(text)));
	assert_non_null(strstr(text, "\"mine\""));
	assert_null(strstr(text, "between"));
	assert_null(strstr(text, "theirs"));
	free(secret);
}

static void run_in(struct fixture *f, const char *alloc, const char *namespace)
{
	char text[1024];

	(void)str_format(
		text, sizeof(text),
		"{\"allocation\":{\"id\":\"%s\",\"namespace\":\"%s\",\"name\":\"x\",\"nodeId\":\"n2\","
		"\"driver\":\"none\",\"volumes\":[{\"name\":\"data\",\"source\":\"v\",\"accessMode\":"
		"\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_SYSTEM\"}]}}",
		alloc, namespace);
	operator_does(f, "Allocations.Run", text);
}

/* A claim of an allocation in @namespace, as if it had been granted. */
static void hold_in(struct fixture *f, const char *id, const char *alloc, const char *namespace)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim =
		ROW(.mode = CLAIM_WRITE, .access_mode = SINGLE_NODE_WRITER,
		    .attachment_mode = ATTACHMENT_FILE_SYSTEM, .state = CLAIM_TAKEN, .generation = 1);

	(void)str_copy(claim.id, sizeof(claim.id), id);
	(void)str_copy(claim.volume_id, sizeof(claim.volume_id), "v");
	(void)str_copy(claim.namespace, sizeof(claim.namespace), namespace);
	(void)str_copy(claim.plugin_id, sizeof(claim.plugin_id), CSI_PLUGIN);
	(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), alloc);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), "n2");
	(void)str_copy(claim.boot_id, sizeof(claim.boot_id), BOOT_1);
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

CASE(a_node_shows_the_work_of_namespaces_that_the_caller_may_read)
{
	static const struct {
		const char *policy;
		int allocs, claims; /* of its namespaces */
	} cases[] = {
		{"{\"policy\":{\"name\":\"p\",\"node\":\"write\",\"namespaces\":[{\"namespace\":\"mine\","
		 "\"policy\":\"read\"}]}}",
		 1, 1},
		{"{\"policy\":{\"name\":\"p\",\"node\":\"write\",\"namespaces\":[{\"namespace\":\"mine\","
		 "\"capabilities\":[\"csi-read-volume\"]}]}}",
		 0, 1},
		{"{\"policy\":{\"name\":\"p\",\"node\":\"write\"}}", 0, 0},
	};
	static const char *const others[] = {"Nodes.List", "Nodes.SetEligibility", "Nodes.Drain"};
	char text[8192], *secret;
	cleanup(caller_release) struct caller_client caller;
	struct instance_entry *instance;

	connect_csi(f);
	operator_does(f, "Volumes.Register", "{\"volume\":{\"id\":\"v\",\"namespace\":\"mine\"," PARTS "}}");
	operator_does(f, "Volumes.Register",
		      "{\"volume\":{\"id\":\"v\",\"namespace\":\"theirs\",\"externalId\":\"other\"," PARTS
		      "}}");
	run_in(f, MINE_1, "mine");
	run_in(f, THEIRS_2, "theirs");
	hold_in(f, "01890000-0000-7000-8000-00000000c001", MINE_1, "mine");
	hold_in(f, "01890000-0000-7000-8000-00000000c002", THEIRS_2, "theirs");
	/* it runs the plugin */
	instance = LIST_FIRST(&state_node(&f->server->state, "n2")->instances);
	(void)str_copy(instance->instance.plugin.allocation_id, UUID_TEXT_SIZE, THEIRS_2);
	operator_does(f, "Operator.PutPolicy", cases[0].policy);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		operator_does(f, "Operator.PutPolicy", cases[i].policy);
		for (size_t k = 0; k < ARRAY_SIZE(others); k++) {
			assert_int_equal(try(&caller, others[k], k == 0 ? "{}" : "{\"id\":\"n2\"}", text,
					     sizeof(text)),
					 STATUS_OK);
			assert_null(strstr(text, THEIRS_2));
		}
		assert_int_equal(try(&caller, "Nodes.Get", "{\"id\":\"n2\"}", text, sizeof(text)), STATUS_OK);
		assert_int_equal(strstr(text, "\"allocations\":[{\"id\":\"" MINE_1) != NULL, cases[i].allocs);
		assert_int_equal(strstr(text, "00000000c001") != NULL, cases[i].claims);
		assert_non_null(strstr(text, "\"live_claims\":\"2\"")); /* of all namespaces */
		assert_null(strstr(text, "theirs"));
		assert_null(strstr(text, THEIRS_2));
		assert_int_equal(try(&caller, "Nodes.Drain", "{\"id\":\"n2\"}", text, sizeof(text)),
				 STATUS_OK);
		assert_int_equal(strstr(text, "00000000c001") != NULL, cases[i].claims);
		assert_null(strstr(text, "theirs"));
		assert_null(strstr(text, "00000000c002"));
	}
	free(secret);
}

/* The allocation of the volume wants the fence. */
CASE(a_plan_of_fences_hides_volumes_of_other_namespaces)
{
	static const struct {
		const char *capability, *namespace;
		bool sees;
	} cases[] = {{"csi-read-volume", "theirs", true},
		     {"csi-read-volume", "mine", false},
		     {"csi-list-volume", "theirs", false}};
	Holdfast__V1__AllocationOptions options = HOLDFAST__V1__ALLOCATION_OPTIONS__INIT;
	Holdfast__V1__OnNodeLoss loss = HOLDFAST__V1__ON_NODE_LOSS__INIT;
	struct change change = CHANGE_INIT;
	cleanup(caller_release) struct caller_client caller;
	char text[8192], *secret;

	connect_csi(f);
	operator_does(f, "Volumes.Register",
		      "{\"volume\":{\"id\":\"v\",\"namespace\":\"theirs\"," PARTS "}}");
	run_in(f, THEIRS_2, "theirs");
	hold_in(f, "01890000-0000-7000-8000-00000000c002", THEIRS_2, "theirs");
	loss.do_ = HOLDFAST__V1__NODE_LOSS_ACTION__NODE_LOSS_ACTION_POWER_FENCE;
	loss.after_ms = 60000;
	options.on_node_loss = &loss;
	change_put_record(&change, PREFIX_ALLOC_OPTIONS THEIRS_2, &options.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	change_release(&change);
	fake_node_disconnect(&f->n2);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n2")));
	operator_does(f, "Operator.PutPolicy", "{\"policy\":{\"name\":\"p\",\"node\":\"read\"}}");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool sees = cases[i].sees;

		(void)str_format(
			text, sizeof(text),
			"{\"policy\":{\"name\":\"p\",\"node\":\"read\",\"namespaces\":[{\"namespace\":"
			"\"%s\",\"capabilities\":[\"%s\"]}]}}",
			cases[i].namespace, cases[i].capability);
		operator_does(f, "Operator.PutPolicy", text);
		assert_int_equal(try(&caller, "Fences.Plan", "{}", text, sizeof(text)), STATUS_OK);
		assert_non_null(strstr(text, "\"n2\""));
		assert_int_equal(strstr(text, "\"v\"") != NULL, sees);
		assert_int_equal(strstr(text, "theirs") != NULL, sees);
		assert_int_equal(strstr(text, THEIRS_2) != NULL, sees);
		assert_int_equal(strstr(text, "\"policy\":\"allocation\"") != NULL, !sees);
	}
	free(secret);
}

CASE(a_fence_of_the_server_hides_volumes_of_other_namespaces)
{
	static const char *const namespaces[] = {"mine", "*"};
	static const char *const methods[] = {"Fences.Get", "Fences.List"};
	Holdfast__V1__Fence fence = HOLDFAST__V1__FENCE__INIT;
	struct change change = CHANGE_INIT;
	struct caller_client caller;
	char node[] = "n2", reason[] = "away for 30s, on_node_loss of job db, group pg for volume theirs/v";
	char text[8192], *secret;

	connect_csi(f);
	fence.node_id = node;
	fence.reason = reason;
	fence.automatic = true;
	change_put_record(&change, PREFIX_FENCE "n2", &fence.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	change_release(&change);
	operator_does(f, "Operator.PutPolicy", "{\"policy\":{\"name\":\"p\",\"node\":\"read\"}}");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		(void)str_format(
			text, sizeof(text),
			"{\"policy\":{\"name\":\"p\",\"node\":\"read\",\"namespaces\":[{\"namespace\":"
			"\"%s\",\"policy\":\"read\"}]}}",
			namespaces[i]);
		operator_does(f, "Operator.PutPolicy", text);
		for (size_t k = 0; k < ARRAY_SIZE(methods); k++) {
			assert_int_equal(try(&caller, methods[k], k == 0 ? "{\"id\":\"n2\"}" : "{}", text,
					     sizeof(text)),
					 STATUS_OK);
			assert_non_null(strstr(text, "away for 30s"));
			assert_int_equal(strstr(text, "theirs") != NULL, i == 1);
			assert_int_equal(strstr(text, "job db") != NULL, i == 1);
		}
	}
	caller_release(&caller);
	free(secret);
}

static const Holdfast__V1__VolumeDetail *detail(struct fixture *f, const char *id)
{
	struct volume_entry *entry = state_volume(&f->server->state, "default", id);

	return entry ? volume_detail_of(f->server, &entry->volume) : NULL;
}

CASE(a_volumes_life_goes_over_sessions)
{
	cleanup(caller_release) struct caller_client caller;
	struct error err;

	caller_init(&caller, f, "holdfast://c1/operator/dev", NULL);
	assert_int_equal(
		caller_call(&caller, "Volumes.Create", "{\"volume\":{\"id\":\"db\"," PARTS "}}", NULL, &err),
		STATUS_FAILED_PRECONDITION); /* nobody has reported the plugin */
	connect_csi(f);
	operator_does(f, "Volumes.Register", "{\"volume\":{\"id\":\"old\"," PARTS "}}");
	assert_int_equal(f->plugin.calls[HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE], 1);
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE, MODEL_LOSE_BEFORE, 1,
			   STATUS_OK);
	assert_int_not_equal(caller_call(&caller, "Volumes.Register",
					 "{\"volume\":{\"id\":\"lost\"," PARTS "}}", NULL, &err),
			     STATUS_OK);
	assert_non_null(strstr(err.msg, "nothing was stored"));
	assert_null(state_volume(&f->server->state, "default", "lost"));
	assert_string_equal(f->plugin.violation, "");
}

CASE(a_deletion_continues_when_its_controller_is_back)
{
	cleanup(caller_release) struct caller_client caller;
	struct error err;

	connect_csi(f);
	operator_does(f, "Volumes.Register", "{\"volume\":{\"id\":\"old\"," PARTS "}}");
	f->n2.csi.can_create_delete = true;
	fake_node_send_fingerprint(&f->n2);
	settle(f);
	caller_init(&caller, f, "holdfast://c1/operator/dev", NULL);
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE, MODEL_LOSE_AFTER, 1,
			   STATUS_OK);
	assert_int_equal(caller_call(&caller, "Volumes.Delete", "{\"id\":\"old\"}", NULL, &err),
			 STATUS_UNKNOWN);
	assert_int_equal(detail(f, "old")->phase, HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, !state_volume(&f->server->state, "default", "old"));
	assert_string_equal(f->plugin.violation, "");
}

static void caller_with_policy(struct fixture *f, const char *rules, struct caller_client *ret)
{
	cleanup_free char *secret = NULL;
	char text[1024];

	(void)str_format(text, sizeof(text), "{\"policy\":{\"name\":\"p\",\"namespaces\":[%s]}}", rules);
	operator_does(f, "Operator.PutPolicy", text);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	caller_init(ret, f, NULL, secret);
}

#define MINE(words) "{\"namespace\":\"mine\",\"capabilities\":[" words "]}"

static void register_in(struct fixture *f, const char *namespace)
{
	char text[512];

	(void)str_format(text, sizeof(text),
			 "{\"volume\":{\"id\":\"v\",\"namespace\":\"%s\",\"externalId\":\"of-%s\"," PARTS
			 "}}",
			 namespace, namespace);
	operator_does(f, "Volumes.Register", text);
}

/* Neither a message nor a code tells whether another namespace has THEIRS_2. */
static void check_as_unknown(struct caller_client *caller)
{
	static const char *const methods[] = {"Allocations.Get", "Allocations.Stop"};
	char foreign[ERROR_MSG_MAX], unknown[ERROR_MSG_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		assert_int_equal(
			try(caller, methods[i], "{\"id\":\"" THEIRS_2 "\"}", foreign, sizeof(foreign)),
			STATUS_NOT_FOUND);
		assert_int_equal(
			try(caller, methods[i], "{\"id\":\"" ALLOC_3 "\"}", unknown, sizeof(unknown)),
			STATUS_NOT_FOUND);
		memcpy(NON_NULL(strstr(foreign, THEIRS_2)), ALLOC_3, strlen(ALLOC_3));
		assert_string_equal(foreign, unknown);
	}
}

CASE(an_allocation_of_another_namespace_is_as_one_that_does_not_exist)
{
	cleanup(caller_release) struct caller_client caller, bound;
	cleanup_free char *secret = NULL;

	connect_csi(f);
	register_in(f, "mine");
	register_in(f, "theirs");
	run_in(f, MINE_1, "mine");
	run_in(f, THEIRS_2, "theirs");
	caller_with_policy(f, MINE("\"read-job\",\"submit-job\""), &caller);
	assert_int_equal(try(&caller, "Allocations.Get", "{\"id\":\"" MINE_1 "\"}", NULL, 0), STATUS_OK);
	check_as_unknown(&caller);
	secret = make_token(f, "{\"name\":\"b\",\"type\":\"CLIENT\",\"policies\":[\"p\"],\"node\":\"n1\"}");
	caller_init(&bound, f, NULL, secret);
	assert_int_equal(try(&bound, "Allocations.Get", "{\"id\":\"" MINE_1 "\"}", NULL, 0),
			 STATUS_PERMISSION_DENIED);
	check_as_unknown(&bound);
	assert_int_equal(state_alloc(&f->server->state, THEIRS_2)->alloc.desired_status, DESIRED_RUN);
}

/* Allocation 1 is the caller's, 2 is not. */
CASE(no_page_of_allocations_names_one_of_another_namespace)
{
	cleanup(caller_release) struct caller_client caller;
	char text[4096];

	connect_csi(f);
	register_in(f, "mine");
	register_in(f, "theirs");
	run_in(f, MINE_1, "mine");
	run_in(f, THEIRS_2, "theirs");
	caller_with_policy(f, MINE("\"list-jobs\""), &caller);
	assert_int_equal(
		try(&caller, "Allocations.List", "{\"namespace\":\"*\",\"perPage\":1}", text, sizeof(text)),
		STATUS_OK);
	assert_non_null(strstr(text, MINE_1));
	assert_null(strstr(text, THEIRS_2));
}

static void put_alloc(struct fixture *f, const char *namespace, unsigned int n, struct csi_plugin *plugin)
{
	struct alloc alloc = {.name = "x",
			      .node_id = "n2",
			      .desired_status = DESIRED_RUN,
			      .client_status = plugin ? CLIENT_PENDING : CLIENT_COMPLETE,
			      .plugins = plugin,
			      .n_plugins = plugin ? 1 : 0};

	(void)str_copy(alloc.namespace, sizeof(alloc.namespace), namespace);
	(void)str_format(alloc.id, sizeof(alloc.id), "01890000-0000-7000-9%c00-%012u", namespace[0], n);
	assert_int_equal(state_put_alloc(&f->server->state, &alloc, NULL), STATUS_OK);
}

/* The caller's allocation has a higher id than those of aa, and a lower one than those of ff. */
CASE(no_token_names_one_of_many_allocations_of_another_namespace)
{
	enum { MANY = 20001 };
	static const char *const lists[] = {"\"namespace\":\"bb\"", "\"namespace\":\"*\"",
					    "\"namespace\":\"*\",\"nodeId\":\"n2\"",
					    "\"namespace\":\"*\",\"prefix\":\"01890000-\""};
	cleanup(caller_release) struct caller_client caller;
	char text[4096], json[256];

	for (unsigned int i = 0; i < MANY; i++) {
		put_alloc(f, "aa", i, NULL);
		put_alloc(f, "ff", i, NULL);
	}
	put_alloc(f, "bb", 0, NULL);
	caller_with_policy(f, "{\"namespace\":\"bb\",\"capabilities\":[\"list-jobs\"]}", &caller);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		(void)str_format(json, sizeof(json), "{%s}", lists[i]);
		assert_int_equal(try(&caller, "Allocations.List", json, text, sizeof(text)), STATUS_OK);
		assert_non_null(strstr(text, "-9b00-"));
		assert_null(strstr(text, "-9a00-"));
		assert_null(strstr(text, "-9f00-"));
	}
	assert_int_equal(try(&caller, "Allocations.List",
			     "{\"namespace\":\"bb\",\"nextToken\":\"aa.01890000-0000-7000-9a00-\"}", text,
			     sizeof(text)),
			 STATUS_OK);
	assert_null(strstr(text, "00-9"));
	assert_int_equal(
		try(&caller, "Allocations.List", "{\"namespace\":\"bb\",\"nextToken\":\"0189\"}", NULL, 0),
		STATUS_INVALID_ARGUMENT);
}

CASE(no_page_of_a_plugin_names_an_allocation_of_another_namespace)
{
	struct csi_plugin plugin = {.id = "p", .type = CSI_PLUGIN_NODE};
	cleanup(caller_release) struct caller_client caller;
	cleanup_free char *secret = NULL;
	char text[8192];

	for (unsigned int i = 0; i < 3; i++) {
		put_alloc(f, "aa", i, &plugin);
		put_alloc(f, "ff", i, &plugin);
	}
	put_alloc(f, "bb", 0, &plugin);
	/* with an event of each, and one of an allocation that is gone */
	for (unsigned int i = 0; i < 6; i++) {
		struct plugin_instance instance = {
			.node_id = "n2", .plugin = {.plugin_id = "p", .healthy = i % 2, .has_node = true}};

		(void)str_format(instance.plugin.allocation_id, UUID_TEXT_SIZE,
				 "01890000-0000-7000-9%c00-%012u", "abx"[i / 2], 0U);
		assert_int_equal(state_put_instance(&f->server->state, &instance, NULL), STATUS_OK);
	}
	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\":{\"name\":\"p\",\"namespaces\":[{\"namespace\":\"bb\",\"capabilities\":["
		      "\"read-job\"]}],\"plugin\":\"read\"}}");
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	assert_int_equal(try(&caller, "Plugins.Get", "{\"id\":\"p\",\"perPage\":9}", text, sizeof(text)),
			 STATUS_OK);
	assert_non_null(strstr(text, "\"allocation_id\":\"01890000-0000-7000-9b00-"));
	assert_null(strstr(text, "-9x00-"));
	assert_null(strstr(text, "-9a00-"));
	assert_null(strstr(text, "-9f00-"));
}

#define JOB(id, namespace)                                                                              \
	"{\"job\":{\"id\":\"" id                                                                        \
	"\",\"namespace\":\"" namespace "\",\"type\":\"JOB_TYPE_SERVICE\",\"groups\":[{\"name\":\"g\"," \
					"\"count\":1,"                                                  \
					"\"allocation\":{\"tasks\":[{"                                  \
					"\"task\":\"t\",\"driver\":\"container\",\"env\":[{\"key\":"    \
					"\"PASSWORD\",\"value\":\"hunter2\"}]}]}"                       \
					"}]}}"

/* Tasks, with their environment, are for callers who may read a job. The filter sees no more than is shown.
 */
CASE(a_list_of_jobs_is_of_visible_namespaces_and_has_tasks_for_readers)
{
	cleanup(caller_release) struct caller_client lists, reads;
	char text[8192];

	operator_does(f, "Jobs.Run", JOB("a", "mine"));
	operator_does(f, "Jobs.Run", JOB("secret-plan", "theirs"));
	caller_with_policy(f, MINE("\"list-jobs\""), &lists);
	assert_int_equal(try(&lists, "Jobs.List", "{\"namespace\":\"*\",\"perPage\":1}", text, sizeof(text)),
			 STATUS_OK);
	assert_non_null(strstr(text, "\"id\":\"a\""));
	assert_null(strstr(text, "secret-plan"));
	assert_null(strstr(text, "theirs"));
	assert_null(strstr(text, "hunter2"));
	assert_int_equal(try(&lists, "Jobs.List",
			     "{\"namespace\":\"mine\",\"filter\":\"groups.allocation.tasks.env.value == "
			     "hunter2\"}",
			     text, sizeof(text)),
			 STATUS_OK);
	assert_null(strstr(text, "\"id\":\"a\""));
	caller_with_policy(f, MINE("\"list-jobs\",\"read-job\""), &reads);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(try(&reads, "Jobs.List",
				     i == 0 ? "{\"namespace\":\"*\"}" : "{\"namespace\":\"mine\"}", text,
				     sizeof(text)),
				 STATUS_OK);
		assert_non_null(strstr(text, "hunter2"));
	}
}

CASE(the_answer_to_the_stop_of_a_job_has_tasks_only_for_readers)
{
	static const char *const asked[] = {"{\"id\":\"a\",\"namespace\":\"mine\"}",
					    "{\"id\":\"a\",\"namespace\":\"mine\",\"purge\":true}"};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(asked); i++) {
		cleanup(caller_release) struct caller_client caller;
		bool reads = i >= ARRAY_SIZE(asked);
		char text[8192];

		if (i % ARRAY_SIZE(asked) == 0)
			operator_does(f, "Jobs.Run", JOB("a", "mine"));
		caller_with_policy(f, reads ? MINE("\"submit-job\",\"read-job\"") : MINE("\"submit-job\""),
				   &caller);
		assert_int_equal(try(&caller, "Jobs.Stop", asked[i % ARRAY_SIZE(asked)], text, sizeof(text)),
				 STATUS_OK);
		assert_int_equal(strstr(text, "hunter2") != NULL, reads);
	}
}

#define LONG_NAME "v123456789v123456789v123456789v123456789v123456789v123456789v123"

/* A rule of all namespaces has the longer name, too; that of the namespace itself denies. */
CASE(a_namespace_of_the_longest_name_is_not_reached_by_a_longer_one)
{
	static const char *const methods[] = {"Jobs.Get", "Jobs.History", "Jobs.List"};
	cleanup(caller_release) struct caller_client caller;
	char text[8192];

	assert_int_equal(strlen(LONG_NAME), NAMESPACE_MAX);
	operator_does(f, "Jobs.Run", JOB("a", LONG_NAME));
	caller_with_policy(f,
			   "{\"namespace\":\"*\",\"policy\":\"read\"},"
			   "{\"namespace\":\"" LONG_NAME "\",\"policy\":\"deny\"}",
			   &caller);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const char *id = i < 2 ? "\"id\":\"a\"," : "";
		char json[256];

		(void)str_format(json, sizeof(json), "{%s\"namespace\":\"" LONG_NAME "\"}", id);
		assert_int_equal(try(&caller, methods[i], json, NULL, 0), STATUS_PERMISSION_DENIED);
		(void)str_format(json, sizeof(json), "{%s\"namespace\":\"" LONG_NAME "x\"}", id);
		assert_int_equal(try(&caller, methods[i], json, text, sizeof(text)),
				 i < 2 ? STATUS_NOT_FOUND : STATUS_OK);
		assert_null(strstr(text, "hunter2"));
		assert_null(strstr(text, "\"id\":\"a\""));
	}
}
