"""Each CSI call fails, hangs, dies with its plugin or lies; the first time it is made, and after agent, server and plugin were
started anew. Every volume ends deleted, or the reason that it cannot is told; nothing is left mounted, and no rule of CSI
is broken.

All cases share one world and run side by side, each with a volume of its own.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import signal
import threading
import time
import unittest

from case import CsiTest, Failure, wait_for

AT_A_TIME = 8
SETTLE_SECONDS = 40
ASK_SECONDS = 6  # until a fault that stands is told
CALM, MORTAL = "calm", "mortal"  # deaths are of a plugin of their own

# The step of a volume's life that makes each call.
STEPS = {
    "CreateVolume": "create",
    "ControllerPublishVolume": "run",
    "NodeStageVolume": "run",
    "NodePublishVolume": "run",
    "ControllerExpandVolume": "expand",
    "NodeExpandVolume": "expand",
    "CreateSnapshot": "snapshot",
    "NodeUnpublishVolume": "stop",
    "NodeUnstageVolume": "stop",
    "ControllerUnpublishVolume": "stop",
    "DeleteSnapshot": "forget",
    "DeleteVolume": "delete",
}
ORDER = ["create", "run", "expand", "snapshot", "forget", "stop", "delete"]
FAULTS = ("error", "hang", "death", "lie")
WHEN = ("first", "restarted")
# A provider that lied about these keeps what nobody knows of any more.
KEEPS = ("CreateVolume", "DeleteVolume")
# One that lied about these refuses to delete.
FORGETS = ("NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume")


@dataclasses.dataclass
class Case:
    method: str
    fault: str
    when: str
    number: int
    told: str = ""  # all that an operator was shown while the fault stood
    why: str = ""  # of that, what the server knows: volume status --why
    status: str = ""  # and alloc status
    snapshot: str = ""
    external: str = ""
    wrong: str = ""

    @property
    def plugin_id(self):
        return MORTAL if self.fault == "death" else CALM

    @property
    def name(self):
        return f"{self.method}-{self.fault}-{self.when}".lower()

    @property
    def step(self):
        return STEPS[self.method]

    @property
    def alloc(self):
        return f"0192f3a0-0000-7000-8000-{self.number:012d}"

    @property
    def text(self):
        return f"as ordered for {self.name}"


CASES = [Case(method, fault, when, number) for number, (method, fault, when) in enumerate(
    (m, f, w) for m in STEPS for f in FAULTS for w in WHEN)]


class Supervisor:
    """Starts plugins that have died, as a service manager does."""

    def __init__(self, plugins):
        self.plugins, self.is_over, self.lock = plugins, False, threading.Lock()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.is_over:
            with self.lock:
                for one in self.plugins:
                    if not one.alive():
                        one.restart()
            time.sleep(0.1)

    def close(self):
        self.is_over = True
        self.thread.join()


class TestMatrix(CsiTest):
    NODES = 1
    forgetting = threading.Lock()
    PLUGINS = {CALM: "grpcio", MORTAL: "grpc-js"}
    AGENT_SETTINGS = 'plugin_probe_interval = "500ms"\nplugin_wait = "3s"\nplugin_call_timeout = "1500ms"\n'
    SERVER_SETTINGS = 'controller_timeout = "2s"\n'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.node = cls.world.nodes[0]
        cls.supervisor = Supervisor(list(cls.plugins.values()))
        cls.addClassCleanup(cls.supervisor.close)
        runner = cls("run_all")
        runner.setUp()
        runner.run_all()

    def run_all(self):
        first, restarted = ([case for case in CASES if case.when == when] for when in WHEN)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            self.each(pool, restarted, self.prepare)
            self.restart_everything()
            self.each(pool, restarted, self.suffer)
            self.each(pool, first, lambda case: (self.prepare(case), self.suffer(case)))

    def each(self, pool, cases, what):
        def one(case):
            try:
                if not case.wrong:
                    what(case)
            except (Failure, AssertionError, KeyError, OSError) as error:
                case.wrong = f"{type(error).__name__}: {error}"

        list(pool.map(one, cases))

    def restart_everything(self):
        with self.supervisor.lock:
            for one in self.plugins.values():
                one.kill()
        self.node.daemon.kill(signal.SIGKILL)
        self.world.server.kill(signal.SIGKILL)
        self.world.start_server()
        self.node.start()
        self.node.wait_connected()
        for plugin_id in self.PLUGINS:
            self.world.wait_plugin(plugin_id, self.NODES, self.NODES)

    # --- the steps of a life ------------------------------------------------------------------------------

    def take(self, case, step, check=True):
        """One step; returns what was said."""
        volume = case.name
        attachment = "block-device" if case.step == "expand" else "file-system"
        if step == "create":
            done = self.create(volume, case.plugin_id, check=check, attachment=attachment, size="8MiB")
        elif step == "run":
            done = self.run_alloc(case.alloc, (volume, "single-node-writer", {"attachment_mode": f'"{attachment}"'}),
                                  check=check, wait=check)
        elif step == "expand":
            done = self.holdfast("volume", "expand", volume, "16MiB", check=check)
        elif step == "snapshot":
            done = self.holdfast("volume", "snapshot", "create", volume, f"s-{volume}", "--json", check=check)
            if done.returncode == 0:
                case.snapshot = json.loads(done.stdout)["snapshot"]["snapshot_id"]
        elif step == "forget":
            done = self.holdfast("volume", "snapshot", "delete", case.plugin_id, case.snapshot, "--yes", check=check)
        elif step == "stop":
            done = self.holdfast("alloc", "stop", case.alloc, *(["--timeout", "20s"] if check else ["--no-wait"]),
                                 check=check)
        else:
            done = self.delete(volume, check=check)
        return done.stdout + done.stderr

    def steps(self, case):
        """Those that this case goes through."""
        needless = {"expand": "expand", "snapshot": "snapshot", "forget": "snapshot"}
        return [step for step in ORDER if step not in needless or case.step == step
                or (step == "snapshot" and case.step == "forget") or (step == "forget" and case.step == "snapshot")]

    def prepare(self, case):
        """Everything before the step that is hit."""
        for step in self.steps(case):
            if step == case.step:
                break
            self.settle(case, step)  # another case's plugin may die in it
        if case.step != "create":
            case.external = self.external(case.name)

    def arm(self, case):
        key = {"name": case.name} if case.step == "create" else {"volume": case.external}
        if case.method == "DeleteSnapshot":
            key = {}  # it names no volume: of two cases at once one would have the other's fault
        do = {"error": "fail", "hang": "hang", "death": "die", "lie": "lie"}[case.fault]
        times = 1 if case.fault == "death" or not key else None
        more = {"code": "INTERNAL", "text": case.text} if case.fault == "error" else {}
        return self.world.storage(case.plugin_id).orders.order(case.method, do, times=times, **key, **more)

    def suffer(self, case):
        """The step with its fault, what is told of it, and the rest of the life without."""
        with self.forgetting if case.step == "forget" else contextlib.nullcontext():
            order = self.arm(case)
            try:
                case.told = self.take(case, case.step, check=False)
                self.listen(case)
                if case.step == "run":
                    self.insist(case)
            finally:
                self.world.storage(case.plugin_id).orders.take_back(order)
        self.finish(case)

    def insist(self, case):
        """While another case's death keeps the plugin away the server takes no allocation for it."""
        wait_for(f"{case.name} to be taken", lambda: self.holdfast(
            "alloc", "status", case.alloc, check=False).returncode == 0 or not self.take(case, "run", check=False))

    def listen(self, case):
        """What an operator is shown while the fault stands, until it says what the test wants."""
        deadline = time.monotonic() + ASK_SECONDS
        while not self.is_explained(case) and time.monotonic() < deadline:
            was_waiting = self.is_waiting(case)
            time.sleep(0.3)
            for args in (["volume", "status", case.name, "--why"], ["alloc", "status", case.alloc],
                         ["agent", "status", "--socket", self.node.socket]):
                done = self.holdfast(*args, check=False)
                case.told += done.stdout + done.stderr
                case.why += done.stdout if args[0] == "volume" else ""
                case.status += done.stdout if args[0] == "alloc" else ""
            if case.fault in ("death", "lie") and not was_waiting:
                return

    def is_waiting(self, case):
        """Is the step still under way?"""
        if case.step not in ("run", "stop"):
            return False
        done = self.holdfast("alloc", "status", case.alloc, "--json", check=False)
        return done.returncode == 0 and json.loads(done.stdout)["allocation"]["client_status"] in ("PENDING", "RUNNING")

    def is_explained(self, case):
        if case.fault == "error":
            return case.text in case.told
        if case.fault == "lie" and case.method == "NodePublishVolume":
            return "answered OK to NodePublishVolume and mounted nothing" in case.told
        if case.fault == "hang" and case.step == "run":
            return all(word in text for word in (case.method, case.plugin_id) for text in (case.why, case.status))
        if case.fault == "hang" and case.step == "stop":
            return case.method in case.why
        return case.method in case.told

    def finish(self, case):
        """Without the fault everything ends by the usual commands."""
        left = self.steps(case)[self.steps(case).index(case.step):]
        if case.step == "run":
            left = ["stop", "delete"]
        elif case.fault == "lie" and case.step in ("create", "snapshot", "forget"):
            left = [step for step in left if step in ("stop", "delete")]
            left = left if case.step != "create" else ["delete"]
        for step in left:
            if step == "delete" and case.fault == "lie" and case.method in FORGETS:
                self.let_provider_forget(case)
            self.settle(case, step)
        wait_for(f"{case.name} to be forgotten", lambda: self.is_gone(case), SETTLE_SECONDS)

    def let_provider_forget(self, case):
        """Who was lied to about a release cannot know that the provider still counts the volume as used: its refusal is
        quoted, and the provider's to mend."""
        wait_for(f"{case.name} to be free", lambda: not self.world.live_claims(case.name))
        refused = self.delete(case.name, check=False)
        if refused.returncode != 0 and "is in use on" not in refused.stderr:
            raise Failure(f"{case.name}: not explained: {refused.stderr}")
        with self.world.storage(case.plugin_id).state.locked() as data:
            for volumes in [*data["nodes"].values(), data["attached"]]:
                volumes.pop(case.external, None)

    def settle(self, case, step):
        """A command that an operator repeats until it went through."""
        said = ""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            try:
                with self.forgetting if step == "forget" else contextlib.nullcontext():
                    said = self.take(case, step)
                return
            except Failure as error:
                said = str(error)
                if "not_found" in said or "no volume" in said or "is not known" in said:
                    return
                time.sleep(0.5)
        raise Failure(f"{step} of {case.name} did not go through: {said}; {self.why(case.name)[-1500:]}")

    def is_gone(self, case):
        return self.holdfast("volume", "status", case.name, check=False).returncode != 0

    # --- what must be true --------------------------------------------------------------------------------

    def assert_case(self, case):
        self.assertEqual(case.wrong, "", case.told[-1500:])
        if case.fault in ("error", "hang") or (case.fault, case.method) == ("lie", "NodePublishVolume"):
            self.assertTrue(self.is_explained(case), f"{case.name} is not explained: {case.told[-1500:]}")

    def test_nothing_is_left_mounted(self):
        self.assert_nothing_mounted()

    def test_no_rule_of_csi_was_broken(self):
        self.assert_no_breach()

    def test_the_providers_keep_nothing_that_nobody_knows(self):
        kept = [case.external for case in CASES if case.fault == "lie" and case.method in KEEPS]
        for plugin_id in self.PLUGINS:
            found = self.world.storage(plugin_id).volumes()
            self.assertEqual([volume for volume in found if volume not in kept], [])

    def test_the_trails_hold(self):
        self.assert_trails_hold()


def add_cases():
    for case in CASES:
        def check(self, case=case):
            self.assert_case(case)

        setattr(TestMatrix, "test_" + case.name.replace("-", "_"), check)


add_cases()

if __name__ == "__main__":
    unittest.main()
