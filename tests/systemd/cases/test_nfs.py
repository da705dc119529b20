# SPDX-License-Identifier: Apache-2.0
"""A volume of an NFS server: its claim is not freed while anything on the node still has its file system mounted, in
whatever mount namespace, because that can still write."""

import os
import shlex
import signal
import subprocess
import unittest

import machine
import volume_units as units

LANES = ("vm",)

EXPORTS = "/srv/holdfast"
PROFILE = f"""	profile filer {{
		class = nfs4
		export = {EXPORTS}
		server = 127.0.0.0/8
	}}
"""
COPY = "/mnt/copy"  # in the holder's namespace
VOLUMES = "/proc/net/nfsfs/volumes"


def serve():
    """A kernel NFS server on loopback, version 4.2 and nothing older."""
    for name in ("a", "b"):
        os.makedirs(f"{EXPORTS}/{name}", exist_ok=True)
        os.chmod(f"{EXPORTS}/{name}", 0o777)
    options = "127.0.0.1(rw,no_root_squash,no_subtree_check,insecure)"
    machine.write("/etc/exports", "".join(f"{EXPORTS}/{name} {options}\n" for name in ("a", "b")))
    machine.run("modprobe", "nfsd")
    if not os.path.ismount("/proc/fs/nfsd"):
        machine.run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
    machine.run("exportfs", "-ra")
    # without it a fresh server makes clients wait for those of a former life
    machine.run("systemd-run", "--quiet", "--service-type=forking", "/usr/sbin/nfsdcld")
    machine.run("systemd-run", "--quiet", "--service-type=forking", "/usr/sbin/rpc.mountd", "--no-nfs-version", "3")
    machine.run("rpc.nfsd", "--host", "127.0.0.1", "--no-nfs-version", "3", "--nfs-version", "4.2", "2")


def volume(name):
    path = f"/root/nfs-{name}.volume.hcl"
    machine.write(path, f"""id = "nfs-{name}"
name = "nfs-{name}"
type = "native"
profile = "filer"
source {{
  class = "nfs4"
  server = "127.0.0.1"
  export = "{EXPORTS}/{name}"
}}
capability {{
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}}
""")  # fmt: skip
    machine.holdfast("volume", "register", path)
    return f"nfs-{name}"


def run(name, volume_id):
    """An allocation that has the volume, its path and the number of its file system, as the kernel writes it."""
    alloc = machine.run_alloc(name, volume_id)
    path = alloc["published"][0]["path"]
    dev = os.stat(path).st_dev
    return alloc["id"], path, f"{os.major(dev)}:{os.minor(dev)}"


def listed():
    with open(VOLUMES, encoding="ascii") as f:
        return [line.split()[3] for line in f][1:]


def minor(dev):
    return int(dev.partition(":")[2])


def claims(volume_id):
    return units.claims_of(volume_id)


def why(volume_id):
    return " ".join(machine.holdfast("volume", "status", volume_id, "--why").stdout.split())


class Holder:
    """A process that continues writing to its own copy of a mount, in a mount namespace of its own."""

    def __init__(self, path):
        os.makedirs(COPY, exist_ok=True)
        line = f"mount --bind {shlex.quote(path)} {COPY} && while echo line >>{COPY}/log; do sleep 0.2; done"
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", line])

    def mounts(self):
        return machine.mounts_below("/mnt", self.process.pid)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def size_of_log(name):
    try:
        return os.stat(f"{EXPORTS}/{name}/log").st_size
    except FileNotFoundError:
        return 0


