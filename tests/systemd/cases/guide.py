# SPDX-License-Identifier: Apache-2.0
"""Pages whose commands are typed as they stand, in order, by a root shell that continues from block to block."""

import re
import subprocess

import machine

STATE = "/root/guide.state"  # what one block leaves to the next: folder and exported variables
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 120
# who logs in as root, which the runner of the tests has not done
SHELL = ("runcon", "unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023", "bash")


def read(page):
    with open(page, encoding="utf-8") as f:
        return f.read()


def section(page, title):
    """From a heading on to the next one of its level or above; the text before keeps its lines, empty."""
    text = read(page)
    found = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert found, f"{page} has no heading {title}"
    end = re.compile(rf"^#{{1,{len(found[1])}}} ", re.MULTILINE).search(text, found.end())
    return "\n" * text.count("\n", 0, found.start()) + text[found.start() : end.start() if end else len(text)]


def blocks(text):
    """(line, label, text) of each block; the label of what is typed begins with sh."""
    return [(text.count("\n", 0, m.start()) + 1, m[1].split(), m[2]) for m in BLOCK.finditer(text)]


def log_in(folder):
    machine.write(STATE, f"cd {folder}\n")


def type_in(text):
    """Exit status and what a root shell prints for a block; the shell continues where the block before left it."""
    done = subprocess.run(
        [*(SHELL if machine.has_selinux() else ("bash",)), "-e", "-o", "pipefail", "-c",
         f"{read(STATE)}\n{text}\n{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} >{STATE}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS * machine.slowness(),
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def commands(text):
    """Those of a block that has one a line, but for lines that end in a backslash."""
    return [line for line in text.replace("\\\n", "").splitlines() if line.strip() and not line.startswith("#")]
