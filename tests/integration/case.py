"""What every integration test stands on: one world per class, one fresh allocation per test."""

import contextlib
import os
import signal
import subprocess
import unittest

from world import PREFIX, World, proc_status, wait_for


class WorldTest(unittest.TestCase):
    """A class of tests with a world of its own; each test leaves it without allocations and claims."""

    NODES = 2

    @classmethod
    def setUpClass(cls):
        cls.world = World(nodes=cls.NODES)
        cls.addClassCleanup(cls.world.close)
        cls.world.open()
        cls.world.start_agents()
        cls.world.holdfast("volume", "register", cls.world.volume_spec())
        cls.serial = 0

    def setUp(self):
        type(self).serial += 1
        self.alloc = self.alloc_id(0)
        self.node = self.world.nodes[0]

    def tearDown(self):
        """Whatever a test did, the next one begins with running daemons and a free volume."""
        self.revive()
        for alloc in self.world.json("alloc", "status").get("allocations", []):
            if alloc["client_status"] in ("PENDING", "RUNNING"):
                self.world.holdfast("alloc", "stop", alloc["id"])
        wait_for("the volume to be free", lambda: not self.world.live_claims())

    def revive(self):
        if not self.world.server.alive():
            self.world.start_server()
        for node in self.world.nodes:
            if not node.daemon.alive():
                node.start()
            node.wait_connected()

    def alloc_id(self, n):
        """An id that no other test of the class uses."""
        return f"0192f3a0-0000-7000-8{self.serial:03d}-{n:012d}"

    def run_alloc(self, alloc=None, node=None, check=True):
        node = node or self.node
        return self.world.holdfast(
            "alloc", "run", self.world.alloc_spec(), "--node", node.id, "--id", alloc or self.alloc, check=check
        )

    def stop_alloc(self, alloc=None, check=True, timeout="5m"):
        return self.world.holdfast("alloc", "stop", alloc or self.alloc, "--timeout", timeout, check=check)

    def client_status(self, alloc=None):
        return self.world.json("alloc", "status", alloc or self.alloc)["allocation"]["client_status"]

    def assert_mounted_once(self, alloc=None, node=None):
        """Exactly one stage mount and one publish mount, with the flags that every volume has."""
        node, alloc = node or self.node, alloc or self.alloc
        targets = sorted(line.split(" ")[4] for line in node.mounts())
        self.assertEqual(len(targets), 2, targets)
        self.assertEqual(targets[0], node.published(alloc))
        self.assertTrue(targets[1].startswith(f"{node.dir}/stage/"), targets)
        for line in node.mounts():
            options = line.split(" ")[5].split(",")
            self.assertIn("nosuid", options)
            self.assertIn("nodev", options)
            self.assertEqual(line.split(" ")[6], "-", f"not private: {line}")

    def assert_nothing_mounted(self, node=None):
        self.assertEqual((node or self.node).mounts(), [])

    def assert_trails_hold(self):
        for node in self.world.nodes:
            self.world.holdfast("audit", "verify", node.trail)


@contextlib.contextmanager
def killed_at(pid, syscall, when):
    """Within the block, process pid is killed as it enters the when-th call of syscall (counted per thread)."""
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(pid), "-e", f"trace={syscall}", "-e",
         f"inject={syscall}:signal=SIGKILL:when={when}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )
    try:
        wait_for(f"strace to attach to {pid}", lambda: proc_status(pid)["TracerPid"] != "0")
        yield lambda: not os.path.exists(f"/proc/{pid}") or proc_status_state(pid) in ("Z", "X")
    finally:
        tracer.send_signal(signal.SIGTERM)
        tracer.wait(timeout=10)
        tracer.stderr.close()


def proc_status_state(pid):
    try:
        return proc_status(pid)["State"][0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


__all__ = ["PREFIX", "WorldTest", "killed_at", "proc_status", "wait_for"]
