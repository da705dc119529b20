#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/pictures/dashboard.png and alarms.png in Chromium: panels of the dashboard in Debian's Prometheus, which has no
Grafana beside it, and the alarms of Holdfast after a server has ended.

usage: picture.py SERVER [FOLDER]    the program holdfast-server; needs the packages chromium and prometheus
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

import alarms
from alarms import DASHBOARD, ROOT, UP, Site

INSTALLED = Path("/usr/share/doc/holdfast-cli/prometheus/holdfast.rules.yml")
WIDTH = 1000
SECONDS = 120
PANELS = ("Calls by code", "Store")
MINUTES = 2  # of their time axis
EXAMPLE = ROOT / "docs/examples/quickstart/notes.volume.hcl"


def take(folder, site, picture, page, height):
    subprocess.run(["chromium", "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/browser",
                    *(["--no-sandbox"] if os.geteuid() == 0 else []), f"--window-size={WIDTH},{height}",
                    "--virtual-time-budget=20000", f"--screenshot={picture}", f"http://127.0.0.1:{site.port}/classic/{page}"],
                   check=True, timeout=SECONDS, stderr=subprocess.DEVNULL)  # fmt: skip


def panels():
    """The page of Prometheus that shows PANELS."""
    expressions = {panel["title"]: panel["targets"][0]["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"]}
    fields = {}
    for i, title in enumerate(PANELS):
        fields |= {f"g{i}.expr": expressions[title], f"g{i}.tab": 0, f"g{i}.range_input": f"{MINUTES}m"}
    return f"graph?{urllib.parse.urlencode(fields)}"


def work(folder, program):
    """Calls of all kinds, more and more of them: volumes are registered and looked at, others are missed."""
    cli = [Path(program).parents[1] / "cli/holdfast", "--dev-dir", f"{folder}/server", "volume"]
    end = time.monotonic() + 60 * MINUTES
    for n in range(1000):
        spec = Path(folder) / "volume.hcl"
        spec.write_text(EXAMPLE.read_text(encoding="ascii").replace('"notes"', f'"v{n}"'), encoding="ascii")
        subprocess.run([*cli, "register", spec], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*cli, "status", f"v{n}"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*cli, "status", f"w{n}"], check=False, stderr=subprocess.DEVNULL)
        time.sleep(max(0.1, (end - time.monotonic()) / (10 * MINUTES)))
        if time.monotonic() > end:
            break


def main():
    pictures = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/pictures").absolute()
    if INSTALLED.exists():  # its path is in the picture
        alarms.RULES = INSTALLED
    with tempfile.TemporaryDirectory(prefix="holdfast-alarms-") as folder:
        site = Site(Path(folder), sys.argv[1])
        try:
            work(folder, sys.argv[1])
            take(folder, site, pictures / "dashboard.png", panels(), 1400)
            site.server.send_signal(signal.SIGTERM)
            site.wait("a scrape that fails", lambda: site.query(f"{UP} == 0"))
            site.wait("an alarm", lambda: site.query('ALERTS{alertname="HoldfastServerAway"}'))
            take(folder, site, pictures / "alarms.png", "alerts", 640)
        finally:
            site.close()


if __name__ == "__main__":
    main()
