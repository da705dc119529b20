# SPDX-License-Identifier: Apache-2.0
"""The test plugins, as tests use them: started, ordered about, asked what arrived."""

import functools
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import disk  # noqa: E402
from provider import Provider  # noqa: E402
from state import State  # noqa: E402

PROTO = HERE.parent.parent / "proto"
PYTHON = "/usr/bin/python3"
GRPCIO, GRPC_JS = "grpcio", "grpc-js"
STACKS = (GRPCIO, GRPC_JS)
IN_USE = os.environ.get("HOLDFAST_PLUGIN_STACKS", " ".join(STACKS)).split()  # grpcio alone needs no npm
START_SECONDS = 20
UMASK = 0o007  # bind(2) takes the umask from a socket's mode in spite of a default ACL, and with it the ACL's mask
TOOLS = HERE.parent.parent / "build/plugin-tools"


@functools.cache
def prepare():
    """What the stacks need beside this folder: messages by protoc, packages by npm. Returns the folders of both. Once, as
    whoever is just starting reads them."""
    messages, packages = TOOLS / "messages", TOOLS / "npm"
    messages.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as made:  # others may be reading these messages
        names = ("csi/v1/csi", "csi_addons/fence", "csi_addons/identity")
        subprocess.run(["protoc", f"--python_out={made}", f"-I{PROTO}", *(f"{PROTO}/{name}.proto" for name in names)],
                       check=True)
        for name in names:
            (messages / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(f"{made}/{name}_pb2.py", messages / f"{name}_pb2.py")
    if GRPC_JS not in IN_USE:
        return messages, None
    packages.mkdir(parents=True, exist_ok=True)
    lock = packages / "package-lock.json"
    if not ((packages / "node_modules").exists() and lock.exists()
            and lock.read_bytes() == (HERE / "package-lock.json").read_bytes()):
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(HERE / name, packages / name)
        subprocess.run(["npm", "ci", "--loglevel=error", "--no-audit", "--no-fund"], cwd=packages, check=True,
                       stdout=subprocess.DEVNULL)
    return messages, packages / "node_modules"


class Orders:
    """What the plugins of one provider shall do; they read it at each call."""

    def __init__(self, folder):
        self.path, self.serial = os.path.join(folder, "orders.json"), 0
        self.wishes = {"quirks": [], "settings": {}, "orders": []}
        self.lock = threading.Lock()

    def write(self):
        with open(self.path + ".part", "w", encoding="utf-8") as f:
            json.dump(self.wishes, f, indent=1)
        os.rename(self.path + ".part", self.path)

    def order(self, method, do, times=1, **more):
        """times None: until there are other orders."""
        self.serial += 1
        order = {"id": f"{os.getpid()}-{time.monotonic_ns()}-{self.serial}", "method": method, "do": do, **more}
        if times is not None:
            order["times"] = times
        with self.lock:
            self.wishes["orders"].append(order)
            self.write()
        return order

    def take_back(self, order):
        with self.lock:
            self.wishes["orders"].remove(order)
            self.write()

    def settings(self, **more):
        self.wishes["settings"].update(more)
        self.write()

    def quirks(self, *names):
        self.wishes["quirks"] = list(names)
        self.write()

    def clear(self):
        self.wishes["orders"] = []
        self.write()


SLOW_MOUNT = """#!/bin/sh
# Its plugin may be dead when it mounts. The arguments stay to be seen meanwhile.
while [ "$(cat '{folder}/mount-seconds')" = hold ]; do sleep 0.05; done
sleep "$(cat '{folder}/mount-seconds')"
exec {mount} "$@"
"""


class Storage:
    """The storage behind some plugins: its state folder, its orders, and what was called."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.state, self.orders = folder, State(folder), Orders(folder)

    def add_volume(self, volume_id, kind="ext4", size=16 << 20):
        """One that is there already, to be registered."""
        with self.state.locked() as data:
            Provider(self.state, data, "", self.state.wishes()).add_volume(volume_id, volume_id, kind, size)

    def slow_mounts(self, seconds):
        """From the next start of a plugin on its mounts take so long, or as a later call says; "hold": until a later call."""
        with open(self.state.path("mount-seconds"), "w", encoding="ascii") as f:
            f.write(str(seconds))
        os.makedirs(self.state.path("bin"), exist_ok=True)
        with open(self.state.path("bin", "mount"), "w", encoding="utf-8",
                  opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
            f.write(SLOW_MOUNT.format(folder=self.folder, mount=shutil.which("mount")))

    def reboot(self, node):
        """The machine of the provider's node starts again: nothing is mounted there, and nothing was answered there."""
        with self.state.locked() as data:
            data["nodes"].pop(node, None)
            for kind in ("staged", "published"):
                data["told"][kind].pop(node, None)

    def lift_all(self):
        """As by an administrator of the storage."""
        with self.state.locked() as data:
            data["fenced"] = []

    def fenced(self):
        return self.state.load().get("fenced", [])

    def forget_nodes(self):
        """The node halves lose what they knew."""
        with self.state.locked() as data:
            data["nodes"] = {}

    def devices(self, volume_id):
        """Loop devices of a volume."""
        return disk.loops_of(Provider(self.state, {}, "", self.state.wishes()).image(volume_id))

    def volumes(self):
        return self.state.load()["volumes"]

    def calls(self, method=None):
        """Calls in their order, each with what was answered, if it was."""
        found, by_id = [], {}
        for line in map(json.loads, self.state.lines("calls.jsonl")):
            if "answer" in line:
                by_id[line["answer"]].update(code=line["code"], text=line["text"], wire=line["wire"])
            else:
                by_id[line["id"]] = line
                found.append(line)
        return [call for call in found if method in (None, call["method"])]

    def methods(self, volume=None):
        """Names of the calls in their order, without those that only ask how things are."""
        quiet = ("Probe", "GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities",
                 "NodeGetCapabilities", "NodeGetInfo")
        return [call["method"] for call in self.calls() if call["method"] not in quiet
                and volume in (None, call["request"].get("volume_id"))]

    def violations(self):
        return [json.loads(line) for line in self.state.lines("violations")]

    def close(self):
        """Take away what the plugins left mounted and attached."""
        data = self.state.load()
        for volumes in data["nodes"].values():
            for known in volumes.values():
                for path in [*known["targets"], known["staging"]]:
                    if path and disk.is_mounted(path):
                        disk.run("umount", "--lazy", path)
        for name in os.listdir(self.state.path("data")):
            if name.endswith(".img"):
                for device in disk.loops_of(self.state.path("data", name)):
                    disk.detach(device)


class Plugin:
    """One process. Several of one provider and several ids are different machines, as far as it knows."""

    are_over = False  # the run was interrupted

    def __init__(self, provider, stack, socket, node, tools, kind="monolith", log=None,
                 umask=UMASK):
        self.provider, self.socket, self.node, self.kind = provider, socket, node, kind
        self.stack = stack if stack in IN_USE else IN_USE[0]
        self.messages, self.modules = tools
        self.umask = umask
        self.log = log or os.path.join(provider.folder, f"{stack}-{node}.log")
        self.process = None

    def argv(self):
        if self.stack == GRPCIO:
            return [PYTHON, "-B", str(HERE / "grpcio_plugin.py"), "--state", self.provider.folder, "--node", self.node,
                    "--kind", self.kind, "--messages", str(self.messages)]
        return ["node", str(HERE / "grpc_js_plugin.js"), self.provider.folder, self.node, self.kind, str(PROTO)]

    def start(self):
        """Start it, and wait until it listens."""
        if Plugin.are_over:
            raise RuntimeError(f"plugin {self.stack} for {self.node} is not started any more")
        environment = {"PATH": f"{self.provider.folder}/bin:{os.environ['PATH']}", "CSI_ENDPOINT": f"unix://{self.socket}",
                       "HOLDFAST_NODE_MODULES": str(self.modules)}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.argv(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=environment, start_new_session=True, umask=self.umask)
        if Plugin.are_over:
            self.process.kill()  # whoever ended all of them may have come between
        if self.process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"plugin {self.stack} for {self.node} did not start; see {self.log}")
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, sig=signal.SIGKILL):
        """End it and wait until it is gone."""
        if self.alive():
            self.process.send_signal(sig)
        if self.process:
            self.process.wait(timeout=START_SECONDS)
            self.process.stdout.close()
            self.process = None

    def wait_dead(self, seconds=START_SECONDS):
        self.process.wait(timeout=seconds)

    def restart(self):
        self.kill()
        return self.start()

    def socket_mode(self):
        return stat.S_IMODE(os.stat(self.socket).st_mode)


if __name__ == "__main__":
    prepare()
