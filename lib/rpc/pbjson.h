/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* protobuf-c messages to JSON and back, by descriptors only: the proto3 JSON mapping.
 *
 * Depth is limited and nothing recursive is on our wire. Errors name the path of the field:
 * "volume.requested_capabilities[1].access_mode: ...". */

#include "base/error.h"
#include "base/strbuf.h"

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

enum { PBJSON_DEPTH_MAX = 32 }; /* nested messages, the outermost included */

enum pbjson_flags {
	PBJSON_DEFAULTS = 1 << 0,    /* print fields that have their default value */
	PBJSON_PROTO_NAMES = 1 << 1, /* snake_case as in the .proto file; both are read in any case */
	/* For specifications that people write: enum values in any case with dashes ("single-node-writer"),
	 * sizes as text ("10GiB") for integers whose name ends in _bytes, one object where a list is
	 * expected. */
	PBJSON_SPEC = 1 << 2,
	PBJSON_LINES = 1 << 3, /* print one field or element a line, indented by two blanks */
};

#define PBJSON_TEXT_MAX (SIZE_MAX / 4)

/** Append the JSON of @message. STATUS_RESOURCE_EXHAUSTED when memory is short or @to full, STATUS_INTERNAL
 * for a string that is not UTF-8; @to then ends somewhere.
 * @level of its lines after the first, with PBJSON_LINES */
enum status pbjson_print(const ProtobufCMessage *message, unsigned int flags, unsigned int level,
			 struct strbuf *to, struct error *err);

/** The same as a tree. @ret owned by the caller, json_decref(). */
enum status pbjson_encode(const ProtobufCMessage *message, unsigned int flags, json_t **ret,
			  struct error *err);

/** @ret owned by the caller, protobuf_c_message_free_unpacked(). Unknown fields, wrong types, numbers out of
 * range, duplicates and unknown enum values (the error lists the known ones) are STATUS_INVALID_ARGUMENT. */
enum status pbjson_decode(const ProtobufCMessageDescriptor *descriptor, const json_t *json,
			  unsigned int flags, ProtobufCMessage **ret, struct error *err);
