/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/plain_answer.h"

#include "base/cleanup.h"
#include "rpc/grpc_status.h"
#include "rpc/pbjson.h"

char *plain_error_body(const struct error *err, const ProtobufCMessage *details)
{
	cleanup(json_decrefp) json_t *json =
		json_pack("{s:s, s:s}", "code", connect_code(err->status), "message", err->msg);
	cleanup(json_decrefp) json_t *more = NULL;

	if (!json)
		return NULL;
	/* omitted if it cannot be encoded: the message has the same content */
	if (details && pbjson_encode(details, PBJSON_PROTO_NAMES, &more, NULL) == STATUS_OK)
		(void)json_object_set(json, "details", more);
	return json_dumps(json, JSON_COMPACT);
}
