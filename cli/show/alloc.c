/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "show/rows.h"
#include "show/show.h"

typedef Holdfast__V1__Allocation Alloc;

DEFINE_ROWS(show_allocs, holdfast__v1__allocation, "no allocations; --all lists ended ones, too",
	    COL("ID", "{id}"), COL("NAME", "{name}"), COL("NAMESPACE", "{namespace}"),
	    COL("NODE", "{node_id}"), COL("DESIRED", "{desired_status}"),
	    COL_STATE("STATUS", "{client_status}"), COL("AGE", "{create_time_ms:age}"),
	    COL("DESCRIPTION", "{client_description}"));

/* A request, by where it is published. Mount flags are not shown: they may hold secrets. */
static DEFINE_ROWS_OF(request_table, holdfast__v1__alloc_volume, &holdfast__v1__volume_request__descriptor,
		      NULL, COL("NAME", "{^name}"), COL("VOLUME", "{^source}"),
		      COL("ACCESS MODE", "{^access_mode}"), COL("READ ONLY", "{^read_only?read only}"),
		      COL("PROPAGATION", "{^propagation}"), COL("PUBLISHED AT", "{path}"),
		      COL("AS", "{is_device?block device}"),
		      COL("MOUNT OPTIONS",
			  "{^mount_options.fs_type}{^mount_options.mount_flags?{^mount_options.fs_type?, }"
			  "flags}"));

static enum status show_requests(const Alloc *alloc, struct error *err)
{
	cleanup(table_freep) struct table *table = show_table_new(&request_table, false);

	for (size_t i = 0; i < alloc->n_volumes; i++) {
		struct shown shown = {.of = &alloc->volumes[i]->base};

		for (size_t k = 0; !shown.message && k < alloc->n_published; k++)
			if (str_eq(alloc->published[k]->name, alloc->volumes[i]->name))
				shown.message = &alloc->published[k]->base;
		show_table_add(table, &request_table, &shown);
	}
	return alloc->n_volumes > 0 ? table_print(table, "volumes", err) : STATUS_OK;
}

/* A task by its status, if there is one. */
static DEFINE_ROWS_OF(task_table, holdfast__driver__v1__task_status,
		      &holdfast__driver__v1__task_config__descriptor, NULL, COL("NAME", "{^task}"),
		      COL("DRIVER", "{^driver}"), COL_STATE("STATE", "{state?{state}|not started}"),
		      COL_STATE("HEALTH", "{health}"), COL_NUMBER("RESTARTS", "{restarts}"),
		      COL("STARTED", "{started_ms:age}"), COL("ENDED", "{completed_ms:age}"),
		      COL("RESULT", "{result?{result.error?{result.error}|{result.oom_killed?out of "
				    "memory|{result.signal?signal {result.signal}|exit "
				    "{result.exit_code}}}}}"));

static enum status show_tasks(const Alloc *alloc, struct error *err)
{
	cleanup(table_freep) struct table *table = show_table_new(&task_table, false);

	for (size_t i = 0; i < alloc->n_tasks; i++) {
		struct shown shown = {.of = &alloc->tasks[i]->base, .now_ms = clock_realtime_ms()};

		for (size_t k = 0; !shown.message && k < alloc->n_task_status; k++)
			if (str_eq(alloc->task_status[k]->task, alloc->tasks[i]->task))
				shown.message = &alloc->task_status[k]->base;
		show_table_add(table, &task_table, &shown);
	}
	return alloc->n_tasks > 0 ? table_print(table, "tasks", err) : STATUS_OK;
}

static DEFINE_ROWS(csi_plugin_page, holdfast__v1__csi_plugin, NULL, COL("runs CSI plugin", "{id}"),
		   COL("plugin type", "{type}"), COL_SET("plugin socket", "{socket}"));

static DEFINE_ROWS_OF(
	alloc_page, holdfast__v1__allocation, &holdfast__v1__get_allocation_response__descriptor, NULL,
	COL("ID", "{id}"), COL("name", "{name}"), COL("namespace", "{namespace}"), COL("node", "{node_id}"),
	COL_SET("job", "{job_id?{job_id}, group {job_group}[{job_index}], version {job_version}}"),
	COL_WHEN("{tasks?|y}", "driver", "{driver}"), /* each task has one of its own */
	COL_SET("mount timeout", "{mount_timeout_ms:duration}"), COL_SET("unit", "{unit}"),
	COL_WHEN("{on_node_loss?y}", "on node loss",
		 "{on_node_loss.do}{on_node_loss.after_ms? after {on_node_loss.after_ms:duration}}"),
	COL_SET("stop timeout", "{unit?{stop_timeout_ms:duration}}"), PART("csi_plugins", &csi_plugin_page),
	COL_WHEN("{network?y}", "network", "{network.mode}"), COL("desired", "{desired_status}"),
	COL("status", "{client_status}"),
	COL_SET("healthy", "{tasks?{unhealthy_time_ms?no, since {unhealthy_time_ms:age}|{healthy_time_ms?for "
			   "{healthy_time_ms:age}}}}"),
	LINE("{^node_disconnected_ms?y}", "its node has not been connected for {^node_disconnected_ms:age}: "
					  "the status is of that time"),
	LINE("{^history_error?y}", "claims that are freed are left out: {^history_error}"),
	COL_SET("description", "{client_description}"), COL("age", "{create_time_ms:age}"),
	COL("changed", "{modify_time_ms:age}"));

static DEFINE_ROWS(event_table, holdfast__v1__allocation_event, NULL, COL("EVENT", "{type}"),
		   COL("AGE", "{time_ms:age}"), COL("TASK", "{task}"), COL("DETAILS", "{text}"));

enum status show_alloc(const Holdfast__V1__GetAllocationResponse *answer, struct error *err)
{
	const Alloc *alloc = answer->allocation;

	if (!alloc)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no allocation");
	TRY(show_page(&alloc_page, alloc, answer, false, err));
	TRY(show_requests(alloc, err));
	TRY(show_tasks(alloc, err));
	return show_list(&event_table, "events", alloc->events, alloc->n_events, false, err);
}
