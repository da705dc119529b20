# SPDX-License-Identifier: Apache-2.0
"""Launch mode socket: no setuid bit, the agent under no_new_privs, the helper a process of somebody else's."""

import os
import signal

from case import WorldTest, proc_status, wait_for


class TestLaunchSocket(WorldTest):
    NODES = 1

    def setUp(self):
        super().setUp()
        self.node.daemon.kill()
        self.argv = self.node.daemon.argv
        self.node.daemon.argv = self.argv[:1] + ["--no-new-privs"] + self.argv[1:]
        self.node.use_helper_socket()
        self.addCleanup(self.shut)
        self.node.start()
        self.node.wait_connected()

    def shut(self):
        self.node.daemon.kill()
        self.node.remove_helper_socket()
        self.node.daemon.argv = self.argv

    def test_a_volume_lives_and_outlives_the_helpers(self):
        self.run_alloc()
        self.assert_mounted_once()
        before = self.node.mounts()
        helper = self.node.status()["helper"]
        self.assertEqual(helper["launch_mode"], "socket")
        first = helper["pid"]
        agent, process = proc_status(self.node.daemon.pid), proc_status(first)
        self.assertEqual(agent["NoNewPrivs"], "1")
        self.assertNotEqual(process["PPid"], str(self.node.daemon.pid))
        os.kill(first, signal.SIGKILL)
        wait_for("another helper", lambda: self.node.status()["helper"]["pid"] not in (0, first))
        os.kill(self.node.daemon.pid, signal.SIGHUP)
        self.assertEqual(self.node.mounts(), before)
        self.stop_alloc()
        wait_for("the claim to be freed", lambda: not self.world.live_claims())
        self.assert_nothing_mounted()
        self.assert_trails_hold()

    def test_a_missing_socket_is_reported_and_found_again(self):
        self.node.daemon.kill()
        hidden = self.node.helper_socket.path + ".away"
        os.rename(self.node.helper_socket.path, hidden)
        self.node.start()

        def says_why():
            status = self.node.status()
            return status and "helper.socket" in status["helper"].get("last_error", "")

        wait_for("the agent to say why", says_why)
        os.rename(hidden, self.node.helper_socket.path)
        self.node.wait_connected()
        self.run_alloc()
        self.assert_mounted_once()


class TestPropagation(WorldTest):
    """What is shown of a mount is what the helper reads, whatever the agent's own mount namespace makes of its copy."""

    NODES = 1
    SCRATCH = 'profile = "scratch"\nsource {\n  class = "tmpfs"\n  size = "1MiB"\n  inodes = 100\n}'
    SHOWN = {"private": "private", "host-to-task": "slave", "bidirectional": "shared"}

    def isolate_agent(self):
        """Give it a mount namespace as systemd does for a unit: a slave of the host's, shared within itself."""
        daemon = self.node.daemon
        self.addCleanup(setattr, daemon, "argv", daemon.argv)
        daemon.argv = ["unshare", "--mount", "--propagation", "slave", "sh", "-c",
                       'mount --make-rshared / && exec "$@"', "sh"] + daemon.argv

    def restart_agent(self):
        self.node.daemon.kill()
        self.node.start()
        self.node.wait_connected()

    def assert_shown_as_the_helper_reads_it(self, mode):
        self.restart_agent()
        self.assertEqual(self.node.status()["helper"]["launch_mode"], mode)
        for n, (word, shown) in enumerate(self.SHOWN.items()):
            self.alloc = self.alloc_id(n)
            self.run_on(f"{mode}-{word}", self.SCRATCH, f'  propagation = "{word}"\n')
            for step in ("published", "adopted"):
                rows = self.node.status()["mounts"]
                self.assertEqual([(m["propagation"], m["verified"]) for m in rows], [(shown, True)], f"{word} {step}")
                self.restart_agent()
            self.stop_alloc()
            wait_for("the claims to be freed", lambda: not self.world.live_claims(f"{mode}-{word}"))  # noqa: B023
        self.assert_nothing_mounted()

    def test_verified_state_of_the_setuid_helper_is_shown(self):
        self.assert_shown_as_the_helper_reads_it("setuid")

    def test_verified_state_of_the_socket_helper_is_shown_across_mount_namespaces(self):
        self.addCleanup(self.node.daemon.kill)
        self.node.daemon.kill()
        self.isolate_agent()
        self.node.use_helper_socket()
        self.addCleanup(self.node.remove_helper_socket)
        self.assert_shown_as_the_helper_reads_it("socket")
        self.assertNotEqual(os.stat(f"/proc/{self.node.daemon.pid}/ns/mnt").st_ino, os.stat("/proc/self/ns/mnt").st_ino)
