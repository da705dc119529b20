/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Answers: sent once everything that they show or promise is durable. */

#include "base/error.h"
#include "model/node.h"
#include "rpc/server.h"
#include "state/change.h"

#include <holdfast/v1/explain.pb-c.h>
#include <protobuf-c/protobuf-c.h>

struct server;

/** Send @message, which is owned from here on, when all changes submitted so far are on the disk: a reader
 * never sees what a crash could take back. */
void answer_durable(struct server *server, struct rpc_call *call, ProtobufCMessage *message);

/** Counts commits as those of @call's caller until change_end_author(). */
void answer_begin(struct server *server, const struct rpc_call *call, struct change_author *ret);

/** Commit @change and send @message, which is owned from here on in any case, when it is durable. NULL is
 * STATUS_RESOURCE_EXHAUSTED. */
enum status answer_changed(struct server *server, struct change *change, struct rpc_call *call,
			   ProtobufCMessage *message, struct error *err);

/* A call about one object that waits for its change to be durable. */
struct answer_waiting {
	struct rpc_call *call;
	char id[NODE_ID_MAX + 1]; /* of a node, or an allocation */
};

/** NULL when memory is short, of which change_commit_taking() takes care. */
struct answer_waiting *answer_waiting_new(struct rpc_call *call, const char *id);

/** Answer with an error made here. */
void answer_error(struct rpc_call *call, enum status status, const char *message);

/** Returns the fields that @err names, for programs; owned by the caller. NULL: no fields, or no memory. */
Holdfast__V1__ErrorDetails *answer_details(const struct error *err);

/** Answer @call with @err, which refuses the write @what ("Volumes.Register"), and record that. */
void answer_refused(struct server *server, struct rpc_call *call, const char *what, const struct error *err);

/* Define the rpc_unary_fn @name of a method that changes something, @what ("Volumes.Register"):
 * enum status handle(struct server *, struct rpc_call *, const Request *, struct error *) runs when
 * the gate has let the call pass, answers itself when OK, and stages audit_write() in its change; what it
 * returns as an error is the answer and is recorded. */
#define DEFINE_WRITE_METHOD(name, Request, what, handle)                                \
	void name(struct rpc_call *call, const ProtobufCMessage *request, void *server) \
	{                                                                               \
		struct change_author author;                                            \
		struct error err;                                                       \
                                                                                        \
		answer_begin(server, call, &author);                                    \
		if (handle(server, call, (const Request *)request, &err) != STATUS_OK)  \
			answer_refused(server, call, what, &err);                       \
		change_end_author(server, &author);                                     \
	}
