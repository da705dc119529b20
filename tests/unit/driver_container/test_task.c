/* SPDX-License-Identifier: Apache-2.0 */
/* What a start does if its order or its volume changes between the creation of the container and its start,
 * and what is known of the end of a container. The engine is a model, and so is the check of the publish
 * tree; the process of a container is a child of the test. */
#include "container.h"
#include "driver.h"
#include "failing_folder.h"
#include "folder.h"
#include "pending.h"
#include "publish.h"
#include "readback_process.h"
#include "unit.h"
#include "unit_clock.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mountinfo.h"
#include "base/path.h"
#include "model/order.h"

#include <fcntl.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/wait.h>

#define ALLOC "0190a6f2-0000-7000-8000-000000000001"
#define BOOT "11111111-2222-4333-8444-555555555555"
#define ID "0123456789abcdef"
#define NAME "/containers/holdfast-" ALLOC "-web"
#define PUBLISH "/run/holdfast-mount/publish"
#define OTHER_ALLOC "0190a6f2-0000-7000-8000-000000000002"
#define OTHER "/containers/holdfast-" OTHER_ALLOC "-web"
#define NETWORK "/containers/holdfast-net-" ALLOC
#define BEGIN "POST /libpod/containers/" ID "/init"

static const uint8_t seed[ORDER_KEY_SIZE] = "this is the seed of a test's key";

static struct {
	char asked[1024]; /* METHOD PATH of each request, one a line */
	char last[256];
	engine_done_fn *done;
	void *userdata;
	json_t *body;	  /* of the container; NULL: it does not exist */
	const char *user; /* of the image */
	bool has_run;
	const char *at;		 /* the request with which it happens */
	void (*meanwhile)(void); /* NULL: nothing */
	bool is_unpublished;
	bool is_bare;		/* nothing is mounted at the volume's path when the tables are read */
	pid_t process;		/* of the container; 0: none */
	const char *status;	/* that the engine describes; NULL: it follows from has_run */
	bool is_pid_unknown;	/* the engine does not describe the process */
	bool is_hidden;		/* the kernel does not show that it is of the container */
	bool ignores_kill;	/* the process runs on */
	enum status killed;	/* the engine's answer to a kill; otherwise the process runs on */
	enum status found;	/* of a look at all processes */
	const char *unreadable; /* file of the process that is too large; NULL: none */
	bool has_own_users;	/* the process, in a user namespace */
	bool is_start_late;	/* the engine does not answer it in time */
	bool is_look_refused;	/* the engine describes no container */
	bool is_removal_refused;
	bool starts_on_removal; /* the engine carries out an earlier start then */
	bool holds;		/* stops and pulls are not answered */
	size_t n_held;
	engine_done_fn *held_done; /* of the last one */
	void *held_userdata;
	bool has_no_image;
	const char *called;   /* the image, by name and digest; NULL: it has no such name */
	const char *pulled;   /* name that it has after the next pull; NULL: as before */
	bool is_disk_broken;  /* no file is written in its place */
	bool has_no_program;  /* for plugins, on this machine */
	bool runs_as_ordered; /* as the kernel shows it; otherwise its mounts are the test's own */
	const char *started;  /* NULL: at the begin of the year */
	const char *image_work_dir;
	const char *cmd;	/* of the image */
	bool describes_nothing; /* podman, by its own API */
	bool has_no_flags;	/* of the mount, likewise */
	const char *storage;	/* its driver; "": podman describes none; NULL: overlay */
	bool is_dev_link;	/* in the image */
	bool has_no_dev;	/* likewise */
	bool is_start_refused;
	bool is_create_refused;
	bool is_begun;		 /* by podman: the process waits */
	bool is_begun_otherwise; /* than ordered, as the kernel shows it */
	bool is_begin_late;	 /* podman does not answer it in time */
	bool begins_nothing;	 /* podman */
	bool runs_nothing;	 /* likewise: the process waits on */
	const char *fips;	 /* that this machine has; NULL: it has a kernel without FIPS mode */
	bool has_fips_file;
	int n_stopped;		   /* looks until podman has cleaned up after the last run */
	const char *network_of;	   /* namespace of the network's container; NULL: an earlier driver made it */
	const char *network_later; /* the same once the task runs; NULL: as before */
	json_t *spec;		   /* that podman was asked for; borrowed of the call */
	const char *variable;	   /* of the image; NULL: it is described by its name alone */
	struct {
		engine_done_fn *done;
		void *userdata;
	} looks[64]; /* at containers of leftovers */
	size_t n_looks;
	void *call_data;
	size_t n_cancelled;
} model;

static struct {
	size_t n;
	enum status status;
	char msg[ERROR_MSG_MAX];
	const struct rpc_call *call;
} answer;

/* Is it on the way to remove a container? The look is, whatever comes after it. */
static bool removes(const struct engine_request *request)
{
	return str_eq(request->method, "DELETE") || strstr(request->path, "/kill?signal=SIGKILL") ||
	       strstr(request->path, "/logs?") ||
	       (str_starts_with(request->path, "/containers/holdfast-") && strstr(request->path, "/json"));
}

/* As podman describes it by its Docker API. */
static void take_spec(json_t *spec)
{
	json_t *mount = json_array_get(json_object_get(spec, "mounts"), 0);

	json_decref(model.spec);
	model.spec = spec;
	model.body = json_pack(
		"{s:O, s:O, s:{s:[s], s:s, s:[{s:O, s:O}]}}", "Labels", json_object_get(spec, "labels"),
		"Healthcheck", json_object_get(spec, "healthconfig"), "HostConfig", "SecurityOpt",
		"no-new-privileges", "NetworkMode", "none", "Mounts", "Source",
		json_object_get(mount, "source"), "Target", json_object_get(mount, "destination"));
	assert_non_null(model.body);
}

WRAPPED(enum status, engine_send, struct engine *engine, const struct engine_request *request,
	engine_done_fn *done, void *userdata, struct engine_call **ret, struct error *err)
{
	size_t n = strlen(model.asked);

	(void)snprintf(model.last, sizeof(model.last), "%s %s", request->method, request->path);
	(void)snprintf(model.asked + n, sizeof(model.asked) - n, "%s\n", model.last);
	if (str_starts_with(request->path, "/containers/create"))
		model.body = request->body;
	if (str_starts_with(request->path, "/libpod/containers/create"))
		take_spec(request->body);
	if (str_starts_with(request->path, "/images/localhost"))
		assert_int_equal(request->answer_max, 256 << 10);
	if (!str_starts_with(request->path, NETWORK)) /* of which a task has a look, too */
		assert_int_equal(request->is_release, removes(request));
	model.done = done;
	model.userdata = userdata;
	if (ret)
		*ret = (struct engine_call *)&model;
	if (str_starts_with(request->path, "/containers/holdfast-" ALLOC "-t")) {
		assert_true(model.n_looks < ARRAY_SIZE(model.looks));
		model.looks[model.n_looks].done = done;
		model.looks[model.n_looks++].userdata = userdata;
	}
	if (model.holds && (strstr(request->path, "/stop?") || strstr(request->path, "/images/create"))) {
		model.n_held++;
		model.held_done = done;
		model.held_userdata = userdata;
		model.done = NULL;
	}
	return STATUS_OK;
}

WRAPPED(void, engine_cancel, struct engine_call *call)
{
	if (!call)
		return;
	model.n_cancelled++;
	model.done = NULL;
}

WRAPPED(void, rpc_call_set_data, struct rpc_call *call, void *data)
{
	model.call_data = data;
}

WRAPPED(void *, rpc_call_data, const struct rpc_call *call)
{
	return model.call_data;
}

WRAPPED(enum status, plugin_program_check, const char *path, struct error *err)
{
	if (!model.has_no_program)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "no program");
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

int __real_mountinfo_each(struct mountinfo *mountinfo, mount_visit_fn *visit, void *userdata);

struct above {
	uint64_t id;
	size_t n_point;
};

static int visit_above(const struct mount_entry *entry, void *userdata)
{
	struct above *above = userdata;

	if (strlen(entry->point) >= above->n_point && path_is_within(PUBLISH, entry->point))
		*above = (struct above){entry->id, strlen(entry->point)};
	return 0;
}

/* The volume is mounted after all of this machine's mounts. */
WRAPPED(int, mountinfo_each, struct mountinfo *mountinfo, mount_visit_fn *visit, void *userdata)
{
	struct above above = {0};
	int r = __real_mountinfo_each(mountinfo, visit_above, &above);
	const struct mount_entry volume = {.id = UINT64_MAX,
					   .parent = above.id,
					   .dev_major = 8,
					   .dev_minor = 1,
					   .root = "/",
					   .point = PUBLISH "/" ALLOC "/0",
					   .options = "rw,nosuid,nodev",
					   .type = "ext4"};

	if (r == 0)
		r = __real_mountinfo_each(mountinfo, visit, userdata);
	return r != 0 || model.is_bare ? r : visit(&volume, userdata);
}

WRAPPED(void, rpc_call_fail, struct rpc_call *call, const struct error *err)
{
	answer.n++;
	answer.call = call;
	answer.status = err->status;
	(void)str_copy(answer.msg, sizeof(answer.msg), err->msg);
}

WRAPPED(void, rpc_call_reply, struct rpc_call *call, const ProtobufCMessage *response)
{
	answer.n++;
	answer.call = call;
	answer.status = STATUS_OK;
}

static bool process_runs(void)
{
	siginfo_t info = {0};

	return model.process > 0 &&
	       waitid(P_PID, (id_t)model.process, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
	       info.si_pid == 0;
}

WRAPPED(enum status, process_find, const char *proc, const char *id, int64_t *ret_pid, struct error *err)
{
	assert_string_equal(id, ID);
	if (model.found != STATUS_OK)
		return error_set(err, model.found, 0, "no processes");
	*ret_pid = process_runs() && !model.is_hidden ? model.process : 0;
	return STATUS_OK;
}

int __real_file_read(const char *path, size_t max, char **ret, size_t *ret_len);
WRAPPED(int, file_read, const char *path, size_t max, char **ret, size_t *ret_len)
{
	char unreadable[64];

	if (model.has_own_users && strstr(path, "/uid_map") && !str_starts_with(path, "/proc/self"))
		return (*ret = strdup("0 1000 1\n")) ? 0 : -ENOMEM;
	if (str_eq(path, "/etc/system-fips") && !model.has_fips_file)
		return -ENOENT;
	if (str_eq(path, "/etc/system-fips"))
		return (*ret = strdup("")) ? 0 : -ENOMEM;
	if (str_eq(path, "/proc/sys/crypto/fips_enabled") && !model.fips)
		return -ENOENT;
	if (str_eq(path, "/proc/sys/crypto/fips_enabled"))
		return !*model.fips ? -EACCES : (*ret = strdup(model.fips)) ? 0 : -ENOMEM;
	(void)snprintf(unreadable, sizeof(unreadable), "/proc/%d/%s", model.process,
		       model.unreadable ? model.unreadable : "");
	return str_eq(path, unreadable) ? -EFBIG : __real_file_read(path, max, ret, ret_len);
}

enum readback_verdict __real_readback_process(struct readback *readback,
					      const struct readback_process *process,
					      struct readback_fault *ret);
WRAPPED(enum readback_verdict, readback_process, struct readback *readback,
	const struct readback_process *process, struct readback_fault *ret)
{
	return model.runs_as_ordered || (model.is_begun && process_runs() && !model.is_begun_otherwise)
		       ? READBACK_SAME
		       : __real_readback_process(readback, process, ret);
}

ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);
WRAPPED(ssize_t, pwrite, int fd, const void *bytes, size_t n, off_t at)
{
	if (!model.is_disk_broken)
		return __real_pwrite(fd, bytes, n, at);
	errno = EIO;
	return -1;
}

static void begin_process(void)
{
	model.process = fork();
	assert_true(model.process >= 0);
	while (model.process == 0)
		(void)pause();
}

static void end_process(void)
{
	if (model.process <= 0)
		return;
	(void)kill(model.process, SIGKILL);
	(void)waitpid(model.process, NULL, 0);
	model.process = 0;
}

static const char *status_word(void)
{
	return model.status ? model.status : model.has_run && !model.is_begun ? "exited" : "created";
}

static json_t *describe(void)
{
	json_t *mount =
		json_array_get(json_object_get(json_object_get(model.body, "HostConfig"), "Mounts"), 0);
	json_t *config = json_copy(model.body);
	json_t *mounts =
		mount ? json_pack("[{s:s, s:O, s:O, s:b, s:s}]", "Type", "bind", "Source",
				  json_object_get(mount, "Source"), "Destination",
				  json_object_get(mount, "Target"), "RW", 1, "Propagation", "rprivate")
		      : json_array();

	(void)json_object_set_new(config, "User", json_string(model.user));

	return json_pack("{s:s, s:{s:s, s:s, s:i, s:i}, s:o, s:O, s:o}", "Id", ID, "State", "Status",
			 status_word(), "StartedAt",
			 !model.has_run	 ? "0001-01-01T00:00:00Z"
			 : model.started ? model.started
					 : "2026-01-01T00:00:00Z",
			 "ExitCode", model.has_run, "Pid", model.is_pid_unknown ? 0 : model.process, "Config",
			 config, "HostConfig", json_object_get(model.body, "HostConfig"), "Mounts", mounts);
}

