/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/unpack.h"

#include <stdbool.h>
#include <stdlib.h>

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

enum status unpack_message(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n, size_t max,
			   ProtobufCMessage **ret, struct error *err)
{
	struct budget budget = {.left = max > SIZE_MAX / UNPACK_FACTOR ? SIZE_MAX : max * UNPACK_FACTOR};
	ProtobufCAllocator allocator = {.alloc = allocate, .free = give, .allocator_data = &budget};
	ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, n, bytes);

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
	if (!json)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is no JSON: line %d column %d: %s",
				 what, where.line, where.column, where.text);
	*ret = json;
	return STATUS_OK;
}
