# SPDX-License-Identifier: Apache-2.0
"""Volumes of containers that Holdfast does not run: `docker run -v`, `podman run -v` and the plugin's socket of two nodes.

One engine stands for both: what it asks of the plugin `holdfast` happens on node-1, and of `holdfast-2` on node-2."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import traceback

from flow import PREFIX, World, wait_for

SOCKETS = "/run/docker/plugins"
PLUGINS = {"holdfast": "node-1", "holdfast-2": "node-2"}
TYPE = "application/vnd.docker.plugins.v1.1+json"

# The pause container of a pod is of an image of its own.
INFRA = 'infra_image = "localhost/pause:1"\n'
POD = """apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: db
  annotations:
    volume.podman.io/driver: holdfast
spec:
  accessModes: [ReadWriteOnce]
---
apiVersion: v1
kind: Pod
metadata:
  name: pod
spec:
  restartPolicy: Never
  volumes:
    - name: data
      persistentVolumeClaim:
        claimName: db
  containers:
    - name: one
      image: localhost/bb:1
      command: [/bin/sh, -c, "echo of a pod >> /data/log; sleep 100000"]
      volumeMounts:
        - name: data
          mountPath: /data
"""


class Volumes:
    def __init__(self, engine):
        self.engine, self.room = engine, World(nodes=2)
        self.command = [*engine.command, *(["-H", f"unix://{engine.work}/engine.sock"] if engine.engine == "docker" else [])]

    def open(self):
        os.makedirs(SOCKETS, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M,mode=700", "plugins", SOCKETS], check=True)
        if self.engine.engine == "podman":
            self.engine.write_volume_plugins(SOCKETS, PLUGINS, INFRA)
            self.make_pause()
        self.room.open()
        self.room.start_agents()
        self.room.holdfast("volume", "register", self.room.volume_spec())
        for name in PLUGINS:
            self.start_plugin(name)

    def make_pause(self):
        folder = self.engine.work / "image"
        pause = folder / "bin/pause"
        pause.write_text("#!/bin/sh\nexec /bin/sleep 100000\n", encoding="ascii")
        pause.chmod(0o755)
        tar = subprocess.run(["tar", "-C", str(folder), "-c", "."], check=True, capture_output=True).stdout
        self.engine.add_image("localhost/pause:1", tar, "/bin/pause")

    def start_plugin(self, name="holdfast"):
        state = self.engine.work / f"state-{name}"
        state.mkdir(exist_ok=True)
        self.engine.start(name, [f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "volume", "docker-plugin",
                                 f"{SOCKETS}/{name}.sock", "--node", PLUGINS[name], "--timeout", "60s"],
                          env=dict(os.environ) | {"STATE_DIRECTORY": str(state), "HOLDFAST_PUBLISH_DIR": self.publish_dir(name)})  # fmt: skip
        wait_for("the plugin listens", lambda: self.listens(name))

    def publish_dir(self, name="holdfast"):
        (node,) = [n for n in self.room.nodes if n.id == PLUGINS[name]]
        return f"{node.dir}/publish"

    def listens(self, name):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(f"{SOCKETS}/{name}.sock") == 0

    def kill_plugin(self, name="holdfast"):
        self.engine.kill_driver(name)

    def words(self, *args):
        return [*self.command, *args]

    def ask(self, *args, check=True):
        """The engine's own command."""
        done = subprocess.run(self.words(*args), env=self.engine.env, capture_output=True, text=True, timeout=240, check=False)
        assert not check or done.returncode == 0, f"{args}: {done.returncode} {done.stdout} {done.stderr}"
        return done

    def run_words(self, name, volume, script, *options):
        return ("run", "--network=none", f"--name={name}", *options, "-v", f"{volume}:/data", "localhost/bb:1", "/bin/sh", "-c", script)

    def run(self, name, volume, script, *options, check=True):
        return self.ask(*self.run_words(name, volume, script, *options), check=check)

    def serve(self, name, volume="db"):
        self.run(name, volume, f"echo {name} >> /data/log; sleep 100000", "-d")

    def remove(self, *names):
        for name in names:
            self.ask("rm", "-f", "-t", "0", name) if self.engine.engine == "podman" else self.ask("rm", "-f", name)

    def is_free(self):
        wait_for("the claim to be free", lambda: not self.room.live_claims(), 90)
        assert [m for n in self.room.nodes for m in n.mounts()] == []

    def record(self, name="holdfast", volume="db"):
        with open(self.engine.work / f"state-{name}" / f"{volume}.json", encoding="ascii") as f:
            return json.load(f)

    def post(self, path, body, name="holdfast"):
        """What an engine sends, byte by byte: status and body of the answer."""
        head = f"POST {path} HTTP/1.1\r\nHost: holdfast\r\nContent-Type: {TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(100)
            s.connect(f"{SOCKETS}/{name}.sock")
            s.sendall(head.encode() + body.encode())
            said = b""
            while part := s.recv(65536):
                said += part
        head, _, body = said.decode().partition("\r\n\r\n")
        return int(head.split()[1]), body

    def answer(self, method, **request):
        status, body = self.post(f"/VolumeDriver.{method}", json.dumps(request))
        found = json.loads(body)
        assert status == (500 if found["Err"] else 200), f"{method}: {status} {body}"
        return found

    def close(self):
        for name in PLUGINS:
            if name in self.engine.processes:
                self.kill_plugin(name)
        World.close(self.room)
        subprocess.run(["umount", "-l", SOCKETS], check=False)

    # --- the cases, in their order

    def a_bad_request_is_answered_and_changes_nothing(self):
        assert json.loads(self.post("/Plugin.Activate", "")[1])["Implements"] == ["VolumeDriver"]
        for path, body in (("/VolumeDriver.Mount", "{"), ("/VolumeDriver.Mount", '{"Name": 7}'), ("/VolumeDriver.None", "{}"),
                           ("/VolumeDriver.Create", json.dumps({"Name": "x" * 70000}))):  # fmt: skip
            status, said = self.post(path, body)
            assert 400 <= status < 500 and (path.endswith("None") or len(body) > 65536 or json.loads(said)["Err"]), f"{path} {body[:40]}: {status} {said}"
        for method, request, said in (
            ("Create", {"Name": "../db"}, "volume name '../db' must be 1 to 64"),
            ("Create", {"Name": "db", "Opts": {"size": "1G"}}, "unknown option size"),
            ("Create", {"Name": "db", "Opts": {"read_only": "yes"}}, "is true or false, not 'yes'"),
            ("Create", {"Name": "db", "Opts": {"access_mode": "any"}}, "single-node-writer"),
            ("Create", {"Name": "nothing", "Opts": None}, "nothing"),
            ("Mount", {"Name": "db", "ID": "1"}, "no volume db was made on this machine"),
            ("Get", {"Name": "db"}, "no volume db was made on this machine"),
        ):
            found = self.answer(method, **request)
            assert found["Err"].startswith("holdfast: ") and said in found["Err"], f"{method} {request}: {found}"
        assert self.answer("Unmount", Name="db", ID="1")["Err"] == self.answer("Remove", Name="db")["Err"] == ""
        assert self.answer("List")["Volumes"] == [] and self.answer("Capabilities")["Capabilities"] == {"Scope": "local"}

    def a_volume_that_the_server_does_not_have_is_refused_in_the_engines_output(self):
        done = self.ask("volume", "create", "--driver", "holdfast", "nothing", check=False)
        assert done.returncode != 0 and "holdfast: " in done.stderr and "nothing" in done.stderr, done.stderr

    def a_container_has_the_volume_as_long_as_it_runs(self):
        for _ in range(2):  # the same once more is no mistake
            assert self.answer("Create", Name="db", Opts={})["Err"] == ""
        assert "other options" in self.answer("Create", Name="db", Opts={"read_only": "true"})["Err"]
        assert self.answer("Remove", Name="db")["Err"] == ""
        self.ask("volume", "create", "--driver", "holdfast", "db")
        self.run("once", "db", "echo kept > /data/kept", "--rm")
        self.is_free()
        assert all(c["evidence"] == "EVIDENCE_RECEIPT" for c in self.room.claims())
        assert self.run("again", "db", "cat /data/kept", "--rm").stdout == "kept\n"
        self.is_free()

    def a_copy_into_a_running_container_leaves_its_claim(self):
        """Docker mounts the volume once more for it, with the same id."""
        self.serve("one")
        before = self.room.live_claims()
        self.ask("cp", __file__, "one:/copied") if self.engine.engine == "docker" else self.ask("volume", "mount", "db")
        assert self.room.live_claims() == before
        self.ask("exec", "one", "/bin/sh", "-c", "echo more >> /data/log")
        if self.engine.engine == "podman":
            self.ask("volume", "unmount", "db")
        self.remove("one")
        self.is_free()

    def a_second_node_is_reported_who_holds_the_volume(self):
        self.serve("one")
        self.ask("volume", "create", "--driver", "holdfast-2", "-o", "volume=db", "other")
        done = self.run("late", "other", "true", check=False)
        assert done.returncode != 0 and "holdfast: " in done.stderr and "node-1" in done.stderr, done.stderr
        self.remove("late")
        (claim,) = self.room.live_claims()
        self.serve("two")  # on the same node they share it
        self.remove("one")
        assert [c["id"] for c in self.room.live_claims()] == [claim["id"]]
        self.remove("two")
        self.is_free()
        self.run("late", "other", "cat /data/log", "--rm")
        self.is_free()

    def have_volume(self):
        if not self.answer("List")["Volumes"]:  # a case alone
            self.ask("volume", "create", "--driver", "holdfast", "db")

    def a_container_stopped_without_the_server_starts_again_only_with_a_claim(self):
        """podman counts a mount until its unmount is answered, and asks for no second one."""
        self.have_volume()
        self.serve("one")
        before = self.record()["alloc_id"]
        self.room.server.kill(signal.SIGKILL)
        self.ask("stop", "-t", "0", "one")
        wait_for("the mount to be off the record", lambda: not self.record().get("mount_ids"))
        done = self.ask("start", "one", check=False)
        assert done.returncode != 0 and "holdfast: " in done.stderr, f"{done.stdout} {done.stderr}"
        self.room.start_server()
        self.is_free()
        self.ask("start", "one")
        (claim,) = self.room.live_claims()
        assert claim["allocation_id"] == self.record()["alloc_id"] != before, f"{claim} {before}"
        self.remove("one")
        self.is_free()

    def an_unmount_is_answered_while_the_plugin_is_at_its_limit(self):
        refused = []

        def create(n):
            if "are being worked on already" in self.answer("Create", Name=f"none-{n}", Opts={})["Err"]:
                refused.append(n)

        self.have_volume()
        self.serve("one")
        (mount,) = self.record()["mount_ids"]
        self.room.server.process.send_signal(signal.SIGSTOP)
        threads = [threading.Thread(target=create, args=(n,)) for n in range(70)]
        try:
            for thread in threads:
                thread.start()
            wait_for("the limit", lambda: refused)
            assert [v["Name"] for v in self.answer("List")["Volumes"]].count("db") == 1
            assert self.answer("Unmount", Name="db", ID=mount)["Err"] == ""
            wait_for("the mount to be off the record", lambda: not self.record().get("mount_ids"))
        finally:
            self.room.server.process.send_signal(signal.SIGCONT)
            for thread in threads:
                thread.join()
        self.remove("one")
        self.is_free()

    def a_plugin_that_is_stopped_finishes_its_releases(self):
        self.have_volume()
        self.serve("one")
        self.remove("one")
        plugin = self.engine.processes["holdfast"]
        plugin.terminate()
        plugin.wait(30)
        assert not self.record().get("alloc_id"), self.record()
        self.kill_plugin()
        self.start_plugin()
        self.is_free()

    def a_mount_waits_in_the_queue_of_its_volume_and_an_engine_that_gives_up_leaves_it(self):
        self.have_volume()
        self.ask("volume", "create", "--driver", "holdfast-2", "-o", "volume=db", "-o", "wait=10m", "standby")
        self.serve("one")
        with socket.socket(socket.AF_UNIX) as s:  # an engine that ends while it waits
            s.connect(f"{SOCKETS}/holdfast-2.sock")
            body = json.dumps({"Name": "standby", "ID": "gone"})
            s.sendall(f"POST /VolumeDriver.Mount HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            wait_for("the first one to wait", lambda: self.queue() == [("1", "docker-standby")])
        wait_for("its end", lambda: not self.queue())
        waiting = subprocess.Popen(self.words(*self.run_words("standby", "standby", "cat /data/log", "--rm")),
                                   env=self.engine.env, stdout=subprocess.PIPE, text=True)  # fmt: skip
        wait_for("the second one to wait", lambda: self.queue() == [("1", "docker-standby")])
        self.remove("one")
        log = waiting.communicate(timeout=240)[0]
        assert waiting.returncode == 0 and log.endswith("one\n"), f"{waiting.returncode} {log}"
        self.is_free()
        self.ask("volume", "rm", "standby")

    def queue(self):
        why = self.room.holdfast("volume", "status", "db", "--why").stdout
        return re.findall(r"^(\d+)\. in its queue: ([^,]*), allocation .*, on node node-2, for ", why, re.M)

    def a_container_is_given_the_path_of_its_allocation(self):
        self.serve("one")
        made = f"{self.publish_dir()}/{self.record()['alloc_id']}/0"
        assert self.answer("Get", Name="db")["Volume"]["Mountpoint"] == self.record()["path"] == made
        self.remove("one")
        self.is_free()
        self.kill_plugin()  # another tree than the helper's: nothing is there
        self.publish_dir, own = (lambda _: "/run/another/publish"), self.publish_dir
        self.start_plugin()
        done = self.run("lost", "db", "true", check=False)
        assert done.returncode != 0 and "holdfast: " in done.stderr, done.stderr
        self.remove("lost")
        self.kill_plugin()
        self.publish_dir = own
        self.start_plugin()
        self.is_free()

    def a_reader_cannot_write_and_a_volume_that_could_be_written_is_refused_to_it(self):
        self.ask("volume", "create", "--driver", "holdfast", "-o", "volume=db", "-o", "read_only=true", "reader")
        done = self.run("reads", "reader", "echo bad > /data/bad", check=False)
        assert done.returncode != 0 and "cannot be read_only" in done.stderr, f"{done.stdout} {done.stderr}"
        self.remove("reads")
        self.is_free()
        self.ask("volume", "rm", "reader")
        done = self.ask("run", "--rm", "--network=none", "--name=reads", "-v", "db:/data:ro", "localhost/bb:1", "/bin/sh", "-c",
                        "grep ' /data ' /proc/mounts; echo bad > /data/bad", check=False)  # fmt: skip
        assert done.returncode != 0 and re.search(" /data [^ ]* ro[, ]", done.stdout), f"{done.stdout} {done.stderr}"
        self.is_free()
        assert self.run("looks", "db", "ls /data", "--rm").stdout.split().count("bad") == 0
        self.is_free()

    def a_plugin_and_an_agent_that_are_killed_change_no_mount(self):
        self.serve("one")
        before = self.room.live_claims()
        self.kill_plugin()
        self.room.nodes[0].daemon.kill(signal.SIGKILL)
        self.start_plugin()
        self.room.nodes[0].start()
        self.room.nodes[0].wait_connected()
        assert [c["id"] for c in self.room.live_claims()] == [c["id"] for c in before]
        assert self.answer("Get", Name="db")["Volume"]["Mountpoint"] == self.record()["path"] != ""
        self.ask("exec", "one", "/bin/sh", "-c", "echo still >> /data/log")
        self.remove("one")
        self.is_free()

    def a_plugin_killed_while_it_mounts_leaves_no_claim(self):
        for claims in (1, 0):  # before the answer, and before the server was asked
            run = subprocess.Popen(self.words(*self.run_words("cut", "db", "sleep 100000", "-d")), env=self.engine.env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            wait_for("the mount to begin", lambda: len(self.room.live_claims()) >= claims and self.record().get("alloc_id"))
            self.kill_plugin()
            self.start_plugin()
            run.wait(240)
            if self.ask("inspect", "cut", check=False).returncode == 0:
                self.remove("cut")
            found = self.record()
            if found.get("mount_ids"):  # killed after the mount was noted, before the engine heard of it
                self.room.holdfast("alloc", "stop", found["alloc_id"])
            self.is_free()

    def a_pod_of_a_kubernetes_file_has_its_volume(self):
        path = self.engine.work / "pod.yaml"
        path.write_text(POD, encoding="ascii")
        self.ask("volume", "rm", "db")
        self.ask("play", "kube", "--network=none", str(path))
        (claim,) = self.room.live_claims()
        assert claim["node_id"] == "node-1", claim
        done = self.run("late", "other", "true", check=False)
        assert done.returncode != 0 and "node-1" in done.stderr, done.stderr
        self.remove("late")
        wait_for("the pod to write", lambda: "of a pod" in self.ask("exec", "pod-one", "/bin/cat", "/data/log").stdout)
        self.ask("play", "kube", "--down", str(path))
        self.is_free()

    def an_engine_that_ends_gives_its_volumes_back(self):
        self.serve("one")
        self.engine.processes["engine"].terminate()
        self.engine.processes["engine"].wait(60)
        self.is_free()
        self.engine.start_engine()
        self.ask("start", "one")
        wait_for("the claim", self.room.live_claims)
        self.remove("one")
        self.is_free()

    def a_volume_that_is_removed_is_forgotten_and_keeps_its_data(self):
        self.serve("one")
        assert "is mounted by 1 containers" in self.answer("Remove", Name="db")["Err"]
        self.remove("one")
        self.ask("volume", "rm", "db")
        self.ask("volume", "rm", "other")
        wait_for("the plugin's state to be empty", lambda: os.listdir(self.engine.work / "state-holdfast") == ["lock"], 90)
        self.ask("volume", "create", "--driver", "holdfast", "db")
        assert self.run("again", "db", "cat /data/kept", "--rm").stdout == "kept\n"
        self.ask("volume", "rm", "db")
        self.is_free()


def cases(engine, named=""):
    """Yields (name, why it failed or None)."""
    volumes = Volumes(engine)
    try:
        volumes.open()
        for name, case in vars(Volumes).items():
            if not name.startswith(("a_", "an_")) or not re.search(named, name):
                continue
            if engine.engine == "podman" and name.startswith("an_engine_"):
                continue  # it has no process that containers need
            if not engine.suite and name.startswith("a_pod_"):
                continue  # Docker has none, and podman 4.3 makes one only with cgroups
            try:
                case(volumes)
                yield name, None
            except Exception:  # noqa: BLE001 a case that fails is told
                said = "".join((engine.work / f"{n}.log").read_text(errors="replace")[-2000:] for n in PLUGINS)
                said += "".join(path.read_text(errors="replace") for path in engine.work.glob("state-*/*.json"))
                yield name, traceback.format_exc() + said + volumes.room.holdfast("volume", "status", "db", "--why", check=False).stdout
                return
    finally:
        volumes.close()
