# SPDX-License-Identifier: Apache-2.0
"""Containers of podman on published volumes: what is mounted below a volume is seen inside as its propagation says."""

import os
import shutil
import tempfile
import unittest

import machine

LANES = ("container", "vm")
PHASES = (
    "Containers.test_mounts_of_a_task_reach_the_host_with_bidirectional_propagation",
    "Containers.test_a_container_without_the_option_of_podman_gets_no_mounts_whatever_the_volume_allows",
)

IMAGE = "localhost/busybox:1"
# What podman and crun need in a container that has no controllers of cgroups and may raise no limit; see
# containers.conf(5). Images are in memory, as there is no overlay above another one.
IN_CONTAINER = """[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
pids_limit = 0
cgroups = "disabled"
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
# There is no policy for containers in Debian, so no label of theirs that would be allowed anything.
ON_A_MACHINE = """[containers]
label = false
netns = "none"
[engine]
events_logger = "file"
"""
WORDS = {"private": "rprivate", "host-to-task": "rslave", "bidirectional": "rshared"}  # ours: podman's


def make_image():
    with tempfile.TemporaryDirectory() as root:
        for name in ("bin", "proc", "sys", "dev", "tmp", "etc", "volume"):
            os.mkdir(f"{root}/{name}")
        shutil.copy("/bin/busybox", f"{root}/bin/busybox")
        for name in ("sh", "cat", "ls", "mkdir", "mount", "touch", "sleep"):
            os.symlink("busybox", f"{root}/bin/{name}")
        machine.run("sh", "-c", f"tar -C {root} -c . | podman import -q - {IMAGE}")


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.write("/etc/containers/containers.conf", IN_CONTAINER if machine.in_container() else ON_A_MACHINE)
        if machine.in_container():
            os.makedirs("/var/lib/containers", exist_ok=True)
            machine.run("mount", "-t", "tmpfs", "-o", "mode=755", "containers", "/var/lib/containers")
        make_image()
        machine.set_up()

    def setUp(self):
        self.names = []

    def tearDown(self):
        for name in self.names:
            machine.run("podman", "rm", "--force", "--time=0", name)

    def volume(self, propagation):
        """Claim and publish a volume of its own; allocation, path where it is published, path where it is staged."""
        name = f"vol-{propagation}"
        machine.holdfast("volume", "register", machine.volume_spec(name))
        more = {} if propagation == "private" else {"propagation": f'"{propagation}"'}
        alloc = machine.run_alloc(f"alloc-{propagation}", name, **more)
        staged = machine.mounts_below(f"{machine.TREE}/stage")
        self.assertEqual(len(staged), 1, staged)
        return alloc["id"], alloc["published"][0]["path"], staged[0].split(" ")[4]

    def start(self, propagation, path):
        """Start a container that has the volume at /volume and waits."""
        name = f"ctr-{propagation}"
        machine.run("podman", "run", "--detach", "--privileged", "--name", name, "--volume", f"{path}:/volume:{WORDS[propagation]}",
                    IMAGE, "/bin/sleep", "1000")  # fmt: skip
        self.names.append(name)
        return name

    def inside(self, name, script):
        return machine.run("podman", "exec", name, "/bin/sh", "-c", script, check=False)

    def give_back(self, alloc):
        machine.holdfast("alloc", "stop", alloc)
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))

    def check(self, propagation, comes_in, goes_out):
        """A container that mounts below its volume and one that looks, while the host mounts below where it is staged."""
        alloc, path, stage = self.volume(propagation)
        name = self.start(propagation, path)
        self.assertEqual(self.inside(name, "echo written >/volume/file").returncode, 0)
        with open(f"{path}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "written\n")

        for folder in ("host", "container"):
            os.mkdir(f"{path}/{folder}")
        machine.run("mount", "-t", "tmpfs", "host", f"{stage}/host")
        machine.write(f"{stage}/host/seen", "")
        self.assertEqual(self.inside(name, "ls /volume/host").stdout.strip(), "seen" if comes_in else "")

        made = self.inside(name, "mount -t tmpfs container /volume/container && touch /volume/container/seen")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(os.listdir(f"{stage}/container"), ["seen"] if goes_out else [])

        machine.run("podman", "rm", "--force", "--time=0", self.names.pop())
        if goes_out:
            machine.run("umount", f"{stage}/container")
        machine.run("umount", f"{stage}/host")
        self.give_back(alloc)

    def test_a_private_volume_is_shut_off_both_ways(self):
        self.check("private", comes_in=False, goes_out=False)

    def test_mounts_of_the_host_reach_a_task_but_not_the_reverse(self):
        self.check("host-to-task", comes_in=True, goes_out=False)

    def test_mounts_of_a_task_reach_the_host_with_bidirectional_propagation(self):
        self.check("bidirectional", comes_in=True, goes_out=True)

    def test_a_container_without_the_option_of_podman_gets_no_mounts_whatever_the_volume_allows(self):
        alloc, path, stage = self.volume("host-to-task")
        self.names.append("plain")
        machine.run("podman", "run", "--detach", "--name", "plain", "--volume", f"{path}:/volume", IMAGE, "/bin/sleep", "1000")
        os.mkdir(f"{path}/host")
        machine.run("mount", "-t", "tmpfs", "host", f"{stage}/host")
        machine.write(f"{stage}/host/seen", "")
        self.assertEqual(self.inside("plain", "ls /volume/host").stdout, "")
        machine.run("podman", "rm", "--force", "--time=0", self.names.pop())
        machine.run("umount", f"{stage}/host")
        self.give_back(alloc)


if __name__ == "__main__":
    unittest.main()
