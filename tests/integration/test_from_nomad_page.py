# SPDX-License-Identifier: Apache-2.0
"""docs/from-nomad.md, typed as it is written, against a server without nodes for its job."""

import os
import sys

from case import CsiTest
from world import PREFIX

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "systemd", "cases"))

import guide  # noqa: E402
import runbook  # noqa: E402

PAGE = os.path.join(HERE, "..", "..", "docs", "from-nomad.md")


class TestFromNomadPage(CsiTest):
    NODES = 1
    PLUGINS = {}

    def test_the_page_imports_and_plans_its_job(self):
        shell = runbook.Shell(f"{PREFIX}/shell.state", f"{PREFIX}/etc", {
            "PATH": f"{PREFIX}/bin:{os.environ['PATH']}", "HOLDFAST_DEV_DIR": f"{PREFIX}/var/server"})  # fmt: skip
        printed = ""
        for line, label, text in guide.blocks(guide.read(PAGE)):
            if label == ["sh"]:
                status, printed = shell.type(text)
                self.assertEqual(status, 0, f"from-nomad.md:{line}: {printed}")
            else:
                self.assertIsNone(runbook.wrong_line(printed, [], text), f"from-nomad.md:{line}: {printed}")
        self.assertIn("orders", printed)
        self.assertIn("waits", printed)
