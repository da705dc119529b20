# SPDX-License-Identifier: Apache-2.0
"""The disk of an agent's journal: full, then read-only by an error of its file system, on a real ext4."""

import os
import signal
import subprocess
import sys

from case import WorldTest, wait_for
from world import PREFIX, run

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "systemd", "cases"))

import runbook  # noqa: E402

FILL = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    try:
        os.write(fd, bytes(1024))
    except OSError:
        pass
"""


class TestDiskFull(WorldTest):
    NODES = 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        node = cls.world.nodes[0]
        node.daemon.kill(signal.SIGTERM)
        cls.image, cls.folder = f"{PREFIX}/journal.img", f"{PREFIX}/run/journal"
        with open(cls.image, "wb") as f:
            f.truncate(64 << 20)
        run("mkfs.ext4", "-q", "-b", "1024", "-m", "0", "-N", "512", "-E", f"root_owner={node.uid}:0", cls.image)
        os.mkdir(cls.folder)
        cls.loop = run("losetup", "--find", "--show", cls.image).stdout.strip()
        cls.addClassCleanup(run, "losetup", "--detach", cls.loop, check=False)
        run("mount", "-o", "errors=remount-ro", cls.loop, cls.folder)
        cls.addClassCleanup(run, "umount", "--lazy", cls.folder, check=False)
        cls.addClassCleanup(node.daemon.kill, signal.SIGTERM)
        drop_in = node.config.removesuffix(".hcl") + ".d"
        os.mkdir(drop_in)
        with open(f"{drop_in}/disk.hcl", "w", encoding="ascii") as f:
            f.write(f'data_dir = "{cls.folder}"\ndisk_reserve = "4MiB"\n')
        node.start()
        node.wait_connected()

    def fill(self):
        """As a program does that logs without end: it takes each block that becomes free. Returns what ends it."""
        path = f"{self.folder}/dump"
        filling = subprocess.Popen([sys.executable, "-c", FILL, path], start_new_session=True)

        def end():
            if filling.poll() is None:
                os.killpg(filling.pid, signal.SIGKILL)
                filling.wait()
            run("rm", "-f", path)
            run("sync", "--file-system", self.folder)  # else the next error of the file system undoes the removal
        self.addCleanup(end)
        return end

    def shown(self):
        return self.world.json("node", "status", self.node.id)["node"].get("disk_trouble", "")

    def problem(self):
        return "\n".join(self.node.status().get("problems", []))

    def expect_trouble(self, kind, words):
        wait_for(f"the node to report {kind}", lambda: self.shown() == kind)
        self.assertIn(words, self.world.holdfast("node", "status", self.node.id).stdout)
        wait_for("the agent to say so", lambda: words in self.problem())
        tls = f"{PREFIX}/var/server/tls"
        scraped = runbook.scrape(*self.world.address(), f"{tls}/ca.pem", f"{tls}/operator.pem", f"{tls}/operator.key")
        self.assertIn(f'holdfast_nodes_disk_trouble{{kind="{kind}"}} 1\n', scraped)
        refused = self.run_alloc(self.alloc_id(9), check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(words, refused.stderr)

    def expect_room(self):
        wait_for("the node to have room", lambda: self.shown() == "")
        self.assertNotIn("its disk", self.problem())

    def test_a_full_disk_takes_no_new_work_and_its_volumes_are_released(self):
        self.run_alloc()
        end_filling = self.fill()
        self.expect_trouble("full", f"its disk is full: {self.folder}")
        why = self.world.holdfast("volume", "status", "db", "--why").stdout
        self.assertIn("its disk is full", why)
        self.stop_alloc()
        self.assertEqual(self.world.live_claims(), [])
        end_filling()
        self.expect_room()
        self.run_alloc(self.alloc_id(1))

    def test_no_write_to_the_journals_index_waits_for_a_block(self):
        index = os.stat(f"{self.folder}/agent.db-shm")  # its file system has blocks of 1 KiB
        self.assertGreaterEqual(index.st_blocks * 512, index.st_size)

    def test_a_killed_agent_starts_on_a_full_disk_and_releases(self):
        self.run_alloc()
        end_filling = self.fill()
        wait_for("the node to be full", lambda: self.shown() == "full")
        self.node.daemon.kill(signal.SIGKILL)
        self.node.start()
        self.node.wait_connected()
        self.stop_alloc()
        self.assertEqual(self.world.live_claims(), [])
        end_filling()
        self.expect_room()

    def test_a_journal_that_became_read_only_keeps_its_releases_until_it_can_be_written(self):
        self.run_alloc()
        self.break_file_system()
        try:
            self.assertNotEqual(self.stop_alloc(check=False, timeout="2s").returncode, 0)
            self.expect_trouble("read-only", f"its disk is read-only: {self.folder}")
            self.assertEqual(len(self.world.live_claims()), 1)
        finally:
            self.repair()
        wait_for("the volume to be free", lambda: not self.world.live_claims())
        self.expect_room()

    def test_an_agent_waits_at_its_start_on_a_read_only_disk_and_is_not_fenced(self):
        self.run_alloc()
        self.break_file_system()
        try:
            self.stop_alloc(check=False, timeout="1s")
            wait_for("the node to report it", lambda: self.shown() == "read-only")
            self.node.daemon.kill(signal.SIGKILL)
            self.node.start()
            wait_for("the agent to wait", lambda: self.node.status() and "waits at its start" in self.problem())
            wait_for("the session to be over", lambda: self.world.json(
                "node", "status", self.node.id)["node"]["status"] == "DISCONNECTED")
            why = self.world.holdfast("volume", "status", "db", "--why").stdout
            self.assertIn("it reported last: its disk is read-only", why)
            self.assertNotIn("--fence", why)
        finally:
            self.repair()
        wait_for("the volume to be free", lambda: not self.world.live_claims())
        self.expect_room()

    def break_file_system(self):
        with open(f"/sys/fs/ext4/{os.path.basename(self.loop)}/trigger_fs_error", "w", encoding="ascii") as f:
            f.write("test")

    def repair(self):
        run("umount", self.folder)
        run("fsck.ext4", "-p", self.loop, check=False)
        run("mount", "-o", "errors=remount-ro", self.loop, self.folder)
