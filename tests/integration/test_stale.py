# SPDX-License-Identifier: Apache-2.0
"""A user-space file server that hangs, and one that died: what the agent says, and whether its advice is good."""

import os
import signal
import subprocess

from case import WorldTest, wait_for
from world import BUILD, run


class TestStale(WorldTest):
    NODES = 1

    def serve(self):
        """A file system of a process of its own at the host volume's path."""
        point = self.node.hostvol
        server = subprocess.Popen(
            [os.path.join(BUILD, "tests", "support", "fuse_server"), point, str(self.node.uid)],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(run, "umount", "-l", point, check=False)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline().strip(), "ready")
        server.stdout.close()
        self.assertEqual(os.stat(point).st_uid, self.node.uid)
        return server

    def run_here(self):
        spec = self.world.spec(
            "models-app.hcl", 'name = "models"\nvolume "v" {\n  source = "models"\n'
            '  access_mode = "single-node-single-writer"\n}\n')
        self.world.holdfast("alloc", "run", spec, "--node", self.node.id, "--id", self.alloc)

    def stale(self):
        """What the status says of the only mount."""
        (mount,) = self.node.status()["mounts"]
        return mount.get("stale", "")

    def lines(self, word):
        return [line for line in self.node.daemon.said().splitlines() if self.alloc in line and word in line]

    def test_a_dead_file_server_is_shown_with_a_command_that_repairs_it(self):
        server = self.serve()
        self.world.holdfast(
            "volume", "register",
            self.world.spec("models.hcl", 'id = "models"\ntype = "native"\n'
                            'source {\n  class = "bind"\n  host_volume = "data"\n}\n'
                            'capability {\n  access_mode = "single-node-single-writer"\n'
                            '  attachment_mode = "file-system"\n}\n'))
        self.run_here()
        self.assertEqual(self.stale(), "")

        server.send_signal(signal.SIGSTOP)
        self.assertIn("does not answer", self.stale())
        # the server is still stopped: a thread of the agent hangs, and the agent does not
        self.assertIn("does not answer", self.stale())
        self.assertEqual(len(self.lines("does not answer")), 1)
        server.send_signal(signal.SIGCONT)
        wait_for("the server to answer again", lambda: self.stale() == "")
        self.assertEqual(len(self.lines("answers again")), 1)

        server.kill()
        server.wait()
        for _ in range(3):
            text = self.stale()
            self.assertIn("has died", text)  # the kernel's answer: a look that waited would end as "does not answer"
        self.assertEqual(len(self.lines("has died")), 1)
        shown = self.world.holdfast("agent", "status", "--socket", self.node.socket).stdout
        self.assertIn("stale mount of volume models", shown)
        with self.assertRaises(OSError):
            os.listdir(self.node.published(self.alloc))

        # as it says: stop it, see that the server runs, run it again
        command = text.rsplit("; ", 1)[1].split()
        self.assertEqual(command[:3], ["holdfast", "alloc", "stop"])
        self.world.holdfast(*command[1:])
        wait_for("the claims to be freed", lambda: not self.world.live_claims("models"))
        self.assertEqual([m for m in self.node.mounts() if self.node.hostvol not in m], [])
        run("umount", self.node.hostvol)
        self.serve()
        type(self).serial += 1
        self.alloc = self.alloc_id(0)
        self.run_here()
        self.assertEqual(self.stale(), "")
        self.assertEqual(os.listdir(self.node.published(self.alloc)), [])
        self.world.holdfast("alloc", "stop", self.alloc)
        wait_for("the claims to be freed", lambda: not self.world.live_claims("models"))
