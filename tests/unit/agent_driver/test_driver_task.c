/* SPDX-License-Identifier: Apache-2.0 */
/* One task, with models of a driver and of a claim server that answer each call as a row says. */

#include "json_message.h"
#include "temp_dir.h"
#include "unit_loop.h"

#include "base/clock.h"
#include "driver/driver_task.h"
#include "rpc/wakeup.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <signal.h>
#include <sys/stat.h>

#define ALLOC "0190a6f2-0000-7000-8000-000000000001"
#define THE_ORDER "dGhlIG9yZGVyAA==" /* "the order" */
#define SERVICE (&holdfast__driver__v1__driver__descriptor)

enum { RUN_US = 60 * USEC_PER_SEC, TRACE_SIZE = 64 };

/* Calls: O order, S start, R recover, W wait, A restart, P stop, D destroy, C create the network, X destroy
 * it. What is told: j about to start, r runs, u the network is there, x exited, f failed, g gone, t trouble.
 */
struct world {
	char dir[TEMP_DIR_SIZE];
	char drivers_path[TEMP_PATH_SIZE], driver_path[TEMP_PATH_SIZE], server_path[TEMP_PATH_SIZE];
	sd_event *event;
	struct rpc_server *driver, *server;
	struct rpc_client *client;
	struct drivers *drivers;
	const char *errors; /* of the row: "S:a" an answer to come for a call, in their order; see answer() */
	bool holds_wait;
	struct rpc_call *held;
	bool is_network;
	bool goes;	   /* on_start() is on the disk at once */
	int restarts_left; /* that on_exited() asks for */
	int unmounted;	   /* so often a restart may not begin */
	bool has_check;
	const char *says; /* of its health, by InspectTask */
	size_t n_inspected;
	char health[64]; /* as they came, one behind the other */
	struct driver_task *task;
	char trace[TRACE_SIZE];
	struct error last;
	uint32_t most_attempts; /* that were shown with a trouble */
};

static void note(struct world *world, char what)
{
	size_t n = strlen(world->trace);

	assert_true(n + 1 < sizeof(world->trace));
	world->trace[n] = what;
	world->trace[n + 1] = '\0';
}

/* Is the next answer of the row one for @call? Then it is given: a(borted), n(ot found), p(ermission denied),
 * w(rong: failed precondition). */
static bool answer_error(struct world *world, struct rpc_call *call, char what)
{
	static const struct {
		char letter;
		enum status status;
	} codes[] = {{'a', STATUS_ABORTED},
		     {'n', STATUS_NOT_FOUND},
		     {'p', STATUS_PERMISSION_DENIED},
		     {'w', STATUS_FAILED_PRECONDITION}};
	struct error err;

	note(world, what);
	if (world->errors[0] != what)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].letter == world->errors[1])
			(void)error_set(&err, codes[i].status, 0, "as the row says");
	world->errors += 2;
	rpc_call_fail(call, &err);
	return true;
}

static void on_order(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const Holdfast__V1__OrderTaskRequest *asked = (const void *)request;
	const struct world *world = userdata;

	assert_string_equal(asked->id, ALLOC);
	assert_string_equal(asked->namespace_, "team-a");
	assert_string_equal(asked->task, world->is_network ? "" : "web");
	assert_string_equal(asked->network ? asked->network->state : "", world->is_network ? "" : "joined");
	if (!answer_error(userdata, call, 'O'))
		reply_json(call, &holdfast__v1__order_task_response__descriptor,
			   world->is_network ? "{'network': {'order': '" THE_ORDER
					       "'}, 'network_driver': 'container'}"
					     : "{'start': {'order': '" THE_ORDER "'}}");
}

