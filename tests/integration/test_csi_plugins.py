# SPDX-License-Identifier: Apache-2.0
"""Plugins that are split over nodes, full, run by an allocation, gone, or that answer what they should not."""

import os
import re
import signal
import sys

from case import PREFIX, CsiTest, Failure, csi_volume, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "systemd", "cases"))

import runbook  # noqa: E402
import sample  # noqa: E402

ODD = "odd"


class PluginTest(CsiTest):
    def tearDown(self):
        for storage in map(self.world.storage, self.PLUGINS):
            storage.orders.clear()
        for alloc in self.world.json("alloc", "status").get("allocations", []):
            if alloc["client_status"] in ("PENDING", "RUNNING"):
                self.stop_alloc(alloc["id"])
        wait_for("everything to be unmounted", lambda: not any(node.mounts() for node in self.world.nodes))
        self.assert_no_breach()
        self.assert_trails_hold()

    def agent_says(self, node=None):
        return self.holdfast("agent", "status", "--socket", (node or self.node).socket, check=False).stdout

    def status_of(self, alloc):
        return self.world.json("alloc", "status", alloc)["allocation"]

    def life(self, volume, plugin_id, alloc, node):
        """A volume from its creation to its deletion, beside whatever else happens."""
        self.create(volume, plugin_id)
        self.run_alloc(alloc, (volume, "single-node-writer"), node=node)
        self.write(alloc, volume, node=node)
        self.stop_alloc(alloc)
        self.wait_free(volume)
        self.delete(volume)


