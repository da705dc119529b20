# SPDX-License-Identifier: Apache-2.0
"""kill -9 of agent, driver, engine and server at every step of start, exec, logs, stop and network of a task: no second container for one
task, none left over, no volume unmounted under a running one, no command that runs twice, nothing stuck.

The steps are the requests that the driver sends its engine, seen by a proxy between the two: what is killed dies before the engine has
the request, or when it has been carried out and its answer is not passed on yet. Agent and server die at system calls too."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from case import killed_at  # noqa: E402
from world import PREFIX, wait_for  # noqa: E402

import sample  # noqa: E402

from flow import Flow  # noqa: E402

NET, TASK, ID = "holdfast-net-[0-9a-f-]{36}", "holdfast-[0-9a-f-]{36}-main", "[0-9a-f]+"
# phase: its steps, each with its request, and which of these it is
REQUESTS = {
    "start": [
        ("look for the network", rf"GET /containers/{NET}/json", 1),
        ("create the network", rf"POST (/libpod)?/containers/create\?name={NET}", 1),
        ("start the network", rf"POST /containers/{NET}/start", 1),
        ("look for the task", rf"GET /containers/{TASK}/json", 1),
        ("look for the image", r"GET /images/.*/json", 1),
        ("create the task", rf"POST (/libpod)?/containers/create\?name={TASK}", 1),
        ("start the task", rf"POST /containers/{TASK}/start", 1),
        ("see the task", rf"GET /containers/{TASK}/json", 2),
    ],
    "exec": [
        ("create the exec", rf"POST /containers/{ID}/exec", 1),
        ("start the exec", rf"POST /exec/{ID}/start", 1),
        ("ask how the exec ended", rf"GET /exec/{ID}/json", 1),
    ],
    "logs": [
        ("read the output", rf"GET /containers/{ID}/logs.*", 1),
    ],
    "stop": [
        ("stop the task", rf"POST /containers/{TASK}/stop.*", 1),
        ("read its last output", rf"GET /containers/{ID}/logs.*", 1),
        ("remove the task", rf"DELETE /containers/{ID}\?.*", 1),
        ("remove the network", rf"DELETE /containers/{ID}\?.*", 2),
    ],
}
# phase: who dies as it enters which system call for the how manieth time
CALLS = {
    "start": [("agent", "pwrite64", n) for n in (1, 3, 5, 7, 9)] + [("server", "fdatasync", n) for n in (1, 2, 3)],
    "exec": [],
    "logs": [],
    "stop": [("agent", "pwrite64", n) for n in (1, 2, 3, 4)] + [("server", "fdatasync", n) for n in (1, 2, 3)],
}
WHO = ("agent", "driver", "engine", "server")
SCRIPT = "echo hello; echo started >> /data/starts; sleep 100000; : {marker}"
COMMAND = "echo ran >> /data/execs; echo said"


def rows(phase):
    """(what, who, kind, ...) of each place to die at."""
    for name, pattern, n in REQUESTS[phase]:
        for who in WHO:
            yield f"{who} before: {name}", who, "before", (pattern, n)
            yield f"{who} after: {name}", who, "after", (pattern, n)
    for who, syscall, n in CALLS[phase]:
        yield f"{who} at {syscall} {n}", who, syscall, n


class Proxy:
    """Passes everything on, and at one request lets something die."""

    def __init__(self, path, engine):
        self.engine, self.armed, self.n, self.fired = engine, None, 0, threading.Event()
        self.stream = None  # of the last command
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.listener.bind(path)
        os.chmod(path, 0o666)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def arm(self, pattern, n, when, kill, forgets):
        """For the n-th request like that. @forgets: it dies with what is killed."""
        self.fired.clear()
        with self.lock:
            self.n, self.armed = n, (re.compile(pattern.encode() + b"$"), when, kill, forgets)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def take(self, chunk):
        """What is armed, once, if these bytes begin that request."""
        found = re.match(rb"(GET|POST|DELETE) /v1\.\d+(\S+) HTTP", chunk)
        with self.lock:
            armed = self.armed
            if not found or not armed or not armed[0].match(found[1] + b" " + found[2]):
                return None
            self.n -= 1
            if self.n > 0:
                return None
            self.armed = None
            return armed

    def serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        waiting = []  # for the answer
        try:
            server.connect(self.engine)
        except OSError:
            client.close()
            return

        def back():
            with contextlib.suppress(OSError):
                while chunk := server.recv(65536):
                    if waiting:
                        waiting.pop()()
                        self.fired.set()
                    client.sendall(chunk)
            with contextlib.suppress(OSError):  # also when the engine died with it unread
                client.shutdown(socket.SHUT_WR)

        answers = threading.Thread(target=back, daemon=True)
        answers.start()
        with contextlib.suppress(OSError):
            while chunk := client.recv(65536):
                if re.match(rb"POST \S+/exec/[0-9a-f]+/start ", chunk):
                    self.stream = client
                if armed := self.take(chunk):
                    _, when, kill, forgets = armed
                    if when == "after":
                        waiting.append(kill)
                    else:
                        kill()
                        self.fired.set()
                        if forgets:
                            break
                server.sendall(chunk)
            server.shutdown(socket.SHUT_WR)
        answers.join(1 if self.fired.is_set() else None)
        for s in (client, server):
            s.close()

    def close(self):
        self.listener.close()


class Watch:
    """Looks all the time whether a task runs twice, or on a volume that is not there."""

    def __init__(self, mounts):
        self.mounts, self.marker, self.path, self.wrong = mounts, None, None, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def look_for(self, marker, path):
        self.path, self.marker = path, marker

    def running(self):
        """Namespaces of the processes of the task."""
        found = set()
        marker = self.marker.encode()
        for pid in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if pid.isdigit():
                    with open(f"/proc/{pid}/cmdline", "rb") as f:
                        words = f.read().split(b"\0")
                    if words[0].endswith(b"/sh") and len(words) > 2 and words[2].endswith(b": " + marker):
                        found.add(os.readlink(f"/proc/{pid}/ns/pid"))
        return found

    def run(self):
        while not self.over.wait(0.03):
            if not self.marker:
                continue
            marker, path = self.marker, self.path
            before = self.running()
            mounted = path in self.mounts()
            if len(before) > 1:
                self.wrong.append(f"task {marker} runs {len(before)} times")
            if not mounted and before & self.running():
                self.wrong.append(f"task {marker} runs without {path}")

    def close(self):
        self.over.set()
        self.thread.join()


class Faults(Flow):
    GROUP = "7a00"

    def open(self):
        self.proxy = Proxy(f"{self.engine.work}/proxy.sock", f"{self.engine.work}/engine.sock")
        super().open()
        self.watch = Watch(lambda: {line.split(" ")[4] for line in self.node.mounts()})

    def start_driver(self):
        super().start_driver(engine="proxy.sock")

    def close(self):
        self.watch.close()
        self.proxy.close()
        super().close()

    def kill(self, who):
        {"agent": lambda: self.node.daemon.kill(signal.SIGKILL), "driver": self.engine.kill_driver, "engine": self.kill_engine,
         "server": lambda: self.room.server.kill(signal.SIGKILL)}[who]()  # fmt: skip

    def kill_engine(self):
        self.engine.processes["engine"].send_signal(signal.SIGKILL)
        self.engine.processes["engine"].wait()
        helper = self.engine.work / "exec/containerd/containerd.pid"  # of Docker: it dies with it, and is reaped by process 1, this one
        with contextlib.suppress(FileNotFoundError, ChildProcessError):
            os.waitpid(int(helper.read_text(encoding="ascii")), 0)

    def heal(self, who):
        {"agent": self.node.start, "driver": self.start_driver, "engine": lambda: self.engine.start_engine(keeps_tasks=True),
         "server": self.room.start_server}[who]()  # fmt: skip
        for node in self.room.nodes:
            node.wait_connected()

    @contextlib.contextmanager
    def killed(self, row):
        """Within the block it is to die; after it, it is there again."""
        what, who, kind, place = row[0], row[1], row[2], row[3]
        if kind in ("before", "after"):
            self.proxy.arm(*place, kind, lambda: self.kill(who), kind == "before" and who == "driver")
            yield
            wait_for(f"{what}", self.proxy.fired.is_set)
        else:
            daemon = self.node.daemon if who == "agent" else self.room.server
            with killed_at(daemon.process.pid, kind, place) as is_dead:
                yield
                wait_for(f"{what}", is_dead)
                self.kill(who)  # as its parent
        self.heal(who)

    def begin(self, row):
        """A task that runs, whoever died while it was started."""
        marker = f"holdfast-task-{self.n + 1}"
        alloc = self.next_id()
        self.watch.look_for(marker, self.node.published(alloc))
        wait_for("the server to know the driver", self.driver_is_healthy)  # before the server may die
        with self.killed(row) if row else contextlib.nullcontext():
            assert self.in_network("isolated", check=not row, main=SCRIPT.replace("{marker}", marker)) == alloc
        if row and row[1] == "server":  # who may have died before it was durable; the same id again is the same allocation
            self.room.holdfast(*self.submission)
        self.until_running(alloc)
        assert self.starts(alloc) == 1 and len(self.containers()) == 2, (self.starts(alloc), self.containers())
        return alloc

    def command(self, alloc, *words):
        return subprocess.Popen([f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "alloc", *words], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

    def ends_cut_or_whole(self, client, whole):
        out, err = client.communicate(timeout=60)
        assert (out == whole) if client.returncode == 0 else err, (client.returncode, out, err)
        return client.returncode == 0

    def enter(self, alloc, row):
        at = f"{self.node.published(alloc)}/execs"
        with self.killed(row):
            client = self.command(alloc, "exec", alloc, "--", "/bin/sh", "-c", COMMAND)
        was_whole = self.ends_cut_or_whole(client, "said\n")
        time.sleep(0.2)
        n = open(at, encoding="ascii").read().count("ran") if os.path.exists(at) else 0
        assert n == 1 or (n == 0 and not was_whole), n
        wait_for("a command to run again", lambda: self.exec(alloc, "exit 0").returncode == 0)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(at)

    def read(self, alloc, row):
        with self.killed(row):
            client = self.command(alloc, "logs", alloc)
        self.ends_cut_or_whole(client, "hello\n")
        wait_for("the output", lambda: self.room.holdfast("alloc", "logs", alloc, check=False).stdout == "hello\n")

    def end(self, alloc, row):
        self.clear(alloc)
        with self.killed(row) if row else contextlib.nullcontext():
            self.room.holdfast("alloc", "stop", alloc, "--no-wait", check=not row or row[1] != "server")
        if row and row[1] == "server":
            self.room.holdfast("alloc", "stop", alloc, "--no-wait")
        self.until(alloc, "COMPLETE")
        self.nothing_is_left()
        claim = next(c for c in self.room.claims() if c["allocation_id"] == alloc)
        assert claim["evidence"] == "EVIDENCE_RECEIPT", claim

    def life(self, row):
        """One allocation in which somebody dies once in each phase for which there is a row."""
        self.watch.wrong.clear()
        alloc = self.begin(row["start"])
        for phase, step in (("exec", self.enter), ("logs", self.read)):
            if row[phase]:
                step(alloc, row[phase])
        self.until_running(alloc)
        assert self.starts(alloc) == 1
        self.end(alloc, row["stop"])
        assert not self.watch.wrong, self.watch.wrong[:5]

    def a_command_whose_output_breaks_off_reports_how_it_ended(self):
        """As if the engine's service was killed and is there again: the command runs on, and podman gives it exit status 0 meanwhile."""
        alloc = self.begin(None)
        at = self.node.published(alloc)
        client = self.command(alloc, "exec", alloc, "--", "/bin/sh", "-c", "touch /data/begun; until [ -e /data/go ]; do sleep 0.1; done; exit 3")
        wait_for("the command to begin", lambda: os.path.exists(f"{at}/begun"))
        self.proxy.arm(f"GET /exec/{ID}/json", 2, "before", lambda: None, False)
        self.proxy.stream.shutdown(socket.SHUT_RDWR)
        wait_for("a second look at the command", self.proxy.fired.is_set)
        open(f"{at}/go", "w", encoding="ascii").close()
        out, err = client.communicate(timeout=60)
        assert client.returncode == 3, (client.returncode, out, err)
        for name in ("begun", "go"):
            os.unlink(f"{at}/{name}")
        self.end(alloc, None)

    def an_engine_that_takes_its_tasks_with_it_ends_them_with_a_reason(self):
        alloc = self.begin(None)
        self.kill_engine()
        self.engine.start_engine()
        found = self.until(alloc, "FAILED")
        assert "main" in found["client_description"], found
        self.nothing_is_left()


