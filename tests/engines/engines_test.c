/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of containers with a real engine, called by its agent's account: run.py starts both.
 * engines_test PHASE, with DRIVER_SOCKET set; engines_test key prints the public key of its orders. */
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "model/order.h"
#include "rpc/client.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <openssl/evp.h>
#include <sys/random.h>

#define SERVICE (&holdfast__driver__v1__driver__descriptor)
#define ALLOC                                                                                           \
	"0190a6f2-0000-7000-8000-000000000001" /* run.py publishes slots 0 (slave), 1, 2 (ro) and 3 (no \
						  flags) */
#define OTHER_ALLOC "0190a6f2-0000-7000-8000-000000000009"
#define IMAGE "localhost/bb:1"
#define CALL_US (60 * USEC_PER_SEC)

enum { BODY_MAX = 8192, ENV_MAX = 4, ARGV_MAX = 8 };

static const uint8_t seed[ORDER_KEY_SIZE] = "this is the seed of a test's key";
static const uint8_t other_seed[ORDER_KEY_SIZE] = "this is the seed of another key!";
static sd_event *event;
static struct rpc_client *client;

static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

/* What is ordered, and its order. */
struct wish {
	Holdfast__Driver__V1__TaskConfig task;
	Holdfast__Driver__V1__ConfigValue values[6];
	Holdfast__Driver__V1__ConfigValue *config[6];
	Holdfast__Driver__V1__VolumeMount volume;
	Holdfast__Driver__V1__VolumeMount *volumes[1];
	Holdfast__Driver__V1__RestartPolicy restart;
	Holdfast__Driver__V1__KeyValue pair;
	Holdfast__Driver__V1__KeyValue *pairs[1];
	char *args[ARGV_MAX];
	char *caps[1];
	struct order order;
	size_t n_order;
	uint8_t body[BODY_MAX];
	size_t n_body;
};

static void set_value(struct wish *w, const char *key)
{
	Holdfast__Driver__V1__ConfigValue *value = &w->values[w->task.n_config];

	holdfast__driver__v1__config_value__init(value);
	value->key = text(key);
	w->config[w->task.n_config++] = value;
	w->task.config = w->config;
}

static void make_order(struct wish *w, enum order_kind kind, const char *task)
{
	cleanup_free char *boot = NULL;

	w->order = (struct order){.magic = ORDER_MAGIC,
				  .version = ORDER_VERSION,
				  .kind = (uint8_t)kind,
				  .cluster = "prod",
				  .node = "node-1",
				  .driver = "container",
				  .who = "operator alice"};
	w->n_order = sizeof(w->order);
	w->order.not_after_ms = (uint64_t)clock_realtime_ms() + ORDER_VALID_MS;
	(void)str_copy(w->order.task, sizeof(w->order.task), task);
	assert_int_equal(file_read("/proc/sys/kernel/random/boot_id", 64, &boot, NULL), 0);
	boot[strcspn(boot, "\n")] = '\0';
	assert_true(id_uuid_bytes(boot, w->order.boot_id));
	assert_true(id_uuid_bytes(ALLOC, w->order.alloc));
	assert_int_equal(getrandom(w->order.nonce, sizeof(w->order.nonce), 0), sizeof(w->order.nonce));
}

static void sign(struct wish *w)
{
	order_digest(w->body, w->n_body, w->order.digest);
	assert_int_equal(order_sign(&w->order, seed, NULL), STATUS_OK);
}

static void pack_task(struct wish *w)
{
	w->n_body = holdfast__driver__v1__task_config__pack(&w->task, w->body);
}

/* A shell that runs @script; not signed yet. */
static void wish_task(struct wish *w, const char *task, const char *script)
{
	*w = (struct wish){.task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT,
			   .volume = HOLDFAST__DRIVER__V1__VOLUME_MOUNT__INIT,
			   .restart = HOLDFAST__DRIVER__V1__RESTART_POLICY__INIT,
			   .pair = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT,
			   .args = {text("/bin/sh"), text("-c"), text(script)}};
	w->task.alloc_id = text(ALLOC);
	w->task.task = text(task);
	w->task.driver = text("container");
	w->task.user = text("0");
	w->task.stop_timeout_ms = 1000; /* a shell does not end by itself */
	set_value(w, "image");
	w->values[0].text = text(IMAGE);
	set_value(w, "command");
	w->values[1].n_list = 3;
	w->values[1].list = w->args;
	w->volumes[0] = &w->volume;
	w->task.volumes = w->volumes;
	w->volume.destination = text("/vol");
	w->volume.volume = text("vol-0");
	w->pairs[0] = &w->pair;
	make_order(w, ORDER_START, task);
}

static void wish_command(struct wish *w, const char *task, bool tty, const char *script)
{
	Holdfast__Driver__V1__ExecCommand command = HOLDFAST__DRIVER__V1__EXEC_COMMAND__INIT;
	char *argv[] = {text("/bin/sh"), text("-c"), text(script)};

	*w = (struct wish){.n_body = 0};
	command.alloc_id = text(ALLOC);
	command.task = text(task);
	command.driver = text("container");
	command.n_argv = 3;
	command.argv = argv;
	command.tty = tty;
	make_order(w, ORDER_EXEC, task);
	w->n_body = holdfast__driver__v1__exec_command__pack(&command, w->body);
	sign(w);
}

static enum status call(const char *method, const ProtobufCMessage *request, void *ret, struct error *err)
{
	return rpc_client_call_sync(client, SERVICE, method, request, CALL_US, ret, err);
}

static void drop(void *message)
{
	protobuf_c_message_free_unpacked(message, NULL);
}

/* Once, and a NULL answer when it is refused. */
static enum status start(const struct wish *w, Holdfast__Driver__V1__StartTaskResponse **ret,
			 struct error *err)
{
	Holdfast__Driver__V1__StartTaskRequest request = HOLDFAST__DRIVER__V1__START_TASK_REQUEST__INIT;

	request.order = (ProtobufCBinaryData){w->n_order, (uint8_t *)(uintptr_t)&w->order};
	request.task = (ProtobufCBinaryData){w->n_body, (uint8_t *)(uintptr_t)w->body};
	return call("StartTask", &request.base, ret, err);
}

static enum status restart(const struct wish *w, struct error *err)
{
	Holdfast__Driver__V1__RestartTaskRequest request = HOLDFAST__DRIVER__V1__RESTART_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__RestartTaskResponse *response = NULL;
	enum status status;

	request.order = (ProtobufCBinaryData){w->n_order, (uint8_t *)(uintptr_t)&w->order};
	request.task = (ProtobufCBinaryData){w->n_body, (uint8_t *)(uintptr_t)w->body};
	status = call("RestartTask", &request.base, &response, err);
	if (response)
		protobuf_c_message_free_unpacked(&response->base, NULL);
	return status;
}

static void allow_restarts(struct wish *w, uint32_t attempts)
{
	w->restart.mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL;
	w->restart.attempts = attempts;
	w->restart.interval_ms = 3600 * 1000;
	w->task.restart = &w->restart;
}

