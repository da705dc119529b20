#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/pictures/alarms.png: Debian's Prometheus with the alarms of Holdfast, after a server has ended, in Chromium.

usage: picture.py SERVER [FILE]    the program holdfast-server; needs the packages chromium and prometheus
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import alarms
from alarms import ROOT, UP, Site

INSTALLED = Path("/usr/share/doc/holdfast-cli/prometheus/holdfast.rules.yml")
WIDTH, HEIGHT = 1000, 640
SECONDS = 120


def main():
    picture = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs/pictures/alarms.png").absolute()
    if INSTALLED.exists():  # its path is in the picture
        alarms.RULES = INSTALLED
    with tempfile.TemporaryDirectory(prefix="holdfast-alarms-") as folder:
        site = Site(Path(folder), sys.argv[1])
        try:
            site.server.send_signal(signal.SIGTERM)
            site.wait("a scrape that fails", lambda: site.query(f"{UP} == 0"))
            site.wait("an alarm", lambda: site.query('ALERTS{alertname="HoldfastServerAway"}'))
            subprocess.run(["chromium", "--headless", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/browser",
                            *(["--no-sandbox"] if os.geteuid() == 0 else []), f"--window-size={WIDTH},{HEIGHT}",
                            f"--screenshot={picture}", f"http://127.0.0.1:{site.port}/classic/alerts"],
                           check=True, timeout=SECONDS, stderr=subprocess.DEVNULL)  # fmt: skip
        finally:
            site.close()


if __name__ == "__main__":
    main()
