#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run what is built in Debian guests with Debian's kernel, under QEMU without KVM.

usage: vm.py test                       this program's own tests, then every payload and every case for the vm
       vm.py run [options] NAME...      run payloads of payloads/ in the small guest, or cases (test_...) of
                                        tests/systemd/cases in the guest with systemd, each in a guest of its own
                                        power-fence: nodes that are fenced by a BMC, see test_power_fence.py
       vm.py look [options] COMMAND     run a shell command in a guest, to look around
       vm.py prepare                    make images and snapshots unless they are there
options: --guest small|systemd|bare  which one to look around in (small); bare: systemd, without our packages
         --suite NAME       release of Debian in the guests (that of this machine); test runs a chosen set on another one
         --checkout FOLDER  whose build is taken (this one)   --seconds N  limit of each boot (1200)
         --cold             boot instead of waking the snapshot
test and run end with `N passed, N failed`. Works as root; see README.md.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import case  # noqa: E402
import image  # noqa: E402
import machine  # noqa: E402
import small_guest  # noqa: E402
import snapshot  # noqa: E402
import systemd_guest  # noqa: E402
from image import say  # noqa: E402
from payload import CHECKOUT, Command, Payload, Tally, all_names, report  # noqa: E402

RUN_SECONDS = 1200
# A test that needs a guest and programs on this machine: test_power_fence.py.
POWER_FENCE = "power-fence"
# What stops a payload without being a bug of this program: no QEMU, no mirror, nothing built, a guest that dies.
EXPECTED = (machine.GuestFailure, LookupError, OSError, RuntimeError, subprocess.SubprocessError)


GUESTS = {"small": small_guest.ensure, "systemd": systemd_guest.ensure, "bare": systemd_guest.ensure_bare}


def make_payload(name, checkout):
    return case.Case(name, checkout) if name.startswith("test_") else Payload(name, checkout)


def run_in_guest(name, options, output):
    payload = make_payload(name, options.checkout)
    source = GUESTS[payload.guest](options.checkout)
    status = snapshot.run(source, payload, output, options.seconds, options.cold)
    for line in payload.unexpected():
        output(f"[  FAILED  ] {name}: {line}")
    return status


def run_power_fence(_name, options, output):
    """Runs it in a box, with a network and an /opt of its own."""
    with image.locked():
        image.ensure()  # the box has no network to make it
    words = [os.path.join(CHECKOUT, "tests", "lanes", "box"), sys.executable, "-B",
             os.path.join(CHECKOUT, "tests", "vm", "test_power_fence.py")]  # fmt: skip
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as test:
        for line in test.stdout:
            output(line.rstrip("\n"))
    return test.returncode


def run_payload(name, options):
    """The tally of one payload or case, or of the power fence."""
    tally, started, log = Tally(), time.monotonic(), []

    def output(line):
        tally.line(line)
        log.append(line + "\n")
        machine.to_stdout(line)

    say(f"payload {name}")
    try:
        status = (run_power_fence if name == POWER_FENCE else run_in_guest)(name, options, output)
    except EXPECTED as e:
        output(f"vm: {name}: {e}")
        status = -1
    with open(os.path.join(case.artefacts("vm", name, options.checkout, empty=False), "log"), "w", encoding="utf-8") as f:
        f.writelines(log)
    tally.end(name, status)
    say(f"{name}: {tally.passed} passed, {len(tally.failed)} failed in {time.monotonic() - started:.1f} s")
    return tally


def run_own_tests():
    """The tally of test_vm.py: a lane that cannot fail would be worth nothing."""
    tally = Tally()
    loaded = unittest.defaultTestLoader.discover(os.path.dirname(os.path.abspath(__file__)), pattern="test_vm.py")
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(loaded)
    bad = result.failures + result.errors + result.skipped
    tally.passed = result.testsRun - len(bad)
    tally.failed = {test.id(): True for test, _ in bad}
    return tally


def run(options):
    return report({name: run_payload(name, options) for name in options.what})


def check_artefacts(names, options):
    """The tally of what the runs have left in build/artefacts."""
    tally = Tally()
    for name in names:
        found = case.missing(name, options.checkout)
        tally.passed += not found
        tally.failed |= {line: True for line in found}
    return tally


def test(options):
    is_host = image.SUITE == image.HOST
    names = all_names() + ([POWER_FENCE] if is_host else []) + case.all_names("vm")
    own = {"vm": run_own_tests()} if is_host else {}
    tallies = own | {name: run_payload(name, options) for name in names}
    return report(tallies | {"artefacts": check_artefacts(names, options)})


def look(options):
    source, command = GUESTS[options.guest](options.checkout), " ".join(options.what)
    with tempfile.TemporaryDirectory() as folder:
        payload = Command(folder, command) if options.guest == "small" else case.Look(command, options.checkout)
        return snapshot.run(source, payload, machine.to_stdout, options.seconds, options.cold)


def prepare(options):
    for ensure in GUESTS.values():
        say(ensure(options.checkout).folder)
    return 0


COMMANDS = {"test": test, "run": run, "look": look, "prepare": prepare}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("what", nargs="*")
    parser.add_argument("--checkout", default=CHECKOUT)
    parser.add_argument("--suite")
    parser.add_argument("--guest", choices=GUESTS, default="small")
    parser.add_argument("--seconds", type=int, default=RUN_SECONDS)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_intermixed_args()
    if (options.command in ("run", "look")) != bool(options.what):
        parser.error(f"{options.command}: wrong number of arguments")
    if os.geteuid() != 0:
        sys.exit("vm.py: needs root")
    image.choose(options.suite)
    return COMMANDS[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
