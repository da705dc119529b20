/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the destinations of a task's mounts with those of its bidirectional ones. */
#include "model/task_mounts.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/str.h"
#include "model/alloc.h"

typedef Holdfast__Driver__V1__TaskConfig task_t;
typedef Holdfast__Driver__V1__ConfigValue value_t;

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

static enum status check_inner(const char *outer, const char *inner, struct error *err)
{
	if (!path_is_within(inner, outer))
		return STATUS_OK;
	return error_set(
		err, STATUS_INVALID_ARGUMENT, 0,
		"destination %.128s is within %.128s, which is bidirectional, so the host would keep "
		"that mount: mount it elsewhere, or use propagation host-to-task",
		inner, outer);
}

/* The engine's own, in its container. */
static enum status check_engine(const char *outer, struct error *err)
{
	static const char *const engine[] = {"/etc", "/run", "/var/run", "/sbin/docker-init"};

	for (size_t i = 0; i < ARRAY_SIZE(engine); i++)
		TRY(check_inner(outer, engine[i], err));
	return STATUS_OK;
}

/* @skip is the index of @outer among the volumes. */
static enum status check_outer(const task_t *task, const char *outer, size_t skip, struct error *err)
{
	const Holdfast__Driver__V1__CsiPluginMount *plugin = task->csi_plugin;
	const value_t *paths = find_config(task, "host_paths");

	for (size_t i = 0; i < task->n_volumes; i++)
		if (i != skip)
			TRY(check_inner(outer, task->volumes[i]->destination, err));
	if (paths && paths->n_map > TASK_MOUNTS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "it has %zu host_paths, at most %d are allowed with a bidirectional mount",
				 paths->n_map, TASK_MOUNTS_MAX);
	for (size_t i = 0; paths && i < paths->n_map; i++)
		TRY(check_inner(outer, paths->map[i]->value, err));
	if (plugin)
		TRY(check_inner(outer,
				plugin->destination[0] != '\0' ? plugin->destination : CSI_PLUGIN_MOUNT_DIR,
				err));
	return check_engine(outer, err);
}

enum status task_mounts_check(const task_t *task, bool is_container, const char *stage, struct error *err)
{
	bool may_mount = !is_container || can_mount(task);

	if (task->n_volumes > TASK_MOUNTS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "it has %zu volume mounts, at most %d are allowed", task->n_volumes,
				 TASK_MOUNTS_MAX);
	if (stage)
		TRY(check_outer(task, stage, SIZE_MAX, err));
	for (size_t i = 0; i < task->n_volumes; i++) {
		const char *outer = task->volumes[i]->destination;

		if (task->volumes[i]->propagation !=
		    HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL)
			continue;
		if (!may_mount)
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "destination %.128s is bidirectional, but the task cannot mount "
					 "without CAP_SYS_ADMIN in cap_add: use propagation host-to-task",
					 outer);
		TRY(check_outer(task, outer, i, err));
		if (stage)
			TRY(check_inner(outer, stage, err));
	}
	return STATUS_OK;
}
