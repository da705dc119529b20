# SPDX-License-Identifier: Apache-2.0
"""The agent's unit for launch mode setuid: the bit is alive, and what kills it is named."""

import os
import subprocess
import unittest

import machine
import units

OTHER_RELEASE = ("container",)


class SetuidAgent(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        units.set_up_setuid_agent()

    def test_the_bit_is_alive(self):
        self.assertEqual("no", machine.show(units.SETUID_AGENT, "NoNewPrivileges"))
        self.assertTrue(machine.agent_status()["helper"]["running"])
        with open(f"/proc/{units.main_pid(units.SETUID_AGENT)}/status", encoding="ascii") as f:
            self.assertIn("NoNewPrivs:\t0", f.read())

    def test_a_start_that_is_refused_in_the_agents_view_is_counted_for_its_record(self):
        counter = "/run/holdfast-mount/lock/refused"
        # systemd 252 leaves /run writable in this view in a container, whatever the unit says
        self.assertIn("-/run/holdfast-mount/lock", machine.show(units.SETUID_AGENT, "ReadWritePaths").split())
        pid = units.main_pid(units.SETUID_AGENT)
        self.assertFalse(os.path.exists(counter))
        refused = subprocess.run(
            ["nsenter", f"--target={pid}", "--mount", "setpriv", "--reuid=holdfast", "--regid=holdfast", "--clear-groups",
             "/usr/libexec/holdfast/holdfast-mounthelper", "one-argument"], capture_output=True, text=True, check=False)
        self.assertIn("arguments", refused.stderr)
        self.assertTrue(os.path.exists(counter))
        denied = subprocess.run(["nsenter", f"--target={pid}", "--mount", "setpriv", "--reuid=holdfast", "--regid=holdfast",
                                 "--clear-groups", "rm", counter], capture_output=True, text=True, check=False)
        self.assertIn("Permission denied", denied.stderr)

    def test_each_option_that_kills_the_bit_is_named_with_its_file_and_line(self):
        options = {"NoNewPrivileges": "yes", "DynamicUser": "yes"}
        if machine.systemd_version() == 252:
            options |= units.IMPLY_NO_NEW_PRIVS
        for option, value in options.items():
            with self.subTest(option=option):
                path = units.dropin(units.SETUID_AGENT, f"{option}={value}")
                machine.systemctl("restart", units.SETUID_AGENT)
                wanted = f"{path}:2: {option}={value}"

                def told():
                    status = machine.agent_status()
                    return status and wanted in status["helper"].get("last_error", "")

                machine.wait_for(f"the agent's status to name {option}", told)
                machine.wait_for(f"systemctl status to name {option}", lambda: wanted in units.status_text(units.SETUID_AGENT))
                self.assertIn("no_new_privs", units.status_text(units.SETUID_AGENT))
                machine.wait_journal([wanted], "--unit", units.SETUID_AGENT)
                units.no_dropins(units.SETUID_AGENT)
        machine.systemctl("restart", units.SETUID_AGENT)
        machine.wait_connected()

    def test_an_option_that_leaves_the_bit_alone_stops_no_helper(self):
        if machine.systemd_version() == 252:
            return  # each of them kills it, see above
        # but for one: the helper enters the mount namespace of PID 1
        for option in units.IMPLY_NO_NEW_PRIVS.keys() - {"RestrictNamespaces"}:
            with self.subTest(option=option):
                units.dropin(units.SETUID_AGENT, f"{option}={units.IMPLY_NO_NEW_PRIVS[option]}")
                machine.systemctl("restart", units.SETUID_AGENT)
                machine.wait_connected()
                self.assertTrue(machine.agent_status()["helper"]["running"])
                with open(f"/proc/{units.main_pid(units.SETUID_AGENT)}/status", encoding="ascii") as f:
                    self.assertIn("NoNewPrivs:\t0", f.read())
        units.no_dropins(units.SETUID_AGENT)
        machine.systemctl("restart", units.SETUID_AGENT)
        machine.wait_connected()


if __name__ == "__main__":
    unittest.main()
