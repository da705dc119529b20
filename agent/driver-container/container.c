/* SPDX-License-Identifier: Apache-2.0 */
#include "container.h"

#include "publish.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"

#include <inttypes.h>
#include <limits.h>
#include <mounthelper_wire.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define IMAGE_ID "sha256:"
#define LABEL_ALLOC "dev.holdfast.alloc"
#define LABEL_TASK "dev.holdfast.task"
#define LABEL_NAMESPACE "dev.holdfast.namespace"
#define LABEL_NODE "dev.holdfast.node"
#define LABEL_BOOT "dev.holdfast.boot"
#define LABEL_NONCE "dev.holdfast.order"
#define LABEL_LOGS "dev.holdfast.logs"
#define LABEL_STOP "dev.holdfast.stop_ms"
#define LABEL_PLUGIN "dev.holdfast.csi_plugin"
#define LABEL_SOCKET "dev.holdfast.csi_socket"
#define LABEL_HEALTH "dev.holdfast.health"
#define LABEL_LIBPOD "dev.holdfast.libpod"
#define LABEL_UPDATE "io.containers.autoupdate" /* of podman */

#define UMASK_INSIDE "/.holdfast-csi-umask"

enum {
	IMAGE_ID_LENGTH = 71,
	IMAGE_NAME_SIZE = 512,
	NS_PER_MS = 1000000,
	STOP_DEFAULT_MS = 10000,
	SIGNAL_BASE = 128,
	SIGNAL_MAX = 64
};

typedef Holdfast__Driver__V1__TaskConfig task_t;

void container_name(const char *alloc_id, const char *task, char ret[static CONTAINER_NAME_SIZE])
{
	if (task[0] == '\0')
		(void)snprintf(ret, CONTAINER_NAME_SIZE, "holdfast-net-%.40s", alloc_id);
	else
		(void)snprintf(ret, CONTAINER_NAME_SIZE, "holdfast-%.40s-%.63s", alloc_id, task);
}

bool container_is_id(const char *id)
{
	size_t n = strlen(id);

	return n >= 12 && n < CONTAINER_ID_SIZE && strspn(id, "0123456789abcdef") == n;
}

/* Each of these gives NULL when a part of it could not be made: nothing is ever asked for with a part left
 * out. */
static json_t *whole(json_t *value, int r)
{
	if (r == 0)
		return value;
	json_decref(value);
	return NULL;
}

json_t *container_list(char *const *texts, size_t n)
{
	json_t *list = json_array();
	int r = 0;

	for (size_t i = 0; i < n; i++)
		r |= json_array_append_new(list, json_string(texts[i]));
	return whole(list, r);
}

static json_t *list_of_value(const Holdfast__Driver__V1__ConfigValue *value)
{
	return container_list(value->list, value->n_list);
}

static bool is_set(const Holdfast__Driver__V1__ConfigValue *value)
{
	return value && value->flag;
}

static json_t *mount_of(const char *source, const char *target, bool read_only, const char *propagation)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:{s:s}}", "Type", "bind", "Source", source, "Target", target,
			 "ReadOnly", read_only, "BindOptions", "Propagation", propagation);
}

/* Describes a bind mount of a host path without the mounts below it: root's file did not allow those. */
static json_t *host_path_of(const char *source, const char *target)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:{s:s, s:b}}", "Type", "bind", "Source", source, "Target",
			 target, "ReadOnly", true, "BindOptions", "Propagation", "rprivate", "NonRecursive",
			 true);
}

static int add_bind(json_t *mounts, const char *source, const char *target, bool read_only,
		    const char *propagation)
{
	return json_array_append_new(mounts, mount_of(source, target, read_only, propagation));
}

bool container_stage(const struct settings *settings, const char *plugin_id, char *ret)
{
	return str_format(ret, PATH_MAX, "%s/" MH_CSI_FOLDER "/%s", settings->stage_dir, plugin_id) > 0;
}

/* A plugin that mounts sees its own folder of the stage tree at the node's path, by which the agent names it,
 * and its mounts there must reach the host. A privileged plugin also makes devices, and must see those that
 * it makes.
 */
