/* SPDX-License-Identifier: Apache-2.0 */
/* Task drivers in a folder of the test, with models behind the sockets. */

#include "json_message.h"
#include "temp_dir.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "driver/drivers.h"

#include <order.h>
#include <signal.h>
#include <sys/stat.h>

enum { RUN_US = 60 * USEC_PER_SEC, MODELS = 2, CALLS = 4 };

struct model {
	struct rpc_server *server; /* NULL: it does not run */
	char path[TEMP_PATH_SIZE];
	const char *name, *version;
	uint32_t order_version;
	Holdfast__Driver__V1__Health health;
	const char *description;
	bool is_mute;	 /* Fingerprint is not answered */
	size_t n_fields; /* of its schema, and all are empty; 0: it has one that is not */
	struct rpc_call *watch;
	struct rpc_call *held; /* WaitTask */
	char set[64];	       /* the first key of the last SetConfig; "-": there was none */
};

struct world {
	char dir[TEMP_DIR_SIZE];
	sd_event *event;
	struct drivers *drivers;
	struct model models[MODELS];
	unsigned int changes;
	char last_reason[64]; /* at the last change */
	struct error end;     /* of the call that ended last */
	unsigned int n_ends;
};

static Holdfast__Driver__V1__NetworkMode modes[] = {HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST,
						    HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE};
static Holdfast__Driver__V1__MountPropagation propagation[] = {
	HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE,
	HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL};

/* Every field is set. */
static Holdfast__Driver__V1__CapabilitiesResponse capabilities_of(const struct model *model)
{
	static char user[] = "user", root[] = "root", nfs[] = "nfs";
	static char *allowed[] = {root};
	static Holdfast__Driver__V1__FieldLimit limit = {
		.base.descriptor = &holdfast__driver__v1__field_limit__descriptor,
		.field = user,
		.n_allowed = ARRAY_SIZE(allowed),
		.allowed = allowed};
	static Holdfast__Driver__V1__FieldLimit *limits[] = {&limit};
	static Holdfast__Driver__V1__PluginLimits plugin = {
		.base.descriptor = &holdfast__driver__v1__plugin_limits__descriptor,
		.id = nfs,
		.n_limits = ARRAY_SIZE(limits),
		.limits = limits};
	static Holdfast__Driver__V1__PluginLimits *plugins[] = {&plugin};
	Holdfast__Driver__V1__CapabilitiesResponse said =
		PB(holdfast__driver__v1__capabilities_response, .name = TEXT(model->name),
		   .version = TEXT(model->version), .order_version = model->order_version);

	said.send_signals = said.exec = said.exec_streaming = said.must_initiate_network = true;
	said.disable_log_collection = said.task_logs = said.task_stats = true;
	said.csi_plugins = said.restart_tasks = said.health_checks = true;
	said.n_network_modes = ARRAY_SIZE(modes);
	said.network_modes = modes;
	said.n_mount_propagation = ARRAY_SIZE(propagation);
	said.mount_propagation = propagation;
	said.n_limits = ARRAY_SIZE(limits);
	said.limits = limits;
	said.n_plugin_limits = ARRAY_SIZE(plugins);
	said.plugin_limits = plugins;
	return said;
}

static void on_capabilities(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__CapabilitiesResponse said = capabilities_of(userdata);

	rpc_call_reply(call, &said.base);
}

static void reply_empty_fields(struct rpc_call *call, size_t n)
{
	static Holdfast__Driver__V1__ConfigField field = HOLDFAST__DRIVER__V1__CONFIG_FIELD__INIT;
	cleanup_free Holdfast__Driver__V1__ConfigField **fields = NON_NULL(calloc(n, sizeof(*fields)));
	Holdfast__Driver__V1__ConfigSchemaResponse said =
		PB(holdfast__driver__v1__config_schema_response, .n_driver = n, .driver = fields);

	for (size_t i = 0; i < n; i++)
		fields[i] = &field;
	rpc_call_reply(call, &said.base);
}

static void on_schema(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const struct model *model = userdata;

	if (model->n_fields > 0)
		reply_empty_fields(call, model->n_fields);
	else
		reply_json(call, &holdfast__driver__v1__config_schema_response__descriptor,
			   "{'driver': [{'key': 'pull'}]}");
}

static void on_set_config(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__Driver__V1__SetConfigRequest *config = (const void *)request;
	struct model *model = userdata;

	(void)str_copy(model->set, sizeof(model->set), config->n_config > 0 ? config->config[0]->key : "-");
	reply_json(call, &holdfast__driver__v1__set_config_response__descriptor, "{}");
}

