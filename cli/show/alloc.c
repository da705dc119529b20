/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"
#include "show/show.h"

#include <inttypes.h>
#include <stdio.h>

static const char *desired(const Holdfast__V1__Allocation *a, char text[static PBJSON_WORD_SIZE])
{
	return pbjson_word_text(&holdfast__v1__desired_status__descriptor, (int)a->desired_status, text);
}

static const char *client(const Holdfast__V1__Allocation *a, char text[static PBJSON_WORD_SIZE])
{
	return pbjson_word_text(&holdfast__v1__client_status__descriptor, (int)a->client_status, text);
}

enum status show_allocs(Holdfast__V1__Allocation *const *allocs, size_t n, const char *title, bool verbose,
			struct error *err)
{
	static const struct column columns[] = {
		{.name = "ID"},	       {.name = "NAME"},
		{.name = "NAMESPACE"}, {.name = "NODE"},
		{.name = "DESIRED"},   {.name = "STATUS", .is_state = true},
		{.name = "AGE"},       {.name = "DESCRIPTION", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0) {
		if (!title)
			print_line("no allocations");
		return STATUS_OK;
	}
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__Allocation *a = allocs[i];
		char wanted[PBJSON_WORD_SIZE], status[PBJSON_WORD_SIZE], age[AGE_SIZE];

		table_add(table,
			  (const char *const[]){a->id, a->name, a->namespace_, a->node_id, desired(a, wanted),
						client(a, status), age_text(a->create_time_ms, now_ms, age),
						a->client_description});
	}
	return table_print(table, title, err);
}

static const Holdfast__V1__AllocVolume *find_published(const Holdfast__V1__Allocation *alloc,
						       const char *name)
{
	for (size_t i = 0; i < alloc->n_published; i++)
		if (str_eq(alloc->published[i]->name, name))
			return alloc->published[i];
	return NULL;
}

/* "ext4, flags": what the flags are is told to nobody. */
static const char *options_text(const Holdfast__V1__MountOptions *options, char *text, size_t size)
{
	if (!options)
		return "";
	(void)snprintf(text, size, "%s%s%s", options->fs_type,
		       options->fs_type[0] && options->n_mount_flags > 0 ? ", " : "",
		       options->n_mount_flags > 0 ? "flags" : "");
	return text;
}

