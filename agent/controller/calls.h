/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls of the server to the plugins of this node: each PluginCall becomes one CSI call, and its end one
 * PluginReply.
 *
 * A call to a half that is not here is answered with not_here, without a call to a plugin. Controller calls
 * are not repeated here: only the server knows the changes in between. The one call to the node service,
 * NodeExpandVolume, is scheduled among the operations of the volume. */

#include "base/error.h"
#include "plugins/plugins.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stddef.h>
#include <systemd/sd-event.h>

enum { CONTROLLER_CALLS_MAX = 256 };

struct controller_calls;
struct volume_manager;

/** @reply borrowed. Never inside controller_calls_take(). */
typedef void controller_reply_fn(const Holdfast__V1__PluginReply *reply, void *userdata);

/** @event, @plugins, @volumes borrowed. @ret owned by the caller. */
enum status controller_calls_new(sd_event *event, struct plugins *plugins, struct volume_manager *volumes,
				 controller_reply_fn *reply, void *userdata, struct controller_calls **ret,
				 struct error *err);

/** Frees the calls without further replies; a plugin may still carry out its request. NULL is allowed. */
void controller_calls_free(struct controller_calls *calls);

/** Answered exactly once, unless controller_calls_drop() comes first. @call borrowed for the duration. */
void controller_calls_take(struct controller_calls *calls, const Holdfast__V1__PluginCall *call);

/** Drops the replies after the end of a session. The calls continue; the server will ask again. */
void controller_calls_drop(struct controller_calls *calls);
