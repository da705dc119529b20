#include "output.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/pbjson.h"

#include <errno.h>
#include <libsmartcols.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct table {
	struct libscols_table *scols;
	const struct column *columns;
	size_t n;
	int error; /* first failure of libsmartcols */
};

bool has_colors(int fd)
{
	const char *no_color = getenv("NO_COLOR");

	return isatty(fd) && !(no_color && no_color[0]);
}

void table_free(struct table *table)
{
	if (!table)
		return;
	scols_unref_table(table->scols);
	free(table);
}

struct table *table_new(const struct column *columns, size_t n)
{
	cleanup(table_freep) struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = columns;
	table->n = n;
	table->scols = scols_new_table();
	if (!table->scols)
		return NULL;
	(void)scols_table_enable_colors(table->scols, has_colors(STDOUT_FILENO));
	(void)scols_table_enable_ascii(table->scols, 1);
	for (size_t i = 0; i < n; i++)
		if (!scols_table_new_column(table->scols, columns[i].name, 0,
					    columns[i].is_number ? SCOLS_FL_RIGHT : 0))
			return NULL;
	return TAKE_PTR(table);
}

/* Colour of a word of state; NULL for words that are neither good, bad nor passing. */
static const char *color_of(const char *word)
{
	static const struct {
		const char *word;
		const char *color;
	} colors[] = {
		{"running", "green"},
		{"ready", "green"},
		{"taken", "green"},
		{"success", "green"},
		{"yes", "green"},
		{"complete", "green"},
		{"failed", "red"},
		{"lost", "red"},
		{"down", "red"},
		{"no", "red"},
		{"refused", "red"},
		{"pending", "yellow"},
		{"reserved", "yellow"},
		{"unpublishing", "yellow"},
		{"draining", "yellow"},
		{"disconnected", "yellow"},
		{"node-detached", "yellow"},
		{"intent", "yellow"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(colors); i++)
		if (str_eq(word, colors[i].word))
			return colors[i].color;
	return NULL;
}

static const char *shown(const char *value)
{
	return value && value[0] ? value : "-";
}

void table_add(struct table *table, const char *const *cells)
{
	struct libscols_line *line;

	if (!table || table->error)
		return;
	line = scols_table_new_line(table->scols, NULL);
	if (!line)
		table->error = -ENOMEM;
	for (size_t i = 0; i < table->n && !table->error; i++) {
		const char *color = table->columns[i].is_state ? color_of(shown(cells[i])) : NULL;

		table->error = scols_line_set_data(line, i, shown(cells[i]));
		if (color && !table->error)
			table->error = scols_cell_set_color(scols_line_get_cell(line, i), color);
	}
}

enum status table_print(struct table *table, const char *title, struct error *err)
{
	int r;

	if (!table || table->error)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a table");
	if (title)
		(void)printf("\n%s\n", title);
	r = scols_print_table(table->scols);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "print a table");
	return STATUS_OK;
}

/* Control bytes could move the cursor or worse; line ends pass when @multi_line. */
static void put_harmless(FILE *out, const char *text, bool multi_line)
{
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if ((c < 0x20 && !(multi_line && (c == '\n' || c == '\t'))) || c == 0x7f ||
		    (c == 0xc2 && (unsigned char)p[1] >= 0x80 && (unsigned char)p[1] < 0xa0))
			(void)fprintf(out, "\\x%02x", c);
		else
			(void)fputc(c, out);
	}
}

void print_field(const char *name, const char *value)
{
	(void)printf("%-20s ", name);
	put_harmless(stdout, shown(value), false);
	(void)putchar('\n');
}

void print_line(const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	put_harmless(stdout, text, false);
	(void)putchar('\n');
}

void print_text(FILE *out, const char *text)
{
	put_harmless(out, text, true);
	if (text[0] && text[strlen(text) - 1] != '\n')
		(void)fputc('\n', out);
}

enum status print_json(json_t *json, struct error *err)
{
	int r;

	if (!json)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "print JSON");
	r = json_dumpf(json, stdout, JSON_INDENT(2));
	json_decref(json);
	if (r < 0 || putchar('\n') == EOF)
		return error_set(err, STATUS_INTERNAL, errno, "print JSON");
	return STATUS_OK;
}

enum status print_answer(const ProtobufCMessage *message, struct error *err)
{
	json_t *json = NULL;
	enum status status = pbjson_encode(message, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &json, err);

	return status == STATUS_OK ? print_json(json, err) : status;
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
