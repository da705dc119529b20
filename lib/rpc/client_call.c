/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/client_internal.h"
#include "rpc/grpc_timeout.h"
#include "rpc/request_head.h"
#include "rpc/timer.h"

#include <stdio.h>
#include <string.h>

char *client_call_name(const struct client_call *call, char name[static CALL_NAME_SIZE])
{
	(void)snprintf(name, CALL_NAME_SIZE, "%s/%s at %s", call->service->name, call->method->name,
		       call->client->name);
	return name;
}

static enum status submit(struct client_call *call, uint64_t timeout_us, struct error *err)
{
	char timeout[GRPC_TIMEOUT_SIZE];
	char path[REQUEST_PATH_MAX + 1];
	nghttp2_nv headers[10];
	size_t n = 0;

	if (str_format(path, sizeof(path), "/%s/%s", call->service->name, call->method->name) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the method's name is too long");
	headers[n++] = h2_header(":method", "POST");
	headers[n++] = h2_header(":scheme", call->client->unix_path ? "http" : "https");
	headers[n++] = h2_header(":path", path);
	/* servers refuse the path of a socket and an empty name here, and take this one everywhere */
	headers[n++] = h2_header(":authority", "localhost");
	headers[n++] = h2_header("te", "trailers");
	headers[n++] = h2_header("content-type", "application/grpc");
	headers[n++] = h2_header("grpc-accept-encoding", "identity");
	headers[n++] = h2_header("user-agent", "holdfast");
	if (timeout_us > 0)
		headers[n++] = h2_header("grpc-timeout", grpc_timeout_format(timeout_us, timeout));
	if (call->client->authorization) {
		headers[n] = h2_header("authorization", call->client->authorization);
		headers[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX; /* a secret stays out of tables */
	}
	return h2_stream_request(call->conn->h2, &call->stream, headers, n, err);
}

enum status client_call_arm(struct client_call *call, uint64_t delay_us, sd_event_time_handler_t handler,
			    struct error *err)
{
	int r = timer_arm(call->client->event, &call->timer, delay_us, handler, call);

	return r < 0 ? error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "arm a deadline") : STATUS_OK;
}

enum status client_call_start(struct client_call *call, uint64_t timeout_us, struct error *err)
{
	struct rpc_client *client = call->client;
	uint64_t now_us = clock_monotonic_us();
	enum status st;

	if (client->closing)
		return error_set(err, STATUS_CANCELLED, 0, "the client of %s is being closed", client->name);
	call->deadline_us =
		timeout_us == 0 || timeout_us > UINT64_MAX - now_us ? UINT64_MAX : now_us + timeout_us;
	st = client_conn_get(client, &call->conn, err);
	if (st == STATUS_OK)
		st = submit(call, timeout_us, err);
	if (st != STATUS_OK)
		return st;
	LIST_INSERT_HEAD(&client->calls, call, all);
	return STATUS_OK;
}

void client_call_unlink(struct client_call *call)
{
	LIST_REMOVE(call, all);
	call->timer = sd_event_source_disable_unref(call->timer);
	h2_stream_detach(&call->stream);
	response_head_release(&call->head);
}

void client_call_end(struct client_call *call, enum status status, const struct error *err)
{
	details_release(&call->client->details);
	call->client->details = call->head.details;
	call->head.details = (struct details){.bytes = NULL};
	call->client->has_said = call->is_told;
	if (call->is_told)
		(void)memcpy(call->client->said, call->head.message, sizeof(call->client->said));
	client_call_unlink(call);
	call->ops->on_end(call, status, status == STATUS_OK ? NULL : err);
}

void client_call_on_header(struct h2_stream *stream, const uint8_t *name, size_t name_len,
			   const uint8_t *value, size_t value_len)
{
	struct client_call *call = stream->owner;

	response_head_add(&call->head, name, name_len, value, value_len);
}

bool client_call_on_headers(struct h2_stream *stream)
{
	struct client_call *call = stream->owner;

	if (stream->headers_in)
		return false;
	if (call->head.http_status >= 100 && call->head.http_status < 200) {
		response_head_release(&call->head);
		call->head = (struct response_head){0};
		return false;
	}
	call->accepted = call->head.http_status == 200 && call->head.is_grpc && !call->head.has_status;
	return true;
}

enum message_result client_call_read(struct client_call *call, ProtobufCMessage **ret, struct error *err)
{
	enum message_result result =
		message_read(&call->stream, call->method->output, call->client->message_bytes, ret, err);

	/* what a server would say of a request; here it must not look as if nothing had been done */
	if (result == MESSAGE_REFUSED && err->status == STATUS_UNIMPLEMENTED)
		(void)error_set(err, STATUS_INTERNAL, 0,
				"the answer is compressed, though identity was asked for");
	return result;
}

/* Has the server had its last word? */
static bool is_over(const struct client_call *call)
{
	return call->stream.in_end && call->stream.headers_in;
}

/* ... and is it an error of its own? */
static bool is_told(const struct client_call *call)
{
	return is_over(call) && response_head_is_told(&call->head);
}

/* How a call whose stream is closed went. */
static enum status result(const struct client_call *call, struct error *err)
{
	const struct client_conn *conn = call->conn;
	char name[CALL_NAME_SIZE];

	(void)client_call_name(call, name);
	if (is_over(call))
		return response_head_status(&call->head, name, err);
	if (clock_monotonic_us() >= call->deadline_us) /* the server's clock may have been quicker */
		return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
				 "%s: no answer in time; it may still be carried out", name);
	if (!conn->is_open) {
		(void)error_set(err, STATUS_UNAVAILABLE, 0, "%s: %s%s", name,
				conn->up ? "connection lost: " : "cannot connect: ", conn->why.msg);
		err->sys_errno = conn->why.sys_errno; /* its text is in the message already */
		return STATUS_UNAVAILABLE;
	}
	if (call->stream.close_code == NGHTTP2_REFUSED_STREAM)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "%s: the server takes no more calls on this connection%s%s", name,
				 h2_farewell(conn->h2)[0] != '\0' ? ": " : "", h2_farewell(conn->h2));
	return error_set(err, status_from_h2(call->stream.close_code), 0, "%s: %s: %s", name,
			 call->stream.was_reset ? "the server reset the call"
						: "the answer breaks the rules of HTTP/2",
			 nghttp2_http2_strerror(call->stream.close_code));
}

void client_call_on_ready(struct h2_stream *stream)
{
	struct client_call *call = stream->owner;
	struct error err;
	enum status st;

	if (!call->accepted)
		h2_stream_take(stream, byteq_len(&stream->in)); /* some page for people */
	else if (!call->ops->on_progress(call))
		return;
	/* a server may leave it at its last word without closing our half */
	if (!stream->closed && !is_over(call))
		return;
	call->is_told = is_told(call);
	st = result(call, &err);
	client_call_end(call, st, &err);
}
