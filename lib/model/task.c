/* SPDX-License-Identifier: Apache-2.0 */
#include "model/task.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "model/message.h"
#include "model/order.h"
#include "model/reference.h"
#include "model/restart.h"
#include "model/task_mounts.h"
#include "model/task_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef Holdfast__Driver__V1__TaskConfig task_config;
typedef Holdfast__Driver__V1__VolumeMount volume_mount;
typedef Holdfast__Driver__V1__NetworkSpec network_spec;
typedef Holdfast__Driver__V1__CsiPluginMount csi_plugin_mount;

const task_config *alloc_task(const struct alloc *alloc, size_t i)
{
	return (const task_config *)(const void *)alloc->tasks->messages[i];
}

const task_config *alloc_find_task(const struct alloc *alloc, const char *name)
{
	for (size_t i = 0; i < message_list_n(alloc->tasks); i++)
		if (str_eq(alloc_task(alloc, i)->task, name))
			return alloc_task(alloc, i);
	return NULL;
}

bool task_status_is_valid(const struct alloc *alloc, const Holdfast__Driver__V1__TaskStatus *status)
{
	return alloc_find_task(alloc, status->task) && status->n_attributes <= TASK_STATUS_ATTRIBUTES_MAX &&
	       protobuf_c_message_get_packed_size(&status->base) <= TASK_STATUS_BYTES_MAX;
}

static enum status validate_mount(const struct alloc *alloc, const task_config *task, size_t i,
				  const char *field, struct error *err)
{
	const volume_mount *mount = task->volumes[i];
	const struct volume_request *request = alloc_find_volume(alloc, mount->volume);

	if (!request)
		return error_invalid(err, field, "volume_mount of '%.64s': there is no such volume block",
				     mount->volume);
	if (mount->slot != 0)
		return error_invalid(err, field, "volume_mount of %s: the server sets slot; leave it out",
				     mount->volume);
	if (request->attachment_mode == ATTACHMENT_BLOCK_DEVICE)
		return error_invalid(
			err, field,
			"volume_mount of %s contradicts its attachment_mode block-device, which is "
			"no mount",
			mount->volume);
	if (!path_is_normal(mount->destination) || str_eq(mount->destination, "/"))
		return error_invalid(
			err, field,
			"volume_mount of %s: destination '%.128s' is not an absolute path in the task",
			mount->volume, mount->destination);
	if ((unsigned int)mount->propagation > (unsigned int)request->propagation)
		return error_invalid(err, field,
				     "volume_mount of %s: propagation is more than that of its volume block",
				     mount->volume);
	for (size_t k = 0; k < i; k++)
		if (str_eq(task->volumes[k]->destination, mount->destination))
			return error_invalid(err, field, "destination %s is that of two volume mounts",
					     mount->destination);
	return STATUS_OK;
}

static enum status validate_names(const struct alloc *alloc, size_t i, const char *field, struct error *err)
{
	const task_config *task = alloc_task(alloc, i);

	if (!id_is_label(task->task))
		return error_invalid(err, field, "a task's name is 1 to 63 of a-z 0-9 and -");
	if (alloc_find_task(alloc, task->task) != task)
		return error_invalid(err, field, "it is given twice");
	if (!id_is_label(task->driver) || str_eq(task->driver, DRIVER_NONE) ||
	    str_eq(task->driver, DRIVER_SYSTEMD))
		return error_invalid(
			err, field,
			"driver '%.64s' is not the name of a task driver; holdfast node status NODE "
			"lists those of a node",
			task->driver);
	if (task->alloc_id[0] != '\0' || task->job[0] != '\0' || task->namespace_[0] != '\0' ||
	    task->network_spec)
		return error_invalid(
			err, field,
			"the server sets alloc_id, job, namespace and network_spec; leave them out");
	return STATUS_OK;
}

static enum status validate_network(const struct alloc *alloc, const task_config *task, const char *field,
				    struct error *err)
{
	if (alloc->network.mode != NETWORK_UNSPECIFIED &&
	    task->network != HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_UNSPECIFIED)
		return error_invalid(err, field,
				     "network contradicts the allocation's network block, which is for all "
				     "tasks; leave one of them out");
	if (task->network == HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED)
		return error_invalid(err, field,
				     "network isolated is one of all tasks: write network { mode = "
				     "\"isolated\" } in the allocation");
	return STATUS_OK;
}

