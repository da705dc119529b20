#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./dev test makes of its lanes: a copy of the script, with lanes that only print and wait. Prints as cmocka does."""

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# In the place of what lanes do; $work is where they leave signs of life.
FAKES = """
setup_test() { :; }
need_root() { :; }
unit_lane() { echo "first of $1"; sleep 0.3; echo "second of $1"; echo '5 passed, 0 failed'; }
interop_lane() { echo '4 passed, 1 failed'; return 1; }
fuzz_lane() { echo '3 passed, 0 failed'; return 1; }
packages_lane() { echo 'no sum of mine'; }
integration_lane() { mkdir mounts || return; echo 'one of many'; sleep 0.3; rmdir mounts; echo '7 passed, 0 failed'; }
systemd13_lane() { mkdir mounts || return; sleep 0.3; rmdir mounts; echo '6 passed, 0 failed'; }
helper_lane() { kill -KILL $BASHPID; }
policy_lane() { echo '2 passed, 0 failed'; }
engines_lane() { touch waits; sleep 60; }
vm_lane() { cat vm.says; return 1; }
again() { touch "again.$2"; [ "$2" != test_never ] && echo "$1 ran $2"; }
"""


def script(work, release):
    (Path(work) / "os-release").write_text(f'VERSION_ID="{release}"\n', encoding="ascii")
    text = (ROOT / "dev").read_text(encoding="utf-8").replace("/etc/os-release", "os-release")
    text, places = re.subn(r'(?m)^cd "\$\(dirname .*$', "", text)
    text, ends = re.subn(r'(?m)^main "\$@"$', lambda _: FAKES + 'main "$@"', text)
    assert places == ends == 1, "this check knows another ./dev"
    path = Path(work) / "dev"
    path.write_text(text, encoding="utf-8")
    return str(path)


def start(work, *lanes, release=12):
    return subprocess.Popen(["bash", script(work, release), "test", *lanes], cwd=work, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip


def test(*lanes, release=12):
    """Output and exit status."""
    with tempfile.TemporaryDirectory() as work:
        process = start(work, *lanes, release=release)
        return process.communicate(timeout=60)[0], process.returncode


def the_last_line_is_the_sum_of_both_groups():
    said, status = test("unit", "integration", "policy")
    assert said.splitlines()[-1] == "14 passed, 0 failed" and status == 0, said


def a_lane_that_fails_hides_no_other():
    said, status = test("interop", "unit", "integration", "policy")
    assert said.splitlines()[-1] == "18 passed, 1 failed" and status == 1, said


def a_lane_that_fails_reports_it_whatever_it_counted():
    said, status = test("fuzz", "policy")
    assert said.splitlines()[-1] == "5 passed, 1 failed" and status == 1, said


def a_lane_without_a_sum_and_one_that_is_killed_are_failures():
    said, status = test("packages", "helper", "policy")
    assert said.splitlines()[-1] == "2 passed, 2 failed" and status == 1, said
    assert "lane packages did not finish (exit 0)" in said and "lane helper did not finish (exit 137)" in said, said


def what_a_lane_says_is_in_one_piece():
    said, _ = test("unit", "asan", "integration", "policy")
    assert "first of dev\nsecond of dev\n5 passed, 0 failed\n" in said, said
    assert "one of many\n7 passed, 0 failed\n" in said, said


def vm(says, *options):
    """Output and exit status of a lane that ends with these lines, and what of it ran again."""
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "vm.says").write_text("\n".join(says) + "\n", encoding="ascii")
        process = start(work, *options, "vm")
        said = process.communicate(timeout=60)[0]
        return said, process.returncode, sorted(path.name for path in Path(work).glob("again.*"))


def what_failed_runs_again_only_when_asked_for():
    said, status, again = vm(["FAILED test_b: case", "9 passed, 1 failed"])
    assert said.splitlines()[-1] == "9 passed, 1 failed" and status == 1 and not again, said
    assert "\n             FAILED test_b: case\n" in said.split("9 passed, 1 failed")[1], said


