# SPDX-License-Identifier: Apache-2.0
"""All packages, that of the policy among them, upgraded with a volume in use, and what is in use kept: on a machine that
enforces."""

import os
import unittest

import machine
import test_packages as packages
import volume_units as volumes

LANES = ("vm",)

ALL = (*packages.PACKAGES, "selinux")
SERVER, AGENT = "holdfast-server.service", "holdfast-agent-socket.service"
CONFINED = {SERVER: "holdfast_server_t", AGENT: "holdfast_agent_t"}


def domains():
    found = {unit: machine.domain_of(machine.main_pid(unit)) for unit in CONFINED}
    return found | {"helper": {machine.domain_of(pid) for pid in packages.helpers()}}


def label(path):
    return os.getxattr(path, "security.selinux").decode().split(":")[2]


class Policy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()
        cls.alloc = packages.claim("kept")
        cls.path = cls.alloc["published"][0]["path"]
        machine.write(f"{cls.path}/file", "here\n")

    def check_the_volume(self):
        machine.wait_connected()
        with open(f"{self.path}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "here\n")

    def main_job(self, name):
        alloc = packages.claim(name)
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: name not in str(machine.mounts_below(machine.TREE)))

    def test_1_an_upgrade_of_all_keeps_the_volume_and_the_domains(self):
        confined = CONFINED | {"helper": {"holdfast_mounthelper_t"}}
        self.assertEqual(domains(), confined)
        pids = {unit: machine.main_pid(unit) for unit in CONFINED}
        packages.install(*ALL, folder=packages.make_newer(ALL))
        for name in ALL:
            self.assertEqual(packages.status_of(name), f"installed {packages.NEWER}")
        self.check_the_volume()
        self.assertEqual({unit for unit, pid in pids.items() if machine.main_pid(unit) == pid}, set())
        self.assertEqual(domains(), confined)
        for path, wanted in (
            ("/usr/sbin/holdfast-server", "holdfast_server_exec_t"),
            (packages.HELPER, "holdfast_mounthelper_exec_t"),
            (f"{machine.ETC}/mounthelper.policy", "holdfast_policy_t"),
            (f"{machine.ETC}/mounthelper.policy.applied", "holdfast_policy_t"),
            (f"{machine.CREDENTIALS}/holdfast.ticket.key", "holdfast_key_t"),
            (machine.TRAIL, "holdfast_trail_t"),
            (f"{machine.TREE}/publish", "holdfast_publish_t"),
            (f"{self.path}/file", "holdfast_data_t"),
        ):
            self.assertEqual(label(path), wanted, path)
        self.main_job("upgraded")

    def test_2_nothing_that_is_in_use_is_removed(self):
        done = packages.dpkg("--remove", *packages.names("agent", "driver-container", "mounthelper"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(self.path, done.stderr)
        self.check_the_volume()
        self.assertEqual(domains()[AGENT], "holdfast_agent_t")

    def test_3_the_policy_stays_while_a_unit_of_it_holds_a_volume(self):
        volumes.set_up_volumes()
        machine.holdfast("volume", "register", machine.volume_spec("held"))
        volumes.volume_file("held", "held")
        unit = volumes.unit("held")
        volumes.start(unit)
        pids = [machine.main_pid(name) for name in CONFINED]
        done = packages.dpkg("--remove", "holdfast-selinux", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(unit, done.stderr)
        self.assertEqual([machine.main_pid(name) for name in CONFINED], pids)
        self.assertEqual(machine.domain_of(machine.main_pid(unit)), "holdfast_volume_t")
        machine.systemctl("stop", unit)

    def test_4_without_the_policy_the_daemons_run_on_and_the_volume_stays(self):
        pids = {unit: machine.main_pid(unit) for unit in CONFINED}
        packages.dpkg("--remove", "holdfast-selinux")
        self.check_the_volume()
        self.assertEqual({unit for unit, pid in pids.items() if machine.main_pid(unit) in (0, pid)}, set())
        for unit, domain in domains().items():
            self.assertNotIn("holdfast", str(domain), unit)
        self.main_job("unconfined")


if __name__ == "__main__":
    unittest.main()
