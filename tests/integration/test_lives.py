# SPDX-License-Identifier: Apache-2.0
"""Three servers and their nodes, whose certificates live for seconds, under load, through a change of the CA and one of
the ticket key: sessions, mounts and calls outlive them.

HOLDFAST_LIVES_SECONDS: how long; 1800 for half an hour with six nodes and lives of a minute. By default two nodes,
lives of ten seconds, and no longer than both changes take."""

import http.client
import os
import re
import shutil
import signal
import ssl
import threading
import time
import unittest

from demo_servers import SERVERS, TLS, ServersWorld
from world import PREFIX, Failure, run, wait_for

SECONDS = int(os.environ.get("HOLDFAST_LIVES_SECONDS", "0"))
LIFE, NODES = (60, 6) if SECONDS else (10, 2)
WAIT = 4 * LIFE + 60  # for renewals, on a busy machine


class LivesWorld(ServersWorld):
    SETTINGS = (f'ca {{\n  certificate = "{TLS}/ca.pem"\n  key = "{TLS}/ca.key"\n  node_life = "{LIFE}s"\n'
                f'  server_life = "{LIFE}s"\n  operator_life = "{3 * LIFE}s"\n}}')  # fmt: skip
    ACL = "true"
    pki = None  # folder of the operator's files, once she has her own
    renewing = threading.Lock()

    def certificate(self, i):
        base = f"{TLS}/s{i}"
        for end in (".pem", ".key"):
            if not os.path.exists(base + end):
                shutil.copy2(f"{TLS}/server{end}", base + end)
                shutil.chown(base + end, os.stat(f"{TLS}/server{end}").st_uid)
        return base

    def environment(self):
        if not self.pki:
            return super().environment()
        return {**self.way(), "HOLDFAST_CACERT": f"{self.pki}/ca.pem", "HOLDFAST_CLIENT_CERT": f"{self.pki}/operator-ann.pem",
                "HOLDFAST_CLIENT_KEY": f"{self.pki}/operator-ann.key"}  # fmt: skip

    def renew_operator(self):
        """As a person does, with the certificate that still is good."""
        with self.renewing:
            folder = f"{PREFIX}/var/ann-{time.monotonic_ns()}"
            self.holdfast("operator", "cert", "issue", "operator/ann", "--out", folder)
            self.pki = folder


def put(source, target, like):
    """In one step, with the owner and mode of another file."""
    shutil.copyfile(source, f"{target}.next")
    shutil.copystat(like, f"{target}.next")
    os.chown(f"{target}.next", os.stat(like).st_uid, os.stat(like).st_gid)
    os.replace(f"{target}.next", target)


class Load(threading.Thread):
    """Repeats a step until stop(). A failure is mended when a repetition soon after succeeds."""

    def __init__(self, step, pause):
        super().__init__(daemon=True)
        self.step, self.pause = step, pause
        self.over = threading.Event()
        self.n, self.mended, self.longest, self.lost = 0, [], 0.0, []

    def attempt(self):
        begin = time.monotonic()
        try:
            self.step()
            return None
        except (Failure, OSError) as problem:
            return str(problem)
        finally:
            self.longest = max(self.longest, time.monotonic() - begin)

    def run(self):
        while not self.over.wait(self.pause):
            self.n += 1
            problem = self.attempt()
            if problem:
                (self.lost if self.over.wait(1) or self.attempt() else self.mended).append(problem)

    def stop(self):
        self.over.set()
        self.join()


