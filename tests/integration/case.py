# SPDX-License-Identifier: Apache-2.0
"""What every integration test stands on: one world per class, one fresh allocation per test."""

import contextlib
import os
import signal
import subprocess
import unittest

from world import ID_MARK, PREFIX, Failure, World, proc_status, wait_for

import disk


class WorldTest(unittest.TestCase):
    """A class of tests with a world of its own; each test leaves it without allocations and claims."""

    NODES = 2
    SERVER_SETTINGS = ""

    @classmethod
    def setUpClass(cls):
        cls.world = World(nodes=cls.NODES, server_settings=cls.SERVER_SETTINGS)
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
        return f"0192f3a0-{n:04d}-7{self.serial:03d}-{ID_MARK}"

    def run_alloc(self, alloc=None, node=None, check=True):
        node = node or self.node
        return self.world.holdfast(
            "alloc", "run", self.world.alloc_spec(), "--node", node.id, "--id", alloc or self.alloc, check=check
        )

    def run_on(self, volume, source, request=""):
        """Register a volume of one claim and run an allocation on it; the line of its publish in the mount table."""
        self.world.holdfast(
            "volume", "register",
            self.world.spec(f"{volume}.hcl", f'id = "{volume}"\ntype = "native"\n{source}\n'
                            'capability {\n  access_mode = "single-node-single-writer"\n'
                            '  attachment_mode = "file-system"\n}\n'))
        spec = self.world.spec(
            "one.hcl", f'name = "one"\nvolume "v" {{\n  source = "{volume}"\n'
            f'  access_mode = "single-node-single-writer"\n{request}}}\n')
        self.world.holdfast("alloc", "run", spec, "--node", self.node.id, "--id", self.alloc)
        path = self.node.published(self.alloc)
        return next(line for line in self.node.mounts() if line.split(" ")[4] == path)

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


def csi_volume(volume, plugin_id, modes=("single-node-writer",), attachment="file-system", size="16MiB", kind="ext4",
               more=""):
    """A specification of a CSI volume, as an operator writes it."""
    capabilities = "".join(
        f'capability {{\n  access_mode = "{mode}"\n  attachment_mode = "{attachment}"\n}}\n' for mode in modes)
    return f"""id        = "{volume}"
type      = "csi"
plugin_id = "{plugin_id}"
capacity_min = "{size}"
{capabilities}parameters {{ "kind" = "{kind}" }}
{more}
"""


def csi_alloc(name, *volumes):
    """A specification of an allocation; each volume is its id and access mode, and keys that differ from usual ones."""
    blocks = "".join(
        f'volume "v{slot}" {{\n  source = "{volume}"\n  access_mode = "{mode}"\n'
        + "".join(f"  {key} = {value}\n" for key, value in more.items()) + "}\n"
        for slot, (volume, mode, more) in enumerate((*volume, {})[:3] for volume in volumes))
    return f'name = "{name}"\ndriver = "none"\n{blocks}'


