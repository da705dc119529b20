#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prometheus's own tools try the alarms and the dashboard of docs/prometheus. Ends with `N passed, N failed`.

usage: alarms.py SERVER    the program holdfast-server
"""

import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "docs/prometheus/holdfast.rules.yml"
DASHBOARD = ROOT / "docs/prometheus/holdfast.dashboard.json"
RUNBOOK = ROOT / "docs/runbook/README.md"
SERIES = re.compile(r"\bholdfast_\w+")
RULE = re.compile(r"- alert: (\w+)\n +expr: (.*)\n(?: +for: (\w+)\n)?.*\n +annotations:\n.*\n +page: (\S+)")
UP = 'up{job="holdfast"}'
DAY = 86400
WAIT_SECONDS = 600

# What a failure of the runbook does to the series of a healthy server, when it is looked at, and which alarm must fire.
SCENARIOS = {
    "a server is away": ({UP: "0"}, "5m", "HoldfastServerAway"),
    "a release hangs in a plugin": ({'holdfast_claims_waiting_seconds_max{for="node"}': "0+60"}, "20m", "HoldfastVolumeStuck"),
    "a step fails again and again": ({"holdfast_claims_failing": "1"}, "15m", "HoldfastStepFails"),
    "a node is away with a volume": ({'holdfast_claims_waiting{for="node-away"}': "2", 'holdfast_nodes{status="disconnected"}': "1"},
                                     "10m", "HoldfastNodeAway"),
    "a plugin is unhealthy": ({'holdfast_plugin_instances{plugin="p",service="node",healthy="false"}': "1"}, "15m",
                              "HoldfastPluginUnhealthy"),
    "a task driver is unhealthy": ({'holdfast_driver_instances{driver="d",healthy="false"}': "1"}, "15m", "HoldfastDriverUnhealthy"),
    "an agent hangs": ({"holdfast_node_heartbeat_age_seconds_max": "12"}, "1m", "HoldfastAgentHangs"),
    "a node of thousands waits for its heartbeat": ({"holdfast_node_heartbeat_age_seconds_max": "12",
                                                     "holdfast_node_heartbeat_seconds": "20"}, "1h", None),
    "a network drops sessions": ({"holdfast_sessions_silent_total": "0+1"}, "10m", "HoldfastAgentHangs"),
    "a certificate expires": ({'holdfast_certificate_expiry_timestamp_seconds{of="nodes"}': str(1 * DAY)}, "1m",
                              "HoldfastCertificateExpires"),
    "the list of revocations fills": ({"holdfast_revocations": "6144"}, "1m", "HoldfastRevocationsFill"),
    "no backup is made": ({"holdfast_backup_timestamp_seconds": "0"}, "3d", "HoldfastBackupOld"),
    "no kit is made": ({"holdfast_backup_kit_timestamp_seconds": "0"}, "3d", "HoldfastKitOld"),
    "a node has another ticket key": ({"holdfast_nodes_other_ticket_key": "1"}, "1m", "HoldfastTicketKeyDiffers"),
    "the disk of the store fills": ({"holdfast_disk_level": "1"}, "1m", "HoldfastDiskFills"),
    "the store hangs": ({'holdfast_store_trouble{kind="hangs"}': "1"}, "5m", "HoldfastStoreTrouble"),
    "a volume is full": ({"holdfast_volumes_full": "1"}, "1m", "HoldfastVolumeFull"),
    "a file system became read-only": ({"holdfast_volumes_read_only": "1"}, "1m", "HoldfastVolumeReadOnly"),
    "an agent's disk is full": ({'holdfast_nodes_disk_trouble{kind="full"}': "1"}, "1m", "HoldfastNodeDiskFull"),
    "a fencer is away": ({'holdfast_fencers{status="away"}': "1"}, "10m", "HoldfastFencerAway"),
    "a power switch does not answer": ({'holdfast_power_switches{status="failing"}': "1"}, "10m", "HoldfastFencerAway"),
    "a fence proved nothing": ({"holdfast_fences_unproved": "1"}, "1m", "HoldfastFenceUnproved"),
    "a node cannot be fenced": ({"holdfast_fence_clients_refused": "1"}, "1m", "HoldfastFenceClientsRefused"),
    "a namespace fills": ({"holdfast_namespace_memory_percent_max": "76"}, "1m", "HoldfastNamespaceFills"),
    "scheduled snapshots fail": ({"holdfast_snapshot_schedules_failing": "1"}, "2h", "HoldfastSnapshotsFail"),
    "a clock is wrong": ({"holdfast_nodes_clock_off": "1"}, "1m", "HoldfastClockWrong"),
    "the store went back": ({"holdfast_history_lost": "1"}, "1m", "HoldfastHistoryLost"),
    "a volume is held twice": ({"holdfast_volumes_held_twice": "1"}, "1m", "HoldfastHistoryLost"),
    "nothing is wrong": ({}, "1d", None),
}  # fmt: skip
MINUTES = {"m": 1, "h": 60, "d": 1440}


def minutes(text):
    return int(text[:-1]) * MINUTES[text[-1]]


def rules():
    """Name: (condition, for, page)."""
    return {name: (expr, wait, page) for name, expr, wait, page in RULE.findall(RULES.read_text(encoding="utf-8"))}


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stdout


class Site:
    """A server on loopback, and a Prometheus that scrapes it with the rules."""

    def __init__(self, folder, program):
        self.folder = folder
        self.server = subprocess.Popen([program, "--dev", str(folder / "server")], stderr=subprocess.DEVNULL)
        self.wait("the server", lambda: (folder / "server/address").read_text(encoding="ascii"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        tls = folder / "server/tls"
        config = folder / "prometheus.yml"  # JSON is YAML
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)],
            "scrape_configs": [{
                "job_name": "holdfast", "scheme": "https",
                "tls_config": {"ca_file": f"{tls}/ca.pem", "cert_file": f"{tls}/operator.pem", "key_file": f"{tls}/operator.key"},
                "static_configs": [{"targets": [(folder / "server/address").read_text(encoding="ascii").strip()]}]}]}),
            encoding="utf-8")  # fmt: skip
        self.log = open(folder / "prometheus.log", "w", encoding="utf-8")  # noqa: SIM115 as long as the process
        self.prometheus = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
                                            f"--web.listen-address=127.0.0.1:{self.port}"], stderr=self.log)  # fmt: skip
        self.wait("a scrape", lambda: self.query(f"{UP} == 1"))

    @staticmethod
    def wait(what, found):
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                if answer := found():
                    return answer
            except OSError:
                pass
            assert time.monotonic() < deadline, f"no {what}"
            time.sleep(0.1)

    def get(self, path, **fields):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(fields)}"
        with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as answer:  # noqa: S310 it is ours
            return json.load(answer)["data"]

    def query(self, expr):
        return self.get("query", query=expr)["result"]

    def names(self):
        """All series that the server exports, with those that have no labels yet."""
        return set(self.get("metadata"))

    def series(self):
        found = self.query('{job="holdfast",__name__=~"holdfast_.*"}')
        return {name_of(one["metric"]): one["value"][1] for one in found}

    def close(self):
        for process in (self.prometheus, self.server):
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT_SECONDS)
        self.log.close()


def name_of(metric):
    labels = ",".join(f'{k}="{v}"' for k, v in metric.items() if k not in ("__name__", "job", "instance"))
    return metric["__name__"] + (f"{{{labels}}}" if labels else "")


def every_condition_of_the_runbook_is_an_alarm_and_leads_to_its_page(_):
    rows = [line.split("|")[2:4] for line in RUNBOOK.read_text(encoding="utf-8").splitlines() if re.match(r"\|[^|]*\| `", line)]
    wanted = {}
    for condition, pages in rows:
        wait = re.search(r"for (\d+) minutes?", condition)
        expr = " or ".join(re.findall("`(.*?)`", condition))
        wanted[expr] = (f"{wait[1]}m" if wait else "", pages)
    found = {expr: (wait, page) for expr, wait, page in rules().values()}
    assert wanted.keys() == found.keys(), wanted.keys() ^ found.keys()
    for expr, (wait, page) in found.items():
        link = page.removeprefix("runbook/") if page.startswith("runbook/") else f"../{page}"
        assert wait == wanted[expr][0] and f"]({link})" in wanted[expr][1], (expr, wait, page, wanted[expr])


def every_condition_of_the_runbook_names_its_event(_):
    """A record of the audit that its manual explains, a warning of the server, or a line of the journal."""
    known = {*re.findall(r"\*([A-Z]\w+\.\w+)\*", (ROOT / "docs/man/holdfast-operator-access.1.scd").read_text(encoding="utf-8")),
             *(f"warning {name}" for name in re.findall(r'= {"([\w-]+)", \w+, (?:BOTH|EVENT_ONLY)}',
                                                        (ROOT / "server/warnings.c").read_text(encoding="utf-8"))),
             *(f"HOLDFAST_EVENT={name}" for name in re.findall(r', "([\w-]+)", "\w{32}"',
                                                               (ROOT / "proto/journal_events.h").read_text(encoding="utf-8"))),
             "store", "kind", "hangs: ..."}  # fmt: skip
    for line in RUNBOOK.read_text(encoding="utf-8").splitlines():
        if re.match(r"\|[^|]*\| `", line):
            named = re.findall("`(.*?)`", line.split("|")[4])
            assert named and known.issuperset(named), (line, set(named) - known)


def rules_are_well_formed(_):
    run("promtool", "check", "rules", str(RULES))
    assert len(rules()) == RULES.read_text(encoding="utf-8").count("- alert:"), "a rule is written in another form"


def each_alarm_fires_in_its_scenario_and_in_no_other(site):
    healthy = site.series() | {UP: "1"}
    healthy |= {f"holdfast_backup_{kind}timestamp_seconds": str(1000 * DAY) for kind in ("", "kit_")}
    tests = []
    for title, (changes, at, alarm) in SCENARIOS.items():
        assert {SERIES.match(name)[0] for name in changes if name != UP} <= site.names(), title
        series = [{"series": name, "values": f"{value}{'' if '+' in value else '+0'}x{minutes(at)}"} for name, value in (healthy | changes).items()]
        wait = rules()[alarm][1] if alarm else ""
        expected = [(at, {alarm} - {None})] + ([(f"{minutes(wait) - 1}m", set())] if wait else [])
        tests.append({"name": title, "interval": "1m", "input_series": series, "promql_expr_test": [
            {"expr": 'group by (alertname) (ALERTS{alertstate="firing"})', "eval_time": when,
             "exp_samples": [{"labels": f'{{alertname="{one}"}}', "value": 1} for one in alarms]} for when, alarms in expected]})  # fmt: skip
    assert {alarm for _, _, alarm in SCENARIOS.values()} - {None} == rules().keys()
    file = site.folder / "scenarios.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}), encoding="utf-8")
    run("promtool", "test", "rules", str(file))


def prometheus_evaluates_every_rule(site):
    def healths():
        found = {rule["name"]: (rule["health"], rule.get("lastError")) for group in site.get("rules")["groups"] for rule in group["rules"]}
        return all(health != "unknown" for health, _ in found.values()) and found

    found = site.wait("evaluation of the rules", healths)
    assert found == {name: ("ok", None) for name in rules()}, found


def every_panel_asks_for_series_that_the_server_has(site):
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            assert set(SERIES.findall(target["expr"])) <= site.names(), (panel["title"], target["expr"])
            site.query(target["expr"])  # an answer other than 200 raises
            labels = re.findall(r"by \(([\w, ]+)\)", target["expr"])
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - {"instance"}
            assert shown <= {label for group in labels for label in group.split(", ")}, (panel["title"], target)


def main():
    failed = 0
    cases = (every_condition_of_the_runbook_is_an_alarm_and_leads_to_its_page,
             every_condition_of_the_runbook_names_its_event, rules_are_well_formed,
             each_alarm_fires_in_its_scenario_and_in_no_other, prometheus_evaluates_every_rule,
             every_panel_asks_for_series_that_the_server_has)  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="holdfast-alarms-") as folder:
        site = Site(Path(folder), sys.argv[1])
        try:
            for case in cases:
                try:
                    case(site)
                    print(f"ok     {case.__name__}")
                except Exception:  # noqa: BLE001 a case that fails is told
                    failed += 1
                    print(f"FAILED {case.__name__}\n{traceback.format_exc()}")
        finally:
            site.close()
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
