#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the lanes of tests from one pool of jobs. `./dev test` calls it after it has installed what the lanes need.

usage: lanes.py run [--load N] [--sample K/N] LANE...
       lanes.py which [default | all | touched [--since REV] | LANE...]   print the lanes that are meant, one a line
       lanes.py packages LANE...                                           print the groups of packages that they need
       lanes.py list                                                       print the table of lanes
       lanes.py times                                                      print how long each program took last time
"""

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pool import Job, Pool

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "build/lanes"
TIMES = LOGS / "seconds.json"
SLOTS_PER_PROCESSOR = 4  # most programs wait more than they compute
SLOWEST = 5
ALL_SLOTS = 10000

# Seconds of programs that have no time of an earlier run, where it matters for the order.
EXPECTED = {"dev": 900, "world": 800, "asan": 700, "package": 700, "test_servers": 100, "test_csi_matrix.TestMatrix": 110,
            "test_csi_orphans.TestOrphans": 60, "test_csi_plugins.TestOdd": 60, "test_csi_flow.TestFlow": 50, "test_kill": 60,
            "test_server_hostile": 50, "test_lifecycle": 50, "test_kill_steps": 60, "test_etcd_model": 60}  # fmt: skip


@dataclass
class Lane:
    """A set of programs with one name."""

    title: str
    packages: str  # groups in ./dev that must be installed
    jobs: object  # function(lane name): its jobs
    touched_by: str = ""  # folders and files; a change in them asks for the lane
    is_default: bool = False


# --- builds -------------------------------------------------------------------------------------------------------


def build(name):
    """What ./dev builds by these words; a job of any lane can need it."""
    return Job("build", name, ["./dev", "build", *name.split()], place="host", limit=3600, slots=3 * os.cpu_count(), counts=False)


def later(name, needs, then):
    """A job that becomes the jobs of @then when those of @needs have passed."""
    return Job("build", f"{name}'s programs", [], needs=needs, counts=False, then=then)


def ctest(lane, folder, label, leave_out=(), targets=""):
    """Jobs for the programs that CMake registered with @label in build/@folder, once that, or @targets of it, is built. The
    label host means a program that is about all of the machine: nothing else runs beside it."""

    def programs():
        words = ["ctest", "--test-dir", f"build/{folder}", "--show-only=json-v1", "-L", f"^{label}$"]
        listed = json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout)
        for test in listed["tests"]:
            if test["name"].startswith(leave_out):
                continue
            if test["name"] in BY_CASE:
                yield from cases(lane, test)
            else:
                yield program(lane, test)

    what = f"{folder} {targets}".strip()
    return [build(what), later(f"{lane} {label}", (what,), programs)]


def cases(lane, test):
    """A job for each case of a program whose cases have processes of their own and wait."""
    names = subprocess.run([*test["command"], "--list"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        yield program(lane, test | {"name": f"{test['name']}.{name}", "command": [*test["command"], name]})


def program(lane, test):
    properties = {one["name"]: one["value"] for one in test["properties"]}
    command = test.get("command", ["false"])  # not built
    if properties.get("WILL_FAIL"):
        command = ["sh", "-c", '! "$@"', "sh", *command]
    is_of_host = "host" in properties.get("LABELS", ())
    return Job(lane, test["name"], command, limit=properties.get("TIMEOUT", 600), place="host" if is_of_host else "shared",
               slots=ALL_SLOTS if is_of_host else 1,
               folder=properties["WORKING_DIRECTORY"], expects="|".join(properties.get("PASS_REGULAR_EXPRESSION", ())),
               env=dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", ())))  # fmt: skip


# --- jobs of each lane --------------------------------------------------------------------------------------------


def script(lane, *words, needs=(), place="own", slots=1, limit=5400):
    return Job(lane, lane, list(words), needs=needs, place=place, slots=slots, limit=limit)


# A class of integration tests has a world, whose set-up takes some seconds. Long classes run in so many worlds at once.
WORLDS = {"test_csi_flow.TestFlow": 4, "test_csi_orphans.TestOrphans": 4, "test_csi_plugins.TestOdd": 6,
          "test_kill.TestKill": 4, "test_network_fence.TestNetworkFence": 3, "test_path.TestPath": 2,
          "test_plugins.TestGrpcio": 4, "test_plugins.TestGrpcJs": 4}  # fmt: skip


# A class whose set-up runs the sweep: its part of it is divided.
SWEEPS = {"test_csi_matrix.TestMatrix": 2}


def parts_of_sample(text, n):
    """@n parts that together are the part @text, K/N."""
    part, parts = map(int, text.split("/"))
    return [f"{part + i * parts}/{n * parts}" for i in range(n)]


def integration_classes(lane, store, leave_out=(), only=("",), env=None):
    """Jobs for the classes of the integration tests, or for parts of them."""

    def job(name, patterns, more):
        logs = LOGS / lane / f"{store}{name}.worlds"
        return Job(lane, store + name, [sys.executable, "-B", "tests/integration/run.py", *patterns], place="own", limit=1800,
                   env={"HOLDFAST_TEST_LOGS": str(logs), **(env or {}), **more})  # fmt: skip

    def classes():
        words = [sys.executable, "-B", "tests/integration/run.py", "--list"]
        listed = subprocess.run(words, cwd=ROOT, env=os.environ | (env or {}), check=True, capture_output=True,
                                text=True).stdout.split()  # fmt: skip
        tests = collections.defaultdict(list)
        for name in listed:
            if name.startswith(only) and not name.startswith(leave_out):
                tests[name.rpartition(".")[0]].append(f"{store}{name}$")
        for name, patterns in tests.items():
            for i, sample in enumerate(parts_of_sample(os.environ["HOLDFAST_SAMPLE"], SWEEPS.get(name, 0))):
                yield job(f"{name}.{i + 1}of{SWEEPS[name]}", [f"{store}{name}."], {"HOLDFAST_SAMPLE": sample})
            n = 0 if name in SWEEPS else min(WORLDS.get(name, 1), len(patterns))
            for i in range(n):
                yield job(f"{name}.{i + 1}of{n}" if n > 1 else name, patterns[i::n], {})

    return classes


GRPCIO = {"HOLDFAST_PLUGIN_STACKS": "grpcio"}
BY_NAME = ("test_rate.", "test_run.", "test_plugins.TestGrpcJs")  # in the lane stores
ON_ETCD = ("test_kill.", "test_silence.")
OWN_ETCD = ("test_lives.",)  # three servers on three members, whatever the store of the world is


def integration(lane):
    """On the programs of build/dev, which other lanes need in any case; the lane stores has the optimised ones."""
    env = GRPCIO | {"HOLDFAST_WORLD_BUILD": "dev"}
    return [build("dev"), later(lane, ("dev",), integration_classes(lane, "", BY_NAME, env=env)),
            later(f"{lane} on etcd", ("dev",), integration_classes(lane, "etcd:", only=ON_ETCD, env=env))]  # fmt: skip


def stores(lane):
    tools = Job("build", "plugin-tools", [sys.executable, "-B", "tests/plugins/plugin.py"], place="host", counts=False)
    needs = ("world", "plugin-tools")
    return [build("world"), tools, later(lane, needs, integration_classes(lane, "")),
            later(f"{lane} on etcd", needs, integration_classes(lane, "etcd:", OWN_ETCD))]  # fmt: skip


PARSERS = "asan-reads corpus"
WALKS = ("test_mounthelper_faults",)  # over all calls that can fail: it is in the lanes unit and asan
# qemu-user lacks calls of the kernel that the first three make; the others take minutes there.
NOT_EMULATED = ("test_peer_socket", "test_place", "test_procfs", "test_mounthelper_faults", "test_mounthelper_policy_file", "test_mounthelper_state", "test_pbjson",
                "test_conf_faults")
PROGRAMS = "holdfast holdfast-server holdfast-agent holdfast-mounthelper"
BY_CASE = ("test_servers", "test_mounthelper_faults", "test_server_hostile", "test_etcd_election")
LONG_ETCD = ("test_servers_history",)


def of_packages(lane, *words, needs=("package",), suite=()):
    return [build("package"), *([build("dev")] if "dev" in needs else []),
            script(lane, *words, *suite, needs=needs, place="host", slots=4)]  # fmt: skip


LANES = {
    "static": Lane("licences, shell scripts, plain English and asserts before effects", "build static", lambda lane: [script(lane, "./dev", "static")],
                   ". dev", True),
    "unit": Lane("every module on models of kernel, helper, plugins and time", "build run shells",
                 lambda lane: ctest(lane, "dev", "unit"), "lib proto mounthelper agent server cli tests docs cmake/debian selinux/debian", True),
    "parsers": Lane("what reads foreign bytes, and the corpora of the fuzzers, with sanitizers", "build run",
                    lambda lane: [*ctest(lane, "asan", "reads", WALKS, PARSERS), *ctest(lane, "asan", "corpus", targets=PARSERS)],
                    "lib mounthelper agent/driver-container tests/fuzz", True),
    "asan": Lane("the same programs with address and undefined-behaviour sanitizers", "build run shells",
                 lambda lane: ctest(lane, "asan", "unit"), "agent server cli"),
    "arm64": Lane("the programs for arm64, and the unit programs of what reads foreign bytes under qemu-user", "build run arm64",
                  lambda lane: ctest(lane, "arm64", "reads", NOT_EMULATED, f"{PROGRAMS} asan-reads"), "cmake/arm64.cmake cmake/CompilerFlags.cmake"),
    "helper": Lane("the mount helper, setuid, with real mounts", "build run helper",
                   lambda lane: ctest(lane, "dev", "root"),
                   "mounthelper lib/privileged lib/base proto/mounthelper_wire.h tests/integration/mounthelper", True),
    "audit": Lane("the mount helper under a running auditd, which audits all of the machine", "build run helper",
                  lambda lane: ctest(lane, "dev", "audit"), "mounthelper systemd/holdfast-audit.rules"),
    "integration": Lane("server, agents, helpers and plugins with real mounts", "build run etcd", integration,
                        "lib proto mounthelper agent server cli tests/integration tests/plugins", True),
    "etcd": Lane("the store and servers on a real etcd that dies, hangs and is slow", "build run etcd",
                 lambda lane: ctest(lane, "dev", "etcd", LONG_ETCD),
                 "lib/etcd lib/store lib/rpc server/lead server/recovery tests/unit/etcd", True),
    "fuzz": Lane("each parser on its corpus, then five seconds of libFuzzer", "build fuzz",
                 lambda lane: [script(lane, "./dev", "fuzz", place="host", slots=2 * os.cpu_count())],
                 "lib/conf lib/pb lib/rpc lib/base mounthelper agent/driver-container server/node tests/fuzz"),
    "interop": Lane("gRPC with grpc-js, grpcio, frames by hand and h2load", "build run etcd node interop",
                    lambda lane: [build("dev"), script(lane, "./dev", "interop", needs=("dev",), place="host")],
                    "lib/rpc lib/pb proto server/api tests/integration/grpc-interop"),
    "site": Lane("all pages and manual pages as a site, whose links lead somewhere", "site",
                 lambda lane: [script(lane, "./dev", "docs", place="host")], "docs README.md"),
    "alarms": Lane("the alarms and the dashboard, tried by Prometheus", "build run alarms",
                   lambda lane: [build("dev"), script(lane, sys.executable, "-B", "tests/alarms/alarms.py",
                                                      "build/dev/server/holdfast-server", needs=("dev",))],
                   "server/metrics.c docs/prometheus docs/runbook/README.md tests/alarms"),
    "stores": Lane("all integration tests, with both plugin stacks, on sqlite and on etcd", "build run etcd node", stores,
                   "lib/store lib/etcd server/lead server/recovery tests/plugins"),
    "history": Lane("three servers and three etcd under 400 faults of a seed", "build run etcd",
                    lambda lane: [build("dev"), script(lane, "./dev", "history", needs=("dev",), slots=4)],
                    "lib/etcd server/lead server/recovery"),
    "engines": Lane("the driver of containers with podman and Docker", "build run engines etcd",
                    lambda lane: [build("dev"), build("world"), *(
                        Job(lane, engine, [sys.executable, "-B", "tests/engines/run.py", engine], needs=("dev", "world"),
                            place="own", limit=3600, env=GRPCIO) for engine in ("podman", "docker"))],
                    "agent/driver agent/driver-container agent/alloc proto/holdfast/driver cli/docker tests/engines"),
    "packages": Lane("packages: lintian, hardening, the same bytes twice", "build package repo check selinux",
                     lambda lane: of_packages(lane, sys.executable, "-B", "tests/packages/check.py"),
                     "cmake CMakeLists.txt systemd selinux tests/packages"),
    "policy": Lane("the SELinux module, asked without a machine", "build package selinux vm",
                   lambda lane: of_packages(lane, "tests/selinux/check.py"), "selinux systemd tests/selinux"),
    "systemd": Lane("units, sandboxes and packages with systemd as PID 1", "build package selinux systemd",
                    lambda lane: of_packages(lane, sys.executable, "-B", "tests/systemd/systemd.py", "test"),
                    "systemd cmake docs/install.md docs/install-after.md docs/install-apart.md docs/three-servers.md docs/node-loss.md docs/network-fence.md docs/operations.md "
                    "docs/trail.md docs/postgresql.md docs/runbook docs/examples lib/privileged tests/systemd"),
    "vm": Lane("Debian's own kernel with SELinux in a virtual machine", "build run helper package selinux vm",
               lambda lane: of_packages(lane, sys.executable, "-B", "tests/vm/vm.py", "test", needs=("package", "dev")),
               "mounthelper lib/privileged selinux tests/vm"),
}
DEBIAN_13 = {
    "systemd13": Lane("units and packages on Debian 13", "build package selinux systemd",
                      lambda lane: [package13(), script(lane, sys.executable, "-B", "tests/systemd/systemd.py", "test", "--suite",
                                                        "trixie", needs=("package13",), place="host", slots=4)]),
    "engines13": Lane("the driver of containers with podman of Debian 13", "build run engines etcd systemd",
                      lambda lane: [build("dev"), build("world"), script(
                          lane, sys.executable, "-B", "tests/engines/run.py", "podman@trixie", needs=("dev", "world"),
                          place="host")]),
    "vm13": Lane("kernel and SELinux of Debian 13", "build run helper package selinux vm systemd",
                 lambda lane: [package13(), build("dev"), script(
                     lane, sys.executable, "-B", "tests/vm/vm.py", "test", "--suite", "trixie", needs=("package13", "dev"),
                     place="host", slots=4)]),
}  # fmt: skip


def package13():
    return Job("build", "package13", [sys.executable, "-B", "tests/systemd/systemd.py", "package", "--suite", "trixie"],
               place="host", limit=3600, slots=4, counts=False)  # fmt: skip


def lanes():
    """The lanes of this machine: those about Debian 13 run on Debian 12."""
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    return LANES if 'VERSION_ID="13"' in release else LANES | DEBIAN_13


# --- which lanes --------------------------------------------------------------------------------------------------


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def changed_files(since):
    return {*git("diff", "--name-only", since), *git("ls-files", "--others", "--exclude-standard")}


def is_below(path, folder):
    return folder == "." or path == folder or path.startswith(folder + "/")


def touched(since):
    """The lanes that a change since @since asks for: those with a folder that has a changed file."""
    files = changed_files(since)
    return [name for name, lane in lanes().items()
            if any(is_below(path, folder) for folder in lane.touched_by.split() for path in files)]


def which(words, since):
    known = lanes()
    chosen = []
    for word in words or ["default"]:
        if word == "default":
            chosen += [name for name, lane in known.items() if lane.is_default]
        elif word == "all":
            chosen += list(known)
        elif word == "touched":
            chosen += touched(since)
        elif word in known:
            chosen.append(word)
        else:
            sys.exit(f"dev: no lane {word}. Lanes: {' '.join(known)}; or default, touched, all")
    return list(dict.fromkeys(chosen))


# --- a run --------------------------------------------------------------------------------------------------------


def sample_of(text):
    """Which part of the sweeps runs: by the number of commits, so that each part runs every few commits."""
    if text:
        return text
    try:
        return f"{int(git('rev-list', '--count', 'HEAD')[0]) % 4 + 1}/4"
    except (subprocess.CalledProcessError, FileNotFoundError):  # no checkout of git
        return "1/4"


def expected(job, times):
    """What @job may take, so that long ones start first; builds start before everything."""
    matching = [seconds for name, seconds in EXPECTED.items() if job.name.startswith(name)]
    return (job.lane == "build", times.get(f"{job.lane}/{job.name}", (max(matching, default=1.0),))[0])


def print_result(result):
    job = result.job
    if result.failed:
        print(f"FAILED {job.lane}/{job.name}: {', '.join(result.failed)} ({result.wall:.1f} s)", flush=True)
        if result.log.exists():
            lines = result.log.read_text(encoding="utf-8", errors="replace").splitlines()
            print("\n".join(f"    {line}" for line in lines[-40:]), f"    whole log: {result.log.relative_to(ROOT)}", sep="\n")
    elif result.wall >= 1:
        print(f"ok     {job.lane}/{job.name}: {result.passed} ({result.wall:.1f} s)", flush=True)


def sum_up(results, names, wall):
    """Prints a line for each lane, the slowest programs, and the sum. Returns the number of failures."""
    by_lane = collections.defaultdict(list)
    for result in results:
        by_lane[result.job.lane].append(result)
    print()
    for name in (["build"] if by_lane["build"] else []) + names:
        of_lane = by_lane[name]
        passed, failed = sum(one.passed for one in of_lane), sum(len(one.failed) for one in of_lane)
        if not of_lane:
            passed, failed = 0, 1
            print(f"lane {name} did not start")
        print(f"{name:12} {passed:5d} passed {failed:3d} failed  {sum(one.wall for one in of_lane):6.0f} s of its programs, "
              f"{sum(one.cpu for one in of_lane):5.0f} s of processors")
        for one in of_lane:
            if one.failed:
                print(f"             FAILED {one.job.name}: {', '.join(one.failed)}")
    slowest = sorted((one for one in results if one.job.counts), key=lambda one: -one.wall)[:SLOWEST]
    print("slowest: " + ", ".join(f"{one.job.name} {one.wall:.0f} s" for one in slowest))
    print(f"{wall:.0f} s, {sum(one.cpu for one in results):.0f} s of processors")
    passed, failed = sum(one.passed for one in results), sum(len(one.failed) for one in results)
    failed += sum(not by_lane[name] for name in names)
    print(f"\n{passed} passed, {failed} failed")
    return failed


def read_times():
    """By lane and name of a program: the seconds that it took and those that it had of processors."""
    return json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}


def write_times(results):
    times = read_times() | {f"{one.job.lane}/{one.job.name}": (round(one.wall, 1), round(one.cpu, 1))
                           for one in results if not one.failed}  # fmt: skip
    TIMES.write_text(json.dumps(times, indent=1, sort_keys=True), encoding="utf-8")


def run(names, options):
    os.chdir(ROOT)
    os.environ["HOLDFAST_SAMPLE"] = sample = sample_of(options.sample or ("1/1" if set(names) == set(lanes()) else ""))
    print(f"lanes: {' '.join(names)}; part {sample} of the sweeps (whole: --sample 1/1)", flush=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    times, since = read_times(), time.monotonic()
    pool = Pool(SLOTS_PER_PROCESSOR * os.cpu_count(), LOGS, print_result, lambda job: expected(job, times))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: pool.end())
    load = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(options.load)]
    try:
        results = pool.run({job.key: job for name in names for job in lanes()[name].jobs(name)}.values())
    finally:
        for one in load:
            one.kill()
    write_times(results)
    failed = sum_up(results, names, time.monotonic() - since)
    if pool.is_ending:
        sys.exit("dev: interrupted")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command", choices=("run", "which", "packages", "list", "times"))
    parser.add_argument("lanes", nargs="*")
    parser.add_argument("--since", default="HEAD~1", help="with touched: the commit that is compared with")
    parser.add_argument("--load", type=int, default=0, help="busy loops that run beside")
    parser.add_argument("--sample", help="K/N: the part of the sweeps that runs, 1/1 for all")
    options = parser.parse_intermixed_args()
    names = which(options.lanes, options.since)
    if options.command == "run":
        return run(names, options)
    if options.command == "which":
        print("\n".join(names))
    elif options.command == "packages":
        print(" ".join(dict.fromkeys(word for name in names for word in lanes()[name].packages.split())))
    elif options.command == "list":
        for name, lane in lanes().items():
            print(f"{name:12} {'default' if lane.is_default else '':8} {lane.title}")
    else:
        for name, (wall, cpu) in sorted(read_times().items(), key=lambda item: -item[1][0]):
            print(f"{wall:8.1f} s {cpu:8.1f} s of processors  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
