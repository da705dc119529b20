# SPDX-License-Identifier: Apache-2.0
"""What the audit daemon of a whole machine keeps of a volume's life, and how ausearch finds it."""

import re
import unittest

import machine

LANES = ("vm",)
GUIDE = "/payload/docs/trail.md"


def records(*options):
    """Records that ausearch finds, one a line; none is no error."""
    found = machine.run("ausearch", "--input-logs", "--raw", *options, check=False)
    return found.stdout.splitlines()


def load_rules():
    """As the guide says, word for word."""
    with open(GUIDE, encoding="utf-8") as f:
        (block,) = re.findall(r"```\n([^`]*\baugenrules\b[^`]*)```", f.read())
    machine.run("sh", "-ec", block)


class Audit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        load_rules()
        machine.set_up()
        machine.holdfast("volume", "register", machine.volume_spec("scratch-1"))
        cls.alloc = machine.run_alloc("web", "scratch-1")["id"]
        machine.holdfast("alloc", "stop", cls.alloc)
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))

    def test_each_privileged_operation_is_on_record_with_its_result(self):
        for operation in ("stage", "publish", "unpublish", "unstage"):
            def found(operation=operation):
                return [r for r in records("--message", "TRUSTED_APP")
                        if f"op={operation} " in r and "phase=result" in r and "res=success" in r]  # fmt: skip

            self.assertEqual(len(machine.wait_for(f"a record of {operation}", found)), 1)

    def test_the_record_names_the_boot_and_the_allocation(self):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            boot = f.read().strip()
        lines = records("--message", "TRUSTED_APP")
        self.assertTrue(any("op=start " in r and f"boot={boot}" in r for r in lines), lines)
        self.assertTrue(any("op=publish " in r and f"alloc={self.alloc}" in r for r in lines), lines)

    def test_the_kernel_records_the_callers_of_mount_changes(self):
        lines = records("--key", "holdfast-mounts")
        signs = ("syscall=429 ", "success=yes", 'exe="/usr/libexec/holdfast/holdfast-mounthelper-socket"')  # move_mount
        helpers = [r for r in lines if r.startswith("type=SYSCALL") and all(sign in r for sign in signs)]
        self.assertGreaterEqual(len(helpers), 2, lines)  # stage and publish

    def test_no_record_was_lost(self):
        self.assertIn("lost 0", machine.run("auditctl", "-s").stdout.splitlines())


if __name__ == "__main__":
    unittest.main()
