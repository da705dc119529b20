/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Requests that hold maps, made by way of JSON: parameters and secrets of plugins. */

#include "command/command.h"

#include <jansson.h>

/** The message for @json, whose reference is taken; NULL means that memory ran out.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status request_make(const ProtobufCMessageDescriptor *descriptor, json_t *json, void *ret,
			 struct error *err);

/** Makes an object of texts from the values of a repeated option, KEY=VALUE each. The first '=' ends the key.
 * @ret owned by the caller, empty when the option is not given */
enum status request_pairs(struct invocation *inv, enum option_id id, json_t **ret, struct error *err);

/** Returns the contents of the file of --secrets-file; empty without that option. */
enum status request_secrets(struct invocation *inv, json_t **ret, struct error *err);
