# SPDX-License-Identifier: Apache-2.0
"""What the service manager is told, and does: readiness, status, watchdog, reload, and the end of a daemon."""

import os
import shutil
import signal
import time
import unittest

import machine
import units


def restarts(unit):
    return int(machine.show(unit, "NRestarts"))


def node_certificate(renewed):
    """Have another certificate of the node made, with another key."""
    shutil.rmtree(renewed, ignore_errors=True)
    os.mkdir(renewed)
    for name in ("ca.pem", "ca.key"):
        shutil.copy(f"/root/pki/{name}", renewed)
    machine.run("holdfast", "operator", "cert", "node", machine.NODE, "--out", renewed)
    return f"{renewed}/node-{machine.NODE}.pem", f"{renewed}/node-{machine.NODE}.key"


class Daemons(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()
        machine.holdfast("volume", "register", machine.volume_spec("kept"))
        cls.kept = machine.holdfast_json("alloc", "run", machine.alloc_spec("kept", "kept"))["allocation"]

    def setUp(self):
        self.mounts = machine.mounts_below(machine.TREE)
        self.assertTrue(self.mounts)

    def tearDown(self):
        machine.wait_connected()
        self.assertEqual(self.mounts, machine.mounts_below(machine.TREE))

    def until_status(self, unit, wanted):
        machine.wait_for(f"{unit} to say: {wanted}", lambda: wanted in units.status_text(unit))

    def test_the_status_reports_how_it_is(self):
        self.until_status(units.SOCKET_AGENT, "connected to 127.0.0.1:4656; mount helper runs; 1 allocation")
        self.until_status(units.SERVER, "listening on 127.0.0.1:4656, cluster test; 1 of 1 node connected; 0 releases waiting")
        machine.systemctl("stop", units.SERVER)
        self.until_status(units.SOCKET_AGENT, "not connected to 127.0.0.1:4656: ")
        machine.systemctl("start", units.SERVER)
        self.until_status(units.SOCKET_AGENT, "connected to 127.0.0.1:4656; ")
        machine.systemctl("stop", units.SOCKET_AGENT)
        self.until_status(units.SERVER, "0 of 1 node connected")
        machine.systemctl("start", units.SOCKET_AGENT)
        self.until_status(units.SERVER, "1 of 1 node connected")

    def test_without_a_mount_helper_the_agent_serves_and_reports_it(self):
        machine.systemctl("stop", "holdfast-mounthelper.socket")
        machine.run("systemctl", "mask", "--runtime", "holdfast-mounthelper.socket")
        machine.systemctl("restart", units.SOCKET_AGENT)
        self.until_status(units.SOCKET_AGENT, "no mount helper: cannot connect to the mount helper's socket")
        self.assertTrue(machine.is_active(units.SOCKET_AGENT))
        machine.run("systemctl", "unmask", "--runtime", "holdfast-mounthelper.socket")
        machine.systemctl("start", "holdfast-mounthelper.socket")
        self.until_status(units.SOCKET_AGENT, "mount helper runs")

    def test_a_daemon_that_hangs_is_killed_by_the_watchdog_and_started_again(self):
        for unit in (units.SERVER, units.SOCKET_AGENT):
            with self.subTest(unit=unit):
                units.dropin(unit, "WatchdogSec=2")
                machine.systemctl("restart", unit)
                machine.wait_connected()
                before, pid = restarts(unit), units.main_pid(unit)
                time.sleep(3)  # it is fed
                self.assertEqual((before, pid), (restarts(unit), units.main_pid(unit)))
                os.kill(pid, signal.SIGSTOP)
                machine.wait_for("its restart", lambda: restarts(unit) > before and machine.is_active(unit))
                self.assertIn("Watchdog timeout", machine.journal("--unit", unit, "--grep", "Watchdog timeout"))
                units.no_dropins(unit)
                machine.systemctl("restart", unit)

    def test_a_killed_daemon_is_started_again(self):
        for unit in (units.SERVER, units.SOCKET_AGENT):
            with self.subTest(unit=unit):
                pid = units.main_pid(unit)
                os.kill(pid, signal.SIGKILL)
                machine.wait_for("its restart", lambda: units.main_pid(unit) not in (0, pid) and machine.is_active(unit))

    def test_a_reload_is_over_when_it_is_done_and_replaces_the_helpers(self):
        for unit in (units.SERVER, units.SOCKET_AGENT):
            machine.systemctl("reload", unit)
            machine.wait_for("it to be active", lambda: machine.is_active(unit))
        machine.wait_journal(["loaded again, for new sessions"], "--unit", units.SOCKET_AGENT)

    def test_a_renewed_certificate_is_used_without_a_restart(self):
        cert, key = node_certificate("/root/renewed")
        machine.write(f"{machine.ETC}/tls/renewed.key", open(key, encoding="ascii").read(), 0o600, "holdfast")
        machine.write(f"{machine.ETC}/agent.d/key.hcl", f'tls {{\n  key = "{machine.ETC}/tls/renewed.key"\n}}\n')
        shutil.copy(f"{machine.ETC}/tls/node.pem", "/root/node.pem.before")
        shutil.copy(cert, f"{machine.ETC}/tls/node.pem")
        machine.systemctl("restart", units.SOCKET_AGENT)
        machine.wait_connected()
        pid = units.main_pid(units.SOCKET_AGENT)
        cert, key = node_certificate("/root/renewed")
        serial = machine.run("openssl", "x509", "-in", cert, "-noout", "-enddate", "-serial").stdout
        self.assertTrue(serial)
        # half of it: the old one stays, and works
        shutil.copy(cert, f"{machine.ETC}/tls/node.pem")
        machine.systemctl("reload", units.SOCKET_AGENT)
        machine.wait_journal(["the old certificate stays", "does not belong to the certificate"], "--unit", units.SOCKET_AGENT)
        machine.systemctl("restart", units.SERVER)
        machine.wait_connected()
        # all of it
        machine.write(f"{machine.ETC}/tls/renewed.key", open(key, encoding="ascii").read(), 0o600, "holdfast")
        machine.systemctl("reload", units.SOCKET_AGENT)
        machine.wait_journal(["node.pem loaded again"], "--unit", units.SOCKET_AGENT)
        machine.systemctl("restart", units.SERVER)
        machine.wait_connected()
        self.assertEqual(pid, units.main_pid(units.SOCKET_AGENT))
        os.unlink(f"{machine.ETC}/agent.d/key.hcl")
        shutil.copy("/root/node.pem.before", f"{machine.ETC}/tls/node.pem")
        machine.systemctl("restart", units.SOCKET_AGENT)

    def test_a_broken_setting_changes_nothing_at_a_reload(self):
        pid = units.main_pid(units.SOCKET_AGENT)
        machine.write(f"{machine.ETC}/agent.d/broken.hcl", "nod_id = 1\n")
        machine.systemctl("reload", units.SOCKET_AGENT)
        machine.wait_journal(["the old settings stay", "broken.hcl:1"], "--unit", units.SOCKET_AGENT)
        os.unlink(f"{machine.ETC}/agent.d/broken.hcl")
        machine.write(f"{machine.ETC}/agent.d/level.hcl", 'log_level = "debug"\n')
        machine.systemctl("reload", units.SOCKET_AGENT)
        self.assertEqual(pid, units.main_pid(units.SOCKET_AGENT))
        os.unlink(f"{machine.ETC}/agent.d/level.hcl")
        machine.systemctl("reload", units.SOCKET_AGENT)

    def test_a_wrong_setting_is_not_tried_again_and_again(self):
        for unit, path in ((units.SERVER, "server"), (units.SOCKET_AGENT, "agent")):
            with self.subTest(unit=unit):
                wrong = f"{machine.ETC}/{path}.d/wrong.hcl"
                machine.write(wrong, "colour = 1\n")
                self.assertNotEqual(0, machine.systemctl("restart", unit, check=False).returncode)
                self.assertEqual("78", machine.show(unit, "ExecMainStatus"))
                time.sleep(3)  # longer than RestartSec=
                self.assertEqual("failed", machine.systemctl("is-failed", unit, check=False).stdout.strip())
                self.assertIn("wrong.hcl:1", units.status_text(unit))
                os.unlink(wrong)
                machine.systemctl("restart", unit)


if __name__ == "__main__":
    unittest.main()
