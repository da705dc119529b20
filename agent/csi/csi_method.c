/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_method.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <assert.h>
#include <csi/v1/csi.pb-c.h>
#include <csi_addons/fence.pb-c.h>
#include <csi_addons/identity.pb-c.h>
#include <stddef.h>

enum {
	ASK_US = 10 * USEC_PER_SEC,   /* of what a plugin answers out of its memory */
	INFO_US = 30 * USEC_PER_SEC,  /* NodeGetInfo may ask the provider */
	WORK_US = 120 * USEC_PER_SEC, /* mkfs, mount, a provider's API: what Nomad and the kubelet give it */
};

/* clang-format off */
#define METHOD_OF(package_, service_, Name, message_, timeout_, ...)         \
	{                                                                    \
		.name = #Name,                                               \
		.service = &package_##__##service_##__descriptor,            \
		.request = &package_##__##message_##_request__descriptor,    \
		.response = &package_##__##message_##_response__descriptor,  \
		.timeout_us = (timeout_),                                    \
		__VA_ARGS__                                                  \
	}
#define METHOD(...) METHOD_OF(csi__v1, __VA_ARGS__)
#define FENCE(...) METHOD_OF(fence, fence_controller, __VA_ARGS__)

const struct service_method csi_methods[CSI_METHOD_N] = {
	[CSI_GET_PLUGIN_INFO] = METHOD(identity, GetPluginInfo, get_plugin_info, ASK_US, .is_about_health = true),
	[CSI_GET_PLUGIN_CAPABILITIES] = METHOD(identity, GetPluginCapabilities, get_plugin_capabilities, ASK_US, .is_about_health = true),
	[CSI_PROBE] = METHOD(identity, Probe, probe, ASK_US, .is_about_health = true),
	[CSI_CREATE_VOLUME] = METHOD(controller, CreateVolume, create_volume, WORK_US),
	[CSI_DELETE_VOLUME] = METHOD(controller, DeleteVolume, delete_volume, WORK_US),
	[CSI_CONTROLLER_PUBLISH_VOLUME] =
		METHOD(controller, ControllerPublishVolume, controller_publish_volume, WORK_US),
	[CSI_CONTROLLER_UNPUBLISH_VOLUME] =
		METHOD(controller, ControllerUnpublishVolume, controller_unpublish_volume, WORK_US),
	[CSI_VALIDATE_VOLUME_CAPABILITIES] =
		METHOD(controller, ValidateVolumeCapabilities, validate_volume_capabilities, WORK_US),
	[CSI_LIST_VOLUMES] = METHOD(controller, ListVolumes, list_volumes, WORK_US),
	[CSI_CONTROLLER_GET_CAPABILITIES] =
		METHOD(controller, ControllerGetCapabilities, controller_get_capabilities, ASK_US),
	[CSI_CREATE_SNAPSHOT] = METHOD(controller, CreateSnapshot, create_snapshot, WORK_US),
	[CSI_DELETE_SNAPSHOT] = METHOD(controller, DeleteSnapshot, delete_snapshot, WORK_US),
	[CSI_LIST_SNAPSHOTS] = METHOD(controller, ListSnapshots, list_snapshots, WORK_US),
	[CSI_CONTROLLER_EXPAND_VOLUME] =
		METHOD(controller, ControllerExpandVolume, controller_expand_volume, WORK_US),
	[CSI_NODE_STAGE_VOLUME] = METHOD(node, NodeStageVolume, node_stage_volume, WORK_US),
	[CSI_NODE_UNSTAGE_VOLUME] = METHOD(node, NodeUnstageVolume, node_unstage_volume, WORK_US),
	[CSI_NODE_PUBLISH_VOLUME] = METHOD(node, NodePublishVolume, node_publish_volume, WORK_US),
	[CSI_NODE_UNPUBLISH_VOLUME] = METHOD(node, NodeUnpublishVolume, node_unpublish_volume, WORK_US),
	[CSI_NODE_EXPAND_VOLUME] = METHOD(node, NodeExpandVolume, node_expand_volume, WORK_US),
	[CSI_NODE_GET_CAPABILITIES] = METHOD(node, NodeGetCapabilities, node_get_capabilities, ASK_US),
	[CSI_NODE_GET_INFO] = METHOD(node, NodeGetInfo, node_get_info, INFO_US),
	[CSI_NODE_GET_VOLUME_STATS] = METHOD(node, NodeGetVolumeStats, node_get_volume_stats, ASK_US),
	[CSI_ADDONS_GET_CAPABILITIES] =
		METHOD_OF(identity, identity, GetCapabilities, get_capabilities, ASK_US, .is_about_health = true),
	[CSI_GET_FENCE_CLIENTS] = FENCE(GetFenceClients, get_fence_clients, INFO_US),
	[CSI_FENCE_CLUSTER_NETWORK] = FENCE(FenceClusterNetwork, fence_cluster_network, WORK_US),
	[CSI_UNFENCE_CLUSTER_NETWORK] = FENCE(UnfenceClusterNetwork, unfence_cluster_network, WORK_US),
	[CSI_LIST_CLUSTER_FENCE] = FENCE(ListClusterFence, list_cluster_fence, INFO_US),
};
/* clang-format on */