class TestSplit(PluginTest):
    """The controller service on one node, the node service on the other, which takes two volumes."""

    PLUGINS = {"split": "grpcio"}
    KINDS = {"split": ["controller", "node"]}

    @classmethod
    def before_plugin(cls, plugin_id):
        cls.world.storage(plugin_id).orders.settings(max_volumes=2)

    def test_a_controller_of_one_node_serves_another(self):
        self.life("apart", "split", self.alloc_id(), self.other)
        methods = self.world.storage("split").methods()
        self.assertEqual([m for m in methods if m != "ValidateVolumeCapabilities"], [
            "CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume",
            "NodeUnstageVolume", "ControllerUnpublishVolume", "DeleteVolume"])

    def test_where_no_node_service_is_nothing_is_placed(self):
        self.create("here", "split")
        refused = self.run_alloc(self.alloc_id(), ("here", "single-node-writer"), node=self.node, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("split", refused.stderr)
        self.delete("here")

    def test_a_node_takes_no_more_than_its_plugin_says(self):
        for n in range(3):
            self.create(f"m{n}", "split")
        for n in range(2):
            self.run_alloc(self.alloc_id(n), (f"m{n}", "single-node-writer"), node=self.other)
        refused = self.run_alloc(self.alloc_id(2), ("m2", "single-node-writer"), node=self.other, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("2", refused.stderr)
        self.stop_alloc(self.alloc_id(0))
        self.wait_free("m0")
        self.run_alloc(self.alloc_id(3), ("m2", "single-node-writer"), node=self.other)
        for n in (1, 3):
            self.stop_alloc(self.alloc_id(n))
        for n in range(3):
            self.wait_free(f"m{n}")
            self.delete(f"m{n}")


class TestOdd(PluginTest):
    """Answers that no plugin should give, while volumes of it and of another go their way."""

    NODES = 1
    PLUGINS = {ODD: "grpc-js", "good": "grpcio"}
    # Long enough for a plugin of grpc-js on a busy machine: the agent has a second less than the server.
    AGENT_SETTINGS = 'plugin_probe_interval = "500ms"\nplugin_wait = "3s"\nplugin_call_timeout = "6s"\n'
    SERVER_SETTINGS = 'controller_timeout = "8s"\n'
    ANSWERS = {
        "NodeStageVolume": ("nothing", "malformed", "truncated", "reset", "http", "close-after"),
        "NodePublishVolume": ("twice", "oversize", "malformed", "close"),
        "ControllerPublishVolume": ("oversize", "malformed", "close"),
    }

    def suffers(self, method, answer):
        """The answer to a call of one volume; two others beside it live from their creation to their end."""
        volume, alloc = f"{method}-{answer}".lower(), self.alloc_id()
        storage = self.world.storage(ODD)
        self.create(volume, ODD)
        order = storage.orders.order(method, answer, times=None, volume=self.external(volume))
        self.run_alloc(alloc, (volume, "single-node-writer"), wait=False)
        said = []

        def is_told():
            said.append(self.holdfast("alloc", "status", alloc).stdout)
            return ODD in said[-1] and method in said[-1]

        if answer != "close-after" or method != "ControllerPublishVolume":
            try:
                wait_for(f"{answer} of {method} to be told", is_told)
            except Failure:
                if self.status_of(alloc)["client_status"] != "RUNNING":
                    raise Failure(f"{answer} of {method}: {said[-1]}") from None
        self.life(f"{volume}-other", "good", self.alloc_id(100), self.node)
        if not answer.startswith("close"):  # that disturbs all calls of its plugin
            self.life(f"{volume}-same", ODD, self.alloc_id(101), self.node)
        storage.orders.take_back(order)
        self.wait_plugin(ODD)  # a probe that lost its connection, too, is asked again after the interval
        self.stop_alloc(alloc, check=False)
        self.wait_free(volume)
        self.delete(volume)
        self.assertTrue(self.node.daemon.alive())
        self.assertLess(rss_kib(self.node.daemon.pid), 64 << 10)

    def test_odd_words_about_itself_are_reported_with_the_call(self):
        for method, wrong in (
            ("GetPluginInfo", {"name": ""}),
            ("NodeGetInfo", {"node_id": "x" * 300}),
        ):
            storage = self.world.storage(ODD)
            order = storage.orders.order(method, "", times=None, answer=wrong)
            self.plugins[ODD, self.node.id].restart()
            wait_for(f"{method} with {wrong} to be told", lambda: method in self.agent_says())  # noqa: B023
            self.life("beside", "good", self.alloc_id(), self.node)
            type(self).serial += 1
            storage.orders.take_back(order)
            self.plugins[ODD, self.node.id].restart()
            self.world.wait_plugin(ODD, 1, 1)

    def test_odd_answers_to_questions_are_reported_with_the_call(self):
        storage = self.world.storage(ODD)
        storage.add_volume("old", "ext4")
        spec = self.world.spec("asked.hcl", csi_volume("asked", ODD, more='external_id = "old"\n'))
        for method, args in (("ListVolumes", ("volume", "external", ODD)),
                             ("ListSnapshots", ("volume", "snapshot", "list", "--plugin", ODD)),
                             ("ValidateVolumeCapabilities", ("volume", "register", spec))):
            for do in ("malformed", "oversize"):
                order = storage.orders.order(method, do, times=None)
                refused = self.holdfast(*args, check=False)
                storage.orders.take_back(order)
                self.assertEqual(refused.returncode, 1, (method, do))
                for word in (ODD, method):
                    self.assertIn(word, refused.stderr, (method, do))
            self.holdfast(*args)
        self.holdfast("volume", "deregister", "asked", "--yes")

    def test_a_plugin_that_hangs_at_a_release_moves_the_metrics(self):
        alloc, orders = self.alloc_id(), self.world.storage(ODD).orders
        tls = f"{PREFIX}/var/server/tls"

        def seen():
            text = runbook.scrape(*self.world.address(), f"{tls}/ca.pem", f"{tls}/operator.pem", f"{tls}/operator.key")
            return [next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"holdfast_{name} "))
                    for name in ("releases_waiting", 'release_stuck{for="node"}', 'release_stuck{for="controller"}',
                                 "claims_failing")]

        self.create("hangs", ODD)
        self.run_alloc(alloc, ("hangs", "single-node-writer"))
        self.assertEqual(seen(), [0, 0, 0, 0])
        orders.order("NodeUnpublishVolume", "hang", times=None)
        self.holdfast("alloc", "stop", alloc, "--no-wait")
        self.assertEqual(seen(), [1, 0, 0, 0])  # while the first call is in flight
        wait_for("the call in flight to be shown", lambda: re.search(
            f"its node reports: releasing volume hangs: plugin {ODD}: NodeUnpublishVolume, since .* has not answered yet", self.why("hangs")))
        wait_for("its deadline", lambda: seen() == [1, 1, 0, 0])
        wait_for("the third try", lambda: seen() == [1, 1, 0, 1], seconds=60)
        orders.clear()
        self.wait_free("hangs")
        self.assertEqual(seen(), [0, 0, 0, 0])
        self.delete("hangs")

    def test_an_agent_without_server_and_plugin_keeps_running_work(self):
        alloc, one = self.alloc_id(), self.plugins[ODD, self.node.id]
        self.create("kept", ODD)
        self.run_alloc(alloc, ("kept", "single-node-writer"))
        self.write(alloc, "kept")
        before, quiet = self.node.mounts(), len(self.world.storage(ODD).methods())
        one.kill()
        self.world.server.kill(signal.SIGKILL)
        self.node.daemon.kill(signal.SIGKILL)
        self.node.start()
        wait_for("the agent to answer", self.node.status)
        self.assertEqual((self.node.mounts(), self.read(alloc)), (before, "kept"))
        self.world.start_server()
        self.node.wait_connected()
        self.assertEqual(self.status_of(alloc)["client_status"], "RUNNING")
        # without its plugin nothing is given up, and that is said
        self.assertEqual(self.stop_alloc(alloc, check=False, timeout="2s").returncode, 1)
        wait_for("the reason to be told", lambda: f"cannot be released without its plugin: plugin {ODD}" in self.why("kept"))
        one.start()
        self.wait_free("kept")
        self.assertEqual(self.world.storage(ODD).methods()[quiet:], [
            "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"])
        self.world.wait_plugin(ODD, 1, 1)
        self.delete("kept")


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def add_answers():
    answers = [(method, answer) for method, answers in TestOdd.ANSWERS.items() for answer in answers]
    for place, (method, answer) in enumerate(answers):
        def check(self, method=method, answer=answer):
            self.suffers(method, answer)

        if sample.has(place):
            setattr(TestOdd, f"test_{method.lower()}_answered_with_{answer.replace('-', '_')}_harms_no_other_volume", check)


