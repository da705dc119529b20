#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three servers that share a store in an etcd of three members, and what a node has of it when the one that leads dies.

Called by ./dev demo --servers 3; ends as demo.py does.
"""

import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import time

from demo import ALLOC_1, ALLOC_2, Demo, main
from world import CLUSTER, GROUP, PREFIX, Daemon, Etcd, Failure, World, as_server, run, show, wait_for

SERVERS = 3
TLS = f"{PREFIX}/var/server/tls"


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class ServersWorld(World):
    """The server of the world makes certificates and a ticket key, and gives way to three."""

    ACL, SETTINGS = "false", ""  # of each server

    def __init__(self, nodes=2):
        super().__init__(nodes=nodes)
        self.servers, self.ports = [], []
        for node in self.nodes:
            node.settings = lambda settings=node.settings: re.sub(
                r"^server \{.*?^\}\n", f"servers = [{self.quoted_addresses()}]\n", settings(), flags=re.S | re.M)

    def quoted_addresses(self):
        return ", ".join(f'"127.0.0.1:{port}"' for port in self.ports)

    def open(self):
        self.ports = free_ports(SERVERS)
        super().open()
        self.server.kill(signal.SIGTERM)
        self.etcd = Etcd(self, SERVERS)
        self.servers = [self.make_server(i) for i in range(SERVERS)]
        run(*self.servers[0].argv, "--new-cluster")
        for server in self.servers:
            server.start()
        wait_for("one of them to lead", self.leader)
        return self

    def make_folder(self, path):
        os.mkdir(path, 0o700)
        os.chown(path, pwd.getpwnam(GROUP).pw_uid, pwd.getpwnam(GROUP).pw_gid)

    def certificate(self, i):
        """Of a server, without the end of its files' names."""
        return f"{TLS}/server"

    def make_server(self, i):
        path = f"{PREFIX}/etc/holdfast/s{i}.hcl"
        self.make_folder(f"{PREFIX}/var/s{i}")
        with open(path, "w", encoding="ascii") as f:
            f.write(f"""cluster    = "{CLUSTER}"
data_dir   = "{PREFIX}/var/s{i}"
ticket_key = "{PREFIX}/var/server/ticket.key"
acl        = {self.ACL}
{self.SETTINGS}
listen {{
  host = "127.0.0.1"
  port = {self.ports[i]}
}}
tls {{
  ca   = "{TLS}/ca.pem"
  cert = "{self.certificate(i)}.pem"
  key  = "{self.certificate(i)}.key"
}}
{self.etcd.settings(f"s{i}")}""")
        return Daemon(self, f"s{i}", as_server(f"{PREFIX}/sbin/holdfast-server", "--config", path))

    def leader(self):
        """By what each says when it leads; None: nobody does."""
        said = [(re.findall(rf'ts=(\S+) .*"s{i} leads"', server.said()), server)
                for i, server in enumerate(self.servers)]
        last = max(said, key=lambda one: one[0][-1:] or [""])
        return last[1] if last[0] and last[1].alive() else None

    def way(self, first=0):
        """To the servers, this one before the others; without an identity."""
        ports = self.ports[first:] + self.ports[:first]
        return {**os.environ, "HOLDFAST_ADDR": ",".join(f"127.0.0.1:{port}" for port in ports),
                "HOLDFAST_CACERT": f"{TLS}/ca.pem"}

    def environment(self):
        return {**self.way(), "HOLDFAST_CLIENT_CERT": f"{TLS}/operator.pem", "HOLDFAST_CLIENT_KEY": f"{TLS}/operator.key"}

    def holdfast(self, *args, check=True):
        return run(f"{PREFIX}/bin/holdfast", *args, check=check, env=self.environment())

    def close(self):
        for daemon in self.servers:
            daemon.kill(signal.SIGTERM)
        super().close()


