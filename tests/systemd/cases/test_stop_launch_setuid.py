# SPDX-License-Identifier: Apache-2.0
"""Stopping the agent of launch mode setuid spares the operation that is in flight."""

import unittest

import units


class Stop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        units.set_up_setuid_agent()

    def test_a_helper_at_work_finishes_when_the_agent_is_stopped(self):
        units.end_agent_in_mid_operation(self, units.SETUID_AGENT)


if __name__ == "__main__":
    unittest.main()
