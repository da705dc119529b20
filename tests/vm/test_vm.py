# SPDX-License-Identifier: Apache-2.0
"""The lane itself: what goes wrong in a guest must come out as wrong."""

import dataclasses
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import case  # noqa: E402
import image  # noqa: E402
import machine  # noqa: E402
import small_guest  # noqa: E402
import snapshot  # noqa: E402
import systemd_guest  # noqa: E402
from payload import POWER_CUT, REBOOT, Command, Payload, Phase, Tally  # noqa: E402


class Lane(unittest.TestCase):
    def setUp(self):
        self.lines = []
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_in_guest(self, command, after_power_cut=None, seconds=300):
        payload = Command(self.folder, command, after_power_cut)
        return snapshot.run(small_guest.ensure(), payload, self.lines.append, seconds)

    def test_output_and_exit_status_of_a_payload_come_out(self):
        self.assertEqual(self.run_in_guest("echo one; echo two >&2; exit 3"), 3)
        self.assertEqual(self.lines[:2], ["one", "two"])

    def test_the_kernel_is_the_one_of_the_release(self):
        self.run_in_guest("uname -r")
        self.assertTrue(self.lines[0].startswith(image.KERNELS[image.SUITE]), self.lines)

    def test_the_guest_has_no_network_but_loopback(self):
        self.run_in_guest("ls /sys/class/net")
        self.assertEqual(self.lines[0], "lo")

    def test_writes_of_one_run_are_invisible_to_the_next(self):
        command = "test ! -e /etc/left && touch /etc/left && sync"
        self.assertEqual([self.run_in_guest(command), self.run_in_guest(command)], [0, 0])

    def test_a_payload_that_hangs_ends_at_its_limit(self):
        with self.assertRaisesRegex(machine.GuestFailure, "did not end within 2 s"):
            self.run_in_guest("sleep 1000", seconds=2)

    def test_a_guest_that_panics_is_a_failure(self):
        with self.assertRaisesRegex(machine.GuestFailure, "(?s)died.*Kernel panic"):
            self.run_in_guest("echo c >/proc/sysrq-trigger; sleep 1000")

    def test_a_power_cut_keeps_only_flushed_data(self):
        write = "echo kept >/etc/kept; sync; echo lost >/etc/lost"
        self.assertEqual(self.run_in_guest(write, "cat /etc/kept; test ! -s /etc/lost"), 0)
        self.assertIn("kept", self.lines)


class Phases(case.Look):
    """A shell command for each boot of the guest with systemd."""

    def __init__(self, *phases):
        super().__init__("")
        self.commands = phases

    def phases(self):
        return self.commands

    def fill(self, folder, phase):
        self.command = phase.run
        super().fill(folder, dataclasses.replace(phase, run=[]))


