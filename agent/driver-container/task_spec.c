/* SPDX-License-Identifier: Apache-2.0 */
#include "task_spec.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/restart.h"
#include "model/task_text.h"

#include <signal.h>
#include <string.h>

enum {
	LIST_MAX = 256,
	VOLUMES_MAX = 64,
	STOP_MAX_MS = 3600 * 1000,
	CHECK_MIN_MS = 1000,
	MEMORY_MIN = 6 << 20, /* the engines' own */
};

typedef Holdfast__Driver__V1__ConfigField field_t;
typedef Holdfast__Driver__V1__ConfigValue value_t;
typedef Holdfast__Driver__V1__TaskConfig task_t;

#define FIELD(key_, type_, required_, text_)                                                           \
	&(field_t)                                                                                     \
	{                                                                                              \
		.base = PROTOBUF_C_MESSAGE_INIT(&holdfast__driver__v1__config_field__descriptor),      \
		.key = (char[]){key_}, .type = HOLDFAST__DRIVER__V1__CONFIG_TYPE__CONFIG_TYPE_##type_, \
		.required = (required_), .description = (char[])                                       \
		{                                                                                      \
			text_                                                                          \
		}                                                                                      \
	}

enum { FIELD_N = 10 };

static field_t *const schema[FIELD_N] = {
	FIELD("image", STRING, true, "name of the image, with its tag"),
	FIELD("command", LIST, false, "program and its first arguments, instead of the image's entry point"),
	FIELD("args", LIST, false, "arguments, instead of the image's"),
	FIELD("work_dir", STRING, false, "folder in which it begins"),
	FIELD("hostname", STRING, false, "name of the machine in the container"),
	FIELD("cap_add", LIST, false, "capabilities, beyond the default of zero: CAP_NET_BIND_SERVICE"),
	FIELD("host_paths", MAP, false, "read-only binds beside the volumes: path on the host = path inside"),
	FIELD("privileged", BOOL, false, "a container that is no confinement"),
	FIELD("read_only_root", BOOL, false, "the image's files cannot be changed"),
	FIELD("init", BOOL, false, "a first process that collects dead ones"),
};

/* In the order of the schema. */
static const size_t places[FIELD_N] = {
	offsetof(struct task_spec, image),	    offsetof(struct task_spec, command),
	offsetof(struct task_spec, args),	    offsetof(struct task_spec, work_dir),
	offsetof(struct task_spec, hostname),	    offsetof(struct task_spec, cap_add),
	offsetof(struct task_spec, host_paths),	    offsetof(struct task_spec, privileged),
	offsetof(struct task_spec, read_only_root), offsetof(struct task_spec, init),
};

field_t *const *task_spec_schema(size_t *ret_n)
{
	*ret_n = FIELD_N;
	return schema;
}

static enum status wrong(struct error *err, const char *field, const char *value, const char *why)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "task: %s '%.128s' %s", field, value, why);
}

/* Only the member of its type is used. */
static bool is_of_type(const value_t *value, Holdfast__Driver__V1__ConfigType type)
{
	bool has[] = {
		[HOLDFAST__DRIVER__V1__CONFIG_TYPE__CONFIG_TYPE_STRING] = value->text[0] != '\0',
		[HOLDFAST__DRIVER__V1__CONFIG_TYPE__CONFIG_TYPE_NUMBER] = value->number != 0,
		[HOLDFAST__DRIVER__V1__CONFIG_TYPE__CONFIG_TYPE_BOOL] = value->flag,
		[HOLDFAST__DRIVER__V1__CONFIG_TYPE__CONFIG_TYPE_LIST] = value->n_list > 0,
		[HOLDFAST__DRIVER__V1__CONFIG_TYPE__CONFIG_TYPE_MAP] = value->n_map > 0,
	};

	for (size_t i = 0; i < ARRAY_SIZE(has); i++)
		if (has[i] && i != type)
			return false;
	return value->n_list <= LIST_MAX && value->n_map <= LIST_MAX;
}

static enum status read_value(const value_t *value, struct task_spec *ret, struct error *err)
{
	for (size_t i = 0; i < FIELD_N; i++) {
		const value_t **place = (const value_t **)(void *)((char *)ret + places[i]);

		if (!str_eq(schema[i]->key, value->key))
			continue;
		if (*place)
			return wrong(err, "config", value->key, "is given twice");
		if (!is_of_type(value, schema[i]->type))
			return wrong(err, "config", value->key, "is of another type, or too long");
		*place = value;
		return STATUS_OK;
	}
	return wrong(err, "config", value->key, "is no field of driver container");
}

