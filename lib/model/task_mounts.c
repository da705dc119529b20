/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the destinations of a task's mounts with those of its bidirectional ones. */
#include "model/task_mounts.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/str.h"
#include "model/alloc.h"

typedef Holdfast__Driver__V1__TaskConfig task_t;
typedef Holdfast__Driver__V1__ConfigValue value_t;

/* A destination that no other one may be within. */
struct outer {
	const char *path;
	const void *of; /* the mount of the task; NULL: the staging folder */
	bool is_shared; /* bidirectional; false: only another mount of the task is */
};

static const value_t *find_config(const task_t *task, const char *key)
{
	for (size_t i = 0; i < task->n_config; i++)
		if (str_eq(task->config[i]->key, key))
			return task->config[i];
	return NULL;
}

/* Root's file may allow it. Without it an image's or a volume's links could lead the engine into the volume.
 */
static bool can_mount(const task_t *task)
{
	const value_t *privileged = find_config(task, "privileged");
	const value_t *caps = find_config(task, "cap_add");

	for (size_t i = 0; caps && i < caps->n_list; i++)
		if (str_eq(caps->list[i], "CAP_SYS_ADMIN"))
			return true;
	return privileged && privileged->flag;
}

static const char *plugin_destination(const Holdfast__Driver__V1__CsiPluginMount *plugin)
{
	return plugin->destination[0] != '\0' ? plugin->destination : CSI_PLUGIN_MOUNT_DIR;
}

static enum status check_inner(const struct outer *outer, const void *of, const char *inner,
			       struct error *err)
{
	if ((of && of == outer->of) || !path_is_within(inner, outer->path))
		return STATUS_OK;
	return error_set(
		err, STATUS_INVALID_ARGUMENT, 0,
		"destination %.128s is within %.128s, %s, so the host would keep that mount: mount it "
		"elsewhere%s",
		inner, outer->path,
		outer->is_shared ? "which is bidirectional"
				 : "where a link could lead it into a mount that the host shares",
		outer->is_shared ? ", or use propagation host-to-task" : "");
}

/* The engine's own, in its container. */
static enum status check_engine(const struct outer *outer, struct error *err)
{
	static const char *const engine[] = {"/etc", "/run", "/var/run", "/sbin/docker-init"};

	for (size_t i = 0; i < ARRAY_SIZE(engine); i++)
		TRY(check_inner(outer, NULL, engine[i], err));
	return STATUS_OK;
}

static enum status check_outer(const task_t *task, const struct outer *outer, struct error *err)
{
	const value_t *paths = find_config(task, "host_paths");

	for (size_t i = 0; i < task->n_volumes; i++)
		TRY(check_inner(outer, task->volumes[i], task->volumes[i]->destination, err));
	if (paths && paths->n_map > TASK_MOUNTS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "it has %zu host_paths, at most %d are allowed with a bidirectional mount",
				 paths->n_map, TASK_MOUNTS_MAX);
	for (size_t i = 0; paths && i < paths->n_map; i++)
		TRY(check_inner(outer, paths->map[i], paths->map[i]->value, err));
	if (task->csi_plugin)
		TRY(check_inner(outer, task->csi_plugin, plugin_destination(task->csi_plugin), err));
	return check_engine(outer, err);
}

/* Others can make links in the plugin's folder of sockets, in volumes and in host paths. */
static enum status check_links(const task_t *task, struct error *err)
{
	const value_t *paths = find_config(task, "host_paths");
	const Holdfast__Driver__V1__CsiPluginMount *plugin = task->csi_plugin;

	if (plugin)
		TRY(check_outer(task, &(struct outer){plugin_destination(plugin), plugin, false}, err));
	for (size_t i = 0; i < task->n_volumes; i++)
		TRY(check_outer(task, &(struct outer){task->volumes[i]->destination, task->volumes[i], false},
				err));
	for (size_t i = 0; paths && i < paths->n_map; i++)
		TRY(check_outer(task, &(struct outer){paths->map[i]->value, paths->map[i], false}, err));
	return STATUS_OK;
}

enum status task_mounts_check(const task_t *task, bool is_container, const char *stage, struct error *err)
{
	bool may_mount = !is_container || can_mount(task), is_kept = stage != NULL;

	if (task->n_volumes > TASK_MOUNTS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "it has %zu volume mounts, at most %d are allowed", task->n_volumes,
				 TASK_MOUNTS_MAX);
	if (stage)
		TRY(check_outer(task, &(struct outer){stage, NULL, true}, err));
	for (size_t i = 0; i < task->n_volumes; i++) {
		const struct outer outer = {task->volumes[i]->destination, task->volumes[i], true};

		if (task->volumes[i]->propagation !=
		    HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL)
			continue;
		is_kept = true;
		if (!may_mount)
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "destination %.128s is bidirectional, but the task cannot mount "
					 "without CAP_SYS_ADMIN in cap_add: use propagation host-to-task",
					 outer.path);
		TRY(check_outer(task, &outer, err));
		if (stage)
			TRY(check_inner(&outer, NULL, stage, err));
	}
	return is_kept ? check_links(task, err) : STATUS_OK;
}
