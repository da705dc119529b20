# SPDX-License-Identifier: Apache-2.0
"""The link that systemd follows as root for BindPaths=, and a holder of a volume that is not ours any more."""

import os
import unittest

import machine
import volume_units as units

EVIL = units.unit("evil")
LINK = f"{units.RUN}/evil/mnt"
OWN = "/run/holdfast-holders/evil"
HOLDER = """[Service]
ExecStart=
ExecStart=/bin/sh -c '{script}; systemd-notify --ready; {afterwards} exec sleep infinity'
Restart=no
"""


class ACompromisedHolder(unittest.TestCase):
    """It runs what it likes in its unit's sandbox; the service is one that root has bound to it."""

    @classmethod
    def setUpClass(cls):
        units.set_up()
        units.example_volume("pgdata")
        units.volume_file("evil", "evil")
        machine.holdfast("volume", "register", machine.volume_spec("evil"))
        units.service("victim", "evil", more=f"BindPaths={LINK}:/srv\n")
        cls.published = machine.run_alloc("evil", "evil")["published"][0]["path"]
        cls.others = machine.run_alloc("pgdata", "pgdata")["published"][0]["path"]

    def tearDown(self):
        units.tear_down("victim.service", EVIL)
        self.assertFalse(os.path.lexists(f"{units.RUN}/evil"))

    def says(self, path, afterwards=""):
        units.drop_in("evil", HOLDER.format(script=f"ln -s {path} {OWN}/mnt", afterwards=afterwards))
        return units.start("victim.service", check=False)

    def test_a_holder_that_lies_gives_its_service_nothing(self):
        alloc = os.path.basename(os.path.dirname(self.published))
        for path, words in {
            "/": "no path that the mount helper makes",
            "/etc": "no path that the mount helper makes",
            OWN: "no path that the mount helper makes",
            f"{self.published}/../../../../../etc": "no path that the mount helper makes",
            f"{OWN}/{alloc}/0": "no path that the mount helper makes",
            f"/tmp/{alloc}/0": "no path that the mount helper makes",
            f"/proc/self/root{self.published}": "no path that the mount helper makes",
            f"{os.path.dirname(self.published)}/7": "nothing is mounted there",
            f"{machine.TREE}/stage/x": "no path that the mount helper makes",
            self.others: "another volume is mounted there",
        }.items():
            with self.subTest(path):
                self.assertNotEqual(0, self.says(path).returncode)
                self.assertFalse(machine.is_active("victim.service"))
                self.assertFalse(os.path.lexists(LINK))
                self.assertEqual("failed", machine.show(EVIL, "ActiveState"))
                self.assertIn(words, units.log("evil"))
                units.tear_down("victim.service", EVIL)

    def test_a_holder_that_reports_nothing_gives_nothing(self):
        units.drop_in("evil", HOLDER.format(script=":", afterwards=""))
        self.assertNotEqual(0, units.start("victim.service", check=False).returncode)
        self.assertIn("does not report where it is published", units.log("evil"))

    def test_a_holder_cannot_change_the_link_afterwards(self):
        tries = (f"while ! test -e {LINK}; do sleep 0.05; done; ln -sfn /etc {OWN}/mnt; ln -sfn /etc {LINK}; rm -f {LINK}; "
                 f"mv {units.RUN}/evil {OWN}/x; mkdir {units.RUN}/more; touch {OWN}/tried;")  # fmt: skip
        self.assertEqual(0, self.says(self.published, tries).returncode, units.log("evil"))
        machine.wait_for("it to have tried", lambda: os.path.exists(f"{OWN}/tried"))
        self.assertEqual(self.published, os.readlink(LINK))
        machine.systemctl("restart", "victim.service")
        inside = machine.mounts_below("", units.pid("victim.service"))
        self.assertIn("tmpfs", [line for line in inside if " /srv " in line][0])
        self.assertEqual((0, 0o755), (os.stat(f"{units.RUN}/evil").st_uid, os.stat(f"{units.RUN}/evil").st_mode & 0o7777))
        self.assertFalse(os.path.lexists(f"{units.RUN}/more"))

    def test_the_step_of_root_has_no_privilege_but_its_account(self):
        status = f"{OWN}/status"
        more = f"ExecStartPost=\nExecStartPost=!/bin/sh -c 'cat /proc/self/status >{units.RUN}/status; ! touch /etc/x /run/x'\n"
        units.drop_in("evil", HOLDER.format(script=f"touch {status}", afterwards="") + more)
        units.start(EVIL)
        with open(f"{units.RUN}/status", encoding="ascii") as f:
            got = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        os.unlink(f"{units.RUN}/status")
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual("0" * 16, got[name])
        self.assertEqual(("0\t0\t0\t0", "1", "2"), (got["Uid"], got["NoNewPrivs"], got["Seccomp"]))


if __name__ == "__main__":
    unittest.main()
