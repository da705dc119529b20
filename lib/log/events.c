/* SPDX-License-Identifier: Apache-2.0 */
#include "log/events.h"

#include <stddef.h>
#include <syslog.h>

#define LOG_EVENT_ROW(symbol, name, id, result, level, end) \
	[LOG_EVENT_##symbol] = {name, id, result, LOG_##level, LOG_##end},

static const struct log_event_info events[LOG_EVENT_N] = {JOURNAL_EVENTS_SERVER(
	LOG_EVENT_ROW) JOURNAL_EVENTS_AGENT(LOG_EVENT_ROW) JOURNAL_EVENTS_HELPER(LOG_EVENT_ROW)};

const struct log_event_info *log_event_info(enum log_event event)
{
	return event > LOG_EVENT_NONE && event < LOG_EVENT_N ? &events[event] : NULL;
}

int log_event_priority(enum log_event event, int priority)
{
	const struct log_event_info *info = log_event_info(event);

	if (!info)
		return priority;
	return priority == info->end ? info->end : info->level;
}
