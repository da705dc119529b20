#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_lines.py MAP: what a reviewer of the mount helper has to read has not grown.

Counts the lines, neither blank nor comment, of each .c file of this tree of which the linker took an object into
the helper, wherever it lies. docs/helper-review.md has the number on record."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
REVIEW = ROOT / "docs/helper-review.md"
FOLDERS = ["mounthelper", "lib/privileged", "lib/base"]
ON_RECORD = re.compile(r"^Linked: at most (\d+) lines\.$", re.M)


def lines_of(path):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), path.read_text(), flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip())


def linked(text):
    """Sources of our objects that have a section in the program: the map's list of discarded ones does not count."""
    sources = {path.name: path for folder in FOLDERS for path in (ROOT / folder).glob("*.c")}
    memory = text[text.index("Linker script and memory map"):]
    ours = re.findall(r"(?:libhf_\w+\.a\(|/)(\w+\.c)\.o\b", memory)
    unknown = [name for name in re.findall(r"libhf_\w+\.a\((\w+\.c)\.o\)", memory) if name not in sources]
    if unknown:
        sys.exit(f"these objects of the helper have no source in {FOLDERS}: {sorted(set(unknown))}")
    return sorted(sources[name] for name in set(ours) if name in sources)


def main():
    found = linked(pathlib.Path(sys.argv[1]).read_text(errors="replace"))
    lines = sum(lines_of(path) for path in found)
    if ROOT / "mounthelper/main.c" not in found:
        sys.exit("the map does not show main.c: this is not the map of the helper")
    record = ON_RECORD.search(REVIEW.read_text())
    if not record:
        sys.exit(f"{REVIEW.relative_to(ROOT)}: has no number on record")
    print(f"{lines} lines of {len(found)} files; on record: at most {record.group(1)}")
    if lines > int(record.group(1)):
        sys.exit("The privileged program has grown beyond the number on record: take out as much.")


main()
