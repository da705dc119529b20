#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mount helper under a running audit daemon: what it says it did, and what the kernel saw.

usage: test_audit.py RULES COMMAND...

Starts an auditd of its own with RULES, runs COMMAND, which uses the helper and prints its log, and looks at the
records with ausearch. The machine's auditing is as before afterwards."""

import atexit
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

KEY = "holdfast-mounts"
LOCK = "/run/lock/holdfast-audit.lock"
CALLS = ("mount_setattr", "move_mount", "open_tree", "fsmount", "umount2")
CONFIG = """local_events = yes
write_logs = yes
log_file = {folder}/audit.log
log_group = root
log_format = RAW
flush = NONE
max_log_file = 64
num_logs = 2
name_format = NONE
max_log_file_action = IGNORE
space_left = 2
space_left_action = IGNORE
admin_space_left = 1
admin_space_left_action = IGNORE
disk_full_action = IGNORE
disk_error_action = IGNORE
use_libwrap = no
q_depth = 4000
overflow_action = IGNORE
max_restarts = 0
plugin_dir = {folder}/plugins.d
"""


def audit_state():
    """The kernel's word as a dict: enabled, pid, lost, ..."""
    text = subprocess.run(["auditctl", "-s"], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: line.split()[1] for line in text.splitlines() if len(line.split()) > 1}


class Auditd:
    """auditd, not as a daemon, with everything below one folder. (-f would write no log.)"""

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.before = audit_state()
        if self.before["pid"] != "0":
            raise RuntimeError("an audit daemon runs on this machine; stop it for this test")

    def start(self, rules):
        os.mkdir(f"{self.folder}/plugins.d", 0o700)
        with open(f"{self.folder}/auditd.conf", "w", encoding="ascii") as config:
            config.write(CONFIG.format(folder=self.folder))
        with open(f"{self.folder}/auditd.out", "wb") as out:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "auditd", "-n", "-c", self.folder, "-s", "enable"],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
            )
        for _ in range(1200):
            state = audit_state()
            if state["pid"] == str(self.process.pid) and state["enabled"] == "1":
                break
            time.sleep(0.05)
        else:
            raise RuntimeError(f"auditd does not come up: {open(f'{self.folder}/auditd.out').read()}")
        # the kernel's default of 64 records is for machines without much activity
        subprocess.run(["auditctl", "-b", "8192"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["auditctl", "-R", rules], check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        """Leave no trace; calling it again does nothing."""
        if not self.process:
            return
        before = self.before
        for command in (["-D", "-k", KEY], ["-e", before["enabled"]], ["-b", before["backlog_limit"]]):
            subprocess.run(["auditctl", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process.terminate()
        self.process.wait()
        self.process = None

    def search(self, *options):
        """What ausearch prints; "" when it finds nothing."""
        return subprocess.run(
            ["ausearch", "--input", f"{self.folder}/audit.log", *options], capture_output=True, text=True
        ).stdout


class AuditTest(unittest.TestCase):
    RULES = ""
    COMMAND = ()

    @classmethod
    def setUpClass(cls):
        lock = open(LOCK, "w")
        cls.addClassCleanup(lock.close)
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = tempfile.TemporaryDirectory(prefix="holdfast-audit-")
        cls.addClassCleanup(folder.cleanup)
        cls.auditd = Auditd(folder.name)
        cls.addClassCleanup(cls.auditd.stop)
        atexit.register(cls.auditd.stop)
        cls.auditd.start(cls.RULES)
        cls.run_command()

    @classmethod
    def run_command(cls):
        done = subprocess.run(cls.COMMAND, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{cls.COMMAND}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        cls.log = [line for line in done.stdout.splitlines() if line.startswith("ts=")]
        # records arrive in the daemon's file a moment after the kernel has taken them
        for _ in range(600):
            if cls.log[-1] in cls.auditd.search("-m", "TRUSTED_APP"):
                return
            time.sleep(0.1)

    def said(self):
        """The texts of the TRUSTED_APP records of this run: the chain's hashes make them unlike any other."""
        texts = re.findall(r"^type=TRUSTED_APP .* msg='(.*)'$", self.auditd.search("-m", "TRUSTED_APP"), re.M)
        return [text for text in texts if text in self.log]

    def test_audit_has_every_record_of_the_log_with_the_same_text(self):
        self.assertGreater(len(self.log), 15)
        self.assertEqual(self.said(), self.log)
        self.assertEqual(audit_state()["lost"], "0")

    def test_intent_and_result_of_each_operation_are_found(self):
        for op in ("stage", "publish", "unpublish", "unstage"):
            for phase in ("intent", "result"):
                found = [text for text in self.said() if f" op={op} phase={phase} " in text]
                self.assertEqual(len(found), 1, (op, phase))
        self.assertTrue(any(" op=stage phase=refused " in text for text in self.said()))

    def test_refused_starts_are_a_few_records_with_reason_and_caller(self):
        lines = [line for line in self.auditd.search("-m", "TRUSTED_APP").splitlines()
                 if "msg='op=start phase=refused " in line]
        texts = [re.search(r"msg='(.*)'$", line).group(1) for line in lines]
        self.assertEqual(texts[:4], [
            f"op=start phase=refused reason={reason} errno=0 number={number} caller_uid={uid} res=failed"
            for reason, number, uid in (("arguments", 0, 64101), ("socket", 0, 64101), ("peer", 64109, 64101),
                                        ("policy-agent", 64109, 64109))])
        # six at once, then one every ten seconds: by the kernel's clock, whatever the machine's load
        times = [float(re.search(r"audit\(([0-9.]+):", line).group(1)) for line in lines]
        self.assertGreaterEqual(len(texts), 6)
        self.assertLessEqual(len(texts), 6 + (times[-1] - times[0]) // 10 + 1)
        self.assertTrue(all(" auid=" in line and " ses=" in line for line in lines), lines)

    def test_hostile_text_forges_no_record(self):
        violations = [text for text in self.said() if " op=violation " in text]
        self.assertEqual(len(violations), 3)
        everything = self.auditd.search("-m", "TRUSTED_APP")
        self.assertNotIn("msg='op=stage res=success", everything)
        for line in everything.splitlines():
            if line.startswith("type=TRUSTED_APP"):
                self.assertEqual(line.count("'"), 2, line)

    def test_ausearch_tells_success_from_failure(self):
        failed = self.auditd.search("-m", "TRUSTED_APP", "--success", "no")
        good = self.auditd.search("-m", "TRUSTED_APP", "--success", "yes")
        refusal = next(text for text in self.log if " phase=refused " in text)
        staged = next(text for text in self.log if " op=stage phase=result " in text)
        self.assertIn(refusal, failed)
        self.assertNotIn(refusal, good)
        self.assertIn(staged, good)
        self.assertNotIn(staged, failed)

    def test_the_kernel_saw_the_helpers_own_calls_though_it_has_no_login_uid(self):
        seen = self.auditd.search("-i", "-k", KEY)
        events = [line for line in seen.splitlines() if line.startswith("type=SYSCALL") and "/helper " in line]
        for call in CALLS:
            of_call = [line for line in events if f" syscall={call} " in line]
            self.assertTrue(of_call, call)
            self.assertIn(" auid=unset ", of_call[0])
            self.assertIn(" success=yes ", of_call[0])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    AuditTest.RULES, AuditTest.COMMAND = sys.argv[1], sys.argv[2:]
    # so that auditing is as before again when somebody stops the test
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main()
