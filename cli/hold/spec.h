/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The file of `holdfast volume hold NAME`: an allocation with one volume, for this node. */

#include "command/command.h"

#include <holdfast/v1/types.pb-c.h>

/** Loads the allocation at @path, with --namespace and --node, for the node of this machine: the one that
 * @agent_settings (and its drop-ins) names; without such a file the specification must name it. Mistakes are
 * STATUS_INVALID_ARGUMENT, with the line where there is one; a file that cannot be read has its own status.
 * @ret owned by the caller, protobuf_c_message_free_unpacked(); its id is empty */
enum status hold_spec_load(struct invocation *inv, const char *path, const char *agent_settings,
			   Holdfast__V1__Allocation **ret, struct error *err);

/** hold_spec_load() of the unit holdfast-volume@@name.service, where it is installed. */
enum status hold_spec_load_named(struct invocation *inv, const char *name, Holdfast__V1__Allocation **ret,
				 struct error *err);

enum { HOLD_NODE_SIZE = 256 };

/** Returns the node of this machine from the agent's settings and their drop-ins; "": there are no settings,
 * or not every user may read them. */
enum status hold_own_node(const char *agent_settings, char ret[static HOLD_NODE_SIZE], struct error *err);