int signal_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {{"SIGHUP", SIGHUP},     {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT},
		       {"SIGKILL", SIGKILL},   {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2},
		       {"SIGTERM", SIGTERM},   {"SIGCONT", SIGCONT}, {"SIGSTOP", SIGSTOP},
		       {"SIGWINCH", SIGWINCH}, {"SIGALRM", SIGALRM}, {"SIGABRT", SIGABRT}};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (str_eq(signals[i].name, name))
			return signals[i].number;
	return 0;
}

static enum status check_mounts(const task_t *task, struct error *err)
{
	if (task->n_volumes > VOLUMES_MAX)
		return wrong(err, "volumes", "", "are too many");
	for (size_t i = 0; i < task->n_volumes; i++) {
		if (!id_is_label(task->volumes[i]->volume))
			return wrong(err, "volume", task->volumes[i]->volume,
				     "is no label of a volume, by which it is published");
		if ((unsigned int)task->volumes[i]->propagation > 2 || task->volumes[i]->slot >= VOLUMES_MAX)
			return wrong(err, "volume for", task->volumes[i]->destination,
				     "has an unknown propagation or slot");
		for (size_t k = 0; k < i; k++)
			if (str_eq(task->volumes[k]->destination, task->volumes[i]->destination))
				return wrong(err, "destination", task->volumes[i]->destination,
					     "is that of two volumes");
	}
	return STATUS_OK;
}

static enum status check_plugin(const task_t *task, struct error *err)
{
	const Holdfast__Driver__V1__CsiPluginMount *plugin = task->csi_plugin;

	if (!plugin)
		return STATUS_OK;
	if (!id_is_plugin(plugin->id) || plugin->socket[0] == '\0' || plugin->destination[0] == '\0')
		return wrong(err, "csi_plugin", plugin->id, "has no proper id, no socket or no mount_dir");
	for (size_t i = 0; i < task->n_volumes; i++)
		if (str_eq(task->volumes[i]->destination, plugin->destination))
			return wrong(err, "destination", plugin->destination,
				     "is that of a volume and of the plugin's folder");
	return STATUS_OK;
}

/* Checks the texts, as the server does at submission. */
static enum status check_texts(const task_t *task, struct error *err)
{
	struct task_text_fault fault;

	if (task->n_env > LIST_MAX)
		return wrong(err, "env", "", "has too many entries");
	if (!task_text_find_fault(task, &fault))
		return STATUS_OK;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "task: %s '%.128s' is not %s", fault.field,
			 fault.text, task_text_rule(fault.kind));
}

static enum status check_run(const task_t *task, struct error *err)
{
	const Holdfast__Driver__V1__Resources *r = task->resources;

	if (task->stop_signal[0] != '\0' && signal_number(task->stop_signal) == 0)
		return wrong(err, "stop_signal", task->stop_signal, "is none, as in SIGTERM");
	if (task->stop_timeout_ms > STOP_MAX_MS)
		return wrong(err, "stop_timeout", "", "is more than an hour");
	if (task->restart &&
	    ((unsigned int)task->restart->mode > HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_DELAY ||
	     task->restart->attempts > RESTART_ATTEMPTS_MAX))
		return wrong(err, "restart", "", "is of an unknown mode, or has too many attempts");
	if (task->health &&
	    (task->health->n_argv == 0 || task->health->n_argv > LIST_MAX ||
	     task->health->interval_ms < CHECK_MIN_MS || task->health->timeout_ms < CHECK_MIN_MS))
		return wrong(err, "health", "",
			     "needs a command, an interval and a timeout of a second or more");
	if ((unsigned int)task->network > HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED)
		return wrong(err, "network", "", "is of an unknown mode");
	if (r && ((r->memory_bytes != 0 && r->memory_bytes < MEMORY_MIN) || r->memory_bytes > INT64_MAX ||
		  r->memory_swap_bytes > INT64_MAX || r->cpu_millis > INT32_MAX ||
		  r->cpu_shares > INT32_MAX || r->pids > INT32_MAX))
		return wrong(err, "resources", "", "are out of range; memory is 6 MiB or more");
	return STATUS_OK;
}

enum status task_spec_read(const task_t *task, struct task_spec *ret, struct error *err)
{
	struct task_spec spec = {.task = task};
	enum status status = STATUS_OK;

	if (!id_is_uuid(task->alloc_id) || !id_is_label(task->task))
		return wrong(err, "task", task->task, "or its allocation has no proper name");
	for (size_t i = 0; status == STATUS_OK && i < task->n_config; i++)
		status = read_value(task->config[i], &spec, err);
	if (status != STATUS_OK)
		return status;
	if (!spec.image)
		return wrong(err, "config", "image", "is missing");
	TRY(check_texts(task, err));
	status = check_mounts(task, err);
	if (status == STATUS_OK)
		status = check_plugin(task, err);
	if (status == STATUS_OK)
		status = check_run(task, err);
	if (status == STATUS_OK)
		*ret = spec;
	return status;
}
