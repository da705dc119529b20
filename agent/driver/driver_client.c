/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/driver_client.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ends.h"
#include "rpc/client.h"
#include "rpc/timer.h"

#include <assert.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	ASK_US = 10 * USEC_PER_SEC,   /* of what a driver answers out of its memory, or its engine's */
	WORK_US = 120 * USEC_PER_SEC, /* of what has to be made or taken down */
	PULL_US = 600 * USEC_PER_SEC, /* an image may have to be fetched */
	TEXT_SIZE = 512,	      /* of a driver's message that is kept */
};

#define WAIT_US (3600 * USEC_PER_SEC) /* a task may run for ever: asked anew */

struct row {
	const char *name;
	bool is_stream;
	uint64_t timeout_us;
};

static const struct row rows[DRIVER_METHOD_N] = {
	[DRIVER_FINGERPRINT] = {"Fingerprint", true, ASK_US},
	[DRIVER_CAPABILITIES] = {"Capabilities", false, ASK_US},
	[DRIVER_CONFIG_SCHEMA] = {"ConfigSchema", false, ASK_US},
	[DRIVER_SET_CONFIG] = {"SetConfig", false, ASK_US},
	[DRIVER_START_TASK] = {"StartTask", false, PULL_US},
	[DRIVER_RECOVER_TASK] = {"RecoverTask", false, ASK_US},
	[DRIVER_WAIT_TASK] = {"WaitTask", false, WAIT_US},
	[DRIVER_INSPECT_TASK] = {"InspectTask", false, ASK_US},
	[DRIVER_TASK_STATS] = {"TaskStats", true, ASK_US},
	[DRIVER_SIGNAL_TASK] = {"SignalTask", false, ASK_US},
	[DRIVER_STOP_TASK] = {"StopTask", false, WORK_US},
	[DRIVER_DESTROY_TASK] = {"DestroyTask", false, WORK_US},
	[DRIVER_CREATE_NETWORK] = {"CreateNetwork", false, WORK_US},
	[DRIVER_DESTROY_NETWORK] = {"DestroyNetwork", false, WORK_US},
	[DRIVER_EXEC_TASK] = {"ExecTask", false, WORK_US},
	[DRIVER_EXEC_TASK_STREAMING] = {"ExecTaskStreaming", true, ASK_US},
	[DRIVER_TASK_LOGS] = {"TaskLogs", true, ASK_US},
};

struct driver_call {
	LIST_ENTRY(driver_call) link;
	struct driver_client *client; /* valid until its done runs */
	enum driver_method method;
	struct rpc_pending
		*pending; /* one of these, or neither: it has ended and waits for the driver's exit */
	struct rpc_stream *stream;
	uint64_t deadline_us;	/* of the caller; UINT64_MAX of a stream */
	unsigned int exits;	/* of the client when it began */
	sd_event_source *timer; /* while it waits */
	struct error why;	/* what it ended with */
	driver_message_fn *on_message;
	void (*on_drained)(void *userdata);
	driver_done_fn *done;
	void *userdata;
};

LIST_HEAD(call_list, driver_call);

struct driver_client {
	sd_event *event; /* borrowed */
	char *name;
	uint64_t exit_wait_us;
	struct rpc_client *rpc;
	struct call_list calls;
	size_t n_calls;
	bool is_closing;
	/* The process that answers: watched from its first answer on. A pid that was used again meanwhile is
	 * only one whose exit is not seen. */
	pid_t pid; /* 0: none */
	int pidfd;
	sd_event_source *watch;
	unsigned int exits; /* that were seen */
	bool is_gone;	    /* since the last of them nobody has answered */
};

const char *driver_method_name(enum driver_method method)
{
	assert((unsigned int)method < DRIVER_METHOD_N);
	return rows[method].name;
}

bool driver_method_is_stream(enum driver_method method)
{
	assert((unsigned int)method < DRIVER_METHOD_N);
	return rows[method].is_stream;
}

