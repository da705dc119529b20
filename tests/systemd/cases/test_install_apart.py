# SPDX-License-Identifier: Apache-2.0
"""docs/install.md, "A server and nodes apart", word for word: four machines in a network whose firewalls let nothing in, and
each types what stands below the headings with its name. Nothing stands in but scp, which copies through /shared."""

import os
import re
import socket
import time
import unittest

import guide
import machine

OTHER_RELEASE = ("container",)
BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py
MACHINES = ("ca", "claims", "worker-1", "worker-2")

SHARED = "/shared"
SECONDS = 120
VOLUME = "holdfast-volume@first.service"
ADDRESSES = {"ca": "192.0.2.5", "claims": "192.0.2.10", "worker-1": "192.0.2.21", "worker-2": "192.0.2.22"}
PLACES = {"every node": ("worker-1", "worker-2")} | {name: (name,) for name in MACHINES}
# a firewall as it is before somebody installs a server: what comes in is an answer
FIREWALL = """table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		iif lo accept
	}
}
"""
SCP = """#!/bin/sh
eval "host=\\${$#}"
mkdir -p "/shared/to/${host%:}"
while [ $# -gt 1 ]; do
	cp -p "$1" "/shared/to/${host%:}/"
	shift
done
"""


def steps():
    """(line, machines, label, text) of each block."""
    text = guide.section("/payload/docs/install.md", "A server and nodes apart")
    headings = [(text.count("\n", 0, m.start()) + 1, PLACES[m[1]]) for m in re.finditer(r"^### On ([^:\n]+):", text, re.M)]
    return [(line, [at for place, at in headings if place < line][-1], label, block) for line, label, block in guide.blocks(text)]


class Apart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open("/payload/machine", encoding="ascii") as f:
            cls.name = f.read()
        machine.run("hostname", cls.name)
        machine.write("/etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in ADDRESSES.items()))
        machine.run("nft", "-f", "-", input=FIREWALL)
        machine.run("ip", "address", "add", f"{ADDRESSES[cls.name]}/24", "dev", "host0")
        machine.run("ip", "link", "set", "host0", "up")
        machine.write("/usr/local/bin/scp", SCP, 0o755)
        guide.log_in("/payload/debs")

    def tell(self, what):
        with open(f"{SHARED}/{what}", "w", encoding="ascii"):
            pass

    def wait(self, what):
        """Until another machine has said so."""
        deadline = time.monotonic() + SECONDS
        while not os.path.exists(f"{SHARED}/{what}"):
            self.assertFalse(os.path.exists(f"{SHARED}/failed"), f"another machine has failed; waited for {what}")
            self.assertLess(time.monotonic(), deadline, f"waited {SECONDS} s for {what}")
            time.sleep(0.05)

    def fetch(self):
        """What scp has brought."""
        folder = f"{SHARED}/to/{self.name}"
        if os.path.isdir(folder):
            machine.run("sh", "-c", f"mv {folder}/* /root/ && rmdir {folder}")

    def type_in(self, line, text):
        self.fetch()
        status, printed = guide.type_in(text)
        print(f"{self.name}: install.md:{line}: {text}\n{printed}", flush=True)
        self.assertEqual(status, 0, f"install.md:{line}")
        return printed

    def follow(self):
        """Type in what is for this machine, when all that stands above has been done by the others."""
        printed = ""
        for number, (line, places, label, text) in enumerate(steps()):
            if label == ["text"]:
                if self.name in places:
                    for shown in text.splitlines():
                        self.assertIn(" ".join(shown.split()), " ".join(printed.split()), f"install.md:{line}")
                continue
            if self.name in places:
                if text.startswith("nft "):
                    self.wait("closed")
                printed = self.type_in(line, text)
                self.tell(f"{number}.{self.name}")
            for name in places:
                self.wait(f"{number}.{name}")
            if self.name == "ca" and "enable --now holdfast-server" in text:
                self.the_port_is_closed_yet()

    def the_port_is_closed_yet(self):
        with self.assertRaises(TimeoutError):
            socket.create_connection(("claims", 4656), timeout=1).close()
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
            machine.write("/etc/holdfast/volumes.d/first.hcl", next(text for _, _, _, text in steps() if "volumes.d/first" in text)
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
        try:
            self.follow()
            self.hand_over()
            self.tell(f"end.{self.name}")
            for name in MACHINES:  # all are needed until then
                self.wait(f"end.{name}")
        except BaseException:
            self.tell("failed")
            raise


if __name__ == "__main__":
    unittest.main()
