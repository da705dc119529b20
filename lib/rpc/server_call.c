/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/caller.h"
#include "rpc/grpc_status.h"
#include "rpc/message.h"
#include "rpc/server.h"
#include "rpc/server_internal.h"
#include "rpc/timer.h"

#include <assert.h>
#include <string.h>

static struct rpc_call *call_new(struct server_conn *conn)
{
	struct rpc_call *call = malloc(sizeof(*call));

	if (!call)
		return NULL;
	*call = (struct rpc_call){.stream = H2_STREAM_INIT(call), .conn = conn, .state = CALL_HEAD};
	LIST_INSERT_HEAD(&conn->calls, call, of_conn);
	server_conn_ref(conn);
	return call;
}

/* Nothing can be sent to the client from now on. */
static void disconnect(struct rpc_call *call)
{
	h2_stream_detach(&call->stream);
	if (call->h1)
		h1_forget(TAKE_PTR(call->h1), &call->stream);
}

static bool is_connected(const struct rpc_call *call)
{
	return call->stream.h2 || call->h1;
}

const struct rpc_method rpc_relay_later = {.name = "later"};

static void stop_waiting(struct rpc_call *call)
{
	/* without a server there is no list either */
	if (call->is_waiting && call->conn->server)
		TAILQ_REMOVE(&call->conn->server->waiting, call, waiting);
	call->is_waiting = false;
}

static void call_free(struct rpc_call *call)
{
	stop_waiting(call);
	disconnect(call);
	(void)sd_event_source_disable_unref(call->deadline);
	LIST_REMOVE(call, of_conn);
	if (call->is_begun)
		server_conn_end_request(call->conn);
	server_conn_unref(call->conn);
	free(call->caller);
	free(call->end_message);
	free(call->end_details);
	explicit_bzero(call->head.token, sizeof(call->head.token));
	explicit_bzero(call->head.secrets, sizeof(call->head.secrets));
	free(call);
}

static bool is_grpc(const struct rpc_call *call)
{
	return call->head.kind == REQUEST_GRPC;
}

/* The owner of the functions that take the call. */
static void *userdata_of(const struct rpc_call *call)
{
	const struct rpc_server *server = call->conn->server;

	return call->is_relayed ? server->relay_userdata : server->userdata;
}

/* Its client waits no longer, though its handler may still hold it. */
static void end_flight(struct rpc_call *call)
{
	if (call->is_in_flight)
		server_conn_set_calls(call->conn, call->conn->n_held - 1);
	call->is_in_flight = false;
}

static void begin_flight(struct rpc_call *call)
{
	call->is_in_flight = true;
	server_conn_set_calls(call->conn, call->conn->n_held + 1);
}

/* The call has ended, in any way; the first one counts. */
static void count_end(struct rpc_call *call, enum status status)
{
	if (call->counts && call->conn->server)
		call->counts->n[status]++;
	call->counts = NULL;
}

/* Answer with an error in the form of the request, and end. The call's handler, if there is one, still holds
 * it. @details may be NULL */
static void refuse_details(struct rpc_call *call, const struct error *err, const ProtobufCMessage *details)
{
	if (details && protobuf_c_message_get_packed_size(details) > RPC_DETAILS_MAX)
		details = NULL;
	call->answered = true;
	if (call->state == CALL_HANDLED && call->caller)
		end_flight(call);
	count_end(call, err->status);
	if (is_grpc(call))
		grpc_call_end_details(call, err, details);
	else
		json_call_fail(call, connect_http_status(err->status), err, details);
}

static void refuse(struct rpc_call *call, const struct error *err)
{
	refuse_details(call, err, NULL);
}

/* Refuse a call that has not reached its handler. @http of an answer that is no gRPC */
static void reject(struct rpc_call *call, int http, const struct error *err)
{
	count_end(call, err->status);
	if (is_grpc(call))
		grpc_call_end(call, err->status, err->msg);
	else
		json_call_fail(call, http, err, NULL);
	call->state = CALL_ENDED;
}

/* The handler is no longer notified and no longer holds the call. */
static void leave_handler(struct rpc_call *call, enum call_state state)
{
	if (call->method->stream)
		call->conn->server->n_streams--;
	call->state = state;
	end_flight(call);
	call->deadline = sd_event_source_unref(call->deadline);
}

