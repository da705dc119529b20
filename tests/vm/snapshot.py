"""Guests that wait for their payload: booted, or woken from a snapshot of the memory, which takes half a second.

Every guest has a disk of its own above the image's or the snapshot's, so no run sees what another one did.
"""

import hashlib
import os
import shutil
import tempfile
import time

import image
import machine
from image import say
from payload import AFTER_POWER_CUT

BOOT_SECONDS = 300  # a quiet machine takes 4


def boot(folder, disk, payload):
    started = time.monotonic()
    guest = machine.Machine(folder, disk, payload)
    with unless_it_fails(guest):
        up = guest.wait_for("ready", BOOT_SECONDS)
        say(f"booted in {time.monotonic() - started:.1f} s: {up}")
    return guest


def wake(folder, snapshot, disk, payload):
    guest = machine.Machine(folder, disk, payload, f"exec:zstd -qdc {snapshot}/memory")
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


def name():
    """A snapshot is worth nothing to another QEMU or to a machine of another shape."""
    with open(machine.__file__, "rb") as f:
        shape = f.read() + image.run("qemu-system-x86_64", "--version").encode()
    return "snapshot-" + hashlib.sha256(shape).hexdigest()[:16]


def migrated(guest):
    status = guest.ask("query-migrate").get("status")
    if status == "failed":
        raise machine.GuestFailure("QEMU could not write the snapshot")
    return status == "completed"


def take(folder, target):
    disk = os.path.join(target, "disk")
    machine.overlay(disk, os.path.join(folder, "disk"), "raw")
    with tempfile.NamedTemporaryFile(prefix="holdfast-vm-") as payload:
        payload.truncate(machine.PAYLOAD_SIZE)
        with boot(folder, disk, payload.name) as guest:
            guest.port.close()  # the guest must find nobody there when it wakes
            guest.ask("stop")
            guest.ask("migrate", uri=f"exec:zstd -q -1 >{target}/memory")
            guest.wait_until("the snapshot", lambda: migrated(guest), BOOT_SECONDS)
            guest.quit()


def ensure():
    """Folder of the image, folder of the snapshot; both made when they are not there."""
    with image.locked():
        folder = image.ensure()
        target = os.path.join(folder, name())
        if not os.path.isdir(target):
            started = time.monotonic()
            unfinished = target + ".new"
            shutil.rmtree(unfinished, ignore_errors=True)
            os.mkdir(unfinished)
            take(folder, unfinished)
            os.rename(unfinished, target)
            say(f"snapshot made in {time.monotonic() - started:.1f} s")
    return folder, target


def run(payload, output, seconds, cold=False):
    """Run a payload in a guest that nobody used before; its exit status. Lines it prints go to output."""
    folder, snapshot = ensure()
    with tempfile.TemporaryDirectory(prefix="holdfast-vm-") as work:
        disk, files = os.path.join(work, "disk"), os.path.join(work, "payload")
        payload.pack(files)
        if cold:
            machine.overlay(disk, os.path.join(folder, "disk"), "raw")
            guest = boot(folder, disk, files)
        else:
            machine.overlay(disk, os.path.join(snapshot, "disk"), "qcow2")
            guest = wake(folder, snapshot, disk, files)
        with guest:
            status = guest.run(seconds, output)
            guest.quit()
        if status == 0 and payload.cuts_the_power():
            payload.pack(files, AFTER_POWER_CUT)
            with boot(folder, disk, files) as guest:
                status = guest.run(seconds, output)
    return status
