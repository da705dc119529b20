/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Decides whether a plugin may be called for a volume now.
 *
 * Drivers remove their target recursively: if two mounts are stacked there, they unmount the upper one and
 * delete through the other, which is the volume. A stack is made if a call was lost (the plugin died, its
 * child mounts on) and is repeated. So:
 *   - after a lost call no call is made for the volume before its remains have ended;
 *   - a call that takes a mount away is made only if one mount is seen, or no mount;
 *   - a repeated call that mounted is followed by a look.
 * The agent undoes nothing here: a person must look at stacked mounts. */

#include "base/error.h"
#include "csi/csi_method.h"

#include <stdbool.h>
#include <sys/types.h>

enum {
	GUARD_QUIET_MS = 2000, /* no mount has changed below the volume's folder */
	GUARD_WAIT_MS = 30000, /* at most, for processes that may not belong to the volume */
};

struct volume_op;

/** Records the begin of a call to the plugin with this process; needed before each call. */
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
