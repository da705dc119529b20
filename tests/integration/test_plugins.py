# SPDX-License-Identifier: Apache-2.0
"""The CSI test plugins themselves, on both stacks, called by a raw client: they mount, and they misbehave as ordered."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "plugins"))

import disk
import plugin
from world import wait_for

UNKNOWN, INVALID, DEADLINE, NOT_FOUND, EXISTS, EXHAUSTED = 2, 3, 4, 5, 6, 8
PRECONDITION, ABORTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 9, 10, 12, 13, 14
WRITER = {"mount": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}
WRITERS = {"mount": {}, "access_mode": {"mode": "MULTI_NODE_MULTI_WRITER"}}
SINGLE = {"mount": {}, "access_mode": {"mode": "SINGLE_NODE_SINGLE_WRITER"}}
BLOCK = {"block": {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}
MIB = 1 << 20


EMPTY = "0000000000"  # a frame of gRPC with an empty message
# What a stack does on the wire by itself, as (HTTP status, grpc-status); RESET: the stream is. The agent has to cope.
RESET, NO_STATUS = "reset", None
STREAM_ERROR = 92  # of curl
# What is answered before the request is read may be followed by a reset of the stream, and then curl drops it.
EARLY_2, EARLY_415 = ((200, 2), RESET), ((415, NO_STATUS), RESET)
WIRE = [
    # name, bytes, what is different in the headers, C-core, grpc-js
    ("a good call", EMPTY, {}, (200, 0), (200, 0)),
    ("content type with +proto", EMPTY, {"content-type": "application/grpc+proto"}, (200, 0), (200, 0)),
    ("wrong content type", EMPTY, {"content-type": "text/plain"}, (200, 0), EARLY_415),
    ("no te: trailers", EMPTY, {"te": ""}, EARLY_2, (200, 0)),
    ("the socket's path as authority", EMPTY, {"host": "/run/csi.sock"}, (200, 0), RESET),
    ("method GET", EMPTY, {":method": "GET"}, EARLY_2, (200, 0)),
    ("garbage", "0000000005ffffffffff", {}, (200, 13), (200, 13)),
    ("half a message", "00000000ff01", {}, (200, 12), (200, 12)),
    ("no message", "", {}, (200, 12), (200, 12)),
    ("two messages", EMPTY + EMPTY, {}, (200, 0), (200, 12)),
    ("unknown encoding", "0100000000", {"grpc-encoding": "x"}, (200, 0), (200, 12)),
    ("nine digits of time", EMPTY, {"grpc-timeout": "123456789S"}, (200, 0), (200, 0)),
]


class Client:
    """client.py as a process, because the stack is in Debian's Python and not in every other."""

    def __init__(self, messages, socket, authority="localhost"):
        self.process = subprocess.Popen(
            [plugin.PYTHON, "-B", str(plugin.HERE / "client.py"), str(messages), socket, authority],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, method, request, **how):
        self.process.stdin.write(json.dumps({"method": method, "request": request, **how}) + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())

    def close(self):
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