static bool joins(const json_t *body)
{
	return json_object_get(json_object_get(body, "HostConfig"), "NetworkMode") &&
	       str_starts_with(
		       json_string_value(json_object_get(json_object_get(body, "HostConfig"), "NetworkMode")),
		       "container:");
}

/* The network's container, beside that of the task. */
static json_t *describe_network(void)
{
	json_t *labels = json_deep_copy(json_object_get(model.body, "Labels"));
	const char *namespace = model.has_run && model.network_later ? model.network_later : model.network_of;

	(void)json_object_set_new(labels, "dev.holdfast.task", json_string(""));
	(void)json_object_set_new(labels, "dev.holdfast.namespace", json_string(namespace ? namespace : ""));
	return json_pack("{s:s, s:{s:s, s:i}, s:{s:o}}", "Id", ID, "State", "Status", "running", "Pid",
			 model.process, "Config", "Labels", labels);
}

/* Podman's own description, or that of a path in the container. */
static json_t *describe_by_podman(void)
{
	json_t *json;

	if (str_starts_with(model.last, "HEAD "))
		return json_pack("{s:I}", "mode", model.is_dev_link ? 134218239LL : 2147484141LL);
	json = json_pack("{s:s, s:{}, s:[{s:s, s:b, s:[s, s]}]}", "Driver",
			 model.storage ? model.storage : "overlay", "Config", "Mounts", "Destination", "/vol",
			 "RW", 1, "Options", "nosuid", "nodev");
	if (model.n_stopped > 0 && model.n_stopped--)
		(void)json_object_set_new(json, "State", json_pack("{s:s}", "Status", "stopped"));
	if (model.has_no_flags)
		(void)json_object_del(json, "Mounts");
	if (model.is_begun || model.has_run) /* of its runtime */
		(void)json_object_set_new(json_object_get(json, "Config"), "Annotations",
					  json_pack("{s:s}", "io.kubernetes.cri-o.Created", "now"));
	if (model.storage && model.storage[0] == '\0')
		(void)json_object_del(json, "Driver");
	return json;
}

/* What the engine describes in answer to the last request, or NULL. */
static json_t *described(void)
{
	bool is_network = str_eq(model.last, "GET " NETWORK "/json");
	bool is_look = str_eq(model.last, "GET " NAME "/json") || is_network;

	if (!model.describes_nothing &&
	    (str_starts_with(model.last, "GET /libpod") || str_starts_with(model.last, "HEAD ")))
		return describe_by_podman();
	if (strstr(model.last, "/containers/create"))
		return json_pack("{s:s}", "Id", ID);
	if (is_look && model.body)
		return is_network && joins(model.body) ? describe_network() : describe();
	if (!str_starts_with(model.last, "GET /images/"))
		return NULL;
	if (model.variable)
		return json_pack("{s:{s:[s]}}", "Config", "Env", model.variable);
	if (model.cmd)
		return json_pack("{s:{s:[s]}}", "Config", "Cmd", model.cmd);
	if (model.image_work_dir)
		return json_pack("{s:{s:s}}", "Config", "WorkingDir", model.image_work_dir);
	return model.called ? json_pack("{s:[s]}", "RepoDigests", model.called) : NULL;
}

/* What the last request does. */
static void carry_out(void)
{
	if (model.meanwhile && str_starts_with(model.last, model.at))
		model.meanwhile();
	if (str_eq(model.last, BEGIN) && !model.is_start_refused && !model.is_begun &&
	    !model.begins_nothing) {
		begin_process();
		model.is_begun = true;
	}
	if (str_starts_with(model.last, "POST " NAME "/start") && !model.is_start_refused &&
	    !model.runs_nothing) {
		if (model.is_begun)
			end_process();
		model.is_begun = false;
		model.has_run = true;
	}
	if (str_starts_with(model.last, "POST /images/create") && model.pulled)
		model.called = model.pulled;
	if (str_starts_with(model.last, "POST /containers/" ID "/kill?signal=SIGKILL") &&
	    !model.ignores_kill && !model.is_begun && model.killed == STATUS_OK)
		(void)kill(model.process, SIGKILL);
	if (str_starts_with(model.last, "DELETE /containers/" ID) && !model.is_removal_refused) {
		if (model.is_begun)
			end_process();
		model.is_begun = false;
		assert_false(process_runs());
		if (model.starts_on_removal)
			begin_process();
		json_decref(model.body);
		model.body = NULL;
	}
}

/* @json described() before it was carried out */
static enum status status_of(const json_t *json, struct error *err)
{
	bool is_look = str_eq(model.last, "GET " NAME "/json") || str_eq(model.last, "GET " NETWORK "/json");
	bool is_missing = str_eq(model.last, "GET " OTHER "/json") || (is_look && !json) ||
			  (model.has_no_dev && strstr(model.last, "=%2Fdev")) ||
			  (model.has_no_image && str_starts_with(model.last, "GET /images/"));

	if (str_starts_with(model.last, "POST " NAME "/start") && model.is_start_late)
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0, "late");
	if (strstr(model.last, "/containers/create") && model.is_create_refused)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "no such folder");
	if (str_eq(model.last, BEGIN) && model.is_begin_late)
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0, "late");
	if ((str_starts_with(model.last, "POST " NAME "/start") || str_eq(model.last, BEGIN)) &&
	    model.is_start_refused)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "it lacks something");
	if (str_starts_with(model.last, "DELETE") && model.is_removal_refused)
		return error_set(err, STATUS_INTERNAL, 0, "busy");
	if (strstr(model.last, "/kill?") && model.is_begun)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "can only kill running containers");
	if (strstr(model.last, "/kill?") && model.killed != STATUS_OK)
		return error_set(err, model.killed, 0, "it cannot be killed");
	if (is_look && json && model.is_look_refused)
		return error_set(err, STATUS_INTERNAL, 0, "too large");
	return is_missing ? error_set(err, STATUS_NOT_FOUND, 0, "no such container") : STATUS_OK;
}

/* Answers the last request. */
static void answer_last(void)
{
	cleanup(json_decrefp) json_t *json = described();
	engine_done_fn *done = model.done;
	enum status status;
	struct error err;

	model.done = NULL;
	carry_out();
	status = status_of(json, &err);
	done(status, status == STATUS_OK ? NULL : &err, status == STATUS_OK ? json : NULL, model.userdata);
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
		   .namespace_ = TEXT("team-a"), .driver = TEXT("container"), .n_config = 1, .config = config,
		   .n_volumes = 1, .volumes = volumes, .restart = &restart);
	char path[FOLDER_SIZE + 16];
	size_t n = ORDER_KEY_SIZE;

	memset(&model, 0, sizeof(model));
	model.user = "1000";
	folder_make(f->folder);
	assert_true(sd_event_new(&f->driver.event) >= 0);
	f->settings = (struct settings){.cluster = "prod",
					.node_id = "node-1",
					.n_keys = 1,
					.publish_dir = PUBLISH,
					.engine_timeout_us = USEC_PER_SEC,
					.images = {"localhost/bb:1"},
					.users = {"image"},
					.networks = {"none"}};
	assert_int_equal(EVP_PKEY_get_raw_public_key(key, f->settings.keys[0], &n), 1);
	EVP_PKEY_free(key);
	(void)str_copy(f->settings.state_dir, sizeof(f->settings.state_dir), f->folder);
	f->driver = (struct driver){.event = f->driver.event,
				    .settings = &f->settings,
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
	leftovers_forget(&f->driver);
	task_free_all(&f->driver);
	nonces_free(f->driver.nonces);
	trail_free(f->driver.trail);
	json_decref(model.body);
	json_decref(model.spec);
	folder_remove(f->folder);
	(void)sd_event_unref(f->driver.event);
	end_process();
}

static void await_answer(struct fixture *f)
{
	while (answer.n == 0)
		if (model.done)
			answer_last();
		else
			assert_true(sd_event_run(f->driver.event, UNIT_LIMIT_US) > 0);
	assert_int_equal(answer.n, 1);
	assert_null(model.done);
}

static void destroy(struct fixture *f, bool force)
{
	const Holdfast__Driver__V1__DestroyTaskRequest request =
		PB(holdfast__driver__v1__destroy_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .force = force);

	memset(&answer, 0, sizeof(answer));
	model.asked[0] = '\0';
	task_destroy((struct rpc_call *)&answer, &request.base, &f->driver);
	await_answer(f);
}

static void stop(struct fixture *f, uint32_t timeout_ms)
{
	const Holdfast__Driver__V1__StopTaskRequest request =
		PB(holdfast__driver__v1__stop_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .timeout_ms = timeout_ms);

	memset(&answer, 0, sizeof(answer));
	model.asked[0] = '\0';
	task_stop((struct rpc_call *)&answer, &request.base, &f->driver);
	await_answer(f);
}

static void ask_task(struct fixture *f, bool is_restart)
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
}

static void order_task(struct fixture *f, bool is_restart)
{
	ask_task(f, is_restart);
	await_answer(f);
}

static void put_task(struct fixture *f, const Holdfast__Driver__V1__TaskConfig *task)
{
	f->n_body = holdfast__driver__v1__task_config__pack(task, f->body);
	order_digest(f->body, f->n_body, f->order.digest);
	assert_ok(order_sign(&f->order, seed, NULL));
}

static void be_podman(struct fixture *f, const char *version)
{
	(void)str_copy(f->driver.engine_name, sizeof(f->driver.engine_name), "Podman Engine");
	(void)str_copy(f->driver.engine_version, sizeof(f->driver.engine_version), version);
}

static void start_well(struct fixture *f)
{
	model.meanwhile = NULL;
	order_task(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked, "POST " NAME "/start");
	assert_null(strstr(model.asked, "DELETE"));
}

static void expect_trail(struct fixture *f, const char *part)
{
	cleanup_free char *trail = NULL;
	char path[FOLDER_SIZE + 16];

	(void)snprintf(path, sizeof(path), "%s/trail.log", f->folder);
	assert_int_equal(file_read(path, 1 << 16, &trail, NULL), 0);
	assert_contains(trail, part);
}

static void expect_refused(struct fixture *f, const char *reason)
{
	assert_msg(answer.status == STATUS_PERMISSION_DENIED, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
	expect_trail(f, reason);
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

/* A compromised agent has it published whenever that is checked, and not when its place is looked up. */
CASE(a_start_on_the_bare_folder_of_a_volume_is_refused)
{
	model.is_bare = true;
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "source is 'not there', not 'a mounted volume'");
	assert_null(strstr(model.asked, "/start"));
	assert_null(model.body);
	expect_trail(f, "reason=made code=FAILED_PRECONDITION field=source");
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

/* A task that runs; the driver has looked at it. */
static void start_running(struct fixture *f)
{
	start_well(f);
	begin_process();
	model.status = "running";
}

static void expect_kept(enum status status, const char *msg)
{
	assert_msg(answer.status == status, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, msg);
	assert_null(strstr(model.asked, "DELETE"));
	assert_true(process_runs());
}

/* The model asserts that the process has ended when the container is removed. */
static void expect_destroyed(struct fixture *f)
{
	destroy(f, true);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked, "POST /containers/" ID "/kill?signal=SIGKILL");
	assert_contains(model.asked, "DELETE /containers/" ID);
	assert_null(model.body);
}

static void expect_not_started(struct fixture *f, const char *msg, const char *reason)
{
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg, msg);
	assert_null(strstr(model.asked, "/start"));
	expect_trail(f, reason);
}

static void expect_old_runc(struct fixture *f)
{
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "cannot start tasks: runc 1.1.5 of the engine");
	assert_contains(answer.msg, "see old_runc in holdfast-driver-container.hcl(5)");
	assert_null(strstr(model.asked, "/start"));
	expect_trail(f, "reason=old_runc code=FAILED_PRECONDITION");
}

static void set_runc(struct fixture *f, const char *version, const char *old_runc)
{
	(void)str_copy(f->driver.old_runc, sizeof(f->driver.old_runc), version);
	(void)str_copy(f->settings.old_runc, sizeof(f->settings.old_runc), old_runc);
}

/* The same order starts it when root has installed another one, or accepts it. */
CASE(a_runc_that_is_not_fixed_starts_no_task)
{
	set_runc(f, "1.1.5", "refuse");
	order_task(f, false);
	expect_old_runc(f);
	assert_null(strstr(model.asked, "/containers/create"));
	set_runc(f, "1.1.5", "accept");
	start_well(f);
}

