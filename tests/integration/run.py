#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run every integration test of this folder, one line each, and end with `N passed, N failed`.

Patterns as arguments run the tests whose name contains one, or ends with one if a $ ends the pattern; `etcd:PATTERN` runs them
with a server whose store is in etcd. `--list` prints the tests. HOLDFAST_TEST_LOGS is where the logs of failed tests are kept.
"""

import os
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from world import Daemon, World  # noqa: E402

import plugin  # noqa: E402

LOGS = os.environ.get("HOLDFAST_TEST_LOGS", "/tmp/holdfast-integration-logs")
CRASHED = (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP)


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed, self.bad, self.started = 0, 0, time.monotonic()

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def say(self, word, test, text=""):
        print(f"{word:6} {name_of(test)} ({time.monotonic() - self.started:.1f} s){text}", flush=True)

    def addSuccess(self, test):
        self.passed += 1
        self.say("ok", test)

    def failed(self, test, err):
        self.bad += 1
        kept = keep_logs(test)
        self.say("FAILED", test, f"\n{self._exc_info_to_string(err, test)}{''.join(crashes())}logs: {kept}")

    def addFailure(self, test, err):
        self.failed(test, err)

    def addError(self, test, err):
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):
        if err:  # of one that passed there is addSuccess() when all did
            self.failed(subtest, err)

    def addSkip(self, test, reason):
        self.bad += 1  # nothing here may be skipped: what cannot run has not been tested
        self.say("FAILED", test, f": skipped: {reason}")


def name_of(test):
    """As the pattern of its own."""
    return test.id() if World.store == "sqlite" else f"{World.store}:{test.id()}"


def crashes():
    """Daemons that crashed: a line each."""
    for world in World.opened:
        for daemon in [world.server, *(node.daemon for node in world.nodes)]:
            if daemon and daemon.process and -(daemon.process.poll() or 0) in CRASHED:
                yield f"{daemon.name} ended by signal {-daemon.process.returncode}, core dumped\n"


def keep_logs(test):
    """The world is about to be removed: keep what its daemons said."""
    source = "/opt/holdfast-dev/log"
    target = os.path.join(LOGS, name_of(test)[:200])  # a name has 255 bytes, and a subtest its text in it
    if os.path.isdir(source):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    return target


def end(number, _frame):
    """Of the run, by a signal: end what was started, by its pid, and remove what was made."""
    for other in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    Daemon.are_over = plugin.Plugin.are_over = True
    print(f"ended by signal {number}", flush=True)
    for world in list(World.opened):
        close(world)
    os._exit(128 + number)  # other threads are still waiting for what is gone


def close(world):
    """Other threads may still be making something: what comes while it is removed is removed the next time."""
    for _ in range(10):
        try:
            world.close()
            return
        except Exception as error:  # the next world says what is left
            print(error, file=sys.stderr, flush=True)
            time.sleep(0.2)


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def main():
    loaded = unittest.TestLoader().discover(os.path.dirname(os.path.abspath(__file__)), pattern="test_*.py")
    tests = list(flatten(loaded))
    if sys.argv[1:] == ["--list"]:
        print("\n".join(test.id() for test in tests))
        return 0
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    passed = bad = 0
    patterns = [one.rpartition("etcd:")[1:] for one in sys.argv[1:] or [""]]
    for World.store, prefix in (("sqlite", ""), ("etcd", "etcd:")):
        wanted = [pattern for store, pattern in patterns if store == prefix]
        # keep classes together, because a class shares a world
        suite = unittest.TestSuite(
            test for test in tests if any(pattern in test.id() + "$" for pattern in wanted)
            and (World.store == "sqlite" or not hasattr(getattr(test, test._testMethodName), "names_sqlite")))
        result = Result()
        suite.run(result)
        passed, bad = passed + result.passed, bad + result.bad
    print(f"{passed} passed, {bad} failed")
    return 0 if bad == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
