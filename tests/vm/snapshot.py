# SPDX-License-Identifier: Apache-2.0
"""Guests that wait for their payload: booted, or woken from a snapshot of the memory, which takes half a second.

Every guest has a disk of its own above the image's or the snapshot's, so no run sees what another one did.
"""

import dataclasses
import hashlib
import os
import shutil
import tempfile
import time

import image
import machine
from image import say
from payload import REBOOT

BOOT_SECONDS = 600  # a quiet machine takes 4, and 15 with systemd


@dataclasses.dataclass(frozen=True)
class Image:
    """What a guest starts from: folder has disk, vmlinuz and initrd, and gets the snapshot."""

    kind: machine.Kind
    folder: str

    def snapshot(self):
        """A snapshot is worth nothing to another QEMU or to a machine of another shape."""
        with open(machine.__file__, "rb") as f:
            shape = f.read() + repr(self.kind).encode() + image.run("qemu-system-x86_64", "--version").encode()
        return os.path.join(self.folder, "snapshot-" + hashlib.sha256(shape).hexdigest()[:16])


def boot(source, disk, payload, scratch):
    started = time.monotonic()
    guest = machine.Machine(source.kind, source.folder, disk, payload, scratch)
    with unless_it_fails(guest):
        up = guest.wait_for("ready", BOOT_SECONDS)
        say(f"booted in {time.monotonic() - started:.1f} s: {up}")
    return guest


def wake(source, disk, payload, scratch):
    incoming = f"exec:zstd -qdc {source.snapshot()}/memory"
    guest = machine.Machine(source.kind, source.folder, disk, payload, scratch, incoming)
    with unless_it_fails(guest):
        guest.wait_until("waking", lambda: guest.ask("query-status")["status"] != "inmigrate", BOOT_SECONDS)
        guest.ask("cont")
    return guest


class unless_it_fails:
    """Ends the guest when the block ends in an exception, and only then."""

    def __init__(self, guest):
        self.guest = guest

    def __enter__(self):
        return self.guest

    def __exit__(self, kind, *_):
        if kind:
            self.guest.__exit__(kind, *_)


def migrated(guest):
    status = guest.ask("query-migrate").get("status")
    if status == "failed":
        raise machine.GuestFailure("QEMU could not write the snapshot")
    return status == "completed"


def take(source, target):
    disk = os.path.join(target, "disk")
    machine.overlay(disk, os.path.join(source.folder, "disk"), "raw")
    with tempfile.TemporaryDirectory(prefix="holdfast-vm-") as work:
        payload = os.path.join(work, "payload")
        with open(payload, "wb") as f:
            f.truncate(machine.PAYLOAD_SIZE)
        with boot(source, disk, payload, machine.empty_disks(source.kind, work)) as guest:
            guest.port.close()  # the guest must find nobody there when it wakes
            guest.ask("stop")
            guest.ask("migrate", uri=f"exec:zstd -q -1 >{target}/memory")
            guest.wait_until("the snapshot", lambda: migrated(guest), BOOT_SECONDS)
            guest.quit()


def ensure(source):
    """Make the snapshot unless it is there. Call it with the lock of the image held."""
    target = source.snapshot()
    if os.path.isdir(target):
        return
    started = time.monotonic()
    unfinished = target + ".new"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.mkdir(unfinished)
    take(source, unfinished)
    os.rename(unfinished, target)
    say(f"snapshot made in {time.monotonic() - started:.1f} s")


def run(source, payload, output, seconds, cold=False):
    """Run a payload in a guest that nobody used before; its exit status. Lines it prints go to output."""
    status, phases = 0, payload.phases()
    with tempfile.TemporaryDirectory(prefix="holdfast-vm-") as work:
        disk, files = os.path.join(work, "disk"), os.path.join(work, "payload")
        scratch = machine.empty_disks(source.kind, work)
        if cold:
            machine.overlay(disk, os.path.join(source.folder, "disk"), "raw")
        else:
            machine.overlay(disk, os.path.join(source.snapshot(), "disk"), "qcow2")
        for i, phase in enumerate(phases):
            payload.pack(files, phase)
            start = boot if cold or i > 0 else wake
            with start(source, disk, files, scratch) as guest:
                status = guest.run(seconds, output)
                if status == 0 and i + 1 < len(phases) and phases[i + 1].after == REBOOT:
                    guest.reboot()
                else:
                    guest.quit()
            payload.collect(scratch)
            if status != 0:
                break
    return status
