/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Tables on standard output. Cells are kept as bytes in a row, so that a hundred thousand lines take as many
 * bytes as they show. Text from elsewhere is made harmless for terminals. */

#include "base/cleanup.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct shown;
struct strbuf;

/* A column of a table, or a part of a page. show/rows.h has the macros and defines the texts. */
struct column {
	const char *name; /* heading, or name of a field; NULL: a line */
	const char *text; /* NULL: the caller makes the cells; of rows the path of the messages */
	const char *when; /* of a page: only if this text is not empty; NULL: always */
	void (*put)(const struct shown *shown, struct strbuf *sb); /* in the place of text */
	const struct rows *rows;
	bool is_state; /* states with a colour: running, failed, pending ... */
	bool is_number;
	bool is_verbose;  /* at the end of a table: with --verbose only */
	bool is_optional; /* field: only if it is not empty */
};

enum { TABLE_COLUMNS_MAX = 16 };

struct table;

/** Returns an empty table, NULL when memory is short. table_print() returns the first error. */
struct table *table_new(const struct column *columns, size_t n);

/** Show the table whole although a terminal has no room. NULL is allowed. */
void table_show_whole(struct table *table, bool whole);

void table_free(struct table *table);
DEFINE_CLEANUP(struct table, table_free)

/** Add a line of as many @cells as there are columns; NULL and "" are shown as "-". */
void table_add(struct table *table, const char *const *cells);

/** Print with a @title line above when it is not NULL. A NULL @table is STATUS_RESOURCE_EXHAUSTED.
 *
 * A terminal that is narrower than the table gets ids as beginnings that are unique in the table, then the
 * widest texts are cut, then columns on the right are left out and named below. Numbers and headings stay
 * whole. */
enum status table_print(struct table *table, const char *title, struct error *err);

/** Prints tables whole from now on, however wide the terminal is. */
void print_wide(bool wide);

/** Width of the terminal @fd; 0 if it is no terminal. */
size_t columns_of(int fd);

/** May @fd show colours: a terminal, and NO_COLOR is not set? */
bool has_colors(int fd);