CASE(a_runc_that_is_not_fixed_restarts_no_task)
{
	start_well(f);
	set_runc(f, "1.1.5", "refuse");
	order_task(f, true);
	expect_old_runc(f);
	assert_non_null(model.body);
	destroy(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_null(model.body);
}

CASE(a_podman_that_is_too_old_starts_and_restarts_no_task)
{
	be_podman(f, "4.2.9");
	order_task(f, false);
	expect_not_started(f, "podman 4.2.9 is too old", "reason=old_podman");
	assert_null(strstr(model.asked, "/containers/create"));
	be_podman(f, "4.3.1");
	start_well(f);
	be_podman(f, "4.2.9");
	order_task(f, true);
	expect_not_started(f, "podman 4.2.9 is too old", "reason=old_podman");
	assert_non_null(model.body);
}

CASE(a_task_of_an_old_runc_that_runs_is_found_and_stopped)
{
	start_running(f);
	model.runs_as_ordered = true;
	set_runc(f, "1.1.5", "refuse");
	order_task(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	stop(f, 0);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	expect_destroyed(f);
}

CASE(a_task_has_at_most_the_time_to_stop_that_root_allows_now)
{
	start_running(f);
	f->settings.max_stop_timeout_us = 3600 * USEC_PER_SEC;
	stop(f, 0);
	assert_contains(model.asked, "POST " NAME "/stop?t=10\n");
	f->settings.max_stop_timeout_us = 5 * USEC_PER_SEC;
	stop(f, 0);
	assert_contains(model.asked, "POST " NAME "/stop?t=5\n");
	stop(f, 3600 * 1000);
	assert_contains(model.asked, "POST " NAME "/stop?t=5\n");
}

CASE(a_running_task_is_destroyed_after_its_process_has_ended)
{
	start_running(f);
	expect_destroyed(f);
}

CASE(a_task_that_is_described_as_exited_is_destroyed_after_its_process_has_ended)
{
	start_running(f);
	model.status = "exited";
	model.is_pid_unknown = true;
	expect_destroyed(f);
}

CASE(a_process_that_only_the_engine_shows_is_ended_too)
{
	start_running(f);
	model.status = "stopping";
	model.is_hidden = true;
	expect_destroyed(f);
}

CASE(a_task_whose_process_does_not_end_is_kept)
{
	start_running(f);
	model.ignores_kill = true;
	destroy(f, true);
	expect_kept(STATUS_DEADLINE_EXCEEDED, "has not ended after its kill");
}

CASE(a_task_that_the_engine_does_not_kill_is_kept)
{
	start_running(f);
	model.killed = STATUS_FAILED_PRECONDITION;
	destroy(f, true);
	expect_kept(STATUS_FAILED_PRECONDITION, "cannot be killed");
}

/* podman forgets a container that is being stopped. */
CASE(a_task_that_the_engine_forgets_before_the_kill_is_gone_when_its_process_has_ended)
{
	start_running(f);
	model.killed = STATUS_NOT_FOUND;
	destroy(f, true);
	expect_kept(STATUS_DEADLINE_EXCEEDED, "has not ended");
	model.at = "POST /containers/" ID "/kill";
	model.meanwhile = end_process;
	expect_destroyed(f);
}

/* The agent would take NOT_FOUND for success. */
CASE(a_failed_removal_is_never_answered_with_not_found)
{
	start_running(f);
	model.found = STATUS_NOT_FOUND;
	destroy(f, true);
	expect_kept(STATUS_UNAVAILABLE, "no processes");
	json_decref(model.body);
	model.body = NULL;
	destroy(f, true);
	expect_kept(STATUS_UNAVAILABLE, "no processes");
}

CASE(a_task_that_the_kernel_shows_is_not_destroyed_without_force)
{
	start_running(f);
	model.status = "exited";
	destroy(f, false);
	expect_kept(STATUS_FAILED_PRECONDITION, "runs");
}

CASE(a_container_that_the_engine_forgot_is_gone_when_its_process_has_ended)
{
	start_running(f);
	json_decref(model.body);
	model.body = NULL;
	destroy(f, true);
	expect_kept(STATUS_UNAVAILABLE, "runs on this machine: end it");
	end_process();
	destroy(f, true);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
}

CASE(a_process_that_begins_during_the_removal_is_found)
{
	start_well(f);
	model.starts_on_removal = true;
	destroy(f, true);
	assert_msg(answer.status == STATUS_UNAVAILABLE, "%s%s", model.asked, answer.msg);
	assert_true(process_runs());
	destroy(f, true);
	assert_msg(answer.status == STATUS_UNAVAILABLE, "%s%s", model.asked, answer.msg);
}

CASE(a_task_that_the_kernel_shows_is_not_restarted)
{
	start_running(f);
	model.status = "exited";
	order_task(f, true);
	expect_kept(STATUS_UNAVAILABLE, "its process runs");
	assert_null(strstr(model.asked, "/start"));
}

CASE(a_refused_container_is_removed_after_its_process_has_ended)
{
	be_podman(f, "4.3.1");
	model.describes_nothing = true; /* not as ordered */
	model.at = "GET /libpod";
	model.meanwhile = begin_process;
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked, "POST /containers/" ID "/kill?signal=SIGKILL");
	assert_null(model.body);
	assert_contains(answer.msg, "the container is removed");
	expect_trail(f, "removed=1");
}

/* The flags of its mounts are those that podman read when it made the container. */
CASE(a_restart_of_podman_is_compared_with_its_own_description)
{
	be_podman(f, "4.3.1");
	start_well(f);
	model.has_no_flags = true;
	order_task(f, true);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "mount_flags is 'rw', not 'rw,nosuid,nodev'");
	assert_null(strstr(model.asked, "/start"));
}

static void begin_running(void)
{
	begin_process();
	model.status = "running";
}

/* Nothing says that it has ended, and nothing that it is as ordered. */
CASE(a_process_that_cannot_be_read_whole_is_not_as_ordered)
{
	model.unreadable = "status";
	model.at = "POST " NAME "/start";
	model.meanwhile = begin_running;
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "process is 'not readable whole'");
	assert_null(model.body);
}

/* There it can show mounts that it made itself. */
CASE(a_process_with_users_of_its_own_is_not_as_ordered)
{
	model.has_own_users = true;
	model.at = "POST " NAME "/start";
	model.meanwhile = begin_running;
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "user_namespace is 'another one'");
	assert_null(model.body);
}

/* The order has one attempt, of which the driver allows two: the agent's intervals are its own. */
CASE(a_container_that_is_not_removed_keeps_its_count_of_restarts)
{
	start_well(f);
	model.at = "POST " NAME "/start";
	model.meanwhile = begin_running; /* with other mounts than the order */
	model.ignores_kill = true;
	for (int i = 0; i < 2; i++) {
		order_task(f, true);
		expect_kept(STATUS_FAILED_PRECONDITION, "could not be removed and may run");
		end_process();
		model.status = NULL;
	}
	order_task(f, true);
	assert_msg(answer.status == STATUS_PERMISSION_DENIED, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "was restarted 2 times");
	assert_null(strstr(model.asked, "/start"));
	destroy(f, true);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_true(LIST_EMPTY(&f->driver.restarts));
}

CASE(a_task_whose_removal_failed_is_not_restarted)
{
	start_running(f);
	model.ignores_kill = true;
	destroy(f, true);
	expect_kept(STATUS_DEADLINE_EXCEEDED, "has not ended after its kill");
	end_process();
	model.status = NULL;
	order_task(f, true);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "DestroyTask");
	assert_string_equal(model.asked, "");
	expect_trail(f, "reason=ended");
}

/* A compromised agent has kept the order. */
CASE(a_task_that_was_made_and_whose_removal_failed_is_not_started)
{
	ask_task(f, false);
	while (!model.body)
		answer_last();
	task_free_all(&f->driver);
	model.done = NULL;
	model.is_removal_refused = true;
	destroy(f, true);
	assert_int_equal(answer.status, STATUS_INTERNAL);
	assert_non_null(model.body);
	model.is_removal_refused = false;
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
	assert_null(model.body);
	expect_trail(f, "reason=ended");
}

CASE(a_refused_container_that_is_not_removed_is_on_record_as_that)
{
	be_podman(f, "4.3.1");
	model.describes_nothing = true;
	model.at = "GET /libpod";
	model.meanwhile = begin_process;
	model.ignores_kill = true;
	order_task(f, false);
	expect_kept(STATUS_FAILED_PRECONDITION, "could not be removed and may run");
	expect_trail(f, "removed=0");
}

CASE(an_image_with_a_link_for_its_devices_starts_nothing)
{
	be_podman(f, "4.3.1");
	model.is_dev_link = true;
	order_task(f, false);
	expect_not_started(f, "a link or a file at /dev", "reason=dev");
	assert_null(model.body);
	model.is_dev_link = false;
	model.has_no_dev = true;
	start_well(f);
}

static void expect_storage_refused(struct fixture *f, const char *storage)
{
	model.storage = storage;
	order_task(f, true);
	expect_not_started(f, "is not started again: podman keeps its root by the storage driver '",
			   "reason=storage code=FAILED_PRECONDITION");
	assert_contains(answer.msg, storage);
	assert_null(strstr(model.asked, "HEAD ")); /* by which podman follows the paths, too */
	assert_non_null(model.body);
}

CASE(podman_restarts_no_container_whose_root_is_a_folder_of_the_host)
{
	be_podman(f, "4.3.1");
	model.storage = "vfs";
	start_well(f); /* nothing has run in it */
	expect_storage_refused(f, "vfs");
	model.storage = "overlay";
	order_task(f, true);
	assert_contains(model.asked, "POST " NAME "/start");
}

CASE(podman_restarts_no_container_whose_storage_it_does_not_describe)
{
	be_podman(f, "4.3.1");
	start_well(f);
	expect_storage_refused(f, "overlay2");
	expect_storage_refused(f, "");
}

static void expect_begun_and_started(void)
{
	assert_contains(model.asked, "HEAD /containers/" ID "/archive?path=%2Fdev\n" BEGIN "\nGET " NAME
				     "/json\nPOST " NAME "/start");
}

static void expect_fips_refused(struct fixture *f)
{
	order_task(f, true);
	expect_not_started(f, "is not started again: this machine is in FIPS mode",
			   "reason=fips code=FAILED_PRECONDITION");
	assert_null(strstr(model.asked, "HEAD "));
	assert_non_null(model.body);
}

CASE(podman_restarts_no_task_on_a_machine_in_fips_mode)
{
	be_podman(f, "4.3.1");
	model.has_fips_file = true;
	start_well(f); /* nothing has run in it */
	expect_fips_refused(f);
	model.has_fips_file = false;
	model.fips = "0\n";
	order_task(f, true);
	expect_begun_and_started();
}

CASE(podman_restarts_no_task_of_a_kernel_that_may_be_in_fips_mode)
{
	be_podman(f, "5.4.2");
	start_well(f);
	model.fips = "1\n";
	expect_fips_refused(f);
	model.fips = ""; /* it cannot be read */
	expect_fips_refused(f);
}

/* As podman shows it after a restart that failed. */
CASE(podman_starts_no_container_again_whose_root_is_a_folder_of_the_host)
{
	be_podman(f, "4.3.1");
	start_well(f);
	model.has_run = false;
	model.storage = "vfs";
	order_task(f, false);
	expect_not_started(f, "by the storage driver 'vfs'", "reason=storage code=FAILED_PRECONDITION");
	assert_null(model.body);
}

/* By its Docker API podman makes the working folder behind a link of the image, as root; by its own also one
 * that the request leaves to the image. */
CASE(podman_makes_no_working_folder)
{
	be_podman(f, "4.3.1");
	model.image_work_dir = "/srv/app";
	start_well(f);
	assert_contains(model.asked, "POST /libpod/containers/create?name=holdfast-" ALLOC "-web\n");
	expect_begun_and_started();
	assert_string_equal(json_string_value(json_object_get(model.spec, "work_dir")), "/srv/app");
	assert_true(json_is_false(json_object_get(model.spec, "create_working_dir")));
	order_task(f, true);
	expect_begun_and_started();
	assert_null(strstr(model.asked, "create"));
}

/* Its mounts are made, and nothing of the tenant's runs in them. */
CASE(podman_starts_nothing_whose_process_is_not_as_ordered)
{
	be_podman(f, "4.3.1");
	model.is_begun_otherwise = true;
	order_task(f, false);
	expect_not_started(f, "; the container is removed", "removed=1");
	assert_contains(model.asked, BEGIN);
	assert_null(model.body);
	assert_int_equal(model.process, 0);
}

CASE(podman_restarts_nothing_whose_process_is_not_as_ordered)
{
	be_podman(f, "4.3.1");
	start_well(f);
	model.is_begun_otherwise = true;
	order_task(f, true);
	expect_not_started(f, "; the container is removed", "removed=1");
	assert_null(model.body);
}

static void lose_process(void)
{
	(void)kill(model.process, SIGKILL);
	while (process_runs())
		continue;
}

CASE(podman_starts_nothing_whose_process_has_ended_before)
{
	be_podman(f, "4.3.1");
	ask_task(f, false);
	while (!model.is_begun)
		answer_last();
	model.at = "GET " NAME "/json";
	model.meanwhile = lose_process;
	await_answer(f);
	expect_not_started(f, "process is 'not', not 'readable'", "removed=1");
	assert_null(model.body);
}

