/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* JSON to one value of a message, for every type but messages. */

#include "rpc/pbjson_field.h"

#include <jansson.h>

/** "<path>: wants <what>, not ...", STATUS_INVALID_ARGUMENT. */
enum status pbjson_wanted(const struct pbjson_path *at, const char *what, const json_t *json,
			  struct error *err);

/** STATUS_RESOURCE_EXHAUSTED. */
enum status pbjson_no_memory(const struct pbjson_path *at, struct error *err);

/** Read @json into @value, the storage of one value of @field: never PROTOBUF_C_TYPE_MESSAGE. What @value
 * comes to own is freed with its message. @flags of pbjson_decode() */
enum status pbjson_decode_scalar(unsigned int flags, const struct pbjson_path *at,
				 const ProtobufCFieldDescriptor *field, const json_t *json, void *value,
				 struct error *err);
