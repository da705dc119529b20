"""The lane itself: what goes wrong in a guest must come out as wrong."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import snapshot  # noqa: E402
from payload import Command, Payload, Tally  # noqa: E402


class Lane(unittest.TestCase):
    def setUp(self):
        self.lines = []
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_in_guest(self, command, after_power_cut=None, seconds=60):
        payload = Command(self.folder, command, after_power_cut)
        return snapshot.run(payload, self.lines.append, seconds)

    def test_output_and_exit_status_of_a_payload_come_out(self):
        self.assertEqual(self.run_in_guest("echo one; echo two >&2; exit 3"), 3)
        self.assertEqual(self.lines[:2], ["one", "two"])

    def test_the_kernel_is_older_than_what_the_fallbacks_are_for(self):
        self.run_in_guest("uname -r")
        self.assertTrue(self.lines[0].startswith("6.1."), self.lines)

    def test_the_guest_has_no_network_but_loopback(self):
        self.run_in_guest("ls /sys/class/net")
        self.assertEqual(self.lines[0], "lo")

    def test_what_one_run_writes_the_next_one_does_not_find(self):
        command = "test ! -e /etc/left && touch /etc/left && sync"
        self.assertEqual([self.run_in_guest(command), self.run_in_guest(command)], [0, 0])

    def test_a_payload_that_hangs_ends_at_its_limit(self):
        with self.assertRaisesRegex(machine.GuestFailure, "did not end within 2 s"):
            self.run_in_guest("sleep 1000", seconds=2)

    def test_a_guest_that_panics_is_a_failure(self):
        with self.assertRaisesRegex(machine.GuestFailure, "(?s)died.*Kernel panic"):
            self.run_in_guest("echo c >/proc/sysrq-trigger; sleep 1000")

    def test_a_power_cut_keeps_what_was_flushed_and_nothing_else(self):
        write = "echo kept >/etc/kept; sync; echo lost >/etc/lost"
        self.assertEqual(self.run_in_guest(write, "cat /etc/kept; test ! -s /etc/lost"), 0)
        self.assertIn("kept", self.lines)


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
