# SPDX-License-Identifier: Apache-2.0
"""Launch mode setuid in a container, where the helper must stay in its caller's mount namespace (container = yes): the agent
needs that of the machine then. Elsewhere the helper goes to PID 1's, and the unit stays as it is."""

import machine

DROP_IN = "/etc/systemd/system/holdfast-agent-setuid.service.d/container.conf"


def prepare():
    """Take away what gives the agent a mount namespace of its own, in a container."""
    if not machine.in_container():
        return
    machine.write(DROP_IN, """[Service]
ProtectSystem=no
ProtectHome=no
PrivateTmp=no
ProtectControlGroups=no
ReadWritePaths=
""")  # fmt: skip
    machine.systemctl("daemon-reload")
