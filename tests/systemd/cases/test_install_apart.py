# SPDX-License-Identifier: Apache-2.0
"""docs/install-apart.md as it is: four machines in a network whose firewalls let nothing in."""

import re
import unittest

import apart
import machine
import runbook
import units

OTHER_RELEASE = ("container",)
BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py
MACHINES = ("desk", "claims", "worker-1", "worker-2")

PAGE, TITLE = "/payload/docs/install-apart.md", "A server and nodes apart"
VOLUME = "holdfast-volume@first.service"


class InstallApart(apart.Apart):
    addresses = {"desk": "192.0.2.5", "claims": "192.0.2.10", "worker-1": "192.0.2.21", "worker-2": "192.0.2.22"}
    places = {"every node": ("worker-1", "worker-2")}

    def before(self, text):
        if "\nnft -f" in text:
            self.wait("closed")

    def after(self, text):
        if self.name == "desk" and "enable --now holdfast-server" in text:
            self.assertTrue(apart.is_closed("claims", 4656))
            self.tell("closed")

    def hand_over(self):
        """The volume is worker-1's, and worker-2 gets it when it was stopped there."""
        if self.name == "worker-1":
            self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 1)
            self.wait("refused")
            machine.systemctl("stop", VOLUME)
            self.assertFalse(machine.is_active("notes.service"))
            self.tell("stopped")
        if self.name == "worker-2":
            machine.write("/etc/holdfast/volumes.d/first.hcl",
                          next(text for _, _, _, text in self.steps(PAGE, TITLE) if "volumes.d/first" in text)
                          .partition("END'\n")[2].partition("\nEND")[0])  # fmt: skip
            self.assertNotEqual(machine.systemctl("start", VOLUME, check=False).returncode, 0)
            machine.wait_journal(["on node worker-1"], "-u", VOLUME)
            self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), [])
            self.tell("refused")
            self.wait("stopped")
            machine.systemctl("start", VOLUME)
            self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 1)
            machine.systemctl("stop", VOLUME)
            self.tell("handed back")

    def lose_the_holder(self):
        """worker-1 holds the volume and is cut off, then off; its page is typed on worker-2, the standby."""
        if self.name == "claims":
            with open("/etc/holdfast/server.hcl", "a", encoding="ascii") as f:
                f.write('release_sweep = "1s"\n')
            machine.systemctl("restart", units.SERVER)
            self.tell("quick")
        elif self.name == "desk":
            machine.run("sh", "-c", "cd /root/pki && scp ca.pem operator-ann.pem operator-ann.key worker-2:")
            self.tell("ann")
        elif self.name == "worker-1":
            self.wait("handed back")
            self.wait("quick")
            machine.wait_connected()
            machine.systemctl("start", "notes.service")
            machine.run("ip", "link", "set", "host0", "down")
            self.tell("lost")
            self.wait("told to stop")
            machine.systemctl("stop", "--no-block", units.SOCKET_AGENT)
            for line in reversed(machine.mounts_below(machine.TREE)):
                machine.run("umount", "--lazy", line.split(" ")[4])
            self.tell("off")
        else:
            self.wait("ann")
            self.wait("lost")
            self.stand_in()

    def stand_in(self):
        self.fetch()
        service = next(text for _, _, _, text in self.steps(PAGE, TITLE) if "notes.service <<" in text)
        for path, text in re.findall(r"cat >(\S+) <<'END'\n(.*?\n)END\n", service, re.S):
            machine.write(path, text)
        machine.systemctl("daemon-reload")
        ann = {"HOLDFAST_ADDR": "claims:4656", "HOLDFAST_CACERT": "/root/ca.pem",
               "HOLDFAST_CLIENT_CERT": "/root/operator-ann.pem", "HOLDFAST_CLIENT_KEY": "/root/operator-ann.key"}  # fmt: skip
        opened = runbook.Page("/payload/docs/runbook", "dead-node-unit", runbook.Shell("/root/shell.state", "/root", ann),
                              lambda: runbook.scrape("claims", 4656, *list(ann.values())[1:])).open()  # fmt: skip
        self.assertNotEqual(machine.systemctl("start", "notes.service", check=False).returncode, 0)
        machine.wait_journal(["on node worker-1"], "-u", VOLUME)
        machine.systemctl("reset-failed", VOLUME, check=False)
        opened.follow("--attest")
        self.tell("told to stop")
        self.wait("off")
        opened.close()
        self.assertTrue(machine.is_active("notes.service"))

    def test_the_guide_works_word_for_word_on_machines_of_their_own(self):
        self.together(lambda: (self.follow(PAGE, TITLE), self.hand_over(), self.lose_the_holder()))


if __name__ == "__main__":
    unittest.main()
