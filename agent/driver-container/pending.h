/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The orders that started containers, a file each in the driver's state folder until the container is gone.
 * The next run of the driver knows the containers by their ids, also if the engine has forgotten them. One
 * that was not compared yet it compares, whether the agent shows the order again or not.
 *
 * An order that is done starts its container again only by this file, which DestroyTask marks: the list of
 * orders may forget the end of a task whose container it could not remove. */

#include "order_check.h"

#include "base/error.h"

/** @name and @id of the container. Durable when it returns STATUS_OK. */
enum status pending_put(const char *state_dir, const char *name, const char *id, const struct taken *taken,
			struct error *err);
void pending_remove(const char *state_dir, const char *name);

/** Marks the file of a container whose task ends, durably and in its place, which needs no room on the disk.
 * Does nothing for a container without a file. */
enum status pending_end(const char *state_dir, const char *name, struct error *err);

/** May the container be started by the order of @nonce? A file of another order does not count.
 * @is_done whether the order is: then not without a file, since it was not started before */
bool pending_may_start(const char *state_dir, const char *name, const uint8_t nonce[static ORDER_NONCE_SIZE],
		       bool is_done);

/** Notes that the comparison of the container is over. If that fails, the next run of the driver compares it.
 * @started_ms when the run began that was compared; 0: it ended before */
void pending_settle(const char *state_dir, const char *name, int64_t started_ms);

/** Was this run of the container compared with the order of @nonce that started it? */
bool pending_was_compared(const char *state_dir, const char *name,
			  const uint8_t nonce[static ORDER_NONCE_SIZE], int64_t started_ms);

/** Calls @visit for each file: @taken NULL, with @err, for one that holds no order of this version.
 * Where @taken is set, its body belongs to @visit; NULL: its comparison is over. */
typedef void pending_fn(const char *name, const char *id, const struct taken *taken, const struct error *err,
			void *userdata);
enum status pending_each(const char *state_dir, pending_fn *visit, void *userdata, struct error *err);
