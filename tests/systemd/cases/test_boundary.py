# SPDX-License-Identifier: Apache-2.0
"""What accounts of this machine try at the boundary of the host: the bus, root's folders, the agent's socket, the units."""

import glob
import grp
import os
import re
import subprocess
import unittest

import machine
import units
import volume_units

OTHER_RELEASE = ("container",)

RULES = "/etc/polkit-1/rules.d/50-holdfast.rules"
SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
LISTED, OTHER, ALIAS = "hf-listed.service", "hf-other.service", "hf-alias.service"
MISSING = "hf-missing.service"  # in the rule, but this machine has no such unit
REFUSED = "[Aa]ccess denied|nteractive authentication required|Permission denied"
PLUGINS = "/run/holdfast/plugins"

# Methods that change nothing, which the bus lets anybody call.
LOOKS = re.compile("^(Get.*|List.*|Load.*|Lookup.*|Dump.*|Subscribe|Unsubscribe)$")

# Every other method of the manager, on a unit that is in the rule. StartUnit and StopUnit are what it is for.
CHANGES = {
    "StartUnitWithFlags": ("sst", LISTED, "fail", "0"),
    "ReloadUnit": ("ss", LISTED, "fail"),
    "RestartUnit": ("ss", LISTED, "fail"),
    "TryRestartUnit": ("ss", LISTED, "fail"),
    "ReloadOrRestartUnit": ("ss", LISTED, "fail"),
    "ReloadOrTryRestartUnit": ("ss", LISTED, "fail"),
    "EnqueueUnitJob": ("sss", LISTED, "stop", "replace"),
    "EnqueueMarkedJobs": (),
    "KillUnit": ("ssi", LISTED, "all", "9"),
    "CleanUnit": ("sas", LISTED, "1", "state"),
    "FreezeUnit": ("s", LISTED),
    "ThawUnit": ("s", LISTED),
    "ResetFailedUnit": ("s", LISTED),
    "SetUnitProperties": ("sba(sv)", LISTED, "true", "0"),
    "BindMountUnit": ("sssbb", LISTED, "/etc", "/mnt", "false", "false"),
    "MountImageUnit": ("sssbba(ss)", LISTED, "/etc", "/mnt", "false", "false", "0"),
    "RefUnit": ("s", LISTED),
    "StartTransientUnit": ("ssa(sv)a(sa(sv))", "hf-new.service", "fail", "0", "0"),
    "AbandonScope": ("s", "init.scope"),
    "ClearJobs": (),
    "ResetFailed": (),
    "Reload": (),
    "Reexecute": (),
    "Exit": (),
    "Reboot": (),
    "PowerOff": (),
    "Halt": (),
    "KExec": (),
    "SwitchRoot": ("ss", "/", "/sbin/init"),
    "SetEnvironment": ("as", "1", "A=b"),
    "UnsetEnvironment": ("as", "1", "A"),
    "UnsetAndSetEnvironment": ("asas", "1", "A", "1", "A=b"),
    "EnableUnitFiles": ("asbb", "1", LISTED, "false", "false"),
    "DisableUnitFiles": ("asb", "1", LISTED, "false"),
    "EnableUnitFilesWithFlags": ("ast", "1", LISTED, "0"),
    "DisableUnitFilesWithFlags": ("ast", "1", LISTED, "0"),
    "ReenableUnitFiles": ("asbb", "1", LISTED, "false", "false"),
    "LinkUnitFiles": ("asbb", "1", "/tmp/x.service", "false", "false"),
    "PresetUnitFiles": ("asbb", "1", LISTED, "false", "false"),
    "PresetUnitFilesWithMode": ("assbb", "1", LISTED, "full", "false", "false"),
    "MaskUnitFiles": ("asbb", "1", LISTED, "false", "false"),
    "UnmaskUnitFiles": ("asb", "1", LISTED, "false"),
    "RevertUnitFiles": ("as", "1", LISTED),
    "SetDefaultTarget": ("sb", "rescue.target", "true"),
    "PresetAllUnitFiles": ("sbb", "full", "false", "false"),
    "AddDependencyUnitFiles": ("asssbb", "1", OTHER, LISTED, "Wants", "false", "false"),
    "SetExitCode": ("y", "3"),
    "SetShowStatus": ("s", "true"),
    # not in systemd 252
    "SoftReboot": ("s", ""),
    "QueueSignalUnit": ("ssii", LISTED, "all", "34", "0"),
    "DisableUnitFilesWithFlagsAndInstallInfo": ("ast", "1", LISTED, "0"),
    "StartAuxiliaryScope": ("sahta(sv)", "x.scope", "0", "0", "0"),
}
# They look at what there is before they ask who wants it.
LATER = {
    "AttachProcessesToUnit": (("ssau", LISTED, "", "1", "1"), "not available on non-delegated units"),
    "CancelJob": (("u", "4000000000"), "does not exist"),
    "StartUnitReplace": (("sss", OTHER, LISTED, "fail"), "No job queued"),
    "UnrefUnit": (("s", LISTED), "not been referenced"),
}


