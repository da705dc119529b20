/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Requests to the node service of a CSI plugin for one volume of this node. Pure.
 *
 * A request points into its sources and is never freed as a message. */

#include "csi/csi_map.h"
#include "volume/target.h"

#include <csi/v1/csi.pb-c.h>
#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>

enum { CSI_VOLUME_PATH_SIZE = ALLOC_PATH_MAX + 1 };

/* Where a plugin works for one volume. Source: mounthelper_wire.h. */
struct csi_volume_paths {
	char staging[CSI_VOLUME_PATH_SIZE];
	char target[CSI_VOLUME_PATH_SIZE]; /* of one use */
};

/** Fills in the paths in the plugin's folder for the use of @target. STATUS_FAILED_PRECONDITION: the stage
 * base is unknown, or a path is too long. STATUS_INVALID_ARGUMENT: the name of the plugin is no label. */
enum status csi_volume_paths(const char *stage_base, const struct volume_target *target,
			     struct csi_volume_paths *ret, struct error *err);

/* One request with all that it consists of; must stay where it is. */
struct csi_volume_request {
	struct csi_volume_paths paths;
	struct csi_capability capability;
	Csi__V1__CapacityRange range;
	union {
		ProtobufCMessage base;
		Csi__V1__NodeStageVolumeRequest stage;
		Csi__V1__NodePublishVolumeRequest publish;
		Csi__V1__NodeUnpublishVolumeRequest unpublish;
		Csi__V1__NodeUnstageVolumeRequest unstage;
		Csi__V1__NodeExpandVolumeRequest expand;
		Csi__V1__NodeGetVolumeStatsRequest stats;
	} pb;
};

/* All of these fill @ret->pb from @target, borrowed, and @ret->paths, which are there already. Those of a
 * mount need target->details. */
void csi_volume_stage(const struct volume_target *target, struct csi_volume_request *ret);
/** @stages the plugin has staged it */
void csi_volume_publish(const struct volume_target *target, bool stages, struct csi_volume_request *ret);
void csi_volume_unpublish(const struct volume_target *target, struct csi_volume_request *ret);
void csi_volume_stats(const struct volume_target *target, bool stages, struct csi_volume_request *ret);
void csi_volume_unstage(const struct volume_target *target, struct csi_volume_request *ret);

/** @expand borrowed */
void csi_volume_expand(const Holdfast__V1__NodeExpandRequest *expand, bool stages,
		       struct csi_volume_request *ret);
