# SPDX-License-Identifier: Apache-2.0
"""A whole machine is booted again, in order and by a power cut, while a service has its volume on a disk.

In order, the node drains before it goes down, and its receipt ends the claim. After a power cut nobody has released the
volume, so its claim continues; that the same node is back in another boot is the evidence that ends it.
"""

import os
import unittest

import machine

LANES = ("vm",)
OTHER_RELEASE = ("vm",)
PHASES = ("Before", "reboot", "AfterReboot", "power-cut", "AfterPowerCut")

BY_ID = "virtio-holdfast-scratch"
DISK = f"/dev/disk/by-id/{BY_ID}"
STATE = "/root/state"  # of the test, for the phase after this one
PROFILE = f"""	profile disk {{
		class = block
		fstype = ext4
		trust = trusted
		by_id = exact:{BY_ID}
	}}
"""


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        return f.read().strip()


def claim_of(alloc):
    claims = machine.holdfast_json("alloc", "status", alloc)["claims"]
    return claims[0] if claims else None


class Phase(unittest.TestCase):
    def remember(self, alloc):
        os.sync()
        machine.write(STATE, f"{alloc} {boot_id()}")
        os.sync()

    def remembered(self):
        with open(STATE, encoding="ascii") as f:
            return f.read().split()

    def check_the_new_boot(self, evidence):
        alloc, former_boot = self.remembered()
        self.assertNotEqual(boot_id(), former_boot)
        machine.wait_connected()
        self.assertEqual(machine.mounts_below(machine.TREE), [])
        machine.wait_for("the claim to be freed", lambda: claim_of(alloc)["state"] == "FREED")
        claim = claim_of(alloc)
        self.assertEqual((claim["evidence"], claim["boot_id"]), (evidence, former_boot))
        if evidence == "EVIDENCE_NEW_BOOT":
            self.assertIn(boot_id(), claim["evidence_detail"])
        status = machine.holdfast_json("alloc", "status", alloc)["allocation"]
        self.assertEqual(status["client_status"], "LOST")

    def run_again(self, name):
        alloc = machine.run_alloc(name, "disk-1")
        with open(alloc["published"][0]["path"] + "/file", encoding="ascii") as f:
            self.assertEqual(f.read(), "kept")
        self.remember(alloc["id"])
        return alloc


class Before(Phase):
    def test_a_volume_on_a_disk_that_udev_named_is_in_use(self):
        machine.run("mkfs.ext4", "-q", DISK)
        machine.set_up(profiles=PROFILE)
        machine.systemctl("enable", "holdfast-server.service", "holdfast-mounthelper.socket", "holdfast-agent-socket.service")
        machine.holdfast("volume", "register", machine.block_volume_spec("disk-1", "disk", BY_ID))
        alloc = machine.run_alloc("web", "disk-1")
        path = alloc["published"][0]["path"]
        self.assertEqual(os.stat(path).st_dev, os.stat(DISK).st_rdev)
        with open(path + "/file", "w", encoding="ascii") as f:
            f.write("kept")
        self.remember(alloc["id"])


class AfterReboot(Phase):
    def test_the_claim_has_ended_by_a_receipt_and_the_volume_is_free_with_its_data(self):
        self.check_the_new_boot("EVIDENCE_RECEIPT")
        self.run_again("web-2")
        machine.holdfast("audit", "verify")


class AfterPowerCut(Phase):
    def test_the_claim_ends_by_the_new_boot_and_the_volume_is_free_with_its_data(self):
        self.check_the_new_boot("EVIDENCE_NEW_BOOT")
        alloc = self.run_again("web-3")
        volume = machine.holdfast_json("volume", "status", "disk-1")["volume"]
        self.assertEqual(int(volume["generation"]) % (1 << 32), 3)  # the third of the epoch
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))
        machine.holdfast("audit", "verify")


if __name__ == "__main__":
    unittest.main()
