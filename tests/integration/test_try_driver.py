# SPDX-License-Identifier: Apache-2.0
"""`./dev driver`, with a driver of this tree."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from test_plugins import Client

import plugin

HERE = os.path.dirname(os.path.abspath(__file__))


class TestTryDriver(unittest.TestCase):
    def test_a_driver_without_a_controller_gets_a_registered_volume_with_context_and_secrets(self):
        folder = tempfile.mkdtemp(prefix="holdfast-try-driver-")
        self.addCleanup(subprocess.run, ["find", folder, "-xdev", "-depth", "-delete"], check=False)
        tools = plugin.prepare()
        storage = plugin.Storage(f"{folder}/storage")
        self.addCleanup(storage.close)
        made = plugin.Plugin(storage, plugin.GRPCIO, f"{folder}/csi.sock", "node-1", tools)
        self.addCleanup(made.kill)
        made.start()
        client = Client(tools[0], made.socket)
        client.send("CreateVolume", {"name": "old", "parameters": {"kind": "bind"},
                                     "volume_capabilities": [{"mount": {}, "access_mode": {"mode": 1}}]})  # fmt: skip
        volume = client.receive()["response"]["volume"]["volume_id"]
        client.close()
        made.kill()
        storage.orders.settings(has_controller=False)
        with open(f"{folder}/secrets", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write('user = "hunter2"\n')

        made.kind = "node"
        words = ["--external-id", volume, "--context", "share=a", "--secrets-file", f"{folder}/secrets", "--",
                 "env", "CSI_ENDPOINT=unix://{socket}", *made.argv()]  # fmt: skip
        done = subprocess.run([sys.executable, "-B", f"{HERE}/try_driver.py", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("ok      the data is there the next time", done.stdout)
        with open(f"{storage.folder}/calls.jsonl", encoding="utf-8") as f:
            requests = [json.loads(line).get("request", {}) for line in f]
        staged = [request for request in requests if request.get("volume_id") == volume and "staging_target_path" in request
                  and "volume_context" in request]  # fmt: skip
        self.assertTrue(staged)
        self.assertTrue(all(request["volume_context"].get("share") == "a" for request in staged), staged)
        self.assertTrue(any(request.get("secrets", {}).get("user") == "hunter2" for request in staged), staged)
