# SPDX-License-Identifier: Apache-2.0
"""The files of cases in tests/systemd/cases: which lanes they run in, and how they get into a guest.

What a file says of itself at its top level, as plain values:
  LANES   of "container" and "vm"; ("container",) when it does not say
  PHASES  for the vm: names of its classes or of tests in them, and between them "reboot" or "power-cut", which is what
          happens there to the guest; the disk stays. All classes in one boot when it does not say; those that it leaves out
          do not run there.
  DENIED  for the vm: regular expressions of records in which SELinux refuses what the tests of this file try. Any other one
          that names a type of ours is a failure, and so is one of these that never came.
  OTHER_RELEASE  those of its lanes in which it runs on the other release of Debian too, which is not this machine's; () when
          it does not say
  MACHINES  for the container: names of machines, each of which runs the file in a container of its own, all at once. They have a
          network (host0), which they have to set up, and the folder /shared; /payload/machine has the name. (), one machine,
          when it does not say
  BARE    the lanes in which the packages are not installed yet: it does that itself, from /payload/debs; () when it does not
          say
"""

import ast
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

import debian
import image
from payload import CHECKOUT, POWER_CUT, REBOOT, Payload, Phase, fill_up

FOLDER = os.path.join(CHECKOUT, "tests", "systemd", "cases")
PLUGINS = os.path.join(CHECKOUT, "tests", "plugins")
GUEST = os.path.join(CHECKOUT, "tests", "systemd", "guest")
LANES = ("container", "vm")
# case: what it keeps beside its log and what SELinux and auditd have to say, and what that must hold
KEPT = {
    "test_machine": {"security": r"^. Overall exposure level for holdfast-server\.service: \d"},
    "test_selinux": {"denials": r"^type=AVC .*scontext=\S+:holdfast_agent_t:"},
    "test_audit": {"audit": r"^type=TRUSTED_APP .*op=publish .*res=success"},
}


def attribute(name, key, default):
    """A value that a file of cases says of itself; the file is read, not run."""
    with open(os.path.join(FOLDER, name + ".py"), encoding="utf-8") as f:
        tree = ast.parse(f.read(), name + ".py")
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(getattr(target, "id", None) == key for target in statement.targets):
            return ast.literal_eval(statement.value)
    return default


def lanes(name):
    found = attribute(name, "LANES", ("container",))
    if not isinstance(found, tuple) or not found or not set(found) <= set(LANES):
        raise LookupError(f"{name}.py: LANES is {found!r}, not some of {LANES}")
    return found


def some_lanes(name, key):
    """Those of its lanes of which a file says this."""
    found = attribute(name, key, ())
    if not isinstance(found, tuple) or not set(found) <= set(lanes(name)):
        raise LookupError(f"{name}.py: {key} is {found!r}, not some of its LANES {lanes(name)}")
    return found


def is_bare(name, lane):
    """Does a file of cases want a machine without the packages of this build?"""
    return lane in some_lanes(name, "BARE")


def machines(name):
    """What the machines of a file are called; a single one has no name."""
    return attribute(name, "MACHINES", ()) or ("",)


def phases(name):
    """name may be that of a file, or of a class or test in it, which then has one phase."""
    parts = attribute(name, "PHASES", None) if "." not in name else None
    if parts is None:
        return [Phase([name])]
    found, after = [], None
    for part in parts:
        if part in (REBOOT, POWER_CUT):
            if not found or after:
                raise LookupError(f"{name}.py: PHASES has {part} before any class or twice")
            after = part
        elif after or not found:
            found.append(Phase([f"{name}.{part}"], after))
            after = None
        else:
            found[-1].run.append(f"{name}.{part}")
    if after or not found:
        raise LookupError(f"{name}.py: PHASES ends without a class")
    return found


def all_names(lane):
    """Of another release of Debian than this machine's a chosen set, those where it may make a difference."""
    names = sorted(name[:-3] for name in os.listdir(FOLDER) if name.startswith("test_") and name.endswith(".py"))
    if image.SUITE != image.HOST:
        return [name for name in names if lane in some_lanes(name, "OTHER_RELEASE")]
    return [name for name in names if lane in lanes(name)]