class PluginTest:
    """Every test of both stacks; one plugin and one client a class, one storage a test."""

    STACK = None

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="holdfast-plugins-")
        cls.addClassCleanup(subprocess.run, ["find", cls.dir, "-xdev", "-depth", "-delete"], check=False)
        cls.tools = plugin.prepare()
        cls.serial = 0

    def setUp(self):
        type(self).serial += 1
        self.storage = plugin.Storage(f"{self.dir}/{self.serial}")
        self.addCleanup(self.storage.close)
        self.plugin = plugin.Plugin(self.storage, self.STACK, f"{self.storage.folder}/csi.sock", "node-1", self.tools)
        self.addCleanup(self.plugin.kill)
        self.orders = self.storage.orders
        self.staging, self.target = f"{self.storage.folder}/staging", f"{self.storage.folder}/target"
        os.mkdir(self.staging)

    def begin(self, **settings):
        if settings:
            self.orders.settings(**settings)
        self.plugin.start()
        self.client = Client(self.tools[0], self.plugin.socket)
        self.addCleanup(self.client.close)

    def restart(self):
        """The plugin; and the client, which would call on a connection that is gone."""
        self.client.close()
        self.plugin.restart()
        self.client = Client(self.tools[0], self.plugin.socket)
        self.addCleanup(self.client.close)

    def call(self, method, code=0, how=None, **request):
        self.client.send(method, request, **(how or {}))
        done = self.client.receive()
        self.assertEqual(done["code"], code, f"{method}: {done['text']}")
        return done["response"] if code == 0 else done["text"]

    def create(self, name="a", capability=None, kind="ext4", code=0, size=8 * MIB, **more):
        response = self.call("CreateVolume", code, name=name, volume_capabilities=[capability or WRITER],
                             capacity_range={"required_bytes": size}, parameters={"kind": kind}, **more)
        return response["volume"] if code == 0 else response

    def attach(self, volume, capability=None, code=0, node="node-1", **more):
        response = self.call("ControllerPublishVolume", code, volume_id=volume["volume_id"], node_id=node,
                             volume_capability=capability or WRITER, volume_context=volume["volume_context"], **more)
        return response.get("publish_context", {}) if code == 0 else response

    def stage(self, volume, context, capability=None, code=0, **more):
        return self.call("NodeStageVolume", code, volume_id=volume["volume_id"], publish_context=context,
                         staging_target_path=self.staging, volume_capability=capability or WRITER,
                         volume_context=volume["volume_context"], **more)

    def publish(self, volume, context, capability=None, code=0, target=None, **more):
        return self.call("NodePublishVolume", code, volume_id=volume["volume_id"], publish_context=context,
                         staging_target_path=self.staging, target_path=target or self.target,
                         volume_capability=capability or WRITER, volume_context=volume["volume_context"], **more)

    def up(self, capability=None, readonly=False, **create):
        """A volume from nothing to its target."""
        volume = self.create(capability=capability, **create)
        context = self.attach(volume, capability)
        self.stage(volume, context, capability)
        self.publish(volume, context, capability, readonly=readonly)
        return volume, context

    def unpublish(self, volume, code=0, target=None):
        return self.call("NodeUnpublishVolume", code, volume_id=volume["volume_id"], target_path=target or self.target)

    def unstage(self, volume, code=0):
        return self.call("NodeUnstageVolume", code, volume_id=volume["volume_id"], staging_target_path=self.staging)

    def detach(self, volume, code=0, node="node-1"):
        self.call("ControllerUnpublishVolume", code, volume_id=volume["volume_id"], node_id=node)
        if not self.storage.state.load()["attached"].get(volume["volume_id"]):
            self.assertEqual(self.storage.devices(volume["volume_id"]), [])

    def delete(self, volume, code=0):
        return self.call("DeleteVolume", code, volume_id=volume["volume_id"])

    def down(self, volume):
        for step in (self.unpublish, self.unstage, self.detach, self.delete):
            step(volume)

    def rules(self):
        return [breach["rule"] for breach in self.storage.violations()]

    def assert_nothing_left(self):
        self.assertEqual([target for target, _ in disk.mounts() if target.startswith(self.dir)], [])
        data = self.storage.state.load()
        self.assertEqual([data["volumes"], data["attached"], data["nodes"]["node-1"]], [{}, {}, {}])
        self.assertEqual(os.listdir(self.storage.state.path("data")), [])
        self.assertEqual(os.listdir(self.storage.state.path("inflight")), [])

    # --- the plugin at its best ---------------------------------------------------------------------------

    def test_it_reports_its_name_and_capabilities(self):
        self.begin(topology={"rack": "R1"}, max_volumes=3)
        self.assertEqual(self.call("GetPluginInfo")["name"], "test.holdfast.example")
        self.assertEqual(self.call("Probe"), {"ready": True})
        services = [c["service"]["type"] for c in self.call("GetPluginCapabilities")["capabilities"] if "service" in c]
        self.assertEqual(services, ["CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"])
        self.assertEqual(len(self.call("ControllerGetCapabilities")["capabilities"]), 12)
        self.assertEqual(len(self.call("NodeGetCapabilities")["capabilities"]), 4)
        info = self.call("NodeGetInfo")
        self.assertEqual(info, {"node_id": "node-1", "max_volumes_per_node": "3",
                                "accessible_topology": {"segments": {"rack": "R1"}}})

    def test_a_volume_lives_and_outlives_the_plugin(self):
        self.begin()
        volume, context = self.up()
        self.assertTrue(disk.is_mounted(self.staging) and disk.is_mounted(self.target))
        with open(f"{self.target}/file", "w", encoding="ascii") as f:
            f.write("kept")
        self.restart()
        self.stage(volume, context)
        self.publish(volume, context)  # both again
        self.unpublish(volume)
        self.unpublish(volume)
        self.assertFalse(os.path.exists(self.target))
        self.publish(volume, context, readonly=True)
        with open(f"{self.target}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "kept")
        with self.assertRaises(OSError):
            open(f"{self.target}/other", "wb").close()
        self.down(volume)
        self.assert_nothing_left()
        self.assertEqual(self.storage.violations(), [])

    def test_a_directory_serves_two_nodes(self):
        self.begin()
        other = plugin.Plugin(self.storage, self.STACK, f"{self.storage.folder}/2.sock", "node-2", self.tools, kind="node")
        self.addCleanup(other.kill)
        other.start()
        volume, _ = self.up(WRITERS, kind="bind")
        self.attach(volume, WRITERS, node="node-2")
        self.attach(volume, WRITERS, node="node-9", code=NOT_FOUND)
        self.detach(volume, node="node-2")
        self.down(volume)
        self.assertEqual(self.rules(), [])

    def test_a_device_is_published_as_a_file(self):
        self.begin()
        volume, context = self.up(BLOCK)
        self.assertTrue(disk.is_mounted(self.target))
        self.assertEqual(os.stat(self.target).st_rdev, os.stat(context["device"]).st_rdev)
        self.call("ControllerExpandVolume", volume_id=volume["volume_id"], capacity_range={"required_bytes": 16 * MIB})
        self.call("NodeExpandVolume", volume_id=volume["volume_id"], volume_path=self.target)
        size = subprocess.run(["blockdev", "--getsize64", self.target], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(int(size), 16 * MIB)
        self.down(volume)
        self.assertFalse(os.path.exists(self.target))
        self.assert_nothing_left()

    def test_it_grows_under_a_mount(self):
        self.begin()
        volume, _ = self.up(kind="xfs")
        before = os.statvfs(self.target).f_blocks
        grown = self.call("ControllerExpandVolume", volume_id=volume["volume_id"],
                          capacity_range={"required_bytes": 400 * MIB})
        self.assertTrue(grown["node_expansion_required"])
        self.call("NodeExpandVolume", volume_id=volume["volume_id"], volume_path=self.target)
        self.assertGreater(os.statvfs(self.target).f_blocks, 5 * before // 4)
        self.down(volume)
        self.assertEqual(self.rules(), [])

    def test_snapshots_and_clones_hold_the_written_data(self):
        self.begin()
        volume, _ = self.up()
        with open(f"{self.target}/file", "w", encoding="ascii") as f:
            f.write("before")
        snapshot = self.call("CreateSnapshot", source_volume_id=volume["volume_id"], name="s")["snapshot"]
        with open(f"{self.target}/file", "w", encoding="ascii") as f:
            f.write("after!")
        clone = self.create("b", volume_content_source={"volume": {"volume_id": volume["volume_id"]}})
        self.unpublish(volume)
        self.unstage(volume)
        restored = self.create("c", volume_content_source={"snapshot": {"snapshot_id": snapshot["snapshot_id"]}})
        for one, text in ((restored, "before"), (clone, "after!")):
            context = self.attach(one)
            self.stage(one, context)
            with open(f"{self.staging}/file", encoding="ascii") as f:
                self.assertEqual(f.read(), text)
            self.unstage(one)
            self.detach(one)
        self.assertEqual(len(self.call("ListSnapshots")["entries"]), 1)
        self.call("DeleteSnapshot", snapshot_id=snapshot["snapshot_id"])
        self.call("DeleteSnapshot", snapshot_id=snapshot["snapshot_id"])
        self.assertEqual(self.call("ListSnapshots"), {})

    def test_lists_come_in_pages(self):
        self.begin()
        ids = sorted(self.create(name, kind="bind")["volume_id"] for name in "abcde")
        found, token = [], ""
        while True:
            page = self.call("ListVolumes", starting_token=token)
            self.assertLessEqual(len(page["entries"]), 2)
            found += [entry["volume"]["volume_id"] for entry in page["entries"]]
            token = page.get("next_token", "")
            if not token:
                break
        self.assertEqual(found, ids)
        self.assertEqual(len(self.call("ListVolumes", max_entries=4)["entries"]), 4)
        self.call("ListVolumes", ABORTED, starting_token="x")

    def test_it_refuses_unsupported_requests(self):
        self.begin(max_volumes=1, topology={"rack": "R1"})
        self.create(code=EXHAUSTED, accessibility_requirements={"requisite": [{"segments": {"rack": "R2"}}]})
        self.create(code=INVALID, kind="tape")
        volume = self.create()
        self.create(code=EXISTS, size=9 * MIB)
        self.assertEqual(self.create()["volume_id"], volume["volume_id"])
        why = self.call("ValidateVolumeCapabilities", volume_id=volume["volume_id"], volume_capabilities=[WRITERS])
        self.assertNotIn("confirmed", why)
        self.assertIn("one node", why["message"])
        self.attach(volume)
        self.attach(self.create("b"), code=EXHAUSTED)
        self.delete(volume, PRECONDITION)

    def test_without_stage_and_without_controller(self):
        self.begin(without=["STAGE_UNSTAGE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME"])
        volume = self.create()
        self.publish(volume, {})
        self.assertTrue(disk.is_mounted(self.target))
        self.unpublish(volume)
        self.delete(volume)
        self.assert_nothing_left()
        self.assertEqual(self.rules(), [])
        self.stage(volume, {}, code=UNIMPLEMENTED)
        self.assertEqual(self.rules()[0], "unannounced")

    def curl(self, data, different):
        """HTTP status and grpc-status of a call that curl makes."""
        body, headers = f"{self.storage.folder}/body", f"{self.storage.folder}/headers"
        with open(body, "wb") as f:
            f.write(bytes.fromhex(data))
        with open(headers, "wb"):
            pass  # curl makes none where there are none
        sent = {":method": "POST", "content-type": "application/grpc", "te": "trailers", **different}
        method = sent.pop(":method")
        done = subprocess.run(
            ["curl", "--silent", "--request", method, "--http2-prior-knowledge", "--unix-socket", self.plugin.socket, "--max-time", "10",
             *(word for name, value in sent.items() for word in ("--header", f"{name}: {value}".rstrip())),
             "--data-binary", f"@{body}",
             "--output", "/dev/null", "--dump-header", headers, "http://localhost/csi.v1.Identity/Probe"],
            check=False)
        self.assertIn(done.returncode, (0, STREAM_ERROR))
        with open(headers, encoding="utf-8") as f:
            lines = f.read().splitlines()
        if not lines:
            return RESET
        status = [line.split(":")[1] for line in lines if line.startswith("grpc-status:")]
        return int(lines[0].split(" ")[1]), int(status[0]) if status else NO_STATUS

    def test_the_stack_behaves_on_the_wire_as_tabulated(self):
        self.begin()
        column = plugin.STACKS.index(self.STACK)
        found = [(name, self.curl(data, different)) for name, data, different, *_ in WIRE]
        for row, (name, seen) in zip(WIRE, found):
            expected = row[3 + column]
            self.assertIn(seen, expected if expected in (EARLY_2, EARLY_415) else [expected], name)
        self.assertTrue(self.plugin.alive())

    # --- as ordered ---------------------------------------------------------------------------------------

    def test_it_fails_as_often_as_ordered(self):
        self.begin()
        self.orders.order("CreateVolume", "fail", code="RESOURCE_EXHAUSTED", text="full", times=2, skip=1)
        volume = self.create("a")
        self.assertEqual(self.create("b", code=EXHAUSTED), "full")
        self.restart()  # what was done of an order is not forgotten
        self.create("b", code=EXHAUSTED)
        self.create("b")
        self.orders.order("ControllerPublishVolume", "fail-after", code=13)
        self.attach(volume, code=INTERNAL)
        self.assertIn("node-1", self.storage.state.load()["attached"][volume["volume_id"]])

    def test_it_lies(self):
        self.begin()
        volume = self.create()
        context = self.attach(volume)
        self.orders.order("NodeStageVolume", "lie")
        self.stage(volume, context)
        self.assertFalse(disk.is_mounted(self.staging))
        self.orders.order("NodeGetInfo", "", answer={"node_id": ""})
        self.assertEqual(self.call("NodeGetInfo"), {})
        self.assertEqual(self.call("NodeGetInfo"), {"node_id": "node-1"})

    def test_it_hangs_until_it_is_given_up_or_the_time_is_over(self):
        self.begin()
        self.orders.order("CreateVolume", "hang")
        self.call("CreateVolume", DEADLINE, how={"timeout": 2}, name="a", volume_capabilities=[WRITER])
        wait_for("the call to be forgotten", lambda: not os.listdir(self.storage.state.path("inflight")))
        self.assertEqual(self.storage.volumes(), {})
        self.orders.order("CreateVolume", "slow", seconds=4)
        self.call("CreateVolume", DEADLINE, how={"timeout": 2}, name="a", volume_capabilities=[WRITER])
        wait_for("it to be done nevertheless", lambda: self.storage.volumes())
        self.orders.order("DeleteVolume", "hang-after")
        self.call("DeleteVolume", DEADLINE, how={"timeout": 4}, volume_id=next(iter(self.storage.volumes())))
        self.assertEqual(self.storage.volumes(), {})

    def test_it_dies_before_and_after(self):
        self.begin()
        volume = self.create()
        for do, is_attached in (("die", False), ("die-after", True)):
            self.orders.order("ControllerPublishVolume", do)
            self.attach(volume, code=UNAVAILABLE)
            self.plugin.wait_dead()
            self.assertEqual(volume["volume_id"] in self.storage.state.load()["attached"], is_attached)
            self.restart()
        context = self.attach(volume)
        self.stage(volume, context)

    def test_it_closes_the_connection_in_mid_call(self):
        self.begin()
        self.orders.order("Probe", "close")
        self.call("Probe", UNAVAILABLE)
        self.assertEqual(self.call("Probe"), {"ready": True})

    def test_it_sends_invalid_answers_on_order(self):
        self.begin()
        # C-core waits for the end of a stream that has a second message; the other answers come
        for do, codes, seconds in (("twice", (4, 12, 13), 1), ("nothing", (0, 12, 13), 60), ("malformed", (13,), 60),
                                   ("oversize", (8,), 60)):
            self.orders.order("Probe", do)
            self.client.send("Probe", {}, timeout=seconds)
            self.assertIn(self.client.receive()["code"], codes, do)
        self.assertEqual(self.call("Probe"), {"ready": True})

    # --- rules --------------------------------------------------------------------------------------------

    def assert_breach(self, rule):
        self.assertIn(rule, self.rules())
        os.unlink(self.storage.state.path("violations"))

    def test_it_notes_violations(self):
        self.begin()
        volume = self.create()
        self.stage(volume, {}, code=PRECONDITION)
        self.assert_breach("not-attached")
        context = self.attach(volume)
        self.stage(volume, {**context, "device": "/dev/null"}, code=PRECONDITION)
        self.assert_breach("publish-context")
        self.publish(volume, context, code=PRECONDITION)
        self.assert_breach("not-staged")
        self.stage(volume, context)
        self.assertEqual(self.rules(), [])
        self.call("NodeStageVolume", PRECONDITION, volume_id=volume["volume_id"], publish_context=context,
                  staging_target_path=self.storage.folder, volume_capability=WRITER)
        self.assert_breach("staging-path")
        self.publish(volume, context, target=f"{self.storage.folder}/no/target", code=INTERNAL)
        self.assert_breach("target-path")
        self.publish(volume, context)
        self.unstage(volume, PRECONDITION)
        self.assert_breach("unstage-order")
        self.call("ControllerUnpublishVolume", volume_id=volume["volume_id"], node_id="node-1")
        self.assert_breach("detach-order")
        self.delete(volume, PRECONDITION)
        self.assert_breach("delete-order")
        self.call("DeleteVolume", volume_id="")
        self.assert_breach("required")

    def test_it_notes_two_calls_at_a_time_a_wrong_authority_and_secrets_in_the_open(self):
        self.begin()
        volume = self.create()
        self.orders.order("ControllerGetVolume", "slow", seconds=0.5)
        for tag in (1, 2):
            self.client.send("ControllerGetVolume", {"volume_id": volume["volume_id"]}, background=tag)
        self.assertEqual([self.client.receive()["code"] for _ in range(2)], [0, 0])
        self.assert_breach("in-flight")
        self.create("b", secrets={"key": "hunter22"}, kind="bind")
        self.assertEqual(self.rules(), [])
        self.assertEqual(self.storage.calls("CreateVolume")[1]["request"]["secrets"], {"key": "hunter22"})
        self.call("CreateVolume", INVALID, name="c", volume_capabilities=[WRITER], secrets={"key": "hunter22"},
                  parameters={"kind": "hunter22"})
        self.assert_breach("secrets")
        self.client.close()
        self.client = Client(self.tools[0], self.plugin.socket, "somebody")
        self.call("Probe")
        self.assert_breach("authority")

    # --- quirks -------------------------------------------------------------------------------------------

    def test_each_quirk_shows(self):
        self.begin()
        self.orders.quirks("P1", "P2", "P3", "P5", "P6", "P13")
        self.assertIn("missing version", self.call("GetPluginInfo", UNAVAILABLE))
        self.assertEqual(self.call("Probe"), {})
        types = [c.get("rpc", {}).get("type") for c in self.call("ControllerGetCapabilities")["capabilities"]]
        self.assertIn(99, types)
        self.assertGreater(len(types), len(set(types)))
        volume = self.create()
        self.assertNotIn("capacity_bytes", volume)
        self.assertIn("#", volume["volume_id"])
        self.create(size=9 * MIB)
        entry = self.call("ListVolumes")["entries"][0]
        self.assertEqual(entry["status"]["published_node_ids"], [""])
        for quirk, code in (("P4", 12), ("P4-unknown", UNKNOWN), ("P4-internal", INTERNAL)):
            self.orders.settings(without=["GET_CAPACITY"])
            self.orders.quirks(quirk)
            self.call("GetCapacity", code)
        self.orders.quirks("P11")
        self.delete(volume, ABORTED)
        self.delete(volume)

    def test_a_deleted_volume_that_was_published_stays_mounted(self):
        self.begin()
        self.orders.quirks("P7")
        volume, _ = self.up()
        self.delete(volume)
        self.assertTrue(disk.is_mounted(self.target))
        self.unpublish(volume, NOT_FOUND)
        self.unstage(volume, NOT_FOUND)
        for path in (self.target, self.staging):
            disk.unmount(path)

    def test_an_answer_of_ok_mounts_nothing_and_files_stay(self):
        self.begin()
        self.orders.quirks("P10", "P14")
        volume = self.create()
        context = self.attach(volume)
        self.stage(volume, context)
        self.publish(volume, context, code=NOT_FOUND)
        os.mkdir(self.target)
        self.publish(volume, context)
        self.assertFalse(disk.is_mounted(self.target))
        with open(f"{self.target}/file", "wb"):
            pass
        self.assertIn("not empty", self.unpublish(volume, UNKNOWN))
        os.unlink(f"{self.target}/file")
        self.unpublish(volume)
        self.assertTrue(os.path.isdir(self.target))

    def test_access_modes_are_enforced_or_not(self):
        self.begin()
        volume, context = self.up(SINGLE)
        other = self.target + "-2"
        self.publish(volume, context, SINGLE, target=other, code=PRECONDITION)
        self.orders.quirks("P8", "P15")
        self.publish(volume, context, SINGLE, target=other)
        self.assertIn("usage", self.call("NodeGetVolumeStats", volume_id="any", volume_path="/nowhere"))
        self.unpublish(volume, target=other)
        self.down(volume)
        self.assert_nothing_left()

    def test_a_hung_backend_outlives_the_call(self):
        self.begin()
        self.orders.quirks("P9")
        self.call("CreateVolume", DEADLINE, how={"timeout": 0.5}, name="a", volume_capabilities=[WRITER])
        self.assertEqual(self.storage.volumes(), {})
        self.plugin.kill()

    def test_the_socket_is_its_owners_alone(self):
        self.orders.quirks("P17")
        self.begin()
        self.assertEqual(self.plugin.socket_mode(), 0o600)
        self.plugin.kill(signal.SIGTERM)
        self.assertEqual(os.path.exists(self.plugin.socket), self.STACK == plugin.GRPCIO)


class TestGrpcio(PluginTest, unittest.TestCase):
    STACK = plugin.GRPCIO


class TestGrpcJs(PluginTest, unittest.TestCase):
    STACK = plugin.GRPC_JS

    def test_it_breaks_the_frame_below_the_message(self):
        self.begin()
        # C-core takes half a message for none
        for do, codes in (("truncated", (0, 12, 13)), ("reset", (13,)), ("http", (UNAVAILABLE,))):
            self.orders.order("Probe", do)
            self.client.send("Probe", {})
            self.assertIn(self.client.receive()["code"], codes, do)
        self.assertEqual(self.call("Probe"), {"ready": True})


if __name__ == "__main__":
    unittest.main()