static void on_wait(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	struct model *model = userdata;

	assert_null(model->held);
	model->held = call;
}

static void say(const struct model *model)
{
	Holdfast__Driver__V1__FingerprintResponse said =
		PB(holdfast__driver__v1__fingerprint_response, .health = model->health,
		   .description = TEXT(model->description));

	assert_int_equal(rpc_call_send(model->watch, &said.base, NULL), STATUS_OK);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct model *model = userdata;

	model->watch = call;
	if (!model->is_mute)
		say(model);
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct model *model = userdata;

	if (model->watch == call)
		model->watch = NULL;
}

static const struct rpc_stream_handlers watch_stream = {.on_message = on_message, .on_closed = on_closed};
static const struct rpc_method methods[] = {
	{"Capabilities", on_capabilities},
	{"ConfigSchema", on_schema},
	{"SetConfig", on_set_config},
	{"WaitTask", on_wait},
	{"Fingerprint", .stream = &watch_stream},
};
static const struct rpc_service services[] = {
	{&holdfast__driver__v1__driver__descriptor, methods, ARRAY_SIZE(methods)}};

static void model_stop(struct model *model)
{
	struct error err;

	rpc_server_free(TAKE_PTR(model->server));
	if (!model->held)
		return;
	(void)error_set(&err, STATUS_CANCELLED, 0, "the model ends");
	rpc_call_fail(TAKE_PTR(model->held), &err); /* nobody hears it */
}

static void model_start(struct world *world, size_t i, const char *socket)
{
	struct model *model = &world->models[i];
	char folder[TEMP_PATH_SIZE], name[64];

	(void)snprintf(name, sizeof(name), "container/%s", socket);
	(void)temp_dir_path(model->path, world->dir, name);
	(void)mkdir(temp_dir_path(folder, world->dir, "container"), 0700);
	(void)str_copy(model->set, sizeof(model->set), "");
	assert_ok(rpc_server_new(world->event, services, 1, NULL, model, &model->server, NULL));
	assert_int_equal(rpc_server_listen_unix(model->server, model->path, 0600, NULL), STATUS_OK);
}

static void on_change(void *userdata)
{
	struct world *world = userdata;
	struct driver_info info = {.reason = ""};

	world->changes++;
	(void)drivers_list(world->drivers, &info, 1);
	str_copy_text(world->last_reason, sizeof(world->last_reason), info.reason);
}

static const Holdfast__Driver__V1__SetConfigRequest *config_of(const char *name, void *userdata)
{
	static Holdfast__Driver__V1__ConfigValue value = HOLDFAST__DRIVER__V1__CONFIG_VALUE__INIT;
	static Holdfast__Driver__V1__ConfigValue *values[] = {&value};
	static Holdfast__Driver__V1__SetConfigRequest config = HOLDFAST__DRIVER__V1__SET_CONFIG_REQUEST__INIT;

	assert_string_equal(name, "container");
	value.key = "pull";
	config.n_config = 1;
	config.config = values;
	return &config;
}

UNIT_SETUP(setup, struct world, world)
{
	struct drivers_options options = {.config = config_of, .changed = on_change, .userdata = world};

	(void)signal(SIGPIPE, SIG_IGN);
	temp_dir_make(world->dir);
	options.driver_dir = world->dir;
	assert_true(sd_event_new(&world->event) >= 0);
	for (size_t i = 0; i < MODELS; i++)
		world->models[i] = (struct model){
			.name = "container",
			.version = i == 0 ? "1.0" : "2.0",
			.order_version = ORDER_VERSION,
			.health = HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY,
			.description = "",
		};
	assert_int_equal(drivers_new(world->event, &options, &world->drivers, NULL), STATUS_OK);
	assert_int_equal(drivers_start(world->drivers, NULL), STATUS_OK);
}

UNIT_TEARDOWN(teardown, struct world, world)
{
	char folder[TEMP_PATH_SIZE];

	drivers_free(world->drivers);
	for (size_t i = 0; i < MODELS; i++) {
		model_stop(&world->models[i]);
		if (world->models[i].path[0] != '\0')
			(void)unlink(world->models[i].path);
	}
	(void)rmdir(temp_dir_path(folder, world->dir, "container"));
	(void)sd_event_unref(world->event);
	temp_dir_remove(world->dir);
}

#define UNTIL(world, condition) RUN_UNTIL((world)->event, condition)

/* What is known of the only driver; without a name: there is none. */
static struct driver_info info_of(const struct world *world)
{
	struct driver_info info = {.reason = ""};

	assert_true(drivers_list(world->drivers, &info, 1) <= 1);
	return info;
}

