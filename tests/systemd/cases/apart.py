# SPDX-License-Identifier: Apache-2.0
"""Pages for several machines, typed in word for word: each machine types what stands below the headings with its name. They are in a
network whose firewalls let nothing in. Nothing stands in but scp, which copies through /shared."""

import os
import re
import socket
import time
import unittest

import guide
import machine

SHARED = "/shared"
SECONDS = 120
# a firewall as it is before somebody installs a server: what comes in is an answer
FIREWALL = """flush ruleset
table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established,related accept
		iif lo accept
	}
}
"""
SCP = """#!/bin/sh -e
eval "host=\\${$#}"
mkdir -p "/shared/to/${host%:}"
while [ $# -gt 1 ]; do
	cp -p "$1" "/shared/to/${host%:}/"
	shift
done
"""


class Apart(unittest.TestCase):
    """Of one machine of several: addresses has all, by name; places who is meant by what a heading says."""

    addresses, places = {}, {}

    @classmethod
    def setUpClass(cls):
        with open("/payload/machine", encoding="ascii") as f:
            cls.name = f.read()
        machine.run("hostname", cls.name)
        machine.write("/etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{ip} {name}\n" for name, ip in cls.addresses.items()))
        machine.write("/etc/nftables.conf", FIREWALL)
        machine.run("nft", "-f", "/etc/nftables.conf")
        machine.run("ip", "address", "add", f"{cls.addresses[cls.name]}/24", "dev", "host0")
        machine.run("ip", "link", "set", "host0", "up")
        machine.write("/usr/local/bin/scp", SCP, 0o755)
        guide.log_in("/payload/debs")

    def steps(self, page, title, until=None):
        """(line, machines, label, text) of each block; until: of those before the heading with these words."""
        text = guide.section(page, title)
        if until:
            text = text[: re.search(rf"^### On [^:\n]+: {until}$", text, re.M).start()]
        headings = [(text.count("\n", 0, m.start()) + 1, self.places.get(m[1]) or (m[1],))
                    for m in re.finditer(r"^### On ([^:\n]+):", text, re.M)]  # fmt: skip
        return [(line, [at for place, at in headings if place < line][-1], label, block) for line, label, block in guide.blocks(text)]

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

    def type_in(self, where, text):
        self.fetch()
        status, printed = guide.type_in(text)
        said = "" if status == 0 else machine.journal("-n", "40")
        print(f"{self.name}: {where}: {text}\n{printed}{said}", flush=True)
        self.assertEqual(status, 0, where)
        if "\nnft -f" in text:
            self.load_rules_as_at_a_boot(where)
        return printed

    def load_rules_as_at_a_boot(self, where):
        """A port that a page opens is open after a reboot too."""
        before = machine.run("nft", "list", "ruleset").stdout
        machine.run("systemctl", "is-enabled", "nftables.service")
        machine.systemctl("restart", "nftables.service")
        after = machine.run("nft", "list", "ruleset").stdout
        self.assertEqual(sorted(after.splitlines()), sorted(before.splitlines()), where)

    def before(self, text):
        """Of a block that this machine is about to type."""

    def after(self, text):
        """Of a block that all who are meant have typed."""

    def follow(self, page, title, until=None):
        """Type in what is for this machine, when all that stands above has been done by the others."""
        printed, name = "", os.path.basename(page)
        for number, (line, places, label, text) in enumerate(self.steps(page, title, until)):
            if label == ["text"]:
                if self.name in places:
                    for shown in text.splitlines():
                        self.assertIn(" ".join(shown.split()), " ".join(printed.split()), f"{name}:{line}")
                continue
            if self.name in places:
                self.before(text)
                printed = self.type_in(f"{name}:{line}", text)
                self.tell(f"{name}.{number}.{self.name}")
            for other in places:
                if other in self.addresses:
                    self.wait(f"{name}.{number}.{other}")
            self.after(text)

    def together(self, do):
        """Whoever fails tells the others, and all stay until the last one is done."""
        try:
            do()
            self.tell(f"end.{self.name}")
            for name in self.addresses:
                self.wait(f"end.{name}")
        except BaseException:
            self.tell("failed")
            raise


def is_closed(name, port):
    """Does its firewall say nothing?"""
    try:
        socket.create_connection((name, port), timeout=1).close()
    except TimeoutError:
        return True
    return False
