# SPDX-License-Identifier: Apache-2.0
"""A node with more volumes than the helper's rate lets through at once: each comes, none is lost, and no helper ends."""

import datetime
import re
import unittest

import bench_volumes
from world import World, wait_for

VOLUMES = 300
OPS_PER_SECOND, BURST = 20, 100  # what a policy has that says nothing of them


class TestRate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World(nodes=1, ops_per_second=OPS_PER_SECOND, burst=BURST)
        cls.addClassCleanup(cls.world.close)
        cls.node = cls.world.nodes[0]
        cls.node.profiles = lambda: f"\tmax_staged = 600\n{bench_volumes.Native.profiles()}"
        cls.world.open()
        cls.world.start_agents()
        cls.server = bench_volumes.Server(cls.world)
        cls.addClassCleanup(cls.server.close)

    def helpers(self):
        return [instance.get("pid") for instance in self.node.status()["helper"]["instances"]]

    def intents(self):
        """When the helper began each stage and publish, in seconds."""
        with open(self.node.trail, encoding="ascii") as trail:
            found = re.findall(r"^ts=(\S+) .* op=(?:stage|publish) phase=intent ", trail.read(), re.M)
        return [datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for text in found]

    def all_are(self, status):
        allocs = self.server.one("Allocations/List", {"per_page": VOLUMES})["allocations"]
        for alloc in allocs:
            self.assertNotEqual(alloc["client_status"], "FAILED", alloc)
        return sum(alloc["client_status"] == status for alloc in allocs) == VOLUMES

    def test_a_node_that_boots_with_300_volumes_has_them_all_at_the_pace_of_its_policy(self):
        bench = bench_volumes.BenchVolumes(self.world, self.node, bench_volumes.Native(self.world))
        self.server.all("Volumes/Register", [{"volume": bench.volume(i)} for i in range(VOLUMES)])
        allocs = [bench.allocation("0190a5a0", i) for i in range(VOLUMES)]
        helpers = self.helpers()
        self.server.all("Allocations/Run", [{"allocation": alloc} for alloc in allocs])
        wait_for("all allocations to run", lambda: self.all_are("RUNNING"), 600)
        self.assertEqual(self.helpers(), helpers, "a helper ended")
        self.assertEqual(len(self.node.mounts()), 2 * VOLUMES)
        # by the helper's own clock, which no load of the machine changes: BURST at once, the rest at the pace of the policy
        times = sorted(self.intents())
        self.assertGreaterEqual(len(times), 2 * VOLUMES)
        least = (len(times) - BURST - len(helpers)) / OPS_PER_SECOND
        self.assertGreaterEqual(times[-1] - times[0], least)
        self.server.all("Allocations/Stop", [{"id": alloc["id"]} for alloc in allocs])
        wait_for("all allocations to be stopped", lambda: self.all_are("COMPLETE"), 600)
        self.assertEqual(self.helpers(), helpers, "a helper ended")
        self.assertEqual(self.node.mounts(), [])
        self.world.holdfast("audit", "verify", self.node.trail)
