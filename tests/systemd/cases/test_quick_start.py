# SPDX-License-Identifier: Apache-2.0
"""README.md's quick start, as it stands, on a fresh machine: five commands to a service on a volume, and away with it."""

import glob
import os
import unittest

import guide
import machine

LANES = ("container",)
OTHER_RELEASE = ("container",)
BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py

README = "/payload/README.md"
SERVER = "/run/holdfast-quickstart"


class QuickStart(unittest.TestCase):
    def setUp(self):
        text = guide.section(README, "Quick start without certificates")
        self.quick, self.look, self.expected, self.clean_up = guide.blocks(text)
        guide.log_in("/payload/debs")

    def type_in(self, block):
        status, printed = guide.type_in(block[2])
        print(f"README.md:{block[0]}: {block[2]}\n{printed}", flush=True)
        self.assertEqual(status, 0, f"README.md:{block[0]}")
        return printed

    def test_five_commands_give_a_service_its_volume_and_all_of_it_goes_again(self):
        self.assertEqual(self.quick[1], ["sh"])
        self.assertEqual(len(guide.commands(self.quick[2])), 5)
        self.type_in(self.quick)
        self.assertTrue(machine.is_active("notes.service"))
        self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 1)
        pid = machine.main_pid("notes.service")
        written = f"/proc/{pid}/root/srv/started"
        machine.wait_for("what the service writes", lambda: os.path.exists(written) and os.path.getsize(written) > 0)
        self.assertNotEqual(os.stat(written).st_uid, 0)
        (seen,) = [line for line in machine.mounts_below("", pid) if line.split(" ")[4] == "/srv"]
        self.assertIn(" - tmpfs ", seen)
        with open(written, encoding="ascii") as f:
            started = f.read()
        printed = self.type_in(self.look)
        self.assertIn(started, printed)
        for shown in self.expected[2].splitlines():
            self.assertIn(" ".join(shown.split()), " ".join(printed.split()))
        self.a_second_node_is_refused()
        self.type_in(self.clean_up)
        self.nothing_is_left()

    def a_second_node_is_refused(self):
        done = machine.run("sh", "/usr/share/holdfast/examples/quickstart/node", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/etc/holdfast/mounthelper.policy", done.stderr)
        self.assertTrue(machine.is_active("holdfast-agent-socket.service"))

    def nothing_is_left(self):
        self.assertEqual(machine.mounts_below(machine.TREE), [])
        failed = machine.systemctl("list-units", "--failed", "--plain", "--no-legend", "holdfast*")
        self.assertEqual(failed.stdout, "")
        self.assertEqual(machine.run("pgrep", "-a", "holdfast", check=False).stdout, "")
        for pattern in (SERVER, "/etc/holdfast", "/var/lib/holdfast*", "/var/log/holdfast", "/etc/credstore/holdfast.*"):
            self.assertEqual([path for path in glob.glob(pattern) if os.path.lexists(path)], [])


if __name__ == "__main__":
    unittest.main()
