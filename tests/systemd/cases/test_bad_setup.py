# SPDX-License-Identifier: Apache-2.0
"""What can be wrong when a node or a server is set up: each time the daemon says which line of which file to change.

One table: what is done to the machine, which unit is asked, what it must say, and how it ends. Said in systemctl status,
in the journal and, where the agent lives, by holdfast agent status."""

import os
import shutil
import unittest

import machine
import units

AGENT_HCL = f"{machine.ETC}/agent.hcl"
SERVER_HCL = f"{machine.ETC}/server.hcl"
POLICY = f"{machine.ETC}/mounthelper.policy"
APPLIED = f"{POLICY}.applied"
NODE_KEY = f"{machine.CREDENTIALS}/holdfast.node.key"
SERVER_KEY = f"{machine.CREDENTIALS}/holdfast.server.key"
TICKET_KEY = f"{machine.CREDENTIALS}/holdfast.ticket.key"
SOCKET_HELPER = "/usr/libexec/holdfast/holdfast-mounthelper-socket"
SETUID_HELPER = "/usr/libexec/holdfast/holdfast-mounthelper"
SETTINGS = "78"  # exit code of a daemon that a person has to help
ALIVE = ""


def setting(daemon, text):
    return lambda: machine.write(f"{machine.ETC}/{daemon}.d/case.hcl", text)


def remove(path):
    return lambda: os.rename(path, f"{path}.away")


def mode(path, bits, owner="root", group=None):
    def change():
        shutil.chown(path, owner, group or owner)
        os.chmod(path, bits)

    return change


def unit_option(unit, text):
    return lambda: units.dropin(unit, text)


def key_in_settings(daemon, path, bits, owner):
    def change():
        machine.write(path, "no key\n", bits, owner)
        setting(daemon, f'tls {{\n  key = "{path}"\n}}\n')()

    return change


def real_host():
    """The policy of a host, where a private mount namespace is noticed first of all."""
    with open(POLICY, encoding="utf-8") as f:
        machine.write(POLICY, f.read().replace("container = yes", "container = no"))
    machine.run("holdfast", "policy", "apply")


def private_template(text):
    def change():
        units.dropin(units.TEMPLATE, text)
        real_host()

    return change


def bare_folder(path):
    def change():
        os.makedirs(path)
        setting("agent", f'data_dir = "{path}"\n')()

    return change


DROPIN = "/etc/systemd/system/{}.d/case.conf:2: {}"
# what, how, the unit that is started, its exit code or ALIVE, what it must say
CASES = [
    # settings
    ("unknown key, agent", setting("agent", "colour = 1\n"), units.SOCKET_AGENT, SETTINGS, ["agent.d/case.hcl:1", "colour"]),
    ("unknown key, server", setting("server", "colour = 1\n"), units.SERVER, SETTINGS, ["server.d/case.hcl:1", "colour"]),
    ("no settings", remove(AGENT_HCL), units.SOCKET_AGENT, SETTINGS, [AGENT_HCL]),
    # credentials and keys
    ("no node key", remove(NODE_KEY), units.SOCKET_AGENT, SETTINGS, [NODE_KEY, AGENT_HCL, "0600"]),
    ("no server key", remove(SERVER_KEY), units.SERVER, SETTINGS, [SERVER_KEY, SERVER_HCL, "0600"]),
    ("no ticket key", remove(TICKET_KEY), units.SERVER, SETTINGS, [TICKET_KEY, SERVER_HCL, "openssl genpkey"]),
    (
        "key of others", key_in_settings("agent", "/etc/holdfast/tls/n.key", 0o600, "holdfast-server"),
        units.SOCKET_AGENT, SETTINGS, [AGENT_HCL, "/etc/holdfast/tls/n.key", "Permission denied"],
    ),
    (
        "key open to others", key_in_settings("agent", "/etc/holdfast/tls/n.key", 0o644, "holdfast"),
        units.SOCKET_AGENT, SETTINGS, [AGENT_HCL, "chmod 600 /etc/holdfast/tls/n.key"],
    ),
    (
        "key open to others, server", key_in_settings("server", "/etc/holdfast/tls/s.key", 0o640, "holdfast-server"),
        units.SERVER, SETTINGS, [SERVER_HCL, "chmod 600 /etc/holdfast/tls/s.key"],
    ),
    (
        "no key at all in it", key_in_settings("agent", "/etc/holdfast/tls/n.key", 0o600, "holdfast"),
        units.SOCKET_AGENT, SETTINGS, [AGENT_HCL, "/etc/holdfast/tls/n.key holds no readable private key"],
    ),
    ("no certificate", remove(f"{machine.ETC}/tls/node.pem"), units.SOCKET_AGENT, SETTINGS, ["tls/node.pem", AGENT_HCL]),
    ("no CA", remove(f"{machine.ETC}/tls/ca.pem"), units.SERVER, SETTINGS, ["tls/ca.pem", SERVER_HCL]),
    # folders
    ("no /run/holdfast", remove("/run/holdfast"), units.SOCKET_AGENT, SETTINGS, ["/run/holdfast", "systemd-tmpfiles --create"]),
    ("data_dir not writable", bare_folder("/srv/agent"), units.SOCKET_AGENT, ALIVE, ["/srv/agent", AGENT_HCL, "ReadWritePaths="]),
    (
        "plugin_dir missing", setting("agent", 'plugin_dir = "/run/nowhere"\n'), units.SOCKET_AGENT, ALIVE,
        ["/run/nowhere", "plugin_dir"],
    ),
    # the mount helper
    ("policy of somebody else", mode(APPLIED, 0o644, "holdfast"), units.SOCKET_AGENT, ALIVE, [APPLIED, "regular file of root"]),
    ("policy that others write", mode(APPLIED, 0o666), units.SOCKET_AGENT, ALIVE, [APPLIED, "no other user can write"]),
    ("policy not applied", remove(APPLIED), units.SOCKET_AGENT, ALIVE, [APPLIED, "holdfast policy apply"]),
    ("helper not executable", mode(SOCKET_HELPER, 0o750), units.SOCKET_AGENT, ALIVE, [units.TEMPLATE, "ExecStart", "0755"]),
    (
        "PrivateTmp= in the template", private_template("PrivateTmp=yes"), units.SOCKET_AGENT, ALIVE,
        [DROPIN.format(units.TEMPLATE, "PrivateTmp=yes"), "mount namespace"],
    ),
    (
        "ProtectSystem= in the template", private_template("ProtectSystem=full"), units.SOCKET_AGENT, ALIVE,
        [DROPIN.format(units.TEMPLATE, "ProtectSystem=full"), "mount namespace"],
    ),
    (
        "no capabilities in the template", unit_option(units.TEMPLATE, "AmbientCapabilities="), units.SOCKET_AGENT, ALIVE,
        [DROPIN.format(units.TEMPLATE, "AmbientCapabilities="), "CAP_SYS_ADMIN"],
    ),
    (
        "another account in the template", unit_option(units.TEMPLATE, "User=daemon"), units.SOCKET_AGENT, ALIVE,
        [DROPIN.format(units.TEMPLATE, "User=daemon"), "helper_uid"],
    ),
    ("setuid bit taken away", mode(SETUID_HELPER, 0o750, "root", "holdfast"), units.SETUID_AGENT, ALIVE, ["chmod 4750"]),
    ("setuid file of another group", mode(SETUID_HELPER, 0o4750), units.SETUID_AGENT, ALIVE, ["chown root:holdfast"]),
    (
        "no capabilities for launch mode setuid", unit_option(units.SETUID_AGENT, "CapabilityBoundingSet="),
        units.SETUID_AGENT, ALIVE, [DROPIN.format(units.SETUID_AGENT, "CapabilityBoundingSet=")],
    ),
]  # fmt: skip
UNITS = (units.SERVER, units.SOCKET_AGENT, units.SETUID_AGENT, units.TEMPLATE)
KEPT = ("/etc/holdfast", "/etc/credstore", "/usr/libexec/holdfast")


