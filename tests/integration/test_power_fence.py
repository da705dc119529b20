# SPDX-License-Identifier: Apache-2.0
"""A dead node loses its volumes to a power fence: a real server, holdfast-fencer, and a fence agent in shell whose switch
is a folder. The switch lies, hangs and fails when a test wants it."""

import errno
import os
import pwd
import signal

from case import WorldTest, wait_for
from world import CLUSTER, GROUP, PREFIX, Daemon, as_server, proc_status, run

BMC = f"{PREFIX}/var/bmc"
SECRET_END = "which-stays-in-memory-that-was-freed"  # free() overwrites what is before it
SECRET = f"hunter2-of-the-switch-{SECRET_END}"

AGENT = f"""#!/bin/sh
# options on standard input; the exit codes are those of FenceAgentAPI
while IFS= read -r line; do
	case $line in
	action=*) action=${{line#action=}} ;;
	plug=*) plug=${{line#plug=}} ;;
	password=*) password=${{line#password=}} ;;
	esac
done
if [ "$action" = metadata ]; then
	echo '<resource-agent name="fence_bmc"><parameter name="plug"/><parameter name="password"/></resource-agent>'
	exit 0
fi
[ "$password" = "{SECRET}" ] || {{ echo "login with $password failed"; exit 1; }}
mode=ok
[ -e {BMC}/mode ] && IFS= read -r mode <{BMC}/mode
echo "$action $plug" >>{BMC}/log
case $action-$mode in
monitor-*) exit 0 ;;
off-hangs) /bin/sleep 1000 ;;
off-fails) echo "login with $password is not accepted"; exit 1 ;;
off-lies) exit 0 ;;
off-slow) /bin/sleep 2; echo off >{BMC}/$plug; exit 0 ;;
off-*) echo off >{BMC}/$plug; exit 0 ;;
status-*) [ -e {BMC}/$plug ] && exit 2; exit 0 ;;
esac
exit 1
"""