class CsiTest(unittest.TestCase):
    """A class of tests with a world of its own, in which PLUGINS run as monoliths on every node: an id and its stack
    each."""

    NODES = 2
    PLUGINS = {}
    KINDS = {}  # plugin id: the kind on each node in turn, None for no plugin there
    AGENT_SETTINGS = 'plugin_probe_interval = "500ms"\nplugin_wait = "5s"\n'
    SERVER_SETTINGS = 'controller_timeout = "5s"\n'

    @classmethod
    def setUpClass(cls):
        cls.world = World(nodes=cls.NODES, plugin_ids=tuple(cls.PLUGINS), agent_settings=cls.AGENT_SETTINGS,
                          server_settings=cls.SERVER_SETTINGS, ops_per_second=4000, burst=10000)
        cls.addClassCleanup(cls.world.close)
        cls.world.open()
        cls.plugins = {}  # id and node
        for plugin_id, stack in cls.PLUGINS.items():
            cls.before_plugin(plugin_id)
            for node, kind in zip(cls.world.nodes, cls.kinds(plugin_id)):
                if kind:
                    cls.plugins[plugin_id, node.id] = cls.world.start_plugin(plugin_id, stack, node, kind)
        cls.world.start_agents()
        for plugin_id in cls.PLUGINS:
            cls.wait_plugin(plugin_id)
        cls.serial = 0

    @classmethod
    def kinds(cls, plugin_id):
        return cls.KINDS.get(plugin_id, ["monolith"] * cls.NODES)

    @classmethod
    def before_plugin(cls, plugin_id):
        """What its provider is to be told before the first of them starts."""

    @classmethod
    def wait_plugin(cls, plugin_id):
        kinds = cls.kinds(plugin_id)
        if any(kinds):
            cls.world.wait_plugin(plugin_id, *(sum(kind in ("monolith", half) for kind in kinds)
                                               for half in ("controller", "node")))

    def setUp(self):
        type(self).serial += 1
        self.node, self.other = (*self.world.nodes, None)[:2]

    def holdfast(self, *args, check=True):
        return self.world.holdfast(*args, check=check)

    def alloc_id(self, n=0):
        """An id that no other test of the class uses."""
        return f"0192f3a0-{n:04d}-7{self.serial:03d}-{ID_MARK}"

    def create(self, volume, plugin_id, check=True, **more):
        spec = self.world.spec(f"{volume}.hcl", csi_volume(volume, plugin_id, **more))
        return self.holdfast("volume", "create", spec, check=check)

    def register(self, volume, plugin_id, check=True, **more):
        spec = self.world.spec(f"{volume}.hcl", csi_volume(volume, plugin_id, **more))
        return self.holdfast("volume", "register", spec, check=check)

    def run_alloc(self, alloc, *volumes, node=None, check=True, wait=True):
        spec = self.world.spec(f"{alloc}.hcl", csi_alloc(f"a-{alloc[9:13]}", *volumes))
        return self.holdfast("alloc", "run", spec, "--node", (node or self.node).id, "--id", alloc,
                             *([] if wait else ["--no-wait"]), check=check)

    def stop_alloc(self, alloc, check=True, timeout="15s"):
        return self.holdfast("alloc", "stop", alloc, "--timeout", timeout, check=check)

    def why(self, volume):
        return self.holdfast("volume", "status", volume, "--why").stdout

    def external(self, volume):
        """The provider's id."""
        return self.world.json("volume", "status", volume)["volume"]["external_id"]

    def wait_free(self, volume, seconds=30):
        wait_for(f"volume {volume} to be free", lambda: not self.world.live_claims(volume), seconds)

    def delete(self, volume, check=True):
        return self.holdfast("volume", "delete", volume, "--yes", check=check)

    def write(self, alloc, text, slot=0, node=None):
        with open(f"{(node or self.node).published(alloc, slot)}/file", "w", encoding="ascii") as f:
            f.write(text)

    def read(self, alloc, slot=0, node=None):
        with open(f"{(node or self.node).published(alloc, slot)}/file", encoding="ascii") as f:
            return f.read()

    def published_mount(self, alloc, slot=0, node=None):
        """Options and optional fields of the one mount that an allocation sees."""
        path = (node or self.node).published(alloc, slot)
        lines = [line for line in (node or self.node).mounts() if line.split(" ")[4] == path]
        self.assertEqual(len(lines), 1, lines)
        return lines[0].split(" ")[5].split(","), lines[0].split(" ")[6]

    def assert_nothing_mounted(self):
        for node in self.world.nodes:
            self.assertEqual(node.mounts(), [])
            self.assertEqual(node.staged(), [])
            self.assertLessEqual(set(os.listdir(f"{node.dir}/publish")), {".published"})

    def assert_no_breach(self):
        """The agents and the server kept the rules of CSI."""
        for plugin_id in self.PLUGINS:
            self.assertEqual(self.world.storage(plugin_id).violations(), [])

    def assert_trails_hold(self):
        for node in self.world.nodes:
            self.holdfast("audit", "verify", node.trail)


def names_sqlite(test):
    """A decorator for a test that is about that store alone."""
    test.names_sqlite = True
    return test


@contextlib.contextmanager
def killed_at(pid, syscall, when):
    """Within the block, process pid is killed as it enters the when-th call of syscall (counted per thread)."""
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(pid), "-e", f"trace={syscall}", "-e",
         f"inject={syscall}:signal=SIGKILL:when={when}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )

    def is_dead():
        return not os.path.exists(f"/proc/{pid}") or proc_status_state(pid) in ("Z", "X")

    try:
        wait_for(f"strace to attach to {pid}", lambda: is_dead() or proc_status(pid)["TracerPid"] != "0")
        yield is_dead
    finally:
        tracer.send_signal(signal.SIGTERM)
        tracer.wait(timeout=10)
        tracer.stderr.close()


def proc_status_state(pid):
    try:
        return proc_status(pid)["State"][0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


__all__ = ["PREFIX", "CsiTest", "Failure", "WorldTest", "csi_volume", "disk", "killed_at", "names_sqlite", "proc_status", "wait_for"]
