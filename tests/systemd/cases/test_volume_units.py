# SPDX-License-Identifier: Apache-2.0
"""Volumes as units: a service starts with its volume or not at all, and what happens when one of them goes."""

import os
import re
import signal
import time
import unittest

import machine
import volume_units as units
from volume_units import unit

LANES = ("container", "vm")
OTHER_RELEASE = ("container",)
# those in which SELinux has a say: the volume, its note, a second process, an end without a server
PHASES = (
    "AService.test_starts_with_its_volume_and_stopping_the_volume_stops_it_and_frees_the_claim",
    "AKill.test_of_the_process_that_follows_the_volume_changes_nothing",
    "AStop.test_without_a_server_ends_in_time_and_the_next_start_ends_the_allocation_first",
)

PGDATA = unit("pgdata")
EXPOSURE_MAX = 1.5


def setUpModule():
    units.set_up()
    units.example_volume("pgdata")
    units.install("pgdata.service", "report.service")


class AService(unittest.TestCase):
    def tearDown(self):
        machine.systemctl("start", "holdfast-server.service", "holdfast-agent-socket.service")
        machine.wait_connected()
        units.tear_down("pgdata.service", "report.service", PGDATA)
        self.assertEqual([], units.claims_of("pgdata"))

    def test_starts_with_its_volume_and_stopping_the_volume_stops_it_and_frees_the_claim(self):
        units.start("pgdata.service")
        inside = machine.mounts_below("/var/lib", units.pid("pgdata.service"))
        self.assertIn("tmpfs", inside[0])
        self.assertEqual("TAKEN", units.claims_of("pgdata")[0]["state"])
        # Type=exec: it has begun, and the shell may not have come to its first command
        written = f"{units.RUN}/pgdata/mnt/starts"
        machine.wait_for(f"the service to write {written}", lambda: os.path.exists(written))
        self.assertNotEqual(0, os.stat(written).st_uid)
        machine.systemctl("stop", PGDATA)
        self.assertFalse(machine.is_active("pgdata.service"))
        self.assertEqual("success", machine.show(PGDATA, "Result"))
        # no waiting here: that the claim is free is what the stop has waited for
        self.assertEqual([], units.claims_of("pgdata"))
        self.assertEqual([], machine.mounts_below(machine.TREE))
        self.assertFalse(os.path.lexists(f"{units.RUN}/pgdata"))

    def test_shares_the_volume_unit_with_another_one(self):
        units.start("pgdata.service")
        units.start("report.service")
        self.assertEqual(1, len(units.live("pgdata")))
        machine.systemctl("stop", "pgdata.service")
        self.assertTrue(machine.is_active(PGDATA))
        inside = machine.mounts_below("/var/lib", units.pid("report.service"))
        self.assertRegex(inside[0], r" /var/lib/pgdata ro[, ]")

    def test_does_not_start_without_its_volume(self):
        units.volume_file("rival", "pgdata")
        units.service("rival", "rival")
        units.start(PGDATA)
        refused = units.start("rival.service", check=False)
        self.assertIn("Dependency failed", machine.journal("-u", "rival.service"), refused.stderr)
        self.assertFalse(machine.is_active("rival.service"))

    def test_is_ordered_before_the_volume_the_agent_and_the_server_when_all_stop_at_once(self):
        everything = f"holdfast-server.service holdfast-agent-socket.service {PGDATA} pgdata.service"
        machine.write("/etc/systemd/system/everything.target", f"[Unit]\nPropagatesStopTo={everything}\n")
        machine.systemctl("daemon-reload")
        machine.systemctl("start", "everything.target", "pgdata.service")
        machine.systemctl("stop", "everything.target")  # one transaction, as a shutdown is
        machine.wait_for("all to end", lambda: not machine.systemctl("list-jobs", "--no-legend").stdout)
        self.assertEqual(["inactive"] * 4, [machine.show(name, "ActiveState") for name in everything.split()])
        self.assertEqual("success", machine.show(PGDATA, "Result"))
        self.assertEqual([], machine.mounts_below(machine.TREE))
        machine.systemctl("start", "--no-block", "pgdata.service")  # before the agent and the server are there
        machine.systemctl("start", "holdfast-server.service", "holdfast-agent-socket.service")
        machine.wait_for("the service", lambda: machine.is_active("pgdata.service"))
        machine.wait_connected()


