/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A container's first process, as the kernel has it. */

#include "readback.h"

enum readback_verdict {
	READBACK_SAME,
	READBACK_ENDED, /* it has ended: nothing is known of it */
	READBACK_DIFFERS,
};

struct readback_process {
	int64_t pid;
	const char *id;		    /* of the container */
	int64_t holder_pid;	    /* of the container whose network it joins; 0: no such container */
	const char *mountinfo_path; /* of the host */
	struct readback_users users;
};

enum readback_verdict readback_process(struct readback *readback, const struct readback_process *process,
				       struct readback_fault *ret);
