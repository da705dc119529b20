# SPDX-License-Identifier: Apache-2.0
"""Sockets that root's plugins bind in the folder of plugins: the agent's user reaches them, a third one does not."""

import os
import pwd
import socket
import subprocess
import sys
import tempfile
import unittest

SYSTEMD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../systemd")
AGENT, THIRD, DRIVER = "daemon", "nobody", "games"
LISTEN = """
import os, socket, sys, time
os.umask(int(sys.argv[2], 8))
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("listening", flush=True)
time.sleep(600)
"""
CONNECT = """
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as error:
    sys.exit(error.errno)
"""


def attempt(user, *command):
    """Returns the exit status as that user, with that user's group and no other."""
    entry = pwd.getpwnam(user)
    return subprocess.run(
        ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", *command],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


class TestPluginSocket(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="hf-", dir="/run")
        self.addCleanup(holder.cleanup)
        self.base = holder.name
        os.chmod(self.base, 0o755)
        self.plugins = f"{self.base}/holdfast/plugins"
        self.agent_conf, self.driver_conf = self.conf("agent"), self.conf("driver-container")
        self.tmpfiles()
        self.addCleanup(os.umask, os.umask(0o022))

    def conf(self, package):
        """Its file, with the accounts and the folder of this test."""
        target = f"{self.base}/{package}.conf"
        with open(f"{SYSTEMD}/holdfast-{package}.tmpfiles", encoding="utf-8") as source, open(target, "w", encoding="utf-8") as f:
            text = source.read().replace("holdfast-driver holdfast ", f"{DRIVER} {AGENT} ").replace("holdfast-driver:", f"{DRIVER}:")
            text = text.replace("user:holdfast:", f"user:{AGENT}:").replace("root holdfast", f"root {AGENT}")
            f.write(text.replace("/run/", f"{self.base}/"))
        return target

    def tmpfiles(self, *confs):
        done = subprocess.run(["systemd-tmpfiles", "--create", *(confs or [self.agent_conf])], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def bind(self, plugin, umask, mode=0o750):
        """As a plugin of root does, in the folder that its unit made."""
        folder, path = f"{self.plugins}/{plugin}", f"{self.plugins}/{plugin}/csi.sock"
        if not os.path.exists(folder):
            os.mkdir(folder)
            os.chmod(folder, mode)
        os.umask(umask)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()
        os.umask(0o022)
        return path

    def bind_driver(self, umask):
        """As a task driver does, under its own account in the folder that root made for it."""
        folder = f"{self.base}/holdfast/drivers/container"
        subprocess.run(["install", "-d", "-m", "0750", "-o", DRIVER, folder], check=True)
        entry = pwd.getpwnam(DRIVER)
        process = subprocess.Popen(
            ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups", sys.executable, "-c", LISTEN,
             f"{folder}/driver.sock", umask], stdout=subprocess.PIPE)  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), b"listening\n")
        return f"{folder}/driver.sock"

    def reaches(self, user, path):
        return attempt(user, sys.executable, "-c", CONNECT, path) == 0

    def test_a_driver_of_its_own_account_is_reached_by_the_agent_alone(self):
        path = self.bind_driver("0007")
        self.assertTrue(self.reaches(AGENT, path))
        self.assertFalse(self.reaches(THIRD, path))
        # nor may the agent put anything in its place
        self.assertNotEqual(attempt(AGENT, "rm", path), 0)
        self.assertNotEqual(attempt(AGENT, "touch", f"{os.path.dirname(path)}/other.sock"), 0)
        self.assertNotEqual(attempt(AGENT, "mkdir", f"{self.base}/holdfast/drivers/mine"), 0)

    def test_a_driver_with_another_umask_is_opened_by_tmpfiles(self):
        path = self.bind_driver("0022")
        self.assertFalse(self.reaches(AGENT, path))
        self.tmpfiles()
        self.assertTrue(self.reaches(AGENT, path))
        self.assertFalse(self.reaches(THIRD, path))

    def test_a_plugin_with_the_umask_of_the_manual_is_reached_by_the_agent_alone(self):
        for umask in (0o000, 0o007):
            path = self.bind(f"p{umask}", umask)
            self.assertTrue(self.reaches(AGENT, path), oct(umask))
            self.assertFalse(self.reaches(THIRD, path), oct(umask))

    def test_any_other_umask_and_a_mode_of_its_own_are_repaired(self):
        for umask in (0o022, 0o077):
            path = self.bind(f"p{umask}", umask)
            self.assertFalse(self.reaches(AGENT, path), "the manual says that this needs repair")
            self.tmpfiles()
            self.assertTrue(self.reaches(AGENT, path), oct(umask))
            self.assertFalse(self.reaches(THIRD, path), oct(umask))
            os.chmod(path, 0o600)  # as democratic-csi does after it has bound it
            self.assertFalse(self.reaches(AGENT, path))
            self.tmpfiles()
            self.assertTrue(self.reaches(AGENT, path))
            self.assertFalse(self.reaches(THIRD, path))
            os.chmod(path, 0o660)  # as it does when it is told to
            self.assertTrue(self.reaches(AGENT, path))
            self.assertFalse(self.reaches(THIRD, path))

    def test_repairing_twice_changes_nothing(self):
        path = self.bind("ebs", 0o022)
        texts = []
        for _ in range(2):
            self.tmpfiles()
            texts.append(subprocess.run(["getfacl", "-p", self.plugins, path], stdout=subprocess.PIPE, check=True).stdout)
        self.assertEqual(*texts)

    def test_the_agents_file_leaves_the_driver_of_containers_its_right_in_either_order(self):
        orders = ((self.agent_conf, self.driver_conf), (self.driver_conf, self.agent_conf))
        for n, conf in enumerate([conf for order in orders for conf in order * 2]):
            self.tmpfiles(conf)
            if n > 0:  # from then on the driver has its right
                self.assertEqual(attempt(DRIVER, "mkdir", f"{self.plugins}/p{n}"), 0, f"{n} {conf}")
            for user in (AGENT, THIRD):
                self.assertNotEqual(attempt(user, "mkdir", f"{self.plugins}/{user}"), 0, f"{n} {conf} {user}")

    def test_a_hard_link_gives_no_account_more_rights(self):
        """That of the agent, in the folder of a plugin that opens it to its group: the kernel makes one to a regular file that the
        agent may read and write anyway, and to no other. What root then does is to close it to everybody else."""
        with open("/proc/sys/fs/protected_hardlinks", encoding="ascii") as f:
            self.assertEqual(f.read(), "1\n")  # without it systemd-tmpfiles sets no ACL on what has two names
        folder = os.path.dirname(self.bind("ebs", 0o007, 0o770))
        files = {"closed": 0o640, "read-only": 0o644, "set-id": 0o4766, "open": 0o666}
        for name, mode in files.items():
            with open(f"{self.base}/{name}", "w", encoding="ascii"):
                os.chmod(f"{self.base}/{name}", mode)
        other = socket.socket(socket.AF_UNIX)
        self.addCleanup(other.close)
        os.umask(0)
        other.bind(f"{self.base}/socket")  # open to all
        os.umask(0o022)
        names = (*files, "socket")
        made = [name for name in names if attempt(AGENT, "ln", f"{self.base}/{name}", f"{folder}/{name}.sock") == 0]
        self.assertEqual(made, ["open"])
        self.tmpfiles()
        shown = subprocess.run(["getfacl", "-cp", *(f"{self.base}/{name}" for name in names)], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.split("\n\n")
        self.assertEqual([text for text in shown if f"user:{AGENT}:" in text],
                         [f"user::rw-\nuser:{AGENT}:rw-\ngroup::---\nmask::rw-\nother::---"])
        self.assertNotEqual(attempt(THIRD, "cat", f"{self.base}/open"), 0)

    def test_the_agent_looks_into_folders_and_changes_nothing_in_them(self):
        path = self.bind("ebs", 0o007)
        folder = os.path.dirname(path)
        self.assertEqual(attempt(AGENT, "ls", self.plugins), 0)
        self.assertEqual(attempt(AGENT, "ls", folder), 0)
        for command in (["touch", f"{folder}/x"], ["rm", "-f", path], ["mkdir", f"{self.plugins}/other"],
                        ["mv", self.plugins, f"{self.base}/holdfast/moved"], ["rmdir", folder]):
            self.assertNotEqual(attempt(AGENT, *command), 0, command)
        self.assertEqual(attempt(AGENT, "touch", f"{self.base}/holdfast/agent.sock"), 0)
        for user_command in (["ls", self.plugins], ["ls", folder], ["touch", f"{self.base}/holdfast/x"]):
            self.assertNotEqual(attempt(THIRD, *user_command), 0, user_command)


if __name__ == "__main__":
    unittest.main()
