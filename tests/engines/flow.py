# SPDX-License-Identifier: Apache-2.0
"""An allocation with a task, whole: claim server, agent, mount helper, driver and a real engine."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from world import CLUSTER, ID_MARK, PREFIX, Failure, World, wait_for  # noqa: E402

from execs import Execs  # noqa: E402

SETTINGS = """cluster = "{cluster}"
node_id = "{node.id}"
ticket_keys = ["{key}"]
agent_user = "{node.user}"
socket = "{node.driver_dir}/container/container.sock"
engine = "{work}/{engine}"
publish_dir = "{node.dir}/publish"
state_dir = "{work}/state"
images = ["localhost/bb:1", "localhost/annotated:1", "localhost/checked:1", "localhost/app:1"]
users = [{users}]
networks = ["none", "isolated"]
capabilities = ["CAP_NET_ADMIN"]
host_paths = ["{work}/host"]
infra {{
  image = "localhost/bb:1"
  command = ["/bin/sleep", "1000000"]
}}
nofile = 1024
nproc = 4096
{old_runc}"""

SPEC = """name = "{name}"
volume "data" {{
  source          = "db"
  access_mode     = "single-node-single-writer"
  attachment_mode = "file-system"
}}
task "main" {{
  driver = "container"
  env {{
    GREETING = "hello"
  }}
  volume_mount {{
    volume      = "data"
    destination = "/data"
  }}
  stop_timeout = "2s"
  config {{
    image   = "{image}"
    command = ["/bin/sh", "-c", "{script}"]
  }}
}}
"""

TASK_OF_NETWORK = """task "{task}" {{
  driver = "container"
  volume_mount {{
    volume      = "data"
    destination = "/data"
  }}
  stop_timeout = "1s"
  config {{
    image   = "localhost/bb:1"
    command = ["/bin/sh", "-c", "{script}"]
  }}
}}
"""

# In the task block of a spec: restarted after two seconds, and checked each second.
RESTARTS = """restart {{
    attempts = {attempts}
    interval = "10m"
    delay    = "2s"
  }}
  health {{
    argv     = ["/bin/sh", "-c", "test -e /var/healthy"]
    interval = "1s"
    timeout  = "1s"
    retries  = 1
  }}
  stop_timeout"""

# In the task block of a spec: a user, and a check that can be looked at.
CHECKED = """  health {{
    argv     = ["/bin/sh", "-c", "cat /host/keys > /data/by-the-check; : own-check; sleep 1; :"]
    interval = "1s"
    timeout  = "5s"
    retries  = 1
  }}
  user = "%s"
