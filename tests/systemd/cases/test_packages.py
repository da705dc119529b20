# SPDX-License-Identifier: Apache-2.0
"""The packages' whole life on a machine that runs on them: install, upgrade with live mounts, removal, purge."""

import glob
import grp
import os
import pwd
import shutil
import signal
import stat
import subprocess
import unittest

import machine
import launch_setuid

OTHER_RELEASE = ("container",)
BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py

DEBS = "/payload/debs"
PACKAGES = ("agent", "driver-container", "mounthelper", "server", "fencer", "cli")
UNITS = (
    "holdfast-server.service",
    "holdfast-agent-socket.service",
    "holdfast-drain.service",
    "holdfast-agent-setuid.service",
    "holdfast-driver-container.service",
    "holdfast-fencer.service",
    "holdfast-mounthelper.socket",
)
HELPER = "/usr/libexec/holdfast/holdfast-mounthelper"
OVERRIDE = f"root holdfast 4750 {HELPER}"
NEWER = "0.1.0+newer"


def names(*which):
    return [f"holdfast-{name}" for name in which or PACKAGES]


def deb(name, folder=DEBS):
    (found,) = glob.glob(f"{folder}/holdfast-{name}_*.deb")
    return found


def install(*which, folder=DEBS):
    return machine.run("dpkg", "-i", *[deb(name, folder) for name in which or PACKAGES])


def dpkg(*args, check=True):
    return machine.run("dpkg", *args, check=check)