class ARefusal(unittest.TestCase):
    """Ends the start with an exit code of its own, and the reason where people look."""

    def tearDown(self):
        units.tear_down(unit("rival"), PGDATA)

    def refused(self, code, *texts):
        self.assertNotEqual(0, units.start(unit("rival"), check=False).returncode)
        self.assertEqual(str(code), machine.show(unit("rival"), "ExecMainStatus"), units.log("rival"))
        self.assertEqual("failed", machine.show(unit("rival"), "ActiveState"))  # and not started again
        machine.run("journalctl", "--sync")
        shown = machine.systemctl("status", "--no-pager", "--full", unit("rival"), check=False).stdout
        for text in texts:
            self.assertIn(text, shown)
        self.assertEqual([], units.live("rival"))

    def test_names_the_holder_and_the_next_command(self):
        units.volume_file("rival", "pgdata")
        units.start(PGDATA)
        mine = units.live("pgdata")[0]["id"]
        self.refused(69, mine, "worker-1", "holdfast ")

    def test_of_a_volume_that_does_not_exist(self):
        units.volume_file("rival", "nonsense")
        self.refused(78, "nonsense")

    def test_of_a_volume_that_no_node_can_have_gives_that_reason_when_the_time_is_over(self):
        with open(machine.volume_spec("lost"), encoding="utf-8") as f:
            machine.write("/root/lost.hcl", f.read().replace('"scratch"', '"nowhere"'))
        machine.holdfast("volume", "register", "/root/lost.hcl")
        units.volume_file("rival", "lost")
        units.drop_in("rival", "[Service]\nEnvironment=HOLD_TIMEOUT=2s\nRestart=no\n")
        self.refused(75, "does not offer plugin native with profile nowhere", "knows no allocation")
        units.drop_in("rival", "")

    def test_without_an_address_names_the_file_for_it(self):
        units.volume_file("rival", "pgdata")
        units.drop_in("rival", "[Service]\nEnvironmentFile=\n")
        self.refused(78, "/etc/holdfast/cli.env")
        units.drop_in("rival", "")

    def test_of_a_file_names_its_line(self):
        machine.write("/etc/holdfast/volumes.d/rival.hcl", 'name = "rival"\nnonsense = 1\n')
        self.refused(78, "/etc/holdfast/volumes.d/rival.hcl:2")
        machine.write("/etc/holdfast/volumes.d/rival.hcl", 'name = "rival"\nnode = "worker-2"\nvolume "d" {\n source = "pgdata"\n access_mode = "single-node-writer"\n}\n')
        self.refused(78, "rival.hcl:2", "node_id in /etc/holdfast/agent.hcl")
        os.unlink("/etc/holdfast/volumes.d/rival.hcl")
        self.refused(78, "/etc/holdfast/volumes.d/rival.hcl")

    def test_of_a_token_that_may_not_and_one_of_its_own_comes_first(self):
        units.volume_file("rival", "pgdata")
        path = "/etc/credstore/holdfast.token.rival"
        for policy in ('["submit-job"]', '["csi-mount-volume"]', '["read-job"]'):
            machine.write("/root/nothing.hcl", f'namespace "default" {{\n  capabilities = {policy}\n}}\n')
            machine.write(path, units.make_token("nothing", "/root/nothing.hcl"), 0o600)
            self.refused(77, "Status: ")
        os.unlink(path)
        units.start(unit("rival"))

    def test_of_a_token_that_may_run_but_not_look_leaves_nothing_behind(self):
        units.volume_file("rival", "pgdata")
        machine.write("/root/blind.hcl", 'namespace "default" {\n  capabilities = ["submit-job", "csi-mount-volume"]\n}\n')
        machine.write("/etc/credstore/holdfast.token.rival", units.make_token("blind", "/root/blind.hcl"), 0o600)
        self.assertNotEqual(0, units.start(unit("rival"), check=False).returncode)
        self.assertEqual("77", machine.show(unit("rival"), "ExecMainStatus"))
        machine.wait_for("the claim to be freed", lambda: not units.claims_of("pgdata"))
        os.unlink("/etc/credstore/holdfast.token.rival")
        units.start(unit("rival"))


