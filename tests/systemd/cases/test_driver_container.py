# SPDX-License-Identifier: Apache-2.0
"""The driver of containers by its unit, beside podman as docs/containers.md has it, with the example of root's file."""

import os
import re
import signal
import time
import unittest

import machine
import runbook
import test_podman
import volume_units

OTHER_RELEASE = ("container",)

DRIVER = "holdfast-driver-container.service"
PLUGIN_UNIT = "holdfast-docker-plugin.service"
GUIDE = "/payload/docs/containers.md"
EXAMPLE = "/usr/share/holdfast/examples/holdfast-driver-container.hcl"
SOCKET = "/run/holdfast/drivers/container/driver.sock"
ENGINE = "/run/holdfast-driver/podman.sock"
SPEC = """name = "app"
node = "{node}"
volume "data" {{
  source          = "{volume}"
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}}
task "main" {{
  driver = "container"
  volume_mount {{
    volume      = "data"
    destination = "/data"
  }}
  stop_timeout = "1s"
  config {{
    image   = "{image}"
    command = ["/bin/sh", "-c", "echo started >>/data/starts; sleep 100000"]
  }}
}}
"""

PLUGIN = """name = "csi"
node = "{node}"
task "plugin" {{
  driver = "container"
  csi_plugin {{
    id             = "hostpath"
    type           = "node"
    health_timeout = "1h"
  }}
  stop_timeout = "1s"
  config {{
    image   = "{image}"
    command = ["/bin/sh", "-c", "sleep 100000"]
  }}
}}
"""


def block(path):
    """The indented block of the guide that is to be the file at path."""
    with open(GUIDE, encoding="utf-8") as f:
        after = f.read().split(path + ":\n\n")[1]
    return re.sub(r"(?m)^    ", "", re.match(r"(?:    .*\n)+", after)[0])


def set_up_podman():
    path = "/etc/systemd/system/podman.socket.d/holdfast.conf"
    if os.path.islink("/etc/systemd/system/podman.socket"):
        os.unlink("/etc/systemd/system/podman.socket")  # masked in test machines
    machine.write(path, block(path))
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "podman.socket")


def set_up_driver():
    with open(EXAMPLE, encoding="utf-8") as f:
        text = f.read()
    text = text.replace('"prod"', f'"{machine.CLUSTER}"').replace('"worker-1"', f'"{machine.NODE}"')
    text = re.sub(r'ticket_keys = \["\w+"\]', f'ticket_keys = ["{machine.ticket_key()}"]', text)
    text = text.replace("localhost/tools:1", test_podman.IMAGE)
    text = text.replace("registry.example.org/csi/hostpath:1.12.1", test_podman.IMAGE)
    text = re.sub(r"users    = .*", 'users    = ["0", "image"]', text)
    machine.write(f"{machine.ETC}/holdfast-driver-container.hcl", text + "nofile = 1024\nnproc = 4096\n")
    machine.run("holdfast-driver-container", "--check-config")
    machine.systemctl("start", DRIVER)


def driver_is_healthy():
    return any(d["name"] == "container" and d["healthy"] for d in driver_rows())


def driver_rows():
    return (machine.agent_status() or {}).get("drivers", [])


def submit(volume, image):
    machine.holdfast("volume", "register", machine.volume_spec(volume))
    path = f"/root/{volume}.task.hcl"
    machine.write(path, SPEC.format(node=machine.NODE, volume=volume, image=image))
    return machine.holdfast_json("alloc", "run", "--no-wait", path)["allocation"]["id"]


def wait_status(ident, wanted):
    def reached():
        now = machine.holdfast_json("alloc", "status", ident)["allocation"]
        if now["client_status"] in ("FAILED", "LOST") and now["client_status"] != wanted:
            raise AssertionError(f"{now}; {machine.journal('-u', DRIVER)[-3000:]}")
        return now["client_status"] == wanted and now

    return machine.wait_for(f"allocation {ident} to be {wanted}", reached)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return f.read()


def containers():
    return machine.run("podman", "ps", "--all", "--quiet", "--no-trunc").stdout.split()


def connects(account, path):
    """Does a program of the account reach the socket?"""
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
    return machine.run("setpriv", f"--reuid={account}", f"--regid={account if account != 'nobody' else 'nogroup'}", "--init-groups",
                       "python3", "-c", code, check=False).returncode == 0  # fmt: skip