/* Calls that change nothing: nothing can have happened. */
static bool only_asks(enum csi_method method)
{
	switch (method) {
	case CSI_GET_PLUGIN_INFO:
	case CSI_GET_PLUGIN_CAPABILITIES:
	case CSI_PROBE:
	case CSI_VALIDATE_VOLUME_CAPABILITIES:
	case CSI_LIST_VOLUMES:
	case CSI_CONTROLLER_GET_CAPABILITIES:
	case CSI_LIST_SNAPSHOTS:
	case CSI_NODE_GET_CAPABILITIES:
	case CSI_NODE_GET_INFO:
	case CSI_NODE_GET_VOLUME_STATS:
	case CSI_ADDONS_GET_CAPABILITIES:
	case CSI_GET_FENCE_CLIENTS:
	case CSI_LIST_CLUSTER_FENCE:
		return true;
	case CSI_CREATE_VOLUME:
	case CSI_DELETE_VOLUME:
	case CSI_CONTROLLER_PUBLISH_VOLUME:
	case CSI_CONTROLLER_UNPUBLISH_VOLUME:
	case CSI_CREATE_SNAPSHOT:
	case CSI_DELETE_SNAPSHOT:
	case CSI_CONTROLLER_EXPAND_VOLUME:
	case CSI_NODE_STAGE_VOLUME:
	case CSI_NODE_UNSTAGE_VOLUME:
	case CSI_NODE_PUBLISH_VOLUME:
	case CSI_NODE_UNPUBLISH_VOLUME:
	case CSI_NODE_EXPAND_VOLUME:
	case CSI_FENCE_CLUSTER_NETWORK:
	case CSI_UNFENCE_CLUSTER_NETWORK:
	case CSI_METHOD_N:
		break;
	}
	return false;
}

struct verdict {
	enum csi_outcome outcome;
	bool is_passing;
};

/* The outcome of each code unless the method has its own. "spec" refers to its "Error Scheme". The codes that
 * leave a call possibly in flight are those of the kubelet and the CSI sidecars (IsFinalError): CANCELLED,
 * DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED. */
static const struct verdict by_code[STATUS_N] = {
	[STATUS_OK] = {CSI_UNKNOWN, false}, /* no failure; asked by mistake */
	/* a plugin that is ordered to stop cancels what it does */
	[STATUS_CANCELLED] = {CSI_UNKNOWN, true},
	/* not in the spec: any exception of the plugin's language, half way; quirks P4: VAST's "Method not
	 * implemented!", P10: "Directory not empty" */
	[STATUS_UNKNOWN] = {CSI_UNKNOWN, false},
	/* spec: "Caller MUST fix the request" */
	[STATUS_INVALID_ARGUMENT] = {CSI_NOT_DONE, false},
	[STATUS_DEADLINE_EXCEEDED] = {CSI_UNKNOWN, true}, /* spec "Timeouts"; quirks: wire 4, P9 */
	/* "MUST verify that the volume_id is correct": the same request has no hope */
	[STATUS_NOT_FOUND] = {CSI_GONE, false},
	/* there is one already, of another kind: "Caller MUST fix the arguments" */
	[STATUS_ALREADY_EXISTS] = {CSI_NOT_DONE, false},
	[STATUS_PERMISSION_DENIED] = {CSI_NOT_DONE, false}, /* spec: an administrator's task */
	/* in no general table, hence gRPC's meaning: too much at once. Our own client also returns it if the
	 * answer to a completed call is too large. */
	[STATUS_RESOURCE_EXHAUSTED] = {CSI_UNKNOWN, true},
	/* "in use", "exceeds capabilities": something else must be done first */
	[STATUS_FAILED_PRECONDITION] = {CSI_NOT_DONE, false},
	/* spec: "Operation pending for volume", "retry with exponential back off"; quirks P11 */
	[STATUS_ABORTED] = {CSI_UNKNOWN, true},
	[STATUS_OUT_OF_RANGE] = {CSI_NOT_DONE, false}, /* "MUST fix the capacity range" */
	/* spec: "Caller MUST NOT retry"; quirks P3: expected from any call */
	[STATUS_UNIMPLEMENTED] = {CSI_NOT_DONE, false},
	/* half way through; quirks P4: democratic-csi's "not supported", P7: host-path's "in use" */
	[STATUS_INTERNAL] = {CSI_UNKNOWN, false},
	/* the connection, or the plugin's backend; quirks P1: with its text from the first time on */
	[STATUS_UNAVAILABLE] = {CSI_UNKNOWN, true},
	[STATUS_DATA_LOSS] = {CSI_UNKNOWN, false},
	[STATUS_UNAUTHENTICATED] = {CSI_NOT_DONE, false}, /* spec: fix the secrets first */
};

