/* SPDX-License-Identifier: Apache-2.0 */
/* What is reported of a command in a task, and of a check, when its output or its client does not go on. The
 * engine and the client are models; the output of a command comes over a real socket. */
#include "driver.h"
#include "folder.h"
#include "health.h"
#include "unit.h"
#include "unit_clock.h"

#include "base/clock.h"
#include "base/fd.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ALLOC "0190a6f2-0000-7000-8000-000000000001"
#define EXEC "GET /exec/0123456789abcdef/json"
#define HEAD "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"

static struct {
	char last[256];	       /* METHOD PATH */
	const char *node;      /* the label of the container */
	const char *namespace; /* the same */
	engine_done_fn *done;
	engine_data_fn *data;
	void *userdata;
	const char *exits[8]; /* its answers to EXEC, one after the other; the last one again and again */
	size_t n_exits;
	size_t n_cancelled;
	int64_t pid; /* of the container's first process */
	char body[512];
} model;

static struct {
	bool has_ended, takes_nothing, has_tty;
	bool is_unary; /* its session is gone with its end */
	enum status status;
	char msg[ERROR_MSG_MAX];
	int32_t exit_code;
	char output[8192];
	size_t n_output;
	void *session;
} client;

WRAPPED(enum status, engine_send, struct engine *engine, const struct engine_request *request,
	engine_done_fn *done, void *userdata, struct engine_call **ret, struct error *err)
{
	assert_null(model.done);
	(void)snprintf(model.last, sizeof(model.last), "%s %s", request->method, request->path);
	model.body[0] = '\0';
	if (request->body)
		model.body[json_dumpb(request->body, model.body, sizeof(model.body) - 1, JSON_COMPACT)] =
			'\0';
	json_decref(request->body);
	model.done = done;
	model.data = request->data;
	model.userdata = userdata;
	if (ret)
		*ret = (struct engine_call *)&model;
	return STATUS_OK;
}

WRAPPED(void, engine_cancel, struct engine_call *call)
{
	if (!call)
		return;
	model.n_cancelled++;
	model.done = NULL;
}

WRAPPED(bool, process_user, const char *proc, int64_t pid, const char *id, uint32_t *ret_uid,
	uint32_t *ret_gid)
{
	assert_string_equal(proc, "/proc");
	*ret_uid = 1000;
	*ret_gid = 1001;
	return pid == model.pid && str_starts_with(id, "0");
}

WRAPPED(enum status, driver_take_order, struct driver *driver, enum order_kind kind,
	const ProtobufCBinaryData *order, const ProtobufCBinaryData *body, struct taken *ret,
	struct error *err)
{
	static char *argv[] = {TEXT("sh")};
	const Holdfast__Driver__V1__ExecCommand command =
		PB(holdfast__driver__v1__exec_command, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .n_argv = 1, .argv = argv, .tty = client.has_tty, .namespace_ = TEXT("default"));
	uint8_t bytes[256];
	size_t n = holdfast__driver__v1__exec_command__pack(&command, bytes);

	ret->body = (ProtobufCMessage *)holdfast__driver__v1__exec_command__unpack(NULL, n, bytes);
	return STATUS_OK;
}

WRAPPED(enum status, driver_use_order, struct driver *driver, const struct taken *taken, bool is_restart,
	struct error *err)
{
	return STATUS_OK;
}

WRAPPED(enum status, driver_check_user, const struct driver *driver, const char *user,
	const char **ret_reason, struct error *err)
{
	return STATUS_OK;
}

WRAPPED(void, driver_note_end, struct driver *driver, const struct order *order, enum status status,
	bool is_compared)
{
}

WRAPPED(void, rpc_call_fail, struct rpc_call *call, const struct error *err)
{
	client.has_ended = true;
	client.status = err->status;
	(void)str_copy(client.msg, sizeof(client.msg), err->msg);
}

WRAPPED(void, rpc_call_reply, struct rpc_call *call, const ProtobufCMessage *response)
{
	client.has_ended = true;
	client.exit_code = ((const Holdfast__Driver__V1__ExecTaskResponse *)response)->result->exit_code;
}

WRAPPED(enum status, rpc_call_send, struct rpc_call *call, const ProtobufCMessage *message, struct error *err)
{
	const Holdfast__Driver__V1__ExecTaskStreamingResponse *response = (const void *)message;

	if (client.takes_nothing) {
		client.takes_nothing = false; /* it takes the next one */
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "the client takes nothing");
	}
	if (response->exited)
		client.exit_code = response->result->exit_code;
	if (!response->stdout)
		return STATUS_OK;
	memcpy(client.output + client.n_output, response->stdout->value.data, response->stdout->value.len);
	client.n_output += response->stdout->value.len;
	return STATUS_OK;
}

