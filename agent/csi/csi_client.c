/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_client.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "csi/csi_method.h"
#include "csi/csi_request.h"
#include "csi/csi_secret.h"
#include "csi/csi_text.h"
#include "log/log.h"
#include "rpc/client.h"
#include "rpc/timer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

/* What is told of a call that failed: plugin, call, what it is about, and why. */

struct csi_where {
	const char *plugin_id;
	enum csi_method method;
	const ProtobufCMessage *request;
};

enum { SUBJECT_SIZE = 160, WHERE_SIZE = 320 };

/* "plugin nfs, volume pvc-1"; returns @ret. */
static const char *where_text(const struct csi_where *where, char ret[static WHERE_SIZE])
{
	const char *kind = "";
	const char *subject = csi_request_subject(where->request, &kind);
	char line[SUBJECT_SIZE];

	csi_text_line(subject, line, sizeof(line));
	(void)snprintf(ret, WHERE_SIZE, "plugin %s%s%s%s%s", where->plugin_id, subject ? ", " : "", kind,
		       subject ? " " : "", line);
	return ret;
}

/* The plugin's own word: its code, its text on one line without secrets, both ends of it within
 * CSI_TEXT_MAX. */
static void csi_error_answered(const struct csi_where *where, enum status status, const char *text,
			       struct error *ret)
{
	char open_text[ERROR_MSG_MAX];
	char line[CSI_TEXT_MAX + 1];
	char prefix[WHERE_SIZE];

	csi_redact(where->request, text, open_text, sizeof(open_text));
	csi_text_ends(open_text, line, sizeof(line));
	error_fill(ret, status, 0, "%s: %s answered %s%s%s", where_text(where, prefix),
		   csi_method_info(where->method)->name, status_name(status),
		   line[0] != '\0' ? ": " : " and no reason", line);
}

/* Why there is no answer: @why names the call, whether it comes from the transport or from us. */
static void csi_error_unanswered(const struct csi_where *where, const struct error *why, struct error *ret)
{
	struct error copy = *why;
	char prefix[WHERE_SIZE];

	(void)error_prefix(&copy, "%s", where_text(where, prefix));
	*ret = copy;
}

enum { LOG_TEXT_SIZE = 1024 };

struct csi_call {
	struct csi_client *client; /* valid until its done runs */
	enum csi_method method;
	ProtobufCMessage *request;
	size_t request_bytes;
	sd_event_source *timer; /* the deadline while it waits; afterwards rpc keeps it */
	uint64_t deadline_us;
	int64_t since_ms;	     /* wall clock, when it was scheduled */
	struct rpc_pending *pending; /* NULL: it waits */
	csi_done_fn *done;
	void *userdata;
	TAILQ_ENTRY(csi_call) entry; /* of what waits, or of what is in flight */
};

TAILQ_HEAD(call_list, csi_call);

struct csi_client {
	sd_event *event; /* borrowed */
	char *plugin_id;
	uint64_t call_timeout_us; /* UINT64_MAX: the methods' */
	struct rpc_client *rpc;
	sd_event_source *lost; /* the connection has ended, its calls too when this fires */
	void (*on_lost)(void *userdata);
	void *userdata;
	sd_event_source *turn; /* schedules calls; never from inside a function of the header */
	struct call_list waiting;
	struct call_list in_flight; /* the longest first */
	size_t waiting_bytes;
	bool is_closing;
	struct csi_client_stats stats;
};

static void client_release(struct csi_client *client)
{
	(void)sd_event_source_disable_unref(client->turn);
	(void)sd_event_source_disable_unref(client->lost);
	free(client->plugin_id);
	free(client);
}

DEFINE_CLEANUP(struct csi_client, client_release)

static int on_turn(sd_event_source *source, void *userdata);

static void on_rpc_lost(void *userdata)
{
	struct csi_client *client = userdata;

	(void)sd_event_source_set_enabled(client->lost, SD_EVENT_ONESHOT); /* cannot fail */
}

/* The client may be gone afterwards. */
static int on_lost_due(sd_event_source *source, void *userdata)
{
	struct csi_client *client = userdata;

	client->on_lost(client->userdata);
	return 0;
}

enum status csi_client_new(sd_event *event, const struct csi_client_options *options, struct csi_client **ret,
			   struct error *err)
{
	cleanup(client_releasep) struct csi_client *client = malloc(sizeof(*client));
	const struct rpc_endpoint endpoint = {
		.unix_path = options->socket,
		.message_bytes = options->message_bytes ? options->message_bytes : CSI_MESSAGE_MAX,
		.on_lost = options->on_lost ? on_rpc_lost : NULL,
		.userdata = client,
	};
	enum status status;
	int r;

	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "plugin %s: make a client",
				 options->plugin_id);
	*client = (struct csi_client){
		.event = event,
		.plugin_id = strdup(options->plugin_id),
		.call_timeout_us = options->call_timeout_us ? options->call_timeout_us : UINT64_MAX,
		.on_lost = options->on_lost,
		.userdata = options->userdata,
		.waiting = TAILQ_HEAD_INITIALIZER(client->waiting),
		.in_flight = TAILQ_HEAD_INITIALIZER(client->in_flight),
	};
	r = sd_event_add_defer(event, &client->turn, on_turn, client);
	if (r >= 0)
		r = sd_event_source_set_enabled(client->turn, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_defer(event, &client->lost, on_lost_due, client);
	if (r >= 0)
		r = sd_event_source_set_enabled(client->lost, SD_EVENT_OFF);
	if (r < 0 || !client->plugin_id)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r < 0 ? r : ENOMEM,
				 "plugin %s: make a client", options->plugin_id);
	status = rpc_client_new(event, &endpoint, &client->rpc, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(client);
	return status;
}

