#!/usr/bin/env python3
"""Run what is built in a Debian guest with Debian's 6.1 kernel, under QEMU without KVM.

usage: vm.py test                       this program's own tests, then every payload
       vm.py run [options] PAYLOAD...   run payloads, each in a guest of its own
       vm.py look [options] COMMAND     run a shell command in a guest, to look around
       vm.py prepare                    make image and snapshot unless they are there
options: --checkout FOLDER  whose build is taken (this one)   --seconds N  limit of each run (600)
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
import machine  # noqa: E402
import snapshot  # noqa: E402
from image import say  # noqa: E402
from payload import CHECKOUT, Command, Payload, Tally, all_names  # noqa: E402

RUN_SECONDS = 600
# What stops a payload without being a bug of this program: no QEMU, no mirror, nothing built, a guest that dies.
EXPECTED = (machine.GuestFailure, LookupError, OSError, RuntimeError, subprocess.SubprocessError)


def run_payload(name, options):
    """The tally of one payload."""
    tally, started = Tally(), time.monotonic()

    def output(line):
        tally.line(line)
        machine.to_stdout(line)

    say(f"payload {name}")
    try:
        status = snapshot.run(Payload(name, options.checkout), output, options.seconds, options.cold)
    except EXPECTED as e:
        say(f"{name}: {e}")
        status = -1
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


def report(tallies):
    """Print what failed and the sums; the exit status."""
    failed = [f"{name}: {test}" for name, tally in tallies.items() for test in tally.failed]
    for test in failed:
        print(f"FAILED {test}")
    print(f"{sum(tally.passed for tally in tallies.values())} passed, {len(failed)} failed")
    return 1 if failed else 0


def run(options):
    return report({name: run_payload(name, options) for name in options.what})


def test(options):
    return report({"vm": run_own_tests()} | {name: run_payload(name, options) for name in all_names()})


def look(options):
    with tempfile.TemporaryDirectory() as folder:
        command = Command(folder, " ".join(options.what))
        return snapshot.run(command, machine.to_stdout, options.seconds, options.cold)


def prepare(_):
    say(snapshot.ensure()[1])
    return 0


COMMANDS = {"test": test, "run": run, "look": look, "prepare": prepare}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("what", nargs="*")
    parser.add_argument("--checkout", default=CHECKOUT)
    parser.add_argument("--seconds", type=int, default=RUN_SECONDS)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    if (options.command in ("run", "look")) != bool(options.what):
        parser.error(f"{options.command}: wrong number of arguments")
    if os.geteuid() != 0:
        sys.exit("vm.py: needs root")
    return COMMANDS[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
