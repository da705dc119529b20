/* SPDX-License-Identifier: Apache-2.0 */
#include "call/connect.h"

#include "base/backoff.h"
#include "base/str.h"
#include "command/contexts.h"
#include "command/settings.h"
#include "command/values.h"
#include "rpc/client.h"
#include "show/progress.h"

#include <assert.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/explain.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* While no server leads, or the servers are out of reach. */
static const uint64_t LEADERLESS_US = 15 * USEC_PER_SEC;
static const uint64_t UNREACHED_US = 2 * USEC_PER_SEC;

struct connection {
	struct invocation *inv;
	sd_event *event;
	struct rpc_tls *tls; /* NULL for the agent */
	struct rpc_client *client;
	bool has_several_servers;
	bool is_agent; /* it is the agent's, not a server's */
};

void connection_free(struct connection *connection)
{
	if (!connection)
		return;
	rpc_client_free(connection->client);
	rpc_tls_free(connection->tls);
	sd_event_unref(connection->event);
	free(connection);
}

static enum status connection_new(struct invocation *inv, struct connection **ret, struct error *err)
{
	cleanup_connection struct connection *connection = calloc(1, sizeof(*connection));
	int r;

	if (!connection)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "connect");
	connection->inv = inv;
	r = sd_event_new(&connection->event);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot make an event loop");
	*ret = TAKE_PTR(connection);
	return STATUS_OK;
}

/* Finish a connection to @endpoint. */
static enum status open_client(struct connection *connection, const struct rpc_endpoint *endpoint,
			       struct error *err)
{
	assert(connection);
	return rpc_client_new(connection->event, endpoint, &connection->client, err);
}

static enum status open_server(struct connection *connection, const struct server_settings *settings,
			       struct error *err)
{
	const struct rpc_tls_files files = {
		.ca = settings->ca,
		.cert = settings->cert[0] ? settings->cert : NULL,
		.key = settings->key[0] ? settings->key : NULL,
	};
	struct rpc_endpoint endpoint = {
		.unix_path = settings->socket[0] ? settings->socket : NULL,
		.servers = settings->servers,
		.n_servers = settings->n_servers,
		.server_uri = settings->server_uri,
		.token = settings->token[0] ? settings->token : NULL,
	};

	assert(connection);
	if (!endpoint.unix_path)
		TRY(rpc_tls_new(&files, &connection->tls, err));
	endpoint.tls = connection->tls;
	connection->has_several_servers = settings->n_servers > 1;
	return open_client(connection, &endpoint, err);
}

enum status connect_server(struct invocation *inv, struct connection **ret, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	struct server_settings settings;
	enum status status = context_apply(inv, err);

	if (status == STATUS_OK)
		status = server_settings_resolve(inv, &settings, err);
	if (status == STATUS_OK)
		status = connection_new(inv, &connection, err);
	if (status == STATUS_OK)
		status = open_server(connection, &settings, err);
	explicit_bzero(&settings, sizeof(settings));
	if (status == STATUS_OK)
		*ret = TAKE_PTR(connection);
	return status;
}

enum status connect_agent(struct invocation *inv, struct connection **ret, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	char path[PATH_MAX];
	struct rpc_endpoint endpoint = {.unix_path = path};
	enum status status = agent_socket_path(inv, HOLDFAST_AGENT_SETTINGS_PATH, path, err);

	if (status == STATUS_OK)
		status = connection_new(inv, &connection, err);
	if (status == STATUS_OK) {
		connection->is_agent = true;
		status = open_client(connection, &endpoint, err);
	}
	if (status == STATUS_OK)
		*ret = TAKE_PTR(connection);
	return status;
}

sd_event *connection_event(struct connection *connection)
{
	return connection->event;
}

struct rpc_client *connection_client(struct connection *connection)
{
	return connection->client;
}

