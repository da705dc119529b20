/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/utf8.h"
#include "rpc/base64.h"
#include "rpc/pbjson.h"
#include "rpc/pbjson_field.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct encoder {
	unsigned int flags;
	unsigned int depth; /* messages around the current value */
	struct error *err;
};

#define cleanup_json cleanup(json_decrefp)

static enum status encode_message(struct encoder *enc, const struct pbjson_path *at,
				  const ProtobufCMessage *message, json_t **ret);

/* Hand over @json unless jansson ran out of memory. */
static enum status made(const struct encoder *enc, const struct pbjson_path *at, json_t *json, json_t **ret)
{
	if (!json)
		return pbjson_fail(at, STATUS_RESOURCE_EXHAUSTED, enc->err, "out of memory");
	*ret = json;
	return STATUS_OK;
}

static enum status encode_text(const struct encoder *enc, const struct pbjson_path *at, const char *text,
			       json_t **ret)
{
	if (!utf8_is_valid(text, strlen(text)))
		return pbjson_fail(at, STATUS_INTERNAL, enc->err, "the text is not UTF-8");
	return made(enc, at, json_string_nocheck(text), ret);
}

/* JSON numbers are doubles to many readers: 64 bits travel as text. */
static json_t *signed_text(int64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	return json_string_nocheck(text);
}

static json_t *unsigned_text(uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	return json_string_nocheck(text);
}

static json_t *real(double value)
{
	if (isnan(value))
		return json_string_nocheck("NaN");
	if (isinf(value))
		return json_string_nocheck(value > 0 ? "Infinity" : "-Infinity");
	return json_real(value);
}

/* A number without a name comes from a newer peer: it is shown as the number. */
static json_t *enum_word(const ProtobufCEnumDescriptor *descriptor, int value)
{
	const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(descriptor, value);

	return known ? json_string_nocheck(known->name) : json_integer(value);
}

static json_t *base64(const ProtobufCBinaryData *bytes)
{
	cleanup_free char *text = NULL;

	if (bytes->len > INT_MAX / 2)
		return NULL;
	text = malloc(BASE64_SIZE(bytes->len));
	if (!text)
		return NULL;
	base64_encode(text, bytes->data, bytes->len);
	return json_string_nocheck(text);
}

/* protobuf-c leaves NULL for a map entry whose value was not on the wire: the empty message is meant. */
static enum status encode_submessage(struct encoder *enc, const struct pbjson_path *at,
				     const ProtobufCMessageDescriptor *descriptor,
				     const ProtobufCMessage *message, json_t **ret)
{
	cleanup_free ProtobufCMessage *empty = NULL; /* owns nothing: it is never filled */

	if (message)
		return encode_message(enc, at, message, ret);
	empty = malloc(descriptor->sizeof_message);
	if (!empty)
		return pbjson_fail(at, STATUS_RESOURCE_EXHAUSTED, enc->err, "out of memory");
	descriptor->message_init(empty);
	return encode_message(enc, at, empty, ret);
}

static enum status encode_value(struct encoder *enc, const struct pbjson_path *at,
				const ProtobufCFieldDescriptor *field, const void *value, json_t **ret)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		return made(enc, at, json_integer(*(const int32_t *)value), ret);
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		return made(enc, at, json_integer(*(const uint32_t *)value), ret);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		return made(enc, at, signed_text(*(const int64_t *)value), ret);
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		return made(enc, at, unsigned_text(*(const uint64_t *)value), ret);
	case PROTOBUF_C_TYPE_FLOAT:
		return made(enc, at, real((double)*(const float *)value), ret);
	case PROTOBUF_C_TYPE_DOUBLE:
		return made(enc, at, real(*(const double *)value), ret);
	case PROTOBUF_C_TYPE_BOOL:
		return made(enc, at, json_boolean(*(const protobuf_c_boolean *)value), ret);
	case PROTOBUF_C_TYPE_ENUM:
		return made(enc, at, enum_word(field->descriptor, *(const int *)value), ret);
	case PROTOBUF_C_TYPE_STRING: {
		const char *text = *(const char *const *)value;

		return encode_text(enc, at, text ? text : "", ret);
	}
	case PROTOBUF_C_TYPE_BYTES:
		return made(enc, at, base64(value), ret);
	case PROTOBUF_C_TYPE_MESSAGE:
		return encode_submessage(enc, at, field->descriptor, *(ProtobufCMessage *const *)value, ret);
	}
	return pbjson_fail(at, STATUS_INTERNAL, enc->err, "unknown type %d", (int)field->type);
}

static enum status encode_list(struct encoder *enc, const struct pbjson_path *at,
			       const ProtobufCFieldDescriptor *field, const char *elements, size_t n,
			       json_t **ret)
{
	cleanup_json json_t *list = json_array();

	if (!list)
		return made(enc, at, NULL, ret);
	for (size_t i = 0; i < n; i++) {
		struct pbjson_path here = {.parent = at, .index = i};
		json_t *element = NULL;
		enum status status = encode_value(enc, &here, field,
						  elements + i * pbjson_value_size(field->type), &element);

		if (status != STATUS_OK)
			return status;
		if (json_array_append_new(list, element) < 0)
			return made(enc, &here, NULL, ret);
	}
	*ret = TAKE_PTR(list);
	return STATUS_OK;
}

enum { KEY_SIZE = 24 };