static bool explain_late(const struct rpc_call *call, struct error *err)
{
	const struct rpc_server *server = call->conn->server;

	return server->late && call->state == CALL_HANDLED && server->late(server->userdata, err);
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct rpc_call *call = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "the deadline passed before %s was done",
			call->head.path);
	(void)explain_late(call, &err);
	switch (call->state) {
	case CALL_HEAD:
	case CALL_CLOSING:
	case CALL_ENDED:
		break;
	case CALL_REQUEST:
		refuse(call, &err);
		call->state = CALL_ENDED;
		break;
	case CALL_HANDLED:
		refuse(call, &err);
		break;
	case CALL_STREAMING:
		rpc_call_fail(call, &err);
		break;
	}
	return 0;
}

static enum status arm_deadline(struct rpc_call *call, struct error *err)
{
	struct rpc_server *server = call->conn->server;
	uint64_t delay_us = server->timing.request_us;
	int r;

	if (call->head.has_timeout && (call->method->stream || call->head.timeout_us < delay_us))
		delay_us = call->head.timeout_us;
	else if (call->method->stream)
		return STATUS_OK;
	r = timer_arm(server->event, &call->deadline, delay_us, on_deadline, call);
	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a deadline") : STATUS_OK;
}

/* Is @path "/" + @service + "/" + @method? */
static bool path_is(const char *path, const char *service, const char *method)
{
	size_t n = strlen(service);

	return path[0] == '/' && strncmp(path + 1, service, n) == 0 && path[n + 1] == '/' &&
	       strcmp(path + n + 2, method) == 0;
}

/* Find the method of @path, "/holdfast.v1.Volumes/Get". */
static enum status route_path(struct rpc_call *call, const char *path, struct error *err)
{
	const struct rpc_server *server = call->conn->server;
	const struct rpc_service *service;
	size_t first = 0; /* method of the service, among all */

	for (size_t i = 0; i < server->n_services; i++, first += service->n_methods) {
		service = &server->services[i];

		for (size_t k = 0; k < service->n_methods; k++) {
			if (!path_is(path, service->descriptor->name, service->methods[k].name))
				continue;
			call->method = &service->methods[k];
			call->service = service;
			call->counts = &server->counts[first + k];
			call->descriptor = protobuf_c_service_descriptor_get_method_by_name(
				service->descriptor, call->method->name);
			return STATUS_OK;
		}
	}
	return error_set(err, STATUS_UNIMPLEMENTED, 0, "this server has no method %s", path);
}

static void handle_text(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	call->route->text(call, userdata);
}

static const struct rpc_method text_method = {.name = "text", .unary = handle_text};

/* Find the method that @route leads to. */
static enum status follow_route(struct rpc_call *call, const struct rpc_route *route, struct error *err)
{
	char path[REQUEST_PATH_MAX + 1];

	call->route = route;
	if (route->text) {
		call->method = &text_method;
		return STATUS_OK;
	}
	(void)str_format(path, sizeof(path), "/%s/%s", route->service, route->call);
	return route_path(call, path, err);
}

/* A request by one of the addresses that people type? @ret_mine: it is, or nothing else can be meant. */
static enum status route_alias(struct rpc_call *call, bool *ret_mine, int *ret_http, struct error *err)
{
	const struct rpc_server *server = call->conn->server;
	const struct request_head *head = &call->head;
	const struct rpc_route *found;
	enum status status = STATUS_OK;
	bool near = false;

	*ret_mine = false;
	if (server->n_routes == 0 || is_grpc(call))
		return STATUS_OK;
	TRY(request_head_check_form(head, ret_http, err));
	found = route_find(server->routes, server->n_routes, head->method, head->path, &call->allow, &near);
	*ret_mine = true;
	if (found) {
		status = follow_route(call, found, err);
		*ret_http = connect_http_status(status);
		return status;
	}
	if (call->allow != 0) {
		char allow[ROUTE_ALLOW_SIZE];

		*ret_http = 405;
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%.*s takes %s, not %s",
				 (int)strcspn(head->path, "?"), head->path, route_allow(call->allow, allow),
				 head->method);
	}
	if (near || (!str_eq(head->method, "POST") && route_path(call, head->path, NULL) != STATUS_OK)) {
		*ret_http = 404;
		return error_set(err, STATUS_NOT_FOUND, 0, "there is nothing at %s", head->path);
	}
	*ret_mine = false;
	return STATUS_OK;
}

/* @request NULL: of a stream */
enum status rpc_call_ask_gate(struct rpc_call *call, const ProtobufCMessage *request, struct error *err)
{
	const struct rpc_server *server = call->conn->server;

