/* SPDX-License-Identifier: Apache-2.0 */
#include "random_message.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "pb/reflect.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH = 4, LIST = 4 };

/* xorshift64*: enough variety, the same on every machine */
static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * UINT64_C(2685821657736338717);
}

static uint64_t below(uint64_t *seed, uint64_t n)
{
	return (next(seed) >> 11) % n;
}

static uint64_t interesting(uint64_t *seed)
{
	static const uint64_t values[] = {0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, INT32_MAX};
	uint64_t pick = below(seed, ARRAY_SIZE(values) + 1);

	return pick < ARRAY_SIZE(values) ? values[pick] : next(seed);
}

static char *text(uint64_t *seed)
{
	static const char *const pieces[] = {"a",  "Z",	       "\"",	       "\\", "/",
					     "\n", "\xc3\xa9", "\xe2\x82\xac", "%s"};
	char *out = calloc(1, 40);

	for (uint64_t n = below(seed, 6); out && n > 0; n--) {
		size_t at = strlen(out);

		(void)str_format(out + at, 40 - at, "%s", pieces[below(seed, ARRAY_SIZE(pieces))]);
	}
	return out;
}

static void fill(ProtobufCMessage *message, uint64_t *seed, int depth);

static ProtobufCMessage *submessage(const ProtobufCMessageDescriptor *descriptor, uint64_t *seed, int depth)
{
	ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);

	if (!message)
		return NULL;
	descriptor->message_init(message);
	fill(message, seed, depth + 1);
	return message;
}

static void value(const ProtobufCFieldDescriptor *field, void *out, uint64_t *seed, int depth)
{
	uint64_t number = interesting(seed);

	switch (field->type) {
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)out = (protobuf_c_boolean)(number & 1);
		return;
	case PROTOBUF_C_TYPE_ENUM: {
		const ProtobufCEnumDescriptor *descriptor = field->descriptor;

		*(int *)out = descriptor->values[below(seed, descriptor->n_values)].value;
		return;
	}
	case PROTOBUF_C_TYPE_FLOAT:
		*(float *)out = (float)below(seed, 1 << 20) / 64;
		return;
	case PROTOBUF_C_TYPE_DOUBLE:
		*(double *)out = (double)(int64_t)next(seed) / 3;
		return;
	case PROTOBUF_C_TYPE_STRING:
		*(char **)out = text(seed);
		return;
	case PROTOBUF_C_TYPE_BYTES: {
		ProtobufCBinaryData *bytes = out;

		bytes->len = below(seed, 8);
		bytes->data = bytes->len ? calloc(1, bytes->len) : NULL;
		for (size_t i = 0; bytes->data && i < bytes->len; i++)
			bytes->data[i] = (uint8_t)next(seed);
		return;
	}
	case PROTOBUF_C_TYPE_MESSAGE:
		*(ProtobufCMessage **)out = submessage(field->descriptor, seed, depth);
		return;
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		memcpy(out, &number, reflect_size(field->type));
		return;
	}
}

/* Keys of a map must differ: entry @i gets key @i. */
static void map_key(const ProtobufCFieldDescriptor *field, void *out, uint64_t i)
{
	if (field->type == PROTOBUF_C_TYPE_STRING) {
		char key[24];

		(void)str_format(key, sizeof(key), "key %zu", (size_t)i);
		*(char **)out = strdup(key);
		return;
	}
	memcpy(out, &i, reflect_size(field->type));
}

static void list(const ProtobufCFieldDescriptor *field, ProtobufCMessage *message, uint64_t *seed, int depth)
{
	bool is_map = reflect_is_map(field);
	size_t size = reflect_size(field->type);
	size_t n = below(seed, is_map ? 3 : LIST);
	char *elements = n ? calloc(n, size) : NULL;

	if (!elements)
		return;
	*(void **)((char *)message + field->offset) = elements;
	*(size_t *)((char *)message + field->quantifier_offset) = n;
	for (size_t i = 0; i < n; i++) {
		value(field, elements + i * size, seed, depth);
		if (is_map) {
			const ProtobufCMessageDescriptor *entry = field->descriptor;
			char *base = ((char **)elements)[i];

			if (entry->fields[0].type == PROTOBUF_C_TYPE_STRING)
				free(*(char **)(base + entry->fields[0].offset));
			map_key(&entry->fields[0], base + entry->fields[0].offset, i);
		}
	}
}

static void fill(ProtobufCMessage *message, uint64_t *seed, int depth)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;
	bool is_entry = descriptor->n_fields == 2 && str_eq(descriptor->fields[0].name, "key");

	for (unsigned int i = 0; i < descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
		char *base = (char *)message;

		if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth >= DEPTH && !is_entry)
			continue;
		if (field->label == PROTOBUF_C_LABEL_REPEATED) {
			list(field, message, seed, depth);
			continue;
		}
		if (reflect_in_oneof(field)) {
			uint32_t *which = (uint32_t *)(void *)(base + field->quantifier_offset);

			if (*which || below(seed, 3) != 0)
				continue;
			*which = field->id;
		} else if (!is_entry && below(seed, 4) == 0) {
			continue;
		}
		value(field, base + field->offset, seed, depth);
	}
}

ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *descriptor, uint64_t seed)
{
	uint64_t state = seed * 2 + 1;

	return submessage(descriptor, &state, 0);
}
