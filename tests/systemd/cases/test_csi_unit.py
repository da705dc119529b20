# SPDX-License-Identifier: Apache-2.0
"""A CSI driver as docs/drivers.md says: its folder, its unit, its volume, all of them as they are written there; the driver is one of
those in tests/plugins, under the name that the guide gives it."""

import contextlib
import glob
import json
import os
import re
import subprocess
import unittest
import uuid

import machine
import volume_units as units

LANES = ("container", "vm")
OTHER_RELEASE = ("container",)

GUIDE = "/payload/docs/drivers.md"
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRIVER = "/usr/local/lib/csi/hostpathplugin"
SOCKETS = "/run/holdfast/plugins/hostpath"
DATA = "/var/lib/csi-hostpath"
SETTINGS = {"largest_bytes": 64 << 30}  # images have holes
A, B = "csi-hostpath@a.service", "csi-hostpath@b.service"


def block(begin):
    """The block of the guide that begins so."""
    with open(GUIDE, encoding="utf-8") as f:
        (found,) = [text for text in BLOCK.findall(f.read()) if text.startswith(begin)]
    return found


def install_driver():
    """One that takes the options which the unit of the guide gives it."""
    machine.write(DRIVER, """#!/bin/sh
for option; do
	case $option in
	--endpoint=*) export CSI_ENDPOINT="${option#*=}" ;;
	--nodeid=*) node=${option#*=} ;;
	--statedir=*) state=${option#*=} ;;
	*) exit 2 ;;
	esac
done
exec /usr/bin/python3 -B /payload/plugins/grpcio_plugin.py --state "$state" --node "$node" --messages /payload/plugins/messages
""", 0o755)  # fmt: skip


def hcl(begin):
    """A file of the guide, by how it begins."""
    path = f"/root/{begin.split()[0]}.hcl"
    machine.write(path, block(begin))
    return path


def instance(unit):
    """What the agent says of the plugin that a unit runs, or None."""
    name = f"{unit.partition('@')[2].partition('.')[0]}.sock"
    return next((p for p in machine.agent_status()["plugins"] if os.path.basename(p["socket"]) == name), None)


def wait_healthy(unit):
    def healthy():
        found = instance(unit)
        return found and found.get("state") == "healthy" and found

    try:
        return machine.wait_for(f"{unit} to be healthy", healthy)
    except AssertionError as e:
        raise AssertionError(f"{e}; it says: {machine.agent_status()['plugins']}; {machine.journal('-u', unit)}") from e


def publishes():
    with open(f"{DATA}/calls.jsonl", encoding="utf-8") as f:
        return f.read().count('"method": "NodePublishVolume"')


@contextlib.contextmanager
def process_naming(path):
    """A process of root with this argument, as a driver's mount."""
    with subprocess.Popen(["sh", "-c", "read never", "mount", path], stdin=subprocess.PIPE) as process:
        try:
            yield process.pid
        finally:
            process.kill()