static void unwatch(struct driver_client *client)
{
	client->watch = sd_event_source_disable_unref(client->watch);
	if (client->pidfd >= 0)
		(void)close(client->pidfd);
	client->pidfd = -1;
	client->pid = 0;
}

static void client_release(struct driver_client *client)
{
	unwatch(client);
	free(client->name);
	free(client);
}

DEFINE_CLEANUP(struct driver_client, client_release)

enum status driver_client_new(sd_event *event, const struct driver_client_options *options,
			      struct driver_client **ret, struct error *err)
{
	const struct rpc_endpoint endpoint = {.unix_path = options->socket,
					      .message_bytes = DRIVER_MESSAGE_MAX};
	cleanup(client_releasep) struct driver_client *client = malloc(sizeof(*client));
	enum status status;

	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "driver %s: make a client",
				 options->name);
	*client = (struct driver_client){
		.event = event,
		.name = strdup(options->name),
		.exit_wait_us =
			options->exit_wait_us ? options->exit_wait_us : DRIVER_EXIT_WAIT_MS * USEC_PER_MSEC,
		.calls = LIST_HEAD_INITIALIZER(client->calls),
		.pidfd = -1,
	};
	if (!client->name)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "driver %s: make a client",
				 options->name);
	status = rpc_client_new(event, &endpoint, &client->rpc, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(client);
	return status;
}

static bool is_waiting(const struct driver_call *call)
{
	return !call->pending && !call->stream;
}

static void call_release(struct driver_call *call)
{
	LIST_REMOVE(call, link);
	call->client->n_calls--;
	call->timer = sd_event_source_disable_unref(call->timer);
}

/* The client may be freed in it. */
static void driver_call_end(struct driver_call *call, const ProtobufCMessage *response,
			    const struct error *err)
{
	call_release(call);
	call->done(response, err, call->userdata);
	free(call);
}

static void end_shut_down(struct driver_call *call)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0,
			"driver %s: %s: driver shut down; what it has started is recovered when it is back",
			call->client->name, driver_method_name(call->method));
	err.sys_errno = ESHUTDOWN;
	driver_call_end(call, NULL, &err);
}

static bool has_exited(const struct driver_call *call)
{
	return call->client->is_gone || call->client->exits != call->exits;
}

/* The client is being freed. */
static void end_closed(struct driver_call *call)
{
	struct error err;

	if (has_exited(call)) {
		end_shut_down(call);
		return;
	}
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "driver %s: %s: the connection is given up on our side",
			call->client->name, driver_method_name(call->method));
	driver_call_end(call, NULL, &err);
}

/* The wait is over, by the exit or the time. */
static int on_waited(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct driver_call *call = userdata;

	if (has_exited(call)) {
		end_shut_down(call);
		return 0;
	}
	if (clock_monotonic_us() >= call->deadline_us)
		(void)error_set(&call->why, STATUS_DEADLINE_EXCEEDED, 0,
				"driver %s: %s: not answered in time, the driver is away", call->client->name,
				driver_method_name(call->method));
	driver_call_end(call, NULL, &call->why);
	return 0;
}

static void wait_for_exit(struct driver_call *call)
{
	uint64_t now_us = clock_monotonic_us();
	uint64_t left_us = call->deadline_us > now_us ? call->deadline_us - now_us : 0;
	uint64_t delay_us = left_us < call->client->exit_wait_us ? left_us : call->client->exit_wait_us;

	if (timer_arm(call->client->event, &call->timer, delay_us, on_waited, call) < 0)
		driver_call_end(call, NULL, &call->why);
}

/* The mapper: every end of every method with an error. @call->why is filled. */
static void end_failed(struct driver_call *call)
{
	bool is_waited_for = call->why.status == STATUS_UNAVAILABLE || call->why.status == STATUS_CANCELLED;
	bool may_be_exit = is_waited_for || call->why.status == STATUS_DEADLINE_EXCEEDED;

	if (may_be_exit && has_exited(call))
		end_shut_down(call);
	else if (is_waited_for)
		wait_for_exit(call);
	else
		driver_call_end(call, NULL, &call->why);
}

