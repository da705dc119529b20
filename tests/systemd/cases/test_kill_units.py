# SPDX-License-Identifier: Apache-2.0
"""What an operator or an accident does to the units while a volume is mounted: none of it touches the mount."""

import unittest

import machine

LANES = ("container", "vm")
SERVER, AGENT, HELPERS = "holdfast-server.service", "holdfast-agent-socket.service", "holdfast-mounthelper@*"


def kill(unit):
    machine.systemctl("kill", "--signal=KILL", unit)


def kill_and_wait(unit):
    """Kill a unit that systemd starts again."""
    former = machine.main_pid(unit)
    kill(unit)
    machine.wait_for(f"{unit} to be started again", lambda: machine.main_pid(unit) not in (0, former))


def session():
    """When the agent's session with the server began; None while there is none."""
    status = machine.agent_status()
    return status["connected_since_ms"] if status and status["connected"] else None


def helper_pids():
    status = machine.agent_status()
    return {one["pid"] for one in status["helper"]["instances"] if one["pid"]} if status else set()


class LiveMount(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()
        for name in ("live", "next"):
            machine.holdfast("volume", "register", machine.volume_spec(name))
        cls.alloc = machine.run_alloc("web", "live")
        cls.file = cls.alloc["published"][0]["path"] + "/file"
        with open(cls.file, "w", encoding="ascii") as f:
            f.write("kept")

    def setUp(self):
        # the limit of starts is for units that cannot run at all
        machine.systemctl("reset-failed", SERVER, AGENT)
        self.before = machine.mounts_below(machine.TREE)

    def tearDown(self):
        """The mount is the very same one (its id as well), and the machine does its job."""
        machine.wait_connected()
        self.assertEqual(machine.mounts_below(machine.TREE), self.before)
        with open(self.file, encoding="ascii") as f:
            self.assertEqual(f.read(), "kept")
        alloc = machine.run_alloc("next", "next")
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the other volume to go", lambda: machine.mounts_below(machine.TREE) == self.before)
        (claim,) = machine.holdfast_json("volume", "status", "live")["volume"]["claims"]
        self.assertEqual((claim["allocation_id"], claim["state"]), (self.alloc["id"], "TAKEN"))
        machine.holdfast("audit", "verify")

    def wait_for_a_new_session(self, former):
        machine.wait_for("a new session", lambda: session() not in (None, former))

    def test_the_server_is_killed(self):
        former = session()
        kill_and_wait(SERVER)
        self.wait_for_a_new_session(former)

    def test_the_agent_is_killed(self):
        kill_and_wait(AGENT)

    def test_every_helper_is_killed(self):
        former = helper_pids()
        kill(HELPERS)
        machine.wait_for("other helpers", lambda: helper_pids() and not helper_pids() & former)

    def test_all_of_them_are_killed_at_once(self):
        former = machine.main_pid(AGENT)
        for unit in (HELPERS, AGENT, SERVER):
            kill(unit)
        machine.wait_for("the agent to be started again", lambda: machine.main_pid(AGENT) not in (0, former))

    def test_the_agent_is_restarted(self):
        machine.systemctl("restart", AGENT)

    def test_the_server_is_restarted(self):
        former = session()
        machine.systemctl("restart", SERVER)
        self.wait_for_a_new_session(former)

    def test_the_agent_is_stopped_for_a_while(self):
        machine.systemctl("stop", AGENT)
        self.assertEqual(machine.mounts_below(machine.TREE), self.before)
        machine.systemctl("start", AGENT)

    def test_the_helpers_socket_is_restarted(self):
        machine.systemctl("restart", "holdfast-mounthelper.socket")
        machine.systemctl("start", AGENT)

    def test_the_units_are_reloaded(self):
        pid = machine.main_pid(AGENT)
        machine.systemctl("daemon-reload")
        self.assertEqual(machine.main_pid(AGENT), pid)

    def test_the_service_manager_is_started_again(self):
        pid = machine.main_pid(AGENT)
        machine.systemctl("daemon-reexec")
        self.assertEqual(machine.main_pid(AGENT), pid)


if __name__ == "__main__":
    unittest.main()
