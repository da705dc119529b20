/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/task_streams.h"

#include "alloc/runner.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "model/message.h"
#include "model/task.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/queue.h>

#define OPEN_US (10 * USEC_PER_SEC)

struct task_stream {
	LIST_ENTRY(task_stream) all;
	struct task_streams *streams;
	struct rpc_stream *server; /* NULL: it has ended */
	struct service_call *call; /* NULL: not begun, or it has ended */
	bool is_ended;		   /* the end was reported */
};

struct task_streams {
	struct rpc_client *server;
	const struct drivers *drivers;
	const struct allocs *allocs;
	LIST_HEAD(, task_stream) list;
	size_t n;
};

static void stream_free(struct task_stream *stream)
{
	service_call_cancel(stream->call);
	rpc_stream_cancel(stream->server);
	LIST_REMOVE(stream, all);
	stream->streams->n--;
	free(stream);
}

static void send_up(struct task_stream *stream, Holdfast__V1__TaskStreamUp *up)
{
	struct error err;

	if (rpc_stream_send(stream->server, &up->base, &err) == STATUS_OK) {
		if (stream->call && rpc_stream_is_full(stream->server))
			service_call_pause(stream->call, true);
		return;
	}
	service_call_cancel(
		stream->call); /* the server has gone, or accepts nothing: a report has no receiver */
	stream->call = NULL;
	rpc_stream_half_close(stream->server);
}

/* Sends the end of the stream, once. The server then ends the stream. */
static void send_end(struct task_stream *stream, const struct error *err)
{
	Holdfast__V1__TaskStreamUp up = HOLDFAST__V1__TASK_STREAM_UP__INIT;
	Holdfast__V1__TaskStreamEnd end = HOLDFAST__V1__TASK_STREAM_END__INIT;

	if (stream->is_ended)
		return;
	stream->is_ended = true;
	if (err) {
		end.code = (uint32_t)err->status;
		end.message = (char *)(uintptr_t)err->msg;
	}
	up.message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_END;
	up.end = &end;
	send_up(stream, &up);
	rpc_stream_half_close(stream->server);
}

/* ---- the driver's side ---- */

static void on_driver_message(const ProtobufCMessage *message, void *userdata)
{
	Holdfast__V1__TaskStreamUp up = HOLDFAST__V1__TASK_STREAM_UP__INIT;
	struct task_stream *stream = userdata;

	if (message->descriptor == &holdfast__driver__v1__exec_task_streaming_response__descriptor) {
		up.message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_EXEC;
		up.exec = (void *)(uintptr_t)message;
	} else if (message->descriptor == &holdfast__driver__v1__task_logs_response__descriptor) {
		up.message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_LOGS;
		up.logs = (void *)(uintptr_t)message;
	} else {
		up.message_case = HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_STATS;
		up.stats = (void *)(uintptr_t)message;
	}
	send_up(stream, &up);
}

static void on_driver_drained(void *userdata)
{
	const struct task_stream *stream = userdata;

	rpc_stream_pause(stream->server, false);
}

static void on_driver_done(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct task_stream *stream = userdata;

	stream->call = NULL;
	send_end(stream, err);
}

/* ---- the server's side ---- */

static void on_server_message(struct rpc_stream *server, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__TaskStreamDown *down = (const void *)message;
	struct task_stream *stream = userdata;
	struct error err;

	if (!stream->call || !down->exec)
		return;
	if (service_call_send(stream->call, &down->exec->base, &err) != STATUS_OK) {
		service_call_cancel(stream->call);
		stream->call = NULL;
		send_end(stream, &err);
	} else if (service_call_is_full(stream->call)) {
		rpc_stream_pause(server, true);
	}
}

static void on_server_drained(struct rpc_stream *server, void *userdata)
{
	const struct task_stream *stream = userdata;

	if (stream->call)
		service_call_pause(stream->call, false);
}

static void on_server_closed(struct rpc_stream *server, enum status status, const struct error *err,
			     void *userdata)
{
	struct task_stream *stream = userdata;

	stream->server = NULL;
	stream_free(stream);
}

static const struct rpc_stream_events server_events = {
	.on_message = on_server_message,
	.on_closed = on_server_closed,
	.on_drained = on_server_drained,
};

/* ---- opening ---- */

