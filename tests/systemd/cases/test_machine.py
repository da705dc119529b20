# SPDX-License-Identifier: Apache-2.0
"""The machine of the vm lane is what the other cases take it for: without this they could all pass and show nothing."""

import os
import platform
import unittest

import machine

LANES = ("vm",)
OTHER_RELEASE = ("vm",)
KERNELS = {"12": "6.1.", "13": "6.12."}
UNITS = ("holdfast-server.service", "holdfast-agent-socket.service", "holdfast-agent-setuid.service")


class WholeMachine(unittest.TestCase):
    def test_systemd_is_the_first_process_and_nothing_failed_at_boot(self):
        with open("/proc/1/comm", encoding="ascii") as f:
            self.assertEqual(f.read().strip(), "systemd")
        failed = machine.systemctl("list-units", "--failed", "--plain", "--no-legend").stdout
        self.assertEqual(failed, "")

    def test_the_kernel_is_that_of_the_release(self):
        """That of Debian 12 is older than what the fallbacks are for."""
        release = platform.freedesktop_os_release()["VERSION_ID"]
        self.assertTrue(os.uname().release.startswith(KERNELS[release]), os.uname().release)

    def test_it_is_no_container(self):
        self.assertEqual(machine.run("systemd-detect-virt", "--container", check=False).stdout.strip(), "none")
        self.assertFalse(machine.in_container())

    def test_selinux_enforces(self):
        self.assertEqual(machine.run("getenforce").stdout.strip(), "Enforcing")

    def test_violations_of_selinux_are_refused_and_recorded(self):
        """The policy lets no service go into a user's domain."""
        refused = machine.run("runcon", "-t", "user_t", "-r", "user_r", "-u", "user_u", "true", check=False)
        self.assertNotEqual(refused.returncode, 0)

        def recorded():
            found = machine.run("ausearch", "--input-logs", "--raw", "--message", "AVC,USER_AVC,SELINUX_ERR", check=False)
            return "user_u:user_r:user_t" in found.stdout

        machine.wait_for("the record", recorded)

    def test_limits_of_memory_and_processes_hold(self):
        for limit, work in (("MemoryMax=32M", "exec python3 -c 'x = bytearray(256 << 20)'"), ("TasksMax=1", "true & wait")):
            ends = [
                machine.run("systemd-run", "--wait", "--collect", "--quiet", *options, "sh", "-c", work, check=False).returncode
                for options in ((), (f"--property={limit}",))
            ]
            self.assertEqual(ends[0], 0, work)
            self.assertNotEqual(ends[1], 0, limit)

    def test_udev_names_disks_by_their_serial_number(self):
        self.assertTrue(os.path.exists("/dev/disk/by-id/virtio-holdfast-scratch"))

    def test_the_scores_of_the_units_sandboxes_are_kept(self):
        scores = machine.run("systemd-analyze", "security", "--no-pager", *UNITS).stdout
        for unit in UNITS:
            self.assertIn(f"Overall exposure level for {unit}", scores)
        machine.write("/result/security", scores)


if __name__ == "__main__":
    unittest.main()
