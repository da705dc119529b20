/* SPDX-License-Identifier: Apache-2.0 */
#include "state/text_json.h"

#include "base/get_at.h"
#include "base/str.h"
#include "model/message.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

enum { NUMBER_TEXT = 32 };

static const char *const nothing_hidden[] = {NULL};

/* Bytes that stand in a string as they are. */
static const bool is_plain[UCHAR_MAX + 1] = {
	[' ' ... '!'] = true,
	['#' ... '['] = true,
	[']' ... UCHAR_MAX] = true,
};

/* Strings are UTF-8: whoever makes a message checks that. */
static void put_string(struct strbuf *out, const char *s)
{
	strbuf_put(out, "\"", 1);
	while (*s != '\0') {
		size_t n = 0;

		while (is_plain[(unsigned char)s[n]])
			n++;
		strbuf_put(out, s, n);
		s += n;
		if (*s != '\0')
			strbuf_printf(out, "\\u%04x", (unsigned int)(unsigned char)*s++);
	}
	strbuf_put(out, "\"", 1);
}

static void put_unsigned(struct strbuf *out, uint64_t value)
{
	char text[NUMBER_TEXT];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	strbuf_put(out, text + at, sizeof(text) - at);
}

static void put_signed(struct strbuf *out, int64_t value)
{
	if (value < 0)
		strbuf_put(out, "-", 1);
	put_unsigned(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void put_enum(struct strbuf *out, const ProtobufCEnumDescriptor *descriptor, int value)
{
	const ProtobufCEnumValue *word = protobuf_c_enum_descriptor_get_value(descriptor, value);

	if (!word) { /* of a later version */
		put_signed(out, value);
		return;
	}
	strbuf_put(out, "\"", 1);
	strbuf_puts(out, word->name);
	strbuf_put(out, "\"", 1);
}

static void put_value(struct strbuf *out, const ProtobufCFieldDescriptor *field, const char *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		put_signed(out, (int32_t)get_u32(at));
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		put_unsigned(out, get_u32(at));
		break;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		put_signed(out, (int64_t)get_u64(at));
		break;
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		put_unsigned(out, get_u64(at));
		break;
	case PROTOBUF_C_TYPE_BOOL:
		strbuf_puts(out, get_u32(at) ? "true" : "false");
		break;
	case PROTOBUF_C_TYPE_ENUM:
		put_enum(out, field->descriptor, (int)get_u32(at));
		break;
	case PROTOBUF_C_TYPE_STRING:
		put_string(out, get_pointer(at));
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		text_json_put(out, get_pointer(at), nothing_hidden);
		break;
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_FLOAT: /* there are none on our wire */
	case PROTOBUF_C_TYPE_DOUBLE:
		strbuf_puts(out, "null");
		break;
	}
}

/* protoc calls the entries of map<string, string> labels "LabelsEntry"; its members are 1 and 2. */
static bool is_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *entry = field->descriptor;
	size_t n;

	if (field->type != PROTOBUF_C_TYPE_MESSAGE || entry->n_fields != 2)
		return false;
	n = strlen(entry->short_name);
	return n > 5 && str_eq(entry->short_name + n - 5, "Entry") && str_eq(entry->fields[0].name, "key") &&
	       entry->fields[0].type == PROTOBUF_C_TYPE_STRING;
}

static void put_map_entry(struct strbuf *out, const ProtobufCMessage *entry)
{
	const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;

	put_string(out, get_pointer((const char *)entry + fields[0].offset));
	strbuf_put(out, ":", 1);
	put_value(out, &fields[1], (const char *)entry + fields[1].offset);
}

static void put_list(struct strbuf *out, const ProtobufCFieldDescriptor *field, const char *items, size_t n)
{
	bool as_map = is_map(field);

	strbuf_put(out, as_map ? "{" : "[", 1);
	for (size_t i = 0; i < n; i++) {
		const char *at = items + i * message_value_size(field->type);

		if (i > 0)
			strbuf_put(out, ",", 1);
		if (as_map)
			put_map_entry(out, get_pointer(at));
		else
			put_value(out, field, at);
	}
	strbuf_put(out, as_map ? "}" : "]", 1);
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *at = (const char *)message + field->offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED && field->type != PROTOBUF_C_TYPE_BYTES) {
		size_t n;

		memcpy(&n, (const char *)message + field->quantifier_offset, sizeof(n));
		return n > 0;
	}
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && field->type != PROTOBUF_C_TYPE_BYTES)
		return get_u32((const char *)message + field->quantifier_offset) == field->id;
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		return get_pointer(at) && ((const char *)get_pointer(at))[0] != '\0';
	case PROTOBUF_C_TYPE_MESSAGE:
		return get_pointer(at) != NULL;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return get_u64(at) != 0;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		return get_u32(at) != 0;
	case PROTOBUF_C_TYPE_BYTES:
		break;
	}
	return false;
}

static bool is_hidden(const char *name, const char *const *hidden)
{
	for (; *hidden; hidden++)
		if ((*hidden)[0] == name[0] && str_eq(*hidden, name))
			return true;
	return false;
}

/* Names are the program's own: nothing in them is to be escaped. */
static void put_name(struct strbuf *out, const char *name)
{
	strbuf_put(out, "\"", 1);
	strbuf_put(out, name, strlen(name));
	strbuf_put(out, "\":", 2);
}

static void put_field(struct strbuf *out, const ProtobufCMessage *message,
		      const ProtobufCFieldDescriptor *field)
{
	const char *at = (const char *)message + field->offset;
	size_t n;

	put_name(out, field->name);
	if (field->label != PROTOBUF_C_LABEL_REPEATED) {
		put_value(out, field, at);
		return;
	}
	memcpy(&n, (const char *)message + field->quantifier_offset, sizeof(n));
	put_list(out, field, get_pointer(at), n);
}

void text_json_put(struct strbuf *out, const ProtobufCMessage *message, const char *const *hidden)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	bool is_first = true;

	strbuf_put(out, "{", 1);
	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];

		if (!is_set(message, field) || is_hidden(field->name, hidden))
			continue;
		if (!is_first)
			strbuf_put(out, ",", 1);
		is_first = false;
		put_field(out, message, field);
	}
	strbuf_put(out, "}", 1);
}
