/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses a job with a task that every node's driver would refuse. */
#include "job/job_limits.h"

#include "base/str.h"
#include "model/feasibility.h"
#include "state/state.h"

enum {
	LINES_MAX = 5,	  /* an error has room for about as many */
	LOOKS_MAX = 4096, /* at nodes, for all tasks of a job together */
};

/* Adds a line for a node whose driver lacks something; false: the driver offers all. */
static bool add_lack(const struct wanted_task *wanted, enum network_mode network, const char *node_id,
		     const char *field, size_t n_before, struct error *err)
{
	char reason[FEASIBILITY_REASON_SIZE];
	struct error one;

	if (!feasibility_find_lack(wanted, network, node_id, reason))
		return false;
	if (n_before >= LINES_MAX)
		return true;
	(void)error_invalid(&one, field, "%s", reason);
	(void)error_collect(n_before == 0 ? STATUS_OK : STATUS_INVALID_ARGUMENT, STATUS_INVALID_ARGUMENT,
			    &one, err);
	return true;
}

/* A task has the id only in an allocation of several plugins. */
static const char *plugin_id_of(const Holdfast__V1__Allocation *alloc,
				const Holdfast__Driver__V1__TaskConfig *task)
{
	if (!task->csi_plugin)
		return NULL;
	return task->csi_plugin->id[0] == '\0' && alloc->n_csi_plugins > 0 ? alloc->csi_plugins[0]->id
									   : task->csi_plugin->id;
}

/* A task is not refused if @looks_left ends before the nodes: it may wait. */
static enum status check_task(const struct state *state, const Holdfast__V1__Allocation *alloc,
			      const Holdfast__Driver__V1__TaskConfig *task, const char *field,
			      size_t *looks_left, struct error *err)
{
	enum network_mode network =
		alloc->network ? (enum network_mode)alloc->network->mode : NETWORK_UNSPECIFIED;
	struct node_entry *node = state_node_from((struct state *)(uintptr_t)state, "");
	size_t n = 0;

	for (; node && *looks_left > 0; node = state_node_next(node), --*looks_left) {
		const struct wanted_task wanted = {task, node_driver(node, task->driver),
						   plugin_id_of(alloc, task)};

		if (!wanted.driver || !wanted.driver->capabilities)
			continue;
		if (!add_lack(&wanted, network, node->id, field, n, err))
			return STATUS_OK;
		n++;
	}
	return n > 0 && !node ? STATUS_INVALID_ARGUMENT : STATUS_OK;
}

enum status job_check_limits(const struct state *state, const Holdfast__V1__Job *job, struct error *err)
{
	enum status status = STATUS_OK;
	size_t looks_left = LOOKS_MAX;

	for (size_t i = 0; i < job->n_groups; i++) {
		const Holdfast__V1__Allocation *alloc = job->groups[i]->allocation;

		for (size_t k = 0; k < alloc->n_tasks; k++) {
			char field[ERROR_FIELD_SIZE];
			struct error one;

			(void)str_format(field, sizeof(field), "group %.40s.task %.40s", job->groups[i]->name,
					 alloc->tasks[k]->task);
			enum status judged =
				check_task(state, alloc, alloc->tasks[k], field, &looks_left, &one);
			status = error_collect(status, judged, &one, err);
		}
	}
	return status;
}