/* Each call of the driver: its letter, a part of the request, and the answer. */
static const struct {
	const char *method;
	char letter; /* 0: no answer of a row is for it */
	const char *asks, *answer;
} calls[] = {
	{"Capabilities", 0, "", "{'name': 'container', 'order_version': 1}"},
	{"ConfigSchema", 0, "", "{}"},
	{"SetConfig", 0, "", "{}"},
	{"StartTask", 'S', "\"order\":\"" THE_ORDER "\"", "{'handle': {'state': 'the container'}}"},
	{"RecoverTask", 'R', "\"state\":\"the container\"", "{}"},
	{"WaitTask", 'W', "", "{'result': {'exit_code': 7}}"},
	{"StopTask", 'P', "", "{}"},
	{"DestroyTask", 'D', "\"force\":true", "{}"},
	{"CreateNetwork", 'C', "\"order\":\"" THE_ORDER "\"", "{'spec': {'state': 'the network'}}"},
	{"DestroyNetwork", 'X', "\"alloc_id\":\"" ALLOC "\"", "{}"},
	{"RestartTask", 'A', "\"order\":\"" THE_ORDER "\"", "{'handle': {'state': 'the container'}}"},
};

static void expect_asked(const ProtobufCMessage *request, const char *part)
{
	json_t *json = NULL;
	cleanup_free char *text = NULL;

	assert_int_equal(pbjson_encode(request, PBJSON_PROTO_NAMES, &json, NULL), STATUS_OK);
	text = json_dumps(json, JSON_COMPACT);
	assert_msg(strstr(text, part), "'%s' is not in %s", part, text);
	json_decref(json);
}

static void on_call(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	const ProtobufCMethodDescriptor *method = SERVICE->methods;
	struct world *world = userdata;
	size_t i = 0;

	while (method->input != request->descriptor)
		method++;
	while (!str_eq(calls[i].method, method->name))
		i++;
	expect_asked(request, calls[i].asks);
	if (calls[i].letter != 0 && answer_error(world, call, calls[i].letter))
		return;
	if (calls[i].letter == 'W' && world->holds_wait)
		world->held = call;
	else
		reply_json(call, method->output, calls[i].answer);
}

static void on_inspect(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	struct world *world = userdata;
	char answer[128];

	world->n_inspected++;
	(void)snprintf(answer, sizeof(answer), "{'status': {'health': '%s'}}", world->says);
	reply_json(call, &holdfast__driver__v1__inspect_task_response__descriptor, answer);
}

static void on_fingerprint(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	send_json(call, &holdfast__driver__v1__fingerprint_response__descriptor,
		  "{'health': 'HEALTH_HEALTHY'}");
}

static void on_closed(struct rpc_call *call, void *userdata)
{
}

static const struct rpc_stream_handlers fingerprint = {.on_message = on_fingerprint, .on_closed = on_closed};
static const struct rpc_method driver_methods[] = {
	{"Capabilities", on_call},
	{"ConfigSchema", on_call},
	{"SetConfig", on_call},
	{"StartTask", on_call},
	{"RecoverTask", on_call},
	{"WaitTask", on_call},
	{"StopTask", on_call},
	{"DestroyTask", on_call},
	{"CreateNetwork", on_call},
	{"DestroyNetwork", on_call},
	{"RestartTask", on_call},
	{"InspectTask", on_inspect},
	{"Fingerprint", .stream = &fingerprint},
};
static const struct rpc_method server_methods[] = {{"OrderTask", on_order}};
static const struct rpc_service driver_service = {&holdfast__driver__v1__driver__descriptor, driver_methods,
						  ARRAY_SIZE(driver_methods)};
static const struct rpc_service server_service = {&holdfast__v1__allocations__descriptor, server_methods,
						  ARRAY_SIZE(server_methods)};

/* ---- what is told ---- */

static void notify_start(void *userdata)
{
	struct world *world = userdata;

	note(world, 'j');
	if (world->goes)
		driver_task_go(world->task);
}

static void notify_runs(const Holdfast__Driver__V1__TaskHandle *handle,
			const Holdfast__Driver__V1__StartTaskRequest *start, void *userdata)
{
	const struct world *world = userdata;

	assert_string_equal(handle->state, "the container");
	assert_true(!start == !!strchr(world->trace, 'A')); /* of a restart there is no other order */
	note(userdata, 'r');
}

static void notify_health(const char *health, void *userdata)
{
	struct world *world = userdata;
	size_t n = strlen(world->health);

	(void)str_format(world->health + n, sizeof(world->health) - n, "%s ", health);
}

static bool may_restart(void *userdata)
{
	struct world *world = userdata;

	return world->unmounted-- <= 0;
}

