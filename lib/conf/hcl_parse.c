/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/hcl_parse.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "conf/conf.h"
#include "conf/hcl_lex.h"

#include <stdbool.h>
#include <string.h>

#define cleanup_json cleanup(json_decrefp)

struct parser {
	struct hcl_lexer lexer;
	struct hcl_token token; /* the next one */
	struct lines *lines;
	unsigned int depth;
	struct error *err;
};

/* A key with its place, taken from the text. */
struct key {
	char *text; /* owned */
	unsigned int line;
};

static void key_release(struct key *key)
{
	free(key->text);
}

#define cleanup_key cleanup(key_release)

static enum status parse_value(struct parser *p, json_t **ret);
static enum status parse_body(struct parser *p, enum hcl_type closing, unsigned int line, json_t **ret);

static enum status advance(struct parser *p)
{
	return hcl_lex(&p->lexer, &p->token, p->err);
}

static enum status no_memory(const struct parser *p)
{
	return line_no_memory(p->lexer.file, p->err);
}

/* "<wanted> is missing before <what was found>" */
static enum status unexpected(const struct parser *p, const char *wanted)
{
	char buffer[HCL_SHOW_SIZE];

	return line_error(p->lexer.file, p->token.line, p->err, "%s expected, found %s", wanted,
			  hcl_show(&p->token, buffer));
}

static enum status note(struct parser *p, const json_t *object, const char *key, unsigned int line,
			enum line_kind kind)
{
	struct line place = {.file = p->lexer.file, .number = line, .kind = kind};

	return lines_set(p->lines, object, key, &place) < 0 ? no_memory(p) : STATUS_OK;
}

/* Put @value, which is taken over in any case, into @object. */
static enum status put(struct parser *p, json_t *object, const struct key *key, json_t *value,
		       enum line_kind kind)
{
	if (json_object_set_new_nocheck(object, key->text, value) < 0)
		return no_memory(p);
	return note(p, object, key->text, key->line, kind);
}

static enum status enter(struct parser *p)
{
	if (p->depth == CONF_DEPTH_MAX)
		return line_error(p->lexer.file, p->token.line, p->err, "nested deeper than %d levels",
				  CONF_DEPTH_MAX);
	p->depth++;
	return advance(p);
}

