/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What both directions of pbjson know about a field: its JSON name, its storage, and where it is. */

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	PBJSON_DEPTH_MAX = 32,	/* nested messages, the outermost included */
	PBJSON_NAME_SIZE = 128, /* names of our .proto files are shorter */
};

/* The way from the outermost message to a value: one frame per step, kept on the stack. */
struct pbjson_path {
	const struct pbjson_path *parent; /* NULL: a field of the outermost message */
	const char *field;		  /* set: a field of that name */
	const char *key;		  /* set: an entry of a map; neither set: element @index of a list */
	size_t index;
};

/** Fill @err with "<path>: <message>" and return @status. @at NULL means the outermost message. */
enum status pbjson_fail(const struct pbjson_path *at, enum status status, struct error *err, const char *fmt,
			...) __attribute__((format(printf, 4, 5)));

/** Write the lowerCamelCase name of @field. */
void pbjson_json_name(const ProtobufCFieldDescriptor *field, char ret[static PBJSON_NAME_SIZE]);

/** protobuf-c shows a map as a list of entry messages; entries have a key and a value. */
bool pbjson_is_map(const ProtobufCFieldDescriptor *field);

/** Is @field a member of a oneof? */
bool pbjson_in_oneof(const ProtobufCFieldDescriptor *field);

/** Bytes of one value in the message, or of one element in a list. */
size_t pbjson_value_size(ProtobufCType type);

/** The types of google.protobuf have JSON forms of their own, which are not implemented: our wire has none.
 */
bool pbjson_is_well_known(const ProtobufCMessageDescriptor *descriptor);
