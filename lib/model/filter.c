/* SPDX-License-Identifier: Apache-2.0 */
#include "model/filter.h"

#include "base/cleanup.h"
#include "base/closest.h"
#include "base/str.h"
#include "base/utf8.h"
#include "pb/pbjson_word.h"
#include "pb/reflect.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	char *texts;   /* owned; what keys and literals point to */
	uint64_t work; /* values that it has looked at; a text counts once more for each of its TEXT_UNIT
			  bytes */
};

enum { WORK_MAX = 200 * 1000, TEXT_UNIT = 64 };

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

/* Fill the parser's error, with the column; returns its status. */
__attribute__((format(printf, 3, 4))) static enum status filter_refuse(const struct filter_parser *p,
								       size_t column, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return error_set(p->err, STATUS_INVALID_ARGUMENT, 0, "filter: column %zu: %s", column, text);
}

static bool is_word_char(char c)
{
	const char text[] = {c, '\0'};

	return c != '\0' && str_is_made_of(text, "_-./:+");
}

/* Each token takes at most its own length and a NUL, so twice the source's length is enough. */
static void put_text(struct filter_parser *p, const char *bytes, size_t n)
{
	memcpy(p->next_text, bytes, n);
	p->next_text[n] = '\0';
	p->token.text = p->next_text;
	p->next_text += n + 1;
}

static enum status read_quoted(struct filter_parser *p)
{
	char quote = p->source[p->at];
	const char *from = p->source + p->at + 1;
	char *to = p->next_text;

	for (; *from != quote; from++) {
		if (*from == '\\' && quote == '"') {
			from++;
			if (*from != '"' && *from != '\\')
				return filter_refuse(
					p, p->token.column,
					"in quotes, a \\ is only allowed before \" or \\; write `...` for a "
					"text with others");
		}
		if (*from == '\0')
			return filter_refuse(p, p->token.column,
					     "the text that begins here has no closing %c", quote);
		*to++ = *from;
	}
	*to = '\0';
	p->token.type = TOKEN_QUOTED;
	p->token.text = p->next_text;
	p->next_text = to + 1;
	p->at = (size_t)(from + 1 - p->source);
	return STATUS_OK;
}

static size_t sign_length(const char *s)
{
	if (s[0] != '\0' && strchr("()[]", s[0]))
		return 1;
	return (s[0] == '=' || s[0] == '!') && s[1] == '=' ? 2 : 0;
}

/* Look at the next token. */
static enum status filter_advance(struct filter_parser *p)
{
	const char *s;
	size_t n = 0;

	while (p->source[p->at] != '\0' && strchr(" \t\r\n", p->source[p->at]))
		p->at++;
	s = p->source + p->at;
	p->token = (struct filter_token){.type = TOKEN_END, .text = "", .column = p->at + 1};
	if (*s == '\0')
		return STATUS_OK;
	if (*s == '"' || *s == '`')
		return read_quoted(p);
	n = sign_length(s);
	p->token.type = n > 0 ? TOKEN_SIGN : TOKEN_WORD;
	while (p->token.type == TOKEN_WORD && is_word_char(s[n]))
		n++;
	if (n == 0)
		return filter_refuse(p, p->token.column,
				     "expected a name, a value, ==, != or a parenthesis "
				     "here; values with other characters go in quotes");
	put_text(p, s, n);
	p->at += n;
	return STATUS_OK;
}

static bool filter_is_sign(const struct filter_parser *p, const char *text)
{
	return p->token.type == TOKEN_SIGN && str_eq(p->token.text, text);
}

static bool filter_is_word(const struct filter_parser *p, const char *text)
{
	return p->token.type == TOKEN_WORD && str_eq(p->token.text, text);
}

static bool filter_is_value(const struct filter_parser *p)
{
	return p->token.type == TOKEN_WORD || p->token.type == TOKEN_QUOTED;
}

static bool value_equals(const struct filter_match *match, const ProtobufCFieldDescriptor *field,
			 const char *at)
{
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return str_eq(reflect_text(at), match->literal.text);
	return reflect_number(field->type, at) == match->literal.number;
}

