/* SPDX-License-Identifier: Apache-2.0 */
/* Texts, tables and pages by rows of data. */

#include "show/rows.h"

#include "base/str.h"
#include "pb/pbjson_word.h"
#include "pb/reflect.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum { TEXT_MAX = 8192 };

/* --- formats --- */

typedef void format_fn(uint64_t value, int64_t now_ms, struct strbuf *sb);

static void format_age(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	char text[AGE_SIZE];

	strbuf_puts(sb, age_text((int64_t)value, now_ms, text));
}

/* Writes the time left until @value. */
static void format_left(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	char text[AGE_SIZE];

	if (value > 0)
		strbuf_puts(sb, age_text(now_ms, (int64_t)value, text));
}

static void format_overdue(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	if (value > 0 && now_ms > (int64_t)value)
		strbuf_puts(sb, ", overdue");
}

static void format_duration(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	char text[CLOCK_TEXT_SIZE];

	if (value > 0)
		strbuf_puts(sb, clock_format_duration(value * USEC_PER_MSEC, text));
}

static void format_time(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	char text[CLOCK_TEXT_SIZE];

	strbuf_puts(sb, clock_format((int64_t)value, text));
}

static void format_expiry(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	if (value == 0)
		strbuf_puts(sb, "never");
	else if ((int64_t)value <= now_ms)
		strbuf_puts(sb, "expired");
	else
		format_time(value, now_ms, sb);
}

static void format_size(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	char text[SIZE_TEXT_SIZE];

	strbuf_puts(sb, size_text(value, text));
}

static void format_s(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	strbuf_puts(sb, value == 1 ? "" : "s");
}

static void format_are(uint64_t value, int64_t now_ms, struct strbuf *sb)
{
	strbuf_puts(sb, value == 1 ? " is" : "s are");
}

static const struct {
	const char *name;
	format_fn *put;
} formats[] = {
	{"age", format_age},	   {"are", format_are},	  {"duration", format_duration},
	{"expiry", format_expiry}, {"left", format_left}, {"overdue", format_overdue},
	{"s", format_s},	   {"size", format_size}, {"time", format_time},
};

static format_fn *find_format(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (strlen(formats[i].name) == n && strncmp(formats[i].name, name, n) == 0)
			return formats[i].put;
	return NULL;
}

bool show_has_format(const char *name, size_t n)
{
	return find_format(name, n) != NULL;
}

/* --- texts --- */

static void put_bytes(const char *at, struct strbuf *sb)
{
	ProtobufCBinaryData bytes;

	memcpy(&bytes, at, sizeof(bytes));
	for (size_t i = 0; i < bytes.len; i++)
		strbuf_printf(sb, "%02x", bytes.data[i]);
}

/* The unspecified value of an enum is shown as nothing. */
static void put_word(const ProtobufCEnumDescriptor *type, int value, struct strbuf *sb)
{
	char word[PBJSON_WORD_SIZE];

	(void)pbjson_word_text(type, value, word);
	if (value != 0 || !str_eq(word, "unspecified"))
		strbuf_puts(sb, word);
}

static void put_value(const ProtobufCFieldDescriptor *field, const char *at, struct strbuf *sb)
{
	if (field->type == PROTOBUF_C_TYPE_STRING)
		strbuf_puts(sb, reflect_text(at));
	else if (field->type == PROTOBUF_C_TYPE_BYTES)
		put_bytes(at, sb);
	else if (field->type == PROTOBUF_C_TYPE_ENUM)
		put_word(field->descriptor, (int)get_u32(at), sb);
	else if (field->type == PROTOBUF_C_TYPE_BOOL)
		strbuf_puts(sb, get_u32(at) ? "yes" : "no");
	else if (reflect_is_signed(field->type))
		strbuf_printf(sb, "%" PRId64, (int64_t)reflect_number(field->type, at));
	else
		strbuf_printf(sb, "%" PRIu64, reflect_number(field->type, at));
}

