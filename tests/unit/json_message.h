/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Messages from JSON, in which ' is as good as ". */

#include "unit.h"

#include "rpc/pbjson.h"
#include "rpc/server.h"

/** @ret owned by the caller, protobuf_c_message_free_unpacked() */
static inline void *message_of(const ProtobufCMessageDescriptor *type, const char *text)
{
	cleanup_free char *copy = strdup(text);
	struct error err = {.msg = "it is not JSON"};
	ProtobufCMessage *message = NULL;
	json_t *json;

	for (char *at = copy; at && (at = strchr(at, '\'')) != NULL;)
		*at = '"';
	json = copy ? json_loads(copy, 0, NULL) : NULL;
	if (!json || pbjson_decode(type, json, 0, &message, &err) != STATUS_OK)
		fail_msg("%s: %s", text, err.msg);
	json_decref(json);
	return message;
}

/** Answers a call with a message of @type. */
static inline void reply_json(struct rpc_call *call, const ProtobufCMessageDescriptor *type, const char *text)
{
	ProtobufCMessage *message = message_of(type, text);

	rpc_call_reply(call, message);
	protobuf_c_message_free_unpacked(message, NULL);
}

/** Sends a message of @type on a stream. */
static inline void send_json(struct rpc_call *call, const ProtobufCMessageDescriptor *type, const char *text)
{
	ProtobufCMessage *message = message_of(type, text);

	assert_int_equal(rpc_call_send(call, message, NULL), STATUS_OK);
	protobuf_c_message_free_unpacked(message, NULL);
}