class Driver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.write("/etc/containers/containers.conf", test_podman.IN_CONTAINER)
        os.makedirs("/var/lib/containers", exist_ok=True)
        machine.run("mount", "-t", "tmpfs", "-o", "mode=755", "containers", "/var/lib/containers")
        test_podman.make_image()
        machine.set_up(profiles="profile hostpath {\nclass = csi\nshared = yes\n}\n")
        set_up_podman()
        set_up_driver()
        machine.wait_for("the driver to be healthy", driver_is_healthy,
                         seen=lambda: f"{driver_rows()}; {machine.journal('-u', DRIVER)}")  # fmt: skip

    def test_the_agent_alone_reaches_its_socket_and_not_the_engines(self):
        reached = {account: (connects(account, SOCKET), connects(account, ENGINE))
                   for account in ("holdfast", "nobody", "holdfast-mount", "holdfast-driver")}  # fmt: skip
        self.assertEqual(reached, {"holdfast": (True, False), "nobody": (False, False), "holdfast-mount": (False, False),
                                   "holdfast-driver": (True, True)})  # fmt: skip

    def test_a_task_runs_on_its_volume_through_restarts_and_leaves_nothing(self):
        ident = submit("task", test_podman.IMAGE)
        path = wait_status(ident, "RUNNING")["published"][0]["path"]
        before = containers()
        self.assertEqual(len(before), 1)
        for unit in (DRIVER, "holdfast-agent-socket.service"):
            machine.systemctl("restart", unit)
        machine.wait_connected()
        machine.wait_for("the driver to be healthy", driver_is_healthy)
        wait_status(ident, "RUNNING")
        time.sleep(1)  # for one that would be started again
        self.assertEqual(containers(), before)
        with open(f"{path}/starts", encoding="ascii") as f:
            self.assertEqual(f.read(), "started\n")
        machine.holdfast("alloc", "stop", ident)
        self.assertEqual(containers(), [])
        self.assertEqual(machine.mounts_below(machine.TREE), [])

    def test_the_package_stays_while_a_task_without_a_volume_runs(self):
        spec = re.sub(r'(?ms)^( *)volume.*?^\1}\n', "", SPEC.format(node=machine.NODE, volume="", image=test_podman.IMAGE))
        machine.write("/root/free.hcl", spec.replace("echo started >>/data/starts; ", ""))
        ident = machine.holdfast_json("alloc", "run", "--no-wait", "/root/free.hcl")["allocation"]["id"]
        wait_status(ident, "RUNNING")
        removed = machine.run("/var/lib/dpkg/info/holdfast-driver-container.prerm", "remove", check=False)
        self.assertEqual(removed.returncode, 1)
        self.assertIn(f"containers of this node run: /holdfast-{ident}-main\n", removed.stderr)
        self.assertTrue(machine.is_active(DRIVER))
        machine.holdfast("alloc", "stop", ident)
        machine.run("/var/lib/dpkg/info/holdfast-driver-container.prerm", "remove")
        self.assertFalse(machine.is_active(DRIVER))
        machine.systemctl("start", DRIVER)
        machine.wait_for("the driver to be healthy", driver_is_healthy)

    def test_an_image_that_root_does_not_list_is_refused_at_submission(self):
        machine.holdfast("volume", "register", machine.volume_spec("refused"))
        machine.write("/root/refused.hcl", SPEC.format(node=machine.NODE, volume="refused", image="localhost/other:1"))
        refused = machine.holdfast("alloc", "run", "--no-wait", "/root/refused.hcl", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("asks for config.image 'localhost/other:1', which root's file of driver container on node", refused.stderr)
        self.assertEqual(machine.holdfast_json("volume", "status", "refused")["volume"].get("claims", []), [])

    def test_a_task_that_is_a_csi_plugin_has_its_folder_its_staging_folder_and_a_umask(self):
        machine.write("/root/csi.hcl", PLUGIN.format(node=machine.NODE, image=test_podman.IMAGE))
        ident = machine.holdfast_json("alloc", "run", "--no-wait", "/root/csi.hcl")["allocation"]["id"]
        pids = machine.wait_for("the task to run", lambda: machine.run("podman", "ps", "--filter", "label=dev.holdfast.csi_plugin=hostpath",
                                                                       "--format", "{{.Pid}}").stdout.split(),
                                seen=lambda: machine.holdfast("alloc", "status", ident).stdout)
        machine.wait_for("its own program to run", lambda: "Umask:\t0002\n" in status_of(pids[0]), seen=lambda: status_of(pids[0]))
        with open(f"/proc/{pids[0]}/mountinfo", encoding="ascii") as f:
            (stage,) = [line.split(" - ")[0] for line in f if line.split(" ")[4].startswith("/run/holdfast-mount")]
        self.assertEqual(stage.split(" ")[4], "/run/holdfast-mount/stage/.csi/hostpath")
        self.assertIn(" shared:", stage)
        folder = "/run/holdfast/plugins/hostpath"
        seen = {account: machine.run("runuser", "-u", account, "--", "ls", folder, check=False).returncode == 0
                for account in ("holdfast", "nobody", "holdfast-driver", "holdfast-mount")}  # fmt: skip
        self.assertEqual(seen, {"holdfast": True, "nobody": False, "holdfast-driver": True, "holdfast-mount": False})
        self.assertNotEqual(machine.run("runuser", "-u", "holdfast", "--", "touch", f"{folder}/own", check=False).returncode, 0)
        machine.holdfast("alloc", "stop", ident)
        machine.wait_for("the container to go", lambda: not containers())

    def test_a_container_that_podman_runs_by_itself_has_its_volume_by_the_plugin(self):
        volume_units.set_up_volumes()
        conf = "/etc/containers/containers.conf.d/holdfast.conf"
        machine.write(conf, block(conf))
        machine.systemctl("start", PLUGIN_UNIT)
        machine.holdfast("volume", "register", machine.volume_spec("pgdata"))
        machine.run("podman", "volume", "create", "--driver", "holdfast", "pgdata")
        machine.run("podman", "run", "--detach", "--name", "by-itself", "--volume", "pgdata:/data:nocopy", test_podman.IMAGE,
                    "/bin/sh", "-c", "echo written >/data/note; sleep 100000")  # fmt: skip
        claims = machine.holdfast_json("volume", "status", "pgdata")["volume"]["claims"]
        self.assertEqual([c["state"] for c in claims], ["TAKEN"])
        (at,) = [line.split(" ")[4] for line in machine.mounts_below(machine.TREE) if "/publish/" in line]
        machine.wait_for("the container to write", lambda: os.path.exists(f"{at}/note"))
        removed = machine.run("/var/lib/dpkg/info/holdfast-cli.prerm", "remove", check=False)
        self.assertEqual(removed.returncode, 1)
        self.assertIn("containers of this machine run on volumes that it holds:\n  pgdata\n", removed.stderr)
        self.assertTrue(machine.is_active(PLUGIN_UNIT))
        machine.run("/var/lib/dpkg/info/holdfast-cli.postinst", "configure", "0.0.1")  # as an upgrade does
        self.assertTrue(machine.is_active(PLUGIN_UNIT))
        machine.run("podman", "rm", "--force", "--time=0", "by-itself")
        machine.wait_for("the volume to go", lambda: not machine.mounts_below(machine.TREE),
                         seen=lambda: machine.journal("-u", PLUGIN_UNIT)[-3000:])  # fmt: skip
        machine.run("podman", "volume", "rm", "pgdata")
        machine.run("/var/lib/dpkg/info/holdfast-cli.prerm", "remove")
        self.assertFalse(machine.is_active(PLUGIN_UNIT))

    def test_an_engine_that_hangs_is_restarted_by_its_page(self):
        ident = submit("hung", test_podman.IMAGE)
        wait_status(ident, "RUNNING")
        before = containers()
        os.kill(machine.main_pid("podman.service"), signal.SIGSTOP)
        machine.wait_for("the driver to be unhealthy", lambda: not driver_is_healthy())
        shell = runbook.Shell("/root/shell.state", "/root", machine.CLI)
        runbook.Page("/payload/docs/runbook", "engine-hangs", shell, None).follow()
        self.assertEqual(containers(), before)
        wait_status(ident, "RUNNING")
        machine.holdfast("alloc", "stop", ident)

    def test_a_file_that_others_may_change_is_refused(self):
        path = f"{machine.ETC}/holdfast-driver-container.hcl"
        os.chmod(path, 0o666)
        try:
            done = machine.run("holdfast-driver-container", "--check-config", check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("writable only by root", done.stderr)
        finally:
            os.chmod(path, 0o644)


if __name__ == "__main__":
    unittest.main()
