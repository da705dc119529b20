/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Protobuf and JSON from a peer that may be hostile, in bounded memory: an empty message is two bytes on the
 * wire and hundreds in memory, an empty JSON object likewise. */

#include "base/error.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

enum {
	UNPACK_FACTOR = 16,	   /* memory of a message, over the largest that is taken on the wire */
	UNPACK_CHUNK = 32,	   /* cost of an allocation in addition to its size, at most */
	JSON_VALUES_MAX = 1 << 16, /* objects, lists, texts, numbers and literals of one document */
};

/** protobuf_c_message_unpack() that takes at most UNPACK_FACTOR * @max bytes of memory.
 * @max largest message on the wire
 * @ret owned by the caller, protobuf_c_message_free_unpacked() without an allocator
 * STATUS_INTERNAL for bytes that are no such message or that have a text with a NUL byte,
 * STATUS_RESOURCE_EXHAUSTED for one that is too large in memory. */
enum status unpack_message(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n, size_t max,
			   ProtobufCMessage **ret, struct error *err);

/** Parse a JSON document; duplicate keys are refused.
 * @what "the body"
 * @ret owned by the caller, json_decref(). STATUS_INVALID_ARGUMENT names the wrong position,
 * STATUS_RESOURCE_EXHAUSTED is for more than JSON_VALUES_MAX values. */
enum status unpack_json(const char *what, const char *text, size_t n, json_t **ret, struct error *err);
