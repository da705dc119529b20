/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Messages of the API on a terminal, by rows of data: the columns of a table, or the lines of a page.
 *
 * The text of a column is printed as it is, except for pieces in braces, where PATH is a path of the message:
 *   {PATH}           the value: an enum as people write it, a flag as yes or no, a list with commas,
 *                    how many messages a list has
 *   {PATH:FORMAT}    the value in one of the formats of rows.c (age, size, time, ...), or its first N bytes
 *   {PATH?YES|NO}    YES if the value is set, else NO; both are texts of this kind, "|NO" may be left out
 * Of a list in the middle of a path, the last message counts. "^PATH" is a path of the message that contains
 * this one, "#" the number of the message in its list, from 0. A test looks each path up in the descriptors.
 */

#include "base/strbuf.h"
#include "show/output.h"
#include "show/table.h"

/* A message on its way to the terminal. */
struct shown {
	const ProtobufCMessage *message; /* NULL: nothing of it is set */
	const ProtobufCMessage *of;	 /* that contains it, or NULL */
	size_t i;			 /* of its list */
	int64_t now_ms;
	bool verbose; /* columns for more, and nothing cut at the width of a terminal */
};

struct rows {
	const ProtobufCMessageDescriptor *descriptor; /* of the messages */
	const ProtobufCMessageDescriptor *of;	      /* of those that contain them; NULL: no path has "^" */
	const char *none;			      /* line for an empty, untitled list; or NULL */
	const struct column *columns;
	size_t n;
};

/* The tests find all of them in one section. */
#define DEFINE_ROWS_OF(rows_, type, of_, none_, ...)                                        \
	const struct rows rows_ __attribute__((used, section("show_rows"), aligned(8))) = { \
		.descriptor = &type##__descriptor,                                          \
		.of = (of_),                                                                \
		.none = (none_),                                                            \
		.columns = (const struct column[]){__VA_ARGS__},                            \
		.n = sizeof((const struct column[]){__VA_ARGS__}) / sizeof(struct column),  \
	}
#define DEFINE_ROWS(rows_, type, none_, ...) DEFINE_ROWS_OF(rows_, type, NULL, none_, __VA_ARGS__)

#define COLUMN(name_, text_, ...)                             \
	{                                                     \
		.name = (name_), .text = (text_), __VA_ARGS__ \
	}

/* Columns of tables, and fields of pages. */
#define COL(name_, text_) COLUMN(name_, text_, .put = NULL)
#define COL_PUT(name_, put_) COLUMN(name_, "", .put = (put_))
#define COL_STATE(name_, text_) COLUMN(name_, text_, .is_state = true)
#define COL_NUMBER(name_, text_) COLUMN(name_, text_, .is_number = true)
#define COL_CUT(name_, text_) COL(name_, text_)
#define COL_MORE(name_, text_) COLUMN(name_, text_, .is_verbose = true)

/* Pages have more: a field that is shown only if it is not empty or only if @when_ is not, a line, messages
 * inside the message (NEED fails without one), and a list as a table. */
#define COL_SET(name_, text_) COLUMN(name_, text_, .is_optional = true)
#define COL_WHEN(when_, name_, text_) COLUMN(name_, text_, .when = (when_))
#define LINE(when_, text_) COLUMN(NULL, text_, .when = (when_))
#define PART(path_, rows_) COLUMN(NULL, path_, .rows = (rows_))
#define PART_WHEN(when_, path_, rows_) COLUMN(NULL, path_, .rows = (rows_), .when = (when_))
#define NEED(what_, path_, rows_) COLUMN(what_, path_, .rows = (rows_))
#define TABLE(title_, path_, rows_) COLUMN(title_, path_, .rows = (rows_))

/** Write @text with the values of @shown. */
void show_text(const struct shown *shown, const char *text, struct strbuf *sb);

/** A table without lines yet, and one of its lines. */
struct table *show_table_new(const struct rows *rows, bool verbose);
void show_table_add(struct table *table, const struct rows *rows, const struct shown *shown);

/** Print a table of @n messages, with a @title line above when it is not NULL. */
enum status show_list(const struct rows *rows, const char *title, const void *list, size_t n, bool verbose,
		      struct error *err);

/** Print the page of one message; @of contains it or is NULL. */
enum status show_page(const struct rows *rows, const void *message, const void *of, bool verbose,
		      struct error *err);

/** Print the first column of @n messages, a line each. */
void show_names(const struct rows *rows, const void *list, size_t n);

/** The format @name of @n bytes exists. For tests. */
bool show_has_format(const char *name, size_t n);
