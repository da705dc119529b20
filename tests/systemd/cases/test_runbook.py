# SPDX-License-Identifier: Apache-2.0
"""Pages of the runbook in docs/operations.md about units, files and disks of a machine, typed in as they are written."""

import json
import os
import signal
import unittest

import machine
import runbook
import test_csi_unit as csi
import units

MANUAL = "/payload/docs/operations.md"
STORE = "/var/lib/holdfast/server"
STORE_SIZE = 300 << 20  # of its file system
APP = "/root/app.hcl"
DISK_LEFT = 40 << 20  # less than the reserve, when that was given back


def scrape():
    """As Prometheus would, which has a certificate of its own."""
    host, port = machine.CLI["HOLDFAST_ADDR"].rsplit(":", 1)
    return runbook.scrape(host, int(port), *(f"/root/pki/{name}" for name in (
        "ca.pem", "operator-prometheus.pem", "operator-prometheus.key")))


def page(heading):
    return runbook.Page(MANUAL, heading, runbook.Shell("/root/shell.state", "/root", machine.CLI), scrape).open()


def set_up():
    """A machine whose metrics are quick, with an agent that gives up calls early."""
    os.makedirs(STORE)
    machine.run("mount", "-t", "tmpfs", "-o", f"size={STORE_SIZE}", "store", STORE)
    machine.write(f"{machine.ETC}/agent.d/quick.hcl", 'plugin_probe_interval = "500ms"\nplugin_call_timeout = "1s"\n')
    csi.install_driver()
    machine.write(f"{csi.DATA}/orders.json", json.dumps({"settings": {"largest_bytes": 64 << 30}}))  # images have holes
    machine.write("/etc/systemd/system/csi-hostpath@.service", csi.block("[Unit]"))
    machine.systemctl("daemon-reload")
    machine.set_up(profiles=f"\t{csi.block('profile hostpath')}")
    machine.systemctl("enable", units.SOCKET_DOOR)
    machine.run("holdfast", "operator", "cert", "operator", "prometheus", "--out", "/root/pki")
    with open(f"{machine.ETC}/server.hcl", "a", encoding="ascii") as f:
        f.write('release_sweep = "1s"\n')
    machine.systemctl("restart", units.SERVER)
    machine.wait_connected()
    machine.holdfast("volume", "register", machine.volume_spec("db"))
    os.rename(machine.alloc_spec("app", "db"), APP)


def setUpModule():
    set_up()


class Runbook(unittest.TestCase):
    def tearDown(self):
        for alloc in machine.holdfast_json("alloc", "status").get("allocations", []):
            if alloc["client_status"] in ("PENDING", "RUNNING"):
                machine.holdfast("alloc", "stop", alloc["id"])

    def test_a_plugin_that_hangs_is_killed_by_its_page(self):
        machine.systemctl("start", csi.A)
        csi.wait_healthy(csi.A)
        machine.holdfast("volume", "create", csi.hcl("id  "))
        alloc = machine.holdfast_json("alloc", "run", csi.hcl("name = "))["allocation"]["id"]
        os.kill(machine.main_pid(csi.A), signal.SIGSTOP)
        machine.holdfast("alloc", "stop", alloc, "--no-wait")
        page("A plugin hangs").close()
        self.assertEqual(machine.holdfast_json("alloc", "status", alloc)["allocation"]["client_status"], "COMPLETE")

    def test_a_full_disk_of_the_server_is_emptied_by_its_page(self):
        put_aside = f"{STORE}/holdfast.db.before-restore-2026-01-31T03:00:00.000Z"
        self.addCleanup(machine.run, "rm", "-f", put_aside)
        room = os.statvfs(STORE)
        with open(put_aside, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, room.f_bavail * room.f_bsize - DISK_LEFT)
        opened = page("The server's disk is full")
        self.assertNotEqual(machine.holdfast("alloc", "run", APP, "--no-wait", check=False).returncode, 0)
        opened.close()
        self.assertFalse(os.path.exists(put_aside))


if __name__ == "__main__":
    unittest.main()
