/* SPDX-License-Identifier: Apache-2.0 */
#include "pb/reflect.h"

#include "base/str.h"

#include <assert.h>
#include <string.h>

bool reflect_is_signed(ProtobufCType type)
{
	return type == PROTOBUF_C_TYPE_INT32 || type == PROTOBUF_C_TYPE_SINT32 ||
	       type == PROTOBUF_C_TYPE_SFIXED32 || type == PROTOBUF_C_TYPE_INT64 ||
	       type == PROTOBUF_C_TYPE_SINT64 || type == PROTOBUF_C_TYPE_SFIXED64 ||
	       type == PROTOBUF_C_TYPE_ENUM;
}

bool reflect_is_number(ProtobufCType type)
{
	return reflect_is_signed(type) || type == PROTOBUF_C_TYPE_UINT32 || type == PROTOBUF_C_TYPE_FIXED32 ||
	       type == PROTOBUF_C_TYPE_UINT64 || type == PROTOBUF_C_TYPE_FIXED64 ||
	       type == PROTOBUF_C_TYPE_BOOL;
}

uint64_t reflect_number(ProtobufCType type, const char *at)
{
	assert(reflect_is_number(type));
	if (reflect_size(type) == sizeof(uint64_t))
		return get_u64(at);
	if (type == PROTOBUF_C_TYPE_BOOL)
		return get_u32(at) != 0;
	return reflect_is_signed(type) ? (uint64_t)(int64_t)(int32_t)get_u32(at) : get_u32(at);
}

bool reflect_is_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *entry = field->descriptor;
	size_t n;

	if (!reflect_is_list(field) || field->type != PROTOBUF_C_TYPE_MESSAGE)
		return false;
	/* protoc names the entries itself and refuses other messages of a map's entry name */
	n = strlen(entry->name);
	return entry->n_fields == 2 && n > 5 && str_eq(entry->name + n - 5, "Entry") &&
	       str_eq(entry->fields[REFLECT_MAP_KEY].name, "key") &&
	       str_eq(entry->fields[REFLECT_MAP_VALUE].name, "value");
}

const char *reflect_entry_key(const ProtobufCMessage *entry)
{
	return reflect_text(reflect_at(entry, &entry->descriptor->fields[REFLECT_MAP_KEY]));
}

const char *reflect_entry_value(const ProtobufCMessage *entry)
{
	return reflect_text(reflect_at(entry, &entry->descriptor->fields[REFLECT_MAP_VALUE]));
}

void reflect_json_name(const ProtobufCFieldDescriptor *field, char ret[static REFLECT_NAME_SIZE])
{
	size_t n = 0;
	bool raise = false;

	assert(strlen(field->name) < REFLECT_NAME_SIZE);
	for (const char *p = field->name; *p; p++) {
		if (*p == '_') {
			raise = true;
			continue;
		}
		ret[n++] = (char)(raise && *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
		raise = false;
	}
	ret[n] = '\0';
}

const ProtobufCFieldDescriptor *reflect_find(const ProtobufCMessageDescriptor *descriptor, const char *name)
{
	const ProtobufCFieldDescriptor *found =
		protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
	char json_name[REFLECT_NAME_SIZE];

	for (unsigned int i = 0; !found && i < descriptor->n_fields; i++) {
		reflect_json_name(&descriptor->fields[i], json_name);
		if (str_eq(json_name, name))
			found = &descriptor->fields[i];
	}
	return found;
}

/* The field that the first name of @path means; @path continues behind its dot. */
static const ProtobufCFieldDescriptor *path_field(const ProtobufCMessageDescriptor *descriptor,
						  const char **path, const char *end)
{
	char name[REFLECT_NAME_SIZE];
	size_t n = 0;

	while (*path < end && **path != '.' && n + 1 < sizeof(name))
		name[n++] = *(*path)++;
	name[n] = '\0';
	if (*path < end)
		(*path)++;
	return protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
}

const ProtobufCFieldDescriptor *reflect_path(const ProtobufCMessageDescriptor *descriptor, const char *path,
					     size_t n)
{
	const char *end = path + n;
	const ProtobufCFieldDescriptor *field = path_field(descriptor, &path, end);

	while (field && path < end) {
		if (field->type != PROTOBUF_C_TYPE_MESSAGE)
			return NULL;
		field = path_field(field->descriptor, &path, end);
	}
	return field;
}

struct reflect_values reflect_follow(const ProtobufCMessage *message, const char *path, size_t n)
{
	const char *end = path + n;
	struct reflect_values values = {.field = NULL};

	while (message) {
		const ProtobufCFieldDescriptor *field = path_field(message->descriptor, &path, end);

		assert(field);
		values = reflect_values(message, field);
		if (path == end)
			return values;
		message = values.n > 0 ? reflect_message(reflect_value(&values, values.n - 1)) : NULL;
	}
	return (struct reflect_values){.field = NULL};
}