	if (!server->gate || !call->descriptor || call->is_relayed)
		return STATUS_OK;
	return server->gate(call, call->service->descriptor->short_name, call->method, request,
			    server->userdata, err);
}

/* A call on behalf of another caller belongs to that caller, if the peer may make such calls. */
static enum status parse_caller(struct rpc_call *call, struct error *err)
{
	struct rpc_server *server = call->conn->server;
	enum status status;

	if (call->head.caller[0] == '\0')
		return STATUS_OK;
	status = server->vouching
			 ? server->vouching(&call->conn->peer, server->userdata, err)
			 : error_set(err, STATUS_PERMISSION_DENIED, 0, "no calls are taken for others");
	if (status != STATUS_OK) {
		server_conn_refused(server, &call->conn->peer, err);
		return status;
	}
	call->caller = malloc(sizeof(*call->caller));
	return call->caller ? caller_parse(call->head.caller, call->caller, err)
			    : error_no_memory(err, "a call");
}

/* A forwarded call is not forwarded again: two servers may each think that the other leads. */
static void choose_relay(struct rpc_call *call)
{
	struct rpc_server *server = call->conn->server;
	const struct rpc_method *row = NULL;

	if (server->relay && call->descriptor && !call->caller)
		row = server->relay(call, call->method, server->relay_userdata);
	if (!row)
		return;
	if (row == &rpc_relay_later) {
		assert(call->method->stream);
		call->is_waiting = true;
		TAILQ_INSERT_TAIL(&server->waiting, call, waiting);
		return;
	}
	assert(!row->unary == !call->method->unary);
	call->method = row;
	call->is_relayed = true;
}

static enum status admit(struct rpc_call *call, int *ret_http, struct error *err)
{
	size_t max = call->conn->server->limits.calls;
	bool alias = false;
	enum status status = STATUS_OK;

	TRY(route_alias(call, &alias, ret_http, err));
	if (!alias)
		TRY(request_head_check(&call->head, ret_http, err));
	if (!alias)
		status = route_path(call, call->head.path, err);
	if (status == STATUS_OK && call->method->stream && !is_grpc(call))
		status = error_set(err, STATUS_UNIMPLEMENTED, 0, "%s is a stream: call it by gRPC",
				   call->head.path);
	if (status == STATUS_OK && call->conn->n_held >= max)
		status = error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				   "%zu calls of this connection are in flight already", max);
	if (status == STATUS_OK)
		status = parse_caller(call, err);
	if (status == STATUS_OK)
		choose_relay(call);
	if (status == STATUS_OK && call->is_waiting)
		return STATUS_OK;
	if (status == STATUS_OK && call->method->stream) {
		status = rpc_call_ask_gate(call, NULL, err);
		if (status != STATUS_OK)
			count_end(call, status);
	}
	if (status == STATUS_OK)
		status = arm_deadline(call, err);
	if (status != STATUS_OK)
		*ret_http = connect_http_status(status);
	return status;
}

static void rpc_call_begin(struct rpc_call *call)
{
	struct error err;
	int http = 0;

	if (call->is_waiting)
		return;
	if (!call->is_begun)
		server_conn_begin_request(call->conn);
	call->is_begun = true;
	call->state = CALL_ENDED;
	if (request_head_is_malformed(&call->head)) {
		h2_stream_reset(&call->stream, NGHTTP2_PROTOCOL_ERROR);
		return;
	}
	if (admit(call, &http, &err) != STATUS_OK) {
		reject(call, http, &err);
		return;
	}
	call->state = call->is_waiting ? CALL_HEAD : CALL_REQUEST;
	if (call->is_waiting || !call->method->stream)
		return;
	if (call->method->is_background)
		server_conn_move(call->conn, POLL_BACKGROUND);
	if (call->method->stream->on_drained && !call->method->stream->is_prompt)
		h2_stream_pace(&call->stream);
	call->state = CALL_STREAMING;
	begin_flight(call);
	call->conn->server->n_streams++;
	if (call->method->stream->on_open)
		call->method->stream->on_open(call, userdata_of(call));
	if (call->state == CALL_STREAMING)
		grpc_call_open(call);
}

void rpc_server_retry(struct rpc_server *server, size_t max)
{
	struct rpc_call *call;

	for (; max > 0 && (call = TAILQ_FIRST(&server->waiting)) != NULL; max--) {
		stop_waiting(call);
		h2_stream_wake(&call->stream);
	}
}

