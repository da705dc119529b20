/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "model/filter_internal.h"

#include <string.h>

enum { MAP_KEY = 0, MAP_VALUE = 1 }; /* fields of an entry */

bool filter_is_map(const ProtobufCFieldDescriptor *field)
{
	static const char suffix[] = "Entry";
	const ProtobufCMessageDescriptor *entry;
	size_t n;

	if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
		return false;
	entry = field->descriptor;
	n = strlen(entry->short_name);
	return n >= sizeof(suffix) - 1 && str_eq(entry->short_name + n - (sizeof(suffix) - 1), suffix) &&
	       entry->n_fields == 2 && str_eq(entry->fields[MAP_KEY].name, "key") &&
	       str_eq(entry->fields[MAP_VALUE].name, "value") &&
	       entry->fields[MAP_KEY].type == PROTOBUF_C_TYPE_STRING;
}

size_t filter_number_size(const ProtobufCFieldDescriptor *field)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		return sizeof(uint32_t);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		return sizeof(uint64_t);
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_DOUBLE:
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		break;
	}
	return 0;
}

/* The number at @at in 64 bits, as the literal was read. */
static uint64_t number_at(const ProtobufCFieldDescriptor *field, const char *at)
{
	uint64_t wide;
	uint32_t narrow;

	if (filter_number_size(field) == sizeof(wide)) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	if (field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_FIXED32)
		return narrow;
	if (field->type == PROTOBUF_C_TYPE_BOOL)
		return narrow != 0;
	return (uint64_t)(int64_t)(int32_t)narrow;
}

static const char *text_at(const char *at)
{
	const char *text;

	memcpy(&text, at, sizeof(text));
	return text ? text : "";
}

static const char *pointer_at(const char *at)
{
	const char *pointer;

	memcpy(&pointer, at, sizeof(pointer));
	return pointer;
}

static bool value_equals(const struct filter_match *match, const ProtobufCFieldDescriptor *field,
			 const char *at)
{
	if (field->type == PROTOBUF_C_TYPE_STRING)
		return str_eq(text_at(at), match->literal.text);
	return number_at(field, at) == match->literal.number;
}

static size_t value_size(const ProtobufCFieldDescriptor *field)
{
	size_t size = filter_number_size(field);

	return size > 0 ? size : sizeof(void *);
}

static size_t list_len(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
	size_t n;

	memcpy(&n, (const char *)message + field->quantifier_offset, sizeof(n));
	return n;
}

static const ProtobufCMessage *message_at(const char *at)
{
	return (const ProtobufCMessage *)(const void *)pointer_at(at);
}

static const char *entry_key(const ProtobufCMessage *entry)
{
	return text_at((const char *)entry + entry->descriptor->fields[MAP_KEY].offset);
}

/* Is @match's question answered yes by the list or map @field of @message itself? */
static bool list_answers(const struct filter_match *match, const ProtobufCFieldDescriptor *field,
			 const ProtobufCMessage *message)
{
	size_t n = list_len(field, message);
	const char *at = pointer_at((const char *)message + field->offset);
	bool is_map = filter_is_map(field);

	if (match->op == FILTER_HAS_SOME)
		return n > 0;
	for (size_t i = 0; i < n; i++, at += value_size(field))
		if (is_map ? str_eq(entry_key(message_at(at)), match->literal.text)
			   : value_equals(match, field, at))
			return true;
	return false;
}

static bool value_answers(const struct filter_match *match, const ProtobufCFieldDescriptor *field,
			  const char *at)
{
	switch (match->op) {
	case FILTER_EQUALS:
		return value_equals(match, field, at);
	case FILTER_CONTAINS:
		return strstr(text_at(at), match->literal.text) != NULL;
	case FILTER_HAS_SOME:
		break;
	}
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return pointer_at(at) != NULL;
	return text_at(at)[0] != '\0';
}

static bool in_other_case(const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message)
{
	uint32_t chosen;

	if ((field->flags & (uint32_t)PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
		return false;
	memcpy(&chosen, (const char *)message + field->quantifier_offset, sizeof(chosen));
	return chosen != field->id;
}

/* Does the way from @message, beginning with its step @i, lead to a value that answers yes? Recursion is as
 * deep as the path is long. */
static bool path_answers(const struct filter_match *match, uint32_t i, // NOLINT(misc-no-recursion): bounded
			 const ProtobufCMessage *message)
{
	const struct filter_step *step = &match->path[i];
	const ProtobufCFieldDescriptor *field = step->field;
	const char *at = (const char *)message + field->offset;
	bool is_last = i + 1 == match->n_path;

	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		if (in_other_case(field, message))
			return false;
		if (is_last)
			return value_answers(match, field, at);
		return message_at(at) && path_answers(match, i + 1, message_at(at));
	}
	if (is_last && !step->key)
		return list_answers(match, field, message);
	at = pointer_at(at);
	for (size_t k = list_len(field, message); k > 0; k--, at += sizeof(void *)) {
		const ProtobufCMessage *element = message_at(at);

		if (step->key) {
			const ProtobufCFieldDescriptor *value = &element->descriptor->fields[MAP_VALUE];

			if (!str_eq(entry_key(element), step->key))
				continue;
			if (is_last)
				return value_answers(match, value, (const char *)element + value->offset);
			element = message_at((const char *)element + value->offset);
		}
		if (element && path_answers(match, i + 1, element))
			return true;
	}
	return false;
}

/* Nodes only name those before them, so one walk in their order answers each once. */
bool filter_matches(const struct filter *filter, const ProtobufCMessage *message)
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
			answers[i] = path_answers(&node->match, 0, message);
			break;
		}
	}
	return answers[filter->n_nodes - 1];
}