CASE(podman_starts_nothing_without_a_process_before)
{
	be_podman(f, "4.3.1");
	model.begins_nothing = true;
	order_task(f, false);
	assert_msg(answer.status == STATUS_UNAVAILABLE, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
	model.begins_nothing = false;
	start_well(f);
	model.begins_nothing = true;
	order_task(f, true);
	assert_msg(answer.status == STATUS_UNAVAILABLE, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
}

CASE(a_restart_waits_until_podman_has_cleaned_up)
{
	be_podman(f, "4.3.1");
	start_well(f);
	model.n_stopped = 3;
	model.at = "HEAD ";
	order_task(f, true);
	assert_int_equal(model.n_stopped, 0);
	expect_begun_and_started();
	model.n_stopped = 1000;
	order_task(f, true);
	assert_msg(answer.status == STATUS_UNAVAILABLE, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "podman has not cleaned up");
	assert_null(strstr(model.asked, BEGIN));
	assert_non_null(model.body);
}

static void lose_process(void);

CASE(a_restart_whose_process_ends_before_its_program_may_be_repeated)
{
	be_podman(f, "4.3.1");
	start_well(f);
	ask_task(f, true);
	while (!model.is_begun)
		answer_last();
	model.at = "GET " NAME "/json";
	model.meanwhile = lose_process;
	await_answer(f);
	assert_msg(answer.status == STATUS_UNAVAILABLE, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "ended before its program began");
	assert_non_null(model.body);
}

static void run_anew(void)
{
	model.started = "2026-01-01T00:00:05Z";
}

CASE(a_process_that_waits_after_its_start_is_an_error)
{
	be_podman(f, "4.3.1");
	model.runs_nothing = true;
	order_task(f, false);
	assert_msg(answer.status == STATUS_UNAVAILABLE, "%s%s", model.asked, answer.msg);
	assert_true(model.is_begun);
}

static void become_root(void)
{
	model.user = "";
}

CASE(a_container_that_podman_changes_with_its_process_is_not_made_again)
{
	be_podman(f, "4.3.1");
	ask_task(f, false);
	while (!model.body)
		answer_last();
	task_free_all(&f->driver);
	model.done = NULL;
	model.at = BEGIN;
	model.meanwhile = become_root;
	order_task(f, false);
	expect_not_started(f, "otherwise than ordered: user is", "reason=made");
	assert_null(strstr(model.asked, "/create"));
	assert_null(model.body);
}

/* The driver ended between both, or podman was late. */
CASE(a_start_that_podman_has_begun_is_continued)
{
	be_podman(f, "4.3.1");
	model.is_begin_late = true;
	order_task(f, false);
	assert_int_equal(answer.status, STATUS_DEADLINE_EXCEEDED);
	assert_true(model.is_begun);
	model.is_begin_late = false;
	start_well(f);
	expect_begun_and_started();
	model.is_begin_late = true;
	order_task(f, true);
	assert_int_equal(answer.status, STATUS_DEADLINE_EXCEEDED);
	assert_true(model.is_begun);
	model.is_begin_late = false;
	model.at = "POST " NAME "/start";
	model.meanwhile = run_anew;
	order_task(f, true);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	expect_begun_and_started();
}

/* Podman kills no process that waits. */
CASE(a_task_that_podman_has_begun_is_destroyed)
{
	be_podman(f, "4.3.1");
	model.is_begin_late = true;
	order_task(f, false);
	assert_true(model.is_begun);
	destroy(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_null(model.body);
}

/* A driver before an upgrade made it by the Docker API, and its image may have any label but the order. */
CASE(podman_starts_no_container_again_that_may_have_its_folder_made)
{
	be_podman(f, "4.3.1");
	start_well(f);
	(void)json_object_set_new(json_object_get(model.body, "Labels"), "dev.holdfast.libpod",
				  json_string("1"));
	order_task(f, true);
	expect_not_started(f, "an earlier version of the driver made its container. Next:", "reason=differs");
	assert_non_null(model.body);
	model.has_run = false; /* as podman shows it after a restart that failed */
	order_task(f, false);
	expect_not_started(f, "an earlier version of the driver made its container. Next:", "reason=differs");
	assert_null(model.body);
}

static void set_label(const char *key, const char *value)
{
	(void)json_object_set_new(json_object_get(model.body, "Labels"), key, json_string(value));
}

static void lose_label(void)
{
	(void)json_object_del(json_object_get(model.body, "Labels"), "dev.holdfast.libpod");
}

CASE(another_label_is_no_sign_of_an_earlier_driver)
{
	start_well(f);
	set_label("dev.holdfast.health", "1");
	order_task(f, true); /* with Docker */
	expect_not_started(f, "its container is not as ordered now: labels is '1'", "reason=differs");
	be_podman(f, "4.3.1");
	set_label("dev.holdfast.libpod", "1");
	order_task(f, true);
	expect_not_started(f, "its container is not as ordered now: labels is '1'", "reason=differs");
	model.has_run = false;
	order_task(f, false);
	expect_not_started(f, "otherwise than ordered: labels is '1'", "reason=made");
	assert_null(model.body);
}

CASE(a_running_task_of_an_earlier_driver_is_compared)
{
	be_podman(f, "4.3.1");
	start_running(f);
	lose_label();
	order_task(f, false);
	expect_not_started(f, "otherwise than ordered: labels is ''", "reason=made");
	assert_null(model.body);
}

/* An earlier driver does not make the container of this call. */
CASE(a_container_that_lost_the_label_of_its_order_is_not_an_earlier_drivers)
{
	be_podman(f, "4.3.1");
	model.at = "POST /libpod/containers/create";
	model.meanwhile = lose_label;
	order_task(f, false);
	expect_not_started(f, "otherwise than ordered: labels is ''", "reason=made");
	assert_null(model.body);
}

CASE(a_container_that_an_earlier_driver_made_and_never_started_is_made_again)
{
	be_podman(f, "4.3.1");
	ask_task(f, false);
	while (!model.body)
		answer_last();
	task_free_all(&f->driver);
	model.done = NULL;
	(void)json_object_del(json_object_get(model.body, "Labels"), "dev.holdfast.libpod");
	order_task(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked, "DELETE /containers/" ID);
	assert_contains(model.asked, "POST /libpod/containers/create");
}

CASE(a_start_that_podman_refuses_has_a_next_step)
{
	be_podman(f, "4.3.1");
	model.is_start_refused = true;
	order_task(f, false);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg,
			"cannot start task 'web' of allocation " ALLOC ": it lacks something. Next: ");
	assert_contains(answer.msg, "work_dir");
}

/* crun would make folders in it. */
CASE(podman_gives_no_path_of_the_host_that_is_not_read_only)
{
	Holdfast__Driver__V1__ConfigValue image =
		PB(holdfast__driver__v1__config_value, .key = TEXT("image"), .text = TEXT("localhost/bb:1"));
	Holdfast__Driver__V1__KeyValue pair =
		PB(holdfast__driver__v1__key_value, .key = TEXT("/usr/bin"), .value = TEXT("/host"));
	Holdfast__Driver__V1__KeyValue *map[] = {&pair};
	Holdfast__Driver__V1__ConfigValue paths =
		PB(holdfast__driver__v1__config_value, .key = TEXT("host_paths"), .n_map = 1, .map = map);
	Holdfast__Driver__V1__ConfigValue *config[] = {&image, &paths};
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .driver = TEXT("container"), .n_config = 2, .config = config);

	(void)str_copy(f->settings.host_paths[0], sizeof(f->settings.host_paths[0]), "/usr/bin");
	(void)str_copy(f->settings.stage_dir, sizeof(f->settings.stage_dir), "/run/holdfast-mount/stage");
	put_task(f, &task);
	be_podman(f, "4.3.1");
	order_task(f, false);
	expect_not_started(f, "podman gives no task host path /usr/bin", "reason=host_paths");
	assert_string_equal(model.asked, "");
	(void)str_copy(f->driver.engine_name, sizeof(f->driver.engine_name), "Engine");
	order_task(f, false);
	assert_contains(model.asked, "/containers/create");
}

/* podman gives it the value of its own. */
CASE(an_image_with_a_variable_without_a_value_is_refused)
{
	be_podman(f, "4.3.1");
	model.variable = "*";
	order_task(f, false);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg, "a variable without a value");
	assert_null(strstr(model.asked, "/containers/create"));
	model.variable = "A=";
	start_well(f);
}

/* Both engines take the image's CMD then. */
CASE(an_empty_list_that_the_cmd_of_the_image_would_replace_is_refused)
{
	Holdfast__Driver__V1__ConfigValue image =
		PB(holdfast__driver__v1__config_value, .key = TEXT("image"), .text = TEXT("localhost/bb:1"));
	Holdfast__Driver__V1__ConfigValue args = PB(holdfast__driver__v1__config_value, .key = TEXT("args"));
	Holdfast__Driver__V1__ConfigValue *config[] = {&image, &args};
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .driver = TEXT("container"), .n_config = 2, .config = config);

	model.cmd = "/bin/serve";
	put_task(f, &task);
	order_task(f, false);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg, "its command or args is an empty list");
	assert_null(strstr(model.asked, "/containers/create"));
	model.cmd = NULL;
	order_task(f, false);
	assert_contains(model.asked, "/containers/create");
}

CASE(an_image_that_would_run_as_root_is_not_started)
{
	model.user = "";
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
	assert_null(model.body);
	expect_trail(f, "field=user");
}

CASE(a_task_that_ended_before_it_was_compared_is_on_record)
{
	start_well(f);
	expect_trail(f, "res=success code=OK compared=0");
}

