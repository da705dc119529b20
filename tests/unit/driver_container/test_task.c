/* SPDX-License-Identifier: Apache-2.0 */
/* What a start does if its order or its volume changes between the creation of the container and its start.
 * The engine is a model, and so is the check of the publish tree. */
#include "driver.h"
#include "folder.h"
#include "publish.h"
#include "unit.h"
#include "unit_clock.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "model/order.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <openssl/evp.h>

#define ALLOC "0190a6f2-0000-7000-8000-000000000001"
#define BOOT "11111111-2222-4333-8444-555555555555"
#define ID "0123456789abcdef"
#define NAME "/containers/holdfast-" ALLOC "-web"

static const uint8_t seed[ORDER_KEY_SIZE] = "this is the seed of a test's key";

static struct {
	char asked[1024]; /* METHOD PATH of each request, one a line */
	char last[256];
	engine_done_fn *done;
	void *userdata;
	json_t *body; /* of the container; NULL: it does not exist */
	bool has_run;
	const char *at;		 /* the request with which it happens */
	void (*meanwhile)(void); /* NULL: nothing */
	bool is_unpublished;
} model;

static struct {
	size_t n;
	enum status status;
	char msg[ERROR_MSG_MAX];
} answer;

WRAPPED(enum status, engine_send, struct engine *engine, const struct engine_request *request,
	engine_done_fn *done, void *userdata, struct engine_call **ret, struct error *err)
{
	size_t n = strlen(model.asked);

	(void)snprintf(model.last, sizeof(model.last), "%s %s", request->method, request->path);
	(void)snprintf(model.asked + n, sizeof(model.asked) - n, "%s\n", model.last);
	if (str_starts_with(request->path, "/containers/create"))
		model.body = request->body;
	model.done = done;
	model.userdata = userdata;
	return STATUS_OK;
}

WRAPPED(enum status, publish_open, const char *publish_dir, uid_t agent_uid, int *ret, struct error *err)
{
	return STATUS_OK;
}

WRAPPED(enum status, publish_check, const char *mountinfo_path, int fd, const char *publish_dir,
	const Holdfast__Driver__V1__TaskConfig *task, const char **ret_reason, struct error *err)
{
	if (!model.is_unpublished)
		return STATUS_OK;
	*ret_reason = "volume";
	return error_set(err, STATUS_PERMISSION_DENIED, 0, "another volume is published");
}

WRAPPED(void, rpc_call_fail, struct rpc_call *call, const struct error *err)
{
	answer.n++;
	answer.status = err->status;
	(void)str_copy(answer.msg, sizeof(answer.msg), err->msg);
}

WRAPPED(void, rpc_call_reply, struct rpc_call *call, const ProtobufCMessage *response)
{
	answer.n++;
	answer.status = STATUS_OK;
}

static json_t *describe(void)
{
	json_t *mount =
		json_array_get(json_object_get(json_object_get(model.body, "HostConfig"), "Mounts"), 0);

	return json_pack("{s:s, s:{s:s, s:s, s:i}, s:O, s:O, s:[{s:s, s:O, s:O, s:b, s:s}]}", "Id", ID,
			 "State", "Status", model.has_run ? "exited" : "created", "StartedAt",
			 model.has_run ? "2026-01-01T00:00:00Z" : "0001-01-01T00:00:00Z", "ExitCode",
			 model.has_run, "Config", model.body, "HostConfig",
			 json_object_get(model.body, "HostConfig"), "Mounts", "Type", "bind", "Source",
			 json_object_get(mount, "Source"), "Destination", json_object_get(mount, "Target"),
			 "RW", 1, "Propagation", "rprivate");
}

/* Answers the last request. */
static void answer_last(void)
{
	engine_done_fn *done = model.done;
	bool is_look = str_eq(model.last, "GET " NAME "/json");
	json_t *json = is_look && model.body ? describe() : NULL;
	struct error err;

	model.done = NULL;
	if (model.meanwhile && str_starts_with(model.last, model.at))
		model.meanwhile();
	if (str_starts_with(model.last, "POST " NAME "/start"))
		model.has_run = true;
	if (str_starts_with(model.last, "DELETE " NAME)) {
		json_decref(model.body);
		model.body = NULL;
	}
	if (is_look && !json)
		done(error_set(&err, STATUS_NOT_FOUND, 0, "no such container"), &err, NULL, model.userdata);
	else
		done(STATUS_OK, NULL, json, model.userdata);
	json_decref(json);
}

struct fixture {
	char folder[FOLDER_SIZE];
	struct settings settings;
	struct driver driver;
	uint8_t body[512];
	size_t n_body;
	struct order order;
};

