# SPDX-License-Identifier: Apache-2.0
"""What cases about units share: drop-ins, status texts, and an operation of the mount helper held up half-way."""

import fcntl
import os
import shutil
import struct
import subprocess
import time

import machine

SERVER = "holdfast-server.service"
SOCKET_AGENT = "holdfast-agent-socket.service"
SETUID_AGENT = "holdfast-agent-setuid.service"
DRIVER = "holdfast-driver-container.service"
TEMPLATE = "holdfast-mounthelper@.service"
VOLUME = "holdfast-volume@.service"
NETWORK = "holdfast-network@.service"
DOCKER_PLUGIN = "holdfast-docker-plugin.service"
# each sets no_new_privs for a unit with User= in systemd 252, and in 257 does not; NoNewPrivileges= and DynamicUser=
# do in both
IMPLY_NO_NEW_PRIVS = {
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "PrivateDevices": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces": "uts",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "~acct",
    "SystemCallLog": "acct",
}

F_OFD_SETLKW = 38
LOCK_TABLE = 1 << 40  # mounthelper/locks.c: every change takes it


def status_text(unit):
    return machine.show(unit, "StatusText")


def main_pid(unit):
    return int(machine.show(unit, "MainPID"))


def dropin(unit, text, section="Service"):
    """A drop-in of the unit, in force at its next start; the path of it. The text is in line 2."""
    path = f"/etc/systemd/system/{unit}.d/case.conf"
    machine.write(path, f"[{section}]\n{text}\n")
    machine.systemctl("daemon-reload")
    return path


def no_dropins(*names):
    for unit in names:
        shutil.rmtree(f"/etc/systemd/system/{unit}.d", ignore_errors=True)
    machine.systemctl("daemon-reload")


def helpers():
    """Pids of all mount helpers, however they were started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                if f.read().startswith("holdfast-mounth"):
                    found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


class HeldUp:
    """While this is entered, no operation of a mount helper gets further than its lock of the state file."""

    def __enter__(self):
        self.fd = os.open(f"{machine.TREE}/lock/state", os.O_RDWR)
        self.lock(fcntl.F_WRLCK)
        return self

    def lock(self, kind):
        fcntl.fcntl(self.fd, F_OFD_SETLKW, struct.pack("hhqqi4x", kind, os.SEEK_SET, LOCK_TABLE, 1, 0))

    def __exit__(self, *_):
        os.close(self.fd)


def operation_in_flight():
    status = machine.agent_status()
    return status and [i for i in status["helper"]["instances"] if i.get("op") or i.get("operation")]


def run_in_background(name):
    """alloc run of a volume of that name, which is registered."""
    return subprocess.Popen(
        ["holdfast", "alloc", "run", machine.alloc_spec(name, name), "--timeout", "60s"],
        env=os.environ | machine.CLI, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def wait_at_work():
    """The pid of a helper that is in the middle of an operation."""
    return machine.wait_for("a helper to be at work", operation_in_flight)[0]["pid"]


def end_agent_in_mid_operation(test, unit):
    """Stop the agent while a helper is at work: the helper finishes and ends, and all continues afterwards."""
    machine.holdfast("volume", "register", machine.volume_spec("slow"))
    with HeldUp():
        run = run_in_background("slow")
        pid = wait_at_work()
        machine.systemctl("stop", unit)
        time.sleep(1)
        test.assertIn(pid, helpers())
    machine.wait_for("the helper to finish and end", lambda: pid not in helpers())
    with open(machine.TRAIL, encoding="utf-8", errors="replace") as f:
        test.assertGreaterEqual(len([line for line in f if "slow" in line]), 2, "intent and result")
    machine.systemctl("start", unit)
    test.assertEqual(0, run.wait(60))
    machine.wait_connected()
    machine.holdfast("audit", "verify")


def set_up_setuid_agent():
    """The program of launch mode setuid as its package is to leave it."""
    program = "/usr/libexec/holdfast/holdfast-mounthelper"
    machine.run("chown", "root:holdfast", program)
    machine.run("chmod", "4750", program)
    machine.set_up("setuid")
