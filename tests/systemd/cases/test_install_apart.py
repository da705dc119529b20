# SPDX-License-Identifier: Apache-2.0
"""docs/install-apart.md as it is: four machines in a network whose firewalls let nothing in."""

import unittest

import apart
import machine

OTHER_RELEASE = ("container",)
BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py
MACHINES = ("ca", "claims", "worker-1", "worker-2")

PAGE, TITLE = "/payload/docs/install-apart.md", "A server and nodes apart"
VOLUME = "holdfast-volume@first.service"


class InstallApart(apart.Apart):
    addresses = {"ca": "192.0.2.5", "claims": "192.0.2.10", "worker-1": "192.0.2.21", "worker-2": "192.0.2.22"}
    places = {"every node": ("worker-1", "worker-2")}

    def before(self, text):
        if text.startswith("nft "):
            self.wait("closed")

    def after(self, text):
        if self.name == "ca" and "enable --now holdfast-server" in text:
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

    def test_the_guide_works_word_for_word_on_machines_of_their_own(self):
        self.together(lambda: (self.follow(PAGE, TITLE), self.hand_over()))


if __name__ == "__main__":
    unittest.main()
