/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "rpc/client.h"
#include "rpc/client_internal.h"
#include "rpc/pack.h"

#include <assert.h>

enum { SPARE_PART = 16 };

static const uint64_t SPARE_MAX_US = 100 * USEC_PER_MSEC;

struct rpc_pending {
	struct client_call call;
	ProtobufCMessage *response; /* NULL until it has arrived */
	rpc_done_fn *done;
	void *userdata;
};

static void pending_free(struct rpc_pending *pending)
{
	message_freep(&pending->response);
	free(pending);
}

static void fail(struct client_call *call, struct error *err)
{
	char name[CALL_NAME_SIZE];

	client_call_end(call, error_prefix(err, "%s", client_call_name(call, name)), err);
}

static bool on_progress(struct client_call *call)
{
	struct rpc_pending *pending = call->owner;
	ProtobufCMessage *message = NULL;
	struct error err;

	switch (client_call_read(call, &message, &err)) {
	case MESSAGE_NONE:
		return true;
	case MESSAGE_REFUSED:
		fail(call, &err);
		return false;
	case MESSAGE_TAKEN:
		break;
	}
	if (pending->response || byteq_len(&call->stream.in) > 0) {
		message_freep(&message);
		(void)error_set(&err, STATUS_INTERNAL, 0, "the server answered with more than one message");
		fail(call, &err);
		return false;
	}
	pending->response = message;
	return true;
}

static void on_end(struct client_call *call, enum status status, const struct error *err)
{
	struct rpc_pending *pending = call->owner;
	char name[CALL_NAME_SIZE];
	struct error missing;

	if (status == STATUS_OK && !pending->response) {
		status = error_set(&missing, STATUS_INTERNAL, 0,
				   "%s: the server answered OK without a message",
				   client_call_name(call, name));
		err = &missing;
	}
	pending->done(status, status == STATUS_OK ? pending->response : NULL, err, pending->userdata);
	pending_free(pending);
}

static const struct client_call_ops call_ops = {.on_progress = on_progress, .on_end = on_end};

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct client_call *call = userdata;
	char name[CALL_NAME_SIZE];
	struct error err;

	(void)client_call_name(call, name);
	if (call->conn->up && !h2_stream_is_sent(&call->stream))
		(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
				"%s: not sent in time: the server allows no further call at once", name);
	else if (call->conn->up)
		(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
				"%s: no answer in time; it may still be carried out", name);
	else
		(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "%s: no connection in time", name);
	client_call_end(call, STATUS_DEADLINE_EXCEEDED, &err);
	return 0;
}

/* A server gets a little less, so that its own error about a deadline arrives. Plugins on sockets get all of
 * the time. */
static uint64_t timeout_of_server(const struct rpc_client *client, uint64_t timeout_us)
{
	const uint64_t spare_us = timeout_us / SPARE_PART;

	if (client->unix_path)
		return timeout_us;
	return timeout_us - (spare_us < SPARE_MAX_US ? spare_us : SPARE_MAX_US);
}

static enum status rpc_pending_start(struct rpc_pending *pending, const ProtobufCMessage *request,
				     uint64_t timeout_us, struct error *err)
{
	struct client_call *call = &pending->call;

	TRY(client_call_start(call, timeout_of_server(call->client, timeout_us), err));
	enum status status = message_write(&call->stream, request, err);
	if (status == STATUS_OK)
		status = client_call_arm(call, timeout_us, on_deadline, err);
	if (status != STATUS_OK)
		client_call_unlink(call);
	else
		h2_stream_end(&call->stream);
	return status;
}

enum status rpc_client_call_for(struct rpc_client *client, const struct rpc_behalf *behalf,
				const ProtobufCServiceDescriptor *service, const char *method,
				const ProtobufCMessage *request, uint64_t timeout_us, rpc_done_fn *done,
				void *userdata, struct rpc_pending **ret, struct error *err)
{
	const ProtobufCMethodDescriptor *descriptor =
		protobuf_c_service_descriptor_get_method_by_name(service, method);
	struct rpc_pending *pending;
	enum status status;

	assert(descriptor != NULL && request->descriptor == descriptor->input);
	if (timeout_us == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s/%s: a call needs a deadline",
				 service->name, method);
	pending = malloc(sizeof(*pending));
	if (!pending)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "call %s/%s", service->name, method);
	*pending = (struct rpc_pending){
		.call = CLIENT_CALL_INIT(&pending->call, pending, &call_ops, client, service, descriptor),
		.done = done,
		.userdata = userdata,
	};
	pending->call.behalf = behalf;
	status = rpc_pending_start(pending, request, timeout_us, err);
	if (status != STATUS_OK) {
		pending_free(pending);
		return status;
	}
	if (ret)
		*ret = pending;
	return STATUS_OK;
}

enum status rpc_client_call(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
			    const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
			    rpc_done_fn *done, void *userdata, struct rpc_pending **ret, struct error *err)
{
	return rpc_client_call_for(client, NULL, service, method, request, timeout_us, done, userdata, ret,
				   err);
}

void rpc_pending_cancel(struct rpc_pending *pending)
{
	client_call_unlink(&pending->call);
	pending_free(pending);
}

/* The result that a synchronous call waits for. */
struct waiter {
	bool done;
	enum status status;
	ProtobufCMessage *response;
	struct error err;
};

/* The answer outlives its call by changing hands: a copy by way of the wire. */
static ProtobufCMessage *copy_message(const ProtobufCMessage *message)
{
	size_t n = 0;
	cleanup_free uint8_t *packed = pack_message(message, 0, &n);
	ProtobufCMessage *copy;

	if (!packed)
		return NULL;
	copy = protobuf_c_message_unpack(message->descriptor, NULL, n, packed);
	explicit_bzero(packed, n);
	return copy;
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct waiter *waiter = userdata;

	waiter->done = true;
	waiter->status = status;
	if (err)
		waiter->err = *err;
	if (status != STATUS_OK)
		return;
	waiter->response = copy_message(response);
	if (!waiter->response)
		waiter->status =
			error_set(&waiter->err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "keep the answer");
}

enum status rpc_client_call_sync(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
				 const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
				 ProtobufCMessage **ret_response, struct error *err)
{
	struct waiter waiter = {.done = false};
	struct rpc_pending *pending = NULL;

	TRY(rpc_client_call(client, service, method, request, timeout_us, on_done, &waiter, &pending, err));
	while (!waiter.done) {
		int r = sd_event_run(client->event, UINT64_MAX);

		if (r < 0 || (!waiter.done && sd_event_get_state(client->event) == SD_EVENT_FINISHED)) {
			rpc_pending_cancel(pending);
			return error_set(err, STATUS_CANCELLED, r < 0 ? r : 0,
					 "%s/%s: the event loop ended before the answer came", service->name,
					 method);
		}
	}
	if (waiter.status == STATUS_OK)
		*ret_response = waiter.response;
	else if (err)
		*err = waiter.err;
	return waiter.status;
}
