/* SPDX-License-Identifier: Apache-2.0 */
/* Traces one helper, call by call. */
#include "steps.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { SYSCALL_STOP = SIGTRAP | 0x80, OPTIONS = PTRACE_O_TRACESYSGOOD };

/* From the process that becomes the helper: its pid; to it: that it is traced. */
static int pid_pipe[2] = {-1, -1};
static int go_pipe[2] = {-1, -1};

void *steps_share(size_t n)
{
	void *memory = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

uint64_t steps_peek(const struct stop *stop, uint64_t at)
{
	return (uint64_t)ptrace(PTRACE_PEEKDATA, stop->pid, at, NULL);
}

void steps_poke(const struct stop *stop, uint64_t at, uint64_t value)
{
	if (ptrace(PTRACE_POKEDATA, stop->pid, at, value) < 0)
		_exit(1);
}

/* The call that the process has stopped at. False: not at one. */
static bool look(struct stop *stop)
{
	struct __ptrace_syscall_info info = {.op = PTRACE_SYSCALL_INFO_NONE};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, stop->pid, sizeof(info), &info) <= 0)
		return false;
	stop->side = info.op == PTRACE_SYSCALL_INFO_ENTRY ? STEPS_BEFORE : STEPS_AFTER;
	if (stop->side == STEPS_BEFORE) {
		stop->call = info.entry.nr;
		memcpy(stop->args, info.entry.args, sizeof(stop->args));
	}
	return true;
}

/* Both on one processor: a stop then costs two switches, and no processor has to be woken. */
static void share_a_processor(pid_t pid)
{
	const int here = sched_getcpu();
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(here < 0 ? 0U : (unsigned int)here, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
	(void)sched_setaffinity(pid, sizeof(one), &one);
}

/* Is this a stop to visit? */
static bool is_place(struct stop *stop, int status)
{
	if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGSTOP) {
		stop->side = STEPS_STOPPED;
		return true;
	}
	return status >> 16 == 0 && WSTOPSIG(status) == SYSCALL_STOP && look(stop);
}

/* Until the process ends, or a visit leaves it. What comes before an awaited execve(2) is the harness's. */
static _Noreturn void trace(struct stop stop, bool awaits_exec, steps_visit *visit, void *userdata)
{
	int status;

	share_a_processor(stop.pid);
	while (waitpid(stop.pid, &status, __WALL) == stop.pid && WIFSTOPPED(status)) {
		const bool is_signal = status >> 16 == 0 && WSTOPSIG(status) != SYSCALL_STOP;
		bool is_visited = is_place(&stop, status);

		if (is_visited && awaits_exec) {
			awaits_exec = stop.side != STEPS_AFTER || stop.call != SYS_execve;
			is_visited = !awaits_exec;
		}
		if (is_visited && !visit(&stop, userdata)) {
			(void)ptrace(PTRACE_DETACH, stop.pid, NULL, NULL);
			_exit(0);
		}
		stop.number += is_visited && stop.side == STEPS_AFTER;
		(void)ptrace(PTRACE_SYSCALL, stop.pid, NULL, is_signal ? WSTOPSIG(status) : 0);
	}
	_exit(0);
}

pid_t steps_of_start(steps_visit *visit, void *userdata)
{
	struct stop stop = {.number = 0};
	pid_t tracer;

	if (pid_pipe[0] < 0) {
		assert_int_equal(pipe2(pid_pipe, O_CLOEXEC), 0);
		assert_int_equal(pipe2(go_pipe, O_CLOEXEC), 0);
	}
	tracer = fork();
	if (tracer == 0) {
		if (read(pid_pipe[0], &stop.pid, sizeof(stop.pid)) != sizeof(stop.pid) ||
		    ptrace(PTRACE_SEIZE, stop.pid, NULL, OPTIONS) < 0 ||
		    ptrace(PTRACE_INTERRUPT, stop.pid, NULL, NULL) < 0 || write(go_pipe[1], "", 1) != 1)
			_exit(1);
		trace(stop, true, visit, userdata);
	}
	return tracer;
}

void steps_at_exec(void)
{
	const pid_t pid = getpid();
	char go;

	if (write(pid_pipe[1], &pid, sizeof(pid)) != sizeof(pid) || read(go_pipe[0], &go, 1) != 1)
		_exit(119);
}

pid_t steps_attach(pid_t pid, steps_visit *visit, void *userdata)
{
	int ready[2];
	char is_ready = 0;
	pid_t tracer;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	tracer = fork();
	if (tracer == 0) {
		if (ptrace(PTRACE_SEIZE, pid, NULL, OPTIONS) < 0 ||
		    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || write(ready[1], "y", 1) != 1)
			_exit(1);
		trace((struct stop){.pid = pid}, false, visit, userdata);
	}
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &is_ready, 1), 1);
	(void)close(ready[0]);
	return tracer;
}

void steps_wait(pid_t tracer)
{
	int status = -1;

	assert_int_equal(waitpid(tracer, &status, 0), tracer);
	assert_int_equal(status, 0);
}