static void review_call(struct rpc_call *call, rpc_review_fn *may)
{
	bool is_open = call->state == CALL_STREAMING ||
		       (call->state == CALL_HANDLED && is_connected(call) && !call->answered);
	struct error err;

	if (!is_open || may(call, call->conn->server->userdata, &err) == STATUS_OK)
		return;
	if (call->state == CALL_STREAMING)
		rpc_call_fail(call, &err);
	else
		refuse(call, &err); /* its handler's answer is dropped */
}

void rpc_server_review(struct rpc_server *server, rpc_review_fn *may)
{
	struct server_conn *conn;
	struct rpc_call *call;

	assert(!server->in_handler);
	LIST_FOREACH (conn, &server->conns, all)
		LIST_FOREACH (call, &conn->calls, of_conn)
			review_call(call, may);
}

static void look_if_late(struct rpc_call *call);

/* The handler has a call without a deadline for long. */
static int on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct rpc_call *call = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "%s takes long", call->head.path);
	if (explain_late(call, &err))
		refuse(call, &err);
	else
		look_if_late(call);
	return 0;
}

static void look_if_late(struct rpc_call *call)
{
	struct rpc_server *server = call->conn->server;

	call->deadline = sd_event_source_disable_unref(call->deadline);
	if (server->late) /* memory short: it waits as long as its client does */
		(void)timer_arm(server->event, &call->deadline, server->late_us, on_late, call);
}

/* The request is complete, in any form. */
static void handle(struct rpc_call *call, const ProtobufCMessage *request)
{
	const uint64_t request_us = call->conn->server->timing.request_us;
	struct error err;

	call->state = CALL_HANDLED;
	begin_flight(call);
	if (!call->head.has_timeout)
		look_if_late(call);
	else if (call->head.timeout_us > request_us) /* from here on the caller's own; cannot fail */
		(void)timer_arm(call->conn->server->event, &call->deadline,
				call->head.timeout_us - request_us + rpc_call_left_us(call), on_deadline,
				call);
	if (rpc_call_ask_gate(call, request, &err) == STATUS_OK)
		call->method->unary(call, request, userdata_of(call));
	else if (err.status == STATUS_UNAVAILABLE)
		rpc_call_fail_unchanged(call, &err, NULL);
	else
		rpc_call_fail(call, &err);
}

static void receive_unary(struct rpc_call *call)
{
	cleanup(message_freep) ProtobufCMessage *request = NULL;
	struct error err;
	int http = 0;

	switch (is_grpc(call) ? grpc_call_request(call, &request, &err)
			      : json_call_request(call, &request, &http, &err)) {
	case MESSAGE_NONE:
		break;
	case MESSAGE_TAKEN:
		handle(call, request);
		break;
	case MESSAGE_REFUSED:
		reject(call, http, &err);
		break;
	}
}

/* Give one message to the handlers; false if no message waits. */
static bool receive_one(struct rpc_call *call)
{
	cleanup(message_freep) ProtobufCMessage *message = NULL;
	const struct rpc_server *server = call->conn->server;
	struct error err;

	switch (message_read(&call->stream, call->descriptor->input, server->limits.message_bytes, &message,
			     &err)) {
	case MESSAGE_NONE:
		return false;
	case MESSAGE_TAKEN:
		call->method->stream->on_message(call, message, userdata_of(call));
		return true;
	case MESSAGE_REFUSED:
		rpc_call_fail(call, &err);
		return false;
	}
	return false;
}

/* Returns false if it continues in a later turn. */
static bool receive_stream(struct rpc_call *call)
{
	const struct rpc_stream_handlers *handlers = call->method->stream;

	if (call->stream.drain_at > 0 && byteq_len(&call->stream.out) <= call->stream.drain_at) {
		call->stream.drain_at = 0;
		handlers->on_drained(call, userdata_of(call));
	}
	while (call->state == CALL_STREAMING && !call->stream.is_paused && receive_one(call)) {
		if (!h2_stream_is_late(&call->stream))
			continue;
		if (call->stream.closed) /* given up: there may be no later turn */
			break;
		h2_stream_wake(&call->stream);
		return false;
	}
	if (call->state != CALL_STREAMING || call->stream.is_paused || !call->stream.in_end ||
	    call->half_closed)
		return true;
	/* given up, not ended: a client that cancels may half-close first, as on Node */
	if (call->stream.closed)
		return true;
	call->half_closed = true;
	if (handlers->on_half_close)
		handlers->on_half_close(call, userdata_of(call));
	else
		rpc_call_finish(call);
	return true;
}

