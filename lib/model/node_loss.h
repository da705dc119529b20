/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The block on_node_loss of a volume, of a group of a job and of an allocation: what the server does by
 * itself when a node that holds a volume is not connected. Pure. */

#include "base/error.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>

enum {
	NODE_LOSS_AFTER_MIN_MS = 5000, /* a session that is opened again is no loss */
	NODE_LOSS_AFTER_MAX_MS = 24 * 3600 * 1000,
};

/** Checks a block; NULL is valid. @is_native: it is only of a volume without a plugin, which no storage can
 * fence. STATUS_INVALID_ARGUMENT names the key. */
enum status node_loss_check(const Holdfast__V1__OnNodeLoss *loss, bool is_native, struct error *err);

/** Does it begin a fence? NULL does not. */
bool node_loss_fences(const Holdfast__V1__OnNodeLoss *loss);

/** Returns the block that counts for one claim, NULL: wait. That of the holder (its group, or its allocation)
 * overrides that of the volume, also with "wait". A holder's network_fence is for volumes of a CSI plugin: a
 * native volume keeps its own block. */
const Holdfast__V1__OnNodeLoss *node_loss_choose(const Holdfast__V1__OnNodeLoss *volume,
						 const Holdfast__V1__OnNodeLoss *holder, bool is_native);