def fill(folder, names, checkout=CHECKOUT):
    """Fill the folder that is /payload in the guest; names are what run_cases.py is to run."""
    shutil.copytree(FOLDER, os.path.join(folder, "cases"), ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("real-dev-and-sys", "start", "run_cases.py"):
        shutil.copy(os.path.join(GUEST, name), folder)
    shutil.copytree(os.path.join(checkout, "docs"), os.path.join(folder, "docs"))
    shutil.copy(os.path.join(checkout, "README.md"), folder)
    copy_plugins(os.path.join(folder, "plugins"))
    os.mkdir(os.path.join(folder, "debs"))
    for deb in debian.packages(checkout):
        shutil.copy(deb, os.path.join(folder, "debs"))
    with open(os.path.join(folder, "cases.list"), "w", encoding="utf-8") as f:
        f.write(" ".join(names) + "\n")


def copy_plugins(folder):
    """CSI plugins for tests, with their messages; see tests/plugins."""
    shutil.copytree(PLUGINS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    messages, proto = os.path.join(folder, "messages"), os.path.join(CHECKOUT, "proto")
    os.mkdir(messages)
    names = ("csi/v1/csi", "csi_addons/fence", "csi_addons/identity")
    subprocess.run(["protoc", f"--python_out={messages}", f"-I{proto}", *(f"{proto}/{name}.proto" for name in names)], check=True)


def artefacts(lane, name, checkout=CHECKOUT, empty=True):
    """The folder for what a run leaves to be looked at: its log, and what the guest put into /result."""
    folder = os.path.join(debian.build_folder(checkout), "artefacts", lane, name)
    if empty:
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    return folder


def missing(name, checkout=CHECKOUT):
    """What a run in the virtual machine should have left to be looked at and has not, one line each."""
    folder, found = artefacts("vm", name, checkout, empty=False), []
    is_case = name.startswith("test_")
    wanted = {"log": r"\[ +OK +\]"}
    if is_case:
        wanted |= {"audit": "^type=", "denials": ""} | KEPT.get(name, {})
    for file, pattern in wanted.items():
        try:
            with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as f:
                if not re.search(pattern, f.read(), re.MULTILINE):
                    found.append(f"{folder}/{file} has nothing like {pattern}")
        except FileNotFoundError:
            found.append(f"{folder}/{file} is not there")
    return found


class Refused:
    """What SELinux refused in all boots of a case, against what its tests are to try. When not the whole file runs, what
    they try need not come."""

    def __init__(self, patterns, whole):
        self.patterns, self.whole, self.records = patterns, whole, {}

    def add(self, records):
        """Those of one boot; the log of the next one has them again."""
        self.records |= {record.strip(): True for record in records}

    def unexpected(self):
        found = [f"SELinux: {record}" for record in self.records if not any(re.search(p, record) for p in self.patterns)]
        if self.whole:
            missing = [p for p in self.patterns if not any(re.search(p, record) for record in self.records)]
            found += [f"SELinux refused nothing like {pattern}" for pattern in missing]
        return found


class Case(Payload):
    """A file of cases, or a part of one, as a payload of a guest with systemd."""

    def __init__(self, name, checkout=CHECKOUT):
        self.name, self.checkout = name, os.path.abspath(checkout)
        file = name.partition(".")[0]
        if not os.path.exists(os.path.join(FOLDER, file + ".py")):
            raise LookupError(f"no cases {file}; there are: {', '.join(all_names('vm'))}")
        if "vm" not in lanes(file):
            raise LookupError(f"{file} says by LANES that it does not run in a virtual machine")
        self.guest = "bare" if is_bare(file, "vm") else "systemd"
        self.artefacts = artefacts("vm", name, self.checkout)
        self.refused = Refused(attribute(file, "DENIED", ()), whole="." not in name)

    def phases(self):
        return phases(self.name)

    def unexpected(self):
        return self.refused.unexpected()

    def fill(self, folder, phase):
        fill(folder, phase.run, self.checkout)

    def pack(self, path, phase):
        with tempfile.TemporaryDirectory(prefix="holdfast-vm-") as folder:
            os.chmod(folder, 0o755)
            self.fill(folder, phase)
            with tarfile.open(path, "w") as tar:
                tar.add(folder, arcname="payload")
        fill_up(path, self.name)

    def collect(self, scratch):
        with open(scratch[0], "rb") as f:
            if f.read(1) in (b"", b"\0"):
                return  # the guest ended without a result, and said so
        with tarfile.open(scratch[0]) as tar:
            tar.extractall(self.artefacts)
        with open(os.path.join(self.artefacts, "denials"), encoding="utf-8") as f:
            self.refused.add(f)


class Look(Case):
    """A shell command in a guest with systemd."""

    def __init__(self, command, checkout=CHECKOUT):
        self.name, self.command, self.checkout = "look", command, os.path.abspath(checkout)
        self.artefacts = artefacts("vm", self.name, self.checkout)
        self.refused = Refused((), whole=False)

    def phases(self):
        return [Phase([])]

    def fill(self, folder, phase):
        super().fill(folder, phase)
        with open(os.path.join(folder, "start"), "w", encoding="utf-8") as f:
            f.write(f"#!/bin/bash\n{self.command}\n")
