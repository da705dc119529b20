# SPDX-License-Identifier: Apache-2.0
"""Keys as credentials: from /etc/credstore, encrypted, or named by the settings; and what a reload can do with each."""

import os
import unittest

import machine
import units
import volume_units as volumes

LANES = ("container", "vm")
OTHER_RELEASE = ("container", "vm")
PHASES = (
    "Credentials.test_encrypted_keys_take_a_drop_in",
    "Credentials.test_an_encrypted_token_takes_a_drop_in",
    "Credentials.test_a_key_that_the_settings_name_goes_first",
)
NODE_KEY = f"{machine.CREDENTIALS}/holdfast.node.key"
STORE = "/etc/credstore.encrypted"
ENCRYPTED = {
    units.SOCKET_AGENT: ("holdfast.node.key",),
    units.SERVER: ("holdfast.server.key", "holdfast.ticket.key"),
}
LABELS = {
    "holdfast.node.key": "holdfast_node_key_t",
    "holdfast.server.key": "holdfast_key_t",
    "holdfast.ticket.key": "holdfast_key_t",
}


def label(path):
    return os.getxattr(path, "security.selinux").decode().split(":")[2]


def encrypt(key):
    """With the key of this machine, which is made by the first one."""
    os.makedirs(STORE, mode=0o700, exist_ok=True)
    plain, sealed = f"{machine.CREDENTIALS}/{key}", f"{STORE}/{key}"
    machine.run("systemd-creds", "encrypt", "--with-key=host", f"--name={key}", plain, sealed)
    if machine.has_selinux():  # it is made under another name
        machine.run("restorecon", "-RFv", STORE)


class Credentials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine.set_up()

    def test_the_settings_need_to_name_no_key(self):
        for daemon in ("agent", "server"):
            with open(f"{machine.ETC}/{daemon}.hcl", encoding="utf-8") as f:
                self.assertNotIn("key", f.read())
        self.assertFalse(os.path.exists(f"{machine.ETC}/tls/node.key"))

    def test_only_the_daemon_can_read_its_credential(self):
        path = f"/run/credentials/{units.SOCKET_AGENT}/holdfast.node.key"
        # by its owner in systemd 252, by an access control list in 257
        machine.run("setpriv", "--reuid=holdfast", "--clear-groups", "cat", path)
        other = machine.run("setpriv", "--reuid=holdfast-server", "--clear-groups", "cat", path, check=False)
        self.assertNotEqual(0, other.returncode)

    def test_encrypted_keys_take_a_drop_in(self):
        for unit, keys in ENCRYPTED.items():
            with self.subTest(unit=unit):
                for key in keys:
                    encrypt(key)
                    os.rename(f"{machine.CREDENTIALS}/{key}", f"/root/{key}.plain")
                units.dropin(unit, "".join(f"LoadCredentialEncrypted={key}\n" for key in keys))
                machine.systemctl("restart", unit)
                machine.wait_connected()
                for key in keys:
                    with open(f"{STORE}/{key}", encoding="ascii") as f:
                        self.assertNotIn("PRIVATE KEY", f.read())
                    if machine.has_selinux():
                        self.assertEqual(label(f"{STORE}/{key}"), LABELS[key])
                    os.rename(f"/root/{key}.plain", f"{machine.CREDENTIALS}/{key}")
                    # systemd 257 takes what is here first, and without the drop-in does not open it
                    os.unlink(f"{STORE}/{key}")
                units.no_dropins(unit)
                machine.systemctl("restart", unit)
                machine.wait_connected()

    def test_an_encrypted_token_takes_a_drop_in(self):
        volumes.set_up_volumes()
        machine.holdfast("volume", "register", machine.volume_spec("sealed"))
        volumes.volume_file("sealed", "sealed")
        encrypt("holdfast.token")
        os.unlink(f"{machine.CREDENTIALS}/holdfast.token")
        unit = volumes.unit("sealed")
        units.dropin(unit, "LoadCredentialEncrypted=holdfast.token")
        volumes.start(unit)
        self.assertEqual(1, len(machine.mounts_below(f"{machine.TREE}/publish")))
        machine.systemctl("stop", unit)
        self.assertEqual([], machine.mounts_below(machine.TREE))

    def test_a_key_that_the_settings_name_goes_first(self):
        with open(NODE_KEY, encoding="ascii") as f:
            machine.write(f"{machine.ETC}/tls/mine.key", f.read(), 0o600, "holdfast")
        machine.write(f"{machine.ETC}/agent.d/key.hcl", f'tls {{\n  key = "{machine.ETC}/tls/mine.key"\n}}\n')
        os.rename(NODE_KEY, "/root/node.key.plain")
        machine.systemctl("restart", units.SOCKET_AGENT)
        machine.wait_connected()
        os.rename("/root/node.key.plain", NODE_KEY)
        os.unlink(f"{machine.ETC}/agent.d/key.hcl")
        machine.systemctl("restart", units.SOCKET_AGENT)
        machine.wait_connected()

    def test_a_reload_with_another_certificate_says_that_a_credential_needs_a_restart(self):
        for unit, pem, name in ((units.SOCKET_AGENT, "node", f"node-{machine.NODE}"), (units.SERVER, "server", "server")):
            with self.subTest(unit=unit):
                folder = f"/root/other-{pem}"
                os.makedirs(folder)
                machine.run("cp", "/root/pki/ca.pem", "/root/pki/ca.key", folder)
                what = ["node", machine.NODE] if pem == "node" else ["server", "--host", machine.SERVER]
                done = machine.run("holdfast", "operator", "cert", *what, "--out", folder)
                self.assertIn(f"/etc/credstore/holdfast.{pem}.key", done.stdout)
                machine.run("cp", f"{folder}/{name}.pem", f"{machine.ETC}/tls/{pem}.pem")
                machine.install_key(f"{folder}/{name}.key", f"holdfast.{pem}.key")
                machine.systemctl("reload", unit)
                advice = "the key is a credential, which is handed over at a start: systemctl restart"
                machine.wait_for("the advice", lambda: advice in machine.journal("--unit", unit))
                machine.systemctl("restart", unit)
                machine.wait_connected()


if __name__ == "__main__":
    unittest.main()
