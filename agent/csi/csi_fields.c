/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_fields.h"

#include "base/str.h"

/* All the types that CSI's interface has: string, message, int64; int32, bool and enum. */
static size_t value_size(const ProtobufCFieldDescriptor *field)
{
	if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE)
		return sizeof(void *);
	return field->type == PROTOBUF_C_TYPE_INT64 ? sizeof(int64_t) : sizeof(int32_t);
}

static const void *value_at(const struct csi_values *values, size_t i)
{
	return (const char *)values->first + i * value_size(values->field);
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *base = (const char *)message;
	const char *value = base + field->offset;

	if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
	    *(const uint32_t *)(const void *)(base + field->quantifier_offset) != field->id)
		return false;
	if (field->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(ProtobufCMessage *const *)(const void *)value != NULL;
	if (field->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(const char *const *)(const void *)value;

		return text && text[0] != '\0';
	}
	return !bytes_are_zero(value, value_size(field));
}

struct csi_values csi_values(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	/* the message itself is not written through it by readers */
	char *base = (char *)(uintptr_t)message;
	void *place = base + field->offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return (struct csi_values){
			.field = field,
			.first = *(void **)place,
			.n = *(size_t *)(void *)(base + field->quantifier_offset),
		};
	return (struct csi_values){.field = field, .first = place, .n = is_set(message, field) ? 1 : 0};
}

ProtobufCMessage *csi_value_message(const struct csi_values *values, size_t i)
{
	return *(ProtobufCMessage *const *)value_at(values, i);
}

const char *csi_value_text(const struct csi_values *values, size_t i)
{
	const char *text = *(const char *const *)value_at(values, i);

	return text ? text : "";
}

int64_t csi_value_number(const struct csi_values *values, size_t i)
{
	const void *value = value_at(values, i);

	return values->field->type == PROTOBUF_C_TYPE_INT64 ? *(const int64_t *)value
							    : *(const int32_t *)value;
}

bool csi_is_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *entry;

	if (field->type != PROTOBUF_C_TYPE_MESSAGE || field->label != PROTOBUF_C_LABEL_REPEATED)
		return false;
	entry = field->descriptor;
	return entry->n_fields == 2 && str_eq(entry->fields[0].name, "key") &&
	       entry->fields[0].type == PROTOBUF_C_TYPE_STRING && str_eq(entry->fields[1].name, "value") &&
	       entry->fields[1].type == PROTOBUF_C_TYPE_STRING;
}

static const char *text_of(const ProtobufCMessage *entry, unsigned int at)
{
	struct csi_values values = csi_values(entry, &entry->descriptor->fields[at]);

	return values.n > 0 ? csi_value_text(&values, 0) : "";
}

const char *csi_map_key(const ProtobufCMessage *entry)
{
	return text_of(entry, 0);
}

const char *csi_map_value(const ProtobufCMessage *entry)
{
	return text_of(entry, 1);
}
