# SPDX-License-Identifier: Apache-2.0
"""SELinux enforcing: every daemon in its own domain, the main job in both launch modes without a denial, and the denials that
must happen, each found in the audit log. Only where the kernel has SELinux: in the virtual machine."""

import os
import re
import shutil
import unittest

import machine
import test_task_driver as tasks

LANES = ("vm",)
OTHER_RELEASE = ("vm",)
# what the tests try is tried by these two, which look for their other programs as well
DENIED = (
    r'comm="busybox" .*scontext=\S+:holdfast_',
    r'comm="socat" .*scontext=\S+:holdfast_volume_t:',
    r"denied  \{ start \} .*hf-listed\.service.*scontext=\S+:holdfast_agent_t:",
)

ENFORCE = "/sys/fs/selinux/enforce"
SERVER, AGENT, HELPER, VOLUME = (f"holdfast_{name}_t" for name in ("server", "agent", "mounthelper", "volume"))


def pids(name):
    """Processes whose program is a file of this name."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name:
                found.append(pid)
        except OSError:
            continue
    return found


def denials(domain):
    """Lines of the audit log that deny something to a domain."""
    found = machine.run("ausearch", "--input-logs", "--raw", "--message", "AVC,USER_AVC,SELINUX_ERR", check=False)
    lines = found.stdout.splitlines()
    return [line for line in lines if "denied" in line and f":{domain}:" in line.split("tcontext=")[0]]


def probe(domain, program, *args, user="root"):
    """Run a program as init starts it in a domain: a copy of it with the label of the domain's own program. Of the same name,
    by which busybox knows itself."""
    path = f"/usr/local/sbin/{domain}/{os.path.basename(program)}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy(program, path)
    machine.run("chcon", "-t", domain.removesuffix("_t") + "_exec_t", path)
    return machine.run("systemd-run", "--quiet", "--wait", "--collect", f"--property=User={user}", path, *args, check=False)


class Enforcing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(ENFORCE, encoding="ascii") as f:
            assert f.read().strip() == "1", "SELinux is not enforcing"
        machine.set_up()

    def assert_denied(self, domain, wanted, done):
        self.assertNotEqual(0, done.returncode)
        machine.wait_for(f"a denial {wanted}", lambda: any(re.search(wanted, line) for line in denials(domain)))

    def main_job(self, name):
        machine.holdfast("volume", "register", machine.volume_spec(name))
        alloc = machine.holdfast_json("alloc", "run", machine.alloc_spec("a-" + name, name))["allocation"]
        path = alloc["published"][0]["path"]
        self.assertTrue(os.path.ismount(path))
        label = os.getxattr(path, "security.selinux").decode().split(":")[2]
        self.assertEqual("holdfast_data_t", label)
        machine.holdfast("alloc", "stop", alloc["id"])
        machine.wait_for("the volume to be unmounted", lambda: not machine.mounts_below(machine.TREE))

    def assert_domains(self, helper):
        for program, domain in (("holdfast-server", SERVER), ("holdfast-agent", AGENT), (helper, HELPER)):
            found = pids(program)
            self.assertTrue(found, program)
            self.assertEqual({domain}, {machine.domain_of(pid) for pid in found}, program)

    def test_1_the_main_job_in_both_launch_modes_needs_nothing_that_is_denied(self):
        self.assert_domains("holdfast-mounthelper-socket")
        self.main_job("socket")
        machine.systemctl("stop", "holdfast-agent-socket.service")
        machine.set_up_node("setuid")
        machine.wait_connected()
        self.assert_domains("holdfast-mounthelper")
        self.main_job("setuid")
        for domain in (SERVER, AGENT, HELPER):
            self.assertEqual([], denials(domain))

    def test_2_a_mislabelled_program_reports_it_and_how_to_repair_it(self):
        unit = "holdfast-server.service"
        machine.run("chcon", "-t", "bin_t", "/usr/sbin/holdfast-server")
        machine.systemctl("restart", unit)
        self.assertIn("restorecon -v /usr/sbin/holdfast-server", machine.journal("-u", unit))
        machine.run("restorecon", "-v", "/usr/sbin/holdfast-server")
        machine.systemctl("restart", unit)
        self.assertEqual({SERVER}, {machine.domain_of(pid) for pid in pids("holdfast-server")})

    def test_3_agent_and_server_do_not_mount(self):
        for domain in (AGENT, SERVER):
            done = probe(domain, "/bin/busybox", "mount", "-t", "tmpfs", "none", "/mnt")
            self.assert_denied(domain, r"\{ (sys_admin|mounton|mount) \}", done)
            self.assertFalse(os.path.ismount("/mnt"))

    def test_4_the_agent_does_not_read_the_key_that_signs_tickets(self):
        done = probe(AGENT, "/bin/busybox", "cat", f"{machine.CREDENTIALS}/holdfast.ticket.key")
        self.assert_denied(AGENT, r"\{ read \}.*tcontext=\S+:holdfast_key_t:", done)

    def test_5_the_helper_opens_no_file_for_writing(self):
        done = probe(HELPER, "/bin/busybox", "dd", "if=/dev/null", f"of={machine.ETC}/agent.hcl", "conv=notrunc")
        self.assert_denied(HELPER, r"\{ write \}.*tcontext=\S+:holdfast_etc_t:", done)

    def test_6_no_other_domain_reaches_plugins_or_the_helper(self):
        folder = "/run/holdfast/plugins/probe"
        os.makedirs(folder, exist_ok=True)
        for target, permission, label in (
            (f"{folder}/p.sock", "search", "holdfast_plugin_runtime_t"),
            (f"{machine.TREE}/mounthelper.sock,type=5", "write", "holdfast_door_t"),
        ):
            done = probe(VOLUME, "/usr/bin/socat", "-u", "OPEN:/dev/null", f"UNIX-CONNECT:{target}")
            self.assert_denied(VOLUME, rf"\{{ {permission} \}}.*tcontext=\S+:{label}:", done)

    def test_7_the_agent_starts_and_stops_listed_units_if_a_boolean_allows_it(self):
        unit = "hf-listed.service"
        tasks.make_unit(unit, tasks.service("/bin/sleep infinity"))
        machine.systemctl("daemon-reload")
        machine.systemctl("stop", "holdfast-agent-setuid.service")
        machine.set_up_node("socket")
        tasks.allow([unit], [unit])

        refused = tasks.ended(tasks.submit("off", unit))
        self.assertEqual("FAILED", refused["client_status"])
        self.assertIn("setsebool -P holdfast_agent_units on", refused["client_description"])
        self.assertFalse(machine.is_active(unit))

        machine.run("setsebool", "holdfast_agent_units", "on")  # -P builds the policy again, which takes a minute here
        ident = tasks.submit("on", unit)
        tasks.wait_status(ident, "RUNNING")
        self.assertTrue(machine.is_active(unit))
        self.assertNotEqual(AGENT, machine.domain_of(machine.main_pid(unit)))
        tasks.stop(ident)
        self.assertEqual("COMPLETE", tasks.ended(ident)["client_status"])
        self.assertFalse(machine.is_active(unit))
        self.assertEqual([], tasks.mounted(ident))

    def test_8_logrotate_moves_the_trail_with_its_attribute(self):
        machine.run("chattr", "+a", machine.TRAIL)
        rotate = ("/usr/sbin/logrotate", "--force", "/etc/logrotate.d/holdfast-mounthelper")
        machine.run("systemd-run", "--quiet", "--wait", "--collect", *rotate)
        for path in (machine.TRAIL, machine.TRAIL + ".1"):
            self.assertEqual("holdfast_trail_t", os.getxattr(path, "security.selinux").decode().split(":")[2])
        self.assertIn("a", machine.run("lsattr", machine.TRAIL).stdout.split()[0])
        machine.wait_connected()
        self.main_job("rotated")
        machine.holdfast("audit", "verify", machine.TRAIL + ".1", machine.TRAIL)


if __name__ == "__main__":
    unittest.main()
