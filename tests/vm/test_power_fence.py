# SPDX-License-Identifier: Apache-2.0
"""A node that stops in the middle of its writes loses its volume by its BMC.

node-1 is a guest: a QEMU that ipmi_sim starts and stops, with an agent and a program that writes numbered blocks to the
volume. node-2 is an agent on this machine, which sees the same disk as a loop device. Server and holdfast-fencer run here
too, and the fence agent is Debian's fence_ipmilan. HOLDFAST_FENCE_ROUNDS is the number of fences (2).

Run it by `vm.py run power-fence`: it needs a network of its own, so that no other run has its ports.
"""

import mmap
import os
import pwd
import re
import select
import shlex
import shutil
import signal
import socket
import struct
import sys
import tarfile
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(CHECKOUT, "tests", "integration"))
os.environ.setdefault("HOLDFAST_WORLD_BUILD", "dev")

import image  # noqa: E402
import machine  # noqa: E402
import payload  # noqa: E402
from world import CLUSTER, GROUP, PREFIX, Daemon, World, as_server, run, wait_for  # noqa: E402

ROUNDS = int(os.environ.get("HOLDFAST_FENCE_ROUNDS", "2"))
WRITER = os.path.join(CHECKOUT, "build", os.environ["HOLDFAST_WORLD_BUILD"], "tests/vm/shared_disk_writer")
VM_SECONDS = 600  # for what hangs: a boot takes 5 on a quiet machine
SHARED = "shared"  # serial number of the disk in the guest
KIND = machine.Kind(devices=("-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net"))
HOST_IN_GUEST = "10.0.2.2"  # QEMU's name for the loopback of this machine
USER, PASSWORD = "admin", "bmc-of-node-1"
# struct block of shared_disk_writer.c: magic, writer, index, sequence
BLOCK, BLOCK_SIZE, BLOCKS, MAGIC = struct.Struct("=8sQQQ"), 4096, 64, b"HFSHARED"
NODE_1, NODE_2 = 1, 2  # as writers
ODD = range(1, BLOCKS, 2)

BMC = """name "{name}"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
serial 15 127.0.0.1 {serial} codec VM
startcmd "{command}"
startnow false
user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""
BMC_START = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02
mc_enable 0x20
"""

START = """#!/bin/sh
set -e
exec >/dev/ttyS0 2>&1
modprobe virtio_net
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
mkdir -p /dev/disk/by-id {prefix}/trail
for disk in /sys/block/vd*; do
	[ "$(cat "$disk/serial")" != {shared} ] || ln -sfn "../../${{disk##*/}}" /dev/disk/by-id/{by_id}
done
[ -e {trail} ] || install -m 0600 /dev/null {trail}
{prefix}/bin/holdfast policy apply
setpriv --reuid={uid} --regid={gid} --clear-groups --inh-caps=-all {prefix}/sbin/holdfast-agent --config {config} &
until file=$(echo {published}/*/0/blocks) && [ -e "$file" ]; do
	sleep 0.1
done
/payload/writer "$file" {writer}
"""


class Process:
    """A process of another parent, with what machine.Machine needs of it."""

    def __init__(self, pid):
        self.fd = os.pidfd_open(pid)

    def poll(self):
        return "its power switch" if select.select([self.fd], [], [], 0)[0] else None

    def wait(self):
        select.select([self.fd], [], [])
        return self.poll()


class Bmc:
    """A simulated BMC, whose power switch starts and ends a command."""

    def __init__(self, world, name, port, command):
        self.port, folder = port, f"{PREFIX}/var/{name}"
        os.makedirs(folder, 0o700)
        files = {"lan": BMC.format(name=name, port=port, serial=port + 1000, command=command, user=USER, password=PASSWORD),
                 "start": BMC_START}  # fmt: skip
        for file, text in files.items():
            with open(f"{folder}/{file}", "w", encoding="ascii") as f:
                f.write(text)
        self.daemon = Daemon(world, name, ["ipmi_sim", "-n", "-c", f"{folder}/lan", "-f", f"{folder}/start", "-s", folder])
        self.daemon.start()
        wait_for(f"{name} to answer", lambda: self.power("status", check=False).returncode == 0)

    def power(self, what, check=True):
        return run("ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", str(self.port), "-U", USER, "-P", PASSWORD,
                   "chassis", "power", what, check=check)  # fmt: skip

    def signal(self, number):
        self.daemon.process.send_signal(number)

    def is_on(self):
        return "is on" in self.power("status").stdout


