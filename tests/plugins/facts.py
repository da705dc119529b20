# SPDX-License-Identifier: Apache-2.0
"""Facts of CSI that both fronts and the driver share: codes, calls, and what has to be announced for each."""

CODES = {
    "OK": 0, "CANCELLED": 1, "UNKNOWN": 2, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5,
    "ALREADY_EXISTS": 6, "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10,
    "OUT_OF_RANGE": 11, "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14, "DATA_LOSS": 15,
    "UNAUTHENTICATED": 16,
}

SERVICES = {
    "Identity": ["GetPluginInfo", "GetPluginCapabilities", "Probe"],
    "Controller": [
        "CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume",
        "ValidateVolumeCapabilities", "ListVolumes", "GetCapacity", "ControllerGetCapabilities", "CreateSnapshot",
        "DeleteSnapshot", "ListSnapshots", "ControllerExpandVolume", "ControllerGetVolume",
    ],
    "Node": [
        "NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeGetVolumeStats",
        "NodeExpandVolume", "NodeGetCapabilities", "NodeGetInfo",
    ],
}
# csi-addons, which a plugin serves if the setting "addons" is there: the service, and its package.
ADDONS = {
    "identity.Identity": ["GetCapabilities"],
    "fence.FenceController": ["FenceClusterNetwork", "UnfenceClusterNetwork", "ListClusterFence", "GetFenceClients"],
}
SERVICE_OF = {method: service for service, methods in (SERVICES | ADDONS).items() for method in methods}

# Which service a plugin of a kind serves.
KINDS = {
    "monolith": ["Identity", "Controller", "Node"],
    "controller": ["Identity", "Controller"],
    "node": ["Identity", "Node"],
}

CONTROLLER_CAPABILITIES = [
    "CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "LIST_VOLUMES", "GET_CAPACITY", "CREATE_DELETE_SNAPSHOT",
    "LIST_SNAPSHOTS", "CLONE_VOLUME", "PUBLISH_READONLY", "EXPAND_VOLUME", "LIST_VOLUMES_PUBLISHED_NODES",
    "GET_VOLUME", "SINGLE_NODE_MULTI_WRITER",
]
NODE_CAPABILITIES = ["STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", "EXPAND_VOLUME", "SINGLE_NODE_MULTI_WRITER"]

# Calls that may be made only after the half announced the capability.
NEEDS = {
    "CreateVolume": "CREATE_DELETE_VOLUME",
    "DeleteVolume": "CREATE_DELETE_VOLUME",
    "ControllerPublishVolume": "PUBLISH_UNPUBLISH_VOLUME",
    "ControllerUnpublishVolume": "PUBLISH_UNPUBLISH_VOLUME",
    "ListVolumes": "LIST_VOLUMES",
    "GetCapacity": "GET_CAPACITY",
    "CreateSnapshot": "CREATE_DELETE_SNAPSHOT",
    "DeleteSnapshot": "CREATE_DELETE_SNAPSHOT",
    "ListSnapshots": "LIST_SNAPSHOTS",
    "ControllerExpandVolume": "EXPAND_VOLUME",
    "ControllerGetVolume": "GET_VOLUME",
    "NodeStageVolume": "STAGE_UNSTAGE_VOLUME",
    "NodeUnstageVolume": "STAGE_UNSTAGE_VOLUME",
    "NodeGetVolumeStats": "GET_VOLUME_STATS",
    "NodeExpandVolume": "EXPAND_VOLUME",
}


class CsiError(Exception):
    """What the plugin answers instead of a response."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = CODES[code] if isinstance(code, str) else code
        self.text = text


def volume_of(request):
    """The volume that a call is about, or an empty text."""
    return request.get("volume_id") or request.get("source_volume_id") or ""


def announced(service, wishes):
    """Capabilities of a half, as far as the settings leave them."""
    whole = {"Controller": CONTROLLER_CAPABILITIES, "Node": NODE_CAPABILITIES}.get(service, [])
    return [name for name in whole if name not in wishes["settings"].get("without", [])]
