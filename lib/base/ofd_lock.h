/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Locks of byte ranges of an open file: they belong to the open file, so the kernel drops them with the last
 * descriptor of it, or with the process. Source: fcntl(2), open file description locks. */

#include <stdbool.h>
#include <stdint.h>

/** Lock @n bytes (0: all) from @start for writing. Returns 0, -EAGAIN when another open file holds some of
 * them and @wait is false, or another negative errno. */
int ofd_lock(int fd, int64_t start, int64_t n, bool wait);

/** Unlock @n bytes (0: all) from @start. */
void ofd_unlock(int fd, int64_t start, int64_t n);
