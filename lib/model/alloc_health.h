/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Health of an allocation: its tasks run, or ended with success, and their health checks pass. Pure. */

#include "model/alloc.h"

#include <stddef.h>

enum alloc_health {
	ALLOC_HEALTHY,
	ALLOC_NOT_RUNNING,  /* the allocation does not run, or not yet */
	ALLOC_TASK_DOWN,    /* a task does not run: it is restarted, or not reported yet */
	ALLOC_CHECK_STARTS, /* a health check has not passed since the task was started */
	ALLOC_CHECK_FAILS,
	ALLOC_HEALTH_N,
};

enum { ALLOC_HEALTH_TEXT_SIZE = 128 };

/** @ret_task  name of the task that is not healthy, borrowed of @alloc; "" of no task */
enum alloc_health alloc_health(const struct alloc *alloc, const char **ret_task);

/** "a health check fails"; empty of ALLOC_HEALTHY. */
const char *alloc_health_reason(enum alloc_health health);

/** "a health check fails: task web"; empty of a healthy one. Returns @ret. */
const char *alloc_health_text(const struct alloc *alloc, char ret[static ALLOC_HEALTH_TEXT_SIZE]);

/** The status of @alloc was @before, in its task_status too: note since when it runs and is healthy, that it
 * is not healthy any longer, or that it has ended. @before NULL: it is new */
void alloc_note_times(struct alloc *alloc, const struct alloc *before, int64_t now_ms);
