# SPDX-License-Identifier: Apache-2.0
"""holdfast apply, against a server without nodes."""

import json
import os
import unittest

from world import PREFIX, Failure, World

FOLDER = f"{PREFIX}/etc/cluster"
POLICY = 'namespace "default" {\n  policy = "read"\n}\n'
VOLUME = """id = "db"
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
"""
JOB = """job "web" {
  type = "service"
  group "one" {
    count = 1
    volume "v" {
      source = "db"
      access_mode = "single-node-writer"
    }
  }
}
"""


class TestApply(unittest.TestCase):
    def setUp(self):
        self.world = World(nodes=1)
        self.addCleanup(self.world.close)
        self.world.open()
        os.makedirs(FOLDER)
        for name, text in (("readers.policy.hcl", POLICY), ("db.volume.hcl", VOLUME), ("web.job.hcl", JOB), ("README.md", "x")):
            self.write(name, text)

    def write(self, name, text):
        with open(f"{FOLDER}/{name}", "w", encoding="utf-8") as f:
            f.write(text)

    def apply(self, *options):
        """Result of each object, by kind and id."""
        done = self.world.holdfast("apply", FOLDER, "--json", *options, check=False)
        self.found = json.loads(done.stdout)
        return {f"{one['kind']} {one['id']}": one["result"] for one in self.found}

    def job(self):
        return self.world.json("job", "status", "web")["job"]

    def test_a_folder_is_applied_once(self):
        would = {"policy readers": "would be created", "volume db": "would be registered", "job web": "would be created"}
        self.assertEqual(self.apply("--dry-run"), would)
        with self.assertRaises(Failure):
            self.world.holdfast("volume", "status", "db")
        self.assertEqual(self.apply(), {name: one.removeprefix("would be ") for name, one in would.items()})
        self.assertEqual(self.apply(), {name: "unchanged" for name in would})
        self.assertEqual(int(self.job()["version"]), 1)

    def test_a_difference_is_shown_and_then_applied(self):
        self.apply()
        self.write("web.job.hcl", JOB.replace("count = 1", "count = 0"))
        self.write("readers.policy.hcl", POLICY.replace("read", "write") + 'node {\n  policy = "read"\n}\n')
        self.assertEqual(self.apply("--diff")["job web"], "would be changed")
        diffs = {one["id"]: one.get("diff", "") for one in self.found}
        self.assertIn('namespaces[0].policy: "read" -> "write"', diffs["readers"])
        self.assertIn('node: "" -> "read"', diffs["readers"])
        self.assertNotEqual(diffs["web"], "")
        self.assertEqual(diffs["db"], "")
        self.assertEqual(int(self.job()["version"]), 1)
        self.assertEqual(self.apply(), {"policy readers": "changed", "volume db": "unchanged", "job web": "changed"})
        self.assertEqual(int(self.job()["version"]), 2)
        self.write("db.volume.hcl", f'description = "new"\n{VOLUME}')
        self.assertEqual(self.apply()["volume db"], "changed")
        self.write("db.volume.hcl", VOLUME)
        self.apply("--diff")
        self.assertEqual([one["diff"] for one in self.found if one["id"] == "db"], ['    description: "new" -> ""\n'])
        self.assertEqual(self.apply()["volume db"], "changed")
        self.assertEqual(self.apply()["volume db"], "unchanged")
        self.write("readers.policy.hcl", POLICY.replace("read", "write"))
        self.assertEqual(self.apply()["policy readers"], "changed", "what the file lacks is taken away")

    def test_nothing_is_applied_when_one_file_is_wrong(self):
        self.write("web.job.hcl", JOB.replace("count", "conut"))
        self.write("db.volume.hcl", VOLUME.replace("profile", "prolife"))
        done = self.world.holdfast("apply", FOLDER, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("web.job.hcl:4: unknown key 'conut'", done.stderr)
        self.assertIn("db.volume.hcl:3: unknown key 'prolife'", done.stderr)
        self.assertEqual(self.world.holdfast("operator", "policy", "list", "-o", "name").stdout.strip(), "")

    def test_two_files_of_one_object_are_refused(self):
        self.write("a.volume.hcl", VOLUME.replace("100", "200"))
        self.write("web-2.job.json", json.dumps({"job": {"web": {"group": {"one": {"count": 0}}}}}))
        done = self.world.holdfast("apply", FOLDER, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{FOLDER}/db.volume.hcl: volume db is described by {FOLDER}/a.volume.hcl already", done.stderr)
        self.assertIn("job web is described by", done.stderr)
        self.assertEqual(self.world.holdfast("operator", "policy", "list", "-o", "name").stdout.strip(), "")
        self.write("a.volume.hcl", VOLUME.replace('id = "db"', 'id = "db"\nnamespace = "other"'))  # another object
        os.unlink(f"{FOLDER}/web-2.job.json")
        self.apply()
        self.assertEqual(len(self.found), 4)

    def test_a_file_is_no_folder(self):
        done = self.world.holdfast("apply", f"{FOLDER}/web.job.hcl", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("holdfast job run FILE", done.stderr)

    def test_one_that_is_refused_leaves_the_others_applied(self):
        self.write("web.job.hcl", JOB.replace("count = 1", "count = 2"))
        self.assertEqual(self.apply(), {"policy readers": "created", "volume db": "registered", "job web": "failed"})
        self.write("web.job.hcl", JOB)
        self.assertEqual(self.apply(), {"policy readers": "unchanged", "volume db": "unchanged", "job web": "created"})

    def test_prune_asks_and_keeps_other_namespaces(self):
        self.apply()
        self.world.holdfast("volume", "register", self.world.spec("other.hcl", VOLUME.replace('id = "db"', 'id = "kept"\nnamespace = "other"')))
        os.unlink(f"{FOLDER}/web.job.hcl")
        self.assertEqual(self.apply("--prune", "--dry-run")["job web"], "would be stopped")
        done = self.world.holdfast("apply", FOLDER, "--prune", check=False)
        self.assertIn("--yes", done.stderr)
        self.assertFalse(self.job().get("stop"))
        self.assertEqual(self.apply("--prune", "--yes")["job web"], "stopped")
        self.assertTrue(self.job()["stop"])
        self.assertEqual(self.apply("--prune", "--yes"), {"policy readers": "unchanged", "volume db": "unchanged"})
        os.rename(f"{FOLDER}/db.volume.hcl", f"{PREFIX}/etc/db.hcl")
        longest = "v" * 128
        self.world.holdfast("volume", "register", self.world.spec("long.hcl", VOLUME.replace('"db"', f'"{longest}"')))
        self.write("new.volume.hcl", VOLUME.replace('"db"', '"new"'))
        pruned = self.apply("--prune", "--yes")
        self.assertEqual(pruned["volume db"], "deregistered")
        self.assertEqual(pruned[f"volume {longest}"], "deregistered")
        self.assertIn("kept", self.world.holdfast("volume", "status", "--namespace", "other", "-o", "name").stdout)
