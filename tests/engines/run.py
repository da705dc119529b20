#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The driver of containers with real engines: podman and Docker of Debian's packages, as root.

run.py [--build FOLDER] [--only driver|launch|flow|plugins|volumes|servers|faults|bench] [--case PATTERN] [--rounds N] [--demo containers|jobs] [podman|docker|podman@SUITE]...   ends with `N passed, N failed`

Each engine runs in namespaces of its own for mounts and processes, without systemd, with storage in memory and an image that is made here
from busybox: no registry, no bridge, no iptables. podman@trixie is that of Debian 13, with all that it starts, in a tree of that release which
has this machine's /run and /opt in it. Nothing is left behind."""
import argparse
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "vm")]

import bench  # noqa: E402
import debian  # noqa: E402
import demo_containers  # noqa: E402
import demo_jobs  # noqa: E402
import faults  # noqa: E402
import flow  # noqa: E402
import image  # noqa: E402
import launch  # noqa: E402
import liar  # noqa: E402
import plugins  # noqa: E402
import servers  # noqa: E402
import volumes  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ALLOC = "0190a6f2-0000-7000-8000-000000000001"
DRIVER_ID = 64997  # an account of no name is one as well
AGENT = "nobody"
WAIT_S = 60

CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
pids_limit = 0
cgroups = "disabled"
label = false
netns = "none"
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
runtime = "crun"
events_logger = "file"
"""

SETTINGS = """cluster = "prod"
node_id = "node-1"
ticket_keys = ["{key}"]
agent_user = "{agent}"
socket = "{work}/run/driver.sock"
engine = "{work}/engine.sock"
publish_dir = "{work}/publish"
stage_dir = "{work}/stage"
state_dir = "{work}/state"
images = ["localhost/bb:1", "bb:1", "localhost/bb:2@*", "localhost/other@*", "localhost/kernel:1", "localhost/linked:*"]
users = ["0", "0:0", "1000"]
networks = ["none", "isolated"]
host_paths = ["{work}/host", "{work}/to-write", "{work}/more", "{work}/over/hidden", "{work}/volume-publish/below", "{work}/volume-stage/below"]
nofile = 1024
nproc = 4096
{old_runc}infra {{
  image = "localhost/bb:1"
  command = ["/bin/sleep", "1000000"]
}}
"""

# $1 becomes the root of the namespace. What goes is made private before, or it would go for everybody.
ENTER_TREE = """
cd "$1"
pivot_root . mnt
mount --make-rprivate /mnt
umount -l /mnt
: >/entered
exec sleep infinity
"""


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=WAIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(self.path)


def ask(work, method, path, body=None):
    connection = Connection(f"{work}/engine.sock")
    try:
        connection.request(method, "/v1.40" + path, body, {"Content-Type": "application/json"} if isinstance(body, str) else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def ask_about(work, path):
    """The description of a path in a container, which is a field of the head."""
    connection = Connection(f"{work}/engine.sock")
    try:
        connection.request("HEAD", "/v1.40" + path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("X-Docker-Container-Path-Stat", "")
    finally:
        connection.close()


def wait_for(what, is_there):
    end = time.monotonic() + WAIT_S
    while not is_there():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not in {WAIT_S} s")
        time.sleep(0.1)


def run(*words):
    subprocess.run(words, check=True)


class World:
    """An engine and the driver with it."""

    def __init__(self, engine, build):
        self.engine, _, self.suite = engine.partition("@")
        self.build, self.work = build, Path(tempfile.mkdtemp(prefix="holdfast-engines-", dir="/run"))
        self.driver = build / "agent/driver-container/holdfast-driver-container"
        self.processes, self.env, self.command = {}, {}, [self.engine]
        self.socket = f"{self.work}/run/driver.sock"

    def begin(self):
        run("mount", "-t", "tmpfs", "-o", "size=2G,mode=755", "holdfast-engines", str(self.work))
        for name in ("run", "publish", "state", "host", "to-write", "more", "more/below", "over", "over/hidden"):
            (self.work / name).mkdir()
        self.publish()
        (self.work / "to-write/shown").write_text("shown\n", encoding="ascii")
        run("mount", "--bind", str(self.work / "to-write"), str(self.work / "host"))
        if self.engine == "podman":  # Docker makes it read-only in time
            run("mount", "-o", "remount,bind,ro", str(self.work / "host"))
        run("mount", "--bind", "-o", "ro", str(self.work / "to-write"), str(self.work / "over/hidden"))
        run("mount", "-t", "tmpfs", "-o", "size=1M,mode=755", "over", str(self.work / "over"))  # hides the read-only mount
        (self.work / "over/hidden").mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=1M,mode=755", "below", str(self.work / "more/below"))
        for tree in ("publish", "stage"):
            folder, at = self.work / f"volume-{tree}", self.work / tree / "volume"
            (folder / "below").mkdir(parents=True)
            at.mkdir(parents=True)
            run("mount", "--bind", str(folder), str(at))
        if self.suite:
            self.enter_suite()
        self.start_engine()
        self.make_image()
        self.allow(self.work / "engine.sock")
        for name in ("run", "state"):
            os.chown(self.work / name, DRIVER_ID, DRIVER_ID)
        self.old_runc = self.runc_line()
        key = subprocess.run([self.test(), "key"], check=True, capture_output=True, text=True).stdout.strip()
        (self.work / "driver.hcl").write_text(SETTINGS.format(key=key, agent=AGENT, work=self.work, old_runc=self.old_runc), encoding="ascii")
        self.start_driver()

    def publish(self):
        """As the helper does: slot 0 host-to-task, slot 1 private, slot 2 private for reading, slot 3 without flags."""
        run("mount", "--make-private", str(self.work))
        for slot, flags in (("0", "rw,nosuid,nodev"), ("1", "rw,nosuid,nodev"), ("2", "ro,nosuid,nodev,noexec"), ("3", "rw")):
            source, at = self.work / f"stage{slot}", self.work / "publish" / ALLOC / slot
            source.mkdir()
            at.mkdir(parents=True)
            (at.parent / f".{slot}" / f"vol-{slot}").mkdir(parents=True)  # the helper's mark
            run("mount", "-t", "tmpfs", "-o", "size=1M,mode=777", "stage", str(source))
            run("mount", "--make-shared", str(source))
            run("mount", "--bind", str(source), str(at))
            run("mount", "-o", f"remount,bind,{flags}", str(at))
            run("mount", "--make-slave" if slot == "0" else "--make-private", str(at))

    def enter_suite(self):
        """A mount namespace whose root is a layer in memory above the tree. Engine and containers find the same paths and mounts in it as
        everybody outside."""
        image.choose(self.suite)
        tree, layers = self.work / "tree", self.work / "layers"
        for folder in (tree, layers / "upper", layers / "work"):
            folder.mkdir(parents=True)
        lower = debian.ensure_tree(str(ROOT), installed=False)
        run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work", "tree", str(tree))
        for name in ("/proc", "/dev", "/sys", "/opt", "/run"):
            run("mount", "--rbind", name, str(tree) + name)
        # a process keeps it: of Linux 6.18, to bind its file fails when its id, drawn on another processor, is below this one's
        self.start("tree", ["unshare", "--mount", "--propagation", "unchanged", "sh", "-euc", ENTER_TREE, "enter", str(tree)])
        wait_for("the tree is entered", (layers / "upper/entered").exists)
        self.command = ["nsenter", f"--mount=/proc/{self.processes['tree'].pid}/ns/mnt", self.engine]

    def test(self):
        return str(self.build / "tests/engines/engines_test")

    def start(self, name, words, **more):
        log = open(self.work / f"{name}.log", "ab")
        self.processes[name] = subprocess.Popen(words, stdout=log, stderr=log, **more)

    def write_volume_plugins(self, folder, names, more=""):
        """The settings of podman with these volume plugins, whose sockets are in @folder, and @more lines of [engine]."""
        settings = CONTAINERS_CONF.replace("[engine]\n", f"[engine]\nvolume_plugin_timeout = 90\n{more}")
        lines = "".join(f'{name} = "{folder}/{name}.sock"\n' for name in names)
        (self.work / "containers.conf").write_text(f"{settings}[engine.volume_plugins]\n{lines}", encoding="ascii")

    def start_engine(self, keeps_tasks=False, storage="overlay"):
        """@keeps_tasks: they continue while it is away, as those of podman always do; @storage: of podman, with images of its own"""
        work, env = self.work, dict(os.environ)
        if self.engine == "docker":
            words = ["dockerd", "--data-root", f"{work}/data", "--exec-root", f"{work}/exec", "-H", f"unix://{work}/engine.sock",
                     "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs", "-p", f"{work}/pid", *(["--live-restore"] if keeps_tasks else [])]  # fmt: skip
        else:
            (work / "containers.conf").write_text(CONTAINERS_CONF, encoding="ascii")
            (work / "storage.conf").write_text(
                f'[storage]\ndriver = "{storage}"\ngraphroot = "{work}/graph-{storage}"\nrunroot = "{work}/runroot-{storage}"\n', encoding="ascii")
            env |= {"CONTAINERS_CONF": f"{work}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{work}/storage.conf"}
            words = [*self.command, "system", "service", "--time=0", f"unix://{work}/engine.sock"]
        self.env = env
        self.start("engine", words, env=env)
        wait_for(f"{self.engine} answers", self.engine_answers)

    def change_storage(self, storage):
        self.stop("engine")
        self.start_engine(storage=storage)
        self.allow(self.work / "engine.sock")

    def engine_answers(self):
        if self.processes["engine"].poll() is not None:
            raise RuntimeError((self.work / "engine.log").read_text(errors="replace")[-3000:])
        try:
            return ask(self.work, "GET", "/_ping")[0] == 200
        except OSError:
            return False

    def make_image(self):
        folder = self.work / "image"
        (folder / "bin").mkdir(parents=True)
        (folder / "var").mkdir()  # tasks write to it: of an overlay, the root itself is read-only for them
        shutil.copy("/bin/busybox", folder / "bin/busybox")
        for name in ("sh", "ls", "cat", "echo", "sleep", "sed", "stty", "touch", "head", "grep"):
            (folder / "bin" / name).symlink_to("busybox")
        tar = subprocess.run(["tar", "-C", str(folder), "-c", "."], check=True, capture_output=True).stdout
        self.image_tar = tar
        self.add_image("localhost/bb:1", tar)

    def add_image(self, name, tar, entry=None, change=None):
        """From a tar of its files; @entry is the program that it starts, @change a line of a Dockerfile."""
        if self.engine == "podman" and change and not change.startswith("WORKDIR"):  # import knows few of them
            (self.work / "image/Dockerfile").write_text(f"FROM localhost/bb:1\n{change}\n", encoding="ascii")
            subprocess.run([*self.command, "build", "-q", "--format", "docker", "-t", name, str(self.work / "image")], check=True,
                           env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            return
        change = [f'ENTRYPOINT ["{entry}"]'] if entry else [change] if change else []
        if self.engine == "podman":  # of 4.3, the call gives it no name
            subprocess.run([*self.command, "import", "-q", *(w for c in change for w in ("--change", c)), "-", name], check=True, input=tar,
                           env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
            return
        repo, _, tag = name.rpartition(":")
        query = {"fromSrc": "-", "repo": repo, "tag": tag} | ({"changes": change[0]} if change else {})
        status, said = ask(self.work, "POST", "/images/create?" + urllib.parse.urlencode(query), tar)
        if status != 200:
            raise RuntimeError(f"image: {status} {said[:500]}")

    def add_linked_images(self):
        """Images with a link, three with a working folder behind it, one with its devices; returns the host's folder that it leads to."""
        behind, image = self.work / "behind", self.work / "linked"
        behind.mkdir(mode=0o700)
        (image / "w/of-image/in").mkdir(parents=True)
        (image / "etc").mkdir()
        (image / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n", encoding="ascii")
        shutil.copytree(self.work / "image/bin", image / "bin", symlinks=True)
        for name in ("way", "[w]", "dev"):
            (image / name).symlink_to(behind)
        tars = [subprocess.run(["tar", "-C", str(image), "-c", "./bin", "./etc", "./w", f"./{name}"], check=True, capture_output=True).stdout
                for name in ("way", "[w]", "dev")]  # fmt: skip
        self.add_image("localhost/linked:1", tars[0])
        self.add_image("localhost/linked:2", tars[0], change="WORKDIR /way/of-image")
        self.add_image("localhost/linked:3", tars[1], change="WORKDIR /[w]/of-image")
        self.add_image("localhost/linked:4", tars[2])
        return behind

    def add_annotated_image(self, name, annotations):
        """Podman's image of busybox once more, with annotations in its manifest."""
        folder = self.work / "annotated"
        podman = {"check": True, "env": self.env, "capture_output": True, "text": True}
        subprocess.run([*self.command, "save", "--format", "oci-dir", "-o", str(folder), "localhost/bb:1"], **podman)
        index = json.loads((folder / "index.json").read_text())
        entry = index["manifests"][0]
        blobs = folder / "blobs/sha256"
        manifest = json.loads((blobs / entry["digest"].removeprefix("sha256:")).read_text())
        config = json.loads((blobs / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
        config["author"] = name  # images of one configuration would be one image
        for part, content in ((manifest["config"], config), (entry, manifest | {"annotations": annotations})):
            data = json.dumps(content).encode()
            part["digest"], part["size"] = f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)
            (blobs / part["digest"].removeprefix("sha256:")).write_bytes(data)
        (folder / "index.json").write_text(json.dumps(index))
        pulled = subprocess.run([*self.command, "pull", "-q", f"oci:{folder}"], **podman).stdout.strip()
        subprocess.run([*self.command, "tag", pulled, name], **podman)
        shutil.rmtree(folder)

    def start_driver(self, name="driver", config=None, at=None, program=None):
        """@at: its socket"""
        at = at or self.socket
        self.start(name, ["setpriv", f"--reuid={DRIVER_ID}", f"--regid={DRIVER_ID}", "--clear-groups", "--no-new-privs",
                          program or str(self.driver),
                          "--config", str(config or self.work / "driver.hcl")])  # fmt: skip
        wait_for("the driver listens", lambda: self.driver_listens(name, at))
        os.chmod(at, 0o666)

    def driver_listens(self, name, at):
        if self.processes[name].poll() is not None:
            raise RuntimeError((self.work / f"{name}.log").read_text(errors="replace")[-3000:])
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(at) == 0

    ALLOC = ALLOC
    DRIVER_ID = DRIVER_ID

    def ask(self, method, path):
        return ask(self.work, method, path)

    def ask_engine(self, method, path, body=None):
        return ask(self.work, method, path, body)

    def ask_about(self, path):
        return ask_about(self.work, path)

    def allow(self, path):
        """The driver's account may speak to this socket."""
        os.chown(path, 0, DRIVER_ID)
        os.chmod(path, 0o660)

    def runc_line(self):
        """The line of root's file without which this engine's runtime starts no task."""
        components = json.loads(ask(self.work, "GET", "/version")[1])["Components"]
        old = [c["Version"] for c in components if "runc" in c["Name"] and re.match(r"(runc version )?1\.[01]\.", c["Version"])]
        return 'old_runc = "accept"\n' if old else ""

    def settings_with_engine(self, path):
        text = (self.work / "driver.hcl").read_text(encoding="ascii")
        other = self.work / "driver-other.hcl"
        other.write_text(text.replace(f"{self.work}/engine.sock", path), encoding="ascii")
        return other

    def made(self):
        """The field of each container on record that was made otherwise than ordered."""
        return re.findall(r" res=refused reason=made code=\S+ field=(\S+)", (self.work / "state/trail.log").read_text(encoding="ascii"))

    def kill_driver(self, name="driver"):
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def phase(self, name, account=AGENT):
        """Output of a phase, run by the agent's account, or another one."""
        env = dict(os.environ) | {"DRIVER_SOCKET": f"{self.work}/run/driver.sock", "WISH": f"{self.work}/agent/wish", "ENGINE": self.engine, "HOST_PATH": f"{self.work}/host",
                                  "HOST_PATH_TO_WRITE": f"{self.work}/to-write", "HOST_PATH_HIDDEN": f"{self.work}/over/hidden", "HOST_PATH_WITH_MORE": f"{self.work}/more", "HOST_PATH_IN_PUBLISH": f"{self.work}/volume-publish/below",
                                  "HOST_PATH_IN_STAGE": f"{self.work}/volume-stage/below", "IMAGE_DIGEST": self.image_digest(), "IMAGE_HAS_DIGEST": "yes" if self.has_digest() else ""}  # fmt: skip
        (self.work / "agent").mkdir(exist_ok=True)
        shutil.chown(self.work / "agent", AGENT)
        done = subprocess.run(["setpriv", f"--reuid={account}", "--regid=nogroup", "--clear-groups", self.test(), name], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=500,
                              check=False)  # fmt: skip
        return done.stdout

    def image_digest(self):
        image = json.loads(ask(self.work, "GET", "/images/localhost/bb:1/json")[1])
        return (image["RepoDigests"] or [f"@{image['Id']}"])[0].partition("@")[2]

    def has_digest(self):
        """Does the engine find the image by its digest?"""
        return self.engine == "podman" and ask(self.work, "GET", f"/images/localhost/other@{self.image_digest()}/json")[0] == 200

    def refusals(self):
        """Reason and code of each that is on record."""
        return re.findall(r" res=refused reason=(\S+) code=(\S+)", (self.work / "state/trail.log").read_text(encoding="ascii"))

    def containers(self):
        return [c["Names"] for c in json.loads(ask(self.work, "GET", "/containers/json?all=1")[1])]

    def make_foreign(self, name, labels=None):
        """A container that is none of the driver's."""
        limits = [{"Name": limit, "Soft": n, "Hard": n} for limit, n in (("nofile", 1024), ("nproc", 4096))]
        body = {"Image": "localhost/bb:1", "Entrypoint": ["/bin/sleep", "1000000"], "HostConfig": {"NetworkMode": "none", "Ulimits": limits},
                "Labels": labels or {}}  # fmt: skip
        for path in (f"/containers/create?name={name}", f"/containers/{name}/start"):
            status, said = ask(self.work, "POST", path, json.dumps(body) if "create" in path else None)
            if status >= 300:
                raise RuntimeError(f"{path}: {status} {said[:500]}")

    def make_old(self, task, boot, node="prod/node-1", runs=False):
        """As the driver makes a container, in a boot; it has run."""
        name = f"holdfast-{ALLOC}-{task}"
        labels = {"alloc": ALLOC, "task": task, "node": node, "boot": boot, "order": "00" * 16, "logs": "engine", "stop_ms": "1000"}
        self.make_foreign(name, {f"dev.holdfast.{key}": value for key, value in labels.items()})
        if not runs:
            ask(self.work, "POST", f"/containers/{name}/kill")
            ask(self.work, "POST", f"/containers/{name}/wait")
        return "/" + name

    def everything(self):
        """All that an agent could have changed in the engine."""
        images = json.loads(ask(self.work, "GET", "/images/json")[1])
        containers = json.loads(ask(self.work, "GET", "/containers/json?all=1")[1])
        return sorted((c["Id"], c["State"]) for c in containers), sorted(i["Id"] for i in images)

    def stop(self, name):
        if name in self.processes and self.processes[name].poll() is None:
            self.processes[name].terminate()
            try:
                self.processes[name].wait(20)
            except subprocess.TimeoutExpired:
                self.processes[name].kill()
                self.processes[name].wait()

    def end(self):
        for name in (*(n for n in self.processes if n != "engine"), "engine"):
            self.stop(name)
        subprocess.run(["umount", "-l", str(self.work)], check=False)  # all below it, too
        self.work.rmdir()


def hostile_cases(world, cases):
    """What a program with the agent's account does to the driver: each attempt is refused with its code, and is on record."""
    foreign = ["foreign", f"holdfast-{ALLOC}-foreign"]
    for name in foreign:
        world.make_foreign(name)
    before, known = world.everything(), len(world.refusals())
    said = world.phase("hostile")
    yield from cases(said)
    yield from cases(world.phase("stranger", "games"))
    tried = [(reason, code, name) for reason, code, name in re.findall(r"^ATTEMPT (\S+) (\S+) (.+)$", said, re.M)]
    found = world.refusals()[known:]
    wrong = [(a, b) for a, b in zip(tried, found) if a[:2] != b]
    right = not wrong and len(tried) == len(found) >= 30
    yield "each_attempt_is_on_record", None if right else f"{len(tried)} attempts, {len(found)} refusals on record, {wrong[:5]}"
    after = world.everything()
    yield "nothing_in_the_engine_has_changed", None if before == after else f"{before}\n{after}"
    for name in foreign:
        ask(world.work, "DELETE", f"/containers/{name}?force=1&v=1")


def old_runc_cases(world):
    """Without root's word an old runc starts nothing."""
    if not world.old_runc:
        return
    settings = world.work / "driver-refuses.hcl"
    settings.write_text((world.work / "driver.hcl").read_text(encoding="ascii").replace(world.old_runc, ""), encoding="ascii")
    before, known = world.everything(), len(world.refusals())
    world.kill_driver()
    world.start_driver(config=settings)
    said = world.phase("old_runc")
    new = world.refusals()[known:]
    right = "[  PASSED  ] 1 test" in said and new == [("old_runc", "FAILED_PRECONDITION")] and world.everything() == before
    yield "an_old_runc_starts_nothing", None if right else f"{new}\n{said[-1500:]}"
    world.kill_driver()
    world.start_driver()


def storage_cases(world, cases):
    """Podman with container roots that are folders of the host."""
    if world.engine != "podman":
        return
    world.change_storage("vfs")
    world.add_image("localhost/bb:1", world.image_tar)
    known = len(world.refusals())
    yield from cases(world.phase("folders"))
    new = world.refusals()[known:]
    yield "a_restart_that_the_storage_forbids_is_on_record", None if new == [("storage", "FAILED_PRECONDITION")] else f"{new}"
    world.change_storage("overlay")


def leftover_cases(world):
    """A driver that begins takes away what an earlier boot left, and nothing else."""
    boot, before = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(), "0190a6f2-0000-7000-8000-0000000000b1"
    stays = [world.make_old("now", boot), world.make_old("runs", before, runs=True), world.make_old("other", before, node="prod/node-2"), "/none"]
    world.make_foreign("none")
    goes = [world.make_old("old", before), world.make_old("older", before)]
    world.kill_driver()
    world.start_driver()

    def there():
        return [name for names in world.containers() for name in names]

    wait_for("what an earlier boot left is gone", lambda: not set(goes) & set(there()))
    time.sleep(1)
    missing = sorted(set(stays) - set(there()))
    yield "what_an_earlier_boot_left_is_removed_and_nothing_else", f"gone as well: {missing}" if missing else None
    for name in stays:
        ask(world.work, "DELETE", f"/containers{name}?force=1&v=1")


def driver_cases(world):
    """Yields (name, why it failed or None)."""

    def cases(said):
        passed = re.findall(r"\[ +OK +\] (\w+)", said)
        failed = sorted(set(re.findall(r"\[ +FAILED +\] ([a-z0-9_]+)$", said, re.M)))
        yield from ((name, None) for name in passed)
        for name in failed:
            yield name, re.search(rf"\[ RUN +\] {name}\n((.|\n)*?)\[  FAILED", said)[1]
        if not passed and not failed:
            yield "phase", said[-3000:] or "said nothing"

    world.add_image("localhost/kernel:1", world.image_tar, change="VOLUME /sys/fs/cgroup")
    behind = world.add_linked_images()
    yield from cases(world.phase("tasks"))
    made = [path.name for path in behind.iterdir()]
    yield "no_folder_of_the_host_is_made_behind_a_link", f"{made}" if made else None
    yield from hostile_cases(world, cases)
    yield from cases(world.phase("begun"))
    world.kill_driver()
    world.start_driver()
    yield from cases(world.phase("killed"))
    yield from liar.cases(world)
    yield from old_runc_cases(world)
    yield from storage_cases(world, cases)
    yield from leftover_cases(world)
    left = world.containers()
    yield "no_container_is_left", f"{left}" if left else None


def scenario(world, only, named, rounds):
    if only in (None, "driver"):
        yield from driver_cases(world)
    world.kill_driver()
    if only in (None, "launch"):
        yield from launch.cases(world)
    if only == "bench":
        yield from bench.cases(world)
    if only in (None, "flow"):
        yield from flow.cases(world, named)
    if only in (None, "plugins"):
        yield from plugins.cases(world, named)
    if only in (None, "volumes"):
        yield from volumes.cases(world, named)
    if only in (None, "servers") and world.engine == "podman" and not world.suite:
        yield from servers.cases(world, named)
    if only in (None, "faults"):
        yield from faults.cases(world, named, rounds)


def test_engine(engine, build, only, named, rounds):
    label = engine.replace("@", "-")
    world, passed, failed = World(engine, build), 0, 0
    try:
        world.begin()
        for name, why in scenario(world, only, named, rounds):
            print(f"FAILED {label}_{name}\n{why}" if why else f"ok {label} {name}", flush=True)
            passed, failed = passed + (why is None), failed + (why is not None)
        if failed:
            for name in ("driver", "engine"):
                print(f"--- {name}\n" + (world.work / f"{name}.log").read_text(errors="replace")[-4000:])
    finally:
        world.end()
    return passed, failed


def watch_demo(build, demo):
    world = World("podman", build)
    try:
        world.begin()
        world.kill_driver()
        return demo.watch(world)
    finally:
        world.end()


def own_mounts():
    """As under systemd all is shared, and cgroups are of version 2 alone."""
    run("mount", "--make-rshared", "/")
    if os.statvfs("/sys/fs/cgroup") and not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        run("umount", "-R", "-l", "/sys/fs/cgroup")
        run("mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--only", choices=["driver", "launch", "flow", "plugins", "volumes", "servers", "faults", "bench"])
    parser.add_argument("--case", default="", help="of flow, those whose name this pattern is in")
    parser.add_argument("--rounds", type=int, default=0, help="of all faults; 0: of the sample's (HOLDFAST_SAMPLE)")
    parser.add_argument("--demo", choices=["containers", "jobs"], help="show what ./dev demo shows of it")
    parser.add_argument("engines", nargs="*", default=["podman", "docker"])
    options = parser.parse_args()
    if os.environ.get("HOLDFAST_ENGINES_INSIDE") != "1":
        os.environ["HOLDFAST_ENGINES_INSIDE"] = "1"
        # what engines leave running for a while goes with the first process of the namespace
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child", "--mount-proc",
                              sys.executable, "-B", *sys.argv])  # fmt: skip
    own_mounts()
    if options.demo:
        sys.exit(watch_demo(options.build.resolve(), {"containers": demo_containers, "jobs": demo_jobs}[options.demo]))
    passed = failed = 0
    for engine in options.engines:
        try:
            p, f = test_engine(engine, options.build.resolve(), options.only, options.case, options.rounds)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            print(f"FAILED {engine}_engine\n{error}")
            p, f = 0, 1
        passed, failed = passed + p, failed + f
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
