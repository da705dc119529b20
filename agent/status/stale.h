/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Publishes behind which nobody answers: a user-space file server that died, a server that forgot the
 * directory, one that is silent. Looked for on demand, told once each in the log, remembered for the status.
 * Nothing is done about them: what to do depends on what else uses them. */

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

/** Who still waits is told before this returns. NULL is allowed. */
void stale_free(struct stale *stale);

/** Look at every publish of @allocs that a server stands behind, or join the looks in flight.
 * @done runs once, from the event loop, at most STALE_LOOK_MS later; NULL: nobody waits
 * Returns false when there is nothing to wait for; @done does not run then. */
bool stale_look(struct stale *stale, const struct allocs *allocs, stale_done_fn *done, void *userdata);

/** Why nobody answers behind the publish of @alloc_id at @path, and the command that repairs it; empty when
 * nothing is known against it. */
void stale_text(const struct stale *stale, const char *path, const char *alloc_id,
		char ret[static STALE_TEXT_SIZE]);
