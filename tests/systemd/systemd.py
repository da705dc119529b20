#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run test cases under systemd as PID 1, in a container with the packages of this build installed.

usage: systemd.py package               make the packages of this build for --suite, into build/SUITE
       systemd.py test                  every file of cases/, each in a container of its own
       systemd.py run CASE...           some of them: test_units, or test_units.SomeClass.some_test
       systemd.py look COMMAND          run a shell command in a container, to look around
options: --checkout FOLDER  whose build/package is taken (this one)    --seconds N  limit of each run (900)
         --suite NAME       release of Debian in the container (that of this machine); test runs a chosen set on another one
         --bare             without the packages of this build, which are in /payload/debs
test and run end with `N passed, N failed`. Works as root after ./dev package; see README.md.
"""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "vm"))
import case  # noqa: E402
import debian  # noqa: E402
import image  # noqa: E402
from payload import Tally, report  # noqa: E402

RUN_SECONDS = 900  # for what hangs: a quiet machine takes 95 at the most
SIDE_BY_SIDE = 3  # containers; they mostly wait


def boot(payload, result, options, bare, site=None):
    root = debian.ensure_tree(options.checkout, installed=not bare)
    return subprocess.run(
        [*(site.enter if site else ()), os.path.join(HERE, "container"), root, payload, result,
         *(site.options if site else ())],
        env=os.environ | {"SECONDS_MAX": str(options.seconds)},
        check=False,
    ).returncode  # fmt: skip


def is_bare(name, options):
    return options.bare or case.is_bare(name.split(".")[0], "container")


class Site:
    """What several machines of one case share: a network, which nothing else is in, and a folder."""

    def __init__(self, work):
        self.name = "holdfast-" + os.path.basename(work)
        self.enter = ["nsenter", f"--net=/run/netns/{self.name}"]
        self.options = ["--network-bridge=site", f"--bind={work}/shared:/shared"]
        os.mkdir(f"{work}/shared")

    def __enter__(self):
        image.run("ip", "netns", "add", self.name)
        image.run("ip", "-n", self.name, "link", "add", "site", "type", "bridge")
        image.run("ip", "-n", self.name, "link", "set", "site", "up")
        return self

    def __exit__(self, *_):
        image.run("ip", "netns", "delete", self.name)


def run_machine(name, machine, work, options, site=None):
    """Exit status of a file of cases on one machine; its result is in the folder work/result/MACHINE."""
    payload, result = os.path.join(work, "payload" + machine), os.path.join(work, "result", machine)
    os.mkdir(payload)
    os.makedirs(result, exist_ok=True)
    case.fill(payload, [name], options.checkout)
    with open(os.path.join(payload, "machine"), "w", encoding="ascii") as f:
        f.write(machine)
    return boot(payload, result, options, is_bare(name, options), site)


def run_machines(name, work, options):
    """The first exit status that is not 0, of all machines of a file of cases, which run at the same time."""
    machines = case.machines(name.split(".")[0])
    if machines == ("",):
        return run_machine(name, "", work, options)
    with Site(work) as site, concurrent.futures.ThreadPoolExecutor(len(machines)) as pool:
        statuses = list(pool.map(lambda machine: run_machine(name, machine, work, options, site), machines))
    return next((status for status in statuses if status), 0)


def run_case(name, options):
    """The tally of one file of cases, or of a part of one, and what it printed."""
    tally, started = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-systemd-") as work:
        os.chmod(work, 0o755)
        status = run_machines(name, work, options)
        result, printed = os.path.join(work, "result"), []
        for machine in case.machines(name.split(".")[0]):
            try:
                with open(os.path.join(result, machine, "log"), encoding="utf-8", errors="replace") as f:
                    for line in f:
                        printed.append(line)
                        tally.line(line.rstrip("\n"))
            except FileNotFoundError:
                pass
        shutil.copytree(result, case.artefacts("container", name, options.checkout), dirs_exist_ok=True)
    tally.end(name, status)
    printed.append(f"{name}: {tally.passed} passed, {len(tally.failed)} failed in {time.monotonic() - started:.1f} s\n")
    return tally, "".join(printed)


def run_cases(names, options):
    """The tallies, by name; what each printed comes in one piece when it ends."""
    for bare in {is_bare(name, options) for name in names}:
        debian.ensure_tree(options.checkout, installed=not bare)  # once, before several want it
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        running = {pool.submit(run_case, name, options): name for name in names}
        tallies = {}
        for done in concurrent.futures.as_completed(running):
            tallies[running[done]], printed = done.result()
            sys.stdout.write(printed)
            sys.stdout.flush()
    return tallies


def run(options):
    return report(run_cases(options.what, options))


def test(options):
    return report(run_cases(case.all_names("container"), options))


def look(options):
    with tempfile.TemporaryDirectory(prefix="holdfast-systemd-") as work:
        os.chmod(work, 0o755)
        payload, result = os.path.join(work, "payload"), os.path.join(work, "result")
        os.mkdir(payload)
        os.mkdir(result)
        case.fill(payload, [], options.checkout)
        with open(os.path.join(payload, "start"), "w", encoding="utf-8") as f:
            f.write("#!/bin/bash\n" + " ".join(options.what) + "\n")
        status = boot(payload, result, options, options.bare)
        with open(os.path.join(result, "log"), encoding="utf-8", errors="replace") as f:
            sys.stdout.write(f.read())
    return status


def package(options):
    debian.package(options.checkout)
    return 0


COMMANDS = {"package": package, "test": test, "run": run, "look": look}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("what", nargs="*")
    parser.add_argument("--checkout", default=debian.CHECKOUT)
    parser.add_argument("--seconds", type=int, default=RUN_SECONDS)
    parser.add_argument("--suite")
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_intermixed_args()
    if (options.command in ("run", "look")) != bool(options.what):
        parser.error(f"{options.command}: wrong number of arguments")
    if os.geteuid() != 0:
        sys.exit("systemd.py: needs root")
    image.choose(options.suite)
    return COMMANDS[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