/* A driver takes no order of a task that has fields it does not know, or texts that are no UTF-8. */
static enum status validate_form(const task_config *task, const char *field, struct error *err)
{
	size_t n = protobuf_c_message_get_packed_size(&task->base);
	cleanup_free uint8_t *bytes = n <= TASK_BYTES_MAX ? malloc(n + 1) : NULL;

	if (n > TASK_BYTES_MAX)
		return error_invalid(err, field, "it has %zu bytes, at most %d are allowed", n,
				     TASK_BYTES_MAX);
	if (!bytes)
		return error_no_memory(err, "a task");
	(void)protobuf_c_message_pack(&task->base, bytes);
	if (!order_is_canonical(&task->base, bytes, n))
		return error_invalid(
			err, field,
			"it has a field that this server does not know, or a text that is no UTF-8");
	if (task->n_config > TASK_CONFIG_MAX)
		return error_invalid(err, field, "config: it has %zu keys, at most %d are allowed",
				     task->n_config, TASK_CONFIG_MAX);
	if (task->stop_timeout_ms > TASK_STOP_TIMEOUT_MAX_MS)
		return error_invalid(err, field, "stop_timeout of %" PRIu32 " ms is more than %d ms",
				     task->stop_timeout_ms, TASK_STOP_TIMEOUT_MAX_MS);
	return STATUS_OK;
}

/* Could so many restarts with this delay be within the interval? */
static bool restart_fits(const Holdfast__Driver__V1__RestartPolicy *restart)
{
	uint64_t interval_ms = restart->interval_ms > 0 ? restart->interval_ms : RESTART_INTERVAL_DEFAULT_MS;

	return (uint64_t)restart->attempts * restart->delay_ms <= interval_ms;
}

static enum status validate_restart(const task_config *task, const char *field, struct error *err)
{
	const Holdfast__Driver__V1__RestartPolicy *restart = task->restart;

	if (!restart)
		return STATUS_OK;
	if ((unsigned int)restart->mode > HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_DELAY)
		return error_invalid(err, field, "restart: mode is fail, delay or never");
	if (restart->attempts > RESTART_ATTEMPTS_MAX)
		return error_invalid(err, field, "restart: attempts is %" PRIu32 ", at most %d are allowed",
				     restart->attempts, RESTART_ATTEMPTS_MAX);
	if ((restart->interval_ms > 0 && restart->interval_ms < RESTART_INTERVAL_MIN_MS) ||
	    restart->interval_ms > RESTART_TIME_MAX_MS || restart->delay_ms > RESTART_TIME_MAX_MS)
		return error_invalid(err, field, "restart: interval is 1s to 24h, delay up to 24h");
	if (!restart_fits(restart))
		return error_invalid(err, field,
				     "restart: %" PRIu32 " attempts with a delay of %" PRIu32
				     " ms do not fit into the interval",
				     restart->attempts, restart->delay_ms);
	return STATUS_OK;
}

static bool check_time_is_right(uint32_t ms)
{
	return ms == 0 || (ms >= TASK_CHECK_MIN_MS && ms <= TASK_CHECK_MAX_MS);
}

static enum status validate_health(const task_config *task, const char *field, struct error *err)
{
	const Holdfast__Driver__V1__HealthCheck *health = task->health;

	if (!health)
		return STATUS_OK;
	if (health->n_argv == 0 || health->n_argv > TASK_CHECK_ARGV_MAX || health->argv[0][0] == '\0')
		return error_invalid(err, field, "health: argv is a command of 1 to %d texts",
				     TASK_CHECK_ARGV_MAX);
	if (!check_time_is_right(health->interval_ms) || !check_time_is_right(health->timeout_ms))
		return error_invalid(err, field, "health: interval and timeout are 1s to 1h");
	if (health->retries > TASK_CHECK_RETRIES_MAX)
		return error_invalid(err, field, "health: retries is at most %d", TASK_CHECK_RETRIES_MAX);
	return STATUS_OK;
}

/* The plugin that @task, which has a csi_plugin, is: one of several has its id there. NULL without an id. */
static const struct csi_plugin *plugin_of_task(const struct alloc *alloc, const task_config *task)
{
	const char *id = task->csi_plugin->id;

	if (alloc->n_plugins > 1)
		return alloc_find_plugin(alloc, id);
	return alloc->n_plugins > 0 && id[0] == '\0' ? &alloc->plugins[0] : NULL;
}

