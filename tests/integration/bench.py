#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ratios of one run on one machine. Called by ./dev bench.

Rounds of the things compared are interleaved, and the median of the ratios is what counts: absolute numbers belong to
the machine and its load.
"""

import argparse
import grp
import json
import os
import shutil
import statistics
import sys

import bench_commands
import bench_volumes
from world import BUILD, CLUSTER, GROUP, PREFIX, Failure, World, run, show

ROUNDS = 5
ROUNDS_OF_PUBLISHING = 11  # a disturbed one costs a second, and moves a median of few
PAIRS_HELPER, PAIRS_RAW, PAIRS_COMMANDS = 1000, 3000, 100
LIVES = 500
PAIRS_AMONG_FOREIGN = 300
FOREIGN_MOUNTS = 10000
STARTS = 41
ROUNDS_OF_VOLUMES = 5
ROUNDS_OF_RESTARTS = 3


def program(name):
    return os.path.join(BUILD, "tests", "bench", name)


def private_tmpfs():
    """Shared profiles ask for submounts, and classes that may wait arm an alarm: neither is measured here."""
    return "	profile scratch { class = tmpfs; max_size = 256MiB }\n"


class Bench:
    def __init__(self):
        self.world = World(nodes=1, ops_per_second=4000, burst=10000)
        self.node = self.world.nodes[0]
        self.node.profiles = private_tmpfs

    def open(self):
        self.world.open()
        self.key = f"{self.node.data}/ticket.key"
        shutil.copyfile(f"{PREFIX}/var/server/ticket.key", self.key)
        os.chown(self.key, self.node.uid, grp.getgrnam(GROUP).gr_gid)
        os.chmod(self.key, 0o600)
        self.folder = f"{PREFIX}/run/bench"
        os.mkdir(self.folder)

    def as_root(self, way, number):
        return int(run(program("bench_publish"), way, self.folder, str(number)).stdout)

    def as_agent(self, way, *args):
        helper = f"{PREFIX}/libexec/holdfast/holdfast-mounthelper"
        drop = ["setpriv", f"--reuid={self.node.user}", f"--regid={GROUP}", "--clear-groups", "--inh-caps=-all"]
        return int(run(*drop, program("bench_publish"), way, helper, *map(str, args)).stdout)

    def through_helper(self, trail_sync, number=PAIRS_HELPER, way="helper"):
        self.node.trail_sync = trail_sync
        self.world.write_policy()
        return self.as_agent(way, self.key, CLUSTER, self.node.id, number)

    def rounds(self, ways, pairs, number=ROUNDS):
        """Medians of the ways, and of their ratios within a round."""
        rounds = [{name: measure() for name, measure in ways.items()} for _ in range(number)]
        result = {f"{name}_ns": round(statistics.median(r[name] for r in rounds)) for name in ways}
        for name, other in pairs:
            result[f"{name}_to_{other}"] = round(statistics.median(r[name] / r[other] for r in rounds), 3)
        return result

    def publish(self):
        """The shipped default first; what it is compared with behind a socket takes messages of the same sizes."""
        helpers = ("helper_always", "helper_batch")
        return self.rounds(
            {
                "raw": lambda: self.as_root("raw", PAIRS_RAW),
                "socket": lambda: self.as_root("socket", PAIRS_RAW),
                "socket_life": lambda: self.as_root("socket-lives", LIVES),
                "commands": lambda: self.as_root("commands", PAIRS_COMMANDS),
                "helper_always_life": lambda: self.through_helper("always", LIVES, "helper-lives"),
                "helper_batch_life": lambda: self.through_helper("batch", LIVES, "helper-lives"),
                "helper_always": lambda: self.through_helper("always"),
                "helper_batch": lambda: self.through_helper("batch"),
                "helper_batch_one_ticket": lambda: self.through_helper("batch", way="helper-one-ticket"),
            },
            [(f"{helper}_life", "socket_life") for helper in helpers]
            + [(helper, other) for helper in helpers for other in ("socket", "raw", "commands")]
            + [("helper_batch_one_ticket", "socket")],
            ROUNDS_OF_PUBLISHING,
        )

    def growth(self):
        """The same among many mounts that are nobody's business, and what that does to the ratio."""
        ways = {
            "socket": lambda: self.as_root("socket", PAIRS_AMONG_FOREIGN),
            "helper": lambda: self.through_helper("batch", PAIRS_AMONG_FOREIGN),
        }
        alone = self.rounds(ways, [("helper", "socket")])
        foreign = f"{PREFIX}/log/foreign"
        os.mkdir(foreign)
        try:
            run(program("bench_publish"), "foreign", foreign, str(FOREIGN_MOUNTS))
            among = self.rounds(ways, [("helper", "socket")])
        finally:
            run("umount", "-l", foreign, check=False)
        growth = {name: round(among[f"{name}_ns"] / alone[f"{name}_ns"], 3) for name in ways}
        return {
            "mounts": FOREIGN_MOUNTS,
            "alone": alone,
            "among": among,
            "growth_socket": growth["socket"],
            "growth_helper": growth["helper"],
            "growth_helper_to_socket": round(growth["helper"] / growth["socket"], 3),
        }

    def helper(self):
        """What one instance costs: time from exec to HELLO, which it sends locked down, memory, size."""
        stripped = f"{PREFIX}/log/helper"
        run("strip", "-o", stripped, f"{PREFIX}/libexec/holdfast/holdfast-mounthelper")
        return {
            "start_ns": self.as_agent("start", STARTS),
            "resident_bytes": self.as_agent("memory", 1),
            "stripped_bytes": os.path.getsize(stripped),
        }

    def claims(self):
        folder, pid = f"{PREFIX}/var/bench", str(self.world.server.pid)
        os.mkdir(folder)
        return json.loads(run(program("bench_claims"), f"{PREFIX}/var/server", self.node.id, folder, pid).stdout)

    def server(self):
        """A server of its own, with much in it."""
        folder = f"{PREFIX}/var/bench-server"
        os.mkdir(folder)
        return json.loads(run(program("bench_server"), folder, f"{PREFIX}/bin/holdfast").stdout)

    def sessions(self):
        """A server of its own with as many sessions as a large cluster has."""
        folder = f"{PREFIX}/var/bench-sessions"
        os.mkdir(folder)
        return json.loads(run(program("bench_sessions"), folder).stdout)

    def takeover(self):
        """Three servers on three members of etcd, of which the one that leads is lost again and again."""
        folder = f"{PREFIX}/var/bench-takeover"
        os.mkdir(folder)
        return json.loads(run(program("bench_takeover"), folder).stdout)

    def servers(self):
        """Claims of three servers on three members of etcd, and what a session costs one that follows."""
        folder = f"{PREFIX}/var/bench-servers"
        os.mkdir(folder)
        return json.loads(run(program("bench_servers"), folder).stdout)

    def store(self):
        folder = f"{PREFIX}/var/bench-store"
        os.mkdir(folder)
        return run(program("bench_store"), folder).stdout


