/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Plugins of a node as a model, put in the place of plugins.h by the linker: one is healthy exactly when the
 * model of the plugin behind it (fake_csi.h) is up. Nothing is probed. */

#include "fake_csi.h"

#include "plugins/plugins.h"

/** @event borrowed. plugins_free() */
struct plugins *fake_plugins_new(sd_event *event);

/** A plugin with a node service, whose facts are as the model announces them. */
void fake_plugins_add(struct plugins *plugins, const char *plugin_id, struct fake_csi_plugin *model);

/** The model announces other things by now, as after a restart of the plugin. */
void fake_plugins_look_again(struct plugins *plugins, const char *plugin_id);