def as_user(name, *args):
    return machine.run("setpriv", f"--reuid={name}", "--regid=holdfast" if name == "nobody" else f"--regid={name}",
                       "--clear-groups", *args, check=False)  # fmt: skip


def call(method, *args, interface="Manager", path=SYSTEMD[1]):
    """As a compromised agent."""
    return as_user("holdfast", "busctl", "--allow-interactive-authorization=no", "call", SYSTEMD[0], path,
                   f"org.freedesktop.systemd1.{interface}", method, *args)  # fmt: skip


def methods():
    shown = machine.run("busctl", "introspect", *SYSTEMD, "org.freedesktop.systemd1.Manager").stdout
    return {line.split()[0].lstrip(".") for line in shown.splitlines() if " method " in line}


class Bus(unittest.TestCase):
    """The agent's account, with one unit in polkit's rule."""

    @classmethod
    def setUpClass(cls):
        for name in (LISTED, OTHER):
            # with a mount namespace, or systemd 257 refuses to mount in it before it asks who wants that
            machine.write(f"/etc/systemd/system/{name}", "[Service]\nPrivateMounts=yes\nExecStart=/bin/sleep infinity\n")
        machine.write("/etc/systemd/system/hf-slow.service", "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sleep infinity\n")  # fmt: skip
        os.symlink(OTHER, f"/etc/systemd/system/{ALIAS}")
        with open(RULES, encoding="utf-8") as f:
            text = f.read()
        machine.write(RULES, text.replace("var units = [", f'var units = ["{LISTED}", "{ALIAS}", "{MISSING}",'))
        machine.systemctl("daemon-reload")
        machine.systemctl("restart", "polkit.service")

    def setUp(self):
        machine.systemctl("start", LISTED, OTHER)

    def assert_refused(self, done, what):
        self.assertNotEqual(done.returncode, 0, what)
        self.assertRegex(done.stderr, REFUSED, what)

    def test_every_method_of_systemd_that_changes_something_is_refused_but_two(self):
        found = methods()
        self.assertGreater(len(found), 60)
        left = {name for name in found if not LOOKS.match(name)}
        self.assertEqual(left - set(CHANGES) - set(LATER), {"StartUnit", "StopUnit"})
        for name in sorted(left & set(CHANGES)):
            with self.subTest(name):
                self.assert_refused(call(name, *CHANGES[name]), name)
        for name, (args, words) in LATER.items():
            with self.subTest(name):
                self.assertIn(words, call(name, *args).stderr)
        self.assertTrue(machine.is_active(LISTED))

    def test_the_object_of_a_unit_gives_no_more(self):
        for method, args in {"Restart": ("s", "fail"), "Kill": ("si", "all", "9"), "Ref": (), "ResetFailed": (), "Freeze": (),
                             "SetProperties": ("ba(sv)", "true", "0"), "EnqueueJob": ("ss", "stop", "replace"),
                             "Clean": ("as", "1", "all")}.items():  # fmt: skip
            with self.subTest(method):
                done = call(method, *args, interface="Unit", path="/org/freedesktop/systemd1/unit/hf_2dlisted_2eservice")
                self.assert_refused(done, method)
        done = call("Stop", "s", "replace", interface="Unit", path="/org/freedesktop/systemd1/unit/hf_2dother_2eservice")
        self.assert_refused(done, "stop another one")

    def test_an_alias_in_the_rule_is_no_way_to_the_unit_behind_it(self):
        for name in (ALIAS, OTHER):
            self.assert_refused(call("StopUnit", "ss", name, "replace"), name)
        self.assertTrue(machine.is_active(OTHER))

    def test_a_transient_unit_by_a_listed_name_without_a_unit_is_refused(self):
        # since systemd 256 its verb is "start" as well
        mark = "/run/hf-transient"
        done = call("StartTransientUnit", "ssa(sv)a(sa(sv))", MISSING, "fail", "1", "ExecStart", "a(sasb)", "1", "/usr/bin/touch",
                    "2", "touch", mark, "false", "0")  # fmt: skip
        self.assert_refused(done, MISSING)
        self.assertFalse(machine.is_active(MISSING))
        self.assertFalse(os.path.exists(mark))

    def test_isolating_a_listed_unit_is_refused(self):
        self.assertNotEqual(call("StartUnit", "ss", LISTED, "isolate").returncode, 0)
        self.assertTrue(machine.is_active(OTHER))

    def test_the_right_to_stop_one_unit_allows_cancelling_queued_jobs(self):
        # not promised otherwise: polkit is not told the mode
        machine.systemctl("start", "--no-block", "--job-mode=replace-irreversibly", "hf-slow.service")
        machine.wait_for("the job", lambda: "hf-slow" in machine.systemctl("list-jobs").stdout)
        self.assertEqual(call("StopUnit", "ss", LISTED, "flush").returncode, 0)
        self.assertNotIn("hf-slow", machine.systemctl("list-jobs").stdout)
        machine.systemctl("stop", "hf-slow.service")


