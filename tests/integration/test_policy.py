# SPDX-License-Identifier: Apache-2.0
"""holdfast policy: a file of the mount helper's policy is checked and explained without starting a helper."""

import errno
import hashlib
import json
import os
import re
import socket
import stat
import struct
import subprocess
import tempfile
import unittest

from world import BUILD

TOOL = os.path.join(BUILD, "mounthelper", "tool", "holdfast-policy")

AGENT = """agent {uid} {{
	cluster = demo
	node = node-1
	helper_uid = 994
	helper_gid = 994
	stage_base = /{uid}/stage
	publish_base = /{uid}/publish
	log = /{uid}/trail
	lock_dir = /{uid}/lock
	ticket = {ticket}
{profiles}}}
"""
PROFILES = """	profile disk { class = block; fstype = ext4; trust = trusted
		by_id = scsi-
	}
	profile scratch { class = tmpfs; max_size = 1MiB; shared = yes }
	profile plugin { class = csi }
"""


def policy(uid=995, profiles=PROFILES, ticket="optional"):
    return AGENT.format(uid=uid, profiles=profiles, ticket=ticket)


def audit_takes_records():
    """Auditing is on, and this process may write records: what auditctl would say, without it."""
    audit = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
    with audit:
        audit.settimeout(5)
        text = b"op=test res=success\0"
        for body, good in ((text, 0), (b"\0", -errno.EINVAL)):  # as lib/privileged/kernel_audit.c asks
            try:
                audit.sendto(struct.pack("=IHHII", 16 + len(body), 1121, 5, 1, 0) + body, (0, 0))
                answer = audit.recv(8192)
            except OSError:
                return False
            if struct.unpack_from("=i", answer, 16)[0] != good:
                return False
    return True


