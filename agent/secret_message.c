#include "secret_message.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct secret_message {
	unsigned int refs;
	ProtobufCMessage *pb;
};

/* What it is made of, each with its size before it. */
struct piece {
	size_t size; /* with this */
	max_align_t bytes[];
};

static void *piece_alloc(void *allocator_data, size_t size)
{
	struct piece *piece;

	(void)allocator_data;
	if (size > SIZE_MAX - sizeof(*piece))
		return NULL;
	piece = malloc(sizeof(*piece) + size);
	if (!piece)
		return NULL;
	piece->size = sizeof(*piece) + size;
	return piece->bytes;
}

static void piece_free(void *allocator_data, void *bytes)
{
	struct piece *piece;

	(void)allocator_data;
	if (!bytes)
		return;
	piece = (struct piece *)(void *)((char *)bytes - offsetof(struct piece, bytes));
	explicit_bzero(piece, piece->size);
	free(piece);
}

static ProtobufCAllocator wiping = {.alloc = piece_alloc, .free = piece_free};

enum status secret_message_new(const ProtobufCMessage *from, struct secret_message **ret, struct error *err)
{
	size_t n = protobuf_c_message_get_packed_size(from);
	struct secret_message *secret = calloc(1, sizeof(*secret));
	uint8_t *bytes = malloc(n + 1);

	if (secret && bytes) {
		(void)protobuf_c_message_pack(from, bytes);
		secret->pb = protobuf_c_message_unpack(from->descriptor, &wiping, n, bytes);
		explicit_bzero(bytes, n);
	}
	free(bytes);
	if (!secret || !secret->pb) {
		free(secret);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot keep what a plugin needs");
	}
	secret->refs = 1;
	*ret = secret;
	return STATUS_OK;
}

struct secret_message *secret_message_ref(struct secret_message *secret)
{
	if (secret)
		secret->refs++;
	return secret;
}

void secret_message_unref(struct secret_message *secret)
{
	if (!secret || --secret->refs > 0)
		return;
	protobuf_c_message_free_unpacked(secret->pb, &wiping);
	free(secret);
}

const ProtobufCMessage *secret_message_get(const struct secret_message *secret)
{
	return secret->pb;
}