def show_publish(p):
    show(f"median of {ROUNDS_OF_PUBLISHING} interleaved rounds; each volume or publish has a ticket of its own, signed apart")
    show("one life of a tmpfs volume: stage, publish, unpublish, unstage")
    for name, text in (
        ("helper_always_life", "through the mount helper, trail_sync = always"),
        ("helper_batch_life", "through the mount helper, trail_sync = batch"),
        ("socket_life", "the same raw system calls behind a socket"),
    ):
        show(f"  {text:60}{p[f'{name}_ns'] / 1000:8.0f} us")
    for name in ("helper_always", "helper_batch"):
        show(f"  ratio {name.replace('helper_', 'helper, ')} : {'socket':46}{p[f'{name}_life_to_socket_life']:8.2f}")
    show("publish + unpublish")
    for name, text in (
        ("helper_always", "through the mount helper, trail_sync = always"),
        ("helper_batch", "through the mount helper, trail_sync = batch"),
        ("helper_batch_one_ticket", "the same with one ticket for all, verified once"),
        ("socket", "the same raw system calls behind a socket"),
        ("raw", "the same raw system calls in one process"),
        ("commands", "mount --bind and umount as commands"),
    ):
        show(f"  {text:60}{p[f'{name}_ns'] / 1000:8.0f} us")
    for name in ("helper_always", "helper_batch"):
        for other in ("socket", "raw", "commands"):
            show(f"  ratio {name.replace('helper_', 'helper, ')} : {other:46}{p[f'{name}_to_{other}']:8.2f}")
    show(f"  ratio helper, batch, one ticket : {'socket':34}{p['helper_batch_one_ticket_to_socket']:8.2f}")


