# SPDX-License-Identifier: Apache-2.0
"""A CSI driver in a container, as a system job of two nodes, and a service job on its volumes: whole, with a real engine.

The driver is that of tests/plugins, in an image made of this machine's python3; what it remembers, and the images of its
volumes, are on a native volume that the job claims for it on both nodes. The loop devices, file systems and mounts are real.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

from flow import CLUSTER, PREFIX, Flow, World, wait_for

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/plugins"))
from plugin import prepare  # noqa: E402

IMAGE, PLUGIN = "localhost/csi-disk", "disk-csi"
PYTHON = "/usr/bin/python3.11" if os.path.exists("/usr/bin/python3.11") else "/usr/bin/python3"
TOOLS = ("sh", "mount", "umount", "losetup", "blkid", "mkfs.ext4", "resize2fs", "sync", "cp", "cat", "sleep")
LEFT_OUT = ("__pycache__", "test", "idlelib", "tkinter", "ensurepip", "lib2to3", "pydoc_data", "config-*", "distutils")

SETTINGS = """cluster = "{cluster}"
node_id = "{node.id}"
ticket_keys = ["{key}"]
agent_user = "{node.user}"
socket = "{node.driver_dir}/container/container.sock"
engine = "{work}/engine.sock"
publish_dir = "{node.dir}/publish"
plugin_dir = "{node.plugin_dir}"
stage_dir = "{node.dir}/stage"
state_dir = "{work}/state-{node.id}"
images = ["localhost/bb:1"]
users = ["0", "image"]
nofile = 1024
nproc = 4096
{old_runc}csi_plugin "disk-csi" {{
  images = ["localhost/csi-disk:*"]
  {power}
}}
csi_plugin "first-csi" {{
  images = ["localhost/csi-disk:*"]
  {power}
}}
csi_plugin "second-csi" {{
  images = ["localhost/csi-disk:*"]
  {power}
}}
"""

# Of what an engine gives to a privileged container this machine has not all for Docker: its driver makes no device then.
POWER = {"podman": ("privileged = true", "privileged = true", "ext4"),
         "docker": ('capabilities = ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_CHOWN"]',
                    'cap_add = ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_CHOWN"]', "bind")}

STATE_VOLUME = """id = "csi-state"
type = "native"
profile = "data"
source {
  class = "bind"
  host_volume = "data"
}
capability {
  access_mode = "multi-node-multi-writer"
  attachment_mode = "file-system"
}
"""

PLUGIN_JOB = """job "csi-disk" {
  type = "system"

  group "node" {
    update {
      max_parallel     = 1
      min_healthy_time = "1s"
      healthy_deadline = "60s"
    }

    volume "state" {
      source          = "csi-state"
      access_mode     = "multi-node-multi-writer"
      attachment_mode = "file-system"
    }

    task "plugin" {
      driver = "container"

      csi_plugin {
        id             = "disk-csi"
        type           = "monolith"
        mount_dir      = "/csi"
        health_timeout = "60s"
      }

      volume_mount {
        volume      = "state"
        destination = "/state"
      }

      restart {
        delay = "1s"
      }

      stop_timeout = "1s"

      config {
        image      = "IMAGE"
        POWER
      }
    }
  }
}
"""

VOLUME = """id = "db[{index}]"
type = "csi"
plugin_id = "disk-csi"
capacity_min = "16MiB"
parameters {{
  kind = "{kind}"
}}
capability {{
  access_mode = "single-node-single-writer"
  attachment_mode = "file-system"
}}
"""

SERVICE_JOB = """job "db" {
  type = "service"

  group "db" {
    count = 2

    update {
      max_parallel     = 1
      min_healthy_time = "1s"
    }

    volume "data" {
      source          = "db"
      per_alloc       = true
      access_mode     = "single-node-single-writer"
      attachment_mode = "file-system"
    }

    task "main" {
      driver = "container"

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      stop_timeout = "2s"

      config {
        image   = "localhost/bb:1"
        command = ["/bin/sh", "-c", "echo $HOLDFAST_NODE_ID >> /data/log; while true; do sleep 1; done"]
      }
    }
  }
}
"""


def run_inside(pid, command):
    """As root with all rights, where a container's process is."""
    return subprocess.run(["nsenter", f"--target={pid}", "--mount", "--root", "--wd", "/bin/sh", "-c", command], check=False, capture_output=True, text=True)