static void start_well(struct wish *w)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err;

	pack_task(w);
	sign(w);
	if (start(w, &response, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	drop(response);
}

static enum status stop_in(const char *task, uint32_t timeout_ms)
{
	Holdfast__Driver__V1__StopTaskRequest request = HOLDFAST__DRIVER__V1__STOP_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__StopTaskResponse *response = NULL;
	enum status status;

	request.alloc_id = text(ALLOC);
	request.task = text(task);
	request.timeout_ms = timeout_ms;
	status = call("StopTask", &request.base, &response, NULL);
	if (response)
		drop(response);
	return status;
}

static enum status stop(const char *task)
{
	return stop_in(task, 1000);
}

static enum status destroy(const char *task, bool force)
{
	Holdfast__Driver__V1__DestroyTaskRequest request = HOLDFAST__DRIVER__V1__DESTROY_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__DestroyTaskResponse *response = NULL;
	enum status status;

	request.alloc_id = text(ALLOC);
	request.task = text(task);
	request.force = force;
	status = call("DestroyTask", &request.base, &response, NULL);
	if (response)
		drop(response);
	return status;
}

static Holdfast__Driver__V1__TaskState state_of(const char *task)
{
	Holdfast__Driver__V1__InspectTaskRequest request = HOLDFAST__DRIVER__V1__INSPECT_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__InspectTaskResponse *response = NULL;
	Holdfast__Driver__V1__TaskState state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED;

	request.alloc_id = text(ALLOC);
	request.task = text(task);
	if (call("InspectTask", &request.base, &response, NULL) == STATUS_OK) {
		state = response->status->state;
		drop(response);
	}
	return state;
}

static int32_t wait_exit(const char *task)
{
	Holdfast__Driver__V1__WaitTaskRequest request = HOLDFAST__DRIVER__V1__WAIT_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__WaitTaskResponse *response = NULL;
	struct error err;
	int32_t code;

	request.alloc_id = text(ALLOC);
	request.task = text(task);
	if (call("WaitTask", &request.base, &response, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	code = response->result->exit_code;
	drop(response);
	return code;
}

static enum status exec_wish(const struct wish *w, char out[static 256], int32_t *ret_code, struct error *err)
{
	Holdfast__Driver__V1__ExecTaskRequest request = HOLDFAST__DRIVER__V1__EXEC_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__ExecTaskResponse *response = NULL;
	enum status status = STATUS_OK;

	request.order = (ProtobufCBinaryData){w->n_order, (uint8_t *)(uintptr_t)&w->order};
	request.command = (ProtobufCBinaryData){w->n_body, (uint8_t *)(uintptr_t)w->body};
	TRY(call("ExecTask", &request.base, &response, err));
	(void)snprintf(out, 256, "%.*s", (int)response->stdout.len, (const char *)response->stdout.data);
	*ret_code = response->result->exit_code;
	drop(response);
	return status;
}

static void exec_well(const char *task, const char *script, char out[static 256], int32_t *ret_code)
{
	struct error err;
	struct wish w;

	wish_command(&w, task, false, script);
	if (exec_wish(&w, out, ret_code, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
}

/* Root allows "bb:1", which is Docker Hub's; the engine has localhost/bb:1. */
static void an_image_of_another_registry_is_not_taken_for_an_allowed_one(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err = {0};
	struct wish w;

	wish_task(&w, "elsewhere", "sleep 1000");
	w.values[0].text = text("bb:1");
	pack_task(&w);
	sign(&w);
	assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "has no image docker.io/library/bb:1"));
}

/* Root allows localhost/other@*; the engine has localhost/bb:1 of that digest, which podman finds by it. */
static void an_image_of_another_name_is_not_taken_by_its_digest(void **state)
{
	const char *digest = getenv("IMAGE_DIGEST");
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err = {0};
	struct wish w;
	char name[128];

	wish_task(&w, "by-digest", "sleep 1000");
	(void)snprintf(name, sizeof(name), "localhost/other@%s", digest);
	w.values[0].text = name;
	pack_task(&w);
	sign(&w);
	assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "has no image localhost/other@sha256:"));
	/* Docker gives an image that nobody pulled no digest, podman 5 finds none by it */
	if (getenv("IMAGE_HAS_DIGEST")[0] == '\0')
		return;
	assert_non_null(strstr(err.msg, "only one of another name"));
	(void)snprintf(name, sizeof(name), "localhost/bb:2@%s", digest);
	wish_task(&w, "by-digest", "sleep 1000");
	w.values[0].text = name;
	pack_task(&w);
	sign(&w);
	if (start(&w, &response, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	assert_int_equal(destroy("by-digest", true), STATUS_OK);
}

/* podman with crun lets it take the place of the kernel's. */
static void an_image_with_a_volume_in_sys_is_not_started(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err = {0};
	struct wish w;

	wish_task(&w, "in-sys", "sleep 1000");
	w.values[0].text = text("localhost/kernel:1");
	pack_task(&w);
	sign(&w);
	assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "mount is '/sys/fs/cgroup', not 'no volume of the image there'"));
}

static void wish_in_folder(struct wish *w, const char *task, const char *script, const char *work_dir)
{
	wish_task(w, task, script);
	w->values[0].text = text("localhost/linked:1");
	set_value(w, "work_dir");
	w->values[w->task.n_config - 1].text = text(work_dir);
}

/* By its Docker API podman makes it there as root, for the task's user. run.py looks at the host's folder. */
static void a_working_folder_behind_a_link_is_not_made_on_the_host(void **state)
{
	static const struct {
		const char *task, *image, *work_dir;
	} rows[] = {
		{"way", "localhost/linked:1", "/way/asked"},
		{"way-of-image", "localhost/linked:2", NULL},
		{"pattern", "localhost/linked:3", NULL},
		{"devices", "localhost/linked:4", NULL},
		{"no-way", "localhost/linked:1", "/nowhere/asked"},
	};
	bool is_podman = str_eq(getenv("ENGINE"), "podman");
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err = {0};
	struct wish w;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		wish_in_folder(&w, rows[i].task, "exec sleep 1000",
			       rows[i].work_dir ? rows[i].work_dir : "/");
		w.values[0].text = text(rows[i].image);
		w.task.n_config -= !rows[i].work_dir;
		pack_task(&w);
		sign(&w);
		for (int k = 0; k < 2 && is_podman; k++) { /* the second start finds its container */
			assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
			if (!strstr(err.msg, i == 3 ? "a link or a file at /dev" : "which is not made"))
				fail_msg("%s", err.msg);
		}
		if (!is_podman) /* within the container */
			(void)start(&w, &response, &err);
		(void)destroy(rows[i].task, true);
	}
	wish_in_folder(&w, "bin", "exec sleep 1000", "/bin");
	pack_task(&w);
	sign(&w);
	if (start(&w, &response, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	assert_int_equal(destroy("bin", true), STATUS_OK);
}

/* Its first run replaces a folder on the way by a link that leads to the host's. */
static void a_working_folder_that_became_a_link_is_not_made_on_the_host(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err = {0};
	struct wish w;

	wish_in_folder(
		&w, "turned",
		"b=/bin/busybox; $b mv /w/of-image /w/x && $b ln -s /way /w/of-image && exit 3; exit 4",
		"/w/of-image/in");
	allow_restarts(&w, 9);
	pack_task(&w);
	sign(&w);
	if (start(&w, &response, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	assert_int_equal(wait_exit("turned"), 3);
	for (int i = 0; i < 2; i++) {
		enum status status = restart(&w, &err);

		if (!str_eq(getenv("ENGINE"), "podman"))
			break;
		assert_int_equal(status, STATUS_FAILED_PRECONDITION);
		if (!strstr(err.msg, "which is not made"))
			fail_msg("%s", err.msg);
	}
	assert_int_equal(destroy("turned", true), STATUS_OK);
}

/* podman would append its user to the image's files before each start, as root, from the host. */
static void an_image_keeps_its_accounts(void **state)
{
	char out[256];
	struct wish w;
	int32_t code;

	wish_in_folder(&w, "accounts", "exec /bin/busybox sleep 1000", "/w");
	w.task.user = text("1000");
	start_well(&w);
	exec_well("accounts", "/bin/busybox cat /etc/passwd", out, &code);
	assert_string_equal(out, "root:x:0:0::/:/bin/sh\n");
	assert_int_equal(destroy("accounts", true), STATUS_OK);
}

/* --- streams ----------------------------------------------------------------------------------------------
 */

struct heard {
	struct rpc_stream *stream;
	char out[3][4096];
	size_t n_out;  /* bytes of stdout in all */
	bool is_right; /* all of them were 'a' */
	bool has_exited;
	int32_t code;
	bool is_closed;
	enum status status;
	int health;
	size_t n_messages;
};

static void add(struct heard *h, int stream, ProtobufCBinaryData bytes)
{
	size_t have = strlen(h->out[stream]);
	size_t room = sizeof(h->out[stream]) - 1 - have;

	if (stream == 1)
		h->n_out += bytes.len;
	for (size_t i = 0; i < bytes.len; i++)
		h->is_right &= bytes.data[i] == 'a';
	if (bytes.len > 0)
		memcpy(h->out[stream] + have, bytes.data, bytes.len < room ? bytes.len : room);
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__Driver__V1__ExecTaskStreamingResponse *exec = (const void *)message;
	const Holdfast__Driver__V1__TaskLogsResponse *log = (const void *)message;
	struct heard *h = userdata;

	h->n_messages++;
	if (message->descriptor == &holdfast__driver__v1__task_logs_response__descriptor) {
		add(h, (int)log->stream, log->value);
	} else if (message->descriptor == &holdfast__driver__v1__fingerprint_response__descriptor) {
		h->health = (int)((const Holdfast__Driver__V1__FingerprintResponse *)(const void *)message)
				    ->health;
	} else if (message->descriptor == &holdfast__driver__v1__exec_task_streaming_response__descriptor) {
		if (exec->stdout)
			add(h, 1, exec->stdout->value);
		if (exec->stderr)
			add(h, 2, exec->stderr->value);
		h->has_exited |= exec->exited;
		if (exec->result)
			h->code = exec->result->exit_code;
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct heard *h = userdata;

	h->is_closed = true;
	h->status = status;
	if (err)
		(void)snprintf(h->out[0], sizeof(h->out[0]), "%s", err->msg);
}

static const struct rpc_stream_events stream_events = {.on_message = on_message, .on_closed = on_closed};

static void open_stream(struct heard *h, const char *method, const ProtobufCMessage *first)
{
	*h = (struct heard){.is_right = true};
	assert_int_equal(
		rpc_stream_open(client, SERVICE, method, CALL_US, &stream_events, h, &h->stream, NULL),
		STATUS_OK);
	assert_int_equal(rpc_stream_send(h->stream, first, NULL), STATUS_OK);
}

/* Until @is_there says so, or a minute has passed. */
static void until(struct heard *h, bool (*is_there)(const struct heard *h))
{
	uint64_t end = clock_monotonic_us() + CALL_US;

	while (!is_there(h) && clock_monotonic_us() < end)
		assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
	if (!is_there(h))
		fail_msg("a stream said nothing more: %s", h->out[0]);
}

static bool has_closed(const struct heard *h)
{
	return h->is_closed;
}

static bool is_healthy(const struct heard *h)
{
	return h->health == HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY;
}

static size_t enough;

static bool has_enough(const struct heard *h)
{
	return h->is_closed || h->n_out >= enough;
}

static void open_exec(struct heard *h, const struct wish *w)
{
	Holdfast__Driver__V1__ExecTaskStreamingRequest request =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__Driver__V1__ExecSetup setup = HOLDFAST__DRIVER__V1__EXEC_SETUP__INIT;

	setup.order = (ProtobufCBinaryData){w->n_order, (uint8_t *)(uintptr_t)&w->order};
	setup.command = (ProtobufCBinaryData){w->n_body, (uint8_t *)(uintptr_t)w->body};
	request.setup = &setup;
	open_stream(h, "ExecTaskStreaming", &request.base);
}

static void send_stdin(struct heard *h, const void *bytes, size_t n, bool close)
{
	Holdfast__Driver__V1__ExecTaskStreamingRequest request =
		HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__Driver__V1__ExecData data = HOLDFAST__DRIVER__V1__EXEC_DATA__INIT;

	data.value = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)bytes};
	data.close = close;
	request.stdin = &data;
	assert_int_equal(rpc_stream_send(h->stream, &request.base, NULL), STATUS_OK);
}

static void read_logs(struct heard *h, const char *task)
{
	Holdfast__Driver__V1__TaskLogsRequest request = HOLDFAST__DRIVER__V1__TASK_LOGS_REQUEST__INIT;

	request.alloc_id = text(ALLOC);
	request.task = text(task);
	open_stream(h, "TaskLogs", &request.base);
	until(h, has_closed);
}

/* --- tasks ------------------------------------------------------------------------------------------------
 */

static void the_engine_is_found_healthy(void **state)
{
	Holdfast__Driver__V1__FingerprintRequest request = HOLDFAST__DRIVER__V1__FINGERPRINT_REQUEST__INIT;
	struct heard h;

	open_stream(&h, "Fingerprint", &request.base);
	until(&h, is_healthy);
	rpc_stream_cancel(h.stream);
}

static bool is_unhealthy(const struct heard *h)
{
	return h->health == HOLDFAST__DRIVER__V1__HEALTH__HEALTH_UNHEALTHY;
}

static void an_old_runc_is_named_and_starts_nothing(void **state)
{
	Holdfast__Driver__V1__FingerprintRequest request = HOLDFAST__DRIVER__V1__FINGERPRINT_REQUEST__INIT;
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err;
	struct heard h;
	struct wish w;

	open_stream(&h, "Fingerprint", &request.base);
	until(&h, is_unhealthy);
	rpc_stream_cancel(h.stream);
	wish_task(&w, "runc", "sleep 1000");
	pack_task(&w);
	sign(&w);
	assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
	assert_null(response);
	assert_non_null(strstr(err.msg, "cannot start tasks: runc 1."));
	assert_non_null(strstr(err.msg, "see old_runc in"));
	assert_int_equal(destroy("runc", false), STATUS_OK);
}

static void a_task_runs_on_its_volume_once(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *again = NULL;
	struct heard logs;
	struct error err;
	char out[256] = "";
	int32_t code = -1;
	struct wish w;

	wish_task(&w, "web",
		  "echo out; echo err >&2; echo data > /vol/file; trap 'exit 9' TERM; while :; do sleep 1; "
		  "done");
	w.task.n_volumes = 1;
	w.volume.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK;
	start_well(&w);
	assert_int_equal(start(&w, &again, &err), STATUS_OK); /* the same order: the same task */
	drop(again);
	assert_int_equal(state_of("web"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING);
	exec_well("web", "while ! [ -s /vol/file ]; do sleep 0.1; done; cat /vol/file; exit 7", out, &code);
	assert_string_equal(out, "data\n");
	assert_int_equal(code, 7);
	read_logs(&logs, "web");
	assert_int_equal(logs.status, STATUS_OK);
	assert_string_equal(logs.out[1], "out\n");
	assert_string_equal(logs.out[2], "err\n");
	assert_int_equal(destroy("web", false), STATUS_FAILED_PRECONDITION);
	assert_int_equal(stop("web"), STATUS_OK);
	(void)wait_exit("web");
	assert_int_equal(state_of("web"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED);
	assert_int_equal(destroy("web", false), STATUS_OK);
	assert_int_equal(destroy("web", false), STATUS_OK);
	assert_int_equal(start(&w, &again, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(state_of("web"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED);
}

/* By an order that has expired, with the files and the volume that it had; as often as the order says. */
/* Refused with its code, on record with its reason; run.py compares both with the driver's trail. */
static void refused(const char *name, enum status got, enum status wanted, const char *reason,
		    const struct error *err)
{
	if (got == STATUS_OK)
		fail_msg("%s was taken", name);
	if (got != wanted)
		fail_msg("%s: %s instead of %s: %s", name, status_name(got), status_name(wanted), err->msg);
	(void)printf("ATTEMPT %s %s %s\n", reason, status_name(wanted), name);
}

static void a_task_that_failed_is_restarted_on_its_mounts(void **state)
{
	struct error err;
	char out[256];
	int32_t code;
	struct wish w;

	wish_task(&w, "again",
		  "echo run >> /vol/runs; echo run >> /var/runs; [ $(wc -l < /var/runs) -ge 3 ] && sleep "
		  "1000; exit 4");
	w.task.n_volumes = 1;
	w.order.not_after_ms = (uint64_t)clock_realtime_ms() + 8000;
	allow_restarts(&w, 1);
	start_well(&w);
	assert_int_equal(wait_exit("again"), 4);
	while ((uint64_t)clock_realtime_ms() <=
	       w.order.not_after_ms) /* an allocation lives longer than its order */
		assert_int_equal(usleep(100000), 0);
	if (restart(&w, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	assert_int_equal(wait_exit("again"), 4);
	assert_int_equal(restart(&w, &err), STATUS_OK);
	assert_int_equal(state_of("again"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING);
	assert_int_equal(restart(&w, &err), STATUS_OK); /* it runs: the same answer */
	exec_well("again", "wc -l < /vol/runs; wc -l < /var/runs", out, &code);
	assert_string_equal(out, "3\n3\n");
	assert_int_equal(stop("again"), STATUS_OK);
	(void)wait_exit("again");
	assert_int_equal(destroy("again", false), STATUS_OK);
	refused("a restart of a task that is destroyed", restart(&w, &err), STATUS_FAILED_PRECONDITION,
		"ended", &err);
	assert_int_equal(state_of("again"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED);
}

static void a_task_whose_root_is_a_folder_of_the_host_is_not_restarted(void **state)
{
	struct error err = {0};
	struct wish w;

	wish_task(&w, "folders", "exit 4");
	allow_restarts(&w, 1);
	start_well(&w);
	assert_int_equal(wait_exit("folders"), 4);
	assert_int_equal(restart(&w, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "by the storage driver 'vfs'"));
	assert_int_equal(state_of("folders"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED);
	assert_int_equal(destroy("folders", false), STATUS_OK);
}

static void look_until_health(const char *task, const char *health)
{
	Holdfast__Driver__V1__InspectTaskRequest request = HOLDFAST__DRIVER__V1__INSPECT_TASK_REQUEST__INIT;
	uint64_t end = clock_monotonic_us() + CALL_US;
	bool is_so = false;

	request.alloc_id = text(ALLOC);
	request.task = text(task);
	while (!is_so && clock_monotonic_us() < end) {
		Holdfast__Driver__V1__InspectTaskResponse *response = NULL;
		struct error err;

		if (call("InspectTask", &request.base, &response, &err) != STATUS_OK)
			fail_msg("%s", err.msg);
		is_so = str_eq(response->status->health, health);
		drop(response);
		assert_int_equal(usleep(100000), 0);
	}
	if (!is_so)
		fail_msg("task %s is not %s", task, health);
}

static void start_checked(struct wish *w, const char *task, Holdfast__Driver__V1__HealthCheck *check,
			  char **argv, size_t n)
{
	wish_task(w, task, "sleep 1000");
	holdfast__driver__v1__health_check__init(check);
	check->argv = argv;
	check->n_argv = n;
	check->interval_ms = check->timeout_ms = 1000;
	check->retries = 2;
	w->task.health = check;
	start_well(w);
}

static void a_health_check_runs_in_its_task(void **state)
{
	char *there[] = {text("/bin/sh"), text("-c"), text("test -e /var/ok")};
	char *hangs[] = {text("/bin/sleep"), text("1000")}, *missing[] = {text("/bin/no-such-program")};
	Holdfast__Driver__V1__HealthCheck check;
	char out[256];
	int32_t code;
	struct wish w;

	start_checked(&w, "checked", &check, there, 3);
	look_until_health("checked", "unhealthy");
	exec_well("checked", "touch /var/ok", out, &code);
	look_until_health("checked", "healthy");
	exec_well("checked", "rm /var/ok", out, &code);
	look_until_health("checked", "unhealthy");
	assert_int_equal(destroy("checked", true), STATUS_OK);
	start_checked(&w, "hangs", &check, hangs, 2);
	look_until_health("hangs", "unhealthy");
	exec_well("hangs", "ps | grep -c '[s]leep 1000'", out, &code);
	assert_string_equal(out, "2\n"); /* its own, and one check: no other begins while that hangs */
	assert_int_equal(destroy("hangs", true), STATUS_OK);
	start_checked(&w, "lacks", &check, missing, 1);
	look_until_health("lacks", "unhealthy");
	assert_int_equal(destroy("lacks", true), STATUS_OK);
}

/* Its own time is longer than the default, which would kill it. */
static void a_task_has_its_own_time_to_stop(void **state)
{
	char out[256];
	int32_t code;
	struct wish w;

	wish_task(&w, "slow", "trap 'sleep 12; exit 6' TERM; touch /var/ready; while :; do sleep 1; done");
	w.task.stop_timeout_ms = 60000;
	start_well(&w);
	exec_well("slow", "while ! [ -e /var/ready ]; do sleep 0.1; done", out, &code);
	assert_int_equal(stop_in("slow", 0), STATUS_OK);
	assert_int_equal(wait_exit("slow"), 6);
	assert_int_equal(destroy("slow", false), STATUS_OK);
}

static void set_host_path(struct wish *w, char *path)
{
	set_value(w, "host_paths");
	w->pair.key = path;
	w->pair.value = text("/host");
	w->values[2].n_map = 1;
	w->values[2].map = w->pairs;
}

static void a_path_of_the_host_is_read_only(void **state)
{
	char out[256];
	int32_t code;
	struct wish w;

	wish_task(&w, "host", "sleep 1000");
	set_host_path(&w, getenv("HOST_PATH"));
	start_well(&w);
	exec_well("host", "cat /host/shown; echo x > /host/new; echo $?", out, &code);
	assert_string_equal(out, "shown\n1\n");
	assert_int_equal(destroy("host", true), STATUS_OK);
}

/* crun makes the folder of a mount before it makes the path of the host read-only. */
static void a_task_makes_no_folder_in_a_path_of_the_host(void **state)
{
	static const char *const paths[] = {"HOST_PATH_TO_WRITE", "HOST_PATH_HIDDEN"};
	bool is_podman = str_eq(getenv("ENGINE"), "podman");
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err;
	char made[PATH_MAX];
	struct wish w;

	wish_task(&w, "maker", "sleep 1000");
	set_host_path(&w, getenv("HOST_PATH"));
	w.task.n_volumes = 1;
	w.volume.destination = text("/host/made");
	pack_task(&w);
	sign(&w);
	assert_int_not_equal(start(&w, &response, &err), STATUS_OK);
	(void)destroy("maker", true);
	wish_task(&w, "maker", "sleep 1000");
	set_host_path(&w, getenv("HOST_PATH_TO_WRITE"));
	set_value(&w, "work_dir");
	w.values[3].text = text("/host/made");
	pack_task(&w);
	sign(&w);
	if (is_podman)
		refused("a path of the host that is not read-only", start(&w, &response, &err),
			STATUS_FAILED_PRECONDITION, "host_paths", &err);
	else
		assert_int_not_equal(start(&w, &response, &err), STATUS_OK);
	(void)destroy("maker", true);
	wish_task(&w, "maker", "sleep 1000");
	set_host_path(&w, getenv("HOST_PATH_HIDDEN"));
	pack_task(&w);
	sign(&w);
	if (is_podman)
		refused("a path of the host whose read-only mount is hidden", start(&w, &response, &err),
			STATUS_FAILED_PRECONDITION, "host_paths", &err);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		(void)snprintf(made, sizeof(made), "%s/made", getenv(paths[i]));
		assert_int_equal(access(made, F_OK), -1);
	}
}

/* The flags of the mount at /vol in the container of @task. */
static void flags_inside(const char *task, char out[static 256])
{
	int32_t code;

	exec_well(task, "grep ' /vol ' /proc/self/mountinfo | sed 's/.* \\/vol //; s/,relatime//; s/ .*//'",
		  out, &code);
}

static void a_volume_has_the_flags_of_its_publish_inside(void **state)
{
	static const struct {
		const char *task, *volume, *flags;
		uint32_t slot;
		bool read_only, is_lost_by_docker;
	} rows[] = {
		{"writer", "vol-1", "rw,nosuid,nodev\n", 1, false, false},
		{"reader", "vol-2", "ro,nosuid,nodev,noexec\n", 2, true, false},
		{"looker", "vol-1", "ro,nosuid,nodev\n", 1, true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		Holdfast__Driver__V1__StartTaskResponse *response = NULL;
		struct error err;
		char out[256];
		struct wish w;

		wish_task(&w, rows[i].task, "sleep 1000");
		w.task.n_volumes = 1;
		w.volume.slot = rows[i].slot;
		w.volume.volume = text(rows[i].volume);
		w.volume.read_only = rows[i].read_only;
		if (rows[i].is_lost_by_docker && str_eq(getenv("ENGINE"), "docker")) {
			pack_task(&w);
			sign(&w);
			assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
			assert_non_null(strstr(err.msg, "mount_flags"));
			continue;
		}
		start_well(&w);
		flags_inside(rows[i].task, out);
		assert_string_equal(out, rows[i].flags);
		assert_int_equal(destroy(rows[i].task, true), STATUS_OK);
	}
}

/* run.py has a proxy change one field of what this asks for. */
static void wish_of_a_reader(struct wish *w)
{
	wish_task(w, "lied", "sleep 1000");
	w->task.user = text("0:0"); /* a named group is the only one */
	w->task.n_volumes = 1;
	w->volume.slot = 3; /* without flags, which Docker would drop */
	w->volume.volume = text("vol-3");
	w->volume.read_only = true;
	pack_task(w);
	sign(w);
}

static void refuse_lie(struct wish *w)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err;

	if (start(w, &response, &err) != STATUS_FAILED_PRECONDITION ||
	    !strstr(err.msg, "otherwise than ordered"))
		fail_msg("%s", response ? "taken" : err.msg);
	assert_int_equal(state_of("lied"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED);
}

static void an_engine_that_lies_is_refused(void **state)
{
	struct wish w;

	wish_of_a_reader(&w);
	refuse_lie(&w);
}

static void an_engine_that_lies_about_limits_is_refused(void **state)
{
	Holdfast__Driver__V1__Resources resources = HOLDFAST__DRIVER__V1__RESOURCES__INIT;
	struct wish w;

	wish_task(&w, "lied", "sleep 1000");
	resources.cpu_millis = 290; /* podman rounds it */
	resources.cpu_shares = 512;
	resources.memory_bytes = 64 << 20;
	resources.memory_swap_bytes = 96 << 20;
	resources.pids = 100;
	w.task.resources = &resources;
	pack_task(&w);
	sign(&w);
	refuse_lie(&w);
}

/* run.py has the proxy change the volume's mark after the engine made the container. */
static void a_volume_that_changes_before_the_start_leaves_no_container(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err;
	struct wish w;

	wish_of_a_reader(&w);
	if (start(&w, &response, &err) != STATUS_PERMISSION_DENIED || !strstr(err.msg, "is not volume vol-3"))
		fail_msg("%s", response ? "taken" : err.msg);
	assert_int_equal(state_of("lied"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED);
}

static void an_engine_that_adds_what_nobody_asked_about_is_taken(void **state)
{
	struct wish w;

	wish_task(&w, "honest", "sleep 1000");
	w.task.user = text("0:0");
	start_well(&w);
	assert_int_equal(destroy("honest", true), STATUS_OK);
}

static void how_a_task_ended_is_reported(void **state)
{
	struct wish w;

	wish_task(&w, "short", "exit 3");
	start_well(&w);
	assert_int_equal(wait_exit("short"), 3);
	assert_int_equal(destroy("short", false), STATUS_OK);
}

static void a_command_has_input_output_and_a_status(void **state)
{
	enum { PIECE = 64 << 10, PIECES = 32 };
	static char piece[PIECE];
	struct heard h;
	struct wish w;

	wish_task(&w, "shell", "sleep 1000");
	start_well(&w);
	memset(piece, 'a', sizeof(piece));
	wish_command(&w, "shell", false, "cat; echo bad >&2; exit 5");
	open_exec(&h, &w);
	for (size_t i = 1; i <= PIECES; i++) {
		send_stdin(&h, piece, sizeof(piece), false);
		enough = i * PIECE;
		until(&h, has_enough);
	}
	assert_true(h.is_right);
	send_stdin(&h, NULL, 0, true);
	until(&h, has_closed);
	assert_int_equal(h.status, STATUS_OK);
	assert_true(h.has_exited);
	assert_int_equal(h.code, 5);
	assert_int_equal(h.n_out, PIECES * PIECE);
	assert_string_equal(h.out[2], "bad\n");
	wish_command(&w, "shell", true, "stty -echo; read x; echo got $x; exit 4");
	open_exec(&h, &w);
	send_stdin(&h, "word\n", 5, false);
	until(&h, has_closed);
	assert_int_equal(h.code, 4);
	assert_non_null(strstr(h.out[1], "got word"));
	assert_int_equal(destroy("shell", true), STATUS_OK);
}

static bool is_ready(const struct heard *h)
{
	return h->is_closed || strstr(h->out[1], "ready");
}

/* Ctrl-P Ctrl-Q leaves an attached terminal by Docker's default, with exit status 126. */
static void keys_that_detach_reach_the_command(void **state)
{
	struct heard h;
	struct wish w;

	wish_task(&w, "keys", "sleep 1000");
	start_well(&w);
	wish_command(&w, "keys", true, "stty raw -echo; echo ready; head -c 3 | sed 's/^..x/both/'; exit 6");
	open_exec(&h, &w);
	until(&h, is_ready);
	send_stdin(&h, "\x10\x11x", 3, false);
	until(&h, has_closed);
	if (h.status != STATUS_OK)
		fail_msg("%s", h.out[0]);
	if (!strstr(h.out[1], "both"))
		fail_msg("exit %d: '%s'", h.code, h.out[1]);
	assert_int_equal(h.code, 6);
	assert_int_equal(destroy("keys", true), STATUS_OK);
}

static void output_that_nobody_keeps_is_reported(void **state)
{
	struct heard h;
	struct wish w;

	wish_task(&w, "quiet", "echo x; sleep 1000");
	w.task.disable_logs = true;
	start_well(&w);
	read_logs(&h, "quiet");
	assert_int_equal(h.status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(h.out[0], "disabled"));
	assert_int_equal(destroy("quiet", true), STATUS_OK);
}

static void join_network(struct wish *w, Holdfast__Driver__V1__NetworkSpec *spec)
{
	w->task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	w->task.network_spec = spec;
}

/* @ret owned by the caller, on success */
static enum status create_network(const char *namespace, Holdfast__Driver__V1__CreateNetworkResponse **ret,
				  struct error *err)
{
	Holdfast__Driver__V1__NetworkConfig network = HOLDFAST__DRIVER__V1__NETWORK_CONFIG__INIT;
	Holdfast__Driver__V1__CreateNetworkRequest create =
		HOLDFAST__DRIVER__V1__CREATE_NETWORK_REQUEST__INIT;
	struct wish w = {.n_body = 0};

	network.alloc_id = text(ALLOC);
	network.driver = text("container");
	network.namespace_ = text(namespace);
	network.mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	make_order(&w, ORDER_NETWORK, "");
	w.n_body = holdfast__driver__v1__network_config__pack(&network, w.body);
	sign(&w);
	create.order = (ProtobufCBinaryData){w.n_order, (uint8_t *)&w.order};
	create.network = (ProtobufCBinaryData){w.n_body, w.body};
	return call("CreateNetwork", &create.base, ret, err);
}

/* A tenant can submit the id of another one's allocation that the server has forgotten. */
static void expect_no_place_for(const char *namespace, Holdfast__Driver__V1__NetworkSpec *spec)
{
	static const char why[] = "is of another namespace, which had this id before";
	Holdfast__Driver__V1__CreateNetworkResponse *created = NULL;
	Holdfast__Driver__V1__StartTaskResponse *started = NULL;
	struct error err;
	struct wish w;

	assert_int_equal(create_network(namespace, &created, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, why));
	wish_task(&w, "spy", "touch /vol/seen; sleep 1000");
	w.task.namespace_ = text(namespace);
	join_network(&w, spec);
	pack_task(&w);
	sign(&w);
	assert_int_equal(start(&w, &started, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, why));
}

static void tasks_of_an_allocation_share_its_network(void **state)
{
	Holdfast__Driver__V1__DestroyNetworkRequest remove =
		HOLDFAST__DRIVER__V1__DESTROY_NETWORK_REQUEST__INIT;
	Holdfast__Driver__V1__CreateNetworkResponse *created = NULL;
	Holdfast__Driver__V1__DestroyNetworkResponse *removed = NULL;
	char out[2][256];
	struct error err;
	struct wish w;
	int32_t code;

	if (create_network("", &created, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	assert_true(created->created);
	drop(created);
	assert_int_equal(create_network("", &created, &err), STATUS_OK);
	assert_false(created->created);
	for (size_t i = 0; i < 2; i++) {
		wish_task(&w, i == 0 ? "one" : "two", "sleep 1000");
		join_network(&w, created->spec);
		start_well(&w);
		exec_well(i == 0 ? "one" : "two", "ls -l /proc/self/ns/net | sed 's/.*-> //'", out[i], &code);
	}
	assert_non_null(strstr(out[0], "net:["));
	assert_string_equal(out[0], out[1]);
	assert_int_equal(destroy("one", true), STATUS_OK);
	assert_int_equal(destroy("two", true), STATUS_OK);
	drop(created);
	remove.alloc_id = text(ALLOC);
	assert_int_equal(call("DestroyNetwork", &remove.base, &removed, &err), STATUS_OK);
	drop(removed);
	assert_int_equal(create_network("team-a", &created, &err), STATUS_OK);
	expect_no_place_for("team-b", created->spec);
	drop(created);
	assert_int_equal(call("DestroyNetwork", &remove.base, &removed, &err), STATUS_OK);
	drop(removed);
}

/* --- a hostile agent --------------------------------------------------------------------------------------
 */

static void flip(struct wish *w, size_t at)
{
	((uint8_t *)&w->order)[at] ^= 1;
}

enum when { BEFORE_PACK, BEFORE_SIGN, AFTER_SIGN };

static void sign_again(struct wish *w)
{
	assert_int_equal(order_sign(&w->order, seed, NULL), STATUS_OK);
}

#define FORM STATUS_INVALID_ARGUMENT, "form"
#define DENIED(reason) STATUS_PERMISSION_DENIED, (reason)
#define FLIP(field, when_, ...)                                                              \
	{                                                                                    \
#when_ " " #field, (when_), NULL, offsetof(struct order, field), __VA_ARGS__ \
	}

static void no_order(struct wish *w)
{
	w->n_order = 0;
}
static void short_order(struct wish *w)
{
	w->n_order--;
}
static void no_signature(struct wish *w)
{
	memset(w->order.signature, 0, sizeof(w->order.signature));
}
static void other_key(struct wish *w)
{
	assert_int_equal(order_sign(&w->order, other_seed, NULL), STATUS_OK);
}
static void expired(struct wish *w)
{
	w->order.not_after_ms = 1000;
}
static void of_a_command(struct wish *w)
{
	w->order.kind = ORDER_EXEC;
}
static void other_image(struct wish *w)
{
	w->values[0].text = text("docker.io/library/evil:1");
	pack_task(w);
}
static void other_script(struct wish *w)
{
	w->args[2] = text("cat /etc/shadow");
	pack_task(w);
}
static void other_user(struct wish *w)
{
	w->task.user = text("1000");
	pack_task(w);
}
static void more_env(struct wish *w)
{
	w->pair.key = text("LD_PRELOAD");
	w->task.n_env = 1;
	w->task.env = w->pairs;
	pack_task(w);
}
static void more_volumes(struct wish *w)
{
	w->task.n_volumes = 1;
	pack_task(w);
}
static void another_task(struct wish *w)
{
	w->task.task = text("other");
	pack_task(w);
}
static void another_alloc(struct wish *w)
{
	w->task.alloc_id = text(OTHER_ALLOC);
	pack_task(w);
}
static void cut_body(struct wish *w)
{
	w->n_body--;
}
static void no_body(struct wish *w)
{
	w->n_body = 0;
}
static void unknown_field(struct wish *w)
{
	memcpy(w->body + w->n_body, "\xf8\x07\x01", 3);
	w->n_body += 3;
}
static void field_twice(struct wish *w)
{
	memcpy(w->body + w->n_body, "\x12\x01x", 3);
	w->n_body += 3;
}
static void image_of_elsewhere(struct wish *w)
{
	w->values[0].text = text("docker.io/library/busybox:1");
}
static void privileged(struct wish *w)
{
	set_value(w, "privileged");
	w->values[2].flag = true;
}
static void capability(struct wish *w)
{
	set_value(w, "cap_add");
	w->caps[0] = text("CAP_SYS_ADMIN");
	w->values[2].n_list = 1;
	w->values[2].list = w->caps;
}
static void host_path(struct wish *w)
{
	set_host_path(w, text("/etc"));
}
static void host_path_with_more(struct wish *w)
{
	set_host_path(w, getenv("HOST_PATH_WITH_MORE"));
}
static void host_path_in_publish(struct wish *w)
{
	set_host_path(w, getenv("HOST_PATH_IN_PUBLISH"));
}
static void host_path_in_stage(struct wish *w)
{
	set_host_path(w, getenv("HOST_PATH_IN_STAGE"));
}
static void host_network(struct wish *w)
{
	w->task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST;
}
static void not_published(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.slot = 7;
}
static void another_volume_there(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.volume = text("vol-1");
}
static void restarted(struct wish *w)
{
	w->restart.mode = (Holdfast__Driver__V1__RestartMode)4;
	w->task.restart = &w->restart;
}
static void no_utf8(struct wish *w)
{
	w->args[2] = text("echo \xff");
}
static void bidirectional(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL;
}
static void private_as_slave(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.slot = 1;
	w->volume.volume = text("vol-1");
	w->volume.propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK;
}
static void over_the_kernels(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.destination = text("/proc");
}
static void comma(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.destination = text("/vol,source=/etc");
}
static void descriptor_as_work_dir(struct wish *w)
{
	set_value(w, "work_dir");
	w->values[2].text = text("/proc/self/fd/7");
}
static void write_to_a_reader(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.slot = 2;
	w->volume.volume = text("vol-2");
}
static void agents_account(struct wish *w)
{
	w->task.user = text("64997");
}
static void unknown_config(struct wish *w)
{
	set_value(w, "devices");
	w->values[2].text = text("/dev/sda");
}

static void of_a_network(struct wish *w)
{
	w->order.kind = ORDER_NETWORK;
	memset(w->order.task, 0, sizeof(w->order.task));
}
static void of_a_network_with_a_task(struct wish *w)
{
	w->order.kind = ORDER_NETWORK;
}
static void no_end(struct wish *w)
{
	memset(w->order.node, 'n', sizeof(w->order.node));
}
static void path_as_task(struct wish *w)
{
	(void)str_copy(w->order.task, sizeof(w->order.task), "../foreign");
}
static void user_of_elsewhere(struct wish *w)
{
	w->task.user = text("65534");
}
static void users_own(struct wish *w)
{
	w->task.user = text("");
}
static void path_as_image(struct wish *w)
{
	w->values[0].text = text("localhost/bb/../../containers/foreign/start");
}
static void env_with_more(struct wish *w)
{
	w->pair.key = text("A=B");
	w->task.n_env = 1;
	w->task.env = w->pairs;
}
static void dots(struct wish *w)
{
	w->task.n_volumes = 1;
	w->volume.destination = text("/vol/../etc");
}
static void no_handle(struct wish *w)
{
	w->task.network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
}
static Holdfast__Driver__V1__NetworkSpec *spec_of(const char *alloc, const char *state)
{
	static Holdfast__Driver__V1__NetworkSpec spec = HOLDFAST__DRIVER__V1__NETWORK_SPEC__INIT;

	spec.alloc_id = text(alloc);
	spec.mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	spec.state = text(state);
	return &spec;
}
static void network_of_another(struct wish *w)
{
	join_network(w, spec_of(OTHER_ALLOC, "holdfast-net-" OTHER_ALLOC));
}
static void foreign_network(struct wish *w)
{
	join_network(w, spec_of(ALLOC, "foreign"));
}
static void handle_without_network(struct wish *w)
{
	w->task.network_spec = spec_of(ALLOC, "holdfast-net-" ALLOC);
}

static const struct {
	const char *name;
	enum when when;
	void (*change)(struct wish *w); /* NULL: flip a bit of the order */
	size_t at;
	enum status code;
	const char *reason;
} attempts[] = {
	{"no order", AFTER_SIGN, no_order, 0, FORM},
	{"a short one", AFTER_SIGN, short_order, 0, FORM},
	{"no signature", AFTER_SIGN, no_signature, 0, DENIED("signature")},
	{"another key", AFTER_SIGN, other_key, 0, DENIED("signature")},
	FLIP(magic, AFTER_SIGN, FORM),
	FLIP(version, AFTER_SIGN, FORM),
	FLIP(kind, AFTER_SIGN, FORM),
	FLIP(cluster, AFTER_SIGN, DENIED("signature")),
	FLIP(node, AFTER_SIGN, DENIED("signature")),
	FLIP(driver, AFTER_SIGN, DENIED("signature")),
	FLIP(task, AFTER_SIGN, DENIED("signature")),
	FLIP(who, AFTER_SIGN, DENIED("signature")),
	FLIP(boot_id, AFTER_SIGN, DENIED("signature")),
	FLIP(alloc, AFTER_SIGN, DENIED("signature")),
	FLIP(digest, AFTER_SIGN, DENIED("signature")),
	FLIP(nonce, AFTER_SIGN, DENIED("signature")),
	FLIP(not_after_ms, AFTER_SIGN, DENIED("signature")),
	FLIP(cluster, BEFORE_SIGN, DENIED("cluster")),
	FLIP(node, BEFORE_SIGN, DENIED("node")),
	FLIP(driver, BEFORE_SIGN, DENIED("driver")),
	FLIP(boot_id, BEFORE_SIGN, DENIED("boot")),
	FLIP(alloc, BEFORE_SIGN, DENIED("alloc")),
	{"expired", BEFORE_SIGN, expired, 0, DENIED("expired")},
	{"a command's", BEFORE_SIGN, of_a_command, 0, DENIED("kind")},
	{"another image", AFTER_SIGN, other_image, 0, DENIED("digest")},
	{"another script", AFTER_SIGN, other_script, 0, DENIED("digest")},
	{"another user", AFTER_SIGN, other_user, 0, DENIED("digest")},
	{"another variable", AFTER_SIGN, more_env, 0, DENIED("digest")},
	{"another volume", AFTER_SIGN, more_volumes, 0, DENIED("digest")},
	{"another task", AFTER_SIGN, another_task, 0, DENIED("digest")},
	{"another allocation", AFTER_SIGN, another_alloc, 0, DENIED("digest")},
	{"a cut task", AFTER_SIGN, cut_body, 0, DENIED("digest")},
	{"no task", AFTER_SIGN, no_body, 0, DENIED("digest")},
	{"a task that its order does not name", BEFORE_SIGN, another_task, 0, DENIED("task")},
	{"an unknown field", BEFORE_SIGN, unknown_field, 0, FORM},
	{"a field twice", BEFORE_SIGN, field_twice, 0, FORM},
	{"an image that root does not allow", BEFORE_PACK, image_of_elsewhere, 0, DENIED("images")},
	{"privileged", BEFORE_PACK, privileged, 0, DENIED("privileged")},
	{"a capability", BEFORE_PACK, capability, 0, DENIED("capabilities")},
	{"a path of the host", BEFORE_PACK, host_path, 0, DENIED("host_paths")},
	{"a path of the host with a mount below it", BEFORE_PACK, host_path_with_more, 0,
	 STATUS_FAILED_PRECONDITION, "host_paths"},
	{"a path below a published volume", BEFORE_PACK, host_path_in_publish, 0, DENIED("host_paths")},
	{"a path below a staged volume", BEFORE_PACK, host_path_in_stage, 0, DENIED("host_paths")},
	{"the host's network", BEFORE_PACK, host_network, 0, DENIED("networks")},
	{"a volume that is not published", BEFORE_PACK, not_published, 0, STATUS_FAILED_PRECONDITION,
	 "publish"},
	{"a volume that another one is published as", BEFORE_PACK, another_volume_there, 0, DENIED("volume")},
	{"one with an unknown way to be restarted", BEFORE_PACK, restarted, 0, STATUS_INVALID_ARGUMENT,
	 "task"},
	{"a text that is no UTF-8", BEFORE_PACK, no_utf8, 0, FORM},
	{"bidirectional of a task that cannot mount", BEFORE_PACK, bidirectional, 0, STATUS_INVALID_ARGUMENT,
	 "propagation"},
	{"host-to-task of a private mount", BEFORE_PACK, private_as_slave, 0, DENIED("propagation")},
	{"a volume over /proc", BEFORE_PACK, over_the_kernels, 0, STATUS_INVALID_ARGUMENT, "task"},
	{"a destination with an option", BEFORE_PACK, comma, 0, STATUS_INVALID_ARGUMENT, "task"},
	{"a descriptor as work_dir", BEFORE_PACK, descriptor_as_work_dir, 0, STATUS_INVALID_ARGUMENT, "task"},
	{"to write to a volume for reading", BEFORE_PACK, write_to_a_reader, 0, DENIED("read_only")},
	{"the driver's own account", BEFORE_PACK, agents_account, 0, DENIED("users")},
	{"an unknown setting", BEFORE_PACK, unknown_config, 0, STATUS_INVALID_ARGUMENT, "task"},
	FLIP(reserved, BEFORE_SIGN, FORM),
	{"a network's", BEFORE_SIGN, of_a_network, 0, DENIED("kind")},
	{"a network's with a task", BEFORE_SIGN, of_a_network_with_a_task, 0, FORM},
	{"a text without an end", BEFORE_SIGN, no_end, 0, FORM},
	{"a path as the task", BEFORE_SIGN, path_as_task, 0, FORM},
	{"a user that root does not allow", BEFORE_PACK, user_of_elsewhere, 0, DENIED("users")},
	{"the image's own user", BEFORE_PACK, users_own, 0, DENIED("users")},
	{"a path as the image", BEFORE_PACK, path_as_image, 0, STATUS_INVALID_ARGUMENT, "task"},
	{"a variable that is two", BEFORE_PACK, env_with_more, 0, STATUS_INVALID_ARGUMENT, "task"},
	{"a destination with dots", BEFORE_PACK, dots, 0, STATUS_INVALID_ARGUMENT, "task"},
	{"isolated without a handle", BEFORE_PACK, no_handle, 0, DENIED("network")},
	{"the network of another allocation", BEFORE_PACK, network_of_another, 0, DENIED("network")},
	{"a foreign container's network", BEFORE_PACK, foreign_network, 0, DENIED("network")},
	{"a handle without a network", BEFORE_PACK, handle_without_network, 0, DENIED("network")},
};

static void change_at(struct wish *w, size_t i, enum when when)
{
	if (attempts[i].when != when)
		return;
	if (attempts[i].change)
		attempts[i].change(w);
	else
		flip(w, attempts[i].at);
}

/* run.py looks at the record, and that the engine has no container afterwards. */
static void a_hostile_agent_starts_nothing(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		Holdfast__Driver__V1__StartTaskResponse *response = NULL;
		struct error err;
		struct wish w;

		wish_task(&w, "evil", "sleep 1000");
		change_at(&w, i, BEFORE_PACK);
		pack_task(&w);
		change_at(&w, i, BEFORE_SIGN);
		sign(&w);
		change_at(&w, i, AFTER_SIGN);
		refused(attempts[i].name, start(&w, &response, &err), attempts[i].code, attempts[i].reason,
			&err);
	}
	assert_int_equal(state_of("evil"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED);
}

/* Destroyed, it is not started again by what started it. */
static void a_hostile_agent_replays_nothing(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	struct error err;
	struct wish w;

	wish_task(&w, "once", "sleep 1000");
	start_well(&w);
	assert_int_equal(destroy("once", true), STATUS_OK);
	refused("the order of a task that was destroyed", start(&w, &response, &err),
		STATUS_FAILED_PRECONDITION, "used", &err);
	wish_task(&w, "late", "sleep 1000"); /* kept back until the task was destroyed */
	pack_task(&w);
	sign(&w);
	assert_int_equal(destroy("late", true), STATUS_OK);
	refused("an order of before the task was destroyed", start(&w, &response, &err),
		STATUS_FAILED_PRECONDITION, "used", &err);
	wish_task(&w, "twice", "sleep 1000");
	start_well(&w);
	wish_task(&w, "twice", "echo something else");
	pack_task(&w);
	sign(&w);
	refused("another order of a task that runs", start(&w, &response, &err), STATUS_FAILED_PRECONDITION,
		"other-order", &err);
	assert_int_equal(destroy("twice", true), STATUS_OK);
}

/* Of the same kind as what is done to starts. */
static void change_place(struct wish *w, size_t i)
{
	static const size_t fields[] = {offsetof(struct order, cluster), offsetof(struct order, node),
					offsetof(struct order, driver), offsetof(struct order, boot_id),
					offsetof(struct order, alloc)};

	flip(w, fields[i]);
	sign_again(w);
}
static const char *const place_reasons[] = {"cluster", "node", "driver", "boot", "alloc"};

static enum status enter(const struct wish *w, struct error *err)
{
	char out[256];
	int32_t code;

	return exec_wish(w, out, &code, err);
}

static enum status enter_by_stream(const struct wish *w, struct error *err)
{
	struct heard h;

	open_exec(&h, w);
	until(&h, has_closed);
	*err = (struct error){.status = h.status};
	return h.status;
}

static void a_hostile_agent_enters_nothing(void **state)
{
	struct error err;
	struct wish start_of, good, w;

	wish_task(&start_of, "victim", "sleep 1000");
	start_well(&start_of);
	refused("exec by the order of its start", enter(&start_of, &err), DENIED("kind"), &err);
	wish_command(&good, "victim", false, "echo well");
	assert_int_equal(enter(&good, &err), STATUS_OK);
	refused("exec once more", enter(&good, &err), STATUS_FAILED_PRECONDITION, "used", &err);
	refused("exec once more, by a stream", enter_by_stream(&good, &err), STATUS_FAILED_PRECONDITION,
		"used", &err);
	wish_command(&w, "victim", false, "cat /etc/shadow");
	w.order = good.order;
	refused("exec by the order of another command", enter(&w, &err), DENIED("digest"), &err);
	refused("the same by a stream", enter_by_stream(&w, &err), DENIED("digest"), &err);
	w.n_order = 0;
	refused("exec without an order", enter(&w, &err), FORM, &err);
	refused("the same by a stream", enter_by_stream(&w, &err), FORM, &err);
	wish_command(&w, "victim", false, "echo x");
	flip(&w, offsetof(struct order, who));
	refused("exec in another's name", enter(&w, &err), DENIED("signature"), &err);
	other_key(&w);
	refused("exec by another key", enter(&w, &err), DENIED("signature"), &err);
	for (size_t i = 0; i < ARRAY_SIZE(place_reasons); i++) {
		wish_command(&w, "victim", false, "echo x");
		change_place(&w, i);
		refused("exec ordered elsewhere", enter(&w, &err), DENIED(place_reasons[i]), &err);
	}
	wish_command(&w, "victim", false, "echo x");
	w.order.not_after_ms = 1000;
	sign_again(&w);
	refused("exec by an order that has expired", enter(&w, &err), DENIED("expired"), &err);
	wish_command(&w, "victim", false, "echo x");
	(void)str_copy(w.order.task, sizeof(w.order.task), "other");
	sign_again(&w);
	refused("exec ordered in another task", enter(&w, &err), DENIED("task"), &err);
	w.n_body--;
	refused("exec with a cut command", enter(&w, &err), DENIED("digest"), &err);
	assert_int_equal(destroy("victim", true), STATUS_OK);
}

/* Of mode @mode by driver @driver for @alloc, ordered as it is. */
static void wish_network(struct wish *w, const char *alloc, const char *driver,
			 Holdfast__Driver__V1__NetworkMode mode)
{
	Holdfast__Driver__V1__NetworkConfig network = HOLDFAST__DRIVER__V1__NETWORK_CONFIG__INIT;

	*w = (struct wish){.n_body = 0};
	network.alloc_id = text(alloc);
	network.driver = text(driver);
	network.mode = mode;
	make_order(w, ORDER_NETWORK, "");
	w->n_body = holdfast__driver__v1__network_config__pack(&network, w->body);
	sign(w);
}

static enum status make(const struct wish *w, struct error *err)
{
	Holdfast__Driver__V1__CreateNetworkRequest create =
		HOLDFAST__DRIVER__V1__CREATE_NETWORK_REQUEST__INIT;
	Holdfast__Driver__V1__CreateNetworkResponse *created = NULL;
	enum status status;

	create.order = (ProtobufCBinaryData){w->n_order, (uint8_t *)(uintptr_t)&w->order};
	create.network = (ProtobufCBinaryData){w->n_body, (uint8_t *)(uintptr_t)w->body};
	status = call("CreateNetwork", &create.base, &created, err);
	if (created)
		drop(created);
	return status;
}

static void unmake(void)
{
	Holdfast__Driver__V1__DestroyNetworkRequest remove =
		HOLDFAST__DRIVER__V1__DESTROY_NETWORK_REQUEST__INIT;
	Holdfast__Driver__V1__DestroyNetworkResponse *removed = NULL;

	remove.alloc_id = text(ALLOC);
	assert_int_equal(call("DestroyNetwork", &remove.base, &removed, NULL), STATUS_OK);
	drop(removed);
}

static void a_hostile_agent_makes_no_network(void **state)
{
	const Holdfast__Driver__V1__NetworkMode isolated =
		HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	struct error err;
	struct wish w;

	for (size_t i = 0; i < ARRAY_SIZE(place_reasons); i++) {
		wish_network(&w, ALLOC, "container", isolated);
		change_place(&w, i);
		refused("a network ordered elsewhere", make(&w, &err), DENIED(place_reasons[i]), &err);
	}
	wish_network(&w, ALLOC, "container", isolated);
	w.n_order = 0;
	refused("a network without an order", make(&w, &err), FORM, &err);
	wish_network(&w, ALLOC, "container", isolated);
	other_key(&w);
	refused("a network by another key", make(&w, &err), DENIED("signature"), &err);
	wish_network(&w, ALLOC, "container", isolated);
	w.order.kind = ORDER_START;
	(void)str_copy(w.order.task, sizeof(w.order.task), "web");
	sign_again(&w);
	refused("a network by the order of a start", make(&w, &err), DENIED("kind"), &err);
	wish_network(&w, OTHER_ALLOC, "container", isolated);
	refused("the network of another allocation", make(&w, &err), DENIED("alloc"), &err);
	wish_network(&w, ALLOC, "other", isolated);
	refused("the network of another driver", make(&w, &err), DENIED("driver"), &err);
	wish_network(&w, ALLOC, "container", HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST);
	refused("the host's network", make(&w, &err), STATUS_INVALID_ARGUMENT, "network", &err);
	wish_network(&w, ALLOC, "container", isolated);
	assert_int_equal(make(&w, &err), STATUS_OK);
	unmake();
	refused("a network that was destroyed", make(&w, &err), STATUS_FAILED_PRECONDITION, "used", &err);
}

/* What is asked without an order is of this driver's containers only. run.py made two that are not: one
 * called foreign, and one as task foreign's is to be. */
static void a_hostile_agent_reaches_no_foreign_container(void **state)
{
	static const char *const names[] = {"../foreign", "foreign/json?x=", "Foreign", ""};
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	Holdfast__Driver__V1__SignalTaskRequest kill = HOLDFAST__DRIVER__V1__SIGNAL_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__SignalTaskResponse *killed = NULL;
	Holdfast__Driver__V1__RecoverTaskRequest recover = HOLDFAST__DRIVER__V1__RECOVER_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__TaskHandle handle = HOLDFAST__DRIVER__V1__TASK_HANDLE__INIT;
	Holdfast__Driver__V1__RecoverTaskResponse *recovered = NULL;
	struct error err;
	struct wish w;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(stop(names[i]), STATUS_INVALID_ARGUMENT);
		assert_int_equal(destroy(names[i], true), STATUS_INVALID_ARGUMENT);
	}
	assert_int_equal(stop("foreign"), STATUS_FAILED_PRECONDITION);
	assert_int_equal(destroy("foreign", true), STATUS_FAILED_PRECONDITION);
	assert_int_equal(state_of("foreign"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED);
	kill.alloc_id = text(ALLOC);
	kill.task = text("foreign");
	kill.signal = text("SIGKILL");
	assert_int_equal(call("SignalTask", &kill.base, &killed, &err), STATUS_FAILED_PRECONDITION);
	handle.version = 1;
	handle.alloc_id = text(ALLOC);
	handle.task = text("foreign");
	handle.state = text("foreign");
	handle.nonce = (ProtobufCBinaryData){sizeof(w.order.nonce), w.order.nonce};
	recover.handle = &handle;
	wish_command(&w, "foreign", false, "echo x");
	assert_int_equal(call("RecoverTask", &recover.base, &recovered, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(enter(&w, &err), STATUS_FAILED_PRECONDITION); /* ordered, and not this driver's */
	wish_task(&w, "foreign", "sleep 1000");
	pack_task(&w);
	sign(&w);
	assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
}

/* As another account of the machine. */
static void a_stranger_is_not_heard(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	Holdfast__Driver__V1__CapabilitiesRequest ask = HOLDFAST__DRIVER__V1__CAPABILITIES_REQUEST__INIT;
	Holdfast__Driver__V1__CapabilitiesResponse *said = NULL;
	struct error err;
	struct wish w;

	assert_int_equal(call("Capabilities", &ask.base, &said, &err), STATUS_PERMISSION_DENIED);
	wish_task(&w, "strange", "sleep 1000");
	pack_task(&w);
	sign(&w);
	assert_int_equal(start(&w, &response, &err), STATUS_PERMISSION_DENIED);
	wish_command(&w, "strange", false, "echo x");
	assert_int_equal(enter(&w, &err), STATUS_PERMISSION_DENIED);
	assert_int_equal(stop("strange"), STATUS_PERMISSION_DENIED);
	assert_int_equal(destroy("strange", true), STATUS_PERMISSION_DENIED);
}

/* Each restart that its order does not allow. */
static void a_hostile_agent_restarts_nothing(void **state)
{
	struct error err;
	struct wish w, other;

	wish_task(&w, "still", "exit 3");
	start_well(&w);
	assert_int_equal(wait_exit("still"), 3);
	refused("a restart of an order without restarts", restart(&w, &err), STATUS_PERMISSION_DENIED,
		"restart", &err);
	wish_task(&other, "still", "exit 3");
	allow_restarts(&other, 9);
	pack_task(&other);
	other.order = w.order;
	refused("a restart with a policy that is not ordered", restart(&other, &err),
		STATUS_PERMISSION_DENIED, "digest", &err);
	wish_task(&other, "still", "exit 3");
	allow_restarts(&other, 9);
	pack_task(&other);
	sign(&other);
	refused("a restart by an order that has started nothing", restart(&other, &err),
		STATUS_FAILED_PRECONDITION, "unused", &err);
	assert_int_equal(destroy("still", false), STATUS_OK);
	wish_task(&w, "ended", "exit 0");
	allow_restarts(&w, 9);
	start_well(&w);
	assert_int_equal(wait_exit("ended"), 0);
	refused("a restart of work that is done", restart(&w, &err), STATUS_FAILED_PRECONDITION, "restart",
		&err);
	assert_int_equal(destroy("ended", false), STATUS_OK);
	refused("a restart of work that is destroyed", restart(&w, &err), STATUS_FAILED_PRECONDITION, "ended",
		&err);
	wish_task(&w, "often", "exit 3");
	allow_restarts(&w, 1);
	start_well(&w);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(wait_exit("often"), 3);
		assert_int_equal(restart(&w, &err), STATUS_OK);
	}
	assert_int_equal(wait_exit("often"), 3);
	refused("more restarts than its order allows", restart(&w, &err), STATUS_PERMISSION_DENIED, "restart",
		&err);
	assert_int_equal(destroy("often", false), STATUS_OK);
}

/* --- a driver that is killed ------------------------------------------------------------------------------
 */

static void save(const char *path, const struct wish *w)
{
	assert_int_equal(file_write_atomic(path, 0600, w, sizeof(*w)), 0);
}

static void begin_before_the_kill(void **state)
{
	struct wish w;

	wish_task(&w, "kept", "sleep 1000");
	start_well(&w);
	save(getenv("WISH"), &w);
}

static void a_task_outlives_its_driver_and_is_not_started_again(void **state)
{
	Holdfast__Driver__V1__StartTaskResponse *response = NULL;
	Holdfast__Driver__V1__RecoverTaskRequest recover = HOLDFAST__DRIVER__V1__RECOVER_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__RecoverTaskResponse *recovered = NULL;
	cleanup_free char *bytes = NULL;
	struct error err;
	struct wish w;
	size_t n;

	assert_int_equal(file_read(getenv("WISH"), sizeof(w), &bytes, &n), 0);
	assert_int_equal(n, sizeof(w));
	memcpy(&w, bytes, n);
	assert_int_equal(state_of("kept"), HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING);
	if (start(&w, &response, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	recover.handle = response->handle;
	assert_int_equal(call("RecoverTask", &recover.base, &recovered, &err), STATUS_OK);
	assert_int_equal(recovered->status->state, HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING);
	drop(recovered);
	response->handle->nonce.data[0] ^= 1; /* of another order: none of it */
	assert_int_equal(call("RecoverTask", &recover.base, &recovered, &err), STATUS_NOT_FOUND);
	drop(response);
	assert_int_equal(destroy("kept", true), STATUS_OK);
	assert_int_equal(start(&w, &response, &err), STATUS_FAILED_PRECONDITION);
}

static int print_key(void)
{
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
	uint8_t bytes[ORDER_KEY_SIZE];
	size_t n = sizeof(bytes);
	char hex[2 * ORDER_KEY_SIZE + 1];

	(void)EVP_PKEY_get_raw_public_key(key, bytes, &n);
	EVP_PKEY_free(key);
	hex_encode(hex, bytes, sizeof(bytes));
	return puts(hex) < 0;
}

int main(int argc, char **argv)
{
	const struct rpc_endpoint endpoint = {.unix_path = getenv("DRIVER_SOCKET")};
	const struct CMUnitTest tasks[] = {
		cmocka_unit_test(the_engine_is_found_healthy),
		cmocka_unit_test(an_image_of_another_registry_is_not_taken_for_an_allowed_one),
		cmocka_unit_test(an_image_of_another_name_is_not_taken_by_its_digest),
		cmocka_unit_test(an_image_with_a_volume_in_sys_is_not_started),
		cmocka_unit_test(a_working_folder_behind_a_link_is_not_made_on_the_host),
		cmocka_unit_test(a_working_folder_that_became_a_link_is_not_made_on_the_host),
		cmocka_unit_test(an_image_keeps_its_accounts),
		cmocka_unit_test(a_task_runs_on_its_volume_once),
		cmocka_unit_test(a_task_that_failed_is_restarted_on_its_mounts),
		cmocka_unit_test(a_health_check_runs_in_its_task),
		cmocka_unit_test(a_task_has_its_own_time_to_stop),
		cmocka_unit_test(a_path_of_the_host_is_read_only),
		cmocka_unit_test(a_task_makes_no_folder_in_a_path_of_the_host),
		cmocka_unit_test(a_volume_has_the_flags_of_its_publish_inside),
		cmocka_unit_test(how_a_task_ended_is_reported),
		cmocka_unit_test(a_command_has_input_output_and_a_status),
		cmocka_unit_test(keys_that_detach_reach_the_command),
		cmocka_unit_test(output_that_nobody_keeps_is_reported),
		cmocka_unit_test(tasks_of_an_allocation_share_its_network),
	};
	const struct CMUnitTest hostile[] = {
		cmocka_unit_test(a_hostile_agent_starts_nothing),
		cmocka_unit_test(a_hostile_agent_replays_nothing),
		cmocka_unit_test(a_hostile_agent_restarts_nothing),
		cmocka_unit_test(a_hostile_agent_enters_nothing),
		cmocka_unit_test(a_hostile_agent_makes_no_network),
		cmocka_unit_test(a_hostile_agent_reaches_no_foreign_container),
	};
	const struct CMUnitTest lied[] = {cmocka_unit_test(an_engine_that_lies_is_refused)};
	const struct CMUnitTest limited[] = {cmocka_unit_test(an_engine_that_lies_about_limits_is_refused)};
	const struct CMUnitTest late[] = {
		cmocka_unit_test(a_volume_that_changes_before_the_start_leaves_no_container)};
	const struct CMUnitTest honest[] = {
		cmocka_unit_test(an_engine_that_adds_what_nobody_asked_about_is_taken)};
	const struct CMUnitTest old_runc[] = {cmocka_unit_test(an_old_runc_is_named_and_starts_nothing)};
	const struct CMUnitTest stranger[] = {cmocka_unit_test(a_stranger_is_not_heard)};
	const struct CMUnitTest begun[] = {cmocka_unit_test(begin_before_the_kill)};
	const struct CMUnitTest killed[] = {
		cmocka_unit_test(a_task_outlives_its_driver_and_is_not_started_again)};
	const struct CMUnitTest folders[] = {
		cmocka_unit_test(a_task_whose_root_is_a_folder_of_the_host_is_not_restarted)};
	const char *phase = argc == 2 ? argv[1] : "";
	int failed = 2;

	if (str_eq(phase, "key"))
		return print_key();
	if (sd_event_new(&event) < 0 || rpc_client_new(event, &endpoint, &client, NULL) != STATUS_OK)
		return 2;
	if (str_eq(phase, "tasks"))
		failed = cmocka_run_group_tests(tasks, NULL, NULL);
	else if (str_eq(phase, "hostile"))
		failed = cmocka_run_group_tests(hostile, NULL, NULL);
	else if (str_eq(phase, "lied"))
		failed = cmocka_run_group_tests(lied, NULL, NULL);
	else if (str_eq(phase, "limited"))
		failed = cmocka_run_group_tests(limited, NULL, NULL);
	else if (str_eq(phase, "late"))
		failed = cmocka_run_group_tests(late, NULL, NULL);
	else if (str_eq(phase, "honest"))
		failed = cmocka_run_group_tests(honest, NULL, NULL);
	else if (str_eq(phase, "old_runc"))
		failed = cmocka_run_group_tests(old_runc, NULL, NULL);
	else if (str_eq(phase, "folders"))
		failed = cmocka_run_group_tests(folders, NULL, NULL);
	else if (str_eq(phase, "stranger"))
		failed = cmocka_run_group_tests(stranger, NULL, NULL);
	else if (str_eq(phase, "begun"))
		failed = cmocka_run_group_tests(begun, NULL, NULL);
	else if (str_eq(phase, "killed"))
		failed = cmocka_run_group_tests(killed, NULL, NULL);
	rpc_client_free(client);
	(void)sd_event_unref(event);
	return failed;
}