static enum status find_driver(const struct task_streams *streams, const Holdfast__V1__OpenTaskStream *wanted,
			       struct service_client **ret, struct error *err)
{
	const struct alloc_runner *runner =
		allocs_find_of(streams->allocs, wanted->namespace_, wanted->alloc_id);
	const struct alloc *alloc = runner ? &alloc_runner_record(runner)->alloc : NULL;
	const Holdfast__Driver__V1__TaskConfig *task = alloc ? alloc_find_task(alloc, wanted->task) : NULL;

	if (!alloc && wanted->first_case == HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_LOGS &&
	    wanted->driver[0] != '\0')
		return drivers_client(streams->drivers, wanted->driver, ret, err);
	if (!task)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "allocation %.64s has no task '%.64s' on this node", wanted->alloc_id,
				 wanted->task);
	return drivers_client(streams->drivers, task->driver, ret, err);
}

static enum status begin_call(struct task_stream *stream, const Holdfast__V1__OpenTaskStream *wanted,
			      struct error *err)
{
	struct service_request request = {
		.on_message = on_driver_message,
		.on_drained = on_driver_drained,
		.done = on_driver_done,
		.userdata = stream,
	};
	struct service_client *client;

	TRY(find_driver(stream->streams, wanted, &client, err));
	switch (wanted->first_case) {
	case HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_EXEC:
		request.method = DRIVER_EXEC_TASK_STREAMING;
		request.message = &wanted->exec->base;
		break;
	case HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_LOGS:
		request.method = DRIVER_TASK_LOGS;
		request.message = &wanted->logs->base;
		break;
	case HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_STATS:
		request.method = DRIVER_TASK_STATS;
		request.message = &wanted->stats->base;
		break;
	case HOLDFAST__V1__OPEN_TASK_STREAM__FIRST__NOT_SET:
	case _HOLDFAST__V1__OPEN_TASK_STREAM__FIRST__CASE_IS_INT_SIZE:
	default:
		return error_set(err, STATUS_UNIMPLEMENTED, 0,
				 "this agent does not know the request for the task");
	}
	return service_call_start(client, &request, &stream->call, err);
}

static enum status open_server(struct task_streams *streams, struct task_stream **ret, struct error *err)
{
	struct task_stream *stream;
	enum status status;

	if (streams->n >= TASK_STREAMS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d streams to tasks are open on this node", TASK_STREAMS_MAX);
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return error_no_memory(err, "a stream to a task");
	stream->streams = streams;
	status = rpc_stream_open(streams->server, &holdfast__v1__nodes__descriptor, "TaskStream", OPEN_US,
				 &server_events, stream, &stream->server, err);
	if (status != STATUS_OK) {
		free(stream);
		return status;
	}
	LIST_INSERT_HEAD(&streams->list, stream, all);
	streams->n++;
	*ret = stream;
	return STATUS_OK;
}

void task_streams_open(struct task_streams *streams, const Holdfast__V1__OpenTaskStream *wanted)
{
	Holdfast__V1__TaskStreamUp hello = HOLDFAST__V1__TASK_STREAM_UP__INIT;
	struct task_stream *stream;
	struct error err;

	if (open_server(streams, &stream, &err) != STATUS_OK) {
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = wanted->alloc_id, .op = "stream", .err = &err},
			"task %.64s cannot be reached for who asks the server for it", wanted->task);
		return; /* the server gives it up after some seconds */
	}
	hello.id = wanted->id;
	send_up(stream, &hello);
	if (begin_call(stream, wanted, &err) != STATUS_OK)
		send_end(stream, &err);
}

enum status task_streams_new(struct rpc_client *server, const struct drivers *drivers,
			     const struct allocs *allocs, struct task_streams **ret, struct error *err)
{
	struct task_streams *streams = calloc(1, sizeof(*streams));

	if (!streams)
		return error_no_memory(err, "the streams of tasks");
	*streams = (struct task_streams){.server = server, .drivers = drivers, .allocs = allocs};
	LIST_INIT(&streams->list);
	*ret = streams;
	return STATUS_OK;
}

void task_streams_free(struct task_streams *streams)
{
	struct task_stream *stream;

	if (!streams)
		return;
	while ((stream = LIST_FIRST(&streams->list)))
		stream_free(stream);
	free(streams);
}