CASE(a_container_that_cannot_be_looked_at_is_not_started_and_leaves_nothing)
{
	model.is_look_refused = true;
	order_task(f, false);
	assert_msg(answer.status == STATUS_INTERNAL, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
	assert_null(model.body);
}

/* The engine lists 32 containers at once, each of an earlier boot. */
static json_t *list_page(size_t n, size_t first)
{
	json_t *page = json_array();

	for (size_t i = first; i < first + n; i++)
		(void)json_array_append_new(
			page, json_pack("{s:o, s:[o], s:{s:s, s:o, s:s}}", "Id", json_sprintf("%012zx", i),
					"Names", json_sprintf("/holdfast-" ALLOC "-t%zu", i), "Labels",
					"dev.holdfast.alloc", ALLOC, "dev.holdfast.task",
					json_sprintf("t%zu", i), "dev.holdfast.boot", "another"));
	return page;
}

static void answer_page(size_t n, size_t first)
{
	cleanup(json_decrefp) json_t *page = list_page(n, first);
	engine_done_fn *done = model.done;

	model.done = NULL;
	model.asked[0] = '\0';
	done(STATUS_OK, NULL, page, model.userdata);
}

CASE(leftovers_are_removed_after_the_last_page_that_lists_them)
{
	leftovers_clear(&f->driver);
	assert_contains(model.last, "GET /containers/json?all=1&limit=32");
	assert_null(strstr(model.last, "before"));
	leftovers_clear(&f->driver); /* once at a time */
	answer_page(32, 0);
	assert_contains(model.last, "%22before%22%3A%5B%2200000000001f%22%5D");
	assert_int_equal(f->driver.n_operations, 0);
	assert_int_equal(f->driver.n_operations, 0);
	answer_page(3, 32);
	assert_contains(model.last, "GET /containers/holdfast-" ALLOC "-t31/"); /* the newest are first */
}

/* The engine no longer has the containers, or does not answer. */
static void answer_looks(enum status status)
{
	size_t n = model.n_looks;
	struct error err;

	for (size_t i = 0; i < n; i++)
		model.looks[i].done(error_set(&err, status, 0, "gone"), &err, NULL, model.looks[i].userdata);
	model.n_looks = 0;
}

CASE(leftovers_are_removed_some_at_a_time)
{
	size_t n_removed = 0;

	leftovers_clear(&f->driver);
	answer_page(32, 0);
	answer_page(32, 32);
	answer_page(6, 64);
	for (int turn = 0; f->driver.n_operations > 0; turn++) {
		assert_in_range(f->driver.n_operations, 1, 32);
		n_removed += f->driver.n_operations;
		assert_true(sd_event_run(f->driver.event, USEC_PER_SEC) >= 0); /* all are in progress */
		assert_in_range(f->driver.n_operations, 1, 32);
		answer_looks(turn == 0 ? STATUS_INTERNAL : STATUS_NOT_FOUND); /* one failed is not the last */
		(void)sd_event_run(f->driver.event, USEC_PER_SEC);
	}
	assert_int_equal(n_removed, 70);
	assert_null(f->driver.leftovers);
}

CASE(leftovers_are_listed_again_if_the_engine_was_away_during_their_removal)
{
	leftovers_clear(&f->driver);
	answer_page(32, 0);
	answer_page(3, 32);
	assert_int_equal(f->driver.n_operations, 32);
	answer_looks(STATUS_UNAVAILABLE);
	leftovers_clear(&f->driver);
	assert_contains(model.last, "GET /containers/json?all=1&limit=32");
	answer_page(31, 0);
	assert_int_equal(f->driver.n_operations, 31);
	assert_null(f->driver.leftovers);
}

static size_t count_pending(const struct fixture *f)
{
	char path[FOLDER_SIZE + 64];

	(void)snprintf(path, sizeof(path), "%s/pending/holdfast-" ALLOC "-web", f->folder);
	return access(path, F_OK) == 0;
}

static void begin_next_run(struct fixture *f)
{
	task_free_all(&f->driver);
	model.done = NULL;
	assert_ok(task_recall_all(&f->driver, NULL));
}

/* Its file has only the id of its container. */
static void expect_settled(struct fixture *f)
{
	assert_int_equal(count_pending(f), 1);
	begin_next_run(f);
	assert_int_equal(f->driver.n_operations, 0);
}

/* Until the driver does nothing more. */
static void await_rest(struct fixture *f)
{
	uint64_t end_us = clock_monotonic_us() + 600 * USEC_PER_SEC;

	model.asked[0] = '\0';
	while (f->driver.n_operations > 0 && clock_monotonic_us() < end_us)
		if (model.done)
			answer_last();
		else
			(void)sd_event_run(f->driver.event, USEC_PER_SEC);
}

static void start_late(struct fixture *f)
{
	model.is_start_late = true;
	order_task(f, false);
	assert_msg(answer.status == STATUS_DEADLINE_EXCEEDED, "%s%s", model.asked, answer.msg);
	assert_int_equal(count_pending(f), 1);
	assert_int_equal(f->driver.n_operations, 1);
}

typedef void unary_fn(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);

static void expect_foreign(struct fixture *f, unary_fn *method, const ProtobufCMessage *request)
{
	memset(&answer, 0, sizeof(answer));
	model.asked[0] = '\0';
	method((struct rpc_call *)&answer, request, &f->driver);
	await_answer(f);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_string_equal(model.asked, "GET " NAME "/json\n");
}

/* Two nodes may share an engine. */
CASE(a_container_of_another_node_is_left_alone)
{
	const Holdfast__Driver__V1__WaitTaskRequest wait =
		PB(holdfast__driver__v1__wait_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"));
	const Holdfast__Driver__V1__InspectTaskRequest inspect =
		PB(holdfast__driver__v1__inspect_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"));
	const Holdfast__Driver__V1__SignalTaskRequest kill =
		PB(holdfast__driver__v1__signal_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .signal = TEXT("SIGKILL"));
	const Holdfast__Driver__V1__StopTaskRequest stop =
		PB(holdfast__driver__v1__stop_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"));
	const Holdfast__Driver__V1__DestroyTaskRequest destroy =
		PB(holdfast__driver__v1__destroy_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .force = true);

	order_task(f, false);
	f->driver.waits_max = 1;
	model.status = "running";
	assert_int_equal(json_object_set_new(json_object_get(model.body, "Labels"), "dev.holdfast.node",
					     json_string("prod/node-2")),
			 0);
	expect_foreign(f, task_wait, &wait.base);
	expect_foreign(f, task_inspect, &inspect.base);
	expect_foreign(f, task_signal, &kill.base);
	expect_foreign(f, task_stop, &stop.base);
	expect_foreign(f, task_destroy, &destroy.base);
	order_task(f, true);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_non_null(model.body);
}

/* The child of the test has other mounts than the order. */
static void expect_compared_and_removed(struct fixture *f)
{
	await_rest(f);
	assert_contains(model.asked, "POST /containers/" ID "/kill?signal=SIGKILL");
	assert_null(model.body);
	assert_false(process_runs());
	assert_int_equal(count_pending(f), 0);
	expect_trail(f, "reason=made");
	assert_int_equal(f->driver.n_operations, 0);
}

CASE(a_start_that_is_answered_late_is_compared_when_it_runs)
{
	start_late(f);
	model.has_run = false; /* the engine still copies the image's files */
	model.status = "created";
	for (int i = 0; i < 100; i++)
		if (model.done)
			answer_last();
		else
			(void)sd_event_run(f->driver.event, USEC_PER_SEC);
	assert_int_equal(f->driver.n_operations, 1);
	begin_process();
	model.status = "running";
	expect_compared_and_removed(f);
}

CASE(a_start_that_the_last_run_of_the_driver_did_not_compare_is_compared)
{
	start_late(f);
	task_free_all(&f->driver);
	model.done = NULL;
	assert_int_equal(count_pending(f), 1);
	begin_process();
	model.status = "running";
	assert_ok(task_recall_all(&f->driver, NULL));
	expect_compared_and_removed(f);
}

CASE(a_driver_that_cannot_list_the_starts_of_its_last_run_does_not_start)
{
	start_late(f);
	task_free_all(&f->driver);
	model.done = NULL;
	folder_error = EIO;
	assert_int_equal(task_recall_all(&f->driver, NULL), status_from_errno(EIO));
	folder_error = 0;
	task_free_all(&f->driver);
	model.done = NULL;
	assert_int_equal(count_pending(f), 1);
	begin_process();
	model.status = "running";
	assert_ok(task_recall_all(&f->driver, NULL));
	expect_compared_and_removed(f);
}

CASE(a_start_that_is_recalled_is_compared_also_if_its_volume_is_not_mounted)
{
	start_late(f);
	task_free_all(&f->driver);
	model.done = NULL;
	begin_process();
	model.status = "running";
	model.is_bare = true;
	assert_ok(task_recall_all(&f->driver, NULL));
	expect_compared_and_removed(f);
}

CASE(a_late_start_whose_task_has_ended_is_over)
{
	start_late(f);
	await_rest(f);
	assert_int_equal(f->driver.n_operations, 0);
	expect_trail(f, "res=failed code=ABORTED");
	expect_settled(f);
}

CASE(a_late_start_that_another_order_follows_leaves_the_file_of_that)
{
	start_late(f);
	(void)json_object_set_new(json_object_get(model.body, "Labels"), "dev.holdfast.order",
				  json_string("00000000000000000000000000000000"));
	await_rest(f);
	expect_trail(f, "res=failed code=ABORTED");
	begin_next_run(f);
	assert_int_equal(f->driver.n_operations, 1);
}

CASE(a_late_start_whose_container_is_gone_leaves_no_file)
{
	start_late(f);
	json_decref(model.body);
	model.body = NULL;
	await_rest(f);
	assert_int_equal(count_pending(f), 0);
}

static void run_once(struct fixture *f)
{
	if (model.done)
		answer_last();
	else
		(void)sd_event_run(f->driver.event, USEC_PER_SEC);
}

/* The first one ends; the other's order stays. */
static void expect_second_follower(struct fixture *f)
{
	assert_int_equal(f->driver.n_operations, 2);
	while (f->driver.n_operations > 1)
		run_once(f);
	assert_int_equal(count_pending(f), 1);
	begin_next_run(f);
	assert_int_equal(f->driver.n_operations, 1);
}

/* The engine has not answered the restart yet when the first start is found to have ended. */
CASE(a_late_start_that_ends_leaves_the_file_of_the_restart)
{
	start_late(f);
	ask_task(f, true);
	while (!model.done || !str_starts_with(model.last, "POST " NAME "/start"))
		run_once(f);
	model.done = NULL;
	expect_second_follower(f);
}

/* Each of both compares with the time of its own start. */
CASE(a_late_start_that_ends_leaves_the_file_of_a_restart_that_failed)
{
	start_late(f);
	order_task(f, true);
	assert_int_equal(answer.status, STATUS_DEADLINE_EXCEEDED);
	expect_second_follower(f);
}

CASE(a_late_start_of_another_boot_is_over)
{
	start_late(f);
	task_free_all(&f->driver);
	model.done = NULL;
	f->driver.boot_id[0]++;
	assert_ok(task_recall_all(&f->driver, NULL));
	assert_int_equal(f->driver.n_operations, 0);
	assert_int_equal(count_pending(f), 0);
}

CASE(a_late_start_does_not_keep_its_task_from_being_destroyed)
{
	start_late(f);
	begin_process();
	model.status = "running";
	expect_destroyed(f);
	await_rest(f);
	assert_int_equal(count_pending(f), 0);
}

CASE(a_start_that_is_answered_is_not_followed)
{
	start_well(f);
	expect_settled(f);
}

/* --- a destroyed task whose container stays, and whose end the list of orders has forgotten --- */

/* Orders that expire no later than this one count as used, as after many ends or in a full list. */
static void forget_orders(struct fixture *f)
{
	char path[FOLDER_SIZE + 16], text[128];

	(void)snprintf(path, sizeof(path), "%s/orders", f->folder);
	(void)snprintf(text, sizeof(text), BOOT "\nforgotten - - %" PRIu64 "\n", f->order.not_after_ms);
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
	nonces_free(f->driver.nonces);
	assert_ok(nonces_open(path, BOOT, &f->driver.nonces, NULL));
}

static void expect_ended(struct fixture *f, bool is_restart)
{
	order_task(f, is_restart);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_null(strstr(model.asked, "/start"));
	expect_trail(f, "reason=ended");
}

/* The process ends later. */
static void fail_kill(struct fixture *f)
{
	model.ignores_kill = true;
	destroy(f, true);
	expect_kept(STATUS_DEADLINE_EXCEEDED, "has not ended after its kill");
	end_process();
	model.status = NULL;
}

static void fail_removal(struct fixture *f)
{
	model.is_removal_refused = true;
	destroy(f, true);
	assert_int_equal(answer.status, STATUS_INTERNAL);
	assert_contains(model.asked, "DELETE /containers/" ID);
	model.is_removal_refused = false;
}

/* The engine has made the container, and has not started it. */
static void start_never(struct fixture *f)
{
	start_late(f);
	model.has_run = model.is_start_late = false;
	model.status = "created";
}

CASE(a_destroyed_task_whose_end_is_forgotten_is_not_restarted)
{
	start_running(f);
	fail_kill(f);
	forget_orders(f);
	expect_ended(f, true);
	begin_next_run(f);
	expect_ended(f, true);
	assert_non_null(model.body);
}

CASE(a_late_start_that_ends_leaves_the_end_of_its_task)
{
	start_late(f);
	begin_running();
	fail_kill(f);
	await_rest(f);
	assert_int_equal(f->driver.n_operations, 0);
	forget_orders(f);
	expect_ended(f, true);
}

CASE(a_destroyed_task_whose_start_failed_is_not_started_when_its_end_is_forgotten)
{
	start_never(f);
	fail_removal(f);
	begin_next_run(f);
	forget_orders(f);
	model.done = NULL;
	expect_ended(f, false);
}

CASE(a_destroyed_task_that_was_only_made_is_not_started_when_its_end_is_forgotten)
{
	ask_task(f, false);
	while (!model.body)
		answer_last();
	begin_next_run(f);
	fail_removal(f);
	assert_int_equal(count_pending(f), 0);
	forget_orders(f);
	expect_ended(f, false);
}

/* The disk took neither of two records of the order. */
CASE(a_destroyed_task_whose_order_counts_as_begun_is_not_started)
{
	char path[FOLDER_SIZE + 16];

	start_never(f);
	fail_removal(f);
	begin_next_run(f);
	(void)snprintf(path, sizeof(path), "%s/orders", f->folder);
	assert_int_equal(file_write_atomic(path, 0600, BOOT "\n", strlen(BOOT "\n")), 0);
	nonces_free(f->driver.nonces);
	assert_ok(nonces_open(path, BOOT, &f->driver.nonces, NULL));
	assert_ok(nonces_begin(f->driver.nonces, &f->order, 0, NULL));
	model.done = NULL;
	expect_ended(f, false);
}

CASE(an_end_of_a_task_without_a_container_leaves_no_file)
{
	destroy(f, true);
	assert_ok(pending_end(f->folder, "holdfast-" ALLOC "-web", NULL));
	assert_int_equal(count_pending(f), 0);
}

CASE(a_task_is_destroyed_also_if_its_file_cannot_be_written)
{
	start_never(f);
	begin_next_run(f);
	model.done = NULL;
	model.is_disk_broken = true;
	fail_removal(f);
	expect_ended(f, false); /* by the list of orders */
}

/* When its container is gone, and its end forgotten. */
CASE(a_destroyed_task_is_started_by_a_later_order_and_restarted)
{
	start_running(f);
	fail_kill(f);
	destroy(f, true);
	assert_int_equal(answer.status, STATUS_OK);
	assert_int_equal(count_pending(f), 0);
	forget_orders(f);
	f->order.nonce[0]++;
	f->order.not_after_ms++;
	assert_ok(order_sign(&f->order, seed, NULL));
	model.has_run = false;
	start_well(f);
	order_task(f, true);
	assert_contains(model.asked, "POST " NAME "/start");
}

CASE(a_start_whose_file_cannot_be_written_is_repeated_by_its_order)
{
	char path[FOLDER_SIZE + 16];

	(void)snprintf(path, sizeof(path), "%s/pending", f->folder);
	assert_int_equal(symlink("nowhere", path), 0); /* no file is found there, and none is made */
	order_task(f, false);
	assert_int_not_equal(answer.status, STATUS_OK);
	assert_non_null(model.body);
	assert_null(strstr(model.asked, "/start"));
	assert_int_equal(unlink(path), 0);
	start_well(f);
}

/* 256 of systemd's 1024 descriptors; all tasks of a node by the limit of the unit. */
CASE(calls_that_wait_leave_room_for_others)
{
	const Holdfast__Driver__V1__WaitTaskRequest request =
		PB(holdfast__driver__v1__wait_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"));

	assert_int_equal(driver_waits_max(100), 0);
	assert_int_equal(driver_waits_max(1024), 256);
	assert_int_equal(driver_waits_max(16384), DRIVER_WAITS_MAX);
	memset(&answer, 0, sizeof(answer));
	f->driver.n_waits = f->driver.waits_max = 3;
	task_wait((struct rpc_call *)&answer, &request.base, &f->driver);
	assert_int_equal(answer.status, STATUS_RESOURCE_EXHAUSTED);
	assert_contains(answer.msg, "LimitNOFILE=");
	f->driver.waits_max = 4;
	memset(&answer, 0, sizeof(answer));
	task_wait((struct rpc_call *)&answer, &request.base, &f->driver);
	await_answer(f);
	assert_int_equal(answer.status, STATUS_NOT_FOUND);
	assert_int_equal(f->driver.n_waits, 3);
}

static void begin_wait(struct fixture *f)
{
	const Holdfast__Driver__V1__WaitTaskRequest request =
		PB(holdfast__driver__v1__wait_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"));

	memset(&answer, 0, sizeof(answer));
	f->driver.waits_max = 1;
	task_wait((struct rpc_call *)&answer, &request.base, &f->driver);
	assert_int_equal(answer.n, 0);
	assert_int_equal(f->driver.n_waits, 1);
}

/* @n_cancelled requests to the engine */
static void expect_wait_gone(struct fixture *f, size_t n_cancelled)
{
	const struct rpc_method *row = driver_methods;

	while (!str_eq(row->name, "WaitTask"))
		row++;
	model.n_cancelled = 0;
	assert_non_null(row->on_gone);
	row->on_gone((struct rpc_call *)&answer, &f->driver);
	assert_int_equal(model.n_cancelled, n_cancelled);
	assert_int_equal(answer.n, 1);
	assert_int_equal(answer.status, STATUS_CANCELLED);
	assert_int_equal(f->driver.n_waits, 0);
	assert_int_equal(f->driver.n_operations, 0);
	assert_null(model.done);
}

/* Each wait takes the only place. An agent that is restarted waits for all tasks once more. */
CASE(a_wait_whose_caller_has_gone_leaves_its_place)
{
	start_well(f);
	begin_process();
	model.status = "running";
	begin_wait(f); /* the engine is asked about the container */
	expect_wait_gone(f, 1);
	begin_wait(f); /* the process is watched */
	answer_last();
	answer_last();
	assert_null(model.done);
	expect_wait_gone(f, 0);
	model.is_pid_unknown = true;
	begin_wait(f); /* the engine is asked to wait */
	answer_last();
	assert_string_equal(model.last, "POST " NAME "/wait?condition=not-running");
	expect_wait_gone(f, 1);
	begin_wait(f);
	expect_wait_gone(f, 1);
}

/* @nonce of the order that made the container; NULL: there is none */
static void ask_network(struct fixture *f, const char *nonce)
{
	Holdfast__Driver__V1__NetworkConfig config =
		PB(holdfast__driver__v1__network_config, .alloc_id = TEXT(ALLOC), .driver = TEXT("container"),
		   .namespace_ = TEXT("team-a"),
		   .mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED);
	Holdfast__Driver__V1__CreateNetworkRequest request =
		HOLDFAST__DRIVER__V1__CREATE_NETWORK_REQUEST__INIT;
	const struct container_order other = {.nonce = nonce, .boot_id = BOOT};

	(void)str_copy(f->settings.networks[0], sizeof(f->settings.networks[0]), "isolated");
	(void)str_copy(f->settings.infra_image, sizeof(f->settings.infra_image), "localhost/bb:1");
	f->n_body = holdfast__driver__v1__network_config__pack(&config, f->body);
	f->order.kind = ORDER_NETWORK;
	memset(f->order.task, 0, sizeof(f->order.task));
	order_digest(f->body, f->n_body, f->order.digest);
	assert_ok(order_sign(&f->order, seed, NULL));
	if (nonce)
		model.body = container_of_network(&f->settings, &config,
						  model.network_of ? model.network_of : "", &other);
	request.order = (ProtobufCBinaryData){sizeof(f->order), (uint8_t *)&f->order};
	request.network = (ProtobufCBinaryData){f->n_body, f->body};
	memset(&answer, 0, sizeof(answer));
	network_create((struct rpc_call *)&answer, &request.base, &f->driver);
	await_answer(f);
}

static void order_network(struct fixture *f, const char *nonce)
{
	ask_network(f, nonce);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "otherwise than ordered");
	assert_null(model.body);
}

/* The child of the test has other mounts than a network's container. */
CASE(a_network_that_another_order_made_is_compared_too)
{
	model.has_run = true;
	model.status = "running";
	begin_process();
	order_network(f, "00ff");
	assert_null(strstr(answer.msg, "labels")); /* they are those of the other order */
}

/* A tenant can submit the id of another one's allocation that the server has forgotten. */
CASE(a_network_of_another_namespace_is_not_that_of_the_order)
{
	model.has_run = true;
	model.status = "running";
	model.network_of = "team-b";
	begin_process();
	ask_network(f, "00ff");
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg, "the network of allocation " ALLOC " is of another namespace");
	assert_non_null(model.body); /* it is the other one's */
	expect_trail(f, "reason=network");
}

static void join_network(struct fixture *f)
{
	Holdfast__Driver__V1__NetworkSpec spec =
		PB(holdfast__driver__v1__network_spec, .alloc_id = TEXT(ALLOC),
		   .state = TEXT("holdfast-net-" ALLOC),
		   .mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED);
	Holdfast__Driver__V1__TaskConfig *task =
		holdfast__driver__v1__task_config__unpack(NULL, f->n_body, f->body);

	(void)str_copy(f->settings.infra_image, sizeof(f->settings.infra_image), "localhost/bb:1");
	(void)str_copy(f->settings.networks[0], sizeof(f->settings.networks[0]), "isolated");
	task->network = spec.mode;
	task->network_spec = &spec;
	f->n_body = holdfast__driver__v1__task_config__pack(task, f->body);
	task->network_spec = NULL;
	holdfast__driver__v1__task_config__free_unpacked(task, NULL);
	order_digest(f->body, f->n_body, f->order.digest);
	assert_ok(order_sign(&f->order, seed, NULL));
}

static void expect_namespace(void)
{
	assert_string_equal(json_string_value(json_object_get(json_object_get(model.body, "Labels"),
							      "dev.holdfast.namespace")),
			    "team-a");
	model.network_of = "seen";
}

CASE(a_network_is_made_with_its_namespace)
{
	model.at = "POST /containers/create";
	model.meanwhile = expect_namespace;
	ask_network(f, NULL);
	assert_string_equal(model.network_of, "seen");
}

CASE(a_task_of_the_last_run_is_compared_in_its_network_and_not_started_again)
{
	join_network(f);
	model.network_of = "team-a";
	start_late(f);
	task_free_all(&f->driver);
	model.done = NULL;
	begin_process();
	model.status = "running";
	model.asked[0] = '\0';
	assert_ok(task_recall_all(&f->driver, NULL));
	expect_compared_and_removed(f);
	assert_contains(model.asked, "GET " NETWORK "/json");
	assert_null(strstr(model.asked, "/start"));
}

CASE(a_task_joins_the_network_of_its_namespace)
{
	join_network(f);
	model.network_of = "team-a";
	start_well(f);
	assert_contains(model.asked, "GET " NETWORK "/json\nPOST " NAME "/start");
}

CASE(a_task_joins_a_network_that_an_earlier_driver_made)
{
	join_network(f);
	start_well(f);
}

CASE(a_task_joins_no_network_of_another_namespace)
{
	join_network(f);
	model.network_of = "team-b";
	order_task(f, false);
	expect_not_started(f, "is of another namespace, which had this id before", "reason=network");
	assert_null(model.body);
}

CASE(a_task_is_not_restarted_in_a_network_of_another_namespace)
{
	join_network(f);
	start_well(f);
	model.network_of = "team-b";
	order_task(f, true);
	expect_not_started(f, "is of another namespace", "reason=network");
	assert_non_null(model.body); /* its output is kept */
}

CASE(a_task_whose_network_is_of_another_namespace_when_it_runs_is_ended)
{
	join_network(f);
	model.network_of = "team-a";
	model.network_later = "team-b";
	model.at = "POST " NAME "/start";
	model.meanwhile = begin_running;
	order_task(f, false);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg, "network is 'of another one', not 'of its namespace'");
	assert_null(model.body);
}

/* Nothing of a tenant runs in its container. */
CASE(a_network_whose_start_failed_is_started_on_any_storage)
{
	be_podman(f, "4.3.1");
	model.storage = "vfs";
	assert_ok(nonces_begin(f->driver.nonces, &f->order, clock_realtime_ms(), NULL));
	assert_ok(nonces_finish(f->driver.nonces, f->order.nonce, NULL));
	ask_network(f, "01000000000000000000000000000000");
	assert_contains(model.asked, "HEAD /containers/" ID "/archive?path=%2Fdev\n");
}

CASE(a_network_that_the_engine_made_otherwise_is_not_made_again)
{
	model.user = "";
	assert_ok(nonces_begin(f->driver.nonces, &f->order, clock_realtime_ms(), NULL));
	order_network(f, "01000000000000000000000000000000");
	assert_null(strstr(model.asked, "/create"));
}

/* --- requests that take long --- */

/* Returns the call. */
static const struct rpc_call *ask_stop(struct fixture *f, unsigned int alloc, uint32_t timeout_ms)
{
	static char calls[10000];
	static size_t n;
	struct rpc_call *call = (struct rpc_call *)&calls[n++ % sizeof(calls)];
	char id[64];
	const Holdfast__Driver__V1__StopTaskRequest request =
		PB(holdfast__driver__v1__stop_task_request, .alloc_id = id, .task = TEXT("web"),
		   .timeout_ms = timeout_ms);

	(void)snprintf(id, sizeof(id), "0190a6f2-0000-7000-8000-%012u", alloc);
	model.asked[0] = '\0';
	memset(&answer, 0, sizeof(answer));
	task_stop(call, &request.base, &f->driver);
	return call;
}

/* Answers the look of a stop: the task runs. */
static void answer_look(engine_done_fn *done, void *userdata, unsigned int alloc, const char *namespace)
{
	cleanup(json_decrefp) json_t *json = NULL;
	char id[64];

	(void)snprintf(id, sizeof(id), "0190a6f2-0000-7000-8000-%012u", alloc);
	json = NON_NULL(json_pack("{s:s, s:{s:s}, s:{s:{s:s, s:s, s:s, s:s, s:s, s:s}}}", "Id", ID, "State",
				  "Status", "running", "Config", "Labels", "dev.holdfast.alloc", id,
				  "dev.holdfast.node", "prod/node-1", "dev.holdfast.task", "web",
				  "dev.holdfast.namespace", namespace, "dev.holdfast.order", "00ff",
				  "dev.holdfast.stop_ms", "3600000"));
	model.done = NULL;
	done(STATUS_OK, NULL, json, userdata);
}

static const struct rpc_call *begin_stop(struct fixture *f, unsigned int alloc, const char *namespace,
					 uint32_t timeout_ms)
{
	const struct rpc_call *call = ask_stop(f, alloc, timeout_ms);

	answer_look(NON_NULL(model.done), model.userdata, alloc, namespace);
	return call;
}

static void stop_many(struct fixture *f, unsigned int first, unsigned int n, const char *namespace)
{
	for (unsigned int i = first; i < first + n; i++)
		(void)begin_stop(f, i, namespace, 0);
}

static void expect_no_place(void)
{
	assert_int_equal(answer.n, 1);
	assert_int_equal(answer.status, STATUS_RESOURCE_EXHAUSTED);
	assert_contains(answer.msg, "86 of them of namespace 'loud'");
}

CASE(slow_stops_of_one_namespace_leave_places_to_others)
{
	model.holds = true;
	f->settings.max_stop_timeout_us = 3600 * USEC_PER_SEC;
	stop_many(f, 0, 86, "loud");
	assert_int_equal(answer.n, 0);
	begin_stop(f, 86, "loud", 0);
	expect_no_place();
	assert_int_equal(model.n_held, 86);
	begin_stop(f, 1000, "quiet", 0);
	assert_int_equal(answer.n, 0);
	assert_int_equal(model.n_held, 87);
	for (unsigned int i = 0; i < 50; i++) {
		char namespace[16];

		(void)snprintf(namespace, sizeof(namespace), "team-%u", i);
		stop_many(f, 10000 + 100 * i, 100, namespace);
	}
	assert_int_equal(model.n_held, 256);
}

CASE(a_stop_that_has_ended_leaves_its_place)
{
	model.holds = true;
	stop_many(f, 0, 87, "loud");
	expect_no_place();
	model.held_done(STATUS_OK, NULL, NULL, model.held_userdata);
	begin_stop(f, 86, "loud", 0);
	assert_int_equal(answer.n, 0);
	assert_int_equal(model.n_held, 87);
}

CASE(a_second_stop_of_a_task_joins_the_first)
{
	const struct rpc_call *call;

	model.holds = true;
	f->settings.max_stop_timeout_us = 3600 * USEC_PER_SEC;
	call = begin_stop(f, 1, "team-a", 60000);
	for (int i = 0; i < 100; i++) {
		const struct rpc_call *later = begin_stop(f, 1, "team-a", i == 0 ? 60000 : 61000);

		assert_int_equal(answer.n, 1);
		assert_ptr_equal(answer.call, call);
		call = later;
		assert_int_equal(answer.status, STATUS_ABORTED);
		assert_int_equal(f->driver.n_operations, 1);
	}
	assert_int_equal(model.n_held, 1);
	memset(&answer, 0, sizeof(answer));
	model.held_done(STATUS_OK, NULL, NULL, model.held_userdata);
	assert_int_equal(answer.n, 1);
	assert_ptr_equal(answer.call, call);
	assert_int_equal(answer.status, STATUS_OK);
	assert_int_equal(f->driver.n_operations, 0);
}

CASE(a_sooner_stop_and_one_of_another_task_ask_the_engine)
{
	model.holds = true;
	f->settings.max_stop_timeout_us = 3600 * USEC_PER_SEC;
	begin_stop(f, 1, "team-a", 60000);
	begin_stop(f, 2, "team-a", 60000);
	begin_stop(f, 1, "team-a", 59000);
	assert_int_equal(answer.n, 0);
	assert_int_equal(model.n_held, 3);
}

CASE(a_stop_does_not_join_one_that_still_looks)
{
	engine_done_fn *done;
	void *userdata;

	model.holds = true;
	f->settings.max_stop_timeout_us = 3600 * USEC_PER_SEC;
	ask_stop(f, 1, 60000);
	done = model.done;
	userdata = model.userdata;
	begin_stop(f, 1, "team-a", 1000);
	assert_int_equal(answer.n, 0);
	assert_int_equal(model.n_held, 1);
	answer_look(done, userdata, 1, "team-a");
	assert_int_equal(answer.status, STATUS_ABORTED);
	assert_int_equal(model.n_held, 1);
}

/* A registry that does not answer holds them as long as a task. */
CASE(pulls_and_stops_share_the_places_of_a_namespace)
{
	model.holds = model.has_no_image = f->settings.pull = true;
	stop_many(f, 0, 86, "team-a");
	order_task(f, false);
	assert_int_equal(answer.status, STATUS_RESOURCE_EXHAUSTED);
	assert_null(strstr(model.asked, "/images/create"));
}

CASE(a_pull_holds_a_place_until_it_has_ended)
{
	const Holdfast__Driver__V1__StartTaskRequest request =
		PB(holdfast__driver__v1__start_task_request,
		   .order = {sizeof(f->order), (uint8_t *)&f->order}, .task = {f->n_body, f->body});
	engine_done_fn *pulled;
	void *pull;

	model.holds = model.has_no_image = f->settings.pull = true;
	stop_many(f, 0, 86, "loud");
	memset(&answer, 0, sizeof(answer));
	task_start((struct rpc_call *)&answer, &request.base, &f->driver);
	while (model.done)
		answer_last();
	assert_int_equal(answer.n, 0);
	assert_int_equal(model.n_held, 87);
	pulled = model.held_done;
	pull = model.held_userdata;
	stop_many(f, 100, 57, "team-a"); /* 87 + n + 2 * (1 + n) < 256 */
	assert_int_equal(answer.n, 1);
	assert_int_equal(model.n_held, 87 + 56);
	pulled(STATUS_OK, NULL, NULL, pull);
	model.done = NULL;
	begin_stop(f, 200, "team-a", 0);
	assert_int_equal(answer.n, 0);
}

CASE(a_plugin_is_not_made_without_the_program_that_sets_its_umask)
{
	Holdfast__Driver__V1__ConfigValue image =
		PB(holdfast__driver__v1__config_value, .key = TEXT("image"), .text = TEXT("localhost/bb:1"));
	Holdfast__Driver__V1__ConfigValue *config[] = {&image};
	Holdfast__Driver__V1__CsiPluginMount plugin =
		PB(holdfast__driver__v1__csi_plugin_mount, .id = TEXT("hostpath"),
		   .destination = TEXT("/csi"), .socket = TEXT("csi.sock"));
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .driver = TEXT("container"), .n_config = 1, .config = config, .csi_plugin = &plugin);

	(void)str_copy(f->settings.plugin_dir, sizeof(f->settings.plugin_dir), f->folder);
	(void)str_copy(f->settings.csi_plugins[0].id, sizeof(f->settings.csi_plugins[0].id), "hostpath");
	(void)str_copy(f->settings.csi_plugins[0].images[0], sizeof(f->settings.csi_plugins[0].images[0]),
		       "localhost/bb:1");
	put_task(f, &task);
	model.has_no_program = true;
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, "no program");
	assert_null(strstr(model.asked, "/containers/create"));
	model.has_no_program = false;
	model.is_create_refused = true;
	order_task(f, false);
	assert_contains(model.asked, "/containers/create");
	assert_contains(answer.msg,
			"plugin hostpath: no such folder. Next: see that mounthelper.policy has a "
			"profile hostpath of class csi");
}

static void order_image(struct fixture *f, const char *name)
{
	Holdfast__Driver__V1__ConfigValue image =
		PB(holdfast__driver__v1__config_value, .key = TEXT("image"), .text = (char *)(uintptr_t)name);
	Holdfast__Driver__V1__ConfigValue *config[] = {&image};
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .driver = TEXT("container"), .n_config = 1, .config = config);

	put_task(f, &task);
	order_task(f, false);
}