class AStandby(unittest.TestCase):
    """Waits at the server for a volume that another unit has."""

    def setUp(self):
        units.volume_file("rival", "pgdata")
        units.drop_in("rival", "[Service]\nEnvironment=HOLD_WAIT=1h HOLD_TIMEOUT=4s\nTimeoutStartSec=5s\n")
        units.start(PGDATA)
        machine.systemctl("start", "--no-block", unit("rival"))
        machine.wait_for("the rival to wait", lambda: "waits for volume pgdata" in units.status_text("rival"))
        self.waiting = units.live("rival")[0]["id"]

    def tearDown(self):
        units.tear_down(unit("rival"), PGDATA)
        units.drop_in("rival", "")
        self.assertEqual([], units.claims_of("pgdata"))

    def why(self):
        return machine.holdfast("volume", "status", "pgdata", "--why").stdout

    def test_waits_longer_than_its_time_limits_and_starts_when_the_volume_is_free(self):
        self.assertIn(f"1. in its queue: rival, allocation {self.waiting}, on node {machine.NODE}", self.why())
        started_us = int(machine.show(unit("rival"), "ExecMainStartTimestampMonotonic"))
        machine.wait_for("twice its time limits", lambda: time.monotonic() > started_us / 1e6 + 10)
        self.assertEqual("activating", machine.show(unit("rival"), "ActiveState"), units.log("rival"))
        machine.systemctl("stop", PGDATA)
        machine.wait_for("the rival to start", lambda: machine.is_active(unit("rival")))
        self.assertEqual([self.waiting], [claim["allocation_id"] for claim in units.claims_of("pgdata")])

    def test_leaves_the_queue_when_it_is_stopped(self):
        machine.systemctl("stop", unit("rival"))
        self.assertEqual("inactive", machine.show(unit("rival"), "ActiveState"), units.log("rival"))
        self.assertEqual([], units.live("rival"))
        self.assertNotIn("in its queue", self.why())

    def test_keeps_its_place_when_its_process_is_killed(self):
        before = units.holder("rival")
        os.kill(before, signal.SIGKILL)
        machine.wait_for("another process", lambda: units.holder("rival") not in (None, before))
        self.assertIn(f"1. in its queue: rival, allocation {self.waiting}", self.why())
        machine.systemctl("stop", PGDATA)
        machine.wait_for("the rival to start", lambda: machine.is_active(unit("rival")))
        self.assertEqual([self.waiting], [alloc["id"] for alloc in units.live("rival")])