class TestPolicy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/run")  # root's, as all above it
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "mounthelper.policy")
        self.write(policy())

    def write(self, text):
        with open(self.file, "w", encoding="ascii") as f:
            f.write(text)

    def tool(self, *args):
        done = subprocess.run([TOOL, *args, self.file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=10, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_check(self):
        self.assertRegex(self.tool("check")[1], "^ok: 1 agents, 3 profiles\nnot applied: ")
        self.write(policy() + policy(996))
        self.assertRegex(self.tool("check")[1], "^ok: 2 agents, 6 profiles\nnot applied: ")
        code, out, _ = self.tool("check", "--json")
        self.assertEqual((code, json.loads(out)),
                         (0, {"ok": True, "file": self.file, "agents": 2, "profiles": 6, "compiled": False, "applied": False}))

    def test_check_of_a_file_that_no_helper_reads_says_where_to_move_it(self):
        code, out, err = self.tool("check")
        self.assertEqual((code, err), (0, ""))
        used = re.search(r"^not applied: the mount helper uses (/\S+)\. "
                         rf"Move {self.file} there, then: holdfast policy apply$", out, re.M)  # fmt: skip
        self.assertTrue(used, out)
        self.assertRegex(used[1], r"/etc/holdfast/mounthelper\.policy$")

    def applied(self):
        with open(f"{self.file}.applied", "rb") as f:
            return f.read()

    def is_compiled(self):
        return json.loads(self.tool("check", "--json")[1])["compiled"]

    def test_apply_writes_the_checked_policy(self):
        code, out, err = self.tool("apply")
        self.assertRegex(out, "^compiled: 1 agents, 3 profiles\nnot applied: the mount helper uses /")  # another file
        self.assertEqual(code, 0)
        self.assertEqual(err != "", not audit_takes_records(), err)
        self.assertRegex(self.tool("check")[1], "^ok: 1 agents, 3 profiles\nnot applied: ")
        self.assertTrue(self.is_compiled())
        self.assertEqual(os.stat(f"{self.file}.applied").st_mode, 0o100644)
        first = self.applied()
        self.assertIn(hashlib.sha256(policy().encode()).digest(), first)
        self.write(policy(ticket="sometimes"))
        code, _, err = self.tool("apply")
        self.assertEqual((code, err.startswith(f"{self.file}:10: ")), (1, True), err)
        self.assertEqual(self.applied(), first)
        self.write(policy() + "# edited\n")
        self.assertFalse(self.is_compiled())
        answer = json.loads(self.tool("apply", "--json")[1])
        self.assertEqual((answer["compiled"], answer["applied"]), (True, False))
        self.assertNotEqual(self.applied(), first)
        with open(f"{self.file}.applied", "r+b") as f:
            f.seek(5000)
            f.write(b"damage")
        self.assertFalse(self.is_compiled())
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.file))), ["mounthelper.policy", "mounthelper.policy.applied"])

    def test_trees_are_those_of_the_applied_policy(self):
        self.assertEqual(self.tool("trees"), (1, "", ""))
        self.write(policy() + policy(996))
        self.tool("apply")
        os.unlink(self.file)
        self.assertEqual(self.tool("trees"), (0, "/995/stage\n/995/publish\n/996/stage\n/996/publish\n", ""))

    def test_apply_warns_where_required_auditing_is_off(self):
        """Auditing of the machine is not switched for this: whatever it is, the word of the policy decides."""
        self.write(policy().replace("{\n", "{\n\taudit = optional\n", 1))
        self.assertEqual(self.tool("apply")[2], "")
        self.write(policy())
        code, out, err = self.tool("apply", "--json")
        self.assertEqual((code, json.loads(out)["compiled"]), (0, True))
        if audit_takes_records():
            self.assertEqual(err, "")
        else:
            self.assertRegex(err, rf"^{self.file}:\d+: warning: audit = required, and the kernel's audit.*nothing can be mounted, "
                             "only unmounted, until ")

    def test_apply_leaves_a_file_the_helper_can_read(self):
        """Whatever the umask, and with its label when the text was moved here from elsewhere."""
        name, label = "security.selinux", b"system_u:object_r:holdfast_policy_t:s0\0"
        before = os.umask(0o077)
        try:
            self.assertEqual(self.tool("apply")[0], 0)
        finally:
            os.umask(before)
        applied = self.file + ".applied"
        self.assertEqual(stat.S_IMODE(os.stat(applied).st_mode), 0o644)
        os.setxattr(applied, name, label)
        os.setxattr(self.file, name, label.replace(b"policy", b"etc"))
        self.assertEqual(self.tool("apply")[0], 0)
        self.assertEqual(os.getxattr(applied, name), label)

    def test_apply_takes_only_a_text_that_is_roots_alone(self):
        self.write(policy())
        folder = os.path.dirname(self.file)
        for path, change, undo in (
            (self.file, lambda path: os.chmod(path, 0o664), lambda path: os.chmod(path, 0o644)),
            (self.file, lambda path: os.chown(path, 1234, 0), lambda path: os.chown(path, 0, 0)),
            (folder, lambda path: os.chmod(path, 0o777), lambda path: os.chmod(path, 0o700)),
            (self.file, lambda path: os.link(path, f"{path}.other"), lambda path: os.unlink(f"{path}.other")),
        ):
            change(path)
            code, out, err = self.tool("apply")
            self.assertEqual((code, out), (1, ""))
            self.assertIn(f"{self.file}: the policy must be a regular file that only root can write", err)
            self.assertFalse(os.path.exists(f"{self.file}.applied"))
            undo(path)
        self.assertEqual(self.tool("apply")[0], 0)

    def test_check_says_file_and_line(self):
        for text, line, words in (
            (policy(profiles="\tmax_stage = 3\n"), 11, "unknown key 'max_stage'"),
            (policy(ticket="required"), 1, "needs a ticket_key"),
            (policy() + policy(), 17, "agent 995: must be a new uid"),
            ("", 1, "no agent"),
        ):
            self.write(text)
            with self.subTest(text=text):
                code, out, err = self.tool("check")
                self.assertEqual((code, out), (1, ""))
                self.assertTrue(err.startswith(f"{self.file}:{line}: "), err)
                self.assertIn(words, err)
                self.assertEqual(len(err.splitlines()), 1)
                code, out, err = self.tool("--json", "check")
                self.assertEqual((code, json.loads(out)["ok"], json.loads(out)["line"], err), (1, False, line, ""))
        os.unlink(self.file)
        self.assertIn(self.file, self.tool("check")[2])

    def test_explain_allows(self):
        code, out, _ = self.tool("explain", "--uid", "995", "stage", "--profile", "disk", "--by-id", "scsi-1")
        self.assertEqual(code, 0)
        self.assertEqual(out.splitlines(), ["allowed", f"{self.file}:1: agent 995", f"{self.file}:11: profile disk",
                                            f"{self.file}:12: by_id = scsi-"])
        code, out, _ = self.tool("explain", "publish", "--profile", "scratch", "--propagation", "bidirectional", "--json")
        answer = json.loads(out)
        self.assertEqual((code, answer["allowed"], answer["reason"], answer["needs_ticket"]), (0, True, "none", False))
        self.assertEqual(answer["lines"][-1], {"line": 14, "text": "shared = yes"})
        self.write(policy(ticket="required\n\tticket_key = " + "ab" * 32))
        self.assertIn("A ticket of the claim server is needed too",
                      self.tool("explain", "stage", "--profile", "plugin")[1])

    def test_explain_refuses(self):
        for args, reason, line, words in (
            (["stage", "--profile", "disk", "--by-id", "usb-1"], "by-id-not-allowed", 12, "by_id = scsi-"),
            (["stage", "--profile", "disc", "--by-id", "usb-1"], "profile-unknown", 1, "agent 995"),
            (["stage", "--profile", "scratch", "--tmpfs-size", "2MiB"], "size-not-allowed", 14, "max_size = 1MiB"),
            (["publish", "--profile", "disk", "--exec"], "exec-not-allowed", 11, "exec is not set"),
            (["publish", "--profile", "disk", "--propagation", "host-to-task"], "propagation-not-allowed", 11, "shared"),
            (["unstage", "--detach"], "detach-not-allowed", 1, "allow_detach is not set"),
        ):
            with self.subTest(args=args):
                code, out, _ = self.tool("explain", *args)
                self.assertEqual(code, 1)
                self.assertEqual(out.splitlines()[0], f"refused: {reason}")
                self.assertTrue(out.splitlines()[-1].startswith(f"{self.file}:{line}: "), out)
                self.assertIn(words, out.splitlines()[-1])
                answer = json.loads(self.tool("explain", *args, "--json")[1])
                self.assertEqual((answer["allowed"], answer["reason"], answer["lines"][-1]["line"]), (False, reason, line))

    def test_explain_usage(self):
        for args in (["stage"], ["mount"], ["stage", "--profile", "disk"], ["stage", "--profile", "A"],
                     ["stage", "--profile", "scratch", "--by-id", "x", "--inodes", "1"], ["publish", "--slot", "32"],
                     ["publish", "--profile", "disk", "--propagation", "shared"], ["--colour", "unstage"],
                     ["stage", "--hostvol", "data", "--detach"], ["publish", "--profile", "disk", "--detach"],
                     ["stage", "--profile", "scratch", "--exec"], ["stage", "--profile", "scratch", "--slot", "1"],
                     ["stage", "--profile", "scratch", "--propagation", "private"],
                     ["stage", "--profile", "scratch", "--tmpfs-size", "0"], ["publish", "--profile", "disk", "--by-id", "x"],
                     ["publish", "--profile", "scratch", "--tmpfs-size", "9GiB"], ["publish", "--profile", "disk", "--hostvol", "h"],
                     ["unpublish", "--profile", "disk"], ["unstage", "--read-only"]):
            with self.subTest(args=args):
                code, out, err = self.tool("explain", *args)
                self.assertEqual((code, out), (2, ""), err)
        self.assertEqual(self.tool("explain", "--uid", "5", "unstage")[0], 1)
        self.write(policy() + policy(996))
        self.assertEqual(self.tool("explain", "unstage")[0], 2)
        self.assertEqual(self.tool("explain", "--uid", "996", "unstage")[0], 0)


if __name__ == "__main__":
    unittest.main()
