# SPDX-License-Identifier: Apache-2.0
"""docs/volumes.md, typed in as it stands, on a node with a blank disk and a CSI driver."""

import os
import signal
import subprocess
import sys

from case import CsiTest
from world import PREFIX, run

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "systemd", "cases"))

import guide  # noqa: E402
import runbook  # noqa: E402

PAGE = os.path.join(HERE, "..", "..", "docs", "volumes.md")
NAME = "scsi-0SAN_orders"  # what the page calls the disk
LINK = f"/dev/disk/by-id/{NAME}"
IMAGE = f"{PREFIX}/orders.img"
APP = "0192f3a1-0000-7000-837a-8eec1ce19687"  # what the page calls its allocations
PROFILE = f"""	profile san {{
		class = block
		fstype = xfs
		trust = trusted
		by_id = exact:{NAME}
	}}
"""
MEMORY = """id = "memory"
type = "native"
profile = "scratch"
source {
  class = "tmpfs"
  size = "%dMiB"
  inodes = 100
}
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
"""
MIB = 1 << 20
OWNER = 33


class TestVolumesPage(CsiTest):
    NODES = 1
    PLUGINS = {"ebs": "grpcio"}

    def setUp(self):
        super().setUp()
        self.allow_the_disk()
        with open(IMAGE, "wb") as f:
            f.truncate(320 * MIB)
        self.addCleanup(os.unlink, IMAGE)
        self.loop = run("losetup", "--find", "--show", IMAGE).stdout.strip()
        self.addCleanup(run, "losetup", "--detach", self.loop)
        os.symlink(f"../../{os.path.basename(self.loop)}", LINK)
        self.addCleanup(os.unlink, LINK)
        self.shell = runbook.Shell(f"{PREFIX}/shell.state", f"{PREFIX}/etc", {
            "PATH": f"{PREFIX}/bin:{os.environ['PATH']}", "HOLDFAST_DEV_DIR": f"{PREFIX}/var/server"})
        self.blocks = guide.blocks(guide.read(PAGE))

    def allow_the_disk(self):
        """Once: the policy is that of the class."""
        path = f"{PREFIX}/etc/holdfast/mounthelper.policy"
        if PROFILE in guide.read(path):
            return
        policy, line = guide.read(path), "\tprofile disk {\n"
        self.assertIn(line, policy)
        with open(path, "w", encoding="ascii") as f:
            f.write(policy.replace(line, PROFILE + line))
        self.world.apply_policy()
        self.node.daemon.kill(signal.SIGTERM)
        self.node.start()
        self.node.wait_connected()

    def type(self, text):
        text = text.replace("/run/holdfast-mount/publish", f"{self.node.dir}/publish")
        return self.shell.type("set -a\n" + text)  # whose variables are there in the next block

    def type_in(self, block):
        line, _, text = block
        status, printed = self.type(text)
        self.assertEqual(status, 0, f"volumes.md:{line}: {text}\n{printed}")
        return printed

    def follow(self, upto=None):
        """What stands before the block that has upto, or all that is left."""
        printed = ""
        while self.blocks and not (upto and upto in self.blocks[0][2]):
            block = self.blocks.pop(0)
            if block[1] == ["sh"]:
                printed = self.type_in(block)
            else:
                self.assertIsNone(runbook.wrong_line(printed, [], block[2]), f"volumes.md:{block[0]}: {printed}")
        self.assertTrue(self.blocks or not upto, f"nothing in the page says {upto}")

    def grow_the_disk(self):
        os.truncate(IMAGE, 640 * MIB)
        run("losetup", "--set-capacity", self.loop)

    def test_the_page_makes_owns_and_grows_its_volumes(self):
        self.follow(upto="mnt=")
        path = self.node.published(APP)
        self.assertEqual(os.stat(path).st_uid, 0)
        self.follow(upto="xfs_growfs")
        self.assertEqual((os.stat(path).st_uid, os.stat(path).st_gid), (OWNER, OWNER))
        before = os.statvfs(path).f_blocks
        self.grow_the_disk()
        self.assertEqual(os.statvfs(path).f_blocks, before)
        self.follow(upto="alloc stop")
        self.assertGreater(os.statvfs(path).f_blocks, before * 3 // 2)
        refused = self.holdfast("volume", "expand", "orders", "256MiB", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("grow its source and the file system on the node", refused.stderr)
        self.follow()
        self.wait_free("orders")
        self.delete("archive")
        self.holdfast("volume", "deregister", "orders", "--yes")
        self.assert_nothing_mounted()

    def test_a_blank_disk_is_refused_and_stays_blank(self):
        register = next(block for block in self.blocks if "volume register" in block[2])
        status, printed = self.type(register[2].replace(APP, self.alloc_id()))
        self.assertEqual(status, 1, printed)
        self.assertIn("a blank device needs mkfs", printed)
        with open(IMAGE, "rb") as f:
            self.assertFalse(any(f.read()))
        self.wait_free("orders")
        run("mkfs.xfs", "-q", LINK)
        self.run_alloc(self.alloc_id(3), ("orders", "single-node-writer"))
        self.stop_alloc(self.alloc_id(3))
        self.wait_free("orders")
        self.holdfast("volume", "deregister", "orders", "--yes")

    def test_a_volume_of_memory_is_registered_anew_with_another_size(self):
        for n, size in enumerate((1, 2)):
            self.holdfast("volume", "register", self.world.spec("memory.hcl", MEMORY % size))
            alloc = self.alloc_id(n)
            self.run_alloc(alloc, ("memory", "single-node-writer"))
            found = os.statvfs(self.node.published(alloc))
            self.assertEqual(found.f_blocks * found.f_frsize, size * MIB)
            self.stop_alloc(alloc)
            self.wait_free("memory")
            self.assertEqual(self.holdfast("volume", "register", self.world.spec("more.hcl", MEMORY % 3), check=False).returncode, 1)
            self.holdfast("volume", "deregister", "memory", "--yes")

    def test_a_disk_with_a_signature_is_not_formatted_by_the_page(self):
        run("mkfs.ext4", "-q", "-L", "precious", LINK, "16M")
        self.follow(upto="wipefs")
        status, printed = self.type(self.blocks[0][2])
        self.assertNotEqual(status, 0)
        self.assertIn("ext4", printed)
        done = subprocess.run(["blkid", "-p", "-s", "LABEL", "-o", "value", LINK], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "precious")
