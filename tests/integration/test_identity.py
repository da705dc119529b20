# SPDX-License-Identifier: Apache-2.0
"""A node whose certificate is revoked, and which enrols again."""

import os
import re
import shutil
import subprocess
import time

from case import WorldTest, wait_for
from world import GROUP, PREFIX, run

TLS = f"{PREFIX}/var/server/tls"


class TestIdentity(WorldTest):
    NODES = 1
    SERVER_SETTINGS = f'ca {{\n  certificate = "{TLS}/ca.pem"\n  key = "{TLS}/ca.key"\n  node_life = "30s"\n}}'

    def shown(self):
        return self.world.json("node", "status", self.node.id)["node"]

    def enrol(self):
        """By a line into a folder, from where its files replace those of the running agent: first the key."""
        folder = f"{self.node.dir}/enrolled"
        line = self.world.holdfast("operator", "node", "enroll", self.node.id).stdout.strip()
        said = run(f"{PREFIX}/sbin/holdfast-agent", "--enroll", "-", "--into", folder, input=line + "\n").stdout
        self.assertIn(f"ticket_key = {self.world.ticket_key()}", said)
        for path, mode in ((f"{self.node.data}/node.key", 0o600), (f"{TLS}/node-{self.node.id}.pem", 0o600)):
            shutil.copyfile(f"{folder}/tls/node.key", f"{path}.next")
            os.chown(f"{path}.next", self.node.uid, -1)
            os.chmod(f"{path}.next", mode)
            os.replace(f"{path}.next", path)

    def test_a_revoked_node_keeps_its_mount_and_enrols_again(self):
        self.run_alloc()
        claims = self.world.live_claims()
        name = f"node/{self.node.id}"
        began = time.monotonic()
        self.world.holdfast("operator", "cert", "revoke", name, "--reason", "stolen", "--yes")
        wait_for("the node to be disconnected", lambda: self.shown()["status"] == "DISCONNECTED")
        print(f"# disconnected {time.monotonic() - began:.2f} s after the command began")
        wait_for("the agent to report the reason", lambda: "was revoked at" in str(self.node.status()))
        self.assertIn(f"of {name} was revoked", self.shown()["disconnect_reason"])
        self.assert_mounted_once()
        self.enrol()
        wait_for("the node to be back", lambda: self.shown()["status"] == "READY")
        self.assertEqual(self.world.live_claims(), claims)
        self.assert_mounted_once()
        seconds = int(os.environ.get("HOLDFAST_RENEW_SECONDS", "0"))  # by hand: each life is 30 s
        for _ in range(seconds):
            time.sleep(1)
            self.assertEqual(self.shown()["status"], "READY")
        if seconds:
            self.assertGreater(len(re.findall("Nodes.Renew by", self.world.server.said())), seconds // 30)
            self.assertEqual(self.world.live_claims(), claims)
            self.assert_mounted_once()

    def test_people_and_programs_enrol_by_a_line(self):
        folder = f"{self.node.dir}/enrolled-others"
        for name, options in (("operator/ann", ()), ("fencer/f1", ()), ("server/s2", ("--host", "s2.example,192.0.2.9"))):
            line = self.world.holdfast("operator", "cert", "enroll", name, *options).stdout.strip()
            said = run(f"{PREFIX}/bin/holdfast", "enroll", "-", "--out", folder, input=line + "\n").stdout
            self.assertIn(f"/{name}", said)
            self.assertEqual(os.stat(f"{folder}/{name.replace('/', '-')}.key").st_mode & 0o777, 0o600)
            again = subprocess.run([f"{PREFIX}/bin/holdfast", "enroll", "-", "--out", f"{folder}-thief"], input=line + "\n",
                                   capture_output=True, text=True, check=False)  # fmt: skip
            self.assertEqual(again.returncode, 1)
            self.assertIn("and is good once", again.stderr)
        tls = ("--ca", f"{folder}/ca.pem", "--cert", f"{folder}/operator-ann.pem", "--key", f"{folder}/operator-ann.key")
        address = "{}:{}".format(*self.world.address())
        who = run(f"{PREFIX}/bin/holdfast", "operator", "token", "whoami", "--address", address, *tls).stdout
        self.assertIn("/operator/ann", who)


class TestLocalOperators(WorldTest):
    """Users of the server's machine who need no certificate."""

    NODES = 1
    SOCKET = f"{PREFIX}/var/server/server.sock"
    SERVER_SETTINGS = f'listen {{\n  socket = "{SOCKET}"\n  operators = ["root"]\n}}'

    def test_root_is_an_operator_at_the_socket_and_others_are_refused(self):
        command = (f"{PREFIX}/bin/holdfast", "--address", self.SOCKET)
        bare = {"PATH": os.environ["PATH"]}
        run(*command, "operator", "policy", "list", env=bare)
        run(*command, "node", "eligibility", "--disable", self.node.id, env=bare)
        self.assertIn("by operator/root", self.world.server.said())
        mode = os.stat(self.SOCKET).st_mode & 0o777
        self.assertEqual(mode, 0o600)
        other = ("setpriv", "--reuid=daemon", "--clear-groups")
        for user in (other, (*other, "unshare", "--user", "--map-root-user")):  # root of its own namespace
            done = run(*user, *command, "node", "status", env=bare, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("the socket is not open to this user", done.stderr)


class TestLeakedCa(WorldTest):
    """The way out when the CA's key has leaked, by root at the server's socket."""

    NODES = 1
    SOCKET = TestLocalOperators.SOCKET
    SERVER_SETTINGS = f"{TestLocalOperators.SERVER_SETTINGS}\n{TestIdentity.SERVER_SETTINGS}"

    def tearDown(self):
        """The world's own certificates are refused."""

    def test_root_at_the_socket_changes_the_ca_and_goes_on(self):
        command = (f"{PREFIX}/bin/holdfast", "--address", self.SOCKET)
        bare = {"PATH": os.environ["PATH"]}
        self.world.holdfast("operator", "cert", "enroll", "operator/evil")
        run(*command, "operator", "ca", "begin", env=bare)
        run(*command, "operator", "ca", "finish", "--now", "--yes", env=bare)
        self.assertIn("unused enrolment lines that end: 1", run(*command, "operator", "audit", env=bare).stdout)
        refused = self.world.holdfast("volume", "status", check=False)
        self.assertEqual(refused.returncode, 1)