/* The first task that is @plugin, or NULL. */
const char *alloc_task_plugin_id(const struct alloc *alloc, const task_config *task)
{
	const struct csi_plugin *plugin = task->csi_plugin ? plugin_of_task(alloc, task) : NULL;

	return plugin ? plugin->id : NULL;
}

static const task_config *task_of_plugin(const struct alloc *alloc, const struct csi_plugin *plugin)
{
	for (size_t i = 0; i < message_list_n(alloc->tasks); i++)
		if (alloc_task(alloc, i)->csi_plugin && plugin_of_task(alloc, alloc_task(alloc, i)) == plugin)
			return alloc_task(alloc, i);
	return NULL;
}

static enum status refuse_plugin_id(const struct alloc *alloc, const char *field, struct error *err)
{
	char plugins[ALLOC_PLUGINS_TEXT_SIZE];

	if (alloc->n_plugins <= 1)
		return error_invalid(err, field,
				     "csi_plugin has only the destination; id, type and socket are in the "
				     "allocation's csi_plugin");
	alloc_plugins_text(alloc, NULL, plugins);
	return error_invalid(err, field,
			     "csi_plugin has the id of one of the allocation's plugins (%s) and the "
			     "destination; type and socket are in the allocation's block of that id",
			     plugins);
}

static enum status validate_plugin(const struct alloc *alloc, const task_config *task, const char *field,
				   struct error *err)
{
	const csi_plugin_mount *mount = task->csi_plugin;
	const struct csi_plugin *plugin = mount ? plugin_of_task(alloc, task) : NULL;

	if (!mount)
		return STATUS_OK;
	if (!plugin || mount->socket[0] != '\0' || mount->mounts)
		return refuse_plugin_id(alloc, field, err);
	if (task != task_of_plugin(alloc, plugin))
		return error_invalid(err, field, "csi_plugin: task %s is plugin %s already",
				     task_of_plugin(alloc, plugin)->task, plugin->id);
	if (mount->destination[0] != '\0' &&
	    (!path_is_normal(mount->destination) || str_eq(mount->destination, "/")))
		return error_invalid(err, field,
				     "csi_plugin: mount_dir '%.128s' is not an absolute path in the task",
				     mount->destination);
	return STATUS_OK;
}

/* Refuses texts that an engine could split, and mounts that would stay on the host: they never leave the
 * server.
 * @task has no references. */
static enum status check_texts(const task_config *task, const char *field, struct error *err)
{
	struct task_text_fault fault;
	struct error one;

	if (task_text_find_fault(task, &fault))
		return error_invalid(err, field, "%s '%.128s' is not %s", fault.field, fault.text,
				     task_text_rule(fault.kind));
	if (task_mounts_check(task, str_eq(task->driver, TASK_DRIVER_CONTAINER), NULL, &one) != STATUS_OK)
		return error_invalid(err, field, "%s", one.msg);
	return STATUS_OK;
}

static enum status validate_texts(const struct alloc *alloc, const task_config *task, const char *field,
				  struct error *err)
{
	ProtobufCMessage *copy = message_convert(task->base.descriptor, &task->base);
	struct error one;
	enum status status;

	if (!copy)
		return error_no_memory(err, "a task");
	status = reference_replace((task_config *)(void *)copy, alloc, NULL, true, &one);
	if (status == STATUS_OK)
		status = check_texts((task_config *)(void *)copy, field, err);
	else if (status == STATUS_INVALID_ARGUMENT)
		status = error_invalid(err, field, "%s", one.msg);
	else
		status = error_no_memory(err, "a task");
	protobuf_c_message_free_unpacked(copy, NULL);
	return status;
}

static enum status validate_task(const struct alloc *alloc, size_t i, struct error *err)
{
	const task_config *task = alloc_task(alloc, i);
	char field[ERROR_FIELD_SIZE];
	enum status status;

	(void)str_format(field, sizeof(field), "task %.63s", task->task);
	status = validate_names(alloc, i, field, err);
	if (status == STATUS_OK)
		status = validate_form(task, field, err);
	if (status == STATUS_OK)
		status = validate_restart(task, field, err);
	if (status == STATUS_OK)
		status = validate_health(task, field, err);
	if (status == STATUS_OK)
		status = validate_network(alloc, task, field, err);
	if (status == STATUS_OK)
		status = validate_plugin(alloc, task, field, err);
	/* task_mounts_check() refuses more */
	for (size_t k = 0; status == STATUS_OK && k < task->n_volumes && k < TASK_MOUNTS_MAX; k++)
		status = validate_mount(alloc, task, k, field, err);
	if (status == STATUS_OK)
		status = validate_texts(alloc, task, field, err);
	return status;
}