/* A local image of another registry is none of its images. */
CASE(an_image_is_looked_up_and_pulled_with_its_registry)
{
	(void)str_copy(f->settings.images[0], sizeof(f->settings.images[0]), "bb:1");
	f->settings.pull = model.has_no_image = true;
	order_image(f, "bb:1");
	assert_contains(model.asked, "GET /images/docker.io/library/bb:1/json\n"
				     "POST /images/create?fromImage=docker.io/library/bb:1\n"
				     "GET /images/docker.io/library/bb:1/json\n");
	assert_contains(answer.msg, "no image docker.io/library/bb:1");
}

/* Podman finds it by the digest alone. */
CASE(an_image_that_has_another_name_is_pulled_under_the_allowed_one_or_not_taken)
{
#define DIGEST "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	(void)str_copy(f->settings.images[0], sizeof(f->settings.images[0]), "reg.example.net/a/*");
	model.called = "reg.example.net/b/private" DIGEST;
	order_image(f, "reg.example.net/a/x" DIGEST);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg, "only one of another name with that digest: pull it");
	assert_null(strstr(model.asked, "POST"));
	f->settings.pull = true;
	order_image(f, "reg.example.net/a/x" DIGEST);
	assert_int_equal(answer.status, STATUS_FAILED_PRECONDITION);
	assert_contains(answer.msg, "another name with that digest, and could not pull it: pull it");
	assert_null(strstr(model.asked, "/containers/create"));
	model.pulled = "reg.example.net/a/x" DIGEST;
	order_image(f, "reg.example.net/a/x:1" DIGEST);
	assert_contains(model.asked, "/containers/create");
}

