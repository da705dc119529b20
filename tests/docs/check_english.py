#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the sentence shapes that CONTRIBUTING.md asks to avoid, in documents, comments, messages and names of tests.

check_english.py            fails if a count is above the one that english.tsv allows
check_english.py --update   lowers the numbers of english.tsv to the counts; never raises one
check_english.py --show PLACE PATTERN   prints each find with file and line
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = ROOT / "tests/docs/english.tsv"
PRODUCT = ("agent", "cli", "lib", "mounthelper", "proto", "server")
COLUMNS_MAX, PAGE_LINES_MAX, PARAGRAPH_LINES_MAX = 120, 250, 6
# Pages to look things up in, which may be longer.
REFERENCE = {"architecture.md", "protocol.md", "performance.md", "threat-model.md", "helper-review.md", "driver-review.md"}

BEGIN = r"(?:^|(?<=[.:;!?] )|(?<=[|] )|(?<=[-*] ))"
# pattern: (expression, a text that has it once, a text without it)
PATTERNS = {
    "headless-what": (BEGIN + r"What\b(?![^.]*\?)", "It ends. What is left stays.", "What is left?"),
    "what-is": (r"\b[Ww]hat (?:is|was|are|were|has|have|had)\b(?![^.]*\?)", "see what is mounted", "see the mount"),
    "headless-who": (BEGIN + r"Who(?:ever)?\b(?![^.]*\?)", "Who asks is told.", "Who asks?"),
    "nobody": (r"(?i)\b(?:nobody|somebody|anybody|whoever|whatever)\b", "nobody listens", "no process listens"),
    "fragment": (BEGIN + r"(?:Of|With|By)\b", "Of one node.", "One of the nodes."),
    "none": (r"(?i)\bnone\b", "there is none", "there is no claim"),
    "is-to": (r"\b(?:(?:is|are|was|were) to [a-z]+|(?:has|have|had) to be)\b", "it is to stop", "it must stop"),
    "any-more": (r"\b(?:any more|no more|anew|by now|of then|all the same)\b", "not there any more", "no longer there"),
    "stand": (r"\b(?:stands?|stood)\b", "the mount stands", "the standby mounts"),
    "say": (r"(?i)\b(?:say|says|said|tell|tells|told|words?)\b", "it says why", "it reports why"),
    "beside": (r"(?i)\b(?:besides?|aside|alone)\b", "root alone may", "only root may"),
}
NAME = r"(?:^|_)(?:what|who|whoever|nobody|none)(?:_|$)"


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def blanked(text, expression):
    """The text with each match replaced by as many newlines as it has."""
    return re.sub(expression, lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)


def documents():
    pages = [*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
    return sorted(pages) + sorted(ROOT.glob("docs/man/*.scd"))


def sources(*folders):
    return sorted(path for folder in folders for path in (ROOT / folder).glob("**/*.[ch]"))


def sentences(text, line):
    """(line, text) of each paragraph, its lines joined."""
    for part in re.split(r"(\n[ \t]*\n|\n(?=[ \t]*(?:[-*|]|\d+\.)\s))", text):
        if part.strip():
            yield line, " ".join(part.split())
        line += part.count("\n")


def in_documents():
    for path in documents():
        text = blanked(read(path), r"^[ ]*```.*?^[ ]*```$|<!--.*?-->")
        text = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "x", text)
        yield from ((path, line, part) for line, part in sentences(text, 1))


def in_comments():
    for path in sources(*PRODUCT):
        text = read(path)
        for m in re.finditer(r"/\*+(.*?)\*/|//([^\n]*)", text, re.S):
            part = re.sub(r"\n\s*\*", "\n", m[1] or m[2] or "")
            yield path, text.count("\n", 0, m.start()) + 1, " ".join(part.split())


def in_messages():
    for path in sources(*PRODUCT):
        text = blanked(read(path), r"/\*.*?\*/|^\s*#\s*include[^\n]*")
        for m in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text):
            if " " in m[1].strip():
                yield path, text.count("\n", 0, m.start()) + 1, m[1]


