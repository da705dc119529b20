# SPDX-License-Identifier: Apache-2.0
"""The small guest: one script as PID 1, for test programs that need nothing but another kernel."""

import image
import machine
import snapshot

KIND = machine.Kind()


def ensure(_checkout=None):
    """The image with its snapshot; both made when they are not there. They hold nothing of a build."""
    with image.locked():
        source = snapshot.Image(KIND, image.ensure())
        snapshot.ensure(source)
    return source