static void notify_exited(const Holdfast__Driver__V1__ExitResult *result, const struct error *err,
			  void *userdata)
{
	struct world *world = userdata;

	assert_true(!result != !err);
	if (result)
		assert_int_equal(result->exit_code, 7);
	else
		world->last = *err;
	note(world, result ? 'x' : 'f');
	if (result && world->restarts_left-- > 0)
		driver_task_restart(world->task, 0);
}

static void notify_gone(void *userdata)
{
	note(userdata, 'g');
}

static void notify_trouble(const struct error *err, void *userdata)
{
	struct world *world = userdata;
	uint32_t attempts = driver_task_info(world->task).attempts;

	assert_true(err->status != STATUS_OK);
	world->most_attempts = attempts > world->most_attempts ? attempts : world->most_attempts;
	note(world, 't');
}

static void notify_up(const Holdfast__Driver__V1__NetworkSpec *spec, void *userdata)
{
	struct world *world = userdata;

	assert_string_equal(spec->state, "the network");
	assert_string_equal(driver_task_driver(world->task), "container");
	note(world, 'u');
}

static const struct driver_task_events events = {.on_start = notify_start,
						 .on_runs = notify_runs,
						 .on_up = notify_up,
						 .on_health = notify_health,
						 .may_restart = may_restart,
						 .on_exited = notify_exited,
						 .on_gone = notify_gone,
						 .on_trouble = notify_trouble};

#define UNTIL(world, condition) RUN_UNTIL((world)->event, condition)

UNIT_SETUP(setup, struct world, world)
{
	struct drivers_options options = {.driver_dir = NULL};
	struct rpc_endpoint endpoint = {.unix_path = NULL};
	char folder[TEMP_PATH_SIZE];

	(void)signal(SIGPIPE, SIG_IGN);
	temp_dir_make(world->dir);
	(void)mkdir(temp_dir_path(world->drivers_path, world->dir, "drivers"), 0700);
	(void)mkdir(temp_dir_path(folder, world->dir, "drivers/container"), 0700);
	options.driver_dir = world->drivers_path;
	(void)temp_dir_path(world->driver_path, world->dir, "drivers/container/driver.sock");
	(void)temp_dir_path(world->server_path, world->dir, "server.sock");
	assert_true(sd_event_new(&world->event) >= 0);
	assert_ok(rpc_server_new(world->event, &driver_service, 1, NULL, world, &world->driver, NULL));
	assert_int_equal(rpc_server_listen_unix(world->driver, world->driver_path, 0600, NULL), STATUS_OK);
	assert_ok(rpc_server_new(world->event, &server_service, 1, NULL, world, &world->server, NULL));
	assert_int_equal(rpc_server_listen_unix(world->server, world->server_path, 0600, NULL), STATUS_OK);
	endpoint.unix_path = world->server_path;
	assert_int_equal(rpc_client_new(world->event, &endpoint, &world->client, NULL), STATUS_OK);
	assert_int_equal(drivers_new(world->event, &options, &world->drivers, NULL), STATUS_OK);
	assert_int_equal(drivers_start(world->drivers, NULL), STATUS_OK);
}

UNIT_TEARDOWN(teardown, struct world, world)
{
	char path[TEMP_PATH_SIZE];

	driver_task_free(world->task);
	rpc_client_free(world->client);
	drivers_free(world->drivers);
	rpc_server_free(world->driver);
	rpc_server_free(world->server);
	(void)unlink(world->driver_path);
	(void)unlink(world->server_path);
	(void)rmdir(temp_dir_path(path, world->dir, "drivers/container"));
	(void)rmdir(temp_dir_path(path, world->dir, "drivers"));
	(void)sd_event_unref(world->event);
	temp_dir_remove(world->dir);
}