static bool is_identity(const struct csi_call *call)
{
	return csi_method_info(call->method)->service == csi_method_info(CSI_PROBE)->service;
}

/* May it begin now? The last places are kept for what tells of the plugin's health. */
static bool has_room(const struct csi_client *client, const struct csi_call *call)
{
	return client->stats.in_flight < (size_t)CSI_CALLS_MAX - (is_identity(call) ? 0 : CSI_CALLS_KEPT);
}

static struct csi_call *next_call(struct csi_client *client)
{
	struct csi_call *call;

	TAILQ_FOREACH (call, &client->waiting, entry)
		if (has_room(client, call))
			return call;
	return NULL;
}

static void wake(struct csi_client *client)
{
	if (!client->is_closing && next_call(client))
		(void)sd_event_source_set_enabled(client->turn, SD_EVENT_ONESHOT); /* cannot fail */
}

static void unlink_call(struct csi_call *call)
{
	struct csi_client *client = call->client;

	call->timer = sd_event_source_disable_unref(call->timer);
	if (call->pending) {
		TAILQ_REMOVE(&client->in_flight, call, entry);
		client->stats.in_flight--;
	} else {
		TAILQ_REMOVE(&client->waiting, call, entry);
		client->stats.waiting--;
		client->waiting_bytes -= call->request_bytes;
	}
	wake(client);
}

static void call_free(struct csi_call *call)
{
	csi_request_free(call->request);
	free(call);
}

static struct csi_where where(const struct csi_call *call)
{
	return (struct csi_where){
		.plugin_id = call->client->plugin_id,
		.method = call->method,
		.request = call->request,
	};
}

static void log_call(const struct csi_call *call, const char *what, const ProtobufCMessage *message,
		     const struct error *err)
{
	const struct csi_method_info *info = csi_method_info(call->method);
	const struct log_ctx ctx = {.plugin = call->client->plugin_id, .op = info->name, .err = err};
	char text[LOG_TEXT_SIZE] = "";

	if (message)
		csi_text(message, text, sizeof(text));
	log_ctx(LOG_DEBUG, &ctx, "%s %s%s%s", info->name, what, text[0] != '\0' ? ": " : "", text);
}

/* The end. The client may be freed in it. */
static void csi_call_end(struct csi_call *call, const ProtobufCMessage *response, const struct error *err)
{
	log_call(call, err ? "failed" : "answered", response, err);
	if (err)
		call->client->stats.failed++;
	unlink_call(call);
	call->done(response, err, call->userdata);
	call_free(call);
}

static void end_unanswered(struct csi_call *call, const struct error *why)
{
	const struct csi_where at = where(call);
	struct error err;

	csi_error_unanswered(&at, why, &err);
	csi_call_end(call, NULL, &err);
}

static void end_closed(struct csi_call *call)
{
	struct error err;

	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "%s: the connection is given up on our side",
			csi_method_info(call->method)->name);
	end_unanswered(call, &err);
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *why,
		    void *userdata)
{
	struct csi_call *call = userdata;
	const struct csi_where at = where(call);
	const char *reported = rpc_client_message(call->client->rpc);
	struct error err;

	if (status == STATUS_OK) {
		csi_call_end(call, response, NULL);
	} else if (call->client->is_closing) {
		end_closed(call);
	} else if (reported) {
		csi_error_answered(&at, status, reported, &err);
		csi_call_end(call, NULL, &err);
	} else {
		end_unanswered(call, why);
	}
}

/* The deadline of a call that still waits. */
static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct csi_call *call = userdata;
	const struct csi_call *oldest = TAILQ_FIRST(&call->client->in_flight);
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"%s: not sent in time; %zu calls are in flight before it, the oldest is %s",
			csi_method_info(call->method)->name, call->client->stats.in_flight,
			oldest ? csi_method_info(oldest->method)->name : "gone");
	end_unanswered(call, &err);
	return 0;
}

static enum status send_call(struct csi_call *call, struct error *err)
{
	const struct csi_method_info *info = csi_method_info(call->method);
	uint64_t now_us = clock_monotonic_us();