static void put_values(const struct reflect_values *values, struct strbuf *sb)
{
	if (!reflect_is_list(values->field))
		put_value(values->field, values->first, sb);
	else if (reflect_is_map(values->field))
		for (size_t i = 0; i < values->n; i++)
			strbuf_printf(sb, "%s%s=%s", i ? "," : "",
				      reflect_entry_key(reflect_message(reflect_value(values, i))),
				      reflect_entry_value(reflect_message(reflect_value(values, i))));
	else if (values->field->type == PROTOBUF_C_TYPE_MESSAGE)
		strbuf_printf(sb, "%zu", values->n);
	else
		for (size_t i = 0; i < values->n; i++) {
			strbuf_puts(sb, i ? "," : "");
			put_value(values->field, reflect_value(values, i), sb);
		}
}

/* Writes a number by its format, or the first bytes of a text. */
static void put_formatted(const struct reflect_values *values, const char *format, size_t n, int64_t now_ms,
			  struct strbuf *sb)
{
	format_fn *put = find_format(format, n);

	if (put)
		put(reflect_number(values->field->type, values->first), now_ms, sb);
	else
		strbuf_printf(sb, "%.*s", (int)strtoul(format, NULL, 10), reflect_text(values->first));
}

/* Finds @wanted between @at and @end outside of braces; returns @end if it is missing. */
static const char *find_outside(const char *at, const char *end, char wanted)
{
	for (int depth = 0; at < end && !(depth == 0 && *at == wanted); at++)
		depth += (*at == '{') - (*at == '}');
	return at;
}

static void put_text(const struct shown *shown, const char *at, const char *end, struct strbuf *sb);

/* Writes the piece between two braces. */
static void put_piece(const struct shown *shown, const char *at, const char *end, struct strbuf *sb)
{
	const ProtobufCMessage *message = at[0] == '^' ? shown->of : shown->message;
	const char *path = at[0] == '^' ? at + 1 : at;
	size_t n = strcspn(path, ":?}");
	struct reflect_values values = {.field = NULL};
	const char *bar = find_outside(path + n, end, '|');
	bool is_set;

	if (path[0] == '#') {
		is_set = shown->i > 0;
	} else {
		values = reflect_follow(message, path, n);
		is_set = values.n > 0;
	}
	if (path[n] == '?')
		put_text(shown, is_set ? path + n + 1 : bar + (bar < end), is_set ? bar : end, sb);
	else if (values.field && path[n] == ':')
		put_formatted(&values, path + n + 1, (size_t)(end - path) - n - 1, shown->now_ms, sb);
	else if (values.field)
		put_values(&values, sb);
}

static void put_text(const struct shown *shown, const char *at, const char *end, struct strbuf *sb)
{
	while (at < end) {
		const char *brace = memchr(at, '{', (size_t)(end - at));
		const char *close;

		strbuf_put(sb, at, (size_t)((brace ? brace : end) - at));
		if (!brace)
			return;
		close = find_outside(brace + 1, end, '}');
		assert(close < end);
		put_piece(shown, brace + 1, close, sb);
		at = close + 1;
	}
}

void show_text(const struct shown *shown, const char *text, struct strbuf *sb)
{
	put_text(shown, text, text + strlen(text), sb);
}

static void put_column(const struct shown *shown, const struct column *column, struct strbuf *sb)
{
	if (column->put)
		column->put(shown, sb);
	else
		show_text(shown, column->text, sb);
}

/* --- tables --- */

static size_t count_columns(const struct rows *rows, bool verbose)
{
	size_t n = rows->n;

	while (!verbose && rows->columns[n - 1].is_verbose)
		n--;
	assert(n <= TABLE_COLUMNS_MAX);
	return n;
}

struct table *show_table_new(const struct rows *rows, bool verbose)
{
	struct table *table = table_new(rows->columns, count_columns(rows, verbose));

	table_show_whole(table, verbose);
	return table;
}

