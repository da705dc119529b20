# SPDX-License-Identifier: Apache-2.0
"""Commands in tasks as people run them: much input, slow readers, terminals, many at once."""

import fcntl
import hashlib
import os
import pty
import signal
import struct
import subprocess
import termios
import time

from world import PREFIX, wait_for

PEAK_MAX = 48 << 20  # that a process may need more than before, whatever passes it
MANY = 32  # TASK_STREAMS_PER_NODE_MAX: the share of one caller


def peak(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


class Execs:
    """Cases for Flow."""

    def words(self, alloc, *options, command=()):
        return [f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "alloc", "exec", alloc, *options, "--", *command]

    def passing_by(self):
        """Pids of all that bytes of a command pass."""
        return {"server": self.room.server.process.pid, "agent": self.node.daemon.process.pid,
                "driver": self.engine.processes["driver"].pid}  # fmt: skip

    def peaks_stay(self, work):
        """Does it, and says how far memory went up meanwhile."""
        before = {}
        for name, pid in self.passing_by().items():
            forget_peak(pid)
            before[name] = peak(pid)
        work()
        more = {name: peak(pid) - before[name] for name, pid in self.passing_by().items()}
        assert max(more.values()) <= PEAK_MAX, more
        return more

    def one_task(self):
        alloc = self.run()
        self.until_running(alloc)
        return alloc

    def done_with(self, alloc):
        self.clear(alloc)
        self.stop(alloc)

    def a_hundred_megabytes_pass_a_command_unchanged_and_no_process_grows(self):
        alloc = self.one_task()
        given = os.urandom(1 << 20) * 100

        def pass_it():
            done = subprocess.run(self.words(alloc, "-i", command=["/bin/cat"]), input=given, capture_output=True, timeout=300,
                                  check=False)  # fmt: skip
            assert done.returncode == 0, (done.returncode, done.stderr[-500:])
            assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(given).digest(), len(done.stdout)

        self.peaks_stay(pass_it)
        self.done_with(alloc)

    def a_command_that_writes_to_both_outputs_in_turn_mixes_nothing(self):
        alloc = self.one_task()
        script = "i=0; while [ $i -lt 3000 ]; do echo out $i; echo error $i >&2; i=$((i + 1)); done"
        done = self.exec(alloc, script)
        for kind, found in (("out", done.stdout), ("error", done.stderr)):
            assert found == "".join(f"{kind} {i}\n" for i in range(3000)).encode(), (kind, len(found), found[:200])
        self.done_with(alloc)

    def a_slow_reader_makes_the_command_wait_and_misses_nothing(self):
        alloc = self.one_task()
        size = 150 << 20

        def read_slowly():
            words = self.words(alloc, command=["/bin/sh", "-c", f"head -c {size} /dev/zero; echo x > /data/all"])
            with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as reader:
                got = len(reader.stdout.read(1 << 20))
                time.sleep(3)  # nothing is read, and everything on the way fills
                assert not os.path.exists(f"{self.node.published(alloc)}/all")
                while piece := reader.stdout.read(1 << 20):
                    got += len(piece)
            assert (got, reader.returncode) == (size, 0), (got, reader.returncode)

        self.peaks_stay(read_slowly)
        os.unlink(f"{self.node.published(alloc)}/all")
        self.done_with(alloc)

    def a_client_that_vanishes_ends_the_input_of_its_command(self):
        alloc = self.one_task()
        at = self.node.published(alloc)
        words = self.words(alloc, "-i", command=["/bin/sh", "-c", "echo x > /data/begun; cat > /dev/null; echo x > /data/over"])
        with subprocess.Popen(words, stdin=subprocess.PIPE) as client:
            client.stdin.write(b"something\n")
            client.stdin.flush()
            wait_for("the command to begin", lambda: os.path.exists(f"{at}/begun"))
            client.kill()
        wait_for("the command to see the end of its input", lambda: os.path.exists(f"{at}/over"))
        wait_for("the record of it", lambda: "cut off" in self.room.holdfast("operator", "audit", "--json").stdout)
        for name in ("begun", "over"):
            os.unlink(f"{at}/{name}")
        self.done_with(alloc)

    def a_terminal_has_its_size_and_follows_it_and_takes_ctrl_c(self):
        alloc = self.one_task()
        words = self.words(alloc, "-it", command=["/bin/sh", "-c", "trap 'exit 4' INT; while :; do stty size; sleep 0.1; done"])
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(words[0], words)
        said = b""

        def hear(what):
            nonlocal said
            end = time.monotonic() + 30
            os.set_blocking(terminal, False)
            while what not in said and time.monotonic() < end:
                try:
                    said += os.read(terminal, 4096)
                except BlockingIOError:
                    time.sleep(0.05)
                except OSError:  # it has ended
                    break
            assert what in said, said

        def set_size(rows, columns):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

        set_size(33, 99)
        hear(b"33 99")  # it comes after the command has begun, and goes another way than what is typed
        set_size(44, 111)
        hear(b"44 111")
        os.write(terminal, b"\x03")
        hear(b"status 4")
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        assert os.waitstatus_to_exitcode(status) == 4, (status, said)
        self.done_with(alloc)

    def a_hangup_of_the_terminal_leaves_it_as_it_was(self):
        alloc, work = self.one_task(), self.engine.work
        pid, terminal = pty.fork()
        if pid == 0:
            words = self.words(alloc, "-it", command=["/bin/sh"])
            os.execv("/bin/sh", ["sh", "-c", f'stty -a > {work}/before; "$@"; stty -a > {work}/after', "sh", *words])
        time.sleep(2)
        os.write(terminal, b"\x10\x11")  # ctrl-p ctrl-q
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        assert os.waitstatus_to_exitcode(status) == 0, status
        before, after = ((work / name).read_text(encoding="ascii") for name in ("before", "after"))
        assert before == after, (before, after)
        self.done_with(alloc)

    def what_dies_during_a_command_ends_it_for_its_caller_and_not_the_task(self):
        alloc = self.one_task()
        before, at = self.containers(), self.node.published(alloc)
        for name, kill, start in (
                ("agent", lambda: self.node.daemon.kill(signal.SIGKILL), self.node.start),
                ("driver", self.engine.kill_driver, self.start_driver),
                ("server", lambda: self.room.server.kill(signal.SIGKILL), self.room.start_server)):  # fmt: skip
            words = self.words(alloc, "-i", command=["/bin/sh", "-c", "echo x > /data/begun; cat"])
            logs = [f"{PREFIX}/bin/holdfast", "--dev-dir", f"{PREFIX}/var/server", "alloc", "logs", alloc, "--follow"]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as client, \
                    subprocess.Popen(logs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as reader:
                wait_for("the command to begin", lambda: os.path.exists(f"{at}/begun"))
                os.unlink(f"{at}/begun")
                kill()
                for one in (client, reader):
                    assert one.wait(60) != 0 and one.stderr.read(), (name, one.args)
            start()
            self.node.wait_connected()
            wait_for("a command to run again", lambda: self.exec(alloc, "exit 0").returncode == 0)
            self.until_running(alloc)
            assert (self.containers(), self.starts(alloc)) == (before, 1), name
        self.done_with(alloc)

    def a_crowd_of_commands_at_once_stays_within_memory_and_mixes_nothing(self):
        alloc = self.one_task()

        def all_at_once():
            words = self.words(alloc, "-i", command=["/bin/sh", "-c", "cat; echo over"])
            clients = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(MANY)]
            try:
                for n, client in enumerate(clients):
                    out, err = client.communicate(f"{n}\n".encode() * 1000, timeout=180)
                    assert (client.returncode, out) == (0, f"{n}\n".encode() * 1000 + b"over\n"), (n, client.returncode, out[-60:], err)
            finally:
                for client in clients:
                    if client.poll() is None:
                        client.send_signal(signal.SIGKILL)
                        client.wait()

        self.peaks_stay(all_at_once)
        self.done_with(alloc)