void driver_client_exited(struct driver_client *client)
{
	struct driver_call *call;

	unwatch(client);
	client->exits++;
	client->is_gone = true;
	LIST_FOREACH (call, &client->calls, link)
		if (is_waiting(call))
			(void)sd_event_source_set_time(call->timer, 0); /* armed: cannot fail */
}

static int on_exit_seen(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	driver_client_exited(userdata);
	return 0;
}

/* Somebody answers: it is back, and it is this process whose exit counts. */
static void note_answer(struct driver_client *client)
{
	struct pollfd old = {.fd = client->pidfd, .events = POLLIN};
	pid_t pid = rpc_client_peer(client->rpc);

	client->is_gone = false;
	if (pid == client->pid)
		return;
	if (client->pid != 0 && poll(&old, 1, 0) > 0)
		driver_client_exited(client); /* nobody has looked yet */
	unwatch(client);
	client->is_gone = false;
	if (pid == 0)
		return;
	client->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (client->pidfd >= 0 &&
	    sd_event_add_io(client->event, &client->watch, client->pidfd, EPOLLIN, on_exit_seen, client) >= 0)
		client->pid = pid;
	else
		unwatch(client);
}

/* What it ended with, as an error of the driver's or of the connection's. */
static void fail(struct driver_call *call, enum status status, const struct error *why)
{
	const char *reported = rpc_client_message(call->client->rpc);
	const char *name = driver_method_name(call->method);
	char text[TEXT_SIZE];

	if (call->client->is_closing) {
		end_closed(call);
		return;
	}
	if (reported) {
		note_answer(call->client);
		str_copy_ends(text, sizeof(text), reported);
		error_fill(&call->why, status, 0, "driver %s: %s answered %s%s%s", call->client->name, name,
			   status_name(status), text[0] != '\0' ? ": " : " and no reason", text);
	} else {
		call->why = *why;
		(void)error_prefix(&call->why, "driver %s", call->client->name);
	}
	end_failed(call);
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *why,
		    void *userdata)
{
	struct driver_call *call = userdata;

	call->pending = NULL;
	if (status != STATUS_OK) {
		fail(call, status, why);
		return;
	}
	note_answer(call->client);
	driver_call_end(call, response, NULL);
}

static void on_stream_open(struct rpc_stream *stream, void *userdata)
{
	const struct driver_call *call = userdata;

	note_answer(call->client);
}

static void on_stream_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const struct driver_call *call = userdata;

	call->on_message(message, call->userdata);
}

static void on_stream_closed(struct rpc_stream *stream, enum status status, const struct error *why,
			     void *userdata)
{
	struct driver_call *call = userdata;

	call->stream = NULL;
	if (status == STATUS_OK)
		driver_call_end(call, NULL, NULL);
	else
		fail(call, status, why);
}

static void on_stream_drained(struct rpc_stream *stream, void *userdata)
{
	const struct driver_call *call = userdata;

	if (call->on_drained)
		call->on_drained(call->userdata);
}

static enum status send_call(struct driver_call *call, const ProtobufCMessage *message, uint64_t timeout_us,
			     struct error *err)
{
	static const struct rpc_stream_events events = {
		.on_open = on_stream_open,
		.on_message = on_stream_message,
		.on_closed = on_stream_closed,
		.on_drained = on_stream_drained,
		.headers_may_wait = true,
	};
	const ProtobufCServiceDescriptor *service = &holdfast__driver__v1__driver__descriptor;
	const char *name = driver_method_name(call->method);
	enum status status;

