#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails for a function that calls something before it asserts what its parameters must be: a broken precondition must
end the program before the function has an effect."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("agent", "cli", "lib", "mounthelper", "server")
FUNCTION = re.compile(r"^(\w[^;{}]*?\b(\w+)\(([^;{}]*)\))\n\{\n(.*?)^\}", re.M | re.S)
NO_CALL = {"assert", "sizeof", "offsetof", "cleanup", "typeof", "_Static_assert"}
BRANCH = re.compile(r"\t(if|for|while|switch|do)\b")


def late_asserts(text):
    """The (line, function, call, assert) that stand after a call, without a branch between."""
    for function in FUNCTION.finditer(text):
        parameters = set(re.findall(r"(\w+)(?:\[[^\]]*\])?\s*,", function[3] + ","))
        call = None
        for i, line in enumerate(function[4].split("\n")):
            code = re.sub(r'"(?:\\.|[^"\\])*"|/\*.*', "", line)
            asserted = re.match(r"\tassert\((.*)\);", code)
            if asserted:
                names = set(re.findall(r"(?<![.>\w])[a-z_]\w*\b(?!\()", asserted[1]))
                if call and names and names <= parameters:
                    yield text.count("\n", 0, function.start(4)) + i + 1, function[2], call, line.strip()
                continue
            if BRANCH.match(code):
                break
            calls = [name for name in re.findall(r"\b([A-Za-z_]\w*)\(", code) if name not in NO_CALL and name != name.upper()]
            call = call or next(iter(calls), None)


def main():
    sample = "int f(int fd)\n{\n\tint n = grow(fd);\n\n\tassert(fd >= 0);\n\treturn n;\n}\n"
    assert [found[2] for found in late_asserts(sample)] == ["grow"], "the check is blind"
    faults = 0
    for program in PROGRAMS:
        for path in sorted((ROOT / program).rglob("*.c")):
            for line, function, call, text in late_asserts(path.read_text()):
                print(f"{path.relative_to(ROOT)}:{line}: {function} calls {call}() before {text}")
                faults += 1
    print(f"asserts: {faults} stand after a call")
    return faults > 0


sys.exit(main())
