/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The kernel's own account of processes, from a private instance of procfs: another program may have
 * mounted something else at /proc. */

#include "base/uuid.h"

#include <stdbool.h>

/** Makes an instance, attached nowhere. Returns a descriptor of its root, or a negative errno. Needs
 * CAP_SYS_ADMIN. */
int procfs_make(void);

/** Is this process in the initial user and pid namespaces of the machine? */
bool procfs_is_initial(int proc_fd);

/** Reads the id of this boot. Returns 0 or a negative errno; -EBADMSG when it is no UUID. */
int procfs_boot_id(int proc_fd, char ret[static UUID_SIZE]);
