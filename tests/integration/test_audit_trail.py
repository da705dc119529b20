# SPDX-License-Identifier: Apache-2.0
"""Trails against the heads that the server was shown, with the commands of docs/trail.md as they are."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

from case import PREFIX, WorldTest, wait_for

GUIDE = pathlib.Path(__file__).parents[2] / "docs/trail.md"
BLOCK = re.compile(r"^```sh audit\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class TrailTest(WorldTest):
    def heads(self, node):
        trails = {t["node_id"]: t for t in self.world.json("operator", "trail").get("trails", [])}
        return trails.get(node.id, {})

    @staticmethod
    def last_line(node):
        with open(node.trail, encoding="ascii") as f:
            return f.read().splitlines()[-1]

    @staticmethod
    def cut(node):
        """As root on the node would: without the last operation, whole lines."""
        with open(node.trail, encoding="ascii") as f:
            text = f.read()
        at = text.rindex(" op=unpublish phase=intent ")
        os.truncate(node.trail, text.rindex("\n", 0, at) + 1)


class TestAuditTrail(TrailTest):
    NODES = 3

    def type_in(self, text, folder):
        """What an auditor's shell prints for a block."""
        done = subprocess.run(
            ["bash", "-c", text], cwd=folder, check=False, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
            env={"PATH": f"{PREFIX}/bin:/usr/bin:/bin", "HOLDFAST_DEV_DIR": f"{PREFIX}/var/server"})
        return done.stdout

    def collect(self):
        folder = f"{PREFIX}/audit"
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for node in self.world.nodes:
            shutil.copyfile(node.trail, f"{folder}/{node.id}.trail")
        return folder

    def freed(self):
        return self.world.holdfast("operator", "audit", "--object", "volume default/db").stdout.count("Claims.Free")

    def use_each_node(self):
        """The volume once on each; returns the allocations."""
        allocs = [self.alloc_id(n) for n in range(len(self.world.nodes))]
        for alloc, node in zip(allocs, self.world.nodes):
            self.run_alloc(alloc, node)
            self.stop_alloc(alloc)
            wait_for("the claim to be freed", lambda: not self.world.live_claims())
        return allocs


    def test_the_answers_of_the_manual_for_three_nodes_one_of_them_cut(self):
        freed = self.freed()
        allocs = self.use_each_node()
        victim = self.world.nodes[1]
        victim.daemon.kill(signal.SIGTERM)
        wait_for("its helpers to be gone", lambda: " op=stop " in self.last_line(victim))
        self.cut(victim)
        self.world.holdfast("audit", "verify", victim.trail)  # nothing in the file tells
        folder = self.collect()
        removed, mounted, authority = (self.type_in(block, folder) for block in BLOCK.findall(GUIDE.read_text()))

        self.assertRegex(removed, r"records 1 to \d+ are whole")
        for node in self.world.nodes:
            self.assertIn(node.id, removed)
        self.assertRegex(removed, r"node node-1: whole up to record \d+")
        self.assertRegex(removed, r"node node-3: whole up to record \d+")
        self.assertRegex(removed, r"the trail of node node-2 is cut: the server saw record \d+ at ")
        self.assertIn("ausearch -m TRUSTED_APP", removed)
        self.assertEqual(removed.count("NOT WHOLE"), 1)
        self.assertIn("node-2: NOT WHOLE", removed)

        published = [line for line in mounted.splitlines() if " publish " in line]
        for alloc, node in zip(allocs, self.world.nodes):
            self.assertEqual(len([line for line in published if alloc in line and node.id in line]), 1, mounted)
        unpublished = [line for line in mounted.splitlines() if " unpublish " in line]
        self.assertEqual([node.id for node in self.world.nodes if any(node.id in line for line in unpublished)],
                         ["node-1", "node-3"])
        self.assertEqual(mounted.count("Claims.Free"), freed + 3)  # the server has the one that was cut off

        for alloc, node in zip(allocs, self.world.nodes):
            ordered = [line for line in authority.splitlines() if "Allocations.Run" in line and alloc in line]
            self.assertEqual(len(ordered), 1, authority)
            self.assertIn("operator/", ordered[0])
            claimed = [line for line in authority.splitlines() if "Volumes.Claim" in line and alloc in line]
            self.assertTrue(claimed and all(f"node/{node.id}" in line for line in claimed), authority)

    def test_a_rotated_trail_still_agrees_with_the_server(self):
        node = self.world.nodes[0]
        self.run_alloc(self.alloc, node)
        os.rename(node.trail, f"{node.trail}.1")
        with open(node.trail, "ab"):
            os.chmod(node.trail, 0o600)
        first = node.helper_pid()
        os.kill(node.daemon.pid, signal.SIGHUP)
        wait_for("another helper", lambda: node.helper_pid() not in (None, first))
        self.stop_alloc()
        wait_for("the claim to be freed", lambda: not self.world.live_claims())
        self.assertFalse(self.heads(node).get("breaks"))
        self.world.holdfast("audit", "verify", "--server", f"{node.trail}.1", node.trail)
        self.world.holdfast("audit", "verify", "--server", "--rotated", node.trail)
        old = pathlib.Path(f"{node.trail}.1")
        wait_for("the second helper to stop", lambda: " head=moved " in old.read_text(encoding="ascii"))
        joined = f"{PREFIX}/joined.trail"  # as docs/trail.md has it copied
        with open(joined, "wb") as f:
            subprocess.run(["cat", old, node.trail], check=True, stdout=f)
        self.world.holdfast("audit", "verify", "--server", joined)


class TestTrailBreak(TrailTest):
    NODES = 1

    def test_a_trail_that_was_cut_goes_back_before_the_servers_eyes(self):
        node = self.node
        self.run_alloc(self.alloc, node)
        self.stop_alloc()
        before = self.heads(node)
        self.assertFalse(before.get("breaks"))
        node.daemon.kill(signal.SIGTERM)
        wait_for("its helpers to be gone", lambda: " op=stop " in self.last_line(node))
        self.cut(node)
        node.start()
        node.wait_connected()
        self.run_alloc(self.alloc_id(1), node)
        wait_for("the break", lambda: self.heads(node).get("breaks"))
        self.assertEqual(self.heads(node)["breaks"][0]["kept"]["record"], before["heads"][-1]["record"])
        self.assertIn("went back", self.world.holdfast("operator", "trail", node.id).stdout)
        self.assertIn("after record", self.world.holdfast("operator", "audit", "--object", f"node {node.id}").stdout)
        done = self.world.holdfast("audit", "verify", "--server", node.trail, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"the trail of node {node.id} was rewound", done.stderr)