class Driver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        install_driver()
        machine.write("/etc/systemd/system/csi-hostpath@.service", block("[Unit]"))
        machine.systemctl("daemon-reload")
        machine.write(f"{DATA}/orders.json", json.dumps({"settings": SETTINGS}))
        machine.set_up(profiles=f"\t{block('profile hostpath')}")
        machine.systemctl("enable", "--now", A)
        wait_healthy(A)
        machine.holdfast("volume", "create", hcl("id  "))
        cls.alloc = machine.holdfast_json("alloc", "run", hcl("name = "))["allocation"]

    @classmethod
    def tearDownClass(cls):
        machine.systemctl("stop", A, B, check=False)

    def path(self):
        return machine.holdfast_json("alloc", "status", self.alloc["id"])["allocation"]["published"][0]["path"]

    def test_0_the_agent_is_confined_and_the_driver_is_not(self):
        if machine.has_selinux():
            self.assertEqual(machine.domain_of(machine.main_pid("holdfast-agent-socket.service")), "holdfast_agent_t")
            self.assertNotIn("holdfast", machine.domain_of(machine.main_pid(A)))

    def test_1_only_the_agent_reaches_the_socket(self):
        path = f"{SOCKETS}/a.sock"
        for account, reached in (("holdfast", True), ("holdfast-server", False), ("holdfast-mount", False)):
            connect = ("setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", "socat", "-u", "OPEN:/dev/null",
                       f"UNIX-CONNECT:{path}")  # fmt: skip
            self.assertEqual(machine.run(*connect, check=False).returncode == 0, reached, account)

    def test_2_the_workload_has_its_volume_with_the_flags_of_the_floor(self):
        (mount,) = [line for line in machine.mounts_below(f"{machine.TREE}/publish")]
        self.assertEqual(mount.split(" ")[4], self.path())
        self.assertTrue({"nosuid", "nodev", "noexec"} <= set(mount.split(" ")[5].split(",")), mount)
        machine.write(f"{self.path()}/file", "written\n")

    def test_3_the_driver_may_grow_an_ext4_that_is_in_use(self):
        before = os.statvfs(self.path())
        done = machine.holdfast("volume", "expand", "orders", "20GiB", check=False)
        if machine.in_container():  # root there lacks CAP_SYS_RESOURCE
            self.assertIn("resize2fs: Permission denied to resize filesystem", done.stderr)
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        machine.wait_for("a larger file system", lambda: os.statvfs(self.path()).f_blocks > before.f_blocks * 1.5)

    def test_4_a_driver_that_is_killed_comes_back_and_takes_nothing_along(self):
        pid = machine.main_pid(A)
        machine.systemctl("kill", "--kill-whom=all", "--signal=KILL", A)
        machine.wait_for("another process", lambda: machine.main_pid(A) not in (0, pid))
        wait_healthy(A)
        with open(f"{self.path()}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "written\n")

    def test_5_a_newer_instance_takes_over(self):
        machine.systemctl("start", B)
        wait_healthy(B)
        machine.wait_for("the newer one to be used", lambda: instance(B).get("used"))
        machine.systemctl("stop", A)
        self.assertFalse(os.path.exists(f"{SOCKETS}/a.sock"))
        machine.systemctl("restart", "holdfast-agent-socket.service")
        machine.wait_connected()
        wait_healthy(B)
        with open(f"{self.path()}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "written\n")

    def test_6_the_volume_is_released_with_its_data_and_deleted(self):
        machine.holdfast("alloc", "stop", self.alloc["id"])
        machine.wait_for("the claim to be freed", lambda: not units.claims_of("orders"))
        again = machine.holdfast_json("alloc", "run", hcl("name = "))["allocation"]
        with open(again["published"][0]["path"] + "/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "written\n")
        machine.holdfast("alloc", "stop", again["id"])
        machine.wait_for("the claim to be freed", lambda: not units.claims_of("orders"))
        self.assertEqual([], machine.mounts_below(machine.TREE))
        machine.holdfast("volume", "delete", "orders", "--yes")
        machine.holdfast("audit", "verify")

    def test_7_the_confined_agent_sees_and_waits_for_processes_of_a_call_that_was_lost(self):
        alloc, before = str(uuid.uuid4())[:19] + "837a-8eec1ce19687", publishes()
        machine.holdfast("volume", "create", hcl("id  "))
        orders = [{"method": "NodePublishVolume", "do": "hang", "times": 1}]
        machine.write(f"{DATA}/orders.json", json.dumps({"settings": SETTINGS, "orders": orders}))
        machine.holdfast("alloc", "run", hcl("name = "), "--id", alloc, "--no-wait")
        machine.wait_for("the call", lambda: publishes() > before)
        (folder,) = glob.glob(f"{machine.TREE}/stage/.csi/hostpath/*")
        with process_naming(f"{folder}/rw-publish") as pid:
            machine.systemctl("kill", "--kill-whom=all", "--signal=KILL", B)
            machine.wait_for("the process to be named", lambda: f"(pid {pid}, sh)" in str(machine.agent_status()),
                             seen=machine.agent_status)  # fmt: skip
            wait_healthy(B)
            self.assertEqual(publishes(), before + 1)
        machine.holdfast("alloc", "wait", alloc, "--for", "running")
        self.assertEqual(publishes(), before + 2)
        machine.holdfast("alloc", "stop", alloc)
        machine.wait_for("the claim to be freed", lambda: not units.claims_of("orders"))
        machine.holdfast("volume", "delete", "orders", "--yes")


if __name__ == "__main__":
    unittest.main()
