#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the attempts of a compromised agent and of a stolen node certificate. With --list, print them.

A table is an array `attempts[]` in a C test; a row begins with `{` at the depth of the array, and its first text is
what is tried. Each table has a least number of rows, so that none loses rows unseen. Prints as cmocka does.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = {
    "tests/unit/server/test_thief.c": 120,               # messages and methods of a node, at a real server
    "tests/unit/server/test_fence_thief.c": 35,          # fences of another node, by whoever lacks the right
    "tests/unit/server/test_enroll_attacks.c": 42,        # lines, keys and methods of strangers and thieves, at a real server
    "tests/integration/mounthelper/test_thief.c": 86,    # requests and tickets, at the real mount helper
    "tests/engines/engines_test.c": 68,                  # orders of tasks, at the driver with a real engine
}


def attempts(path):
    """The names of the rows."""
    text = (ROOT / path).read_text(encoding="utf-8")
    table = re.search(r"\battempts\[\] = \{\n(.*?)\n\};", text, re.S).group(1)
    rows = re.split(r"^\t(?=\{|FLIP\()", table, flags=re.M)[1:]
    return [name_of(row) for row in rows]


def name_of(row):
    texts = re.findall(r'"((?:[^"\\]|\\.)*)"', row)
    if row.startswith("FLIP("):
        return row.split(",")[0][len("FLIP("):] + " changed"
    if re.match(r"\{(CALL|STREAM)\b", row):
        return f"{texts[0]} {''.join(texts[1:])}"
    return texts[0]


def each_table_has_its_rows():
    for path, least in TABLES.items():
        names = attempts(path)
        assert len(names) >= least, f"{path}: {len(names)} rows, at least {least} are expected"


def no_two_rows_of_a_table_have_one_name():
    for path in TABLES:
        names = attempts(path)
        twice = {name for name in names if names.count(name) > 1 and not name.endswith(" changed")}
        twice -= {"another node's allocation runs", "another node's allocation has failed"}  # in hello and later
        assert not twice, f"{path}: {twice}"


def main():
    if "--list" in sys.argv[1:]:
        for path in TABLES:
            for i, name in enumerate(attempts(path), 1):
                print(f"{path} {i} {name}")
        return 0
    failed = 0
    for test in (each_table_has_its_rows, no_two_rows_of_a_table_have_one_name):
        print(f"[ RUN      ] {test.__name__}")
        try:
            test()
            print(f"[       OK ] {test.__name__}")
        except AssertionError as e:
            failed += 1
            print(f"{e}\n[  FAILED  ] {test.__name__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
