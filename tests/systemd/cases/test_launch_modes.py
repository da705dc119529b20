# SPDX-License-Identifier: Apache-2.0
"""The main job in both launch modes of the mount helper, on a whole machine.

Both agents run in a mount namespace of their own, because their units say ProtectSystem=. What the helper mounts must be in
that of PID 1 all the same: systemd starts the one helper there, and the other one goes there by itself.
"""

import os
import subprocess
import unittest

import machine

LANES = ("vm",)
OTHER_RELEASE = ("vm",)

FLOOD = """
import socket, time
end = time.monotonic() + 3
while time.monotonic() < end:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.setblocking(False)
        try:
            s.connect("/run/holdfast-mount/mounthelper.sock")
        except OSError:
            time.sleep(0.001)
"""


def mount_namespace(pid):
    return os.stat(f"/proc/{pid}/ns/mnt").st_ino


class LaunchModes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up("socket")
        machine.holdfast("volume", "register", machine.volume_spec("scratch-1"))

    def do_the_main_job(self, mode):
        machine.use_launch_mode(mode)
        machine.wait_connected()
        self.assertEqual(machine.agent_status()["helper"]["launch_mode"], mode)
        unit = f"holdfast-agent-{mode}.service"
        self.assertNotEqual(mount_namespace(machine.main_pid(unit)), mount_namespace(1))

        alloc = machine.run_alloc("web", "scratch-1")
        path = alloc["published"][0]["path"]
        self.assertIn(path, "".join(machine.mounts_below(machine.TREE, 1)))
        with open(f"{path}/file", "w", encoding="ascii") as f:
            f.write("kept")
        before = machine.mounts_below(machine.TREE, 1)
        refused = machine.holdfast("alloc", "run", machine.alloc_spec("other", "scratch-1"), check=False)
        self.assertIn(alloc["id"], refused.stderr + refused.stdout)

        machine.systemctl("restart", unit)
        machine.wait_connected()
        self.assertEqual(machine.mounts_below(machine.TREE, 1), before)
        with open(f"{path}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "kept")

        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE, 1))
        machine.holdfast("audit", "verify")

    def test_a_flood_of_connections_leaves_the_socket_in_service(self):
        machine.use_launch_mode("socket")
        machine.wait_connected()
        for _ in range(5):  # with the agent's uid, as fast as one process can; an emulated machine is slow
            subprocess.run(["runuser", "-u", "holdfast", "--", "python3", "-c", FLOOD], check=True, timeout=30)
            refused = int(machine.show("holdfast-mounthelper.socket", "NRefused"))
            if refused > 200:
                break
        self.assertTrue(machine.is_active("holdfast-mounthelper.socket"))
        self.assertGreater(refused, 200)

    def test_the_main_job_through_launch_mode_setuid(self):
        self.do_the_main_job("setuid")

    def test_the_main_job_through_launch_mode_socket(self):
        self.do_the_main_job("socket")


if __name__ == "__main__":
    unittest.main()
