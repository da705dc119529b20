/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/grpc_frame.h"

enum grpc_frame_result grpc_frame_read(const uint8_t *bytes, size_t n, size_t max, struct grpc_frame *ret)
{
	size_t length;

	if (n > 0 && bytes[0] == 1)
		return GRPC_FRAME_COMPRESSED;
	if (n > 0 && bytes[0] != 0)
		return GRPC_FRAME_MALFORMED;
	if (n < GRPC_PREFIX_SIZE)
		return GRPC_FRAME_MORE;
	length = (size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 | bytes[4];
	if (length > max) {
		*ret = (struct grpc_frame){.message = NULL, .length = length};
		return GRPC_FRAME_TOO_LARGE;
	}
	if (n - GRPC_PREFIX_SIZE < length)
		return GRPC_FRAME_MORE;
	*ret = (struct grpc_frame){.message = bytes + GRPC_PREFIX_SIZE, .length = length};
	return GRPC_FRAME_MESSAGE;
}

void grpc_frame_prefix(uint8_t prefix[static GRPC_PREFIX_SIZE], uint32_t length)
{
	prefix[0] = 0;
	prefix[1] = (uint8_t)(length >> 24);
	prefix[2] = (uint8_t)(length >> 16);
	prefix[3] = (uint8_t)(length >> 8);
	prefix[4] = (uint8_t)length;
}
