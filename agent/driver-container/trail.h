/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The driver's own record of orders and refusals: a log whose lines are chained, base/chain_log.h. */

#include "base/error.h"
#include "privileged/keyline.h"

struct trail;

/** @folder the driver's own; trail.log and trail.lock in it
 * @ret owned by the caller, trail_free() */
enum status trail_open(const char *folder, const char *cluster, const char *node, struct trail **ret,
		       struct error *err);
void trail_free(struct trail *trail);

/** Durable when it returns STATUS_OK. */
enum status trail_write(struct trail *trail, const struct keyline *record, struct error *err);