class AKill(unittest.TestCase):
    def setUp(self):
        units.service("bound", "pgdata")
        units.service("required", "pgdata", "Requires")
        units.start("bound.service")
        units.start("required.service")
        self.before = [units.pid("bound.service"), units.pid("required.service")]
        self.alloc = units.live("pgdata")[0]["id"]

    def tearDown(self):
        units.tear_down("bound.service", "required.service", PGDATA)

    def same_allocation(self):
        self.assertEqual([self.alloc], [alloc["id"] for alloc in units.live("pgdata")])

    def test_of_the_process_that_follows_the_volume_changes_nothing(self):
        main, first = units.pid(PGDATA), units.holder("pgdata")
        os.kill(first, signal.SIGKILL)
        machine.wait_for("another process", lambda: units.holder("pgdata") not in (None, first))
        self.assertEqual(main, units.pid(PGDATA))
        self.assertEqual(self.before, [units.pid("bound.service"), units.pid("required.service")])
        self.assertIn("killed by signal 9; started again, the volume stays", units.log("pgdata"))
        self.same_allocation()
        machine.systemctl("stop", PGDATA)
        self.assertEqual([], units.claims_of("pgdata"))

    def test_of_that_process_for_memory_changes_nothing(self):
        """Systemd's default stops a unit of which the kernel has killed a process for memory."""
        for unit_of_its_kind in (PGDATA, "holdfast-docker-plugin.service"):
            self.assertEqual("continue", machine.show(unit_of_its_kind, "OOMPolicy"))
            self.assertEqual("-500", machine.show(unit_of_its_kind, "OOMScoreAdjust"))

    def test_of_that_process_while_the_server_is_away_changes_nothing_either(self):
        first = units.holder("pgdata")
        machine.systemctl("stop", "holdfast-server.service")
        os.kill(first, signal.SIGKILL)
        machine.wait_for("another process to say so", lambda: "changes nothing" in units.status_text("pgdata"))
        self.assertEqual(self.before, [units.pid("bound.service"), units.pid("required.service")])
        machine.systemctl("start", "holdfast-server.service")
        machine.wait_for("the server", lambda: "changes nothing" not in units.status_text("pgdata"))
        self.same_allocation()

    def test_of_the_whole_unit_starts_it_again_with_the_same_allocation(self):
        """What systemd 252 makes of the units that depend on it is told in docs/workloads.md."""
        first = units.pid(PGDATA)
        machine.systemctl("kill", "--signal=KILL", PGDATA)
        machine.wait_for("another process", lambda: units.pid(PGDATA) not in (0, first) and machine.is_active(PGDATA))
        self.same_allocation()
        self.assertFalse(machine.is_active("bound.service"))
        machine.wait_for("the restart", lambda: machine.is_active("required.service"))
        self.assertNotEqual(self.before[1], units.pid("required.service"))


