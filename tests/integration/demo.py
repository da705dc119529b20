#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job of Holdfast on this machine, for people to watch: one real disk, two nodes, every part real.

Called by ./dev demo. The last line is `demo: ok (N steps, T s)`, or `demo: failed at STEP: REASON` with exit 1.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

from world import PREFIX, Failure, World, mounts_below, proc_status, run, show, wait_for

ALLOC_1 = "0192f3a1-0000-7000-837a-8eec1ce19687"
ALLOC_2 = "0192f3a2-0000-7000-837a-8eec1ce19687"


class Demo:
    def __init__(self):
        self.world = World(nodes=2)
        self.steps = 0
        self.step_name = "start"

    def step(self, text):
        self.steps += 1
        self.step_name = text
        show(f"\n{self.steps:2}. {text}")

    def holdfast(self, *args, check=True):
        """Run the command line and show both the command and its output."""
        show(f"    $ holdfast {' '.join(args)}")
        done = self.world.holdfast(*args, check=False)
        for line in (done.stdout + done.stderr).splitlines():
            show(f"      {line}")
        if check and done.returncode != 0:
            raise Failure(f"holdfast {args[0]} {args[1]}: exit {done.returncode}: {done.stderr.strip()}")
        return done

    def command(self, *args):
        show(f"    $ {' '.join(args)}")
        for line in run(*args).stdout.splitlines():
            show(f"      {line}")

    def run(self):
        world, (node_1, node_2) = self.world, self.world.nodes
        self.step("make a disk, accounts, trees and a policy; start the claim server and two agents")
        world.open()
        world.start_agents()
        show(f"    disk: ext4 on {world.loop}, known as /dev/disk/by-id/{world.by_id}")
        self.holdfast("node", "status")
        self.show_processes()
        self.step("register the volume")
        self.holdfast("volume", "register", world.volume_spec())
        self.keep_store()
        self.step("run an allocation on node-1: claim, stage, publish")
        self.holdfast("alloc", "run", world.alloc_spec(), "--node", node_1.id, "--id", ALLOC_1)
        self.step("the mount, as the kernel has it")
        path = node_1.published(ALLOC_1)
        self.command("findmnt", "--output", "TARGET,SOURCE,FSTYPE,VFS-OPTIONS,PROPAGATION", path)
        self.check_mount(path)
        self.step("write a file through the published path")
        with open(f"{path}/hello", "w", encoding="ascii") as f:
            f.write("written on node-1\n")
        self.command("ls", "-l", path)
        self.step("node-2 asks for the same volume to write, and is refused")
        refused = self.holdfast("alloc", "run", world.alloc_spec(), "--node", node_2.id, "--id", ALLOC_2, check=False)
        self.check_refusal(refused)
        self.step("kill -9 the agent of node-1 and start it again: nothing is mounted twice, nothing changes")
        self.restart_agent(node_1)
        self.step("kill -9 the server and put back its store of before the allocation: it finds out, and asks the nodes")
        self.put_store_back()
        refused = self.holdfast("alloc", "run", world.alloc_spec(), "--node", node_2.id, "--id", ALLOC_2, check=False)
        self.check_refusal(refused)
        self.step("stop the allocation: unpublish, unstage, receipt")
        self.holdfast("alloc", "stop", ALLOC_1)
        wait_for("the claim to be freed", lambda: not world.live_claims())
        if node_1.mounts():
            raise Failure(f"still mounted: {node_1.mounts()[0]}")
        self.step("the claim is released, with the evidence on record")
        self.holdfast("volume", "status", "db")
        evidence = world.claims()[0]["evidence"]
        if evidence != "EVIDENCE_RECEIPT":
            raise Failure(f"the claim was freed with {evidence}, not with a receipt")
        self.step("node-2 gets the volume now, and reads the file")
        self.holdfast("alloc", "run", world.alloc_spec(), "--node", node_2.id, "--id", ALLOC_2)
        with open(f"{node_2.published(ALLOC_2)}/hello", encoding="ascii") as f:
            text = f.read()
        show(f"    {node_2.published(ALLOC_2)}/hello: {text.strip()}")
        if text != "written on node-1\n":
            raise Failure("the file is not what node-1 wrote")
        self.step("stop it there too")
        self.holdfast("alloc", "stop", ALLOC_2)
        wait_for("the claim to be freed", lambda: not world.live_claims())
        self.step("the trail: every privileged operation of both nodes, and its chain of hashes")
        for node in world.nodes:
            self.holdfast("audit", "show", node.trail)
            self.holdfast("audit", "verify", node.trail)

    def show_processes(self):
        pids = [str(self.world.server.pid)]
        for node in self.world.nodes:
            pids += [str(node.daemon.pid), str(node.helper_pid())]
        self.command("ps", "-o", "user:18,pid,ppid,args", "-p", ",".join(pids))
        for node in self.world.nodes:
            for what, pid in (("agent", node.daemon.pid), ("helper", node.helper_pid())):
                status = proc_status(pid)
                show(
                    f"    {what} of {node.id}: CapEff {status['CapEff']} CapBnd {status['CapBnd']} "
                    f"NoNewPrivs {status['NoNewPrivs']} Seccomp {status['Seccomp']}"
                )

    def check_mount(self, path):
        line = [m for m in mounts_below(PREFIX) if m.split(" ")[4] == path]
        if len(line) != 1:
            raise Failure(f"{path} is mounted {len(line)} times")
        fields = line[0].split(" ")
        options = fields[5].split(",")
        if "nosuid" not in options or "nodev" not in options:
            raise Failure(f"{path} lacks nosuid or nodev: {fields[5]}")
        if fields[6] != "-":
            raise Failure(f"{path} is not private: {fields[6]}")

    def check_refusal(self, done):
        if done.returncode == 0:
            raise Failure("a second writer was let in")
        for word in (ALLOC_1, "node-1", "taken", f"holdfast alloc status {ALLOC_1}"):
            if word not in done.stderr:
                raise Failure(f"the refusal does not name {word}")

    def restart_agent(self, node):
        before = node.mounts()
        node.daemon.kill(signal.SIGKILL)
        show(f"    agent of {node.id} killed; {len(before)} mounts stand")
        node.start()
        node.wait_connected()
        wait_for("the agent to adopt its allocation", lambda: self.is_running(ALLOC_1))
        if node.mounts() != before:
            raise Failure(f"the mounts changed: before {before}, after {node.mounts()}")
        show("    the same mounts, by id, as before the kill:")
        for line in before:
            show(f"      {line}")
        self.holdfast("alloc", "status", ALLOC_1)

    def keep_store(self):
        """Without the server, so that the file is all of it."""
        self.world.server.kill(signal.SIGTERM)
        shutil.copy2(f"{PREFIX}/var/server/holdfast.db", f"{PREFIX}/var/older.db")
        self.start_server()

    def start_server(self):
        self.world.start_server()
        for node in self.world.nodes:
            node.wait_connected()

    def put_store_back(self):
        store = f"{PREFIX}/var/server/holdfast.db"
        before = self.world.nodes[0].mounts()
        epoch = int(self.world.json("operator", "status")["epoch"])
        self.world.server.kill(signal.SIGKILL)
        owner = os.stat(store)
        for name in (store, f"{store}-wal", f"{store}-shm"):
            if os.path.exists(name):
                os.unlink(name)
        shutil.copyfile(f"{PREFIX}/var/older.db", store)
        os.chown(store, owner.st_uid, owner.st_gid)
        os.chmod(store, 0o600)
        self.world.start_server()
        wait_for("the server to learn of the allocation from its node", self.is_adopted)
        self.holdfast("operator", "status")
        if int(self.world.json("operator", "status")["epoch"]) <= epoch:
            raise Failure("no epoch has begun")
        if self.world.nodes[0].mounts() != before:
            raise Failure("the mounts of node-1 have changed")

    def is_adopted(self):
        try:
            return self.is_running(ALLOC_1) and self.world.live_claims()
        except Failure:
            return False

    def is_running(self, alloc):
        return self.world.json("alloc", "status", alloc)["allocation"]["client_status"] == "RUNNING"


def main(demo):
    started = time.monotonic()
    kept = None
    try:
        demo.run()
        failure = None
    except (Failure, OSError, subprocess.SubprocessError, KeyError, ValueError) as e:
        failure = e
        if os.path.isdir(demo.world.logs):
            kept = "/tmp/holdfast-demo-logs"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(demo.world.logs, kept)
    except KeyboardInterrupt:
        failure = "interrupted"
    if not failure:
        demo.step("clean up everything")
    try:
        demo.world.close()
    except (Failure, OSError, subprocess.SubprocessError) as e:
        failure = failure or e
    if failure:
        show(f"\ndemo: failed at {demo.step_name}: {failure}" + (f"\nlogs: {kept}" if kept else ""))
        return 1
    show(f"\ndemo: ok ({demo.steps} steps, {time.monotonic() - started:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main(Demo()))