def libraries(programs):
    """Of all of them, with the loader."""
    said = subprocess.run(["ldd", *programs], check=False, capture_output=True, text=True).stdout
    return {word for line in said.splitlines() for word in line.split() if word.startswith("/") and not word.endswith(":")}


def copy_into(folder, path):
    """At the same place; /lib and the like are below /usr as on the host."""
    real = Path(os.path.realpath(os.path.dirname(path))) / os.path.basename(path)
    target = folder / str(real).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    shutil.copymode(path, target)


def make_folder(folder):
    """The file system of the driver's image."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(f"usr/{name}")
    for name in ("tmp", "run", "proc", "sys", "dev", "etc", "state"):
        (folder / name).mkdir()
    python = Path(f"/usr/lib/{os.path.basename(PYTHON)}")
    packages = Path("/usr/lib/python3/dist-packages")
    shutil.copytree(python, folder / str(python).lstrip("/"), ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=False,
                    ignore_dangling_symlinks=True)
    for name in ("grpc", "google", "six.py"):
        source, target = packages / name, folder / str(packages).lstrip("/") / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copyfile(source, target)
    programs = [PYTHON, *(shutil.which(tool) for tool in TOOLS)]
    modules = [str(p) for base in (python / "lib-dynload", packages / "grpc", packages / "google") for p in base.rglob("*.so")]
    for path in {*programs, *libraries(programs + modules)}:
        copy_into(folder, path)
    messages, _ = prepare()
    shutil.copytree(ROOT / "tests/plugins", folder / "plugin", ignore=shutil.ignore_patterns("__pycache__", "*.js*", "*.md"))
    shutil.copytree(messages, folder / "plugin/messages")
    (folder / "entry").write_text("#!/bin/sh\nexec " + PYTHON + " -B /plugin/grpcio_plugin.py --state /state"
                                  ' --node "csi-$HOLDFAST_NODE_ID" --messages /plugin/messages\n', encoding="ascii")
    (folder / "entry").chmod(0o755)


class Plugins(Flow):
    """One engine, two nodes, each with a driver of containers of its own."""

    def __init__(self, engine):
        super().__init__(engine)
        self.allowed, self.asked, self.kind = POWER[engine.engine]
        self.provider = engine.work / "provider"
        self.drivers = {}
        for node in self.room.nodes:
            node.hostvol = str(self.provider)
            node.profiles = lambda node=node: type(node).profiles(node).replace(f"owner_uid = {node.uid}", "owner_uid = 0") + (
                "".join(f"	profile {name} {{ class = csi }}\n" for name in (PLUGIN, "first-csi", "second-csi")))

    def open(self):
        self.make_images()
        self.provider.mkdir()
        self.room.open()
        for node in self.room.nodes:
            self.make_folders(node)
        self.room.start_agents()
        for node in self.room.nodes:
            self.start_node_driver(node)
        self.node = self.room.nodes[0]
        self.room.holdfast("volume", "register", self.room.spec("state.hcl", STATE_VOLUME))
        wait_for("the server to know both drivers", self.drivers_are_healthy)

    def make_images(self):
        folder = self.engine.work / "csi-image"
        make_folder(folder)
        tar = subprocess.run(["tar", "-C", str(folder), "-c", "."], check=True, capture_output=True).stdout
        shutil.rmtree(folder)
        for tag in ("1", "2"):
            self.engine.add_image(f"{IMAGE}:{tag}", tar, entry="/entry")

    def make_folders(self, node):
        driver = self.engine.DRIVER_ID
        for folder in (f"{node.driver_dir}/container", str(self.engine.work / f"state-{node.id}"), node.plugin_dir):
            os.makedirs(folder, exist_ok=True)
            os.chown(folder, driver, driver)
        os.chmod(f"{node.driver_dir}/container", 0o755)
        # as the package's tmpfiles.d: the driver makes folders here, the agent looks into them
        os.chmod(node.plugin_dir, 0o750)
        subprocess.run(["setfacl", "--modify", f"u:{node.user}:rx,d:u::rwx,d:u:{node.user}:rwx,d:u:{driver}:rwx,d:g::-,d:m::rwx,d:o::-", node.plugin_dir],
                       check=True)

    def start_node_driver(self, node):
        path = self.engine.work / f"driver-{node.id}.hcl"
        path.write_text(SETTINGS.format(cluster=CLUSTER, node=node, key=self.room.ticket_key(), work=self.engine.work,
                                        power=self.allowed, old_runc=self.engine.old_runc),
                        encoding="ascii")
        self.engine.start_driver(f"driver-{node.id}", path, f"{node.driver_dir}/container/container.sock",
                                 f"{PREFIX}/sbin/holdfast-driver-container")

    def drivers_are_healthy(self):
        return all(any(d["healthy"] for d in self.room.json("node", "status", node.id)["node"].get("drivers", []))
                   for node in self.room.nodes)

    def close(self):
        for node in self.room.nodes:
            if f"driver-{node.id}" in self.engine.processes:
                self.engine.kill_driver(f"driver-{node.id}")
        World.close(self.room)

    # --- jobs

    def submit(self, name, text, *options):
        return self.room.holdfast("job", "run", "--detach", self.room.spec(f"{name}.hcl", text), *options)

    def members(self, name):
        """Allocations of the job that have not ended, in the order of index and node."""
        found = self.room.json("alloc", "status").get("allocations", [])
        return sorted((a for a in found if a.get("job_id") == name and a["client_status"] not in ("COMPLETE", "FAILED", "LOST")),
                      key=lambda a: (a.get("job_index", 0), a["node_id"]))

    def running(self, name, n, version=None):
        """Once n members run, all of a version."""
        def reached():
            found = self.members(name)
            return (len(found) == n and all(a["client_status"] == "RUNNING" and a["desired_status"] == "RUN" for a in found)
                    and all(version in (None, a.get("job_version")) for a in found) and found)

        return wait_for(f"{n} members of {name} to run", reached, 120)

    def run_plugin(self, tag="1"):
        self.submit("csi-disk", PLUGIN_JOB.replace("IMAGE", f"{IMAGE}:{tag}").replace("POWER", self.asked))
        self.plugin_is_healthy()

    def plugin_is_healthy(self, n=2):
        def healthy():
            done = self.room.holdfast("plugin", "status", PLUGIN, "--json", check=False)
            found = json.loads(done.stdout)["plugin"] if done.returncode == 0 else {}
            return (found.get("nodes_healthy", 0), found.get("controllers_healthy", 0)) == (n, n)

        wait_for(f"plugin {PLUGIN} to be healthy on {n} nodes", healthy, 120)

    def make_volumes(self):
        for index in (0, 1):
            self.room.holdfast("volume", "create", self.room.spec("db.hcl", VOLUME.format(index=index, kind=self.kind)))

    def published(self, alloc):
        node = next(n for n in self.room.nodes if n.id == alloc["node_id"])
        return node.published(alloc["id"])

    def log(self, alloc):
        """Which nodes have written on the volume of the allocation."""
        def written():
            try:
                with open(f"{self.published(alloc)}/log", encoding="ascii") as f:
                    return f.read().split()
            except FileNotFoundError:
                return None

        return wait_for("the task to have written", written)

    def mounts_of(self, alloc):
        """With their ids, as the kernel has them: what was mounted anew has another one."""
        path = self.published(alloc)
        with open("/proc/self/mountinfo", encoding="ascii") as f:
            return [line for line in f if line.split(" ")[4] == path]

    def own_containers(self, task):
        return [c for c in json.loads(self.engine.ask("GET", "/containers/json?all=1")[1]) if c["Labels"].get("dev.holdfast.task") == task]

    # --- the cases, in their order

    def a_plugin_of_a_system_job_serves_both_nodes(self):
        self.run_plugin()
        found = self.running("csi-disk", 2)
        assert [a["node_id"] for a in found] == [n.id for n in self.room.nodes], found
        shown = self.room.json("plugin", "status", PLUGIN)["plugin"]
        assert sorted(a["id"] for a in shown["allocations"]) == sorted(a["id"] for a in found), shown
        for node in self.room.nodes:
            at = f"{node.plugin_dir}/{PLUGIN}/csi.sock"
            said = subprocess.run(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "test", "-e", at], check=False)
            assert os.path.exists(at) and said.returncode != 0, f"{at} is there for everybody"
        self.make_volumes()
        self.submit("db", SERVICE_JOB)
        for alloc in self.running("db", 2):
            assert self.log(alloc) == [alloc["node_id"]] and len(self.mounts_of(alloc)) == 1, alloc

    def a_plugin_reaches_no_staging_folder_of_another_one(self):
        """Its container has its own folder of the stage tree; what it makes there is on the node, and nothing above it is there."""
        for container in self.own_containers("plugin"):
            pid = json.loads(self.engine.ask("GET", f"/containers/{container['Id']}/json")[1])["State"]["Pid"]
            with open(f"/proc/{pid}/mountinfo", encoding="ascii") as f:
                points = [line.split(" ")[4] for line in f]
            node = next(n for n in self.room.nodes if any(at.startswith(f"{n.dir}/stage") for at in points))
            folders = f"{node.dir}/stage/.csi"
            own = f"{folders}/{PLUGIN}"
            assert own in points and all(at == own or at.startswith(own + "/") for at in points if at.startswith(node.dir)), points
            assert sorted(os.listdir(folders)) == [PLUGIN, "first-csi", "second-csi"]
            for command in (f"cd {folders}/first-csi", f": > {folders}/first-csi/evil", f"cd {own}/../first-csi"):
                assert run_inside(pid, command).returncode != 0, command
            assert run_inside(pid, f"cd {folders} && echo *").stdout.split() == [PLUGIN]
            assert run_inside(pid, f": > {own}/try").returncode == 0
            os.unlink(f"{own}/try")
            assert os.listdir(f"{folders}/first-csi") == []

    def an_update_of_the_plugin_changes_no_mount(self):
        before = {a["id"]: self.mounts_of(a) for a in self.running("db", 2)}
        old = {c["Id"] for c in self.own_containers("plugin")}
        self.run_plugin("2")
        self.running("csi-disk", 2, "2")
        self.plugin_is_healthy()
        new = self.own_containers("plugin")
        assert len(new) == 2 and not old & {c["Id"] for c in new} and all(c["Image"].endswith(":2") for c in new), new
        assert {a["id"]: self.mounts_of(a) for a in self.running("db", 2)} == before

    def a_restart_of_the_agent_restarts_no_plugin(self):
        before = {c["Id"] for c in self.own_containers("plugin")}
        self.kill_agent()
        self.plugin_is_healthy()
        self.running("csi-disk", 2, "2")
        assert {c["Id"] for c in self.own_containers("plugin")} == before

    def a_plugin_that_dies_is_restarted_and_no_mount_changes(self):
        before = {a["id"]: self.mounts_of(a) for a in self.running("db", 2)}
        first = {a["id"] for a in self.members("csi-disk")}
        containers = {c["Id"] for c in self.own_containers("plugin")}
        self.engine.ask("POST", f"/containers/{self.own_containers('plugin')[0]['Id']}/kill")
        wait_for("the plugin to be restarted", lambda: [s for a in self.members("csi-disk") for s in a.get("task_status", []) if s.get("restarts")], 60)
        self.running("csi-disk", 2)
        self.plugin_is_healthy()
        assert {a["id"] for a in self.members("csi-disk")} == first
        assert {c["Id"] for c in self.own_containers("plugin")} == containers
        assert {a["id"]: self.mounts_of(a) for a in self.running("db", 2)} == before

    def a_drained_node_gives_its_member_to_the_other_one_after_its_evidence(self):
        node_1, node_2 = self.room.nodes
        moved = next(a for a in self.running("db", 2) if a["node_id"] == node_1.id)
        self.room.holdfast("node", "drain", node_1.id, "--yes", "--timeout", "60s")
        found = wait_for("both members to run on node-2",
                         lambda: [a["node_id"] for a in self.members("db")] == [node_2.id] * 2 and self.running("db", 2), 120)
        now = next(a for a in found if a["job_index"] == moved["job_index"])
        wait_for("the task to have written", lambda: self.log(now) == [node_1.id, node_2.id])
        claims = self.room.claims(f"db[{moved['job_index']}]")
        freed = next(c for c in claims if c["allocation_id"] == moved["id"])
        assert (freed["state"], freed["evidence"]) == ("FREED", "EVIDENCE_RECEIPT"), claims
        self.plugin_is_healthy(1)
        self.room.holdfast("node", "eligibility", node_1.id, "--enable")
        self.plugin_is_healthy()

    def a_plugin_that_no_node_allows_is_refused_with_a_line_for_each_node(self):
        text = PLUGIN_JOB.replace("csi-disk", "broken").replace("disk-csi", "broken-csi").replace("POWER", "")
        text = text.replace('image      = "IMAGE"', 'image      = "localhost/bb:1"\n        command    = ["/bin/sleep", "1000"]')
        done = self.room.holdfast("job", "run", self.room.spec("broken.hcl", text), check=False)
        for node in self.room.nodes:
            line = f"asks for csi_plugin 'broken-csi', which root's file of driver container on node {node.id} does not allow"
            assert done.returncode == 1 and line in done.stderr, done.stderr
        assert "broken" not in self.room.holdfast("job", "status").stdout

    def a_group_of_two_plugins_runs_when_both_are_healthy(self):
        tasks = "".join(f'''
    task "{name}" {{
      driver = "container"

      csi_plugin {{
        id             = "{name}-csi"
        type           = "monolith"
        health_timeout = "60s"
      }}

      stop_timeout = "1s"

      config {{
        image = "{IMAGE}:1"
        {self.asked}
      }}
    }}
''' for name in ("first", "second"))
        self.submit("pair", 'job "pair" {\n  type = "service"\n\n  group "both" {\n' + tasks + "  }\n}\n")
        alloc, = self.running("pair", 1)
        for name in ("first", "second"):
            shown = self.room.json("plugin", "status", f"{name}-csi")["plugin"]
            assert (shown["nodes_healthy"], shown["nodes_expected"]) == (1, 1), shown
            assert [a["id"] for a in shown["allocations"]] == [alloc["id"]], shown
            assert [i["plugin"]["allocation_id"] for i in shown["instances"]] == [alloc["id"]], shown
        self.kill_agent()
        wait_for("both to be healthy again", lambda: all(
            self.room.json("plugin", "status", f"{name}-csi")["plugin"].get("nodes_healthy") == 1 for name in ("first", "second")), 60)
        assert [a["id"] for a in self.running("pair", 1)] == [alloc["id"]]
        self.room.holdfast("job", "stop", "pair")
        wait_for("both to end", lambda: not self.members("pair") and not self.own_containers("first") + self.own_containers("second"), 60)
        node = next(n for n in self.room.nodes if n.id == alloc["node_id"])
        assert [os.listdir(f"{node.plugin_dir}/{name}-csi") for name in ("first", "second")] == [[], []]

    def no_part_of_it_is_left_at_the_end(self):
        self.room.holdfast("job", "stop", "db")
        wait_for("the members to end", lambda: not self.members("db"), 60)
        self.room.holdfast("job", "stop", "csi-disk")
        wait_for("the plugin to end", lambda: not self.members("csi-disk"), 60)
        assert self.containers() == [], self.containers()
        for node in self.room.nodes:
            assert node.mounts() == [], node.mounts()
            assert os.listdir(f"{node.plugin_dir}/{PLUGIN}") == []
        wait_for("the plugin to be gone", lambda: self.room.holdfast("plugin", "status", PLUGIN, check=False).returncode != 0
                 or not self.room.json("plugin", "status", PLUGIN)["plugin"].get("nodes_healthy"))


def cases(engine, named=""):
    """Yields (name, why it failed or None)."""
    plugins = Plugins(engine)
    try:
        plugins.open()
        for name, case in vars(Plugins).items():
            if not name.startswith(("a_", "an_", "no_", "what_")) or not re.search(named, name):
                continue
            try:
                case(plugins)
                yield name, None
            except Exception:  # noqa: BLE001 a case that fails is told
                said = "".join(f"--- {n.id}\n{n.daemon.said()[-3000:]}" for n in plugins.room.nodes)
                yield name, traceback.format_exc() + said + plugins.room.holdfast("alloc", "status", check=False).stdout
                return
    finally:
        plugins.close()