static bool is_healthy(const struct world *world)
{
	return info_of(world).is_healthy;
}

static bool has_reason(const struct world *world, const char *text)
{
	return strstr(info_of(world).reason, text) != NULL;
}

static bool has_version(const struct world *world, const char *version)
{
	return is_healthy(world) && str_eq(info_of(world).capabilities->version, version);
}

static bool is_ready(const struct world *world)
{
	struct service_client *client;

	return drivers_client(world->drivers, "container", &client, NULL) == STATUS_OK;
}

static void on_done(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct world *world = userdata;

	assert_non_null(err);
	world->end = *err;
	world->n_ends++;
}

static void start_wait(struct world *world)
{
	const Holdfast__Driver__V1__WaitTaskRequest request = HOLDFAST__DRIVER__V1__WAIT_TASK_REQUEST__INIT;
	struct service_client *client;

	assert_int_equal(drivers_client(world->drivers, "container", &client, NULL), STATUS_OK);
	assert_ok(service_call_start(client,
				     &(struct service_request){.method = DRIVER_WAIT_TASK,
							       .message = &request.base,
							       .done = on_done,
							       .userdata = world},
				     NULL, NULL));
	UNTIL(world, world->models[0].held || world->models[1].held);
}

/* Does the field say something? */
static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *base = (const char *)message;

	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)(const void *)(base + field->quantifier_offset) > 0;
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return (*(char *const *)(const void *)(base + field->offset))[0] != '\0';
	return *(const protobuf_c_boolean *)(const void *)(base + field->offset) != 0;
}

#define CASE(name) TEST_ON(name, struct world, world, setup, teardown)

CASE(a_driver_is_found_asked_and_set)
{
	struct service_client *client;
	struct error err;

	assert_int_equal(drivers_client(world->drivers, "container", &client, &err), STATUS_NOT_FOUND);
	model_start(world, 0, "driver.sock");
	UNTIL(world, is_healthy(world));
	assert_string_equal(info_of(world).name, "container");
	assert_string_equal(info_of(world).reason, "");
	assert_string_equal(info_of(world).schema->driver[0]->key, "pull");
	assert_string_equal(world->models[0].set, "pull");
	assert_true(world->changes > 0);
	assert_int_equal(drivers_client(world->drivers, "container", &client, NULL), STATUS_OK);
	assert_int_equal(drivers_client(world->drivers, "other", &client, &err), STATUS_NOT_FOUND);
}

CASE(every_field_of_the_capabilities_is_kept)
{
	const Holdfast__Driver__V1__CapabilitiesResponse said = capabilities_of(&world->models[0]);
	const ProtobufCMessage *kept;
	uint8_t bytes[2][512];
	size_t n = protobuf_c_message_get_packed_size(&said.base);

	model_start(world, 0, "driver.sock");
	UNTIL(world, is_healthy(world));
	kept = &info_of(world).capabilities->base;
	for (unsigned int i = 0; i < said.base.descriptor->n_fields; i++)
		assert_msg(is_set(kept, &said.base.descriptor->fields[i]), "%s",
			   said.base.descriptor->fields[i].name);
	assert_true(n <= sizeof(bytes[0]));
	assert_int_equal(protobuf_c_message_get_packed_size(kept), n);
	(void)protobuf_c_message_pack(&said.base, bytes[0]);
	(void)protobuf_c_message_pack(kept, bytes[1]);
	assert_memory_equal(bytes[0], bytes[1], n);
}

/* The server would end the session of the node. */
CASE(a_driver_whose_answer_fills_the_memory_is_not_taken)
{
	world->models[0].n_fields = 10000; /* 20 KB, and 25 times as much in memory */
	model_start(world, 0, "driver.sock");
	UNTIL(world, strstr(info_of(world).reason, "of memory"));
	assert_false(is_healthy(world));
}

CASE(driver_health_reports_are_followed)
{
	struct model *model = &world->models[0];
	struct service_client *client;

	model_start(world, 0, "driver.sock");
	UNTIL(world, is_healthy(world));
	model->health = HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNHEALTHY;
	model->description = "the engine does not answer. Next: rm";
	say(model);
	UNTIL(world, !is_healthy(world));
	assert_string_equal(info_of(world).reason, "the engine does not answer. next: rm");
	assert_int_equal(drivers_client(world->drivers, "container", &client, NULL), STATUS_OK);
	model->health = HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY;
	say(model);
	UNTIL(world, is_healthy(world));
}

