#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the packages' scripts and ./dev take from a machine, and what they leave. In a mount namespace of its own, with
the folders of TREES in memory, and systemctl and chcon that only note their arguments."""

import os
import shlex
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "cmake/debian"
PACKAGES = ("agent", "driver-container", "mounthelper", "server", "fencer", "cli")
TREES = ("/etc", "/run", "/usr/libexec", "/usr/sbin", "/var/lib", "/var/log")
LIBEXEC = "/usr/libexec/holdfast"
AWK = os.path.realpath(shutil.which("awk"))  # an alternative of /etc
os.environ["PATH"] = f"/run:{os.environ['PATH']}"
ALLOC = "00000000-0000-4000-8000-000000000001"
RECORD = f'{{\n "boot_id": "{Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()}",\n "mount_ids": []\n}}\n'
CA = "/etc/holdfast/tls/ca.pem"
# what scripts, daemons, systemd and the documents make, by package
FILES = {
    "agent": ("/etc/holdfast/agent.hcl", "/etc/holdfast/agent.d/a.hcl", "/etc/holdfast/tls/node.key", "/etc/holdfast/tls/node.pem",
              "/etc/holdfast/tls/ticket.pub", "/etc/holdfast/tls/enroll.key", "/etc/credstore/holdfast.node.key",
              "/etc/credstore.encrypted/holdfast.node.key", "/var/lib/holdfast/agent/agent.db"),
    "driver-container": ("/etc/holdfast/holdfast-driver-container.hcl", "/var/lib/holdfast-driver/trail.log",
                         "/var/lib/holdfast-driver/output/1", "/var/lib/holdfast-driver/pending/1"),
    "mounthelper": ("/etc/holdfast/mounthelper.policy", "/etc/holdfast/mounthelper.policy.applied",
                    "/run/holdfast-mount/lock/state", "/var/log/holdfast/mounthelper.trail"),
    "server": ("/etc/holdfast/server.hcl", "/etc/holdfast/server.d/a.hcl", "/etc/holdfast/tls/server.pem", "/etc/holdfast/tls/server.key",
               "/etc/holdfast/tls/etcd-ca.pem", "/etc/holdfast/tls/etcd.pem", "/etc/holdfast/tls/etcd.key", "/etc/credstore/holdfast.server.key",
               "/etc/credstore/holdfast.ticket.key", "/etc/credstore/holdfast.etcd.key", "/var/lib/holdfast/server/holdfast.db"),
    "fencer": ("/etc/holdfast/fencer.hcl", "/etc/holdfast/tls/fencer.pem", "/etc/holdfast/tls/fencer.key",
               "/etc/credstore/holdfast.fencer.key", "/var/lib/holdfast-fencer/1"),
    "cli": ("/etc/holdfast/cli.env", "/etc/holdfast/volumes.d/v.hcl", "/etc/credstore/holdfast.token", "/etc/credstore/holdfast.token.db",
            "/etc/credstore/holdfast.backup.token", "/etc/credstore.encrypted/holdfast.backup.token",
            "/var/lib/private/holdfast-volumes/db/note", "/var/lib/private/holdfast-docker-plugin/db.json"),
}  # fmt: skip


def run(*words, **kwargs):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, **kwargs)


def must(*words):
    done = run(*words)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done


def write(path, text="x\n", mode=0o644):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def mount(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    must("mount", "-t", "tmpfs", "none", folder)


def script(name, *words):
    """Runs a maintainer script as it is in its package."""
    text = (DEBIAN / name).read_text(encoding="utf-8").replace("@FORGET@", (DEBIAN / "forget.sh").read_text(encoding="utf-8"))
    return run("sh", "-c", text, name, *words)


def purge(*which):
    """What they say."""
    said = ""
    for package in which:
        done = script(f"{package}.postrm", "purge")
        assert done.returncode == 0, f"{package}: {done.stderr}"
        said += done.stderr
    return said


def files():
    return {str(path) for tree in TREES for path in Path(tree).rglob("*holdfast*")}


def dev(function):
    """Runs a function of ./dev."""
    text = (ROOT / "dev").read_text(encoding="utf-8").removesuffix('main "$@"\n')
    return run("bash", "-c", f"{text}\n{function}", str(ROOT / "dev"), cwd=ROOT)


class Scripts(unittest.TestCase):
    def setUp(self):
        for tree in TREES:
            must("mount", "-t", "tmpfs", "none", tree)
            self.addCleanup(must, "umount", "-l", tree)
        os.symlink(AWK, "/run/awk")
        for name in ("systemctl", "chcon"):
            write(f"/run/{name}", f'#!/bin/sh\necho "{name} $*" >>/run/log\n', 0o755)
        Path("/run/systemd/system").mkdir(parents=True)

    def log(self):
        return Path("/run/log").read_text(encoding="utf-8")

    def whole_machine(self):
        for paths in FILES.values():
            for path in paths:
                write(path)
        os.symlink("private/holdfast-docker-plugin", "/var/lib/holdfast-docker-plugin")
        write(CA)

    def test_a_purge_keeps_secrets_of_the_administrator(self):
        self.whole_machine()
        kept = {"/etc/credstore/worker-1.bmc": "fencer.service", "/etc/credstore.encrypted/rbd": "agent-socket.service",
                "/etc/credstore/ebs": "server.service"}  # fmt: skip
        for path, unit in kept.items():
            write(path)
            write(f"/etc/systemd/system/holdfast-{unit}.d/a.conf", f"[Service]\nLoadCredential={os.path.basename(path)}\n")
        ca_keys = {"/etc/credstore/holdfast.ca.key", "/etc/holdfast/tls/ca.key"}
        for path in ca_keys:
            write(path)
        write("/var/lib/private/holdfast-backup/1.kit")
        said = purge(*PACKAGES)
        for path in (*kept, *ca_keys):
            self.assertTrue(os.path.exists(path), path)
            self.assertIn(f"To remove it: rm {path}\n", said)
        self.assertIn("/var/lib/private/holdfast-backup is kept, with its kits\n", said)
        left = {path for path in files() if not path.startswith(("/etc/systemd", "/var/lib/private/holdfast-backup"))}
        self.assertEqual(left, {"/etc/credstore/holdfast.ca.key", "/etc/holdfast"})

    def test_the_ca_goes_with_the_last_of_those_that_use_it(self):
        users = ("/etc/holdfast/agent.hcl", "/etc/holdfast/cli.env", "/etc/holdfast/server.hcl", "/etc/holdfast/fencer.hcl",
                 "/etc/holdfast/tls/node.key", "/usr/sbin/holdfast-agent", "/usr/sbin/holdfast-server", "/usr/sbin/holdfast-fencer")
        write(CA)
        for path in users:
            write(path)
            purge("driver-container")
            self.assertTrue(os.path.exists(CA), path)
            os.unlink(path)
        purge("driver-container")
        self.assertFalse(os.path.exists("/etc/holdfast"))

    def test_a_purge_goes_past_mounts_and_protected_files(self):
        mounts = ("/etc/holdfast", "/var/lib/holdfast", "/var/lib/holdfast/agent", "/var/lib/holdfast-driver/output", "/run/holdfast-mount",
                  "/run/holdfast-mount/stage", "/run/holdfast/drivers/container")  # fmt: skip
        for folder in mounts:
            mount(folder)
        self.whole_machine()
        busy = ("/var/log/holdfast/mounthelper.trail", "/etc/holdfast/agent.hcl", "/etc/credstore/holdfast.token")
        for path in busy:
            must("mount", "--bind", path, path)  # as little as one with chattr +a can it be removed
        said = purge(*PACKAGES)
        for path in busy:
            self.assertIn(path, said)
        for path in {path for paths in FILES.values() for path in paths}.difference(busy):
            self.assertEqual(os.path.exists(path), path.startswith(("/var/lib/holdfast/agent", "/var/lib/holdfast-driver/output")), path)

    def test_the_backup_ends_with_its_program(self):
        self.assertEqual(script("cli.prerm", "remove").returncode, 0)
        for word in ("stop", "--quiet disable"):
            self.assertIn(f"systemctl {word} holdfast-docker-plugin.service holdfast-backup.timer\n", self.log())

    def remove(self, package, **programs):
        """Removes a package of a machine on which nothing is mounted, beside these programs; how that ended."""
        write(f"{LIBEXEC}/holdfast-in-use", "#!/bin/sh\n", 0o755)
        for name, text in programs.items():
            write(f"/run/{name.replace('_', '-')}", f"#!/bin/sh\n{text}\n", 0o755)
        Path("/run/log").unlink(missing_ok=True)
        return script(f"{package}.prerm", "remove")

    def test_the_driver_stays_while_a_task_runs(self):
        unit, check = "holdfast-driver-container.service", '[ "$*" = --check-idle ] || exit 0\n'
        done = self.remove("driver-container", holdfast_driver_container="exit 1")
        self.assertEqual(done.returncode, 0, "it never had a setting")
        write("/etc/holdfast/holdfast-driver-container.hcl")
        done = self.remove("driver-container", holdfast_driver_container=f"{check}echo containers of this node run: web >&2; exit 1")
        self.assertEqual(done.returncode, 1)
        for words in ("stays", "node run: web\n", "holdfast agent drain ", "/etc/holdfast/holdfast-driver-container.hcl first"):
            self.assertIn(words, done.stderr)
        self.assertFalse(os.path.exists("/run/log"), "something was stopped")
        done = self.remove("driver-container", holdfast_driver_container=f"{check}! grep -q stop /run/log")
        self.assertEqual(done.returncode, 1, "a task that began before the driver was stopped")
        self.assertTrue(self.log().endswith(f"systemctl stop {unit}\nsystemctl start {unit}\n"), self.log())
        done = self.remove("driver-container", holdfast_driver_container="exit 0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"systemctl stop {unit}\n", self.log())

    def remove_agent(self, before="", after="done"):
        """Removes an agent whose drain ends as AFTER, and which had accepted no allocations BEFORE, or does not answer."""
        return self.remove("agent", holdfast=f"""echo "holdfast $*" >>/run/log
            case "$*" in
            'agent drain --json') [ {after} = refused ] || echo '{{"drain": {{"state": "{after}"}}}}'; [ {after} = done ] ;;
            'agent drain --cancel') [ {after} != refused ] ;;
            'agent status --json') [ '{before}' != silent ] && printf '{{\n "drain": {{"state": "unacknowledged", {before}}}\n}}\n' ;;
            'agent status') echo "there is no socket" >&2; exit 1 ;;
            esac""")

    def test_the_agent_stays_if_its_drain_leaves_something(self):
        units = "holdfast-agent-socket.service holdfast-agent-setuid.service"
        for state, code in (("incomplete", 1), ("draining", 1), ("refused", 1), ("unacknowledged", 0), ("done", 0)):
            done = self.remove_agent(after=state)
            self.assertEqual(done.returncode, code, state)
            self.assertEqual("because the drain" in done.stderr, code == 1, done.stderr)
            self.assertEqual("node attest" in done.stderr, state == "unacknowledged", done.stderr)
            self.assertEqual("systemctl stop holdfast-drain.service\n" in self.log(), code == 0, self.log())
            self.assertEqual(f"systemctl stop {units}\n" in self.log(), code == 0, self.log())
            self.assertEqual("agent drain --cancel\n" in self.log(), code == 1, self.log())
            self.assertEqual("node failed, as said above" in done.stderr, state == "refused", done.stderr)
            self.assertEqual("takes new allocations again" in done.stderr, code == 1 and state != "refused", done.stderr)

    def test_a_drain_that_somebody_else_began_is_not_cancelled(self):
        done = self.remove_agent(before='"accepting": false', after="draining")
        self.assertEqual(done.returncode, 1)
        self.assertIn("takes no new allocations, as before", done.stderr)
        self.assertNotIn("--cancel", self.log())

    def test_the_agent_stays_if_it_does_not_answer_and_may_have_run_something(self):
        settings = "/etc/holdfast/agent.hcl"
        for has_settings, is_active in ((True, False), (False, True), (False, False)):
            write(settings)
            if not has_settings:
                os.unlink(settings)
            write("/run/systemctl", f'#!/bin/sh\necho "systemctl $*" >>/run/log\n[ $2 != is-active ] || exit {int(not is_active)}\n', 0o755)
            done = self.remove_agent(before="silent")
            self.assertEqual(done.returncode, int(has_settings or is_active))
            self.assertEqual("there is no socket\nNothing was stopped." in done.stderr, done.returncode == 1, done.stderr)
            self.assertEqual(" stop " in self.log(), done.returncode == 0, self.log())

    def test_the_cli_stays_while_an_allocation_of_a_unit_is_mounted(self):
        note, unit = "/var/lib/private/holdfast-volumes/db/allocation", "holdfast-volume@db.service"
        write(note, f"{ALLOC} ending\n")
        mounted = f"/run/publish/{ALLOC}/0"
        os.makedirs(mounted)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=True)
        self.addCleanup(subprocess.run, ["umount", mounted], stderr=subprocess.DEVNULL, check=False)
        os.makedirs("/etc/systemd/system/multi-user.target.wants")
        os.symlink("/lib/systemd/system/holdfast-volume@.service", f"/etc/systemd/system/multi-user.target.wants/{unit}")
        done = self.remove("cli")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"\n  {ALLOC}  {note}\n", done.stderr)
        self.assertNotIn("stop ", self.log())
        subprocess.run(["umount", mounted], check=True)
        done = self.remove("cli")
        self.assertEqual((done.returncode, done.stderr), (0, ""), "its note stays when it has ended")
        self.assertIn(f"systemctl --quiet disable {unit}\n", self.log())

    def test_a_compromised_holder_writes_neither_a_pattern_nor_to_a_terminal(self):
        folder, plugin = "/var/lib/private/holdfast-volumes", "/var/lib/private/holdfast-docker-plugin"
        for i, text in enumerate(("\x1b[2J", "\\033[2J" + "x" * 30, ".*" + "/" * 34, ".*\n" * 12, "")):
            write(f"{folder}/{i}/allocation", text)
        os.makedirs(plugin)
        write("/run/note", f"{ALLOC}\n")
        write("/run/record", RECORD)
        mount(f"/run/publish/{ALLOC}/0")
        self.addCleanup(must, "umount", f"/run/publish/{ALLOC}/0")
        for i, (note, record) in enumerate((("/run/note", "/run/record"), ("/run/waits", "/run/waits"))):
            os.makedirs(f"{folder}/link{i}")
            os.symlink(note, f"{folder}/link{i}/allocation")
            os.symlink(record, f"{plugin}/link{i}.json")
        os.mkfifo("/run/waits")  # as /proc/kmsg
        os.makedirs(f"{folder}/db")
        os.mkfifo(f"{folder}/db/allocation")
        os.mkfifo(f"{plugin}/db.json")
        for name in ("\x1b[2J", "\\033[2J"):
            write(f"{plugin}/{name}.json", RECORD)
        write(f"{plugin}/earlier-boot.json", f'"boot_id": "{ALLOC}",\n "mount_ids": []')
        done = self.remove("cli")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        write(f"{plugin}/pg_data-1.json", RECORD)
        done = self.remove("cli")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it holds:\n  pg_data-1\nNothing", done.stderr)
        write("/run/head", '#!/bin/sh\nexec true\n', 0o755)
        self.assertEqual(self.remove("cli").returncode, 0, "so many files that the removal never ends")

    def rotate(self, part, goes=True):
        """Runs a script of the trail's rotation as logrotate does, which leaves the log in its place if it fails."""
        text = (DEBIAN / "holdfast-mounthelper.logrotate").read_text(encoding="utf-8")
        done = run("sh", "-c", text.split(f"\t{part}\n")[1].split("endscript")[0], "logrotate", "/var/log/holdfast/mounthelper.trail")
        self.assertEqual((done.returncode == 0, done.stderr == ""), (goes, goes), done.stderr)

    def test_a_trail_that_only_grows_does_so_after_each_rotation(self):
        only_grows = Path("/run/attributes")
        write("/run/lsattr", "#!/bin/sh\ncat /run/attributes\n", 0o755)
        write("/run/chattr", f'#!/bin/sh\n[ "$1" = +a ] && letter=a\necho "---$letter--- $2" >{only_grows}\n', 0o755)
        for begins, power_goes in (("-", False), ("a", False), ("a", True)):
            for folder in ("/run/holdfast-mount", "/var/log/holdfast"):
                Path(folder).mkdir(exist_ok=True)
            only_grows.write_text(f"---{begins}--- /var/log/holdfast/mounthelper.trail\n", encoding="ascii")
            self.rotate("prerotate")
            self.assertEqual(only_grows.read_text(encoding="ascii").split()[0].strip("-"), "", "it cannot be moved")
            if power_goes:
                shutil.rmtree("/run/holdfast-mount")
                self.rotate("prerotate")
            self.rotate("postrotate")
            self.assertEqual(only_grows.read_text(encoding="ascii").split()[0].strip("-"), begins.strip("-"))
            self.assertEqual(list(Path("/var/log/holdfast").iterdir()), [])
        os.rmdir("/var/log/holdfast")  # as little can be noted as on a full disk
        only_grows.write_text("---a--- /var/log/holdfast/mounthelper.trail\n", encoding="ascii")
        self.rotate("prerotate", goes=False)
        self.assertIn("---a---", only_grows.read_text(encoding="ascii"))
        os.mkdir("/var/log/holdfast")
        self.rotate("prerotate")
        write("/run/chattr", "#!/bin/sh\nexit 1\n", 0o755)
        self.rotate("postrotate")
        self.assertEqual(len(list(Path("/var/log/holdfast").iterdir())), 1, "the next rotation tries again")

    def test_a_backup_that_was_killed_goes_with_the_next_one(self):
        names = ("1.kit", "2.kit.part-a1B2c3", "3.kit")
        for name in names:
            write(f"/var/lib/backup/{name}")
        unit = (ROOT / "systemd/holdfast-backup.service.in").read_text(encoding="utf-8")
        for line in unit.splitlines():
            if line.startswith("ExecStartPre="):
                must("env", "STATE_DIRECTORY=/var/lib/backup", *shlex.split(line.partition("=")[2].replace("$$", "$")))
        self.assertEqual(sorted(os.listdir("/var/lib/backup")), ["1.kit", "3.kit"])

    def test_no_number_of_kits_removes_the_last_one(self):
        unit = (ROOT / "systemd/holdfast-backup.service.in").read_text(encoding="utf-8")
        (line,) = (line.partition("=")[2].replace("$$", "$") for line in unit.splitlines() if line.startswith("ExecStartPost="))
        for keep in ("2", "1", "0", "00", "-1", "", "all"):
            for i in range(1, 4):
                write(f"/var/lib/backup/{i}.kit")
            done = run("env", "STATE_DIRECTORY=/var/lib/backup", f"BACKUP_KEEP={keep}", *shlex.split(line))
            left = int(keep) if keep in ("1", "2") else 3
            self.assertEqual(sorted(os.listdir("/var/lib/backup")), [f"{i}.kit" for i in range(4 - left, 4)], keep)
            self.assertEqual((done.returncode == 0, "no kit is removed" in done.stderr), (left < 3, left == 3), done.stderr)

    def test_the_kit_that_was_just_taken_is_never_removed(self):
        unit = (ROOT / "systemd/holdfast-backup.service.in").read_text(encoding="utf-8").replace("@CMAKE_INSTALL_FULL_BINDIR@/holdfast", "take")
        lines = [line.partition("=")[2].replace("$$", "$").replace("%%", "%") for line in unit.splitlines() if line.startswith("ExecStart")]
        write("/run/take", '#!/bin/sh\nfor path; do :; done\necho >"$path"\n', 0o755)
        write("/run/date", "#!/bin/sh\necho 2026-11-29T000000Z\n", 0o755)
        for keep, old, left in ((2, ("11-27", "11-28"), ("11-28", "11-29")), (1, (), ("11-29",)),
                                (2, ("11-30", "12-01"), None), (1, ("11-30",), None), (9, ("11-30",), None)):  # fmt: skip
            shutil.rmtree("/var/lib/backup", ignore_errors=True)
            os.mkdir("/var/lib/backup")
            for day in old:
                write(f"/var/lib/backup/2026-{day}T000000Z.kit")
            done = run("env", "STATE_DIRECTORY=/var/lib/backup", f"BACKUP_KEEP={keep}", "CREDENTIALS_DIRECTORY=/run",
                       "sh", "-ec", "\n".join(lines))  # fmt: skip
            self.assertEqual(done.returncode == 0, left is not None, done.stderr)
            self.assertEqual(sorted(os.listdir("/var/lib/backup")), sorted(f"2026-{day}T000000Z.kit" for day in left or (*old, "11-29")))
            self.assertEqual(f"remove /var/lib/backup/2026-{old and old[-1]}T000000Z.kit" in done.stderr, left is None, done.stderr)

    def in_use(self, applied="", noted=False):
        """Is a mount below /var/lib/p in use, with these trees of the applied policy?"""
        write(f"{LIBEXEC}/holdfast-policy", f"#!/bin/sh\n[ \"$*\" = 'trees /etc/holdfast/mounthelper.policy' ] && printf '{applied}'\n", 0o755)
        shutil.copy(DEBIAN / "holdfast-in-use", LIBEXEC)
        base = "/var/lib/p"
        mount(f"{base}/{ALLOC}/0")
        if noted:
            Path(f"{base}/.published").mkdir()
        done = run(f"{LIBEXEC}/holdfast-in-use", "it")
        must("umount", f"{base}/{ALLOC}/0")
        self.assertEqual(f"{base}/{ALLOC}/0" in done.stderr, done.returncode == 1, done.stderr)
        return done.returncode == 1

    def test_each_tree_that_has_mounts_is_in_use(self):
        self.assertFalse(self.in_use())
        self.assertTrue(self.in_use(applied=r"/var/lib/p\n"))
        self.assertFalse(self.in_use(applied=r"/var/other\n"))
        for text in ("agent 1 { stage_base = /srv/s; publish_base = /var/lib/p }", "agent 1 {\npublish_base=/var/lib/p # x\n}\n"):
            write("/etc/holdfast/mounthelper.policy", text)
            self.assertTrue(self.in_use(), text)
        write("/etc/holdfast/mounthelper.policy", "agent 1 { publish_base = /var/new }")
        self.assertFalse(self.in_use())
        self.assertTrue(self.in_use(noted=True))
        os.unlink("/run/awk")
        write("/run/awk", f"#!/bin/bash\nsed '/{ALLOC}/s/$/,user_id=1000/' /proc/self/mountinfo | {AWK} \"${{@:1:$#-1}}\"\n", 0o755)
        self.assertFalse(self.in_use(), "a user's FUSE mount")

    def test_a_plugin_names_its_mounts_but_writes_nothing_to_a_terminal(self):
        shutil.copy(DEBIAN / "holdfast-in-use", f"{LIBEXEC}-in-use")
        for name, shown in (("\x1b[2J", "?[2J"), ("\x9b2J", "??2J"), ("\u202ex", "???x"), ("x\nNext: rm", "x\\012Next:\\040rm")):
            mount(f"/run/holdfast-mount/stage/.csi/plug/{name}")
            said = run("sh", f"{LIBEXEC}-in-use", "it").stderr
            must("umount", f"/run/holdfast-mount/stage/.csi/plug/{name}")
            self.assertIn(f"/plug/{shown}\n1 in all", said)

    def test_no_label_is_changed_outside_of_run(self):
        Path("/run/holdfast/x/shadow").mkdir(parents=True)
        Path("/run/holdfast/y").mkdir()
        write("/etc/shadow")
        # who may write there is faster than chcon
        write("/run/chcon", '#!/bin/sh\n[ -L /run/holdfast/x ] || { mv /run/holdfast/x /run/moved; ln -s /etc /run/holdfast/x; }\n'
              'shift 2\nfor path in "$@"; do readlink -f "$path" >>/run/log; done\n', 0o755)  # fmt: skip
        text = (ROOT / "selinux/debian/prerm").read_text(encoding="utf-8").partition("\nif [")[0]
        done = run("sh", "-c", f"{text}\nrelabel_run\n", "prerm", "remove")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("/run/holdfast\n", self.log())
        self.assertNotIn("/etc", self.log().replace("/etc\n", ""))

    def test_no_label_of_a_device_of_a_volume_is_changed(self):
        target = "/run/holdfast-mount/stage/.csi/ebs/vol/@rw"  # of a block attachment
        for path in (target, "/run/device", "/run/holdfast/plugins/x"):
            write(path)
        must("mount", "--bind", "/run/device", target)
        self.addCleanup(must, "umount", target)
        write("/run/chcon", '#!/bin/sh\nshift 2\nfor path in "$@"; do realpath -s "$path" >>/run/log; done\n', 0o755)
        text = (ROOT / "selinux/debian/prerm").read_text(encoding="utf-8").partition("\nif [")[0]
        done = run("sh", "-c", f"{text}\nrelabel_run\n", "prerm", "remove")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("/run/holdfast-mount/stage/.csi/ebs/vol\n", self.log())
        self.assertIn("/run/holdfast/plugins/x\n", self.log())
        self.assertNotIn(f"{target}\n", self.log())

    def test_an_upgrade_tells_of_an_earlier_rule_of_polkit(self):
        rule = "/etc/polkit-1/rules.d/50-holdfast.rules"
        now = (ROOT / "systemd/50-holdfast.rules").read_text(encoding="utf-8")
        for name in ("systemd-sysusers", "systemd-tmpfiles"):
            write(f"/run/{name}", "#!/bin/sh\n", 0o755)
        for text, is_told in ((now.replace('lookup("polkit.message")', 'lookup("verb")'), True), (now, False), (None, False)):
            if text:
                write(rule, text)
            else:
                os.unlink(rule)
            done = script("agent.postinst", "configure", "0.1.0")
            self.assertEqual((done.returncode, rule in done.stderr), (0, is_told), done.stderr)

    def test_an_agent_that_takes_its_socket_away_does_not_fail_the_installation(self):
        for name in ("selinuxenabled", "semodule"):
            write(f"/run/{name}", "#!/bin/sh\n", 0o755)
        # its owner is faster; restorecon(8) ends with 255 if it finds no file
        write("/run/restorecon", '#!/bin/sh\nfor path; do :; done\n[ "$path" != /run/holdfast/agent.sock ] || rm "$path"\n[ -e "$path" ] || exit 255\n', 0o755)
        write("/run/holdfast/agent.sock")
        done = run("sh", ROOT / "selinux/debian/postinst", "configure")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_label_is_changed_by_a_path_through_a_folder_of_another_account(self):
        foreign = ("/run/holdfast/plugins", "/run/holdfast/drivers", "/run/holdfast-holders", "/var/lib/holdfast/agent",
                   "/var/lib/holdfast/server", "/var/lib/private/holdfast-volumes")  # fmt: skip
        for name in ("selinuxenabled", "semodule", "restorecon"):
            write(f"/run/{name}", f'#!/bin/sh\necho "{name} $*" >>/run/log\n', 0o755)
        # who may write in a folder is faster than chcon
        write("/run/chcon", f'#!/bin/sh\nfor folder in {" ".join(foreign)}; do\n'
              '[ -L "$folder/x" ] || { mv "$folder/x" "$folder/moved"; ln -s /etc "$folder/x"; }\ndone\nshift 2\n'
              'for path in "$@"; do echo "chcon $(realpath -s "$path") in $(readlink -f "$(dirname "$path")")" >>/run/log; done\n', 0o755)  # fmt: skip
        for name, word in (("postinst", "configure"), ("prerm", "remove")):
            for folder in foreign:
                shutil.rmtree(folder, ignore_errors=True)
                write(f"{folder}/x/shadow")
            Path("/run/log").unlink(missing_ok=True)
            done = run("sh", ROOT / f"selinux/debian/{name}", word)
            self.assertEqual(done.returncode, 0, done.stderr)
            for line in self.log().splitlines():
                if line.startswith("restorecon -R"):
                    path = line.split()[-1]
                    self.assertFalse([folder for folder in foreign if f"{folder}/".startswith(f"{path}/") or path.startswith(f"{folder}/")], line)
            for folder in foreign:
                self.assertIn(f"chcon {folder}/x in {folder}\n", self.log(), name)
            self.assertNotIn(" in /etc\n", self.log(), name)

    def test_dev_knows_each_account_and_each_folder_of_state(self):
        accounts = {path.name.removesuffix(".sysusers") for path in (ROOT / "systemd").glob("*.sysusers")}
        for name in accounts:
            write(f"/run/p/lib/sysusers.d/{name}.conf", (ROOT / f"systemd/{name}.sysusers").read_text(encoding="utf-8"))
        write("/run/systemd-sysusers", "#!/bin/sh\n", 0o755)
        Path("/run/p/share/holdfast").mkdir(parents=True)
        done = dev("PREFIX=/run/p make_accounts; cat /run/p/share/holdfast/install-manifest")
        names = ("holdfast", "holdfast-driver", "holdfast-fencer", "holdfast-mount", "holdfast-server")
        self.assertEqual(sorted(done.stdout.split("\n")), ["", *(f"user {name}" for name in names)], done.stderr)
        self.whole_machine()
        self.assertEqual(dev("purge_state").returncode, 0)
        left = {path for path in files() if not path.startswith(("/etc/credstore", "/run"))}
        self.assertEqual(left, set())


if __name__ == "__main__":
    unittest.main()
