/* The JSON form of a server's unary calls: Connect's unary protocol. */

#include "base/cleanup.h"
#include "base/utf8.h"
#include "rpc/grpc_status.h"
#include "rpc/message.h"
#include "rpc/pbjson.h"
#include "rpc/server_internal.h"

#include <errno.h>
#include <string.h>

static enum status parse(const struct rpc_call *call, ProtobufCMessage **ret, struct error *err)
{
	const struct byteq *in = &call->stream.in;
	cleanup(json_decrefp) json_t *json = NULL;
	json_error_t where;

	json = json_loadb((const char *)byteq_data(in), byteq_len(in), JSON_REJECT_DUPLICATES, &where);
	if (!json)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the request is no JSON: line %d column %d: %s", where.line, where.column,
				 where.text);
	return pbjson_decode(call->descriptor->input, json, 0, ret, err);
}

void json_call_receive(struct rpc_call *call)
{
	cleanup(message_freep) ProtobufCMessage *request = NULL;
	size_t max = call->conn->server->limits.message_bytes;
	struct h2_stream *stream = &call->stream;
	struct error err;

	if (byteq_len(&stream->in) > max || stream->in_overflow) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0, "the request has more than %zu bytes",
				max);
	} else if (!stream->in_end) {
		return;
	} else if (byteq_len(&stream->in) == 0) {
		(void)error_set(&err, STATUS_INVALID_ARGUMENT, 0,
				"the request is empty; a message without fields is {}");
	} else if (parse(call, &request, &err) == STATUS_OK) {
		h2_stream_take(stream, byteq_len(&stream->in));
		server_call_handle(call, request);
		return;
	}
	json_call_fail(call, connect_http_status(err.status), &err, NULL);
	call->state = CALL_ENDED;
}

static enum status respond(struct rpc_call *call, int http_status, const char *body, struct error *err)
{
	char status[16];
	char length[24];
	nghttp2_nv headers[4];
	size_t n = 0;
	enum status st;

	if (call->h1) {
		h1_respond(call->h1, http_status, body);
		return STATUS_OK;
	}
	(void)snprintf(status, sizeof(status), "%d", http_status);
	(void)snprintf(length, sizeof(length), "%zu", strlen(body));
	headers[n++] = h2_header(":status", status);
	headers[n++] = h2_header("content-type", "application/json");
	headers[n++] = h2_header("content-length", length);
	if (http_status == 405)
		headers[n++] = h2_header("allow", "POST");
	st = h2_stream_write(&call->stream, &(struct h2_bytes){body, strlen(body)}, 1, err);
	if (st != STATUS_OK)
		return st;
	call->headers_sent = true;
	h2_stream_respond(&call->stream, headers, n, true);
	h2_stream_end(&call->stream);
	return STATUS_OK;
}

void json_call_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *text = NULL;
	struct error err;
	enum status st;

	st = pbjson_encode(message, PBJSON_DEFAULTS | PBJSON_PROTO_NAMES, &json, &err);
	if (st == STATUS_OK) {
		text = json_dumps(json, JSON_COMPACT);
		st = text ? respond(call, 200, text, &err)
			  : error_set(&err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "print JSON");
	}
	if (st != STATUS_OK) {
		(void)error_prefix(&err, "answer of %s", call->head.path);
		json_call_fail(call, connect_http_status(st), &err, NULL);
	}
}

char *json_error_body(const struct error *err, const ProtobufCMessage *details)
{
	const char *message = utf8_is_valid(err->msg, strlen(err->msg))
				      ? err->msg
				      : "the error's message is no text that JSON could carry";
	cleanup(json_decrefp) json_t *json =
		json_pack("{s:s, s:s}", "code", connect_code(err->status), "message", message);
	cleanup(json_decrefp) json_t *more = NULL;

	if (!json)
		return NULL;
	/* what cannot be encoded is left out: the message says the same */
	if (details && pbjson_encode(details, PBJSON_PROTO_NAMES, &more, NULL) == STATUS_OK)
		(void)json_object_set(json, "details", more);
	return json_dumps(json, JSON_COMPACT);
}

void json_call_fail(struct rpc_call *call, int http_status, const struct error *err,
		    const ProtobufCMessage *details)
{
	cleanup_free char *body = json_error_body(err, details);

	if (respond(call, http_status, body ? body : "{}", NULL) != STATUS_OK)
		h2_stream_reset(&call->stream, NGHTTP2_INTERNAL_ERROR);
}
