#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How ./dev test runs lanes: the pool with jobs that pass, fail, hang and are ended, and the table. Prints as cmocka does."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lanes"))

import lanes  # noqa: E402
from pool import Job, Pool, tally  # noqa: E402

HANGS = "sleep 600"


def job(name, script, **more):
    return Job(more.pop("lane", "build"), name, ["sh", "-c", script], place="host", **more)


def run(*jobs, n_slots=4, interrupt=False):
    """The results by name, and the names in the order in which jobs ended."""
    order = []
    with tempfile.TemporaryDirectory() as logs:
        pool = Pool(n_slots, logs, lambda result: order.append(result.job.name))
        if interrupt:
            threading.Thread(target=end_when_it_runs, args=(pool,)).start()
        results = pool.run(jobs)
    return {result.job.name: result for result in results}, order


def end_when_it_runs(pool):
    wait_until(lambda: pool.running)
    pool.end()


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "not within two minutes"
        time.sleep(0.01)


def cases_are_counted_as_cmocka_prints_them():
    text = "[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n[  FAILED  ] b\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n"
    assert tally(text, 1, job("x", "")) == (1, ("b",))


def the_last_sum_of_a_script_counts():
    assert tally("FAILED one (2 s)\n3 passed, 2 failed\n", 1, job("x", "")) == (3, ("one", "unnamed"))
    assert tally("3 passed, 0 failed\n", 0, job("x", "")) == (3, ())
    assert tally("FAILED etcd:one (2 s)\nFAILED two: why\n0 passed, 2 failed\n", 1, job("x", "")) == (0, ("etcd:one", "two"))


def a_program_that_fails_after_its_cases_passed_is_a_failure():
    assert tally("[       OK ] a\n", 3, job("x", "")) == (1, ("exit status 3",))
    assert tally("5 passed, 0 failed\n", -9, job("x", "")) == (5, ("signal SIGKILL",))


def a_program_without_cases_is_one():
    assert tally("", 0, job("x", "")) == (1, ())


def expected_output_replaces_the_exit_status():
    refused = Job("lane", "x", [], expects="^no such option$")
    assert tally("no such option\n", 1, refused) == (1, ())
    assert tally("ok\n", 1, refused) == (0, ("exit status 1",))


def a_failed_job_hides_no_other():
    results, _ = run(job("bad", "exit 1"), job("good", "echo '4 passed, 0 failed'"), job("killed", "kill -KILL $$"))
    assert results["bad"].failed == ("exit status 1",)
    assert results["killed"].failed == ("signal SIGKILL",)
    assert (results["good"].passed, results["good"].failed) == (4, ())


def a_job_that_hangs_ends_with_its_children():
    with tempfile.TemporaryDirectory() as folder:
        results, _ = run(job("hangs", f"{HANGS} & echo $! >{folder}/pid; wait", limit=1))
        child = Path(f"{folder}/pid").read_text(encoding="ascii").strip()
    assert "ended after 1 s" in results["hangs"].failed, results["hangs"].failed
    wait_until(lambda: not Path(f"/proc/{child}/exe").exists())


def a_job_waits_for_what_it_needs():
    results, order = run(job("user", "true", needs=("build",)), job("build", "true", counts=False))
    assert order == ["build", "user"], order
    assert (results["build"].passed, results["user"].passed) == (0, 1)


def jobs_whose_build_failed_are_failures():
    results, _ = run(job("user", "true", needs=("build",)), job("build", "exit 1", counts=False),
                     Job("lane", "more", [], needs=("build",), then=lambda: [job("late", "true")]))
    assert results["user"].failed and results["more"].failed and "late" not in results, results


def jobs_that_are_known_later_run():
    results, _ = run(job("build", "true"), Job("lane", "more", [], needs=("build",), counts=False,
                                               then=lambda: [job("one", "true"), job("two", "true")]))
    assert results["one"].passed == results["two"].passed == 1


def a_list_of_jobs_that_cannot_be_made_is_a_failure():
    results, _ = run(Job("lane", "more", [], then=lambda: 1 / 0), job("good", "true"))
    assert results["more"].failed and not results["good"].failed


def no_more_jobs_run_than_there_are_slots():
    with tempfile.TemporaryDirectory() as folder:
        alone = f"mkdir {folder}/here && rmdir {folder}/here"
        results, _ = run(*(job(f"{i}", alone, slots=3) for i in range(8)), n_slots=4)
        assert not any(one.failed for one in results.values()), results


