/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds publishes whose server does not answer: a user-space file server that died, a server that forgot the
 * directory, one that is silent. Looks on demand, logs each once, and remembers it for the status. It repairs
 * nothing: the remedy depends on the other uses of the mount. */

#include "alloc/allocs.h"
#include "base/error.h"

#include <systemd/sd-event.h>

enum {
	STALE_LOOK_MS = 2000,
	STALE_TEXT_SIZE = 512,
};

struct stale;

/** Everything that can be known now is known. */
typedef void stale_done_fn(void *userdata);

/** @event borrowed. @ret owned by the caller, stale_free() */
enum status stale_new(sd_event *event, struct stale **ret, struct error *err);

/** Frees it, and notifies the waiting callers before this returns. NULL is allowed. */
void stale_free(struct stale *stale);

/** Looks at every publish of @allocs with a server behind it, or joins the looks in flight.
 * @done runs once, from the event loop, at most STALE_LOOK_MS later; NULL: no caller waits
 * Returns false when there is nothing to wait for; @done does not run then. */
bool stale_look(struct stale *stale, const struct allocs *allocs, stale_done_fn *done, void *userdata);

/** Writes why no server answers behind the publish of @alloc_id at @path, and the command that repairs it;
 * empty when no problem is known. */
void stale_text(const struct stale *stale, const char *path, const char *alloc_id,
		char ret[static STALE_TEXT_SIZE]);