static enum status skip_newlines(struct parser *p)
{
	while (p->token.type == HCL_NEWLINE) {
		enum status status = advance(p);

		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static enum status parse_list(struct parser *p, json_t **ret)
{
	cleanup_json json_t *list = json_array();
	unsigned int line = p->token.line;
	enum status status = list ? enter(p) : no_memory(p);

	while (status == STATUS_OK) {
		json_t *element = NULL;

		status = skip_newlines(p);
		if (status != STATUS_OK || p->token.type == HCL_CLOSE_BRACKET)
			break;
		if (p->token.type == HCL_END)
			return line_error(p->lexer.file, line, p->err, "the list has no closing ']'");
		status = parse_value(p, &element);
		if (status != STATUS_OK)
			break;
		if (json_array_append_new(list, element) < 0)
			return no_memory(p);
		status = skip_newlines(p);
		if (status != STATUS_OK || p->token.type == HCL_CLOSE_BRACKET)
			break;
		if (p->token.type == HCL_END)
			return line_error(p->lexer.file, line, p->err, "the list has no closing ']'");
		status = p->token.type == HCL_COMMA ? advance(p) : unexpected(p, "',' or ']'");
	}
	if (status != STATUS_OK)
		return status;
	p->depth--;
	*ret = TAKE_PTR(list);
	return advance(p);
}

static enum status parse_object(struct parser *p, json_t **ret)
{
	unsigned int line = p->token.line;
	enum status status = enter(p);

	if (status == STATUS_OK)
		status = parse_body(p, HCL_CLOSE_BRACE, line, ret);
	p->depth--;
	return status;
}

/* JSON's grammar of numbers, and its ranges. */
static enum status parse_number(struct parser *p, json_t **ret)
{
	json_t *number = json_loads(p->token.text, JSON_DECODE_ANY, NULL);

	if (!json_is_number(number)) {
		json_decref(number);
		return line_error(p->lexer.file, p->token.line, p->err,
				  "'%.48s' is not a number, quote values with a unit", p->token.text);
	}
	*ret = number;
	return advance(p);
}

static enum status parse_word(struct parser *p, json_t **ret)
{
	if (str_eq(p->token.text, "true"))
		*ret = json_true();
	else if (str_eq(p->token.text, "false"))
		*ret = json_false();
	else if (str_eq(p->token.text, "null"))
		*ret = json_null();
	else
		return line_error(p->lexer.file, p->token.line, p->err,
				  "'%.48s' must be quoted, only true, false and null are not", p->token.text);
	return advance(p);
}

static enum status parse_string(struct parser *p, json_t **ret)
{
	*ret = json_string_nocheck(p->token.text);
	return *ret ? advance(p) : no_memory(p);
}

/* On failure *@ret may be filled: it is the caller's to free in any case. */
static enum status parse_any(struct parser *p, json_t **ret)
{
	switch (p->token.type) {
	case HCL_STRING:
		return parse_string(p, ret);
	case HCL_NUMBER:
		return parse_number(p, ret);
	case HCL_IDENT:
		return parse_word(p, ret);
	case HCL_OPEN_BRACKET:
		return parse_list(p, ret);
	case HCL_OPEN_BRACE:
		return parse_object(p, ret);
	case HCL_END:
	case HCL_NEWLINE:
	case HCL_ASSIGN:
	case HCL_COMMA:
	case HCL_CLOSE_BRACE:
	case HCL_CLOSE_BRACKET:
		break;
	}
	return unexpected(p, "a value");
}

static enum status parse_value(struct parser *p, json_t **ret)
{
	cleanup_json json_t *value = NULL;
	enum status status = parse_any(p, &value);

	if (status == STATUS_OK)
		*ret = TAKE_PTR(value);
	return status;
}

static enum status twice(const struct parser *p, const json_t *object, const struct key *key,
			 const char *what)
{
	const struct line *first = lines_find(p->lines, object, key->text);

	return line_error(p->lexer.file, key->line, p->err, "'%.64s' is %s, first in line %u", key->text,
			  what, first ? first->number : 0);
}

static enum status parse_attribute(struct parser *p, json_t *object, const struct key *key)
{
	json_t *value = NULL;
	enum status status;

	if (json_object_get(object, key->text))
		return twice(p, object, key, "given twice");
	status = advance(p);
	if (status == STATUS_OK)
		status = parse_value(p, &value);
	if (status != STATUS_OK)
		return status;
	return put(p, object, key, value, LINE_VALUE);
}

/* One block without label is an object, more of the same name are a list. Takes @body over. */
static enum status add_block(struct parser *p, json_t *object, const struct key *key, json_t *body)
{
	cleanup_json json_t *mine = body;
	cleanup_json json_t *list = NULL;
	json_t *there = json_object_get(object, key->text);

	if (!there)
		return put(p, object, key, TAKE_PTR(mine), LINE_BLOCK);
	if (json_is_array(there))
		return json_array_append_new(there, TAKE_PTR(mine)) < 0 ? no_memory(p) : STATUS_OK;
	list = json_array();
	if (!list || json_array_append(list, there) < 0 || json_array_append_new(list, TAKE_PTR(mine)) < 0 ||
	    json_object_set_new_nocheck(object, key->text, TAKE_PTR(list)) < 0)
		return no_memory(p);
	return STATUS_OK;
}

/* Blocks with labels are members of one object, named by their labels. Takes @body over. */
static enum status add_labelled(struct parser *p, json_t *object, const struct key *key,
				const struct key *label, json_t *body)
{
	cleanup_json json_t *mine = body;
	json_t *there = json_object_get(object, key->text);
	enum status status = STATUS_OK;

	if (!there) {
		there = json_object();
		if (!there)
			return no_memory(p);
		status = put(p, object, key, there, LINE_LABELLED);
	}
	if (status == STATUS_OK && json_object_get(there, label->text))
		status = twice(p, there, label, "the label of two blocks");
	if (status == STATUS_OK)
		status = put(p, there, label, TAKE_PTR(mine), LINE_BLOCK);
	return status;
}

static enum status parse_block(struct parser *p, json_t *object, const struct key *key)
{
	cleanup_key struct key label = {.text = NULL};
	const struct line *first = lines_find(p->lines, object, key->text);
	enum line_kind kind = LINE_BLOCK;
	enum status status = STATUS_OK;
	json_t *body = NULL;

	if (p->token.type == HCL_STRING || p->token.type == HCL_IDENT) {
		label = (struct key){.text = TAKE_PTR(p->token.text), .line = p->token.line};
		kind = LINE_LABELLED;
		status = advance(p);
	}
	if (status != STATUS_OK)
		return status;
	if (p->token.type != HCL_OPEN_BRACE)
		return unexpected(p, kind == LINE_BLOCK ? "'=' or '{'" : "'{'");
	if (first && first->kind != kind)
		return twice(p, object, key, "given twice in different forms");
	status = parse_object(p, &body);
	if (status != STATUS_OK)
		return status;
	return kind == LINE_BLOCK ? add_block(p, object, key, body)
				  : add_labelled(p, object, key, &label, body);
}

static enum status parse_item(struct parser *p, json_t *object)
{
	cleanup_key struct key key = {.text = NULL, .line = p->token.line};
	enum status status;

	if (p->token.type != HCL_IDENT && p->token.type != HCL_STRING)
		return unexpected(p, "a name");
	key.text = TAKE_PTR(p->token.text);
	status = advance(p);
	if (status != STATUS_OK)
		return status;
	return p->token.type == HCL_ASSIGN ? parse_attribute(p, object, &key) : parse_block(p, object, &key);
}

/* Items end with their line; between braces a comma does as well. */
static enum status end_item(struct parser *p, enum hcl_type closing)
{
	if (p->token.type == closing || p->token.type == HCL_END)
		return STATUS_OK;
	if (p->token.type == HCL_NEWLINE || (p->token.type == HCL_COMMA && closing == HCL_CLOSE_BRACE))
		return advance(p);
	return unexpected(p, "the end of the line");
}

/* Items until @closing, which is passed over; @line is where they began. */
static enum status parse_body(struct parser *p, enum hcl_type closing, unsigned int line, json_t **ret)
{
	cleanup_json json_t *object = json_object();
	enum status status = object ? note(p, object, NULL, line, LINE_VALUE) : no_memory(p);

	while (status == STATUS_OK) {
		status = skip_newlines(p);
		if (status != STATUS_OK || p->token.type == closing)
			break;
		if (p->token.type == HCL_END)
			return line_error(p->lexer.file, line, p->err, "the '{' has no closing '}'");
		status = parse_item(p, object);
		if (status == STATUS_OK)
			status = end_item(p, closing);
	}
	if (status == STATUS_OK && closing != HCL_END)
		status = advance(p);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(object);
	return status;
}

enum status hcl_parse(const char *text, const char *file, struct lines *lines, json_t **ret,
		      struct error *err)
{
	struct parser parser = {
		.lexer = {.file = file, .at = text, .line = 1},
		.lines = lines,
		.err = err,
	};
	enum status status = advance(&parser);

	if (status == STATUS_OK)
		status = parse_body(&parser, HCL_END, 1, ret);
	hcl_token_release(&parser.token);
	return status;
}
