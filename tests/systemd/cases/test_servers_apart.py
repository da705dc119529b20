# SPDX-License-Identifier: Apache-2.0
"""docs/three-servers.md as it is, on the machines that docs/install-apart.md has made before: a unit continues with its
volume through it, and through the loss of the machine that leads."""

import os
import unittest

import apart
import guide
import machine
import runbook

OTHER_RELEASE = ("container",)
BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py
MACHINES = ("desk", "claims", "claims-2", "claims-3", "worker-1", "worker-2")

SERVERS = ("claims", "claims-2", "claims-3")
FIRST = "/run/holdfast-volumes/first/mnt/started"
QUOTA = 16 << 20  # of etcd: a page is about a full one


class ServersApart(apart.Apart):
    addresses = {"desk": "192.0.2.5", "claims": "192.0.2.10", "claims-2": "192.0.2.11", "claims-3": "192.0.2.12",
                 "worker-1": "192.0.2.21", "worker-2": "192.0.2.22"}  # fmt: skip
    places = {"every node": ("worker-1", "worker-2"), "every server": SERVERS, "the new servers": SERVERS[1:]}

    def before(self, text):
        if "enable --now etcd" in text:
            machine.write("/etc/systemd/system/etcd.service.d/quota.conf", f"[Service]\nEnvironment=ETCD_QUOTA_BACKEND_BYTES={QUOTA}\n")
            machine.systemctl("daemon-reload")

    def install(self):
        """As far as install-apart.md is needed: until a service runs on a volume."""
        self.follow("/payload/docs/install-apart.md", "A server and nodes apart", until="who has it")
        if self.name == "worker-1":
            self.mounted = machine.mounts_below(f"{machine.TREE}/publish")
            self.assertEqual(len(self.mounted), 1)
        guide.log_in("/payload/debs")

    def members(self):
        """Status and text of `operator members`, as ann sees it."""
        return guide.type_in("cd /root && . ./ann.env && holdfast operator members")

    def cut_off(self, word):
        """Without a network from when desk says `word` of this machine until it says so of its return."""
        self.wait_for_word(f"{word}.gone", f"{word}.lost.{self.name}")
        if os.path.exists(f"{apart.SHARED}/{word}.lost.{self.name}"):
            machine.run("ip", "link", "set", "host0", "down")
            self.tell(f"{word}.is_lost.{self.name}")
            self.wait_for_word(f"{word}.back.{self.name}")
            machine.run("ip", "link", "set", "host0", "up")

    def wait_for_word(self, *words):
        machine.wait_for(f"one of {words}", lambda: any(os.path.exists(f"{apart.SHARED}/{word}") for word in (*words, "failed")), apart.SECONDS)
        self.assertFalse(os.path.exists(f"{apart.SHARED}/failed"), "another machine has failed")

    def lose(self, word, names):
        """desk: these machines say nothing more."""
        for name in names:
            self.tell(f"{word}.lost.{name}")
        for name in names:
            self.wait(f"{word}.is_lost.{name}")
        self.tell(f"{word}.gone")

    def page(self, name, env=None, metrics=None):
        return runbook.Page("/payload/docs/runbook", name, runbook.Shell("/root/shell.state", "/root", env or self.ann()), metrics)

    @staticmethod
    def ann():
        return {"HOLDFAST_ADDR": ",".join(f"{name}:4656" for name in SERVERS), "HOLDFAST_CACERT": "/root/pki/ca.pem",
                "HOLDFAST_CLIENT_CERT": "/root/pki/operator-ann.pem", "HOLDFAST_CLIENT_KEY": "/root/pki/operator-ann.key"}  # fmt: skip

    def lose_the_leader(self):
        """Its machine says nothing more; the unit on worker-1 has not noticed, and another server leads."""
        if self.name == "desk":
            leader = next(line.split()[0] for line in self.members()[1].splitlines() if " leads " in line)
            self.lose("leader", [leader])
            machine.wait_for("another one to lead", lambda: any(
                " leads " in line and not line.startswith(f"{leader} ") for line in self.members()[1].splitlines()))
            status, said = guide.type_in("holdfast volume status first")
            self.assertEqual((status, "writers: 1" in said), (0, True), said)
            keys = list(self.ann().values())[1:]
            page = self.page("leader-lost", metrics=lambda: runbook.scrape(leader, 4656, *keys)).open()
            page.step()
            self.tell(f"leader.back.{leader}")
            page.close()
            self.tell("leader.over")
        elif self.name in SERVERS:
            self.cut_off("leader")
        self.wait("leader.over")

    def lose_the_quorum(self):
        if self.name == "desk":
            self.lose("quorum", SERVERS[1:])
            page = self.page("quorum-lost")
            page.step()
            self.page("store-trouble").follow()
            self.tell(f"quorum.back.{SERVERS[1]}")
            page.follow()
            self.tell(f"quorum.back.{SERVERS[2]}")
            self.tell("quorum.over")
        elif self.name in SERVERS:
            self.cut_off("quorum")
        self.wait("quorum.over")

    def fill_etcd(self):
        if self.name == "claims":
            env = {"ETCDCTL_CACERT": "/etc/etcd/etcd-ca.pem", "ETCDCTL_CERT": "/etc/etcd/etcd.pem", "ETCDCTL_KEY": "/etc/etcd/etcd.key",
                   "ETCDCTL_ENDPOINTS": "https://claims:2379"}  # fmt: skip
            put = "head -c 1000000 /dev/zero | tr '\\0' x | etcdctl --command-timeout=60s put /other/$i"
            full = machine.run("sh", "-c", f"for i in $(seq 100); do {put} || exit; done", check=False, env=os.environ | env)
            self.assertIn("database space exceeded", full.stderr)
            self.page("disk-full-etcd").follow()
            self.tell("etcd.over")
        self.wait("etcd.over")
        if self.name == "desk":
            machine.wait_for("a server to lead", lambda: " leads " in self.members()[1])
            done = guide.type_in("holdfast operator policy put look look.policy.hcl || true; holdfast operator gc")
            self.assertEqual(done[0], 0, done[1])

    def still_mounted(self):
        if self.name == "worker-1":
            self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), self.mounted)
            with open(FIRST, encoding="utf-8") as f:
                self.assertEqual(len(f.readlines()), 1)
            self.assertTrue(machine.is_active("notes.service"))
            machine.wait_connected()

    def test_one_server_becomes_three_word_for_word(self):
        self.together(lambda: (self.install(), self.follow("/payload/docs/three-servers.md", "From one server to three"),
                               self.lose_the_leader(), self.lose_the_quorum(), self.fill_etcd(), self.still_mounted()))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
