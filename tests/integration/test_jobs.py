# SPDX-License-Identifier: Apache-2.0
"""A job by its commands, on real nodes: followed until it is healthy, scaled, restarted, stuck, reverted, stopped."""

from case import WorldTest
from world import wait_for

VOLUME = """id      = "mem[{index}]"
type    = "native"
profile = "scratch"

source {{
  class  = "tmpfs"
  size   = "1MiB"
  inodes = 100
}}

capability {{
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}}
"""

JOB = """job "web" {{
  type = "service"

  group "app" {{
    count = 2

    update {{
      min_healthy_time = "{healthy}"
      healthy_deadline = "1m"
    }}

    volume "data" {{
      source          = "{source}"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      per_alloc       = true
    }}
  }}
}}
"""


class TestJobs(WorldTest):
    def job(self, *args, check=True):
        return self.world.holdfast("job", *args, check=check)

    def submit(self, source="mem", healthy="100ms", check=True, options=()):
        return self.job("run", self.world.spec("web.hcl", JOB.format(source=source, healthy=healthy)), *options, check=check)

    def members(self):
        """Index -> id of the allocations that run."""
        return {a["job_index"]: a["id"] for a in self.world.json("alloc", "status").get("allocations", [])
                if a["client_status"] == "RUNNING"}

    def setUp(self):
        super().setUp()
        for index in range(3):
            self.world.holdfast("volume", "register", self.world.spec("mem.hcl", VOLUME.format(index=index)))

    def stop(self):
        self.assertRegex(self.job("stop", "web", "--purge").stdout, r"job web is stopped\njob web is forgotten\n$")
        self.assertEqual(self.members(), {})
        self.assertEqual(self.job("status").stdout, "no jobs\n")
        for node in self.world.nodes:
            self.assert_nothing_mounted(node)

    def test_a_job_lives_by_its_commands(self):
        done = self.submit()
        self.assertRegex(done.stdout, r"^job web is accepted as version 1\n")
        self.assertRegex(done.stdout, r"app\[1\] on node \S+: running, of version 1\n")
        self.assertRegex(done.stdout, r"version 1 of job web is done: 2 of 2 members are healthy\n$")
        first = self.members()
        self.assertEqual(self.submit().stdout, "nothing changed: job web stays at version 1\n")
        mounts = [node.mounts() for node in self.world.nodes]

        self.assertIn("updated in place from version 1", self.job("scale", "web", "3").stdout)
        now = self.members()
        self.assertEqual({index: now[index] for index in first}, first)
        for node, before in zip(self.world.nodes, mounts):
            self.assertLessEqual(set(before), set(node.mounts()))
        self.job("scale", "web", "app", "2")
        wait_for("the third one to end", lambda: self.members() == first)

        self.job("restart", "web")
        second = self.members()
        self.assertEqual(set(second), {0, 1})
        self.assertFalse(set(second.values()) & set(first.values()))
        self.stop()

    def test_a_job_without_its_volume_is_stuck_and_reverted(self):
        self.submit()
        members = self.members()
        stuck = self.submit(source="missing", check=False, options=("--timeout", "3s"))
        self.assertEqual(stuck.returncode, 3, stuck)
        self.assertIn("there is no volume missing[0]", stuck.stderr)
        self.assertEqual(self.members(), members)

        reverted = self.job("revert", "web")
        self.assertRegex(reverted.stdout, r"^job web is reverted to version \d+\n")
        self.assertEqual(self.members(), members)
        versions = [int(job["version"]) for job in self.world.json("job", "history", "web")["versions"]]
        self.assertEqual(versions, list(range(versions[0], versions[0] - 3, -1)))
        self.stop()
