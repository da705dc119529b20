# SPDX-License-Identifier: Apache-2.0
"""`holdfast driver launch` with the driver of containers: its calls by hand, signed by a key of the session."""

import base64
import json
import os
import pwd
import signal
import subprocess
import time
import traceback
from pathlib import Path

USER = "daemon"  # any account that is not root's
TEMPLATE = """cluster = "{{cluster}}"
node_id = "{{node}}"
ticket_keys = ["{{key}}"]
agent_user = "root"
socket = "{{socket}}"
engine = "{work}/engine.sock"
publish_dir = "{work}/publish"
state_dir = "{{folder}}"
images = ["localhost/bb:1"]
users = ["0", "image"]
{old_runc}nofile = 1024
nproc = 4096
"""
START = {"config": [{"key": "image", "text": "localhost/bb:1"},
                    {"key": "command", "list": ["/bin/sh", "-c", "echo said; sleep 100000"]}]}  # fmt: skip


def folders():
    return sorted(Path("/run").glob("holdfast-launch-*"))


def remove_by_hand(stderr):
    """The driver's state stays in its folder, and nothing else; the command that is printed removes it."""
    (folder,) = folders()
    assert [path.name for path in folder.iterdir()] == ["driver"] and (folder / "driver/trail.log").exists(), stderr
    assert not (folder / "driver/driver.sock").exists(), stderr
    subprocess.run(["sh", "-c", stderr.split("Next, to remove it: ")[1].splitlines()[0]], check=True, timeout=60)
    assert not folders(), folders()


class Launch:
    def __init__(self, world):
        self.world = world
        (world.work / "launch.hcl").write_text(TEMPLATE.format(work=world.work, old_runc=world.old_runc), encoding="ascii")
        os.chown(world.work / "engine.sock", 0, pwd.getpwnam(USER).pw_gid)
        self.words = [str(world.build / "cli/holdfast"), "driver", "launch", "--json", "--template", str(world.work / "launch.hcl"),
                      "--user", USER]  # fmt: skip
        self.program = ["--", str(world.build / "agent/driver-container/holdfast-driver-container"), "--config", "{settings}"]

    def calls(self, *lines):
        text = "".join(name + (" " + json.dumps(request) if request else "") + "\n" for name, request in lines)
        done = subprocess.run([*self.words, *self.program], input=text, capture_output=True, text=True, timeout=120, check=False)
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    def launch_makes_each_call_of_a_driver(self):
        done, said = self.calls(
            ("Fingerprint", None), ("StartTask", START), ("InspectTask", None), ("ExecTask", {"argv": ["/bin/echo", "inside"]}),
            ("ExecTaskStreaming", {"argv": ["/bin/cat"], "stdin": "in and out\n"}),
            ("ExecTaskStreaming", {"argv": ["/bin/sh", "-c", "sleep 1; stty size"], "tty": True, "tty_size": {"height": 33, "width": 99}}),
            ("ExecTaskStreaming", {"argv": ["/bin/sh", "-c", "exit 7"]}), ("SignalTask", {"signal": "SIGWINCH"}),
            ("StopTask", {"timeout_ms": 1000}), ("WaitTask", None), ("TaskLogs", None),
            ("DestroyTask", {"force": True}))  # fmt: skip
        assert done.returncode == 0, done.stderr[-1500:]
        assert "health" in said[0] and said[1]["handle"]["task"] == "main", said
        assert said[2]["status"]["state"] == "TASK_STATE_RUNNING", said
        assert base64.b64decode(said[3]["stdout"]) == b"inside\n", said
        through = [one for one in said if "stdout" in one and "value" in one["stdout"]]
        assert base64.b64decode(through[0]["stdout"]["value"]) == b"in and out\n", said
        assert b"33 99" in b"".join(base64.b64decode(one["stdout"]["value"]) for one in through[1:]), said
        assert [one["result"].get("exit_code", 0) for one in said if one.get("exited")] == [0, 0, 7], said
        assert b"said\n" in b"".join(base64.b64decode(one["value"]) for one in said if "value" in one), said
        assert not self.world.containers(), self.world.containers()
        remove_by_hand(done.stderr)

    def launch_destroys_a_task_that_ignores_signals_at_once(self):
        """Without StopTask, as an agent may: its own time limit does not count."""
        config = [{"key": "image", "text": "localhost/bb:1"},
                  {"key": "command", "list": ["/bin/sh", "-c", "trap '' TERM; while true; do sleep 0.1; done; : ignores-destroy"]}]  # fmt: skip
        begun = time.monotonic()
        done, _ = self.calls(("StartTask", {"config": config, "stop_timeout_ms": 3600000}), ("DestroyTask", {"force": True}))
        assert done.returncode == 0 and time.monotonic() - begun < 25, done
        assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"; : ignores-destroy" in self.read(path)]
        assert not self.world.containers(), self.world.containers()
        remove_by_hand(done.stderr)

    @staticmethod
    def read(path):
        try:
            return path.read_bytes()
        except OSError:
            return b""

    def launch_says_what_was_refused_and_continues(self):
        other = {"config": [{"key": "image", "text": "localhost/other:1"}]}
        done, said = self.calls(("StartTask", other), ("Nonsense", None), ("InspectTask", None), ("Capabilities", None))
        assert done.returncode == 1 and [one["name"] for one in said] == ["container"], done
        assert "images" in done.stderr and "Nonsense" in done.stderr and "not_found" in done.stderr.lower(), done
        remove_by_hand(done.stderr)

    def launch_sets_only_what_the_schema_names(self):
        (self.world.work / "config.hcl").write_text('color = "blue"\n', encoding="ascii")
        self.words += ["--config", str(self.world.work / "config.hcl")]
        done, _ = self.calls(("Capabilities", None))
        del self.words[-2:]
        assert done.returncode == 1 and "config.hcl:1" in done.stderr and "color" in done.stderr, done
        remove_by_hand(done.stderr)

    def launch_ends_its_driver_with_ctrl_c(self):
        with subprocess.Popen([*self.words, *self.program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while "orders are of" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            stderr = process.communicate(timeout=60)[1]
        assert process.returncode == 0, (process.returncode, stderr)
        remove_by_hand(stderr)


def cases(world):
    """Yields (name, why it failed or None)."""
    launch = Launch(world)
    for name in [name for name in vars(Launch) if name.startswith("launch_")]:
        try:
            getattr(launch, name)()
            yield name, None
        except Exception:  # noqa: BLE001 a case that fails is told, and the next one is tried
            yield name, traceback.format_exc()
    os.chown(world.work / "engine.sock", 0, world.DRIVER_ID)
