# SPDX-License-Identifier: Apache-2.0
"""What is wrong is said in one clear line that names what, where and what to do; exit 1 or 2; nothing half done."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile

from case import PREFIX, WorldTest, names_sqlite, wait_for

UUID = "0192f3a0-0000-7000-837a-8eec1ce19687"


class TestBadInput(WorldTest):
    def refuse(self, args, code, *words):
        """The command ends with code and one line on standard error that has all the words."""
        done = self.world.holdfast(*args, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        text = done.stderr.strip()
        if code == 1:
            self.assertEqual(len(text.splitlines()), 1, text)
        self.assertTrue(text.startswith("holdfast"), text)
        for word in words:
            self.assertIn(word, text)

    def test_specifications(self):
        volume = open(self.world.volume_spec(), encoding="ascii").read().replace('"db"', '"other"', 1)
        alloc = open(self.world.alloc_spec(), encoding="ascii").read()
        run = ["--node", self.node.id, "--id", UUID]
        cases = [
            (volume.replace("profile", "profil"), "volume", ["profil", ":3"]),
            (volume + "size = 3\n", "volume", ["size"]),
            (volume.replace('"native"', "7"), "volume", ["type"]),
            (volume.replace('"native"', '"nativ"'), "volume", ["type", "nativ"]),
            (volume.replace("single-node-writer", "every-node-writer"), "volume", ["access_mode", "every-node-writer"]),
            (volume.replace('"other"', '"a/b"'), "volume", ["id", "a/b", "bad-5.hcl:1: "]),
            (volume.replace('"other"', '".."'), "volume", ["id", ".."]),
            (volume.replace("source {", "source {\n  by_id = \"x\""), "volume", ["by_id"]),
            (volume.replace(self.world.by_id, "../sda"), "volume", ["bad-8.hcl:7: source.by_id", "../sda"]),
            (volume.replace("}", "", 1), "volume", ["}"]),
            (volume + 'name = "${x}"\n', "volume", ["${"]),
            (alloc.replace("access_mode", "acces_mode"), "alloc", ["acces_mode"]),
            (alloc.replace("single-node-writer", "single-node-reader-only"), "alloc", ["read_only", "bad-12.hcl:4: volume data: "]),
            (alloc.replace('"none"', '"docker"'), "alloc", ["driver", "docker"]),
            (alloc.replace('"db"', '"nothing"'), "alloc", ["nothing"]),
            (alloc.replace('"db"', '"d.b"'), "alloc", ["d.b", "bad-15.hcl:4: volume data: "]),
            (alloc.replace("name ", "# "), "alloc", [": name: "]),
        ]
        for i, (text, kind, words) in enumerate(cases):
            path = self.world.spec(f"bad-{i}.hcl", text)
            args = ["volume", "register", path] if kind == "volume" else ["alloc", "run", path, *run]
            with self.subTest(text=text):
                self.refuse(args, 1, *words)
        self.assertEqual([v["id"] for v in self.world.json("volume", "status")["volumes"]], ["db"])
        self.assertEqual(self.world.json("alloc", "status").get("allocations", []), [])

    def test_names_and_files_that_are_not_there(self):
        for args, words in (
            (["volume", "register", "/nonexistent/volume.hcl"], ["/nonexistent/volume.hcl"]),
            (["volume", "register", "/etc"], ["/etc"]),
            (["volume", "status", "nothing"], ["nothing"]),
            (["volume", "deregister", "nothing"], ["nothing"]),
            (["volume", "detach", "nothing", "node-1"], ["nothing"]),
            (["volume", "detach", "db", "node-9"], ["node-9"]),
            (["alloc", "status", "ffff"], ["ffff"]),
            (["alloc", "stop", UUID], [UUID]),
            (["node", "status", "node-9"], ["node-9"]),
            (["audit", "show", "/nonexistent.log"], ["/nonexistent.log"]),
            (["volume", "create", "x"], ["read x", "No such file"]),
        ):
            with self.subTest(args=args):
                self.refuse(args, 1, *words)

    def test_usage(self):
        for args in (["volume"], ["volume", "registre"], ["alloc", "run"], ["volume", "status", "--colour"], []):
            with self.subTest(args=args):
                self.assertEqual(self.world.holdfast(*args, check=False).returncode, 2)

    # --- daemons --------------------------------------------------------------------------------------------

    def end(self, argv, code, *words, **kwargs):
        """A daemon that cannot start ends at once with a line that says why."""
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20, check=False,
                              **kwargs)
        self.assertEqual(done.returncode, code, done.stdout)
        for word in words:
            self.assertIn(word, done.stdout)

    def test_server_settings(self):
        server = f"{PREFIX}/sbin/holdfast-server"
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/server.hcl"
            for text, words in (
                ('cluster = "c"\nclustr = "d"\n', ["server.hcl:2", "clustr"]),
                ("cluster = 3\n", ["server.hcl:1", "cluster"]),
                ('cluster = "a/b"\n', ["server.hcl:1", "a/b"]),
                ('cluster = "c"\nlisten { port = 0 }\n', ["server.hcl:2", "port"]),
                ('cluster = "c"\nticket_ttl = "5 minutes"\n', ["server.hcl:2", "ticket_ttl"]),
                ('cluster = "c"\nlisten {\n', ["server.hcl"]),
            ):
                with open(path, "w", encoding="ascii") as f:
                    f.write(text)
                with self.subTest(text=text):
                    self.end([server, "--config", path, "--check-config"], 1, *words)
            self.end([server, "--config", f"{folder}/nothing.hcl"], 78, "nothing.hcl")
        self.end([server, "--colour"], 2, "--help")
        self.end([server, "--dev", "relative"], 78, "relative", "absolute")

    def test_a_port_in_use(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = str(s.getsockname()[1])
            self.end([f"{PREFIX}/sbin/holdfast-server", "--dev", f"{folder}/d", "--port", port], 1, "127.0.0.1", port)

    def test_a_server_without_a_store(self):
        server = f"{PREFIX}/sbin/holdfast-server"
        with tempfile.TemporaryDirectory() as folder:
            dev = f"{folder}/d"
            self.end([server, "--dev", dev, "--check-config"], 0)  # with a ticket key
            self.end([server, "--dev", dev], 78, f"{dev}/holdfast.db", "--restore FILE", "--new-cluster")
            self.assertFalse(os.path.exists(f"{dev}/holdfast.db"))
            self.end([server, "--dev", dev, "--new-cluster"], 0, "cluster dev", "epoch", "no node, volume or claim")
            with open(f"{dev}/holdfast.db", "rb") as f:
                store = f.read()
            self.end([server, "--dev", dev, "--new-cluster"], 1, "there is a store", f"{dev}/holdfast.db")
            with open(f"{dev}/holdfast.db", "rb") as f:
                self.assertEqual(f.read(), store, "the store was changed")
            self.end([server, "--dev", dev, "--new-cluster", "--restore", "x"], 2, "--new-cluster")

    @names_sqlite
    def test_a_broken_or_locked_database(self):
        server = f"{PREFIX}/sbin/holdfast-server"
        with tempfile.TemporaryDirectory() as folder:
            dev = f"{folder}/d"
            os.mkdir(dev)
            with open(f"{dev}/holdfast.db", "wb") as f:
                f.write(b"this is no database" * 500)
            self.end([server, "--dev", dev], 1, f"{dev}/holdfast.db")
            with open(f"{dev}/holdfast.db", "rb") as f:
                self.assertEqual(f.read(), b"this is no database" * 500, "the file was changed")
        self.end(["setpriv", "--reuid=holdfast-dev", "--regid=holdfast-dev", "--clear-groups", server, "--dev",
                  f"{PREFIX}/var/server", "--cluster", "demo"], 1, "holdfast.db")

    def agent(self, text, code, *words):
        """Start an agent of node-1's user with these settings."""
        path = self.world.spec("agent-bad.hcl", text)
        self.end(self.node.daemon.argv[:-1] + [path, "--check-config"], code, *words)

    def test_agent_settings(self):
        good = open(self.node.config, encoding="ascii").read()
        self.agent(good.replace("node_id", "nodeid"), 1, "agent-bad.hcl:2", "nodeid")
        self.agent(good.replace('"node-1"', '"node.1"', 1), 1, "node.1")
        self.agent(good.replace(f'"{self.node.data}"', '"var"'), 1, "data_dir")
        self.agent(good + "x = [1,\n", 1, "agent-bad.hcl")
        self.end([f"{PREFIX}/sbin/holdfast-agent", "--config", self.node.config], 78, "root")

    # --- the mount helper, as its agent sees it -----------------------------------------------------------------

    def with_helper_broken(self, break_it, repair_it, *words):
        """The agent keeps running without a helper, says why, and is well again once it is repaired."""
        self.node.daemon.kill()
        break_it()
        try:
            self.node.start()
            wait_for("the agent to say why", lambda: self.said(*words))
            # until then the server goes by what the agent said before, and takes what waits for the helper
            wait_for("the server to hear of it", self.is_without_native)
            refused = self.run_alloc(check=False)
            self.assertEqual(refused.returncode, 1, refused.stdout + refused.stderr)
            self.assert_nothing_mounted()
        finally:
            repair_it()
        self.node.daemon.kill()
        self.node.start()
        self.node.wait_connected()

    def is_without_native(self):
        """The server no longer lists this node for native volumes. Of a node that is away it lists what it last said."""
        done = self.world.holdfast("plugin", "status", "native", "--json")
        return all(i["node_id"] != self.node.id for i in json.loads(done.stdout)["plugin"]["instances"])

    def said(self, *words):
        status = self.node.status()
        text = status["helper"]["last_error"] if status else ""
        return all(re.search(word, text) for word in words)

    def test_a_helper_without_its_setuid_bit(self):
        helper = f"{PREFIX}/libexec/holdfast/holdfast-mounthelper"
        self.with_helper_broken(lambda: os.chmod(helper, 0o750), lambda: os.chmod(helper, 0o4750), "setuid", "4750")

    def test_a_helper_under_no_new_privs(self):
        argv = self.node.daemon.argv

        def set_nnp():
            self.node.daemon.argv = argv[:1] + ["--no-new-privs"] + argv[1:]

        def unset():
            self.node.daemon.argv = argv

        self.with_helper_broken(set_nnp, unset, "no_new_privs")

    def test_a_policy_that_is_not_root_owned_or_wrong(self):
        policy = f"{PREFIX}/etc/holdfast/mounthelper.policy"
        applied = policy + ".applied"
        saved = policy + ".saved"
        self.assertRegex(self.world.holdfast("policy", "check").stdout, r"^ok: .*\n$")
        shutil.copy2(policy, saved)

        def restore():
            for path in (policy, applied):
                if os.path.exists(path):
                    os.chown(path, 0, 0)
                    os.chmod(path, 0o644)
            shutil.copy2(saved, policy)
            self.world.apply_policy()

        def append(text, path=policy):
            with open(path, "a", encoding="ascii") as f:
                f.write(text)

        def refused(words):
            done = self.world.holdfast("policy", "apply", check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, words)

        self.with_helper_broken(lambda: os.chown(applied, self.node.uid, 0), restore, "mounthelper.policy", "root|uid 0")
        self.with_helper_broken(lambda: os.chmod(applied, 0o666), restore, "mounthelper.policy", "writ")
        for change in (lambda: os.chown(policy, self.node.uid, 0), lambda: os.chmod(policy, 0o666)):
            change()
            refused(r"mounthelper\.policy: the policy must be a regular file that only root can write")
            restore()
        append("agnet 5 {\n}\n")
        checked = self.world.holdfast("policy", "check", check=False)
        self.assertEqual(checked.returncode, 1)
        self.assertRegex(checked.stderr, r"^/.*mounthelper\.policy:\d+: expected: agent UID")
        refused(r"^/.*mounthelper\.policy:\d+: expected: agent UID")  # and what was applied stays
        restore()
        self.with_helper_broken(lambda: append("x", applied), restore,
                                r"policy-format: .*mounthelper\.policy\.applied: .*damaged", "holdfast policy apply")
        self.with_helper_broken(lambda: os.unlink(applied), restore, r"mounthelper\.policy\.applied", "holdfast policy apply")

    def test_a_policy_in_a_folder_that_the_helper_cannot_search(self):
        folder = f"{PREFIX}/etc/holdfast"
        before = stat.S_IMODE(os.stat(folder).st_mode)
        self.addCleanup(os.chmod, folder, before)
        for mode, warned in ((before, False), (0o700, True)):
            os.chmod(folder, mode)
            self.assertEqual("warning: helper_uid " in self.world.holdfast("policy", "apply").stderr, warned)

    def agent_status(self):
        return self.world.holdfast("agent", "status", "--socket", self.node.socket).stdout

    def test_a_policy_that_was_edited_and_not_applied_is_named(self):
        policy = f"{PREFIX}/etc/holdfast/mounthelper.policy"
        with open(policy, encoding="ascii") as f:
            saved = f.read()
        words = "was edited and is not in use: holdfast policy apply"
        self.addCleanup(self.world.write_policy)
        self.assertNotIn(words, self.agent_status())
        self.assertIs(self.node.status()["helper"]["policy_edited"], False)
        with open(policy, "w", encoding="ascii") as f:
            f.write(saved + "# a remark\n")
        self.assertIn(words, self.agent_status())
        self.assertIs(self.node.status()["helper"]["policy_edited"], True)
        self.assertIn("\nnot applied: the mount helper reads what 'holdfast policy apply' writes\n",
                      self.world.holdfast("policy", "check").stdout)  # fmt: skip
        self.assertRegex(self.world.holdfast("policy", "apply").stdout,
                         "^applied: .*\nThe next mount helper that starts uses it. .*systemctl reload holdfast-agent\n$")
        self.assertNotIn("not applied: ", self.world.holdfast("policy", "check").stdout)
        os.kill(self.node.daemon.pid, signal.SIGHUP)
        wait_for("a helper with the new policy", lambda: words not in self.agent_status())
