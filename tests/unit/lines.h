/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a test logs. */

#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Lines of the log, between the two calls. */
struct lines {
	int log_fd, stderr_fd;
	char text[1 << 18];
};

static inline void lines_begin(struct lines *lines)
{
	lines->log_fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	lines->stderr_fd = dup(STDERR_FILENO);
	assert_true(lines->log_fd >= 0 && lines->stderr_fd >= 0);
	assert_true(dup2(lines->log_fd, STDERR_FILENO) >= 0);
}

static inline void lines_end(struct lines *lines)
{
	ssize_t n = pread(lines->log_fd, lines->text, sizeof(lines->text) - 1, 0);

	assert_true(dup2(lines->stderr_fd, STDERR_FILENO) >= 0);
	(void)close(lines->stderr_fd);
	(void)close(lines->log_fd);
	assert_true(n >= 0);
	lines->text[n] = '\0';
}

static inline size_t lines_with(const struct lines *lines, const char *text)
{
	size_t n = 0;

	for (const char *at = strstr(lines->text, text); at; at = strstr(at + 1, text))
		n++;
	return n;
}