	return rpc_client_call(call->client->rpc, info->service, info->name, call->request,
			       call->deadline_us > now_us ? call->deadline_us - now_us : 1, on_done, call,
			       &call->pending, err);
}

/* Returns false when the call has ended, and perhaps the client with it. */
static bool csi_call_begin(struct csi_call *call)
{
	struct csi_client *client = call->client;
	struct error err;

	if (send_call(call, &err) != STATUS_OK) {
		end_unanswered(call, &err);
		return false;
	}
	call->timer = sd_event_source_disable_unref(call->timer);
	call->since_ms = clock_realtime_ms();
	TAILQ_REMOVE(&client->waiting, call, entry);
	client->stats.waiting--;
	client->waiting_bytes -= call->request_bytes;
	TAILQ_INSERT_TAIL(&client->in_flight, call, entry);
	client->stats.in_flight++;
	log_call(call, "called", call->request, NULL);
	return true;
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct csi_client *client = userdata;
	struct csi_call *call;

	while ((call = next_call(client)) != NULL)
		if (!csi_call_begin(call))
			return 0; /* unlinking it has asked for another turn, if there is a client */
	return 0;
}

static enum status check_room(const struct csi_client *client, enum csi_method method, size_t bytes,
			      struct error *err)
{
	const struct csi_call *oldest = TAILQ_FIRST(&client->in_flight);
	const char *name = csi_method_info(method)->name;

	if (client->is_closing)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "plugin %s: %s: the connection is given up on our side", client->plugin_id,
				 name);
	if (bytes > CSI_REQUEST_MAX)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"plugin %s: %s: the request has %zu bytes, the limit is %d: plugins take no more",
			client->plugin_id, name, bytes, CSI_REQUEST_MAX);
	if (client->stats.waiting < CSI_QUEUE_MAX && bytes <= CSI_QUEUE_BYTES_MAX - client->waiting_bytes)
		return STATUS_OK;
	return error_set(
		err, STATUS_RESOURCE_EXHAUSTED, 0,
		"plugin %s: %s: %zu calls wait already, behind %zu that are in flight, the oldest is %s",
		client->plugin_id, name, client->stats.waiting, client->stats.in_flight,
		oldest ? csi_method_info(oldest->method)->name : "gone");
}

static struct csi_call *call_new(struct csi_client *client, enum csi_method method,
				 const ProtobufCMessage *request, uint64_t timeout_us)
{
	uint64_t now_us = clock_monotonic_us();
	struct csi_call *call = malloc(sizeof(*call));

	if (!call)
		return NULL;
	*call = (struct csi_call){
		.client = client,
		.method = method,
		.request = csi_request_copy(request),
		.request_bytes = protobuf_c_message_get_packed_size(request),
		.deadline_us = timeout_us < UINT64_MAX - now_us ? now_us + timeout_us : UINT64_MAX,
	};
	if (!call->request || timer_arm(client->event, &call->timer, timeout_us, on_timeout, call) < 0) {
		call_free(call);
		return NULL;
	}
	return call;
}

enum status csi_call_start(struct csi_client *client, enum csi_method method, const ProtobufCMessage *request,
			   uint64_t timeout_us, csi_done_fn *done, void *userdata, struct csi_call **ret,
			   struct error *err)
{
	const struct csi_method_info *info = csi_method_info(method);
	struct csi_call *call;

	assert(request->descriptor == info->request);
	TRY(check_room(client, method, protobuf_c_message_get_packed_size(request), err));
	if (timeout_us == 0)
		timeout_us = info->timeout_us < client->call_timeout_us ? info->timeout_us
									: client->call_timeout_us;
	call = call_new(client, method, request, timeout_us);
	if (!call)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "plugin %s: %s", client->plugin_id,
				 info->name);
	call->done = done;
	call->userdata = userdata;
	TAILQ_INSERT_TAIL(&client->waiting, call, entry);
	client->stats.waiting++;
	client->stats.calls++;
	client->waiting_bytes += call->request_bytes;
	wake(client);
	if (ret)
		*ret = call;
	return STATUS_OK;
}

void csi_call_cancel(struct csi_call *call)
{
	if (!call)
		return;
	if (call->pending)
		rpc_pending_cancel(call->pending);
	unlink_call(call);
	call_free(call);
}

void csi_client_free(struct csi_client *client)
{
	if (!client || client->is_closing)
		return;
	client->is_closing = true;
	while (!TAILQ_EMPTY(&client->waiting))
		end_closed(TAILQ_FIRST(&client->waiting));
	rpc_client_free(client->rpc);
	client_release(client);
}

pid_t csi_client_peer(const struct csi_client *client)
{
	return rpc_client_peer(client->rpc);
}

void csi_client_stats(const struct csi_client *client, struct csi_client_stats *ret)
{
	const struct csi_call *oldest = TAILQ_FIRST(&client->in_flight);

	*ret = client->stats;
	if (!oldest)
		return;
	ret->oldest_since_ms = oldest->since_ms;
	ret->oldest_name = csi_method_info(oldest->method)->name;
}
