/* SPDX-License-Identifier: Apache-2.0 */
/* Health of an allocation, as the status of its tasks shows it. */
#include "model/alloc_health.h"

#include "base/str.h"
#include "model/task.h"

#include <assert.h>

typedef Holdfast__Driver__V1__TaskConfig task_config;
typedef Holdfast__Driver__V1__TaskStatus task_status;

static const task_status *find_status(const struct alloc *alloc, const char *task)
{
	for (size_t i = 0; i < message_list_n(alloc->task_status); i++) {
		const task_status *status = (const void *)alloc->task_status->messages[i];

		if (str_eq(status->task, task))
			return status;
	}
	return NULL;
}

static bool has_succeeded(const task_status *status)
{
	const Holdfast__Driver__V1__ExitResult *result = status->result;

	return status->state == HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_EXITED && result &&
	       result->exit_code == 0 && result->signal == 0 && !result->oom_killed &&
	       result->error[0] == '\0';
}

static enum alloc_health task_health(const task_config *task, const task_status *status)
{
	if (status && has_succeeded(status))
		return ALLOC_HEALTHY;
	if (!status || status->state != HOLDFAST__DRIVER__V1__TASK_STATE__TASK_STATE_RUNNING)
		return ALLOC_TASK_DOWN;
	if (!task->health || str_eq(status->health, "healthy"))
		return ALLOC_HEALTHY;
	return str_eq(status->health, "unhealthy") ? ALLOC_CHECK_FAILS : ALLOC_CHECK_STARTS;
}

enum alloc_health alloc_health(const struct alloc *alloc, const char **ret_task)
{
	*ret_task = "";
	if (alloc->client_status != CLIENT_RUNNING)
		return ALLOC_NOT_RUNNING;
	for (size_t i = 0; i < message_list_n(alloc->tasks); i++) {
		const task_config *task = alloc_task(alloc, i);
		enum alloc_health health = task_health(task, find_status(alloc, task->task));

		if (health == ALLOC_HEALTHY)
			continue;
		*ret_task = task->task;
		return health;
	}
	return ALLOC_HEALTHY;
}

const char *alloc_health_reason(enum alloc_health health)
{
	static const char *const reasons[ALLOC_HEALTH_N] = {
		[ALLOC_HEALTHY] = "",
		[ALLOC_NOT_RUNNING] = "it does not run",
		[ALLOC_TASK_DOWN] = "a task does not run",
		[ALLOC_CHECK_STARTS] = "a health check has not passed yet",
		[ALLOC_CHECK_FAILS] = "a health check fails",
	};

	assert(health < ALLOC_HEALTH_N);
	return reasons[health];
}

const char *alloc_health_text(const struct alloc *alloc, char ret[static ALLOC_HEALTH_TEXT_SIZE])
{
	const char *task;
	enum alloc_health health = alloc_health(alloc, &task);

	(void)str_format(ret, ALLOC_HEALTH_TEXT_SIZE, "%s%s%.63s", alloc_health_reason(health),
			 task[0] != '\0' ? ": task " : "", task);
	return ret;
}

/* A task that was restarted between two reports was not healthy in between. */
static bool was_restarted(const struct alloc *alloc, const struct alloc *before)
{
	for (size_t i = 0; i < message_list_n(alloc->task_status); i++) {
		const task_status *is = (const void *)alloc->task_status->messages[i];
		const task_status *was = find_status(before, is->task);

		if (was && is->restarts != was->restarts)
			return true;
	}
	return false;
}

void alloc_note_times(struct alloc *alloc, const struct alloc *before, int64_t now_ms)
{
	enum client_status was = before ? before->client_status : CLIENT_PENDING;
	const char *task;
	bool is_healthy = alloc_health(alloc, &task) == ALLOC_HEALTHY;

	if (alloc->client_status == CLIENT_RUNNING && was != CLIENT_RUNNING)
		alloc->running_time_ms = now_ms;
	if (alloc_is_client_terminal(alloc) && alloc->end_time_ms == 0)
		alloc->end_time_ms = now_ms;
	if (!is_healthy && alloc->healthy_time_ms != 0 && alloc->unhealthy_time_ms == 0)
		alloc->unhealthy_time_ms = now_ms;
	if (is_healthy && (alloc->healthy_time_ms == 0 || alloc->unhealthy_time_ms != 0 ||
			   (before && was_restarted(alloc, before)))) {
		alloc->healthy_time_ms = now_ms;
		alloc->unhealthy_time_ms = 0;
	}
}
