/* SPDX-License-Identifier: Apache-2.0 */
#include "log/events.h"

#include <stddef.h>

#define LOG_EVENT_ROW(symbol, name, id, result) [LOG_EVENT_##symbol] = {name, id, result},

static const struct log_event_info events[LOG_EVENT_N] = {JOURNAL_EVENTS_SERVER(
	LOG_EVENT_ROW) JOURNAL_EVENTS_AGENT(LOG_EVENT_ROW) JOURNAL_EVENTS_HELPER(LOG_EVENT_ROW)};

const struct log_event_info *log_event_info(enum log_event event)
{
	return event > LOG_EVENT_NONE && event < LOG_EVENT_N ? &events[event] : NULL;
}