enum status alloc_validate_tasks(const struct alloc *alloc, struct error *err)
{
	enum status status = STATUS_OK;
	struct reference_wants wants;

	if (!alloc->tasks && alloc->network.mode != NETWORK_UNSPECIFIED)
		return error_invalid(err, "network",
				     "contradicts an allocation without task blocks; leave it out");
	if (!alloc->tasks)
		return STATUS_OK;
	if (!str_eq(alloc->driver, DRIVER_NONE))
		return error_invalid(
			err, "driver",
			"\"%s\" contradicts the task blocks, each of which names its own driver; leave "
			"it out",
			alloc->driver);
	for (size_t i = 0; i < alloc->tasks->n; i++) {
		struct error one;

		status = error_collect(status, validate_task(alloc, i, &one), &one, err);
	}
	if (status == STATUS_OK)
		status = reference_collect(alloc, &wants, err);
	for (uint32_t i = 0; status == STATUS_OK && i < alloc->n_plugins; i++)
		if (!task_of_plugin(alloc, &alloc->plugins[i]))
			return error_invalid(
				err, "csi_plugin",
				"'%s' contradicts the task blocks: write it into the task that is "
				"the plugin",
				alloc->plugins[i].id);
	return status;
}

/* The slot is the volume's index; the label is what the mount helper published it by. */
static bool order_mount(const struct alloc *alloc, volume_mount *mount)
{
	const struct volume_request *request = alloc_find_volume(alloc, mount->volume);
	char label[WIRE_VOLUME_SIZE];

	if (!request)
		return false;
	volume_wire_name(alloc->namespace, request->source, label);
	mount->slot = (uint32_t)(request - alloc->volumes);
	mount->read_only = mount->read_only || request->read_only;
	return message_set_text(&mount->volume, label);
}

Holdfast__Driver__V1__NetworkMode alloc_task_network(const struct alloc *alloc, const task_config *task)
{
	return alloc->network.mode == NETWORK_UNSPECIFIED
		       ? task->network
		       : (Holdfast__Driver__V1__NetworkMode)alloc->network.mode;
}

bool alloc_network_is_right(const struct alloc *alloc, const network_spec *spec)
{
	return spec && alloc->network.mode == NETWORK_ISOLATED && str_eq(spec->alloc_id, alloc->id) &&
	       spec->mode == HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED &&
	       strlen(spec->state) <= NETWORK_STATE_MAX && spec->base.n_unknown_fields == 0;
}

/* Bytes of @message. @ret owned by the caller, free() */
static enum status pack(const ProtobufCMessage *message, uint8_t **ret, size_t *ret_n, struct error *err)
{
	uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);

	if (!bytes)
		return error_no_memory(err, "an order");
	*ret_n = protobuf_c_message_pack(message, bytes);
	*ret = bytes;
	return STATUS_OK;
}

static bool order_plugin(const struct csi_plugin *plugin, csi_plugin_mount *mount)
{
	mount->mounts = csi_plugin_has_node(plugin);
	return message_set_text(&mount->id, plugin->id) &&
	       message_set_text(&mount->socket, csi_plugin_socket(plugin)) &&
	       (mount->destination[0] != '\0' || message_set_text(&mount->destination, CSI_PLUGIN_MOUNT_DIR));
}

static bool has_env(const task_config *task, const char *key)
{
	for (size_t i = 0; i < task->n_env; i++)
		if (str_eq(task->env[i]->key, key))
			return true;
	return false;
}

static bool add_env(task_config *ordered, const char *key, const char *value)
{
	Holdfast__Driver__V1__KeyValue pair = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT;
	ProtobufCMessage *copy;

	if (value[0] == '\0' || has_env(ordered, key))
		return true;
	pair.key = (char *)(uintptr_t)key;
	pair.value = (char *)(uintptr_t)value;
	copy = message_convert(pair.base.descriptor, &pair.base);
	if (!copy)
		return false;
	ordered->env[ordered->n_env++] = (Holdfast__Driver__V1__KeyValue *)(void *)copy;
	return true;
}

