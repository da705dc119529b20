/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Output for people and programs: tables, fields and JSON on standard output. Text from elsewhere is made
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

/** "Name  value"; NULL and "" are shown as "-". */
void print_field(const char *name, const char *value);

/** printf and a newline to standard output, made harmless. */
void print_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** The same to standard error. */
void print_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** Text of several lines. */
void print_text(FILE *out, const char *text);

/** Prints an error as print_text() does. If it has more than @columns (0: no terminal), every reason has a
 * line of its own, and the next command too, so that it can be copied whole. */
void print_reasons(FILE *out, const char *text, size_t columns);

/** The API's message as JSON, as the .proto file names the fields, with defaults. */
enum status print_answer(const ProtobufCMessage *message, struct error *err);

/* The answer of a List method as print_answer() prints it, of which one page is in memory. */
struct list_output {
	json_t *rest; /* fields of the first page other than the list; NULL before it */
	size_t n;     /* printed elements of the list */
};

void list_output_release(struct list_output *output);

/** Print the next page of an answer whose first field is the list; @output begins as zeros. */
enum status print_list_page(struct list_output *output, const ProtobufCMessage *page, bool is_last,
			    struct error *err);

/** @text in JSON; "?" takes the place of bytes that are no UTF-8, as of a file's name or a cut message. NULL
 * when memory is short. */
json_t *json_text(const char *text);

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