class WhatIsHeld(unittest.TestCase):
    def setUp(self):
        units.start("pgdata.service")
        self.alloc = units.live("pgdata")[0]["id"]

    def tearDown(self):
        units.tear_down("pgdata.service", "report.service", PGDATA)

    def test_stays_when_agent_and_server_are_restarted(self):
        before = [units.pid("pgdata.service"), units.holder("pgdata")]
        machine.systemctl("restart", "holdfast-agent-socket.service")
        machine.systemctl("restart", "holdfast-server.service")
        machine.wait_connected()
        machine.systemctl("stop", "holdfast-server.service")
        machine.wait_for("it to be said", lambda: "nothing new from the server" in units.status_text("pgdata"))
        machine.systemctl("start", "holdfast-server.service")
        machine.wait_for("it to be over", lambda: "nothing new" not in units.status_text("pgdata"))
        self.assertEqual(before, [units.pid("pgdata.service"), units.holder("pgdata")])
        self.assertEqual([self.alloc], [alloc["id"] for alloc in units.live("pgdata")])

    def taken_away(self):
        machine.wait_for("the unit to fail", lambda: machine.show(PGDATA, "ActiveState") == "failed")
        self.assertEqual("80", machine.show(PGDATA, "ExecMainStatus"))
        machine.wait_for("the bound service to be stopped", lambda: not machine.is_active("pgdata.service"))
        self.assertIn("was taken away", units.status_text("pgdata"))

    def test_is_lost_when_an_operator_stops_the_allocation_with_its_bound_service(self):
        units.start("report.service")
        machine.holdfast("alloc", "stop", self.alloc)
        self.taken_away()
        self.assertIn("ordered to stop", units.status_text("pgdata"))
        self.assertTrue(machine.is_active("report.service"))  # Requires= only
        units.start("pgdata.service")
        self.assertEqual(1, len(units.live("pgdata")))

    def test_frees_a_claim_while_a_slow_service_still_has_its_copy(self):
        """Of a tmpfs, which is no medium that two could write to; see the table in docs/workloads.md."""
        slow = "trap 'until test -e /run/may-end; do sleep 0.2; done; exit 0' TERM; while sleep 0.2; do :; done"
        more = f'ExecStart=\nExecStart=/bin/sh -c "{slow}"\nKillMode=mixed\nBindPaths={units.RUN}/pgdata/mnt:/srv\n'
        units.service("slow", "pgdata", more=more)
        self.addCleanup(units.tear_down, "slow.service")
        self.addCleanup(machine.write, "/run/may-end", "")
        units.start("slow.service")
        slow = units.pid("slow.service")
        machine.holdfast("alloc", "stop", self.alloc)
        machine.wait_for("the claim to be freed", lambda: not units.claims_of("pgdata"))
        # the one is the agent's doing, the other the holder's: neither waits for the other
        machine.wait_for("the service to be ordered to end", lambda: machine.show("slow.service", "ActiveState") == "deactivating",
                         seen=lambda: machine.show("slow.service", "ActiveState"))  # fmt: skip
        self.assertEqual(1, len([line for line in machine.mounts_below("", slow) if " /srv " in line]))
        machine.write("/run/may-end", "")
        machine.wait_for("the service to end", lambda: machine.show("slow.service", "ActiveState") == "inactive")

    def test_is_lost_when_the_node_is_drained(self):
        machine.holdfast("node", "drain", machine.NODE, "--reason", "test", "--yes")
        self.taken_away()
        machine.holdfast("node", "drain", machine.NODE, "--cancel")
        machine.holdfast("node", "eligibility", machine.NODE, "--enable", "--reason", "test", check=False)
        self.assertFalse(machine.is_active("pgdata.service"))  # docs/operations.md, Shutting a node down
        units.start("pgdata.service")
        self.assertEqual(1, len(units.live("pgdata")))

    def test_is_lost_when_it_is_unmounted_by_hand(self):
        path = os.path.realpath(f"{units.RUN}/pgdata/mnt")
        machine.run("umount", "--lazy", path)
        machine.systemctl("restart", "holdfast-server.service")  # an end of the call in flight: it looks then
        self.taken_away()


class AStop(unittest.TestCase):
    def tearDown(self):
        machine.systemctl("start", "holdfast-server.service", "holdfast-agent-socket.service")
        machine.wait_connected()
        units.drop_in("pgdata", "")
        units.tear_down("pgdata.service", PGDATA)
        machine.wait_for("the claim to be freed", lambda: not units.claims_of("pgdata"))

    def test_without_a_server_ends_in_time_and_the_next_start_ends_the_allocation_first(self):
        units.drop_in("pgdata", "[Service]\nEnvironment=HOLD_TIMEOUT=3s\n")
        units.start(PGDATA)
        first = units.live("pgdata")[0]["id"]
        machine.systemctl("stop", "holdfast-server.service")
        machine.systemctl("stop", PGDATA, check=False)
        self.assertEqual("75", machine.show(PGDATA, "ExecMainStatus"))
        self.assertIn("was not released within 3 s", units.status_text("pgdata"))  # not HOLD_TIMEOUT's 80
        self.assertIn(f"holdfast alloc stop {first}", units.status_text("pgdata"))
        self.assertEqual(1, len(machine.mounts_below(f"{machine.TREE}/publish")))  # nobody said it may go
        removed = machine.run("/var/lib/dpkg/info/holdfast-cli.prerm", "remove", check=False)
        self.assertEqual(removed.returncode, 1)
        self.assertIn(f"  {first}  /var/lib/private/holdfast-volumes/pgdata/allocation\n", removed.stderr)
        machine.systemctl("start", "holdfast-server.service")
        machine.wait_connected()
        units.start(PGDATA)
        live = [alloc["id"] for alloc in units.live("pgdata")]
        self.assertEqual(1, len(live))
        self.assertNotEqual(first, live[0])
        self.assertIn(f"waiting for the end of allocation {first}", units.log("pgdata"))

    def test_during_a_start_ends_the_begun_allocation(self):
        machine.systemctl("stop", "holdfast-agent-socket.service")
        machine.systemctl("start", "--no-block", PGDATA)
        machine.wait_for("the allocation", lambda: units.live("pgdata"))
        machine.systemctl("start", "--no-block", "holdfast-agent-socket.service")
        machine.systemctl("stop", PGDATA)
        machine.wait_connected()
        self.assertEqual([], units.live("pgdata"))

    def test_a_start_without_a_server_is_bounded(self):
        units.drop_in("pgdata", "[Service]\nEnvironment=HOLD_TIMEOUT=2s\nRestart=no\n")
        machine.systemctl("stop", "holdfast-server.service")
        self.assertNotEqual(0, units.start(PGDATA, check=False).returncode)
        self.assertEqual("75", machine.show(PGDATA, "ExecMainStatus"))
        self.assertIn("was not mounted within 2 s", units.status_text("pgdata"))


