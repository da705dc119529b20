/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a server's unary calls: Connect's unary protocol. */

#include "base/cleanup.h"
#include "base/str.h"
#include "pb/reflect.h"
#include "rpc/grpc_status.h"
#include "rpc/message.h"
#include "rpc/pbjson.h"
#include "rpc/plain_answer.h"
#include "rpc/server.h"
#include "rpc/server_internal.h"
#include "rpc/unpack.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static enum status parse_call(const struct rpc_call *call, ProtobufCMessage **ret, struct error *err)
{
	const struct byteq *in = &call->stream.in;
	cleanup(json_decrefp) json_t *json = NULL;

	if (byteq_len(in) == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the request is empty; a message without fields is {}");
	TRY(unpack_json("the request", (const char *)byteq_data(in), byteq_len(in), &json, err));
	return pbjson_decode(call->descriptor->input, json, 0, ret, err);
}

/* A page of another site can have a browser send any other content type with its user's certificate, and no
 * content at all. */
static enum status check_content_type(const struct rpc_call *call, int *ret_http, struct error *err)
{
	bool is_harmless = byteq_len(&call->stream.in) == 0 &&
			   (!call->head.is_of_page || str_eq(call->head.method, "GET"));

	if (call->head.kind == REQUEST_JSON || call->route->takes_any_type || is_harmless)
		return STATUS_OK;
	*ret_http = 415;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0,
			 "a body, and each change by a web page, must come with \"content-type: "
			 "application/json\"");
}

static enum status parse(struct rpc_call *call, ProtobufCMessage **ret, int *ret_http, struct error *err)
{
	const struct byteq *in = &call->stream.in;
	const struct route_body body = {
		.text = (const char *)byteq_data(in), .n = byteq_len(in), .secrets = call->head.secrets};
	enum status status;

	if (call->route) {
		TRY(check_content_type(call, ret_http, err));
		status = route_request(call->route, call->head.path,
				       call->descriptor ? call->descriptor->input : NULL, &body,
				       &call->pretty, ret, err);
	} else {
		status = parse_call(call, ret, err);
	}
	*ret_http = connect_http_status(status);
	return status;
}

enum message_result json_call_request(struct rpc_call *call, ProtobufCMessage **ret, int *ret_http,
				      struct error *err)
{
	size_t max = call->conn->server->limits.message_bytes;
	struct h2_stream *stream = &call->stream;

	*ret_http = connect_http_status(STATUS_RESOURCE_EXHAUSTED);
	if (byteq_len(&stream->in) > max || stream->in_overflow) {
		(void)error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				stream->in_overflow ? "too many bytes of requests are held already"
						    : "the request has more than %zu bytes",
				max);
		return MESSAGE_REFUSED;
	}
	if (!stream->in_end)
		return MESSAGE_NONE;
	if (parse(call, ret, ret_http, err) != STATUS_OK)
		return MESSAGE_REFUSED;
	h2_stream_take(stream, byteq_len(&stream->in));
	return MESSAGE_TAKEN;
}

static enum status respond_h2(struct rpc_call *call, const struct plain_answer *answer, struct error *err)
{
	const struct h2_bytes body = {answer->body, strlen(answer->body)};
	bool is_head = str_eq(call->head.method, "HEAD");
	char status[16];
	char length[24];
	nghttp2_nv headers[6];
	size_t n = 0;

	(void)snprintf(status, sizeof(status), "%d", answer->http_status);
	(void)snprintf(length, sizeof(length), "%zu", body.n);
	headers[n++] = h2_header(":status", status);
	headers[n++] = h2_header("content-type", answer->content_type);
	headers[n++] = h2_header("content-length", length);
	if (answer->allow[0] != '\0')
		headers[n++] = h2_header("allow", answer->allow);
	if (answer->index[0] != '\0') {
		headers[n++] = h2_header("x-holdfast-index", answer->index);
		headers[n++] = h2_header("x-nomad-index", answer->index);
	}
	/* the answer to HEAD has the length of a body without a body: a body is a protocol error */
	if (!is_head)
		TRY(h2_stream_write(&call->stream, &body, 1, err));
	call->headers_sent = true;
	h2_stream_respond(&call->stream, headers, n, !is_head);
	h2_stream_end(&call->stream);
	return STATUS_OK;
}

static enum status respond(struct rpc_call *call, const struct plain_answer *answer, struct error *err)
{
	if (!call->h1)
		return respond_h2(call, answer, err);
	/* an error is small, and the connection has to hear of it */
	if (answer->http_status == 200 &&
	    server_conn_hold(call->conn, strlen(answer->body), err) != STATUS_OK)
		return STATUS_RESOURCE_EXHAUSTED;
	h1_respond(call->h1, answer);
	return STATUS_OK;
}

/* The index of the answer, as text; empty if the route has no index. */
static void read_index(const struct rpc_call *call, const ProtobufCMessage *message,
		       struct plain_answer *answer)
{
	const char *name = call->route ? call->route->index : NULL;
	const ProtobufCFieldDescriptor *field =
		name ? protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name) : NULL;
	if (!field || field->type != PROTOBUF_C_TYPE_UINT64)
		return;
	(void)snprintf(answer->index, sizeof(answer->index), "%" PRIu64,
		       reflect_number(field->type, reflect_at(message, field)));
}

void json_call_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
	struct plain_answer answer = {.http_status = 200, .content_type = "application/json"};
	cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);
	unsigned int flags = PBJSON_DEFAULTS | PBJSON_PROTO_NAMES | (call->pretty ? PBJSON_LINES : 0);
	struct error err;
	enum status status;

	read_index(call, message, &answer);
	status = pbjson_print(message, flags, 0, &text, &err);
	if (call->pretty)
		strbuf_puts(&text, "\n");
	answer.body = text.data;
	if (status == STATUS_OK)
		status = text.error == 0 ? respond(call, &answer, &err)
					 : error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "print JSON");
	if (status != STATUS_OK) {
		(void)error_prefix(&err, "answer of %s", call->head.path);
		json_call_fail(call, connect_http_status(status), &err, NULL);
	}
}

void json_call_reply_text(struct rpc_call *call, const char *content_type, const char *text)
{
	struct error err;
	enum status status = respond(
		call, &(struct plain_answer){.http_status = 200, .content_type = content_type, .body = text},
		&err);

	if (status != STATUS_OK)
		json_call_fail(call, connect_http_status(status), &err, NULL);
}

static char *error_body(const struct rpc_call *call, const struct error *err, const ProtobufCMessage *details)
{
	cleanup(json_decrefp) json_t *json = NULL;

	if (!call->route || !call->route->error_name)
		return plain_error_body(err, details);
	json = json_pack("{s:s}", call->route->error_name, err->msg);
	return json ? json_dumps(json, JSON_COMPACT) : NULL;
}

void json_call_fail(struct rpc_call *call, int http_status, const struct error *err,
		    const ProtobufCMessage *details)
{
	cleanup_free char *body = error_body(call, err, details);
	struct plain_answer answer = {
		.http_status = http_status, .content_type = "application/json", .body = body ? body : "{}"};

	if (http_status == 405)
		(void)route_allow(call->allow ? call->allow : ROUTE_POST, answer.allow);
	if (respond(call, &answer, NULL) != STATUS_OK)
		h2_stream_reset(&call->stream, NGHTTP2_INTERNAL_ERROR);
}
