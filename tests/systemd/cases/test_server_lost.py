# SPDX-License-Identifier: Apache-2.0
"""Kits in docs/operations.md and docs/runbook/lost-server.md: every block is typed as it is, in order.

Server and node are one machine here. Of the lost server everything is taken away but what is elsewhere: its packages, its
folders, settings and keys, and its account. The node continues all the while.
"""

import glob
import os
import pwd
import re
import shutil
import unittest

import guide
import machine
import runbook

OTHER_RELEASE = ("container",)
BARE = ("container",)

PAGES = ("/payload/docs/operations.md", "/payload/docs/runbook/lost-server.md")
DEBS = "/payload/debs"
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVER = "holdfast-server.service"
TIMER = "holdfast-backup.timer"
STORE = "/var/lib/holdfast/server/holdfast.db"


def blocks(label):
    """What is typed at one place, and what must be among the answers."""
    found, here = [], False
    for match in BLOCK.finditer("\n".join(map(guide.read, PAGES))):
        words = match[1].split()
        if words[:1] == ["sh"]:
            here = label in words
            if here:
                found.append((match[2], []))
        elif words == ["text"] and here:
            found[-1][1].extend(match[2].splitlines())
    return found


class ServerLost(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.run("apt-get", "install", "-y", *glob.glob(f"{DEBS}/holdfast-[samc][egol]*.deb"))
        machine.set_up()
        os.makedirs("/root/safe", mode=0o700)
        cls.shell = runbook.Shell("/root/page.state", "/root/safe", machine.CLI)

    def follow(self, label):
        typed = blocks(label)
        self.assertTrue(typed, label)
        for text, answers in typed:
            status, printed = self.shell.type(text)
            print(f"{text}\n{printed}", flush=True)
            self.assertEqual(status, 0, text)
            self.assertIsNone(runbook.wrong_line(printed, ["text"], "\n".join(answers)))

    def lose_the_machine(self):
        machine.run("apt-get", "purge", "-y", "holdfast-server")
        shutil.rmtree("/var/lib/holdfast/server", ignore_errors=True)
        shutil.rmtree("/etc/holdfast/server.d", ignore_errors=True)
        for path in ("/etc/holdfast/kit.pem", "/etc/holdfast/server.hcl", "/etc/credstore/holdfast.ticket.key"):
            if os.path.exists(path):
                os.unlink(path)
        machine.run("userdel", "holdfast-server")
        os.unlink("/root/pki/ticket.key")  # nobody has kept it by hand
        self.assertFalse(os.path.exists(STORE))

    def test_a_lost_server_comes_back_from_its_kit_and_mounts_continue(self):
        machine.holdfast("volume", "register", machine.volume_spec("before"))
        first = machine.run_alloc("first", "before")
        mounted = machine.mounts_below(f"{machine.TREE}/publish")
        self.assertEqual(len(mounted), 1)
        self.follow("kit")
        machine.wait_for("the age of the kit in the metrics", lambda: self.metric("holdfast_backup_kit_timestamp_seconds") > 0)

        self.take_one_each_night()

        self.lose_the_machine()
        self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), mounted)
        shutil.copy(glob.glob(f"{DEBS}/holdfast-server_*.deb")[0], "/root/safe")
        shutil.copy(glob.glob(f"{DEBS}/holdfast-cli_*.deb")[0], "/root/safe")
        self.follow("lost")

        self.assertTrue(machine.is_active(SERVER))
        self.assertEqual(os.stat(STORE).st_uid, pwd.getpwnam("holdfast-server").pw_uid)
        self.assertEqual(machine.run("stat", "-c", "%U %a", "/etc/credstore/holdfast.ticket.key").stdout, "root 600\n")
        machine.wait_connected()
        self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), mounted)
        claims = machine.holdfast_json("volume", "status", "before")
        self.assertIn(first["id"], str(claims))
        # a new grant, with a ticket by the old key: the helper mounts it
        machine.holdfast("volume", "register", machine.volume_spec("after"))
        machine.run_alloc("second", "after")
        self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 2)
        machine.holdfast("alloc", "stop", first["id"])
        self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 1)

    def take_one_each_night(self):
        self.assertEqual(machine.systemctl("is-enabled", TIMER, check=False).stdout.strip(), "disabled")
        self.follow("timer")
        self.assertTrue(machine.is_active(TIMER))
        (taken,) = glob.glob("/var/lib/private/holdfast-backup/*.kit")
        machine.run("holdfast", "operator", "backup", "verify", taken, "--key-file", "/root/safe/kit.key")
        with open("/etc/credstore/holdfast.backup.token", encoding="ascii") as f:
            self.assertTrue(f.read().strip())
        refused = machine.run("holdfast", "operator", "backup", "--token-file", "/etc/credstore/holdfast.backup.token",
                              "/root/plain", check=False, env=os.environ | machine.CLI)  # fmt: skip
        self.assertIn("backup copy", refused.stderr)
        self.assertFalse(os.path.exists("/root/plain"))

    def metric(self, name):
        pki = "/root/pki"
        shown = runbook.scrape(machine.SERVER, 4656, f"{pki}/ca.pem", f"{pki}/operator-ann.pem", f"{pki}/operator-ann.key")
        return int(re.search(rf"^{name} (\d+)$", shown, re.MULTILINE)[1])


if __name__ == "__main__":
    unittest.main()
