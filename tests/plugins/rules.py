# SPDX-License-Identifier: Apache-2.0
"""What CSI 1.12 asks of whoever calls a plugin. A breach is written down and nothing else: the plugin answers as if
nothing were wrong, and the test looks at the list.

Judged by what the caller has been told, not by what is: a plugin that lied, or died before it answered, makes no breach.
"""

import json
import os

import facts
from provider import Provider, mode_of

SINGLE_WRITER_MODES = ("SINGLE_NODE_SINGLE_WRITER", "SINGLE_NODE_MULTI_WRITER")
GONE = (facts.CODES["OK"], facts.CODES["NOT_FOUND"])  # after one of these a release may continue


def strings(value):
    """Every text in a request."""
    if isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


class Rules:
    def __init__(self, state, data, node, wishes):
        self.state, self.data, self.told, self.node, self.wishes = state, data, data["told"], node, wishes
        self.call = None

    def breach(self, rule, text):
        line = {"rule": rule, "method": self.call["method"], "call": self.call["id"], "node": self.node, "text": text}
        self.state.append("violations", json.dumps(line))

    # --- what the caller was told -------------------------------------------------------------------------

    def attached(self, volume, node):
        return self.told["attached"].get(volume, {}).get(node)

    def staged(self, volume, node):
        return self.told["staged"].get(node, {}).get(volume)

    def published(self, volume, node):
        return self.told["published"].get(node, {}).get(volume, [])

    def has(self, service, capability):
        announced = self.told["announced"].get(f"{service} {self.node}", facts.announced(service, self.wishes))
        return capability in announced

    # --- before a call ------------------------------------------------------------------------------------

    def check(self, call, others):
        """others: the calls of this half of the plugin that are in flight."""
        self.call = call
        method, request = call["method"], call["request"]
        service = facts.SERVICE_OF[method]
        needs = facts.NEEDS.get(method)
        if call["authority"] not in ("localhost", None):
            self.breach("authority", f":authority is {call['authority']!r}, not localhost")
        is_end = method == "NodeUnstageVolume" and self.staged(facts.volume_of(request), self.node)
        if needs and not self.has(service, needs) and not is_end:  # what was announced when it began
            self.breach("unannounced", f"{needs} was not announced")
        self.check_secrets(request)
        volume = facts.volume_of(request)
        for other in others:
            if volume and other["volume"] == volume and other["service"] == service:
                self.breach("in-flight", f"{other['method']} of {volume!r} is not answered yet")
        if "volume_id" in request or method in REQUIRED:
            for field in REQUIRED.get(method, ()):
                if not request.get(field):
                    self.breach("required", f"{field} is not set")
        check = CHECKS.get(method)
        if check:
            check(self, volume, request)

    def check_secrets(self, request):
        secrets = {value for value in request.get("secrets", {}).values() if len(value) >= 6}
        elsewhere = set(strings({key: value for key, value in request.items() if key != "secrets"}))
        if secrets & elsewhere:
            self.breach("secrets", "a secret is also in another field")

    def check_capability(self, capability):
        if "mount" not in capability and "block" not in capability:
            self.breach("capability", "neither mount nor block")
        mode = mode_of(capability)
        if mode == "UNKNOWN":
            self.breach("capability", "no access mode")
        if mode in SINGLE_WRITER_MODES and not self.has("Controller", "SINGLE_NODE_MULTI_WRITER"):
            self.breach("capability", f"{mode}, but SINGLE_NODE_MULTI_WRITER was not announced")

    def check_create(self, _, request):
        for capability in request.get("volume_capabilities", []):
            self.check_capability(capability)

    def check_context(self, volume, request):
        known = self.told["contexts"].get(volume)
        if known is not None and request.get("volume_context", {}) != known:
            self.breach("volume-context", f"{request.get('volume_context', {})}, but CreateVolume said {known}")

    def check_attach(self, volume, request):
        self.check_capability(request.get("volume_capability", {}))
        self.check_context(volume, request)
        if request.get("readonly") and not self.has("Controller", "PUBLISH_READONLY"):
            self.breach("unannounced", "readonly, but PUBLISH_READONLY was not announced")

    def check_detach(self, volume, request):
        node = request.get("node_id", "")
        for name in [node] if node else list(self.told["staged"]):
            if Provider(self.state, self.data, name, self.wishes).is_fenced(name):
                continue  # what is mounted there writes nothing
            if self.staged(volume, name):
                self.breach("detach-order", f"still staged on {name}")
            if self.published(volume, name):
                self.breach("detach-order", f"still published on {name}")

    def check_delete(self, volume, _):
        users = [node for node in self.told["attached"].get(volume, {})]
        users += [node for node, volumes in self.told["staged"].items() if volume in volumes]
        if users:
            self.breach("delete-order", f"still in use on {', '.join(users)}")

    def check_attached(self, volume, request):
        """Before stage, or before publish where nothing is staged."""
        self.check_capability(request.get("volume_capability", {}))
        self.check_context(volume, request)
        if not self.has("Controller", "PUBLISH_UNPUBLISH_VOLUME") or \
                not self.wishes["settings"].get("has_controller", True):
            return
        context = self.attached(volume, self.node)
        if context is None:
            self.breach("not-attached", f"{volume!r} is not attached to {self.node}")
        elif request.get("publish_context", {}) != context:
            self.breach("publish-context", f"{request.get('publish_context', {})}, but the controller said {context}")

    def check_stage(self, volume, request):
        self.check_attached(volume, request)
        path = request.get("staging_target_path", "")
        if not os.path.isdir(path):
            self.breach("staging-path", f"{path!r} is no directory")
        known = self.staged(volume, self.node)
        if known and known != path:
            self.breach("staging-path", f"{path!r}, but it is staged at {known!r}")

    def check_unstage(self, volume, request):
        path, known = request.get("staging_target_path", ""), self.staged(volume, self.node)
        if known and known != path:
            self.breach("staging-path", f"{path!r}, but it is staged at {known!r}")
        if self.published(volume, self.node):
            self.breach("unstage-order", f"still published at {', '.join(self.published(volume, self.node))}")

    def check_publish(self, volume, request):
        self.check_attached(volume, request)
        path, target = request.get("staging_target_path", ""), request.get("target_path", "")
        if not os.path.isdir(os.path.dirname(target)):
            self.breach("target-path", f"the parent of {target!r} is no directory")
        if not self.has("Node", "STAGE_UNSTAGE_VOLUME"):
            return
        if not path:
            self.breach("required", "staging_target_path is not set")
        if self.staged(volume, self.node) != path:
            self.breach("not-staged", f"{path!r}, but it is staged at {self.staged(volume, self.node)!r}")

    def check_node_expand(self, volume, request):
        path = request.get("volume_path", "")
        if path not in [self.staged(volume, self.node), *self.published(volume, self.node)]:
            self.breach("expand-path", f"volume_path {path!r} is neither staged nor published")

    # --- after an answer ----------------------------------------------------------------------------------

    def note(self, method, request, code, response):
        """What the caller knows from now on."""
        volume, node = facts.volume_of(request), request.get("node_id", "")
        here = self.node
        told = self.told
        if method in ("ControllerGetCapabilities", "NodeGetCapabilities") and code == 0:
            told["announced"][f"{facts.SERVICE_OF[method]} {here}"] = [
                row.get("rpc", {}).get("type") for row in response.get("capabilities", [])]
        elif method == "CreateVolume" and code == 0:
            made = response.get("volume", {})
            told["contexts"][made.get("volume_id", "")] = made.get("volume_context", {})
        elif method == "DeleteVolume" and code == 0:
            told["contexts"].pop(volume, None)
        elif method == "ControllerPublishVolume" and code == 0:
            told["attached"].setdefault(volume, {})[node] = response.get("publish_context", {})
        elif method == "ControllerUnpublishVolume" and code in GONE:
            for name in [node] if node else list(told["attached"].get(volume, {})):
                told["attached"].get(volume, {}).pop(name, None)
        elif method == "NodeStageVolume" and code == 0:
            told["staged"].setdefault(here, {})[volume] = request.get("staging_target_path", "")
        elif method == "NodeUnstageVolume" and code in GONE:
            told["staged"].get(here, {}).pop(volume, None)
        elif method == "NodePublishVolume" and code == 0:
            targets = told["published"].setdefault(here, {}).setdefault(volume, [])
            targets += [request["target_path"]] if request["target_path"] not in targets else []
        elif method == "NodeUnpublishVolume" and code in GONE:
            targets = self.published(volume, here)
            told["published"].get(here, {})[volume] = [t for t in targets if t != request.get("target_path")]


