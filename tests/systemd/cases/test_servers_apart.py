# SPDX-License-Identifier: Apache-2.0
"""docs/three-servers.md as it is, on the machines that docs/install-apart.md has made before: a unit continues with its
volume through it, and through the loss of the machine that leads."""

import os
import unittest

import apart
import guide
import machine

OTHER_RELEASE = ("container",)
BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py
MACHINES = ("ca", "claims", "claims-2", "claims-3", "worker-1", "worker-2")

SERVERS = ("claims", "claims-2", "claims-3")
FIRST = "/run/holdfast-volumes/first/mnt/started"


class ServersApart(apart.Apart):
    addresses = {"ca": "192.0.2.5", "claims": "192.0.2.10", "claims-2": "192.0.2.11", "claims-3": "192.0.2.12",
                 "worker-1": "192.0.2.21", "worker-2": "192.0.2.22"}  # fmt: skip
    places = {"every node": ("worker-1", "worker-2"), "every server": SERVERS, "the new servers": SERVERS[1:]}

    def install(self):
        """As far as install-apart.md is needed: until a service runs on a volume."""
        self.follow("/payload/docs/install-apart.md", "A server and nodes apart", until="who has it")
        if self.name == "worker-1":
            self.mounted = machine.mounts_below(f"{machine.TREE}/publish")
            self.assertEqual(len(self.mounted), 1)
        guide.log_in("/payload/debs")

    def members(self):
        """Status and text of `operator members`, as ann sees it."""
        return guide.type_in("cd /root && . ./ann.env && holdfast operator members")

    def lose_the_leader(self):
        """Its machine says nothing more; the unit on worker-1 has not noticed, and another server leads."""
        if self.name == "ca":
            leader = next(line.split()[0] for line in self.members()[1].splitlines() if " leads " in line)
            self.tell(f"lost.{leader}")
            machine.wait_for("another one to lead", lambda: any(
                " leads " in line and not line.startswith(f"{leader} ") for line in self.members()[1].splitlines()))
            status, said = guide.type_in("holdfast volume status first")
            self.assertEqual((status, "writers: 1" in said), (0, True), said)
            self.tell("over")
        elif self.name in SERVERS:
            while not os.path.exists(f"{apart.SHARED}/over"):
                if os.path.exists(f"{apart.SHARED}/lost.{self.name}"):
                    machine.run("ip", "link", "set", "host0", "down")
                    break
                self.assertFalse(os.path.exists(f"{apart.SHARED}/failed"), "another machine has failed")
                machine.run("sleep", "0.2")
        self.wait("over")
        if self.name == "worker-1":
            self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), self.mounted)
            with open(FIRST, encoding="utf-8") as f:
                self.assertEqual(len(f.readlines()), 1)
            self.assertTrue(machine.is_active("notes.service"))
            machine.wait_connected()

    def test_one_server_becomes_three_word_for_word(self):
        self.together(lambda: (self.install(), self.follow("/payload/docs/three-servers.md", "From one server to three"),
                               self.lose_the_leader()))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
