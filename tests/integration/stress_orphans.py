#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill a plugin at random moments while its mounts are on their way, for as many rounds as is said, and compare the volume
after each: see test_csi_orphans.py. usage: stress_orphans.py [ROUNDS [SEED]]"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import run  # noqa: E402

if __name__ == "__main__":
    os.environ["HOLDFAST_ORPHAN_ROUNDS"], os.environ["HOLDFAST_ORPHAN_SEED"] = [*sys.argv[1:3], *["200", "1"][len(sys.argv[1:3]):]]
    sys.argv[1:] = ["test_random_kills_lose_nothing"]
    sys.exit(run.main())
