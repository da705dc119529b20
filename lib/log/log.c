/* SPDX-License-Identifier: Apache-2.0 */
/* no CODE_FILE= and CODE_LINE= */
#define SD_JOURNAL_SUPPRESS_LOCATION

#include "log/log.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/utf8.h"
#include "log/rate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

enum { LOG_FIELDS_MAX = 13 };

/* A field that is taken from the context as it is. */
struct log_field {
	const char *journal; /* "HOLDFAST_VOLUME" */
	const char *logfmt;  /* "volume" */
	size_t offset;	     /* of a const char * in struct log_ctx */
};

/* Those that the context gives in another form than text: "HOLDFAST_EVENT", "event", ... */
enum log_made {
	LOG_MADE_EVENT,
	LOG_MADE_MESSAGE_ID, /* only in the journal */
	LOG_MADE_RESULT,
	LOG_MADE_GENERATION,
	LOG_MADE_RECORD,
	LOG_MADE_STATUS,
	LOG_MADE_ERRNO,
	LOG_MADE_N,
};

struct log_made_field {
	const char *journal;
	const char *logfmt; /* NULL: not there */
};

enum { LOG_NUMBER_SIZE = 24 };

static const struct log_field log_fields[LOG_FIELDS_MAX] = {
	{"HOLDFAST_VOLUME", "volume", offsetof(struct log_ctx, volume)},
	{"HOLDFAST_WIRE_VOLUME", "wire_volume", offsetof(struct log_ctx, wire_volume)},
	{"HOLDFAST_ALLOC", "alloc", offsetof(struct log_ctx, alloc)},
	{"HOLDFAST_NODE", "node", offsetof(struct log_ctx, node)},
	{"HOLDFAST_CLAIM", "claim", offsetof(struct log_ctx, claim)},
	{"HOLDFAST_PLUGIN", "plugin", offsetof(struct log_ctx, plugin)},
	{"HOLDFAST_DRIVER", "driver", offsetof(struct log_ctx, driver)},
	{"HOLDFAST_UNIT", "unit", offsetof(struct log_ctx, unit)},
	{"HOLDFAST_OP", "op", offsetof(struct log_ctx, op)},
	{"HOLDFAST_PEER", "peer", offsetof(struct log_ctx, peer)},
	{"HOLDFAST_EVIDENCE", "evidence", offsetof(struct log_ctx, evidence)},
	{"HOLDFAST_RELAYED", "relayed", offsetof(struct log_ctx, relayed)},
	{"HOLDFAST_REASON", "reason", offsetof(struct log_ctx, relayed_reason)},
};

static const struct log_made_field log_made_fields[LOG_MADE_N] = {
	[LOG_MADE_EVENT] = {"HOLDFAST_EVENT", "event"},
	[LOG_MADE_MESSAGE_ID] = {"MESSAGE_ID", NULL},
	[LOG_MADE_RESULT] = {"HOLDFAST_RESULT", "result"},
	[LOG_MADE_GENERATION] = {"HOLDFAST_GENERATION", "generation"},
	[LOG_MADE_RECORD] = {"HOLDFAST_RECORD", "record"},
	[LOG_MADE_STATUS] = {"HOLDFAST_STATUS", "status"},
	[LOG_MADE_ERRNO] = {"ERRNO", "errno"},
};

