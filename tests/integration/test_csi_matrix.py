# SPDX-License-Identifier: Apache-2.0
"""Each CSI call fails, hangs, dies with its plugin or lies; the first time it is made, and after agent, server and plugin were
started anew. Every volume ends deleted, or the reason that it cannot is told; nothing is left mounted, and no rule of CSI
is broken. HOLDFAST_SAMPLE chooses the cases that run (tests/support/sample.h).

All cases share one world and run side by side, each with a volume of its own. The calls by which an agent asks a plugin
about itself are made when it appears: there each call and fault has a plugin of its own as well.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest

from case import ID_MARK, CsiTest, Failure, wait_for

from plugin import STACKS

import sample

METHODS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../agent/csi/csi_method.c")
AT_A_TIME = 12
SETTLE_SECONDS = 40
ASK_SECONDS = 10  # until a fault that stands is told
CALM = "calm"
MORTAL = [f"mortal-{i}" for i in range(4)]  # whose deaths disturb some others' alone

# The step of a volume's life that makes each call.
STEPS = {
    "Probe": "appear",  # of the plugin
    "GetPluginInfo": "appear",
    "GetPluginCapabilities": "appear",
    "ControllerGetCapabilities": "appear",
    "NodeGetCapabilities": "appear",
    "NodeGetInfo": "appear",
    "ValidateVolumeCapabilities": "register",
    "CreateVolume": "create",
    "ControllerPublishVolume": "run",
    "NodeStageVolume": "run",
    "NodePublishVolume": "run",
    "ListVolumes": "list",
    "ListSnapshots": "list-snapshots",
    "ControllerExpandVolume": "expand",
    "NodeExpandVolume": "expand",
    "CreateSnapshot": "snapshot",
    "NodeUnpublishVolume": "stop",
    "NodeUnstageVolume": "stop",
    "ControllerUnpublishVolume": "stop",
    "DeleteSnapshot": "forget",
    "DeleteVolume": "delete",
}
ORDER = ["register", "create", "run", "list", "list-snapshots", "expand", "snapshot", "forget", "stop", "delete"]
FAULTS = ("error", "hang", "death", "lie")
WHEN = ("first", "restarted")
# Calls that name no volume: of two cases at once one would have the other's fault.
ALONE = {step: threading.Lock() for step in ("list", "list-snapshots", "forget")}
# Lies that show, and by what. Of the others nothing needs to be told: what they concern is released.
SHOWN = {
    "Probe": "Probe: it reports that it is not ready",
    "GetPluginInfo": "GetPluginInfo: the name is empty",
    "NodeGetInfo": "NodeGetInfo: the node id is empty",
    ("GetPluginCapabilities", "first"): "cannot create and delete volumes: it has no controller",
    ("GetPluginCapabilities", "restarted"): "no connected node runs a healthy controller",
    ("ControllerGetCapabilities", "first"): "cannot create and delete volumes: its controller does not offer it",
    ("ControllerGetCapabilities", "restarted"): "so ControllerUnpublishVolume was not called",
    ("NodeGetCapabilities", "first"): "NodePublishVolume answered FAILED_PRECONDITION",
    "ValidateVolumeCapabilities": "ControllerPublishVolume answered INVALID_ARGUMENT: ext4 is of one node",
    "NodePublishVolume": "answered OK to NodePublishVolume and mounted nothing",
}
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
    is_created: bool = False
    wrong: str = ""

    @property
    def plugin_id(self):
        if self.step == "appear":
            return f"{self.method}-{self.fault}".lower()
        return MORTAL[list(STEPS).index(self.method) % len(MORTAL)] if self.fault == "death" else CALM

    @property
    def name(self):
        return f"{self.method}-{self.fault}-{self.when}".lower()

    @property
    def step(self):
        return STEPS[self.method]

    @property
    def alloc(self):
        return f"0192f3a0-{self.number:04d}-7000-{ID_MARK}"

    @property
    def shown(self):
        """By what a lie shows, if it does."""
        return SHOWN.get(self.method) or SHOWN.get((self.method, self.when))

    @property
    def text(self):
        return f"as ordered for {self.name}"

    @property
    def mode(self):
        """A lie about what a volume can shows when it cannot."""
        is_lie = (self.method, self.fault) == ("ValidateVolumeCapabilities", "lie")
        return "multi-node-multi-writer" if is_lie else "single-node-writer"


CASES = [Case(*row, number) for number, row in enumerate(itertools.product(STEPS, FAULTS, WHEN))]
# those that run; by the method too, so that a part has each fault and both times
SAMPLED = [case for case in CASES if sample.has(case.number + case.number // (len(FAULTS) * len(WHEN)))]
APPEARING = list(dict.fromkeys(case.plugin_id for case in SAMPLED if case.step == "appear"))


def is_told(words, text):
    """In one line."""
    return any(all(word in line for word in words) for line in text.splitlines())


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
    # those that appear are started so often that it counts which stack is ready sooner
    PLUGINS = {CALM: "grpcio", **{name: STACKS[i // 2] for i, name in enumerate(MORTAL)},
               **dict.fromkeys(APPEARING, "grpcio")}
    KINDS = {CALM: ["monolith", None],
             **{name: ["monolith", None] if i % 2 else [None, "monolith"] for i, name in enumerate(MORTAL)},
             **{name: [None, None] for name in APPEARING}}
    AGENT_SETTINGS = 'plugin_probe_interval = "2s"\nplugin_wait = "3s"\nplugin_call_timeout = "1500ms"\n'
    SERVER_SETTINGS = 'controller_timeout = "2s"\n'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.appeared = {}  # plugin id: its process
        for plugin_id in cls.PLUGINS:
            cls.world.storage(plugin_id)  # its folder, while nobody may be removing what the world has made
        cls.supervisor = Supervisor(list(cls.plugins.values()))
        cls.addClassCleanup(cls.supervisor.close)
        runner = cls("run_all")
        runner.setUp()
        runner.run_all()

    def run_all(self):
        first, restarted = ([case for case in SAMPLED if case.when == when] for when in WHEN)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            self.each(pool, first, lambda case: (self.prepare(case), self.suffer(case)))
            self.each(pool, restarted, self.prepare)
            self.restart_everything()
            self.each(pool, restarted, self.suffer)

    def each(self, pool, cases, what):
        def one(case):
            try:
                if not case.wrong:
                    what(case)
            except (Failure, AssertionError, KeyError, OSError, RuntimeError, subprocess.TimeoutExpired) as error:
                case.wrong = f"{type(error).__name__}: {error}"

        list(pool.map(one, cases))

    def restart_everything(self):
        """Plugins that appear have ended already, and are started by the cases that wait for them."""
        with self.supervisor.lock:
            for one in self.plugins.values():
                one.kill()
        for node in self.world.nodes:
            node.daemon.kill(signal.SIGKILL)
        self.world.server.kill(signal.SIGKILL)
        self.world.start_server()
        self.world.start_agents()
        for plugin_id in self.PLUGINS:
            self.wait_plugin(plugin_id)

    def node_of(self, case):
        """A node has not room for all the plugins."""
        if case.step == "appear":
            return self.world.nodes[APPEARING.index(case.plugin_id) % 2]
        return self.world.nodes[0 if self.KINDS[case.plugin_id][0] else 1]

    # --- the steps of a life ------------------------------------------------------------------------------

    def take(self, case, step, check=True):
        """One step; returns what was said."""
        volume = case.name
        attachment = "block-device" if case.step == "expand" else "file-system"
        if step == "register":
            done = self.register(volume, case.plugin_id, check=check, modes=[case.mode],
                                 more=f'external_id = "{case.external}"\n')
        elif step == "create":
            kind = "bind" if case.step == "appear" else "ext4"
            done = self.create(volume, case.plugin_id, check=check, attachment=attachment, size="8MiB", kind=kind)
            case.is_created = done.returncode == 0
        elif step == "run":
            done = self.run_alloc(case.alloc, (volume, case.mode, {"attachment_mode": f'"{attachment}"'}),
                                  node=self.node_of(case), check=check, wait=check)
        elif step == "list":
            done = self.holdfast("volume", "external", case.plugin_id, check=check)
        elif step == "list-snapshots":
            done = self.holdfast("volume", "snapshot", "list", "--plugin", case.plugin_id, check=check)
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
        wanted = {"run", "stop", "delete", case.step, "register" if case.step == "register" else "create"}
        if case.step in ("snapshot", "forget"):
            wanted |= {"snapshot", "forget"}
        return [step for step in ORDER if step in wanted]

    def prepare(self, case):
        """Everything before the step that is hit."""
        if case.step == "register":
            case.external = f"old-{case.name}"
            self.world.storage(case.plugin_id).add_volume(case.external, size=8 << 20)
        before = self.steps(case)[:self.steps(case).index(case.step)] if case.step != "appear" else []
        if (case.step, case.when) == ("appear", "restarted"):
            self.appear(case)
            before = ["create", "run"]
        for step in before:
            self.settle(case, step)  # another case's plugin may die in it
        if "stop" in before:
            self.wait_free(case.name)
        if "create" in before:
            case.external = self.external(case.name)
        if case.step == "appear":
            self.disappear(case)

    def arm(self, case):
        key = {} if case.step in ("appear", *ALONE) else {"volume": case.external}
        if case.step == "create":
            key = {"name": case.name}
        do = {"error": "fail", "hang": "hang", "death": "die", "lie": "lie"}[case.fault]
        times = 1 if case.fault == "death" or case.step in ALONE else None
        more = {"code": "INTERNAL", "text": case.text} if case.fault == "error" else {}
        return self.world.storage(case.plugin_id).orders.order(case.method, do, times=times, **key, **more)

    def suffer(self, case):
        """The step with its fault, what is told of it, and the rest of the life without."""
        with ALONE.get(case.step, contextlib.nullcontext()):
            order = self.arm(case)
            try:
                if case.step == "appear":
                    self.appear(case)
                else:
                    case.told = self.take(case, case.step, check=False)
                if case.step == "register" and case.fault == "lie":
                    case.told += self.take(case, "run", check=False)
                self.listen(case)
                if case.step == "run":
                    self.insist(case)
            finally:
                self.world.storage(case.plugin_id).orders.take_back(order)
        if case.step == "appear":
            self.heal(case)
        self.finish(case)

    def appear(self, case):
        """The plugin starts: for the first time, or as a volume of it waits to be released."""
        known = self.appeared.get(case.plugin_id)
        if known:
            known.restart()
        else:
            self.appeared[case.plugin_id] = self.world.start_plugin(
                case.plugin_id, self.PLUGINS[case.plugin_id], self.node_of(case))

    def disappear(self, case):
        """Nobody asks for it until it is there again."""
        one = self.appeared.get(case.plugin_id)
        if one and one.process:
            one.kill()
            os.unlink(one.socket)

    def want(self, case):
        """What an appearing plugin is needed for."""
        if case.when == "restarted":
            case.told += self.take(case, "stop", check=False)
            return
        if not case.is_created:
            case.told += self.take(case, "create", check=False)
        if case.is_created:
            case.told += self.take(case, "run", check=False)

    def heal(self, case):
        """What was not true is not asked again, and who died needs starting; the rest passes."""
        own = self.appeared[case.plugin_id]
        if case.fault == "lie" or not own.alive():
            own.restart()
        self.world.wait_plugin(case.plugin_id, 1, 1)

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
            if case.step == "appear":
                self.want(case)
            for args in (["volume", "status", case.name, "--why"], ["alloc", "status", case.alloc],
                         ["plugin", "status", case.plugin_id],
                         ["agent", "status", "--socket", self.node_of(case).socket]):
                done = self.holdfast(*args, check=False)
                case.told += done.stdout + done.stderr
                case.why += done.stdout if args[0] == "volume" else ""
                case.status += done.stdout if args[0] == "alloc" else ""
            if not self.must_explain(case) and not was_waiting:
                return

    def is_waiting(self, case):
        """Is the step still in flight?"""
        if case.step not in ("run", "stop"):
            return False
        done = self.holdfast("alloc", "status", case.alloc, "--json", check=False)
        return done.returncode == 0 and json.loads(done.stdout)["allocation"]["client_status"] in ("PENDING", "RUNNING")

    def must_explain(self, case):
        """Who dies is started again, and what continues from there needs no word; most lies nobody can see."""
        if case.fault == "lie":
            return case.shown is not None
        return case.fault in ("error", "hang") or case.step == "appear"

    def is_explained(self, case):
        """One line names the plugin, its call and what happened."""
        words = {case.plugin_id, case.method}
        if case.fault == "error":
            words |= {case.text}
        if case.fault == "lie" and case.shown:
            words = {case.plugin_id, case.shown}
        texts = [case.told]
        if case.fault == "hang" and case.step == "run":
            texts = [case.why, case.status]
        if case.fault == "hang" and case.step == "stop":
            texts = [case.why]
        if case.fault == "death" and case.step == "appear" and is_told({case.plugin_id, "Probe"}, case.told):
            return True  # it is asked again, from the beginning, and is not there
        return all(is_told(words, text) for text in texts)

    def finish(self, case):
        """Without the fault everything ends by the usual commands."""
        steps = self.steps(case)
        left = steps[steps.index(case.step):] if case.step != "appear" else ["create", "run", "stop", "delete"]
        if case.step == "appear" and case.is_created:
            self.insist(case)
            left = ["stop", "delete"]
        elif case.step == "run":
            left = ["stop", "delete"]
        elif case.fault == "lie" and case.step in ("register", "create", "snapshot", "forget"):
            left = [step for step in left if step in ("stop", "delete")]
            left = left if case.step != "create" else ["delete"]
        for step in left:
            if step == "delete" and case.fault == "lie" and case.method in FORGETS:
                self.let_provider_forget(case)
            self.settle(case, step)
        wait_for(f"{case.name} to be forgotten", lambda: self.is_gone(case), SETTLE_SECONDS)
        if case.step == "appear":
            self.disappear(case)

    def let_provider_forget(self, case):
        """Who was lied to about a release cannot know that the provider still counts the volume as used: its refusal is
        quoted, and the provider's to fix."""
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
                with ALONE.get(step, contextlib.nullcontext()):
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
        if self.must_explain(case):
            self.assertTrue(self.is_explained(case), f"{case.name} is not explained: {case.told[-3000:]}")

    def test_every_call_that_the_client_knows_has_all_its_rows(self):
        with open(METHODS, encoding="ascii") as f:
            known = re.findall(r"METHOD\((?:identity|controller|node), (\w+),", f.read())
        known.remove("NodeGetVolumeStats")  # no step of a volume waits for it; test_agent_csi has its faults
        self.assertEqual(sorted(known), sorted(STEPS))
        self.assertEqual(sorted((case.method, case.fault, case.when) for case in CASES),
                         sorted(itertools.product(known, ("error", "hang", "death", "lie"), ("first", "restarted"))))

    def test_nothing_is_left_mounted(self):
        self.assert_nothing_mounted()

    def test_no_rule_of_csi_was_broken(self):
        self.assert_no_breach()

    def test_the_providers_keep_no_unknown_volume(self):
        kept = [case.external for case in SAMPLED if case.fault == "lie" and case.method in KEEPS]
        for plugin_id in self.PLUGINS:
            found = self.world.storage(plugin_id).volumes()
            self.assertEqual([volume for volume in found if volume not in kept], [])

    def test_the_trails_hold(self):
        self.assert_trails_hold()


def add_cases():
    for case in SAMPLED:
        def check(self, case=case):
            self.assert_case(case)

        setattr(TestMatrix, "test_" + case.name.replace("-", "_"), check)


add_cases()

if __name__ == "__main__":
    unittest.main()
