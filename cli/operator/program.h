/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Programs whose output the CLI reads. One that hangs, even in the kernel, delays the caller only to its
 * deadline.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Starts @argv in a process group of its own, which dies with the caller. -1 for a descriptor: /dev/null.
 * Returns the process, or a negative errno. */
pid_t program_start(const char *const *argv, int in, int out, int err);

/** Waits for a process without a deadline. Returns 0 if it succeeded, or a negative errno. */
int program_wait(pid_t pid);

/** Reads at most @max bytes of the output of @argv into @text. After @timeout_us it kills the process group,
 * and does not wait for it: a process in the kernel may never end.
 * Returns 0, -ETIMEDOUT, -EPIPE if the program failed, or another negative errno. */
int program_read(const char *const *argv, uint64_t timeout_us, char *text, size_t max, size_t *ret_n);
