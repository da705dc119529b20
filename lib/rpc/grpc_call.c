/* SPDX-License-Identifier: Apache-2.0 */
/* The gRPC form of a server's calls: frames in, frames and trailers out. */

#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/base64.h"
#include "rpc/grpc_status.h"
#include "rpc/message.h"
#include "rpc/pack.h"
#include "rpc/response_head.h"
#include "rpc/server.h"
#include "rpc/server_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	STATUS_TEXT_SIZE = 4,
	STATUS_FIELDS = 4,
	/* grpc-core accepts 8 KiB in total, names and overhead included. */
	STATUS_BYTES = 8 * 1024 - 512,
};

/* The one message of a unary call and nothing after it; the handler is not bothered before. */
enum message_result grpc_call_request(struct rpc_call *call, ProtobufCMessage **ret, struct error *err)
{
	size_t max = call->conn->server->limits.message_bytes;
	struct h2_stream *stream = &call->stream;
	size_t size = 0;
	enum message_result result = message_peek(stream, max, &size, err);

	if (result == MESSAGE_REFUSED)
		return result;
	if (result == MESSAGE_TAKEN && byteq_len(&stream->in) > size) {
		(void)error_set(err, STATUS_UNIMPLEMENTED, 0, "%s takes one message, not more",
				call->head.path);
		return MESSAGE_REFUSED;
	}
	if (!stream->in_end)
		return MESSAGE_NONE;
	if (result == MESSAGE_NONE) {
		(void)error_set(err, STATUS_INVALID_ARGUMENT, 0, "the request ended before its message did");
		return MESSAGE_REFUSED;
	}
	return message_read(stream, call->descriptor->input, max, ret, err);
}

void grpc_call_open(struct rpc_call *call)
{
	const nghttp2_nv headers[] = {
		h2_header(":status", "200"),
		h2_header("content-type", "application/grpc"),
		h2_header("grpc-accept-encoding", "identity"),
	};

	if (call->headers_sent)
		return;
	call->headers_sent = true;
	call->stream.trailers = true;
	h2_stream_respond(&call->stream, headers, ARRAY_SIZE(headers), true);
}

enum status grpc_call_send(struct rpc_call *call, const ProtobufCMessage *message, struct error *err)
{
	TRY(message_write(&call->stream, message, err));
	grpc_call_open(call);
	return STATUS_OK;
}

void grpc_call_reply(struct rpc_call *call, const ProtobufCMessage *message)
{
	struct error err;

	if (message_write(&call->stream, message, &err) == STATUS_OK) {
		grpc_call_open(call);
		h2_stream_end(&call->stream);
	} else {
		(void)error_prefix(&err, "answer of %s", call->head.path);
		grpc_call_end(call, err.status, err.msg);
	}
}

/* grpc-status and, if there are any, grpc-message and details; the texts must live as long as @headers. */
static size_t status_headers(nghttp2_nv headers[static STATUS_FIELDS], char text[static STATUS_TEXT_SIZE],
			     const struct rpc_call *call, enum status status, const char *message,
			     const char *details)
{
	size_t n = 0;

	(void)snprintf(text, STATUS_TEXT_SIZE, "%d", (int)status);
	headers[n++] = h2_header("grpc-status", text);
	if (message && message[0])
		headers[n++] = h2_header("grpc-message", message);
	if (call->has_changed_nothing)
		headers[n++] = h2_header(RPC_UNCHANGED_HEADER, "1");
	if (details)
		headers[n++] = h2_header("holdfast-error-details-bin", details);
	return n;
}

void grpc_call_trailers(struct rpc_call *call)
{
	char text[STATUS_TEXT_SIZE];
	nghttp2_nv headers[STATUS_FIELDS];
	size_t n =
		status_headers(headers, text, call, call->end_status, call->end_message, call->end_details);

	h2_stream_trailers(&call->stream, headers, n);
}

/* The details as text; NULL without details, without memory, or if they need more than @room. */
static char *encode_details(const ProtobufCMessage *details, size_t room)
{
	size_t n = details ? protobuf_c_message_get_packed_size(details) : 0;
	cleanup_free uint8_t *packed = NULL;
	char *text;

	if (n == 0 || BASE64_SIZE(n) > room)
		return NULL;
	packed = pack_message(details, 0, &n);
	text = packed ? malloc(BASE64_SIZE(n)) : NULL;
	if (!text)
		return NULL;
	base64_encode(text, packed, n);
	return text;
}

void grpc_call_end_details(struct rpc_call *call, const struct error *err, const ProtobufCMessage *details)
{
	cleanup_free char *more = NULL;
	char encoded[GRPC_MESSAGE_SIZE];
	char text[STATUS_TEXT_SIZE];
	nghttp2_nv headers[3 + STATUS_FIELDS] = {
		h2_header(":status", "200"),
		h2_header("content-type", "application/grpc"),
		h2_header("grpc-accept-encoding", "identity"),
	};

	more = encode_details(details,
			      STATUS_BYTES - grpc_message_encode(encoded, sizeof(encoded), err->msg));
	if (call->headers_sent) {
		call->end_status = err->status;
		call->end_message = strdup(encoded); /* memory short: the status goes without it */
		call->end_details = TAKE_PTR(more);
		h2_stream_end(&call->stream);
		return;
	}
	call->headers_sent = true;
	h2_stream_respond(&call->stream, headers,
			  3 + status_headers(headers + 3, text, call, err->status, encoded, more), false);
}

void grpc_call_end(struct rpc_call *call, enum status status, const char *message)
{
	struct error err = {.status = status};

	(void)str_copy(err.msg, sizeof(err.msg), message);
	grpc_call_end_details(call, &err, NULL);
}
