/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in pieces: what a whole buffer gives, its pieces give too, and nothing is read past the end. */

#include "rpc/grpc_frame.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct grpc_frame whole = {0};
	enum grpc_frame_result result;
	size_t max;

	if (size < 2)
		return 0;
	max = (size_t)data[0] << 8 | data[1];
	data += 2;
	size -= 2;
	result = grpc_frame_read(data, size, max, &whole);
	if (result == GRPC_FRAME_MESSAGE &&
	    (whole.length > max || whole.message + whole.length > data + size ||
	     whole.length + GRPC_PREFIX_SIZE > size))
		abort();
	if (result == GRPC_FRAME_TOO_LARGE && whole.length <= max)
		abort();
	for (size_t n = 0; n < size; n++) {
		struct grpc_frame part = {0};
		enum grpc_frame_result cut = grpc_frame_read(data, n, max, &part);

		if (cut != GRPC_FRAME_MORE && (cut != result || part.length != whole.length))
			abort();
	}
	return 0;
}