add_answers()


class TestRun(PluginTest):
    """A plugin that an allocation runs."""

    NODES = 1
    PLUGINS = {"run": "grpcio"}
    KINDS = {"run": [None]}

    def run_plugin(self, alloc, timeout="10s"):
        spec = self.world.spec(f"{alloc}.hcl", f"""name = "p-{alloc[9:13]}"
driver = "none"
csi_plugin {{
  id = "run"
  type = "monolith"
  health_timeout = "{timeout}"
}}
""")
        return self.holdfast("alloc", "run", spec, "--node", self.node.id, "--id", alloc, "--no-wait")

    def is_in(self, alloc, state):
        return lambda: self.status_of(alloc)["client_status"] == state

    def test_it_runs_when_it_is_healthy_and_is_upgraded_side_by_side(self):
        first, second, user = self.alloc_id(1), self.alloc_id(2), self.alloc_id(3)
        self.run_plugin(first)
        wait_for("what it waits for", lambda: "waiting until its plugin run is healthy" in self.holdfast(
            "alloc", "status", first).stdout)
        old = self.world.start_plugin("run", "grpcio", self.node)
        wait_for("the plugin to run", self.is_in(first, "RUNNING"))
        self.create("v", "run")
        self.run_alloc(user, ("v", "single-node-writer"))
        before = self.node.mounts()
        new = self.world.start_plugin("run", "grpcio", self.node, name="new")
        wait_for("both instances", lambda: self.agent_says().count("new.sock") > 0)
        old.kill()
        os.unlink(old.socket)
        self.stop_alloc(first)
        self.world.wait_plugin("run", 1, 1)
        self.assertEqual(self.node.mounts(), before)
        self.stop_alloc(user)
        self.wait_free("v")
        self.delete("v")
        new.kill()
        os.unlink(new.socket)
        self.run_plugin(second, timeout="1s")
        wait_for("one that is not healthy in time to fail", self.is_in(second, "FAILED"))
        self.assertIn("run", self.status_of(second)["client_description"])
