/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/pbjson_field.h"

#include "base/str.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Append the text of @at to @text; cut when there is no room. Returns the length so far. */
static size_t render(const struct pbjson_path *at, char *text, size_t size)
{
	size_t n = at->parent ? render(at->parent, text, size) : 0;
	int more;

	if (at->field)
		more = snprintf(text + n, size - n, "%s%s", n ? "." : "", at->field);
	else if (at->key)
		more = snprintf(text + n, size - n, "[\"%s\"]", at->key);
	else
		more = snprintf(text + n, size - n, "[%zu]", at->index);
	if (more < 0)
		return n;
	return n + (size_t)more < size ? n + (size_t)more : size - 1;
}

enum status pbjson_fail(const struct pbjson_path *at, enum status status, struct error *err, const char *fmt,
			...)
{
	char message[ERROR_MSG_MAX];
	char path[ERROR_MSG_MAX / 2];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, args);
	va_end(args);
	if (!at)
		return error_set(err, status, 0, "%s", message);
	(void)render(at, path, sizeof(path));
	return error_set(err, status, 0, "%s: %s", path, message);
}

void pbjson_json_name(const ProtobufCFieldDescriptor *field, char ret[static PBJSON_NAME_SIZE])
{
	size_t n = 0;
	bool raise = false;

	assert(strlen(field->name) < PBJSON_NAME_SIZE);
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

bool pbjson_is_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *entry = field->descriptor;
	size_t n;

	if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
		return false;
	/* protoc names the entries itself and refuses other messages of that name beside a map */
	n = strlen(entry->name);
	return entry->n_fields == 2 && n > 5 && str_eq(entry->name + n - 5, "Entry") &&
	       str_eq(entry->fields[0].name, "key") && str_eq(entry->fields[1].name, "value");
}

bool pbjson_in_oneof(const ProtobufCFieldDescriptor *field)
{
	return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

size_t pbjson_value_size(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		return sizeof(uint32_t);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		return sizeof(uint64_t);
	case PROTOBUF_C_TYPE_FLOAT:
		return sizeof(float);
	case PROTOBUF_C_TYPE_DOUBLE:
		return sizeof(double);
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_ENUM:
		return sizeof(int);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	}
	assert(false);
	return 0;
}

bool pbjson_is_well_known(const ProtobufCMessageDescriptor *descriptor)
{
	return str_eq(descriptor->package_name, "google.protobuf");
}