static void begin(struct world *world, enum driver_task_state from, const char *errors)
{
	static char driver[] = "container";
	static Holdfast__Driver__V1__TaskConfig config = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	static Holdfast__Driver__V1__NetworkSpec joined = HOLDFAST__DRIVER__V1__NETWORK_SPEC__INIT;
	static Holdfast__Driver__V1__HealthCheck check = HOLDFAST__DRIVER__V1__HEALTH_CHECK__INIT;
	static Holdfast__Driver__V1__StartTaskRequest start = HOLDFAST__DRIVER__V1__START_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__TaskHandle handle = HOLDFAST__DRIVER__V1__TASK_HANDLE__INIT;
	const struct driver_task_request request = {
		.event = world->event,
		.drivers = world->drivers,
		.server = world->client,
		.namespace = "team-a",
		.alloc_id = ALLOC,
		.config = world->is_network ? NULL : &config,
		.driver = from == DRIVER_TASK_NEW ? "" : driver,
		.network = world->is_network ? NULL : &joined,
		.state = from,
		.handle = from == DRIVER_TASK_RECOVER ? &handle : NULL,
		.start = &start,
		.events = &events,
		.userdata = world,
	};

	handle.state = "the container"; /* copied */
	joined.state = "joined";
	start.order = (ProtobufCBinaryData){.len = 10, .data = (uint8_t *)(uintptr_t) "the order"};
	check.interval_ms = 1;
	config.health = world->has_check ? &check : NULL;
	config.task = "web";
	config.driver = driver;
	driver_task_free(world->task);
	world->errors = errors;
	world->trace[0] = '\0';
	world->goes = true;
	assert_int_equal(driver_task_new(&request, &world->task, NULL), STATUS_OK);
}

#define CASE(name) TEST_ON(name, struct world, world, setup, teardown)

CASE(each_answer_leads_where_its_row_says)
{
	static const struct {
		enum driver_task_state from;
		const char *errors; /* a call and its answer each; else it goes well */
		const char *trace;  /* until it ends, or with STOP */
	} rows[] = {
		{DRIVER_TASK_NEW, "", "OjSrWx"},
		{DRIVER_TASK_NEW, "Oa", "OtOjSrWx"},
		{DRIVER_TASK_NEW, "Op", "Of"}, /* its driver never heard of it */
		{DRIVER_TASK_NEW, "On", "Of"},
		{DRIVER_TASK_NEW, "Sa", "OjStOSrWx"}, /* perhaps it was started: by the same order, once */
		{DRIVER_TASK_NEW, "Sp", "OjSf"},
		{DRIVER_TASK_NEW, "SaOp", "OjStOf"},
		{DRIVER_TASK_NEW, "Wa", "OjSrWtRWx"},
		{DRIVER_TASK_NEW, "Wn", "OjSrWf"},
		{DRIVER_TASK_NEW, "Wp", "OjSrWtRWx"},
		{DRIVER_TASK_ORDER, "", "OSrWx"}, /* it is in the journal already */
		{DRIVER_TASK_ORDER, "Oa", "OtOSrWx"},
		{DRIVER_TASK_RECOVER, "", "RWx"},
		{DRIVER_TASK_RECOVER, "Rn", "Rf"},
		{DRIVER_TASK_RECOVER, "Ra", "RtRWx"},
		{DRIVER_TASK_RECOVER, "Rp", "RtRWx"}, /* it may run all the same */
		{DRIVER_TASK_STOP, "", "PDg"},
		{DRIVER_TASK_STOP, "Pn", "PDg"},
		{DRIVER_TASK_STOP, "PaPp", "PtPtPDg"},
		{DRIVER_TASK_STOP, "DaDp", "PDtDtDg"},
		{DRIVER_TASK_STOP, "Dn", "PDg"},
	};
	struct service_client *client;

	UNTIL(world, drivers_client(world->drivers, "container", &client, NULL) == STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin(world, rows[i].from, rows[i].errors);
		UNTIL(world, strpbrk(world->trace, "xfg"));
		assert_msg(str_eq(world->trace, rows[i].trace), "row %zu: %s instead of %s", i, world->trace,
			   rows[i].trace);
		assert_string_equal(world->errors, "");
	}
}

