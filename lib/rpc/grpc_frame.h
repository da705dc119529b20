/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Length-prefixed messages of gRPC: one flag byte, four bytes of length in network order, the message.
 *
 * Pure. Source: grpc/doc/PROTOCOL-HTTP2.md, Length-Prefixed-Message. */

#include <stddef.h>
#include <stdint.h>

enum { GRPC_PREFIX_SIZE = 5 };

enum grpc_frame_result {
	GRPC_FRAME_MORE,       /* not all of it is here yet */
	GRPC_FRAME_MESSAGE,    /* a whole message */
	GRPC_FRAME_TOO_LARGE,  /* its announced length is above the limit; decided by the prefix */
	GRPC_FRAME_COMPRESSED, /* it is flagged as compressed, which was not negotiated */
	GRPC_FRAME_MALFORMED,  /* a flag byte that does not exist */
};

struct grpc_frame {
	const uint8_t *message; /* inside the bytes given */
	size_t length;		/* of the message, as announced; set with MESSAGE and TOO_LARGE */
};

/** Look at the first frame in @bytes. The members describe when @ret is set. */
enum grpc_frame_result grpc_frame_read(const uint8_t *bytes, size_t n, size_t max, struct grpc_frame *ret);

/** Write the prefix of an uncompressed message of @length bytes. */
void grpc_frame_prefix(uint8_t prefix[static GRPC_PREFIX_SIZE], uint32_t length);
