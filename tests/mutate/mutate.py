#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Break the code on purpose, one line at a time, and see whether the test that promises to notice does.

A mutant is one line of a table (*.rows) in this folder:

  file:function | old -> new | promise | test
  file:function | old -> new | promise | test | why no test can notice

The old text occurs once in the function, and the new text replaces it; the promise is broken by that, and the ctest
program fails. White space in the old text matches any white space, line breaks too. If no function of that name is in
the file, the name occurs once in the file, and the first old text behind it is replaced. Without a name the old text
occurs once in the file. The sources are copied below build/mutate, so the tree is left alone.

  mutate.py --check             every row can be applied; needs no build
  mutate.py [PATTERN...]        run the rows whose table, file, test or promise contains a PATTERN
  mutate.py --propose FILE...   make mutants of these files by rule, try --tests on them, print the rows of what was
                                caught and name what survived

Ends with `N passed, N failed`; failed are survivors, unless their row says why no test can notice.
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
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
ROOT = os.path.dirname(os.path.dirname(HERE))
WORK = os.path.join(ROOT, "build", "mutate")
CAUGHT_MIN = 0.95


class Bad(Exception):
    """A row, or the tree, is not as it has to be."""


class Mutant:
    """One row."""

    def __init__(self, table, line):
        self.table, self.line = table, line
        fields = line.split(" | ")
        change = re.split(r" ->(?: |$)", fields[1]) if len(fields) in (4, 5) else []
        if len(change) != 2 or not all(fields) or not re.fullmatch(r"\w+", fields[3]):
            raise Bad(f"{table}: {line}: is not `file:function | old -> new | promise | test`")
        self.place = fields[0]
        self.file, _, self.function = fields[0].partition(":")
        self.old, self.new = change[0], change[1].replace(" #include", "\n#include")
        self.promise, self.test, self.equivalent = (fields + [""])[2:5]

    def __str__(self):
        return f"{self.place}: {self.promise}"

    def apply(self, text):
        start, end, is_function = scope(text, self.function)
        found = list(pattern(self.old).finditer(text, start, end))
        if not found or (len(found) > 1 and (is_function or not self.function)):
            raise Bad(f"{self.table}: {self}: the old text occurs {len(found)} times: {self.old}")
        return text[:found[0].start()] + self.new + text[found[0].end():]

    def matches(self, patterns):
        words = (self.table, self.place, self.test, self.promise)
        return not patterns or any(p in word for p in patterns for word in words)


def pattern(old):
    return re.compile(r"\s+".join(map(re.escape, old.split())))


def scope(text, name):
    """Where a row with this name looks: (start, end, is it a function)."""
    if not name:
        return 0, len(text), False
    functions = list(re.finditer(rf"^\w[^\n;]*\b{name}\([^;{{}}]*\)\n{{\n.*?^}}", text, re.M | re.S))
    if len(functions) == 1:
        return *functions[0].span(), True
    words = list(re.finditer(rf"\b{name}\b", text))
    if len(words) != 1:
        raise Bad(f"{name} is no function of the file, and occurs in it {len(words)} times")
    return words[0].end(), len(text), False


def read_tables(patterns=()):
    mutants = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.rows"))):
        with open(path, encoding="utf-8") as f:
            lines = [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]
        mutants += [Mutant(os.path.basename(path), line) for line in lines]
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
        """Why it failed, or None. What it leaves when it is killed goes with its folder."""
        with tempfile.TemporaryDirectory(dir=MEMORY, prefix="mutate-") as folder:
            os.chmod(folder, 0o755)  # some programs become another user
            return self.run_in(folder, test, seconds)

    def run_in(self, folder, test, seconds):
        process = subprocess.Popen(self.tests[test], cwd=self.build, text=True, errors="replace",
                                   env={**os.environ, "HOLDFAST_TEST_FOLDER": folder},
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
        text = read_source(ROOT, file)
        lines = text.split("\n")
        function = ""
        for number, line in enumerate(lines):
            opened = re.match(r"^[a-z].*?\b(\w+)\(", line)
            function = opened.group(1) if opened else function
            if not line.startswith("\t") or re.search(r"assert\(|for \(|log_ctx|free\(|^\t+[*/]|\"", line):
                continue
            for found, instead, promise in RULES:
                if re.search(found, line) and line.count("(") == line.count(")"):
                    new = re.sub(found, instead, line, count=1)
                    mutants.append(line_mutant(file, text, lines, number, new, function, promise))
                    break
    return mutants[::every]


def line_mutant(file, text, lines, number, new, function, promise):
    """With as many of the lines before it as make it the only one in its function."""
    first = number
    start, end, _ = scope(text, function)
    while len(pattern("\n".join(lines[first:number + 1])).findall(text, start, end)) > 1 and first > 0:
        first -= 1
    old = " ".join("\n".join(lines[first:number + 1]).split())
    new = " ".join("\n".join(lines[first:number] + [new]).split())
    return Mutant("proposed", f"{file}:{function} | {old} -> {new} | {promise} | ?")


def try_proposals(mutants, tests, jobs):
    counts = {"caught": 0, "survived": 0, "invalid": 0}

    def act(tree, mutant):
        word, test, why = tree.attempt(mutant, tests)
        counts[word] += 1
        if word == "caught":
            print(mutant.line.removesuffix("?") + test, flush=True)
        elif word == "survived":
            print(f"# survived: {mutant.line}", flush=True)
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
