"""One virtual machine: QEMU without KVM, two disks, one line to the guest, no network card.

TCG only: /dev/kvm may be there and yet be unable to run Debian's kernel, and one way everywhere is worth more than
a fast way somewhere.
"""

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

# panic: the kernel reboots at once, which -no-reboot turns into QEMU's end
KERNEL_WORDS = "console=ttyS0 rw quiet panic=-1 audit=1 random.trust_cpu=on"


class GuestFailure(Exception):
    """The guest did not do what a guest does, whatever its payload is."""


class Machine:
    """To be used in a with statement, which ends QEMU."""

    def __init__(self, image, disk, payload, incoming=None):
        self.folder = tempfile.TemporaryDirectory(prefix="holdfast-vm-")
        self.console = os.path.join(self.folder.name, "console")
        self.port, port_there = socket.socketpair()
        self.control, control_there = socket.socketpair()
        self.unread = b""
        argv = self.argv(image, disk, payload, port_there.fileno(), control_there.fileno())
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
        self.answers = self.control.makefile("r", encoding="utf-8")
        self.answer()  # the greeting
        self.ask("qmp_capabilities")

    def argv(self, image, disk, payload, port, control):
        argv = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "qemu64,-cx16"]
        argv += ["-smp", str(CPUS), "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-no-reboot"]
        argv += ["-display", "none", "-kernel", os.path.join(image, "vmlinuz")]
        argv += ["-initrd", os.path.join(image, "initrd"), "-append", KERNEL_WORDS, "-serial", "file:" + self.console]
        argv += ["-chardev", f"socket,id=control,fd={control}", "-mon", "chardev=control,mode=control"]
        argv += ["-chardev", f"socket,id=port,fd={port}", "-device", "virtio-serial-pci"]
        argv += ["-device", "virtserialport,chardev=port,name=holdfast"]
        # unsafe: what the guest has flushed need not reach this machine's disk, only this machine
        for name, path, how in (("vda", disk, "format=qcow2"), ("vdb", payload, "format=raw,readonly=on")):
            argv += ["-drive", f"if=none,id={name},file={path},cache=unsafe,{how}"]
            argv += ["-device", f"virtio-blk-pci,drive={name}"]
        return argv

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

    def console_end(self):
        with open(self.console, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-CONSOLE_LINES:])

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


def to_stdout(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def overlay(path, base, base_format):
    """A disk that reads as base and keeps what is written to itself."""
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", os.path.abspath(base), "-F", base_format, path], check=True
    )
