#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One call of CSI, from the request to what the gRPC front shall do about it.

A front in Python calls take_call(); one in another language runs this file with the request on standard input and finds
the outcome on standard output, both JSON with the names of the .proto file. The outcome is
{"code", "text", "response", "wire"}; wire, where there is one, is an order that only the front can carry out.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import time

import facts
from facts import CsiError
from disk import DiskError
from provider import Provider
from rules import Rules
from state import State

POLL = 0.05  # seconds between looks whether a call that hangs was given up

# Orders that the front carries out, instead of an answer or after the work is done.
WIRE = ("die", "die-after", "close", "close-after", "twice", "nothing", "oversize", "malformed", "truncated", "reset", "http")
# Those of them, and the others, for which nothing is done to the volume.
IDLE = ("fail", "lie", "die", "close", "nothing", "malformed", "truncated", "reset", "http")
NOT_SUPPORTED = {
    "P4": (12, ""),
    "P4-unknown": (2, "Method not implemented!"),
    "P4-internal": (13, "TypeError: driver.call is not a function\n" + "    at Object.<anonymous> (/app/csi.js)\n" * 80),
}
# What a plugin that does nothing says in good faith.
LIES = {
    "Probe": lambda request: {"ready": False},
    "CreateVolume": lambda request: {"volume": {"volume_id": f"lie-{request.get('name', '')}", "capacity_bytes": 1}},
    "ControllerPublishVolume": lambda request: {"publish_context": {"device": "/dev/lie"}},
    "CreateSnapshot": lambda request: {"snapshot": {
        "snapshot_id": "lie", "source_volume_id": facts.volume_of(request), "ready_to_use": True}},
    "ValidateVolumeCapabilities": lambda request: {
        "confirmed": {"volume_capabilities": request.get("volume_capabilities", [])}},
}


