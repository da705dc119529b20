/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The side table of a document: which file and line a member of the JSON tree comes from. Nodes are known by
 * their address, so they must live as long as the table, which holds a reference of each object that was
 * noted. */

#include "base/error.h"

#include <jansson.h>

struct lines;

/* How a member was written. A member is written in one way only. */
enum line_kind {
	LINE_VALUE,    /* key = value, or the whole object when there is no key */
	LINE_BLOCK,    /* key { } */
	LINE_LABELLED, /* key "label" { } */
};

struct line {
	const char *file; /* borrowed from the table */
	unsigned int number;
	enum line_kind kind;
};

/** NULL when memory is short. */
struct lines *lines_new(void);
void lines_free(struct lines *lines);

/** Keeps the name of a file; NULL when memory is short. @ret borrowed from the table */
const char *lines_file(struct lines *lines, const char *name);

/** Notes where member @key of @object is, or the object itself when @key is NULL; replaces an earlier note.
 * @line.file comes from lines_file(). Returns 0 or -ENOMEM. */
int lines_set(struct lines *lines, const json_t *object, const char *key, const struct line *line);

/** NULL when nothing was noted. */
const struct line *lines_find(const struct lines *lines, const json_t *object, const char *key);

/** Fills @err with "FILE:LINE: <message>", STATUS_INVALID_ARGUMENT. */
enum status line_error(const char *file, unsigned int number, struct error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/** "FILE: out of memory", STATUS_RESOURCE_EXHAUSTED. */
enum status line_no_memory(const char *file, struct error *err);
