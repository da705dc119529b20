# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/runbook about units, files and disks of a machine, typed as they are written."""

import json
import os
import shutil
import signal
import unittest

import machine
import runbook
import test_csi_unit as csi
import units
import volume_units as volumes

OTHER_RELEASE = ("container",)

FOLDER = "/payload/docs/runbook"
STORE = "/var/lib/holdfast/server"
STORE_SIZE = 300 << 20  # of its file system
LOG = os.path.dirname(machine.TRAIL)
LOG_SIZE = 1 << 20  # of its file system: less than the helper reserves ahead, so there is no reserve
BACKUP = "/var/backups/holdfast"
APP = "/root/app.hcl"
DISK_LEFT = 40 << 20  # less than the reserve, when that was freed


def scrape():
    """As Prometheus would, which has a certificate of its own."""
    host, port = machine.CLI["HOLDFAST_ADDR"].rsplit(":", 1)
    return runbook.scrape(host, int(port), *(f"/root/pki/{name}" for name in (
        "ca.pem", "operator-prometheus.pem", "operator-prometheus.key")))


def page(name):
    return runbook.Page(FOLDER, name, runbook.Shell("/root/shell.state", "/root", machine.CLI), scrape).open()


def set_up():
    """A machine whose metrics are quick, with an agent that gives up calls early."""
    os.makedirs(STORE)
    machine.run("mount", "-t", "tmpfs", "-o", f"size={STORE_SIZE}", "store", STORE)
    machine.write(f"{machine.ETC}/agent.d/quick.hcl", 'plugin_probe_interval = "500ms"\nplugin_call_timeout = "1s"\n')
    machine.run("mount", "-t", "tmpfs", "-o", f"size={LOG_SIZE},mode=755", "log", LOG)
    machine.run("systemd-tmpfiles", "--create", "holdfast-mounthelper.conf")
    csi.install_driver()
    machine.write(f"{csi.DATA}/orders.json", json.dumps({"settings": {"largest_bytes": 64 << 30}}))  # images have holes
    machine.write("/etc/systemd/system/csi-hostpath@.service", csi.block("[Unit]"))
    machine.systemctl("daemon-reload")
    machine.set_up(profiles=f"\t{csi.block('profile hostpath')}")
    machine.systemctl("enable", units.SOCKET_AGENT)
    machine.run("holdfast", "operator", "cert", "operator", "prometheus", "--out", "/root/pki")
    with open(f"{machine.ETC}/server.hcl", "a", encoding="ascii") as f:
        f.write('release_sweep = "1s"\n')
    machine.systemctl("restart", units.SERVER)
    machine.wait_connected()
    machine.holdfast("volume", "register", machine.volume_spec("db"))
    os.rename(machine.alloc_spec("app", "db"), APP)


def setUpModule():
    set_up()


def expire(name):
    """A certificate of the same key and names that was good until yesterday."""
    pki = "/root/pki"
    machine.run("openssl", "x509", "-x509toreq", "-in", f"{pki}/{name}.pem", "-signkey", f"{pki}/{name}.key",
                "-copy_extensions", "copyall", "-out", f"{pki}/csr")
    # OpenSSL 3.5 refuses an end before now without a begin, and 3.0 cannot be told a begin
    times = ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]
    if "-not_before" not in machine.run("openssl", "x509", "-help").stderr:
        times = ["-days", "-1"]
    machine.run("openssl", "x509", "-req", "-in", f"{pki}/csr", "-CA", f"{pki}/ca.pem", "-CAkey", f"{pki}/ca.key",
                *times, "-copy_extensions", "copyall", "-out", f"{pki}/{name}.pem")
    os.unlink(f"{pki}/csr")


def refused():
    """Connections that the server has refused since its start."""
    (line,) = [line for line in scrape().splitlines() if line.startswith("holdfast_rpc_connections_refused_total ")]
    return int(line.split()[1])


