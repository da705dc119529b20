# SPDX-License-Identifier: Apache-2.0
"""A volume of a CSI plugin from its creation to its deletion, on two gRPC stacks, and what differs when it is shared, grown,
copied, or a device."""

import json
import os
import pwd
import re
import signal
import subprocess

from case import PREFIX, CsiTest, csi_alloc, wait_for

PLUGINS = {"csi.pydisk.test": "grpcio", "jsdisk": "grpc-js"}
LIFE = [
    "CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume",
    "NodeUnstageVolume", "ControllerUnpublishVolume", "DeleteVolume",
]
SECRETS = ["CreateVolume", "DeleteVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "NodeStageVolume",
           "NodePublishVolume"]


class TestFlow(CsiTest):
    PLUGINS = PLUGINS

    def setUp(self):
        super().setUp()
        for plugin_id in self.PLUGINS:  # which an agent that was restarted asks first
            self.wait_plugin(plugin_id)

    def tearDown(self):
        """Whatever a test did, the next one begins without allocations and mounts."""
        for storage in map(self.world.storage, self.PLUGINS):
            storage.orders.clear()
            storage.orders.quirks()
        for node in self.world.nodes:
            if not node.daemon.alive():
                node.start()
            node.wait_connected()
        for alloc in self.world.json("alloc", "status").get("allocations", []):
            if alloc["client_status"] in ("PENDING", "RUNNING"):
                self.stop_alloc(alloc["id"])
        wait_for("everything to be unmounted", lambda: not any(node.mounts() for node in self.world.nodes))
        self.assert_nothing_mounted()
        self.assert_no_breach()
        self.assert_trails_hold()

    def name(self, plugin_id):
        return f"{plugin_id.replace('.', '-')}-{self.serial}"

    def calls_of(self, plugin_id, external):
        """What was called for a volume, each name once in the order of the first."""
        found = [m for m in self.world.storage(plugin_id).methods(external) if m != "ValidateVolumeCapabilities"]
        return list(dict.fromkeys(found))

    def life(self, plugin_id):
        volume, alloc = self.name(plugin_id), self.alloc_id()
        storage = self.world.storage(plugin_id)
        self.create(volume, plugin_id)
        external = self.external(volume)
        self.run_alloc(alloc, (volume, "single-node-writer"))
        options, propagation = self.published_mount(alloc)
        self.assertTrue({"nosuid", "nodev", "noexec"} <= set(options), options)
        self.assertEqual(propagation, "-")
        self.write(alloc, volume)
        before = self.node.mounts()
        self.restarts(plugin_id, before)
        self.assertEqual(self.read(alloc), volume)
        self.stop_alloc(alloc)
        self.wait_free(volume)
        self.assert_nothing_mounted()
        self.assertEqual(storage.devices(external), [])
        self.delete(volume)
        self.assertNotIn(external, storage.volumes())
        made = [call["method"] for call in storage.calls("CreateVolume") if call["request"]["name"]]
        self.assertEqual(made[:1] + self.calls_of(plugin_id, external), LIFE)
        self.assertEqual(self.holdfast("volume", "status", volume, check=False).returncode, 1)

    def restarts(self, plugin_id, before):
        """Of each process, softly and by SIGKILL: no mount changes, and no call to the plugin does more than ask."""
        storage = self.world.storage(plugin_id)
        quiet = len(storage.methods())
        for sig in (signal.SIGTERM, signal.SIGKILL):
            one = self.plugins[plugin_id, self.node.id]
            one.kill(sig)
            self.assertEqual(self.node.mounts(), before)
            one.start()
            self.node.daemon.kill(sig)
            self.world.server.kill(sig)
            self.node.start()  # without a server
            wait_for("the agent to answer", self.node.status)
            self.assertEqual(self.node.mounts(), before)
            self.world.start_server()
            self.node.wait_connected()
            helper = self.node.helper_pid()
            os.kill(helper, signal.SIGKILL)
            wait_for("another helper", lambda: self.node.helper_pid() not in (None, helper))  # noqa: B023
            self.assertEqual(self.node.mounts(), before)
        for node in self.world.nodes:
            node.wait_connected()
        self.world.wait_plugin(plugin_id, self.NODES, self.NODES)
        self.assertEqual(storage.methods()[quiet:], [])

    def test_volumes_existing_before_are_registered(self):
        for n, plugin_id in enumerate(self.PLUGINS):
            volume = self.name(plugin_id)
            storage = self.world.storage(plugin_id)
            storage.add_volume(f"old/{volume}#", "ext4")
            self.register(volume, plugin_id, more=f'external_id = "old/{volume}#"\n')
            for time, text in enumerate(("first", "second")):
                alloc = self.alloc_id(10 * n + time)
                self.run_alloc(alloc, (volume, "single-node-writer"))
                if text == "second":
                    self.assertEqual(self.read(alloc), "first")
                self.write(alloc, text)
                self.stop_alloc(alloc)
                self.wait_free(volume)
            self.holdfast("volume", "deregister", volume, "--yes")
            self.assertIn(f"old/{volume}#", storage.volumes())

    def test_a_volume_goes_from_node_to_node(self):
        volume = self.name("jsdisk")
        self.create(volume, "jsdisk")
        for n, node in enumerate((self.node, self.other, self.node)):
            self.run_alloc(self.alloc_id(n), (volume, "single-node-writer"), node=node)
            if n > 0:
                self.assertEqual(self.read(self.alloc_id(n), node=node), f"by {n - 1}")
            self.write(self.alloc_id(n), f"by {n}", node=node)
            refused = self.run_alloc(self.alloc_id(n + 10), (volume, "single-node-writer"), node=self.other, check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(self.alloc_id(n), refused.stderr + self.why(volume))
            self.stop_alloc(self.alloc_id(n))
            self.wait_free(volume)
        self.delete(volume)

    def test_a_reader_and_a_writer_share_a_node(self):
        volume, writer, reader = self.name("csi.pydisk.test"), self.alloc_id(1), self.alloc_id(2)
        self.create(volume, "csi.pydisk.test", modes=("multi-node-single-writer", "multi-node-multi-writer"), kind="bind")
        external = self.external(volume)
        self.run_alloc(writer, (volume, "multi-node-single-writer"))
        self.write(writer, "shared")
        self.run_alloc(reader, (volume, "multi-node-single-writer", {"read_only": "true"}))
        self.assertEqual(self.read(reader), "shared")
        with self.assertRaises(OSError):
            self.write(reader, "no")
        self.stop_alloc(writer)
        self.assertEqual(self.read(reader), "shared")
        self.stop_alloc(reader)
        self.wait_free(volume)
        methods = self.world.storage("csi.pydisk.test").methods(external)
        self.assertEqual([methods.count(m) for m in LIFE[2:6]], [1, 2, 2, 1], methods)
        self.delete(volume)

    def test_allocations_of_one_node_share_one_stage(self):
        volume, allocs = self.name("jsdisk"), [self.alloc_id(n) for n in range(3)]
        self.create(volume, "jsdisk", modes=("single-node-multi-writer",))
        external = self.external(volume)
        for alloc in allocs:
            self.run_alloc(alloc, (volume, "single-node-multi-writer"))
        self.write(allocs[0], "one for all")
        self.assertEqual([self.read(alloc) for alloc in allocs], ["one for all"] * 3)
        refused = self.run_alloc(self.alloc_id(9), (volume, "single-node-multi-writer"), node=self.other, check=False)
        self.assertEqual(refused.returncode, 1)
        for alloc in allocs:
            self.stop_alloc(alloc)
        self.wait_free(volume)
        self.assertEqual(self.world.storage("jsdisk").methods(external).count("NodeStageVolume"), 1)
        self.delete(volume)

    def test_a_volume_grows_while_it_is_used(self):
        for n, plugin_id in enumerate(self.PLUGINS):
            volume, alloc = self.name(plugin_id), self.alloc_id(n)
            self.create(volume, plugin_id, size="304MiB", kind="xfs", more='mount_options { fs_type = "xfs" }\n')
            self.run_alloc(alloc, (volume, "single-node-writer"))
            before = os.statvfs(self.node.published(alloc)).f_blocks
            self.holdfast("volume", "expand", volume, "400MiB")
            wait_for("the file system to have grown", lambda: os.statvfs(
                self.node.published(alloc)).f_blocks > before * 5 // 4)  # noqa: B023
            self.stop_alloc(alloc)
            self.wait_free(volume)
            self.holdfast("volume", "expand", volume, "410MiB")  # nobody uses it
            self.delete(volume)

    def test_a_schedule_makes_a_snapshot_and_shows_the_next_one(self):
        volume = self.name("csi.pydisk.test")
        self.create(volume, "csi.pydisk.test", more='snapshots {\n  every = "1d"\n  keep = 7\n}\n')
        self.holdfast("volume", "snapshot", "create", volume, "by-hand")
        wait_for("a snapshot", lambda: self.world.json("volume", "status", volume)["volume"]["snapshots_state"].get("kept"))
        state = self.world.json("volume", "status", volume)["volume"]["snapshots_state"]
        self.assertEqual(int(state["next_ms"]) - int(state["last_ms"]), 86400 * 1000)
        shown = self.holdfast("volume", "status", volume).stdout
        self.assertRegex(shown, r"snapshots +every 1d0h, keep 7; there are 1\n")
        self.assertIn("Snapshots.Made", self.holdfast("volume", "events", volume).stdout)
        listed = self.world.json("volume", "snapshot", "list")["snapshots"]
        self.assertEqual(["auto" if s["name"].startswith("auto-") else s["name"] for s in listed], ["auto", "by-hand"])
        for snapshot in listed:
            self.holdfast("volume", "snapshot", "delete", "csi.pydisk.test", snapshot["snapshot_id"], "--yes")
        self.delete(volume)

    def test_a_snapshot_keeps_its_content(self):
        volume, copy = self.name("csi.pydisk.test"), self.name("copy")
        self.create(volume, "csi.pydisk.test")
        self.run_alloc(self.alloc_id(1), (volume, "single-node-writer"))
        self.write(self.alloc_id(1), "before")
        made = json.loads(self.holdfast("volume", "snapshot", "create", volume, "s1", "--json").stdout)["snapshot"]
        self.write(self.alloc_id(1), "after")
        self.create(copy, "csi.pydisk.test", more=f'snapshot_id = "{made["snapshot_id"]}"\n')
        self.run_alloc(self.alloc_id(2), (copy, "single-node-writer"))
        self.assertEqual(self.read(self.alloc_id(2)), "before")
        listed = self.holdfast("volume", "snapshot", "list", "--plugin", "csi.pydisk.test").stdout
        self.assertIn(made["snapshot_id"], listed)
        for n in (1, 2):
            self.stop_alloc(self.alloc_id(n))
        self.wait_free(volume)
        self.wait_free(copy)
        self.holdfast("volume", "snapshot", "delete", "csi.pydisk.test", made["snapshot_id"], "--yes")
        self.assertEqual(self.world.storage("csi.pydisk.test").state.load()["snapshots"], {})
        self.delete(copy)
        self.delete(volume)

    def test_the_volume_of_a_member_is_restored_under_its_id(self):
        """The steps of docs/volumes.md: the provider's name comes from the id, which the old data keep."""
        plugin_id, volume, new = "csi.pydisk.test", f"{self.name('member')}[1]", self.name("new")
        self.create(volume, plugin_id)
        self.run_alloc(self.alloc_id(1), (volume, "single-node-writer"))
        self.write(self.alloc_id(1), "before")
        made = json.loads(self.holdfast("volume", "snapshot", "create", volume, "m1", "--json").stdout)["snapshot"]
        self.write(self.alloc_id(1), "after")
        self.stop_alloc(self.alloc_id(1))
        self.wait_free(volume)
        self.create(new, plugin_id, more=f'snapshot_id = "{made["snapshot_id"]}"\n')
        shown = self.world.json("volume", "status", new)["volume"]
        for old in (new, volume):
            self.holdfast("volume", "deregister", old, "--yes")
        context = "".join(f'"{key}" = "{value}"\n' for key, value in shown["context"].items())
        self.register(volume, plugin_id, more=f'external_id = "{shown["external_id"]}"\ncontext {{\n{context}}}\n')
        self.run_alloc(self.alloc_id(2), (volume, "single-node-writer"))
        self.assertEqual(self.read(self.alloc_id(2)), "before")
        self.stop_alloc(self.alloc_id(2))
        self.wait_free(volume)
        self.holdfast("volume", "snapshot", "delete", plugin_id, made["snapshot_id"], "--yes")
        self.delete(volume)

    def test_a_device_is_given_as_a_device(self):
        for n, plugin_id in enumerate(self.PLUGINS):
            volume, alloc = self.name(plugin_id), self.alloc_id(n)
            self.create(volume, plugin_id, attachment="block-device")
            external = self.external(volume)
            self.run_alloc(alloc, (volume, "single-node-writer", {"attachment_mode": '"block-device"'}))
            published = self.world.json("alloc", "status", alloc)["allocation"]["published"][0]
            self.assertTrue(published["is_device"])
            device, = self.world.storage(plugin_id).devices(external)
            self.assertEqual(os.stat(published["path"]).st_rdev, os.stat(device).st_rdev)
            subprocess.run(["dd", "if=/dev/zero", f"of={published['path']}", "bs=4096", "count=1", "conv=notrunc"],
                           stderr=subprocess.DEVNULL, check=True)
            self.stop_alloc(alloc)
            self.wait_free(volume)
            self.assertFalse(os.path.exists(published["path"]))
            self.delete(volume)

    def type_commands_of_a_service(self, device):
        """What docs/workloads.md has for a service on a block device: a node of its own, as long as it runs."""
        with open(f"{os.path.dirname(__file__)}/../../docs/workloads.md", encoding="utf-8") as page:
            lines = [line.strip() for line in page]
        words = {"NAME": "device", "USER": "daemon"}
        commands = {when: [re.sub("NAME|USER", lambda found: words[found[0]], line.split("+")[1]).split() for line in lines
                           if line.startswith(f"{when}=+") and "held-NAME" in line] for when in ("ExecStartPre", "ExecStopPost")}
        self.assertEqual([len(each) for each in commands.values()], [2, 1])
        before, node = os.stat(device), "/dev/held-device"
        for _start in range(2):  # the second time after a stop without an end
            for command in commands["ExecStartPre"]:
                subprocess.run(command, check=True)
        made = os.stat(node)
        self.assertEqual((made.st_rdev, made.st_uid), (before.st_rdev, pwd.getpwnam("daemon").pw_uid))
        self.assertEqual((os.stat(device).st_uid, os.stat(device).st_mode), (before.st_uid, before.st_mode))
        subprocess.run(commands["ExecStopPost"][0], check=True)
        self.assertFalse(os.path.lexists(node))

    def test_a_unit_gets_its_device_and_nothing_in_its_place(self):
        plugin_id = next(iter(self.PLUGINS))
        volume, folder, holdfast = self.name(plugin_id), f"{PREFIX}/run/unit", f"{PREFIX}/bin/holdfast"
        self.create(volume, plugin_id, attachment="block-device")
        for path in (folder, f"{PREFIX}/etc/holdfast/volumes.d", "/run/holdfast-volumes"):
            os.makedirs(path, exist_ok=True)
        self.world.spec("holdfast/volumes.d/device.hcl", f'node = "{self.node.id}"\n' + csi_alloc(
            "device", (volume, "single-node-writer", {"attachment_mode": '"block-device"'})))  # fmt: skip
        env = os.environ | {"HOLDFAST_DEV_DIR": f"{PREFIX}/var/server", "STATE_DIRECTORY": folder, "RUNTIME_DIRECTORY": folder,
                            "HOLDFAST_STAGE_DIR": f"{self.node.dir}/stage", "HOLDFAST_PUBLISH_DIR": f"{self.node.dir}/publish"}  # fmt: skip

        def link():
            return subprocess.run(["setpriv", "--bounding-set=-all", "--inh-caps=-all", holdfast, "volume", "link", "--", "device"],
                                  env=env, stderr=subprocess.PIPE, text=True, check=False).stderr  # fmt: skip

        with subprocess.Popen([holdfast, "volume", "hold", "--", "device"], env=env, stderr=subprocess.DEVNULL) as unit:
            wait_for("the holder to have it", lambda: os.path.islink(f"{folder}/mnt"))
            bound = os.readlink(f"{folder}/mnt")
            device, = self.world.storage(plugin_id).devices(self.external(volume))
            self.assertEqual(link(), "")
            self.assertEqual(os.readlink("/run/holdfast-volumes/device/mnt"), device)
            self.type_commands_of_a_service(device)
            subprocess.run(["mount", "-t", "tmpfs", "other", os.path.dirname(bound)], check=True)
            os.symlink("/etc/shadow", bound)
            self.assertIn("a mount covers it", link())
            subprocess.run(["umount", os.path.dirname(bound)], check=True)
            subprocess.run(["umount", bound], check=True)
            self.assertEqual(unit.wait(timeout=60), 80)
        self.assertIn("does not report", link())
        for alloc in self.world.json("alloc", "status")["allocations"]:
            self.stop_alloc(alloc["id"])
        self.wait_free(volume)
        self.delete(volume)

    def test_secrets_arrive_where_they_belong_and_nowhere_else(self):
        for n, plugin_id in enumerate(self.PLUGINS):
            volume, alloc, secret = self.name(plugin_id), self.alloc_id(n), f"hunter2-{plugin_id}"
            self.create(volume, plugin_id, more=f'secrets {{ "key" = "{secret}" }}\n')
            external = self.external(volume)
            self.run_alloc(alloc, (volume, "single-node-writer"))
            self.stop_alloc(alloc)
            self.wait_free(volume)
            self.delete(volume)
            calls = [call for call in self.world.storage(plugin_id).calls()
                     if external in (call["request"].get("volume_id"),) or call["request"].get("name")]
            told = {call["method"] for call in calls if call["request"].get("secrets") == {"key": secret}}
            self.assertEqual(told, set(SECRETS))
            for folder in (self.world.logs, self.node.data):
                found = subprocess.run(["grep", "--recursive", "--binary-files=text", "--files-with-matches", secret,
                                        folder], stdout=subprocess.PIPE, text=True, check=False).stdout
                self.assertEqual(found, "")

    def test_volumes_mounted_by_hand_are_not_released(self):
        for n, plugin_id in enumerate(self.PLUGINS):
            volume, alloc, by_hand = self.name(plugin_id), self.alloc_id(n), f"{PREFIX}/by-hand-{n}"
            self.create(volume, plugin_id)
            self.run_alloc(alloc, (volume, "single-node-writer"))
            device, = self.world.storage(plugin_id).devices(self.external(volume))
            os.mkdir(by_hand)
            subprocess.run(["mount", device, by_hand], check=True)
            if n:
                self.node.daemon.kill()  # what was judged before is not judged again
                self.node.start()
                self.node.wait_connected()
            self.assertEqual(self.stop_alloc(alloc, check=False, timeout="2s").returncode, 1)
            wait_for("the reason to be told", lambda: f"umount {by_hand}" in self.why(volume))  # noqa: B023
            self.assertIn("/proc/*/mountinfo", self.why(volume))
            self.assertEqual(len(self.world.live_claims(volume)), 1)
            self.assertEqual(self.calls_of(plugin_id, self.external(volume))[-1], "NodeUnstageVolume")
            subprocess.run(["umount", by_hand], check=True)
            self.wait_free(volume)
            self.delete(volume)

    def test_a_directory_of_the_hosts_file_system_is_released(self):
        volume = self.name("csi.pydisk.test")
        self.create(volume, "csi.pydisk.test", kind="bind")
        for n in range(2):
            self.run_alloc(self.alloc_id(n), (volume, "single-node-writer"))
            if n:
                self.node.daemon.kill()
                self.node.start()
                self.node.wait_connected()
            self.stop_alloc(self.alloc_id(n))
            self.wait_free(volume, 10)
        self.delete(volume)

    def rack(self, node):
        return f"R{self.serial}-{node.id}"

    def put_nodes_apart(self, plugin_id):
        """Each node in a rack of its own, as its plugin says after a restart."""
        self.world.storage(plugin_id).orders.settings(
            topologies={node.provider_id: {"rack": self.rack(node)} for node in self.world.nodes})
        self.addCleanup(self.world.storage(plugin_id).orders.settings, topologies={})
        for node in self.world.nodes:
            self.plugins[plugin_id, node.id].kill(signal.SIGTERM)
            self.plugins[plugin_id, node.id].start()
        wait_for("the racks to be known", lambda: all(
            self.rack(node) in self.holdfast("plugin", "status", plugin_id, "--json").stdout for node in self.world.nodes))
        self.wait_plugin(plugin_id)

    def test_a_volume_is_used_where_its_topology_reaches(self):
        volume = self.name("csi.pydisk.test")
        self.put_nodes_apart("csi.pydisk.test")
        self.create(volume, "csi.pydisk.test", more=f"""topology_request {{
  required {{
    topology {{
      segments {{ rack = "{self.rack(self.other)}" }}
    }}
  }}
}}
""")
        asked = self.world.storage("csi.pydisk.test").calls("CreateVolume")[-1]["request"]["accessibility_requirements"]
        self.assertEqual(asked["requisite"], [{"segments": {"rack": f"{self.rack(self.other)}"}}])
        refused = self.run_alloc(self.alloc_id(), (volume, "single-node-writer"), node=self.node, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"rack = {self.rack(self.other)} is needed", refused.stderr)
        spec = self.world.spec("anywhere.hcl", csi_alloc("anywhere", (volume, "single-node-writer")))
        self.holdfast("alloc", "run", spec, "--id", self.alloc_id(1))
        alloc = self.world.json("alloc", "status", self.alloc_id(1))["allocation"]
        self.assertEqual(alloc["node_id"], self.other.id)
        self.stop_alloc(self.alloc_id(1))
        self.wait_free(volume)
        self.delete(volume)

    def test_a_topology_that_no_node_has_is_refused_by_the_provider(self):
        self.put_nodes_apart("csi.pydisk.test")
        done = self.create(self.name("csi.pydisk.test"), "csi.pydisk.test", check=False, more="""topology_request {
  required {
    topology {
      segments { rack = "nowhere" }
    }
  }
}
""")
        self.assertEqual(done.returncode, 1)
        self.assertIn("accessibility_requirements", done.stderr)

    def test_a_provider_that_is_full_is_quoted(self):
        volume = self.name("csi.pydisk.test")
        self.create(volume, "csi.pydisk.test")
        self.world.storage("csi.pydisk.test").orders.order("ControllerPublishVolume", "fail", code="RESOURCE_EXHAUSTED",
                                                  text="this machine has its 16 disks", times=None)
        self.run_alloc(self.alloc_id(), (volume, "single-node-writer"), wait=False)
        for args in (("volume", "status", volume, "--why"), ("alloc", "status", self.alloc_id())):
            wait_for(f"the provider to be quoted by {args}", lambda: all(
                word in self.holdfast(*args).stdout  # noqa: B023
                for word in ("this machine has its 16 disks", "ControllerPublishVolume", "csi.pydisk.test")))
        # nothing but another detach helps, so it is asked again until it goes, more and more seldom
        wait_for("the next tries", lambda: self.world.storage("csi.pydisk.test").methods(
            self.external(volume)).count("ControllerPublishVolume") >= 3)
        self.world.storage("csi.pydisk.test").orders.clear()
        wait_for("the allocation to run", lambda: self.world.json(
            "alloc", "status", self.alloc_id())["allocation"]["client_status"] == "RUNNING")
        self.stop_alloc(self.alloc_id())
        self.wait_free(volume)
        self.delete(volume)

    def stick(self, plugin_id, alloc, volume):
        """A driver that has lost its state and does not get over it."""
        storage = self.world.storage(plugin_id)
        self.create(volume, plugin_id)
        self.run_alloc(alloc, (volume, "single-node-writer"))
        self.write(alloc, volume)
        storage.forget_nodes()
        storage.orders.order("NodeUnstageVolume", "fail", code="UNKNOWN", text="its state is lost", times=None)
        self.stop_alloc(alloc, check=False, timeout="1s")
        wait_for("the driver to be quoted", lambda: "its state is lost" in self.why(volume))

    def detach(self, volume, *options, check=True):
        return self.holdfast("volume", "detach", volume, self.node.id, *options, check=check)

    def forgive(self, plugin_id, volume):
        """To CSI a driver that never confirmed still has the volume: that is what a person took upon himself."""
        storage = self.world.storage(plugin_id)
        storage.orders.clear()
        self.delete(volume)
        self.assertEqual({broken["rule"] for broken in storage.violations()}, {"detach-order", "delete-order"})
        os.unlink(storage.state.path("violations"))

    def test_a_driver_that_never_releases_is_bypassed_by_an_operator(self):
        for n, plugin_id in enumerate(self.PLUGINS):
            volume, alloc = self.name(plugin_id), self.alloc_id(n)
            self.stick(plugin_id, alloc, volume)
            self.assertIn(f"holdfast volume detach {volume} {self.node.id} --without-plugin REASON", self.why(volume))
            self.assertEqual(self.detach(volume, "--attest", "it is gone", "--yes", check=False).returncode, 1)
            shown = self.detach(volume, "--without-plugin", "driver is gone", "--dry-run").stdout
            self.assertIn("NodeUnstageVolume", shown)
            self.assertTrue(self.node.mounts())
            self.detach(volume, "--without-plugin", "driver is gone", "--yes")
            self.wait_free(volume, 60)
            self.assert_nothing_mounted()
            claim, = self.world.claims(volume)
            self.assertEqual(claim["evidence"], "EVIDENCE_OPERATOR")
            self.assertIn("driver is gone; kernel: unstaged by the helper", claim["evidence_detail"])
            self.assertIn("driver is gone", self.holdfast("operator", "audit").stdout)
            self.forgive(plugin_id, volume)

    def test_an_agent_whose_claim_was_freed_meanwhile_stops_asking_the_driver(self):
        plugin_id = "csi.pydisk.test"
        volume, alloc = self.name(plugin_id), self.alloc_id()
        self.stick(plugin_id, alloc, volume)
        self.node.daemon.kill()
        wait_for("the operator's word to be taken",
                 lambda: self.detach(volume, "--attest", "looked", "--yes", check=False).returncode == 0)
        self.wait_free(volume)
        self.assertTrue(self.node.mounts())
        self.node.start()
        self.node.wait_connected()
        wait_for("the agent to clean up", lambda: not self.node.mounts(), 60)
        wait_for("its operations to end", lambda: not self.node.status().get("operations"))
        self.assert_nothing_mounted()
        self.wait_free(volume)
        self.forgive(plugin_id, volume)

    def test_a_socket_that_is_closed_to_the_agent_is_reported(self):
        one = self.plugins["jsdisk", self.other.id]
        one.kill()
        one.umask = 0o077
        one.start()
        self.addCleanup(self.world.wait_plugin, "jsdisk", self.NODES, self.NODES)
        self.addCleanup(one.restart)
        self.addCleanup(setattr, one, "umask", 0o007)

        wait_for("the agent to say why", lambda: "not open to this user" in self.holdfast(
            "agent", "status", "--socket", self.other.socket).stdout)
        self.world.wait_plugin("jsdisk", 1, 1)


class TestStats(CsiTest):
    NODES = 1
    PLUGINS = PLUGINS
    AGENT_SETTINGS = CsiTest.AGENT_SETTINGS + 'volume_stats = "1s"\n'

    def usages(self, volume):
        return self.world.json("volume", "status", volume)["volume"]["usages"]

    def test_the_figures_of_a_plugin_are_shown(self):
        for n, plugin_id in enumerate(self.PLUGINS):
            volume, alloc = f"stats-{n}", self.alloc_id(n)
            self.create(volume, plugin_id)
            self.run_alloc(alloc, (volume, "single-node-writer"))
            wait_for("the volume to be measured", lambda volume=volume: self.usages(volume))
            usage, = self.usages(volume)
            total, used, free = (int(usage[f"{name}_bytes"]) for name in ("total", "used", "free"))
            self.assertGreater(total, 0)
            self.assertEqual(used + free, total)  # as the plugin counts; statfs has blocks that root alone may use
            self.assertIn("NodeGetVolumeStats", self.world.storage(plugin_id).methods(self.external(volume)))
            self.assertIn(volume, [shown["volume_id"] for shown in
                                   self.world.json("node", "status", self.node.id)["usages"]])
            self.stop_alloc(alloc)
            self.assertEqual(self.usages(volume), [])
            self.wait_free(volume)
            self.delete(volume)
        self.assert_no_breach()


def add_lives():
    for plugin_id, stack in PLUGINS.items():
        def case(self, plugin_id=plugin_id):
            self.life(plugin_id)

        setattr(TestFlow, f"test_a_volume_lives_and_is_gone_with_{stack.replace('-', '_')}", case)


add_lives()
