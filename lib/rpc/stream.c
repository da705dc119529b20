/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "rpc/client.h"
#include "rpc/client_internal.h"
#include "rpc/message.h"
#include "rpc/server.h"

#include <assert.h>

struct rpc_stream {
	struct client_call call;
	const struct rpc_stream_events *events;
	void *userdata;
	bool opened; /* the server has accepted it */
	bool busy;   /* a callback of this stream is on the stack: freed when that is back */
	bool gone;   /* ended or cancelled meanwhile */
};

static void stream_free(struct rpc_stream *stream)
{
	if (stream->busy)
		stream->gone = true;
	else
		free(stream);
}

/* Give one message to the owner; false if no message waits, or the owner has gone. */
static bool receive_one(struct rpc_stream *stream)
{
	cleanup(message_freep) ProtobufCMessage *message = NULL;
	struct client_call *call = &stream->call;
	char name[CALL_NAME_SIZE];
	struct error err;

	switch (client_call_read(call, &message, &err)) {
	case MESSAGE_NONE:
		return false;
	case MESSAGE_REFUSED:
		client_call_end(call, error_prefix(&err, "%s", client_call_name(call, name)), &err);
		return false;
	case MESSAGE_TAKEN:
		stream->events->on_message(stream, message, stream->userdata);
		return !stream->gone;
	}
	return false;
}

static bool on_progress(struct client_call *call)
{
	struct rpc_stream *stream = call->owner;

	stream->busy = true;
	if (!stream->opened) {
		stream->opened = true;
		call->timer = sd_event_source_disable_unref(call->timer);
		if (stream->events->on_open)
			stream->events->on_open(stream, stream->userdata);
	}
	if (call->stream.drain_at > 0 && byteq_len(&call->stream.out) <= call->stream.drain_at) {
		call->stream.drain_at = 0;
		stream->events->on_drained(stream, stream->userdata);
	}
	while (!stream->gone && !call->stream.is_paused && receive_one(stream))
		;
	stream->busy = false;
	if (stream->gone) {
		free(stream);
		return false;
	}
	return true;
}

static void on_end(struct client_call *call, enum status status, const struct error *err)
{
	struct rpc_stream *stream = call->owner;

	client_conn_count_stream(call->conn, -1);
	stream->events->on_closed(stream, status, err, stream->userdata);
	stream_free(stream);
}

static const struct client_call_ops call_ops = {.on_progress = on_progress, .on_end = on_end};

static int on_open_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct client_call *call = userdata;
	const struct rpc_stream *stream = call->owner;
	char name[CALL_NAME_SIZE];
	struct error err;

	if (call->conn->up && stream->events->headers_may_wait)
		return 0;
	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "%s: %s in time", client_call_name(call, name),
			call->conn->up ? "the server did not accept the stream" : "no connection");
	client_call_end(call, STATUS_DEADLINE_EXCEEDED, &err);
	return 0;
}

enum status rpc_stream_open_for(struct rpc_client *client, const struct rpc_behalf *behalf,
				const ProtobufCServiceDescriptor *service, const char *method,
				uint64_t connect_timeout_us, const struct rpc_stream_events *events,
				void *userdata, struct rpc_stream **ret, struct error *err)
{
	const ProtobufCMethodDescriptor *descriptor =
		protobuf_c_service_descriptor_get_method_by_name(service, method);
	struct rpc_stream *stream;
	enum status status;

	assert(descriptor != NULL);
	if (connect_timeout_us == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%s/%s: a stream needs a time limit for opening", service->name, method);
	stream = malloc(sizeof(*stream));
	if (!stream)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "open %s/%s", service->name, method);
	*stream = (struct rpc_stream){
		.call = CLIENT_CALL_INIT(&stream->call, stream, &call_ops, client, service, descriptor),
		.events = events,
		.userdata = userdata,
	};
	stream->call.behalf = behalf;
	if (events->on_drained)
		h2_stream_pace(&stream->call.stream);
	status = client_call_start(&stream->call, 0, err);
	if (status != STATUS_OK) {
		free(stream);
		return status;
	}
	client_conn_count_stream(stream->call.conn, 1);
	status = client_call_arm(&stream->call, connect_timeout_us, on_open_timeout, err);
	if (status != STATUS_OK) {
		rpc_stream_cancel(stream);
		return status;
	}
	*ret = stream;
	return STATUS_OK;
}

enum status rpc_stream_open(struct rpc_client *client, const ProtobufCServiceDescriptor *service,
			    const char *method, uint64_t connect_timeout_us,
			    const struct rpc_stream_events *events, void *userdata, struct rpc_stream **ret,
			    struct error *err)
{
	return rpc_stream_open_for(client, NULL, service, method, connect_timeout_us, events, userdata, ret,
				   err);
}

enum status rpc_stream_send(struct rpc_stream *stream, const ProtobufCMessage *message, struct error *err)
{
	char name[CALL_NAME_SIZE];
	struct error failure;
	enum status status;

	assert(message->descriptor == stream->call.method->input);
	status = message_write(&stream->call.stream, message, &failure);
	return status == STATUS_OK ? status
				   : error_set(err, status, 0, "%s: %s",
					       client_call_name(&stream->call, name), failure.msg);
}

void rpc_stream_half_close(struct rpc_stream *stream)
{
	h2_stream_end(&stream->call.stream);
}

void rpc_stream_pause(struct rpc_stream *stream, bool is_paused)
{
	h2_stream_pause(&stream->call.stream, is_paused);
}

bool rpc_stream_is_full(struct rpc_stream *stream)
{
	assert(stream->events->on_drained);
	return h2_stream_is_full(&stream->call.stream, RPC_UNSENT_HIGH);
}

void rpc_stream_cancel(struct rpc_stream *stream)
{
	if (!stream)
		return;
	client_conn_count_stream(stream->call.conn, -1);
	client_call_unlink(&stream->call);
	stream_free(stream);
}
