/* SPDX-License-Identifier: Apache-2.0 */
#include "log/logfmt.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

const struct log_field log_fields[LOG_FIELDS_MAX] = {
	{"HOLDFAST_VOLUME", "volume", offsetof(struct log_ctx, volume)},
	{"HOLDFAST_WIRE_VOLUME", "wire_volume", offsetof(struct log_ctx, wire_volume)},
	{"HOLDFAST_ALLOC", "alloc", offsetof(struct log_ctx, alloc)},
	{"HOLDFAST_NODE", "node", offsetof(struct log_ctx, node)},
	{"HOLDFAST_CLAIM", "claim", offsetof(struct log_ctx, claim)},
	{"HOLDFAST_PLUGIN", "plugin", offsetof(struct log_ctx, plugin)},
	{"HOLDFAST_UNIT", "unit", offsetof(struct log_ctx, unit)},
	{"HOLDFAST_OP", "op", offsetof(struct log_ctx, op)},
	{"HOLDFAST_PEER", "peer", offsetof(struct log_ctx, peer)},
	{"HOLDFAST_EVIDENCE", "evidence", offsetof(struct log_ctx, evidence)},
};

const struct log_made_field log_made_fields[LOG_MADE_N] = {
	[LOG_MADE_EVENT] = {"HOLDFAST_EVENT", "event"},
	[LOG_MADE_MESSAGE_ID] = {"MESSAGE_ID", NULL},
	[LOG_MADE_RESULT] = {"HOLDFAST_RESULT", "result"},
	[LOG_MADE_GENERATION] = {"HOLDFAST_GENERATION", "generation"},
	[LOG_MADE_STATUS] = {"HOLDFAST_STATUS", "status"},
	[LOG_MADE_ERRNO] = {"ERRNO", "errno"},
};

static const char *const levels[] = {
	[LOG_EMERG] = "emerg",	   [LOG_ALERT] = "alert",   [LOG_CRIT] = "crit", [LOG_ERR] = "err",
	[LOG_WARNING] = "warning", [LOG_NOTICE] = "notice", [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

const char *log_field_value(const struct log_field *field, const struct log_ctx *ctx)
{
	const char *value;

	memcpy(&value, (const char *)ctx + field->offset, sizeof(value));
	return value;
}

const char *log_made_value(enum log_made made, const struct log_ctx *ctx, char number[static LOG_NUMBER_SIZE])
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

/* A line under construction. What does not fit is left out whole, and so is everything after it. */
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

/* C0, DEL and, encoded in two bytes, C1: some terminals obey those too. */
static bool is_control(const char *s, size_t n)
{
	uint8_t first = (uint8_t)s[0];

	return (n == 1 && (first < 0x20 || first == 0x7f)) ||
	       (n == 2 && first == 0xc2 && (uint8_t)s[1] <= 0x9f);
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
	size_t n = str_utf8_sequence(s);

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
	else if (is_control(s, n))
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
