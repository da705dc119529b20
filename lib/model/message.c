/* SPDX-License-Identifier: Apache-2.0 */
#include "model/message.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "pb/reflect.h"

#include <assert.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *pack(const ProtobufCMessage *message, size_t *ret_len)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	uint8_t *bytes = malloc(len + 1);

	if (bytes)
		*ret_len = protobuf_c_message_pack(message, bytes);
	return bytes;
}

static void *count_and_allocate(void *sum, size_t n)
{
	void *block = malloc(n);

	*(size_t *)sum += malloc_usable_size(block);
	return block;
}

static void uncount_and_free(void *sum, void *block)
{
	*(size_t *)sum -= malloc_usable_size(block);
	free(block);
}

ProtobufCMessage *message_convert_counted(const ProtobufCMessageDescriptor *descriptor,
					  const ProtobufCMessage *from, size_t *bytes)
{
	ProtobufCAllocator counting = {count_and_allocate, uncount_and_free, bytes};
	size_t len = 0;
	cleanup_free uint8_t *packed = pack(from, &len);
	ProtobufCMessage *message =
		packed ? protobuf_c_message_unpack(descriptor, &counting, len, packed) : NULL;

	if (packed)
		explicit_bzero(packed, len); /* of plugins' calls it holds secrets */
	return message;
}

ProtobufCMessage *message_convert(const ProtobufCMessageDescriptor *descriptor, const ProtobufCMessage *from)
{
	size_t bytes = 0;

	return message_convert_counted(descriptor, from, &bytes);
}

bool message_set_text(char **field, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return false;
	if (*field != protobuf_c_empty_string)
		free(*field);
	*field = copy;
	return true;
}

static void *pointer_at(const char *at)
{
	void *pointer;

	memcpy(&pointer, at, sizeof(pointer));
	return pointer;
}

/* Free the value at @at and clear it. */
static void clear_value(const ProtobufCFieldDescriptor *field, char *at)
{
	void *value = NULL;

	if (field->type == PROTOBUF_C_TYPE_STRING) {
		value = pointer_at(at);
		if (value != field->default_value && value != protobuf_c_empty_string)
			free(value);
		value = (void *)(uintptr_t)&protobuf_c_empty_string;
		memcpy(at, &value, sizeof(value));
	} else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
		value = pointer_at(at);
		if (value)
			protobuf_c_message_free_unpacked(value, NULL);
		value = NULL;
		memcpy(at, &value, sizeof(value));
	} else {
		memset(at, 0, reflect_size(field->type));
	}
}

/* @to holds nothing. */
static bool copy_value(const ProtobufCFieldDescriptor *field, char *to, const char *from)
{
	void *copy;

	if (field->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = pointer_at(from);

		if (!text || text[0] == '\0')
			return true;
		copy = strdup(text);
	} else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
		if (!pointer_at(from))
			return true;
		copy = message_convert(field->descriptor, pointer_at(from));
	} else {
		memcpy(to, from, reflect_size(field->type));
		return true;
	}
	if (copy)
		memcpy(to, &copy, sizeof(copy));
	return copy != NULL;
}

static void clear_list(const ProtobufCFieldDescriptor *field, ProtobufCMessage *message)
{
	char *at = (char *)message + field->offset;
	size_t *n = (size_t *)(void *)((char *)message + field->quantifier_offset);
	char *values = pointer_at(at);
	void *none = NULL;

	for (size_t i = 0; i < *n; i++)
		clear_value(field, values + i * reflect_size(field->type));
	free(values);
	memcpy(at, &none, sizeof(none));
	*n = 0;
}

static bool copy_list(const ProtobufCFieldDescriptor *field, ProtobufCMessage *to,
		      const ProtobufCFieldDescriptor *from_field, const ProtobufCMessage *from)
{
	const struct reflect_values from_values = reflect_values(from, from_field);
	size_t *n = (size_t *)(void *)((char *)to + field->quantifier_offset);
	size_t size = reflect_size(field->type);
	char *values;

	if (from_values.n == 0)
		return true;
	values = calloc(from_values.n, size);
	if (!values)
		return false;
	memcpy((char *)to + field->offset, &values, sizeof(values));
	for (; *n < from_values.n; ++*n)
		if (!copy_value(field, values + *n * size, reflect_value(&from_values, *n)))
			return false;
	return true;
}

static bool copy_field(const ProtobufCFieldDescriptor *field, ProtobufCMessage *to,
		       const ProtobufCFieldDescriptor *from_field, const ProtobufCMessage *from)
{
	if (reflect_is_list(field)) {
		clear_list(field, to);
		return copy_list(field, to, from_field, from);
	}
	clear_value(field, (char *)to + field->offset);
	return copy_value(field, (char *)to + field->offset, reflect_at(from, from_field));
}