static int add_plugin(json_t *mounts, const struct settings *settings, const struct task_spec *spec)
{
	const Holdfast__Driver__V1__CsiPluginMount *plugin = spec->task->csi_plugin;
	char sockets[PATH_MAX], stage[PATH_MAX];

	if (!plugin)
		return 0;
	if (str_format(sockets, sizeof(sockets), "%s/%s", settings->plugin_dir, plugin->id) < 0 ||
	    !container_stage(settings, plugin->id, stage))
		return -1;
	return add_bind(mounts, sockets, plugin->destination, false, "rprivate") |
	       (plugin->mounts ? add_bind(mounts, stage, stage, false, "rshared") : 0) |
	       add_bind(mounts, HOLDFAST_CSI_UMASK, UMASK_INSIDE, true, "rprivate") |
	       (is_set(spec->privileged) ? add_bind(mounts, "/dev", "/dev", false, "rprivate") : 0);
}

static json_t *mounts_of(const struct settings *settings, const struct task_spec *spec)
{
	static const char *const words[] = {"rprivate", "rslave", "rshared"};
	json_t *mounts = json_array();
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; i < spec->task->n_volumes; i++) {
		const Holdfast__Driver__V1__VolumeMount *volume = spec->task->volumes[i];

		if (!publish_path(settings->publish_dir, spec->task->alloc_id, volume->slot, path))
			r = -1;
		else
			r |= json_array_append_new(mounts,
						   mount_of(path, volume->destination, volume->read_only,
							    words[volume->propagation]));
	}
	for (size_t i = 0; spec->host_paths && i < spec->host_paths->n_map; i++)
		r |= json_array_append_new(
			mounts, host_path_of(spec->host_paths->map[i]->key, spec->host_paths->map[i]->value));
	return whole(mounts, r | add_plugin(mounts, settings, spec));
}

static json_t *network_of(const task_t *task)
{
	char name[CONTAINER_NAME_SIZE];

	switch (task->network) {
	case HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST:
		return json_string("host");
	case HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED:
		container_name(task->alloc_id, "", name);
		return json_sprintf("container:%s", name);
	case HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_UNSPECIFIED:
	case HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE:
	case _HOLDFAST__DRIVER__V1__NETWORK_MODE_IS_INT_SIZE:
		break;
	}
	return json_string("none");
}

static int set_number(json_t *object, const char *key, uint64_t value)
{
	return value != 0 ? json_object_set_new(object, key, json_integer((json_int_t)value)) : 0;
}

static int set_text(json_t *object, const char *key, const char *text)
{
	return text && text[0] != '\0' ? json_object_set_new(object, key, json_string(text)) : 0;
}

static int set_flag(json_t *object, const char *key, bool value)
{
	return json_object_set_new(object, key, json_boolean(value));
}

static int add_limit(json_t *limits, const char *name, uint32_t value)
{
	if (value == 0)
		return 0;
	return json_array_append_new(limits, json_pack("{s:s, s:I, s:I}", "Name", name, "Soft",
						       (json_int_t)value, "Hard", (json_int_t)value));
}

/* The floor: what no task is without. */
static json_t *host_config(const struct settings *settings)
{
	json_t *limits = json_array();
	json_t *host =
		json_pack("{s:[s], s:[s], s:b, s:s, s:{s:s}}", "SecurityOpt", "no-new-privileges", "CapDrop",
			  "ALL", "Privileged", false, "NetworkMode", "none", "RestartPolicy", "Name", "no");
	int r = add_limit(limits, "nofile", settings->nofile) | add_limit(limits, "nproc", settings->nproc);

	r |= json_object_set_new(host, "Ulimits", limits);
	return whole(host, r);
}

/* Returns the limit that was asked for, within that of root's file; 0: no limit. */
static uint64_t within(uint64_t asked, uint64_t max)
{
	return max > 0 && (asked == 0 || asked > max) ? max : asked;
}