/* --- another order of the same start: the node's values, or root's limits, have changed since --- */

static void order_task_of(struct fixture *f, const char *value, Holdfast__Driver__V1__Resources *resources)
{
	Holdfast__Driver__V1__ConfigValue image =
		PB(holdfast__driver__v1__config_value, .key = TEXT("image"), .text = TEXT("localhost/bb:1"));
	Holdfast__Driver__V1__ConfigValue *config[] = {&image};
	Holdfast__Driver__V1__KeyValue pair =
		PB(holdfast__driver__v1__key_value, .key = TEXT("RACK"), .value = (char *)(uintptr_t)value);
	Holdfast__Driver__V1__KeyValue *env[] = {&pair};
	Holdfast__Driver__V1__RestartPolicy restart =
		PB(holdfast__driver__v1__restart_policy,
		   .mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_FAIL, .attempts = 1,
		   .interval_ms = 3600000);
	Holdfast__Driver__V1__TaskConfig task =
		PB(holdfast__driver__v1__task_config, .alloc_id = TEXT(ALLOC), .task = TEXT("web"),
		   .driver = TEXT("container"), .n_config = 1, .config = config, .n_env = 1, .env = env,
		   .restart = &restart, .resources = resources);

	put_task(f, &task);
}

static void order_env(struct fixture *f, const char *value)
{
	order_task_of(f, value, NULL);
}

/* It is compared while it runs; a later comparison finds a difference. */
static void start_compared(struct fixture *f)
{
	order_env(f, "r1");
	model.runs_as_ordered = true;
	model.at = "POST " NAME "/start";
	model.meanwhile = begin_running;
	order_task(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	expect_trail(f, "compared=1");
	model.runs_as_ordered = false;
	model.meanwhile = NULL;
}

static void expect_untouched(struct fixture *f, bool is_restart)
{
	order_task(f, is_restart);
	expect_kept(STATUS_OK, "");
	assert_string_equal(model.asked, "GET " NAME "/json\n");
}

static void expect_refused_and_removed(struct fixture *f, bool is_restart)
{
	order_task(f, is_restart);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_null(model.body);
	assert_false(process_runs());
	expect_trail(f, "reason=made");
}

CASE(a_later_order_of_the_same_start_leaves_a_running_task)
{
	start_compared(f);
	order_env(f, "r2");
	expect_untouched(f, false);
	expect_untouched(f, true);
}

CASE(a_lower_limit_of_root_leaves_a_running_task)
{
	f->settings.max_memory = 1 << 30;
	start_compared(f);
	f->settings.max_memory = 1 << 29;
	expect_untouched(f, false);
	expect_untouched(f, true);
}

CASE(a_task_that_was_restarted_is_left_by_a_later_order)
{
	start_compared(f);
	end_process();
	model.status = NULL;
	model.runs_as_ordered = true;
	model.started = "2026-01-01T00:00:01Z";
	model.meanwhile = begin_running;
	order_task(f, true);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked, "POST " NAME "/start");
	model.runs_as_ordered = false;
	order_env(f, "r2");
	expect_untouched(f, true);
	expect_untouched(f, false);
}

/* The agent is compromised, and the driver was killed: its order counts as used, and that is no comparison.
 */
CASE(a_running_task_that_was_not_compared_is_compared_by_the_same_start)
{
	start_running(f); /* it had ended when it was looked at */
	expect_settled(f);
	expect_refused_and_removed(f, false);
	assert_int_equal(count_pending(f), 0);
}

static void begin_short_run(void)
{
	model.status = "running";
}

/* By its description it ran, and it had ended when the kernel was asked. */
CASE(a_run_that_ended_before_it_was_compared_is_compared_if_it_runs)
{
	model.at = "POST " NAME "/start";
	model.meanwhile = begin_short_run;
	order_task(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked, "/wait?condition=not-running");
	expect_trail(f, "compared=0");
	begin_process();
	expect_refused_and_removed(f, false);
}

/* An engine lies about the time of the start. */
CASE(a_run_without_a_time_does_not_pass_for_compared)
{
	start_running(f);
	model.has_run = false;
	expect_refused_and_removed(f, false);
}

CASE(a_run_that_was_not_compared_is_compared_by_the_same_restart)
{
	start_compared(f);
	model.started = "2026-01-01T00:00:01Z"; /* the engine has started it again */
	expect_refused_and_removed(f, true);
}

/* Changes a byte of the file that the driver keeps. */
static void spoil_pending(const struct fixture *f, size_t at)
{
	char path[FOLDER_SIZE + 64];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/pending/holdfast-" ALLOC "-web", f->folder);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "X", 1, (off_t)at), 1);
	(void)close(fd);
}

CASE(a_comparison_of_another_order_counts_for_no_other)
{
	start_compared(f);
	spoil_pending(f, offsetof(struct order, nonce));
	expect_refused_and_removed(f, false);
}

CASE(the_next_run_of_the_driver_remembers_a_comparison)
{
	start_compared(f);
	task_free_all(&f->driver);
	assert_ok(task_recall_all(&f->driver, NULL));
	assert_int_equal(f->driver.n_operations, 0);
	order_env(f, "r2");
	expect_untouched(f, false);
	destroy(f, true);
	assert_int_equal(answer.status, STATUS_OK);
	assert_int_equal(count_pending(f), 0);
}

CASE(comparisons_of_another_boot_are_forgotten)
{
	start_compared(f);
	task_free_all(&f->driver);
	f->driver.boot_id[0]++;
	assert_ok(task_recall_all(&f->driver, NULL));
	assert_int_equal(f->driver.n_operations, 0);
	assert_int_equal(count_pending(f), 0);
}

