# SPDX-License-Identifier: Apache-2.0
"""A small machine room on this machine: a claim server, agents with their mount helpers, a real disk, and the CSI test
plugins of tests/plugins where a test wants some.

Everything lives below /opt/holdfast-dev, but for the accounts and one link in /dev/disk/by-id; close() removes all of
it. The demo, the integration tests and the benchmarks all stand on this.
"""

import fcntl
import glob
import grp
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "plugins"))

import plugin  # noqa: E402

PREFIX = "/opt/holdfast-dev"
# build/world is optimised. The default lanes use build/dev, which has the same prefix.
BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build",
                     os.environ.get("HOLDFAST_WORLD_BUILD", "world"))  # fmt: skip
GROUP = "holdfast-dev"
HELPER_USER = "holdfast-mount"
CLUSTER = "demo"
ID_MARK = "837a-8eec1ce19687"  # in the ids of allocations of namespace default, see lib/model/alloc_id.h
ETCD = f"{PREFIX}/var/etcd"
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's constant


class Failure(Exception):
    """A step that did not do what it should; the text says what and where to look."""


def run(*args, check=True, **kwargs):
    """Run a program and return what it printed."""
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(args)}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done


def wait_for(what, condition, seconds=60):
    """Poll a condition that another process brings about; its value once it is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def as_server(*argv):
    """To be run under the account of the claim server."""
    return ["setpriv", f"--reuid={GROUP}", f"--regid={GROUP}", "--clear-groups", "--inh-caps=-all", *argv]


def proc_status(pid):
    """/proc/PID/status as a dict."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def processes_below(folder):
    """Pids of the programs that lie below a folder or have a path there as an argument. Programs in another IPC namespace are
    of another run, which has a folder of the same name."""
    found, ours = [], os.readlink("/proc/self/ns/ipc")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            program = os.readlink(f"/proc/{pid}/exe")
            if os.readlink(f"/proc/{pid}/ns/ipc") != ours:
                continue
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
                words = f.read().split("\0")
        except OSError:
            continue  # it has ended meanwhile, or is the kernel's
        if int(pid) != os.getpid() and any(word.startswith(folder + "/") for word in (program, *words)):
            found.append(int(pid))
    return found


