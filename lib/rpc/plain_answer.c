/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/plain_answer.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/utf8.h"
#include "rpc/grpc_status.h"
#include "rpc/pbjson.h"

#include <string.h>

void plain_error_text(const struct error *err, char ret[static ERROR_MSG_MAX])
{
	if (utf8_is_valid(err->msg, strlen(err->msg)))
		(void)str_copy(ret, ERROR_MSG_MAX, err->msg);
	else
		str_copy_text(ret, ERROR_MSG_MAX, err->msg);
}

char *plain_error_body(const struct error *err, const ProtobufCMessage *details)
{
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup(json_decrefp) json_t *more = NULL;
	char text[ERROR_MSG_MAX];

	plain_error_text(err, text);
	json = json_pack("{s:s, s:s}", "code", connect_code(err->status), "message", text);
	if (!json)
		return NULL;
	/* omitted if it cannot be encoded: the message has the same content */
	if (details && pbjson_encode(details, PBJSON_PROTO_NAMES, &more, NULL) == STATUS_OK)
		(void)json_object_set(json, "details", more);
	return json_dumps(json, JSON_COMPACT);
}
