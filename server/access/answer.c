/* SPDX-License-Identifier: Apache-2.0 */
#include "access/answer.h"

#include "server.h"

#include "access/audit.h"
#include "access/caller.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "state/change.h"
#include "state/stall.h"

#include <stdlib.h>
#include <string.h>

struct reply {
	struct rpc_call *call;
	ProtobufCMessage *message; /* owned */
};

static void send_reply(struct server *server, void *userdata)
{
	cleanup_free struct reply *reply = userdata;

	rpc_call_reply(reply->call, reply->message);
	protobuf_c_message_free_unpacked(reply->message, NULL);
}

struct answer_waiting *answer_waiting_new(struct rpc_call *call, const char *id)
{
	struct answer_waiting *waiting = calloc(1, sizeof(*waiting));

	if (!waiting)
		return NULL;
	waiting->call = call;
	(void)str_copy(waiting->id, sizeof(waiting->id), id);
	return waiting;
}

void answer_error(struct rpc_call *call, enum status status, const char *message)
{
	struct error err;

	(void)error_set(&err, status, 0, "%s", message);
	rpc_call_fail(call, &err);
}

void answer_begin(struct server *server, const struct rpc_call *call, struct change_author *ret)
{
	access_author(server, call, ret);
	change_begin_author(server, ret);
}

/* change_commit() of a change by @call. */
static enum status commit_for(struct server *server, const struct rpc_call *call, struct change *change,
			      struct reply *reply, struct error *err)
{
	struct change_author author;
	enum status status;

	answer_begin(server, call, &author);
	status = change_commit(server, change, send_reply, reply, err);
	change_end_author(server, &author);
	return status;
}

void answer_durable(struct server *server, struct rpc_call *call, ProtobufCMessage *message)
{
	struct change nothing = CHANGE_INIT;
	struct reply *reply;
	struct error err;

	if (!message) {
		answer_error(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	if (change_check(server, &err) != STATUS_OK) {
		protobuf_c_message_free_unpacked(message, NULL);
		rpc_call_fail(call, &err);
		return;
	}
	if (kv_stats(server->kv).pending == 0 || stall_kind(server) != TROUBLE_NONE) {
		rpc_call_reply(call, message);
		protobuf_c_message_free_unpacked(message, NULL);
		return;
	}
	reply = calloc(1, sizeof(*reply));
	if (!reply) {
		protobuf_c_message_free_unpacked(message, NULL);
		answer_error(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	*reply = (struct reply){.call = call, .message = message};
	if (commit_for(server, call, &nothing, reply, &err) != STATUS_OK) {
		free(reply);
		protobuf_c_message_free_unpacked(message, NULL);
		rpc_call_fail(call, &err);
	}
}

enum status answer_changed(struct server *server, struct change *change, struct rpc_call *call,
			   ProtobufCMessage *message, struct error *err)
{
	struct reply *reply = message ? calloc(1, sizeof(*reply)) : NULL;
	enum status status;

	if (reply) {
		*reply = (struct reply){.call = call, .message = message};
		status = commit_for(server, call, change, reply, err);
	} else {
		status = error_no_memory(err, "an answer");
	}
	if (status == STATUS_OK)
		return status;
	free(reply);
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
	return status;
}

static Holdfast__V1__FieldViolation *violation_new(const char *field, const char *description)
{
	Holdfast__V1__FieldViolation *violation = calloc(1, sizeof(*violation));

	if (!violation)
		return NULL;
	holdfast__v1__field_violation__init(violation);
	violation->field = strdup(field);
	violation->description = strdup(description);
	if (violation->field && violation->description)
		return violation;
	holdfast__v1__field_violation__free_unpacked(violation, NULL);
	return NULL;
}

Holdfast__V1__ErrorDetails *answer_details(const struct error *err)
{
	Holdfast__V1__ErrorDetails *details = err->n_fields > 0 ? calloc(1, sizeof(*details)) : NULL;
	char field[ERROR_FIELD_SIZE];
	char text[ERROR_MSG_MAX];

	if (!details)
		return NULL;
	holdfast__v1__error_details__init(details);
	details->fields = calloc(err->n_fields, sizeof(Holdfast__V1__FieldViolation *));
	for (size_t i = 0; i < err->n_fields && details->fields; i++) {
		if (!error_get_field(err, i, field, text))
			continue;
		details->fields[details->n_fields] = violation_new(field, text);
		details->n_fields += details->fields[details->n_fields] != NULL;
	}
	return details;
}

void answer_refused(struct server *server, struct rpc_call *call, const char *what, const struct error *err)
{
	Holdfast__V1__ErrorDetails *details = answer_details(err);

	audit_refused(server, call, what, NULL, err);
	rpc_call_fail_details(call, err, details ? &details->base : NULL);
	if (details)
		holdfast__v1__error_details__free_unpacked(details, NULL);
}