class BadSetup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        units.set_up_setuid_agent()
        machine.systemctl("stop", units.SETUID_AGENT)
        machine.set_up_node("socket")
        machine.wait_connected()
        machine.systemctl("stop", units.SOCKET_AGENT, units.SERVER)
        for folder in KEPT:
            machine.run("cp", "-a", folder, f"/root/kept{folder.replace('/', '-')}")

    def restore(self):
        units.no_dropins(*UNITS)
        for folder in KEPT:
            shutil.rmtree(folder)
            machine.run("cp", "-a", f"/root/kept{folder.replace('/', '-')}", folder)
        if not os.path.exists("/run/holdfast"):
            os.rename("/run/holdfast.away", "/run/holdfast")

    def said_by_agent(self, words):
        status = machine.agent_status()
        text = str(status)
        return status and all(word in text for word in words)

    def look(self, unit, code, words):
        machine.systemctl("restart", unit, check=False)
        try:
            machine.wait_for("systemctl status", lambda: all(word in units.status_text(unit) for word in words), 20)
        except AssertionError:
            self.fail(f"systemctl status says: {units.status_text(unit)}\nwanted: {words}")
        if code == ALIVE:
            self.assertTrue(machine.is_active(unit))
            machine.wait_for("holdfast agent status", lambda: self.said_by_agent(words), 20)
        else:
            self.assertEqual(code, machine.show(unit, "ExecMainStatus"))
        machine.wait_journal(words, "--unit", unit, "--since", f"@{self.since}")

    def test_each_mistake_is_answered_with_its_remedy(self):
        for what, how, unit, code, words in CASES:
            with self.subTest(what):
                self.since = machine.run("date", "+%s.%N").stdout.strip()
                if unit == units.SETUID_AGENT:
                    os.rename(AGENT_HCL, f"{AGENT_HCL}.socket")
                    with open(f"{AGENT_HCL}.socket", encoding="utf-8") as f:
                        machine.write(AGENT_HCL, f.read().split("helper {")[0])
                how()
                try:
                    self.look(unit, code, words)
                finally:
                    machine.systemctl("stop", unit)
                    machine.systemctl("reset-failed", unit, check=False)
                    self.restore()

    def test_without_a_mistake_everything_starts(self):
        machine.systemctl("start", units.SERVER, units.SOCKET_AGENT)
        machine.wait_connected()
        machine.systemctl("stop", units.SOCKET_AGENT, units.SERVER)


if __name__ == "__main__":
    unittest.main()
