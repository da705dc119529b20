# SPDX-License-Identifier: Apache-2.0
"""Runs test cases inside the guest and says how each ended in cmocka's words, which the host counts."""

import sys
import traceback
import unittest

sys.path.insert(0, "/payload/cases")


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.bad = 0

    def addSuccess(self, test):
        print(f"[       OK ] {test.id()}", flush=True)

    def failed(self, test, err):
        self.bad += 1
        traceback.print_exception(*err, file=sys.stdout)
        print(f"[  FAILED  ] {test.id()}", flush=True)

    def addFailure(self, test, err):
        self.failed(test, err)

    def addError(self, test, err):
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):
        if err:
            self.failed(subtest, err)

    def addSkip(self, test, reason):
        self.bad += 1
        print(f"skipped: {reason}\n[  FAILED  ] {test.id()}", flush=True)


def main():
    result = Result()
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(result)
    sys.exit(1 if result.bad else 0)


main()
