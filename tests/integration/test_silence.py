# SPDX-License-Identifier: Apache-2.0
"""An agent that hangs, and a server that was stopped itself."""

import contextlib
import os
import signal
import time

from case import WorldTest, wait_for
from world import World

HEARTBEAT_SECONDS = 1


class TestSilence(WorldTest):
    NODES = 1
    SERVER_SETTINGS = f'heartbeat = "{HEARTBEAT_SECONDS}s"'

    def shown(self):
        return self.world.json("node", "status", self.node.id)["node"]

    def cont(self, pid):
        """Continue, also when the test fails."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def test_an_agent_that_hangs_is_disconnected_and_its_claim_stays(self):
        self.run_alloc()
        claims = self.world.live_claims()
        pid = self.node.daemon.pid
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.cont, pid)
        began = time.monotonic()
        wait_for("the node to be disconnected", lambda: self.shown()["status"] == "DISCONNECTED")
        self.assertGreaterEqual(time.monotonic() - began, 2 * HEARTBEAT_SECONDS)
        self.assertIn("nothing was heard", self.shown()["disconnect_reason"])
        self.assertIn("nothing was heard", self.world.holdfast("node", "status", self.node.id).stdout)
        self.assertEqual(self.world.live_claims(), claims)
        self.cont(pid)
        wait_for("the node to be back", lambda: self.shown()["status"] == "READY")
        self.assertEqual(self.world.live_claims(), claims)
        self.assert_mounted_once()

    def test_a_server_that_was_stopped_disconnects_no_node(self):
        pid = self.world.server.pid
        began = len(self.world.server.said())
        self.addCleanup(self.cont, pid)
        for _ in range(2):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(6 * HEARTBEAT_SECONDS)
            self.cont(pid)
            time.sleep(2 * HEARTBEAT_SECONDS)
            if World.store == "etcd":  # its lease is over, it ends and is started again
                self.assertFalse(self.world.server.alive())
                self.revive()
                pid = self.world.server.pid
        self.assertNotIn("nothing was heard", self.world.server.said()[began:])
        self.assertEqual(self.shown()["status"], "READY")
