/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls to the plugin of a volume: their preconditions and their messages. */

#include "model/volume_detail.h"
#include "plugin/controller.h"
#include "state/state.h"

/** Checks that the volume's plugin is known, and that a healthy controller runs if it needs one. Native
 * volumes: always OK. STATUS_FAILED_PRECONDITION for an unreported plugin, STATUS_UNAVAILABLE without a
 * controller. @ret_has_controller whether the plugin has one that can be asked */
enum status volume_check_plugin(struct server *server, const struct volume *volume, bool *ret_has_controller,
				struct error *err);

/* An ability of a controller: a field of struct controller_half, and its text. */
struct volume_ability {
	size_t offset;
	const char *words; /* "create and delete volumes" */
};

extern const struct volume_ability VOLUME_CAN_CREATE, VOLUME_CAN_EXPAND, VOLUME_CAN_LIST, VOLUME_CAN_SNAPSHOT,
	VOLUME_CAN_LIST_SNAPSHOTS;

/** STATUS_FAILED_PRECONDITION when the plugin is not known or its controller cannot do this,
 * STATUS_UNAVAILABLE when no healthy controller is connected. */
enum status volume_check_ability(struct server *server, const char *plugin_id,
				 const struct volume_ability *ability, struct error *err);

/** Capabilities as messages. */
struct volume_capabilities {
	Holdfast__V1__Capability values[VOLUME_CAPABILITIES_MAX];
	Holdfast__V1__Capability *list[VOLUME_CAPABILITIES_MAX];
};
/* The calls below are made about @parts, which is borrowed for their duration; @wanted and @done as of
 * controller_call().
 */

enum status volume_call_validate(struct server *server, struct volume_parts *parts, controller_done_fn *done,
				 void *userdata, struct error *err);
enum status volume_call_create(struct server *server, struct volume_parts *parts, char *name,
			       controller_wanted_fn *wanted, controller_done_fn *done, void *userdata,
			       struct error *err);
enum status volume_call_delete(struct server *server, struct volume_parts *parts,
			       controller_wanted_fn *wanted, controller_done_fn *done, void *userdata,
			       struct error *err);

/** @capability NULL: the volume is unused. */
enum status volume_call_expand(struct server *server, struct volume_parts *parts,
			       const struct capability *capability, controller_done_fn *done, void *userdata,
			       struct error *err);

/** Expands the file system on the node of @claim. The node gets stored secrets only as
 * plugin_args_node_secrets() has it. */
enum status volume_call_node_expand(struct server *server, struct volume_parts *parts,
				    const struct claim *claim, controller_done_fn *done, void *userdata,
				    struct error *err);
