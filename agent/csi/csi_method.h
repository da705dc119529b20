/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The calls of CSI 1.12 and of csi-addons that Holdfast makes, one row each: its names, messages, deadline,
 * and when it may be made again. */

#include "base/error.h"
#include "service/client.h"

#include <stdbool.h>

enum csi_method {
	CSI_GET_PLUGIN_INFO,
	CSI_GET_PLUGIN_CAPABILITIES,
	CSI_PROBE,
	CSI_CREATE_VOLUME,
	CSI_DELETE_VOLUME,
	CSI_CONTROLLER_PUBLISH_VOLUME,
	CSI_CONTROLLER_UNPUBLISH_VOLUME,
	CSI_VALIDATE_VOLUME_CAPABILITIES,
	CSI_LIST_VOLUMES,
	CSI_CONTROLLER_GET_CAPABILITIES,
	CSI_CREATE_SNAPSHOT,
	CSI_DELETE_SNAPSHOT,
	CSI_LIST_SNAPSHOTS,
	CSI_CONTROLLER_EXPAND_VOLUME,
	CSI_NODE_STAGE_VOLUME,
	CSI_NODE_UNSTAGE_VOLUME,
	CSI_NODE_PUBLISH_VOLUME,
	CSI_NODE_UNPUBLISH_VOLUME,
	CSI_NODE_EXPAND_VOLUME,
	CSI_NODE_GET_CAPABILITIES,
	CSI_NODE_GET_INFO,
	CSI_NODE_GET_VOLUME_STATS,
	CSI_ADDONS_GET_CAPABILITIES,
	CSI_GET_FENCE_CLIENTS,
	CSI_FENCE_CLUSTER_NETWORK,
	CSI_UNFENCE_CLUSTER_NETWORK,
	CSI_LIST_CLUSTER_FENCE,
	CSI_METHOD_N,
};

/** Indexed by csi_kind. */
extern const struct service_method csi_methods[CSI_METHOD_N];

/* The known effect of a call that failed. Source: CSI 1.12 "Error Scheme"; csi-quirks of real plugins. */
enum csi_outcome {
	CSI_NOT_DONE, /* the plugin refused: nothing has happened */
	/* NOT_FOUND: the volume, snapshot or node does not exist there. No proof of a detach: "not assumed to
	 * be ControllerUnpublished" (specification). From ControllerPublishVolume it often means the node. */
	CSI_GONE,
	CSI_UNKNOWN, /* it may have happened, or may still happen */
	CSI_OUTCOME_N,
};

/** Returns the outcome for @status of the failed call, as the plugin or the transport gave it. Calls that
 * change nothing are never CSI_UNKNOWN. If service_call_start() itself failed, the call was not made. */
enum csi_outcome csi_outcome(enum csi_method method, enum status status);

/** Returns whether a repeat of the same call after a pause may have another result: unavailable, a passed
 * deadline, "operation pending" (ABORTED, where it means that), exhausted resources where the specification
 * asks the caller to retry, and a volume that another node has not left yet. */
bool csi_is_passing(enum csi_method method, enum status status);