class Guest(machine.Machine):
    """node-1: a machine that a BMC starts and ends, again and again with the same disks."""

    def __init__(self, world, source, folder, files):
        self.folder, self.console = folder, f"{folder}/console"
        disk, start = f"{folder}/disk", f"{folder}/start"
        machine.overlay(disk, f"{source}/disk", "raw")
        drives = [(disk, "format=qcow2", "root"), (files, "format=raw,readonly=on", "payload"),
                  (f"{PREFIX}/disk.img", "format=raw", SHARED)]  # fmt: skip
        argv = self.argv(KIND, source, drives, *(f"path={folder}/{name},server=on,wait=off" for name in ("port", "control")))
        with open(start, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\nexec setpriv --pdeathsig=KILL {shlex.join(argv)}\n")
            os.fchmod(f.fileno(), 0o755)
        self.bmc = Bmc(world, "bmc", 9001, start)

    def switch_on(self):
        self.unread, self.off_at, self.blocks_at_off = b"", None, None
        self.bmc.power("on")
        self.control, self.port = (self.connected(f"{self.folder}/{name}") for name in ("control", "port"))
        pid = struct.unpack("3i", self.control.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        self.process = Process(pid)
        self.begin_control()
        self.wait_for("ready", VM_SECONDS)
        self.port.sendall(f"go {time.time():.3f}\n".encode())
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    @staticmethod
    def connected(path):
        def connect():
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(path)
                return sock
            except OSError:
                sock.close()
                return None

        return wait_for(f"QEMU to listen at {path}", connect)

    def watch(self):
        self.process.wait()
        self.off_at, self.blocks_at_off = time.time(), Disk.read()

    def is_off(self):
        return self.process.poll() is not None


class Disk:
    """The shared disk, below the file system on it: read() returns the blocks of one file, which stays where it is."""

    offsets = []

    @classmethod
    def make(cls, loop, folder):
        """Makes a file system with a file of blocks of no writer. The disk must not be mounted."""
        run("mkfs.ext4", "-q", "-F", "-E", "root_owner=0:0", loop)
        run("mount", loop, folder)
        with open(f"{folder}/blocks", "wb") as f:
            for index in range(BLOCKS):
                f.write(cls.block(0, index, 0))
        run("umount", folder)
        with open(f"{PREFIX}/disk.img", "rb") as f:
            image_of_disk = f.read()
        cls.offsets = [image_of_disk.find(cls.block(0, index, 0)) for index in range(BLOCKS)]
        assert min(cls.offsets) > 0

    @staticmethod
    def block(writer, index, sequence):
        return BLOCK.pack(MAGIC, writer, index, sequence).ljust(BLOCK_SIZE, b"w")

    @classmethod
    def read(cls):
        with open(f"{PREFIX}/disk.img", "rb") as f:
            return [os.pread(f.fileno(), BLOCK_SIZE, offset) for offset in cls.offsets]

    @staticmethod
    def sequence(blocks, writer):
        """Returns the last sequence number of a writer, 0 if it has written nothing."""
        found = (BLOCK.unpack_from(block) for block in blocks)
        return max((sequence for magic, by, _, sequence in found if by == writer), default=0)

    @classmethod
    def write(cls, path, indexes, sequence):
        """Writes blocks with O_DIRECT, as node-2's workload."""
        page = mmap.mmap(-1, BLOCK_SIZE)
        fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
        for index in indexes:
            page[:] = cls.block(NODE_2, index, sequence)
            os.pwrite(fd, page, index * BLOCK_SIZE)
        os.fsync(fd)
        os.close(fd)


class TestPowerFence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World(nodes=2, server_settings='heartbeat = "1s"\nfence_max_per_minute = 60')
        cls.addClassCleanup(cls.world.close)
        cls.world.open()
        cls.node, cls.other = cls.world.nodes
        cls.other.start()
        cls.other.wait_connected()
        spec = cls.world.volume_spec()
        with open(spec, "a", encoding="ascii") as f:
            f.write('on_node_loss {\n  after = "5s"\n  do = "power_fence"\n}\n')
        cls.world.holdfast("volume", "register", spec)
        folder = tempfile.TemporaryDirectory(prefix="holdfast-vm-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        source = image.ensure()
        cls.pack(f"{cls.folder}/payload")
        cls.guest = Guest(cls.world, source, cls.folder, f"{cls.folder}/payload")
        cls.addClassCleanup(cls.guest.bmc.daemon.kill)
        cls.prepare_fencer()
        cls.n_allocs = 0

    @classmethod
    def pack(cls, path):
        """Packs programs, settings and key of node-1; its trail and its journal stay on its own disk."""
        node, tls = cls.node, f"{PREFIX}/var/server/tls"
        start = f"{cls.folder}/start-in-guest"
        with open(start, "w", encoding="ascii") as f:
            f.write(START.format(prefix=PREFIX, shared=SHARED, by_id=cls.world.by_id, trail=node.trail, uid=node.uid,
                                 gid=pwd.getpwnam(GROUP).pw_gid, config=node.config, published=f"{node.dir}/publish",
                                 writer=NODE_1))  # fmt: skip
            os.fchmod(f.fileno(), 0o755)
        cls.rewrite(node.config, f'host = "{cls.world.address()[0]}"', f'host = "{HOST_IN_GUEST}"')
        policy = f"{cls.folder}/policy"
        shutil.copy(f"{PREFIX}/etc/holdfast/mounthelper.policy", policy)
        cls.rewrite(policy, "container = yes", "container = no")
        with tarfile.open(path, "w") as tar:
            for name in (f"{PREFIX}/bin", f"{PREFIX}/sbin", f"{PREFIX}/libexec", node.config, node.dir, node.data,
                         f"{tls}/ca.pem", f"{tls}/node-{node.id}.pem"):  # fmt: skip
                tar.add(name)
            tar.add(policy, f"{PREFIX}/etc/holdfast/mounthelper.policy")
            tar.add(WRITER, "payload/writer")
            tar.add(start, "payload/start")
        payload.fill_up(path, "node-1")

    @staticmethod
    def rewrite(path, old, new):
        with open(path, encoding="ascii") as f:
            text = f.read()
        with open(path, "w", encoding="ascii") as f:
            f.write(text.replace(old, new))

    @classmethod
    def prepare_fencer(cls):
        user, tls = pwd.getpwnam(GROUP), f"{PREFIX}/var/server/tls"
        for folder in ("fencer", "credentials"):
            os.makedirs(f"{PREFIX}/var/{folder}", 0o700)
            os.chown(f"{PREFIX}/var/{folder}", user.pw_uid, user.pw_gid)
        with open(f"{PREFIX}/var/credentials/bmc.password", "w", encoding="ascii") as f:
            f.write(PASSWORD + "\n")
        os.chmod(f.name, 0o400)
        os.chown(f.name, user.pw_uid, 0)
        run(f"{PREFIX}/bin/holdfast", "operator", "cert", "fencer", "f1", "--out", tls)
        os.chown(f"{tls}/fencer-f1.key", user.pw_uid, user.pw_gid)
        cls.fencer = Daemon(cls.world, "fencer", as_server(
            "env", f"CREDENTIALS_DIRECTORY={PREFIX}/var/credentials", f"{PREFIX}/sbin/holdfast-fencer", "--config",
            f"{PREFIX}/etc/holdfast/fencer.hcl"))  # fmt: skip
        cls.addClassCleanup(cls.fencer.kill)

    def start_fencer(self, bmc):
        """Starts the fencer with this BMC as node-1's switch, and waits until it has looked at it."""
        host, port = self.world.address()
        tls = f"{PREFIX}/var/server/tls"
        self.fencer.kill()
        with open(f"{PREFIX}/etc/holdfast/fencer.hcl", "w", encoding="ascii") as f:
            f.write(f"""name        = "f1"
cluster     = "{CLUSTER}"
servers     = ["{host}:{port}"]
ticket_keys = ["{self.world.ticket_key()}"]
state_dir   = "{PREFIX}/var/fencer"
tls {{
  ca   = "{tls}/ca.pem"
  cert = "{tls}/fencer-f1.pem"
  key  = "{tls}/fencer-f1.key"
}}
node "{self.node.id}" {{
  agent   = "fence_ipmilan"
  timeout = "60s"
  options {{
    ip       = "127.0.0.1"
    ipport   = "{bmc.port}"
    username = "{USER}"
    lanplus  = "1"
    cipher   = "3"
  }}
  secrets {{ password = "bmc.password" }}
}}
""")
        started = time.time()
        self.fencer.start()

        def is_checked():
            nodes = [node for fencer in self.world.json("node", "fence").get("fencers", []) for node in fencer["nodes"]]
            return any(int(node.get("checked_ms", 0)) > started * 1000 and not node.get("error") for node in nodes)

        wait_for("the fencer to have looked at its switch", is_checked)

    def setUp(self):
        os.makedirs(f"{self.folder}/mnt", exist_ok=True)
        Disk.make(self.world.loop, f"{self.folder}/mnt")

    def run_alloc(self, node, *args):
        type(self).n_allocs += 1
        alloc = f"0192f3a0-{self.n_allocs:04d}-7000-837a-8eec1ce19687"
        self.world.holdfast("alloc", "run", self.world.alloc_spec(), "--node", node.id, "--id", alloc, *args)
        return alloc

    def stop_alloc(self, alloc):
        self.world.holdfast("alloc", "stop", alloc, "--no-wait")

    def is_connected(self):
        nodes = self.world.json("node", "status").get("nodes", [])
        return any(node["id"] == self.node.id and node["status"] == "READY" for node in nodes)

    def why(self):
        return self.world.holdfast("volume", "status", "db", "--why").stdout

    def fence(self):
        """Returns the last fence of node-1, {} if there is none."""
        return next((one for one in self.world.json("node", "fence").get("fences", []) if one["node_id"] == self.node.id), {})

    def start_work(self):
        """Starts a writer in the guest, and an allocation on node-2 that waits for its volume. Returns their ids."""
        self.guest.switch_on()
        wait_for("node-1 to connect", self.is_connected, VM_SECONDS)
        first = self.run_alloc(self.node)
        wait_for("node-1 to write", lambda: Disk.sequence(Disk.read(), NODE_1) > BLOCKS, VM_SECONDS)
        return first, self.run_alloc(self.other, "--wait", "30m", "--no-wait")

    def wait_published(self, alloc):
        """Waits until node-2 has the volume. Returns the path of the file in it."""
        path = f"{self.other.published(alloc)}/blocks"
        wait_for("node-2 to have the volume", lambda: os.path.exists(path), VM_SECONDS)
        return path

    def fence_once(self, number, resumes):
        earlier = self.fence().get("create_time_ms")
        first, second = self.start_work()
        stopped = time.time()
        self.guest.ask("stop")
        at_stop = Disk.sequence(Disk.read(), NODE_1)
        if resumes:
            self.guest.bmc.signal(signal.SIGSTOP)  # so that the guest is not off yet
            wait_for("the fence to begin", lambda: self.fence().get("create_time_ms") != earlier, VM_SECONDS)
            self.guest.ask("cont")
            wait_for("node-1 to write again", lambda: Disk.sequence(Disk.read(), NODE_1) > at_stop, VM_SECONDS)
            self.guest.bmc.signal(signal.SIGCONT)
        path = self.wait_published(second)
        claimed, granted = time.time(), Disk.read()
        self.guest.watcher.join(VM_SECONDS)
        claim = next(claim for claim in self.world.claims() if claim["allocation_id"] == second)
        self.assertLess(self.guest.off_at * 1000, int(claim["create_time_ms"]))
        self.assertEqual(self.guest.blocks_at_off, granted)
        at_off = Disk.sequence(granted, NODE_1)
        self.assertGreaterEqual(at_off, at_stop)
        Disk.write(path, ODD, number)
        blocks = Disk.read()
        self.assertEqual(blocks[::2], granted[::2])
        self.assertEqual(blocks[1::2], [Disk.block(NODE_2, index, number) for index in ODD])
        print(f"round {number}: {'resumed, ' if resumes else ''}off after {self.guest.off_at - stopped:.1f} s, "
              f"volume on node-2 after {claimed - stopped:.1f} s; "
              f"blocks written before the stop {at_stop}, after it {at_off - at_stop}", flush=True)  # fmt: skip
        Disk.write(path, range(BLOCKS), number)  # the next boot of node-1 counts from 1 again
        self.stop_alloc(first)
        self.stop_alloc(second)
        wait_for("the volume to be free", lambda: not self.world.live_claims(), VM_SECONDS)

    def test_a_late_write_is_seen_if_the_switch_is_another_machines(self):
        other = Bmc(self.world, "bmc-of-another", 9002, "/bin/sleep 100000")
        self.addCleanup(other.daemon.kill)
        other.power("on")
        self.start_fencer(other)
        first, second = self.start_work()
        self.guest.ask("stop")
        path = self.wait_published(second)
        self.assertFalse(other.is_on())
        self.assertFalse(self.guest.is_off())
        Disk.write(path, ODD, 1)
        before = Disk.read()
        self.guest.ask("cont")
        wait_for("a late write", lambda: Disk.read() != before, VM_SECONDS)
        wait_for("the server to notice", lambda: "volume db is held twice" in self.why(), VM_SECONDS)
        self.guest.bmc.power("off")
        wait_for("node-1 to be off", self.guest.is_off, VM_SECONDS)
        self.stop_alloc(first)
        self.stop_alloc(second)
        wait_for("node-2 to have released the volume", lambda: not self.other.mounts(), VM_SECONDS)

    def test_a_stopped_node_is_off_before_its_volume_is_elsewhere_and_writes_nothing_later(self):
        self.start_fencer(self.guest.bmc)
        for number in range(1, ROUNDS + 1):
            self.fence_once(number, resumes=number % 2 == 0)


class TestPage(unittest.TestCase):
    """docs/node-loss.md"""

    def test_the_agents_of_the_page_have_the_options_that_it_names(self):
        with open(os.path.join(CHECKOUT, "docs/node-loss.md"), encoding="utf-8") as f:
            rows = [line.split("|") for line in f if re.match(r"\|[^|]+\| fence\\_", line)]
        self.assertGreater(len(rows), 3)
        for row in rows:
            agent = row[2].strip().replace("\\", "")
            metadata = run(agent, "-o", "metadata").stdout
            options = re.findall(r"`(\w+)(?: = \"\w+\")?`", row[3] + row[4])
            self.assertTrue(options, agent)
            self.assertEqual([one for one in options if f'<parameter name="{one}"' not in metadata], [], agent)


class Result(unittest.TextTestResult):
    """Prints passed tests in the form that payload.Tally reads, and the logs of failed ones."""

    def addError(self, test, err):
        super().addError(test, err)
        self.show(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.show(test)

    @staticmethod
    def show(test):
        if not hasattr(test, "fencer"):
            return  # no world, or not all of it
        for daemon in (test.world.server, test.fencer, test.other.daemon):
            print(f"--- {daemon.name}\n{daemon.said()[-3000:]}")
        print(f"--- console of node-1\n{test.guest.console_end()}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        print(f"[       OK ] {test.id().rpartition('.')[2]}", flush=True)


def main():
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=0, resultclass=Result, failfast=True)
    result = runner.run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    for test, _ in result.failures + result.errors:
        print(f"[  FAILED  ] {test.id().rpartition('.')[2]}", flush=True)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
