#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Take a CSI driver through everything that Holdfast does with one, as root, on one node made for it:

    sudo tests/integration/try_driver.py [options] -- COMMAND...

COMMAND runs the driver in the foreground; {socket}, {node} and {state} (a folder of its own) in it are replaced. One line
per step; exit 0 when all went well. What the driver makes below {state} is removed with it. See docs/drivers.md.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from world import ID_MARK, PREFIX, Failure, World, mounts_below, run, wait_for

MODE, ATTACHMENT = "single-node-writer", "file-system"


class DriverWorld(World):
    """One node with a folder and a profile for the driver, and no disk."""

    def __init__(self, plugin_id):
        super().__init__(nodes=1, plugin_ids=(plugin_id,), agent_settings='plugin_probe_interval = "1s"')

    def make_disk(self):
        pass


class Driver:
    """The process of the driver, as its unit would run it: root's, umask 0002, in the mount namespace of the host."""

    def __init__(self, node, plugin_id, command):
        self.socket = f"{node.plugin_dir}/{plugin_id}/csi.sock"
        self.state = f"{PREFIX}/driver"
        self.log = f"{PREFIX}/log/driver.log"
        os.makedirs(self.state, 0o755, exist_ok=True)
        fields = {"{socket}": self.socket, "{node}": node.id, "{state}": self.state}
        self.argv = [self.fill(word, fields) for word in command]
        self.process = None
        self.sessions = []  # of the drivers that were started and have ended

    @staticmethod
    def fill(word, fields):
        for name, value in fields.items():
            word = word.replace(name, value)
        return word

    def start(self):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, umask=0o002)

    def end(self, sig=signal.SIGTERM):
        """Ends the driver alone, as KillMode=process does: the file server of a FUSE driver lives on."""
        if not self.process:
            return
        if self.process.poll() is None:
            self.process.send_signal(sig)
        self.process.wait(timeout=30)
        self.sessions.append(self.process.pid)
        self.process = None

    def end_all(self):
        """Ends everything that the driver has started."""
        self.end(signal.SIGKILL)
        for session in self.sessions:
            try:
                os.killpg(session, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Trial:
    """The steps, each a method that raises Failure."""

    def __init__(self, world, node, driver, options):
        self.world, self.node, self.driver, self.options = world, node, driver, options
        self.plugin_id, self.volume, self.serial = options.id, "trial", 0
        self.file = f"{self.node.published(self.alloc)}/written"

    @property
    def alloc(self):
        return f"0192f3a0-{self.serial:04d}-7000-{ID_MARK}"

    def plugin(self):
        """What the server knows of it, or None."""
        done = self.world.holdfast("plugin", "status", self.plugin_id, "--json", check=False)
        return json.loads(done.stdout)["plugin"] if done.returncode == 0 else None

    def healthy(self):
        plugin = self.plugin()
        return bool(plugin) and (plugin.get("nodes_healthy", 0) > 0 or plugin.get("controllers_healthy", 0) > 0)

    def abilities(self):
        status = self.world.json("node", "status", self.node.id)
        entries = [p for p in status["node"]["plugins"] if p["plugin_id"] == self.plugin_id]
        return {half: {name for name, has in (entries[0].get(half) or {}).items() if has is True}
                for half in ("controller", "node")}

    def mounts(self):
        return [line.split(" ")[4] for line in mounts_below(self.node.dir)
                if not line.split(" ")[4].startswith(self.node.plugin_dir)]

    def step_the_plugin_is_found(self):
        self.driver.start()
        wait_for("the server to see the plugin healthy", self.healthy, seconds=60)
        plugin = self.plugin()
        for half, names in self.abilities().items():
            print(f"        {half}: {', '.join(sorted(names - {'healthy'})) or 'nothing'}")
        print(f"        {plugin.get('provider')} {plugin.get('provider_version')}")

    def spec(self, size="64MiB"):
        lines = [f'id = "{self.volume}"', 'type = "csi"', f'plugin_id = "{self.plugin_id}"',
                 f'capacity_min = "{size}"',
                 f'capability {{\n  access_mode = "{MODE}"\n  attachment_mode = "{ATTACHMENT}"\n}}']
        if self.options.external_id:
            lines.append(f'external_id = "{self.options.external_id}"')
        if self.options.secrets_file:
            lines.append(f'secrets_file = "{os.path.abspath(self.options.secrets_file)}"')
        if self.options.topology:
            segments = "\n".join(f'"{key}" = "{value}"' for key, value in
                                 (self.filled(pair).split("=", 1) for pair in self.options.topology))
            lines.append(f"topology_request {{\n  preferred {{\n    topology {{\n      segments {{\n{segments}\n      }}\n"
                         "    }\n  }\n}")
        for block in ("parameters", "context"):
            pairs = getattr(self.options, block)
            if pairs:
                body = "\n".join(f'  "{key}" = "{value}"' for key, value in (pair.split("=", 1) for pair in pairs))
                lines.append(f"{block} {{\n{body}\n}}")
        return self.world.spec("trial.hcl", "\n".join(lines) + "\n")

    def filled(self, text):
        return text.replace("{node}", self.node.id)

    def step_a_volume_is_created(self):
        if self.options.external_id:
            print("        registered: " + self.world.holdfast("volume", "register", self.spec(), "--outside").stdout.strip())
            return
        print("        " + self.world.holdfast("volume", "create", self.spec(), "--outside").stdout.strip().replace("\n", "\n        "))
        self.world.holdfast("volume", "create", self.spec(), "--outside")  # resumes, makes nothing twice

    def run_alloc(self):
        spec = self.world.spec(
            "trial-alloc.hcl", f'name = "trial"\ndriver = "none"\nvolume "data" {{\n  source = "{self.volume}"\n'
            f'  access_mode = "{MODE}"\n  attachment_mode = "{ATTACHMENT}"\n}}\n')
        self.world.holdfast("alloc", "run", spec, "--node", self.node.id, "--id", self.alloc)

    def step_an_allocation_has_it(self):
        self.run_alloc()
        target = self.node.published(self.alloc)
        lines = [line for line in mounts_below(self.node.dir) if line.split(" ")[4] == target]
        if len(lines) != 1:
            raise Failure(f"{target} is not mounted once: {self.mounts()}")
        flags = lines[0].split(" ")[5].split(",")
        if not {"nosuid", "nodev", "noexec"} <= set(flags):
            raise Failure(f"{target} lacks the floor: {flags}")
        with open(self.file, "w", encoding="ascii") as f:
            f.write("kept\n")
        for mount in self.mounts():
            print(f"        {mount}")

    def check_data(self):
        with open(self.file, encoding="ascii") as f:
            if f.read() != "kept\n":
                raise Failure(f"{self.file} does not hold what was written")

    def step_the_agent_is_killed_and_started(self):
        before = self.mounts()
        self.node.daemon.kill()
        self.check_data()
        self.node.start()
        self.node.wait_connected()
        self.check_data()
        if self.mounts() != before:
            raise Failure(f"mounts have changed: {self.mounts()}, not {before}")

    def step_the_driver_is_killed_and_started(self):
        before = self.mounts()
        self.driver.end(signal.SIGKILL)
        wait_for("the server to see that the plugin is not healthy", lambda: not self.healthy(), seconds=60)
        self.check_data()
        self.driver.start()
        wait_for("the server to see the plugin healthy again", self.healthy, seconds=60)
        self.check_data()
        if self.mounts() != before:
            raise Failure(f"mounts have changed: {self.mounts()}, not {before}")

    def step_it_is_expanded(self):
        can = self.abilities()
        if "expand" not in can["controller"] or self.options.no_expand:
            print("        left out")
            return
        self.world.holdfast("volume", "expand", self.volume, "128MiB", "--timeout", "60s")
        capacity = int(self.world.json("volume", "status", self.volume)["volume"]["capacity"])
        if capacity < 128 << 20:
            raise Failure(f"the volume has {capacity} bytes")
        self.check_data()

    def step_a_snapshot_is_made_and_deleted(self):
        if "create_delete_snapshot" not in self.abilities()["controller"]:
            print("        left out")
            return
        made = self.world.json("volume", "snapshot", "create", self.volume, "trial-snapshot")
        snapshot = made["snapshots"][0] if "snapshots" in made else made["snapshot"]
        self.world.holdfast("volume", "snapshot", "delete", self.plugin_id, snapshot["snapshot_id"], "--yes")

    def step_a_second_allocation_is_refused(self):
        self.serial = 9
        done = None
        try:
            self.run_alloc()
        except Failure as refused:
            done = str(refused)
        finally:
            self.world.holdfast("alloc", "stop", self.alloc, check=False)
            self.serial = 0
        if not done:
            raise Failure("two allocations have a volume of one")
        print(f"        {done[:160]}")

    def free(self):
        self.world.holdfast("alloc", "stop", self.alloc, "--timeout", "60s")
        wait_for("the claim to be freed", lambda: not self.world.live_claims(self.volume), seconds=60)
        if self.mounts():
            raise Failure(f"still mounted: {self.mounts()}")
        left = self.node.staged()
        if left:
            raise Failure(f"left in the stage: {left}")

    def step_it_is_released(self):
        self.free()

    def step_the_data_is_there_the_next_time(self):
        self.serial += 1
        self.file = f"{self.node.published(self.alloc)}/written"
        self.run_alloc()
        self.check_data()

    def step_it_is_stopped_while_the_driver_is_down(self):
        """Waits for the driver, and then ends."""
        self.driver.end(signal.SIGKILL)
        stop = subprocess.Popen([f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "alloc", "stop", self.alloc],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(3)
        why = self.world.holdfast("volume", "status", self.volume, "--why").stdout
        print("        " + "\n        ".join(line for line in why.splitlines() if line)[-600:])
        if not self.world.live_claims(self.volume):
            raise Failure("the claim was freed although nothing could be unpublished")
        self.driver.start()
        stop.wait(timeout=120)
        self.free()

    def step_the_volume_is_deleted(self):
        if self.options.external_id:
            self.world.holdfast("volume", "deregister", self.volume, "--yes")
            return
        self.world.holdfast("volume", "delete", self.volume, "--yes", "--timeout", "60s")

    def step_the_plugin_goes(self):
        self.driver.end()
        if os.path.exists(self.driver.socket):
            os.unlink(self.driver.socket)
        os.rmdir(os.path.dirname(self.driver.socket))
        wait_for("the server to forget the plugin", lambda: self.plugin() is None or not self.healthy(), seconds=60)

    def steps(self):
        return [getattr(self, name) for name in vars(type(self)) if name.startswith("step_")]


def parse():
    parser = argparse.ArgumentParser(description="Take a CSI driver through everything that Holdfast does with one.")
    parser.add_argument("--id", default="trial", help="plugin id")
    parser.add_argument("--topology", action="append", metavar="KEY=VALUE", help="segment to ask for, {node} is replaced")
    parser.add_argument("--parameters", action="append", metavar="KEY=VALUE")
    parser.add_argument("--context", action="append", metavar="KEY=VALUE")
    parser.add_argument("--external-id", metavar="ID", help="register this volume of the provider and create none: for drivers "
                        "without a controller")
    parser.add_argument("--secrets-file", metavar="FILE", help='key = "value" lines for the driver')
    parser.add_argument("--no-expand", action="store_true", help="do not expand, whatever is announced")
    parser.add_argument("command", nargs="+", help="the driver, after --")
    return parser.parse_args()


def main():
    options = parse()
    world = DriverWorld(options.id)
    node = world.nodes[0]
    driver, went_well = None, False
    try:
        world.open()
        driver = Driver(node, options.id, options.command)
        world.start_agents()
        print(f"driver: {shlex.join(driver.argv)}", flush=True)
        for step in Trial(world, node, driver, options).steps():
            name = step.__name__[5:].replace("_", " ")
            began = time.monotonic()
            try:
                step()
            except (Failure, OSError, KeyError, subprocess.SubprocessError) as why:
                print(f"FAILED  {name}: {why}")
                return 1
            print(f"ok      {name} ({time.monotonic() - began:.1f} s)", flush=True)
        went_well = True
        return 0
    finally:
        if driver:
            driver.end_all()
        if not went_well:
            run("cp", "-r", world.logs, f"/tmp/holdfast-driver-logs-{os.getpid()}", check=False)
            print(f"logs: /tmp/holdfast-driver-logs-{os.getpid()}", flush=True)
        world.close()


if __name__ == "__main__":
    sys.exit(main())