/* Without a limit of swap, engines allow as much of it as of memory. */
static int set_resources(json_t *host, const struct settings *settings,
			 const Holdfast__Driver__V1__Resources *asked)
{
	const Holdfast__Driver__V1__Resources nothing = HOLDFAST__DRIVER__V1__RESOURCES__INIT;
	const Holdfast__Driver__V1__Resources *r = asked ? asked : &nothing;
	uint64_t swap = r->memory_swap_bytes;

	return set_number(host, "CpuShares", r->cpu_shares) |
	       set_number(host, "NanoCpus", r->cpu_millis * NS_PER_MS) |
	       set_number(host, "Memory", within(r->memory_bytes, settings->max_memory)) |
	       set_number(host, "MemorySwap", swap > 0 ? within(swap, 2 * settings->max_memory) : 0) |
	       set_number(host, "PidsLimit", within(r->pids, settings->max_pids));
}

static json_t *host_of(const struct settings *settings, const struct task_spec *spec)
{
	json_t *host = host_config(settings);
	int r = json_object_set_new(host, "NetworkMode", network_of(spec->task)) |
		json_object_set_new(host, "Mounts", mounts_of(settings, spec)) |
		set_flag(host, "ReadonlyRootfs", is_set(spec->read_only_root)) |
		set_flag(host, "Init", is_set(spec->init));

	if (spec->cap_add)
		r |= json_object_set_new(host, "CapAdd", list_of_value(spec->cap_add));
	if (is_set(spec->privileged))
		r |= set_flag(host, "Privileged", true) | json_object_del(host, "CapDrop");
	if (spec->task->disable_logs)
		r |= json_object_set_new(host, "LogConfig", json_pack("{s:s}", "Type", "none"));
	return whole(host, r | set_resources(host, settings, spec->task->resources));
}

/* The engine would run the image's own check outside of the task's limits, at the image's interval. */
static int set_no_check(json_t *body)
{
	return json_object_set_new(body, "Healthcheck", json_pack("{s:[s]}", "Test", "NONE"));
}

static json_t *node_of(const struct settings *settings)
{
	return json_sprintf("%s/%s", settings->cluster, settings->node_id);
}

/* Returns all labels, always, because an image may have labels of the same names. `podman auto-update`, as
 * root, would restart the unit that another label of the image names. @stop_ms: 0 for a container
 * that is only stopped by force */
static json_t *labels_of(const struct settings *settings, const char *alloc_id, const char *task,
			 const struct container_order *order, bool has_logs, uint32_t stop_ms)
{
	return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s}", LABEL_ALLOC,
			 alloc_id, LABEL_TASK, task, LABEL_NODE, node_of(settings), LABEL_BOOT,
			 order->boot_id, LABEL_NONCE, order->nonce, LABEL_LOGS, has_logs ? "engine" : "none",
			 LABEL_STOP, json_sprintf("%" PRIu32, stop_ms), LABEL_PLUGIN, "", LABEL_SOCKET, "",
			 LABEL_HEALTH, "", LABEL_UPDATE, "disabled", LABEL_NAMESPACE, "");
}

static bool has_env(const task_t *task, const char *key)
{
	for (size_t i = 0; i < task->n_env; i++)
		if (str_eq(task->env[i]->key, key))
			return true;
	return false;
}

static json_t *env_of(const task_t *task)
{
	json_t *env = json_array();
	int r = 0;

	for (size_t i = 0; i < task->n_env; i++)
		r |= json_array_append_new(env,
					   json_sprintf("%s=%s", task->env[i]->key, task->env[i]->value));
	if (task->csi_plugin && !has_env(task, "CSI_ENDPOINT"))
		r |= json_array_append_new(env, json_sprintf("CSI_ENDPOINT=unix://%s/%s",
							     task->csi_plugin->destination,
							     task->csi_plugin->socket));
	return whole(env, r);
}

/* As health.c reads it: the driver may be restarted while the container runs. */
static int set_check(json_t *labels, const task_t *task)
{
	const Holdfast__Driver__V1__HealthCheck *health = task->health;
	json_t *check =
		json_pack("{s:s, s:o, s:I, s:I, s:I}", "namespace", task->namespace_, "argv",
			  container_list(health->argv, health->n_argv), "interval_ms",
			  (json_int_t)health->interval_ms, "timeout_ms", (json_int_t)health->timeout_ms,
			  "retries", (json_int_t)(health->retries > 0 ? health->retries : 1));
	cleanup_free char *text = check ? json_dumps(check, JSON_COMPACT) : NULL;

	json_decref(check);
	return text ? set_text(labels, LABEL_HEALTH, text) : -1;
}

