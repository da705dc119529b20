# SPDX-License-Identifier: Apache-2.0
"""A lost node loses its CSI volumes to a network fence: real servers, agents and mounts, and a plugin that speaks csi-addons
over gRPC. Its block list is enforced: file systems of a fenced node write nothing from then on."""

import errno
import json
import os
import signal
import uuid

from case import CsiTest, csi_volume, wait_for
from world import PREFIX, run

PLUGIN = "net.test"
TESTS = 11
CREDENTIALS = f"{PREFIX}/var/fence-credentials"  # of the agents' units
SECRET = "key-of-the-storage-4711"
FENCE_ARGS = {"parameters": {"clusterID": "one"}, "secrets": {"userID": "admin", "userKey": SECRET}}
BOOT_ID = f"{PREFIX}/boot-id"  # of a node that has booted, which the kernel has not
BOOTED = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-ec",
          f'mount --make-private /proc; mount --bind {BOOT_ID} /proc/sys/kernel/random/boot_id; exec "$@"', "sh"]  # fmt: skip


class TestNetworkFence(CsiTest):
    """node-1 and node-2 run the controller. Each test has a node of its own that holds the volume: after a boot it can mount
    nothing, because its mount helper asks the kernel for the boot id."""

    NODES = 2 + TESTS
    PLUGINS = {PLUGIN: "grpcio"}
    KINDS = {PLUGIN: ["monolith", "monolith"] + [None] * TESTS}
    SERVER_SETTINGS = 'controller_timeout = "4s"\nheartbeat = "1s"\n'
    AGENT_SETTINGS = CsiTest.AGENT_SETTINGS.replace("500ms", "250ms") + f"""
fence "{PLUGIN}" {{
  parameters {{ clusterID = "one" }}
  secrets {{
    userID  = "san.user"
    userKey = "san.key"
  }}
}}
"""

    @classmethod
    def setUpClass(cls):
        os.environ["CREDENTIALS_DIRECTORY"] = CREDENTIALS
        cls.addClassCleanup(os.environ.pop, "CREDENTIALS_DIRECTORY")
        super().setUpClass()

    @classmethod
    def before_plugin(cls, plugin_id):
        os.makedirs(CREDENTIALS, exist_ok=True)
        for name, text in (("san.user", "admin"), ("san.key", SECRET)):
            with open(f"{CREDENTIALS}/{name}", "w", encoding="ascii") as f:
                f.write(text + "\n")
        cls.storage = cls.world.storage(plugin_id)
        cls.storage.orders.settings(fence_args=FENCE_ARGS)
        cls.clients = {node.provider_id: f"192.0.2.{n}/32" for n, node in enumerate(cls.world.nodes, 1)}
        cls.storage.orders.settings(addons=True, clients={node: [cidr] for node, cidr in cls.clients.items()})

    def setUp(self):
        super().setUp()
        self.other, self.third = self.world.nodes[:2]
        self.node = self.world.nodes[1 + self.serial]
        self.plugins[PLUGIN, self.node.id] = self.world.start_plugin(PLUGIN, "grpcio", self.node, "node")
        wait_for("the node's plugin", lambda: any(
            found.get("plugin_id") == PLUGIN and found.get("healthy")
            for found in self.world.json("node", "status", self.node.id)["node"].get("plugins", [])))
        self.volume, self.alloc, self.second = f"net-{self.serial}", self.alloc_id(1), self.alloc_id(2)
        self.create(self.volume, PLUGIN)
        self.run_alloc(self.alloc, (self.volume, "single-node-writer"))
        self.write_durably(self.alloc, "first")

    def tearDown(self):
        """The node boots, which frees its claims and lifts its fence; it is not used again."""
        self.storage.orders.clear()
        if not self.world.server.alive():
            self.world.start_server()
        self.revive_controllers()
        self.reboot()
        wait_for("no fence to be in force", lambda: not self.storage.fenced())
        for alloc in self.world.json("alloc", "status").get("allocations", []):
            if alloc["client_status"] in ("PENDING", "RUNNING"):
                self.stop_alloc(alloc["id"])
        self.wait_free(self.volume)
        self.node.daemon.kill()
        self.plugins.pop((PLUGIN, self.node.id)).kill()
        self.assert_no_breach()
        self.assert_trails_hold()

    def revive_controllers(self):
        for node in (self.other, self.third):
            if not self.plugins[PLUGIN, node.id].alive():
                self.plugins[PLUGIN, node.id].start()
            if not node.daemon.alive():
                node.start()
            node.wait_connected()
        wait_for("two controllers",
                 lambda: self.world.json("plugin", "status", PLUGIN)["plugin"].get("controllers_healthy") == 2)

    def write_durably(self, alloc, text, node=None):
        with open(f"{(node or self.node).published(alloc)}/file", "w", encoding="ascii") as f:
            f.write(text)
            f.flush()
            os.fsync(f.fileno())

    def die(self):
        """The node is lost, and continues to write."""
        self.node.daemon.kill()
        wait_for("the server to miss it",
                 lambda: self.world.json("node", "status", self.node.id)["node"]["status"] != "READY")  # fmt: skip

    def reboot(self):
        self.node.daemon.kill()
        for line in reversed(self.node.mounts()):
            run("umount", line.split(" ")[4])
        self.storage.reboot(self.node.provider_id)
        with open(BOOT_ID, "w", encoding="ascii") as f:
            f.write(f"{uuid.uuid4()}\n")
        os.chmod(BOOT_ID, 0o444)
        if "unshare" not in self.node.daemon.argv:
            self.node.daemon.argv = [*BOOTED, *self.node.daemon.argv]
        self.node.start()
        self.node.wait_connected()

    def fence(self, *args, check=True):
        return self.holdfast("node", "fence", self.node.id, "--network", PLUGIN, "--yes", "--reason", "test", *args,
                             check=check)

    def last_fence(self):
        found = self.world.json("node", "fence").get("fences", [])
        return next((fence for fence in found if fence["node_id"] == self.node.id), {})

    def wait_state(self, state):
        wait_for(f"the fence to be {state}", lambda: self.last_fence().get("state") == f"FENCE_STATE_{state}")

    def count(self, method):
        return len(self.storage.calls(method))

    def wait_calls(self, before):
        """A call that takes effect after the lift would fence the next boot."""
        wait_for("the end of all calls", lambda: all(
            "code" in call for call in self.storage.calls("FenceClusterNetwork")[before:]))

    def assert_late_write_refused(self):
        with self.assertRaises(OSError) as caught:
            self.write_durably(self.alloc, "late")
        self.assertIn(caught.exception.errno, (errno.EIO, errno.EROFS))

    def assert_second_node_writes(self):
        self.wait_free(self.volume)
        self.run_alloc(self.second, (self.volume, "single-node-writer"), node=self.other)
        self.assertEqual(self.read(self.second, node=self.other), "first")
        self.write_durably(self.second, "second", self.other)
        self.assert_late_write_refused()
        self.assertEqual(self.read(self.second, node=self.other), "second")

    # --- the life of a fence ------------------------------------------------------------------------------

    def test_the_second_node_writes_and_a_late_write_of_the_first_is_refused(self):
        self.die()
        self.write_durably(self.alloc, "first")  # it is alive all the time
        self.assertIn("recorded", self.fence().stdout)
        self.assertEqual(self.storage.fenced(), [self.clients[self.node.provider_id]])
        self.assert_late_write_refused()
        self.assert_second_node_writes()
        records = self.holdfast("operator", "audit", "--json").stdout
        self.assertIn(f"evidence network_fence: plugin {PLUGIN}, controller on node {self.other.id}: ", records)
        self.reboot()
        self.wait_state("LIFTED")
        self.assertEqual(self.storage.fenced(), [])
        self.assertEqual(self.read(self.second, node=self.other), "second")

    def test_a_volume_wants_a_network_fence_when_its_node_is_lost(self):
        self.holdfast("volume", "register", self.world.spec("wants.hcl", self.wanting()))
        self.die()
        self.assertRegex(self.holdfast("operator", "fencing", "--dry-run").stdout,
                         f"{self.node.id} +default/{self.volume} +network")

    def wanting(self):
        return csi_volume(self.volume, PLUGIN, more=f'external_id = "{self.external(self.volume)}"\n'
                          'on_node_loss {\n  after = "5s"\n  do = "network_fence"\n}\n')

    def test_a_node_that_is_alive_is_fenced_by_a_persons_word_only(self):
        done = self.fence(check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--alive", done.stderr)
        self.write_durably(self.alloc, "first")
        self.assertEqual(self.storage.fenced(), [])
        self.assertIn("recorded", self.fence("--alive").stdout)
        self.wait_free(self.volume)
        self.assertEqual(len(self.storage.fenced()), 1)

    def test_a_node_that_comes_back_in_the_same_boot_stays_fenced(self):
        self.die()
        self.fence()
        self.node.start()
        self.node.wait_connected()
        wait_for("the state to name the next command", lambda: "reboot node" in self.last_fence().get("error", ""))
        self.assertEqual(self.last_fence()["state"], "FENCE_STATE_RECORDED")
        self.assertEqual(len(self.storage.fenced()), 1)
        self.assert_second_node_writes_elsewhere()

    def assert_second_node_writes_elsewhere(self):
        self.wait_free(self.volume)
        self.run_alloc(self.second, (self.volume, "single-node-writer"), node=self.other)
        self.write_durably(self.second, "second", self.other)

    def test_addresses_that_change_are_asked_for_again(self):
        other = f"192.0.2.{100 + self.serial}/32"
        self.storage.orders.settings(clients=self.storage.state.wishes()["settings"]["clients"]
                                     | {self.node.provider_id: [other]})
        self.addCleanup(self.storage.orders.settings, clients={node: [cidr] for node, cidr in self.clients.items()})
        wait_for("the server to know them", lambda: other in json.dumps(self.world.json("node", "status", self.node.id)["node"]))
        self.die()
        self.fence()
        self.assertIn(other, self.storage.fenced())

    def test_no_secret_of_the_fence_service_is_shown_anywhere(self):
        self.die()
        for node in (self.other, self.third):
            self.storage.orders.order("FenceClusterNetwork", "fail", node=node.provider_id, text=f"{SECRET} is not accepted")
        done = self.fence(check=False)
        self.assertIn("[redacted] is not accepted", done.stdout)
        self.assertEqual(self.storage.calls("FenceClusterNetwork")[-1]["request"]["secrets"], FENCE_ARGS["secrets"])
        shown = [done.stdout, done.stderr, self.world.server.said(), *(node.daemon.said() for node in self.world.nodes)]
        shown += [self.holdfast(*words, "--json").stdout
                  for words in (("node", "fence"), ("operator", "audit"), ("operator", "status"), ("plugin", "status", PLUGIN))]  # fmt: skip
        bundle = f"{PREFIX}/fence-debug.tar"
        self.addCleanup(os.unlink, bundle)
        self.holdfast("operator", "debug", bundle, "--socket", self.other.socket)
        with open(bundle, encoding="utf-8", errors="replace") as f:
            shown.append(f.read())
        for text in shown:
            self.assertNotIn(SECRET, text)

    # --- faults -------------------------------------------------------------------------------------------

    def at_second(self, method, do, **more):
        """An order to the plugin on n2, whose controller is asked first."""
        return self.storage.orders.order(method, do, node=self.other.provider_id, **more)

    def test_the_next_controller_is_asked_when_one_fails_at_any_step(self):
        self.die()
        first, second = self.other, self.third
        for method, do in (("FenceClusterNetwork", "fail"), ("FenceClusterNetwork", "fail-after"),
                           ("FenceClusterNetwork", "die"), ("FenceClusterNetwork", "hang"), ("ListClusterFence", "fail"),
                           ("ListClusterFence", "lie"), ("ListClusterFence", "die-after")):  # fmt: skip
            with self.subTest(method=method, do=do):
                self.revive_controllers()
                self.storage.lift_all()  # so that each one has to do it
                self.storage.orders.order(method, do, node=first.provider_id)
                self.fence()
                self.assertEqual(len(self.storage.fenced()), 1)
                self.assertEqual(self.last_fence()["fencer"], second.id)
                self.assertEqual(self.last_fence()["tried"], [first.id])
                first, second = second, first  # a repeat goes to the one that did it
        self.revive_controllers()
        self.assert_second_node_writes_elsewhere()

    def test_a_fence_that_the_storage_does_not_list_frees_nothing(self):
        self.die()
        for method in ("FenceClusterNetwork", "ListClusterFence"):
            with self.subTest(method):
                self.storage.orders.order(method, "lie", times=2)
                done = self.fence(check=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("its claims stay", done.stderr)
                self.assertIn("shows 0 of 1 addresses", done.stdout)
                self.assertTrue(self.world.live_claims(self.volume))
        self.fence()
        self.assert_second_node_writes()

    def test_a_controllers_node_that_is_lost_in_the_middle_is_replaced(self):
        self.die()
        before = self.count("FenceClusterNetwork")
        self.at_second("FenceClusterNetwork", "slow", seconds=1)
        self.fence("--no-wait")
        wait_for("the call", lambda: self.count("FenceClusterNetwork") > before)
        self.other.daemon.kill()
        self.wait_state("RECORDED")
        self.assertEqual(self.last_fence()["fencer"], self.third.id)
        self.assert_late_write_refused()
        self.wait_calls(before)

    def test_a_node_that_returns_in_the_middle_is_let_in_after_the_call(self):
        self.die()
        self.at_second("FenceClusterNetwork", "slow", seconds=1)
        before = self.count("FenceClusterNetwork")
        self.fence("--no-wait")
        wait_for("the call", lambda: self.count("FenceClusterNetwork") > before)
        self.reboot()
        self.wait_state("LIFTED")
        self.assertEqual(self.storage.fenced(), [])
        self.wait_free(self.volume)

    def test_a_server_that_is_killed_between_intent_and_answer_continues(self):
        self.die()
        before = self.count("FenceClusterNetwork")
        self.at_second("FenceClusterNetwork", "slow", seconds=1)
        self.fence("--no-wait")
        wait_for("the call", lambda: self.count("FenceClusterNetwork") > before)
        self.world.server.kill(signal.SIGKILL)
        self.world.start_server()
        self.wait_state("RECORDED")
        self.assert_second_node_writes()
        self.wait_calls(before)
