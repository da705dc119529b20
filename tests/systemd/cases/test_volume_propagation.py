# SPDX-License-Identifier: Apache-2.0
"""What services and containers on volume units see of later mounts: the examples of docs/workloads.md, as they are."""

import configparser
import os
import re
import unittest

import machine
import volume_units as units
from volume_units import unit

OTHER_RELEASE = ("container",)


GENERATOR = "/usr/lib/systemd/system-generators/podman-system-generator"


def setUpModule():
    units.set_up()


def stage_of(volume):
    """Where the helper has staged it: what a service has mounted inside of it by now is no place of the helper's."""
    stages = f"{machine.TREE}/stage"
    points = [line.split(" ")[4] for line in machine.mounts_below(stages)]
    found = [point for point in points if os.path.dirname(point) == stages and f"/{volume}-" in point]
    assert len(found) == 1, (volume, points)
    return found[0]


def mount(folder):
    os.mkdir(folder)
    machine.run("mount", "-t", "tmpfs", "later", folder)


def pid_of_container():
    said = machine.run("podman", "inspect", "--format", "{{.State.Pid}}", "web", check=False).stdout.strip()
    return int(said) if said.isdigit() and said != "0" else None


class Propagation(unittest.TestCase):
    def begin(self, name, service):
        units.example_volume(name)
        units.install(service)
        units.start(service)
        self.addCleanup(units.tear_down, service, unit(name))

    def seen_below(self, folder, pid):
        return [line.split(" ")[4] for line in machine.mounts_below(folder, pid)]

    def inside(self, service, path):
        """Mount in the service's own namespace."""
        machine.run("nsenter", "--mount", "--target", str(units.pid(service)), "mkdir", path)
        machine.run("nsenter", "--mount", "--target", str(units.pid(service)), "mount", "-t", "tmpfs", "own", path)

    def isolated(self, name, service, sees_host):
        self.begin(name, service)
        stage = stage_of(name)
        mount(f"{stage}/later")
        self.addCleanup(machine.run, "umount", f"{stage}/later", check=False)
        self.assertEqual(["/srv/later"] if sees_host else [], self.seen_below("/srv", units.pid(service)))
        self.inside(service, "/srv/own")
        self.assertIn("/srv/own", self.seen_below("/srv", units.pid(service)))
        on_host = self.seen_below(machine.TREE, "self")
        self.assertEqual([], [path for path in on_host if path.endswith("/own")])
        machine.run("umount", f"{stage}/later")
        self.assertEqual(["/srv/own"], self.seen_below("/srv", units.pid(service)))

    def test_private_is_unseen_in_both_directions(self):
        self.isolated("scratch", "propagation-private.service", False)

    def test_host_to_task_shows_mounts_of_the_host(self):
        self.isolated("incoming", "propagation-host-to-task.service", True)

    def test_bidirectional_shows_mounts_of_the_service(self):
        self.begin("exchange", "propagation-bidirectional.service")
        made = f"{stage_of('exchange')}/made"
        machine.wait_for("the service's mount at the stage", lambda: made in self.seen_below(machine.TREE, "self"))
        machine.systemctl("stop", "propagation-bidirectional.service")
        self.assertNotIn(made, self.seen_below(machine.TREE, "self"))
        machine.systemctl("stop", unit("exchange"))
        self.assertEqual([], units.claims_of("exchange"))

    def test_bidirectional_neither_mounts_nor_unmounts_through_a_link_of_a_writer(self):
        service, victim = "propagation-bidirectional.service", "/root/victim"
        mount(victim)
        self.addCleanup(machine.run, "umount", "--recursive", victim)
        units.example_volume("exchange")
        units.install(service)
        units.start(unit("exchange"))
        self.addCleanup(units.tear_down, service, unit("exchange"))
        os.symlink(victim, f"{units.RUN}/exchange/mnt/made")
        units.start(service, check=False)  # Type=exec: it ends after it has started
        machine.wait_for("the service to fail", lambda: machine.show(service, "ActiveState") == "failed")
        self.assertEqual(1, self.seen_below("/root", "self").count(victim))


class Containers(unittest.TestCase):
    """podman 4.3 in a container that has no limits of its own; see tests/systemd/README.md."""

    @classmethod
    def setUpClass(cls):
        machine.run("mount", "-t", "tmpfs", "-o", "mode=755", "containers", "/var/lib/containers")
        machine.write(
            "/etc/containers/containers.conf",
            '[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]\ncgroups = "disabled"\n',
        )
        os.makedirs("/root/image/bin", exist_ok=True)
        os.makedirs("/root/image/data", exist_ok=True)
        machine.run("cp", "/bin/busybox", "/root/image/bin/busybox")
        machine.run("tar", "-C", "/root/image", "-cf", "/root/image.tar", ".")
        machine.run("podman", "import", "-q", "/root/image.tar", "localhost/web:latest")

    def test_a_container_has_the_volume_and_sees_later_mounts(self):
        units.example_volume("web")
        units.install("podman-web.service")
        self.addCleanup(units.tear_down, "podman-web.service", unit("web"))
        units.start("podman-web.service")

        inner = machine.wait_for("the container", pid_of_container)
        stage = stage_of("web")
        mount(f"{stage}/later")
        self.addCleanup(machine.run, "umount", f"{stage}/later", check=False)
        self.assertEqual(1, len(machine.mounts_below("/data", inner)))
        machine.run("umount", f"{stage}/later")
        machine.systemctl("stop", unit("web"))
        self.assertFalse(machine.is_active("podman-web.service"))
        self.assertEqual([], units.claims_of("web"))

    def test_the_quadlet_file_says_the_same_as_the_unit(self):
        """All that can be checked of it where podman has no Quadlet, which came with 4.4."""
        quadlet, service = (configparser.ConfigParser(strict=False, interpolation=None) for _ in range(2))
        for parser in (quadlet, service):
            parser.optionxform = str
        quadlet.read(f"{units.EXAMPLES}/web.container")
        service.read(f"{units.EXAMPLES}/podman-web.service")
        self.assertEqual(dict(service["Unit"]), dict(quadlet["Unit"]))
        container, command = quadlet["Container"], service["Service"]["ExecStart"]
        self.assertEqual({"Image", "ContainerName", "Network", "Volume", "Exec"}, set(container))
        self.assertIn(f" --name {container['ContainerName']} --network {container['Network']} ", command)
        self.assertTrue(command.endswith(f" --volume {container['Volume']} {container['Image']} {container['Exec']}"))

    def test_quadlet_makes_a_unit_of_the_file(self):
        """Started it is not: it wants groups of its own, which there are none of in here."""
        if not os.path.exists(GENERATOR):
            self.assertTrue(re.fullmatch(r"4\.3\..*", machine.run("podman", "--version").stdout.split()[-1]))
            return
        os.makedirs("/etc/containers/systemd", exist_ok=True)
        machine.run("cp", f"{units.EXAMPLES}/web.container", "/etc/containers/systemd")
        made = machine.run(GENERATOR, "--dryrun").stdout
        for line in ("BindsTo=holdfast-volume@web.service", "After=holdfast-volume@web.service"):
            self.assertIn(f"\n{line}\n", made)
        self.assertRegex(made, r"\nExecStart=.* /run/holdfast-volumes/web/mnt:/data:rslave .*localhost/web:latest /bin/busybox sleep")


if __name__ == "__main__":
    unittest.main()
