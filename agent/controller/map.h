/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Converts a PluginCall of the server to a CSI request, and the CSI response to a PluginReply. Pure.
 *
 * A plugin is asked only for capabilities that it announced. An answer is never cut: one that is too large is
 * STATUS_INTERNAL, since the plugin may have carried out the request. */

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

/** Returns the time limit of the plugin, so that its answer is back before the server gives up after
 * @timeout_ms; 0 for 0, which sets no limit. */
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
		Fence__ListClusterFenceRequest list_fenced;
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

/** Fills @ret, which must stay where it is, for a call that controller_check() allows; not NodeExpandVolume,
 * which the volume manager makes. It borrows from @call. STATUS_INVALID_ARGUMENT if the request must not be
 * made unchanged. */
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

/** Fills @ret for a call that failed. @err borrowed. True: a removal failed with NOT_FOUND. Its reply is a
 * marked success, because NOT_FOUND is no proof by the specification. */
bool controller_reply_fail(const Holdfast__V1__PluginCall *call, const struct error *err,
			   struct controller_reply *ret);

/** Fill @ret for NodeExpandVolume. @bytes 0: unknown */
void controller_reply_node_expand(const Holdfast__V1__PluginCall *call, uint64_t bytes,
				  struct controller_reply *ret);

void controller_reply_release(struct controller_reply *reply);
