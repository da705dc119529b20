/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Enum values as people write them in specifications: "single-node-writer" for SINGLE_NODE_WRITER, and
 * "private" for PROPAGATION_PRIVATE, because protobuf requires the enum's name before values used twice. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/** The value that is written as @word, or NULL.
 * @spec accept the forms that people write, or only the name of the .proto file */
const ProtobufCEnumValue *pbjson_word_find(const ProtobufCEnumDescriptor *descriptor, const char *word,
					   bool spec);

/** Write the existing values, "a, b, c", in the requested form; cut when there is no room. Returns @text. */
const char *pbjson_word_list(const ProtobufCEnumDescriptor *descriptor, bool spec, char *text, size_t size);

enum { PBJSON_WORD_SIZE = 64 };

/** Write @value as people write it, or its number if it has no name. Returns @text. */
const char *pbjson_word_text(const ProtobufCEnumDescriptor *descriptor, int value,
			     char text[static PBJSON_WORD_SIZE]);