/* The delays grow also where another call succeeds between the failures. */
CASE(a_task_whose_driver_fails_is_tried_more_and_more_rarely)
{
	static const struct {
		bool is_network;
		enum driver_task_state from;
		const char *errors, *trace;
		uint32_t most_attempts;
	} rows[] = {
		{false, DRIVER_TASK_NEW, "SaSaSaSa", "OjStOStOStOStOSrWx", 4},
		{false, DRIVER_TASK_ORDER, "OaSaOaSa", "OtOStOtOStOSrWx", 4},
		{false, DRIVER_TASK_NEW, "SaSaWaWa", "OjStOStOSrWtRWtRWx", 2}, /* it was started meanwhile */
		{false, DRIVER_TASK_RECOVER, "WaWaWaWa", "RWtRWtRWtRWtRWx", 4},
		{false, DRIVER_TASK_RECOVER, "RaWaRaWp", "RtRWtRtRWtRWx", 4},
		{false, DRIVER_TASK_STOP, "PaPaDa", "PtPtPDtDg", 2},
		{true, DRIVER_TASK_NEW, "CaCaCaCa", "OjCtOCtOCtOCtOCu", 4},
	};
	struct service_client *client;

	UNTIL(world, drivers_client(world->drivers, "container", &client, NULL) == STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		world->is_network = rows[i].is_network;
		world->most_attempts = 0;
		begin(world, rows[i].from, rows[i].errors);
		UNTIL(world, strpbrk(world->trace, "xfgu"));
		assert_string_equal(world->trace, rows[i].trace);
		assert_msg(world->most_attempts == rows[i].most_attempts, "row %zu: %u attempts", i,
			   world->most_attempts);
	}
}

static int on_break(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct world *world = userdata;

	rpc_call_fail(world->held, &(struct error){.status = STATUS_ABORTED});
	world->held = NULL;
	return 0;
}

CASE(a_wait_that_lasted_begins_with_the_shortest_delay)
{
	static const struct {
		uint64_t lasts_ms;
		uint32_t attempts;
	} rows[] = {{DRIVER_TASK_RETRY_MAX_MS - 1000, 4}, {DRIVER_TASK_RETRY_MAX_MS + 1000, 1}};
	struct service_client *client;
	sd_event_source *timer = NULL;

	UNTIL(world, drivers_client(world->drivers, "container", &client, NULL) == STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		world->holds_wait = true;
		begin(world, DRIVER_TASK_RECOVER, "WaWaWa");
		UNTIL(world, world->held);
		assert_int_equal(wakeup_arm(world->event, &timer, rows[i].lasts_ms * USEC_PER_MSEC, on_break,
					    world, NULL),
				 STATUS_OK);
		world->holds_wait = false;
		world->most_attempts = 0;
		UNTIL(world, strchr(world->trace, 'x'));
		wakeup_disarm(&timer);
		assert_string_equal(world->trace, "RWtRWtRWtRWtRWx");
		assert_int_equal(world->most_attempts, rows[i].attempts);
	}
}

/* By the order that started it, and never by StartTask. */
CASE(a_task_that_failed_is_restarted_by_its_own_order)
{
	static const struct {
		enum driver_task_state from;
		int restarts;
		const char *errors, *trace; /* until it fails for good; then it is stopped */
	} rows[] = {
		{DRIVER_TASK_NEW, 2, "", "OjSrWxArWxArWx"},
		{DRIVER_TASK_NEW, 1, "Aa", "OjSrWxAtArWx"}, /* the driver is away */
		{DRIVER_TASK_NEW, 1, "Aw", "OjSrWxAf"},	    /* root's file, or its mounts, are in the way */
		{DRIVER_TASK_NEW, 1, "An", "OjSrWxAf"},	    /* its container is gone: never made again */
		{DRIVER_TASK_RECOVER, 1, "", "RWxArWx"},
		{DRIVER_TASK_RESTART, 0, "", "ArWx"}, /* the agent was restarted meanwhile */
		{DRIVER_TASK_RESTART, 1, "Wa", "ArWtRWxArWx"},
	};
	struct service_client *client;

	UNTIL(world, drivers_client(world->drivers, "container", &client, NULL) == STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		world->restarts_left = rows[i].restarts;
		begin(world, rows[i].from, rows[i].errors);
		UNTIL(world,
		      strchr(world->trace, 'f') || (strchr(world->trace, 'x') && world->restarts_left < 0));
		assert_msg(str_eq(world->trace, rows[i].trace), "row %zu: %s instead of %s", i, world->trace,
			   rows[i].trace);
		driver_task_stop(world->task);
		UNTIL(world, strchr(world->trace, 'g'));
	}
}

