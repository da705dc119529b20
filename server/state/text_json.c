/* SPDX-License-Identifier: Apache-2.0 */
#include "state/text_json.h"

#include "base/str.h"
#include "pb/reflect.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

enum { NUMBER_TEXT = 32 };

static const char *const nothing_hidden[] = {NULL};

/* Bytes that a string contains unescaped. */
static const bool is_plain[UCHAR_MAX + 1] = {
	[' ' ... '!'] = true,
	['#' ... '['] = true,
	[']' ... UCHAR_MAX] = true,
};

/* Strings are UTF-8: checked when a message is made. */
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
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		put_signed(out, (int64_t)reflect_number(field->type, at));
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		put_unsigned(out, reflect_number(field->type, at));
		break;
	case PROTOBUF_C_TYPE_BOOL:
		strbuf_puts(out, get_u32(at) ? "true" : "false");
		break;
	case PROTOBUF_C_TYPE_ENUM:
		put_enum(out, field->descriptor, (int)get_u32(at));
		break;
	case PROTOBUF_C_TYPE_STRING:
		put_string(out, reflect_text(at));
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		text_json_put(out, reflect_message(at), nothing_hidden);
		break;
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_FLOAT: /* unused on the wire */
	case PROTOBUF_C_TYPE_DOUBLE:
		strbuf_puts(out, "null");
		break;
	}
}

static void put_map_entry(struct strbuf *out, const ProtobufCMessage *entry)
{
	const ProtobufCFieldDescriptor *value = &entry->descriptor->fields[REFLECT_MAP_VALUE];

	put_string(out, reflect_entry_key(entry));
	strbuf_put(out, ":", 1);
	put_value(out, value, reflect_at(entry, value));
}

static void put_list(struct strbuf *out, const struct reflect_values *values)
{
	bool as_map = reflect_is_map(values->field);

	strbuf_put(out, as_map ? "{" : "[", 1);
	for (size_t i = 0; i < values->n; i++) {
		const char *at = reflect_value(values, i);

		if (i > 0)
			strbuf_put(out, ",", 1);
		if (as_map)
			put_map_entry(out, reflect_message(at));
		else
			put_value(out, values->field, at);
	}
	strbuf_put(out, as_map ? "}" : "]", 1);
}

static bool is_hidden(const char *name, const char *const *hidden)
{
	for (; *hidden; hidden++)
		if ((*hidden)[0] == name[0] && str_eq(*hidden, name))
			return true;
	return false;
}

/* Names come from the program and need no escapes. */
static void put_name(struct strbuf *out, const char *name)
{
	strbuf_put(out, "\"", 1);
	strbuf_put(out, name, strlen(name));
	strbuf_put(out, "\":", 2);
}

static void put_field(struct strbuf *out, const struct reflect_values *values)
{
	put_name(out, values->field->name);
	if (reflect_is_list(values->field))
		put_list(out, values);
	else
		put_value(out, values->field, values->first);
}

void text_json_put(struct strbuf *out, const ProtobufCMessage *message, const char *const *hidden)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	bool is_first = true;

	strbuf_put(out, "{", 1);
	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const struct reflect_values values = reflect_values(message, &descriptor->fields[i]);

		if (values.n == 0 || values.field->type == PROTOBUF_C_TYPE_BYTES ||
		    is_hidden(values.field->name, hidden))
			continue;
		if (!is_first)
			strbuf_put(out, ",", 1);
		is_first = false;
		put_field(out, &values);
	}
	strbuf_put(out, "}", 1);
}
