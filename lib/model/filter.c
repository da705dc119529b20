/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/filter_internal.h"

#include <stdlib.h>
#include <string.h>

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
	enum status st = add_node(p, &(struct filter_node){.kind = FILTER_MATCH, .match = *match}, ret);

	if (st == STATUS_OK && negated)
		st = add_node(p, &(struct filter_node){.kind = FILTER_NOT, .left = *ret}, ret);
	return st;
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
	enum status st = filter_advance(p);

	if (st != STATUS_OK)
		return st;
	first = p->token;
	if (first.type != TOKEN_WORD)
		return filter_refuse(p, first.column, "a field's name should stand here");
	st = filter_advance(p);
	if (st == STATUS_OK)
		st = filter_parse_field(p, &first, &match);
	if (st == STATUS_OK)
		st = filter_check(p, value, &match, first.column);
	return st == STATUS_OK ? add_match(p, &match, negated, ret) : st;
}

/* "is" ["not"] "empty" */
static enum status parse_is(struct filter_parser *p, struct filter_match *match, size_t column, uint32_t *ret)
{
	bool is_not;
	enum status st = filter_advance(p);

	if (st == STATUS_OK)
		st = parse_not(p, &is_not);
	if (st != STATUS_OK)
		return st;
	if (!filter_is_word(p, "empty"))
		return filter_refuse(p, p->token.column, "empty should stand here");
	match->op = FILTER_HAS_SOME;
	st = filter_check(p, NULL, match, column);
	if (st == STATUS_OK)
		st = filter_advance(p);
	return st == STATUS_OK ? add_match(p, match, !is_not, ret) : st;
}

static enum status parse_comparison(struct filter_parser *p, struct filter_match *match, size_t column,
				    bool negated, uint32_t *ret)
{
	bool equals = !negated && (filter_is_sign(p, "==") || filter_is_sign(p, "!="));
	struct filter_token value;
	enum status st;

	if (!equals && !filter_is_word(p, "contains"))
		return filter_refuse(p, p->token.column,
				     "==, !=, contains, in, or is empty should stand here, not '%.64s'",
				     p->token.text);
	negated = negated || filter_is_sign(p, "!=");
	st = filter_advance(p);
	if (st != STATUS_OK)
		return st;
	value = p->token;
	if (!filter_is_value(p))
		return filter_refuse(p, value.column, "a value should stand here");
	match->op = equals ? FILTER_EQUALS : FILTER_CONTAINS;
	st = filter_check(p, &value, match, column);
	if (st == STATUS_OK)
		st = filter_advance(p);
	return st == STATUS_OK ? add_match(p, match, negated, ret) : st;
}

static enum status parse_match(struct filter_parser *p, uint32_t *ret)
{
	struct filter_match match = {.op = FILTER_EQUALS};
	struct filter_token first = p->token;
	bool negated;
	enum status st;

	if (!filter_is_value(p))
		return filter_refuse(p, first.column, "a comparison should stand here");
	st = filter_advance(p);
	if (st == STATUS_OK && first.type == TOKEN_WORD && !filter_is_word(p, "in") &&
	    !filter_is_word(p, "not"))
		st = filter_parse_field(p, &first, &match);
	if (st == STATUS_OK)
		st = parse_not(p, &negated);
	if (st != STATUS_OK)
		return st;
	if (filter_is_word(p, "in"))
		return match.n_path == 0 ? parse_in(p, &first, negated, ret)
					 : filter_refuse(p, p->token.column, "before in stands a value");
	if (first.type == TOKEN_QUOTED)
		return filter_refuse(p, p->token.column, "behind a value stands in or not in");
	if (match.n_path == 0) { /* "field not contains" */
		st = filter_parse_field(p, &first, &match);
		if (st != STATUS_OK)
			return st;
	}
	if (filter_is_word(p, "is") && !negated)
		return parse_is(p, &match, first.column, ret);
	return parse_comparison(p, &match, first.column, negated, ret);
}

static enum status parse_or(struct filter_parser *p, uint32_t *ret);

// NOLINTNEXTLINE(misc-no-recursion): parse_unary() bounds the depth
static enum status parse_group(struct filter_parser *p, uint32_t *ret)
{
	enum status st = parse_or(p, ret);

	if (st == STATUS_OK && !filter_is_sign(p, ")"))
		return filter_refuse(p, p->token.column, "and, or, or ) should stand here");
	return st == STATUS_OK ? filter_advance(p) : st;
}

static enum status parse_unary(struct filter_parser *p, uint32_t *ret) // NOLINT(misc-no-recursion): bounded
{
	bool is_not = filter_is_word(p, "not");
	enum status st;

	if (!is_not && !filter_is_sign(p, "("))
		return parse_match(p, ret);
	if (p->depth == FILTER_DEPTH_MAX)
		return filter_refuse(p, p->token.column,
				     "more than %d parentheses and nots within each other", FILTER_DEPTH_MAX);
	p->depth++;
	st = filter_advance(p);
	if (st == STATUS_OK)
		st = is_not ? parse_unary(p, ret) : parse_group(p, ret);
	if (st == STATUS_OK && is_not)
		st = add_node(p, &(struct filter_node){.kind = FILTER_NOT, .left = *ret}, ret);
	p->depth--;
	return st;
}

typedef enum status parse_fn(struct filter_parser *p, uint32_t *ret);

// NOLINTNEXTLINE(misc-no-recursion): parse_unary() bounds the depth
static enum status parse_joined(struct filter_parser *p, const char *word, enum filter_kind kind,
				parse_fn *operand, uint32_t *ret)
{
	enum status st = operand(p, ret);

	while (st == STATUS_OK && filter_is_word(p, word)) {
		struct filter_node node = {.kind = kind, .left = *ret};

		st = filter_advance(p);
		if (st == STATUS_OK)
			st = operand(p, &node.right);
		if (st == STATUS_OK)
			st = add_node(p, &node, ret);
	}
	return st;
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
	enum status st;

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
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "filter: out of memory");
	p.next_text = filter->texts;
	st = filter_advance(&p);
	if (st == STATUS_OK)
		st = parse_or(&p, &root);
	if (st == STATUS_OK && p.token.type != TOKEN_END)
		return filter_refuse(&p, p.token.column, "and, or, or the end should stand here, not '%.64s'",
				     p.token.text);
	if (st == STATUS_OK)
		*ret = TAKE_PTR(filter);
	return st;
}
