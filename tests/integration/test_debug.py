# SPDX-License-Identifier: Apache-2.0
"""The support bundle of a node and its server, with planted secrets."""

import http.server
import os
import signal
import subprocess
import tarfile
import tempfile
import threading

from case import WorldTest
from world import PREFIX, wait_for

PLANTED = "PLANTED-7f3a"
SETTINGS = "/etc/holdfast/planted.hcl"


class Scraped(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"# HELP a\nholdfast_driver_tasks 0\ntoken={PLANTED}\n".encode())

    def log_message(self, *_):
        pass


class TestDebug(WorldTest):
    NODES = 1

    def test_a_bundle_has_every_part_and_no_planted_secret(self):
        self.run_alloc()
        os.makedirs(os.path.dirname(SETTINGS), exist_ok=True)
        self.addCleanup(os.unlink, SETTINGS)
        with open(SETTINGS, "w", encoding="ascii") as f:
            f.write(f'secrets {{\n  any = "{PLANTED}"\n}}\ntoken = "hf_{PLANTED}"\npassphrase: {PLANTED}\n'
                    f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----\ncluster = \"kept\"\n")
        self.world.holdfast("volume", "register", self.world.spec(
            "secret.hcl", 'id = "secret"\ntype = "native"\nprofile = "scratch"\nsource {\n  class = "tmpfs"\n'
            '  size = "1MiB"\n  inodes = 100\n}\n'
            'capability {\n  access_mode = "single-node-writer"\n  attachment_mode = "file-system"\n}\n'
            f'mount_options {{\n  mount_flags = ["password={PLANTED}"]\n}}\n'), check=False)
        self.plant_metrics()
        path = f"{PREFIX}/debug.tar.gz"
        done = self.world.holdfast("operator", "debug", path, "--socket", self.node.socket)
        self.assertIn("secrets are redacted", done.stdout)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with tarfile.open(path) as bundle:
            parts = {m.name.split("/", 1)[1]: bundle.extractfile(m).read().decode() for m in bundle.getmembers()}
        for name in ("MANIFEST", "server/status.json", "server/nodes.json", "server/volumes.json", "server/events.json",
                     "server/allocations.json", "server/metrics", "node/agent-status.json", "node/mountinfo", "node/settings/planted.hcl"):
            self.assertIn(name, parts.keys())
        self.assertIn(self.alloc, parts["server/allocations.json"])
        self.assertIn(self.alloc, parts["node/agent-status.json"])
        self.assertIn("\nholdfast_allocations{client_status=\"running\"} 1\n", parts["server/metrics"])
        self.assertIn("missing  node/agent-metrics: metrics is not set\n", parts["MANIFEST"])
        self.assertIn("\nholdfast_driver_", parts["node/driver-metrics"])
        self.assertIn('cluster = "kept"', parts["node/settings/planted.hcl"])
        for name, text in parts.items():
            self.assertNotIn(PLANTED, text, name)
        self.assertNotEqual(self.world.holdfast("operator", "debug", path, check=False).returncode, 0)

    def plant_metrics(self):
        """Settings of an agent without `metrics`, and of a driver with it, which a stranger answers."""
        server = http.server.HTTPServer(("127.0.0.1", 0), Scraped)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        for name, text in (("agent", ""), ("holdfast-driver-container", f'metrics = "127.0.0.1:{server.server_port}"\n')):
            path = f"/etc/holdfast/{name}.hcl"
            self.addCleanup(os.unlink, path)
            with open(path, "w", encoding="ascii") as f:
                f.write(text)

    def test_odd_names_and_zero_bytes_change_no_other_part(self):
        os.makedirs("/var/log/holdfast", exist_ok=True)
        big = "big.log"
        for name in ("odd\nmissing  evil.log", "n" * 200 + ".log", big):
            path = f"/var/log/holdfast/{name}"
            self.addCleanup(os.unlink, path)
            with open(path, "wb") as f:
                f.write(b"a\0b password=" + PLANTED.encode() + b"\nend\n")
        with open(f"/var/log/holdfast/{big}", "r+b") as f:
            f.truncate(3 << 20)
        path = f"{PREFIX}/odd.tar"
        self.addCleanup(os.unlink, path)
        self.world.holdfast("operator", "debug", path, "--socket", self.node.socket)
        with tarfile.open(path) as bundle:
            parts = {m.name.split("/", 1)[1]: bundle.extractfile(m).read().decode() for m in bundle.getmembers()}
        trails = {name: text for name, text in parts.items() if name.startswith("node/trails/")}
        self.assertEqual(len(trails.pop(f"node/trails/{big}")), 1 << 20)
        odd = [name for name in trails if name.startswith(("node/trails/odd_missing__evil.log~", "node/trails/nnnn"))]
        self.assertEqual(len(odd), 2, trails.keys())
        for name in odd:
            self.assertEqual(parts[name], "a?b password=[redacted]\nend\n")
        self.assertNotIn("\nmissing  evil", parts["MANIFEST"])

    def test_a_program_that_hangs_is_missing_and_a_signal_leaves_no_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("df", "journalctl", "systemctl"):  # only df -i hangs
                with open(f"{folder}/{name}", "w", encoding="ascii") as f:
                    f.write('#!/bin/sh\ntrap "" TERM\n[ "$1" = -i ] && exec sleep 1000\necho fine\n')
                os.chmod(f.name, 0o755)
            env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
            path = f"{folder}/debug.tar"
            command = [f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "operator", "debug", path]
            subprocess.run(command, env=env, check=True)
            with tarfile.open(path) as bundle:
                parts = {m.name.split("/", 1)[1]: bundle.extractfile(m).read().decode() for m in bundle.getmembers()}
            self.assertEqual(parts["node/df"], "fine\n")
            self.assertIn("node/journal", parts)
            self.assertNotIn("node/df-inodes", parts)
            self.assertIn("missing  node/df-inodes: timed out\n", parts["MANIFEST"])
            os.unlink(path)
            with subprocess.Popen(command, env=env) as process:
                wait_for("the file", lambda: os.path.exists(path))
                process.terminate()
                self.assertEqual(process.wait(), -signal.SIGTERM)
            self.assertFalse(os.path.exists(path))

    def test_events_are_shown_alone_and_in_the_status(self):
        self.run_alloc()
        for noun, name, event in (("volume", "db", "Volumes.Claim"), ("node", self.node.id, "Nodes.Connect")):
            self.assertIn(event, self.world.holdfast(noun, "events", name).stdout)
            self.assertIn(event, self.world.holdfast(noun, "status", name).stdout)
        self.stop_alloc()
        self.assertIn("Claims.Free", self.world.holdfast("volume", "events", "db", "--limit", "1").stdout)
