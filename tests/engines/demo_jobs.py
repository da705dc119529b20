# SPDX-License-Identifier: Apache-2.0
"""A CSI driver that Holdfast runs, and a service on its volumes, both as jobs on two nodes, for people to watch.

Called by ./dev demo --jobs; ends as demo.py does. Every part is real: podman's service, the driver of tests/plugins in an image
made here, loop devices, ext4, containers; no registry is asked.
"""

import os
import subprocess

from plugins import IMAGE, PLUGIN, PLUGIN_JOB, SERVICE_JOB, VOLUME, Plugins, wait_for

from demo import PREFIX, Demo, Failure, main, show

WRITES = "echo {} >> /data/log; cat /data/log"
BATCH_JOB = """job "{name}" {{
  type = "batch"

  group "{name}" {{
    volume "data" {{
      source          = "ledger"
      access_mode     = "single-node-single-writer"
      attachment_mode = "file-system"
    }}

    task "main" {{
      driver = "container"

      volume_mount {{
        volume      = "data"
        destination = "/data"
      }}

      config {{
        image   = "localhost/bb:1"
        command = ["/bin/sh", "-c", "{script}"]
      }}
    }}
  }}
}}
"""


class JobsDemo(Demo):
    def __init__(self, engine):
        super().__init__()
        self.engine = engine
        self.flow = Plugins(engine)
        self.world = self.flow.room
        self.world.close = self.flow.close  # the drivers first

    def run(self):
        flow, world = self.flow, self.world
        self.step("podman's service, the CSI driver's image made here, a server, two agents, and a driver of containers on each node")
        flow.open()
        self.holdfast("node", "status")
        self.step("a system job: the CSI driver on every node, with its socket's folder and the staging folders")
        self.submit("csi-disk", PLUGIN_JOB.replace("IMAGE", f"{IMAGE}:1").replace("POWER", flow.asked), show_file=True)
        flow.plugin_is_healthy()
        flow.running("csi-disk", 2)
        self.holdfast("plugin", "status", PLUGIN)
        self.step("a service job of two members, each with a volume of that driver: db[0], db[1]")
        for index in (0, 1):
            self.holdfast("volume", "create", world.spec("db.hcl", VOLUME.format(index=index, kind=flow.kind)))
        self.submit("db", SERVICE_JOB, show_file=True)
        members = flow.running("db", 2)
        self.holdfast("job", "status", "db")
        self.show_volumes(members)
        self.step("the process of a member crashes: its node restarts it in its container, on the same mounts and under the same claim")
        crashed = next(a for a in members if a["node_id"] == world.nodes[1].id)
        mounts = flow.mounts_of(crashed)
        self.command("podman", "kill", f"holdfast-{crashed['id']}-main")
        wait_for("the task to be restarted", lambda: any(s.get("restarts") for a in flow.members("db") for s in a.get("task_status", [])), 60)
        self.holdfast("alloc", "status", crashed["id"])
        if flow.mounts_of(crashed) != mounts:
            raise Failure("a mount has changed with the restart")
        members = flow.running("db", 2)
        self.scale_up(members)
        self.wait_in_order()
        self.step("another version of the CSI driver, node by node: no mount changes")
        before = {a["id"]: flow.mounts_of(a) for a in members}
        self.submit("csi-disk", PLUGIN_JOB.replace("IMAGE", f"{IMAGE}:2").replace("POWER", flow.asked))
        flow.running("csi-disk", 2, "2")
        flow.plugin_is_healthy()
        self.holdfast("job", "history", "csi-disk")
        self.show_containers()
        if {a["id"]: flow.mounts_of(a) for a in flow.running("db", 2)} != before:
            raise Failure("a mount has changed with the driver")
        self.step("node-1 is drained: its member moves when its volume is free by evidence, and finds its data; the CSI driver goes last")
        node_1, node_2 = world.nodes
        moved = next(a for a in members if a["node_id"] == node_1.id)
        self.holdfast("node", "drain", node_1.id, "--yes")
        members = wait_for("both members to run on node-2",
                           lambda: [a["node_id"] for a in flow.members("db")] == [node_2.id] * 2 and flow.running("db", 2), 120)
        now = next(a for a in members if a["job_index"] == moved["job_index"])
        wait_for("the member to have written", lambda: flow.log(now) == [node_1.id, node_2.id])
        self.holdfast("volume", "status", f"db[{moved['job_index']}]")
        self.show_volumes(members)
        self.step("everything is stopped: nothing is left")
        self.holdfast("job", "stop", "db")
        wait_for("the members to end", lambda: not flow.members("db"), 60)
        self.holdfast("job", "stop", "csi-disk")
        wait_for("the driver to end", lambda: not flow.members("csi-disk"), 60)
        self.show_containers()
        left = [node.mounts() for node in world.nodes if node.mounts()] + flow.containers()
        if left:
            raise Failure(f"left: {left}")
        self.holdfast("job", "status")

    def scale_up(self, members):
        """A change of count restarts nothing."""
        flow = self.flow
        self.step("scale up to three members and back to two: no member is restarted, and the highest index stops")
        before = {a["id"]: flow.mounts_of(a) for a in members}
        self.holdfast("volume", "create", self.world.spec("db.hcl", VOLUME.format(index=2, kind=flow.kind)))
        self.submit("db", SERVICE_JOB.replace("count = 2", "count = 3"))
        three = flow.running("db", 3)
        self.holdfast("job", "status", "db")
        self.submit("db", SERVICE_JOB)
        wait_for("the third member to end", lambda: len(flow.members("db")) == 2, 60)
        for found in (three[:2], flow.running("db", 2)):
            if {a["id"]: flow.mounts_of(a) for a in found} != before:
                raise Failure("a member was restarted")

    def wait_in_order(self):
        """Two jobs wait for the volume of a third one."""
        flow, world = self.flow, self.world
        self.step("three batch jobs on one volume: two wait in its queue, in order of arrival")
        self.holdfast("volume", "create", world.spec("ledger.hcl", VOLUME.format(index=0, kind=flow.kind).replace("db[0]", "ledger")))
        self.submit("one", BATCH_JOB.format(name="one", script=f"while [ ! -e /data/go ]; do sleep 1; done; {WRITES.format('one')}"), show_file=True)
        (holder,) = flow.running("one", 1)
        waiting = []
        for name in ("two", "three"):
            waiting.append(self.submit_in_background(name, BATCH_JOB.format(name=name, script=WRITES.format(name))))
            wait_for(f"job {name} to wait", lambda name=name: f"in its queue: {name}-{name}-0" in self.why())
        self.holdfast("volume", "status", "ledger", "--why")
        self.step("the first job ends: the second one has the volume, then the third one; none failed")
        self.command("touch", f"{flow.published(holder)}/go")
        last = wait_for("all three to complete", self.last_of_three, 120)
        if any(process.wait(60) for process in waiting):
            raise Failure("a job run that waited has failed")
        for name in ("one", "two", "three"):
            self.holdfast("job", "status", name)
        said = self.holdfast("alloc", "logs", last).stdout.split()
        if said != ["one", "two", "three"]:
            raise Failure(f"written in the order {said}")

    def why(self):
        return self.world.holdfast("volume", "status", "ledger", "--why").stdout

    def last_of_three(self):
        found = {a["job_id"]: a for a in self.world.json("alloc", "status")["allocations"]
                 if a.get("job_id") in ("one", "two", "three") and a["client_status"] == "COMPLETE"}
        return len(found) == 3 and found["three"]["id"]

    def submit_in_background(self, name, text):
        """A job run that may wait until its job has run."""
        words = ["job", "run", self.world.spec(f"{name}.hcl", text)]
        show(f"    $ holdfast {' '.join(words)} &")
        return subprocess.Popen([f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", *words],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    def submit(self, name, text, show_file=False):
        path = self.world.spec(f"{name}.hcl", text)
        if show_file:
            self.command("cat", path)
        self.holdfast("job", "run", path)

    def show_volumes(self, members):
        for alloc in members:
            self.flow.log(alloc)
            self.command("findmnt", "--output", "TARGET,FSTYPE,VFS-OPTIONS", self.flow.published(alloc))
            self.command("cat", f"{self.flow.published(alloc)}/log")

    def show_containers(self):
        self.command("podman", "ps", "--no-trunc", "--format", "{{.Image}} {{.Names}}")


def watch(engine):
    os.environ |= engine.env  # podman's own command line shows the same containers
    show("Jobs: a CSI driver, and what uses its volumes")
    return main(JobsDemo(engine))