WRAPPED(void, rpc_call_finish, struct rpc_call *call)
{
	client.has_ended = true;
}

WRAPPED(bool, rpc_call_is_full, struct rpc_call *call)
{
	return false;
}

WRAPPED(void, rpc_call_pause, struct rpc_call *call, bool is_paused)
{
}

WRAPPED(void *, rpc_call_data, const struct rpc_call *call)
{
	return client.session;
}

WRAPPED(void, rpc_call_set_data, struct rpc_call *call, void *data)
{
	client.session = data;
}

static void answer_last(void)
{
	engine_done_fn *done = model.done;
	json_t *json = NULL;

	model.done = NULL;
	if (str_starts_with(model.last, "GET /containers/"))
		json = json_pack("{s:s, s:{s:s}, s:{s:{s:s, s:s, s:s, s:s, s:s}}}", "Id", "0123456789abcdef",
				 "State", "Status", "running", "Config", "Labels", "dev.holdfast.alloc",
				 ALLOC, "dev.holdfast.node", model.node, "dev.holdfast.task", "web",
				 "dev.holdfast.order", "00ff", "dev.holdfast.namespace", model.namespace);
	else if (str_starts_with(model.last, "POST /containers/"))
		json = json_pack("{s:s}", "Id", "0123456789abcdef");
	else if (str_eq(model.last, EXEC))
		json = json_loads(model.exits[model.n_exits], 0, NULL);
	if (str_eq(model.last, EXEC) && model.exits[model.n_exits + 1])
		model.n_exits++;
	done(STATUS_OK, NULL, json, model.userdata);
	json_decref(json);
}

struct fixture {
	char folder[FOLDER_SIZE];
	struct settings settings;
	struct driver driver;
	int engine_fd;
};

UNIT_SETUP(begin, struct fixture, f)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	memset(&model, 0, sizeof(model));
	model.pid = 7;
	model.node = "prod/node-1";
	model.namespace = "default";
	memset(&client, 0, sizeof(client));
	folder_make(f->folder);
	f->settings = (struct settings){.cluster = "prod",
					.node_id = "node-1",
					.users = {"image"},
					.engine_timeout_us = 5 * USEC_PER_SEC};
	f->driver.settings = &f->settings;
	(void)snprintf(f->settings.engine_socket, sizeof(f->settings.engine_socket), "%s/e", f->folder);
	(void)str_copy(address.sun_path, sizeof(address.sun_path), f->settings.engine_socket);
	assert_true(sd_event_new(&f->driver.event) >= 0);
	f->engine_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->engine_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(f->engine_fd, 1), 0);
}

UNIT_TEARDOWN(end, struct fixture, f)
{
	if (client.session && !client.is_unary)
		exec_stream.on_closed((struct rpc_call *)&client, &f->driver);
	assert_int_equal(f->driver.n_sessions, 0);
	health_free_all(&f->driver);
	(void)sd_event_unref(f->driver.event);
	(void)close(f->engine_fd);
	folder_remove(f->folder);
}

static void begin_unary(struct fixture *f)
{
	const Holdfast__Driver__V1__ExecTaskRequest unary = HOLDFAST__DRIVER__V1__EXEC_TASK_REQUEST__INIT;

	client.is_unary = true;
	exec_task((struct rpc_call *)&client, &unary.base, &f->driver);
}

/* The engine passes @output, then nothing more. */
static void run(struct fixture *f, bool is_stream, const char *output)
{
	Holdfast__Driver__V1__ExecSetup setup = HOLDFAST__DRIVER__V1__EXEC_SETUP__INIT;
	Holdfast__Driver__V1__ExecTaskStreamingRequest stream =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	int fd;

	stream.setup = &setup;
	if (is_stream)
		exec_stream.on_message((struct rpc_call *)&client, &stream.base, &f->driver);
	else
		begin_unary(f);
	while (model.done)
		answer_last();
	assert_msg(!client.has_ended, "%s", client.msg);
	fd = accept(f->engine_fd, NULL, NULL);
	assert_true(fd >= 0);
	assert_int_equal(send(fd, output, strlen(output), MSG_NOSIGNAL), strlen(output));
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	while (!client.has_ended) {
		assert_true(sd_event_run(f->driver.event, UNIT_LIMIT_US) >= 0);
		if (model.done)
			answer_last();
	}
	(void)close(fd);
}

#define CASE(name) TEST_ON(name, struct fixture, f, begin, end)
#define RUNNING "{\"Running\": true, \"ExitCode\": 0}"

