/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a table as narrow as a terminal: ids first, as their beginnings are enough to type. */
#include "show/fit.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum {
	ID_SIZE = 40, /* of a UUID, with its end */
	ID_MIN = 8,   /* of a shortened id */
	TEXT_MIN = 6, /* of a shortened text */
	CELL_MAX = 512,
	FIT_COLUMNS_MAX = 32,
};

#define CUT ".."

struct fit {
	struct libscols_table *table;
	size_t n, n_lines;
	size_t widths[FIT_COLUMNS_MAX];
};

static const char *cell(const struct fit *fit, size_t line, size_t i)
{
	const char *text =
		scols_cell_get_data(scols_line_get_cell(scols_table_get_line(fit->table, line), i));

	return text ? text : "";
}

static struct libscols_column *column(const struct fit *fit, size_t i)
{
	return scols_table_get_column(fit->table, i);
}

static size_t heading_of(const struct fit *fit, size_t i)
{
	return strlen(scols_cell_get_data(scols_column_get_header(column(fit, i))));
}

static int set_cell(const struct fit *fit, size_t line, size_t i, const char *text)
{
	return scols_line_set_data(scols_table_get_line(fit->table, line), i, text);
}

/* The length of the beginning of @text that has at most @width columns; *@ret_width: how many it has. */
static size_t begin_of(const char *text, size_t width, size_t *ret_width)
{
	mbstate_t state = {0};
	size_t n = 0;

	*ret_width = 0;
	while (text[n] != '\0') {
		wchar_t c;
		size_t length = mbrtowc(&c, text + n, MB_CUR_MAX, &state);
		int columns;

		if (length == (size_t)-1 || length == (size_t)-2) {
			length = 1;
			columns = 4; /* libsmartcols prints \x80 */
			state = (mbstate_t){0};
		} else {
			columns = wcwidth(c);
			columns = columns < 0 ? 4 : columns;
		}
		if (*ret_width + (size_t)columns > width)
			break;
		*ret_width += (size_t)columns;
		n += length;
	}
	return n;
}

static size_t width_of(const char *text)
{
	size_t width;

	(void)begin_of(text, SIZE_MAX, &width);
	return width;
}

static void measure(struct fit *fit, size_t i)
{
	fit->widths[i] = heading_of(fit, i);
	for (size_t line = 0; line < fit->n_lines; line++) {
		size_t width = width_of(cell(fit, line, i));

		fit->widths[i] = width > fit->widths[i] ? width : fit->widths[i];
	}
}

static size_t total(const struct fit *fit)
{
	size_t sum = fit->n > 0 ? fit->n - 1 : 0;

	for (size_t i = 0; i < fit->n; i++)
		sum += fit->widths[i];
	return sum;
}

static bool has_ids(const struct fit *fit, size_t i)
{
	bool has_one = false;

	for (size_t line = 0; line < fit->n_lines; line++) {
		if (id_is_uuid(cell(fit, line, i)))
			has_one = true;
		else if (!str_eq(cell(fit, line, i), "-"))
			return false;
	}
	return has_one;
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

static int shorten_ids(struct fit *fit, size_t i)
{
	cleanup_free const char **ids = calloc(fit->n_lines + 1, sizeof(*ids));
	size_t length = ID_MIN;

	if (!ids)
		return -ENOMEM;
	for (size_t line = 0; line < fit->n_lines; line++)
		ids[line] = cell(fit, line, i);
	qsort(ids, fit->n_lines, sizeof(*ids), compare_texts);
	for (size_t line = 1; line < fit->n_lines; line++) {
		size_t n = common(ids[line - 1], ids[line]) + 1;

		length = n > length ? n : length;
	}
	for (size_t line = 0; line < fit->n_lines; line++) {
		char text[ID_SIZE];
		int r;

		(void)str_format(text, sizeof(text), "%.*s", (int)length, cell(fit, line, i));
		r = set_cell(fit, line, i, text);
		if (r < 0)
			return r;
	}
	measure(fit, i);
	return 0;
}

static size_t least(const struct fit *fit, size_t i)
{
	size_t heading = heading_of(fit, i);
	size_t least = heading > TEXT_MIN ? heading : TEXT_MIN;

	return scols_column_is_right(column(fit, i)) || fit->widths[i] < least ? fit->widths[i] : least;
}

/* Takes one column of the terminal from the widest text. Returns false if every text is at its least. */
static bool take_one(struct fit *fit)
{
	size_t widest = SIZE_MAX;

	for (size_t i = 0; i < fit->n; i++)
		if (fit->widths[i] > least(fit, i) &&
		    (widest == SIZE_MAX || fit->widths[i] >= fit->widths[widest]))
			widest = i;
	if (widest == SIZE_MAX)
		return false;
	fit->widths[widest]--;
	return true;
}

static int cut_texts(const struct fit *fit, size_t i)
{
	for (size_t line = 0; line < fit->n_lines; line++) {
		char text[CELL_MAX];
		size_t width;
		size_t n;
		int r;

		if (width_of(cell(fit, line, i)) <= fit->widths[i])
			continue;
		n = begin_of(cell(fit, line, i), fit->widths[i] - strlen(CUT), &width);
		(void)str_format(text, sizeof(text), "%.*s" CUT, (int)n, cell(fit, line, i));
		r = set_cell(fit, line, i, text);
		if (r < 0)
			return r;
	}
	return 0;
}

int fit_table(struct libscols_table *table, size_t width)
{
	const size_t n = scols_table_get_ncols(table);
	struct fit fit = {.table = table, .n = n, .n_lines = scols_table_get_nlines(table)};
	int r = 0;

	if (n > FIT_COLUMNS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++)
		measure(&fit, i);
	for (size_t i = 0; i < n && r == 0 && total(&fit) > width; i++)
		r = has_ids(&fit, i) ? shorten_ids(&fit, i) : 0;
	while (r == 0 && total(&fit) > width && fit.n > 1)
		if (!take_one(&fit))
			(void)scols_column_set_flags(column(&fit, --fit.n), SCOLS_FL_HIDDEN);
	for (size_t i = 0; i < fit.n && r == 0; i++)
		r = cut_texts(&fit, i);
	return r < 0 ? r : (int)(n - fit.n);
}
