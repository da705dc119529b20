/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Does a call ask for a pass phrase? OpenSSL does on its own, and a daemon would wait for the answer. */

#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/** Runs @call(@arg) in a process without a terminal, whose standard input has ended. */
static inline bool asks_for_a_pass_phrase(void (*call)(const char *), const char *arg)
{
	char text[4096];
	size_t n = 0;
	ssize_t got;
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)setsid();
		(void)dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
		(void)dup2(fds[1], STDERR_FILENO);
		call(arg);
		_exit(0);
	}
	(void)close(fds[1]);
	while ((got = read(fds[0], text + n, sizeof(text) - n)) > 0)
		n += (size_t)got;
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return memmem(text, n, "pass phrase", strlen("pass phrase"));
}