/* podman answers so when its service was killed in the middle of a command. */
CASE(a_command_that_outlives_its_output_is_waited_for)
{
	for (int is_stream = 0; is_stream < 2; is_stream++) {
		memset(&client, 0, sizeof(client));
		model.n_exits = 0;
		model.exits[0] = model.exits[1] = RUNNING;
		model.exits[2] = "{\"Running\": true, \"ExitCode\": null}"; /* Docker */
		model.exits[3] = "{\"Running\": false, \"ExitCode\": 3}";
		run(f, is_stream, HEAD "\r\n");
		assert_string_equal(client.msg, "");
		assert_int_equal(client.exit_code, 3);
		assert_int_equal(model.n_exits, 3);
		if (is_stream)
			continue;
		assert_int_equal(f->driver.n_sessions, 0);
	}
}

static void expect_command_gone(struct fixture *f, size_t n_cancelled)
{
	const struct rpc_method *row = driver_methods;

	while (!str_eq(row->name, "ExecTask"))
		row++;
	assert_int_equal(f->driver.n_sessions, 1);
	assert_non_null(row->on_gone);
	row->on_gone((struct rpc_call *)&client, &f->driver);
	assert_int_equal(model.n_cancelled, n_cancelled);
	assert_true(client.has_ended);
	assert_int_equal(client.status, STATUS_CANCELLED);
	assert_int_equal(f->driver.n_sessions, 0);
}

CASE(a_command_whose_caller_has_gone_leaves_its_place)
{
	char request[1024];
	int fd;

	begin_unary(f); /* the engine is asked about the container */
	expect_command_gone(f, 1);
	memset(&client, 0, sizeof(client));
	begin_unary(f);
	while (model.done)
		answer_last();
	fd = accept(f->engine_fd, NULL, NULL);
	assert_true(fd >= 0);
	expect_command_gone(f, 1);
	assert_true(recv(fd, request, sizeof(request), 0) > 0);
	assert_int_equal(recv(fd, request, sizeof(request), 0), 0);
	(void)close(fd);
}

/* Asks for a command, the output and the figures of task web, of namespace default. */
static void expect_no_entry(struct fixture *f, enum status status)
{
	const Holdfast__Driver__V1__TaskLogsRequest logs =
		PB(holdfast__driver__v1__task_logs_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .namespace_ = TEXT("default"));
	const Holdfast__Driver__V1__TaskStatsRequest stats =
		PB(holdfast__driver__v1__task_stats_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .namespace_ = TEXT("default"));
	Holdfast__Driver__V1__ExecTaskRequest exec = HOLDFAST__DRIVER__V1__EXEC_TASK_REQUEST__INIT;
	struct rpc_call *call = (struct rpc_call *)&client;

	for (int i = 0; i < 3; i++) {
		memset(&client, 0, sizeof(client));
		if (i == 0)
			exec_task(call, &exec.base, &f->driver);
		else if (i == 1)
			logs_stream.on_message(call, &logs.base, &f->driver);
		else
			stats_stream.on_message(call, &stats.base, &f->driver);
		answer_last();
		assert_true(client.has_ended);
		assert_int_equal(client.status, status);
		assert_null(model.done);
		if (i > 0)
			logs_stream.on_closed(call, &f->driver);
	}
	client.session = NULL;
}

/* Two nodes may share an engine. */
CASE(a_container_of_another_node_is_not_entered_and_not_read)
{
	model.node = "other/node-1";
	expect_no_entry(f, STATUS_FAILED_PRECONDITION);
}

/* A tenant can submit the id of another one's allocation that the server has forgotten. */
CASE(a_container_of_another_namespace_is_not_entered_and_not_read)
{
	static const char *const others[] = {"team-a", "", "defaul", "default2"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		model.namespace = others[i];
		expect_no_entry(f, STATUS_NOT_FOUND);
	}
}

CASE(a_command_that_runs_on_without_output_has_no_exit_status)
{
	uint64_t begun_us = clock_monotonic_us();

	model.exits[0] = RUNNING;
	run(f, false, HEAD "\r\n");
	assert_int_equal(client.status, STATUS_UNAVAILABLE);
	assert_contains(client.msg, "may still run");
	assert_contains(client.msg, "holdfast alloc exec " ALLOC " web -- ps");
	assert_true(clock_monotonic_us() - begun_us >= f->settings.engine_timeout_us);
}

CASE(an_exit_status_that_is_no_number_of_32_bits_is_no_success)
{
	model.exits[0] = "{\"Running\": false, \"ExitCode\": 4294967296}";
	run(f, false, HEAD "\r\n");
	assert_int_equal(client.exit_code, -1);
}

CASE(an_engine_that_does_not_say_whether_a_command_runs_gives_no_exit_status)
{
	static const char *const answers[] = {"{\"ExitCode\": 0}", "{\"Running\": false}",
					      "{\"Running\": 0, \"ExitCode\": 0}"};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		memset(&client, 0, sizeof(client));
		model.exits[0] = answers[i];
		run(f, false, HEAD "\r\n");
		assert_int_equal(client.status, STATUS_INTERNAL);
	}
}

/* The head ends in its 4 KiB of room, and the output goes on behind that. */
CASE(output_behind_a_long_head_stays_in_order)
{
	char text[5000], want[2000] = "";
	size_t n = (size_t)snprintf(text, sizeof(text), HEAD "X: %03400d\r\n\r\n", 0);

	for (size_t i = 0; n + i < 4096; i++)
		want[i] = "0123456789"[i % 10];
	(void)str_copy(text + n, sizeof(text) - n, want);
	client.has_tty = client.takes_nothing = true;
	model.exits[0] = "{\"Running\": false, \"ExitCode\": 0}";
	run(f, true, text);
	client.output[client.n_output] = '\0';
	assert_string_equal(client.output, want);
}

/* --- checks -----------------------------------------------------------------------------------------------
 */

/* Returns the health of the task after its check. */
static const char *check(struct fixture *f)
{
	struct container container = {.id = "0123456789abcdef",
				      .pid = 7,
				      .state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING};
	json_t *inspected = json_pack("{s:{s:{s:s}}}", "Config", "Labels", "dev.holdfast.health",
				      "{\"namespace\": \"default\", \"argv\": [\"true\"], \"interval_ms\": "
				      "3600000, \"timeout_ms\": "
				      "30000, \"retries\": 1}");
	const char *state;

	(void)health_look(&f->driver, &container, inspected);
	assert_string_equal(model.last, "POST /containers/0123456789abcdef/exec");
	while (model.done) {
		answer_last();
		while (!model.done && str_eq(model.last, EXEC) &&
		       sd_event_run(f->driver.event, USEC_PER_SEC) > 0)
			;
	}
	state = health_look(&f->driver, &container, inspected);
	json_decref(inspected);
	return state;
}

CASE(a_check_that_outlives_its_output_is_waited_for)
{
	model.exits[0] = RUNNING;
	model.exits[1] = "{\"Running\": false, \"ExitCode\": 3}";
	assert_string_equal(check(f), "unhealthy");
}

CASE(a_check_that_runs_on_without_output_has_no_result)
{
	model.exits[0] = RUNNING;
	assert_string_equal(check(f), "");
	model.last[0] = '\0';
	unit_clock_advance(3600 * USEC_PER_SEC);
	model.n_exits = 0;
	model.exits[0] = "{\"Running\": false, \"ExitCode\": 0}";
	assert_string_equal(check(f), "healthy");
}

static const char *look(struct fixture *f, json_t *inspected, const char *id)
{
	struct container container = {.pid = 7,
				      .state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING};

	(void)str_copy(container.id, sizeof(container.id), id);
	return health_look(&f->driver, &container, inspected);
}

/* Engines would look the user up in the container's files, which the task may have changed. */
CASE(a_check_has_the_ids_of_the_first_process_and_needs_it)
{
	cleanup(json_decrefp) json_t *inspected =
		json_pack("{s:{s:{s:s}}}", "Config", "Labels", "dev.holdfast.health",
			  "{\"namespace\": \"default\", \"argv\": [\"true\"], \"interval_ms\": 60000, "
			  "\"timeout_ms\": 30000, \"retries\": 1}");

	model.pid = 8; /* process 7 is another one's */
	assert_string_equal(look(f, inspected, "0123456789abcdef"), "");
	assert_null(model.done);
	assert_int_equal(f->driver.n_checks, 0);
	model.pid = 7; /* it is looked for again at once */
	assert_string_equal(look(f, inspected, "0123456789abcdef"), "");
	assert_string_equal(model.last, "POST /containers/0123456789abcdef/exec");
	assert_contains(model.body, "\"User\":\"1000:1001\"");
	assert_contains(model.body, "\"Privileged\":false");
	assert_int_equal(f->driver.n_checks, 1);
	model.done = NULL;
}

