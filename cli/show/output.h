/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What people and programs see: tables, fields and JSON on standard output. Text from elsewhere is made
 * harmless for terminals. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct shown;
struct strbuf;

/* A column of a table, or a part of a page. show/rows.h has the macros and defines the texts. */
struct column {
	const char *name; /* heading, or name of a field; NULL: a line */
	const char *text; /* NULL: the caller makes the cells; of rows the path of the messages */
	const char *when; /* of a page: only if this text is not empty; NULL: always */
	void (*put)(const struct shown *shown, struct strbuf *sb); /* in the place of text */
	const struct rows *rows;
	bool is_state; /* words with a colour: running, failed, pending ... */
	bool is_number;
	bool is_wide;	  /* texts from elsewhere: cut at the width of a terminal */
	bool is_verbose;  /* at the end of a table: with --verbose only */
	bool is_optional; /* field: only if it is not empty */
};

struct table;

/** Errors stick and are told by table_print(). NULL when memory is short. */
struct table *table_new(const struct column *columns, size_t n);

/** Show wide columns whole although a terminal has no room. NULL is allowed. */
void table_show_whole(struct table *table, bool whole);

void table_free(struct table *table);
DEFINE_CLEANUP(struct table, table_free)

/** Add a line of as many @cells as there are columns; NULL and "" are shown as "-". */
void table_add(struct table *table, const char *const *cells);

/** Print with a @title line above when it is not NULL. A NULL @table is STATUS_RESOURCE_EXHAUSTED. */
enum status table_print(struct table *table, const char *title, struct error *err);

/** Prints tables whole from now on, however wide the terminal is. */
void print_wide(bool wide);

/** Width of the terminal @fd; 0 if it is no terminal. */
size_t columns_of(int fd);

/** "Name  value"; NULL and "" are shown as "-". */
void print_field(const char *name, const char *value);

/** printf and a newline to standard output, made harmless. */
void print_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** Text of several lines. */
void print_text(FILE *out, const char *text);

/** print_text() of an error. With more than @columns of them (0: no terminal) every reason has a line of its
 * own, and the next command too, which so can be copied whole. */
void print_reasons(FILE *out, const char *text, size_t columns);

/** The API's message as JSON, as the .proto file names the fields, with defaults. */
enum status print_answer(const ProtobufCMessage *message, struct error *err);

/** Print @json and drop the reference; NULL means that memory ran out. */
enum status print_json(json_t *json, struct error *err);

/** Print @json in one line and drop the reference; NULL as above. */
enum status print_json_line(json_t *json, struct error *err);

/** A message as one line of JSON, out before this returns. */
enum status print_answer_line(const ProtobufCMessage *message, struct error *err);

/** From now on, print YAML for JSON; several values are documents of one stream. */
void print_yaml(bool on);

enum { AGE_SIZE = CLOCK_TEXT_SIZE };

/** Time since @realtime_ms as of @now_ms: "3h05m", "0s" for the future; "" for 0. Returns @text. */
const char *age_text(int64_t realtime_ms, int64_t now_ms, char text[static AGE_SIZE]);

enum { SIZE_TEXT_SIZE = 32 };

/** "10GiB", "1.5GiB", "1500 bytes"; "" for 0. Returns @text. */
const char *size_text(uint64_t bytes, char text[static SIZE_TEXT_SIZE]);

/** An error for programs, on standard error: {"code", "message", "details"}. @details may be NULL */
void print_error_json(const struct error *error, const ProtobufCMessage *details);

/** May @fd show colours: a terminal, and NO_COLOR is not set? */
bool has_colors(int fd);
