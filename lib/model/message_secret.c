/* SPDX-License-Identifier: Apache-2.0 */
#include "model/message.h"

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

ProtobufCMessage *message_copy_secret(const ProtobufCMessage *from)
{
	size_t n = protobuf_c_message_get_packed_size(from);
	uint8_t *packed = take(NULL, n + 1);
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
