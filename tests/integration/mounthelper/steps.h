/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Stops a helper before and after each of its system calls, by ptrace(2), so that a test acts at every place
 * between two calls and needs no luck. Another process traces: visits run in it, as root, and share memory
 * with the test only if it was mapped as shared. */

#include "harness.h"

/* STEPS_STOPPED: a stop signal took effect. */
enum steps_side { STEPS_BEFORE, STEPS_AFTER, STEPS_STOPPED };

struct stop {
	pid_t pid;
	uint32_t number; /* of the call; 0 is the execve(2) or the first one after attaching */
	enum steps_side side;
	uint64_t call; /* SYS_* */
	uint64_t args[6];
};

/** Called at each stop. Returns false to leave the process as it is, untraced. */
typedef bool steps_visit(const struct stop *stop, void *userdata);

/** Map zeroed memory that the tracer and the test share. */
void *steps_share(size_t n);

/** Trace the next helper that agent_start() starts with steps_at_exec() as before_exec, from the return of
 * its execve(2). Returns the tracer. */
pid_t steps_of_start(steps_visit *visit, void *userdata);
void steps_at_exec(void);

/** Trace the running process @pid. Returns the tracer when it has attached. */
pid_t steps_attach(pid_t pid, steps_visit *visit, void *userdata);

/** Wait until @tracer has left its process, or that process has ended. */
void steps_wait(pid_t tracer);

/** In a visit: read or write a word of the memory of the stopped process. */
uint64_t steps_peek(const struct stop *stop, uint64_t at);
void steps_poke(const struct stop *stop, uint64_t at, uint64_t value);
