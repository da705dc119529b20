# SPDX-License-Identifier: Apache-2.0
"""A whole machine is rebooted while it has volumes in use: by a service that is ordered as docs/workloads.md says, and by
nobody. They are released before it goes down, so their claims do not wait for the next boot."""

import json
import os
import unittest

import machine
import volume_units as units

LANES = ("vm",)
PHASES = ("Before", "reboot", "After")

DRAIN, AGENT, SERVER = "holdfast-drain.service", "holdfast-agent-socket.service", "holdfast-server.service"
PGDATA = units.unit("pgdata")
SERVICE = "pgdata.service"
RESULT = "/var/lib/holdfast/agent/drain.json"
STATE = "/root/state"  # of the test, for the phase after this one


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        return f.read().strip()


def position(lines, word, unit):
    """Of the last line in which systemd says that of a unit."""
    found = [i for i, line in enumerate(lines) if line.startswith(f"{word} {unit} ")]
    if not found:
        raise AssertionError(f"systemd did not say '{word} {unit}': {lines[-40:]}")
    return found[-1]


class Before(unittest.TestCase):
    def test_a_service_and_idle_work_have_volumes(self):
        units.set_up()
        units.example_volume("pgdata")
        units.install(SERVICE)
        machine.systemctl("enable", SERVER, "holdfast-mounthelper.socket", AGENT, SERVICE)
        units.start(SERVICE)
        machine.holdfast("volume", "register", machine.volume_spec("idle"))
        idle = machine.run_alloc("idle", "idle")
        self.assertEqual(2, len(machine.mounts_below(f"{machine.TREE}/publish")))
        self.assertTrue(machine.is_active(DRAIN))
        machine.write(STATE, json.dumps({"boot": boot_id(), "pgdata": units.live("pgdata")[0]["id"], "idle": idle["id"]}))
        os.sync()


class After(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(STATE, encoding="ascii") as f:
            cls.former = json.load(f)
        machine.wait_connected()

    def test_both_volumes_were_released_before_the_machine_went_down(self):
        self.assertNotEqual(self.former["boot"], boot_id())
        for name in ("pgdata", "idle"):
            (claim,) = machine.holdfast_json("alloc", "status", self.former[name])["claims"]
            self.assertEqual(("FREED", "EVIDENCE_RECEIPT"), (claim["state"], claim["evidence"]), name)
            self.assertEqual(self.former["boot"], claim["boot_id"], name)

    def test_the_drain_wrote_down_that_it_was_done(self):
        with open(RESULT, encoding="utf-8") as f:
            told = json.load(f)
        self.assertEqual("done", told["state"], told)
        # that of the service was released by its unit before
        self.assertEqual({"idle": "released"}, {volume["volume_id"]: volume["state"] for volume in told["volumes"]})
        idle = machine.holdfast_json("alloc", "status", self.former["idle"])["allocation"]
        self.assertEqual(("LOST", "node was shut down"), (idle["client_status"], idle["client_description"]))

    def test_units_ended_in_the_order_of_need(self):
        lines = machine.journal("--boot=-1", "_PID=1").splitlines()
        order = [position(lines, "Stopped", unit) for unit in (SERVICE, PGDATA, DRAIN)]
        self.assertEqual(sorted(order), order)
        for unit in (AGENT, SERVER):
            self.assertLess(order[-1], position(lines, "Stopped", unit), unit)

    def test_the_service_is_back_with_its_volume_by_itself(self):
        machine.wait_for("the service", lambda: machine.is_active(SERVICE))
        (alloc,) = units.live("pgdata")
        self.assertNotEqual(self.former["pgdata"], alloc["id"])
        self.assertEqual(1, len(machine.mounts_below(f"{machine.TREE}/publish")))
        machine.holdfast("audit", "verify")


if __name__ == "__main__":
    unittest.main()
