#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Break the code on purpose, one line at a time, and see whether the test that promises to notice does.

A mutant is one row of a table in this folder: a piece of a file, what takes its place, the promise that is broken by
it, and the ctest program that fails then. The sources are copied below build/mutate, so the tree is left alone.

  mutate.py --check             every row can be applied; needs no build
  mutate.py [PATTERN...]        run the rows whose table, file, test or promise contains a PATTERN
  mutate.py --propose FILE...   make mutants of these files by rule, try --tests on them, print the rows of what was
                                caught and name what survived

Ends with `N passed, N failed`; failed are survivors, unless their row says why nobody can notice (`equivalent`).
"""

import argparse
import glob
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WORK = os.path.join(ROOT, "build", "mutate")
KEYS = {"file", "old", "new", "promise", "test", "after", "equivalent"}
CAUGHT_MIN = 0.95


class Bad(Exception):
    """A row, or the tree, is not as it has to be."""


class Mutant:
    """One row. `after`: the old text is looked for behind this one, which stands in the file once."""

    def __init__(self, table, row):
        self.table, self.row = table, row
        self.file, self.old, self.new, self.test = (row.get(key, "") for key in ("file", "old", "new", "test"))
        unknown = set(row) - KEYS
        if unknown or not (self.file and self.old and self.test and row.get("promise")):
            raise Bad(f"{table}: {row}: file, old, new, promise and test are needed; unknown: {sorted(unknown)}")
        self.equivalent = row.get("equivalent", "")

    def __str__(self):
        return f"{self.file}: {self.row['promise']}"

    def apply(self, text):
        start = 0
        if "after" in self.row:
            if text.count(self.row["after"]) != 1:
                raise Bad(f"{self.table}: {self}: `after` stands {text.count(self.row['after'])} times in the file")
            start = text.index(self.row["after"])
        elif text.count(self.old) != 1:
            raise Bad(f"{self.table}: {self}: `old` stands {text.count(self.old)} times in the file; use `after`")
        at = text.find(self.old, start)
        if at < 0:
            raise Bad(f"{self.table}: {self}: `old` does not stand behind `after`")
        return text[:at] + self.new + text[at + len(self.old):]

    def matches(self, patterns):
        words = (self.table, self.file, self.test, self.row["promise"])
        return not patterns or any(p in word for p in patterns for word in words)


def read_tables(patterns=()):
    mutants = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.toml"))):
        with open(path, "rb") as f:
            rows = tomllib.load(f).get("mutant", [])
        mutants += [Mutant(os.path.basename(path), row) for row in rows]
    return [m for m in mutants if m.matches(patterns)]


def read_source(root, file):
    with open(os.path.join(root, file), encoding="utf-8") as f:
        return f.read()


def check(mutants):
    """Every row applies, and no two rows are the same change."""
    bad, seen = [], set()
    for mutant in mutants:
        try:
            changed = (mutant.file, mutant.apply(read_source(ROOT, mutant.file)))
            if changed in seen:
                raise Bad(f"{mutant.table}: {mutant}: another row makes the same change")
            seen.add(changed)
        except (Bad, OSError) as error:
            bad.append(str(error))
    print("".join(line + "\n" for line in bad), end="")
    print(f"{len(mutants) - len(bad)} passed, {len(bad)} failed")
    return 0 if mutants and not bad else 1


class Tree:
    """A copy of the sources with a build of its own, which one thread breaks and repairs."""

    def __init__(self, number):
        self.root = os.path.join(WORK, str(number))
        self.build = os.path.join(self.root, "build")
        self.copy()
        self.command("cmake", "-S", self.root, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                     "-DCMAKE_C_FLAGS_DEBUG=-O0")
        self.read_tests()
        self.seconds = {}

    def read_tests(self):
        """The command of each test; None as long as it is not built."""
        out = self.command("ctest", "--test-dir", self.build, "--show-only=json-v1")
        self.tests = {t["name"]: t.get("command") for t in json.loads(out)["tests"]}

    def copy(self):
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"], check=True,
                               capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, names):
            source, target = os.path.join(ROOT, name), os.path.join(self.root, name)
            if not os.path.isfile(source):
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if not os.path.exists(target) or open(source, "rb").read() != open(target, "rb").read():
                shutil.copy(source, target)  # with a new time: it is built again

    def command(self, *words):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise Bad(f"{' '.join(words)}: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def make(self, test):
        """False: it does not compile."""
        if test not in self.tests:
            raise Bad(f"there is no test {test}")
        if any(word.endswith(".py") for word in self.tests[test] or ()):
            return True  # a script: nothing is built
        return subprocess.run(["cmake", "--build", self.build, "--target", test], capture_output=True).returncode == 0

    def run(self, test, seconds):
        """Why it failed, or None."""
        process = subprocess.Popen(self.tests[test], cwd=self.build, text=True, errors="replace",
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"no end after {seconds:.0f} s"
        if process.returncode == 0:
            return None
        failed = re.findall(r"^\[ +FAILED +\] (\w+)$", out, re.M)
        return failed[0] if failed else f"exit {process.returncode}"

    def baseline(self, test):
        """How long the test may take; it must pass as long as nothing is broken."""
        if test not in self.seconds:
            if not self.make(test):
                raise Bad(f"{test} does not build")
            self.read_tests()
            start = time.monotonic()
            why = self.run(test, 300)
            if why:
                raise Bad(f"{test} fails as it is: {why}")
            self.seconds[test] = 10 + 4 * (time.monotonic() - start)
        return self.seconds[test]

    def attempt(self, mutant, tests):
        """(word, which test, why) of the first of the tests that notices."""
        limits = {test: self.baseline(test) for test in tests}
        whole = read_source(self.root, mutant.file)
        path = os.path.join(self.root, mutant.file)
        try:
            with open(path, "w", encoding="utf-8") as f:
                f.write(mutant.apply(whole))
            for test in tests:
                if not self.make(test):
                    return "invalid", test, "does not compile"
                why = self.run(test, limits[test])
                if why:
                    return "caught", test, why
            return "survived", tests[-1], ""
        finally:
            with open(path, "w", encoding="utf-8") as f:
                f.write(whole)


def each(mutants, jobs, act):
    """act(tree, mutant), in as many trees as there are jobs; one tree sees the mutants of one test in a row."""
    work = queue.Queue()
    for mutant in mutants:
        work.put(mutant)
    errors = []

    def worker(number):
        try:
            tree = Tree(number)
            while not errors:
                act(tree, work.get_nowait())
        except queue.Empty:
            pass
        except Exception as error:  # said by the main thread
            errors.append(error)

    threads = [threading.Thread(target=worker, args=(n,)) for n in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def run(mutants, jobs):
    counts = {"caught": 0, "survived": 0, "invalid": 0, "equivalent": 0}

    def act(tree, mutant):
        word, test, why = tree.attempt(mutant, [mutant.test])
        if word == "survived" and mutant.equivalent:
            word, why = "equivalent", mutant.equivalent
        counts[word] += 1
        print(f"{word:10} {mutant}\n{'':10} {test}{': ' if why else ''}{why}", flush=True)

    each(sorted(mutants, key=lambda m: m.test), jobs, act)
    real = counts["caught"] + counts["survived"] + counts["invalid"]
    print(f"caught {counts['caught']} of {real}, {counts['equivalent']} that nobody can notice")
    print(f"{counts['caught'] + counts['equivalent']} passed, {counts['survived'] + counts['invalid']} failed")
    return 0 if real and counts["caught"] >= CAUGHT_MIN * real and not counts["invalid"] else 1


# Wrong by rule: (what stands there, what takes its place, the promise).
RULES = (
    (r" == (?!NULL)", " != ", "the comparison is the other way round"),
    (r" != (?!NULL)", " == ", "the comparison is the other way round"),
    (r" >= ", " > ", "the limit is one lower"),
    (r" <= ", " < ", "the limit is one lower"),
    (r" > ", " >= ", "the limit is one higher"),
    (r" < ", " <= ", "the limit is one higher"),
    (r" && ", " || ", "either is enough where both are asked for"),
    (r" \|\| ", " && ", "both are asked for where either is enough"),
    (r"(?<=[(& ])!(?=[a-z(])", "", "what must not be has to be"),
    (r"= true;", "= false;", "it is not noted"),
    (r"^(\t+)st = \w+\([^;]*\);$", r"\1;", "the step is left out"),
    (r"^(\t+)\w+\([^;=]*\);$", r"\1;", "the step is left out"),
)


def propose(files, every):
    """Mutants of the files by rule: one for each line that a rule fits, of these every N-th."""
    mutants = []
    for file in files:
        lines = read_source(ROOT, file).split("\n")
        function = ""
        for number, line in enumerate(lines):
            opened = re.match(r"^[a-z].*?\b(\w+)\(", line)
            function = opened.group(1) if opened else function
            if not line.startswith("\t") or re.search(r"assert\(|for \(|log_ctx|free\(|^\t+[*/]|\"", line):
                continue
            for found, instead, promise in RULES:
                if re.search(found, line) and line.count("(") == line.count(")"):
                    mutants.append(line_mutant(file, lines, number, re.sub(found, instead, line, count=1),
                                               f"{function}: {promise}"))
                    break
    return mutants[::every]


def line_mutant(file, lines, number, new, promise):
    """With as many of the lines before it as make it the only one."""
    text, first = "\n".join(lines), number
    while text.count("\n".join(lines[first:number + 1])) > 1 and first > 0:
        first -= 1
    before = "".join(line + "\n" for line in lines[first:number])
    return Mutant("proposed", {"file": file, "old": before + lines[number], "new": before + new,
                               "promise": promise, "test": "?"})


def quoted(text):
    return f"'''\n{text}'''" if "\n" in text or "'" in text else f"'{text}'"


def print_row(mutant, test):
    rows = [("file", mutant.file), ("old", mutant.old), ("new", mutant.new), ("promise", mutant.row["promise"]),
            ("test", test)]
    print("[[mutant]]\n" + "".join(f"{key} = {quoted(value)}\n" for key, value in rows), flush=True)


def try_proposals(mutants, tests, jobs):
    counts = {"caught": 0, "survived": 0, "invalid": 0}

    def act(tree, mutant):
        word, test, why = tree.attempt(mutant, tests)
        counts[word] += 1
        if word == "caught":
            print_row(mutant, test)
        elif word == "survived":
            print(f"# survived: {mutant}\n#   " + mutant.old.replace("\n", "\n#   ") + "\n# -> " +
                  mutant.new.split("\n")[-1].strip() + "\n", flush=True)
        print(f"{word} {mutant}: {test} {why}", file=sys.stderr, flush=True)

    each(mutants, jobs, act)
    print(f"# {counts}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="PATTERN")
    parser.add_argument("--check", action="store_true", help="can every row be applied?")
    parser.add_argument("--propose", action="store_true", help="the words are files")
    parser.add_argument("--tests", default="", help="of --propose: programs, most likely first, with commas")
    parser.add_argument("--every", type=int, default=1, help="of --propose: of the mutants, each N-th")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        if options.propose:
            return try_proposals(propose(options.words, options.every), options.tests.split(","), options.jobs)
        mutants = read_tables(options.words)
        return check(mutants) if options.check else run(mutants, options.jobs)
    except Bad as error:
        print(error)
        print("0 passed, 1 failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
