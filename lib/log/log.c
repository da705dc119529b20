/* SPDX-License-Identifier: Apache-2.0 */
#include "log/log.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "log/journal.h"
#include "log/rate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	MESSAGE_SIZE = 3072, /* an error message and as much again beside it */
	LINE_SIZE = 8192,    /* room for it with every field of usual length */
};

/* The process has one standard error, hence one log. */
static struct {
	const char *ident;
	const char *node;
	int max_priority;
	bool is_journal;
	struct log_rate rate;
} sink = {.ident = "holdfast", .max_priority = LOG_INFO};

void log_init(const char *ident, int max_priority)
{
	struct stat st;

	sink.ident = ident;
	sink.max_priority = max_priority;
	sink.is_journal = fstat(STDERR_FILENO, &st) == 0 &&
			  journal_is_stream(getenv("JOURNAL_STREAM"), st.st_dev, st.st_ino);
}

void log_set_level(int max_priority)
{
	sink.max_priority = max_priority;
}

void log_set_node(const char *node)
{
	sink.node = node;
}

static void emit(int priority, const struct log_ctx *about, const char *message)
{
	struct log_ctx full = about ? *about : (struct log_ctx){.node = NULL};
	const struct log_ctx *ctx = &full;
	char line[LINE_SIZE + 1];
	size_t n;

	if (!full.node)
		full.node = sink.node;
	if (sink.is_journal && journal_send(sink.ident, priority, ctx, message) >= 0)
		return;
	n = log_format(line, LINE_SIZE, sink.ident, priority, ctx, message);
	line[n++] = '\n';
	(void)fd_write_all(STDERR_FILENO, line, n); /* there is nowhere to report it */
}

static void report_dropped(void)
{
	uint64_t dropped = log_rate_take_dropped(&sink.rate);
	char message[128];

	if (dropped == 0)
		return;
	(void)str_format(message, sizeof(message),
			 "%" PRIu64 " log lines dropped, more than %d a second, or %d about one thing",
			 dropped, LOG_RATE_LINES, LOG_RATE_SHARE);
	emit(LOG_WARNING, NULL, message);
}

bool log_would_drop(int priority, const struct log_ctx *ctx)
{
	return priority > sink.max_priority ||
	       log_rate_refuse(&sink.rate, log_rate_subject(ctx), clock_monotonic_us());
}

void log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
{
	char message[MESSAGE_SIZE];
	va_list args;
	int n;

	if (priority > sink.max_priority ||
	    !log_rate_admit(&sink.rate, log_rate_subject(ctx), clock_monotonic_us()))
		return;
	report_dropped();
	va_start(args, fmt);
	n = vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(message) && ctx && ctx->err)
		(void)snprintf(message + n, sizeof(message) - (size_t)n, ": %s", ctx->err->msg);
	emit(priority, ctx, message);
}
