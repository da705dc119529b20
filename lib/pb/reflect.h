/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The fields of any message, by its descriptor: how large they are, whether they are set, their values.
 *
 * A field is set when protobuf_c_message_pack() writes it: in proto3 a value other than zero, in a oneof
 * the chosen member. Everything here is borrowed from the message. Pure. */

#include "base/get_at.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of one value in the message's struct, or of one element in a list. */
static inline size_t reflect_size(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return sizeof(uint64_t);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		break;
	}
	return sizeof(uint32_t);
}

_Static_assert(sizeof(protobuf_c_boolean) == sizeof(uint32_t), "a bool has the size of a number");
_Static_assert(sizeof(float) == sizeof(uint32_t) && sizeof(double) == sizeof(uint64_t), "as do reals");
_Static_assert(sizeof(int) == sizeof(uint32_t), "and enums");

/** Where the value of @field is, of a list the pointer to its elements. */
static inline const char *reflect_at(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return (const char *)message + field->offset;
}

/** Is the value at @at, of @type, what a field has that was never set? */
static inline bool reflect_is_zero(ProtobufCType type, const char *at)
{
	const char *text;
	double wide;
	float narrow;

	switch (type) {
	case PROTOBUF_C_TYPE_STRING:
		text = get_pointer(at);
		return !text || text[0] == '\0';
	case PROTOBUF_C_TYPE_MESSAGE:
		return !get_pointer(at);
	case PROTOBUF_C_TYPE_FLOAT: /* -0.0 counts */
		memcpy(&narrow, at, sizeof(narrow));
		return narrow == 0;
	case PROTOBUF_C_TYPE_DOUBLE:
		memcpy(&wide, at, sizeof(wide));
		return wide == 0;
	case PROTOBUF_C_TYPE_BYTES: /* its length comes first */
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		return get_u64(at) == 0;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_BOOL:
	case PROTOBUF_C_TYPE_ENUM:
		break;
	}
	return get_u32(at) == 0;
}

_Static_assert(offsetof(ProtobufCBinaryData, len) == 0 && sizeof(size_t) == sizeof(uint64_t),
	       "the length of bytes is read as a number");

static inline bool reflect_is_list(const ProtobufCFieldDescriptor *field)
{
	return field->label == PROTOBUF_C_LABEL_REPEATED;
}

static inline bool reflect_in_oneof(const ProtobufCFieldDescriptor *field)
{
	return (field->flags & (uint32_t)PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/** Elements of the list @field. */
static inline size_t reflect_list_len(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	return get_u64((const char *)message + field->quantifier_offset);
}

/** Is a singular @field set? */
static inline bool reflect_is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *quantifier = (const char *)message + field->quantifier_offset;
	const char *at = reflect_at(message, field);
	bool is_pointer = field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;

	if (reflect_in_oneof(field)) {
		if (get_u32(quantifier) != field->id)
			return false;
	} else if (field->label == PROTOBUF_C_LABEL_NONE) {
		return !reflect_is_zero(field->type, at);
	} else if (field->label == PROTOBUF_C_LABEL_REQUIRED) { /* of proto2 */
		return true;
	} else if (!is_pointer) {
		return get_u32(quantifier) != 0;
	}
	return !is_pointer || (get_pointer(at) && get_pointer(at) != field->default_value);
}

/* The values of a field: all elements of a list, else at most one value. */
struct reflect_values {
	const ProtobufCFieldDescriptor *field;
	const char *first;
	size_t n;
};

static inline struct reflect_values reflect_values(const ProtobufCMessage *message,
						   const ProtobufCFieldDescriptor *field)
{
	struct reflect_values values = {.field = field, .first = reflect_at(message, field)};

	if (reflect_is_list(field)) {
		values.n = reflect_list_len(message, field);
		values.first = get_pointer(values.first);
	} else {
		values.n = reflect_is_set(message, field);
	}
	return values;
}

/** Where the value at @i is. */
static inline const char *reflect_value(const struct reflect_values *values, size_t i)
{
	return values->first + i * reflect_size(values->field->type);
}

/** The text at @at; "" of NULL. */
static inline const char *reflect_text(const char *at)
{
	const char *text = get_pointer(at);

	return text ? text : "";
}

/** Returns the message at @at; NULL: unset. The owner of the outer message may change it. */
static inline ProtobufCMessage *reflect_message(const char *at)
{
	void *message;

	memcpy(&message, at, sizeof(message));
	return message;
}

/** Is it a whole number, a bool or an enum? */
bool reflect_is_number(ProtobufCType type);

/** Is it one that may be negative? */
bool reflect_is_signed(ProtobufCType type);

/** The number at @at in 64 bits: negative ones in two's complement, a bool as 0 or 1.
 * @type one of reflect_is_number() */
uint64_t reflect_number(ProtobufCType type, const char *at);

enum { REFLECT_MAP_KEY = 0, REFLECT_MAP_VALUE = 1 }; /* fields of an entry */

/** protobuf-c shows a map as a list of messages NameEntry with a key and a value. */
bool reflect_is_map(const ProtobufCFieldDescriptor *field);

/** Key and value of an entry of a map from text to text. */
const char *reflect_entry_key(const ProtobufCMessage *entry);
const char *reflect_entry_value(const ProtobufCMessage *entry);

enum { REFLECT_NAME_SIZE = 128 }; /* names of our .proto files are shorter */

/** Writes the name that @field has in JSON: pluginId for plugin_id. */
void reflect_json_name(const ProtobufCFieldDescriptor *field, char ret[static REFLECT_NAME_SIZE]);

/** Returns the field @name, as the .proto file or as JSON has it; NULL: unknown. */
const ProtobufCFieldDescriptor *reflect_find(const ProtobufCMessageDescriptor *descriptor, const char *name);

/** The field at the end of @path: names of the .proto file divided by dots, @n bytes. All but the last one
 * are messages or lists of them. NULL: there is no such path. */
const ProtobufCFieldDescriptor *reflect_path(const ProtobufCMessageDescriptor *descriptor, const char *path,
					     size_t n);

/** The values at the end of @path, which exists; of a list on the path the last message counts. Without the
 * field when a message on the path is not set. */
struct reflect_values reflect_follow(const ProtobufCMessage *message, const char *path, size_t n);