class Folders(unittest.TestCase):
    """What systemd-tmpfiles, as root, does to what others have put below /run/holdfast."""

    def test_links_of_the_agent_open_nothing_that_was_closed_to_it(self):
        os.mkdir(f"{PLUGINS}/evil")
        machine.write("/run/secret", "secret\n", 0o600)
        before = machine.run("getfacl", "-p", "/run/secret", "/etc/shadow").stdout
        for target, name in (("/run/secret", "a"), ("/etc/shadow", "b")):
            self.assertEqual(as_user("holdfast", "ln", "-s", target, f"{PLUGINS}/evil/{name}.sock").returncode, 0)
        self.assertNotEqual(as_user("holdfast", "ln", "/run/secret", f"{PLUGINS}/evil/c.sock").returncode, 0)
        for args in (("ln", "-s", "/etc", f"{PLUGINS}/x"), ("mv", f"{PLUGINS}/evil", f"{PLUGINS}/x"), ("rmdir", PLUGINS)):
            self.assertNotEqual(as_user("holdfast", *args).returncode, 0, args)
        machine.run("systemd-tmpfiles", "--create", "holdfast-agent.conf", check=False)
        self.assertEqual(machine.run("getfacl", "-p", "/run/secret", "/etc/shadow").stdout, before)

    def test_a_link_in_the_place_of_the_folder_is_not_followed(self):
        os.makedirs("/run/elsewhere/x")
        machine.write("/run/elsewhere/x/a.sock", "secret\n", 0o600)
        os.rename(PLUGINS, "/run/kept")
        try:
            self.assertEqual(as_user("holdfast", "ln", "-s", "/run/elsewhere", PLUGINS).returncode, 0)
            before = machine.run("getfacl", "-pR", "/run/elsewhere").stdout
            machine.run("systemd-tmpfiles", "--create", "holdfast-agent.conf", check=False)
            self.assertEqual(machine.run("getfacl", "-pR", "/run/elsewhere").stdout, before)
        finally:
            os.unlink(PLUGINS)
            os.rename("/run/kept", PLUGINS)


