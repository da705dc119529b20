# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each daemon at several places of a stage and of a release: no claim is lost, nothing is mounted twice,
nothing is stuck. The places are system calls that the daemon enters, so they are the same in every run."""

import threading

from case import WorldTest, killed_at, wait_for
from world import World

# What a server enters to make something durable, by its store: of what it sends, etcd alone gets it without TLS.
COMMIT = {"sqlite": "fdatasync", "etcd": "sendto"}

# who, system call, which of them counted from the beginning of the action
STAGE_PLACES = [
    ("helper", "fsmount", 1),  # the medium is opened, nothing attached
    ("helper", "move_mount", 1),  # before the stage mount is attached
    ("helper", "move_mount", 2),  # staged; before the publish mount is attached
    ("helper", "mount_setattr", 2),  # attached, before it is made private
    ("agent", "pwrite64", 1),  # before the allocation is journalled; nothing of it waits for the disk
    ("agent", "pwrite64", 4),
    ("agent", "pwrite64", 8),
    ("server", "commit", 1),  # before the allocation is durable
    ("server", "commit", 2),  # before the claim is
    ("server", "commit", 3),  # before the mount receipt is
]
RELEASE_PLACES = [
    ("helper", "umount2", 1),  # before the unpublish
    ("helper", "unlinkat", 1),  # unpublished, the directory stands
    ("helper", "umount2", 2),  # before the unstage
    ("agent", "pwrite64", 1),
    ("agent", "pwrite64", 4),
    ("agent", "pwrite64", 8),
    ("agent", "fdatasync", 1),  # before the disk has it that the allocation ends
    ("server", "commit", 1),  # before the stop is durable
    ("server", "commit", 2),  # before the receipt is
    ("server", "commit", 3),
]


class TestKill(WorldTest):
    def pid_of(self, who):
        if who == "helper":
            return self.node.helper_pid()
        return self.node.daemon.pid if who == "agent" else self.world.server.pid

    def start_again(self, who):
        if who == "agent":
            self.node.daemon.kill()
            self.node.start()
        elif who == "server":
            self.world.server.kill()
            self.world.start_server()
        for node in self.world.nodes:
            node.wait_connected()

    def kill_during(self, place, action):
        """Run action in the background, kill at the place, and start what was killed again."""
        who, syscall, when = place
        thread = threading.Thread(target=action)
        with killed_at(self.pid_of(who), COMMIT[World.store] if syscall == "commit" else syscall, when) as is_dead:
            thread.start()
            wait_for(f"{who} to die at {syscall} {when}", is_dead)
            if who != "helper":  # its agent starts a new one by itself
                self.start_again(who)
        thread.join(timeout=30)
        self.assertFalse(thread.is_alive(), "the command line did not return")

    def settle(self, command, status):
        """The operator repeats the command until it went through; both are idempotent."""

        def settled():
            command(check=False)
            return self.client_status() == status

        wait_for(f"the allocation to be {status}", settled, seconds=60)

    def check_running(self):
        claims = self.world.live_claims()
        self.assertEqual(len(claims), 1, claims)
        self.assert_mounted_once()
        wait_for("the claim to be taken", lambda: self.world.live_claims()[0]["state"] == "TAKEN")
        with open(f"{self.node.published(self.alloc)}/file", "w", encoding="ascii") as f:
            f.write(self.alloc)

    def check_released(self):
        wait_for("the claim to be freed", lambda: not self.world.live_claims(), seconds=60)
        self.assert_nothing_mounted()
        mine = [c for c in self.world.claims() if c["allocation_id"] == self.alloc]
        self.assertEqual([c["evidence"] for c in mine], ["EVIDENCE_RECEIPT"])

    def check_handover(self):
        """The proof that nothing is stuck: the other node gets the volume and finds the file."""
        other, alloc = self.world.nodes[1], self.alloc_id(1)
        self.run_alloc(alloc, other)
        with open(f"{other.published(alloc)}/file", encoding="ascii") as f:
            self.assertEqual(f.read(), self.alloc)
        self.stop_alloc(alloc)
        wait_for("the claim to be freed", lambda: not self.world.live_claims())
        self.assert_nothing_mounted(other)
        self.assert_trails_hold()

    def stage_case(self, place):
        self.kill_during(place, lambda: self.run_alloc(check=False))
        self.settle(self.run_alloc, "RUNNING")
        self.check_running()
        self.stop_alloc()
        self.check_released()
        self.check_handover()

    def release_case(self, place):
        self.run_alloc()
        self.check_running()
        self.kill_during(place, lambda: self.stop_alloc(check=False))
        self.settle(self.stop_alloc, "COMPLETE")
        self.check_released()
        self.check_handover()


def add_cases():
    for phase, places in (("stage", STAGE_PLACES), ("release", RELEASE_PLACES)):
        for place in places:
            def case(self, place=place, phase=phase):
                getattr(self, f"{phase}_case")(place)

            setattr(TestKill, f"test_{phase}_survives_kill_of_{place[0]}_at_{place[1]}_{place[2]}", case)


add_cases()
