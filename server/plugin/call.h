/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The kinds of calls to a CSI plugin: what each is called, which answer fits, which go one at a time. */

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>

/** CSI's name of the call, "ControllerPublishVolume"; NULL when no request is set. */
const char *plugin_call_name(const Holdfast__V1__PluginCall *call);

/** Must it not overlap with another such call to the same plugin? Source: nomad-facts 3. */
bool plugin_call_is_serial(const Holdfast__V1__PluginCall *call);

/** Does @reply carry the response of the request's kind? */
bool plugin_call_fits(const Holdfast__V1__PluginCall *call, const Holdfast__V1__PluginReply *reply);
