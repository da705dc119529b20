# SPDX-License-Identifier: Apache-2.0
"""The main job by units alone: a volume is claimed, mounted, kept over a restart of the agent, and released."""

import os
import unittest

import machine

LANES = ("container", "vm")
OTHER_RELEASE = ("container", "vm")


class MainJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()

    def test_a_volume_is_mounted_kept_over_a_restart_and_released(self):
        machine.holdfast("volume", "register", machine.volume_spec("scratch-1"))
        alloc = machine.holdfast_json("alloc", "run", machine.alloc_spec("web", "scratch-1"))["allocation"]
        path = alloc["published"][0]["path"]
        self.assertTrue(os.path.ismount(path))
        before = machine.mounts_below(machine.TREE)
        machine.systemctl("restart", "holdfast-agent-socket.service")
        machine.wait_connected()
        self.assertEqual(before, machine.mounts_below(machine.TREE))
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))
        machine.holdfast("audit", "verify")


if __name__ == "__main__":
    unittest.main()
