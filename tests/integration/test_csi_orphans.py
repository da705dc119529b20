# SPDX-License-Identifier: Apache-2.0
"""Plugins that are killed while a child of theirs mounts, and that remove their target with all that is in it: whatever
arrives late, not a byte of a volume is lost. `stress_orphans.py` does the same for as many rounds as one likes."""

import os
import random
import threading
import time

from case import CsiTest, wait_for

import disk
import sample

PLUGIN = "wild"
FILES = {"marker": "kept", "deep/er/marker": "kept, too"}


class OrphanTest(CsiTest):
    NODES = 1
    PLUGINS = {PLUGIN: "grpcio"}

    @classmethod
    def before_plugin(cls, plugin_id):
        storage = cls.world.storage(plugin_id)
        storage.orders.quirks("P18")
        storage.orders.settings(without=["STAGE_UNSTAGE_VOLUME"])
        storage.slow_mounts(0)

    def setUp(self):
        super().setUp()
        self.storage = self.world.storage(PLUGIN)
        self.plugin = self.plugins[PLUGIN, self.node.id]
        self.volume = f"v{self.serial}"
        self.create(self.volume, PLUGIN, kind="bind")
        self.tree = self.provider_tree()
        for name, text in FILES.items():
            path = os.path.join(self.tree, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as f:
                f.write(text)

    def tearDown(self):
        self.storage.slow_mounts(0)
        if not self.plugin.alive():
            self.plugin.start()
        for alloc in self.world.json("alloc", "status").get("allocations", []):
            if alloc["client_status"] in ("PENDING", "RUNNING"):
                self.stop_alloc(alloc["id"], check=False)
        self.wait_free(self.volume, 90)
        self.assert_kept()
        self.delete(self.volume)
        self.assert_nothing_mounted()

    def provider_tree(self):
        folder = self.storage.state.path("data")
        return max((os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".dir")), key=os.path.getctime)

    def assert_kept(self):
        for name, text in FILES.items():
            with open(os.path.join(self.tree, name), encoding="ascii") as f:
                self.assertEqual(f.read(), text)

    def target(self):
        """Of the one volume that is there."""
        (folder,) = self.node.staged()
        return f"{folder}/rw-publish"

    def mounts_at_target(self):
        target = self.target()
        return sum(point == target for point, _ in disk.mounts())

    def wait_called(self, method, n):
        wait_for(f"{method} to be called", lambda: len(self.storage.calls(method)) >= n)

    def begin_slow_publish(self, alloc, seconds):
        """Until its `mount` is on its way."""
        before = len(self.storage.calls("NodePublishVolume"))
        self.storage.slow_mounts(seconds)
        self.run_alloc(alloc, (self.volume, "single-node-writer"), wait=False)
        self.wait_called("NodePublishVolume", before + 1)
        wait_for("the mount to be on its way", lambda: pids_naming(f"{self.node.dir}/stage/"))

    def is_in(self, alloc, state):
        return lambda: self.world.json("alloc", "status", alloc)["allocation"]["client_status"] == state


def pids_naming(text):
    """Of the processes that have it in their arguments."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if text.encode() in f.read():
                    found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


class TestOrphans(OrphanTest):
    def test_a_mount_that_outlives_its_plugin_is_waited_for_before_it_is_asked_for_again(self):
        alloc = self.alloc_id()
        self.begin_slow_publish(alloc, "hold")
        self.plugin.restart()
        wait_for("what it waits for to be told",
                 lambda: "is not called yet" in self.holdfast("agent", "status", "--socket", self.node.socket).stdout)
        self.storage.slow_mounts(0)
        wait_for("the volume to be there", self.is_in(alloc, "RUNNING"))
        self.assertEqual(self.mounts_at_target(), 1)
        self.assertEqual(self.stop_alloc(alloc, timeout="30s").returncode, 0)

    def test_a_mount_that_outlives_its_plugin_is_waited_for_before_anything_is_removed(self):
        alloc = self.alloc_id()
        self.begin_slow_publish(alloc, 3)
        self.plugin.kill()
        stop = threading.Thread(target=self.stop_alloc, args=(alloc,), kwargs={"check": False, "timeout": "30s"})
        stop.start()
        self.plugin.start()
        stop.join()
        self.wait_free(self.volume)
        self.assertEqual(pids_naming(f"{self.node.dir}/stage/"), [])
        self.assert_kept()

    def test_a_target_with_two_mounts_is_not_the_plugins_to_remove(self):
        alloc = self.alloc_id()
        self.run_alloc(alloc, (self.volume, "single-node-writer"))
        target, calls = self.target(), len(self.storage.calls("NodeUnpublishVolume"))
        disk.run("mount", "--bind", self.tree, target)
        self.assertEqual(self.mounts_at_target(), 2)
        self.assertNotEqual(self.stop_alloc(alloc, check=False, timeout="3s").returncode, 0)
        wait_for("the reason to be shown", lambda: "2 mounts are stacked at" in self.why(self.volume))
        self.assertIn(f"umount {target}", self.why(self.volume))
        self.assertEqual(len(self.storage.calls("NodeUnpublishVolume")), calls)
        self.assert_kept()
        disk.run("umount", target)
        self.wait_free(self.volume, 60)

    def test_random_kills_lose_nothing(self):
        seed = int(os.environ.get("HOLDFAST_ORPHAN_SEED", 1 + sample.PART))
        Rounds(self, seed).run(int(os.environ.get("HOLDFAST_ORPHAN_ROUNDS", -(-6 // sample.PARTS))))


class Rounds:
    """Kills at random moments, replayed by the seed."""

    def __init__(self, test, seed):
        self.test, self.random, self.seed = test, random.Random(seed), seed

    def run(self, rounds):
        for number in range(rounds):
            try:
                self.round(self.test.alloc_id(number))
            except Exception as error:
                raise AssertionError(f"seed {self.seed}, round {number}: {error}") from error

    def round(self, alloc):
        test, dice, killer = self.test, self.random, None
        test.world.wait_plugin(PLUGIN, 1, 1)
        test.storage.slow_mounts(round(dice.uniform(0.1, 1.5), 2))
        test.run_alloc(alloc, (test.volume, "single-node-writer"), wait=False)
        for _ in range(dice.choice([1, 1, 2])):
            time.sleep(dice.uniform(0, 1.2))
            test.plugin.kill()
            time.sleep(dice.choice([0, 0, dice.uniform(0, 0.5)]))
            test.plugin.start()
        if dice.random() < 0.5:
            time.sleep(dice.uniform(0, 1.5))
        else:
            wait_for("it to run", test.is_in(alloc, "RUNNING"), 90)
            if dice.random() < 0.5:
                killer = threading.Timer(dice.uniform(0, 0.3), test.plugin.restart)
                killer.start()
        test.stop_alloc(alloc, check=False, timeout="2s")
        if killer:
            killer.join()
        test.wait_free(test.volume, 90)
        wait_for("the last mount to arrive", lambda: not pids_naming(f"{test.node.dir}/stage/"))
        test.assert_kept()