class TestLives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = LivesWorld(NODES)
        cls.addClassCleanup(cls.world.close)
        cls.world.open()
        cls.world.start_agents()
        cls.world.holdfast("volume", "register", cls.world.volume_spec())

    def enrol_server(self, i):
        folder = f"{PREFIX}/var/enrolled-s{i}"
        line = self.world.holdfast("operator", "cert", "enroll", f"server/s{i}", "--host", "127.0.0.1,localhost").stdout
        run(f"{PREFIX}/bin/holdfast", "enroll", "-", "--out", folder, input=line)
        for end in ("key", "pem"):
            put(f"{folder}/server-s{i}.{end}", f"{TLS}/s{i}.{end}", f"{TLS}/server.{end}")

    def enrol_node(self, node):
        line = self.world.holdfast("operator", "node", "enroll", node.id).stdout
        folder = f"{node.dir}/enrolled"
        run(f"{PREFIX}/sbin/holdfast-agent", "--enroll", "-", "--into", folder, input=line)
        key = f"{node.data}/node.key"
        put(f"{folder}/tls/node.key", key, key)
        put(f"{folder}/tls/node.key", f"{TLS}/node-{node.id}.pem", key)

    def said(self):
        return "".join(server.said() for server in self.world.servers)

    def renewals(self):
        """How often each server has renewed its own, and all of them together the nodes'."""
        own = [len(re.findall("RenewCertificate by server|renewed: certificate", server.said()))
               for server in self.world.servers]  # fmt: skip
        return own + [len(re.findall(rf"Nodes.Renew by node/{node.id}[^:]*( at [^ ]*)?: certificate", self.said()))
                      for node in self.world.nodes]  # fmt: skip

    def ready(self):
        return {node["status"] for node in self.world.json("node", "status")["nodes"]} == {"READY"}

    def assert_all_is_well(self):
        wait_for("every node to be connected", self.ready)
        self.assertEqual(self.world.nodes[0].mounts(), self.mounts)  # with the kernel's ids

    # --- the load ---

    def write(self):
        """The service: what it wrote last is there."""
        path = f"{self.world.nodes[0].published(self.alloc)}/written"
        self.written += 1
        with open(f"{path}.next", "w", encoding="ascii") as f:
            f.write(str(self.written))
            f.flush()
            os.fsync(f.fileno())
        os.replace(f"{path}.next", path)
        with open(path, encoding="ascii") as f:
            if f.read() != str(self.written):
                raise Failure(f"{path} does not have what was written")

    def change(self):
        spec = self.world.spec("churn.hcl", """id      = "churn"
type    = "native"
profile = "scratch"
source {
  class  = "tmpfs"
  size   = "1MiB"
  inodes = 16
}
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
""")
        self.world.holdfast("volume", "register", spec)

    def start_load(self):
        world, self.written = self.world, 0
        self.load = {
            "reads": Load(lambda: world.json("volume", "status", "db"), 0.2),
            "changes": Load(self.change, 0.5),
            "writes of the service": Load(self.write, 0.1),
            "renewals of an operator": Load(world.renew_operator, LIFE / 3),
        }
        for load in self.load.values():
            load.start()

    def stop_load(self):
        for load in self.load.values():
            load.stop()
        for name, load in self.load.items():
            print(f"# {name}: {load.n}, repeated {len(load.mended)}, failed {len(load.lost)}, longest {load.longest:.2f} s")
        self.assertEqual([load.lost for load in self.load.values()], [[]] * len(self.load))

    # --- the changes ---

    def go_on(self, part):
        """Up to this part of the time."""
        end = self.begun + SECONDS * part
        while time.monotonic() < end:
            self.assert_all_is_well()
            time.sleep(0.5)

    def change_ca(self):
        world = self.world
        before = world.json("operator", "ca", "status")["key_id"]
        with world.renewing:  # none that began before gives its certificate of the former CA after
            world.holdfast("operator", "ca", "begin")
        self.assertNotEqual(world.json("operator", "ca", "status")["key_id"], before)
        # which of them have renewed by now depends on the machine
        one = r"(server/s\d|node/node-\d|operator/ann)( \(this server\))?"
        self.assertRegex(world.holdfast("operator", "ca", "status").stdout,
                         rf"\nformer CA +\d+ have a certificate of it: {one}(,{one})*\n|\nNo server, node or caller is known")
        world.renew_operator()
        refused = world.holdfast("operator", "ca", "finish", "--yes", check=False)
        if refused.returncode != 0:  # a slow machine gives all the time to renew before
            self.assertIn("still have a certificate of the former CA", refused.stderr)
        wait_for("all to have a certificate of the new CA",
                 lambda: not world.json("operator", "ca", "status").get("holders"), WAIT)  # fmt: skip
        self.assert_all_is_well()
        if refused.returncode != 0:
            world.holdfast("operator", "ca", "finish", "--yes")
        print(f"# the CA changed from {before[:8]} to {world.json('operator', 'ca', 'status')['key_id'][:8]}")

    def change_ticket_key(self):
        world = self.world
        next_key = re.search(r"^next\s+(\S+)", world.holdfast("operator", "key", "rotate").stdout, re.M).group(1)
        path = f"{PREFIX}/etc/holdfast/mounthelper.policy"
        with open(path, encoding="ascii") as f:
            policy = f.read()
        with open(path, "w", encoding="ascii") as f:
            f.write(re.sub(r"(\tticket_key = \S+\n)", rf"\1\tticket_key = {next_key}\n", policy))
        world.apply_policy()
        for node in world.nodes:
            node.daemon.process.send_signal(signal.SIGHUP)  # its next helper reads the policy
        wait_for("the next ticket key to be in use",
                 lambda: next_key == re.search(r"^ticket key\s+(\S+)", world.holdfast("operator", "status").stdout,
                                               re.M).group(1), WAIT)  # fmt: skip

    def call_from(self, address, port, token):
        """The status of a call from an address of this machine."""
        context = ssl.create_default_context(cafile=self.world.environment()["HOLDFAST_CACERT"])
        connection = http.client.HTTPSConnection("127.0.0.1", port, source_address=(address, 0), context=context)
        connection.request("POST", "/holdfast.v1.Nodes/List", "{}",
                           {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})  # fmt: skip
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def test_a_token_of_a_network_is_refused_elsewhere_by_leader_and_followers(self):
        world = self.world
        world.holdfast("operator", "policy", "put", "look", world.spec("look.hcl", 'node {\n  policy = "read"\n}\n'))
        token = world.holdfast("operator", "token", "create", "net", "look", "--cidr", "127.0.0.2,192.0.2.0/24", "--ttl",
                               "1h", "--secret-only").stdout.strip()  # fmt: skip
        for port in world.ports:  # one leads, two forward
            self.assertEqual(self.call_from("127.0.0.2", port, token)[0], 200)
            status, text = self.call_from("127.0.0.3", port, token)
            self.assertEqual(status, 403)
            self.assertRegex(text, r"\(net\) is bound to 127.0.0.2 and further networks, and this call comes from 127.0.0.3:")

    def test_sessions_mounts_and_calls_outlive_certificates_and_keys(self):
        world, node = self.world, self.world.nodes[0]
        self.alloc = "0192f3a0-0000-7000-837a-8eec1ce19687"
        world.holdfast("alloc", "run", world.alloc_spec(), "--node", node.id, "--id", self.alloc)
        self.mounts = node.mounts()
        self.assertEqual(len(self.mounts), 2)
        for one in world.nodes:
            self.enrol_node(one)
            one.daemon.kill(signal.SIGTERM)  # its next session begins with the certificate that lives for seconds
            one.start()
        for i in range(SERVERS):
            self.enrol_server(i)
        world.renew_operator()
        wait_for("every node to be connected", self.ready)
        lost = self.said().count("event=node-disconnected")
        self.begun = time.monotonic()
        self.start_load()
        wait_for("every certificate to be renewed", lambda: min(self.renewals()) > 0, WAIT)
        self.go_on(1 / 3)
        self.change_ca()
        self.assert_all_is_well()
        self.go_on(2 / 3)
        self.change_ticket_key()
        self.go_on(1)
        self.assert_all_is_well()
        self.stop_load()
        lost = self.said().count("event=node-disconnected") - lost
        print(f"# {time.monotonic() - self.begun:.0f} s, sessions that ended: {lost}, renewals of {SERVERS} servers and "
              f"{NODES} nodes: {self.renewals()}")  # fmt: skip
        self.assertEqual(lost, 0)
        # the mounts answer to their server as before
        world.holdfast("alloc", "stop", self.alloc)
        wait_for("the claim to be freed", lambda: not world.live_claims())

    def restart_as_joined_later(self, server):
        """It has enrolled after the change of the CA: its settings name the key of the former one."""
        shutil.copyfile(f"{self.world.pki}/ca.pem", f"{TLS}/ca.pem")
        before = len(server.said())
        server.kill(signal.SIGTERM)
        server.start()
        wait_for("it to issue by the CA of the store",
                 lambda: "the CA of the store is in use; the former one is not trusted" in server.said()[before:])  # fmt: skip
        self.assertIn("this server issues no certificates: ca in", server.said()[before:])

    def test_the_lead_changes_while_nodes_renew_and_a_revoked_server_ends(self):
        world, node = self.world, self.world.nodes[0]
        self.renewing = Load(world.renew_operator, LIFE / 3)
        self.renewing.start()
        self.addCleanup(self.renewing.stop)
        self.assertEqual(world.live_claims(), [])
        world.holdfast("alloc", "run", world.alloc_spec(), "--node", node.id)
        self.mounts = node.mounts()
        leader = world.leader()
        name = f"server/s{world.servers.index(leader)}"
        self.restart_as_joined_later(next(server for server in world.servers if server is not leader))
        refused = world.holdfast("operator", "cert", "revoke", name, "--reason", "stolen", "--yes", check=False)
        self.assertIn("have another one lead (holdfast operator step-down)", refused.stderr)
        world.holdfast("operator", "step-down")
        wait_for("another server to lead", lambda: world.leader() not in (None, leader))
        before = self.renewals()[SERVERS:]
        wait_for("each node to renew by the next leader",
                 lambda: all(now > then for now, then in zip(self.renewals()[SERVERS:], before)), WAIT)  # fmt: skip
        self.assert_all_is_well()
        # by way of the server that ends, it may get no answer
        world.holdfast("operator", "cert", "revoke", name, "--reason", "stolen", "--yes", check=False)
        wait_for("the revoked server to end", lambda: not leader.alive())
        self.assertRegex(leader.said(), rf"certificate .* of {name} was revoked at .*: stolen")
        self.assert_all_is_well()
