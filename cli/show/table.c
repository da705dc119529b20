/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of text, as narrow as the terminal. */
#include "show/table.h"

#include "base/id.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum {
	ID_MIN = 8,   /* of a shortened id */
	TEXT_MIN = 6, /* of a shortened text */
};

#define CELLS_MAX ((size_t)1 << 31) /* bytes */
#define CUT ".."

struct table {
	const struct column *columns;
	size_t n, n_lines;
	struct strbuf cells; /* of all lines, each ends with NUL */
	size_t widths[TABLE_COLUMNS_MAX];
	size_t n_ids[TABLE_COLUMNS_MAX];      /* how many cells are ids */
	size_t n_texts[TABLE_COLUMNS_MAX];    /* how many are neither that nor empty */
	size_t id_lengths[TABLE_COLUMNS_MAX]; /* 0: its texts are whole */
	bool is_whole;			      /* nothing is cut */
};

static bool is_wide;

void print_wide(bool wide)
{
	is_wide = wide;
}

size_t columns_of(int fd)
{
	struct winsize size;

	return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool has_colors(int fd)
{
	const char *no_color = getenv("NO_COLOR");

	return isatty(fd) && !(no_color && no_color[0]);
}

void table_free(struct table *table)
{
	if (!table)
		return;
	strbuf_release(&table->cells);
	free(table);
}

struct table *table_new(const struct column *columns, size_t n)
{
	struct table *table;

	assert(n > 0 && n <= TABLE_COLUMNS_MAX);
	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	table->columns = columns;
	table->n = n;
	table->cells = (struct strbuf)STRBUF_INIT(CELLS_MAX);
	for (size_t i = 0; i < n; i++)
		table->widths[i] = strlen(columns[i].name);
	return table;
}

void table_show_whole(struct table *table, bool whole)
{
	if (table)
		table->is_whole = whole;
}

/* Returns the colour of a state; NULL for states that are neither good, bad nor passing. */
static const char *color_of(const char *word)
{
	static const char green[] = "\033[32m", red[] = "\033[31m", yellow[] = "\033[33m";
	static const struct {
		const char *word;
		const char *color;
	} colors[] = {
		{"running", green},
		{"ready", green},
		{"taken", green},
		{"success", green},
		{"yes", green},
		{"complete", green},
		{"healthy", green},
		{"failed", red},
		{"lost", red},
		{"down", red},
		{"no", red},
		{"refused", red},
		{"unhealthy", red},
		{"absent", red},
		{"stale", red},
		{"hangs", red},
		{"pending", yellow},
		{"reserved", yellow},
		{"unpublishing", yellow},
		{"controller-detached", yellow},
		{"ineligible", yellow},
		{"draining", yellow},
		{"disconnected", yellow},
		{"node-detached", yellow},
		{"intent", yellow},
		{"dialling", yellow},
		{"fingerprinting", yellow},
	};

	for (size_t i = 0; i < ARRAY_SIZE(colors); i++)
		if (str_eq(word, colors[i].word))
			return colors[i].color;
	return NULL;
}

/* Returns how many bytes the character at @text has; its columns are -1 if a terminal cannot show it. */
static size_t next_character(const char *text, int *ret_columns)
{
	mbstate_t state = {0};
	wchar_t c;
	size_t n;

	*ret_columns = text[0] >= ' ' && text[0] <= '~' ? 1 : -1;
	if (*ret_columns == 1 || str_printable(text) == 0)
		return 1;
	n = mbrtowc(&c, text, MB_CUR_MAX, &state);
	if (n == (size_t)-1 || n == (size_t)-2 || n == 0)
		return 1;
	*ret_columns = wcwidth(c);
	return n;
}

/* Control bytes could move the cursor or worse. */
static size_t put_harmless(struct strbuf *sb, const char *text)
{
	size_t width = 0;

	while (*text != '\0') {
		int columns;
		size_t n = next_character(text, &columns);

		if (columns >= 0)
			strbuf_put(sb, text, n);
		for (size_t i = 0; columns < 0 && i < n; i++)
			strbuf_printf(sb, "\\x%02x", (unsigned char)text[i]);
		width += columns >= 0 ? (size_t)columns : n * strlen("\\x00");
		text += n;
	}
	return width;
}

void table_add(struct table *table, const char *const *cells)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->n; i++) {
		const char *text = cells[i] && cells[i][0] ? cells[i] : "-";
		size_t width = put_harmless(&table->cells, text);

		strbuf_put(&table->cells, "", 1);
		table->widths[i] = width > table->widths[i] ? width : table->widths[i];
		table->n_ids[i] += id_is_uuid(text);
		table->n_texts[i] += !id_is_uuid(text) && !str_eq(text, "-");
	}
	table->n_lines++;
}

/* The length of the beginning of @text that has at most @max columns; *@ret_width: how many it has. */
static size_t begin_of(const char *text, size_t max, size_t *ret_width)
{
	size_t n = 0;

	*ret_width = 0;
	while (text[n] != '\0') {
		int columns;
		size_t length = next_character(text + n, &columns);

		if (*ret_width + (size_t)columns > max)
			break;
		*ret_width += (size_t)columns;
		n += length;
	}
	return n;
}

/* --- as narrow as a terminal --- */

static size_t total(const struct table *table, size_t n)
{
	size_t sum = n - 1;

	for (size_t i = 0; i < n; i++)
		sum += table->widths[i];
	return sum;
}

