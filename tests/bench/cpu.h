/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a process has used of the processors, so that what an operation costs can be told apart from what else
 * the machine does. */

#include <sys/types.h>

struct cpu {
	double main_us;	  /* of the thread the process began with */
	double others_us; /* of all its other threads that live */
};

/** From /proc/PID/task; all zero for a process that cannot be seen. */
struct cpu cpu_used(pid_t pid);