class ServersDemo(Demo):
    def __init__(self):
        super().__init__()
        self.world = ServersWorld()

    def run(self):
        world, (node_1, node_2) = self.world, self.world.nodes
        self.step("three members of etcd, three servers on it, two agents that know all of them; a disk")
        world.open()
        world.start_agents()
        self.command("ps", "-o", "user:18,pid,args", "-p", ",".join(str(s.pid) for s in world.servers))
        self.holdfast("node", "status")
        self.holdfast("volume", "register", world.volume_spec())
        path = node_1.published(ALLOC_1)
        self.step("run an allocation on node-1, whose mount helper is stopped: the claim is granted, nothing is mounted")
        running = self.grant_without_mount(node_1)
        self.step("kill -9 the server that leads, between grant and receipt; the helper continues")
        self.lose_leader(signal.SIGKILL, lambda: os.kill(node_1.helper_pid(), signal.SIGCONT))
        self.step("the claim stands, with its mount and its receipt at the server that leads now")
        wait_for("the receipt", lambda: [c["state"] for c in world.live_claims()] == ["TAKEN"])
        self.show_end(running)
        self.holdfast("volume", "status", "db")
        self.command("findmnt", "--output", "TARGET,SOURCE,FSTYPE", path)
        self.check_mount(path)
        self.step("node-2 is refused as before")
        refused = self.holdfast("alloc", "run", world.alloc_spec(), "--node", node_2.id, "--id", ALLOC_2, check=False)
        self.check_refusal(refused)
        self.step("start the lost server again, as its unit does; end the one that leads with SIGTERM: it hands over")
        self.start_all()
        before = node_1.mounts()
        self.lose_leader(signal.SIGTERM, lambda: None)
        self.start_all()
        if node_1.mounts() != before:
            raise Failure("the mounts of node-1 have changed")
        for node in world.nodes:
            node.wait_connected()
        self.step("stop the allocation, and node-2 gets the volume")
        self.holdfast("alloc", "stop", ALLOC_1)
        wait_for("the claim to be freed", lambda: not world.live_claims())
        self.holdfast("alloc", "run", world.alloc_spec(), "--node", node_2.id, "--id", ALLOC_2)
        self.check_mount(node_2.published(ALLOC_2))
        self.holdfast("alloc", "stop", ALLOC_2)
        wait_for("the claim to be freed", lambda: not world.live_claims())

    def start_all(self):
        for server in self.world.servers:
            if not server.alive():
                server.start()

    def grant_without_mount(self, node):
        """The command that runs the allocation, which waits for its mount."""
        os.kill(node.helper_pid(), signal.SIGSTOP)
        args = ("alloc", "run", self.world.alloc_spec(), "--node", node.id, "--id", ALLOC_1)
        show(f"    $ holdfast {' '.join(args)} &")
        running = subprocess.Popen([f"{PREFIX}/bin/holdfast", *args], env=self.world.environment(),
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for("the claim", lambda: [c["state"] for c in self.world.live_claims()] == ["RESERVED"])
        wait_for("the ticket to be with the node", lambda: self.world.live_claims()[0].get("sent_to_node"))
        self.holdfast("volume", "status", "db")
        if os.path.ismount(node.published(ALLOC_1)):
            raise Failure("it is mounted already")
        return running

    def show_end(self, running):
        said = running.communicate(timeout=30)[0]
        for line in said.splitlines():
            show(f"      {line}")
        if running.returncode != 0:
            raise Failure(f"the command that ran the allocation did not outlive the leader: exit {running.returncode}")

    def lose_leader(self, number, then):
        """How long nobody answers, and who does then."""
        leader = self.world.leader()
        begin = time.monotonic()
        leader.kill(number)
        then()
        wait_for("another one to lead", lambda: self.world.leader() not in (None, leader))
        self.world.json("volume", "status", "db")
        gap = time.monotonic() - begin
        show(f"    {leader.name} is gone ({signal.Signals(number).name}); {self.world.leader().name} leads; "
             f"the first answer came after {gap:.2f} s (lease: {Etcd.LEASE_S} s)")


if __name__ == "__main__":
    sys.exit(main(ServersDemo()))
