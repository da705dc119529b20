# SPDX-License-Identifier: Apache-2.0
"""What many published volumes cost the service manager: PID 1's CPU time, and how long systemctl takes.

usage: bench_pid1.py [N]        (1000) each volume asked for by a command of its own
       bench_pid1.py [N] --fast  by one connection, for a machine on which it takes long to start a program
In a guest: tests/systemd/systemd.py --seconds 900 look 'python3 cases/bench_pid1.py'
            tests/vm/vm.py look --guest systemd --seconds 7200 'python3 cases/bench_pid1.py --fast'
One line per phase: before, while N volumes are published, with them, while they are taken back, after.
"""

import http.client
import json
import os
import ssl
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402

ROUNDS = 20
QUIET_SECONDS = 5
HERTZ = os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """User and system time of PID 1 so far."""
    with open("/proc/1/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def latency_ms(*command):
    """Median and worst of ROUNDS runs."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        taken.append((time.monotonic() - begun) * 1000)
    return statistics.median(taken), max(taken)


def phase(name, work):
    cpu, begun = cpu_seconds(), time.monotonic()
    work()
    taken, used = time.monotonic() - begun, cpu_seconds() - cpu
    show, list_units = latency_ms("systemctl", "show", "dbus.service"), latency_ms("systemctl", "list-units", "--all")
    print(
        f"{name:10} {taken:8.1f} s  PID 1 {used:7.2f} s ({100 * used / taken:5.1f} %)  "
        f"show {show[0]:6.1f} ms (worst {show[1]:6.1f})  list-units {list_units[0]:6.1f} ms (worst {list_units[1]:6.1f})  "
        f"mounts {mounts()}",
        flush=True,
    )


def quiet():
    time.sleep(QUIET_SECONDS)


def write_json(path, value):
    with open(path, "w", encoding="ascii") as f:
        json.dump(value, f)
    return path


def volume_id(number):
    return f"v{number}"


def alloc_id(number):
    return f"{number:08x}-0000-7000-837a-8eec1ce19687"


class Commands:
    """Each of them connects, asks and waits."""

    def register(self, number):
        spec = {
            "id": volume_id(number), "name": volume_id(number), "type": "native", "profile": "scratch",
            "source": {"class": "tmpfs", "size": 1 << 20, "inodes": 16},
            "capability": {"access_mode": "single-node-writer", "attachment_mode": "file-system"},
        }  # fmt: skip
        machine.holdfast("volume", "register", write_json("/root/volume.json", spec))

    def publish(self, number):
        volume = {"source": volume_id(number), "access_mode": "single-node-writer", "attachment_mode": "file-system"}
        path = write_json("/root/alloc.json", {"name": f"a{number}", "node": machine.NODE, "volume": {"data": volume}})
        machine.holdfast("alloc", "run", path, "--id", alloc_id(number))

    def take_back(self, number):
        machine.holdfast("alloc", "stop", alloc_id(number))


class Connection:
    """The server's JSON, one request after the other; none waits until it is carried out."""

    def __init__(self):
        context = ssl.create_default_context(cafile=machine.CLI["HOLDFAST_CACERT"])
        context.load_cert_chain(machine.CLI["HOLDFAST_CLIENT_CERT"], machine.CLI["HOLDFAST_CLIENT_KEY"])
        self.http = http.client.HTTPSConnection(machine.CLI["HOLDFAST_ADDR"], context=context)

    def ask(self, method, message):
        self.http.request("POST", f"/holdfast.v1.{method}", json.dumps(message), {"content-type": "application/json"})
        answer = self.http.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise AssertionError(f"{method}: {answer.status}: {text}")

    def register(self, number):
        self.ask("Volumes/Register", {"volume": {
            "id": volume_id(number), "name": volume_id(number), "type": "NATIVE", "plugin_id": "native", "profile": "scratch",
            "source": {"class": "TMPFS", "size_bytes": str(1 << 20), "inodes": "16"},
            "requested_capabilities": [{"access_mode": "SINGLE_NODE_WRITER", "attachment_mode": "FILE_SYSTEM"}],
        }})  # fmt: skip

    def publish(self, number):
        self.ask("Allocations/Run", {"allocation": {
            "id": alloc_id(number), "name": f"a{number}", "node_id": machine.NODE, "driver": "none",
            "volumes": [{"name": "data", "source": volume_id(number), "access_mode": "SINGLE_NODE_WRITER",
                         "attachment_mode": "FILE_SYSTEM"}],
        }})  # fmt: skip

    def take_back(self, number):
        self.ask("Allocations/Stop", {"id": alloc_id(number)})


def mounts():
    return len(machine.mounts_below(machine.TREE))


def main():
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    n = numbers[0] if numbers else 1000
    machine.set_up(limits=f"	max_staged = {n + 24}\n	max_published = {n + 24}\n	max_tmpfs_total = {n + 24}MiB\n")
    client = Connection() if "--fast" in sys.argv else Commands()

    def for_all(action, wanted):
        for i in range(n):
            action(i)
        machine.wait_for(f"{wanted} mounts", lambda: mounts() == wanted, seconds=600)

    for i in range(n):
        client.register(i)
    phase("before", quiet)
    phase("publish", lambda: for_all(client.publish, 2 * n))
    phase("published", quiet)
    phase("take back", lambda: for_all(client.take_back, 0))
    phase("after", quiet)


main()
