# SPDX-License-Identifier: Apache-2.0
"""The host's hand in the guest with systemd, as a service.

Says "ready" on the port, waits there for "go EPOCH", unpacks the payload's disk over the root, runs /payload/start with
its output on the port, writes /result to its disk and ends with "holdfast-vm: exit N". The host then takes the machine
away, or says "reboot".
"""

import fcntl
import glob
import os
import select
import subprocess
import time

PAYLOAD_DISK, RESULT_DISK = "/dev/vdb", "/dev/vdc"
BLKFLSBUF = 0x1261
AUDIT_LOG = "/var/log/audit/audit.log"
AUDIT_SECONDS = 60
PIPE_READS = 64  # of a pipe that holds 64 KiB
DENIALS = ("type=AVC ", "type=USER_AVC ", "type=SELINUX_ERR ")
# Python's descriptors are not inherited: a confined program that had the port would be denied it, on record.


def open_port():
    while True:
        for path in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(path, encoding="ascii") as f:
                if f.read().strip() == "holdfast":
                    return os.open("/dev/" + path.split("/")[-2], os.O_RDWR | os.O_CLOEXEC)
        time.sleep(0.1)


def words(port):
    """Lines of the host's, in words. While nobody holds its end, as in a snapshot, the port reads as end of file."""
    unread = b""
    while True:
        got = os.read(port, 4096)
        if not got:
            time.sleep(0.1)
        unread += got
        while b"\n" in unread:
            line, unread = unread.split(b"\n", 1)
            yield line.decode().split()


def write_all(port, data):
    while data:
        data = data[os.write(port, data) :]


def flush(disk):
    """The disk is not the one that was there at boot."""
    fd = os.open(disk, os.O_RDONLY)
    fcntl.ioctl(fd, BLKFLSBUF)
    os.close(fd)


def pass_on(source, port):
    """What is in the pipe right now, but for a daemon that continues for ever; whether more may come."""
    for _ in range(PIPE_READS):
        try:
            data = os.read(source, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        write_all(port, data)
    return True


def run(port):
    """Run the payload; its exit status. Its end counts, not that of its output, which a daemon may hold open."""
    flush(PAYLOAD_DISK)
    # no owners and modes of the folders that are there already
    subprocess.run(["tar", "-C", "/", "--no-overwrite-dir", "-xf", PAYLOAD_DISK], check=True)
    # an anonymous pipe: confined programs may not write to a named one
    child = subprocess.Popen(
        ["/payload/start"], cwd="/payload", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    source, end = child.stdout.fileno(), os.pidfd_open(child.pid)
    os.set_blocking(source, False)
    watched = {source, end}
    while end in watched:
        ready, _, _ = select.select(watched, [], [])
        watched.difference_update({end} & set(ready))  # all that it printed is in the pipe then
        if source in watched and not pass_on(source, port):
            watched.discard(source)
    status = child.wait()
    return status if status >= 0 else 128 - status


def audit_records():
    """The audit log, once auditd has written all that happened until now: records keep their order."""
    mark = f"holdfast-test {time.monotonic_ns()}"
    marked = subprocess.run(["auditctl", "-m", mark], stderr=subprocess.DEVNULL, check=False).returncode == 0
    deadline = time.monotonic() + (AUDIT_SECONDS if marked else 0)
    while True:
        with open(AUDIT_LOG, encoding="utf-8", errors="replace") as f:
            records = f.readlines()
        if any(mark in record for record in records[-1000:]) or time.monotonic() > deadline:
            return records
        time.sleep(0.1)


def keep_results():
    if os.path.exists(AUDIT_LOG):
        records = audit_records()
        with open("/result/audit", "w", encoding="utf-8") as f:
            f.writelines(records)
        with open("/result/denials", "w", encoding="utf-8") as f:
            f.writelines(line for line in records if line.startswith(DENIALS) and "holdfast_" in line)
    subprocess.run(["tar", "-C", "/result", "-cf", RESULT_DISK, "."], check=True)
    flush(RESULT_DISK)


def main():
    port = open_port()
    subprocess.run(["systemctl", "is-system-running", "--wait"], stdout=subprocess.DEVNULL, check=False)
    with open("/proc/uptime", encoding="ascii") as f:
        up = f.read().split()[0]
    write_all(port, f"holdfast-vm: ready {os.uname().release} after {up} s\n".encode())
    for word in words(port):
        if word[:1] == ["go"]:
            time.clock_settime(time.CLOCK_REALTIME, float(word[1]))
            os.makedirs("/result", exist_ok=True)
            status = run(port)
            keep_results()
            write_all(port, f"\nholdfast-vm: exit {status}\n".encode())
        elif word[:1] == ["reboot"]:
            subprocess.run(["systemctl", "--no-block", "reboot"], check=True)


main()
