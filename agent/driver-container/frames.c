/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

#include <arpa/inet.h>
#include <string.h>

static enum status parse_head(struct frames *frames, struct error *err)
{
	uint32_t length;

	if ((frames->head[0] != FRAMES_STDOUT && frames->head[0] != FRAMES_STDERR) || frames->head[1] != 0 ||
	    frames->head[2] != 0 || frames->head[3] != 0)
		return error_set(err, STATUS_INTERNAL, 0,
				 "the engine sent output that is not in frames (first byte %u)",
				 frames->head[0]);
	memcpy(&length, frames->head + 4, sizeof(length));
	frames->left = ntohl(length);
	return STATUS_OK;
}

enum status frames_next(struct frames *frames, const uint8_t *bytes, size_t n, size_t *ret_used,
			unsigned int *ret_stream, const uint8_t **ret_bytes, size_t *ret_n, struct error *err)
{
	size_t used = 0;
	size_t piece;

	while (frames->left == 0 && used < n) {

		frames->head[frames->n_head++] = bytes[used++];
		if (frames->n_head < FRAMES_HEAD)
			continue;
		frames->n_head = 0;
		TRY(parse_head(frames, err));
	}
	piece = n - used < frames->left ? n - used : frames->left;
	*ret_stream = frames->head[0];
	*ret_bytes = bytes + used;
	*ret_n = piece;
	frames->left -= (uint32_t)piece;
	*ret_used = used + piece;
	return STATUS_OK;
}

enum status frames_join(struct frames *frames, uint8_t *bytes, size_t n, size_t *ret_used,
			struct frames_run *run, struct error *err)
{
	*ret_used = 0;
	while (*ret_used < n) {
		const struct frames before = *frames;
		const uint8_t *piece;
		unsigned int stream;
		size_t used, n_piece;
		enum status status = frames_next(frames, bytes + *ret_used, n - *ret_used, &used, &stream,
						 &piece, &n_piece, err);

		if (run->n > 0 && (status != STATUS_OK || (n_piece > 0 && stream != run->stream))) {
			*frames = before; /* it comes next time */
			return STATUS_OK;
		}
		if (status != STATUS_OK)
			return status;
		if (run->n == 0)
			*run = (struct frames_run){stream, bytes + (piece - bytes), 0};
		else
			memmove(run->bytes + run->n, piece, n_piece);
		run->n += n_piece;
		*ret_used += used;
	}
	return STATUS_OK;
}