/* A network is made again by another order, while the file of the former one may still be there. */
CASE(the_mark_of_an_end_counts_for_its_own_order)
{
	static const uint8_t other[ORDER_NONCE_SIZE] = {9};
	Holdfast__Driver__V1__NetworkConfig body =
		PB(holdfast__driver__v1__network_config, .alloc_id = TEXT(ALLOC));
	struct taken taken = {.reason = "", .body = &body.base};

	taken.order.nonce[0] = 1;
	assert_ok(pending_put(f->settings.state_dir, "holdfast-net-x", ID, &taken, NULL));
	assert_true(pending_may_start(f->settings.state_dir, "holdfast-net-x", taken.order.nonce, true));
	assert_ok(pending_end(f->settings.state_dir, "holdfast-net-x", NULL));
	assert_false(pending_may_start(f->settings.state_dir, "holdfast-net-x", taken.order.nonce, false));
	assert_true(pending_may_start(f->settings.state_dir, "holdfast-net-x", other, false));
	assert_false(pending_may_start(f->settings.state_dir, "holdfast-net-x", other, true));
	pending_remove(f->settings.state_dir, "holdfast-net-x");
}

/* --- a container that the engine has forgotten when the next run of the driver begins --- */

static void recover(struct fixture *f, const char *alloc, const char *id)
{
	uint8_t nonce[ORDER_NONCE_SIZE] = {1};
	Holdfast__Driver__V1__TaskHandle handle =
		PB(holdfast__driver__v1__task_handle, .version = 1, .alloc_id = (char *)(uintptr_t)alloc,
		   .task = TEXT("web"), .state = (char *)(uintptr_t)id, .nonce = {sizeof(nonce), nonce});
	const Holdfast__Driver__V1__RecoverTaskRequest request =
		PB(holdfast__driver__v1__recover_task_request, .handle = &handle);

	memset(&answer, 0, sizeof(answer));
	model.asked[0] = '\0';
	task_recover((struct rpc_call *)&answer, &request.base, &f->driver);
	await_answer(f);
}

static void wait_task(struct fixture *f)
{
	const Holdfast__Driver__V1__WaitTaskRequest request =
		PB(holdfast__driver__v1__wait_task_request, .alloc_id = TEXT(ALLOC), .task = TEXT("web"));

	f->driver.waits_max = 1;
	memset(&answer, 0, sizeof(answer));
	model.asked[0] = '\0';
	task_wait((struct rpc_call *)&answer, &request.base, &f->driver);
	await_answer(f);
}

static void forget_container(void)
{
	json_decref(model.body);
	model.body = NULL;
}

/* Each call of an agent that goes on with its tasks. */
static void expect_forgotten(struct fixture *f)
{
	const char *msg = "runs on this machine: end it";

	recover(f, ALLOC, "");
	expect_kept(STATUS_UNAVAILABLE, msg);
	wait_task(f);
	expect_kept(STATUS_UNAVAILABLE, msg);
	stop(f, 0);
	expect_kept(STATUS_UNAVAILABLE, msg);
	destroy(f, true);
	expect_kept(STATUS_UNAVAILABLE, msg);
	assert_int_equal(count_pending(f), 1);
}

static void expect_gone(struct fixture *f)
{
	end_process();
	recover(f, ALLOC, ID);
	assert_int_equal(answer.status, STATUS_NOT_FOUND);
	stop(f, 0);
	assert_int_equal(answer.status, STATUS_OK);
	destroy(f, true);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_int_equal(count_pending(f), 0);
}

CASE(the_next_run_of_the_driver_knows_a_container_that_the_engine_forgot)
{
	start_compared(f);
	forget_container();
	begin_next_run(f);
	expect_forgotten(f);
	begin_next_run(f); /* the attempts have not forgotten it */
	expect_forgotten(f);
	expect_gone(f);
}

/* By the engine's word; its process runs. */
CASE(the_next_run_of_the_driver_knows_a_container_that_was_not_compared)
{
	start_running(f);
	forget_container();
	begin_next_run(f);
	expect_forgotten(f);
	expect_gone(f);
}

/* The driver was ended before the engine's answer. */
CASE(the_next_run_of_the_driver_knows_a_container_that_is_to_be_compared)
{
	start_late(f);
	begin_running();
	forget_container();
	begin_next_run(f);
	for (int i = 0; i < 10; i++)
		run_once(f);
	assert_int_equal(f->driver.n_operations, 1);
	assert_int_equal(count_pending(f), 1);
	end_process();
	await_rest(f);
	assert_int_equal(count_pending(f), 0);
}

CASE(ids_of_containers_of_another_boot_are_forgotten)
{
	start_compared(f);
	forget_container();
	task_free_all(&f->driver);
	f->driver.boot_id[0]++;
	assert_ok(task_recall_all(&f->driver, NULL));
	assert_true(LIST_EMPTY(&f->driver.knowns));
	destroy(f, true);
	assert_int_equal(answer.status, STATUS_OK);
}

CASE(a_file_without_the_id_of_a_container_is_no_order)
{
	start_compared(f);
	spoil_pending(f, sizeof(struct order));
	begin_next_run(f);
	assert_true(LIST_EMPTY(&f->driver.knowns));
	assert_int_equal(count_pending(f), 1);
}

/* The state folder is lost. */
CASE(a_handle_shows_the_container_that_the_engine_forgot)
{
	start_compared(f);
	forget_container();
	task_free_all(&f->driver);
	recover(f, ALLOC, ID);
	expect_kept(STATUS_UNAVAILABLE, "runs on this machine: end it");
	destroy(f, true);
	expect_kept(STATUS_UNAVAILABLE, "runs on this machine: end it");
	end_process();
	recover(f, ALLOC, ID);
	assert_int_equal(answer.status, STATUS_NOT_FOUND);
	assert_true(LIST_EMPTY(&f->driver.knowns));
	recover(f, ALLOC, "/");
	assert_int_equal(answer.status, STATUS_NOT_FOUND);
}

/* A compromised agent invents allocations. */
CASE(handles_make_an_id_known_by_one_name)
{
	start_compared(f);
	recover(f, OTHER_ALLOC, ID);
	assert_int_equal(answer.status, STATUS_NOT_FOUND);
	forget_container();
	recover(f, ALLOC, ID);
	expect_kept(STATUS_UNAVAILABLE, "runs on this machine: end it");
}

/* The driver compares it with the order that started it. */
CASE(a_later_order_waits_for_the_comparison_of_a_late_start)
{
	order_env(f, "r1");
	start_late(f);
	begin_running();
	order_env(f, "r2");
	order_task(f, false);
	expect_kept(STATUS_ABORTED, "is being compared; ask again");
	order_task(f, true);
	expect_kept(STATUS_ABORTED, "is being compared; ask again");
	assert_int_equal(count_pending(f), 1);
	model.runs_as_ordered = true;
	await_rest(f);
	model.runs_as_ordered = false;
	expect_untouched(f, false);
}

CASE(a_call_compares_its_own_start_while_another_one_is_followed)
{
	order_env(f, "r1");
	start_late(f);
	model.has_run = model.is_start_late = false;
	model.status = "created";
	start_compared(f);
	assert_int_equal(f->driver.n_operations, 1);
}

CASE(a_task_is_destroyed_before_its_late_start_is_over)
{
	start_late(f);
	begin_running();
	destroy(f, true);
	assert_int_equal(answer.status, STATUS_OK);
	assert_int_equal(count_pending(f), 1); /* it may still begin */
	await_rest(f);
	assert_int_equal(count_pending(f), 0);
}

/* The driver ends before it starts the container. */
static void create_only(struct fixture *f)
{
	order_env(f, "r1");
	ask_task(f, false);
	while (!model.body)
		answer_last();
	task_free_all(&f->driver);
	model.done = NULL;
}

CASE(a_container_that_never_ran_is_made_again_by_a_later_order)
{
	create_only(f);
	order_env(f, "r2");
	order_task(f, false);
	assert_msg(answer.status == STATUS_OK, "%s%s", model.asked, answer.msg);
	assert_contains(model.asked,
			"DELETE /containers/" ID "?force=1&v=1\nGET /images/localhost/bb:1/json\n"
			"POST /containers/create");
	assert_contains(model.asked, "POST " NAME "/start");
	assert_int_equal(f->driver.orders.refused, 0);
}

CASE(a_container_that_never_ran_and_stays_is_not_started)
{
	create_only(f);
	order_env(f, "r2");
	begin_process();
	model.ignores_kill = true;
	order_task(f, false);
	expect_kept(STATUS_DEADLINE_EXCEEDED, "has not ended after its kill");
	assert_null(strstr(model.asked, "/start"));
}

static void lie_once(void)
{
	assert_msg(model.user[0] != '\0', "%s", model.asked);
	model.user = "";
}

/* The container of the earlier order is removed once; the engine is blamed for the next one. */
CASE(an_engine_that_makes_a_wrong_container_again_uses_up_the_order)
{
	create_only(f);
	order_env(f, "r2");
	model.at = "POST /containers/create";
	model.meanwhile = lie_once;
	order_task(f, false);
	assert_msg(answer.status == STATUS_FAILED_PRECONDITION, "%s%s", model.asked, answer.msg);
	assert_null(model.body);
	assert_null(strstr(model.asked, "/start"));
	expect_trail(f, "reason=made");
	model.user = "1000";
	order_task(f, false);
	assert_contains(answer.msg, "was started by this order already, and is gone");
}

/* The engine may still carry out the start. */
CASE(a_container_that_was_started_late_is_not_made_again)
{
	order_env(f, "r1");
	start_late(f);
	model.has_run = false;
	model.status = "created";
	order_env(f, "r2");
	expect_refused_and_removed(f, false);
	assert_null(strstr(model.asked, "/create"));
}

CASE(a_container_that_the_engine_started_itself_is_not_made_again)
{
	create_only(f);
	order_env(f, "r2");
	begin_running();
	expect_refused_and_removed(f, false);
	assert_null(strstr(model.asked, "/create"));
}

/* --- a restart of a container that was made under other limits --- */

/* DestroyTask saves its output. */
static void expect_not_restarted(struct fixture *f, enum status status, const char *msg, const char *reason)
{
	order_task(f, true);
	assert_msg(answer.status == status, "%s%s", model.asked, answer.msg);
	assert_contains(answer.msg, msg);
	assert_string_equal(model.asked, "GET " NAME "/json\n");
	assert_non_null(model.body);
	expect_trail(f, reason);
	destroy(f, true);
	assert_contains(model.asked, "/logs?");
	assert_null(model.body);
}

CASE(a_restart_under_a_lower_limit_of_memory_leaves_the_container)
{
	f->settings.max_memory = 1 << 30;
	start_well(f);
	f->settings.max_memory = 1 << 29;
	(void)str_copy(f->settings.path, sizeof(f->settings.path), "/etc/driver.hcl");
	expect_not_restarted(f, STATUS_PERMISSION_DENIED,
			     "memory of its container is '1073741824' (0: no limit), and root allows "
			     "'536870912' by max_memory in /etc/driver.hcl",
			     "reason=max_memory");
}

CASE(a_restart_under_a_first_limit_of_processes_leaves_the_container)
{
	start_well(f);
	f->settings.max_pids = 512;
	expect_not_restarted(f, STATUS_PERMISSION_DENIED, "and root allows '512' by max_pids",
			     "reason=max_pids");
}

CASE(a_restart_under_a_lower_limit_of_swap_leaves_the_container)
{
	Holdfast__Driver__V1__Resources resources =
		PB(holdfast__driver__v1__resources, .memory_bytes = 8 << 20, .memory_swap_bytes = 24 << 20);

	order_task_of(f, "r1", &resources);
	start_well(f);
	f->settings.max_memory = 8 << 20;
	expect_not_restarted(f, STATUS_PERMISSION_DENIED, "memory_swap of its container is '25165824'",
			     "reason=max_memory");
}

/* The limit is the order's own. */
CASE(a_limit_that_the_engine_describes_otherwise_is_not_of_roots_file)
{
	Holdfast__Driver__V1__Resources resources =
		PB(holdfast__driver__v1__resources, .memory_bytes = 8 << 20);

	f->settings.max_memory = 1 << 29;
	order_task_of(f, "r1", &resources);
	start_well(f);
	(void)json_object_set_new(json_object_get(model.body, "HostConfig"), "Memory", json_integer(0));
	expect_not_restarted(f, STATUS_FAILED_PRECONDITION, "memory is '0', not '8388608'", "reason=differs");
}

CASE(a_restart_by_a_later_order_leaves_the_container)
{
	order_env(f, "r1");
	start_well(f);
	order_env(f, "r2");
	expect_not_restarted(f, STATUS_FAILED_PRECONDITION, "env is 'not there', not 'RACK'",
			     "reason=differs");
}

CASE(a_value_that_equals_a_limit_of_another_thing_is_not_of_roots_file)
{
	Holdfast__Driver__V1__Resources resources = PB(holdfast__driver__v1__resources, .cpu_shares = 512);

	f->settings.max_pids = 512;
	order_task_of(f, "r1", &resources);
	start_well(f);
	(void)json_object_set_new(json_object_get(model.body, "HostConfig"), "CpuShares", json_integer(2));
	expect_not_restarted(f, STATUS_FAILED_PRECONDITION, "cpu_shares is '2', not '512'", "reason=differs");
}