class AnEnabledService(unittest.TestCase):
    """For the machine and for its volume's unit, as the examples have it."""

    def tearDown(self):
        machine.systemctl("start", "holdfast-server.service", "holdfast-agent-socket.service")
        machine.wait_connected()
        machine.systemctl("disable", "pgdata.service")
        units.drop_in("pgdata", "")
        units.tear_down("pgdata.service", PGDATA)
        machine.wait_for("the claim to be freed", lambda: not units.claims_of("pgdata"))

    def test_is_started_when_its_volume_comes_late(self):
        """The server is away for longer than a start of the volume's unit lasts."""
        machine.systemctl("enable", "pgdata.service")
        units.drop_in("pgdata", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nEnvironment=HOLD_TIMEOUT=2s\nRestartSec=1s\n")
        machine.systemctl("stop", "holdfast-server.service")
        machine.systemctl("start", "--no-block", "pgdata.service")  # as multi-user.target does
        machine.wait_for("three tries", lambda: int(machine.show(PGDATA, "NRestarts")) >= 3)
        self.assertIn("Dependency failed", machine.journal("-u", "pgdata.service"))
        self.assertFalse(machine.is_active("pgdata.service"))
        machine.systemctl("start", "holdfast-server.service")
        machine.wait_for("the service on its volume", lambda: machine.is_active("pgdata.service"))
        self.assertEqual(1, len(units.live("pgdata")))

    def test_comes_back_with_a_volume_whose_processes_were_all_killed(self):
        machine.systemctl("enable", "pgdata.service")
        units.start("pgdata.service")
        first = units.pid("pgdata.service")
        machine.systemctl("kill", "--signal=KILL", PGDATA)
        machine.wait_for("another process", lambda: units.pid("pgdata.service") not in (0, first))


class TheSandbox(unittest.TestCase):
    def tearDown(self):
        units.tear_down(PGDATA, unit("other"))

    def test_is_nearly_complete(self):
        said = machine.run("systemd-analyze", "security", "--no-pager", PGDATA, check=False).stdout
        self.assertLessEqual(float(re.search(r"exposure level for .*: ([0-9.]+)", said).group(1)), EXPOSURE_MAX)

    def test_keeps_no_volume_mounted_that_was_released(self):
        """Its mount namespace is a slave of the host's: what is unmounted there goes here too."""
        machine.holdfast("volume", "register", machine.volume_spec("other"))
        units.volume_file("other", "other")
        units.start(PGDATA)
        gone = machine.mounts_below(f"{machine.TREE}/publish")
        units.start(unit("other"))
        self.assertEqual(2, len(machine.mounts_below(f"{machine.TREE}/publish", units.holder("other"))))
        machine.systemctl("stop", PGDATA)
        left = machine.mounts_below(f"{machine.TREE}/publish", units.holder("other"))
        self.assertEqual(1, len(left))
        self.assertNotIn(gone[0].split(" ")[4], left[0])


if __name__ == "__main__":
    unittest.main()
