/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The driver's own record of orders and refusals: a log whose lines are chained, base/chain_log.h. */

#include "base/error.h"
#include "privileged/keyline.h"

#include <stdbool.h>
#include <stdint.h>

struct trail;

/** @folder the driver's own; trail.log and trail.lock in it
 * @ret owned by the caller, trail_free() */
enum status trail_open(const char *folder, const char *cluster, const char *node, struct trail **ret,
		       struct error *err);
void trail_free(struct trail *trail);

/** Returns whether another refusal may be recorded at @now_us, monotonic. The limit keeps a client from
 * filling the disk. If true, @ret_skipped counts those not recorded since the last one. */
bool trail_has_room(struct trail *trail, uint64_t now_us, uint64_t *ret_skipped);

/** Returns whether another use of an order that was used before may be recorded: each allocation has its own
 * limit, so that a task that restarts without end delays no other tenant's.
 * @alloc of ORDER_UUID_SIZE bytes */
bool trail_has_room_again(struct trail *trail, const uint8_t *alloc, uint64_t now_us);

/** Durable when it returns STATUS_OK. Continues in the file that has the trail's name by then. */
enum status trail_write(struct trail *trail, const struct keyline *record, struct error *err);
