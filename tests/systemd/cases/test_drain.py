# SPDX-License-Identifier: Apache-2.0
"""The drain at shutdown: a real shutdown transaction, of everything but these cases and what ends the machine."""

import json
import os
import re
import unittest

import machine

DRAIN = "holdfast-drain.service"
AGENT = "holdfast-agent-socket.service"
SERVER = "holdfast-server.service"
WORKLOAD = "workload.service"
DOWN = "down.target"
RESULT = "/var/lib/holdfast/agent/drain.json"
SEEN = "/root/seen-by-the-workload"
SECURITY_MAX = 1.5


def start_workload():
    """A service on a volume, ordered as docs/operations.md requires. Its last word is what it still had, and that it
    killed the helpers: the drain has to get new ones, in the middle of a shutdown."""
    machine.write("/root/last-word", f"""#!/bin/sh
grep -c ' {machine.TREE}/publish/' /proc/self/mountinfo >{SEEN}
systemctl is-active {DRAIN} {AGENT} {SERVER} >>{SEEN}
pkill --signal KILL -f /holdfast-mounthelper-socket
""", mode=0o755)  # fmt: skip
    machine.write(f"/run/systemd/system/{WORKLOAD}", f"""[Unit]
After={DRAIN}
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/root/last-word
""")  # fmt: skip
    machine.systemctl("daemon-reload")
    machine.systemctl("start", WORKLOAD)


def shut_down():
    """What poweroff(8) begins, without the unit that ends the machine; these cases shall see what comes after."""
    machine.write("/run/systemd/system/holdfast-test.service.d/outlive.conf", "[Unit]\nDefaultDependencies=no\n")
    machine.write(f"/run/systemd/system/{DOWN}", """[Unit]
DefaultDependencies=no
Requires=shutdown.target
After=shutdown.target
""")  # fmt: skip
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "--job-mode=replace-irreversibly", DOWN)
    for unit in (WORKLOAD, DRAIN, AGENT, SERVER):
        if machine.is_active(unit):
            raise AssertionError(f"{unit} outlived the shutdown")


def come_back(*units):
    machine.systemctl("stop", DOWN)
    machine.systemctl("start", "basic.target", *units)


def stopped():
    """Our units in the order in which they were stopped last."""
    lines = machine.journal("_PID=1").splitlines()
    units = (WORKLOAD, DRAIN, AGENT, SERVER)
    last = {unit: i for i, line in enumerate(lines) for unit in units if line.startswith(f"Stopped {unit}")}
    return sorted(last, key=last.get)


def result():
    with open(RESULT, encoding="utf-8") as f:
        return json.load(f)


def helpers():
    return machine.run("pgrep", "-f", "/holdfast-mounthelper-socket", check=False).stdout.split()


def run_alloc(name):
    machine.holdfast("volume", "register", machine.volume_spec(name))
    return machine.holdfast_json("alloc", "run", machine.alloc_spec(f"on-{name}", name))["allocation"]


def alloc_status(alloc):
    return machine.holdfast_json("alloc", "status", alloc["id"])["allocation"]


def drain(*args, check=True, user=None):
    command = ["holdfast", "agent", "drain", *args]
    if user:
        command = ["setpriv", f"--reuid={user}", "--regid=holdfast", "--clear-groups", *command]
    return machine.run(*command, check=check)


