/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The steps of one operation on a volume, for the manager that queues it. */

#include "volume/op_state.h"

enum { VOLUME_LOOK_MS = 10000 }; /* for the look at a fresh publish */

/** Applies @event to the operation, by the table of steps. The operation may be gone afterwards. */
void volume_op_handle(struct volume_op *op, enum volume_op_event event, const struct error *err);

/** Ends an operation that was cancelled: true, and it may be gone. */
bool volume_op_end_if_cancelled(struct volume_op *op);

/** Is nothing in flight for it but a pause before the same step once more? */
bool volume_op_is_pausing(const struct volume_op *op);

/** Returns the name of the plugin's call in @state: "NodeStageVolume", ...; NULL: no call. */
const char *volume_plugin_call_name(enum volume_op_state state);
