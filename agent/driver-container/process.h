/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The first process of a container, as the kernel shows it. The description of the engine does not count.
 *
 * It is the first process of its PID namespace: when it ends, the kernel has ended every process of the
 * container. Its cgroup or, for podman, a mount of its own has the container's id. Users without privileges
 * can give any name to cgroups below user.slice and to mounts in a user namespace of their own: neither
 * counts. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define PROC "/proc"

/** Is process @pid the first one of container @id, and has it not ended? False: also if that is unknown.
 * @proc PROC, or another folder in tests */
bool process_is_of(const char *proc, int64_t pid, const char *id);

/** The real uid and gid of process @pid, if process_is_of(); else false. */
bool process_user(const char *proc, int64_t pid, const char *id, uint32_t *ret_uid, uint32_t *ret_gid);

/** Finds the first process of container @id among all processes.
 * @ret_pid 0: there is no such process. STATUS_UNAVAILABLE if it is not found, and a process cannot be read
 * whole or @proc hides processes: then nothing is known. */
enum status process_find(const char *proc, const char *id, int64_t *ret_pid, struct error *err);

/** Opens a pidfd. Returns it, or a negative errno; -ESRCH: the process has ended. */
int process_open(int64_t pid);

/** Has the process of the pidfd ended, with all its threads? */
bool process_has_ended(int fd);