def show_growth(g):
    show(f"the same among {g['mounts']} foreign mounts")
    for name, text in (("socket", "raw system calls behind a socket"), ("helper", "through the mount helper, batch")):
        alone, among = g["alone"][f"{name}_ns"] / 1000, g["among"][f"{name}_ns"] / 1000
        show(f"  {text:40}{alone:8.0f} us -> {among:8.0f} us  x {g[f'growth_{name}']:.2f}")
    show(f"  ratio of the growths, helper : raw {g['growth_helper_to_socket']:26.2f}")


def make_foreign(folder, number):
    run(program("bench_publish"), "foreign", folder, str(number))


def restart():
    return [bench_volumes.measure_restart(number, ROUNDS_OF_RESTARTS, FOREIGN_MOUNTS, make_foreign)
            for number in bench_volumes.RESTART_VOLUMES]


def show_restart(restarts):
    show("an agent killed and started again with many tmpfs volumes: until it is connected and knows all of its mounts")
    for r in restarts:
        alone, among = r["alone"], r["among"]
        show(f"  {r['volumes']:5} volumes                        {alone['seconds']:8.2f} s; among {r['mounts']} mounts "
             f"{among['seconds']:8.2f} s  x {r['growth']:.2f}")
        show(f"    processor time of agent, helpers   {alone['agent_s']:8.2f}, {alone['helpers_s']:.2f} s; "
             f"{among['agent_s']:.2f}, {among['helpers_s']:.2f} s")


def volumes():
    """Native ones, and those of a CSI plugin."""
    return {name: bench_volumes.measure(kind, ROUNDS_OF_VOLUMES, FOREIGN_MOUNTS, make_foreign)
            for name, kind in (("tmpfs", bench_volumes.Native), ("csi", bench_volumes.Csi),
                               ("csi-device", bench_volumes.CsiDevices))}


def show_volumes(many):
    for name, v in many.items():
        show_volumes_of(name, v)


def show_volumes_of(name, v):
    show(f"{v['volumes']} {name} volumes on one node, each of its own allocation, alone and among {v['mounts']} mounts")
    for phase in ("publish", "unpublish"):
        for what, text, scale, unit in (
            ("seconds", "", 1, "s"),
            ("agent_us", ", processor time of the agent for one", 1, "us"),
            ("helpers_us", ", of the helpers", 1, "us"),
            ("server_us", ", of the server", 1, "us"),
            ("plugin_us", ", of the plugin", 1, "us"),
        ):
            if what not in v["alone"][phase]:
                continue
            alone, among = v["alone"][phase][what] * scale, v["among"][phase][what] * scale
            show(f"  {phase + text:48}{alone:8.2f} -> {among:8.2f} {unit:2} x {v['growth'][f'{phase}_{what}']:.2f}")
        requests = " ".join(f"{op} {n:.0f}" for op, n in sorted(v["among"][phase]["requests"].items()))
        show(f"  requests to the helpers: {requests}")
        if v["among"][phase]["calls"]:
            calls = " ".join(f"{method} {n:.0f}" for method, n in v["among"][phase]["calls"].items())
            show(f"  calls to the plugin: {calls}")
    for name, when in (("resident_before", "before"), ("resident", "with all published")):
        alone, among = v["alone"][name] / 1024, v["among"][name] / 1024
        show(f"  resident memory of the agent {when:19}{alone:8.0f} -> {among:8.0f} KiB")
    alone, among = v["alone"]["status_seconds"] * 1000, v["among"]["status_seconds"] * 1000
    show(f"  holdfast agent status                           {alone:8.0f} -> {among:8.0f} ms")


