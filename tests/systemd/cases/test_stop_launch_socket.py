# SPDX-License-Identifier: Apache-2.0
"""Stopping what serves launch mode socket spares the operation that is in flight."""

import time
import unittest

import machine
import units


class Stop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()

    def test_a_helper_at_work_finishes_when_the_agent_is_stopped(self):
        units.end_agent_in_mid_operation(self, units.SOCKET_AGENT)
        self.assertTrue(machine.mounts_below(machine.TREE))

    def test_a_helper_at_work_finishes_when_it_is_stopped_itself(self):
        machine.holdfast("volume", "register", machine.volume_spec("stopped"))
        with units.HeldUp():
            run = units.run_in_background("stopped")
            pid = units.wait_at_work()
            machine.systemctl("stop", "--no-block", "holdfast-mounthelper@*")
            time.sleep(1)
            self.assertIn(pid, units.helpers())
        self.assertEqual(0, run.wait(60))


if __name__ == "__main__":
    unittest.main()