class AnNfsVolume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        serve()
        machine.set_up(profiles=PROFILE)
        for name in ("a", "b"):
            volume(name)

    def hold(self, name, volume_id):
        """Stopped, unmounted and still written to: the claim stays."""
        alloc, path, dev = run(name, volume_id)
        self.assertIn(dev, listed())
        holder = Holder(path)
        self.addCleanup(holder.end)
        machine.wait_for("the holder to have its copy", holder.mounts)
        machine.wait_for("it to write", lambda: size_of_log(volume_id[-1]))
        machine.holdfast("alloc", "stop", alloc, "--no-wait")
        machine.wait_for("the volume to be unmounted here", lambda: not machine.mounts_below(machine.TREE))
        machine.wait_for("the reason to be told", lambda: "another mount namespace" in why(volume_id))
        return holder, alloc, dev

    def assert_held(self, volume_id):
        before = size_of_log(volume_id[-1])
        machine.wait_for("the holder to write on", lambda: size_of_log(volume_id[-1]) > before)
        self.assertEqual(1, len(claims(volume_id)))

    def assert_freed(self, volume_id, alloc):
        machine.wait_for("the claim to be freed", lambda: not claims(volume_id))
        claim = machine.holdfast_json("alloc", "status", alloc)["claims"][0]
        self.assertEqual(("FREED", "EVIDENCE_RECEIPT"), (claim["state"], claim["evidence"]))

    def test_is_released_at_once_without_another_user(self):
        before = len(machine.journal("--unit", "holdfast-agent-socket.service"))  # of the cases before
        alloc, path, dev = run("plain", "nfs-a")
        line = [line for line in machine.mounts_below(machine.TREE) if path in line][0]
        self.assertIn("nosharecache", line.split(" - ")[1])
        machine.holdfast("alloc", "stop", alloc)
        self.assert_freed("nfs-a", alloc)
        self.assertNotIn(dev, listed())
        self.assertNotIn("is still in use", machine.journal("--unit", "holdfast-agent-socket.service")[before:])

    def test_two_of_one_server_have_a_file_system_each(self):
        first, _, dev_a = run("first", "nfs-a")
        second, _, dev_b = run("second", "nfs-b")
        self.assertNotEqual(dev_a, dev_b)
        for alloc, volume_id in ((first, "nfs-a"), (second, "nfs-b")):
            machine.holdfast("alloc", "stop", alloc)
            self.assert_freed(volume_id, alloc)

    def test_is_kept_until_the_last_copy_in_another_namespace_is_gone(self):
        holder, alloc, dev = self.hold("held", "nfs-a")
        self.assert_held("nfs-a")
        # what it says to do finds the process
        told = why("nfs-a")
        self.assertIn(f"grep ' {dev} ' /proc/[0-9]*/mountinfo", told)
        # grep says 2 when a process ends before it gets there
        found = machine.run("sh", "-c", f"grep -l ' {dev} ' /proc/[0-9]*/mountinfo", check=False).stdout
        self.assertIn(f"/proc/{holder.process.pid}/mountinfo", found)
        refused = machine.holdfast("alloc", "run", machine.alloc_spec("next", "nfs-a"), check=False)
        self.assertEqual(1, refused.returncode)
        self.assertIn("another mount namespace", " ".join(refused.stderr.split()))
        machine.systemctl("restart", "holdfast-agent-socket.service")
        machine.wait_connected()
        machine.wait_for("the reason to be told again", lambda: "another mount namespace" in why("nfs-a"))
        self.assert_held("nfs-a")
        holder.end()
        self.assert_freed("nfs-a", alloc)
        self.assertNotIn(dev, listed())

    def fill(self, name):
        """Take the lowest number that is free, which is the one that the kernel gives. Returns where, and the number."""
        folder = f"/mnt/filler-{name}"
        os.makedirs(folder, exist_ok=True)
        machine.run("mount", "-t", "tmpfs", "filler", folder)
        self.addCleanup(machine.run, "umount", folder, check=False)
        return folder, f"0:{os.minor(os.stat(folder).st_dev)}"

    def take_number(self, dev, lower):
        """Have the host's own mount get the number, which is free again. To find the export, mount.nfs4 takes some
        numbers for a moment, so as many of the lower ones must be free. Their number is found by trying: other processes
        take numbers too, and the kernel frees some late."""
        while minor((got := self.fill(f"below-{len(lower)}"))[1]) < minor(dev):
            lower.append(got[0])
        machine.run("umount", got[0])
        os.makedirs("/mnt/other", exist_ok=True)

        def gets_it():
            machine.run("mount", "-t", "nfs4", "-o", "vers=4.2", f"127.0.0.1:{EXPORTS}/b", "/mnt/other")
            number = os.minor(os.stat("/mnt/other").st_dev)
            if number == minor(dev):
                return True
            machine.run("umount", "/mnt/other")
            if number < minor(dev):
                lower.append(self.fill(f"again-{len(lower)}")[0])
            elif lower:
                machine.run("umount", lower.pop())
            return False

        machine.wait_for(f"/mnt/other to get {dev}", gets_it)

    def test_whose_number_the_host_has_given_to_its_own_is_freed(self):
        """The volume's had nosharecache, and what is mounted has not: that is another one."""
        lower = [self.fill(f"lower-{i}")[0] for i in range(8)]
        holder, alloc, dev = self.hold("before", "nfs-a")
        agent = machine.main_pid("holdfast-agent-socket.service")
        # on a busy machine the agent is stopped for longer than its watchdog allows
        machine.systemctl("service-watchdogs", "no")
        self.addCleanup(machine.systemctl, "service-watchdogs", "yes")
        os.kill(agent, signal.SIGSTOP)
        try:
            holder.end()
            machine.wait_for("the file system to be gone", lambda: dev not in listed())
            self.take_number(dev, lower)
        finally:
            os.kill(agent, signal.SIGCONT)
        self.assert_freed("nfs-a", alloc)
        self.assertIn(dev, listed())
        self.assertEqual(agent, machine.main_pid("holdfast-agent-socket.service"))
        machine.run("umount", "/mnt/other")

    def test_whose_number_the_host_has_given_to_its_own_is_kept_until_that_goes(self):
        """After a restart the agent does not know that the volume's was one of its own."""
        lower = [self.fill(f"lower-{i}")[0] for i in range(8)]
        holder, alloc, dev = self.hold("before", "nfs-a")
        machine.systemctl("stop", "holdfast-agent-socket.service")
        holder.end()
        machine.wait_for("the file system to be gone", lambda: dev not in listed())
        self.take_number(dev, lower)
        machine.systemctl("start", "holdfast-agent-socket.service")
        machine.wait_connected()
        machine.wait_for("the mount to be named", lambda: "umount /mnt/other" in why("nfs-a"))
        self.assertEqual(1, len(claims("nfs-a")))
        machine.run("umount", "/mnt/other")
        self.assert_freed("nfs-a", alloc)


if __name__ == "__main__":
    unittest.main()
