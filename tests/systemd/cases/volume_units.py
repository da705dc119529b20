# SPDX-License-Identifier: Apache-2.0
"""A machine whose units hold volumes, set up with the files of docs/examples as they are."""

import os
import shutil

import machine

EXAMPLES = "/usr/share/holdfast/examples"
RUN = "/run/holdfast-volumes"


def unit(name):
    return f"holdfast-volume@{name}.service"


def set_up():
    machine.set_up()
    set_up_volumes()


def set_up_volumes():
    """What units need that hold volumes, on a machine that is set up."""
    os.makedirs(f"{machine.ETC}/volumes.d", exist_ok=True)
    shutil.copy(f"{EXAMPLES}/cli.env", f"{machine.ETC}/cli.env")
    machine.write("/etc/credstore/holdfast.token", make_token("worker", f"{EXAMPLES}/volume-units.policy.hcl"), 0o600)


def make_token(name, policy):
    machine.holdfast("operator", "policy", "put", name, policy)
    return machine.holdfast_json("operator", "token", "create", name, name, "--node", machine.NODE,
                                 "--days", "365")["token"]["secret"] + "\n"


def install(*names):
    """Units of the examples."""
    for name in names:
        shutil.copy(f"{EXAMPLES}/{name}", f"/etc/systemd/system/{name}")
    machine.systemctl("daemon-reload")


def example_volume(name):
    """A volume of that id, and the example's file of its unit."""
    machine.holdfast("volume", "register", machine.volume_spec(name))
    shutil.copy(f"{EXAMPLES}/volumes.d/{name}.hcl", f"{machine.ETC}/volumes.d/{name}.hcl")


def volume_file(name, volume, more=""):
    """The file of a unit, for any volume."""
    machine.write(
        f"{machine.ETC}/volumes.d/{name}.hcl",
        f'name = "{name}"\nvolume "data" {{\n  source = "{volume}"\n  access_mode = "single-node-writer"\n{more}}}\n',
    )


def drop_in(name, text):
    machine.write(f"/etc/systemd/system/{unit(name)}.d/test.conf", text)
    machine.systemctl("daemon-reload")


def service(name, volume, kind="BindsTo", more=""):
    """A service of one's own on a volume unit."""
    machine.write(
        f"/etc/systemd/system/{name}.service",
        f"[Unit]\n{kind}={unit(volume)}\nAfter={unit(volume)}\n[Service]\nType=exec\nExecStart=/bin/sleep infinity\n{more}",
    )
    machine.systemctl("daemon-reload")


def start(name, check=True):
    """Of a test, as often as it likes: the limit is for people."""
    machine.systemctl("reset-failed", name, check=False)
    return machine.systemctl("start", name, check=check)


def pid(name):
    return int(machine.show(name, "MainPID"))


def holder(name):
    """The process that follows the volume: the other one of its unit."""
    with open(f"/sys/fs/cgroup{machine.show(unit(name), 'ControlGroup')}/cgroup.procs", encoding="ascii") as f:
        pids = {int(line) for line in f} - {pid(unit(name))}
    return pids.pop() if len(pids) == 1 else None


def allocations(name):
    """All of that name, those that have ended too."""
    everything = machine.holdfast_json("alloc", "status")["allocations"]
    return [alloc for alloc in everything if alloc["name"] == name]


def live(name):
    return [alloc for alloc in allocations(name) if alloc["client_status"] in ("PENDING", "RUNNING")]


def claims_of(volume):
    answer = machine.holdfast_json("volume", "status", volume)
    return [claim for claim in answer["volume"]["claims"] if claim["state"] != "FREED"]


def status_text(name):
    return machine.show(unit(name), "StatusText")


def log(name):
    return machine.journal("-u", unit(name))


def tear_down(*names):
    """Stop units and forget how they failed."""
    machine.systemctl("stop", *names, check=False)
    machine.systemctl("reset-failed", check=False)