bool message_copy_fields(ProtobufCMessage *to, const ProtobufCMessage *from)
{
	for (unsigned int i = 0; i < to->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &to->descriptor->fields[i];
		const ProtobufCFieldDescriptor *from_field =
			protobuf_c_message_descriptor_get_field_by_name(from->descriptor, field->name);

		if (!from_field || from_field->type != field->type || from_field->label != field->label ||
		    field->type == PROTOBUF_C_TYPE_BYTES)
			continue;
		if (!copy_field(field, to, from_field, from))
			return false;
	}
	return true;
}

bool message_copy_from(ProtobufCMessage *to, const ProtobufCMessage *from, uint32_t first)
{
	assert(to->descriptor == from->descriptor);
	for (unsigned int i = 0; i < to->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &to->descriptor->fields[i];

		assert(field->id < first || field->type != PROTOBUF_C_TYPE_BYTES);
		if (field->id >= first && !copy_field(field, to, field, from))
			return false;
	}
	return true;
}

bool message_list_new(ProtobufCMessage *const *from, size_t n, struct message_list **ret)
{
	struct message_list *list;

	*ret = NULL;
	if (n == 0)
		return true;
	list = calloc(1, sizeof(*list) + n * sizeof(void *));
	if (!list)
		return false;
	list->n_refs = 1;
	list->bytes = malloc_usable_size(list);
	for (size_t i = 0; i < n; i++) {
		list->messages[i] = message_convert_counted(from[i]->descriptor, from[i], &list->bytes);
		list->n = i + 1;
		if (list->messages[i])
			continue;
		message_list_unref(list);
		return false;
	}
	*ret = list;
	return true;
}

struct message_list *message_list_ref(struct message_list *list)
{
	if (list)
		list->n_refs++;
	return list;
}

void message_list_unref(struct message_list *list)
{
	if (!list || --list->n_refs > 0)
		return;
	for (size_t i = 0; i < list->n; i++)
		if (list->messages[i])
			protobuf_c_message_free_unpacked(list->messages[i], NULL);
	free(list);
}

size_t message_list_bytes(const struct message_list *list)
{
	return list ? list->bytes : 0;
}

size_t message_list_n(const struct message_list *list)
{
	return list ? list->n : 0;
}

bool message_list_eq(const struct message_list *a, const struct message_list *b)
{
	size_t n = message_list_n(a);

	if (a == b || n != message_list_n(b))
		return a == b;
	for (size_t i = 0; i < n; i++)
		if (!message_eq(a->messages[i], b->messages[i]))
			return false;
	return true;
}

bool message_eq(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
	size_t n_a = a ? protobuf_c_message_get_packed_size(a) : 0;
	size_t n_b = b ? protobuf_c_message_get_packed_size(b) : 0;
	cleanup_free uint8_t *packed_a = a ? pack(a, &n_a) : NULL;
	cleanup_free uint8_t *packed_b = b ? pack(b, &n_b) : NULL;

	if (n_a != n_b || n_a == 0)
		return n_a == n_b;
	return packed_a && packed_b && memcmp(packed_a, packed_b, n_a) == 0;
}

struct message_text_entry *message_text_map_find(struct message_text_entry *const *map, size_t n,
						 const char *key)
{
	for (size_t i = n; i > 0; i--) /* the last entry of a key counts */
		if (str_eq(map[i - 1]->key, key))
			return map[i - 1];
	return NULL;
}

bool message_text_maps_eq(struct message_text_entry *const *a, size_t n_a,
			  struct message_text_entry *const *b, size_t n_b)
{
	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++) {
		const struct message_text_entry *other = message_text_map_find(b, n_b, a[i]->key);

		if (!other || !str_eq(other->value, a[i]->value))
			return false;
	}
	return true;
}

/* An allocation that knows its size, so that all of it is wiped. malloc_usable_size() is unsuitable: it may
 * return more than the requested size, and _FORTIFY_SOURCE ends a process that writes there. */
struct block {
	size_t n;
	_Alignas(max_align_t) unsigned char bytes[];
};

static void *allocate(void *userdata, size_t n)
{
	struct block *block = n <= SIZE_MAX - sizeof(*block) ? malloc(sizeof(*block) + n) : NULL;

	if (!block)
		return NULL;
	block->n = n;
	return block->bytes;
}

static void wipe(void *userdata, void *bytes)
{
	struct block *block;

	if (!bytes)
		return;
	block = (void *)((char *)bytes - offsetof(struct block, bytes));
	explicit_bzero(block->bytes, block->n);
	free(block);
}

static ProtobufCAllocator wiping = {.alloc = allocate, .free = wipe};

ProtobufCMessage *message_copy_secret(const ProtobufCMessage *from)
{
	size_t n = protobuf_c_message_get_packed_size(from);
	uint8_t *packed = allocate(NULL, n + 1);
	ProtobufCMessage *copy;

	if (!packed)
		return NULL;
	(void)protobuf_c_message_pack(from, packed);
	copy = protobuf_c_message_unpack(from->descriptor, &wiping, n, packed);
	wipe(NULL, packed);
	return copy;
}

void message_free_secret(ProtobufCMessage *message)
{
	protobuf_c_message_free_unpacked(message, &wiping);
}
