/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/message_text.h"

#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

static bool value_is_valid(const ProtobufCFieldDescriptor *field, const void *value, const char **ret_field)
{
	const char *text;

	if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
		const ProtobufCMessage *inner = *(ProtobufCMessage *const *)value;

		return !inner || message_text_is_valid(inner, ret_field);
	}
	text = *(char *const *)value;
	if (!text || utf8_is_valid(text, strlen(text)))
		return true;
	*ret_field = field->name;
	return false;
}

static bool list_is_valid(const ProtobufCFieldDescriptor *field, const void *list, size_t n,
			  const char **ret_field)
{
	for (size_t i = 0; i < n; i++)
		if (!value_is_valid(field, (const char *)list + i * sizeof(void *), ret_field))
			return false;
	return true;
}

/* A oneof stores its members in one place; which of them is there is in its quantifier. */
static bool is_absent(const ProtobufCFieldDescriptor *field, const char *message)
{
	if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
		return false;
	return *(const uint32_t *)(const void *)(message + field->quantifier_offset) != field->id;
}

static bool field_is_valid(const ProtobufCFieldDescriptor *field, const char *message, const char **ret_field)
{
	const void *value = message + field->offset;

	if (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING)
		return true;
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return list_is_valid(field, *(void *const *)value,
				     *(const size_t *)(const void *)(message + field->quantifier_offset),
				     ret_field);
	return is_absent(field, message) || value_is_valid(field, value, ret_field);
}

bool message_text_is_valid(const ProtobufCMessage *message, const char **ret_field)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++)
		if (!field_is_valid(&message->descriptor->fields[i], (const char *)message, ret_field))
			return false;
	return true;
}

static void wipe_value(const ProtobufCFieldDescriptor *field, void *value)
{
	const ProtobufCBinaryData *bytes = value;
	char *text = *(char **)value;

	if (field->type == PROTOBUF_C_TYPE_BYTES && bytes->len > 0)
		explicit_bzero(bytes->data, bytes->len);
	else if (field->type == PROTOBUF_C_TYPE_MESSAGE && text)
		message_text_wipe(*(ProtobufCMessage **)value);
	else if (field->type == PROTOBUF_C_TYPE_STRING && text && text != field->default_value)
		explicit_bzero(text, strlen(text));
}

static void wipe_field(const ProtobufCFieldDescriptor *field, char *message)
{
	size_t size = field->type == PROTOBUF_C_TYPE_BYTES ? sizeof(ProtobufCBinaryData) : sizeof(void *);
	char *value = message + field->offset;
	size_t n = 1;

	if (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING &&
	    field->type != PROTOBUF_C_TYPE_BYTES)
		return;
	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		value = *(char **)(void *)value;
		n = *(const size_t *)(const void *)(message + field->quantifier_offset);
	} else if (is_absent(field, message)) {
		return;
	}
	for (size_t i = 0; i < n; i++)
		wipe_value(field, value + i * size);
}

void message_text_wipe(ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++)
		wipe_field(&message->descriptor->fields[i], (char *)message);
	for (unsigned int i = 0; i < message->n_unknown_fields; i++)
		explicit_bzero(message->unknown_fields[i].data, message->unknown_fields[i].len);
}
