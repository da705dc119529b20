/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A PluginCall of the server as the CSI request that it means, and the CSI response as the PluginReply. Pure.
 *
 * What a plugin did not announce is not asked of it, and nothing of an answer is cut: one that cannot be kept
 * is STATUS_INTERNAL, since the plugin may have done what was asked. */

#include "base/error.h"
#include "csi/csi_map.h"
#include "csi/csi_method.h"
#include "model/node.h"
#include "model/volume_detail.h"
#include "plugins/plugins.h"

#include <csi/v1/csi.pb-c.h>
#include <csi_addons/fence.pb-c.h>
#include <holdfast/v1/plugin_call.pb-c.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONTROLLER_TOKEN_MAX = 4096,		 /* bytes of a page's token */
	CONTROLLER_ENTRIES_MAX = 10000,		 /* of one page of a list */
	CONTROLLER_NODES_MAX = 4096,		 /* that a volume of a list is published on */
	CONTROLLER_REPLY_MAX = (1 << 20) - 4096, /* bytes on the wire: the server reads messages of 1 MiB */
	CONTROLLER_MARGIN_MS = 1000,		 /* that an answer may take back to the server */
};

/** Which call a request is; CSI_METHOD_N when this agent does not know it. */
enum csi_method controller_method(const Holdfast__V1__PluginCall *call);

/** The half of the plugin that serves the call. */
enum plugin_half controller_half_of(const Holdfast__V1__PluginCall *call);

/** How long the plugin may take, so that its answer is back before the server gives up after @timeout_ms; 0
 * of 0, which says nothing. */
uint64_t controller_timeout_us(uint32_t timeout_ms);

/** Does the plugin announce what @call needs? STATUS_UNIMPLEMENTED names plugin and capability. */
enum status controller_check(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
			     struct error *err);

/* A CSI request with all that it consists of. */
struct controller_request {
	union {
		ProtobufCMessage base;
		Csi__V1__ControllerPublishVolumeRequest publish;
		Csi__V1__ControllerUnpublishVolumeRequest unpublish;
		Csi__V1__ValidateVolumeCapabilitiesRequest validate;
		Csi__V1__CreateVolumeRequest create;
		Csi__V1__DeleteVolumeRequest delete;
		Csi__V1__ControllerExpandVolumeRequest expand;
		Csi__V1__ListVolumesRequest list_volumes;
		Csi__V1__CreateSnapshotRequest create_snapshot;
		Csi__V1__DeleteSnapshotRequest delete_snapshot;
		Csi__V1__ListSnapshotsRequest list_snapshots;
		Fence__FenceClusterNetworkRequest fence_network;
		Fence__UnfenceClusterNetworkRequest unfence_network;
	};
	struct csi_capability capabilities[VOLUME_CAPABILITIES_MAX];
	Csi__V1__VolumeCapability *capability_list[VOLUME_CAPABILITIES_MAX];
	Csi__V1__CapacityRange range;
	Csi__V1__VolumeContentSource content;
	Csi__V1__VolumeContentSource__SnapshotSource snapshot;
	Csi__V1__VolumeContentSource__VolumeSource volume;
	Csi__V1__TopologyRequirement topology;
	Csi__V1__Topology topologies[2][VOLUME_TOPOLOGIES_MAX];
	Csi__V1__Topology *topology_lists[2][VOLUME_TOPOLOGIES_MAX];
	Fence__CIDR cidrs[FENCE_CLIENTS_MAX];
	Fence__CIDR *cidr_list[FENCE_CLIENTS_MAX];
};

/** Fill @ret, which must stay where it is, for a call that controller_check() allows; not NodeExpandVolume,
 * which is the volume manager's. It borrows from @call. STATUS_INVALID_ARGUMENT when the request must not be
 * made as it stands. */
enum status controller_request_make(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				    struct controller_request *ret, struct error *err);

struct controller_block;

/* A PluginReply with all that it consists of. */
struct controller_reply {
	Holdfast__V1__PluginReply pb;
	union {
		Holdfast__V1__ControllerAttachResponse attach;
		Holdfast__V1__ControllerDetachResponse detach;
		Holdfast__V1__ControllerValidateResponse validate;
		Holdfast__V1__ControllerCreateResponse create;
		Holdfast__V1__ControllerDeleteResponse delete;
		Holdfast__V1__ControllerExpandResponse expand;
		Holdfast__V1__ControllerListVolumesResponse list_volumes;
		Holdfast__V1__ControllerCreateSnapshotResponse create_snapshot;
		Holdfast__V1__ControllerDeleteSnapshotResponse delete_snapshot;
		Holdfast__V1__ControllerListSnapshotsResponse list_snapshots;
		Holdfast__V1__NodeExpandResponse node_expand;
		Holdfast__V1__ListFencedResponse list_fenced;
	};
	struct controller_block *blocks; /* owned */
};

/** Fill @ret, which must stay where it is until controller_reply_release(), also after a failure. It borrows
 * from @response and @call. STATUS_INTERNAL when the answer breaks the specification or does not fit,
 * STATUS_RESOURCE_EXHAUSTED when it is too long for the server. */
enum status controller_reply_make(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				  const ProtobufCMessage *response, struct controller_reply *ret,
				  struct error *err);

/** Fill @ret for a call that failed. @err borrowed. True: it was NOT_FOUND, and the call was to take away
 * what is not there: a success that says so, as the specification does not take it for proof. */
bool controller_reply_fail(const Holdfast__V1__PluginCall *call, const struct error *err,
			   struct controller_reply *ret);

/** Fill @ret for NodeExpandVolume. @bytes 0: unknown */
void controller_reply_node_expand(const Holdfast__V1__PluginCall *call, uint64_t bytes,
				  struct controller_reply *ret);

void controller_reply_release(struct controller_reply *reply);
