/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A process that starts another one again when that is killed. What systemd does with Restart= reaches the
 * units that are bound to this one (they are stopped, and with BindsTo= not started again); this does not. */

/** Go on in a child, and return there. The parent stays in here: it hands SIGTERM and SIGINT on, has a child
 * that was killed by a signal followed by another one, and exits with the child's exit code, or with 1 when
 * too many were killed in a short time. In the child those signals and SIGCHLD are blocked. */
void hold_watch(void);