/* Its output never ends: the request for it is given up, and the engine is asked whether it still runs. */
CASE(a_check_that_hangs_keeps_no_request_at_the_engine)
{
	cleanup(json_decrefp) json_t *inspected =
		json_pack("{s:{s:{s:s}}}", "Config", "Labels", "dev.holdfast.health",
			  "{\"namespace\": \"default\", \"argv\": [\"true\"], \"interval_ms\": 60000, "
			  "\"timeout_ms\": 30000, "
			  "\"retries\": 1}");

	(void)look(f, inspected, "0123456789abcdef");
	answer_last();
	assert_string_equal(model.last, "POST /exec/0123456789abcdef/start");
	assert_int_equal(f->driver.n_checks, 1);
	assert_true(sd_event_run(f->driver.event, UNIT_LIMIT_US) > 0);
	assert_int_equal(model.n_cancelled, 1);
	assert_int_equal(f->driver.n_checks, 0);
	assert_string_equal(look(f, inspected, "0123456789abcdef"), "unhealthy");
	model.exits[0] = RUNNING;
	model.exits[1] = "{\"Running\": false, \"ExitCode\": 0}";
	for (int i = 0; i < 2; i++) {
		uint64_t begun_us = clock_monotonic_us();

		assert_string_equal(model.last, i == 0 ? "POST /exec/0123456789abcdef/start" : EXEC);
		assert_true(sd_event_run(f->driver.event, UNIT_LIMIT_US) > 0);
		assert_true(clock_monotonic_us() - begun_us > 50 * USEC_PER_SEC);
		assert_string_equal(model.last, EXEC);
		assert_non_null(model.done);
		answer_last();
		assert_string_equal(look(f, inspected, "0123456789abcdef"), "unhealthy");
	}
	assert_string_equal(model.last, "POST /containers/0123456789abcdef/exec"); /* the next check */
	model.done = NULL;
}

/* A container's check begins; false: it has no room. */
static bool begins(struct fixture *f, const char *namespace, unsigned int number)
{
	cleanup(json_decrefp) json_t *inspected = NULL;
	char id[32], text[160];

	(void)snprintf(text, sizeof(text),
		       "{\"namespace\": \"%s\", \"argv\": [\"true\"], \"interval_ms\": 60000, "
		       "\"timeout_ms\": 30000, \"retries\": 1}",
		       namespace);
	(void)snprintf(id, sizeof(id), "%016x", number);
	inspected = json_pack("{s:{s:{s:s}}}", "Config", "Labels", "dev.holdfast.health", text);
	(void)look(f, inspected, id);
	if (!model.done)
		return false;
	answer_last(); /* it has an id, so that it is late after its time */
	model.done = NULL;
	return true;
}

CASE(checks_leave_requests_to_the_engine_for_others)
{
	char namespace[16];

	for (unsigned int i = 0; i < 300; i++) {
		(void)snprintf(namespace, sizeof(namespace), "team-%u", i);
		assert_int_equal(begins(f, namespace, i), i < 256);
	}
}

CASE(checks_of_a_namespace_leave_places_for_others)
{
	for (unsigned int i = 0; i < 300; i++)
		assert_int_equal(begins(f, "team-a", i), i < 86);
	for (unsigned int i = 0; i < 50; i++)
		assert_true(begins(f, "team-b", 1000 + i));
	assert_int_equal(f->driver.n_checks, 86 + 50);
	while (!LIST_EMPTY(&f->driver.healths) && f->driver.n_checks > 0) /* all of them are late */
		assert_true(sd_event_run(f->driver.event, UNIT_LIMIT_US) > 0);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(begins(f, "team-a", 2000 + i), i < 86);
}

CASE(a_check_with_output_without_end_has_failed)
{
	cleanup(json_decrefp) json_t *inspected =
		json_pack("{s:{s:{s:s}}}", "Config", "Labels", "dev.holdfast.health",
			  "{\"namespace\": \"default\", \"argv\": [\"cat\"], \"interval_ms\": 60000, "
			  "\"timeout_ms\": 3600000, \"retries\": 1}");
	uint64_t begun_us = clock_monotonic_us();
	uint8_t bytes[4096] = "";

	(void)look(f, inspected, "0123456789abcdef");
	answer_last();
	assert_string_equal(model.last, "POST /exec/0123456789abcdef/start");
	for (size_t i = 0; i < 256; i++)
		assert_true(model.data(bytes, sizeof(bytes), model.userdata));
	assert_false(model.data(bytes, 1, model.userdata));
	assert_true(sd_event_run(f->driver.event, UNIT_LIMIT_US) > 0);
	assert_true(clock_monotonic_us() - begun_us < 3600 * USEC_PER_SEC); /* before its own time is over */
	assert_int_equal(model.n_cancelled, 1);
	assert_int_equal(f->driver.n_checks, 0);
	assert_string_equal(look(f, inspected, "0123456789abcdef"), "unhealthy");
}