CASE(of_many_reports_of_a_driver_few_go_on_and_the_last_one_does)
{
	enum { REPORTS = 200 };
	struct model *model = &world->models[0];
	char text[64], last[64];
	unsigned int before;

	model_start(world, 0, "driver.sock");
	UNTIL(world, is_healthy(world));
	before = world->changes;
	model->health = HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNHEALTHY;
	model->description = text;
	for (int i = 0; i < REPORTS; i++) {
		(void)snprintf(text, sizeof(text), "%d files are open", i);
		say(model);
	}
	(void)str_copy(last, sizeof(last), text);
	UNTIL(world, has_reason(world, last));
	UNTIL(world, str_eq(world->last_reason, last));
	assert_true(world->changes > before);
	assert_msg(world->changes - before < REPORTS / 4, "%u changes", world->changes - before);
	model->description = "another one"; /* it can report again */
	say(model);
	UNTIL(world, str_eq(world->last_reason, "another one"));
}

CASE(a_driver_that_is_restarted_is_asked_and_set_anew)
{
	model_start(world, 0, "driver.sock");
	UNTIL(world, is_healthy(world));
	start_wait(world);
	assert_int_equal(unlink(world->models[0].path),
			 0); /* it has not ended yet: its successor is what counts */
	model_start(world, 1, "driver.sock");
	UNTIL(world, is_ready(world) && has_version(world, "2.0"));
	assert_string_equal(world->models[1].set, "pull"); /* before anything else is asked of it */
	assert_int_equal(world->n_ends, 1);
	assert_true(service_is_shut_down(&world->end));

	model_stop(&world->models[0]);
	model_stop(&world->models[1]);
	model_start(world, 0, "driver.sock");
	UNTIL(world, is_ready(world) && has_version(world, "1.0"));
	assert_string_equal(world->models[0].set, "pull");
}

CASE(a_driver_whose_stream_ends_is_asked_anew_at_once)
{
	struct error err = {.status = STATUS_UNAVAILABLE, .msg = "the engine is restarted"};

	model_start(world, 0, "driver.sock");
	UNTIL(world, is_ready(world));
	world->models[0].set[0] = '\0';
	rpc_call_fail(TAKE_PTR(world->models[0].watch), &err);
	UNTIL(world, str_eq(world->models[0].set, "pull"));
}

CASE(the_newest_that_answers_is_used)
{
	model_start(world, 0, "a.sock");
	UNTIL(world, has_version(world, "1.0"));
	model_start(world, 1, "b.sock");
	UNTIL(world, has_version(world, "2.0"));
	start_wait(world);
	assert_non_null(world->models[1].held);
	assert_int_equal(unlink(world->models[1].path), 0);
	UNTIL(world, has_version(world, "1.0"));
	assert_int_equal(world->n_ends, 1);
	assert_true(service_is_shut_down(&world->end));
}

CASE(a_driver_is_listed_until_its_folder_is_gone)
{
	struct service_client *client;
	char folder[TEMP_PATH_SIZE];
	struct error err;

	model_start(world, 0, "driver.sock");
	UNTIL(world, is_healthy(world));
	assert_int_equal(unlink(world->models[0].path), 0);
	UNTIL(world, has_reason(world, "there is no socket in its folder"));
	assert_string_equal(info_of(world).name, "container");
	assert_int_equal(drivers_client(world->drivers, "container", &client, &err), STATUS_UNAVAILABLE);
	assert_int_equal(rmdir(temp_dir_path(folder, world->dir, "container")), 0);
	UNTIL(world, info_of(world).name == NULL);
	assert_int_equal(drivers_client(world->drivers, "container", &client, &err), STATUS_NOT_FOUND);
}

CASE(a_driver_of_another_name_is_not_used)
{
	struct service_client *client;
	struct error err;

	world->models[0].name = "engine";
	model_start(world, 0, "driver.sock");
	UNTIL(world, has_reason(world, "it calls itself 'engine'"));
	assert_error(drivers_client(world->drivers, "container", &client, &err), STATUS_UNAVAILABLE, err,
		     "it calls itself 'engine'");
}

CASE(a_driver_for_other_orders_is_not_used)
{
	world->models[0].order_version = ORDER_VERSION + 1;
	model_start(world, 0, "driver.sock");
	UNTIL(world, has_reason(world, "install driver and agent of one release"));
	assert_false(is_healthy(world));
}

CASE(a_driver_that_never_reports_how_it_is_does_not_answer)
{
	world->models[0].is_mute = true;
	model_start(world, 0, "driver.sock");
	UNTIL(world, has_reason(world, "Fingerprint: no answer within 5000 ms"));
	world->models[0].is_mute = false;
	UNTIL(world, is_healthy(world));
}
