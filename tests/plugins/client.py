#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A client of C-core that calls a CSI plugin and takes it as it is.

usage: client.py MESSAGES SOCKET [AUTHORITY]
Each line of standard input is a call, {"method", "request", "timeout"}; each line of standard output its end, in the same
order, {"code", "text", "response"}. Calls whose line has "background" are answered when they are done, with that tag.
"""

import importlib
import json
import sys
import threading

import grpc
from google.protobuf import json_format

import facts


class Client:
    def __init__(self, messages, socket, authority):
        sys.path.insert(0, messages)
        self.messages = importlib.import_module("csi.v1.csi_pb2")
        self.channel = grpc.insecure_channel(
            f"unix:{socket}", options=[("grpc.default_authority", authority), ("grpc.enable_retries", 0),
                                       ("grpc.initial_reconnect_backoff_ms", 100),
                                       ("grpc.max_reconnect_backoff_ms", 100)])
        self.lock = threading.Lock()

    def call(self, line):
        method = line["method"]
        request = json_format.ParseDict(line.get("request", {}), getattr(self.messages, method + "Request")())
        service = line.get("service", facts.SERVICE_OF.get(method, "Controller"))
        call = self.channel.unary_unary(
            f"/csi.v1.{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=getattr(self.messages, method + "Response").FromString)
        try:
            response = call(request, timeout=line.get("timeout", 20), wait_for_ready=line.get("wait", True))
        except grpc.RpcError as error:
            return {"code": error.code().value[0], "text": error.details(), "response": None}
        if response is None:
            return {"code": 0, "text": "no message", "response": None}
        return {"code": 0, "text": "",
                "response": json_format.MessageToDict(response, preserving_proto_field_name=True)}

    def answer(self, line):
        done = self.call(line)
        with self.lock:
            print(json.dumps({**done, "tag": line.get("background")}), flush=True)

    def run(self):
        for text in sys.stdin:
            line = json.loads(text)
            if "background" in line:
                threading.Thread(target=self.answer, args=(line,), daemon=True).start()
            else:
                self.answer(line)


if __name__ == "__main__":
    Client(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "localhost").run()