def snake(method):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower()


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Call:
    """call: id, method, request, authority, node, pid of the front."""

    def __init__(self, state, call):
        self.state, self.call, self.wishes = state, call, state.wishes()
        self.marker = state.path("inflight", call["id"])

    # --- calls in flight ----------------------------------------------------------------------------------

    def others(self):
        """Calls that other files say are in flight, to this plugin instance."""
        for name in os.listdir(self.state.path("inflight")):
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                with open(self.state.path("inflight", name), encoding="utf-8") as f:
                    other = json.load(f)
                if other["node"] == self.call["node"] and is_alive(other["pid"]):
                    yield other

    def mark(self):
        text = json.dumps({
            "method": self.call["method"], "service": facts.SERVICE_OF[self.call["method"]], "pid": self.call["pid"],
            "volume": facts.volume_of(self.call["request"]), "node": self.call["node"]})
        with open(self.marker, "w", encoding="utf-8") as f:
            f.write(text)

    def is_given_up(self):
        """The front removes the marker when the caller cancels."""
        return not os.path.exists(self.marker)

    def wait(self, seconds):
        """seconds None: until the caller gives up."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while deadline is None or time.monotonic() < deadline:
            if deadline is None and self.is_given_up():
                raise CsiError("CANCELLED", "given up by the caller")
            time.sleep(POLL if deadline is None else min(POLL, max(deadline - time.monotonic(), 0)))

    # --- the call -----------------------------------------------------------------------------------------

    def take_order(self, data):
        """The first order that fits and is not used up."""
        request = self.call["request"]
        for order in self.wishes["orders"]:
            for key, value in (("method", self.call["method"]), ("node", self.call["node"]),
                               ("volume", facts.volume_of(request) or request.get("name", ""))):
                if order.get(key, value) != value:
                    break
            else:
                if order.get("name", "") not in request.get("name", ""):
                    continue
                key = str(order.get("id", json.dumps(order, sort_keys=True)))
                spent = data["spent"].get(key, 0)
                data["spent"][key] = spent + 1
                skip = order.get("skip", 0)
                if spent >= skip and ("times" not in order or spent < skip + order["times"]):
                    return order
        return {}

    def work(self):
        method, request = self.call["method"], self.call["request"]
        with self.state.locked() as data:
            provider = Provider(self.state, data, self.call["node"], self.wishes)
            needs = facts.NEEDS.get(method)
            if needs and not provider.has(facts.SERVICE_OF[method], needs):
                raise CsiError(*self.not_supported(method))
            if "P11" in self.wishes["quirks"] and facts.volume_of(request) and not data["spent"].get(f"P11-{method}"):
                data["spent"][f"P11-{method}"] = 1
                raise CsiError("ABORTED", f"an operation for {facts.volume_of(request)!r} is pending")
            try:
                return getattr(provider, snake(method))(request)
            except (DiskError, OSError, subprocess.SubprocessError) as error:
                raise CsiError("INTERNAL", str(error)) from error

    def not_supported(self, method):
        for quirk, answer in NOT_SUPPORTED.items():
            if quirk in self.wishes["quirks"]:
                return answer
        return "UNIMPLEMENTED", f"{method} is not implemented"

    def follow(self, order):
        """The response, as far as the order lets there be one."""
        method, request, do = self.call["method"], self.call["request"], order.get("do", "")
        if do in ("hang", "slow"):
            self.wait(order.get("seconds"))
        if "P9" in self.wishes["quirks"] and method in ("CreateVolume", "NodePublishVolume"):
            hang_in_child()
        response = {}
        if do == "lie":
            response = LIES.get(method, lambda request: {})(request)
        elif do not in IDLE:
            response = self.work()
        if do == "hang-after":
            self.wait(order.get("seconds"))
        if do in ("fail", "fail-after"):
            raise CsiError(order.get("code", "INTERNAL"), order.get("text", f"as ordered, {method} fails"))
        return {**response, **order.get("answer", {})}

    def outcome(self):
        order = {}
        try:
            with self.state.locked() as data:
                Rules(self.state, data, self.call["node"], self.wishes).check(self.call, list(self.others()))
                order = self.take_order(data)
                self.mark()
            outcome = {"code": 0, "text": "", "response": self.follow(order)}
        except CsiError as error:
            outcome = {"code": error.code, "text": error.text, "response": None}
        if order.get("do") in WIRE:
            outcome["wire"] = order
        return outcome

    def run(self):
        self.state.append("calls.jsonl", json.dumps({**self.call, "time": time.time()}))
        outcome = self.outcome()
        if "wire" not in outcome and not self.is_given_up():
            with self.state.locked() as data:
                Rules(self.state, data, self.call["node"], self.wishes).note(
                    self.call["method"], self.call["request"], outcome["code"], outcome["response"])
        self.state.append("calls.jsonl", json.dumps({
            "answer": self.call["id"], "code": outcome["code"], "text": outcome["text"],
            "wire": outcome.get("wire", {}).get("do", "")}))
        forget(self.state, self.call["id"])
        return outcome


def hang_in_child():
    """P9: a backend that does not answer; the child outlives the call, and often the plugin."""
    with subprocess.Popen(["sleep", "30"], start_new_session=True) as child:
        child.wait()


def forget(state, call_id):
    """The call is answered, or the caller has given it up."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(state.path("inflight", call_id))


def take_call(state, call):
    return Call(state, call).run()


def begin(folder, node):
    """A front starts: calls in flight of an earlier one are none."""
    state = State(folder)
    with state.locked() as data:
        if node not in data["instances"]:
            data["instances"].append(node)
    return state


def main():
    state = State(sys.argv[1])
    if sys.argv[2] == "begin":
        begin(sys.argv[1], sys.argv[3])
        json.dump({"wishes": state.wishes(), "services": facts.SERVICES, "kinds": facts.KINDS}, sys.stdout)
    else:
        json.dump(take_call(state, json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
