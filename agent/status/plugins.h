/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The CSI plugins in what `holdfast agent status` shows. */

#include "plugins/plugins.h"

#include <holdfast/v1/agent.pb-c.h>
#include <stdbool.h>

/** A row per instance, and one without a socket for a plugin that has none. False when memory is short. */
bool report_put_plugins(Holdfast__V1__GetAgentStatusResponse *report, const struct plugins *plugins);
