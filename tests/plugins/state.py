# SPDX-License-Identifier: Apache-2.0
"""What provider and plugins remember, in one file that processes and threads share."""

import contextlib
import fcntl
import json
import os

EMPTY = {
    "instances": [],  # nodes that a plugin was started for
    "volumes": {},  # id: name, kind, asked, capacity, source
    "snapshots": {},  # id: name, source, size, time
    "attached": {},  # volume: {node: {device, readonly}}
    "nodes": {},  # node: {volume: {staging, targets}}: what the node half believes
    "fenced": [],  # addresses that the storage refuses
    "spent": {},  # order: how often it was carried out
    "told": {  # what the orchestrator has been answered: the rules judge it by that
        "announced": {},  # half and node: capabilities
        "contexts": {},  # volume: volume_context of its creation
        "attached": {},  # volume: {node: publish_context}
        "staged": {},  # node: {volume: path}
        "published": {},  # node: {volume: [target]}
    },
}


class State:
    def __init__(self, folder):
        self.folder = folder
        for name in ("data", "inflight"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    @contextlib.contextmanager
    def locked(self):
        """The state, to be changed; what was changed stays when the block ends well, and when it raises."""
        with open(self.path("lock"), "a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            data = self.load()
            try:
                yield data
            finally:
                self.save(data)

    def load(self):
        try:
            with open(self.path("state.json"), encoding="utf-8") as f:
                return json.load(f)
        except FileNotFoundError:
            return json.loads(json.dumps(EMPTY))

    def save(self, data):
        path = self.path("state.json")
        with open(path + ".part", "w", encoding="utf-8") as f:
            json.dump(data, f, indent=1)
        os.rename(path + ".part", path)

    def append(self, name, line):
        """One line at the end of a log; lines of several processes do not mix."""
        with open(self.path(name), "a", encoding="utf-8") as f:
            f.write(line + "\n")

    def lines(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def wishes(self):
        """What the test wants: quirks, settings, orders; read at each call."""
        try:
            with open(self.path("orders.json"), encoding="utf-8") as f:
                wishes = json.load(f)
        except FileNotFoundError:
            wishes = {}
        return {"quirks": [], "settings": {}, "orders": [], **wishes}
