# SPDX-License-Identifier: Apache-2.0
"""A run of these tests that is interrupted leaves nothing; one that is killed is noticed by the next."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from world import PREFIX, Failure, World, mounts_below, processes_below, wait_for

RUN = pathlib.Path(__file__).parent / "run.py"
INSIDE = "TestMatrix"  # threads, plugins, and one that restarts them: a few of its cases are enough
SAMPLE = "1/24"


class TestRun(unittest.TestCase):
    def start(self):
        """A run in the midst of it."""
        run = subprocess.Popen([sys.executable, "-B", str(RUN), INSIDE], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "HOLDFAST_SAMPLE": SAMPLE})
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        wait_for("the run to have mounted something", lambda: mounts_below(f"{PREFIX}/run"), 600)
        return run

    def test_an_interrupted_run_ends_its_processes(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            run = self.start()
            run.send_signal(number)
            self.assertEqual(run.wait(timeout=600), 128 + number)
            self.assertEqual(processes_below(PREFIX), [])
            self.assertFalse(os.path.exists(PREFIX))

    def test_the_next_run_names_leftovers_of_a_killed_one(self):
        run = self.start()
        run.kill()
        run.wait()
        self.assertTrue(processes_below(PREFIX))
        world = World(nodes=1)
        try:
            with self.assertRaisesRegex(Failure, r"end them: kill \d+"):
                world.open()
        finally:
            for pid in processes_below(PREFIX):
                with contextlib.suppress(ProcessLookupError):  # a command that ends by itself
                    os.kill(pid, signal.SIGKILL)
            wait_for("them to be gone", lambda: not processes_below(PREFIX))
            world.close()
        self.assertFalse(os.path.exists(PREFIX))
