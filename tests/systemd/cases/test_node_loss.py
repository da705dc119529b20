# SPDX-License-Identifier: Apache-2.0
"""docs/node-loss.md and docs/network-fence.md as they are, on the machines that docs/install-apart.md has made before. The BMC of worker-1 is OpenIPMI's
simulator on claims, whose power switch ends a program. A node that dies loses its network."""

import json
import os
import subprocess
import unittest

import apart
import guide
import machine

BARE = ("container",)  # the packages are not installed yet; see tests/vm/case.py
MACHINES = ("claims", "worker-1", "worker-2")

APART = "/payload/docs/install-apart.md"
PAGE, TITLE = "/payload/docs/node-loss.md", "A node died: how do its volumes come free by themselves?"
NETWORK, NETWORK_TITLE = "/payload/docs/network-fence.md", "How does the storage of a CSI plugin refuse a lost node?"
VOLUME = "holdfast-volume@first.service"
USER, PASSWORD = "holdfast", "correct-horse"  # of the page
BMC = """name "worker-1"
set_working_mc 0x20
startlan 1
  addr {address} 623
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
serial 15 {address} 9001 codec VM
startcmd "{command}"
startnow true
user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""
BMC_START = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02
mc_enable 0x20
"""
POWER = """#!/bin/sh
trap 'echo off >/shared/worker-1.off; exit' TERM
sleep infinity &
wait
"""
PLUGIN, STORAGE = "san", "/shared/plugin"


class NodeLoss(apart.Apart):
    addresses = {"claims": "192.0.2.10", "worker-1": "192.0.2.21", "worker-2": "192.0.2.22"}
    places = {"every node": ("worker-1", "worker-2")}
    nodes = ("worker-1", "worker-2")
    bmc = "192.0.2.121"  # of worker-1

    def prepare(self):
        """Everything that the page expects: the machines of install-apart.md, a BMC, and a CSI plugin."""
        self.follow(APART, "A server and nodes apart", until="a line for Ann")
        guide.log_in("/payload/debs")
        if self.name == "claims":
            with open("/etc/holdfast/server.hcl", "a", encoding="ascii") as f:
                f.write('heartbeat = "1s"\n')
            self.start_bmc()
        else:
            self.start_plugin()
            self.tell(f"plugin.{self.name}")
        for node in self.nodes:
            self.wait(f"plugin.{node}")

    def start_bmc(self):
        folder = "/root/bmc"
        machine.run("ip", "address", "add", f"{self.bmc}/24", "dev", "host0")
        machine.write(f"{folder}/power", POWER, 0o755)
        machine.write(f"{folder}/lan", BMC.format(address=self.bmc, command=f"{folder}/power", user=USER, password=PASSWORD))
        machine.write(f"{folder}/start", BMC_START)
        daemon = subprocess.Popen(["ipmi_sim", "-n", "-c", f"{folder}/lan", "-f", f"{folder}/start", "-s", folder],
                                  stdin=subprocess.DEVNULL)  # fmt: skip
        self.addCleanup(daemon.kill)
        machine.wait_for("the BMC", lambda: "is on" in self.power())

    def power(self):
        return machine.run("ipmitool", "-I", "lanplus", "-C", "3", "-H", self.bmc, "-U", USER, "-P", PASSWORD, "chassis", "power",
                           "status", check=False).stdout  # fmt: skip

    def start_plugin(self):
        """Its socket is where the agent looks; the provider is the same on both nodes."""
        folder = f"/run/holdfast/plugins/{PLUGIN}"
        machine.run("install", "-d", "-m", "0750", folder)
        os.makedirs(STORAGE, exist_ok=True)
        settings = {"addons": True, "clients": {name: [f"{self.addresses[name]}/32"] for name in self.nodes}}
        machine.write(f"{STORAGE}/orders.json", json.dumps({"settings": settings}))
        daemon = subprocess.Popen(
            ["/usr/bin/python3", "-B", "/payload/plugins/grpcio_plugin.py", "--state", STORAGE, "--node", self.name, "--messages",
             "/payload/plugins/messages"],
            env=os.environ | {"CSI_ENDPOINT": f"unix://{folder}/{PLUGIN}.sock"}, stdin=subprocess.DEVNULL, umask=0o002)  # fmt: skip
        self.addCleanup(daemon.kill)
        machine.wait_for("the agent to use the plugin", lambda: any(
            plugin.get("state") == "healthy" for plugin in machine.agent_status()["plugins"]), seen=machine.agent_status)

    def after(self, text):
        """worker-1 dies when all is tried out, and its BMC is in use after that."""
        if "fence --test" in text:
            if self.name == "worker-1":
                machine.run("ip", "link", "set", "host0", "down")
                self.tell("lost")
            self.wait("lost")
        elif "--reason 'does not answer'" in text and "--network" not in text:
            self.take_over()
        elif "--network san --reason" in text and self.name == "claims":
            self.assertEqual(self.fenced(), [f"{self.addresses['worker-1']}/32"])
        elif "--lift" in text and self.name == "claims":
            self.assertEqual(self.fenced(), [])

    def before(self, text):
        if text.startswith("holdfast node fence worker-1 --reason"):
            self.assertFalse(os.path.exists("/shared/worker-1.off"))
            machine.wait_for("the server to miss worker-1", lambda: "disconnected" in machine.run("holdfast", "node", "status").stdout)

    def take_over(self):
        """worker-1 is off before worker-2 has its volume."""
        if self.name == "claims":
            self.assertTrue(os.path.exists("/shared/worker-1.off"))
            self.assertIn("is off", self.power())
            self.assertEqual(machine.show("holdfast-fencer.service", "LimitCORE"), "0")  # no secret in a core dump
        elif self.name == "worker-2":
            service = next(text for _, _, _, text in self.steps(APART, "A server and nodes apart") if "volumes.d/first" in text)
            machine.write("/etc/holdfast/volumes.d/first.hcl", service.partition("END'\n")[2].partition("\nEND")[0])
            machine.wait_connected()
            started = machine.systemctl("start", VOLUME, check=False)
            self.assertEqual(started.returncode, 0, machine.journal("-u", VOLUME, "-u", "holdfast-agent-socket.service", "-n", "40"))
            self.assertEqual(len(machine.mounts_below(f"{machine.TREE}/publish")), 1)
            self.tell("taken over")
        self.wait("taken over")  # the server restarts after that

    @staticmethod
    def fenced():
        with open(f"{STORAGE}/state.json", encoding="utf-8") as f:
            return json.load(f)["fenced"]

    def test_both_pages_work_word_for_word(self):
        self.together(lambda: (self.prepare(), self.follow(PAGE, TITLE), self.follow(NETWORK, NETWORK_TITLE)))


if __name__ == "__main__":
    unittest.main()
