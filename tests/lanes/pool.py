# SPDX-License-Identifier: Apache-2.0
"""One pool of jobs for all lanes: at most so many at once, the longest first, each with its log, its result and its costs."""

import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

BOX = Path(__file__).resolve().with_name("box")
END_SECONDS = 30  # between SIGTERM and SIGKILL: a world removes what it made


@dataclass
class Job:
    """A program of a lane. Its log counts cases as cmocka prints them, or ends with `N passed, N failed`."""

    lane: str
    name: str
    command: list
    needs: tuple = ()  # keys of jobs that must have passed before
    limit: float = 600.0  # seconds after which it hangs
    slots: int = 1  # of the pool
    place: str = "shared"  # "shared": the box of all such jobs, "own": a box of its own, "host": none
    env: dict = field(default_factory=dict)
    folder: str = "."
    expects: str = ""  # a pattern that the output must match, instead of exit status 0
    counts: bool = True  # a build counts only if it fails
    then: object = None  # instead of @command: returns the jobs that are known only when @needs have passed


    @property
    def key(self):
        """What @needs of other jobs name; a program may be in several lanes."""
        return self.name if self.lane == "build" else f"{self.lane}/{self.name}"


@dataclass
class Result:
    job: Job
    log: Path
    passed: int = 0
    failed: tuple = ()  # names of cases, or what became of the program
    wall: float = 0.0
    cpu: float = 0.0


def tally(text, status, job):
    """Counts the cases in @text: (number passed, names of failed ones). A program that fails without naming a case is one."""
    sums = re.findall(r"^(\d+) passed, (\d+) failed", text, re.M)
    if sums:
        passed, n_failed = int(sums[-1][0]), int(sums[-1][1])
        failed = sorted(set(re.findall(r"^FAILED +(\S+?):?(?:\s|$)", text, re.M)))[:n_failed]
        failed += ["unnamed"] * (n_failed - len(failed))
    else:
        passed = len(re.findall(r"^\[ +OK +\]", text, re.M))
        failed = sorted(set(re.findall(r"^\[ +(?:FAILED|ERROR) +\] (\w+)$", text, re.M)))
        passed = passed or int(status == 0)
    if status != 0 and not failed:
        failed = [ended(status)]
    if job.expects and failed and re.search(job.expects, text, re.M):
        return max(passed, 1), ()
    return passed, tuple(failed)


def ended(status):
    return f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"


class SharedBox:
    """A box that programs enter one by one. It ends with this process."""

    def __init__(self):
        self.process = None

    def enter(self):
        """Returns the words before a command that run it there."""
        if not self.process:
            self.process = subprocess.Popen([BOX, "sh", "-c", "echo made; exec sleep infinity"], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
            if self.process.stdout.readline() != "made\n":
                raise SystemExit("lanes: cannot make a box: see the lines above")
        pid = self.process.pid
        init = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0]
        return ["nsenter", "--target", init, "--mount", "--pid", "--net", "--ipc", "--uts"]

    def close(self):
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Pool:
    """Runs jobs, in the order of @cost(job). @report is called with each Result, one at a time, as soon as it is known."""

    def __init__(self, n_slots, logs, report, cost=lambda job: 0):
        self.free, self.n_slots, self.logs, self.report, self.cost = n_slots, n_slots, Path(logs), report, cost
        self.change = threading.Condition()
        self.running = {}  # pid: job
        self.results = {}  # key of the job: result
        self.is_ending = False
        self.box = SharedBox()

    def run(self, jobs):
        """Returns the results of all jobs, also of those that could not start because what they need failed."""
        waiting, threads = [], []
        self.add(waiting, jobs)
        with self.change:
            while waiting and not self.is_ending:
                n_results = len(self.results)
                job = self.take(waiting)
                if not job:
                    if len(self.results) == n_results:
                        assert self.free < self.n_slots, f"nothing runs, and these wait: {[one.name for one in waiting]}"
                        self.change.wait()
                    continue
                self.free -= min(job.slots, self.n_slots)
                threads.append(threading.Thread(target=self.run_one, args=(job, self.words(job))))
                threads[-1].start()
        for thread in threads:
            thread.join()
        self.box.close()
        return list(self.results.values())

    def add(self, waiting, jobs):
        waiting.extend(jobs)
        waiting.sort(key=self.cost, reverse=True)

    def take(self, waiting):
        """Takes the first job that can start out of @waiting. Jobs whose needs failed get their results here."""
        for job in list(waiting):
            needs = [self.results.get(name) for name in job.needs]
            if any(result and result.failed for result in needs):
                waiting.remove(job)
                self.finish(Result(job, self.log_of(job), failed=("not started: its build failed",)))
            elif all(needs) and job.then:
                waiting.remove(job)
                self.expand(job, waiting)
                return self.take(waiting)
            elif all(needs) and min(job.slots, self.n_slots) <= self.free:
                waiting.remove(job)
                return job
        return None

    def expand(self, job, waiting):
        """Puts the jobs of @job.then into its place."""
        result = Result(job, self.log_of(job))
        try:
            self.add(waiting, list(job.then()))
        except Exception as error:  # whatever it is, the run goes on and counts it
            result.failed = (f"cannot list its jobs: {error}",)
        self.finish(result)

    def words(self, job):
        where = {"host": [], "own": [str(BOX)], "shared": self.box.enter() if job.place == "shared" else []}[job.place]
        return [*where, "env", f"--chdir={job.folder}", *(f"{key}={value}" for key, value in job.env.items()), *job.command]

    def log_of(self, job):
        path = self.logs / job.lane / f"{job.name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run_one(self, job, words):
        result = Result(job, self.log_of(job))
        since = time.monotonic()
        with open(result.log, "wb") as log:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            with self.change:
                self.running[process.pid] = job
                if self.is_ending:
                    kill_group(process.pid, signal.SIGTERM)
            limit = threading.Timer(job.limit, kill_group, (process.pid, signal.SIGKILL))
            limit.start()
            _, status, usage = os.wait4(process.pid, 0)
            limit.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        result.wall, result.cpu = time.monotonic() - since, usage.ru_utime + usage.ru_stime
        text = result.log.read_text(encoding="utf-8", errors="replace")
        result.passed, result.failed = tally(text, process.returncode, job)
        if result.wall >= job.limit:
            result.failed = (f"ended after {job.limit:.0f} s", *result.failed)
        with self.change:
            del self.running[process.pid]
            self.free += min(job.slots, self.n_slots)
            self.finish(result)

    def finish(self, result):
        if not result.job.counts:
            result.passed = 0
        self.results[result.job.key] = result
        self.report(result)
        self.change.notify()

    def end(self):
        """Ends all that runs and starts nothing more. Safe in a signal handler's thread."""
        with self.change:
            self.is_ending = True
            for pid in self.running:
                kill_group(pid, signal.SIGTERM)
                timer = threading.Timer(END_SECONDS, kill_group, (pid, signal.SIGKILL))
                timer.daemon = True
                timer.start()
            self.change.notify()


def kill_group(pid, number):
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass
