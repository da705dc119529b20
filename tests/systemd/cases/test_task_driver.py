# SPDX-License-Identifier: Apache-2.0
"""Services that the agent starts, watches and stops: real PID 1, real D-Bus, real polkit."""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import machine
import test_journal

OTHER_RELEASE = ("container",)

RULES = "/etc/polkit-1/rules.d/50-holdfast.rules"
UNIT_DIR = "/etc/systemd/system"
AGENT = "holdfast-agent-socket.service"
NETWORK = ["network-app.service", "network-proxy.service"]
UNITS = [*NETWORK, "hf-db.service", "hf-stubborn.service", "hf-fails.service", "hf-once.service", "hf-again.service",
         "hf-db@1.service", "hf-missing.service", "hf-unmet.service"]  # fmt: skip


def make_unit(name, text):
    machine.write(f"{UNIT_DIR}/{name}", text)


def service(command, *lines):
    return "[Service]\nExecStart={}\n{}\n".format(command, "\n".join(lines))


def allow(polkit, agent):
    """The two lists."""
    with open(RULES, encoding="utf-8") as f:
        text = f.read()
    names = "".join(f'\t\t"{unit}",\n' for unit in polkit)
    text, n = re.subn(r"var units = \[\n[^\]]*\]", "var units = [\n" + names + "\t]", text)
    assert n == 1, text
    machine.write(RULES, text)
    quoted = ", ".join(f'"{unit}"' for unit in agent)
    machine.write(f"{machine.ETC}/agent.d/task.hcl", f"task {{\n  systemd_units = [{quoted}]\n}}\n")
    machine.systemctl("restart", AGENT)
    machine.systemctl("restart", "polkit.service")
    machine.wait_connected()


def spec(name, unit, **more):
    path = machine.alloc_spec(name, f"vol-{name}")
    with open(path, "a", encoding="utf-8") as f:
        f.write(f'driver = "systemd"\nunit = "{unit}"\n')
        f.writelines(f'{key} = "{value}"\n' for key, value in more.items())
    return path


def submit(name, unit, **more):
    """Submit without waiting; the allocation's id."""
    machine.holdfast("volume", "register", machine.volume_spec(f"vol-{name}"))
    return machine.holdfast_json("alloc", "run", "--no-wait", spec(name, unit, **more))["allocation"]["id"]


def alloc(ident):
    return machine.holdfast_json("alloc", "status", ident)["allocation"]


def wait_status(ident, word):
    def reached():
        now = alloc(ident)
        if now["client_status"] == word:
            return now
        if now["client_status"] in ("FAILED", "COMPLETE", "LOST"):
            raise AssertionError(f"it is {now['client_status']}, not {word}: {now.get('client_description')}")
        return None

    return machine.wait_for(f"allocation {ident} to be {word}", reached)


def ended(ident):
    return machine.wait_for(
        f"allocation {ident} to end", lambda: (a := alloc(ident))["client_status"] in ("FAILED", "COMPLETE", "LOST") and a
    )


def invocation(unit):
    return machine.show(unit, "InvocationID")


def mounted(ident):
    return [line for line in machine.mounts_below(machine.TREE) if ident in line]


def stop(ident):
    machine.holdfast("alloc", "stop", "--no-wait", ident)


def told(ident, unit):
    """The events of a unit that the agent told for an allocation, in their order."""
    entries = test_journal.entries(f"HOLDFAST_ALLOC={ident}", f"HOLDFAST_UNIT={unit}", "SYSLOG_IDENTIFIER=holdfast-agent")
    return [entry["HOLDFAST_EVENT"] for entry in entries]


def agent_pid():
    return int(machine.show(AGENT, "MainPID"))


