# SPDX-License-Identifier: Apache-2.0
"""A CSI driver that Holdfast runs, and a service on its volumes, both as jobs on two nodes, for people to watch.

Called by ./dev demo --jobs; ends as demo.py does. Every part is real: podman's service, the driver of tests/plugins in an image
made here, loop devices, ext4, containers; no registry is asked.
"""

import os

from plugins import IMAGE, PLUGIN, PLUGIN_JOB, SERVICE_JOB, VOLUME, Plugins, wait_for

from demo import Demo, Failure, main, show


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