class Runbook(unittest.TestCase):
    def setUp(self):
        self.addCleanup(self.leave)

    def leave(self):
        """A page that does not work may leave anything, and nothing waits for it here."""
        machine.systemctl("start", units.SERVER, units.SOCKET_AGENT)
        machine.wait_connected()
        for alloc in machine.holdfast_json("alloc", "status").get("allocations", []):
            if alloc["client_status"] in ("PENDING", "RUNNING"):
                machine.holdfast("alloc", "stop", alloc["id"], "--timeout", "10s", check=False)

    def put_back(self, copy):
        """The content of a store, unless the server is well."""
        if not machine.is_active(units.SERVER):
            with open(copy, "rb") as whole, open(f"{STORE}/holdfast.db", "r+b") as f:
                f.write(whole.read())
                f.truncate()

    def run_app(self):
        machine.holdfast("alloc", "run", APP, "--timeout", "30s")
        self.mounted = machine.mounts_below(f"{machine.TREE}/publish")
        self.assertEqual(len(self.mounted), 1)

    def assert_still_mounted(self):
        self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), self.mounted)

    def test_certificates_that_have_expired_are_renewed_by_their_page(self):
        self.run_app()
        for name in ("server", f"node-{machine.NODE}", "operator-ann"):
            expire(name)
        for source, name in (("server", "server"), (f"node-{machine.NODE}", "node")):
            shutil.copy(f"/root/pki/{source}.pem", f"{machine.ETC}/tls/{name}.pem")
        machine.systemctl("restart", units.SERVER, units.SOCKET_AGENT)
        opened = page("certificate-expired")
        opened.follow("mv pki/operator")
        machine.wait_for("the node and ann to be refused", lambda: machine.holdfast("node", "status", check=False).returncode != 0
                         and refused() >= 2)
        opened.close()
        self.assert_still_mounted()

    def test_a_damaged_store_is_restored_by_its_page(self):
        self.run_app()
        machine.holdfast("operator", "backup", BACKUP)
        machine.systemctl("stop", units.SERVER)
        shutil.copy(f"{STORE}/holdfast.db", "/root/whole")
        self.addCleanup(self.put_back, "/root/whole")
        with open(f"{STORE}/holdfast.db", "r+b") as f:
            text = f.read()
            f.seek(text.index(b"scratch"))
            f.write(b"Scratch")
        machine.systemctl("start", units.SERVER, check=False)
        page("server-does-not-start").close()
        self.assert_still_mounted()

    def test_a_store_that_went_back_is_brought_up_to_date_by_its_page(self):
        machine.systemctl("stop", units.SERVER)
        shutil.copy(f"{STORE}/holdfast.db", "/root/earlier")
        machine.systemctl("start", units.SERVER)
        machine.wait_connected()
        self.run_app()
        machine.systemctl("stop", units.SOCKET_AGENT, units.SERVER)
        self.put_back("/root/earlier")
        machine.systemctl("start", units.SERVER)
        page("lost-history").close()
        (held,) = machine.holdfast_json("node", "status", machine.NODE)["claims"]
        self.assertEqual((held["volume_id"], held["state"]), ("db", "TAKEN"))
        self.assert_still_mounted()

    def test_a_plugin_that_hangs_is_killed_by_its_page(self):
        machine.systemctl("start", csi.A)
        csi.wait_healthy(csi.A)
        machine.holdfast("volume", "create", csi.hcl("id  "))
        alloc = machine.holdfast_json("alloc", "run", csi.hcl("name = "))["allocation"]["id"]
        os.kill(machine.main_pid(csi.A), signal.SIGSTOP)
        machine.holdfast("alloc", "stop", alloc, "--no-wait")
        page("plugin-hangs").close()
        self.assertEqual(machine.holdfast_json("alloc", "status", alloc)["allocation"]["client_status"], "COMPLETE")

    def test_a_full_disk_of_the_server_is_emptied_by_its_page(self):
        put_aside = f"{STORE}/holdfast.db.before-restore-2026-01-31T03:00:00.000Z"
        self.addCleanup(machine.run, "rm", "-f", put_aside)
        room = os.statvfs(STORE)
        with open(put_aside, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, room.f_bavail * room.f_bsize - DISK_LEFT)
        opened = page("disk-full-server")
        self.assertNotEqual(machine.holdfast("alloc", "run", APP, "--no-wait", check=False).returncode, 0)
        opened.close()
        self.assertFalse(os.path.exists(put_aside))

    def test_a_full_disk_of_a_node_is_emptied_by_its_page(self):
        dump = f"{LOG}/dump"
        self.addCleanup(machine.run, "rm", "-f", dump)
        machine.run("dd", "if=/dev/zero", f"of={dump}", "bs=64k", check=False)
        while (done := machine.holdfast("alloc", "run", APP, "--timeout", "30s", check=False)).returncode == 0:
            machine.holdfast("alloc", "stop", done.stdout.split()[1])  # until the last page of the log is full
        self.assertIn("its trail cannot be written", done.stderr)
        page("disk-full-node").close()
        self.assertFalse(os.path.exists(dump))

    def test_a_wrong_clock_of_a_node_is_repaired_by_its_page(self):
        """libfaketime makes the clock of the agent wrong; chrony, which must not touch the clock of this machine, repairs nothing here."""
        drop_in = f"/etc/systemd/system/{units.SOCKET_AGENT}.d/clock.conf"
        self.addCleanup(lambda: shutil.rmtree(os.path.dirname(drop_in), ignore_errors=True))
        machine.write("/etc/default/chrony", 'DAEMON_OPTS="-x"\n')
        machine.write(drop_in, "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1 "
                               "FAKETIME=+60s DONT_FAKE_MONOTONIC=1\n")
        machine.systemctl("daemon-reload")
        machine.systemctl("restart", units.SOCKET_AGENT)
        machine.wait_connected()
        opened = page("wrong-clock")
        opened.follow("restart holdfast-agent")
        os.unlink(drop_in)
        machine.systemctl("daemon-reload")
        opened.close()

    def test_a_service_comes_up_after_a_boot_without_the_server_as_its_page_says(self):
        """Here a boot is what starts the agent and, as multi-user.target does, the service."""
        volumes.set_up_volumes()
        volumes.example_volume("pgdata")
        volumes.install("pgdata.service")
        volumes.drop_in("pgdata", "[Unit]\nStartLimitIntervalSec=0\n[Service]\nEnvironment=HOLD_TIMEOUT=2s\nRestartSec=1s\n")
        machine.systemctl("enable", "pgdata.service")
        self.addCleanup(volumes.tear_down, "pgdata.service", volumes.unit("pgdata"))
        machine.systemctl("stop", units.SERVER, units.SOCKET_AGENT)
        machine.systemctl("start", units.SOCKET_AGENT)
        machine.systemctl("start", "--no-block", "pgdata.service")
        machine.wait_for("the service to be given up", lambda: "Dependency failed" in machine.journal("-u", "pgdata.service"))
        page("boot-without-server").close()
        self.assertEqual(len(volumes.live("pgdata")), 1)


if __name__ == "__main__":
    unittest.main()
