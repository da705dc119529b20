# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/runbook, typed as they are written."""

import errno
import os
import signal
import sys
import unittest

from world import PREFIX, World, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "systemd", "cases"))

import runbook  # noqa: E402

FOLDER = os.path.join(HERE, "..", "..", "docs", "runbook")
SERVER = f"{PREFIX}/var/server"
APP = "0192f3a1-0000-7000-837a-8eec1ce19687"  # the names that the pages begin with
OTHER = "0192f3a2-0000-7000-837a-8eec1ce19687"


class RunbookTest(unittest.TestCase):
    AGENT_SETTINGS = ""
    PLUGINS = ()

    def setUp(self):
        self.world = World(nodes=2, plugin_ids=self.PLUGINS, agent_settings=self.AGENT_SETTINGS,
                           server_settings='heartbeat = "1s"\nrelease_sweep = "1s"\n')
        for number, node in enumerate(self.world.nodes):
            node.id = f"worker-{number + 1}"
        self.node, self.other = self.world.nodes
        self.addCleanup(self.world.close)
        self.world.open()
        self.world.start_agents()

    def page(self, name, alert=True):
        tls = f"{SERVER}/tls"
        shell = runbook.Shell(f"{PREFIX}/shell.state", f"{PREFIX}/etc", {
            "PATH": f"{PREFIX}/bin:{os.environ['PATH']}", "HOLDFAST_DEV_DIR": SERVER,
            "HOLDFAST_AGENT_SOCKET": self.node.socket, "base": f"{self.node.dir}/publish"})
        page = runbook.Page(FOLDER, name, shell, lambda: runbook.scrape(
            *self.world.address(), f"{tls}/ca.pem", f"{tls}/operator.pem", f"{tls}/operator.key"))
        return page.open() if alert else page


class TestDeadNode(RunbookTest):
    AGENT_SETTINGS = 'volume_stats = "1s"\n'

    def setUp(self):
        super().setUp()
        self.world.holdfast("volume", "register", self.world.volume_spec())
        self.world.holdfast("alloc", "run", self.world.alloc_spec(), "--node", self.node.id, "--id", APP)

    def run_another(self):
        self.world.holdfast("volume", "register", self.world.spec("scratch.hcl", """id = "scratch"
type = "native"
profile = "scratch"
source {
  class = "tmpfs"
  size = "1MiB"
  inodes = 100
}
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
"""))
        self.world.holdfast("alloc", "run", self.world.spec(
            "other.hcl", 'name = "other"\nvolume "v" {\n  source = "scratch"\n  access_mode = "single-node-writer"\n}\n'),
            "--node", self.node.id, "--id", OTHER)

    def die(self):
        """No more is heard of the node, and its mounts are as they were."""
        self.node.daemon.kill(signal.SIGKILL)

    def switch_off(self):
        for line in reversed(self.node.mounts()):
            os.spawnlp(os.P_WAIT, "umount", "umount", line.split(" ")[4])
        self.assertEqual(self.node.mounts(), [])

    def node_status(self):
        return self.world.json("node", "status", self.node.id)["node"]

    def test_the_volume_of_a_dead_node_is_moved_by_its_page(self):
        self.die()
        page = self.page("dead-node")
        page.follow("--attest")
        self.assertEqual([c["node_id"] for c in self.world.live_claims()], [self.node.id])
        self.switch_off()
        page.close()
        self.assertTrue(any(self.other.dir in line for line in self.other.mounts()))
        # it stays dead here: in this boot, with this kernel, its agent would find its disk mounted by the other one
        self.assertEqual([c["node_id"] for c in self.world.live_claims()], [self.other.id])

    def test_a_volume_that_is_held_elsewhere_is_handed_over_by_its_page(self):
        self.page("held-elsewhere").close()
        self.assertEqual([c["node_id"] for c in self.world.live_claims()], [self.other.id])
        self.assertEqual(self.node.mounts(), [])

    def test_pages_to_look_things_up_in_begin_with_a_command_that_works(self):
        self.page("stuck-volume", alert=False).follow()
        self.page("evidence", alert=False).follow()
        self.page("node-reverted", alert=False).follow()
        self.page("plugin-errors", alert=False).follow()
        self.page("busy", alert=False).follow()

    def test_a_file_system_that_became_read_only_is_repaired_by_its_page(self):
        self.assertEqual(self.write(), 0)
        with open(f"/sys/fs/ext4/{os.path.basename(self.world.loop)}/trigger_fs_error", "w", encoding="ascii") as f:
            f.write("test")
        self.assertEqual(self.write(), errno.EROFS)
        page = self.page("read-only")
        wait_for("the error to be counted", lambda: "ext4 has 1 error on record" in str(self.conditions()))
        page.close()
        wait_for("nothing to be wrong", lambda: self.conditions() == [""])
        self.assertEqual(self.write(), 0)

    def test_a_volume_that_is_full_is_shown_until_there_is_room(self):
        (line,) = [line for line in self.node.mounts() if "/publish/" in line]
        path = os.path.join(line.split(" ")[4], "fill")
        with open(path, "wb") as f:
            left = os.fstatvfs(f.fileno())
            os.posix_fallocate(f.fileno(), 0, left.f_bavail * left.f_frsize * 97 // 100)
        self.page("volume-full").close()
        self.assertFalse(os.path.exists(path))

    def conditions(self):
        return [usage["condition"] for usage in self.world.json("volume", "status", "db")["volume"]["usages"]]

    def write(self):
        """errno of a workload that writes to the volume, or 0."""
        (line,) = [line for line in self.node.mounts() if "/publish/" in line]
        try:
            with open(os.path.join(line.split(" ")[4], "written"), "w", encoding="ascii") as f:
                f.write("x")
            return 0
        except OSError as e:
            return e.errno

    def test_all_volumes_of_a_dead_node_are_freed_by_its_page(self):
        self.run_another()
        self.die()
        page = self.page("dead-node-many")
        page.follow("--dry-run")
        self.switch_off()
        page.follow("--enable")
        self.assertEqual(self.world.live_claims("db") + self.world.live_claims("scratch"), [])
        self.node.start()
        self.node.wait_connected()
        page.close()
        wait_for("the node to be eligible", lambda: not self.node_status()["ineligible"])
        self.assertEqual(self.node.mounts(), [])
