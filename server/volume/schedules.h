/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Snapshots that the server that leads makes and removes by itself, as the `snapshots` of a volume asks for.
 * Only the records of the snapshots are stored: schedule_next() of lib/model finds the next step from them,
 * so another leader continues where this one was. The cause of the last failure is in memory only. */

#include "base/error.h"
#include "state/change.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schedules;
struct server;

enum {
	SCHEDULE_GRACE_MS = 30 * 1000, /* after a server began to lead: controllers are coming back */
	SCHEDULE_LOOK_MIN_MS = 1000,
	SCHEDULE_LOOK_MAX_MS = 60 * 1000, /* the clock of records may jump */
	SCHEDULE_RETRY_MIN_MS = 60 * 1000,
	SCHEDULE_RETRY_MAX_MS = 3600 * 1000,
	SCHEDULE_CALLS_MAX = 4, /* side by side, for one plugin */
	SCHEDULES_WARNING_SIZE = 1024,
};

enum status schedules_new(struct server *server, struct schedules **ret, struct error *err);

/** After the calls to plugins have ended. NULL is allowed. */
void schedules_free(struct schedules *schedules);

/** A volume has got a schedule. See struct change_observer. */
void schedules_note_durable(struct server *server, struct change_object *objects, size_t n,
			    uint64_t revision);

struct schedules_count {
	uint64_t schedules, failing;	/* now */
	uint64_t made, removed, failed; /* since this server began to lead */
};
struct schedules_count schedules_count(const struct server *server);

/** For operator status; false if no schedule fails. */
bool schedules_warning(const struct server *server, char ret[static SCHEDULES_WARNING_SIZE]);
