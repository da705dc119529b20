/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One protobuf message as a gRPC frame. */

#include "base/error.h"
#include "rpc/h2.h"
#include "rpc/message_text.h"

#include <protobuf-c/protobuf-c.h>

/** Add @message to the body of @stream; statuses of h2_stream_write(). */
enum status message_write(struct h2_stream *stream, const ProtobufCMessage *message, struct error *err);

enum message_result {
	MESSAGE_NONE,	/* not all of it is here yet */
	MESSAGE_TAKEN,	/* *ret is set, its bytes are taken from the stream */
	MESSAGE_REFUSED /* @err has the cause; this stream cannot continue */
};

/** Is there a whole message at the front of the received bytes of @stream? MESSAGE_TAKEN means yes, and
 * @ret_size is its size on the wire; nothing is taken. */
enum message_result message_peek(const struct h2_stream *stream, size_t max, size_t *ret_size,
				 struct error *err);

/** Take the next message received on @stream.
 * @max largest message in bytes
 * @ret owned by the caller, message_freep() */
enum message_result message_read(struct h2_stream *stream, const ProtobufCMessageDescriptor *type, size_t max,
				 ProtobufCMessage **ret, struct error *err);

/** Received bytes may be secret: they are wiped. */
static inline void message_freep(ProtobufCMessage **message)
{
	if (*message)
		message_text_wipe(*message);
	protobuf_c_message_free_unpacked(*message, NULL);
}