REQUIRED = {
    "CreateVolume": ("name", "volume_capabilities"),
    "DeleteVolume": ("volume_id",),
    "ControllerPublishVolume": ("volume_id", "node_id", "volume_capability"),
    "ControllerUnpublishVolume": ("volume_id", "node_id"),
    "ValidateVolumeCapabilities": ("volume_id", "volume_capabilities"),
    "CreateSnapshot": ("source_volume_id", "name"),
    "DeleteSnapshot": ("snapshot_id",),
    "ControllerExpandVolume": ("volume_id", "capacity_range"),
    "ControllerGetVolume": ("volume_id",),
    "NodeStageVolume": ("volume_id", "staging_target_path", "volume_capability"),
    "NodeUnstageVolume": ("volume_id", "staging_target_path"),
    "NodePublishVolume": ("volume_id", "target_path", "volume_capability"),
    "NodeUnpublishVolume": ("volume_id", "target_path"),
    "NodeGetVolumeStats": ("volume_id", "volume_path"),
    "NodeExpandVolume": ("volume_id", "volume_path"),
}
CHECKS = {
    "CreateVolume": Rules.check_create,
    "DeleteVolume": Rules.check_delete,
    "ControllerPublishVolume": Rules.check_attach,
    "ControllerUnpublishVolume": Rules.check_detach,
    "NodeStageVolume": Rules.check_stage,
    "NodeUnstageVolume": Rules.check_unstage,
    "NodePublishVolume": Rules.check_publish,
    "NodeExpandVolume": Rules.check_node_expand,
}
