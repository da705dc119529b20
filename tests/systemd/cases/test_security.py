# SPDX-License-Identifier: Apache-2.0
"""The sandbox of each unit: its score, and that systemd finds nothing to complain about."""

import glob
import json
import re
import unittest

import machine
import units

OTHER_RELEASE = ("container",)

# systemd-analyze security --threshold=, tenths of its exposure level; docs/node.md states them. They are those of
# systemd 252; later ones find less to say.
THRESHOLDS = {
    units.SERVER: 12,
    units.SOCKET_AGENT: 16,
    units.SETUID_AGENT: 71,
    units.TEMPLATE: 45,
    units.VOLUME: 14,
    units.DRIVER: 7,
    units.DOCKER_PLUGIN: 14,
    units.NETWORK: 4,
}
FOLDER = "/usr/lib/systemd/system"


def read(unit):
    with open(f"{FOLDER}/{unit}", encoding="utf-8") as f:
        return f.read()


class Units(unittest.TestCase):
    def test_systemd_has_nothing_to_say_about_any_unit(self):
        paths = [path for path in sorted(glob.glob(f"{FOLDER}/holdfast-*")) if not path.endswith(".d")]
        self.assertGreaterEqual(len(paths), 5)
        # a template and a socket are verified by way of an instance, and a man page is looked up
        paths = [path.replace("@.service", "@1.service") for path in paths]
        done = machine.run("systemd-analyze", "verify", "--man=no", *paths, check=False)
        said = [line for line in done.stderr.splitlines() if "holdfast" in line]
        self.assertEqual(([], 0), (said, done.returncode))

    def test_each_unit_keeps_its_score_as_it_is_written(self):
        for unit, threshold in THRESHOLDS.items():
            with self.subTest(unit=unit):
                machine.run("systemd-analyze", "security", "--offline=true", f"--threshold={threshold}", f"{FOLDER}/{unit}")
                if machine.systemd_version() > 252:
                    continue
                better = ("systemd-analyze", "security", "--offline=true", f"--threshold={threshold - 1}", f"{FOLDER}/{unit}")
                self.assertNotEqual(0, machine.run(*better, check=False).returncode, "the threshold can be lowered")

    def test_each_option_left_out_for_launch_mode_setuid_has_its_reason(self):
        text = read(units.SETUID_AGENT)
        socket = set(re.findall(r"^([A-Za-z]+)=", read(units.SOCKET_AGENT), re.M))
        setuid = set(re.findall(r"^([A-Za-z]+)=", text, re.M))
        for option in set(units.IMPLY_NO_NEW_PRIVS) | {"NoNewPrivileges", "DynamicUser"} | (socket - setuid - {"SystemCallErrorNumber"}):
            with self.subTest(option=option):
                self.assertRegex(text, rf"(?m)^#   {option}= +\S+")


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()

    def score(self, unit, threshold):
        machine.run("systemd-analyze", "security", f"--threshold={threshold}", unit)

    def test_a_running_unit_keeps_its_score(self):
        self.score(units.SERVER, 15)
        self.score(units.SOCKET_AGENT, 15)
        listed = machine.systemctl("list-units", "--output=json", "holdfast-mounthelper@*").stdout
        instance = json.loads(listed)[0]["unit"]
        self.score(instance, THRESHOLDS[units.TEMPLATE])

    def test_the_daemons_have_no_privilege_at_all(self):
        for unit in (units.SERVER, units.SOCKET_AGENT):
            with self.subTest(unit=unit), open(f"/proc/{units.main_pid(unit)}/status", encoding="ascii") as f:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
                for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                    self.assertEqual("0" * 16, status[name])
                self.assertEqual(("1", "2"), (status["NoNewPrivs"], status["Seccomp"]))


if __name__ == "__main__":
    unittest.main()