UNIT_SETUP(begin, struct fixture, f)
{
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
	Holdfast__Driver__V1__ConfigValue image =
		PB(holdfast__driver__v1__config_value, .key = TEXT("image"), .text = TEXT("localhost/bb:1"));
	Holdfast__Driver__V1__ConfigValue *config[] = {&image};
	Holdfast__Driver__V1__VolumeMount volume =
		PB(holdfast__driver__v1__volume_mount, .volume = TEXT("vol"), .destination = TEXT("/vol"));
	Holdfast__Driver__V1__VolumeMount *volumes[] = {&volume};
	Holdfast__Driver__V1__RestartPolicy restart =
		PB(holdfast__driver__v1__restart_policy,
		   .mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL, .attempts = 1,
		   .interval_ms = 3600000);
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .driver = TEXT("container"), .n_config = 1, .config = config, .n_volumes = 1,
		   .volumes = volumes, .restart = &restart);
	char path[FOLDER_SIZE + 16];
	size_t n = ORDER_KEY_SIZE;

	memset(&model, 0, sizeof(model));
	folder_make(f->folder);
	f->settings = (struct settings){.cluster = "prod",
					.node_id = "node-1",
					.n_keys = 1,
					.publish_dir = "/run/holdfast-mount/publish",
					.images = {"localhost/bb:1"},
					.users = {"image"},
					.networks = {"none"}};
	assert_int_equal(EVP_PKEY_get_raw_public_key(key, f->settings.keys[0], &n), 1);
	EVP_PKEY_free(key);
	f->driver = (struct driver){.settings = &f->settings,
				    .boot_text = BOOT,
				    .engine_name = "Engine",
				    .engine_version = "20.10"};
	assert_true(id_uuid_bytes(BOOT, f->driver.boot_id));
	(void)snprintf(path, sizeof(path), "%s/orders", f->folder);
	assert_ok(nonces_open(path, BOOT, &f->driver.nonces, NULL));
	assert_ok(trail_open(f->folder, "prod", "node-1", &f->driver.trail, NULL));
	f->n_body = holdfast__driver__v1__task_config__pack(&task, f->body);
	f->order = (struct order){.magic = ORDER_MAGIC,
				  .version = ORDER_VERSION,
				  .kind = ORDER_START,
				  .cluster = "prod",
				  .node = "node-1",
				  .driver = "container",
				  .task = "web",
				  .who = "operator alice",
				  .nonce = {1},
				  .not_after_ms = (uint64_t)clock_realtime_ms() + ORDER_VALID_MS};
	memcpy(f->order.boot_id, f->driver.boot_id, sizeof(f->order.boot_id));
	assert_true(id_uuid_bytes(ALLOC, f->order.alloc));
	order_digest(f->body, f->n_body, f->order.digest);
	assert_ok(order_sign(&f->order, seed, NULL));
}

UNIT_TEARDOWN(end, struct fixture, f)
{
	task_free_all(&f->driver);
	nonces_free(f->driver.nonces);
	trail_free(f->driver.trail);
	json_decref(model.body);
	folder_remove(f->folder);
}

static void order_task(struct fixture *f, bool is_restart)
{
	Holdfast__Driver__V1__StartTaskRequest start = HOLDFAST__DRIVER__V1__START_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__RestartTaskRequest restart = HOLDFAST__DRIVER__V1__RESTART_TASK_REQUEST__INIT;

	start.order = restart.order = (ProtobufCBinaryData){sizeof(f->order), (uint8_t *)&f->order};
	start.task = restart.task = (ProtobufCBinaryData){f->n_body, f->body};
	memset(&answer, 0, sizeof(answer));
	model.asked[0] = '\0';
	if (is_restart)
		task_restart((struct rpc_call *)&answer, &restart.base, &f->driver);
	else
		task_start((struct rpc_call *)&answer, &start.base, &f->driver);
	while (model.done)
		answer_last();
	assert_int_equal(answer.n, 1);
}

static void start_well(struct fixture *f)
{
	model.meanwhile = NULL;
	order_task(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked, "POST " NAME "/start");
	assert_null(strstr(model.asked, "DELETE"));
}

static void expect_refused(struct fixture *f, const char *reason)
{
	cleanup_free char *trail = NULL;
	char path[FOLDER_SIZE + 16];

	assert_msg(answer.status == STATUS_PERMISSION_DENIED, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
	(void)snprintf(path, sizeof(path), "%s/trail.log", f->folder);
	assert_int_equal(file_read(path, 1 << 16, &trail, NULL), 0);
	assert_contains(trail, reason);
	assert_int_equal(f->driver.orders.refused, 1);
	assert_int_equal(f->driver.orders.failed, 0);
}

static void expire(void)
{
	unit_clock_advance((ORDER_VALID_MS + 1) * USEC_PER_MSEC);
}

static void unpublish(void)
{
	model.is_unpublished = true;
}

#define CASE(name) TEST_ON(name, struct fixture, f, begin, end)

CASE(an_order_that_expires_before_the_start_leaves_no_container)
{
	model.at = "POST /containers/create";
	model.meanwhile = expire;
	order_task(f, false);
	expect_refused(f, "reason=expired code=PERMISSION_DENIED");
	assert_null(model.body);
}

/* Nothing has run by this order: it starts its task when the volume is right again. */
CASE(a_volume_that_changes_before_the_start_leaves_no_container)
{
	model.at = "POST /containers/create";
	model.meanwhile = unpublish;
	order_task(f, false);
	expect_refused(f, "reason=volume code=PERMISSION_DENIED");
	assert_null(model.body);
	model.is_unpublished = false;
	start_well(f);
}

/* It has the output of the last run, which DestroyTask saves. */
CASE(a_volume_that_changes_before_a_restart_leaves_the_container)
{
	start_well(f);
	model.at = "GET " NAME "/json";
	model.meanwhile = unpublish;
	order_task(f, true);
	expect_refused(f, "reason=volume code=PERMISSION_DENIED");
	assert_non_null(model.body);
}