/* The task's list, or the image's of that name. */
static json_t *words_of(const Holdfast__Driver__V1__ConfigValue *value, const json_t *image, const char *key)
{
	const json_t *words = json_object_get(json_object_get(image, "Config"), key);

	if (value)
		return list_of_value(value);
	return json_is_array(words) ? json_deep_copy(words) : json_array();
}

/* A plugin begins with the program that sets its umask, and continues as any task would. */
static int set_plugin_program(json_t *body, const struct task_spec *spec, const json_t *image)
{
	json_t *entry = json_pack("[s]", UMASK_INSIDE);
	json_t *own = words_of(spec->command, image, "Entrypoint");
	json_t *args = spec->command && !spec->args ? json_array() : words_of(spec->args, image, "Cmd");
	int r = json_array_extend(entry, own);

	json_decref(own);
	return r | json_object_set_new(body, "Entrypoint", entry) | json_object_set_new(body, "Cmd", args);
}

const char *container_image_registry(const char *image)
{
	size_t n = strcspn(image, "/");

	if (str_starts_with(image, IMAGE_ID) && image[n] == '\0' &&
	    n == strlen(IMAGE_ID) + strspn(image + strlen(IMAGE_ID), "0123456789abcdef") &&
	    n == IMAGE_ID_LENGTH)
		return "";
	if (image[n] == '\0')
		return "docker.io/library/";
	return strcspn(image, ".:ABCDEFGHIJKLMNOPQRSTUVWXYZ") < n || str_starts_with(image, "localhost/")
		       ? ""
		       : "docker.io/";
}

/* REGISTRY/REPOSITORY@DIGEST, as engines read it: they ignore a tag before a digest. */
static int plain_name(const char *image, char *ret, size_t size)
{
	static const char official[] = "docker.io/";
	const char *digest = strchrnul(image, '@');
	const char *slash = memrchr(image, '/', (size_t)(digest - image));
	const char *last = slash ? slash + 1 : image;
	bool is_official = str_starts_with(image, official) && last == image + strlen(official);

	return str_format(ret, size, "%s%.*s%s%.*s%s", container_image_registry(image), (int)(last - image),
			  image, is_official ? "library/" : "", (int)strcspn(last, ":@"), last, digest);
}

bool container_image_env_is_whole(const json_t *described)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(json_object_get(described, "Config"), "Env"), i, one)
		if (!json_is_string(one) || !strchr(json_string_value(one), '='))
			return false;
	return true;
}

bool container_image_is_named(const json_t *described, const char *image)
{
	char wanted[IMAGE_NAME_SIZE], found[IMAGE_NAME_SIZE];
	const json_t *name;
	size_t i;

	if (!strchr(image, '@'))
		return true;
	if (plain_name(image, wanted, sizeof(wanted)) < 0)
		return false;
	json_array_foreach (json_object_get(described, "RepoDigests"), i, name)
		if (json_is_string(name) && plain_name(json_string_value(name), found, sizeof(found)) >= 0 &&
		    str_eq(found, wanted))
			return true;
	return false;
}

bool container_image_cmd_replaces_list(const json_t *described, const struct task_spec *spec)
{
	return (spec->command || spec->args) && (!spec->command || spec->command->n_list == 0) &&
	       (!spec->args || spec->args->n_list == 0) && !spec->task->csi_plugin &&
	       json_array_size(json_object_get(json_object_get(described, "Config"), "Cmd")) > 0;
}

static int set_image(json_t *body, const char *image)
{
	return json_object_set_new(body, "Image",
				   json_sprintf("%s%s", container_image_registry(image), image));
}

static int set_program(json_t *body, const struct task_spec *spec)
{
	const task_t *task = spec->task;
	int r = set_image(body, spec->image->text) | set_text(body, "User", task->user) |
		set_text(body, "StopSignal", task->stop_signal) |
		set_text(body, "WorkingDir", spec->work_dir ? spec->work_dir->text : "") |
		json_object_set_new(body, "Env", env_of(task));

	if (task->network != HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED)
		r |= set_text(body, "Hostname", spec->hostname ? spec->hostname->text : "");
	if (spec->command)
		r |= json_object_set_new(body, "Entrypoint", list_of_value(spec->command));
	if (spec->args)
		r |= json_object_set_new(body, "Cmd", list_of_value(spec->args));
	return r;
}

