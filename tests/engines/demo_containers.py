# SPDX-License-Identifier: Apache-2.0
"""A container of podman's on a claimed volume, for people to watch: every part is real, and no registry is asked.

Called by ./dev demo --containers; ends as demo.py does.
"""

import os
import pty

from flow import PREFIX, SPEC, Flow, wait_for

from demo import ALLOC_1, ALLOC_2, Demo, Failure, main, show

SCRIPT = "echo the task begins; echo started >> /data/starts; while sleep 1; do echo it is well; done"
COMMAND = "grep ' /data ' /proc/self/mountinfo; echo written by hand > /data/note; ls -l /data"


class ContainersDemo(Demo):
    def __init__(self, engine):
        super().__init__()
        self.engine = engine
        self.flow = Flow(engine)
        self.world = self.flow.room
        self.world.close = self.flow.close  # the driver first

    def run(self):
        flow, world = self.flow, self.world
        self.step("podman's service, an image made here of busybox, the driver under its own account, a server, two agents")
        flow.open()
        node_1, node_2 = world.nodes
        wait_for("the server to know the driver", flow.driver_is_healthy)
        self.command("ps", "-o", "user:18,pid,args", "-p", ",".join(str(p.pid) for p in self.engine.processes.values()))
        self.holdfast("node", "status", node_1.id)
        self.step("an allocation: its volume is claimed and mounted, its task is ordered by the server and started by the driver")
        spec = world.spec("task.hcl", SPEC.format(name="app", script=SCRIPT, image="localhost/bb:1"))
        self.command("cat", spec)
        self.holdfast("alloc", "run", spec, "--id", ALLOC_1)
        flow.until_running(ALLOC_1)
        self.holdfast("alloc", "status", ALLOC_1)
        before = flow.containers()
        self.show_containers()
        self.step("a command in the task, on a terminal: it sees the volume and writes on it")
        self.exec_on_terminal(COMMAND)
        with open(f"{node_1.published(ALLOC_1)}/note", encoding="ascii") as f:
            if f.read() != "written by hand\n":
                raise Failure("what the command wrote is not on the volume")
        self.step("what the task writes, read when it is asked for")
        self.holdfast("alloc", "logs", ALLOC_1, "--tail", "3")
        self.step("another allocation asks for the volume on node-2, and is refused")
        with open(world.alloc_spec(), encoding="ascii") as f:
            other = world.spec("other.hcl", f.read().replace("single-node-writer", "single-node-single-writer"))
        self.check_refusal(self.holdfast("alloc", "run", other, "--node", node_2.id, "--id", ALLOC_2, check=False))
        self.step("kill -9 the agent and start it again: the container runs on, and no other one is started")
        flow.kill_agent()
        flow.until_running(ALLOC_1)
        self.show_containers()
        if flow.containers() != before or flow.starts(ALLOC_1) != 1:
            raise Failure(f"the task was started again: {before}, then {flow.containers()}")
        self.step("stop: the container goes first, then the mounts, then the claim, with its evidence")
        flow.clear(ALLOC_1)
        self.holdfast("alloc", "stop", ALLOC_1)
        flow.nothing_is_left()
        self.holdfast("volume", "status", "db")
        if world.claims()[0]["evidence"] != "EVIDENCE_RECEIPT":
            raise Failure("the claim was freed without a receipt")
        self.step("who ran what in the task, and how it ended, is on record")
        self.holdfast("operator", "audit")
        self.command("cat", str(self.engine.work / "state/trail.log"))

    def show_containers(self):
        self.command("podman", "ps", "--no-trunc", "--format", "{{.ID}} {{.Image}} {{.Names}}")

    def exec_on_terminal(self, script):
        words = ["alloc", "exec", ALLOC_1, "-it", "--", "/bin/sh", "-c", script]
        show(f"    $ holdfast {' '.join(words[:-1])} \"{script}\"")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(f"{PREFIX}/bin/holdfast", [f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", *words])
        said = b""
        try:
            while piece := os.read(terminal, 4096):
                said += piece
        except OSError:  # it has ended
            pass
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        for line in said.decode(errors="replace").splitlines():
            show(f"      {line}")
        if os.waitstatus_to_exitcode(status) != 0 or b" /data " not in said:
            raise Failure("the command did not see the volume")


def watch(engine):
    os.environ |= engine.env  # podman's own command line shows the same containers
    return main(ContainersDemo(engine))