/* Variables about the program's own task; the task's own values of these names take precedence. */
static bool order_env(const struct alloc *alloc, task_config *ordered)
{
	char index[16] = "";
	const struct {
		const char *key;
		const char *value;
	} rows[] = {
		{"HOLDFAST_ALLOC_ID", alloc->id},     {"HOLDFAST_ALLOC_INDEX", index},
		{"HOLDFAST_ALLOC_NAME", alloc->name}, {"HOLDFAST_GROUP", alloc->job_group},
		{"HOLDFAST_JOB", alloc->job_id},      {"HOLDFAST_NAMESPACE", alloc->namespace},
		{"HOLDFAST_NODE_ID", alloc->node_id}, {"HOLDFAST_TASK", ordered->task},
	};
	size_t n = ordered->n_env + ARRAY_SIZE(rows);
	Holdfast__Driver__V1__KeyValue **env =
		realloc(ordered->env, n * sizeof(Holdfast__Driver__V1__KeyValue *));
	bool is_made = env != NULL;

	if (env)
		ordered->env = env;
	if (alloc->job_id[0] != '\0')
		(void)str_format(index, sizeof(index), "%" PRIu32, alloc->job_index);
	for (size_t i = 0; is_made && i < ARRAY_SIZE(rows); i++)
		is_made = add_env(ordered, rows[i].key, rows[i].value);
	return is_made;
}

/* Texts with the values of this allocation and node: as closed as those that were submitted, and no longer
 * than a task may be. */
static enum status order_texts(const struct alloc *alloc, const struct message_list *attributes,
			       task_config *ordered, struct error *err)
{
	char field[ERROR_FIELD_SIZE];

	(void)str_format(field, sizeof(field), "task %.63s", ordered->task);
	TRY(reference_replace(ordered, alloc, attributes, false, err));
	TRY(check_texts(ordered, field, err));
	if (protobuf_c_message_get_packed_size(&ordered->base) > (size_t)2 * TASK_BYTES_MAX)
		return error_invalid(err, field,
				     "with the values of its references it has more than %d bytes",
				     2 * TASK_BYTES_MAX);
	return STATUS_OK;
}

static void order_health(Holdfast__Driver__V1__HealthCheck *health)
{
	if (health->interval_ms == 0)
		health->interval_ms = TASK_CHECK_INTERVAL_DEFAULT_MS;
	if (health->timeout_ms == 0)
		health->timeout_ms = TASK_CHECK_TIMEOUT_DEFAULT_MS;
	if (health->retries == 0)
		health->retries = TASK_CHECK_RETRIES_DEFAULT;
}

enum status alloc_pack_task(const struct alloc *alloc, const task_config *task, const network_spec *network,
			    const struct message_list *attributes, uint8_t **ret, size_t *ret_n,
			    struct error *err)
{
	ProtobufCMessage *copy = message_convert(task->base.descriptor, &task->base);
	task_config *ordered = (task_config *)(void *)copy;
	enum status status = STATUS_RESOURCE_EXHAUSTED;
	bool is_made = ordered && message_set_text(&ordered->alloc_id, alloc->id) &&
		       message_set_text(&ordered->job, alloc->name) &&
		       message_set_text(&ordered->namespace_, alloc->namespace);

	for (size_t i = 0; is_made && i < ordered->n_volumes; i++)
		is_made = order_mount(alloc, ordered->volumes[i]);
	if (is_made && network) {
		ordered->network_spec = (void *)message_convert(network->base.descriptor, &network->base);
		is_made = ordered->network_spec != NULL;
	}
	is_made = is_made && order_env(alloc, ordered);
	if (is_made && ordered->csi_plugin)
		is_made = order_plugin(plugin_of_task(alloc, task), ordered->csi_plugin);
	if (is_made && ordered->health)
		order_health(ordered->health);
	if (is_made) {
		ordered->network = alloc_task_network(alloc, task);
		status = order_texts(alloc, attributes, ordered, err);
		if (status == STATUS_OK)
			status = pack(copy, ret, ret_n, err);
	} else {
		(void)error_no_memory(err, "an order of a task");
	}
	protobuf_c_message_free_unpacked(copy, NULL);
	return status;
}

enum status alloc_pack_network(const struct alloc *alloc, const char *driver, uint8_t **ret, size_t *ret_n,
			       struct error *err)
{
	Holdfast__Driver__V1__NetworkConfig network = HOLDFAST__DRIVER__V1__NETWORK_CONFIG__INIT;

	network.alloc_id = (char *)(uintptr_t)alloc->id;
	network.driver = (char *)(uintptr_t)driver;
	network.namespace_ = (char *)(uintptr_t)alloc->namespace;
	network.mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	return pack(&network.base, ret, ret_n, err);
}
