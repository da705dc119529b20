/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Messages with random content, from descriptors: equal seeds give equal messages. */

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

/** @ret owned by the caller, protobuf_c_message_free_unpacked() */
ProtobufCMessage *random_message(const ProtobufCMessageDescriptor *descriptor, uint64_t seed);
