/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/message_text.h"

#include "base/utf8.h"
#include "pb/reflect.h"

#include <string.h>

static bool value_is_valid(const ProtobufCFieldDescriptor *field, const char *at, const char **ret_field)
{
	const char *text;

	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return !reflect_message(at) || message_text_is_valid(reflect_message(at), ret_field);
	text = reflect_text(at);
	if (utf8_is_valid(text, strlen(text)))
		return true;
	*ret_field = field->name;
	return false;
}

static bool has_text(const ProtobufCFieldDescriptor *field)
{
	return field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING;
}

bool message_text_is_valid(const ProtobufCMessage *message, const char **ret_field)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++) {
		const struct reflect_values values = reflect_values(message, &message->descriptor->fields[i]);

		for (size_t k = 0; has_text(values.field) && k < values.n; k++)
			if (!value_is_valid(values.field, reflect_value(&values, k), ret_field))
				return false;
	}
	return true;
}

static void wipe_value(const ProtobufCFieldDescriptor *field, const char *at)
{
	ProtobufCBinaryData bytes;
	char *text;

	if (field->type == PROTOBUF_C_TYPE_BYTES) {
		memcpy(&bytes, at, sizeof(bytes));
		if (bytes.len > 0)
			explicit_bzero(bytes.data, bytes.len);
	} else if (field->type == PROTOBUF_C_TYPE_MESSAGE && reflect_message(at)) {
		message_text_wipe(reflect_message(at));
	} else if (field->type == PROTOBUF_C_TYPE_STRING) {
		memcpy((void *)&text, at, sizeof(text));
		if (text && text != field->default_value)
			explicit_bzero(text, strlen(text));
	}
}

void message_text_wipe(ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++) {
		const struct reflect_values values = reflect_values(message, &message->descriptor->fields[i]);

		for (size_t k = 0; k < values.n; k++)
			wipe_value(values.field, reflect_value(&values, k));
	}
	for (unsigned int i = 0; i < message->n_unknown_fields; i++)
		explicit_bzero(message->unknown_fields[i].data, message->unknown_fields[i].len);
}
