# SPDX-License-Identifier: Apache-2.0
"""The demo's path with everything asserted, what the processes may do, and restarts."""

import os
import pwd
import signal
import stat
import subprocess
import sys
import time
import unittest

from case import PREFIX, WorldTest, proc_status, wait_for

SYS_ADMIN, AUDIT_WRITE = 21, 29
HELPER_CAPS = 1 << SYS_ADMIN | 1 << AUDIT_WRITE


class TestDemo(unittest.TestCase):
    def test_the_demo_works_twice_in_a_row(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo.py")
        for _ in range(2):
            done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=False)
            last = done.stdout.rstrip().splitlines()[-1]
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertRegex(last, r"^demo: ok \(\d+ steps, [\d.]+ s\)$")
            self.assertFalse(os.path.exists(PREFIX), "the demo left its folder behind")


class TestPath(WorldTest):
    def test_agents_have_no_privilege_and_helpers_exactly_two_capabilities(self):
        for node in self.world.nodes:
            agent, helper = proc_status(node.daemon.pid), proc_status(node.helper_pid())
            self.assertEqual(int(agent["CapEff"], 16), 0)
            self.assertEqual(int(agent["CapPrm"], 16), 0)
            self.assertEqual(agent["Uid"].split(), [str(node.uid)] * 4)
            uid = str(pwd.getpwnam("holdfast-mount").pw_uid)
            self.assertEqual(helper["Uid"].split(), [uid] * 4)
            self.assertEqual(int(helper["CapEff"], 16), HELPER_CAPS)
            self.assertEqual(int(helper["CapPrm"], 16), HELPER_CAPS)
            self.assertEqual(int(helper["CapBnd"], 16), 0)
            self.assertEqual(int(helper["CapInh"], 16), 0)
            self.assertEqual(int(helper["CapAmb"], 16), 0)
            self.assertEqual(helper["NoNewPrivs"], "1")
            self.assertEqual(helper["Seccomp"], "2")
            self.assertEqual(helper.get("Groups", "").strip(), "")

    def test_the_agent_can_neither_reach_the_stage_nor_change_the_trees(self):
        self.run_alloc()
        as_agent = ["setpriv", f"--reuid={self.node.user}", "--regid=holdfast-dev", "--clear-groups"]
        for attempt in (
            ["ls", f"{self.node.dir}/stage"],
            ["rmdir", self.node.published(self.alloc)],
            ["mkdir", f"{self.node.dir}/publish/x"],
            ["mv", f"{self.node.dir}/publish", f"{self.node.dir}/other"],
            ["umount", self.node.published(self.alloc)],
            ["sh", "-c", f": >>{self.node.trail}"],
            ["sh", "-c", f": >>{PREFIX}/etc/holdfast/mounthelper.policy"],
            ["sh", "-c", f": >>{PREFIX}/etc/holdfast/mounthelper.policy.applied"],
            [f"{PREFIX}/bin/holdfast", "policy", "apply"],
        ):
            done = subprocess.run(as_agent + attempt, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
            self.assertNotEqual(done.returncode, 0, attempt)
        self.assert_mounted_once()

    def test_two_volumes_of_two_classes_in_one_allocation(self):
        self.world.holdfast(
            "volume", "register",
            self.world.spec("scratch.hcl", 'id = "scratch"\ntype = "native"\nprofile = "scratch"\n'
                            'source {\n  class = "tmpfs"\n  size = "8MiB"\n  inodes = 1000\n}\n'
                            'capability {\n  access_mode = "single-node-single-writer"\n'
                            '  attachment_mode = "file-system"\n}\n'))
        spec = self.world.spec(
            "both.hcl", 'name = "both"\nvolume "data" {\n  source = "db"\n  access_mode = "single-node-writer"\n}\n'
            'volume "tmp" {\n  source = "scratch"\n  access_mode = "single-node-single-writer"\n}\n')
        self.world.holdfast("alloc", "run", spec, "--node", self.node.id, "--id", self.alloc)
        self.assertEqual(len(self.node.mounts()), 4)
        size = os.statvfs(self.node.published(self.alloc, 1))
        self.assertEqual(size.f_blocks * size.f_frsize, 8 << 20)
        self.stop_alloc()
        wait_for("the claims to be freed", lambda: not self.world.live_claims("scratch"))
        self.assert_nothing_mounted()

    def test_a_host_volume_is_published_by_its_name(self):
        with open(f"{self.node.hostvol}/known", "w", encoding="ascii") as f:
            f.write("x")
        line = self.run_on("models", 'source {\n  class = "bind"\n  host_volume = "data"\n}')
        self.assertTrue(os.path.exists(f"{self.node.published(self.alloc)}/known"))
        options = line.split(" ")[5].split(",")
        for option in ("nosuid", "nodev", "noexec"):
            self.assertIn(option, options)
        shown = self.world.holdfast("volume", "status", "models").stdout
        self.assertRegex(shown, r"host volume +data")
        self.stop_alloc()
        wait_for("the claims to be freed", lambda: not self.world.live_claims("models"))
        self.assert_nothing_mounted()
        self.assertTrue(os.path.exists(f"{self.node.hostvol}/known"))

    def test_propagation_and_exec_are_as_asked_for(self):
        scratch = 'profile = "scratch"\nsource {\n  class = "tmpfs"\n  size = "1MiB"\n  inodes = 100\n}'
        for word, tag in (("private", None), ("host-to-task", "master:"), ("bidirectional", "shared:")):
            type(self).serial += 1
            self.alloc = self.alloc_id(0)
            line = self.run_on(f"p-{word}", scratch, f'  propagation = "{word}"\n  exec = true\n')
            tags = line.split(" ")[6:line.split(" ").index("-")]
            self.assertEqual([t for t in tags if tag is None or not t.startswith(tag)], [], line)
            self.assertEqual(len(tags), 0 if tag is None else 1, line)
            self.assertNotIn("noexec", line.split(" ")[5].split(","))
            self.assertTrue(all(m["verified"] for m in self.node.status()["mounts"]))
            self.stop_alloc()
            wait_for("the claims to be freed", lambda: not self.world.live_claims(f"p-{word}"))  # noqa: B023
        self.assert_nothing_mounted()

    def test_a_hangup_replaces_the_helpers_and_changes_no_mount(self):
        self.run_alloc()
        before = self.node.mounts()

        def pids():
            status = self.node.status()
            return {i["pid"] for i in status["helper"]["instances"] if i.get("state") == "ready"}

        wait_for("two helpers", lambda: len(pids()) == 2)
        first = pids()
        os.kill(self.node.daemon.pid, signal.SIGHUP)
        wait_for("two other helpers", lambda: len(pids()) == 2 and not pids() & first)
        self.assertEqual(self.node.mounts(), before)
        self.stop_alloc()

    def test_a_busy_volume_is_not_torn_away(self):
        self.run_alloc()
        path = f"{self.node.published(self.alloc)}/open"
        with open(path, "w", encoding="ascii") as f:
            f.write("x")
            self.world.holdfast("alloc", "stop", self.alloc, "--no-wait")
            time.sleep(2)
            self.assert_mounted_once()
            self.assertEqual(len(self.world.live_claims()), 1)
            refused = self.run_alloc(self.alloc_id(1), self.world.nodes[1], check=False)
            self.assertEqual(refused.returncode, 1)
        wait_for("the claim to be freed", lambda: not self.world.live_claims(), seconds=60)
        self.assert_nothing_mounted()

    def test_restarts_of_everything_change_no_mount(self):
        self.run_alloc()
        before = self.node.mounts()
        for sig in (signal.SIGTERM, signal.SIGKILL):
            self.node.daemon.kill(sig)
            self.assertEqual(self.node.mounts(), before)
            self.world.server.kill(sig)
            self.node.start()  # the agent comes up without a server
            wait_for("the agent to answer", self.node.status)
            self.assertEqual(self.node.mounts(), before)
            self.world.start_server()
            self.revive()
            wait_for("the allocation to run", lambda: self.client_status() == "RUNNING")
            self.assertEqual(self.node.mounts(), before)
            self.assertEqual(len(self.world.live_claims()), 1)

    def test_a_node_that_was_given_up_releases_when_it_is_back(self):
        self.run_alloc()
        self.node.daemon.kill()

        def is_disconnected():
            return self.world.json("node", "status", self.node.id)["node"]["status"] == "DISCONNECTED"

        wait_for("the server to notice", is_disconnected)
        why = self.world.holdfast("volume", "status", "db", "--why").stdout
        self.assertIn(f"Next: holdfast node status {self.node.id}; then if", why)
        self.stop_alloc(check=False, timeout="1s")
        why = self.world.holdfast("volume", "status", "db", "--why").stdout
        self.assertNotIn("holdfast alloc stop", why)
        self.assertIn(f"holdfast volume detach db {self.node.id} --attest REASON", why)
        detached = self.world.json("volume", "detach", "db", self.node.id, "--attest", "its power is off", "--yes")
        self.assertEqual(detached["claims"][0]["evidence"], "EVIDENCE_OPERATOR")
        self.assert_mounted_once()  # the word was wrong
        self.node.start()
        self.node.wait_connected()
        wait_for("the node to release it", lambda: not self.node.mounts())
        wait_for("the node to forget", lambda: not self.node.status().get("allocations"))
        self.assertEqual(self.client_status(), "LOST")
        wait_for("its receipt to take the place of the word",
                 lambda: self.world.claims()[0]["evidence"] == "EVIDENCE_RECEIPT")
        self.assertTrue(self.world.claims()[0]["was_freed"])

    def test_the_helper_is_replaced_when_it_dies_idle(self):
        first = self.node.helper_pid()
        os.kill(first, signal.SIGKILL)
        wait_for("another helper", lambda: self.node.helper_pid() not in (None, first))
        self.run_alloc()
        self.assert_mounted_once()

    def test_the_setuid_bit_is_for_the_agents_group_alone(self):
        st = os.stat(f"{PREFIX}/libexec/holdfast/holdfast-mounthelper")
        self.assertEqual(stat.S_IMODE(st.st_mode), 0o4750)
        self.assertEqual(st.st_uid, 0)
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
             f"{PREFIX}/libexec/holdfast/holdfast-mounthelper"], stderr=subprocess.DEVNULL, check=False)
        self.assertNotEqual(done.returncode, 0)
