/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_log.h"

#include "base/cleanup.h"

#include <assert.h>

/* Why comes behind it. */
static const struct {
	enum log_event event;
	int priority;
	const char *what;
} rows[] = {
	{LOG_EVENT_UNIT_RUNS, LOG_NOTICE, "is active, invocation "},
	{LOG_EVENT_UNIT_ENDED, LOG_NOTICE, "has ended by itself, with success"},
	{LOG_EVENT_UNIT_STOPPED, LOG_NOTICE, "has stopped"},
	{LOG_EVENT_UNIT_FAILED, LOG_ERR, "could not be started, or failed"},
	{LOG_EVENT_UNIT_REFUSED, LOG_ERR, "is refused"},
	{LOG_EVENT_UNIT_WAITS, LOG_WARNING, "is tried again"},
};

void task_log(const struct task_told *told)
{
	const struct log_ctx ctx = {
		.alloc = told->alloc_id,
		.unit = told->unit,
		.op = "unit",
		.event = told->event,
		.err = told->err,
	};
	size_t i = 0;

	while (i < ARRAY_SIZE(rows) && rows[i].event != told->event)
		i++;
	assert(i < ARRAY_SIZE(rows));
	log_ctx(rows[i].priority, &ctx, "unit %s %s%s", told->unit, rows[i].what,
		told->invocation ? told->invocation : "");
}