def show_commands(c):
    show(f"one command, from exec to exit: median and lowest of {c['rounds']} interleaved rounds, ratio to /bin/true")
    for name, text in bench_commands.NAMES.items():
        median, lowest = c[name]["median"], c[name]["lowest"]
        show(f"  {text:48}{median:8.2f} {lowest:8.2f} ms  x {c[name]['to_true']:.1f}")


def show_helper(h):
    show("one instance of the mount helper")
    show(f"  from exec to HELLO, locked down, median of {STARTS} {h['start_ns'] / 1e6:8.2f} ms")
    show(f"  resident memory after the lock-down             {h['resident_bytes'] / 1024:8.0f} KiB")
    show(f"  stripped program                                {h['stripped_bytes'] / 1024:8.0f} KiB")


def show_claims(claims):
    show("claims against durable single-row sqlite commits and transactions of etcd on the same disk,")
    show("median of 5 interleaved rounds")
    show(f"  sqlite commits per second                     {claims['sqlite_commits_per_s']:8.0f}")
    show("  outstanding             claims/s     etcd/s   ratio to commits    ratio to etcd")
    for width in (1, 10, 64):
        show(
            f"  {width:11}           {claims[f'claims_per_s_{width}']:10.0f} {claims[f'etcd_per_s_{width}']:10.0f}"
            f" {claims[f'ratio_{width}']:18.2f} {claims[f'ratio_etcd_{width}']:16.2f}"
        )
    if "ratio_etcd_clear_64" in claims:
        show(f"  64, etcd without TLS over a unix socket{claims['etcd_clear_per_s_64']:19.0f}"
             f"{claims['ratio_etcd_clear_64']:36.2f}")
    show("  processor time of one, us     server: loop, other threads   client      etcd   client   ratio")
    for width in (1, 10, 64):
        ours, etcd = claims[f"cpu_us_claims_per_s_{width}"], claims[f"cpu_us_etcd_per_s_{width}"]
        ratio = claims.get(f"ratio_cpu_etcd_{width}", 0)
        show(
            f"  {width:11}                          {ours['loop']:7.0f} {ours['others']:15.0f} {ours['client']:8.0f}"
            f" {etcd['loop'] + etcd['others']:9.0f} {etcd['client']:8.0f} {ratio:7.2f}"
        )


def show_server(server):
    show(f"a server with {server['volumes']} volumes and {server['nodes']} nodes")
    for what in ("volume", "volume_and_claim", "volume_claim_and_allocation"):
        words = what.replace("_", " ")
        show(f"  start, each {words:32}   {server[f'start_{what}_s']:8.3f} s")
        show(f"  memory per {words:32}    {server[f'bytes_per_{what}']:8.0f} bytes")
    for what in ("get", "list_100", "list_1000"):
        p50, p99 = server[f"{what}_p50_us"], server[f"{what}_p99_us"]
        show(f"  {what.replace('_', ' of '):16} p50 and p99               {p50:8.0f} {p99:8.0f} us")
    for what, text in (("table", "volume status"), ("json", "volume status --json")):
        show(f"  holdfast {text:20} of all            {server[f'{what}_s']:8.2f} s, {server[f'{what}_bytes'] / 1e6:.0f} MB")
    show(f"  memory per session                            {server['bytes_per_session']:8.0f} bytes")
    show(f"  from the end of 1 allocation to a free claim  {server['free_1_ms']:8.2f} ms")
    show(f"  the same for 1000 at once                     {server['free_1000_ms']:8.2f} ms")


