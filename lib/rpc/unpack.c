/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/unpack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct budget {
	size_t left;
	bool is_over;
};

static void *allocate(void *userdata, size_t n)
{
	struct budget *budget = userdata;

	if (n > SIZE_MAX - UNPACK_CHUNK || n + UNPACK_CHUNK > budget->left) {
		budget->is_over = true;
		return NULL;
	}
	budget->left -= n + UNPACK_CHUNK; /* memory freed meanwhile does not count: it is little */
	return malloc(n);
}

static void give(void *userdata, void *bytes)
{
	free(bytes);
}

enum { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 5, TAG_WIRE_BITS = 3, TAG_WIRE_MASK = 7 };

/* The part of a message that is not read yet. */
struct wire {
	const uint8_t *at, *end;
};

static uint64_t take_varint(struct wire *wire)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; wire->at < wire->end && shift < 64; shift += 7) {
		uint8_t byte = *wire->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	return value;
}

static struct wire take(struct wire *wire, uint64_t n)
{
	size_t left = (size_t)(wire->end - wire->at);
	struct wire taken = {wire->at, wire->at + (n < left ? n : left)};

	wire->at = taken.end;
	return taken;
}

/* The name of a text in the message that has a NUL byte, or NULL. libprotobuf-c makes a C string of it, which
 * ends there: two sides would read two texts. The bytes are a message: they have been unpacked. */
static const char *find_cut_text(const ProtobufCMessageDescriptor *type, struct wire wire)
{
	const char *name = NULL;

	while (!name && wire.at < wire.end) {
		uint64_t tag = take_varint(&wire);
		const ProtobufCFieldDescriptor *field =
			protobuf_c_message_descriptor_get_field(type, (unsigned int)(tag >> TAG_WIRE_BITS));
		struct wire value;

		switch (tag & TAG_WIRE_MASK) {
		case WIRE_VARINT:
			(void)take_varint(&wire);
			break;
		case WIRE_FIXED64:
			(void)take(&wire, sizeof(uint64_t));
			break;
		case WIRE_FIXED32:
			(void)take(&wire, sizeof(uint32_t));
			break;
		case WIRE_BYTES:
			value = take(&wire, take_varint(&wire));
			if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
				name = find_cut_text(field->descriptor, value);
			else if (field && field->type == PROTOBUF_C_TYPE_STRING &&
				 memchr(value.at, 0, (size_t)(value.end - value.at)))
				name = field->name;
			break;
		default:
			return NULL;
		}
	}
	return name;
}

enum status unpack_message(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n, size_t max,
			   ProtobufCMessage **ret, struct error *err)
{
	struct budget budget = {.left = max > SIZE_MAX / UNPACK_FACTOR ? SIZE_MAX : max * UNPACK_FACTOR};
	ProtobufCAllocator allocator = {.alloc = allocate, .free = give, .allocator_data = &budget};
	ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, n, bytes);
	const char *cut = message && n > 0 && memchr(bytes, 0, n)
				  ? find_cut_text(type, (struct wire){bytes, bytes + n})
				  : NULL;

	if (cut) {
		protobuf_c_message_free_unpacked(message, NULL);
		return error_set(err, STATUS_INTERNAL, 0, "the message is no valid %s: %s has a NUL byte",
				 type->name, cut);
	}
	if (message) {
		*ret = message;
		return STATUS_OK;
	}
	if (budget.is_over)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "the message takes more than %zu bytes of memory: send less at once",
				 max * UNPACK_FACTOR);
	return error_set(err, STATUS_INTERNAL, 0, "the message is no valid %s", type->name);
}

/* At most the number of its values and keys, without looking at what it means. */
static size_t count_values(const char *text, size_t n)
{
	bool in_text = false;
	size_t count = 1;

	for (size_t i = 0; i < n; i++) {
		if (in_text && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_text = !in_text;
		else if (!in_text && (text[i] == ',' || text[i] == '[' || text[i] == '{'))
			count++;
	}
	return count;
}

enum status unpack_json(const char *what, const char *text, size_t n, json_t **ret, struct error *err)
{
	json_error_t where;
	json_t *json;

	if (count_values(text, n) > JSON_VALUES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%s has more than %d values: send less at once", what, JSON_VALUES_MAX);
	json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
	if (!json) { /* the text there may be a secret */
		const char *near = strstr(where.text, " near '");

		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is no JSON: line %d column %d: %.*s",
				 what, where.line, where.column, near ? (int)(near - where.text) : -1,
				 where.text);
	}
	*ret = json;
	return STATUS_OK;
}
