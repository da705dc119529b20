"""Many volumes on one node, each of an allocation of its own: through server, agent and mount helpers, alone and among
mounts that are nobody's business. What bench.py prints of it.

Processor time of the agent and of the helpers hardly depends on what else the machine does, so its growth tells whether
a step costs more because there are more mounts; wall time is that of the whole chain.
"""

import concurrent.futures
import http.client
import json
import os
import ssl
import statistics
import time
import uuid

from world import PREFIX, Failure, World, run, wait_for

VOLUMES = 500
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


class BenchVolumes:
    def __init__(self, world, node):
        self.world, self.node = world, node

    def open(self):
        self.server = Server(self.world)
        self.trail = Trail(self.node.trail)
        self.server.all("Volumes/Register", [{"volume": self.volume(i)} for i in range(VOLUMES)])

    def close(self):
        self.server.close()

    def volume(self, i):
        return {
            "id": f"many-{i:04}", "type": "NATIVE", "plugin_id": "native", "profile": "scratch",
            "source": {"class": "TMPFS", "size_bytes": 65536, "inodes": 16},
            "requested_capabilities": [
                {"access_mode": "SINGLE_NODE_SINGLE_WRITER", "attachment_mode": "FILE_SYSTEM"}],
        }

    def allocation(self, prefix, i):
        return {
            "id": f"{prefix}-{str(uuid.uuid4())[9:]}", "name": "many", "node_id": self.node.id, "driver": "none",
            "volumes": [{"name": "v", "source": f"many-{i:04}", "access_mode": "SINGLE_NODE_SINGLE_WRITER",
                         "attachment_mode": "FILE_SYSTEM"}],
        }

    def agent_and_helpers(self):
        helpers = [h["pid"] for h in self.node.status()["helper"]["instances"] if h.get("pid")]
        return self.node.daemon.pid, helpers

    def until(self, prefix, status):
        """All allocations of this round are as they should be."""
        def are():
            allocs = self.server.one("Allocations/List", {"prefix": prefix, "per_page": VOLUMES})["allocations"]
            for alloc in allocs:
                if alloc["client_status"] == "FAILED":
                    raise Failure(f"allocation {alloc['id']} failed: {alloc['client_description']}")
            return sum(alloc["client_status"] == status for alloc in allocs) == VOLUMES

        wait_for(f"{VOLUMES} allocations to be {status}", are, SECONDS)

    def phase(self, begin, prefix, status):
        """Let something happen to all allocations: seconds, processor time, requests."""
        agent, helpers = self.agent_and_helpers()
        self.trail.intents()
        cpu, helper_cpu = cpu_seconds(agent), sum(map(cpu_seconds, helpers))
        began = time.monotonic()
        begin()
        self.until(prefix, status)
        return {
            "seconds": time.monotonic() - began,
            "agent_us": (cpu_seconds(agent) - cpu) / VOLUMES * 1e6,
            "helpers_us": (sum(map(cpu_seconds, helpers)) - helper_cpu) / VOLUMES * 1e6,
            "requests": self.trail.intents(),
        }

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
        return result

    def among(self, foreign_mounts, make_foreign):
        foreign = f"{PREFIX}/log/foreign"
        os.mkdir(foreign)
        try:
            make_foreign(foreign, foreign_mounts)
            return self.round()
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
        for phase in ("publish", "unpublish") for what in ("seconds", "agent_us", "helpers_us")
    }


def measure(rounds, foreign_mounts, make_foreign):
    """A world of its own, because the helper's limits and the server's memory are part of it."""
    world = World(nodes=1, ops_per_second=1000, burst=10000)
    node = world.nodes[0]
    node.trail_sync = "batch"
    node.profiles = lambda: "	max_staged = 600\n	profile scratch { class = tmpfs; max_size = 256MiB }\n"
    bench = BenchVolumes(world, node)
    try:
        world.open()
        world.start_agents()
        bench.open()
        bench.round()  # what is made at the first time
        alone, among = [], []
        for _ in range(rounds):
            alone.append(bench.round())
            among.append(bench.among(foreign_mounts, make_foreign))
        bench.close()
    finally:
        world.close()
    alone, among = medians(alone), medians(among)
    return {"volumes": VOLUMES, "mounts": foreign_mounts, "alone": alone, "among": among,
            "growth": growth(alone, among)}
