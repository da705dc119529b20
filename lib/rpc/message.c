/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/message.h"

#include "base/cleanup.h"
#include "rpc/grpc_frame.h"
#include "rpc/message_text.h"
#include "rpc/pack.h"
#include "rpc/unpack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum status message_write(struct h2_stream *stream, const ProtobufCMessage *message, struct error *err)
{
	size_t n = 0;
	cleanup_free uint8_t *framed = pack_message(message, GRPC_PREFIX_SIZE, &n);
	enum status status;

	if (!framed)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "send a message");
	if (n > UINT32_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "a message of %zu bytes is too large", n);
	grpc_frame_prefix(framed, (uint32_t)n);
	status = h2_stream_write(stream, &(const struct h2_bytes){.bytes = framed, .n = GRPC_PREFIX_SIZE + n},
				 1, err);
	explicit_bzero(framed, GRPC_PREFIX_SIZE + n);
	return status;
}

static enum message_result grpc_frame_look(const struct h2_stream *stream, size_t max,
					   struct grpc_frame *frame, struct error *err)
{
	switch (grpc_frame_read(byteq_data(&stream->in), byteq_len(&stream->in), max, frame)) {
	case GRPC_FRAME_MESSAGE:
		return MESSAGE_TAKEN;
	case GRPC_FRAME_TOO_LARGE:
		(void)error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				"the message has %zu bytes, the limit is %zu", frame->length, max);
		break;
	case GRPC_FRAME_COMPRESSED:
		(void)error_set(
			err, STATUS_UNIMPLEMENTED, 0,
			"compressed messages are not supported, send them with the encoding identity");
		break;
	case GRPC_FRAME_MALFORMED:
		(void)error_set(err, STATUS_INTERNAL, 0, "the message has a frame that is not gRPC's");
		break;
	case GRPC_FRAME_MORE:
		if (!stream->in_overflow)
			return MESSAGE_NONE;
		(void)error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				"too many bytes of messages wait on this connection");
		break;
	}
	return MESSAGE_REFUSED;
}

enum message_result message_peek(const struct h2_stream *stream, size_t max, size_t *ret_size,
				 struct error *err)
{
	struct grpc_frame frame = {0};
	enum message_result result = grpc_frame_look(stream, max, &frame, err);

	if (result == MESSAGE_TAKEN)
		*ret_size = GRPC_PREFIX_SIZE + frame.length;
	return result;
}

enum message_result message_read(struct h2_stream *stream, const ProtobufCMessageDescriptor *type, size_t max,
				 ProtobufCMessage **ret, struct error *err)
{
	struct grpc_frame frame = {0};
	enum message_result result = grpc_frame_look(stream, max, &frame, err);
	ProtobufCMessage *message;
	const char *field = NULL;
	enum status status;

	if (result == MESSAGE_NONE)
		h2_stream_want_more(stream);
	if (result != MESSAGE_TAKEN)
		return result;
	status = unpack_message(type, frame.message, frame.length, max, &message, err);
	h2_stream_take(stream, GRPC_PREFIX_SIZE + frame.length);
	if (status != STATUS_OK)
		return MESSAGE_REFUSED;
	if (!message_text_is_valid(message, &field)) {
		(void)error_set(err, STATUS_INTERNAL, 0, "the message is no valid %s: %s is not UTF-8",
				type->name, field);
		message_freep(&message);
		return MESSAGE_REFUSED;
	}
	*ret = message;
	return MESSAGE_TAKEN;
}
