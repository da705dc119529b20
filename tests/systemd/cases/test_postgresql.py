# SPDX-License-Identifier: Apache-2.0
"""docs/postgresql.md, typed as it stands: Debian's PostgreSQL on a volume. One machine is first worker-1, then its standby."""

import unittest

import machine
import runbook
import volume_units as volumes

PAGE = "/payload/docs"
POSTGRES = "postgresql@15-main.service"
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


def query(text):
    done = machine.run("runuser", "-u", "postgres", "--", "psql", "--no-align", "--tuples-only", "--command", text, cwd="/")
    return done.stdout.strip()


class Page(runbook.Page):
    """It is no page of the runbook, so no alert leads to it."""

    @staticmethod
    def read(folder, name):
        return "| [this page](postgresql.md) |\n" if name == "README" else runbook.Page.read(folder, name)


class PostgreSql(unittest.TestCase):
    def test_the_package_runs_on_a_volume_as_its_page_describes(self):
        machine.set_up()
        volumes.set_up_volumes()
        machine.write("/root/pgdata.hcl", VOLUME)
        machine.holdfast("volume", "register", "/root/pgdata.hcl")
        page = Page(PAGE, "postgresql", runbook.Shell("/root/shell.state", "/root", machine.CLI), None)
        page.follow(upto="echo auto")
        query("create table t (n int); insert into t values (42)")
        page.follow(upto="systemctl start postgresql@15-main.service\n")
        self.assertFalse(machine.is_active(POSTGRES))
        self.assertEqual(machine.mounts_below(f"{machine.TREE}/publish"), [])
        page.follow()
        self.assertTrue(machine.is_active(POSTGRES))
        self.assertEqual(query("select n from t"), "42")
        self.assertEqual(len(volumes.claims_of("pgdata")), 1)


if __name__ == "__main__":
    unittest.main()
