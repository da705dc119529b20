/* SPDX-License-Identifier: Apache-2.0 */
/* Runs programs and reads their output, with a deadline. */
#include "operator/program.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP_MS = 10 }; /* between two looks at a program that has closed its output */

pid_t program_start(const char *const *argv, int in, int out, int err)
{
	const int fds[] = {in, out, err};
	pid_t pid = fork();

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR | O_CLOEXEC), i) < 0)
			_exit(127);
	(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

static int result(int state)
{
	return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? 0 : -EPIPE;
}

int program_wait(pid_t pid)
{
	int state;

	while (waitpid(pid, &state, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return result(state);
}

static int left_ms(uint64_t deadline)
{
	uint64_t now = clock_monotonic_us();

	return now < deadline ? (int)((deadline - now + 999) / 1000) : 0;
}

/* Returns 0 at the end of the output or when @text is full. */
static int read_until(int fd, uint64_t deadline, char *text, size_t max, size_t *n)
{
	while (*n < max) {
		struct pollfd pollfd = {.fd = fd, .events = POLLIN};
		int left = left_ms(deadline);
		ssize_t got;

		if (left == 0)
			return -ETIMEDOUT;
		if (poll(&pollfd, 1, left) <= 0)
			continue;
		got = read(fd, text + *n, max - *n);
		if (got == 0)
			return 0;
		if (got < 0)
			return -errno;
		*n += (size_t)got;
	}
	return 0;
}

static int wait_until(pid_t pid, uint64_t deadline)
{
	for (;;) {
		int state;
		pid_t done = waitpid(pid, &state, WNOHANG);

		if (done == pid)
			return result(state);
		if (done < 0)
			return -errno;
		if (left_ms(deadline) == 0)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, STEP_MS);
	}
}

int program_read(const char *const *argv, uint64_t timeout_us, char *text, size_t max, size_t *ret_n)
{
	uint64_t deadline = clock_monotonic_us() + timeout_us;
	int ends[2];
	pid_t pid;
	int r;

	*ret_n = 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = program_start(argv, -1, ends[1], -1);
	(void)close(ends[1]);
	if (pid > 0)
		(void)setpgid(pid, pid); /* also here: the group exists before it can be killed */
	r = pid < 0 ? pid : read_until(ends[0], deadline, text, max, ret_n);
	(void)close(ends[0]);
	if (pid < 0)
		return r;
	if (r == 0)
		r = wait_until(pid, deadline);
	if (r < 0 && r != -EPIPE) {
		(void)kill(-pid, SIGKILL);
		(void)waitpid(pid, NULL, WNOHANG); /* one that stays in the kernel is left behind */
	}
	return r;
}
