# SPDX-License-Identifier: Apache-2.0
"""Many volumes on one node, each of an allocation of its own: through server, agent and mount helpers, and a CSI plugin
or none, alone and among mounts that are nobody's business. What bench.py prints of it.

Processor time of the agent and of the helpers hardly depends on what else the machine does, so its growth tells whether
a step costs more because there are more mounts; wall time is that of the whole chain.
"""

import concurrent.futures
import http.client
import json
import os
import ssl
import statistics
import struct
import subprocess
import time
import uuid

from world import BUILD, ID_MARK, PREFIX, Failure, World, run, wait_for

VOLUMES = 500
RESTART_VOLUMES = 1000, 4000
RESTART_ALLOCATIONS = 1000  # which the volumes are spread over: a node takes 1024
WORKERS = 8  # requests to the server at a time
SECONDS = 60


class Server:
    """The claim server's JSON, over connections that stay open."""

    def __init__(self, world):
        folder = f"{PREFIX}/var/server/tls"
        self.address = world.address()
        self.context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
        self.context.check_hostname = False
        self.context.load_cert_chain(f"{folder}/operator.pem", f"{folder}/operator.key")
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
        self.connections = []

    def ask(self, connection, method, body):
        connection.request("POST", f"/holdfast.v1.{method}", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise Failure(f"{method}: {answer.status} {text.decode(errors='replace')}")
        return json.loads(text)

    def all(self, method, bodies):
        """One request for each body, over as many connections as there are workers."""
        def some(part):
            connection = http.client.HTTPSConnection(*self.address, context=self.context)
            try:
                return [self.ask(connection, method, body) for body in part]
            finally:
                connection.close()

        return list(self.pool.map(some, [bodies[i::WORKERS] for i in range(WORKERS)]))

    def one(self, method, body):
        return self.all(method, [body])[0][0]

    def close(self):
        self.pool.shutdown()


class Trail:
    """What the helpers were asked for since the last look."""

    def __init__(self, path):
        self.file = open(path, "rb")  # noqa: SIM115: as long as this lives
        self.file.seek(0, os.SEEK_END)

    def intents(self):
        """Requests by operation."""
        counts = {}
        for line in self.file.read().splitlines():
            words = dict(word.split(b"=", 1) for word in line.split(b" ") if b"=" in word)
            if words.get(b"phase") == b"intent":
                counts[words[b"op"].decode()] = counts.get(words[b"op"].decode(), 0) + 1
        return counts


def cpu_seconds(pid):
    """User and system time of a process and of its children that it has waited for."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Native:
    """Volumes that the mount helper mounts itself."""

    PLUGIN_IDS = ()
    VOLUME = {"type": "NATIVE", "plugin_id": "native", "profile": "scratch",
              "source": {"class": "TMPFS", "size_bytes": 65536, "inodes": 16}}
    pid = None

    def __init__(self, world):
        """Nothing is needed beside the world."""

    def start(self):
        """Nor started."""

    def calls(self):
        return {}

    @staticmethod
    def profiles():
        return "	profile scratch { class = tmpfs; max_size = 256MiB }\n"


class Csi:
    """Volumes of a plugin that bind-mounts folders: bench_plugin.c."""

    PLUGIN_IDS = ("bench",)
    VOLUME = {"type": "CSI", "plugin_id": "bench"}
    COUNTED = ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")

    def __init__(self, world):
        self.world, self.folder = world, f"{PREFIX}/var/bench-plugin"
        self.process, self.before = None, (0,) * len(self.COUNTED)
        world.plugins.append(self)

    def start(self):
        os.mkdir(self.folder, 0o700)
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "tests", "bench", "bench_plugin"),
             f"{self.world.nodes[0].plugin_dir}/bench/csi.sock", self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, umask=0o007)
        if self.process.stdout.readline() != b"ready\n":
            raise Failure("the plugin of the bench did not start")
        self.world.wait_plugin("bench", 0, 1)

    @property
    def pid(self):
        return self.process.pid

    def calls(self):
        """Since the last time, by kind; the questions about the plugin itself are left out."""
        with open(f"{self.folder}/counts", "rb") as f:
            now = struct.unpack(f"={len(self.COUNTED)}Q", f.read(8 * len(self.COUNTED)))
        counts = {name: n - b for name, n, b in zip(self.COUNTED, now, self.before)}
        self.before = now
        return {name: n for name, n in counts.items() if n != 0}

    def kill(self):
        """By the world, when it ends."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    @staticmethod
    def profiles():
        return "	profile bench { class = csi }\n"


class CsiDevices(Csi):
    """The same with a block device for each volume, and ext4 on it."""

    IMAGE_BYTES = 256 << 10

    def __init__(self, world):
        super().__init__(world)
        self.loops = []

    def start(self):
        images = f"{PREFIX}/var/bench-images"
        os.mkdir(images, 0o700)
        first = f"{images}/0"
        with open(first, "wb") as f:
            f.truncate(self.IMAGE_BYTES)
        run("mkfs.ext4", "-q", "-b", "1024", "-O", "^has_journal", first)
        super().start()
        for i in range(VOLUMES):
            if i > 0:
                run("cp", "--sparse=always", first, f"{images}/{i}")
            self.loops.append(run("losetup", "--find", "--show", f"{images}/{i}").stdout.strip())
            os.symlink(self.loops[-1], f"{self.folder}/many-{i:04}")

    def kill(self):
        super().kill()
        for loop in self.loops:
            run("losetup", "--detach", loop, check=False)
        self.loops = []


# What each volume costs, exactly once each.
CALLS = {"publish": Csi.COUNTED[:2], "unpublish": Csi.COUNTED[2:]}


class BenchVolumes:
    def __init__(self, world, node, kind, number=VOLUMES):
        self.world, self.node, self.kind, self.number = world, node, kind, number

    def open(self):
        self.server = Server(self.world)
        self.trail = Trail(self.node.trail)
        self.kind.start()
        self.server.all("Volumes/Register", [{"volume": self.volume(i)} for i in range(self.number)])

    def close(self):
        self.server.close()

    def volume(self, i):
        return {
            "id": f"many-{i:04}", **self.kind.VOLUME,
            "requested_capabilities": [
                {"access_mode": "SINGLE_NODE_SINGLE_WRITER", "attachment_mode": "FILE_SYSTEM"}],
        }

    def allocation(self, prefix, i, per_alloc=1):
        return {
            "id": f"{prefix}-{str(uuid.uuid4())[9:19]}{ID_MARK}", "name": "many", "node_id": self.node.id, "driver": "none",
            "volumes": [{"name": f"v{k}", "source": f"many-{i * per_alloc + k:04}",
                         "access_mode": "SINGLE_NODE_SINGLE_WRITER", "attachment_mode": "FILE_SYSTEM"}
                        for k in range(per_alloc)],
        }

    def agent_and_helpers(self):
        helpers = [h["pid"] for h in self.node.status()["helper"]["instances"] if h.get("pid")]
        return self.node.daemon.pid, helpers

    def until(self, prefix, status, number=VOLUMES):
        """All allocations of this round are as they should be."""
        def are():
            allocs = self.server.one("Allocations/List", {"prefix": prefix, "per_page": number})["allocations"]
            for alloc in allocs:
                if alloc["client_status"] == "FAILED":
                    raise Failure(f"allocation {alloc['id']} failed: {alloc['client_description']}")
            return sum(alloc["client_status"] == status for alloc in allocs) == number

        wait_for(f"{number} allocations to be {status}", are, SECONDS)

    def processes(self):
        """Those whose processor time counts, by name."""
        agent, helpers = self.agent_and_helpers()
        plugin = {"plugin": [self.kind.pid]} if self.kind.pid else {}
        return {"agent": [agent], "helpers": helpers, "server": [self.world.server.pid], **plugin}

    def phase(self, begin, prefix, status):
        """Let something happen to all allocations: seconds, processor time, requests, calls."""
        processes = self.processes()
        self.trail.intents()
        self.kind.calls()
        cpu = {name: sum(map(cpu_seconds, pids)) for name, pids in processes.items()}
        began = time.monotonic()
        begin()
        self.until(prefix, status)
        return {
            "seconds": time.monotonic() - began,
            **{f"{name}_us": (sum(map(cpu_seconds, pids)) - cpu[name]) / VOLUMES * 1e6
               for name, pids in processes.items()},
            "requests": self.trail.intents(),
            "calls": self.kind.calls(),
        }

    def check_calls(self, result):
        """Each call that a volume needs has been made once for it, and no other one."""
        for phase, names in CALLS.items():
            wanted = dict.fromkeys(names, VOLUMES) if self.kind.pid else {}
            if result[phase]["calls"] != wanted:
                raise Failure(f"to {phase} {VOLUMES} volumes, these calls were made: {result[phase]['calls']}")

    def round(self):
        prefix = str(uuid.uuid4())[:8]
        allocs = [self.allocation(prefix, i) for i in range(VOLUMES)]
        agent = self.node.daemon.pid
        result = {"resident_before": resident_bytes(agent)}
        result["publish"] = self.phase(
            lambda: self.server.all("Allocations/Run", [{"allocation": a} for a in allocs]), prefix, "RUNNING")
        result["resident"] = resident_bytes(agent)
        began = time.monotonic()
        mounts = self.node.status()["mounts"]
        result["status_seconds"] = time.monotonic() - began
        if sum(m.get("verified", False) for m in mounts) != VOLUMES:
            raise Failure(f"the status shows {len(mounts)} mounts, not {VOLUMES} verified ones")
        result["unpublish"] = self.phase(
            lambda: self.server.all("Allocations/Stop", [{"id": a["id"]} for a in allocs]), prefix, "COMPLETE")
        wait_for("all mounts to be gone", lambda: not self.node.mounts())
        self.check_calls(result)
        return result

    def run_all(self):
        """All volumes, over as few allocations as a node takes."""
        prefix = str(uuid.uuid4())[:8]
        per_alloc = max(1, self.number // RESTART_ALLOCATIONS)
        allocs = [self.allocation(prefix, i, per_alloc) for i in range(self.number // per_alloc)]
        self.server.all("Allocations/Run", [{"allocation": a} for a in allocs])
        self.until(prefix, "RUNNING", len(allocs))

    def restart(self):
        """Kill the agent with its helpers and start it: until it is connected, which it is when it knows all mounts."""
        self.node.daemon.kill()
        wait_for("the agent to be gone", lambda: self.node_status() != "READY")
        began = time.monotonic()
        self.node.daemon.start()
        wait_for("the agent to know its mounts", lambda: self.node_status() == "READY")
        seconds = time.monotonic() - began
        agent, helpers = self.agent_and_helpers()
        cpu = {"agent_s": cpu_seconds(agent), "helpers_s": sum(map(cpu_seconds, helpers))}
        wait_for("all mounts to be verified",
                 lambda: sum(m.get("verified", False) for m in self.node.status()["mounts"]) == self.number)
        return {"seconds": seconds, **cpu}

    def node_status(self):
        return self.server.one("Nodes/Get", {"id": self.node.id})["node"]["status"]

    def among(self, foreign_mounts, make_foreign, step=None):
        foreign = f"{PREFIX}/log/foreign"
        os.mkdir(foreign)
        try:
            make_foreign(foreign, foreign_mounts)
            return (step or self.round)()
        finally:
            run("umount", "-l", foreign, check=False)
            os.rmdir(foreign)


def medians(rounds):
    """Of numbers, and of numbers in dicts."""
    first = rounds[0]
    if isinstance(first, dict):
        return {name: medians([r[name] for r in rounds]) for name in first}
    return statistics.median(rounds)


def growth(alone, among):
    """How often what costs something alone goes into what it costs among others."""
    return {
        f"{phase}_{what}": round(among[phase][what] / alone[phase][what], 2)
        for phase in CALLS for what in among[phase] if what not in ("requests", "calls")
    }


def open_bench(kind, number):
    """Volumes of a kind, Native, Csi or CsiDevices, in a world of its own, because the helper's limits and the server's
    memory are part of it."""
    world = World(nodes=1, ops_per_second=4000, burst=10000, plugin_ids=kind.PLUGIN_IDS)
    node = world.nodes[0]
    node.trail_sync = "batch"
    node.profiles = lambda: f"	max_staged = {number + 90}\n	max_published = {2 * number}\n{kind.profiles()}"
    return BenchVolumes(world, node, kind(world), number)


def side_by_side(bench, rounds, alone_step, among_step, warm_up):
    """Medians of interleaved rounds."""
    try:
        bench.world.open()
        bench.world.start_agents()
        bench.open()
        warm_up()  # what is made at the first time
        alone, among = [], []
        for _ in range(rounds):
            alone.append(alone_step())
            among.append(among_step())
        bench.close()
    finally:
        bench.world.close()
    return medians(alone), medians(among)


def measure(kind, rounds, foreign_mounts, make_foreign):
    bench = open_bench(kind, VOLUMES)
    alone, among = side_by_side(bench, rounds, bench.round, lambda: bench.among(foreign_mounts, make_foreign), bench.round)
    return {"volumes": VOLUMES, "mounts": foreign_mounts, "alone": alone, "among": among,
            "growth": growth(alone, among)}


def measure_restart(number, rounds, foreign_mounts, make_foreign):
    """A killed agent with many tmpfs volumes, started again."""
    bench = open_bench(Native, number)
    alone, among = side_by_side(bench, rounds, bench.restart,
                                lambda: bench.among(foreign_mounts, make_foreign, bench.restart), bench.run_all)
    return {"volumes": number, "mounts": foreign_mounts, "alone": alone, "among": among,
            "growth": round(among["seconds"] / alone["seconds"], 2)}