def names_of_tests():
    for path in sorted((ROOT / "tests").glob("**/*.[ch]")) + sorted((ROOT / "tests").glob("**/*.py")):
        text = read(path)
        for m in re.finditer(r"^(?:[A-Z_]*(?:TEST|CASE)[A-Z_]*\(|\s*def (?=test_))(\w+)", text, re.M):
            yield path, text.count("\n", 0, m.start()) + 1, m[1]


def long_lines():
    """Lines of pages, except tables, blocks and what has no blank to break at."""
    for path in documents():
        if path.suffix == ".md":
            text = blanked(read(path), r"^[ ]*```.*?^[ ]*```$|^<img.*?>$")
            for line, content in enumerate(text.split("\n"), 1):
                if len(content) > COLUMNS_MAX and not content.lstrip().startswith(("|", "<!--")) and " " in content.strip():
                    yield path, line, content


def long_pages():
    for path in documents():
        n = read(path).count("\n")
        if path.suffix == ".md" and path.name not in REFERENCE and n > PAGE_LINES_MAX:
            yield path, n, f"{n} lines"


def long_paragraphs():
    for path in documents():
        if path.suffix != ".md":
            continue
        n = 0
        for line, content in enumerate(blanked(read(path), r"^[ ]*```.*?^[ ]*```$|^<img.*?>$").split("\n") + [""], 1):
            text = content.strip()
            if not text or text.startswith(("|", "#", "`")) or re.match(r"(?:[-*]|\d+\.) ", text):
                if n > PARAGRAPH_LINES_MAX:
                    yield path, line - n, f"{n} lines"
                n = 1 if re.match(r"(?:[-*]|\d+\.) ", text) else 0
            else:
                n += 1


def finds():
    """Place -> pattern -> [(path, line, text)]."""
    found = {"docs": {}, "comments": {}, "messages": {}, "tests": {}}
    for place, texts in (("docs", in_documents), ("comments", in_comments), ("messages", in_messages)):
        each = {name: [] for name in PATTERNS}
        for path, line, text in texts():
            for name, (expression, _, _) in PATTERNS.items():
                each[name] += [(path, line, text[max(m.start() - 40, 0):m.end() + 40]) for m in re.finditer(expression, text)]
        found[place] = each
    found["docs"] |= {"long-line": list(long_lines()), "long-page": list(long_pages()), "long-paragraph": list(long_paragraphs())}
    found["tests"]["name"] = [(path, line, name) for path, line, name in names_of_tests() if re.search(NAME, name)]
    return found


def check_patterns():
    """Each pattern finds its example, and not the text without it."""
    for name, (expression, bad, good) in PATTERNS.items():
        if len(re.findall(expression, bad)) != 1 or re.search(expression, good):
            sys.exit(f"check_english.py: the pattern {name} is wrong")


def table():
    rows = [line.split("\t") for line in read(ALLOWED).splitlines() if line and not line.startswith("#")]
    return {(place, name): int(number) for place, name, number in rows}


def update(counts):
    head = "".join(line for line in read(ALLOWED).splitlines(True) if line.startswith("#"))
    old = table()
    rows = [f"{place}\t{name}\t{min(count, old.get((place, name), count))}\n" for (place, name), count in counts.items()]
    ALLOWED.write_text(head + "".join(rows), encoding="utf-8")


def main():
    check_patterns()
    found = finds()
    if sys.argv[1:2] == ["--show"] and len(sys.argv) == 4:
        for path, line, text in found[sys.argv[2]][sys.argv[3]]:
            print(f"{path.relative_to(ROOT)}:{line}: {text}")
        return
    counts = {(place, name): len(each) for place, names in found.items() for name, each in names.items()}
    if sys.argv[1:] == ["--update"]:
        update(counts)
    elif sys.argv[1:]:
        sys.exit(__doc__)
    allowed, bad = table(), 0
    for (place, name), count in counts.items():
        if count > allowed.get((place, name), 0):
            bad += 1
            print(f"{place} have the pattern {name} {count} times, allowed are {allowed.get((place, name), 0)}: "
                  f"tests/docs/check_english.py --show {place} {name}")
    for key in sorted(set(allowed) - set(counts)):
        bad += 1
        print(f"{shown(ALLOWED)}: there is no pattern {' '.join(key)}")
    print(f"english: {sum(counts.values())} finds, {bad} faults")
    sys.exit(1 if bad else 0)


def shown(path):
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