"""

JOB = """job "checked" {{
  group "one" {{
    update {{
      min_healthy_time = "1s"
      healthy_deadline = "{deadline}"
    }}
    volume "data" {{
      source      = "db"
      access_mode = "single-node-single-writer"
    }}
    task "main" {{
      driver = "container"
      volume_mount {{
        volume      = "data"
        destination = "/data"
      }}
      health {{
        argv     = ["/bin/sh", "-c", "{check}"]
        interval = "1s"
        retries  = 1
      }}
      stop_timeout = "1s"
      config {{
        image   = "localhost/bb:1"
        command = ["/bin/sleep", "100000"]
      }}
    }}
  }}
}}
"""

STAYS = "echo $GREETING > /data/hello; echo started >> /data/starts; sleep 100000"
SERVES = ("echo started >> /data/starts; "
          "while true; do echo hello from one | /bin/busybox nc -l -p 7000; done")


class Flow(Execs):
    """The engine's driver is started here again, as that of node-1."""

    GROUP = "7900"  # in the id of each allocation; a driver starts each id once in a boot, so classes have different ones

    def __init__(self, engine):
        self.engine, self.room, self.n = engine, World(nodes=2), 0

    def open(self):
        self.room.open()
        node = self.node = self.room.nodes[0]
        folder = f"{node.driver_dir}/container"
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, self.engine.DRIVER_ID, self.engine.DRIVER_ID)
        os.chmod(folder, 0o755)
        self.room.start_agents()
        spec = self.room.volume_spec()
        with open(spec, encoding="ascii") as f:
            text = f.read().replace("single-node-writer", "single-node-single-writer")
        self.room.holdfast("volume", "register", self.room.spec("single.hcl", text))
        self.start_driver()

    def start_driver(self, engine="engine.sock", users='"0", "image", "app", "1000", "1234"'):
        """@engine: the socket at which it finds the engine"""
        settings = SETTINGS.format(cluster=CLUSTER, node=self.node, key=self.room.ticket_key(), work=self.engine.work, engine=engine,
                                   users=users, old_runc=self.engine.old_runc)  # fmt: skip
        (self.engine.work / "driver.hcl").write_text(settings, encoding="ascii")
        self.engine.socket = f"{self.node.driver_dir}/container/container.sock"
        self.engine.start_driver()

    def driver_is_healthy(self):
        """As the server knows it."""
        return any(d["healthy"] for d in self.room.json("node", "status", self.node.id)["node"].get("drivers", []))

    def containers(self):
        return [c["Id"] for c in json.loads(self.engine.ask("GET", "/containers/json?all=1")[1])]

    def in_network(self, mode, check=True, **scripts):
        """An allocation whose tasks, by their scripts, have the same network."""
        head = SPEC[: SPEC.index("task ")] + f'network {{{{\n  mode = "{mode}"\n}}}}\n'
        return self.run(check=check, spec=head + "".join(
            TASK_OF_NETWORK.format(task=task, script=script).replace("{", "{{").replace("}", "}}") for task, script in scripts.items()))

    def next_id(self):
        return f"0192f3a0-{self.n + 1:04d}-{self.GROUP}-{ID_MARK}"

    def run(self, script=STAYS, image="localhost/bb:1", spec=SPEC, check=True):
        """Submit it, for the only node that has the driver; its id."""
        if check:
            wait_for("the server to know the driver", self.driver_is_healthy)
        alloc = self.next_id()
        self.n += 1
        spec = self.room.spec("task.hcl", spec.format(name=f"task-{self.n}", script=script, image=image))
        self.submission = ("alloc", "run", spec, "--id", alloc, "--no-wait")
        self.room.holdfast(*self.submission, check=check)
        return alloc

    def status(self, alloc):
        return self.room.json("alloc", "status", alloc)["allocation"]

    def until(self, alloc, status):
        def reached():
            found = self.status(alloc)
            if found["client_status"] in ("FAILED", "COMPLETE", "LOST"):
                assert found["client_status"] == status, found
            return found["client_status"] == status and found

        return wait_for(f"allocation {alloc} to be {status}", reached, 60)

    def until_running(self, alloc):
        found = self.until(alloc, "RUNNING")
        assert found["task_status"][0]["state"] == "TASK_STATE_RUNNING", found
        wait_for("the task to have written", lambda: os.path.exists(f"{self.node.published(alloc)}/starts"))
        return found

    def starts(self, alloc):
        """How often its task has begun. It runs a moment before its shell does."""
        path = f"{self.node.published(alloc)}/starts"
        wait_for("the task to begin", lambda: os.path.exists(path) and os.path.getsize(path) > 0)
        with open(path, encoding="ascii") as f:
            return f.read().count("started")

    def exec(self, alloc, script, given=None, *options):
        words = [f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "alloc", "exec", alloc, *options, "--",
                 "/bin/sh", "-c", script, "sh"]
        return subprocess.run(words, input=given, stdin=None if given else subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False)

    def clear(self, alloc):
        os.unlink(f"{self.node.published(alloc)}/starts")

    def stop(self, alloc):
        self.room.holdfast("alloc", "stop", alloc, "--timeout", "60s")
        found = self.until(alloc, "COMPLETE")
        assert all(task["state"] == "TASK_STATE_EXITED" for task in found.get("task_status", [])), found
        self.nothing_is_left()

    def nothing_is_left(self):
        wait_for("the claim to be free", lambda: not self.room.live_claims())
        assert self.containers() == [], self.containers()
        assert self.node.mounts() == [], self.node.mounts()

    def kill_agent(self):
        self.node.daemon.kill(signal.SIGKILL)
        self.node.start()
        self.node.wait_connected()

    def kill_agent_only(self):
        self.node.daemon.kill(signal.SIGKILL)
        self.node.start()

    def crash(self, alloc, starts):
        """Kill its first process by the engine, which knows no orders; then it has started so often."""
        (container,) = self.containers()
        self.engine.ask("POST", f"/containers/{container}/kill?signal=KILL")
        if starts < 3:
            wait_for("the task to have started again", lambda: self.starts(alloc) == starts)

    def restarts(self, alloc, n):
        found = self.status(alloc)
        (task,) = found["task_status"]
        return task.get("restarts", 0) == n and task["state"] == "TASK_STATE_RUNNING" and found

    def health(self, alloc):
        return self.status(alloc)["task_status"][0].get("health")

    def close(self):
        self.engine.kill_driver()  # its socket is below what is unmounted
        World.close(self.room)

    # --- the cases

    def a_task_runs_on_its_volume_and_its_claim_is_freed_with_evidence(self):
        alloc = self.run()
        self.until_running(alloc)
        with open(f"{self.node.published(alloc)}/hello", encoding="ascii") as f:
            assert f.read() == "hello\n"
        assert len(self.containers()) == 1
        self.clear(alloc)
        self.stop(alloc)
        claim = next(c for c in self.room.claims() if c["allocation_id"] == alloc)
        assert claim["evidence"] == "EVIDENCE_RECEIPT", claim
        trail = (self.engine.work / "state/trail.log").read_text(encoding="ascii")
        own = [line for line in trail.splitlines() if f"alloc={alloc.replace('-', '')}" in line]
        assert any("compared=1" in line for line in own), own
        assert not any("compared=0" in line for line in own), own

    def a_task_that_runs_keeps_no_request_at_its_engine(self):
        alloc = self.run()
        self.until_running(alloc)
        driver, at = self.engine.processes["driver"].pid, f"{self.engine.work}/engine.sock"

        def engine_is_asked():
            """Pidfds of the driver, and its connections to the engine; one and none if it waits for the process."""
            opened = [os.readlink(f.path) for f in os.scandir(f"/proc/{driver}/fd") if os.path.lexists(f.path)]
            ends = [line.split() for line in subprocess.run(["ss", "-xH", "src", at], capture_output=True, text=True,
                                                            check=True).stdout.splitlines()]  # fmt: skip
            return sum("pidfd" in name for name in opened), [end for end in ends if f"socket:[{end[7]}]" in opened]

        try:
            wait_for("the driver to wait for the process alone", lambda: engine_is_asked() == (1, []))
        except Failure as e:
            raise Failure(f"{e}: {engine_is_asked()}") from e
        self.clear(alloc)
        self.stop(alloc)

    def a_refused_task_that_ignores_signals_is_gone_when_its_claim_is_free(self):
        """Its image calls uid 0 "app", which shows only when it runs; podman would wait an hour for it."""
        passwd = self.engine.work / "image/etc/passwd"
        passwd.parent.mkdir(exist_ok=True)
        passwd.write_text("app:x:0:0::/:/bin/sh\n", encoding="ascii")
        tar = subprocess.run(["tar", "-C", str(passwd.parents[1]), "-c", "."], check=True, capture_output=True).stdout
        self.engine.add_image("localhost/app:1", tar)
        spec = SPEC.replace('stop_timeout = "2s"', 'stop_timeout = "1h"\n  user         = "app"')
        alloc = self.run(spec=spec, image="localhost/app:1", script="trap '' TERM; while true; do sleep 0.1; done; : ignores-signals")

        def runs():
            return [pid for pid in os.listdir("/proc") if pid.isdigit() and b"; : ignores-signals" in self.words_of(pid)]

        self.until(alloc, "FAILED")
        wait_for("the claim to be free", lambda: not self.room.live_claims())
        left = runs()
        assert not left, left
        self.nothing_is_left()
        trail = (self.engine.work / "state/trail.log").read_text(encoding="ascii")
        assert "field=user ordered=app found=0" in trail, trail[-1000:]  # read of its process

    @staticmethod
    def words_of(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return f.read()
        except OSError:
            return b""

    def check_of(self, user, then):
        """A task of @user, whose image has app as 1000:1000, writes @then into its passwd. Looks at its check."""
        root = self.engine.work / "image"
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc/passwd").write_text("app:x:1000:1000::/:/bin/sh\n", encoding="ascii")
        (root / "etc/group").write_text("app:x:1000:\n", encoding="ascii")
        os.chown(root / "etc/passwd", 1000, 1000)
        tar = subprocess.run(["tar", "-C", str(root), "--numeric-owner", "-c", "."], check=True, capture_output=True).stdout
        self.engine.add_image("localhost/app:1", tar)
        keys = self.engine.work / "to-write/keys"
        keys.write_text("of root", encoding="ascii")
        os.chmod(keys, 0o400)
        spec = SPEC.replace('    image   = "{image}"', '    image   = "{image}"\n    host_paths = {{ "%s" = "/host" }}' % (self.engine.work / "host"))
        spec = spec.replace("  stop_timeout", CHECKED % user + "  stop_timeout")
        alloc = self.run(spec=spec, image="localhost/app:1", script=f"echo '{then}' > /etc/passwd; echo begun; : own-passwd; while true; do sleep 0.2; done")
        self.until(alloc, "RUNNING")

        def ids(word):
            """Uid and Gid lines of the shell with this word."""
            for pid in filter(str.isdigit, os.listdir("/proc")):
                if word in self.words_of(pid):
                    try:
                        with open(f"/proc/{pid}/status", encoding="ascii") as f:
                            lines = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
                    except OSError:
                        continue  # it has ended
                    if lines["Name"] == "sh":
                        return lines["Uid"], lines["Gid"]
            return None

        wait_for("the task to have written", lambda: "begun" in self.room.holdfast("alloc", "logs", alloc).stdout)
        time.sleep(2)  # a check of before may still run
        found = wait_for("a check", lambda: ids(b"; : own-check;"), 30)
        task = ids(b"; : own-passwd;")
        read = os.path.exists(f"{self.node.published(alloc)}/by-the-check")
        if read:
            os.unlink(f"{self.node.published(alloc)}/by-the-check")
        self.room.holdfast("alloc", "stop", alloc, "--timeout", "60s")
        self.nothing_is_left()
        assert found == task == ("\t".join(["1000"] * 4),) * 2, (found, task)
        assert not read, "the check read a file of root"

    def a_check_of_a_named_user_runs_as_the_task_whatever_it_writes_into_passwd(self):
        self.check_of("app", "app:x:0:0::/:/bin/sh")

    def a_check_of_a_number_runs_as_the_task_whatever_it_writes_into_passwd(self):
        self.check_of("1000", f"app:x:1000:{self.engine.DRIVER_ID}::/:/bin/sh")

    def a_user_that_the_image_does_not_know_may_have_a_read_only_root(self):
        """It still writes to /dev/shm, which podman 5 makes read-only with the root."""
        for config in ("", "\n    read_only_root = true"):
            spec = SPEC.replace('stop_timeout = "2s"', 'stop_timeout = "2s"\n  user         = "1234"')
            spec = spec.replace('    image   = "{image}"', '    image   = "{image}"' + config)
            alloc = self.run(spec=spec, script="touch /dev/shm/x || exit 1; trap 'exit 0' TERM; while true; do sleep 0.1; done")
            self.until(alloc, "RUNNING")
            self.room.holdfast("alloc", "stop", alloc, "--timeout", "60s")
            self.nothing_is_left()

    def a_task_has_a_capability_that_root_lists(self):
        """One that no engine gives by default: CAP_NET_ADMIN is bit 12."""
        spec = SPEC.replace('    image   = "{image}"', '    image   = "{image}"\n    cap_add = ["CAP_NET_ADMIN"]')
        spec = spec.replace('stop_timeout = "2s"', 'stop_timeout = "2s"\n  user         = "0"')
        alloc = self.run(spec=spec, script="grep -q 'CapEff:.*0000000000001000' /proc/self/status || exit 1; trap 'exit 0' TERM; while true; do sleep 0.1; done")
        self.until(alloc, "RUNNING")
        self.room.holdfast("alloc", "stop", alloc, "--timeout", "60s")
        self.nothing_is_left()

    def an_image_that_would_run_as_root_starts_nothing_unless_root_allows_it(self):
        self.engine.kill_driver()
        self.start_driver(users='"image"')
        alloc = self.run(script="exit 0")
        self.until(alloc, "FAILED")
        self.nothing_is_left()
        trail = (self.engine.work / "state/trail.log").read_text(encoding="ascii")
        assert "field=user ordered=allowed found=root" in trail, trail[-1000:]
        self.engine.kill_driver()
        self.start_driver()

    def a_node_without_the_driver_is_refused_with_a_line(self):
        spec = self.room.spec("task.hcl", SPEC.format(name="nowhere", script=STAYS, image="localhost/bb:1"))
        done = self.room.holdfast("alloc", "run", spec, "--node", self.room.nodes[1].id, check=False)
        assert "needs driver container, which node node-2 does not have" in done.stderr, done.stderr
        shown = self.room.holdfast("node", "status", self.node.id).stdout
        assert "exec_streaming" in shown and "network_modes none" in shown, shown

    def a_command_runs_in_a_task_with_input_output_and_status(self):
        alloc = self.run()
        self.until_running(alloc)
        cat = self.exec(alloc, "cat; echo $0 >&2; exit 7", b"what goes in\n" * 1000, "-i")
        assert (cat.returncode, cat.stdout, cat.stderr[:3]) == (7, b"what goes in\n" * 1000, b"sh\n"), cat
        seen = self.exec(alloc, "cat /data/hello; read line || echo no input")
        assert (seen.returncode, seen.stdout) == (0, b"hello\nno input\n"), seen
        nobody = self.exec(alloc, "true", None, "--user", "nobodyhere")
        assert nobody.returncode in (1, 126) and b"nobodyhere" in nobody.stdout + nobody.stderr, nobody  # the engine's own words
        large = os.urandom(8 << 20)
        back = self.exec(alloc, "cat", large, "-i")
        assert back.stdout == large, (len(back.stdout), back.returncode, back.stderr[-500:])
        said = self.room.holdfast("operator", "audit", "--json").stdout
        assert "Allocations.Exec" in said and "exit status 7" in said, said[-2000:]
        self.clear(alloc)
        self.stop(alloc)
        late = self.exec(alloc, "true")
        assert late.returncode == 1 and b"has ended, it is complete" in late.stderr, late

    def output_is_read_on_demand_and_followed(self):
        alloc = self.run(script="echo one; echo two >&2; printf 'three\\\\033[2J\\\\302\\\\233J\\\\n'; echo x >> /data/starts; sleep 100000")
        self.until_running(alloc)
        wait_for("the output", lambda: self.room.holdfast("alloc", "logs", alloc).stdout == "one\nthree\033[2J\x9bJ\n")
        words = f"{PREFIX}/bin/holdfast --dev-dir {PREFIX}/var/server alloc logs {alloc}"
        seen = subprocess.run(["script", "-qec", words, "/dev/null"], check=True, stdout=subprocess.PIPE)
        assert b"three?[2J??J" in seen.stdout and b"\033" not in seen.stdout, seen  # nothing drives a terminal
        assert self.room.holdfast("alloc", "logs", alloc, "--stderr").stderr == "two\n"
        last = self.room.holdfast("alloc", "logs", alloc, "--tail", "1")
        assert (last.stdout + last.stderr).count("\n") == 1, last
        used = self.room.holdfast("alloc", "stats", alloc, "--json", "--timeout", "3s", check=False)
        # podman says nothing without cgroups, which it does not have here, and Docker only when it was
        assert "time_ms" in used.stdout or "TaskStats answered" in used.stderr, used
        self.clear(alloc)
        self.stop(alloc)

    def what_is_not_collected_logs_reports_it(self):
        spec = SPEC.replace("  stop_timeout", "  logs {{\n    disabled = true\n  }}\n  stop_timeout")
        alloc = self.run(script="echo one; " + STAYS, spec=spec)
        self.until_running(alloc)
        done = self.room.holdfast("alloc", "logs", alloc, check=False)
        assert done.returncode == 1 and not done.stdout and "logs { disabled = true }" in done.stderr, done
        self.clear(alloc)
        self.stop(alloc)
        done = self.room.holdfast("alloc", "logs", alloc, check=False)
        assert done.returncode == 1 and not done.stdout and "no output of it" in done.stderr, done

    def a_restart_of_agent_driver_and_server_restarts_no_task(self):
        alloc = self.run()
        self.until_running(alloc)
        before = self.containers()
        self.kill_agent()
        self.engine.kill_driver()
        self.start_driver()
        self.kill_agent()
        self.room.server.kill(signal.SIGKILL)
        self.room.start_server()
        self.node.wait_connected()
        self.until_running(alloc)
        assert self.containers() == before
        assert self.starts(alloc) == 1
        self.clear(alloc)
        self.stop(alloc)

    def a_task_that_fails_fails_its_allocation_and_leaves_nothing(self):
        alloc = self.run(script="echo begun; echo why it fails >&2; exit 3")
        found = self.until(alloc, "FAILED")
        assert "exit status 3" in found["client_description"], found
        assert found["task_status"][0]["result"]["exit_code"] == 3, found
        events = self.room.json("alloc", "status", alloc)["allocation"]["events"]
        types = [e["type"].removeprefix("ALLOCATION_EVENT_TYPE_") for e in events]
        assert types[:3] == ["RECEIVED", "PLACED", "MOUNTED"] and types[-1] == "FAILED", events
        (ended,) = [e for e, t in zip(events, types) if t == "TASK_ENDED"]
        assert ended["text"] == "exit status 3" and ended["task"] == "main", events
        self.nothing_is_left()
        said = self.room.holdfast("alloc", "logs", alloc)
        assert said.stdout + said.stderr == "begun\nwhy it fails\n", said
        assert self.room.holdfast("alloc", "logs", alloc, "--stderr", "--follow").stderr == "why it fails\n"

    def a_task_that_crashed_is_restarted_on_the_same_mounts(self):
        """Without the server, by an agent that is killed while it waits, under the claim of before."""
        spec = SPEC.replace("stop_timeout", RESTARTS.replace("{attempts}", "3"))
        alloc = self.run(spec=spec)
        self.until_running(alloc)
        mounts, claims, containers = self.node.mounts(), self.room.live_claims(), self.containers()
        assert len(mounts) > 0 and len(claims) == 1 and len(containers) == 1, (mounts, claims, containers)
        self.crash(alloc, 2)
        wait_for("the restart to be counted", lambda: self.restarts(alloc, 1))
        self.room.server.kill(signal.SIGKILL)
        self.crash(alloc, 3)
        self.kill_agent_only()
        wait_for("the task to have started again", lambda: self.starts(alloc) == 3)
        self.room.start_server()
        self.node.wait_connected()
        found = wait_for("the restarts to be known", lambda: self.restarts(alloc, 2))
        assert self.node.mounts() == mounts, (self.node.mounts(), mounts)
        assert [c["id"] for c in self.room.live_claims()] == [c["id"] for c in claims]
        assert self.containers() == containers
        assert found["client_status"] == "RUNNING" and not found.get("client_description"), found
        events = [(e["type"].removeprefix("ALLOCATION_EVENT_TYPE_"), e.get("text")) for e in found["events"]]
        assert ("TASK_RESTARTED", "1 times in all") in events or ("TASK_RESTARTED", "2 times in all") in events, events
        assert not [e for e in events if e[0] in ("UNMOUNTED", "FAILED")], events
        self.clear(alloc)
        self.stop(alloc)

    def a_task_that_crashes_too_often_fails_its_allocation(self):
        alloc = self.run(script="exit 3", spec=SPEC.replace("stop_timeout", RESTARTS.replace("{attempts}", "1")))
        found = self.until(alloc, "FAILED")
        assert found["task_status"][0]["restarts"] == 1, found
        assert "exit status 3" in found["client_description"], found
        self.nothing_is_left()

    def a_health_check_is_shown_with_its_changes(self):
        alloc = self.run(spec=SPEC.replace("stop_timeout", RESTARTS.replace("{attempts}", "1")))
        self.until_running(alloc)
        wait_for("the task to be unhealthy", lambda: self.health(alloc) == "unhealthy")
        assert int(self.status(alloc).get("healthy_time_ms", 0)) == 0
        assert self.exec(alloc, "touch /var/healthy").returncode == 0
        wait_for("the task to be healthy", lambda: self.health(alloc) == "healthy")
        found = self.status(alloc)
        assert int(found["healthy_time_ms"]) > 0 and int(found.get("unhealthy_time_ms", 0)) == 0, found
        assert [e["text"] for e in found["events"] if e["type"].endswith("TASK_HEALTH")] == ["unhealthy", "healthy"], found
        self.clear(alloc)
        self.stop(alloc)

    def an_update_whose_health_check_fails_ends_at_its_deadline_and_says_why(self):
        def submit(check, deadline):
            spec = self.room.spec("job.hcl", JOB.format(check=check, deadline=deadline))
            return self.room.holdfast("job", "run", spec, check=False)

        def job():
            return self.room.json("job", "status", "checked")

        wait_for("the server to know the driver", self.driver_is_healthy)
        done = submit("true", "1m")
        assert done.returncode == 0 and job()["job"]["update_status"] == "JOB_UPDATE_STATUS_DONE", done.stderr
        done = submit("test -e /never", "8s")
        assert done.returncode == 1 and "was not healthy in time" in done.stderr, done.stderr
        found = job()
        assert found["job"]["update_status"] == "JOB_UPDATE_STATUS_FAILED", found
        assert [w for w in found["waits"] if "a health check fails" in w["text"]], found
        assert [m for m in found["placed"] if "a health check fails: task main" in m["text"]], found
        audit = self.room.holdfast("operator", "audit").stdout
        assert "a health check fails: task main" in audit, audit[-1500:]
        done = self.room.holdfast("job", "revert", "checked", check=False)
        assert done.returncode == 0 and job()["job"]["update_status"] == "JOB_UPDATE_STATUS_DONE", done.stderr
        assert "reverted to version 1" in done.stdout, done.stdout
        self.room.holdfast("job", "stop", "checked")
        wait_for("the claim to be free", lambda: not self.room.live_claims(), 60)
        self.nothing_is_left()
        with open(self.node.trail, encoding="ascii") as trail:
            unmounted = re.findall(r" op=unpublish phase=result .* alloc=(\S+) .* status=ok ", trail.read())
        assert len(unmounted) >= 3 and len(set(unmounted)) == len(unmounted), unmounted

    def a_task_that_ends_with_success_completes_its_allocation(self):
        alloc = self.run(script="exit 0")
        self.until(alloc, "COMPLETE")
        self.nothing_is_left()

    def an_image_with_annotations_for_the_runtime_starts_nothing(self):
        if self.engine.engine != "podman":
            return  # Docker takes no annotations from images
        with socket.socket(socket.AF_UNIX) as of_host:
            path = f"{self.engine.work}/of-host.sock"
            of_host.bind(path)
            of_host.listen()
            of_host.setblocking(False)
            self.engine.add_annotated_image("localhost/annotated:1", {"run.oci.pidfd_receiver": path})
            alloc = self.run(image="localhost/annotated:1")
            if self.engine.suite:  # podman 5 does not copy them
                self.until_running(alloc)
                self.clear(alloc)
                self.stop(alloc)
            else:
                found = self.until(alloc, "FAILED")
                assert "annotations is 'run.oci.pidfd_receiver'" in found["client_description"], found
            try:
                of_host.accept()
            except BlockingIOError:
                pass
            else:
                raise AssertionError("the runtime, as root, connected to a socket of the host that the image names")
        self.nothing_is_left()

    def a_check_of_the_image_never_runs(self):
        self.engine.add_image("localhost/checked:1", self.engine.image_tar, change="HEALTHCHECK --interval=1s CMD /bin/touch /data/checked")
        alloc = self.run(image="localhost/checked:1")
        self.until_running(alloc)
        (container,) = self.containers()
        found = json.loads(self.engine.ask("GET", f"/containers/{container}/json")[1])
        api = "/libpod" if self.engine.engine == "podman" else ""
        image = json.loads(self.engine.ask("GET", f"{api}/images/localhost%2Fchecked:1/json")[1])
        assert "/data/checked" in str([image.get(k) for k in ("Healthcheck", "HealthCheck")] + [image["Config"].get("Healthcheck")]), image
        check = (found["Config"].get("Healthcheck") or {}).get("Test")
        assert check == ["NONE"] and (found["State"].get("Health") or {}).get("Status", "") in ("", "none"), found
        self.clear(alloc)
        self.stop(alloc)
        self.nothing_is_left()

    def what_roots_file_does_not_allow_is_refused_with_its_reason(self):
        spec = self.room.spec("task.hcl", SPEC.format(name="other", script=STAYS, image="localhost/other:1"))
        done = self.room.holdfast("alloc", "run", spec, "--node", self.node.id, check=False)
        line = f"config.image 'localhost/other:1', which root's file of driver container on node {self.node.id} does not allow"
        assert done.returncode == 1 and line in done.stderr, done.stderr
        assert not self.room.live_claims(), "nothing is claimed first"
        self.nothing_is_left()

    def no_volume_is_unmounted_while_the_driver_is_away(self):
        alloc = self.run()
        self.until_running(alloc)
        self.engine.kill_driver()
        self.room.holdfast("alloc", "stop", alloc, "--no-wait")
        wait_for("the claim to say what it waits for",
                 lambda: "container" in str(self.room.live_claims()[0].get("last_error", "")))
        assert len(self.node.mounts()) == 2, self.node.mounts()
        assert len(self.containers()) == 1
        self.clear(alloc)
        self.start_driver()
        self.until(alloc, "COMPLETE")
        self.nothing_is_left()

    def a_network_is_shared_by_the_tasks_of_an_allocation_and_by_nobody_else(self):
        with socket.socket() as of_host:
            of_host.bind(("127.0.0.1", 0))
            of_host.listen()
            alloc = self.in_network("isolated", one=SERVES, two="sleep 100000")
            self.until_running(alloc)
            assert "isolated" in self.room.holdfast("alloc", "status", alloc).stdout
            nc = "/bin/busybox nc -w 5 127.0.0.1"
            wait_for("one task to reach the other over loopback",
                     lambda: self.exec(alloc, f"{nc} 7000 < /dev/null", None, "two").stdout == b"hello from one\n")
            missed = self.exec(alloc, f"{nc} {of_host.getsockname()[1]} < /dev/null", None, "two")
            assert missed.returncode not in (0, 255), missed
            with socket.socket() as s:
                assert s.connect_ex(("127.0.0.1", 7000)) != 0
        own = {self.exec(alloc, "/bin/busybox readlink /proc/self/ns/net", None, task).stdout for task in ("one", "two")}
        assert len(own) == 1 and own != {os.readlink("/proc/self/ns/net").encode() + b"\n"}, own
        before = self.containers()
        assert len(before) == 3, before
        found = [json.loads(self.engine.ask("GET", f"/containers/{c}/json")[1]) for c in before]
        (stops_by,) = [c["Config"]["StopSignal"] for c in found if "holdfast-net-" in c["Name"]]
        assert stops_by in ("9", "SIGKILL"), stops_by  # or podman waits 10 s before it removes it
        self.kill_agent()
        self.until_running(alloc)
        assert self.containers() == before and self.starts(alloc) == 1
        self.clear(alloc)
        self.stop(alloc)

    def what_network_roots_file_does_not_allow_is_refused(self):
        self.in_network("host", check=False, one=STAYS)
        done = self.room.holdfast(*self.submission, check=False)
        line = f"task one asks for network host, which driver container of node {self.node.id} does not offer"
        assert done.returncode == 1 and line in done.stderr, done.stderr
        self.nothing_is_left()

    def an_agent_killed_at_any_moment_leaves_no_network(self):
        for delay in range(8):
            alloc = self.in_network("isolated", one="echo started >> /data/starts; sleep 100000", two="sleep 100000")
            time.sleep(delay * 0.06)  # wherever it is by then
            self.kill_agent()
            self.until_running(alloc)
            assert self.starts(alloc) == 1 and len(self.containers()) == 3
            self.clear(alloc)
            self.room.holdfast("alloc", "stop", alloc, "--no-wait")
            time.sleep(delay * 0.06)
            self.kill_agent()
            self.stop(alloc)
            alloc = self.in_network("isolated", one="sleep 100000")  # and one that is stopped before it runs
            time.sleep(delay * 0.06)
            self.room.holdfast("alloc", "stop", alloc, "--no-wait")
            self.kill_agent()
            self.stop(alloc)

    def a_driver_killed_at_any_moment_leaves_no_network(self):
        for delay in range(6):
            alloc = self.in_network("isolated", one="echo started >> /data/starts; sleep 100000", two="sleep 100000")
            time.sleep(0.1 + delay * 0.15)  # before, while and after the network is made
            self.engine.kill_driver()
            self.start_driver()
            self.until_running(alloc)
            assert self.starts(alloc) == 1 and len(self.containers()) == 3
            self.clear(alloc)
            self.room.holdfast("alloc", "stop", alloc, "--no-wait")
            time.sleep(delay * 0.3)
            self.engine.kill_driver()
            self.start_driver()
            self.stop(alloc)

    def an_agent_killed_at_any_moment_starts_a_task_once(self):
        for delay in range(8):
            alloc = self.run()
            time.sleep(delay * 0.06)  # wherever it is by then
            self.kill_agent()
            self.until_running(alloc)
            assert self.starts(alloc) == 1 and len(self.containers()) == 1
            self.clear(alloc)
            self.room.holdfast("alloc", "stop", alloc, "--no-wait")
            time.sleep(delay * 0.06)
            self.kill_agent()
            self.stop(alloc)


def cases(engine, named):
    """Yields (name, why it failed or None) for each case of Flow and Execs whose name the pattern is in, in their order."""
    flow = Flow(engine)
    try:
        flow.open()
        for name, case in [*vars(Flow).items(), *vars(Execs).items()]:
            if not name.startswith(("a_", "an_", "no_", "what_", "output_")) or not re.search(named, name):
                continue
            try:
                case(flow)
                yield name, None
            except Exception:  # noqa: BLE001 a case that fails is told, and the next one is tried
                yield name, traceback.format_exc() + flow.node.daemon.said()[-3000:] + flow.room.holdfast("operator", "audit", check=False).stdout[-1500:]
                return
    finally:
        flow.close()
