/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One plugin step of a task: wait for the plugin, or call it, and let the task go on with what came of it.
 *
 * A mount repeats calls that failed in passing, for a while; an unmount repeats at once, before anything else
 * of the volume, what may have been carried out, and begins anew after what was not. That a plugin is not
 * here is a failure, never "nothing there". */

#include "base/error.h"
#include "volume/op.h"

struct volume_task;

/** Do @action: VOLUME_OP_WAIT_PLUGIN or one of VOLUME_OP_PLUGIN_*. Ends with an event. */
void volume_plugin_begin(struct volume_task *task, enum volume_op_action action);

/** What the plugin is called for in @state: "NodeStageVolume", ...; NULL: nothing. */
const char *volume_plugin_call_name(enum volume_op_state state);

/** The plugin says that it has mounted something, the helper sees nothing. */
void volume_plugin_mounted_nothing(const struct volume_task *task, struct error *err);

/** Forget wait and call; no events. */
void volume_plugin_stop(struct volume_task *task);
