/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The queues of volume operations: one queue per volume, in order of arrival, with one operation in flight.
 */

#include "volume/op_state.h"

/** Queues a copy of @init. @ret is gone after its callback */
enum status volume_queue_add(struct volume_manager *manager, const struct volume_op *init,
			     struct volume_op **ret, struct error *err);

/** Has the volume operations? */
bool volume_queue_exists(const struct volume_manager *manager, const char *wire_volume);

/** Removes the next queue whose first operation may begin from those that wait for that; NULL when no such
 * queue is left.
 */
struct volume_queue *volume_queue_take(struct volume_manager *manager);

/** Schedules manager->dispatch. */
void volume_queue_kick(struct volume_manager *manager);

/** Cancels the operation's wait for a plugin and its call of one; no events. */
void volume_plugin_stop(struct volume_op *op);

/** Removes an operation whose steps are over and runs its callback. */
void volume_op_finish(struct volume_op *op, const struct error *err);

/** Makes an operation wait for its next try; other operations of the volume begin meanwhile. */
void volume_op_retry(struct volume_op *op);

/** Removes an operation without a callback. */
void volume_op_free(struct volume_op *op);
