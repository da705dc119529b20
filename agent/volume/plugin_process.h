/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Finds the process of a CSI plugin, and the processes that it leaves behind when it dies, as /proc shows
 * them to every user. A child that does the mounting outlives a killed plugin: only the child's own end
 * proves that it no longer mounts. Source: proc(5), credentials(7). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	PROCESS_NAME_SIZE = 32,
	PROCESS_ARGUMENTS_SIZE = 4096, /* as much is kept of what a command line names */
	PROCESS_LOOK_MS = 2000,	       /* as long the caller waits */
	PROCESS_LOOKS_MAX = 4,	       /* that wait for a process, each on a thread of its own */
};

struct plugin_process {
	pid_t pid; /* 0: not known */
	pid_t session;
	uint64_t since; /* as of plugin_process_now() */
};

/** Units of the kernel's start times, since the boot. */
uint64_t plugin_process_now(void);

/** Returns the process that has this pid now. Not known: it does not exist, cannot be seen, or is the service
 * manager, which listens for others. */
struct plugin_process plugin_process_find(pid_t pid);

/** Does it run still? False for one that is not known. */
bool plugin_process_is_alive(const struct plugin_process *process);

/* Processes that began in some time, and may be at work for a plugin that was called then. */
struct plugin_children {
	size_t n_naming;    /* that name the folder among their arguments, or may; started by any process */
	size_t n_session;   /* others, of the plugin's session */
	bool is_partial;    /* /proc hides processes from the caller, which may be such ones */
	bool is_unfinished; /* nothing else is known: @pid does not answer; 0: no memory or thread to ask */
	pid_t pid;	    /* one of them; of those that name it, if there are any */
	char name[PROCESS_NAME_SIZE];
	char arguments[PROCESS_ARGUMENTS_SIZE]; /* of one that names it, from the name on: each ends with 0 */
	size_t n_arguments;			/* bytes; the size of the array: there may be more */
};

/** Looks through /proc once. A process that does not answer is waited for once, and by one thread.
 * @plugin itself does not count
 * @from, @to of the time in which they began, both included */
void plugin_process_children(const struct plugin_process *plugin, uint64_t from, uint64_t to,
			     const char *folder, struct plugin_children *ret);
