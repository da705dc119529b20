#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house: a folder of C files is a room, and FLOORS says which rooms may include from which.

rooms.py [--graph] [ROOT]: without an option, every arrow that leads up, and circles of files that have grown; with
--graph, the house room by room.
"""

import argparse
import functools
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOUSES = ("lib", "agent", "server", "cli", "mounthelper")

# Per program: the rooms of lib that it may use, and its own floors from top to bottom ("." is the program's folder). A room
# may include from all floors below its own; rooms on one floor from each other only if they are in brackets.
FLOORS = {
    "lib": ("", ["enroll etcd kit", "conf log model rpc store", "pb privileged", "base"]),
    "agent": (
        "base conf enroll log model pb rpc store",
        [".", "status", "session", "alloc controller", "volume driver", "helper plugins", "kernel unit csi driver-container identity", "service"],
    ),
    "server": (
        "base conf etcd kit log model pb rpc store",
        [".", "job fence", "(alloc claim node plugin recovery volume)", "identity", "access", "api", "state", "forward", "lead ticket fencer"],
    ),
    "cli": ("base conf enroll kit model pb rpc", [".", "docker", "audit hold operator", "call", "show nomad", "command"]),
    "mounthelper": ("base privileged", ["tool", "."]),
}
# What may be included from any room of its program, of lib from any program, whatever the floors say.
OPEN = {
    "server/server.h": "what handlers are given; it includes no room but state and ticket",
    "server/config.h": "settings are read where they matter",
    "server/load.h": "the session sheds load",
    "lib/privileged/chain_log.h": "a driver keeps a trail as the mount helper does",
    "lib/privileged/keyline.h": "the lines of that trail",
}
# Modules in the largest circle that lies within these rooms: a number that falls. No other files are in a circle.
LARGEST = {"lib/etcd": 2}

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
DEFINED = re.compile(r"^(?!static\b|typedef\b|struct \w+ \{|enum\b.*\{)[a-z][\w \*]*?\b(\w+)\((?:[^;{}]|\n)*?\)\n\{", re.M)


class House:
    """All C files below root, and what each includes of the others."""

    def __init__(self, root):
        self.root = root
        self.text = {}
        for house in HOUSES:
            for path in sorted((root / house).rglob("*.[ch]")):
                self.text[str(path.relative_to(root))] = path.read_text(encoding="utf-8")
        self.includes = {name: sorted(self.resolve(name, text)) for name, text in self.text.items()}

    def resolve(self, name, text):
        """Files of the house that are included: from the file's own folder, its program's, or lib."""
        for wanted in set(INCLUDE.findall(text)):
            for folder in (Path(name).parent, Path(Path(name).parts[0]), Path("lib")):
                path = os.path.normpath(folder / wanted)
                if path in self.text:
                    yield path
                    break

    def arrows(self):
        """{room: {other room: [which file includes which]}}."""
        found = defaultdict(lambda: defaultdict(list))
        for name, others in self.includes.items():
            for other in others:
                if room(name) != room(other):
                    found[room(name)][room(other)].append(f"{name} includes {other}")
        return found

    def circles(self):
        """Modules (a header and its .c are one) that reach each other, by what they include or by whose public functions
        they name, as sorted lists of more than one."""
        includes, calls = defaultdict(set), defaultdict(set)
        for name, others in self.includes.items():
            includes[module(name)].update(module(other) for other in others if module(other) != module(name))
        public = self.public()
        for function, users in self.users().items():
            for user in users:
                if user.split("/")[0] == public[function].split("/")[0]:
                    calls[module(user)].add(module(public[function]))
        found = {tuple(sorted(part)) for graph in (includes, calls) for part in strong_parts(graph) if len(part) > 1}
        return [list(part) for part in sorted(found)]

    def public(self):
        """{function: its .c} of those that are not static."""
        return {function: name for name, text in self.text.items() if name.endswith(".c")
                for function in defined(text) if function != "main"}  # fmt: skip

    def users(self):
        """{function: the other .c files that name it}."""
        public = self.public()
        found = {function: set() for function in public}
        for name, text in self.text.items():
            if name.endswith(".c"):
                for word in words(text) & found.keys():
                    if public[word] != name:
                        found[word].add(name)
        return found


@functools.cache
def defined(text):
    """Public functions that @text defines."""
    return DEFINED.findall(COMMENT.sub(" ", text))


@functools.cache
def words(text):
    return frozenset(re.findall(r"\w+", COMMENT.sub(" ", text)))


def room(name):
    return str(Path(name).parent)


def module(name):
    return name.rsplit(".", 1)[0]


def strong_parts(graph):
    """Strongly connected parts of {node: nodes} (Tarjan)."""
    index, low, stack, parts = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            parts.append(stack[at:])
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return parts


def floor_of(name):
    """(program, number of the floor, whether rooms on it may include from each other), None for a room without a floor."""
    program, _, rest = name.partition("/")
    for number, floor in enumerate(FLOORS[program][1]):
        if (rest or ".") in floor.strip("()").split():
            return program, number, floor.startswith("(")
    return None


def may_include(name, other):
    """Whether files of one room may include files of the other."""
    here, there = floor_of(name), floor_of(other)
    if here is None or there is None:
        return False
    if here[0] != there[0]:
        return there[0] == "lib" and other.partition("/")[2] in FLOORS[here[0]][0].split()
    return here[1] < there[1] or (here[1] == there[1] and here[2])


def faults(house):
    """What the tables do not allow, as lines."""
    for name in sorted({room(name) for name in house.text}):
        if floor_of(name) is None:
            yield f"{name}: has no floor; give it one in FLOORS of tests/docs/rooms.py"
    for name, others in sorted(house.includes.items()):
        for other in others:
            is_open = other in OPEN and other.split("/")[0] in (name.split("/")[0], "lib")
            if room(name) != room(other) and not is_open and not may_include(room(name), room(other)):
                yield f"{name}: includes {other}, but {room(name)} may not use {room(other)} (FLOORS of tests/docs/rooms.py)"
    for circle in house.circles():
        within = [n for rooms, n in LARGEST.items() if {room(name) for name in circle} <= set(rooms.split())]
        if len(circle) > max(within, default=1):
            yield (f"{circle[0].split('/')[0]}: {len(circle)} files include or call each other in a circle, "
                   f"{max(within, default=1)} at most: {' '.join(circle)}")  # fmt: skip


def graph(house):
    """The house as text."""
    arrows, users, public = house.arrows(), house.users(), house.public()
    print(f"{'room':24} files  lines  uses")
    for name in sorted({room(name) for name in house.text}):
        files = [file for file in house.text if room(file) == name]
        lines = sum(house.text[file].count("\n") for file in files)
        used = " ".join(f"{other}({len(why)})" for other, why in sorted(arrows[name].items()))
        print(f"{name:24} {len(files):5} {lines:6}  {used}")
    for program in HOUSES:
        functions = [function for function, file in public.items() if file.startswith(program + "/")]
        once = sum(len(users[function]) == 1 for function in functions)
        print(f"{program}: {len(functions)} public functions, {100 * once // max(1, len(functions))} % of them with one user file")
    for circle in house.circles():
        print(f"circle of {len(circle)}: {' '.join(circle)}")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--graph", action="store_true", help="print the house room by room")
    options.add_argument("root", nargs="?", type=Path, default=ROOT)
    options = options.parse_args()
    house = House(options.root)
    if options.graph:
        graph(house)
        return 0
    found = list(faults(house))
    for line in found:
        print(line)
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main())