class TaskDriver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()
        make_unit("hf-db.service", service("/bin/sleep infinity"))
        make_unit("hf-db@.service", service("/bin/sleep infinity"))
        make_unit("hf-other.service", service("/bin/sleep infinity"))
        make_unit("hf-unlisted.service", service("/bin/sleep infinity"))
        make_unit(
            "hf-stubborn.service", service("/bin/sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'", "TimeoutStopSec=300")
        )
        make_unit("hf-fails.service", service("/bin/sh -c 'sleep 0.5; exit 3'"))
        make_unit("hf-once.service", service("/bin/sh -c 'echo once >>/root/once'", "Type=oneshot"))
        make_unit("hf-again.service", service("/bin/sleep infinity", "Restart=always", "RestartSec=1"))
        make_unit("hf-unmet.service", "[Unit]\nConditionPathExists=/nowhere\n" + service("/bin/sleep infinity"))
        for unit in NETWORK:
            shutil.copy(f"/usr/share/holdfast/examples/{unit}", UNIT_DIR)
        machine.systemctl("daemon-reload")
        allow(UNITS, UNITS + ["hf-other.service"])

    def test_a_unit_runs_on_its_volume_and_stops_before_it_goes(self):
        ident = submit("db", "hf-db@1.service")
        wait_status(ident, "RUNNING")
        self.assertTrue(machine.is_active("hf-db@1.service"))
        self.assertEqual(len(mounted(ident)), 1)
        stop(ident)
        self.assertEqual(ended(ident)["client_status"], "COMPLETE")
        self.assertFalse(machine.is_active("hf-db@1.service"))
        self.assertEqual(mounted(ident), [])
        self.assertEqual(told(ident, "hf-db@1.service"), ["unit-runs", "unit-stopped"])

    def test_units_share_a_network_that_goes_with_the_last_of_them(self):
        idents = [submit(f"net-{i}", unit) for i, unit in enumerate(NETWORK)]
        for ident in idents:
            wait_status(ident, "RUNNING")
        app, proxy = (machine.show(unit, "MainPID") for unit in NETWORK)
        self.assertEqual(os.readlink(f"/proc/{app}/ns/net"), os.readlink(f"/proc/{proxy}/ns/net"))
        self.assertNotEqual(os.readlink(f"/proc/{app}/ns/net"), os.readlink("/proc/1/ns/net"))
        listen = ["nsenter", f"--net=/proc/{app}/ns/net", "socat", "-u", "SYSTEM:echo hello", "TCP-LISTEN:7000,bind=127.0.0.1"]
        ask = ["socat", "-u", "TCP:127.0.0.1:7000", "-"]
        with subprocess.Popen(listen) as listener:
            self.assertNotEqual(machine.run(*ask, check=False).returncode, 0)  # from outside
            said = machine.wait_for("an answer", lambda: machine.run("nsenter", f"--net=/proc/{proxy}/ns/net", *ask, check=False).stdout)
            self.assertEqual(said, "hello\n")
            listener.wait(30)
        for ident, still in zip(idents, (True, False)):
            stop(ident)
            self.assertEqual(ended(ident)["client_status"], "COMPLETE")
            machine.wait_for("the network to follow", lambda still=still: machine.is_active("holdfast-network@web.service") == still)

    def test_units_stop_when_the_process_of_their_network_is_killed(self):
        machine.systemctl("start", *NETWORK)
        os.kill(int(machine.show("holdfast-network@web.service", "MainPID")), signal.SIGKILL)
        for unit in NETWORK:
            machine.wait_for("it to stop", lambda unit=unit: machine.show(unit, "ActiveState") == "inactive")
        self.assertEqual(len(self.folders_of_tmp(*NETWORK)), 3)

    def folders_of_tmp(self, *units):
        """What (machine, unit...) have as /tmp and /var/tmp, while the units run in one network."""
        machine.systemctl("start", *units)
        pids = [machine.show(unit, "MainPID") for unit in units]
        self.assertEqual(len({os.readlink(f"/proc/{pid}/ns/net") for pid in pids}), 1)
        stats = [[os.stat(f"/proc/{pid}/root{path}") for path in ("/tmp", "/var/tmp")] for pid in ("1", *pids)]
        machine.systemctl("stop", *units)
        return [[(stat.st_dev, stat.st_ino) for stat in both] for both in stats]

    def test_units_of_a_network_have_each_their_own_tmp(self):
        of_machine, app, proxy = self.folders_of_tmp(*NETWORK)
        for here, one, other in zip(of_machine, app, proxy):
            self.assertEqual(len({here, one, other}), 3)

    def test_units_that_join_all_of_a_network_have_not_the_tmp_of_the_machine(self):
        make_unit("hf-joined@.service", "[Unit]\nRequires=holdfast-network@all.service\nAfter=holdfast-network@all.service\n"
                  "JoinsNamespaceOf=holdfast-network@all.service\n" + service("/bin/sleep infinity", "PrivateNetwork=yes", "PrivateTmp=yes"))
        machine.systemctl("daemon-reload")
        of_machine, one, other = self.folders_of_tmp("hf-joined@1.service", "hf-joined@2.service")
        self.assertEqual(one, other)
        for here, joined in zip(of_machine, one):
            self.assertNotEqual(here, joined)

    def test_a_unit_has_no_commands_in_it_and_reports_where_its_output_is(self):
        ident = submit("noexec", "hf-db.service")
        wait_status(ident, "RUNNING")
        for words in (("alloc", "exec", ident, "--", "/bin/true"), ("alloc", "logs", ident), ("alloc", "stats", ident)):
            done = machine.holdfast(*words, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("journalctl -u hf-db.service", done.stderr)
        stop(ident)
        ended(ident)

    def test_a_stubborn_unit_keeps_its_volume(self):
        ident = submit("stubborn", "hf-stubborn.service", stop_timeout="1s")
        wait_status(ident, "RUNNING")
        stop(ident)

        def stopping():
            rows = [o for o in (machine.agent_status() or {}).get("operations", []) if o["alloc_id"] == ident]
            return rows and "stop_timeout" in rows[0].get("last_error", "") and rows[0]

        row = machine.wait_for("the stop to be late", stopping)
        self.assertEqual(row["step"], "stop unit hf-stubborn.service")
        self.assertEqual(int(row["deadline_ms"]) - int(row["since_ms"]), 1000)
        self.assertIn("systemctl kill", row["last_error"])
        self.assertEqual(len(mounted(ident)), 1)
        # not even over a restart of the agent
        os.kill(agent_pid(), signal.SIGKILL)
        machine.wait_for("the stop to be late again", stopping)
        self.assertEqual(len(mounted(ident)), 1)
        self.assertNotIn(alloc(ident)["client_status"], ("COMPLETE", "FAILED"))
        machine.systemctl("kill", "--signal=KILL", "hf-stubborn.service")
        self.assertEqual(ended(ident)["client_status"], "COMPLETE")
        self.assertEqual(mounted(ident), [])

    def test_a_unit_that_fails_reports_how_and_gives_its_volume_back(self):
        ident = submit("fails", "hf-fails.service")
        now = machine.wait_for("it to fail", lambda: (a := alloc(ident))["client_status"] == "FAILED" and a)
        self.assertIn("exit-code", now["client_description"])
        self.assertIn("exit status 3", now["client_description"])
        self.assertEqual(told(ident, "hf-fails.service")[-1], "unit-failed")
        machine.wait_for("its volume to go", lambda: not mounted(ident))

    def test_a_unit_that_ends_well_is_complete_and_runs_once(self):
        ident = submit("once", "hf-once.service")
        self.assertEqual(ended(ident)["client_status"], "COMPLETE")
        machine.wait_for("its volume to go", lambda: not mounted(ident))
        with open("/root/once", encoding="ascii") as f:
            self.assertEqual(f.read(), "once\n")
        self.assertEqual(told(ident, "hf-once.service")[-1], "unit-ended")

    def test_a_unit_that_systemd_restarts_still_runs(self):
        ident = submit("again", "hf-again.service")
        wait_status(ident, "RUNNING")
        before = invocation("hf-again.service")
        machine.systemctl("kill", "--signal=KILL", "hf-again.service")
        machine.wait_for("systemd to restart it",
                         lambda: machine.is_active("hf-again.service") and invocation("hf-again.service") != before)  # fmt: skip
        self.assertEqual(alloc(ident)["client_status"], "RUNNING")
        # stopped while it waits for its restart, it stays down
        machine.systemctl("kill", "--signal=KILL", "hf-again.service")
        stop(ident)
        self.assertEqual(ended(ident)["client_status"], "COMPLETE")
        time.sleep(1.5)
        self.assertFalse(machine.is_active("hf-again.service"))

    def test_restarts_of_agent_bus_and_systemd_change_nothing(self):
        ident = submit("kept", "hf-db.service")
        wait_status(ident, "RUNNING")
        before = invocation("hf-db.service")
        mounts = mounted(ident)
        for what in (
            lambda: os.kill(agent_pid(), signal.SIGKILL),
            lambda: machine.systemctl("daemon-reexec"),
            lambda: machine.systemctl("daemon-reload"),
            lambda: machine.systemctl("restart", "dbus.service"),
        ):
            what()
            time.sleep(0.5)
            machine.wait_for("PID 1 on the bus", lambda: machine.run("busctl", "status", "org.freedesktop.systemd1",
                                                                     check=False).returncode == 0)  # fmt: skip
            machine.wait_connected()
            self.assertEqual(invocation("hf-db.service"), before)
            self.assertEqual(alloc(ident)["client_status"], "RUNNING")
            self.assertEqual(mounted(ident), mounts)
        # and what happens afterwards is noticed
        stop(ident)
        self.assertEqual(ended(ident)["client_status"], "COMPLETE")
        self.assertFalse(machine.is_active("hf-db.service"))

    def test_a_unit_that_runs_already_is_refused_and_left_alone(self):
        machine.systemctl("start", "hf-db.service")
        before = invocation("hf-db.service")
        ident = submit("foreign", "hf-db.service")
        now = ended(ident)
        self.assertEqual(now["client_status"], "FAILED")
        self.assertIn("systemctl disable --now", now["client_description"])
        self.assertEqual(told(ident, "hf-db.service"), ["unit-refused"])
        machine.wait_for("its volume to go", lambda: not mounted(ident))
        self.assertEqual(invocation("hf-db.service"), before)
        machine.systemctl("stop", "hf-db.service")

    def test_units_that_cannot_be_started_are_refused_with_the_reason(self):
        for name, unit, words, event in (
            ("unlisted", "hf-unlisted.service", f"{machine.ETC}/agent.hcl", "unit-refused"),
            ("nopolkit", "hf-other.service", RULES, "unit-refused"),
            ("missing", "hf-missing.service", "not-found", "unit-failed"),
            ("unmet", "hf-unmet.service", "condition", "unit-failed"),
        ):
            with self.subTest(unit):
                now = ended(submit(name, unit))
                self.assertEqual(now["client_status"], "FAILED")
                self.assertIn(words, now["client_description"])
                self.assertIn(unit, now["client_description"])
                self.assertFalse(machine.is_active(unit))
                self.assertEqual(told(now["id"], unit), [event])
                machine.wait_for("its volume to go", lambda now=now: not mounted(now["id"]))

    def test_polkit_lets_the_agents_user_do_nothing_else(self):
        def call(method, *args):
            return machine.run("setpriv", "--reuid=holdfast", "--regid=holdfast", "--init-groups", "busctl",
                               "--allow-interactive-authorization=no", "call", "org.freedesktop.systemd1",
                               "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", method, *args,
                               check=False)  # fmt: skip

        self.assertEqual(call("StartUnit", "ss", "hf-db@1.service", "fail").returncode, 0)
        for refused in (
            ("StartUnit", "ss", "hf-other.service", "fail"),
            ("StopUnit", "ss", AGENT, "fail"),
            ("RestartUnit", "ss", "hf-db@1.service", "fail"),
            ("TryRestartUnit", "ss", "hf-db@1.service", "fail"),
            ("ReloadUnit", "ss", "hf-db@1.service", "fail"),
            ("KillUnit", "ssi", "hf-db@1.service", "all", "9"),
            ("ResetFailedUnit", "s", "hf-db@1.service"),
            ("SetUnitProperties", "sba(sv)", "hf-db@1.service", "true", "0"),
            # systemd 257 looks whether there is such a unit before it asks who wants it
            ("StartTransientUnit", "ssa(sv)a(sa(sv))", "hf-new.service", "fail", "0", "0"),
            ("EnableUnitFiles", "asbb", "1", "hf-db.service", "false", "false"),
            ("Reload", ""),
        ):
            with self.subTest(refused[0]):
                args = [a for a in refused[1:] if a]
                done = call(refused[0], *args)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, "[Aa]ccess denied|nteractive authentication required|Permission denied")
        self.assertTrue(machine.is_active("hf-db@1.service"))
        self.assertEqual(call("StopUnit", "ss", "hf-db@1.service", "replace").returncode, 0)


if __name__ == "__main__":
    unittest.main()
