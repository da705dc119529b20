#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A CSI driver on C-core, by Debian's python3-grpcio: see README.md.

usage: grpcio_plugin.py --state FOLDER --node NAME --messages FOLDER [--kind monolith|controller|node]
CSI_ENDPOINT says where to listen; FOLDER of --messages holds csi/v1/csi_pb2.py and csi_addons as protoc makes them.
"""

import argparse
import contextlib
import importlib
import itertools
import os
import signal
import sys
import threading
from concurrent import futures

import grpc
from google.protobuf import json_format

import facts
from call import begin, forget, take_call

WORKERS = 32
POOL_OF_P9 = 10  # a plugin with a fixed pool that a hung backend uses up
GARBAGE = b"\xff\xff\xff\xff\xff"  # no protobuf: a tag that does not end
OVERSIZE = 8 << 20
NEVER = 3600
STOP_SECONDS = 5


class Handlers(grpc.GenericRpcHandler):
    def __init__(self, front):
        self.front = front

    def service(self, handler_call_details):
        service, method = handler_call_details.method.lstrip("/").split("/", 1)
        addons = facts.ADDONS if self.front.state.wishes()["settings"].get("addons") else {}
        name = service.rpartition(".")[2]
        if method not in addons.get(service, []) and (
                service.startswith(tuple(facts.ADDONS)) or name not in facts.KINDS[self.front.kind]
                or method not in facts.SERVICES[name]):
            return None
        decode = self.front.message(method, "Request").FromString
        if any(order.get("do") in ("twice", "nothing") for order in self.front.state.wishes()["orders"]
               if order.get("method", method) == method):
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: self.front.answers(method, request, context), decode)
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: next(self.front.answers(method, request, context)), decode)


class Front:
    def __init__(self, options):
        self.kind, self.node, self.options = options.kind, options.node, options
        self.endpoint = os.environ["CSI_ENDPOINT"]
        sys.path.insert(0, options.messages)
        self.messages = []
        for name in ("csi.v1.csi_pb2", "csi_addons.identity_pb2", "csi_addons.fence_pb2"):
            with contextlib.suppress(ModuleNotFoundError):  # the last two only serve the setting "addons"
                self.messages.append(importlib.import_module(name))
        self.state = begin(options.state, options.node)
        self.serial = itertools.count(1)
        self.server = None
        self.closing = threading.Event()

    def message(self, method, end):
        return next(getattr(module, method + end) for module in self.messages if hasattr(module, method + end))

    # --- one call -----------------------------------------------------------------------------------------

    def take(self, method, request, context):
        """The outcome of a call, and its order for the wire."""
        call = {
            "id": f"{os.getpid()}-{next(self.serial)}", "pid": os.getpid(), "node": self.node, "method": method,
            "request": json_format.MessageToDict(request, preserving_proto_field_name=True),
            "authority": authority_of(context),
        }
        context.add_callback(lambda: forget(self.state, call["id"]))
        outcome = take_call(self.state, call)
        return outcome, outcome.get("wire", {})

    def encode(self, method, response):
        message = self.message(method, "Response")()
        json_format.ParseDict(response or {}, message)
        return message.SerializeToString()

    def answers(self, method, request, context):
        """Messages to answer with: one, unless the order says otherwise, which a unary method cannot do."""
        outcome, wire = self.take(method, request, context)
        do = wire.get("do", "")
        if do in ("die", "die-after"):
            os.kill(os.getpid(), signal.SIGKILL)
        if do in ("close", "close-after"):
            self.closing.set()
            threading.Event().wait(NEVER)
        if do == "malformed":
            yield GARBAGE
        if do in ("truncated", "reset", "http"):
            context.abort(grpc.StatusCode.INTERNAL, f"this stack cannot be ordered to do {do}")
        if outcome["code"]:
            abort(context, outcome)
        encoded = self.encode(method, outcome["response"])
        if do == "oversize":
            encoded += filler(wire.get("bytes", OVERSIZE))
        for _ in range({"twice": 2, "nothing": 0, "malformed": 0}.get(do, 1)):
            yield encoded

    # --- the socket ---------------------------------------------------------------------------------------

    def listen(self):
        path = self.endpoint.removeprefix("unix://").removeprefix("unix:")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        workers = POOL_OF_P9 if "P9" in self.state.wishes()["quirks"] else WORKERS
        self.server = grpc.server(futures.ThreadPoolExecutor(workers),
                                  options=[("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((Handlers(self),))
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()
        if "P17" in self.state.wishes()["quirks"]:
            os.chmod(path, 0o600)

    def run(self):
        """Until a signal; an order to close cuts all connections and listens anew."""
        self.listen()
        print("ready", flush=True)
        while True:
            self.closing.wait()
            self.server.stop(grace=None).wait(STOP_SECONDS)
            self.closing.clear()
            self.listen()


def authority_of(context):
    """What the caller named as :authority. The stack keeps it to itself."""
    call = getattr(getattr(context, "_rpc_event", None), "call_details", None)
    return call.host.decode(errors="replace") if call else None


def abort(context, outcome):
    codes = {code.value[0]: code for code in grpc.StatusCode}
    context.abort(codes[outcome["code"]], outcome["text"])


def filler(size):
    """An unknown field (of number 1000) of so many bytes, which every receiver skips."""
    varint, rest = b"", size
    while rest > 0x7F:
        varint, rest = varint + bytes([rest & 0x7F | 0x80]), rest >> 7
    return b"\xc2\x3e" + varint + bytes([rest]) + bytes(size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--messages", required=True)
    parser.add_argument("--kind", choices=facts.KINDS, default="monolith")
    Front(parser.parse_args()).run()


if __name__ == "__main__":
    main()