json_t *container_of_task(const struct settings *settings, const struct task_spec *spec,
			  const struct container_order *order, const json_t *image)
{
	const task_t *task = spec->task;
	uint32_t stop_ms = task->stop_timeout_ms ? task->stop_timeout_ms : STOP_DEFAULT_MS;
	json_t *body = json_object();
	json_t *labels = labels_of(settings, task->alloc_id, task->task, order, !task->disable_logs, stop_ms);
	int r = set_program(body, spec) |
		set_number(body, "StopTimeout", settings_stop_seconds(settings, stop_ms)) |
		json_object_set_new(body, "Labels", labels) |
		set_text(labels, LABEL_NAMESPACE, task->namespace_) | set_no_check(body) |
		json_object_set_new(body, "HostConfig", host_of(settings, spec));

	if (order->is_podman) /* made by podman_spec_of(): no image knows the order */
		r |= set_text(labels, LABEL_LIBPOD, order->nonce);
	if (task->health)
		r |= set_check(labels, task);
	if (task->csi_plugin)
		r |= set_plugin_program(body, spec, image) |
		     set_text(labels, LABEL_PLUGIN, task->csi_plugin->id) |
		     set_text(labels, LABEL_SOCKET, task->csi_plugin->socket);
	return whole(body, r);
}

json_t *container_of_network(const struct settings *settings,
			     const Holdfast__Driver__V1__NetworkConfig *network, const char *namespace,
			     const struct container_order *order)
{
	json_t *body = json_object();
	json_t *command = json_array();
	json_t *host = host_config(settings);
	json_t *labels = labels_of(settings, network->alloc_id, "", order, true, 0);
	int r = set_text(labels, LABEL_NAMESPACE, namespace);

	for (size_t i = 0; i < SETTINGS_ARGV_MAX && settings->infra_command[i][0] != '\0'; i++)
		r |= json_array_append_new(command, json_string(settings->infra_command[i]));
	r |= set_flag(host, "ReadonlyRootfs", true) | set_image(body, settings->infra_image) |
	     set_text(body, "Hostname", network->hostname) | set_no_check(body) |
	     set_text(body, "StopSignal", "SIGKILL") | /* podman stops before it removes, and waits 10 s */
	     json_object_set_new(body, "Entrypoint", command) | json_object_set_new(body, "Labels", labels) |
	     json_object_set_new(body, "HostConfig", host);
	return whole(body, r);
}

int64_t container_time(const char *text)
{
	struct tm tm = {0};
	int fraction = 0;
	int digits = 0;
	struct tm zone = {0};
	int64_t seconds;

	text = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	if (!text || tm.tm_year < 70)
		return 0;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++)
			if (digits++ < 3)
				fraction = fraction * 10 + (*text - '0');
	for (; digits < 3; digits++)
		fraction *= 10;
	seconds = timegm(&tm);
	if (strptime(text, "%z", &zone))
		seconds -= zone.tm_gmtoff;
	return seconds * 1000 + fraction;
}

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static bool is_created(const char *word)
{
	static const char *const created[] = {"created", "configured", "initialized"};

	for (size_t i = 0; i < ARRAY_SIZE(created); i++)
		if (str_eq(word, created[i]))
			return true;
	return false;
}

static Holdfast__Driver__V1__TaskState state_of(const char *word, int64_t started_ms)
{
	static const char *const running[] = {"running", "paused", "restarting", "stopping", "removing"};

	for (size_t i = 0; i < ARRAY_SIZE(running); i++)
		if (str_eq(word, running[i]))
			return HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING;
	if (is_created(word) && started_ms == 0)
		return HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_CREATED;
	return HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED;
}

/* One that is no number of 32 bits is no success. */
static int32_t exit_code_at(const json_t *object)
{
	json_int_t code = json_integer_value(json_object_get(object, "ExitCode"));

	return code >= INT32_MIN && code <= INT32_MAX ? (int32_t)code : -1;
}