def a_program_of_two_lanes_counts_in_both():
    with tempfile.TemporaryDirectory() as logs:
        results = Pool(2, logs, lambda result: None).run([job("same", "true", lane="one"), job("same", "exit 1", lane="two")])
    assert sorted((one.job.lane, one.passed, len(one.failed)) for one in results) == [("one", 1, 0), ("two", 0, 1)], results


def a_job_larger_than_the_pool_still_runs():
    results, _ = run(job("large", "true", slots=9), n_slots=2)
    assert results["large"].passed == 1


def an_interrupt_ends_what_runs_and_starts_nothing_more():
    results, _ = run(job("hangs", HANGS), job("next", "true", needs=("hangs",)), interrupt=True)
    assert results["hangs"].failed == ("signal SIGTERM",), results["hangs"].failed
    assert "next" not in results


def the_longest_job_starts_first():
    order = []
    with tempfile.TemporaryDirectory() as logs:
        pool = Pool(1, logs, lambda result: order.append(result.job.name), cost=lambda one: int(one.name))
        pool.run([job("1", "true"), job("3", "true"), job("2", "true")])
    assert order == ["3", "2", "1"], order


def each_lane_has_jobs_and_known_packages():
    groups = (ROOT / "dev").read_text(encoding="utf-8")
    for name, lane in lanes.lanes().items():
        assert lane.jobs(name), name
        for group in lane.packages.split():
            assert f"PACKAGES[{group}]='" in groups, f"{name}: {group}"


def jobs_of_integration(sample):
    """The names of all its cases, and its jobs."""
    env = os.environ | {"HOLDFAST_SAMPLE": sample}
    words = [sys.executable, "-B", str(ROOT / "tests/integration/run.py"), "--list"]
    listed = subprocess.run(words, env=env, check=True, capture_output=True, text=True).stdout.split()
    with unittest.mock.patch.dict(os.environ, env):
        return listed, list(lanes.integration_classes("lane", "")())


def each_integration_case_is_in_one_job():
    listed, jobs = jobs_of_integration("3/4")
    patterns = [word for one in jobs for word in one.command if word.endswith("$")]
    whole = {one.command[-1] for one in jobs if one.command[-1].endswith(".")}
    assert whole == {f"{name}." for name in lanes.SWEEPS}, whole
    assert sorted(patterns) == sorted(f"{name}$" for name in listed if not name.startswith(tuple(whole)))
    assert len({one.key for one in jobs}) == len(jobs)


def the_worlds_of_a_sweep_share_its_part_of_the_sample():
    for text, n in (("3/4", 2), ("1/1", 3), ("4/4", 2)):
        part, parts = map(int, text.split("/"))
        split = [[int(word) for word in one.split("/")] for one in lanes.parts_of_sample(text, n)]
        for place in range(100):
            hits = sum(place % of == k % of for k, of in split)
            assert hits == (place % parts == part % parts), (text, n, place)


def each_source_file_asks_for_a_lane():
    folders = [folder for lane in lanes.LANES.values() for folder in lane.touched_by.split() if folder != "."]
    silent = [path for path in lanes.git("ls-files", "lib", "proto", "mounthelper", "agent", "server", "cli", "selinux", "systemd")
              if not any(lanes.is_below(path, folder) for folder in folders)]
    assert not silent, silent


def each_folder_that_asks_for_a_lane_exists():
    for name, lane in lanes.lanes().items():
        for folder in lane.touched_by.split():
            assert folder == "." or lanes.git("ls-files", folder) or lanes.git("ls-files", f"{folder}*"), f"{name}: {folder}"


def the_sum_lists_builds_only_if_there_are_any():
    results, _ = run(job("a", "echo '1 passed, 0 failed'", lane="fuzz"))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        failed = lanes.sum_up(results.values(), ["fuzz"], 1.0)
    assert failed == 0 and "build" not in out.getvalue() and "1 passed, 0 failed" in out.getvalue(), out.getvalue()


def a_lane_that_does_not_exist_is_refused_with_the_list():
    done = subprocess.run([sys.executable, "-B", ROOT / "tests/lanes/lanes.py", "which", "unti"], capture_output=True, text=True)
    assert done.returncode == 1 and "no lane unti. Lanes: static unit " in done.stderr, done.stderr


def main():
    status = 0
    helpers = (main, run, job, end_when_it_runs, wait_until, jobs_of_integration)
    for name, case in list(globals().items()):
        if case in helpers or not callable(case) or getattr(case, "__module__", "") != "__main__":
            continue
        print(f"[ RUN      ] {name}", flush=True)
        try:
            case()
            print(f"[       OK ] {name}", flush=True)
        except AssertionError as error:
            print(f"{error}\n[  FAILED  ] {name}", flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
