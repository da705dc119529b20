/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "unit/task_internal.h"
#include "unit/task_log.h"
#include "unit/task_text.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static void on_up(void *userdata)
{
	struct tasks *tasks = userdata;
	struct task *task;

	LIST_FOREACH (task, &tasks->all, entry)
		task_attach(task);
}

static void on_down(void *userdata)
{
	struct tasks *tasks = userdata;
	struct task *task;

	LIST_FOREACH (task, &tasks->all, entry)
		task_detach(task);
}

static const struct task_bus_events bus_events = {.on_up = on_up, .on_down = on_down};

enum status tasks_new(sd_event *event, const struct tasks_options *options, struct tasks **ret,
		      struct error *err)
{
	struct tasks *tasks = calloc(1, sizeof(*tasks));
	enum status status;

	if (!tasks)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot keep units");
	tasks->event = event;
	tasks->options = *options;
	LIST_INIT(&tasks->all);
	status = task_bus_new(event, &bus_events, tasks, &tasks->bus, err);
	if (status != STATUS_OK) {
		free(tasks);
		return status;
	}
	*ret = tasks;
	return STATUS_OK;
}

void tasks_free(struct tasks *tasks)
{
	if (!tasks)
		return;
	assert(LIST_EMPTY(&tasks->all));
	task_bus_free(tasks->bus);
	free(tasks);
}

static bool is_listed(const struct tasks *tasks, const char *unit)
{
	for (size_t i = 0; i < TASK_UNITS_MAX && tasks->options.units[i][0] != '\0'; i++) {
		if (str_eq(tasks->options.units[i], unit))
			return true;
	}
	return false;
}

static enum status check(const struct tasks *tasks, const struct task_request *request, struct error *err)
{
	const struct task *other;

	if (!is_listed(tasks, request->unit))
		return task_text_unlisted(request->unit, tasks->options.file, err);
	LIST_FOREACH (other, &tasks->all, entry) {
		if (str_eq(other->unit, request->unit))
			return error_set(err, STATUS_ALREADY_EXISTS, 0,
					 "unit %s is that of allocation %s on this node; stop that one first "
					 "(holdfast alloc stop %s)",
					 request->unit, other->alloc_id, other->alloc_id);
	}
	return STATUS_OK;
}

enum status tasks_check(const struct tasks *tasks, const struct task_request *request, struct error *err)
{
	struct error refusal;
	enum status status = check(tasks, request, &refusal);

	if (status == STATUS_OK)
		return status;
	task_log(&(struct task_told){.event = LOG_EVENT_UNIT_REFUSED,
				     .unit = request->unit,
				     .alloc_id = request->alloc_id,
				     .err = &refusal});
	if (err)
		*err = refusal;
	return status;
}
