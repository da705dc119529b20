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