void connection_explain(const struct connection *connection, struct error *err)
{
	static const char agent[] = ". Next: systemctl status holdfast-agent";
	static const char server[] = ". Next: systemctl status holdfast-server";
	static const char address[] = ". Next: is --address right? On its machine: systemctl status "
				      "holdfast-server";
	static const char certificate[] =
		". Next: openssl x509 -noout -subject -issuer -dates -in FILE, of --cert "
		"and --ca; at the server: systemctl status holdfast-server";
	/* no next command: what the call was about has one of its own */
	static const char lost[] = ". The server was lost meanwhile, and may have done it; on its machine: "
				   "systemctl status holdfast-server";
	size_t n = strlen(err->msg);

	if (err->status != STATUS_UNAVAILABLE || rpc_client_message(connection->client))
		return;
	(void)snprintf(err->msg + n, sizeof(err->msg) - n, "%s",
		       connection->is_agent			       ? agent
		       : !connection->tls			       ? server
		       : err->sys_errno != 0			       ? address
		       : rpc_client_may_have_begun(connection->client) ? lost
								       : certificate);
}

/* Reads have no other effect than their answer. An allocation is known by its id: to run or stop it once more
 * is answered as the first time. */
static bool is_repeatable(const ProtobufCServiceDescriptor *service, const char *method)
{
	if (service == &holdfast__v1__allocations__descriptor)
		return str_eq(method, "Run") || str_eq(method, "Stop") || str_eq(method, "Get") ||
		       str_eq(method, "List");
	return str_starts_with(method, "Get") || str_starts_with(method, "List") || str_eq(method, "Status");
}

/* How long to continue asking, after a call that has changed nothing for certain, or may be repeated. */
static uint64_t patience_us(const struct connection *connection, const ProtobufCServiceDescriptor *service,
			    const char *method, enum status status)
{
	bool may_repeat = connection->has_several_servers && is_repeatable(service, method);

	if (status == STATUS_UNKNOWN) /* the leader was lost behind the server that was asked */
		return may_repeat ? LEADERLESS_US : 0;
	if (status != STATUS_UNAVAILABLE)
		return 0;
	if (rpc_client_may_have_begun(connection->client))
		return may_repeat ? LEADERLESS_US : 0;
	if (rpc_client_message(connection->client))
		return LEADERLESS_US;
	return connection->has_several_servers ? UNREACHED_US : 0;
}

/* Once, and again at the next server while nothing can have been changed. */
static enum status call_some_server(struct connection *connection, const ProtobufCServiceDescriptor *service,
				    const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
				    ProtobufCMessage **ret, struct error *err)
{
	struct backoff backoff = BACKOFF_INIT(200 * USEC_PER_MSEC, 2 * USEC_PER_SEC);
	uint64_t failed_us = 0; /* the first time: an answer may have been waited for before */

	for (;;) {
		enum status status = rpc_client_call_sync(connection->client, service, method, request,
							  timeout_us, ret, err);
		uint64_t after_us = patience_us(connection, service, method, status);
		uint64_t delay_us = backoff_next(&backoff, backoff_random());
		uint64_t now_us = clock_monotonic_us();

		if (failed_us == 0)
			failed_us = now_us;
		if (now_us - failed_us + delay_us >= (after_us < timeout_us ? after_us : timeout_us))
			return status;
		(void)usleep((useconds_t)delay_us);
		rpc_client_move_on(connection->client);
	}
}

enum status connection_call(struct connection *connection, const ProtobufCServiceDescriptor *service,
			    const char *method, const ProtobufCMessage *request, uint64_t timeout_us,
			    void *ret, struct error *err)
{
	ProtobufCMessage *answer = NULL;
	enum status status = call_some_server(connection, service, method, request, timeout_us, &answer, err);

	if (status == STATUS_OK) {
		*(ProtobufCMessage **)ret = answer;
		return status;
	}
	if (err)
		connection_explain(connection, err);
	protobuf_c_message_free_unpacked(connection->inv->details, NULL);
	connection->inv->details =
		rpc_client_details(connection->client, &holdfast__v1__error_details__descriptor);
	return status;
}

/* The progress line during a call. */
struct ticker {
	const char *doing;
	uint64_t started_us;
	sd_event_source *timer;
};