/* The client has gone, or nothing can be sent to it. Frees the call unless a handler holds it. */
static void hang_up(struct rpc_call *call)
{
	void *userdata = userdata_of(call);

	switch (call->state) {
	case CALL_HANDLED:
		disconnect(call);
		if (call->caller) /* one of many on this connection, each of whom has limits of its own */
			end_flight(call);
		timer_disarm(call->deadline);
		if (call->method->on_gone)
			call->method->on_gone(call, userdata);
		return;
	case CALL_STREAMING:
		count_end(call, STATUS_CANCELLED);
		leave_handler(call, CALL_ENDED);
		call->method->stream->on_closed(call, userdata);
		break;
	case CALL_HEAD:
	case CALL_REQUEST:
	case CALL_CLOSING:
	case CALL_ENDED:
		break;
	}
	call_free(call);
}

static void on_ready(struct h2_stream *stream)
{
	struct rpc_call *call = stream->owner;

	/* a client that has gone gets no answer: its requests must not take time from others */
	if (call->state == CALL_HEAD && stream->headers_in && !stream->closed)
		rpc_call_begin(call);
	if (call->state == CALL_REQUEST && !stream->closed)
		receive_unary(call);
	else if (call->state == CALL_STREAMING && !receive_stream(call))
		return;
	if (call->state == CALL_CLOSING) {
		call->state = CALL_ENDED;
		call->method->stream->on_closed(call, userdata_of(call));
	}
	if (call->state == CALL_HANDLED || call->state == CALL_ENDED)
		h2_stream_take(stream, byteq_len(&stream->in));
	if (stream->closed)
		hang_up(call);
}

static void on_header(struct h2_stream *stream, const uint8_t *name, size_t name_len, const uint8_t *value,
		      size_t value_len)
{
	struct rpc_call *call = stream->owner;

	if (!stream->headers_in)
		request_head_add(&call->head, name, name_len, value, value_len);
}

static bool on_headers(struct h2_stream *stream)
{
	return !stream->headers_in;
}

static void on_trailers(struct h2_stream *stream)
{
	grpc_call_trailers(stream->owner);
}

static struct h2_stream *on_begin(void *userdata)
{
	struct server_conn *conn = userdata;
	struct rpc_call *call;

	if (conn->refused)
		return NULL;
	call = call_new(conn);
	return call ? &call->stream : NULL;
}

static struct h2_stream *on_h1_begin(void *userdata, struct h1 *h1, const struct request_head *head)
{
	struct rpc_call *call = call_new(userdata);

	if (!call)
		return NULL;
	call->h1 = h1;
	call->head = *head;
	return &call->stream;
}

static void on_wake(void *userdata)
{
	server_conn_wake(userdata);
}

static void on_fail(void *userdata, const struct error *why)
{
	server_conn_fail(userdata, why);
}

static enum status on_hold(void *userdata, size_t n, struct error *err)
{
	return server_conn_hold(userdata, n, err);
}

const struct server_protocols server_call_protocols = {
	.h2 =
		{
			.on_begin = on_begin,
			.on_header = on_header,
			.on_headers = on_headers,
			.on_trailers = on_trailers,
			.on_ready = on_ready,
			.on_wake = on_wake,
			.on_hold = on_hold,
			.on_goaway = NULL,
		},
	.h1 =
		{
			.on_begin = on_h1_begin,
			.on_ready = on_ready,
			.on_wake = on_wake,
			.on_fail = on_fail,
		},
};

const struct rpc_peer *rpc_call_peer(const struct rpc_call *call)
{
	return call->caller ? call->caller : &call->conn->peer;
}

const struct rpc_peer *rpc_call_vouching_peer(const struct rpc_call *call)
{
	return call->caller ? &call->conn->peer : NULL;
}

void rpc_call_renew_peer(struct rpc_call *call, int64_t expires_ms, const char *serial)
{
	struct rpc_peer *peer = call->caller ? call->caller : &call->conn->peer;

	if (peer->expires_ms <= 0 || expires_ms <= peer->expires_ms)
		return;
	peer->expires_ms = expires_ms;
	(void)str_copy(peer->renewed_serial, sizeof(peer->renewed_serial), serial);
}

bool rpc_call_is_of_connection(const struct rpc_call *a, const struct rpc_call *b)
{
	if (!a->caller || !b->caller)
		return a->caller == b->caller && a->conn == b->conn;
	/* Connections to two servers may have one address. A server's certificate, name and connection may be
	 * replaced meanwhile: its machine decides. */
	return caller_is_of_host(&a->conn->peer, &b->conn->peer) &&
	       str_eq(a->caller->address, b->caller->address) && str_eq(a->caller->uri, b->caller->uri);
}

