#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails for a recursive delete in what runs on a user's machine: no rule of README allows one. A path below build/ is
the checkout's."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("agent", "cli", "lib", "mounthelper", "server", "cmake", "systemd", "selinux", "dev")
IN_C = re.compile(r"\b(?:nftw|ftw|fts_open|remove)\(")
IN_SHELL = re.compile(r"\brm\s+(?:-\S+\s+)*-(?:\w*[rR]|-recursive)(?!.* build/)|\bfind\b(?!.*-maxdepth 1 ).*\s-(?:delete|exec\s+rm)\b")


def deletes(name, text):
    """The numbers of the lines that delete recursively."""
    found = IN_C if name.endswith((".c", ".h")) else IN_SHELL
    return [i for i, line in enumerate(text.split("\n"), 1) if found.search(re.sub(r"(->|\.)remove\(", "", line.split("#")[0]))]


def main():
    sample = 'nftw("x");\nremove(path);\nunlink(path);\nevents->remove(one);'
    assert deletes("x.c", sample) == [1, 2], "the check is blind"
    sample = "rm -f x\nrm -rf x\nrm -f -r x\nrm -r build/x\nfind x -delete\nfind x -maxdepth 1 ! -type d -delete"
    assert deletes("x.sh", sample) == [2, 3, 5], "the check is blind"
    faults = 0
    for name in subprocess.run(["git", "ls-files", *PLACES], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split():
        for line in deletes(name, (ROOT / name).read_text(errors="replace")):
            print(f"{name}:{line}: deletes recursively; use unlinkat() of known names and rmdir(), or empty of cmake/debian/forget.sh")
            faults += 1
    print(f"deletes: {faults} are recursive")
    return faults > 0


sys.exit(main())
