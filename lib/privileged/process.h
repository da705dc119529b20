/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Puts a process into a known state, for programs that do not trust their parent: resets attributes
 * inherited across execve(2). All return 0 or a negative errno. Source: execve(2). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/** Ends the process in @seconds, even if it is blocked or stopped then; 0: cancels that. For one thread.
 * Source: timer_create(2), with SIGKILL. */
int process_set_deadline(unsigned int seconds);

/** Timers off, signals at their defaults and unblocked, "/" as working directory, umask 022, PER_LINUX, no
 * parent-death signal, scheduling as usual. The session stays.
 *
 * @ignored signals to ignore, ended by 0 */
int process_reset(const int *ignored);

/** 0, 1, 2 become /dev/null, and so does every other below @n that is closed; from @n on all are closed.
 * -ENODEV when /dev/null is something else. */
int process_reset_descriptors(int n);

struct process_limit {
	int resource; /* RLIMIT_* */
	const char *name;
	rlim_t wanted;
	rlim_t least;
};

/** Sets hard and soft limit to the wanted value, or, where that cannot be raised, the soft to the hard one.
 *
 * @ret_hard the hard limit found where it is less than the least: -EPERM */
int process_set_limit(const struct process_limit *limit, rlim_t *ret_hard);

struct process_capabilities {
	uint64_t effective;
	uint64_t permitted;
	uint64_t inheritable;
	uint64_t bounding;
};

/** Reads the process's capability sets from the kernel, as bits. */
int process_capabilities(struct process_capabilities *ret);

/** Are all its uids @uid and all its gids @gid, and is it in no other group? */
bool process_has_ids(uid_t uid, gid_t gid);
