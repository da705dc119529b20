# SPDX-License-Identifier: Apache-2.0
"""What users of three servers do, with tokens, through each server, before, during and after a hand-over, a kill and a rolling upgrade.

It prints a table: how often each operation succeeded. Commands know all servers and begin with the one of their row. A server that ended
is started again, as by its unit."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import traceback

from flow import ID_MARK, PREFIX, wait_for

from demo_servers import SERVERS, TLS, ServersWorld  # of tests/integration, see flow

SOCKETS = "/run/docker/plugins"
KIT = f"{PREFIX}/kit"
NODE = "node-1"
RIGHTS = {
    "volumes": 'namespace "default" {\n  capabilities = ["submit-job", "csi-mount-volume", "read-job"]\n}\n',
    "deploy": 'namespace "default" {\n  policy = "write"\n}\nnode {\n  policy = "read"\n}\n',
    "kit": 'backup {\n  policy = "kit"\n}\n',
    "look": 'operator {\n  policy = "read"\n}\n',
}
VOLUME = """id      = "{name}"
type    = "native"
profile = "scratch"

source {{
  class  = "tmpfs"
  size   = "1MiB"
  inodes = 100
}}

capability {{
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}}
"""
ALLOC = """name   = "{name}"
node   = "node-1"

volume "data" {{
  source      = "{name}"
  access_mode = "single-node-writer"
}}
"""


def finish(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **more)
    assert done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}: {done.stdout} {done.stderr}"
    return done.stdout


class Room(ServersWorld):
    ACL, SETTINGS = "true", f'kit_certificate = "{KIT}.pem"'

    def open(self):
        os.makedirs(PREFIX, exist_ok=True)
        super().open()
        self.start_agents()
        self.tokens = {name: self.make_token(name) for name in RIGHTS}
        os.makedirs(f"{PREFIX}/etc/holdfast/volumes.d", exist_ok=True)
        for kind in ("unit", "alloc", "pod"):
            for i in range(SERVERS):
                self.holdfast("volume", "register", self.spec(f"{kind}{i}.volume.hcl", VOLUME.format(name=f"{kind}{i}")))
                self.spec(f"holdfast/volumes.d/{kind}{i}.hcl", ALLOC.format(name=f"{kind}{i}"))

    def make_server(self, i):
        if not os.path.exists(f"{KIT}.pem"):
            finish(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2", "-subj",
                    "/CN=kit", "-keyout", f"{KIT}.key", "-out", f"{KIT}.pem"])  # fmt: skip
        return super().make_server(i)

    def make_token(self, name):
        self.holdfast("operator", "policy", "put", name, self.spec(f"{name}.policy.hcl", RIGHTS[name]))
        bound = ("--node", NODE) if name == "volumes" else ()
        made = self.holdfast("operator", "token", "create", name, name, *bound, "--days", "1", "--json").stdout
        os.makedirs(f"{PREFIX}/tokens/{name}", exist_ok=True)
        with open(f"{PREFIX}/tokens/{name}/holdfast.token", "w", encoding="ascii") as f:
            os.fchmod(f.fileno(), 0o600)
            f.write(json.loads(made)["token"]["secret"])
        return f.name

    def ask(self, i, path, token=None):
        """Status and body of a page of one server; status 0: nothing listens."""
        head = ["-H", f"Authorization: Bearer {open(token, encoding='ascii').read()}"] if token else []
        done = subprocess.run(["curl", "-s", "--cacert", f"{TLS}/ca.pem", "-w", "%{http_code}", *head, f"https://127.0.0.1:{self.ports[i]}{path}"],
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        return int(done.stdout[-3:]), done.stdout[:-3]

    def are_ready(self):
        return all(self.ask(i, "/readyz")[0] == 200 for i in range(SERVERS))

    # --- what happens to the servers

    def nothing(self):
        pass

    def restart(self, server, number):
        server.kill(number)
        server.start()
        wait_for("all servers to know a leader", self.are_ready)

    def hand_over(self):
        self.restart(self.leader(), signal.SIGTERM)

    def kill_leader(self):
        self.restart(self.leader(), signal.SIGKILL)

    def upgrade(self):
        """The leader last."""
        leader = self.leader()
        for server in sorted(self.servers, key=lambda s: s is leader):
            self.restart(server, signal.SIGTERM)


class Table:
    def __init__(self, engine, named):
        self.engine, self.room, self.cells, self.n = engine, Room(), {}, 0
        self.publish_dir = f"{self.room.nodes[0].dir}/publish"
        self.lock, self.one_backup = threading.Lock(), threading.Lock()
        self.operations = [operation for operation in self.OPERATIONS if re.search(named, operation.__name__)]

    def open(self):
        os.makedirs(SOCKETS, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M,mode=700", "plugins", SOCKETS], check=True)
        self.engine.write_volume_plugins(SOCKETS, [f"holdfast-{i}" for i in range(SERVERS)])
        self.room.open()
        for i in range(SERVERS):
            self.start_plugin(i)

    def start_plugin(self, i):
        state = self.engine.work / f"state-servers-{i}"
        state.mkdir()
        self.engine.start(f"plugin-{i}", [f"{PREFIX}/bin/holdfast", "volume", "docker-plugin", f"{SOCKETS}/holdfast-{i}.sock", "--node", NODE,
                                          "--timeout", "60s"],
                          env=self.way(i, "volumes") | {"STATE_DIRECTORY": str(state), "HOLDFAST_PUBLISH_DIR": self.publish_dir})  # fmt: skip
        wait_for("the plugin listens", lambda: os.path.exists(f"{SOCKETS}/holdfast-{i}.sock"))
        self.podman("volume", "create", "--driver", f"holdfast-{i}", f"pod{i}")

    def close(self):
        for i in range(SERVERS):
            self.engine.stop(f"plugin-{i}")
        self.room.close()
        subprocess.run(["umount", "-l", SOCKETS], check=False)

    def way(self, i, token):
        return self.room.way(i) | {"HOLDFAST_TOKEN_FILE": self.room.tokens[token]}

    def podman(self, *args):
        return finish([*self.engine.command, *args], env=self.engine.env)

    # --- operations: through server @i, for the @n-th time

    def unit_start_and_stop(self, i, n):
        """As holdfast-volume@.service does it."""
        folder = self.engine.work / f"unit-{i}"
        for name in ("state", "runtime"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        path = f"{folder}/notify-{n}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(100)
            env = self.room.way(i) | {"CREDENTIALS_DIRECTORY": os.path.dirname(self.room.tokens["volumes"]), "NOTIFY_SOCKET": path,
                                      "STATE_DIRECTORY": f"{folder}/state", "RUNTIME_DIRECTORY": f"{folder}/runtime", "HOLDFAST_PUBLISH_DIR": self.publish_dir}  # fmt: skip
            unit = subprocess.Popen([f"{PREFIX}/bin/holdfast", "volume", "hold", "--timeout", "80s", "--", f"unit{i}"], env=env,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
            while unit.poll() is None and b"READY=1" not in notify.recv(4096):
                pass
            unit.send_signal(signal.SIGTERM)
            said = unit.communicate(timeout=100)[0]
        assert unit.returncode == 0, f"exit {unit.returncode}: {said}"

    def alloc_run(self, i, n):
        alloc = f"{n:08d}-0000-7{i:03d}-{ID_MARK}"
        holdfast, env = f"{PREFIX}/bin/holdfast", self.way(i, "deploy")
        finish([holdfast, "alloc", "run", f"{PREFIX}/etc/holdfast/volumes.d/alloc{i}.hcl", "--id", alloc], env=env)
        assert os.path.ismount(self.room.nodes[0].published(alloc)), "it is not mounted"
        finish([holdfast, "alloc", "stop", alloc], env=env)

    def podman_run(self, i, n):
        self.podman("run", "--rm", "--network=none", f"--name=pod{i}-{n}", "-v", f"pod{i}:/data", "localhost/bb:1", "/bin/sh", "-c", "echo one > /data/one")

    def backup(self, i, n):
        """As holdfast-backup.service does it; a cluster makes one at a time."""
        path = f"{self.engine.work}/{i}-{n}.kit"
        with self.one_backup:
            finish([f"{PREFIX}/bin/holdfast", "operator", "backup", "--kit", path], env=self.way(i, "kit"))
        finish([f"{PREFIX}/bin/holdfast", "operator", "backup", "verify", path, "--key-file", f"{KIT}.key"])
        os.unlink(path)

    def scrape(self, i, _):
        """As Prometheus does it: of this server alone. It asks again while the server is away or has just begun to follow."""
        status, body = wait_for(f"server {i} to answer",
                                lambda: (found := self.room.ask(i, "/metrics", self.room.tokens["look"]))[0] not in (0, 503) and found)
        assert status == 200 and "\nholdfast_leads " in body, f"{status} {body[:300]}"

    OPERATIONS = (unit_start_and_stop, alloc_run, podman_run, backup, scrape)

    # --- the table

    def repeat(self, operation, i, cell, is_over):
        """At least once, and until it is over."""
        while True:
            with self.lock:
                self.n += 1
                n = self.n
            try:
                operation(self, i, n)
            except Exception as error:  # noqa: BLE001 it is the cell's result
                self.cells[cell] = f"{type(error).__name__}: {error}"
                return
            self.cells[cell] = self.cells.get(cell, 0) + 1
            if is_over.is_set():
                return

    def fill(self, event, phase, happen):
        is_over = threading.Event()
        threads = [threading.Thread(target=self.repeat, args=(operation, i, (operation.__name__, i, event, phase), is_over))
                   for operation in self.operations for i in range(SERVERS)]  # fmt: skip
        for thread in threads:
            thread.start()
        try:
            happen()
        finally:
            is_over.set()
            for thread in threads:
                thread.join()

    def show(self, events):
        print(f"{'':26}" + "".join(f"{event:^24}" for event in events))
        print(f"{'':26}" + f"{'before':>8}{'during':>8}{'after':>8}" * len(events))
        for operation in self.operations:
            for i in range(SERVERS):
                cells = (self.cells.get((operation.__name__, i, event, phase)) for event in events for phase in ("before", "during", "after"))
                print(f"{operation.__name__:22} s{i} " + "".join(f"{cell if isinstance(cell, int) else 'FAILED':>8}" for cell in cells), flush=True)


def cases(engine, named=""):
    """Yields (name, why it failed or None). @named: only operations whose name this pattern is in"""
    table = Table(engine, named)
    events = {"hand-over": table.room.hand_over, "kill -9": table.room.kill_leader, "rolling upgrade": table.room.upgrade}
    try:
        table.open()
        for event, happen in events.items():
            for phase, what in (("before", table.room.nothing), ("during", happen), ("after", table.room.nothing)):
                table.fill(event, phase, what)
        table.show(events)
        failed = {cell: why for cell, why in table.cells.items() if not isinstance(why, int)}
        yield "each_operation_succeeds_through_each_server_whatever_happens_to_the_leader", "".join(f"{cell}: {why}\n" for cell, why in failed.items()) or None
        with contextlib.suppress(Exception):  # podman run may return before its clean-up, which unmounts
            wait_for("the mounts to go", lambda: not table.room.nodes[0].mounts())
        left = table.room.nodes[0].mounts()
        yield "no_mount_is_left", "\n".join(left) or None
    except Exception:  # noqa: BLE001 a case that fails is told
        said = "".join(path.read_text(errors="replace")[-1000:] for path in engine.work.glob("plugin-*.log"))
        yield "servers", traceback.format_exc() + said
    finally:
        table.close()
