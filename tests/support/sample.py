# SPDX-License-Identifier: Apache-2.0
"""Which places of a sweep this run visits: HOLDFAST_SAMPLE, as sample.h explains."""

import os
import re
import sys


def parse(text):
    """(part, parts) of "K/N"."""
    found = re.fullmatch(r"([0-9]+)/([1-9][0-9]{0,2}|1000)", text, re.ASCII)
    if not found:
        sys.exit(f"cannot read HOLDFAST_SAMPLE={text}: it must be K/N, for example 2/4")
    return int(found[1]) % int(found[2]), int(found[2])


PART, PARTS = parse(os.environ.get("HOLDFAST_SAMPLE", "1/1"))


def has(place):
    return place % PARTS == PART