void show_table_add(struct table *table, const struct rows *rows, const struct shown *shown)
{
	size_t n = count_columns(rows, shown->verbose);
	struct strbuf texts[TABLE_COLUMNS_MAX];
	const char *cells[TABLE_COLUMNS_MAX] = {NULL};

	for (size_t i = 0; i < n; i++) {
		texts[i] = (struct strbuf)STRBUF_INIT(TEXT_MAX);
		put_column(shown, &rows->columns[i], &texts[i]);
		cells[i] = texts[i].data;
	}
	table_add(table, cells);
	for (size_t i = 0; i < n; i++)
		strbuf_release(&texts[i]);
}

static enum status show_list_of(const struct rows *rows, const char *title, ProtobufCMessage *const *list,
				size_t n, const struct shown *of, struct error *err)
{
	cleanup(table_freep) struct table *table = NULL;

	if (n == 0 && rows->none && !title)
		print_line("%s", rows->none);
	if (n == 0)
		return STATUS_OK;
	table = show_table_new(rows, of->verbose);
	for (size_t i = 0; i < n; i++)
		show_table_add(table, rows,
			       &(struct shown){list[i], of->message, i, of->now_ms, of->verbose});
	return table_print(table, title, err);
}

enum status show_list(const struct rows *rows, const char *title, const void *list, size_t n, bool verbose,
		      struct error *err)
{
	const struct shown of = {.now_ms = clock_realtime_ms(), .verbose = verbose};

	return show_list_of(rows, title, list, n, &of, err);
}

void show_names(const struct rows *rows, const void *list, size_t n)
{
	ProtobufCMessage *const *messages = list;

	for (size_t i = 0; i < n; i++) {
		cleanup_strbuf struct strbuf text = STRBUF_INIT(TEXT_MAX);

		put_column(&(struct shown){.message = messages[i]}, &rows->columns[0], &text);
		print_line("%s", text.data ? text.data : "");
	}
}

/* --- pages --- */

static enum status show_page_of(const struct rows *rows, const struct shown *shown, struct error *err);

/* Prints messages inside the message: a list with a title as a table, all others as a page each. */
static enum status show_part(const struct column *column, const struct shown *of, struct error *err)
{
	struct reflect_values values = reflect_follow(of->message, column->text, strlen(column->text));

	if (!values.field)
		return STATUS_OK;
	if (column->name && reflect_is_list(values.field))
		return show_list_of(column->rows, column->name, (const void *)values.first, values.n, of,
				    err);
	if (column->name && values.n == 0)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no %s", column->name);
	for (size_t i = 0; i < values.n; i++)
		TRY(show_page_of(column->rows,
				 &(struct shown){reflect_message(reflect_value(&values, i)), of->message, i,
						 of->now_ms, of->verbose},
				 err));
	return STATUS_OK;
}

static enum status show_column(const struct column *column, const struct shown *shown, struct error *err)
{
	cleanup_strbuf struct strbuf when = STRBUF_INIT(TEXT_MAX), text = STRBUF_INIT(TEXT_MAX);

	if (column->when)
		show_text(shown, column->when, &when);
	if (column->when && when.len == 0)
		return STATUS_OK;
	if (column->rows)
		return show_part(column, shown, err);
	put_column(shown, column, &text);
	if (column->is_optional && text.len == 0)
		return STATUS_OK;
	if (column->name)
		print_field(column->name, text.data);
	else
		print_line("%s", text.data ? text.data : "");
	return STATUS_OK;
}

static enum status show_page_of(const struct rows *rows, const struct shown *shown, struct error *err)
{
	for (size_t i = 0; i < rows->n; i++)
		TRY(show_column(&rows->columns[i], shown, err));
	return STATUS_OK;
}

enum status show_page(const struct rows *rows, const void *message, const void *of, bool verbose,
		      struct error *err)
{
	const struct shown shown = {
		.message = message, .of = of, .now_ms = clock_realtime_ms(), .verbose = verbose};

	return show_page_of(rows, &shown, err);
}
