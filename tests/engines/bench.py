# SPDX-License-Identifier: Apache-2.0
"""Commands in tasks and starts of tasks beside the engine's own command line: interleaved rounds of one run, medians. All
programs are optimised (build/world)."""

import datetime
import os
import re
import resource
import statistics
import subprocess
import time

from flow import PREFIX, SPEC, STAYS, Flow
from world import BUILD, ID_MARK

ROUNDS = 7
ROUNDS_OF_BYTES = 3
SIZE = 100 << 20
IMAGE = "localhost/bb:1"


def timed(words, env=None, given=None):
    begun = time.monotonic()
    subprocess.run(words, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   **({"input": given} if given else {"stdin": subprocess.DEVNULL}))  # fmt: skip
    return time.monotonic() - begun


def cpu(pid):
    """Processor seconds of a process until now."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        user, system = f.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def cpu_of_commands():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Bench(Flow):
    def own(self, *words):
        return timed([f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "alloc", *words])

    def exec_in(self, alloc, *command, given=None):
        options = ["-i"] if given else []
        return timed([f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "alloc", "exec", alloc, *options, "--", *command],
                     given=given)  # fmt: skip

    def engine_command(self, *words, given=None):
        if self.engine.engine == "docker":
            return timed(["docker", "-H", f"unix://{self.engine.work}/engine.sock", *words], self.engine.env, given)
        return timed(["podman", *words], self.engine.env, given)

    def cpu_of_bytes(self, alloc, command, given=None):
        """Processor seconds of each process that the bytes of one command pass."""
        pids = {**self.passing_by(), self.engine.engine: self.engine.processes["engine"].pid}
        before, command_before = {name: cpu(pid) for name, pid in pids.items()}, cpu_of_commands()
        self.exec_in(alloc, *command, given=given)
        return {**{name: cpu(pid) - before[name] for name, pid in pids.items()}, "command": cpu_of_commands() - command_before}

    def print_cpu(self, alloc, what, command, given=None):
        rounds = [self.cpu_of_bytes(alloc, command, given) for _ in range(ROUNDS_OF_BYTES)]
        text = ", ".join(f"{name} {statistics.median(one[name] for one in rounds):.2f}" for name in rounds[0])
        print(f"{self.engine.engine}: processor seconds of {SIZE >> 20} MiB of {what}: {text}", flush=True)

    def print_cpu_at_rest(self):
        """What a task that runs costs its engine."""
        pid, begun = self.engine.processes["engine"].pid, time.monotonic()
        before = cpu(pid)
        time.sleep(5)
        used = (cpu(pid) - before) / (time.monotonic() - begun)
        print(f"{self.engine.engine}: processor of the engine while a task runs: {used * 100:.1f} %", flush=True)

    def exec_pairs(self, alloc):
        container = self.containers()[0]
        given = os.urandom(1 << 20) * (SIZE >> 20)
        out = ["/bin/sh", "-c", f"head -c {SIZE} /dev/zero"]
        into = ["/bin/sh", "-c", "cat > /dev/null"]
        one = [(self.exec_in(alloc, "/bin/echo"), self.engine_command("exec", container, "/bin/echo")) for _ in range(ROUNDS)]
        yield "a command that does nothing", one
        yield f"{SIZE >> 20} MiB of output", [
            (self.exec_in(alloc, *out), self.engine_command("exec", container, *out)) for _ in range(ROUNDS_OF_BYTES)]  # fmt: skip
        yield f"{SIZE >> 20} MiB of input", [
            (self.exec_in(alloc, *into, given=given), self.engine_command("exec", "-i", container, *into, given=given))
            for _ in range(ROUNDS_OF_BYTES)]  # fmt: skip

    def engine_took(self, alloc):
        """Seconds from the driver's intent to start until the engine has started it, by its trail."""
        trail = (self.engine.work / "state/trail.log").read_text(encoding="ascii")
        at = {phase: datetime.datetime.fromisoformat(ts) for ts, phase in
              re.findall(rf"^ts=(\S+)Z rec=.* op=start alloc={alloc.replace('-', '')} .* phase=(\w+) ", trail, re.M)}  # fmt: skip
        return (at["result"] - at["intent"]).total_seconds()

    def start_pair(self, n):
        alloc = f"0192f3a0-{n:04d}-7000-{ID_MARK}"
        spec = self.room.spec("task.hcl", SPEC.format(name=f"bench-{n}", script=STAYS, image=IMAGE))
        own = self.own("run", spec, "--id", alloc)
        self.until_running(alloc)
        share = own - self.engine_took(alloc)
        at = self.node.published(alloc)
        theirs = self.engine_command("run", "-d", "--name", f"bench-{n}", "--network", "none", "-v", f"{at}:/data", IMAGE, "/bin/sh", "-c",
                                     "sleep 100000")  # fmt: skip
        self.engine_command("rm", "-f", f"bench-{n}")
        self.clear(alloc)
        self.stop(alloc)
        return own, theirs, share

    def figures(self):
        alloc = self.run()
        self.until_running(alloc)
        self.print_cpu_at_rest()
        yield from self.exec_pairs(alloc)
        self.print_cpu(alloc, "output", ["/bin/sh", "-c", f"head -c {SIZE} /dev/zero"])
        self.print_cpu(alloc, "input", ["/bin/sh", "-c", "cat > /dev/null"], bytes(SIZE))
        self.clear(alloc)
        self.stop(alloc)
        starts = [self.start_pair(n) for n in range(ROUNDS)]
        yield "start of a task on a claimed volume", [(own, theirs) for own, theirs, _ in starts]
        yield "of it not the engine's", [(share, theirs) for _, theirs, share in starts]


def cases(engine):
    """Prints a line for each figure; yields as flow.cases() does."""
    engine.driver = f"{BUILD}/agent/driver-container/holdfast-driver-container"
    bench = Bench(engine)
    try:
        bench.open()
        for what, pairs in bench.figures():
            own, theirs = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"{engine.engine}: {what}: holdfast {own * 1000:.0f} ms, {engine.engine} {theirs * 1000:.0f} ms, ratio {ratio:.2f}", flush=True)
        yield "figures", None
    finally:
        bench.close()