static void read_state(const json_t *json, struct container *ret)
{
	const json_t *state = json_object_get(json, "State");
	json_int_t pid = json_integer_value(json_object_get(state, "Pid"));

	ret->started_ms = container_time(text_at(state, "StartedAt"));
	ret->finished_ms = container_time(text_at(state, "FinishedAt"));
	ret->state = state_of(text_at(state, "Status"), ret->started_ms);
	ret->exit_code = exit_code_at(state);
	ret->oom_killed = json_is_true(json_object_get(state, "OOMKilled"));
	ret->pid = pid > 0 && pid <= INT32_MAX ? pid : 0;
	ret->waits = ret->pid != 0 && is_created(text_at(state, "Status"));
	str_copy_text(ret->error, sizeof(ret->error), text_at(state, "Error"));
}

/* Nodes may share an engine, each with a driver of its own. */
static bool is_of_node(const struct settings *settings, const json_t *labels)
{
	char node[ORDER_CLUSTER_SIZE + ORDER_NODE_SIZE];

	return str_format(node, sizeof(node), "%s/%s", settings->cluster, settings->node_id) > 0 &&
	       str_eq(text_at(labels, LABEL_NODE), node);
}

enum status container_read(const struct settings *settings, const json_t *json, const char *alloc_id,
			   const char *task, struct container *ret, struct error *err)
{
	const json_t *labels = json_object_get(json_object_get(json, "Config"), "Labels");
	struct container container = {.state = HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_UNSPECIFIED};

	if (!json_is_object(json_object_get(json, "State")) || !container_is_id(text_at(json, "Id")))
		return error_set(err, STATUS_INTERNAL, 0,
				 "the engine describes a container without id or state");
	if (!is_of_node(settings, labels) || !str_eq(text_at(labels, LABEL_ALLOC), alloc_id) ||
	    !str_eq(text_at(labels, LABEL_TASK), task) ||
	    str_copy(container.nonce, sizeof(container.nonce), text_at(labels, LABEL_NONCE)) < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "another program made a container with the name of task '%s' of allocation "
				 "%s. Next: find out who made it, and remove it",
				 task, alloc_id);
	(void)str_copy(container.id, sizeof(container.id), text_at(json, "Id"));
	(void)str_copy(container.alloc, sizeof(container.alloc), alloc_id);
	(void)str_copy(container.task, sizeof(container.task), task);
	if (id_is_name(text_at(labels, LABEL_NAMESPACE), NAMESPACE_MAX))
		(void)str_copy(container.namespace, sizeof(container.namespace),
			       text_at(labels, LABEL_NAMESPACE));
	if (parse_u32(text_at(labels, LABEL_STOP), 0, UINT32_MAX, &container.stop_ms) < 0)
		container.stop_ms = STOP_DEFAULT_MS;
	str_copy_text(container.plugin, sizeof(container.plugin), text_at(labels, LABEL_PLUGIN));
	str_copy_text(container.plugin_socket, sizeof(container.plugin_socket),
		      text_at(labels, LABEL_SOCKET));
	container.has_logs = !str_eq(text_at(labels, LABEL_LOGS), "none");
	read_state(json, &container);
	*ret = container;
	return STATUS_OK;
}

enum status container_read_exec(const json_t *json, bool *ret_is_running, int32_t *ret_code,
				struct error *err)
{
	const json_t *running = json_object_get(json, "Running");

	if (!json_is_boolean(running) ||
	    (json_is_false(running) && !json_is_integer(json_object_get(json, "ExitCode"))))
		return error_set(err, STATUS_INTERNAL, 0, "the engine does not report how the command ended");
	*ret_is_running = json_is_true(running);
	*ret_code = exit_code_at(json);
	return STATUS_OK;
}

const char *container_check(const json_t *json)
{
	return text_at(json_object_get(json_object_get(json, "Config"), "Labels"), LABEL_HEALTH);
}

void container_status(struct container *container, Holdfast__Driver__V1__TaskStatus *ret,
		      Holdfast__Driver__V1__ExitResult *ret_result)
{
	holdfast__driver__v1__task_status__init(ret);
	holdfast__driver__v1__exit_result__init(ret_result);
	ret->alloc_id = container->alloc;
	ret->task = container->task;
	ret->state = container->state;
	ret->started_ms = container->started_ms;
	if (container->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED)
		return;
	ret->completed_ms = container->finished_ms;
	ret->result = ret_result;
	ret_result->exit_code = container->exit_code;
	ret_result->oom_killed = container->oom_killed;
	ret_result->error = container->error;
	if (container->exit_code > SIGNAL_BASE && container->exit_code <= SIGNAL_BASE + SIGNAL_MAX)
		ret_result->signal = (uint32_t)(container->exit_code - SIGNAL_BASE);
}