def show_sessions(s):
    show(f"{s['sessions']} sessions of nodes over TLS, opened within {s['open_s']:.0f} s, heartbeats every "
         f"{s['heartbeat_ms'] / 1000:.0f} s; 100 calls a second beside them")
    show("                                   p50      p99      max    first answer   sessions   lost so far")
    for name, text in (("quiet", "without sessions"), ("opening", "while they open"), ("steady", "with all of them"),
                       ("attack", f"with {s['attackers']} attackers"), ("after", f"after a stop of {s['pause_s']} s")):
        show(f"  {text:26}{s[f'{name}_p50_ms']:9.1f}{s[f'{name}_p99_ms']:9.1f}{s[f'{name}_max_ms']:9.1f}"
             f"{s[f'{name}_first_ms']:13.1f} ms{s[f'{name}_open']:10}{s[f'{name}_lost']:14}")
    show(f"  {s['attack_ended']} connections of attackers were ended, after {s['attack_ended_ms']:.0f} ms on average and "
         f"{s['attack_ended_longest_ms']:.0f} ms at most")
    for name in ("steady", "attack", "after"):
        show(f"  ratio of p99, {name} : quiet {s[f'{name}_p99_ms'] / s['quiet_p99_ms']:29.1f}")


def show_takeover(t):
    show(f"three servers on three members of etcd, lease {t['lease_s']} s, {t['volumes']} volumes with claim and allocation, "
         f"{t['nodes']} nodes with sessions; the server that leads is lost")
    show("  s until             first answer   first grant   every session   sessions gone: median       most")
    for loss in t["losses"]:
        show(f"  {loss['signal']:18}{loss['first_answer_s']:14.2f}{loss['first_grant_s']:14.2f}{loss['all_sessions_s']:16.2f}"
             f"{loss['session_gap_p50_s']:24.2f}{loss['session_gap_max_s']:11.2f}")


def show_servers(s):
    show("three servers on three members of etcd; claims over TLS with 64 outstanding, median of 5 interleaved rounds")
    show(f"  claims per second, by the server that leads   {s['leader_per_s']:8.0f}")
    show(f"  by one that follows                           {s['follower_per_s']:8.0f}   ratio {s['follower_to_leader']:.2f}")
    show(f"  transactions of the same etcd, one for each   {s['etcd_per_s']:8.0f}   ratio of claims to them {s['leader_to_etcd']:.2f}")
    show(f"  memory per session at one that follows        {s['follower_bytes_per_session']:8.0f} bytes, of {s['sessions']} sessions")


def read_options(parts):
    parser = argparse.ArgumentParser(prog="dev bench", description="Measure, as ratios in one run.")
    parser.add_argument("--json", action="store_true", help="print the numbers of all parts alone, as JSON")
    one = parser.add_mutually_exclusive_group()
    for part in (*parts, "restart", "volumes", "commands"):
        one.add_argument(f"--{part}", dest="part", action="store_const", const=part, help=f"measure {part} alone")
    return parser.parse_args()


def main():
    bench = Bench()
    parts = {"publish": (bench.publish, show_publish), "claims": (bench.claims, show_claims),
             "sessions": (bench.sessions, show_sessions), "takeover": (bench.takeover, show_takeover),
             "servers": (bench.servers, show_servers)}
    options = read_options(parts)
    try:
        if options.part == "volumes":
            show_volumes(volumes())
            return 0
        if options.part == "restart":
            show_restart(restart())
            return 0
        if options.part == "commands":
            show_commands(bench_commands.measure())
            return 0
        bench.open()
        if options.part:
            measure, print_part = parts[options.part]
            print_part(measure())
            return 0
        publish, growth, helper = bench.publish(), bench.growth(), bench.helper()
        claims, server, store = bench.claims(), bench.server(), bench.store()
        bench.world.close()
        many, restarts, commands = volumes(), restart(), bench_commands.measure()
    except Failure as e:
        print(f"bench: {e}", file=sys.stderr)
        return 1
    finally:
        bench.world.close()
    if options.json:
        numbers = {"publish": publish, "growth": growth, "helper": helper, "claims": claims, "server": server,
                   "volumes": many, "restart": restarts, "commands": commands}
        print(json.dumps(numbers, indent=2))
        return 0
    show_publish(publish)
    show_growth(growth)
    show_helper(helper)
    show_claims(claims)
    show_server(server)
    show_volumes(many)
    show_restart(restarts)
    show_commands(commands)
    show("the store alone")
    for line in store.splitlines():
        show(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