static enum status show_requests(const Holdfast__V1__Allocation *alloc, struct error *err)
{
	static const struct column columns[] = {
		{.name = "NAME"},      {.name = "VOLUME"},	  {.name = "ACCESS MODE"},
		{.name = "READ ONLY"}, {.name = "PROPAGATION"},	  {.name = "PUBLISHED AT"},
		{.name = "AS"},	       {.name = "MOUNT OPTIONS"},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (alloc->n_volumes == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < alloc->n_volumes; i++) {
		const Holdfast__V1__VolumeRequest *v = alloc->volumes[i];
		char mode[PBJSON_WORD_SIZE], propagation[PBJSON_WORD_SIZE], options[64];
		const Holdfast__V1__AllocVolume *published = find_published(alloc, v->name);
		table_add(table,
			  (const char *const[]){v->name, v->source,
						pbjson_word_text(&holdfast__v1__access_mode__descriptor,
								 (int)v->access_mode, mode),
						v->read_only ? "read only" : "",
						pbjson_word_text(&holdfast__v1__propagation__descriptor,
								 (int)v->propagation, propagation),
						published ? published->path : "",
						published && published->is_device ? "block device" : "",
						options_text(v->mount_options, options, sizeof(options))});
	}
	return table_print(table, "volumes", err);
}

static void show_mount_timeout(const Holdfast__V1__Allocation *alloc)
{
	char text[CLOCK_TEXT_SIZE];

	if (alloc->mount_timeout_ms > 0)
		print_field("mount timeout",
			    clock_format_duration(alloc->mount_timeout_ms * USEC_PER_MSEC, text));
}

static void show_unit(const Holdfast__V1__Allocation *alloc)
{
	char text[CLOCK_TEXT_SIZE];

	if (!alloc->unit[0])
		return;
	print_field("unit", alloc->unit);
	if (alloc->stop_timeout_ms > 0)
		print_field("stop timeout",
			    clock_format_duration(alloc->stop_timeout_ms * USEC_PER_MSEC, text));
}

static void show_csi_plugin(const Holdfast__V1__CsiPlugin *plugin)
{
	char type[PBJSON_WORD_SIZE];

	if (!plugin)
		return;
	print_field("runs CSI plugin", plugin->id);
	print_field("plugin type",
		    pbjson_word_text(&holdfast__v1__csi_plugin_type__descriptor, (int)plugin->type, type));
	if (plugin->socket[0])
		print_field("plugin socket", plugin->socket);
}

static void show_network(const Holdfast__V1__AllocationNetwork *network)
{
	char mode[PBJSON_WORD_SIZE];

	if (network)
		print_field("network", pbjson_word_text(&holdfast__driver__v1__network_mode__descriptor,
							(int)network->mode, mode));
}

static const Holdfast__Driver__V1__TaskStatus *find_task(const Holdfast__V1__Allocation *alloc,
							 const char *name)
{
	for (size_t i = 0; i < alloc->n_task_status; i++)
		if (str_eq(alloc->task_status[i]->task, name))
			return alloc->task_status[i];
	return NULL;
}

/* "exit 3", "signal 9", "out of memory", or why it never ran. */
static const char *result_text(const Holdfast__Driver__V1__ExitResult *result,
			       char text[static PBJSON_WORD_SIZE])
{
	if (!result)
		return "";
	if (result->error[0])
		return result->error;
	if (result->oom_killed)
		return "out of memory";
	if (result->signal)
		(void)snprintf(text, PBJSON_WORD_SIZE, "signal %u", result->signal);
	else
		(void)snprintf(text, PBJSON_WORD_SIZE, "exit %d", result->exit_code);
	return text;
}

static enum status show_tasks(const Holdfast__V1__Allocation *alloc, struct error *err)
{
	static const struct column columns[] = {
		{.name = "NAME"},    {.name = "DRIVER"}, {.name = "STATE", .is_state = true},
		{.name = "STARTED"}, {.name = "ENDED"},	 {.name = "RESULT", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (alloc->n_tasks == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < alloc->n_tasks; i++) {
		const Holdfast__Driver__V1__TaskConfig *task = alloc->tasks[i];
		const Holdfast__Driver__V1__TaskStatus *status = find_task(alloc, task->task);
		char state[PBJSON_WORD_SIZE], result[PBJSON_WORD_SIZE], started[AGE_SIZE], ended[AGE_SIZE];

		table_add(table,
			  (const char *const[]){
				  task->task, task->driver,
				  status ? pbjson_word_text(&holdfast__driver__v1__task_state__descriptor,
							    (int)status->state, state)
					 : "not started",
				  status && status->started_ms ? age_text(status->started_ms, now_ms, started)
							       : "",
				  status && status->completed_ms
					  ? age_text(status->completed_ms, now_ms, ended)
					  : "",
				  status ? result_text(status->result, result) : ""});
	}
	return table_print(table, "tasks", err);
}

static enum status show_events(const Holdfast__V1__Allocation *alloc, struct error *err)
{
	static const struct column columns[] = {
		{.name = "EVENT"}, {.name = "AGE"}, {.name = "TASK"}, {.name = "DETAILS", .is_wide = true}};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (alloc->n_events == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < alloc->n_events; i++) {
		const Holdfast__V1__AllocationEvent *event = alloc->events[i];
		char type[PBJSON_WORD_SIZE], age[AGE_SIZE];

		table_add(table, (const char *const[]){
					 pbjson_word_text(&holdfast__v1__allocation_event_type__descriptor,
							  (int)event->type, type),
					 age_text(event->time_ms, now_ms, age), event->task, event->text});
	}
	return table_print(table, "events", err);
}

static void show_job(const Holdfast__V1__Allocation *alloc)
{
	char text[512];

	if (!alloc->job_id[0])
		return;
	(void)snprintf(text, sizeof(text), "%.128s, group %.128s[%" PRIu32 "], version %" PRIu64,
		       alloc->job_id, alloc->job_group, alloc->job_index, alloc->job_version);
	print_field("job", text);
}

enum status show_alloc(const Holdfast__V1__Allocation *alloc, int64_t node_disconnected_ms, struct error *err)
{
	int64_t now_ms = clock_realtime_ms();
	char text[PBJSON_WORD_SIZE], age[AGE_SIZE];

	if (!alloc)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no allocation");
	print_field("ID", alloc->id);
	print_field("name", alloc->name);
	print_field("namespace", alloc->namespace_);
	print_field("node", alloc->node_id);
	show_job(alloc);
	if (alloc->n_tasks == 0) /* each task has one of its own */
		print_field("driver", alloc->driver);
	show_mount_timeout(alloc);
	show_unit(alloc);
	show_csi_plugin(alloc->csi_plugin);
	for (size_t i = 0; i < alloc->n_more_csi_plugins; i++)
		show_csi_plugin(alloc->more_csi_plugins[i]);
	show_network(alloc->network);
	print_field("desired", desired(alloc, text));
	print_field("status", client(alloc, text));
	if (node_disconnected_ms)
		print_line("its node has not been connected for %s: the status is what was known then",
			   age_text(node_disconnected_ms, now_ms, age));
	if (alloc->client_description[0])
		print_field("description", alloc->client_description);
	print_field("age", age_text(alloc->create_time_ms, now_ms, age));
	print_field("changed", age_text(alloc->modify_time_ms, now_ms, age));
	TRY(show_requests(alloc, err));
	TRY(show_tasks(alloc, err));
	return show_events(alloc, err);
}
