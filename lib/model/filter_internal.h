/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A filter as it is parsed; shared by its parser and its evaluation. */

#include "model/filter.h"

#include <stddef.h>
#include <stdint.h>

enum filter_kind {
	FILTER_OR,
	FILTER_AND,
	FILTER_NOT,
	FILTER_MATCH,
};

enum filter_op {
	FILTER_EQUALS,
	FILTER_CONTAINS,
	FILTER_HAS_SOME, /* is not empty */
};

/* One name on the way to a value. */
struct filter_step {
	const ProtobufCFieldDescriptor *field;
	const char *key; /* of the map @field; NULL: the field itself */
};

union filter_literal {
	const char *text;
	uint64_t number; /* bool, integers and enums; negative ones in two's complement */
};

struct filter_match {
	struct filter_step path[FILTER_PATH_MAX];
	uint32_t n_path;
	enum filter_op op;
	union filter_literal literal;
};

struct filter_node {
	enum filter_kind kind;
	uint32_t left, right; /* of or, and; not: left. Always below the node's own place */
	struct filter_match match;
};

struct filter {
	struct filter_node *nodes; /* owned; the last one is the root */
	uint32_t n_nodes;
	char *texts; /* owned; what keys and literals point to */
};

/** Is the field a map? protobuf-c shows one as a list of messages NameEntry of key and value. */
bool filter_is_map(const ProtobufCFieldDescriptor *field);

/** Is the value of @field a whole number, a bool or an enum, and of how many bytes? 0: it is not. */
size_t filter_number_size(const ProtobufCFieldDescriptor *field);

enum filter_token_type {
	TOKEN_END,
	TOKEN_WORD,   /* a name, or a value without quotes */
	TOKEN_QUOTED, /* always a value */
	TOKEN_SIGN,   /* ( ) [ ] == != */
};

struct filter_token {
	enum filter_token_type type;
	const char *text; /* in the filter's texts */
	size_t column;	  /* from 1 */
};

struct filter_parser {
	struct filter *filter;
	const ProtobufCMessageDescriptor *descriptor;
	const char *source;
	size_t at; /* in the source */
	char *next_text;
	struct filter_token token; /* the one that is looked at */
	unsigned int depth;
	struct error *err;
};

/** Fill the parser's error, with the column; returns its status. */
enum status filter_refuse(const struct filter_parser *p, size_t column, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Look at the next token. */
enum status filter_advance(struct filter_parser *p);

bool filter_is_sign(const struct filter_parser *p, const char *text);
bool filter_is_word(const struct filter_parser *p, const char *text);
bool filter_is_value(const struct filter_parser *p);

/** Read the rest of the field that begins with the word @first; the token behind that is looked at. */
enum status filter_parse_field(struct filter_parser *p, const struct filter_token *first,
			       struct filter_match *match);

/** May the question of @match, whose field begins at @column, be asked of it? Reads @value as what the field
 * holds (not looked at for FILTER_HAS_SOME). */
enum status filter_check(const struct filter_parser *p, const struct filter_token *value,
			 struct filter_match *match, size_t column);
