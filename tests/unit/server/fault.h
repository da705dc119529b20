/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A process that dies by SIGKILL right before or right after its k-th durable step.
 *
 * Steps are what changes files for good: a commit of the store, and every rename, unlink and link that this
 * program's own code makes. They are counted by link-time seams: a test names FAULT_WRAP of its
 * CMakeLists.txt as WRAP. Without a fault in force the seams only pass on. */

#include <stdbool.h>
#include <sys/types.h>

enum fault_side { FAULT_BEFORE, FAULT_AFTER, FAULT_SIDE_N };

struct fault {
	int step; /* from 1; 0: none */
	enum fault_side side;
};

enum { FAULT_REPORT_MAX = 256 };

struct fault_end {
	bool died;		     /* at the step; false: it came to its end before */
	char said[FAULT_REPORT_MAX]; /* what the child said to the world until then, one line per
					fault_report() */
};

/** Run @body in a child with @fault in force from the call of fault_arm() on, and wait for it. The child must
 * make its own threads, descriptors and servers. A child that ends otherwise fails the test. */
struct fault_end fault_run(const struct fault *fault, void (*body)(void *userdata), void *userdata);

/** The same without waiting: a child that serves others. It is the caller's to wait for; @say_fd is where it
 * says things to, -1: nowhere. One at a time. */
pid_t fault_start(const struct fault *fault, int say_fd, void (*body)(void *userdata), void *userdata);

/** Count from here: by the child, or by who has started it. */
void fault_arm(void);

/** No more step is fatal; a death may still be on its way. */
void fault_disarm(void);

/** In the child: something was acknowledged. */
void fault_report(const char *line);
