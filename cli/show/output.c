/* SPDX-License-Identifier: Apache-2.0 */
#include "show/output.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "pb/reflect.h"
#include "rpc/pbjson.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { CODE_SIZE = 32 };

/* Control bytes could move the cursor or worse, as could bytes that are not UTF-8; characters that turn the
 * direction of writing hide what follows. Line ends pass when @multi_line. */
static void put_harmless(FILE *out, const char *text, bool multi_line)
{
	for (const char *p = text; *p;) {
		size_t n = multi_line && (*p == '\n' || *p == '\t') ? 1 : str_printable(p);

		if (n > 0)
			(void)fwrite(p, 1, n, out);
		else
			(void)fprintf(out, "\\x%02x", (unsigned char)*p);
		p += n > 0 ? n : 1;
	}
}

void print_field(const char *name, const char *value)
{
	(void)printf("%-20s ", name);
	put_harmless(stdout, value && value[0] ? value : "-", false);
	(void)putchar('\n');
}

static __attribute__((format(printf, 2, 0))) void put_line(FILE *out, const char *fmt, va_list args)
{
	char text[ERROR_MSG_MAX];

	(void)vsnprintf(text, sizeof(text), fmt, args);
	put_harmless(out, text, false);
	(void)fputc('\n', out);
}

void print_line(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	put_line(stdout, fmt, args);
	va_end(args);
}

void print_note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	put_line(stderr, fmt, args);
	va_end(args);
}

void print_text(FILE *out, const char *text)
{
	put_harmless(out, text, true);
	if (text[0] && text[strlen(text) - 1] != '\n')
		(void)fputc('\n', out);
}

void print_reasons(FILE *out, const char *text, size_t columns)
{
	static const char *const ends[] = {"; ", ". Next: "};
	enum { REASONS_MAX = 2048 }; /* more than an error or an explanation has */
	char lines[2 * REASONS_MAX]; /* two bytes become four */
	size_t n = 0;

	if (columns == 0 || strlen(text) <= columns || strlen(text) >= REASONS_MAX) {
		print_text(out, text);
		return;
	}
	for (; *text != '\0'; text++) {
		lines[n++] = *text;
		for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
			if (!str_starts_with(text, ends[i]))
				continue;
			text++; /* the blank */
			n += (size_t)snprintf(lines + n, sizeof(lines) - n, "\n  ");
		}
	}
	lines[n] = '\0';
	print_text(out, lines);
}

static bool is_yaml;
static size_t n_documents; /* of YAML, printed so far */

void print_yaml(bool on)
{
	is_yaml = on;
	n_documents = 0;
}

/* A text that YAML takes for nothing else needs no quotes. */
static bool is_plain(const char *text)
{
	static const char *const words[] = {"y",   "n",	   "yes",   "no",   "on",
					    "off", "true", "false", "null", "nan"};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-./";

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasecmp(text, words[i]) == 0)
			return false;
	return text[0] && !strchr("0123456789-./", text[0]) && text[strspn(text, letters)] == '\0';
}

/* Prints @json with @flags; lines but the first begin with @indent blanks more. Characters that a terminal
 * obeys are escaped, which leaves the value as it is. */
static void put_json(FILE *out, const json_t *json, size_t flags, int indent)
{
	cleanup_free char *text = json_dumps(json, flags | JSON_ENCODE_ANY);
	size_t n;

	for (const char *p = text; p && *p != '\0'; p += n) {
		unsigned int character = *p == '\n' ? 0 : str_unprintable(p);

		n = character > 0 ? utf8_sequence(p) : 1;
		if (character > 0)
			(void)fprintf(out, "\\u%04X", character);
		else
			(void)fputc(*p, out);
		if (*p == '\n')
			(void)fprintf(out, "%*s", indent, "");
	}
}

/* In quotes it is written as in JSON, which YAML includes. */
static void put_scalar(json_t *json)
{
	if (json_is_string(json) && is_plain(json_string_value(json)))
		(void)fputs(json_string_value(json), stdout);
	else
		put_json(stdout, json, 0, 0);
}

