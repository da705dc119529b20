# SPDX-License-Identifier: Apache-2.0
"""What runs in the guest: a folder of payloads/.

  files             globs of built files, relative to the checkout, one a line; they keep their absolute path
  run               started in the guest as root; says "[       OK ] name" and "[  FAILED  ] name" as cmocka does
  after-power-cut   if there: after run has ended the power is cut, and this runs after the next boot of the same disk
  *                 anything else run wants beside itself, in /payload
"""

import dataclasses
import glob
import os
import re
import tarfile

import image
from machine import PAYLOAD_SIZE

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "payloads")
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
AFTER_POWER_CUT = "after-power-cut"
OTHER_RELEASE = ("mounthelper",)  # what runs on the other release of Debian too: where its kernel may make a difference

PASSED = re.compile(r"\[ +OK +\] (.+)$")
FAILED = re.compile(r"\[ +FAILED +\] (.+)$")
# How a phase may follow the one before, on the same disk.
POWER_CUT = "power-cut"
REBOOT = "reboot"
SUMMARY = re.compile(r"\d+ test\(s\)")  # cmocka says "[  FAILED  ] tests: 2 test(s), listed below:" too


@dataclasses.dataclass(frozen=True)
class Phase:
    """One boot of a payload: what runs in it, and how it came to it."""

    run: object  # for the payload's own pack()
    after: str | None = None  # POWER_CUT, REBOOT; None for the first


class Payload:
    guest = "small"

    def __init__(self, name, checkout=CHECKOUT):
        self.name, self.checkout = name, os.path.abspath(checkout)
        self.folder = os.path.join(FOLDER, name)
        if not os.path.exists(os.path.join(self.folder, "run")):
            raise LookupError(f"no payload {name}; there are: {', '.join(all_names())}")

    def phases(self):
        again = os.path.exists(os.path.join(self.folder, AFTER_POWER_CUT))
        return [Phase("run")] + ([Phase(AFTER_POWER_CUT, POWER_CUT)] if again else [])

    def collect(self, scratch):
        """What is to be kept of a guest that has ended: its scratch disks."""

    def unexpected(self):
        """What is wrong although no test said so, one line each; after collect()."""
        return []

    def built_files(self):
        with open(os.path.join(self.folder, "files"), encoding="utf-8") as f:
            patterns = [line.strip() for line in f if line.strip() and not line.startswith("#")]
        for pattern in patterns:
            found = [path for path in glob.glob(os.path.join(self.checkout, pattern)) if os.path.isfile(path)]
            if not found:
                raise LookupError(f"{self.name}: nothing is {pattern} in {self.checkout}; build it first")
            yield from sorted(found)

    def pack(self, path, phase):
        """Write the disk that the guest unpacks over its root; phase.run is the file to start there."""
        with tarfile.open(path, "w") as tar:
            for built in self.built_files():
                tar.add(built, arcname=built.lstrip("/"))
            tar.add(self.folder, arcname="payload")
            tar.add(os.path.join(HERE, "guest", "say"), arcname="payload/say")
            tar.addfile(link("payload/checkout", self.checkout))
            tar.addfile(link("payload/start", phase.run))
        fill_up(path, self.name)


class Command(Payload):
    """A payload of shell commands, made in the empty folder given. With after_power_cut it cuts the power."""

    def __init__(self, folder, command, after_power_cut=None):
        self.name, self.folder, self.checkout = "command", folder, "/"
        self.write("files", "")
        self.write("run", command)
        if after_power_cut:
            self.write(AFTER_POWER_CUT, after_power_cut)

    def write(self, name, command):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{command}\n" if command else "")
            os.fchmod(f.fileno(), 0o755)


def fill_up(path, name):
    if os.path.getsize(path) > PAYLOAD_SIZE:
        raise RuntimeError(f"{name} is larger than {PAYLOAD_SIZE >> 20} MiB")
    os.truncate(path, PAYLOAD_SIZE)


def link(path, target):
    member = tarfile.TarInfo(path)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


class Tally:
    """What the lines of a payload say about its tests."""

    def __init__(self):
        self.passed, self.failed = 0, {}

    def line(self, text):
        failed = FAILED.search(text)
        if failed and not SUMMARY.search(text):
            self.failed[failed.group(1)] = True  # cmocka says it twice
        elif PASSED.search(text):
            self.passed += 1

    def end(self, name, status):
        """A payload that fails without saying in which test, or that says nothing, failed as a whole."""
        if not self.failed and (status != 0 or self.passed == 0):
            self.failed[f"{name}: exit {status} after {self.passed} tests"] = True


def report(tallies):
    """Print what failed and the sums; the exit status."""
    failed = [f"{name}: {test}" for name, tally in tallies.items() for test in tally.failed]
    for test in failed:
        print(f"FAILED {test}")
    print(f"{sum(tally.passed for tally in tallies.values())} passed, {len(failed)} failed")
    return 1 if failed else 0


def all_names():
    if image.SUITE != image.HOST:
        return list(OTHER_RELEASE)
    return sorted(name for name in os.listdir(FOLDER) if os.path.exists(os.path.join(FOLDER, name, "run")))