/* Is @match's question answered yes by the list or map @field of @message itself? */
static bool list_answers(struct filter *filter, const struct filter_match *match,
			 const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
	const struct reflect_values values = reflect_values(message, field);
	bool is_map = reflect_is_map(field);

	if (match->op == FILTER_HAS_SOME)
		return values.n > 0;
	filter->work += values.n;
	for (size_t i = 0; i < values.n; i++) {
		const char *at = reflect_value(&values, i);

		if (is_map ? str_eq(reflect_entry_key(reflect_message(at)), match->literal.text)
			   : value_equals(match, field, at))
			return true;
	}
	return false;
}

static bool value_answers(struct filter *filter, const struct filter_match *match,
			  const ProtobufCFieldDescriptor *field, const char *at)
{
	if (match->op == FILTER_CONTAINS)
		filter->work += strlen(reflect_text(at)) / TEXT_UNIT;
	switch (match->op) {
	case FILTER_EQUALS:
		return value_equals(match, field, at);
	case FILTER_CONTAINS:
		return strstr(reflect_text(at), match->literal.text) != NULL;
	case FILTER_HAS_SOME:
		break;
	}
	return !reflect_is_zero(field->type, at);
}

/* Does the way from @message, beginning with its step @i, lead to a value that answers yes? Recursion is as
 * deep as the path is long. */
static bool path_answers(struct filter *filter, // NOLINT(misc-no-recursion): bounded
			 const struct filter_match *match, uint32_t i, const ProtobufCMessage *message)
{
	const struct filter_step *step = &match->path[i];
	const ProtobufCFieldDescriptor *field = step->field;
	const struct reflect_values values = reflect_values(message, field);
	bool is_last = i + 1 == match->n_path;

	filter->work++;
	if (!reflect_is_list(field)) {
		if (reflect_in_oneof(field) && values.n == 0)
			return false;
		if (is_last)
			return value_answers(filter, match, field, values.first);
		return values.n > 0 && path_answers(filter, match, i + 1, reflect_message(values.first));
	}
	if (is_last && !step->key)
		return list_answers(filter, match, field, message);
	for (size_t k = 0; k < values.n; k++) {
		const ProtobufCMessage *element = reflect_message(reflect_value(&values, k));

		filter->work++;
		if (step->key) {
			const ProtobufCFieldDescriptor *value =
				&element->descriptor->fields[REFLECT_MAP_VALUE];

			if (!str_eq(reflect_entry_key(element), step->key))
				continue;
			if (is_last)
				return value_answers(filter, match, value, reflect_at(element, value));
			element = reflect_message(reflect_at(element, value));
		}
		if (element && path_answers(filter, match, i + 1, element))
			return true;
	}
	return false;
}

/* Nodes only name those before them, so one walk in their order answers each once. */
bool filter_matches(struct filter *filter, const ProtobufCMessage *message)
{
	bool answers[FILTER_NODES_MAX] = {false}; /* there is at least one node */

	for (uint32_t i = 0; i < filter->n_nodes; i++) {
		const struct filter_node *node = &filter->nodes[i];

		switch (node->kind) {
		case FILTER_OR:
			answers[i] = answers[node->left] || answers[node->right];
			break;
		case FILTER_AND:
			answers[i] = answers[node->left] && answers[node->right];
			break;
		case FILTER_NOT:
			answers[i] = !answers[node->left];
			break;
		case FILTER_MATCH:
			answers[i] = path_answers(filter, &node->match, 0, message);
			break;
		}
	}
	return answers[filter->n_nodes - 1];
}

bool filter_is_spent(const struct filter *filter)
{
	return filter && filter->work > WORK_MAX;
}

enum { FIELDS_MAX = 64 }; /* that are compared with a misspelt name */