/* Lines of @indent blanks. The first one has begun when @json is in a list. */
static void put_yaml(json_t *json, int indent, bool is_in_list)
{
	const char *key;
	json_t *value;
	size_t i;

	if (json_object_size(json) + json_array_size(json) == 0) {
		(void)putchar(' ');
		put_scalar(json);
		(void)putchar('\n');
		return;
	}
	(void)fputs(indent == 0 ? "" : is_in_list ? " " : "\n", stdout);
	json_object_foreach (json, key, value) {
		cleanup(json_decrefp) json_t *name = json_string(key);

		(void)printf("%*s", is_in_list ? 0 : indent, "");
		put_scalar(name);
		(void)putchar(':');
		put_yaml(value, indent + 2, false);
		is_in_list = false;
	}
	json_array_foreach (json, i, value) {
		(void)printf("%*s-", is_in_list ? 0 : indent, "");
		put_yaml(value, indent + 2, true);
		is_in_list = false;
	}
}

/* JSON, with @flags, or YAML: several of them are documents of one stream. */
static enum status dump(json_t *json, size_t flags, struct error *err)
{
	if (!json)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot print JSON");
	if (is_yaml && n_documents++ > 0)
		(void)puts("---");
	if (is_yaml) {
		put_yaml(json, 0, false);
	} else {
		put_json(stdout, json, flags, 0);
		(void)putchar('\n');
	}
	json_decref(json);
	return ferror(stdout) ? error_set(err, STATUS_INTERNAL, errno, "cannot print JSON") : STATUS_OK;
}

static enum status print_message(const ProtobufCMessage *message, unsigned int flags, struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);
	json_t *json = NULL;

	if (is_yaml) {
		TRY(pbjson_encode(message, flags, &json, err));
		return dump(json, 0, err);
	}
	TRY(pbjson_print(message, flags, 0, &text, err));
	(void)fwrite(text.data, 1, text.len, stdout);
	(void)putchar('\n');
	return ferror(stdout) ? error_set(err, STATUS_INTERNAL, errno, "cannot print JSON") : STATUS_OK;
}

json_t *json_text(const char *text)
{
	json_t *json = json_string(text);
	cleanup_free char *copy = json ? NULL : strdup(text);

	if (copy)
		copy[str_mask_text(copy, strlen(copy))] = '\0'; /* without a character that is cut */
	return copy ? json_string(copy) : json;
}

enum status print_json(json_t *json, struct error *err)
{
	return dump(json, JSON_INDENT(2), err);
}

enum status print_answer(const ProtobufCMessage *message, struct error *err)
{
	return print_message(message, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS | PBJSON_LINES, err);
}

/* --- lists --- */

enum { STEP = 2 }; /* columns of a level */

void list_output_release(struct list_output *output)
{
	json_decref(output->rest);
	output->rest = NULL;
}

static enum status put_element(const ProtobufCMessage *message, size_t i, struct strbuf *text,
			       struct error *err)
{
	cleanup(json_decrefp) json_t *json = NULL;

	if (is_yaml) {
		TRY(pbjson_encode(message, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &json, err));
		(void)printf(i == 0 ? "\n%*s-" : "%*s-", STEP, "");
		put_yaml(json, 2 * STEP, true);
		return STATUS_OK;
	}
	strbuf_printf(text, "%s%*s", i == 0 ? "[\n" : ",\n", 2 * STEP, "");
	TRY(pbjson_print(message, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS | PBJSON_LINES, STEP, text, err));
	(void)fwrite(text->data, 1, text->len, stdout);
	strbuf_consume(text, text->len);
	return STATUS_OK;
}

/* Keeps every field of the first page but its list. */
static enum status begin_list(struct list_output *output, const ProtobufCMessage *page, struct error *err)
{
	const ProtobufCFieldDescriptor *list = &page->descriptor->fields[0];
	cleanup_free char *others = malloc(page->descriptor->sizeof_message);

	if (!others)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot print JSON");
	memcpy(others, page, page->descriptor->sizeof_message);
	memset(others + list->quantifier_offset, 0, sizeof(size_t));
	TRY(pbjson_encode((const void *)others, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &output->rest, err));
	(void)json_object_del(output->rest, list->name);
	if (is_yaml && n_documents++ > 0)
		(void)puts("---");
	(void)printf(is_yaml ? "%s:" : "{\n  \"%s\": ", list->name);
	return STATUS_OK;
}