def make_newer(which=PACKAGES):
    """The same packages as a newer version; their folder."""
    folder = "/root/newer"
    if os.path.isdir(folder):
        return folder
    os.mkdir(folder)
    for name in which:
        tree = f"{folder}/{name}"
        machine.run("dpkg-deb", "-R", deb(name), tree)
        with open(f"{tree}/DEBIAN/control", encoding="utf-8") as f:
            control = f.read()
        old = machine.run("dpkg-deb", "-f", deb(name), "Version").stdout.strip()
        control = control.replace(f"Version: {old}\n", f"Version: {NEWER}\n").replace(f"(= {old})", f"(= {NEWER})")
        with open(f"{tree}/DEBIAN/control", "w", encoding="utf-8") as f:
            f.write(control)
        machine.run("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, f"{folder}/holdfast-{name}_{NEWER}.deb")
        shutil.rmtree(tree)
    return folder


def status_of(name):
    return machine.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", f"holdfast-{name}", check=False).stdout


def processes():
    """pid: program, of all programs of Holdfast."""
    found = {}
    for pid in os.listdir("/proc"):
        try:
            program = os.readlink(f"/proc/{pid}/exe") if pid.isdigit() else ""
        except OSError:
            continue
        if "/holdfast" in program:
            found[int(pid)] = program
    return found


def helpers():
    return [pid for pid, program in processes().items() if "holdfast-mounthelper" in program]


def overrides():
    return machine.run("dpkg-statoverride", "--list", HELPER, check=False).stdout.strip()


def mode_of(path):
    st = os.stat(path)
    return f"{pwd.getpwuid(st.st_uid).pw_name} {grp.getgrgid(st.st_gid).gr_name} {stat.S_IMODE(st.st_mode):o}"


def clean():
    """As before the first installation, but for the accounts, whatever a test has left."""
    for pid in helpers() + list(processes()):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    machine.run("systemctl", "stop", *UNITS, check=False)
    for line in reversed(machine.mounts_below("/run/holdfast-mount")):
        machine.run("umount", line.split(" ")[4], check=False)
    shutil.rmtree("/etc/holdfast", ignore_errors=True)  # an agent that does not run stays with its settings
    dpkg("--purge", *names(), check=False)
    machine.run("dpkg-statoverride", "--remove", HELPER, check=False)
    machine.run("systemctl", "reset-failed", check=False)
    for folder in ("/root/pki", "/var/lib/holdfast", "/var/log/holdfast", "/run/holdfast-mount"):
        shutil.rmtree(folder, ignore_errors=True)


def claim(name):
    """An allocation with a tmpfs volume of its own, mounted."""
    machine.holdfast("volume", "register", machine.volume_spec(name))
    return machine.holdfast_json("alloc", "run", machine.alloc_spec(name, name))["allocation"]


class Life(unittest.TestCase):
    def setUp(self):
        clean()
        install()
        launch_setuid.prepare()

    def test_installing_starts_and_enables_nothing_and_may_be_repeated(self):
        for _ in range(2):
            for unit in UNITS:
                # static: other units want it, as the agent's do the drain
                state = machine.systemctl("is-enabled", unit, check=False).stdout.strip()
                self.assertEqual(state, "static" if "drain" in unit else "disabled", unit)
                self.assertFalse(machine.is_active(unit), unit)
            self.assertEqual(processes(), {})
            self.assertEqual(mode_of(HELPER), "root holdfast 4750")
            self.assertEqual(mode_of(f"{HELPER}-socket"), "root root 755")
            self.assertEqual(overrides(), OVERRIDE)
            self.assertEqual(mode_of("/etc/holdfast/tls"), "root root 755")
            self.assertEqual(mode_of("/run/holdfast-mount/stage"), "holdfast-mount holdfast-mount 700")
            self.assertEqual(mode_of("/run/holdfast"), "root holdfast 1775")
            self.assertEqual(mode_of(machine.TRAIL), "holdfast-mount holdfast-mount 600")
            with open(HELPER, "rb") as a, open(f"{HELPER}-socket", "rb") as b:
                self.assertEqual(a.read(), b.read())
            install()
        # documents are not unpacked in the test machines
        wrong = machine.run("dpkg", "--verify", *names(), check=False).stdout.splitlines()
        self.assertEqual([line for line in wrong if " /usr/share/" not in line], [])

    def upgrade_with_a_live_mount(self, mode):
        machine.set_up(mode)
        alloc = claim("kept")
        path = alloc["published"][0]["path"]
        machine.write(f"{path}/file", "here\n")
        before = machine.mounts_below(machine.TREE)
        pids = {unit: machine.show(unit, "MainPID") for unit in ("holdfast-server", f"holdfast-agent-{mode}")}
        install(folder=make_newer())
        for name in PACKAGES:
            self.assertEqual(status_of(name), f"installed {NEWER}")
        machine.wait_connected()
        self.assertEqual(before, machine.mounts_below(machine.TREE))
        for unit, pid in pids.items():
            self.assertNotIn(machine.show(unit, "MainPID"), (pid, "0"), unit)
        with open(f"{path}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "here\n")
        # adopted: it can be released
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))
        machine.holdfast("audit", "verify")

    def test_an_upgrade_keeps_mounts_through_launch_mode_socket(self):
        self.upgrade_with_a_live_mount("socket")

    def test_an_upgrade_keeps_mounts_through_launch_mode_setuid(self):
        self.upgrade_with_a_live_mount("setuid")

    def upgrade_in_mid_operation(self, mode):
        machine.set_up(mode)
        machine.holdfast("volume", "register", machine.volume_spec("slow"))
        machine.wait_for("both helpers", lambda: len(helpers()) == 2)
        old = helpers()
        tracers = [
            subprocess.Popen(
                ["strace", "-qq", "-o", "/dev/null", "-p", str(pid), "-e", "inject=move_mount:delay_enter=50000000"]
            )
            for pid in old
        ]
        try:
            for pid in old:
                machine.wait_for(f"strace to be at {pid}", lambda pid=pid: self.is_traced(pid))
            machine.holdfast("alloc", "run", "--no-wait", machine.alloc_spec("slow", "slow"))
            busy = machine.wait_for("an operation in flight", self.busy_helper)
            install(folder=make_newer())
            self.assertIn(busy, helpers(), "the helper that was at work is gone")
            for tracer in tracers:
                tracer.terminate()  # which ends the delay
            machine.wait_for("its result", lambda: not self.busy_helper())
            machine.wait_for("it to end", lambda: busy not in helpers())
        finally:
            for tracer in tracers:
                tracer.terminate()
                tracer.wait()
        machine.wait_connected()
        # the new agent waits for the old helper, and takes over what it did
        self.assertEqual(machine.wait_for("an end", self.end_of_the_only_allocation), "RUNNING")
        self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 1)
        unfinished = machine.holdfast("audit", "show", "--unfinished").stdout
        self.assertNotIn("stage", unfinished)
        machine.holdfast("audit", "verify")

    @staticmethod
    def end_of_the_only_allocation():
        (alloc,) = machine.holdfast_json("alloc", "status")["allocations"]
        return alloc["client_status"] if alloc["client_status"] in ("RUNNING", "FAILED") else None

    @staticmethod
    def is_traced(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return "TracerPid:\t0\n" not in f.read()

    @staticmethod
    def busy_helper():
        """Pid of the helper whose intent has no result, or None."""
        lines = machine.holdfast("audit", "show", "--unfinished", "--json", check=False).stdout.strip()
        for pid in helpers() if lines else ():
            try:
                with open(f"/proc/{pid}/syscall", encoding="ascii") as f:
                    if f.read().split(" ")[0] == "429":  # move_mount
                        return pid
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
        return None

    def test_an_upgrade_lets_a_helper_finish_through_launch_mode_socket(self):
        self.upgrade_in_mid_operation("socket")

    def test_an_upgrade_lets_a_helper_finish_through_launch_mode_setuid(self):
        self.upgrade_in_mid_operation("setuid")

    def test_the_mode_that_an_administrator_chose_stays(self):
        chosen = f"root root 755 {HELPER}"
        machine.run("dpkg-statoverride", "--remove", HELPER)
        machine.run("dpkg-statoverride", "--update", "--add", "root", "root", "0755", HELPER)
        install(folder=make_newer())
        self.assertEqual(overrides(), chosen)
        self.assertEqual(mode_of(HELPER), "root root 755")
        dpkg("--purge", *names())
        self.assertEqual(overrides(), chosen)

    def test_nothing_is_removed_while_a_volume_is_mounted(self):
        machine.set_up()
        alloc = claim("held")
        path = alloc["published"][0]["path"]
        before = machine.mounts_below(machine.TREE)
        pid = machine.show("holdfast-agent-socket", "MainPID")
        for what in (names("agent", "driver-container"), names("agent", "driver-container", "mounthelper"), names()):
            done = dpkg("--remove", *what, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(path, done.stderr)
            self.assertIn("holdfast alloc stop", done.stderr)
            self.assertEqual(status_of("agent").split()[0], "installed")
            self.assertEqual(status_of("mounthelper").split()[0], "installed")
        self.assertEqual(machine.show("holdfast-agent-socket", "MainPID"), pid)
        self.assertEqual(before, machine.mounts_below(machine.TREE))
        install()  # the server may have gone: it holds nothing
        machine.systemctl("start", "holdfast-server")
        machine.wait_connected()
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))
        dpkg("--remove", *names())
        self.assertEqual(processes(), {})

    def test_an_agent_that_was_stopped_is_not_removed_before_it_has_drained(self):
        machine.set_up()
        machine.systemctl("stop", "holdfast-agent-socket")
        done = dpkg("--remove", *names("agent", "driver-container"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not answer", done.stderr)
        self.assertTrue(machine.is_active("holdfast-drain"))
        machine.systemctl("start", "holdfast-agent-socket", "holdfast-server")
        machine.wait_connected()
        self.assertIn("is drained", dpkg("--remove", *names("agent", "driver-container")).stderr)

    def test_trees_of_the_policy_count_as_well(self):
        machine.write("/etc/holdfast/mounthelper.policy", "agent 1 { stage_base = /srv/s; publish_base = /srv/p # x\n}\n")
        os.makedirs("/srv/p/a", exist_ok=True)
        machine.run("mount", "-t", "tmpfs", "none", "/srv/p/a")
        try:
            done = dpkg("--remove", "holdfast-agent", "holdfast-driver-container", check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("/srv/p/a", done.stderr)
        finally:
            machine.run("umount", "/srv/p/a")
        dpkg("--remove", "holdfast-agent", "holdfast-driver-container")

    def test_removal_keeps_data_and_trail_and_a_purge_takes_them(self):
        machine.set_up()
        alloc = claim("data")
        machine.systemctl("enable", "holdfast-server", "holdfast-agent-socket")
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))
        dpkg("--remove", *names())
        self.assertEqual(processes(), {})
        kept = ("/var/lib/holdfast/server/holdfast.db", "/var/lib/holdfast/agent/agent.db", machine.TRAIL,
                f"{machine.ETC}/mounthelper.policy", f"{machine.ETC}/mounthelper.policy.applied",
                f"{machine.ETC}/agent.hcl", f"{machine.ETC}/tls/ca.pem")  # fmt: skip
        for path in kept:
            self.assertTrue(os.path.getsize(path), path)
        links = glob.glob("/etc/systemd/system/**/holdfast-*", recursive=True)
        self.assertEqual([link for link in links if os.path.islink(link) and "holdfast-test" not in link], [])
        install()
        self.assertEqual(processes(), {})
        machine.systemctl("start", "holdfast-server", "holdfast-agent-socket")
        machine.wait_connected()
        machine.holdfast("volume", "status", "data")
        machine.systemctl("start", "holdfast-volume@nothing.service", check=False)  # it has its folders all the same
        self.assertTrue(os.path.isdir("/var/lib/holdfast-volumes/nothing"))
        subprocess.run([HELPER], check=False)  # a refused start, which is counted
        self.assertTrue(os.path.exists(f"{machine.TREE}/lock/refused"))
        dpkg("--purge", *names())
        self.assertEqual(processes(), {})
        for path in ("/etc/holdfast", "/var/lib/holdfast", "/var/log/holdfast", "/run/holdfast-mount", HELPER, "/var/lib/holdfast-driver",
                     "/var/lib/holdfast-volumes", "/var/lib/private/holdfast-volumes",
                     "/etc/logrotate.d/holdfast-mounthelper", "/etc/logrotate.d/holdfast-driver-container", *glob.glob("/etc/credstore/holdfast.*")):  # fmt: skip
            self.assertFalse(os.path.lexists(path), path)
        self.assertEqual(overrides(), "")
        for account in ("holdfast", "holdfast-driver", "holdfast-mount", "holdfast-server"):
            pwd.getpwnam(account)

    def test_a_purge_takes_nothing_below_a_mount(self):
        folders = ("/var/lib/holdfast/server", "/var/log/holdfast/old", "/var/lib/holdfast/agent/old")
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
            machine.run("mount", "-t", "tmpfs", "none", folder)
            machine.write(f"{folder}/file", "mine\n")
        try:
            done = dpkg("--purge", *names())
            for folder in folders:
                self.assertTrue(os.path.exists(f"{folder}/file"), folder)
            self.assertIn("/var/lib/holdfast/server is a mount of its own and is kept", done.stderr)
            self.assertIn("/var/log/holdfast is kept", done.stderr)
            self.assertFalse(os.path.exists(machine.TRAIL))
        finally:
            for folder in folders:
                machine.run("umount", folder)

    def test_the_trail_is_rotated_as_one_chain(self):
        machine.set_up()
        alloc = claim("rotated")
        machine.write("/etc/logrotate.d/holdfast-mounthelper", self.with_comment("/etc/logrotate.d/holdfast-mounthelper"))
        install(folder=make_newer())
        with open("/etc/logrotate.d/holdfast-mounthelper", encoding="utf-8") as f:
            self.assertIn("# changed here", f.read())
        machine.wait_connected()
        started = len(helpers())
        machine.run("logrotate", "--force", "/etc/logrotate.d/holdfast-mounthelper")
        self.assertEqual(mode_of(machine.TRAIL), "holdfast-mount holdfast-mount 600")
        machine.wait_for("helpers that write to the new one", lambda: os.path.getsize(machine.TRAIL))
        machine.wait_for("all of them", lambda: self.starts() >= started)
        machine.wait_connected()
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))
        machine.holdfast("audit", "verify", f"{machine.TRAIL}.1", machine.TRAIL)

    @staticmethod
    def with_comment(path):
        with open(path, encoding="utf-8") as f:
            return f.read() + "# changed here\n"

    @staticmethod
    def starts():
        with open(machine.TRAIL, encoding="ascii") as f:
            return f.read().count(" op=start ")


if __name__ == "__main__":
    unittest.main()
