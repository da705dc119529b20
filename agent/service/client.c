/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to one service: their queue, deadlines, errors and ends. */
#include "service/client.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ends.h"
#include "base/str.h"
#include "rpc/client.h"
#include "rpc/timer.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SUBJECT_SIZE = 160, WHERE_SIZE = 320, LOG_TEXT_SIZE = 1024 };

/* error_set() with service and call. */
#define refuse(err, status, client, method, fmt, ...)                                          \
	error_set((err), (status), 0, "%s %s: %s: " fmt, (client)->kind->noun, (client)->name, \
		  (method)->name, ##__VA_ARGS__)

struct service_call {
	TAILQ_ENTRY(service_call) entry; /* of the queued calls, or of those in flight */
	struct service_client *client;	 /* valid until its done runs */
	const struct service_method *method;
	ProtobufCMessage *message; /* NULL: its kind keeps no message */
	size_t message_bytes;
	/* one of these is set while it is in flight; neither: it waits for the service's exit */
	struct rpc_pending *pending;
	struct rpc_stream *stream;
	bool is_queued;
	sd_event_source *timer; /* while it is queued, or waits for an exit; else rpc keeps the deadline */
	uint64_t deadline_us;	/* of the caller; UINT64_MAX of a stream */
	unsigned int exits;	/* of the client when it began */
	int64_t since_ms;	/* wall clock, when it was sent */
	struct error why;	/* it ended with */
	service_message_fn *on_message;
	void (*on_drained)(void *userdata);
	service_done_fn *done;
	void *userdata;
};

TAILQ_HEAD(call_list, service_call);

struct service_client {
	sd_event *event; /* borrowed */
	const struct service_kind *kind;
	char *name;
	uint64_t call_timeout_us; /* UINT64_MAX: the methods' */
	uint64_t exit_wait_us;
	struct rpc_client *rpc;
	sd_event_source *lost; /* the connection has ended, its calls too when this fires */
	void (*on_lost)(void *userdata);
	void *userdata;
	sd_event_source *turn; /* sends queued calls; never from inside a function of the header */
	struct call_list queue;
	struct call_list in_flight; /* the longest first */
	size_t queue_bytes;
	bool is_closing;
	struct service_stats stats;
	/* The process that answers: watched from its first answer on. A pid that was used again meanwhile is
	 * only one whose exit is not seen. */
	pid_t pid; /* 0: no process */
	int pidfd;
	sd_event_source *watch;
	unsigned int exits; /* that were seen */
	bool is_gone;	    /* since the last of them no process has answered */
};

static void unwatch(struct service_client *client)
{
	client->watch = sd_event_source_disable_unref(client->watch);
	if (client->pidfd >= 0)
		(void)close(client->pidfd);
	client->pidfd = -1;
	client->pid = 0;
}

static void client_release(struct service_client *client)
{
	unwatch(client);
	(void)sd_event_source_disable_unref(client->turn);
	(void)sd_event_source_disable_unref(client->lost);
	free(client->name);
	free(client);
}

DEFINE_CLEANUP(struct service_client, client_release)

static int on_turn(sd_event_source *source, void *userdata);

static void on_rpc_lost(void *userdata)
{
	struct service_client *client = userdata;

	(void)sd_event_source_set_enabled(client->lost, SD_EVENT_ONESHOT); /* cannot fail */
}

/* The client may be gone afterwards. */
static int on_lost_due(sd_event_source *source, void *userdata)
{
	struct service_client *client = userdata;

	client->on_lost(client->userdata);
	return 0;
}

static int add_disabled(sd_event *event, sd_event_source **ret, sd_event_handler_t handler, void *userdata)
{
	int r = sd_event_add_defer(event, ret, handler, userdata);

	return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

enum status service_client_new(sd_event *event, const struct service_kind *kind,
			       const struct service_client_options *options, struct service_client **ret,
			       struct error *err)
{
	cleanup(client_releasep) struct service_client *client = malloc(sizeof(*client));
	const struct rpc_endpoint endpoint = {
		.unix_path = options->socket,
		.is_own_socket = true, /* a link in its folder leads no call to another service */
		.message_bytes = options->message_bytes ? options->message_bytes : kind->message_max,
		.on_lost = options->on_lost ? on_rpc_lost : NULL,
		.userdata = client,
	};
	enum status status;
	int r = -ENOMEM;

	if (client) {
		*client = (struct service_client){
			.event = event,
			.kind = kind,
			.name = strdup(options->name),
			.call_timeout_us = options->call_timeout_us ? options->call_timeout_us : UINT64_MAX,
			.exit_wait_us = options->exit_wait_us ? options->exit_wait_us
							      : SERVICE_EXIT_WAIT_MS * USEC_PER_MSEC,
			.on_lost = options->on_lost,
			.userdata = options->userdata,
			.queue = TAILQ_HEAD_INITIALIZER(client->queue),
			.in_flight = TAILQ_HEAD_INITIALIZER(client->in_flight),
			.pidfd = -1,
		};
		r = client->name ? add_disabled(event, &client->turn, on_turn, client) : -ENOMEM;
	}
	if (r >= 0)
		r = add_disabled(event, &client->lost, on_lost_due, client);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "%s %s: make a client", kind->noun,
				 options->name);
	status = rpc_client_new(event, &endpoint, &client->rpc, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(client);
	return status;
}

/* May it begin now? The last places are kept for calls about the health of the service. */
static bool has_room(const struct service_client *client, const struct service_call *call)
{
	size_t kept = call->method->is_about_health ? 0 : client->kind->calls_kept;

	return client->stats.in_flight < client->kind->calls_max - kept;
}

static struct service_call *next_call(struct service_client *client)
{
	struct service_call *call;

	TAILQ_FOREACH (call, &client->queue, entry)
		if (has_room(client, call))
			return call;
	return NULL;
}

static void wake(struct service_client *client)
{
	if (!client->is_closing && next_call(client))
		(void)sd_event_source_set_enabled(client->turn, SD_EVENT_ONESHOT); /* cannot fail */
}

static void unqueue(struct service_call *call)
{
	struct service_client *client = call->client;

	call->is_queued = false;
	TAILQ_REMOVE(&client->queue, call, entry);
	client->stats.waiting--;
	client->queue_bytes -= call->message_bytes;
}

static void unlink_call(struct service_call *call)
{
	struct service_client *client = call->client;

	call->timer = sd_event_source_disable_unref(call->timer);
	if (call->is_queued) {
		unqueue(call);
	} else {
		TAILQ_REMOVE(&client->in_flight, call, entry);
		client->stats.in_flight--;
	}
	wake(client);
}

static void call_free(const struct service_kind *kind, struct service_call *call)
{
	if (call->message)
		kind->free(call->message);
	free(call);
}

/* "plugin nfs, volume pvc-1"; returns @ret. */
static const char *where(const struct service_call *call, char ret[static WHERE_SIZE])
{
	const struct service_kind *kind = call->client->kind;
	char subject[SUBJECT_SIZE] = "";

	if (kind->subject)
		kind->subject(call->message, subject, sizeof(subject));
	(void)snprintf(ret, WHERE_SIZE, "%s %s%s%s", kind->noun, call->client->name, subject[0] ? ", " : "",
		       subject);
	return ret;
}

static void log_call(const struct service_call *call, const char *what, const ProtobufCMessage *message,
		     const struct error *err)
{
	struct log_ctx ctx = service_log_ctx(call->client->kind, call->client->name);
	char text[LOG_TEXT_SIZE] = "";

	if (!call->client->kind->print)
		return;
	ctx.op = call->method->name;
	ctx.err = err;
	if (message)
		call->client->kind->print(message, text, sizeof(text));
	log_ctx(LOG_DEBUG, &ctx, "%s %s%s%s", call->method->name, what, text[0] != '\0' ? ": " : "", text);
}

/* The end. The client may be freed in it. */
static void call_end(struct service_call *call, const ProtobufCMessage *response, const struct error *err)
{
	const struct service_kind *kind = call->client->kind;

	log_call(call, err ? "failed" : "answered", response, err);
	if (err)
		call->client->stats.failed++;
	unlink_call(call);
	call->done(response, err, call->userdata);
	call_free(kind, call);
}

/* @text follows what the call is about. */
static void end_with(struct service_call *call, enum status status, int sys_errno, const char *text)
{
	char prefix[WHERE_SIZE];
	struct error err;

	error_fill(&err, status, 0, "%s: %s: %s", where(call, prefix), call->method->name, text);
	err.sys_errno = sys_errno;
	call_end(call, NULL, &err);
}

static bool has_exited(const struct service_call *call)
{
	return call->client->is_gone || call->client->exits != call->exits;
}

static void end_shut_down(struct service_call *call)
{
	char text[80];

	(void)snprintf(text, sizeof(text), "%s shut down; what it has started is recovered when it is back",
		       call->client->kind->noun);
	end_with(call, STATUS_UNAVAILABLE, ESHUTDOWN, text);
}

/* The client is being freed. */
static void end_closed(struct service_call *call)
{
	if (has_exited(call))
		end_shut_down(call);
	else
		end_with(call, STATUS_UNAVAILABLE, 0, "the connection is given up on our side");
}

/* The wait for an exit is over, by the exit or the time. */
static int on_waited(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_call *call = userdata;

	if (has_exited(call))
		end_shut_down(call);
	else if (clock_monotonic_us() >= call->deadline_us)
		end_with(call, STATUS_DEADLINE_EXCEEDED, 0, "not answered in time, the driver is away");
	else
		call_end(call, NULL, &call->why);
	return 0;
}

static void wait_for_exit(struct service_call *call)
{
	uint64_t now_us = clock_monotonic_us();
	uint64_t left_us = call->deadline_us > now_us ? call->deadline_us - now_us : 0;
	uint64_t delay_us = left_us < call->client->exit_wait_us ? left_us : call->client->exit_wait_us;

	if (timer_arm(call->client->event, &call->timer, delay_us, on_waited, call) < 0)
		call_end(call, NULL, &call->why);
}

/* The mapper: every end of every method with an error. @call->why is filled. */
static void end_failed(struct service_call *call)
{
	bool is_waited_for = call->why.status == STATUS_UNAVAILABLE || call->why.status == STATUS_CANCELLED;
	bool may_be_exit = is_waited_for || call->why.status == STATUS_DEADLINE_EXCEEDED;

	if (may_be_exit && has_exited(call))
		end_shut_down(call);
	else if (is_waited_for && call->client->kind->watches_exit)
		wait_for_exit(call);
	else
		call_end(call, NULL, &call->why);
}

static bool waits_for_exit(const struct service_call *call)
{
	return !call->is_queued && !call->pending && !call->stream;
}

void service_client_exited(struct service_client *client)
{
	struct service_call *call;

	if (!client->kind->watches_exit)
		return;
	unwatch(client);
	client->exits++;
	client->is_gone = true;
	TAILQ_FOREACH (call, &client->in_flight, entry)
		if (waits_for_exit(call))
			(void)sd_event_source_set_time(call->timer, 0); /* armed: cannot fail */
}

static int on_exit_seen(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	service_client_exited(userdata);
	return 0;
}

/* The service answers: it is back, and it is this process whose exit counts. */
static void note_answer(struct service_client *client)
{
	struct pollfd old = {.fd = client->pidfd, .events = POLLIN};
	pid_t pid = rpc_client_peer(client->rpc);

	client->is_gone = false;
	if (pid == client->pid || !client->kind->watches_exit)
		return;
	if (client->pid != 0 && poll(&old, 1, 0) > 0)
		service_client_exited(client); /* its exit was not noticed yet */
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

/* Maps an error of the service or of the connection. */
static void fail(struct service_call *call, enum status status, const struct error *why)
{
	const struct service_kind *kind = call->client->kind;
	const char *reported = rpc_client_message(call->client->rpc);
	char text[SERVICE_REASON_MAX + 1];
	char prefix[WHERE_SIZE];

	if (call->client->is_closing) {
		end_closed(call);
		return;
	}
	if (reported) {
		note_answer(call->client);
		if (kind->clean)
			kind->clean(call->message, reported, text, sizeof(text));
		else
			str_copy_ends(text, sizeof(text), reported);
		str_make_one_reason(text);
		error_fill(&call->why, status, 0, "%s: %s answered %s%s%s", where(call, prefix),
			   call->method->name, status_name(status), text[0] != '\0' ? ": " : " and no reason",
			   text);
	} else {
		call->why = *why;
		(void)error_prefix(&call->why, "%s", where(call, prefix));
	}
	end_failed(call);
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *why,
		    void *userdata)
{
	struct service_call *call = userdata;

	call->pending = NULL;
	if (status != STATUS_OK) {
		fail(call, status, why);
		return;
	}
	note_answer(call->client);
	call_end(call, response, NULL);
}

static void on_stream_open(struct rpc_stream *stream, void *userdata)
{
	const struct service_call *call = userdata;

	note_answer(call->client);
}

static void on_stream_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const struct service_call *call = userdata;

	call->on_message(message, call->userdata);
}

static void on_stream_closed(struct rpc_stream *stream, enum status status, const struct error *why,
			     void *userdata)
{
	struct service_call *call = userdata;

	call->stream = NULL;
	if (status == STATUS_OK)
		call_end(call, NULL, NULL);
	else
		fail(call, status, why);
}

static void on_stream_drained(struct rpc_stream *stream, void *userdata)
{
	const struct service_call *call = userdata;

	if (call->on_drained)
		call->on_drained(call->userdata);
}

static enum status send_stream(struct service_call *call, const ProtobufCMessage *message,
			       uint64_t timeout_us, struct error *err)
{
	static const struct rpc_stream_events events = {
		.on_open = on_stream_open,
		.on_message = on_stream_message,
		.on_closed = on_stream_closed,
		.on_drained = on_stream_drained,
		.headers_may_wait = true,
	};
	enum status status;

	TRY(rpc_stream_open(call->client->rpc, call->method->service, call->method->name, timeout_us, &events,
			    call, &call->stream, err));
	status = rpc_stream_send(call->stream, message, err);
	if (status != STATUS_OK)
		rpc_stream_cancel(call->stream);
	return status;
}

static enum status send_call(struct service_call *call, const ProtobufCMessage *message, uint64_t timeout_us,
			     struct error *err)
{
	if (call->method->is_stream)
		return send_stream(call, message, timeout_us, err);
	return rpc_client_call(call->client->rpc, call->method->service, call->method->name, message,
			       timeout_us, on_done, call, &call->pending, err);
}

static void note_sent(struct service_call *call, const ProtobufCMessage *message)
{
	struct service_client *client = call->client;

	call->since_ms = clock_realtime_ms();
	call->exits = client->exits;
	TAILQ_INSERT_TAIL(&client->in_flight, call, entry);
	client->stats.in_flight++;
	log_call(call, "called", message, NULL);
}

/* Returns false when the call has ended, and perhaps the client with it. */
static bool begin_queued(struct service_call *call)
{
	uint64_t now_us = clock_monotonic_us();
	char prefix[WHERE_SIZE];
	struct error err;

	if (send_call(call, call->message, call->deadline_us > now_us ? call->deadline_us - now_us : 1,
		      &err) != STATUS_OK) {
		(void)error_prefix(&err, "%s", where(call, prefix));
		call_end(call, NULL, &err);
		return false;
	}
	call->timer = sd_event_source_disable_unref(call->timer);
	unqueue(call);
	note_sent(call, call->message);
	return true;
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct service_client *client = userdata;
	struct service_call *call;

	while ((call = next_call(client)) != NULL)
		if (!begin_queued(call))
			return 0; /* unlinking it has asked for another turn, if there is a client */
	return 0;
}

static const char *oldest_name(const struct service_client *client)
{
	const struct service_call *oldest = TAILQ_FIRST(&client->in_flight);

	return oldest ? oldest->method->name : "gone";
}

/* The deadline of a call that is still queued. */
static int on_queue_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_call *call = userdata;
	char text[160];

	(void)snprintf(text, sizeof(text),
		       "not sent in time; %zu calls are in flight before it, the oldest is %s",
		       call->client->stats.in_flight, oldest_name(call->client));
	end_with(call, STATUS_DEADLINE_EXCEEDED, 0, text);
	return 0;
}

static enum status check_room(const struct service_client *client, const struct service_method *method,
			      size_t bytes, struct error *err)
{
	const struct service_kind *kind = client->kind;

	if (client->is_closing)
		return refuse(err, STATUS_UNAVAILABLE, client, method,
			      "the connection is given up on our side");
	if (bytes > kind->request_max)
		return refuse(err, STATUS_INVALID_ARGUMENT, client, method,
			      "the request has %zu bytes, more than the %zu that a %s takes", bytes,
			      kind->request_max, kind->noun);
	if (kind->queue_max == 0 ? client->stats.in_flight < kind->calls_max
				 : client->stats.waiting < kind->queue_max &&
					   bytes <= kind->queue_bytes_max - client->queue_bytes)
		return STATUS_OK;
	return refuse(err, STATUS_RESOURCE_EXHAUSTED, client, method,
		      "%zu calls wait already, behind %zu that are in flight, the oldest is %s",
		      client->stats.waiting, client->stats.in_flight, oldest_name(client));
}

static enum status enqueue(struct service_call *call, uint64_t timeout_us, struct error *err)
{
	struct service_client *client = call->client;

	if (!call->message || timer_arm(client->event, &call->timer, timeout_us, on_queue_timeout, call) < 0)
		return refuse(err, STATUS_RESOURCE_EXHAUSTED, client, call->method, "%s", strerror(ENOMEM));
	call->is_queued = true;
	TAILQ_INSERT_TAIL(&client->queue, call, entry);
	client->stats.waiting++;
	client->queue_bytes += call->message_bytes;
	wake(client);
	return STATUS_OK;
}

enum status service_call_start(struct service_client *client, const struct service_request *request,
			       struct service_call **ret, struct error *err)
{
	const struct service_kind *kind = client->kind;
	const struct service_method *method = &kind->methods[request->method];
	size_t bytes = protobuf_c_message_get_packed_size(request->message);
	uint64_t timeout_us = request->timeout_us;
	uint64_t now_us = clock_monotonic_us();
	struct service_call *call;
	enum status status;

	assert(method->is_stream == (request->on_message != NULL));
	assert(request->message->descriptor == method->request);
	TRY(check_room(client, method, bytes, err));
	if (timeout_us == 0)
		timeout_us = method->timeout_us < client->call_timeout_us ? method->timeout_us
									  : client->call_timeout_us;
	call = malloc(sizeof(*call));
	if (!call)
		return refuse(err, STATUS_RESOURCE_EXHAUSTED, client, method, "%s", strerror(ENOMEM));
	*call = (struct service_call){
		.client = client,
		.method = method,
		.message = kind->copy ? kind->copy(request->message) : NULL,
		.message_bytes = bytes,
		.deadline_us = method->is_stream || timeout_us >= UINT64_MAX - now_us ? UINT64_MAX
										      : now_us + timeout_us,
		.on_message = request->on_message,
		.on_drained = request->on_drained,
		.done = request->done,
		.userdata = request->userdata,
	};
	status = kind->queue_max > 0 ? enqueue(call, timeout_us, err)
				     : send_call(call, request->message, timeout_us, err);
	if (status != STATUS_OK) {
		call_free(kind, call);
		return status;
	}
	if (!call->is_queued)
		note_sent(call, request->message);
	client->stats.calls++;
	if (ret)
		*ret = call;
	return STATUS_OK;
}

enum status service_call_send(struct service_call *call, const ProtobufCMessage *message, struct error *err)
{
	const struct service_client *client = call->client;
	struct error why;
	enum status status;

	assert(call->method->is_stream);
	if (!call->stream)
		return refuse(err, STATUS_UNAVAILABLE, client, call->method, "the stream has ended");
	status = rpc_stream_send(call->stream, message, &why);
	return status == STATUS_OK
		       ? status
		       : error_set(err, status, 0, "%s %s: %s", client->kind->noun, client->name, why.msg);
}

bool service_call_is_full(const struct service_call *call)
{
	return call->stream && rpc_stream_is_full(call->stream);
}

void service_call_pause(struct service_call *call, bool is_paused)
{
	if (call->stream)
		rpc_stream_pause(call->stream, is_paused);
}

void service_call_cancel(struct service_call *call)
{
	if (!call)
		return;
	if (call->pending)
		rpc_pending_cancel(call->pending);
	rpc_stream_cancel(call->stream);
	unlink_call(call);
	call_free(call->client->kind, call);
}

static struct service_call *first_waiting(const struct service_client *client)
{
	struct service_call *call;

	TAILQ_FOREACH (call, &client->in_flight, entry)
		if (waits_for_exit(call))
			return call;
	return TAILQ_FIRST(&client->queue);
}

void service_client_free(struct service_client *client)
{
	struct service_call *call;

	if (!client || client->is_closing)
		return;
	client->is_closing = true;
	while ((call = first_waiting(client)) != NULL)
		end_closed(call);
	rpc_client_free(client->rpc);
	client_release(client);
}

void service_client_stats(const struct service_client *client, struct service_stats *ret)
{
	const struct service_call *oldest = TAILQ_FIRST(&client->in_flight);

	*ret = client->stats;
	if (!oldest)
		return;
	ret->oldest_since_ms = oldest->since_ms;
	ret->oldest_name = oldest->method->name;
}

pid_t service_client_peer(const struct service_client *client)
{
	return rpc_client_peer(client->rpc);
}
