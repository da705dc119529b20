# SPDX-License-Identifier: Apache-2.0
"""Three servers and two nodes whose certificates live for seconds: sessions, mounts and calls outlive them.

HOLDFAST_LIVES_SECONDS: how long, after each certificate was renewed once; 1800 for half an hour."""

import os
import re
import shutil
import time
import unittest

from demo_servers import TLS, ServersWorld
from world import PREFIX, run, wait_for

LIFE = "10s"
SECONDS = int(os.environ.get("HOLDFAST_LIVES_SECONDS", "0"))


class LivesWorld(ServersWorld):
    SETTINGS = (f'ca {{\n  certificate = "{TLS}/ca.pem"\n  key = "{TLS}/ca.key"\n  node_life = "{LIFE}"\n'
                f'  server_life = "{LIFE}"\n}}')  # fmt: skip


def put(source, target, like):
    """In one step, with the owner and mode of another file."""
    shutil.copyfile(source, f"{target}.next")
    shutil.copystat(like, f"{target}.next")
    os.chown(f"{target}.next", os.stat(like).st_uid, os.stat(like).st_gid)
    os.replace(f"{target}.next", target)


class TestLives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = LivesWorld()
        cls.addClassCleanup(cls.world.close)
        cls.world.open()
        cls.world.start_agents()
        cls.world.holdfast("volume", "register", cls.world.volume_spec())

    def enrol_servers(self):
        """All three have the files of one certificate, until each renews its own."""
        folder = f"{PREFIX}/var/enrolled"
        line = self.world.holdfast("operator", "cert", "enroll", "server/dev", "--host", "127.0.0.1,localhost").stdout
        run(f"{PREFIX}/bin/holdfast", "enroll", "-", "--out", folder, input=line)
        for kind in ("key", "pem"):
            put(f"{folder}/server-dev.{kind}", f"{TLS}/server.{kind}", f"{TLS}/server.{kind}")

    def enrol_node(self, node):
        line = self.world.holdfast("operator", "node", "enroll", node.id).stdout
        folder = f"{node.dir}/enrolled"
        run(f"{PREFIX}/sbin/holdfast-agent", "--enroll", "-", "--into", folder, input=line)
        key = f"{node.data}/node.key"
        put(f"{folder}/tls/node.key", key, key)
        put(f"{folder}/tls/node.key", f"{TLS}/node-{node.id}.pem", key)

    def said(self):
        return "".join(server.said() for server in self.world.servers)

    def renewals(self):
        """How often each server has renewed its own, and all of them together the nodes'."""
        own = [len(re.findall("RenewCertificate by server|renewed: certificate", server.said()))
               for server in self.world.servers]  # fmt: skip
        return own + [len(re.findall(rf"Nodes.Renew by node/{node.id}", self.said())) for node in self.world.nodes]

    def assert_all_is_well(self):
        nodes = self.world.json("node", "status")["nodes"]
        self.assertEqual([node["status"] for node in nodes], ["READY"] * len(self.world.nodes))
        self.assertEqual(self.world.nodes[0].mounts(), self.mounts)

    def test_sessions_mounts_and_calls_outlive_their_certificates(self):
        node = self.world.nodes[0]
        self.world.holdfast("alloc", "run", self.world.alloc_spec(), "--node", node.id)
        self.mounts = node.mounts()
        self.assertEqual(len(self.mounts), 2)
        for one in self.world.nodes:
            self.enrol_node(one)
        self.enrol_servers()
        lost = self.said().count("event=node-disconnected")
        wait_for("every certificate to be renewed", lambda: min(self.renewals()) > 0)
        self.assert_all_is_well()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.assert_all_is_well()
            time.sleep(0.5)
        print(f"# renewals of {len(self.world.servers)} servers and {len(self.world.nodes)} nodes: {self.renewals()}")
        self.assertEqual(self.said().count("event=node-disconnected"), lost)