def lives(named):
    """Rows of the phases side by side, so that one allocation shows several."""
    table = {phase: [row for row in rows(phase) if re.search(named, row[0])] for phase in REQUESTS}
    return [{phase: found[i] if i < len(found) else None for phase, found in table.items()}
            for i in range(max(len(found) for found in table.values()))]  # fmt: skip


def cases(engine, named, rounds):
    """Yields (name, why it failed or None) for each place whose name the pattern is in; without rounds, for those of the sample
    (HOLDFAST_SAMPLE), other ones with each engine."""
    engine.stop("engine")
    shift = (engine.engine == "docker") + 2 * bool(engine.suite)
    engine.start_engine(keeps_tasks=True)
    faults = Faults(engine)
    try:
        faults.open()
        for _ in range(max(rounds, 1)):
            for place, life in enumerate(lives(named)):
                if not rounds and not sample.has(place + shift):
                    continue
                name = "; ".join(f"{phase}: {row[0]}" for phase, row in life.items() if row)
                try:
                    faults.life(life)
                    yield name, None
                except Exception:  # noqa: BLE001 a case that fails is told
                    yield name, (traceback.format_exc() + faults.node.daemon.said()[-3000:] +
                                 faults.room.holdfast("volume", "status", "db", "--why", check=False).stdout)  # fmt: skip
                    return
        if re.search(named, "breaks"):
            faults.a_command_whose_output_breaks_off_reports_how_it_ended()
            yield "a_command_whose_output_breaks_off_reports_how_it_ended", None
        if engine.engine == "docker" and re.search(named, "takes"):
            faults.an_engine_that_takes_its_tasks_with_it_ends_them_with_a_reason()
            yield "an_engine_that_takes_its_tasks_with_it_ends_them_with_a_reason", None
    finally:
        faults.close()
