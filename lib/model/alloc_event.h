/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The last events of an allocation, for people: its history, oldest first, bounded. The write of a change
 * contains its event, so an event costs no write of its own. */

#include "model/alloc.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum { ALLOC_EVENTS_MAX = 10, ALLOC_EVENT_TEXT_MAX = 255 };

/** Add an event to one that has its own lists; the oldest is dropped.
 * @task may be empty
 * @text for people, cut at ALLOC_EVENT_TEXT_MAX
 * False without memory: nothing has changed. */
bool alloc_add_event(struct alloc *alloc, Holdfast__V1__AllocationEventType type, const char *task,
		     const char *text, int64_t now_ms);

/** Add the changes between @before and @alloc, which has its own lists.
 * @before NULL: it is new */
bool alloc_note_events(struct alloc *alloc, const struct alloc *before, int64_t now_ms);