	if (!driver_method_is_stream(call->method))
		return rpc_client_call(call->client->rpc, service, name, message, timeout_us, on_done, call,
				       &call->pending, err);
	TRY(rpc_stream_open(call->client->rpc, service, name, timeout_us, &events, call, &call->stream, err));
	status = rpc_stream_send(call->stream, message, err);
	if (status != STATUS_OK)
		rpc_stream_cancel(call->stream);
	return status;
}

static enum status check_room(const struct driver_client *client, const struct driver_request *request,
			      struct error *err)
{
	size_t bytes = protobuf_c_message_get_packed_size(request->message);
	const char *name = driver_method_name(request->method);

	if (client->is_closing)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "driver %s: %s: the connection is given up on our side", client->name, name);
	if (bytes > DRIVER_MESSAGE_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "driver %s: %s: the request has %zu bytes, drivers take %d at most",
				 client->name, name, bytes, DRIVER_MESSAGE_MAX);
	if (client->n_calls >= DRIVER_CALLS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "driver %s: %s: %zu calls are in flight, no more are made", client->name,
				 name, client->n_calls);
	return STATUS_OK;
}

enum status driver_call_start(struct driver_client *client, const struct driver_request *request,
			      struct driver_call **ret, struct error *err)
{
	bool is_stream = driver_method_is_stream(request->method);
	uint64_t timeout_us = request->timeout_us ? request->timeout_us : rows[request->method].timeout_us;
	cleanup_free struct driver_call *call = NULL;

	assert(is_stream == (request->on_message != NULL));
	TRY(check_room(client, request, err));
	call = malloc(sizeof(*call));
	if (!call)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "driver %s: %s", client->name,
				 driver_method_name(request->method));
	*call = (struct driver_call){
		.client = client,
		.method = request->method,
		.deadline_us = is_stream ? UINT64_MAX : clock_monotonic_us() + timeout_us,
		.exits = client->exits,
		.on_message = request->on_message,
		.on_drained = request->on_drained,
		.done = request->done,
		.userdata = request->userdata,
	};
	TRY(send_call(call, request->message, timeout_us, err));
	LIST_INSERT_HEAD(&client->calls, call, link);
	client->n_calls++;
	if (ret)
		*ret = call;
	TAKE_PTR(call);
	return STATUS_OK;
}

enum status driver_call_send(struct driver_call *call, const ProtobufCMessage *message, struct error *err)
{
	struct error why;
	enum status status;

	assert(driver_method_is_stream(call->method));
	if (is_waiting(call))
		return error_set(err, STATUS_UNAVAILABLE, 0, "driver %s: %s: the stream has ended",
				 call->client->name, driver_method_name(call->method));
	status = rpc_stream_send(call->stream, message, &why);
	return status == STATUS_OK ? status
				   : error_set(err, status, 0, "driver %s: %s", call->client->name, why.msg);
}

bool driver_call_is_full(const struct driver_call *call)
{
	return call->stream && rpc_stream_is_full(call->stream);
}

void driver_call_pause(struct driver_call *call, bool is_paused)
{
	if (call->stream)
		rpc_stream_pause(call->stream, is_paused);
}

void driver_call_half_close(struct driver_call *call)
{
	if (call->stream)
		rpc_stream_half_close(call->stream);
}

void driver_call_cancel(struct driver_call *call)
{
	if (!call)
		return;
	if (call->pending)
		rpc_pending_cancel(call->pending);
	rpc_stream_cancel(call->stream);
	call_release(call);
	free(call);
}

static struct driver_call *first_waiting(const struct driver_client *client)
{
	struct driver_call *call;

	LIST_FOREACH (call, &client->calls, link)
		if (is_waiting(call))
			return call;
	return NULL;
}

void driver_client_free(struct driver_client *client)
{
	struct driver_call *call;

	if (!client || client->is_closing)
		return;
	client->is_closing = true;
	while ((call = first_waiting(client)) != NULL)
		end_closed(call);
	rpc_client_free(client->rpc);
	client_release(client);
}