static const char *const levels[] = {
	[LOG_EMERG] = "emerg",	   [LOG_ALERT] = "alert",   [LOG_CRIT] = "crit", [LOG_ERR] = "err",
	[LOG_WARNING] = "warning", [LOG_NOTICE] = "notice", [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

static const char *log_field_value(const struct log_field *field, const struct log_ctx *ctx)
{
	const char *value;

	memcpy(&value, (const char *)ctx + field->offset, sizeof(value));
	return value;
}

/* Returns the value of @made in @ctx, in static storage or in @number; NULL: unset. */
static const char *log_made_value(enum log_made made, const struct log_ctx *ctx,
				  char number[static LOG_NUMBER_SIZE])
{
	const struct log_event_info *event = log_event_info(ctx->event);

	switch (made) {
	case LOG_MADE_EVENT:
		return event ? event->name : NULL;
	case LOG_MADE_MESSAGE_ID:
		return event ? event->id : NULL;
	case LOG_MADE_RESULT:
		return event ? event->result : NULL;
	case LOG_MADE_GENERATION:
		(void)str_format(number, LOG_NUMBER_SIZE, "%" PRIu64, ctx->generation);
		return ctx->generation > 0 ? number : NULL;
	case LOG_MADE_RECORD:
		(void)str_format(number, LOG_NUMBER_SIZE, "%" PRIu64, ctx->record);
		return ctx->record > 0 ? number : NULL;
	case LOG_MADE_STATUS:
		return ctx->err ? status_name(ctx->err->status) : NULL;
	case LOG_MADE_ERRNO:
		(void)str_format(number, LOG_NUMBER_SIZE, "%d", ctx->err ? ctx->err->sys_errno : 0);
		return ctx->err && ctx->err->sys_errno != 0 ? number : NULL;
	case LOG_MADE_N:
		break;
	}
	return NULL;
}

/* A line under construction. A field that does not fit is left out whole, and so is everything after it. */
struct line {
	char *dst;
	size_t size; /* with the NUL */
	size_t len;
	bool is_full;
};

static void append(struct line *line, const char *bytes, size_t n)
{
	if (line->is_full || n >= line->size - line->len) {
		line->is_full = true;
		return;
	}
	memcpy(line->dst + line->len, bytes, n);
	line->len += n;
	line->dst[line->len] = '\0';
}

static void append_text(struct line *line, const char *text)
{
	append(line, text, strlen(text));
}

static void append_hex(struct line *line, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char escape[5] = "\\x";

		hex_encode(escape + 2, &bytes[i], 1);
		append_text(line, escape);
	}
}

/* The character at @s, escaped if need be. Returns its bytes. */
static size_t append_character(struct line *line, const char *s)
{
	size_t n = utf8_sequence(s);

	if (n == 0) {
		append_hex(line, s, 1);
		return 1;
	}
	if (*s == '\n')
		append_text(line, "\\n");
	else if (*s == '\t')
		append_text(line, "\\t");
	else if (*s == '\r')
		append_text(line, "\\r");
	else if (str_printable(s) == 0)
		append_hex(line, s, n);
	else
		append(line, s, n);
	return n;
}

size_t log_escape(char *dst, size_t size, const char *text)
{
	struct line line = {.dst = dst, .size = size};

	if (size == 0)
		return 0;
	dst[0] = '\0';
	while (*text != '\0' && !line.is_full)
		text += append_character(&line, text);
	return line.len;
}

/* Only what no reader of logfmt takes for a separator stays without quotes. */
static bool is_bare(const char *value)
{
	static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@+,";

	return value[0] != '\0' && value[strspn(value, bare)] == '\0';
}

static void append_quoted(struct line *line, const char *value)
{
	append_text(line, "\"");
	while (*value != '\0' && !line->is_full) {
		if (*value == '"' || *value == '\\') {
			char escape[] = {'\\', *value};

			append(line, escape, sizeof(escape));
			value++;
		} else {
			value += append_character(line, value);
		}
	}
	append_text(line, "\"");
}

static void append_pair(struct line *line, const char *key, const char *value)
{
	if (line->len > 0)
		append_text(line, " ");
	append_text(line, key);
	append_text(line, "=");
	if (is_bare(value))
		append_text(line, value);
	else
		append_quoted(line, value);
}

static void append_made(struct line *line, const struct log_ctx *ctx)
{
	for (enum log_made made = 0; made < LOG_MADE_N; made++) {
		char number[LOG_NUMBER_SIZE];
		const char *value = log_made_value(made, ctx, number);

		if (value && log_made_fields[made].logfmt)
			append_pair(line, log_made_fields[made].logfmt, value);
	}
}

size_t log_format(char *dst, size_t size, const char *ident, int priority, const struct log_ctx *ctx,
		  const char *message)
{
	const char *level = names_get(levels, ARRAY_SIZE(levels), priority);
	struct line line = {.dst = dst, .size = size};
	char ts[CLOCK_TEXT_SIZE];

	if (size == 0)
		return 0;
	dst[0] = '\0';
	append_pair(&line, "ts", clock_format(clock_realtime_ms(), ts));
	append_pair(&line, "level", level ? level : "err");
	append_pair(&line, "ident", ident);
	append_pair(&line, "msg", message);
	for (size_t i = 0; ctx && i < LOG_FIELDS_MAX; i++) {
		const char *value = log_field_value(&log_fields[i], ctx);

		if (value)
			append_pair(&line, log_fields[i].logfmt, value);
	}
	if (ctx)
		append_made(&line, ctx);
	return line.len;
}

enum {
	FIXED_FIELDS = 3, /* MESSAGE, PRIORITY, SYSLOG_IDENTIFIER */
	ENTRY_FIELDS_MAX = FIXED_FIELDS + LOG_FIELDS_MAX + LOG_MADE_N,
	ENTRY_SIZE = 16384,
};

bool log_stream_is_journal(const char *journal_stream, dev_t dev, ino_t ino)
{
	char dev_text[32];
	const char *colon = journal_stream ? strchr(journal_stream, ':') : NULL;
	uint64_t stream_dev;
	uint64_t stream_ino;

	if (!colon || (size_t)(colon - journal_stream) >= sizeof(dev_text))
		return false;
	memcpy(dev_text, journal_stream, (size_t)(colon - journal_stream));
	dev_text[colon - journal_stream] = '\0';
	return parse_u64(dev_text, 0, UINT64_MAX, &stream_dev) == 0 &&
	       parse_u64(colon + 1, 0, UINT64_MAX, &stream_ino) == 0 && stream_dev == dev &&
	       stream_ino == ino;
}

/* The fields of an entry and the text they point into. */
struct entry {
	struct iovec fields[ENTRY_FIELDS_MAX];
	int n;
	size_t used;
	char text[ENTRY_SIZE];
};

/* "NAME=value"; a field that finds no room is left out. */
static void add(struct entry *entry, const char *name, const char *value)
{
	char *at = entry->text + entry->used;
	size_t left = sizeof(entry->text) - entry->used;
	int n = str_format(at, left, "%s=", name);

	if (n < 0)
		return;
	n += (int)log_escape(at + n, left - (size_t)n, value);
	entry->fields[entry->n] = (struct iovec){.iov_base = at, .iov_len = (size_t)n};
	entry->n++;
	entry->used += (size_t)n;
}

static void add_number(struct entry *entry, const char *name, int number)
{
	char text[16];

	(void)str_format(text, sizeof(text), "%d", number);
	add(entry, name, text);
}

/* Sends one entry. Returns 0 or a negative errno. */
static int journal_send(const char *ident, int priority, const struct log_ctx *ctx, const char *message)
{
	struct entry entry = {.n = 0};

	/* what matters most comes first: room is limited */
	add_number(&entry, "PRIORITY", priority);
	add(&entry, "MESSAGE", message);
	add(&entry, "SYSLOG_IDENTIFIER", ident);
	for (size_t i = 0; ctx && i < LOG_FIELDS_MAX; i++) {
		const char *value = log_field_value(&log_fields[i], ctx);

		if (value)
			add(&entry, log_fields[i].journal, value);
	}
	for (enum log_made made = 0; ctx && made < LOG_MADE_N; made++) {
		char number[LOG_NUMBER_SIZE];
		const char *value = log_made_value(made, ctx, number);

		if (value)
			add(&entry, log_made_fields[made].journal, value);
	}
	return sd_journal_sendv(entry.fields, entry.n);
}

enum {
	MESSAGE_SIZE = 3072, /* an error message and as much again */
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

static bool is_stderr_the_journal(void)
{
	struct stat st;

	return fstat(STDERR_FILENO, &st) == 0 &&
	       log_stream_is_journal(getenv("JOURNAL_STREAM"), st.st_dev, st.st_ino);
}

void log_init(const char *ident, int max_priority)
{
	sink.ident = ident;
	sink.max_priority = max_priority;
	sink.is_journal = is_stderr_the_journal();
}

void log_last(const char *ident, const struct error *err)
{
	bool is_journal = is_stderr_the_journal();
	char text[LINE_SIZE], line[LINE_SIZE];
	int n;

	(void)log_escape(text, sizeof(text), err->msg);
	n = str_format(line, sizeof(line), "%s%s%s\n", is_journal ? "<3>" : ident, is_journal ? "" : ": ",
		       text);
	if (n > 0)
		(void)fd_write_all(STDERR_FILENO, line, (size_t)n); /* there is nowhere to report it */
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

unsigned int log_subject(const struct log_ctx *ctx)
{
	static const struct log_ctx nothing;
	const struct log_ctx *about = ctx ? ctx : &nothing;
	const char *const names[] = {about->node,   about->plugin, about->driver,
				     about->volume, about->alloc,  about->peer};
	uint32_t hash = 2166136261U; /* FNV-1a */

	hash = (hash ^ (uint32_t)about->event) * 16777619U;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!names[i])
			continue;
		for (const char *p = names[i]; *p != '\0'; p++)
			hash = (hash ^ (unsigned char)*p) * 16777619U;
		break;
	}
	return (hash ^ hash >> 16) % LOG_RATE_SUBJECTS;
}

static int priority_of(int priority, const struct log_ctx *ctx)
{
	return ctx ? log_event_priority(ctx->event, priority) : priority;
}

bool log_would_drop(int priority, const struct log_ctx *ctx)
{
	return priority_of(priority, ctx) > sink.max_priority ||
	       log_rate_refuse(&sink.rate, log_subject(ctx), clock_monotonic_us());
}

void log_ctx(int priority, const struct log_ctx *ctx, const char *fmt, ...)
{
	char message[MESSAGE_SIZE];
	va_list args;
	int n;

	priority = priority_of(priority, ctx);
	if (priority > sink.max_priority ||
	    !log_rate_admit(&sink.rate, log_subject(ctx), clock_monotonic_us()))
		return;
	report_dropped();
	va_start(args, fmt);
	n = vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(message) && ctx && ctx->err)
		(void)snprintf(message + n, sizeof(message) - (size_t)n, ": %s", ctx->err->msg);
	emit(priority, ctx, message);
}
