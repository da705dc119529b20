/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/watch.h"

#include "base/clock.h"
#include "hold/holder.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEATHS_MAX = 5 };

/* So many deaths within this time are too many. */
#define DEATHS_US (60 * USEC_PER_SEC)

struct watch {
	sigset_t signals;
	pid_t child;
	bool is_ending; /* SIGTERM was handed on */
	unsigned int deaths;
	uint64_t first_death_us;
};

/* Returns in the child. In the parent, what fails is told and ends it. */
static bool start_child(struct watch *watch)
{
	pid_t parent = getpid();

	watch->child = fork();
	if (watch->child < 0) {
		holder_say("holdfast: volume hold: start a process: %s", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (watch->child > 0)
		return false;
	/* alone it would hold the volume behind the back of whoever looks at the unit */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	return true;
}

static bool is_too_often(struct watch *watch)
{
	uint64_t now_us = clock_monotonic_us();

	if (watch->deaths == 0 || now_us - watch->first_death_us > DEATHS_US) {
		watch->deaths = 0;
		watch->first_death_us = now_us;
	}
	return ++watch->deaths > DEATHS_MAX;
}

/* Returns true in a child that was started again. */
static bool on_child(struct watch *watch)
{
	int status;

	if (waitpid(watch->child, &status, WNOHANG) <= 0)
		return false;
	if (WIFEXITED(status))
		exit(WEXITSTATUS(status));
	if (!WIFSIGNALED(status))
		return false;
	if (is_too_often(watch)) {
		holder_say("holdfast: volume hold: its process was killed %d times within a minute, the last "
			   "time by signal %d",
			   DEATHS_MAX + 1, WTERMSIG(status));
		exit(EXIT_FAILURE);
	}
	holder_say("its process was killed by signal %d; started again, the volume stays", WTERMSIG(status));
	if (start_child(watch))
		return true;
	if (watch->is_ending)
		(void)kill(watch->child, SIGTERM);
	return false;
}

void hold_watch(void)
{
	struct watch watch = {.child = 0};

	(void)sigemptyset(&watch.signals);
	(void)sigaddset(&watch.signals, SIGTERM);
	(void)sigaddset(&watch.signals, SIGINT);
	(void)sigaddset(&watch.signals, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &watch.signals, NULL);
	if (start_child(&watch))
		return;
	for (;;) {
		int sig = sigwaitinfo(&watch.signals, NULL);

		if (sig == SIGCHLD) {
			if (on_child(&watch))
				return;
		} else if (sig > 0) {
			watch.is_ending = true;
			(void)kill(watch.child, SIGTERM);
		}
	}
}
