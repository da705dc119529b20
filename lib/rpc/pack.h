/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Packing messages in one pass, from the end: the length of a message within one is known when it is written.
 * protobuf-c goes through each message twice, to measure and to pack. Pure. */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

enum { PACK_USUAL = 4096 }; /* room in which nearly all messages fit */

/** The bytes that protobuf_c_message_pack() makes, with utf8_mask() over each text, at the end of the @size
 * bytes at @buffer.
 * @ret_n how many
 * Returns their begin; NULL when they do not fit: then the content of @buffer is undefined. */
const uint8_t *pack_at_end(const ProtobufCMessage *message, uint8_t *buffer, size_t size, size_t *ret_n);

/** The same bytes on the heap, and @before bytes of room in front of them.
 * Owned by the caller, free(); NULL when memory is short. @ret_n without those in front. */
uint8_t *pack_message(const ProtobufCMessage *message, size_t before, size_t *ret_n);
