# SPDX-License-Identifier: Apache-2.0
"""A storage provider on one machine: volumes are images (kind ext4 or xfs) or directories (kind bind).

Attaching gives an image a loop device, and says which in the publish context; staging makes a file system where there
is none and mounts it; publishing binds that, or the device itself, to the target. What is remembered is checked against
loop devices and mount table, so that every call may be repeated after a death at any place.
"""

import hashlib
import ipaddress
import os
import shutil
import time

import disk
from facts import CsiError, announced

DEFAULT_BYTES = 16 << 20
LARGEST_BYTES = 1 << 30
PAGE = 2  # entries of a list when nobody says how many
KINDS = ("ext4", "xfs", "bind")
LEAST_BYTES = {"xfs": 304 << 20}  # mkfs makes none smaller
READ_ONLY_MODES = ("SINGLE_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY")
MULTI_NODE_MODES = ("MULTI_NODE_READER_ONLY", "MULTI_NODE_SINGLE_WRITER", "MULTI_NODE_MULTI_WRITER")


def digest(text):
    """Ids hold anything, file names do not."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def mode_of(capability):
    return capability.get("access_mode", {}).get("mode", "UNKNOWN")


def bytes_of(capacity_range):
    return int(capacity_range.get("required_bytes", 0)), int(capacity_range.get("limit_bytes", 0))


class Provider:
    """One call at a time: data is the state, held by the caller."""

    def __init__(self, state, data, node, wishes):
        self.state, self.data, self.node, self.wishes = state, data, node, wishes
        self.settings, self.quirks = wishes["settings"], wishes["quirks"]

    # --- things and their places --------------------------------------------------------------------------

    def image(self, volume_id):
        return self.state.path("data", f"volume-{digest(volume_id)}.img")

    def tree(self, volume_id):
        return self.state.path("data", f"volume-{digest(volume_id)}.dir")

    def snapshot_image(self, snapshot_id):
        return self.state.path("data", f"snapshot-{digest(snapshot_id)}.img")

    def volume(self, request, key="volume_id"):
        volume = self.data["volumes"].get(request.get(key, ""))
        if not volume:
            raise CsiError("NOT_FOUND", f"volume {request.get(key, '')!r} does not exist")
        return volume

    def has(self, service, capability):
        return capability in announced(service, self.wishes)

    def here(self):
        """What this node has staged and published."""
        return self.data["nodes"].setdefault(self.node, {})

    def known_nodes(self):
        return self.settings.get("nodes") or self.data["instances"]

    # --- identity -----------------------------------------------------------------------------------------

    def get_plugin_info(self, _):
        if "P1" in self.quirks:
            raise CsiError("UNAVAILABLE", "Driver is missing version")
        return {"name": self.settings.get("name", "test.holdfast.example"), "vendor_version": "1.0"}

    def get_plugin_capabilities(self, _):
        found = [{"volume_expansion": {"type": "ONLINE"}}]
        if self.settings.get("has_controller", True):
            found.append({"service": {"type": "CONTROLLER_SERVICE"}})
        if self.reach():
            found.append({"service": {"type": "VOLUME_ACCESSIBILITY_CONSTRAINTS"}})
        if "P3" in self.quirks:
            found += [{"service": {"type": 77}}, {"service": {}}, {}, found[0]]
        return {"capabilities": found}

    def probe(self, _):
        return {} if "P2" in self.quirks else {"ready": True}

    def rpc_capabilities(self, service):
        found = [{"rpc": {"type": name}} for name in announced(service, self.wishes)]
        if "P3" in self.quirks:
            found += [{"rpc": {"type": 99}}, {"rpc": {}}, {}, found[0]]
        return {"capabilities": found}

    def controller_get_capabilities(self, _):
        return self.rpc_capabilities("Controller")

    def node_get_capabilities(self, _):
        return self.rpc_capabilities("Node")

    # --- csi-addons: the storage refuses addresses ---------------------------------------------------------

    def clients(self, node):
        """Addresses by which the storage knows a node."""
        return self.settings.get("clients", {}).get(node, [])

    def is_fenced(self, node):
        fenced = [ipaddress.ip_network(cidr) for cidr in self.data.get("fenced", [])]
        return any(ipaddress.ip_network(own).subnet_of(net) for own in self.clients(node) for net in fenced)

    def check_fence(self, node):
        if self.is_fenced(node):
            raise CsiError("PERMISSION_DENIED", f"the storage refuses the addresses of node {node!r}")

    def check_fence_args(self, request):
        """Parameters and secrets that the service wants, if the test wants any."""
        for name, wanted in self.settings.get("fence_args", {}).items():
            if request.get(name, {}) != wanted:
                raise CsiError("UNAUTHENTICATED", f"{name}: wrong or missing: {sorted(request.get(name, {}))}")

    def get_capabilities(self, _):
        return {"capabilities": [{"network_fence": {"type": name}} for name in ("NETWORK_FENCE", "GET_CLIENTS_TO_FENCE")]}

    def get_fence_clients(self, request):
        self.check_fence_args(request)
        return {"clients": [{"id": self.node, "addresses": [{"cidr": own} for own in self.clients(self.node)]}]}

    def fence_cluster_network(self, request):
        """From now on no write of these addresses reaches a volume: what they have staged is cut off."""
        self.check_fence_args(request)
        cidrs = [row["cidr"] for row in request.get("cidrs", [])]
        if not cidrs:
            raise CsiError("INVALID_ARGUMENT", "cidrs must be given")
        self.data["fenced"] = sorted({*self.data.get("fenced", []), *cidrs})
        for node, volumes in self.data["nodes"].items():
            for known in volumes.values() if self.is_fenced(node) else ():
                if known["staging"] and disk.is_mounted(known["staging"]):
                    disk.shut_down(known["staging"])
        return {}

    def unfence_cluster_network(self, request):
        self.check_fence_args(request)
        gone = [row["cidr"] for row in request.get("cidrs", [])]
        self.data["fenced"] = [cidr for cidr in self.data.get("fenced", []) if cidr not in gone]
        return {}

    def list_cluster_fence(self, request):
        self.check_fence_args(request)
        return {"cidrs": [{"cidr": cidr} for cidr in self.data.get("fenced", [])]}

    # --- volumes ------------------------------------------------------------------------------------------

    def new_volume_id(self, name):
        if "P6" in self.quirks:
            return f"127.0.0.1:445/share#{name}/ä##"
        return f"vol-{digest(name)}"

    def describe(self, volume_id):
        volume = self.data["volumes"][volume_id]
        found = {
            "volume_id": volume_id,
            "capacity_bytes": 0 if "P5" in self.quirks else volume["capacity"],
            "volume_context": {"kind": volume["kind"], "made-from": volume["name"]},
        }
        if volume["source"]:
            found["content_source"] = volume["source"]
        topology = volume.get("topology") or self.settings.get("topology")
        if topology:
            found["accessible_topology"] = [{"segments": topology}]
        return found

    def topology(self):
        """Of this node: of its own, or of all."""
        return self.settings.get("topologies", {}).get(self.node) or self.settings.get("topology")

    def reach(self):
        """All topologies that this provider reaches."""
        return list(self.settings.get("topologies", {}).values()) or [t for t in [self.settings.get("topology")] if t]

    def check_size(self, request):
        required, limit = bytes_of(request.get("capacity_range", {}))
        if limit and limit < required:
            raise CsiError("INVALID_ARGUMENT", f"capacity_range: limit {limit} is below what is required, {required}")
        size = required or min(limit or DEFAULT_BYTES, DEFAULT_BYTES)
        if size > self.settings.get("largest_bytes", LARGEST_BYTES):
            raise CsiError("OUT_OF_RANGE", f"capacity_range: no volume of {size} bytes")
        return size

    def choose_topology(self, request):
        """Where a new volume is to be; None when this provider has no topologies."""
        requisite = request.get("accessibility_requirements", {}).get("requisite", [])
        fitting = [own for own in self.reach()
                   if not requisite or any(item.get("segments", {}).items() <= own.items() for item in requisite)]
        if self.reach() and not fitting:
            raise CsiError("RESOURCE_EXHAUSTED", f"accessibility_requirements: this provider reaches {self.reach()} only")
        return fitting[0] if fitting else None

    def fill(self, volume_id, kind, size, source):
        """Make what holds the data, from a snapshot or a volume where one is named."""
        if kind == "bind":
            os.makedirs(self.tree(volume_id), exist_ok=True)
            return
        image = self.image(volume_id)
        if source and not os.path.exists(image):
            if "snapshot" in source:
                begin = self.snapshot_image(source["snapshot"]["snapshot_id"])
            else:
                self.settle(source["volume"]["volume_id"])
                begin = self.image(source["volume"]["volume_id"])
            disk.copy_image(begin, image)
            size = max(size, os.stat(image).st_size)
        disk.make_image(image, size)

    def check_source(self, source):
        if "snapshot" in source and source["snapshot"]["snapshot_id"] not in self.data["snapshots"]:
            raise CsiError("NOT_FOUND", f"snapshot {source['snapshot']['snapshot_id']!r} does not exist")
        if "volume" in source and source["volume"]["volume_id"] not in self.data["volumes"]:
            raise CsiError("NOT_FOUND", f"volume {source['volume']['volume_id']!r} does not exist")

    def create_volume(self, request):
        name, source = request.get("name", ""), request.get("volume_content_source", {})
        kind = request.get("parameters", {}).get("kind", "ext4")
        size = max(self.check_size(request), LEAST_BYTES.get(kind, 0))
        if not name or not request.get("volume_capabilities"):
            raise CsiError("INVALID_ARGUMENT", "name and volume_capabilities must be given")
        if kind not in KINDS:
            raise CsiError("INVALID_ARGUMENT", f"parameters: kind must be one of {KINDS}, not {kind!r}")
        topology = self.choose_topology(request)
        self.check_source(source)
        volume_id = next((i for i, v in self.data["volumes"].items() if v["name"] == name), None)
        if volume_id:
            known = self.data["volumes"][volume_id]
            if (known["asked"], known["source"]) != (size, source) and "P5" not in self.quirks:
                raise CsiError("ALREADY_EXISTS", f"volume {name!r} exists with another size or source")
        else:
            volume_id = self.new_volume_id(name)
            self.add_volume(volume_id, name, kind, size, source)
            self.data["volumes"][volume_id]["topology"] = topology
        return {"volume": self.describe(volume_id)}

    def add_volume(self, volume_id, name, kind, size, source=None):
        """Also for tests: a volume that is there already and is to be registered."""
        self.fill(volume_id, kind, size, source)
        capacity = os.stat(self.image(volume_id)).st_size if kind != "bind" else size
        self.data["volumes"][volume_id] = {
            "name": name, "kind": kind, "asked": size, "capacity": capacity, "source": source or {}}

    def delete_volume(self, request):
        volume_id = request.get("volume_id", "")
        if volume_id not in self.data["volumes"]:
            return {}
        used = [node for node, volumes in self.data["nodes"].items() if volume_id in volumes]
        attached = list(self.data["attached"].get(volume_id, {}))
        if (used or attached) and "P7" not in self.quirks:
            raise CsiError("FAILED_PRECONDITION", f"volume {volume_id!r} is in use on {', '.join(used or attached)}")
        for node in used:
            del self.data["nodes"][node][volume_id]  # P7: what is mounted stays mounted
        for node in attached:
            self.detach_from(volume_id, node)
        for device in disk.loops_of(self.image(volume_id)):
            disk.detach(device)
        disk.remove(self.image(volume_id))
        shutil.rmtree(self.tree(volume_id), ignore_errors=True)
        del self.data["volumes"][volume_id]
        return {}

    def validate_volume_capabilities(self, request):
        volume = self.volume(request)
        wanted = request.get("volume_capabilities", [])
        if not wanted:
            raise CsiError("INVALID_ARGUMENT", "volume_capabilities must be given")
        for capability in wanted:
            why = self.cannot(volume, capability)
            if why:
                return {"message": why}
        return {"confirmed": {"volume_context": request.get("volume_context", {}), "volume_capabilities": wanted,
                              "parameters": request.get("parameters", {})}}

    def cannot(self, volume, capability):
        """Why a volume cannot be used so; empty: it can."""
        mode = mode_of(capability)
        if "block" in capability and volume["kind"] == "bind":
            return "a directory is no block device"
        if mode in MULTI_NODE_MODES and mode != "MULTI_NODE_READER_ONLY" and volume["kind"] != "bind" \
                and "P8" not in self.quirks:
            return f"{volume['kind']} is of one node: not {mode}"
        if capability.get("mount", {}).get("fs_type", "") not in ("", volume["kind"]):
            return f"no file system of type {capability['mount']['fs_type']!r}"
        return ""

    def list_page(self, request, entries):
        start = request.get("starting_token", "")
        if start and not (start.isdecimal() and int(start) <= len(entries)):
            raise CsiError("ABORTED", f"starting_token: {start!r} is none")
        begin = int(start or 0)
        end = begin + (int(request.get("max_entries", 0)) or self.settings.get("page", PAGE))
        return {"entries": entries[begin:end], "next_token": str(end) if end < len(entries) else ""}

    def list_volumes(self, request):
        return self.list_page(request, [self.entry(volume_id) for volume_id in sorted(self.data["volumes"])])

    def entry(self, volume_id):
        nodes = sorted(self.data["attached"].get(volume_id, {}))
        status = {"published_node_ids": nodes}
        if "P13" in self.quirks:
            status = {"published_node_ids": [""], "volume_condition": {"abnormal": True, "message": "isn't mounted"}}
        return {"volume": self.describe(volume_id), "status": status}

    def controller_get_volume(self, request):
        self.volume(request)
        return self.entry(request["volume_id"])

    def get_capacity(self, _):
        used = sum(volume["capacity"] for volume in self.data["volumes"].values())
        return {"available_capacity": self.settings.get("capacity", 1 << 40) - used}

    # --- attach and detach --------------------------------------------------------------------------------

    def controller_publish_volume(self, request):
        volume, node = self.volume(request), request.get("node_id", "")
        volume_id, read_only = request["volume_id"], bool(request.get("readonly"))
        if node not in self.known_nodes():
            raise CsiError("NOT_FOUND", f"node {node!r} does not exist")
        attached = self.data["attached"].setdefault(volume_id, {})
        why = self.cannot(volume, request.get("volume_capability", {}))
        if why:
            raise CsiError("INVALID_ARGUMENT", why)
        if node in attached and attached[node]["readonly"] != read_only:
            raise CsiError("ALREADY_EXISTS", f"volume {volume_id!r} is attached to {node} with another readonly")
        if node not in attached:
            self.check_attach(request, attached, node)
            attached[node] = {"readonly": read_only, "device": ""}
        if volume["kind"] != "bind" and not disk.is_device_of(attached[node]["device"], self.image(volume_id)):
            attached[node]["device"] = disk.attach(self.image(volume_id), read_only)
        context = {"device": attached[node]["device"], "to": node}
        return {"publish_context": dict(reversed(context.items())) if int(time.time() * 10) % 2 else context}

    def check_attach(self, request, attached, node):
        multi = mode_of(request.get("volume_capability", {})) in MULTI_NODE_MODES
        if attached and not multi and "P8" not in self.quirks:
            raise CsiError("FAILED_PRECONDITION",
                           f"volume {request['volume_id']!r} is attached to {', '.join(attached)}")
        most = self.settings.get("max_volumes", 0)
        if most and sum(node in nodes for nodes in self.data["attached"].values()) >= most:
            raise CsiError("RESOURCE_EXHAUSTED", f"node {node} has its {most} volumes")

    def detach_from(self, volume_id, node):
        device = self.data["attached"].get(volume_id, {}).pop(node, {}).get("device")
        if device and disk.is_device_of(device, self.image(volume_id)):
            disk.detach(device)
        if not self.data["attached"].get(volume_id):
            self.data["attached"].pop(volume_id, None)

    def controller_unpublish_volume(self, request):
        volume_id = request.get("volume_id", "")
        if volume_id not in self.data["volumes"]:
            raise CsiError("NOT_FOUND", f"volume {volume_id!r} does not exist")
        for node in [request["node_id"]] if request.get("node_id") else list(self.data["attached"].get(volume_id, {})):
            self.detach_from(volume_id, node)
        return {}

    # --- on the node --------------------------------------------------------------------------------------

    def device_for(self, request, read_only):
        """The device of an attached volume; without attaching, one that the node makes itself."""
        volume_id = request["volume_id"]
        if self.has("Controller", "PUBLISH_UNPUBLISH_VOLUME") and self.settings.get("has_controller", True):
            device = request.get("publish_context", {}).get("device", "")
            if not disk.is_device_of(device, self.image(volume_id)):
                raise CsiError("FAILED_PRECONDITION", f"publish_context: {device!r} is no device of {volume_id!r}")
            return device
        found = disk.loops_of(self.image(volume_id))
        return found[0] if found else disk.attach(self.image(volume_id), read_only)

    def mount_volume(self, request, path):
        """Where the data of a file-system volume first appears: at the staging path, or at the target of one that is
        not staged."""
        volume, volume_id = self.volume(request), request["volume_id"]
        capability = request.get("volume_capability", {})
        read_only = mode_of(capability) in READ_ONLY_MODES
        if disk.is_mounted(path):
            return
        if volume["kind"] == "bind":
            disk.bind(self.tree(volume_id), path, read_only)
            return
        device = self.device_for(request, read_only)
        if not read_only:
            disk.format_if_empty(device, volume["kind"])
        disk.mount_device(device, volume["kind"], path, capability.get("mount", {}).get("mount_flags", []),
                          read_only)

    def node_stage_volume(self, request):
        volume = self.volume(request)
        self.check_fence(self.node)
        path, capability = request.get("staging_target_path", ""), request.get("volume_capability", {})
        why = self.cannot(volume, capability)
        if not path or why:
            raise CsiError("INVALID_ARGUMENT", why or "staging_target_path must be given")
        known = self.here().get(request["volume_id"])
        if known and known["staging"] and known["staging"] != path:
            raise CsiError("FAILED_PRECONDITION", f"staged at {known['staging']} already")
        if not os.path.isdir(path):
            raise CsiError("INTERNAL", f"staging_target_path: {path} is no directory")
        if "block" in capability:
            self.device_for(request, False)
        else:
            self.mount_volume(request, path)
        self.here()[request["volume_id"]] = {"staging": path, "targets": (known or {}).get("targets", {})}
        return {}

    def node_unstage_volume(self, request):
        volume_id, path = request.get("volume_id", ""), request.get("staging_target_path", "")
        if volume_id not in self.data["volumes"]:
            raise CsiError("NOT_FOUND", f"volume {volume_id!r} does not exist")
        known = self.here().get(volume_id, {"targets": {}})
        if known["targets"]:
            raise CsiError("FAILED_PRECONDITION", f"still published at {', '.join(known['targets'])}")
        disk.unmount(path)
        self.here().pop(volume_id, None)
        self.drop_own_device(volume_id)
        return {}

    def drop_own_device(self, volume_id):
        """Of a volume that no controller attached."""
        if not self.data["attached"].get(volume_id) and volume_id not in self.here():
            for device in disk.loops_of(self.image(volume_id)):
                disk.detach(device)

    def check_publish(self, request, known):
        volume_id, target = request["volume_id"], request.get("target_path", "")
        if not target:
            raise CsiError("INVALID_ARGUMENT", "target_path must be given")
        if self.has("Node", "STAGE_UNSTAGE_VOLUME") and not known["staging"]:
            raise CsiError("FAILED_PRECONDITION", f"volume {volume_id!r} is not staged")
        use = known["targets"].get(target)
        if use and use["readonly"] != bool(request.get("readonly")):
            raise CsiError("ALREADY_EXISTS", f"published at {target} with another readonly")
        others = [path for path in known["targets"] if path != target]
        if others and mode_of(request.get("volume_capability", {})) == "SINGLE_NODE_SINGLE_WRITER" \
                and "P8" not in self.quirks:
            raise CsiError("FAILED_PRECONDITION", f"published at {', '.join(others)} already")
        if "P14" in self.quirks and not os.path.exists(target):
            raise CsiError("NOT_FOUND", f"target_path: {target} does not exist")

    def node_publish_volume(self, request):
        self.volume(request)
        self.check_fence(self.node)
        volume_id, target = request["volume_id"], request.get("target_path", "")
        known = self.here().get(volume_id) or {"staging": "", "targets": {}}
        read_only = bool(request.get("readonly"))
        self.check_publish(request, known)
        if "P10" in self.quirks:
            os.makedirs(target, exist_ok=True)  # OK, and nothing is mounted
        elif "block" in request.get("volume_capability", {}):
            self.publish_device(request, target)
        else:
            self.publish_tree(request, target, known, read_only)
        known["targets"][target] = {"readonly": read_only}
        self.here()[volume_id] = known
        return {}

    def publish_device(self, request, target):
        if not os.path.exists(target):
            with open(target, "xb"):
                pass
        if not disk.is_mounted(target):
            disk.bind(self.device_for(request, False), target)

    def publish_tree(self, request, target, known, read_only):
        if not os.path.exists(target):
            os.mkdir(target, 0o755)
        if disk.is_mounted(target):
            return
        if not known["staging"]:
            self.mount_volume(request, target)
            if read_only and not disk.is_read_only(target):
                disk.run("mount", "-o", "remount,bind,ro", target)
            return
        disk.bind(known["staging"], target, read_only)

    def node_unpublish_volume(self, request):
        volume_id, target = request.get("volume_id", ""), request.get("target_path", "")
        if volume_id not in self.data["volumes"]:
            raise CsiError("NOT_FOUND", f"volume {volume_id!r} does not exist")
        known = self.here().get(volume_id)
        if not target:
            raise CsiError("INVALID_ARGUMENT", "target_path must be given")
        if "P10" in self.quirks and os.path.isdir(target) and os.listdir(target) and not disk.is_mounted(target):
            raise CsiError("UNKNOWN", f"[Errno 39] Directory not empty: {target!r}")
        if "P18" in self.quirks:
            self.remove_recursively(target)
        else:
            disk.unmount(target)
        if os.path.isdir(target) and "P14" not in self.quirks:
            os.rmdir(target)
        elif os.path.isfile(target):
            os.unlink(target)
        if known:
            known["targets"].pop(target, None)
            if not known["staging"] and not known["targets"]:
                self.here().pop(volume_id)
                self.drop_own_device(volume_id)
        return {}

    @staticmethod
    def remove_recursively(target):
        """Unmount once, then delete what is there: as host-path does."""
        if disk.is_mounted(target):
            disk.run("umount", target)
        if os.path.isdir(target):
            shutil.rmtree(target)

    def node_get_volume_stats(self, request):
        path = request.get("volume_path", "")
        known = self.here().get(request.get("volume_id", ""))
        if "P15" not in self.quirks and not (known and (path in known["targets"] or path == known["staging"])):
            raise CsiError("NOT_FOUND", f"nothing at {path!r}")
        st = os.statvfs(path if os.path.exists(path) else "/")
        total, free = st.f_blocks * st.f_frsize, st.f_bavail * st.f_frsize
        return {"usage": [{"unit": "BYTES", "total": total, "available": free, "used": total - free}]}

    def node_get_info(self, _):
        found = {"node_id": self.node, "max_volumes_per_node": self.settings.get("max_volumes", 0)}
        if self.topology():
            found["accessible_topology"] = {"segments": self.topology()}
        return found

    # --- growing, snapshots -------------------------------------------------------------------------------

    def controller_expand_volume(self, request):
        volume = self.volume(request)
        size = self.check_size(request)
        if volume["kind"] == "bind":
            volume["capacity"] = max(size, volume["capacity"])
            return {"capacity_bytes": volume["capacity"], "node_expansion_required": False}
        if size > volume["capacity"]:
            disk.make_image(self.image(request["volume_id"]), size)
            volume["capacity"] = size
        return {"capacity_bytes": volume["capacity"], "node_expansion_required": True}

    def node_expand_volume(self, request):
        volume, path = self.volume(request), request.get("volume_path", "")
        known = self.here().get(request["volume_id"])
        if not known or path not in [known["staging"], *known["targets"]]:
            raise CsiError("NOT_FOUND", f"volume_path: nothing of {request['volume_id']!r} at {path!r}")
        for device in disk.loops_of(self.image(request["volume_id"])):
            disk.grow_device(device)
            if os.path.isdir(path) and disk.is_mounted(path):
                disk.resize(device, volume["kind"], path)
        return {"capacity_bytes": volume["capacity"]}

    def settle(self, volume_id):
        for volumes in self.data["nodes"].values():
            for path in (volumes.get(volume_id, {}).get("staging"), *volumes.get(volume_id, {}).get("targets", {})):
                if path and os.path.isdir(path) and disk.is_mounted(path):
                    disk.settle(path)

    def describe_snapshot(self, snapshot_id):
        snapshot = self.data["snapshots"][snapshot_id]
        return {"snapshot_id": snapshot_id, "source_volume_id": snapshot["source"], "size_bytes": snapshot["size"],
                "creation_time": snapshot["time"], "ready_to_use": True}

    def create_snapshot(self, request):
        volume, name = self.volume(request, "source_volume_id"), request.get("name", "")
        source = request["source_volume_id"]
        snapshot_id = next((i for i, s in self.data["snapshots"].items() if s["name"] == name), None)
        if not name or volume["kind"] == "bind":
            raise CsiError("INVALID_ARGUMENT", "a snapshot needs a name, and a volume that is an image")
        if snapshot_id and self.data["snapshots"][snapshot_id]["source"] != source:
            raise CsiError("ALREADY_EXISTS", f"snapshot {name!r} is of another volume")
        if not snapshot_id:
            snapshot_id = f"snap&of={digest(name)}" if "P6" in self.quirks else f"snap-{digest(name)}"
            self.settle(source)
            disk.copy_image(self.image(source), self.snapshot_image(snapshot_id))
            self.data["snapshots"][snapshot_id] = {
                "name": name, "source": source, "size": volume["capacity"],
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        return {"snapshot": self.describe_snapshot(snapshot_id)}

    def delete_snapshot(self, request):
        snapshot_id = request.get("snapshot_id", "")
        if self.data["snapshots"].pop(snapshot_id, None):
            disk.remove(self.snapshot_image(snapshot_id))
        return {}

    def list_snapshots(self, request):
        found = [
            {"snapshot": self.describe_snapshot(i)} for i, s in sorted(self.data["snapshots"].items())
            if request.get("snapshot_id") in (None, "", i) and request.get("source_volume_id") in (None, "", s["source"])
        ]
        return self.list_page(request, found)