class Drain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()

    def setUp(self):
        machine.systemctl("start", SERVER, AGENT, DRAIN)
        machine.wait_connected()
        drain()
        drain("--cancel")

    def expect_lost(self, alloc):
        machine.wait_for("the allocation to be lost", lambda: alloc_status(alloc)["client_status"] == "LOST")
        self.assertEqual(alloc_status(alloc)["client_description"], "node was shut down")

    def test_a_shutdown_gives_volumes_back_after_their_users_and_before_all_that_is_needed_for_it(self):
        allocs = [run_alloc("shutdown-1"), run_alloc("shutdown-2")]
        start_workload()
        shut_down()
        with open(SEEN, encoding="utf-8") as f:
            self.assertEqual(f.read().split(), ["2", "active", "active", "active"])
        told = result()
        self.assertEqual(told["state"], "done", told)
        self.assertEqual(machine.mounts_below(machine.TREE), [])
        states = {volume["volume_id"]: volume["state"] for volume in told["volumes"]}
        self.assertEqual(states, {"shutdown-1": "released", "shutdown-2": "released"})
        order = stopped()
        self.assertEqual(order[:2], [WORKLOAD, DRAIN])
        self.assertEqual(set(order[2:]), {AGENT, SERVER})
        machine.wait_for("the helpers to end with the agent", lambda: not helpers())
        come_back(SERVER, AGENT)
        machine.wait_connected()
        for alloc in allocs:
            self.expect_lost(alloc)
        # held by nobody, although this node has had no other boot
        self.assertTrue(run_alloc("after-shutdown")["published"])
        self.assertIn("drain ended", machine.holdfast("agent", "status").stdout)

    def test_without_a_server_all_is_unmounted_and_it_is_reported_later(self):
        alloc = run_alloc("alone")
        machine.systemctl("stop", SERVER)
        machine.systemctl("stop", DRAIN, check=False)
        self.assertEqual(machine.show(DRAIN, "Result"), "exit-code")
        self.assertEqual(machine.mounts_below(machine.TREE), [])
        told = result()
        self.assertEqual(told["state"], "unacknowledged", told)
        self.assertIn("after the next boot", told["summary"])
        self.assertIn("is unacknowledged", machine.journal("-u", DRAIN))
        machine.systemctl("stop", AGENT)
        machine.systemctl("start", SERVER, AGENT)
        machine.wait_connected()
        self.expect_lost(alloc)
        machine.wait_for("the receipts to be taken", lambda: machine.agent_status()["receipts_pending"] == 0)

    def test_a_restart_of_the_agent_drains_nothing(self):
        alloc = run_alloc("restart")
        before = machine.mounts_below(machine.TREE)
        self.assertEqual(len(before), 2)
        for verb in ("restart", "stop", "start"):
            machine.systemctl(verb, AGENT)
            self.assertTrue(machine.is_active(DRAIN), verb)
        machine.wait_connected()
        self.assertEqual(machine.mounts_below(machine.TREE), before)
        self.assertEqual(alloc_status(alloc)["client_status"], "RUNNING")

    def test_an_agent_that_listens_elsewhere_is_drained_as_well(self):
        settings = f"{machine.ETC}/agent.d/socket.hcl"
        machine.write(settings, 'socket = "/run/holdfast/elsewhere.sock"\n')
        self.addCleanup(machine.systemctl, "restart", AGENT)
        self.addCleanup(os.unlink, settings)
        machine.systemctl("restart", AGENT)
        machine.wait_connected()
        alloc = run_alloc("elsewhere")
        machine.systemctl("stop", DRAIN)
        self.assertEqual(result()["state"], "done")
        self.expect_lost(alloc)

    def test_a_drain_that_no_shutdown_follows_can_be_taken_back(self):
        run_alloc("reversed")
        machine.systemctl("stop", DRAIN)
        self.assertEqual(machine.mounts_below(machine.TREE), [])
        machine.holdfast("volume", "register", machine.volume_spec("refused"))
        refused = machine.holdfast("alloc", "run", machine.alloc_spec("on-refused", "refused"), check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("node is shutting down", refused.stderr)
        machine.systemctl("start", DRAIN)
        run_alloc("taken-again")

    def test_root_and_the_agent_may_drain_and_no_other_user(self):
        alloc = run_alloc("whose")
        refused = drain(check=False, user="nobody")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("sudo holdfast agent drain", refused.stderr)
        self.assertEqual(alloc_status(alloc)["client_status"], "RUNNING")
        self.assertIn("is drained", drain(user="holdfast").stdout)
        self.assertTrue(json.loads(drain("--json").stdout)["drain"]["done"])

    def test_the_order_of_units_is_that_of_need(self):
        after = machine.show(DRAIN, "After").split()
        agents = (AGENT, "holdfast-agent-setuid.service")
        for unit in (*agents, SERVER, "holdfast-mounthelper.socket", "network-online.target"):
            self.assertIn(unit, after)
        for unit in agents:
            self.assertIn(DRAIN, machine.show(unit, "Wants").split())
            for how in ("RequiredBy", "BoundBy", "ConsistsOf", "PropagatesStopTo"):
                self.assertNotIn(DRAIN, machine.show(unit, how).split(), how)
        self.assertIn("shutdown.target", machine.show(DRAIN, "Conflicts").split())
        for unit in ("holdfast-mounthelper@0.service", "holdfast-mounthelper.socket"):
            self.assertNotIn("shutdown.target", machine.show(unit, "Conflicts").split())
        # longer than the command takes by itself
        self.assertEqual(machine.show(DRAIN, "TimeoutStopUSec"), "1min 15s")
        self.assertIn("--timeout 60s", machine.show(DRAIN, "ExecStop"))
        machine.run("systemd-analyze", "verify", "--man=no", f"/usr/lib/systemd/system/{DRAIN}")

    def test_it_runs_in_a_sandbox(self):
        text = machine.run("systemd-analyze", "security", "--no-pager", DRAIN, check=False).stdout
        score = float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", text).group(1))
        self.assertLessEqual(score, SECURITY_MAX, text)
        self.assertEqual(machine.show(DRAIN, "User"), "holdfast")
        self.assertEqual(os.stat(RESULT).st_mode & 0o777 if os.path.exists(RESULT) else 0o600, 0o600)


if __name__ == "__main__":
    unittest.main()
