/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/pack.h"

#include "base/utf8.h"
#include "pb/reflect.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* Written from the end to the beginning. */
struct out {
	uint8_t *begin;
	uint8_t *at;
	bool is_full; /* something did not fit */
};

static void put_message(struct out *out, const ProtobufCMessage *message);

static void put_bytes(struct out *out, const void *bytes, size_t n)
{
	if (n > (size_t)(out->at - out->begin)) {
		out->is_full = true;
		return;
	}
	out->at -= n;
	if (n > 0)
		memcpy(out->at, bytes, n);
}

static size_t varint_size(uint64_t value)
{
	return (63U - (unsigned int)__builtin_clzll(value | 1)) / 7 + 1;
}

static void put_varint(struct out *out, uint64_t value)
{
	size_t n = varint_size(value);
	uint8_t *at;

	if (n > (size_t)(out->at - out->begin)) {
		out->is_full = true;
		return;
	}
	at = out->at -= n;
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at = (uint8_t)value;
}

static void put_u32(struct out *out, uint32_t value)
{
	value = htole32(value);
	put_bytes(out, &value, sizeof(value));
}

static void put_u64(struct out *out, uint64_t value)
{
	value = htole64(value);
	put_bytes(out, &value, sizeof(value));
}

/* The signs of small negative numbers go to the lowest bit. */
static uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

/* A field with a length, and the length before it. */
static void put_counted(struct out *out, const void *bytes, size_t n)
{
	put_bytes(out, bytes, n);
	put_varint(out, n);
}

/* Any caller may have cut @text within a character, and the receiver would refuse the whole message. */
static void put_text(struct out *out, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	put_bytes(out, text, n);
	if (!out->is_full)
		utf8_mask((char *)out->at, n);
	put_varint(out, n);
}

static void put_binary(struct out *out, const char *at)
{
	ProtobufCBinaryData data;

	memcpy(&data, at, sizeof(data));
	put_counted(out, data.data, data.len);
}

static void put_inner(struct out *out, const ProtobufCMessage *message)
{
	const uint8_t *end = out->at;

	if (message)
		put_message(out, message);
	put_varint(out, (uint64_t)(end - out->at));
}

/* A value without its tag. */
static enum wire put_value(struct out *out, ProtobufCType type, const char *at)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_ENUM:
		put_varint(out, (uint64_t)(int64_t)(int32_t)get_u32(at));
		return WIRE_VARINT;
	case PROTOBUF_C_TYPE_SINT32:
		put_varint(out, zigzag((int32_t)get_u32(at)));
		return WIRE_VARINT;
	case PROTOBUF_C_TYPE_UINT32:
		put_varint(out, get_u32(at));
		return WIRE_VARINT;
	case PROTOBUF_C_TYPE_BOOL:
		put_varint(out, get_u32(at) != 0);
		return WIRE_VARINT;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
		put_varint(out, get_u64(at));
		return WIRE_VARINT;
	case PROTOBUF_C_TYPE_SINT64:
		put_varint(out, zigzag((int64_t)get_u64(at)));
		return WIRE_VARINT;
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_SFIXED32:
	case PROTOBUF_C_TYPE_FLOAT:
		put_u32(out, get_u32(at));
		return WIRE_32;
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		put_u64(out, get_u64(at));
		return WIRE_64;
	case PROTOBUF_C_TYPE_STRING:
		put_text(out, get_pointer(at));
		return WIRE_BYTES;
	case PROTOBUF_C_TYPE_BYTES:
		put_binary(out, at);
		return WIRE_BYTES;
	case PROTOBUF_C_TYPE_MESSAGE:
		put_inner(out, get_pointer(at));
		return WIRE_BYTES;
	}
	return WIRE_VARINT;
}

static void put_tag(struct out *out, uint32_t id, enum wire wire)
{
	put_varint(out, (uint64_t)id << 3 | wire);
}

static void put_list(struct out *out, const ProtobufCFieldDescriptor *field, const char *items, size_t n)
{
	bool is_packed = (field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0;
	size_t size = reflect_size(field->type);
	const uint8_t *end = out->at;

	while (n-- > 0) {
		enum wire wire = put_value(out, field->type, items + n * size);

		if (!is_packed)
			put_tag(out, field->id, wire);
	}
	if (!is_packed)
		return;
	put_varint(out, (uint64_t)(end - out->at));
	put_tag(out, field->id, WIRE_BYTES);
}

static void put_field(struct out *out, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const char *at = reflect_at(message, field);
	size_t n;

	if (reflect_is_list(field)) {
		n = reflect_list_len(message, field);
		if (n > 0)
			put_list(out, field, get_pointer(at), n);
	} else if (reflect_is_set(message, field)) {
		put_tag(out, field->id, put_value(out, field->type, at));
	}
}

static void put_message(struct out *out, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *descriptor = message->descriptor;

	for (unsigned int i = message->n_unknown_fields; i-- > 0;) {
		const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];

		put_bytes(out, field->data, field->len);
		put_tag(out, field->tag, (enum wire)field->wire_type);
	}
	for (unsigned int i = descriptor->n_fields; i-- > 0 && !out->is_full;)
		put_field(out, message, &descriptor->fields[i]);
}

const uint8_t *pack_at_end(const ProtobufCMessage *message, uint8_t *buffer, size_t size, size_t *ret_n)
{
	uint8_t *end = buffer + size;
	struct out out = {.begin = buffer, .at = end};

	put_message(&out, message);
	*ret_n = (size_t)(end - out.at);
	return out.is_full ? NULL : out.at;
}

static uint8_t *pack_large(const ProtobufCMessage *message, size_t before, size_t *ret_n)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(before + n + 1);

	if (bytes)
		(void)pack_at_end(message, bytes + before, n, ret_n); /* fits */
	return bytes;
}

uint8_t *pack_message(const ProtobufCMessage *message, size_t before, size_t *ret_n)
{
	uint8_t room[PACK_USUAL];
	size_t n = 0;
	const uint8_t *at = pack_at_end(message, room, sizeof(room), &n);
	uint8_t *bytes = at ? malloc(before + n + 1) : pack_large(message, before, &n);

	if (at && bytes && n > 0)
		memcpy(bytes + before, at, n);
	if (bytes)
		*ret_n = n;
	explicit_bzero(room + sizeof(room) - (at ? n : sizeof(room)), at ? n : sizeof(room));
	return bytes;
}