CASE(a_restart_waits_for_its_volumes)
{
	world->unmounted = 2;
	begin(world, DRIVER_TASK_RESTART, "");
	UNTIL(world, strchr(world->trace, 'x'));
	assert_true(world->unmounted < 0);
	assert_string_equal(strchr(world->trace, 'A'), "ArWx");
	world->unmounted = 1000000;
	begin(world, DRIVER_TASK_RESTART, "");
	UNTIL(world, world->unmounted < 1000000);
	driver_task_stop(world->task);
	UNTIL(world, strchr(world->trace, 'g'));
	assert_null(strchr(world->trace, 'A'));
}

CASE(a_stop_ends_the_wait_for_a_restart)
{
	Holdfast__Driver__V1__TaskConfig config =
		PB(holdfast__driver__v1__task_config, .task = "web", .driver = "container");
	Holdfast__Driver__V1__StartTaskRequest start = HOLDFAST__DRIVER__V1__START_TASK_REQUEST__INIT;
	const struct driver_task_request request = {
		.event = world->event,
		.drivers = world->drivers,
		.server = world->client,
		.namespace = "team-a",
		.alloc_id = ALLOC,
		.config = &config,
		.state = DRIVER_TASK_RESTART,
		.start = &start,
		.delay_us = RUN_US,
		.events = &events,
		.userdata = world,
	};

	world->errors = "";
	assert_int_equal(driver_task_new(&request, &world->task, NULL), STATUS_OK);
	assert_string_equal(driver_task_info(world->task).step, "restart");
	driver_task_stop(world->task);
	UNTIL(world, strchr(world->trace, 'g'));
	assert_null(strchr(world->trace, 'A'));
	driver_task_free(TAKE_PTR(world->task)); /* before what it borrows */
}

CASE(the_health_of_a_running_task_is_followed)
{
	size_t n;

	world->has_check = true;
	world->holds_wait = true;
	world->says = "starting";
	begin(world, DRIVER_TASK_NEW, "");
	UNTIL(world, str_eq(world->health, "starting "));
	n = world->n_inspected;
	UNTIL(world, world->n_inspected > n + 1); /* no change, no report */
	world->says = "healthy";
	UNTIL(world, str_eq(world->health, "starting healthy "));
	world->says = "<b>fine"; /* a driver's own text is no health */
	n = world->n_inspected;
	UNTIL(world, world->n_inspected > n + 1);
	world->says = "unhealthy";
	UNTIL(world, str_eq(world->health, "starting healthy unhealthy "));
	driver_task_stop(world->task);
	n = world->n_inspected;
	UNTIL(world, strchr(world->trace, 'g'));
	assert_true(world->n_inspected <= n + 1);
	if (world->held)
		rpc_call_fail(world->held, &(struct error){.status = STATUS_CANCELLED});
}

CASE(stopping_an_ended_task_destroys_it)
{
	begin(world, DRIVER_TASK_NEW, ""); /* the driver is not found yet: it is waited for */
	UNTIL(world, strchr(world->trace, 'x'));
	driver_task_stop(world->task);
	UNTIL(world, strchr(world->trace, 'g'));
	assert_string_equal(strchr(world->trace, 'O'), "OjSrWxDg");
	begin(world, DRIVER_TASK_EXITED, "");
	driver_task_stop(world->task);
	UNTIL(world, strchr(world->trace, 'g'));
	assert_string_equal(world->trace, "Dg");
}

CASE(a_stop_cuts_short_whatever_is_in_flight)
{
	world->holds_wait = true;
	begin(world, DRIVER_TASK_NEW, "");
	UNTIL(world, strchr(world->trace, 'W'));
	driver_task_stop(world->task);
	driver_task_stop(world->task); /* a repeat changes nothing */
	UNTIL(world, strchr(world->trace, 'g'));
	assert_string_equal(strchr(world->trace, 'O'), "OjSrWPDg");
	begin(world, DRIVER_TASK_NEW, ""); /* before its driver was asked for anything */
	world->goes = false;
	UNTIL(world, strchr(world->trace, 'j'));
	driver_task_stop(world->task);
	assert_string_equal(world->trace, "Ojg");
	if (world->held)
		rpc_call_fail(world->held, &(struct error){.status = STATUS_CANCELLED});
}

