/* SPDX-License-Identifier: Apache-2.0 */
#include "access/reply.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "state/change.h"

#include <stdlib.h>

struct reply {
	struct rpc_call *call;
	ProtobufCMessage *message; /* owned */
};

static void send_reply(struct server *server, void *userdata)
{
	cleanup_free struct reply *reply = userdata;

	(void)server;
	rpc_call_reply(reply->call, reply->message);
	protobuf_c_message_free_unpacked(reply->message, NULL);
}

struct reply_waiting *reply_waiting_new(struct rpc_call *call, const char *id)
{
	struct reply_waiting *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->call = call;
	(void)str_copy(waiting->id, sizeof(waiting->id), id);
	return waiting;
}

void reply_error(struct rpc_call *call, enum status status, const char *message)
{
	struct error err;

	(void)error_set(&err, status, 0, "%s", message);
	rpc_call_fail(call, &err);
}

void reply_durable(struct server *server, struct rpc_call *call, ProtobufCMessage *message)
{
	struct change nothing = CHANGE_INIT;
	struct reply *reply;
	struct error err;

	if (!message) {
		reply_error(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (change_check(server, &err) != STATUS_OK) {
		protobuf_c_message_free_unpacked(message, NULL);
		rpc_call_fail(call, &err);
		return;
	}
	if (kv_stats(server->kv).pending == 0) {
		rpc_call_reply(call, message);
		protobuf_c_message_free_unpacked(message, NULL);
		return;
	}
	reply = calloc(1, sizeof(*reply));
	if (!reply) {
		protobuf_c_message_free_unpacked(message, NULL);
		reply_error(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*reply = (struct reply){.call = call, .message = message};
	if (change_commit(server, &nothing, send_reply, reply, &err) != STATUS_OK) {
		free(reply);
		protobuf_c_message_free_unpacked(message, NULL);
		rpc_call_fail(call, &err);
	}
}

enum status reply_changed(struct server *server, struct change *change, struct rpc_call *call,
			  ProtobufCMessage *message, struct error *err)
{
	struct reply *reply = message ? calloc(1, sizeof(*reply)) : NULL;
	enum status st;

	if (reply) {
		*reply = (struct reply){.call = call, .message = message};
		st = change_commit(server, change, send_reply, reply, err);
	} else {
		st = error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	}
	if (st == STATUS_OK)
		return st;
	free(reply);
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	return st;
}

void reply_refused(struct server *server, struct rpc_call *call, const char *what, const struct error *err)
{
	audit_refused(server, call, what, NULL, err);
	rpc_call_fail(call, err);
}