static enum status no_such_field(const struct filter_parser *p, const ProtobufCMessageDescriptor *descriptor,
				 const char *name, size_t column)
{
	const char *names[FIELDS_MAX];
	const char *meant;
	size_t n = 0;

	for (; n < descriptor->n_fields && n < FIELDS_MAX; n++)
		names[n] = descriptor->fields[n].name;
	meant = closest(name, names, n);
	return filter_refuse(p, column, "%s has no field '%.64s'%s%s%s", descriptor->short_name, name,
			     meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* A field on its way: what the next name is looked up in. */
struct way {
	const ProtobufCMessageDescriptor *message; /* NULL: values have no fields */
	bool is_map;				   /* the next name is a key of the last step */
	size_t column;
};

/* The last step of a path that has begun. */
static const struct filter_step *last_step(const struct filter_match *match)
{
	const struct filter_step *last = &match->path[match->n_path - 1];

	assert(match->n_path > 0 && last->field);
	return last;
}

static enum status add_step(struct filter_parser *p, struct filter_match *match, struct way *way,
			    const char *name)
{
	const ProtobufCFieldDescriptor *field;

	if (way->is_map) {
		const ProtobufCMessageDescriptor *entry = last_step(match)->field->descriptor;

		match->path[match->n_path - 1].key = name;
		way->is_map = false;
		way->message =
			entry->fields[1].type == PROTOBUF_C_TYPE_MESSAGE ? entry->fields[1].descriptor : NULL;
		return STATUS_OK;
	}
	if (!way->message)
		return filter_refuse(p, way->column, "'%s' has no fields; '%.64s' cannot follow it",
				     last_step(match)->field->name, name);
	if (match->n_path == FILTER_PATH_MAX)
		return filter_refuse(p, way->column, "more than %d names in one field", FILTER_PATH_MAX);
	field = reflect_find(way->message, name);
	if (!field)
		return no_such_field(p, way->message, name, way->column);
	match->path[match->n_path++] = (struct filter_step){.field = field};
	way->is_map = reflect_is_map(field);
	way->message = field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
	return STATUS_OK;
}

/* "a.b.c": one value, or the part of one behind a "]". */
static enum status add_names(struct filter_parser *p, struct filter_match *match, struct way *way,
			     const struct filter_token *word)
{
	char *name = p->filter->texts + (word->text - p->filter->texts);

	while (name) {
		char *dot = strchr(name, '.');

		if (dot)
			*dot = '\0';
		way->column = word->column + (size_t)(name - word->text);
		TRY(name[0] == '\0' ? filter_refuse(p, way->column, "expected the name of a field here")
				    : add_step(p, match, way, name));
		name = dot ? dot + 1 : NULL;
	}
	return STATUS_OK;
}

static enum status parse_key(struct filter_parser *p, struct filter_match *match, struct way *way)
{
	TRY(filter_advance(p));
	if (!filter_is_value(p))
		return filter_refuse(p, p->token.column, "expected the key of a map here");
	if (!way->is_map)
		return filter_refuse(p, p->token.column, "'%s' is not a map; [...] takes a map's key",
				     last_step(match)->field->name);
	way->column = p->token.column;
	enum status status = add_step(p, match, way, p->token.text);
	if (status == STATUS_OK)
		status = filter_advance(p);
	if (status == STATUS_OK && !filter_is_sign(p, "]"))
		return filter_refuse(p, p->token.column, "expected ] here");
	return status;
}

/* @first is the value it begins with; the token behind it is being looked at. */
static enum status filter_parse_field(struct filter_parser *p, const struct filter_token *first,
				      struct filter_match *match)
{
	struct way way = {.message = p->descriptor};
	enum status status = add_names(p, match, &way, first);

	while (status == STATUS_OK && filter_is_sign(p, "[")) {
		size_t end;

		status = parse_key(p, match, &way);
		end = p->at;
		if (status == STATUS_OK)
			status = filter_advance(p);
		if (status == STATUS_OK && p->token.type == TOKEN_WORD && p->token.text[0] == '.' &&
		    p->token.column == end + 1) {
			struct filter_token rest = {
				.type = TOKEN_WORD, .text = p->token.text + 1, .column = end + 2};

			status = add_names(p, match, &way, &rest);
			if (status == STATUS_OK)
				status = filter_advance(p);
		}
	}
	return status;
}

/* The type at the end of the path: for a map with a key that of its value. */
static const ProtobufCFieldDescriptor *end_of(const struct filter_match *match, bool *ret_is_list)
{
	const struct filter_step *last = last_step(match);

	*ret_is_list = reflect_is_list(last->field) && !last->key;
	return last->key ? &((const ProtobufCMessageDescriptor *)last->field->descriptor)->fields[1]
			 : last->field;
}

static enum status read_number(const struct filter_parser *p, const struct filter_token *token,
			       const ProtobufCFieldDescriptor *field, uint64_t *ret)
{
	bool is_signed = reflect_is_signed(field->type);
	bool is_negative = is_signed && token->text[0] == '-';
	const char *digits = token->text + is_negative;
	char *end = NULL;
	unsigned long long number;

	errno = 0;
	number = strtoull(digits, &end, 10);
	if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || errno != 0 ||
	    (is_signed && number > INT64_MAX))
		return filter_refuse(p, token->column, "%s is compared with a whole number%s, not '%.64s'",
				     field->name, is_signed ? "" : " from 0 on", token->text);
	*ret = is_negative ? (uint64_t)0 - number : number;
	return STATUS_OK;
}

static enum status read_enum(const struct filter_parser *p, const struct filter_token *token,
			     const ProtobufCFieldDescriptor *field, uint64_t *ret)
{
	const ProtobufCEnumDescriptor *type = field->descriptor;

	const ProtobufCEnumValue *value = pbjson_word_find(type, token->text, true);

	if (value) {
		*ret = (uint64_t)(int64_t)value->value;
		return STATUS_OK;
	}
	return filter_refuse(p, token->column, "%s has no value '%.64s'; one is %s", field->name, token->text,
			     type->values[type->n_values - 1].name);
}

static enum status read_literal(const struct filter_parser *p, const struct filter_token *token,
				const ProtobufCFieldDescriptor *field, union filter_literal *ret)
{
	if (field->type == PROTOBUF_C_TYPE_STRING) {
		ret->text = token->text;
		return STATUS_OK;
	}
	if (field->type == PROTOBUF_C_TYPE_ENUM)
		return read_enum(p, token, field, &ret->number);
	if (field->type != PROTOBUF_C_TYPE_BOOL)
		return read_number(p, token, field, &ret->number);
	if (!str_eq(token->text, "true") && !str_eq(token->text, "false"))
		return filter_refuse(p, token->column, "%s is compared with true or false, not '%.64s'",
				     field->name, token->text);
	ret->number = token->text[0] == 't';
	return STATUS_OK;
}

static enum status check_equals(const struct filter_parser *p, const struct filter_token *value,
				struct filter_match *match, size_t column)
{
	bool is_list;
	const ProtobufCFieldDescriptor *field = end_of(match, &is_list);

	if (is_list)
		return filter_refuse(p, column, "'%s' has many values: ask with contains, in, or is empty",
				     field->name);
	if (field->type != PROTOBUF_C_TYPE_STRING && !reflect_is_number(field->type))
		return filter_refuse(p, column,
				     "'%s' cannot be compared; name a field of it, or ask with is empty",
				     field->name);
	return read_literal(p, value, field, &match->literal);
}

static enum status check_contains(const struct filter_parser *p, const struct filter_token *value,
				  struct filter_match *match, size_t column)
{
	bool is_list;
	const ProtobufCFieldDescriptor *field = end_of(match, &is_list);

	if (is_list && reflect_is_map(field)) {
		match->literal.text = value->text;
		return STATUS_OK;
	}
	if (field->type != PROTOBUF_C_TYPE_STRING && (!is_list || !reflect_is_number(field->type)))
		return filter_refuse(p, column, "'%s' is neither a text nor a list of plain values nor a map",
				     field->name);
	return read_literal(p, value, field, &match->literal);
}

static enum status check_empty(const struct filter_parser *p, const struct filter_match *match, size_t column)
{
	bool is_list;
	const ProtobufCFieldDescriptor *field = end_of(match, &is_list);

	if (!is_list && field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)
		return filter_refuse(p, column, "'%s' is never empty: compare it with a value", field->name);
	return STATUS_OK;
}

/* May the question of @match, whose field begins at @column, be asked of it? Reads @value as what the field
 * holds (not looked at for FILTER_HAS_SOME). */
static enum status filter_check(const struct filter_parser *p, const struct filter_token *value,
				struct filter_match *match, size_t column)
{
	switch (match->op) {
	case FILTER_EQUALS:
		return check_equals(p, value, match, column);
	case FILTER_CONTAINS:
		return check_contains(p, value, match, column);
	case FILTER_HAS_SOME:
		break;
	}
	return check_empty(p, match, column);
}

static enum status add_node(struct filter_parser *p, const struct filter_node *node, uint32_t *ret)
{
	struct filter *filter = p->filter;

	if (filter->n_nodes == FILTER_NODES_MAX)
		return filter_refuse(p, p->token.column, "more than %d comparisons, and, or, not",
				     FILTER_NODES_MAX);
	filter->nodes[filter->n_nodes] = *node;
	*ret = filter->n_nodes++;
	return STATUS_OK;
}

static enum status add_match(struct filter_parser *p, const struct filter_match *match, bool negated,
			     uint32_t *ret)
{
	TRY(add_node(p, &(struct filter_node){.kind = FILTER_MATCH, .match = *match}, ret));
	if (negated)
		TRY(add_node(p, &(struct filter_node){.kind = FILTER_NOT, .left = *ret}, ret));
	return STATUS_OK;
}

/* Skips an optional "not". */
static enum status parse_not(struct filter_parser *p, bool *ret)
{
	*ret = filter_is_word(p, "not");
	return *ret ? filter_advance(p) : STATUS_OK;
}

/* value ["not"] "in" field; "not" is behind us. */
static enum status parse_in(struct filter_parser *p, const struct filter_token *value, bool negated,
			    uint32_t *ret)
{
	struct filter_match match = {.op = FILTER_CONTAINS};
	struct filter_token first;

	TRY(filter_advance(p));
	first = p->token;
	if (first.type != TOKEN_WORD)
		return filter_refuse(p, first.column, "expected the name of a field here");
	TRY(filter_advance(p));
	TRY(filter_parse_field(p, &first, &match));
	TRY(filter_check(p, value, &match, first.column));
	return add_match(p, &match, negated, ret);
}

/* "is" ["not"] "empty" */
static enum status parse_is(struct filter_parser *p, struct filter_match *match, size_t column, uint32_t *ret)
{
	bool is_not;

	TRY(filter_advance(p));
	TRY(parse_not(p, &is_not));
	if (!filter_is_word(p, "empty"))
		return filter_refuse(p, p->token.column, "expected empty here");
	match->op = FILTER_HAS_SOME;
	TRY(filter_check(p, NULL, match, column));
	TRY(filter_advance(p));
	return add_match(p, match, !is_not, ret);
}

static enum status parse_comparison(struct filter_parser *p, struct filter_match *match, size_t column,
				    bool negated, uint32_t *ret)
{
	bool equals = !negated && (filter_is_sign(p, "==") || filter_is_sign(p, "!="));
	struct filter_token value;

	if (!equals && !filter_is_word(p, "contains"))
		return filter_refuse(p, p->token.column,
				     "expected ==, !=, contains, in, or is empty here, not '%.64s'",
				     p->token.text);
	negated = negated || filter_is_sign(p, "!=");
	TRY(filter_advance(p));
	value = p->token;
	if (!filter_is_value(p))
		return filter_refuse(p, value.column, "expected a value here");
	match->op = equals ? FILTER_EQUALS : FILTER_CONTAINS;
	TRY(filter_check(p, &value, match, column));
	TRY(filter_advance(p));
	return add_match(p, match, negated, ret);
}

static enum status parse_match(struct filter_parser *p, uint32_t *ret)
{
	struct filter_match match = {.op = FILTER_EQUALS};
	struct filter_token first = p->token;
	bool negated;

	if (!filter_is_value(p))
		return filter_refuse(p, first.column, "expected a comparison here");
	TRY(filter_advance(p));
	if (first.type == TOKEN_WORD && !filter_is_word(p, "in") && !filter_is_word(p, "not"))
		TRY(filter_parse_field(p, &first, &match));
	TRY(parse_not(p, &negated));
	if (filter_is_word(p, "in"))
		return match.n_path == 0 ? parse_in(p, &first, negated, ret)
					 : filter_refuse(p, p->token.column, "expected a value before in");
	if (first.type == TOKEN_QUOTED)
		return filter_refuse(p, p->token.column, "expected in or not in after a value");
	if (match.n_path == 0) { /* "field not contains" */
		TRY(filter_parse_field(p, &first, &match));
	}
	if (filter_is_word(p, "is") && !negated)
		return parse_is(p, &match, first.column, ret);
	return parse_comparison(p, &match, first.column, negated, ret);
}

static enum status parse_or(struct filter_parser *p, uint32_t *ret);

// NOLINTNEXTLINE(misc-no-recursion): parse_unary() bounds the depth
static enum status parse_group(struct filter_parser *p, uint32_t *ret)
{
	enum status status = parse_or(p, ret);

	if (status == STATUS_OK && !filter_is_sign(p, ")"))
		return filter_refuse(p, p->token.column, "expected and, or, or ) here");
	return status == STATUS_OK ? filter_advance(p) : status;
}

static enum status parse_unary(struct filter_parser *p, uint32_t *ret) // NOLINT(misc-no-recursion): bounded
{
	bool is_not = filter_is_word(p, "not");
	enum status status;

	if (!is_not && !filter_is_sign(p, "("))
		return parse_match(p, ret);
	if (p->depth == FILTER_DEPTH_MAX)
		return filter_refuse(p, p->token.column,
				     "more than %d parentheses and nots within each other", FILTER_DEPTH_MAX);
	p->depth++;
	status = filter_advance(p);
	if (status == STATUS_OK)
		status = is_not ? parse_unary(p, ret) : parse_group(p, ret);
	if (status == STATUS_OK && is_not)
		status = add_node(p, &(struct filter_node){.kind = FILTER_NOT, .left = *ret}, ret);
	p->depth--;
	return status;
}

typedef enum status parse_fn(struct filter_parser *p, uint32_t *ret);

// NOLINTNEXTLINE(misc-no-recursion): parse_unary() bounds the depth
static enum status parse_joined(struct filter_parser *p, const char *word, enum filter_kind kind,
				parse_fn *operand, uint32_t *ret)
{
	enum status status = operand(p, ret);

	while (status == STATUS_OK && filter_is_word(p, word)) {
		struct filter_node node = {.kind = kind, .left = *ret};

		status = filter_advance(p);
		if (status == STATUS_OK)
			status = operand(p, &node.right);
		if (status == STATUS_OK)
			status = add_node(p, &node, ret);
	}
	return status;
}

static enum status parse_and(struct filter_parser *p, uint32_t *ret) // NOLINT(misc-no-recursion): bounded
{
	return parse_joined(p, "and", FILTER_AND, parse_unary, ret);
}

static enum status parse_or(struct filter_parser *p, uint32_t *ret) // NOLINT(misc-no-recursion): bounded
{
	return parse_joined(p, "or", FILTER_OR, parse_and, ret);
}

void filter_free(struct filter *filter)
{
	if (!filter)
		return;
	free(filter->nodes);
	free(filter->texts);
	free(filter);
}
DEFINE_CLEANUP(struct filter, filter_free)

enum status filter_new(const char *text, const ProtobufCMessageDescriptor *descriptor, struct filter **ret,
		       struct error *err)
{
	cleanup(filter_freep) struct filter *filter = calloc(1, sizeof(*filter));
	struct filter_parser p = {.filter = filter, .descriptor = descriptor, .source = text, .err = err};
	size_t len = strlen(text);
	uint32_t root;
	enum status status;

	if (len > FILTER_TEXT_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "filter: longer than %d bytes",
				 FILTER_TEXT_MAX);
	if (!utf8_is_valid(text, len))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "filter: not UTF-8");
	if (filter) {
		filter->nodes = calloc(FILTER_NODES_MAX, sizeof(*filter->nodes));
		filter->texts = malloc(2 * len + 1);
	}
	if (!filter || !filter->nodes || !filter->texts)
		return error_no_memory(err, "a filter");
	p.next_text = filter->texts;
	status = filter_advance(&p);
	if (status == STATUS_OK)
		status = parse_or(&p, &root);
	if (status == STATUS_OK && p.token.type != TOKEN_END)
		return filter_refuse(&p, p.token.column, "expected and, or, or the end here, not '%.64s'",
				     p.token.text);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(filter);
	return status;
}