static void stop_network(struct world *world, const char *expected)
{
	world->errors = strchr(expected, 't') ? "XaXp" : "";
	world->trace[0] = '\0';
	driver_task_stop(world->task);
	UNTIL(world, strchr(world->trace, 'g'));
	assert_string_equal(world->trace, expected);
}

CASE(each_answer_about_a_network_leads_where_its_row_says)
{
	static const struct {
		enum driver_task_state from;
		const char *errors;
		const char *trace; /* until it is there or is not; then it is stopped */
		const char *stopped;
	} rows[] = {
		{DRIVER_TASK_NEW, "", "OjCu", "Xg"},
		{DRIVER_TASK_NEW, "Oa", "OtOjCu", "Xg"},
		{DRIVER_TASK_NEW, "Op", "Of", NULL}, /* no driver ever heard of it */
		{DRIVER_TASK_NEW, "Ca", "OjCtOCu", "Xg"},
		{DRIVER_TASK_NEW, "Cp", "OjCf", "Xg"},
		{DRIVER_TASK_NEW, "Cw", "OjCXOCu", "Xg"},	  /* wrong: away with it, and made anew ... */
		{DRIVER_TASK_NEW, "CwXaXnCw", "OjCXtXOCf", "Xg"}, /* ... once */
		{DRIVER_TASK_ORDER, "", "OCu", "XtXtXg"},	  /* its driver alone says that it is gone */
		{DRIVER_TASK_ORDER, "Op", "Of", "Xg"},
	};
	struct service_client *client;

	world->is_network = true;
	UNTIL(world, drivers_client(world->drivers, "container", &client, NULL) == STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin(world, rows[i].from, rows[i].errors);
		UNTIL(world, strpbrk(world->trace, "uf"));
		assert_msg(str_eq(world->trace, rows[i].trace), "row %zu: %s instead of %s", i, world->trace,
			   rows[i].trace);
		assert_string_equal(world->errors, "");
		if (rows[i].stopped)
			stop_network(world, rows[i].stopped);
	}
	begin(world, DRIVER_TASK_EXITED, ""); /* as an agent does that was restarted */
	driver_task_stop(world->task);
	UNTIL(world, strchr(world->trace, 'g'));
	assert_string_equal(world->trace, "Xg");
}

TEST(an_undefined_table_cell_refuses)
{
	size_t n = 0;

	for (enum driver_task_state s = 0; s < DRIVER_TASK_STATE_N; s++)
		for (enum driver_task_event e = 0; e < DRIVER_TASK_EVENT_N; e++) {
			struct driver_task_step step = driver_task_step(s, e);

			n += step.action != DRIVER_TASK_NO_STEP;
			/* nothing is over but by a word of the driver that nothing is left, or before it was
			 * asked */
			if (step.state == DRIVER_TASK_OVER && step.action != DRIVER_TASK_NO_STEP)
				assert_true(s == DRIVER_TASK_NEW || s == DRIVER_TASK_READY ||
					    s == DRIVER_TASK_DESTROY);
			/* it is restarted only after its end */
			if (step.state == DRIVER_TASK_RESTART && step.action != DRIVER_TASK_NO_STEP)
				assert_true(s == DRIVER_TASK_EXITED || s == DRIVER_TASK_RESTART);
			/* and nothing is started but by an order that is on the disk */
			if (step.state == DRIVER_TASK_START && step.action != DRIVER_TASK_NO_STEP)
				assert_true((s == DRIVER_TASK_READY && e == DRIVER_TASK_JOURNALLED) ||
					    (s == DRIVER_TASK_ORDER && e == DRIVER_TASK_OK));
		}
	assert_int_equal(n, 44);
	for (enum driver_task_state s = 0; s < DRIVER_TASK_STATE_N; s++) {
		struct driver_task_step step = driver_network_step(s, DRIVER_TASK_STOP_WANTED);

		/* a network is over only by a word of its driver, too */
		if (s != DRIVER_TASK_NEW && s != DRIVER_TASK_READY && s != DRIVER_TASK_OVER)
			assert_int_not_equal(step.state, DRIVER_TASK_OVER);
	}
	assert_string_equal(driver_task_state_name(DRIVER_TASK_DESTROY), "destroy");
	assert_string_equal(driver_task_state_name(DRIVER_TASK_STATE_N), "invalid");
}
