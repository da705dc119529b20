/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The last events of an allocation, for people: what became of it, oldest first, bounded. Each is part of the
 * write of what it tells; none costs one of its own. */

#include "model/alloc.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum { ALLOC_EVENTS_MAX = 10, ALLOC_EVENT_TEXT_MAX = 255 };

/** Add an event to one that has its own lists; the oldest gives way.
 * @task empty: of none
 * @text for people, cut at ALLOC_EVENT_TEXT_MAX
 * False when memory is short: nothing has changed. */
bool alloc_add_event(struct alloc *alloc, Holdfast__V1__AllocationEventType type, const char *task,
		     const char *text, int64_t now_ms);

/** Add what has happened between @before and @alloc, which has its own lists.
 * @before NULL: it is new */
bool alloc_note_events(struct alloc *alloc, const struct alloc *before, int64_t now_ms);