static void end_list(struct list_output *output, const ProtobufCMessage *page)
{
	const struct reflect_values token = reflect_follow(page, "next_token", strlen("next_token"));
	const char *key;
	json_t *value;

	if (token.field)
		(void)json_object_set_new(output->rest, "next_token", json_string(reflect_text(token.first)));
	if (output->n == 0)
		(void)fputs(is_yaml ? " []\n" : "[]", stdout);
	else if (!is_yaml)
		(void)printf("\n%*s]", STEP, "");
	json_object_foreach (output->rest, key, value) {
		(void)printf(is_yaml ? "%s:" : ",\n  \"%s\": ", key);
		if (is_yaml)
			put_yaml(value, STEP, false);
		else
			put_json(stdout, value, JSON_INDENT(STEP), STEP);
	}
	if (!is_yaml)
		(void)puts("\n}");
}

enum status print_list_page(struct list_output *output, const ProtobufCMessage *page, bool is_last,
			    struct error *err)
{
	const struct reflect_values items = reflect_values(page, &page->descriptor->fields[0]);
	cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);

	assert(reflect_is_list(items.field) && items.field->type == PROTOBUF_C_TYPE_MESSAGE);
	if (!output->rest)
		TRY(begin_list(output, page, err));
	for (size_t i = 0; i < items.n; i++)
		TRY(put_element(reflect_message(reflect_value(&items, i)), output->n++, &text, err));
	if (is_last)
		end_list(output, page);
	return ferror(stdout) ? error_set(err, STATUS_INTERNAL, errno, "cannot print JSON") : STATUS_OK;
}

const char *age_text(int64_t realtime_ms, int64_t now_ms, char text[static AGE_SIZE])
{
	int64_t age_ms = now_ms - realtime_ms;

	text[0] = '\0';
	if (realtime_ms == 0)
		return text;
	if (age_ms < 1000)
		return str_copy(text, AGE_SIZE, "0s") == 0 ? text : "";
	return clock_format_duration((uint64_t)age_ms * USEC_PER_MSEC, text);
}

const char *size_text(uint64_t bytes, char text[static SIZE_TEXT_SIZE])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	uint64_t whole = bytes;
	uint64_t rest = 0;
	size_t unit = 0;

	text[0] = '\0';
	if (bytes == 0)
		return text;
	for (; whole >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++) {
		rest = whole % 1024;
		whole /= 1024;
	}
	if (unit == 0)
		(void)str_format(text, SIZE_TEXT_SIZE, "%" PRIu64 " bytes", bytes);
	else if (rest * 10 / 1024 == 0)
		(void)str_format(text, SIZE_TEXT_SIZE, "%" PRIu64 "%s", whole, units[unit]);
	else
		(void)str_format(text, SIZE_TEXT_SIZE, "%" PRIu64 ".%" PRIu64 "%s", whole, rest * 10 / 1024,
				 units[unit]);
	return text;
}

/* "not_found", as the server's own JSON has it. */
static json_t *code_word(enum status status)
{
	char word[CODE_SIZE];

	(void)str_copy(word, sizeof(word), status_name(status));
	for (char *p = word; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	return json_string(word);
}

void print_error_json(const struct error *error, const ProtobufCMessage *details)
{
	json_t *json = json_object();
	json_t *more = NULL;
	char message[ERROR_MSG_MAX];

	str_copy_text(message, sizeof(message), error->msg);
	(void)json_object_set_new(json, "code", code_word(error->status));
	(void)json_object_set_new(json, "message", json_string(message));
	if (details && pbjson_encode(details, PBJSON_PROTO_NAMES, &more, NULL) == STATUS_OK)
		(void)json_object_set_new(json, "details", more);
	put_json(stderr, json, JSON_INDENT(STEP), 0);
	(void)fputc('\n', stderr);
	json_decref(json);
}

enum status print_json_line(json_t *json, struct error *err)
{
	return dump(json, JSON_COMPACT, err);
}

enum status print_answer_line(const ProtobufCMessage *message, struct error *err)
{
	TRY(print_message(message, PBJSON_PROTO_NAMES, err));
	return fflush(stdout) == 0 ? STATUS_OK
				   : error_set(err, STATUS_INTERNAL, errno, "cannot write the output");
}
