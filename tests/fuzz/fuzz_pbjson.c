/* SPDX-License-Identifier: Apache-2.0 */
/* JSON to a message and back: what decodes encodes, and decodes to the same bytes. The first byte picks the
 * message and the flags. */

#include "rpc/pbjson.h"

#include <assert.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void comes_back(const ProtobufCMessageDescriptor *descriptor, const ProtobufCMessage *message)
{
	size_t n = protobuf_c_message_get_packed_size(message);
	ProtobufCMessage *again = NULL;
	json_t *json = NULL;
	struct error err;

	assert(pbjson_encode(message, PBJSON_DEFAULTS, &json, &err) == STATUS_OK);
	assert(pbjson_decode(descriptor, json, 0, &again, &err) == STATUS_OK);
	assert(protobuf_c_message_get_packed_size(again) == n);
	protobuf_c_message_free_unpacked(again, NULL);
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const ProtobufCMessageDescriptor *const descriptors[] = {
		&holdfast__v1__volume__descriptor,
		&holdfast__v1__allocation__descriptor,
		&holdfast__v1__session_up__descriptor,
		&holdfast__v1__claim_volume_response__descriptor,
	};
	const ProtobufCMessageDescriptor *descriptor;
	ProtobufCMessage *message = NULL;
	struct error err;
	json_t *json;

	if (n == 0)
		return 0;
	descriptor = descriptors[data[0] & 3];
	json = json_loadb((const char *)data + 1, n - 1, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (json && pbjson_decode(descriptor, json, data[0] & PBJSON_SPEC, &message, &err) == STATUS_OK) {
		comes_back(descriptor, message);
		protobuf_c_message_free_unpacked(message, NULL);
	}
	json_decref(json);
	return 0;
}
