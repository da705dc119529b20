# SPDX-License-Identifier: Apache-2.0
"""How long a person waits for one command, from exec to exit: beside /bin/true, which costs what any process does.

The commands take turns, so that each is measured under the same load. What bench.py prints of it.
"""

import statistics
import subprocess
import time
import uuid

import bench_volumes
from world import ID_MARK, PREFIX, Failure, World, run

ROUNDS = 60
SOCKET = f"{PREFIX}/var/server/server.sock"
PROGRAM = f"{PREFIX}/bin/holdfast"
VOLUME = """id      = "scratch"
type    = "native"
profile = "scratch"

source {
  class  = "tmpfs"
  size   = "64KiB"
  inodes = 16
}

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
"""
ALLOCATION = """name   = "app"
driver = "none"

volume "data" {
  source          = "scratch"
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
"""


def timed(*argv):
    """Milliseconds until it has exited."""
    begin = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    elapsed = (time.perf_counter() - begin) * 1000
    if done.returncode != 0:
        raise Failure(f"{' '.join(argv)}: {done.stderr.strip()}")
    return elapsed


NAMES = {
    "true": "/bin/true",
    "version": "holdfast version, which asks no server",
    "status_tls": "holdfast volume status, over TLS",
    "status_socket": "the same at the server's socket",
    "alloc_run": "holdfast alloc run of a tmpfs volume, at the socket",
    "alloc_stop": "holdfast alloc stop of it",
}


class Commands:
    """The commands against a node that has one tmpfs volume."""

    def __init__(self, world):
        self.over_tls = (PROGRAM, "--dev-dir", f"{PREFIX}/var/server")
        self.at_socket = (PROGRAM, "--address", SOCKET)
        self.node = world.nodes[0].id
        run(*self.at_socket, "volume", "register", world.spec("scratch.hcl", VOLUME))
        self.allocation = world.spec("app.hcl", ALLOCATION)

    def round(self):
        alloc = str(uuid.uuid4())[:19] + ID_MARK
        return {
            "true": timed("/bin/true"),
            "version": timed(PROGRAM, "version"),
            "status_tls": timed(*self.over_tls, "volume", "status"),
            "status_socket": timed(*self.at_socket, "volume", "status"),
            "alloc_run": timed(*self.at_socket, "alloc", "run", self.allocation, "--node", self.node, "--id", alloc),
            "alloc_stop": timed(*self.at_socket, "alloc", "stop", alloc),
        }


def measure():
    settings = f'listen {{\n  socket = "{SOCKET}"\n  operators = ["root"]\n}}'
    world = World(nodes=1, ops_per_second=4000, burst=10000, server_settings=settings)
    world.nodes[0].profiles = bench_volumes.Native.profiles
    try:
        world.open()
        world.start_agents()
        commands = Commands(world)
        rounds = [commands.round() for _ in range(ROUNDS)]
    finally:
        world.close()
    return {
        "rounds": ROUNDS,
        **{name: {
            "median": statistics.median(r[name] for r in rounds),
            "lowest": min(r[name] for r in rounds),
            "to_true": statistics.median(r[name] / r["true"] for r in rounds),
        } for name in NAMES},
    }