struct exception {
	enum csi_method method;
	enum status status;
	struct verdict verdict;
};

/* Codes with another meaning in the "Errors" table of a method. */
static const struct exception exceptions[] = {
	/* "Source does not exist": the source is missing, not the volume */
	{CSI_CREATE_VOLUME, STATUS_NOT_FOUND, {CSI_NOT_DONE, false}},
	/* "Caller MUST ensure that whatever is preventing volumes from being provisioned [...] is
	 * addressed" */
	{CSI_CREATE_VOLUME, STATUS_RESOURCE_EXHAUSTED, {CSI_UNKNOWN, false}},
	/* in no table; the source, again */
	{CSI_CREATE_SNAPSHOT, STATUS_NOT_FOUND, {CSI_NOT_DONE, false}},
	/* "Not enough space": "Caller SHOULD fail this request" */
	{CSI_CREATE_SNAPSHOT, STATUS_RESOURCE_EXHAUSTED, {CSI_UNKNOWN, false}},
	/* "published to another node": "retry with exponential back off", and that node may be leaving it */
	{CSI_CONTROLLER_PUBLISH_VOLUME, STATUS_FAILED_PRECONDITION, {CSI_NOT_DONE, true}},
	/* drivers return these codes, with mount's error text, for a failed mount: the file server may be
	 * away for a minute. An error that no retry can repair has codes of its own. */
	{CSI_NODE_STAGE_VOLUME, STATUS_UNKNOWN, {CSI_UNKNOWN, true}},
	{CSI_NODE_STAGE_VOLUME, STATUS_INTERNAL, {CSI_UNKNOWN, true}},
	{CSI_NODE_PUBLISH_VOLUME, STATUS_UNKNOWN, {CSI_UNKNOWN, true}},
	{CSI_NODE_PUBLISH_VOLUME, STATUS_INTERNAL, {CSI_UNKNOWN, true}},
	/* "Exceeds capabilities" on this node: another use of it may be leaving; of the second also "Caller
	 * MUST make sure call to NodeStageVolume is made" */
	{CSI_NODE_STAGE_VOLUME, STATUS_FAILED_PRECONDITION, {CSI_NOT_DONE, true}},
	{CSI_NODE_PUBLISH_VOLUME, STATUS_FAILED_PRECONDITION, {CSI_NOT_DONE, true}},
	/* "Plugin not healthy": the next probe shows it */
	{CSI_PROBE, STATUS_FAILED_PRECONDITION, {CSI_NOT_DONE, true}},
	/* "Invalid starting_token": start again with an empty one; quirks P11 */
	{CSI_LIST_VOLUMES, STATUS_ABORTED, {CSI_NOT_DONE, false}},
	{CSI_LIST_SNAPSHOTS, STATUS_ABORTED, {CSI_NOT_DONE, false}},
	/* the answer is too large: the same page again is, too */
	{CSI_LIST_VOLUMES, STATUS_RESOURCE_EXHAUSTED, {CSI_NOT_DONE, false}},
	{CSI_LIST_SNAPSHOTS, STATUS_RESOURCE_EXHAUSTED, {CSI_NOT_DONE, false}},
};

static struct verdict verdict_of(enum csi_method method, enum status status)
{
	struct verdict verdict = by_code[(unsigned int)status < STATUS_N ? status : STATUS_UNKNOWN];

	for (size_t i = 0; i < ARRAY_SIZE(exceptions); i++)
		if (exceptions[i].method == method && exceptions[i].status == status)
			verdict = exceptions[i].verdict;
	if (only_asks(method) && !(method == CSI_VALIDATE_VOLUME_CAPABILITIES && status == STATUS_NOT_FOUND))
		verdict.outcome = CSI_NOT_DONE;
	return verdict;
}

enum csi_outcome csi_outcome(enum csi_method method, enum status status)
{
	return verdict_of(method, status).outcome;
}

bool csi_is_passing(enum csi_method method, enum status status)
{
	return verdict_of(method, status).is_passing;
}
