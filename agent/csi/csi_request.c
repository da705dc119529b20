#include "csi/csi_request.h"

#include "base/cleanup.h"
#include "csi/csi_fields.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* An allocation that knows its size, to be wiped whole. malloc_usable_size() does not do: it may tell more
 * than was asked for, and _FORTIFY_SOURCE ends who writes there. */
struct block {
	size_t n;
	_Alignas(max_align_t) unsigned char bytes[];
};

static void *take(void *userdata, size_t n)
{
	struct block *block = n <= SIZE_MAX - sizeof(*block) ? malloc(sizeof(*block) + n) : NULL;

	(void)userdata;
	if (!block)
		return NULL;
	block->n = n;
	return block->bytes;
}

static void wipe(void *userdata, void *bytes)
{
	struct block *block;

	(void)userdata;
	if (!bytes)
		return;
	block = (void *)((char *)bytes - offsetof(struct block, bytes));
	explicit_bzero(block->bytes, block->n);
	free(block);
}

static ProtobufCAllocator wiping = {.alloc = take, .free = wipe};

static int compare_entries(const void *a, const void *b)
{
	return strcmp(csi_map_key(*(ProtobufCMessage *const *)a), csi_map_key(*(ProtobufCMessage *const *)b));
}

static void sort_maps(ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		struct csi_values values = csi_values(message, field);

		if (field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		for (size_t k = 0; k < values.n; k++)
			sort_maps(csi_value_message(&values, k));
		if (csi_is_map(field) && values.n > 1)
			qsort(values.first, values.n, sizeof(ProtobufCMessage *), compare_entries);
	}
}

ProtobufCMessage *csi_request_copy(const ProtobufCMessage *request)
{
	size_t n = protobuf_c_message_get_packed_size(request);
	uint8_t *packed = take(NULL, n + 1);
	ProtobufCMessage *copy;

	if (!packed)
		return NULL;
	(void)protobuf_c_message_pack(request, packed);
	copy = protobuf_c_message_unpack(request->descriptor, &wiping, n, packed);
	wipe(NULL, packed);
	if (copy)
		sort_maps(copy);
	return copy;
}

void csi_request_free(ProtobufCMessage *request)
{
	protobuf_c_message_free_unpacked(request, &wiping);
}

static const struct subject {
	const char *field;
	const char *kind;
} subjects[] = {
	{"volume_id", "volume"},
	{"snapshot_id", "snapshot"},
	{"source_volume_id", "volume"},
	{"name", "volume"},
};

const char *csi_request_subject(const ProtobufCMessage *request, const char **ret_kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) {
		const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
			request->descriptor, subjects[i].field);
		struct csi_values values;

		if (!field || field->type != PROTOBUF_C_TYPE_STRING)
			continue;
		values = csi_values(request, field);
		if (values.n == 1 && csi_value_text(&values, 0)[0] != '\0') {
			*ret_kind = subjects[i].kind;
			return csi_value_text(&values, 0);
		}
	}
	return NULL;
}
