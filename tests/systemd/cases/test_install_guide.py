# SPDX-License-Identifier: Apache-2.0
"""docs/install.md and docs/install-after.md: every block is typed as it is, in order, on a fresh machine.

What the label of a block says besides sh: "selinux", only where that is on; "reboot", only on a whole machine, which is
rebooted in its place.
"""

import os
import unittest

import guide
import machine
import launch_setuid

LANES = ("container", "vm")
OTHER_RELEASE = ("container", "vm")
BARE = ("container", "vm")  # the packages are not installed yet; see tests/vm/case.py
PHASES = ("FirstBoot", "reboot", "SecondBoot")

PAGES = ("/payload/docs/install.md", "/payload/docs/install-after.md")
DEBS = "/payload/debs"
DOMAINS = {
    "holdfast-server.service": "holdfast_server_t",
    "holdfast-agent.service": "holdfast_agent_t",
    "holdfast-volume@first.service": "holdfast_volume_t",
}


def blocks():
    """Those of both pages; test_install_apart has the page for several machines."""
    return [block for page in PAGES for block in guide.blocks(guide.read(page))]


def ours():
    """Processes of Holdfast."""
    return machine.run("pgrep", "-a", "-f", "^/usr/(s?bin|libexec)/[^ ]*holdfast", check=False).stdout


def enabled():
    """Units of Holdfast that start at boot."""
    shown = ("list-unit-files", "--state=enabled", "--no-legend", "--plain", "holdfast*")
    units = [line.split()[0] for line in machine.systemctl(*shown, check=False).stdout.splitlines()]
    return [unit for unit in units if unit != "holdfast-test.service"]  # runs this


class Guide(unittest.TestCase):
    def follow(self, part):
        """Type it in, in order; all that was typed."""
        printed, typed = "", []
        for line, label, text in part:
            if label[:1] == ["sh"]:
                if "selinux" in label and not machine.has_selinux():
                    continue
                if "setuid" in label:
                    launch_setuid.prepare()
                status, printed = guide.type_in(text)
                print(f"install.md:{line}: {text}\n{printed}", flush=True)
                self.assertEqual(status, 0, f"install.md:{line}")
                typed.append(text)
                self.look_at(text)
            elif label == ["text"]:
                for shown in text.splitlines():
                    self.assertIn(" ".join(shown.split()), " ".join(printed.split()), f"install.md:{line}")
        return typed

    def look_at(self, text):
        """What the guide says of the machine after some of its blocks."""
        if text.startswith("apt-get install"):
            self.assertEqual(ours(), "")
            self.assertEqual(enabled(), [])
        if "volume status first" in text:
            self.assertTrue(machine.is_active("notes.service"))
            self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 1)
            self.check_domains()
        if text.startswith(("apt-get remove", "apt-get purge")):
            self.assertEqual(ours(), "")
            self.assertEqual(machine.mounts_below(machine.TREE), [])
            kept = text.startswith("apt-get remove")
            for path in ("/var/lib/holdfast/server/holdfast.db", machine.TRAIL, "/etc/holdfast/agent.hcl",
                         "/etc/credstore/holdfast.node.key"):  # fmt: skip
                self.assertEqual(os.path.exists(path), kept, path)

    def check_domains(self):
        if machine.has_selinux():
            self.assertEqual(machine.run("getenforce").stdout.strip(), "Enforcing")
            self.assertEqual({unit: machine.domain_of(machine.main_pid(unit)) for unit in DOMAINS}, DOMAINS)


def reboot_at():
    (found,) = [i for i, (_, label, _) in enumerate(blocks()) if "reboot" in label]
    return found


class FirstBoot(Guide):
    def test_a_fresh_machine_has_nothing_of_holdfast(self):
        self.assertEqual(machine.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", "holdfast-*", check=False).stdout, "")
        self.assertEqual(machine.run("getent", "passwd", "holdfast", "holdfast-mount", check=False).stdout, "")
        for folder in ("/etc/holdfast", "/run/holdfast", "/var/lib/holdfast", "/usr/libexec/holdfast"):
            self.assertFalse(os.path.exists(folder), folder)

    def test_the_guide_works_word_for_word(self):
        guide.log_in(DEBS)
        typed = self.follow(blocks()[: reboot_at()])
        self.assertTrue(any("enable --now notes.service" in text for text in typed), "no service was started")


class SecondBoot(Guide):
    """In the container of the same boot."""

    def test_all_is_back_by_itself_and_the_guide_continues_to_its_end(self):
        guide.log_in("/root")
        typed = self.follow(blocks()[reboot_at() + 1 :])
        self.assertTrue(any("apt-get purge" in text for text in typed), "the guide was not followed to its end")
        if machine.has_selinux():
            self.assertNotIn("holdfast", machine.run("semodule", "-l").stdout)


if __name__ == "__main__":
    unittest.main()