class TestPowerFence(WorldTest):
    SERVER_SETTINGS = 'heartbeat = "1s"'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        user = pwd.getpwnam(GROUP)
        tls = f"{PREFIX}/var/server/tls"
        for folder in (BMC, f"{PREFIX}/var/fencer", f"{PREFIX}/var/credentials"):
            os.makedirs(folder, 0o755)
            os.chown(folder, user.pw_uid, user.pw_gid)
        os.makedirs(f"{PREFIX}/agents", 0o755)
        with open(f"{PREFIX}/agents/fence_bmc", "w", encoding="ascii") as f:
            f.write(AGENT)
        os.chmod(f"{PREFIX}/agents/fence_bmc", 0o755)
        cls.secret("bmc.password", SECRET)
        run(f"{PREFIX}/bin/holdfast", "operator", "cert", "fencer", "f1", "--out", tls)
        os.chown(f"{tls}/fencer-f1.key", user.pw_uid, user.pw_gid)
        cls.config = f"{PREFIX}/etc/holdfast/fencer.hcl"
        with open(cls.config, "w", encoding="ascii") as f:
            f.write(cls.settings(tls))
        cls.fencer = Daemon(cls.world, "fencer", as_server(
            "env", f"CREDENTIALS_DIRECTORY={PREFIX}/var/credentials", f"{PREFIX}/sbin/holdfast-fencer",
            "--config", cls.config, "--agents", f"{PREFIX}/agents"))  # fmt: skip
        cls.fencer.start()
        cls.addClassCleanup(cls.fencer.kill)

    @classmethod
    def secret(cls, name, text):
        path = f"{PREFIX}/var/credentials/{name}"
        with open(path, "w", encoding="ascii") as f:
            f.write(text + "\n")
        os.chmod(path, 0o400)
        os.chown(path, pwd.getpwnam(GROUP).pw_uid, 0)

    @classmethod
    def settings(cls, tls):
        host, port = cls.world.address()
        nodes = "".join(f"""node "{node.id}" {{
  agent   = "fence_bmc"
  timeout = "5s"
  options {{ plug = "{node.id}" }}
  secrets {{ password = "bmc.password" }}
}}
""" for node in cls.world.nodes)
        return f"""name        = "f1"
cluster     = "{CLUSTER}"
servers     = ["{host}:{port}"]
ticket_keys = ["{cls.world.ticket_key()}"]
state_dir   = "{PREFIX}/var/fencer"
check_interval = "2s"
tls {{
  ca   = "{tls}/ca.pem"
  cert = "{tls}/fencer-f1.pem"
  key  = "{tls}/fencer-f1.key"
}}
{nodes}"""

    def setUp(self):
        super().setUp()
        self.set_mode("ok")
        for node in self.world.nodes:
            if os.path.exists(f"{BMC}/{node.id}"):
                os.unlink(f"{BMC}/{node.id}")
        if not self.fencer.alive():
            self.fencer.start()
        wait_for("the fencer to have looked at its switches", self.is_checked)
        self.other = self.world.nodes[1]

    def set_mode(self, mode):
        with open(f"{BMC}/mode", "w", encoding="ascii") as f:
            f.write(mode + "\n")

    def fencers(self):
        return self.world.json("node", "fence")

    def is_checked(self):
        nodes = [node for fencer in self.fencers().get("fencers", []) for node in fencer["nodes"]]
        return len(nodes) == 2 and all(node.get("checked_ms") and not node.get("error") for node in nodes)

    def actions(self, action, node):
        with open(f"{BMC}/log", encoding="ascii") as f:
            return f.read().splitlines().count(f"{action} {node.id}")

    def die(self, node):
        """As a machine that has lost its power: its agent is gone, and the server notices."""
        node.daemon.kill()
        wait_for("the server to miss it",
                 lambda: self.world.json("node", "status", node.id)["node"]["status"] != "READY")  # fmt: skip

    def fence(self, node, *args, check=True):
        return self.world.holdfast("node", "fence", node.id, "--yes", "--reason", "test", *args, check=check)

    def last_fence(self, node):
        return next(fence for fence in self.fencers()["fences"] if fence["node_id"] == node.id)

    def test_a_volume_of_a_dead_node_is_free_after_its_fence(self):
        self.run_alloc()
        self.die(self.node)
        self.assertTrue(self.world.live_claims())
        shown = self.fence(self.node).stdout
        self.assertIn("recorded", shown)
        self.assertFalse(self.world.live_claims())
        with open(f"{BMC}/{self.node.id}", encoding="ascii") as f:
            self.assertEqual(f.read(), "off\n")
        for line in reversed(self.node.mounts()):  # its power is off
            run("umount", line.split(" ")[4])
        second = self.alloc_id(1)
        self.run_alloc(second, self.other)
        self.assertEqual(self.client_status(second), "RUNNING")
        records = self.world.holdfast("operator", "audit", "--json").stdout
        self.assertIn("evidence power_fence: fencer f1: fence_bmc off at", records)

    def test_a_switch_that_does_not_prove_it_frees_nothing(self):
        self.run_alloc()
        self.die(self.node)
        claims = self.world.live_claims()
        for mode, part in (("lies", "its status is on"), ("fails", "off failed with exit code 1"),
                           ("hangs", "did not end within 5s")):  # fmt: skip
            with self.subTest(mode):
                self.set_mode(mode)
                done = self.fence(self.node, check=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("its claims stay", done.stderr)
                self.assertIn(part, done.stdout)
                self.assertEqual(self.world.live_claims(), claims)
        self.set_mode("ok")
        self.fence(self.node)
        self.assertFalse(self.world.live_claims())

    def test_the_block_of_a_jobs_group_overrides_that_of_its_volume(self):
        """Until it is time for the fence, which begins no earlier than half a minute after the server."""
        self.world.holdfast("job", "run", self.job("power_fence"))
        (claim,) = self.world.live_claims()
        node = next(node for node in self.world.nodes if node.id == claim["node_id"])
        self.assertIn("group one: power-fence after", self.world.holdfast("job", "status", "db").stdout)
        self.die(node)
        shown = self.world.holdfast("operator", "fencing", "--dry-run").stdout
        self.assertRegex(shown, f"{node.id} +default/db +power +job db, group one ")
        version = self.world.json("job", "status", "db")["job"]["version"]
        self.world.holdfast("job", "run", self.job("wait"), "--no-wait")
        self.assertNotEqual(self.world.json("job", "status", "db")["job"]["version"], version)
        self.assertEqual(self.world.live_claims()[0]["allocation_id"], claim["allocation_id"])  # its member stays
        wait_for("no lost node", lambda: "no node that is away" in self.world.holdfast("operator", "fencing", "--dry-run").stdout)
        self.world.holdfast("job", "stop", "db", "--no-wait")
        self.fence(node)
        self.assertFalse(self.world.live_claims())

    def job(self, action):
        return self.world.spec("db.job.hcl", f"""job "db" {{
  type = "service"
  group "one" {{
    update {{
      min_healthy_time = "100ms"
    }}
    on_node_loss {{
      after = "5s"
      do    = "{action}"
    }}
    volume "data" {{
      source          = "db"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }}
  }}
}}
""")

    def test_a_connected_node_is_fenced_by_a_persons_word_only(self):
        self.run_alloc()
        done = self.fence(self.node, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--alive", done.stderr)
        self.assertFalse(os.path.exists(f"{BMC}/{self.node.id}"))
        self.node.daemon.process.send_signal(signal.SIGSTOP)  # as a machine without power: nothing is heard after the proof
        self.fence(self.node, "--alive", "--no-wait")
        wait_for("the proof", lambda: self.last_fence(self.node)["state"] in ("FENCE_STATE_OFF", "FENCE_STATE_RECORDED"))
        self.node.daemon.kill()
        wait_for("the record", lambda: self.last_fence(self.node)["state"] == "FENCE_STATE_RECORDED")
        self.assertFalse(self.world.live_claims())

    def test_a_fencer_that_is_killed_in_the_middle_does_not_fence_twice(self):
        self.run_alloc()
        self.die(self.node)
        before = self.actions("off", self.node)
        self.set_mode("slow")
        self.fence(self.node, "--no-wait")
        wait_for("the agent to run", lambda: self.actions("off", self.node) == before + 1)
        self.fencer.kill()
        self.fencer.start()
        wait_for("the outcome", lambda: self.last_fence(self.node)["state"] == "FENCE_STATE_UNKNOWN")
        self.assertEqual(self.actions("off", self.node), before + 1)
        self.assertTrue(self.world.live_claims())
        self.fence(self.node)
        self.assertFalse(self.world.live_claims())

    def test_a_server_that_is_killed_in_the_middle_continues_the_fence(self):
        self.run_alloc()
        self.die(self.node)
        before = self.actions("off", self.node)
        self.set_mode("slow")
        self.fence(self.node, "--no-wait")
        wait_for("the agent to run", lambda: self.actions("off", self.node) == before + 1)
        self.world.server.kill(signal.SIGKILL)
        self.world.start_server()
        wait_for("the record", lambda: self.last_fence(self.node)["state"] == "FENCE_STATE_RECORDED")
        self.assertEqual(self.actions("off", self.node), before + 1)
        self.assertFalse(self.world.live_claims())

    def test_a_switch_is_tested_without_switching(self):
        before = self.actions("off", self.node)
        shown = self.world.holdfast("node", "fence", "--test", self.node.id).stdout
        self.assertIn("fence_bmc", shown)
        self.secret("bmc.password", "wrong")
        self.addCleanup(self.secret, "bmc.password", SECRET)
        done = self.world.holdfast("node", "fence", "--test", self.node.id, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("monitor failed with exit code 1", done.stdout)
        self.assertNotIn("wrong", done.stdout + done.stderr)
        self.assertEqual(self.actions("off", self.node), before)

    def test_no_secret_of_a_switch_is_shown_anywhere(self):
        self.run_alloc()
        self.die(self.node)
        self.set_mode("fails")
        self.fence(self.node, check=False)
        shown = [self.fencer.said(), self.world.server.said()]
        shown += [self.world.holdfast(*words, "--json").stdout
                  for words in (("node", "fence"), ("operator", "audit"), ("operator", "status"))]  # fmt: skip
        for text in shown:
            self.assertNotIn(SECRET, text)
        self.assertIn("is not accepted", "".join(shown))
        self.set_mode("ok")
        self.fence(self.node)
        self.assertNotIn(SECRET_END.encode(), self.memory_of(self.fencer))  # what a core dump would have
        bundle = f"{PREFIX}/fence-debug.tar"
        self.addCleanup(os.unlink, bundle)
        self.world.holdfast("operator", "debug", bundle, "--socket", self.other.socket)
        with open(bundle, "rb") as f:
            self.assertNotIn(SECRET.encode(), f.read())

    def test_no_process_of_the_same_user_reads_the_memory_of_a_daemon(self):
        for daemon in (self.fencer, self.world.server, *(node.daemon for node in self.world.nodes)):
            pid = daemon.process.pid
            with self.subTest(daemon.name):
                self.assertNotEqual(proc_status(pid)["Uid"].split()[0], "0")
                self.assertEqual(os.stat(f"/proc/{pid}/mem").st_uid, 0)  # of its user, if that may trace it

    @staticmethod
    def memory_of(daemon):
        found = b""
        with open(f"/proc/{daemon.process.pid}/maps", encoding="ascii") as maps, open(
                f"/proc/{daemon.process.pid}/mem", "rb", buffering=0) as memory:  # fmt: skip
            for line in maps:
                where, rights = line.split()[:2]
                if "w" in rights:
                    begin, end = (int(part, 16) for part in where.split("-"))
                    memory.seek(begin)
                    try:
                        found += memory.read(end - begin)
                    except OSError as error:  # the daemon has unmapped it meanwhile
                        assert error.errno == errno.EIO, error
        assert found
        return found