class SystemdLane(unittest.TestCase):
    def setUp(self):
        self.lines = []

    def run_in_guest(self, *phases, seconds=300):
        return snapshot.run(systemd_guest.ensure(), Phases(*phases), self.lines.append, seconds)

    def test_output_exit_status_and_results_come_out(self):
        self.assertEqual(self.run_in_guest(Phase("getenforce; echo two >&2; echo kept >/result/file; exit 3")), 3)
        self.assertEqual(self.lines[:2], ["Enforcing", "two"])
        folder = case.artefacts("vm", "look", empty=False)
        with open(f"{folder}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "kept\n")
        self.assertTrue({"audit", "denials"} <= set(os.listdir(folder)))

    def test_a_daemon_that_a_payload_leaves_behind_does_not_hold_it_up(self):
        self.assertEqual(self.run_in_guest(Phase("sleep 1000 & echo end")), 0)

    def test_a_payload_that_a_signal_ends_is_a_failure(self):
        self.assertEqual(self.run_in_guest(Phase("kill -9 $$")), 137)

    def test_a_payload_that_hangs_ends_at_its_limit(self):
        with self.assertRaisesRegex(machine.GuestFailure, "did not end within 2 s"):
            self.run_in_guest(Phase("sleep 1000"), seconds=2)

    def test_a_guest_that_panics_is_a_failure(self):
        with self.assertRaisesRegex(machine.GuestFailure, "(?s)died.*Kernel panic"):
            self.run_in_guest(Phase("echo c >/proc/sysrq-trigger; sleep 1000"))

    def test_a_guest_that_panics_when_it_shuts_down_is_a_failure(self):
        unit = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStop=sh -c 'echo c >/proc/sysrq-trigger'\n"
        command = f"printf \"{unit}\" >/run/systemd/system/bad.service; systemctl start bad.service"
        with self.assertRaisesRegex(machine.GuestFailure, "(?s)died when it shut down.*Kernel panic"):
            self.run_in_guest(Phase(command), Phase("true", REBOOT))

    def test_a_reboot_keeps_unflushed_data(self):
        command = "cat /proc/sys/kernel/random/boot_id; cat /etc/kept /run/lost"
        status = self.run_in_guest(Phase(f"echo kept >/etc/kept; touch /run/lost; {command}"), Phase(command, REBOOT))
        self.assertEqual(status, 1)  # of cat, in the second boot
        self.assertEqual(self.lines.count("kept"), 2)
        self.assertNotEqual(self.lines[0], next(line for line in self.lines[2:] if "-" in line))

    def test_a_phase_that_fails_is_the_last_one(self):
        self.assertEqual(self.run_in_guest(Phase("exit 4"), Phase("echo never", REBOOT)), 4)
        self.assertNotIn("never", self.lines)


class CaseFiles(unittest.TestCase):
    """What files of cases say of themselves."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        former, case.FOLDER = case.FOLDER, folder.name
        self.addCleanup(setattr, case, "FOLDER", former)

    def write(self, text):
        with open(os.path.join(case.FOLDER, "test_x.py"), "w", encoding="ascii") as f:
            f.write(text)

    def test_a_file_that_says_nothing_runs_in_the_container_in_one_boot(self):
        self.write("import machine\n")
        self.assertEqual((case.all_names("container"), case.all_names("vm")), (["test_x"], []))
        self.assertEqual(case.phases("test_x"), [Phase(["test_x"])])

    def test_a_file_says_in_which_lanes_it_runs(self):
        self.write('LANES = ("container", "vm")\n')
        self.assertEqual((case.all_names("container"), case.all_names("vm")), (["test_x"], ["test_x"]))

    def test_a_lane_that_does_not_exist_is_an_error(self):
        for lanes in ('("cloud",)', "()", '"vm"', '("vm", "cloud")'):
            self.write(f"LANES = {lanes}\n")
            with self.assertRaisesRegex(LookupError, "test_x.py: LANES is"):
                case.all_names("vm")

    def test_classes_are_grouped_by_the_reboots_between_them(self):
        self.write('PHASES = ("A", "B", "reboot", "C", "power-cut", "D")\n')
        expected = [
            Phase(["test_x.A", "test_x.B"]),
            Phase(["test_x.C"], REBOOT),
            Phase(["test_x.D"], POWER_CUT),
        ]
        self.assertEqual(case.phases("test_x"), expected)
        self.assertEqual(case.phases("test_x.C.test_y"), [Phase(["test_x.C.test_y"])])

    def test_phases_that_make_no_sense_are_an_error(self):
        for phases in ('("reboot", "A")', '("A", "reboot")', '("A", "reboot", "power-cut", "B")', "()"):
            self.write(f"PHASES = {phases}\n")
            with self.assertRaisesRegex(LookupError, "test_x.py: PHASES"):
                case.phases("test_x")

    def test_a_file_says_in_which_lanes_it_wants_no_packages_installed(self):
        self.write('LANES = ("container", "vm")\nBARE = ("vm",)\n')
        self.assertEqual([case.is_bare("test_x", lane) for lane in case.LANES], [False, True])
        self.write("")
        self.assertFalse(case.is_bare("test_x", "container"))

    def test_a_file_names_the_machines_that_run_it(self):
        self.write('MACHINES = ("a", "b")\n')
        self.assertEqual(case.machines("test_x"), ("a", "b"))
        self.write("")
        self.assertEqual(case.machines("test_x"), ("",))

    def test_a_lane_that_the_file_does_not_run_in_is_an_error(self):
        for some in ('("vm",)', "True", '"vm"'):
            for key in ("BARE", "OTHER_RELEASE"):
                self.write(f"{key} = {some}\n")
                with self.assertRaisesRegex(LookupError, f"test_x.py: {key} is"):
                    case.some_lanes("test_x", key)

    def test_on_the_other_release_only_marked_files_run(self):
        self.addCleanup(image.choose, image.SUITE)
        self.write('LANES = ("container", "vm")\nOTHER_RELEASE = ("vm",)\n')
        found = []
        for suite in sorted(image.KERNELS, key=lambda suite: suite != image.HOST):
            image.choose(suite)
            found += [case.all_names("container"), case.all_names("vm")]
        self.assertEqual(found, [["test_x"], ["test_x"], [], ["test_x"]])

    def test_a_release_of_which_there_is_no_guest_is_an_error(self):
        with self.assertRaisesRegex(LookupError, "bookworm, trixie, not of sid"):
            image.choose("sid")

    def test_a_case_for_the_container_alone_is_refused(self):
        self.write("")
        with self.assertRaisesRegex(LookupError, "test_x says by LANES that it does not run in a virtual machine"):
            case.Case("test_x")

    def test_a_case_that_is_not_there_is_an_error(self):
        self.write('LANES = ("vm",)\n')
        with self.assertRaisesRegex(LookupError, "no cases test_y; there are: test_x"):
            case.Case("test_y")


class Refusals(unittest.TestCase):
    RECORDS = ['type=AVC msg=1: denied { read } comm="busybox"', 'type=AVC msg=2: denied { search } comm="holdfast-agent"']

    def unexpected(self, patterns, records, whole=True):
        refused = case.Refused(patterns, whole)
        refused.add(record + "\n" for record in records)
        refused.add(record + "\n" for record in records)  # of the next boot
        return refused.unexpected()

    def test_an_unexpected_refusal_is_a_failure(self):
        found = self.unexpected(('comm="busybox"',), self.RECORDS)
        self.assertEqual(found, ["SELinux: " + self.RECORDS[1]])

    def test_a_missing_expected_refusal_fails_a_whole_file(self):
        for whole, count in ((True, 1), (False, 0)):
            self.assertEqual(len(self.unexpected(('comm="busybox"', "write"), self.RECORDS[:1], whole)), count)

    def test_a_case_that_asks_for_nothing_and_sees_nothing_is_fine(self):
        self.assertEqual(self.unexpected((), []), [])


class Artefacts(unittest.TestCase):
    def missing(self, name, files):
        with tempfile.TemporaryDirectory() as checkout:
            folder = case.artefacts("vm", name, checkout)
            for file, text in files.items():
                with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                    f.write(text)
            return [line.removeprefix(folder + "/").split()[0] for line in case.missing(name, checkout)]

    def test_a_case_leaves_its_log_the_audit_log_and_denials(self):
        whole = {"log": "[       OK ] a\n", "audit": "type=DAEMON_START\n", "denials": ""}
        self.assertEqual(self.missing("test_x", whole), [])
        self.assertEqual(self.missing("test_x", {}), ["log", "audit", "denials"])
        self.assertEqual(self.missing("test_x", whole | {"audit": "", "log": "hello\n"}), ["log", "audit"])
        self.assertEqual(self.missing("mounthelper", {"log": whole["log"]}), [])

    def test_the_scores_of_the_units_are_among_the_artefacts(self):
        whole = {"log": "[       OK ] a\n", "audit": "type=DAEMON_START\n", "denials": ""}
        score = "\u2192 Overall exposure level for holdfast-server.service: 1.2 OK\n"
        self.assertEqual(self.missing("test_machine", whole), ["security"])
        self.assertEqual(self.missing("test_machine", whole | {"security": "first\n" + score}), [])

    def test_every_case_of_which_something_more_is_kept_runs_in_the_guest(self):
        self.assertLessEqual(set(case.KEPT), set(case.all_names("vm")))


class Counting(unittest.TestCase):
    def tally(self, lines, status):
        tally = Tally()
        for line in lines:
            tally.line(line)
        tally.end("payload", status)
        return tally.passed, len(tally.failed)

    def test_cmocka_names_a_failed_test_twice_and_it_counts_once(self):
        lines = ["[       OK ] a", "[  FAILED  ] b", "[  FAILED  ] 1 test(s), listed below:", "[  FAILED  ] b"]
        self.assertEqual(self.tally(lines, 1), (1, 1))

    def test_a_payload_without_a_test_is_a_failure(self):
        self.assertEqual(self.tally(["hello"], 0), (0, 1))

    def test_a_payload_that_fails_without_a_failed_test_is_a_failure(self):
        self.assertEqual(self.tally(["[       OK ] a"], 139), (1, 1))

    def test_a_payload_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(LookupError, "no payload nothing; there are: .*mounthelper"):
            Payload("nothing")


if __name__ == "__main__":
    unittest.main()