static bool has_ids(const struct table *table, size_t i)
{
	return table->n_ids[i] > 0 && table->n_texts[i] == 0;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t common(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] != '\0' && a[n] == b[n])
		n++;
	return b[n] == a[n] ? 0 : n; /* the same id twice */
}

/* How long the beginnings of the ids of column @i must be; 0: out of memory. */
static size_t unique_length(const struct table *table, size_t i)
{
	cleanup_free const char **ids = calloc(table->n_lines + 1, sizeof(*ids));
	const char *cell = table->cells.data;
	size_t length = ID_MIN;

	if (!ids)
		return 0;
	for (size_t at = 0; at < table->n_lines * table->n; at++, cell += strlen(cell) + 1)
		if (at % table->n == i)
			ids[at / table->n] = cell;
	qsort(ids, table->n_lines, sizeof(*ids), compare_texts);
	for (size_t line = 1; line < table->n_lines; line++) {
		size_t n = common(ids[line - 1], ids[line]) + 1;

		length = n > length ? n : length;
	}
	return length;
}

/* The first column names the line: it is cut when it is more than half of the terminal. */
static size_t least(const struct table *table, size_t i, size_t width)
{
	size_t heading = strlen(table->columns[i].name);
	size_t least = i == 0 ? width / 2 : heading > TEXT_MIN ? heading : TEXT_MIN;

	return table->columns[i].is_number || table->widths[i] < least ? table->widths[i] : least;
}

/* Takes one column of the terminal from the widest text. Returns false if every text is at its least. */
static bool take_one(struct table *table, size_t n, size_t width)
{
	size_t widest = SIZE_MAX;

	for (size_t i = 0; i < n; i++)
		if (table->widths[i] > least(table, i, width) &&
		    (widest == SIZE_MAX || table->widths[i] >= table->widths[widest]))
			widest = i;
	if (widest == SIZE_MAX)
		return false;
	table->widths[widest]--;
	return true;
}

/* Makes the table at most @width wide. Returns how many columns are left, 0: out of memory. */
static size_t fit(struct table *table, size_t width)
{
	size_t n = table->n;

	for (size_t i = 0; i < n && total(table, n) > width; i++) {
		size_t heading = strlen(table->columns[i].name);
		size_t length;

		if (!has_ids(table, i))
			continue;
		length = unique_length(table, i);
		if (length == 0)
			return 0;
		table->id_lengths[i] = length;
		table->widths[i] = length > heading ? length : heading;
	}
	while (total(table, n) > width && n > 1)
		if (!take_one(table, n, width))
			n--;
	return n;
}

static void pad(size_t n)
{
	(void)printf("%*s", (int)n, "");
}

/* Prints the cell in its column. The last one is not padded. */
static void print_cell(const struct table *table, size_t i, bool is_last, bool colored, const char *text)
{
	const struct column *column = &table->columns[i];
	const char *color = colored && column->is_state ? color_of(text) : NULL;
	size_t width;
	size_t length = begin_of(text, SIZE_MAX, &width);
	bool is_cut = false;

	if (table->id_lengths[i] > 0 && length > table->id_lengths[i])
		length = width = table->id_lengths[i];
	if (width > table->widths[i]) {
		is_cut = true;
		length = begin_of(text, table->widths[i] - strlen(CUT), &width);
		width += strlen(CUT);
	}
	if (column->is_number)
		pad(table->widths[i] - width);
	(void)printf("%s%.*s%s%s", color ? color : "", (int)length, text, is_cut ? CUT : "",
		     color ? "\033[0m" : "");
	if (!column->is_number && !is_last)
		pad(table->widths[i] - width);
	(void)putchar(is_last ? '\n' : ' ');
}

static void print_lines(const struct table *table, size_t n)
{
	const char *cell = table->cells.data;
	bool colored = has_colors(STDOUT_FILENO);

	for (size_t i = 0; i < n && table->n_lines > 0; i++)
		print_cell(table, i, i + 1 == n, false, table->columns[i].name);
	for (size_t at = 0; at < table->n_lines * table->n; at++, cell += strlen(cell) + 1)
		if (at % table->n < n)
			print_cell(table, at % table->n, at % table->n + 1 == n, colored, cell);
}

/* Names the columns behind the first @n, in lines of at most @width. */
static void name_hidden(const struct table *table, size_t n, size_t width)
{
	size_t at = (size_t)printf("wider, with --wide:");

	for (size_t i = n; i < table->n; i++) {
		size_t more = strlen(table->columns[i].name) + strlen(" ,");

		if (at + more > width) {
			(void)putchar('\n');
			at = 0;
		}
		(void)printf(" %s%s", table->columns[i].name, i + 1 < table->n ? "," : "\n");
		at += more;
	}
}

enum status table_print(struct table *table, const char *title, struct error *err)
{
	size_t width = columns_of(STDOUT_FILENO);
	size_t n;

	if (!table || table->cells.error != 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a table");
	n = width > 0 && !table->is_whole && !is_wide ? fit(table, width) : table->n;
	if (n == 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a table");
	if (title)
		(void)printf("\n%s\n", title);
	print_lines(table, n);
	if (n < table->n)
		name_hidden(table, n, width);
	return ferror(stdout) ? error_set(err, STATUS_INTERNAL, errno, "cannot print a table") : STATUS_OK;
}