static int on_tick(sd_event_source *timer, uint64_t usec, void *userdata)
{
	const struct ticker *ticker = userdata;
	char age[CLOCK_TEXT_SIZE];

	progress_show("%s ... %s", ticker->doing,
		      clock_format_duration(usec > ticker->started_us ? usec - ticker->started_us : 0, age));
	(void)sd_event_source_set_time(timer, usec + USEC_PER_SEC);
	return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

enum status connection_call_long(struct connection *connection, struct invocation *inv,
				 const ProtobufCServiceDescriptor *service, const char *method,
				 const ProtobufCMessage *request, uint64_t timeout_us, const char *doing,
				 void *ret, struct error *err)
{
	struct ticker ticker = {.doing = doing, .started_us = clock_monotonic_us()};

	TRY(value_timeout(inv, timeout_us, &timeout_us, err));
	progress_show("%s ...", doing);
	/* without it there is no progress to see, nothing else */
	(void)sd_event_add_time(connection->event, &ticker.timer, CLOCK_MONOTONIC,
				ticker.started_us + USEC_PER_SEC, 0, on_tick, &ticker);
	enum status status = connection_call(connection, service, method, request, timeout_us, ret, err);
	sd_event_source_disable_unref(ticker.timer);
	progress_end();
	return status;
}

/* A stream in flight. */
struct reader {
	const struct connection_stream *stream;
	bool done;
	bool has_message; /* a message came: a new stream would not repeat it */
	enum status status;
	struct error err;
};

struct open_stream {
	struct reader reader;
	struct rpc_stream *stream; /* NULL: closed */
};

static void end_reader(struct reader *reader, enum status status, const struct error *err)
{
	reader->done = true;
	reader->status = status;
	if (err)
		reader->err = *err;
}

static void on_stream_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	struct reader *reader = &((struct open_stream *)userdata)->reader;
	struct error err = {.msg = ""};
	enum status status;

	if (reader->done)
		return;
	reader->has_message = true;
	status = reader->stream->on_message(message, reader->stream->userdata, &err);
	if (status != STATUS_OK)
		end_reader(reader, status, &err);
}

/* A reader that ended the stream itself keeps its own reason. */
static void on_stream_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			     void *userdata)
{
	struct open_stream *open = userdata;

	open->stream = NULL;
	if (!open->reader.done)
		end_reader(&open->reader, status, err);
}

static int on_stream_time(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct open_stream *open = userdata;

	if (!open->reader.done)
		end_reader(&open->reader, STATUS_OK, NULL);
	return 0;
}

static enum status run_stream(struct connection *connection, struct open_stream *open, struct error *err)
{
	const struct connection_stream *stream = open->reader.stream;
	sd_event_source *timer = NULL;
	int r = 0;

	if (stream->timeout_us > 0)
		r = sd_event_add_time_relative(connection->event, &timer, CLOCK_MONOTONIC, stream->timeout_us,
					       0, on_stream_time, open);
	while (r >= 0 && !open->reader.done)
		r = sd_event_run(connection->event, UINT64_MAX);
	sd_event_source_disable_unref(timer);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot wait for the server");
	if (open->reader.status != STATUS_OK && err)
		*err = open->reader.err;
	return open->reader.status;
}

static enum status stream_once(struct connection *connection, const struct connection_stream *stream,
			       bool *ret_has_message, struct error *err)
{
	static const struct rpc_stream_events events = {
		.on_message = on_stream_message,
		.on_closed = on_stream_closed,
	};
	struct open_stream open = {.reader = {.stream = stream}};
	enum status status = rpc_stream_open(connection->client, stream->service, stream->method,
					     CALL_TIMEOUT_US, &events, &open, &open.stream, err);

	if (status == STATUS_OK)
		status = rpc_stream_send(open.stream, stream->request, err);
	if (status == STATUS_OK)
		status = run_stream(connection, &open, err);
	rpc_stream_cancel(open.stream);
	*ret_has_message = open.reader.has_message;
	return status;
}

/* At the next server, as long as a call goes round them. */
enum status connection_stream(struct connection *connection, const struct connection_stream *stream,
			      struct error *err)
{
	struct backoff backoff = BACKOFF_INIT(200 * USEC_PER_MSEC, 2 * USEC_PER_SEC);
	uint64_t failed_us = 0;

	for (;;) {
		bool has_message = false;
		enum status status = stream_once(connection, stream, &has_message, err);
		uint64_t now_us = clock_monotonic_us();

		if (failed_us == 0)
			failed_us = now_us;
		if (status != STATUS_UNAVAILABLE || has_message || !connection->has_several_servers ||
		    now_us - failed_us >= LEADERLESS_US)
			return status;
		(void)usleep((useconds_t)backoff_next(&backoff, backoff_random()));
		rpc_client_move_on(connection->client);
	}
}
