# SPDX-License-Identifier: Apache-2.0
"""One virtual machine: QEMU without KVM, some disks, one line to the guest, no network card.

TCG only: /dev/kvm may be there and yet be unable to run Debian's kernel, and one way everywhere is worth more than
a fast way somewhere.
"""

import dataclasses
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time

CPUS = 2
MEMORY_MIB = 1024
# The size is part of the snapshot, so it is the same for every payload.
PAYLOAD_SIZE = 256 << 20
MARK = b"holdfast-vm: "
CONSOLE_LINES = 40
PANIC = "Kernel panic"  # how the kernel begins its last words

# panic: the kernel reboots at once, which -no-reboot turns into QEMU's end
# audit_backlog_limit: of records that wait for auditd while the machine boots, however long that takes
KERNEL_WORDS = "console=ttyS0 rw quiet panic=-1 audit=1 audit_backlog_limit=8192 random.trust_cpu=on"
# Limits are for what hangs: on a machine that has much else to do everything takes ten times as long.
REBOOT_SECONDS = 300  # a quiet machine takes 3


class GuestFailure(Exception):
    """The guest did not do what a guest does, whatever its payload is."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """In what one guest differs from another: a snapshot of the one is nothing to the other."""

    words: str = ""  # more of the kernel's command line
    scratch: tuple = ()  # further disks, vdc and on: (serial number, bytes), empty at first
    devices: tuple = ()  # further arguments of QEMU


class Machine:
    """To be used in a with statement, which ends QEMU."""

    def __init__(self, kind, image, disk, payload, scratch=(), incoming=None):
        """image: folder with vmlinuz and initrd. scratch: files, one for each disk of kind.scratch."""
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-vm-")
        self.console = os.path.join(self.folder.name, "console")
        self.port, port_there = socket.socketpair()
        self.control, control_there = socket.socketpair()
        self.unread = b""
        drives = [(disk, "format=qcow2", "root"), (payload, "format=raw,readonly=on", "payload")]
        drives += [(path, "format=raw", serial) for path, (serial, _) in zip(scratch, kind.scratch, strict=True)]
        argv = self.argv(kind, image, drives, f"fd={port_there.fileno()}", f"fd={control_there.fileno()}")
        if incoming:
            argv += ["-incoming", incoming]
        try:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", *argv],
                stdin=subprocess.DEVNULL,
                pass_fds=(port_there.fileno(), control_there.fileno()),
            )
        finally:
            port_there.close()
            control_there.close()
        self.begin_control()

    def begin_control(self):
        self.answers = self.control.makefile("r", encoding="utf-8")
        self.answer()  # the greeting
        self.ask("qmp_capabilities")

    def argv(self, kind, image, drives, port, control):
        words = f"{KERNEL_WORDS} {kind.words}".strip()
        argv = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "qemu64,-cx16"]
        argv += ["-smp", str(CPUS), "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-no-reboot"]
        argv += ["-display", "none", "-kernel", os.path.join(image, "vmlinuz")]
        argv += ["-initrd", os.path.join(image, "initrd"), "-append", words, "-serial", "file:" + self.console]
        argv += ["-chardev", f"socket,id=control,{control}", "-mon", "chardev=control,mode=control"]
        argv += ["-chardev", f"socket,id=port,{port}", "-device", "virtio-serial-pci"]
        argv += ["-device", "virtserialport,chardev=port,name=holdfast"]
        # unsafe: what the guest has flushed need not reach this machine's disk, only this machine
        for path, how, serial in drives:
            argv += ["-drive", f"if=none,id={serial},file={path},cache=unsafe,{how}"]
            argv += ["-device", f"virtio-blk-pci,drive={serial},serial={serial}"]
        return argv + list(kind.devices)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.answers.close()
        self.control.close()
        self.port.close()
        self.folder.cleanup()

    def answer(self):
        """The next answer of QEMU's; events are nothing to us."""
        while True:
            line = self.answers.readline()
            if not line:
                raise GuestFailure(f"QEMU ended with {self.process.wait()}; does it run on this machine at all?")
            got = json.loads(line)
            if "error" in got:
                raise GuestFailure(f"QEMU: {got['error']['desc']}")
            if "event" not in got:
                return got.get("return")

    def ask(self, command, **arguments):
        self.control.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        return self.answer()

    def wait_until(self, what, condition, seconds):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise GuestFailure(f"{what} took more than {seconds} s")
            time.sleep(0.05)

    def quit(self):
        """Off, as if the power had gone: what the guest has not written yet is lost."""
        self.ask("quit")
        self.process.wait()

    def reboot(self):
        """Let the guest shut itself down in order; its end is that of QEMU."""
        self.port.sendall(b"reboot\n")
        try:
            self.process.wait(REBOOT_SECONDS)
        except subprocess.TimeoutExpired:
            raise GuestFailure(f"the guest did not shut down within {REBOOT_SECONDS} s\n{self.console_end()}") from None
        if PANIC in self.console_text():
            raise GuestFailure(f"the guest died when it shut down\n{self.console_end()}")

    def console_text(self):
        with open(self.console, encoding="utf-8", errors="replace") as f:
            return f.read()

    def console_end(self):
        """The last lines of the console; if the kernel panicked, those from there on, as its trace may be long."""
        before, panic, after = self.console_text().partition(PANIC)
        if panic:
            return "\n".join((panic + after).splitlines()[:CONSOLE_LINES])
        return "\n".join(before.splitlines()[-CONSOLE_LINES:])

    def lines(self, seconds):
        """Lines from the guest, without their ends, as they come."""
        deadline = time.monotonic() + seconds
        while True:
            line, end, rest = self.unread.partition(b"\n")
            if end:
                self.unread = rest
                yield line.rstrip(b"\r")
                continue
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.port], [], [], left)[0]:
                raise GuestFailure(f"the guest did not end within {seconds} s\n{self.console_end()}")
            got = self.port.recv(1 << 16)
            if not got:
                raise GuestFailure(f"the guest died\n{self.console_end()}")
            self.unread += got

    def wait_for(self, word, seconds, output=None):
        """Wait for a line of the guest's init that begins with word; the rest of it. Other lines go to output."""
        for line in self.lines(seconds):
            if line.startswith(MARK + word.encode()):
                return line[len(MARK) + len(word) :].decode().strip()
            if output:
                output(line.decode("utf-8", errors="replace"))
        raise AssertionError("lines() has no end")

    def run(self, seconds, output):
        """Let the guest run the payload; the exit status."""
        self.port.sendall(f"go {time.time():.3f}\n".encode())
        return int(self.wait_for("exit", seconds, output))


def empty_disks(kind, folder):
    """Files for the disks of kind.scratch, in folder; sparse."""
    paths = []
    for serial, size in kind.scratch:
        paths.append(os.path.join(folder, serial))
        with open(paths[-1], "wb") as f:
            f.truncate(size)
    return paths


def to_stdout(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def overlay(path, base, base_format):
    """A disk that reads as base and keeps what is written to itself."""
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", os.path.abspath(base), "-F", base_format, path], check=True
    )
