# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/runbook that are typed as they are written, and the alerts that lead to them.

What the label of a block says: `sh` is typed, as root on a terminal where every question is answered by y; `sh until`,
typed again until it shows what the next block does. `text`: each line of it must be among what the block before it
printed, where `...` is whatever is there instead; `text gone`: no line of it may be.

The alerts of a page are the conditions in rows of docs/runbook/README.md that link to it: open() waits until a condition of each is true,
and close() until none is; for how long it has to be true before somebody is called is left out.
"""

import fcntl
import os
import re
import socket
import ssl
import struct
import subprocess
import termios
import time

BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SELECTOR = re.compile(r"(up|holdfast_\w+)(?:\{(.*?)\})?")
QUESTION = b"[y/N] "
ROWS, COLUMNS = 50, 200
SECONDS = 40  # a release that failed is tried again within 30


def wrong_line(printed, label, text):
    """The first line of a block that is not among what was printed, or is and should not; or None."""
    flat = " ".join(printed.split())
    for line in text.splitlines():
        pattern = ".*?".join(re.escape(" ".join(part.split())) for part in line.split("..."))
        if (re.search(pattern, flat) is None) != ("gone" in label):
            return line
    return None


class Shell:
    """A root shell on a terminal; each block continues where the one before it left folder and variables."""

    def __init__(self, state, folder, env):
        self.state, self.env = state, env
        with open(state, "w", encoding="utf-8") as f:
            f.write(f"cd {folder}\n")

    def type(self, text):
        """Exit code and what the terminal shows."""
        with open(self.state, encoding="utf-8") as f:
            before = f.read()
        script = f"{before}\n{text}\n{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} >{self.state}"
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        with subprocess.Popen(["bash", "-e", "-o", "pipefail", "-c", script], stdin=slave, stdout=slave, stderr=slave,
                              start_new_session=True, env=os.environ | {"NO_COLOR": "1"} | self.env) as bash:
            os.close(slave)
            printed = self.watch(master)
        os.close(master)
        return bash.returncode, printed.decode(errors="replace").replace("\r", "")

    @staticmethod
    def watch(master):
        printed = b""
        while True:
            try:
                printed += os.read(master, 1 << 16)
            except OSError:  # nobody has the terminal any more
                return printed
            if printed.endswith(QUESTION):
                os.write(master, b"y\n")


class Page:
    """One page. metrics: gives the text of a scrape, or raises OSError when there is nobody to give it, which is `up == 0`."""

    def __init__(self, folder, name, shell, metrics):
        text = self.read(folder, name)
        self.name, self.shell, self.metrics = name, shell, metrics
        self.blocks = [(text.count("\n", 0, m.start()) + 1, m[2].split(), re.sub(f"^{m[1]}", "", m[3], flags=re.MULTILINE))
                       for m in BLOCK.finditer(text)]
        rows = [line for line in self.read(folder, "README").splitlines() if line.startswith("|") and f"]({name}.md)" in line]
        self.alerts = [found for found in (re.findall(r"`(.*?)`", row.split("|")[2]) for row in rows) if found]
        if not rows:
            raise AssertionError(f"neither an alert nor a symptom leads to {name}.md")

    @staticmethod
    def read(folder, name):
        with open(os.path.join(folder, f"{name}.md"), encoding="utf-8") as f:
            return f.read()

    # --- alerts ---------------------------------------------------------------------------------------------------------

    def raised(self):
        """How many of them are. `or` and `max` are those of Python, which mean the same here."""
        scraped = self.scraped()
        sides = [" or ".join(conditions).split(" or ") for conditions in self.alerts]
        return sum(any(is_true(side, scraped) for side in alert) for alert in sides)

    def scraped(self):
        try:
            return self.metrics() + 'up{job="holdfast"} 1\n'
        except OSError:
            return 'up{job="holdfast"} 0\n'

    def wait_alerts(self, wanted):
        deadline = time.monotonic() + SECONDS
        while self.raised() != wanted:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: not {wanted} of {self.alerts} are raised; there is:\n{self.scraped()}")
            time.sleep(0.2)

    # --- following ------------------------------------------------------------------------------------------------------

    def open(self):
        """Who is called looks here, because the alert says so."""
        self.wait_alerts(len(self.alerts))
        return self

    def follow(self, upto=None):
        """Type what stands before the block that has upto, or all that is left."""
        while self.blocks and not (upto and upto in self.blocks[0][2]):
            self.step()
        if upto and not self.blocks:
            raise AssertionError(f"{self.name}: nothing in it says {upto}")

    def step(self):
        """Type the next block, if it is one to type, and look for what the block after it shows."""
        line, label, text = self.blocks.pop(0)
        if label[:1] == ["sh"]:
            shown = self.blocks.pop(0)[1:] if self.blocks and self.blocks[0][1][:1] == ["text"] else ([], "")
            self.type(line, text, shown, SECONDS if "until" in label else 0)

    def type(self, line, text, shown, seconds):
        deadline = time.monotonic() + seconds
        while True:
            status, printed = self.shell.type(text)
            wrong = wrong_line(printed, *shown)
            if status == 0 and wrong is None:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}.md:{line}: {text}ends with {status}"
                                     + (f", and of its {' '.join(shown[0])} this is not so: {wrong!r}" if wrong else "") + f":\n{printed}")
            time.sleep(0.2)

    def close(self):
        """To its end, and the alerts are over."""
        self.follow()
        self.wait_alerts(0)


def is_true(side, scraped):
    """A comparison of PromQL, for any of the series that its one selector means."""
    name, labels = SELECTOR.search(side).groups()
    wanted = (labels or "").split(",") if labels else []
    for line in scraped.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name and all(
                label.replace("!=", "=") not in series if "!=" in label else label in series for label in wanted):
            told = SELECTOR.sub(value, side)
            if eval(told, {"__builtins__": {}, "time": time.time, "max": lambda x: x}):  # noqa: S307 (our own page)
                return True
    return False


# --- a scrape -----------------------------------------------------------------------------------------------------------


def literal(name, value):
    """A header of HPACK that needs no table."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def exactly(connection, n):
    found = b""
    while len(found) < n:
        part = connection.recv(n - len(found))
        if not part:
            raise ConnectionError("the server has closed the connection of a scrape")
        found += part
    return found


def scrape(host, port, ca, cert, key):
    """The text of GET /metrics. HTTP/2 by hand: the machines that are tested have no client for it but ours."""
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # an expired one shows when it has expired
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, port), timeout=10) as plain, context.wrap_socket(plain) as connection:
        headers = b"".join(literal(*pair) for pair in (
            (b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"metrics"), (b":path", b"/metrics")))
        large = (1 << 30).to_bytes(4, "big")
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"\0\4" + large) + frame(8, 0, 0, large)
                           + frame(1, 5, 1, headers))
        text = b""
        while True:
            head = exactly(connection, 9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = exactly(connection, length)
            stream = int.from_bytes(head[5:], "big")
            text += payload if kind == 0 else b""
            if kind in (3, 7) or (stream == 1 and flags & 1):
                return text.decode()
