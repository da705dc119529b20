/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Arguments of calls to a CSI plugin, from a claim and its volume's stored details. */

#include "alloc/options.h"
#include "state/state.h"

#include <holdfast/v1/plugin_call.pb-c.h>

struct plugin_detach_args {
	Holdfast__V1__PluginCall call;
	Holdfast__V1__ControllerDetachRequest detach;
	char external_id[EXTERNAL_ID_MAX + 1];
	char external_node_id[EXTERNAL_NODE_ID_MAX + 1];
};

struct plugin_attach_args {
	Holdfast__V1__PluginCall call;
	Holdfast__V1__ControllerAttachRequest attach;
	Holdfast__V1__Capability capability;
	struct alloc_mount_options options;
	char external_id[EXTERNAL_ID_MAX + 1];
	char external_node_id[EXTERNAL_NODE_ID_MAX + 1];
};

/** Makes the call, in @args; it borrows from @args and from the state, until the next change. Uses only the
 * claim and the volume: node and plugin may be gone. NULL for a claim that was adopted after a restore, if
 * the provider's name of the node or the volume is unknown to the claim, the node and the volume's
 * registration. */
const Holdfast__V1__PluginCall *plugin_detach_args(struct state *state, const struct claim *claim,
						   struct plugin_detach_args *args);

/** @can_read_only: the controller knows read-only attachments. NULL as above. */
const Holdfast__V1__PluginCall *plugin_attach_args(struct state *state, const struct claim *claim,
						   bool can_read_only, struct plugin_attach_args *args);

/** The provider's id of the node of @claim, which a detach names; "": not known. Borrowed until the next
 * change. */
const char *plugin_args_node_id(struct state *state, const struct claim *claim);

/** Does the provider know the nodes of both claims by one id? An unknown id is of one node only. */
bool plugin_args_same_node(struct state *state, const struct claim *a, const struct claim *b);

/** The provider's id of the volume of @claim: of an adopted claim its volume's, as a node may have invented
 * the claim's. "": not known yet. Borrowed until the next change. */
const char *plugin_args_external_id(struct state *state, const struct claim *claim);

/** Returns the details stored with a volume; NULL: no details. Borrowed until their next change. */
const Holdfast__V1__VolumeDetail *plugin_args_detail(struct state *state, const char *namespace,
						     const char *id);
const Holdfast__V1__VolumeSecrets *plugin_args_secrets(struct state *state, const char *namespace,
						       const char *id);

/** The same for the node of @claim: NULL too, unless the server's own allocation asks for the volume. Claims
 * and other allocations may be inventions of the node. */
const Holdfast__V1__VolumeSecrets *plugin_args_node_secrets(struct state *state, const struct claim *claim);
