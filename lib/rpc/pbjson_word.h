/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Enum words as people write them in specifications: "single-node-writer" for SINGLE_NODE_WRITER, and
 * "private" for PROPAGATION_PRIVATE, because protobuf wants the enum's name before words used twice. */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/** The value that @word stands for, NULL when there is none.
 * @spec accept the forms people write, or only the name of the .proto file */
const ProtobufCEnumValue *pbjson_word_find(const ProtobufCEnumDescriptor *descriptor, const char *word,
					   bool spec);

/** Write the words that exist, "a, b, c", in the form wanted; cut when there is no room. Returns @text. */
const char *pbjson_word_list(const ProtobufCEnumDescriptor *descriptor, bool spec, char *text, size_t size);

enum { PBJSON_WORD_SIZE = 64 };

/** Write the word for @value as people write it; the number when it has none. Returns @text. */
const char *pbjson_word_text(const ProtobufCEnumDescriptor *descriptor, int value,
			     char text[static PBJSON_WORD_SIZE]);
