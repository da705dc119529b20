/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* May a plugin be called for a volume now?
 *
 * Drivers remove their target recursively: where two mounts stand one upon the other they unmount the upper
 * one and delete through the other, which is the volume. Two come to exist there when a call was lost (the
 * plugin died, its child mounts on) and is repeated. So:
 *   - after a lost call nothing is called for the volume before what may be left of it has ended;
 *   - whatever takes a mount away is called only where exactly one, or none, is seen;
 *   - a repeated call that mounted is followed by a look.
 * The agent undoes nothing here: what is stacked is for a person to look at. */

#include "base/error.h"
#include "csi/csi_method.h"

#include <stdbool.h>
#include <sys/types.h>

enum {
	GUARD_QUIET_MS = 2000, /* no mount has changed below the volume's folder */
	GUARD_WAIT_MS = 30000, /* at most, for processes that may be none of the volume */
};

struct volume_op;

/** A call begins, of the plugin with this process; to be told before each. */
void volume_guard_begin(struct volume_op *op, pid_t plugin);

/** It ended without saying what became of it. */
void volume_guard_lost(struct volume_op *op);

/** Is something left of a lost call that may still mount? STATUS_OK: no. STATUS_ABORTED: ask again after a
 * pause.
 * @plugin process of the instance that would be called; 0: not known */
enum status volume_guard_wait(struct volume_op *op, pid_t plugin, struct error *err);

/** Before a call that takes a mount away. STATUS_FAILED_PRECONDITION when more is mounted than the plugin has
 * been asked for. */
enum status volume_guard_before(struct volume_op *op, enum csi_method method, struct error *err);

/** After a call that mounts has succeeded; looks only if it was not the first. Likewise. */
enum status volume_guard_after(struct volume_op *op, enum csi_method method, struct error *err);