def in_container():
    """In a pid namespace of our own the helper must be told that this is meant."""
    return os.stat("/proc/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE


def mounts_below(folder):
    """Lines of this process's mount table whose target is below folder."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return [line.rstrip("\n") for line in f if line.split(" ")[4].startswith(folder + "/")]


class Daemon:
    """A process of ours with its log."""

    are_over = False  # the run was interrupted: whatever other threads want, nothing is started

    def __init__(self, world, name, argv):
        self.name, self.argv, self.log = name, argv, os.path.join(world.logs, name + ".log")
        self.process = None

    def start(self):
        if Daemon.are_over:
            raise Failure(f"{self.name} is not started any more")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self, sig=signal.SIGKILL):
        """End it and wait until it is gone."""
        if self.alive():
            self.process.send_signal(sig)
        if self.process:
            self.process.wait(timeout=20)

    def said(self, seconds=0):
        """What it logged so far."""
        if seconds:
            time.sleep(seconds)
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()


class HelperSocket:
    """Stands in for a socket unit with Accept=yes: one mount helper without setuid bit for each connection."""

    CAPS = "+sys_admin,+audit_write"

    def __init__(self, node):
        self.path = f"{node.dir}/helper.sock"
        self.program = f"{PREFIX}/libexec/holdfast/mounthelper-of-launch-mode-socket"
        shutil.copyfile(f"{PREFIX}/libexec/holdfast/holdfast-mounthelper", self.program)
        os.chmod(self.program, 0o755)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(self.path)
        os.chown(self.path, 0, grp.getgrnam(GROUP).gr_gid)
        os.chmod(self.path, 0o660)
        self.socket.listen(8)
        self.pid = os.fork()
        if self.pid == 0:
            self.serve()

    def serve(self):
        helper = pwd.getpwnam(HELPER_USER)
        argv = ["setpriv", f"--reuid={helper.pw_uid}", f"--regid={helper.pw_gid}", "--clear-groups",
                f"--inh-caps=-all,{self.CAPS}", f"--ambient-caps=-all,{self.CAPS}", f"--bounding-set=-all,{self.CAPS}",
                self.program]
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        while True:
            connection, _ = self.socket.accept()
            if os.fork() == 0:
                os.setsid()
                os.dup2(connection.fileno(), 3)
                os.set_inheritable(3, True)
                os.execvp(argv[0], argv)
            connection.close()

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        self.socket.close()
        os.unlink(self.path)
        os.unlink(self.program)


class Node:
    """One agent with its account, trees and block in the helpers' policy."""

    def __init__(self, world, number):
        self.world = world
        self.id = f"node-{number}"
        self.user = f"{GROUP}-{number}"
        self.dir = f"{PREFIX}/run/{self.id}"
        self.data = f"{PREFIX}/var/{self.id}"
        self.hostvol = f"{self.dir}/data"
        self.trail = f"{PREFIX}/trail/{self.id}.log"
        self.trail_sync = "always"
        self.socket = f"{self.data}/agent.sock"
        self.plugin_dir = f"{self.dir}/plugins"
        self.driver_dir = f"{self.dir}/drivers"
        self.provider_id = f"machine-{number}"  # what CSI plugins call this node
        self.config = f"{PREFIX}/etc/holdfast/{self.id}.hcl"
        self.helper_socket = None  # the setuid one
        self.daemon = Daemon(
            world,
            self.id,
            ["setpriv", f"--reuid={self.user}", f"--regid={GROUP}", "--clear-groups", "--inh-caps=-all"]
            + [f"{PREFIX}/sbin/holdfast-agent", "--config", self.config],
        )

    @property
    def uid(self):
        return pwd.getpwnam(self.user).pw_uid

    def policy(self):
        helper = pwd.getpwnam(HELPER_USER)
        return f"""agent {self.uid} {{
	cluster = {CLUSTER}
	node = {self.id}
	helper_uid = {helper.pw_uid}
	helper_gid = {helper.pw_gid}
	stage_base = {self.dir}/stage
	publish_base = {self.dir}/publish
	log = {self.trail}
	lock_dir = {self.dir}/lock
	container = {"yes" if in_container() else "no"}
	ticket = required
	audit = optional
	ticket_key = {self.world.ticket_key()}
	trail_sync = {self.trail_sync}
	starts_per_minute = 6000
	ops_per_second = {self.world.ops_per_second}
	burst = {self.world.burst}
{self.profiles()}}}
"""

    def profiles(self):
        return f"""	profile disk {{
		class = block
		fstype = ext4
		trust = trusted
		by_id = {self.world.by_id_prefix}
	}}
	profile scratch {{
		class = tmpfs
		fstype = tmpfs
		trust = trusted
		max_size = 268435456
		shared = yes
		exec = yes
	}}
	hostvol data {{
		path = {self.hostvol}
		owner_uid = {self.uid}
	}}
""" + "".join(f"	profile {name} {{ class = csi }}\n" for name in self.world.plugin_ids)

    def settings(self):
        host, port = self.world.address()
        return f"""cluster = "{CLUSTER}"
node_id = "{self.id}"
data_dir = "{self.data}"
socket = "{self.socket}"
plugin_dir = "{self.plugin_dir}"
driver_dir = "{self.driver_dir}"
{self.world.agent_settings}
server {{
  host = "{host}"
  port = {port}
  server_uri = "holdfast://{CLUSTER}/server/dev"
}}
tls {{
  ca = "{PREFIX}/var/server/tls/ca.pem"
  cert = "{PREFIX}/var/server/tls/node-{self.id}.pem"
  key = "{self.data}/node.key"
}}
helper {{
  {f'socket = "{self.helper_socket.path}"' if self.helper_socket else f'path = "{PREFIX}/libexec/holdfast/holdfast-mounthelper"'}
}}
"""

    def prepare(self):
        """Folders, key and settings; the policy is written by the world, for all nodes at once."""
        helper, group = pwd.getpwnam(HELPER_USER), grp.getgrnam(GROUP).gr_gid
        os.makedirs(self.dir, 0o755)
        for name, uid, gid, mode in (
            ("stage", helper.pw_uid, helper.pw_gid, 0o700),
            ("publish", helper.pw_uid, helper.pw_gid, 0o711),
            ("lock", 0, 0, 0o755),
            ("drivers", 0, 0, 0o755),
            ("data", self.uid, group, 0o755),
        ):
            os.mkdir(f"{self.dir}/{name}")
            os.chown(f"{self.dir}/{name}", uid, gid)
            os.chmod(f"{self.dir}/{name}", mode)
        for name in self.world.plugin_ids:
            self.make_plugin_folder(name)
        os.makedirs(self.data, 0o750)
        os.chown(self.data, self.uid, group)
        with open(self.trail, "ab"):
            os.chmod(self.trail, 0o600)  # who can open it could hold the helper's lock on it
        shutil.copyfile(f"{PREFIX}/var/server/tls/node-{self.id}.key", f"{self.data}/node.key")
        os.chown(f"{self.data}/node.key", self.uid, group)
        os.chmod(f"{self.data}/node.key", 0o600)
        self.configure()

    def make_plugin_folder(self, name):
        """The plugin's and the agent's, and nobody else's. The plugin must not take writing from groups by its umask."""
        folder = f"{self.plugin_dir}/{name}"
        os.makedirs(folder, 0o755)
        os.chmod(folder, 0o700)
        run("setfacl", "--modify", f"u:{self.user}:rx,d:u:{self.user}:rw", folder)

    def configure(self):
        with open(self.config, "w", encoding="ascii") as f:
            f.write(self.settings())

    def use_helper_socket(self):
        """From now on in launch mode socket, which needs a trail of the helper's own."""
        helper = pwd.getpwnam(HELPER_USER)
        os.chown(self.trail, helper.pw_uid, helper.pw_gid)
        self.helper_socket = HelperSocket(self)
        self.configure()

    def remove_helper_socket(self):
        self.helper_socket.close()
        self.helper_socket = None
        self.configure()

    def start(self):
        self.daemon.start()

    def status(self):
        """The agent's own word, or None while it does not answer."""
        done = self.world.holdfast("agent", "status", "--socket", self.socket, "--json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def wait_connected(self):
        def connected():
            if not self.daemon.alive():
                raise Failure(f"agent {self.id} ended ({self.daemon.log}): {self.daemon.said()[-400:]}")
            status = self.status()
            return status and status["connected"] and status["helper"]["running"]

        wait_for(f"agent {self.id} to connect (log: {self.daemon.log})", connected)

    def helper_pid(self):
        status = self.status()
        return status["helper"]["pid"] if status and status["helper"]["running"] else None

    def published(self, alloc, slot=0):
        return f"{self.dir}/publish/{alloc}/{slot}"

    def staged(self):
        """Folders of volumes in the stage tree; those of plugins stay."""
        native = [name for name in os.listdir(f"{self.dir}/stage") if not name.startswith(".")]
        return [f"{self.dir}/stage/{name}" for name in native] + glob.glob(f"{self.dir}/stage/.csi/*/*")

    def mounts(self):
        return mounts_below(self.dir)


class Etcd:
    """For the servers of a world: so many members on unix sockets, under the servers' account."""

    LEASE_S = 2  # of the server that leads

    def __init__(self, world, members=1):
        self.members = []
        os.makedirs(ETCD, 0o700)
        os.chown(ETCD, pwd.getpwnam(GROUP).pw_uid, pwd.getpwnam(GROUP).pw_gid)
        cluster = ",".join(f"m{i}=unix://p{i}:1" for i in range(members))
        for i in range(members):  # etcd makes a socket named HOST:PORT where it runs
            argv = as_server("env", "-C", ETCD, "etcd", "--name", f"m{i}", "--data-dir", f"{ETCD}/m{i}",
                             "--listen-client-urls", f"unix://c{i}:1", "--advertise-client-urls", f"unix://c{i}:1",
                             "--listen-peer-urls", f"unix://p{i}:1", "--initial-advertise-peer-urls", f"unix://p{i}:1",
                             "--initial-cluster", cluster)
            self.members.append(Daemon(world, f"etcd-{i}", argv))
            self.members[i].start()
        for path in self.sockets():
            wait_for(f"etcd to listen at {path}", lambda path=path: os.path.exists(path))

    def sockets(self):
        return [f"{ETCD}/c{i}:1" for i in range(len(self.members))]

    def settings(self, name):
        """The block for the server of that name."""
        endpoints = ", ".join(f'"unix:{path}"' for path in self.sockets())
        return f"""store "etcd" {{
  endpoints = [{endpoints}]
  name      = "{name}"
  lease     = "{self.LEASE_S}s"
}}
"""


class World:
    """Make it with open(), and always close() it."""

    opened = []  # those that are not closed yet
    store = "sqlite"  # of the server, or "etcd"

    def __init__(self, nodes=2, ops_per_second=100, burst=200, plugin_ids=(), agent_settings="", server_settings=""):
        """agent_settings and server_settings: lines of their files; the server is then told by a file, too."""
        self.ops_per_second, self.burst = ops_per_second, burst
        self.plugin_ids, self.server_settings = plugin_ids, server_settings
        # calls of plugins that are counted do not depend on how long a test takes
        self.agent_settings = agent_settings + ("" if "volume_stats" in agent_settings else '\nvolume_stats = "0s"\n')
        self.storages = {}  # plugin id: what all its plugins share
        self.plugins = []
        self.logs = f"{PREFIX}/log"
        self.by_id_prefix = "holdfast-dev-"
        self.by_id = f"{self.by_id_prefix}{os.getpid()}"
        self.loop = None
        self.made = []  # accounts made here, to be removed; also noted in the lock file
        self.lock = None
        self.nodes = [Node(self, i + 1) for i in range(nodes)]
        self.server = self.etcd = None

    # --- making -------------------------------------------------------------------------------------------

    def open(self):
        if os.geteuid() != 0:
            raise Failure("this needs root: accounts, loop devices and a setuid program are made")
        self.take_lock()
        World.opened.append(self)
        self.refuse_processes()
        self.remove_leftovers()
        self.make_accounts()
        self.install()
        self.make_trees()
        self.make_disk()
        self.server = Daemon(
            self,
            "server",
            as_server(f"{PREFIX}/sbin/holdfast-server", "--dev", f"{PREFIX}/var/server", "--cluster", CLUSTER,
                      *(arg for node in self.nodes for arg in ("--node", node.id))),
        )
        self.start_server()
        if World.store == "etcd":
            self.etcd = Etcd(self)
        if self.server_settings or self.etcd:
            self.configure_server()
        for node in self.nodes:
            node.prepare()
        self.write_policy()
        return self

    def take_lock(self):
        """From here on everything below PREFIX is ours to remove."""
        lock = open("/run/lock/holdfast-dev", "a+", encoding="ascii")

        def free():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False

        try:
            wait_for(f"another run of demo, test or bench to leave {PREFIX}", free, seconds=120)
        except Failure:
            lock.close()
            raise
        self.lock = lock
        lock.seek(0)
        self.made = lock.read().split()  # by a run that was interrupted

    def refuse_processes(self):
        """What a killed run left would continue writing to what this one makes."""
        try:
            wait_for("the last ones to end", lambda: not processes_below(PREFIX), seconds=10)
        except Failure:
            pids = " ".join(map(str, processes_below(PREFIX)))
            raise Failure(f"processes of an earlier run work below {PREFIX}; look at them and end them: "
                          f"kill {pids}") from None

    def make_accounts(self):
        for name, args in (
            (HELPER_USER, ["--user-group"]),
            (GROUP, ["--user-group"]),
            *((node.user, ["--no-user-group", "--gid", GROUP]) for node in self.nodes),
        ):
            if run("getent", "passwd", name, check=False).returncode == 0:
                continue
            run("useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell",
                "/usr/sbin/nologin", *args, name)
            self.made.append(name)
            print(name, file=self.lock, flush=True)

    def install(self):
        run("cmake", "--install", BUILD)
        helper = f"{PREFIX}/libexec/holdfast/holdfast-mounthelper"
        os.chown(helper, 0, grp.getgrnam(GROUP).gr_gid)
        os.chmod(helper, 0o4750)
        for folder in ("etc/holdfast", "var", "trail", "log", "run"):
            os.makedirs(f"{PREFIX}/{folder}", 0o755, exist_ok=True)
        os.chmod(PREFIX, 0o755)

    def make_trees(self):
        # a shared mount of its own: what is mounted in it reaches every namespace made from ours, as on a host
        # where systemd makes the root shared
        run("mount", "-t", "tmpfs", "-o", "mode=0755,size=16m", "holdfast-dev", f"{PREFIX}/run")
        run("mount", "--make-shared", f"{PREFIX}/run")

    def make_disk(self):
        image = f"{PREFIX}/disk.img"
        with open(image, "wb") as f:
            f.truncate(64 << 20)
        run("mkfs.ext4", "-q", "-E", "root_owner=0:0", image)
        self.loop = run("losetup", "--find", "--show", image).stdout.strip()
        os.makedirs("/dev/disk/by-id", 0o755, exist_ok=True)
        os.symlink(f"../../{os.path.basename(self.loop)}", f"/dev/disk/by-id/{self.by_id}")

    def write_policy(self):
        path = f"{PREFIX}/etc/holdfast/mounthelper.policy"
        with open(path, "w", encoding="ascii") as f:
            f.write("".join(node.policy() for node in self.nodes))
        os.chmod(path, 0o644)
        self.apply_policy()

    def apply_policy(self):
        run(f"{PREFIX}/bin/holdfast", "policy", "apply")

    def configure_server(self):
        """From now on with a file of settings, and what --dev has made."""
        folder, path = f"{PREFIX}/var/server", f"{PREFIX}/etc/holdfast/server.hcl"
        with open(path, "w", encoding="ascii") as f:
            f.write(f"""cluster    = "{CLUSTER}"
data_dir   = "{folder}"
ticket_key = "{folder}/ticket.key"
acl        = false
listen {{ port = {self.address()[1]} }}
tls {{
  ca   = "{folder}/tls/ca.pem"
  cert = "{folder}/tls/server.pem"
  key  = "{folder}/tls/server.key"
}}
{self.server_settings}
{self.etcd.settings("server") if self.etcd else ""}
""")
        self.server.kill(signal.SIGTERM)
        self.server.argv = as_server(f"{PREFIX}/sbin/holdfast-server", "--config", path)
        if self.etcd:
            run(*self.server.argv, "--new-cluster")
        self.start_server()

    # --- using --------------------------------------------------------------------------------------------

    def address(self):
        with open(f"{PREFIX}/var/server/address", encoding="ascii") as f:
            host, port = f.read().strip().rsplit(":", 1)
        return host, int(port)

    def ticket_key(self):
        with open(f"{PREFIX}/var/server/ticket.pub", encoding="ascii") as f:
            return f.read().strip()

    def start_server(self):
        """Start it; after the first time on the same port, so that the agents find it again."""
        if "--config" in self.server.argv:
            self.server.start()
            wait_for(f"the server to listen (log: {self.server.log})", self.is_listening)
            if self.etcd:  # the lease of the one before may have to end
                wait_for("the server to lead", lambda: self.holdfast("node", "status", check=False).returncode == 0)
            return
        path = f"{PREFIX}/var/server/address"
        folder = os.path.dirname(path)
        os.makedirs(folder, 0o755, exist_ok=True)
        os.chown(folder, pwd.getpwnam(GROUP).pw_uid, grp.getgrnam(GROUP).gr_gid)
        if os.path.exists(path) and "--port" not in self.server.argv:
            self.server.argv += ["--port", str(self.address()[1])]
        if os.path.exists(path):
            os.unlink(path)
        self.server.start()

        def listening():
            if not self.server.alive():
                raise Failure(f"the server ended; see {self.server.log}")
            return os.path.exists(path)

        wait_for(f"the server to listen (log: {self.server.log})", listening)

    def is_listening(self):
        if not self.server.alive():
            raise Failure(f"the server ended; see {self.server.log}")
        try:
            socket.create_connection(self.address(), timeout=1).close()
        except ConnectionRefusedError:
            return False
        return True

    def storage(self, plugin_id):
        """The provider behind all plugins of an id."""
        if plugin_id not in self.storages:
            self.storages[plugin_id] = plugin.Storage(f"{PREFIX}/plugins/{plugin_id}")
        return self.storages[plugin_id]

    def start_plugin(self, plugin_id, stack, node, kind="monolith", name="csi"):
        """A CSI test plugin on a node, for one of the world's plugin ids; tests/plugins/README.md says what it can be
        told, by storage(plugin_id).orders."""
        made = plugin.Plugin(
            self.storage(plugin_id), stack, f"{node.plugin_dir}/{plugin_id}/{name}.sock", node.provider_id,
            plugin.prepare(), kind=kind, log=f"{self.logs}/{plugin_id}-{node.id}-{name}.log")
        self.plugins.append(made)
        return made.start()

    def wait_plugin(self, plugin_id, controllers, nodes):
        """Until the server has heard of so many healthy halves."""

        def healthy():
            done = self.holdfast("plugin", "status", plugin_id, "--json", check=False)
            if done.returncode != 0:
                return False
            found = json.loads(done.stdout)["plugin"]
            return (found.get("controllers_healthy", 0), found.get("nodes_healthy", 0)) == (controllers, nodes)

        wait_for(f"plugin {plugin_id} to be healthy", healthy)

    def start_agents(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_connected()

    def holdfast(self, *args, check=True):
        """The command line, as an operator uses it."""
        return run(f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", *args, check=check)

    def json(self, *args):
        return json.loads(self.holdfast(*args, "--json").stdout)

    def spec(self, name, text):
        """Write a specification file and return its path."""
        path = f"{PREFIX}/etc/{name}"
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def volume_spec(self):
        return self.spec(
            "volume.hcl",
            f"""id      = "db"
type    = "native"
profile = "disk"

source {{
  class = "block"
  by_id = "{self.by_id}"
}}

capability {{
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}}
""",
        )

    def alloc_spec(self, name="app"):
        return self.spec(
            f"{name}.hcl",
            f"""name   = "{name}"
driver = "none"

volume "data" {{
  source          = "db"
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}}
""",
        )

    def claims(self, volume="db"):
        return self.json("volume", "status", volume)["volume"].get("claims", [])

    def live_claims(self, volume="db"):
        return [c for c in self.claims(volume) if c["state"] != "FREED"]

    # --- removing -----------------------------------------------------------------------------------------

    def close(self):
        if not self.lock:
            return
        if self in World.opened:
            World.opened.remove(self)
        for daemon in [node.daemon for node in self.nodes] + [self.server] + (self.etcd.members if self.etcd else []):
            if daemon:
                daemon.kill(signal.SIGTERM)
        for made in self.plugins:
            made.kill()
        self.remove_leftovers()
        for name in reversed(self.made):
            run("userdel", name, check=False)
        self.lock.truncate(0)
        self.lock.close()
        self.lock = None

    def detach_disk(self):
        """Detach the loop device of this disk, known by device and inode: another container may have one of the same
        name."""
        image = f"{PREFIX}/disk.img"
        if not os.path.exists(image):
            return
        st = os.stat(image)
        mine = [str(st.st_ino), f"{os.major(st.st_dev)}:{os.minor(st.st_dev)}"]
        columns = "NAME,BACK-INO,BACK-MAJ:MIN"
        for line in run("losetup", "--list", "--noheadings", "--output", columns).stdout.splitlines():
            name, *back = line.split()
            if back == mine:
                run("losetup", "--detach", name, check=False)

    @staticmethod
    def unmount_all():
        for line in reversed(mounts_below(PREFIX)):
            run("umount", line.split(" ")[4], check=False)
        return not mounts_below(PREFIX)

    def remove_leftovers(self):
        """Mounts deepest first, the loop device, the link, and then only files of ours on no other file system."""
        wait_for(f"all mounts below {PREFIX} to be unmounted, which a helper that still ends keeps busy", self.unmount_all)
        self.detach_disk()
        for folder in sorted(os.listdir(f"{PREFIX}/plugins")) if os.path.isdir(f"{PREFIX}/plugins") else []:
            plugin.Storage(f"{PREFIX}/plugins/{folder}").close()
        if os.path.isdir("/dev/disk/by-id"):
            for name in os.listdir("/dev/disk/by-id"):
                if name.startswith(self.by_id_prefix):
                    os.unlink(f"/dev/disk/by-id/{name}")
            if not os.listdir("/dev/disk/by-id"):  # /dev/disk stays: boxes of tests have mounts on it
                os.rmdir("/dev/disk/by-id")
        if os.path.isdir(PREFIX):
            run("find", PREFIX, "-xdev", "-depth", "-delete")


def show(text):
    print(text, flush=True)
    sys.stdout.flush()
