# SPDX-License-Identifier: Apache-2.0
"""docs/postgresql.md, typed as it stands: Debian's PostgreSQL on a volume. One machine is first worker-1, then its standby."""

import os
import re
import unittest

import machine
import runbook
import volume_units as volumes

OTHER_RELEASE = ("container",)

PAGE = "/payload/docs"
VERSION = "15"  # in the page, of Debian 12
VOLUME = """id = "pgdata"
type = "native"
source {
  class = "bind"
  host_volume = "data"
}
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
"""


def version():
    (number,) = os.listdir("/etc/postgresql")
    return number


def query(text):
    done = machine.run("runuser", "-u", "postgres", "--", "psql", "--no-align", "--tuples-only", "--command", text, cwd="/")
    return done.stdout.strip()


class Page(runbook.Page):
    """It is no page of the runbook, so no alert leads to it. The version is that of this machine's package."""

    @staticmethod
    def read(folder, name):
        if name == "README":
            return "| [this page](postgresql.md) |\n"
        return re.sub(rf"\b{VERSION}\b", version(), runbook.Page.read(folder, name))


class PostgreSql(unittest.TestCase):
    def test_the_package_runs_on_a_volume_as_its_page_describes(self):
        machine.set_up()
        volumes.set_up_volumes()
        machine.write("/root/pgdata.hcl", VOLUME)
        machine.holdfast("volume", "register", "/root/pgdata.hcl")
        page = Page(PAGE, "postgresql", runbook.Shell("/root/shell.state", "/root", machine.CLI), None)
        page.follow(upto="echo auto")
        query("create table t (n int); insert into t values (42)")
        postgres = f"postgresql@{version()}-main.service"
        page.follow(upto=f"systemctl start {postgres}\n")
        self.assertFalse(machine.is_active(postgres))
        self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), [])
        page.follow()
        self.assertTrue(machine.is_active(postgres))
        self.assertEqual(query("select n from t"), "42")
        self.assertEqual(len(volumes.claims_of("pgdata")), 1)


if __name__ == "__main__":
    unittest.main()