class Running(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()

    def test_only_root_and_the_agents_own_account_may_drain_or_look(self):
        for user in ("nobody", "holdfast-mount", "holdfast-server"):
            for what in (("drain", "--timeout", "1s"), ("drain", "--cancel"), ("status",)):
                with self.subTest(user=user, what=what):
                    done = as_user(user, "holdfast", "agent", *what)
                    self.assertNotEqual(done.returncode, 0)
                    # nobody is in the group here
                    self.assertIn("root and for the agent's own user" if user == "nobody" else "not open to this user", done.stderr)
        done = machine.run("systemd-run", "--wait", "--pipe", "--property=DynamicUser=yes", "holdfast", "agent", "drain", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertFalse(os.path.exists("/var/lib/holdfast/agent/drain.json"))

    def test_root_alone_is_an_operator_at_the_servers_socket(self):
        bare = ("env", "-i", "PATH=/usr/bin:/usr/sbin")
        path = f"{machine.ETC}/server.d/operators.hcl"
        machine.write(path, 'listen {\n  operators = ["root"]\n}\n')
        machine.systemctl("restart", units.SERVER)
        machine.wait_connected()
        machine.run(*bare, "holdfast", "operator", "policy", "list")
        for user in ("daemon", "holdfast", "holdfast-server"):
            with self.subTest(user=user):
                done = as_user(user, *bare, "holdfast", "operator", "policy", "list")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("/run/holdfast-server/server.sock", done.stderr)
        os.unlink(path)
        machine.systemctl("restart", units.SERVER)
        machine.wait_connected()
        self.assertFalse(os.path.exists("/run/holdfast-server/server.sock"))

    def test_members_of_the_group_leave_room_for_root(self):
        connect = (
            "import os, socket, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1]))\n"
            "held = [socket.socket(socket.AF_UNIX) for _ in range(20)]\n"
            "for s in held: s.connect('/run/holdfast/agent.sock')\n"
            "print('there', flush=True); sys.stdin.read()"
        )
        group = str(grp.getgrnam("holdfast").gr_gid)
        members = [subprocess.Popen(["python3", "-c", connect, str(uid), group], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for uid in (40001, 40002, 40003, 40004, 40005)]  # fmt: skip
        try:
            for member in members:
                self.assertEqual(member.stdout.readline(), b"there\n")
            self.assertTrue(machine.agent_status()["connected"])
            self.assertEqual(as_user("holdfast", "holdfast", "agent", "status").returncode, 0)
        finally:
            for member in members:
                member.kill()
                member.communicate()

    def test_keys_are_in_no_core_dump(self):
        for unit in (units.SERVER, units.SOCKET_AGENT):
            with self.subTest(unit), open(f"/proc/{machine.main_pid(unit)}/limits", encoding="ascii") as f:
                self.assertRegex(f.read(), r"Max core file size +0 +0 ")
        found = [path for path in glob.glob("/usr/lib/systemd/system/holdfast-*.service") if self.has_credential(path)]
        self.assertGreater(len(found), 5, found)
        for path in found:
            unit = os.path.basename(path).replace("@.", "@any.")
            self.assertEqual(machine.show(unit, "LimitCORE"), "0", unit)

    @staticmethod
    def has_credential(path):
        with open(path, encoding="utf-8") as f:
            return "LoadCredential" in f.read()

    def test_a_volume_unit_of_a_hostile_name_leaves_the_others_alone(self):
        for name in (".", "..", "--help", "-h", "a:b", r"a\x2fb", r"\x2e\x2e", "x.y", "n" * 65):
            with self.subTest(name):
                self.assertNotEqual(machine.systemctl("start", "--", volume_units.unit(name), check=False).returncode, 0)
        machine.systemctl("start", volume_units.unit("good"), check=False)
        self.assertEqual(machine.show(volume_units.unit("good"), "ExecMainStatus"), "78", "it has no file, which it says itself")
        self.assertEqual(os.stat("/var/lib/private/holdfast-volumes").st_uid, 0)


if __name__ == "__main__":
    unittest.main()
