/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The event of a log line, by an id that does not change: MESSAGE_ID= and HOLDFAST_EVENT= of the journal,
 * event= of logfmt. */

#include "journal_events.h"

#define LOG_EVENT_ENUM(symbol, name, id, result, level, end) LOG_EVENT_##symbol,

enum log_event {
	LOG_EVENT_NONE, /* of no class */
	JOURNAL_EVENTS_SERVER(LOG_EVENT_ENUM) JOURNAL_EVENTS_AGENT(LOG_EVENT_ENUM)
		JOURNAL_EVENTS_HELPER(LOG_EVENT_ENUM) LOG_EVENT_N,
};

struct log_event_info {
	const char *name;   /* "claim-granted" */
	const char *id;	    /* 32 lower-case hex digits */
	const char *result; /* "success", "failed", or NULL: neither */
	int level, end;	    /* priorities of its lines, LOG_NOTICE for instance; end is that of a good one */
};

/** Returns NULL for LOG_EVENT_NONE and for values outside the enum. */
const struct log_event_info *log_event_info(enum log_event event);

/** Returns the priority of a line of @event that its writer gives @priority: the table's. LOG_EVENT_NONE: as
 * it is given. */
int log_event_priority(enum log_event event, int priority);