const ProtobufCServiceDescriptor *rpc_call_service(const struct rpc_call *call)
{
	return call->service->descriptor;
}

const char *rpc_call_method(const struct rpc_call *call)
{
	return call->descriptor->name;
}

const struct rpc_method *rpc_call_row(const struct rpc_call *call)
{
	return call->method;
}

uint64_t rpc_call_left_us(const struct rpc_call *call)
{
	uint64_t now_us = clock_monotonic_us();
	uint64_t end_us;

	if (!call->head.has_timeout || sd_event_source_get_time(call->deadline, &end_us) < 0)
		return UINT64_MAX;
	return end_us > now_us ? end_us - now_us : 1;
}

const char *rpc_call_token(const struct rpc_call *call)
{
	return call->head.token[0] != '\0' ? call->head.token : NULL;
}

void rpc_call_set_data(struct rpc_call *call, void *data)
{
	call->data = data;
}

void *rpc_call_data(const struct rpc_call *call)
{
	return call->data;
}

/* A unary call's handler has spoken: the call is free, now or when its answer is on its way. */
static void settle(struct rpc_call *call)
{
	leave_handler(call, CALL_ENDED);
	if (!is_connected(call))
		call_free(call);
}

void rpc_call_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
	assert(call->state == CALL_HANDLED);
	count_end(call, STATUS_OK);
	if (is_connected(call) && !call->answered) {
		if (is_grpc(call))
			grpc_call_reply(call, message);
		else
			json_call_reply(call, message);
	}
	settle(call);
}

void rpc_call_reply_text(struct rpc_call *call, const char *content_type, const char *text)
{
	assert(call->state == CALL_HANDLED && call->route && call->route->text);
	if (is_connected(call) && !call->answered)
		json_call_reply_text(call, content_type, text);
	settle(call);
}

void rpc_call_fail(struct rpc_call *call, const struct error *err)
{
	rpc_call_fail_details(call, err, NULL);
}

void rpc_call_fail_details(struct rpc_call *call, const struct error *err, const ProtobufCMessage *details)
{
	assert(err->status != STATUS_OK);
	count_end(call, err->status);
	if (call->state == CALL_HANDLED) {
		if (is_connected(call) && !call->answered)
			refuse_details(call, err, details);
		settle(call);
	} else if (call->state == CALL_STREAMING) {
		refuse_details(call, err, details);
		leave_handler(call, CALL_CLOSING);
		h2_stream_wake(&call->stream);
	}
}

void rpc_call_fail_unchanged(struct rpc_call *call, const struct error *err, const ProtobufCMessage *details)
{
	call->has_changed_nothing = true;
	rpc_call_fail_details(call, err, details);
}

enum status rpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err)
{
	assert(call->method->stream != NULL);
	if (call->state != CALL_STREAMING || call->stream.closed)
		return error_set(err, STATUS_UNAVAILABLE, 0, "the stream has ended");
	return grpc_call_send(call, message, err);
}

void rpc_call_pause(struct rpc_call *call, bool is_paused)
{
	assert(call->method->stream != NULL);
	h2_stream_pause(&call->stream, is_paused);
}

bool rpc_call_is_full(struct rpc_call *call)
{
	assert(call->method->stream && call->method->stream->on_drained);
	return h2_stream_is_full(&call->stream, RPC_UNSENT_HIGH);
}

bool rpc_call_was_refused(const struct rpc_call *call)
{
	return call->answered;
}

void rpc_call_finish(struct rpc_call *call)
{
	assert(call->method->stream != NULL);
	if (call->state != CALL_STREAMING)
		return;
	count_end(call, STATUS_OK);
	grpc_call_end(call, STATUS_OK, "");
	leave_handler(call, CALL_CLOSING);
	h2_stream_wake(&call->stream);
}

bool rpc_call_abort(struct rpc_call *call)
{
	assert(call->method->stream != NULL);
	if (call->state != CALL_STREAMING || byteq_len(&call->stream.out) == 0)
		return false;
	count_end(call, STATUS_CANCELLED);
	h2_stream_reset(&call->stream, NGHTTP2_CANCEL);
	leave_handler(call, CALL_CLOSING);
	h2_stream_wake(&call->stream);
	return true;
}
