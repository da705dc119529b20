# SPDX-License-Identifier: Apache-2.0
"""The socket door: no setuid bit, the agent under no_new_privs, the helper a process of somebody else's."""

import os
import signal

from case import WorldTest, proc_status, wait_for


class TestDoor(WorldTest):
    NODES = 1

    def setUp(self):
        super().setUp()
        self.node.daemon.kill()
        self.argv = self.node.daemon.argv
        self.node.daemon.argv = self.argv[:1] + ["--no-new-privs"] + self.argv[1:]
        self.node.open_door()
        self.addCleanup(self.shut)
        self.node.start()
        self.node.wait_connected()

    def shut(self):
        self.node.daemon.kill()
        self.node.close_door()
        self.node.daemon.argv = self.argv

    def test_a_volume_lives_and_outlives_the_helpers(self):
        self.run_alloc()
        self.assert_mounted_once()
        before = self.node.mounts()
        helper = self.node.status()["helper"]
        self.assertEqual(helper["door"], "socket")
        first = helper["pid"]
        agent, process = proc_status(self.node.daemon.pid), proc_status(first)
        self.assertEqual(agent["NoNewPrivs"], "1")
        self.assertNotEqual(process["PPid"], str(self.node.daemon.pid))
        os.kill(first, signal.SIGKILL)
        wait_for("another helper", lambda: self.node.status()["helper"]["pid"] not in (0, first))
        os.kill(self.node.daemon.pid, signal.SIGHUP)
        self.assertEqual(self.node.mounts(), before)
        self.stop_alloc()
        wait_for("the claim to be freed", lambda: not self.world.live_claims())
        self.assert_nothing_mounted()
        self.assert_trails_hold()

    def test_a_door_that_is_shut_is_told_and_found_again(self):
        self.node.daemon.kill()
        hidden = self.node.door.path + ".away"
        os.rename(self.node.door.path, hidden)
        self.node.start()

        def says_why():
            status = self.node.status()
            return status and "helper.socket" in status["helper"].get("last_error", "")

        wait_for("the agent to say why", says_why)
        os.rename(hidden, self.node.door.path)
        self.node.wait_connected()
        self.run_alloc()
        self.assert_mounted_once()
