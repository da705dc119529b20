#!/usr/bin/env python3
"""Ratios of one run on one machine. Called by ./dev bench; --json prints the numbers alone.

Rounds of the things compared are interleaved, and the median of the ratios is what counts: absolute numbers belong to
the machine and its load.
"""

import grp
import json
import os
import shutil
import statistics
import sys

from world import BUILD, CLUSTER, GROUP, PREFIX, Failure, World, run, show

ROUNDS = 5
PAIRS_HELPER, PAIRS_RAW, PAIRS_COMMANDS = 300, 3000, 100


def program(name):
    return os.path.join(BUILD, "tests", "bench", name)


class Bench:
    def __init__(self):
        self.world = World(nodes=1, ops_per_second=1000, burst=10000)
        self.node = self.world.nodes[0]

    def open(self):
        # the trail on the disk where it would be, and, to show what its durability costs, on a tmpfs
        self.world.open()
        self.key = f"{self.node.data}/ticket.key"
        shutil.copyfile(f"{PREFIX}/var/server/ticket.key", self.key)
        os.chown(self.key, self.node.uid, grp.getgrnam(GROUP).gr_gid)
        os.chmod(self.key, 0o600)

    def use_trail(self, path):
        with open(path, "ab"):
            os.chmod(path, 0o600)
        self.node.trail = path
        self.world.write_policy()

    def publish_through_helper(self):
        as_agent = ["setpriv", f"--reuid={self.node.user}", f"--regid={GROUP}", "--clear-groups", "--inh-caps=-all"]
        helper = f"{PREFIX}/libexec/holdfast/holdfast-mounthelper"
        done = run(*as_agent, program("bench_publish"), "helper", helper, self.key, CLUSTER, self.node.id,
                   str(PAIRS_HELPER))
        return int(done.stdout)

    def publish_raw(self, folder):
        return int(run(program("bench_publish"), "raw", folder, str(PAIRS_RAW)).stdout)

    def publish_by_commands(self, folder):
        return int(run(program("bench_publish"), "commands", folder, str(PAIRS_COMMANDS)).stdout)

    def publish(self):
        folder = f"{PREFIX}/run/bench"
        os.mkdir(folder)
        disk, memory = self.node.trail, f"{PREFIX}/run/{self.node.id}/trail.log"
        rounds = []
        for _ in range(ROUNDS):
            numbers = {"raw": self.publish_raw(folder), "commands": self.publish_by_commands(folder)}
            self.use_trail(disk)
            numbers["helper"] = self.publish_through_helper()
            self.use_trail(memory)
            numbers["helper_trail_in_memory"] = self.publish_through_helper()
            rounds.append(numbers)
        self.use_trail(disk)
        result = {f"{name}_ns": round(statistics.median(r[name] for r in rounds)) for name in rounds[0]}
        for name in ("helper", "helper_trail_in_memory"):
            for other in ("raw", "commands"):
                result[f"{name}_to_{other}"] = round(statistics.median(r[name] / r[other] for r in rounds), 3)
        return result

    def claims(self):
        folder = f"{PREFIX}/var/bench"
        os.mkdir(folder)
        return json.loads(run(program("bench_claims"), f"{PREFIX}/var/server", self.node.id, folder).stdout)

    def store(self):
        folder = f"{PREFIX}/var/bench-store"
        os.mkdir(folder)
        return run(program("bench_store"), folder).stdout


def main():
    bench = Bench()
    try:
        bench.open()
        publish, claims, store = bench.publish(), bench.claims(), bench.store()
    except Failure as e:
        print(f"bench: {e}", file=sys.stderr)
        return 1
    finally:
        bench.world.close()
    if "--json" in sys.argv[1:]:
        print(json.dumps({"publish": publish, "claims": claims}, indent=2))
        return 0
    show("publish + unpublish, median of 5 interleaved rounds")
    show(f"  through the mount helper, trail on disk       {publish['helper_ns'] / 1000:8.0f} us")
    show(f"  through the mount helper, trail in memory     {publish['helper_trail_in_memory_ns'] / 1000:8.0f} us")
    show(f"  the same raw system calls in one process      {publish['raw_ns'] / 1000:8.0f} us")
    show(f"  mount --bind and umount as commands           {publish['commands_ns'] / 1000:8.0f} us")
    show(f"  ratio helper : raw system calls               {publish['helper_to_raw']:8.2f}")
    show(f"  ratio helper : commands                       {publish['helper_to_commands']:8.2f}")
    show(f"  ratio helper, trail in memory : raw           {publish['helper_trail_in_memory_to_raw']:8.2f}")
    show(f"  ratio helper, trail in memory : commands      {publish['helper_trail_in_memory_to_commands']:8.2f}")
    show("claims against durable single-row sqlite commits on the same disk, median of 5 interleaved rounds")
    show(f"  sqlite commits per second                     {claims['sqlite_commits_per_s']:8.0f}")
    show(f"  claims per second, 1 outstanding              {claims['claims_per_s_1']:8.0f}")
    show(f"  claims per second, 64 outstanding             {claims['claims_per_s_64']:8.0f}")
    show(f"  ratio claims, 1 outstanding : commits         {claims['ratio_1']:8.2f}")
    show(f"  ratio claims, 64 outstanding : commits        {claims['ratio_64']:8.2f}")
    show("the store alone")
    for line in store.splitlines():
        show(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