def what_passes_alone_is_named_unsteady():
    said, status, again = vm(["FAILED test_b: case", "FAILED test_b: other", "FAILED test_c (2 s)", "9 passed, 3 failed"], "--rerun")
    assert said.splitlines()[-1] == "12 passed, 0 failed" and status == 0, said
    assert "UNSTEADY test_b\n" in said and again == ["again.test_b", "again.test_c"], said


def what_fails_alone_too_is_a_failure():
    said, status, _ = vm(["FAILED test_b: case", "FAILED test_never: case", "9 passed, 2 failed"], "--rerun")
    assert said.splitlines()[-1] == "9 passed, 2 failed" and status == 1 and "UNSTEADY" not in said, said


def four_that_fail_do_not_run_again():
    said, status, again = vm([f"FAILED test_{n}" for n in "abcd"] + ["9 passed, 4 failed"], "--rerun")
    assert said.splitlines()[-1] == "9 passed, 4 failed" and status == 1 and not again, said


def a_crash_does_not_run_again():
    for line in ("==7==ERROR: AddressSanitizer: heap-use-after-free", "x.c:3:5: runtime error: signed integer overflow",
                 "[  ERROR   ] --- Test failed with exception: Segmentation fault(11)",
                 " 7/9 Test  #7: test_b ...***Exception: SegFault  0.1 sec", "FAILED test_c (SEGFAULT)",
                 "server ended by signal 6, core dumped"):  # fmt: skip
        said, status, again = vm([line, "FAILED test_b", "9 passed, 1 failed"], "--rerun")
        assert said.splitlines()[-1] == "9 passed, 1 failed" and status == 1 and not again, said


def a_failure_without_a_name_does_not_run_again():
    for says in (["9 passed, 1 failed"], ["9 passed, 0 failed"], ["no sum"]):
        said, status, again = vm(says, "--rerun")
        assert said.splitlines()[-1].endswith(", 1 failed") and status == 1 and not again, said


def start_and_interrupt():
    """What was said, and whether both groups had begun when the second one was waiting."""
    with tempfile.TemporaryDirectory() as work:
        process, deadline = start(work, "unit", "engines"), time.monotonic() + 30
        has_begun = [Path(work) / "waits", Path(work) / "build/lanes/unit.log"]
        while not all(path.exists() for path in has_begun) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[0]  # ends when nothing holds its output any more
        return said, process.returncode, all(path.exists() for path in has_begun)


def lanes_of_two_groups_run_side_by_side():
    _, _, both = start_and_interrupt()
    assert both, "the one waits for the end of the other"


def what_must_not_run_beside_another_waits_for_it():
    said, status = test("systemd13", "integration")
    assert said.splitlines()[-1] == "13 passed, 0 failed" and status == 0, said


def debian_13_has_no_lanes_for_debian_13():
    said, status = test("systemd13", release=13)
    assert "there is no lane systemd13" in said and status == 1, said


def an_interrupt_ends_both_groups():
    said, status, _ = start_and_interrupt()
    assert status == 130 and "passed" not in said.replace("5 passed, 0 failed", ""), said


def main():
    failed = False
    for check in (the_last_line_is_the_sum_of_both_groups, a_lane_that_fails_hides_no_other,
                  a_lane_that_fails_reports_it_whatever_it_counted, a_lane_without_a_sum_and_one_that_is_killed_are_failures,
                  what_a_lane_says_is_in_one_piece, lanes_of_two_groups_run_side_by_side,
                  what_must_not_run_beside_another_waits_for_it, debian_13_has_no_lanes_for_debian_13,
                  an_interrupt_ends_both_groups, what_failed_runs_again_only_when_asked_for,
                  what_passes_alone_is_named_unsteady, what_fails_alone_too_is_a_failure,
                  four_that_fail_do_not_run_again, a_crash_does_not_run_again,
                  a_failure_without_a_name_does_not_run_again):  # fmt: skip
        try:
            check()
            print(f"[       OK ] {check.__name__}")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed = True
            print(f"{error}\n[  FAILED  ] {check.__name__}")
    sys.exit(failed)


main()
