/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the journal is told of the unit of an allocation, each by an event of its own. */

#include "log/log.h"

struct task_told {
	enum log_event event; /* LOG_EVENT_UNIT_* */
	const char *unit;
	const char *alloc_id;
	const char *invocation;	 /* LOG_EVENT_UNIT_RUNS alone */
	const struct error *err; /* why; NULL: nothing went wrong */
};

void task_log(const struct task_told *told);