static uint64_t number_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value)
								       : 0;
}

static void add_io(const json_t *json, Holdfast__Driver__V1__TaskStatsResponse *ret)
{
	const json_t *list =
		json_object_get(json_object_get(json, "blkio_stats"), "io_service_bytes_recursive");
	const json_t *entry;
	size_t i;

	json_array_foreach (list, i, entry) {
		const char *op = text_at(entry, "op");

		if (strcasecmp(op, "read") == 0)
			ret->read_bytes += number_at(entry, "value");
		else if (strcasecmp(op, "write") == 0)
			ret->write_bytes += number_at(entry, "value");
	}
}

enum status container_stats(const json_t *json, Holdfast__Driver__V1__TaskStatsResponse *ret,
			    struct error *err)
{
	const json_t *memory = json_object_get(json, "memory_stats");
	const json_t *cpu = json_object_get(json_object_get(json, "cpu_stats"), "cpu_usage");

	if (!json_is_object(json))
		return error_set(err, STATUS_INTERNAL, 0, "the engine's statistics are no object");
	holdfast__driver__v1__task_stats_response__init(ret);
	ret->time_ms = clock_realtime_ms();
	ret->cpu_ns = number_at(cpu, "total_usage");
	ret->memory_bytes = number_at(memory, "usage");
	ret->memory_max_bytes = number_at(memory, "max_usage");
	ret->memory_limit_bytes = number_at(memory, "limit");
	ret->pids = number_at(json_object_get(json, "pids_stats"), "current");
	add_io(json, ret);
	return STATUS_OK;
}

json_t *container_filters(const struct settings *settings, bool only_at_rest, const char *before)
{
	json_t *filters = json_pack("{s:[o]}", "label",
				    json_sprintf(LABEL_NODE "=%s/%s", settings->cluster, settings->node_id));
	bool failed = only_at_rest &&
		      json_object_set_new(filters, "status", json_pack("[s, s]", "created", "exited")) < 0;

	failed = failed || (before && json_object_set_new(filters, "before", json_pack("[s]", before)) < 0);
	return whole(filters, failed ? -1 : 0);
}

static bool has_name(const json_t *listed, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(listed, "Names"), i, one)
		if (json_string_value(one) && str_eq(json_string_value(one), name))
			return true;
	return false;
}

/* Is it a container of ours, by its labels and by its name? */
static bool is_ours(const json_t *listed, const char **ret_alloc, const char **ret_task)
{
	const json_t *labels = json_object_get(listed, "Labels");
	char name[CONTAINER_NAME_SIZE + 1];

	*ret_alloc = text_at(labels, LABEL_ALLOC);
	*ret_task = text_at(labels, LABEL_TASK);
	if (!id_is_uuid(*ret_alloc) || ((*ret_task)[0] != '\0' && !id_is_label(*ret_task)))
		return false;
	(void)snprintf(name, sizeof(name), "/");
	container_name(*ret_alloc, *ret_task, name + 1);
	return has_name(listed, name);
}

bool container_may_run(const json_t *listed)
{
	static const char *const at_rest[] = {"created", "configured", "initialized",
					      "exited",	 "stopped",    "dead"};
	const char *word = text_at(listed, "State");
	const char *alloc, *task;

	for (size_t i = 0; i < ARRAY_SIZE(at_rest); i++)
		if (str_eq(word, at_rest[i]))
			return false;
	return is_ours(listed, &alloc, &task);
}

bool container_is_leftover(const json_t *listed, const char *boot_id, const char **ret_alloc,
			   const char **ret_task)
{
	const char *boot = text_at(json_object_get(listed, "Labels"), LABEL_BOOT);

	return is_ours(listed, ret_alloc, ret_task) && boot[0] != '\0' && !str_eq(boot, boot_id);
}
