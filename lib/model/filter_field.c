/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closest.h"
#include "base/str.h"
#include "model/filter_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* "pluginId" for "plugin_id", as JSON has it. */
static bool is_json_name(const char *text, const char *name)
{
	for (; *text != '\0' && *name != '\0'; text++, name++) {
		bool is_raised = *name == '_';

		name += is_raised;
		if (is_raised && *name >= 'a' && *name <= 'z' ? *text != *name - 'a' + 'A' : *text != *name)
			return false;
	}
	return *text == *name;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *message, const char *name)
{
	const ProtobufCFieldDescriptor *found =
		protobuf_c_message_descriptor_get_field_by_name(message, name);

	for (unsigned int i = 0; !found && i < message->n_fields; i++)
		if (is_json_name(name, message->fields[i].name))
			found = &message->fields[i];
	return found;
}

/* A field on its way: what the next name is looked up in. */
struct way {
	const ProtobufCMessageDescriptor *message; /* NULL: values have no fields */
	bool is_map;				   /* the next name is a key of the last step */
	size_t column;
};

static enum status add_step(struct filter_parser *p, struct filter_match *match, struct way *way,
			    const char *name)
{
	const ProtobufCFieldDescriptor *field;

	if (way->is_map) {
		struct filter_step *last = &match->path[match->n_path - 1];
		const ProtobufCMessageDescriptor *entry = last->field->descriptor;

		last->key = name;
		way->is_map = false;
		way->message =
			entry->fields[1].type == PROTOBUF_C_TYPE_MESSAGE ? entry->fields[1].descriptor : NULL;
		return STATUS_OK;
	}
	if (!way->message)
		return filter_refuse(p, way->column, "'%s' has no fields; '%.64s' cannot stand behind it",
				     match->path[match->n_path - 1].field->name, name);
	if (match->n_path == FILTER_PATH_MAX)
		return filter_refuse(p, way->column, "more than %d names in one field", FILTER_PATH_MAX);
	field = find_field(way->message, name);
	if (!field)
		return no_such_field(p, way->message, name, way->column);
	match->path[match->n_path++] = (struct filter_step){.field = field};
	way->is_map = filter_is_map(field);
	way->message = field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
	return STATUS_OK;
}

/* "a.b.c": one word, or the part of one behind a "]". */
static enum status add_names(struct filter_parser *p, struct filter_match *match, struct way *way,
			     const struct filter_token *word)
{
	char *name = p->filter->texts + (word->text - p->filter->texts);

	while (name) {
		char *dot = strchr(name, '.');
		enum status st;

		if (dot)
			*dot = '\0';
		way->column = word->column + (size_t)(name - word->text);
		st = name[0] == '\0' ? filter_refuse(p, way->column, "a field's name should stand here")
				     : add_step(p, match, way, name);
		if (st != STATUS_OK)
			return st;
		name = dot ? dot + 1 : NULL;
	}
	return STATUS_OK;
}

static enum status parse_key(struct filter_parser *p, struct filter_match *match, struct way *way)
{
	enum status st = filter_advance(p);

	if (st != STATUS_OK)
		return st;
	if (!filter_is_value(p))
		return filter_refuse(p, p->token.column, "the key of a map should stand here");
	if (!way->is_map)
		return filter_refuse(p, p->token.column, "'%s' is not a map; [...] takes a map's key",
				     match->path[match->n_path - 1].field->name);
	way->column = p->token.column;
	st = add_step(p, match, way, p->token.text);
	if (st == STATUS_OK)
		st = filter_advance(p);
	if (st == STATUS_OK && !filter_is_sign(p, "]"))
		return filter_refuse(p, p->token.column, "] should stand here");
	return st;
}

/* @first is the word it begins with; the token behind it is being looked at. */
enum status filter_parse_field(struct filter_parser *p, const struct filter_token *first,
			       struct filter_match *match)
{
	struct way way = {.message = p->descriptor};
	enum status st = add_names(p, match, &way, first);

	while (st == STATUS_OK && filter_is_sign(p, "[")) {
		size_t end;

		st = parse_key(p, match, &way);
		end = p->at;
		if (st == STATUS_OK)
			st = filter_advance(p);
		if (st == STATUS_OK && p->token.type == TOKEN_WORD && p->token.text[0] == '.' &&
		    p->token.column == end + 1) {
			struct filter_token rest = {
				.type = TOKEN_WORD, .text = p->token.text + 1, .column = end + 2};

			st = add_names(p, match, &way, &rest);
			if (st == STATUS_OK)
				st = filter_advance(p);
		}
	}
	return st;
}

/* What the path's end holds: of a map with a key its value. */
static const ProtobufCFieldDescriptor *end_of(const struct filter_match *match, bool *ret_is_list)
{
	const struct filter_step *last = &match->path[match->n_path - 1];

	*ret_is_list = last->field->label == PROTOBUF_C_LABEL_REPEATED && !last->key;
	return last->key ? &((const ProtobufCMessageDescriptor *)last->field->descriptor)->fields[1]
			 : last->field;
}

static enum status read_number(const struct filter_parser *p, const struct filter_token *token,
			       const ProtobufCFieldDescriptor *field, uint64_t *ret)
{
	bool is_signed = field->type == PROTOBUF_C_TYPE_INT32 || field->type == PROTOBUF_C_TYPE_SINT32 ||
			 field->type == PROTOBUF_C_TYPE_SFIXED32 || field->type == PROTOBUF_C_TYPE_INT64 ||
			 field->type == PROTOBUF_C_TYPE_SINT64 || field->type == PROTOBUF_C_TYPE_SFIXED64;
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

/* "single-node-writer" and "SINGLE_NODE_WRITER" are the same name. */
static bool is_enum_name(const char *text, const char *name)
{
	for (; *text != '\0' && *name != '\0'; text++, name++) {
		char c = *text;

		if (c >= 'a' && c <= 'z')
			c = (char)(c - 'a' + 'A');
		if ((c == '-' ? '_' : c) != *name)
			return false;
	}
	return *text == *name;
}

static enum status read_enum(const struct filter_parser *p, const struct filter_token *token,
			     const ProtobufCFieldDescriptor *field, uint64_t *ret)
{
	const ProtobufCEnumDescriptor *type = field->descriptor;

	for (unsigned int i = 0; i < type->n_values; i++) {
		if (!is_enum_name(token->text, type->values[i].name))
			continue;
		*ret = (uint64_t)(int64_t)type->values[i].value;
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
	if (field->type != PROTOBUF_C_TYPE_STRING && filter_number_size(field) == 0)
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

	if (is_list && filter_is_map(field)) {
		match->literal.text = value->text;
		return STATUS_OK;
	}
	if (field->type != PROTOBUF_C_TYPE_STRING && (!is_list || filter_number_size(field) == 0))
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

enum status filter_check(const struct filter_parser *p, const struct filter_token *value,
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
