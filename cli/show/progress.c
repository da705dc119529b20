/* SPDX-License-Identifier: Apache-2.0 */
#include "show/progress.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_SIZE = 200 };

void progress_show(const char *fmt, ...)
{
	char line[LINE_SIZE], shown[LINE_SIZE];
	va_list args;

	if (!isatty(STDERR_FILENO))
		return;
	va_start(args, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	str_copy_text(shown, sizeof(shown), line);
	(void)fprintf(stderr, "\r\033[K%s", shown);
	(void)fflush(stderr);
}

void progress_end(void)
{
	if (!isatty(STDERR_FILENO))
		return;
	(void)fputs("\r\033[K", stderr);
	(void)fflush(stderr);
}