/* Text of a map's key. Returns @buffer, or the key itself. */
static const char *map_key(const ProtobufCFieldDescriptor *field, const void *value, char buffer[KEY_SIZE])
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING: {
		const char *text = *(const char *const *)value;

		return text ? text : "";
	}
	case PROTOBUF_C_TYPE_BOOL:
		return *(const protobuf_c_boolean *)value ? "true" : "false";
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		(void)snprintf(buffer, KEY_SIZE, "%" PRId32, *(const int32_t *)value);
		return buffer;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		(void)snprintf(buffer, KEY_SIZE, "%" PRIu32, *(const uint32_t *)value);
		return buffer;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		(void)snprintf(buffer, KEY_SIZE, "%" PRId64, *(const int64_t *)value);
		return buffer;
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		(void)snprintf(buffer, KEY_SIZE, "%" PRIu64, *(const uint64_t *)value);
		return buffer;
	case PROTOBUF_C_TYPE_FLOAT:
	case PROTOBUF_C_TYPE_DOUBLE:
	case PROTOBUF_C_TYPE_ENUM:
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		break; /* the language has no such keys */
	}
	return "";
}

static enum status encode_map(struct encoder *enc, const struct pbjson_path *at,
			      const ProtobufCFieldDescriptor *field, ProtobufCMessage *const *entries,
			      size_t n, json_t **ret)
{
	const ProtobufCMessageDescriptor *entry = field->descriptor;
	cleanup_json json_t *object = json_object();

	if (!object)
		return made(enc, at, NULL, ret);
	for (size_t i = 0; i < n; i++) {
		const char *base = (const char *)entries[i];
		char buffer[KEY_SIZE];
		const char *key = map_key(&entry->fields[0], base + entry->fields[0].offset, buffer);
		struct pbjson_path here = {.parent = at, .key = key};
		json_t *value = NULL;
		enum status status;

		if (!utf8_is_valid(key, strlen(key)))
			return pbjson_fail(at, STATUS_INTERNAL, enc->err, "a key is not UTF-8");
		status = encode_value(enc, &here, &entry->fields[1], base + entry->fields[1].offset, &value);
		if (status != STATUS_OK)
			return status;
		if (json_object_set_new_nocheck(object, key, value) < 0)
			return made(enc, &here, NULL, ret);
	}
	*ret = TAKE_PTR(object);
	return STATUS_OK;
}

static bool is_default(const ProtobufCFieldDescriptor *field, const void *value)
{
	static const char zero[sizeof(ProtobufCBinaryData)];

	if (field->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(const char *const *)value;

		return !text || text[0] == '\0';
	}
	if (field->type == PROTOBUF_C_TYPE_BYTES)
		return ((const ProtobufCBinaryData *)value)->len == 0;
	return memcmp(value, zero, pbjson_value_size(field->type)) == 0;
}

/* Leaves *@ret NULL when the field is not printed. */
static enum status encode_field(struct encoder *enc, const struct pbjson_path *at,
				const ProtobufCFieldDescriptor *field, const ProtobufCMessage *message,
				json_t **ret)
{
	const char *value = (const char *)message + field->offset;
	const char *quantifier = (const char *)message + field->quantifier_offset;

	if (field->label == PROTOBUF_C_LABEL_REPEATED) {
		size_t n = *(const size_t *)(const void *)quantifier;

		if (n == 0 && !(enc->flags & PBJSON_DEFAULTS))
			return STATUS_OK;
		if (pbjson_is_map(field))
			return encode_map(enc, at, field,
					  *(ProtobufCMessage *const *const *)(const void *)value, n, ret);
		return encode_list(enc, at, field, *(const char *const *)(const void *)value, n, ret);
	}
	if (pbjson_in_oneof(field)) {
		if (*(const uint32_t *)(const void *)quantifier != field->id)
			return STATUS_OK;
	} else if (is_default(field, value)) {
		/* an absent message has no default to show */
		if (field->type == PROTOBUF_C_TYPE_MESSAGE || !(enc->flags & PBJSON_DEFAULTS))
			return STATUS_OK;
	}
	return encode_value(enc, at, field, value, ret);
}

static enum status encode_fields(struct encoder *enc, const struct pbjson_path *at,
				 const ProtobufCMessage *message, json_t *object)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;

	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		struct pbjson_path here = {.parent = at, .field = field->name};
		char name[PBJSON_NAME_SIZE];
		json_t *value = NULL;
		enum status status = encode_field(enc, &here, field, message, &value);

		if (status != STATUS_OK)
			return status;
		if (!value)
			continue;
		pbjson_json_name(field, name);
		if (json_object_set_new_nocheck(object, enc->flags & PBJSON_PROTO_NAMES ? field->name : name,
						value) < 0)
			return pbjson_fail(&here, STATUS_RESOURCE_EXHAUSTED, enc->err, "out of memory");
	}
	return STATUS_OK;
}

static enum status encode_message(struct encoder *enc, const struct pbjson_path *at,
				  const ProtobufCMessage *message, json_t **ret)
{
	cleanup_json json_t *object = NULL;
	enum status status;

	if (enc->depth == PBJSON_DEPTH_MAX)
		return pbjson_fail(at, STATUS_INTERNAL, enc->err, "nested deeper than %d messages",
				   PBJSON_DEPTH_MAX);
	if (pbjson_is_well_known(message->descriptor))
		return pbjson_fail(at, STATUS_UNIMPLEMENTED, enc->err, "%s has no JSON form here",
				   message->descriptor->name);
	object = json_object();
	if (!object)
		return made(enc, at, NULL, ret);
	enc->depth++;
	status = encode_fields(enc, at, message, object);
	enc->depth--;
	if (status == STATUS_OK)
		*ret = TAKE_PTR(object);
	return status;
}

enum status pbjson_encode(const ProtobufCMessage *message, unsigned int flags, json_t **ret,
			  struct error *err)
{
	struct encoder enc = {.flags = flags, .depth = 0, .err = err};

	return encode_message(&enc, NULL, message, ret);
}
